/* An hour of a cluster in the Hetzner Cloud, with all controllers of nodes, on a fake clock: how
 * many requests it costs, and that whatever the cloud says in its worst hour, no node is
 * deleted. */
#include "controllers/rig.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "providers/hcloud/api.h"
#include "providers/hcloud/hcloud.h"

extern char **environ;

enum {
	HOUR_S = 3600,
	WORKERS = 2, /* each further one makes the clock's steps longer */
	PAGE = 50,
	FIRST_ID = 1000000,
	OTHERS_ID = 2000000, /* another project's */
	NETWORK = 4711,
	LIMIT = 3600,
};

/* What the cloud says, whatever is true. */
enum trouble {
	ALL_WELL,
	OTHER_PROJECT,
	OTHER_PROJECT_WITH_OUR_NAMES,
	UNAUTHORIZED,
	FORBIDDEN,
	TOO_MANY,
	BROKEN,
	AWAY,
	GATEWAY,
	LOCKED,
	NOT_FOUND_BY_A_PROXY,
	SILENT,
	CUT_OFF,
	NO_JSON,
	OTHER_JSON,
	/* the list alone is wrong */
	EMPTY_LIST,
	SHORT_PAGES,
	WRONG_TOTALS,
	SHIFTING_PAGES,
	LAST_PAGE_AWAY,
};

/* The project, the provider in front of it, and the controllers. */
struct world {
	struct http_client http;
	struct cloud cloud;
	struct cloud_host host;
	struct rig *rig;
	struct hz_config *config;
	struct hz_api *api;
	struct hcloud hcloud;
	pthread_mutex_t mu;
	enum trouble trouble; /* mu, as is all below */
	unsigned n_servers;
	bool is_first_gone; /* the machine of node 0 */
	unsigned n_asked;
	double left; /* of the limit */
	int64_t left_at_ns;
	double neighbours; /* requests a second that other tools make */
	unsigned n_events;
	char last_event[100];
};

static struct world *world;

/* ---- the API ---- */

static void
add_error(struct http_response *r, int status, const char *code)
{
	r->status = status;
	buf_addf(&r->body, "{\"error\":{\"code\":\"%s\",\"message\":\"no\",\"details\":null}}",
	         code);
}

static void
add_text(struct http_response *r, int status, const char *text)
{
	r->status = status;
	buf_add_c(&r->body, text);
}

static bool
is_other_project(const struct world *w)
{
	return w->trouble == OTHER_PROJECT || w->trouble == OTHER_PROJECT_WITH_OUR_NAMES;
}

static bool
has_server(const struct world *w, int64_t i)
{
	return i >= 0 && i < w->n_servers && !(i == 0 && w->is_first_gone) &&
	       w->trouble != OTHER_PROJECT;
}

static void
add_server(struct buf *b, int64_t i, int64_t first_id)
{
	buf_addf(b, "{\"id\":%ld,\"name\":\"n%ld\",\"status\":\"running\",", (long)(first_id + i),
	         (long)i);
	buf_add_c(b, "\"public_net\":{\"ipv4\":{\"ip\":\"203.0.113.7\"},\"ipv6\":null},"
	             "\"private_net\":[],\"server_type\":{\"name\":\"cx22\"},"
	             "\"location\":{\"name\":\"fsn1\",\"network_zone\":\"eu-central\"}}");
}

static void
answer_by_id(struct world *w, int64_t i, struct http_response *r)
{
	if (is_other_project(w) || !has_server(w, i)) {
		add_error(r, 404, "not_found");
		return;
	}
	r->status = 200;
	buf_add_c(&r->body, "{\"server\":");
	add_server(&r->body, i, FIRST_ID);
	buf_add_c(&r->body, "}");
}

static void
answer_by_name(struct world *w, int64_t i, struct http_response *r)
{
	r->status = 200;
	buf_add_c(&r->body, "{\"servers\":[");
	if (has_server(w, i))
		add_server(&r->body, i, is_other_project(w) ? OTHERS_ID : FIRST_ID);
	buf_add_c(&r->body, "]}");
}

static void
end_list(struct world *w, int64_t page, bool is_last, struct http_response *r)
{
	int64_t total = w->trouble == EMPTY_LIST || w->trouble == OTHER_PROJECT ? 0 : w->n_servers;

	if (w->trouble == WRONG_TOTALS)
		total += page;
	buf_addf(&r->body,
	         "],\"meta\":{\"pagination\":{\"total_entries\":%ld,\"next_page\":", (long)total);
	if (is_last)
		buf_add_c(&r->body, "null}}}");
	else
		buf_addf(&r->body, "%ld}}}", (long)page + 1);
}

