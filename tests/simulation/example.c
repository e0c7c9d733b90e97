/* tests/simulation/example.c: see example.h. */
#include "example.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "target.h"

#define BASE "/v1"

enum {
	BODY_MAX = 1 << 20,
	FIRST_ID = 7,
	PAGE_MAX = 2,
};

struct example_account {
	yyjson_mut_val
		*items[EXAMPLE_N_KINDS]; /* objects: items by ID, in the order of their IDs */
	size_t limit;
};

struct token {
	struct str text;
	struct example_account *account; /* NULL: it is refused */
};

/* A balancer that will have an address. */
struct late {
	yyjson_mut_val *item;
	int64_t at_ns;
};

struct example {
	struct server base;
	struct arena arena;
	yyjson_mut_doc *doc; /* of all values */
	struct example_settings settings;
	struct token *tokens;
	size_t n_tokens, cap_tokens;
	struct late *late;
	size_t n_late, cap_late;
	int64_t now_ns;
	int last_id;
	example_observe *observe;
	void *observe_arg;
};

static const char *const names[EXAMPLE_N_KINDS] = { "machines", "balancers" };

/* ---- items ---- */

size_t
example_count(const struct example_account *a, enum example_kind kind)
{
	return yyjson_mut_obj_size(a->items[kind]);
}

yyjson_mut_val *
example_at(const struct example_account *a, enum example_kind kind, size_t i)
{
	yyjson_mut_obj_iter iter = yyjson_mut_obj_iter_with(a->items[kind]);
	yyjson_mut_val *key;

	while ((key = yyjson_mut_obj_iter_next(&iter)) && i > 0)
		i--;
	return yyjson_mut_obj_iter_get_val(key);
}

yyjson_mut_val *
example_find(const struct example_account *a, enum example_kind kind, struct str id)
{
	return yyjson_mut_obj_getn(a->items[kind], id.ptr, id.len);
}

struct str
example_text(yyjson_mut_val *item, const char *name)
{
	yyjson_mut_val *value = yyjson_mut_obj_get(item, name);

	return value ? str_n(yyjson_mut_get_str(value), yyjson_mut_get_len(value)) : STR_EMPTY;
}

static void
set(struct example *e, yyjson_mut_val *item, const char *name, yyjson_mut_val *value)
{
	(void)yyjson_mut_obj_put(item, yyjson_mut_strcpy(e->doc, name), value);
}

void
example_set_text(struct example *e, yyjson_mut_val *item, const char *name, const char *text)
{
	set(e, item, name, yyjson_mut_strcpy(e->doc, text));
}

/* Sets what the body has. */
static void
update(struct example *e, yyjson_mut_val *item, yyjson_val *body)
{
	yyjson_val *key, *value;
	size_t i, n;

	yyjson_obj_foreach(body, i, n, key, value)
		set(e, item, yyjson_get_str(key), yyjson_val_mut_copy(e->doc, value));
}

static yyjson_mut_val *
add(struct example *e, struct example_account *a, enum example_kind kind)
{
	yyjson_mut_val *item = yyjson_mut_obj(e->doc);
	struct str id = arena_printf(&e->arena, "%d", e->last_id++);
	bool is_machine = kind == EXAMPLE_MACHINES;

	example_set_text(e, item, "id", id.ptr);
	example_set_text(e, item, "ip",
	                 arena_printf(&e->arena, is_machine ? "10.0.0.%s" : "198.51.100.%s", id.ptr)
	                         .ptr);
	if (is_machine) {
		example_set_text(e, item, "state", "running");
		example_set_text(e, item, "type", "small");
		example_set_text(e, item, "zone", "a");
	} else {
		example_set_text(e, item, "label", "");
		set(e, item, "ports", yyjson_mut_arr(e->doc));
		set(e, item, "targets", yyjson_mut_arr(e->doc));
	}
	set(e, a->items[kind], id.ptr, item);
	return item;
}

yyjson_mut_val *
example_add_machine(struct example *e, struct example_account *a, const char *name, const char *ip)
{
	yyjson_mut_val *item = add(e, a, EXAMPLE_MACHINES);

	example_set_text(e, item, "name", name);
	example_set_text(e, item, "ip", ip);
	return item;
}

/* ---- requests ---- */

struct call {
	struct example *e;
	struct example_account *account;
	struct str token;
	const char *method;
	struct str target;
	enum example_kind kind;
	yyjson_val *body; /* NULL: there is none */
	struct server_response *answer;
};

