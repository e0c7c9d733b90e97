/* kube/connection.c: see connection.h.
 *
 * Every client asks client_authorize() before each request, and that is where files are read again:
 * no timer or thread is needed, and an idle program reads nothing. A change goes to all clients
 * under mu, so that a client created at the same time gets either the old or the new certificates,
 * never none.
 *
 * The generation of a credential is two numbers in one: that of the client certificate in the upper
 * 32 bits, that of the token in the lower ones. A 401 is worth a second attempt if either has
 * grown.
 *
 * Locks: tokens_mu before mu. warn_mu is taken alone, on the I/O threads.
 */
#include "kube/connection.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "base/version.h"
#include "kube/credentials.h"
#include "http/url.h"

#define FOLLOW_NS (60 * NS_PER_SEC) /* between two reads of the files */
#define URGENT_NS NS_PER_SEC        /* the same after a 401 or a failed TLS handshake */
#define WARN_NS (300 * NS_PER_SEC)  /* between two warnings about files */

enum {
	MAX_WARNINGS = 100, /* different warnings of the API server that are logged */
};

struct client {
	struct http_auth auth;
	struct client *next;
	struct kube_connection *connection;
	struct service_account *account; /* NULL: uses the credentials of the configuration */
	char *name;                      /* of the account */
	struct kube_client kube;
};

struct kube_connection {
	struct clock *clock;
	char *kubeconfig;           /* "": none */
	bool is_list;               /* of kubeconfig, as in struct kube_config_source */
	char *master;               /* "": none */
	struct kube_config *config; /* the first one; its server settings stay in effect */
	struct credentials *credentials;
	struct exec_plugin *plugin; /* NULL: none */
	const char *host;           /* "host:port", a label of metrics */
	pthread_mutex_t mu;
	struct client *clients;      /* mu */
	struct tls_files tls_files;  /* mu */
	_Atomic uint32_t generation; /* of the client certificate; grows with each change */
	uint64_t plugin_certificate; /* mu: generation of the plugin's certificate that is in use */
	uint64_t config_hash;        /* mu: of the kubeconfig that was last read */
	int64_t next_follow_ns;      /* mu; boot: when files are read again */
	int64_t next_urgent_ns;      /* mu; boot: the same after a failure */
	int64_t next_warn_ns;        /* mu; boot */

	pthread_mutex_t tokens_mu;
	struct kube_client *tokens; /* tokens_mu: for TokenRequests; NULL: not needed yet */

	pthread_mutex_t warn_mu;
	uint64_t warnings[MAX_WARNINGS]; /* warn_mu: hashes of the warnings that were logged */
	size_t n_warnings;               /* warn_mu */
};

/* ---- metrics ---- */

static const double lookup_buckets[] = { .005, .025, .1, .25, .5, 1, 2, 4, 8, 15, 30 };

METRIC_FAMILY(lookup_seconds, METRIC_HISTOGRAM, "rest_client_dns_resolution_duration_seconds",
              "[ALPHA] Duration of DNS lookups of the API server or its proxy for a new "
              "connection. Configured addresses need no lookup.",
              .labels = { "host" }, METRIC_BUCKETS(lookup_buckets));
METRIC_FAMILY(transports, METRIC_GAUGE, "rest_client_transport_cache_entries",
              "[ALPHA] Number of HTTP clients, each with connections of its own.");
METRIC_FAMILY(
	transports_total, METRIC_COUNTER, "rest_client_transport_create_calls_total",
	"[ALPHA] Requested clients, by result: hit shares the connections of another client, miss has "
	"its own.",
	.labels = { "result" });

static void
resolved(void *connection, struct str name, int64_t took_ns)
{
	char host[LIMIT_NAME + 1];

	(void)connection;
	snprintf(host, sizeof(host), "%" STR_FMT, STR_ARG(name));
	metric_observe(metric_of(&lookup_seconds, host), clock_seconds(took_ns));
}

/* ---- warnings of the API server ---- */

/* A Warning header of the API server: 299 - "text". Each text is logged once, and at most
 * MAX_WARNINGS of them. */
