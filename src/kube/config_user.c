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

static void
push_text(struct texts *t, const char *text)
{
	ARRAY_PUSH(t->items, t->n, t->cap, text);
}

/* Adds the scalars of a list. Any other element is a problem. */
static void
push_list(const struct config_entry *e, const char *key, struct texts *t)
{
	const struct yaml_node *list = yaml_get(e->map, str_c(key));

	if (!list || list->kind == YAML_NULL)
		return;
	if (list->kind != YAML_LIST) {
		entry_problem(e, key, ERR_INVALID, "must be a list, not a %s",
		              yaml_kind_name(list));
		return;
	}
	for (size_t i = 0; i < list->n; i++) {
		if (list->items[i].kind == YAML_SCALAR)
			push_text(t, arena_strz(&e->loader->config->arena, list->items[i].text));
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
	if (password.len)
		secret_set(&config->password, password);
	if ((config->username.len || password.len) &&
	    (entry_has(e, "token") || entry_has(e, "tokenFile")))
		entry_problem(e, "username", ERR_INVALID,
		              "more than one authentication method: token and basic");
}

/* ---- plugins ---- */

static struct str
plugin_command(const struct config_entry *e)
{
	struct str command = entry_text(e, "command");

	if (command.len == 0)
		entry_problem(e, "command", ERR_INVALID, "not set");
	if (str_index(command, '/') >= 0)
		return entry_path(e, "command");
	return arena_str(&e->loader->config->arena, command);
}

static const char *const *
plugin_argv(const struct config_entry *e)
{
	struct texts argv = { 0 };

	push_text(&argv, plugin_command(e).ptr);
	push_list(e, "args", &argv);
	return keep_texts(&argv, &e->loader->config->arena);
}

static void
push_variable(const struct config_entry *e, const struct yaml_node *item, struct texts *t)
{
	struct config_entry variable = *e;
	struct str name, value;

	variable.map = item;
	variable.inside = "exec.env.";
	name = entry_text(&variable, "name");
	value = entry_text(&variable, "value");
	if (name.len == 0 || str_index(name, '=') >= 0)
		entry_problem(&variable, "name", ERR_INVALID, "not a name of a variable");
	else
		push_text(t, arena_printf(&e->loader->config->arena, "%" STR_FMT "=%" STR_FMT,
		                          STR_ARG(name), STR_ARG(value))
		                     .ptr);
}

static const char *const *
plugin_env(const struct config_entry *e)
{
	const struct yaml_node *list = yaml_get(e->map, STR("env"));
	struct texts env = { 0 };

	if (list && list->kind != YAML_LIST && list->kind != YAML_NULL)
		entry_problem(e, "env", ERR_INVALID, "must be a list, not a %s",
		              yaml_kind_name(list));
	for (size_t i = 0; list && list->kind == YAML_LIST && i < list->n; i++)
		push_variable(e, &list->items[i], &env);
	return keep_texts(&env, &e->loader->config->arena);
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

static void add_json(struct buf *b, const struct yaml_node *node);

/* A scalar that is a number in JSON becomes a number. Numbers that only YAML has (0x10, .5) become
 * texts. */
static void
add_json_scalar(struct buf *b, const struct yaml_node *node)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct error err;
	bool value;

	if (yaml_to_bool(node, /*allow_yaml11=*/false, &value))
		buf_add_c(b, value ? "true" : "false");
	else if (!node->is_quoted && json_parse(node->text, &doc, &err) &&
	         yyjson_is_num(yyjson_doc_get_root(doc)))
		buf_add_str(b, node->text);
	else
		json_add_str(b, node->text);
}

static void
add_json_items(struct buf *b, const struct yaml_node *node)
{
	for (size_t i = 0; i < node->n; i++) {
		if (i > 0)
			buf_add_char(b, ',');
		if (node->kind == YAML_MAP)
			json_add_name(b, node->keys[i].text);
		add_json(b, &node->items[i]);
	}
}

/* The recursion is bounded, because base/yaml.c refuses documents deeper than LIMIT_YAML_DEPTH. */
static void
add_json(struct buf *b, const struct yaml_node *node)
{
	switch (node->kind) {
	case YAML_NULL:
		buf_add_c(b, "null");
		break;
	case YAML_SCALAR:
		add_json_scalar(b, node);
		break;
	case YAML_LIST:
	case YAML_MAP:
		buf_add_char(b, node->kind == YAML_MAP ? '{' : '[');
		add_json_items(b, node);
		buf_add_char(b, node->kind == YAML_MAP ? '}' : ']');
		break;
	}
}

/* Returns the cluster's extension for plugins as JSON. The text is empty if the cluster has no such
 * extension. */
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

static void
read_plugin(const struct config_entry *e, const struct config_entry *cluster)
{
	struct kube_config *config = e->loader->config;
	struct kube_exec *exec = ARENA_NEW(&config->arena, struct kube_exec);

	exec->argv = plugin_argv(e);
	exec->env = plugin_env(e);
	exec->api_version = plugin_version(e);
	check_interactive(e, exec->api_version);
	exec->install_hint = arena_str(&config->arena, entry_text(e, "installHint"));
	exec->wants_cluster = entry_is_true(e, "provideClusterInfo");
	exec->cluster_config = STR_EMPTY;
	if (cluster && exec->wants_cluster)
		exec->cluster_config = plugin_cluster_config(cluster);
	config->exec = exec;
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
	exec.map = yaml_get(user->map, STR("exec"));
	exec.inside = "exec.";
	if (exec.map->kind == YAML_MAP)
		read_plugin(&exec, cluster);
	else
		entry_problem(user, "exec", ERR_INVALID, "must be a map, not a %s",
		              yaml_kind_name(exec.map));
}

/* ---- impersonation ---- */

struct headers {
	const struct config_entry *user;
	struct texts lines;
	size_t n_bytes;
};

/* May the text be the value of a header? A line break in it would begin another header, such as one
 * that impersonates another user. */
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
	push_text(&h->lines, line.ptr);
}

