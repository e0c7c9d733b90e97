#include "kube/reflector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "kube/fake_streams.h"
#include "kube/node.h"
#include "kube/samples.h"
#include "fake_clock.h"

#define LIST_0 "/api/v1/nodes?resourceVersion=0"
#define NOT_OLDER "&resourceVersionMatch=NotOlderThan"
#define PROBE(version) "/api/v1/nodes?limit=1&resourceVersion=" version NOT_OLDER
#define WATCH "/api/v1/nodes?watch=true&allowWatchBookmarks=true&timeoutSeconds="
#define MINUTE (60 * NS_PER_SEC)
#define BROKEN_A \
	"\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"12\",\"labels\":{\"k\":7}}}"
#define FIRST_BACKOFF (1600 * NS_PER_MS) /* 0.8 s, as jitter makes it at most */

struct fixture {
	struct fake_clock *clock;
	struct cancel *cancel;
	struct store *store;
	struct fake_streams *http;
	struct reflector *reflector;
	const char *min_version; /* NULL: none */
	struct buf text;
	int log_fd; /* what was logged */
};

static int
set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	FILE *log = tmpfile();

	if (!log)
		abort();
	f->clock = fake_clock_new(INT64_C(1767323045) * NS_PER_SEC);
	f->cancel = cancel_new();
	f->store = store_new(&node_kind.kind, fake_clock_clock(f->clock));
	f->http = fake_streams_new(fake_clock_clock(f->clock));
	f->text = BUF_INIT(MIB(4));
	f->log_fd = dup(fileno(log));
	(void)fclose(log);
	log_set_fd(f->log_fd);
	*state = f;
	return 0;
}

static int
tear_down(void **state)
{
	struct fixture *f = *state;

	cancel_fire(f->cancel);
	reflector_free(f->reflector);
	store_free(f->store);
	fake_streams_free(f->http);
	cancel_free(f->cancel);
	fake_clock_free(f->clock);
	buf_fini(&f->text);
	log_set_fd(STDERR_FILENO);
	(void)close(f->log_fd);
	free(f);
	return 0;
}

/* ---- the script ---- */

static void
answer_list(struct fixture *f, const char *version, const struct sample_node *nodes, size_t n)
{
	buf_reset(&f->text);
	sample_list(&f->text, version, nodes, n);
	fake_streams_open(f->http);
	fake_streams_send(f->http, 0, buf_str(&f->text));
	fake_streams_end(f->http, 0);
}

#define LIST(f, version, ...)                                                \
	answer_list(f, version, (const struct sample_node[]){ __VA_ARGS__ }, \
	            sizeof((const struct sample_node[]){ __VA_ARGS__ }) /    \
	                    sizeof(struct sample_node))

#define NODE(...)            \
	(struct sample_node) \
	{                    \
		__VA_ARGS__  \
	}

static void
send_event(struct fixture *f, int64_t after_ns, const char *type, const struct sample_node *node)
{
	buf_reset(&f->text);
	sample_event(&f->text, type, node);
	fake_streams_send(f->http, after_ns, buf_str(&f->text));
}

#define EVENT(f, after_ns, type, ...) send_event(f, after_ns, type, &NODE(__VA_ARGS__))

static void
send_text(struct fixture *f, int64_t after_ns, const char *text)
{
	fake_streams_send(f->http, after_ns, str_c(text));
}

static void
answer_text(struct fixture *f, const char *text)
{
	fake_streams_open(f->http);
	send_text(f, 0, text);
	fake_streams_end(f->http, 0);
}

static void
send_bookmark(struct fixture *f, int64_t after_ns, const char *version)
{
	buf_reset(&f->text);
	buf_addf(&f->text,
	         "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Node\",\"apiVersion\":\"v1\","
	         "\"metadata\":{\"resourceVersion\":\"%s\"}}}\n",
	         version);
	fake_streams_send(f->http, after_ns, buf_str(&f->text));
}

static void
send_status(struct fixture *f, int64_t after_ns, int code, const char *reason)
{
	buf_reset(&f->text);
	buf_addf(
		&f->text,
		"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},"
		"\"status\":\"Failure\",\"message\":\"it says why\",\"reason\":\"%s\",\"code\":%d}}\n",
		reason, code);
	fake_streams_send(f->http, after_ns, buf_str(&f->text));
}

/* ---- running it ---- */

static void
settle(struct fixture *f)
{
	fake_clock_settle(f->clock, 1);
}

static void
start(struct fixture *f)
{
	f->reflector = reflector_new(&(struct reflector_config){
		.http = fake_streams_client(f->http),
		.store = f->store,
		.clock = fake_clock_clock(f->clock),
		.cancel = f->cancel,
		.min_version = f->min_version ? str_c(f->min_version) : STR_EMPTY });
	settle(f);
}

/* In steps, so that what one wait leads to is seen before the next passes. */
static void
pass(struct fixture *f, int64_t ns)
{
	for (int64_t step = 100 * NS_PER_MS; ns > 0; ns -= step) {
		fake_clock_advance(f->clock, ns < step ? ns : step);
		settle(f);
	}
}

