/* serve/self_signed.c: makes a certificate if none is configured.
 *
 * A certificate of ours is recognised by its organization and by having the same subject and
 * issuer. So a later process finds its predecessor's in --cert-dir and renews it, and leaves a
 * certificate that an operator put there alone.
 */
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "base/alloc.h"
#include "base/ip.h"
#include "base/limits.h"
#include "base/names.h"
#include "http/tls.h"
#include "serve/internal.h"

enum {
	HOUR_S = 3600,
	YEAR_S = 365 * 24 * HOUR_S,
	SERIAL_BITS = 127, /* positive, and at most 20 bytes (RFC 5280 4.1.2.2) */
};

static const char maker[] = "ccmd self-signed";

static bool
set_serial(X509 *cert)
{
	BIGNUM *number = BN_new();
	bool is_ok = number && BN_rand(number, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) &&
	             BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert));

	BN_free(number);
	return is_ok;
}

static bool
set_names(X509 *cert, const char *host)
{
	X509_NAME *name = X509_get_subject_name(cert);

	return X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8, (const unsigned char *)maker,
	                                  -1, -1, 0) &&
	       X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)host,
	                                  -1, -1, 0) &&
	       X509_set_issuer_name(cert, name);
}

static bool
set_times(X509 *cert, int64_t wall_ns)
{
	time_t from = (time_t)(wall_ns / NS_PER_SEC) - HOUR_S;

	return ASN1_TIME_set(X509_getm_notBefore(cert), from) &&
	       ASN1_TIME_set(X509_getm_notAfter(cert), from + YEAR_S);
}

static bool
add_extension(X509 *cert, int nid, const char *value)
{
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
	bool is_ok = extension && X509_add_ext(cert, extension, -1);

	X509_EXTENSION_free(extension);
	return is_ok;
}

static bool
fill_and_sign(X509 *cert, EVP_PKEY *key, const char *host, const char *alternatives,
              int64_t wall_ns)
{
	return X509_set_version(cert, X509_VERSION_3) && set_serial(cert) &&
	       set_names(cert, host) && set_times(cert, wall_ns) && X509_set_pubkey(cert, key) &&
	       add_extension(cert, NID_basic_constraints, "critical,CA:FALSE") &&
	       add_extension(cert, NID_key_usage, "critical,digitalSignature") &&
	       add_extension(cert, NID_ext_key_usage, "serverAuth") &&
	       add_extension(cert, NID_subject_alt_name, alternatives) &&
	       X509_sign(cert, key, EVP_sha256());
}

bool
self_signed_new(const char *const *names, int64_t wall_ns, X509 **ret_cert, EVP_PKEY **ret_key,
                struct error *err)
{
	CLEANUP(buf_fini) struct buf alternatives = BUF_INIT(KIB(16));
	CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = EVP_EC_gen("P-256");
	CLEANUP(X509_freep) X509 *cert = X509_new();
	struct ip ip;

	/* "DNS:localhost,IP:127.0.0.1". OpenSSL interprets the text, and a comma or an "@" in a
	 * name would change its meaning. */
	for (size_t i = 0; names[i]; i++) {
		if (names[i][0] == '\0' || !name_has_only(str_c(names[i]), "-.:_"))
			return err_set(err, ERR_INVALID, "\"%s\" is not a host name or address",
			               names[i]);
		buf_addf(&alternatives, "%s%s:%s", i > 0 ? "," : "",
		         ip_parse(str_c(names[i]), &ip) ? "IP" : "DNS", names[i]);
	}
	if (!key || !cert || !fill_and_sign(cert, key, names[0], alternatives.ptr, wall_ns))
		return err_set(err, ERR_INTERNAL, "make a certificate: %s", openssl_reason());
	*ret_cert = TAKE(cert);
	*ret_key = TAKE(key);
	return true;
}

bool
self_signed_is_due(const X509 *cert, int64_t wall_ns)
{
	time_t renewal = (time_t)(wall_ns / NS_PER_SEC) + YEAR_S / 5;
	X509_NAME *subject = X509_get_subject_name(cert);
	char by[sizeof(maker) + 1];

	return X509_NAME_get_text_by_NID(subject, NID_organizationName, by, sizeof(by)) > 0 &&
	       str_eq_c(str_c(by), maker) &&
	       X509_NAME_cmp(subject, X509_get_issuer_name(cert)) == 0 &&
	       X509_cmp_time(X509_get0_notAfter(cert), &renewal) < 0;
}

static struct str
bytes_of(BIO *bio)
{
	char *text;
	long len = BIO_get_mem_data(bio, &text);

	return str_n(text, (size_t)len);
}

void
self_signed_write(X509 *cert, EVP_PKEY *key, struct buf *ret_cert, struct secret *ret_key)
{
	BIO *cert_bio = BIO_new(BIO_s_mem()), *key_bio = BIO_new(BIO_s_secmem());

	if (!cert_bio || !key_bio || !PEM_write_bio_X509(cert_bio, cert) ||
	    !PEM_write_bio_PrivateKey(key_bio, key, NULL, NULL, 0, NULL, NULL))
		alloc_fail(1, LIMIT_CREDENTIAL);
	buf_add_str(ret_cert, bytes_of(cert_bio));
	secret_set(ret_key, bytes_of(key_bio));
	BIO_free(cert_bio);
	BIO_free(key_bio);
}
