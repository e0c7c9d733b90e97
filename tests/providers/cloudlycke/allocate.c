#include "providers/cloudlycke/allocate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/macros.h"
#include "providers/cloudlycke/inventory.h"
#include "providers/cloudlycke/lab.h"

enum {
	HOLDERS_MAX = 40,
};

/* A pool from an inventory, and the addresses that Services hold. */
struct world {
	struct arena arena;
	struct cl_inventory *inventory;
	const struct cl_pool *pool;
	struct cl_allocation allocations[HOLDERS_MAX];
	const struct cl_allocation *others[HOLDERS_MAX];
	size_t n;
	struct cl_addresses found;
	bool is_full;
	struct error err;
};

static void
world_fini(struct world *w)
{
	cl_inventory_unref(w->inventory);
	arena_fini(&w->arena);
}

/* pool: the fields of the one pool, "addresses: [10.0.0.1]". */
static struct world
world_of(const char *pool)
{
	CLEANUP(cl_problems_fini) struct cl_problems problems = CL_PROBLEMS_INIT("x");
	struct world w = { .n = 0 };
	struct str text = arena_printf(&w.arena,
	                               LAB_HEAD "machines: []\naddressPools: [{name: p, %s}]\n",
	                               pool);

	w.inventory = cl_inventory_parse(text, &problems);
	assert_non_null(w.inventory);
	w.pool = &w.inventory->schema.pools[0];
	return w;
}

static struct ip
ip(const char *text)
{
	struct ip ip;

	assert_true(ip_parse(str_c(text), &ip));
	return ip;
}

/* "80/TCP", "53/UDP"; NULL at the end. */
static void
set_ports(struct world *w, struct cl_allocation *h, const char *const texts[])
{
	struct lb_port *ports = arena_calloc(&w->arena, 8, sizeof(*ports));
	int64_t number;

	for (size_t i = 0; texts[i]; i++) {
		struct str before, after;

		assert_true(str_cut(str_c(texts[i]), '/', &before, &after));
		assert_true(str_to_i64(before, 1, 65535, &number));
		ports[i] = (struct lb_port){ .port = (int32_t)number,
			                     .protocol = str_eq_c(after, "UDP") ? LB_UDP : LB_TCP,
			                     .protocol_text = after };
		h->n_ports++;
	}
	h->ports = ports;
}

#define PORTS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Another Service, "ns/name", that holds that address. */
static struct cl_allocation *
hold(struct world *w, const char *name, const char *address)
{
	struct cl_allocation *h = &w->allocations[w->n];

	w->others[w->n++] = h;
	*h = (struct cl_allocation){ .uid = str_c(name), .share_key = STR_EMPTY, .addresses.n = 1 };
	assert_true(str_cut(str_c(name), '/', &h->namespace, &h->service));
	h->addresses.items[0] = ip(address);
	set_ports(w, h, PORTS("80/TCP"));
	return h;
}

static const enum ip_family both[] = { IP_V4, IP_V6 };

static struct cl_request
request_of(struct world *w)
{
	struct cl_request request = { .pool = w->pool, .families = both, .n_families = 1 };

	request.values.allocation = (struct cl_allocation){ .namespace = STR("ns"),
		                                            .service = STR("me"),
		                                            .uid = STR("me"),
		                                            .share_key = STR_EMPTY };
	set_ports(w, &request.values.allocation, PORTS("80/TCP"));
	return request;
}

/* The addresses in the request are those that the Service has. */
static bool
allocate(struct world *w, const struct cl_request *request)
{
	return cl_allocate(request, &request->values.allocation.addresses, w->others, w->n,
	                   &w->arena, &w->found, &w->is_full, &w->err);
}

static void
assert_gets(struct world *w, const struct cl_request *request, const char *first,
            const char *second)
{
	struct ip want = ip(first);

	if (!allocate(w, request))
		fail_msg("%s", w->err.msg);
	assert_int_equal(w->found.n, second ? 2 : 1);
	assert_true(ip_eq(&w->found.items[0], &want));
	if (!second)
		return;
	want = ip(second);
	assert_true(ip_eq(&w->found.items[1], &want));
}

