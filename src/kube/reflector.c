/* kube/reflector.c: lists, then watches from the version of the list, until it is cancelled.
 *
 * docs/spec/kube-client.md, "Reflector", has the rules. It is simpler than client-go: it has no
 * pages, no queue between the stream and the store, and only one back-off. How a watch ended
 * decides what comes next (enum next):
 *
 * 	ended, broke, fell silent     watch again from the last version seen
 * 	refused, throttled            wait, watch again: a new list would only add to the load
 * 	410 Gone                      list; immediately, unless the last list was shortly before
 * 	anything else                 wait, list
 *
 * A watch does not show whether the API server knows the version that it begins from: if etcd was
 * restored from a backup, that version is in the server's future, and the watch is opened and stays
 * silent. So after SILENCE_NS without a line, probe() asks the server.
 *
 * Removal is the dangerous part, because objects that vanish here lead to deletions in the cloud.
 * Only a complete list of the right kind removes objects, and a deletion event that cannot be
 * parsed leads to a list.
 */
#include "kube/reflector.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/watchdog.h"
#include "base/rand.h"
#include "base/thread.h"
#include "kube/client.h"
#include "kube/object.h"
#include "http/url.h"

#define BACKOFF_FIRST_NS (800 * NS_PER_MS)
#define BACKOFF_MAX_NS (30 * NS_PER_SEC)
/* Some proxies hold back the headers until the first event; a bookmark comes every minute. */
#define HEADERS_TIMEOUT_MS (90 * MS_PER_SEC)
/* the time after a watch's time-out until its connection is closed */
#define WATCH_GRACE_NS (30 * NS_PER_SEC)
#define SHORT_WATCH_NS NS_PER_SEC         /* a shorter watch without event is a failure */
#define PROVEN_WATCH_NS (10 * NS_PER_SEC) /* a longer one with events resets the back-off */
#define LONG_WATCH_NS (120 * NS_PER_SEC)  /* a longer one resets it without events, too */
#define JUST_LISTED_NS (30 * NS_PER_SEC)  /* 410 Gone so soon after a list has to wait */
/* How long a watch may be silent before the server is asked (probe()). kube-apiserver sends a
 * bookmark every 60 to 75 s (apiserver, storage/cacher, bookmarkFrequency and its jitter) if the
 * version has changed; the rest is a margin for a busy server. */
#define SILENCE_NS (120 * NS_PER_SEC)
/* A server that does not know the version answers 504 within 3 s. */
#define PROBE_TIMEOUT_MS (10 * MS_PER_SEC)
/* A probe without an answer is repeated soon: while data is restored, the API server is away. */
#define PROBE_RETRY_NS (10 * NS_PER_SEC)

enum {
	WATCH_MIN_S = 300,
	LOG_EVERY = 10, /* one in ten failures in a row */
	LOG_SKIPPED_EVERY = 100,
};

/* Metrics that change often, looked up once; all with the labels of one kind. */
struct reflector_metrics {
	struct metric *objects, *last_event, *watch_age, *synced, *synced_since;
	struct metric *store_version, *latency;
};

struct reflector {
	struct reflector_config config;
	const struct kind *kind;
	pthread_t thread;

	/* the thread's own */
	/* the last version seen; before the first list, the oldest acceptable */
	struct buf last_rv;
	int64_t backoff_ns;      /* the next wait, before jitter */
	int64_t listed_ns;       /* mono: end of the last good list */
	int64_t probe_ns;        /* mono: when a probe is due, if the watch stays silent */
	bool wants_newest;       /* the API server does not know last_rv: list the newest state */
	unsigned n_failures;     /* in a row */
	enum err_code last_code; /* of the last failure */
	unsigned n_skipped;      /* objects that could not be parsed */
	const char *list_reason; /* why the next list is made */

	struct reflector_metrics metrics;
	_Atomic int64_t watch_opened_ns; /* mono; 0: none is open */
};

/* ---- metrics ---- */

static const double latency_buckets[] = { 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10 };

METRIC_FAMILY(lists, METRIC_COUNTER, "ccmd_reflector_lists_total",
              "[ALPHA] Lists of a kind, by how they ended.", .labels = { "kind", "result" });
METRIC_FAMILY(
	relists, METRIC_COUNTER, "ccmd_reflector_relists_total",
	"[ALPHA] Lists of a kind that were begun, by reason: start, gone (the API server does not know the version to watch from), failed (the previous list or watch failed).",
	.labels = { "kind", "reason" });
