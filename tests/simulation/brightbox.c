/* brightbox.c: accounts, tokens, requests and time of the model; see brightbox.h. */
#include "brightbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "brightbox_internal.h"

#define SECOND_NS INT64_C(1000000000)
/* the public identity of the official controller, which users log in through */
#define APPLICATION "app-dkmch"
#define APPLICATION_SECRET "uogoelzgt0nwawb"
#define SCOPE "infrastructure, orbit"

enum { BODY_MAX = 1 << 26 };

/* ---- errors ---- */

bool
bm_refuse_problems(struct bm_call *call, struct kind_problems *problems)
{
	struct buf *b = &call->answer->body;

	if (problems->n == 0)
		return true;
	call->answer->status = 422;
	buf_reset(b);
	json_begin_object(b, NULL);
	json_add_text(b, "error_name", STR("unprocessable_entity"));
	json_begin_array(b, "errors");
	for (size_t i = 0; i < problems->n; i++) {
		const struct kind_problem *one = &problems->items[i];

		json_add_text(b, NULL,
		              arena_printf(&call->arena, "%" STR_FMT "%s%" STR_FMT,
		                           STR_ARG(one->field), one->field.len > 0 ? " " : "",
		                           STR_ARG(one->message)));
	}
	json_end_array(b);
	json_end_object(b);
	free(problems->items);
	return false;
}

bool
bm_refuse(struct bm_call *call, int status, const char *name, const char *fmt, ...)
{
	CLEANUP(buf_fini) struct buf message = BUF_INIT(1 << 16);
	struct buf *b = &call->answer->body;
	va_list args;

	va_start(args, fmt);
	buf_addv(&message, fmt, args);
	va_end(args);
	call->answer->status = status;
	buf_reset(b);
	json_begin_object(b, NULL);
	json_add_text(b, "error_name", str_c(name));
	json_begin_array(b, "errors");
	json_add_text(b, NULL, buf_str(&message));
	json_end_array(b);
	json_end_object(b);
	return false;
}

bool
bm_refuse_missing(struct bm_call *call)
{
	return bm_refuse(call, 404, "missing_resource", "Resource not found");
}

bool
bm_refuse_conflict(struct bm_call *call)
{
	return bm_refuse(call, 409, "resource_conflict",
	                 "Unable to action the request due to conflicting states");
}

/* An error of the token endpoint, or about a token. description NULL: none */
static bool
refuse_token(struct bm_call *call, int status, const char *error, const char *description)
{
	struct buf *b = &call->answer->body;

	call->answer->status = status;
	json_begin_object(b, NULL);
	json_add_text(b, "error", str_c(error));
	if (description)
		json_add_text(b, "error_description", str_c(description));
	json_end_object(b);
	return false;
}

static bool
refuse_client(struct bm_call *call)
{
	buf_add_c(&call->answer->headers,
	          "WWW-Authenticate: Basic realm=\"api." BM_REGION ".brightbox.com\"\r\n");
	return refuse_token(call, 401, "invalid_client", NULL);
}

/* ---- tokens ---- */

static struct bm_client *
find_client(const struct brightbox *b, struct str id, bool is_user)
{
	for (size_t i = 0; i < b->n_clients; i++) {
		if (b->clients[i].is_user == is_user && str_eq(b->clients[i].id, id))
			return &b->clients[i];
	}
	return NULL;
}

static struct bm_token *
find_token(const struct brightbox *b, struct str text)
{
	for (size_t i = b->n_tokens; i-- > 0;) {
		if (str_eq(b->tokens[i].text, text))
			return &b->tokens[i];
	}
	return NULL;
}

static struct str
new_secret(struct brightbox *b)
{
	return arena_printf(&b->arena, "%016llx%016llx%08llx",
	                    (unsigned long long)model_random(&b->random),
	                    (unsigned long long)model_random(&b->random),
	                    (unsigned long long)model_random(&b->random) >> 32);
}

