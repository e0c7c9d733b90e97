/* robot.c: see robot.h.
 *
 * The service is either open, or closed until closed_boot_ns because the rate limit was exceeded or
 * the login was refused (is_login_bad). While it is closed, calls fail without a request, because
 * the service blocks clients that send too many requests or bad logins. New credentials, which have
 * another generation, open the service again and make the list out of date.
 *
 * The mutex is held during a request. So one request runs at a time, and all callers that wait for
 * the list use the one that the first of them reads.
 */
#include "providers/hcloud/robot.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/event_kind.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/recent.h"
#include "base/thread.h"
#include "cloud/endpoint.h"
#include "providers/hcloud/client.h"

#define LEAST_PAUSE_NS (60 * NS_PER_SEC)
#define LOGIN_PAUSE_NS (600 * NS_PER_SEC) /* repeated bad logins block our address */

enum {
	ATTEMPT_MS = 15000,
	LOGIN_RETRY_MS = 30000,
};

EVENT_KIND(
	limit_event, HZ_COMPONENT, "RobotRateLimitExceeded", true, "Pod or Namespace kube-system",
	"hcloud: the Robot web service refuses further requests; dedicated servers are not looked up for ROBOT_RATE_LIMIT_WAIT_TIME, at least a minute.");

EVENT_KIND(
	login_event, HZ_COMPONENT, "RobotLoginRefused", true, "Pod or Namespace kube-system",
	"hcloud: the Robot web service refuses ROBOT_USER or ROBOT_PASSWORD; no request is sent for 10 minutes, or until one of them is changed.");

METRIC_FAMILY(requests, METRIC_COUNTER, "hrobot_api_requests_total",
              "[ALPHA] Requests to the Robot web service.", .labels = { "code", "api_endpoint" });

struct hz_robot {
	struct hz_robot_config config;
	pthread_mutex_t mu;
	struct arena arena;              /* mu; owns the servers */
	struct hz_robot_server *servers; /* mu */
	size_t n;                        /* mu */
	int64_t listed_boot_ns;          /* mu; when the list was requested; -1: no list was read */
	int64_t closed_boot_ns;          /* mu; no request is sent before this time */
	bool is_login_bad;               /* mu; the last answer with an error refused the login */
	uint64_t generation;             /* mu; of the login that the fields above belong to */
	struct endpoint *endpoint;
};

/* ---- pauses; with mu held ---- */

/* When the credentials have changed, the list and the pause are dropped, because they belong to the
 * old ones. */
static void
hz_robot_follow_login(struct hz_robot *r)
{
	uint64_t generation = r->config.login ? login_generation(r->config.login) : 0;

	if (generation == r->generation)
		return;
	r->generation = generation;
	r->listed_boot_ns = -1;
	r->closed_boot_ns = 0;
}

/* The error has the text of the official controller, with the time as RFC 3339. */
static bool
hz_robot_check_open(struct hz_robot *r, struct error *err)
{
	int64_t left_ns = r->closed_boot_ns - clock_boot(r->config.host->clock);
	char time[40] = "";
	struct buf b = BUF_FIXED(time);

	if (left_ns <= 0)
		return true;
	clock_format_rfc3339(&b, clock_wall(r->config.host->clock) + left_ns, false);
	if (r->is_login_bad) {
		/* it is tried earlier than that, because new credentials end the pause */
		err_later(err, ERR_UNAUTHORIZED, LOGIN_RETRY_MS,
		          "Robot refused user name or password, next try at \"%s\"", time);
		err->is_outage = true;
		return false;
	}
	return err_later(err, ERR_THROTTLED, left_ns / NS_PER_MS + 1,
	                 "rate limit exceeded, next try at \"%s\"", time);
}

/* ---- requests: with mu held, so that one runs at a time ---- */

static const struct hz_error_code error_codes[] = {
	{ NULL, 401, ERR_UNAUTHORIZED },
	{ NULL, 429, ERR_THROTTLED },
	{ "RATE_LIMIT_EXCEEDED", 0, ERR_THROTTLED },
	/* A 403 without a code of the web service counts as the rate limit, too: the service blocks
	 * clients that send too many requests, and a pause is the safe reaction. */
	{ "", 403, ERR_THROTTLED },
	{ NULL, 403, ERR_FORBIDDEN },
	{ "SERVER_NOT_FOUND", 404, ERR_NOT_FOUND },
	{ "NOT_FOUND", 404, ERR_NOT_FOUND },
};

