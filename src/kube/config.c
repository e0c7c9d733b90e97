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

/* ---- the server ---- */

/* Appends the URL with the scheme and the host that the text leaves out. kubectl accepts
 * "host:6443" and "https://:6443". */
static void
config_complete_url(struct buf *b, struct str text, bool has_scheme, bool has_tls)
{
	struct str rest = text;

	if (!has_scheme)
		buf_add_c(b, has_tls ? "https://" : "http://");
	/* This loop copies the scheme, including "://". */
	for (bool in_scheme = has_scheme; in_scheme; rest = str_skip(rest, 1)) {
		buf_add_str(b, str_head(rest, 1));
		in_scheme = !str_ends(buf_str(b), STR("://"));
	}
	if (rest.len == 0 || rest.ptr[0] == ':')
		buf_add_c(b, "localhost");
	buf_add_str(b, rest);
}

/* Validates a server's address and puts it into one form: scheme, host, port, path. */
static bool
config_parse_server(struct str text, bool has_tls, struct arena *arena, struct str *ret,
                    struct error *err)
{
	CLEANUP(buf_fini) struct buf full = BUF_INIT(LIMIT_HTTP_URL);
	bool has_scheme = str_contains(text, STR("://"));
	struct url url;

	config_complete_url(&full, text, has_scheme, has_tls);
	if (!buf_ok(&full))
		return err_set(err, ERR_INVALID, "longer than %zu bytes", LIMIT_HTTP_URL);
	if (!url_parse(buf_str(&full), &url, err))
		return false;
	if (!str_eq_c(url.scheme, "https") && !str_eq_c(url.scheme, "http"))
		return err_set(err, ERR_INVALID, "must be http or https, not %" STR_FMT,
		               STR_ARG(url.scheme));
	if (!has_scheme && url.path.len)
		return err_set(err, ERR_INVALID, "must be a URL or host:port");
	if (url.has_userinfo)
		return err_set(err, ERR_INVALID, "must not hold a user name or password");
	*ret = arena_printf(arena, "%" STR_FMT "://" URL_HOST_FMT ":%d%" STR_FMT,
	                    STR_ARG(url.scheme), URL_HOST_ARG(url.host), url.port,
	                    STR_ARG(url.path));
	return true;
}

/* A server's address without a scheme gets https if there are settings that have no effect without
 * TLS, as in client-go (rest/url_utils.go, defaultServerUrlFor). */
static bool
config_is_tls_wanted(const struct kube_config *config)
{
	return config->ca_pem.len || config->cert_pem.len || config->is_insecure;
}

/* ---- cluster ---- */

static void
config_load_proxy(const struct config_entry *e)
{
	struct str text = entry_text(e, "proxy-url");
	struct error err;
	struct url url;

	if (text.len == 0)
		return;
	if (!url_parse(text, &url, &err))
		entry_problem(e, "proxy-url", ERR_INVALID, "%s", err.msg);
	e->loader->config->proxy_url = arena_str(&e->loader->config->arena, text);
}

static void
config_load_ca(const struct config_entry *e)
{
	CLEANUP(buf_fini) struct buf pem = BUF_SECRET(LIMIT_CREDENTIAL);
	struct kube_config *config = e->loader->config;

	config->is_insecure = entry_is_true(e, "insecure-skip-tls-verify");
	if (config->is_insecure &&
	    (entry_has(e, "certificate-authority") || entry_has(e, "certificate-authority-data")))
		entry_problem(e, "insecure-skip-tls-verify", ERR_INVALID,
		              "cannot be combined with a certificate authority");
	if (entry_pem(e, "certificate-authority", "-----BEGIN CERTIFICATE-----", &pem,
	              &config->ca_file))
		config->ca_pem = arena_str(&config->arena, buf_str(&pem));
}

/* Is called after the user was read, because a client certificate decides about the scheme. It is
 * not called with --master, which replaces the server together with its name in the certificate. */
