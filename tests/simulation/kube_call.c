/* kube_call.c: a request taken apart and brought to its function, errors as kube-apiserver writes
 * them, and trees of JSON. */
#include "kube_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BODY (1 << 26)

/* ---- trees ---- */

yyjson_mut_val *
km_get(yyjson_mut_val *object, struct str key)
{
	yyjson_mut_val *value = yyjson_mut_obj_getn(object, key.ptr, key.len);

	return yyjson_mut_is_null(value) ? NULL : value;
}

yyjson_mut_val *
km_at(yyjson_mut_val *value, const char *path)
{
	struct str rest = str_c(path), key;

	while (value && str_split(&rest, '.', &key))
		value = km_get(value, key);
	return value;
}

struct str
km_text(yyjson_mut_val *value)
{
	if (!yyjson_mut_is_str(value))
		return STR_EMPTY;
	return str_n(yyjson_mut_get_str(value), yyjson_mut_get_len(value));
}

struct str
km_text_at(yyjson_mut_val *value, const char *path)
{
	return km_text(km_at(value, path));
}

int64_t
km_number_at(yyjson_mut_val *value, const char *path)
{
	return yyjson_mut_get_sint(km_at(value, path));
}

size_t
km_length(yyjson_mut_val *list)
{
	return yyjson_mut_arr_size(list);
}

void
km_put(struct km_call *call, yyjson_mut_val *object, const char *key, yyjson_mut_val *value)
{
	yyjson_mut_obj_put(object, yyjson_mut_strcpy(call->doc, key), value);
}

void
km_put_text(struct km_call *call, yyjson_mut_val *object, const char *key, struct str text)
{
	km_put(call, object, key, yyjson_mut_strncpy(call->doc, text.ptr, text.len));
}

void
km_put_number(struct km_call *call, yyjson_mut_val *object, const char *key, int64_t number)
{
	km_put(call, object, key, yyjson_mut_sint(call->doc, number));
}

yyjson_mut_val *
km_copy(struct km_call *call, yyjson_mut_val *value)
{
	return value ? yyjson_mut_val_mut_copy(call->doc, value) : NULL;
}

/* Absent and null are equal. */
bool
km_equals(yyjson_mut_val *a, yyjson_mut_val *b)
{
	if (!a || !b)
		return a == b;
	return yyjson_mut_equals(a, b);
}

yyjson_mut_val *
km_tree(struct km_call *call, const struct km_object *object)
{
	yyjson_doc *doc = yyjson_read(object->base.json.ptr, object->base.json.len, 0);
	yyjson_mut_val *tree;

	if (!doc)
		abort();
	tree = yyjson_val_mut_copy(call->doc, yyjson_doc_get_root(doc));
	yyjson_doc_free(doc);
	return tree;
}

/* ---- errors ---- */

static struct buf *
km_begin_status(struct km_call *call, int code, const char *reason, struct str message)
{
	struct buf *b = &call->answer->body;

	call->answer->status = code;
	buf_reset(b);
	json_begin_object(b, NULL);
	json_add_text(b, "kind", STR("Status"));
	json_add_text(b, "apiVersion", STR("v1"));
	json_add_raw(b, "metadata", STR("{}"));
	json_add_text(b, "status", STR("Failure"));
	json_add_text(b, "message", message);
	if (reason)
		json_add_text(b, "reason", str_c(reason));
	return b;
}

static bool
km_end_status(struct km_call *call, int code)
{
	json_add_number(&call->answer->body, "code", code);
	json_end_object(&call->answer->body);
	return false;
}

bool
km_refuse(struct km_call *call, int code, const char *reason, const char *fmt, ...)
{
	CLEANUP(buf_fini) struct buf message = BUF_INIT(MAX_BODY);
	va_list args;

	va_start(args, fmt);
	buf_addv(&message, fmt, args);
	va_end(args);
	km_begin_status(call, code, reason, buf_str(&message));
	return km_end_status(call, code);
}

