/* api.c: see api.h.
 *
 * The way of a request:
 *
 * 	1. endpoint_enter(): during an outage only a probe is sent, and all else fails here
 * 	2. hz_api_pay(): a change, or an urgent GET, is paid from the budget
 * 	3. hz_api_attempt(): the request itself, with metrics and the debug dump; each answer
 * 	   updates the budget
 * 	4. hz_api_follow(): an Event reports a token that is refused or may only read, and a minute
 * 	   without answers
 * 	5. hz_api_may_retry(): a POST is repeated only if the API says that it was not executed
 *
 * Requests of the start skip 1, because nothing else works until they succeed. For background GETs
 * the caller has paid before with hz_api_admit(), for all of them together.
 */
#include "providers/hcloud/api.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/event_kind.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/recent.h"
#include "base/rand.h"
#include "base/thread.h"
#include "cloud/endpoint.h"
#include "providers/hcloud/config.h"
#include "providers/hcloud/ratelimit.h"

/* ---- the count of operations ---- */

METRIC_FAMILY(
	operations, METRIC_COUNTER, "cloud_controller_manager_operations_total",
	"[ALPHA] Operations of the Hetzner Cloud provider, as the official controller counts them.",
	.labels = { "op" });

METRIC_FAMILY(server_lookups, METRIC_COUNTER,
              "cloud_controller_manager_server_cache_requests_total",
              "[ALPHA] Lookups of servers, by whether a list that was read already had the result.",
              .labels = { "subsystem", "mode", "result" });

void
hz_count_operations(const char *op, double n)
{
	metric_add(metric_of(&operations, op), n);
}

void
hz_count_lookup(const char *subsystem, enum hz_cache_mode mode, const char *result)
{
	static const char *const names[] = {
		[HZ_CACHE_ALL] = "all",
		[HZ_CACHE_ONE] = "one",
		[HZ_CACHE_OFF] = "off",
	};

	metric_inc(metric_of(&server_lookups, subsystem, names[mode], result));
}

/* ---- the debug dump ---- */

static const char *const secret_members[] = { "\"private_key\"", "\"root_password\"",
	                                      "\"password\"" };

static struct str
hz_dump_skip_space(struct str s)
{
	while (s.len > 0 && strchr(" \t\r\n", s.ptr[0]))
		s = str_skip(s, 1);
	return s;
}

/* If s starts with a member whose value is a secret: the length of all that precedes the value,
 * with its opening quote; else 0. */
static size_t
hz_dump_secret_head(struct str s)
{
	struct str rest;

	for (size_t i = 0; i < ARRAY_LEN(secret_members); i++) {
		if (!str_starts(s, str_c(secret_members[i])))
			continue;
		rest = hz_dump_skip_space(str_skip(s, strlen(secret_members[i])));
		if (rest.len == 0 || rest.ptr[0] != ':')
			return 0;
		rest = hz_dump_skip_space(str_skip(rest, 1));
		return rest.len > 0 && rest.ptr[0] == '"' ? s.len - rest.len + 1 : 0;
	}
	return 0;
}

void
hz_dump_body(struct buf *b, struct str body)
{
	while (body.len > 0) {
		size_t head = body.ptr[0] == '"' ? hz_dump_secret_head(body) : 0;

		if (head == 0) {
			buf_add_char(b, body.ptr[0]);
			body = str_skip(body, 1);
			continue;
		}
		buf_add_str(b, str_head(body, head));
		buf_add_c(b, "REDACTED");
		/* The closing quote is shown. */
		body = str_skip(body, head);
		while (body.len > 0 && body.ptr[0] != '"')
			body = str_skip(body, body.ptr[0] == '\\' ? 2 : 1);
	}
}

void
hz_dump_request(struct buf *b, struct str base_url, const struct http_request *request)
{
	buf_addf(b, "--- Request:\n%s %" STR_FMT "%" STR_FMT " HTTP/1.1\n",
	         http_method_name(request->method), STR_ARG(base_url), STR_ARG(request->target));
	buf_add_c(b, "Accept: application/json\nAuthorization: REDACTED\n");
	if (request->content_type)
		buf_addf(b, "Content-Type: %s\n", request->content_type);
	buf_add_char(b, '\n');
	hz_dump_body(b, request->body);
	buf_add_c(b, "\n\n\n");
}