static void
check_asked(struct fixture *f, size_t i, const char *expected)
{
	assert_string_equal(fake_streams_target(f->http, i), expected);
}

/* A watch from that version, whatever its time-out. */
static void
check_watch(struct fixture *f, size_t i, const char *version)
{
	struct str target = str_c(fake_streams_target(f->http, i)), before, after;

	assert_true(str_starts(target, STR(WATCH)));
	assert_true(str_cut(str_skip(target, sizeof(WATCH) - 1), '=', &before, &after));
	assert_true(str_ends(before, STR("&resourceVersion")));
	if (!str_eq_c(after, version))
		fail_msg("request %zu: %s", i, target.ptr);
}

static void
check_count(struct fixture *f, size_t n)
{
	if (fake_streams_count(f->http) != n)
		fail_msg("%zu requests, the last %s", fake_streams_count(f->http),
		         fake_streams_target(f->http, fake_streams_count(f->http) - 1));
}

static void
check_version(struct fixture *f, const char *key, const char *expected)
{
	CLEANUP(object_unrefp) struct object *o = store_get(f->store, str_c(key));

	assert_true(!o == !expected);
	assert_true(!o || str_eq_c(o->resource_version, expected));
}

static size_t
count_logged(struct fixture *f, const char *text)
{
	static char log[65536];
	ssize_t len = pread(f->log_fd, log, sizeof(log) - 1, 0);
	size_t n = 0;

	log[len > 0 ? len : 0] = '\0';
	for (const char *at = log; (at = strstr(at, text)); at++)
		n++;
	return n;
}

static size_t
count_asked(struct fixture *f, const char *part)
{
	size_t n = 0;

	for (size_t i = 0; i < fake_streams_count(f->http); i++)
		n += strstr(fake_streams_target(f->http, i), part) != NULL;
	return n;
}

static size_t
count_watches(struct fixture *f)
{
	return count_asked(f, "watch=true");
}

static size_t
count_lists(struct fixture *f)
{
	return fake_streams_count(f->http) - count_watches(f) - count_asked(f, "limit=1");
}

static void
check_metric(const char *line)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIB(1));

	metrics_write_page(&b, METRICS_MAIN, METRICS_TEXT);
	if (!strstr(b.ptr, line))
		fail_msg("no %s in\n%s", line, b.ptr);
}

/* ---- the main line ---- */

/* First of all tests: metrics count from the start of the program. */
static void
lists_then_watches(void **state)
{
	struct fixture *f = *state;

	LIST(f, "10", NODE(.name = "a", .version = "3"), NODE(.name = "b", .version = "5"));
	fake_streams_open(f->http);
	EVENT(f, NS_PER_SEC, "ADDED", .name = "c", .version = "11");
	EVENT(f, NS_PER_SEC, "MODIFIED", .name = "a", .version = "12", .ready = "False");
	EVENT(f, NS_PER_SEC, "DELETED", .name = "b", .version = "13");
	start(f);
	check_asked(f, 0, LIST_0);
	check_watch(f, 1, "10");
	assert_true(store_has_synced(f->store));
	assert_int_equal(store_count(f->store), 2);
	check_version(f, "b", "5");
	pass(f, 3 * NS_PER_SEC);
	check_version(f, "a", "12");
	check_version(f, "b", NULL);
	check_version(f, "c", "11");
	assert_int_equal(count_logged(f, "objects listed kind=Node count=2"), 1);
	check_metric("ccmd_reflector_lists_total{kind=\"Node\",result=\"ok\"} 1\n");
	check_metric("ccmd_reflector_events_total{kind=\"Node\",type=\"deleted\"} 1\n");
	check_metric("ccmd_reflector_objects{kind=\"Node\"} 2\n");
}

/* A watch lasts from 5 to 10 min, another time each, so that those of many clients do not end
 * together. */
static void
asks_for_watches_of_different_length(void **state)
{
	struct fixture *f = *state;
	int64_t timeout, first = 0;
	bool differs = false;

	LIST(f, "10", NODE(.name = "a"));
	for (unsigned i = 0; i < 8; i++) {
		fake_streams_open(f->http);
		fake_streams_end(f->http, 2 * NS_PER_SEC);
	}
	start(f);
	pass(f, 20 * NS_PER_SEC);
	for (size_t i = 1; i <= 8; i++) {
		struct str rest = str_skip(str_c(fake_streams_target(f->http, i)),
		                           sizeof(WATCH) - 1),
			   number, other;

		assert_true(str_cut(rest, '&', &number, &other));
		assert_true(str_to_i64(number, 300, 600, &timeout));
		first = i == 1 ? timeout : first;
		differs |= timeout != first;
	}
	assert_true(differs);
}

