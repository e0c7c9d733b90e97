/* kube/config_user.c: the user of a kubeconfig: credentials, an exec plugin, impersonation.
 *
 * A user may have several credentials. kube/credentials.c decides which of them is used
 * (docs/spec/kube-client.md, "Users in a kubeconfig"). This file refuses combinations that must be
 * mistakes, and leaves out a plugin beside a fixed credential, because it would never run.
 */
#include "kube/config_entry.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"

#define INSTEAD "use an exec plugin, a client certificate, token or tokenFile"
#define GROUP_VERSION "client.authentication.k8s.io/"
#define MAX_HEADERS KIB(32) /* the size of all headers of impersonation together */

/* A list of texts that is being built. The array is on the heap while it grows. The texts, and the
 * final list that keep_texts() returns, are in the configuration's arena. */
struct texts {
	const char **items;
	size_t n, cap;
};

static const char *const *
keep_texts(struct texts *t, struct arena *arena)
{
	const char **list = arena_calloc(arena, t->n + 1, sizeof(*list));

	if (t->n > 0)
		memcpy(list, t->items, t->n * sizeof(*list));
	free(t->items);
	return list;
}

/* Adds the scalars of a list. Any other element is a problem. */
static void
push_list(const struct config_entry *e, const char *key, struct texts *t)
{
	const struct yaml_node *list = entry_node(e, key, YAML_LIST);

	for (size_t i = 0; list && i < list->n; i++) {
		if (list->items[i].kind == YAML_SCALAR)
			ARRAY_PUSH(t->items, t->n, t->cap,
			           arena_strz(&e->loader->config->arena, list->items[i].text));
		else
			entry_problem(e, key, ERR_INVALID, "must hold strings, not a %s",
			              yaml_kind_name(&list->items[i]));
	}
}

/* ---- fixed credentials ---- */

static void
load_certificate(const struct config_entry *e)
{
	CLEANUP(buf_fini)
	struct buf cert = BUF_INIT(LIMIT_CREDENTIAL), key = BUF_SECRET(LIMIT_CREDENTIAL);
	struct kube_config *config = e->loader->config;
	bool has_cert = entry_has(e, "client-certificate") ||
	                entry_has(e, "client-certificate-data");
	bool has_key = entry_has(e, "client-key") || entry_has(e, "client-key-data");

	if (has_cert && !has_key)
		entry_problem(e, "client-certificate", ERR_INVALID, "has no client-key");
	if (has_key && !has_cert)
		entry_problem(e, "client-key", ERR_INVALID, "has no client-certificate");
	if (entry_pem(e, "client-certificate", "-----BEGIN CERTIFICATE-----", &cert,
	              &config->cert_file))
		config->cert_pem = arena_str(&config->arena, buf_str(&cert));
	if (entry_pem(e, "client-key", "PRIVATE KEY-----", &key, &config->key_file))
		secret_set(&config->key_pem, buf_str(&key));
}

bool
config_check_token_file(const char *path, struct error *err)
{
	CLEANUP(buf_fini) struct buf token = BUF_SECRET(LIMIT_CREDENTIAL);

	if (!file_read(path, &token, err))
		return false;
	if (str_trim(buf_str(&token)).len == 0)
		return err_set(err, ERR_INVALID, "%s is empty", path);
	return true;
}

static void
load_token(const struct config_entry *e)
{
	struct kube_config *config = e->loader->config;
	struct str token = str_trim(entry_text(e, "token"));
	struct error err;

	config->token_file = entry_path(e, "tokenFile");
	if (config->token_file.len == 0 && token.len)
		secret_set(&config->token, token);
	else if (config->token_file.len && !config_check_token_file(config->token_file.ptr, &err))
		entry_problem(e, "tokenFile", ERR_INVALID, "%s", err.msg);
}

