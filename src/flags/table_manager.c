/* flags/table_manager.c: the flags of the program and its controllers: those of the Go framework
 * (docs/spec/framework.md, "Flags") and those that only ccmd has. */
#include "flags/table.h"

/* Rows leave out the last fields where these are zero. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

static const struct flag generic[] = {
	{ "cloud-provider", FLAG_TEXT, AT(cloud_provider), "",
	  "Name of the cloud provider; the end of --help lists them." },
	{ "cloud-config", FLAG_TEXT, AT(cloud_config), "",
	  "Configuration file of the cloud provider." },
	{ "cluster-name", FLAG_TEXT, AT(cluster_name), "kubernetes",
	  "Name of the cluster, for objects that are created in the cloud." },
	{ "cloud-rate-limit-reserve", FLAG_PERCENT, AT(cloud_reserve_percent), "5",
	  "Percentage of the cloud's rate limit, 0 to 50, that is left to other tools of the project, for clouds that "
	  "report their limit. Background work leaves twice as much." },
	{ "dry-run", FLAG_BOOL, AT(is_dry_run), "false",
	  "Change nothing: log each change that would be made, once until its object changes. No lease is taken, so this "
	  "works beside a controller that leads." },
	{ "external-cloud-volume-plugin", FLAG_TEXT, AT(shown.external_cloud_volume_plugin), "",
	  "Volume plugin of an external cloud.", FLAG_NO_EFFECT,
	  "a cloud controller manager does not handle volumes" },
	{ "feature-gates", FLAG_LIST, AT(gate_texts), "",
	  "Pairs Name=bool. CloudControllerManagerWatchBasedRoutesReconciliation, AllAlpha and AllBeta are accepted and "
	  "change nothing, because routes always follow the nodes. Any other gate is ignored with a warning." },
	{ "shutdown-grace-period", FLAG_DURATION, AT(grace_period_ns), "1s",
	  "How long running work may continue after SIGTERM." },
	{ "sandbox", FLAG_CHOICE, AT(sandbox), "auto",
	  "auto: give up rights that are not needed, by seccomp and Landlock, as far as the kernel supports them; not if ccmd has to start other programs. off: never.",
	  .choices = (const char *const[]){ "auto", "off", NULL } },
};

const struct flag_group generic_flags = { "General", generic, ARRAY_LEN(generic) };

static const struct flag client[] = {
	{ "kubeconfig", FLAG_TEXT, AT(kubeconfig), "",
	  "File that says how to reach the API server. Without it and --master, ccmd uses the service account of its pod." },
	{ "master", FLAG_TEXT, AT(master), "",
	  "URL of the API server; overrides that of the kubeconfig." },
	{ "kube-api-qps", FLAG_RATE, AT(kube_api_qps), "auto",
	  "Maximum number of requests per second. auto: as many as the API server accepts." },
	{ "kube-api-burst", FLAG_RATE, AT(kube_api_burst), "auto",
	  "Number of requests by which --kube-api-qps may be exceeded for a moment." },
	{ "kube-api-content-type", FLAG_TEXT, AT(shown.content_type),
	  "application/vnd.kubernetes.protobuf", "Encoding of requests.", FLAG_NO_EFFECT,
	  "requests are always JSON" },
	{ "use-service-account-credentials", FLAG_BOOL, AT(use_service_account_credentials),
	  "false", "Each controller uses a service account of its own in kube-system." },
	{ "min-resync-period", FLAG_DURATION, AT(shown.min_resync_ns), "12h0m0s",
	  "Unchanged objects are checked again after this time, or up to twice as long.",
	  FLAG_NO_EFFECT, "each controller has a period of its own for checking again" },
};

const struct flag_group client_flags = { "API server", client, ARRAY_LEN(client) };

static const char NO_MIGRATION[] =
	"all controllers run under one lease, and none is taken over from kube-controller-manager";

static const struct flag election[] = {
	{ "leader-elect", FLAG_BOOL, AT(election.is_enabled), "true",
	  "Act only while holding the lease, so that only one of several replicas acts." },
	{ "leader-elect-lease-duration", FLAG_DURATION, AT(election.lease_duration_ns), "15s",
	  "How long other replicas wait after the last renewal before they take over." },
	{ "leader-elect-renew-deadline", FLAG_DURATION, AT(election.renew_deadline_ns), "10s",
	  "A leader that has failed to renew the lease for this long exits. Must be shorter than the lease duration." },
	{ "leader-elect-retry-period", FLAG_DURATION, AT(election.retry_period_ns), "2s",
	  "Time between two attempts to acquire or renew the lease." },
	{ "leader-elect-resource-lock", FLAG_TEXT, AT(election.resource_lock), "leases",
	  "Kind of the lock; only leases is possible." },
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
	  "Controllers to run: '*' means all, 'foo' switches the controller foo on, '-foo' switches it off; the first "
	  "entry that names a controller decides. Controllers: cloud-node-controller (cloud-node), cloud-node-lifecycle-controller "
	  "(cloud-node-lifecycle), service-lb-controller (service), node-route-controller (route)." },
	{ "controller-start-interval", FLAG_DURATION, AT(controller_start_interval_ns), "0s",
	  "Time between the starts of two controllers.", FLAG_NO_EFFECT,
	  "all controllers start together" },
};

const struct flag_group controller_flags = { "Controller selection", controllers,
	                                     ARRAY_LEN(controllers) };

static const struct flag node[] = {
	{ "concurrent-node-syncs", FLAG_COUNT, AT(n_node_workers), "auto",
	  "Number of nodes that are worked on at the same time." },
	{ "concurrent-node-status-updates", FLAG_NUMBER, AT(shown.n_status_workers), "0",
	  "Number of nodes whose addresses are written at the same time.", FLAG_NO_EFFECT,
	  "the workers of --concurrent-node-syncs write them" },
	{ "node-status-update-frequency", FLAG_PERIOD, AT(node_refresh_period_ns), "5m0s",
	  "How often node addresses are compared with the cloud's." },
	{ "concurrent-node-lifecycle-syncs", FLAG_COUNT, AT(n_lifecycle_workers), "1",
	  "Number of nodes that are not ready whose machines are looked up at the same time.",
	  FLAG_NO_EFFECT, "one request looks up all of them" },
	{ "node-monitor-period", FLAG_DURATION, AT(node_monitor_period_ns), "auto",
	  "How often the cloud is asked about a node that is not ready. auto: at 0, 12, 30 and 60 s, then every 65 s." },
};

const struct flag_group node_flags = { "Node controller", node, ARRAY_LEN(node) };

static const struct flag guard[] = {
	{ "node-delete-guard", FLAG_BOOL, AT(guard.is_enabled), "true",
	  "Delete nodes only on proof that their machine is gone. false: at the first \"not found\", as the Go controllers do." },
	{ "node-delete-require-witness", FLAG_BOOL, AT(guard.require_witness), "true",
	  "A check counts only if it also found the machine of another node. false: for clusters that scale to zero and "
	  "whose control plane is elsewhere." },
	{ "node-delete-confirm-interval", FLAG_DURATION, AT(guard.confirm_ns), "12s",
	  "Time between two checks that must agree that a machine is gone." },
	{ "node-delete-min-age", FLAG_DURATION, AT(guard.min_age_ns), "1m0s",
	  "Nodes that are younger are not deleted." },
	{ "node-delete-nameless-age", FLAG_DURATION, AT(guard.nameless_ns), "15m0s",
	  "How long the machine of a node without a provider ID must be absent." },
	{ "node-delete-breaker-min", FLAG_NUMBER, AT(guard.breaker_min), "3",
	  "Up to this number of nodes may be deleted within the window, whatever their percentage is." },
	{ "node-delete-breaker-percent", FLAG_PERCENT, AT(guard.breaker_percent), "20",
	  "If a larger percentage of all nodes would be deleted within the window, checks must agree for longer." },
	{ "node-delete-breaker-window", FLAG_DURATION, AT(guard.breaker_window_ns), "10m0s",
	  "Time within which deletions are counted together." },
	{ "node-delete-breaker-agree", FLAG_DURATION, AT(guard.breaker_agree_ns), "5m0s",
	  "How long checks must agree if too many nodes would be deleted." },
};

const struct flag_group guard_flags = { "Node deletion", guard, ARRAY_LEN(guard) };

static const struct flag service[] = {
	{ "concurrent-service-syncs", FLAG_COUNT, AT(n_service_workers), "auto",
	  "Number of Services that are worked on at the same time." },
	{ "load-balancer-drift-period", FLAG_DURATION, AT(drift_period_ns), "1h",
	  "How often load balancers are compared with their Services, to repair what other clients have "
	  "changed. 0: never." },
};

const struct flag_group service_flags = { "Service controller", service, ARRAY_LEN(service) };

static const struct flag route[] = {
	{ "configure-cloud-routes", FLAG_BOOL, AT(routes.are_configured), "true",
	  "Run the route controller if the cloud has routes." },
	{ "cluster-cidr", FLAG_TEXT, AT(routes.cluster_cidr), "",
	  "Network of the pods, or two networks with a comma between them, one of each IP family." },
	{ "allocate-node-cidrs", FLAG_BOOL, AT(routes.allocate_node_cidrs), "false",
	  "The pod networks of nodes are allocated by a controller.", FLAG_NO_EFFECT,
	  "upstream does not consult it either" },
	{ "cidr-allocator-type", FLAG_TEXT, AT(shown.cidr_allocator_type), "RangeAllocator",
	  "How pod networks are allocated.", FLAG_NO_EFFECT,
	  "ccmd does not allocate pod networks" },
	{ "route-reconciliation-period", FLAG_PERIOD, AT(routes.period_ns), "10s",
	  "How often routes are compared with the cloud's; at Hetzner at least an hour, unless a node changes." },
};

const struct flag_group route_flags = { "Route controller", route, ARRAY_LEN(route) };

static const struct flag deprecated[] = {
	{ "address", FLAG_ADDRESS, FLAG_NOWHERE, "0.0.0.0", "Address of the insecure port.",
	  FLAG_DEPRECATED, "there is no insecure port: see --bind-address" },
	{ "port", FLAG_PORT, FLAG_NOWHERE, "0", "The insecure port.", FLAG_DEPRECATED,
	  "there is no insecure port: see --secure-port" },
	{ "allow-untagged-cloud", FLAG_BOOL, AT(shown.allow_untagged_cloud), "false",
	  "Run without a cluster ID in the cloud.", FLAG_DEPRECATED,
	  "no supported cloud needs a cluster ID" },
	{ "node-sync-period", FLAG_DURATION, AT(shown.node_sync_ns), "0s",
	  "How often nodes were compared with the cloud's list.", FLAG_DEPRECATED,
	  "upstream does not read it either" },
};

const struct flag_group deprecated_flags = { "Deprecated", deprecated, ARRAY_LEN(deprecated) };
