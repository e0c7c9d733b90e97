/* serve/reviewer.h: a thread that asks the API server about callers, and remembers the answers for
 * a while.
 *
 * Whoever asks while the same question is under way shares its answer. A question that found no
 * answer is repeated four times, 500 ms apart and half as long again each time, 10 s in all;
 * meanwhile others have their turn. What failed is not remembered. Tokens are kept as keyed hashes
 * only.
 *
 * Requests with random tokens must not block requests with valid ones. So requests are counted by
 * source: the user once it is known, a token that was valid recently, or else the caller's address
 * (ip_source()). Of one source, LIMIT_SERVER_PER_SOURCE requests may wait; sources take turns; and
 * callers who are not authenticated yet cannot use up all of the waiting places
 * (LIMIT_SERVER_UNAUTHENTICATED). A yes whose time is over may be used while it is renewed, for as
 * long again at most: its caller does not wait, even if an attacker has the same address.
 *
 * Threads: any.
 */
#ifndef CCMD_SERVE_REVIEWER_H
#define CCMD_SERVE_REVIEWER_H

#include "serve/review.h"

struct reviewer;

struct reviewer_config {
	struct kube_client *tokens; /* NULL: tokens are not asked about */
	struct kube_client *rights; /* NULL: rights are not */
	struct clock *clock;
	int64_t token_ttl_ns, authorized_ttl_ns, unauthorized_ttl_ns;
	/* what else the thread does: called at its start and at the time (mono) it returned last;
	 * NULL: nothing */
	int64_t (*upkeep)(void *arg, struct call *);
	void *arg;
};

/** Called once, on the thread; the answer is lent. */
typedef void reviewer_done(void *arg, const struct review_answer *);

enum reviewer_start {
	REVIEWER_KNOWS,       /* *ret is set, a reference of yours */
	REVIEWER_ASKS,        /* done will be called */
	REVIEWER_BUSY,        /* too many requests are waiting */
	REVIEWER_SOURCE_BUSY, /* too many requests of this source are waiting */
};

struct reviewer *reviewer_new(const struct reviewer_config *config);
/** Ends the thread and its request. All waiting callers get REVIEW_FAILED, and so does every later
 * caller, immediately. */
void reviewer_stop(struct reviewer *);
/** After reviewer_stop(). */
void reviewer_free(struct reviewer *);

/** peer: the address of the caller. */
enum reviewer_start reviewer_token(struct reviewer *, struct str peer, struct str token,
                                   struct review_answer **ret, reviewer_done *done, void *arg);
enum reviewer_start reviewer_rights(struct reviewer *, struct str peer, const struct access_user *,
                                    struct str verb, struct str path, struct review_answer **ret,
                                    reviewer_done *done, void *arg);

/** Upkeep is due at that time (mono), if not sooner anyway. */
void reviewer_upkeep_by(struct reviewer *, int64_t mono_ns);

#endif
