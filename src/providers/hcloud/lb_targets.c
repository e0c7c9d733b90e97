/* lb_targets.c: see lb_targets.h.
 *
 * A node's provider ID says what it is. A cloud server is a target by its id. A dedicated server is
 * a target by an address, for which Robot's list is needed, or, with use-private-ip, the InternalIP
 * of the node. If Robot does not answer, the addresses of dedicated servers are unknown: then all
 * targets by address stay as they are, because a failure of Robot must not take servers out of
 * service.
 *
 * The metrics of health have a series for each Service. No other metric has names of objects as
 * labels, so the number of series is bounded: if there are more than LIMIT_METRIC_SERIES Services,
 * the last series has the labels "other" and the sum of the rest. The series of a deleted Service
 * is absent from the next scrape.
 */
#include "providers/hcloud/lb_targets.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/event_kind.h"
#include "base/limits.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "providers/hcloud/lb_cache.h"

EVENT_KIND(
	prefix_event, HZ_COMPONENT, "UnknownProviderIDPrefix", true, "Node",
	"hcloud: the node's provider ID is of another cloud, so the node is not a target of a load balancer.");
EVENT_KIND(
	id_event, HZ_COMPONENT, "InvalidProviderID", true, "Node",
	"hcloud: the number in the node's provider ID cannot be read, so the node is not a target of a load balancer.");
EVENT_KIND(
	robot_event, HZ_COMPONENT, "ServerNotFound", true, "Node",
	"hcloud: Robot has no address for the node's provider ID, so the node is not a target of a load balancer.");
EVENT_KIND(
	internal_event, HZ_COMPONENT, "InternalIPNotConfigured", true, "Service",
	"hcloud: a dedicated server should be a target by its private address, but its node has none.");
EVENT_KIND(limit_event, HZ_COMPONENT, "MaxTargetsReached", true, "Node",
           "hcloud: the load balancer's type allows no further target; a larger type helps.");
EVENT_KIND(
	refused_event, HZ_COMPONENT, "LoadBalancerTargetRefused", true, "Node",
	"hcloud: the API does not accept the node as a target; the message says why. Other nodes are not affected.");

enum {
	MAX_DESCRIBED = 5, /* unhealthy targets of one balancer */
};

METRIC_FAMILY(
	healthy_targets, METRIC_GAUGE, "hcloud_load_balancer_healthy_targets",
	"[ALPHA] Targets of a Service's load balancer that were healthy when it was read last. Services beyond 199 are summed as \"other\".",
	.labels = { "namespace", "service" });
METRIC_FAMILY(
	all_targets, METRIC_GAUGE, "hcloud_load_balancer_targets",
	"[ALPHA] Targets of a Service's load balancer when it was read last, healthy or not. Services beyond 199 are summed as \"other\".",
	.labels = { "namespace", "service" });

/* ---- servers as they were read last ---- */

/* The servers of live nodes are read every few minutes. What was not read for so long is forgotten,
 * since where machines come and go, the table would grow for ever. */
#define KNOWN_NS (3600 * NS_PER_SEC)

struct hz_servers_known {
	pthread_mutex_t mu;
	struct map by_id; /* mu; struct server_known by its key */
	int64_t swept_ns; /* mu; mono */
};

struct server_known {
	struct str key;  /* the bytes of the id */
	int64_t seen_ns; /* mono */
	bool has_public_ipv4;
	bool is_in_network; /* true if the cluster has none: then the balancer's error says so */
};

struct hz_servers_known *
hz_servers_known_new(void)
{
	struct hz_servers_known *k = xcalloc(1, sizeof(*k));

	k->by_id = MAP_OF(struct server_known, key);
	mutex_init(&k->mu);
	return k;
}

void
hz_servers_known_free(struct hz_servers_known *k)
{
	if (!k)
		return;
	map_free_all(&k->by_id, free);
	mutex_destroy(&k->mu);
	free(k);
}

static bool
server_known_is_old(const void *known, const void *now_ns)
{
	return *(const int64_t *)now_ns - ((const struct server_known *)known)->seen_ns > KNOWN_NS;
}