static void
hz_dump_number(struct buf *b, const char *name, int64_t value)
{
	if (value >= 0)
		buf_addf(b, "%s: %" PRId64 "\n", name, value);
}

static void
hz_dump_response(struct buf *b, const struct http_response *response)
{
	buf_addf(b, "--- Response:\nHTTP/1.1 %d\n", response->status);
	hz_dump_number(b, "RateLimit-Limit", response->ratelimit_limit);
	hz_dump_number(b, "RateLimit-Remaining", response->ratelimit_remaining);
	hz_dump_number(b, "RateLimit-Reset", response->ratelimit_reset);
	buf_add_char(b, '\n');
	hz_dump_body(b, buf_str(&response->body));
	buf_add_c(b, "\n\n\n");
}

/* ---- events and metrics ---- */

enum {
	ATTEMPT_MS = 15000,
	PATIENT_RETRIES = 5,
	USUAL_RETRIES = 2,
	THROTTLED_MS = 1000, /* if neither the answer nor the budget says how long to wait */
};

static const int64_t first_delay_ns = NS_PER_SEC, last_delay_ns = 60 * NS_PER_SEC;

EVENT_KIND(
	throttled_event, HZ_COMPONENT, "HetznerRateLimit", true, "Pod or Namespace kube-system",
	"hcloud: the project's rate limit is nearly used up; periodic requests wait, and all others when only the reserve is left.");

EVENT_KIND(
	refused_event, HZ_COMPONENT, "HetznerTokenRefused", true, "Pod or Namespace kube-system",
	"hcloud: the Hetzner Cloud API refuses the token, or changes with it because it may only read: nodes and load balancers stay as they are until it is replaced.");
EVENT_KIND(
	away_event, HZ_COMPONENT, "HetznerUnavailable", true, "Pod or Namespace kube-system",
	"hcloud: the Hetzner Cloud API has not responded for a minute: nodes and load balancers stay as they are until it does.");
EVENT_KIND(
	back_event, HZ_COMPONENT, "HetznerAnswers", false, "Pod or Namespace kube-system",
	"hcloud: the Hetzner Cloud API responds or accepts changes again, after HetznerTokenRefused or HetznerUnavailable.");

static const double duration_buckets[] = { .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10 };

METRIC_FAMILY(requests, METRIC_COUNTER, "hcloud_api_requests_total",
              "[ALPHA] Requests to the Hetzner Cloud API; each attempt counts.",
              .labels = { "code", "method", "api_endpoint" });
METRIC_FAMILY(in_flight, METRIC_GAUGE, "hcloud_api_in_flight_requests",
              "[ALPHA] Requests to the Hetzner Cloud API that are without a response yet.");
METRIC_FAMILY(durations, METRIC_HISTOGRAM, "hcloud_api_request_duration_seconds",
              "[ALPHA] How long the Hetzner Cloud API took to respond.", .labels = { "method" },
              METRIC_BUCKETS(duration_buckets));
METRIC_FAMILY(
	left, METRIC_GAUGE, "hcloud_api_rate_limit_remaining",
	"[ALPHA] Requests left of the rate limit, as the last response of the Hetzner Cloud API says.");
METRIC_FAMILY(throttled, METRIC_COUNTER, "hcloud_api_throttled_total",
              "[ALPHA] Requests that were postponed because of the rate limit.",
              .labels = { "urgency" });

struct hz_api {
	struct hz_api_config config;
	char *base_url;
	pthread_mutex_t mu;
	struct hz_budget budget; /* mu */
	bool is_throttled;       /* mu; an Event has reported it */
	struct hz_outage outage; /* mu */
	struct hz_outage
		rights; /* mu; of changes: they are refused while the token may only read */
	struct endpoint *endpoint;
};

/* ---- the meaning of an answer ---- */

void
hz_answer_fini(struct hz_answer *a)
{
	yyjson_doc_free(TAKE(a->doc));
}

yyjson_val *
hz_answer_root(const struct hz_answer *a)
{
	return a->doc ? yyjson_doc_get_root(a->doc) : NULL;
}

