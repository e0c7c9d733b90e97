/* base/json.h: reads JSON by path and type in one call, and writes it.
 *
 * The parser is yyjson. This module adds paths ("metadata.name"), struct str, 64-bit integers that
 * never pass through a double, and one meaning of null: absent (docs/spec/kube-client.md, "JSON
 * values"). Absent and mistyped are distinct results. The last one of duplicate keys counts. A
 * parsed document is never deeper than LIMIT_JSON_DEPTH, so it can be walked by recursion.
 *
 * Threads: every function may be called from any thread; a document and a buffer have no lock, and
 * several threads may read a document at the same time.
 */
#ifndef CCMD_BASE_JSON_H
#define CCMD_BASE_JSON_H

#include <yyjson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

enum json_found {
	JSON_ABSENT = 0, /* missing, or null */
	JSON_FOUND,
	JSON_MISTYPED,
};

/** Parses a whole document. The text is not modified. The caller owns the document and releases it
 * with yyjson_doc_free(). Fails with ERR_INVALID when the text is not JSON, too deep or
 * empty; the message contains position and reason. */
NODISCARD bool json_parse(struct str text, yyjson_doc **ret, struct error *err);
/** The same for an answer of a cloud. Fails also when it has more than LIMIT_JSON_VALUES values, or
 * all its arrays together have more than LIMIT_CLOUD_ELEMENTS elements, so a reader may allocate
 * memory for each of them. */
NODISCARD bool json_parse_answer(struct str text, yyjson_doc **ret, struct error *err);
DEFINE_CLEANUP(yyjson_doc, yyjson_doc_free)

/** Follows a path of object keys separated by dots: "metadata.name"; "" is val itself. Returns NULL
 * when the value is absent or null, or when a step is not an object. Keys that contain a dot
 * cannot be reached this way: use json_key(). val may be NULL. */
yyjson_val *json_at(yyjson_val *val, const char *path);
yyjson_val *json_key(yyjson_val *obj, struct str key);

/** The view is valid as long as the document. It may contain NUL bytes. */
enum json_found json_str(yyjson_val *val, const char *path, struct str *ret);
/** Returns a view; empty when the value is not a text. */
struct str json_view(yyjson_val *val, const char *path);
/** Returns a copy in the arena; empty when the value is not a text. */
struct str json_text_at(struct arena *arena, yyjson_val *val, const char *path);
/** Accepts integers only: 1.0 and numbers beyond int64 are mistyped. */
enum json_found json_i64(yyjson_val *val, const char *path, int64_t *ret);
/** The same, or the other number if it is absent or mistyped. */
int64_t json_i64_or(yyjson_val *val, const char *path, int64_t otherwise);
enum json_found json_bool(yyjson_val *val, const char *path, bool *ret);
/** Finds an array; iterate over *ret with yyjson_arr_iter. To those functions json_at() gives an
 * empty array where the value is not one. */
enum json_found json_array(yyjson_val *val, const char *path, yyjson_val **ret);
enum json_found json_object(yyjson_val *val, const char *path, yyjson_val **ret);

/** Returns the bytes of a string, unmodified; val must be a string. */
struct str json_text(yyjson_val *val);

/** Appends the value as compact JSON and keeps everything that yyjson keeps (numbers beyond 64 bits
 * as raw text). It is used to preserve values that this program does not interpret. */
void json_add_value(struct buf *b, yyjson_val *val);
/** Appends s as a quoted JSON string; bytes that are not valid UTF-8 become U+FFFD. */
void json_add_str(struct buf *b, struct str s);
/* Writes objects and arrays, with one call for each part. The last byte of the buffer decides
 * whether a comma precedes the part: a comma is omitted after '{', '[', ':' and ',', and in an
 * empty buffer. The functions therefore keep no state, and text from other functions may be
 * appended between the calls.
 *
 * name is the name of a member: a constant of this program, in which no character needs escaping.
 * NULL: an element of an array, or the value after json_add_name(). */
void json_begin_object(struct buf *b, const char *name);
void json_end_object(struct buf *b);
void json_begin_array(struct buf *b, const char *name);
void json_end_array(struct buf *b);
void json_add_text(struct buf *b, const char *name, struct str text);
/** An array of texts. */
void json_add_texts(struct buf *b, const char *name, const struct str texts[], size_t n);
void json_add_number(struct buf *b, const char *name, int64_t number);
/** As clock_format_rfc3339() writes it. */
void json_add_time(struct buf *b, const char *name, int64_t wall_ns, bool micros);
void json_add_flag(struct buf *b, const char *name, bool is_true);
/** Appends a value that is JSON already, or the beginning of one: the caller appends the rest. */
void json_add_raw(struct buf *b, const char *name, struct str value);
/** Appends the name of a member from outside, with escapes; its value follows. */
void json_add_name(struct buf *b, struct str name);

/** A member of an object. */
struct json_member {
	const char *name;
	enum {
		JSON_MEMBER_NONE, /* is not written */
		JSON_MEMBER_TEXT,
		JSON_MEMBER_RAW,
		JSON_MEMBER_NUMBER,
		JSON_MEMBER_FLAG,
		JSON_MEMBER_DURATION,
		JSON_MEMBER_TIME,
		JSON_MEMBER_MICRO_TIME,
	} kind;
	struct str text;
	int64_t number; /* or flag, or nanoseconds */
};
#define JSON_TEXT(name_, text_) \
	((struct json_member){ .name = (name_), .kind = JSON_MEMBER_TEXT, .text = (text_) })
/** value_: JSON. */
#define JSON_RAW(name_, value_) \
	((struct json_member){ .name = (name_), .kind = JSON_MEMBER_RAW, .text = (value_) })
#define JSON_NUMBER(name_, number_) \
	((struct json_member){      \
		.name = (name_), .kind = JSON_MEMBER_NUMBER, .number = (int64_t)(number_) })
#define JSON_FLAG(name_, is_true_) \
	((struct json_member){ .name = (name_), .kind = JSON_MEMBER_FLAG, .number = (is_true_) })
/** As Go prints it: "1m30s". */
#define JSON_DURATION(name_, ns_) \
	((struct json_member){ .name = (name_), .kind = JSON_MEMBER_DURATION, .number = (ns_) })
/** As clock_format_rfc3339() writes it, without microseconds and with them. */
#define JSON_TIME(name_, wall_ns_) \
	((struct json_member){ .name = (name_), .kind = JSON_MEMBER_TIME, .number = (wall_ns_) })
#define JSON_MICRO_TIME(name_, wall_ns_) \
	((struct json_member){           \
		.name = (name_), .kind = JSON_MEMBER_MICRO_TIME, .number = (wall_ns_) })
/** The member, or nothing. */
#define JSON_IF(is_wanted_, member_) \
	((is_wanted_) ? (member_) : (struct json_member){ .kind = JSON_MEMBER_NONE })

void json_add_member_list(struct buf *b, const struct json_member members[], size_t n);
void json_add_whole_object(struct buf *b, const char *name, const struct json_member members[],
                           size_t n);
/** Several members of the object that was begun: json_add_members(b, JSON_TEXT(…), …). */
#define json_add_members(b, ...)                                             \
	json_add_member_list(b, (const struct json_member[]){ __VA_ARGS__ }, \
	                     ARRAY_LEN(((const struct json_member[]){ __VA_ARGS__ })))
/** An object that has only these members. */
#define json_add_object(b, name, ...)                                               \
	json_add_whole_object(b, name, (const struct json_member[]){ __VA_ARGS__ }, \
	                      ARRAY_LEN(((const struct json_member[]){ __VA_ARGS__ })))

#endif
