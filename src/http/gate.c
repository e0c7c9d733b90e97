/* http/gate.c: how many requests may run at the same time.
 *
 * The rate is not fixed: requests run as fast as the server answers them. The limit moves as TCP's
 * window does: it starts at 4, grows by one for every 100 successes up to LIMIT_GATE_MAX, and is
 * halved on 429, 503 or a time-out, never below 1. Halving at most once a second keeps one burst of
 * refusals, all of them answers to the same overload, from counting several times.
 *
 * A rate given by the user (--kube-api-qps, --kube-api-burst) caps it in addition, with a token
 * bucket.
 */
#include "http/internal.h"

enum {
	GATE_START = 4,
	GATE_STEP = 100, /* successes that raise the limit by one */
};

void
gate_init(struct gate *g, double qps, double burst, int64_t now_ns)
{
	if (burst < 1)
		burst = 1;
	*g = (struct gate){
		.limit = GATE_START,
		.halved_ns = now_ns - NS_PER_SEC,
		.qps = qps > 0 ? qps : 0,
		.burst = burst,
		.tokens = burst,
		.tokens_ns = now_ns,
	};
}

static void
refill(struct gate *g, int64_t now_ns)
{
	double passed_s = clock_seconds(now_ns - g->tokens_ns);

	if (passed_s <= 0)
		return;
	g->tokens += passed_s * g->qps;
	if (g->tokens > g->burst)
		g->tokens = g->burst;
	g->tokens_ns = now_ns;
}

/* Returns the time when there is a token: now or later. A later time is rounded up, so that an
 * attempt at that time succeeds, and capped, because a tiny rate would lead to an overflow. */
static int64_t
token_at(const struct gate *g, int64_t now_ns)
{
	double missing_ns;

	if (g->tokens >= 1)
		return now_ns;
	missing_ns = (1 - g->tokens) / g->qps * (double)NS_PER_SEC;
	return now_ns + (missing_ns < 1e15 ? (int64_t)missing_ns + 1 : (int64_t)1e15);
}

bool
gate_enter(struct gate *g, int64_t now_ns, int64_t *ret_at_ns)
{
	int64_t at_ns = g->closed_until_ns;

	if (g->n_running >= g->limit) {
		*ret_at_ns = CLOCK_FOREVER;
		return false;
	}
	if (g->qps > 0) {
		refill(g, now_ns);
		at_ns = clock_later(at_ns, token_at(g, now_ns));
	}
	if (at_ns > now_ns) {
		*ret_at_ns = at_ns;
		return false;
	}
	if (g->qps > 0)
		g->tokens -= 1;
	g->n_running++;
	return true;
}

static void
count_success(struct gate *g)
{
	if (++g->n_successes < GATE_STEP)
		return;
	g->n_successes = 0;
	if (g->limit < LIMIT_GATE_MAX)
		g->limit++;
}

static void
throttle(struct gate *g, int64_t now_ns)
{
	g->n_successes = 0;
	if (now_ns - g->halved_ns < NS_PER_SEC)
		return;
	g->halved_ns = now_ns;
	g->limit = g->limit > 1 ? g->limit / 2 : 1;
}

static void
close_for(struct gate *g, int64_t duration_ns, int64_t now_ns)
{
	duration_ns = clock_earlier(duration_ns, LIMIT_RETRY_AFTER_S * NS_PER_SEC);
	g->closed_until_ns = clock_later(g->closed_until_ns, now_ns + duration_ns);
}

void
gate_leave(struct gate *g, enum gate_outcome outcome, int64_t retry_after_ns, int64_t now_ns)
{
	g->n_running--;
	if (outcome == GATE_SUCCESS)
		count_success(g);
	if (outcome == GATE_THROTTLED)
		throttle(g, now_ns);
	if (retry_after_ns > 0)
		close_for(g, retry_after_ns, now_ns);
}
