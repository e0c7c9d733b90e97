#include "kube/connection.h"

#include <openssl/pem.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/child.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "http/loopback.h"
#include "fake_clock.h"

#define WALL_NS (INT64_C(1767322800) * NS_PER_SEC)

static struct identity ours, others; /* the first is the server's */

struct world {
	char folder[40];
	struct fake_clock *time;
	struct loopback *server;
	struct kube_connection *connection;
	struct kube_client *client;
	struct arena arena;
	struct call call;
	struct error err;
	struct str answer;
	/* of handlers */
	const char *welcome;   /* the Authorization header that is welcome; NULL: any */
	const char *token_end; /* is put behind each token, in JSON; NULL: nothing */
	int n_tokens;          /* asked for */
	bool has_account;      /* kube-system/node-controller */
};

/* ---- the server ---- */

/* Whose certificate it is: 'o'urs, o't'hers', or '-'. */
static char
peer_of(struct visit *v)
{
	X509 *peer = v->ssl ? SSL_get0_peer_certificate(v->ssl) : NULL;
	BIO *bio = BIO_new(BIO_s_mem());
	char *ptr;
	char found = '-';

	if (peer && PEM_write_bio_X509(bio, peer) == 1) {
		long len = BIO_get_mem_data(bio, &ptr);

		found = str_eq(str_n(ptr, (size_t)len), buf_str(&ours.cert_pem)) ? 'o' : 't';
	}
	BIO_free(bio);
	return found;
}

/* Tells the whole head, as a text of JSON, and whose certificate came with it. */
static bool
tell(struct visit *v)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(64));
	struct world *w = v->arg;

	if (w->welcome && !visit_has(v, w->welcome))
		return visit_reply(v, "401 Unauthorized", "", "{}");
	if (str_contains(v->head, STR("/stream")))
		return visit_writes(v, "HTTP/1.1 200 OK\r\n\r\nline\n") &&
		       (visit_wait_gone(v), false);
	buf_addf(&b, "{\"peer\":\"%c\",\"head\":", peer_of(v));
	json_add_str(&b, v->head);
	buf_add_char(&b, '}');
	return visit_reply(v, "200 OK",
	                   "Warning: 299 - \"v1 is old\"\r\nWarning: 299 - \"v1 is old\"\r\n",
	                   b.ptr);
}

/* An API server that gives tokens, once there is an account. */
static bool
give_tokens(struct visit *v)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));
	struct world *w = v->arg;

	if (str_starts(v->head, STR("GET")))
		return tell(v);
	if (peer_of(v) != 'o')
		return visit_reply(v, "401 Unauthorized", "", "{}");
	if (str_starts(v->head, STR("POST /api/v1/namespaces/kube-system/serviceaccounts HTTP"))) {
		w->has_account = str_contains(v->body, STR("\"node-controller\""));
		return visit_reply(v, "201 Created", "", "{}");
	}
	if (!w->has_account ||
	    !str_starts(v->head, STR("POST /api/v1/namespaces/kube-system/serviceaccounts/"
	                             "node-controller/token HTTP")) ||
	    !str_contains(v->body, STR("\"expirationSeconds\":3600")))
		return visit_reply(v, "404 Not Found", "", "{}");
	buf_addf(&b, "{\"spec\":{\"expirationSeconds\":3600},\"status\":{\"token\":\"t%d%s\"}}",
	         ++w->n_tokens, w->token_end ? w->token_end : "");
	return visit_reply(v, "201 Created", "", b.ptr);
}

/* ---- the world ---- */

static const char *
path_in(struct world *w, const char *name)
{
	return arena_printf(&w->arena, "%s/%s", w->folder, name).ptr;
}

static void
write_file(struct world *w, const char *name, struct str text)
{
	if (!file_replace(path_in(w, name), text, 0755, &w->err))
		fail_msg("%s", w->err.msg);
}

static void
write_pair(struct world *w, const struct identity *id)
{
	write_file(w, "cert", buf_str(&id->cert_pem));
	write_file(w, "key", secret_expose(&id->key_pem));
}

static struct world *
world_of(loopback_fn handle, const struct identity *server)
{
	struct world *w = xcalloc(1, sizeof(*w));

	*w = (struct world){
		.folder = "/tmp/ccmd-connection-XXXXXX",
		.time = fake_clock_new(WALL_NS),
		.call = { &clock_real, NULL, CLOCK_FOREVER, &w->arena },
	};
	assert_non_null(mkdtemp(w->folder));
	w->server = loopback_new(handle, w, server);
	write_file(w, "ca", buf_str(&ours.cert_pem));
	write_pair(w, &ours);
	return w;
}

