#include "providers/hcloud/lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NOBODY LAB_LIST("", "null", "0")

static struct node_ref
by_id(const char *provider_id)
{
	return (struct node_ref){ .name = STR("n1"), .provider_id = str_c(provider_id) };
}

static struct node_ref
by_name(const char *name)
{
	return (struct node_ref){ .name = str_c(name), .provider_id = STR_EMPTY };
}

static struct look *
look_at(struct lab *lab, const struct node_ref refs[], size_t n)
{
	struct error err;
	struct look *look = lab_look(lab, refs, n, &err);

	if (!look)
		fail_msg("%s", err.msg);
	return look;
}

static void
check_text(struct str text, const char *wanted)
{
	if (!str_eq_c(text, wanted))
		fail_msg("\"%" STR_FMT "\" is not \"%s\"", STR_ARG(text), wanted);
}

/* The only one asked for. */
static void
check_one(struct lab *lab, struct node_ref ref, enum presence presence, const char *error)
{
	CLEANUP(look_unrefp) struct look *look = look_at(lab, &ref, 1);

	assert_int_equal(look->instances[0].presence, presence);
	check_text(look->instances[0].error, error);
}

static void
check_failure(struct lab *lab, const struct node_ref refs[], size_t n, enum err_code code)
{
	struct error err;

	assert_null(lab_look(lab, refs, n, &err));
	assert_int_equal(err.code, code);
}

/* ---- one machine ---- */

static void
a_server_is_asked_for_by_id(void **state)
{
	struct lab *lab = *state;

	lab_open(lab, &hz_official, 0);
	lab_answer(lab, "/servers/1", 200, LAB_ONE(1, "n1"));
	check_one(lab, by_id("hcloud://1"), PRESENCE_PRESENT, "");
	lab_check_asked(lab, "/servers/1\n");
}

static void
not_found_is_absent(void **state)
{
	struct lab *lab = *state;

	lab_open(lab, &hz_official, 0);
	lab_answer(lab, "/servers/1", 404, LAB_NOT_FOUND);
	check_one(lab, by_id("hcloud://1"), PRESENCE_ABSENT, "");
	lab_answer(lab, "/servers?name=n1", 200, "{\"servers\":[]}");
	check_one(lab, by_name("n1"), PRESENCE_ABSENT, "");
}

/* Only the API's own word counts: everything else leaves the node alone. */
static void
nothing_else_is_absent(void **state)
{
	static const struct http_script_answer answers[] = {
		{ "/servers/1", 404, "<html>not here</html>", ERR_NONE, 0, 0, 0, 0, false, false },
		{ "/servers/1", 404, "{}", ERR_NONE, 0, 0, 0, 0, false, false },
		{ "/servers/1", 404, "", ERR_NONE, 0, 0, 0, 0, false, false },
		{ "/servers/1", 404, LAB_ERROR("locked"), ERR_NONE, 0, 0, 0, 0, false, false },
		{ "/servers/1", 200, LAB_NOT_FOUND, ERR_NONE, 0, 0, 0, 0, false, false },
		{ "/servers/1", 503, LAB_NOT_FOUND, ERR_NONE, 0, 0, 0, 0, false, false },
		{ "/servers/1", 200, "{\"server\":null}", ERR_NONE, 0, 0, 0, 0, false, false },
		{ "/servers/1", 200, "", ERR_NONE, 0, 0, 0, 0, false, false },
		{ "/servers/1", 200, LAB_ONE(2, "n1"), ERR_NONE, 0, 0, 0, 0, false, false },
		{ "/servers/1", 401, LAB_ERROR("unauthorized"), ERR_NONE, 0, 0, 0, 0, false,
		  false },
		{ "/servers/1", 403, LAB_ERROR("forbidden"), ERR_NONE, 0, 0, 0, 0, false, false },
		{ "/servers/1", 429, LAB_ERROR("rate_limit_exceeded"), ERR_NONE, 0, 0, 0, 0, false,
		  false },
		{ "/servers/1", 500, LAB_ERROR("server_error"), ERR_NONE, 0, 0, 0, 0, false,
		  false },
		{ "/servers/1", 302, "", ERR_NONE, 0, 0, 0, 0, false, false },
		{ "/servers/1", 0, NULL, ERR_UNAVAILABLE, 0, 0, 0, 0, false, false },
		{ "/servers/1", 0, NULL, ERR_TIMEOUT, 0, 0, 0, 0, false, false },
	};
	struct lab *lab = *state;
	struct node_ref ref = by_id("hcloud://1");

	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		struct error err;

		lab->script.n_answers = 0;
		lab_add(lab, answers[i]);
		lab_open(lab, &hz_official, 0);
		if (lab_look(lab, &ref, 1, &err))
			fail_msg("answer %zu was taken for one", i);
		assert_int_not_equal(err.code, ERR_NOT_FOUND);
	}
}