static void
warned(void *connection, struct str value)
{
	struct kube_connection *c = connection;
	struct str text, agent;
	uint64_t hash;

	if (!str_cut(str_skip(value, strlen("299 ")), ' ', &agent, &text))
		return;
	if (text.len >= 2 && str_starts(text, STR("\"")) && str_ends(text, STR("\"")))
		text = str_n(text.ptr + 1, text.len - 2);
	hash = str_hash(text);
	WITH_LOCK(&c->warn_mu);
	for (size_t i = 0; i < c->n_warnings; i++) {
		if (c->warnings[i] == hash)
			return;
	}
	if (c->n_warnings == MAX_WARNINGS)
		return;
	c->warnings[c->n_warnings++] = hash;
	log_info("warning of the API server", LOG_STR("text", text));
}

/* ---- reading files again: called with mu held ---- */

static void
warn_at_limited_rate(struct kube_connection *c, const char *what, const struct error *err)
{
	int64_t now_ns = clock_boot(c->clock);

	if (now_ns < c->next_warn_ns)
		return;
	c->next_warn_ns = now_ns + WARN_NS;
	log_warn(what, LOG_ERR(err));
}

/* Hands changed certificates to the clients. A client of a service account has no client
 * certificate, because that would be another identity. */
static void
apply_changes(struct kube_connection *c, unsigned changes)
{
	bool has_new_ca = changes & TLS_FILES_CA, has_new_cert = changes & TLS_FILES_CERT;
	struct error err;

	if (has_new_cert)
		c->generation++;
	for (struct client *client = c->clients; client; client = client->next) {
		bool is_ours = !client->account;
		struct tls_config tls = tls_files_config(&c->tls_files, /*with_cert=*/is_ours);

		if (!is_ours && !has_new_ca)
			continue;
		if (!http_client_set_tls(client->kube.http, &tls,
		                         /*ends_streams=*/is_ours && has_new_cert, &err))
			warn_at_limited_rate(c,
			                     "certificates cannot be used, keeping the last ones",
			                     &err);
	}
	if (has_new_ca && c->plugin)
		exec_plugin_set_ca(c->plugin, secret_expose(&c->tls_files.ca_pem));
	if (has_new_ca)
		log_info("certificate authorities of the API server read again");
	if (has_new_cert)
		log_info("client certificate replaced");
}

static bool
is_same_list(const char *const *a, const char *const *b)
{
	while (a && b && *a && *b && strcmp(*a, *b) == 0) {
		a++;
		b++;
	}
	return !(a && *a) && !(b && *b);
}

static bool
is_same_plugin(const struct kube_exec *a, const struct kube_exec *b)
{
	if (!a || !b)
		return a == b;
	return is_same_list(a->argv, b->argv) && is_same_list(a->env, b->env) &&
	       str_eq(a->api_version, b->api_version) && a->wants_cluster == b->wants_cluster &&
	       str_eq(a->cluster_config, b->cluster_config);
}

/* Returns the key of a setting that differs and cannot be changed while the program runs; NULL if
 * all such settings are equal. */
static const char *
fixed_difference(const struct kube_config *a, const struct kube_config *b)
{
	const struct {
		const char *key;
		bool is_equal;
	} settings[] = {
		{ "server", str_eq(a->server, b->server) },
		{ "tls-server-name", str_eq(a->tls_server_name, b->tls_server_name) },
		{ "proxy-url", str_eq(a->proxy_url, b->proxy_url) },
		{ "insecure-skip-tls-verify", a->is_insecure == b->is_insecure },
		{ "as", is_same_list(a->headers, b->headers) },
		{ "exec", is_same_plugin(a->exec, b->exec) },
	};

	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		if (!settings[i].is_equal)
			return settings[i].key;
	}
	return NULL;
}

/* Reads the configuration, and applies the whole of it or nothing, because its credentials may not
 * be valid for the present server, nor a new token together with old certificates. All steps that
 * can fail come before the first change; tls_files_update() changes nothing if it fails. */
