/* serving.c: opens the HTTPS server and the plain listeners, and the clients that ask the API
 * server about callers; see serving.h.
 *
 * The flags were parsed into struct server_config and struct access_config; this file adds only
 * what does not come from flags: the loop, the clock, the clients and the handler.
 */
#include "serving.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/log.h"
#include "cloud/cloud.h"
#include "controllers/manager.h"
#include "flags/flags.h"
#include "serve/endpoints.h"
#include "serve/server.h"

struct serving {
	struct serving_config config;
	struct access *access;
	struct endpoints_config endpoints, metrics_only;
	struct server *secure, *metrics, *of_cloud;
};

/* ---- the API servers that decide about callers ---- */

/* Opens a connection by this kubeconfig or, without one, as a pod of the cluster. If there is
 * neither, no caller can be authenticated, and only paths that are open to everyone are served
 * (docs/spec/framework.md, "Clients for reviews"). */
static void
load_review_connection(struct review_connection *r, const char *kubeconfig, const struct options *o,
                       struct kube_connection *main_connection)
{
	struct kube_config_source source = { .kubeconfig = kubeconfig };

	*r = (struct review_connection){ 0 };
	if (kubeconfig[0] && strcmp(kubeconfig, o->kubeconfig) == 0)
		r->connection = main_connection;
	else if (kube_connection_open(&source, &clock_real, &r->connection, &r->err))
		r->is_own = true;
	else
		r->has_failed = kubeconfig[0] || r->err.code != ERR_NOT_FOUND;
}

/* Is the same connection used for authentication and authorization? */
static bool
is_one_connection(const struct options *o)
{
	return strcmp(o->access.authentication_kubeconfig, o->access.authorization_kubeconfig) == 0;
}

void
review_connections_load(struct review_connections *ret, const struct options *o,
                        struct kube_connection *main_connection)
{
	*ret = (struct review_connections){ 0 };
	if (o->serving.secure.port == 0)
		return; /* without a server no caller is checked */
	load_review_connection(&ret->authentication, o->access.authentication_kubeconfig, o,
	                       main_connection);
	if (!is_one_connection(o))
		load_review_connection(&ret->authorization, o->access.authorization_kubeconfig, o,
		                       main_connection);
}

void
review_connections_fini(struct review_connections *reviews)
{
	if (reviews->authentication.is_own)
		kube_connection_close(reviews->authentication.connection);
	if (reviews->authorization.is_own)
		kube_connection_close(reviews->authorization.connection);
}

/* *ret is NULL where there is no API server to ask. */
static bool
open_review_client(const struct review_connection *r, const char *flag, const char *name,
                   struct kube_client **ret, struct error *err)
{
	struct kube_client_options options = { .name = name, .agent = "delegated-auth" };

	*ret = NULL;
	if (r->has_failed) {
		*err = r->err;
		return err_wrap(err, "%s", flag);
	}
	if (!r->connection)
		return true;
	return kube_connection_client(r->connection, &options, ret, err);
}

static bool
open_access(struct serving *s, struct error *err)
{
	const struct review_connections *reviews = s->config.reviews;
	struct access_config access = s->config.options->access.config;

	if (!open_review_client(&reviews->authentication, "--authentication-kubeconfig", "authn",
	                        &access.authentication, err))
		return false;
	access.authorization = access.authentication;
	if (!is_one_connection(s->config.options) &&
	    !open_review_client(&reviews->authorization, "--authorization-kubeconfig", "authz",
	                        &access.authorization, err))
		return false;
	access.clock = &clock_real;
	access.cancel = s->config.cancel;
	return access_new(&access, &s->access, err);
}

/* ---- the listeners ---- */

static bool
open_secure(struct serving *s, struct error *err)
{
	struct server_config config = s->config.options->serving.secure;
	const char *names[] = { "localhost", "127.0.0.1", "::1", config.address.ptr, NULL };

	if (!open_access(s, err))
		return false;
	s->endpoints.access = s->access;
	config.tls.self_signed_names = names;
	config.tls.pair_name = "cloud-controller-manager";
	config.loop = loop_base(s->config.loop);
	config.clock = &clock_real;
	config.handle = endpoints_handle;
	config.arg = &s->endpoints;
	if (!server_new(&config, &s->secure, err))
		return err_wrap(err, "--secure-port");
	log_info("serving", LOG_STR("address", config.address),
	         LOG_I64("port", server_port(s->secure)));
	return true;
}

/* A listener without TLS, which serves nothing but metrics. */
static bool
open_plain(struct serving *s, struct str address, int port, struct server **ret, struct error *err)
{
	struct server_config config = {
		.address = address,
		.port = port,
		.tls.is_plain = true,
		.loop = loop_base(s->config.loop),
		.clock = &clock_real,
		.handle = endpoints_handle,
		.arg = &s->metrics_only,
	};

	return server_new(&config, ret, err);
}

/* Some clouds want metrics on a port of their own, where the users of the cloud's official
 * controller look for them. While users migrate, that controller may still have the port: a failure
 * is only a warning. Without a host, the listener is for all addresses, of IPv6 as well where the
 * machine has it. */
static void
open_metrics_of_cloud(struct serving *s)
{
	const struct cloud_listener *wanted = &s->config.cloud->metrics;
	bool has_host = wanted->host.len > 0, is_open;
	struct error err;

	if (!wanted->is_wanted)
		return;
	is_open = open_plain(s, has_host ? wanted->host : STR("::"), wanted->port, &s->of_cloud,
	                     &err);
	if (!is_open && !has_host)
		is_open = open_plain(s, STR("0.0.0.0"), wanted->port, &s->of_cloud, &err);
	if (is_open)
		log_info("serving the cloud's metrics, open to everyone",
		         LOG_I64("port", server_port(s->of_cloud)));
	else
		log_warn("cannot serve the cloud's metrics", LOG_ERR(&err));
}

/* ---- life cycle ---- */

bool
serving_start(const struct serving_config *config, struct serving **ret, struct error *err)
{
	CLEANUP(serving_stopp) struct serving *s = xcalloc(1, sizeof(*s));
	const struct serving_options *o = &config->options->serving;

	s->config = *config;
	s->endpoints = (struct endpoints_config){ .health = config->health,
		                                  .configz = configz_add,
		                                  .arg = (void *)(uintptr_t)config->options,
		                                  .describe = manager_describe,
		                                  .describe_arg = config->manager,
		                                  .is_profiling = config->options->profiling };
	s->metrics_only = s->endpoints;
	if (o->secure.port != 0 && !open_secure(s, err))
		return false;
	if (o->metrics.port != 0) {
		if (!open_plain(s, o->metrics.address, o->metrics.port, &s->metrics, err))
			return err_wrap(err, "--metrics-bind-address");
		log_info("serving metrics, open to everyone",
		         LOG_STR("address", o->metrics.address),
		         LOG_I64("port", server_port(s->metrics)));
	}
	open_metrics_of_cloud(s);
	*ret = TAKE(s);
	return true;
}

void
serving_reload(void *serving)
{
	struct serving *s = serving;

	if (s && s->secure)
		server_reload(s->secure);
}

/* Access ends first: pending requests are refused while the server can still send the answer. */
void
serving_stop(struct serving *s)
{
	if (!s)
		return;
	access_free(s->access);
	server_free(s->secure);
	server_free(s->metrics);
	server_free(s->of_cloud);
	free(s);
}