/* Page 1 holds servers 0 to 49, and so on; after that one more is missing from each that shifts. */
static void
answer_page(struct world *w, int64_t page, struct http_response *r)
{
	int64_t from = (page - 1) * PAGE, to = from + PAGE;
	bool is_empty = w->trouble == EMPTY_LIST || w->trouble == OTHER_PROJECT, is_first = true;
	bool is_last = is_empty || to >= w->n_servers;

	if (w->trouble == SHIFTING_PAGES)
		from += page - 1;
	if (w->trouble == SHORT_PAGES)
		to -= 20;
	if (w->trouble == LAST_PAGE_AWAY && is_last) {
		add_error(r, 503, "unavailable");
		return;
	}
	r->status = 200;
	buf_add_c(&r->body, "{\"servers\":[");
	for (int64_t i = from; i < to && !is_empty; i++) {
		if (!has_server(w, i))
			continue;
		buf_add_c(&r->body, is_first ? "" : ",");
		add_server(&r->body, i, is_other_project(w) ? OTHERS_ID : FIRST_ID);
		is_first = false;
	}
	end_list(w, page, is_last, r);
}

static void
answer_network(struct world *w, struct http_response *r)
{
	if (is_other_project(w))
		add_error(r, 404, "not_found");
	else
		add_text(r, 200, "{\"network\":{\"id\":4711,\"name\":\"net\"}}");
}

static int64_t
number_at_end(struct str target)
{
	size_t n = 0;
	int64_t number = -1;

	while (n < target.len && target.ptr[target.len - n - 1] >= '0' &&
	       target.ptr[target.len - n - 1] <= '9')
		n++;
	if (!str_to_i64(str_skip(target, target.len - n), 0, INT64_MAX, &number))
		abort();
	return number;
}

static int64_t
page_of(struct str rest)
{
	struct str number;

	return str_split(&rest, '&', &number) ? number_at_end(number) : 0;
}

static void
answer_truly(struct world *w, struct str target, struct http_response *r)
{
	static const struct str page = STR("/servers?page="), name = STR("/servers?name=");

	if (str_starts(target, page))
		answer_page(w, page_of(str_skip(target, page.len)), r);
	else if (str_starts(target, name))
		answer_by_name(w, number_at_end(target), r);
	else if (str_starts(target, STR("/servers/")))
		answer_by_id(w, number_at_end(target) - FIRST_ID, r);
	else if (str_eq_c(target, "/networks/4711"))
		answer_network(w, r);
	else
		abort();
}

/* True when no answer comes at all. */
static bool
answer(struct world *w, struct str target, struct http_response *r, struct error *err)
{
	switch (w->trouble) {
	case UNAUTHORIZED:
		add_error(r, 401, "unauthorized");
		break;
	case FORBIDDEN:
		add_error(r, 403, "forbidden");
		break;
	case TOO_MANY:
		w->left = 0;
		break;
	case BROKEN:
		add_error(r, 500, "server_error");
		break;
	case AWAY:
		add_error(r, 503, "unavailable");
		break;
	case GATEWAY:
		add_text(r, 502, "<html>bad gateway</html>");
		break;
	case LOCKED:
		add_error(r, 423, "locked");
		break;
	case NOT_FOUND_BY_A_PROXY:
		add_text(r, 404, "<html>not here</html>");
		break;
	case SILENT:
		return !err_set(err, ERR_TIMEOUT, "no answer within 15 s");
	case CUT_OFF:
		return !err_set(err, ERR_UNAVAILABLE, "connection reset");
	case NO_JSON:
		add_text(r, 200, "{\"server\":{\"id\":1000");
		break;
	case OTHER_JSON:
		add_text(r, 200, "{\"server\":null,\"servers\":null}");
		break;
	default:
		answer_truly(w, target, r);
	}
	return false;
}

/* Of the bucket, which refills with one a second. */
static bool
take_request(struct world *w, struct http_response *r)
{
	int64_t now_ns = clock_boot(w->rig->clock);
	double passed_s = (double)(now_ns - w->left_at_ns) / (double)NS_PER_SEC;
	bool is_there;

	w->left += passed_s * (1 - w->neighbours);
	if (w->left > LIMIT)
		w->left = LIMIT;
	is_there = w->left >= 1 && w->trouble != TOO_MANY;
	w->left = is_there ? w->left - 1 : 0;
	w->left_at_ns = now_ns;
	r->ratelimit_limit = LIMIT;
	r->ratelimit_remaining = (int64_t)w->left;
	r->ratelimit_reset = clock_wall(w->rig->clock) / NS_PER_SEC + LIMIT - (int64_t)w->left;
	return is_there;
}

