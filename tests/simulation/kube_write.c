/* kube_write.c: create, update, patch and delete, as k8s.io/apiserver,
 * pkg/registry/generic/registry and pkg/registry/rest, does them for all kinds. */
#include "kube_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/names.h"

#define MODIFIED                                                                             \
	STR("the object has been modified; please apply your changes to the latest version " \
	    "and try again")
#define SUBDOMAIN_RULE                                                                            \
	"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' " \
	"or '.', and must start and end with an alphanumeric character (e.g. 'example.com', "     \
	"regex used for validation is "                                                           \
	"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
#define LABEL_VALUE_RULE                                                                         \
	"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' " \
	"or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "    \
	"'my_value',  or '12345', regex used for validation is "                                 \
	"'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
#define NAME_PART_RULE                                                                        \
	"name part must consist of alphanumeric characters, '-', '_' or '.', and must start " \
	"and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "          \
	"'123-abc', regex used for validation is "                                            \
	"'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"

/* ---- metadata ---- */

static void
km_check_map(struct km_call *call, yyjson_mut_val *map, const char *field, bool has_label_values)
{
	yyjson_mut_obj_iter it;
	yyjson_mut_val *key;

	if (!map || !yyjson_mut_obj_iter_init(map, &it))
		return;
	while ((key = yyjson_mut_obj_iter_next(&it))) {
		struct str name = km_text(key), value = km_text(yyjson_mut_obj_iter_get_val(key));

		if (!has_label_values)
			name = arena_lower(&call->arena, name);
		if (!name_is_label_key(name))
			km_problem(call, KM_INVALID, str_c(field), km_quote(call, name),
			           NAME_PART_RULE);
		if (has_label_values && !name_is_label_value(value))
			km_problem(call, KM_INVALID, str_c(field), km_quote(call, value),
			           LABEL_VALUE_RULE);
	}
}

static void
km_check_finalizers(struct km_call *call, yyjson_mut_val *finalizers)
{
	yyjson_mut_arr_iter it;
	yyjson_mut_val *item;
	size_t i = 0;

	if (!finalizers || !yyjson_mut_arr_iter_init(finalizers, &it))
		return;
	for (; (item = yyjson_mut_arr_iter_next(&it)); i++) {
		struct str name = km_text(item);

		if (!name_is_label_key(name))
			km_problem(call, KM_INVALID, STR("metadata.finalizers"),
			           km_quote(call, name), NAME_PART_RULE);
		else if (str_index(name, '/') < 0 && !str_eq_c(name, "foregroundDeletion") &&
		         !str_eq_c(name, "orphan") && !str_eq_c(name, "kubernetes"))
			km_problem(call, KM_INVALID, KM_FIELD(call, "metadata.finalizers[%zu]", i),
			           km_quote(call, name),
			           "name is neither a standard finalizer name nor is it fully "
			           "qualified");
	}
}

static void
km_check_meta(struct km_call *call, yyjson_mut_val *object)
{
	yyjson_mut_val *meta = km_at(object, "metadata");
	struct str name = km_text_at(meta, "name");

	if (name.len == 0)
		km_problem(call, KM_REQUIRED, STR("metadata.name"), STR_EMPTY,
		           "name or generateName is required");
	else if (call->kind->has_label_name ? !name_is_dns_label(name)
	                                    : !name_is_dns_subdomain(name))
		km_problem(call, KM_INVALID, STR("metadata.name"), km_quote(call, name),
		           SUBDOMAIN_RULE);
	km_check_map(call, km_at(meta, "labels"), "metadata.labels", true);
	km_check_map(call, km_at(meta, "annotations"), "metadata.annotations", false);
	km_check_finalizers(call, km_at(meta, "finalizers"));
}

static bool
km_has_text(yyjson_mut_val *list, yyjson_mut_val *text)
{
	yyjson_mut_arr_iter it;
	yyjson_mut_val *item;

	if (!list || !yyjson_mut_arr_iter_init(list, &it))
		return false;
	while ((item = yyjson_mut_arr_iter_next(&it))) {
		if (km_equals(item, text))
			return true;
	}
	return false;
}

