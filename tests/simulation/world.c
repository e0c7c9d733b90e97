/* tests/simulation/world.c: the beginning and the end of a world, and who acts by himself; see
 * world.h. */
#include "world.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "system.h"

#define HEARTBEAT_NS (10 * NS_PER_SEC)
#define OTHER_NS (20 * NS_PER_SEC)
#define UNKNOWN_NS (40 * NS_PER_SEC) /* --node-monitor-grace-period */

struct world world;

static const char *const own_tokens[N_REPLICAS] = { "hcloud-a", "hcloud-b" };
static const char *const other_tokens[N_REPLICAS] = { "hcloud-other-a", "hcloud-other-b" };
static struct rng lives_random, cidr_random;

/* ---- machines ---- */

struct hetzner_server *
machine_server(const struct machine *m)
{
	return (struct hetzner_server *)hetzner_find(world.project, HETZNER_SERVER, m->server);
}

bool
machine_is_alive(const struct machine *m)
{
	const struct hetzner_server *server = machine_server(m);

	return server && !m->is_silent && str_eq_c(server->status, "running");
}

const struct kube_model_object *
machine_node(const struct machine *m)
{
	return kube_model_find(world.kube, KUBE_MODEL_NODE, STR_EMPTY, str_c(m->name));
}

void
machine_attach(struct machine *m)
{
	struct hetzner_server *server = machine_server(m);

	if (server && world.network && server->n_networks == 0)
		(void)hetzner_attach(world.cloud, world.project, server, world.network,
		                     str_c(m->ip));
}

void
node_set_taint(const struct kube_model_object *node, const char *key, bool is_wanted)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(buf_fini) struct buf patch = BUF_INIT(10000);
	yyjson_val *taints = json_at(object_json(&arena, node), "spec.taints"), *one;
	yyjson_arr_iter iter = yyjson_arr_iter_with(taints);

	buf_add_c(&patch, "{\"spec\":{\"taints\":[");
	while ((one = yyjson_arr_iter_next(&iter))) {
		if (str_eq_c(json_text_at(&arena, one, "key"), key))
			continue;
		buf_add_c(&patch, patch.ptr[patch.len - 1] == '[' ? "" : ",");
		json_add_value(&patch, one);
	}
	if (is_wanted)
		buf_addf(&patch, "%s{\"key\":\"%s\",\"effect\":\"NoSchedule\"}",
		         patch.ptr[patch.len - 1] == '[' ? "" : ",", key);
	buf_add_c(&patch, "]}}");
	(void)kube_model_change(world.kube, "user", node, patch.ptr);
}

void
world_add_machine(void)
{
	struct machine *m = &world.machines[world.n_machines];
	struct hetzner_new_server wanted = { .network = world.network };
	const struct hetzner_server *server;

	if (world.n_machines == world.max_machines)
		return;
	*m = (struct machine){ .is_joining = true };
	snprintf(m->name, sizeof(m->name), "m%u", world.n_names++);
	snprintf(m->ip, sizeof(m->ip), "10.0.1.%u", world.n_names);
	wanted.name = str_c(m->name);
	if (world.network)
		wanted.private_ip = str_c(m->ip);
	server = hetzner_add_server(world.cloud, world.project, &wanted);
	if (!server)
		return;
	m->server = server->base.id;
	world.n_machines++;
}

/* The model writes members in a fixed order. */
static bool
is_ready(const struct kube_model_object *node)
{
	return str_contains(node->json, STR("{\"type\":\"Ready\",\"status\":\"True\""));
}

void
machine_join(struct machine *m)
{
	const struct hetzner_server *server = machine_server(m);
	struct kube_model_new_node wanted = { .name = str_c(m->name) };

	if (world.network && server->n_networks > 0)
		wanted.ip = server->networks[0].ip;
	(void)kube_model_add_node(world.kube, &wanted);
	m->is_joining = false;
}

/* Does the Node have the ID of a former server? Then people keep the kubelet from joining until the
 * Node is gone. */
static bool
is_former(const struct machine *m, const struct kube_model_object *node)
{
	char own[64];

	snprintf(own, sizeof(own), "\"hcloud://%lld\"", (long long)m->server);
	return node && str_contains(node->json, STR("\"hcloud://")) &&
	       !str_contains(node->json, str_c(own));
}