static void
takes_events_in_pieces(void **state)
{
	struct fixture *f = *state;
	struct str text;

	LIST(f, "10", NODE(.name = "a", .version = "3"));
	fake_streams_open(f->http);
	buf_reset(&f->text);
	sample_event(&f->text, "MODIFIED", &NODE(.name = "a", .version = "11"));
	sample_event(&f->text, "ADDED", &NODE(.name = "b", .version = "12"));
	buf_add_c(&f->text, "\n");
	sample_event(&f->text, "ADDED", &NODE(.name = "c", .version = "13"));
	for (text = buf_str(&f->text); text.len > 0; text = str_skip(text, 100))
		fake_streams_send(f->http, 0, str_head(text, 100));
	start(f);
	assert_int_equal(store_count(f->store), 3);
	check_version(f, "a", "11");
}

static void
takes_lists_in_pieces(void **state)
{
	struct fixture *f = *state;
	struct str text;

	buf_reset(&f->text);
	sample_list(&f->text, "10",
	            (const struct sample_node[]){ NODE(.name = "a"), NODE(.name = "b") }, 2);
	fake_streams_open(f->http);
	for (text = buf_str(&f->text); text.len > 0; text = str_skip(text, 100))
		fake_streams_send(f->http, 0, str_head(text, 100));
	fake_streams_end(f->http, 0);
	start(f);
	assert_int_equal(store_count(f->store), 2);
	check_watch(f, 1, "10");
}

/* ---- versions ---- */

static void
resumes_where_a_watch_ended(void **state)
{
	struct fixture *f = *state;

	LIST(f, "10", NODE(.name = "a", .version = "3"));
	fake_streams_open(f->http);
	EVENT(f, NS_PER_SEC, "MODIFIED", .name = "a", .version = "11");
	send_bookmark(f, NS_PER_SEC, "20");
	fake_streams_end(f->http, NS_PER_SEC);
	fake_streams_open(f->http);
	start(f);
	pass(f, 3 * NS_PER_SEC);
	check_count(f, 3);
	check_watch(f, 2, "20");
	check_version(f, "a", "11");
	assert_int_equal(store_count(f->store), 1);
	assert_int_equal(count_logged(f, "warn"), 0);
}

static void
resumes_where_a_connection_broke(void **state)
{
	struct fixture *f = *state;

	LIST(f, "10", NODE(.name = "a"));
	fake_streams_open(f->http);
	EVENT(f, NS_PER_SEC, "MODIFIED", .name = "a", .version = "11");
	send_text(f, 0, "{\"type\":\"MODIF");
	fake_streams_break(f->http, NS_PER_SEC);
	fake_streams_open(f->http);
	start(f);
	pass(f, 2 * NS_PER_SEC);
	check_count(f, 3);
	check_watch(f, 2, "11");
}

/* There is a probe after each 2 min of silence, the last one at 10 min. */
static void
gives_up_a_silent_watch(void **state)
{
	struct fixture *f = *state;

	LIST(f, "10", NODE(.name = "a"));
	for (unsigned i = 0; i < 8; i++)
		fake_streams_open(f->http);
	start(f);
	pass(f, 5 * MINUTE);
	check_count(f, 4);
	pass(f, 5 * MINUTE + 31 * NS_PER_SEC);
	assert_in_range(fake_streams_count(f->http), 5, 9);
	assert_int_equal(count_watches(f), 2);
	assert_int_equal(count_lists(f), 1);
	assert_int_equal(count_logged(f, "warn"), 0);
}

/* ---- silence ---- */

#define SILENCE (2 * MINUTE)

static void
a_watch_with_bookmarks_is_never_probed(void **state)
{
	struct fixture *f = *state;

	LIST(f, "10", NODE(.name = "a"));
	fake_streams_open(f->http);
	for (unsigned i = 0; i < 4; i++)
		send_bookmark(f, 75 * NS_PER_SEC, "10");
	start(f);
	pass(f, 300 * NS_PER_SEC);
	check_count(f, 2);
}

static void
a_silent_watch_is_probed_and_goes_on(void **state)
{
	struct fixture *f = *state;

	LIST(f, "10", NODE(.name = "a", .version = "3"));
	fake_streams_open(f->http);
	EVENT(f, SILENCE + MINUTE, "MODIFIED", .name = "a", .version = "11");
	answer_text(f, "{}");
	answer_text(f, "{}");
	start(f);
	pass(f, SILENCE - NS_PER_SEC);
	check_count(f, 2);
	pass(f, 2 * NS_PER_SEC);
	check_count(f, 3);
	check_asked(f, 2, PROBE("10"));
	pass(f, MINUTE); /* the event comes, on the watch that was open all the time */
	check_version(f, "a", "11");
	pass(f, SILENCE - 2 * NS_PER_SEC);
	check_count(f, 3);
	pass(f, 2 * NS_PER_SEC);
	check_count(f, 4);
	check_asked(f, 3, PROBE("11"));
	check_metric("ccmd_reflector_probes_total{kind=\"Node\",result=\"known\"}");
}

