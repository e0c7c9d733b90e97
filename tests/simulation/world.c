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
#define LEASE_VERSION 1000000        /* of an etcd that has only the Leases */
#define UNKNOWN_NS (40 * NS_PER_SEC) /* --node-monitor-grace-period */

enum {
	/* In one history of so many, Services ask for more than ports. The others keep their events
	 * if something is added: tests/simulation/defects names seeds. */
	EXTRA_SEEDS = 16,
};

struct world world;

static struct rng lives_random, cidr_random, end_random;

/* ---- machines ---- */

struct hetzner_server *
machine_server(const struct machine *m)
{
	if (!world.project)
		return NULL;
	return (struct hetzner_server *)hetzner_find(world.project, HETZNER_SERVER, m->server);
}

bool
machine_is_alive(const struct machine *m)
{
	return m->server && !m->is_silent && world.sim->is_running(m);
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

#define NODE_IP "alpha.kubernetes.io/provided-node-ip"

void
machine_announce_ip(const struct machine *m)
{
	const struct kube_model_object *node = machine_node(m);
	char patch[120];

	if (!node || !str_contains(node->json, STR(NODE_IP)) ||
	    str_contains(node->json, str_c(m->ip)))
		return;
	snprintf(patch, sizeof(patch), "{\"metadata\":{\"annotations\":{\"" NODE_IP "\":\"%s\"}}}",
	         m->ip);
	(void)kube_model_change(world.kube, "kubelet", node, patch);
}

bool
world_is_target(const struct machine *m)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	const struct kube_model_object *o = machine_node(m);

	return m->server && o &&
	       !json_key(json_at(object_json(&arena, o), "metadata.labels"), STR(EXCLUDED));
}

const struct kube_model_object *
world_lease(void)
{
	return kube_model_find(world.kube, KUBE_MODEL_LEASE, STR(LEASE_NAMESPACE), STR(LEASE_NAME));
}

struct str
world_holder(struct arena *arena)
{
	const struct kube_model_object *lease = world_lease();

	return lease ? json_text_at(arena, object_json(arena, lease), "spec.holderIdentity")
	             : STR_EMPTY;
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

	if (world.n_machines == world.max_machines)
		return;
	*m = (struct machine){ .is_joining = true };
	snprintf(m->name, sizeof(m->name), "m%u", world.n_names++);
	snprintf(m->ip, sizeof(m->ip), "10.0.1.%u", world.n_names);
	if (world.sim->add_machine(m))
		world.n_machines++;
}

/* The model writes members in a fixed order. */
static bool
is_ready(const struct kube_model_object *node)
{
	return str_contains(node->json, STR("{\"type\":\"Ready\",\"status\":\"True\""));
}

/* A disk may have been copied with the settings of another machine's kubelet. */
static const struct machine *
copied_from(const struct machine *m)
{
	const struct machine *other;

	if (!world.has_network || world.is_settling || !rng_chance(&cidr_random, 40))
		return NULL;
	other = &world.machines[rng_below(&cidr_random, world.n_machines)];
	return other != m && other->server ? other : NULL;
}

void
machine_join(struct machine *m)
{
	const struct hetzner_server *server = machine_server(m);
	struct kube_model_new_node wanted = { .name = str_c(m->name) };
	const struct machine *original = copied_from(m);

	if (world.network && server->n_networks > 0)
		wanted.ip = server->networks[0].ip;
	if (original) {
		trace("kubelet %s has the provider ID of %s", m->name, original->name);
		wanted.provider_id = str_c(original->provider_id);
	}
	m->copied_until_ns = original ? schedule_now_ns() +
	                                        rng_between(&cidr_random, 1, 6) * MINUTE_NS
	                              : 0;
	m->cidr_from_ns = 0;
	if (world.has_network && !world.is_settling && rng_chance(&cidr_random, 160))
		m->cidr_from_ns = schedule_now_ns() + rng_between(&cidr_random, 2, 12) * MINUTE_NS;
	(void)kube_model_add_node(world.kube, &wanted);
	m->is_joining = false;
}

/* Does the Node have the ID of a former server? Then people keep the kubelet from joining until the
 * Node is gone. */