bool
hz_answer_list(const struct hz_answer *answer, const char *name, yyjson_val **ret,
               struct error *err)
{
	yyjson_val *list;

	if (json_array(hz_answer_root(answer), name, &list) != JSON_FOUND)
		return err_set(err, ERR_UNAVAILABLE, "the Hetzner Cloud API returned no list of %s",
		               name);
	if (yyjson_arr_size(list) > LIMIT_CLOUD_PAGE)
		return err_set(err, ERR_UNAVAILABLE,
		               "the Hetzner Cloud API returned more than %d %s on one page",
		               LIMIT_CLOUD_PAGE, name);
	*ret = list;
	return true;
}

bool
hz_answer_object(const struct hz_answer *answer, const char *name, yyjson_val **ret,
                 struct error *err)
{
	if (json_object(hz_answer_root(answer), name, ret) == JSON_FOUND)
		return true;
	return err_set(err, ERR_UNAVAILABLE, "the Hetzner Cloud API returned no %s", name);
}

enum err_code
hz_error_meaning(const struct hz_error_code codes[], size_t n, struct str code, int status)
{
	for (size_t i = 0; i < n; i++) {
		if ((!codes[i].code || str_eq_c(code, codes[i].code)) &&
		    (codes[i].status == 0 || codes[i].status == status))
			return codes[i].meaning;
	}
	return status >= 500 ? ERR_UNAVAILABLE : ERR_INVALID;
}

enum err_code
hz_code_of(struct str code, int status)
{
	static const struct hz_error_code codes[] = {
		/* A node may be deleted because of this code, so the status has to confirm it. */
		{ "not_found", 404, ERR_NOT_FOUND },
		{ "not_found", 0, ERR_INVALID },
		{ "unauthorized", 0, ERR_UNAUTHORIZED },
		{ "forbidden", 0, ERR_FORBIDDEN },
		{ "token_readonly", 0, ERR_FORBIDDEN },
		{ "protected", 0, ERR_FORBIDDEN },
		{ "conflict", 0, ERR_CONFLICT },
		{ "locked", 0, ERR_CONFLICT },
		{ "uniqueness_error", 0, ERR_EXISTS },
		{ "rate_limit_exceeded", 0, ERR_THROTTLED },
		{ "timeout", 0, ERR_TIMEOUT },
		{ "bad_gateway", 0, ERR_UNAVAILABLE },
		{ "unavailable", 0, ERR_UNAVAILABLE },
		{ "maintenance", 0, ERR_UNAVAILABLE },
		{ "server_error", 0, ERR_UNAVAILABLE },
		{ "service_error", 0, ERR_UNAVAILABLE },
		{ "robot_unavailable", 0, ERR_UNAVAILABLE },
		/* of actions: another attempt may succeed */
		{ "action_failed", 0, ERR_UNAVAILABLE },
		{ "unsupported_error", 0, ERR_UNSUPPORTED },
		{ "deprecated_api_endpoint", 0, ERR_UNSUPPORTED },
		/* Without a code of the API the answer may come from a proxy. */
		{ "", 401, ERR_UNAUTHORIZED },
		{ "", 403, ERR_FORBIDDEN },
		{ "", 429, ERR_THROTTLED },
		{ "", 504, ERR_TIMEOUT },
	};

	return hz_error_meaning(codes, ARRAY_LEN(codes), code, status);
}

/* An error invalid_input names the fields that are wrong, with messages for each. */
static void
hz_api_add_fields(struct buf *b, yyjson_val *root)
{
	yyjson_val *fields = json_at(root, "error.details.fields"), *field, *messages, *message;
	size_t i, n, k, n_messages;

	yyjson_arr_foreach(fields, i, n, field)
	{
		buf_addf(b, "%s%" STR_FMT, i > 0 ? ", " : ": invalid fields: ",
		         STR_ARG(str_utf8_head(json_view(field, "name"), 100)));
		if (json_array(field, "messages", &messages) != JSON_FOUND)
			continue;
		buf_add_c(b, " (");
		yyjson_arr_foreach(messages, k, n_messages, message)
		{
			buf_addf(b, "%s%" STR_FMT, k > 0 ? ", " : "",
			         STR_ARG(str_utf8_head(json_view(message, ""), 200)));
		}
		buf_add_char(b, ')');
	}
}