/* An object that is being deleted gets no new finalizers. */
static void
km_check_new_finalizers(struct km_call *call, yyjson_mut_val *meta, yyjson_mut_val *old_meta)
{
	CLEANUP(buf_fini) struct buf found = BUF_INIT(1 << 16);
	yyjson_mut_val *finalizers = km_at(meta, "finalizers"), *item;
	yyjson_mut_arr_iter it;

	if (!km_at(old_meta, "deletionTimestamp") || !finalizers ||
	    !yyjson_mut_arr_iter_init(finalizers, &it))
		return;
	while ((item = yyjson_mut_arr_iter_next(&it))) {
		if (!km_has_text(km_at(old_meta, "finalizers"), item))
			buf_addf(&found, "%s\"%" STR_FMT "\"", found.len > 0 ? ", " : "",
			         STR_ARG(km_text(item)));
	}
	if (found.len > 0)
		km_problem(call, KM_FORBIDDEN, STR("metadata.finalizers"), STR_EMPTY,
		           KM_FIELD(call,
		                    "no new finalizers can be added if the object is being "
		                    "deleted, found new finalizers []string{%s}",
		                    found.ptr)
		                   .ptr);
}

static void
km_check_meta_update(struct km_call *call, yyjson_mut_val *object, yyjson_mut_val *old)
{
	static const char *const fixed[] = { "uid", "deletionTimestamp",
		                             "deletionGracePeriodSeconds" };
	yyjson_mut_val *meta = km_at(object, "metadata"), *old_meta = km_at(old, "metadata");

	km_check_new_finalizers(call, meta, old_meta);
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++) {
		if (!km_equals(km_at(meta, fixed[i]), km_at(old_meta, fixed[i])))
			km_problem(call, KM_INVALID, KM_FIELD(call, "metadata.%s", fixed[i]),
			           km_quote(call, km_text_at(meta, fixed[i])),
			           "field is immutable");
	}
}

static void
km_put_now(struct km_call *call, yyjson_mut_val *meta, const char *key)
{
	char array[64] = "";
	struct buf now = BUF_FIXED(array);

	clock_format_rfc3339(&now, call->m->now_ns, /*micros=*/false);
	km_put_text(call, meta, key, buf_str(&now));
}

/* What the server alone decides about a new object. */
static void
km_fill_meta(struct km_call *call, yyjson_mut_val *meta)
{
	uint64_t high = km_random(call->m), low = km_random(call->m);

	km_put_text(call, meta, "uid",
	            KM_FIELD(call, "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(high >> 32),
	                     (unsigned)(high >> 16 & 0xffff), (unsigned)(high & 0xfff),
	                     (unsigned)(low >> 48 & 0x3fff) | 0x8000,
	                     (unsigned long long)(low & 0xffffffffffff)));
	km_put_now(call, meta, "creationTimestamp");
	km_put(call, meta, "deletionTimestamp", NULL);
	km_put(call, meta, "deletionGracePeriodSeconds", NULL);
}

/* ---- answers ---- */

void
km_add_object(struct buf *b, struct str json, bool is_partial)
{
	yyjson_doc *doc;

	if (!is_partial) {
		buf_add_str(b, json);
		return;
	}
	doc = yyjson_read(json.ptr, json.len, 0);
	json_begin_object(b, NULL);
	json_add_text(b, "kind", STR("PartialObjectMetadata"));
	json_add_text(b, "apiVersion", STR("meta.k8s.io/v1"));
	json_add_raw(b, "metadata", STR(""));
	json_add_value(b, json_at(yyjson_doc_get_root(doc), "metadata"));
	json_end_object(b);
	yyjson_doc_free(doc);
}

void
km_answer_object(struct km_call *call, int status, struct str json)
{
	call->answer->status = status;
	km_add_object(&call->answer->body, json, km_is_partial(call));
}

/* ---- reading the body ---- */

