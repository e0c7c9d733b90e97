/* controllers/node/addresses.c: merges the addresses of the cloud with those that the kubelet was
 * given; see addresses.h.
 *
 * The rules and the error texts are those of k8s.io/cloud-provider (node/helpers/address.go) and of
 * the kubelet's parser for --node-ip, which put the annotation on the node.
 */
#include "controllers/node/addresses.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ip.h"

static const struct str type_hostname = STR("Hostname");

/* The kubelet's --node-ip: one IP, or one of each family. */
struct provided_ips {
	struct ip ips[2];
	struct str texts[2];
	size_t n;
};

/* As strict as the kubelet's own parser: elements are not trimmed, so "a, b" is refused. */
static bool
parse_provided(struct str annotation, struct provided_ips *p, struct error *err)
{
	struct ip ip;

	for (struct str part, rest = annotation; str_split(&rest, ',', &part);) {
		if (!ip_parse(part, &ip))
			return err_set(err, ERR_INVALID, "could not parse \"%" STR_FMT "\"",
			               STR_ARG(part));
		if (p->n == 2 || (p->n == 1 && ip_family(&p->ips[0]) == ip_family(&ip)))
			return err_set(
				err, ERR_INVALID,
				"must contain either a single IP or a dual-stack pair of IPs");
		p->texts[p->n] = part;
		p->ips[p->n++] = ip;
	}
	if (p->n == 2 && (ip_is_unspecified(&p->ips[0]) || ip_is_unspecified(&p->ips[1])))
		return err_set(err, ERR_INVALID,
		               "dual-stack node IP cannot include '0.0.0.0' or '::'");
	return true;
}

static bool
has_type(const struct address *items, size_t n, struct str type)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq(items[i].type, type))
			return true;
	}
	return false;
}

/* Addresses that match the provided IPs come first, in the spelling of the cloud. Other addresses
 * of their types are dropped. */
static bool
filter_provided(const struct address *all, size_t n, struct str annotation, struct arena *arena,
                struct address_list *ret, struct error *err)
{
	struct provided_ips provided = { 0 };
	struct address_list out = { 0 };
	size_t n_enforced;
	struct ip ip;

	if (!parse_provided(annotation, &provided, err))
		return err_wrap(err, "failed to parse node IP \"%" STR_FMT "\"",
		                STR_ARG(annotation));
	out.items = arena_calloc(arena, n * 3 + 1, sizeof(*out.items));
	for (size_t i = 0; i < provided.n; i++) {
		n_enforced = out.n;
		for (size_t j = 0; j < n; j++) {
			if (ip_parse(all[j].address, &ip) && ip_eq(&ip, &provided.ips[i]))
				out.items[out.n++] = all[j];
		}
		if (out.n == n_enforced)
			return err_set(
				err, ERR_INVALID,
				"failed to get node address from cloud provider that matches ip: %" STR_FMT,
				STR_ARG(provided.texts[i]));
	}
	n_enforced = out.n;
	for (size_t i = 0; i < n; i++) {
		if (!has_type(out.items, n_enforced, all[i].type))
			out.items[out.n++] = all[i];
	}
	*ret = out;
	return true;
}

bool
addresses_plan(const struct node *node, const struct instance *instance, struct arena *arena,
               struct address_list *ret, struct error *err)
{
	const struct str *provided = node_annotation(node, STR(NODE_ANNOTATION_PROVIDED_IP));
	struct address_list all;
	bool has_hostname;

	/* The provided IP must be in the cloud's list, so it is checked before the node's own
	 * Hostname is added. */
	if (provided && !filter_provided(instance->addresses, instance->n_addresses, *provided,
	                                 arena, &all, err))
		return err_wrap(err, "provided node ip for node \"%" STR_FMT "\" is not valid",
		                STR_ARG(node_name(node)));
	if (instance->n_addresses == 0) {
		*ret = (struct address_list){ 0 };
		return true;
	}

	/* The Hostname that the kubelet has set stays if the cloud names none. */
	has_hostname = has_type(instance->addresses, instance->n_addresses, type_hostname);
	all.n = instance->n_addresses;
	all.items = arena_calloc(arena, all.n + node->n_addresses, sizeof(*all.items));
	memcpy(all.items, instance->addresses, all.n * sizeof(*all.items));
	for (size_t i = 0; i < node->n_addresses && !has_hostname; i++) {
		if (str_eq(node->addresses[i].type, type_hostname))
			all.items[all.n++] = node->addresses[i];
	}
	if (provided && !filter_provided(all.items, all.n, *provided, arena, &all, err))
		return false;
	*ret = all;
	return true;
}

/* By type; addresses of one type stay in their order, since both point into one list. */
static int
compare_types(const void *a, const void *b)
{
	const struct address *const *x = a, *const *y = b;
	int by_type = str_cmp((*x)->type, (*y)->type);

	return by_type != 0 ? by_type : (*x > *y) - (*x < *y);
}

static const struct address **
sort_by_type(const struct address *items, size_t n)
{
	const struct address **sorted = xcalloc(n, sizeof(const struct address *));

	for (size_t i = 0; i < n; i++)
		sorted[i] = &items[i];
	qsort(sorted, n, sizeof(sorted[0]), compare_types);
	return sorted;
}

bool
addresses_equal(const struct address *a, size_t n_a, const struct address *b, size_t n_b)
{
	const struct address **by_type_a, **by_type_b;
	size_t n_equal = 0;

	if (n_a != n_b)
		return false;
	while (n_equal < n_a && address_eq(&a[n_equal], &b[n_equal]))
		n_equal++;
	if (n_equal == n_a)
		return true;
	by_type_a = sort_by_type(a, n_a);
	by_type_b = sort_by_type(b, n_b);
	n_equal = 0;
	while (n_equal < n_a && address_eq(by_type_a[n_equal], by_type_b[n_equal]))
		n_equal++;
	free(by_type_a);
	free(by_type_b);
	return n_equal == n_a;
}
