/* serving.h: what this process shows of itself: health, metrics, configuration, to whom it may be
 * shown.
 *
 * The HTTPS server behind --secure-port with access decided by the API server (serve/access.h),
 * and, where asked for, a plain listener that has nothing but metrics. A standby serves too.
 *
 * Threads: main's; it runs on main's loop.
 */
#ifndef CCMD_SERVING_H
#define CCMD_SERVING_H

#include "base/health.h"
#include "flags/options.h"
#include "kube/connection.h"
#include "loop.h"

struct cloud;
struct serving;

/** An API server that is asked about callers, as a kubeconfig names it. */
struct review_connection {
	struct kube_connection *connection; /* NULL: none */
	bool is_own;                        /* not the main connection */
	bool has_failed;                    /* err says why there is none */
	struct error err;
};

/** Those of --authentication-kubeconfig and --authorization-kubeconfig. */
struct review_connections {
	struct review_connection authentication, authorization;
};

/** Reads both kubeconfigs, before the sandbox, which has to know what files they name. Problems are
 * reported by serving_start(). main_connection is used where one is to ask as that does, and
 * outlives them. */
void review_connections_load(struct review_connections *ret, const struct options *,
                             struct kube_connection *main_connection);
void review_connections_fini(struct review_connections *);

struct serving_config {
	const struct options *options; /* outlive it, all of them */
	struct loop *loop;
	struct health *health;
	struct cancel *cancel;
	const struct review_connections *reviews;
	struct cloud *cloud; /* may want a listener of its own */
};

/** Binds, and reads whom to trust. *ret is NULL when nothing is to be served. Errors end the
 * program: they name the flag or the role. */
NODISCARD bool serving_start(const struct serving_config *config, struct serving **ret,
                             struct error *err);
/** Certificates are read again if they changed: every minute, and on SIGHUP. NULL is fine, here and
 * below. */
void serving_reload(struct serving *);
void serving_stop(struct serving *);

#endif