static struct world *
world_new(loopback_fn handle)
{
	return world_of(handle, &ours);
}

static void
world_free(struct world *w)
{
	CLEANUP(child_result_fini) struct child_result result = CHILD_RESULT_INIT;
	const char *rm[] = { "rm", "-r", w->folder, NULL };

	kube_connection_close(w->connection);
	loopback_free(w->server);
	assert_true(child_run(&w->call, &(struct child_spec){ .argv = rm }, &result, &w->err));
	fake_clock_free(w->time);
	arena_fini(&w->arena);
	free(w);
}
DEFINE_CLEANUP(struct world, world_free)

static void
write_config_of(struct world *w, const char *scheme, const char *cluster, const char *user)
{
	write_file(w, "config",
	           arena_printf(&w->arena,
	                        "current-context: c\n"
	                        "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
	                        "clusters:\n- name: k\n  cluster:\n"
	                        "    server: %s://127.0.0.1:%d\n    %s\n"
	                        "users:\n- name: u\n  user:\n    %s\n",
	                        scheme, loopback_port(w->server), cluster, user));
}

static void
write_config(struct world *w, const char *cluster, const char *user)
{
	write_config_of(w, "https", cluster, user);
}

static void
open_client(struct world *w, const struct kube_client_options *options)
{
	struct kube_config_source source = { .kubeconfig = path_in(w, "config") };

	if (!w->connection &&
	    !kube_connection_open(&source, fake_clock_clock(w->time), &w->connection, &w->err))
		fail_msg("%s", w->err.msg);
	if (!kube_connection_client(w->connection, options, &w->client, &w->err))
		fail_msg("%s", w->err.msg);
}

static void
open_world(struct world *w, const char *cluster, const char *user)
{
	write_config(w, cluster, user);
	open_client(w, &(struct kube_client_options){ .name = "http" });
}

static void
pass(struct world *w, int64_t seconds)
{
	fake_clock_advance(w->time, seconds * NS_PER_SEC);
}

static bool
get(struct world *w)
{
	struct call call = w->call;

	call.deadline_mono_ns = clock_mono(&clock_real) + 10 * NS_PER_SEC;
	return kube_get(w->client, &call, STR("/x"), &w->answer, &w->err);
}

/* The answer must contain it. */
static void
must_get(struct world *w, const char *expected)
{
	if (!get(w))
		fail_msg("%s", w->err.msg);
	if (!str_contains(w->answer, str_c(expected)))
		fail_msg("%s: %" STR_FMT, expected, STR_ARG(w->answer));
}

static void
must_fail(struct world *w, enum err_code code, const char *text)
{
	assert_false(get(w));
	if (w->err.code != code || !strstr(w->err.msg, text))
		fail_msg("%s: %s", err_code_name(w->err.code), w->err.msg);
}

#define BY_FILES "certificate-authority: ca"
#define CERT_FILES "client-certificate: cert\n    client-key: key"

/* ---- what is sent ---- */

static void
each_client_has_its_name(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new(tell);

	(void)state;
	write_config(w, BY_FILES, "token: abc");
	open_client(w, &(struct kube_client_options){ .name = "http", .agent = "node-controller" });
	must_get(w, "User-Agent: ccmd/0.1.0 (linux/");
	must_get(w, ") kubernetes/unknown/node-controller\\r\\n");
	must_get(w, "Authorization: Bearer abc\\r\\n");
	open_client(w, &(struct kube_client_options){ .name = "http" });
	must_get(w, ") kubernetes/unknown\\r\\n");
	assert_true(str_starts(kube_connection_config(w->connection)->server,
	                       STR("https://127.0.0.1:")));
	assert_false(kube_connection_uses_plugin(w->connection));
}

static void
a_client_may_have_several_names(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new(tell);
	struct kube_client *client, named, other;

	(void)state;
	open_world(w, BY_FILES, "token: abc");
	client = w->client;
	named = kube_connection_named(w->connection, client, "node-controller");
	other = kube_connection_named(w->connection, &named, "route-controller");
	w->client = &named;
	must_get(w, ") kubernetes/unknown/node-controller\\r\\n");
	w->client = &other;
	must_get(w, ") kubernetes/unknown/route-controller\\r\\n");
	w->client = client;
	must_get(w, ") kubernetes/unknown\\r\\n");
}

