/* operator/local.c: see local.h. */
#include "operator/local.h"

#include <string.h>

#include "base/file.h"
#include "base/limits.h"
#include "http/url.h"
#include "kube/credentials.h"

#define REQUEST_MS 5000

/* ---- requests ---- */

/* Where a listener of this machine is reached. */
static struct str
url_of(struct view *v, const char *scheme, struct str address, int port)
{
	struct ip ip;
	bool is_any = address.len == 0 || (ip_parse(address, &ip) && ip_is_unspecified(&ip));
	struct str host = is_any ? STR("127.0.0.1") : address;

	return arena_printf(view_call(v)->arena, "%s://" URL_HOST_FMT ":%d", scheme,
	                    URL_HOST_ARG(host), port);
}

static struct str
secure_url(struct view *v)
{
	const struct server_config *server = &view_options(v)->serving.secure;

	return url_of(v, "https", server->address, server->port);
}

static struct http_config
local_config(struct str url)
{
	return (struct http_config){
		.name = "local",
		.base_url = url,
		.user_agent = STR("ccmd/operator"),
		.proxy_url = STR("-"),
		.clock = &clock_real,
	};
}

static bool
fetch(struct view *v, const struct http_config *config, const char *target, int *ret_status,
      struct str *ret, struct error *err)
{
	CLEANUP(http_response_fini) struct http_response response = HTTP_RESPONSE_INIT;
	CLEANUP(http_client_freep) struct http_client *http = NULL;
	struct http_request request = {
		.method = HTTP_GET,
		.target = str_c(target),
		.accept = "*/*",
		.timeout_ms = REQUEST_MS,
		.max_body = LIMIT_METRICS_TEXT,
	};

	if (!http_client_new(config, &http, err) ||
	    !http_do(http, view_call(v), &request, &response, err))
		return false;
	*ret_status = response.status;
	*ret = arena_str(view_call(v)->arena, buf_str(&response.body));
	return true;
}

static bool
fetch_ok(struct view *v, const struct http_config *config, const char *target, struct str *ret,
         struct error *err)
{
	struct str text;
	int status;

	if (!fetch(v, config, target, &status, &text, err))
		return false;
	if (status != 200)
		return http_status_error(err, &(struct http_request){ .target = str_c(target) },
		                         status, 0, STR_EMPTY);
	*ret = text;
	return true;
}

bool
local_get_open(struct view *v, const char *target, int *ret_status, struct str *ret,
               struct error *err)
{
	struct http_config config = local_config(secure_url(v));

	config.tls.is_insecure = true;
	return fetch(v, &config, target, ret_status, ret, err);
}

/* ---- the listener without TLS ---- */

bool
local_find_plain_listener(struct view *v, struct str *ret_url)
{
	const struct server_config *own = &view_options(v)->serving.metrics;
	const struct cloud_listener *of_cloud;
	struct error ignored;

	if (own->port != 0) {
		*ret_url = url_of(v, "http", own->address, own->port);
		return true;
	}
	if (!view_cloud_listener(v, &of_cloud, &ignored) || !of_cloud->is_wanted)
		return false;
	*ret_url = url_of(v, "http", of_cloud->host, of_cloud->port);
	return true;
}

bool
local_get_plain(struct view *v, struct str url, const char *target, struct str *ret,
                struct error *err)
{
	struct http_config config = local_config(url);

	return fetch_ok(v, &config, target, ret, err);
}

/* ---- with credentials ---- */

/* The certificate that the server must present. */
static bool
read_certificate(struct view *v, struct buf *ret, struct error *err)
{
	const struct server_tls *tls = &view_options(v)->serving.secure.tls;
	struct arena *arena = view_call(v)->arena;
	static const char end[] = "-----END CERTIFICATE-----";
	const char *path, *last;

	if (tls->main.cert_file.len > 0)
		path = arena_strz(arena, tls->main.cert_file);
	else if (tls->cert_folder.len > 0)
		path = arena_printf(arena, "%" STR_FMT "/cloud-controller-manager.crt",
		                    STR_ARG(tls->cert_folder))
		               .ptr;
	else
		return err_set(
			err, ERR_UNSUPPORTED,
			"the certificate of the server is only in its memory, so no credential is sent to it; with --cert-dir=FOLDER it is in a file");
	if (!file_read(path, ret, err))
		return false;
	/* Without the authorities that may follow, only this certificate is accepted. */
	last = strstr(ret->ptr, end);
	buf_truncate(ret, last ? (size_t)(last - ret->ptr) + strlen(end) : 0);
	buf_add_char(ret, '\n');
	return true;
}

/* Adds the credentials of the kubeconfig to a config whose TLS settings say how the server is
 * verified, and sends the request. */
static bool
fetch_with_credentials(struct view *v, struct http_config *config, const char *target,
                       struct str *ret, struct error *err)
{
	CLEANUP(credentials_freep) struct credentials *credentials = NULL;
	CLEANUP(kube_config_freep) struct kube_config *kube = NULL;
	const struct options *o = view_options(v);
	struct kube_config_source source = { .kubeconfig = o->kubeconfig,
		                             .is_list = o->kubeconfig_is_list,
		                             .master = o->master };

	if (!kube_config_load(&source, &kube, /*problems=*/NULL, err) ||
	    !credentials_new(kube, &clock_real, &credentials, err))
		return false;
	config->auth = credentials_auth(credentials);
	config->tls.cert_pem = kube->cert_pem;
	config->tls.key_pem = &kube->key_pem;
	return fetch_ok(v, config, target, ret, err);
}

bool
local_get(struct view *v, const char *target, struct str *ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf cert = BUF_INIT(LIMIT_CREDENTIAL);
	CLEANUP(buf_fini) struct buf name = BUF_INIT(LIMIT_NAME);
	struct http_config config = local_config(secure_url(v));

	if (!read_certificate(v, &cert, err))
		return false;
	if (!http_certificate_name(buf_str(&cert), &name))
		return err_set(err, ERR_INVALID, "the certificate of the server has no name");
	config.tls.ca_pem = buf_str(&cert);
	config.tls.server_name = buf_str(&name);
	return fetch_with_credentials(v, &config, target, ret, err);
}

bool
local_get_at(struct view *v, const char *url, const char *ca_file, const char *target,
             struct str *ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf ca = BUF_INIT(LIMIT_CREDENTIAL);
	struct http_config config = local_config(str_c(url));

	if (!str_starts(config.base_url, STR("https://")))
		return err_set(err, ERR_INVALID, "--url does not begin with https://");
	if (ca_file && !file_read(ca_file, &ca, err))
		return err_wrap(err, "--ca");
	config.tls.ca_pem = buf_str(&ca);
	config.tls.trusts_nothing = ca_file && ca.len == 0;
	return fetch_with_credentials(v, &config, target, ret, err);
}

/* ---- metrics ---- */

bool
local_get_metrics(struct view *v, struct str *ret, struct error *err)
{
	struct str url;

	if (local_find_plain_listener(v, &url))
		return local_get_plain(v, url, "/metrics", ret, err);
	if (view_options(v)->serving.secure.port == 0)
		return err_set(err, ERR_UNSUPPORTED,
		               "--secure-port=0, and there is no --metrics-bind-address");
	return local_get(v, "/metrics", ret, err) ||
	       err_wrap(
		       err,
		       "without --metrics-bind-address (monitoring.enabled of the chart), "
		       "metrics need credentials that may get /metrics (operatorRole of the chart)");
}
