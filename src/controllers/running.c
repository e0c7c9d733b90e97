/* controllers/running.c: see running.h. */
#include "controllers/running.h"

#include "base/thread.h"

static struct metric_family *family;

static void
define_family(void)
{
	static const char *const labels[] = { "name", "manager" };

	family =
		metric_family_new(METRIC_GAUGE, "running_managed_controllers",
	                          "Indicates where instances of a controller are currently running",
	                          labels, ARRAY_LEN(labels), NULL, 0);
}

struct metric *
running_metric(const char *name)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	PTHREAD_OK(pthread_once(&once, define_family));
	return metric_of(family, name, "cloud-controller-manager");
}
