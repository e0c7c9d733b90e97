/* base/json.c: paths, types and null on top of yyjson.
 *
 * The yyjson reader uses no stack for nesting, so deep input cannot harm it. The depth is bounded
 * for the code that walks the result recursively. The depth is measured on the parsed values, which
 * yyjson stores in document order: that costs a tenth of a scan of the text for brackets outside of
 * strings.
 */
#include "base/json.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/limits.h"

static void *
json_malloc(void *ctx, size_t size)
{
	(void)ctx;
	return xmalloc(size);
}

static void *
json_realloc(void *ctx, void *ptr, size_t old_size, size_t size)
{
	(void)ctx;
	(void)old_size;
	return xreallocarray(ptr, 1, size);
}

static void
json_free(void *ctx, void *ptr)
{
	(void)ctx;
	free(ptr);
}

static const yyjson_alc json_alc = {
	.malloc = json_malloc,
	.realloc = json_realloc,
	.free = json_free,
};

/* Returns true when no value has more than max containers around and including it. ends[] holds the
 * ends of the open containers. */
static bool
is_depth_within(yyjson_doc *doc)
{
	const yyjson_val *ends[LIMIT_JSON_DEPTH];
	size_t depth = 0;
	yyjson_val *val = yyjson_doc_get_root(doc);
	yyjson_val *end = val + yyjson_doc_get_val_count(doc);

	for (; val < end; val++) {
		if (!unsafe_yyjson_is_ctn(val))
			continue;
		while (depth && val >= ends[depth - 1])
			depth--;
		if (depth == LIMIT_JSON_DEPTH)
			return false;
		ends[depth++] = unsafe_yyjson_get_next(val);
	}
	return true;
}

bool
json_parse(struct str text, yyjson_doc **ret, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	yyjson_read_err problem;

	if (text.len == 0)
		return err_set(err, ERR_INVALID, "invalid JSON: empty");
	/* Without YYJSON_READ_INSITU, yyjson does not write to the text. */
	doc = yyjson_read_opts((char *)(uintptr_t)text.ptr, text.len, YYJSON_READ_BIGNUM_AS_RAW,
	                       &json_alc, &problem);
	if (!doc)
		return err_set(err, ERR_INVALID, "invalid JSON at byte %zu: %s", problem.pos,
		               problem.msg);
	if (!is_depth_within(doc))
		return err_set(err, ERR_INVALID, "invalid JSON: nested deeper than %d",
		               LIMIT_JSON_DEPTH);
	*ret = TAKE(doc);
	return true;
}

/* A comma, a colon or a bracket precedes each key and value but the first. Those in strings are
 * counted as well, so the number may be too high. No answer of a cloud has nearly as many as the
 * limit. Objects of the API server are not counted: their strings are chosen by tenants and
 * kubelets, and one refused object would fail the list of all. */
bool
json_parse_answer(struct str text, yyjson_doc **ret, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	size_t n_values = 1, n_elements = 0;
	yyjson_val *val, *end;

	for (size_t i = 0; text.len > LIMIT_JSON_VALUES && i < text.len; i++)
		n_values += text.ptr[i] == ',' || text.ptr[i] == ':' || text.ptr[i] == '[' ||
		            text.ptr[i] == '{';
	if (n_values > LIMIT_JSON_VALUES)
		return err_set(err, ERR_INVALID, "invalid JSON: more than %d values",
		               LIMIT_JSON_VALUES);
	if (!json_parse(text, &doc, err))
		return false;
	val = yyjson_doc_get_root(doc);
	end = val + yyjson_doc_get_val_count(doc);
	for (; val < end; val++)
		n_elements += yyjson_arr_size(val);
	if (n_elements > LIMIT_CLOUD_ELEMENTS)
		return err_set(err, ERR_INVALID, "its lists have %zu elements, more than %d",
		               n_elements, LIMIT_CLOUD_ELEMENTS);
	*ret = TAKE(doc);
	return true;
}

/* Returns the last of duplicate keys, as Go decodes them; the look-up of yyjson returns the first.
 */
