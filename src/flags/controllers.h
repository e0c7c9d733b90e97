/* flags/controllers.h: which controllers run, and with which settings: the part of the options that
 * is about them.
 *
 * Threads: one.
 */
#ifndef CCMD_FLAGS_CONTROLLERS_H
#define CCMD_FLAGS_CONTROLLERS_H

#include "controllers/manager.h"
#include "flags/options.h"

/** Replaces "auto" by numbers, in the options themselves, so that /configz shows what is in effect.
 */
void controllers_choose_numbers(struct options *);

/** Returns why the controller does not run with this cloud, which was started; NULL: it runs. */
const char *controllers_why_not(const struct options *, const struct cloud *,
                                enum controller which);

/** The route controller needs a valid --cluster-cidr. If that controller does not run, nothing
 * reads the flag, so a bad value is only worth a warning. */
NODISCARD bool controllers_check_cluster_cidr(const struct options *, const struct cloud *,
                                              struct error *err);

/** The configuration of the manager as far as it follows from the options, which must outlive it.
 */
struct manager_config controllers_config(const struct options *);

#endif