/* Leaves the details open. of: a resource or a kind. */
static struct buf *
km_begin_details(struct buf *b, const struct km_call *call, struct str name, const char *of)
{
	json_begin_object(b, "details");
	if (name.len > 0)
		json_add_text(b, "name", name);
	if (call->kind->group[0])
		json_add_text(b, "group", str_c(call->kind->group));
	json_add_text(b, "kind", str_c(of));
	return b;
}

/* "leases.coordination.k8s.io" */
static struct str
km_qualified(struct km_call *call, const char *of)
{
	if (!call->kind->group[0])
		return str_c(of);
	return KM_FIELD(call, "%s.%s", of, call->kind->group);
}

static bool
km_refuse_named(struct km_call *call, int code, const char *reason, const char *of,
                struct str message)
{
	struct buf *b = km_begin_status(call, code, reason, message);

	km_begin_details(b, call, call->name, of);
	json_end_object(b);
	return km_end_status(call, code);
}

bool
km_refuse_not_found(struct km_call *call)
{
	return km_refuse_named(call, 404, "NotFound", call->kind->resource,
	                       KM_FIELD(call, "%" STR_FMT " \"%" STR_FMT "\" not found",
	                                STR_ARG(km_qualified(call, call->kind->resource)),
	                                STR_ARG(call->name)));
}

bool
km_refuse_exists(struct km_call *call, const struct km_object *object)
{
	bool is_dying = str_contains(object->base.json, STR("\"deletionTimestamp\":\""));

	return km_refuse_named(call, 409, "AlreadyExists", call->kind->resource,
	                       KM_FIELD(call, "%s%" STR_FMT " \"%" STR_FMT "\" already exists",
	                                is_dying ? "object is being deleted: " : "",
	                                STR_ARG(km_qualified(call, call->kind->resource)),
	                                STR_ARG(call->name)));
}

bool
km_refuse_conflict(struct km_call *call, bool of_kind, struct str why)
{
	const char *of = of_kind ? call->kind->name : call->kind->resource;

	return km_refuse_named(call, 409, "Conflict", of,
	                       KM_FIELD(call,
	                                "Operation cannot be fulfilled on %" STR_FMT " \"%" STR_FMT
	                                "\": %" STR_FMT,
	                                STR_ARG(km_qualified(call, of)), STR_ARG(call->name),
	                                STR_ARG(why)));
}

bool
km_refuse_expired(struct km_call *call, struct str why)
{
	return km_refuse(call, 410, "Expired", "%" STR_FMT, STR_ARG(why));
}

bool
km_refuse_version_too_large(struct km_call *call, int64_t version)
{
	struct str message = KM_FIELD(call,
	                              "Timeout: Too large resource version: %lld, current: %lld",
	                              (long long)version, (long long)km_cache_version(call->m));
	struct buf *b = km_begin_status(call, 504, "Timeout", message);

	json_add_raw(b, "details",
	             STR("{\"causes\":[{\"reason\":\"ResourceVersionTooLarge\","
	                 "\"message\":\"Too large resource version\"}],\"retryAfterSeconds\":1}"));
	buf_add_c(&call->answer->headers, "Retry-After: 1\r\n");
	return km_end_status(call, 504);
}

bool
km_refuse_unsupported(struct km_call *call, const char *what)
{
	return km_refuse(call, 501, "NotImplemented", "the model does not have: %s", what);
}

/* ---- problems of an object ---- */

struct str
km_quote(struct km_call *call, struct str text)
{
	CLEANUP(buf_fini) struct buf quoted = BUF_INIT(MAX_BODY);

	json_add_str(&quoted, text);
	return arena_str(&call->arena, buf_str(&quoted));
}

