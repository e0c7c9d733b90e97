/* flags/values.c: from the text of a value to its field.
 *
 * One table has what distinguishes the kinds of flags: the name of the type in --help, what an
 * error message asks for, and the function that parses the text into the field.
 */
#include "flags/table.h"

#include <string.h>

#include "base/ip.h"
#include "base/words.h"

/* Room for the value of a flag that has no field. */
union scratch {
	const char *text;
	struct str str;
	struct str_list list;
	int64_t number;
	double rate;
};

/* A value on its way into its field. */
struct value {
	struct options *options;
	const struct flag *flag;
	const char *text;
	bool is_first; /* the flag was not given before: a list begins again */
	void *field;
};

/* ---- the parser of each kind ---- */

static bool
parse_text(const struct value *v)
{
	*(const char **)v->field = v->text;
	return true;
}

static bool
parse_str(const struct value *v)
{
	*(struct str *)v->field = str_c(v->text);
	return true;
}

static bool
parse_bool(const struct value *v)
{
	return str_to_bool(str_c(v->text), v->field);
}

/* The bounds of numbers, and of durations in ns. */
static const struct {
	int64_t min, max;
} bounds[] = {
	[FLAG_COUNT] = { 1, 1000 },       [FLAG_LEVEL] = { 0, INT32_MAX },
	[FLAG_PERCENT] = { 0, 100 },      [FLAG_NUMBER] = { 0, 1000000 },
	[FLAG_PORT] = { 0, 65535 },       [FLAG_DURATION] = { 0, INT64_MAX },
	[FLAG_PERIOD] = { 1, INT64_MAX },
};

static bool
parse_number(const struct value *v)
{
	return str_to_i64(str_c(v->text), bounds[v->flag->kind].min, bounds[v->flag->kind].max,
	                  v->field);
}

static bool
parse_unsigned(const struct value *v)
{
	struct str text = str_c(v->text);
	int64_t n;

	if (v->flag->kind == FLAG_PERCENT && str_ends(text, STR("%")))
		text = str_head(text, text.len - 1);
	if (!str_to_i64(text, bounds[v->flag->kind].min, bounds[v->flag->kind].max, &n))
		return false;
	*(unsigned *)v->field = (unsigned)n;
	return true;
}

/* A decimal number above 0, with a fraction: what Go prints for a rate. */
static bool
parse_rate(const struct value *v)
{
	struct str text = str_c(v->text), whole = text, fraction = STR_EMPTY;
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
		*(double *)v->field = rate;
	return rate > 0;
}

static bool
parse_duration(const struct value *v)
{
	int64_t ns;

	if (!str_to_duration_ns(str_c(v->text), &ns) || ns < bounds[v->flag->kind].min)
		return false;
	*(int64_t *)v->field = ns;
	return true;
}

static bool
parse_address(const struct value *v)
{
	struct ip ip;

	return ip_parse(str_c(v->text), &ip) && parse_str(v);
}

static bool
parse_choice(const struct value *v)
{
	for (unsigned i = 0; v->flag->choices[i]; i++) {
		if (strcmp(v->text, v->flag->choices[i]) == 0) {
			*(unsigned *)v->field = i;
			return true;
		}
	}
	return false;
}

/* Appends to a list: the texts between commas (FLAG_LIST) or the whole value (FLAG_EACH); nothing
 * for an empty value. */
static bool
parse_list(const struct value *v)
{
	struct str_list *list = v->field;
	struct str text = str_c(v->text), part;
	size_t n_old = v->is_first ? 0 : list->n, n_new = 0;
	bool is_cut = v->flag->kind == FLAG_LIST;
	struct str *items;

	for (struct str rest = text; text.len > 0 && str_split(&rest, ',', &part);)
		n_new++;
	items = arena_calloc(&v->options->arena, n_old + n_new + 1, sizeof(*items));
	if (n_old > 0)
		memcpy(items, list->items, n_old * sizeof(*items));
	*list = (struct str_list){ items, n_old };
	if (!is_cut && text.len > 0)
		items[list->n++] = text;
	for (size_t i = 0; is_cut && i < n_new; i++)
		str_split(&text, ',', &items[list->n++]);
	return true;
}

