/* controllers/lifecycle/internal.h: what the files of the lifecycle controller share.
 *
 * lifecycle.c  candidates, rounds, the thread; calls the others
 * look.c       what is asked of the cloud, witnesses, the kubelet's heartbeat; calls act.c
 * foresee.c    the decision without a history, for commands; calls look.c
 * act.c        taints, deletions, and the events that say why a node is not deleted
 *
 * A *candidate* is the memory of one node that is not Ready: it lives as long as the node stays not
 * Ready, and is found by UID, because a node that is created again under the same name is another
 * node. A *check* is a candidate together with the node as one *round* sees it.
 *
 * Threads: everything runs on the controller's thread, except what a comment marks otherwise.
 */
#ifndef CCMD_CONTROLLERS_LIFECYCLE_INTERNAL_H
#define CCMD_CONTROLLERS_LIFECYCLE_INTERNAL_H

#include <pthread.h>

#include "base/map.h"
#include "base/metrics.h"
#include "controllers/lifecycle/lifecycle.h"
#include "kube/node.h"

#define LIFECYCLE_COMPONENT "cloud-node-lifecycle-controller"

/* How long to wait after a look or a write that failed: at first, and at most. */
#define LIFECYCLE_RETRY_NS (5 * NS_PER_SEC)
#define LIFECYCLE_RETRY_MAX_NS (GUARD_LOOK_S * NS_PER_SEC)

/* How many machines a look asked for as possible witnesses. Used only if it found none of them, by
 * the event that says why a node is not deleted. */
struct asked_witnesses {
	unsigned n_asked;
	unsigned n_absent; /* of n_asked; whether the others exist is unknown */
};

/* What one look at nodes found out about the witnesses among them. */
struct witnesses {
	struct cloud *cloud;
	const struct store_list *all; /* the nodes of the cluster */
	const struct look *look;      /* for its anchors */
	struct {
		unsigned n_asked, n_absent, n_present;
	} realms[CLOUD_REALMS_MAX];
};

enum witness {
	WITNESS_MISSING,
	WITNESS_FOUND,
	WITNESS_UNKNOWN, /* there may be an anchor, but the cloud could not find that out */
};

/* What is known about a candidate, and other threads may see. */
struct candidate_state {
	int64_t due_mono_ns; /* when the next look is due */
	unsigned n_looks;
	unsigned n_failures;    /* looks that failed, in a row */
	enum presence presence; /* as the last look found it */
	int64_t looked_boot_ns; /* when that look began */
	/* the decision after it */
	enum guard_outcome outcome;
	const char *hold_reason;
	int64_t deletable_boot_ns;
	bool is_deleted; /* the API server accepted a DELETE; the watch has not shown it yet */
	struct guard_track track;
	uint64_t heartbeat; /* of the node's status, as of the last look that reported ABSENT */
};

struct candidate {
	struct str uid;
	uint64_t round; /* the last round in which the node existed and was not Ready */
	struct candidate_state now;
	struct candidate_state shown; /* mu; after the last round */
	unsigned n_deletes;           /* DELETE requests since the proof was complete */
	unsigned n_conflicts;         /* of these requests, in a row: the node had changed */
	bool is_deletion_reported;    /* by an event */
	bool is_counted;              /* the breaker counts it as deleted */
	bool has_conflicted; /* a DELETE that the breaker has to count, if it was executed */
	bool is_unfinished;  /* a write failed or has to wait, so the next look comes soon */
	/* by the last look with an absence; for track.lacks_witness */
	struct asked_witnesses asked;
};

/* A node that is not Ready, in this round. */
struct node_check {
	struct node *node; /* a snapshot, borrowed from the round's list */
	struct candidate *candidate;
};

struct lifecycle_controller {
	struct controller_env *env;
	struct lifecycle_config config;
	pthread_t thread;
	pthread_mutex_t mu;
	pthread_cond_t changed;
	_Atomic bool is_working; /* a round is running; for other threads */
	bool is_dirty;           /* mu; a round is wanted now */
	enum lifecycle_due due;  /* mu; for the next round */
	/* struct candidate. Only the thread changes it, with mu held. All below belongs to the
	 * thread, as do the candidates except what they show. */
	struct map candidates;
	uint64_t n_rounds;
	/* when unannounced nodes were deleted, within the breaker's window */
	int64_t *deletions_boot_ns;
	size_t n_deletions, deletions_cap;
	int64_t began_boot_ns;
	size_t first_witness; /* where in the list of all nodes the search for witnesses begins */
};

/* What one round works on. All memory is in the round's arena. */
struct round {
	struct lifecycle_controller *c;
	struct call *call;
	struct store_list all;
	struct node_check *checks;
	size_t n_checks;
	int64_t group_first_boot_ns; /* guard_facts */
	unsigned n_proven;
	/* Deletions that the previous leader may have made within the breaker's window. */
	unsigned n_assumed;
	bool must_retry; /* a write failed: the next round comes soon, whatever else is due */
};
/** Counts a node that the look has asked for. */
void lifecycle_add_witness(struct witnesses *, const struct node *, const struct instance *found);
/** Is there a witness for the absence of this machine, which was looked for in that realm? The node
 * is one of those that were counted. */
enum witness lifecycle_find_witness(const struct witnesses *, const struct node *absent,
                                    unsigned realm, struct asked_witnesses *ret);
/** Asks the cloud about the machines of the checks in due[], and notes in the candidates what it
 * answered. Checks whose look failed are postponed: their due_mono_ns is in the future afterwards.
 */
void lifecycle_check_candidates(struct round *r, const struct node_check *due, size_t n);
/** Decides by the looks so far about the node, acts on it, and sets the time of the next look. */
void lifecycle_decide(struct round *r, const struct node_check *check);
/** Counters exist from the start: Prometheus sees no increase in one that appears with 1. */
void lifecycle_start_counters(void);
/** Counts the nodes that would be deleted in this round, for the breaker. Must be called before the
 * first lifecycle_decide() of a round. */
void lifecycle_count_proven(struct round *r);
/** Removes the shutdown taint, if it has it, from a node that is Ready. */
void lifecycle_remove_shutdown_taint(struct round *r, const struct node *node);
/** Adds the shutdown taint. */
void lifecycle_add_shutdown_taint(struct round *r, const struct node_check *check);

#endif