static void
impersonation_is_in_every_request(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new(tell);

	(void)state;
	open_world(w, BY_FILES, "{token: abc, as: jane, as-groups: [a, b]}");
	for (int i = 0; i < 2; i++) {
		must_get(w, "Impersonate-User: jane\\r\\n");
		must_get(w, "Impersonate-Group: a\\r\\nImpersonate-Group: b\\r\\n");
	}
}

static void
a_warning_is_logged_once(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(64));
	CLEANUP(world_freep) struct world *w = world_new(tell);
	int fd = memfd_create("log", MFD_CLOEXEC);
	const char *first;

	(void)state;
	log_set_fd(fd);
	open_world(w, BY_FILES, "token: abc");
	must_get(w, "abc");
	must_get(w, "abc");
	log_set_fd(STDERR_FILENO);
	assert_true(lseek(fd, 0, SEEK_SET) == 0);
	assert_true(buf_reserve(&text, KIB(60)));
	buf_grown(&text, (size_t)read(fd, text.ptr, KIB(60)));
	close(fd);
	first = strstr(text.ptr, "v1 is old");
	assert_non_null(first);
	assert_null(strstr(first + 1, "v1 is old"));
}

/* ---- replaced while it runs ---- */

/* As the kubelet does it. */
static void
a_token_is_read_again_when_refused(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new(tell);
	const char *link = path_in(w, "token");

	(void)state;
	write_file(w, "token-1", STR("t1\n"));
	write_file(w, "token-2", STR("t2\n"));
	assert_int_equal(symlink("token-1", link), 0);
	open_world(w, BY_FILES, "tokenFile: token");
	must_get(w, "Bearer t1");
	assert_int_equal(symlink("token-2", path_in(w, "new")), 0);
	assert_int_equal(rename(path_in(w, "new"), link), 0);
	w->welcome = "Authorization: Bearer t2";
	must_get(w, "Bearer t2");
}

static struct http_stream *
open_stream(struct world *w)
{
	struct http_request request = { .target = STR("/stream") };
	struct http_stream *stream;
	struct str line;

	if (!http_stream_open(w->client->http, &w->call, &request, &stream, &w->err) ||
	    !http_stream_next(stream, CLOCK_FOREVER, 100, &line, &w->err))
		fail_msg("%s", w->err.msg);
	return stream;
}

static void
a_certificate_is_followed(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new(tell);
	struct http_stream *stream;
	struct str line;

	(void)state;
	open_world(w, BY_FILES, CERT_FILES);
	must_get(w, "\"peer\":\"o\"");
	stream = open_stream(w);
	write_file(w, "cert", buf_str(&others.cert_pem)); /* without its key yet */
	pass(w, 60);
	must_get(w, "\"peer\":\"o\"");
	write_pair(w, &others);
	must_get(w, "\"peer\":\"o\"");
	pass(w, 60);
	must_get(w, "\"peer\":\"t\"");
	assert_false(http_stream_next(stream, CLOCK_FOREVER, 100, &line, &w->err));
	assert_int_equal(w->err.code, ERR_UNAVAILABLE);
	http_stream_close(stream);
	unlink(path_in(w, "key"));
	pass(w, 60);
	must_get(w, "\"peer\":\"t\"");
}

static bool
wants_others(struct visit *v)
{
	return peer_of(v) == 't' ? tell(v) : visit_reply(v, "401 Unauthorized", "", "{}");
}

static void
a_refused_certificate_is_read_again_immediately(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new(wants_others);

	(void)state;
	open_world(w, BY_FILES, CERT_FILES);
	must_fail(w, ERR_UNAUTHORIZED, "401");
	write_pair(w, &others);
	must_fail(w, ERR_UNAUTHORIZED, "401"); /* once a second */
	pass(w, 1);
	must_get(w, "\"peer\":\"t\"");
}

static int64_t
n_reloads(const char *result, const char *reason)
{
	CLEANUP(buf_fini) struct buf page = BUF_INIT(MIB(1)), name = BUF_INIT(200);
	const char *found;
	struct str number, rest;
	int64_t n = 0;

	buf_addf(&name, "rest_client_transport_ca_reload_total{reason=\"%s\",result=\"%s\"} ",
	         reason, result);
	metrics_write_page(&page, METRICS_MAIN, METRICS_TEXT);
	found = strstr(page.ptr, name.ptr);
	if (found && str_cut(str_c(found + name.len), '\n', &number, &rest))
		assert_true(str_to_i64(number, 0, INT64_MAX, &n));
	return n;
}

