#include "kube/credentials.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/child.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "fake_clock.h"

#define V1 "client.authentication.k8s.io/v1"
#define HEAD "{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1 "\",\"status\":"
#define WALL_NS (INT64_C(1767322800) * NS_PER_SEC) /* 2026-01-02T03:00:00Z */

struct world {
	char folder[40];
	struct fake_clock *time;
	struct arena arena;
	struct kube_exec exec;
	struct kube_config config;
	struct exec_plugin *plugin;
	struct call call;
	struct buf token;
	struct error err;
	uint64_t generation;
};

static const char *
path_in(struct world *w, const char *name)
{
	return arena_printf(&w->arena, "%s/%s", w->folder, name).ptr;
}

static void
write_file(struct world *w, const char *name, const char *text)
{
	if (!file_replace(path_in(w, name), str_c(text), 0755, &w->err))
		fail_msg("%s", w->err.msg);
}

static const char *
read_file(struct world *w, const char *name)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(64));

	if (!file_read(path_in(w, name), &text, &w->err))
		fail_msg("%s", w->err.msg);
	return arena_strz(&w->arena, buf_str(&text));
}

/* The plugin counts its runs in a file and then runs `script` in its folder. */
static void
start(struct world *w, const char *script)
{
	static const char *const no_env[] = { NULL };
	const char **argv = arena_calloc(&w->arena, 2, sizeof(*argv));

	write_file(w, "plugin",
	           arena_printf(&w->arena, "#!/bin/sh\ncd %s\necho run >>runs\n%s\n", w->folder,
	                        script)
	                   .ptr);
	argv[0] = path_in(w, "plugin");
	w->exec = (struct kube_exec){
		.argv = argv,
		.env = w->exec.env ? w->exec.env : no_env,
		.api_version = STR(V1),
		.install_hint = w->exec.install_hint,
		.wants_cluster = w->exec.wants_cluster,
		.cluster_config = STR("{\"a\":1}"),
	};
	w->plugin = exec_plugin_new(&w->config, fake_clock_clock(w->time));
}

static struct world *
world_new(void)
{
	struct world *w = xcalloc(1, sizeof(*w));

	*w = (struct world){
		.folder = "/tmp/ccmd-exec-XXXXXX",
		.time = fake_clock_new(WALL_NS),
		.config = { .exec = &w->exec,
		            .server = STR("https://api:6443"),
		            .tls_server_name = STR_EMPTY,
		            .proxy_url = STR("socks5://p:1"),
		            .ca_pem = STR("CA") },
		.call = { &clock_real, NULL, CLOCK_FOREVER, NULL },
		.token = BUF_INIT(KIB(4)),
		.exec.install_hint = STR_EMPTY,
	};
	assert_non_null(mkdtemp(w->folder));
	return w;
}

static void
world_free(struct world *w)
{
	CLEANUP(child_result_fini) struct child_result result = CHILD_RESULT_INIT;
	const char *rm[] = { "rm", "-r", w->folder, NULL };
	struct call call = { .clock = &clock_real, .deadline_mono_ns = CLOCK_FOREVER };

	exec_plugin_free(w->plugin);
	assert_true(child_run(&call, &(struct child_spec){ .argv = rm }, &result, &w->err));
	fake_clock_free(w->time);
	buf_fini(&w->token);
	arena_fini(&w->arena);
	free(w);
}
DEFINE_CLEANUP(struct world, world_free)

static bool
get_token(struct world *w)
{
	buf_reset(&w->token);
	return exec_plugin_token(w->plugin, &w->call, &w->token, &w->generation, &w->err);
}

static void
must_give(struct world *w, const char *expected)
{
	if (!get_token(w))
		fail_msg("%s", w->err.msg);
	assert_string_equal(w->token.ptr, expected);
}

static void
must_fail(struct world *w, enum err_code code, const char *text)
{
	assert_false(get_token(w));
	if (w->err.code != code || !strstr(w->err.msg, text))
		fail_msg("%s: %s", err_code_name(w->err.code), w->err.msg);
}

static size_t
n_runs(struct world *w)
{
	return strlen(read_file(w, "runs")) / strlen("run\n");
}

static void
pass(struct world *w, int64_t seconds)
{
	fake_clock_advance(w->time, seconds * NS_PER_SEC);
}

static void
a_token_without_an_end_is_kept(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new();

	(void)state;
	start(w, "echo '" HEAD "{\"token\":\"abc\"}}'");
	must_give(w, "abc");
	pass(w, 100000);
	must_give(w, "abc");
	assert_int_equal(n_runs(w), 1);
}

