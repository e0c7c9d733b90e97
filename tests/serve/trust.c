#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/issued.h"
#include "serve/server_world.h"

static struct issued authority, foreign;

static int
setup(void **state)
{
	(void)state;
	issue(&authority, &(struct issue){ .name = "ca", .is_authority = true });
	issue(&foreign, &(struct issue){ .name = "ca", .is_authority = true });
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	issued_fini(&authority);
	issued_fini(&foreign);
	return 0;
}

static void
start(struct server_world *w)
{
	CLEANUP(buf_fini) struct buf ca = BUF_INIT(MIB(1));
	CLEANUP(buf_fini) struct buf key = BUF_INIT(MIB(1));

	issued_write(&authority, &ca, &key);
	assert_true(trust_new(buf_str(&ca), &w->trust, &w->err));
	w->config.tls.is_plain = false;
	server_world_start(w);
}

/* What "/verify" says to a client that shows this, over this version of TLS. */
static void
ask(const struct server_world *w, const struct issued *shown, X509 *intermediate, int version,
    struct buf *answer)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	struct client c;

	SSL_CTX_set_max_proto_version(ctx, version);
	if (shown) {
		assert_int_equal(SSL_CTX_use_certificate(ctx, shown->cert), 1);
		assert_int_equal(SSL_CTX_use_PrivateKey(ctx, shown->key), 1);
	}
	if (intermediate)
		SSL_CTX_add1_chain_cert(ctx, intermediate);
	assert_true(client_open_tls(w->port, ctx, NULL, &c));
	client_send(&c, "GET /verify HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_int_equal(client_answer(&c, answer), 200);
	client_close(&c);
	SSL_CTX_free(ctx);
}

static void
assert_says(const struct server_world *w, const struct issued *shown, const char *text)
{
	CLEANUP(buf_fini) struct buf answer = BUF_INIT(MIB(1));

	ask(w, shown, NULL, TLS1_3_VERSION, &answer);
	if (!str_ends(buf_str(&answer), str_c(text)))
		fail_msg("not \"%s\":\n%s", text, answer.ptr);
}

/* Issues, asks, and forgets. */
static void
assert_judged(const struct server_world *w, const struct issue *how, const char *text)
{
	struct issued shown;

	issue(&shown, how);
	assert_says(w, &shown, text);
	issued_fini(&shown);
}

static void
a_trusted_certificate_names_its_user(void **state)
{
	SERVER_WORLD(w);

	(void)state;
	start(&w);
	assert_judged(&w,
	              &(struct issue){ .by = &authority,
	                               .name = "alice",
	                               .organizations = { "system:masters", "d\xc3\xa9v" },
	                               .purposes = "clientAuth" },
	              "\r\n\r\nCN=alice O=system:masters O=d\xc3\xa9v shown=1");
	/* as Go: who names no purpose may do all */
	assert_judged(&w, &(struct issue){ .by = &authority, .name = "bob" },
	              "\r\n\r\nCN=bob shown=1");
	assert_judged(&w, &(struct issue){ .by = &authority, .organizations = { "o" } },
	              "\r\n\r\nCN= O=o shown=1");
}

static void
refuses_all_others(void **state)
{
	SERVER_WORLD(w);

	(void)state;
	start(&w);
	assert_says(&w, NULL, "\r\n\r\nunauthorized: no client certificate shown=0");
	assert_judged(&w,
	              &(struct issue){
			      .by = &authority, .name = "a", .from_s = -60, .until_s = -1 },
	              "unauthorized: client certificate: certificate has expired shown=1");
	assert_judged(&w, &(struct issue){ .by = &authority, .name = "a", .from_s = 60 },
	              "unauthorized: client certificate: certificate is not yet valid shown=1");
	assert_judged(&w, &(struct issue){ .name = "self" },
	              "unauthorized: client certificate: self-signed certificate shown=1");
}

static void
refuses_other_purposes(void **state)
{
	SERVER_WORLD(w);
	CLEANUP(buf_fini) struct buf answer = BUF_INIT(MIB(1));
	struct issued shown;

	(void)state;
	start(&w);
	issue(&shown, &(struct issue){ .by = &authority, .name = "a", .purposes = "serverAuth" });
	ask(&w, &shown, NULL, TLS1_3_VERSION, &answer);
	assert_non_null(strstr(answer.ptr, "unauthorized: client certificate: un"));
	assert_null(strstr(answer.ptr, "CN=a"));
	issued_fini(&shown);
}

/* The foreign authority bears the name of ours. */
static void
refuses_a_foreign_authority(void **state)
{
	SERVER_WORLD(w);

	(void)state;
	start(&w);
	assert_judged(&w, &(struct issue){ .by = &foreign, .name = "mallory" },
	              "unauthorized: client certificate: certificate signature failure shown=1");
}

static void
follows_a_chain_in_either_version(void **state)
{
	SERVER_WORLD(w);
	CLEANUP(buf_fini) struct buf answer = BUF_INIT(MIB(1));
	struct issued middle, shown;

	(void)state;
	start(&w);
	issue(&middle, &(struct issue){ .by = &authority, .name = "middle", .is_authority = true });
	issue(&shown, &(struct issue){ .by = &middle, .name = "alice" });
	ask(&w, &shown, middle.cert, TLS1_3_VERSION, &answer);
	assert_non_null(strstr(answer.ptr, "CN=alice shown=1"));
	ask(&w, &shown, middle.cert, TLS1_2_VERSION, &answer);
	assert_non_null(strstr(answer.ptr, "CN=alice shown=1"));
	assert_says(&w, &shown, "unable to get local issuer certificate shown=1");
	issued_fini(&middle);
	issued_fini(&shown);
}

static void
takes_bundles_of_certificates_only(void **state)
{
	struct trust *trust;
	struct error err;

	(void)state;
	assert_false(trust_new(STR(""), &trust, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_false(
		trust_new(STR("-----BEGIN CERTIFICATE-----\nbm8=\n-----END CERTIFICATE-----\n"),
	                  &trust, &err));
	assert_int_equal(err.code, ERR_INVALID);
	trust_unref(NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_trusted_certificate_names_its_user),
		cmocka_unit_test(refuses_all_others),
		cmocka_unit_test(refuses_other_purposes),
		cmocka_unit_test(refuses_a_foreign_authority),
		cmocka_unit_test(follows_a_chain_in_either_version),
		cmocka_unit_test(takes_bundles_of_certificates_only),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
