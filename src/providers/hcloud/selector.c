/* hcloud/selector.c: see selector.h.
 *
 * One token of lookahead is all it takes. What the Go parser does and a reader may not expect: words end at blanks and at any of
 * =!(),<>, so keys are checked only after they were cut; "in" and "notin" are operators behind a key and words everywhere else; a
 * NUL ends the text where a token could start, and a token where it stands inside one.
 */
#include "providers/hcloud/selector.h"

#include "base/limits.h"
#include "base/quote.h"

enum {
	NAME_MAX_BYTES = 63,    /* of a key without its prefix, and of a value */
	PREFIX_MAX_BYTES = 253, /* a DNS subdomain */
	WHY_MAX = 700,
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
	const struct str *values; /* of OP_IN and OP_NOT_IN; "=" is "in" with one */
	size_t n_values;
	int64_t number; /* of OP_GREATER and OP_LESS */
};

struct hz_selector {
	struct requirement *requirements; /* all of them must hold */
	size_t n;
};

struct parser {
	struct str rest;
	struct token next;
	struct str *values; /* room for all values that the text can hold */
	size_t n_values;
	struct error *err;
};

/* ---- tokens ------------------------------------------------------------------------------------------ */

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool
is_special(char c)
{
	return c == '=' || c == '!' || c == '(' || c == ')' || c == ',' || c == '<' || c == '>';
}

static size_t
word_len(struct str text)
{
	size_t n = 0;

	while (n < text.len && text.ptr[n] != '\0' && !is_blank(text.ptr[n]) &&
	       !is_special(text.ptr[n]))
		n++;
	return n;
}

static struct token
token_of_word(struct str word)
{
	if (str_eq_c(word, "in"))
		return (struct token){ TOKEN_IN, word };
	if (str_eq_c(word, "notin"))
		return (struct token){ TOKEN_NOT_IN, word };
	return (struct token){ TOKEN_WORD, word };
}

/* The longest that the text starts with. */
static struct token
token_of_symbol(struct str text)
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
			return (struct token){ symbols[i].kind, symbol };
	}
	return (struct token){ TOKEN_END, STR_EMPTY };
}

static struct token
lex(struct str *rest)
{
	struct token token = { TOKEN_END, STR_EMPTY };

	while (rest->len > 0 && is_blank(rest->ptr[0]))
		*rest = str_skip(*rest, 1);
	if (rest->len == 0 || rest->ptr[0] == '\0')
		return token;
	token = is_special(rest->ptr[0]) ? token_of_symbol(*rest)
	                                 : token_of_word(str_head(*rest, word_len(*rest)));
	*rest = str_skip(*rest, token.text.len);
	if (rest->len > 0 && rest->ptr[0] == '\0') /* it ends the token and is gone with it */
		*rest = str_skip(*rest, 1);
	return token;
}

/* Where an operator is expected. */
static struct token
take_operator(struct parser *p)
{
	struct token token = p->next;

	if (token.kind != TOKEN_END)
		p->next = lex(&p->rest);
	return token;
}

/* Anywhere else "in" is a word like others. */
static enum token_kind
kind_of_next(const struct parser *p)
{
	bool is_word = p->next.kind == TOKEN_IN || p->next.kind == TOKEN_NOT_IN;

	return is_word ? TOKEN_WORD : p->next.kind;
}

static struct token
take(struct parser *p)
{
	enum token_kind kind = kind_of_next(p);
	struct token token = take_operator(p);

	token.kind = kind;
	return token;
}

static bool
unexpected(struct parser *p, struct token found, const char *expected)
{
	return err_set(p->err, ERR_INVALID, "found '%" STR_FMT "', expected: %s",
	               STR_ARG(found.text), expected);
}

/* ---- keys and values --------------------------------------------------------------------------------- */

static bool
is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool
is_name(struct str text)
{
	for (size_t i = 0; i < text.len; i++) {
		if (!is_alnum(text.ptr[i]) && text.ptr[i] != '-' && text.ptr[i] != '_' &&
		    text.ptr[i] != '.')
			return false;
	}
	return text.len > 0 && is_alnum(text.ptr[0]) && is_alnum(text.ptr[text.len - 1]);
}

static bool
is_dns_label(struct str text)
{
	for (size_t i = 0; i < text.len; i++) {
		if (text.ptr[i] != '-' &&
		    (!is_alnum(text.ptr[i]) || (text.ptr[i] >= 'A' && text.ptr[i] <= 'Z')))
			return false;
	}
	return text.len > 0 && text.ptr[0] != '-' && text.ptr[text.len - 1] != '-';
}

