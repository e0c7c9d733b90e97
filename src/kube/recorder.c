/* kube/recorder.c: see recorder.h.
 *
 * A queue, and a thread that empties it: for each event kube/correlate.c decides whether and how it
 * is written, and the thread writes it, up to 12 times if no answer comes. A new event is a POST, a
 * repeated one a PATCH of its count. The thread wakes without an event only to free the
 * correlator's old records.
 *
 * An event's name is made of its object's name and the time of the first sighting, so it can be
 * computed again for the PATCH, and a POST that is sent twice is answered with AlreadyExists.
 */
#include "kube/recorder.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/names.h"
#include "base/pool.h"
#include "base/watchdog.h"
#include "base/rand.h"
#include "base/thread.h"
#include "kube/correlate.h"
#include "http/url.h"

#define RETRY_NS (10 * NS_PER_SEC)
#define WARN_EVERY_NS (60 * NS_PER_SEC)

enum {
	MAX_TRIES = 12,
	MAX_BODY = 16 * 1024,
	HEX_SIZE = 17, /* a dot and 64 bits in hexadecimal digits */
};

/* Up to LIMIT_EVENT_QUEUE events may wait. A pool of their own keeps them from fragmenting the heap
 * between a burst's other allocations. */
static struct pool events = POOL_INIT;

STAILQ_HEAD(event_line, event);

struct recorder {
	struct kube_client *client;
	struct clock *clock;
	char *instance;
	struct cancel *cancel; /* fired when the time to flush is over */
	pthread_t thread;

	pthread_mutex_t mu;
	pthread_cond_t changed;           /* mu: an event, or is_closing */
	pthread_cond_t ended;             /* mu: is_done */
	struct event_line urgent, others; /* mu */
	size_t n_queued;                  /* mu; in both */
	int64_t last_wall_ns;             /* mu */
	int64_t next_warn_ns;             /* mu; mono */
	bool is_closing;                  /* mu */
	bool is_done;                     /* mu */

	/* the thread's own */
	struct arena arena;
	struct correlator correlator;
	bool has_warned; /* that the API server refuses events; false again when it accepts one */
};

/* ---- metrics ---- */

METRIC_FAMILY(
	dropped_total, METRIC_COUNTER, "ccmd_events_dropped_total",
	"[ALPHA] Events that were not written, by reason: spam (too many of one object), queue_full, "
	"failed (refused by the API server, or 12 times without a response), shutdown.",
	.labels = { "reason" });
METRIC_FAMILY(written_total, METRIC_COUNTER, "ccmd_events_written_total",
              "[ALPHA] Events that were written, including raised counts.");
METRIC_FAMILY(queued, METRIC_GAUGE, "ccmd_events_queued",
              "[ALPHA] Events that wait to be written.");

static const char *const drop_reasons[] = { "spam", "queue_full", "failed", "shutdown" };

/* ---- the JSON of an event ---- */

/* "web.185a3c0f11223344". An object's name that cannot be part of an event's name is hashed.
 * client-go uses a random UUID instead, which we would have to store for the next count. */
static struct str
event_name(struct recorder *r, const struct sighting *s)
{
	struct str name = s->event->name;

	if (name.len <= LIMIT_NAME - HEX_SIZE && name_is_dns_subdomain(name))
		return arena_printf(&r->arena, "%" STR_FMT ".%llx", STR_ARG(name),
		                    (unsigned long long)s->first_ns);
	return arena_printf(&r->arena, "%016llx.%llx", (unsigned long long)str_hash(name),
	                    (unsigned long long)s->first_ns);
}

static struct str
event_namespace(const struct event *e)
{
	return e->namespace.len > 0 ? e->namespace : STR("default");
}

/* docs/spec/kube-client.md, "Event objects". The reporting fields are not copied to a combined
 * event, as in client-go. */