yyjson_val *
json_key(yyjson_val *obj, struct str key)
{
	yyjson_val *found = NULL, *name;
	yyjson_obj_iter iter = yyjson_obj_iter_with(obj);

	while ((name = yyjson_obj_iter_next(&iter))) {
		if (unsafe_yyjson_equals_strn(name, key.ptr, key.len))
			found = yyjson_obj_iter_get_val(name);
	}
	return yyjson_is_null(found) ? NULL : found;
}

yyjson_val *
json_at(yyjson_val *val, const char *path)
{
	struct str rest = str_c(path), step;

	if (rest.len == 0)
		return yyjson_is_null(val) ? NULL : val;
	while (val && str_split(&rest, '.', &step))
		val = json_key(val, step);
	return val;
}

/* json_at(), with the type that the value has to have. */
static enum json_found
find(yyjson_val *val, const char *path, yyjson_type type, yyjson_val **ret)
{
	yyjson_val *v = json_at(val, path);

	if (!v)
		return JSON_ABSENT;
	if (yyjson_get_type(v) != type)
		return JSON_MISTYPED;
	*ret = v;
	return JSON_FOUND;
}

enum json_found
json_str(yyjson_val *val, const char *path, struct str *ret)
{
	yyjson_val *v;
	enum json_found found = find(val, path, YYJSON_TYPE_STR, &v);

	if (found == JSON_FOUND)
		*ret = json_text(v);
	return found;
}

struct str
json_view(yyjson_val *val, const char *path)
{
	struct str text = STR_EMPTY;

	json_str(val, path, &text);
	return text;
}

struct str
json_text_at(struct arena *arena, yyjson_val *val, const char *path)
{
	struct str text = json_view(val, path);

	return text.len > 0 ? arena_str(arena, text) : STR_EMPTY;
}

enum json_found
json_i64(yyjson_val *val, const char *path, int64_t *ret)
{
	yyjson_val *v = json_at(val, path);

	if (!v)
		return JSON_ABSENT;
	if (!yyjson_is_int(v) || (yyjson_is_uint(v) && yyjson_get_uint(v) > INT64_MAX))
		return JSON_MISTYPED;
	*ret = yyjson_get_sint(v);
	return JSON_FOUND;
}

int64_t
json_i64_or(yyjson_val *val, const char *path, int64_t otherwise)
{
	(void)json_i64(val, path, &otherwise);
	return otherwise;
}

enum json_found
json_bool(yyjson_val *val, const char *path, bool *ret)
{
	yyjson_val *v;
	enum json_found found = find(val, path, YYJSON_TYPE_BOOL, &v);

	if (found == JSON_FOUND)
		*ret = yyjson_get_bool(v);
	return found;
}

enum json_found
json_array(yyjson_val *val, const char *path, yyjson_val **ret)
{
	return find(val, path, YYJSON_TYPE_ARR, ret);
}

enum json_found
json_object(yyjson_val *val, const char *path, yyjson_val **ret)
{
	return find(val, path, YYJSON_TYPE_OBJ, ret);
}

struct str
json_text(yyjson_val *val)
{
	return str_n(yyjson_get_str(val), yyjson_get_len(val));
}

void
json_add_value(struct buf *b, yyjson_val *val)
{
	size_t len;
	/* This cannot fail: parsed values contain neither infinities nor invalid UTF-8, and the
	 * allocator aborts when memory runs out. */
	char *text = yyjson_val_write_opts(val, YYJSON_WRITE_NOFLAG, &json_alc, &len, NULL);

	buf_add(b, text ? text : "null", text ? len : 4);
	free(text);
}

/* Returns the number of leading bytes of s that need no escape in a JSON string. */
static size_t
plain_len(struct str s)
{
	size_t n = 0, step;

	while (n < s.len) {
		unsigned char c = (unsigned char)s.ptr[n];

		if (c < 0x20 || c == '"' || c == '\\')
			break;
		step = str_utf8_len(str_skip(s, n));
		if (step == 0)
			break;
		n += step;
	}
	return n;
}

