/* hetzner_selector.c: label selectors: k, !k, k=v, k==v, k!=v, k in (a,b), k notin (a,b), joined by
 * commas. */
#include <ctype.h>

#include "hetzner_internal.h"

enum { PART_MAX = 63, PREFIX_MAX = 253, SHOWN = 40 };

enum op { OP_EXISTS, OP_ABSENT, OP_IN, OP_NOT_IN };

struct term {
	enum op op;
	struct str key;
	struct str *values;
	size_t n_values;
	struct term *next;
};

struct hm_selector {
	struct term *first;
};

/* ---- words ---- */

static bool
hm_is_word(struct str s)
{
	if (s.len == 0 || s.len > PART_MAX || !isalnum((unsigned char)s.ptr[0]) ||
	    !isalnum((unsigned char)s.ptr[s.len - 1]))
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (!isalnum((unsigned char)s.ptr[i]) && !char_is_in(s.ptr[i], "._-"))
			return false;
	}
	return true;
}

/* A key as selectors may name it; the length of a prefix is limited for labels only. */
static bool
hm_is_selected_key(struct str key)
{
	struct str prefix, rest;

	if (!str_cut(key, '/', &prefix, &rest))
		return hm_is_word(key);
	for (size_t i = 0; i < prefix.len; i++) {
		if (!isalnum((unsigned char)prefix.ptr[i]) && !char_is_in(prefix.ptr[i], ".-"))
			return false;
	}
	return prefix.len > 0 && hm_is_word(rest);
}

bool
hm_is_label_key(struct str key)
{
	ptrdiff_t slash = str_index(key, '/');

	return slash <= PREFIX_MAX && hm_is_selected_key(key);
}

bool
hm_is_label_value(struct str value)
{
	return value.len == 0 || hm_is_word(value);
}

/* ---- parsing ---- */

static void
hm_skip_space(struct str *rest)
{
	while (rest->len > 0 && isspace((unsigned char)rest->ptr[0]))
		*rest = str_skip(*rest, 1);
}

static struct str
hm_cut_word(struct str *rest, const char *punctuation)
{
	size_t n = 0;
	struct str word;

	while (n < rest->len &&
	       (isalnum((unsigned char)rest->ptr[n]) || char_is_in(rest->ptr[n], punctuation)))
		n++;
	word = str_head(*rest, n);
	*rest = str_skip(*rest, n);
	return word;
}

static bool
hm_cut_key(struct str *rest, struct str *ret)
{
	*ret = hm_cut_word(rest, "._-/");
	return hm_is_selected_key(*ret);
}

static bool
hm_cut_text(struct str *rest, struct str text)
{
	if (!str_starts(*rest, text))
		return false;
	*rest = str_skip(*rest, text.len);
	return true;
}

/* "in (a,b)" or "notin (a,b)". The values are checked by hm_selector_parse(). */
static bool
hm_cut_set(struct arena *arena, struct str *rest, struct term *term)
{
	struct str list, after, one;

	if (hm_cut_text(rest, STR("in")))
		term->op = OP_IN;
	else if (hm_cut_text(rest, STR("notin")))
		term->op = OP_NOT_IN;
	else
		return false;
	hm_skip_space(rest);
	if (!hm_cut_text(rest, STR("(")) || !str_cut(*rest, ')', &list, &after) ||
	    str_index(list, '(') >= 0)
		return false;
	*rest = after;
	term->values = arena_calloc(arena, list.len + 1, sizeof(*term->values));
	while (str_split(&list, ',', &one))
		term->values[term->n_values++] = str_trim(one);
	return true;
}

static bool
hm_cut_comparison(struct arena *arena, struct str *rest, struct term *term)
{
	if (hm_cut_text(rest, STR("!=")))
		term->op = OP_NOT_IN;
	else if (hm_cut_text(rest, STR("==")) || hm_cut_text(rest, STR("=")))
		term->op = OP_IN;
	else
		return false;
	hm_skip_space(rest);
	term->values = ARENA_NEW(arena, struct str);
	term->values[term->n_values++] = hm_cut_word(rest, "._-");
	return hm_is_label_value(term->values[0]);
}

/* Reads a term and the comma after it. */
static bool
hm_cut_term(struct arena *arena, struct str *rest, struct term *term)
{
	bool has_space;

	hm_skip_space(rest);
	if (hm_cut_text(rest, STR("!"))) {
		term->op = OP_ABSENT;
		hm_skip_space(rest);
		if (!hm_cut_key(rest, &term->key))
			return false;
	} else {
		if (!hm_cut_key(rest, &term->key))
			return false;
		has_space = rest->len > 0 && isspace((unsigned char)rest->ptr[0]);
		hm_skip_space(rest);
		if (rest->len > 0 && char_is_in(rest->ptr[0], "=!")) {
			if (!hm_cut_comparison(arena, rest, term))
				return false;
		} else if (rest->len > 0 && rest->ptr[0] != ',') {
			if (!has_space || !hm_cut_set(arena, rest, term))
				return false;
		}
	}
	hm_skip_space(rest);
	return rest->len == 0 || hm_cut_text(rest, STR(","));
}

const struct hm_selector *
hm_selector_parse(struct arena *arena, struct str text, struct str *ret_problem)
{
	struct hm_selector *selector = ARENA_NEW(arena, struct hm_selector);
	struct term **link = &selector->first;
	struct str rest = text;

	while (rest.len > 0) {
		struct term *term = ARENA_NEW(arena, struct term);
		struct str start = rest;

		if (!hm_cut_term(arena, &rest, term)) {
			*ret_problem = arena_printf(arena,
			                            "label selector is invalid near '%" STR_FMT "'",
			                            STR_ARG(str_head(start, SHOWN)));
			return NULL;
		}
		for (size_t i = 0; i < term->n_values; i++) {
			if (hm_is_label_value(term->values[i]))
				continue;
			*ret_problem = arena_printf(
				arena,
				"label selector has an invalid value in the set of '%" STR_FMT "'",
				STR_ARG(term->key));
			return NULL;
		}
		*link = term;
		link = &term->next;
	}
	if (str_ends(str_trim(text), STR(","))) {
		*ret_problem = STR("label selector ends with a comma");
		return NULL;
	}
	return selector;
}

/* ---- matching ---- */

static const struct str *
hm_value_of(const struct hetzner_resource *resource, struct str key)
{
	for (size_t i = 0; i < resource->n_labels; i++) {
		if (str_eq(resource->labels[i].key, key))
			return &resource->labels[i].value;
	}
	return NULL;
}

static bool
hm_term_matches(const struct term *term, const struct hetzner_resource *resource)
{
	const struct str *value = hm_value_of(resource, term->key);
	bool is_in = false;

	if (term->op == OP_EXISTS)
		return value;
	if (term->op == OP_ABSENT)
		return !value;
	for (size_t i = 0; i < term->n_values; i++)
		is_in = is_in || (value && str_eq(*value, term->values[i]));
	return is_in == (term->op == OP_IN);
}

bool
hm_selector_matches(const struct hm_selector *selector, const struct hetzner_resource *resource)
{
	for (const struct term *term = selector->first; term; term = term->next) {
		if (!hm_term_matches(term, resource))
			return false;
	}
	return true;
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

void
hm_check_labels(struct arena *arena, yyjson_val *labels, struct str where,
                struct kind_problems *problems)
{
	yyjson_val *key, *value;
	size_t i, n;

	yyjson_obj_foreach(labels, i, n, key, value)
	{
		struct str problem = hm_label_problem(arena, json_text(key), value);

		if (problem.len > 0)
			kind_note(problems, where, problem);
	}
}
