/* kube/config_entry.c: see config_entry.h.
 *
 * A message names the place of the value as a user would write it:
 * FILE: users[admin].exec.command: what is wrong. The first problem also becomes the error. The
 * list of problems has at most LIMIT_PROBLEMS lines, since a file may have one for each of its
 * values, and ends with the number of the others.
 *
 * Values come from a file that users write, so names may contain control characters, which would
 * break a line or change a terminal; each of them is replaced by '?'.
 */
#include "kube/config_entry.h"

#include "base/file.h"
#include "base/limits.h"

/* ---- problems ---- */

void
loader_problem(struct config_loader *l, enum err_code code, const char *fmt, ...)
{
	char memory[ERR_MSG_SIZE] = "";
	struct buf text = BUF_FIXED(memory);

	BUF_ADD_ARGS(&text, fmt);
	for (size_t i = 0; i < text.len; i++) {
		if ((unsigned char)text.ptr[i] < ' ' || text.ptr[i] == 0x7f)
			text.ptr[i] = '?';
	}
	if (l->n_problems == 0)
		err_set(l->err, code, "%s: %s", l->file, memory);
	if (l->problems && l->n_problems < LIMIT_PROBLEMS)
		buf_addf(l->problems, "%s: %s\n", l->file, memory);
	l->n_problems++;
}

void
entry_problem(const struct config_entry *e, const char *key, enum err_code code, const char *fmt,
              ...)
{
	char memory[ERR_MSG_SIZE] = "";
	struct buf text = BUF_FIXED(memory);

	BUF_ADD_ARGS(&text, fmt);
	e->loader->file = e->file;
	if (e->list)
		loader_problem(e->loader, code, "%s[%" STR_FMT "].%s%s: %s", e->list,
		               STR_ARG(e->name), e->inside ? e->inside : "", key, memory);
	else
		loader_problem(e->loader, code, "%s: %s", key, memory);
}

bool
loader_conclude(struct config_loader *l)
{
	size_t hidden = l->n_problems > LIMIT_PROBLEMS ? l->n_problems - LIMIT_PROBLEMS : 0;
	struct error first;

	if (l->n_problems == 0)
		return true;
	if (l->problems && hidden)
		buf_addf(l->problems, "%s: %zu more problems\n", l->file, hidden);
	first = *l->err;
	if (l->n_problems > 1)
		err_set(l->err, first.code, "%s (and %zu more)", first.msg, l->n_problems - 1);
	return false;
}

/* ---- values of an entry ---- */

const struct yaml_node *
entry_node(const struct config_entry *e, const char *key, enum yaml_kind kind)
{
	const struct yaml_node *node = yaml_get(e->map, str_c(key));

	if (!node || node->kind == YAML_NULL)
		return NULL;
	if (node->kind == kind)
		return node;
	entry_problem(e, key, ERR_INVALID, "must be a %s, not a %s",
	              kind == YAML_MAP    ? "map"
	              : kind == YAML_LIST ? "list"
	                                  : "string",
	              yaml_kind_name(node));
	return NULL;
}

struct str
entry_text(const struct config_entry *e, const char *key)
{
	const struct yaml_node *node = entry_node(e, key, YAML_SCALAR);

	return node ? node->text : STR_EMPTY;
}

bool
entry_is_true(const struct config_entry *e, const char *key)
{
	const struct yaml_node *node = yaml_get(e->map, str_c(key));
	bool value = false;

	if (!node || node->kind == YAML_NULL)
		return false;
	if (!yaml_to_bool(node, /*allow_yaml11=*/true, &value))
		entry_problem(e, key, ERR_INVALID, "must be true or false, not a %s",
		              yaml_kind_name(node));
	return value;
}

bool
entry_has(const struct config_entry *e, const char *key)
{
	const struct yaml_node *node = yaml_get(e->map, str_c(key));

	if (!node || node->kind == YAML_NULL)
		return false;
	return node->kind == YAML_SCALAR ? node->text.len > 0 : node->n > 0;
}

struct str
entry_path(const struct config_entry *e, const char *key)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(KIB(8));
	struct str text = entry_text(e, key);

	if (text.len == 0)
		return STR_EMPTY;
	file_join(&path, file_folder(str_c(e->file)), text);
	return arena_str(&e->loader->config->arena, buf_str(&path));
}

bool
entry_pem(const struct config_entry *e, const char *key, const char *marker, struct buf *pem,
          struct str *ret_file)
{
	struct arena *arena = &e->loader->config->arena;
	const char *data_key = arena_printf(arena, "%s-data", key).ptr;
	struct str path = entry_path(e, key), data = entry_text(e, data_key);
	struct error err;

	if (path.len && data.len) {
		entry_problem(e, key, ERR_INVALID, "cannot be combined with %s", data_key);
		return false;
	}
	if (!path.len && !data.len)
		return false;
	if (path.len && !file_read(path.ptr, pem, &err)) {
		entry_problem(e, key, ERR_INVALID, "%s", err.msg);
		return false;
	}
	if (data.len && !base64_decode(data, pem)) {
		entry_problem(e, data_key, ERR_INVALID, "not valid base64");
		return false;
	}
	if (!buf_ok(pem)) {
		entry_problem(e, data_key, ERR_INVALID, "larger than %zu kB",
		              LIMIT_CREDENTIAL / 1024);
		return false;
	}
	if (!str_contains(buf_str(pem), str_c(marker))) {
		entry_problem(e, path.len ? key : data_key, ERR_INVALID,
		              "no PEM block \"%s\" in it", marker);
		return false;
	}
	*ret_file = path;
	return true;
}
