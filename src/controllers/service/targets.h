/* controllers/service/targets.h: the nodes behind load balancers (docs/spec/framework.md,
 * "Targets").
 *
 * A node may be a target unless it is being deleted, is excluded by a label, or is about to be
 * removed by the autoscaler. Whether it is Ready does not matter: the health checks of the balancer
 * decide that. The set of all eligible nodes is built once and shared by all callers until a node
 * changes; it holds references to snapshots, not copies.
 *
 * Threads: any.
 */
#ifndef CCMD_CONTROLLERS_SERVICE_TARGETS_H
#define CCMD_CONTROLLERS_SERVICE_TARGETS_H

#include "cloud/balancer.h"
#include "kube/node.h"
#include "kube/store.h"

struct targets;

struct targets *targets_new(struct store *nodes);
void targets_free(struct targets *); /* NULL is fine */

/** Drops the shared set. The store's handler must call it after each change of a node. */
void targets_invalidate(struct targets *);

/** May this node be a target of any balancer? */
bool target_is_eligible(const struct node *node);
/** May this change of a node change the targets of a balancer? old or new is NULL for a node that
 * was added or removed. Besides what docs/spec/framework.md, "Targets", names, labels matter where
 * the provider selects nodes by them, and addresses where it uses them. */
bool target_change_matters(const struct node *old, const struct node *new,
                           const struct balancer_ops *ops);

/** The targets of one Service, sorted by name. For CLEANUP(target_list_fini). */
struct target_list {
	struct target_set *set; /* keeps the snapshots */
	struct node_ref *refs;  /* in the arena */
	size_t n;
	/* of names, provider IDs and, where they matter, addresses: equal as long as the targets
	 * are */
	uint64_t hash;
};

void target_list_fini(struct target_list *);
/** The eligible nodes that the provider selects for this Service. spec->nodes need not be set. */
struct target_list targets_select(struct targets *, struct cloud *cloud, const struct lb_spec *spec,
                                  struct arena *arena);

#endif
