/* base/health.h: named checks behind /healthz, /livez and /readyz.
 *
 * A check is a function that answers at once, from memory. They run in the order they were added,
 * on the thread that asks. Why one fails is logged, once each time it begins to, and withheld from
 * the endpoints that are open to everybody. Results are counted in kubernetes_healthcheck and
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

/** False, with the reason appended, when it fails. NULL as a check always passes. */
typedef bool health_check(void *arg, struct buf *reason);

struct health;

struct health *health_new(void);
void health_free(struct health *);

/** kinds: of enum health_kind, or-ed. name: a literal, as in "[+]leaderElection ok". At most
 * LIMIT_HEALTH_CHECKS. */
void health_add(struct health *, const char *name, unsigned kinds, health_check *check, void *arg);

/** "healthz", "livez", "readyz". */
const char *health_kind_name(enum health_kind);

/** Runs the checks of one kind, without those whose names are in exclude. Appends the text that
 * Kubernetes' endpoints give (docs/spec/kube-client.md, "Health texts"): "ok", or the verbose lines
 * if wanted or if one failed. Without any check one named "ping" passes. False when one failed. */
bool health_run(struct health *, enum health_kind kind, const struct str exclude[],
                size_t n_exclude, bool is_verbose, struct buf *text);

enum health_found {
	HEALTH_UNKNOWN, /* no check of that name and kind */
	HEALTH_WELL,
	HEALTH_FAILED,
};

/** Runs one check; appends why it fails. */
enum health_found health_run_one(struct health *, enum health_kind kind, struct str name,
                                 struct buf *reason);

#endif