/* etcd was restored from a backup: "a" is older than before, and "b" was not made yet */
static void
check_silence_leads_to_a_list(struct fixture *f, enum err_code code, int status)
{
	LIST(f, "10", NODE(.name = "a", .version = "9"), NODE(.name = "b", .version = "8"));
	fake_streams_open(f->http);
	fake_streams_refuse(f->http, code, status, 1000);
	LIST(f, "6", NODE(.name = "a", .version = "5"));
	fake_streams_open(f->http);
	start(f);
	pass(f, SILENCE);
	check_count(f, 5);
	check_asked(f, 2, PROBE("10"));
	check_asked(f, 3, "/api/v1/nodes");
	check_watch(f, 4, "6");
	check_version(f, "a", "5");
	check_version(f, "b", NULL);
	assert_int_equal(count_logged(f, "restored from a backup"), 1);
	assert_int_equal(count_logged(f, "warn"), 1);
}

static void
silence_before_a_version_of_the_future_leads_to_a_list(void **state)
{
	check_silence_leads_to_a_list(*state, ERR_TIMEOUT, 504);
}

static void
silence_before_a_version_that_is_gone_leads_to_a_list(void **state)
{
	check_silence_leads_to_a_list(*state, ERR_GONE, 410);
}

static void
a_list_after_a_restore_that_fails_is_tried_again(void **state)
{
	struct fixture *f = *state;

	LIST(f, "10", NODE(.name = "a", .version = "9"));
	fake_streams_open(f->http);
	fake_streams_refuse(f->http, ERR_TIMEOUT, 504, 1000);
	fake_streams_refuse(f->http, ERR_UNAVAILABLE, 503, 0);
	LIST(f, "6", NODE(.name = "a", .version = "5"));
	fake_streams_open(f->http);
	start(f);
	pass(f, SILENCE + FIRST_BACKOFF);
	check_count(f, 6);
	check_asked(f, 3, "/api/v1/nodes");
	check_asked(f, 4, "/api/v1/nodes");
	check_watch(f, 5, "6");
	check_version(f, "a", "5");
}

/* Neither a missing answer nor one of another kind means that the version is too old. */
static void
a_probe_that_fails_changes_nothing(void **state)
{
	static const struct {
		enum err_code code;
		int status;
	} failures[] = {
		{ ERR_UNAVAILABLE, 500 },
		{ ERR_THROTTLED, 429 },
		{ ERR_FORBIDDEN, 403 },
		{ ERR_INVALID, 400 },
	};

	for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
		struct fixture *f;

		(void)tear_down(state);
		(void)set_up(state);
		f = *state;
		LIST(f, "10", NODE(.name = "a", .version = "3"));
		fake_streams_open(f->http);
		EVENT(f, 2 * SILENCE + MINUTE, "MODIFIED", .name = "a", .version = "11");
		fake_streams_refuse(f->http, failures[i].code, failures[i].status, 0);
		fake_streams_refuse(f->http, failures[i].code, failures[i].status, 0);
		start(f);
		pass(f, 2 * SILENCE - NS_PER_SEC);
		check_count(f, 3);
		pass(f, 2 * NS_PER_SEC);
		check_count(f, 4); /* one in 2 min, no more */
		check_asked(f, 3, PROBE("10"));
		pass(f, MINUTE);
		check_version(f, "a", "11");
		assert_int_equal(count_logged(f, "warn"), 0);
	}
}

/* The API server is away while its data is restored, and a probe is due just then. */
static void
a_probe_without_an_answer_is_repeated_soon(void **state)
{
	struct fixture *f = *state;

	LIST(f, "10", NODE(.name = "a", .version = "3"));
	fake_streams_open(f->http);
	fake_streams_refuse(f->http, ERR_UNAVAILABLE, 0, 0);
	fake_streams_refuse(f->http, ERR_TIMEOUT, 0, 0);
	answer_text(f, "{}");
	start(f);
	pass(f, SILENCE + NS_PER_SEC);
	check_count(f, 3);
	pass(f, 8 * NS_PER_SEC);
	check_count(f, 3);
	pass(f, 12 * NS_PER_SEC);
	check_count(f, 5);
	check_asked(f, 4, PROBE("10"));
	pass(f, SILENCE - 2 * NS_PER_SEC); /* that one was answered */
	check_count(f, 5);
	assert_int_equal(count_logged(f, "warn"), 0);
}

/* A proxy ends each watch that is silent for a minute, which does not end the silence. */
static void
silence_is_counted_across_watches(void **state)
{
	struct fixture *f = *state;

	LIST(f, "10", NODE(.name = "a", .version = "9"));
	for (unsigned i = 0; i < 2; i++) {
		fake_streams_open(f->http);
		fake_streams_end(f->http, MINUTE);
	}
	fake_streams_refuse(f->http, ERR_TIMEOUT, 504, 1000);
	LIST(f, "6", NODE(.name = "a", .version = "5"));
	start(f);
	pass(f, 2 * MINUTE);
	check_asked(f, 3, PROBE("10"));
	check_asked(f, 4, "/api/v1/nodes");
	check_version(f, "a", "5");
}

/* ---- the first list ---- */

static void
the_first_list_is_no_older_than_wanted(void **state)
{
	struct fixture *f = *state;

	f->min_version = "70";
	LIST(f, "72", NODE(.name = "a"));
	fake_streams_open(f->http);
	start(f);
	check_asked(f, 0, "/api/v1/nodes?resourceVersion=70" NOT_OLDER);
	check_watch(f, 1, "72");
}

