/* tests/controllers/fake_api.c: see fake_api.h. */
#include "controllers/fake_api.h"

#include "base/array.h"
#include "base/limits.h"
#include "base/thread.h"

enum {
	FIRST_VERSION = 1001,
};

struct fake_api {
	struct http_client client;
	pthread_mutex_t mu;
	struct api_rule *rules;          /* mu */
	size_t n_rules, cap_rules;       /* mu */
	struct api_request **requests;   /* mu */
	size_t n_requests, cap_requests; /* mu */
	int version;                     /* mu; of the next PATCH */
	fake_api_answer_fn *answer;      /* mu */
	void *answer_arg;                /* mu */
};

static bool
is_match(enum http_method method, const char *target, enum http_method wanted, const char *part)
{
	return method == wanted && (!part || strstr(target, part));
}

static const struct api_request *
keep(struct fake_api *api, const struct http_request *request)
{
	struct api_request *copy = xcalloc(1, sizeof(*copy));

	copy->method = request->method;
	copy->target = xstrndup(request->target.ptr, request->target.len);
	copy->body = request->content_type ? xstrndup(request->body.ptr, request->body.len)
	                                   : xstrdup("");
	ARRAY_PUSH(api->requests, api->n_requests, api->cap_requests, copy);
	return copy;
}

static bool
take_rule(struct fake_api *api, const struct api_request *request, struct api_rule *ret)
{
	for (size_t i = 0; i < api->n_rules; i++) {
		struct api_rule *rule = &api->rules[i];

		if (!is_match(request->method, request->target, rule->method, rule->part))
			continue;
		*ret = *rule;
		if (rule->times > 0 && --rule->times == 0)
			memmove(rule, rule + 1, (--api->n_rules - i) * sizeof(*rule));
		return true;
	}
	return false;
}

static struct api_rule
usual(const struct api_request *request)
{
	if (request->method == HTTP_GET)
		return (struct api_rule){ .status = 404 };
	return (struct api_rule){ .status = 200 };
}

/* The test's rules answer first, then its function, then the default. */
static struct api_rule
choose(struct fake_api *api, const struct http_request *request, struct buf *body)
{
	const struct api_request *kept;
	struct api_rule rule;
	WITH_LOCK(&api->mu);

	kept = keep(api, request);
	if (!take_rule(api, kept, &rule)) {
		int status = api->answer ? api->answer(api->answer_arg, kept, body) : 0;

		rule = usual(kept);
		if (status > 0)
			rule.status = status;
	}
	if (rule.body)
		buf_add_c(body, rule.body);
	else if (body->len == 0 && kept->method == HTTP_PATCH && rule.status == 200)
		buf_addf(body, "{\"metadata\":{\"resourceVersion\":\"%d\"}}", api->version++);
	return rule;
}

static bool
do_request(struct http_client *client, struct call *call, const struct http_request *request,
           struct http_response *response, struct error *err)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_BODY);
	struct api_rule rule = choose(CONTAINER_OF(client, struct fake_api, client), request,
	                              &body);

	if (cancel_is_fired(call->cancel))
		return err_set(err, ERR_CANCELLED, "cancelled");
	if (rule.hangs)
		return cancel_sleep(call->cancel, call->clock, CLOCK_FOREVER, err);
	if (rule.status == 0)
		return err_set(err, rule.code, "scripted failure");
	response->status = rule.status;
	response->body = BUF_INIT(LIMIT_HTTP_BODY);
	buf_add_str(&response->body, body.len > 0 ? buf_str(&body) : STR("{}"));
	return true;
}

struct fake_api *
fake_api_new(void)
{
	static const struct http_ops ops = { .do_request = do_request };
	struct fake_api *api = xcalloc(1, sizeof(*api));

	api->client.ops = &ops;
	api->version = FIRST_VERSION;
	mutex_init(&api->mu);
	return api;
}

static void
forget_requests(struct fake_api *api)
{
	for (size_t i = 0; i < api->n_requests; i++) {
		free(api->requests[i]->target);
		free(api->requests[i]->body);
		free(api->requests[i]);
	}
	api->n_requests = 0;
}

void
fake_api_free(struct fake_api *api)
{
	forget_requests(api);
	free(api->requests);
	free(api->rules);
	mutex_destroy(&api->mu);
	free(api);
}

struct http_client *
fake_api_client(struct fake_api *api)
{
	return &api->client;
}

void
fake_api_rule(struct fake_api *api, struct api_rule rule)
{
	WITH_LOCK(&api->mu);

	ARRAY_PUSH(api->rules, api->n_rules, api->cap_rules, rule);
}

void
fake_api_answer_with(struct fake_api *api, fake_api_answer_fn *answer, void *arg)
{
	WITH_LOCK(&api->mu);

	api->answer = answer;
	api->answer_arg = arg;
}

void
fake_api_forget_requests(struct fake_api *api)
{
	WITH_LOCK(&api->mu);

	forget_requests(api);
}

void
fake_api_forget_rules(struct fake_api *api)
{
	WITH_LOCK(&api->mu);

	api->n_rules = 0;
}

size_t
fake_api_count(struct fake_api *api, enum http_method method, const char *part)
{
	size_t n = 0;
	WITH_LOCK(&api->mu);

	for (size_t i = 0; i < api->n_requests; i++)
		n += is_match(api->requests[i]->method, api->requests[i]->target, method, part);
	return n;
}

const struct api_request *
fake_api_nth(struct fake_api *api, enum http_method method, const char *part, size_t nth)
{
	size_t n = nth;
	WITH_LOCK(&api->mu);

	for (size_t i = 0; i < api->n_requests; i++) {
		if (is_match(api->requests[i]->method, api->requests[i]->target, method, part) &&
		    n-- == 0)
			return api->requests[i];
	}
	(void)fprintf(stderr, "request %zu, %s …%s…, was never sent\n", nth,
	              http_method_name(method), part);
	abort();
}

static bool
is_event(const struct api_request *request, const char *reason, const char *name)
{
	CLEANUP(buf_fini)
	struct buf wanted_reason = BUF_INIT(KIB(1)), wanted_name = BUF_INIT(KIB(1));

	if (request->method != HTTP_POST || !strstr(request->target, "/events"))
		return false;
	buf_addf(&wanted_reason, "\"reason\":\"%s\"", reason);
	buf_addf(&wanted_name, "\"name\":\"%s\"", name ? name : "");
	return strstr(request->body, wanted_reason.ptr) &&
	       (!name || strstr(request->body, wanted_name.ptr));
}

size_t
fake_api_events(struct fake_api *api, const char *reason, const char *name)
{
	size_t n = 0;
	WITH_LOCK(&api->mu);

	for (size_t i = 0; i < api->n_requests; i++)
		n += is_event(api->requests[i], reason, name);
	return n;
}

const char *
fake_api_last_event(struct fake_api *api, const char *reason)
{
	WITH_LOCK(&api->mu);

	for (size_t i = api->n_requests; i-- > 0;) {
		if (is_event(api->requests[i], reason, /*name=*/NULL))
			return strstr(api->requests[i]->body, "\"message\":");
	}
	(void)fprintf(stderr, "no event %s was sent\n", reason);
	abort();
}
