/* serve/endpoints.c: see endpoints.h.
 *
 * A request is checked by access_check(), which calls on_checked() on the loop or on the review
 * thread. From there answer_endpoint() finds the row of the table, and the row's function answers.
 */
#include "serve/endpoints.h"

#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "serve/build_info.h"

#define JSON_TYPE "application/json"
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

enum {
	MAX_EXCLUDES = 32,
	MAX_VERBOSITY = 100,
};

#define OBJECTS "/debug/objects/"

#define BIT(method) (1u << (method))
#define GET BIT(SERVER_GET)

/* ---- answers ---- */

static void
reply(struct server_request *request, int status, const char *type, const struct buf *body)
{
	server_reply(request, &(struct server_response){
				      .status = status,
				      .content_type = type,
				      .body = buf_str(body),
			      });
}

/* A line with its end, as from Go's http.Error(). */
static void
reply_line(struct server_request *request, int status, const char *line)
{
	char memory[256] = "";
	struct buf body = BUF_FIXED(memory);

	buf_addf(&body, "%s\n", line);
	reply(request, status, NULL, &body);
}

/* A text that did not fit into its buffer is replaced by an error: a client could take half an
 * answer for a whole one. */
static void
reply_whole(struct server_request *request, int status, const char *type, const struct buf *body)
{
	if (buf_ok(body))
		reply(request, status, type, body);
	else
		reply_line(request, 500, "the response is too large");
}

/* ---- health ---- */

static enum health_kind
kind_of(const struct server_request *request)
{
	struct str path = server_request_path(request);

	if (str_starts(path, STR("/healthz")))
		return HEALTH_HEALTHZ;
	return str_starts(path, STR("/livez")) ? HEALTH_LIVEZ : HEALTH_READYZ;
}

static void
answer_health(const struct endpoints_config *config, struct server_request *request)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_HEALTH_TEXT);
	struct str exclude[MAX_EXCLUDES], ignored;
	size_t n = 0;
	bool is_well, is_verbose;

	while (n < MAX_EXCLUDES &&
	       server_request_parameter(request, "exclude", n, &arena, &exclude[n]))
		n++;
	is_verbose = server_request_parameter(request, "verbose", 0, &arena, &ignored);
	is_well = health_run(config->health, kind_of(request), exclude, n, is_verbose, &text);
	reply_whole(request, is_well ? 200 : 500, NULL, &text);
}

/* A single check says why it fails, as in the API server: these paths are not among those that are
 * always allowed, so the caller was authorized. */
static void
answer_check(const struct endpoints_config *config, struct server_request *request)
{
	CLEANUP(buf_fini) struct buf reason = BUF_INIT(LIMIT_HEALTH_TEXT);
	struct str name = server_request_path(request);

	while (str_index(name, '/') >= 0)
		name = str_skip(name, (size_t)str_index(name, '/') + 1);
	buf_add_c(&reason, "internal server error: ");
	switch (health_run_one(config->health, kind_of(request), name, &reason)) {
	case HEALTH_UNKNOWN:
		reply_line(request, 404, "404 page not found");
		return;
	case HEALTH_WELL:
		buf_reset(&reason);
		buf_add_c(&reason, "ok");
		reply_whole(request, 200, NULL, &reason);
		return;
	case HEALTH_FAILED:
		buf_add_char(&reason, '\n');
		reply_whole(request, 500, NULL, &reason);
		return;
	}
}

/* ---- metrics ---- */

static void
answer_metrics(const struct endpoints_config *config, struct server_request *request)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_METRICS_TEXT);
	bool is_slis = str_eq_c(server_request_path(request), "/metrics/slis");
	enum metric_format format = METRICS_TEXT;
	struct str accept;

	(void)config;
	if (server_request_method(request) == SERVER_DELETE) { /* only of /metrics/slis */
		metrics_reset(METRICS_SLIS);
		reply_line(request, 200, "metrics reset");
		return;
	}
	for (size_t i = 0; server_request_header(request, "Accept", i, &accept); i++) {
		if (str_contains(accept, STR("application/openmetrics-text")))
			format = METRICS_OPENMETRICS;
	}
	metrics_write_page(&text, is_slis ? METRICS_SLIS : METRICS_MAIN, format);
	reply_whole(request, 200, format == METRICS_TEXT ? METRICS_TYPE : OPENMETRICS_TYPE, &text);
}

