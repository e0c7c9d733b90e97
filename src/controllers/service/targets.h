/* controllers/service/targets.h: the nodes behind load balancers (docs/spec/framework.md,
 * "Targets").
 *
 * A node is eligible unless it is being deleted, is excluded by label, or about to be removed by
 * the autoscaler. Whether it is Ready does not matter: that is what the balancer's health checks
 * are for. The set of all eligible nodes is made once and shared by all who ask until a node
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

/** The store's handler must call this after each change of a node. */
void targets_invalidate(struct targets *);

/** May that node be a target of any balancer? */
bool target_is_eligible(const struct node *node);
/** Do balancers have to be asked whether their targets changed? NULL: there was, or is, no such
 * node. docs/spec/framework.md, "Targets"; and labels where the provider selects nodes by them,
 * addresses where it uses them. */
bool target_change_matters(const struct node *old, const struct node *new,
                           const struct balancer_ops *ops);

/** The eligible nodes, sorted by name, as one Service gets them. For CLEANUP(target_list_fini). */
struct target_list {
	struct target_set *set; /* keeps the snapshots */
	struct node_ref *refs;  /* in the arena */
	size_t n;
	uint64_t hash; /* of names and provider IDs, and addresses: equal as long as the targets are
	                */
};

void target_list_fini(struct target_list *);
/** spec->nodes need not be set. */
struct target_list targets_select(struct targets *, struct cloud *cloud, const struct lb_spec *spec,
                                  struct arena *arena);

#endif
