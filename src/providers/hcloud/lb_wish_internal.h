/* lb_wish_internal.h: what the two halves of lb_wish.h share. */
#ifndef CCMD_HCLOUD_LB_WISH_INTERNAL_H
#define CCMD_HCLOUD_LB_WISH_INTERNAL_H

#include "providers/hcloud/lb_wish.h"

#define SERVICES "hcops/LoadBalancerOps.ReconcileHCLBServices"

struct reader {
	const struct hz_lb_config *lb;
	const struct lb_spec *spec;
	struct arena *arena;
	struct hz_lb_wish *wish;
	struct error *err;
};

/** Its ports; certificates were read. */
NODISCARD bool hz_lb_wish_read_services(const struct reader *);

#endif