/* The message begins with the text of the official client, so that alerts that match
 * "hcloud/newCloud: unable to authenticate" still work. The request follows it. */
static bool
hz_api_fail(const struct http_request *request, const struct http_response *response,
            struct hz_answer *answer, struct error *err)
{
	yyjson_val *root = hz_answer_root(answer);
	struct str code = json_view(root, "error.code"), message = json_view(root, "error.message");
	const char *id = response->correlation_id;
	char foreign[600] = "", text[600] = "";
	struct buf b = BUF_FIXED(foreign), cleaned = BUF_FIXED(text);

	snprintf(answer->code, sizeof(answer->code), "%" STR_FMT, STR_ARG(code));
	if (code.len > 0) {
		/* "message (code)", as other Hetzner tools show it. The text is foreign, so it is
		 * cut and cleaned. */
		buf_addf(&b, "%" STR_FMT " (%" STR_FMT "%s%s)",
		         STR_ARG(str_utf8_head(message, 300)),
		         STR_ARG(str_utf8_head(code, HZ_CODE_MAX)), id[0] ? ", " : "", id);
		if (str_eq_c(code, "invalid_input"))
			hz_api_add_fields(&b, root);
		buf_add_clean(&cleaned, str_trim(buf_str(&b)));
	} else {
		buf_addf(&cleaned, "hcloud: server responded with status code %d",
		         response->status);
	}
	err_later(err, hz_code_of(code, response->status), response->retry_after_ms,
	          "%s [%s %" STR_FMT ", status %d]", text, http_method_name(request->method),
	          STR_ARG(str_head(request->target, 200)), response->status);
	err->http_status = response->status;
	return false;
}

static bool
hz_api_read_answer(const struct http_request *request, const struct http_response *response,
                   struct hz_answer *answer, struct error *err)
{
	bool is_good = response->status >= 200 && response->status < 300, is_json = true;
	struct error why;

	if (response->body.len > 0)
		is_json = json_parse_answer(buf_str(&response->body), &answer->doc, &why);
	if (!is_good)
		return hz_api_fail(request, response, answer, err);
	if (is_json)
		return true;
	return err_set(err, ERR_UNAVAILABLE, "%s %" STR_FMT ": the response cannot be read: %s",
	               http_method_name(request->method), STR_ARG(str_head(request->target, 200)),
	               why.msg);
}

/* ---- the budget ---- */

bool
hz_api_get_budget(struct hz_api *a, struct cloud_budget *ret)
{
	double n_left;
	WITH_LOCK(&a->mu);

	if (!a->budget.is_known)
		return false;
	n_left = hz_budget_left(&a->budget, clock_boot(a->config.host->clock));
	*ret = (struct cloud_budget){
		.limit = a->budget.limit,
		.left = n_left,
		/* the API gives back the whole limit within an hour, evenly */
		.full_in_s = (int64_t)((a->budget.limit - n_left) / a->budget.limit * 3600),
		.postpones_below = hz_budget_background_floor(&a->budget),
	};
	return true;
}

/* How long n requests would have to wait. *ret_has_begun: requests have to wait now, and did not
 * before, which is to be reported. Called with mu held. */
static int64_t
hz_api_check_throttling(struct hz_api *a, enum hz_urgency urgency, size_t n, int64_t now_ns,
                        bool *ret_has_begun)
{
	int64_t wait_ns = hz_budget_wait_ns(&a->budget, urgency, (double)n, now_ns);

	*ret_has_begun = wait_ns > 0 && !a->is_throttled;
	if (wait_ns > 0)
		a->is_throttled = true;
	else if (hz_budget_is_eased(&a->budget, now_ns))
		a->is_throttled = false;
	return wait_ns;
}

static void
hz_api_notify_throttled(struct hz_api *a, int64_t wait_ns)
{
	char text[300] = "";
	struct buf b = BUF_FIXED(text);

	buf_add_c(
		&b,
		"the Hetzner Cloud API's rate limit of this project is nearly used up: periodic requests "
		"slow down, and all requests wait while less than the reserve is left; the next one is "
		"sent in ");
	clock_format_duration(&b, wait_ns / NS_PER_SEC * NS_PER_SEC);
	log_warn(text);
	host_report(a->config.host, /*ref=*/NULL, &throttled_event, "%s", text);
}

