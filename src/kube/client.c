/* kube/client.c: see client.h.
 *
 * All requests go through the same steps: client_call() sends and turns the status into an error,
 * with client_exchange() repeating as the server asks; kube_request() copies the body into the
 * call's arena. Only requests that are harmless when executed twice are marked can_replay for the
 * transport. Everything else is repeated by the reconcile loop, which reads the present state
 * first.
 *
 * The errors follow docs/spec/kube-client.md, "Errors of the API": the Status object in the body
 * says more than the HTTP status, because proxies and the API server's own layers use the same HTTP
 * status for different failures.
 */
#include "kube/client.h"

#include <assert.h>
#include <pthread.h>

#include "base/backoff.h"
#include "base/limits.h"
#include "base/metrics.h"
#include "base/rand.h"
#include "base/recent.h"
#include "base/split.h"
#include "base/thread.h"
#include "base/watchdog.h"

#define ACCEPT_META "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

#define HEALTH_EVERY_NS NS_PER_SEC
#define LIST_IDLE_NS (30 * NS_PER_SEC)     /* the longest time without a byte during a list */
#define LIST_TIMEOUT_NS (600 * NS_PER_SEC) /* the longest time for a whole list */

enum {
	MAX_RETRIES = 10,
	MAX_DELETE_BODY = 1024,
};

/* ---- metrics ---- */

static const double duration_buckets[] = { .005, .025, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60 };
static const double size_buckets[] = { 64,    256,    512,     1024,    4096,    16384,
	                               65536, 262144, 1048576, 4194304, 16777216 };

METRIC_FAMILY(
	requests_total, METRIC_COUNTER, "rest_client_requests_total",
	"[ALPHA] Attempts of requests to the API server, by status code (<error>: no response).",
	.labels = { "code", "method", "host" });
METRIC_FAMILY(
	retries_total, METRIC_COUNTER, "rest_client_request_retries_total",
	"[ALPHA] Repeated requests to the API server, by the status code that caused the repetition.",
	.labels = { "code", "verb", "host" });
METRIC_FAMILY(
	duration_seconds, METRIC_HISTOGRAM, "rest_client_request_duration_seconds",
	"[ALPHA] Duration of requests to the API server, with waiting and retries, without lists and watches.",
	.labels = { "verb", "host" }, METRIC_BUCKETS(duration_buckets));
METRIC_FAMILY(
	limited_seconds, METRIC_HISTOGRAM, "rest_client_rate_limiter_duration_seconds",
	"[ALPHA] Time an attempt waited for its turn: for running requests to end, for --kube-api-qps, or for a Retry-After to pass.",
	.labels = { "verb", "host" }, METRIC_BUCKETS(duration_buckets));
METRIC_FAMILY(request_bytes, METRIC_HISTOGRAM, "rest_client_request_size_bytes",
              "[ALPHA] Size of the bodies of requests to the API server, for each attempt.",
              .labels = { "verb", "host" }, METRIC_BUCKETS(size_buckets));
METRIC_FAMILY(
	response_bytes, METRIC_HISTOGRAM, "rest_client_response_size_bytes",
	"[ALPHA] Size of the bodies of the API server's responses, without lists and watches.",
	.labels = { "verb", "host" }, METRIC_BUCKETS(size_buckets));

static void
count_by_status(struct metric_family *family, const char *host, enum http_method method, int status)
{
	char code[16] = "<error>";

	if (status)
		snprintf(code, sizeof(code), "%d", status);
	metric_inc(metric_of(family, code, http_method_name(method), host ? host : ""));
}

void
kube_start_counters(const char *host)
{
	for (enum http_method method = HTTP_GET; method <= HTTP_DELETE; method++)
		(void)metric_of(&requests_total, "403", http_method_name(method), host);
}

void
kube_count_request(const char *host, enum http_method method, int status)
{
	count_by_status(&requests_total, host, method, status);
	recent_count(RECENT_API_SERVER, status);
}

