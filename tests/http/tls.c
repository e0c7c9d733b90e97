/* How http/http.h gets to a server: certificates, names, proxies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/thread.h"
#include "http/world.h"

static bool
tells_peer(struct visit *v)
{
	X509 *peer = SSL_get0_peer_certificate(v->ssl);
	const char *sni = SSL_get_servername(v->ssl, TLSEXT_NAMETYPE_host_name);
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1000);

	buf_addf(&b, "%s %s %s", SSL_get_version(v->ssl), sni ? sni : "-",
	         peer ? "cert" : "no cert");
	return visit_reply(v, "200 OK", "", b.ptr);
}

static void
verifies_the_server(void **state)
{
	WORLD(w);

	(void)state;
	start_server(&w, tells_peer, NULL, &identity);
	start_client(&w);
	must_get(&w);
	assert_string_equal(w.response.body.ptr, "TLSv1.3 - no cert");
}

static void
another_authority_is_refused(void **state)
{
	struct identity other;
	WORLD(w);

	(void)state;
	identity_init(&other);
	w.config.tls.ca_pem = buf_str(&other.cert_pem);
	start_server(&w, tells_peer, NULL, &identity);
	start_client(&w);
	must_fail(&w, HTTP_GET, ERR_UNAVAILABLE, "certificate");
	http_client_free(TAKE(w.client));
	w.config.tls.ca_pem = STR_EMPTY; /* the system's */
	start_client(&w);
	must_fail(&w, HTTP_GET, ERR_UNAVAILABLE, "certificate");
	http_client_free(TAKE(w.client));
	w.config.tls.is_insecure = true;
	start_client(&w);
	must_get(&w);
	identity_fini(&other);
}

static void
the_name_is_checked(void **state)
{
	WORLD(w);

	(void)state;
	start_server(&w, tells_peer, NULL, &identity);
	w.config.tls.server_name = STR("api.test");
	start_client(&w);
	must_get(&w);
	assert_string_equal(w.response.body.ptr, "TLSv1.3 api.test no cert");
	http_client_free(TAKE(w.client));
	w.config.tls.server_name = STR("other.test");
	start_client(&w);
	must_fail(&w, HTTP_GET, ERR_UNAVAILABLE, "other.test");
	assert_non_null(strstr(w.err.msg, "https://127.0.0.1:")); /* what is connected to */
	http_client_free(TAKE(w.client));
	w.config.tls.server_name = STR("a b");
	assert_false(http_client_new(&w.config, &w.client, &w.err));
	assert_int_equal(w.err.code, ERR_INVALID);
}

static bool
tells_host(struct visit *v)
{
	for (struct str part, rest = v->head; str_split(&rest, '\n', &part);) {
		if (str_starts(part, STR("Host: ")))
			return visit_write(v,
			                   STR("HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n")) &&
			       visit_write(v, str_head(str_skip(part, 6), 15));
	}
	return false;
}

static void
the_host_stays_the_address(void **state)
{
	WORLD(w);

	(void)state;
	start_server(&w, tells_host, NULL, &identity);
	w.config.tls.server_name = STR("api.test");
	start_client(&w);
	must_get(&w);
	assert_true(str_starts(buf_str(&w.response.body), STR("127.0.0.1:")));
}

static void
shows_its_certificate(void **state)
{
	WORLD(w);

	(void)state;
	start_server(&w, tells_peer, NULL, &identity);
	w.config.tls.cert_pem = buf_str(&identity.cert_pem);
	w.config.tls.key_pem = &identity.key_pem;
	start_client(&w);
	must_get(&w);
	assert_string_equal(w.response.body.ptr, "TLSv1.3 - cert");
}

static void
check_config(const struct tls_config *tls, const char *url, const char *proxy, const char *text)
{
	struct error err = { 0 };
	struct http_client *client;
	const struct http_config config = {
		.name = "test",
		.base_url = str_c(url),
		.clock = &clock_real,
		.proxy_url = str_c(proxy),
		.tls = *tls,
	};

	assert_false(http_client_new(&config, &client, &err));
	assert_int_equal(err.code, ERR_INVALID);
	if (!strstr(err.msg, text))
		fail_msg("%s", err.msg);
}

static void
check_tls(struct str ca, struct str cert, const struct secret *key, const char *text)
{
	check_config(&(struct tls_config){ .ca_pem = ca, .cert_pem = cert, .key_pem = key },
	             "https://h", "", text);
}

