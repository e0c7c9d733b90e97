/* selector.c: see selector.h.
 *
 * A recursive-descent parser with one token of lookahead (parser.next) reads
 *
 * 	selector     requirement { "," requirement }, or nothing
 * 	requirement  ["!"] key, or key operator value, or key ("in" | "notin") "(" values ")"
 *
 * A word ends at a blank and at any of =!(),<>, so the lexer does not know what a key may contain;
 * keys and values are checked after the word was read. "in" and "notin" are operators behind a key,
 * and words everywhere else. As in labels.Parse, a NUL at the place where a token could start ends
 * the text, and a NUL inside a token ends that token.
 */
#include "providers/hcloud/selector.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/names.h"
#include "base/buf.h"

enum {
	QUOTED_MAX = 700,
};

enum token_kind {
	TOKEN_END,
	TOKEN_WORD,
	TOKEN_IN,
	TOKEN_NOT_IN,
	TOKEN_OPEN,
	TOKEN_CLOSE,
	TOKEN_COMMA,
	TOKEN_NOT,
	TOKEN_EQUALS, /* "=" and "==" */
	TOKEN_NOT_EQUALS,
	TOKEN_GREATER,
	TOKEN_LESS,
};

struct token {
	enum token_kind kind;
	struct str text;
};

enum op {
	OP_EXISTS,
	OP_MISSING,
	OP_IN,
	OP_NOT_IN,
	OP_GREATER,
	OP_LESS,
};

struct requirement {
	struct str key;
	enum op op;
	struct str *values; /* sorted; of OP_IN and OP_NOT_IN; "=" is "in" with one */
	size_t n_values;
	int64_t number; /* of OP_GREATER and OP_LESS */
};

struct hz_selector {
	struct requirement *requirements; /* all of them must hold */
	size_t n;
};

struct parser {
	struct str text; /* the whole text, for errors */
	struct str rest; /* behind next */
	struct token next;
	struct str *values; /* room for all values that the text can hold */
	size_t n_values;
	struct error *err;
};

/* ---- tokens ---- */

#define BLANKS " \t\r\n"

/* The symbol or word at the beginning of the text. */
static struct token
hz_selector_first_token(struct str text)
{
	/* The first match is taken, so "==" and "!=" come first. */
	static const struct {
		const char *text;
		enum token_kind kind;
	} symbols[] = {
		{ "==", TOKEN_EQUALS }, { "!=", TOKEN_NOT_EQUALS }, { "=", TOKEN_EQUALS },
		{ "!", TOKEN_NOT },     { "(", TOKEN_OPEN },        { ")", TOKEN_CLOSE },
		{ ",", TOKEN_COMMA },   { "<", TOKEN_LESS },        { ">", TOKEN_GREATER },
	};
	struct str word = str_head(text, 0);

	for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
		struct str symbol = str_c(symbols[i].text);

		if (str_starts(text, symbol))
			return (struct token){ symbols[i].kind, str_head(text, symbol.len) };
	}
	while (word.len < text.len && text.ptr[word.len] != '\0' &&
	       !char_is_in(text.ptr[word.len], BLANKS "=!(),<>"))
		word.len++;
	if (word.len == 0)
		return (struct token){ TOKEN_END, word };
	if (str_eq_c(word, "in"))
		return (struct token){ TOKEN_IN, word };
	if (str_eq_c(word, "notin"))
		return (struct token){ TOKEN_NOT_IN, word };
	return (struct token){ TOKEN_WORD, word };
}

static struct token
hz_selector_lex(struct str *rest)
{
	struct token token;

	while (rest->len > 0 && char_is_in(rest->ptr[0], BLANKS))
		*rest = str_skip(*rest, 1);
	token = hz_selector_first_token(*rest);
	if (token.kind == TOKEN_END)
		return token;
	*rest = str_skip(*rest, token.text.len);
	if (rest->len > 0 && rest->ptr[0] == '\0') /* a NUL ends the token and is skipped with it */
		*rest = str_skip(*rest, 1);
	return token;
}

static struct token
hz_selector_take_operator(struct parser *p)
{
	struct token token = p->next;

	if (token.kind != TOKEN_END)
		p->next = hz_selector_lex(&p->rest);
	return token;
}

/* Where no operator is expected, "in" and "notin" are words like any other. */
static struct token
hz_selector_take(struct parser *p)
{
	struct token token = hz_selector_take_operator(p);

	if (token.kind == TOKEN_IN || token.kind == TOKEN_NOT_IN)
		token.kind = TOKEN_WORD;
	return token;
}