/* What a look shows of a server is known to the load balancers. */
static void
a_look_shows_how_a_server_can_be_reached(void **state)
{
	struct lab *lab = *state;
	const char *obstacle;

	lab_open(lab, &hz_official, 4711);
	assert_null(hz_servers_known_obstacle(lab->servers_known, 1, /*is_private=*/false));
	lab_answer(lab, "/servers/1", 200,
	           "{\"server\":{\"id\":1,\"name\":\"n1\",\"status\":\"running\",\"public_net\":"
	           "{\"ipv4\":null,\"ipv6\":{\"ip\":\"2001:db8::/64\"}},\"private_net\":[]}}");
	lab_answer(lab, "/servers/1", 200, LAB_ONE(1, "n1"));
	check_one(lab, by_id("hcloud://1"), PRESENCE_PRESENT, "");
	obstacle = hz_servers_known_obstacle(lab->servers_known, 1, false);
	assert_string_equal(obstacle, "has no public IPv4 address");
	obstacle = hz_servers_known_obstacle(lab->servers_known, 1, true);
	assert_string_equal(obstacle, "is not attached to the network");
	check_one(lab, by_id("hcloud://1"), PRESENCE_PRESENT, "");
	assert_null(hz_servers_known_obstacle(lab->servers_known, 1, false));
	assert_null(hz_servers_known_obstacle(lab->servers_known, 1, true));
}

static void
a_list_by_name_without_a_list_is_none(void **state)
{
	struct lab *lab = *state;
	struct node_ref ref = by_name("n1");

	lab_open(lab, &hz_official, 0);
	lab_answer(lab, "/servers?name=n1", 200, "{\"servers\":null}");
	check_failure(lab, &ref, 1, ERR_UNAVAILABLE);
}

static void
names_are_exact(void **state)
{
	struct lab *lab = *state;

	lab_open(lab, &hz_official, 0);
	lab_answer(lab, "/servers?name=n1", 200,
	           "{\"servers\":[" LAB_SERVER(8, "N1") "," LAB_SERVER(9, "n1") "]}");
	check_one(lab, by_name("n1"), PRESENCE_PRESENT, "");
	lab_answer(lab, "/servers?name=a%2Fb%26c", 200, "{\"servers\":[" LAB_SERVER(8, "x") "]}");
	check_one(lab, by_name("a/b&c"), PRESENCE_ABSENT, "");
}

static void
foreign_ids_cost_nothing(void **state)
{
	struct lab *lab = *state;

	lab_open(lab, &hz_official, 0);
	check_one(lab, by_id("aws:///eu/i-1"), PRESENCE_FOREIGN,
	          "failed to convert provider id to server id: Provider ID does not have one of "
	          "the the expected prefixes (hcloud://, hrobot://, hcloud://bm-): aws:///eu/i-1");
	check_one(lab, by_id("hcloud://x"), PRESENCE_UNKNOWN,
	          "failed to convert provider id to server id: unable to parse server id: "
	          "hcloud://x");
	check_one(
		lab, by_id("hrobot://5"), PRESENCE_FOREIGN,
		"no robot client configured, make sure to enable Robot support in the configuration");
	lab_check_asked(lab, "");
}

/* ---- many ---- */

static void
many_are_answered_by_pages(void **state)
{
	struct node_ref refs[] = { by_id("hcloud://1"), by_id("hcloud://2"), by_name("n3") };
	struct lab *lab = *state;
	CLEANUP(look_unrefp) struct look *look = NULL;

	lab_open(lab, &hz_official, 0);
	lab_answer(lab, LAB_PAGE_1, 200, LAB_LIST(LAB_SERVER(1, "n1"), "2", "3"));
	lab_answer(lab, LAB_PAGE_2, 200,
	           LAB_LIST(LAB_SERVER(2, "n2") "," LAB_SERVER(3, "n3"), "null", "3"));
	look = look_at(lab, refs, 3);
	lab_check_asked(lab, LAB_PAGE_1 "\n" LAB_PAGE_2 "\n");
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(look->instances[i].presence, PRESENCE_PRESENT);
	check_text(look->instances[2].provider_id, "hcloud://3");
}

static void
what_is_missing_is_asked_for(void **state)
{
	struct node_ref refs[] = { by_id("hcloud://1"), by_id("hcloud://2"), by_id("hcloud://3") };
	struct lab *lab = *state;
	CLEANUP(look_unrefp) struct look *look = NULL;

	lab_open(lab, &hz_official, 0);
	lab_answer(lab, LAB_PAGE_1, 200, LAB_LIST(LAB_SERVER(1, "n1"), "null", "1"));
	lab_answer(lab, "/servers/2", 404, LAB_NOT_FOUND);
	lab_answer(lab, "/servers/3", 200, LAB_ONE(3, "n3")); /* made meanwhile */
	look = look_at(lab, refs, 3);
	lab_check_asked(lab, LAB_PAGE_1 "\n/servers/2\n/servers/3\n");
	assert_int_equal(look->instances[0].presence, PRESENCE_PRESENT);
	assert_int_equal(look->instances[1].presence, PRESENCE_ABSENT);
	assert_int_equal(look->instances[2].presence, PRESENCE_PRESENT);
}

/* A list that changed while it was read may lack entries. */
static void
pages_that_shift_are_not_complete(void **state)
{
	static const char *const seconds[] = {
		/* as many as the last page says, but not as the first did */
		LAB_LIST(LAB_SERVER(2, "n2") "," LAB_SERVER(3, "n3"), "null", "3"),
		LAB_LIST(LAB_SERVER(2, "n2"), "null",
		         "3"), /* another total, though there are as many */
		LAB_LIST(LAB_SERVER(1, "n1"), "null", "2"), /* one seen twice */
		"{\"servers\":[" LAB_SERVER(2, "n2") "]}",  /* no total */
	};
	struct node_ref refs[] = { by_id("hcloud://1"), by_id("hcloud://9") };
	struct lab *lab = *state;

	for (size_t i = 0; i < ARRAY_LEN(seconds); i++) {
		CLEANUP(look_unrefp) struct look *look = NULL;

		lab->script.n_answers = 0;
		lab_answer(lab, LAB_PAGE_1, 200, LAB_LIST(LAB_SERVER(1, "n1"), "2", "2"));
		lab_answer(lab, LAB_PAGE_2, 200, seconds[i]);
		lab_answer(lab, "/servers/9", 404, LAB_NOT_FOUND);
		lab_open(lab, &hz_official, 0);
		look = look_at(lab, refs, 2);
		assert_int_equal(look->instances[0].presence, PRESENCE_PRESENT);
		assert_int_equal(look->instances[1].presence, PRESENCE_ABSENT);
	}
}

