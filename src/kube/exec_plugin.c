/* kube/exec_plugin.c: credentials from a program; see credentials.h.
 *
 * Each run has a thread of its own. If a caller's thread ran the program, the end of this caller's
 * deadline would kill a program for which other callers are waiting.
 *
 * A caller takes mu (the lock of the single flight) and does the first of these that applies:
 *
 * 	1. The credential is valid for EARLY_NS more, and the server has not refused it: it is used.
 * 	2. A run is going on, or one may start, because RUN_DISTANCE_NS have passed since the start
 * 	   of the last one: the caller waits for its end.
 * 	3. No run may start yet: the result of the last run counts, a credential or its failure.
 *
 * A run sets the credential and raises the generation. A request that was answered with 401 reports
 * the generation that it used. If the credential is a newer one by then, the report is about the
 * old one and is ignored.
 *
 * The expiry of a credential is compared with the wall clock, because the program gives it as a
 * date. The distance between runs is measured on the boot clock.
 */
#include "kube/credentials.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/child.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/single_flight.h"
#include "base/thread.h"

#define EARLY_NS (10 * NS_PER_SEC)
#define RUN_DISTANCE_NS NS_PER_SEC
#define HINT_PERIOD_NS (3600 * NS_PER_SEC)

enum {
	RUN_MS = 60000,
	HINTS = 10, /* of the kubeconfig's installHint in one HINT_PERIOD_NS */
	MAX_HINT = 300,
	MAX_INFO = 128 << 10, /* execve(2) of Linux refuses a longer variable */
};

METRIC_FAMILY(calls_total, METRIC_COUNTER, "rest_client_exec_plugin_call_total",
              "[ALPHA] Runs of the exec credential plugin, by exit code and outcome.",
              .labels = { "code", "call_status" });

METRIC_FAMILY(ttl_seconds, METRIC_GAUGE, "rest_client_exec_plugin_ttl_seconds",
              "[ALPHA] Seconds until the plugin's credential expires, negative after that; +Inf "
              "if there is no credential or it does not expire.");

static const double age_buckets[] = { 600,     1800,    3600,     14400,    86400,    604800,
	                              2592000, 7776000, 15552000, 31104000, 124416000 };

METRIC_FAMILY(
	rotation_age, METRIC_HISTOGRAM, "rest_client_exec_plugin_certificate_rotation_age",
	"[ALPHA] Seconds a client certificate of the plugin was valid for when it was replaced.",
	METRIC_BUCKETS(age_buckets));

struct exec_plugin {
	const struct kube_config *config;
	struct clock *clock;
	struct cancel *cancel;             /* ends the present run when the plugin is freed */
	struct single_flight flight;       /* one run at a time; mu below is its lock */
	pthread_t thread;                  /* mu */
	bool has_thread;                   /* mu: `thread` was started and has to be joined */
	bool has_failed;                   /* mu: the last run failed */
	struct error failure;              /* mu: its error */
	int64_t next_run_boot_ns;          /* mu: the earliest start of the next run */
	bool is_refused;                   /* mu: the server answered 401 to the credential */
	struct exec_credential credential; /* mu */
	uint64_t generation;               /* mu; 0: no credential yet */
	uint64_t cert_generation;          /* mu; 0: never a certificate */
	struct secret ca_pem;              /* mu */
	int n_hints;                       /* mu: hints that were appended in this period */
	int64_t hints_end_boot_ns;         /* mu: the end of this period */
};

/* ---- the program's output ---- */

void
exec_credential_fini(struct exec_credential *c)
{
	secret_fini(&c->token);
	secret_fini(&c->cert_pem);
	secret_fini(&c->key_pem);
}

/* Copies a text of the document and overwrites it there, so that only the secret has it. */
static bool
take_secret(yyjson_val *root, const char *path, struct secret *ret, struct error *err)
{
	struct str text = STR_EMPTY;
	enum json_found found = json_str(root, path, &text);

	if (found == JSON_MISTYPED)
		return err_set(err, ERR_INVALID, "%s is not a string", path);
	if (text.len > LIMIT_CREDENTIAL)
		return err_set(err, ERR_INVALID, "%s is larger than %zu bytes", path,
		               LIMIT_CREDENTIAL);
	secret_assign(ret, text);
	explicit_bzero((char *)(uintptr_t)text.ptr, text.len);
	return true;
}

static bool
read_credential(yyjson_val *root, struct str api_version, struct exec_credential *c,
                struct error *err)
{
	struct str expiry = STR_EMPTY;
	enum json_found found;
	yyjson_val *status;