static void
load_basic(const struct config_entry *e)
{
	struct kube_config *config = e->loader->config;
	struct str password = entry_text(e, "password");

	config->username = arena_str(&config->arena, entry_text(e, "username"));
	secret_assign(&config->password, password);
	if ((config->username.len || password.len) &&
	    (entry_has(e, "token") || entry_has(e, "tokenFile")))
		entry_problem(e, "username", ERR_INVALID,
		              "more than one authentication method: token and basic");
}

/* ---- plugins ---- */

static const char *const *
plugin_argv(const struct config_entry *e)
{
	struct arena *arena = &e->loader->config->arena;
	struct str command = entry_text(e, "command");
	struct texts argv = { 0 };

	if (command.len == 0)
		entry_problem(e, "command", ERR_INVALID, "not set");
	command = str_index(command, '/') >= 0 ? entry_path(e, "command")
	                                       : arena_str(arena, command);
	ARRAY_PUSH(argv.items, argv.n, argv.cap, command.ptr);
	push_list(e, "args", &argv);
	return keep_texts(&argv, arena);
}

static struct str
plugin_version(const struct config_entry *e)
{
	struct str version = entry_text(e, "apiVersion");

	if (version.len == 0)
		entry_problem(e, "apiVersion", ERR_INVALID, "not set");
	else if (!str_eq_c(version, GROUP_VERSION "v1") &&
	         !str_eq_c(version, GROUP_VERSION "v1beta1"))
		entry_problem(e, "apiVersion", ERR_INVALID,
		              "must be " GROUP_VERSION "v1 or v1beta1, not \"%" STR_FMT "\"",
		              STR_ARG(version));
	return arena_str(&e->loader->config->arena, version);
}

static const char *const *
plugin_env(const struct config_entry *e)
{
	const struct yaml_node *list = entry_node(e, "env", YAML_LIST);
	struct arena *arena = &e->loader->config->arena;
	struct config_entry variable = *e;
	struct texts env = { 0 };

	variable.inside = "exec.env.";
	for (size_t i = 0; list && i < list->n; i++) {
		struct str name, value;

		variable.map = &list->items[i];
		name = entry_text(&variable, "name");
		value = entry_text(&variable, "value");
		if (name.len == 0 || str_index(name, '=') >= 0)
			entry_problem(&variable, "name", ERR_INVALID, "not a name of a variable");
		else
			ARRAY_PUSH(env.items, env.n, env.cap,
			           arena_printf(arena, "%" STR_FMT "=%" STR_FMT, STR_ARG(name),
			                        STR_ARG(value))
			                   .ptr);
	}
	return keep_texts(&env, arena);
}

/* A daemon has no terminal, so IfAvailable means the same as Never, and Always is refused. In v1
 * the mode has no default and must be set; in v1beta1 it may be missing. */
static void
check_interactive(const struct config_entry *e, struct str version)
{
	struct str mode = entry_text(e, "interactiveMode");

	if (str_eq_c(mode, "Always"))
		entry_problem(e, "interactiveMode", ERR_UNSUPPORTED,
		              "\"Always\" needs a terminal, and this is a daemon");
	else if (mode.len == 0 && !str_eq_c(version, GROUP_VERSION "v1beta1"))
		entry_problem(e, "interactiveMode", ERR_INVALID, "not set");
	else if (mode.len > 0 && !str_eq_c(mode, "Never") && !str_eq_c(mode, "IfAvailable"))
		entry_problem(e, "interactiveMode", ERR_INVALID,
		              "must be Never, IfAvailable or Always, not \"%" STR_FMT "\"",
		              STR_ARG(mode));
}

/* ---- the information on the cluster that a plugin gets ---- */

/* A scalar that is a number in JSON becomes a number. Numbers that only YAML has (0x10, .5) become
 * texts. The recursion is bounded, because base/yaml.c refuses documents deeper than
 * LIMIT_YAML_DEPTH. */
