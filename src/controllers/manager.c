/* controllers/manager.c: builds, starts and stops the controllers; see manager.h.
 *
 * What the controllers share (the lookup, their memory, the stores) is created together with
 * the manager. A controller exists only between manager_start() and manager_stop().
 */
#include "controllers/manager.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "controllers/describe.h"
#include "controllers/lookup.h"
#include "kube/reflector.h"
#include "kube/service.h"

METRIC_FAMILY(running, METRIC_GAUGE, "running_managed_controllers",
              "[ALPHA] 1 for each controller that runs.", .labels = { "name", "manager" });

const struct controller_names controllers_names[N_CONTROLLERS] = {
	[CONTROLLER_NODE] = { "cloud-node-controller", "cloud-node", "node-controller" },
	[CONTROLLER_LIFECYCLE] = { "cloud-node-lifecycle-controller", "cloud-node-lifecycle",
	                           "node-controller" },
	[CONTROLLER_SERVICE] = { "service-lb-controller", "service", "service-controller" },
	[CONTROLLER_ROUTE] = { "node-route-controller", "route", "route-controller" },
};

struct manager {
	struct manager_config config;
	struct cancel *cancel;
	struct controller_memory *memory;
	struct controller_env env; /* of all controllers; without kube */
	struct controller_env envs[N_CONTROLLERS];
	struct service_kind service_kind; /* of services, unless the config has them */
	struct store *services;           /* NULL: no controller needs them */
	struct node_controller *node;
	struct lifecycle_controller *lifecycle;
	struct service_controller *service;
	struct route_controller *route;
	struct reflector *node_reflector, *service_reflector;
	_Atomic bool is_started;
	pthread_mutex_t mu;
	/* mu; for manager_describe(), while the controllers exist; else zeroed */
	struct describe_sources described;
};

const char *
controller_why_not(const struct cloud *cloud, enum controller which, bool is_wanted)
{
	if (!is_wanted)
		return "controller is disabled";
	if (which == CONTROLLER_SERVICE && !cloud->balancers)
		return "controller is skipped: this cloud, as it is configured, has no load balancers";
	if (which == CONTROLLER_ROUTE && !cloud->routes)
		return "controller is skipped: this cloud, as it is configured, has no routes; they need HCLOUD_NETWORK, or "
		       "routes: in the inventory, and --cluster-cidr";
	return NULL;
}

struct manager *
manager_new(const struct manager_config *config)
{
	struct manager *m = xcalloc(1, sizeof(*m));

	*m = (struct manager){ .config = *config,
		               .cancel = cancel_new(),
		               .services = config->services,
		               .service_kind = service_kind_of(config->cloud) };
	mutex_init(&m->mu);
	if (config->clients[CONTROLLER_SERVICE] && !m->services)
		m->services = store_new(&m->service_kind.kind, config->clock);
	m->env = (struct controller_env){ .clock = config->clock,
		                          .cancel = m->cancel,
		                          .nodes = config->nodes,
		                          .services = m->services,
		                          .recorder = config->recorder,
		                          .cloud = config->cloud,
		                          .dry = config->dry };
	m->memory = controller_memory_new(&m->env);
	m->env.lookup = lookup_new(&(struct lookup_config){
		.cloud = config->cloud,
		.nodes = config->nodes,
		.event_dedup = m->env.event_dedup,
		.clock = config->clock,
		.adds_new_nodes = config->clients[CONTROLLER_NODE] != NULL,
	});
	host_set_services(config->host, m->services);
	return m;
}

void
manager_free(struct manager *m)
{
	if (!m)
		return;
	host_set_services(m->config.host, NULL);
	lookup_free(m->env.lookup);
	controller_memory_free(m->memory);
	if (m->services != m->config.services)
		store_free(m->services);
	cancel_free(m->cancel);
	mutex_destroy(&m->mu);
	free(m);
}

