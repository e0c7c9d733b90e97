/* controllers/lifecycle/guard.h: may this node be deleted?
 *
 * A node is deleted only on proof (design: Safe by construction, 1). The decision is one pure
 * function of plain values; the history that it needs is another. Neither knows a clock, a cloud or
 * an API server, so both are tested exhaustively.
 *
 * All times are CLOCK_BOOTTIME nanoseconds, unless they are durations.
 */
#ifndef CCMD_CONTROLLERS_LIFECYCLE_GUARD_H
#define CCMD_CONTROLLERS_LIFECYCLE_GUARD_H

#include "cloud/cloud.h"

struct guard_config {
	bool is_enabled; /* false: what the Go controllers do, delete at the first "not found" */
	bool require_witness;
	int64_t confirm_ns;        /* between the starts of two looks that agree; 12 s */
	int64_t min_age_ns;        /* of the node; 60 s */
	int64_t nameless_ns;       /* absent that long where a node has no provider ID; 15 min */
	unsigned breaker_min;      /* so many within the window are never too many; 3 */
	unsigned breaker_percent;  /* nor this share of all nodes; 20 */
	int64_t breaker_window_ns; /* 10 min */
	int64_t breaker_agree_ns; /* looks must have agreed that long when there are too many; 5 min
	                           */
};

enum {
	GUARD_LOOK_S = 65,       /* from one look to the next in the long run */
	GUARD_LOST_LOOK_S = 300, /* the same where no look has a witness */
};

extern const struct guard_config guard_defaults;

/** What one look said of a node that is not Ready. */
struct guard_observation {
	enum presence presence;
	bool has_witness;   /* the same look found the machine of another node of ours, or an anchor
	                     */
	uint64_t heartbeat; /* of the kubelet: a hash of its last heartbeat and of its Lease's
	                       renewTime */
	int64_t started_boot_ns; /* the look */
};

/** What the looks at one node add up to. Zero it when the node becomes Ready, or for a new UID. */
struct guard_track {
	unsigned n_absent;     /* counted looks in a row that said ABSENT */
	int64_t first_boot_ns; /* the first of them */
	int64_t last_boot_ns;  /* the last */
	uint64_t heartbeat;    /* at the first */
	bool lacks_witness;    /* the last ABSENT had none, and was not counted */
	bool has_heartbeat;    /* the kubelet was heard between two of them; counting began anew */
};

void guard_observe(struct guard_track *track, const struct guard_config *config,
                   const struct guard_observation *seen);

/** Everything the decision depends on. */
struct guard_facts {
	bool is_ready;
	bool has_new_heartbeat; /* it changed since track was filled */
	bool is_foreign;        /* the last look said FOREIGN */
	bool has_provider_id;
	bool is_announced; /* somebody said that it goes: deletionTimestamp, or an autoscaler's
	                      taint */
	int64_t age_ns;    /* by the wall clock; negative when ours is behind */
	struct guard_track track;
	unsigned n_nodes; /* of the cluster */
	/* Unannounced ones that were deleted within the window (by us, or possibly by the previous
	 * leader) or are proven absent now, this one included. */
	unsigned n_going;
	int64_t group_first_boot_ns; /* the latest first_boot_ns of those proven absent now */
};

enum guard_outcome {
	GUARD_KEEP, /* nothing speaks for a deletion */
	GUARD_DELETE,
	GUARD_FOREIGN,
	GUARD_UNCONFIRMED, /* absent, but not seen so twice, far enough apart */
	GUARD_NO_WITNESS,
	GUARD_KUBELET_ALIVE,
	GUARD_YOUNG,
	GUARD_NAMELESS,
	GUARD_BREAKER,
	GUARD_N_OUTCOMES,
};

/** Proven by itself, the breaker left aside: outcome is GUARD_DELETE or the first rule that holds
 * it. */
enum guard_outcome guard_prove(const struct guard_config *config, const struct guard_facts *facts);
/** guard_prove(), then the breaker. */
enum guard_outcome guard_decide(const struct guard_config *config, const struct guard_facts *facts);

/** A label value for metrics: "delete", "no_witness", … */
const char *guard_outcome_name(enum guard_outcome);

/** When to look next at a node that is not Ready, as a delay from the look just made: 12 s after an
 * ABSENT that was the first; else 12, 18 and 30 s (that is 12, 30 and 60 s after it became
 * NotReady), then every GUARD_LOOK_S, or GUARD_LOST_LOOK_S while there is no witness. n_looks
 * counts those made. period_ns, when not 0, replaces the steps. */
int64_t guard_next_look_ns(const struct guard_config *config, const struct guard_facts *facts,
                           unsigned n_looks, int64_t period_ns);

#endif
