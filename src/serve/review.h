/* serve/review.h: what is asked of the API server about callers of ours, and what it answers.
 *
 * TokenReview: who is behind this token? SubjectAccessReview: may this user do that?
 * (docs/spec/kube-client.md, "Reviews"). The answer to the first one repeats the token: all memory
 * of ours that held it is wiped.
 */
#ifndef CCMD_SERVE_REVIEW_H
#define CCMD_SERVE_REVIEW_H

#include "base/map.h"
#include "base/ref.h"
#include "base/secret.h"
#include "kube/client.h"
#include "serve/access.h"
#include "serve/digest.h"

enum review_verdict {
	REVIEW_YES,
	REVIEW_NO,
	REVIEW_FAILED, /* nobody could be asked; for who may come in, the same as no */
};

/** What came out: immutable, counted. */
struct review_answer {
	struct ref refs;
	enum review_verdict verdict;
	struct access_user *user; /* of a token: whose it is, if yes */
	char reason[200];         /* of a refusal, in the API server's words; mostly empty */
};

/** Takes over the reference to user, which may be NULL. */
struct review_answer *review_answer_new(enum review_verdict verdict, struct access_user *user,
                                        struct str reason);
struct review_answer *review_answer_ref(struct review_answer *);
/** NULL is fine. */
void review_answer_unref(struct review_answer *);
DEFINE_CLEANUP(struct review_answer, review_answer_unref)

/** Appends the body of a TokenReview. */
void review_add_token(struct buf *, struct str token);
/** Appends the body of a SubjectAccessReview: the same user, verb and path give the same text. */
void review_add_rights(struct buf *, const struct access_user *, struct str verb, struct str path);

/** Reads answers. ERR_INVALID: it is not one, or says what cannot be; nothing in it counts then. */
NODISCARD bool review_read_token(struct str body, struct review_answer **ret, struct error *err);
NODISCARD bool review_read_rights(struct str body, struct review_answer **ret, struct error *err);

/** Asks once. Errors as of http_do() and kube_status_error(), and ERR_INVALID. */
NODISCARD bool review_token(struct kube_client *, struct call *, const struct secret *token,
                            struct review_answer **ret, struct error *err);
NODISCARD bool review_rights(struct kube_client *, struct call *, struct str body,
                             struct review_answer **ret, struct error *err);

/* ---- answers, kept for a while under a digest of the question ---- */

/* At most LIMIT_ACCESS_CACHE of them and LIMIT_ACCESS_CACHE_BYTES in all; the least recently used
 * one is removed first. When its time is over, a yes is stale for as long again: it may be used
 * while it is renewed. All other answers are forgotten.
 * Threads: the owner's lock. */

struct review_entry;

struct review_cache {
	struct map entries;
	struct review_entry *first, *last; /* by use, the latest first */
	size_t bytes;
};

#define REVIEW_CACHE_INIT ((struct review_cache){ .entries = MAP_INIT })

void review_cache_fini(struct review_cache *);
/** A reference of yours, or NULL: not there, or no longer good. */
struct review_answer *review_cache_get(struct review_cache *, const struct digest *, int64_t now_ns,
                                       bool *ret_is_stale);
/** Keeps a reference of its own until then; of no effect if that is not after now. */
void review_cache_put(struct review_cache *, const struct digest *, struct review_answer *,
                      int64_t now_ns, int64_t until_ns);

#endif