static void
a_list_without_end_is_given_up(void **state)
{
	struct node_ref refs[] = { by_id("hcloud://1"), by_id("hcloud://2") };
	struct lab *lab = *state;

	lab_open(lab, &hz_official, 0);
	lab_answer(lab, LAB_PAGE_1, 200, LAB_LIST(LAB_SERVER(1, "n1"), "1", "2"));
	check_failure(lab, refs, 2, ERR_UNAVAILABLE);
	assert_int_equal(lab->script.n_asked, 1);
}

static void
half_a_list_says_nothing_of_the_rest(void **state)
{
	struct node_ref refs[] = { by_id("hcloud://1"), by_id("hcloud://2") };
	struct lab *lab = *state;
	CLEANUP(look_unrefp) struct look *look = NULL;

	lab_open(lab, &hz_official, 0);
	lab_answer(lab, LAB_PAGE_1, 200, LAB_LIST(LAB_SERVER(1, "n1"), "2", "2"));
	lab_answer(lab, LAB_PAGE_2, 500, LAB_ERROR("server_error"));
	look = look_at(lab, refs, 2);
	assert_int_equal(look->instances[0].presence, PRESENCE_PRESENT);
	assert_int_equal(look->instances[1].presence, PRESENCE_UNKNOWN);
	assert_int_equal(look->instances[1].error_code, ERR_UNAVAILABLE);
}

/* Once the project is known to have many servers, a few of ours are asked for one by one. */
static void
few_of_many_are_asked_for_singly(void **state)
{
	CLEANUP(buf_fini) struct buf list = BUF_INIT(1000000);
	struct node_ref refs[] = { by_id("hcloud://1"), by_id("hcloud://2") };
	struct lab *lab = *state;
	CLEANUP(look_unrefp) struct look *first = NULL, *second = NULL;

	lab_open(lab, &hz_official, 0);
	buf_add_c(&list, "{\"servers\":[");
	for (int i = 1; i <= 60; i++)
		buf_addf(&list, "%s{\"id\":%d,\"name\":\"n%d\"}", i > 1 ? "," : "", i, i);
	buf_add_c(&list, "],\"meta\":{\"pagination\":{\"total_entries\":60,\"next_page\":null}}}");
	lab_answer(lab, LAB_PAGE_1, 200, list.ptr);
	lab_answer(lab, "/servers/1", 200, LAB_ONE(1, "n1"));
	lab_answer(lab, "/servers/2", 200, LAB_ONE(2, "n2"));
	first = look_at(lab, refs, 2);
	second = look_at(lab, refs, 2);
	lab_check_asked(lab, LAB_PAGE_1 "\n/servers/1\n/servers/2\n");
}

static void
pages_are_read_until_all_are_found(void **state)
{
	struct node_ref refs[] = { by_id("hcloud://1"), by_id("hcloud://2") };
	struct lab *lab = *state;
	CLEANUP(look_unrefp) struct look *look = NULL;

	lab_open(lab, &hz_official, 0);
	lab_answer(lab, LAB_PAGE_1, 200,
	           LAB_LIST(LAB_SERVER(1, "n1") "," LAB_SERVER(2, "n2"), "2", "60"));
	look = look_at(lab, refs, 2);
	lab_check_asked(lab, LAB_PAGE_1 "\n");
}

/* The first page has the number of all entries. */
static void
a_long_list_is_not_read_for_a_few(void **state)
{
	struct node_ref refs[] = { by_id("hcloud://1"), by_id("hcloud://2") };
	struct lab *lab = *state;
	CLEANUP(look_unrefp) struct look *first = NULL, *second = NULL;

	lab_open(lab, &hz_official, 0);
	lab_answer(lab, LAB_PAGE_1, 200, LAB_LIST(LAB_SERVER(1, "n1"), "2", "10000"));
	lab_answer(lab, "/servers/1", 200, LAB_ONE(1, "n1"));
	lab_answer(lab, "/servers/2", 200, LAB_ONE(2, "n2"));
	first = look_at(lab, refs, 2);
	lab_check_asked(lab, LAB_PAGE_1 "\n/servers/2\n");
	assert_int_equal(first->instances[1].presence, PRESENCE_PRESENT);
	second = look_at(lab, refs, 2);
	lab_check_asked(lab, "/servers/1\n/servers/2\n");
}

/* Where machines of nodes lie close together in a long list, the list goes on being read. */
static void
a_page_that_answers_several_is_followed_by_the_next(void **state)
{
	struct node_ref refs[] = { by_id("hcloud://1"), by_id("hcloud://2"), by_id("hcloud://3") };
	struct lab *lab = *state;
	CLEANUP(look_unrefp) struct look *look = NULL;

	lab_open(lab, &hz_official, 0);
	lab_answer(lab, LAB_PAGE_1, 200,
	           LAB_LIST(LAB_SERVER(1, "n1") "," LAB_SERVER(2, "n2"), "2", "10000"));
	lab_answer(lab, LAB_PAGE_2, 200, LAB_LIST(LAB_SERVER(3, "n3"), "3", "10000"));
	look = look_at(lab, refs, 3);
	lab_check_asked(lab, LAB_PAGE_1 "\n" LAB_PAGE_2 "\n");
	assert_int_equal(look->instances[2].presence, PRESENCE_PRESENT);
}

