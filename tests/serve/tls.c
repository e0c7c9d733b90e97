#include <fcntl.h>
#include <ftw.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/log.h"
#include "http/issued.h"
#include "serve/internal.h"
#include "serve/server_world.h"
#include "fake_clock.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define DAY_NS (24 * 3600 * NS_PER_SEC)

static char folder[] = "/tmp/ccmd-server-XXXXXX";
static SSL_CTX *client_ctx;

static int
setup(void **state)
{
	(void)state;
	client_ctx = SSL_CTX_new(TLS_client_method());
	log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	return mkdtemp(folder) ? 0 : -1;
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int
teardown(void **state)
{
	(void)state;
	SSL_CTX_free(client_ctx);
	return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static atomic_size_t n_searched; /* bytes that memmem() was asked to look at */

/* Replaces the C library's, to count. */
void *
memmem(const void *bytes, size_t len, const void *part, size_t part_len)
{
	const char *at = bytes;

	atomic_fetch_add(&n_searched, len);
	for (; len >= part_len; at++, len--) {
		if (memcmp(at, part, part_len) == 0)
			return (void *)(uintptr_t)at;
	}
	return NULL;
}

static void
assert_served_by(const struct server_world *w, const char *name, const char *common_name)
{
	char text[100];
	struct client c;

	assert_true(client_open_tls(w->port, client_ctx, name, &c));
	X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(c.ssl)),
	                          NID_commonName, text, sizeof(text));
	assert_string_equal(text, common_name);
	client_send(&c, GET("/"));
	assert_int_equal(client_answer(&c, NULL), 200);
	client_close(&c);
}

/* folder/NAME.crt and .key */
static struct server_certificate
files_of(const char *name)
{
	static char paths[16][100];
	static size_t n;
	char *cert = paths[n++ % 16], *key = paths[n++ % 16];

	(void)snprintf(cert, sizeof(paths[0]), "%s/%s.crt", folder, name);
	(void)snprintf(key, sizeof(paths[0]), "%s/%s.key", folder, name);
	return (struct server_certificate){ .cert_file = str_c(cert), .key_file = str_c(key) };
}

static struct server_certificate
write_issued(const char *name, const char *common_name, const char *alternatives)
{
	CLEANUP(buf_fini) struct buf cert = BUF_INIT(MIB(1));
	CLEANUP(buf_fini) struct buf key = BUF_INIT(MIB(1));
	struct server_certificate files = files_of(name);
	struct issued issued;
	struct error err;

	issue(&issued, &(struct issue){ .name = common_name, .alternatives = alternatives });
	issued_write(&issued, &cert, &key);
	issued_fini(&issued);
	assert_true(file_replace(files.cert_file.ptr, buf_str(&cert), 0644, &err));
	assert_true(file_replace(files.key_file.ptr, buf_str(&key), 0600, &err));
	return files;
}

static void
reload(struct server_world *w)
{
	server_world_stop(w);
	server_reload(w->server);
	server_world_go_on(w);
}

static void
makes_its_own_certificate(void **state)
{
	SERVER_WORLD(w);
	struct client c;
	X509 *cert;

	(void)state;
	w.config.tls.is_plain = false;
	server_world_start(&w);
	assert_true(client_open_tls(w.port, client_ctx, NULL, &c));
	cert = SSL_get0_peer_certificate(c.ssl);
	assert_int_equal(X509_check_host(cert, "localhost", 0, 0, NULL), 1);
	assert_int_equal(X509_check_ip_asc(cert, "127.0.0.1", 0), 1);
	assert_int_equal(X509_check_ip_asc(cert, "::1", 0), 1);
	client_send(&c, GET("/"));
	assert_int_equal(client_answer(&c, NULL), 200);
	client_close(&c);
}

static void
its_certificate_has_the_configured_names(void **state)
{
	static const char *const names[] = { "ccm.example", "192.0.2.7", "fd00::7", NULL };
	static const char *const bad[] = { "a,DNS:evil", NULL };
	EVP_PKEY *key;
	X509 *cert;
	struct error err;

	(void)state;
	assert_true(self_signed_new(names, clock_wall(&clock_real), &cert, &key, &err));
	assert_int_equal(X509_check_host(cert, "ccm.example", 0, 0, NULL), 1);
	assert_int_equal(X509_check_host(cert, "localhost", 0, 0, NULL), 0);
	assert_int_equal(X509_check_ip_asc(cert, "192.0.2.7", 0), 1);
	assert_int_equal(X509_check_ip_asc(cert, "fd00::7", 0), 1);
	X509_free(cert);
	EVP_PKEY_free(key);
	assert_false(self_signed_new(bad, clock_wall(&clock_real), &cert, &key, &err));
	assert_int_equal(err.code, ERR_INVALID);
}

