/* hetzner_balancer_actions.c: the actions of load balancers.
 *
 * Each is a request that checks, and an effect (hm_do_…) that happens when the action ends.
 */
#include "hetzner_internal.h"

/* The balancer that the path names, if no action keeps it busy. */
static bool
hm_get_free(struct hm_call *call, struct hetzner_balancer **ret)
{
	struct hetzner_resource *found;

	if (!hm_get(call, HETZNER_BALANCER, &found) || !hm_check_free(call, found))
		return false;
	*ret = (struct hetzner_balancer *)found;
	return true;
}

static bool
hm_change(struct hm_call *call, const char *command, struct hetzner_balancer *lb,
          struct hm_effect *effect)
{
	effect->id = lb->base.id;
	return hm_answer_act(call, command, &lb->base, NULL, effect);
}

/* The beginning of each effect: false if the balancer was deleted meanwhile. */
static bool
hm_begin(const struct hm_project *p, const struct hm_effect *effect, struct hetzner_balancer **ret,
         struct hetzner_balancer *ret_before)
{
	*ret = hm_find_balancer(p, effect->id);
	if (!*ret)
		return false;
	*ret_before = **ret;
	return true;
}

/* ---- services ---- */

static void
hm_do_add_service(struct hetzner *h, struct hm_project *p, const struct hm_effect *effect,
                  const struct hm_who *who)
{
	struct hetzner_balancer *lb, before;

	if (!hm_begin(p, effect, &lb, &before))
		return;
	lb->services = model_with(&h->arena, lb->services, lb->n_services, sizeof(*lb->services),
	                          &effect->service);
	lb->n_services++;
	hm_report(h, p, who, &before.base, &lb->base);
}

bool
hm_add_service(struct hm_call *call)
{
	struct hm_effect effect = { .apply = hm_do_add_service };
	struct hetzner_balancer *lb;

	return hm_get_free(call, &lb) && hm_new_service(call, lb, call->body, &effect.service) &&
	       hm_change(call, "add_service", lb, &effect);
}

static bool
hm_asked_service(struct hm_call *call, const struct hetzner_balancer *lb, size_t *ret)
{
	int64_t port = 0;

	json_i64(call->body, "listen_port", &port);
	*ret = hm_find_service(lb, port);
	return *ret < lb->n_services ||
	       hm_refuse_field(call, "listen_port", "no service listens on port %lld",
	                       (long long)port);
}

static void
hm_do_update_service(struct hetzner *h, struct hm_project *p, const struct hm_effect *effect,
                     const struct hm_who *who)
{
	struct hetzner_balancer *lb, before;
	size_t i;

	if (!hm_begin(p, effect, &lb, &before))
		return;
	i = hm_find_service(lb, effect->service.listen_port);
	if (i == lb->n_services)
		return;
	lb->services = model_with(&h->arena, before.services, before.n_services,
	                          sizeof(*lb->services), &effect->service);
	lb->services[i] = effect->service;
	hm_report(h, p, who, &before.base, &lb->base);
}

bool
hm_update_service(struct hm_call *call)
{
	struct hm_effect effect = { .apply = hm_do_update_service };
	struct hetzner_balancer *lb;
	size_t i;

	if (!hm_get_free(call, &lb) || !hm_asked_service(call, lb, &i))
		return false;
	effect.service = lb->services[i];
	return hm_merge_service(call, lb, call->body, &effect.service) &&
	       hm_change(call, "update_service", lb, &effect);
}

static void
hm_do_delete_service(struct hetzner *h, struct hm_project *p, const struct hm_effect *effect,
                     const struct hm_who *who)
{
	struct hetzner_balancer *lb, before;
	size_t i;

	if (!hm_begin(p, effect, &lb, &before))
		return;
	i = hm_find_service(lb, effect->other);
	if (i == lb->n_services)
		return;
	lb->services = model_without(&h->arena, lb->services, lb->n_services, sizeof(*lb->services),
	                             i);
	lb->n_services--;
	hm_report(h, p, who, &before.base, &lb->base);
}