static void
without_the_cache_each_is_asked_for(void **state)
{
	struct node_ref refs[] = { by_id("hcloud://1"), by_id("hcloud://2") };
	static const char *const modes[] = { "one", "off" };
	struct lab *lab = *state;

	lab_answer(lab, "/servers/1", 200, LAB_ONE(1, "n1"));
	lab_answer(lab, "/servers/2", 404, LAB_NOT_FOUND);
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		CLEANUP(look_unrefp) struct look *look = NULL;

		setenv("HCLOUD_SERVER_CACHE_MODE", modes[i], 1);
		lab_open(lab, &hz_official, 0);
		look = look_at(lab, refs, 2);
		lab_check_asked(lab, "/servers/1\n/servers/2\n");
		assert_int_equal(look->instances[1].presence, PRESENCE_ABSENT);
	}
}

/* After the first failure no other server is requested. */
static void
one_failure_stops_the_rest(void **state)
{
	struct node_ref refs[] = { by_id("hcloud://1"), by_id("hcloud://2"), by_id("hcloud://3") };
	struct lab *lab = *state;
	CLEANUP(look_unrefp) struct look *look = NULL;

	setenv("HCLOUD_SERVER_CACHE_MODE", "one", 1);
	lab_open(lab, &hz_official, 0);
	lab_answer(lab, "/servers/1", 200, LAB_ONE(1, "n1"));
	lab_answer(lab, "/servers/2", 401, LAB_ERROR("unauthorized"));
	look = look_at(lab, refs, 3);
	lab_check_asked(lab, "/servers/1\n/servers/2\n");
	assert_int_equal(look->instances[0].presence, PRESENCE_PRESENT);
	for (size_t i = 1; i < 3; i++) {
		assert_int_equal(look->instances[i].presence, PRESENCE_UNKNOWN);
		assert_int_equal(look->instances[i].error_code, ERR_UNAUTHORIZED);
	}
}

/* What a foreign node is follows from its provider ID, without an answer of the cloud. */
static void
a_foreign_node_makes_no_look_succeed(void **state)
{
	struct node_ref refs[] = { by_id("hcloud://1"), by_id("x://1") };
	struct lab *lab = *state;

	lab_open(lab, &hz_official, 0);
	lab_answer(lab, "/servers/1", 401, LAB_ERROR("unauthorized"));
	check_failure(lab, refs, 2, ERR_UNAUTHORIZED);
}

static void
number_refs(struct node_ref refs[], char ids[][24], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		snprintf(ids[i], 24, "hcloud://%zu", i + 1);
		refs[i] = by_id(ids[i]);
	}
}

/* All machines of a large cluster seem gone: it is not asked for each of them, and not always for
 * the same. */
static void
confirmations_are_bounded_and_go_round(void **state)
{
	static char ids[150][24];
	struct node_ref refs[150];
	struct lab *lab = *state;
	size_t n_absent[2] = { 0, 0 }, n_either = 0;
	CLEANUP(look_unrefp) struct look *first = NULL, *second = NULL;

	lab_open(lab, &hz_official, 0);
	number_refs(refs, ids, 150);
	lab_answer(lab, LAB_PAGE_1, 200, NOBODY);
	lab_answer(lab, "/servers/*", 404, LAB_NOT_FOUND);
	first = look_at(lab, refs, 150);
	assert_int_equal(lab->script.n_asked, 101);
	second = look_at(lab, refs, 150);
	for (size_t i = 0; i < 150; i++) {
		bool one = first->instances[i].presence == PRESENCE_ABSENT;
		bool other = second->instances[i].presence == PRESENCE_ABSENT;

		n_absent[0] += one;
		n_absent[1] += other;
		n_either += one || other;
	}
	assert_int_equal(n_absent[0], 100);
	assert_int_equal(n_absent[1], 100);
	assert_int_equal(n_either, 150);
}

/* ---- which provider IDs can be found ---- */

static void
check_can_find(struct lab *lab, const char *provider_id, bool wanted, unsigned wanted_realm)
{
	unsigned realm = 7;

	assert_int_equal(hz_instances_can_find(&lab->hcloud.cloud, str_c(provider_id), &realm),
	                 wanted);
	if (wanted)
		assert_int_equal(realm, wanted_realm);
}

/* Without a request. */
static void
only_ids_that_may_be_asked_for_can_be_found(void **state)
{
	struct lab *lab = *state;

	lab_open(lab, &hz_official, 0);
	check_can_find(lab, "hcloud://1", true, HZ_REALM_CLOUD);
	check_can_find(lab, "hcloud://abc", false, 0);
	check_can_find(lab, "aws:///eu/i-1", false, 0);
	check_can_find(lab, "hrobot://5", false, 0);
	lab_use_robot(lab);
	lab_open(lab, &hz_official, 0);
	check_can_find(lab, "hrobot://5", true, HZ_REALM_ROBOT);
	check_can_find(lab, "hcloud://bm-5", true, HZ_REALM_ROBOT);
}

/* ---- anchors ---- */

