/* serve/self_signed.h: makes a certificate if none is configured. */
#ifndef CCMD_SERVE_SELF_SIGNED_H
#define CCMD_SERVE_SELF_SIGNED_H

#include <openssl/x509.h>

#include "base/buf.h"
#include "base/secret.h"

/** A P-256 key and its certificate for these host names and addresses (NULL at the end), valid from
 * an hour before wall_ns for a year (docs/spec/framework.md, "Self-signed certificate").
 * ERR_INVALID: a name is not a host name or address. */
NODISCARD bool self_signed_new(const char *const *names, int64_t wall_ns, X509 **ret_cert,
                               EVP_PKEY **ret_key, struct error *err);
/** Was it made by self_signed_new(), in this or another process? */
bool self_signed_is_ours(const X509 *cert);
/** Is more than 80 % of its life over? */
bool self_signed_is_old(const X509 *cert, int64_t wall_ns);
/** As PEM. */
void self_signed_write(X509 *cert, EVP_PKEY *key, struct buf *ret_cert, struct secret *ret_key);

#endif
