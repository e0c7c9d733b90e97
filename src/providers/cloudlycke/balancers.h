/* balancers.h: load balancers of an inventory: addresses from a pool, which a hook, HAProxy, both
 * or neither serve.
 *
 * Threads: as cloud/balancer.h says.
 */
#ifndef CCMD_CLOUDLYCKE_BALANCERS_H
#define CCMD_CLOUDLYCKE_BALANCERS_H

#include "cloud/balancer.h"
#include "cloud/host.h"
#include "providers/cloudlycke/loader.h"
#include "providers/cloudlycke/state.h"

struct cl_balancers_run;

/** The loader, the state and host outlive it. ERR_UNSUPPORTED: HAProxy on this host with several
 * replicas. *ret is NULL when the inventory has no loadBalancers. */
NODISCARD bool cl_balancers_open(const struct cloud_config *config, const struct cloud_host *host,
                                 struct cl_loader *loader, struct cl_state *state,
                                 struct cl_balancers_run **ret, struct error *err);
void cl_balancers_close(struct cl_balancers_run *); /* NULL is fine */

/** For the cloud of a struct cloudlycke (cloudlycke.h) with balancers. */
extern const struct balancer_ops cl_balancer_ops;

#endif