static bool
is_former(const struct machine *m, const struct kube_model_object *node)
{
	char any[64], own[64];

	snprintf(any, sizeof(any), "\"%s", world.sim->prefix);
	snprintf(own, sizeof(own), "\"%s\"", m->provider_id);
	return node && m->copied_until_ns == 0 && str_contains(node->json, str_c(any)) &&
	       !str_contains(node->json, str_c(own));
}

static void
register_again(struct machine *m)
{
	(void)kube_model_delete(world.kube, "user", machine_node(m));
	m->is_joining = true;
}

static void
tick_machine(struct machine *m)
{
	const struct kube_model_object *node = machine_node(m);
	int64_t now_ns = schedule_now_ns();

	if (node && m->copied_until_ns > 0 && now_ns >= m->copied_until_ns) {
		register_again(m);
		return;
	}
	if (!m->server && node && now_ns < m->ghost_until_ns && !m->is_silent) {
		kube_model_renew_node(world.kube, str_c(m->name));
		m->heard_ns = now_ns;
		if (!m->is_leaving)
			(void)kube_model_set_ready(world.kube, str_c(m->name),
			                           rng_chance(&lives_random, 200) ? "True"
			                                                          : "False");
	} else if (machine_is_alive(m) && !node && m->is_joining) {
		machine_join(m);
		m->heard_ns = now_ns;
	} else if (machine_is_alive(m) && node && !is_former(m, node)) {
		kube_model_renew_node(world.kube, str_c(m->name));
		m->heard_ns = now_ns;
		if (now_ns < m->flaps_until_ns && is_ready(node))
			(void)kube_model_set_ready(world.kube, str_c(m->name), "False");
		else if (!is_ready(node))
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

/* The third number of the pod CIDR of another Node, whose server is sometimes missing from lists
 * just then. */
static unsigned
choose_victim(void)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	const struct machine *m = &world.machines[rng_below(&cidr_random, world.n_machines)];
	const struct kube_model_object *node = machine_node(m);
	bool is_unlisted = rng_chance(&cidr_random, 400);
	struct str cidr = STR_EMPTY, number, rest;
	int64_t ret = 0;

	if (node)
		cidr = json_text_at(&arena, object_json(&arena, node), "spec.podCIDR");
	if (!str_starts(cidr, STR(POD_NETWORK)) ||
	    !str_cut(str_skip(cidr, strlen(POD_NETWORK)), '.', &number, &rest) ||
	    !str_to_i64(number, 0, 255, &ret))
		return 0;
	if (is_unlisted && world.network && m->server)
		history_unlist(m, &cidr_random);
	return (unsigned)ret;
}

/* A kubelet may register its Node with any pod CIDR, or give it one later while it has none: all
 * addresses, those of somebody else's route, those of another Node, or some that overlap with
 * these.
 */
static bool
choose_pod_cidr(const struct machine *m, char *cidr, size_t size)
{
	static const char *const theirs[] = { "\"0.0.0.0/0\"", "\"10.99.0.0/24\"",
		                              "\"10.98.1.0/24\"" };
	static const char *const sizes[] = { "0/24",   "0/24", "0/24", "0/25",
		                             "128/25", "0/25", "0/23" };
	unsigned victim;

	if (world.is_settling || !rng_chance(&cidr_random, m->cidr_from_ns > 0 ? 800 : 80))
		return false;
	if (rng_chance(&cidr_random, 200)) {
		snprintf(cidr, size, "%s", theirs[rng_below(&cidr_random, ARRAY_LEN(theirs))]);
		return true;
	}
	victim = choose_victim();
	snprintf(cidr, size, "\"" POD_NETWORK "%u.%s\"", victim,
	         sizes[rng_below(&cidr_random, ARRAY_LEN(sizes) - victim % 2)]);
	return true;
}

/* As kube-controller-manager does, a Node gets the first network that no other one has. */
static void
give_pod_cidr(struct machine *m, const struct kube_model_object *node)
{
	char cidr[32], patch[120];

	if (str_contains(node->json, STR("\"podCIDR\"")) || schedule_now_ns() < m->cidr_from_ns)
		return;
	m->has_chosen_cidr = choose_pod_cidr(m, cidr, sizeof(cidr));
	for (unsigned i = 0; !m->has_chosen_cidr && i < 256; i++) {
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
	for (size_t i = 0; world.has_network && i < world.n_machines; i++) {
		if (machine_node(&world.machines[i]))
			give_pod_cidr(&world.machines[i], machine_node(&world.machines[i]));
	}
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
		if (world.sim->count_balancers(o) == 0 && !replica_at(0)->is_paused &&
		    !replica_at(1)->is_paused)
			(void)kube_model_remove_finalizer(world.kube, "other", o, FINALIZER);
	} else {
		(void)kube_model_add_finalizer(world.kube, "other", o, FINALIZER);
		if (!json_at(service, "status.loadBalancer.ingress"))
			serve_other(o);
	}
	kube_model_release(o);
}

void
world_run_other(void)
{
	net_advance(HOST_KUBE);
	for (size_t i = kube_model_count(world.kube, KUBE_MODEL_SERVICE); i-- > 0;)
		work_as_other(kube_model_at(world.kube, KUBE_MODEL_SERVICE, i));
	net_arm(HOST_KUBE);
}

static void
tick_other(void *arg)
{
	(void)arg;
	world_run_other();
	schedule_at(schedule_now_ns() + OTHER_NS, tick_other, NULL);
}

/* ---- the replicas ---- */

void
sim_argument(struct sim_start *start, const char *argument)
{
	start->arguments[start->n_arguments++] = argument;
}

void
sim_variable(struct sim_start *start, const char *name, const char *value)
{
	char *text = start->memory + start->n_memory;

	start->n_memory += (size_t)snprintf(text, sizeof(start->memory) - start->n_memory, "%s=%s",
	                                    name, value) +
	                   1;
	start->environment[start->n_variables++] = text;
}

void
world_start(struct replica *r, const char *command)
{
	static char kubeconfig[N_REPLICAS][200];
	static struct sim_start starts[N_REPLICAS];
	struct sim_start *start = &starts[r->index];

	*start = (struct sim_start){ 0 };
	snprintf(start->cloud, sizeof(start->cloud), "--cloud-provider=%s", world.sim->name);
	snprintf(kubeconfig[r->index], sizeof(kubeconfig[0]), "--kubeconfig=%s",
	         replica_kubeconfig(r));
	snprintf(start->retry, sizeof(start->retry), "--leader-elect-retry-period=%us",
	         world.retry_s);
	if (command)
		sim_argument(start, command);
	sim_argument(start, start->cloud);
	sim_argument(start, kubeconfig[r->index]);
	sim_argument(start, start->retry);
	sim_argument(start, "--secure-port=0");
	sim_argument(start, "--cluster-name=" CLUSTER);
	/* so the replicas leave the choice of certificates to OpenSSL: replica.c */
	sim_variable(start, "SSL_CERT_DIR", "/nonexistent");
	/* a command runs on the host of the leader, which is the other one */
	world.sim->configure(command ? replica_at(1 - r->index) : r, start);
	replica_set_environment(r, start->environment);
	replica_start(r, start->arguments);
}

void
world_resume(struct replica *r)
{
	if (!r->is_paused)
		return;
	election_resumed(r);
	replica_pause(r, false);
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
	for (unsigned i = 0; i < N_REPLICAS && !world.is_inspected; i++) {
		struct replica *r = replica_at(i);

		if (r->is_running) {
			world.lives[i].restart_ns = 0;
		} else if (world.lives[i].restart_ns == 0) {
			election_ended(r);
			world.lives[i].restart_ns = now_ns + rng_between(&lives_random, NS_PER_SEC,
			                                                 20 * NS_PER_SEC);
		} else if (world.lives[i].restart_ns <= now_ns) {
			world.lives[i].restart_ns = 0;
			world_start(r, NULL);
		}
	}
	schedule_at(now_ns + NS_PER_SEC, tick_replicas, NULL);
}

/* ---- the beginning ---- */

static void
on_arrived(const struct net_request *n)
{
	moments_arrived(n);
	checks_arrived(n);
}

static void
on_acted(const struct net_request *n, const struct server_response *r)
{
	checks_acted(n, r);
	evidence_acted(n, r);
	bounds_acted(n, r);
	history_acted(n);
	moments_acted(n);
}

/* Servers that nobody can reach yet, without machines. r NULL: without anything special. */
static struct server *
begin_servers(const struct sim_cloud *sim, uint64_t seed, struct rng *r, size_t max_machines,
              const struct net_hooks *hooks)
{
	schedule_start(seed);
	system_seed(seed);
	system_set_resolver(sim->resolve);
	net_start(seed, hooks);
	world = (struct world){ .seed = seed, .sim = sim, .max_machines = max_machines };
	world.machines = xcalloc(max_machines, sizeof(*world.machines));
	world.is_wild = r && rng_chance(r, 500);
	world.has_extras = r && seed % EXTRA_SEEDS == 5;
	lives_random = rng_of(seed, "lives", 0);
	cidr_random = rng_of(seed, "pod CIDR", 0);
	end_random = rng_of(seed, "end", 0);
	world.kube = kube_model_new(WALL_START_NS, seed);
	world.has_lease_etcd = r &&
	                       rng_chance(&(struct rng){ rng_of(seed, "leases", 0).state }, 150);
	if (world.has_lease_etcd)
		kube_model_separate_leases(world.kube, LEASE_VERSION);
	kube_model_add_token(world.kube, STR("kube-a"));
	kube_model_add_token(world.kube, STR("kube-b"));
	return sim->begin(seed, r);
}

static void
connect_servers(struct server *cloud)
{
	net_set_server(HOST_KUBE, kube_model_server(world.kube));
	if (cloud)
		net_set_server(HOST_CLOUD, cloud);
	net_set_latency(HOST_KUBE, NS_PER_MS, 10 * NS_PER_MS);
	net_set_latency(HOST_CLOUD, 10 * NS_PER_MS, 100 * NS_PER_MS);
}

void
world_begin(const struct sim_cloud *sim, uint64_t seed)
{
	struct rng r = rng_of(seed, "world", 0);
	unsigned yields = (unsigned[]){ 0, 20, 200 }[rng_below(&r, 3)];
	struct server *cloud = begin_servers(sim, seed, &r, MAX_MACHINES,
	                                     &(struct net_hooks){ .arrived = on_arrived,
	                                                          .acted = on_acted,
	                                                          .empty_list = sim->empty_list,
	                                                          .answer = commands_answer,
	                                                          .delivered = election_delivered,
	                                                          .sent = bounds_sent,
	                                                          .ended = bounds_ended });

	schedule_set_yields(yields);
	for (int64_t n = rng_between(&r, 3, 6); n > 0; n--)
		world_add_machine();
	connect_servers(cloud);
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
	connect_servers(begin_servers(&sim_hcloud, 1, NULL, max_machines, hooks));
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

/* A Node that was copied may also come from a backup. */
static bool
has_copied_id(const struct machine *m)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	int64_t number = world.sim->number_of(json_text_at(&arena,
	                                                   object_json(&arena, machine_node(m)),
	                                                   "spec.providerID"));

	return number > 0 && number != m->server && world.sim->has_server(number, str_c(m->name));
}

static void
settle_machine(struct machine *m)
{
	m->is_silent = false;
	m->is_joining = true;
	m->flaps_until_ns = clock_earlier(m->flaps_until_ns, schedule_now_ns());
	m->cidr_from_ns = 0;
	m->switched_ns = schedule_now_ns();
	if (m->server)
		world.sim->settle_machine(m);
	if (!machine_node(m))
		return;
	machine_announce_ip(m);
	node_set_taint(machine_node(m), AUTOSCALER_TAINT, false);
	(void)kube_model_remove_finalizer(world.kube, "other", machine_node(m), NODE_FINALIZER);
	if (machine_node(m) && (m->has_chosen_cidr || (world.has_network && has_copied_id(m))))
		register_again(m);
}

/* The balancer of another Service may have the name for which this one asks. */
static bool
asks_for_another_name(const struct kube_model_object *o)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	yyjson_val *annotations = json_at(object_json(&arena, o), "metadata.annotations");
	struct str name = json_text(json_key(annotations, STR(NAME_ANNOTATION)));

	return name.len > 0 &&
	       !str_eq(str_skip(name, strlen("named-")), str_skip(o->name, strlen("s")));
}

