/* kube/object.c: references, resource versions, the reading of fields and of events, shared texts.
 *
 * Fields are read in one pass over an object's members, and each member is looked up in a short
 * table. yyjson keeps objects as lists, so looking up each field by name would walk the list once
 * per field.
 *
 * Shared texts are in a map from each text to its copy, and rows of them in one from each row to
 * its copy. Equal texts have equal pointers after intern(). So two rows of such texts are equal
 * exactly if the bytes of their structs, pointers and lengths, are equal, and these bytes are the
 * key of the second map. Nothing is ever freed, so a pointer that was handed out stays valid
 * without a count of references. LIMIT_INTERN and LIMIT_INTERN_BYTES bound the memory, whatever the
 * objects contain.
 */
#include "kube/object.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/thread.h"
#include "kube/client.h"

struct object *
object_ref(struct object *o)
{
	ref_take(&o->refs);
	return o;
}

void
object_unref(struct object *o)
{
	if (o && ref_drop(&o->refs))
		pool_free(o->kind->pool, o);
}

/* A leading zero is refused, because object_version_is_older() compares lengths first. */
bool
object_version_is_decimal(struct str version)
{
	return str_is_digits(version) && version.ptr[0] != '0';
}

bool
object_version_is_older(struct str a, struct str b)
{
	if (!object_version_is_decimal(a) || !object_version_is_decimal(b))
		return false;
	return a.len != b.len ? a.len < b.len : memcmp(a.ptr, b.ptr, a.len) < 0;
}

bool
object_parse(const struct kind *kind, struct str json, struct object **ret, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;

	return json_parse(json, &doc, err) && kind->parse(kind, yyjson_doc_get_root(doc), ret, err);
}

/* ---- fields ---- */

static const struct object_field *
find_field(yyjson_val *key, const struct object_field *fields, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (unsafe_yyjson_equals_strn(key, fields[i].name.ptr, fields[i].name.len))
			return &fields[i];
	}
	return NULL;
}

bool
object_read(yyjson_val *val, const char *path, const struct object_field *fields, size_t n,
            void *into, struct error *err)
{
	static const struct {
		yyjson_type type;
		const char *name;
	} types[] = {
		[WANT_STR] = { YYJSON_TYPE_STR, "a string" },
		[WANT_OBJECT] = { YYJSON_TYPE_OBJ, "an object" },
		[WANT_ARRAY] = { YYJSON_TYPE_ARR, "an array" },
	};
	yyjson_obj_iter iter;
	yyjson_val *key;

	if (!val)
		return true;
	if (!yyjson_is_obj(val))
		return err_set(err, ERR_INVALID, "%s: not an object", path);
	/* unknown members are skipped: newer API servers have more */
	iter = yyjson_obj_iter_with(val);
	while ((key = yyjson_obj_iter_next(&iter))) {
		yyjson_val *member = yyjson_obj_iter_get_val(key);
		const struct object_field *field = find_field(key, fields, n);
		void *place;

		if (!field || yyjson_is_null(member))
			continue;
		if (yyjson_get_type(member) != types[field->want].type)
			return err_set(err, ERR_INVALID, "%s.%" STR_FMT ": not %s", path,
			               STR_ARG(field->name), types[field->want].name);
		place = (char *)into + field->offset;
		if (field->want == WANT_STR)
			*(struct str *)place = json_text(member);
		else
			*(yyjson_val **)place = member;
	}
	return true;
}

static const struct object_field meta_fields[] = {
	OBJECT_FIELD(WANT_STR, struct object_meta, name, "name"),
	OBJECT_FIELD(WANT_STR, struct object_meta, namespace, "namespace"),
	OBJECT_FIELD(WANT_STR, struct object_meta, uid, "uid"),
	OBJECT_FIELD(WANT_STR, struct object_meta, resource_version, "resourceVersion"),
	OBJECT_FIELD(WANT_STR, struct object_meta, created, "creationTimestamp"),
	OBJECT_FIELD(WANT_STR, struct object_meta, deleted, "deletionTimestamp"),
	OBJECT_FIELD(WANT_OBJECT, struct object_meta, labels, "labels"),
	OBJECT_FIELD(WANT_OBJECT, struct object_meta, annotations, "annotations"),
};

bool
object_read_meta(yyjson_val *val, struct object_meta *ret, struct error *err)
{
	struct object_meta meta = { STR_EMPTY, STR_EMPTY, STR_EMPTY, STR_EMPTY,
		                    STR_EMPTY, STR_EMPTY, NULL,      NULL };
	const struct {
		const char *name;
		const struct str *text;
	} required[] = { { "name", &meta.name },
		         { "uid", &meta.uid },
		         { "resourceVersion", &meta.resource_version } };

	if (!OBJECT_READ(json_at(val, "metadata"), "metadata", meta_fields, &meta, err))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(required); i++) {
		if (required[i].text->len == 0)
			return err_set(err, ERR_INVALID, "metadata.%s is missing",
			               required[i].name);
	}
	*ret = meta;
	return true;
}

bool
object_read_key(yyjson_val *val, struct buf *ret)
{
	struct str name = json_view(val, "metadata.name");
	struct str namespace = json_view(val, "metadata.namespace");

	if (name.len == 0)
		return false;
	buf_add_str(ret, namespace);
	if (namespace.len > 0)
		buf_add_char(ret, '/');
	buf_add_str(ret, name);
	return buf_ok(ret);
}

