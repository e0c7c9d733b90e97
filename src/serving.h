/* serving.h: what this process shows of itself: health, metrics, configuration, to whom it may be shown.
 *
 * The HTTPS server behind --secure-port with the API server as its judge (serve/access.h), and, where asked for, a plain
 * listener that has nothing but metrics. A standby serves too.
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

struct serving_config {
	const struct options *options; /* outlive it, all of them */
	struct loop *loop;
	struct health *health;
	struct cancel *cancel;
	struct kube_connection
		*connection; /* the main one: used for reviews where they are to ask as it does */
	struct cloud *cloud; /* may want a listener of its own */
};

/** Binds, and reads whom to trust. *ret is NULL when nothing is to be served. Errors end the program: they name the flag
 * or the role. */
NODISCARD bool serving_start(const struct serving_config *config, struct serving **ret,
                             struct error *err);
/** Certificates are read again if they changed: every minute, and on SIGHUP. NULL is fine, here and below. */
void serving_reload(struct serving *);
void serving_stop(struct serving *);

#endif