static void
add_event(struct buf *b, const struct sighting *s, struct str name, const char *instance)
{
	const struct event *e = s->event;

	json_begin_object(b, NULL);
	json_add_members(b, JSON_TEXT("apiVersion", STR("v1")), JSON_TEXT("kind", STR("Event")));
	json_add_object(b, "metadata", JSON_TEXT("name", name),
	                JSON_TEXT("namespace", event_namespace(e)));
	json_add_object(b, "involvedObject", JSON_TEXT("kind", e->kind),
	                JSON_IF(e->namespace.len > 0, JSON_TEXT("namespace", e->namespace)),
	                JSON_TEXT("name", e->name),
	                JSON_IF(e->uid.len > 0, JSON_TEXT("uid", e->uid)),
	                JSON_TEXT("apiVersion", e->api_version));
	json_add_members(b, JSON_TEXT("reason", str_c(e->reason)),
	                 JSON_TEXT("message", s->message));
	json_add_object(b, "source", JSON_TEXT("component", str_c(e->component)));
	json_add_members(b, JSON_TIME("firstTimestamp", s->first_ns),
	                 JSON_TIME("lastTimestamp", e->wall_ns), JSON_NUMBER("count", s->count),
	                 JSON_TEXT("type",
	                           e->type == EVENT_WARNING ? STR("Warning") : STR("Normal")),
	                 JSON_RAW("eventTime", STR("null")),
	                 JSON_TEXT("reportingComponent",
	                           s->is_combined ? STR_EMPTY : str_c(e->component)),
	                 JSON_TEXT("reportingInstance", str_c(instance)));
	json_end_object(b);
}

/* ---- writing ---- */

static void
add_path(struct buf *b, const struct event *e)
{
	buf_add_c(b, "/api/v1/namespaces/");
	url_add_escaped(b, event_namespace(e));
	buf_add_c(b, "/events");
}

static bool
check_size(const struct event *e, const struct buf *path, const struct buf *body, struct error *err)
{
	if (buf_ok(path) && buf_ok(body))
		return true;
	return err_set(err, ERR_INVALID, "an event of %" STR_FMT " is too large to be written",
	               STR_ARG(e->name));
}

static bool
create_event(struct recorder *r, struct call *call, const struct sighting *s, struct str name,
             struct error *err)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(LIMIT_HTTP_URL), body = BUF_INIT(MAX_BODY);

	add_path(&path, s->event);
	add_event(&body, s, name, r->instance);
	if (!check_size(s->event, &path, &body, err))
		return false;
	return kube_post(r->client, call, buf_str(&path), HTTP_BACKGROUND, buf_str(&body),
	                 /*ret_body=*/NULL, err);
}

/* Writes the new count and time into the event that exists. */
static bool
raise_count(struct recorder *r, struct call *call, const struct sighting *s, struct str name,
            struct error *err)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(LIMIT_HTTP_URL), body = BUF_INIT(MAX_BODY);

	add_path(&path, s->event);
	buf_add_char(&path, '/');
	url_add_escaped(&path, name);
	json_add_object(&body, NULL, JSON_NUMBER("count", s->count),
	                JSON_TIME("lastTimestamp", s->event->wall_ns),
	                JSON_TEXT("message", s->message));
	if (!check_size(s->event, &path, &body, err))
		return false;
	return kube_patch(r->client, call,
	                  &(struct kube_patch){ .path = buf_str(&path),
	                                        .type = KUBE_PATCH_STRATEGIC,
	                                        .body = buf_str(&body),
	                                        .answer = KUBE_ANSWER_META,
	                                        .is_background = true },
	                  /*ret_body=*/NULL, err);
}

/* An event that exists already was written by an attempt whose answer was lost. One that the API
 * server has dropped meanwhile is created again. */
static bool
write_once(struct recorder *r, const struct sighting *s, struct error *err)
{
	struct call call = { .clock = r->clock,
		             .cancel = r->cancel,
		             .deadline_mono_ns = CLOCK_FOREVER,
		             .arena = &r->arena };
	struct str name = event_name(r, s);

	if (s->count > 1) {
		if (raise_count(r, &call, s, name, err))
			return true;
		if (err->code != ERR_NOT_FOUND)
			return false;
	}
	if (create_event(r, &call, s, name, err))
		return true;
	return err->code == ERR_EXISTS;
}

/* Waits, unless the recorder is being closed. */
static bool
pause_before_retry(struct recorder *r, int64_t duration_ns)
{
	int64_t deadline_ns = clock_deadline(clock_mono(r->clock), duration_ns);
	WITH_LOCK(&r->mu);

	watchdog_extend(deadline_ns);

	while (!r->is_closing) {
		if (!clock_wait(r->clock, &r->changed, &r->mu, deadline_ns))
			return !r->is_closing;
	}
	return false;
}

