/* flags/table.c: the groups of flags, and finding a flag by its name. The rows of the table are in
 * table_manager.c and table_server.c. */
#include "flags/table.h"

#include <string.h>

const struct flag_group *const flag_groups[] = {
	&generic_flags,
	&client_flags,
	&election_flags,
	&controller_flags,
	&node_flags,
	&guard_flags,
	&service_flags,
	&route_flags,
	&serving_flags,
	&authentication_flags,
	&authorization_flags,
	&webhook_flags,
	&debugging_flags,
	&logging_flags,
	&deprecated_flags,
	&global_flags,
	NULL,
};

static const char NO_METRIC_FLAGS[] = "the cloud framework does not have it either";
static const char NO_IPAM[] = "pod networks are allocated by kube-controller-manager";
static const char NO_KLOG[] = "removed in Kubernetes 1.26; the log goes to standard error";

const struct refused_flag refused_flags[] = {
	{ "config", "the Go programs do not have it either: every setting is a flag" },
	{ "show-hidden-metrics-for-version", NO_METRIC_FLAGS },
	{ "disabled-metrics", NO_METRIC_FLAGS },
	{ "allow-metric-labels", NO_METRIC_FLAGS },
	{ "service-cluster-ip-range", NO_IPAM },
	{ "node-cidr-mask-size", NO_IPAM },
	{ "node-cidr-mask-size-ipv4", NO_IPAM },
	{ "node-cidr-mask-size-ipv6", NO_IPAM },
	{ "add-dir-header", NO_KLOG },
	{ "alsologtostderr", NO_KLOG },
	{ "log-backtrace-at", NO_KLOG },
	{ "log-dir", NO_KLOG },
	{ "log-file", NO_KLOG },
	{ "log-file-max-size", NO_KLOG },
	{ "logtostderr", NO_KLOG },
	{ "one-output", NO_KLOG },
	{ "skip-headers", NO_KLOG },
	{ "skip-log-headers", NO_KLOG },
	{ "stderrthreshold", NO_KLOG },
	{ NULL, NULL },
};

const struct flag *
flag_at(size_t index)
{
	for (const struct flag_group *const *group = flag_groups; *group; group++) {
		if (index < (*group)->n)
			return &(*group)->flags[index];
		index -= (*group)->n;
	}
	return NULL;
}

size_t
flag_count(void)
{
	size_t n = 0;

	for (const struct flag_group *const *group = flag_groups; *group; group++)
		n += (*group)->n;
	return n;
}

bool
flag_find(struct str name, size_t *ret_index)
{
	const struct flag *flag;

	for (size_t i = 0; (flag = flag_at(i)); i++) {
		size_t n = 0;

		while (n < name.len && flag->name[n] == (name.ptr[n] == '_' ? '-' : name.ptr[n]))
			n++;
		if (n == name.len && flag->name[n] == '\0') {
			*ret_index = i;
			return true;
		}
	}
	return false;
}

const char *
flag_dashes(const struct flag *flag)
{
	return strlen(flag->name) == 1 ? "-" : "--";
}
