/* kube/tls_files.c: reads certificates and keys again, and uses new content that is valid.
 *
 * New content is first tried in a TLS context that is thrown away (http_tls_check()). So a file
 * that is being written, or a certificate whose key has not been written yet, changes nothing, and
 * the next reading finds the complete content. kube/connection.c decides when the files are read.
 *
 * The authorities, and the certificate with its key, are followed independently: a problem with one
 * of the two does not delay the other.
 */
#include "kube/credentials.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/metrics.h"

METRIC_FAMILY(reloads_total, METRIC_COUNTER, "rest_client_transport_ca_reload_total",
              "[ALPHA] Checks of the file of certificate authorities, by result and reason.",
              .labels = { "result", "reason" });

struct tls_config
tls_files_config(const struct tls_files *m, bool with_cert)
{
	return (struct tls_config){
		.ca_pem = secret_expose(&m->ca_pem),
		.trusts_nothing = m->trusts_nothing,
		.cert_pem = with_cert ? secret_expose(&m->cert_pem) : STR_EMPTY,
		.key_pem = with_cert ? &m->key_pem : NULL,
		.is_insecure = m->is_insecure,
	};
}

/* ---- the authorities ---- */

/* Reads the file of the authorities again. Returns the reason for the metric: "unchanged",
 * "updated", or that of a failure, with *err. */
static const char *
read_ca(struct tls_files *m, struct error *err)
{
	CLEANUP(buf_fini) struct buf pem = BUF_INIT(LIMIT_CREDENTIAL);
	struct tls_config tls = { 0 };

	if (!file_read(m->ca_file, &pem, err))
		return "read_error";
	if (str_eq(secret_expose(&m->ca_pem), buf_str(&pem)))
		return "unchanged";
	if (pem.len == 0) {
		err_set(err, ERR_INVALID, "%s: the file is empty", m->ca_file);
		return "empty";
	}
	tls.ca_pem = buf_str(&pem);
	if (!http_tls_check(&tls, err)) {
		err_wrap(err, "%s", m->ca_file);
		return "ca_parse_error";
	}
	secret_assign(&m->ca_pem, buf_str(&pem));
	m->trusts_nothing = false;
	return "updated";
}

/* ---- the client certificate ---- */

bool
tls_files_set_cert(struct tls_files *m, const struct secret *cert, const struct secret *key,
                   struct error *err)
{
	/* Certificate and key must belong together. The check needs no authority, because it is not
	 * about the server. */
	const struct tls_config tls = { .trusts_nothing = true,
		                        .cert_pem = secret_expose(cert),
		                        .key_pem = key };

	if (!http_tls_check(&tls, err))
		return false;
	secret_assign(&m->cert_pem, secret_expose(cert));
	secret_assign(&m->key_pem, secret_expose(key));
	return true;
}

/* Reads the file. Without a file, because the text was given inline, the present text stays.
 */
static bool
read_part(const char *file, const struct secret *present, struct secret *ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf pem = BUF_SECRET(LIMIT_CREDENTIAL);

	if (file[0] && !file_read(file, &pem, err))
		return false;
	secret_assign(ret, file[0] ? buf_str(&pem) : secret_expose(present));
	return true;
}

/* Certificate and key are written one after the other. Between the two writes they do not belong
 * together. That is reported as an error, the old pair stays, and the next reading finds both. */
static unsigned
follow_cert(struct tls_files *m, struct error *err)
{
	CLEANUP(secret_fini) struct secret cert = SECRET_NONE, key = SECRET_NONE;

	if (!m->cert_file[0] && !m->key_file[0])
		return TLS_FILES_SAME;
	if (!read_part(m->cert_file, &m->cert_pem, &cert, err) ||
	    !read_part(m->key_file, &m->key_pem, &key, err))
		return TLS_FILES_SAME;
	if (secret_eq(&cert, &m->cert_pem) && secret_eq(&key, &m->key_pem))
		return TLS_FILES_SAME;
	if (!secret_is_set(&cert)) {
		err_set(err, ERR_INVALID, "%s: the file is empty", m->cert_file);
		return TLS_FILES_SAME;
	}
	if (!tls_files_set_cert(m, &cert, &key, err)) {
		err_wrap(err, "%s", m->cert_file);
		return TLS_FILES_SAME;
	}
	return TLS_FILES_CERT;
}

unsigned
tls_files_follow(struct tls_files *m, struct error *err)
{
	unsigned changes = TLS_FILES_SAME;
	const char *reason;

	err->code = ERR_NONE;
	if (m->ca_file[0]) {
		reason = read_ca(m, err);
		metric_inc(metric_of(&reloads_total, err->code == ERR_NONE ? "success" : "failure",
		                     reason));
		if (strcmp(reason, "updated") == 0)
			changes |= TLS_FILES_CA;
	}
	return changes | follow_cert(m, err);
}

/* ---- from a configuration ---- */

void
tls_files_init(struct tls_files *m, const struct kube_config *config)
{
	*m = (struct tls_files){
		.ca_file = xstrndup(config->ca_file.ptr, config->ca_file.len),
		.cert_file = xstrndup(config->cert_file.ptr, config->cert_file.len),
		.key_file = xstrndup(config->key_file.ptr, config->key_file.len),
		.trusts_nothing = config->trusts_nothing,
		.is_insecure = config->is_insecure,
	};
	secret_assign(&m->ca_pem, config->ca_pem);
	secret_assign(&m->cert_pem, config->cert_pem);
	secret_assign(&m->key_pem, secret_expose(&config->key_pem));
}

void
tls_files_fini(struct tls_files *m)
{
	free(m->ca_file);
	free(m->cert_file);
	free(m->key_file);
	secret_fini(&m->ca_pem);
	secret_fini(&m->cert_pem);
	secret_fini(&m->key_pem);
}

bool
tls_files_update(struct tls_files *m, const struct kube_config *config, unsigned *ret_changes,
                 struct error *err)
{
	CLEANUP(tls_files_fini) struct tls_files fresh;
	struct tls_files old = *m;
	struct tls_config tls;

	tls_files_init(&fresh, config);
	tls = tls_files_config(&fresh, /*with_cert=*/true);
	if (!http_tls_check(&tls, err))
		return false;
	*ret_changes = TLS_FILES_SAME;
	if (!secret_eq(&old.ca_pem, &fresh.ca_pem) || old.trusts_nothing != fresh.trusts_nothing)
		*ret_changes |= TLS_FILES_CA;
	if (!secret_eq(&old.cert_pem, &fresh.cert_pem) || !secret_eq(&old.key_pem, &fresh.key_pem))
		*ret_changes |= TLS_FILES_CERT;
	*m = fresh;
	fresh = old; /* freed at the end */
	return true;
}
