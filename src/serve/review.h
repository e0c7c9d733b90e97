/* serve/review.h: reviews of the server's callers by the API server, and a cache of its answers.
 *
 * A TokenReview asks whose token it is, a SubjectAccessReview whether a user may do something
 * (docs/spec/kube-client.md, "Reviews"). The answer to a TokenReview repeats the token, so all
 * memory that held an answer is wiped.
 */
#ifndef CCMD_SERVE_REVIEW_H
#define CCMD_SERVE_REVIEW_H

#include <sys/queue.h>

#include "base/map.h"
#include "base/ref.h"
#include "base/secret.h"
#include "kube/client.h"
#include "serve/access.h"

/* Where reviews are requested. */
#define REVIEW_TOKEN_TARGET "/apis/authentication.k8s.io/v1/tokenreviews"
#define REVIEW_ACCESS_TARGET "/apis/authorization.k8s.io/v1/subjectaccessreviews"

enum review_verdict {
	REVIEW_YES,
	REVIEW_NO,
	REVIEW_FAILED, /* the API server could not be asked; the caller is refused, as with no */
};

/** The result of a review: immutable, reference-counted. */
struct review_answer {
	struct ref refs;
	enum review_verdict verdict;
	struct access_user *user; /* REVIEW_YES of a token: its owner; else NULL */
	char reason[200];         /* why not, in the API server's words; mostly empty */
};

/** Takes over the reference to user, which may be NULL. */
struct review_answer *review_answer_new(enum review_verdict verdict, struct access_user *user,
                                        struct str reason);
/** NULL is fine. */
void review_answer_unref(struct review_answer *);
DEFINE_CLEANUP(struct review_answer, review_answer_unref)

/** Appends the body of a TokenReview. */
void review_add_token(struct buf *, struct str token);
/** Appends the body of a SubjectAccessReview: the same user, verb and path give the same text. */
void review_add_rights(struct buf *, const struct access_user *, struct str verb, struct str path);

/** Read answers. ERR_INVALID: the body is no answer, or contradicts itself: all is ignored. */
NODISCARD bool review_read_token(struct str body, struct review_answer **ret, struct error *err);
NODISCARD bool review_read_rights(struct str body, struct review_answer **ret, struct error *err);

/** Send one request each. Errors of http_do() and kube_status_error(), and ERR_INVALID. */
NODISCARD bool review_token(struct kube_client *, struct call *, const struct secret *token,
                            struct review_answer **ret, struct error *err);
NODISCARD bool review_rights(struct kube_client *, struct call *, struct str body,
                             struct review_answer **ret, struct error *err);

/* ---- keyed hashes, which recognise a secret without keeping it ---- */

/* HMAC-SHA256 with a key of this process: a hash from a core file cannot be compared with anything
 * elsewhere, and without the key it is not possible to construct two texts that collide. Threads:
 * any. */

enum {
	DIGEST_SIZE = 32,
};

struct digest_key {
	unsigned char bytes[DIGEST_SIZE];
};

struct digest {
	unsigned char bytes[DIGEST_SIZE];
};

/** A random key. */
void digest_key_init(struct digest_key *);
/** Wipes it. */
void digest_key_fini(struct digest_key *);

struct digest digest_of(const struct digest_key *, struct str text);
/** Its bytes, as the key of a struct map; lives as long as *d. */
struct str digest_str(const struct digest *d);

/* ---- answers, kept for a while under a digest of the question ---- */

/* At most LIMIT_ACCESS_CACHE of them and LIMIT_ACCESS_CACHE_BYTES in all; the least recently used
 * one is removed first. When its time is over, a yes is stale for as long again: it may be used
 * while it is renewed. All other answers are forgotten.
 * Threads: the owner's lock. */

struct review_entry;

struct review_cache {
	struct map entries;
	TAILQ_HEAD(review_line, review_entry) line; /* by use, the latest first */
	size_t bytes;
};

#define REVIEW_CACHE_INIT(cache) \
	((struct review_cache){ .entries = MAP_INIT, .line = TAILQ_HEAD_INITIALIZER((cache).line) })

void review_cache_fini(struct review_cache *);
/** A reference for the caller, or NULL: no answer is cached, or it has expired. */
struct review_answer *review_cache_get(struct review_cache *, const struct digest *, int64_t now_ns,
                                       bool *ret_is_stale);
/** Keeps a reference of its own until until_ns; without effect if that is not after now_ns. */
void review_cache_put(struct review_cache *, const struct digest *, struct review_answer *,
                      int64_t now_ns, int64_t until_ns);

#endif
