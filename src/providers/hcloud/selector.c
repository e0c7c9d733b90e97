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

#include "base/limits.h"
#include "base/names.h"
#include "base/quote.h"

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

static bool
hz_selector_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool
hz_selector_is_special(char c)
{
	return c == '=' || c == '!' || c == '(' || c == ')' || c == ',' || c == '<' || c == '>';
}

static size_t
hz_selector_word_len(struct str text)
{
	size_t n = 0;

	while (n < text.len && text.ptr[n] != '\0' && !hz_selector_is_blank(text.ptr[n]) &&
	       !hz_selector_is_special(text.ptr[n]))
		n++;
	return n;
}

static struct token
hz_selector_token_of_word(struct str word)
{
	if (str_eq_c(word, "in"))
		return (struct token){ TOKEN_IN, word };
	if (str_eq_c(word, "notin"))
		return (struct token){ TOKEN_NOT_IN, word };
	return (struct token){ TOKEN_WORD, word };
}

/* Returns the longest symbol that the text starts with. The table has "==" and "!=" first, because
 * the first match is taken. */
static struct token
hz_selector_token_of_symbol(struct str text)
{
	static const struct {
		const char *text;
		enum token_kind kind;
	} symbols[] = {
		{ "==", TOKEN_EQUALS }, { "!=", TOKEN_NOT_EQUALS }, { "=", TOKEN_EQUALS },
		{ "!", TOKEN_NOT },     { "(", TOKEN_OPEN },        { ")", TOKEN_CLOSE },
		{ ",", TOKEN_COMMA },   { "<", TOKEN_LESS },        { ">", TOKEN_GREATER },
	};

	for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
		struct str symbol = str_c(symbols[i].text);

		if (str_starts(text, symbol))
			return (struct token){ symbols[i].kind, str_head(text, symbol.len) };
	}
	return (struct token){ TOKEN_END, STR_EMPTY };
}

static struct token
hz_selector_lex(struct str *rest)
{
	struct token token = { .kind = TOKEN_END };

	while (rest->len > 0 && hz_selector_is_blank(rest->ptr[0]))
		*rest = str_skip(*rest, 1);
	token.text = str_head(*rest, 0);
	if (rest->len == 0 || rest->ptr[0] == '\0')
		return token;
	token = hz_selector_is_special(rest->ptr[0])
	                ? hz_selector_token_of_symbol(*rest)
	                : hz_selector_token_of_word(str_head(*rest, hz_selector_word_len(*rest)));
	*rest = str_skip(*rest, token.text.len);
	if (rest->len > 0 && rest->ptr[0] == '\0') /* a NUL ends the token and is skipped with it */
		*rest = str_skip(*rest, 1);
	return token;
}

/* Takes the next token where an operator is expected. */
static struct token
hz_selector_take_operator(struct parser *p)
{
	struct token token = p->next;

	if (token.kind != TOKEN_END)
		p->next = hz_selector_lex(&p->rest);
	return token;
}

/* Returns the kind of the next token where no operator is expected: there "in" and "notin" are
 * words. */
static enum token_kind
hz_selector_kind_of_next(const struct parser *p)
{
	bool is_word = p->next.kind == TOKEN_IN || p->next.kind == TOKEN_NOT_IN;

	return is_word ? TOKEN_WORD : p->next.kind;
}

static struct token
hz_selector_take(struct parser *p)
{
	enum token_kind kind = hz_selector_kind_of_next(p);
	struct token token = hz_selector_take_operator(p);

	token.kind = kind;
	return token;
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

/* ---- keys and values ---- */

static bool
hz_selector_check_key(struct parser *p, struct str key)
{
	return name_is_label_key(key) ||
	       hz_selector_fail_at(
		       p, key,
		       "not the key of a label, such as pool or example.com/pool: at most 63 letters, "
		       "digits, '-', '_' and '.', the first and the last a letter or digit");
}

static bool
hz_selector_check_value(struct parser *p, struct str value)
{
	return name_is_label_value(value) ||
	       hz_selector_fail_at(
		       p, value,
		       "not the value of a label: at most 63 letters, digits, '-', '_' and '.', the "
		       "first and the last a letter or digit");
}

static int
hz_selector_compare_values(const void *a, const void *b)
{
	const struct str *x = a, *y = b;

	return str_cmp(*x, *y);
}

/* Sorts them, because hz_selector_has_value() searches them for each node. */
static bool
hz_selector_check_values(struct parser *p, struct requirement *r)
{
	for (size_t i = 0; i < r->n_values; i++) {
		if (!hz_selector_check_value(p, r->values[i]))
			return false;
	}
	qsort(r->values, r->n_values, sizeof(r->values[0]), hz_selector_compare_values);
	return true;
}

static bool
hz_selector_check_number(struct parser *p, struct requirement *r)
{
	struct str value = r->values[0];

	return str_to_i64(value, INT64_MIN, INT64_MAX, &r->number)
	               ? hz_selector_check_value(p, value)
	               : hz_selector_fail_at(p, value, "< and > compare with an integer");
}

/* ---- requirements ---- */

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
	for (bool is_last = false; !is_last; is_last = token.kind == TOKEN_CLOSE) {
		struct token value = { TOKEN_WORD, str_head(p->next.text, 0) };

		if (hz_selector_kind_of_next(p) == TOKEN_WORD)
			value = hz_selector_take(p);
		hz_selector_add_value(p, r, value.text);
		token = hz_selector_take(p);
		if (token.kind != TOKEN_COMMA && token.kind != TOKEN_CLOSE)
			return hz_selector_fail_at(p, token.text, "expected ',' or ')'");
	}
	return true;
}

