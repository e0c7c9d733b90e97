/* kube/connection.c: see connection.h. */
#include "kube/connection.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/thread.h"
#include "kube/credentials.h"
#include "net/url.h"

#if defined(__x86_64__)
#define ARCH "amd64"
#elif defined(__aarch64__)
#define ARCH "arm64"
#elif defined(__arm__)
#define ARCH "arm"
#elif defined(__riscv)
#define ARCH "riscv64"
#else
#define ARCH "unknown"
#endif

struct client {
	struct client *next;
	struct kube_client kube;
};

struct kube_connection {
	struct clock *clock;
	struct kube_config *config;
	struct credentials *credentials;
	const char *host; /* "host:port", a label of metrics */
	pthread_mutex_t mu;
	struct client *clients; /* mu */
};

/* ---- the connection ------------------------------------------------------------------------------- */

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
	if (!kube_config_load(source, &c->config, /*problems=*/NULL, err))
		return false;
	c->host = host_of(c->config);
	return credentials_new(c->config, c->clock, &c->credentials, err);
}

bool
kube_connection_open(const struct kube_config_source *source, struct clock *clock,
                     struct kube_connection **ret, struct error *err)
{
	CLEANUP(kube_connection_closep) struct kube_connection *c = xcalloc(1, sizeof(*c));

	c->clock = clock;
	PTHREAD_OK(pthread_mutex_init(&c->mu, NULL));
	if (!load(c, source, err))
		return false;
	*ret = TAKE(c);
	return true;
}

static void
free_clients(struct kube_connection *c)
{
	while (c->clients) {
		struct client *next = c->clients->next;

		http_client_free(c->clients->kube.http);
		free(c->clients);
		c->clients = next;
	}
}

void
kube_connection_close(struct kube_connection *c)
{
	if (!c)
		return;
	free_clients(c);
	credentials_free(c->credentials);
	kube_config_free(c->config);
	PTHREAD_OK(pthread_mutex_destroy(&c->mu));
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
kube_connection_uses_plugin(const struct kube_connection *c UNUSED)
{
	return false;
}

/* ---- clients -------------------------------------------------------------------------------------- */

/* kube-client.md 1.10. The API server takes the name of a field manager from what stands before the first '/'; and for
 * an agent that starts with "curl" it would indent its JSON. */
static void
add_user_agent(struct buf *b, const char *agent)
{
	struct str version = STR(CCMD_VERSION), rest;

	(void)str_cut(version, '-', &version, &rest);
	buf_addf(b, "ccmd/%" STR_FMT " (linux/" ARCH ") kubernetes/unknown", STR_ARG(version));
	if (agent)
		buf_addf(b, "/%s", agent);
}

static struct http_config
http_config_of(const struct kube_connection *c, const struct kube_client_options *options)
{
	const struct kube_config *config = c->config;

	return (struct http_config){
		.name = options->name,
		.base_url = config->server,
		.proxy_url = config->proxy_url,
		.tls = {
			.ca_pem = config->ca_pem,
			.cert_pem = config->cert_pem,
			.key_pem = &config->key_pem,
			.server_name = config->tls_server_name,
			.is_insecure = config->is_insecure,
		},
		.auth = credentials_auth(c->credentials),
		.clock = c->clock,
		.fence = options->fence,
		.qps = options->qps,
		.burst = options->burst,
	};
}

static void
keep(struct kube_connection *c, struct client *client)
{
	WITH_LOCK(&c->mu);

	client->next = c->clients;
	c->clients = client;
}

bool
kube_connection_client(struct kube_connection *c, const struct kube_client_options *options,
                       struct kube_client **ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf agent = BUF_INIT(KIB(1));
	struct http_config config = http_config_of(c, options);
	struct client *client;
	struct http_client *http;

	add_user_agent(&agent, options->agent);
	config.user_agent = buf_str(&agent);
	if (!http_client_new(&config, &http, err))
		return false;
	client = xcalloc(1, sizeof(*client));
	client->kube = (struct kube_client){ .http = http, .clock = c->clock, .host = c->host };
	keep(c, client);
	*ret = &client->kube;
	return true;
}
