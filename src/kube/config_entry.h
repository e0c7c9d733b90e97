/* kube/config_entry.h: what the three files of the configuration share: typed getters for the
 * values of a kubeconfig, and the list of its problems. Only for kube/config*.c.
 *
 * Reading never stops at a problem, so that one run shows all of them. A value that cannot be used
 * counts as absent, each problem becomes a line, and the first one becomes the error.
 */
#ifndef CCMD_KUBE_CONFIG_ENTRY_H
#define CCMD_KUBE_CONFIG_ENTRY_H

#include "base/yaml.h"
#include "kube/config.h"

struct config_loader {
	struct kube_config *config;
	const char *file;     /* that is being read; each line of problems starts with it */
	struct buf *problems; /* may be NULL */
	size_t n_problems;
	struct error *err; /* the first problem */
};

/** The entry with one name in the list of clusters, users or contexts. */
struct config_entry {
	struct config_loader *loader;
	const char *file; /* that has the entry */
	const char *list; /* "clusters"; NULL: map is the whole document */
	struct str name;
	const struct yaml_node *map;
	/* the path to map in the entry, for messages: "exec."; NULL: map is the entry */
	const char *inside;
};

void loader_problem(struct config_loader *l, enum err_code code, const char *fmt, ...)
	PRINTF_LIKE(3, 4);
/** Adds a problem of the value `key`. */
void entry_problem(const struct config_entry *e, const char *key, enum err_code code,
                   const char *fmt, ...) PRINTF_LIKE(4, 5);
/** False if there was a problem. The error names the first one, and the number of the others. */
NODISCARD bool loader_conclude(struct config_loader *l);

/** The value `key` of this kind; NULL when absent or of another kind, which is a problem. */
const struct yaml_node *entry_node(const struct config_entry *e, const char *key,
                                   enum yaml_kind kind);
/** Any scalar counts as text, as in Go: `password: 1234` need not be quoted. Empty when absent. */
struct str entry_text(const struct config_entry *e, const char *key);
/** False when absent. */
bool entry_is_true(const struct config_entry *e, const char *key);
/** Is the value present, and not null, "" or []? */
bool entry_has(const struct config_entry *e, const char *key);
/** A path; a relative one is joined to the kubeconfig's folder. In the configuration's arena. */
struct str entry_path(const struct config_entry *e, const char *key);
/** Appends PEM text that is given inline (KEY-data, in base64) or as a path (KEY) and must contain
 * `marker`. False when it is absent or has a problem. *ret_file is empty for inline text. */
bool entry_pem(const struct config_entry *e, const char *key, const char *marker, struct buf *pem,
               struct str *ret_file);

/* ---- users: kube/config_user.c ---- */

/** Reads a user: client certificate, token, basic authentication, exec plugin and impersonation.
 * The plugin may get information on the cluster, which may be NULL. */
void config_load_user(const struct config_entry *user, const struct config_entry *cluster);
/** Returns true if the file has a token, which is not kept: kube/credentials.c reads it later. */
NODISCARD bool config_check_token_file(const char *path, struct error *err);

#endif