bool
hm_delete_service(struct hm_call *call)
{
	struct hm_effect effect = { .apply = hm_do_delete_service };
	struct hetzner_balancer *lb;
	size_t i;

	if (!hm_get_free(call, &lb) || !hm_asked_service(call, lb, &i))
		return false;
	effect.other = lb->services[i].listen_port;
	return hm_change(call, "delete_service", lb, &effect);
}

/* ---- targets ---- */

static void
hm_do_add_target(struct hetzner *h, struct hm_project *p, const struct hm_effect *effect,
                 const struct hm_who *who)
{
	struct hetzner_balancer *lb, before;

	if (!hm_begin(p, effect, &lb, &before))
		return;
	if (effect->target.type == HETZNER_TARGET_SERVER &&
	    !hm_find_server(p, effect->target.server))
		return; /* it was deleted meanwhile */
	lb->targets = model_with(&h->arena, lb->targets, lb->n_targets, sizeof(*lb->targets),
	                         &effect->target);
	lb->n_targets++;
	hm_report(h, p, who, &before.base, &lb->base);
}

bool
hm_add_target(struct hm_call *call)
{
	struct hm_effect effect = { .apply = hm_do_add_target };
	struct hetzner_balancer *lb;

	return hm_get_free(call, &lb) && hm_new_target(call, lb, call->body, &effect.target) &&
	       hm_change(call, "add_target", lb, &effect);
}

static bool
hm_is_same(const struct hetzner_target *target, const void *arg)
{
	return hm_target_eq(target, arg);
}

static void
hm_do_remove_target(struct hetzner *h, struct hm_project *p, const struct hm_effect *effect,
                    const struct hm_who *who)
{
	struct hetzner_balancer *lb = hm_find_balancer(p, effect->id);

	if (lb)
		hm_drop_targets(h, p, who, lb, hm_is_same, &effect->target);
}

/* A server that was deleted cannot be named any more, even if the balancer still has it. */
bool
hm_remove_target(struct hm_call *call)
{
	struct hm_effect effect = { .apply = hm_do_remove_target };
	struct hetzner_target *target = &effect.target;
	struct hetzner_balancer *lb;
	struct str type = STR_EMPTY;
	size_t i = 0;

	if (!hm_get_free(call, &lb) || !hm_read_target(call, call->body, target))
		return false;
	if (target->type == HETZNER_TARGET_SERVER && !hm_find_server(call->p, target->server))
		return hm_refuse_field(call, "server", "server with ID %lld not found",
		                       (long long)target->server);
	while (i < lb->n_targets && !hm_target_eq(&lb->targets[i], target))
		i++;
	json_str(call->body, "type", &type);
	if (i == lb->n_targets)
		return hm_refuse_field(call, arena_strz(&call->arena, type),
		                       "is no target of this load balancer");
	return hm_change(call, "remove_target", lb, &effect);
}

/* ---- single members ---- */

static void
hm_do_change_algorithm(struct hetzner *h, struct hm_project *p, const struct hm_effect *effect,
                       const struct hm_who *who)
{
	struct hetzner_balancer *lb, before;

	if (!hm_begin(p, effect, &lb, &before))
		return;
	lb->algorithm = effect->text;
	hm_report(h, p, who, &before.base, &lb->base);
}

bool
hm_change_algorithm(struct hm_call *call)
{
	struct hm_effect effect = { .apply = hm_do_change_algorithm };
	struct hetzner_balancer *lb;

	if (!hm_get_free(call, &lb))
		return false;
	effect.text = json_text_at(&call->h->arena, call->body, "type");
	return hm_change(call, "change_algorithm", lb, &effect);
}

