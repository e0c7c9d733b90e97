/* flags/controllers.c: see controllers.h. */
#include "flags/controllers.h"

#include "flags/flags.h"

enum {
	AUTO_NODE_WORKERS = 8,     /* as many as the gate admits */
	AUTO_SERVICE_WORKERS = 10, /* most of them wait for the cloud */
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

struct manager_config
controllers_config(const struct options *o)
{
	return (struct manager_config){
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
