/* tests/flags/serving.c: the flags of the HTTPS server. */
#include "line.h"

#include <openssl/ssl.h>

static void
expect_str(struct str got, const char *wanted)
{
	assert_true(str_eq_c(got, wanted));
}

static void
cipher_suites_are_those_of_openssl(void **state)
{
	const struct server_tls *s = &line_options.serving.secure.tls;

	(void)state;
	EXPECT_WARNINGS("", "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,"
	                    "TLS_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305");
	expect_str(s->ciphers, "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305");
	expect_str(s->ciphersuites, "TLS_AES_256_GCM_SHA384");
	assert_int_equal(s->min_version, TLS1_2_VERSION);
	EXPECT_WARNINGS("", "--tls-cipher-suites=TLS_AES_128_GCM_SHA256");
	expect_str(s->ciphers, "");
	assert_int_equal(s->min_version, TLS1_3_VERSION);
}

static void
a_broken_cipher_suite_is_never_used(void **state)
{
	(void)state;
	EXPECT_WARNINGS(
		"--tls-cipher-suites: TLS_RSA_WITH_RC4_128_SHA is broken and never used\n",
		"--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA,TLS_RSA_WITH_AES_128_GCM_SHA256");
	expect_str(line_options.serving.secure.tls.ciphers, "AES128-GCM-SHA256");
	EXPECT_PROBLEMS("--tls-cipher-suites: none of these suites can be used",
	                "--tls-cipher-suites=TLS_RSA_WITH_3DES_EDE_CBC_SHA");
	EXPECT_PROBLEMS("--tls-cipher-suites: unknown cipher suite \"ECDHE\"",
	                "--tls-cipher-suites=ECDHE");
}

/* Every name we hand on is one that OpenSSL takes. */
static void
openssl_takes_every_name(void **state)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

	(void)state;
	assert_int_equal(
		PARSE("--tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256",
	              "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
	              "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
	              "--tls-cipher-suites=TLS_RSA_WITH_AES_128_CBC_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
	              "--tls-curve-preferences=23,24,25,29"),
		FLAGS_RUN);
	assert_int_equal(SSL_CTX_set_cipher_list(ctx, line_options.serving.secure.tls.ciphers.ptr),
	                 1);
	assert_int_equal(SSL_CTX_set_ciphersuites(ctx,
	                                          line_options.serving.secure.tls.ciphersuites.ptr),
	                 1);
	assert_int_equal(SSL_CTX_set1_groups_list(ctx, line_options.serving.secure.tls.groups.ptr),
	                 1);
	SSL_CTX_free(ctx);
}

static void
versions_older_than_1_2_are_raised(void **state)
{
	(void)state;
	EXPECT_WARNINGS("--tls-min-version: VersionTLS10 is treated as VersionTLS12\n",
	                "--tls-min-version=VersionTLS10");
	assert_int_equal(line_options.serving.secure.tls.min_version, TLS1_2_VERSION);
	EXPECT_WARNINGS("", "--tls-min-version=VersionTLS13");
	assert_int_equal(line_options.serving.secure.tls.min_version, TLS1_3_VERSION);
	EXPECT_PROBLEMS("--tls-min-version: want VersionTLS12 or VersionTLS13, got \"1.2\"",
	                "--tls-min-version=1.2");
}

static void
curves_have_numbers_and_names(void **state)
{
	(void)state;
	EXPECT_WARNINGS("", "--tls-curve-preferences=29,CurveP256");
	expect_str(line_options.serving.secure.tls.groups, "X25519:P-256");
	EXPECT_PROBLEMS("--tls-curve-preferences: unknown key exchange \"26\"",
	                "--tls-curve-preferences=26");
	assert_int_equal(PARSE("--tls-curve-preferences=4588,29"), FLAGS_RUN);
	if (OpenSSL_version_num() >= 0x30500000UL)
		expect_str(line_options.serving.secure.tls.groups, "X25519MLKEM768:X25519");
	else
		assert_string_equal(
			line_warnings.ptr,
			"--tls-curve-preferences: X25519MLKEM768 needs OpenSSL 3.5, ignoring it\n");
}

static void
certificates_come_with_keys_and_names(void **state)
{
	const struct server_tls *s = &line_options.serving.secure.tls;

	(void)state;
	assert_int_equal(PARSE("--tls-sni-cert-key=a.crt,a.key",
	                       "--tls-sni-cert-key= b.crt , b.key :*.b.org,b.org"),
	                 FLAGS_RUN);
	assert_int_equal(s->n_sni, 2);
	expect_str(s->sni[0].cert_file, "a.crt");
	expect_str(s->sni[0].key_file, "a.key");
	expect_str(s->sni[0].names, "");
	expect_str(s->sni[1].cert_file, "b.crt");
	expect_str(s->sni[1].key_file, "b.key");
	expect_str(s->sni[1].names, "*.b.org,b.org");
	EXPECT_PROBLEMS("--tls-sni-cert-key: want cert,key or cert,key:name,name, got \"a\"\n"
	                "--tls-sni-cert-key: want cert,key or cert,key:name,name, got \"a,b:\"\n"
	                "--tls-sni-cert-key: want cert,key or cert,key:name,name, got \"a,b,c\"\n"
	                "--tls-sni-cert-key: want cert,key or cert,key:name,name, got \",b\"",
	                "--tls-sni-cert-key=a",
	                "--tls-sni-cert-key=a,b:", "--tls-sni-cert-key=a,b,c",
	                "--tls-sni-cert-key=,b");
	EXPECT_PROBLEMS("--tls-cert-file and --tls-private-key-file must be given together",
	                "--tls-cert-file=a.crt");
}

static void
metrics_may_be_plain_elsewhere(void **state)
{
	static const struct {
		const char *text, *host;
		int port;
	} good[] = {
		{ "", "", 0 },
		{ ":8233", "0.0.0.0", 8233 },
		{ "127.0.0.1:1", "127.0.0.1", 1 },
		{ "[::1]:65535", "::1", 65535 },
	};
	static const char *const bad[] = { "8233",    "::1:80",     "[::1]", "[]:80",
		                           ":0",      ":65536",     ":",     "localhost:80",
		                           "[::1:80", "1.2.3.4:80x" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_int_equal(PARSE("--metrics-bind-address", good[i].text), FLAGS_RUN);
		assert_int_equal(line_options.serving.metrics.port, good[i].port);
		if (good[i].port)
			expect_str(line_options.serving.metrics.address, good[i].host);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(PARSE("--metrics-bind-address", bad[i]), FLAGS_BAD);
	EXPECT_PROBLEMS(
		"--metrics-bind-address: want an IP address and a port, such as 127.0.0.1:8233 or :8233, got \"x\"",
		"--metrics-bind-address=x");
	EXPECT_PROBLEMS("--metrics-bind-address and --secure-port must differ",
	                "--metrics-bind-address=:10258");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cipher_suites_are_those_of_openssl),
		cmocka_unit_test(a_broken_cipher_suite_is_never_used),
		cmocka_unit_test(openssl_takes_every_name),
		cmocka_unit_test(versions_older_than_1_2_are_raised),
		cmocka_unit_test(curves_have_numbers_and_names),
		cmocka_unit_test(certificates_come_with_keys_and_names),
		cmocka_unit_test(metrics_may_be_plain_elsewhere),
	};

	return cmocka_run_group_tests(tests, NULL, line_fini);
}
