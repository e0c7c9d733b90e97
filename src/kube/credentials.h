/* kube/credentials.h: the credentials of our requests, kept up to date, from three sources: those
 * of the configuration (kube/credentials.c), a program (kube/exec_plugin.c), and the API server
 * itself, which issues tokens of service accounts (kube/service_account.c); and the certificates
 * and keys of a connection (kube/tls_files.c).
 *
 * Threads: any, apart from the functions for certificates.
 */
#ifndef CCMD_KUBE_CREDENTIALS_H
#define CCMD_KUBE_CREDENTIALS_H

#include "kube/client.h"
#include "kube/config.h"

/* ---- of the configuration: the Authorization header ----
 *
 * A token file is read again when the last read is 50 s old, and immediately after a 401. If a read
 * fails or the file is empty, the last good token stays in use, and a warning is logged at a
 * limited rate. */

struct credentials;

/** ERR_NOT_FOUND, ERR_FORBIDDEN or ERR_INVALID when the token file cannot be read or is empty.
 * Credentials are never sent over plain http: a warning is logged, and authorize() adds nothing. */
NODISCARD bool credentials_new(const struct kube_config *config, struct clock *clock,
                               struct credentials **ret, struct error *err);
/** Exchanges the credentials with those of fresh, which was created from a newer configuration. The
 * caller then frees fresh, with the old credentials. */
void credentials_adopt(struct credentials *, struct credentials *fresh);
void credentials_free(struct credentials *);
DEFINE_CLEANUP(struct credentials, credentials_free)

/** An implementation of struct http_auth; it belongs to the credentials. */
struct http_auth *credentials_auth(struct credentials *);

/* ---- from a program (docs/spec/kube-client.md, "Exec plugins") ----
 *
 * The program is started when a request needs a credential and the last one expires within ten
 * seconds or was refused by the server. It runs on a thread of its own, one run at a time, for at
 * most a minute. All requests that need a credential in the meantime wait for that run, each until
 * its own deadline. Runs start at least a second apart, even if the server refuses every
 * credential. */

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

/** Reports that the server refused that generation. True if another credential may succeed. */
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
/** Reads an ExecCredential of that version. ERR_INVALID says what is wrong without the content. */
NODISCARD bool exec_credential_parse(struct str json, struct str api_version,
                                     struct exec_credential *ret, struct error *err);

/* ---- tokens of a service account of kube-system (docs/spec/framework.md, "Service accounts") ----
 *
 * Tokens are requested with TokenRequest, for an hour, with the credentials of the given client.
 * The account and its namespace are created if they are missing. When a fifth of a token's life is
 * left, the first request that needs it renews it, while other requests continue with the old one.
 */

struct service_account;

/** name and client must outlive it. */
struct service_account *service_account_new(const char *name, struct kube_client *client,
                                            struct clock *clock);
/** NULL is allowed. */
void service_account_free(struct service_account *);
DEFINE_CLEANUP(struct service_account, service_account_free)

/** Appends a valid token. *ret_generation changes with it. ERR_UNAUTHORIZED, with the reason, after
 * four failed attempts to get one; ERR_TIMEOUT; ERR_CANCELLED. */
NODISCARD bool service_account_token(struct service_account *, const struct call *call,
                                     struct buf *ret, uint64_t *ret_generation, struct error *err);

/** Reports that the server refused that generation. True if a new token should be requested, which
 * is the case at most once a second. */
bool service_account_rejected(struct service_account *, uint64_t generation);

/* ---- certificates and keys, and the files that they come from ----
 *
 * Files are compared by content and not by time, because the kubelet replaces them by switching a
 * symbolic link. A file that cannot be read or used changes nothing: the last content stays in use.
 *
 * Threads: one at a time; kube/connection.c holds its lock. */

struct tls_files {
	char *ca_file, *cert_file, *key_file; /* "": inline, or none */
	struct secret ca_pem;                 /* none: the system's, unless trusts_nothing */
	bool trusts_nothing;
	bool is_insecure;
	struct secret cert_pem, key_pem; /* none, or both */
};

/** What differs. */
enum tls_files_change {
	TLS_FILES_SAME = 0,
	TLS_FILES_CA = 1,
	TLS_FILES_CERT = 2,
};

void tls_files_init(struct tls_files *m, const struct kube_config *config);
void tls_files_fini(struct tls_files *m);

/** Reads the files again. Returns the sum of enum tls_files_change. *err has the last problem if
 * there was one, and the code ERR_NONE if not. Each reading of the authorities is counted in
 * rest_client_transport_ca_reload_total. */
unsigned tls_files_follow(struct tls_files *m, struct error *err);

/** Takes over the files and texts of another configuration. False with ERR_INVALID, and nothing
 * changed, if they cannot be used. */
NODISCARD bool tls_files_update(struct tls_files *m, const struct kube_config *config,
                                unsigned *ret_changes, struct error *err);

/** Sets a client certificate that does not come from the files, or none if both are empty.
 * ERR_INVALID, and nothing changed, if certificate and key do not work together. */
NODISCARD bool tls_files_set_cert(struct tls_files *m, const struct secret *cert_pem,
                                  const struct secret *key_pem, struct error *err);

/** Returns views of the texts; with_cert false: without the client certificate. */
struct tls_config tls_files_config(const struct tls_files *m, bool with_cert);

#endif
