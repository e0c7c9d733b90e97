/* operator/doctor.c: the table of the checks, in the order in which they run and are printed.
 *
 * The first two digits of a code are those of its group; nodes have 04 and 05, Services 06 and 07.
 * What a check compares, and what to do about a finding, is described in docs/doctor.md under its
 * code.
 */
#include "operator/doctor.h"

#include "flags/flags.h"
#include "operator/facts.h"
#include "operator/progress.h"

static const char SERVER[] = "API server";
static const char RIGHTS[] = "Rights";
static const char LEASE[] = "Leader election";
static const char CLOUD[] = "Cloud";
static const char NODES[] = "Nodes";
static const char SERVICES[] = "Services";
static const char CONFIGURATION[] = "Configuration";

enum {
	ELECTION = NEEDS_ELECTION | VIEW_LEASE,
	ROUTES = NEEDS_ROUTES | VIEW_CLOUD | VIEW_NODES,
	BALANCERS = NEEDS_BALANCERS | VIEW_CLOUD | VIEW_SERVICES,
	BALANCER_LIST = NEEDS_BALANCER_LIST | VIEW_CLOUD | VIEW_SERVICES,
};

const struct check doctor_checks[] = {
	{ "CCMD001", SERVER, "The API server responds", "The API server does not respond",
	  "Without it ccmd can neither read nor change anything.", check_server, FIX_BY_HAND, 0,
	  .subject = "the API server" },
	{ "CCMD002", SERVER, "The version of Kubernetes is supported",
	  "The version of Kubernetes is not supported",
	  "ccmd is tested with Kubernetes 1.28 and newer.", check_version, FIX_BY_HAND, VIEW_SERVER,
	  .causes = { "CCMD001" } },
	{ "CCMD003", SERVER, "The clocks of this machine and of the API server agree",
	  "The clocks of this machine and of the API server differ",
	  "With a wrong clock, valid tokens and certificates seem expired or not yet valid.",
	  check_clock, FIX_BY_HAND, VIEW_SERVER, .causes = { "CCMD001" } },
	{ "CCMD004", SERVER, "The credentials do not expire soon", "The credentials expire soon",
	  "Without valid credentials, ccmd can neither read nor change anything.", check_expiry,
	  FIX_BY_HAND, VIEW_SERVER, .causes = { "CCMD001" } },
	{ "CCMD005", SERVER, "The API server responds within a second",
	  "The API server takes long to respond",
	  "Everything that ccmd does waits for the API server, and a leader that cannot renew its Lease exits.",
	  check_latency, FIX_BY_HAND, VIEW_SERVER, .causes = { "CCMD001" } },

	{ "CCMD010", RIGHTS, "The credentials have the rights that the controllers need",
	  "Rights that the controllers need are missing",
	  "The work that needs a missing right is not done; ccmd tries again until the right is granted.",
	  check_rights, FIX_EITHER, VIEW_SERVER, .causes = { "CCMD001" } },

	{ "CCMD020", LEASE, "A replica leads", "No replica leads",
	  "Only the leader works: new nodes keep their taint and Services stay pending.",
	  check_leader, FIX_BY_HAND, ELECTION, .causes = { "CCMD001" }, .subject = "a leader" },
	{ "CCMD021", LEASE, "The leader renews its Lease", "The leader does not renew its Lease",
	  "A leader that does not renew it has exited, or cannot reach the API server.",
	  check_renewal, FIX_BY_HAND, ELECTION, .causes = { "CCMD001" }, .subject = "a leader" },
	{ "CCMD022", LEASE, "The Lease is held by ccmd", "Another program holds the Lease",
	  "While another program holds it, ccmd does no work.", check_lease_owner, FIX_BY_HAND,
	  ELECTION, .causes = { "CCMD001" }, .subject = "ccmd as the leader" },
	{ "CCMD023", LEASE, "No other cloud controller manager is at work",
	  "Another cloud controller manager is at work",
	  "Two controllers undo each other's changes, and may create two load balancers for a Service.",
	  check_other_controllers, FIX_BY_HAND, VIEW_NODES | VIEW_SERVICES,
	  .causes = { "CCMD001" } },
	{ "CCMD024", LEASE, "No other cloud controller manager is deployed",
	  "Another cloud controller manager is deployed",
	  "It works at the same time as ccmd, or as soon as it gets the Lease.",
	  check_other_workloads, FIX_BY_HAND, 0, .causes = { "CCMD001" } },
	{ "CCMD025", LEASE, "No other cloud controller manager leads by a Lease of its own",
	  "Another cloud controller manager leads by a Lease of its own",
	  "Two controllers with two Leases lead at the same time.", check_other_leases, FIX_BY_HAND,
	  0, .causes = { "CCMD001" } },
	{ "CCMD026", LEASE, "The pods of ccmd tolerate the taint of new nodes",
	  "The pods of ccmd do not tolerate the taint of new nodes",
	  "In a new cluster, all nodes have this taint: ccmd cannot start, and without ccmd the taint stays.",
	  check_tolerations, FIX_BY_HAND, 0, .causes = { "CCMD001" } },
	{ "CCMD027", LEASE, "The leader's clock agrees with that of the API server",
	  "The leader's clock is wrong",
	  "With a wrong clock, valid tokens and certificates seem expired or not yet valid, and the times in events and logs are wrong.",
	  check_leader_clock, FIX_BY_HAND, ELECTION, .causes = { "CCMD001" } },
	{ "CCMD028", LEASE, "Only one replica of ccmd works at a time",
	  "Several replicas of ccmd work at the same time",
	  "Replicas that work at the same time may create two load balancers for a Service.",
	  check_replicas, FIX_BY_HAND, 0, .causes = { "CCMD001" } },

	{ "CCMD030", CLOUD, "The cloud can be used", "The cloud cannot be used",
	  "Without the cloud, ccmd cannot initialise nodes or change load balancers.", check_cloud,
	  FIX_BY_HAND, 0, .causes = { "CCMD001", "CCMD032", "CCMD034" }, .subject = "the cloud" },
	{ "CCMD031", CLOUD, "The cloud's project has the machines of the nodes",
	  "The cloud's project lacks the machines of the nodes",
	  "With the credentials of another project, every machine seems to be deleted.",
	  check_project, FIX_BY_HAND, VIEW_LOOK, .causes = { "CCMD030" },
	  .subject = "the cluster's project" },
	{ "CCMD032", CLOUD, "Enough of the cloud's rate limit is left",
	  "The cloud's rate limit is nearly used up",
	  "ccmd postpones requests until the limit has recovered, so changes are late.",
	  check_budget, FIX_BY_HAND, VIEW_CLOUD, .causes = { "CCMD030" },
	  .subject = "a rate limit that is not used up" },
	{ "CCMD033", CLOUD, "The cloud's credentials may make changes",
	  "The cloud's credentials may only read",
	  "With credentials that may only read, load balancers and routes stay as they are.",
	  check_cloud_rights, FIX_BY_HAND, 0, .causes = { NULL } },
	{ "CCMD034", CLOUD, "The network, location and type in the cloud's settings exist",
	  "The cloud's settings name something that does not exist",
	  "ccmd does not start without its network, and the cloud refuses a load balancer at an unknown location.",
	  check_settings, FIX_BY_HAND, VIEW_SETTINGS, .causes = { "CCMD030" },
	  .subject = "what the settings name" },
	{ "CCMD035", CLOUD, "The cloud responds quickly", "The cloud responds slowly",
	  "Each change takes several requests, and new nodes and Services wait for their turn.",
	  check_cloud_latency, FIX_BY_HAND, 0, .causes = { NULL } },

	{ "CCMD040", NODES, "All kubelets run with --cloud-provider=external",
	  "Kubelets run without --cloud-provider=external",
	  "Without the flag, a new node lacks the taint by which ccmd recognises it, and gets no provider ID.",
	  NULL, FIX_BY_HAND, VIEW_NODES, .causes = { "CCMD001" }, .each_node = check_kubelets },
	{ "CCMD041", NODES, "New nodes are initialised", "New nodes are not initialised",
	  "A node keeps its taint until it is initialised, and no ordinary pod runs on it.", NULL,
	  FIX_BY_HAND, VIEW_LOOK, .causes = { "CCMD031" }, .each_node = check_new_nodes },
	{ "CCMD042", NODES, "All provider IDs belong to this cloud",
	  "Provider IDs belong to another cloud", "ccmd does not change nodes of another cloud.",
	  NULL, FIX_BY_HAND, VIEW_LOOK, .causes = { "CCMD030" }, .each_node = check_foreign_ids },
	{ "CCMD043", NODES, "Each provider ID belongs to one node",
	  "Several nodes have the same provider ID",
	  "Both nodes get the addresses of one machine, so only one of them can be reached.",
	  check_duplicate_ids, FIX_BY_HAND, VIEW_NODES, .causes = { "CCMD001" } },
	{ "CCMD044", NODES, "Each node has its machine", "Nodes have no machine",
	  "Pods of a node whose machine is gone are not started elsewhere until the node is deleted.",
	  NULL, FIX_BY_HAND, VIEW_LOOK, .causes = { "CCMD031" },
	  .each_node = check_absent_machines },
	{ "CCMD045", NODES, "The addresses of the nodes are those of their machines",
	  "Addresses of nodes are not those of their machines",
	  "Other components reach a node by the addresses in its status.", NULL, FIX_BY_HAND,
	  VIEW_LOOK, .causes = { "CCMD031" }, .each_node = check_addresses },
	{ "CCMD046", NODES, "The labels of the nodes are those of their machines",
	  "Labels of nodes are not those of their machines",
	  "The scheduler places pods and volumes by zone and region; ccmd sets these labels only once.",
	  NULL, FIX_EITHER, VIEW_LOOK, .causes = { "CCMD031" }, .each_node = check_labels },
	{ "CCMD047", NODES, "The pod CIDRs are within --cluster-cidr",
	  "Pod CIDRs are outside of --cluster-cidr",
	  "Other pod CIDRs get no route, so their pods cannot be reached.", check_cluster_cidr,
	  FIX_BY_HAND, ROUTES, .causes = { "CCMD030" } },
	{ "CCMD048", NODES, "The pod CIDRs do not overlap", "Pod CIDRs overlap",
	  "If pod CIDRs overlap, only the older node gets a route.", check_pod_cidrs, FIX_BY_HAND,
	  ROUTES, .causes = { "CCMD030" } },
	{ "CCMD049", NODES, "No deletion of a node is held", "Deletions of nodes are held",
	  "Until the proof is complete, the node and its pods stay in the cluster.",
	  check_held_deletions, FIX_EITHER, VIEW_LOOK, .causes = { "CCMD031" } },
	{ "CCMD050", NODES, "Each pod CIDR has its route", "Pod CIDRs have no route",
	  "Without it, pods on other nodes cannot reach those of the node.", check_node_routes,
	  FIX_BY_HAND, ROUTES | VIEW_ROUTES, .causes = { "CCMD031" } },
	{ "CCMD051", NODES, "Each route within --cluster-cidr has its node",
	  "Routes within --cluster-cidr have no node",
	  "A route without a node takes up space in the network's table, and may lead to a wrong machine.",
	  check_orphaned_routes, FIX_BY_HAND, ROUTES | VIEW_ROUTES, .causes = { "CCMD031" } },
	{ "CCMD052", NODES, "All nodes are Ready", "Nodes are not Ready",
	  "No new pod runs on such a node; a finding says whether its machine or its kubelet is the reason.",
	  check_down_nodes, FIX_BY_HAND, VIEW_LOOK, .causes = { "CCMD031" } },
	{ "CCMD053", NODES, "Each node has a pod CIDR", "Nodes have no pod CIDR",
	  "The route controller creates a route to each pod CIDR; a node without a pod CIDR keeps NetworkUnavailable.",
	  check_missing_cidrs, FIX_BY_HAND, ROUTES, .causes = { "CCMD030" } },
	{ "CCMD054", NODES, "No node waits for a route that no controller creates",
	  "Nodes wait for a route that no controller creates",
	  "No ordinary pod runs on a node with the condition NetworkUnavailable.",
	  check_network_conditions, FIX_BY_HAND, VIEW_NODES | VIEW_CLOUD, .causes = { "CCMD030" } },

	{ "CCMD060", SERVICES, "Services of type LoadBalancer have an address",
	  "Services of type LoadBalancer have no address",
	  "Without one, nothing outside of the cluster reaches them.", NULL, FIX_BY_HAND, BALANCERS,
	  .causes = { "CCMD031", "CCMD020", "CCMD021", "CCMD022" },
	  .each_service = check_pending_services },
	{ "CCMD061", SERVICES, "Services of type LoadBalancer have nodes behind them",
	  "Services of type LoadBalancer have no nodes behind them",
	  "A load balancer without targets serves no request.", NULL, FIX_BY_HAND,
	  BALANCERS | VIEW_NODES, .causes = { "CCMD030" }, .each_service = check_targets },
	{ "CCMD062", SERVICES, "The annotations of Services are known",
	  "Annotations of Services are unknown",
	  "An annotation with a mistake in its name has no effect.", check_annotation_names,
	  FIX_EITHER, BALANCERS, .causes = { "CCMD030" } },
	{ "CCMD063", SERVICES, "The settings of Services are valid",
	  "Settings of Services are not valid",
	  "A Service that is refused gets no load balancer, or its load balancer stays as it is.",
	  check_service_specs, FIX_EITHER, BALANCERS, .causes = { "CCMD031" } },
	{ "CCMD064", SERVICES, "Each Service with an address has its load balancer",
	  "Services with an address have no load balancer",
	  "Without the load balancer, nothing responds at the address.", NULL, FIX_BY_HAND,
	  BALANCER_LIST | VIEW_BALANCERS, .causes = { "CCMD031" },
	  .each_service = check_balancers },
	{ "CCMD065", SERVICES, "Nothing in the cloud is left over from deleted Services",
	  "Something in the cloud is left over from deleted Services",
	  "It has no use, and load balancers and cloud IPs cost money.", check_orphans, FIX_BY_HAND,
	  BALANCER_LIST | VIEW_BALANCERS, .causes = { "CCMD031" } },
	{ "CCMD066", SERVICES, "The load balancers are what their Services ask for",
	  "Load balancers differ from what their Services ask for",
	  "ccmd undoes changes by hand when it next compares the load balancer, within an hour by default.",
	  NULL, FIX_EITHER, BALANCER_LIST | VIEW_TRIALS, .causes = { "CCMD031" },
	  .each_service = check_changed_balancers },
	{ "CCMD067", SERVICES, "Each Service may use its load balancer",
	  "Services may not use their load balancer",
	  "ccmd never changes a load balancer of another cluster or Service, so this Service gets none.",
	  NULL, FIX_BY_HAND, BALANCER_LIST | VIEW_TRIALS, .causes = { "CCMD031" },
	  .each_service = check_refused_balancers },
	{ "CCMD068", SERVICES, "The load balancers can forward traffic",
	  "Load balancers cannot forward traffic",
	  "Clients get no response if no target is healthy, or at an address that the cloud has blocked.",
	  check_forwarding, FIX_BY_HAND, BALANCER_LIST | VIEW_BALANCERS, .causes = { "CCMD031" } },

	{ "CCMD069", SERVICES, "Services of type LoadBalancer have ready endpoints",
	  "Services of type LoadBalancer have no ready endpoints",
	  "Load balancers forward traffic to the pods of a Service, and only to those that are ready.",
	  check_endpoints, FIX_BY_HAND, BALANCERS, .causes = { "CCMD001" } },
	{ "CCMD070", SERVICES, "What Services ask for has an effect",
	  "Services ask for something that has no effect",
	  "A Service that seems to be restricted may be open to everyone, and one that seems to be reachable may not be.",
	  NULL, FIX_BY_HAND, VIEW_SERVICES | VIEW_CLOUD, .causes = { "CCMD030" },
	  .each_service = check_effects },
	{ "CCMD071", SERVICES, "Only ccmd writes the addresses of Services",
	  "Another controller writes the addresses of Services",
	  "The two overwrite each other's addresses, so clients are sent to one or the other.",
	  NULL, FIX_BY_HAND, BALANCERS, .causes = { "CCMD030" },
	  .each_service = check_address_writers },

	{ "CCMD080", CONFIGURATION, "All flags have an effect", "Flags have no effect",
	  "Flags without effect suggest settings that do not exist.", check_flags, FIX_BY_HAND, 0,
	  .causes = { NULL } },
	{ "CCMD081", CONFIGURATION, "Files with secrets are readable only by their owner and group",
	  "Files with secrets are readable by others",
	  "Any user of this machine could act with these credentials.", check_files, FIX_EITHER, 0,
	  .causes = { NULL } },
	{ "CCMD082", CONFIGURATION, "The variables of the cloud are known",
	  "Variables of the cloud are unknown",
	  "A variable with a mistake in its name has no effect.", check_variables, FIX_BY_HAND, 0,
	  .causes = { NULL } },
	{ "CCMD083", CONFIGURATION, "The flags are those of the controller in the cluster",
	  "The flags are not those of the controller in the cluster",
	  "With other flags, the command looks for problems of another configuration.",
	  check_same_flags, FIX_BY_HAND, 0, .causes = { "CCMD001" } },
};
const size_t doctor_n_checks = ARRAY_LEN(doctor_checks);

