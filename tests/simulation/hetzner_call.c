/* hetzner_call.c: a request taken apart and checked, and errors as the API writes them. */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "hetzner_internal.h"

/* ---- errors ---- */

static const struct {
	const char *code;
	int status;
} statuses[] = {
	{ "json_error", 400 },
	{ "unauthorized", 401 },
	{ "forbidden", 403 },
	{ "resource_limit_exceeded", 403 },
	{ "not_found", 404 },
	{ "conflict", 409 },
	{ "uniqueness_error", 409 },
	{ "resource_in_use", 409 },
	{ "deprecated_api_endpoint", 410 },
	{ "locked", 423 },
	{ "protected", 423 },
	{ "rate_limit_exceeded", 429 },
};

/* Codes that are not in the table refuse the content of the request. */
static int
hm_status_of(const char *code)
{
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		if (strcmp(statuses[i].code, code) == 0)
			return statuses[i].status;
	}
	return 422;
}

/* Begins the error in the answer; the caller writes the member "details" and ends it. */
static void
hm_begin_error(struct hm_call *call, const char *code, struct str message)
{
	struct buf *b = &call->answer->body;

	call->answer->status = hm_status_of(code);
	buf_reset(b);
	json_begin_object(b, NULL);
	json_begin_object(b, "error");
	json_add_text(b, "code", str_c(code));
	json_add_text(b, "message", message);
}

static bool
hm_end_error(struct hm_call *call)
{
	json_end_object(&call->answer->body);
	json_end_object(&call->answer->body);
	return false;
}

bool
hm_refuse(struct hm_call *call, const char *code, const char *fmt, ...)
{
	CLEANUP(buf_fini) struct buf message = BUF_INIT(1 << 16);
	va_list args;

	va_start(args, fmt);
	buf_addv(&message, fmt, args);
	va_end(args);
	hm_begin_error(call, code, buf_str(&message));
	json_add_raw(&call->answer->body, "details", STR("null"));
	return hm_end_error(call);
}

/* A field that has several problems is listed once, at the place of the first. */
static void
hm_add_field(struct buf *b, const struct kind_problems *problems, size_t i)
{
	struct str field = problems->items[i].field;

	for (size_t k = 0; k < i; k++) {
		if (str_eq(problems->items[k].field, field))
			return;
	}
	json_begin_object(b, NULL);
	json_add_text(b, "name", field);
	json_begin_array(b, "messages");
	for (size_t k = i; k < problems->n; k++) {
		if (str_eq(problems->items[k].field, field))
			json_add_text(b, NULL, problems->items[k].message);
	}
	json_end_array(b);
	json_end_object(b);
}

static bool
hm_refuse_fields(struct hm_call *call, const char *code, const struct kind_problems *problems,
                 struct str message)
{
	struct buf *b = &call->answer->body;

	hm_begin_error(call, code, message);
	json_begin_object(b, "details");
	json_begin_array(b, "fields");
	for (size_t i = 0; i < problems->n; i++)
		hm_add_field(b, problems, i);
	json_end_array(b);
	json_end_object(b);
	return hm_end_error(call);
}

bool
hm_refuse_field(struct hm_call *call, const char *field, const char *fmt, ...)
{
	CLEANUP(buf_fini) struct buf message = BUF_INIT(1 << 16);
	struct kind_problem problem = { .field = str_c(field) };
	struct kind_problems one = { .items = &problem, .n = 1 };
	va_list args;

	va_start(args, fmt);
	buf_addv(&message, fmt, args);
	va_end(args);
	problem.message = buf_str(&message);
	return hm_refuse_fields(call, "invalid_input", &one, problem.message);
}

static bool
hm_refuse_problems(struct hm_call *call, const struct kind_problems *problems)
{
	CLEANUP(buf_fini) struct buf message = BUF_INIT(1 << 16);
	const char *separator = "";

	buf_add_c(&message, "invalid input in field ");
	for (size_t i = 0; i < problems->n; i++) {
		size_t k = 0;

		while (!str_eq(problems->items[k].field, problems->items[i].field))
			k++;
		if (k < i)
			continue;
		buf_addf(&message, "%s'%" STR_FMT "'", separator,
		         STR_ARG(problems->items[i].field));
		separator = ", ";
	}
	return hm_refuse_fields(call, "invalid_input", problems, buf_str(&message));
}