static bool
hz_selector_parse_value(struct parser *p, struct requirement *r)
{
	struct token token = { TOKEN_WORD, str_head(p->next.text, 0) };

	if (p->next.kind != TOKEN_END && p->next.kind != TOKEN_COMMA)
		token = hz_selector_take(p);
	if (token.kind != TOKEN_WORD)
		return hz_selector_fail_at(p, token.text, "expected a value");
	hz_selector_add_value(p, r, token.text);
	return true;
}

static bool
hz_selector_infer_operator(struct parser *p, struct requirement *r)
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
	return token.kind == TOKEN_IN || token.kind == TOKEN_NOT_IN ? hz_selector_parse_list(p, r)
	                                                            : hz_selector_parse_value(p, r);
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
	if (!hz_selector_check_key(p, r->key))
		return false;
	if (is_negated || p->next.kind == TOKEN_END || p->next.kind == TOKEN_COMMA)
		return true;
	if (!hz_selector_infer_operator(p, r))
		return false;
	return r->op == OP_GREATER || r->op == OP_LESS ? hz_selector_check_number(p, r)
	                                               : hz_selector_check_values(p, r);
}

static bool
hz_selector_starts_requirement(const struct parser *p)
{
	return hz_selector_kind_of_next(p) == TOKEN_WORD || p->next.kind == TOKEN_NOT;
}

/* A requirement must be followed by the end, or by a comma and the start of another requirement. */
static bool
hz_selector_next_requirement(struct parser *p)
{
	struct token token = hz_selector_take(p);

	if (token.kind == TOKEN_END)
		return true;
	if (token.kind != TOKEN_COMMA)
		return hz_selector_fail_at(p, token.text, "expected ',' or the end");
	return hz_selector_starts_requirement(p) ||
	       hz_selector_fail_at(p, p->next.text, "expected a key after ','");
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
		    !hz_selector_next_requirement(p))
			return false;
	}
	return true;
}

static size_t
hz_selector_count_commas(struct str text)
{
	size_t n = 0;

	for (size_t i = 0; i < text.len; i++)
		n += text.ptr[i] == ',';
	return n;
}

/* A comma separates two requirements, or two values of a list. So there are at most as many of each
 * as commas and one more, and both arrays are allocated once. */
bool
hz_selector_parse(struct str text, struct arena *arena, const struct hz_selector **ret,
                  struct error *err)
{
	struct parser p = { .err = err };
	struct hz_selector *selector;
	size_t n;

	if (text.len > LIMIT_SELECTOR)
		return err_set(err, ERR_INVALID, "a selector of more than %zu bytes",
		               LIMIT_SELECTOR);
	selector = ARENA_NEW(arena, struct hz_selector);
	n = hz_selector_count_commas(text) + 1;
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

static const struct str *
hz_selector_find(const struct label *const labels[], size_t n, struct str key)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq(labels[i]->key, key))
			return &labels[i]->value;
	}
	return NULL;
}

static bool
hz_selector_has_value(const struct requirement *r, const struct str *value)
{
	return value && bsearch(value, r->values, r->n_values, sizeof(r->values[0]),
	                        hz_selector_compare_values);
}

/* `value` is NULL if the node does not have the label. Such a node satisfies "!=" and "notin". */
static bool
hz_selector_holds(const struct requirement *r, const struct str *value)
{
	int64_t number;

	switch (r->op) {
	case OP_EXISTS:
		return value;
	case OP_MISSING:
		return !value;
	case OP_IN:
		return hz_selector_has_value(r, value);
	case OP_NOT_IN:
		return !hz_selector_has_value(r, value);
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

		if (!hz_selector_holds(r, hz_selector_find(labels, n, r->key)))
			return false;
	}
	return true;
}