void
hz_servers_known_note(struct hz_servers_known *k, const struct hz_server *server, int64_t network,
                      int64_t now_ns)
{
	struct server_known *known;
	WITH_LOCK(&k->mu);

	if (now_ns - k->swept_ns > KNOWN_NS) {
		map_free_obsolete(&k->by_id, server_known_is_old, &now_ns, free);
		k->swept_ns = now_ns;
	}
	if (k->by_id.count >= LIMIT_MACHINES && !map_get(&k->by_id, map_key_i64(&server->id)))
		map_free_all(&k->by_id, free);
	known = map_add(&k->by_id, map_key_i64(&server->id), sizeof(*known));
	known->seen_ns = now_ns;
	known->has_public_ipv4 = server->ipv4.len > 0;
	known->is_in_network = network == 0 ||
	                       hz_address_in(&server->private_nets, network).len > 0;
}

const char *
hz_servers_known_obstacle(struct hz_servers_known *k, int64_t id, bool is_private)
{
	const struct server_known *known;
	WITH_LOCK(&k->mu);

	known = map_get(&k->by_id, map_key_i64(&id));
	if (!known || (is_private ? known->is_in_network : known->has_public_ipv4))
		return NULL;
	return is_private ? "is not attached to the network" : "has no public IPv4 address";
}

/* ---- a pass over the nodes of a Service ---- */

struct target_search {
	const struct hz_targets_config *config;
	struct call *call;
	const struct lb_spec *spec;
	const struct hz_lb_desired *desired;
	struct hz_targets *ret;
	struct map wanted, present; /* the targets of ret and of lb, by hz_target_key() */
	bool is_robot_failing;      /* targets by address stay as they are */
};

/* ---- events ---- */

static void
hz_targets_warn_not_added(const struct hz_targets_config *config, const struct lb_spec *spec,
                          const struct node_ref *node, const struct event_kind *kind,
                          const char *separator, const char *why)
{
	host_report(config->host, node, kind,
	            "Node could not be added to Load Balancer for service %" STR_FMT "%s%s",
	            STR_ARG(spec->service), separator, why);
}

static void
hz_targets_warn_no_server(const struct target_search *s, const struct node_ref *node,
                          int64_t number)
{
	host_report(s->config->host, node, &robot_event,
	            "No server with id %" PRId64 " was found in Robot", number);
}

void
hz_targets_exceeded(const struct hz_targets_config *config, const struct lb_spec *spec,
                    const struct node_ref *node)
{
	hz_targets_warn_not_added(config, spec, node, &limit_event, " because ",
	                          "the max number of targets has been reached");
}

/* ---- nodes that are missing ---- */

static void
hz_targets_note_missing(struct hz_targets *t, const struct node_ref *node, const struct error *why)
{
	if (t->missing.code != ERR_NONE)
		return;
	t->missing = *why;
	err_wrap(&t->missing, "hcops/LoadBalancerOps.ReconcileHCLBTargets: target %" STR_FMT,
	         STR_ARG(node->name));
}

static uint64_t
hz_targets_looks(const struct node_ref *node)
{
	uint64_t hash = str_hash(node->uid);

	for (size_t i = 0; i < node->n_addresses; i++)
		hash = hash * UINT64_C(0x9e3779b97f4a7c15) + str_hash(node->addresses[i].address);
	return hash;
}

static bool
hz_targets_is_refused(const struct target_search *s, const struct hz_lb_target *target)
{
	struct str object = hz_target_key(target, target->uses_private_ip, s->call->arena);
	struct error ignored;

	return refusals_find(s->config->refusals, object, "add_target",
	                     hz_targets_looks(target->node), &ignored);
}

void
hz_targets_refused(struct hz_targets *t, const struct hz_targets_config *config, struct call *call,
                   const struct lb_spec *spec, const struct hz_lb_target *target, bool is_retryable,
                   const struct error *why)
{
	/* the network is not part of it, because the cluster has only one */
	struct str object = hz_target_key(target, target->uses_private_ip, call->arena);

	hz_targets_warn_not_added(config, spec, target->node, &refused_event, ": ", why->msg);
	if (!is_retryable) {
		refusals_note(config->refusals, object, "add_target",
		              hz_targets_looks(target->node), why);
		return;
	}
	t->is_robot_unavailable |= target->type == HZ_TARGET_IP;
	hz_targets_note_missing(t, target->node, why);
}

