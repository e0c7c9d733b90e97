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
};

/* The object that is being written. All members but the first are preceded by a comma. */
struct writer {
	struct buf *json;
	bool is_first;
};

static void
add_key(struct writer *w, const char *key)
{
	if (!w->is_first)
		buf_add_char(w->json, ',');
	w->is_first = false;
	json_add_str(w->json, str_c(key));
	buf_add_char(w->json, ':');
}

static void
open_object(struct writer *w, const char *key)
{
	add_key(w, key);
	buf_add_char(w->json, '{');
	w->is_first = true;
}

static void
close_object(struct writer *w)
{
	buf_add_char(w->json, '}');
	w->is_first = false;
}

static void
add_str(struct writer *w, const char *key, struct str text)
{
	add_key(w, key);
	json_add_str(w->json, text);
}

static void
add_text(struct writer *w, const char *key, const char *text)
{
	add_str(w, key, str_c(text));
}

static void
add_bool(struct writer *w, const char *key, bool value)
{
	add_key(w, key);
	buf_add_c(w->json, value ? "true" : "false");
}

static void
add_int(struct writer *w, const char *key, int64_t value)
{
	add_key(w, key);
	buf_addf(w->json, "%lld", (long long)value);
}

static void
add_rate(struct writer *w, const char *key, double value)
{
	add_key(w, key);
	buf_addf(w->json, "%.9g", value);
}

static void
add_duration(struct writer *w, const char *key, int64_t ns)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(MAX_DURATION);

	clock_format_duration(&text, ns);
	add_str(w, key, buf_str(&text));
}

/* An empty list is null, as Go prints a nil slice. */
static void
add_list(struct writer *w, const char *key, const struct text_list *list)
{
	add_key(w, key);
	if (list->n == 0) {
		buf_add_c(w->json, "null");
		return;
	}
	for (size_t i = 0; i < list->n; i++) {
		buf_add_char(w->json, i == 0 ? '[' : ',');
		json_add_str(w->json, list->items[i]);
	}
	buf_add_char(w->json, ']');
}

/* ---- the parts, in their order ---- */

/* With "auto" there is no number to show, so the closest one is: client-go expresses "no limit" by
 * a negative rate, and the gate lets so many requests through at the same time. */
static void
add_rates(struct writer *w, const struct options *o)
{
	int64_t burst = o->kube_api_qps > 0 ? 1 : LIMIT_GATE_MAX;

	add_rate(w, "qps", o->kube_api_qps > 0 ? o->kube_api_qps : -1);
	add_int(w, "burst", o->kube_api_burst > 0 ? (int64_t)o->kube_api_burst : burst);
}

static int64_t
monitor_period_ns(const struct options *o)
{
	return o->node_monitor_period_ns > 0 ? o->node_monitor_period_ns
	                                     : GUARD_LOOK_S * NS_PER_SEC;
}

static void
add_client(struct writer *w, const struct options *o)
{
	open_object(w, "ClientConnection");
	add_text(w, "kubeconfig", o->kubeconfig);
	add_text(w, "acceptContentTypes", "");
	add_text(w, "contentType", o->shown.content_type);
	add_rates(w, o);
	close_object(w);
}

static void
add_election(struct writer *w, const struct election_options *e)
{
	open_object(w, "LeaderElection");
	add_bool(w, "leaderElect", e->is_enabled);
	add_duration(w, "leaseDuration", e->lease_duration_ns);
	add_duration(w, "renewDeadline", e->renew_deadline_ns);
	add_duration(w, "retryPeriod", e->retry_period_ns);
	add_text(w, "resourceLock", e->resource_lock);
	add_text(w, "resourceName", e->resource_name);
	add_text(w, "resourceNamespace", e->resource_namespace);
	close_object(w);
}

/* Leader migration, which is always off, in the form of the Go programs. */
static void
add_migration(struct writer *w)
{
	add_bool(w, "LeaderMigrationEnabled", false);
	open_object(w, "LeaderMigration");
	add_text(w, "leaderName", "");
	add_text(w, "resourceLock", "");
	add_key(w, "controllerLeaders");
	buf_add_c(w->json, "null");
	close_object(w);
}

static void
add_generic(struct writer *w, const struct options *o)
{
	open_object(w, "Generic");
	add_int(w, "Port", 0); /* the insecure port, which does not exist any more */
	add_text(w, "Address", "0.0.0.0");
	add_duration(w, "MinResyncPeriod", o->shown.min_resync_ns);
	add_client(w, o);
	add_duration(w, "ControllerStartInterval", o->controller_start_interval_ns);
	add_election(w, &o->election);
	add_list(w, "Controllers", &o->controllers);
	open_object(w, "Debugging");
	add_bool(w, "enableProfiling", o->profiling);
	add_bool(w, "enableContentionProfiling", o->shown.contention_profiling);
	close_object(w);
	add_migration(w);
	close_object(w);
}

static void
add_shared(struct writer *w, const struct options *o)
{
	open_object(w, "KubeCloudShared");
	open_object(w, "CloudProvider");
	add_text(w, "Name", o->cloud_provider);
	add_text(w, "CloudConfigFile", o->cloud_config);
	close_object(w);
	add_text(w, "ExternalCloudVolumePlugin", o->shown.external_cloud_volume_plugin);
	add_bool(w, "UseServiceAccountCredentials", o->use_service_account_credentials);
	add_bool(w, "AllowUntaggedCloud", o->shown.allow_untagged_cloud);
	add_duration(w, "RouteReconciliationPeriod", o->routes.period_ns);
	add_duration(w, "NodeMonitorPeriod", monitor_period_ns(o));
	add_text(w, "ClusterName", o->cluster_name);
	add_text(w, "ClusterCIDR", o->routes.cluster_cidr);
	add_bool(w, "AllocateNodeCIDRs", o->routes.allocate_node_cidrs);
	add_text(w, "CIDRAllocatorType", o->shown.cidr_allocator_type);
	add_bool(w, "ConfigureCloudRoutes", o->routes.are_configured);
	add_duration(w, "NodeSyncPeriod", o->shown.node_sync_ns);
	close_object(w);
}

static void
add_controllers(struct writer *w, const struct options *o)
{
	open_object(w, "NodeController");
	add_int(w, "ConcurrentNodeSyncs", o->n_node_workers);
	add_int(w, "ConcurrentNodeStatusUpdates", o->n_node_workers); /* by the same workers */
	close_object(w);
	open_object(w, "ServiceController");
	add_int(w, "ConcurrentServiceSyncs", o->n_service_workers);
	close_object(w);
	add_duration(w, "NodeStatusUpdateFrequency", o->node_refresh_period_ns);
	open_object(w, "Webhook");
	add_list(w, "Webhooks", &o->shown.webhooks);
	close_object(w);
}

void
configz_add(void *options, struct buf *json)
{
	const struct options *o = options;
	struct writer w = { json, true };

	buf_add_char(json, '{');
	add_text(&w, "kind", "CloudControllerManagerConfiguration");
	add_text(&w, "apiVersion", "cloudcontrollermanager.config.k8s.io/v1alpha1");
	add_generic(&w, o);
	add_shared(&w, o);
	add_controllers(&w, o);
	close_object(&w);
}