void
km_problem(struct km_call *call, enum km_problem_type type, struct str field, struct str value,
           const char *detail)
{
	static const char *const titles[] = {
		[KM_INVALID] = "Invalid value",         [KM_REQUIRED] = "Required value",
		[KM_FORBIDDEN] = "Forbidden",           [KM_DUPLICATE] = "Duplicate value",
		[KM_UNSUPPORTED] = "Unsupported value",
	};
	bool has_value = type != KM_REQUIRED && type != KM_FORBIDDEN;
	struct km_problem problem = { type, field, STR_EMPTY };

	problem.message = KM_FIELD(call, "%s%s%" STR_FMT "%s%s", titles[type],
	                           has_value ? ": " : "", STR_ARG(has_value ? value : STR_EMPTY),
	                           detail[0] ? ": " : "", detail);
	for (size_t i = 0; i < call->n_problems; i++) {
		if (str_eq(call->problems[i].field, field) &&
		    str_eq(call->problems[i].message, problem.message))
			return;
	}
	ARRAY_PUSH(call->problems, call->n_problems, call->cap_problems, problem);
}

static void
km_add_causes(struct km_call *call, struct buf *b)
{
	static const char *const reasons[] = {
		[KM_INVALID] = "FieldValueInvalid",          [KM_REQUIRED] = "FieldValueRequired",
		[KM_FORBIDDEN] = "FieldValueForbidden",      [KM_DUPLICATE] = "FieldValueDuplicate",
		[KM_UNSUPPORTED] = "FieldValueNotSupported",
	};

	json_begin_array(b, "causes");
	for (size_t i = 0; i < call->n_problems; i++) {
		json_begin_object(b, NULL);
		json_add_text(b, "reason", str_c(reasons[call->problems[i].type]));
		json_add_text(b, "message", call->problems[i].message);
		json_add_text(b, "field", call->problems[i].field);
		json_end_object(b);
	}
	json_end_array(b);
}

bool
km_refuse_problems(struct km_call *call, const char *of)
{
	CLEANUP(buf_fini) struct buf message = BUF_INIT(MAX_BODY);
	bool is_list = call->n_problems > 1;
	struct buf *b;

	buf_addf(&message, "%" STR_FMT " \"%" STR_FMT "\" is invalid: %s",
	         STR_ARG(km_qualified(call, of)), STR_ARG(call->name), is_list ? "[" : "");
	for (size_t i = 0; i < call->n_problems; i++)
		buf_addf(&message, "%s%" STR_FMT ": %" STR_FMT, i > 0 ? ", " : "",
		         STR_ARG(call->problems[i].field), STR_ARG(call->problems[i].message));
	buf_add_c(&message, is_list ? "]" : "");
	b = km_begin_status(call, 422, "Invalid", buf_str(&message));
	km_begin_details(b, call, call->name, of);
	km_add_causes(call, b);
	json_end_object(b);
	return km_end_status(call, 422);
}

bool
km_refuse_patch(struct km_call *call)
{
	struct buf *b;

	km_problem(call, KM_INVALID, STR("patch"), km_quote(call, call->request->body),
	           "a member has another type");
	b = km_begin_status(call, 422, "Invalid",
	                    KM_FIELD(call, " \"\" is invalid: patch: %" STR_FMT,
	                             STR_ARG(call->problems[0].message)));
	json_begin_object(b, "details");
	km_add_causes(call, b);
	json_end_object(b);
	return km_end_status(call, 422);
}

/* ---- the target ---- */

bool
km_read_version(struct str text, int64_t *ret)
{
	*ret = 0;
	return text.len == 0 || (str_is_digits(text) && str_to_i64(text, 0, INT64_MAX, ret));
}

struct str
km_parameter(const struct km_call *call, const char *name)
{
	for (size_t i = 0; i < call->n_query; i++) {
		if (str_eq_c(call->query[i].name, name))
			return call->query[i].value;
	}
	return STR_EMPTY;
}

bool
km_is_partial(const struct km_call *call)
{
	return str_contains(call->request->accept, STR("as=PartialObjectMetadata"));
}

static bool
km_find_kind(struct km_call *call, const char *prefix, struct str resource)
{
	for (size_t i = 0; i < KUBE_MODEL_N_KINDS; i++) {
		if (strcmp(km_kinds[i].prefix, prefix) != 0 ||
		    !str_eq_c(resource, km_kinds[i].resource))
			continue;
		call->kind = &km_kinds[i];
		call->which = (enum kube_model_kind)i;
		return true;
	}
	return false;
}

enum {
	MAX_PARTS = 5, /* "namespaces", NAMESPACE, RESOURCE, NAME, "status" */
};