static void
our_network_is_an_anchor(void **state)
{
	struct node_ref ref = by_id("hcloud://1");
	struct lab *lab = *state;
	CLEANUP(look_unrefp) struct look *ours = NULL, *other = NULL;

	lab_open(lab, &hz_official, 4711);
	lab_answer(lab, "/servers/1", 404, LAB_NOT_FOUND);
	lab_answer(lab, "/networks/4711", 200, "{\"network\":{\"id\":4711,\"name\":\"nw\"}}");
	lab_answer(lab, "/networks/4711", 404, LAB_NOT_FOUND);
	ours = look_at(lab, &ref, 1);
	assert_int_equal(ours->n_anchors, 1);
	/* a token of another project */
	other = look_at(lab, &ref, 1);
	assert_int_equal(other->n_anchors, 0);
}

static void
an_anchor_is_asked_for_only_in_need(void **state)
{
	struct node_ref refs[] = { by_id("hcloud://1"), by_id("hcloud://2") };
	struct lab *lab = *state;
	CLEANUP(look_unrefp) struct look *look = NULL;

	lab_open(lab, &hz_official, 4711);
	lab_answer(lab, LAB_PAGE_1, 200, LAB_LIST(LAB_SERVER(1, "n1"), "null", "1"));
	lab_answer(lab, "/servers/2", 404, LAB_NOT_FOUND);
	look = look_at(lab, refs, 2);
	assert_int_equal(look->instances[1].presence, PRESENCE_ABSENT);
	lab_check_asked(lab, LAB_PAGE_1 "\n/servers/2\n");
}

/* It cannot be deleted because of this look. */
static void
no_anchor_is_asked_for_about_a_ready_node_without_an_id(void **state)
{
	struct node_ref ref = by_name("n1");
	struct lab *lab = *state;

	lab_open(lab, &hz_official, 4711);
	lab_answer(lab, "/servers?name=n1", 200, LAB_LIST("", "null", "1"));
	lab_answer(lab, "/networks/4711", 404, LAB_NOT_FOUND);
	check_one(lab, ref, PRESENCE_ABSENT, "");
	lab_check_asked(lab, "/servers?name=n1\n/networks/4711\n");
	ref.is_ready = true;
	lab_answer(lab, "/servers?name=n1", 200, LAB_LIST("", "null", "1"));
	check_one(lab, ref, PRESENCE_ABSENT, "");
	lab_check_asked(lab, "/servers?name=n1\n");
}

/* ---- the budget ---- */

static void
a_spent_budget_is_not_overdrawn(void **state)
{
	struct lab *lab = *state;
	struct node_ref ref = by_id("hcloud://1");
	struct error err;

	lab_open(lab, &hz_official, 0);
	lab_add(lab, (struct http_script_answer){ .target = "/servers/1",
	                                          .status = 200,
	                                          .body = LAB_ONE(1, "n1"),
	                                          .limit = 3600,
	                                          .remaining = 100,
	                                          .reset_s = 1800000000 + 3500 });
	check_one(lab, ref, PRESENCE_PRESENT, "");
	lab_check_asked(lab, "/servers/1\n");
	for (int i = 0; i < 3; i++) {
		assert_null(lab_look(lab, &ref, 1, &err));
		assert_int_equal(err.code, ERR_THROTTLED);
		assert_in_range(err.retry_after_ms, 250000,
		                270000); /* from 100 to 361, one a second */
	}
	lab_check_asked(lab, "");
	/* reported once */
	assert_string_equal(
		lab->fake.events.ptr,
		"- HetznerRateLimit: the Hetzner Cloud API's rate limit of this project is nearly used up: periodic "
		"requests slow down, and all requests wait while less than the reserve is left; the next one is sent "
		"in 4m21s\n");
	lab->fake.now_ns += 3000 * NS_PER_SEC;
	check_one(lab, ref, PRESENCE_PRESENT, "");
}

static void
looks_for_new_nodes_go_first(void **state)
{
	struct node_ref new = by_name("n1"), nameless = by_name("n1"), known = by_id("hcloud://1");
	struct lab *lab = *state;
	struct error err;

	new.is_new = true;
	lab_open(lab, &hz_official, 0);
	lab_add(lab, (struct http_script_answer){ .target = "/servers?name=n1",
	                                          .status = 200,
	                                          .body = "{\"servers\":[" LAB_SERVER(1, "n1") "]}",
	                                          .limit = 3600,
	                                          .remaining = 300,
	                                          .reset_s = 1800000000 + 3300 });
	check_one(lab, new, PRESENCE_PRESENT, "");
	assert_null(lab_look(lab, &known, 1, &err));
	assert_null(lab_look(lab, &nameless, 1, &err));
	check_one(lab, new, PRESENCE_PRESENT, "");
	/* one with an ID is waited for, too, until it is initialised */
	known.is_new = true;
	lab_answer(lab, "/servers/1", 200, LAB_ONE(1, "n1"));
	check_one(lab, known, PRESENCE_PRESENT, "");
}

/* Whoever waits may take all but the reserve; while the cloud refuses, what runs in the background
 * keeps off until twice that has flowed in. */