static void
config_load_server(const struct config_entry *e)
{
	struct kube_config *config = e->loader->config;
	struct str text = entry_text(e, "server");
	struct error err;

	if (text.len == 0)
		entry_problem(e, "server", ERR_INVALID, "not set");
	else if (!config_parse_server(text, config_is_tls_wanted(config), &config->arena,
	                              &config->server, &err))
		entry_problem(e, "server", ERR_INVALID, "%s", err.msg);
	config->tls_server_name = arena_str(&config->arena, entry_text(e, "tls-server-name"));
}

/* ---- the documents ---- */

struct config_file {
	const char *path;
	struct yaml_node doc;
};

/* All files of the configuration that exist. */
struct config_files {
	struct arena arena;
	struct config_file items[LIMIT_KUBECONFIGS];
	size_t n;
};

static void
config_files_fini(struct config_files *files)
{
	arena_wipe(&files->arena);
}

/* Returns the map `key` of an element of a list. A missing map counts as empty. */
static const struct yaml_node *
config_entry_map(struct config_loader *l, const char *list, struct str name,
                 const struct yaml_node *item, const char *key)
{
	static const struct yaml_node nothing = { .kind = YAML_NULL };
	const struct yaml_node *map = yaml_get(item, str_c(key));

	if (map && map->kind == YAML_MAP)
		return map;
	if (map && map->kind != YAML_NULL)
		loader_problem(l, ERR_INVALID, "%s[%" STR_FMT "].%s: must be a map, not a %s", list,
		               STR_ARG(name), key, yaml_kind_name(map));
	return &nothing;
}

/* Finds an entry of clusters, users or contexts of a file by its name. If several entries have the
 * name, the first one counts. Returns false if no entry has it. */
