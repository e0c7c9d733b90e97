/* controllers/lifecycle/guard.h: may this node be deleted?
 *
 * A node is deleted only on proof: two looks at the cloud, some time apart, must agree that its
 * machine is gone, a witness must show that the cloud's answer is about the right project, and its
 * kubelet must be silent meanwhile. docs/deletion.md lists the rules. The decision is a pure
 * function of plain values (guard_decide()), and so is the history that it needs (guard_observe()).
 * Neither knows a clock, a cloud or an API server, so both are tested exhaustively.
 *
 * All times are CLOCK_BOOTTIME nanoseconds, unless they are durations.
 */
#ifndef CCMD_CONTROLLERS_LIFECYCLE_GUARD_H
#define CCMD_CONTROLLERS_LIFECYCLE_GUARD_H

#include "cloud/cloud.h"

struct guard_config {
	/* false: as in the Go controllers, one look without the machine is enough */
	bool is_enabled;
	bool require_witness;
	int64_t confirm_ns;  /* the least time between the starts of two looks that agree; 12 s */
	int64_t min_age_ns;  /* the least age of a node; 60 s */
	int64_t nameless_ns; /* how long a node without a provider ID must be absent; 15 min */
	/* up to this number of deletions within the window is never too many; 3 */
	unsigned breaker_min;
	unsigned breaker_percent;  /* neither is up to this share of all nodes; 20 */
	int64_t breaker_window_ns; /* 10 min */
	/* too many deletions wait until looks have agreed for this long; 5 min */
	int64_t breaker_agree_ns;
};

enum {
	GUARD_LOOK_S = 65,       /* from one look to the next, in the long run */
	GUARD_LOST_LOOK_S = 300, /* the same, while looks have no witness */
};

extern const struct guard_config guard_defaults;

/** What one look found out about a node that is not Ready. */
struct guard_observation {
	enum presence presence;
	/* the same look found the machine of another node of the cluster, or an anchor */
	bool has_witness;
	/* of the kubelet: a hash of its last heartbeat and of the renewTime of its Lease */
	uint64_t heartbeat;
	int64_t started_boot_ns; /* when the look began */
};

/** What the looks at one node so far add up to. Must be zeroed when the node becomes Ready, and for
 * a node with another UID. */
struct guard_track {
	unsigned n_absent;     /* ABSENT answers in a row that count */
	int64_t first_boot_ns; /* when the look of the first of them began */
	int64_t last_boot_ns;  /* and that of the last */
	uint64_t heartbeat;    /* as of the first */
	bool lacks_witness;    /* the last ABSENT had no witness, and does not count */
	bool has_heartbeat; /* the kubelet reported between two of them, so counting began again */
};

/** Adds one look to the track. */
void guard_observe(struct guard_track *track, const struct guard_config *config,
                   const struct guard_observation *seen);

/** Everything the decision depends on. */
struct guard_facts {
	bool is_ready;
	bool has_new_heartbeat; /* the heartbeat changed after the last look */
	bool is_foreign;        /* the last look answered FOREIGN */
	bool has_provider_id;
	/* its removal was announced: by a deletionTimestamp, or by the taint of an autoscaler */
	bool is_announced;
	int64_t age_ns; /* by the wall clock; negative if our clock is behind the API server's */
	struct guard_track track;
	unsigned n_nodes; /* in the cluster */
	/* Nodes without an announcement that were deleted within the window (by us, or possibly by
	 * the previous leader) or are proven absent now, including this node. */
	unsigned n_going;
	/* the latest first_boot_ns of the nodes that are proven absent now */
	int64_t group_first_boot_ns;
};

enum guard_outcome {
	GUARD_KEEP, /* the machine is not absent, or the node is Ready */
	GUARD_DELETE,
	GUARD_FOREIGN,
	GUARD_UNCONFIRMED, /* absent, but not in two looks that are far enough apart */
	GUARD_NO_WITNESS,
	GUARD_KUBELET_ALIVE,
	GUARD_YOUNG,
	GUARD_NAMELESS,
	GUARD_BREAKER,
	GUARD_N_OUTCOMES,
};

/** Is the absence of this machine proven? Ignores the breaker, which depends on other nodes.
 * Returns GUARD_DELETE or the first rule that is against it. */
enum guard_outcome guard_prove(const struct guard_config *config, const struct guard_facts *facts);
/** The decision: guard_prove(), then the breaker. */
enum guard_outcome guard_decide(const struct guard_config *config, const struct guard_facts *facts);

/** Returns the earliest time at which the node is deleted if from now on every look finds a witness
 * and not the machine, and the kubelet is silent. CLOCK_FOREVER: looks like the last one never lead
 * to a deletion. */
int64_t guard_not_before_ns(const struct guard_config *config, const struct guard_facts *facts,
                            int64_t now_boot_ns);

/** A label value for metrics: "delete", "no_witness", … */
const char *guard_outcome_name(enum guard_outcome);

/** Returns the delay until the next look at a node that is not Ready. After an ABSENT that has to
 * be confirmed it is confirm_ns; else 12, 18 and 30 s (that is 12, 30 and 60 s after the node
 * became NotReady), then GUARD_LOOK_S, or GUARD_LOST_LOOK_S while no witness is found. n_looks:
 * looks so far. period_ns, if not 0, replaces these steps. */
int64_t guard_next_look_ns(const struct guard_config *config, const struct guard_facts *facts,
                           unsigned n_looks, int64_t period_ns);

#endif