static void
observe(struct metric_family *family, const struct kube_client *c,
        const struct http_request *request, double v)
{
	metric_observe(metric_of(family, http_method_name(request->method), c->host ? c->host : ""),
	               v);
}

/* ---- the meaning of an answer ---- */

/* Does the server refuse a patch because of its UID? The object has been deleted, and another one
 * has its name. For a DELETE and a PUT the server calls that a conflict, but for a PATCH a change
 * of an immutable member (apiserver, registry/rest/update.go, BeforeUpdate). */
static bool
names_other_uid(yyjson_val *status)
{
	yyjson_val *causes, *cause;
	size_t i, n;

	if (json_array(status, "details.causes", &causes) != JSON_FOUND)
		return false;
	yyjson_arr_foreach(causes, i, n, cause)
	{
		if (str_eq_c(json_view(cause, "field"), "metadata.uid"))
			return true;
	}
	return false;
}

enum err_code
kube_status_code(yyjson_val *status)
{
	static const struct {
		const char *reason;
		enum err_code code;
	} table[] = {
		{ "Unauthorized", ERR_UNAUTHORIZED },
		{ "Forbidden", ERR_FORBIDDEN },
		{ "NotFound", ERR_NOT_FOUND },
		{ "AlreadyExists", ERR_EXISTS },
		{ "Conflict", ERR_CONFLICT },
		{ "Gone", ERR_GONE },
		{ "Expired", ERR_GONE },
		{ "Invalid", ERR_INVALID },
		{ "BadRequest", ERR_INVALID },
		{ "TooManyRequests", ERR_THROTTLED },
		{ "Timeout", ERR_TIMEOUT },
		{ "ServerTimeout", ERR_TIMEOUT },
		{ "InternalError", ERR_UNAVAILABLE },
		{ "ServiceUnavailable", ERR_UNAVAILABLE },
	};
	struct str reason = json_view(status, "reason");
	int64_t code = 0;

	if (str_eq_c(reason, "Invalid") && names_other_uid(status))
		return ERR_CONFLICT;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		if (str_eq_c(reason, table[i].reason))
			return table[i].code;
	}
	if (json_i64(status, "code", &code) == JSON_FOUND && code >= 400 && code <= 599)
		return http_status((int)code).code;
	return ERR_INTERNAL;
}

int64_t
kube_status_retry_ms(yyjson_val *status)
{
	int64_t seconds = 0;

	if (json_i64(status, "details.retryAfterSeconds", &seconds) != JSON_FOUND || seconds < 0)
		return 0;
	return MS_PER_SEC * (seconds < LIMIT_RETRY_AFTER_S ? seconds : LIMIT_RETRY_AFTER_S);
}

/* The Status object in body, or NULL if body is something else; *ret_doc owns it. */
static yyjson_val *
parse_status(struct str body, yyjson_doc **ret_doc)
{
	yyjson_val *root;
	struct error err;

	if (!json_parse(body, ret_doc, &err))
		return NULL;
	root = yyjson_doc_get_root(*ret_doc);
	return str_eq_c(json_view(root, "kind"), "Status") ? root : NULL;
}

/* retry_after_ms is that of the header, which overrides the Status object's: it may come from a
 * proxy in between, which measures the present load. */
static bool
status_error(struct error *err, const struct http_request *request, int number,
             int64_t retry_after_ms, yyjson_val *status)
{
	enum err_code code = kube_status_code(status);

	if (retry_after_ms == 0)
		retry_after_ms = kube_status_retry_ms(status);
	http_status_error(err, request, number, retry_after_ms, json_view(status, "message"));
	if (code != ERR_INTERNAL || number < 400 || number > 599)
		err->code = code;
	return false;
}

bool
kube_status_error(struct error *err, const struct http_request *request, int status,
                  int64_t retry_after_ms, struct str body)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	yyjson_val *object = parse_status(body, &doc);

	if (object)
		return status_error(err, request, status, retry_after_ms, object);
	return http_status_error(err, request, status, retry_after_ms, body);
}

/* ---- one request ---- */