static void
tick_machine(struct machine *m)
{
	const struct kube_model_object *node = machine_node(m);
	int64_t now_ns = schedule_now_ns();

	if (machine_is_alive(m) && !node && m->is_joining) {
		machine_join(m);
		m->heard_ns = now_ns;
	} else if (machine_is_alive(m) && node && !is_former(m, node)) {
		kube_model_renew_node(world.kube, str_c(m->name));
		m->heard_ns = now_ns;
		if (!is_ready(node))
			(void)kube_model_set_ready(world.kube, str_c(m->name), "True");
	} else if (node && now_ns - m->heard_ns > UNKNOWN_NS && is_ready(node)) {
		(void)kube_model_set_ready(world.kube, str_c(m->name), "Unknown");
	}
}

/* ---- pod networks ---- */

static bool
is_cidr_used(const char *cidr)
{
	for (size_t i = 0; i < kube_model_count(world.kube, KUBE_MODEL_NODE); i++) {
		if (str_contains(kube_model_at(world.kube, KUBE_MODEL_NODE, i)->json, str_c(cidr)))
			return true;
	}
	return false;
}

/* A kubelet may register its Node with any pod CIDR: all addresses, those of somebody else's
 * route, or those of another Node. */
static bool
choose_pod_cidr(char *cidr, size_t size)
{
	static const char *const theirs[] = { "\"0.0.0.0/0\"", "\"10.99.0.0/24\"",
		                              "\"10.98.1.0/24\"" };

	if (!rng_chance(&cidr_random, 60))
		return false;
	if (rng_chance(&cidr_random, 500))
		snprintf(cidr, size, "%s", theirs[rng_below(&cidr_random, ARRAY_LEN(theirs))]);
	else
		snprintf(cidr, size, "\"" POD_NETWORK "%u.0/24\"",
		         (unsigned)rng_below(&cidr_random, world.n_machines));
	return true;
}

/* As kube-controller-manager does, a Node gets the first network that no other one has. */
static void
give_pod_cidr(const struct kube_model_object *node)
{
	char cidr[32], patch[120];
	bool is_chosen;

	if (!world.has_network || str_contains(node->json, STR("\"podCIDR\"")))
		return;
	is_chosen = choose_pod_cidr(cidr, sizeof(cidr));
	for (unsigned i = 0; !is_chosen && i < 256; i++) {
		snprintf(cidr, sizeof(cidr), "\"" POD_NETWORK "%u.0/24\"", i);
		if (!is_cidr_used(cidr))
			break;
	}
	snprintf(patch, sizeof(patch), "{\"spec\":{\"podCIDR\":%s,\"podCIDRs\":[%s]}}", cidr, cidr);
	trace("node %" STR_FMT " gets %s", STR_ARG(node->name), cidr);
	(void)kube_model_change(world.kube, "ipam", node, patch);
}

static void
tick_kubelets(void *arg)
{
	(void)arg;
	net_advance(HOST_KUBE);
	for (size_t i = 0; i < world.n_machines; i++)
		tick_machine(&world.machines[i]);
	for (size_t i = 0; i < kube_model_count(world.kube, KUBE_MODEL_NODE); i++)
		give_pod_cidr(kube_model_at(world.kube, KUBE_MODEL_NODE, i));
	net_arm(HOST_KUBE);
	schedule_at(schedule_now_ns() + HEARTBEAT_NS, tick_kubelets, NULL);
}

/* ---- the controller of the other class ---- */

static void
serve_other(const struct kube_model_object *o)
{
	char target[100];

	snprintf(target, sizeof(target), "/api/v1/namespaces/default/services/%" STR_FMT "/status",
	         STR_ARG(o->name));
	(void)kube_model_request(world.kube,
	                         &(struct kube_model_request){
					 .user_agent = "other",
					 .method = "PATCH",
					 .target = target,
					 .body = STR("{\"status\":{\"loadBalancer\":{\"ingress\":"
	                                             "[{\"ip\":\"192.0.2.200\"}]}}}") },
	                         NULL);
}

/* A Service of its class that gets another type loses its finalizer, too.
 * It removes the finalizer that it shares with ccmd only when ccmd's balancer is gone, and no
 * process is stopped that may be about to create one: a controller that does not know of the other
 * may leave the balancer behind (docs/testing.md). */
