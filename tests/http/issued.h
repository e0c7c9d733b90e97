/* tests/http/issued.h: certificates as a test wants them.
 */
#ifndef CCMD_TESTS_NET_ISSUED_H
#define CCMD_TESTS_NET_ISSUED_H

#include <openssl/x509.h>

#include "base/buf.h"

struct issued {
	X509 *cert;
	EVP_PKEY *key;
};

struct issue {
	const struct issued *by; /* NULL: itself */
	const char *name;        /* CN */
	const char *organizations[4];
	const char *alternatives; /* "DNS:localhost"; NULL: none */
	const char *purposes;     /* "clientAuth"; NULL: none named */
	bool is_authority;
	long from_s, until_s; /* from now; until 0: in an hour */
};

void issue(struct issued *ret, const struct issue *how);
void issued_fini(struct issued *i);
void issued_write(const struct issued *i, struct buf *ret_cert, struct buf *ret_key);

#endif
