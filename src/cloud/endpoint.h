/* cloud/endpoint.h: whether one API of a cloud is available.
 *
 * An outage concerns an API, not the object whose request happened to notice it. While an endpoint
 * is down, one request at a time is sent as a probe, and every other request fails immediately with
 * the error of the outage. When a request succeeds, the endpoint is up again and requests
 * HOST_REQUEUE_RECOVERED from the host, so that all objects that wait for the endpoint are due
 * together.
 *
 * 	up     every request is sent
 * 	down   two requests in a row failed, and none was answered since the first of them
 * 	       began. One failure is not enough: it may concern that request alone, and its
 * 	       caller tries again soon. Failures of requests that began before the last answer
 * 	       are ignored, because they are outdated.
 *
 * A failure is a result that any other request would have, too: no connection, no answer in time, a
 * 5xx, a 401. All other answers, 429 included, prove that the API is available. The first probe is
 * due after one second, and each failed probe doubles the pause, up to 30 s: a short disturbance is
 * over soon, and an API that is down for hours gets two requests a minute.
 *
 * An endpoint has no thread: the first request after the pause is the probe. retry_after_ms of the
 * errors says when a caller should come back. Refused callers are due one second after the other,
 * and before the caller of a failed probe, so that one object whose requests always fail cannot
 * keep the endpoint down for all others.
 *
 * Errors of an outage have is_outage set, and the code and http_status of the failure (e.g.
 * ERR_UNAUTHORIZED). Their text is the same for all callers and changes only with the cause, so
 * that it is not repeated in Events.
 *
 * Threads: any. No lock is held while the host is woken or lines are logged.
 */
#ifndef CCMD_CLOUD_ENDPOINT_H
#define CCMD_CLOUD_ENDPOINT_H

#include "cloud/host.h"

struct endpoint; /* opaque */

struct endpoint_config {
	/* The caller keeps both alive as long as the endpoint. */
	const char *name; /* begins the texts: "the Hetzner Cloud API" */
	const struct cloud_host *host;
};

struct endpoint *endpoint_new(const struct endpoint_config *config);
void endpoint_free(struct endpoint *); /* NULL is fine */
DEFINE_CLEANUP(struct endpoint, endpoint_free)

/** A permitted request, from endpoint_enter() to endpoint_leave(). */
struct endpoint_pass {
	uint64_t n_answers; /* of the endpoint, when the request began */
	bool is_probe;
};

enum endpoint_outcome {
	/* says nothing about the API: cancelled, never sent, or ended by the caller's deadline */
	ENDPOINT_UNKNOWN,
	ENDPOINT_ANSWERED,
	ENDPOINT_FAILED,
};

/** Begins a request. True: send it, then call endpoint_leave(). False: *err is the outage. */
NODISCARD bool endpoint_enter(struct endpoint *, struct endpoint_pass *ret, struct error *err);

/** Ends a request. err: with ENDPOINT_FAILED the error of the request, which the error of the
 * outage replaces if the endpoint is down; else not used, and may be NULL. */
void endpoint_leave(struct endpoint *, const struct endpoint_pass *pass,
                    enum endpoint_outcome outcome, struct error *err);

/** Would a request be sent now? For callers that plan several. *ret_is_down: it would be a probe.
 * False: *err is the outage. */
NODISCARD bool endpoint_check(struct endpoint *, bool *ret_is_down, struct error *err);

/** CLOCK_BOOTTIME less the time that the endpoint was down: for limits that ignore outages. */
int64_t endpoint_uptime_ns(struct endpoint *);

#endif