/* Sends a request once. False when no answer arrives. */
static bool
client_attempt(struct kube_client *c, struct call *call, const struct http_request *request,
               struct http_response *response, struct error *err)
{
	struct http_request named = *request;
	bool is_answered;

	named.user_agent = c->user_agent;
	is_answered = http_do(c->http, call, &named, response, err);
	kube_count_request(c->host, request->method, is_answered ? response->status : 0);
	if (!is_answered)
		return false;
	observe(&limited_seconds, c, request, clock_seconds(response->waited_ns));
	observe(&request_bytes, c, request, (double)request->body.len);
	observe(&response_bytes, c, request, (double)response->body.len);
	return true;
}

/* Sends a request, and repeats it while the server refuses it with a Retry-After. If the wait would
 * end after the deadline, it is not begun, and the refusal is the result. The wait is up to 20 %
 * longer than asked, so that clients that were refused together do not return together. */
static bool
client_exchange(struct kube_client *c, struct call *call, const struct http_request *request,
                struct http_response *response, struct error *err)
{
	struct attempts attempts = { .begun_ns = clock_mono(c->clock) };
	struct error refusal;

	for (int n_retries = 0; client_attempt(c, call, request, response, err); n_retries++) {
		int64_t asked_ns = response->retry_after_ms * NS_PER_MS;
		int64_t wait_ns = asked_ns + rand_between(0, asked_ns / 5);
		bool is_refusal = response->status == 429 || response->status >= 500;

		if (!is_refusal || asked_ns == 0 || n_retries == MAX_RETRIES)
			return true;
		if (clock_deadline(clock_mono(c->clock), wait_ns) >= call->deadline_mono_ns)
			return true;
		kube_status_error(&refusal, request, response->status, response->retry_after_ms,
		                  buf_str(&response->body));
		attempts_note(&attempts, &refusal);
		if (!cancel_sleep(call->cancel, call->clock, wait_ns, err))
			return false;
		count_by_status(&retries_total, c->host, request->method, response->status);
		http_response_fini(response);
		*response = (struct http_response){ .body = response->body };
	}
	attempts_note(&attempts, err);
	return attempts_end(&attempts, clock_mono(c->clock), err);
}

/* Sends a request. False when no answer arrives or the answer is a failure. The API server may
 * answer 2xx with a Status object that reports a failure. Parsing every answer for that would cost
 * too much, so only answers that contain both words are parsed. */
static bool
client_call(struct kube_client *c, struct call *call, const struct http_request *request,
            bool needs_body, struct http_response *response, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	int64_t start_ns = clock_mono(c->clock);
	bool is_answered = client_exchange(c, call, request, response, err);
	struct str body = buf_str(&response->body);
	yyjson_val *status;

	observe(&duration_seconds, c, request, clock_seconds(clock_mono(c->clock) - start_ns));
	if (!is_answered)
		return false;
	if (response->status < 200 || response->status > 206)
		return kube_status_error(err, request, response->status, response->retry_after_ms,
		                         body);
	if (needs_body && body.len == 0)
		return err_set(err, ERR_INTERNAL, "%s %" STR_FMT ": the response is empty",
		               http_method_name(request->method), STR_ARG(request->target));
	if (!str_contains(body, STR("\"Status\"")) || !str_contains(body, STR("\"Failure\"")))
		return true;
	status = parse_status(body, &doc);
	if (!str_eq_c(json_view(status, "status"), "Failure"))
		return true;
	return status_error(err, request, response->status, response->retry_after_ms, status);
}

/* Sends a request and copies the body of the answer to the call's arena. ret_body may be NULL. */
static bool
kube_request(struct kube_client *c, struct call *call, const struct http_request *request,
             struct str *ret_body, struct error *err)
{
	CLEANUP(http_response_fini) struct http_response response = HTTP_RESPONSE_INIT;

	if (!client_call(c, call, request, /*needs_body=*/ret_body, &response, err))
		return false;
	if (ret_body)
		*ret_body = arena_str(call->arena, buf_str(&response.body));
	return true;
}

/* ---- requests by purpose ---- */