/* The object in the body of a POST or PUT, decoded and with defaults. */
static bool
km_read_object(struct km_call *call, yyjson_mut_val **ret)
{
	struct str body = call->request->body, kind, version;
	yyjson_doc *doc = yyjson_read(body.ptr, body.len, 0);
	yyjson_mut_val *in = doc ? yyjson_val_mut_copy(call->doc, yyjson_doc_get_root(doc)) : NULL;

	yyjson_doc_free(doc);
	if (!yyjson_mut_is_obj(in))
		return km_refuse(call, 400, "BadRequest",
		                 "the object provided is unrecognized (must be of type %s)",
		                 call->kind->name);
	kind = km_text_at(in, "kind");
	version = km_text_at(in, "apiVersion");
	if ((kind.len > 0 && !str_eq_c(kind, call->kind->name)) ||
	    (version.len > 0 && !str_eq_c(version, call->kind->version)))
		return km_refuse(call, 400, "BadRequest",
		                 "%" STR_FMT " in version \"%" STR_FMT
		                 "\" cannot be handled as a %s",
		                 STR_ARG(kind), STR_ARG(version), call->kind->name);
	km_put_text(call, in, "kind", str_c(call->kind->name));
	km_put_text(call, in, "apiVersion", str_c(call->kind->version));
	if (!km_decode(call, call->kind->fields, in, ret))
		return km_refuse(call, 400, "BadRequest",
		                 "%s in version \"v1\" cannot be handled as a %s: %" STR_FMT
		                 " has another type",
		                 call->kind->name, call->kind->name, STR_ARG(call->mistyped));
	if (call->kind->set_defaults)
		call->kind->set_defaults(call, *ret);
	return true;
}

static bool
km_check_namespace(struct km_call *call, yyjson_mut_val *object)
{
	yyjson_mut_val *meta = km_at(object, "metadata");
	struct str namespace = km_text_at(meta, "namespace");

	if (!call->kind->is_namespaced) {
		km_put(call, meta, "namespace", NULL);
		return true;
	}
	if (namespace.len > 0 && !str_eq(namespace, call->namespace))
		return km_refuse(call, 400, "BadRequest",
		                 "the namespace of the provided object does not match the "
		                 "namespace sent on the request");
	km_put_text(call, meta, "namespace", call->namespace);
	return true;
}

/* New objects need a namespace that exists and is not being deleted. */
static bool
km_check_home(struct km_call *call)
{
	const struct kube_model_object *home;

	if (!call->kind->is_namespaced)
		return true;
	home = kube_model_find(call->m, KUBE_MODEL_NAMESPACE, STR_EMPTY, call->namespace);
	if (!home) {
		call->kind = &km_kinds[KUBE_MODEL_NAMESPACE];
		call->name = call->namespace;
		return km_refuse_not_found(call);
	}
	if (str_contains(home->json, STR("\"deletionTimestamp\"")))
		return km_refuse(call, 403, "Forbidden",
		                 "%s \"%" STR_FMT
		                 "\" is forbidden: unable to create new content in "
		                 "namespace %" STR_FMT " because it is being terminated",
		                 call->kind->resource, STR_ARG(call->name),
		                 STR_ARG(call->namespace));
	return true;
}

/* ---- create ---- */

/* The name is that of the call. */
static bool
km_store_new(struct km_call *call, yyjson_mut_val *object)
{
	const struct km_kind *kind = call->kind;
	yyjson_mut_val *meta = km_at(object, "metadata");
	bool has_version = km_at(meta, "resourceVersion") != NULL;
	const struct km_object *existing;
	size_t place;

	if (!km_check_home(call))
		return false;
	if (kind->admit)
		kind->admit(call, object);
	km_fill_meta(call, meta);
	if (kind->prepare)
		kind->prepare(call, object, NULL);
	if (kind->check)
		kind->check(call, object, NULL);
	km_check_meta(call, object);
	if (call->n_problems > 0)
		return km_refuse_problems(call, kind->name);
	if (has_version && strcmp(call->request->method, "POST") == 0)
		return km_refuse(call, 500, NULL,
		                 "resourceVersion should not be set on objects to be created");
	existing = km_find(&call->m->of[call->which], call->namespace, call->name, &place);
	if (existing)
		return km_refuse_exists(call, existing);
	km_answer_object(call, 201, km_commit(call, NULL, object)->base.json);
	return true;
}

bool
km_create(struct km_call *call)
{
	yyjson_mut_val *object;

	if (!km_read_object(call, &object) || !km_check_namespace(call, object))
		return false;
	if (km_at(object, "metadata.generateName") && !km_at(object, "metadata.name"))
		return km_refuse_unsupported(call, "generated names");
	call->name = km_text_at(object, "metadata.name");
	return km_store_new(call, object);
}

/* ---- update ---- */

