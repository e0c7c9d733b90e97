/* tests/controllers/rig.h: what main hands the controllers, with a fake clock, cloud and API
 * server.
 *
 * The test's thread plays the reflector: it puts nodes into the store. It alone asserts; what other
 * threads did is seen in the fakes, after rig_settle() or one of the functions that end with it.
 */
#ifndef CCMD_TESTS_CONTROLLERS_RIG_H
#define CCMD_TESTS_CONTROLLERS_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controllers/fake_api.h"
#include "controllers/fake_balancers.h"
#include "controllers/fake_cloud.h"
#include "controllers/fake_routes.h"
#include "controllers/fake_services.h"
#include "controllers/lifecycle/lifecycle.h"
#include "controllers/lookup.h"
#include "controllers/node/node.h"
#include "controllers/event_dedup.h"
#include "controllers/route/route.h"
#include "controllers/service/service.h"
#include "fake_clock.h"

#define RIG_WALL_NS \
	(INT64_C(1767322800) * NS_PER_SEC) /* 2026-01-02T03:00:00Z, when the rig is made */

struct rig {
	struct fake_clock *fake;
	struct rig_clock *watch; /* the fake clock, seen through: knows who waits for what */
	struct clock *clock;     /* it */
	struct fake_api *api;
	struct fake_cloud *cloud;
	struct kube_client kube;
	struct cancel *cancel;
	struct node_kind node_kind; /* of env.nodes */
	struct controller_env env;
	struct controller_memory *memory;       /* of env */
	struct node_controller *nodes;          /* NULL: not started */
	struct lifecycle_controller *lifecycle; /* NULL: not started */
	struct fake_services *services;       /* NULL until the controller of services is started */
	struct fake_balancers *balancers;     /* likewise */
	struct service_controller *balancing; /* likewise */
	void (*on_removal)(void);             /* a Service left the store, which reports it next */
	struct fake_routes *routes;           /* NULL until that of routes is */
	struct route_controller *routing;     /* likewise */
	struct ip_net cluster[2];
	unsigned n_workers;      /* of the controller of services */
	int64_t drift_period_ns; /* its --load-balancer-drift-period; 0: never */
	unsigned n_threads;      /* that wait on the clock when all is quiet */
	struct arena arena;
	struct call call; /* for the test's own thread */
};

struct rig *rig_new(void);
/** Stops whatever runs. NULL is fine. */
void rig_free(struct rig *);

/** Before the store is synced. */
void rig_start_nodes(struct rig *, unsigned n_workers);
void rig_start_lifecycle(struct rig *, const struct guard_config *guard);
/** Starts like a leader whose predecessor did not give its Lease back. */
void rig_start_lifecycle_after_crash(struct rig *, const struct guard_config *guard);

/** selects: the cloud takes nodes by label. */
void rig_start_services(struct rig *, unsigned n_workers, bool selects);
/** The controller ends as in a crash, and another begins with what the API server lists, over the
 * same cloud; workers wait for rig_sync_services(). */
void rig_restart_services(struct rig *, unsigned n_workers);
/** The first list of Services is complete, too. */
void rig_sync_services(struct rig *);
/** The store hears of all changes of Services, and of those that follow. Settles. */
void rig_deliver(struct rig *);

/** --cluster-cidr=10.244.0.0/16,fd00:10::/32 */
void rig_start_routes(struct rig *, int64_t period_s, struct fake_routes_config config);

/** --node-status-update-frequency */
#define RIG_REFRESH_S 300

/** A node as the API server has it. JSON texts are without their brackets. */
struct rig_node {
	const char *name;
	const char *uid;         /* NULL: "u-NAME" */
	const char *version;     /* NULL: "7" */
	const char *provider_id; /* NULL: none */
	const char *ready;       /* NULL: "True" */
	const char *heartbeat;   /* NULL: a fixed time */
	int64_t age_s;           /* when the rig was made; 0: an hour */
	const char *taints, *labels, *annotations, *addresses; /* NULL: none */
	const char *pod_cidrs;                                 /* NULL: none */
	const char *network; /* members of a condition NetworkUnavailable; NULL: none */
	bool is_deleting;
};

#define RIG_UNINITIALIZED \
	"{\"key\":\"node.cloudprovider.kubernetes.io/uninitialized\",\"value\":\"true\",\"effect\":\"NoSchedule\"}"
#define RIG_SHUTDOWN \
	"{\"key\":\"node.cloudprovider.kubernetes.io/shutdown\",\"effect\":\"NoSchedule\"}"

/** Its JSON, in the rig's arena. */
const char *rig_json(struct rig *, const struct rig_node *node);
/** Parsed; a reference. */
struct node *rig_parse(struct rig *, const struct rig_node *node);
/** Into the store, as an event of a watch; nothing else happens yet. */
void rig_put(struct rig *, const struct rig_node *node);
/** Out of the store. */
void rig_remove(struct rig *, const char *name);
/** The first list is complete: controllers begin. */
void rig_sync(struct rig *);

/** Returns when all threads, and `extra` of the test's own, wait. */
void rig_settle_with(struct rig *, unsigned extra);
void rig_settle(struct rig *);
/** Moves the clock in one step, and settles. */
void rig_advance_ms(struct rig *, int64_t ms);
/** Moves the clock from one deadline to the next, and settles at each, so that no thread is late.
 */
void rig_run(struct rig *, int64_t seconds);

/** Asserts that /metrics has the series ("name" or "name{label=\"value\"}") with this value. */
void rig_assert_metric(struct rig *, const char *series, int value);

#endif
