/* operations.c: see operations.h. */
#include "providers/hcloud/operations.h"

#include "base/metrics.h"

METRIC_FAMILY(operations, METRIC_COUNTER, "cloud_controller_manager_operations_total",
              "[ALPHA] Operations asked of the Hetzner Cloud provider.", .labels = { "op" });

METRIC_FAMILY(cache, METRIC_COUNTER, "cloud_controller_manager_server_cache_requests_total",
              "[ALPHA] Servers looked for, by whether an answer was at hand.",
              .labels = { "subsystem", "mode", "result" });

void
hz_count_operations(const char *op, double n)
{
	metric_add(metric_of(&operations, op), n);
}

void
hz_count_lookup(const char *subsystem, enum hz_cache_mode mode, const char *result)
{
	static const char *const names[] = {
		[HZ_CACHE_ALL] = "all",
		[HZ_CACHE_ONE] = "one",
		[HZ_CACHE_OFF] = "off",
	};

	metric_inc(metric_of(&cache, subsystem, names[mode], result));
}