/* A machine and its Node, as the cluster autoscaler does. */
static void
remove_machine(void)
{
	struct machine *m = &world.machines[rng_below(&end_random, world.n_machines)];

	if (m == &world.machines[0] || !m->server || !machine_node(m))
		return;
	trace("machine %s and its Node are deleted", m->name);
	world.sim->delete_machine(m);
	m->server = 0;
	(void)kube_model_delete(world.kube, "autoscaler", machine_node(m));
}

/* A person removes a Service together with its finalizers. */
static void
remove_service(void)
{
	size_t n = kube_model_count(world.kube, KUBE_MODEL_SERVICE);
	const struct kube_model_object *o;

	if (n == 0 || !world.project || !election_old_leader()[0] || world.was_restored)
		return;
	o = kube_model_at(world.kube, KUBE_MODEL_SERVICE, rng_below(&end_random, n));
	/* a leader that has not made the balancer forgets it with the Service */
	if (world.sim->count_balancers(o) == 0 || str_contains(o->json, STR("deletionTimestamp")))
		return;
	trace("a person removes service %" STR_FMT " and its finalizers", STR_ARG(o->name));
	snprintf(world.vanished_uid, sizeof(world.vanished_uid), "%" STR_FMT, STR_ARG(o->uid));
	kube_model_hold(o);
	(void)kube_model_change(world.kube, "user", o, "{\"metadata\":{\"finalizers\":null}}");
	if (kube_model_find(world.kube, KUBE_MODEL_SERVICE, STR("default"), o->name))
		(void)kube_model_delete(world.kube, "user",
		                        kube_model_find(world.kube, KUBE_MODEL_SERVICE,
		                                        STR("default"), o->name));
	kube_model_release(o);
}

