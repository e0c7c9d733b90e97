/* controllers/env.h: what every controller works with. All of it is borrowed and outlives the
 * controllers. And the calls and dry-run items (base/dry_run.h) that their work items need.
 *
 * Threads: all of it may be used from any thread.
 */
#ifndef CCMD_CONTROLLERS_ENV_H
#define CCMD_CONTROLLERS_ENV_H

#include "cloud/cloud.h"
#include "kube/client.h"
#include "kube/recorder.h"
#include "kube/store.h"

struct lookup;
struct event_dedup;
struct node_errors;
struct own_writes;
struct paces;
struct settling;

struct controller_env {
	struct clock *clock;
	struct cancel *cancel;
	struct kube_client *kube;
	struct store *nodes;
	struct store *services; /* NULL where no controller needs them */
	struct recorder *recorder;
	struct cloud *cloud;
	struct lookup *lookup;
	struct event_dedup *event_dedup;
	struct node_errors *node_errors;
	struct own_writes *own_writes;
	struct paces *paces;
	struct settling *settling;
	struct dry_run *dry; /* NULL: changes are made; else they are only noted */
};

/** What the controllers remember together. Makes event_dedup, node_errors, own_writes, paces and
 * settling of env with its clock and recorder, which outlive them. */
struct controller_memory *controller_memory_new(struct controller_env *env);
void controller_memory_free(struct controller_memory *); /* NULL is fine */

/** The call of a work item that may take timeout_ns from now; CLOCK_FOREVER: any time. */
struct call env_call(const struct controller_env *, struct arena *arena, int64_t timeout_ns);

/** Returns the value of call->dry for work on this object, in the arena. NULL: this is not a dry
 * run. The arguments are as in struct dry_item, and are copied. */
const struct dry_item *dry_item_new(const struct controller_env *, const char *kind,
                                    struct str name, struct str version, struct arena *arena);
/** The same for the object with this key in a store; the version is empty if there is none. */
const struct dry_item *dry_item_find(const struct controller_env *, struct store *store,
                                     const char *kind, struct str key, struct arena *arena);

/* ---- first runs ----
 *
 * `ccmd plan` waits until every controller has handled all objects once. A controller with a queue
 * has done so when the queue is idle (queue_wait_idle()). The loops without a queue are noted here.
 * A first run that failed has ended as well.
 */

enum settling_part {
	SETTLING_ADDRESSES =
		1, /* the addresses of all nodes were compared, and nodes to change queued */
	SETTLING_LIFECYCLE = 2, /* all nodes that are not Ready were checked */
	SETTLING_ADOPTION = 4,  /* the provider was asked to adopt existing balancers */
	SETTLING_ROUTES = 8,    /* all routes, and the conditions of nodes, were compared */
};

/** Notes that the first run of this part has ended. Later calls have no effect. */
void settling_note(struct settling *, enum settling_part part);
/** Waits for the first runs of all these parts (a union of enum settling_part) until the deadline
 * (mono). Fails with ERR_TIMEOUT. */
NODISCARD bool settling_wait(struct settling *, unsigned parts, int64_t deadline_ns,
                             struct error *err);

#endif
