#include "kube/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/limits.h"

#define CERT_PEM "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
#define KEY_PEM "-----BEGIN EC PRIVATE KEY-----\nMHcC\n-----END EC PRIVATE KEY-----\n"
/* of the above */
#define CERT_BASE64 \
	"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="
#define KEY_BASE64 \
	"LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS0tLS0tCk1IY0MKLS0tLS1FTkQgRUMgUFJJVkFURSBLRVktLS0tLQo="

static char folder[] = "/tmp/ccmd-config-XXXXXX";
static char path_memory[256];

static const char *
in_folder(const char *name)
{
	struct buf b;

	path_memory[0] = '\0';
	b = BUF_FIXED(path_memory);
	buf_addf(&b, "%s/%s", folder, name);
	return path_memory;
}

static void
write_file(const char *name, struct str content)
{
	FILE *file = fopen(in_folder(name), "w");

	assert_non_null(file);
	assert_int_equal(fwrite(content.ptr, 1, content.len, file), content.len);
	assert_int_equal(fclose(file), 0);
}

static int
set_up(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	write_file("ca.crt", STR(CERT_PEM));
	write_file("cert.pem", STR(CERT_PEM));
	write_file("key.pem", STR(KEY_PEM));
	write_file("token", STR("  file-token\n"));
	write_file("empty", STR(" \n"));
	unsetenv("POD_NAMESPACE");
	unsetenv("KUBERNETES_SERVICE_HOST");
	unsetenv("KUBERNETES_SERVICE_PORT");
	return 0;
}

static int
tear_down(void **state)
{
	static const char *const names[] = { "ca.crt",     "cert.pem", "key.pem",   "token",
		                             "empty",      "large",    "namespace", "config",
		                             "first",      "second",   "sub/third", "sub/ca.crt",
		                             "colon:colon" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		unlink(in_folder(names[i]));
	rmdir(in_folder("sub"));
	return rmdir(folder);
}

/* A kubeconfig whose only cluster and user hold these lines, indented by four. */
static void
write_config(const char *cluster, const char *user)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIB(1));

	buf_addf(&b,
	         "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
	         "contexts:\n- name: c\n  context: {cluster: k, user: u}\n"
	         "clusters:\n- name: k\n  cluster:\n%s\n"
	         "users:\n- name: u\n  user:\n%s\n",
	         cluster, user);
	write_file("config", buf_str(&b));
}

static bool
load(const char *master, struct kube_config **ret, struct buf *problems, struct error *err)
{
	char path[256] = "";
	struct buf b = BUF_FIXED(path);
	struct kube_config_source source = { .kubeconfig = path, .master = master };

	buf_addf(&b, "%s/config", folder);
	return kube_config_load(&source, ret, problems, err);
}

static struct kube_config *
must_load(const char *cluster, const char *user)
{
	struct kube_config *config = NULL;
	struct error err = { .msg = "" };

	write_config(cluster, user);
	if (!load(NULL, &config, NULL, &err))
		fail_msg("%s", err.msg);
	return config;
}

/* Loads a config that has exactly this problem. */
static void
assert_problem(const char *cluster, const char *user, enum err_code code, const char *expected)
{
	CLEANUP(buf_fini) struct buf problems = BUF_INIT(KIB(64)), line = BUF_INIT(KIB(4));
	CLEANUP(kube_config_freep) struct kube_config *config = NULL;
	struct error err;

	write_config(cluster, user);
	assert_false(load(NULL, &config, &problems, &err));
	assert_null(config);
	buf_addf(&line, "%s: %s\n", in_folder("config"), expected);
	assert_string_equal(problems.ptr, line.ptr);
	buf_truncate(&line, line.len - 1);
	assert_string_equal(err.msg, line.ptr);
	assert_int_equal(err.code, code);
}

static void
assert_str(struct str s, const char *expected)
{
	assert_int_equal(s.len, strlen(expected));
	assert_memory_equal(s.ptr, expected, s.len);
}

/* ---- what works ---- */