/* ---- targets ---- */

/* The same for a server by each of its addresses. */
static struct str
hz_targets_key(const struct target_search *s, const struct hz_lb_target *target)
{
	return hz_target_key(target, /*is_private=*/false, s->call->arena);
}

/* Is it a target of the balancer already, by the same address? */
static bool
hz_targets_is_present(const struct target_search *s, const struct hz_lb_target *target)
{
	const struct hz_lb_target *found = map_get(&s->present, hz_targets_key(s, target));

	return found && found->uses_private_ip == target->uses_private_ip;
}

/* Two nodes with the same provider ID are one machine and so one target. */
static void
hz_targets_add(struct target_search *s, struct hz_lb_target target)
{
	struct hz_targets *t = s->ret;
	struct str key = hz_targets_key(s, &target);

	if (map_get(&s->wanted, key) || (target.node && !hz_targets_is_present(s, &target) &&
	                                 hz_targets_is_refused(s, &target)))
		return;
	t->targets[t->n] = target;
	map_put(&s->wanted, key, &t->targets[t->n++]);
}

/* node NULL: the target is kept without a node. */
static void
hz_targets_add_address(struct target_search *s, const struct node_ref *node, struct str ip)
{
	hz_targets_add(s, (struct hz_lb_target){ .type = HZ_TARGET_IP, .ip = ip, .node = node });
}

/* The API would refuse a server without the needed address. */
static void
hz_targets_add_cloud_server(struct target_search *s, const struct node_ref *node, int64_t number)
{
	bool is_private = s->desired->uses_private_ip;
	struct hz_lb_target target = { .type = HZ_TARGET_SERVER,
		                       .server = number,
		                       .ip = STR_EMPTY,
		                       .uses_private_ip = is_private,
		                       .node = node };
	const char *obstacle = NULL;
	struct error why;

	if (s->config->servers_known && !hz_targets_is_present(s, &target))
		obstacle = hz_servers_known_obstacle(s->config->servers_known, number, is_private);
	if (!obstacle) {
		hz_targets_add(s, target);
	} else if (!hz_targets_is_refused(s, &target)) {
		err_set(&why, ERR_INVALID, "server %" PRId64 " %s", number, obstacle);
		hz_targets_refused(s->ret, s->config, s->call, s->spec, &target, false, &why);
	}
}

/* ---- dedicated servers ---- */

static struct str
hz_targets_internal_ip(const struct node_ref *node)
{
	for (size_t i = 0; i < node->n_addresses; i++) {
		if (str_eq_c(node->addresses[i].type, "InternalIP"))
			return node->addresses[i].address;
	}
	return STR_EMPTY;
}

/* A public address that is a target already stays one beside the private address, as with the
 * official controller (docs/spec/hcloud.md, "Targets"). */
static void
hz_targets_add_robot_server(struct target_search *s, const struct node_ref *node,
                            struct str public_ip)
{
	struct str private_ip = hz_targets_internal_ip(node);

	if (s->desired->uses_private_ip && private_ip.len == 0)
		host_report_service(
			s->config->host, s->spec, &internal_event,
			"hcops/LoadBalancerOps.ReconcileHCLBTargets: load balancer %" STR_FMT
			" has set `use-private-ip: true`, but no InternalIP found for node "
			"%" STR_FMT ". Continuing with ExternalIP.",
			STR_ARG(s->spec->service), STR_ARG(node->name));
	if (!s->desired->uses_private_ip || private_ip.len == 0) {
		hz_targets_add_address(s, node, public_ip);
		return;
	}
	hz_targets_add_address(s, node, private_ip);
	if (hz_targets_is_present(s,
	                          &(struct hz_lb_target){ .type = HZ_TARGET_IP, .ip = public_ip }))
		hz_targets_add_address(s, NULL, public_ip);
}

