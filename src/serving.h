/* serving.h: the servers for this process's health, metrics and configuration.
 *
 * The HTTPS server behind --secure-port, where the API server decides which callers may read which
 * paths (serve/access.h), and, on request, a plain listener that serves nothing but metrics.
 * Replicas that do not lead serve as well.
 *
 * Threads: main's; everything runs on main's loop.
 */
#ifndef CCMD_SERVING_H
#define CCMD_SERVING_H

#include "base/health.h"
#include "flags/options.h"
#include "kube/connection.h"
#include "loop.h"

struct cloud;
struct manager;
struct serving;

/** The connection to an API server that decides about callers. */
struct review_connection {
	struct kube_connection *connection; /* NULL: none */
	bool is_own;                        /* not the main connection */
	bool has_failed;                    /* err says why there is no connection */
	struct error err;
};

/** The connections of --authentication-kubeconfig and --authorization-kubeconfig. */
struct review_connections {
	struct review_connection authentication, authorization;
};

/** Reads both kubeconfigs. Must be called before the sandbox is entered, which has to know what
 * files they name. Problems are reported by serving_start(). main_connection is used where a flag
 * names the same kubeconfig as --kubeconfig; it must outlive the review connections. */
void review_connections_load(struct review_connections *ret, const struct options *,
                             struct kube_connection *main_connection);
void review_connections_fini(struct review_connections *);

struct serving_config {
	const struct options *options; /* this and all below must outlive the server */
	struct loop *loop;
	struct health *health;
	struct cancel *cancel;
	const struct review_connections *reviews;
	struct manager *manager; /* describes objects */
	struct cloud *cloud;     /* may want a metrics listener of its own */
};

/** Opens the listeners, and reads the authorities of client certificates. An error is meant to end
 * the program: it names the flag, or the role that is missing. */
NODISCARD bool serving_start(const struct serving_config *config, struct serving **ret,
                             struct error *err);
/** Reads certificates again if they changed. Called every minute, as a timer of the loop, and on
 * SIGHUP. NULL is fine, here and below. */
void serving_reload(void *serving);
void serving_stop(struct serving *);
DEFINE_CLEANUP(struct serving, serving_stop)

#endif
