/* tests/serve/fake_server.h: requests as plain values, in the place of serve/server.c.
 *
 * A bundle of authorities is its text; a certificate is trusted by a bundle that contains the text
 * `issuer`. */
#ifndef CCMD_TESTS_FAKE_SERVER_H
#define CCMD_TESTS_FAKE_SERVER_H

#include "serve/server.h"

enum {
	FAKE_HEADERS = 8,
};

struct fake_header {
	const char *name, *value;
};

struct server_request {
	enum server_method method;
	const char *path;
	const char *peer;                         /* NULL: 192.0.2.1 */
	struct fake_header headers[FAKE_HEADERS]; /* name NULL: none */
	const char *issuer;                       /* NULL: no certificate */
	const char *common_name, *organization;   /* NULL: none */
};

#endif