bool
kube_get(struct kube_client *c, struct call *call, struct str path, struct str *ret_body,
         struct error *err)
{
	struct http_request request = { .method = HTTP_GET, .target = path };

	return kube_request(c, call, &request, ret_body, err);
}

bool
kube_patch(struct kube_client *c, struct call *call, const struct kube_patch *patch,
           struct str *ret_body, struct error *err)
{
	struct http_request request = {
		.method = HTTP_PATCH,
		.class = patch->is_background ? HTTP_BACKGROUND : HTTP_WORK,
		.target = patch->path,
		.accept = patch->answer == KUBE_ANSWER_META ? ACCEPT_META : NULL,
		.content_type = patch->type == KUBE_PATCH_STRATEGIC
		                        ? "application/strategic-merge-patch+json"
		                        : "application/merge-patch+json",
		.body = patch->body,
		.can_replay = patch->is_background,
	};

	return kube_request(c, call, &request, ret_body, err);
}

/* Background requests create events, under a name of ours: the second of two is answered with
 * AlreadyExists, which the recorder takes as success. They may therefore be replayed. */
bool
kube_post(struct kube_client *c, struct call *call, struct str path, enum http_class class,
          struct str body, struct str *ret_body, struct error *err)
{
	struct http_request request = {
		.method = HTTP_POST,
		.class = class,
		.target = path,
		.content_type = "application/json",
		.body = body,
		.can_replay = class == HTTP_BACKGROUND,
	};

	return kube_request(c, call, &request, ret_body, err);
}

bool
kube_put(struct kube_client *c, struct call *call, struct str path, struct str body,
         struct str *ret_body, struct error *err)
{
	struct http_request request = {
		.method = HTTP_PUT,
		.target = path,
		.content_type = "application/json",
		.body = body,
	};

	return kube_request(c, call, &request, ret_body, err);
}

bool
kube_post_secret(struct kube_client *c, struct call *call, struct str path, struct str body,
                 struct buf *ret, struct error *err)
{
	CLEANUP(http_response_fini)
	struct http_response response = { .body = BUF_SECRET(0) };
	struct http_request request = {
		.method = HTTP_POST,
		.target = path,
		.content_type = "application/json",
		.body = body,
	};

	if (!client_call(c, call, &request, /*needs_body=*/true, &response, err))
		return false;
	buf_wipe(ret);
	*ret = response.body;
	response.body = BUF_SECRET(0);
	return true;
}

/* A DELETE may be replayed: with UID and version as preconditions, a second one finds nothing, or
 * conflicts with the first one. */
bool
kube_delete(struct kube_client *c, struct call *call, struct str path, struct str uid,
            struct str version, struct error *err)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(MAX_DELETE_BODY);
	struct http_request request = {
		.method = HTTP_DELETE,
		.target = path,
		.accept = ACCEPT_META,
		.content_type = "application/json",
		.can_replay = true,
	};

	assert(uid.len > 0 && version.len > 0);
	buf_add_c(&body, "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\"");
	json_add_object(&body, "preconditions", JSON_TEXT("uid", uid),
	                JSON_TEXT("resourceVersion", version));
	json_end_object(&body);
	if (!buf_ok(&body))
		return err_set(err, ERR_INVALID,
		               "DELETE %" STR_FMT ": the UID or the resource version is too long",
		               STR_ARG(path));
	request.body = buf_str(&body);
	return kube_request(c, call, &request, /*ret_body=*/NULL, err);
}

/* ---- lists ---- */

static bool
parse_item(void *arg, struct str text, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	const struct kube_list *list = arg;

	if (!json_parse(text, &doc, err))
		return false;
	return list->each(list->arg, yyjson_doc_get_root(doc), err);
}

