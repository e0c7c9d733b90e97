/* operations.c: see operations.h. */
#include "providers/hcloud/operations.h"

#include "base/metrics.h"

METRIC_FAMILY(operations, METRIC_COUNTER, "cloud_controller_manager_operations_total",
              "[ALPHA] Operations asked of the Hetzner Cloud provider.", .labels = { "op" });

void
hz_count_operations(const char *op, double n)
{
	metric_add(metric_of(&operations, op), n);
}