METRIC_FAMILY(watches, METRIC_COUNTER, "ccmd_reflector_watches_total",
              "[ALPHA] Watches of a kind that ended, by result; ok is the regular end.",
              .labels = { "kind", "result" });
METRIC_FAMILY(
	probes, METRIC_COUNTER, "ccmd_reflector_probes_total",
	"[ALPHA] Requests that check, after a long silence of a watch, whether the API server knows the "
	"last version seen, by result: known, unknown (a list follows), failed.",
	.labels = { "kind", "result" });
METRIC_FAMILY(watch_age, METRIC_GAUGE, "ccmd_reflector_watch_age_seconds",
              "[ALPHA] How long the present watch of a kind has been open; 0: no watch is open.",
              .labels = { "kind" });
METRIC_FAMILY(events, METRIC_COUNTER, "ccmd_reflector_events_total",
              "[ALPHA] Watch events of a kind, by type.", .labels = { "kind", "type" });
METRIC_FAMILY(
	last_event, METRIC_GAUGE, "ccmd_reflector_last_event_timestamp_seconds",
	"[ALPHA] When the API server last sent a list or an event of a kind, bookmarks included; Unix time.",
	.labels = { "kind" });
METRIC_FAMILY(
	synced_since, METRIC_GAUGE, "ccmd_reflector_synced_since_timestamp_seconds",
	"[ALPHA] Since when lists and watches of a kind have not failed; Unix time; 0: the last one failed, or none has succeeded yet.",
	.labels = { "kind" });
METRIC_FAMILY(synced, METRIC_GAUGE, "ccmd_reflector_synced",
              "[ALPHA] 1 when a kind has been listed once.", .labels = { "kind" });
METRIC_FAMILY(object_counts, METRIC_GAUGE, "ccmd_reflector_objects",
              "[ALPHA] Objects of a kind in the store.", .labels = { "kind" });
METRIC_FAMILY(store_version, METRIC_GAUGE, "informer_store_resource_version",
              "[ALPHA] The last resourceVersion seen; its last 15 digits.",
              .labels = { "name", "group", "version", "resource" });
METRIC_FAMILY(latency, METRIC_HISTOGRAM, "informer_processing_latency_seconds",
              "[ALPHA] Time from the arrival of a watch event until all handlers have run.",
              .labels = { "name", "group", "version", "resource" },
              METRIC_BUCKETS(latency_buckets));

static struct reflector_metrics
metrics_of(const struct kind *kind)
{
	const char *group = "", *version = "v1"; /* of the core API, to which all kinds belong */
	const char *name = strrchr(kind->path, '/') + 1;

	return (struct reflector_metrics){
		.objects = metric_of(&object_counts, kind->name),
		.last_event = metric_of(&last_event, kind->name),
		.watch_age = metric_of(&watch_age, kind->name),
		.synced = metric_of(&synced, kind->name),
		.synced_since = metric_of(&synced_since, kind->name),
		.store_version = metric_of(&store_version, "ccmd", group, version, name),
		.latency = metric_of(&latency, "ccmd", group, version, name),
	};
}

/* Returns true if no answer arrived, because the connection was refused, broke, or timed out. */
static bool
is_without_answer(const struct error *err)
{
	return (err->code == ERR_UNAVAILABLE || err->code == ERR_TIMEOUT) && err->http_status == 0;
}

/* Sets the metrics that are computed at a scrape. */
static void
set_metrics(void *reflector)
{
	struct reflector *r = reflector;
	int64_t opened_ns = r->watch_opened_ns;

	metric_set(r->metrics.objects, (double)store_count(r->config.store));
	metric_set(r->metrics.watch_age,
	           opened_ns ? clock_seconds(clock_mono(r->config.clock) - opened_ns) : 0);
}

/* ---- failing and recovering ---- */

/* A list or an event has arrived, so the API server knows the last version. */
static void
note_arrival(struct reflector *r)
{
	r->probe_ns = clock_deadline(clock_mono(r->config.clock), SILENCE_NS);
	metric_set(r->metrics.last_event, clock_seconds(clock_wall(r->config.clock)));
}

/* Waits for the present back-off, or longer if the server asked for that. False when cancelled. */
static bool
back_off(struct reflector *r, const struct error *err)
{
	int64_t wait_ns = clock_later(rand_jitter(r->backoff_ns), err->retry_after_ms * NS_PER_MS);
	struct error cancelled;

	r->backoff_ns = clock_earlier(2 * r->backoff_ns, BACKOFF_MAX_NS);
	return cancel_sleep(r->config.cancel, r->config.clock, wait_ns, &cancelled);
}

