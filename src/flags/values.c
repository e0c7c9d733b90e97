/* flags/values.c: from the text of a value to its field. */
#include "flags/table.h"

#include <string.h>

#include "base/ip.h"

enum {
	MAX_COUNT = 1000, /* workers */
	MAX_PORT = 65535,
};

/* Room for the value of a flag that has no field. */
union scratch {
	const char *text;
	struct text_list list;
	int64_t number;
	double rate;
};

/* A decimal number above 0, with a fraction; what Go prints for a rate. */
static bool
parse_rate(struct str text, double *ret)
{
	struct str whole = text, fraction = STR_EMPTY;
	int64_t units = 0, parts = 0;
	double scale = 1, rate;

	str_cut(text, '.', &whole, &fraction);
	if (fraction.len > 9 || !str_to_i64(whole, 0, 1000000, &units) ||
	    (fraction.len > 0 && !str_to_i64(fraction, 0, 999999999, &parts)))
		return false;
	for (size_t i = 0; i < fraction.len; i++)
		scale *= 10;
	rate = (double)units + (double)parts / scale;
	if (rate > 0)
		*ret = rate;
	return rate > 0;
}

static bool
parse_unsigned(struct str text, int64_t max, unsigned *ret)
{
	int64_t n;

	if (!str_to_i64(text, 0, max, &n))
		return false;
	*ret = (unsigned)n;
	return true;
}

/* "5" and "5%". */
static bool
parse_percent(struct str text, unsigned *ret)
{
	if (str_ends(text, STR("%")))
		text = str_head(text, text.len - 1);
	return parse_unsigned(text, 100, ret);
}

static bool
parse_duration(struct str text, int64_t min, int64_t *ret)
{
	int64_t ns;

	if (!str_to_duration_ns(text, &ns) || ns < min)
		return false;
	*ret = ns;
	return true;
}

static bool
parse_address(const char *value, const char **ret)
{
	struct ip ip;

	if (!ip_parse(str_c(value), &ip))
		return false;
	*ret = value;
	return true;
}

static bool
parse_choice(const struct flag *flag, struct str text, unsigned *ret)
{
	for (unsigned i = 0; flag->choices[i]; i++) {
		if (str_eq_c(text, flag->choices[i])) {
			*ret = i;
			return true;
		}
	}
	return false;
}

static size_t
count_parts(struct str text, char sep)
{
	size_t n = 0;

	for (struct str part, rest = text; str_split(&rest, sep, &part);)
		n++;
	return n;
}

/* Appends the parts of text, none if it is empty; first empties the list when is_fresh. sep '\0':
 * text is one part. */
static void
add_parts(struct options *o, struct text_list *list, struct str text, char sep, bool is_fresh)
{
	size_t n_old = is_fresh ? 0 : list->n;
	size_t n_new = text.len == 0 ? 0 : sep ? count_parts(text, sep) : 1;
	struct str *items = arena_calloc(&o->arena, n_old + n_new + 1, sizeof(*items));

	if (n_old > 0)
		memcpy(items, list->items, n_old * sizeof(*items));
	if (sep && n_new > 0) {
		struct str rest = text;

		for (size_t i = 0; i < n_new; i++)
			str_split(&rest, sep, &items[n_old + i]);
	} else if (n_new > 0) {
		items[n_old] = text;
	}
	*list = (struct text_list){ items, n_old + n_new };
}

