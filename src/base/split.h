/* base/split.h: cuts a stream of JSON into the elements of one array, without keeping the rest.
 *
 * A list answer is {"kind":…,"metadata":{…},"items":[ {…}, {…}, … ]}; 5,000 nodes are 60 MB of it.
 * The splitter is fed the bytes as they arrive and hands out each element of the top-level member
 * `items` as soon as its last byte is there; all other top-level members are collected into one
 * small object, the head, for the caller to read at the end. It only counts brackets and strings:
 * whether an element is valid JSON is for its parser to say. An element may be any value. Without
 * the array, or with null in its place, there are no elements; anything else in its place, or a
 * second array, is refused.
 *
 * Memory: one element (LIMIT_JSON_ITEM) and the head (LIMIT_JSON_HEAD), whatever comes in.
 */
#ifndef CCMD_BASE_SPLIT_H
#define CCMD_BASE_SPLIT_H

#include "base/buf.h"
#include "base/error.h"

struct json_split;

/** items: the name of the array, which must outlive the splitter; max_item_bytes: the most one
 * element may have. */
struct json_split *json_split_new(struct str items, size_t max_item_bytes);
void json_split_free(struct json_split *);
DEFINE_CLEANUP(struct json_split, json_split_free)

/** Takes bytes and calls each() once per element that ends in them, with a view that is valid
 * during the call only. Stops and returns false when each() returns false (with its error) or with
 * ERR_INVALID when this cannot be a JSON object, an element or the head is larger than allowed, or
 * one of their values is nested deeper than LIMIT_JSON_DEPTH. After that every call fails.
 *
 * Cost: an element that lies within `bytes` is not copied. */
NODISCARD bool json_split_feed(struct json_split *, struct str bytes,
                               bool (*each)(void *arg, struct str item, struct error *err),
                               void *arg, struct error *err);

/** To be called at the end of the stream: false with ERR_INVALID when the object is not complete.
 * *ret_head is the top-level object without the array's elements ("items":[]); owned by the
 * splitter. */
NODISCARD bool json_split_end(struct json_split *, struct str *ret_head, struct error *err);

#endif