/* Takes in the figures of an answer. */
static void
hz_api_note_budget(struct hz_api *a, const struct http_response *response)
{
	struct clock *clock = a->config.host->clock;
	bool has_begun = false;
	int64_t wait_ns = 0;

	mutex_lock(&a->mu);
	hz_budget_note(&a->budget, response->ratelimit_limit, response->ratelimit_remaining,
	               response->ratelimit_reset, clock_wall(clock) / NS_PER_SEC,
	               clock_boot(clock));
	if (response->status == 429) {
		hz_budget_empty(&a->budget, clock_boot(clock));
		/* Background requests may have to wait for long. It is reported now, because the
		 * next of them may be sent only much later. */
		wait_ns = hz_api_check_throttling(a, HZ_BACKGROUND, 1, clock_boot(clock),
		                                  &has_begun);
	}
	if (a->budget.is_known)
		metric_set(metric_of(&left), a->budget.left);
	mutex_unlock(&a->mu);
	if (has_begun)
		hz_api_notify_throttled(a, wait_ns);
}

/* Takes n requests from the budget; ERR_THROTTLED if they have to wait. */
static bool
hz_api_pay(struct hz_api *a, enum hz_urgency urgency, size_t n, struct error *err)
{
	int64_t now_ns = clock_boot(a->config.host->clock), wait_ns;
	bool has_begun;

	mutex_lock(&a->mu);
	wait_ns = hz_api_check_throttling(a, urgency, n, now_ns, &has_begun);
	if (wait_ns == 0 && a->budget.is_known)
		hz_budget_take(&a->budget, urgency, (double)n, now_ns);
	if (wait_ns > 0 && urgency == HZ_URGENT)
		wait_ns = hz_budget_rest(&a->budget, (double)n, now_ns);
	mutex_unlock(&a->mu);
	if (wait_ns == 0)
		return true;
	if (has_begun)
		hz_api_notify_throttled(a, wait_ns);
	metric_inc(metric_of(&throttled, urgency == HZ_URGENT ? "urgent" : "background"));
	return err_later(err, ERR_THROTTLED, wait_ns / NS_PER_MS + 1,
	                 "the Hetzner Cloud API's rate limit is nearly used up, waiting %" PRId64
	                 " s",
	                 wait_ns / NS_PER_SEC + 1);
}

bool
hz_api_admit(struct hz_api *a, enum hz_urgency urgency, size_t n, struct error *err)
{
	bool is_down;

	if (!endpoint_check(a->endpoint, &is_down, err))
		return false;
	if (is_down)
		return true; /* only one probe is sent, which needs no budget */
	return hz_api_pay(a, urgency, n, err);
}

/* ---- reports of a refused token, and of outages ---- */

/* The texts of warnings are followed by the error. */
struct report {
	const struct event_kind *event;
	const char *log, *text;
};

static const struct report reports_of_api[] = {
	[HZ_ANSWERED] = { &back_event, "the Hetzner Cloud API responds again",
	                  "The Hetzner Cloud API responds again" },
	[HZ_REFUSED] = { &refused_event, "the Hetzner Cloud API refuses the token",
	                 "The Hetzner Cloud API refuses the token, so nodes and load balancers "
	                 "stay as they are. Put a valid one into HCLOUD_TOKEN, or into the file "
	                 "HCLOUD_TOKEN_FILE, which is read without a restart. The API's response: " },
	[HZ_UNANSWERED] = { &away_event, "the Hetzner Cloud API does not respond",
	                    "The Hetzner Cloud API has not responded for a minute, so nodes and "
	                    "load balancers stay as they are. Requests are repeated until it "
	                    "responds. The last failure: " },
};

static const struct report reports_of_changes[] = {
	[HZ_ANSWERED] = { &back_event, "the Hetzner Cloud API accepts changes again",
	                  "The Hetzner Cloud API accepts changes again" },
	[HZ_REFUSED] = { &refused_event, "the token of the Hetzner Cloud API may only read",
	                 "The token may only read, so load balancers and routes stay as they are. "
	                 "Create one with the permission Read & Write and put it into "
	                 "HCLOUD_TOKEN, or into the file HCLOUD_TOKEN_FILE, which is read without "
	                 "a restart. The Hetzner Cloud API's response: " },
};