/* Leases are in an etcd of their own, whose versions are higher. */
static void
a_version_that_cannot_be_waited_for_is_given_up(void **state)
{
	struct fixture *f = *state;

	f->min_version = "70";
	fake_streams_refuse(f->http, ERR_TIMEOUT, 504, 1000);
	LIST(f, "10", NODE(.name = "a"));
	fake_streams_open(f->http);
	start(f);
	check_count(f, 3);
	check_asked(f, 1, "/api/v1/nodes");
	check_watch(f, 2, "10");
	assert_int_equal(count_logged(f, "warn"), 0);
}

/* docs/spec/kube-client.md, "Watch events" */
static void
skips_events_without_effect(void **state)
{
	struct fixture *f = *state;

	LIST(f, "10", NODE(.name = "a", .version = "3"));
	fake_streams_open(f->http);
	send_text(f, 0, "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Node\",\"metadata\":{}}}\n");
	send_text(f, 0, "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Node\"}}\n");
	send_text(f, 0,
	          "{\"type\":\"DELETED\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\","
	          "\"resourceVersion\":\"99\"}}}\n");
	send_text(f, 0, "\n\n");
	send_text(f, 0, "{\"type\":\"ADDED\"}\n");
	send_text(f, 0,
	          "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Node\",\"apiVersion\":\"v1\"}}\n");
	send_text(
		f, 0,
		"{\"type\":\"DELETED\",\"object\":{\"kind\":\"Node\",\"metadata\":{\"name\":\"nobody\","
		"\"resourceVersion\":\"10\",\"uid\":\"u\"}}}\n");
	send_text(f, 0, "{\"type\":\"MODIFIED\",\"object\":null}\n");
	send_text(f, 0, "{\"type\":\"MODIFIED\",\"object\":{\"kind\":\"Node\"," BROKEN_A "}\n");
	fake_streams_end(f->http, 2 * NS_PER_SEC);
	fake_streams_open(f->http);
	start(f);
	pass(f, 2 * NS_PER_SEC);
	check_watch(f, 2, "10");
	check_version(f, "a", "3");
}

/* ---- 410 ---- */

static void
lists_again_when_the_version_is_gone(void **state)
{
	struct fixture *f = *state;

	LIST(f, "10", NODE(.name = "a"), NODE(.name = "b"));
	fake_streams_open(f->http);
	send_status(f, MINUTE, 410, "Expired");
	LIST(f, "30", NODE(.name = "b", .version = "25"));
	fake_streams_open(f->http);
	start(f);
	fake_clock_advance(f->clock, MINUTE);
	settle(f);
	check_count(f, 4); /* immediately */
	check_asked(f, 2, "/api/v1/nodes?resourceVersion=10" NOT_OLDER);
	check_watch(f, 3, "30");
	check_version(f, "a", NULL);
	check_version(f, "b", "25");
	assert_int_equal(count_logged(f, "warn"), 0);
}

static void
backs_off_when_the_version_is_gone_immediately(void **state)
{
	struct fixture *f = *state;

	LIST(f, "10", NODE(.name = "a"));
	fake_streams_refuse(f->http, ERR_GONE, 410, 0);
	LIST(f, "30", NODE(.name = "a"));
	fake_streams_open(f->http);
	start(f);
	check_count(f, 2);
	pass(f, FIRST_BACKOFF);
	check_count(f, 4);
}

/* The version is too old, or, after etcd went back to a backup, not there yet */
static void
check_lists_the_newest(struct fixture *f, enum err_code code, int status)
{
	LIST(f, "10", NODE(.name = "a", .version = "9"), NODE(.name = "b", .version = "2"));
	fake_streams_open(f->http);
	send_status(f, MINUTE, 410, "Expired");
	fake_streams_refuse(f->http, code, status, 1000);
	LIST(f, "6", NODE(.name = "a", .version = "5"));
	fake_streams_open(f->http);
	start(f);
	fake_clock_advance(f->clock, MINUTE);
	settle(f);
	check_count(f, 5);
	check_asked(f, 2, "/api/v1/nodes?resourceVersion=10" NOT_OLDER);
	check_asked(f, 3, "/api/v1/nodes");
	check_watch(f, 4, "6");
	check_version(f, "a", "5");
	check_version(f, "b", NULL);
}

static void
lists_the_newest_when_the_list_is_gone_too(void **state)
{
	check_lists_the_newest(*state, ERR_GONE, 410);
}

static void
lists_the_newest_when_the_version_is_not_there_yet(void **state)
{
	check_lists_the_newest(*state, ERR_TIMEOUT, 504);
}

/* ---- failing ---- */

