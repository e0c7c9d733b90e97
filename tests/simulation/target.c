/* tests/simulation/target.c: see target.h. */
#include "target.h"

struct str
target_unescape(struct arena *arena, struct str text, bool is_query)
{
	char *copy = arena_alloc(arena, text.len + 1);
	size_t n = 0;

	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];

		if (c == '%' && i + 2 < text.len && str_hex_digit(text.ptr[i + 1]) >= 0 &&
		    str_hex_digit(text.ptr[i + 2]) >= 0) {
			c = (char)(str_hex_digit(text.ptr[i + 1]) * 16 +
			           str_hex_digit(text.ptr[i + 2]));
			i += 2;
		} else if (c == '+' && is_query) {
			c = ' ';
		}
		copy[n++] = c;
	}
	return str_n(copy, n);
}

struct target_pair *
target_read_query(struct arena *arena, struct str query, size_t *ret_n)
{
	struct target_pair *pairs;
	size_t cap = 1, n = 0;
	struct str part;

	for (size_t i = 0; i < query.len; i++)
		cap += query.ptr[i] == '&';
	pairs = arena_calloc(arena, cap, sizeof(*pairs));
	while (str_split(&query, '&', &part)) {
		struct str name = part, value = STR_EMPTY;

		if (part.len == 0)
			continue;
		str_cut(part, '=', &name, &value);
		pairs[n].name = target_unescape(arena, name, /*is_query=*/true);
		pairs[n++].value = target_unescape(arena, value, /*is_query=*/true);
	}
	*ret_n = n;
	return pairs;
}

bool
target_matches(const char *pattern, struct str path, struct str *ret_id)
{
	struct str rest = str_c(pattern), wanted, got;
	struct str id = STR_EMPTY;

	while (str_split(&rest, '/', &wanted)) {
		if (!str_split(&path, '/', &got))
			return false;
		if (str_eq_c(wanted, "{id}") && got.len > 0)
			id = got;
		else if (!str_eq(wanted, got))
			return false;
	}
	*ret_id = id;
	return !str_split(&path, '/', &got);
}