static bool
reload_config(struct kube_connection *c, unsigned *ret_changes, struct error *err)
{
	CLEANUP(kube_config_freep) struct kube_config *config = NULL;
	CLEANUP(credentials_freep) struct credentials *fresh = NULL;
	struct kube_config_source source = { .kubeconfig = c->kubeconfig,
		                             .is_list = c->is_list,
		                             .master = c->master };
	const char *key;

	if (!kube_config_load(&source, &config, /*problems=*/NULL, err))
		return false;
	key = fixed_difference(c->config, config);
	if (key)
		return err_set(err, ERR_UNSUPPORTED,
		               "%s: `%s` has changed, which needs a restart of ccmd", c->kubeconfig,
		               key);
	if (!credentials_new(config, c->clock, &fresh, err) ||
	    !tls_files_update(&c->tls_files, config, ret_changes, err))
		return false;
	credentials_adopt(c->credentials, fresh);
	c->plugin_certificate = 0; /* the plugin's certificate must be set again */
	return true;
}

static bool
hash_config(const struct kube_connection *c, uint64_t *ret, struct error *err)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct str path, rest = str_c(c->kubeconfig);
	uint64_t hash = 0;

	while (kube_config_next_file(&rest, c->is_list, &path)) {
		CLEANUP(buf_fini) struct buf text = BUF_SECRET(LIMIT_KUBECONFIG);

		if (!file_read(arena_strz(&arena, path), &text, err) &&
		    !(c->is_list && err->code == ERR_NOT_FOUND))
			return false;
		hash = 31 * hash + str_hash(buf_str(&text));
	}
	*ret = hash;
	return true;
}

/* Reads the kubeconfig again if it has changed. One that cannot be used is parsed each time. */
static unsigned
follow_config(struct kube_connection *c)
{
	unsigned changes = TLS_FILES_SAME;
	uint64_t hash = c->config_hash;
	struct error err;
	bool is_ok;

	if (!c->kubeconfig[0])
		return TLS_FILES_SAME;
	is_ok = hash_config(c, &hash, &err);
	if (is_ok && hash != c->config_hash)
		is_ok = reload_config(c, &changes, &err);
	if (is_ok)
		c->config_hash = hash;
	else
		warn_at_limited_rate(c, "the kubeconfig cannot be read again, keeping the last one",
		                     &err);
	return changes;
}

/* Reads all files again if that is due; takes mu. */
static void
follow_files(struct kube_connection *c, bool is_urgent)
{
	int64_t now_ns = clock_boot(c->clock);
	unsigned changes;
	struct error err;
	WITH_LOCK(&c->mu);

	if (now_ns < (is_urgent ? c->next_urgent_ns : c->next_follow_ns))
		return;
	c->next_follow_ns = now_ns + FOLLOW_NS;
	c->next_urgent_ns = now_ns + URGENT_NS;
	changes = follow_config(c);
	changes |= tls_files_follow(&c->tls_files, &err);
	if (err.code != ERR_NONE)
		warn_at_limited_rate(c, "certificates cannot be read again, keeping the last ones",
		                     &err);
	if (changes != TLS_FILES_SAME)
		apply_changes(c, changes);
}

/* ---- struct http_auth of a client ---- */

/* Adds the plugin's token, and uses the client certificate that came with it. */
static bool
authorize_by_plugin(struct kube_connection *c, const struct call *call, struct buf *ret,
                    uint64_t *ret_generation, struct error *err)
{
	CLEANUP(secret_fini) struct secret cert = SECRET_NONE, key = SECRET_NONE;
	size_t before = ret->len;
	struct error problem;

	buf_add_c(ret, "Bearer ");
	if (!exec_plugin_token(c->plugin, call, ret, ret_generation, err))
		return false;
	if (ret->len == before + strlen("Bearer "))
		buf_truncate(ret, before);

	WITH_LOCK(&c->mu);
	if (!exec_plugin_certificate(c->plugin, &c->plugin_certificate, &cert, &key))
		return true;
	if (tls_files_set_cert(&c->tls_files, &cert, &key, &problem))
		apply_changes(c, TLS_FILES_CERT);
	else
		warn_at_limited_rate(
			c,
			"the exec plugin's client certificate cannot be used, keeping the last one",
			&problem);
	return true;
}