static void
after_a_refusal_the_background_keeps_off(void **state)
{
	struct node_ref new = by_id("hcloud://1"), known = by_id("hcloud://1");
	struct lab *lab = *state;
	struct error err;

	new.is_new = true;
	lab_open(lab, &hz_official, 0);
	lab_answer(lab, "/servers/1", 429, LAB_ERROR("rate_limit_exceeded"));
	lab_answer(lab, "/servers/1", 200, LAB_ONE(1, "n1"));
	assert_null(lab_look(lab, &known, 1, &err));
	lab_check_asked(lab, "/servers/1\n");
	lab->fake.now_ns += 182 * NS_PER_SEC;
	assert_null(lab_look(lab, &known, 1, &err));
	assert_in_range(err.retry_after_ms, 178000, 180000);
	check_one(lab, new, PRESENCE_PRESENT, "");
	lab->fake.now_ns += 182 * NS_PER_SEC;
	check_one(lab, known, PRESENCE_PRESENT, "");
	lab_check_asked(lab, "/servers/1\n/servers/1\n");
}

/* The variable is checked, and held by answers that are never older than the question. */
static void
no_answer_is_older_than_its_question(void **state)
{
	struct lab *lab = *state;

	setenv("HCLOUD_SERVER_CACHE_MAX_AGE", "1h", 1);
	lab_open(lab, &hz_official, 0);
	lab_answer(lab, "/servers/1", 200, LAB_ONE(1, "n1"));
	lab_answer(lab, "/servers/1", 404, LAB_NOT_FOUND);
	check_one(lab, by_id("hcloud://1"), PRESENCE_PRESENT, "");
	check_one(lab, by_id("hcloud://1"), PRESENCE_ABSENT, "");
}

/* ---- Robot ---- */

#define ROBOT_SERVER(number, name)                                               \
	"{\"server\":{\"server_number\":" #number ",\"server_name\":\"" name     \
	"\",\"product\":\"Robot Server™ 1\",\"dc\":\"FSN1-DC14\",\"server_ip\":" \
	"\"123.123.123.123\",\"server_ipv6_net\":\"2a01:4f8:111:4221::\"}}"
#define ROBOT_LIST "[" ROBOT_SERVER(321, "robot1") "," ROBOT_SERVER(322, "robot2") "]"
#define ROBOT_ERROR(code) "{\"error\":{\"status\":404,\"code\":\"" code "\",\"message\":\"no\"}}"
#define RESET(status) "{\"reset\":{\"operating_status\":\"" status "\"}}"

static struct node_ref
robot_ref(const char *name, const char *provider_id)
{
	return (struct node_ref){ .name = str_c(name),
		                  .provider_id = str_c(provider_id),
		                  .is_ready = true };
}

static int
robot_setup(void **state)
{
	int result = lab_setup(state);

	setenv("ROBOT_ENABLED", "true", 1);
	lab_use_robot(*state);
	lab_open(*state, &hz_official, 0);
	return result;
}

static void
one_list_answers_for_all_dedicated_servers(void **state)
{
	struct node_ref refs[] = { robot_ref("robot1", "hrobot://321"),
		                   robot_ref("robot2", "hcloud://bm-322") };
	struct lab *lab = *state;
	CLEANUP(look_unrefp) struct look *first = NULL, *second = NULL;

	lab_answer(lab, "/server", 200, ROBOT_LIST);
	first = look_at(lab, refs, 2);
	second = look_at(lab, refs, 2);
	lab_check_asked(lab, "/server\n");
	assert_int_equal(first->instances[1].presence, PRESENCE_PRESENT);
	check_text(first->instances[1].provider_id, "hrobot://322");
	assert_int_equal(second->instances[0].realm, HZ_REALM_ROBOT);
	lab->fake.now_ns += 301 * NS_PER_SEC;
	look_unref(TAKE(second));
	second = look_at(lab, refs, 2);
	lab_check_asked(lab, "/server\n");
}

static void
an_absent_dedicated_server_is_asked_for(void **state)
{
	struct lab *lab = *state;

	lab_answer(lab, "/server", 200, ROBOT_LIST);
	lab_answer(lab, "/server/999", 404, ROBOT_ERROR("SERVER_NOT_FOUND"));
	check_one(lab, robot_ref("robot9", "hrobot://999"), PRESENCE_ABSENT, "");
	lab_check_asked(lab, "/server\n/server/999\n");
	/* an empty account */
	lab->script.n_answers = 0;
	lab->fake.now_ns += 301 * NS_PER_SEC;
	lab_answer(lab, "/server", 404, ROBOT_ERROR("NOT_FOUND"));
	lab_answer(lab, "/server/999", 200, ROBOT_SERVER(999, "robot9"));
	check_one(lab, robot_ref("robot9", "hrobot://999"), PRESENCE_PRESENT, "");
}

static void
a_server_under_another_name_is_unknown(void **state)
{
	struct lab *lab = *state;

	lab_answer(lab, "/server", 200, ROBOT_LIST);
	lab_answer(lab, "/server/321", 200, ROBOT_SERVER(321, "robot1"));
	check_one(lab, robot_ref("other", "hrobot://321"), PRESENCE_UNKNOWN,
	          "Node name \"other\" differs from Robot name \"robot1\" of server 321");
	assert_string_equal(
		lab->fake.events.ptr,
		"other PossibleNodeDeletion: Node name \"other\" differs from Robot name \"robot1\" of server "
		"321, so it is unknown whether the machine of the node still exists, and the node is neither "
		"changed nor deleted. Rename the server to \"other\" in Robot; if it has another use now: "
		"kubectl delete node other\n");
	lab_check_asked(lab, "/server\n/server/321\n");
}

