/* http/tls.h: certificates and keys, read from PEM text with error messages for the author of the
 * file.
 *
 * The text may be foreign, and is bounded by LIMIT_CREDENTIAL. Messages never repeat any of it.
 * OpenSSL's error queue is empty when a function returns.
 */
#ifndef CCMD_HTTP_TLS_H
#define CCMD_HTTP_TLS_H

#include <openssl/ssl.h>

#include "base/error.h"
#include "base/macros.h"
#include "base/str.h"

struct tls_config;

static inline void
x509_stackp(STACK_OF(X509) * *stack)
{
	sk_X509_pop_free(*stack, X509_free);
}

DEFINE_CLEANUP(X509, X509_free)
DEFINE_CLEANUP(EVP_PKEY, EVP_PKEY_free)

/** All certificates, in their order; at least one. what is for messages: "the CA of clients".
 * ERR_INVALID. */
NODISCARD bool pem_certificates(struct str pem, const char *what, STACK_OF(X509) * *ret,
                                struct error *err);
/** The private key, which must not need a pass phrase. what is for messages: "the client key", or
 * the name of a file. ERR_INVALID. */
NODISCARD bool pem_key(struct str pem, const char *what, EVP_PKEY **ret, struct error *err);
/** OpenSSL's text for this thread's last error, and empties its error queue. The text is a constant
 * and holds nothing of the input. */
const char *openssl_reason(void);

/* ---- of a client ---- */

struct tls {
	X509_STORE *store; /* trust anchors */
	X509 *cert;        /* NULL: none */
	STACK_OF(X509) * chain;
	EVP_PKEY *key;
};

/** Parses the certificates and keys of config. */
NODISCARD bool tls_init(struct tls *ret, const struct tls_config *config, struct error *err);
void tls_fini(struct tls *tls);
/** Where a client without trust anchors of its own takes them from, for people: a file or folder.
 * They are added to store, unless that is NULL. */
const char *tls_system_anchors(X509_STORE *store);

#endif