static bool
client_authorize(struct http_auth *auth, const struct call *call, struct buf *ret,
                 uint64_t *ret_generation, struct error *err)
{
	struct client *client = CONTAINER_OF(auth, struct client, auth);
	struct kube_connection *c = client->connection;
	struct http_auth *own = credentials_auth(c->credentials);
	uint64_t generation = 0;

	follow_files(c, /*is_urgent=*/false);
	if (client->account) {
		buf_add_c(ret, "Bearer ");
		return service_account_token(client->account, call, ret, ret_generation, err);
	}
	if (c->plugin) {
		if (!authorize_by_plugin(c, call, ret, &generation, err))
			return false;
	} else if (!own->authorize(own, call, ret, &generation, err)) {
		return false;
	}
	*ret_generation = (uint64_t)c->generation << 32 | (uint32_t)generation;
	return true;
}

static bool
client_rejected(struct http_auth *auth, uint64_t generation)
{
	struct client *client = CONTAINER_OF(auth, struct client, auth);
	struct kube_connection *c = client->connection;
	struct http_auth *own = credentials_auth(c->credentials);
	bool has_newer_cert, has_newer_token;

	if (client->account)
		return service_account_rejected(client->account, generation);
	follow_files(c, /*is_urgent=*/true);
	has_newer_cert = c->generation > generation >> 32;
	has_newer_token = c->plugin ? exec_plugin_rejected(c->plugin, (uint32_t)generation)
	                            : own->rejected(own, (uint32_t)generation);
	return has_newer_cert || has_newer_token;
}

static void
client_tls_failed(struct http_auth *auth)
{
	follow_files(CONTAINER_OF(auth, struct client, auth)->connection, /*is_urgent=*/true);
}

/* ---- the connection ---- */

bool
kube_connection_open(const struct kube_config_source *source, struct clock *clock,
                     struct kube_connection **ret, struct error *err)
{
	CLEANUP(kube_connection_closep) struct kube_connection *c = xcalloc(1, sizeof(*c));
	struct error ignored;
	struct url url;

	*c = (struct kube_connection){
		.clock = clock,
		.kubeconfig = xstrdup(source->kubeconfig ? source->kubeconfig : ""),
		.is_list = source->is_list,
		.master = xstrdup(source->master ? source->master : ""),
		.host = "",
		.next_follow_ns = clock_boot(clock) + FOLLOW_NS,
	};
	mutex_init(&c->mu);
	mutex_init(&c->tokens_mu);
	mutex_init(&c->warn_mu);
	if ((c->kubeconfig[0] && !hash_config(c, &c->config_hash, err)) ||
	    !kube_config_load(source, &c->config, /*problems=*/NULL, err))
		return false;
	if (url_parse(c->config->server, &url, &ignored))
		c->host = arena_printf(&c->config->arena, "%" STR_FMT ":%d", STR_ARG(url.host),
		                       url.port)
		                  .ptr;
	kube_start_counters(c->host);
	tls_files_init(&c->tls_files, c->config);
	if (kube_connection_uses_plugin(c))
		c->plugin = exec_plugin_new(c->config, c->clock);
	if (!credentials_new(c->config, c->clock, &c->credentials, err))
		return false;
	*ret = TAKE(c);
	return true;
}

static void
client_free(struct client *client)
{
	http_client_free(client->kube.http);
	service_account_free(client->account);
	free(client->name);
	free(client);
}

DEFINE_CLEANUP(struct client, client_free)

void
kube_connection_close(struct kube_connection *c)
{
	if (!c)
		return;
	/* the newest first: they may use the older client that requests their tokens */
	while (c->clients) {
		struct client *next = c->clients->next;

		metric_add(metric_of(&transports), -1);
		client_free(c->clients);
		c->clients = next;
	}
	exec_plugin_free(c->plugin);
	credentials_free(c->credentials);
	tls_files_fini(&c->tls_files);
	kube_config_free(c->config);
	mutex_destroy(&c->mu);
	mutex_destroy(&c->tokens_mu);
	mutex_destroy(&c->warn_mu);
	free(c->kubeconfig);
	free(c->master);
	free(c);
}

size_t
kube_connection_files(const struct kube_connection *c, bool only_secret,
                      struct str ret[KUBE_CONNECTION_FILES])
{
	const struct {
		struct str path;
		bool is_secret;
	} files[KUBE_CONNECTION_FILES] = { { c->config->token_file, true },
		                           { c->config->ca_file, false },
		                           { c->config->cert_file, false },
		                           { c->config->key_file, true } };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		if (files[i].path.len > 0 && (files[i].is_secret || !only_secret))
			ret[n++] = files[i].path;
	}
	return n;
}

