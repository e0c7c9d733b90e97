/* http/tls.c: certificates and keys, parsed once per client; see tls.h.
 *
 * libcurl would parse PEM again for every connection, and its default trust store is a bundle of
 * 140 certificates, which takes a megabyte per connection. OpenSSL's objects are reference-counted,
 * so the contexts of all connections refer to the same ones.
 */
#include "http/tls.h"

#include <dirent.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/ip.h"
#include "base/limits.h"
#include "http/http.h"

/* ---- PEM ---- */

const char *
openssl_reason(void)
{
	const char *text = ERR_reason_error_string(ERR_peek_last_error());

	ERR_clear_error();
	return text ? text : "unknown reason";
}

/* The caller frees *ret. */
static bool
pem_open(struct str pem, const char *what, BIO **ret, struct error *err)
{
	if (pem.len > LIMIT_CREDENTIAL)
		return err_set(err, ERR_INVALID, "%s is larger than %zu bytes", what,
		               LIMIT_CREDENTIAL);
	ERR_clear_error();
	*ret = BIO_new_mem_buf(pem.ptr, (int)pem.len);
	if (!*ret)
		alloc_fail(1, pem.len);
	return true;
}

/* Without this callback OpenSSL would ask for a pass phrase on the terminal. */
static int
no_passphrase(char *buf, int size, int is_writing, void *arg)
{
	(void)buf;
	(void)size;
	(void)is_writing;
	(void)arg;
	return -1;
}

bool
pem_certificates(struct str pem, const char *what, STACK_OF(X509) * *ret, struct error *err)
{
	CLEANUP(x509_stackp) STACK_OF(X509) *stack = sk_X509_new_null();
	unsigned long code;
	BIO *bio = NULL;

	if (!stack)
		alloc_fail(1, sizeof(X509 *));
	if (!pem_open(pem, what, &bio, err))
		return false;
	for (X509 *cert; (cert = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL));) {
		if (!sk_X509_push(stack, cert))
			alloc_fail(1, sizeof(cert));
	}
	BIO_free(bio);

	/* OpenSSL skips text between the blocks, and ends with PEM_R_NO_START_LINE when no further
	 * block begins; any other error means a block that cannot be read */
	code = ERR_peek_last_error();
	if (ERR_GET_LIB(code) != ERR_LIB_PEM || ERR_GET_REASON(code) != PEM_R_NO_START_LINE)
		return err_set(err, ERR_INVALID, "certificate %d of %s: %s", sk_X509_num(stack) + 1,
		               what, openssl_reason());
	ERR_clear_error();
	if (sk_X509_num(stack) == 0)
		return err_set(err, ERR_INVALID, "no certificate found in %s", what);
	*ret = TAKE(stack);
	return true;
}

bool
pem_key(struct str pem, const char *what, EVP_PKEY **ret, struct error *err)
{
	EVP_PKEY *key;
	BIO *bio = NULL;

	if (!pem_open(pem, what, &bio, err))
		return false;
	key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
	BIO_free(bio);
	if (!key)
		return err_set(err, ERR_INVALID, "no private key in %s: %s", what,
		               openssl_reason());
	*ret = key;
	return true;
}

/* ---- trust anchors ---- */

/* Where distributions keep all certificates in one file: the list of Go, crypto/x509/root_linux.go.
 */
static const char *const bundles[] = {
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/cert.pem",
};

/* Returns true if the folder has links that are named after the hash of a certificate's subject, by
 * which OpenSSL finds certificates. */
static bool
tls_is_hashed(const char *folder)
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

/* A hashed folder is preferred: OpenSSL reads only the certificates that it needs. Minimal
 * container images have only a bundle. Where nothing is found, the client starts anyway; its
 * connections fail to verify, and their errors say so. */
const char *
tls_system_anchors(X509_STORE *store)
{
	const char *const folders[] = { X509_get_default_cert_dir(), "/etc/ssl/certs" };
	const char *file = getenv(X509_get_default_cert_file_env());
	const char *folder = getenv(X509_get_default_cert_dir_env());
	const char *found = file ? file : folder;

	if (found && store)
		(void)X509_STORE_set_default_paths(store);
	for (size_t i = 0; !found && i < ARRAY_LEN(folders); i++) {
		if (tls_is_hashed(folders[i]) &&
		    (!store || X509_STORE_load_path(store, folders[i]) == 1))
			found = folders[i];
	}
	for (size_t i = 0; !found && i < ARRAY_LEN(bundles); i++) {
		if (store ? X509_STORE_load_file(store, bundles[i]) == 1
		          : access(bundles[i], R_OK) == 0)
			found = bundles[i];
	}
	ERR_clear_error();
	return found ? found : "/etc/ssl/certs, which has none";
}

/* ---- of a client ---- */

