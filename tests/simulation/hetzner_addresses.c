/* hetzner_addresses.c: the addresses of networks, and of their members. */
#include "hetzner_internal.h"

/* ---- IPv4 ---- */

uint32_t
hm_ipv4_number(const struct ip *ip)
{
	return (uint32_t)ip->bytes[12] << 24 | (uint32_t)ip->bytes[13] << 16 |
	       (uint32_t)ip->bytes[14] << 8 | ip->bytes[15];
}

struct str
hm_ipv4_text(struct arena *arena, uint32_t address)
{
	return arena_printf(arena, "%u.%u.%u.%u", address >> 24, address >> 16 & 255,
	                    address >> 8 & 255, address & 255);
}

bool
hm_parse_ipv4(struct str text, struct ip *ret)
{
	return str_index(text, ':') < 0 && ip_parse(text, ret) && ip_family(ret) == IP_V4;
}

/* An address alone is a network of one. */
bool
hm_parse_net(struct str text, struct ip_net *ret)
{
	if (str_index(text, '/') < 0) {
		ret->bits = 128;
		return hm_parse_ipv4(text, &ret->ip);
	}
	return str_index(text, ':') < 0 && ip_net_parse(text, ret) && !ip_net_has_host_bits(ret);
}

struct ip_net
hm_net_of(struct str text)
{
	struct ip_net net = { 0 };

	if (!hm_parse_net(text, &net))
		abort();
	return net;
}

struct str
hm_net_text(struct arena *arena, const struct ip_net *net)
{
	return arena_printf(arena, "%" STR_FMT "/%u",
	                    STR_ARG(hm_ipv4_text(arena, hm_ipv4_number(&net->ip))),
	                    net->bits - HM_IPV4_BITS);
}

uint32_t
hm_gateway(const struct hetzner_network *network)
{
	struct ip_net range = hm_net_of(network->ip_range);

	return hm_ipv4_number(&range.ip) + 1;
}

/* ---- members ---- */

const struct hetzner_member *
hm_member_of(const struct hetzner_member members[], size_t n, int64_t network)
{
	for (size_t i = 0; i < n; i++) {
		if (members[i].network == network)
			return &members[i];
	}
	return NULL;
}

static bool
hm_next_member(const struct hm_project *p, int64_t network, size_t *pos,
               const struct hetzner_member **ret)
{
	size_t n_servers = p->base.n_of[HETZNER_SERVER];

	while (*pos < n_servers + p->base.n_of[HETZNER_BALANCER]) {
		size_t i = (*pos)++;
		const struct hetzner_member *member;

		if (i < n_servers) {
			const struct hetzner_server *one = HETZNER_SERVER_AT(&p->base, i);

			member = hm_member_of(one->networks, one->n_networks, network);
		} else {
			const struct hetzner_balancer *one = HETZNER_BALANCER_AT(&p->base,
			                                                         i - n_servers);

			member = hm_member_of(one->networks, one->n_networks, network);
		}
		if (member) {
			*ret = member;
			return true;
		}
	}
	return false;
}

static bool
hm_is_taken(const struct hm_project *p, const struct hetzner_network *network, uint32_t address)
{
	const struct hetzner_member *member;

	for (size_t pos = 0; hm_next_member(p, network->base.id, &pos, &member);) {
		if (member->address == address)
			return true;
	}
	return address == hm_gateway(network);
}

/* The first free address of the subnet is at most one behind the number of its members, so a mark
 * for each of these places is enough. */
static bool
hm_find_free(const struct hm_project *p, const struct hetzner_network *network,
             const struct ip_net *subnet, uint32_t *ret)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	uint32_t first = hm_ipv4_number(&subnet->ip), gateway = hm_gateway(network);
	uint64_t size = UINT64_C(1) << (128 - subnet->bits);
	size_t n_places = 4 + p->base.n_of[HETZNER_SERVER] + p->base.n_of[HETZNER_BALANCER];
	bool *is_taken = arena_calloc(&arena, n_places, sizeof(bool));
	const struct hetzner_member *member;

	if (gateway - first < n_places)
		is_taken[gateway - first] = true;
	for (size_t pos = 0; hm_next_member(p, network->base.id, &pos, &member);) {
		if (member->address - first < n_places)
			is_taken[member->address - first] = true;
	}
	for (uint32_t i = 2; i < n_places && i + 1 < size; i++) {
		if (is_taken[i])
			continue;
		*ret = first + i;
		return true;
	}
	return false;
}