/* The object of a PUT, whose UID is a precondition. */
static bool
km_read_put(struct km_call *call, const struct km_object *old, yyjson_mut_val **ret)
{
	struct str name, uid;

	if (!km_read_object(call, ret))
		return false;
	name = km_text_at(*ret, "metadata.name");
	uid = km_text_at(*ret, "metadata.uid");
	if (!str_eq(name, call->name))
		return km_refuse(call, 400, "BadRequest",
		                 "the name of the object (%" STR_FMT
		                 ") does not match the name on the URL (%" STR_FMT ")",
		                 STR_ARG(name), STR_ARG(call->name));
	if (!km_check_namespace(call, *ret))
		return false;
	if (!old && !call->kind->may_create_by_put)
		return km_refuse_not_found(call);
	if (uid.len > 0 && !str_eq(uid, old ? old->base.uid : STR_EMPTY))
		return km_refuse_conflict(
			call, /*of_kind=*/false,
			KM_FIELD(call,
		                 "Precondition failed: UID in precondition: %" STR_FMT
		                 ", UID in object meta: %" STR_FMT,
		                 STR_ARG(uid), STR_ARG(old ? old->base.uid : STR_EMPTY)));
	return true;
}

/* The object that a PATCH makes of the old one. */
static bool
km_read_patched(struct km_call *call, const struct km_object *old, yyjson_mut_val **ret)
{
	yyjson_mut_val *patched;

	if (!old)
		return km_refuse_not_found(call);
	if (!km_patch(call, km_tree(call, old), &patched))
		return false;
	if (!km_decode(call, call->kind->fields, patched, ret))
		return km_refuse_patch(call);
	if (call->kind->set_defaults)
		call->kind->set_defaults(call, *ret);
	if (!str_eq(km_text_at(*ret, "metadata.name"), call->name))
		return km_refuse(call, 400, "BadRequest",
		                 "the name of the object does not match the name on the URL");
	return km_check_namespace(call, *ret);
}

static bool
km_check_version(struct km_call *call, const struct km_object *old, yyjson_mut_val *object)
{
	struct str text = km_text_at(object, "metadata.resourceVersion");
	int64_t version;

	if (!km_read_version(text, &version))
		return km_refuse(call, 500, NULL, "the resourceVersion is no number");
	if (version == 0 && call->kind->needs_version) {
		km_problem(call, KM_INVALID, STR("metadata.resourceVersion"), STR("0"),
		           "must be specified for an update");
		return km_refuse_problems(call, call->kind->resource);
	}
	if (version != 0 && version != old->base.version)
		return km_refuse_conflict(call, /*of_kind=*/false, MODIFIED);
	return true;
}

/* Takes over what an update cannot change. */
static void
km_keep_fixed(struct km_call *call, yyjson_mut_val *object, yyjson_mut_val *old)
{
	yyjson_mut_val *meta = km_at(object, "metadata"), *old_meta = km_at(old, "metadata");
	const char *other = call->is_status ? "spec" : "status";

	if (call->kind->has_status)
		km_put(call, object, other, km_copy(call, km_at(old, other)));
	km_put(call, meta, "resourceVersion", km_copy(call, km_at(old_meta, "resourceVersion")));
	km_put(call, meta, "generation", km_copy(call, km_at(old_meta, "generation")));
	km_put(call, meta, "creationTimestamp",
	       km_copy(call, km_at(old_meta, "creationTimestamp")));
	if (!km_at(meta, "uid"))
		km_put(call, meta, "uid", km_copy(call, km_at(old_meta, "uid")));
	if (!km_at(old_meta, "deletionTimestamp"))
		return;
	km_put(call, meta, "deletionTimestamp",
	       km_copy(call, km_at(old_meta, "deletionTimestamp")));
	if (!km_at(meta, "deletionGracePeriodSeconds"))
		km_put(call, meta, "deletionGracePeriodSeconds",
		       km_copy(call, km_at(old_meta, "deletionGracePeriodSeconds")));
}

static bool
km_check_update(struct km_call *call, yyjson_mut_val *object, yyjson_mut_val *old)
{
	const struct km_kind *kind = call->kind;

	km_check_meta(call, object);
	km_check_meta_update(call, object, old);
	if (call->is_status && kind->check_status)
		kind->check_status(call, object, old);
	if (!call->is_status && kind->check)
		kind->check(call, object, old);
	return call->n_problems == 0 || km_refuse_problems(call, kind->name);
}

static bool
km_answer_tree(struct km_call *call, yyjson_mut_val *object)
{
	size_t len;
	char *text = yyjson_mut_val_write(object, YYJSON_WRITE_NOFLAG, &len);

	if (!text)
		abort();
	km_answer_object(call, 200, str_n(text, len));
	free(text);
	return true;
}