static void
waits_for_a_server_that_restarts(void **state)
{
	struct fixture *f = *state;

	LIST(f, "10", NODE(.name = "a"));
	fake_streams_open(f->http);
	fake_streams_break(f->http, MINUTE);
	fake_streams_refuse(f->http, ERR_UNAVAILABLE, 0, 0);
	fake_streams_refuse(f->http, ERR_UNAVAILABLE, 0, 0);
	fake_streams_open(f->http);
	send_bookmark(f, NS_PER_SEC, "11");
	start(f);
	fake_clock_advance(f->clock, MINUTE);
	settle(f);
	check_count(f, 3);
	pass(f, 700 * NS_PER_MS);
	check_count(f, 3);
	pass(f, 5 * NS_PER_SEC);
	check_count(f, 5);
	for (size_t i = 2; i < 5; i++)
		check_watch(f, i, "10"); /* no list */
	pass(f, NS_PER_SEC);
	assert_int_equal(count_logged(f, "warn"), 1);
	assert_int_equal(count_logged(f, "following the API server again"), 1);
}

static void
obeys_retry_after(void **state)
{
	struct fixture *f = *state;

	LIST(f, "10", NODE(.name = "a"));
	fake_streams_refuse(f->http, ERR_THROTTLED, 429, 20 * MS_PER_SEC);
	fake_streams_open(f->http);
	send_status(f, MINUTE, 429, "TooManyRequests");
	fake_streams_open(f->http);
	start(f);
	pass(f, 19 * NS_PER_SEC);
	check_count(f, 2);
	pass(f, NS_PER_SEC);
	check_count(f, 3);
	check_watch(f, 2, "10");
	pass(f, MINUTE);
	check_count(f, 3);
	pass(f, 2 * FIRST_BACKOFF);
	check_count(f, 4);
	check_watch(f, 3, "10");
}

static void
lists_again_after_other_failures(void **state)
{
	struct fixture *f = *state;

	LIST(f, "10", NODE(.name = "a"));
	fake_streams_refuse(f->http, ERR_UNAVAILABLE, 500, 0);
	LIST(f, "11", NODE(.name = "a"));
	fake_streams_open(f->http);
	send_status(f, 0, 500, "InternalError");
	LIST(f, "12", NODE(.name = "a"));
	start(f);
	pass(f, FIRST_BACKOFF);
	check_asked(f, 2, "/api/v1/nodes?resourceVersion=10" NOT_OLDER);
	pass(f, 2 * FIRST_BACKOFF);
	check_asked(f, 4, "/api/v1/nodes?resourceVersion=11" NOT_OLDER);
}

static void
backs_off_after_a_watch_that_ends_immediately(void **state)
{
	struct fixture *f = *state;

	LIST(f, "10", NODE(.name = "a"));
	fake_streams_open(f->http);
	fake_streams_end(f->http, 0);
	LIST(f, "11", NODE(.name = "a"));
	fake_streams_open(f->http);
	EVENT(f, 0, "MODIFIED", .name = "a", .version = "12");
	fake_streams_end(f->http, 0);
	start(f);
	check_count(f, 2);
	pass(f, FIRST_BACKOFF);
	check_count(f, 5); /* it listed; the second watch had news, so the third goes on from there
	                      at once */
	check_watch(f, 4, "12");
}

static void
waits_longer_and_says_less_with_each_failure(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 30; i++)
		fake_streams_refuse(f->http, i == 20 ? ERR_FORBIDDEN : ERR_UNAVAILABLE, 0, 0);
	start(f);
	pass(f, 30 * NS_PER_SEC);
	assert_in_range(fake_streams_count(f->http), 4, 6);
	assert_int_equal(count_logged(f, "warn"), 1);
	pass(f, 4 * MINUTE);
	assert_in_range(fake_streams_count(f->http), 8, 14); /* every 30 to 60 s */
	pass(f, 25 * MINUTE);
	assert_int_equal(fake_streams_count(f->http), 31);
	/* the 1st, 11th, 21st; the 21st was another, and so was the next */
	assert_int_equal(count_logged(f, "warn"), 4);
	assert_false(store_has_synced(f->store));
}

static void
is_quick_again_after_a_long_watch(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 8; i++)
		fake_streams_refuse(f->http, ERR_UNAVAILABLE, 0, 0);
	LIST(f, "10", NODE(.name = "a"));
	fake_streams_open(f->http);
	fake_streams_break(f->http, 2 * MINUTE);
	fake_streams_refuse(f->http, ERR_UNAVAILABLE, 0, 0);
	start(f);
	while (fake_streams_count(f->http) < 10)
		pass(f, NS_PER_SEC);
	pass(f, 2 * MINUTE + FIRST_BACKOFF);
	check_count(f, 12);
}

/* ---- what must not remove anything ---- */

static void
check_removes_nothing(struct fixture *f)
{
	start(f);
	fake_clock_advance(f->clock, MINUTE);
	settle(f);
	assert_true(fake_streams_count(f->http) >= 3);
	check_version(f, "a", "3");
	check_version(f, "b", "5");
	assert_int_equal(count_logged(f, "cannot follow"), 1);
	pass(f, FIRST_BACKOFF);
	check_asked(f, 3, "/api/v1/nodes?resourceVersion=10" NOT_OLDER);
	assert_int_equal(store_count(f->store), 1);
}

/* Two nodes, a 410 after a minute, then what the test gives, then a list of one. */
static void
begin_removal_test(struct fixture *f)
{
	LIST(f, "10", NODE(.name = "a", .version = "3"), NODE(.name = "b", .version = "5"));
	fake_streams_open(f->http);
	send_status(f, MINUTE, 410, "Expired");
}