static void
names_are_looked_for_on_both_sides(void **state)
{
	struct lab *lab = *state;

	lab_answer(lab, "/server", 200, ROBOT_LIST);
	lab_answer(lab, "/servers?name=robot1", 200, "{\"servers\":[]}");
	check_one(lab, by_name("robot1"), PRESENCE_PRESENT, "");
	lab_answer(lab, "/servers?name=robot2", 200, "{\"servers\":[" LAB_SERVER(9, "robot2") "]}");
	check_one(lab, by_name("robot2"), PRESENCE_UNKNOWN,
	          "found both a cloud & robot server for name \"robot2\"");
	assert_string_equal(lab->fake.events.ptr,
	                    "robot2 InstanceLookupFailed: Node robot2 could not be uniquely "
	                    "associated with a Cloud or Robot server, as a server with this name "
	                    "exists in both APIs\n");
	lab_answer(lab, "/servers?name=n3", 200, "{\"servers\":[]}");
	check_one(lab, by_name("n3"), PRESENCE_ABSENT, "");
}

/* Power costs a request each, so it is asked for where a kubelet is silent. */
static void
power_is_asked_of_the_reset_service(void **state)
{
	static const struct {
		const char *status;
		enum power power;
	} known[] = { { "running", POWER_ON },
		      { "shut off", POWER_OFF },
		      { "shut down", POWER_ON },
		      { "not supported", POWER_ON } };
	struct node_ref ref = robot_ref("robot1", "hrobot://321");
	struct lab *lab = *state;

	ref.is_ready = false;
	lab_answer(lab, "/server", 200, ROBOT_LIST);
	lab_answer(lab, "/reset/321", 200, RESET("running"));
	lab_answer(lab, "/reset/321", 200, RESET("shut off"));
	lab_answer(lab, "/reset/321", 200, RESET("shut down"));
	lab_answer(lab, "/reset/321", 200, RESET("not supported"));
	lab_answer(lab, "/reset/321", 404, ROBOT_ERROR("RESET_NOT_AVAILABLE"));
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		CLEANUP(look_unrefp) struct look *look = look_at(lab, &ref, 1);

		assert_int_equal(look->instances[0].power, known[i].power);
	}
	CLEANUP(look_unrefp) struct look *none = look_at(lab, &ref, 1);
	assert_int_equal(none->instances[0].presence, PRESENCE_PRESENT);
	assert_int_equal(none->instances[0].power, POWER_UNKNOWN);
}

static void
robots_rate_limit_is_guarded(void **state)
{
	struct node_ref ref = robot_ref("robot1", "hrobot://321");
	struct lab *lab = *state;

	lab_answer(lab, "/server", 403, ROBOT_ERROR("RATE_LIMIT_EXCEEDED"));
	check_one(lab, ref, PRESENCE_UNKNOWN,
	          "failed to get robot server \"321\": list of Robot servers: GET /server: 403 no "
	          "(RATE_LIMIT_EXCEEDED)");
	check_one(lab, ref, PRESENCE_UNKNOWN,
	          "failed to get robot server \"321\": list of Robot servers: rate limit exceeded, "
	          "next try at \"2027-01-15T08:01:00Z\"");
	lab_check_asked(lab, "/server\n");
	assert_string_equal(
		lab->fake.events.ptr,
		"- RobotRateLimitExceeded: the Robot web service's rate limit is exceeded, "
		"no requests about dedicated servers are sent for 1m0s\n");
	lab->fake.now_ns += 61 * NS_PER_SEC;
	lab->script.n_answers = 0;
	lab_answer(lab, "/server", 200, ROBOT_LIST);
	check_one(lab, ref, PRESENCE_PRESENT, "");
}

/* An hour without Robot: servers of the cloud are initialised, dedicated ones found; nothing is
 * said to be gone. */
static void
robots_last_list_serves_while_it_is_away(void **state)
{
	struct lab *lab = *state;

	lab_answer(lab, "/servers?name=n1", 200, "{\"servers\":[" LAB_SERVER(1, "n1") "]}");
	lab_answer(lab, "/servers?name=n2", 200, "{\"servers\":[]}");
	lab_answer(lab, "/servers?name=robot1", 200, "{\"servers\":[]}");
	lab_answer(lab, "/server", 500, "oops");
	check_one(lab, by_name("n1"), PRESENCE_UNKNOWN,
	          "failed to get robot server \"n1\": list of Robot servers: GET /server: 500 "
	          "server responded with status code 500");
	lab_answer(lab, "/server", 200, ROBOT_LIST);
	check_one(lab, by_name("n1"), PRESENCE_PRESENT, "");
	lab_answer(lab, "/server", 500, "oops");
	lab->fake.now_ns += 3600 * NS_PER_SEC;
	check_one(lab, by_name("n1"), PRESENCE_PRESENT, "");
	check_one(lab, by_name("robot1"), PRESENCE_PRESENT, "");
	check_one(
		lab, by_name("n2"), PRESENCE_UNKNOWN,
		"failed to get robot server \"n2\": list of Robot servers: the Robot web service has "
		"been unavailable since 2027-01-15T09:00:00Z: GET /server: 500 server responded with "
		"status code 500");
}

/* Repeated bad logins block our address. */
static void
a_bad_login_is_not_repeated(void **state)
{
	struct node_ref ref = robot_ref("robot1", "hrobot://321");
	struct lab *lab = *state;
	CLEANUP(look_unrefp) struct look *first = NULL, *second = NULL;

	lab_answer(lab, "/server", 401, ROBOT_ERROR("UNAUTHORIZED"));
	first = look_at(lab, &ref, 1);
	second = look_at(lab, &ref, 1);
	lab_check_asked(lab, "/server\n");
	assert_int_equal(second->instances[0].presence, PRESENCE_UNKNOWN);
	assert_int_equal(second->instances[0].error_code, ERR_UNAUTHORIZED);
	assert_non_null(strstr(lab->fake.events.ptr,
	                       "- RobotLoginRefused: The Robot web service refuses "
	                       "ROBOT_USER or ROBOT_PASSWORD."));
}