/* A change of each Service that wants a balancer makes ccmd look at it, because a person may have
 * changed it. In half of the histories another program keeps what it holds. */
static void
settle_services(void)
{
	struct rng r = rng_of(world.seed, "holds", 0);
	bool is_released = rng_chance(&r, 500);
	char patch[200];

	for (size_t i = kube_model_count(world.kube, KUBE_MODEL_SERVICE); i-- > 0;) {
		const struct kube_model_object *o = kube_model_at(world.kube, KUBE_MODEL_SERVICE,
		                                                  i);

		if (is_released)
			(void)kube_model_remove_finalizer(world.kube, "other", o,
			                                  FOREIGN_FINALIZER);
		if (asks_for_another_name(o))
			(void)kube_model_delete(world.kube, "user", o);
	}
	snprintf(
		patch, sizeof(patch),
		"{\"metadata\":{\"annotations\":{\"a\":\"settled\",\"%s\":\"%s\",\"" TYPE_ANNOTATION
		"\":null}}}",
		world.sim->algorithm_key, world.sim->algorithms[1]);
	for (size_t i = 0; i < kube_model_count(world.kube, KUBE_MODEL_SERVICE); i++) {
		CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
		const struct kube_model_object *o;
		yyjson_val *service;

		if (world.has_extras)
			extras_remove(kube_model_at(world.kube, KUBE_MODEL_SERVICE, i));
		o = kube_model_at(world.kube, KUBE_MODEL_SERVICE, i);
		service = object_json(&arena, o);
		if (service_is_ours(service) && !json_at(service, "metadata.deletionTimestamp"))
			(void)kube_model_change(world.kube, "user", o, patch);
	}
}

/* Sometimes the API server restarts at the same time: what changes then, no watch reports. */
void
world_settle(void)
{
	bool is_restarting = rng_chance(&end_random, 400);

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
		world_resume(replica_at(i));
		replica_at(i)->wall_shift_ns = 0;
	}
	kube_model_release_cache(world.kube);
	if (is_restarting)
		kube_model_restart(world.kube);
	history_end();
	world.sim->set_account(ACCOUNT_OWN);
	world.sim->settle();
	for (size_t i = 0; i < world.n_machines; i++)
		settle_machine(&world.machines[i]);
	if (is_restarting) {
		remove_machine();
		remove_service();
	}
	history_settle();
	settle_services();
	if (is_restarting)
		kube_model_restart(world.kube);
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
