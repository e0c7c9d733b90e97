/* base/split.c: a state machine over the top level of a list response.
 *
 * Between values it advances byte by byte. Inside a value, where nearly all bytes are, a table lets
 * it skip to the next quote or bracket. An element that lies in one chunk is handed out in place;
 * an element that spans chunks is assembled in `item`.
 */
#include "base/split.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/limits.h"

enum state {
	AT_START,
	AT_FIRST_KEY, /* or the end of the object */
	AT_KEY,
	IN_KEY,
	AT_COLON,
	AT_VALUE,
	IN_VALUE,
	AFTER_VALUE,
	AT_FIRST_ITEM, /* or the end of the array */
	AT_ITEM,
	IN_ITEM,
	AFTER_ITEM,
	AT_END,
	HAS_FAILED,
};

struct json_split {
	struct str items;
	enum state state;
	bool is_items; /* the current key is the name of the array */
	bool seen_items;
	size_t key_pos; /* position in head of the opening quote of the current key */
	struct buf head;
	struct buf item; /* the part of an element that came with earlier chunks */

	/* The state within the current value. */
	bool is_scalar; /* a number, true, false, null: ends before a delimiter */
	bool in_string;
	bool is_escaped; /* the next byte belongs to a backslash */
	unsigned depth;
};

/* The chunk that is being processed. */
struct feed {
	const char *p;
	const char *end;
	bool (*each)(void *arg, struct str item, struct error *err);
	void *arg;
};

enum {
	CLASS_BRACKET = 1,   /* brackets and quotes: significant outside of strings */
	CLASS_STRING = 2,    /* significant inside of strings */
	CLASS_DELIMITER = 4, /* ends a scalar */
	CLASS_SPACE = 8,
};

static const unsigned char class_of[256] = {
	['{'] = CLASS_BRACKET,
	['['] = CLASS_BRACKET,
	['}'] = CLASS_BRACKET | CLASS_DELIMITER,
	[']'] = CLASS_BRACKET | CLASS_DELIMITER,
	['"'] = CLASS_BRACKET | CLASS_STRING,
	['\\'] = CLASS_STRING,
	[','] = CLASS_DELIMITER,
	[':'] = CLASS_DELIMITER,
	[' '] = CLASS_DELIMITER | CLASS_SPACE,
	['\t'] = CLASS_DELIMITER | CLASS_SPACE,
	['\n'] = CLASS_DELIMITER | CLASS_SPACE,
	['\r'] = CLASS_DELIMITER | CLASS_SPACE,
};

static inline bool
is_class(char c, unsigned class)
{
	return (class_of[(unsigned char)c] & class) != 0;
}

static inline const char *
find_class(const char *p, const char *end, unsigned class)
{
	while (p < end && !is_class(*p, class))
		p++;
	return p;
}

struct json_split *
json_split_new(struct str items, size_t max_item_bytes)
{
	struct json_split *s = xcalloc(1, sizeof(*s));

	s->items = items;
	s->head = BUF_INIT(LIMIT_JSON_HEAD);
	s->item = BUF_INIT(max_item_bytes);
	return s;
}

void
json_split_free(struct json_split *s)
{
	buf_fini(&s->head);
	buf_fini(&s->item);
	free(s);
}

static bool
add_head(struct json_split *s, const char *p, size_t len, struct error *err)
{
	buf_add(&s->head, p, len);
	if (!buf_ok(&s->head))
		return err_set(err, ERR_INVALID,
		               "the list without its elements is larger than %zu bytes",
		               s->head.max);
	return true;
}

static bool
unexpected(struct feed *f, struct error *err)
{
	return err_set(err, ERR_INVALID, "invalid JSON: unexpected byte 0x%02x in a list",
	               (unsigned)(unsigned char)*f->p);
}

