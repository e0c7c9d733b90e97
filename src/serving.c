/* serving.c: see serving.h. */
#include "serving.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/log.h"
#include "cloud/cloud.h"
#include "flags/configz.h"
#include "serve/endpoints.h"
#include "serve/server.h"

struct serving {
	struct serving_config config;
	struct access *access;
	struct endpoints_config endpoints, metrics_only;
	struct server *secure, *plain, *of_cloud;
};

/* ---- whom to ask about callers ---- */

/* A connection as this kubeconfig says, or as a pod of the cluster. Where there is neither, only
 * what needs no question is answered (docs/spec/framework.md, "Clients for reviews"). */
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

/* Is one connection used for both? */
static bool
is_one_connection(const struct options *o)
{
	return strcmp(o->authentication.kubeconfig, o->authorization.kubeconfig) == 0;
}

void
review_connections_load(struct review_connections *ret, const struct options *o,
                        struct kube_connection *main_connection)
{
	*ret = (struct review_connections){ 0 };
	if (o->serving.port == 0)
		return; /* nobody is served who would have to be asked about */
	load_review_connection(&ret->authentication, o->authentication.kubeconfig, o,
	                       main_connection);
	if (!is_one_connection(o))
		load_review_connection(&ret->authorization, o->authorization.kubeconfig, o,
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

/* *ret is NULL where nobody can be asked. */
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
	return !r->connection || kube_connection_client(r->connection, &options, ret, err);
}

static bool
open_review_clients(struct serving *s, struct access_config *config, struct error *err)
{
	const struct review_connections *reviews = s->config.reviews;

	if (!open_review_client(&reviews->authentication, "--authentication-kubeconfig", "authn",
	                        &config->authentication, err))
		return false;
	config->authorization = config->authentication;
	if (is_one_connection(s->config.options))
		return true;
	return open_review_client(&reviews->authorization, "--authorization-kubeconfig", "authz",
	                          &config->authorization, err);
}

static bool
open_access(struct serving *s, struct error *err)
{
	const struct options *o = s->config.options;
	const struct authentication_options *authn = &o->authentication;
	struct access_config config = {
		.clock = &clock_real,
		.cancel = s->config.cancel,
		.skip_lookup = authn->skip_lookup,
		.tolerate_lookup_failure = authn->tolerate_lookup_failure,
		.token_ttl_ns = authn->token_ttl_ns,
		.authorized_ttl_ns = o->authorization.authorized_ttl_ns,
		.unauthorized_ttl_ns = o->authorization.unauthorized_ttl_ns,
		.client_ca_file = str_c(authn->client_ca_file),
		.allow_paths = o->authorization.allow_paths.items,
		.n_allow_paths = o->authorization.allow_paths.n,
	};

	if (!open_review_clients(s, &config, err))
		return false;
	return access_new(&config, &s->access, err);
}

/* ---- the listeners ---- */

static bool
open_secure(struct serving *s, struct error *err)
{
	const struct serving_options *o = &s->config.options->serving;
	const char *names[] = { "localhost", "127.0.0.1", "::1", o->address, NULL };
	struct server_config config = {
		.address = str_c(o->address),
		.port = o->port,
		.share_port = o->share_port,
		.tls = {
			.main = { .cert_file = str_c(o->cert_file), .key_file = str_c(o->key_file), .names = STR_EMPTY },
			.sni = o->sni,
			.n_sni = o->n_sni,
			.self_signed_names = names,
			.cert_folder = str_c(o->cert_folder),
			.pair_name = "cloud-controller-manager",
			.ciphers = o->ciphers,
			.ciphersuites = o->ciphersuites,
			.groups = o->groups,
			.min_version = o->min_version,
		},
		.loop = loop_base(s->config.loop),
		.clock = &clock_real,
		.handle = endpoints_handle,
		.arg = &s->endpoints,
	};

	if (!open_access(s, err))
		return false;
	s->endpoints.access = s->access;
	if (!server_new(&config, &s->secure, err))
		return err_wrap(err, "--secure-port");
	log_info("serving", LOG_CSTR("address", o->address),
	         LOG_I64("port", server_port(s->secure)));
	return true;
}

static bool
open_plain(struct serving *s, struct error *err)
{
	const struct serving_options *o = &s->config.options->serving;
	struct server_config config = {
		.address = o->metrics_address,
		.port = o->metrics_port,
		.tls.is_plain = true,
		.loop = loop_base(s->config.loop),
		.clock = &clock_real,
		.handle = endpoints_handle,
		.arg = &s->metrics_only,
	};

	if (!server_new(&config, &s->plain, err))
		return err_wrap(err, "--metrics-bind-address");
	log_info("serving metrics, to everybody", LOG_STR("address", o->metrics_address),
	         LOG_I64("port", server_port(s->plain)));
	return true;
}

static bool
open_at(struct serving *s, struct str address, int port, struct error *err)
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

	return server_new(&config, &s->of_cloud, err);
}

/* Where the users of this cloud's own controller look for metrics. Another one may be there, while
 * users move from that to us or back: no reason to stay away. All addresses are those of IPv6, too,
 * where there is IPv6. */
static void
open_of_cloud(struct serving *s)
{
	const struct cloud_listener *wanted = &s->config.cloud->metrics;
	struct error err;

	if (!wanted->is_wanted)
		return;
	if (open_at(s, wanted->host.len > 0 ? wanted->host : STR("::"), wanted->port, &err) ||
	    (wanted->host.len == 0 && open_at(s, STR("0.0.0.0"), wanted->port, &err)))
		log_info("serving the cloud's metrics, to everybody",
		         LOG_I64("port", server_port(s->of_cloud)));
	else
		log_warn("the cloud's metrics are not served", LOG_ERR(&err));
}

/* ---- life ---- */

bool
serving_start(const struct serving_config *config, struct serving **ret, struct error *err)
{
	const struct serving_options *o = &config->options->serving;
	struct serving *s = xcalloc(1, sizeof(*s));

	s->config = *config;
	s->endpoints = (struct endpoints_config){ .health = config->health,
		                                  .configz = configz_add,
		                                  .arg = (void *)(uintptr_t)config->options,
		                                  .is_profiling = config->options->profiling };
	s->metrics_only = s->endpoints;
	if ((o->port != 0 && !open_secure(s, err)) ||
	    (o->metrics_port != 0 && !open_plain(s, err))) {
		serving_stop(s);
		return false;
	}
	open_of_cloud(s);
	*ret = s;
	return true;
}

void
serving_reload(struct serving *s)
{
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
	server_free(s->plain);
	server_free(s->of_cloud);
	free(s);
}
