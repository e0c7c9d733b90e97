/* kube/config.c: reads a configuration from a kubeconfig or from the files in a pod.
 *
 * A kubeconfig is read into a tree (base/yaml.h). Then, from the top down: the current context
 * names a cluster and a user, the cluster gives the server and its certificate authority, and the
 * user gives the credentials (kube/config_user.c). Where several files are given, each of these is
 * taken from the first file that has it, as a whole (client-go, tools/clientcmd/loader.go). Only
 * the entries that the current context names are read. The others may name files of another machine
 * or need plugins that are not installed here, and kubectl does not read them either.
 *
 * A problem does not end the reading: it is noted (kube/config_entry.h), and the value counts as
 * absent. A pod's configuration has no such list, because each of its parts is a file of its own.
 */
#include "kube/config.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/names.h"
#include "kube/config_entry.h"
#include "http/url.h"

#define POD_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"

/* ---- the cluster ---- */

/* Validates a server's address and puts it into one form: scheme, host, port, path. The scheme and
 * the host may be left out: kubectl accepts "host:6443" and "https://:6443". Without a scheme it is
 * https if there are settings that have no effect without TLS, as in client-go (rest/url_utils.go,
 * defaultServerUrlFor). */
static bool
config_set_server(struct kube_config *config, struct str text, struct error *err)
{
	CLEANUP(buf_fini) struct buf full = BUF_INIT(LIMIT_HTTP_URL);
	bool has_tls = config->ca_pem.len || config->cert_pem.len || config->is_insecure;
	const char *mark = memmem(text.ptr, text.len, "://", 3);
	size_t scheme_len = mark ? (size_t)(mark - text.ptr) + 3 : 0;
	struct str rest = str_skip(text, scheme_len);
	struct url url;

	buf_add(&full, text.ptr, scheme_len);
	if (!mark)
		buf_add_c(&full, has_tls ? "https://" : "http://");
	if (rest.len == 0 || rest.ptr[0] == ':')
		buf_add_c(&full, "localhost");
	buf_add_str(&full, rest);

	if (!buf_ok(&full))
		return err_set(err, ERR_INVALID, "longer than %zu bytes", LIMIT_HTTP_URL);
	if (!url_parse(buf_str(&full), &url, err))
		return false;
	if (!str_eq_c(url.scheme, "https") && !str_eq_c(url.scheme, "http"))
		return err_set(err, ERR_INVALID, "must be http or https, not %" STR_FMT,
		               STR_ARG(url.scheme));
	if (!mark && url.path.len)
		return err_set(err, ERR_INVALID, "must be a URL or host:port");
	if (url.has_userinfo)
		return err_set(err, ERR_INVALID, "must not hold a user name or password");
	config->server = arena_printf(&config->arena, "%" STR_FMT "://" URL_HOST_FMT ":%d%" STR_FMT,
	                              STR_ARG(url.scheme), URL_HOST_ARG(url.host), url.port,
	                              STR_ARG(url.path));
	return true;
}

/* Reads everything of a cluster but its server. */
static void
config_load_cluster(const struct config_entry *e)
{
	CLEANUP(buf_fini) struct buf pem = BUF_SECRET(LIMIT_CREDENTIAL);
	struct kube_config *config = e->loader->config;
	struct error err;
	struct str proxy;
	struct url url;

	config->is_insecure = entry_is_true(e, "insecure-skip-tls-verify");
	if (config->is_insecure &&
	    (entry_has(e, "certificate-authority") || entry_has(e, "certificate-authority-data")))
		entry_problem(e, "insecure-skip-tls-verify", ERR_INVALID,
		              "cannot be combined with a certificate authority");
	if (entry_pem(e, "certificate-authority", "-----BEGIN CERTIFICATE-----", &pem,
	              &config->ca_file))
		config->ca_pem = arena_str(&config->arena, buf_str(&pem));

	proxy = entry_text(e, "proxy-url");
	if (proxy.len > 0 && !url_parse(proxy, &url, &err))
		entry_problem(e, "proxy-url", ERR_INVALID, "%s", err.msg);
	config->proxy_url = arena_str(&config->arena, proxy);
}

/* ---- the documents ---- */

struct config_file {
	const char *path;
	struct yaml_node doc;
};

