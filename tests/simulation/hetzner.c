/* hetzner.c: see hetzner.h. Life cycle, tokens, the budget of requests, and the way of a request.
 */
#include "hetzner_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"

#define HOUR_NS (3600 * NS_PER_SECOND)
#define FIRST_ID INT64_C(4300000001) /* larger than 32 bits, so that no client relies on less */

/* ---- numbers ---- */

/* splitmix64 */
uint64_t
hm_random(struct hetzner *h)
{
	return model_random(&h->random);
}

/* IPv4 198.18.0.0 + n, IPv6 2001:db8:: with n in the third and fourth group. */
void
hm_public_pair(struct hetzner *h, struct hm_project *p, const char *ipv6_end, struct str *ret_ipv4,
               struct str *ret_ipv6)
{
	unsigned n = (p->base.number << 16) + ++p->n_public;
	char text[64];
	struct buf ipv6 = BUF_FIXED(text);
	struct ip ip;

	text[0] = '\0';
	snprintf(text, sizeof(text), "2001:db8:%x:%x::%s", n >> 16, n & 0xffff,
	         ipv6_end[0] == '1' ? "1" : "");
	if (!ip_parse(str_c(text), &ip))
		abort();
	ip_format(&ipv6, &ip);
	*ret_ipv4 = hm_ipv4_text(&h->arena, (198U << 24) + (18U << 16) + n);
	*ret_ipv6 = arena_printf(&h->arena, "%s%s", text, ipv6_end[0] == '1' ? "" : ipv6_end);
}

/* ---- resources ---- */