/* Logs the first of several failures in a row, then every tenth, and each that has another code. */
static void
note_failure(struct reflector *r, const char *doing, const struct error *err)
{
	bool must_log = r->n_failures % LOG_EVERY == 0 || err->code != r->last_code;

	r->n_failures++;
	r->last_code = err->code;
	metric_set(r->metrics.synced_since, 0);
	if (must_log)
		log_warn("cannot follow the API server, trying again",
		         LOG_CSTR("kind", r->kind->name), LOG_CSTR("doing", doing),
		         LOG_I64("failures", r->n_failures), LOG_ERR(err));
}

/* A list or the start of a watch has succeeded. */
static void
note_synced(struct reflector *r)
{
	if (metric_value(r->metrics.synced_since) == 0)
		metric_set(r->metrics.synced_since, clock_seconds(clock_wall(r->config.clock)));
}

/* ---- objects ---- */

/* Stores an object. One that cannot be parsed exists nevertheless: the version stored before is
 * kept. This fails only when not even its name can be read. */
static bool
put_object(struct reflector *r, yyjson_val *val, bool *ret_is_skipped, struct error *err)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(2 * LIMIT_NAME + 1);
	struct object *object;

	*ret_is_skipped = !r->kind->parse(r->kind, val, &object, err);
	if (!*ret_is_skipped)
		return store_put(r->config.store, object, err);
	if (!object_read_key(val, &key))
		return err_wrap(err, "an object without a usable name");
	if (r->n_skipped++ % LOG_SKIPPED_EVERY == 0)
		log_warn("an object cannot be parsed, keeping its last known state",
		         LOG_CSTR("kind", r->kind->name), LOG_STR("key", buf_str(&key)),
		         LOG_I64("skipped", r->n_skipped), LOG_ERR(err));
	store_keep(r->config.store, buf_str(&key));
	return true;
}

enum {
	SHOWN_DIGITS = 15, /* the digits that a double holds exactly */
};

/* Stores the version, and its last digits in a metric. */
static void
set_last_rv(struct reflector *r, struct str rv)
{
	int64_t shown;

	buf_reset(&r->last_rv);
	buf_add_str(&r->last_rv, rv);
	if (rv.len > SHOWN_DIGITS)
		rv = str_skip(rv, rv.len - SHOWN_DIGITS);
	if (str_to_i64(rv, 0, INT64_MAX, &shown))
		metric_set(r->metrics.store_version, (double)shown);
}

/* ---- requests ---- */

/* Sends a GET request. The caller gives its target, its time-out, and whether it is endless. */
static bool
open_stream(struct reflector *r, struct http_request request, struct http_stream **ret,
            struct error *err)
{
	struct call call = { .clock = r->config.clock,
		             .cancel = r->config.cancel,
		             .deadline_mono_ns = CLOCK_FOREVER };
	bool is_open;

	request.method = HTTP_GET;
	request.user_agent = r->config.user_agent;
	is_open = http_stream_open(r->config.http, &call, &request, ret, err);
	kube_count_request(r->config.host, HTTP_GET, is_open ? 200 : err->http_status);
	return is_open;
}

#define ANY_VERSION STR("0")

/* Requests the state that rv selects: with ANY_VERSION the one in the server's cache, with a
 * version that one or a newer one, empty the newest in etcd. A probe requests one object of it. */
static bool
request_list(struct reflector *r, struct str rv, bool is_probe, struct http_stream **ret,
             struct error *err)
{
	CLEANUP(buf_fini) struct buf target = BUF_INIT(LIMIT_HTTP_URL);
	struct http_request request = { .timeout_ms = is_probe ? PROBE_TIMEOUT_MS
		                                               : HEADERS_TIMEOUT_MS };

	buf_add_c(&target, r->kind->path);
	if (is_probe)
		url_add_query(&target, "limit", STR("1"));
	if (rv.len > 0)
		url_add_query(&target, "resourceVersion", rv);
	if (rv.len > 0 && !str_eq(rv, ANY_VERSION))
		url_add_query(&target, "resourceVersionMatch", STR("NotOlderThan"));
	request.target = buf_str(&target);
	return open_stream(r, request, ret, err);
}

/* Does the server not know our version, because it is too old, or because etcd was restored from a
 * backup that is older? */