static bool
hz_selector_is_word_next(const struct parser *p)
{
	return p->next.kind == TOKEN_WORD || p->next.kind == TOKEN_IN ||
	       p->next.kind == TOKEN_NOT_IN;
}

/* `at` is a part of the selector's text; its position, counted from 1, goes into the error. */
static bool
hz_selector_fail_at(struct parser *p, struct str at, const char *problem)
{
	char memory[QUOTED_MAX] = "";
	struct buf quoted = BUF_FIXED(memory);

	quote_add(&quoted, p->text);
	return err_set(p->err, ERR_INVALID, "selector %s, position %zu: %s", quoted.ptr,
	               (size_t)(at.ptr - p->text.ptr) + 1, problem);
}

/* ---- requirements ---- */

static int
hz_selector_compare_values(const void *a, const void *b)
{
	const struct str *x = a, *y = b;

	return str_cmp(*x, *y);
}

static void
hz_selector_add_value(struct parser *p, struct requirement *r, struct str value)
{
	p->values[p->n_values++] = value;
	r->n_values++;
}

/* Reads "(a,b)". An element may be missing, as in "(a,)", and is the empty value then. */
static bool
hz_selector_parse_list(struct parser *p, struct requirement *r)
{
	struct token token = hz_selector_take(p);

	if (token.kind != TOKEN_OPEN)
		return hz_selector_fail_at(p, token.text, "expected '('");
	do {
		struct str value = str_head(p->next.text, 0);

		if (hz_selector_is_word_next(p))
			value = hz_selector_take(p).text;
		hz_selector_add_value(p, r, value);
		token = hz_selector_take(p);
	} while (token.kind == TOKEN_COMMA);
	if (token.kind != TOKEN_CLOSE)
		return hz_selector_fail_at(p, token.text, "expected ',' or ')'");
	return true;
}

/* Reads the operator behind a key, and its values. */
static bool
hz_selector_parse_operator(struct parser *p, struct requirement *r)
{
	struct token token = hz_selector_take_operator(p);

	switch (token.kind) {
	case TOKEN_IN:
	case TOKEN_EQUALS:
		r->op = OP_IN;
		break;
	case TOKEN_NOT_IN:
	case TOKEN_NOT_EQUALS:
		r->op = OP_NOT_IN;
		break;
	case TOKEN_GREATER:
		r->op = OP_GREATER;
		break;
	case TOKEN_LESS:
		r->op = OP_LESS;
		break;
	default:
		return hz_selector_fail_at(p, token.text, "expected =, ==, !=, in, notin, < or >");
	}
	r->values = p->values + p->n_values;
	if (token.kind == TOKEN_IN || token.kind == TOKEN_NOT_IN)
		return hz_selector_parse_list(p, r);
	token = (struct token){ TOKEN_WORD, str_head(p->next.text, 0) };
	if (p->next.kind != TOKEN_END && p->next.kind != TOKEN_COMMA)
		token = hz_selector_take(p);
	if (token.kind != TOKEN_WORD)
		return hz_selector_fail_at(p, token.text, "expected a value");
	hz_selector_add_value(p, r, token.text);
	return true;
}

/* A requirement with '!' has no operator. If one follows nevertheless, the caller refuses it,
 * because it accepts only ',' and the end of the text. */
static bool
hz_selector_parse_requirement(struct parser *p, struct requirement *r)
{
	struct token token;
	bool is_negated = p->next.kind == TOKEN_NOT;

	if (is_negated)
		hz_selector_take(p);
	token = hz_selector_take(p);
	if (token.kind != TOKEN_WORD)
		return hz_selector_fail_at(p, token.text, "expected a key");
	r->key = token.text;
	r->op = is_negated ? OP_MISSING : OP_EXISTS;
	if (!name_is_label_key(r->key))
		return hz_selector_fail_at(
			p, r->key,
			"not the key of a label, such as pool or example.com/pool: at most 63 letters, "
			"digits, '-', '_' and '.', the first and the last a letter or digit");
	if (is_negated || p->next.kind == TOKEN_END || p->next.kind == TOKEN_COMMA)
		return true;
	if (!hz_selector_parse_operator(p, r))
		return false;
	if ((r->op == OP_GREATER || r->op == OP_LESS) &&
	    !str_to_i64(r->values[0], INT64_MIN, INT64_MAX, &r->number))
		return hz_selector_fail_at(p, r->values[0], "< and > compare with an integer");
	for (size_t i = 0; i < r->n_values; i++) {
		if (!name_is_label_value(r->values[i]))
			return hz_selector_fail_at(
				p, r->values[i],
				"not the value of a label: at most 63 letters, digits, '-', '_' and '.', "
				"the first and the last a letter or digit");
	}
	/* hz_selector_holds() searches them for each node. */
	qsort(r->values, r->n_values, sizeof(r->values[0]), hz_selector_compare_values);
	return true;
}