static void
read_serial(const struct server_world *w, char *ret, size_t size)
{
	struct client c;
	BIGNUM *number;
	char *text;

	assert_true(client_open_tls(w->port, client_ctx, NULL, &c));
	number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(SSL_get0_peer_certificate(c.ssl)), NULL);
	text = BN_bn2hex(number);
	(void)snprintf(ret, size, "%s", text);
	OPENSSL_free(text);
	BN_free(number);
	client_close(&c);
}

/* A year, of which 80 % are 292 days. */
static void
assert_renewed_in_time(struct server_world *w, struct fake_clock *clock)
{
	char first[64], then[64];

	server_world_start(w);
	read_serial(w, first, sizeof(first));
	fake_clock_advance(clock, 291 * DAY_NS);
	reload(w);
	read_serial(w, then, sizeof(then));
	assert_string_equal(first, then);
	fake_clock_advance(clock, 2 * DAY_NS);
	reload(w);
	read_serial(w, then, sizeof(then));
	assert_string_not_equal(first, then);
	reload(w);
	read_serial(w, first, sizeof(first));
	assert_string_equal(first, then);
}

static void
renews_its_own_certificate(void **state)
{
	SERVER_WORLD(w);
	struct fake_clock *clock = fake_clock_new(clock_wall(&clock_real));

	(void)state;
	w.config.tls.is_plain = false;
	w.config.clock = fake_clock_clock(clock);
	assert_renewed_in_time(&w, clock);
	server_world_stop(&w);
	server_free(TAKE(w.server));
	fake_clock_free(clock);
}

static void
keeps_its_own_certificate_in_a_folder(void **state)
{
	SERVER_WORLD(w);
	struct fake_clock *clock = fake_clock_new(clock_wall(&clock_real));
	char kept[64], shown[64], path[100], key[120];
	struct stat st;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/certs", folder);
	(void)snprintf(key, sizeof(key), "%s/ccm.key", path);
	w.config.tls = (struct server_tls){ .cert_folder = str_c(path), .pair_name = "ccm" };
	w.config.clock = fake_clock_clock(clock);
	assert_renewed_in_time(&w, clock);
	assert_int_equal(stat(key, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);

	read_serial(&w, kept, sizeof(kept)); /* the next process finds it */
	server_world_stop(&w);
	server_free(TAKE(w.server));
	server_world_start(&w);
	read_serial(&w, shown, sizeof(shown));
	assert_string_equal(kept, shown);

	server_world_stop(&w);
	server_free(TAKE(w.server));
	assert_int_equal(unlink(key), 0); /* half a pair is a mistake, and left alone */
	assert_false(server_new(&w.config, &w.server, &w.err));
	assert_int_equal(w.err.code, ERR_NOT_FOUND);
	assert_non_null(strstr(w.err.msg, "ccm.key"));
	fake_clock_free(clock);
}

static void
chooses_by_name(void **state)
{
	SERVER_WORLD(w);
	struct server_certificate sni[] = {
		write_issued("wild", "wild", NULL),
		write_issued("own", "own", "DNS:a.own.test,DNS:*.wild.own.test"),
		write_issued("exact", "exact", NULL),
	};

	(void)state;
	sni[0].names = STR("*.example.com, other.test");
	sni[2].names = STR("a.example.com");
	w.config.tls = (struct server_tls){ .main = write_issued("main", "main", NULL),
		                            .sni = sni,
		                            .n_sni = ARRAY_LEN(sni) };
	server_world_start(&w);
	assert_served_by(&w, NULL, "main");
	assert_served_by(&w, "unknown.test", "main");
	assert_served_by(&w, "b.example.com", "wild");
	assert_served_by(&w, "B.Example.COM", "wild");
	assert_served_by(&w, "other.test", "wild");
	assert_served_by(&w, "a.example.com", "exact");
	assert_served_by(&w, "b.a.example.com", "main");
	assert_served_by(&w, "example.com", "main");
	assert_served_by(&w, "a.own.test", "own");
	assert_served_by(&w, "b.wild.own.test", "own");
}

static void
reads_changed_files_again(void **state)
{
	SERVER_WORLD(w);
	struct error err;
	struct server_certificate files = write_issued("turn", "first", NULL);
	struct client old;

	(void)state;
	w.config.tls = (struct server_tls){ .main = files };
	server_world_start(&w);
	assert_true(client_open_tls(w.port, client_ctx, NULL, &old));
	assert_served_by(&w, NULL, "first");
	(void)write_issued("turn", "second", NULL);
	assert_served_by(&w, NULL, "first");
	reload(&w);
	assert_served_by(&w, NULL, "second");
	assert_true(file_replace(files.key_file.ptr, STR("nonsense"), 0600, &err));
	reload(&w);
	assert_served_by(&w, NULL, "second");
	assert_int_equal(unlink(files.cert_file.ptr), 0);
	reload(&w);
	assert_served_by(&w, NULL, "second");
	(void)write_issued("turn", "third", NULL);
	reload(&w);
	assert_served_by(&w, NULL, "third");
	client_send(&old, GET("/")); /* what was open stays */
	assert_int_equal(client_answer(&old, NULL), 200);
	client_close(&old);
}

static void
assert_refused(struct server_world *w, const char *text)
{
	assert_false(server_new(&w->config, &w->server, &w->err));
	assert_int_equal(w->err.code, ERR_INVALID);
	if (!strstr(w->err.msg, text))
		fail_msg("no \"%s\" in: %s", text, w->err.msg);
}

static void
says_what_cannot_be_used(void **state)
{
	SERVER_WORLD(w);
	struct server_certificate one = write_issued("one", "one", NULL);
	struct server_certificate two = write_issued("two", "two", NULL);

	(void)state;
	w.config.tls = (struct server_tls){ .main = { .cert_file = one.cert_file,
		                                      .key_file = two.key_file } };
	assert_refused(&w, "two.key is not the key of the certificate in ");
	w.config.tls.main.cert_file = two.key_file;
	assert_refused(&w, "no certificate found in ");
	w.config.tls = (struct server_tls){ .ciphers = STR("NOTHING") };
	assert_refused(&w, "cipher suites NOTHING: ");
	w.config.tls = (struct server_tls){ .groups = STR("P-1") };
	assert_refused(&w, "curves P-1: ");
	w.config.tls = (struct server_tls){ .main = files_of("absent") };
	assert_false(server_new(&w.config, &w.server, &w.err));
	assert_int_equal(w.err.code, ERR_NOT_FOUND);
}

static bool
can_connect(const struct server_world *w, int max_version, const char *ciphers)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	struct client c;
	bool can;

	SSL_CTX_set_security_level(ctx, 0);
	SSL_CTX_set_max_proto_version(ctx, max_version);
	assert_int_equal(SSL_CTX_set_cipher_list(ctx, ciphers), 1);
	can = client_open_tls(w->port, ctx, NULL, &c);
	if (can)
		client_close(&c);
	SSL_CTX_free(ctx);
	return can;
}