static bool
is_version_unknown(const struct error *err)
{
	return err->code == ERR_GONE || err->http_status == 504;
}

/* ---- the list ---- */

static bool
put_item(void *arg, yyjson_val *item, struct error *err)
{
	bool is_skipped;

	return put_object(arg, item, &is_skipped, err);
}

/* Stores the objects of a list as they arrive. Those that are not in it are removed at its end,
 * when it is known to be a whole list. */
static bool
receive_list(struct reflector *r, struct http_stream *stream, struct error *err)
{
	const struct kube_list list = { .kind = r->kind->name, .each = put_item, .arg = r };
	CLEANUP(buf_fini) struct buf version = BUF_INIT(LIMIT_NAME);

	if (!kube_read_list(&list, stream, r->config.clock, &version, err))
		return false;
	store_end_list(r->config.store);
	set_last_rv(r, buf_str(&version));
	return true;
}

/* Lists the state that rv selects. */
static bool
list_at(struct reflector *r, struct str rv, struct error *err)
{
	CLEANUP(http_stream_closep) struct http_stream *stream = NULL;

	if (!request_list(r, rv, /*is_probe=*/false, &stream, err))
		return false;
	store_begin_list(r->config.store, /*is_newest=*/rv.len == 0);
	if (receive_list(r, stream, err))
		return true;
	store_abort_list(r->config.store, /*is_unusable=*/err->code == ERR_INVALID);
	return false;
}

/* Lists a state that is at least as new as the last one seen. The first list of a leader is at
 * least as new as its Lease, and so includes the last writes of the previous leader. If Leases are
 * stored in a separate etcd (kube-apiserver --etcd-servers-overrides), their versions are
 * unrelated: a lower one is harmless, and a higher one is answered with 504 after 3 s, which leads
 * to a list of the newest state. */
static bool
try_list(struct reflector *r, struct error *err)
{
	struct str rv = r->last_rv.len > 0 ? buf_str(&r->last_rv) : ANY_VERSION;

	if (!r->wants_newest) {
		if (list_at(r, rv, err))
			return true;
		if (!is_version_unknown(err))
			return false;
	}
	r->wants_newest = true;
	if (!list_at(r, STR_EMPTY, err))
		return false;
	r->wants_newest = false;
	return true;
}

static bool
list(struct reflector *r, struct error *err)
{
	int64_t start_ns = clock_mono(r->config.clock);
	bool is_first = !store_has_synced(r->config.store);
	bool is_ok;

	metric_inc(metric_of(&relists, r->kind->name, r->list_reason));
	is_ok = try_list(r, err);
	r->list_reason = "failed";
	metric_inc(metric_of(&lists, r->kind->name, is_ok ? "ok" : err_code_name(err->code)));
	if (!is_ok)
		return err_wrap(err, "list %s", r->kind->path);
	r->listed_ns = clock_mono(r->config.clock);
	note_arrival(r);
	metric_set(r->metrics.synced, 1);
	note_synced(r);
	if (is_first)
		log_info("objects listed", LOG_CSTR("kind", r->kind->name),
		         LOG_I64("count", (int64_t)store_count(r->config.store)),
		         LOG_DURATION("took", r->listed_ns - start_ns));
	return true;
}

/* ---- silent watches ---- */

/* Asks whether the API server knows the last version seen. This costs at most one small request in
 * SILENCE_NS, if it is answered. False with ERR_GONE if the server does not know it: everything
 * must be listed. Other failures say nothing about the version, and the watch continues. */
static bool
probe(struct reflector *r, struct error *err)
{
	struct http_stream *stream = NULL;
	bool is_known = request_list(r, buf_str(&r->last_rv), /*is_probe=*/true, &stream, err);
	int64_t pause_ns = !is_known && is_without_answer(err) ? PROBE_RETRY_NS : SILENCE_NS;

	http_stream_close(stream); /* the status is all that matters */
	r->probe_ns = clock_deadline(clock_mono(r->config.clock), pause_ns);
	if (is_known) {
		metric_inc(metric_of(&probes, r->kind->name, "known"));
		return true;
	}
	if (!is_version_unknown(err)) {
		metric_inc(metric_of(&probes, r->kind->name, "failed"));
		log_debug("a silent watch cannot be probed", LOG_CSTR("kind", r->kind->name),
		          LOG_ERR(err));
		return true;
	}
	metric_inc(metric_of(&probes, r->kind->name, "unknown"));
	log_warn("the API server does not know the last version seen, listing everything: its "
	         "data was restored from a backup, or it is far behind",
	         LOG_CSTR("kind", r->kind->name), LOG_STR("version", buf_str(&r->last_rv)),
	         LOG_ERR(err));
	r->wants_newest = true;
	err->code = ERR_GONE;
	return false;
}