static void
refuse(struct call *call, int status, const char *message)
{
	call->answer->status = status;
	json_begin_object(&call->answer->body, NULL);
	json_add_text(&call->answer->body, "message", str_c(message));
	json_end_object(&call->answer->body);
}

static void
add_item(struct buf *b, yyjson_mut_val *item)
{
	size_t len;
	char *text = yyjson_mut_val_write(item, 0, &len);

	buf_add_str(b, str_n(text, len));
	free(text);
}

static void
show(struct call *call, int status, yyjson_mut_val *item)
{
	call->answer->status = status;
	add_item(&call->answer->body, item);
}

static void
report(const struct call *call, yyjson_mut_val *item)
{
	struct example_change change = { call->account, call->token, call->method, call->kind,
		                         item };

	if (call->e->observe)
		call->e->observe(call->e->observe_arg, &change);
}

static size_t
number(struct arena *arena, struct str query, const char *name)
{
	size_t n;
	const struct target_pair *pairs = target_read_query(arena, query, &n);
	int64_t value = 0;

	for (size_t i = 0; i < n; i++) {
		if (str_eq_c(pairs[i].name, name))
			(void)!str_to_i64(pairs[i].value, 0, INT32_MAX, &value);
	}
	return (size_t)value;
}

static void
list(struct call *call, struct str query)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct buf *b = &call->answer->body;
	size_t size = number(&arena, query, "size"), total;
	size_t first;

	if (size > call->e->settings.page_max)
		size = call->e->settings.page_max;
	first = (number(&arena, query, "page") - 1) * size;
	total = example_count(call->account, call->kind);
	call->answer->status = 200;
	buf_addf(b, "{\"%s\":[", names[call->kind]);
	for (size_t i = first; i < first + size && i < total; i++) {
		buf_add_c(b, i > first ? "," : "");
		add_item(b, example_at(call->account, call->kind, i));
	}
	buf_addf(b, "],\"total\":%zu}", total);
}

static bool
is_named(const struct example_account *a, enum example_kind kind, struct str name)
{
	for (size_t i = 0; i < example_count(a, kind); i++) {
		if (str_eq(example_text(example_at(a, kind, i), "name"), name))
			return true;
	}
	return false;
}

static void
create(struct call *call)
{
	struct example *e = call->e;
	yyjson_mut_val *item;

	if (is_named(call->account, call->kind, json_view(call->body, "name"))) {
		refuse(call, 409, "the name is in use");
		return;
	}
	if (call->kind == EXAMPLE_BALANCERS &&
	    example_count(call->account, call->kind) >= call->account->limit) {
		refuse(call, 422, "there are too many balancers");
		return;
	}
	item = add(e, call->account, call->kind);
	update(e, item, call->body);
	if (call->kind == EXAMPLE_BALANCERS && e->settings.address_ns > 0) {
		struct late late = { item, e->now_ns + e->settings.address_ns };

		example_set_text(e, item, "ip", "");
		ARRAY_PUSH(e->late, e->n_late, e->cap_late, late);
	}
	show(call, 201, item);
	report(call, item);
}

static void
act(struct call *call)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct str path = call->target, query = STR_EMPTY, id;
	yyjson_mut_val *item = NULL;
	bool is_put = strcmp(call->method, "PUT") == 0, is_post = strcmp(call->method, "POST") == 0;
	bool is_item;

	str_cut(call->target, '?', &path, &query);
	for (call->kind = 0; call->kind < EXAMPLE_N_KINDS; call->kind++) {
		struct str pattern = arena_printf(&arena, "/%s/{id}", names[call->kind]);

		is_item = target_matches(pattern.ptr, path, &id);
		if (is_item)
			item = example_find(call->account, call->kind, id);
		if (item || (!is_item && str_eq_c(str_skip(path, 1), names[call->kind])))
			break;
	}
	if (call->kind == EXAMPLE_N_KINDS) {
		refuse(call, 404, arena_printf(&arena, "there is no %" STR_FMT, STR_ARG(path)).ptr);
	} else if (strcmp(call->method, "DELETE") == 0) {
		id = example_text(item, "id");
		(void)yyjson_mut_obj_remove_keyn(call->account->items[call->kind], id.ptr, id.len);
		call->answer->status = 204;
		report(call, item);
	} else if ((is_put || is_post) && !call->body) {
		refuse(call, 400, "the body is no JSON");
	} else if (is_put) {
		update(call->e, item, call->body);
		show(call, 200, item);
		report(call, item);
	} else if (is_post) {
		create(call);
	} else if (item) {
		show(call, 200, item);
	} else {
		list(call, query);
	}
}

