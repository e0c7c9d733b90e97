/* controllers/node/node.h: the cloud node controller: it initialises nodes, and keeps their
 * addresses and labels right.
 *
 * A new node carries the taint `uninitialized`, which keeps pods away until the node's machine was
 * found in the cloud and its provider ID, labels and addresses are set. That takes two writes:
 * first the addresses, to /status, then everything else together with the removal of the taint, so
 * that no pod is scheduled to a node without addresses. Afterwards GA labels follow the beta ones,
 * and every few minutes addresses are compared with the cloud's (docs/spec/framework.md,
 * "Initialisation").
 *
 * Threads: the controller has its own; all functions may be called from any thread.
 */
#ifndef CCMD_CONTROLLERS_NODE_NODE_H
#define CCMD_CONTROLLERS_NODE_NODE_H

#include "controllers/env.h"
#include "kube/queue.h"

struct node_controller;

struct node_controller_config {
	unsigned n_workers;        /* 1 or more */
	int64_t refresh_period_ns; /* --node-status-update-frequency */
};

/** Subscribes to the store and starts the threads, which wait until the store has synced. Must be
 * called before the reflector starts, so that no change is missed. */
struct node_controller *node_controller_new(struct controller_env *env,
                                            const struct node_controller_config *config);
/** Something changed in the cloud: uninitialised nodes are tried again now. */
void node_controller_wake(struct node_controller *);
/** An API of the cloud is available again: nodes that wait for the end of an outage are due. */
void node_controller_release(struct node_controller *);
/** The queue of its work, for shutting it down and waiting for the workers that still run. */
struct queue *node_controller_queue(struct node_controller *);
/** Joins the threads; the queue is shut down and the cancel token has fired. NULL is fine. */
void node_controller_free(struct node_controller *);

#endif