/* Carries out what a provider requests, on its thread. Objects that are not due cost nothing. */
static void
manager_requeue(void *manager, enum host_requeue what, struct str key)
{
	struct manager *m = manager;

	switch (what) {
	case HOST_REQUEUE_NODES:
		if (m->node)
			node_controller_wake(m->node);
		if (m->lifecycle)
			lifecycle_controller_wake(m->lifecycle, LIFECYCLE_ALL_DUE);
		break;
	case HOST_REQUEUE_SERVICES:
		if (m->service)
			service_controller_wake(m->service, STR_EMPTY);
		break;
	case HOST_REQUEUE_SERVICE:
		if (m->service)
			service_controller_wake(m->service, key);
		break;
	case HOST_REQUEUE_ROUTES:
		if (m->route)
			route_controller_wake(m->route, /*is_outage_over=*/false);
		break;
	case HOST_REQUEUE_RECOVERED:
		if (m->node)
			node_controller_release(m->node);
		if (m->lifecycle)
			lifecycle_controller_wake(m->lifecycle, LIFECYCLE_FAILED_DUE);
		if (m->service)
			service_controller_release(m->service);
		if (m->route)
			route_controller_wake(m->route, /*is_outage_over=*/true);
		break;
	}
}

static struct reflector *
start_reflector(struct manager *m, struct store *store, struct str min_version)
{
	return reflector_new(&(struct reflector_config){ .http = m->config.shared->http,
	                                                 .host = m->config.shared->host,
	                                                 .user_agent = m->config.shared->user_agent,
	                                                 .store = store,
	                                                 .min_version = min_version,
	                                                 .clock = m->config.clock,
	                                                 .cancel = m->cancel });
}

static void
manager_count_problems(void *manager)
{
	struct manager *m = manager;
	WITH_LOCK(&m->mu);

	describe_count_problems(m->described.nodes ? &m->described : NULL);
}

/* Controllers subscribe to the stores before the reflectors fill them. */
void
manager_start(struct manager *m, struct str min_version, bool may_follow_crash)
{
	const struct manager_config *config = &m->config;

	for (size_t i = 0; i < N_CONTROLLERS; i++) {
		m->envs[i] = m->env;
		m->envs[i].kube = config->clients[i];
		if (config->clients[i])
			metric_set(metric_of(&running, controllers_names[i].alias,
			                     "cloud-controller-manager"),
			           1);
	}
	m->config.lifecycle.may_follow_crash = may_follow_crash;
	if (config->clients[CONTROLLER_NODE])
		m->node = node_controller_new(&m->envs[CONTROLLER_NODE], &config->node);
	if (config->clients[CONTROLLER_LIFECYCLE])
		m->lifecycle = lifecycle_controller_new(&m->envs[CONTROLLER_LIFECYCLE],
		                                        &config->lifecycle);
	if (config->clients[CONTROLLER_SERVICE])
		m->service = service_controller_new(&m->envs[CONTROLLER_SERVICE], &config->service);
	if (config->clients[CONTROLLER_ROUTE])
		m->route = route_controller_new(&m->envs[CONTROLLER_ROUTE], &config->route);
	mutex_lock(&m->mu);
	m->described = (struct describe_sources){ .nodes = config->nodes,
		                                  .services = m->services,
		                                  .node_errors = m->env.node_errors,
		                                  .node = m->node,
		                                  .lifecycle = m->lifecycle,
		                                  .service = m->service,
		                                  .route = m->route };
	mutex_unlock(&m->mu);
	metrics_on_scrape(manager_count_problems, m);
	host_set_requeue(config->host, manager_requeue, m);
	if (config->shared)
		m->node_reflector = start_reflector(m, config->nodes, min_version);
	if (config->shared && m->services)
		m->service_reflector = start_reflector(m, m->services, min_version);
	m->is_started = true;
}

/* The keys of all objects are in the queues once the stores have synced, because the stores call
 * the controllers' handlers before. The comparison of addresses queues nodes, so its end is waited
 * for before the queue is. Without adoption the service controller hands out no key. */