static void
handle(struct server *server, const struct server_request *request, struct server_response *answer)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct example *e = (struct example *)server;
	struct call call = {
		.e = e,
		.account = (struct example_account *)example_account_of(e, request->token),
		.token = request->token,
		.method = request->method,
		.target = str_skip(request->target, strlen(BASE)),
		.answer = answer
	};
	struct error err;

	if (request->body.len > 0 && json_parse(request->body, &doc, &err))
		call.body = yyjson_doc_get_root(doc);
	if (call.account)
		act(&call);
	else
		refuse(&call, 401, "the token is wrong");
	if (answer->body.len > 0)
		buf_add_c(&answer->headers, "Content-Type: application/json\r\n");
}

int
example_request(struct example *e, struct example_account *a, const char *method,
                const char *target, const char *body)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct server_response answer = { .headers = BUF_INIT(BODY_MAX),
		                          .body = BUF_INIT(BODY_MAX) };
	struct call call = {
		.e = e, .account = a, .method = method, .target = str_c(target), .answer = &answer
	};
	struct error err;

	if (body[0] && json_parse(str_c(body), &doc, &err))
		call.body = yyjson_doc_get_root(doc);
	act(&call);
	buf_fini(&answer.headers);
	buf_fini(&answer.body);
	return answer.status;
}

/* ---- time ---- */

static void
advance(struct server *server, int64_t wall_ns)
{
	struct example *e = (struct example *)server;

	e->now_ns = wall_ns;
	for (size_t i = e->n_late; i-- > 0;) {
		struct late late = e->late[i];

		if (late.at_ns > wall_ns)
			continue;
		example_set_text(e, late.item, "ip",
		                 arena_printf(&e->arena, "198.51.100.%" STR_FMT,
		                              STR_ARG(example_text(late.item, "id")))
		                         .ptr);
		e->late[i] = e->late[--e->n_late];
	}
}

static int64_t
next_ns(const struct server *server)
{
	const struct example *e = (const struct example *)server;
	int64_t next_ns = CLOCK_FOREVER;

	for (size_t i = 0; i < e->n_late; i++)
		next_ns = clock_earlier(next_ns, e->late[i].at_ns);
	return next_ns;
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
	struct example *e = (struct example *)server;

	yyjson_mut_doc_free(e->doc);
	free(e->tokens);
	free(e->late);
	arena_fini(&e->arena);
	free(e);
}

static const struct server_ops ops = {
	.handle = handle,
	.closed = closed,
	.advance = advance,
	.next_ns = next_ns,
	.free = free_model,
};

struct example *
example_new(int64_t wall_ns)
{
	struct example *e = xcalloc(1, sizeof(*e));

	e->base.ops = &ops;
	e->doc = yyjson_mut_doc_new(NULL);
	e->settings.page_max = PAGE_MAX;
	e->now_ns = wall_ns;
	e->last_id = FIRST_ID;
	return e;
}

struct server *
example_server(struct example *e)
{
	return &e->base;
}

struct example_settings *
example_settings(struct example *e)
{
	return &e->settings;
}

void
example_set_observer(struct example *e, example_observe *observe, void *arg)
{
	e->observe = observe;
	e->observe_arg = arg;
}

struct example_account *
example_add_account(struct example *e)
{
	struct example_account *a = ARENA_NEW(&e->arena, struct example_account);

	for (int kind = 0; kind < EXAMPLE_N_KINDS; kind++)
		a->items[kind] = yyjson_mut_obj(e->doc);
	a->limit = SIZE_MAX;
	return a;
}

void
example_set_token(struct example *e, struct str token, struct example_account *account)
{
	struct token new = { arena_str(&e->arena, token), account };

	for (size_t i = 0; i < e->n_tokens; i++) {
		if (str_eq(e->tokens[i].text, token)) {
			e->tokens[i].account = account;
			return;
		}
	}
	ARRAY_PUSH(e->tokens, e->n_tokens, e->cap_tokens, new);
}

const struct example_account *
example_account_of(const struct example *e, struct str token)
{
	for (size_t i = 0; i < e->n_tokens; i++) {
		if (str_eq(e->tokens[i].text, token))
			return e->tokens[i].account;
	}
	return NULL;
}

void
example_set_limit(struct example_account *a, size_t limit)
{
	a->limit = limit;
}
