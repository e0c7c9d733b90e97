#include "http/issued.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

enum {
	HOUR_S = 3600,
};

static void
add_extension(X509 *cert, int nid, const char *value)
{
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

	X509_add_ext(cert, extension, -1);
	X509_EXTENSION_free(extension);
}

static void
add_name(X509_NAME *name, const char *what, const char *value)
{
	X509_NAME_add_entry_by_txt(name, what, MBSTRING_UTF8, (const unsigned char *)value, -1, -1,
	                           0);
}

static void
add_extensions(X509 *cert, const struct issue *how)
{
	add_extension(cert, NID_basic_constraints,
	              how->is_authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
	if (how->purposes)
		add_extension(cert, NID_ext_key_usage, how->purposes);
	if (how->alternatives)
		add_extension(cert, NID_subject_alt_name, how->alternatives);
}

static void
name_it(X509 *cert, const struct issue *how)
{
	X509_NAME *subject = X509_get_subject_name(cert);

	for (size_t i = 0; i < ARRAY_LEN(how->organizations) && how->organizations[i]; i++)
		add_name(subject, "O", how->organizations[i]);
	if (how->name)
		add_name(subject, "CN", how->name);
	X509_set_issuer_name(cert, how->by ? X509_get_subject_name(how->by->cert) : subject);
}

void
issue(struct issued *ret, const struct issue *how)
{
	static long serial = 1;
	X509 *cert = X509_new();

	ret->key = EVP_EC_gen("P-256");
	ret->cert = cert;
	X509_set_version(cert, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++);
	X509_gmtime_adj(X509_getm_notBefore(cert), how->from_s);
	X509_gmtime_adj(X509_getm_notAfter(cert), how->until_s ? how->until_s : HOUR_S);
	name_it(cert, how);
	X509_set_pubkey(cert, ret->key);
	add_extensions(cert, how);
	X509_sign(cert, how->by ? how->by->key : ret->key, EVP_sha256());
}

void
issued_fini(struct issued *i)
{
	X509_free(i->cert);
	EVP_PKEY_free(i->key);
}

static void
move(BIO *bio, struct buf *ret)
{
	char *text;
	long len = BIO_get_mem_data(bio, &text);

	buf_add(ret, text, (size_t)len);
	BIO_free(bio);
}

void
issued_write(const struct issued *i, struct buf *ret_cert, struct buf *ret_key)
{
	BIO *cert = BIO_new(BIO_s_mem()), *key = BIO_new(BIO_s_mem());

	PEM_write_bio_X509(cert, i->cert);
	PEM_write_bio_PrivateKey(key, i->key, NULL, NULL, 0, NULL, NULL);
	move(cert, ret_cert);
	move(key, ret_key);
}
