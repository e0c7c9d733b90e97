/* cloud/refusals.h: requests that the cloud has refused, so that they are not sent again and again.
 *
 * A request that was refused because of what it asks for is refused again until something changes.
 * For each pair of an object and a kind of request, the last refusal is stored with a hash of what
 * the object looked like. It is valid until the object looks different or credentials are replaced,
 * because the new ones may be those of another project, and for at most an hour, because what the
 * cloud allows may change without us (a quota, a repaired machine). A provider asks with
 * refusals_find() before it sends a request, and stores the refusal with refusals_note():
 *
 * 	if (refusals_find(b->refusals, object, "add_target", looks, err))
 * 		return false;
 * 	if (!send(..., err)) {
 * 		if (err->code == ERR_INVALID)
 * 			refusals_note(b->refusals, object, "add_target", looks, err);
 * 		return false;
 * 	}
 *
 * The object is the one on which the refusal depends. If the cloud refuses a machine, that is the
 * machine with the network, not the Service: then no other Service repeats the attempt.
 *
 * Only refusals are stored: outages, rate limits, and resources that are busy end by themselves.
 *
 * When LIMIT_REFUSALS pairs are stored and valid, further ones are not stored, so that many broken
 * objects cannot displace each other and be tried again all the time.
 *
 * Threads: any.
 */
#ifndef CCMD_CLOUD_REFUSALS_H
#define CCMD_CLOUD_REFUSALS_H

#include "base/clock.h"
#include "base/error.h"
#include "base/macros.h"
#include "base/str.h"

struct refusals;

struct refusals *refusals_new(struct clock *clock);
void refusals_free(struct refusals *); /* NULL is fine */
DEFINE_CLEANUP(struct refusals, refusals_free)

/** Was that kind of request refused for the object within the last hour, and does the object still
 * look the same?
 *
 * @param object  a UID, or a text made of ids; copied when a refusal is stored
 * @param kind    "add_target"; a literal
 * @param looks   a hash (str_hash()) of what is asked for and of what the object looks like
 * @param ret     set if the result is true: the refusal, with retry_after_ms as the time that it is
 *                still valid
 */
bool refusals_find(struct refusals *, struct str object, const char *kind, uint64_t looks,
                   struct error *ret);
/** Stores a refusal, in place of an earlier one of the same object and kind. */
void refusals_note(struct refusals *, struct str object, const char *kind, uint64_t looks,
                   const struct error *refusal);
/** The object does not exist any more, or the request has succeeded. */
void refusals_forget(struct refusals *, struct str object, const char *kind);
/** The number of refusals that are stored. */
size_t refusals_count(struct refusals *);

#endif
