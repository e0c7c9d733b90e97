/* hetzner_targets.c: the targets of balancers: what is stored for a body, and how it is shown. */
#include <assert.h>

#include "hetzner_internal.h"

static const char *const type_names[] = {
	[HETZNER_TARGET_SERVER] = "server",
	[HETZNER_TARGET_SELECTOR] = "label_selector",
	[HETZNER_TARGET_IP] = "ip",
};

/* ---- reading ---- */

bool
hm_target_eq(const struct hetzner_target *a, const struct hetzner_target *b)
{
	return a->type == b->type && a->server == b->server && str_eq(a->text, b->text);
}

/* The body was checked: it names one of the types. */
static enum hetzner_target_type
hm_type_named(struct str name)
{
	if (str_eq_c(name, "server"))
		return HETZNER_TARGET_SERVER;
	return str_eq_c(name, "ip") ? HETZNER_TARGET_IP : HETZNER_TARGET_SELECTOR;
}

bool
hm_read_target(struct hm_call *call, yyjson_val *body, struct hetzner_target *ret)
{
	struct hetzner_target target = { .text = STR_EMPTY };
	struct str type = STR_EMPTY;
	const char *name;

	json_str(body, "type", &type);
	target.type = hm_type_named(type);
	name = type_names[target.type];
	if (!yyjson_obj_get(body, name))
		return hm_refuse_field(call, name, "is required for targets of type %s", name);
	json_i64(body, "server.id", &target.server);
	if (target.type != HETZNER_TARGET_SERVER)
		target.server = 0;
	if (target.type == HETZNER_TARGET_IP)
		json_str(body, "ip.ip", &target.text);
	if (target.type == HETZNER_TARGET_SELECTOR)
		json_str(body, "label_selector.selector", &target.text);
	target.text = arena_str(&call->h->arena, target.text);
	json_bool(body, "use_private_ip", &target.uses_private_ip);
	*ret = target;
	return true;
}

/* ---- checks of a new target ---- */

static bool
hm_check_alone(struct hm_call *call, yyjson_val *body, enum hetzner_target_type type)
{
	static const enum hetzner_target_type order[] = { HETZNER_TARGET_SERVER, HETZNER_TARGET_IP,
		                                          HETZNER_TARGET_SELECTOR };

	assert(type <= HETZNER_TARGET_IP);
	for (size_t i = 0; i < 3; i++) {
		const char *other = type_names[order[i]];

		if (order[i] != type && yyjson_obj_get(body, other))
			return hm_refuse_field(call, other,
			                       "is not possible for targets of type %s",
			                       type_names[type]);
	}
	return true;
}

static bool
hm_check_server(struct hm_call *call, const struct hetzner_balancer *lb,
                const struct hetzner_target *target)
{
	const struct hetzner_server *server = hm_find_server(call->p, target->server);
	bool is_member = false;

	if (!server)
		return hm_refuse_field(call, "server", "server with ID %lld not found",
		                       (long long)target->server);
	for (size_t i = 0; i < lb->n_networks; i++)
		is_member = is_member || hm_member_of(server->networks, server->n_networks,
		                                      lb->networks[i].network);
	if (target->uses_private_ip && !is_member)
		return hm_refuse(call, "server_not_attached_to_network",
		                 "server %lld is not attached to the network",
		                 (long long)target->server);
	if (!target->uses_private_ip && !server->ipv4.ptr)
		return hm_refuse(call, "missing_ipv4", "server %lld has no public IPv4",
		                 (long long)target->server);
	return true;
}

static bool
hm_is_cloud_address(const struct hm_project *p, struct str address)
{
	for (size_t i = 0; i < p->base.n_of[HETZNER_SERVER]; i++) {
		if (str_eq(HETZNER_SERVER_AT(&p->base, i)->ipv4, address))
			return true;
	}
	for (size_t i = 0; i < p->base.n_of[HETZNER_BALANCER]; i++) {
		if (str_eq(HETZNER_BALANCER_AT(&p->base, i)->ipv4, address))
			return true;
	}
	return false;
}

static bool
hm_is_robot_ip(const struct hm_project *p, struct str address)
{
	for (size_t i = 0; i < p->n_robot_ips; i++) {
		if (str_eq(p->robot_ips[i], address))
			return true;
	}
	return false;
}

static bool
hm_check_ip(struct hm_call *call, const struct hetzner_target *target)
{
	struct str address;
	struct ip ip;

	if (!hm_parse_ipv4(target->text, &ip))
		return hm_refuse_field(call, "ip.ip", "is no IPv4 address");
	address = hm_ipv4_text(&call->arena, hm_ipv4_number(&ip));
	if (target->uses_private_ip)
		return hm_refuse_field(call, "use_private_ip",
		                       "is not possible for targets of type ip");
	if (hm_is_cloud_address(call->p, address))
		return hm_refuse(call, "cloud_resource_ip_not_allowed",
		                 "%" STR_FMT " belongs to a cloud resource", STR_ARG(address));
	if (!hm_is_robot_ip(call->p, address))
		return hm_refuse(call, "ip_not_owned", "%" STR_FMT " is not yours",
		                 STR_ARG(address));
	return true;
}

static bool
hm_check_selector(struct hm_call *call, const struct hetzner_target *target)
{
	struct str problem;

	return hm_selector_parse(&call->arena, target->text, &problem) ||
	       hm_refuse_field(call, "label_selector.selector", "%" STR_FMT, STR_ARG(problem));
}