static void
authorities_are_followed(void **state)
{
	static const char *const bad[] = { "", "garbage",
		                           "-----BEGIN CERTIFICATE-----\nAAAA\n"
		                           "-----END CERTIFICATE-----\n" };
	CLEANUP(world_freep) struct world *w = world_new(tell);
	int64_t n_updated = n_reloads("success", "updated"),
		n_empty = n_reloads("failure", "empty"),
		n_wrong = n_reloads("failure", "ca_parse_error"),
		n_unread = n_reloads("failure", "read_error");

	(void)state;
	write_file(w, "ca", buf_str(&others.cert_pem));
	open_world(w, BY_FILES, "token: abc");
	must_fail(w, ERR_UNAVAILABLE, "certificate");
	write_file(w, "ca", buf_str(&ours.cert_pem));
	pass(w, 1);
	must_fail(w, ERR_UNAVAILABLE, "certificate"); /* that is how we learn of it */
	must_get(w, "abc");
	assert_true(n_reloads("success", "updated") == n_updated + 1);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		write_file(w, "ca", str_c(bad[i]));
		pass(w, 60);
		must_get(w, "abc");
	}
	unlink(path_in(w, "ca"));
	pass(w, 60);
	must_get(w, "abc");
	assert_true(n_reloads("failure", "empty") == n_empty + 1);
	assert_true(n_reloads("failure", "ca_parse_error") == n_wrong + 2);
	assert_true(n_reloads("failure", "read_error") == n_unread + 1);
}

static void
the_kubeconfig_is_followed(void **state)
{
	CLEANUP(buf_fini) struct buf data = BUF_INIT(KIB(64));
	CLEANUP(world_freep) struct world *w = world_new(tell);

	(void)state;
	open_world(w, BY_FILES, "token: abc");
	must_get(w, "Bearer abc");
	write_config(w, BY_FILES, "token: def");
	must_get(w, "Bearer abc");
	pass(w, 60);
	must_get(w, "Bearer def");
	/* another server: all of it stays */
	write_file(w, "config",
	           STR("clusters: [{name: k, cluster: {server: https://other}}]\n"
	               "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
	               "users: [{name: u, user: {token: ghi}}]\n"
	               "current-context: c\n"));
	pass(w, 60);
	must_get(w, "Bearer def");
	write_file(w, "config", STR("{"));
	pass(w, 60);
	must_get(w, "Bearer def");
	/* from a token to a certificate, inline */
	buf_add_c(&data, "{client-certificate-data: ");
	base64_add(&data, buf_str(&others.cert_pem));
	buf_add_c(&data, ", client-key-data: ");
	base64_add(&data, secret_expose(&others.key_pem));
	buf_add_char(&data, '}');
	write_config(w, BY_FILES, data.ptr);
	pass(w, 60);
	must_get(w, "\"peer\":\"t\"");
	assert_false(str_contains(w->answer, STR("Authorization")));
}

/* The first file appears later, and then counts. */
static void
each_kubeconfig_of_a_list_is_followed(void **state)
{
	CLEANUP(buf_fini) struct buf list = BUF_INIT(KIB(1));
	CLEANUP(world_freep) struct world *w = world_new(tell);
	struct kube_config_source source = { .is_list = true };

	(void)state;
	write_config(w, BY_FILES, "token: abc");
	buf_addf(&list, "%s:", path_in(w, "first"));
	buf_add_c(&list, path_in(w, "config"));
	source.kubeconfig = list.ptr;
	if (!kube_connection_open(&source, fake_clock_clock(w->time), &w->connection, &w->err))
		fail_msg("%s", w->err.msg);
	open_client(w, &(struct kube_client_options){ .name = "http" });
	must_get(w, "Bearer abc");
	write_config(w, BY_FILES, "token: def");
	pass(w, 60);
	must_get(w, "Bearer def");
	write_file(w, "first", STR("users: [{name: u, user: {token: ghi}}]\n"));
	pass(w, 60);
	must_get(w, "Bearer ghi");
	unlink(path_in(w, "first"));
	pass(w, 60);
	must_get(w, "Bearer def");
}

