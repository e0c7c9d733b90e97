/* http/pem.c: see pem.h. OpenSSL skips text between the blocks, and ends with PEM_R_NO_START_LINE
 * when no further block begins; any other error means a block that cannot be read. */
#include "http/pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include "base/alloc.h"
#include "base/limits.h"

const char *
openssl_reason(void)
{
	const char *text = ERR_reason_error_string(ERR_peek_last_error());

	ERR_clear_error();
	return text ? text : "unknown reason";
}

static BIO *
pem_open(struct str pem)
{
	BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);

	ERR_clear_error();
	if (!bio)
		alloc_fail(1, pem.len);
	return bio;
}

static bool
pem_is_bounded(struct str pem, const char *what, struct error *err)
{
	if (pem.len <= LIMIT_CREDENTIAL)
		return true;
	return err_set(err, ERR_INVALID, "%s is larger than %zu bytes", what, LIMIT_CREDENTIAL);
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

/* Reads to the end of the text. False when a certificate cannot be read; the error is in OpenSSL's
 * queue. */
static bool
pem_read_certificates(BIO *bio, STACK_OF(X509) * stack)
{
	unsigned long code;

	for (X509 *cert; (cert = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL));) {
		if (!sk_X509_push(stack, cert))
			alloc_fail(1, sizeof(cert));
	}
	code = ERR_peek_last_error();
	return ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
}

bool
pem_certificates(struct str pem, const char *what, STACK_OF(X509) * *ret, struct error *err)
{
	CLEANUP(x509_stackp) STACK_OF(X509) *stack = sk_X509_new_null();
	bool is_end;
	BIO *bio;

	if (!stack)
		alloc_fail(1, sizeof(X509 *));
	if (!pem_is_bounded(pem, what, err))
		return false;
	bio = pem_open(pem);
	is_end = pem_read_certificates(bio, stack);
	BIO_free(bio);
	if (!is_end)
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
	BIO *bio;

	if (!pem_is_bounded(pem, what, err))
		return false;
	bio = pem_open(pem);
	key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
	BIO_free(bio);
	if (!key)
		return err_set(err, ERR_INVALID, "no private key in %s: %s", what,
		               openssl_reason());
	*ret = key;
	return true;
}
