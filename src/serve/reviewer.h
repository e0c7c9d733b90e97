/* serve/reviewer.h: a thread that asks the API server about callers, and caches the answers.
 *
 * Requests with the same question share one review. A review without an answer is repeated up to
 * four times, first after 500 ms, then after half as long again each time, within 10 s in all;
 * meanwhile other questions have their turn. Failures are not cached. Tokens are kept as keyed
 * hashes only.
 *
 * Requests with random tokens must not block requests with valid ones. So requests are counted by
 * source: the user once it is known, a token that was valid recently, or else the caller's address
 * (ip_source()). LIMIT_SERVER_PER_SOURCE requests of one source may wait; sources take turns; and
 * callers that are not authenticated yet cannot use up all waiting places
 * (LIMIT_SERVER_UNAUTHENTICATED). A positive answer that has expired may be used while it is
 * renewed, for the same time again at most: its caller does not wait, even if an attacker has the
 * same address.
 *
 * Threads: any.
 */
#ifndef CCMD_SERVE_REVIEWER_H
#define CCMD_SERVE_REVIEWER_H

#include "serve/review.h"

struct reviewer;

struct reviewer_config {
	struct kube_client *tokens; /* for TokenReview; NULL: none */
	struct kube_client *rights; /* for SubjectAccessReview; NULL: none */
	struct clock *clock;
	int64_t token_ttl_ns, authorized_ttl_ns, unauthorized_ttl_ns;
	/* Other work of the thread, may be NULL. Called at its start, and then at the time (mono)
	 * that the last call returned. */
	int64_t (*upkeep)(void *arg, struct call *);
	void *arg;
};

/** Called once, on the review thread; the answer is borrowed. */
typedef void reviewer_done(void *arg, const struct review_answer *);

enum reviewer_start {
	REVIEWER_KNOWS,       /* *ret is set; the caller owns the reference */
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

/** Calls upkeep at that time (mono), unless it is due earlier. */
void reviewer_upkeep_by(struct reviewer *, int64_t mono_ns);

#endif
