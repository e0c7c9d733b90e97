/* controllers/lifecycle/internal.h: what the three parts of the lifecycle controller share.
 *
 * lifecycle.c  rounds, candidates, the thread
 * look.c       asking the cloud, witnesses, the heartbeat of the kubelet
 * act.c        taints, deletions, and events that say why not
 */
#ifndef CCMD_CONTROLLERS_LIFECYCLE_INTERNAL_H
#define CCMD_CONTROLLERS_LIFECYCLE_INTERNAL_H

#include <pthread.h>

#include "base/map.h"
#include "base/metrics.h"
#include "controllers/lifecycle/lifecycle.h"
#include "kube/node.h"

#define LIFECYCLE_COMPONENT "cloud-node-lifecycle-controller"

/* After a look or a write that failed. */
#define LIFECYCLE_RETRY_NS (5 * NS_PER_SEC)
#define LIFECYCLE_RETRY_MAX_NS (GUARD_LOOK_S * NS_PER_SEC)

/* The machines that a look asked for as possible witnesses, if it found none of them. */
struct asked_witnesses {
	unsigned n_asked;
	unsigned n_absent; /* of them; whether the others exist is unknown */
};

struct candidate {
	char *uid;           /* owned: the map's key */
	uint64_t round;      /* the last in which its node was there and not Ready */
	int64_t due_mono_ns; /* the next look */
	unsigned n_looks;
	unsigned n_failures;       /* looks that failed, in a row */
	unsigned n_deletes;        /* sent since the proof was complete */
	unsigned n_conflicts;      /* of them, in a row: the node had changed */
	enum presence presence;    /* by the last look */
	bool is_deletion_reported; /* by an event */
	bool is_deleted;           /* its deletion was sent; the store has not heard yet */
	bool is_unfinished;        /* a write after the last look failed: look again soon */
	struct guard_track track;
	struct asked_witnesses asked; /* track.lacks_witness: by the last look */
};

/* A node of this round that is not Ready. */
struct check {
	struct node *node; /* borrowed from the round's list */
	struct candidate *candidate;
};

enum lifecycle_due {
	LIFECYCLE_NONE_DUE,
	LIFECYCLE_FAILED_DUE, /* nodes whose last look failed or left their machine UNKNOWN */
	LIFECYCLE_ALL_DUE,
};

struct lifecycle_controller {
	struct controller_env *env;
	struct lifecycle_config config;
	pthread_t thread;
	pthread_mutex_t mu;
	pthread_cond_t changed;
	_Atomic bool is_working; /* a round is under way */
	bool is_dirty;           /* mu; a node changed, or some are due */
	enum lifecycle_due due;  /* mu; in the next round, whatever their time */
	struct map candidates;   /* the thread's own, as is all below */
	uint64_t n_rounds;
	int64_t *deletions_boot_ns; /* of unannounced nodes, within the breaker's window */
	size_t n_deletions, deletions_cap;
	int64_t began_boot_ns;
	size_t first_witness; /* where in a list of all nodes the search for some begins */
};

/* What one round works on; in the round's arena. */
struct round {
	struct lifecycle_controller *c;
	struct call *call;
	struct store_list all;
	struct check *checks;
	size_t n_checks;
	int64_t group_first_boot_ns; /* guard_facts */
	unsigned n_proven;
	/* Deletions that the previous leader may have made within the breaker's window. */
	unsigned n_assumed;
	bool must_retry; /* a write failed: come back soon, whatever else is due */
};

/** How long to wait after so many attempts in a row: first_ns, doubled up to
 * LIFECYCLE_RETRY_MAX_NS. */
int64_t lifecycle_back_off_ns(int64_t first_ns, unsigned n_attempts);

/** Asks the cloud about the candidates whose check is due, and notes in their tracks what it found.
 * Checks whose look failed are postponed. */
void lifecycle_check_candidates(struct round *r, const struct check *due, size_t n);
/** Acts on what the looks at a check add up to, and says when to look again. */
void lifecycle_decide(struct round *r, const struct check *check);
/** Who else would go, for the breaker: to be called before the first lifecycle_decide() of a
 * round. */
void lifecycle_count_proven(struct round *r);
/** Takes the shutdown taint off a node that is Ready. */
void lifecycle_recovered(struct round *r, const struct node *node);
/** Puts the shutdown taint on a node whose machine is off. */
void lifecycle_sync_shutdown_taint(struct round *r, const struct check *check,
                                   const struct instance *found);

#endif
