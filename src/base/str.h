/* base/str.h: a view of bytes that somebody else owns, passed by value.
 *
 * Not terminated, may hold any byte; ptr is never NULL for a view made here. Comparisons are
 * bytewise: nothing depends on the locale. Printed with STR_FMT: log("%" STR_FMT, STR_ARG(s)).
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

/** The array belongs to somebody else as well. */
struct str_list {
	struct str *items;
	size_t n;
};

#define STR(literal) ((struct str){ "" literal, sizeof(literal) - 1 })
#define STR_EMPTY ((struct str){ "", 0 })
#define STR_FMT ".*s"
#define STR_ARG(s) (int)(s).len, (s).ptr

/** Copies the bytes of s to *at, moves *at behind them and returns the view of the copy: for
 * several texts behind one another in one block. */
struct str str_pack(char **at, struct str s);

/** A view of a terminated string; NULL gives the empty view. */
struct str str_c(const char *text);
struct str str_n(const char *ptr, size_t len);

bool str_eq(struct str a, struct str b);
bool str_eq_c(struct str a, const char *b);
/** ASCII only. */
bool str_eq_nocase(struct str a, struct str b);
/** <0, 0, >0 as memcmp does, the shorter first. */
int str_cmp(struct str a, struct str b);
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);

/** The position of the first c, or -1. */
ptrdiff_t str_index(struct str s, char c);
bool str_contains(struct str s, struct str part);

/** s without its first n bytes (n is capped at the length). */
struct str str_skip(struct str s, size_t n);
/** The first n bytes. */
struct str str_head(struct str s, size_t n);
/** Without ASCII white space at both ends. */
struct str str_trim(struct str s);

/** Takes the part before the next sep off *rest. A text with n separators yields n + 1 parts; the
 * empty text yields one empty part. Returns false when there is none left. Start with rest->ptr
 * not NULL:
 *
 * 	for (struct str part, rest = text; str_split(&rest, ',', &part);)
 */
bool str_split(struct str *rest, char sep, struct str *ret);

/** Cuts s at the last `sep`-free prefix: "a:b" gives "a" and "b". False, with nothing written,
 * without sep. */
bool str_cut(struct str s, char sep, struct str *ret_before, struct str *ret_after);

/** A decimal number, the whole of s, within [min, max]; an optional leading '-', no '+', no spaces.
 * False with *ret untouched otherwise. */
NODISCARD bool str_to_i64(struct str s, int64_t min, int64_t max, int64_t *ret);

/** A Go duration ("1h2m3.5s", "250ms", "0", "-1s") in nanoseconds; units ns us µs ms s m h.
 * False with *ret untouched when malformed or beyond int64. */
NODISCARD bool str_to_duration_ns(struct str s, int64_t *ret);

/** As Go's strconv.ParseBool: exactly 1 t T TRUE true True 0 f F FALSE false False.
 * False with *ret untouched otherwise. */
NODISCARD bool str_to_bool(struct str s, bool *ret);

/** Nothing but '0' to '9', and at least one of them. */
bool str_is_digits(struct str s);
/** Nothing but visible ASCII, so that it ends no line or word: what may stand in a header. */
bool str_is_visible(struct str s);
/** Is c one of the characters of this set? NUL never is (strchr() would find it at the end of every
 * set). */
bool char_is_in(char c, const char *set);
/** What a hexadecimal digit is worth; -1 when it is none. */
int str_hex_digit(char c);

/** FNV-1a: the same in every process, to store and to compare; neither for secrets nor for tables
 * (map.c). */
uint64_t str_hash(struct str s);

/** The length of the UTF-8 sequence that s starts with; 0 when s is empty or starts with anything
 * else (overlong forms, surrogates and what lies beyond U+10FFFF included). */
size_t str_utf8_len(struct str s);

/** The longest prefix of at most max bytes that does not cut a UTF-8 sequence in two. */
struct str str_utf8_head(struct str s, size_t max);

#endif