static bool
hz_selector_starts_requirement(const struct parser *p)
{
	return hz_selector_is_word_next(p) || p->next.kind == TOKEN_NOT;
}

/* Behind a requirement is the end, or a comma and another requirement. */
static bool
hz_selector_parse_separator(struct parser *p)
{
	struct token token = hz_selector_take(p);

	if (token.kind == TOKEN_END)
		return true;
	if (token.kind != TOKEN_COMMA)
		return hz_selector_fail_at(p, token.text, "expected ',' or the end");
	if (!hz_selector_starts_requirement(p))
		return hz_selector_fail_at(p, p->next.text, "expected a key after ','");
	return true;
}

static bool
hz_selector_parse_all(struct parser *p, struct hz_selector *selector)
{
	if (p->next.kind != TOKEN_END && !hz_selector_starts_requirement(p))
		return hz_selector_fail_at(p, p->next.text, "expected a key");
	while (p->next.kind != TOKEN_END) {
		if (selector->n == LIMIT_SELECTOR_REQUIREMENTS)
			return err_set(p->err, ERR_INVALID,
			               "a selector of more than %d requirements",
			               LIMIT_SELECTOR_REQUIREMENTS);
		if (!hz_selector_parse_requirement(p, &selector->requirements[selector->n++]) ||
		    !hz_selector_parse_separator(p))
			return false;
	}
	return true;
}

/* A comma separates two requirements, or two values of a list. So there are at most as many of each
 * as commas and one more, and both arrays are allocated once. */
bool
hz_selector_parse(struct str text, struct arena *arena, const struct hz_selector **ret,
                  struct error *err)
{
	struct parser p = { .err = err };
	struct hz_selector *selector;
	size_t n = 1;

	if (text.len > LIMIT_SELECTOR)
		return err_set(err, ERR_INVALID, "a selector of more than %zu bytes",
		               LIMIT_SELECTOR);
	selector = ARENA_NEW(arena, struct hz_selector);
	for (size_t i = 0; i < text.len; i++)
		n += text.ptr[i] == ',';
	selector->requirements = arena_calloc(arena, n, sizeof(*selector->requirements));
	p.values = arena_calloc(arena, n, sizeof(*p.values));
	p.text = arena_str(arena, text);
	p.rest = p.text;
	p.next = hz_selector_lex(&p.rest);
	if (!hz_selector_parse_all(&p, selector))
		return false;
	*ret = selector;
	return true;
}

/* ---- matching ---- */

/* `value` is NULL if the node does not have the label. Such a node satisfies "!=" and "notin". */
static bool
hz_selector_holds(const struct requirement *r, const struct str *value)
{
	bool has_value = false;
	int64_t number;

	if (value && (r->op == OP_IN || r->op == OP_NOT_IN))
		has_value = bsearch(value, r->values, r->n_values, sizeof(r->values[0]),
		                    hz_selector_compare_values) != NULL;
	switch (r->op) {
	case OP_EXISTS:
		return value;
	case OP_MISSING:
		return !value;
	case OP_IN:
		return has_value;
	case OP_NOT_IN:
		return !has_value;
	case OP_GREATER:
		return value && str_to_i64(*value, INT64_MIN, INT64_MAX, &number) &&
		       number > r->number;
	case OP_LESS:
		return value && str_to_i64(*value, INT64_MIN, INT64_MAX, &number) &&
		       number < r->number;
	}
	return false;
}

bool
hz_selector_matches(const struct hz_selector *selector, const struct label *const labels[],
                    size_t n)
{
	for (size_t i = 0; i < selector->n; i++) {
		const struct requirement *r = &selector->requirements[i];
		const struct str *value = NULL;

		for (size_t k = 0; !value && k < n; k++) {
			if (str_eq(labels[k]->key, r->key))
				value = &labels[k]->value;
		}
		if (!hz_selector_holds(r, value))
			return false;
	}
	return true;
}
