/* net/http_tls.c: certificates and keys, parsed once per client.
 *
 * libcurl would read PEM again for every connection, and its default trust store is a bundle of 140 certificates:
 * a megabyte for each. OpenSSL's objects are counted, so each connection's context just refers to ours.
 */
#include <dirent.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <time.h>

#include "base/alloc.h"
#include "net/http_internal.h"

/* Where distributions keep all certificates in one file; as Go's crypto/x509 looks for them. */
static const char *const bundles[] = {
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/cert.pem",
};

/* OpenSSL's own words for the last failure; they name no content. */
static const char *
reason(void)
{
	const char *text = ERR_reason_error_string(ERR_peek_last_error());

	ERR_clear_error();
	return text ? text : "unknown reason";
}

static BIO *
open_pem(struct str pem)
{
	BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);

	if (!bio)
		alloc_fail(1, pem.len);
	return bio;
}

/* Keeps OpenSSL from asking for a pass phrase on the terminal. */
static int
no_passphrase(char *buf UNUSED, int size UNUSED, int is_writing UNUSED, void *arg UNUSED)
{
	return -1;
}

/* The next certificate, or NULL with *ret_is_end: none is left, or one cannot be read. */
static X509 *
next_certificate(BIO *bio, bool *ret_is_end)
{
	X509 *cert = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL);
	unsigned long code = ERR_peek_last_error();

	*ret_is_end = !cert && ERR_GET_LIB(code) == ERR_LIB_PEM &&
	              ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
	if (*ret_is_end)
		ERR_clear_error();
	return cert;
}

/* Hands each certificate to add(), which takes a reference of its own. */
static bool
each_certificate(struct str pem, const char *what, int (*add)(struct tls *, X509 *),
                 struct tls *tls, struct error *err)
{
	BIO *bio = open_pem(pem);
	bool is_end = false, is_ok = true;
	size_t n = 0;

	while (is_ok) {
		X509 *cert = next_certificate(bio, &is_end);

		if (!cert)
			break;
		is_ok = add(tls, cert) == 1;
		X509_free(cert);
		n++;
	}
	BIO_free(bio);
	if (!is_end)
		return err_set(err, ERR_INVALID, "certificate %zu of %s: %s", is_ok ? n + 1 : n,
		               what, reason());
	if (n == 0)
		return err_set(err, ERR_INVALID, "no certificate found in %s", what);
	return true;
}

static int
add_anchor(struct tls *tls, X509 *cert)
{
	return X509_STORE_add_cert(tls->store, cert);
}

/* The first certificate is ours, the others lead to the one who signed it. */
static int
add_own(struct tls *tls, X509 *cert)
{
	if (!tls->cert) {
		tls->cert = cert;
		return X509_up_ref(cert);
	}
	if (!tls->chain)
		tls->chain = sk_X509_new_null();
	return tls->chain && X509_add_cert(tls->chain, cert, X509_ADD_FLAG_UP_REF);
}

/* Has this folder the links named by hash that OpenSSL finds certificates by? */
static bool
is_hashed(const char *folder)
{
	DIR *dir = opendir(folder);
	bool found = false;

	if (!dir)
		return false;
	for (struct dirent *entry; !found && (entry = readdir(dir));)
		found = strspn(entry->d_name, "0123456789abcdef") == 8 && entry->d_name[8] == '.';
	closedir(dir);
	return found;
}

/* A hashed folder costs nothing until a certificate of it is needed, and then only that one. Images that hold
 * nothing but a bundle have no such folder. */
static void
add_system_anchors(X509_STORE *store)
{
	const char *const folders[] = { X509_get_default_cert_dir(), "/etc/ssl/certs" };

	if (getenv(X509_get_default_cert_file_env()) || getenv(X509_get_default_cert_dir_env())) {
		(void)X509_STORE_set_default_paths(store);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		if (is_hashed(folders[i]) && X509_STORE_load_path(store, folders[i]) == 1)
			return;
	}
	for (size_t i = 0; i < ARRAY_LEN(bundles); i++) {
		if (X509_STORE_load_file(store, bundles[i]) == 1)
			break;
	}
	ERR_clear_error();
}

