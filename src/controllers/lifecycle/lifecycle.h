/* controllers/lifecycle/lifecycle.h: the cloud node lifecycle controller: nodes whose machine is
 * off or gone.
 *
 * Only nodes that are not Ready cost a question to the cloud. One that is shut down gets the
 * shutdown taint, which goes when it is Ready again; one whose machine is gone is deleted, on proof
 * (controllers/lifecycle/guard.h). Each is looked at when it becomes NotReady, 12, 30 and 60 s
 * after, then every 65 s; what is due together is asked together. Once a machine seems absent,
 * others of the cluster are asked for in the same look, as witnesses.
 */
#ifndef CCMD_CONTROLLERS_LIFECYCLE_LIFECYCLE_H
#define CCMD_CONTROLLERS_LIFECYCLE_LIFECYCLE_H

#include "controllers/env.h"
#include "controllers/lifecycle/guard.h"

struct lifecycle_controller;

struct lifecycle_config {
	struct guard_config guard;
	int64_t period_ns; /* --node-monitor-period: look so often; 0: the steps above */
	/* The previous leader may have crashed right after it deleted nodes: begin as if
	 * breaker_min nodes had just been deleted. */
	bool may_follow_crash;
};

/** Subscribes to the store and starts the thread, which waits for it to sync. Before the reflector
 * starts. */
struct lifecycle_controller *lifecycle_controller_new(struct controller_env *env,
                                                      const struct lifecycle_config *config);
/** Looks at all nodes that are not Ready now: something changed in the cloud. */
void lifecycle_controller_wake(struct lifecycle_controller *);
/** An API of the cloud is available again: nodes that wait for the end of an outage are due. */
void lifecycle_controller_release(struct lifecycle_controller *);
/** Once the token is fired: was it at work, so that a request of its may still come through? */
bool lifecycle_controller_is_working(const struct lifecycle_controller *);
/** Joins the thread, after the token. NULL is fine. */
void lifecycle_controller_free(struct lifecycle_controller *);

#endif