/* ---- configuration, version, verbosity ---- */

static void
answer_configz(const struct endpoints_config *config, struct server_request *request)
{
	CLEANUP(buf_fini) struct buf json = BUF_INIT(MIB(1));

	buf_add_c(&json, "{\"cloudcontrollermanager.config.k8s.io\":");
	config->configz(config->arg, &json);
	buf_add_char(&json, '}');
	reply_whole(request, 200, JSON_TYPE, &json);
}

static void
answer_version(const struct endpoints_config *config, struct server_request *request)
{
	CLEANUP(buf_fini) struct buf json = BUF_INIT(KIB(4));

	(void)config;
	build_info_add_json(&json);
	reply_whole(request, 200, JSON_TYPE, &json);
}

/* As in the Go program, where PUT changes klog's flag -v. kubectl has no command for it; curl -X
 * PUT -d 4 does it. */
static void
answer_verbosity(const struct endpoints_config *config, struct server_request *request)
{
	char memory[128] = "";
	struct buf text = BUF_FIXED(memory);
	int64_t level;

	(void)config;
	if (!str_to_i64(str_trim(server_request_body(request)), 0, MAX_VERBOSITY, &level)) {
		reply_line(request, 400, "the body is not a level from 0 to 100");
		return;
	}
	log_set_verbosity((int)level);
	log_info("log level set", LOG_I64("v", level), LOG_STR("by", server_request_peer(request)));
	buf_addf(&text, "successfully set klog.logging.verbosity to %d", (int)level);
	reply(request, 200, NULL, &text);
}

static void
answer_object(const struct endpoints_config *config, struct server_request *request)
{
	CLEANUP(buf_fini) struct buf json = BUF_INIT(LIMIT_DESCRIPTION);
	struct str path = str_skip(server_request_path(request), strlen(OBJECTS));

	if (config->describe(config->describe_arg, path, &json))
		reply_whole(request, 200, JSON_TYPE, &json);
	else
		reply_line(request, 404, "404 page not found");
}

/* ---- the table ---- */

const struct endpoint endpoints[] = {
	{ "/healthz", GET, false,
	  "Is the program healthy? 200 `ok`, or 500 and one line for each check.", answer_health },
	{ "/healthz/", GET, false, "One check by its name; 500 says why it fails.", answer_check },
	{ "/livez", GET, false,
	  "Should the program continue? Fails only if a thread is stuck or the lease was not renewed, never because "
	  "the API server or a cloud cannot be reached. Point liveness probes here.",
	  answer_health },
	{ "/livez/", GET, false, "One check by its name.", answer_check },
	{ "/readyz", GET, false,
	  "Has the leader loaded the cluster's objects? A standby replica is ready.",
	  answer_health },
	{ "/readyz/", GET, false, "One check by its name.", answer_check },
	{ "/metrics", GET, false,
	  "Metrics, in the Prometheus text format or, if requested, OpenMetrics.", answer_metrics },
	{ "/metrics/slis", GET | BIT(SERVER_DELETE), false,
	  "Results of the health checks as metrics. DELETE resets them.", answer_metrics },
	{ "/configz", GET, false, "The configuration in effect, as JSON, without secrets.",
	  answer_configz },
	{ "/version", GET, false, "The program's version, as JSON like that of Kubernetes.",
	  answer_version },
	{ OBJECTS "trouble", GET, false,
	  "What the leader knows about all nodes and Services at which its last attempt failed, and about nodes whose machine it has looked for.",
	  answer_object },
	{ OBJECTS "nodes/", GET, false,
	  "What the leader knows about a node: its place in the queue, and what the deletion guard has seen.",
	  answer_object },
	{ OBJECTS "services/", GET, false,
	  "What the leader knows about the Service NAMESPACE/NAME: its place in the queue, and its last failure.",
	  answer_object },
	{ OBJECTS "routes/", GET, false,
	  "What the leader knows about the route to a pod CIDR: how the last run ended, and when the next one is due.",
	  answer_object },
	{ "/debug/flags/v", BIT(SERVER_PUT), true,
	  "Sets the log's verbosity to the number in the body.", answer_verbosity },
};
const size_t n_endpoints = ARRAY_LEN(endpoints);