/* Where nothing is found, connections fail to verify and say so: that is no reason not to start. */
static bool
load_anchors(struct tls *tls, const struct tls_config *config, struct error *err)
{
	tls->store = X509_STORE_new();
	if (!tls->store)
		alloc_fail(1, sizeof(tls->store));
	/* any certificate we were given is an anchor, be it self-signed or not; as Go does */
	X509_STORE_set_flags(tls->store, X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
	if (config->is_insecure || config->trusts_nothing)
		return true;
	if (config->ca_pem.len > 0)
		return each_certificate(config->ca_pem, "the CA data", add_anchor, tls, err);
	add_system_anchors(tls->store);
	return true;
}

static bool
load_key(struct tls *tls, const struct secret *pem, struct error *err)
{
	BIO *bio = open_pem(secret_expose(pem));

	tls->key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
	BIO_free(bio);
	if (!tls->key)
		return err_set(err, ERR_INVALID, "the private key: %s", reason());
	if (X509_check_private_key(tls->cert, tls->key) != 1) {
		ERR_clear_error();
		return err_set(err, ERR_INVALID,
		               "the private key does not match the client certificate");
	}
	return true;
}

static bool
load_own(struct tls *tls, const struct tls_config *config, struct error *err)
{
	bool has_key = config->key_pem && secret_is_set(config->key_pem);

	if (config->cert_pem.len == 0 && !has_key)
		return true;
	if (config->cert_pem.len == 0)
		return err_set(err, ERR_INVALID, "a private key without a client certificate");
	if (!has_key)
		return err_set(err, ERR_INVALID, "a client certificate without its private key");
	return each_certificate(config->cert_pem, "the client certificate", add_own, tls, err) &&
	       load_key(tls, config->key_pem, err);
}

static bool
is_too_large(const struct tls_config *config)
{
	return config->ca_pem.len > LIMIT_CREDENTIAL || config->cert_pem.len > LIMIT_CREDENTIAL ||
	       (config->key_pem && secret_expose(config->key_pem).len > LIMIT_CREDENTIAL);
}

bool
tls_init(struct tls *tls, const struct tls_config *config, struct error *err)
{
	*tls = (struct tls){ 0 };
	if (is_too_large(config))
		return err_set(err, ERR_INVALID, "a certificate or key larger than %zu bytes",
		               LIMIT_CREDENTIAL);
	if (load_anchors(tls, config, err) && load_own(tls, config, err))
		return true;
	tls_fini(tls);
	return false;
}

void
tls_fini(struct tls *tls)
{
	X509_STORE_free(tls->store);
	X509_free(tls->cert);
	sk_X509_pop_free(tls->chain, X509_free);
	EVP_PKEY_free(tls->key);
	*tls = (struct tls){ 0 };
}

bool
tls_apply(const struct tls *tls, SSL_CTX *ctx)
{
	/* 34 kB less for a connection that waits */
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set1_cert_store(ctx, tls->store);
	if (!tls->cert)
		return true;
	return SSL_CTX_use_certificate(ctx, tls->cert) == 1 &&
	       SSL_CTX_use_PrivateKey(ctx, tls->key) == 1 &&
	       (!tls->chain || SSL_CTX_set1_chain(ctx, tls->chain) == 1);
}

bool
http_tls_check(const struct tls_config *config, struct error *err)
{
	struct tls tls;

	if (!tls_init(&tls, config, err))
		return false;
	tls_fini(&tls);
	return true;
}

static bool
to_wall_ns(const ASN1_TIME *time, int64_t *ret_wall_ns)
{
	struct tm tm;

	return ASN1_TIME_to_tm(time, &tm) == 1 &&
	       !__builtin_mul_overflow((int64_t)timegm(&tm), NS_PER_SEC, ret_wall_ns);
}

bool
http_certificate_begins(struct str pem, int64_t *ret_wall_ns)
{
	BIO *bio = open_pem(pem);
	X509 *cert = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL);
	bool is_ok = cert && to_wall_ns(X509_get0_notBefore(cert), ret_wall_ns);

	X509_free(cert);
	BIO_free(bio);
	ERR_clear_error();
	return is_ok;
}