/* ---- choosing an address ---- */

struct choice {
	const struct hetzner_network *network;
	const char *zone;
};

static bool
hm_fits(const struct choice *choice, const struct hetzner_subnet *subnet)
{
	return !str_eq_c(subnet->type, "vswitch") &&
	       (!choice->zone || str_eq_c(subnet->zone, choice->zone));
}

/* Neither the first nor the last address of a subnet is given out. */
static bool
hm_is_in_a_subnet(const struct choice *choice, const struct ip *ip)
{
	for (size_t i = 0; i < choice->network->n_subnets; i++) {
		const struct hetzner_subnet *subnet = &choice->network->subnets[i];
		struct ip_net net = hm_net_of(subnet->ip_range);
		struct ip first, last;

		ip_net_span(&net, &first, &last);
		if (hm_fits(choice, subnet) && ip_net_contains(&net, ip) && !ip_eq(ip, &first) &&
		    !ip_eq(ip, &last))
			return true;
	}
	return false;
}

static bool
hm_choose_asked(struct hetzner *h, const struct hm_project *p, const struct choice *choice,
                struct str text, struct hetzner_member *ret, struct hm_refusal *ret_why)
{
	struct ip ip;

	if (!hm_parse_ipv4(text, &ip)) {
		*ret_why = (struct hm_refusal){ NULL, "ip", STR("is no IPv4 address") };
		return false;
	}
	ret_why->code = "ip_not_available";
	ret_why->message = arena_printf(&h->arena, "the IP %" STR_FMT " is in no subnet that fits",
	                                STR_ARG(text));
	if (!hm_is_in_a_subnet(choice, &ip))
		return false;
	ret_why->message = arena_printf(&h->arena, "the IP %" STR_FMT " is not available",
	                                STR_ARG(text));
	ret->address = hm_ipv4_number(&ip);
	return !hm_is_taken(p, choice->network, ret->address);
}

/* The newest subnet that fits, or the one that is asked for. */
static bool
hm_choose_subnet(const struct choice *choice, struct str asked, struct ip_net *ret,
                 struct hm_refusal *ret_why)
{
	struct ip_net wanted, net;
	bool is_found = false;

	if (asked.ptr && !hm_parse_net(asked, &wanted)) {
		*ret_why = (struct hm_refusal){ NULL, "ip_range", STR("is no IPv4 network") };
		return false;
	}
	for (size_t i = 0; i < choice->network->n_subnets; i++) {
		net = hm_net_of(choice->network->subnets[i].ip_range);
		if (!hm_fits(choice, &choice->network->subnets[i]) ||
		    (asked.ptr && (net.bits != wanted.bits || !ip_eq(&net.ip, &wanted.ip))))
			continue;
		*ret = net;
		is_found = true;
	}
	*ret_why = (struct hm_refusal){ "no_subnet_available", NULL,
		                        STR("the network has no subnet that fits") };
	return is_found;
}

static bool
hm_choose_free(struct hetzner *h, const struct hm_project *p, const struct choice *choice,
               struct str ip_range, struct hetzner_member *ret, struct hm_refusal *ret_why)
{
	struct ip_net subnet;

	if (!hm_choose_subnet(choice, ip_range, &subnet, ret_why))
		return false;
	ret_why->code = "ip_not_available";
	ret_why->message = arena_printf(&h->arena, "no address is left in %" STR_FMT,
	                                STR_ARG(hm_net_text(&h->arena, &subnet)));
	return hm_find_free(p, choice->network, &subnet, &ret->address);
}

bool
hm_choose_ip(struct hetzner *h, const struct hm_project *p, const struct hetzner_network *network,
             const struct hm_wish *wish, struct hetzner_member *ret, struct hm_refusal *ret_why)
{
	struct choice choice = { network, wish->zone };
	struct hetzner_member member = { .network = network->base.id };

	*ret_why = (struct hm_refusal){ NULL, NULL, STR_EMPTY };
	if (!(wish->ip.ptr ? hm_choose_asked(h, p, &choice, wish->ip, &member, ret_why)
	                   : hm_choose_free(h, p, &choice, wish->ip_range, &member, ret_why)))
		return false;
	member.ip = hm_ipv4_text(&h->arena, member.address);
	*ret = member;
	return true;
}