static const struct {
	const char *type; /* empty: a boolean, whose type is not shown */
	const char *expected;
	bool (*parse)(const struct value *);
} kinds[] = {
	[FLAG_TEXT] = { "string", "a value", parse_text },
	[FLAG_STR] = { "string", "a value", parse_str },
	[FLAG_BOOL] = { "", "true or false", parse_bool },
	[FLAG_COUNT] = { "int", "a number from 1 to 1000", parse_number },
	[FLAG_PERCENT] = { "int", "a number from 0 to 100", parse_unsigned },
	[FLAG_NUMBER] = { "int", "a number, 0 or more", parse_unsigned },
	[FLAG_LEVEL] = { "int", "a number, 0 or more", parse_number },
	[FLAG_PORT] = { "int", "a port from 0 to 65535", parse_unsigned },
	[FLAG_RATE] = { "float", "a number above 0", parse_rate },
	[FLAG_DURATION] = { "duration", "a duration such as 300ms, 12s or 1h30m", parse_duration },
	[FLAG_PERIOD] = { "duration", "a duration above 0, such as 300ms, 12s or 1h30m",
	                  parse_duration },
	[FLAG_ADDRESS] = { "ip", "an IP address", parse_address },
	[FLAG_CHOICE] = { "string", NULL /* its choices */, parse_choice },
	[FLAG_LIST] = { "strings", "a value", parse_list },
	[FLAG_EACH] = { "strings", "a value", parse_list },
	/* parse.c acts on these two, which have no field */
	[FLAG_HELP] = { "", "a value", parse_text },
	[FLAG_VERSION] = { "", "true, false, raw or a version such as v1.36.3", parse_text },
};

const char *
flag_type(const struct flag *flag)
{
	return kinds[flag->kind].type;
}

void
flag_add_default(const struct flag *flag, struct buf *b)
{
	/* the zero of a type is not shown, as in the Go programs */
	static const char *const silent[] = { "", "false", "0", "0s", NULL };

	if (!flag->fallback || words_have(silent, str_c(flag->fallback)))
		return;
	if (strcmp(flag_type(flag), "strings") == 0)
		buf_addf(b, "[%s]", flag->fallback);
	else if (strcmp(flag_type(flag), "string") == 0)
		buf_addf(b, "\"%s\"", flag->fallback);
	else
		buf_add_c(b, flag->fallback);
}

/* ---- setting a field ---- */

/* Does the program choose the value where none is given? (A FLAG_CHOICE may have a choice "auto",
 * which is a value like others.) */
static bool
has_auto(const struct flag *flag)
{
	return flag->kind != FLAG_CHOICE && flag->fallback && strcmp(flag->fallback, "auto") == 0;
}

bool
flag_set(struct options *o, size_t index, const char *value, bool is_default)
{
	const struct flag *flag = flag_at(index);
	struct flag_state *state = &o->states[index];
	bool is_list = flag->kind == FLAG_LIST || flag->kind == FLAG_EACH;
	union scratch scratch = { 0 };
	struct value v = {
		.options = o,
		.flag = flag,
		.text = value,
		.is_first = !state->is_given,
		.field = flag->offset == FLAG_NOWHERE ? (void *)&scratch : (char *)o + flag->offset,
	};

	/* a field that is 0 means auto; an earlier value of the same flag is overwritten */
	if (has_auto(flag) && strcmp(value, "auto") == 0) {
		if (flag->kind == FLAG_RATE)
			*(double *)v.field = 0;
		else
			*(int64_t *)v.field = 0;
	} else if (!kinds[flag->kind].parse(&v)) {
		return false;
	}

	/* the text for the log: for a list that was given several times, all of it */
	if (is_list && state->is_given && state->text[0] && value[0])
		state->text = arena_printf(&o->arena, "%s,%s", state->text, value).ptr;
	else if (!is_list || !state->is_given || value[0])
		state->text = value;
	state->is_given |= !is_default;
	return true;
}

void
flag_add_expected(const struct flag *flag, struct buf *b)
{
	if (flag->kind != FLAG_CHOICE)
		buf_add_c(b, kinds[flag->kind].expected);
	for (size_t i = 0; flag->kind == FLAG_CHOICE && flag->choices[i]; i++)
		buf_addf(b, "%s%s", i > 0 ? " or " : "", flag->choices[i]);
	if (has_auto(flag))
		buf_add_c(b, ", or auto");
}