static void
add_json(struct buf *b, const struct yaml_node *node)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct error err;
	bool value;

	switch (node->kind) {
	case YAML_NULL:
		buf_add_c(b, "null");
		break;
	case YAML_SCALAR:
		if (yaml_to_bool(node, /*allow_yaml11=*/false, &value))
			buf_add_c(b, value ? "true" : "false");
		else if (!node->is_quoted && json_parse(node->text, &doc, &err) &&
		         yyjson_is_num(yyjson_doc_get_root(doc)))
			buf_add_str(b, node->text);
		else
			json_add_str(b, node->text);
		break;
	case YAML_LIST:
	case YAML_MAP:
		buf_add_char(b, node->kind == YAML_MAP ? '{' : '[');
		for (size_t i = 0; i < node->n; i++) {
			if (i > 0)
				buf_add_char(b, ',');
			if (node->kind == YAML_MAP)
				json_add_name(b, node->keys[i].text);
			add_json(b, &node->items[i]);
		}
		buf_add_char(b, node->kind == YAML_MAP ? '}' : ']');
		break;
	}
}

/* Returns the cluster's extension for plugins as JSON; an empty text if it has none. */
static struct str
plugin_cluster_config(const struct config_entry *cluster)
{
	CLEANUP(buf_fini) struct buf json = BUF_INIT(KIB(64));
	const struct yaml_node *list = yaml_get(cluster->map, STR("extensions"));

	for (size_t i = 0; list && list->kind == YAML_LIST && i < list->n; i++) {
		const struct yaml_node *name = yaml_get(&list->items[i], STR("name"));
		const struct yaml_node *value = yaml_get(&list->items[i], STR("extension"));

		if (!value || !name || !str_eq_c(name->text, GROUP_VERSION "exec"))
			continue;
		add_json(&json, value);
		break;
	}
	if (!buf_ok(&json))
		entry_problem(cluster, "extensions", ERR_INVALID, "larger than %zu bytes",
		              json.max);
	return arena_str(&cluster->loader->config->arena, buf_str(&json));
}

static struct kube_exec *
read_plugin(const struct config_entry *e, const struct config_entry *cluster)
{
	struct arena *arena = &e->loader->config->arena;
	struct kube_exec *exec = ARENA_NEW(arena, struct kube_exec);

	exec->argv = plugin_argv(e);
	exec->env = plugin_env(e);
	exec->api_version = plugin_version(e);
	check_interactive(e, exec->api_version);
	exec->install_hint = arena_str(arena, entry_text(e, "installHint"));
	exec->wants_cluster = entry_is_true(e, "provideClusterInfo");
	exec->cluster_config = cluster && exec->wants_cluster ? plugin_cluster_config(cluster)
	                                                      : STR_EMPTY;
	return exec;
}

static bool
has_fixed_credential(const struct config_entry *e)
{
	static const char *const keys[] = { "token", "tokenFile", "client-certificate",
		                            "client-certificate-data", "username" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		if (entry_has(e, keys[i]))
			return true;
	}
	return false;
}

/* Reads `exec`. A plugin beside a fixed credential never runs, and is therefore not validated
 * (docs/spec/kube-client.md, "Users in a kubeconfig"). */
static void
load_plugin(const struct config_entry *user, const struct config_entry *cluster)
{
	struct config_entry exec = *user;

	if (!entry_has(user, "exec") || has_fixed_credential(user))
		return;
	exec.map = entry_node(user, "exec", YAML_MAP);
	exec.inside = "exec.";
	if (exec.map)
		user->loader->config->exec = read_plugin(&exec, cluster);
}

/* ---- impersonation ---- */

struct headers {
	const struct config_entry *user;
	struct texts lines;
	size_t n_bytes;
};

/* A line break would begin another header, such as one that impersonates another user. */
static bool
is_header_value(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		if ((unsigned char)s.ptr[i] < ' ' || s.ptr[i] == 0x7f)
			return false;
	}
	return s.len > 0;
}