/* Reads the path after the prefix. False: the model does not have such a resource. */
static bool
km_read_parts(struct km_call *call, const char *prefix, struct str rest)
{
	struct str parts[MAX_PARTS], part;
	size_t n = 0, i = 0;

	while (str_split(&rest, '/', &part)) {
		if (n == MAX_PARTS)
			return false;
		parts[n++] = target_unescape(&call->arena, part, /*is_query=*/false);
	}
	if (n >= 3 && str_eq_c(parts[0], "namespaces") && !str_eq_c(parts[2], "status")) {
		call->namespace = parts[1];
		i = 2;
	}
	if (!km_find_kind(call, prefix, parts[i++]))
		return false;
	if (call->namespace.len > 0 && !call->kind->is_namespaced)
		return false;
	if (i < n)
		call->name = parts[i++];
	call->is_status = i < n && str_eq_c(parts[i], "status") && call->kind->has_status;
	return i + call->is_status == n;
}

static bool
km_read_path(struct km_call *call, struct str path)
{
	static const char *const prefixes[] = { "/api/v1/", "/apis/coordination.k8s.io/v1/" };

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
		struct str prefix = str_c(prefixes[i]);

		if (str_starts(path, prefix))
			return km_read_parts(call, prefixes[i], str_skip(path, prefix.len));
	}
	return false;
}

static bool
km_check_query(struct km_call *call)
{
	static const char *const known[] = {
		"watch",           "allowWatchBookmarks",
		"timeoutSeconds",  "resourceVersion",
		"continue",        "limit",
		"fieldManager",    "resourceVersionMatch",
		"fieldValidation", "pretty",
		"timeout",
	};

	for (size_t i = 0; i < call->n_query; i++) {
		bool is_known = false;

		for (size_t k = 0; k < ARRAY_LEN(known); k++)
			is_known = is_known || str_eq_c(call->query[i].name, known[k]);
		if (!is_known)
			return km_refuse_unsupported(call, KM_FIELD(call, "the parameter %" STR_FMT,
			                                            STR_ARG(call->query[i].name))
			                                           .ptr);
	}
	return true;
}

/* ---- requests that are not about objects ---- */

static bool
km_serve_plain(struct km_call *call, struct str path)
{
	struct server_response *answer = call->answer;

	if (strcmp(call->request->method, "GET") != 0)
		return false;
	if (str_eq_c(path, "/healthz") || str_eq_c(path, "/livez") || str_eq_c(path, "/readyz")) {
		buf_add_c(&answer->headers, "Content-Type: text/plain; charset=utf-8\r\n");
		buf_add_c(&answer->body, "ok");
	} else if (str_eq_c(path, "/version")) {
		buf_add_c(&answer->headers, "Content-Type: application/json\r\n");
		buf_add_c(&answer->body,
		          "{\"major\":\"1\",\"minor\":\"37\",\"gitVersion\":\"v1.37.2\","
		          "\"platform\":\"linux/amd64\"}");
	} else {
		return false;
	}
	answer->status = 200;
	return true;
}

/* ---- the whole ---- */

static bool
km_is_allowed(struct km_call *call)
{
	struct str token = call->request->token;

	if (call->is_actor)
		return true;
	for (size_t i = 0; i < call->m->n_tokens; i++) {
		if (str_eq(call->m->tokens[i], token))
			return true;
	}
	if (token.len > 0)
		return km_refuse(call, 401, "Unauthorized", "Unauthorized");
	return km_refuse(call, 403, "Forbidden", "User \"system:anonymous\" may not do this");
}

static bool
km_refuse_method(struct km_call *call)
{
	struct buf *b = km_begin_status(
		call, 405, "MethodNotAllowed",
		STR("the server does not allow this method on the requested resource"));

	json_add_raw(b, "details", STR("{}"));
	return km_end_status(call, 405);
}

