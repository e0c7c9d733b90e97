/* lb_compare.h: is something of a balancer as it is wanted? What nobody asks for is, whatever it is (lb_plan.h).
 *
 * Threads: pure.
 */
#ifndef CCMD_HCLOUD_LB_COMPARE_H
#define CCMD_HCLOUD_LB_COMPARE_H

#include "providers/hcloud/lb_wire.h"

/** Lists are sets: the cloud may give them in an order of its own. */
bool hz_lb_service_is_so(const struct hz_lb_service *wanted, const struct hz_lb_service *actual);

/** An order of targets in which equal ones are the same target: type, server or address, and the network it is reached by. */
int hz_lb_target_cmp(const struct hz_lb_target *a, const struct hz_lb_target *b);

#endif