static void
work_as_other(const struct kube_model_object *o)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	yyjson_val *service = object_json(&arena, o);

	bool has_class = json_at(service, "spec.loadBalancerClass") != NULL;

	if (!has_class && (service_is_ours(service) || !checks_is_finalizer_theirs(o->uid)))
		return;
	kube_model_hold(o);
	if (!has_class || json_at(service, "metadata.deletionTimestamp")) {
		if (checks_count_balancers(o->uid) == 0 && !replica_at(0)->is_paused &&
		    !replica_at(1)->is_paused)
			(void)kube_model_remove_finalizer(world.kube, "other", o, FINALIZER);
	} else {
		(void)kube_model_add_finalizer(world.kube, "other", o, FINALIZER);
		if (!json_at(service, "status.loadBalancer.ingress"))
			serve_other(o);
	}
	kube_model_release(o);
}

static void
tick_other(void *arg)
{
	(void)arg;
	net_advance(HOST_KUBE);
	for (size_t i = kube_model_count(world.kube, KUBE_MODEL_SERVICE); i-- > 0;)
		work_as_other(kube_model_at(world.kube, KUBE_MODEL_SERVICE, i));
	net_arm(HOST_KUBE);
	schedule_at(schedule_now_ns() + OTHER_NS, tick_other, NULL);
}

/* ---- the replicas ---- */

static void
start_replica(struct replica *r)
{
	/* with SSL_CERT_DIR the replicas leave the choice of certificates to OpenSSL: replica.c */
	static char token_files[N_REPLICAS][200];
	static const char *environments[N_REPLICAS][8];
	const char **environment = environments[r->index];
	char kubeconfig[200], retry[60];
	const char *const arguments[] = { "--cloud-provider=hcloud",
		                          kubeconfig,
		                          retry,
		                          "--secure-port=0",
		                          "--cluster-name=ours",
		                          world.has_network ? "--allocate-node-cidrs=true" : NULL,
		                          ("--cluster-cidr=" POD_NETWORK "0.0/16"),
		                          NULL };

	snprintf(kubeconfig, sizeof(kubeconfig), "--kubeconfig=%s", replica_kubeconfig(r));
	snprintf(retry, sizeof(retry), "--leader-elect-retry-period=%us", world.retry_s);
	snprintf(token_files[r->index], sizeof(token_files[0]), "HCLOUD_TOKEN_FILE=%s",
	         replica_token_file(r));
	environment[0] = token_files[r->index];
	environment[1] = "HCLOUD_ENDPOINT=http://192.0.2.2/v1";
	environment[2] = "HCLOUD_METRICS_ENABLED=false";
	environment[3] = "HCLOUD_LOAD_BALANCERS_LOCATION=fsn1";
	environment[4] = "SSL_CERT_DIR=/nonexistent";
	environment[5] = world.has_network ? "HCLOUD_NETWORK=net" : NULL;
	environment[6] = "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK=true";
	replica_set_environment(r, environment);
	replica_start(r, arguments);
}

void
world_restart_replicas(void)
{
	for (unsigned i = 0; i < N_REPLICAS; i++) {
		struct replica *r = replica_at(i);

		if (r->is_running && r->is_paused)
			replica_crash(r);
		else if (r->is_running)
			replica_signal(r, SIGTERM);
	}
}

/* A replica that has ended is started again after a while, as by the kubelet. */
static void
tick_replicas(void *arg)
{
	int64_t now_ns = schedule_now_ns();

	(void)arg;
	for (unsigned i = 0; i < N_REPLICAS; i++) {
		struct replica *r = replica_at(i);

		if (r->is_running) {
			world.lives[i].restart_ns = 0;
		} else if (world.lives[i].restart_ns == 0) {
			world.lives[i].restart_ns = now_ns + rng_between(&lives_random, NS_PER_SEC,
			                                                 20 * NS_PER_SEC);
		} else if (world.lives[i].restart_ns <= now_ns) {
			world.lives[i].restart_ns = 0;
			start_replica(r);
		}
	}
	schedule_at(now_ns + NS_PER_SEC, tick_replicas, NULL);
}

void
world_ask_cloud_about_route(const char *verb, const char *route)
{
	char target[100];

	snprintf(target, sizeof(target), "/networks/%lld/actions/%s",
	         (long long)world.network->base.id, verb);
	trace("a person sends %s %s = %d", target, route,
	      hetzner_request(world.cloud, world.project, "person", "POST", target, str_c(route)));
}

void
world_add_network(void)
{
	world.network = hetzner_add_network(world.cloud, world.project, STR("net"),
	                                    STR("10.0.0.0/8"), STR("10.0.0.0/16"));
	world_ask_cloud_about_route("add_route", FOREIGN_ROUTE);
	for (size_t i = 0; i < world.n_machines; i++)
		machine_attach(&world.machines[i]);
}