static void
push_header(struct headers *h, const char *key, const char *name, struct str value)
{
	struct str line;

	if (!is_header_value(value)) {
		entry_problem(
			h->user, key, ERR_INVALID,
			"the value is empty, or contains characters that are not allowed in a header");
		return;
	}
	line = arena_printf(&h->user->loader->config->arena, "%s: %" STR_FMT, name, STR_ARG(value));
	h->n_bytes += line.len;
	ARRAY_PUSH(h->lines.items, h->lines.n, h->lines.cap, line.ptr);
}

static void
push_single(struct headers *h, const char *key, const char *name)
{
	struct str value = entry_text(h->user, key);

	if (value.len > 0)
		push_header(h, key, name, value);
}

/* Adds a header for each text of a list of the entry. Problems of a value are those of `key`. */
static void
push_headers(struct headers *h, const struct config_entry *e, const char *list, const char *key,
             const char *name)
{
	struct texts values = { 0 };

	push_list(e, list, &values);
	for (size_t i = 0; i < values.n; i++)
		push_header(h, key, name, str_c(values.items[i]));
	free(values.items);
}

/* Returns the name of the header for this key. Bytes that the name of a header must not have (RFC
 * 9110, section 5.6.2) are written as %XX, and so is '%' itself, because the API server decodes the
 * name. */
static const char *
extra_name(struct arena *arena, struct str key)
{
	CLEANUP(buf_fini) struct buf name = BUF_INIT(MAX_HEADERS);

	buf_add_c(&name, "Impersonate-Extra-");
	for (size_t i = 0; i < key.len; i++) {
		unsigned char c = (unsigned char)key.ptr[i];

		if (c < 0x80 && (isalnum(c) || strchr("!#$&'*+-.^_`|~", c)) && c != '\0')
			buf_add_char(&name, (char)c);
		else
			buf_addf(&name, "%%%02X", c);
	}
	return arena_strz(arena, buf_str(&name));
}

static void
push_extra(struct headers *h)
{
	struct arena *arena = &h->user->loader->config->arena;
	struct config_entry extra = *h->user;

	extra.map = entry_node(h->user, "as-user-extra", YAML_MAP);
	extra.inside = "as-user-extra.";
	if (!extra.map)
		return;
	for (size_t i = 0; i < extra.map->n; i++) {
		struct str key = extra.map->keys[i].text;

		push_headers(h, &extra, arena_strz(arena, key), "as-user-extra",
		             extra_name(arena, key));
	}
}

/* Turns `as`, `as-uid`, `as-groups` and `as-user-extra` into headers (docs/spec/kube-client.md,
 * "Impersonation"). Without `as` the API server refuses the others. */
static void
load_impersonation(const struct config_entry *user)
{
	static const char *const others[] = { "as-uid", "as-groups", "as-user-extra" };
	struct kube_config *config = user->loader->config;
	struct headers h = { .user = user };

	if (!entry_has(user, "as")) {
		for (size_t i = 0; i < ARRAY_LEN(others); i++) {
			if (entry_has(user, others[i]))
				entry_problem(user, others[i], ERR_INVALID, "needs `as`");
		}
		return;
	}
	push_single(&h, "as", "Impersonate-User");
	push_single(&h, "as-uid", "Impersonate-Uid");
	push_headers(&h, user, "as-groups", "as-groups", "Impersonate-Group");
	push_extra(&h);
	if (h.n_bytes > MAX_HEADERS)
		entry_problem(user, "as", ERR_INVALID, "more than %zu bytes of headers",
		              MAX_HEADERS);
	config->headers = keep_texts(&h.lines, &config->arena);
}

/* ---- the user ---- */

void
config_load_user(const struct config_entry *user, const struct config_entry *cluster)
{
	load_certificate(user);
	load_token(user);
	load_basic(user);
	if (!entry_has(user, "auth-provider"))
		load_plugin(user, cluster);
	else if (entry_has(user, "exec"))
		entry_problem(user, "exec", ERR_INVALID, "cannot be combined with auth-provider");
	else
		entry_problem(user, "auth-provider", ERR_UNSUPPORTED, "not supported; " INSTEAD);
	load_impersonation(user);
}
