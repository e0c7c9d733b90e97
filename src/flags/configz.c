/* flags/configz.c: the configuration as /configz shows it.
 *
 * The keys, their order and their spelling (some begin with a capital, some do not) are those that
 * the Go programs print, because tools read them. Values that are "auto" here are numbers in the Go
 * programs. They are shown as 0, unless main has put the chosen number into the options.
 */
#include "flags/flags.h"

#include "base/json.h"
#include "base/limits.h"

/* An empty list is null, as Go prints a nil slice. */
static void
add_list(struct buf *json, const char *name, const struct str_list *list)
{
	if (list->n == 0)
		json_add_raw(json, name, STR("null"));
	else
		json_add_texts(json, name, list->items, list->n);
}

static void
add_generic(struct buf *json, const struct options *o)
{
	const struct election_options *e = &o->election;
	int64_t burst = (int64_t)o->kube_api_burst;
	char memory[32] = "";
	struct buf qps = BUF_FIXED(memory);

	json_begin_object(json, "Generic");
	/* the insecure port, which does not exist any more */
	json_add_members(json, JSON_NUMBER("Port", 0), JSON_TEXT("Address", STR("0.0.0.0")),
	                 JSON_DURATION("MinResyncPeriod", o->shown.min_resync_ns));

	/* With "auto" there is no number to show, so the closest one is: client-go expresses "no
	 * limit" by a negative rate, and the gate lets so many requests through at the same time.
	 */
	buf_addf(&qps, "%.9g", o->kube_api_qps > 0 ? o->kube_api_qps : -1);
	if (o->kube_api_burst <= 0)
		burst = o->kube_api_qps > 0 ? 1 : LIMIT_GATE_MAX;
	json_add_object(json, "ClientConnection", JSON_TEXT("kubeconfig", str_c(o->kubeconfig)),
	                JSON_TEXT("acceptContentTypes", STR_EMPTY),
	                JSON_TEXT("contentType", str_c(o->shown.content_type)),
	                JSON_RAW("qps", buf_str(&qps)), JSON_NUMBER("burst", burst));
	json_add_members(json,
	                 JSON_DURATION("ControllerStartInterval", o->controller_start_interval_ns));
	json_add_object(json, "LeaderElection", JSON_FLAG("leaderElect", e->is_enabled),
	                JSON_DURATION("leaseDuration", e->lease_duration_ns),
	                JSON_DURATION("renewDeadline", e->renew_deadline_ns),
	                JSON_DURATION("retryPeriod", e->retry_period_ns),
	                JSON_TEXT("resourceLock", str_c(e->resource_lock)),
	                JSON_TEXT("resourceName", str_c(e->resource_name)),
	                JSON_TEXT("resourceNamespace", str_c(e->resource_namespace)));
	add_list(json, "Controllers", &o->controllers);
	json_add_object(json, "Debugging", JSON_FLAG("enableProfiling", o->profiling),
	                JSON_FLAG("enableContentionProfiling", o->shown.contention_profiling));

	/* leader migration is always off */
	json_add_flag(json, "LeaderMigrationEnabled", false);
	json_add_object(json, "LeaderMigration", JSON_TEXT("leaderName", STR_EMPTY),
	                JSON_TEXT("resourceLock", STR_EMPTY),
	                JSON_RAW("controllerLeaders", STR("null")));
	json_end_object(json);
}

void
configz_add(void *options, struct buf *json)
{
	const struct options *o = options;
	int64_t monitor_ns = o->node_monitor_period_ns > 0 ? o->node_monitor_period_ns
	                                                   : GUARD_LOOK_S * NS_PER_SEC; /* auto */

	json_begin_object(json, NULL);
	json_add_members(json, JSON_TEXT("kind", STR("CloudControllerManagerConfiguration")),
	                 JSON_TEXT("apiVersion",
	                           STR("cloudcontrollermanager.config.k8s.io/v1alpha1")));
	add_generic(json, o);

	json_begin_object(json, "KubeCloudShared");
	json_add_object(json, "CloudProvider", JSON_TEXT("Name", str_c(o->cloud_provider)),
	                JSON_TEXT("CloudConfigFile", str_c(o->cloud_config)));
	json_add_members(json,
	                 JSON_TEXT("ExternalCloudVolumePlugin",
	                           str_c(o->shown.external_cloud_volume_plugin)),
	                 JSON_FLAG("UseServiceAccountCredentials",
	                           o->use_service_account_credentials),
	                 JSON_FLAG("AllowUntaggedCloud", o->shown.allow_untagged_cloud),
	                 JSON_DURATION("RouteReconciliationPeriod", o->routes.period_ns),
	                 JSON_TEXT("ClusterName", str_c(o->cluster_name)),
	                 JSON_TEXT("ClusterCIDR", str_c(o->routes.cluster_cidr)),
	                 JSON_FLAG("AllocateNodeCIDRs", o->routes.allocate_node_cidrs),
	                 JSON_TEXT("CIDRAllocatorType", str_c(o->shown.cidr_allocator_type)),
	                 JSON_FLAG("ConfigureCloudRoutes", o->routes.are_configured),
	                 JSON_DURATION("NodeSyncPeriod", o->shown.node_sync_ns));
	json_end_object(json);

	/* the same workers read and write nodes */
	json_add_object(json, "NodeController",
	                JSON_NUMBER("ConcurrentNodeSyncs", o->n_node_workers),
	                JSON_NUMBER("ConcurrentNodeStatusUpdates", o->n_node_workers));
	json_add_object(json, "NodeLifecycleController",
	                JSON_DURATION("NodeMonitorPeriod", monitor_ns),
	                JSON_NUMBER("ConcurrentNodeLifecycleSyncs", o->n_lifecycle_workers));
	json_add_object(json, "ServiceController",
	                JSON_NUMBER("ConcurrentServiceSyncs", o->n_service_workers));
	json_add_members(json,
	                 JSON_DURATION("NodeStatusUpdateFrequency", o->node_refresh_period_ns));
	json_begin_object(json, "Webhook");
	add_list(json, "Webhooks", &o->shown.webhooks);
	json_end_object(json);
	json_end_object(json);
}