bool
object_read_pair(yyjson_val *key, const char *path, struct label *ret, struct error *err)
{
	yyjson_val *val = yyjson_obj_iter_get_val(key);

	if (!yyjson_is_str(val) && !yyjson_is_null(val))
		return err_set(err, ERR_INVALID, "%s.%" STR_FMT ": not a string", path,
		               STR_ARG(json_text(key)));
	*ret = (struct label){ json_text(key), yyjson_is_str(val) ? json_text(val) : STR_EMPTY };
	return true;
}

bool
object_texts_equal(const void *a, size_t n_a, const void *b, size_t n_b)
{
	const struct str *one = a, *other = b;

	if (n_a != n_b)
		return false;
	for (size_t i = 0; i < n_a; i++) {
		if (!str_eq(one[i], other[i]))
			return false;
	}
	return true;
}

const struct str *
object_annotation(const struct label *annotations, size_t n, struct str key)
{
	while (n-- > 0) {
		if (str_eq(annotations[n].key, key))
			return &annotations[n].value;
	}
	return NULL;
}

/* ---- events of a watch ---- */

/* {"type": …, "object": …}; the object of a bookmark has only a resourceVersion, and that of an
 * error is a Status. */
struct line {
	struct str type;
	yyjson_val *object;
};

static const struct object_field line_fields[] = {
	OBJECT_FIELD(WANT_STR, struct line, type, "type"),
	OBJECT_FIELD(WANT_OBJECT, struct line, object, "object"),
};

static const struct {
	struct str text;
	const char *name;
} types[] = {
	[WATCH_ADDED] = { STR("ADDED"), "added" },
	[WATCH_MODIFIED] = { STR("MODIFIED"), "modified" },
	[WATCH_DELETED] = { STR("DELETED"), "deleted" },
	[WATCH_BOOKMARK] = { STR("BOOKMARK"), "bookmark" },
	[WATCH_ERROR] = { STR("ERROR"), "error" },
	[WATCH_SKIPPED] = { STR(""), "skipped" },
};

bool
watch_read(const struct kind *kind, yyjson_val *val, struct watch_event *ret, struct error *err)
{
	struct line line = { STR_EMPTY, NULL };
	struct watch_event event = { .type = WATCH_ADDED, .resource_version = STR_EMPTY };
	struct str version;

	if (!OBJECT_READ(val, "event", line_fields, &line, err))
		return false;
	while (event.type <= WATCH_ERROR && !str_eq(line.type, types[event.type].text))
		event.type++;
	if (event.type > WATCH_ERROR)
		return err_set(err, ERR_INVALID, "unknown type \"%" STR_FMT "\" of event",
		               STR_ARG(str_head(line.type, LIMIT_NAME)));
	event.object = line.object;
	/* An event of another kind or without a version cannot be applied, and the watch could not
	 * be reopened after it. */
	if (event.type != WATCH_ERROR) {
		version = json_view(event.object, "metadata.resourceVersion");
		if (str_eq_c(json_view(event.object, "kind"), kind->name) && version.len > 0 &&
		    version.len <= LIMIT_NAME)
			event.resource_version = version;
		else
			event.type = WATCH_SKIPPED;
	}
	event.type_name = types[event.type].name;
	*ret = event;
	return true;
}

bool
watch_status_error(yyjson_val *status, struct error *err)
{
	int64_t code = 0;

	(void)json_i64(status, "code", &code);
	(void)err_set(err, kube_status_code(status), "the server ended the watch: %" STR_FMT,
	              STR_ARG(str_head(json_view(status, "message"), ERR_MSG_SIZE)));
	/* the code comes from the server and may be anything */
	if (code >= 100 && code <= 599)
		err->http_status = (int)code;
	err->retry_after_ms = kube_status_retry_ms(status);
	return false;
}

/* ---- shared texts ---- */

enum {
	/* texts are packed into chunks: an allocation for each would take twice the memory */
	CHUNK_SIZE = 4096,
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct map texts;  /* mu; from a text to the first byte of its copy */
static struct map rows;   /* mu; from the bytes of a struct str[] to its copy */
static char *chunk;       /* mu; the free part of the newest chunk */
static size_t chunk_left; /* mu */

bool
intern(struct str *s)
{
	char *shared;

	WITH_LOCK(&mu);
	if (s->len == 0) {
		*s = STR_EMPTY;
		return true;
	}
	if (s->len > LIMIT_INTERN_BYTES)
		return false;
	shared = map_get(&texts, *s);
	if (!shared) {
		if (texts.count == LIMIT_INTERN)
			return false;
		if (s->len > chunk_left) {
			chunk = xmalloc(CHUNK_SIZE);
			chunk_left = CHUNK_SIZE;
		}
		shared = memcpy(chunk, s->ptr, s->len);
		chunk += s->len;
		chunk_left -= s->len;
		(void)map_put(&texts, str_n(shared, s->len), shared);
	}
	s->ptr = shared;
	return true;
}

const void *
intern_row(const void *row, size_t n)
{
	struct str *shared, key = str_n(row, n * sizeof(*shared));

	WITH_LOCK(&mu);
	shared = map_get(&rows, key);
	if (!shared && rows.count < LIMIT_INTERN) {
		shared = xcalloc(n, sizeof(*shared));
		memcpy(shared, row, key.len);
		(void)map_put(&rows, str_n((const char *)shared, key.len), shared);
	}
	return shared;
}