static void
a_kubeconfig_is_followed_as_a_whole(void **state)
{
	static const char *const unusable[] = {
		"token: def\n    client-certificate: cert\n    client-key: other-key",
		"token: def\n    client-certificate: nonsense\n    client-key: key",
	};
	CLEANUP(world_freep) struct world *w = world_new(tell);

	(void)state;
	write_file(w, "other-key", secret_expose(&others.key_pem));
	write_file(w, "nonsense",
	           STR("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"));
	open_world(w, BY_FILES, "token: abc");
	must_get(w, "Bearer abc");
	for (size_t i = 0; i < ARRAY_LEN(unusable); i++) {
		write_config(w, BY_FILES, unusable[i]);
		pass(w, 60);
		must_get(w, "Bearer abc");
	}
	write_config(w, BY_FILES, "token: def\n    client-certificate: cert\n    client-key: key");
	pass(w, 60);
	must_get(w, "Bearer def");
	assert_true(str_contains(w->answer, STR("\"peer\":\"o\"")));
}

/* ---- plugins ---- */

#define V1 "client.authentication.k8s.io/v1"
#define PLUGIN "exec: {command: ./plugin, interactiveMode: Never, apiVersion: " V1 "}"

static void
write_plugin(struct world *w, const char *status)
{
	write_file(w, "plugin", STR("#!/bin/sh\ncat \"${0%/*}/answer\"\n"));
	write_file(w, "answer",
	           arena_printf(&w->arena,
	                        "{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1
	                        "\",\"status\":{%s}}",
	                        status));
}

static const char *
pair_json(struct world *w, const struct identity *id)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(64));

	buf_add_c(&b, "\"clientCertificateData\":");
	json_add_str(&b, buf_str(&id->cert_pem));
	buf_add_c(&b, ",\"clientKeyData\":");
	json_add_str(&b, secret_expose(&id->key_pem));
	return arena_strz(&w->arena, buf_str(&b));
}

static void
a_plugin_gives_tokens(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new(tell);

	(void)state;
	write_plugin(w, "\"token\":\"p1\"");
	open_world(w, BY_FILES, PLUGIN);
	assert_true(kube_connection_uses_plugin(w->connection));
	must_get(w, "Bearer p1");
	write_plugin(w, "\"token\":\"p2\"");
	pass(w, 1);
	w->welcome = "Authorization: Bearer p2";
	must_get(w, "Bearer p2");
	write_plugin(w, "");
	pass(w, 1);
	w->welcome = "Authorization: Bearer p3";
	must_fail(w, ERR_UNAUTHORIZED, "neither a token nor a client certificate");
}

static void
a_plugin_gives_certificates(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new(tell);

	(void)state;
	write_plugin(w, pair_json(w, &ours));
	open_world(w, BY_FILES, PLUGIN);
	must_get(w, "\"peer\":\"o\"");
	assert_false(str_contains(w->answer, STR("Authorization")));
	/* a kubeconfig that differs only in a comment changes nothing */
	write_config(w, BY_FILES, PLUGIN "\n# other");
	pass(w, 60);
	must_get(w, "\"peer\":\"o\"");
	write_plugin(w, pair_json(w, &others));
	w->welcome = "Authorization: none";
	must_fail(w, ERR_UNAUTHORIZED, "401");
	w->welcome = NULL;
	must_get(w, "\"peer\":\"t\"");
	write_plugin(w, "\"clientCertificateData\":\"x\",\"clientKeyData\":\"y\"");
	w->welcome = "Authorization: none";
	pass(w, 1);
	must_fail(w, ERR_UNAUTHORIZED, "401");
	w->welcome = NULL;
	must_get(w, "\"peer\":\"t\"");
}

/* ---- service accounts ---- */

static void
a_service_account_is_made_and_used(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new(give_tokens);

	(void)state;
	write_config(w, BY_FILES, CERT_FILES "\n    as: jane");
	open_client(w, &(struct kube_client_options){ .name = "http",
	                                              .agent = "ignored",
	                                              .service_account = "node-controller" });
	must_get(w, "Bearer t1");
	assert_true(str_contains(w->answer, STR("\"peer\":\"-\"")));
	assert_true(str_contains(w->answer,
	                         STR("/system:serviceaccount:kube-system:node-controller")));
	assert_false(str_contains(w->answer, STR("Impersonate")));
	pass(w, 2879);
	must_get(w, "Bearer t1");
	pass(w, 1);
	must_get(w, "Bearer t2");
	/* the account was created again */
	w->welcome = "Authorization: Bearer t3";
	must_get(w, "Bearer t3");
	w->welcome = "Authorization: Bearer none";
	must_fail(w, ERR_UNAUTHORIZED, "401");
	assert_int_equal(w->n_tokens, 3);
}

