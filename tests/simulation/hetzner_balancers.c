/* hetzner_balancers.c: load balancers: create, list, read, update, delete. */
#include "hetzner_internal.h"

bool
hm_list_balancers(struct hm_call *call)
{
	return hm_answer_resources(call, HETZNER_BALANCER);
}

bool
hm_show_balancer(struct hm_call *call)
{
	struct hetzner_resource *lb;

	return hm_get(call, HETZNER_BALANCER, &lb) && hm_answer_resource(call, lb);
}

/* ---- create ---- */

/* "7" or "'lb99'", for a message. */
static struct str
hm_quoted(struct hm_call *call, yyjson_val *wanted)
{
	if (yyjson_is_int(wanted))
		return arena_printf(&call->arena, "'%lld'", (long long)yyjson_get_sint(wanted));
	return arena_printf(&call->arena, "'%" STR_FMT "'", STR_ARG(json_text(wanted)));
}

static bool
hm_read_type(struct hm_call *call, const struct hetzner_balancer_type **ret)
{
	yyjson_val *wanted = yyjson_obj_get(call->body, "load_balancer_type");
	const struct hetzner_balancer_type *type = hm_find_type(call->h, wanted);

	if (!type)
		return hm_refuse_field(call, "load_balancer_type",
		                       "load_balancer_type %" STR_FMT " not found",
		                       STR_ARG(hm_quoted(call, wanted)));
	if (type->unavailable_ns != 0 && type->unavailable_ns < call->h->now_ns)
		return hm_refuse_field(call, "load_balancer_type", "%s is unavailable", type->name);
	*ret = type;
	return true;
}

static bool
hm_read_location(struct hm_call *call, const struct hetzner_location **ret)
{
	yyjson_val *wanted = yyjson_obj_get(call->body, "location");
	struct str zone = STR_EMPTY;

	json_str(call->body, "network_zone", &zone);
	if (!wanted == (zone.len == 0))
		return hm_refuse_field(call, "location",
		                       "exactly one of location and network_zone is required");
	if (wanted) {
		*ret = hm_find_location(wanted);
		return *ret || hm_refuse_field(call, "location", "location %" STR_FMT " not found",
		                               STR_ARG(hm_quoted(call, wanted)));
	}
	*ret = hm_locations;
	while (!str_eq_c(zone, (*ret)->zone))
		(*ret)++;
	return true;
}

bool
hm_network_of_body(struct hm_call *call, struct hetzner_network **ret)
{
	int64_t id = 0;

	json_i64(call->body, "network", &id);
	*ret = hm_find_network(call->p, id);
	return *ret ||
	       hm_refuse_field(call, "network", "network with ID %lld not found", (long long)id);
}

static bool
hm_read_network(struct hm_call *call, struct hetzner_balancer *lb)
{
	struct hm_wish wish = { .zone = lb->location->zone };
	struct hetzner_network *network;
	struct hm_refusal why;

	if (!yyjson_obj_get(call->body, "network"))
		return true;
	if (!hm_network_of_body(call, &network))
		return false;
	lb->networks = ARENA_NEW(&call->h->arena, struct hetzner_member);
	if (!hm_choose_ip(call->h, call->p, network, &wish, lb->networks, &why))
		return hm_refuse_because(call, &why);
	lb->n_networks = 1;
	return true;
}

/* Each service and target is checked beside those before it. */
static bool
hm_read_parts(struct hm_call *call, struct hetzner_balancer *lb)
{
	yyjson_val *services = yyjson_obj_get(call->body, "services");
	yyjson_val *targets = yyjson_obj_get(call->body, "targets"), *one;
	struct arena *arena = &call->h->arena;
	size_t i, n;

	lb->services = arena_calloc(arena, yyjson_arr_size(services), sizeof(*lb->services));
	yyjson_arr_foreach(services, i, n, one)
	{
		if (!hm_new_service(call, lb, one, &lb->services[lb->n_services]))
			return false;
		lb->n_services++;
	}
	lb->targets = arena_calloc(arena, yyjson_arr_size(targets), sizeof(*lb->targets));
	yyjson_arr_foreach(targets, i, n, one)
	{
		if (!hm_new_target(call, lb, one, &lb->targets[lb->n_targets]))
			return false;
		lb->n_targets++;
	}
	return true;
}