static bool
km_dispatch(struct km_call *call)
{
	const char *method = call->request->method;
	bool is_get = strcmp(method, "GET") == 0;

	if (call->name.len == 0) {
		if (is_get && str_eq_c(km_parameter(call, "watch"), "true"))
			return km_watch(call);
		if (is_get)
			return km_list(call);
		if (strcmp(method, "POST") == 0 &&
		    (call->namespace.len > 0 || !call->kind->is_namespaced))
			return km_create(call);
		if (strcmp(method, "DELETE") == 0)
			return km_refuse_unsupported(call, "DELETE of a collection");
		return km_refuse_method(call);
	}
	if (call->kind->is_namespaced && call->namespace.len == 0)
		return km_refuse_unsupported(call, "an object without its namespace");
	if (is_get)
		return km_get_object(call);
	if (strcmp(method, "PUT") == 0 || strcmp(method, "PATCH") == 0)
		return km_update(call);
	if (strcmp(method, "DELETE") == 0 && !call->is_status)
		return km_delete(call);
	return km_refuse_method(call);
}

static bool
km_route(struct km_call *call)
{
	struct str path = call->request->target, query = STR_EMPTY;

	str_cut(call->request->target, '?', &path, &query);
	if (call->request->token.len == 0 && km_serve_plain(call, path))
		return true;
	if (!km_is_allowed(call))
		return false;
	if (km_serve_plain(call, path))
		return true;
	call->query = target_read_query(&call->arena, query, &call->n_query);
	if (!km_read_path(call, path))
		return km_refuse_unsupported(call, KM_FIELD(call, "%s %" STR_FMT,
		                                            call->request->method, STR_ARG(path))
		                                           .ptr);
	return km_check_query(call) && km_dispatch(call);
}

static void
km_count(struct km_call *call)
{
	struct kube_model *m = call->m;
	const struct server_request *request = call->request;
	struct kube_model_client *client = NULL;

	if (strcmp(request->method, "GET") == 0)
		return;
	for (size_t i = 0; i < m->n_clients && !client; i++) {
		if (str_eq(m->clients[i].token, request->token) &&
		    str_eq(m->clients[i].user_agent, request->user_agent))
			client = &m->clients[i];
	}
	if (!client) {
		ARRAY_PUSH(m->clients, m->n_clients, m->cap_clients,
		           (struct kube_model_client){
				   .token = arena_str(&m->arena, request->token),
				   .user_agent = arena_str(&m->arena, request->user_agent) });
		client = &m->clients[m->n_clients - 1];
	}
	client->n_requests++;
	client->n_refused += call->answer->status >= 400;
	client->n_changes += call->has_changed;
}

static struct km_call
km_begin(struct kube_model *m, const struct server_request *request, struct server_response *answer,
         bool is_actor)
{
	return (struct km_call){ .m = m,
		                 .request = request,
		                 .answer = answer,
		                 .is_actor = is_actor,
		                 .arena = ARENA_INIT,
		                 .namespace = STR_EMPTY,
		                 .name = STR_EMPTY,
		                 .mistyped = STR_EMPTY,
		                 .doc = yyjson_mut_doc_new(NULL) };
}

static void
km_end(struct km_call *call)
{
	km_count(call);
	free(call->problems);
	yyjson_mut_doc_free(call->doc);
	arena_fini(&call->arena);
}

void
km_serve(struct kube_model *m, const struct server_request *request, struct server_response *ret,
         bool is_actor)
{
	struct km_call call = km_begin(m, request, ret, is_actor);

	if (!km_route(&call))
		ret->is_stream = false;
	if (ret->headers.len == 0 || ret->status >= 400)
		buf_add_c(&ret->headers, "Content-Type: application/json\r\n");
	km_end(&call);
}

void
km_renew_lease(struct kube_model *m, const char *user_agent, struct km_object *lease,
               struct str time)
{
	struct server_request request = { .method = "PATCH",
		                          .token = STR_EMPTY,
		                          .user_agent = str_c(user_agent) };
	struct server_response answer = { .status = 200 };
	struct km_call call = km_begin(m, &request, &answer, /*is_actor=*/true);

	call.which = lease->base.kind;
	km_commit_renewal(&call, lease, time);
	km_end(&call);
	km_send_changes(m);
}
