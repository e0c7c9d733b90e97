/* kube/exec_plugin.h: credentials from a program (docs/spec/kube-client.md, "Exec plugins").
 *
 * The program runs on a thread of its own, one at a time, for at most a minute, when somebody needs
 * a credential and the last one ends within ten seconds or was refused; all who ask meanwhile wait
 * for the same run, each as long as it has time. Runs start at least a second apart, whatever the
 * program answers and the server thinks of it.
 *
 * Threads: any.
 */
#ifndef CCMD_KUBE_EXEC_PLUGIN_H
#define CCMD_KUBE_EXEC_PLUGIN_H

#include "base/call.h"
#include "base/secret.h"
#include "kube/config.h"

struct exec_plugin;

/** config->exec must not be NULL; config must outlive it. */
struct exec_plugin *exec_plugin_new(const struct kube_config *config, struct clock *clock);
/** Kills the program if it runs. NULL is fine. */
void exec_plugin_free(struct exec_plugin *);
DEFINE_CLEANUP(struct exec_plugin, exec_plugin_free)

/** Waits for a credential and appends its token to ret; nothing when it has none. *ret_generation
 * changes with the credential. ERR_UNAUTHORIZED with the reason when there is none; ERR_TIMEOUT,
 * ERR_CANCELLED. */
NODISCARD bool exec_plugin_token(struct exec_plugin *, const struct call *call, struct buf *ret,
                                 uint64_t *ret_generation, struct error *err);

/** The server refused that generation: true when it is worth to ask for a token once more. */
bool exec_plugin_rejected(struct exec_plugin *, uint64_t generation);

/** Copies the present client certificate and key (none: empties them) unless they are those of
 * *generation, which is 0 at first: true then. */
bool exec_plugin_certificate(struct exec_plugin *, uint64_t *generation, struct secret *cert_pem,
                             struct secret *key_pem);

/** The CA that the program is told of from now on, with provideClusterInfo. */
void exec_plugin_set_ca(struct exec_plugin *, struct str ca_pem);

/* ---- its answer, for tests ---- */

struct exec_credential {
	struct secret token;    /* none, or without anything that no header may hold */
	struct secret cert_pem; /* none, or both */
	struct secret key_pem;
	int64_t expires_wall_ns; /* CLOCK_FOREVER: it does not say */
};

void exec_credential_fini(struct exec_credential *);
/** Reads an ExecCredential of that version. ERR_INVALID with what is wrong; nothing of its content
 * is in the message. */
NODISCARD bool exec_credential_parse(struct str json, struct str api_version,
                                     struct exec_credential *ret, struct error *err);

#endif