void
world_set_account(struct hetzner_project *project)
{
	for (unsigned i = 0; i < N_REPLICAS; i++) {
		hetzner_revoke_token(world.cloud, str_c(own_tokens[i]));
		if (project)
			hetzner_add_token(world.cloud, world.project, str_c(own_tokens[i]), true);
		replica_write_token(replica_at(i),
		                    project == world.other ? other_tokens[i] : own_tokens[i]);
	}
}

bool
world_is_own_token(struct str token)
{
	return str_eq_c(token, own_tokens[0]) || str_eq_c(token, own_tokens[1]);
}

/* ---- the beginning ---- */

static void
on_acted(const struct net_request *n, const struct server_response *r)
{
	checks_acted(n, r);
	evidence_acted(n, r);
	bounds_acted(n, r);
	history_acted(n);
}

/* Servers that nobody can reach yet, and projects without machines. */
static void
begin_servers(uint64_t seed, size_t max_machines, const struct net_hooks *hooks)
{
	schedule_start(seed);
	system_seed(seed);
	net_start(seed, hooks);
	world = (struct world){ .seed = seed, .max_machines = max_machines };
	world.machines = xcalloc(max_machines, sizeof(*world.machines));
	lives_random = rng_of(seed, "lives", 0);
	cidr_random = rng_of(seed, "pod CIDR", 0);
	world.kube = kube_model_new(WALL_START_NS, seed);
	kube_model_add_token(world.kube, STR("kube-a"));
	kube_model_add_token(world.kube, STR("kube-b"));
	world.cloud = hetzner_new(WALL_START_NS, seed);
	world.project = hetzner_add_project(world.cloud, STR("person"));
	world.other = hetzner_add_project(world.cloud, STR("stranger"));
	world.other->max_balancers = 0;
	for (unsigned i = 0; i < N_REPLICAS; i++)
		hetzner_add_token(world.cloud, world.other, str_c(other_tokens[i]), true);
	world_set_account(world.project);
	hetzner_settings(world.cloud)->action_min_ns = 100 * NS_PER_MS;
	hetzner_settings(world.cloud)->action_max_ns = 2 * NS_PER_SEC;
}

static void
connect_servers(void)
{
	net_set_server(HOST_KUBE, kube_model_server(world.kube));
	net_set_server(HOST_CLOUD, hetzner_server(world.cloud));
	net_set_latency(HOST_KUBE, NS_PER_MS, 10 * NS_PER_MS);
	net_set_latency(HOST_CLOUD, 10 * NS_PER_MS, 100 * NS_PER_MS);
}

void
world_begin(uint64_t seed)
{
	struct rng r = rng_of(seed, "world", 0);
	unsigned yields = (unsigned[]){ 0, 20, 200 }[rng_below(&r, 3)];
	struct hetzner_settings *settings;

	begin_servers(seed, MAX_MACHINES, &(struct net_hooks){ checks_arrived, on_acted });
	schedule_set_yields(yields);
	world.is_wild = rng_chance(&r, 500);
	settings = hetzner_settings(world.cloud);
	if (!rng_chance(&r, 700))
		settings->action_max_ns = 20 * NS_PER_SEC;
	settings->deletes_without_action = rng_chance(&r, 300);
	if (rng_chance(&r, 250))
		settings->per_page_max = 4;
	world.has_network = rng_chance(&r, 400);
	if (world.has_network)
		world_add_network();
	(void)hetzner_add_primary_ip(world.cloud, world.project, STR("foreign"), false, NULL);
	for (int64_t n = rng_between(&r, 3, 6); n > 0; n--)
		world_add_machine();
	connect_servers();
	/* The Lease makes most of the requests. With the longer period a replica takes over as
	 * late, because the Lease lasts as long, but has fewer attempts to renew it. */
	world.retry_s = rng_chance(&r, 300) ? 2 : 5;
	checks_begin();
	tick_kubelets(NULL);
	tick_replicas(NULL);
	tick_other(NULL);
}

void
world_begin_calm(size_t max_machines, const struct net_hooks *hooks)
{
	begin_servers(1, max_machines, hooks);
	connect_servers();
	world.retry_s = 2;
	tick_replicas(NULL);
}

void
world_run_actors(void)
{
	tick_kubelets(NULL);
	tick_other(NULL);
}

/* ---- the end of faults ---- */