static void
write_event(struct recorder *r, const struct sighting *s)
{
	const char *dropped = NULL;
	struct error err;

	for (int n_tries = 1; !dropped && !write_once(r, s, &err); n_tries++) {
		/* Without an answer, a later attempt may succeed. An answer is final. */
		bool has_answer = err.http_status != 0 ||
		                  (err.code != ERR_UNAVAILABLE && err.code != ERR_TIMEOUT &&
		                   err.code != ERR_UNAUTHORIZED);

		if (err.code == ERR_CANCELLED) {
			dropped = "shutdown";
		} else if (n_tries == MAX_TRIES || has_answer) {
			if (err.code == ERR_FORBIDDEN && !r->has_warned) {
				log_warn(
					"the API server refuses events, further refusals are not logged",
					LOG_ERR(&err));
				r->has_warned = true;
			}
			dropped = "failed";
		} else if (!pause_before_retry(r, n_tries == 1 ? rand_between(0, RETRY_NS)
		                                               : RETRY_NS)) {
			dropped = "shutdown";
		}
	}
	if (dropped) {
		metric_inc(metric_of(&dropped_total, dropped));
		log_debug("event not written", LOG_STR("object", s->event->name),
		          LOG_CSTR("reason", s->event->reason), LOG_ERR(&err));
		return;
	}
	r->has_warned = false;
	metric_inc(metric_of(&written_total));
}

/* ---- the thread ---- */

/* Frees the correlator's old records, and waits for an event. True with *ret NULL when the next
 * record has to be freed, false when the recorder is closed and the queue is empty. */
static bool
take_event(struct recorder *r, struct event **ret)
{
	int64_t now_ns = clock_boot(r->clock), next_ns = correlator_forget(&r->correlator, now_ns);
	int64_t deadline_ns = CLOCK_FOREVER;
	struct event_line *line;
	WITH_LOCK(&r->mu);

	*ret = NULL;
	if (next_ns != CLOCK_FOREVER)
		deadline_ns = clock_deadline(clock_mono(r->clock), next_ns - now_ns);
	watchdog_promise(CLOCK_FOREVER);
	while (r->n_queued == 0 && !r->is_closing) {
		if (!clock_wait(r->clock, &r->changed, &r->mu, deadline_ns))
			return true;
	}
	if (r->n_queued == 0)
		return false;
	line = STAILQ_EMPTY(&r->urgent) ? &r->others : &r->urgent;
	*ret = STAILQ_FIRST(line);
	STAILQ_REMOVE_HEAD(line, next);
	metric_set(metric_of(&queued), (double)--r->n_queued);
	return true;
}

static void *
recorder_run(void *arg)
{
	struct recorder *r = arg;
	struct sighting s;
	struct event *e;

	while (take_event(r, &e)) {
		if (!e)
			continue;
		watchdog_promise(clock_deadline(clock_mono(r->clock), WATCHDOG_WORK_NS));
		if (correlator_take(&r->correlator, e, clock_boot(r->clock), &r->arena, &s))
			write_event(r, &s);
		else
			metric_inc(metric_of(&dropped_total, "spam"));
		arena_reset(&r->arena);
		pool_free(&events, e);
	}
	WITH_LOCK(&r->mu);
	r->is_done = true;
	cond_signal(&r->ended);
	return NULL;
}

/* ---- the public side ---- */

static struct event *
event_new(const char *component, const struct event_object *o, enum event_type type,
          const char *reason, struct str message)
{
	struct str api_version = str_c(o->api_version), kind = str_c(o->kind);
	struct str text = str_utf8_head(message, LIMIT_EVENT_MESSAGE);
	struct event *e = pool_alloc(&events, sizeof(*e) + api_version.len + kind.len +
	                                              o->namespace.len + o->name.len + o->uid.len +
	                                              text.len);
	char *at = e->bytes;

	*e = (struct event){ .component = component, .reason = reason, .type = type };
	e->api_version = str_pack(&at, api_version);
	e->kind = str_pack(&at, kind);
	e->namespace = str_pack(&at, o->namespace);
	e->name = str_pack(&at, o->name);
	e->uid = str_pack(&at, o->uid);
	e->message = str_pack(&at, text);
	return e;
}