struct hetzner_resource *
hetzner_find(const struct hetzner_project *p, enum hetzner_kind kind, int64_t id)
{
	size_t low = 0, high = p->n_of[kind];

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (p->of[kind][middle]->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < p->n_of[kind] && p->of[kind][low]->id == id ? p->of[kind][low] : NULL;
}

struct hetzner_resource *
hetzner_find_named(const struct hetzner_project *p, enum hetzner_kind kind, struct str name)
{
	for (size_t i = 0; i < p->n_of[kind]; i++) {
		if (str_eq(p->of[kind][i]->name, name))
			return p->of[kind][i];
	}
	return NULL;
}

struct str
hetzner_label(const struct hetzner_resource *resource, const char *key)
{
	for (size_t i = 0; i < resource->n_labels; i++) {
		if (str_eq_c(resource->labels[i].key, key))
			return resource->labels[i].value;
	}
	return STR_EMPTY;
}

void
hm_set_labels(struct hetzner *h, struct hetzner_resource *resource, const struct label *labels,
              size_t n_labels)
{
	struct label *copies = arena_calloc(&h->arena, n_labels, sizeof(*copies));

	for (size_t i = 0; i < n_labels; i++) {
		copies[i].key = arena_str(&h->arena, labels[i].key);
		copies[i].value = arena_str(&h->arena, labels[i].value);
	}
	resource->labels = copies;
	resource->n_labels = n_labels;
}

void
hm_init_resource(struct hetzner *h, struct hetzner_resource *ret, enum hetzner_kind kind,
                 struct str name, const struct label *labels, size_t n_labels)
{
	ret->kind = kind;
	ret->id = h->next_id++;
	ret->name = arena_str(&h->arena, name);
	hm_set_labels(h, ret, labels, n_labels);
	ret->created_ns = h->now_ns;
}

/* IDs only grow, so the end is the place of the newest. */
void
hm_add_resource(struct hm_project *p, struct hetzner_resource *resource)
{
	ARRAY_PUSH(p->base.of[resource->kind], p->base.n_of[resource->kind],
	           p->cap_of[resource->kind], resource);
}

void
hm_remove_resource(struct hm_project *p, const struct hetzner_resource *resource)
{
	struct hetzner_resource **all = p->base.of[resource->kind];
	size_t n = p->base.n_of[resource->kind], i = 0;

	while (i < n && all[i] != resource)
		i++;
	if (i == n)
		return;
	memmove(&all[i], &all[i + 1], (n - i - 1) * sizeof(*all));
	p->base.n_of[resource->kind]--;
}

void
hm_report(struct hetzner *h, struct hm_project *p, const struct hm_who *who,
          const struct hetzner_resource *before, const struct hetzner_resource *after)
{
	struct hetzner_change change = {
		.project = &p->base,
		.wall_ns = h->now_ns,
		.token = who->token,
		.user_agent = who->user_agent,
		.command = who->command,
		.before = before,
		.after = after,
	};

	if (h->observe)
		h->observe(h->observe_arg, &change);
}

/* ---- the budget of requests ---- */

/* The bucket holds as many requests as the limit, and fills evenly within an hour. */
static void
hm_budget_fill(const struct hetzner *h, struct hm_project *p)
{
	int64_t max = p->base.rate_limit * HOUR_NS, passed_ns = h->now_ns - p->filled_ns;

	p->filled_ns = h->now_ns;
	if (passed_ns >= HOUR_NS || p->credit + passed_ns * p->base.rate_limit > max)
		p->credit = max;
	else
		p->credit += passed_ns * p->base.rate_limit;
}

static bool
hm_budget_take(const struct hetzner *h, struct hm_project *p)
{
	hm_budget_fill(h, p);
	if (p->credit < HOUR_NS)
		return false;
	p->credit -= HOUR_NS;
	return true;
}

static void
hm_budget_show(const struct hetzner *h, const struct hm_project *p, struct buf *headers)
{
	int64_t limit = p->base.rate_limit;
	int64_t reset_ns = h->now_ns + (limit * HOUR_NS - p->credit) / (limit > 0 ? limit : 1);

	buf_addf(headers,
	         "RateLimit-Limit: %lld\r\nRateLimit-Remaining: %lld\r\nRateLimit-Reset: %lld\r\n",
	         (long long)limit, (long long)(p->credit > 0 ? p->credit / HOUR_NS : 0),
	         (long long)(reset_ns / NS_PER_SECOND));
}

void
hetzner_drain_budget(struct hetzner *h, struct hetzner_project *project, int64_t n_left)
{
	struct hm_project *p = hm_project(project);

	hm_budget_fill(h, p);
	if (p->credit > n_left * HOUR_NS)
		p->credit = n_left * HOUR_NS;
}

void
hetzner_set_rate_limit(struct hetzner *h, struct hetzner_project *project, int64_t limit)
{
	struct hm_project *p = hm_project(project);

	project->rate_limit = limit;
	p->credit = limit * HOUR_NS;
	p->filled_ns = h->now_ns;
}

/* ---- tokens and projects ---- */

static const struct hm_token *
hm_find_token(const struct hetzner *h, struct str text)
{
	for (size_t i = 0; i < h->n_tokens; i++) {
		if (str_eq(h->tokens[i].text, text) && !h->tokens[i].is_revoked)
			return &h->tokens[i];
	}
	return NULL;
}

void
hetzner_add_token(struct hetzner *h, struct hetzner_project *p, struct str token, bool may_write)
{
	struct hm_token added = { arena_str(&h->arena, token), hm_project(p), may_write, false };

	ARRAY_PUSH(h->tokens, h->n_tokens, h->cap_tokens, added);
}

void
hetzner_revoke_token(struct hetzner *h, struct str token)
{
	for (size_t i = 0; i < h->n_tokens; i++) {
		if (str_eq(h->tokens[i].text, token))
			h->tokens[i].is_revoked = true;
	}
}

struct hetzner_project *
hetzner_add_project(struct hetzner *h, struct str token)
{
	struct hm_project *p = ARENA_NEW(&h->arena, struct hm_project);

	p->settings = &h->settings;
	p->base.rate_limit = 3600;
	p->base.max_balancers = INT64_MAX;
	p->base.number = (unsigned)h->n_projects;
	p->credit = p->base.rate_limit * HOUR_NS;
	p->filled_ns = h->now_ns;
	ARRAY_PUSH(h->projects, h->n_projects, h->cap_projects, p);
	hetzner_add_token(h, &p->base, token, true);
	return &p->base;
}

/* ---- requests ---- */

/* Answers a request of somebody who may send it. */
static void
hm_answer(struct hm_call *call, const struct server_request *request)
{
	hm_settle(call->h, call->p);
	if (hm_call_read(call, request) && call->row->serve(call) && call->answer->status == 0)
		call->answer->status = call->row->status;
	if (call->answer->body.len > 0)
		buf_add_c(&call->answer->headers, "Content-Type: application/json\r\n");
}

static void
hm_handle(struct server *server, const struct server_request *request, struct server_response *ret)
{
	struct hetzner *h = (struct hetzner *)server;
	const struct hm_token *token = hm_find_token(h, request->token);
	struct hm_call call = { .h = h, .answer = ret };
	bool is_read = strcmp(request->method, "GET") == 0, is_allowed;

	call.who = (struct hm_who){ request->token, request->user_agent, str_c(request->method) };
	if (!token || request->token.len == 0) {
		hm_refuse(&call, "unauthorized", "unable to authenticate");
		buf_add_c(&ret->headers, "Content-Type: application/json\r\n");
		hm_call_fini(&call);
		return;
	}
	call.p = token->project;
	is_allowed = hm_budget_take(h, call.p);
	hm_budget_show(h, call.p, &ret->headers);
	if (!is_allowed)
		hm_refuse(&call, "rate_limit_exceeded", "limit of requests per hour reached");
	else if (!str_starts(request->target, STR("/v1/")))
		hm_refuse(&call, "not_found", "page not found");
	else if (!is_read && !token->may_write)
		hm_refuse(&call, "forbidden", "the token may only read");
	hm_answer(&call, request);
	hm_call_fini(&call);
}

int
hetzner_request(struct hetzner *h, struct hetzner_project *p, const char *user_agent,
                const char *method, const char *target, struct str body)
{
	CLEANUP(buf_fini) struct buf full = BUF_INIT(1 << 14);
	struct server_response answer = { .headers = BUF_INIT(1 << 14), .body = BUF_INIT(1 << 26) };
	struct server_request request = { .method = method,
		                          .content_type = STR("application/json"),
		                          .user_agent = str_c(user_agent),
		                          .body = body };
	struct hm_call call = { .h = h, .p = hm_project(p), .answer = &answer };

	buf_addf(&full, "/v1%s", target);
	request.target = buf_str(&full);
	call.who = (struct hm_who){ STR_EMPTY, request.user_agent, str_c(method) };
	hm_answer(&call, &request);
	hm_call_fini(&call);
	buf_fini(&answer.headers);
	buf_fini(&answer.body);
	return answer.status;
}

/* ---- time ---- */

static void
hm_advance(struct server *server, int64_t wall_ns)
{
	struct hetzner *h = (struct hetzner *)server;

	if (wall_ns > h->now_ns)
		h->now_ns = wall_ns;
	for (size_t i = 0; i < h->n_projects; i++)
		hm_settle(h, h->projects[i]);
}

static int64_t
hm_next_ns(const struct server *server)
{
	const struct hetzner *h = (const struct hetzner *)server;
	int64_t next_ns = CLOCK_FOREVER;

	for (size_t i = 0; i < h->n_projects; i++) {
		int64_t end_ns = hm_next_end(h->projects[i]);

		if (end_ns < next_ns)
			next_ns = end_ns;
	}
	return next_ns;
}

/* ---- life cycle ---- */

static void
hm_closed(struct server *server, uint64_t stream)
{
	(void)server;
	(void)stream; /* no answer is a stream */
}

static void
hm_free(struct server *server)
{
	struct hetzner *h = (struct hetzner *)server;

	for (size_t i = 0; i < h->n_projects; i++) {
		struct hm_project *p = h->projects[i];

		for (size_t kind = 0; kind < HETZNER_N_KINDS; kind++)
			free(p->base.of[kind]);
		free(p->base.actions);
		free(p->running);
		free(p->dooms);
		free(p->robot_ips);
	}
	free(h->projects);
	free(h->tokens);
	arena_fini(&h->arena);
	free(h);
}

static const struct server_ops ops = {
	.handle = hm_handle,
	.closed = hm_closed,
	.advance = hm_advance,
	.next_ns = hm_next_ns,
	.free = hm_free,
};

struct hetzner *
hetzner_new(int64_t wall_ns, uint64_t seed)
{
	struct hetzner *h = xcalloc(1, sizeof(*h));

	h->base.ops = &ops;
	h->now_ns = wall_ns;
	h->random = seed;
	h->next_id = FIRST_ID;
	memcpy(h->types, hm_balancer_types, sizeof(h->types));
	return h;
}

struct server *
hetzner_server(struct hetzner *h)
{
	return &h->base;
}

void
hetzner_set_observer(struct hetzner *h, hetzner_observe *observe, void *arg)
{
	h->observe = observe;
	h->observe_arg = arg;
}

int64_t
hetzner_now(const struct hetzner *h)
{
	return h->now_ns;
}

struct hetzner_settings *
hetzner_settings(struct hetzner *h)
{
	return &h->settings;
}

struct hetzner_balancer_type *
hetzner_balancer_type(struct hetzner *h, const char *name)
{
	for (size_t i = 0; i < HM_N_BALANCER_TYPES; i++) {
		if (strcmp(h->types[i].name, name) == 0)
			return &h->types[i];
	}
	return NULL;
}
