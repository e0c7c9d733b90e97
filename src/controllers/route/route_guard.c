/* controllers/route/route_guard.c: decides claims and removals; see route_guard.h.
 *
 * Two networks are either nested or disjoint, so claims sorted by address, wider ones first, form a
 * tree in depth-first order: the claims that contain a claim are found by following outer. A
 * granted claim is entered as inner in all claims that contain it, so both kinds of overlap are
 * found without comparing each claim with each other.
 */
#include "controllers/route/route_guard.h"

#include <stdlib.h>

static int
compare_networks(const void *a, const void *b)
{
	const struct route_claim *x = *(struct route_claim *const *)a;
	const struct route_claim *y = *(struct route_claim *const *)b;
	int order = (int)ip_family(&x->net.ip) - (int)ip_family(&y->net.ip);

	if (order == 0)
		order = ip_cmp(&x->net.ip, &y->net.ip);
	if (order == 0)
		order = (int)x->net.bits - (int)y->net.bits;
	return order;
}

static int
compare_ages(const struct route_claim *a, const struct route_claim *b)
{
	if (a->created_wall_ns != b->created_wall_ns)
		return a->created_wall_ns < b->created_wall_ns ? -1 : 1;
	return str_cmp(a->uid, b->uid);
}

bool
route_claim_is_older(const struct route_claim *a, const struct route_claim *b)
{
	return compare_ages(a, b) < 0;
}

static int
compare_precedence(const void *a, const void *b)
{
	const struct route_claim *x = *(struct route_claim *const *)a;
	const struct route_claim *y = *(struct route_claim *const *)b;

	if (x->is_routed != y->is_routed)
		return x->is_routed ? -1 : 1;
	return compare_ages(x, y);
}

static void
build_tree(struct route_claim **by_network, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct route_claim *claim = by_network[i],
				   *outer = i > 0 ? by_network[i - 1] : NULL;

		while (outer && !ip_net_is_within(&claim->net, &outer->net))
			outer = outer->outer;
		claim->outer = outer;
	}
}

/* A granted claim that overlaps with this one; NULL: none. */
static const struct route_claim *
find_granted(const struct route_claim *claim)
{
	const struct route_claim *found = claim->inner;

	for (const struct route_claim *outer = claim->outer; outer && !found; outer = outer->outer)
		found = outer->is_granted ? outer : NULL;
	return found;
}

static void
grant(struct route_claim *claim)
{
	claim->is_granted = true;
	for (struct route_claim *around = claim; around && !around->inner; around = around->outer)
		around->inner = claim;
}

void
route_claims_decide(struct arena *arena, struct route_claim claims[], size_t n)
{
	struct route_claim **sorted = arena_calloc(arena, n + 1, sizeof(struct route_claim *));
	struct ip last;

	for (size_t i = 0; i < n; i++) {
		ip_net_span(&claims[i].net, &claims[i].net.ip, &last);
		claims[i].is_granted = false;
		claims[i].lost_to = NULL;
		claims[i].outer = claims[i].inner = NULL;
		sorted[i] = &claims[i];
	}
	if (n == 0)
		return;
	qsort(sorted, n, sizeof(sorted[0]), compare_networks);
	build_tree(sorted, n);
	qsort(sorted, n, sizeof(sorted[0]), compare_precedence);
	for (size_t i = 0; i < n; i++) {
		if (!sorted[i]->is_routed)
			sorted[i]->lost_to = find_granted(sorted[i]);
		if (!sorted[i]->lost_to)
			grant(sorted[i]);
	}
}

static bool
is_too_many(const struct route_removal_facts *f)
{
	return f->n_going > ROUTE_BREAKER_MIN &&
	       (uint64_t)f->n_going * 100 > (uint64_t)f->n_table * ROUTE_BREAKER_PERCENT;
}

enum route_removal
route_removal_decide(const struct route_removal_facts *f)
{
	if (f->n_nodes == 0)
		return ROUTE_REMOVAL_NO_NODES;
	if (f->is_expected || !is_too_many(f))
		return ROUTE_REMOVAL_DONE;
	return f->agreed_ns < ROUTE_BREAKER_AGREEMENT_S * NS_PER_SEC ? ROUTE_REMOVAL_TOO_MANY
	                                                             : ROUTE_REMOVAL_DONE;
}
