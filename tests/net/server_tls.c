#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "net/server_world.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

static void
makes_its_own_certificate(void **state UNUSED)
{
	SERVER_WORLD(w);
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	struct client c;
	X509 *cert;

	w.config.tls.is_plain = false;
	server_world_start(&w);
	assert_true(client_open_tls(w.port, ctx, NULL, &c));
	cert = SSL_get0_peer_certificate(c.ssl);
	assert_int_equal(X509_check_host(cert, "localhost", 0, 0, NULL), 1);
	assert_int_equal(X509_check_ip_asc(cert, "127.0.0.1", 0), 1);
	assert_int_equal(X509_check_ip_asc(cert, "::1", 0), 1);
	client_send(&c, GET("/"));
	assert_int_equal(client_answer(&c, NULL), 200);
	client_close(&c);
	SSL_CTX_free(ctx);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(makes_its_own_certificate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