static bool
hm_check_reachable(struct hm_call *call, const struct hetzner_balancer *lb,
                   const struct hetzner_target *target)
{
	if (target->uses_private_ip && lb->n_networks == 0)
		return hm_refuse(call, "load_balancer_not_attached_to_network",
		                 "load balancer is not attached to a network");
	if (!target->uses_private_ip && !lb->is_public && target->type != HETZNER_TARGET_IP)
		return hm_refuse(call, "load_balancer_public_interface_disabled",
		                 "the public interface is disabled");
	return true;
}

bool
hm_new_target(struct hm_call *call, const struct hetzner_balancer *lb, yyjson_val *body,
              struct hetzner_target *ret)
{
	struct hetzner_target target;

	if (!hm_read_target(call, body, &target) || !hm_check_alone(call, body, target.type))
		return false;
	for (size_t i = 0; i < lb->n_targets; i++) {
		if (hm_target_eq(&lb->targets[i], &target))
			return hm_refuse(call, "target_already_defined",
			                 "target is already defined");
	}
	if ((int64_t)lb->n_targets >= lb->type->max_targets)
		return hm_refuse(call, "resource_limit_exceeded", "%s can have %lld targets",
		                 lb->type->name, (long long)lb->type->max_targets);
	if (!hm_check_reachable(call, lb, &target))
		return false;
	*ret = target;
	switch (target.type) {
	case HETZNER_TARGET_SERVER:
		return hm_check_server(call, lb, &target);
	case HETZNER_TARGET_IP:
		return hm_check_ip(call, &target);
	case HETZNER_TARGET_SELECTOR:
		return hm_check_selector(call, &target);
	}
	abort();
}

/* ---- removal ---- */

void
hm_drop_targets(struct hetzner *h, struct hm_project *p, const struct hm_who *who,
                struct hetzner_balancer *lb,
                bool (*is_gone)(const struct hetzner_target *, const void *arg), const void *arg)
{
	struct hetzner_target *kept = arena_calloc(&h->arena, lb->n_targets, sizeof(*kept));
	struct hetzner_balancer before = *lb;
	size_t n_kept = 0;

	for (size_t i = 0; i < lb->n_targets; i++) {
		if (!is_gone(&lb->targets[i], arg))
			kept[n_kept++] = lb->targets[i];
	}
	if (n_kept == lb->n_targets)
		return;
	lb->targets = kept;
	lb->n_targets = n_kept;
	hm_report(h, p, who, &before.base, &lb->base);
}

/* ---- shown ---- */

static void
hm_add_health(const struct hm_project *p, struct buf *b, const struct hetzner_balancer *lb)
{
	bool is_failing = str_eq_c(lb->health, "unhealthy");

	json_begin_array(b, "health_status");
	for (size_t i = 0; i < lb->n_services; i++) {
		json_begin_object(b, NULL);
		json_add_number(b, "listen_port", lb->services[i].listen_port);
		json_add_text(b, "status", lb->health);
		if (!p->settings->hides_health_details) {
			hm_add_text_or_null(b, "detail",
			                    is_failing ? STR("layer4_no_connection")
			                               : (struct str){ 0 });
			hm_add_text_or_null(b, "http_status_code", (struct str){ 0 });
		}
		json_end_object(b);
	}
	json_end_array(b);
}

static void
hm_add_server_target(const struct hm_project *p, struct buf *b, const struct hetzner_balancer *lb,
                     int64_t server, bool uses_private_ip)
{
	json_add_text(b, "type", STR("server"));
	json_begin_object(b, "server");
	json_add_number(b, "id", server);
	json_end_object(b);
	json_add_flag(b, "use_private_ip", uses_private_ip);
	hm_add_health(p, b, lb);
}

static void
hm_add_selected(const struct hm_project *p, struct buf *b, const struct hetzner_balancer *lb,
                const struct hetzner_target *target)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	const struct hm_selector *selector;
	struct str problem;

	json_add_text(b, "type", STR("label_selector"));
	json_begin_object(b, "label_selector");
	json_add_text(b, "selector", target->text);
	json_end_object(b);
	json_add_flag(b, "use_private_ip", target->uses_private_ip);
	selector = hm_selector_parse(&arena, target->text, &problem);
	json_begin_array(b, "targets");
	for (size_t i = 0; i < p->base.n_of[HETZNER_SERVER]; i++) {
		const struct hetzner_server *server = HETZNER_SERVER_AT(&p->base, i);

		if (!hm_selector_matches(selector, &server->base))
			continue;
		json_begin_object(b, NULL);
		hm_add_server_target(p, b, lb, server->base.id, target->uses_private_ip);
		json_end_object(b);
	}
	json_end_array(b);
}

void
hm_add_targets(const struct hm_project *p, struct buf *b, const struct hetzner_balancer *lb)
{
	json_begin_array(b, "targets");
	for (size_t i = 0; i < lb->n_targets; i++) {
		const struct hetzner_target *target = &lb->targets[i];

		json_begin_object(b, NULL);
		if (target->type == HETZNER_TARGET_SERVER) {
			hm_add_server_target(p, b, lb, target->server, target->uses_private_ip);
		} else if (target->type == HETZNER_TARGET_SELECTOR) {
			hm_add_selected(p, b, lb, target);
		} else {
			json_add_text(b, "type", STR("ip"));
			json_begin_object(b, "ip");
			json_add_text(b, "ip", target->text);
			json_end_object(b);
			hm_add_health(p, b, lb);
		}
		json_end_object(b);
	}
	json_end_array(b);
}
