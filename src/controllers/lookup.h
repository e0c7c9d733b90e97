/* controllers/lookup.h: questions to the cloud about machines, of all callers together.
 *
 * One look runs at a time. Callers that ask meanwhile share the *next* one, and an answer that is
 * young enough for its caller is handed out again. Uninitialised nodes of the store are added to
 * each look. So 5,000 nodes that join together, eight workers and the lifecycle controller cost a
 * handful of looks, and a provider with a list can answer each with one request.
 *
 * Two nodes with one provider ID cannot both be right: both become UNKNOWN here, with a Warning
 * event.
 *
 * Threads: any.
 */
#ifndef CCMD_CONTROLLERS_LOOKUP_H
#define CCMD_CONTROLLERS_LOOKUP_H

#include "cloud/cloud.h"
#include "controllers/event_dedup.h"
#include "kube/store.h"

struct lookup;

struct lookup_config {
	struct cloud *cloud;
	struct store *nodes;
	struct event_dedup *event_dedup;
	struct clock *clock;
	bool adds_new_nodes; /* to each look: the node controller runs, and asks for uninitialised
	                        nodes next */
};

struct lookup *lookup_new(const struct lookup_config *config);
void lookup_free(struct lookup *); /* NULL is fine */

/** An answer: a reference to a look, and where in it the caller's nodes are. For
 * CLEANUP(look_answer_fini). */
struct look_answer {
	struct look *look;
	struct arena arena; /* owns index */
	size_t *index;
	size_t n;
};

#define LOOK_ANSWER_INIT ((struct look_answer){ 0 })
void look_answer_fini(struct look_answer *);
/** What was found of the i-th node asked for. */
const struct instance *look_answer_at(const struct look_answer *, size_t i);

/** Finds out about n nodes, by a look that started at or after not_before_boot_ns.
 *
 * @param ret  LOOK_ANSWER_INIT
 * @return  false when the look failed as a whole, with the provider's error; ERR_CANCELLED,
 * ERR_TIMEOUT. */
NODISCARD bool lookup_ask(struct lookup *, struct call *, struct node *const nodes[], size_t n,
                          int64_t not_before_boot_ns, struct look_answer *ret, struct error *err);

/** Drops the answer that is kept for later askers, and its memory. */
void lookup_forget(struct lookup *);

#endif