/* Loads our own certificate, which comes first, the chain to its issuer, and the key. */
static bool
tls_load_own(struct tls *tls, const struct tls_config *config, struct error *err)
{
	bool has_key = config->key_pem && secret_is_set(config->key_pem);

	if (config->cert_pem.len == 0 && !has_key)
		return true;
	if (config->cert_pem.len == 0)
		return err_set(err, ERR_INVALID,
		               "a private key is configured without a client certificate");
	if (!has_key)
		return err_set(err, ERR_INVALID,
		               "a client certificate is configured without its private key");
	if (!pem_certificates(config->cert_pem, "the client certificate", &tls->chain, err) ||
	    !pem_key(secret_expose(config->key_pem), "the client key", &tls->key, err))
		return false;
	tls->cert = sk_X509_shift(tls->chain);
	if (X509_check_private_key(tls->cert, tls->key) == 1)
		return true;
	ERR_clear_error();
	return err_set(err, ERR_INVALID, "the private key does not match the client certificate");
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

/* As in Go, every given certificate is an anchor, even if it is not self-signed. */
static bool
tls_load_anchors(X509_STORE *store, const struct tls_config *config, struct error *err)
{
	CLEANUP(x509_stackp) STACK_OF(X509) *anchors = NULL;

	X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
	if (config->is_insecure || config->trusts_nothing)
		return true;
	if (config->ca_pem.len == 0) {
		(void)tls_system_anchors(store);
		return true;
	}
	if (!pem_certificates(config->ca_pem, "the CA data", &anchors, err))
		return false;
	for (int i = 0; i < sk_X509_num(anchors); i++) {
		if (X509_STORE_add_cert(store, sk_X509_value(anchors, i)) != 1)
			return err_set(err, ERR_INVALID, "certificate %d of the CA data: %s", i + 1,
			               openssl_reason());
	}
	return true;
}

bool
tls_init(struct tls *ret, const struct tls_config *config, struct error *err)
{
	CLEANUP(tls_fini) struct tls tls = { .store = X509_STORE_new() };

	if (!tls.store)
		alloc_fail(1, sizeof(tls.store));
	if (!tls_load_anchors(tls.store, config, err) || !tls_load_own(&tls, config, err))
		return false;
	*ret = tls;
	tls = (struct tls){ 0 };
	return true;
}

bool
http_tls_check(const struct tls_config *config, struct error *err)
{
	CLEANUP(tls_fini) struct tls tls = { 0 };

	return tls_init(&tls, config, err);
}

bool
http_certificate_validity(struct str pem, int64_t *ret_begin_wall_ns, int64_t *ret_end_wall_ns)
{
	CLEANUP(x509_stackp) STACK_OF(X509) *certs = NULL;
	struct tm begin, end;
	struct error err;
	const X509 *cert;

	if (!pem_certificates(pem, "the certificate", &certs, &err))
		return false;
	cert = sk_X509_value(certs, 0);
	if (ASN1_TIME_to_tm(X509_get0_notBefore(cert), &begin) != 1 ||
	    ASN1_TIME_to_tm(X509_get0_notAfter(cert), &end) != 1)
		return false;
	return !__builtin_mul_overflow((int64_t)timegm(&begin), NS_PER_SEC, ret_begin_wall_ns) &&
	       !__builtin_mul_overflow((int64_t)timegm(&end), NS_PER_SEC, ret_end_wall_ns);
}

bool
http_certificate_name(struct str pem, struct buf *ret)
{
	CLEANUP(x509_stackp) STACK_OF(X509) *certs = NULL;
	GENERAL_NAMES *names;
	size_t before = ret->len;
	struct error err;

	if (!pem_certificates(pem, "the certificate", &certs, &err))
		return false;
	names = X509_get_ext_d2i(sk_X509_value(certs, 0), NID_subject_alt_name, NULL, NULL);
	for (int i = 0; i < sk_GENERAL_NAME_num(names) && ret->len == before; i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

		if (name->type == GEN_DNS && ASN1_STRING_get0_data(name->d.ia5)[0] != '*')
			buf_add(ret, ASN1_STRING_get0_data(name->d.ia5),
			        (size_t)ASN1_STRING_length(name->d.ia5));
	}
	for (int i = 0; i < sk_GENERAL_NAME_num(names) && ret->len == before; i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
		const ASN1_OCTET_STRING *address = name->d.iPAddress;
		size_t len = name->type == GEN_IPADD ? (size_t)ASN1_STRING_length(address) : 0;
		struct ip ip = { .bytes = { [10] = 0xff, [11] = 0xff } }; /* of IPv4 */

		if (len != 4 && len != sizeof(ip.bytes))
			continue;
		memcpy(ip.bytes + sizeof(ip.bytes) - len, ASN1_STRING_get0_data(address), len);
		ip_format(ret, &ip);
	}
	GENERAL_NAMES_free(names);
	return ret->len > before;
}