static void
hm_do_change_type(struct hetzner *h, struct hm_project *p, const struct hm_effect *effect,
                  const struct hm_who *who)
{
	struct hetzner_balancer *lb, before;

	if (!hm_begin(p, effect, &lb, &before))
		return;
	lb->type = effect->type;
	hm_report(h, p, who, &before.base, &lb->base);
}

bool
hm_change_type(struct hm_call *call)
{
	struct hm_effect effect = { .apply = hm_do_change_type };
	struct hetzner_balancer *lb;

	if (!hm_get_free(call, &lb))
		return false;
	effect.type = hm_find_type(call->h, yyjson_obj_get(call->body, "load_balancer_type"));
	if (!effect.type || (int64_t)lb->n_services > effect.type->max_services ||
	    (int64_t)lb->n_targets > effect.type->max_targets)
		return hm_refuse(call, "invalid_load_balancer_type",
		                 "the load balancer does not fit this type");
	return hm_change(call, "change_type", lb, &effect);
}

static void
hm_do_change_dns_ptr(struct hetzner *h, struct hm_project *p, const struct hm_effect *effect,
                     const struct hm_who *who)
{
	struct hetzner_balancer *lb, before;

	if (!hm_begin(p, effect, &lb, &before))
		return;
	if (str_eq(effect->text, lb->ipv4))
		lb->ipv4_ptr = effect->value;
	else
		lb->ipv6_ptr = effect->value;
	hm_report(h, p, who, &before.base, &lb->base);
}

bool
hm_change_dns_ptr(struct hm_call *call)
{
	struct hm_effect effect = { .apply = hm_do_change_dns_ptr };
	struct hetzner_balancer *lb;

	if (!hm_get_free(call, &lb))
		return false;
	effect.text = json_text_at(&call->h->arena, call->body, "ip");
	if (!str_eq(effect.text, lb->ipv4) && !str_eq(effect.text, lb->ipv6))
		return hm_refuse_field(call, "ip",
		                       "%" STR_FMT " is not an IP of this load balancer",
		                       STR_ARG(effect.text));
	if (yyjson_is_str(yyjson_obj_get(call->body, "dns_ptr")))
		effect.value = json_text_at(&call->h->arena, call->body, "dns_ptr");
	return hm_change(call, "change_dns_ptr", lb, &effect);
}

static void
hm_do_change_protection(struct hetzner *h, struct hm_project *p, const struct hm_effect *effect,
                        const struct hm_who *who)
{
	struct hetzner_balancer *lb, before;

	if (!hm_begin(p, effect, &lb, &before))
		return;
	lb->base.is_protected = effect->flag;
	hm_report(h, p, who, &before.base, &lb->base);
}

bool
hm_change_protection(struct hm_call *call)
{
	struct hm_effect effect = { .apply = hm_do_change_protection };
	struct hetzner_balancer *lb;

	if (!hm_get_free(call, &lb))
		return false;
	effect.flag = lb->base.is_protected;
	json_bool(call->body, "delete", &effect.flag);
	return hm_change(call, "change_protection", lb, &effect);
}

/* ---- the network ---- */

static void
hm_do_attach(struct hetzner *h, struct hm_project *p, const struct hm_effect *effect,
             const struct hm_who *who)
{
	struct hetzner_balancer *lb, before;

	if (!hm_begin(p, effect, &lb, &before) || !hm_find_network(p, effect->member.network))
		return;
	lb->networks = model_with(&h->arena, lb->networks, lb->n_networks, sizeof(*lb->networks),
	                          &effect->member);
	lb->n_networks++;
	hm_report(h, p, who, &before.base, &lb->base);
}

/* A text of the body; ptr NULL: the body lacks it. */
static struct str
hm_optional_text(struct hm_call *call, const char *name)
{
	struct str text = { 0 };

	json_str(call->body, name, &text);
	return text;
}