static void
push_groups(struct headers *h)
{
	struct texts groups = { 0 };

	push_list(h->user, "as-groups", &groups);
	for (size_t i = 0; i < groups.n; i++)
		push_header(h, "as-groups", "Impersonate-Group", str_c(groups.items[i]));
	free(groups.items);
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
	const struct yaml_node *map = yaml_get(h->user->map, STR("as-user-extra"));
	struct config_entry extra = *h->user;

	if (!map || map->kind == YAML_NULL)
		return;
	if (map->kind != YAML_MAP) {
		entry_problem(h->user, "as-user-extra", ERR_INVALID, "must be a map, not a %s",
		              yaml_kind_name(map));
		return;
	}
	extra.map = map;
	extra.inside = "as-user-extra.";
	for (size_t i = 0; i < map->n; i++) {
		struct arena *arena = &extra.loader->config->arena;
		const char *name = extra_name(arena, map->keys[i].text);
		struct texts values = { 0 };

		push_list(&extra, arena_strz(arena, map->keys[i].text), &values);
		for (size_t j = 0; j < values.n; j++)
			push_header(h, "as-user-extra", name, str_c(values.items[j]));
		free(values.items);
	}
}

static void
push_single(struct headers *h, const char *key, const char *header)
{
	struct str value = entry_text(h->user, key);

	if (value.len > 0)
		push_header(h, key, header, value);
}

/* Does the entry name a user to impersonate? Without `as` the API server refuses the other parts.
 */
static bool
check_impersonated_name(const struct config_entry *user)
{
	static const char *const others[] = { "as-uid", "as-groups", "as-user-extra" };

	if (entry_has(user, "as"))
		return true;
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		if (entry_has(user, others[i]))
			entry_problem(user, others[i], ERR_INVALID, "needs `as`");
	}
	return false;
}

/* Turns `as`, `as-uid`, `as-groups` and `as-user-extra` into headers (docs/spec/kube-client.md,
 * "Impersonation"). */
static void
load_impersonation(const struct config_entry *user)
{
	struct kube_config *config = user->loader->config;
	struct headers h = { .user = user };

	if (!check_impersonated_name(user))
		return;
	push_single(&h, "as", "Impersonate-User");
	push_single(&h, "as-uid", "Impersonate-Uid");
	push_groups(&h);
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