static void
refuses_bad_certificates(void **state)
{
	struct str cert = buf_str(&identity.cert_pem);
	struct secret bad = SECRET_NONE;
	struct identity other;

	(void)state;
	identity_init(&other);
	check_tls(STR("hello"), STR_EMPTY, NULL, "no certificate found in the CA data");
	check_tls(str_head(cert, cert.len - 40), STR_EMPTY, NULL, "certificate 1 of the CA data");
	check_tls(STR_EMPTY, cert, NULL, "without its private key");
	check_tls(STR_EMPTY, STR_EMPTY, &identity.key_pem, "without a client certificate");
	check_tls(STR_EMPTY, cert, &other.key_pem, "does not match");
	check_tls(STR_EMPTY, STR("x"), &identity.key_pem,
	          "no certificate found in the client certificate");
	secret_set(&bad, STR("-----BEGIN PRIVATE KEY-----\nMIIx\n-----END PRIVATE KEY-----\n"));
	check_tls(STR_EMPTY, cert, &bad, "no private key in the client key: ");
	secret_fini(&bad);
	identity_fini(&other);
}

static void
refuses_bad_urls(void **state)
{
	const struct tls_config tls = { 0 };

	(void)state;
	check_config(&tls, "h:443", "", "https://");
	check_config(&tls, "socks5://h", "", "https://");
	check_config(&tls, "https://u:p@h", "", "password");
	check_config(&tls, "https://h", "ftp://p", "proxy: ");
}

/* ---- proxies ---- */

static void
goes_through_a_proxy(void **state)
{
	WORLD(w);

	(void)state;
	start_server(&w, echo, NULL, NULL);
	w.config.proxy_url = w.config.base_url;
	w.config.base_url = STR("http://cloud.test:81/v1");
	start_client(&w);
	must_get(&w);
	assert_true(str_starts(buf_str(&w.response.body),
	                       STR("GET http://cloud.test:81/v1/path?q=1 HTTP/1.1\r\n")));
}

static bool
no_tunnel(struct visit *v)
{
	return visit_reply(v,
	                   str_starts(v->head, STR("CONNECT 10.9.9.9:6443 ")) ? "407 No" : "200 OK",
	                   "", "");
}

static void
tunnels_through_a_proxy(void **state)
{
	WORLD(w);

	(void)state;
	start_server(&w, no_tunnel, NULL, NULL);
	w.config.proxy_url = w.config.base_url;
	w.config.base_url = STR("https://10.9.9.9:6443");
	w.config.tls.server_name = STR("api.test");
	start_client(&w);
	must_fail(&w, HTTP_GET, ERR_UNAVAILABLE, "407");
}

static void
asks_the_environment_unless_a_proxy_is_given(void **state)
{
	WORLD(w);

	(void)state;
	start_server(&w, echo, NULL, NULL);
	setenv("http_proxy", w.url, 1);
	w.config.base_url = STR("http://cloud.test");
	start_client(&w);
	must_get(&w);
	assert_true(str_starts(buf_str(&w.response.body),
	                       STR("GET http://cloud.test:80/path?q=1 ")));
	http_client_free(TAKE(w.client));
	w.config.proxy_url = STR("-");
	w.config.base_url = STR("http://127.0.0.1:1");
	setenv("no_proxy", "", 1);
	setenv("NO_PROXY", "", 1);
	start_client(&w);
	must_fail(&w, HTTP_GET, ERR_UNAVAILABLE, "connection refused");
	unsetenv("http_proxy");
}

/* ---- replaced while it runs ---- */

static void
shows_another_certificate_immediately(void **state)
{
	struct tls_config tls;
	WORLD(w);

	(void)state;
	start_server(&w, tells_peer, NULL, &identity);
	start_client(&w);
	must_get(&w);
	assert_string_equal(w.response.body.ptr, "TLSv1.3 - no cert");
	tls = w.config.tls;
	tls.cert_pem = buf_str(&identity.cert_pem);
	tls.key_pem = &identity.key_pem;
	assert_true(http_client_set_tls(w.client, &tls, /*ends_streams=*/true, &w.err));
	must_get(&w);
	assert_string_equal(w.response.body.ptr, "TLSv1.3 - cert");
	assert_false(w.response.is_reused);
	/* the idle one, which is not used any more, does not stay; later ones are kept again */
	wait_for(w.server, loopback_open, 0);
	must_get(&w);
	must_get(&w);
	assert_true(w.response.is_reused);
}