/* ---- the watch ---- */

/* Applies a line to the store. Its version is stored only if the object could be parsed, so that a
 * watch from that version does not skip it. */
static bool
apply_line(struct reflector *r, struct str line, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct watch_event event;
	bool is_skipped = false;

	if (!json_parse(line, &doc, err) ||
	    !watch_read(r->kind, yyjson_doc_get_root(doc), &event, err))
		return false;
	metric_inc(metric_of(&events, r->kind->name, event.type_name));
	switch (event.type) {
	case WATCH_ADDED:
	case WATCH_MODIFIED:
		if (!put_object(r, event.object, &is_skipped, err))
			return false;
		break;
	case WATCH_DELETED: {
		CLEANUP(object_unrefp) struct object *last = NULL;

		if (!r->kind->parse(r->kind, event.object, &last, err))
			return err_wrap(err, "a deletion event cannot be parsed");
		store_remove(r->config.store, last);
		break;
	}
	case WATCH_BOOKMARK:
		break;
	case WATCH_ERROR:
		return watch_status_error(event.object, err);
	case WATCH_SKIPPED:
		log_debug("ignoring an event of another kind or without a version",
		          LOG_CSTR("kind", r->kind->name));
		is_skipped = true;
		break;
	}
	if (!is_skipped)
		set_last_rv(r, event.resource_version);
	return true;
}

/* Waits for the next line, with probes while the watch is silent. */
static bool
next_line(struct reflector *r, int64_t deadline_ns, struct http_stream *stream, struct str *ret,
          struct error *err)
{
	for (;;) {
		int64_t until_ns = clock_earlier(r->probe_ns, deadline_ns);

		if (http_stream_next(stream, until_ns, LIMIT_WATCH_LINE, ret, err))
			return true;
		if (err->code != ERR_TIMEOUT || until_ns == deadline_ns ||
		    clock_mono(r->config.clock) < until_ns)
			return false;
		if (!probe(r, err))
			return false;
	}
}

/* Opens a watch, applies its events until it ends, and counts them. True if that is its regular
 * end. If the server answered with 200, r->watch_opened_ns is set to the time just before the
 * request. */
static bool
watch(struct reflector *r, unsigned *n_events, struct error *err)
{
	CLEANUP(http_stream_closep) struct http_stream *stream = NULL;
	CLEANUP(buf_fini) struct buf target = BUF_INIT(LIMIT_HTTP_URL);
	int64_t timeout_s = rand_between(r->config.watch_min_s, 2 * r->config.watch_min_s + 1);
	struct http_request request = { .timeout_ms = HEADERS_TIMEOUT_MS, .is_endless = true };
	int64_t opened_ns, deadline_ns;
	struct str line;

	/* If a proxy ends each silent watch before SILENCE_NS has passed, this is the only place
	 * where a probe becomes due. */
	if (clock_mono(r->config.clock) >= r->probe_ns && !probe(r, err))
		return false;

	/* The server ends the watch after timeout_s; if it does not, the connection is broken. */
	buf_addf(&target, "%s?watch=true&allowWatchBookmarks=true&timeoutSeconds=%lld",
	         r->kind->path, (long long)timeout_s);
	url_add_query(&target, "resourceVersion", buf_str(&r->last_rv));
	request.target = buf_str(&target);
	opened_ns = clock_mono(r->config.clock);
	deadline_ns = clock_deadline(opened_ns, timeout_s * NS_PER_SEC + WATCH_GRACE_NS);
	if (!open_stream(r, request, &stream, err))
		return false;
	note_synced(r);
	r->watch_opened_ns = opened_ns;

	for (;;) {
		int64_t start_ns;
		bool is_ok;

		if (!next_line(r, deadline_ns, stream, &line, err))
			return false;
		if (!line.ptr)
			return true;
		if (line.len == 0)
			continue;
		(*n_events)++;
		start_ns = clock_mono(r->config.clock);
		watchdog_promise(clock_deadline(start_ns, WATCHDOG_WORK_NS));
		note_arrival(r);
		is_ok = apply_line(r, line, err);
		metric_observe(r->metrics.latency,
		               clock_seconds(clock_mono(r->config.clock) - start_ns));
		if (!is_ok)
			return false;
		if (r->n_failures > 0)
			log_info("following the API server again", LOG_CSTR("kind", r->kind->name),
			         LOG_I64("failures", r->n_failures));
		r->n_failures = 0;
	}
}