static void
assert_refused(struct world *w, const struct cl_request *request, const char *message)
{
	assert_false(allocate(w, request));
	assert_int_equal(w->err.code, ERR_INVALID);
	assert_string_equal(w->err.msg, message);
}

/* ---- a new address ---- */

static void
the_lowest_free_address_is_given(void **state)
{
	CLEANUP(world_fini) struct world w = world_of("addresses: [10.0.0.1-10.0.0.4]");
	struct cl_request request = request_of(&w);

	(void)state;
	assert_gets(&w, &request, "10.0.0.1", NULL);
	hold(&w, "ns/a", "10.0.0.1");
	hold(&w, "ns/b", "10.0.0.3");
	assert_gets(&w, &request, "10.0.0.2", NULL);
	hold(&w, "ns/c", "10.0.0.2");
	assert_gets(&w, &request, "10.0.0.4", NULL);
}

static void
the_first_block_is_used_first(void **state)
{
	CLEANUP(world_fini)
	struct world w = world_of("addresses: [10.9.0.7, 10.0.0.1-10.0.0.2, 10.1.0.1]");
	struct cl_request request = request_of(&w);

	(void)state;
	assert_gets(&w, &request, "10.9.0.7", NULL);
	hold(&w, "ns/a", "10.9.0.7");
	assert_gets(&w, &request, "10.0.0.1", NULL);
	hold(&w, "ns/b", "10.0.0.1");
	hold(&w, "ns/c", "10.0.0.2");
	assert_gets(&w, &request, "10.1.0.1", NULL);
}

static void
edges_and_avoided_addresses_are_left_out(void **state)
{
	CLEANUP(world_fini)
	struct world w = world_of("addresses: [10.0.0.0/29], avoid: [10.0.0.1-10.0.0.2, 10.0.0.4]");
	CLEANUP(world_fini)
	struct world edges = world_of("addresses: [10.0.0.0/30], avoidEdges: false");
	CLEANUP(world_fini) struct world range = world_of("addresses: [10.0.0.0-10.0.0.3]");
	CLEANUP(world_fini) struct world small = world_of("addresses: [10.0.0.0/31]");
	struct cl_request request = request_of(&w);

	(void)state;
	assert_gets(&w, &request, "10.0.0.3", NULL);
	hold(&w, "ns/a", "10.0.0.3");
	assert_gets(&w, &request, "10.0.0.5", NULL);
	hold(&w, "ns/b", "10.0.0.5");
	hold(&w, "ns/c", "10.0.0.6");
	assert_refused(&w, &request, "address pool \"p\" has no free IPv4 address (3 of 3 in use)");
	assert_true(w.is_full);
	request = request_of(&edges);
	assert_gets(&edges, &request, "10.0.0.0", NULL);
	request = request_of(&range);
	assert_gets(&range, &request, "10.0.0.0", NULL);
	request = request_of(&small);
	assert_gets(&small, &request, "10.0.0.0", NULL);
}

static void
an_edge_in_another_block_is_no_edge(void **state)
{
	CLEANUP(world_fini)
	struct world w = world_of("addresses: [10.0.0.0/30, 10.0.0.3-10.0.0.4]");
	struct cl_request request = request_of(&w);

	(void)state;
	hold(&w, "ns/a", "10.0.0.1");
	hold(&w, "ns/b", "10.0.0.2");
	assert_gets(&w, &request, "10.0.0.3", NULL);
}

static void
huge_blocks_cost_nothing(void **state)
{
	CLEANUP(world_fini)
	struct world w = world_of("addresses: ['::/0'], avoid: ['::-fd00::ffff']");
	CLEANUP(world_fini)
	struct world end = world_of("addresses: ['ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'], "
	                            "avoid: ['ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff']");
	struct cl_request request = request_of(&w);

	(void)state;
	request.families = &both[1];
	assert_gets(&w, &request, "fd00::1:0", NULL);
	request.pool = end.pool;
	assert_refused(&end, &request,
	               "address pool \"p\" has no free IPv6 address (0 of 0 in use)");
}