static bool
give_token(struct bm_call *call, struct str client, struct bm_account *account, bool is_of_user)
{
	struct brightbox *b = call->b;
	struct buf *body = &call->answer->body;
	struct bm_token made = { .text = new_secret(b),
		                 .refresh = is_of_user ? new_secret(b) : STR_EMPTY,
		                 .client = client,
		                 .account = account,
		                 .ends_ns = b->now_ns + b->settings.token_ns,
		                 .is_of_user = is_of_user };

	ARRAY_PUSH(b->tokens, b->n_tokens, b->cap_tokens, made);
	call->answer->status = 200;
	json_begin_object(body, NULL);
	json_add_text(body, "access_token", made.text);
	json_add_text(body, "token_type", STR("Bearer"));
	json_add_number(body, "expires_in", b->settings.token_ns / SECOND_NS);
	json_add_text(body, "scope", STR(SCOPE));
	if (is_of_user)
		json_add_text(body, "refresh_token", made.refresh);
	json_end_object(body);
	buf_add_c(&call->answer->headers, "X-OAuth-Scopes: " SCOPE "\r\n");
	return true;
}

static struct str
form_value(const struct target_pair pairs[], size_t n, const char *name)
{
	struct str value = STR_EMPTY;

	for (size_t i = 0; i < n; i++) {
		if (str_eq_c(pairs[i].name, name))
			value = pairs[i].value;
	}
	return value;
}

/* "id:secret", both escaped as in a form, in base64. */
static void
read_client(struct bm_call *call, struct str basic, struct str *ret_id, struct str *ret_secret)
{
	CLEANUP(buf_fini) struct buf plain = BUF_INIT(1 << 12);

	if (!base64_decode(basic, &plain) || !str_cut(buf_str(&plain), ':', ret_id, ret_secret))
		return;
	*ret_id = target_unescape(&call->arena, *ret_id, /*is_query=*/true);
	*ret_secret = target_unescape(&call->arena, *ret_secret, /*is_query=*/true);
}

/* A user's token, by the password or by a refresh token, which is good once. */
static bool
give_to_user(struct bm_call *call, const struct target_pair form[], size_t n, bool is_refresh)
{
	struct brightbox *b = call->b;
	struct str password = form_value(form, n, "password"), user, refresh;
	const struct bm_client *known;

	if (!is_refresh) {
		user = form_value(form, n, "username");
		known = find_client(b, user, /*is_user=*/true);
		if (!known || !str_eq(known->secret, password))
			return refuse_client(call);
		return give_token(call, known->id, known->account, /*is_of_user=*/true);
	}
	refresh = form_value(form, n, "refresh_token");
	for (size_t i = 0; i < b->n_tokens && refresh.len > 0; i++) {
		if (!str_eq(b->tokens[i].refresh, refresh))
			continue;
		b->tokens[i].refresh = STR_EMPTY;
		return give_token(call, b->tokens[i].client, b->tokens[i].account,
		                  /*is_of_user=*/true);
	}
	return refuse_client(call);
}

static bool
serve_token(struct bm_call *call, const struct server_request *request)
{
	struct str id = STR_EMPTY, secret = STR_EMPTY, grant;
	struct target_pair *form;
	const struct bm_client *known;
	bool is_application;
	size_t n;

	if (strcmp(request->method, "POST") != 0)
		return bm_refuse_missing(call);
	form = target_read_query(&call->arena, request->body, &n);
	grant = form_value(form, n, "grant_type");
	id = form_value(form, n, "client_id");
	secret = form_value(form, n, "client_secret");
	if (request->basic.len > 0)
		read_client(call, request->basic, &id, &secret);
	is_application = str_eq_c(id, APPLICATION) && str_eq_c(secret, APPLICATION_SECRET);
	if (str_eq_c(grant, "client_credentials") && is_application)
		return refuse_token(call, 400, "unauthorized_client",
		                    "The authenticated client is not authorized to use the access "
		                    "grant type provided.");
	if (str_eq_c(grant, "client_credentials")) {
		known = find_client(call->b, id, /*is_user=*/false);
		if (!known || !str_eq(known->secret, secret))
			return refuse_client(call);
		return give_token(call, known->id, known->account, /*is_of_user=*/false);
	}
	if (!str_eq_c(grant, "password") && !str_eq_c(grant, "refresh_token"))
		return refuse_token(call, 400, "unsupported_grant_type", NULL);
	if (!is_application)
		return refuse_client(call);
	return give_to_user(call, form, n, str_eq_c(grant, "refresh_token"));
}