static void
end_removal_test(struct fixture *f)
{
	LIST(f, "30", NODE(.name = "a", .version = "3"));
	check_removes_nothing(f);
}

/* A list without its last four bytes. */
static void
send_cut_list(struct fixture *f)
{
	buf_reset(&f->text);
	sample_list(&f->text, "30", &NODE(.name = "a", .version = "3"), 1);
	fake_streams_open(f->http);
	fake_streams_send(f->http, 0, str_head(buf_str(&f->text), f->text.len - 4));
}

static void
keeps_all_when_a_list_breaks_off(void **state)
{
	struct fixture *f = *state;

	begin_removal_test(f);
	send_cut_list(f);
	fake_streams_break(f->http, 0);
	end_removal_test(f);
}

static void
keeps_all_when_a_list_ends_early(void **state)
{
	struct fixture *f = *state;

	begin_removal_test(f);
	send_cut_list(f);
	fake_streams_end(f->http, 0);
	end_removal_test(f);
}

static void
keeps_all_when_the_answer_is_another(void **state)
{
	static const char *const answers[] = {
		"{\"kind\":\"Status\",\"metadata\":{\"resourceVersion\":\"30\"},\"items\":[]}",
		"{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"30\"},\"items\":[]}",
		"{\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"30\"},\"items\":[]}",
		"{\"metadata\":{\"resourceVersion\":\"30\"},\"items\":[]}",
		"{\"kind\":\"NodeList\",\"metadata\":{\"resourceVersion\":\"30\"}}",
		"{\"kind\":\"NodeList\",\"metadata\":{},\"items\":[]}",
		"{\"kind\":\"NodeList\",\"items\":[]}",
		"{\"kind\":\"NodeList\",\"metadata\":{\"resourceVersion\":\"30\",\"continue\":\"x\"},\"items\":[]}",
		"{\"kind\":\"NodeList\",\"metadata\":{\"resourceVersion\":\"30\"},\"items\":[{}]}",
		"{\"kind\":\"NodeList\",\"metadata\":{\"resourceVersion\":\"30\"},\"items\":[{\"a\":}]}",
		"{\"kind\":\"NodeList\",\"metadata\":{\"resourceVersion\":\"30\"},\"items\":{}}",
		"{\"kind\":\"NodeList\",\"metadata\":{\"resourceVersion\":\"30\"},\"items\":[null,7]}",
		"{\"kind\":\"NodeList\",\"metadata\":{\"resourceVersion\":\"30\"},\"items\":[{\"metadata\":{\"name\":\"\xff\"}}]}",
		"null",
		"{}",
		"",
		"<html>",
	};

	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		struct fixture *f;

		(void)tear_down(state);
		(void)set_up(state);
		f = *state;
		begin_removal_test(f);
		answer_text(f, answers[i]);
		end_removal_test(f);
	}
}

static void
keeps_all_when_a_list_is_silent(void **state)
{
	struct fixture *f = *state;

	begin_removal_test(f);
	fake_streams_open(f->http);
	send_text(f, 0,
	          "{\"kind\":\"NodeList\",\"metadata\":{\"resourceVersion\":\"30\"},\"items\":[");
	LIST(f, "30", NODE(.name = "a", .version = "3"));
	start(f);
	fake_clock_advance(f->clock, MINUTE);
	settle(f);
	fake_clock_advance(f->clock, 30 * NS_PER_SEC);
	settle(f);
	assert_int_equal(store_count(f->store), 2);
	pass(f, FIRST_BACKOFF);
	assert_int_equal(store_count(f->store), 1);
}

static void
removes_all_with_an_empty_list(void **state)
{
	struct fixture *f = *state;

	begin_removal_test(f);
	answer_text(
		f,
		"{\"kind\":\"NodeList\",\"metadata\":{\"resourceVersion\":\"30\"},\"items\":[]}");
	start(f);
	fake_clock_advance(f->clock, MINUTE);
	settle(f);
	assert_int_equal(store_count(f->store), 0);
	check_watch(f, 3, "30");
}

static void
syncs_with_an_empty_list(void **state)
{
	struct fixture *f = *state;

	answer_text(
		f,
		"{\"kind\":\"NodeList\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":null}");
	start(f);
	assert_true(store_has_synced(f->store));
}

/* ---- what cannot be read ---- */

static void
keeps_an_object_that_cannot_be_read(void **state)
{
	struct fixture *f = *state;

	LIST(f, "10", NODE(.name = "a", .version = "3"), NODE(.name = "b", .version = "5"));
	fake_streams_open(f->http);
	send_text(f, 0, "{\"type\":\"MODIFIED\",\"object\":{\"kind\":\"Node\"," BROKEN_A "}\n");
	EVENT(f, 0, "MODIFIED", .name = "b", .version = "11");
	send_status(f, MINUTE, 410, "Expired");
	answer_text(
		f,
		"{\"kind\":\"NodeList\",\"metadata\":{\"resourceVersion\":\"30\"},\"items\":[{" BROKEN_A
		"]}");
	fake_streams_open(f->http);
	start(f);
	check_version(f, "a", "3");
	check_version(f, "b", "11");
	fake_clock_advance(f->clock, MINUTE);
	settle(f);
	check_watch(f, 3, "30");
	check_version(f, "a", "3");
	check_version(f, "b", NULL);
	assert_int_equal(count_logged(f, "cannot be parsed"), 1);
}

