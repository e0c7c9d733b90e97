/* flags/configz.c: the configuration as /configz shows it; see configz.h.
 *
 * The keys, their order and their spelling (some begin with a capital, some do not) are those that
 * the Go programs print, because tools read them.
 */
#include "flags/configz.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "controllers/lifecycle/guard.h"

enum {
	MAX_DURATION = 64, /* bytes, as printed */
	MAX_RATE = 32,
};

static void
add_rate(struct buf *json, const char *name, double value)
{
	char text[MAX_RATE];

	snprintf(text, sizeof(text), "%.9g", value);
	json_add_raw(json, name, str_c(text));
}

static void
add_duration(struct buf *json, const char *name, int64_t ns)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(MAX_DURATION);

	clock_format_duration(&text, ns);
	json_add_text(json, name, buf_str(&text));
}

/* An empty list is null, as Go prints a nil slice. */
static void
add_list(struct buf *json, const char *name, const struct str_list *list)
{
	if (list->n == 0)
		json_add_raw(json, name, STR("null"));
	else
		json_add_texts(json, name, list->items, list->n);
}

/* ---- the parts, in their order ---- */

static void
add_generic(struct buf *json, const struct options *o)
{
	const struct election_options *e = &o->election;
	int64_t burst = o->kube_api_burst > 0 ? (int64_t)o->kube_api_burst
	                : o->kube_api_qps > 0 ? 1
	                                      : LIMIT_GATE_MAX;

	json_begin_object(json, "Generic");
	json_add_number(json, "Port", 0); /* the insecure port, which does not exist any more */
	json_add_text(json, "Address", STR("0.0.0.0"));
	add_duration(json, "MinResyncPeriod", o->shown.min_resync_ns);

	/* With "auto" there is no number to show, so the closest one is: client-go expresses "no
	 * limit" by a negative rate, and the gate lets so many requests through at the same time.
	 */
	json_begin_object(json, "ClientConnection");
	json_add_text(json, "kubeconfig", str_c(o->kubeconfig));
	json_add_text(json, "acceptContentTypes", STR_EMPTY);
	json_add_text(json, "contentType", str_c(o->shown.content_type));
	add_rate(json, "qps", o->kube_api_qps > 0 ? o->kube_api_qps : -1);
	json_add_number(json, "burst", burst);
	json_end_object(json);
	add_duration(json, "ControllerStartInterval", o->controller_start_interval_ns);

	json_begin_object(json, "LeaderElection");
	json_add_flag(json, "leaderElect", e->is_enabled);
	add_duration(json, "leaseDuration", e->lease_duration_ns);
	add_duration(json, "renewDeadline", e->renew_deadline_ns);
	add_duration(json, "retryPeriod", e->retry_period_ns);
	json_add_text(json, "resourceLock", str_c(e->resource_lock));
	json_add_text(json, "resourceName", str_c(e->resource_name));
	json_add_text(json, "resourceNamespace", str_c(e->resource_namespace));
	json_end_object(json);

	add_list(json, "Controllers", &o->controllers);
	json_begin_object(json, "Debugging");
	json_add_flag(json, "enableProfiling", o->profiling);
	json_add_flag(json, "enableContentionProfiling", o->shown.contention_profiling);
	json_end_object(json);

	/* leader migration is always off */
	json_add_flag(json, "LeaderMigrationEnabled", false);
	json_begin_object(json, "LeaderMigration");
	json_add_text(json, "leaderName", STR_EMPTY);
	json_add_text(json, "resourceLock", STR_EMPTY);
	json_add_raw(json, "controllerLeaders", STR("null"));
	json_end_object(json);
	json_end_object(json);
}

static void
add_shared(struct buf *json, const struct options *o)
{
	json_begin_object(json, "KubeCloudShared");
	json_begin_object(json, "CloudProvider");
	json_add_text(json, "Name", str_c(o->cloud_provider));
	json_add_text(json, "CloudConfigFile", str_c(o->cloud_config));
	json_end_object(json);
	json_add_text(json, "ExternalCloudVolumePlugin",
	              str_c(o->shown.external_cloud_volume_plugin));
	json_add_flag(json, "UseServiceAccountCredentials", o->use_service_account_credentials);
	json_add_flag(json, "AllowUntaggedCloud", o->shown.allow_untagged_cloud);
	add_duration(json, "RouteReconciliationPeriod", o->routes.period_ns);
	json_add_text(json, "ClusterName", str_c(o->cluster_name));
	json_add_text(json, "ClusterCIDR", str_c(o->routes.cluster_cidr));
	json_add_flag(json, "AllocateNodeCIDRs", o->routes.allocate_node_cidrs);
	json_add_text(json, "CIDRAllocatorType", str_c(o->shown.cidr_allocator_type));
	json_add_flag(json, "ConfigureCloudRoutes", o->routes.are_configured);
	add_duration(json, "NodeSyncPeriod", o->shown.node_sync_ns);
	json_end_object(json);
}

static void
add_controllers(struct buf *json, const struct options *o)
{
	int64_t monitor_ns = o->node_monitor_period_ns;

	if (monitor_ns == 0) /* auto */
		monitor_ns = GUARD_LOOK_S * NS_PER_SEC;
	json_begin_object(json, "NodeController");
	json_add_number(json, "ConcurrentNodeSyncs", o->n_node_workers);
	json_add_number(json, "ConcurrentNodeStatusUpdates",
	                o->n_node_workers); /* by the same workers */
	json_end_object(json);
	json_begin_object(json, "NodeLifecycleController");
	add_duration(json, "NodeMonitorPeriod", monitor_ns);
	json_add_number(json, "ConcurrentNodeLifecycleSyncs", o->n_lifecycle_workers);
	json_end_object(json);
	json_begin_object(json, "ServiceController");
	json_add_number(json, "ConcurrentServiceSyncs", o->n_service_workers);
	json_end_object(json);
	add_duration(json, "NodeStatusUpdateFrequency", o->node_refresh_period_ns);
	json_begin_object(json, "Webhook");
	add_list(json, "Webhooks", &o->shown.webhooks);
	json_end_object(json);
}

void
configz_add(void *options, struct buf *json)
{
	const struct options *o = options;

	buf_add_char(json, '{');
	json_add_text(json, "kind", STR("CloudControllerManagerConfiguration"));
	json_add_text(json, "apiVersion", STR("cloudcontrollermanager.config.k8s.io/v1alpha1"));
	add_generic(json, o);
	add_shared(json, o);
	add_controllers(json, o);
	json_end_object(json);
}