/* Sends the report about `reception`, if it is due. */
static void
hz_api_report(struct hz_api *a, struct hz_outage *outage, const struct report reports[],
              enum hz_reception reception, const struct error *err)
{
	const struct report *report = &reports[reception];
	bool is_due, is_warning = report->event->is_warning;

	mutex_lock(&a->mu);
	is_due = hz_outage_note(outage, reception, clock_boot(a->config.host->clock));
	mutex_unlock(&a->mu);
	if (!is_due)
		return;
	if (is_warning)
		log_error(report->log, LOG_ERR(err));
	else
		log_info(report->log);
	host_report(a->config.host, /*ref=*/NULL, report->event, "%s%s", report->text,
	            is_warning ? err->msg : "");
}

/* An error that the API described is an answer, unless it is about the token or about the API
 * itself. */
static enum hz_reception
hz_api_reception_of(const struct hz_answer *answer, const struct error *err)
{
	bool is_described = answer->code[0] != '\0';

	if (err->code == ERR_UNAUTHORIZED || hz_is_code(answer->code, "forbidden") ||
	    (err->code == ERR_FORBIDDEN && !is_described))
		return HZ_REFUSED;
	if (err->code == ERR_THROTTLED || (is_described && err->code != ERR_UNAVAILABLE))
		return HZ_ANSWERED;
	return HZ_UNANSWERED;
}

/* What the result of a request says about the API as a whole. A 403 of the API itself may concern
 * this request only; a 403 without an error code is that of a proxy. A call whose deadline passed
 * gave the API too little time to answer. */
static enum endpoint_outcome
hz_api_outcome_of(const struct call *call, bool ok, const struct hz_answer *answer,
                  const struct error *err)
{
	if (ok)
		return ENDPOINT_ANSWERED;
	if (err->code == ERR_CANCELLED || (err->code == ERR_TIMEOUT && err->http_status == 0 &&
	                                   clock_mono(call->clock) >= call->deadline_mono_ns))
		return ENDPOINT_UNKNOWN;
	if (err->code == ERR_UNAUTHORIZED || err->http_status >= 500 ||
	    (err->code == ERR_FORBIDDEN && !answer->code[0]) ||
	    hz_api_reception_of(answer, err) == HZ_UNANSWERED)
		return ENDPOINT_FAILED;
	return ENDPOINT_ANSWERED;
}

/* Notes what the result of a request says about the token and about the API. */
static void
hz_api_follow(struct hz_api *a, const struct hz_request *request, bool ok,
              const struct hz_answer *answer, const struct error *err)
{
	bool is_change = request->method != HTTP_GET;
	/* The code is `forbidden`; before 2026 it was `token_readonly`. */
	bool is_read_only = !ok && is_change &&
	                    (hz_is_code(answer->code, "forbidden") ||
	                     hz_is_code(answer->code, "token_readonly"));
	enum hz_reception reception = HZ_ANSWERED;

	/* Reads succeed with such a token, so only a change that succeeds shows that it was
	 * replaced. */
	if (is_change && (ok || is_read_only)) {
		login_set_read_only(is_read_only);
		hz_api_report(a, &a->rights, reports_of_changes,
		              is_read_only ? HZ_REFUSED : HZ_ANSWERED, err);
	}
	if (!ok && err->code == ERR_CANCELLED)
		return;
	if (!ok && !is_read_only)
		reception = hz_api_reception_of(answer, err);
	hz_api_report(a, &a->outage, reports_of_api, reception, err);
}

/* ---- one attempt ---- */

const char *
hz_endpoint_label(struct call *call, struct str target)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_URL);
	struct str path = str_skip(target, 1), query;

	(void)str_cut(path, '?', &path, &query);
	for (struct str part; str_split(&path, '/', &part);) {
		buf_add_char(&b, '/');
		buf_add_str(&b, str_is_digits(part) ? STR("-") : part);
	}
	return arena_strz(call->arena, buf_str(&b));
}

