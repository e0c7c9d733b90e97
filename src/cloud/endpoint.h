/* cloud/endpoint.h: whether one API of a cloud is available.
 *
 * An outage concerns an API, not the object whose request happened to notice it. While an endpoint is down, one request at a time
 * is sent as a probe, and every other request fails immediately with the error of the outage. When a request succeeds, the endpoint
 * is up again and requests HOST_REQUEUE_RECOVERED from the host, so that all objects that wait for the endpoint are due together.
 *
 *	up     every request is sent
 *	down   two requests in a row failed, and none was answered since the first of the two began. One failure is not enough:
 *	       it may be about that request alone, and its own caller tries again soon. Failures of requests that began before
 *	       the last answer say nothing about the present.
 *
 * A failure is what says that the API does not work for any request: no connection, no answer in time, a 5xx, a 401. All other
 * answers, 429 included, prove that the API is available. The first probe is due after one second, and each that fails
 * doubles the pause, up to 30 s: a short disturbance is over soon, and an API that is down for hours gets two requests a minute.
 *
 * There is no thread behind it: the probe is the first request that comes when one is due. retry_after_ms of the errors says when
 * that is. Callers that were refused are due one second after the other, and before the caller of a failed probe, so that one
 * object whose requests always fail cannot keep the endpoint down for all others.
 *
 * Errors of an outage have is_outage set, the code and the http_status of the failure (ERR_UNAUTHORIZED stays what it is), and a
 * text that is the same for all callers and does not change while the cause stays the same, so that Events repeat no text.
 *
 * Threads: any. The host is woken, and lines are logged, without a lock held.
 */
#ifndef CCMD_CLOUD_ENDPOINT_H
#define CCMD_CLOUD_ENDPOINT_H

#include "cloud/host.h"

struct endpoint; /* opaque */

struct endpoint_config {
	const char *
		name; /* begins the texts: "the Hetzner Cloud API"; lives as long as the endpoint */
	const struct cloud_host *host; /* likewise */
};

struct endpoint *endpoint_new(const struct endpoint_config *config);
void endpoint_free(struct endpoint *); /* NULL is fine */
DEFINE_CLEANUP(struct endpoint, endpoint_free)

/** What a request that was let through gives back. */
struct endpoint_pass {
	uint64_t n_answers; /* when it began */
	bool is_probe;
};

enum endpoint_outcome {
	ENDPOINT_UNKNOWN, /* says nothing about the API: cancelled, never sent, cut short by the caller's own deadline */
	ENDPOINT_ANSWERED,
	ENDPOINT_FAILED,
};

/** Begins a request. True: send it, then call endpoint_leave() on every path. False: *err is the outage. */
NODISCARD bool endpoint_enter(struct endpoint *, struct endpoint_pass *ret, struct error *err);

/** Ends a request. err: with ENDPOINT_FAILED, why, replaced by the error of the outage when the endpoint is down; else not
 * touched, and may be NULL. */
void endpoint_leave(struct endpoint *, const struct endpoint_pass *pass,
                    enum endpoint_outcome outcome, struct error *err);

/** Would a request be sent now? For callers that plan several. *ret_is_down: it would be a probe. False: *err is the outage. */
NODISCARD bool endpoint_check(struct endpoint *, bool *ret_is_down, struct error *err);

/** CLOCK_BOOTTIME less the time that the endpoint was down: what measures patience with the cloud. */
int64_t endpoint_uptime_ns(struct endpoint *);

#endif