void
json_add_str(struct buf *b, struct str s)
{
	static const char escaped[] = "\"\\\n\r\t", letters[] = "\"\\nrt";

	buf_add_char(b, '"');
	for (size_t n; s.len; s = str_skip(s, 1)) {
		n = plain_len(s);
		buf_add(b, s.ptr, n);
		s = str_skip(s, n);
		if (s.len == 0)
			break;
		if ((unsigned char)s.ptr[0] >= 0x80)
			buf_add_c(b, "\xef\xbf\xbd"); /* U+FFFD */
		else if (char_is_in(s.ptr[0], escaped))
			buf_addf(b, "\\%c", letters[strchr(escaped, s.ptr[0]) - escaped]);
		else
			buf_addf(b, "\\u%04x", (unsigned)s.ptr[0]);
	}
	buf_add_char(b, '"');
}

/* ---- objects and arrays ---- */

static void
begin_part(struct buf *b, const char *name)
{
	if (b->len > 0 && !char_is_in(b->ptr[b->len - 1], "{[:,"))
		buf_add_char(b, ',');
	if (!name)
		return;
	buf_add_char(b, '"');
	buf_add_c(b, name);
	buf_add_c(b, "\":");
}

void
json_begin_object(struct buf *b, const char *name)
{
	begin_part(b, name);
	buf_add_char(b, '{');
}

void
json_end_object(struct buf *b)
{
	buf_add_char(b, '}');
}

void
json_begin_array(struct buf *b, const char *name)
{
	begin_part(b, name);
	buf_add_char(b, '[');
}

void
json_end_array(struct buf *b)
{
	buf_add_char(b, ']');
}

void
json_add_text(struct buf *b, const char *name, struct str text)
{
	begin_part(b, name);
	json_add_str(b, text);
}

void
json_add_texts(struct buf *b, const char *name, const struct str texts[], size_t n)
{
	json_begin_array(b, name);
	for (size_t i = 0; i < n; i++)
		json_add_text(b, NULL, texts[i]);
	json_end_array(b);
}

void
json_add_number(struct buf *b, const char *name, int64_t number)
{
	begin_part(b, name);
	buf_addf(b, "%" PRId64, number);
}

void
json_add_time(struct buf *b, const char *name, int64_t wall_ns, bool micros)
{
	begin_part(b, name);
	buf_add_char(b, '"');
	clock_format_rfc3339(b, wall_ns, micros);
	buf_add_char(b, '"');
}

void
json_add_flag(struct buf *b, const char *name, bool is_true)
{
	begin_part(b, name);
	buf_add_c(b, is_true ? "true" : "false");
}

void
json_add_raw(struct buf *b, const char *name, struct str value)
{
	begin_part(b, name);
	buf_add_str(b, value);
}

void
json_add_name(struct buf *b, struct str name)
{
	begin_part(b, NULL);
	json_add_str(b, name);
	buf_add_char(b, ':');
}

void
json_add_member_list(struct buf *b, const struct json_member members[], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct json_member *m = &members[i];

		if (m->kind == JSON_MEMBER_TEXT) {
			json_add_text(b, m->name, m->text);
		} else if (m->kind == JSON_MEMBER_NUMBER) {
			json_add_number(b, m->name, m->number);
		} else if (m->kind == JSON_MEMBER_FLAG) {
			json_add_flag(b, m->name, m->number != 0);
		} else if (m->kind == JSON_MEMBER_RAW) {
			json_add_raw(b, m->name, m->text);
		} else if (m->kind == JSON_MEMBER_TIME || m->kind == JSON_MEMBER_MICRO_TIME) {
			json_add_time(b, m->name, m->number, m->kind == JSON_MEMBER_MICRO_TIME);
		} else if (m->kind == JSON_MEMBER_DURATION) {
			json_add_raw(b, m->name, STR("\""));
			clock_format_duration(b, m->number);
			buf_add_char(b, '"');
		}
	}
}

void
json_add_whole_object(struct buf *b, const char *name, const struct json_member members[], size_t n)
{
	json_begin_object(b, name);
	json_add_member_list(b, members, n);
	json_end_object(b);
}