static void
hz_api_dump(struct hz_api *a, const struct http_request *request,
            const struct http_response *response)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_BODY);

	if (!a->config.is_dumping)
		return;
	if (response)
		hz_dump_response(&b, response);
	else
		hz_dump_request(&b, str_c(a->base_url), request);
	/* A block is written with one write(), unless that is interrupted. */
	(void)!fd_write_all(STDERR_FILENO, buf_str(&b));
}

/* status 0: no response arrived. */
static void
hz_api_count(struct call *call, const struct hz_request *request, int status, int64_t took_ns)
{
	static const char *const methods[] = {
		[HTTP_GET] = "get",     [HTTP_POST] = "post",     [HTTP_PUT] = "put",
		[HTTP_PATCH] = "patch", [HTTP_DELETE] = "delete",
	};
	const char *method = methods[request->method];
	char code[16];

	snprintf(code, sizeof(code), "%d", status);
	recent_count(RECENT_CLOUD, status);
	if (status >= 200 && status < 300)
		recent_note_cloud();
	metric_inc(metric_of(&requests, code, method, hz_endpoint_label(call, request->target)));
	metric_observe(metric_of(&durations, method), clock_seconds(took_ns));
}

static bool
hz_api_attempt(struct hz_api *a, struct call *call, const struct hz_request *request,
               struct hz_answer *answer, struct error *err)
{
	CLEANUP(http_response_fini) struct http_response response = HTTP_RESPONSE_INIT;
	int64_t begun_ns = clock_mono(call->clock), wait_ns;
	struct http_request http = {
		.method = request->method,
		.target = request->target,
		.content_type = request->body.len > 0 ? "application/json" : NULL,
		.body = request->body,
		.timeout_ms = ATTEMPT_MS,
	};
	bool ok;

	hz_api_dump(a, &http, NULL);
	metric_add(metric_of(&in_flight), 1);
	ok = http_do(a->config.http, call, &http, &response, err);
	metric_add(metric_of(&in_flight), -1);
	hz_api_count(call, request, ok ? response.status : 0, clock_mono(call->clock) - begun_ns);
	if (!ok)
		return err_wrap(err, "%s %" STR_FMT, http_method_name(http.method),
		                STR_ARG(str_head(http.target, 200)));
	hz_api_dump(a, &http, &response);
	hz_api_note_budget(a, &response);
	if (hz_api_read_answer(&http, &response, answer, err))
		return true;
	/* Not every answer 429 has a Retry-After. Without it the time of the next attempt follows
	 * from the budget. */
	if (err->code == ERR_THROTTLED && err->retry_after_ms <= 0) {
		mutex_lock(&a->mu);
		wait_ns = hz_budget_wait_ns(&a->budget, HZ_URGENT, 1,
		                            clock_boot(a->config.host->clock));
		mutex_unlock(&a->mu);
		err->retry_after_ms = clock_later(wait_ns / NS_PER_MS, THROTTLED_MS);
	}
	return false;
}

/* ---- retries ---- */

/* docs/spec/hcloud.md, "Retries". A POST that may have been executed is not repeated here: its
 * caller first reads the present state. */
static bool
hz_api_may_retry(const struct hz_request *request, const struct hz_answer *answer,
                 const struct error *err)
{
	if (err->code == ERR_CANCELLED)
		return false;
	if (err->code == ERR_THROTTLED)
		return request->retries_at_start;
	if (hz_is_code(answer->code, "conflict"))
		return true;
	if (request->method != HTTP_GET)
		return false;
	return err->code == ERR_TIMEOUT || hz_is_code(answer->code, "bad_gateway") ||
	       (!answer->code[0] && err->http_status == 502);
}

/* If the call's deadline comes before the end of the pause, the result is false and *err stays as
 * it was. */
static bool
hz_api_wait_to_retry(struct call *call, unsigned n, struct error *err)
{
	int64_t pause_ns = rand_between(first_delay_ns,
	                                backoff_ns(first_delay_ns, n, last_delay_ns));
	struct error cancelled;

	if (clock_deadline(clock_mono(call->clock), pause_ns) >= call->deadline_mono_ns &&
	    call->deadline_mono_ns != CLOCK_FOREVER)
		return false;
	if (cancel_sleep(call->cancel, call->clock, pause_ns, &cancelled))
		return true;
	*err = cancelled;
	return false;
}