bool
hm_refuse_used_name(struct hm_call *call, struct str name)
{
	struct kind_problem problem = { STR("name"), STR("is already used") };
	struct kind_problems one = { .items = &problem, .n = 1 };
	struct str message = arena_printf(&call->arena, "name '%" STR_FMT "' is already used",
	                                  STR_ARG(name));

	return hm_refuse_fields(call, "uniqueness_error", &one, message);
}

bool
hm_refuse_unsupported(struct hm_call *call, const char *what)
{
	hm_refuse(call, "not_implemented", "the model does not have: %s", what);
	call->answer->status = 501;
	return false;
}

bool
hm_refuse_because(struct hm_call *call, const struct hm_refusal *why)
{
	if (why->field)
		return hm_refuse_field(call, why->field, "%" STR_FMT, STR_ARG(why->message));
	return hm_refuse(call, why->code, "%" STR_FMT, STR_ARG(why->message));
}

/* ---- the query ---- */

struct str
hm_parameter(const struct hm_call *call, const char *name)
{
	struct str value = STR_EMPTY;

	for (size_t i = 0; i < call->n_query; i++) {
		if (str_eq_c(call->query[i].name, name))
			value = call->query[i].value;
	}
	return value;
}

/* ---- the row ---- */

static const struct hm_row *
hm_find_row(const char *method, struct str path, struct str *ret_id)
{
	for (size_t i = 0; i < hm_n_rows; i++) {
		if (strcmp(hm_rows[i].method, method) == 0 &&
		    target_matches(hm_rows[i].path, path, ret_id) && !str_eq_c(*ret_id, "actions"))
			return &hm_rows[i];
	}
	return NULL;
}

/* ---- the whole ---- */

static bool
hm_read_body(struct hm_call *call, const struct server_request *request,
             struct kind_problems *problems)
{
	struct str type = request->content_type, rest;
	struct error err;

	if (!call->row->body) {
		struct str text = str_trim(request->body);

		return text.len == 0 || str_eq_c(text, "{}") ||
		       hm_refuse_field(call, "body", "this request takes no body");
	}
	str_cut(type, ';', &type, &rest);
	if (!str_eq_c(str_trim(type), "application/json"))
		return hm_refuse(call, "json_error",
		                 "the body is not announced as application/json");
	if (!json_parse(request->body, &call->doc, &err))
		return hm_refuse(call, "json_error", "the body is not valid JSON");
	call->body = yyjson_doc_get_root(call->doc);
	kind_check(&call->arena, call->row->body, call->body, STR_EMPTY, problems);
	return problems->n == 0 || hm_refuse_problems(call, problems);
}

bool
hm_call_read(struct hm_call *call, const struct server_request *request)
{
	struct kind_problems problems = { 0 };
	struct str query = STR_EMPTY;
	bool ok;

	if (call->answer->status != 0)
		return false;
	call->path = request->target;
	str_cut(request->target, '?', &call->path, &query);
	call->query = target_read_query(&call->arena, query, &call->n_query);
	call->row = hm_find_row(request->method, str_skip(call->path, sizeof("/v1") - 1),
	                        &call->id);
	if (!call->row)
		return hm_refuse_unsupported(call,
		                             arena_printf(&call->arena, "%s %" STR_FMT,
		                                          request->method, STR_ARG(call->path))
		                                     .ptr);
	kind_check_parameters(&call->arena, call->row->query, call->query, call->n_query,
	                      &problems);
	ok = problems.n == 0 ? hm_read_body(call, request, &problems)
	                     : hm_refuse_problems(call, &problems);
	free(problems.items);
	return ok;
}

void
hm_call_fini(struct hm_call *call)
{
	yyjson_doc_free(call->doc);
	arena_fini(&call->arena);
}
