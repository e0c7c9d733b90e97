/* controllers/service/service.h: the service controller: a load balancer for each Service that
 * wants one (docs/spec/framework.md, "Service sync").
 *
 * One queue of Services. A Service has one key, with reasons: FULL (anything about the Service may
 * have changed) or NODES (only its targets may have). So ensuring a balancer and updating its
 * targets never overlap, and a slow Service delays no other while there are workers left. When
 * nodes change, targets are changed immediately, and then at most once a second; only balancers
 * whose set of (name, provider ID) changed cost a call. The finalizer is written before the
 * balancer is made, and removed after the balancer is gone; a deletion depends on nothing but the
 * Service's UID and name. Status is written only from a successful answer, never from a failure.
 *
 * Threads: the controller has its own; all functions may be called from any thread.
 */
#ifndef CCMD_CONTROLLERS_SERVICE_SERVICE_H
#define CCMD_CONTROLLERS_SERVICE_SERVICE_H

#include "cloud/balancer.h"
#include "controllers/env.h"
#include "kube/queue.h"
#include "kube/service.h"

struct service_controller;

struct service_controller_config {
	unsigned n_workers;       /* 1 or more */
	const char *cluster_name; /* --cluster-name */
	int64_t drift_period_ns;  /* --load-balancer-drift-period; 0: never */
};

/** The kind of the Services in env->services: it keeps the annotations that the framework and the
 * cloud's provider read, or all if the provider does not declare a prefix. The cloud is started. */
struct service_kind service_kind_of(const struct cloud *);

/** Subscribes to the stores of Services and nodes and starts the threads, which wait until both
 * have synced. Must be called before the reflectors start, so that no change is missed. */
struct service_controller *service_controller_new(struct controller_env *env,
                                                  const struct service_controller_config *config);
/** Something changed in the cloud: the Service with that key ("namespace/name") is ensured now; an
 * empty key means all Services. */
void service_controller_wake(struct service_controller *, struct str key);
/** An API of the cloud is available again: Services that wait for the end of an outage are due. */
void service_controller_release(struct service_controller *);
/** Has the provider adopted the balancers that exist? No Service is worked on before. */
bool service_controller_has_adopted(struct service_controller *);
/** The queue of its work, for shutting it down and waiting for the workers that still run. */
struct queue *service_controller_queue(struct service_controller *);

/** What the controller remembers of a Service. */
struct service_memory {
	bool has_balancer; /* it created, tried to create or found one */
	struct str error;  /* why the last attempt failed or is not complete; empty: it succeeded */
	int64_t failed_ago_ns; /* when that was, relative to the call */
};
/** False: nothing. The text is in the arena. */
bool service_controller_remembers(struct service_controller *, struct arena *, struct str key,
                                  struct service_memory *ret);

/* ---- parts of its work, for commands that change nothing (operator/) ---- */

/** The Service as a provider sees it. Views point into the Service or the arena. The nodes of the
 * spec are not set. */
struct lb_spec service_spec(const struct service *, const char *cluster_name, struct arena *arena);
/** Gives the provider all Services that have a balancer or want one (balancer_ops.adopt), which has
 * to precede the work on the first of them. */
NODISCARD bool service_adopt_all(struct cloud *, struct call *, struct store *services,
                                 const char *cluster_name, struct error *err);

/** Joins the threads; the queue must be shut down and the cancel token must have fired. NULL is
 * fine. */
void service_controller_free(struct service_controller *);

#endif
