/* http/gate.h: how many requests may be under way at once.
 *
 * There is no fixed rate: requests run as fast as the other side takes them. Starts at 4, one more
 * per 100 successes up to LIMIT_GATE_MAX, halved at most once a second on 429, 503 or a time-out,
 * never below 1. A rate given by the user (--kube-api-qps, --kube-api-burst) caps it with a token
 * bucket on top.
 *
 * Plain values and functions without locks: the I/O thread owns it. Streams do not pass the gate.
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
	int64_t closed_until_ns; /* Retry-After of a throttled answer: nothing starts before */
	double qps;              /* 0: no cap */
	double burst;
	double tokens;
	int64_t tokens_ns; /* mono: when tokens was right */
};

enum gate_outcome {
	GATE_SUCCESS,
	GATE_FAILURE,   /* failed without a sign of overload */
	GATE_THROTTLED, /* 429, 503, or a time-out */
};

/** qps 0: no rate cap; burst is at least 1. */
void gate_init(struct gate *g, double qps, double burst, int64_t now_ns);
/** May one more start now? If so it counts as running. Otherwise *ret_at_ns is the moment (mono) to
 * ask again, CLOCK_FOREVER when one must end first. */
bool gate_enter(struct gate *g, int64_t now_ns, int64_t *ret_at_ns);
void gate_leave(struct gate *g, enum gate_outcome outcome, int64_t retry_after_ns, int64_t now_ns);

#endif