/* All files of the configuration that exist. */
struct config_files {
	struct arena *arena;
	struct config_file items[LIMIT_KUBECONFIGS];
	size_t n;
};

/* Finds an entry of clusters, users or contexts of a file by its name. If several entries have the
 * name, the first one counts. Its map is the value of `key`; a missing map counts as empty. Returns
 * false if no entry has the name. */
static bool
config_find_in_file(struct config_loader *l, const struct config_file *file, const char *list,
                    const char *key, struct str name, struct config_entry *ret)
{
	static const struct yaml_node nothing = { .kind = YAML_NULL };
	struct config_entry e = { .loader = l, .file = file->path, .map = &file->doc };
	const struct yaml_node *items = entry_node(&e, list, YAML_LIST), *map;

	l->file = file->path;
	e.list = list;
	e.name = name;
	for (size_t i = 0; items && i < items->n; i++) {
		const struct yaml_node *found = yaml_get(&items->items[i], STR("name"));

		if (!found || found->kind != YAML_SCALAR || !str_eq(found->text, name))
			continue;
		e.map = &items->items[i];
		map = entry_node(&e, key, YAML_MAP);
		e.map = map ? map : &nothing;
		*ret = e;
		return true;
	}
	return false;
}

static bool
config_find_entry(struct config_loader *l, const struct config_files *files, const char *list,
                  const char *key, struct str name, struct config_entry *ret)
{
	for (size_t i = 0; i < files->n; i++) {
		if (config_find_in_file(l, &files->items[i], list, key, name, ret))
			return true;
	}
	return false;
}

/* Finds the entry of `list` ("clusters") that the context names as its `key` ("cluster"). */
static bool
config_follow_context(const struct config_entry *context, const struct config_files *files,
                      const char *list, const char *key, struct config_entry *ret)
{
	struct str name = entry_text(context, key);

	if (name.len == 0)
		entry_problem(context, key, ERR_INVALID, "not set");
	else if (config_find_entry(context->loader, files, list, key, name, ret))
		return true;
	else
		entry_problem(context, key, ERR_INVALID, "\"%" STR_FMT "\" is not in %s",
		              STR_ARG(name), list);
	return false;
}

/* Is called after the user was read, because a client certificate decides about the scheme. It is
 * not called with --master, which replaces the server together with its name in the certificate. */
static void
config_load_server(const struct config_entry *e)
{
	struct kube_config *config = e->loader->config;
	struct str server = entry_text(e, "server");
	struct error err;

	if (server.len == 0)
		entry_problem(e, "server", ERR_INVALID, "not set");
	else if (!config_set_server(config, server, &err))
		entry_problem(e, "server", ERR_INVALID, "%s", err.msg);
	config->tls_server_name = arena_str(&config->arena, entry_text(e, "tls-server-name"));
}

static void
config_load_context(const struct config_entry *context, const struct config_files *files,
                    bool has_master)
{
	struct str namespace = entry_text(context, "namespace");
	struct config_entry cluster, user;
	bool has_cluster;

	if (namespace.len > 0 && !name_is_dns_label(namespace))
		entry_problem(context, "namespace", ERR_INVALID,
		              "\"%" STR_FMT "\" is not a name of a namespace", STR_ARG(namespace));
	has_cluster = config_follow_context(context, files, "clusters", "cluster", &cluster);
	if (has_cluster)
		config_load_cluster(&cluster);
	if (config_follow_context(context, files, "users", "user", &user))
		config_load_user(&user, has_cluster ? &cluster : NULL);
	if (has_cluster && !has_master)
		config_load_server(&cluster);
}

/* Refuses other kinds of documents, such as --kubeconfig=deployment.yaml, with a clear message.
 * False: the file has no map, and is not read any further. */
