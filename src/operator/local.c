/* operator/local.c: see local.h. */
#include "operator/local.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "http/url.h"
#include "kube/credentials.h"

#define REQUEST_MS 5000

enum {
	NUMBER_MAX = 40, /* bytes of a sample's value */
};

/* ---- requests ---- */

/* Where a listener of this machine is reached. */
static struct str
url_of(struct view *v, const char *scheme, struct str address, int port)
{
	struct ip ip;
	bool is_any = address.len == 0 || (ip_parse(address, &ip) && ip_is_unspecified(&ip));
	struct str host = is_any ? STR("127.0.0.1") : address;

	return arena_printf(&v->arena, "%s://" URL_HOST_FMT ":%d", scheme, URL_HOST_ARG(host),
	                    port);
}

static struct str
secure_url(struct view *v)
{
	const struct server_config *server = &v->options->serving.secure;

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

/* ret_status: NULL: any status but 200 is an error. */
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
	    !http_do(http, &v->call, &request, &response, err))
		return false;
	if (ret_status)
		*ret_status = response.status;
	else if (response.status != 200)
		return http_status_error(err, &(struct http_request){ .target = str_c(target) },
		                         response.status, 0, STR_EMPTY);
	*ret = arena_str(&v->arena, buf_str(&response.body));
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

/* ---- with credentials ---- */

/* Reads the certificate that the server must present. */
static bool
read_certificate(struct view *v, struct buf *ret, struct error *err)
{
	static const char end[] = "-----END CERTIFICATE-----";
	const struct server_tls *tls = &v->options->serving.secure.tls;
	const char *path, *last;

	if (tls->main.cert_file.len > 0)
		path = arena_strz(&v->arena, tls->main.cert_file);
	else if (tls->cert_folder.len > 0)
		path = arena_printf(&v->arena, "%" STR_FMT "/cloud-controller-manager.crt",
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
	const struct options *o = v->options;
	struct kube_config_source source = { .kubeconfig = o->kubeconfig,
		                             .is_list = o->kubeconfig_is_list,
		                             .master = o->master };

	if (!kube_config_load(&source, &kube, /*problems=*/NULL, err) ||
	    !credentials_new(kube, &clock_real, &credentials, err))
		return false;
	config->auth = credentials_auth(credentials);
	config->tls.cert_pem = kube->cert_pem;
	config->tls.key_pem = &kube->key_pem;
	return fetch(v, config, target, /*ret_status=*/NULL, ret, err);
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
local_find_plain_listener(struct view *v, struct str *ret_url)
{
	const struct server_config *own = &v->options->serving.metrics;
	struct error ignored;

	if (own->port != 0) {
		*ret_url = url_of(v, "http", own->address, own->port);
		return true;
	}
	if (!view_need(v, VIEW_LOADED, &ignored) || !v->cloud->metrics.is_wanted)
		return false;
	*ret_url = url_of(v, "http", v->cloud->metrics.host, v->cloud->metrics.port);
	return true;
}

bool
local_get_metrics(struct view *v, struct str *ret, struct error *err)
{
	struct str url;

	if (local_find_plain_listener(v, &url)) {
		struct http_config config = local_config(url);

		return fetch(v, &config, "/metrics", /*ret_status=*/NULL, ret, err);
	}
	if (v->options->serving.secure.port == 0)
		return err_set(err, ERR_UNSUPPORTED,
		               "--secure-port=0, and there is no --metrics-bind-address");
	if (!local_get(v, "/metrics", ret, err))
		return err_wrap(
			err,
			"without --metrics-bind-address (monitoring.enabled of the chart), "
			"metrics need credentials that may get /metrics (operatorRole of the chart)");
	return true;
}

/* ---- samples ---- */

/* "name 1", "name{a=\"b\"} 1". A value of a label may contain a blank or a brace. */
static bool
parse_sample(struct str line, struct sample *ret)
{
	ptrdiff_t brace = str_index(line, '{'), blank = str_index(line, ' ');
	ptrdiff_t end = (ptrdiff_t)line.len - 1;
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct error ignored;
	struct str number;

	if (blank <= 0 || line.ptr[0] == '#')
		return false;
	while (line.ptr[end] != ' ')
		end--;
	/* finite numbers are those of JSON; "+Inf" and "NaN" are not wanted */
	number = str_skip(line, (size_t)end + 1);
	if (number.len > NUMBER_MAX || !json_parse(number, &doc, &ignored) ||
	    !yyjson_is_num(yyjson_doc_get_root(doc)))
		return false;
	*ret = (struct sample){ .name = str_head(line, (size_t)blank),
		                .labels = STR_EMPTY,
		                .value = yyjson_get_num(yyjson_doc_get_root(doc)) };
	if (brace < 0 || brace > blank)
		return blank == end;
	ret->name = str_head(line, (size_t)brace);
	if (line.ptr[end - 1] != '}')
		return false;
	ret->labels = str_n(line.ptr + brace + 1, (size_t)(end - brace) - 2);
	return true;
}

bool
samples_next(struct str *rest, const char *name, struct sample *ret)
{
	for (struct str line; str_split(rest, '\n', &line);) {
		if (parse_sample(line, ret) && (!name || str_eq_c(ret->name, name)))
			return true;
	}
	return false;
}

struct str
sample_label(const struct sample *sample, const char *label)
{
	struct str rest = sample->labels, name, value;

	while (str_cut(rest, '=', &name, &rest) && str_starts(rest, STR("\""))) {
		if (!str_cut(str_skip(rest, 1), '"', &value, &rest))
			break;
		if (str_eq_c(name, label))
			return value;
		if (!str_starts(rest, STR(",")))
			break;
		rest = str_skip(rest, 1);
	}
	return STR_EMPTY;
}

bool
samples_find(struct str text, const char *name, const char *label, struct str value, double *ret)
{
	struct sample sample;

	while (samples_next(&text, name, &sample)) {
		if (!label || str_eq(sample_label(&sample, label), value)) {
			*ret = sample.value;
			return true;
		}
	}
	return false;
}

double
samples_sum(struct str text, const char *name, const char *label, const char *begin)
{
	struct sample sample;
	double sum = 0;

	while (samples_next(&text, name, &sample)) {
		if (!label || str_starts(sample_label(&sample, label), str_c(begin)))
			sum += sample.value;
	}
	return sum;
}