static void
other_anchors_hold_for_new_connections(void **state)
{
	struct identity other;
	struct tls_config tls;
	WORLD(w);

	(void)state;
	identity_init(&other);
	start_server(&w, tells_peer, NULL, &identity);
	start_client(&w);
	must_get(&w);
	tls = w.config.tls;
	tls.ca_pem = buf_str(&other.cert_pem);
	assert_true(http_client_set_tls(w.client, &tls, /*ends_streams=*/false, &w.err));
	must_fail(&w, HTTP_GET, ERR_UNAVAILABLE, "certificate");
	assert_true(w.response.is_untrusted);
	assert_true(http_client_set_tls(w.client, &w.config.tls, /*ends_streams=*/false, &w.err));
	must_get(&w);
	tls.ca_pem = STR("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
	assert_false(http_client_set_tls(w.client, &tls, /*ends_streams=*/false, &w.err));
	assert_int_equal(w.err.code, ERR_INVALID);
	must_get(&w);
	identity_fini(&other);
}

static void
nothing_is_trusted_when_that_is_asked(void **state)
{
	WORLD(w);

	(void)state;
	start_server(&w, tells_peer, NULL, &identity);
	w.config.tls.ca_pem = STR_EMPTY;
	w.config.tls.trusts_nothing = true;
	start_client(&w);
	must_fail(&w, HTTP_GET, ERR_UNAVAILABLE, "certificate");
}

static bool
one_line_and_no_end(struct visit *v)
{
	visit_writes(v, "HTTP/1.1 200 OK\r\n\r\nline\n");
	visit_wait_gone(v);
	return false;
}

static struct http_stream *
open_stream(struct world *w)
{
	struct http_request request = { .target = STR("/watch") };
	struct http_stream *stream;
	struct str line;

	if (!http_stream_open(w->client, &w->call, &request, &stream, &w->err) ||
	    !http_stream_next(stream, now_ns() + PATIENCE_MS * MS, 100, &line, &w->err))
		fail_msg("%s", w->err.msg);
	assert_true(str_eq(line, STR("line")));
	return stream;
}

static void
streams_end_with_their_identity_only(void **state)
{
	CLEANUP(http_stream_closep) struct http_stream *stream = NULL;
	struct str line;
	WORLD(w);

	(void)state;
	start_server(&w, one_line_and_no_end, NULL, &identity);
	start_client(&w);
	stream = open_stream(&w);
	assert_true(http_client_set_tls(w.client, &w.config.tls, /*ends_streams=*/false, &w.err));
	assert_false(http_stream_next(stream, now_ns() + 100 * MS, 100, &line, &w.err));
	assert_int_equal(w.err.code, ERR_TIMEOUT);
	assert_true(http_client_set_tls(w.client, &w.config.tls, /*ends_streams=*/true, &w.err));
	assert_false(http_stream_next(stream, now_ns() + PATIENCE_MS * MS, 100, &line, &w.err));
	assert_int_equal(w.err.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(w.err.msg, "our certificates were replaced"));
	http_stream_close(TAKE(stream)); /* before its client */
}

struct watcher {
	struct http_auth auth;
	int n_failures;
};

static bool
no_credential(struct http_auth *auth, const struct call *call, struct buf *ret,
              uint64_t *ret_generation, struct error *err)
{
	(void)auth;
	(void)call;
	(void)ret;
	(void)err;
	*ret_generation = 1;
	return true;
}

static void
count_failure(struct http_auth *auth)
{
	CONTAINER_OF(auth, struct watcher, auth)->n_failures++;
}

static void
failures_of_tls_are_reported(void **state)
{
	struct watcher watcher = { .auth = { .authorize = no_credential,
		                             .tls_failed = count_failure } };
	struct http_request request = { .target = STR("/watch") };
	struct http_stream *stream;
	WORLD(w);

	(void)state;
	start_server(&w, tells_peer, NULL, &identity);
	w.config.auth = &watcher.auth;
	start_client(&w);
	must_get(&w);
	http_client_free(TAKE(w.client));
	w.config.tls.trusts_nothing = true;
	start_client(&w);
	must_fail(&w, HTTP_GET, ERR_UNAVAILABLE, "certificate");
	assert_int_equal(watcher.n_failures, 1);
	assert_false(http_stream_open(w.client, &w.call, &request, &stream, &w.err));
	assert_int_equal(watcher.n_failures, 2);
	http_client_free(TAKE(w.client));
}

static void
a_certificate_has_a_name(void **state UNUSED)
{
	CLEANUP(buf_fini) struct buf name = BUF_INIT(KIB(1));

	assert_true(http_certificate_name(buf_str(&identity.cert_pem), &name));
	assert_string_equal(name.ptr, "localhost");
	assert_false(http_certificate_name(STR("no certificate"), &name));
	assert_string_equal(name.ptr, "localhost");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verifies_the_server),
		cmocka_unit_test(another_authority_is_refused),
		cmocka_unit_test(the_name_is_checked),
		cmocka_unit_test(the_host_stays_the_address),
		cmocka_unit_test(shows_its_certificate),
		cmocka_unit_test(refuses_bad_certificates),
		cmocka_unit_test(refuses_bad_urls),
		cmocka_unit_test(goes_through_a_proxy),
		cmocka_unit_test(tunnels_through_a_proxy),
		cmocka_unit_test(asks_the_environment_unless_a_proxy_is_given),
		cmocka_unit_test(shows_another_certificate_immediately),
		cmocka_unit_test(other_anchors_hold_for_new_connections),
		cmocka_unit_test(nothing_is_trusted_when_that_is_asked),
		cmocka_unit_test(streams_end_with_their_identity_only),
		cmocka_unit_test(failures_of_tls_are_reported),
		cmocka_unit_test(a_certificate_has_a_name),
	};

	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