static bool
config_check_file(struct config_loader *l, const struct config_file *file)
{
	static const char *const expected[][2] = { { "apiVersion", "v1" }, { "kind", "Config" } };
	const struct yaml_node *doc = &file->doc;

	l->file = file->path;
	for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
		const struct yaml_node *node = yaml_get(doc, str_c(expected[i][0]));

		if (node && node->kind == YAML_SCALAR && node->text.len &&
		    !str_eq_c(node->text, expected[i][1]))
			loader_problem(l, ERR_INVALID, "%s: \"%" STR_FMT "\" is not \"%s\"",
			               expected[i][0], STR_ARG(node->text), expected[i][1]);
	}
	if (doc->kind == YAML_MAP || doc->kind == YAML_NULL)
		return true;
	loader_problem(l, ERR_INVALID, "is not a kubeconfig: must be a map, not a %s",
	               yaml_kind_name(doc));
	return false;
}

/* Reads the context that the first file with a current context names. */
static void
config_load_current(struct config_loader *l, const struct config_files *files, bool has_master)
{
	const struct yaml_node *current = NULL;
	struct config_entry context;
	size_t i;

	for (i = 0; i < files->n; i++) {
		current = yaml_get(&files->items[i].doc, STR("current-context"));
		if (current && current->kind == YAML_SCALAR && current->text.len > 0)
			break;
	}
	if (i == files->n) {
		if (!has_master)
			loader_problem(
				l, ERR_INVALID,
				"current-context: not set, no configuration has been provided");
		return;
	}
	l->config->context = arena_str(&l->config->arena, current->text);
	if (config_find_entry(l, files, "contexts", "context", current->text, &context)) {
		config_load_context(&context, files, has_master);
		return;
	}
	l->file = files->items[i].path;
	loader_problem(l, ERR_INVALID, "current-context: \"%" STR_FMT "\" is not in contexts",
	               STR_ARG(current->text));
}

/* ---- the files ---- */

bool
kube_config_next_file(struct str *rest, bool is_list, struct str *ret)
{
	if (!is_list) {
		*ret = *rest;
		*rest = STR_EMPTY;
		return ret->len > 0;
	}
	while (str_split(rest, ':', ret)) {
		if (ret->len > 0)
			return true;
	}
	return false;
}

/* Of a list, files that do not exist are left out, as by kubectl. */
static void
config_read_files(struct config_loader *l, struct config_files *files,
                  const struct kube_config_source *source)
{
	struct str path, rest = str_c(source->kubeconfig);
	struct error err;
	size_t n = 0;

	while (kube_config_next_file(&rest, source->is_list, &path)) {
		CLEANUP(buf_fini) struct buf text = BUF_SECRET(LIMIT_KUBECONFIG);
		struct config_file *file;
		int line = 0;

		l->file = arena_strz(files->arena, path);
		if (n++ == LIMIT_KUBECONFIGS) {
			loader_problem(l, ERR_INVALID, "$KUBECONFIG names more than %d files",
			               LIMIT_KUBECONFIGS);
			return;
		}
		file = &files->items[files->n];
		file->path = l->file;
		if (!file_read(l->file, &text, &err)) {
			/* without the path, because loader_problem() puts it before the message */
			const char *why = strstr(err.msg, ": ");

			if (!source->is_list || err.code != ERR_NOT_FOUND)
				loader_problem(l, err.code, "%s", why ? why + 2 : err.msg);
		} else if (!yaml_parse(buf_str(&text), files->arena, &file->doc, &line, &err)) {
			loader_problem(l, err.code, "line %d: %s", line, err.msg);
		} else {
			files->n++;
		}
	}
	if (files->n == 0 && l->n_problems == 0) {
		l->file = "$KUBECONFIG";
		loader_problem(l, ERR_NOT_FOUND, "none of its files exists: %s",
		               source->kubeconfig);
	}
}

static bool
config_load_files(struct config_loader *l, const struct kube_config_source *source,
                  const char *master)
{
	CLEANUP(arena_wipe) struct arena arena = ARENA_INIT;
	struct config_files files = { .arena = &arena };
	bool are_maps = true;
	struct error err;

	config_read_files(l, &files, source);
	if (l->n_problems > 0)
		return loader_conclude(l);
	for (size_t i = 0; i < files.n; i++)
		are_maps &= config_check_file(l, &files.items[i]);
	l->file = files.items[0].path;
	if (are_maps)
		config_load_current(l, &files, master != NULL);
	if (master && !config_set_server(l->config, str_c(master), &err))
		loader_problem(l, ERR_INVALID, "--master: %s", err.msg);
	return loader_conclude(l);
}

