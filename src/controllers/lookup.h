/* controllers/lookup.h: asks the cloud about machines, for all callers together.
 *
 * One look runs at a time. Callers that ask meanwhile share the *next* one, and the last answer is
 * reused for callers for whom it is young enough. Each look also asks about the uninitialised nodes
 * of the store. So 5,000 nodes that join together, eight workers and the lifecycle controller cost
 * a few looks, and a provider with a list can answer each with one request.
 *
 * If two nodes have one provider ID, at most one of them is right: both become UNKNOWN here, with a
 * Warning event.
 *
 * Threads: any.
 */
#ifndef CCMD_CONTROLLERS_LOOKUP_H
#define CCMD_CONTROLLERS_LOOKUP_H

#include "cloud/cloud.h"
#include "controllers/event_dedup.h"
#include "kube/store.h"

/* Of work that waits for a look. A cloud's list has a request for each page, one after the other:
 * for 65,000 machines in pages of 50, from a cloud that answers within 0.1 s, they take 130 s. */
enum {
	LOOKUP_WORK_TIMEOUT_S = 600,
};

struct lookup;

struct lookup_config {
	struct cloud *cloud;
	struct store *nodes;
	struct event_dedup *event_dedup;
	struct clock *clock;
	/* each look also asks about uninitialised nodes. Set if the node controller runs, which
	 * will ask about them next */
	bool adds_new_nodes;
};

struct lookup *lookup_new(const struct lookup_config *config);
void lookup_free(struct lookup *); /* NULL is fine */

/** An answer: a reference to a look, and the positions of the caller's nodes in it. For
 * CLEANUP(lookup_result_fini). */
struct lookup_result {
	struct look *look;
	struct arena arena; /* owns index */
	size_t *index;
};

#define LOOKUP_RESULT_INIT ((struct lookup_result){ 0 })
void lookup_result_fini(struct lookup_result *);
/** What was found about the i-th node of the question. */
const struct instance *lookup_result_at(const struct lookup_result *, size_t i);

/** Asks about n nodes, by a look that began at not_before_boot_ns or later.
 *
 * @param ret  LOOKUP_RESULT_INIT
 * @return  false when the look failed as a whole, with the provider's error; ERR_CANCELLED,
 * ERR_TIMEOUT. */
NODISCARD bool lookup_machines(struct lookup *, struct call *, struct node *const nodes[], size_t n,
                               int64_t not_before_boot_ns, struct lookup_result *ret,
                               struct error *err);

/** Drops the answer that is kept for later callers, and frees its memory. */
void lookup_forget(struct lookup *);

#endif
