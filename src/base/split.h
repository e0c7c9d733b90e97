/* base/split.h: splits a stream of JSON into the elements of one array, without storing the whole.
 *
 * The response to a list request is {"kind":…,"metadata":{…},"items":[ {…}, {…}, … ]}; 5,000 nodes
 * take 60 MB. The splitter is fed the bytes as they arrive. It hands out each element of the
 * top-level member `items` as soon as its last byte has arrived, and collects all other top-level
 * members into one small object, the head, which the caller reads at the end. The splitter only
 * counts brackets and strings: the parser of an element decides whether it is valid JSON. An
 * element may be any value. A missing array, or null in its place, has no elements; any other value
 * in its place, or a second array, is refused.
 *
 * Memory: one element (LIMIT_JSON_ITEM) and the head (LIMIT_JSON_HEAD), whatever the input.
 *
 * Threads: a splitter has no lock; one thread uses it at a time.
 */
#ifndef CCMD_BASE_SPLIT_H
#define CCMD_BASE_SPLIT_H

#include "base/buf.h"
#include "base/error.h"

struct json_split;

/** items: the name of the array, which must outlive the splitter. max_item_bytes: the largest size
 * of one element. */
struct json_split *json_split_new(struct str items, size_t max_item_bytes);
void json_split_free(struct json_split *);
DEFINE_CLEANUP(struct json_split, json_split_free)

/** Processes bytes and calls each() once for each element that ends in them, with a view that is
 * valid during the call only. Returns false when each() returns false (with its error), or with
 * ERR_INVALID when the input cannot be a JSON object, when an element or the head is too large, or
 * when a value is nested deeper than LIMIT_JSON_DEPTH. After a failure every further call fails.
 *
 * Cost: an element that lies within `bytes` is not copied. */
NODISCARD bool json_split_feed(struct json_split *, struct str bytes,
                               bool (*each)(void *arg, struct str item, struct error *err),
                               void *arg, struct error *err);

/** Must be called at the end of the stream. Returns false with ERR_INVALID when the object is not
 * complete. *ret_head is the top-level object without the elements of the array ("items":[]); the
 * splitter owns it. */
NODISCARD bool json_split_end(struct json_split *, struct str *ret_head, struct error *err);

#endif