static bool
is_dns_subdomain(struct str text)
{
	for (struct str label, rest = text; str_split(&rest, '.', &label);) {
		if (!is_dns_label(label))
			return false;
	}
	return true;
}

#define NAME_RULE                                                   \
	"must consist of alphanumeric characters, '-', '_' or '.'," \
	" and must start and end with an alphanumeric character"

static void
add_why(struct buf *why, const char *part, const char *rule)
{
	buf_addf(why, "%s%s %s", why->len > 0 ? "; " : "", part, rule);
}

static void
check_prefix(struct str prefix, struct buf *why)
{
	if (prefix.len == 0) {
		add_why(why, "prefix part", "must be non-empty");
		return;
	}
	if (prefix.len > PREFIX_MAX_BYTES)
		add_why(why, "prefix part", "must be no more than 253 bytes");
	if (!is_dns_subdomain(prefix))
		add_why(why, "prefix part",
		        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
		        "characters, '-' or '.', and must start and end with an alphanumeric "
		        "character");
}

static void
check_name(struct str name, struct buf *why)
{
	if (name.len == 0)
		add_why(why, "name part", "must be non-empty");
	if (name.len > NAME_MAX_BYTES)
		add_why(why, "name part", "must be no more than 63 bytes");
	if (!is_name(name))
		add_why(why, "name part", NAME_RULE);
}

static bool
set_bad_key(struct parser *p, struct str key, const struct buf *why)
{
	char memory[WHY_MAX] = "";
	struct buf quoted = BUF_FIXED(memory);

	quote_add(&quoted, key);
	return err_set(p->err, ERR_INVALID, "<nil>: Invalid value: %s: %s", quoted.ptr, why->ptr);
}

static bool
check_key(struct parser *p, struct str key)
{
	char memory[WHY_MAX] = "";
	struct buf why = BUF_FIXED(memory);
	struct str prefix, name = key;

	if (str_cut(key, '/', &prefix, &name))
		check_prefix(prefix, &why);
	if (str_index(name, '/') < 0) {
		check_name(name, &why);
	} else {
		buf_reset(&why);
		add_why(&why, "a valid label key",
		        NAME_RULE " with an optional DNS subdomain prefix and '/' "
		                  "(e.g. 'example.com/MyName')");
	}
	return why.len == 0 || set_bad_key(p, key, &why);
}

static bool
set_bad_value(struct parser *p, struct str key, struct str value, const char *why)
{
	char memory[WHY_MAX] = "";
	struct buf quoted = BUF_FIXED(memory);

	quote_add(&quoted, value);
	return err_set(p->err, ERR_INVALID, "values[%" STR_FMT "]: Invalid value: %s: %s",
	               STR_ARG(key), quoted.ptr, why);
}

static bool
check_value(struct parser *p, struct str key, struct str value)
{
	if (value.len > NAME_MAX_BYTES)
		return set_bad_value(p, key, value, "must be no more than 63 bytes");
	if (value.len > 0 && !is_name(value))
		return set_bad_value(p, key, value,
		                     "a valid label must be an empty string or consist of "
		                     "alphanumeric characters, '-', '_' or '.', and must start "
		                     "and end with an alphanumeric character");
	return true;
}

static bool
check_values(struct parser *p, const struct requirement *r)
{
	for (size_t i = 0; i < r->n_values; i++) {
		if (!check_value(p, r->key, r->values[i]))
			return false;
	}
	return true;
}

/* A value that is no number at all is one that is no label either, but for the empty one and long ones. */
static bool
check_number(struct parser *p, struct requirement *r)
{
	struct str value = r->values[0];

	return check_value(p, r->key, value) &&
	       (str_to_i64(value, INT64_MIN, INT64_MAX, &r->number) ||
	        set_bad_value(p, r->key, value,
	                      "for 'Gt', 'Lt' operators, the value must be an integer"));
}

/* ---- requirements ------------------------------------------------------------------------------------ */

static void
add_value(struct parser *p, struct requirement *r, struct str value)
{
	p->values[p->n_values++] = value;
	r->n_values++;
}