/* ---- what it has ---- */

static void
an_address_that_fits_is_kept(void **state)
{
	CLEANUP(world_fini)
	struct world w = world_of("addresses: [10.0.0.1-10.0.0.9], avoid: [10.0.0.5]");
	struct cl_request request = request_of(&w);

	(void)state;
	request.values.allocation.addresses.n = 1;
	request.values.allocation.addresses.items[0] = ip("10.0.0.7");
	assert_gets(&w, &request, "10.0.0.7", NULL);
	request.values.allocation.addresses.items[0] = ip("10.0.0.5"); /* avoided since */
	assert_gets(&w, &request, "10.0.0.1", NULL);
	request.values.allocation.addresses.items[0] = ip("10.1.0.7"); /* the pool moved */
	assert_gets(&w, &request, "10.0.0.1", NULL);
	request.values.allocation.addresses.items[0] = ip("10.0.0.7");
	hold(&w, "ns/a", "10.0.0.7");
	assert_gets(&w, &request, "10.0.0.1", NULL);
	request.values.allocation.addresses.items[0] = ip("10.0.0.8");
	request.wanted.n = 1;
	request.wanted.items[0] = ip("10.0.0.2");
	assert_gets(&w, &request, "10.0.0.2", NULL);
}

static void
the_services_own_entry_is_no_rival(void **state)
{
	CLEANUP(world_fini) struct world w = world_of("addresses: [10.0.0.1]");
	struct cl_request request = request_of(&w);

	(void)state;
	hold(&w, "ns/me", "10.0.0.1")->uid = STR("me");
	request.values.allocation.addresses.n = 1;
	request.values.allocation.addresses.items[0] = ip("10.0.0.1");
	assert_gets(&w, &request, "10.0.0.1", NULL);
	request.values.allocation.addresses.n = 0;
	assert_gets(&w, &request, "10.0.0.1", NULL);
}

/* ---- wanted ones ---- */

static void
a_wanted_address_is_given_or_refused_with_the_reason(void **state)
{
	CLEANUP(world_fini)
	struct world w = world_of("addresses: [10.0.0.0/29], avoid: [10.0.0.2]");
	struct cl_request request = request_of(&w);

	(void)state;
	request.wanted.n = 1;
	request.wanted.items[0] = ip("10.0.0.5");
	assert_gets(&w, &request, "10.0.0.5", NULL);
	request.wanted.items[0] = ip("10.1.0.5");
	assert_refused(&w, &request, "address \"10.1.0.5\" is not in pool \"p\"");
	assert_false(w.is_full);
	request.wanted.items[0] = ip("10.0.0.2");
	assert_refused(&w, &request, "address \"10.0.0.2\" is reserved in pool \"p\"");
	request.wanted.items[0] = ip("10.0.0.7");
	assert_refused(&w, &request, "address \"10.0.0.7\" is reserved in pool \"p\"");
	hold(&w, "other/web", "10.0.0.5");
	request.wanted.items[0] = ip("10.0.0.5");
	assert_refused(&w, &request, "address \"10.0.0.5\" is already used by other/web");
	assert_true(w.is_full);
	request.wanted.items[0] = ip("fd00::1");
	assert_refused(&w, &request, "address \"fd00::1\" is of none of the Service's IP families");
}

/* ---- families ---- */

#define DUAL "addresses: [10.0.0.1, 'fd00::1']"

static void
each_family_gets_an_address_in_the_order_of_families(void **state)
{
	static const enum ip_family reversed[] = { IP_V6, IP_V4 };
	CLEANUP(world_fini) struct world w = world_of(DUAL);
	struct cl_request request = request_of(&w);

	(void)state;
	request.n_families = 2;
	assert_gets(&w, &request, "10.0.0.1", "fd00::1");
	request.families = reversed;
	assert_gets(&w, &request, "fd00::1", "10.0.0.1");
}

