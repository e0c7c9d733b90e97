/* base/health.h: named checks behind /healthz, /livez and /readyz.
 *
 * A check is a function that answers immediately, from memory. Checks run in the order of their
 * registration, on the thread that requests them, and are never removed. The reason of a failure is
 * logged once, when the check begins to fail, and is not shown on the endpoints that are open
 * without authentication. Results are counted in kubernetes_healthcheck and
 * kubernetes_healthchecks_total, on the page of the SLIs.
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

/** Returns false and appends the reason when the check fails. A NULL check always passes. */
typedef bool health_check(void *arg, struct buf *reason);

struct health;

struct health *health_new(void);
void health_free(struct health *);

/** Adds a check. kinds: values of enum health_kind, combined with |. name: a literal, which appears
 * as "[+]leaderElection ok". At most LIMIT_HEALTH_CHECKS checks can be added. */
void health_add(struct health *, const char *name, unsigned kinds, health_check *check, void *arg);

/** Runs the checks of one kind, except those named in exclude. Appends the text of the Kubernetes
 * endpoints (docs/spec/kube-client.md, "Health texts"): "ok", or one line per check if is_verbose
 * is set or a check failed. A kind without checks has one check named "ping", which passes.
 * Returns false when a check failed. */
bool health_run(struct health *, enum health_kind kind, const struct str exclude[],
                size_t n_exclude, bool is_verbose, struct buf *text);

enum health_found {
	HEALTH_UNKNOWN, /* no check has that name and kind */
	HEALTH_WELL,
	HEALTH_FAILED,
};

/** Runs one check and appends the reason when it fails. */
enum health_found health_run_one(struct health *, enum health_kind kind, struct str name,
                                 struct buf *reason);

#endif
