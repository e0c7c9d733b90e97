/* hetzner_kinds.c: checks values of a request against the kinds of hetzner_rows.c.
 *
 * Every problem is noted with the path of its field: "services.0.listen_port".
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "hetzner_internal.h"

enum { INTEGER_DIGITS = 18 };

static void
hm_note(struct hm_problems *problems, struct str field, struct str message)
{
	struct hm_problem problem = { field, message };

	ARRAY_PUSH(problems->items, problems->n, problems->cap, problem);
}

/* ---- plain values ---- */

static void
hm_check_number(struct arena *arena, const struct hm_kind *kind, int64_t number, struct str where,
                struct hm_problems *problems)
{
	if (number < kind->low)
		hm_note(problems, where,
		        arena_printf(arena, "must be at least %lld", (long long)kind->low));
	if (kind->high != 0 && number > kind->high)
		hm_note(problems, where,
		        arena_printf(arena, "must be at most %lld", (long long)kind->high));
}

static int64_t
hm_count_characters(struct str text)
{
	int64_t n = 0;

	for (size_t i = 0; i < text.len; i++)
		n += (text.ptr[i] & 0xc0) != 0x80;
	return n;
}

static void
hm_check_text(const struct hm_kind *kind, struct str text, struct str where,
              struct hm_problems *problems)
{
	int64_t n = hm_count_characters(text);

	if (n < kind->low)
		hm_note(problems, where, STR("is too short"));
	else if (kind->high != 0 && n > kind->high)
		hm_note(problems, where, STR("is too long"));
}

static void
hm_check_one_of(struct arena *arena, const struct hm_kind *kind, struct str text, struct str where,
                struct hm_problems *problems)
{
	CLEANUP(buf_fini) struct buf message = BUF_INIT(1 << 12);

	buf_add_c(&message, "must be one of ");
	for (size_t i = 0; kind->values[i]; i++) {
		if (str_eq_c(text, kind->values[i]))
			return;
		buf_addf(&message, "%s%s", i > 0 ? ", " : "", kind->values[i]);
	}
	hm_note(problems, where, arena_str(arena, buf_str(&message)));
}

/* ---- labels ---- */

static bool
hm_is_reserved(struct str prefix)
{
	return str_eq_c(prefix, "hetzner.cloud") || str_ends(prefix, STR(".hetzner.cloud"));
}

static struct str
hm_label_problem(struct arena *arena, struct str key, yyjson_val *value)
{
	ptrdiff_t slash = str_index(key, '/');
	struct str prefix = slash < 0 ? STR_EMPTY : str_head(key, (size_t)slash);

	if (!yyjson_is_str(value))
		return STR("label values must be strings");
	if (!hm_is_label_key(key))
		return arena_printf(arena, "label key '%" STR_FMT "' is invalid", STR_ARG(key));
	if (hm_is_reserved(prefix))
		return arena_printf(arena, "label key '%" STR_FMT "' has a reserved prefix",
		                    STR_ARG(key));
	if (!hm_is_label_value(json_text(value)))
		return arena_printf(arena, "label value '%" STR_FMT "' is invalid",
		                    STR_ARG(json_text(value)));
	return STR_EMPTY;
}

static void
hm_check_labels(struct arena *arena, yyjson_val *labels, struct str where,
                struct hm_problems *problems)
{
	yyjson_val *key, *value;
	size_t i, n;

	yyjson_obj_foreach(labels, i, n, key, value)
	{
		struct str problem = hm_label_problem(arena, json_text(key), value);

		if (problem.len > 0)
			hm_note(problems, where, problem);
	}
}

/* ---- lists and objects ---- */

static void
hm_check_items(struct arena *arena, const struct hm_kind *kind, yyjson_val *list, struct str where,
               struct hm_problems *problems)
{
	yyjson_val *one;
	size_t i, n;

	yyjson_arr_foreach(list, i, n, one)
	{
		struct str place = arena_printf(arena, "%" STR_FMT ".%zu", STR_ARG(where), i);

		hm_check_value(arena, kind->item, one, place, problems);
	}
}

static struct str
hm_place(struct arena *arena, struct str where, struct str name)
{
	return where.len == 0 ? name
	                      : arena_printf(arena, "%" STR_FMT ".%" STR_FMT, STR_ARG(where),
	                                     STR_ARG(name));
}

static const struct hm_field *
hm_find_field(const struct hm_kind *kind, struct str name)
{
	const struct hm_field *field = kind ? kind->fields : NULL;

	while (field && field->name && !str_eq_c(name, field->name))
		field++;
	return field && field->name ? field : NULL;
}

