/* hetzner_primary_ips.c: Primary IPs, and the balancers that have them.
 *
 * The codes of refusals are those of servers, because those of balancers are not documented.
 */
#include "hetzner_internal.h"

#include <stdlib.h>

static struct hetzner_primary_ip *
hm_find_primary_ip(const struct hm_project *p, int64_t id)
{
	return (struct hetzner_primary_ip *)hetzner_find(&p->base, HETZNER_PRIMARY_IP, id);
}

static const char *
hm_type_of(bool is_ipv6)
{
	return is_ipv6 ? "ipv6" : "ipv4";
}

/* ---- shown ---- */

bool
hm_list_primary_ips(struct hm_call *call)
{
	return hm_answer_resources(call, HETZNER_PRIMARY_IP);
}

bool
hm_show_primary_ip(struct hm_call *call)
{
	struct hetzner_resource *one;

	return hm_get(call, HETZNER_PRIMARY_IP, &one) && hm_answer_resource(call, one);
}

void
hm_add_primary_ip(struct buf *b, const struct hetzner_primary_ip *one)
{
	json_add_text(b, "ip", one->ip);
	json_add_text(b, "type", str_c(hm_type_of(one->is_ipv6)));
	if (one->balancer > 0)
		json_add_number(b, "assignee_id", one->balancer);
	else
		json_add_raw(b, "assignee_id", STR("null"));
	json_add_text(b, "assignee_type", one->balancer > 0 ? STR("load_balancer") : STR("server"));
	json_add_flag(b, "auto_delete", one->goes_with_it);
	json_add_flag(b, "blocked", one->is_blocked);
	hm_add_location(b, "location", one->location);
	json_add_raw(b, "dns_ptr", STR("[]"));
	json_begin_object(b, "protection");
	json_add_flag(b, "delete", one->base.is_protected);
	json_end_object(b);
}

/* ---- of balancers ---- */

/* *ret: NULL if the body names none. */
static bool
hm_read_primary_ip(struct hm_call *call, const struct hetzner_balancer *lb, bool is_ipv6,
                   struct hetzner_primary_ip **ret)
{
	yyjson_val *wanted = json_at(call->body, is_ipv6 ? "public_net.ipv6" : "public_net.ipv4");
	const char *field = is_ipv6 ? "public_net.ipv6" : "public_net.ipv4";
	int64_t id = yyjson_get_sint(wanted);
	struct hetzner_primary_ip *one = hm_find_primary_ip(call->p, id);

	*ret = NULL;
	if (!yyjson_is_int(wanted))
		return true;
	if (!lb->is_public)
		return hm_refuse_field(call, "public_net",
		                       "is not possible with a disabled public interface");
	if (!one)
		return hm_refuse_field(call, field, "primary IP with ID %lld not found",
		                       (long long)id);
	if (one->is_ipv6 != is_ipv6)
		return hm_refuse(call, "primary_ip_version_mismatch", "primary IP %lld has type %s",
		                 (long long)id, hm_type_of(one->is_ipv6));
	if (one->location != lb->location)
		return hm_refuse(call, "primary_ip_datacenter_mismatch", "primary IP %lld is in %s",
		                 (long long)id, one->location->name);
	if (one->balancer != 0)
		return hm_refuse(call, "primary_ip_assigned", "primary IP %lld is already assigned",
		                 (long long)id);
	*ret = one;
	return true;
}

static int64_t
hm_assign(struct hm_call *call, struct hetzner_primary_ip *one, int64_t balancer)
{
	struct hetzner_primary_ip before;

	if (!one)
		return 0;
	before = *one;
	one->balancer = balancer;
	hm_report(call->h, call->p, &call->who, &before.base, &one->base);
	return one->base.id;
}

bool
hm_take_primary_ips(struct hm_call *call, struct hetzner_balancer *lb)
{
	struct hetzner_primary_ip *ipv4, *ipv6;

	if (yyjson_obj_get(call->body, "public_net") && call->h->settings.refuses_primary_ips)
		return hm_refuse_field(call, "public_net", "unknown field");
	if (!hm_read_primary_ip(call, lb, /*is_ipv6=*/false, &ipv4) ||
	    !hm_read_primary_ip(call, lb, /*is_ipv6=*/true, &ipv6))
		return false;
	lb->ipv4_id = hm_assign(call, ipv4, lb->base.id);
	lb->ipv6_id = hm_assign(call, ipv6, lb->base.id);
	return true;
}

/* Of an IPv6 network a balancer has the first address. */
bool
hm_primary_address(struct hetzner *h, const struct hm_project *p, int64_t id, struct str *ret)
{
	const struct hetzner_primary_ip *one = hm_find_primary_ip(p, id);
	struct str network, bits;

	if (!one)
		return false;
	*ret = one->ip;
	if (one->is_ipv6 && str_cut(one->ip, '/', &network, &bits))
		*ret = arena_printf(&h->arena, "%" STR_FMT "1", STR_ARG(network));
	return true;
}

bool
hm_is_blocked(const struct hm_project *p, int64_t id)
{
	const struct hetzner_primary_ip *one = hm_find_primary_ip(p, id);

	return one && one->is_blocked;
}

void
hm_free_primary_ips(struct hetzner *h, struct hm_project *p, const struct hm_who *who,
                    int64_t balancer)
{
	for (size_t i = p->base.n_of[HETZNER_PRIMARY_IP]; i-- > 0;) {
		struct hetzner_primary_ip *one = (struct hetzner_primary_ip *)
		                                         p->base.of[HETZNER_PRIMARY_IP][i];
		struct hetzner_primary_ip before = *one;

		if (one->balancer != balancer)
			continue;
		one->balancer = 0;
		if (one->goes_with_it)
			hm_remove_resource(p, &one->base);
		hm_report(h, p, who, &before.base, one->goes_with_it ? NULL : &one->base);
	}
}

/* ---- for actors ---- */

struct hetzner_primary_ip *
hetzner_add_primary_ip(struct hetzner *h, struct hetzner_project *project, struct str name,
                       bool is_ipv6, const char *location)
{
	struct hm_project *p = hm_project(project);
	struct hetzner_primary_ip *one = ARENA_NEW(&h->arena, struct hetzner_primary_ip);
	struct hm_who who = { .command = STR("create_primary_ip") };
	struct str ipv4, ipv6;

	hm_init_resource(h, &one->base, HETZNER_PRIMARY_IP, name, NULL, 0);
	one->location = hm_locations;
	while (location && !str_eq_c(str_c(location), one->location->name))
		one->location++;
	one->is_ipv6 = is_ipv6;
	hm_public_pair(h, p, "/64", &ipv4, &ipv6);
	one->ip = is_ipv6 ? ipv6 : ipv4;
	hm_add_resource(p, &one->base);
	hm_report(h, p, &who, NULL, &one->base);
	return one;
}
