/* kube/connection.h: one API server as one configuration describes it, any number of clients,
 * credentials kept fresh.
 *
 * What the configuration names as a file is followed: tokens, CA, client certificate and key, and
 * the kubeconfig itself (its server excepted: another server is another process). Files are
 * compared by content, since the kubelet swaps symbolic links: every minute, and at once after a
 * 401 or a TLS failure (at most once a second). What cannot be read or used is logged at a limited
 * rate, and the last good stays. A changed client certificate or CA is used by new connections, and
 * old ones are closed when their request or watch ends; the identity behind a watch ends within its
 * time-out.
 *
 * Threads: any. The connection outlives its clients' users.
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
	const char *name; /* of the I/O thread: "http", "lease", "review" */
	const char *
		agent; /* end of the User-Agent: "node-controller", "leader-election"; NULL: none */
	struct fence *fence; /* NULL: open */
	double qps, burst;   /* 0: automatic */
	/* --use-service-account-credentials: act as kube-system/NAME, by tokens from TokenRequest,
	 * renewed when 20 % of their life is left; NULL: as the configuration says. The account is
	 * made when missing. */
	const char *service_account;
};

/** Loads and validates as kube_config_load(); its errors. */
NODISCARD bool kube_connection_open(const struct kube_config_source *source, struct clock *clock,
                                    struct kube_connection **ret, struct error *err);
/** Frees its clients too. NULL is fine. */
void kube_connection_close(struct kube_connection *);
DEFINE_CLEANUP(struct kube_connection, kube_connection_close)

/** A client with an I/O thread of its own. Belongs to the connection. */
NODISCARD bool kube_connection_client(struct kube_connection *,
                                      const struct kube_client_options *options,
                                      struct kube_client **ret, struct error *err);

/** The same client under another name, which ends the User-Agent of what is sent by it: the API
 * server's logs tell then who it was. To be asked for while no other thread uses the connection;
 * lives as long as that. */
struct kube_client kube_connection_named(struct kube_connection *, const struct kube_client *,
                                         const char *agent);

/** The files that are followed, but for the kubeconfig itself; valid until the first client is
 * made. Returns how many. */
size_t kube_connection_files(const struct kube_connection *, struct str ret[KUBE_CONNECTION_FILES]);
struct str kube_connection_server(const struct kube_connection *);    /* for messages */
struct str kube_connection_namespace(const struct kube_connection *); /* ours */
bool
kube_connection_uses_plugin(const struct kube_connection *); /* an exec plugin: no sandbox then */

#endif
