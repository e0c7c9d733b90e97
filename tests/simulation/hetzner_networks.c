/* hetzner_networks.c: the deletion of networks, and their routes. */
#include "hetzner_internal.h"

enum { MAX_ROUTES = 100 };

#define METADATA_GATEWAY ((172U << 24) + (31U << 16) + (1U << 8) + 1)

struct route {
	struct ip_net destination;
	struct ip gateway;
	struct hetzner_route texts;
};

static bool
hm_read_route(struct hm_call *call, struct route *ret)
{
	struct str destination = STR_EMPTY, gateway = STR_EMPTY;
	struct arena *arena = &call->h->arena;

	json_str(call->body, "destination", &destination);
	json_str(call->body, "gateway", &gateway);
	if (!hm_parse_net(destination, &ret->destination))
		return hm_refuse_field(call, "destination", "is no IPv4 network");
	if (!hm_parse_ipv4(gateway, &ret->gateway))
		return hm_refuse_field(call, "gateway", "is no IPv4 address");
	ret->texts.destination = hm_net_text(arena, &ret->destination);
	ret->texts.gateway = hm_ipv4_text(arena, hm_ipv4_number(&ret->gateway));
	return true;
}

static struct ip
hm_ip_of(uint32_t address)
{
	struct ip ip = { { [10] = 0xff,
		           [11] = 0xff,
		           [12] = (uint8_t)(address >> 24),
		           [13] = (uint8_t)(address >> 16),
		           [14] = (uint8_t)(address >> 8),
		           [15] = (uint8_t)address } };

	return ip;
}

static bool
hm_overlap(const struct ip_net *a, const struct ip_net *b)
{
	return ip_net_is_within(a, b) || ip_net_is_within(b, a);
}

static bool
hm_is_everywhere(const struct ip_net *net)
{
	return net->bits == HM_IPV4_BITS;
}

static bool
hm_check_destination(struct hm_call *call, const struct hetzner_network *network,
                     const struct route *route)
{
	const struct ip_net private[] = { hm_net_of(STR("10.0.0.0/8")),
		                          hm_net_of(STR("172.16.0.0/12")),
		                          hm_net_of(STR("192.168.0.0/16")) };
	const struct ip_net *destination = &route->destination;
	struct str text = route->texts.destination;

	if (!hm_is_everywhere(destination) && !ip_net_is_within_any(destination, private, 3))
		return hm_refuse_field(call, "destination", "%" STR_FMT " is not private",
		                       STR_ARG(text));
	for (size_t i = 0; i < network->n_subnets && !hm_is_everywhere(destination); i++) {
		struct ip_net net = hm_net_of(network->subnets[i].ip_range);

		if (hm_overlap(&net, destination))
			return hm_refuse_field(call, "destination",
			                       "%" STR_FMT " overlaps with a subnet",
			                       STR_ARG(text));
	}
	for (size_t i = 0; i < network->n_routes; i++) {
		struct ip_net net = hm_net_of(network->routes[i].destination);

		if (hm_is_everywhere(&net) && hm_is_everywhere(destination))
			return hm_refuse_field(call, "destination", "%" STR_FMT " is already used",
			                       STR_ARG(text));
		if (!hm_is_everywhere(&net) && !hm_is_everywhere(destination) &&
		    hm_overlap(&net, destination))
			return hm_refuse_field(call, "destination",
			                       "%" STR_FMT " overlaps with another route",
			                       STR_ARG(text));
	}
	return true;
}

static bool
hm_check_gateway(struct hm_call *call, const struct hetzner_network *network,
                 const struct route *route)
{
	struct ip_net range = hm_net_of(network->ip_range);
	uint32_t gateway = hm_ipv4_number(&route->gateway);
	struct ip metadata = hm_ip_of(METADATA_GATEWAY);
	struct str text = route->texts.gateway;

	if (gateway == hm_gateway(network) || gateway == METADATA_GATEWAY ||
	    (!hm_is_everywhere(&route->destination) &&
	     ip_net_contains(&route->destination, &metadata)))
		return hm_refuse_field(call, "gateway", "%" STR_FMT " is reserved", STR_ARG(text));
	if (!ip_net_contains(&range, &route->gateway))
		return hm_refuse_field(call, "gateway", "%" STR_FMT " is not inside of %" STR_FMT,
		                       STR_ARG(text), STR_ARG(network->ip_range));
	return true;
}