static bool
check_head(yyjson_val *head, const char *item_kind, struct buf *ret_version, struct error *err)
{
	struct str kind = json_view(head, "kind"), more = STR_EMPTY, version;

	if (!str_ends(kind, STR("List")) ||
	    (item_kind && !str_eq_c(str_head(kind, kind.len - 4), item_kind)))
		return err_set(err, ERR_INVALID,
		               "the response has kind \"%" STR_FMT "\" instead of %sList",
		               STR_ARG(kind), item_kind ? item_kind : "");
	if (!yyjson_obj_get(head, "items"))
		return err_set(err, ERR_INVALID, "the list has no member \"items\"");
	if (json_str(head, "metadata.continue", &more) != JSON_ABSENT && more.len > 0)
		return err_set(err, ERR_INVALID, "the response is only a part of the list");
	if (json_str(head, "metadata.resourceVersion", &version) != JSON_FOUND ||
	    version.len == 0 || version.len > LIMIT_NAME)
		return err_set(err, ERR_INVALID, "the list has no usable resourceVersion");
	buf_add_str(ret_version, version);
	return true;
}

bool
kube_read_list(const struct kube_list *list, struct http_stream *stream, struct clock *clock,
               struct buf *ret_version, struct error *err)
{
	CLEANUP(json_split_freep)
	struct json_split *split = json_split_new(STR("items"), LIMIT_JSON_ITEM);
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	int64_t end_ns = clock_deadline(clock_mono(clock), LIST_TIMEOUT_NS);
	struct str bytes, head;
	size_t total = 0;

	for (;;) {
		int64_t idle_ns = clock_deadline(clock_mono(clock), LIST_IDLE_NS);

		if (!http_stream_read(stream, clock_earlier(end_ns, idle_ns), &bytes, err))
			return false;
		if (bytes.len == 0)
			break;
		watchdog_promise(clock_deadline(clock_mono(clock), WATCHDOG_WORK_NS));
		total += bytes.len;
		if (total > LIMIT_LIST_BODY)
			return err_set(err, ERR_INVALID, "the list is larger than %zu bytes",
			               LIMIT_LIST_BODY);
		if (!json_split_feed(split, bytes, parse_item, (void *)(uintptr_t)list, err))
			return false;
	}
	if (!json_split_end(split, &head, err))
		return false;
	if (!json_parse(head, &doc, err))
		return false;
	return check_head(yyjson_doc_get_root(doc), list->kind, ret_version, err);
}

/* ---- start-up ---- */

/* Asks /healthz once. *ret_is_final: waiting is useless, as the certificate cannot be verified. */
static bool
client_check_health(struct kube_client *c, struct call *call, bool *ret_is_final, struct error *err)
{
	CLEANUP(http_response_fini) struct http_response response = HTTP_RESPONSE_INIT;
	struct http_request request = { .method = HTTP_GET,
		                        .target = STR("/healthz"),
		                        .accept = "*/*" };

	*ret_is_final = false;
	if (!client_attempt(c, call, &request, &response, err)) {
		*ret_is_final = response.is_untrusted;
		return false;
	}
	if (response.status == 200)
		return true;
	return kube_status_error(err, &request, response.status, response.retry_after_ms,
	                         buf_str(&response.body));
}

bool
kube_wait_healthy(struct kube_client *c, struct call *call, int64_t timeout_ms, struct error *err)
{
	struct attempts attempts = { .begun_ns = clock_mono(c->clock) };
	struct call part = *call;
	char memory[32] = "";
	struct buf duration = BUF_FIXED(memory);
	bool is_final;

	part.deadline_mono_ns = clock_earlier(call->deadline_mono_ns,
	                                      clock_deadline(clock_mono(c->clock),
	                                                     timeout_ms * NS_PER_MS));
	while (!client_check_health(c, &part, &is_final, err)) {
		if (is_final)
			return err_wrap(err, "the API server's certificate cannot be verified");
		attempts_note(&attempts, err);
		if (clock_deadline(clock_mono(c->clock), HEALTH_EVERY_NS) >=
		    part.deadline_mono_ns) {
			(void)attempts_end(&attempts, clock_mono(c->clock), err);
			clock_format_duration(&duration, timeout_ms * NS_PER_MS);
			return err_wrap(err, "the API server was not healthy for %s", memory);
		}
		if (!cancel_sleep(call->cancel, call->clock, HEALTH_EVERY_NS, err))
			return false;
	}
	return true;
}
