/* controllers/service/service.h: the service controller: a load balancer for each Service that
 * wants one (docs/spec/framework.md, "Service sync").
 *
 * One queue of Services, one key each with reasons: FULL (something about the Service) or NODES
 * (only its targets), so ensuring and updating of one Service never overlap, and up to the number
 * of workers one slow Service delays no other. Targets follow their nodes at once, then at most
 * once a second; only balancers whose set of (name, provider ID) changed are called. The finalizer
 * is on a Service before its balancer is made, and goes after it is gone; deletion depends on
 * nothing but the Service's UID and name. Status is written only from an answer, never from a
 * failure.
 *
 * Threads: workers of its own.
 */
#ifndef CCMD_CONTROLLERS_SERVICE_SERVICE_H
#define CCMD_CONTROLLERS_SERVICE_SERVICE_H

#include "controllers/env.h"
#include "kube/queue.h"

struct service_controller;

struct service_controller_config {
	unsigned n_workers;       /* 1 or more */
	const char *cluster_name; /* --cluster-name */
};

/** Subscribes to both stores and starts the threads, which wait for them to sync. Before the
 * reflectors start. */
struct service_controller *service_controller_new(struct controller_env *env,
                                                  const struct service_controller_config *config);
/** Something changed in the cloud: all Services, or that one ("namespace/name"), are looked at
 * now. */
void service_controller_wake(struct service_controller *, struct str key);
/** An API of the cloud is available again: Services that wait for the end of an outage are due. */
void service_controller_release(struct service_controller *);
/** The queue of its work, for shutting it down and waiting for the workers that still run. */
struct queue *service_controller_queue(struct service_controller *);
/** Joins the threads; the queue must be shut down and the cancel token must have fired. NULL is
 * fine. */
void service_controller_free(struct service_controller *);

#endif
