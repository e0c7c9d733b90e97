/* kube/connection.c: see connection.h. */
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
#include "kube/exec_plugin.h"
#include "kube/tls_files.h"
#include "kube/service_account.h"
#include "http/url.h"

#define FOLLOW_NS (60 * NS_PER_SEC)
#define URGENT_NS NS_PER_SEC /* after a 401 or a failure of TLS */
#define WARN_NS (300 * NS_PER_SEC)

enum {
	MAX_WARNINGS = 100, /* of the API server, that are remembered */
};

struct client {
	struct http_auth auth;
	struct client *next;
	struct kube_connection *connection;
	struct service_account *account; /* NULL: acts as the configuration says */
	char *name;                      /* of the account */
	struct kube_client kube;
};

struct kube_connection {
	struct clock *clock;
	char *kubeconfig;           /* "": none */
	char *master;               /* "": none */
	struct kube_config *config; /* the first: what it says of the server holds */
	struct credentials *credentials;
	struct exec_plugin *plugin; /* NULL: none */
	const char *host;           /* "host:port", a label of metrics */
	pthread_mutex_t mu;
	struct client *clients;      /* mu */
	struct tls_files tls_files;  /* mu */
	uint32_t generation;         /* mu: goes up with each other client certificate */
	uint64_t plugin_certificate; /* mu: the plugin's that was last looked at */
	uint64_t config_hash;        /* mu: of the kubeconfig that was last looked at */
	int64_t next_follow_ns;      /* mu; boot: when files are to be read again */
	int64_t next_urgent_ns;      /* mu; boot: … if something went wrong */
	int64_t next_warn_ns;        /* mu; boot */

	pthread_mutex_t tokens_mu;
	/* tokens_mu: asks for the tokens of service accounts; NULL: nobody needs it yet */
	struct kube_client *tokens;

	pthread_mutex_t warn_mu;
	uint64_t warnings[MAX_WARNINGS]; /* warn_mu: hashes of what the API server warned of */
	size_t n_warnings;               /* warn_mu */
};

/* ---- metrics ---- */

static const double lookup_buckets[] = { .005, .025, .1, .25, .5, 1, 2, 4, 8, 15, 30 };

METRIC_FAMILY(lookup_seconds, METRIC_HISTOGRAM, "rest_client_dns_resolution_duration_seconds",
              "[ALPHA] Time it took to look up the API server's name, or its proxy's, for a new "
              "connection; where an address is configured, nothing is looked up.",
              .labels = { "host" }, METRIC_BUCKETS(lookup_buckets));
METRIC_FAMILY(transports, METRIC_GAUGE, "rest_client_transport_cache_entries",
              "[ALPHA] HTTP clients there are, each with connections of its own.");
METRIC_FAMILY(
	transports_total, METRIC_COUNTER, "rest_client_transport_create_calls_total",
	"[ALPHA] Clients that were asked for: hit shares the connections of another, miss has "
	"its own.",
	.labels = { "result" });

static void
resolved(void *connection UNUSED, struct str name, int64_t took_ns)
{
	char host[LIMIT_NAME + 1] = "";
	struct buf text = BUF_FIXED(host);

	buf_add_str(&text, str_head(name, LIMIT_NAME));
	metric_observe(metric_of(&lookup_seconds, host), (double)took_ns / (double)NS_PER_SEC);
}

/* ---- what the API server warns of ---- */

static bool
is_new_warning(struct kube_connection *c, struct str text)
{
	uint64_t hash = str_hash(text);
	WITH_LOCK(&c->warn_mu);

	for (size_t i = 0; i < c->n_warnings; i++) {
		if (c->warnings[i] == hash)
			return false;
	}
	if (c->n_warnings == MAX_WARNINGS)
		return false;
	c->warnings[c->n_warnings++] = hash;
	return true;
}

/* A Warning header of the API server: 299 - "text". Each text is logged once. */
static void
warned(void *connection, struct str value)
{
	struct str text, agent;

	if (!str_cut(str_skip(value, strlen("299 ")), ' ', &agent, &text))
		return;
	if (text.len >= 2 && str_starts(text, STR("\"")) && str_ends(text, STR("\"")))
		text = str_n(text.ptr + 1, text.len - 2);
	if (is_new_warning(connection, text))
		log_info("the API server warns", LOG_STR("text", text));
}

/* ---- following files: all called with mu held ---- */

static void
warn(struct kube_connection *c, const char *what, const struct error *err)
{
	int64_t now_ns = clock_boot(c->clock);

	if (now_ns < c->next_warn_ns)
		return;
	c->next_warn_ns = now_ns + WARN_NS;
	log_warn(what, LOG_ERR(err));
}

/* Hands what has changed to the clients. Those of service accounts have no certificate of their
 * own. */
