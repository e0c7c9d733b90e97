/* cloud/rest.c: see rest.h. */
#include "cloud/rest.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/metrics.h"
#include "base/recent.h"
#include "base/version.h"
#include "cloud/endpoint.h"
#include "http/url.h"

enum {
	NAME_MAX_BYTES = 100,
	CODE_MAX_BYTES = 24,
};

static const double duration_buckets[] = { .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10 };

METRIC_FAMILY(
	requests, METRIC_COUNTER, "ccmd_cloud_requests_total",
	"[ALPHA] Requests to the API of a cloud other than Hetzner's, by status code; code is \"error\" if no response arrived.",
	.labels = { "cloud", "method", "code" });
METRIC_FAMILY(durations, METRIC_HISTOGRAM, "ccmd_cloud_request_duration_seconds",
              "[ALPHA] How long the API of a cloud other than Hetzner's took to respond.",
              .labels = { "cloud" }, METRIC_BUCKETS(duration_buckets));
METRIC_FAMILY(
	left, METRIC_GAUGE, "ccmd_cloud_rate_limit_remaining",
	"[ALPHA] Requests left of the rate limit, as the last response of the API says. Absent if the API does not say it.",
	.labels = { "cloud" });

struct rest {
	struct http_client *http; /* owned unless it is the host's */
	struct login *login;      /* NULL: no token */
	struct endpoint *endpoint;
	const struct cloud_host *host;
	const char *name;                                       /* "mycloud" */
	char api_name[NAME_MAX_BYTES];                          /* "the mycloud API" */
	void (*add_message)(struct buf *ret, yyjson_val *root); /* NULL: message_of() */
	bool has_plain_404;
};

/* ---- answers ---- */

/* The API's message of an error, or its whole body if that is JSON, or what the status means if the
 * body says nothing. Any other body is the page of a proxy, which may repeat the request, and
 * tenants read Events: only its length is shown. */
static struct str
message_of(yyjson_doc *doc, struct str body, int status, struct buf *scratch)
{
	static const char *const paths[] = { "error.message", "message", "error", "detail" };
	yyjson_val *root = doc ? yyjson_doc_get_root(doc) : NULL;
	struct str message;

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		if (json_str(root, paths[i], &message) == JSON_FOUND)
			return message;
	}
	if (!root && str_trim(body).len > 0) {
		buf_addf(scratch, "%s (the response is not JSON, %zu bytes)",
		         http_status(status).text, body.len);
		return str_trim(buf_str(scratch));
	}
	if (!root || (yyjson_is_ctn(root) && yyjson_get_len(root) == 0))
		return str_c(http_status(status).text);
	return body;
}

static bool
set_status_error(const struct rest *r, const struct http_request *request,
                 const struct http_response *response, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	CLEANUP(buf_fini) struct buf message = BUF_INIT(ERR_MSG_SIZE);
	struct str body = buf_str(&response->body);
	struct error ignored;
	bool is_json = json_parse_answer(body, &doc, &ignored);

	if (r->add_message)
		r->add_message(&message, doc ? yyjson_doc_get_root(doc) : NULL);
	http_status_error(err, request, response->status, response->retry_after_ms,
	                  message.len > 0 ? buf_str(&message)
	                                  : message_of(doc, body, response->status, &message));
	if (err->code == ERR_NOT_FOUND && !is_json && !r->has_plain_404)
		err->code = ERR_UNAVAILABLE;
	return false;
}

/* ---- requests ---- */

/* Counts a request that took took_ns. status 0: no response arrived. */
static void
count_request(const struct rest *r, const struct http_request *request, int status,
              const struct http_response *response, int64_t took_ns)
{
	char memory[CODE_MAX_BYTES] = "error";
	struct buf code = BUF_FIXED(memory);

	if (status > 0)
		buf_addf(&code, "%d", status);
	recent_count(RECENT_CLOUD, status);
	metric_inc(metric_of(&requests, r->name, http_method_name(request->method), memory));
	metric_observe(metric_of(&durations, r->name), clock_seconds(took_ns));
	if (status > 0 && response->ratelimit_remaining >= 0)
		metric_set(metric_of(&left, r->name), (double)response->ratelimit_remaining);
}

static bool
exchange(struct rest *r, struct call *call, const struct http_request *request, yyjson_doc **ret,
         struct error *err)
{
	CLEANUP(http_response_fini) struct http_response response = HTTP_RESPONSE_INIT;
	const char *method = http_method_name(request->method);
	struct str body, target = str_head(request->target, 200);
	int64_t begun_ns = clock_mono(call->clock);

	bool is_answered = http_do(r->http, call, request, &response, err);
	int status = is_answered ? response.status : 0;

	count_request(r, request, status, &response, clock_mono(call->clock) - begun_ns);
	if (!is_answered)
		return err_wrap(err, "%s %" STR_FMT, method, STR_ARG(target));
	call->answers.last_status = status;
	if (status < 200 || status >= 300)
		return set_status_error(r, request, &response, err);
	call->answers.has_success = true;
	recent_note_cloud();

