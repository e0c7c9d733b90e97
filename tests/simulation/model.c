/* tests/simulation/model.c: see model.h. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model.h"

enum { INTEGER_DIGITS = 18 };

void
kind_note(struct kind_problems *problems, struct str field, struct str message)
{
	struct kind_problem problem = { field, message };

	ARRAY_PUSH(problems->items, problems->n, problems->cap, problem);
}

/* ---- plain values ---- */

static void
kind_check_number(struct arena *arena, const struct kind *kind, int64_t number, struct str where,
                  struct kind_problems *problems)
{
	if (number < kind->low)
		kind_note(problems, where,
		          arena_printf(arena, "must be at least %lld", (long long)kind->low));
	if (kind->high != 0 && number > kind->high)
		kind_note(problems, where,
		          arena_printf(arena, "must be at most %lld", (long long)kind->high));
}

static int64_t
kind_count_characters(struct str text)
{
	int64_t n = 0;

	for (size_t i = 0; i < text.len; i++)
		n += (text.ptr[i] & 0xc0) != 0x80;
	return n;
}

static void
kind_check_text(struct arena *arena, const struct kind *kind, yyjson_val *text, struct str where,
                struct kind_problems *problems)
{
	int64_t n = kind_count_characters(json_text(text));

	if (n < kind->low)
		kind_note(problems, where, STR("is too short"));
	else if (kind->high != 0 && n > kind->high)
		kind_note(problems, where, STR("is too long"));
	else if (kind->check)
		kind->check(arena, text, where, problems);
}

static void
kind_check_one_of(struct arena *arena, const struct kind *kind, struct str text, struct str where,
                  struct kind_problems *problems)
{
	CLEANUP(buf_fini) struct buf message = BUF_INIT(1 << 12);

	buf_add_c(&message, "must be one of ");
	for (size_t i = 0; kind->values[i]; i++) {
		if (str_eq_c(text, kind->values[i]))
			return;
		buf_addf(&message, "%s%s", i > 0 ? ", " : "", kind->values[i]);
	}
	kind_note(problems, where, arena_str(arena, buf_str(&message)));
}

/* ---- lists and objects ---- */

static void
kind_check_items(struct arena *arena, const struct kind *kind, yyjson_val *list, struct str where,
                 struct kind_problems *problems)
{
	yyjson_val *one;
	size_t i, n;

	yyjson_arr_foreach(list, i, n, one)
	{
		struct str place = arena_printf(arena, "%" STR_FMT ".%zu", STR_ARG(where), i);

		kind_check(arena, kind->item, one, place, problems);
	}
}

static struct str
kind_place(struct arena *arena, struct str where, struct str name)
{
	return where.len == 0 ? name
	                      : arena_printf(arena, "%" STR_FMT ".%" STR_FMT, STR_ARG(where),
	                                     STR_ARG(name));
}

static const struct kind_field *
kind_find_field(const struct kind *kind, struct str name)
{
	const struct kind_field *field = kind ? kind->fields : NULL;

	while (field && field->name && !str_eq_c(name, field->name))
		field++;
	return field && field->name ? field : NULL;
}

/* Missing members come first, by name: the tables list required members in that order. */
static void
kind_check_members(struct arena *arena, const struct kind *kind, yyjson_val *object,
                   struct str where, struct kind_problems *problems)
{
	yyjson_val *key, *value;
	size_t i, n;

	for (const struct kind_field *field = kind->fields; field->name; field++) {
		if (field->is_required && !yyjson_obj_get(object, field->name))
			kind_note(problems, kind_place(arena, where, str_c(field->name)),
			          STR("is required"));
	}
	yyjson_obj_foreach(object, i, n, key, value)
	{
		const struct kind_field *field = kind_find_field(kind, json_text(key));
		struct str place = kind_place(arena, where, json_text(key));

		if (field)
			kind_check(arena, field->kind, value, place, problems);
		else
			kind_note(problems, place, STR("unknown field"));
	}
}

/* ---- any value ---- */