	if (!str_eq_c(json_view(root, "kind"), "ExecCredential"))
		return err_set(err, ERR_INVALID, "its kind is not ExecCredential");
	if (!str_eq(json_view(root, "apiVersion"), api_version))
		return err_set(err, ERR_INVALID, "its apiVersion is not %" STR_FMT,
		               STR_ARG(api_version));
	if (json_object(root, "status", &status) != JSON_FOUND)
		return err_set(err, ERR_INVALID, "it has no status");

	if (!take_secret(root, "status.token", &c->token, err) ||
	    !take_secret(root, "status.clientCertificateData", &c->cert_pem, err) ||
	    !take_secret(root, "status.clientKeyData", &c->key_pem, err))
		return false;
	c->expires_wall_ns = CLOCK_FOREVER;
	found = json_str(root, "status.expirationTimestamp", &expiry);
	if (found == JSON_MISTYPED ||
	    (found == JSON_FOUND && !clock_parse_rfc3339(expiry, &c->expires_wall_ns)))
		return err_set(err, ERR_INVALID,
		               "status.expirationTimestamp is not a time of RFC 3339");

	if (secret_is_set(&c->cert_pem) != secret_is_set(&c->key_pem))
		return err_set(
			err, ERR_INVALID,
			"it has only one of status.clientCertificateData and status.clientKeyData");
	if (!secret_is_set(&c->token) && !secret_is_set(&c->cert_pem))
		return err_set(err, ERR_INVALID, "it has neither a token nor a client certificate");
	if (!str_is_visible(secret_expose(&c->token)))
		return err_set(err, ERR_INVALID,
		               "status.token contains characters that are not allowed");
	return true;
}

bool
exec_credential_parse(struct str json, struct str api_version, struct exec_credential *ret,
                      struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct exec_credential c = { 0 };

	if (!json_parse(json, &doc, err))
		return err_wrap(err, "its output is not JSON");
	if (!read_credential(yyjson_doc_get_root(doc), api_version, &c, err)) {
		exec_credential_fini(&c);
		return err_wrap(err, "its output cannot be used");
	}
	*ret = c;
	return true;
}

/* ---- the program's environment ---- */

static void
info_add(struct exec_plugin *p, struct buf *b)
{
	const struct kube_config *config = p->config;

	buf_add_c(b, "KUBERNETES_EXEC_INFO={");
	json_add_members(b, JSON_TEXT("kind", STR("ExecCredential")),
	                 JSON_TEXT("apiVersion", config->exec->api_version));
	json_begin_object(b, "spec");
	if (config->exec->wants_cluster) {
		/* locked, because exec_plugin_set_ca() may replace the authorities during a run */
		WITH_LOCK(&p->flight.mu);

		json_begin_object(b, "cluster");
		json_add_members(b, JSON_TEXT("server", config->server),
		                 JSON_IF(config->tls_server_name.len > 0,
		                         JSON_TEXT("tls-server-name", config->tls_server_name)),
		                 JSON_IF(config->is_insecure,
		                         JSON_FLAG("insecure-skip-tls-verify", true)));
		if (secret_is_set(&p->ca_pem)) {
			json_add_raw(b, "certificate-authority-data", STR("\""));
			base64_add(b, secret_expose(&p->ca_pem));
			buf_add_char(b, '"');
		}
		json_add_members(b,
		                 JSON_IF(config->proxy_url.len > 0,
		                         JSON_TEXT("proxy-url", config->proxy_url)),
		                 JSON_IF(config->exec->cluster_config.len > 0,
		                         JSON_RAW("config", config->exec->cluster_config)));
		json_end_object(b);
	}
	json_add_flag(b, "interactive", false);
	json_end_object(b);
	json_end_object(b);
}

/* ---- a run ---- */

static void
count_run(int exit_code, const char *outcome)
{
	char code[16];

	snprintf(code, sizeof(code), "%d", exit_code);
	metric_inc(metric_of(&calls_total, code, outcome));
}

/* Appends the kubeconfig's installHint to the error, HINTS times in a period. Control characters
 * become blanks, so that the error stays one line. */
static void
append_hint(struct exec_plugin *p, struct error *err)
{
	struct str hint = str_utf8_head(p->config->exec->install_hint, MAX_HINT);
	int64_t now_ns = clock_boot(p->clock);
	char memory[MAX_HINT + 1] = "";
	struct buf clean = BUF_FIXED(memory);
	struct error plain = *err;
	WITH_LOCK(&p->flight.mu);

	if (hint.len == 0)
		return;
	if (now_ns >= p->hints_end_boot_ns) {
		p->hints_end_boot_ns = now_ns + HINT_PERIOD_NS;
		p->n_hints = 0;
	}
	if (p->n_hints++ >= HINTS)
		return;
	buf_add_clean(&clean, hint);
	err_set(err, plain.code, "%s; %s", plain.msg, memory);
}