bool
hm_attach(struct hm_call *call)
{
	struct hm_effect effect = { .apply = hm_do_attach };
	struct hetzner_resource *found;
	struct hetzner_network *network;
	struct hetzner_balancer *lb;
	struct hm_refusal why;
	struct hm_wish wish;

	if (!hm_get(call, HETZNER_BALANCER, &found) || !hm_network_of_body(call, &network) ||
	    !hm_check_free(call, found) || !hm_check_free(call, &network->base))
		return false;
	lb = (struct hetzner_balancer *)found;
	if (lb->n_networks > 0)
		return hm_refuse(call, "load_balancer_already_attached",
		                 "load balancer is already attached to a network");
	wish = (struct hm_wish){ hm_optional_text(call, "ip"), hm_optional_text(call, "ip_range"),
		                 lb->location->zone };
	if (!hm_choose_ip(call->h, call->p, network, &wish, &effect.member, &why))
		return hm_refuse_because(call, &why);
	effect.id = lb->base.id;
	return hm_answer_act(call, "attach_to_network", found, &network->base, &effect);
}

static bool
hm_is_private(const struct hetzner_target *target, const void *arg)
{
	(void)arg;
	return target->uses_private_ip;
}

static void
hm_do_detach(struct hetzner *h, struct hm_project *p, const struct hm_effect *effect,
             const struct hm_who *who)
{
	struct hetzner_balancer *lb, before;

	if (!hm_begin(p, effect, &lb, &before) ||
	    !hm_member_of(lb->networks, lb->n_networks, effect->other))
		return;
	lb->n_networks = 0;
	hm_report(h, p, who, &before.base, &lb->base);
	hm_drop_targets(h, p, who, lb, hm_is_private, NULL);
}

bool
hm_detach(struct hm_call *call)
{
	struct hm_effect effect = { .apply = hm_do_detach };
	struct hetzner_resource *found;
	struct hetzner_network *network;
	struct hetzner_balancer *lb;

	if (!hm_get(call, HETZNER_BALANCER, &found) || !hm_network_of_body(call, &network) ||
	    !hm_check_free(call, found) || !hm_check_free(call, &network->base))
		return false;
	lb = (struct hetzner_balancer *)found;
	if (!hm_member_of(lb->networks, lb->n_networks, network->base.id))
		return hm_refuse(call, "load_balancer_not_attached_to_network",
		                 "load balancer is not attached to this network");
	effect.id = lb->base.id;
	effect.other = network->base.id;
	return hm_answer_act(call, "detach_from_network", found, &network->base, &effect);
}

/* ---- the public interface ---- */

static void
hm_do_set_public(struct hetzner *h, struct hm_project *p, const struct hm_effect *effect,
                 const struct hm_who *who)
{
	struct hetzner_balancer *lb, before;

	if (!hm_begin(p, effect, &lb, &before))
		return;
	lb->is_public = effect->flag;
	hm_report(h, p, who, &before.base, &lb->base);
}

bool
hm_enable_public_interface(struct hm_call *call)
{
	struct hm_effect effect = { .apply = hm_do_set_public, .flag = true };
	struct hetzner_balancer *lb;

	return hm_get_free(call, &lb) && hm_change(call, "enable_public_interface", lb, &effect);
}

bool
hm_disable_public_interface(struct hm_call *call)
{
	struct hm_effect effect = { .apply = hm_do_set_public, .flag = false };
	struct hetzner_balancer *lb;

	if (!hm_get_free(call, &lb))
		return false;
	if (lb->n_networks == 0)
		return hm_refuse(call, "load_balancer_not_attached_to_network",
		                 "load balancer is not attached to a network");
	for (size_t i = 0; i < lb->n_targets; i++) {
		if (lb->targets[i].type != HETZNER_TARGET_IP && !lb->targets[i].uses_private_ip)
			return hm_refuse(call, "targets_without_use_private_ip",
			                 "there are targets that do not use their private IP");
	}
	return hm_change(call, "disable_public_interface", lb, &effect);
}