/* ---- requests ---- */

static bool
authenticate(struct bm_call *call, const struct server_request *request)
{
	const struct bm_token *token = find_token(call->b, request->token);

	if (!token || token->ends_ns == 0) {
		buf_add_c(&call->answer->headers,
		          "WWW-Authenticate: OAuth error=\"invalid_token\"\r\n");
		return refuse_token(call, 401, "invalid_token", "The OAuth token can not be found");
	}
	if (call->b->now_ns >= token->ends_ns) {
		buf_add_c(&call->answer->headers,
		          "WWW-Authenticate: OAuth error=\"expired_token\"\r\n");
		return refuse_token(call, 401, "expired_token",
		                    "OAuth token presented has expired and is no longer valid");
	}
	call->account = token->account;
	call->who.client = token->client;
	return true;
}

/* Only a user's request has to name the account; that of a client is not looked at. */
static bool
check_query(struct bm_call *call, const struct server_request *request, struct str query)
{
	const struct bm_token *token = find_token(call->b, request->token);
	struct target_pair *pairs;
	size_t n;

	pairs = target_read_query(&call->arena, query, &n);
	for (size_t i = 0; i < n; i++) {
		if (!str_eq_c(pairs[i].name, "account_id"))
			return bm_refuse(call, 422, "unprocessable_entity",
			                 "Unknown query parameter");
		if (token && token->is_of_user && pairs[i].value.len > 0 &&
		    !str_eq(pairs[i].value, call->account->base.id))
			return bm_refuse(call, 403, "Forbidden",
			                 "This user has no access to the account");
	}
	return true;
}

static bool
read_body(struct bm_call *call, const struct server_request *request)
{
	struct str body = str_trim(request->body), type = request->content_type, rest;
	struct kind_problems problems = { 0 };
	struct error err;

	if (!call->row->body)
		return body.len == 0 || str_eq_c(body, "{}") || str_eq_c(body, "null") ||
		       bm_refuse(call, 422, "unprocessable_entity", "This request takes no body");
	str_cut(type, ';', &type, &rest);
	if (!str_eq_c(str_trim(type), "application/json"))
		return bm_refuse(call, 400, "bad_request",
		                 "The body is not announced as application/json");
	if (!json_parse(request->body, &call->doc, &err))
		return bm_refuse(call, 400, "bad_request", "The body is not valid JSON");
	call->body = yyjson_doc_get_root(call->doc);
	kind_check(&call->arena, call->row->body, call->body, STR_EMPTY, &problems);
	return bm_refuse_problems(call, &problems);
}

static bool
find_row(struct bm_call *call, const char *method)
{
	for (size_t i = 0; i < bm_n_rows; i++) {
		if (strcmp(bm_rows[i].method, method) == 0 &&
		    target_matches(bm_rows[i].path, call->path, &call->id)) {
			call->row = &bm_rows[i];
			return true;
		}
	}
	return bm_refuse(call, 501, "not_implemented", "the model does not have: %s %" STR_FMT,
	                 method, STR_ARG(call->path));
}

static void
write_list(struct bm_call *call)
{
	const struct brightbox_account *a = &call->account->base;
	struct buf *body = &call->answer->body;

	json_begin_array(body, NULL);
	for (size_t i = 0; i < a->n_of[call->row->kind]; i++)
		bm_write(call->account, body, a->of[call->row->kind][i]);
	json_end_array(body);
}