static void
hz_targets_find_at_robot(struct target_search *s, const struct node_ref *node, int64_t number)
{
	struct hz_robot_server server;
	struct error err;

	if (hz_robot_find(s->config->robot, s->call, s->call->arena, number, &server, &err)) {
		if (server.ipv4.len > 0)
			hz_targets_add_robot_server(s, node, server.ipv4);
		else
			hz_targets_warn_not_added(s->config, s->spec, node, &refused_event, ": ",
			                          "the dedicated server has no IPv4 address");
	} else if (err.code == ERR_NOT_FOUND) {
		hz_targets_warn_no_server(s, node, number);
	} else {
		s->is_robot_failing = true;
		err_wrap(&err, "failed to get list of dedicated servers");
		hz_targets_note_missing(s->ret, node, &err);
	}
}

/* ---- nodes ---- */

static void
hz_targets_add_node(struct target_search *s, const struct node_ref *node)
{
	const struct hz_config *config = s->config->config;
	struct str internal_ip = hz_targets_internal_ip(node);
	struct hz_id id;
	struct error err;

	if (!hz_id_parse(config->dialect, node->provider_id, &id, &err)) {
		if (err.code == ERR_UNSUPPORTED)
			hz_targets_warn_not_added(
				s->config, s->spec, node, &prefix_event, " because ",
				"the provider ID does not match any known format");
		else
			hz_targets_warn_not_added(s->config, s->spec, node, &id_event, ": ",
			                          err.msg);
	} else if (id.kind == HZ_CLOUD) {
		hz_targets_add_cloud_server(s, node, id.number);
	} else if (s->config->robot) {
		hz_targets_find_at_robot(s, node, id.number);
	} else if (!config->has_robot || !s->desired->uses_private_ip) {
		hz_targets_warn_no_server(s, node, id.number);
	} else if (internal_ip.len > 0) {
		/* without a login for Robot, this is the only address that is known */
		hz_targets_add_address(s, node, internal_ip);
	} else {
		host_report_service(
			s->config->host, s->spec, &internal_event,
			"no InternalIP found for Robot node %" STR_FMT " (id=%" PRId64
			"), cannot add as LB target without Robot credentials; skipping",
			STR_ARG(node->name), id.number);
	}
}

void
hz_targets_read(const struct hz_targets_config *config, struct call *call,
                const struct lb_spec *spec, const struct hz_lb_desired *desired,
                const struct hz_lb *lb, struct hz_targets *ret)
{
	struct target_search s = {
		.config = config, .call = call, .spec = spec, .desired = desired, .ret = ret
	};

	*ret = (struct hz_targets){ 0 };
	ret->targets = arena_calloc(call->arena, 2 * spec->n_nodes + (lb ? lb->n_targets : 0),
	                            sizeof(ret->targets[0]));
	for (size_t i = 0; lb && i < lb->n_targets; i++)
		map_put(&s.present, hz_targets_key(&s, &lb->targets[i]), &lb->targets[i]);
	for (size_t i = 0; i < spec->n_nodes; i++)
		hz_targets_add_node(&s, &spec->nodes[i]);
	for (size_t i = 0; s.is_robot_failing && lb && i < lb->n_targets; i++) {
		if (lb->targets[i].type == HZ_TARGET_IP)
			hz_targets_add_address(&s, NULL, lb->targets[i].ip);
	}
	map_fini(&s.wanted);
	map_fini(&s.present);
}

const struct node_ref *
hz_targets_node(const struct hz_targets *t, const struct hz_lb_target *target)
{
	/* the same server, by whichever of its addresses */
	for (size_t i = 0; !target->node && i < t->n; i++) {
		if (t->targets[i].type == target->type && t->targets[i].server == target->server &&
		    str_eq(t->targets[i].ip, target->ip))
			return t->targets[i].node;
	}
	return target->node;
}

/* ---- health: the metrics ---- */

static int
hz_health_compare(const void *a, const void *b)
{
	const struct hz_service_health *left = a, *right = b;
	int order = str_cmp(left->namespace, right->namespace);

	return order != 0 ? order : str_cmp(left->service, right->service);
}

/* Called for each scrape. The order decides which Services are in the sum, so the Services are
 * sorted by name: otherwise their series would change without a reason. */