static void
reads_inline_data(void **state)
{
	CLEANUP(kube_config_freep)
	struct kube_config *config = must_load(
		"    server: https://api.example:6443/\n    tls-server-name: kubernetes\n"
		"    proxy-url: http://proxy:3128\n    certificate-authority-data: " CERT_BASE64,
		"    client-certificate-data: " CERT_BASE64 "\n    client-key-data: " KEY_BASE64
		"\n"
		"    token: ' t0ken '");

	(void)state;
	assert_str(config->server, "https://api.example:6443");
	assert_str(config->tls_server_name, "kubernetes");
	assert_str(config->proxy_url, "http://proxy:3128");
	assert_str(config->ca_pem, CERT_PEM);
	assert_str(config->cert_pem, CERT_PEM);
	assert_str(secret_expose(&config->key_pem), KEY_PEM);
	assert_str(secret_expose(&config->token), "t0ken");
	assert_str(config->ca_file, "");
	assert_false(config->is_insecure);
}

static void
paths_are_relative_to_the_file(void **state)
{
	CLEANUP(kube_config_freep)
	struct kube_config *config = must_load(
		"    server: https://api\n    certificate-authority: ca.crt",
		"    client-certificate: ./cert.pem\n    client-key: key.pem\n    tokenFile: token\n"
		"    token: ignored");

	(void)state;
	assert_str(config->ca_pem, CERT_PEM);
	assert_str(config->ca_file, in_folder("ca.crt"));
	assert_str(secret_expose(&config->key_pem), KEY_PEM);
	assert_str(config->key_file, in_folder("key.pem"));
	assert_str(config->token_file, in_folder("token"));
	assert_false(secret_is_set(&config->token));
}

static void
base64_may_be_folded(void **state)
{
	CLEANUP(kube_config_freep)
	struct kube_config *config = must_load(
		"    server: https://api\n    certificate-authority-data: |\n"
		"      LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t\n      Ck1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUt LS0tLQo=\n",
		"    {}");

	(void)state;
	assert_str(config->ca_pem, CERT_PEM);
}