bool
doctor_needs(struct doctor *d, struct report *r, unsigned parts)
{
	struct error err;

	if (view_need(d->view, parts, &err))
		return true;
	report_unknown(r, &err);
	return false;
}

/* False: the check does not apply here, or could not run. */
static bool
can_run(struct doctor *d, struct report *r, unsigned needs)
{
	const struct options *o = d->view->options;
	const char *why_not = NULL;

	/* what can be said without any request, then with the cloud, which has to be started */
	if ((needs & NEEDS_ELECTION) && !o->election.is_enabled)
		why_not = "--leader-elect=false, so there is no Lease";
	if ((needs & NEEDS_ROUTES) && !options_want_routes(o))
		why_not = "the route controller is disabled";
	if (!why_not && (needs & (NEEDS_ROUTES | NEEDS_BALANCERS | NEEDS_BALANCER_LIST))) {
		const struct cloud *cloud;

		if (!doctor_needs(d, r, needs & (VIEW_SERVICES | VIEW_CLOUD)))
			return false;
		cloud = d->view->cloud;
		if ((needs & NEEDS_ROUTES) && !cloud->routes)
			why_not = "the cloud, as it is configured, has no routes";
		else if (!(needs & NEEDS_ROUTES) && !cloud->balancers)
			why_not = "the cloud, as it is configured, has no load balancers";
		else if ((needs & NEEDS_BALANCER_LIST) && !cloud->balancers->list)
			why_not = "the load balancers of this cloud cannot be listed";
	}
	if (why_not)
		report_skip(r, "%s", why_not);
	return !why_not && doctor_needs(d, r, needs);
}