/* NULL for unknown paths. A path that ends with a slash stands for those below it. */
static const struct endpoint *
find_endpoint(struct str path)
{
	for (size_t i = 0; i < n_endpoints; i++) {
		struct str own = str_c(endpoints[i].path);

		if (str_ends(own, STR("/")) && str_starts(path, own) && path.len > own.len)
			return &endpoints[i];
		if (!str_ends(own, STR("/")) && str_eq(path, own))
			return &endpoints[i];
	}
	return NULL;
}

static void
reply_method_not_allowed(const struct endpoint *e, struct server_request *request)
{
	const char *headers[] = { "Allow", "GET, HEAD", NULL };

	if (!(e->methods & GET))
		headers[1] = "PUT";
	else if (e->methods & BIT(SERVER_DELETE))
		headers[1] = "GET, HEAD, DELETE";
	server_reply(request, &(struct server_response){ .status = 405,
	                                                 .headers = headers,
	                                                 .body = STR("Method Not Allowed\n") });
}

static void
answer_endpoint(const struct endpoints_config *config, struct server_request *request)
{
	const struct endpoint *e = find_endpoint(server_request_path(request));
	enum server_method method = server_request_method(request);

	if (!e || (e->needs_profiling && !config->is_profiling))
		reply_line(request, 404, "404 page not found");
	else if (!(e->methods & BIT(method == SERVER_HEAD ? SERVER_GET : method)))
		reply_method_not_allowed(e, request);
	else
		e->answer(config, request);
}

/* A refusal is a Status object (docs/spec/kube-client.md, "Status objects"). Messages of access.c
 * are shorter than 4 KiB. */
static void
on_checked(void *config, struct server_request *request, enum access_outcome outcome,
           struct str message)
{
	static const struct {
		int code;
		const char *reason, *details;
	} refusals[] = {
		[ACCESS_UNAUTHORIZED] = { 401, "Unauthorized", "" },
		[ACCESS_FORBIDDEN] = { 403, "Forbidden", ",\"details\":{}" },
		[ACCESS_TOO_MANY] = { 429, "TooManyRequests",
		                      ",\"details\":{\"retryAfterSeconds\":1}" },
		[ACCESS_BUSY] = { 503, "ServiceUnavailable", "" },
	};
	static const char *const soon[] = { "Retry-After", "1", NULL };
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_SERVER_BODY);

	if (outcome == ACCESS_ALLOWED) {
		answer_endpoint(config, request);
		return;
	}
	buf_add_c(&body, "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},"
	                 "\"status\":\"Failure\",\"message\":");
	json_add_str(&body, message);
	buf_addf(&body, ",\"reason\":\"%s\"%s,\"code\":%d}\n", refusals[outcome].reason,
	         refusals[outcome].details, refusals[outcome].code);
	server_reply(request, &(struct server_response){
				      .status = refusals[outcome].code,
				      .content_type = JSON_TYPE,
				      .headers = outcome == ACCESS_TOO_MANY ? soon : NULL,
				      .body = buf_str(&body),
			      });
}

void
endpoints_handle(void *arg, struct server_request *request)
{
	const struct endpoints_config *config = arg;

	if (config->access)
		access_check(config->access, request, on_checked, arg);
	else if (str_eq_c(server_request_path(request), "/metrics"))
		answer_endpoint(config, request);
	else
		reply_line(request, 404, "404 page not found");
}