static void
completes_the_server(void **state)
{
	static const char *const cases[][3] = {
		{ "https://h", "", "https://h:443" },
		{ "http://h", "", "http://h:80" },
		{ "HTTPS://h:1/p/q//", "", "https://h:1/p/q" },
		{ "https://h/p?a=b#c", "", "https://h:443/p" },
		{ "https://[fd00::1]:6443", "", "https://[fd00::1]:6443" },
		{ "https://:6443", "", "https://localhost:6443" },
		{ "https://", "", "https://localhost:443" },
		{ "h", "", "http://h:80" },
		{ "h:8080", "", "http://h:8080" },
		{ ":8080", "", "http://localhost:8080" },
		{ "h:6443", "    insecure-skip-tls-verify: true\n", "https://h:6443" },
		{ "h:6443", "    certificate-authority: ca.crt\n", "https://h:6443" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		CLEANUP(buf_fini) struct buf cluster = BUF_INIT(KIB(1));
		CLEANUP(kube_config_freep) struct kube_config *config = NULL;

		buf_addf(&cluster, "%s    server: '%s'\n", cases[i][1], cases[i][0]);
		config = must_load(cluster.ptr, "    {}");
		assert_str(config->server, cases[i][2]);
	}
}

static void
a_client_certificate_means_https(void **state)
{
	CLEANUP(kube_config_freep)
	struct kube_config *config = must_load(
		"    server: h", "    client-certificate: cert.pem\n    client-key: key.pem");

	(void)state;
	assert_str(config->server, "https://h:443");
}

static void
reads_basic_credentials(void **state)
{
	CLEANUP(kube_config_freep)
	struct kube_config *config = must_load("    server: https://h",
	                                       "    username: admin\n    password: 1234");

	(void)state;
	assert_str(config->username, "admin");
	assert_str(secret_expose(&config->password), "1234");
}

static void
the_first_of_a_name_wins(void **state)
{
	CLEANUP(kube_config_freep)
	struct kube_config *config = must_load(
		"    server: https://first\n- name: k\n  cluster:\n    server: https://second",
		"    {}");

	(void)state;
	assert_str(config->server, "https://first:443");
}

static void
other_entries_do_not_matter(void **state)
{
	CLEANUP(kube_config_freep)
	struct kube_config *config = must_load(
		"    server: https://h\n    unknown: [1]\n- name: other\n  cluster: {server: [], x: y}",
		"    {}\n- name: other\n  user: {exec: {command: aws}}");

	(void)state;
	assert_str(config->server, "https://h:443");
}

static void
a_plugin_beside_a_token_does_not_matter(void **state)
{
	CLEANUP(kube_config_freep)
	struct kube_config *config = must_load("    server: https://h",
	                                       "    token: t\n    exec: {command: aws}");

	(void)state;
	assert_str(secret_expose(&config->token), "t");
}

#define V1 "client.authentication.k8s.io/v1"
#define GOOD_EXEC "    exec: {command: aws, apiVersion: " V1 ", interactiveMode: Never"

static void
reads_a_plugin(void **state)
{
	CLEANUP(kube_config_freep)
	struct kube_config *config = must_load(
		"    server: https://h\n    extensions:\n"
		"    - name: other\n      extension: {no: 1}\n"
		"    - name: client.authentication.k8s.io/exec\n"
		"      extension: {audience: \"a\\\"b\", n: 1.5, hex: 0x10, list: [true, null, \"true\"]}",
		"    exec:\n      command: bin/aws\n      args: [eks, get-token, 7]\n"
		"      apiVersion: " V1 "beta1\n      provideClusterInfo: true\n"
		"      installHint: |-\n        see the page\n"
		"      env:\n      - {name: AWS_PROFILE, value: prod}\n      - {name: EMPTY}");
	const struct kube_exec *exec = config->exec;

	(void)state;
	assert_non_null(exec);
	assert_string_equal(exec->argv[0], in_folder("bin/aws"));
	assert_string_equal(exec->argv[1], "eks");
	assert_string_equal(exec->argv[3], "7");
	assert_null(exec->argv[4]);
	assert_string_equal(exec->env[0], "AWS_PROFILE=prod");
	assert_string_equal(exec->env[1], "EMPTY=");
	assert_null(exec->env[2]);
	assert_str(exec->api_version, V1 "beta1");
	assert_str(exec->install_hint, "see the page");
	assert_true(exec->wants_cluster);
	assert_str(
		exec->cluster_config,
		"{\"audience\":\"a\\\"b\",\"n\":1.5,\"hex\":\"0x10\",\"list\":[true,null,\"true\"]}");
}

static void
a_bare_command_is_for_the_path(void **state)
{
	(void)state;
	CLEANUP(kube_config_freep)
	struct kube_config *config = must_load("    server: https://h", GOOD_EXEC "}");

	assert_string_equal(config->exec->argv[0], "aws");
	assert_str(config->exec->cluster_config, "");
}

static void
impersonation_becomes_headers(void **state)
{
	static const char *const expected[] = {
		"Impersonate-User: jane",
		"Impersonate-Uid: 7",
		"Impersonate-Group: developers",
		"Impersonate-Group: admins",
		"Impersonate-Extra-scopes: a",
		"Impersonate-Extra-scopes: b",
		"Impersonate-Extra-acme.com%2Fproject%25: p",
	};
	CLEANUP(kube_config_freep)
	struct kube_config
		*config = must_load("    server: https://h",
	                            "    token: t\n    as: jane\n    as-uid: 7\n"
	                            "    as-groups: [developers, admins]\n"
	                            "    as-user-extra: {scopes: [a, b], acme.com/project%: [p]}");

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(expected); i++)
		assert_string_equal(config->headers[i], expected[i]);
	assert_null(config->headers[ARRAY_LEN(expected)]);
}

static void
a_socks_proxy_is_fine(void **state)
{
	CLEANUP(kube_config_freep)
	struct kube_config *config =
		must_load("    server: https://h\n    proxy-url: socks5://p:1080", "    token: t");

	(void)state;
	assert_str(config->proxy_url, "socks5://p:1080");
}

static void
reads_json(void **state)
{
	CLEANUP(kube_config_freep) struct kube_config *config = NULL;
	struct error err = { .msg = "" };

	(void)state;
	write_file(
		"config",
		STR("{\"current-context\": \"c\", \"contexts\": [{\"name\": \"c\", \"context\": "
	            "{\"cluster\": \"k\", \"user\": \"u\", \"namespace\": \"ccm\"}}],\n"
	            "\"clusters\": [{\"name\": \"k\", \"cluster\": {\"server\": \"https://h\"}}],\n"
	            "\"users\": [{\"name\": \"u\"}]}"));
	assert_true(load(NULL, &config, NULL, &err));
	assert_str(config->server, "https://h:443");
}

/* ---- --master ---- */