static void
another_is_asked_for_before_it_ends(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new();
	uint64_t first;

	(void)state;
	start(w, "read end <end\necho '" HEAD "{\"token\":\"until-'$end'\","
	         "\"expirationTimestamp\":\"2026-01-02T'$end'Z\"}}'");
	write_file(w, "end", "03:10:00\n");
	must_give(w, "until-03:10:00");
	first = w->generation;
	write_file(w, "end", "03:20:00\n");
	pass(w, 589);
	must_give(w, "until-03:10:00");
	assert_int_equal(w->generation, first);
	pass(w, 1);
	must_give(w, "until-03:20:00");
	assert_true(w->generation > first);
	assert_int_equal(n_runs(w), 2);
}

/* Clocks differ: the server is the one to judge. But not a run for each request. */
static void
an_expired_one_is_used_for_a_second(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new();

	(void)state;
	start(w, "echo '" HEAD
	         "{\"token\":\"old\",\"expirationTimestamp\":\"2020-01-01T00:00:00Z\"}}'");
	must_give(w, "old");
	must_give(w, "old");
	assert_int_equal(n_runs(w), 1);
	pass(w, 1);
	must_give(w, "old");
	assert_int_equal(n_runs(w), 2);
}

static void
a_refused_one_is_replaced_once_a_second(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new();

	(void)state;
	start(w, "n=$(wc -l <runs)\necho '" HEAD "{\"token\":\"t'$n'\"}}'");
	must_give(w, "t1");
	assert_false(exec_plugin_rejected(w->plugin, w->generation));
	pass(w, 1);
	assert_true(exec_plugin_rejected(w->plugin, w->generation));
	must_give(w, "t2");
	assert_true(exec_plugin_rejected(w->plugin, w->generation - 1));
	must_give(w, "t2");
	assert_false(exec_plugin_rejected(w->plugin, w->generation));
}

static void
failures_say_what_happened(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
		{ "exit 3", "plugin: exit code 3" },
		{ "kill -9 $$", "plugin: ended by signal 9" },
		{ "exit 0", "plugin: its output is not JSON" },
		{ "echo '{}'",
		  "plugin: its output cannot be used: its kind is not ExecCredential" },
		{ "echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1 "beta1\"}'",
		  "its apiVersion is not " V1 },
		{ "echo '" HEAD "null}'", "it has no status" },
		{ "echo '" HEAD "{}}'", "neither a token nor a client certificate" },
		{ "echo '" HEAD "{\"token\":1}}'", "status.token is not a string" },
		{ "echo '" HEAD "{\"token\":\"a b\"}}'", "characters that are not allowed" },
		{ "echo '" HEAD "{\"clientKeyData\":\"k\"}}'", "only one of" },
		{ "echo '" HEAD "{\"token\":\"a\",\"expirationTimestamp\":\"soon\"}}'",
		  "not a time of RFC 3339" },
		{ "head -c 5242880 /dev/zero", "wrote more than 1048576 bytes" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		CLEANUP(world_freep) struct world *w = world_new();

		start(w, cases[i][0]);
		must_fail(w, ERR_UNAUTHORIZED, cases[i][1]);
		/* who comes right after gets the same answer */
		must_fail(w, ERR_UNAUTHORIZED, cases[i][1]);
		assert_int_equal(n_runs(w), 1);
	}
}

static void
a_failure_heals(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new();

	(void)state;
	start(w, "cat answer");
	must_fail(w, ERR_UNAUTHORIZED, "exit code 1");
	write_file(w, "answer", HEAD "{\"token\":\"abc\"}}");
	pass(w, 1);
	must_give(w, "abc");
}

/* Within the last ten seconds a failing plugin does no harm. */
static void
a_valid_one_outlives_failures(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new();

	(void)state;
	start(w, "cat answer");
	write_file(w, "answer",
	           HEAD "{\"token\":\"abc\",\"expirationTimestamp\":\"2026-01-02T03:10:00Z\"}}");
	must_give(w, "abc");
	unlink(path_in(w, "answer"));
	pass(w, 595);
	must_give(w, "abc");
	assert_int_equal(n_runs(w), 2);
	pass(w, 10);
	must_fail(w, ERR_UNAUTHORIZED, "exit code 1");
}