	if (!ret)
		return true;
	body = buf_str(&response.body);
	if (str_trim(body).len == 0) {
		*ret = NULL;
		return true;
	}
	if (json_parse_answer(body, ret, err))
		return true;
	err->code = ERR_UNAVAILABLE;
	return err_wrap(err, "%s %" STR_FMT, method, STR_ARG(target));
}

/* What the result of a request says about the API as a whole: would other requests fail, too? A
 * request says nothing about that if the call's own deadline gave the API too little time, if it
 * could not be sent, or if its answer is too large. */
static enum endpoint_outcome
outcome_of(const struct call *call, const struct error *err)
{
	bool is_unanswered = err->http_status == 0;

	if (err->code == ERR_CANCELLED || (is_unanswered && err->code == ERR_INVALID) ||
	    (is_unanswered && err->code == ERR_TIMEOUT &&
	     clock_mono(call->clock) >= call->deadline_mono_ns))
		return ENDPOINT_UNKNOWN;
	if (is_unanswered || err->code == ERR_UNAUTHORIZED || err->code == ERR_UNAVAILABLE ||
	    err->code == ERR_TIMEOUT)
		return ENDPOINT_FAILED;
	return ENDPOINT_ANSWERED;
}

bool
rest_do(struct rest *r, struct call *call, const struct http_request *request, yyjson_doc **ret,
        struct error *err)
{
	struct http_request sent = *request;
	enum endpoint_outcome outcome;
	struct endpoint_pass pass;
	bool ok;

	if (sent.body.len > 0 && !sent.content_type)
		sent.content_type = "application/json";
	call->answers.last_status = -1;
	if (!host_count_request(r->host, err) || !endpoint_enter(r->endpoint, &pass, err))
		return false;
	ok = exchange(r, call, &sent, ret, err);
	outcome = ok ? ENDPOINT_ANSWERED : outcome_of(call, err);
	endpoint_leave(r->endpoint, &pass, outcome, err);
	return ok;
}

struct str
rest_target(struct call *call, const char *before, struct str id, const char *after)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_URL);

	buf_add_c(&b, before);
	url_add_escaped(&b, id);
	buf_add_c(&b, after);
	/* this text is not a path, so the HTTP client refuses the request */
	return buf_ok(&b) ? arena_str(call->arena, buf_str(&b)) : STR("too long for a URL");
}

/* ---- absence ---- */

void
rest_forget_answers(struct call *call)
{
	call->answers = (struct call_answers){ 0 };
}

void
rest_check_absence(const struct call *call, bool is_search, struct error *err)
{
	const struct call_answers *seen = &call->answers;
	bool is_404 = seen->last_status == 404;
	bool is_success = seen->last_status >= 200 && seen->last_status < 300;

	if (err->code != ERR_NOT_FOUND)
		return;
	if (seen->is_absent ? seen->last_status == 0 || is_404 || is_success
	                    : (is_404 && !seen->has_success) || (is_success && is_search))
		return;
	err->code = ERR_UNAVAILABLE;
	if (seen->last_status > 0)
		err_wrap(err, "\"not found\" is not believed after a %s%d",
		         is_404 ? "success and a " : "", seen->last_status);
	else
		err_wrap(err, "\"not found\" is not believed without a response of the API");
}

/* ---- lists ---- */

/* How far a list has been read. */
struct reading {
	const struct rest_list *list;
	struct str token;         /* of the next page; empty: the first one */
	size_t n_pages, n;        /* read so far */
	int64_t total;            /* from the last page; -1: it gave none */
	bool is_total_unreliable; /* two pages gave different totals, or a page gave none */
	bool is_over;
};

/* The token may be a text or a number; null, false, "" and 0 end the list. */
static bool
read_token(const struct rest_list *list, struct call *call, yyjson_val *root, struct str *ret,
           struct error *err)
{
	yyjson_val *token = root;
	int64_t number;

	*ret = STR_EMPTY;
	/* unlike json_at(), this finds a null */
	for (struct str step, rest = str_c(list->next); token && str_split(&rest, '.', &step);)
		token = yyjson_obj_getn(token, step.ptr, step.len);
	if (yyjson_is_null(token) || yyjson_is_false(token))
		return true;
	if (!token)
		return list->next_may_be_absent ||
		       err_set(err, ERR_UNAVAILABLE, "GET %s: no \"%s\"", list->target, list->next);
	if (yyjson_is_str(token)) {
		*ret = arena_str(call->arena, json_text(token));
		return true;
	}
	if (json_i64(token, "", &number) != JSON_FOUND)
		return err_set(err, ERR_UNAVAILABLE, "GET %s: \"%s\" is no text or number",
		               list->target, list->next);
	if (number != 0)
		*ret = arena_printf(call->arena, "%" PRId64, number);
	return true;
}

