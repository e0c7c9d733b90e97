/* controllers/manager.h: the controllers of this process, from the moment we lead to the end.
 *
 * Made of what main has opened: clients, cloud, recorder. manager_start() builds the controllers
 * that are wanted and then the reflectors that feed them, so that nobody misses a change;
 * manager_stop() lets work that runs finish for a while, then cancels whatever blocks and joins all
 * threads. A process leads once: who loses the lease ends.
 *
 * Threads: one thread starts and stops; the rest is for any.
 */
#ifndef CCMD_CONTROLLERS_MANAGER_H
#define CCMD_CONTROLLERS_MANAGER_H

#include "base/health.h"
#include "controllers/host.h"
#include "controllers/lifecycle/lifecycle.h"
#include "controllers/node/node.h"
#include "controllers/route/route.h"
#include "controllers/service/service.h"

struct manager;

/** One controller's share: NULL as its client means that it does not run. */
struct manager_config {
	struct clock *clock;
	struct kube_client *shared; /* for the informers */
	struct kube_client *node_client;
	struct kube_client *lifecycle_client;
	struct kube_client *service_client;
	struct kube_client *route_client;
	struct recorder *recorder;
	struct store *nodes;
	struct host *host;
	struct cloud *cloud;
	struct node_controller_config node;
	struct lifecycle_config lifecycle;
	struct service_controller_config service;
	struct route_controller_config route;
};

/** Copies config; what it points to outlives the manager. Nothing runs yet. */
struct manager *manager_new(const struct manager_config *config);
/** After manager_stop(), where it was started. NULL is fine. */
void manager_free(struct manager *);

/** Starts the controllers and reflectors. min_version: their first lists are not older than this
 * resource version; empty: any will do. may_follow_crash: as in struct lifecycle_config. */
void manager_start(struct manager *, struct str min_version, bool may_follow_crash);
/** Hands out no more work, waits for what runs until grace_ns have passed, cancels the rest, joins.
 * Returns true when all work had ended by itself: only then may the lease be given back. */
bool manager_stop(struct manager *, int64_t grace_ns);

bool manager_is_started(const struct manager *);
/** A health_check for readiness: all stores have synced, or we do not lead. */
health_check manager_has_synced;

#endif
