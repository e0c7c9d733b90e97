/* cloud/endpoint.c: see endpoint.h. */
#include "cloud/endpoint.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/log.h"
#include "base/thread.h"

enum {
	FAILURES_MIN = 2, /* in a row, until the endpoint is down */
};

static const int64_t pause_first_ns = NS_PER_SEC;
static const int64_t pause_max_ns = 30 * NS_PER_SEC;
/* Refused callers are due one after the other, with this interval between them, but none later than
 * the maximum after the next probe. */
static const int64_t refused_interval_ns = NS_PER_SEC;
static const int64_t refused_delay_max_ns = 300 * NS_PER_SEC;

struct endpoint {
	struct endpoint_config config;
	pthread_mutex_t mu;
	uint64_t n_answers;      /* mu */
	unsigned n_failures;     /* mu; in a row */
	int64_t failed_wall_ns;  /* mu; the first of them */
	bool is_down;            /* mu */
	bool is_probing;         /* mu; a probe is under way */
	unsigned n_probes;       /* mu; failed ones in this outage */
	int64_t next_probe_ns;   /* mu; boot */
	unsigned n_refused;      /* mu; since the last probe began */
	int64_t down_ns;         /* mu; boot: when this outage began */
	int64_t past_outages_ns; /* mu; their length, without this one */
	/* mu; the error of this outage that callers get, except for retry_after_ms */
	struct error error;
};

/* ---- state: all functions here are called with mu held ---- */

static int64_t
now_boot(const struct endpoint *e)
{
	return clock_boot(e->config.host->clock);
}

static int64_t
pause_ns(const struct endpoint *e)
{
	return backoff_ns(pause_first_ns, e->n_probes, pause_max_ns);
}

/* place: how many refused callers are due before this one. */
static void
set_outage(const struct endpoint *e, int64_t place, struct error *err)
{
	int64_t left_ns = e->is_probing ? pause_ns(e) : clock_left(now_boot(e), e->next_probe_ns);
	int64_t behind_ns = clock_earlier(place * refused_interval_ns, refused_delay_max_ns);

	*err = e->error;
	err->retry_after_ms = (left_ns + behind_ns) / NS_PER_MS + 1;
}

/* May a request be sent now? If not, *err is the outage. */
static bool
check_open(struct endpoint *e, struct error *err)
{
	if (!e->is_down || (!e->is_probing && now_boot(e) >= e->next_probe_ns))
		return true;
	set_outage(e, e->n_refused++, err);
	return false;
}

/* Returns true when this failure begins an outage. */
static bool
note_failure(struct endpoint *e, const struct endpoint_pass *pass, struct error *err)
{
	bool was_down = e->is_down;
	char memory[40] = "";
	struct buf since = BUF_FIXED(memory);

	if (pass->n_answers != e->n_answers)
		return false;
	if (e->n_failures++ == 0)
		e->failed_wall_ns = clock_wall(e->config.host->clock);
	if (e->n_failures < FAILURES_MIN)
		return false;
	if (!was_down) {
		e->is_down = true;
		e->n_probes = 0;
		e->n_refused = 0;
		e->down_ns = now_boot(e);
		e->next_probe_ns = e->down_ns + pause_ns(e);
		e->error.is_outage = false;
	} else if (pass->is_probe) {
		e->n_probes++;
		e->next_probe_ns = now_boot(e) + pause_ns(e);
	}
	/* The text changes only with the cause, because callers compare it with the text that they
	 * reported last. */
	if (!e->error.is_outage || e->error.code != err->code ||
	    e->error.http_status != err->http_status) {
		e->error = *err;
		clock_format_rfc3339(&since, e->failed_wall_ns, /*micros=*/false);
		err_wrap(&e->error, "%s has been unavailable since %s", e->config.name, memory);
		e->error.is_outage = true;
	}
	set_outage(e, pass->is_probe || !was_down ? 1 : e->n_refused++, err);
	return !was_down;
}

/* Returns true when this answer ends an outage. */
static bool
note_answer(struct endpoint *e)
{
	e->n_answers++;
	e->n_failures = 0;
	if (!e->is_down)
		return false;
	e->is_down = false;
	e->past_outages_ns += now_boot(e) - e->down_ns;
	return true;
}

/* Returns true when the endpoint went down or came up. */
static bool
note_outcome(struct endpoint *e, const struct endpoint_pass *pass, enum endpoint_outcome outcome,
             struct error *err)
{
	WITH_LOCK(&e->mu);

	if (pass->is_probe)
		e->is_probing = false;
	switch (outcome) {
	case ENDPOINT_ANSWERED:
		return note_answer(e);
	case ENDPOINT_FAILED:
		return note_failure(e, pass, err);
	case ENDPOINT_UNKNOWN:
		break;
	}
	return false;
}

/* ---- requests ---- */

bool
endpoint_check(struct endpoint *e, bool *ret_is_down, struct error *err)
{
	WITH_LOCK(&e->mu);

	*ret_is_down = e->is_down;
	return check_open(e, err);
}

bool
endpoint_enter(struct endpoint *e, struct endpoint_pass *ret, struct error *err)
{
	WITH_LOCK(&e->mu);

	if (!check_open(e, err))
		return false;
	*ret = (struct endpoint_pass){ .n_answers = e->n_answers, .is_probe = e->is_down };
	if (ret->is_probe) {
		e->is_probing = true;
		e->n_refused = 0;
	}
	return true;
}

void
endpoint_leave(struct endpoint *e, const struct endpoint_pass *pass, enum endpoint_outcome outcome,
               struct error *err)
{
	const struct cloud_host *host = e->config.host;

	if (!note_outcome(e, pass, outcome, err))
		return;
	if (outcome == ENDPOINT_FAILED) {
		log_warn("a cloud API is unavailable, work that needs it waits",
		         LOG_CSTR("api", e->config.name), LOG_ERR(err));
		return;
	}
	log_info("a cloud API is available again, work that waited for it continues",
	         LOG_CSTR("api", e->config.name));
	host->requeue(host, HOST_REQUEUE_RECOVERED, STR_EMPTY);
}

int64_t
endpoint_uptime_ns(struct endpoint *e)
{
	int64_t now_ns;
	WITH_LOCK(&e->mu);

	now_ns = e->is_down ? e->down_ns : now_boot(e);
	return now_ns - e->past_outages_ns;
}

/* ---- life cycle ---- */

struct endpoint *
endpoint_new(const struct endpoint_config *config)
{
	struct endpoint *e = xcalloc(1, sizeof(*e));

	e->config = *config;
	mutex_init(&e->mu);
	return e;
}

void
endpoint_free(struct endpoint *e)
{
	if (!e)
		return;
	mutex_destroy(&e->mu);
	free(e);
}