/* ---- inside a pod ---- */

/* Without a file, or without a certificate in it, the system's authorities are trusted, as in
 * client-go (rest/config.go, InClusterConfig). An empty file means that nothing is trusted
 * (docs/spec/kube-client.md, "Rotated files"). */
static void
config_load_pod_ca(struct kube_config *config, const char *folder)
{
	CLEANUP(buf_fini) struct buf pem = BUF_INIT(LIMIT_CREDENTIAL);
	struct str path = arena_printf(&config->arena, "%s/ca.crt", folder);
	struct error err;

	if (!file_read(path.ptr, &pem, &err)) {
		log_warn("no certificate authority of the cluster, trusting the system's",
		         LOG_ERR(&err));
	} else if (pem.len == 0) {
		log_warn("the cluster's certificate authority is an empty file, trusting nothing",
		         LOG_STR("file", path));
		config->trusts_nothing = true;
		config->ca_file = path;
	} else if (!str_contains(buf_str(&pem), STR("-----BEGIN CERTIFICATE-----"))) {
		log_warn("no certificate in the cluster's authority, trusting the system's",
		         LOG_STR("file", path));
	} else {
		config->ca_pem = arena_str(&config->arena, buf_str(&pem));
		config->ca_file = path;
	}
}

static bool
config_load_pod(struct kube_config *config, const char *folder, struct error *err)
{
	struct str host = str_c(getenv("KUBERNETES_SERVICE_HOST"));
	struct str port = str_c(getenv("KUBERNETES_SERVICE_PORT"));
	struct str url;

	if (host.len == 0 || port.len == 0)
		return err_set(
			err, ERR_NOT_FOUND,
			"no configuration has been provided: neither --kubeconfig nor --master is given, and "
			"this is not a pod (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set)");
	url = arena_printf(&config->arena, "https://" URL_HOST_FMT ":%" STR_FMT, URL_HOST_ARG(host),
	                   STR_ARG(port));
	if (!config_set_server(config, url, err))
		return err_wrap(err, "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT");

	config->token_file = arena_printf(&config->arena, "%s/token", folder);
	if (!config_check_token_file(config->token_file.ptr, err))
		return err_wrap(err, "token of the service account");
	config_load_pod_ca(config, folder);
	return true;
}

/* ---- the configuration ---- */

static bool
config_load_without_files(struct kube_config *config, const char *master, const char *pod_folder,
                          struct error *err)
{
	if (!master)
		return config_load_pod(config, pod_folder ? pod_folder : POD_FOLDER, err);
	if (!config_set_server(config, str_c(master), err))
		return err_wrap(err, "--master");
	return true;
}

bool
kube_config_load(const struct kube_config_source *source, struct kube_config **ret,
                 struct buf *problems, struct error *err)
{
	CLEANUP(kube_config_freep) struct kube_config *config = xcalloc(1, sizeof(*config));
	const char *master = source->master && source->master[0] ? source->master : NULL;

	*config = (struct kube_config){
		.server = STR_EMPTY,
		.context = STR_EMPTY,
		.tls_server_name = STR_EMPTY,
		.proxy_url = STR_EMPTY,
		.ca_pem = STR_EMPTY,
		.cert_pem = STR_EMPTY,
		.token_file = STR_EMPTY,
		.username = STR_EMPTY,
		.ca_file = STR_EMPTY,
		.cert_file = STR_EMPTY,
		.key_file = STR_EMPTY,
	};
	if (source->kubeconfig && source->kubeconfig[0]) {
		struct config_loader l = { .config = config, .problems = problems, .err = err };

		if (!config_load_files(&l, source, master))
			return false;
	} else if (!config_load_without_files(config, master, source->in_cluster_folder, err)) {
		/* the only problem, and it has no file */
		if (problems)
			buf_addf(problems, "%s\n", err->msg);
		return false;
	}
	*ret = TAKE(config);
	return true;
}

void
kube_config_free(struct kube_config *config)
{
	if (!config)
		return;
	secret_fini(&config->key_pem);
	secret_fini(&config->token);
	secret_fini(&config->password);
	/* wiped, because a proxy's URL may hold a password, and a plugin's variables any secret */
	arena_wipe(&config->arena);
	free(config);
}