static void
a_missing_one_hints_ten_times(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new();
	const char *argv[] = { "/no/such/plugin", NULL };

	(void)state;
	w->exec.install_hint = STR("install it\nfrom \033[1mhere");
	start(w, "");
	w->exec.argv = argv;
	for (int i = 0; i < 10; i++) {
		must_fail(w, ERR_UNAUTHORIZED, "; install it from  [1mhere");
		pass(w, 1);
	}
	must_fail(w, ERR_UNAUTHORIZED, "exec plugin: /no/such/plugin: ");
	assert_null(strstr(w->err.msg, "install it"));
}

static void
the_plugin_gets_the_cluster_and_its_environment(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new();
	const char *const env[] = { "PROFILE=prod", "KUBERNETES_EXEC_INFO=forged", NULL };

	(void)state;
	w->exec.env = env;
	w->exec.wants_cluster = true;
	start(w, "echo \"$PROFILE $KUBERNETES_EXEC_INFO\" >told; cat >input\n"
	         "echo '" HEAD "{\"token\":\"abc\"}}'");
	must_give(w, "abc");
	assert_string_equal(
		read_file(w, "told"),
		"prod {\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1
		"\",\"spec\":{\"cluster\":{\"server\":\"https://api:6443\","
		"\"certificate-authority-data\":\"Q0E=\",\"proxy-url\":\"socks5://p:1\","
		"\"config\":{\"a\":1}},\"interactive\":false}}\n");
	assert_string_equal(read_file(w, "input"), "");
	exec_plugin_set_ca(w->plugin, STR("other"));
	pass(w, 1);
	assert_true(exec_plugin_rejected(w->plugin, w->generation));
	must_give(w, "abc");
	assert_non_null(strstr(read_file(w, "told"), "\"b3RoZXI=\""));
}

static void
without_verbose_the_answer_is_short(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new();

	(void)state;
	start(w, "echo \"$KUBERNETES_EXEC_INFO\" >told\necho '" HEAD "{\"token\":\"abc\"}}'");
	must_give(w, "abc");
	assert_string_equal(read_file(w, "told"),
	                    "{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1
	                    "\",\"spec\":{\"interactive\":false}}\n");
}

static void
certificates_are_handed_out_once(void **state)
{
	CLEANUP(secret_fini) struct secret cert = SECRET_NONE, key = SECRET_NONE;
	CLEANUP(world_freep) struct world *w = world_new();
	uint64_t known = 0;

	(void)state;
	start(w, "cat answer");
	write_file(w, "answer", HEAD "{\"token\":\"abc\"}}");
	must_give(w, "abc");
	assert_false(exec_plugin_certificate(w->plugin, &known, &cert, &key));
	write_file(w, "answer",
	           HEAD "{\"clientCertificateData\":\"CERT\",\"clientKeyData\":\"KEY\"}}");
	pass(w, 1);
	assert_true(exec_plugin_rejected(w->plugin, w->generation));
	must_give(w, "");
	assert_true(exec_plugin_certificate(w->plugin, &known, &cert, &key));
	assert_true(str_eq(secret_expose(&cert), STR("CERT")));
	assert_true(str_eq(secret_expose(&key), STR("KEY")));
	pass(w, 1);
	assert_true(exec_plugin_rejected(w->plugin, w->generation));
	must_give(w, "");
	assert_false(exec_plugin_certificate(w->plugin, &known, &cert, &key));
	write_file(w, "answer", HEAD "{\"token\":\"abc\"}}");
	pass(w, 1);
	assert_true(exec_plugin_rejected(w->plugin, w->generation));
	must_give(w, "abc");
	assert_true(exec_plugin_certificate(w->plugin, &known, &cert, &key));
	assert_false(secret_is_set(&cert) || secret_is_set(&key));
}

struct caller {
	struct world *w;
	struct call call;
	bool is_ok;
	char token[100];
	struct error err;
};

static void *
ask(void *arg)
{
	struct caller *a = arg;
	struct buf token;
	uint64_t generation;

	a->token[0] = '\0';
	token = BUF_FIXED(a->token);
	a->is_ok = exec_plugin_token(a->w->plugin, &a->call, &token, &generation, &a->err);
	return NULL;
}