static bool
do_request(struct http_client *client, struct call *call, const struct http_request *request,
           struct http_response *r, struct error *err)
{
	struct world *w = CONTAINER_OF(client, struct world, http);
	WITH_LOCK(&w->mu);

	(void)call;
	w->n_asked++;
	r->body = BUF_INIT(LIMIT_HTTP_BODY);
	if (!take_request(w, r)) {
		add_error(r, 429, "rate_limit_exceeded");
		return true;
	}
	return !answer(w, request->target, r, err);
}

/* ---- the world ---- */

static void
count_event(const struct cloud_host *host, const struct node_ref *ref, enum host_event type,
            const char *reason, struct str message)
{
	struct world *w = CONTAINER_OF((struct cloud_host *)(uintptr_t)host, struct world, host);
	WITH_LOCK(&w->mu);

	(void)ref;
	(void)type;
	(void)message;
	w->n_events++;
	snprintf(w->last_event, sizeof(w->last_event), "%s", reason);
}

static void
release(const struct cloud_host *host, enum host_requeue what, struct str key)
{
	struct world *w = CONTAINER_OF((struct cloud_host *)(uintptr_t)host, struct world, host);

	(void)key;
	assert_int_equal(what, HOST_REQUEUE_RECOVERED);
	if (w->rig->nodes)
		node_controller_release(w->rig->nodes);
	if (w->rig->lifecycle)
		lifecycle_controller_wake(w->rig->lifecycle, LIFECYCLE_FAILED_DUE);
}

static bool
look(struct cloud *cloud, struct call *call, const struct node_ref refs[], size_t n,
     int64_t not_before_boot_ns, struct look **ret, struct error *err)
{
	struct world *w = CONTAINER_OF(cloud, struct world, cloud);

	return hz_instances_look(&w->hcloud.cloud, call, refs, n, not_before_boot_ns, ret, err);
}

static void
open_provider(struct world *w, int64_t network)
{
	struct error err;

	environ = NULL;
	setenv("HCLOUD_TOKEN", "jr5g7ZHpPptyhJzZyHw2Pqu4g9gTqDvEceYpngPf79jNZXCeTYQ4uArypFM3nh75",
	       1);
	if (!hz_config_load(&hz_official, /*reserve_percent=*/5, &w->config, &err))
		fail_msg("%s", err.msg);
	w->api = hz_api_new(&(struct hz_api_config){ .http = &w->http,
	                                             .base_url = STR("https://lab/v1"),
	                                             .host = &w->host,
	                                             .reserve_percent = 5 });
	w->hcloud = (struct hcloud){
		.config = w->config,
		.host = &w->host,
		.api = w->api,
		.network = network,
		.is_network_ours = network != 0,
	};
}

/* The rig's lookup asks the provider. */
static void
begin_with(enum trouble trouble, unsigned n_servers, int64_t network)
{
	static const struct http_ops http = { .do_request = do_request };
	static const struct cloud_ops ops = { .name = "hcloud", .look = look };
	struct rig *rig = rig_new();

	world = xcalloc(1, sizeof(*world));
	mutex_init(&world->mu);
	world->http.ops = &http;
	world->cloud.ops = &ops;
	world->rig = rig;
	world->host = (struct cloud_host){ .clock = rig->clock,
		                           .event = count_event,
		                           .requeue = release };
	world->trouble = trouble;
	world->n_servers = n_servers;
	world->left = LIMIT;
	world->left_at_ns = clock_boot(rig->clock);
	open_provider(world, network);
	lookup_free(rig->env.lookup);
	rig->env.cloud = &world->cloud;
	rig->env.lookup = lookup_new(&(struct lookup_config){
		rig->env.cloud, rig->env.nodes, rig->env.event_dedup, rig->clock, true });
}

/* All is well, and both controllers run. */
static void
begin(unsigned n_servers)
{
	begin_with(ALL_WELL, n_servers, /*network=*/0);
	rig_start_nodes(world->rig, WORKERS);
	rig_start_lifecycle(world->rig, &guard_defaults);
}

static void
end(void)
{
	if (!world)
		return;
	rig_free(world->rig);
	hz_api_free(world->api);
	hz_config_free(world->config);
	mutex_destroy(&world->mu);
	free(TAKE(world));
	clearenv();
}

