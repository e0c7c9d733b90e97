/* flags/values.c: from the text of a value to its field.
 *
 * One table has what distinguishes the kinds of flags: the name of the type in --help, what an
 * error message asks for, and the function that parses the text into the field.
 */
#include "flags/table.h"

#include <string.h>

#include "base/ip.h"

enum {
	MAX_COUNT = 1000, /* workers */
	MAX_NUMBER = 1000000,
	MAX_PORT = 65535,
};

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

static bool
parse_count(const struct value *v)
{
	return str_to_i64(str_c(v->text), 1, MAX_COUNT, v->field);
}

static bool
parse_level(const struct value *v)
{
	return str_to_i64(str_c(v->text), 0, INT32_MAX, v->field);
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
parse_percent(const struct value *v)
{
	struct str text = str_c(v->text);

	if (str_ends(text, STR("%")))
		text = str_head(text, text.len - 1);
	return parse_unsigned(text, 100, v->field);
}

static bool
parse_number(const struct value *v)
{
	return parse_unsigned(str_c(v->text), MAX_NUMBER, v->field);
}

static bool
parse_port(const struct value *v)
{
	return parse_unsigned(str_c(v->text), MAX_PORT, v->field);
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
	int64_t min_ns = v->flag->kind == FLAG_PERIOD ? 1 : 0, ns;

	if (!str_to_duration_ns(str_c(v->text), &ns) || ns < min_ns)
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

/* --help and --version have no field; parse.c acts on them. */
static bool
parse_nothing(const struct value *v)
{
	(void)v;
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
	[FLAG_COUNT] = { "int", "a number from 1 to 1000", parse_count },
	[FLAG_PERCENT] = { "int", "a number from 0 to 100", parse_percent },
	[FLAG_NUMBER] = { "int", "a number, 0 or more", parse_number },
	[FLAG_LEVEL] = { "int", "a number, 0 or more", parse_level },
	[FLAG_PORT] = { "int", "a port from 0 to 65535", parse_port },
	[FLAG_RATE] = { "float", "a number above 0", parse_rate },
	[FLAG_DURATION] = { "duration", "a duration such as 300ms, 12s or 1h30m", parse_duration },
	[FLAG_PERIOD] = { "duration", "a duration above 0, such as 300ms, 12s or 1h30m",
	                  parse_duration },
	[FLAG_ADDRESS] = { "ip", "an IP address", parse_address },
	[FLAG_CHOICE] = { "string", NULL /* its choices */, parse_choice },
	[FLAG_LIST] = { "strings", "a value", parse_list },
	[FLAG_EACH] = { "strings", "a value", parse_list },
	[FLAG_HELP] = { "", "a value", parse_nothing },
	[FLAG_VERSION] = { "", "true, false, raw or a version such as v1.36.3", parse_nothing },
};

const char *
flag_type(const struct flag *flag)
{
	return kinds[flag->kind].type;
}

/* ---- setting a field ---- */

/* Does the program choose the value where none is given? (A FLAG_CHOICE may have a choice "auto",
 * which is a value like others.) */
static bool
has_auto(const struct flag *flag)
{
	return flag->kind != FLAG_CHOICE && flag->fallback && strcmp(flag->fallback, "auto") == 0;
}

/* A field that is 0 means auto. An earlier value of the same flag is overwritten. */
static void
set_auto(const struct flag *flag, void *field)
{
	if (flag->kind == FLAG_RATE)
		*(double *)field = 0;
	else
		*(int64_t *)field = 0;
}

/* Keeps the text for the log: for a list that was given several times, all of it. */
static void
remember_text(struct options *o, const struct flag *flag, struct flag_state *state,
              const char *value)
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
	struct value v = {
		.options = o,
		.flag = flag,
		.text = value,
		.is_first = !state->is_given,
		.field = flag->offset == FLAG_NOWHERE ? (void *)&scratch : (char *)o + flag->offset,
	};

	if (has_auto(flag) && strcmp(value, "auto") == 0)
		set_auto(flag, v.field);
	else if (!kinds[flag->kind].parse(&v))
		return false;
	remember_text(o, flag, state, value);
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