/* What fails at Robot does not touch the cloud's, and the other way round. */
static void
each_side_fails_for_itself(void **state)
{
	struct node_ref refs[] = { by_id("hcloud://1"), robot_ref("robot1", "hrobot://321") };
	struct lab *lab = *state;
	CLEANUP(look_unrefp) struct look *one = NULL, *other = NULL;

	lab_answer(lab, "/servers/1", 200, LAB_ONE(1, "n1"));
	lab_answer(lab, "/servers/1", 500, LAB_ERROR("server_error"));
	lab_answer(lab, "/server", 500, "oops");
	lab_answer(lab, "/server", 200, ROBOT_LIST);
	one = look_at(lab, refs, 2);
	assert_int_equal(one->instances[0].presence, PRESENCE_PRESENT);
	assert_int_equal(one->instances[1].presence, PRESENCE_UNKNOWN);
	other = look_at(lab, refs, 2);
	assert_int_equal(other->instances[0].presence, PRESENCE_UNKNOWN);
	assert_int_equal(other->instances[1].presence, PRESENCE_PRESENT);
}

#define IN_LAB(test) cmocka_unit_test_setup_teardown(test, lab_setup, lab_teardown)
#define WITH_ROBOT(test) cmocka_unit_test_setup_teardown(test, robot_setup, lab_teardown)

static void
an_outage_of_robot_leaves_cloud_servers_alone(void **state)
{
	struct node_ref refs[] = { by_id("hcloud://1"), robot_ref("robot1", "hrobot://321") };
	struct lab *lab = *state;
	unsigned n_robot;

	lab_answer(lab, "/servers/1", 200, LAB_ONE(1, "n1"));
	lab_answer(lab, "/server", 500, "oops");
	for (int i = 0; i < 1800; i++) {
		CLEANUP(look_unrefp) struct look *look = look_at(lab, refs, 2);

		assert_int_equal(look->instances[0].presence, PRESENCE_PRESENT);
		assert_int_equal(look->instances[1].presence, PRESENCE_UNKNOWN);
		assert_int_equal(look->instances[1].is_outage, i > 0);
		lab->fake.now_ns += NS_PER_SEC;
	}
	n_robot = lab->script.n_asked - 1800;
	assert_in_range(n_robot, 60, 70);
	assert_int_equal(lab->fake.n_recovered, 0);
	lab->script.n_answers = 0;
	lab_answer(lab, "/servers/1", 200, LAB_ONE(1, "n1"));
	lab_answer(lab, "/server", 200, ROBOT_LIST);
	lab->fake.now_ns += 30 * NS_PER_SEC;
	check_one(lab, refs[1], PRESENCE_PRESENT, "");
	assert_int_equal(lab->fake.n_recovered, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		IN_LAB(a_server_is_asked_for_by_id),
		IN_LAB(not_found_is_absent),
		IN_LAB(nothing_else_is_absent),
		IN_LAB(a_look_shows_how_a_server_can_be_reached),
		IN_LAB(a_list_by_name_without_a_list_is_none),
		IN_LAB(names_are_exact),
		IN_LAB(foreign_ids_cost_nothing),
		IN_LAB(many_are_answered_by_pages),
		IN_LAB(what_is_missing_is_asked_for),
		IN_LAB(pages_that_shift_are_not_complete),
		IN_LAB(a_list_without_end_is_given_up),
		IN_LAB(half_a_list_says_nothing_of_the_rest),
		IN_LAB(few_of_many_are_asked_for_singly),
		IN_LAB(pages_are_read_until_all_are_found),
		IN_LAB(a_long_list_is_not_read_for_a_few),
		IN_LAB(a_page_that_answers_several_is_followed_by_the_next),
		IN_LAB(without_the_cache_each_is_asked_for),
		IN_LAB(one_failure_stops_the_rest),
		IN_LAB(a_foreign_node_makes_no_look_succeed),
		IN_LAB(confirmations_are_bounded_and_go_round),
		IN_LAB(only_ids_that_may_be_asked_for_can_be_found),
		IN_LAB(our_network_is_an_anchor),
		IN_LAB(an_anchor_is_asked_for_only_in_need),
		IN_LAB(no_anchor_is_asked_for_about_a_ready_node_without_an_id),
		IN_LAB(a_spent_budget_is_not_overdrawn),
		IN_LAB(looks_for_new_nodes_go_first),
		IN_LAB(after_a_refusal_the_background_keeps_off),
		IN_LAB(no_answer_is_older_than_its_question),
		WITH_ROBOT(one_list_answers_for_all_dedicated_servers),
		WITH_ROBOT(an_absent_dedicated_server_is_asked_for),
		WITH_ROBOT(a_server_under_another_name_is_unknown),
		WITH_ROBOT(names_are_looked_for_on_both_sides),
		WITH_ROBOT(power_is_asked_of_the_reset_service),
		WITH_ROBOT(robots_rate_limit_is_guarded),
		WITH_ROBOT(robots_last_list_serves_while_it_is_away),
		WITH_ROBOT(a_bad_login_is_not_repeated),
		WITH_ROBOT(each_side_fails_for_itself),
		WITH_ROBOT(an_outage_of_robot_leaves_cloud_servers_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