static int
tear_down(void **state)
{
	(void)state;
	end();
	return 0;
}

static const char *
name_of(unsigned i)
{
	return arena_printf(&world->rig->arena, "n%u", i).ptr;
}

/* Node i, on server i, as it is after its initialisation. */
static void
put(unsigned i, const char *ready)
{
	struct arena *arena = &world->rig->arena;

	rig_put(world->rig,
	        &(struct rig_node){
			.name = name_of(i),
			.ready = ready,
			.provider_id = arena_printf(arena, "hcloud://%u", FIRST_ID + i).ptr,
			.addresses =
				arena_printf(
					arena,
					"{\"type\":\"Hostname\",\"address\":\"n%u\"},"
					"{\"type\":\"ExternalIP\",\"address\":\"203.0.113.7\"}",
					i)
					.ptr,
		});
}

static void
put_many(unsigned n, unsigned n_silent)
{
	for (unsigned i = 0; i < n; i++)
		put(i, i < n_silent ? "Unknown" : "True");
}

static unsigned
asked(void)
{
	WITH_LOCK(&world->mu);

	return world->n_asked;
}

static void
change(enum trouble trouble, bool is_first_gone)
{
	WITH_LOCK(&world->mu);

	world->trouble = trouble;
	world->is_first_gone = is_first_gone;
}

static size_t
deletions(const char *name)
{
	return fake_api_count(world->rig->api, HTTP_DELETE,
	                      arena_printf(&world->rig->arena, "/api/v1/nodes/%s", name ? name : "")
	                              .ptr);
}

static size_t
events(const char *reason)
{
	return fake_api_events(world->rig->api, reason, NULL);
}

/* ---- what an hour costs ---- */

/* One list every 5 minutes. With the one of load balancers (tests/providers/hcloud/lb_hour.c) at
 * most 15 in an hour. */
static void
idle_fifty_servers_cost_a_list_each_period(void **state)
{
	(void)state;
	begin(50);
	put_many(50, 0);
	rig_sync(world->rig);
	rig_run(world->rig, HOUR_S);
	print_message("idle, 50 servers: %u requests in an hour\n", asked());
	assert_in_range(asked(), 12, 14);
}

static void
idle_hundreds_of_servers_cost_the_same_each(void **state)
{
	(void)state;
	begin(400);
	put_many(400, 0);
	rig_sync(world->rig);
	rig_run(world->rig, HOUR_S);
	print_message("idle, 400 servers: %u requests in an hour\n", asked());
	assert_in_range(asked(), 12 * 8, 15 * 8);
}

/* At most 60 an hour, beside the lists. */
static void
a_silent_node_costs_a_request_each_look(void **state)
{
	unsigned n_idle = 13;

	(void)state;
	begin(10);
	put_many(10, 1);
	rig_sync(world->rig);
	rig_run(world->rig, HOUR_S);
	print_message("one of 10 nodes NotReady: %u requests in an hour\n", asked());
	assert_in_range(asked(), 50, 60 + n_idle);
	assert_int_equal(deletions(NULL), 0);
}

static void
ten_silent_nodes_cost_little_more_than_one(void **state)
{
	(void)state;
	begin(50);
	put_many(50, 10);
	rig_sync(world->rig);
	rig_run(world->rig, HOUR_S);
	print_message("10 of 50 nodes NotReady: %u requests in an hour\n", asked());
	assert_in_range(asked(), 50, 60 + 13);
}

/* At most 30: the list of 500 is 10 pages. */
static void
five_hundred_join_with_a_few_lists(void **state)
{
	(void)state;
	begin(500);
	for (unsigned i = 0; i < 500; i++)
		rig_put(world->rig, &(struct rig_node){ .name = name_of(i),
		                                        .ready = "False",
		                                        .age_s = 1,
		                                        .taints = RIG_UNINITIALIZED });
	rig_sync(world->rig);
	rig_run(world->rig, 2);
	print_message("500 nodes join: %u requests\n", asked());
	assert_int_equal(fake_api_count(world->rig->api, HTTP_PATCH, "/api/v1/nodes/"), 1000);
	assert_in_range(asked(), 10, 30);
}

/* Another tool of the project takes nearly all that flows in: of what is left we take little, and
 * say so once. */
