/* kube/tls_files.c: reads certificates and keys again, and uses new content that is valid.
 *
 * New content is first tried in a TLS context that is thrown away (http_tls_check()). So a file
 * that is being written, or a certificate whose key has not been written yet, changes nothing, and
 * the next reading finds the complete content. kube/connection.c decides when the files are read.
 *
 * The authorities, and the certificate with its key, are followed independently: a problem with one
 * of the two does not delay the other.
 */
#include "kube/tls_files.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/metrics.h"

METRIC_FAMILY(reloads_total, METRIC_COUNTER, "rest_client_transport_ca_reload_total",
              "[ALPHA] Checks of the file of certificate authorities, by result and reason.",
              .labels = { "result", "reason" });

static void
set_or_clear(struct secret *to, struct str from)
{
	if (from.len > 0)
		secret_set(to, from);
	else
		secret_fini(to);
}

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

static void
count_look(const char *result, const char *reason)
{
	metric_inc(metric_of(&reloads_total, result, reason));
}

static bool
check_ca(struct str pem, const char *file, struct error *err)
{
	const struct tls_config tls = { .ca_pem = pem };

	if (pem.len == 0) {
		count_look("failure", "empty");
		return err_set(err, ERR_INVALID, "%s: the file is empty", file);
	}
	if (!http_tls_check(&tls, err)) {
		count_look("failure", "ca_parse_error");
		return err_wrap(err, "%s", file);
	}
	return true;
}

static unsigned
follow_ca(struct tls_files *m, struct error *err)
{
	CLEANUP(buf_fini) struct buf pem = BUF_INIT(LIMIT_CREDENTIAL);

	if (!m->ca_file[0])
		return TLS_FILES_SAME;
	if (!file_read(m->ca_file, &pem, err)) {
		count_look("failure", "read_error");
		return TLS_FILES_SAME;
	}
	if (str_eq(secret_expose(&m->ca_pem), buf_str(&pem))) {
		count_look("success", "unchanged");
		return TLS_FILES_SAME;
	}
	if (!check_ca(buf_str(&pem), m->ca_file, err))
		return TLS_FILES_SAME;
	count_look("success", "updated");
	set_or_clear(&m->ca_pem, buf_str(&pem));
	m->trusts_nothing = false;
	return TLS_FILES_CA;
}

/* ---- the client certificate ---- */

/* Checks whether certificate and key belong together. The check needs no authority, because it is
 * not about the server. */
static bool
check_pair(const struct secret *cert, const struct secret *key, struct error *err)
{
	const struct tls_config tls = { .trusts_nothing = true,
		                        .cert_pem = secret_expose(cert),
		                        .key_pem = key };

	return http_tls_check(&tls, err);
}

bool
tls_files_set_cert(struct tls_files *m, const struct secret *cert, const struct secret *key,
                   struct error *err)
{
	if (!check_pair(cert, key, err))
		return false;
	set_or_clear(&m->cert_pem, secret_expose(cert));
	set_or_clear(&m->key_pem, secret_expose(key));
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
	set_or_clear(ret, file[0] ? buf_str(&pem) : secret_expose(present));
	return true;
}

/* Certificate and key are written one after the other. Between the two writes they do not belong
 * together. That is reported as an error, the old pair stays, and the next reading finds both. */
static unsigned
follow_cert(struct tls_files *m, struct error *err)
{
	CLEANUP(secret_fini) struct secret cert = SECRET_NONE, key = SECRET_NONE;
	bool is_ok;

	if (!m->cert_file[0] && !m->key_file[0])
		return TLS_FILES_SAME;
	if (!read_part(m->cert_file, &m->cert_pem, &cert, err) ||
	    !read_part(m->key_file, &m->key_pem, &key, err))
		return TLS_FILES_SAME;
	if (secret_eq(&cert, &m->cert_pem) && secret_eq(&key, &m->key_pem))
		return TLS_FILES_SAME;
	is_ok = secret_is_set(&cert) ? tls_files_set_cert(m, &cert, &key, err)
	                             : err_set(err, ERR_INVALID, "the file is empty");
	if (!is_ok)
		err_wrap(err, "%s", m->cert_file);
	return is_ok ? TLS_FILES_CERT : TLS_FILES_SAME;
}

unsigned
tls_files_follow(struct tls_files *m, struct error *err)
{
	err->code = ERR_NONE;
	return follow_ca(m, err) | follow_cert(m, err);
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
	set_or_clear(&m->ca_pem, config->ca_pem);
	set_or_clear(&m->cert_pem, config->cert_pem);
	set_or_clear(&m->key_pem, secret_expose(&config->key_pem));
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

static unsigned
tls_files_difference(const struct tls_files *a, const struct tls_files *b)
{
	bool has_same_ca = secret_eq(&a->ca_pem, &b->ca_pem) &&
	                   a->trusts_nothing == b->trusts_nothing;
	bool has_same_cert = secret_eq(&a->cert_pem, &b->cert_pem) &&
	                     secret_eq(&a->key_pem, &b->key_pem);

	return (has_same_ca ? 0u : TLS_FILES_CA) | (has_same_cert ? 0u : TLS_FILES_CERT);
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
	/* The old texts are moved to `fresh`, which frees them at the end. */
	*ret_changes = tls_files_difference(m, &fresh);
	*m = fresh;
	fresh = old;
	return true;
}