static bool
run_program(struct exec_plugin *p, struct child_result *r, struct error *err)
{
	CLEANUP(buf_fini) struct buf info = BUF_INIT(MAX_INFO);
	const struct kube_exec *exec = p->config->exec;
	struct call call = { .clock = &clock_real,
		             .cancel = p->cancel,
		             .deadline_mono_ns = CLOCK_FOREVER };
	struct child_spec spec = { .argv = exec->argv, .timeout_ms = RUN_MS };
	const char **env;
	size_t n = 0;
	bool is_ok;

	info_add(p, &info);
	if (!buf_ok(&info))
		return err_set(
			err, ERR_INVALID,
			"KUBERNETES_EXEC_INFO, which describes the cluster, is longer than %d bytes",
			MAX_INFO);
	/* it is the last one, and so overrides a configured variable of that name */
	while (exec->env[n])
		n++;
	env = xcalloc(n + 2, sizeof(*env));
	memcpy(env, exec->env, n * sizeof(*env));
	env[n] = info.ptr;
	spec.env = env;
	is_ok = child_run(&call, &spec, r, err);
	free(env);
	return is_ok;
}

static bool
run_and_parse(struct exec_plugin *p, struct exec_credential *ret, struct error *err)
{
	CLEANUP(child_result_fini) struct child_result r = CHILD_RESULT_INIT;
	const struct kube_exec *exec = p->config->exec;

	if (!run_program(p, &r, err)) {
		bool is_missing = err->code == ERR_NOT_FOUND;

		if (err->code != ERR_CANCELLED)
			count_run(1,
			          is_missing ? "plugin_not_found_error" : "client_internal_error");
		if (is_missing)
			append_hint(p, err);
		return err_wrap(err, "exec plugin");
	}
	if (r.exit_code != 0) {
		count_run(r.exit_code, "plugin_execution_error");
		err_set(err, ERR_UNAUTHORIZED, "%s %d",
		        r.exit_code < 0 ? "ended by signal" : "exit code",
		        r.exit_code < 0 ? r.signal : r.exit_code);
		return err_wrap(err, "exec plugin: %s", exec->argv[0]);
	}
	if (!exec_credential_parse(buf_str(&r.out), exec->api_version, ret, err)) {
		count_run(1, "client_internal_error");
		return err_wrap(err, "exec plugin: %s", exec->argv[0]);
	}
	count_run(0, "no_error");
	return true;
}

/* Called with mu held. */
static void
adopt_credential(struct exec_plugin *p, const struct exec_credential *fresh)
{
	const struct secret *cert = &p->credential.cert_pem;
	bool is_other = !secret_eq(cert, &fresh->cert_pem) ||
	                !secret_eq(&p->credential.key_pem, &fresh->key_pem);
	int64_t since_ns, until_ns;

	if (is_other)
		p->cert_generation++;
	if (is_other && secret_is_set(cert) &&
	    http_certificate_validity(secret_expose(cert), &since_ns, &until_ns))
		metric_observe(metric_of(&rotation_age),
		               clock_seconds(clock_wall(p->clock) - since_ns));
	exec_credential_fini(&p->credential);
	p->credential = *fresh; /* owned by the plugin now */
	p->generation++;
	p->is_refused = false;
	if (p->credential.expires_wall_ns <= clock_wall(p->clock))
		log_warn("the credential of the exec plugin has expired already, using it anyway",
		         LOG_CSTR("plugin", p->config->exec->argv[0]));
}

static void *
plugin_thread(void *plugin)
{
	struct exec_plugin *p = plugin;
	struct exec_credential fresh = { 0 };
	struct error err = { 0 };
	bool is_ok = run_and_parse(p, &fresh, &err);
	WITH_LOCK(&p->flight.mu);

	if (is_ok)
		adopt_credential(p, &fresh);
	p->failure = err;
	p->has_failed = !is_ok;
	single_flight_end(&p->flight);
	return NULL;
}

/* ---- waiting for a run ---- */

/* The functions of this section are called with mu held. */

static bool
is_valid(const struct exec_plugin *p, int64_t margin_ns)
{
	int64_t expires_ns = p->credential.expires_wall_ns;

	return p->generation > 0 && !p->is_refused &&
	       (expires_ns == CLOCK_FOREVER || expires_ns - margin_ns > clock_wall(p->clock));
}

/* The earliest time of the next run counts from the start of this one, so that a program that fails
 * immediately is not started in a tight loop. */
