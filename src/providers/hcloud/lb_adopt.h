/* lb_adopt.h: may a Service that has no balancer with its label adopt one that has the right name?
 *
 * A balancer with the name that a Service's annotation asks for is adopted, unless it belongs to
 * another live Service, or HCLOUD_LOAD_BALANCERS_ADOPTION forbids it.
 *
 * Threads: any; a run belongs to one thread.
 */
#ifndef CCMD_HCLOUD_LB_ADOPT_H
#define CCMD_HCLOUD_LB_ADOPT_H

#include "providers/hcloud/lb_converge.h"

/** Adopts the balancer that has the desired name, as run->lb.
 *
 * @return  On false, err->code is ERR_NOT_FOUND if no balancer has the name, and ERR_INVALID if the
 * one that has it must not be adopted, which an Event reports. */
NODISCARD bool hz_lb_adopt(struct hz_lb_run *run, struct error *err);
/** ERR_INVALID: in the tutorial's dialect two live Services have the same name for their balancers;
 * both get an Event. */
NODISCARD bool hz_lb_check_name(const struct hz_lb_run *run, struct error *err);

#endif
