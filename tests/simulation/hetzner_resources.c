/* hetzner_resources.c: what requests for all kinds of resources share, and the requests for servers
 * and certificates. */
#include <string.h>

#include "hetzner_internal.h"

#define VALID_NS (90 * 86400 * NS_PER_SECOND)

/* ---- any resource ---- */

bool
hm_get(struct hm_call *call, enum hetzner_kind kind, struct hetzner_resource **ret)
{
	static const char *const words[HETZNER_N_KINDS] = { "server", "network", "load balancer",
		                                            "certificate", "primary ip" };
	struct hetzner_resource *found = NULL;
	int64_t id;

	if (str_is_digits(call->id) && str_to_i64(call->id, 0, INT64_MAX, &id))
		found = hetzner_find(&call->p->base, kind, id);
	if (!found || (kind == HETZNER_SERVER && found->id == call->h->settings.hidden_server))
		return hm_refuse(call, "not_found", "%s with ID '%" STR_FMT "' not found",
		                 words[kind], STR_ARG(call->id));
	*ret = found;
	return true;
}

bool
hm_answer_resource(struct hm_call *call, const struct hetzner_resource *resource)
{
	struct buf *b = &call->answer->body;

	json_begin_object(b, NULL);
	hm_add_resource_json(call->p, b, hm_kind_names[resource->kind], resource);
	json_end_object(b);
	return true;
}

static bool
hm_show(struct hm_call *call, enum hetzner_kind kind)
{
	struct hetzner_resource *resource;

	return hm_get(call, kind, &resource) && hm_answer_resource(call, resource);
}

bool
hm_check_unique(struct hm_call *call, enum hetzner_kind kind, struct str name,
                const struct hetzner_resource *but)
{
	const struct hetzner_resource *other = hetzner_find_named(&call->p->base, kind, name);

	if (!other || other == but)
		return true;
	return hm_refuse_used_name(call, name);
}

struct label *
hm_read_labels(struct hm_call *call, size_t *ret_n)
{
	yyjson_val *labels = yyjson_obj_get(call->body, "labels"), *key, *value;
	struct label *read = arena_calloc(&call->h->arena, yyjson_obj_size(labels), sizeof(*read));
	size_t i, n;

	yyjson_obj_foreach(labels, i, n, key, value)
	{
		read[i].key = arena_str(&call->h->arena, json_text(key));
		read[i].value = arena_str(&call->h->arena, json_text(value));
	}
	*ret_n = yyjson_obj_size(labels);
	return read;
}

/* ---- servers ---- */

bool
hm_list_servers(struct hm_call *call)
{
	return hm_answer_resources(call, HETZNER_SERVER);
}

bool
hm_show_server(struct hm_call *call)
{
	return hm_show(call, HETZNER_SERVER);
}

/* ---- networks: hetzner_networks.c has their routes ---- */

bool
hm_list_networks(struct hm_call *call)
{
	return hm_answer_resources(call, HETZNER_NETWORK);
}

bool
hm_show_network(struct hm_call *call)
{
	return hm_show(call, HETZNER_NETWORK);
}

/* ---- certificates ---- */

bool
hm_list_certificates(struct hm_call *call)
{
	return hm_answer_resources(call, HETZNER_CERTIFICATE);
}

bool
hm_show_certificate(struct hm_call *call)
{
	return hm_show(call, HETZNER_CERTIFICATE);
}

/* What the certification authority does in the end. */
static void
hm_issue(struct hetzner *h, struct hm_project *p, const struct hm_effect *effect,
         const struct hm_who *who)
{
	struct hetzner_certificate *one = (struct hetzner_certificate *)
		hetzner_find(&p->base, HETZNER_CERTIFICATE, effect->id);
	struct hetzner_certificate before;

	if (!one)
		return;
	before = *one;
	one->issuance = STR("completed");
	one->valid_from_ns = h->now_ns;
	one->valid_to_ns = h->now_ns + VALID_NS;
	hm_report(h, p, who, &before.base, &one->base);
}

static size_t
hm_count_orders(const struct hm_project *p, int64_t since_ns)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_managed && i < HM_MANAGED_AN_HOUR; i++)
		n += p->managed_ns[i] > since_ns;
	return n;
}

static struct hetzner_certificate *
hm_make_certificate(struct hm_call *call, yyjson_val *domains)
{
	struct hetzner_certificate *one = ARENA_NEW(&call->h->arena, struct hetzner_certificate);
	struct str name = STR_EMPTY;
	yyjson_val *domain;
	size_t i, n;

	json_str(call->body, "name", &name);
	hm_init_resource(call->h, &one->base, HETZNER_CERTIFICATE, name, NULL, 0);
	one->base.labels = hm_read_labels(call, &one->base.n_labels);
	one->is_managed = true;
	one->domains = arena_calloc(&call->h->arena, yyjson_arr_size(domains), sizeof(struct str));
	yyjson_arr_foreach(domains, i, n, domain)
		one->domains[one->n_domains++] = arena_str(&call->h->arena, json_text(domain));
	one->issuance = hm_is_doomed_to_fail(call->p, "create_certificate") ? STR("failed")
	                                                                    : STR("pending");
	hm_add_resource(call->p, &one->base);
	hm_report(call->h, call->p, &call->who, NULL, &one->base);
	return one;
}

/* Orders a managed certificate: those that ccmd uses are either ordered by it or uploaded by a
 * person. */
bool
hm_order_certificate(struct hm_call *call)
{
	yyjson_val *domains = yyjson_obj_get(call->body, "domain_names");
	struct str name = STR_EMPTY, type = STR_EMPTY;
	struct hm_effect effect = { .apply = hm_issue };
	const struct hetzner_action *action;
	struct hetzner_certificate *one;
	struct buf *b = &call->answer->body;

	json_str(call->body, "name", &name);
	if (!hm_check_unique(call, HETZNER_CERTIFICATE, name, NULL))
		return false;
	json_str(call->body, "type", &type);
	if (!str_eq_c(type, "managed"))
		return hm_refuse_unsupported(call, "POST of an uploaded certificate");
	if (yyjson_arr_size(domains) == 0)
		return hm_refuse_field(call, "domain_names",
		                       "is required for managed certificates");
	if (hm_count_orders(call->p, call->h->now_ns - 3600 * NS_PER_SECOND) >= HM_MANAGED_AN_HOUR)
		return hm_refuse(call, "resource_limit_exceeded",
		                 "cannot create more than %d managed certificates per hour",
		                 HM_MANAGED_AN_HOUR);
	call->p->managed_ns[call->p->n_managed++ % HM_MANAGED_AN_HOUR] = call->h->now_ns;
	one = hm_make_certificate(call, domains);
	effect.id = one->base.id;
	action = hm_act(call, "create_certificate", &one->base, NULL, &effect);
	json_begin_object(b, NULL);
	hm_add_resource_json(call->p, b, "certificate", &one->base);
	hm_add_action(call, b, "action", action);
	json_end_object(b);
	return true;
}
