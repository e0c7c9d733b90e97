/* annotation.c: see annotation.h. */
#include "providers/hcloud/annotation.h"

#include "providers/hcloud/operations.h"
#include "providers/hcloud/parse.h"

enum {
	WHY_MAX = 700,
};

/* As the official controller names and counts what it does. */
#define BOOL "annotation/Name.BoolFromService"
#define INT "annotation/Name.IntFromService"
#define DURATION "annotation/Name.DurationFromService"
#define PROTOCOL "annotation/Name.LBSvcProtocolFromService"
#define ALGORITHM "annotation/Name.LBAlgorithmTypeFromService"
#define STRINGS "annotation/Name.StringsFromService"

static const struct str *
look_up(const struct lb_spec *spec, const char *key, const char *operation)
{
	hz_count_operations(operation, 1);
	return lb_annotation(spec, key);
}

/* ---- numbers and truths ------------------------------------------------------------------------------ */

static bool
set_unreadable(const char *operation, const char *key, const struct buf *why, struct error *err)
{
	return err_set(err, ERR_INVALID, "%s: %s: %s", operation, key, why->ptr);
}

bool
hz_annotation_bool(const struct lb_spec *spec, const char *key, bool *ret, struct error *err)
{
	const struct str *text = look_up(spec, key, BOOL);
	char memory[WHY_MAX] = "";
	struct buf why = BUF_FIXED(memory);

	return !text || hz_parse_bool(*text, ret, &why) || set_unreadable(BOOL, key, &why, err);
}

bool
hz_annotation_tri(const struct lb_spec *spec, const char *key, enum hz_tri *ret, struct error *err)
{
	bool is_yes = false;

	if (!hz_annotation_bool(spec, key, &is_yes, err))
		return false;
	if (lb_annotation(spec, key))
		*ret = is_yes ? HZ_YES : HZ_NO;
	return true;
}

bool
hz_annotation_int(const struct lb_spec *spec, const char *key, struct hz_opt_i64 *ret,
                  struct error *err)
{
	const struct str *text = look_up(spec, key, INT);
	char memory[WHY_MAX] = "";
	struct buf why = BUF_FIXED(memory);
	int64_t value;

	if (!text)
		return true;
	if (!hz_parse_int(*text, &value, &why))
		return set_unreadable(INT, key, &why, err);
	*ret = (struct hz_opt_i64){ true, value };
	return true;
}

/* The message ends with the annotation, which the official controller's does not name. */
static bool
set_no_duration(const char *key, const struct buf *why, struct error *err)
{
	return err_set(err, ERR_INVALID, DURATION ": %s (%s)", why->ptr, key);
}

bool
hz_annotation_seconds(const struct lb_spec *spec, const char *key, struct hz_opt_i64 *ret,
                      struct error *err)
{
	const struct str *text = look_up(spec, key, DURATION);
	char memory[WHY_MAX] = "";
	struct buf why = BUF_FIXED(memory);
	int64_t value;

	if (!text)
		return true;
	if (!str_to_i64(*text, INT64_MIN, INT64_MAX, &value)) {
		if (!hz_parse_duration(*text, &value, &why))
			return set_no_duration(key, &why, err);
		value /= NS_PER_SEC;
	}
	*ret = (struct hz_opt_i64){ true, value };
	return true;
}

/* ---- words ------------------------------------------------------------------------------------------- */

/* One of those listed, which are lower case; NULL-terminated. */
static bool
read_word(struct str text, const char *operation, const char *const words[], struct hz_opt_str *ret)
{
	hz_count_operations(operation, 1);
	for (; *words; words++) {
		if (str_eq_nocase(text, str_c(*words))) {
			*ret = (struct hz_opt_str){ true, str_c(*words) };
			return true;
		}
	}
	return false;
}

/* where: accessor and validator, as the official controller calls them. */
static bool
set_unknown_word(const char *where, const char *key, struct str text, struct error *err)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;

	text = arena_lower(&arena, text);
	return err_set(err, ERR_INVALID, "%s: invalid: %" STR_FMT " (%s)", where, STR_ARG(text),
	               key);
}

bool
hz_annotation_protocol(const struct lb_spec *spec, const char *key, struct hz_opt_str *ret,
                       struct error *err)
{
	static const char *const protocols[] = { "tcp", "http", "https", NULL };
	const struct str *text = look_up(spec, key, PROTOCOL);

	return !text || read_word(*text, "annotation/validateServiceProtocol", protocols, ret) ||
	       set_unknown_word(PROTOCOL ": annotation/validateServiceProtocol", key, *text, err);
}

bool
hz_annotation_algorithm(const struct lb_spec *spec, const char *key, struct hz_opt_str *ret,
                        struct error *err)
{
	static const char *const algorithms[] = { "round_robin", "least_connections", NULL };
	const struct str *text = look_up(spec, key, ALGORITHM);

	return !text || read_word(*text, "annotation/validateAlgorithmType", algorithms, ret) ||
	       set_unknown_word(ALGORITHM ": annotation/validateAlgorithmType", key, *text, err);
}

/* ---- texts ------------------------------------------------------------------------------------------- */

void
hz_annotation_text(const struct lb_spec *spec, const char *key, struct hz_opt_str *ret)
{
	const struct str *text = lb_annotation(spec, key);

	if (text)
		*ret = (struct hz_opt_str){ true, *text };
}

static size_t
count_elements(struct str text)
{
	size_t n = 0;

	for (struct str element; str_split(&text, ',', &element);)
		n += str_trim(element).len > 0;
	return n;
}

bool
hz_annotation_list(const struct lb_spec *spec, const char *key, struct arena *arena,
                   struct str **ret, size_t *ret_n)
{
	const struct str *text = look_up(spec, key, STRINGS);
	struct str *elements;
	size_t n = 0;

	if (!text)
		return false;
	elements = arena_calloc(arena, count_elements(*text), sizeof(*elements));
	for (struct str element, rest = *text; str_split(&rest, ',', &element);) {
		element = str_trim(element);
		if (element.len > 0)
			elements[n++] = element;
	}
	*ret = elements;
	*ret_n = n;
	return true;
}