/* Advances inside a string, after its opening quote, to the closing quote or the end of chunk. */
static const char *
scan_string(struct json_split *s, const char *p, const char *end)
{
	while (p < end) {
		if (s->is_escaped) {
			s->is_escaped = false;
			p++;
			continue;
		}
		p = find_class(p, end, CLASS_STRING);
		if (p == end)
			break;
		if (*p++ == '"') {
			s->in_string = false;
			break;
		}
		s->is_escaped = true;
	}
	return p;
}

static void
begin_value(struct json_split *s, char first)
{
	s->is_scalar = !is_class(first, CLASS_BRACKET);
	s->in_string = false;
	s->is_escaped = false;
	s->depth = 0;
}

/* Advances inside a value: f->p moves past the bytes that belong to it. */
static bool
scan_value(struct json_split *s, struct feed *f, bool *ret_is_done, struct error *err)
{
	const char *p = f->p, *end = f->end;
	bool is_done = false;

	if (s->is_scalar) {
		p = find_class(p, end, CLASS_DELIMITER);
		is_done = p < end;
	}
	while (p < end && !is_done) {
		if (s->in_string) {
			p = scan_string(s, p, end);
		} else {
			p = find_class(p, end, CLASS_BRACKET);
			if (p == end)
				break;
			/* a quote starts a string, and a bracket changes the depth */
			s->in_string = *p == '"';
			s->depth += *p == '{' || *p == '[';
			s->depth -= *p == '}' || *p == ']';
			p++;
		}
		if (s->depth > LIMIT_JSON_DEPTH)
			return err_set(err, ERR_INVALID, "invalid JSON: nested deeper than %d",
			               LIMIT_JSON_DEPTH);
		is_done = s->depth == 0 && !s->in_string;
	}
	f->p = p;
	*ret_is_done = is_done;
	return true;
}

static bool
step_key(struct json_split *s, struct feed *f, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	const char *start = f->p;
	struct str key;

	f->p = scan_string(s, f->p, f->end);
	if (!add_head(s, start, (size_t)(f->p - start), err))
		return false;
	if (s->in_string)
		return true;
	key = str_skip(buf_str(&s->head), s->key_pos);
	if (str_index(key, '\\') >= 0) { /* unusual, but it must match the plain key */
		if (!json_parse(key, &doc, err))
			return false;
		key = json_text(yyjson_doc_get_root(doc));
	} else {
		key = str_n(key.ptr + 1, key.len - 2);
	}
	s->is_items = str_eq(key, s->items);
	s->state = AT_COLON;
	return true;
}

static bool
step_head_value(struct json_split *s, struct feed *f, struct error *err)
{
	const char *start = f->p;
	bool is_done;

	if (!scan_value(s, f, &is_done, err))
		return false;
	if (is_done)
		s->state = AFTER_VALUE;
	return add_head(s, start, (size_t)(f->p - start), err);
}

static bool
step_item(struct json_split *s, struct feed *f, struct error *err)
{
	const char *start = f->p;
	struct str part;
	bool is_done;

	if (!scan_value(s, f, &is_done, err))
		return false;
	part = str_n(start, (size_t)(f->p - start));
	if (part.len > s->item.max - s->item.len)
		return err_set(err, ERR_INVALID, "an element of the list is larger than %zu bytes",
		               s->item.max);
	if (is_done)
		s->state = AFTER_ITEM;
	if (is_done && s->item.len == 0)
		return f->each(f->arg, part, err);
	buf_add_str(&s->item, part);
	if (!is_done)
		return true;
	if (!f->each(f->arg, buf_str(&s->item), err))
		return false;
	buf_reset(&s->item);
	return true;
}

/* Processes the start of an element or the end of the array, as the state allows. step_item()
 * processes the first byte of the element. */