static void
start_run(struct exec_plugin *p)
{
	/* the last run has ended, so joining its thread does not wait for a program */
	if (p->has_thread)
		thread_join(p->thread);
	p->has_thread = true;
	single_flight_begin(&p->flight);
	p->next_run_boot_ns = clock_boot(p->clock) + RUN_DISTANCE_NS;
	thread_start(&p->thread, "exec", plugin_thread, p);
}

static bool
wait_for_run(struct exec_plugin *p, const struct call *call, struct error *err)
{
	uint64_t run = single_flight_running(&p->flight);

	if (single_flight_wait(&p->flight, call, run, "the exec plugin", NULL, err))
		return true;
	if (err->code != ERR_TIMEOUT)
		return false;
	return err_set(err, ERR_TIMEOUT, "exec plugin: %s has not ended in time%s%s",
	               p->config->exec->argv[0], p->has_failed ? "; before: " : "",
	               p->has_failed ? p->failure.msg : "");
}

/* Uses the last run's credential, even an expired one; after a failure one that is still valid. */
static bool
use_last_result(const struct exec_plugin *p, struct error *err)
{
	if (p->generation > 0 && !p->is_refused && !p->has_failed)
		return true;
	if (is_valid(p, /*margin_ns=*/0))
		return true;
	if (p->has_failed)
		*err = p->failure;
	else
		err_set(err, ERR_UNAUTHORIZED, "exec plugin: %s: its credential was refused",
		        p->config->exec->argv[0]);
	if (err->code != ERR_CANCELLED)
		err->code = ERR_UNAUTHORIZED;
	return false;
}

static bool
ensure_credential(struct exec_plugin *p, const struct call *call, struct error *err)
{
	if (is_valid(p, EARLY_NS))
		return true;
	if (!single_flight_running(&p->flight) && clock_boot(p->clock) >= p->next_run_boot_ns)
		start_run(p);
	if (single_flight_running(&p->flight) && !wait_for_run(p, call, err))
		return false;
	return use_last_result(p, err);
}

bool
exec_plugin_token(struct exec_plugin *p, const struct call *call, struct buf *ret,
                  uint64_t *ret_generation, struct error *err)
{
	WITH_HOOK(call->cancel, single_flight_wake, &p->flight);
	WITH_LOCK(&p->flight.mu);

	if (!ensure_credential(p, call, err))
		return false;
	buf_add_str(ret, secret_expose(&p->credential.token));
	*ret_generation = p->generation;
	return true;
}

bool
exec_plugin_rejected(struct exec_plugin *p, uint64_t generation)
{
	WITH_LOCK(&p->flight.mu);

	if (p->generation > generation)
		return true;
	if (clock_boot(p->clock) < p->next_run_boot_ns)
		return false;
	p->is_refused = true;
	return true;
}

bool
exec_plugin_certificate(struct exec_plugin *p, uint64_t *generation, struct secret *cert_pem,
                        struct secret *key_pem)
{
	WITH_LOCK(&p->flight.mu);

	if (*generation == p->cert_generation)
		return false;
	*generation = p->cert_generation;
	secret_assign(cert_pem, secret_expose(&p->credential.cert_pem));
	secret_assign(key_pem, secret_expose(&p->credential.key_pem));
	return true;
}

void
exec_plugin_set_ca(struct exec_plugin *p, struct str ca_pem)
{
	WITH_LOCK(&p->flight.mu);

	secret_assign(&p->ca_pem, ca_pem);
}

/* ---- life cycle ---- */

static void
set_ttl_metric(void *plugin)
{
	struct exec_plugin *p = plugin;
	double ttl = INFINITY;
	WITH_LOCK(&p->flight.mu);

	if (p->generation > 0 && p->credential.expires_wall_ns != CLOCK_FOREVER)
		ttl = clock_seconds(p->credential.expires_wall_ns - clock_wall(p->clock));
	metric_set(metric_of(&ttl_seconds), ttl);
}

struct exec_plugin *
exec_plugin_new(const struct kube_config *config, struct clock *clock)
{
	struct exec_plugin *p = xcalloc(1, sizeof(*p));

	*p = (struct exec_plugin){ .config = config, .clock = clock, .cancel = cancel_new() };
	secret_assign(&p->ca_pem, config->ca_pem);
	single_flight_init(&p->flight);
	metrics_on_scrape(set_ttl_metric, p);
	return p;
}

void
exec_plugin_free(struct exec_plugin *p)
{
	if (!p)
		return;
	metrics_off_scrape(set_ttl_metric, p);
	cancel_fire(p->cancel);
	if (p->has_thread)
		thread_join(p->thread);
	cancel_free(p->cancel);
	exec_credential_fini(&p->credential);
	secret_fini(&p->ca_pem);
	single_flight_fini(&p->flight);
	free(p);
}