static void
speaks_new_versions_and_good_ciphers_only(void **state)
{
	SERVER_WORLD(w);

	(void)state;
	w.config.tls.is_plain = false;
	server_world_start(&w);
	assert_true(can_connect(&w, TLS1_3_VERSION, "ALL"));
	assert_true(can_connect(&w, TLS1_2_VERSION, "ECDHE-ECDSA-AES128-GCM-SHA256"));
	assert_false(can_connect(&w, TLS1_2_VERSION, "ECDHE-ECDSA-AES128-SHA"));
	assert_false(can_connect(&w, TLS1_1_VERSION, "ALL"));
	server_world_stop(&w);
	server_free(TAKE(w.server));
	w.config.tls.min_version = TLS1_3_VERSION;
	server_world_start(&w);
	assert_false(can_connect(&w, TLS1_2_VERSION, "ALL"));
	assert_true(can_connect(&w, TLS1_3_VERSION, "ALL"));
}

static void
speaks_http1_to_clients_that_offer_more(void **state)
{
	SERVER_WORLD(w);
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	const unsigned char *chosen;
	struct client c;
	unsigned len;

	(void)state;
	w.config.tls.is_plain = false;
	server_world_start(&w);
	SSL_CTX_set_alpn_protos(ctx, (const unsigned char *)"\x02h2\x08http/1.1", 12);
	assert_true(client_open_tls(w.port, ctx, NULL, &c));
	SSL_get0_alpn_selected(c.ssl, &chosen, &len);
	assert_true(str_eq_c(str_n((const char *)chosen, len), "http/1.1"));
	client_close(&c);
	SSL_CTX_set_alpn_protos(ctx, (const unsigned char *)"\x02h2", 3);
	assert_false(client_open_tls(w.port, ctx, NULL, &c));
	SSL_CTX_free(ctx);
}

