/* Answers of Hetzner Cloud about a load balancer, its type, a Primary IP, a certificate and an
 * action. Each is refused with a reason, or all texts are there, and no count is larger than its
 * array. */
#include <assert.h>
#include <string.h>

#include "providers/hcloud/actions.h"
#include "providers/hcloud/lb_primary.h"
#include "providers/hcloud/lb_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t
size_at(yyjson_val *root, const char *path)
{
	return yyjson_arr_size(json_at(root, path));
}

static void
check_service(const struct hz_lb_service *one)
{
	assert(one->protocol.ptr && one->check.protocol.ptr && one->check.path.value.ptr);
	assert(one->has_http || one->http.n_certificates == 0);
	for (size_t i = 0; i < one->check.n_status_codes; i++)
		assert(one->check.status_codes[i].ptr);
}

static void
check_lb(yyjson_val *root, const struct hz_lb *lb)
{
	assert(lb->id > 0 && lb->name.ptr && lb->uid.ptr && lb->type.name.ptr && lb->ipv4.ip.ptr);
	assert(lb->n_services <= size_at(root, "services"));
	assert(lb->n_targets == size_at(root, "targets"));
	assert(lb->nets.n <= size_at(root, "private_net"));
	for (size_t i = 0; i < lb->n_labels; i++)
		assert(lb->labels[i].key.ptr && lb->labels[i].value.ptr);
	for (size_t i = 0; i < lb->n_services; i++)
		check_service(&lb->services[i]);
	for (size_t i = 0; i < lb->n_targets; i++) {
		assert(lb->targets[i].ip.ptr && lb->targets[i].detail.ptr);
		assert(lb->targets[i].health == HZ_UNHEALTHY || lb->targets[i].detail.len == 0);
	}
}

static void
check_primary_ip(const struct hz_primary_ip *ip)
{
	assert(ip->id > 0 && ip->name.ptr && ip->ip.ptr && ip->type.ptr && ip->location.ptr &&
	       ip->network_zone.ptr && ip->assignee_type.ptr);
}

static void
check_reason(const struct error *err)
{
	assert(err->code != ERR_NONE && strlen(err->msg) > 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct hz_certificate certificate;
	struct hz_primary_ip ip;
	struct hz_action action;
	struct hz_lb_type type;
	struct hz_lb lb;
	struct error err;
	yyjson_val *root;

	if (!json_parse(str_n((const char *)data, size), &doc, &err))
		return 0;
	root = yyjson_doc_get_root(doc);
	if (hz_lb_read(root, &arena, &lb, &err))
		check_lb(root, &lb);
	else
		check_reason(&err);
	if (hz_primary_ip_read(root, &arena, &ip, &err))
		check_primary_ip(&ip);
	else
		check_reason(&err);
	if (!hz_lb_type_read(root, &arena, &type, &err) ||
	    !hz_certificate_read(root, &arena, &certificate, &err) ||
	    !hz_action_read(root, &action, &err))
		check_reason(&err);
	return 0;
}
