/* serve/review_cache.h: answers, kept for a while under a digest of the question.
 *
 * At most LIMIT_ACCESS_CACHE of them and LIMIT_ACCESS_CACHE_BYTES in all; the least recently used one is removed first. When
 * its time is over, a yes is stale for as long again: it may be used while it is renewed. All other answers are forgotten.
 *
 * Threads: the owner's lock.
 */
#ifndef CCMD_SERVE_REVIEW_CACHE_H
#define CCMD_SERVE_REVIEW_CACHE_H

#include "base/map.h"
#include "serve/review.h"
#include "serve/digest.h"

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