static void
settle_machine(struct machine *m)
{
	struct hetzner_server *server = machine_server(m);

	m->is_silent = false;
	m->is_joining = true;
	if (server && !str_eq_c(server->status, "running"))
		hetzner_set_status(world.cloud, world.project, server, "running");
	if (server && !str_eq_c(server->base.name, m->name))
		hetzner_rename_server(world.cloud, world.project, server, str_c(m->name));
	machine_attach(m);
	if (machine_node(m))
		node_set_taint(machine_node(m), AUTOSCALER_TAINT, false);
}

/* A change of each Service makes ccmd look at its balancer, which a person may have changed. */
static void
settle_services(void)
{
	for (size_t i = kube_model_count(world.kube, KUBE_MODEL_SERVICE); i-- > 0;) {
		const struct kube_model_object *o = kube_model_at(world.kube, KUBE_MODEL_SERVICE,
		                                                  i);

		(void)kube_model_remove_finalizer(world.kube, "other", o, "example.com/foreign");
	}
	for (size_t i = 0; i < kube_model_count(world.kube, KUBE_MODEL_SERVICE); i++)
		(void)kube_model_change(
			world.kube, "user", kube_model_at(world.kube, KUBE_MODEL_SERVICE, i),
			"{\"metadata\":{\"annotations\":{\"a\":\"settled\","
			"\"load-balancer.hetzner.cloud/algorithm-type\":\"round_robin\"}}}");
}

/* Those that stand in the way of a Service. */
static void
delete_balancers_of_others(void)
{
	for (size_t i = world.project->n_of[HETZNER_BALANCER]; i-- > 0;) {
		const struct hetzner_resource *lb = world.project->of[HETZNER_BALANCER][i];
		char target[100];

		if (!str_eq_c(hetzner_label(lb, CLUSTER_LABEL), OTHER_CLUSTER))
			continue;
		snprintf(target, sizeof(target), "/load_balancers/%lld", (long long)lb->id);
		(void)hetzner_request(world.cloud, world.project, "person", "DELETE", target,
		                      STR_EMPTY);
	}
}

void
world_settle(void)
{
	trace("faults end");
	world.is_settling = true;
	net_advance(HOST_KUBE);
	net_advance(HOST_CLOUD);
	for (unsigned host = 0; host < N_HOSTS; host++) {
		*net_faults(host) = (struct net_faults){ 0 };
		for (unsigned i = 0; i < N_REPLICAS; i++)
			net_partition(replica_at(i), host, false);
	}
	for (unsigned i = 0; i < N_REPLICAS; i++) {
		if (replica_at(i)->is_paused)
			replica_pause(replica_at(i), false);
		replica_at(i)->wall_shift_ns = 0;
	}
	kube_model_release_cache(world.kube);
	world_set_account(world.project);
	hetzner_forget_dooms(world.project);
	hetzner_release(world.cloud, world.project);
	delete_balancers_of_others();
	hetzner_settings(world.cloud)->targets_outlive_servers = false;
	hetzner_drop_dead_targets(world.cloud, world.project);
	if (world.has_network && !world.network) {
		world_add_network();
		world_restart_replicas();
	}
	for (size_t i = 0; i < world.n_machines; i++)
		settle_machine(&world.machines[i]);
	settle_services();
	net_arm(HOST_KUBE);
	net_arm(HOST_CLOUD);
}

/* ---- reading objects ---- */

yyjson_val *
object_json(struct arena *arena, const struct kube_model_object *o)
{
	char *copy = arena_strz(arena, o->json);
	size_t room = yyjson_read_max_memory_usage(o->json.len, 0);
	yyjson_alc alc;

	yyjson_alc_pool_init(&alc, arena_alloc(arena, room), room);
	return yyjson_doc_get_root(yyjson_read_opts(copy, o->json.len, 0, &alc, NULL));
}

bool
service_is_ours(yyjson_val *service)
{
	struct str type = STR_EMPTY;

	(void)json_str(service, "spec.type", &type);
	return str_eq_c(type, "LoadBalancer") && !json_at(service, "spec.loadBalancerClass");
}

bool
list_has_text(yyjson_val *list, struct str text)
{
	yyjson_arr_iter iter = yyjson_arr_iter_with(list);
	yyjson_val *one;

	while ((one = yyjson_arr_iter_next(&iter))) {
		if (yyjson_is_str(one) && str_eq(json_text(one), text))
			return true;
	}
	return false;
}
