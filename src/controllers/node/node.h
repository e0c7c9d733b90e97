/* controllers/node/node.h: the cloud node controller: initialises nodes, keeps their addresses and
 * labels right.
 *
 * A new node carries the uninitialized taint; no pod lands on it until its machine was found in the
 * cloud and its provider ID, labels and addresses are set. That takes two writes: first the
 * addresses, to /status, then all the rest together with the taint's removal, so that pods never
 * land before addresses exist. Afterwards GA labels follow the beta ones, and addresses are
 * compared with the cloud's every few minutes (docs/spec/framework.md, "Initialisation").
 */
#ifndef CCMD_CONTROLLERS_NODE_NODE_H
#define CCMD_CONTROLLERS_NODE_NODE_H

#include "controllers/env.h"

struct node_controller;

struct node_controller_config {
	unsigned n_workers;        /* 1 or more */
	int64_t refresh_period_ns; /* --node-status-update-frequency */
};

/** Subscribes to the store and starts the threads, which wait for it to sync. Before the reflector
 * starts. */
struct node_controller *node_controller_new(struct controller_env *env,
                                            const struct node_controller_config *config);
/** Nodes without a machine are asked for again now: something changed in the cloud. */
void node_controller_wake(struct node_controller *);
/** An API of the cloud is available again: nodes that wait for the end of an outage are due. */
void node_controller_release(struct node_controller *);
/** Hands out no more work; running reconciles go on. */
void node_controller_stop(struct node_controller *);
/** True when nothing is being worked on; waits until deadline (mono). */
bool node_controller_wait_idle(struct node_controller *, int64_t deadline_ns);
/** Joins the threads, after stop() and the token. NULL is fine. */
void node_controller_free(struct node_controller *);

#endif
