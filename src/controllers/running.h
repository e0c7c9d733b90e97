/* controllers/running.h: the gauge that says which controllers run (framework.md 3.1, 4.6). */
#ifndef CCMD_CONTROLLERS_RUNNING_H
#define CCMD_CONTROLLERS_RUNNING_H

#include "base/metrics.h"

/** running_managed_controllers{name,manager}; name is the short alias, "cloud-node", a literal. */
struct metric *running_metric(const char *name);

#endif