/* For example a proxy on the same machine that has credentials of its own. */
static void
no_token_of_an_account_goes_over_plain_http(void **state)
{
	CLEANUP(world_freep) struct world *w = world_of(tell, /*server=*/NULL);

	(void)state;
	write_config_of(w, "http", "insecure-skip-tls-verify: false", "token: abc");
	open_client(w, &(struct kube_client_options){ .name = "http",
	                                              .agent = "node-controller",
	                                              .service_account = "node-controller" });
	assert_true(w->client->is_plain);
	must_get(w, "/node-controller");
	assert_false(str_contains(w->answer, STR("Authorization")));
	assert_false(str_contains(w->answer, STR("serviceaccount")));
	assert_int_equal(loopback_requests(w->server), 1);
}

/* With line ends in a token, the API server could add headers to our requests. */
static void
a_token_of_an_account_cannot_end_the_header(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new(give_tokens);

	(void)state;
	w->token_end = "\\r\\nImpersonate-User: root";
	write_config(w, BY_FILES, CERT_FILES);
	open_client(w, &(struct kube_client_options){ .name = "http",
	                                              .service_account = "node-controller" });
	must_fail(w, ERR_UNAUTHORIZED, "characters that are not allowed");
}

static bool
forbids(struct visit *v)
{
	return visit_reply(v, "403 Forbidden", "",
	                   "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"no\"}");
}

static void
a_missing_right_to_request_tokens_is_reported(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new(forbids);

	(void)state;
	write_config(w, BY_FILES, CERT_FILES);
	open_client(w, &(struct kube_client_options){ .name = "http",
	                                              .service_account = "node-controller" });
	must_fail(w, ERR_UNAUTHORIZED,
	          "token of service account kube-system/node-controller: POST ");
	assert_int_equal(loopback_requests(w->server), 1);
}

static void
a_failing_renewal_is_no_harm(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new(give_tokens);

	(void)state;
	write_config(w, BY_FILES, CERT_FILES);
	open_client(w, &(struct kube_client_options){ .name = "http",
	                                              .service_account = "node-controller" });
	must_get(w, "Bearer t1");
	w->has_account = false;
	write_pair(w, &others); /* the server refuses its requests for tokens */
	pass(w, 3000);
	must_get(w, "Bearer t1");
	pass(w, 601);
	write_pair(w, &ours);
	must_get(w, "Bearer t2");
}

/* ---- the server's certificate ---- */

static void
a_wrong_authority_ends_the_start(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new(tell);
	int64_t before_ns = clock_mono(&clock_real);

	(void)state;
	write_file(w, "ca", buf_str(&others.cert_pem));
	open_world(w, BY_FILES, "token: abc");
	w->client->clock = &clock_real;
	assert_false(kube_wait_healthy(w->client, &w->call, 10000, &w->err));
	assert_true(clock_mono(&clock_real) - before_ns < 5 * NS_PER_SEC);
	assert_non_null(strstr(w->err.msg, "the API server's certificate cannot be verified: "));
}

static int
set_up(void **state)
{
	(void)state;
	identity_init(&ours);
	identity_init(&others);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	identity_fini(&ours);
	identity_fini(&others);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_client_has_its_name),
		cmocka_unit_test(a_client_may_have_several_names),
		cmocka_unit_test(impersonation_is_in_every_request),
		cmocka_unit_test(a_warning_is_logged_once),
		cmocka_unit_test(a_token_is_read_again_when_refused),
		cmocka_unit_test(a_certificate_is_followed),
		cmocka_unit_test(a_refused_certificate_is_read_again_immediately),
		cmocka_unit_test(authorities_are_followed),
		cmocka_unit_test(the_kubeconfig_is_followed),
		cmocka_unit_test(each_kubeconfig_of_a_list_is_followed),
		cmocka_unit_test(a_kubeconfig_is_followed_as_a_whole),
		cmocka_unit_test(a_plugin_gives_tokens),
		cmocka_unit_test(a_plugin_gives_certificates),
		cmocka_unit_test(a_service_account_is_made_and_used),
		cmocka_unit_test(no_token_of_an_account_goes_over_plain_http),
		cmocka_unit_test(a_token_of_an_account_cannot_end_the_header),
		cmocka_unit_test(a_missing_right_to_request_tokens_is_reported),
		cmocka_unit_test(a_failing_renewal_is_no_harm),
		cmocka_unit_test(a_wrong_authority_ends_the_start),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
