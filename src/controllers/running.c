/* controllers/running.c: see running.h. */
#include "controllers/running.h"

METRIC_FAMILY(running, METRIC_GAUGE, "running_managed_controllers",
              "[ALPHA] 1 where a controller is running.", .labels = { "name", "manager" });

struct metric *
running_metric(const char *name)
{
	return metric_of(&running, name, "cloud-controller-manager");
}