bool
km_update(struct km_call *call)
{
	bool is_patch = strcmp(call->request->method, "PATCH") == 0;
	yyjson_mut_val *object, *old;
	struct km_object *before;
	size_t place;

	before = km_find(&call->m->of[call->which], call->namespace, call->name, &place);
	if (!(is_patch ? km_read_patched : km_read_put)(call, before, &object))
		return false;
	if (!before)
		return km_store_new(call, object);
	if (!km_check_version(call, before, object))
		return false;
	old = km_tree(call, before);
	km_keep_fixed(call, object, old);
	if (call->kind->prepare && !call->is_status)
		call->kind->prepare(call, object, old);
	if (!km_check_update(call, object, old))
		return false;
	if (km_at(object, "metadata.deletionTimestamp") &&
	    km_length(km_at(object, "metadata.finalizers")) == 0) {
		/* the last finalizer has gone; the answer has the old version */
		km_answer_tree(call, object);
		km_commit(call, before, NULL);
		return true;
	}
	if (yyjson_mut_equals(object, old))
		km_answer_object(call, 200, before->base.json);
	else
		km_answer_object(call, 200, km_commit(call, before, object)->base.json);
	return true;
}

/* ---- delete ---- */

static bool
km_check_preconditions(struct km_call *call, const struct km_object *object)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct str uid = STR_EMPTY, version = STR_EMPTY, own;
	struct error err;

	if (call->request->body.len == 0)
		return true;
	if (!json_parse(call->request->body, &doc, &err))
		return km_refuse(call, 400, "BadRequest", "the body is no JSON");
	(void)json_str(yyjson_doc_get_root(doc), "preconditions.uid", &uid);
	(void)json_str(yyjson_doc_get_root(doc), "preconditions.resourceVersion", &version);
	own = KM_FIELD(call, "%lld", (long long)object->base.version);
	if (uid.len > 0 && !str_eq(uid, object->base.uid))
		return km_refuse_conflict(
			call, /*of_kind=*/true,
			KM_FIELD(call,
		                 "the UID in the precondition (%" STR_FMT
		                 ") does not match the UID in record (%" STR_FMT
		                 "). The object might have been deleted and then recreated",
		                 STR_ARG(uid), STR_ARG(object->base.uid)));
	if (version.len > 0 && !str_eq(version, own))
		return km_refuse_conflict(
			call, /*of_kind=*/true,
			KM_FIELD(call,
		                 "the ResourceVersion in the precondition (%" STR_FMT
		                 ") does not match the ResourceVersion in record (%" STR_FMT
		                 "). The object might have been modified",
		                 STR_ARG(version), STR_ARG(own)));
	return true;
}

static void
km_answer_deleted(struct km_call *call, const struct km_object *object)
{
	struct buf *b = &call->answer->body;

	call->answer->status = 200;
	json_begin_object(b, NULL);
	buf_add_c(b, "\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},"
	             "\"status\":\"Success\",\"details\":{");
	json_add_text(b, "name", object->base.name);
	if (call->kind->group[0])
		json_add_text(b, "group", str_c(call->kind->group));
	json_add_text(b, "kind", str_c(call->kind->resource));
	json_add_text(b, "uid", object->base.uid);
	json_end_object(b);
	json_end_object(b);
}

/* Marks an object that has finalizers as being deleted. */
static void
km_mark_deleted(struct km_call *call, struct km_object *before)
{
	yyjson_mut_val *object = km_tree(call, before), *meta = km_at(object, "metadata");

	if (km_at(meta, "deletionTimestamp")) {
		km_answer_object(call, 200, before->base.json);
		return;
	}
	km_put_now(call, meta, "deletionTimestamp");
	km_put_number(call, meta, "deletionGracePeriodSeconds", 0);
	km_answer_object(call, 200, km_commit(call, before, object)->base.json);
}

bool
km_delete(struct km_call *call)
{
	const struct km_object *last;
	struct km_object *before;
	size_t place;

	before = km_find(&call->m->of[call->which], call->namespace, call->name, &place);
	if (!before)
		return km_refuse_not_found(call);
	if (!km_check_preconditions(call, before))
		return false;
	if (km_length(km_at(km_tree(call, before), "metadata.finalizers")) > 0) {
		km_mark_deleted(call, before);
		return true;
	}
	last = km_commit(call, before, NULL);
	if (call->kind->shows_deleted)
		km_answer_object(call, 200, last->base.json);
	else
		km_answer_deleted(call, last);
	return true;
}
