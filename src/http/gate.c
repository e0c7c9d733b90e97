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

bool
gate_enter(struct gate *g, int64_t now_ns, int64_t *ret_at_ns)
{
	double passed_s = clock_seconds(now_ns - g->tokens_ns), missing_ns;
	int64_t at_ns = now_ns;

	if (g->n_running >= g->limit) {
		*ret_at_ns = CLOCK_FOREVER;
		return false;
	}
	if (g->qps > 0 && passed_s > 0) {
		g->tokens += passed_s * g->qps;
		if (g->tokens > g->burst)
			g->tokens = g->burst;
		g->tokens_ns = now_ns;
	}
	/* The time of the next token is rounded up, so that an attempt at that time succeeds. It is
	 * capped, because with a tiny rate the result would not fit in an int64_t. */
	if (g->qps > 0 && g->tokens < 1) {
		missing_ns = (1 - g->tokens) / g->qps * (double)NS_PER_SEC;
		at_ns += missing_ns < 1e15 ? (int64_t)missing_ns + 1 : (int64_t)1e15;
	}
	at_ns = clock_later(at_ns, g->closed_until_ns);
	if (at_ns > now_ns) {
		*ret_at_ns = at_ns;
		return false;
	}
	if (g->qps > 0)
		g->tokens -= 1;
	g->n_running++;
	return true;
}

void
gate_leave(struct gate *g, enum gate_outcome outcome, int64_t retry_after_ns, int64_t now_ns)
{
	int64_t until_ns = now_ns + clock_earlier(retry_after_ns, LIMIT_RETRY_AFTER_S * NS_PER_SEC);

	g->n_running--;
	if (outcome == GATE_SUCCESS && ++g->n_successes >= GATE_STEP) {
		g->n_successes = 0;
		if (g->limit < LIMIT_GATE_MAX)
			g->limit++;
	}
	if (outcome == GATE_THROTTLED) {
		g->n_successes = 0;
		if (now_ns - g->halved_ns >= NS_PER_SEC) {
			g->halved_ns = now_ns;
			g->limit = g->limit > 1 ? g->limit / 2 : 1;
		}
	}
	if (retry_after_ns > 0)
		g->closed_until_ns = clock_later(g->closed_until_ns, until_ns);
}