static bool
kind_is_of_form(enum kind_form form, yyjson_val *value)
{
	switch (form) {
	case KIND_FLAG:
		return yyjson_is_bool(value);
	case KIND_NUMBER:
		return yyjson_is_int(value);
	case KIND_TEXT:
	case KIND_ONE_OF:
		return yyjson_is_str(value);
	case KIND_ID_OR_NAME:
		return yyjson_is_int(value) || yyjson_is_str(value);
	case KIND_LIST:
		return yyjson_is_arr(value);
	case KIND_OBJECT:
	case KIND_FIELDS:
		return yyjson_is_obj(value);
	}
	abort();
}

static const char *const form_words[] = {
	[KIND_FLAG] = "must be a boolean",   [KIND_NUMBER] = "must be an integer",
	[KIND_TEXT] = "must be a string",    [KIND_ONE_OF] = "must be a string",
	[KIND_OBJECT] = "must be an object", [KIND_ID_OR_NAME] = "must be an ID or a name",
	[KIND_LIST] = "must be an array",    [KIND_FIELDS] = "must be an object",
};

void
kind_check(struct arena *arena, const struct kind *kind, yyjson_val *value, struct str where,
           struct kind_problems *problems)
{
	if (yyjson_is_null(value) && kind->is_nullable)
		return;
	if (!kind_is_of_form(kind->form, value))
		kind_note(problems, where, str_c(form_words[kind->form]));
	else if (kind->form == KIND_NUMBER)
		kind_check_number(arena, kind, yyjson_get_sint(value), where, problems);
	else if (kind->form == KIND_TEXT)
		kind_check_text(arena, kind, value, where, problems);
	else if (kind->form == KIND_ONE_OF)
		kind_check_one_of(arena, kind, json_text(value), where, problems);
	else if (kind->form == KIND_OBJECT && kind->check)
		kind->check(arena, value, where, problems);
	else if (kind->form == KIND_LIST)
		kind_check_items(arena, kind, value, where, problems);
	else if (kind->form == KIND_FIELDS)
		kind_check_members(arena, kind, value, where, problems);
}

/* ---- parameters ---- */

static bool
kind_read_integer(struct str text, int64_t *ret)
{
	struct str digits = str_starts(text, STR("-")) ? str_skip(text, 1) : text;

	return str_is_digits(digits) && digits.len <= INTEGER_DIGITS &&
	       str_to_i64(text, INT64_MIN, INT64_MAX, ret);
}

static void
kind_check_parameter(struct arena *arena, const struct kind *kind, const struct target_pair *pair,
                     struct kind_problems *problems)
{
	int64_t number;

	if (kind->form == KIND_ONE_OF)
		kind_check_one_of(arena, kind, pair->value, pair->name, problems);
	else if (kind->form == KIND_NUMBER && kind_read_integer(pair->value, &number))
		kind_check_number(arena, kind, number, pair->name, problems);
	else if (kind->form == KIND_NUMBER)
		kind_note(problems, pair->name, str_c(form_words[KIND_NUMBER]));
}

void
kind_check_parameters(struct arena *arena, const struct kind *kind,
                      const struct target_pair pairs[], size_t n, struct kind_problems *problems)
{
	for (size_t i = 0; i < n; i++) {
		const struct kind_field *field = kind_find_field(kind, pairs[i].name);

		if (!field)
			kind_note(problems, pairs[i].name, STR("unknown parameter"));
		else if (pairs[i].value.len > 0)
			kind_check_parameter(arena, field->kind, &pairs[i], problems);
	}
}

/* ---- arrays ---- */

void *
model_with(struct arena *arena, const void *array, size_t n, size_t size, const void *one)
{
	char *copy = arena_calloc(arena, n + 1, size);

	if (n > 0)
		memcpy(copy, array, n * size);
	memcpy(copy + n * size, one, size);
	return copy;
}

void *
model_without(struct arena *arena, const void *array, size_t n, size_t size, size_t i)
{
	const char *old = array;
	char *copy = arena_calloc(arena, n, size);

	memcpy(copy, old, i * size);
	memcpy(copy + i * size, old + (i + 1) * size, (n - i - 1) * size);
	return copy;
}

/* ---- random numbers ---- */

uint64_t
model_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}