/* Sets the error of an answer, and closes the service if it is about the rate limit or the login.
 */
static bool
hz_robot_fail(struct hz_robot *r, const struct http_request *request,
              const struct http_response *response, yyjson_val *root, struct error *err)
{
	const struct cloud_host *host = r->config.host;
	struct str code = json_view(root, "error.code"), message = json_view(root, "error.message");
	int64_t now_ns = clock_boot(host->clock);
	char text[300] = "";
	struct buf b = BUF_FIXED(text);

	if (code.len > 0)
		buf_addf(&b, "%" STR_FMT " (%" STR_FMT ")", STR_ARG(str_utf8_head(message, 200)),
		         STR_ARG(str_utf8_head(code, 64)));
	else
		buf_addf(&b, "server responded with status code %d", response->status);
	http_status_error(err, request, response->status, response->retry_after_ms, buf_str(&b));
	err->code = hz_error_meaning(error_codes, ARRAY_LEN(error_codes), code, response->status);
	r->is_login_bad = err->code == ERR_UNAUTHORIZED;

	if (err->code == ERR_THROTTLED) {
		int64_t pause_ns = clock_later(LEAST_PAUSE_NS, r->config.pause_ns);
		char limit[200] = "";
		struct buf reached = BUF_FIXED(limit);

		r->closed_boot_ns = now_ns + pause_ns;
		buf_add_c(
			&reached,
			"the Robot web service's rate limit is exceeded, no requests about dedicated servers are sent for ");
		clock_format_duration(&reached, pause_ns);
		log_warn(limit);
		host_report(host, /*ref=*/NULL, &limit_event, "%s", limit);
	} else if (r->is_login_bad) {
		r->closed_boot_ns = now_ns + LOGIN_PAUSE_NS;
		log_error("the Robot web service refuses user name or password");
		host_report(
			host, /*ref=*/NULL, &login_event,
			"The Robot web service refuses ROBOT_USER or ROBOT_PASSWORD. No requests about dedicated servers are sent, "
			"and their nodes stay as they are, for 10 minutes or until the files named by ROBOT_USER_FILE and "
			"ROBOT_PASSWORD_FILE hold others: repeated refusals block this address");
	}
	return false;
}

static bool
hz_robot_exchange(struct hz_robot *r, struct call *call, struct str target, yyjson_doc **ret,
                  struct error *err)
{
	CLEANUP(http_response_fini) struct http_response response = HTTP_RESPONSE_INIT;
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct http_request request = { .method = HTTP_GET,
		                        .target = target,
		                        .timeout_ms = ATTEMPT_MS };
	bool is_answered = http_do(r->config.http, call, &request, &response, err), is_json;
	int status = is_answered ? response.status : 0;
	struct error why;
	char code[16];

	snprintf(code, sizeof(code), "%d", status);
	recent_count(RECENT_CLOUD, status);
	metric_inc(metric_of(&requests, code, hz_endpoint_label(call, target)));
	if (!is_answered)
		return err_wrap(err, "GET %" STR_FMT, STR_ARG(target));
	is_json = json_parse_answer(buf_str(&response.body), &doc, &why);
	if (status < 200 || status >= 300)
		return hz_robot_fail(r, &request, &response, doc ? yyjson_doc_get_root(doc) : NULL,
		                     err);
	if (!is_json)
		return err_set(err, ERR_UNAVAILABLE,
		               "GET %" STR_FMT ": the response cannot be read: %s", STR_ARG(target),
		               why.msg);
	*ret = TAKE(doc);
	return true;
}

static bool
hz_robot_ask(struct hz_robot *r, struct call *call, struct str target, yyjson_doc **ret,
             struct error *err)
{
	enum endpoint_outcome outcome = ENDPOINT_ANSWERED;
	struct endpoint_pass pass;
	bool ok;

