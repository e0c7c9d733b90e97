/* base/json.h: reading JSON by path and type together, and writing it.
 *
 * yyjson does the work; this adds paths ("metadata.name"), struct str, 64-bit integers that never
 * pass through a double, and one meaning for null: absent (docs/spec/kube-client.md,
 * "JSON values"). Absent and mistyped are distinct outcomes. Of duplicate keys the last one counts.
 * What was parsed is never deeper than LIMIT_JSON_DEPTH, so it may be walked by recursion.
 */
#ifndef CCMD_BASE_JSON_H
#define CCMD_BASE_JSON_H

#include <yyjson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

enum json_found {
	JSON_ABSENT = 0, /* not there, or null */
	JSON_FOUND,
	JSON_MISTYPED,
};

/** Parses a whole document. The text is only read; the document is yours: yyjson_doc_free().
 * ERR_INVALID with a message that has position and reason, when it is not JSON, too deep, or
 * empty. */
NODISCARD bool json_parse(struct str text, yyjson_doc **ret, struct error *err);
DEFINE_CLEANUP(yyjson_doc, yyjson_doc_free)

/** Walks dots through objects: "metadata.name"; "" is val itself. NULL when absent, null, or a step
 * is not an object. Keys that contain a dot cannot be reached this way: use json_key(). val may be
 * NULL. */
yyjson_val *json_at(yyjson_val *val, const char *path);
yyjson_val *json_key(yyjson_val *obj, struct str key);

/** The view lives as long as the document. May hold NUL bytes. */
enum json_found json_str(yyjson_val *val, const char *path, struct str *ret);
/** A copy in the arena; empty where there is no text. */
struct str json_text_at(struct arena *arena, yyjson_val *val, const char *path);
/** Integers only: 1.0 is mistyped; numbers beyond int64 too. */
enum json_found json_i64(yyjson_val *val, const char *path, int64_t *ret);
enum json_found json_bool(yyjson_val *val, const char *path, bool *ret);
/** An array; *ret is for yyjson_arr_iter. */
enum json_found json_array(yyjson_val *val, const char *path, yyjson_val **ret);
enum json_found json_object(yyjson_val *val, const char *path, yyjson_val **ret);

/** The string's bytes as they are; val must be a string. */
struct str json_text(yyjson_val *val);

/** Appends the value as compact JSON, everything kept that yyjson keeps (numbers beyond 64 bit as
 * raw text). Used to carry what we do not understand. */
void json_add_value(struct buf *b, yyjson_val *val);
/** Appends s as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void json_add_str(struct buf *b, struct str s);
/* Objects and arrays, one call for each part. The buffer's last byte says whether a comma has to
 * stand before the part: none does behind '{', '[', ':' and ',', nor in an empty buffer. So there
 * is no state, and text written by hand may stand between the calls.
 *
 * name is a member's name: ours, nothing in it needs escaping. NULL: an element of an array, or the
 * value behind json_add_name(). */
void json_begin_object(struct buf *b, const char *name);
void json_end_object(struct buf *b);
void json_begin_array(struct buf *b, const char *name);
void json_end_array(struct buf *b);
void json_add_text(struct buf *b, const char *name, struct str text);
/** An array of texts. */
void json_add_texts(struct buf *b, const char *name, const struct str texts[], size_t n);
void json_add_number(struct buf *b, const char *name, int64_t number);
void json_add_flag(struct buf *b, const char *name, bool is_true);
/** A value that is JSON already, or its beginning: the caller appends the rest. */
void json_add_raw(struct buf *b, const char *name, struct str value);
/** A member's name that is not ours; its value follows. */
void json_add_name(struct buf *b, struct str name);

#endif
