/* controllers/lifecycle/lifecycle.h: the cloud node lifecycle controller, for nodes whose machine
 * is shut down or gone.
 *
 * The cloud is asked only about nodes that are not Ready. A node whose machine is shut down gets
 * the shutdown taint, which is removed when the node is Ready again. A node whose machine is gone
 * is deleted, on proof (controllers/lifecycle/guard.h). A node is looked at when it becomes
 * NotReady, 12, 30 and 60 s after that, then every 65 s; all nodes that are due at the same time
 * share one question to the cloud. Once a machine seems absent, the same question asks for machines
 * of other nodes, as witnesses.
 *
 * Threads: the controller has one of its own; all functions may be called from any thread.
 */
#ifndef CCMD_CONTROLLERS_LIFECYCLE_LIFECYCLE_H
#define CCMD_CONTROLLERS_LIFECYCLE_LIFECYCLE_H

#include "controllers/env.h"
#include "controllers/lifecycle/guard.h"

struct node;
struct lifecycle_controller;

struct lifecycle_config {
	struct guard_config guard;
	/* --node-monitor-period: from one look to the next; 0: the steps above */
	int64_t period_ns;
	/* The previous leader may have crashed right after it deleted nodes, so the breaker begins
	 * as if breaker_min nodes had just been deleted. */
	bool may_follow_crash;
};

/** Subscribes to the store and starts the thread, which waits until the store has synced. Must be
 * called before the reflector starts, so that no change is missed. */
struct lifecycle_controller *lifecycle_controller_new(struct controller_env *env,
                                                      const struct lifecycle_config *config);
/** Which nodes that are not Ready the next round looks at although their time has not come. */
enum lifecycle_due {
	LIFECYCLE_NONE_DUE,
	/* those whose last look failed or left their machine UNKNOWN: an API of the cloud is
	 * available again */
	LIFECYCLE_FAILED_DUE,
	LIFECYCLE_ALL_DUE, /* something changed in the cloud */
};

/** Makes the next round come now. */
void lifecycle_controller_wake(struct lifecycle_controller *, enum lifecycle_due due);

/** A node that is not Ready, as the last look at it left it. The times are relative to the call. */
struct lifecycle_candidate {
	struct str name, uid;
	enum presence presence; /* of its machine */
	enum guard_outcome outcome;
	const char *hold_reason; /* completes "its machine is gone, but"; NULL: it is not held */
	unsigned n_looks;
	unsigned n_failures;     /* looks in a row that failed since */
	unsigned n_absent;       /* looks in a row that count for the deletion */
	bool is_deleted;         /* the API server has accepted the deletion */
	int64_t looked_ago_ns;   /* since the start of the last look that did not fail */
	int64_t absent_for_ns;   /* since the first of n_absent looks; 0 if there is none */
	int64_t next_look_in_ns; /* 0: it is due */
	int64_t deletable_in_ns; /* guard_not_before_ns(); CLOCK_FOREVER: as there */
};

/** The nodes that were looked at since they are not Ready, in no particular order. All is allocated
 * in the arena. */
size_t lifecycle_controller_candidates(struct lifecycle_controller *, struct arena *,
                                       struct lifecycle_candidate **ret);
/** The one with that name; false: no such node was looked at. */
bool lifecycle_controller_candidate(struct lifecycle_controller *, struct arena *, struct str name,
                                    struct lifecycle_candidate *ret);

/* ---- the decision without a history, for commands that change nothing (operator/) ---- */

/** A cluster as a command sees it. */
struct lifecycle_view {
	const struct guard_config *guard;
	struct cloud *cloud;
	struct kube_client *kube;
	const struct store_list *nodes; /* all of them */
	const struct look *look;        /* at all of them, index by index */
	int64_t now_wall_ns;
};

/** What is against the deletion of a node that is not Ready and whose machine is absent, in the
 * best case: an earlier look, as far back as it must be, found the same. */
struct lifecycle_foresight {
	size_t node; /* its index */
	enum guard_outcome outcome;
	unsigned n_others;     /* nodes whose machine could be a witness */
	unsigned n_going;      /* nodes that would be deleted together */
	int64_t renewed_ago_s; /* since its kubelet renewed its Lease; INT64_MAX: it has none */
};

/** Decides about all such nodes except new ones. The Lease of each is read, up to a bound. False:
 * there are further ones, and *err says why nothing is known about them. */
NODISCARD bool lifecycle_foresee(const struct lifecycle_view *, struct call *,
                                 struct lifecycle_foresight **ret, size_t *ret_n,
                                 struct error *err);

/** Finds when the kubelet of the node last renewed its Lease, as it says itself; empty: there is no
 * Lease, or it may not be read, and then only the status of the node counts. Any other failure is
 * an error, because it is then unknown whether the kubelet is silent. */
NODISCARD bool lifecycle_read_renewal(struct kube_client *, struct call *, const struct node *,
                                      struct str *ret, struct error *err);

/** For use after the cancel token has fired: is a round running, so that the API server or the
 * cloud may still execute a request of it? */
bool lifecycle_controller_is_working(const struct lifecycle_controller *);
/** Joins the thread; the cancel token must have fired. NULL is fine. */
void lifecycle_controller_free(struct lifecycle_controller *);

#endif
