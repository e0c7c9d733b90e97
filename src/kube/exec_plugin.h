/* kube/exec_plugin.h: credentials from a program (docs/spec/kube-client.md, "Exec plugins").
 * The program is started when a request needs a credential and the last one expires within ten
 * seconds or was refused by the server. It runs on a thread of its own, one run at a time, for at
 * most a minute. All requests that need a credential in the meantime wait for that run, each until
 * its own deadline. Runs start at least a second apart, even if the server refuses every
 * credential.
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
/** Kills the program if it runs, and frees the plugin. NULL is allowed. */
void exec_plugin_free(struct exec_plugin *);
DEFINE_CLEANUP(struct exec_plugin, exec_plugin_free)

/** Waits for a credential and appends its token to ret, or nothing if the credential is only a
 * certificate. *ret_generation changes with the credential. ERR_UNAUTHORIZED, with the reason, when
 * no credential was obtained; ERR_TIMEOUT; ERR_CANCELLED. */
NODISCARD bool exec_plugin_token(struct exec_plugin *, const struct call *call, struct buf *ret,
                                 uint64_t *ret_generation, struct error *err);

/** Reports that the server refused that generation. True if a request with another credential may
 * succeed. */
bool exec_plugin_rejected(struct exec_plugin *, uint64_t generation);

/** Copies the client certificate and key if they are newer than *generation, which is 0 at first,
 * and returns true. A credential without certificate empties them. */
bool exec_plugin_certificate(struct exec_plugin *, uint64_t *generation, struct secret *cert_pem,
                             struct secret *key_pem);

/** Sets the CA that the program gets with provideClusterInfo. */
void exec_plugin_set_ca(struct exec_plugin *, struct str ca_pem);

/* ---- the program's output; public for tests and fuzzing ---- */

struct exec_credential {
	struct secret token;    /* may be unset; holds only characters that a header may hold */
	struct secret cert_pem; /* set if and only if key_pem is */
	struct secret key_pem;
	int64_t expires_wall_ns; /* CLOCK_FOREVER: no expiry given */
};

void exec_credential_fini(struct exec_credential *);
/** Reads an ExecCredential of that version. ERR_INVALID says what is wrong, without repeating any
 * of the content. */
NODISCARD bool exec_credential_parse(struct str json, struct str api_version,
                                     struct exec_credential *ret, struct error *err);

#endif