/* "(a,b)"; what is missing before, between or behind commas is the empty value. */
static bool
parse_list(struct parser *p, struct requirement *r)
{
	struct token token = take(p);

	if (token.kind != TOKEN_OPEN)
		return unexpected(p, token, "'('");
	for (bool is_last = false; !is_last; is_last = token.kind == TOKEN_CLOSE) {
		struct token value = { TOKEN_WORD, STR_EMPTY };

		if (kind_of_next(p) == TOKEN_WORD)
			value = take(p);
		add_value(p, r, value.text);
		token = take(p);
		if (token.kind != TOKEN_COMMA && token.kind != TOKEN_CLOSE)
			return unexpected(p, token, "',', ')' or identifier");
	}
	return true;
}

static bool
parse_value(struct parser *p, struct requirement *r)
{
	struct token token = { TOKEN_WORD, STR_EMPTY };

	if (p->next.kind != TOKEN_END && p->next.kind != TOKEN_COMMA)
		token = take(p);
	if (token.kind != TOKEN_WORD)
		return unexpected(p, token, "identifier");
	add_value(p, r, token.text);
	return true;
}

static bool
infer_operator(struct parser *p, struct requirement *r)
{
	struct token token = take_operator(p);

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
		return unexpected(p, token, "in, notin, =, ==, !=, gt, lt");
	}
	r->values = p->values + p->n_values;
	return token.kind == TOKEN_IN || token.kind == TOKEN_NOT_IN ? parse_list(p, r)
	                                                            : parse_value(p, r);
}

/* What follows "!a" is left to the caller, who knows only ',' and the end. */
static bool
parse_requirement(struct parser *p, struct requirement *r)
{
	struct token token;
	bool is_negated = p->next.kind == TOKEN_NOT;

	if (is_negated)
		take(p);
	token = take(p);
	if (token.kind != TOKEN_WORD)
		return unexpected(p, token, "identifier");
	r->key = token.text;
	r->op = is_negated ? OP_MISSING : OP_EXISTS;
	if (!check_key(p, r->key))
		return false;
	if (is_negated || p->next.kind == TOKEN_END || p->next.kind == TOKEN_COMMA)
		return true;
	if (!infer_operator(p, r))
		return false;
	return r->op == OP_GREATER || r->op == OP_LESS ? check_number(p, r) : check_values(p, r);
}

static bool
starts_requirement(const struct parser *p)
{
	return kind_of_next(p) == TOKEN_WORD || p->next.kind == TOKEN_NOT;
}

/* After a requirement: the end, or a comma and the start of another. */
static bool
go_on(struct parser *p)
{
	struct token token = take(p);

	if (token.kind == TOKEN_END)
		return true;
	if (token.kind != TOKEN_COMMA)
		return unexpected(p, token, "',' or 'end of string'");
	return starts_requirement(p) || unexpected(p, p->next, "identifier after ','");
}

static bool
parse_all(struct parser *p, struct hz_selector *selector)
{
	if (p->next.kind != TOKEN_END && !starts_requirement(p))
		return unexpected(p, p->next, "!, identifier, or 'end of string'");
	while (p->next.kind != TOKEN_END) {
		if (!parse_requirement(p, &selector->requirements[selector->n++]))
			return err_wrap(p->err, "unable to parse requirement");
		if (!go_on(p))
			return false;
	}
	return true;
}

static size_t
count_commas(struct str text)
{
	size_t n = 0;

	for (size_t i = 0; i < text.len; i++)
		n += text.ptr[i] == ',';
	return n;
}

/* Commas part requirements, and values; every value but the last of each requirement has one of its own. */
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
	n = count_commas(text) + 1;
	selector->requirements = arena_calloc(arena, n, sizeof(*selector->requirements));
	p.values = arena_calloc(arena, n, sizeof(*p.values));
	p.rest = arena_str(arena, text);
	p.next = lex(&p.rest);
	if (!parse_all(&p, selector))
		return false;
	*ret = selector;
	return true;
}

/* ---- matching ---------------------------------------------------------------------------------------- */

static const struct str *
find(const struct label *const labels[], size_t n, struct str key)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq(labels[i]->key, key))
			return &labels[i]->value;
	}
	return NULL;
}

static bool
has_value(const struct requirement *r, const struct str *value)
{
	for (size_t i = 0; value && i < r->n_values; i++) {
		if (str_eq(r->values[i], *value))
			return true;
	}
	return false;
}

static bool
holds(const struct requirement *r, const struct str *value)
{
	int64_t number;

	switch (r->op) {
	case OP_EXISTS:
		return value;
	case OP_MISSING:
		return !value;
	case OP_IN:
		return has_value(r, value);
	case OP_NOT_IN:
		return !has_value(r, value);
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

		if (!holds(r, find(labels, n, r->key)))
			return false;
	}
	return true;
}
