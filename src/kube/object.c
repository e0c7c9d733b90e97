/* kube/object.c: references, resource versions, and the reading of fields.
 *
 * Fields are read in one pass over an object's members, and each member is looked up in a short
 * table. yyjson keeps objects as lists, so looking up each field by name would walk the list once
 * per field.
 */
#include "kube/object.h"

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
		o->kind->free(o);
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

static const char *
type_name(enum object_want want)
{
	static const char *const names[] = {
		[WANT_STR] = "a string",
		[WANT_BOOL] = "a boolean",
		[WANT_OBJECT] = "an object",
		[WANT_ARRAY] = "an array",
	};

	return names[want];
}

/* False if the value has another type. */
static bool
read_value(yyjson_val *val, enum object_want want, void *into)
{
	switch (want) {
	case WANT_STR:
		if (!yyjson_is_str(val))
			return false;
		*(struct str *)into = json_text(val);
		return true;
	case WANT_BOOL:
		if (!yyjson_is_bool(val))
			return false;
		*(bool *)into = yyjson_get_bool(val);
		return true;
	case WANT_OBJECT:
	case WANT_ARRAY:
		if (want == WANT_OBJECT ? !yyjson_is_obj(val) : !yyjson_is_arr(val))
			return false;
		*(yyjson_val **)into = val;
		return true;
	}
	return false;
}

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
	yyjson_obj_iter iter;
	yyjson_val *key;

	if (!val)
		return true;
	if (!yyjson_is_obj(val))
		return err_set(err, ERR_INVALID, "%s: not an object", path);
	/* unknown members are skipped: newer API servers have more */
	iter = yyjson_obj_iter_with(val);
	while ((key = yyjson_obj_iter_next(&iter))) {
		const struct object_field *field = find_field(key, fields, n);
		yyjson_val *member = yyjson_obj_iter_get_val(key);

		if (!field || yyjson_is_null(member))
			continue;
		if (!read_value(member, field->want, (char *)into + field->offset))
			return err_set(err, ERR_INVALID, "%s.%" STR_FMT ": not %s", path,
			               STR_ARG(field->name), type_name(field->want));
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

	if (!object_read(json_at(val, "metadata"), "metadata", meta_fields, ARRAY_LEN(meta_fields),
	                 &meta, err))
		return false;
	if (meta.name.len == 0)
		return err_set(err, ERR_INVALID, "metadata.name is missing");
	if (meta.uid.len == 0)
		return err_set(err, ERR_INVALID, "metadata.uid is missing");
	if (meta.resource_version.len == 0)
		return err_set(err, ERR_INVALID, "metadata.resourceVersion is missing");
	*ret = meta;
	return true;
}

bool
object_read_key(yyjson_val *val, struct buf *ret)
{
	struct str name = STR_EMPTY, namespace = STR_EMPTY;

	if (json_str(val, "metadata.name", &name) != JSON_FOUND || name.len == 0)
		return false;
	if (json_str(val, "metadata.namespace", &namespace) == JSON_FOUND && namespace.len > 0) {
		buf_add_str(ret, namespace);
		buf_add_char(ret, '/');
	}
	buf_add_str(ret, name);
	return buf_ok(ret);
}
