/* kube/connection.h: one API server as one configuration describes it, with any number of clients
 * whose credentials are kept up to date.
 *
 * Files that the configuration names are read again when they change: tokens, CA, client
 * certificate and key, and the kubeconfig itself, except its server, which cannot change while the
 * program runs. Files are compared by content, because the kubelet swaps symbolic links: every
 * minute, and immediately (at most once a second) after a 401 or a TLS failure. A file that cannot
 * be read or used is logged at a limited rate, and the last usable content stays in effect. A
 * changed client certificate or CA is used by new connections; old connections are closed when
 * their request or watch ends, so an identity that was replaced ends within a watch's time-out.
 *
 * Threads: any. The connection must outlive its clients' users.
 */
#ifndef CCMD_KUBE_CONNECTION_H
#define CCMD_KUBE_CONNECTION_H

#include "kube/client.h"
#include "kube/config.h"

enum {
	KUBE_CONNECTION_FILES = 4,
};

struct kube_connection;

struct kube_client_options {
	const char *name;    /* of the I/O thread: "http", "lease", "review" */
	const char *agent;   /* end of the User-Agent: "node-controller"; NULL: none */
	struct fence *fence; /* NULL: none */
	double qps, burst;   /* 0: automatic */
	/* For --use-service-account-credentials: act as kube-system/NAME with tokens from
	 * TokenRequest (kube/service_account.c). NULL: use the credentials of the configuration. */
	const char *service_account;
};

/** Loads and validates the configuration. Errors as for kube_config_load(). */
NODISCARD bool kube_connection_open(const struct kube_config_source *source, struct clock *clock,
                                    struct kube_connection **ret, struct error *err);
/** Frees the connection and its clients. NULL is allowed. */
void kube_connection_close(struct kube_connection *);
DEFINE_CLEANUP(struct kube_connection, kube_connection_close)

/** A client with an I/O thread of its own. Belongs to the connection. */
NODISCARD bool kube_connection_client(struct kube_connection *,
                                      const struct kube_client_options *options,
                                      struct kube_client **ret, struct error *err);

/** The same client with another end of the User-Agent, so that the API server's logs show which
 * part of the program sent a request. Not thread-safe. The returned client is valid as long as the
 * connection. */
struct kube_client kube_connection_named(struct kube_connection *, const struct kube_client *,
                                         const char *agent);

/** The files that are read again, without the kubeconfig itself, for the sandbox. only_secret: the
 * token and the key. Valid until the first client is created. Returns their number. */
size_t kube_connection_files(const struct kube_connection *, bool only_secret,
                             struct str ret[KUBE_CONNECTION_FILES]);
/** The configuration as it was first loaded, for messages: its server and context stay in effect.
 */
const struct kube_config *kube_connection_config(const struct kube_connection *);
/** Does the configuration have an exec plugin? The program then cannot run in a sandbox. */
bool kube_connection_uses_plugin(const struct kube_connection *);

#endif