static size_t
hm_find_route(const struct hetzner_network *network, const struct hetzner_route *route)
{
	size_t i = 0;

	while (i < network->n_routes &&
	       !(str_eq(network->routes[i].destination, route->destination) &&
	         str_eq(network->routes[i].gateway, route->gateway)))
		i++;
	return i;
}

static void
hm_do_add_route(struct hetzner *h, struct hm_project *p, const struct hm_effect *effect,
                const struct hm_who *who)
{
	struct hetzner_network *network = hm_find_network(p, effect->id), before;

	if (!network)
		return;
	before = *network;
	network->routes = model_with(&h->arena, network->routes, network->n_routes,
	                             sizeof(*network->routes), &effect->route);
	network->n_routes++;
	hm_report(h, p, who, &before.base, &network->base);
}

static void
hm_do_delete_route(struct hetzner *h, struct hm_project *p, const struct hm_effect *effect,
                   const struct hm_who *who)
{
	struct hetzner_network *network = hm_find_network(p, effect->id), before;
	size_t i;

	if (!network)
		return;
	i = hm_find_route(network, &effect->route);
	if (i == network->n_routes)
		return;
	before = *network;
	network->routes = model_without(&h->arena, network->routes, network->n_routes,
	                                sizeof(*network->routes), i);
	network->n_routes--;
	hm_report(h, p, who, &before.base, &network->base);
}

static bool
hm_is_private(const struct hetzner_target *target, const void *arg)
{
	(void)arg;
	return target->uses_private_ip;
}

/* Its members leave it. */
bool
hm_delete_network(struct hm_call *call)
{
	struct hetzner_project *p = &call->p->base;
	struct hetzner_resource *network;

	if (!hm_get(call, HETZNER_NETWORK, &network))
		return false;
	if (network->is_protected)
		return hm_refuse(call, "protected", "network deletion is protected");
	if (!hm_check_free(call, network))
		return false;
	for (size_t i = 0; i < p->n_of[HETZNER_SERVER]; i++)
		hetzner_detach(call->h, p, HETZNER_SERVER_AT(p, i),
		               (struct hetzner_network *)network);
	for (size_t i = 0; i < p->n_of[HETZNER_BALANCER]; i++) {
		struct hetzner_balancer *lb = HETZNER_BALANCER_AT(p, i), before = *lb;

		if (!hm_member_of(lb->networks, lb->n_networks, network->id))
			continue;
		lb->n_networks = 0;
		hm_report(call->h, call->p, &call->who, &before.base, &lb->base);
		hm_drop_targets(call->h, call->p, &call->who, lb, hm_is_private, NULL);
	}
	hm_remove_resource(call->p, network);
	hm_report(call->h, call->p, &call->who, network, NULL);
	return true;
}

bool
hm_add_route(struct hm_call *call)
{
	struct hm_effect effect = { .apply = hm_do_add_route };
	const struct hetzner_network *network;
	struct hetzner_resource *found;
	struct route route;

	if (!hm_get(call, HETZNER_NETWORK, &found) || !hm_check_free(call, found) ||
	    !hm_read_route(call, &route))
		return false;
	network = (const struct hetzner_network *)found;
	if (network->n_routes >= MAX_ROUTES)
		return hm_refuse(call, "resource_limit_exceeded", "a network can have %d routes",
		                 MAX_ROUTES);
	if (!hm_check_destination(call, network, &route) ||
	    !hm_check_gateway(call, network, &route))
		return false;
	effect.id = found->id;
	effect.route = route.texts;
	return hm_answer_act(call, "add_route", found, NULL, &effect);
}

bool
hm_delete_route(struct hm_call *call)
{
	struct hm_effect effect = { .apply = hm_do_delete_route };
	const struct hetzner_network *network;
	struct hetzner_resource *found;
	struct route route;

	if (!hm_get(call, HETZNER_NETWORK, &found) || !hm_check_free(call, found) ||
	    !hm_read_route(call, &route))
		return false;
	network = (const struct hetzner_network *)found;
	if (hm_find_route(network, &route.texts) == network->n_routes)
		return hm_refuse(call, "not_found", "route %" STR_FMT " via %" STR_FMT " not found",
		                 STR_ARG(route.texts.destination), STR_ARG(route.texts.gateway));
	effect.id = found->id;
	effect.route = route.texts;
	return hm_answer_act(call, "delete_route", found, NULL, &effect);
}
