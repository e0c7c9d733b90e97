/* kube/config_entry.h: the values of a kubeconfig, and what is wrong with them. Only for
 * kube/config.c.
 *
 * Reading never stops at a problem: a value that cannot be used counts as absent, each problem
 * becomes a line, and the first one the error.
 */
#ifndef CCMD_KUBE_CONFIG_ENTRY_H
#define CCMD_KUBE_CONFIG_ENTRY_H

#include "base/yaml.h"
#include "kube/config.h"

struct config_loader {
	struct kube_config *config;
	const char *file;     /* what each line of problems starts with */
	struct buf *problems; /* NULL: not wanted */
	size_t n_problems;
	struct error *err; /* the first problem */
};

/** What one name in clusters, users or contexts stands for. */
struct config_entry {
	struct config_loader *loader;
	const char *list; /* "clusters" */
	struct str name;
	const struct yaml_node *map;
	const char *inside; /* what a key of map is behind, "exec."; NULL: nothing */
};

void loader_problem(struct config_loader *l, enum err_code code, const char *fmt, ...)
	PRINTF_LIKE(3, 4);
/** A problem of the value `key`. */
void entry_problem(const struct config_entry *e, const char *key, enum err_code code,
                   const char *fmt, ...) PRINTF_LIKE(4, 5);
/** The end: false when there was a problem, with the number of those that err does not name behind
 * the one it does. */
NODISCARD bool loader_conclude(struct config_loader *l);

/** Any scalar is text, as in Go: `password: 1234` need not be quoted. Empty when absent. */
struct str entry_text(const struct config_entry *e, const char *key);
/** False when absent. */
bool entry_is_true(const struct config_entry *e, const char *key);
/** Is it there, and not null, "" or []? */
bool entry_has(const struct config_entry *e, const char *key);
/** A path, which is relative to the file that names it; in the arena of the configuration. */
struct str entry_path(const struct config_entry *e, const char *key);
/** Appends PEM text that is given inline (KEY-data, in base64) or as a path (KEY), and holds
 * `marker`. False when there is none, or a problem. *ret_file is empty for inline text. */
bool entry_pem(const struct config_entry *e, const char *key, const char *marker, struct buf *pem,
               struct str *ret_file);

#endif
