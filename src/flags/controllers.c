/* flags/controllers.c: see controllers.h. */
#include "flags/controllers.h"

#include "flags/flags.h"
#include "kube/elector.h"

enum {
	AUTO_NODE_WORKERS = 8,     /* as many as the gate admits */
	AUTO_SERVICE_WORKERS = 20, /* most of them wait for the cloud */
};

void
controllers_choose_numbers(struct options *o)
{
	if (o->n_node_workers == 0)
		o->n_node_workers = AUTO_NODE_WORKERS;
	if (o->n_service_workers == 0)
		o->n_service_workers = AUTO_SERVICE_WORKERS;
}

const char *
controllers_why_not(const struct options *o, const struct cloud *cloud, enum controller which)
{
	bool is_wanted = which == CONTROLLER_ROUTE
	                         ? options_want_routes(o)
	                         : controllers_enabled(o, controllers_names[which].name);

	return controller_why_not(cloud, which, is_wanted);
}

bool
controllers_check_cluster_cidr(const struct options *o, const struct cloud *cloud,
                               struct error *err)
{
	const char *problem = o->routes.cidr_problem;

	if (controllers_why_not(o, cloud, CONTROLLER_ROUTE)) {
		if (problem[0])
			log_warn(
				"--cluster-cidr is invalid, but the route controller does not run, ignoring",
				LOG_CSTR("problem", problem));
		return true;
	}
	if (problem[0])
		return err_set(err, ERR_INVALID, "%s", problem);
	if (o->routes.n_cidrs == 0)
		return err_set(
			err, ERR_INVALID,
			"--cluster-cidr is empty, but the route controller needs it: give the networks of the pods, or "
			"--configure-cloud-routes=false");
	return true;
}

bool
controllers_load_cloud(const struct options *o, bool is_read_only, struct cloud **ret,
                       struct error *err)
{
	bool is_cidr_wrong = options_want_routes(o) && o->routes.cidr_problem[0];
	struct cloud_config config = {
		.clock = &clock_real,
		.path = o->cloud_config[0] ? o->cloud_config : NULL,
		.cluster_name = o->cluster_name,
		.reserve_percent = o->cloud_reserve_percent,
		.cluster_cidrs = o->routes.cidrs,
		.n_cluster_cidrs = o->routes.n_cidrs,
		.cluster_cidr_problem = is_cidr_wrong ? o->routes.cidr_problem : NULL,
		.has_election = o->election.is_enabled,
		.is_read_only = is_read_only,
	};

	return cloud_find(str_c(o->cloud_provider))->load(&config, ret, err);
}

bool
controllers_start_cloud(struct controller_parts *parts, const struct options *o,
                        struct fence *fence, struct kube_client *events, struct error *err)
{
	struct buf identity = BUF_FIXED(parts->identity);
	struct cloud *cloud = parts->cloud;

	parts->node_kind = node_kind;
	parts->node_kind.annotations = cloud->ops->node_annotations;
	elector_identity(&identity);
	parts->recorder = recorder_new(events, parts->identity, &clock_real);
	parts->nodes = store_new(&parts->node_kind.kind, &clock_real);
	parts->host = host_new(&(struct host_config){ .clock = &clock_real,
	                                              .fence = fence,
	                                              .nodes = parts->nodes,
	                                              .recorder = parts->recorder,
	                                              .component = cloud->ops->event_component });
	cloud->host = host_cloud_host(parts->host);
	if (!cloud->ops->start(cloud, cloud->host, err))
		return false;
	/* no node has been parsed yet */
	parts->node_kind.keeps_routes = !controllers_why_not(o, cloud, CONTROLLER_ROUTE);
	return true;
}

struct manager_config
controllers_config(const struct options *o, const struct controller_parts *parts)
{
	return (struct manager_config){
		.clock = &clock_real,
		.recorder = parts->recorder,
		.nodes = parts->nodes,
		.host = parts->host,
		.cloud = parts->cloud,
		.node = { .n_workers = (unsigned)o->n_node_workers,
		          .refresh_period_ns = o->node_refresh_period_ns },
		.lifecycle = { .guard = o->guard, .period_ns = o->node_monitor_period_ns },
		.service = { .n_workers = (unsigned)o->n_service_workers,
		             .cluster_name = o->cluster_name,
		             .drift_period_ns = o->drift_period_ns },
		.route = { .period_ns = o->routes.period_ns,
		           .cluster_cidrs = o->routes.cidrs,
		           .n_cluster_cidrs = o->routes.n_cidrs },
	};
}
