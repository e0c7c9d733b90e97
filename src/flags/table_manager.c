/* flags/table_manager.c: the flags of the manager and its controllers (docs/spec/framework.md,
 * "Flags"), and those of ours for them. */
#include "flags/table.h"

/* A row ends where it has nothing more to say. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

static const struct flag generic[] = {
	{ "cloud-provider", FLAG_TEXT, AT(cloud_provider), "",
	  "The cloud; --help lists them at its end." },
	{ "cloud-config", FLAG_TEXT, AT(cloud_config), "", "The provider's configuration file." },
	{ "cluster-name", FLAG_TEXT, AT(cluster_name), "kubernetes",
	  "Name of the cluster, for what is made in the cloud." },
	{ "cloud-rate-limit-reserve", FLAG_PERCENT, AT(cloud_reserve_percent), "5",
	  "Percent of the cloud's rate limit that is left to other tools of the project, 0 to 50, for clouds that "
	  "tell theirs. What runs in the background leaves twice that." },
	{ "external-cloud-volume-plugin", FLAG_TEXT, AT(shown.external_cloud_volume_plugin), "",
	  "The volume plugin of an external cloud.", FLAG_NO_EFFECT,
	  "volumes are not a cloud controller manager's work" },
	{ "feature-gates", FLAG_LIST, AT(gate_texts), "",
	  "Pairs Name=bool. CloudControllerManagerWatchBasedRoutesReconciliation, AllAlpha and AllBeta are accepted and "
	  "change nothing, since routes always follow the nodes. Any other is ignored with a warning." },
	{ "shutdown-grace-period", FLAG_DURATION, AT(grace_period_ns), "1s",
	  "How long running work may go on after SIGTERM." },
	{ "sandbox", FLAG_CHOICE, AT(sandbox), "auto",
	  "auto: give up what is not needed, by seccomp and Landlock, as far as the kernel offers it and no other "
	  "program is to be started. off: do not.",
	  .choices = (const char *const[]){ "auto", "off", NULL } },
};

const struct flag_group generic_flags = { "Generic", generic, ARRAY_LEN(generic) };

static const struct flag client[] = {
	{ "kubeconfig", FLAG_TEXT, AT(kubeconfig), "",
	  "How to reach the API server. Without it and --master: as a pod of the cluster." },
	{ "master", FLAG_TEXT, AT(master), "",
	  "The API server's URL; overrides the kubeconfig's." },
	{ "kube-api-qps", FLAG_RATE, AT(kube_api_qps), "auto",
	  "Most requests a second. auto: as many as the API server takes." },
	{ "kube-api-burst", FLAG_RATE, AT(kube_api_burst), "auto",
	  "Requests that may exceed --kube-api-qps for a moment." },
	{ "kube-api-content-type", FLAG_TEXT, AT(shown.content_type),
	  "application/vnd.kubernetes.protobuf", "Encoding of requests.", FLAG_NO_EFFECT,
	  "requests are always JSON" },
	{ "use-service-account-credentials", FLAG_BOOL, AT(use_service_account_credentials),
	  "false", "Each controller acts as a service account of its own in kube-system." },
	{ "min-resync-period", FLAG_DURATION, AT(shown.min_resync_ns), "12h0m0s",
	  "Objects that did not change are looked at again after this time, up to twice as long.",
	  FLAG_NO_EFFECT, "each controller has its own period for looking again" },
};

const struct flag_group client_flags = { "API server", client, ARRAY_LEN(client) };

static const char NO_MIGRATION[] =
	"all controllers run under one lease, and none is taken over from kube-controller-manager";

static const struct flag election[] = {
	{ "leader-elect", FLAG_BOOL, AT(election.is_enabled), "true",
	  "Act only while holding the lease, so that of several replicas one acts." },
	{ "leader-elect-lease-duration", FLAG_DURATION, AT(election.lease_duration_ns), "15s",
	  "How long others wait after the leader was last heard of." },
	{ "leader-elect-renew-deadline", FLAG_DURATION, AT(election.renew_deadline_ns), "10s",
	  "A leader that could not renew the lease for so long gives up. Shorter than the lease's duration." },
	{ "leader-elect-retry-period", FLAG_DURATION, AT(election.retry_period_ns), "2s",
	  "Between two attempts to take or renew the lease." },
	{ "leader-elect-resource-lock", FLAG_TEXT, AT(election.resource_lock), "leases",
	  "The kind of the lock: leases." },
	{ "leader-elect-resource-name", FLAG_TEXT, AT(election.resource_name),
	  "cloud-controller-manager", "Name of the lease." },
	{ "leader-elect-resource-namespace", FLAG_TEXT, AT(election.resource_namespace),
	  "kube-system", "Namespace of the lease." },
	{ "enable-leader-migration", FLAG_BOOL, FLAG_NOWHERE, "false", "Leader migration.",
	  FLAG_NO_EFFECT, NO_MIGRATION },
	{ "leader-migration-config", FLAG_TEXT, FLAG_NOWHERE, "",
	  "File with a LeaderMigrationConfiguration.", FLAG_NO_EFFECT, NO_MIGRATION },
};

const struct flag_group election_flags = { "Leader election", election, ARRAY_LEN(election) };

static const struct flag controllers[] = {
	{ "controllers", FLAG_LIST, AT(controllers), "*",
	  "Controllers to run: '*' is all, 'foo' is the controller foo, '-foo' is not; the first that names a "
	  "controller decides. All: cloud-node-controller (cloud-node), cloud-node-lifecycle-controller "
	  "(cloud-node-lifecycle), service-lb-controller (service), node-route-controller (route)." },
	{ "controller-start-interval", FLAG_DURATION, AT(controller_start_interval_ns), "0s",
	  "Between the starts of two controllers.", FLAG_NO_EFFECT, "they start together" },
};

const struct flag_group controller_flags = { "Controllers", controllers, ARRAY_LEN(controllers) };

static const struct flag node[] = {
	{ "concurrent-node-syncs", FLAG_COUNT, AT(n_node_workers), "auto",
	  "Nodes worked on at the same time." },
	{ "concurrent-node-status-updates", FLAG_NUMBER, AT(shown.n_status_workers), "0",
	  "Nodes whose addresses are written at the same time.", FLAG_NO_EFFECT,
	  "the workers of --concurrent-node-syncs write them" },
	{ "node-status-update-frequency", FLAG_PERIOD, AT(node_refresh_period_ns), "5m0s",
	  "How often node addresses are compared with the cloud's." },
	{ "node-monitor-period", FLAG_DURATION, AT(node_monitor_period_ns), "auto",
	  "How often the cloud is asked about a node that is not ready. auto: at 0, 12, 30 and 60 s, then every 65 s." },
};

const struct flag_group node_flags = { "Node controller", node, ARRAY_LEN(node) };

static const struct flag guard[] = {
	{ "node-delete-guard", FLAG_BOOL, AT(guard.is_enabled), "true",
	  "Delete nodes only on proof. false: at the first \"not found\", as the Go controllers do." },
	{ "node-delete-require-witness", FLAG_BOOL, AT(guard.require_witness), "true",
	  "A look counts only if it also found the machine of another node. false: for clusters that scale to zero and "
	  "whose control plane is elsewhere." },
	{ "node-delete-confirm-interval", FLAG_DURATION, AT(guard.confirm_ns), "12s",
	  "Between two looks that must agree that a machine is gone." },
	{ "node-delete-min-age", FLAG_DURATION, AT(guard.min_age_ns), "1m0s",
	  "Younger nodes are not deleted." },
	{ "node-delete-nameless-age", FLAG_DURATION, AT(guard.nameless_ns), "15m0s",
	  "How long the machine of a node without a provider ID must be absent." },
	{ "node-delete-breaker-min", FLAG_NUMBER, AT(guard.breaker_min), "3",
	  "So many deletions within the window are never too many." },
	{ "node-delete-breaker-percent", FLAG_PERCENT, AT(guard.breaker_percent), "20",
	  "More than this share of all nodes within the window is too many: looks must agree for longer." },
	{ "node-delete-breaker-window", FLAG_DURATION, AT(guard.breaker_window_ns), "10m0s",
	  "The breaker's window." },
	{ "node-delete-breaker-agree", FLAG_DURATION, AT(guard.breaker_agree_ns), "5m0s",
	  "How long looks must agree when too many nodes would go." },
};

const struct flag_group guard_flags = { "Deletion of nodes", guard, ARRAY_LEN(guard) };

static const struct flag service[] = {
	{ "concurrent-service-syncs", FLAG_COUNT, AT(n_service_workers), "auto",
	  "Services worked on at the same time." },
};

const struct flag_group service_flags = { "Service controller", service, ARRAY_LEN(service) };

static const struct flag route[] = {
	{ "configure-cloud-routes", FLAG_BOOL, AT(routes.are_configured), "true",
	  "Run the route controller, where the cloud has routes." },
	{ "cluster-cidr", FLAG_TEXT, AT(routes.cluster_cidr), "",
	  "Network of the pods, or one of each IP family, with a comma." },
	{ "allocate-node-cidrs", FLAG_BOOL, AT(routes.allocate_node_cidrs), "false",
	  "Says that the nodes' pod networks are allocated by a controller.", FLAG_NO_EFFECT,
	  "upstream does not consult it either" },
	{ "cidr-allocator-type", FLAG_TEXT, AT(shown.cidr_allocator_type), "RangeAllocator",
	  "How pod networks are allocated.", FLAG_NO_EFFECT, "they are not allocated here" },
	{ "route-reconciliation-period", FLAG_PERIOD, AT(routes.period_ns), "10s",
	  "How often routes are compared with the cloud's." },
};

const struct flag_group route_flags = { "Route controller", route, ARRAY_LEN(route) };

static const struct flag deprecated[] = {
	{ "address", FLAG_ADDRESS, FLAG_NOWHERE, "0.0.0.0", "Address of the insecure port.",
	  FLAG_DEPRECATED, "there is no insecure port: see --bind-address" },
	{ "port", FLAG_PORT, FLAG_NOWHERE, "0", "The insecure port.", FLAG_DEPRECATED,
	  "there is no insecure port: see --secure-port" },
	{ "allow-untagged-cloud", FLAG_BOOL, AT(shown.allow_untagged_cloud), "false",
	  "Run without a cluster ID in the cloud.", FLAG_DEPRECATED, "no cloud here needs one" },
	{ "node-sync-period", FLAG_DURATION, AT(shown.node_sync_ns), "0s",
	  "How often nodes were compared with the cloud's list.", FLAG_DEPRECATED,
	  "upstream does not read it either" },
};

const struct flag_group deprecated_flags = { "Deprecated", deprecated, ARRAY_LEN(deprecated) };