static void
apply(struct kube_connection *c, unsigned changes)
{
	bool is_ours = changes & TLS_FILES_CERT;
	struct error err;

	if (is_ours)
		c->generation++;
	for (struct client *client = c->clients; client; client = client->next) {
		struct tls_config tls = tls_files_config(&c->tls_files,
		                                         /*with_cert=*/!client->account);
		bool ends_streams = is_ours && !client->account;

		if (client->account && !(changes & TLS_FILES_CA))
			continue;
		if (!http_client_set_tls(client->kube.http, &tls, ends_streams, &err))
			warn(c, "certificates cannot be used, keeping the last ones", &err);
	}
	if (changes & TLS_FILES_CA && c->plugin)
		exec_plugin_set_ca(c->plugin, secret_expose(&c->tls_files.ca_pem));
	if (changes & TLS_FILES_CA)
		log_info("certificate authorities of the API server read again");
	if (is_ours)
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

/* What cannot be changed while we run; NULL: nothing of it differs. */
static const char *
fixed_difference(const struct kube_config *a, const struct kube_config *b)
{
	if (!str_eq(a->server, b->server))
		return "server";
	if (!str_eq(a->tls_server_name, b->tls_server_name))
		return "tls-server-name";
	if (!str_eq(a->proxy_url, b->proxy_url))
		return "proxy-url";
	if (a->is_insecure != b->is_insecure)
		return "insecure-skip-tls-verify";
	if (!is_same_list(a->headers, b->headers))
		return "as";
	if (!is_same_plugin(a->exec, b->exec))
		return "exec";
	return NULL;
}

/* Adopts all of it or nothing: credentials for another server do not fit this one, nor does a new
 * token fit old certificates. All steps that can fail come before the first change;
 * tls_files_update() changes nothing if it fails. */
static bool
adopt_config(struct kube_connection *c, const struct kube_config *config, unsigned *ret_changes,
             struct error *err)
{
	CLEANUP(credentials_freep) struct credentials *fresh = NULL;
	const char *key = fixed_difference(c->config, config);

	if (key)
		return err_set(err, ERR_UNSUPPORTED,
		               "%s: `%s` is another, which takes a restart of ccmd", c->kubeconfig,
		               key);
	if (!credentials_new(config, c->clock, &fresh, err) ||
	    !tls_files_update(&c->tls_files, config, ret_changes, err))
		return false;
	credentials_adopt(c->credentials, fresh);
	c->plugin_certificate = 0; /* what it gave last is to be put in again */
	return true;
}

static bool
read_config(struct kube_connection *c, unsigned *ret_changes, struct error *err)
{
	CLEANUP(kube_config_freep) struct kube_config *config = NULL;
	struct kube_config_source source = { .kubeconfig = c->kubeconfig, .master = c->master };

	return kube_config_load(&source, &config, /*problems=*/NULL, err) &&
	       adopt_config(c, config, ret_changes, err);
}

static bool
hash_config(const struct kube_connection *c, uint64_t *ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_SECRET(LIMIT_KUBECONFIG);

	if (!file_read(c->kubeconfig, &text, err))
		return false;
	*ret = str_hash(buf_str(&text));
	return true;
}

/* Parsed only when it is another one. One that cannot be used is looked at again each time. */
static unsigned
follow_config(struct kube_connection *c)
{
	unsigned changes = TLS_FILES_SAME;
	uint64_t hash = c->config_hash;
	struct error err;

	if (!c->kubeconfig[0])
		return TLS_FILES_SAME;
	if (hash_config(c, &hash, &err) &&
	    (hash == c->config_hash || read_config(c, &changes, &err))) {
		c->config_hash = hash;
		return changes;
	}
	warn(c, "the kubeconfig cannot be read again, keeping the last one", &err);
	return TLS_FILES_SAME;
}

static void
follow_files(struct kube_connection *c)
{
	unsigned changes = follow_config(c);
	struct error err;

	changes |= tls_files_follow(&c->tls_files, &err);
	if (err.code != ERR_NONE)
		warn(c, "certificates cannot be read again, keeping the last ones", &err);
	if (changes != TLS_FILES_SAME)
		apply(c, changes);
}

static void
follow(struct kube_connection *c, bool is_urgent)
{
	int64_t now_ns = clock_boot(c->clock);
	WITH_LOCK(&c->mu);

	if (now_ns < (is_urgent ? c->next_urgent_ns : c->next_follow_ns))
		return;
	c->next_follow_ns = now_ns + FOLLOW_NS;
	c->next_urgent_ns = now_ns + URGENT_NS;
	follow_files(c);
}

/* ---- who we are ---- */

/* The generation of what a client sends: the certificate's before the token's. */
static uint64_t
combine(struct kube_connection *c, uint64_t token_generation)
{
	WITH_LOCK(&c->mu);

	return (uint64_t)c->generation << 32 | (uint32_t)token_generation;
}

static void
adopt_certificate(struct kube_connection *c)
{
	CLEANUP(secret_fini) struct secret cert = SECRET_NONE, key = SECRET_NONE;
	struct error err;
	WITH_LOCK(&c->mu);

	if (!exec_plugin_certificate(c->plugin, &c->plugin_certificate, &cert, &key))
		return;
	if (tls_files_set_cert(&c->tls_files, &cert, &key, &err))
		apply(c, TLS_FILES_CERT);
	else
		warn(c, "the exec plugin's client certificate cannot be used, keeping the last one",
		     &err);
}

static bool
authorize_by_plugin(struct kube_connection *c, const struct call *call, struct buf *ret,
                    uint64_t *ret_generation, struct error *err)
{
	size_t before = ret->len, start;

	buf_add_c(ret, "Bearer ");
	start = ret->len;
	if (!exec_plugin_token(c->plugin, call, ret, ret_generation, err))
		return false;
	if (ret->len == start)
		buf_truncate(ret, before);
	adopt_certificate(c);
	return true;
}

static bool
authorize_by_config(struct kube_connection *c, const struct call *call, struct buf *ret,
                    uint64_t *ret_generation, struct error *err)
{
	struct http_auth *auth = credentials_auth(c->credentials);
	uint64_t generation = 0;

	if (c->plugin ? !authorize_by_plugin(c, call, ret, &generation, err)
	              : !auth->authorize(auth, call, ret, &generation, err))
		return false;
	*ret_generation = combine(c, generation);
	return true;
}

static bool
authorize(struct http_auth *auth, const struct call *call, struct buf *ret,
          uint64_t *ret_generation, struct error *err)
{
	struct client *client = CONTAINER_OF(auth, struct client, auth);

	follow(client->connection, /*is_urgent=*/false);
	if (!client->account)
		return authorize_by_config(client->connection, call, ret, ret_generation, err);
	buf_add_c(ret, "Bearer ");
	return service_account_token(client->account, call, ret, ret_generation, err);
}

static bool
rejected_by_config(struct kube_connection *c, uint64_t generation)
{
	struct http_auth *auth = credentials_auth(c->credentials);
	bool has_newer;

	follow(c, /*is_urgent=*/true);
	has_newer = combine(c, 0) >> 32 > generation >> 32;
	if (c->plugin)
		return exec_plugin_rejected(c->plugin, (uint32_t)generation) || has_newer;
	return auth->rejected(auth, (uint32_t)generation) || has_newer;
}

static bool
rejected(struct http_auth *auth, uint64_t generation)
{
	struct client *client = CONTAINER_OF(auth, struct client, auth);

	if (client->account)
		return service_account_rejected(client->account, generation);
	return rejected_by_config(client->connection, generation);
}

static void
tls_failed(struct http_auth *auth)
{
	follow(CONTAINER_OF(auth, struct client, auth)->connection, /*is_urgent=*/true);
}

/* ---- the connection ---- */

static bool
is_https(const struct kube_config *config)
{
	return str_starts(config->server, STR("https://"));
}

static const char *
host_of(struct kube_config *config)
{
	struct error err;
	struct url url;

	if (!url_parse(config->server, &url, &err))
		return "";
	return arena_printf(&config->arena, "%" STR_FMT ":%d", STR_ARG(url.host), url.port).ptr;
}

static bool
load(struct kube_connection *c, const struct kube_config_source *source, struct error *err)
{
	if (c->kubeconfig[0] && !hash_config(c, &c->config_hash, err))
		return false;
	if (!kube_config_load(source, &c->config, /*problems=*/NULL, err))
		return false;
	c->host = host_of(c->config);
	tls_files_init(&c->tls_files, c->config);
	c->next_follow_ns = clock_boot(c->clock) + FOLLOW_NS;
	if (kube_connection_uses_plugin(c))
		c->plugin = exec_plugin_new(c->config, c->clock);
	return credentials_new(c->config, c->clock, &c->credentials, err);
}

bool
kube_connection_open(const struct kube_config_source *source, struct clock *clock,
                     struct kube_connection **ret, struct error *err)
{
	CLEANUP(kube_connection_closep) struct kube_connection *c = xcalloc(1, sizeof(*c));

	c->clock = clock;
	c->kubeconfig = xstrdup(source->kubeconfig ? source->kubeconfig : "");
	c->master = xstrdup(source->master ? source->master : "");
	mutex_init(&c->mu);
	mutex_init(&c->tokens_mu);
	mutex_init(&c->warn_mu);
	if (!load(c, source, err))
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

/* The newest first: they may need the older one that asks for their tokens. */
static void
free_clients(struct kube_connection *c)
{
	while (c->clients) {
		struct client *next = c->clients->next;

		metric_add(metric_of(&transports), -1);
		client_free(c->clients);
		c->clients = next;
	}
}

void
kube_connection_close(struct kube_connection *c)
{
	if (!c)
		return;
	free_clients(c);
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
kube_connection_files(const struct kube_connection *c, struct str ret[KUBE_CONNECTION_FILES])
{
	const struct kube_config *config = c->config;
	const struct str files[] = { config->token_file, config->ca_file, config->cert_file,
		                     config->key_file };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		if (files[i].len > 0)
			ret[n++] = files[i];
	}
	return n;
}

struct str
kube_connection_server(const struct kube_connection *c)
{
	return c->config->server;
}

struct str
kube_connection_namespace(const struct kube_connection *c)
{
	return c->config->namespace;
}

bool
kube_connection_uses_plugin(const struct kube_connection *c)
{
	return c->config->exec && is_https(c->config);
}

/* ---- clients ---- */

/* As docs/spec/framework.md, "User agents" has it. The API server takes the name of a field manager
 * from what stands before the first '/'; and for an agent that starts with "curl" it would indent
 * its JSON. */
static void
add_user_agent(struct buf *b, const char *prefix, const char *agent)
{
	buf_addf(b, "ccmd/%" STR_FMT " (%" STR_FMT ") kubernetes/%" STR_FMT,
	         STR_ARG(version_numbers()), STR_ARG(version_platform()),
	         STR_ARG(version_commit()));
	if (agent)
		buf_addf(b, "/%s%s", prefix, agent);
}

static void
add_agent_of(struct buf *b, const struct client *client, const struct kube_client_options *options)
{
	if (client->account)
		add_user_agent(b, "system:serviceaccount:kube-system:", options->service_account);
	else
		add_user_agent(b, "", options->agent);
}

static struct http_config
http_config_of(struct kube_connection *c, struct client *client,
               const struct kube_client_options *options)
{
	const struct kube_config *config = c->config;

	return (struct http_config){
		.name = options->name,
		.base_url = config->server,
		.proxy_url = config->proxy_url,
		.auth = &client->auth,
		.headers = client->account ? NULL : config->headers,
		.warned = warned,
		.resolved = resolved,
		.callback_arg = c,
		.clock = c->clock,
		.fence = options->fence,
		.qps = options->qps,
		.burst = options->burst,
	};
}

/* Under the lock, so that no change of certificates comes between their use and its place in the
 * list. */
static bool
start(struct kube_connection *c, struct client *client, struct http_config *config,
      struct error *err)
{
	WITH_LOCK(&c->mu);

	config->tls = tls_files_config(&c->tls_files, /*with_cert=*/!client->account);
	config->tls.server_name = c->config->tls_server_name;
	if (!http_client_new(config, &client->kube.http, err))
		return false;
	client->next = c->clients;
	c->clients = client;
	metric_inc(metric_of(&transports_total, "miss"));
	metric_add(metric_of(&transports), 1);
	return true;
}

static struct client *
client_new(struct kube_connection *c)
{
	struct client *client = xcalloc(1, sizeof(*client));

	client->auth = (struct http_auth){ .authorize = authorize,
		                           .rejected = rejected,
		                           .tls_failed = tls_failed };
	client->connection = c;
	client->kube = (struct kube_client){ .clock = c->clock,
		                             .host = c->host,
		                             .is_plain = !is_https(c->config) };
	return client;
}

/* Over plain http no credential is sent, so no token of a service account either. */
static bool
has_account(const struct kube_connection *c, const struct kube_client_options *options)
{
	if (!options->service_account || is_https(c->config))
		return options->service_account != NULL;
	log_warn("the API server is reached over plain http, so no token of the service account is "
	         "asked for or sent",
	         LOG_CSTR("account", options->service_account),
	         LOG_STR("server", c->config->server));
	return false;
}

/* The client that asks for tokens is made with the first that needs one; it changes nothing that a
 * fence would guard. */
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

static bool
fill_client(struct kube_connection *c, struct client *client,
            const struct kube_client_options *options, struct error *err)
{
	CLEANUP(buf_fini) struct buf agent = BUF_INIT(KIB(1));
	struct http_config config;

	if (has_account(c, options) && !set_account(c, client, options->service_account, err))
		return false;
	add_agent_of(&agent, client, options);
	config = http_config_of(c, client, options);
	config.user_agent = buf_str(&agent);
	return start(c, client, &config, err);
}

bool
kube_connection_client(struct kube_connection *c, const struct kube_client_options *options,
                       struct kube_client **ret, struct error *err)
{
	struct client *client = client_new(c);

	if (!fill_client(c, client, options, err)) {
		client_free(client);
		return false;
	}
	*ret = &client->kube;
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