/* A request of somebody who may send it. What it does takes effect when the answer is written. */
static bool
serve(struct bm_call *call, const struct server_request *request)
{
	const struct brightbox_object *before = NULL;

	if (!find_row(call, request->method) || !read_body(call, request))
		return false;
	call->who.command = arena_printf(&call->b->arena, "%s %s", call->row->method,
	                                 call->row->path + 1);
	if (call->id.len > 0) {
		call->object = brightbox_find(&call->account->base, call->row->kind, call->id);
		if (!call->object)
			return bm_refuse_missing(call);
		if (strcmp(request->method, "DELETE") == 0 && call->object->is_stuck)
			return bm_refuse_conflict(call);
		before = call->row->serve ? bm_copy(call->b, call->object) : NULL;
	}
	if (call->row->serve && !call->row->serve(call))
		return false;
	if (call->row->serve && call->object)
		bm_report(call->b, call->account, &call->who, before, call->object);
	call->answer->status = call->row->status;
	if (!call->object) {
		if (!call->row->serve)
			write_list(call);
		return true;
	}
	bm_write(call->account, &call->answer->body, call->object);
	if (call->id.len == 0)
		buf_addf(&call->answer->headers,
		         "Location: https://api." BM_REGION ".brightbox.com/1.0/%s/%" STR_FMT
		         "\r\n",
		         bm_collection(call->object->kind), STR_ARG(call->object->id));
	if (call->after.apply) {
		call->after.account = call->account;
		call->after.kind = call->object->kind;
		call->after.id = call->object->id;
		call->after.who = call->who;
		bm_later(call->b, call->after, call->after_ns);
	}
	return true;
}

static void
end_call(struct bm_call *call)
{
	buf_add_c(&call->answer->headers, "Content-Type: application/json; charset=utf-8\r\n");
	yyjson_doc_free(call->doc);
	arena_fini(&call->arena);
}

static void
handle(struct server *server, const struct server_request *request, struct server_response *ret)
{
	struct bm_call call = { .b = (struct brightbox *)server, .answer = ret };
	struct str path = request->target, query = STR_EMPTY;

	str_cut(request->target, '?', &path, &query);
	if (str_eq_c(path, "/token") || str_eq_c(path, "/token/")) {
		(void)serve_token(&call, request);
	} else if (authenticate(&call, request) && check_query(&call, request, query)) {
		call.path = str_starts(path, STR("/1.0/")) ? str_skip(path, 4) : path;
		(void)serve(&call, request);
	}
	end_call(&call);
}

int
brightbox_request(struct brightbox *b, struct brightbox_account *a, const char *method,
                  const char *target, struct str body)
{
	struct server_response answer = { .headers = BUF_INIT(1 << 14),
		                          .body = BUF_INIT(BODY_MAX) };
	struct server_request request = { .method = method,
		                          .content_type = STR("application/json"),
		                          .body = body };
	struct bm_call call = {
		.b = b, .account = (struct bm_account *)a, .path = str_c(target), .answer = &answer
	};

	(void)serve(&call, &request);
	end_call(&call);
	buf_fini(&answer.headers);
	buf_fini(&answer.body);
	return answer.status;
}

/* ---- changes ---- */

void
bm_report(struct brightbox *b, const struct bm_account *a, const struct bm_who *who,
          const struct brightbox_object *before, const struct brightbox_object *after)
{
	struct brightbox_change change = { .account = &a->base,
		                           .wall_ns = b->now_ns,
		                           .client = who->client,
		                           .command = who->command,
		                           .before = before,
		                           .after = after };

	if (b->observe && !(before && after && bm_eq(before, after)))
		b->observe(b->observe_arg, &change);
}

int64_t
bm_delay(struct brightbox *b)
{
	int64_t min_ns = b->settings.change_min_ns, max_ns = b->settings.change_max_ns;

	if (max_ns <= min_ns)
		return min_ns;
	return min_ns + (int64_t)(model_random(&b->random) % (uint64_t)(max_ns - min_ns + 1));
}

static void
run_effect(struct brightbox *b, const struct bm_effect *e)
{
	struct brightbox_object *o = brightbox_find(&e->account->base, e->kind, e->id);
	const struct brightbox_object *before;

	if (!o)
		return;
	before = bm_copy(b, o);
	e->apply(b, o, e);
	if (brightbox_find(&e->account->base, e->kind, e->id) == o)
		bm_report(b, e->account, &e->who, before, o);
}