/* Missing members come first, by name: the tables list required members in that order. */
static void
hm_check_members(struct arena *arena, const struct hm_kind *kind, yyjson_val *object,
                 struct str where, struct hm_problems *problems)
{
	yyjson_val *key, *value;
	size_t i, n;

	for (const struct hm_field *field = kind->fields; field->name; field++) {
		if (field->is_required && !yyjson_obj_get(object, field->name))
			hm_note(problems, hm_place(arena, where, str_c(field->name)),
			        STR("is required"));
	}
	yyjson_obj_foreach(object, i, n, key, value)
	{
		const struct hm_field *field = hm_find_field(kind, json_text(key));
		struct str place = hm_place(arena, where, json_text(key));

		if (field)
			hm_check_value(arena, field->kind, value, place, problems);
		else
			hm_note(problems, place, STR("unknown field"));
	}
}

/* ---- any value ---- */

static bool
hm_is_of_form(enum hm_form form, yyjson_val *value)
{
	switch (form) {
	case HM_FLAG:
		return yyjson_is_bool(value);
	case HM_NUMBER:
		return yyjson_is_int(value);
	case HM_TEXT:
	case HM_ONE_OF:
		return yyjson_is_str(value);
	case HM_ID_OR_NAME:
		return yyjson_is_int(value) || yyjson_is_str(value);
	case HM_LIST:
		return yyjson_is_arr(value);
	case HM_LABELS:
	case HM_FIELDS:
		return yyjson_is_obj(value);
	}
	abort();
}

static const char *const form_words[] = {
	[HM_FLAG] = "must be a boolean",   [HM_NUMBER] = "must be an integer",
	[HM_TEXT] = "must be a string",    [HM_ONE_OF] = "must be a string",
	[HM_LABELS] = "must be an object", [HM_ID_OR_NAME] = "must be an ID or a name",
	[HM_LIST] = "must be an array",    [HM_FIELDS] = "must be an object",
};

void
hm_check_value(struct arena *arena, const struct hm_kind *kind, yyjson_val *value, struct str where,
               struct hm_problems *problems)
{
	if (yyjson_is_null(value) && kind->is_nullable)
		return;
	if (!hm_is_of_form(kind->form, value))
		hm_note(problems, where, str_c(form_words[kind->form]));
	else if (kind->form == HM_NUMBER)
		hm_check_number(arena, kind, yyjson_get_sint(value), where, problems);
	else if (kind->form == HM_TEXT)
		hm_check_text(kind, json_text(value), where, problems);
	else if (kind->form == HM_ONE_OF)
		hm_check_one_of(arena, kind, json_text(value), where, problems);
	else if (kind->form == HM_LABELS)
		hm_check_labels(arena, value, where, problems);
	else if (kind->form == HM_LIST)
		hm_check_items(arena, kind, value, where, problems);
	else if (kind->form == HM_FIELDS)
		hm_check_members(arena, kind, value, where, problems);
}

/* ---- parameters ---- */

static bool
hm_read_integer(struct str text, int64_t *ret)
{
	struct str digits = str_starts(text, STR("-")) ? str_skip(text, 1) : text;

	return str_is_digits(digits) && digits.len <= INTEGER_DIGITS &&
	       str_to_i64(text, INT64_MIN, INT64_MAX, ret);
}

static void
hm_check_parameter(struct arena *arena, const struct hm_kind *kind, const struct target_pair *pair,
                   struct hm_problems *problems)
{
	int64_t number;

	if (kind->form == HM_ONE_OF)
		hm_check_one_of(arena, kind, pair->value, pair->name, problems);
	else if (kind->form == HM_NUMBER && hm_read_integer(pair->value, &number))
		hm_check_number(arena, kind, number, pair->name, problems);
	else if (kind->form == HM_NUMBER)
		hm_note(problems, pair->name, str_c(form_words[HM_NUMBER]));
}

void
hm_check_parameters(struct arena *arena, const struct hm_kind *kind,
                    const struct target_pair pairs[], size_t n, struct hm_problems *problems)
{
	for (size_t i = 0; i < n; i++) {
		const struct hm_field *field = hm_find_field(kind, pairs[i].name);

		if (!field)
			hm_note(problems, pairs[i].name, STR("unknown parameter"));
		else if (pairs[i].value.len > 0)
			hm_check_parameter(arena, field->kind, &pairs[i], problems);
	}
}