static void
check_lists_after(struct fixture *f, const char *line)
{
	LIST(f, "10", NODE(.name = "a", .version = "3"));
	fake_streams_open(f->http);
	send_text(f, NS_PER_SEC, line);
	LIST(f, "30", NODE(.name = "b", .version = "20"));
	start(f);
	pass(f, NS_PER_SEC);
	check_count(f, 2);
	check_version(f, "a", "3");
	pass(f, FIRST_BACKOFF);
	check_asked(f, 2, "/api/v1/nodes?resourceVersion=10" NOT_OLDER);
	check_version(f, "a", NULL);
	assert_int_equal(count_logged(f, "cannot follow"), 1);
}

static const char broken_deletion[] =
	"{\"type\":\"DELETED\",\"object\":{\"kind\":\"Node\"," BROKEN_A "}\n";

static void
lists_after_a_line_that_makes_no_sense(void **state)
{
	static const char *const lines[] = {
		"{\"type\":\"MODIFIED\",\"object\":{\n",
		"\x80\xff\n",
		"[]\n",
		"7\n",
		"{\"type\":\"EXPLODED\",\"object\":{}}\n",
		"{\"type\":7,\"object\":{}}\n",
		"{\"object\":{}}\n",
		"{\"type\":\"ADDED\",\"object\":[]}\n",
		/* a deletion must not be missed */
		broken_deletion,
		/* whose state is it? */
		"{\"type\":\"ADDED\",\"object\":{\"kind\":\"Node\",\"metadata\":{\"resourceVersion\":\"1\"}}}\n",
		"{\"type\":\"ERROR\",\"object\":{}}\n",
		"{\"type\":\"ERROR\"}\n",
		"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500}}\n",
	};

	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		(void)tear_down(state);
		(void)set_up(state);
		check_lists_after(*state, lines[i]);
	}
}

/* ---- the end ---- */

static void
stops_while_it_watches(void **state)
{
	struct fixture *f = *state;

	LIST(f, "10", NODE(.name = "a"));
	fake_streams_open(f->http);
	start(f);
	cancel_fire(f->cancel);
	reflector_free(f->reflector);
	f->reflector = NULL;
	check_count(f, 2);
	assert_int_equal(count_logged(f, "warn"), 0);
}

static void
stops_while_it_backs_off(void **state)
{
	struct fixture *f = *state;

	fake_streams_refuse(f->http, ERR_UNAVAILABLE, 0, 0);
	start(f);
	cancel_fire(f->cancel);
	reflector_free(f->reflector);
	f->reflector = NULL;
	check_count(f, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lists_then_watches),
		TEST(asks_for_watches_of_different_length),
		TEST(takes_events_in_pieces),
		TEST(takes_lists_in_pieces),
		TEST(resumes_where_a_watch_ended),
		TEST(resumes_where_a_connection_broke),
		TEST(gives_up_a_silent_watch),
		TEST(a_watch_with_bookmarks_is_never_probed),
		TEST(a_silent_watch_is_probed_and_goes_on),
		TEST(silence_before_a_version_of_the_future_leads_to_a_list),
		TEST(silence_before_a_version_that_is_gone_leads_to_a_list),
		TEST(a_list_after_a_restore_that_fails_is_tried_again),
		TEST(a_probe_that_fails_changes_nothing),
		TEST(a_probe_without_an_answer_is_repeated_soon),
		TEST(silence_is_counted_across_watches),
		TEST(the_first_list_is_no_older_than_wanted),
		TEST(a_version_that_cannot_be_waited_for_is_given_up),
		TEST(skips_events_without_effect),
		TEST(lists_again_when_the_version_is_gone),
		TEST(backs_off_when_the_version_is_gone_immediately),
		TEST(lists_the_newest_when_the_list_is_gone_too),
		TEST(lists_the_newest_when_the_version_is_not_there_yet),
		TEST(waits_for_a_server_that_restarts),
		TEST(obeys_retry_after),
		TEST(lists_again_after_other_failures),
		TEST(backs_off_after_a_watch_that_ends_immediately),
		TEST(waits_longer_and_says_less_with_each_failure),
		TEST(is_quick_again_after_a_long_watch),
		TEST(keeps_all_when_a_list_breaks_off),
		TEST(keeps_all_when_a_list_ends_early),
		TEST(keeps_all_when_the_answer_is_another),
		TEST(keeps_all_when_a_list_is_silent),
		TEST(removes_all_with_an_empty_list),
		TEST(syncs_with_an_empty_list),
		TEST(keeps_an_object_that_cannot_be_read),
		TEST(lists_after_a_line_that_makes_no_sense),
		TEST(stops_while_it_watches),
		TEST(stops_while_it_backs_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
