/* http/pem.h: certificates and keys out of PEM text, with words for whoever wrote the file.
 */
#ifndef CCMD_HTTP_PEM_H
#define CCMD_HTTP_PEM_H

#include <openssl/x509.h>

#include "base/error.h"
#include "base/str.h"

static inline void
x509_stackp(STACK_OF(X509) * *stack)
{
	sk_X509_pop_free(*stack, X509_free);
}

static inline void
x509p(X509 **cert)
{
	X509_free(*cert);
}

static inline void
pkeyp(EVP_PKEY **key)
{
	EVP_PKEY_free(*key);
}

/** All certificates, in order; at least one. what: "the CA of clients", for the message.
 * ERR_INVALID. */
NODISCARD bool pem_certificates(struct str pem, const char *what, STACK_OF(X509) * *ret,
                                struct error *err);
/** The private key, without a pass phrase. what: "the client key", or a file. ERR_INVALID. */
NODISCARD bool pem_key(struct str pem, const char *what, EVP_PKEY **ret, struct error *err);
/** OpenSSL's own words for the last failure of this thread, which is forgotten; they name no
 * content. */
const char *openssl_reason(void);

#endif