static void
hm_get_addresses(struct hetzner *h, struct hm_project *p, const struct hm_effect *effect,
                 const struct hm_who *who)
{
	struct hetzner_balancer *lb = hm_find_balancer(p, effect->id), before;

	if (!lb)
		return;
	before = *lb;
	hm_public_pair(h, p, "1", &lb->ipv4, &lb->ipv6);
	if (lb->ipv4_id == 0)
		lb->ipv4_id = h->next_id++;
	else
		(void)hm_primary_address(h, p, lb->ipv4_id, &lb->ipv4);
	if (lb->ipv6_id == 0)
		lb->ipv6_id = h->next_id++;
	else
		(void)hm_primary_address(h, p, lb->ipv6_id, &lb->ipv6);
	hm_report(h, p, who, &before.base, &lb->base);
}

bool
hm_create_balancer(struct hm_call *call)
{
	struct hetzner_balancer *lb = ARENA_NEW(&call->h->arena, struct hetzner_balancer);
	struct hm_effect effect = { .apply = hm_get_addresses };
	struct str name = STR_EMPTY, algorithm = STR("round_robin");
	struct buf *b = &call->answer->body;
	const struct hetzner_action *action;

	json_str(call->body, "name", &name);
	if (!hm_check_unique(call, HETZNER_BALANCER, name, NULL) ||
	    !hm_read_type(call, &lb->type) || !hm_read_location(call, &lb->location))
		return false;
	if ((int64_t)call->p->base.n_of[HETZNER_BALANCER] >= call->p->base.max_balancers)
		return hm_refuse(call, "resource_limit_exceeded", "load balancer limit exceeded");
	hm_init_resource(call->h, &lb->base, HETZNER_BALANCER, name, NULL, 0);
	lb->base.labels = hm_read_labels(call, &lb->base.n_labels);
	json_str(call->body, "algorithm.type", &algorithm);
	lb->algorithm = arena_str(&call->h->arena, algorithm);
	lb->is_public = true;
	json_bool(call->body, "public_interface", &lb->is_public);
	lb->health = STR("healthy");
	if (!hm_read_network(call, lb) || !hm_read_parts(call, lb) ||
	    !hm_take_primary_ips(call, lb))
		return false;
	hm_add_resource(call->p, &lb->base);
	hm_report(call->h, call->p, &call->who, NULL, &lb->base);
	effect.id = lb->base.id;
	action = hm_act(call, "create_load_balancer", &lb->base, NULL, &effect);
	json_begin_object(b, NULL);
	hm_add_resource_json(call->p, b, "load_balancer", &lb->base);
	hm_add_action(call, b, "action", action);
	json_end_object(b);
	return true;
}

/* ---- update ---- */

bool
hm_update_balancer(struct hm_call *call)
{
	struct hetzner_resource *found;
	struct hetzner_balancer *lb, before;
	struct str name = STR_EMPTY;

	if (!hm_get(call, HETZNER_BALANCER, &found))
		return false;
	if (hm_is_busy(call->p, found))
		return hm_refuse(call, "conflict",
		                 "the resource was changed during processing, please retry");
	lb = (struct hetzner_balancer *)found;
	before = *lb;
	if (json_str(call->body, "name", &name) == JSON_FOUND) {
		if (!hm_check_unique(call, HETZNER_BALANCER, name, found))
			return false;
		lb->base.name = arena_str(&call->h->arena, name);
	}
	if (yyjson_obj_get(call->body, "labels"))
		lb->base.labels = hm_read_labels(call, &lb->base.n_labels);
	hm_report(call->h, call->p, &call->who, &before.base, &lb->base);
	return hm_answer_resource(call, found);
}

/* ---- delete ---- */

static void
hm_do_delete(struct hetzner *h, struct hm_project *p, const struct hm_effect *effect,
             const struct hm_who *who)
{
	struct hetzner_balancer *lb = hm_find_balancer(p, effect->id);

	if (!lb)
		return;
	hm_remove_resource(p, &lb->base);
	hm_report(h, p, who, &lb->base, NULL);
	hm_free_primary_ips(h, p, who, effect->id);
}

bool
hm_delete_balancer(struct hm_call *call)
{
	struct hm_effect effect = { .apply = hm_do_delete };
	struct hetzner_resource *lb;

	if (!hm_get(call, HETZNER_BALANCER, &lb))
		return false;
	if (lb->is_protected)
		return hm_refuse(call, "protected", "load balancer deletion is protected");
	if (!hm_check_free(call, lb))
		return false;
	effect.id = lb->id;
	if (call->h->settings.deletes_without_action) {
		hm_do_delete(call->h, call->p, &effect, &call->who);
		call->answer->status = 204;
		return true;
	}
	return hm_answer_act(call, "delete_load_balancer", lb, NULL, &effect);
}