static bool
config_find_in_file(struct config_loader *l, const struct config_file *file, const char *list,
                    const char *key, struct str name, struct config_entry *ret)
{
	const struct yaml_node *items = yaml_get(&file->doc, str_c(list));

	l->file = file->path;
	if (items && items->kind != YAML_LIST && items->kind != YAML_NULL)
		loader_problem(l, ERR_INVALID, "%s: must be a list, not a %s", list,
		               yaml_kind_name(items));
	for (size_t i = 0; items && items->kind == YAML_LIST && i < items->n; i++) {
		const struct yaml_node *found = yaml_get(&items->items[i], STR("name"));

		if (!found || found->kind != YAML_SCALAR || !str_eq(found->text, name))
			continue;
		*ret = (struct config_entry){
			.loader = l,
			.file = file->path,
			.list = list,
			.name = name,
			.map = config_entry_map(l, list, name, &items->items[i], key),
		};
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

static void
config_load_namespace(const struct config_entry *context)
{
	struct str namespace = entry_text(context, "namespace");

	if (namespace.len == 0)
		return;
	if (!name_is_dns_label(namespace))
		entry_problem(context, "namespace", ERR_INVALID,
		              "\"%" STR_FMT "\" is not a name of a namespace", STR_ARG(namespace));
	context->loader->config->namespace = arena_str(&context->loader->config->arena, namespace);
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

static void
config_load_context(const struct config_entry *context, const struct config_files *files,
                    bool has_master)
{
	struct config_entry cluster, user;
	bool has_cluster;

	config_load_namespace(context);
	has_cluster = config_follow_context(context, files, "clusters", "cluster", &cluster);
	if (has_cluster) {
		config_load_ca(&cluster);
		config_load_proxy(&cluster);
	}
	if (config_follow_context(context, files, "users", "user", &user))
		config_load_user(&user, has_cluster ? &cluster : NULL);
	if (has_cluster && !has_master)
		config_load_server(&cluster);
}

/* Refuses other kinds of documents, such as --kubeconfig=deployment.yaml, with a clear message. */
static void
config_check_kind(struct config_loader *l, const struct yaml_node *doc)
{
	static const char *const expected[][2] = { { "apiVersion", "v1" }, { "kind", "Config" } };

	for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
		const struct yaml_node *node = yaml_get(doc, str_c(expected[i][0]));

		if (node && node->kind == YAML_SCALAR && node->text.len &&
		    !str_eq_c(node->text, expected[i][1]))
			loader_problem(l, ERR_INVALID, "%s: \"%" STR_FMT "\" is not \"%s\"",
			               expected[i][0], STR_ARG(node->text), expected[i][1]);
	}
}

/* False: the file has no map, and is not read any further. */
static bool
config_check_file(struct config_loader *l, const struct config_file *file)
{
	const struct yaml_node *doc = &file->doc;

	l->file = file->path;
	config_check_kind(l, doc);
	if (doc->kind == YAML_MAP || doc->kind == YAML_NULL)
		return true;
	loader_problem(l, ERR_INVALID, "is not a kubeconfig: must be a map, not a %s",
	               yaml_kind_name(doc));
	return false;
}

/* The first file with a current context; NULL: none has one. */
static const struct config_file *
config_find_current(const struct config_files *files, struct str *ret_name)
{
	for (size_t i = 0; i < files->n; i++) {
		const struct yaml_node *current = yaml_get(&files->items[i].doc,
		                                           STR("current-context"));

		if (!current || current->kind != YAML_SCALAR || current->text.len == 0)
			continue;
		*ret_name = current->text;
		return &files->items[i];
	}
	return NULL;
}

static void
config_load_current(struct config_loader *l, const struct config_files *files, bool has_master)
{
	const struct config_file *file;
	struct config_entry context;
	struct str name;

	file = config_find_current(files, &name);
	if (!file) {
		if (!has_master)
			loader_problem(
				l, ERR_INVALID,
				"current-context: not set, no configuration has been provided");
	} else if (!config_find_entry(l, files, "contexts", "context", name, &context)) {
		l->file = file->path;
		loader_problem(l, ERR_INVALID,
		               "current-context: \"%" STR_FMT "\" is not in contexts",
		               STR_ARG(name));
	} else {
		config_load_context(&context, files, has_master);
	}
}

static void
config_load_documents(struct config_loader *l, const struct config_files *files, const char *master)
{
	bool are_maps = true;
	struct error err;

	for (size_t i = 0; i < files->n; i++)
		are_maps &= config_check_file(l, &files->items[i]);
	l->file = files->items[0].path;
	if (are_maps)
		config_load_current(l, files, master != NULL);
	if (master && !config_parse_server(str_c(master), config_is_tls_wanted(l->config),
	                                   &l->config->arena, &l->config->server, &err))
		loader_problem(l, ERR_INVALID, "--master: %s", err.msg);
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

/* Adds the file to those that are read. */
static void
config_read_file(struct config_loader *l, struct config_files *files, bool may_be_missing)
{
	CLEANUP(buf_fini) struct buf text = BUF_SECRET(LIMIT_KUBECONFIG);
	struct config_file *file = &files->items[files->n];
	struct error err;
	int line = 0;

	file->path = l->file;
	if (!file_read(l->file, &text, &err)) {
		/* The path is cut off, because loader_problem() puts it before the message. */
		const char *why = strstr(err.msg, ": ");

		if (!may_be_missing || err.code != ERR_NOT_FOUND)
			loader_problem(l, err.code, "%s", why ? why + 2 : err.msg);
	} else if (!yaml_parse(buf_str(&text), &files->arena, &file->doc, &line, &err)) {
		loader_problem(l, err.code, "line %d: %s", line, err.msg);
	} else {
		files->n++;
	}
}

/* Of a list, files that do not exist are left out, as by kubectl. */
static void
config_read_files(struct config_loader *l, struct config_files *files,
                  const struct kube_config_source *source)
{
	struct str path, rest = str_c(source->kubeconfig);
	size_t n = 0;

	while (kube_config_next_file(&rest, source->is_list, &path)) {
		l->file = arena_strz(&files->arena, path);
		if (n++ == LIMIT_KUBECONFIGS) {
			loader_problem(l, ERR_INVALID, "$KUBECONFIG names more than %d files",
			               LIMIT_KUBECONFIGS);
			return;
		}
		config_read_file(l, files, source->is_list);
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
	CLEANUP(config_files_fini) struct config_files files = { .arena = ARENA_INIT };

	config_read_files(l, &files, source);
	if (l->n_problems == 0)
		config_load_documents(l, &files, master);
	return loader_conclude(l);
}

/* ---- inside a pod ---- */

static struct str
pod_path(struct kube_config *config, const char *folder, const char *name)
{
	return arena_printf(&config->arena, "%s/%s", folder ? folder : POD_FOLDER, name);
}

static bool
pod_server(struct kube_config *config, struct error *err)
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
	if (!config_parse_server(url, /*has_tls=*/true, &config->arena, &config->server, err))
		return err_wrap(err, "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT");
	return true;
}

/* Without a file, or without a certificate in it, the system's authorities are trusted, as in
 * client-go (rest/config.go, InClusterConfig). An empty file means that nothing is trusted
 * (docs/spec/kube-client.md, "Rotated files"). */
static void
pod_ca(struct kube_config *config, const char *folder)
{
	CLEANUP(buf_fini) struct buf pem = BUF_INIT(LIMIT_CREDENTIAL);
	struct str path = pod_path(config, folder, "ca.crt");
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

static void
pod_namespace(struct kube_config *config, const char *folder)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_NAME);
	struct str name = str_c(getenv("POD_NAMESPACE"));
	struct error err;

	if (name.len == 0 && file_read(pod_path(config, folder, "namespace").ptr, &text, &err))
		name = str_trim(buf_str(&text));
	if (name.len)
		config->namespace = arena_str(&config->arena, name);
}

static bool
config_load_pod(struct kube_config *config, const char *folder, struct error *err)
{
	if (!pod_server(config, err))
		return false;
	config->is_in_cluster = true;
	config->token_file = pod_path(config, folder, "token");
	if (!config_check_token_file(config->token_file.ptr, err))
		return err_wrap(err, "token of the service account");
	pod_ca(config, folder);
	pod_namespace(config, folder);
	return true;
}

/* ---- the configuration ---- */

static struct kube_config *
config_new(void)
{
	struct kube_config *config = xcalloc(1, sizeof(*config));
	struct str *const texts[] = { &config->server,    &config->tls_server_name,
		                      &config->proxy_url, &config->ca_pem,
		                      &config->cert_pem,  &config->token_file,
		                      &config->username,  &config->ca_file,
		                      &config->cert_file, &config->key_file };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		*texts[i] = STR_EMPTY;
	config->namespace = STR("default");
	return config;
}

static const char *
null_if_empty(const char *text)
{
	return text && text[0] ? text : NULL;
}

/* Adds the error as the only problem, without the name of a file. */
static bool
config_add_single_problem(struct buf *problems, struct error *err)
{
	if (problems)
		buf_addf(problems, "%s\n", err->msg);
	return false;
}

bool
kube_config_load(const struct kube_config_source *source, struct kube_config **ret,
                 struct buf *problems, struct error *err)
{
	CLEANUP(kube_config_freep) struct kube_config *config = config_new();
	const char *file = null_if_empty(source->kubeconfig),
		   *master = null_if_empty(source->master);
	struct config_loader l = {
		.config = config, .file = file, .problems = problems, .err = err
	};

	if (file) {
		if (!config_load_files(&l, source, master))
			return false;
	} else if (master) {
		if (!config_parse_server(str_c(master), /*has_tls=*/false, &config->arena,
		                         &config->server, err)) {
			err_wrap(err, "--master");
			return config_add_single_problem(problems, err);
		}
	} else if (!config_load_pod(config, source->in_cluster_folder, err)) {
		return config_add_single_problem(problems, err);
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
