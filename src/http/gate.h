/* http/gate.h: how many requests may run at the same time.
 *
 * The rate is not fixed: requests run as fast as the server answers them. The limit starts at 4,
 * grows by one for every 100 successes up to LIMIT_GATE_MAX, and is halved at most once a second on
 * 429, 503 or a time-out, never below 1. A rate given by the user (--kube-api-qps,
 * --kube-api-burst) caps it in addition, with a token bucket.
 *
 * These are plain values and functions without locks: the I/O thread owns them. Streams bypass the
 * gate.
 */
#ifndef CCMD_HTTP_GATE_H
#define CCMD_HTTP_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct gate {
	unsigned limit;
	unsigned max;
	unsigned n_running;
	unsigned n_successes;    /* since the limit last changed */
	int64_t halved_ns;       /* mono */
	int64_t closed_until_ns; /* Retry-After of a throttled answer: nothing starts earlier */
	double qps;              /* 0: no cap */
	double burst;
	double tokens;
	int64_t tokens_ns; /* mono: the time for which tokens was computed */
};

enum gate_outcome {
	GATE_SUCCESS,
	GATE_FAILURE,   /* failed without a sign of overload */
	GATE_THROTTLED, /* 429, 503, or a time-out */
};

/** qps 0: no rate cap; burst is at least 1. */
void gate_init(struct gate *g, double qps, double burst, int64_t now_ns);
/** Lets one more request start if that is allowed now; it then counts as running. If not,
 * *ret_at_ns is the moment (mono) to try again, or CLOCK_FOREVER if a running request must end
 * first. */
bool gate_enter(struct gate *g, int64_t now_ns, int64_t *ret_at_ns);
void gate_leave(struct gate *g, enum gate_outcome outcome, int64_t retry_after_ns, int64_t now_ns);

#endif