enum next {
	NEXT_WATCH, /* from the last version seen */
	NEXT_WATCH_LATER,
	NEXT_LIST,
	NEXT_LIST_LATER,
};

static enum next
after_failure(const struct reflector *r, const struct error *err)
{
	int64_t age_ns = clock_mono(r->config.clock) - r->listed_ns;

	if (err->code == ERR_GONE)
		return age_ns < JUST_LISTED_NS ? NEXT_LIST_LATER : NEXT_LIST;
	if (err->code == ERR_THROTTLED || is_without_answer(err))
		return NEXT_WATCH_LATER;
	return NEXT_LIST_LATER;
}

/* Runs one watch and decides what comes next; *err says why unless that is NEXT_WATCH. */
static enum next
watch_once(struct reflector *r, struct error *err)
{
	unsigned n_events = 0;
	bool is_ok = watch(r, &n_events, err);
	bool was_open = r->watch_opened_ns > 0;
	int64_t lived_ns = clock_mono(r->config.clock) - r->watch_opened_ns;

	r->watch_opened_ns = 0;
	metric_inc(metric_of(&watches, r->kind->name, is_ok ? "ok" : err_code_name(err->code)));
	if (was_open &&
	    (lived_ns >= LONG_WATCH_NS || (lived_ns >= PROVEN_WATCH_NS && n_events > 0)))
		r->backoff_ns = BACKOFF_FIRST_NS;
	if (!is_ok && !(was_open && is_without_answer(err)))
		return after_failure(r, err);

	/* the watch ended, or its connection did */
	if (lived_ns >= SHORT_WATCH_NS || n_events > 0)
		return NEXT_WATCH;
	(void)err_set(err, ERR_UNAVAILABLE, "the watch ended within a second, without an event");
	return NEXT_LIST_LATER;
}

/* Watches until a new list is due. */
static void
watch_until_list(struct reflector *r)
{
	struct error err = { 0 };
	enum next next;

	while (!cancel_is_fired(r->config.cancel)) {
		watchdog_promise(clock_deadline(clock_mono(r->config.clock), WATCHDOG_WORK_NS));
		next = watch_once(r, &err);
		if (next == NEXT_WATCH)
			continue;
		if (cancel_is_fired(r->config.cancel))
			return;
		r->list_reason = err.code == ERR_GONE ? "gone" : "failed";
		if (err.code == ERR_GONE)
			log_debug("the version is too old to watch from",
			          LOG_CSTR("kind", r->kind->name), LOG_ERR(&err));
		else
			note_failure(r, "watch", &err);
		if (next != NEXT_LIST && !back_off(r, &err))
			return;
		if (next != NEXT_WATCH_LATER)
			return;
	}
}

static void *
reflector_run(void *arg)
{
	struct reflector *r = arg;
	struct error err = { 0 };

	while (!cancel_is_fired(r->config.cancel)) {
		watchdog_promise(clock_deadline(clock_mono(r->config.clock), WATCHDOG_WORK_NS));
		if (list(r, &err)) {
			watch_until_list(r);
		} else if (!cancel_is_fired(r->config.cancel)) {
			note_failure(r, "list", &err);
			(void)back_off(r, &err);
		}
	}
	return NULL;
}

struct reflector *
reflector_new(const struct reflector_config *config)
{
	struct reflector *r = xcalloc(1, sizeof(*r));

	*r = (struct reflector){ .config = *config,
		                 .kind = store_kind(config->store),
		                 .last_rv = BUF_INIT(LIMIT_NAME),
		                 .backoff_ns = BACKOFF_FIRST_NS,
		                 .list_reason = "start",
		                 .metrics = metrics_of(store_kind(config->store)) };
	if (config->watch_min_s == 0)
		r->config.watch_min_s = WATCH_MIN_S;
	buf_add_str(&r->last_rv, str_head(config->min_version, LIMIT_NAME));
	metrics_on_scrape(set_metrics, r);
	thread_start(&r->thread, "reflector", reflector_run, r);
	return r;
}

void
reflector_free(struct reflector *r)
{
	if (!r)
		return;
	thread_join(r->thread);
	metrics_off_scrape(set_metrics, r);
	buf_fini(&r->last_rv);
	free(r);
}