const struct kube_config *
kube_connection_config(const struct kube_connection *c)
{
	return c->config;
}

bool
kube_connection_uses_plugin(const struct kube_connection *c)
{
	return c->config->exec && str_starts(c->config->server, STR("https://"));
}

/* ---- clients ---- */

/* The format is that of docs/spec/framework.md, "User agents". The API server takes the part before
 * the first '/' as the name of the field manager, and indents its JSON for an agent that starts
 * with "curl". */
static void
add_user_agent(struct buf *b, const char *prefix, const char *agent)
{
	buf_addf(b, "ccmd/%" STR_FMT " (%" STR_FMT ") kubernetes/%" STR_FMT,
	         STR_ARG(version_numbers()), STR_ARG(version_platform()),
	         STR_ARG(version_commit()));
	if (agent)
		buf_addf(b, "/%s%s", prefix, agent);
}

/* The client that requests tokens is created together with the first client that needs one. It has
 * no fence, because a token changes nothing that another leader could be working on. */
static bool
set_account(struct kube_connection *c, struct client *client, const char *name, struct error *err)
{
	struct kube_client_options options = { .name = "tokens", .agent = "token-request" };
	WITH_LOCK(&c->tokens_mu);

	if (!c->tokens && !kube_connection_client(c, &options, &c->tokens, err))
		return false;
	client->name = xstrdup(name);
	client->account = service_account_new(client->name, c->tokens, c->clock);
	return true;
}

/* Creates the HTTP client and adds the client to the list, both under mu, so that certificates that
 * change in between are not missed. */
static bool
client_start(struct kube_connection *c, struct client *client, struct http_config *http,
             struct error *err)
{
	WITH_LOCK(&c->mu);

	http->tls = tls_files_config(&c->tls_files, /*with_cert=*/!client->account);
	http->tls.server_name = c->config->tls_server_name;
	if (!http_client_new(http, &client->kube.http, err))
		return false;
	client->next = c->clients;
	c->clients = client;
	metric_inc(metric_of(&transports_total, "miss"));
	metric_add(metric_of(&transports), 1);
	return true;
}

bool
kube_connection_client(struct kube_connection *c, const struct kube_client_options *options,
                       struct kube_client **ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf agent = BUF_INIT(KIB(1));
	CLEANUP(client_freep) struct client *client = xcalloc(1, sizeof(*client));
	const struct kube_config *config = c->config;
	const char *account = options->service_account;
	bool is_plain = !str_starts(config->server, STR("https://"));
	struct http_config http;

	*client = (struct client){
		.auth = { .authorize = client_authorize,
		          .rejected = client_rejected,
		          .tls_failed = client_tls_failed },
		.connection = c,
		.kube = { .clock = c->clock, .host = c->host, .is_plain = is_plain },
	};
	/* Credentials are never sent over plain http, so a token would have no use. */
	if (account && is_plain) {
		log_warn("the API server is reached over plain http, so no token of the service "
		         "account is requested or sent",
		         LOG_CSTR("account", account), LOG_STR("server", config->server));
		account = NULL;
	}
	if (account && !set_account(c, client, account, err))
		return false;
	if (account)
		add_user_agent(&agent, "system:serviceaccount:kube-system:", account);
	else
		add_user_agent(&agent, "", options->agent);
	http = (struct http_config){
		.name = options->name,
		.base_url = config->server,
		.user_agent = buf_str(&agent),
		.proxy_url = config->proxy_url,
		.auth = &client->auth,
		.headers = account ? NULL : config->headers,
		.warned = warned,
		.resolved = resolved,
		.callback_arg = c,
		.clock = c->clock,
		.fence = options->fence,
		.qps = options->qps,
		.burst = options->burst,
	};
	if (!client_start(c, client, &http, err))
		return false;
	*ret = &TAKE(client)->kube; /* the connection owns it */
	return true;
}

struct kube_client
kube_connection_named(struct kube_connection *c, const struct kube_client *client,
                      const char *agent)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(1));
	struct kube_client named = *client;

	add_user_agent(&text, "", agent);
	metric_inc(metric_of(&transports_total, "hit"));
	named.user_agent = arena_strz(&c->config->arena, buf_str(&text));
	return named;
}