static void
where_others_take_it_all_we_ask_little(void **state)
{
	(void)state;
	begin(50);
	world->left = 300;
	world->neighbours = 1.02;
	put_many(50, 5);
	rig_sync(world->rig);
	rig_run(world->rig, HOUR_S);
	print_message("others take the rate limit: %u requests in an hour\n", asked());
	assert_in_range(asked(), 1, 15);
	assert_int_equal(world->n_events, 1);
	assert_string_equal(world->last_event, "HetznerRateLimit");
	assert_int_equal(deletions(NULL), 0);
}

/* ---- the worst hour ---- */

static const struct {
	enum trouble trouble;
	const char *name;
	unsigned most;     /* requests in the hour */
	const char *event; /* NULL: none of the provider */
} troubles[] = {
	{ OTHER_PROJECT, "the token of an empty project", 7000, NULL },
	{ OTHER_PROJECT_WITH_OUR_NAMES, "the token of another project", 7000, NULL },
	{ UNAUTHORIZED, "401", 125, "HetznerTokenRefused" },
	{ FORBIDDEN, "403", 80, "HetznerTokenRefused" },
	{ TOO_MANY, "429", 15, "HetznerRateLimit" },
	{ BROKEN, "500", 125, "HetznerUnavailable" },
	{ AWAY, "503", 125, "HetznerUnavailable" },
	{ GATEWAY, "502 without JSON", 125, "HetznerUnavailable" },
	{ LOCKED, "423", 80, NULL },
	{ NOT_FOUND_BY_A_PROXY, "404 without JSON", 125, "HetznerUnavailable" },
	{ SILENT, "no answer", 125, "HetznerUnavailable" },
	{ CUT_OFF, "connections cut off", 125, "HetznerUnavailable" },
	{ NO_JSON, "half an answer", 125, "HetznerUnavailable" },
	{ OTHER_JSON, "another answer", 80, NULL },
	{ EMPTY_LIST, "an empty list", 7000, NULL },
	{ SHORT_PAGES, "pages that lack some", 3000, NULL },
	{ WRONG_TOTALS, "totals that differ", 300, NULL },
	{ SHIFTING_PAGES, "pages that shift", 600, NULL },
	{ LAST_PAGE_AWAY, "a page missing", 300, NULL },
};

static void
check_telling(size_t i)
{
	assert_string_equal(world->last_event, troubles[i].event ? troubles[i].event : "");
	assert_in_range(world->n_events, troubles[i].event ? 1 : 0, troubles[i].event ? 3 : 0);
}

/* 60 nodes of 120 servers. First half of them are silent, then all. */
static void
live_through(size_t i)
{
	begin_with(troubles[i].trouble, 120, i % 2 ? NETWORK : 0);
	rig_start_lifecycle(world->rig, &guard_defaults);
	put_many(60, 30);
	rig_sync(world->rig);
	rig_run(world->rig, HOUR_S / 2);
	put_many(60, 60);
	rig_run(world->rig, HOUR_S / 2);
	print_message("%s: %u requests in an hour\n", troubles[i].name, asked());
	assert_int_equal(deletions(NULL), 0);
	assert_in_range(asked(), 1, troubles[i].most);
	check_telling(i);
}

/* Nor is a trouble remembered as proof, nor held against the truth for long. */
static void
find_the_truth(int64_t within_s)
{
	put_many(60, 3);
	change(ALL_WELL, /*is_first_gone=*/true);
	rig_run(world->rig, within_s);
	assert_true(deletions("n0") > 0);
	assert_int_equal(deletions(NULL), deletions("n0"));
}

static void
no_failure_deletes_a_node(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(troubles); i++) {
		live_through(i);
		find_the_truth(troubles[i].trouble == TOO_MANY ? 2400 : 600);
		end();
	}
}

/* Whatever is wrong with the project, people read why their nodes stay. */
static void
a_wrong_project_is_reported_on_each_node(void **state)
{
	(void)state;
	live_through(0);
	assert_int_equal(events("NodeDeletionHeld"), 60);
	assert_non_null(strstr(fake_api_last_event(world->rig->api, "NodeDeletionHeld"),
	                       "the response may come from a wrong token"));
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(idle_fifty_servers_cost_a_list_each_period),
		TEST(idle_hundreds_of_servers_cost_the_same_each),
		TEST(a_silent_node_costs_a_request_each_look),
		TEST(ten_silent_nodes_cost_little_more_than_one),
		TEST(five_hundred_join_with_a_few_lists),
		TEST(where_others_take_it_all_we_ask_little),
		TEST(no_failure_deletes_a_node),
		TEST(a_wrong_project_is_reported_on_each_node),
	};

	log_set_fd(-1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