static bool
step_array(struct json_split *s, struct feed *f, struct error *err)
{
	char c = *f->p;

	if (c == ']' && s->state != AT_ITEM) {
		f->p++;
		s->state = AFTER_VALUE;
		return add_head(s, "]", 1, err);
	}
	if (s->state == AFTER_ITEM) {
		if (c != ',')
			return unexpected(f, err);
		f->p++;
		s->state = AT_ITEM;
		return true;
	}
	if (is_class(c, CLASS_DELIMITER))
		return unexpected(f, err);
	begin_value(s, c);
	s->state = IN_ITEM;
	return true;
}

/* step_head_value() or step_item() processes the first byte of what begins here. */
static bool
enter_value(struct json_split *s, struct feed *f, struct error *err)
{
	/* null is how Go encodes a nil list */
	bool is_list = s->is_items && *f->p != 'n';

	if (s->is_items && s->seen_items)
		return err_set(err, ERR_INVALID, "invalid list: %" STR_FMT " occurs twice",
		               STR_ARG(s->items));
	s->seen_items |= s->is_items;
	if (is_list && *f->p != '[')
		return err_set(err, ERR_INVALID, "invalid list: %" STR_FMT " is not an array",
		               STR_ARG(s->items));
	if (is_list) {
		f->p++;
		s->state = AT_FIRST_ITEM;
		return add_head(s, "[", 1, err);
	}
	if (is_class(*f->p, CLASS_DELIMITER))
		return unexpected(f, err);
	begin_value(s, *f->p);
	s->state = IN_VALUE;
	return true;
}

/* Processes the punctuation of the top-level object. */
static bool
step_object(struct json_split *s, struct feed *f, struct error *err)
{
	static const struct {
		enum state state;
		char c;
		enum state next;
	} rules[] = {
		{ AT_START, '{', AT_FIRST_KEY }, { AT_FIRST_KEY, '"', IN_KEY },
		{ AT_FIRST_KEY, '}', AT_END },   { AT_KEY, '"', IN_KEY },
		{ AT_COLON, ':', AT_VALUE },     { AFTER_VALUE, ',', AT_KEY },
		{ AFTER_VALUE, '}', AT_END },
	};

	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		if (rules[i].state != s->state || rules[i].c != *f->p)
			continue;
		s->state = rules[i].next;
		if (!add_head(s, f->p++, 1, err))
			return false;
		if (s->state == IN_KEY) {
			s->key_pos = s->head.len - 1;
			s->in_string = true;
			s->is_escaped = false;
		}
		return true;
	}
	return unexpected(f, err);
}

static bool
step(struct json_split *s, struct feed *f, struct error *err)
{
	switch (s->state) {
	case IN_KEY:
		return step_key(s, f, err);
	case IN_VALUE:
		return step_head_value(s, f, err);
	case IN_ITEM:
		return step_item(s, f, err);
	case HAS_FAILED:
		return err_set(err, ERR_INVALID, "the list was invalid before");
	default:
		break;
	}
	while (f->p < f->end && is_class(*f->p, CLASS_SPACE))
		f->p++;
	if (f->p == f->end)
		return true;
	switch (s->state) {
	case AT_VALUE:
		return enter_value(s, f, err);
	case AT_FIRST_ITEM:
	case AT_ITEM:
	case AFTER_ITEM:
		return step_array(s, f, err);
	default:
		return step_object(s, f, err);
	}
}

bool
json_split_feed(struct json_split *s, struct str bytes,
                bool (*each)(void *arg, struct str item, struct error *err), void *arg,
                struct error *err)
{
	struct feed f = { .p = bytes.ptr, .end = bytes.ptr + bytes.len, .each = each, .arg = arg };

	while (f.p < f.end) {
		if (!step(s, &f, err)) {
			s->state = HAS_FAILED;
			return false;
		}
	}
	return true;
}

bool
json_split_end(struct json_split *s, struct str *ret_head, struct error *err)
{
	if (s->state != AT_END)
		return err_set(err, ERR_INVALID, "invalid JSON: the list ends in the middle");
	*ret_head = buf_str(&s->head);
	return true;
}