/* Makes all attempts. *ret_outcome: what the last of them says about the API. */
static bool
hz_api_send_attempts(struct hz_api *a, struct call *call, const struct hz_request *request,
                     unsigned n_retries, bool asks_budget, struct hz_answer *ret,
                     enum endpoint_outcome *ret_outcome, struct error *err)
{
	struct attempts attempts = { .begun_ns = clock_mono(call->clock) };

	*ret_outcome = ENDPOINT_UNKNOWN;
	for (unsigned n = 0;; n++) {
		bool ok;

		hz_answer_fini(ret);
		ret->code[0] = '\0';
		if (asks_budget && !hz_api_pay(a, HZ_URGENT, 1, err))
			return false;
		ok = hz_api_attempt(a, call, request, ret, err);
		hz_api_follow(a, request, ok, ret, err);
		*ret_outcome = hz_api_outcome_of(call, ok, ret, err);
		if (ok)
			return true;
		attempts_note(&attempts, err);
		if (n == n_retries || !hz_api_may_retry(request, ret, err) ||
		    !hz_api_wait_to_retry(call, n, err))
			return attempts_end(&attempts, clock_mono(call->clock), err);
	}
}

bool
hz_api_do(struct hz_api *a, struct call *call, const struct hz_request *request,
          struct hz_answer *ret, struct error *err)
{
	bool is_at_start = request->retries_at_start, asks_budget, ok;
	struct endpoint_pass pass = { 0 };
	enum endpoint_outcome outcome;
	unsigned n_retries;

	if (!host_count_request(a->config.host, err))
		return false;
	if (!str_starts(request->target, STR("/")))
		return err_set(
			err, ERR_INVALID,
			"the URL of the request is too long, because it contains a name that is too long");
	if (!is_at_start && !endpoint_enter(a->endpoint, &pass, err))
		return false;
	/* A probe is a single attempt, and is sent regardless of the budget, because probes are
	 * few. */
	n_retries = is_at_start ? PATIENT_RETRIES : pass.is_probe ? 0 : USUAL_RETRIES;
	asks_budget = (request->method != HTTP_GET || request->is_urgent) && !pass.is_probe;
	ok = hz_api_send_attempts(a, call, request, n_retries, asks_budget, ret, &outcome, err);
	if (!ok && err->code == ERR_CANCELLED)
		outcome = ENDPOINT_UNKNOWN;
	if (!is_at_start)
		endpoint_leave(a->endpoint, &pass, outcome, err);
	if (!ok && err->code == ERR_NOT_FOUND && str_index(request->target, '?') >= 0)
		err->code = ERR_UNAVAILABLE;
	return ok;
}

int64_t
hz_api_uptime_ns(struct hz_api *a)
{
	return endpoint_uptime_ns(a->endpoint);
}

/* ---- life cycle ---- */

struct hz_api *
hz_api_new(const struct hz_api_config *config)
{
	/* what is read periodically even if nothing changes: a refused token shows there first */
	static const char *const polled[] = { "/servers", "/servers/-", "/load_balancers",
		                              "/networks/-" };
	struct hz_api *a = xcalloc(1, sizeof(*a));

	a->config = *config;
	a->base_url = xstrndup(config->base_url.ptr, config->base_url.len);
	a->budget.reserve_percent = config->reserve_percent;
	a->endpoint = endpoint_new(&(struct endpoint_config){ "the Hetzner Cloud API",
	                                                      config->host });
	mutex_init(&a->mu);
	/* Prometheus does not see the increase of a counter that appears with 1 */
	(void)metric_of(&throttled, "urgent");
	(void)metric_of(&throttled, "background");
	for (size_t i = 0; i < ARRAY_LEN(polled); i++)
		(void)metric_of(&requests, "401", "get", polled[i]);
	login_set_read_only(false);
	return a;
}

void
hz_api_free(struct hz_api *a)
{
	if (!a)
		return;
	endpoint_free(a->endpoint);
	mutex_destroy(&a->mu);
	free(a->base_url);
	free(a);
}