void
bm_later(struct brightbox *b, struct bm_effect effect, int64_t delay_ns)
{
	effect.at_ns = b->now_ns + delay_ns;
	if (delay_ns == 0)
		run_effect(b, &effect);
	else
		ARRAY_PUSH(b->due, b->n_due, b->cap_due, effect);
}

/* The next effect; n_due: there is none. */
static size_t
next_due(const struct brightbox *b)
{
	size_t next = 0;

	for (size_t i = 1; i < b->n_due; i++) {
		if (b->due[i].at_ns < b->due[next].at_ns)
			next = i;
	}
	return next;
}

static void
advance(struct server *server, int64_t wall_ns)
{
	struct brightbox *b = (struct brightbox *)server;
	size_t i;

	while ((i = next_due(b)) < b->n_due && b->due[i].at_ns <= wall_ns) {
		struct bm_effect effect = b->due[i];

		memmove(&b->due[i], &b->due[i + 1], (b->n_due - i - 1) * sizeof(b->due[0]));
		b->n_due--;
		if (effect.at_ns > b->now_ns)
			b->now_ns = effect.at_ns;
		run_effect(b, &effect);
	}
	if (wall_ns > b->now_ns)
		b->now_ns = wall_ns;
}

static int64_t
next_ns(const struct server *server)
{
	const struct brightbox *b = (const struct brightbox *)server;
	size_t i = next_due(b);

	return i < b->n_due ? b->due[i].at_ns : CLOCK_FOREVER;
}

/* ---- life cycle ---- */

static void
closed(struct server *server, uint64_t stream)
{
	(void)server;
	(void)stream; /* no answer is a stream */
}

static void
free_model(struct server *server)
{
	struct brightbox *b = (struct brightbox *)server;

	for (size_t i = 0; i < b->n_accounts; i++) {
		for (size_t kind = 0; kind < BRIGHTBOX_N_KINDS; kind++)
			free(b->accounts[i]->base.of[kind]);
	}
	free(b->accounts);
	free(b->clients);
	free(b->tokens);
	free(b->due);
	arena_fini(&b->arena);
	free(b);
}

static const struct server_ops ops = {
	.handle = handle,
	.closed = closed,
	.advance = advance,
	.next_ns = next_ns,
	.free = free_model,
};

struct brightbox *
brightbox_new(int64_t wall_ns, uint64_t seed)
{
	struct brightbox *b = xcalloc(1, sizeof(*b));

	b->base.ops = &ops;
	b->now_ns = wall_ns;
	b->random = seed;
	b->settings.linger_ns = 3600 * SECOND_NS;
	b->settings.token_ns = 7200 * SECOND_NS;
	return b;
}

struct server *
brightbox_server(struct brightbox *b)
{
	return &b->base;
}

void
brightbox_set_observer(struct brightbox *b, brightbox_observe *observe, void *arg)
{
	b->observe = observe;
	b->observe_arg = arg;
}

struct brightbox_settings *
brightbox_settings(struct brightbox *b)
{
	return &b->settings;
}

/* ---- accounts ---- */

static void
add_catalog(struct brightbox *b, struct bm_account *a)
{
	static const char *const zones[] = { BM_REGION "-a", BM_REGION "-b" };
	static const struct {
		const char *handle, *name;
		int64_t cores, ram;
	} types[] = { { "1gb.ssd", "SSD 1gb.ssd", 1, 1024 },
		      { "2gb.ssd", "SSD 2gb.ssd", 2, 2048 },
		      { "4gb.ssd", "SSD 4gb.ssd", 2, 4096 } };

	for (size_t i = 0; i < ARRAY_LEN(zones); i++)
		((struct brightbox_zone *)bm_add(b, a, BRIGHTBOX_ZONE))->handle = str_c(zones[i]);
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		struct brightbox_type *type = (struct brightbox_type *)bm_add(b, a, BRIGHTBOX_TYPE);

		type->handle = str_c(types[i].handle);
		type->base.name = str_c(types[i].name);
		type->status = STR("available");
		type->storage = STR("local");
		type->cores = types[i].cores;
		type->ram = types[i].ram;
		type->disk_size = types[i].ram * 30;
	}
}