	if (!hz_robot_check_open(r, err) || !endpoint_enter(r->endpoint, &pass, err))
		return false;
	ok = hz_robot_exchange(r, call, target, ret, err);
	/* Unlike in api.c, a refused login counts as an answer of the endpoint. It has a pause of
	 * its own, because repeated refusals block our address. */
	if (!ok && (err->code == ERR_UNAVAILABLE || err->code == ERR_TIMEOUT))
		outcome = ENDPOINT_FAILED;
	if (!ok &&
	    (err->code == ERR_CANCELLED ||
	     (err->code == ERR_TIMEOUT && clock_mono(call->clock) >= call->deadline_mono_ns)))
		outcome = ENDPOINT_UNKNOWN;
	endpoint_leave(r->endpoint, &pass, outcome, err);
	return ok;
}

/* ---- reading ---- */

static bool
hz_robot_read_server(struct arena *arena, yyjson_val *val, struct hz_robot_server *ret,
                     struct error *err)
{
	struct hz_robot_server s = {
		.name = json_text_at(arena, val, "server.server_name"),
		.product = json_text_at(arena, val, "server.product"),
		.dc = json_text_at(arena, val, "server.dc"),
		.ipv4 = json_text_at(arena, val, "server.server_ip"),
		.ipv6_net = json_text_at(arena, val, "server.server_ipv6_net"),
	};

	if (json_i64(val, "server.server_number", &s.number) != JSON_FOUND || s.number <= 0)
		return err_set(err, ERR_UNAVAILABLE, "Robot returned a server without number");
	*ret = s;
	return true;
}

static bool
hz_robot_read_list(struct hz_robot *r, yyjson_val *root, struct error *err)
{
	struct hz_robot_server *servers;
	struct arena arena = ARENA_INIT;
	yyjson_val *one;
	size_t i, n;

	if (!yyjson_is_arr(root))
		return err_set(err, ERR_UNAVAILABLE, "Robot returned no list of servers");
	if (yyjson_arr_size(root) > LIMIT_MACHINES)
		return err_set(err, ERR_UNAVAILABLE, "Robot returned more than %d servers",
		               LIMIT_MACHINES);
	servers = arena_calloc(&arena, yyjson_arr_size(root), sizeof(*servers));
	yyjson_arr_foreach(root, i, n, one)
	{
		if (!hz_robot_read_server(&arena, one, &servers[i], err)) {
			arena_fini(&arena);
			return false;
		}
	}
	arena_fini(&r->arena);
	r->arena = arena;
	r->servers = servers;
	r->n = yyjson_arr_size(root);
	return true;
}

/* Reads the list if it is older than ROBOT_CACHE_TIMEOUT. If that fails, the old list stays, and
 * the next caller tries again. For an account without servers the service answers "not found",
 * which is an empty list (docs/spec/hcloud.md, "Robot"). */
static bool
hz_robot_refresh(struct hz_robot *r, struct call *call, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	int64_t now_ns = clock_boot(r->config.host->clock);

	hz_robot_follow_login(r);
	if (r->listed_boot_ns >= 0 && now_ns - r->listed_boot_ns <= r->config.cache_ns)
		return true;
	if (hz_robot_ask(r, call, STR("/server"), &doc, err)) {
		if (!hz_robot_read_list(r, yyjson_doc_get_root(doc), err))
			return false;
	} else if (err->code == ERR_NOT_FOUND) {
		r->n = 0;
	} else {
		return err_wrap(err, "list of Robot servers");
	}
	r->listed_boot_ns = now_ns;
	return true;
}

static struct hz_robot_server
hz_robot_copy(const struct hz_robot_server *s, struct arena *arena)
{
	return (struct hz_robot_server){
		.number = s->number,
		.name = arena_str(arena, s->name),
		.product = arena_str(arena, s->product),
		.dc = arena_str(arena, s->dc),
		.ipv4 = arena_str(arena, s->ipv4),
		.ipv6_net = arena_str(arena, s->ipv6_net),
	};
}