static void
prefer_dual_stack_takes_one_family_if_need_be(void **state)
{
	CLEANUP(world_fini) struct world w = world_of(DUAL);
	struct cl_request request = request_of(&w);

	(void)state;
	request.n_families = 2;
	hold(&w, "ns/a", "10.0.0.1");
	assert_refused(&w, &request, "address pool \"p\" has no free IPv4 address (1 of 1 in use)");
	request.may_lack = true;
	assert_gets(&w, &request, "fd00::1", NULL);
	hold(&w, "ns/b", "fd00::1");
	assert_refused(&w, &request, "address pool \"p\" has no free IPv6 address (1 of 1 in use)");
}

static void
a_wanted_address_may_not_be_missing(void **state)
{
	CLEANUP(world_fini) struct world w = world_of(DUAL);
	struct cl_request request = request_of(&w);

	(void)state;
	request.n_families = 2;
	request.may_lack = true;
	request.wanted.n = 1;
	request.wanted.items[0] = ip("fd00::1");
	hold(&w, "ns/a", "fd00::1");
	assert_refused(&w, &request, "address \"fd00::1\" is already used by ns/a");
}

/* ---- sharing ---- */

static void
services_with_one_key_share_where_their_ports_differ(void **state)
{
	CLEANUP(world_fini) struct world w = world_of("addresses: [10.0.0.1-10.0.0.2]");
	struct cl_request request = request_of(&w);
	struct cl_allocation *other = hold(&w, "ns/dns", "10.0.0.1");

	(void)state;
	request.values.allocation.share_key = STR("k");
	other->share_key = STR("k");
	other->n_ports = 0;
	set_ports(&w, other, PORTS("80/UDP", "81/TCP"));
	assert_gets(&w, &request, "10.0.0.1", NULL);
	other->n_ports = 0;
	set_ports(&w, other, PORTS("81/TCP", "80/TCP"));
	assert_gets(&w, &request, "10.0.0.2", NULL);
	request.wanted.n = 1;
	request.wanted.items[0] = ip("10.0.0.1");
	assert_refused(&w, &request,
	               "address \"10.0.0.1\" cannot be shared: port 80/TCP is used by ns/dns");
}

static void
only_services_with_one_key_share(void **state)
{
	CLEANUP(world_fini) struct world w = world_of("addresses: [10.0.0.1]");
	struct cl_request request = request_of(&w);
	struct cl_allocation *other = hold(&w, "ns/dns", "10.0.0.1");

	(void)state;
	other->n_ports = 0;
	set_ports(&w, other, PORTS("53/UDP"));
	request.wanted.n = 1;
	request.wanted.items[0] = ip("10.0.0.1");
	assert_refused(&w, &request, "address \"10.0.0.1\" is already used by ns/dns");
	request.values.allocation.share_key = STR("k");
	assert_refused(&w, &request, "address \"10.0.0.1\" is already used by ns/dns");
	other->share_key = STR("other");
	assert_refused(&w, &request, "address \"10.0.0.1\" is already used by ns/dns");
	other->share_key = STR("k");
	other->namespace = STR("elsewhere");
	assert_refused(&w, &request, "address \"10.0.0.1\" is already used by elsewhere/dns");
	other->namespace = STR("ns");
	assert_gets(&w, &request, "10.0.0.1", NULL);
}

/* ---- whatever happens ---- */

/* What must hold of all holders at any time: one address has one holder, or such as may share
 * it. */
static void
assert_no_address_is_taken_away(const struct world *w)
{
	for (size_t i = 0; i < w->n; i++) {
		for (size_t k = 0; k < i; k++) {
			for (size_t a = 0; a < w->others[i]->addresses.n; a++)
				assert_true(!cl_addresses_have(&w->others[k]->addresses,
				                               &w->others[i]->addresses.items[a]) ||
				            cl_may_share(w->others[i], w->others[k], NULL));
		}
	}
}