bool
manager_wait_settled(struct manager *m, int64_t deadline_ns, struct error *err)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = { .clock = m->config.clock,
		             .cancel = m->cancel,
		             .deadline_mono_ns = deadline_ns,
		             .arena = &arena };
	unsigned parts = (m->node ? SETTLING_ADDRESSES : 0) |
	                 (m->lifecycle ? SETTLING_LIFECYCLE : 0) |
	                 (m->service ? SETTLING_ADOPTION : 0) | (m->route ? SETTLING_ROUTES : 0);

	if (!store_wait_synced(m->config.nodes, &call, err) ||
	    (m->services && !store_wait_synced(m->services, &call, err)) ||
	    !settling_wait(m->env.settling, parts, deadline_ns, err))
		return false;
	if (m->node && !queue_wait_idle(node_controller_queue(m->node), deadline_ns))
		return err_set(err, ERR_TIMEOUT, "not all nodes were handled in time");
	if (m->service && service_controller_has_adopted(m->service) &&
	    !queue_wait_idle(service_controller_queue(m->service), deadline_ns))
		return err_set(err, ERR_TIMEOUT, "not all services were handled in time");
	return true;
}

size_t
manager_candidates(struct manager *m, struct arena *arena, struct lifecycle_candidate **ret)
{
	return m->lifecycle ? lifecycle_controller_candidates(m->lifecycle, arena, ret) : 0;
}

bool
manager_stop(struct manager *m, int64_t grace_ns)
{
	int64_t deadline = clock_deadline(clock_mono(m->config.clock), grace_ns);
	struct queue *queues[] = { m->node ? node_controller_queue(m->node) : NULL,
		                   m->service ? service_controller_queue(m->service) : NULL };
	bool is_done = true;

	if (!m->is_started)
		return true;
	host_set_requeue(m->config.host, NULL, NULL);

	/* no more keys are handed out, and reconciles that are running are waited for */
	for (size_t i = 0; i < ARRAY_LEN(queues); i++) {
		if (queues[i])
			queue_shut_down(queues[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(queues); i++) {
		if (queues[i] && !queue_wait_idle(queues[i], deadline))
			is_done = false;
	}
	cancel_fire(m->cancel);

	/* The lifecycle and route controllers have no queue to drain. If one of them is working
	 * now, its request is aborted, but the server may still execute it. */
	if (m->lifecycle && lifecycle_controller_is_working(m->lifecycle))
		is_done = false;
	if (m->route && route_controller_is_working(m->route))
		is_done = false;
	metrics_off_scrape(manager_count_problems, m);
	mutex_lock(&m->mu);
	m->described = (struct describe_sources){ 0 };
	mutex_unlock(&m->mu);
	reflector_free(TAKE(m->node_reflector));
	reflector_free(TAKE(m->service_reflector));
	node_controller_free(TAKE(m->node));
	lifecycle_controller_free(TAKE(m->lifecycle));
	service_controller_free(TAKE(m->service));
	route_controller_free(TAKE(m->route));
	return is_done;
}

bool
manager_is_started(const struct manager *m)
{
	return m->is_started;
}

bool
manager_has_synced(void *manager, struct buf *reason)
{
	struct manager *m = manager;

	if (!m->is_started)
		return true;
	if (!store_has_synced(m->config.nodes)) {
		buf_add_c(reason, "nodes have not been listed yet");
		return false;
	}
	if (m->services && !store_has_synced(m->services)) {
		buf_add_c(reason, "services have not been listed yet");
		return false;
	}
	return true;
}

/* The lock is held until the controllers have answered, so that they are not freed meanwhile. */
bool
manager_describe(void *manager, struct str path, struct buf *json)
{
	struct manager *m = manager;
	struct described what;
	bool is_all = str_eq_c(path, DESCRIBED_TROUBLE);

	if (!is_all && !described_parse(path, &what))
		return false;
	WITH_LOCK(&m->mu);
	describe(m->described.nodes ? &m->described : NULL, is_all ? NULL : &what, json);
	return true;
}