static void
master_replaces_the_server(void **state)
{
	CLEANUP(kube_config_freep) struct kube_config *config = NULL;
	struct error err = { .msg = "" };

	(void)state;
	write_config("    tls-server-name: n\n    certificate-authority: ca.crt", "    token: t");
	assert_true(load("10.0.0.1:6443", &config, NULL, &err));
	assert_str(config->server, "https://10.0.0.1:6443");
	assert_str(config->tls_server_name, "");
	assert_str(config->ca_pem, CERT_PEM);
	assert_str(secret_expose(&config->token), "t");
}

static void
master_alone_is_enough(void **state)
{
	CLEANUP(kube_config_freep) struct kube_config *config = NULL, *none = NULL;
	struct kube_config_source source = { .kubeconfig = "", .master = "https://h:6443" };
	struct error err = { .msg = "" };

	(void)state;
	assert_true(kube_config_load(&source, &config, NULL, &err));
	assert_str(config->server, "https://h:6443");
	assert_str(config->token_file, "");

	source.master = "h/path";
	assert_false(kube_config_load(&source, &none, NULL, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_string_equal(err.msg, "--master: must be a URL or host:port");
}

static void
master_with_an_empty_file(void **state)
{
	CLEANUP(kube_config_freep) struct kube_config *config = NULL;
	struct error err = { .msg = "" };

	(void)state;
	write_file("config", STR(""));
	assert_true(load("http://h:1", &config, NULL, &err));
	assert_str(config->server, "http://h:1");
}

/* ---- what does not ---- */

static void
says_what_is_wrong(void **state)
{
	(void)state;
	static const char good_cluster[] = "    server: https://h", good_user[] = "    token: t";
	static const struct {
		const char *cluster, *user; /* NULL: a good one */
		enum err_code code;
		const char *expected;
	} cases[] = {
		{ "    {}", NULL, ERR_INVALID, "clusters[k].server: not set" },
		{ "    []", NULL, ERR_INVALID,
		  "clusters[k].cluster: must be a map, not a list (and 1 more)" },
		{ "    server: [a]", NULL, ERR_INVALID,
		  "clusters[k].server: must be a string, not a list (and 1 more)" },
		{ "    server: ftp://h", NULL, ERR_INVALID, NULL },
		{ "    server: socks5://h:1", NULL, ERR_INVALID,
		  "clusters[k].server: must be http or https, not socks5" },
		{ "    server: https://me:pw@h", NULL, ERR_INVALID,
		  "clusters[k].server: must not hold a user name or password" },
		{ "    server: h/p", NULL, ERR_INVALID,
		  "clusters[k].server: must be a URL or host:port" },
		{ "    server: https://h\n    certificate-authority: ca.crt\n    certificate-authority-data: AAAA",
		  NULL, ERR_INVALID,
		  "clusters[k].certificate-authority: cannot be combined with certificate-authority-data" },
		{ "    server: https://h\n    certificate-authority: ca.crt\n    insecure-skip-tls-verify: true",
		  NULL, ERR_INVALID,
		  "clusters[k].insecure-skip-tls-verify: cannot be combined with a certificate authority" },
		{ "    server: https://h\n    insecure-skip-tls-verify: 'true'", NULL, ERR_INVALID,
		  "clusters[k].insecure-skip-tls-verify: must be true or false, not a string" },
		{ "    server: https://h\n    certificate-authority-data: 'AA=A'", NULL,
		  ERR_INVALID, "clusters[k].certificate-authority-data: not valid base64" },
		{ "    server: https://h\n    certificate-authority-data: QUJD", NULL, ERR_INVALID,
		  "clusters[k].certificate-authority-data: no PEM block \"-----BEGIN CERTIFICATE-----\" in it" },
		{ "    server: https://h\n    proxy-url: socks4://p:1080", NULL, ERR_INVALID,
		  NULL },
		{ NULL, "    client-certificate: cert.pem", ERR_INVALID,
		  "users[u].client-certificate: has no client-key" },
		{ NULL, "    client-key: key.pem", ERR_INVALID,
		  "users[u].client-key: has no client-certificate" },
		{ NULL, "    token: t\n    username: me", ERR_INVALID,
		  "users[u].username: more than one authentication method: token and basic" },
		{ NULL, "    exec: aws", ERR_INVALID,
		  "users[u].exec: must be a map, not a string" },
		{ NULL, "    exec: {apiVersion: " V1 ", interactiveMode: Never}", ERR_INVALID,
		  "users[u].exec.command: not set" },
		{ NULL, "    exec: {command: aws, interactiveMode: Never}", ERR_INVALID,
		  "users[u].exec.apiVersion: not set" },
		{ NULL,
		  "    exec: {command: aws, interactiveMode: Never, apiVersion: " V1 "alpha1}",
		  ERR_INVALID,
		  "users[u].exec.apiVersion: must be " V1 " or v1beta1, not \"" V1 "alpha1\"" },
		{ NULL, "    exec: {command: aws, apiVersion: " V1 "}", ERR_INVALID,
		  "users[u].exec.interactiveMode: not set" },
		{ NULL, "    exec: {command: aws, apiVersion: " V1 ", interactiveMode: Always}",
		  ERR_UNSUPPORTED,
		  "users[u].exec.interactiveMode: \"Always\" needs a terminal, and this is a daemon" },
		{ NULL, "    exec: {command: aws, apiVersion: " V1 ", interactiveMode: never}",
		  ERR_INVALID,
		  "users[u].exec.interactiveMode: must be Never, IfAvailable or Always, not \"never\"" },
		{ NULL, GOOD_EXEC ", args: x}", ERR_INVALID,
		  "users[u].exec.args: must be a list, not a string" },
		{ NULL, GOOD_EXEC ", args: [[x]]}", ERR_INVALID,
		  "users[u].exec.args: must hold strings, not a list" },
		{ NULL, GOOD_EXEC ", env: [{name: '', value: x}]}", ERR_INVALID,
		  "users[u].exec.env.name: not a name of a variable" },
		{ NULL, "    exec: {command: aws}\n    auth-provider: {name: gcp}", ERR_INVALID,
		  "users[u].exec: cannot be combined with auth-provider" },
		{ NULL, "    auth-provider: {name: gcp}", ERR_UNSUPPORTED,
		  "users[u].auth-provider: not supported; use an exec plugin, a client certificate, token "
		  "or tokenFile" },
		{ NULL, "    token: t\n    as-groups: [a]", ERR_INVALID,
		  "users[u].as-groups: needs `as`" },
		{ NULL, "    token: t\n    as: \"a\\r\\nX-Evil: 1\"", ERR_INVALID,
		  "users[u].as: the value is empty, or contains characters that are not allowed in a header" },
		{ NULL, "    token: t\n    as: a\n    as-user-extra: {k: v}", ERR_INVALID,
		  "users[u].as-user-extra.k: must be a list, not a string" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		CLEANUP(buf_fini) struct buf line = BUF_INIT(KIB(4));
		CLEANUP(kube_config_freep) struct kube_config *config = NULL;
		struct error err = { .msg = "" };

		write_config(cases[i].cluster ? cases[i].cluster : good_cluster,
		             cases[i].user ? cases[i].user : good_user);
		assert_false(load(NULL, &config, NULL, &err));
		assert_int_equal(err.code, cases[i].code);
		if (!cases[i].expected)
			continue;
		buf_addf(&line, "%s: %s", in_folder("config"), cases[i].expected);
		assert_string_equal(err.msg, line.ptr);
	}
}

static void
a_problem_is_a_line(void **state)
{
	CLEANUP(buf_fini) struct buf expected = BUF_INIT(KIB(1));

	(void)state;
	buf_addf(&expected, "users[u].tokenFile: %s is empty", in_folder("empty"));
	assert_problem("    server: https://h", "    tokenFile: empty", ERR_INVALID, expected.ptr);
}

static void
reports_all_problems(void **state)
{
	CLEANUP(buf_fini) struct buf problems = BUF_INIT(KIB(64)), expected = BUF_INIT(KIB(64));
	CLEANUP(kube_config_freep) struct kube_config *config = NULL;
	const char *file;
	struct error err;

	(void)state;
	write_config("    certificate-authority: gone.crt\n    server: ''",
	             "    client-certificate: cert.pem\n    tokenFile: gone");
	assert_false(load(NULL, &config, &problems, &err));
	file = in_folder("config");
	buf_addf(&expected,
	         "%s: clusters[k].certificate-authority: %s/gone.crt: No such file or directory\n",
	         file, folder);
	buf_addf(&expected, "%s: users[u].client-certificate: has no client-key\n", file);
	buf_addf(&expected, "%s: users[u].tokenFile: %s/gone: No such file or directory\n", file,
	         folder);
	buf_addf(&expected, "%s: clusters[k].server: not set\n", file);
	assert_string_equal(problems.ptr, expected.ptr);
	assert_int_equal(err.code, ERR_INVALID);
	assert_non_null(strstr(err.msg, "gone.crt: No such file or directory (and 3 more)"));
}

static void
refuses_other_documents(void **state)
{
	static const struct {
		struct str text;
		const char *expected;
	} cases[] = {
		{ STR(""), "current-context: not set, no configuration has been provided" },
		{ STR("- a"), "is not a kubeconfig: must be a map, not a list" },
		{ STR("a: [\n"), "line 2: " },
		{ STR("kind: Deployment\ncurrent-context: c"),
		  "kind: \"Deployment\" is not \"Config\" (and 1 more)" },
		{ STR("current-context: c"), "current-context: \"c\" is not in contexts" },
		{ STR("current-context: c\ncontexts: {}"),
		  "contexts: must be a list, not a map (and 1 more)" },
		{ STR("current-context: c\ncontexts: [{name: c, context: {cluster: k}}]"),
		  "contexts[c].cluster: \"k\" is not in clusters (and 1 more)" },
		{ STR("current-context: c\ncontexts: [{name: c, context: {namespace: A.b}}]"),
		  "contexts[c].namespace: \"A.b\" is not a name of a namespace (and 2 more)" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		CLEANUP(kube_config_freep) struct kube_config *config = NULL;
		struct error err = { .msg = "" };

		write_file("config", cases[i].text);
		assert_false(load(NULL, &config, NULL, &err));
		assert_int_equal(err.code, ERR_INVALID);
		if (!strstr(err.msg, cases[i].expected))
			fail_msg("\"%s\" is not in \"%s\"", cases[i].expected, err.msg);
	}
}

static void
a_missing_file_is_not_found(void **state)
{
	CLEANUP(buf_fini) struct buf problems = BUF_INIT(KIB(4));
	CLEANUP(kube_config_freep) struct kube_config *config = NULL;
	struct kube_config_source source = { .kubeconfig = in_folder("gone") };
	struct error err;

	(void)state;
	assert_false(kube_config_load(&source, &config, &problems, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_non_null(strstr(problems.ptr, "gone: No such file or directory\n"));
}

static void
refuses_large_credentials(void **state)
{
	CLEANUP(buf_fini) struct buf large = BUF_INIT(MIB(1)), cluster = BUF_INIT(MIB(1));
	CLEANUP(kube_config_freep) struct kube_config *config = NULL;
	struct error err = { .msg = "" };

	(void)state;
	while (large.len <= LIMIT_CREDENTIAL)
		buf_add_c(&large, CERT_PEM);
	write_file("large", buf_str(&large));
	write_config("    server: https://h\n    certificate-authority: large", "    {}");
	assert_false(load(NULL, &config, NULL, &err));
	assert_non_null(strstr(err.msg, "large: larger than 262144 bytes"));

	buf_add_c(&cluster, "    server: https://h\n    certificate-authority-data: ");
	while (cluster.len < LIMIT_CREDENTIAL * 3 / 2)
		buf_add_c(&cluster, "AAAA");
	write_config(cluster.ptr, "    {}");
	assert_false(load(NULL, &config, NULL, &err));
	assert_non_null(strstr(err.msg, "certificate-authority-data: larger than 256 kB"));
}

/* ---- inside a pod ---- */

static bool
load_pod(const char *host, const char *port, struct kube_config **ret, struct error *err)
{
	struct kube_config_source source = { .in_cluster_folder = folder };

	setenv("KUBERNETES_SERVICE_HOST", host, 1);
	setenv("KUBERNETES_SERVICE_PORT", port, 1);
	return kube_config_load(&source, ret, NULL, err);
}

static void
reads_what_a_pod_is_given(void **state)
{
	CLEANUP(kube_config_freep) struct kube_config *v4 = NULL, *v6 = NULL;
	struct error err = { .msg = "" };

	(void)state;
	assert_true(load_pod("10.96.0.1", "443", &v4, &err));
	assert_str(v4->server, "https://10.96.0.1:443");
	assert_str(v4->ca_pem, CERT_PEM);
	assert_str(v4->token_file, in_folder("token"));

	assert_true(load_pod("fd00::1", "6443", &v6, &err));
	assert_str(v6->server, "https://[fd00::1]:6443");
}

static void
a_pod_without_ca_trusts_the_system(void **state)
{
	CLEANUP(kube_config_freep) struct kube_config *config = NULL;
	struct error err = { .msg = "" };

	(void)state;
	unlink(in_folder("ca.crt"));
	assert_true(load_pod("10.96.0.1", "443", &config, &err));
	assert_str(config->ca_pem, "");
	assert_str(config->ca_file, "");
	write_file("ca.crt", STR(CERT_PEM));
}

static void
a_pod_needs_a_token(void **state)
{
	CLEANUP(kube_config_freep) struct kube_config *config = NULL;
	struct error err = { .msg = "" };

	(void)state;
	unlink(in_folder("token"));
	assert_false(load_pod("10.96.0.1", "443", &config, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	write_file("token", STR("file-token"));
}

static void
no_configuration_at_all(void **state)
{
	CLEANUP(kube_config_freep) struct kube_config *config = NULL;
	struct error err = { .msg = "" };

	(void)state;
	assert_false(load_pod("10.96.0.1", "", &config, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_non_null(strstr(err.msg, "no configuration has been provided"));
}

/* ---- several files ---- */

/* Loads the files with these names. */
static bool
load_list(const char *names, struct kube_config **ret, struct buf *problems, struct error *err)
{
	CLEANUP(buf_fini) struct buf list = BUF_INIT(KIB(64));
	struct kube_config_source source = { .is_list = true };
	struct str rest = str_c(names), name;

	while (str_split(&rest, ':', &name)) {
		if (list.len > 0)
			buf_add_char(&list, ':');
		if (name.len > 0)
			buf_addf(&list, "%s/%" STR_FMT, folder, STR_ARG(name));
	}
	source.kubeconfig = list.ptr;
	return kube_config_load(&source, ret, problems, err);
}

static void
write_three_files(void)
{
	mkdir(in_folder("sub"), 0700);
	write_file("sub/ca.crt", STR(CERT_PEM "second\n"));
	write_file("first", STR("users: [{name: u, user: {token: one}}]\n"));
	write_file("second", STR("current-context: c\n"
	                         "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
	                         "users: [{name: u, user: {token: two, username: me}},"
	                         " {name: v, user: {}}]\n"));
	write_file("sub/third", STR("current-context: d\n"
	                            "clusters: [{name: k, cluster: {server: https://third,"
	                            " certificate-authority: ca.crt}}]\n"
	                            "contexts: [{name: c, context: {cluster: x, user: v}},"
	                            " {name: d, context: {cluster: k, user: v}}]\n"));
}

/* Nothing of a later entry of the same name is added to an earlier one. */
static void
of_several_files_the_first_that_has_a_value_counts(void **state)
{
	CLEANUP(kube_config_freep) struct kube_config *config = NULL;
	CLEANUP(buf_fini) struct buf ca = BUF_INIT(KIB(1));
	struct error err;

	(void)state;
	write_three_files();
	if (!load_list("no-such-file:first::second:sub/third", &config, NULL, &err))
		fail_msg("%s", err.msg);
	assert_str(config->server, "https://third:443");
	assert_str(secret_expose(&config->token), "one");
	assert_int_equal(config->username.len, 0);
	buf_addf(&ca, "%s/sub/ca.crt", folder);
	assert_str(config->ca_file, ca.ptr);
	kube_config_free(TAKE(config));
	assert_true(load_list("sub/third:second:first", &config, NULL, &err));
	assert_false(secret_is_set(&config->token)); /* of the context d with the user v */
}

static void
of_several_files_a_problem_names_its_own(void **state)
{
	static const struct {
		const char *list, *first, *expected;
	} rows[] = {
		{ "sub/third", "", "sub/third: contexts[d].user: \"v\" is not in users" },
		{ "first:sub/third", "current-context: e",
		  "first: current-context: \"e\" is not in contexts" },
		{ "second:sub/third:first", "users: {}",
		  "second: users[u].username: more than one authentication method: token and basic" },
		{ "first:sub/third:second", "clusters: [{name: k, cluster: {}}]",
		  "first: clusters[k].server: not set" },
		{ "second:first:sub/third", "clusters: {}",
		  "first: clusters: must be a list, not a map" },
		{ "first:second:sub/third", "kind: Pod", "first: kind: \"Pod\" is not \"Config\"" },
		{ "second:sub/third:first", "a: [",
		  "first: line 2: did not find expected node content" },
		{ "second:sub", "", "sub: is a directory" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(kube_config_freep) struct kube_config *config = NULL;
		struct error err;

		write_three_files();
		if (rows[i].first[0])
			write_file("first", str_c(rows[i].first));
		assert_false(load_list(rows[i].list, &config, NULL, &err));
		if (!strstr(err.msg, in_folder(rows[i].expected)))
			fail_msg("\"%s\" is not \"%s\"", err.msg, path_memory);
	}
}

static void
a_list_of_files_needs_one_and_has_a_limit(void **state)
{
	CLEANUP(buf_fini) struct buf names = BUF_INIT(KIB(64));
	CLEANUP(kube_config_freep) struct kube_config *config = NULL;
	struct error err;

	(void)state;
	assert_false(load_list("no-such-file::nor-this", &config, NULL, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_non_null(strstr(err.msg, "$KUBECONFIG: none of its files exists: "));
	assert_non_null(strstr(err.msg, "/nor-this"));
	assert_false(load_list(":", &config, NULL, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	for (int i = 0; i < LIMIT_KUBECONFIGS; i++)
		buf_add_c(&names, "first:");
	buf_add_c(&names, "second");
	write_three_files();
	assert_false(load_list(names.ptr, &config, NULL, &err));
	assert_non_null(strstr(err.msg, "names more than 32 files"));
}

/* --kubeconfig is one file, whatever its name is. */
static void
a_single_file_may_have_a_colon_in_its_name(void **state)
{
	CLEANUP(kube_config_freep) struct kube_config *config = NULL;
	struct kube_config_source source = { .kubeconfig = NULL };
	struct error err;

	(void)state;
	write_file("colon:colon", STR("current-context: c\n"
	                              "clusters: [{name: k, cluster: {server: https://h}}]\n"
	                              "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
	                              "users: [{name: u, user: {token: t}}]\n"));
	source.kubeconfig = in_folder("colon:colon");
	if (!kube_config_load(&source, &config, NULL, &err))
		fail_msg("%s", err.msg);
	assert_str(config->server, "https://h:443");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_inline_data),
		cmocka_unit_test(paths_are_relative_to_the_file),
		cmocka_unit_test(base64_may_be_folded),
		cmocka_unit_test(completes_the_server),
		cmocka_unit_test(a_client_certificate_means_https),
		cmocka_unit_test(reads_basic_credentials),
		cmocka_unit_test(the_first_of_a_name_wins),
		cmocka_unit_test(other_entries_do_not_matter),
		cmocka_unit_test(a_plugin_beside_a_token_does_not_matter),
		cmocka_unit_test(reads_a_plugin),
		cmocka_unit_test(a_bare_command_is_for_the_path),
		cmocka_unit_test(impersonation_becomes_headers),
		cmocka_unit_test(a_socks_proxy_is_fine),
		cmocka_unit_test(reads_json),
		cmocka_unit_test(master_replaces_the_server),
		cmocka_unit_test(master_alone_is_enough),
		cmocka_unit_test(master_with_an_empty_file),
		cmocka_unit_test(says_what_is_wrong),
		cmocka_unit_test(a_problem_is_a_line),
		cmocka_unit_test(reports_all_problems),
		cmocka_unit_test(refuses_other_documents),
		cmocka_unit_test(a_missing_file_is_not_found),
		cmocka_unit_test(refuses_large_credentials),
		cmocka_unit_test(reads_what_a_pod_is_given),
		cmocka_unit_test(a_pod_without_ca_trusts_the_system),
		cmocka_unit_test(a_pod_needs_a_token),
		cmocka_unit_test(no_configuration_at_all),
		cmocka_unit_test(of_several_files_the_first_that_has_a_value_counts),
		cmocka_unit_test(of_several_files_a_problem_names_its_own),
		cmocka_unit_test(a_list_of_files_needs_one_and_has_a_limit),
		cmocka_unit_test(a_single_file_may_have_a_colon_in_its_name),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