static const char *const pools[] = {
	"addresses: [10.0.0.0/28, 'fd00::1-fd00::6'], avoid: [10.0.0.4]",
	"addresses: [10.0.0.3-10.0.0.9, 'fd00::4-fd00::9']",
	"addresses: [10.1.0.1, 10.0.0.1, 'fd00::1']",
};

/* One Service changes in one way. */
static void
change(struct cl_allocation *h, struct cl_request *request, struct ip *wanted)
{
	static const struct str keys[] = { { "", 0 }, { "k", 1 }, { "l", 1 } };

	request->families = both;
	request->n_families = 1 + (size_t)(rand() % 2);
	request->may_lack = rand() % 2;
	h->share_key = keys[rand() % 3];
	h->ports++;
	h->n_ports = 1 + (size_t)(rand() % 2);
	h->ports -= rand() % 2;
	wanted->bytes[15] = (uint8_t)(rand() % 12);
	request->wanted.n = rand() % 4 == 0;
}

static void
no_order_of_events_gives_an_address_twice(void **state)
{
	CLEANUP(world_fini) struct world first = world_of(pools[0]), second = world_of(pools[1]);
	CLEANUP(world_fini) struct world third = world_of(pools[2]);
	const struct cl_pool *const all[] = { first.pool, second.pool, third.pool };
	struct world *w = &first;
	struct lb_port ports[64];
	char names[24][4];

	(void)state;
	for (int i = 0; i < 64; i++)
		ports[i] = (struct lb_port){ .port = 80 + i % 5, .protocol_text = STR("TCP") };
	for (unsigned seed = 1; seed <= 300; seed++) {
		srand(seed);
		w->n = 0;
		for (int step = 0; step < 200; step++) {
			size_t i = (size_t)(rand() % 24);
			struct cl_request request = { .pool = all[rand() % 3] };
			struct ip wanted = ip("10.0.0.0");
			struct cl_allocation *self;
			size_t at = 0;

			(void)snprintf(names[i], sizeof(names[i]), "%zu", i);
			while (at < w->n && !str_eq_c(w->allocations[at].uid, names[i]))
				at++;
			self = &request.values.allocation;
			*self = at < w->n ? w->allocations[at]
			                  : (struct cl_allocation){ .namespace = STR("ns"),
				                                    .service = str_c(names[i]),
				                                    .uid = str_c(names[i]) };
			self->ports = &ports[rand() % 60];
			change(self, &request, &wanted);
			request.wanted.items[0] = wanted;
			if (at < w->n && rand() % 5 == 0) { /* it goes */
				w->allocations[at] = w->allocations[--w->n];
			} else if (allocate(w, &request)) {
				self->addresses = w->found;
				w->others[at] = &w->allocations[at];
				w->allocations[at] = *self;
				w->n += at == w->n;
			}
			assert_no_address_is_taken_away(w);
		}
		arena_reset(&w->arena);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_lowest_free_address_is_given),
		cmocka_unit_test(the_first_block_is_used_first),
		cmocka_unit_test(edges_and_avoided_addresses_are_left_out),
		cmocka_unit_test(an_edge_in_another_block_is_no_edge),
		cmocka_unit_test(huge_blocks_cost_nothing),
		cmocka_unit_test(an_address_that_fits_is_kept),
		cmocka_unit_test(the_services_own_entry_is_no_rival),
		cmocka_unit_test(a_wanted_address_is_given_or_refused_with_the_reason),
		cmocka_unit_test(each_family_gets_an_address_in_the_order_of_families),
		cmocka_unit_test(prefer_dual_stack_takes_one_family_if_need_be),
		cmocka_unit_test(a_wanted_address_may_not_be_missing),
		cmocka_unit_test(services_with_one_key_share_where_their_ports_differ),
		cmocka_unit_test(only_services_with_one_key_share),
		cmocka_unit_test(no_order_of_events_gives_an_address_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