static void
plain_clients_are_asked_to_use_tls(void **state)
{
	SERVER_WORLD(w);
	struct client c;
	char text[200] = "";

	(void)state;
	w.config.tls.is_plain = false;
	server_world_start(&w);
	c = client_open(w.port);
	client_send(&c, GET("/"));
	assert_true(recv(c.fd, text, sizeof(text) - 1, MSG_WAITALL) > 0);
	assert_non_null(strstr(text, "400 Bad Request\r\n\r\nClient sent an HTTP request to an "
	                             "HTTPS server."));
	client_close(&c);
	assert_served_by(&w, NULL, "localhost");
}

/* Garbage, half a handshake, and one that starts a second handshake within the first's session. */
static void
rude_handshakes_are_ended(void **state)
{
	SERVER_WORLD(w);
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	struct client c;

	(void)state;
	w.config.tls.is_plain = false;
	w.limits.headers_ms = 1500;
	server_world_start(&w);
	c = client_open(w.port);
	client_send(&c, "\x01\x02\x03garbage that is not TLS");
	assert_true(client_is_closed(&c, 1000));
	client_close(&c);

	c = client_open(w.port);
	client_send(&c, "\x16\x03\x01\x02");
	assert_served_by(&w, NULL, "localhost");
	assert_true(client_is_closed(&c, 5000));
	client_close(&c);

	SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
	assert_true(client_open_tls(w.port, ctx, NULL, &c));
	assert_int_equal(SSL_renegotiate(c.ssl), 1);
	assert_int_not_equal(SSL_do_handshake(c.ssl), 1);
	client_close(&c);
	ERR_clear_error();
	SSL_CTX_free(ctx);
	assert_served_by(&w, NULL, "localhost");
}

static void
many_handshakes_do_not_keep_others_out(void **state)
{
	SERVER_WORLD(w);
	struct client clients[2 * LIMIT_SERVER_CONNECTIONS];
	int64_t start;

	(void)state;
	w.config.tls.is_plain = false;
	server_world_start(&w);
	for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
		clients[i] = client_open(w.port);
		client_send(&clients[i], "\x16\x03\x01");
	}
	start = clock_mono(&clock_real);
	assert_served_by(&w, NULL, "localhost");
	assert_true(clock_mono(&clock_real) - start < SOON_MS * NS_PER_MS);
	for (size_t i = 0; i < ARRAY_LEN(clients); i++)
		client_close(&clients[i]);
}

static void
large_answers_go_through_tls(void **state)
{
	SERVER_WORLD(w);
	struct client c;

	(void)state;
	w.config.tls.is_plain = false;
	server_world_start(&w);
	assert_true(client_open_tls(w.port, client_ctx, NULL, &c));
	client_send(&c, GET("/big") GET("/later") GET("/big"));
	assert_int_equal(client_answer(&c, NULL), 200);
	assert_int_equal(client_answer(&c, NULL), 200);
	assert_int_equal(client_answer(&c, NULL), 200);
	client_close(&c);
}

/* One read gives at most one TLS record, so a client that sends one byte in each record causes a
 * search after each byte. */
static void
a_head_in_many_pieces_is_searched_once(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: x\r\nA: ";
	SERVER_WORLD(w);
	struct client c;
	size_t n_before;

	(void)state;
	w.config.tls.is_plain = false;
	server_world_start(&w);
	assert_true(client_open_tls(w.port, client_ctx, NULL, &c));
	n_before = n_searched;
	for (size_t i = 0; i < sizeof(text) - 1; i++)
		client_send(&c, (char[]){ text[i], '\0' });
	for (size_t i = 0; i < 2000; i++)
		client_send(&c, "a");
	client_send(&c, "\r\n\r\n");
	assert_int_equal(client_answer(&c, NULL), 200);
	assert_in_range(n_searched - n_before, 2000, 16 * 2000);
	client_close(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(makes_its_own_certificate),
		cmocka_unit_test(its_certificate_has_the_configured_names),
		cmocka_unit_test(renews_its_own_certificate),
		cmocka_unit_test(keeps_its_own_certificate_in_a_folder),
		cmocka_unit_test(chooses_by_name),
		cmocka_unit_test(reads_changed_files_again),
		cmocka_unit_test(says_what_cannot_be_used),
		cmocka_unit_test(speaks_new_versions_and_good_ciphers_only),
		cmocka_unit_test(speaks_http1_to_clients_that_offer_more),
		cmocka_unit_test(plain_clients_are_asked_to_use_tls),
		cmocka_unit_test(rude_handshakes_are_ended),
		cmocka_unit_test(many_handshakes_do_not_keep_others_out),
		cmocka_unit_test(large_answers_go_through_tls),
		cmocka_unit_test(a_head_in_many_pieces_is_searched_once),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