/* Copies a server of the list; of several with one name the last. False: the list lacks it. */
static bool
hz_robot_recall(const struct hz_robot *r, struct hz_which which, struct arena *arena,
                struct hz_robot_server *ret)
{
	for (size_t i = r->n; i-- > 0;) {
		const struct hz_robot_server *s = &r->servers[i];

		if (which.id > 0 ? s->number != which.id : !str_eq(s->name, which.name))
			continue;
		*ret = hz_robot_copy(s, arena);
		return true;
	}
	return false;
}

/* ---- look-ups ---- */

bool
hz_robot_list(struct hz_robot *r, struct call *call, struct arena *arena,
              struct hz_robot_server **ret, size_t *ret_n, struct error *err)
{
	WITH_LOCK(&r->mu);

	if (!hz_robot_refresh(r, call, err))
		return false;
	*ret = arena_calloc(arena, r->n, sizeof(**ret));
	*ret_n = r->n;
	for (size_t i = 0; i < r->n; i++)
		(*ret)[i] = hz_robot_copy(&r->servers[i], arena);
	return true;
}

bool
hz_robot_find(struct hz_robot *r, struct call *call, struct arena *arena, int64_t number,
              struct hz_robot_server *ret, struct error *err)
{
	WITH_LOCK(&r->mu);

	if (!hz_robot_refresh(r, call, err))
		return false;
	if (hz_robot_recall(r, HZ_BY_ID(number), arena, ret))
		return true;
	return err_set(err, ERR_NOT_FOUND, "Robot server %" PRId64 " is not in the list", number);
}

bool
hz_robot_find_name(struct hz_robot *r, struct call *call, struct arena *arena, struct str name,
                   bool may_be_old, struct hz_robot_server *ret, struct error *err)
{
	bool is_fresh;
	WITH_LOCK(&r->mu);

	is_fresh = hz_robot_refresh(r, call, err);
	if (!is_fresh && r->listed_boot_ns < 0)
		return false;
	if (hz_robot_recall(r, HZ_BY_NAME(name), arena, ret))
		return true;
	if (!is_fresh && !may_be_old)
		return false;
	return err_set(err, ERR_NOT_FOUND, "no Robot server has the name \"%" STR_FMT "\"",
	               STR_ARG(name));
}

bool
hz_robot_get(struct hz_robot *r, struct call *call, struct arena *arena, int64_t number,
             struct hz_robot_server *ret, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct hz_robot_server server;
	WITH_LOCK(&r->mu);

	hz_robot_follow_login(r);
	if (!hz_robot_ask(r, call, arena_printf(call->arena, "/server/%" PRId64, number), &doc,
	                  err) ||
	    !hz_robot_read_server(arena, yyjson_doc_get_root(doc), &server, err))
		return false;
	if (server.number != number)
		return err_set(err, ERR_UNAVAILABLE,
		               "asked Robot for server %" PRId64 ", got %" PRId64, number,
		               server.number);
	*ret = server;
	return true;
}

bool
hz_robot_is_off(struct hz_robot *r, struct call *call, int64_t number, bool *ret, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	WITH_LOCK(&r->mu);

	hz_robot_follow_login(r);
	if (!hz_robot_ask(r, call, arena_printf(call->arena, "/reset/%" PRId64, number), &doc, err))
		return false;
	*ret = str_eq_c(json_view(yyjson_doc_get_root(doc), "reset.operating_status"), "shut off");
	return true;
}

/* ---- life cycle ---- */

struct hz_robot *
hz_robot_new(const struct hz_robot_config *config)
{
	struct hz_robot *r = xcalloc(1, sizeof(*r));

	r->config = *config;
	r->listed_boot_ns = -1;
	r->endpoint = endpoint_new(&(struct endpoint_config){ "the Robot web service",
	                                                      config->host });
	mutex_init(&r->mu);
	/* an increase from no series to 1 is not seen by an alert */
	(void)metric_of(&requests, "401", "/server");
	(void)metric_of(&requests, "403", "/server");
	return r;
}

void
hz_robot_free(struct hz_robot *r)
{
	if (!r)
		return;
	arena_fini(&r->arena);
	endpoint_free(r->endpoint);
	mutex_destroy(&r->mu);
	free(r);
}
