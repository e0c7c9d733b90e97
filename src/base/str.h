/* base/str.h: a view of bytes that another object owns, passed by value.
 *
 * A view is not terminated and may contain any byte; ptr is never NULL in a view that these
 * functions return, except in the rest of a completed str_split(). Comparisons are bytewise and do
 * not depend on the locale. STR_FMT prints a view: buf_addf(&b, "%" STR_FMT, STR_ARG(s)).
 *
 * Threads: every function may be called from any thread; the owner of the bytes keeps them
 * unchanged while a view is in use.
 */
#ifndef CCMD_BASE_STR_H
#define CCMD_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

struct str {
	const char *ptr;
	size_t len;
};

/** A view of an array, which another object owns as well. */
struct str_list {
	struct str *items;
	size_t n;
};

#define STR(literal) ((struct str){ "" literal, sizeof(literal) - 1 })
#define STR_EMPTY ((struct str){ "", 0 })
#define STR_FMT ".*s"
#define STR_ARG(s) (int)(s).len, (s).ptr

/** Copies the bytes of s to *at, moves *at past them and returns the view of the copy: for storing
 * several texts in one block. */
struct str str_pack(char **at, struct str s);

/** Returns a view of a terminated string; the view is empty when text is NULL. */
struct str str_c(const char *text);
struct str str_n(const char *ptr, size_t len);

bool str_eq(struct str a, struct str b);
bool str_eq_c(struct str a, const char *b);
bool str_is_among(struct str s, const struct str list[], size_t n);
/** Ignores the case of ASCII letters only. */
bool str_eq_nocase(struct str a, struct str b);
/** Returns <0, 0 or >0 as memcmp() does; a prefix sorts before the longer text. */
int str_cmp(struct str a, struct str b);
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);

/** Returns the position of the first c, or -1. */
ptrdiff_t str_index(struct str s, char c);
bool str_contains(struct str s, struct str part);

/** Returns s without its first n bytes (n is capped at the length). */
struct str str_skip(struct str s, size_t n);
/** Returns the first n bytes of s. */
struct str str_head(struct str s, size_t n);
/** Returns s without ASCII white space at both ends. */
struct str str_trim(struct str s);

/** Removes the part before the next sep from *rest. A text with n separators yields n + 1 parts;
 * the empty text yields one empty part. Returns false when no part is left. rest->ptr must not be
 * NULL at the start:
 *
 * 	for (struct str part, rest = text; str_split(&rest, ',', &part);) */
bool str_split(struct str *rest, char sep, struct str *ret);

/** Cuts s at the first sep: "a:b" gives "a" and "b". Returns false, with nothing written, when s
 * contains no sep. */
bool str_cut(struct str s, char sep, struct str *ret_before, struct str *ret_after);
/** str_cut() at the last sep: "a:b:c" gives "a:b", "c". */
bool str_cut_last(struct str s, char sep, struct str *ret_before, struct str *ret_after);

/** Parses all of s as a decimal number within [min, max], with an optional leading '-', no '+' and
 * no spaces. Returns false with *ret untouched otherwise. */
NODISCARD bool str_to_i64(struct str s, int64_t min, int64_t max, int64_t *ret);

/** Parses a Go duration ("1h2m3.5s", "250ms", "0", "-1s") into nanoseconds; the units are ns us µs
 * ms s m h. Returns false with *ret untouched when the text is malformed or exceeds int64. */
NODISCARD bool str_to_duration_ns(struct str s, int64_t *ret);

/** Parses a bool like strconv.ParseBool of Go: exactly 1 t T TRUE true True 0 f F FALSE false
 * False. Returns false with *ret untouched otherwise. */
NODISCARD bool str_to_bool(struct str s, bool *ret);

/** Returns true when s consists of at least one digit and nothing else. */
bool str_is_digits(struct str s);
/** Returns true when s consists of visible ASCII only: such a text cannot end a line or a word and
 * may be used in a header. */
bool str_is_visible(struct str s);
/** Returns true when c is one of the characters of set. NUL never is, although strchr() would find
 * it at the end of every set. */
bool char_is_in(char c, const char *set);
/** Returns the value of a hexadecimal digit, or -1 for any other character. */
int str_hex_digit(char c);

/** Returns the FNV-1a hash: it is the same in every process, so it may be stored and compared. It
 * is unsuitable for secrets and for hash tables (see map.c). */
uint64_t str_hash(struct str s);

/** Returns the length of the UTF-8 sequence that s starts with; 0 when s is empty or starts with an
 * invalid sequence (including overlong forms, surrogates and code points beyond U+10FFFF). */
size_t str_utf8_len(struct str s);

/** A character of foreign text, and whether a terminal may get it. */
struct str_char {
	struct str bytes;
	uint32_t code; /* of an invalid byte: its value */
	bool is_valid; /* false: one byte that is not UTF-8 */
	/* A control character (C0, DEL, or C1, which some terminals obey), a line or paragraph
	 * separator, or a character that changes the direction of the text, which can make it read
	 * as a different text. */
	bool is_control;
};

/** Cuts the first character off. False: *rest is empty. All code that prints or logs foreign text
 * uses this, and differs only in what it puts in place of such characters. */
bool str_next_char(struct str *rest, struct str_char *ret);

/** Returns the longest prefix of at most max bytes that does not split a UTF-8 sequence. */
struct str str_utf8_head(struct str s, size_t max);

#endif