/* Takes over what a page with n items says about the list. */
static bool
take_page(struct reading *at, struct call *call, yyjson_val *root, size_t n, struct error *err)
{
	const struct rest_list *list = at->list;
	struct str token = STR_EMPTY;
	int64_t total = -1;

	if (list->total)
		(void)json_i64(root, list->total, &total);
	at->is_total_unreliable |= total < 0 || (at->n_pages > 0 && total != at->total);
	at->total = total;
	at->n_pages++;
	at->n += n;
	if (list->paging == REST_NEXT_TOKEN && !read_token(list, call, root, &token, err))
		return false;
	if (list->paging == REST_ONE_PAGE)
		at->is_over = true;
	else if (list->paging == REST_NEXT_TOKEN)
		at->is_over = token.len == 0;
	else
		at->is_over = n == 0 ||
		              (total >= 0 ? (int64_t)at->n >= total : n < list->page_size);
	if (!at->is_over && (at->n >= LIMIT_MACHINES || at->n_pages >= LIMIT_MACHINES ||
	                     (token.len > 0 && str_eq(token, at->token))))
		return err_set(err, ERR_UNAVAILABLE, "the list %s has no end", list->target);
	at->token = token;
	return true;
}

static bool
read_page(struct rest *r, struct call *call, struct reading *at, rest_item_fn *item, void *arg,
          struct error *err)
{
	CLEANUP(buf_fini) struct buf target = BUF_INIT(LIMIT_HTTP_URL);
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct http_request request = { .method = HTTP_GET };
	const struct rest_list *list = at->list;
	struct str page = at->token;
	yyjson_val *root, *array, *one;
	size_t i, n;

	buf_add_c(&target, list->target);
	if (list->paging == REST_PAGE_NUMBER || list->paging == REST_OFFSET)
		page = arena_printf(call->arena, "%zu",
		                    list->paging == REST_OFFSET ? at->n : at->n_pages + 1);
	if (page.len > 0)
		url_add_query(&target, list->page_key, page);
	if (list->paging != REST_ONE_PAGE && list->size_key)
		url_add_query(&target, list->size_key,
		              arena_printf(call->arena, "%zu", list->page_size));
	if (!buf_ok(&target))
		return err_set(err, ERR_UNAVAILABLE, "the list %s has a token that is too long",
		               list->target);
	request.target = buf_str(&target);
	if (!rest_do(r, call, &request, &doc, err)) {
		if (err->code == ERR_NOT_FOUND)
			err->code = ERR_UNAVAILABLE;
		return false;
	}
	root = doc ? yyjson_doc_get_root(doc) : NULL;
	if (json_array(root, list->items, &array) != JSON_FOUND)
		return err_set(err, ERR_UNAVAILABLE, "GET %" STR_FMT ": no array \"%s\"",
		               STR_ARG(str_head(request.target, 200)), list->items);
	yyjson_arr_foreach(array, i, n, one)
	{
		if (!item(arg, call, one, err))
			return false;
	}
	return take_page(at, call, root, yyjson_arr_size(array), err);
}

bool
rest_list(struct rest *r, struct call *call, const struct rest_list *list, rest_item_fn *item,
          void *arg, bool *ret_is_complete, struct error *err)
{
	struct reading at = { .list = list, .token = STR_EMPTY };
	bool is_complete;

	while (!at.is_over) {
		if (!read_page(r, call, &at, item, arg, err))
			return false;
	}
	is_complete = list->total ? !at.is_total_unreliable && at.total == (int64_t)at.n
	                          : at.n_pages == 1 || list->paging == REST_NEXT_TOKEN;
	if (ret_is_complete)
		*ret_is_complete = is_complete;
	return true;
}

/* ---- life cycle ---- */

bool
rest_new(const struct rest_config *config, struct rest **ret, struct error *err)
{
	CLEANUP(rest_freep) struct rest *r = xcalloc(1, sizeof(*r));
	struct buf api_name = BUF_FIXED(r->api_name);
	char memory[NAME_MAX_BYTES] = "";
	struct buf agent = BUF_FIXED(memory);
	struct http_config http = {
		.name = config->name,
		.base_url = config->base_url,
		.tls = config->tls,
		.clock = config->host->clock,
		.fence = config->host->fence,
	};

	buf_addf(&api_name, "the %s API", config->name);
	r->host = config->host;
	r->name = config->name;
	/* a rate of failures is only seen from the first one on if the counter was there before */
	(void)metric_of(&requests, r->name, "GET", "200");
	(void)metric_of(&requests, r->name, "GET", "error");
	r->has_plain_404 = config->has_plain_404;
	r->add_message = config->add_message;
	if (config->token)
		r->login = login_new(&(struct login_config){ .secret = config->token,
		                                             .header = config->token_header });
	buf_addf(&agent, "ccmd/%" STR_FMT, STR_ARG(str_skip(version_get(), 1)));
	http.user_agent = buf_str(&agent);
	http.auth = r->login ? login_auth(r->login) : config->auth;
	r->http = config->host->http;
	if (!r->http && !http_client_new(&http, &r->http, err))
		return err_wrap(err, "%s", r->api_name);
	r->endpoint = endpoint_new(&(struct endpoint_config){ r->api_name, config->host });
	*ret = TAKE(r);
	return true;
}

void
rest_free(struct rest *r)
{
	if (!r)
		return;
	if (r->http != r->host->http)
		http_client_free(r->http);
	endpoint_free(r->endpoint);
	login_free(r->login);
	free(r);
}