static void
all_wait_for_one_run(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new();
	pthread_t threads[8];
	struct caller askers[8];

	(void)state;
	start(w, "sleep 0.3; echo '" HEAD "{\"token\":\"abc\"}}'");
	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		askers[i] = (struct caller){ .w = w, .call = w->call };
		thread_start(&threads[i], "asker", ask, &askers[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		thread_join(threads[i]);
		assert_true(askers[i].is_ok);
		assert_string_equal(askers[i].token, "abc");
	}
	assert_int_equal(n_runs(w), 1);
}

static void
a_run_without_time_does_not_hide_why_the_former_failed(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new();

	(void)state;
	start(w, "test -e again && sleep 1000; touch again; exit 7");
	must_fail(w, ERR_UNAUTHORIZED, "exit code 7");
	pass(w, 1);
	w->call.deadline_mono_ns = clock_mono(&clock_real) + 100 * NS_PER_MS;
	must_fail(w, ERR_TIMEOUT, "has not ended in time; before: ");
	assert_non_null(strstr(w->err.msg, "exit code 7"));
}

/* A caller whose deadline passes returns; the run continues for the other callers. */
static void
each_waits_as_long_as_it_may(void **state)
{
	CLEANUP(cancel_freep) struct cancel *cancel = cancel_new();
	CLEANUP(world_freep) struct world *w = world_new();
	struct caller a;
	pthread_t thread;

	(void)state;
	start(w, "while ! test -e go; do sleep 0.02; done; echo '" HEAD "{\"token\":\"abc\"}}'");
	w->call.deadline_mono_ns = clock_mono(&clock_real) + 100 * NS_PER_MS;
	must_fail(w, ERR_TIMEOUT, "has not ended in time");
	w->call.deadline_mono_ns = CLOCK_FOREVER;
	a = (struct caller){ .w = w, .call = { &clock_real, cancel, CLOCK_FOREVER, NULL } };
	thread_start(&thread, "asker", ask, &a);
	cancel_fire(cancel);
	thread_join(thread);
	assert_int_equal(a.err.code, ERR_CANCELLED);
	write_file(w, "go", "");
	must_give(w, "abc");
	assert_int_equal(n_runs(w), 1);
}

static void
freeing_kills_it(void **state)
{
	CLEANUP(world_freep) struct world *w = world_new();
	int64_t before_ns = clock_mono(&clock_real);

	(void)state;
	start(w, "sleep 1000");
	w->call.deadline_mono_ns = before_ns + 100 * NS_PER_MS;
	must_fail(w, ERR_TIMEOUT, "has not ended in time");
	exec_plugin_free(TAKE(w->plugin));
	assert_true(clock_mono(&clock_real) - before_ns < 20 * NS_PER_SEC);
}

static void
runs_are_counted(void **state)
{
	CLEANUP(buf_fini) struct buf page = BUF_INIT(MIB(1));
	CLEANUP(world_freep) struct world *w = world_new();

	(void)state;
	start(w, "echo '" HEAD
	         "{\"token\":\"abc\",\"expirationTimestamp\":\"2026-01-02T03:10:00Z\"}}'");
	must_give(w, "abc");
	metrics_write_page(&page, METRICS_MAIN, METRICS_TEXT);
	assert_non_null(strstr(page.ptr,
	                       "rest_client_exec_plugin_call_total{call_status=\"no_error\","
	                       "code=\"0\"}"));
	assert_non_null(
		strstr(page.ptr,
	               "rest_client_exec_plugin_call_total{call_status=\"plugin_execution_error\","
	               "code=\"3\"}"));
	assert_non_null(
		strstr(page.ptr,
	               "rest_client_exec_plugin_call_total{call_status=\"plugin_not_found_error\","
	               "code=\"1\"}"));
	assert_non_null(strstr(page.ptr, "rest_client_exec_plugin_ttl_seconds 600\n"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_without_an_end_is_kept),
		cmocka_unit_test(another_is_asked_for_before_it_ends),
		cmocka_unit_test(an_expired_one_is_used_for_a_second),
		cmocka_unit_test(a_refused_one_is_replaced_once_a_second),
		cmocka_unit_test(failures_say_what_happened),
		cmocka_unit_test(a_failure_heals),
		cmocka_unit_test(a_valid_one_outlives_failures),
		cmocka_unit_test(a_missing_one_hints_ten_times),
		cmocka_unit_test(the_plugin_gets_the_cluster_and_its_environment),
		cmocka_unit_test(without_verbose_the_answer_is_short),
		cmocka_unit_test(certificates_are_handed_out_once),
		cmocka_unit_test(all_wait_for_one_run),
		cmocka_unit_test(a_run_without_time_does_not_hide_why_the_former_failed),
		cmocka_unit_test(each_waits_as_long_as_it_may),
		cmocka_unit_test(freeing_kills_it),
		cmocka_unit_test(runs_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