static bool
set_field(struct options *o, const struct flag *flag, void *field, const char *value, bool is_fresh)
{
	struct str text = str_c(value);

	switch (flag->kind) {
	case FLAG_TEXT:
		*(const char **)field = value;
		return true;
	case FLAG_BOOL:
		return str_to_bool(text, field);
	case FLAG_COUNT:
		return str_to_i64(text, 1, MAX_COUNT, field);
	case FLAG_PERCENT:
		return parse_percent(text, field);
	case FLAG_NUMBER:
		return parse_unsigned(text, 1000000, field);
	case FLAG_PORT:
		return parse_unsigned(text, MAX_PORT, field);
	case FLAG_LEVEL:
		return str_to_i64(text, 0, INT32_MAX, field);
	case FLAG_RATE:
		return parse_rate(text, field);
	case FLAG_DURATION:
		return parse_duration(text, 0, field);
	case FLAG_PERIOD:
		return parse_duration(text, 1, field);
	case FLAG_ADDRESS:
		return parse_address(value, field);
	case FLAG_CHOICE:
		return parse_choice(flag, text, field);
	case FLAG_LIST:
		add_parts(o, field, text, ',', is_fresh);
		return true;
	case FLAG_EACH:
		add_parts(o, field, text, '\0', is_fresh);
		return true;
	case FLAG_HELP:
	case FLAG_VERSION:
		return true;
	}
	return false;
}

/* Does the program choose, unless it is told? A choice may have an "auto" of its own. */
static bool
has_auto(const struct flag *flag)
{
	return flag->kind != FLAG_CHOICE && flag->fallback && strcmp(flag->fallback, "auto") == 0;
}

/* Takes back what an earlier value said: 0 is auto. */
static void
set_auto(const struct flag *flag, void *field)
{
	if (flag->kind == FLAG_RATE)
		*(double *)field = 0;
	else
		*(int64_t *)field = 0;
}

/* What is shown later: of a repeated list all that was given. */
static void
remember(struct options *o, const struct flag *flag, struct flag_state *state, const char *value)
{
	bool is_list = flag->kind == FLAG_LIST || flag->kind == FLAG_EACH;

	if (is_list && state->is_given && state->text[0] && value[0])
		state->text = arena_printf(&o->arena, "%s,%s", state->text, value).ptr;
	else if (!is_list || !state->is_given || value[0])
		state->text = value;
}

bool
flag_set(struct options *o, size_t index, const char *value, bool is_default)
{
	const struct flag *flag = flag_at(index);
	struct flag_state *state = &o->states[index];
	union scratch scratch = { 0 };
	void *field = flag->offset == FLAG_NOWHERE ? (void *)&scratch : (char *)o + flag->offset;

	if (has_auto(flag) && strcmp(value, "auto") == 0)
		set_auto(flag, field);
	else if (!set_field(o, flag, field, value, !state->is_given))
		return false;
	remember(o, flag, state, value);
	state->is_given |= !is_default;
	return true;
}

static void
add_choices(const char *const *choices, struct buf *b)
{
	for (size_t i = 0; choices[i]; i++)
		buf_addf(b, "%s%s", i > 0 ? " or " : "", choices[i]);
}

static const char *
expected(enum flag_kind kind)
{
	switch (kind) {
	case FLAG_BOOL:
		return "true or false";
	case FLAG_COUNT:
		return "a number from 1 to 1000";
	case FLAG_PERCENT:
		return "a number from 0 to 100";
	case FLAG_NUMBER:
	case FLAG_LEVEL:
		return "a number, 0 or more";
	case FLAG_PORT:
		return "a port from 0 to 65535";
	case FLAG_RATE:
		return "a number above 0";
	case FLAG_DURATION:
		return "a duration such as 300ms, 12s or 1h30m";
	case FLAG_PERIOD:
		return "a duration above 0, such as 300ms, 12s or 1h30m";
	case FLAG_ADDRESS:
		return "an IP address";
	case FLAG_VERSION:
		return "true, false, raw or a version such as v1.36.3";
	default:
		return "a value";
	}
}

void
flag_add_expected(const struct flag *flag, struct buf *b)
{
	if (flag->kind == FLAG_CHOICE)
		add_choices(flag->choices, b);
	else
		buf_add_c(b, expected(flag->kind));
	if (has_auto(flag))
		buf_add_c(b, ", or auto");
}