struct brightbox_account *
brightbox_add_account(struct brightbox *b, const char *name)
{
	struct bm_account *a = ARENA_NEW(&b->arena, struct bm_account);
	struct brightbox_group *group;
	struct brightbox_policy *policy;

	a->base.id = bm_new_id(b, "acc");
	a->base.name = arena_str(&b->arena, str_c(name));
	for (size_t kind = 0; kind < BRIGHTBOX_N_KINDS; kind++)
		a->base.limits[kind] = SIZE_MAX;
	add_catalog(b, a);
	group = (struct brightbox_group *)bm_add(b, a, BRIGHTBOX_GROUP);
	policy = (struct brightbox_policy *)bm_add(b, a, BRIGHTBOX_POLICY);
	group->base.name = policy->base.name = STR("default");
	group->is_default = policy->is_default = true;
	policy->group = group->base.id;
	ARRAY_PUSH(b->accounts, b->n_accounts, b->cap_accounts, a);
	return &a->base;
}

static void
set_client(struct brightbox *b, const char *id, const char *secret, struct brightbox_account *a,
           bool is_user)
{
	struct bm_client *known = find_client(b, str_c(id), is_user);
	struct bm_client new = { arena_str(&b->arena, str_c(id)),
		                 arena_str(&b->arena, str_c(secret)), (struct bm_account *)a,
		                 is_user };

	if (known)
		*known = new;
	else
		ARRAY_PUSH(b->clients, b->n_clients, b->cap_clients, new);
}

void
brightbox_set_client(struct brightbox *b, const char *id, const char *secret,
                     struct brightbox_account *a)
{
	set_client(b, id, secret, a, /*is_user=*/false);
}

void
brightbox_add_user(struct brightbox *b, const char *name, const char *password,
                   struct brightbox_account *a)
{
	set_client(b, name, password, a, /*is_user=*/true);
}

void
brightbox_revoke_tokens(struct brightbox *b, const char *client)
{
	for (size_t i = 0; i < b->n_tokens; i++) {
		if (str_eq_c(b->tokens[i].client, client))
			b->tokens[i].ends_ns = 0;
	}
}

const struct brightbox_account *
brightbox_account_of(const struct brightbox *b, struct str token)
{
	const struct bm_token *found = find_token(b, token);

	return found && found->ends_ns > b->now_ns ? &found->account->base : NULL;
}

/* ---- actors ---- */

struct brightbox_server *
brightbox_add_server(struct brightbox *b, struct brightbox_account *a)
{
	struct brightbox_server *server = (struct brightbox_server *)bm_add(b,
	                                                                    (struct bm_account *)a,
	                                                                    BRIGHTBOX_SERVER);
	struct bm_who who = { STR_EMPTY, STR("add server") };

	bm_report(b, (struct bm_account *)a, &who, NULL, &server->base);
	return server;
}

static void
set_status(struct brightbox *b, struct brightbox_account *a, struct brightbox_object *o,
           struct str *to, const char *status)
{
	const struct brightbox_object *before = bm_copy(b, o);
	struct bm_who who = { STR_EMPTY, STR("set status") };

	*to = str_c(status);
	bm_report(b, (struct bm_account *)a, &who, before, o);
}

void
brightbox_set_server_status(struct brightbox *b, struct brightbox_account *a,
                            struct brightbox_server *server, const char *status)
{
	set_status(b, a, &server->base, &server->status, status);
}

void
brightbox_set_balancer_status(struct brightbox *b, struct brightbox_account *a,
                              struct brightbox_balancer *lb, const char *status)
{
	set_status(b, a, &lb->base, &lb->status, status);
}

void
brightbox_forget_server(struct brightbox *b, struct brightbox_account *a,
                        struct brightbox_server *server)
{
	struct bm_effect effect = { .account = (struct bm_account *)a,
		                    .who = { STR_EMPTY, STR("forget server") } };

	bm_leave_holders(b, effect.account, server->base.id);
	bm_vanish(b, &server->base, &effect);
}
