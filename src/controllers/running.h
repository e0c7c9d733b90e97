/* controllers/running.h: the gauge that says which controllers run (docs/spec/framework.md,
 * "Controllers"). */
#ifndef CCMD_CONTROLLERS_RUNNING_H
#define CCMD_CONTROLLERS_RUNNING_H

#include "base/metrics.h"

/** running_managed_controllers{name,manager}; name is the short alias, "cloud-node", a literal. */
struct metric *running_metric(const char *name);

#endif
