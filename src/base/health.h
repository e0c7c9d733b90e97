/* base/health.h: named checks behind /healthz, /livez and /readyz.
 *
 * A check is a function that answers at once, from memory. They run in the order they were added, on the thread that
 * asks. Why one fails is logged and never shown: the endpoints are open to everybody.
 *
 * Threads: every function may be called from any thread.
 */
#ifndef CCMD_BASE_HEALTH_H
#define CCMD_BASE_HEALTH_H

#include "base/buf.h"

enum health_kind {
	HEALTH_HEALTHZ = 1,
	HEALTH_LIVEZ = 2,
	HEALTH_READYZ = 4,
};

/** False, with the reason appended, when it fails. NULL as a check always passes. */
typedef bool health_check(void *arg, struct buf *reason);

struct health;

struct health *health_new(void);
void health_free(struct health *);

/** kinds: of enum health_kind, or-ed. name: a literal, as in "[+]leaderElection ok". */
void health_add(struct health *, const char *name, unsigned kinds, health_check *check, void *arg);

/** Runs the checks of one kind, without those whose names are in exclude; counts each for /metrics/slis. Appends the
 * text that Kubernetes' endpoints give (kube-client.md 10.5): "ok", or the verbose lines if wanted or if one failed. */
bool health_run(struct health *, enum health_kind kind, const struct str exclude[],
                size_t n_exclude, bool is_verbose, struct buf *text);

/** kubernetes_healthcheck and kubernetes_healthchecks_total, in the text format; only these, for /metrics/slis. */
void health_write_slis(struct health *, struct buf *text);
void health_reset_slis(struct health *);

#endif