static void
hz_health_scrape(void *cache)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct metric_row healthy[LIMIT_METRIC_SERIES] = { 0 }, all[LIMIT_METRIC_SERIES] = { 0 };
	struct hz_service_health *services;
	size_t n_read, n = 0, n_rows;

	hz_lb_cache_health(cache, &arena, &services, &n_read);
	qsort(services, n_read, sizeof(*services), hz_health_compare);
	for (size_t i = 0; i < n_read; i++) {
		if (n == 0 || hz_health_compare(&services[n - 1], &services[i]) != 0)
			services[n++] = services[i];
	}
	n_rows = n < LIMIT_METRIC_SERIES ? n : LIMIT_METRIC_SERIES;
	for (size_t i = 0; i < n; i++) {
		bool is_other = n > LIMIT_METRIC_SERIES && i >= LIMIT_METRIC_SERIES - 1;
		size_t row = is_other ? LIMIT_METRIC_SERIES - 1 : i;

		healthy[row].labels[0] = is_other ? "other" : services[i].namespace.ptr;
		healthy[row].labels[1] = is_other ? "other" : services[i].service.ptr;
		healthy[row].value += (double)services[i].n_healthy;
		all[row].labels[0] = healthy[row].labels[0];
		all[row].labels[1] = healthy[row].labels[1];
		all[row].value += (double)services[i].n_targets;
	}
	metrics_replace(&healthy_targets, healthy, n_rows);
	metrics_replace(&all_targets, all, n_rows);
}

void
hz_health_open(struct hz_lb_cache *cache)
{
	metrics_on_scrape(hz_health_scrape, cache);
}

void
hz_health_close(struct hz_lb_cache *cache)
{
	metrics_off_scrape(hz_health_scrape, cache);
	metrics_replace(&healthy_targets, NULL, 0);
	metrics_replace(&all_targets, NULL, 0);
}

/* ---- health: for `ccmd explain` and `ccmd doctor` ---- */

static void
hz_health_add_blocked(struct buf *b, const struct hz_public_address *end)
{
	if (end->is_blocked)
		buf_addf(b, "%s%" STR_FMT, b->len > 0 ? ", " : "", STR_ARG(end->ip));
}

void
hz_health_describe(const struct hz_lb *lb, const struct hz_nodes *nodes, struct arena *arena,
                   struct lb_listed *ret)
{
	CLEANUP(buf_fini) struct buf unhealthy = BUF_INIT(KIB(4)), blocked = BUF_INIT(KIB(1));
	size_t n_described = 0;

	for (size_t i = 0; i < lb->n_targets && n_described < MAX_DESCRIBED; i++) {
		const struct hz_lb_target *target = &lb->targets[i];
		const struct node_ref *node = map_get(&nodes->by_id, map_key_i64(&target->server));

		if (target->health != HZ_UNHEALTHY)
			continue;
		if (n_described++ > 0)
			buf_add_c(&unhealthy, "; ");
		if (target->type == HZ_TARGET_IP)
			buf_add_str(&unhealthy, target->ip);
		else if (node)
			buf_addf(&unhealthy, "node %" STR_FMT, STR_ARG(node->name));
		else
			buf_addf(&unhealthy, "server %" PRId64, target->server);
		buf_addf(&unhealthy, " at port %" PRId64, target->failing_port);
		if (target->detail.len > 0)
			buf_addf(&unhealthy, ": %" STR_FMT, STR_ARG(str_head(target->detail, 100)));
		if (target->http_status != 0)
			buf_addf(&unhealthy, " (HTTP %" PRId64 ")", target->http_status);
	}
	if (n_described > 0 && lb->n_of_health[HZ_UNHEALTHY] > n_described)
		buf_addf(&unhealthy, "; and %zu more", lb->n_of_health[HZ_UNHEALTHY] - n_described);
	hz_health_add_blocked(&blocked, &lb->ipv4);
	hz_health_add_blocked(&blocked, &lb->ipv6);
	ret->has_health = true;
	ret->n_healthy = lb->n_of_health[HZ_HEALTHY];
	ret->n_unhealthy = lb->n_of_health[HZ_UNHEALTHY];
	ret->unhealthy = arena_str(arena, buf_str(&unhealthy));
	ret->blocked = arena_str(arena, buf_str(&blocked));
}