void
doctor_run_check(struct doctor *d, const struct check *check, struct report *ret)
{
	const struct view *v = d->view;

	report_begin(ret, check);
	if (!can_run(d, ret, check->needs))
		return;
	if (check->run)
		check->run(d, ret);
	for (size_t i = 0; check->each_node && i < v->nodes.n; i++) {
		const struct node *node = v->nodes.items[i];
		const struct checked_node checked = {
			.node = node,
			.name = node_name(node),
			.age_s = view_now_s(v) - node->created_wall_ns / NS_PER_SEC,
			.machine = check->needs & VIEW_LOOK ? &v->look->instances[i] : NULL
		};

		check->each_node(d, ret, &checked);
	}
	for (size_t i = 0, next = 0; check->each_service && i < v->services.n; i++) {
		const struct service *s = v->services.items[i];
		struct checked_service checked = { .service = s,
			                           .key = s->object.key,
			                           .more = &v->services.more[i] };

		checked.is_wanted = service_wants_balancer(s) && !s->is_deleting;
		if ((check->needs & VIEW_TRIALS) && next < v->n_trials &&
		    v->trials[next].service == s)
			checked.trial = &v->trials[next++];
		check->each_service(d, ret, &checked);
	}
}

void
doctor_run(struct doctor *d, struct report *ret)
{
	(void)progress_set("running the checks");
	for (size_t i = 0; i < doctor_n_checks; i++)
		doctor_run_check(d, &doctor_checks[i], ret);
	report_find_causes(ret);
	(void)progress_set(NULL);
}
