/* controllers/manager.h: the controllers of this process, which run from the moment when it begins
 * to lead.
 *
 * main opens the clients, the cloud and the recorder, and hands them over here. manager_start()
 * builds the wanted controllers, then the reflectors that feed their stores, so that no controller
 * misses a change. manager_stop() lets running work finish for a while, then cancels whatever
 * blocks and joins all threads. A process leads at most once: it ends when it loses the lease.
 *
 * Threads: one thread starts and stops; the other functions may be called from any thread.
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

enum controller {
	CONTROLLER_NODE,
	CONTROLLER_LIFECYCLE,
	CONTROLLER_SERVICE,
	CONTROLLER_ROUTE,
	N_CONTROLLERS,
};

struct controller_names {
	const char *name;  /* as in --controllers (docs/spec/framework.md, "Controllers") */
	const char *alias; /* the short name, in metrics; accepted as well */
	/* the service account with --use-service-account-credentials; always the user agent, and
	 * the name of the thread of its client */
	const char *account;
};

/** In the order of enum controller. */
extern const struct controller_names controllers_names[N_CONTROLLERS];

/** Returns why a controller does not run with this cloud, which was started; NULL: it runs.
 * is_wanted: the user's flags do not switch it off. */
const char *controller_why_not(const struct cloud *, enum controller which, bool is_wanted);

struct manager_config {
	struct clock *clock;
	struct kube_client *shared; /* for the reflectors; NULL: the caller fills the stores */
	struct kube_client *clients[N_CONTROLLERS]; /* NULL: that controller does not run */
	struct recorder *recorder;
	struct store *nodes;
	struct store *services; /* NULL: the manager makes one if a controller needs it */
	struct host *host;
	struct cloud *cloud;
	struct dry_run *dry; /* NULL: changes are made; else they are only noted */
	struct node_controller_config node;
	struct lifecycle_config lifecycle;
	struct service_controller_config service;
	struct route_controller_config route;
};

/** Copies config; what it points to must outlive the manager. Starts nothing. */
struct manager *manager_new(const struct manager_config *config);
/** If the manager was started, it must have been stopped. NULL is fine. */
void manager_free(struct manager *);

/** Starts the controllers and reflectors. min_version: the first lists must not be older than this
 * resource version; empty: any version will do. may_follow_crash: as in struct lifecycle_config. */
void manager_start(struct manager *, struct str min_version, bool may_follow_crash);
/** For a dry run: waits, until the deadline (mono) at most, until every controller has handled all
 * objects of the first lists. An object whose work ended in an error has been handled, and was
 * reported by failed(). What a controller does only after a time (the deletion of a node, say) is
 * not waited for. ERR_TIMEOUT says what is missing. */
NODISCARD bool manager_wait_settled(struct manager *, int64_t deadline_ns, struct error *err);
/** As lifecycle_controller_candidates(); none if that controller does not run. */
size_t manager_candidates(struct manager *, struct arena *, struct lifecycle_candidate **ret);
/** Hands out no more work, waits for running work until grace_ns have passed, cancels the rest and
 * joins all threads. Returns true if all work ended by itself: only then may the lease be given
 * back. */
bool manager_stop(struct manager *, int64_t grace_ns);

bool manager_is_started(const struct manager *);
/** A health_check for readiness: this process does not lead, or all its stores have synced. */
health_check manager_has_synced;

/** What this process knows about an object, or with DESCRIBED_TROUBLE about all in trouble
 * (controllers/describe.h). False: path names none. */
bool manager_describe(void *manager, struct str path, struct buf *json);

#endif