static void
warn_of_full_queue(struct recorder *r)
{
	int64_t now_ns = clock_mono(r->clock);

	if (now_ns < r->next_warn_ns)
		return;
	r->next_warn_ns = clock_deadline(now_ns, WARN_EVERY_NS);
	log_warn("too many events are waiting to be written, dropping some");
}

/* Never the same time twice, because it becomes part of the event's name. */
static int64_t
next_wall_ns(struct recorder *r)
{
	int64_t wall_ns = clock_wall(r->clock);

	if (wall_ns <= r->last_wall_ns && r->last_wall_ns - wall_ns < NS_PER_MS)
		wall_ns = r->last_wall_ns + 1;
	r->last_wall_ns = wall_ns;
	return wall_ns;
}

/* NULL when the event was queued, otherwise the reason for dropping it. Called with mu held. */
static const char *
enqueue(struct recorder *r, struct event *e, bool goes_first)
{
	if (r->is_closing)
		return "shutdown";
	if (r->n_queued >= LIMIT_EVENT_QUEUE && !goes_first) {
		warn_of_full_queue(r);
		return "queue_full";
	}
	e->wall_ns = next_wall_ns(r);
	STAILQ_INSERT_TAIL(goes_first ? &r->urgent : &r->others, e, next);
	metric_set(metric_of(&queued), (double)++r->n_queued);
	cond_signal(&r->changed);
	return NULL;
}

static void
record(struct recorder *r, const char *component, const struct event_object *object,
       enum event_type type, const char *reason, struct str message, bool goes_first)
{
	const char *refused;
	struct event *e;

	if (!r->client)
		return;
	e = event_new(component, object, type, reason, message);
	log_debug("event", LOG_CSTR("kind", object->kind), LOG_STR("object", object->name),
	          LOG_CSTR("reason", reason), LOG_STR("message", e->message));
	mutex_lock(&r->mu);
	refused = enqueue(r, e, goes_first);
	mutex_unlock(&r->mu);
	if (refused) {
		metric_inc(metric_of(&dropped_total, refused));
		pool_free(&events, e);
	}
}

void
recorder_event(struct recorder *r, const char *component, const struct event_object *object,
               enum event_type type, const char *reason, struct str message)
{
	record(r, component, object, type, reason, message, /*goes_first=*/false);
}

void
recorder_event_first(struct recorder *r, const char *component, const struct event_object *object,
                     enum event_type type, const char *reason, struct str message)
{
	record(r, component, object, type, reason, message, /*goes_first=*/true);
}

struct recorder *
recorder_new(struct kube_client *client, const char *instance, struct clock *clock)
{
	struct recorder *r = xcalloc(1, sizeof(*r));

	*r = (struct recorder){ .client = client,
		                .instance = xstrdup(instance),
		                .clock = clock,
		                .cancel = cancel_new(),
		                .arena = ARENA_INIT };
	mutex_init(&r->mu);
	cond_init(&r->changed);
	cond_init(&r->ended);
	STAILQ_INIT(&r->urgent);
	STAILQ_INIT(&r->others);
	correlator_init(&r->correlator);
	/* Prometheus does not see the increase of a counter that appears with 1 */
	for (size_t i = 0; i < ARRAY_LEN(drop_reasons); i++)
		(void)metric_of(&dropped_total, drop_reasons[i]);
	thread_start(&r->thread, "events", recorder_run, r);
	return r;
}

void
recorder_free(struct recorder *r, int64_t flush_ms)
{
	int64_t deadline_ns;
	bool is_late = false;

	if (!r)
		return;
	/* The thread has flush_ms to empty the queue. Then its requests are cancelled, so the
	 * remaining events fail immediately. */
	deadline_ns = clock_deadline(clock_mono(r->clock), flush_ms * NS_PER_MS);
	mutex_lock(&r->mu);
	r->is_closing = true;
	cond_signal(&r->changed);
	while (!r->is_done && !is_late)
		is_late = !clock_wait(r->clock, &r->ended, &r->mu, deadline_ns);
	mutex_unlock(&r->mu);
	cancel_fire(r->cancel);
	thread_join(r->thread);
	(void)correlator_forget(&r->correlator, CLOCK_FOREVER);
	arena_fini(&r->arena);
	cond_destroy(&r->changed);
	cond_destroy(&r->ended);
	mutex_destroy(&r->mu);
	cancel_free(r->cancel);
	free(r->instance);
	free(r);
}
