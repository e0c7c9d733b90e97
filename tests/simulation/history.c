/* tests/simulation/history.c: the events of a history.
 *
 * The seed chooses when each event happens, which one, and to what. An event draws its random
 * numbers from a sequence of its own, so the others stay as they are when one is dropped. One that
 * does not apply (a Service is to be changed, and there is none) does nothing. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "world.h"

enum {
	N_EVENTS = 220,
	MAX_LATER = 400,
	LEAST_LOST = 150, /* versions: last_backup */
};

/* ---- choosing ---- */

static struct machine *
any_machine(struct rng *r)
{
	return world.n_machines > 0 ? &world.machines[rng_below(r, world.n_machines)] : NULL;
}

/* A machine whose server exists; NULL: the one chosen has none. */
static struct machine *
any_server(struct rng *r)
{
	struct machine *m = any_machine(r);

	return m && m->server ? m : NULL;
}

/* The first machine stays, and so does its Node: without a witness no Node is ever deleted
 * (docs/deletion.md). */
static bool
may_go(const struct machine *m)
{
	return m && m != &world.machines[0];
}

static const struct kube_model_object *
any_service(struct rng *r)
{
	size_t n = kube_model_count(world.kube, KUBE_MODEL_SERVICE);

	return n > 0 ? kube_model_at(world.kube, KUBE_MODEL_SERVICE, rng_below(r, n)) : NULL;
}

static struct hetzner_balancer *
any_balancer(struct rng *r)
{
	size_t n = world.project->n_of[HETZNER_BALANCER];

	return n > 0 ? HETZNER_BALANCER_AT(world.project, rng_below(r, n)) : NULL;
}

static struct replica *
any_replica(struct rng *r)
{
	return replica_at((unsigned)rng_below(r, N_REPLICAS));
}

/* ---- what ends later by itself ---- */

struct later {
	void (*fn)(struct later *);
	struct replica *replica;
	enum host host;
	struct machine *machine;
	char name[24]; /* of a Service */
	struct kube_model_backup *backup;
	struct rng random;
};

static void
run_later(void *arg)
{
	struct later *later = arg;

	if (!world.is_settling)
		later->fn(later);
}

static void
after(int64_t ns, struct later later)
{
	static struct later all[MAX_LATER];
	static size_t n;

	if (n == MAX_LATER)
		return;
	all[n] = later;
	schedule_at(schedule_now_ns() + ns, run_later, &all[n++]);
}

/* A leader that crashes leaves work to the next one, which has not seen the change. */
static void
crash_leader(void)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct str holder = world_holder(&arena);

	for (unsigned i = 0; i < N_REPLICAS; i++) {
		struct replica *one = replica_at(i);

		if (one->is_running && str_starts(holder, str_c(i == 0 ? "a_" : "b_")))
			replica_crash(one);
	}
}

/* ---- machines and nodes ---- */

static void
add_machine(struct rng *r)
{
	(void)r;
	world_add_machine();
}

static void
read_leases_again(struct later *later)
{
	(void)later;
	trace("the Leases of kubelets can be read");
	net_faults(HOST_KUBE)->broken = NULL;
}

static void
break_leases(struct later *later)
{
	if (net_faults(HOST_KUBE)->broken)
		return;
	trace("the Leases of kubelets cannot be read");
	net_faults(HOST_KUBE)->broken = "/kube-node-lease/leases/";
	after(rng_between(&later->random, 20, 90) * NS_PER_SEC,
	      (struct later){ .fn = read_leases_again });
}

/* The kubelet shuts down: it reports that the Node is not ready, and from then on only renews its
 * Lease. */
static void
begin_shutdown(struct machine *m, struct rng *r)
{
	if (m->is_silent || !machine_node(m))
		return;
	trace("kubelet %s shuts down", m->name);
	m->is_leaving = true;
	(void)kube_model_set_ready(world.kube, str_c(m->name), "False");
	if (rng_chance(r, 500))
		after(rng_between(r, 0, 30) * NS_PER_SEC,
		      (struct later){ .fn = break_leases, .random = *r });
}

static void
delete_machine(struct rng *r)
{
	struct machine *m = any_server(r);

	if (!may_go(m))
		return;
	trace("machine %s is deleted", m->name);
	world.sim->delete_machine(m);
	m->server = 0;
	m->is_leaving = false;
	if (!rng_chance(r, 400))
		return;
	m->ghost_until_ns = schedule_now_ns() + rng_between(r, 20 * NS_PER_SEC, 200 * NS_PER_SEC);
	if (rng_chance(r, 500))
		begin_shutdown(m, r);
}

static void
list_again(struct later *later)
{
	(void)later;
	trace("the list of servers is complete");
	foreign_note_incomplete();
	hetzner_settings(world.cloud)->unlisted_server = 0;
}

void
history_unlist(const struct machine *m, struct rng *r)
{
	trace("machine %s is missing from the list of servers", m->name);
	hetzner_settings(world.cloud)->unlisted_server = m->server;
	after(rng_between(r, 5, 120) * NS_PER_SEC, (struct later){ .fn = list_again });
}

static void
unlist_machine(struct rng *r)
{
	struct machine *m = any_server(r);

	if (m)
		history_unlist(m, r);
}

static void
start_kubelet(struct later *later)
{
	later->machine->is_silent = false;
	later->machine->is_joining = true;
	trace("kubelet %s starts", later->machine->name);
}

/* An outage of a part of the cloud: several kubelets cannot reach the API server. Meanwhile one of
 * the machines may be missing from the list. */
static void
silence_kubelets(struct rng *r)
{
	struct machine *m = NULL;
	int64_t for_ns = rng_between(r, 60, 300) * NS_PER_SEC;

	for (int64_t n = rng_between(r, 2, 4); n > 0; n--) {
		m = any_server(r);
		if (!m || m->is_silent)
			continue;
		m->is_silent = true;
		trace("kubelet %s stops", m->name);
		after(for_ns, (struct later){ .fn = start_kubelet, .machine = m });
	}
	if (!m || !world.cloud || !rng_chance(r, 600))
		return;
	trace("machine %s is missing from the list of servers", m->name);
	hetzner_settings(world.cloud)->unlisted_server = m->server;
	after(for_ns, (struct later){ .fn = list_again });
}

static void
rename_machine(struct rng *r)
{
	struct machine *m = any_server(r);

	if (!m)
		return;
	trace("machine %s is renamed", m->name);
	world.sim->rename_machine(m);
}

static void
switch_machine(struct rng *r)
{
	struct machine *m = any_server(r);

	if (!m)
		return;
	m->switched_ns = schedule_now_ns();
	trace("machine %s is %s", m->name, world.sim->switch_machine(m));
}

static void
delete_old_node(struct later *later)
{
	struct machine *m = later->machine;

	if (!machine_node(m))
		return;
	trace("a user deletes node %s", m->name);
	net_advance(HOST_KUBE);
	(void)kube_model_delete(world.kube, "user", machine_node(m));
	net_arm(HOST_KUBE);
}

/* In half of the cases a person deletes the Node, at about the time when ccmd has its proof. */
static void
rebuild_machine(struct rng *r)
{
	struct machine *m = any_server(r);

	if (!may_go(m) || !world.sim->rebuild_machine(m))
		return;
	m->is_joining = true;
	trace("machine %s is rebuilt as %lld", m->name, (long long)m->server);
	if (rng_chance(r, 500))
		after(rng_between(r, 40, 80) * NS_PER_SEC,
		      (struct later){ .fn = delete_old_node, .machine = m });
}

static void
switch_kubelet(struct rng *r)
{
	struct machine *m = any_server(r);

	if (!m)
		return;
	m->is_silent = !m->is_silent;
	m->is_joining = true;
	trace("kubelet %s %s", m->name, m->is_silent ? "stops" : "starts");
}

static void
flap_kubelet(struct rng *r)
{
	struct machine *m = any_server(r);

	if (!m)
		return;
	trace("kubelet %s is ready and not ready by turns", m->name);
	m->flaps_until_ns = schedule_now_ns() + rng_between(r, 5, 20) * MINUTE_NS;
}

/* Kubelets that have other names than their servers: the cloud does not find the servers. */
static void
add_misnamed_machines(struct rng *r)
{
	for (int64_t n = rng_between(r, 2, 4); n > 0; n--) {
		size_t n_before = world.n_machines;

		world_add_machine();
		if (world.n_machines > n_before)
			world.sim->rename_machine(&world.machines[n_before]);
	}
	trace("machines join, and their servers have other names");
}

static void
delete_node(struct rng *r)
{
	struct machine *m = any_machine(r);

	if (!may_go(m) || !machine_node(m))
		return;
	trace("a user deletes node %s", m->name);
	(void)kube_model_delete(world.kube, "user", machine_node(m));
	m->is_joining = true;
}

static void
return_machine(struct later *later)
{
	trace("machine %s is in service again", later->machine->name);
	later->machine->is_silent = false;
	later->machine->is_joining = true;
}

/* A person takes 4 to 6 machines out of service together, and deletes their Nodes: that is more
 * than ccmd believes at once (src/controllers/route/route_plan.h). They return later, unless they
 * were deleted. Does nothing if there are not so many. */
static void
stop_machines(struct rng *r, bool is_deleted)
{
	struct machine *chosen[MAX_MACHINES];
	size_t n = 0, n_wanted = (size_t)rng_between(r, 4, 6);

	for (size_t i = world.n_machines; i-- > 1 && n < n_wanted;) {
		if (world.machines[i].server && machine_node(&world.machines[i]))
			chosen[n++] = &world.machines[i];
	}
	for (size_t i = 0; n == n_wanted && i < n; i++) {
		struct machine *m = chosen[i];

		trace("machine %s is taken out of service", m->name);
		m->is_silent = true;
		(void)kube_model_delete(world.kube, "user", machine_node(m));
		if (is_deleted) {
			world.sim->delete_machine(m);
			m->server = 0;
		} else {
			after(rng_between(r, 3, 12) * MINUTE_NS,
			      (struct later){ .fn = return_machine, .machine = m });
		}
	}
}

static void
stop_pool(struct rng *r)
{
	if (rng_chance(r, 150))
		stop_machines(r, rng_chance(r, 300));
}

static void
shrink_cluster(void *arg)
{
	net_advance(HOST_KUBE);
	net_advance(HOST_CLOUD);
	world.is_shrinking = false;
	stop_machines(arg, /*is_deleted=*/true);
	net_arm(HOST_KUBE);
	net_arm(HOST_CLOUD);
}

/* When everything works, too, a person removes some machines. */
void
history_settle(void)
{
	static struct rng r;

	r = rng_of(world.seed, "settle", 0);
	world.is_shrinking = world.project && rng_chance(&r, 150);
	if (world.is_shrinking)
		schedule_at(schedule_now_ns() + rng_between(&r, 4, 8) * MINUTE_NS, shrink_cluster,
		            &r);
}

static void
label_node(struct rng *r)
{
	struct machine *m = any_machine(r);
	char patch[200];

	if (!m || !machine_node(m))
		return;
	if (rng_chance(r, 300))
		snprintf(patch, sizeof(patch), "{\"metadata\":{\"labels\":{\"%s\":%s}}}", EXCLUDED,
		         rng_chance(r, 500) ? "\"true\"" : "null");
	else
		snprintf(patch, sizeof(patch), "{\"metadata\":{\"labels\":{\"x\":\"%d\"}}}",
		         (int)rng_below(r, 3));
	trace("a user patches node %s: %s", m->name, patch);
	(void)kube_model_change(world.kube, "user", machine_node(m), patch);
}

static void
taint_node(struct rng *r)
{
	struct machine *m = any_machine(r);
	const char *key = rng_chance(r, 500) ? AUTOSCALER_TAINT : "example.com/x";
	bool is_wanted = rng_chance(r, 500);

	if (!m || !machine_node(m))
		return;
	trace("a user %s the taint %s of node %s", is_wanted ? "sets" : "removes", key, m->name);
	node_set_taint(machine_node(m), key, is_wanted);
}

static void
hold_node(struct rng *r)
{
	struct machine *m = any_machine(r);

	if (!m || !machine_node(m))
		return;
	trace("a foreign finalizer of node %s comes or goes", m->name);
	if (!kube_model_remove_finalizer(world.kube, "other", machine_node(m), NODE_FINALIZER))
		(void)kube_model_add_finalizer(world.kube, "other", machine_node(m),
		                               NODE_FINALIZER);
}

static void
restart_kubelet(struct later *later)
{
	trace("kubelet %s restarts with its new address", later->machine->name);
	machine_announce_ip(later->machine);
}

/* Sometimes with another address, which the kubelet announces after its next start. */
static void
attach_later(struct later *later)
{
	struct machine *m = later->machine;
	struct rng *r = &later->random;

	if (m->server && rng_chance(r, 300)) {
		snprintf(m->ip, sizeof(m->ip), "10.0.2.%u", ++world.n_names);
		after(rng_between(r, 1, 300) * NS_PER_SEC,
		      (struct later){ .fn = restart_kubelet, .machine = m });
	}
	trace("machine %s is in the network again with %s", m->name, m->ip);
	machine_attach(m);
}

static void
detach_machine(struct rng *r)
{
	struct machine *m = any_server(r);

	if (!m || !world.network || machine_server(m)->n_networks == 0)
		return;
	trace("machine %s leaves the network", m->name);
	hetzner_detach(world.cloud, world.project, machine_server(m), world.network);
	after(rng_between(r, 1, 120) * NS_PER_SEC,
	      (struct later){ .fn = attach_later, .machine = m, .random = *r });
}

/* ---- Services ---- */

static void
add_ports(struct buf *b, struct rng *r)
{
	size_t n = 1 + rng_below(r, 3);

	buf_add_c(b, "\"ports\":[");
	for (size_t i = 0; i < n; i++) {
		int port = 80 + 100 * (int)i + (int)rng_below(r, 5);

		buf_addf(b,
		         "%s{\"name\":\"p%zu\",\"protocol\":\"TCP\",\"port\":%d,"
		         "\"targetPort\":%d}",
		         i > 0 ? "," : "", i, port, port);
	}
	buf_add_c(b, "]");
}

static void
create_service(struct rng *r, unsigned number)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(4096);
	bool is_other = rng_chance(r, 100); /* another controller's, with the same finalizer */
	/* Of a balancer. A Service may ask for the name that another one has. */
	unsigned named = rng_chance(r, 300) ? (unsigned)rng_below(r, MAX_SERVICES) : number;

	buf_addf(&body,
	         "{\"kind\":\"Service\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"s%u\","
	         "\"annotations\":{\"a\":\"b\"",
	         number);
	if (rng_chance(r, 400))
		buf_addf(&body, ",\"load-balancer.hetzner.cloud/name\":\"named-%u\"", named);
	buf_addf(&body, "}%s},\"spec\":{\"type\":\"LoadBalancer\",",
	         is_other ? ",\"finalizers\":[\"" FINALIZER "\"]" : "");
	if (is_other)
		buf_add_c(&body, "\"loadBalancerClass\":\"example.com/other\",");
	add_ports(&body, r);
	buf_add_c(&body, "}}");
	trace("a user creates service s%u = %d", number,
	      kube_model_request(world.kube,
	                         &(struct kube_model_request){
					 .user_agent = "user",
					 .method = "POST",
					 .target = "/api/v1/namespaces/default/services",
					 .body = buf_str(&body) },
	                         NULL));
}

/* MAX_SERVICES: all names are in use. */
static unsigned
free_number(void)
{
	for (unsigned i = 0; i < MAX_SERVICES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "s%u", i);
		if (!kube_model_find(world.kube, KUBE_MODEL_SERVICE, STR("default"), str_c(name)))
			return i;
	}
	return MAX_SERVICES;
}

/* A name may return. */
static void
add_service(struct rng *r)
{
	create_service(r, (unsigned)rng_below(r, MAX_SERVICES));
}

static void
patch_service(const struct kube_model_object *o, const char *patch)
{
	trace("a user patches service %" STR_FMT ": %s", STR_ARG(o->name), patch);
	(void)kube_model_change(world.kube, "user", o, patch);
}

static void
change_ports(struct rng *r)
{
	const struct kube_model_object *o = any_service(r);
	CLEANUP(buf_fini) struct buf patch = BUF_INIT(4096);

	if (!o)
		return;
	buf_add_c(&patch, "{\"spec\":{");
	add_ports(&patch, r);
	buf_add_c(&patch, "}}");
	patch_service(o, patch.ptr);
}

/* It does not exist. */
static void
choose_type(struct rng *r)
{
	const struct kube_model_object *o = any_service(r);

	if (o)
		patch_service(o, rng_chance(r, 700)
		                         ? "{\"metadata\":{\"annotations\":{\"" TYPE_ANNOTATION
		                           "\":\"lb99\"}}}"
		                         : "{\"metadata\":{\"annotations\":{\"" TYPE_ANNOTATION
		                           "\":null}}}");
}

static void
annotate_service(struct rng *r)
{
	const struct kube_model_object *o = any_service(r);
	const char *algorithm = world.sim->algorithms[rng_chance(r, 500) ? 0 : 1];
	int label = (int)
		rng_below(r, 9); /* not among the arguments: their order differs by compiler */
	char patch[200];

	if (!o)
		return;
	snprintf(patch, sizeof(patch),
	         "{\"metadata\":{\"annotations\":{\"%s\":\"%s\"},\"labels\":{\"x\":\"%d\"}}}",
	         world.sim->algorithm_key, algorithm, label);
	patch_service(o, patch);
}

/* A Service asks for more than ports. That may be wrong, or not be possible in this cloud. */
static void
ask_for_extra(struct rng *r)
{
	const struct kube_model_object *o = any_service(r);
	char patch[200];

	if (o && extras_choose(r, patch, sizeof(patch)))
		patch_service(o, patch);
}

#define OTHER_CLASS "\"loadBalancerClass\":\"example.com/other\""

static bool
is_of_type(const struct kube_model_object *o, const char *type)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;

	return str_eq_c(json_text_at(&arena, object_json(&arena, o), "spec.type"), type);
}

static void
retype_service(struct rng *r)
{
	const struct kube_model_object *o = any_service(r);

	if (!o)
		return;
	if (is_of_type(o, "ClusterIP"))
		patch_service(o, rng_chance(r, 200)
		                         ? "{\"spec\":{\"type\":\"LoadBalancer\"," OTHER_CLASS "}}"
		                         : "{\"spec\":{\"type\":\"LoadBalancer\"}}");
	else
		patch_service(o, TO_CLUSTER_IP);
}

static void
give_class(struct later *later)
{
	const struct kube_model_object *o = kube_model_find(world.kube, KUBE_MODEL_SERVICE,
	                                                    STR("default"), str_c(later->name));

	if (!o || !is_of_type(o, "ClusterIP"))
		return;
	patch_service(o, rng_chance(&later->random, 300)
	                         ? "{\"spec\":{\"type\":\"LoadBalancer\"}}"
	                         : "{\"spec\":{\"type\":\"LoadBalancer\"," OTHER_CLASS "}}");
	if (rng_chance(&later->random, 500))
		world_run_other();
}

/* A class can only be given together with the type, so the type is changed twice. Some users change
 * their mind in between. The other controller may act immediately. */
static void
reclass_service(struct rng *r)
{
	const struct kube_model_object *o = any_service(r);
	struct later later = { .fn = give_class, .random = *r };

	if (!o || !is_of_type(o, "LoadBalancer"))
		return;
	snprintf(later.name, sizeof(later.name), "%" STR_FMT, STR_ARG(o->name));
	patch_service(o, TO_CLUSTER_IP);
	after(rng_between(r, 0, 4000) * NS_PER_MS, later);
	if (rng_chance(r, 400))
		crash_leader();
}

static void
delete_service(struct rng *r)
{
	const struct kube_model_object *o = any_service(r);

	if (!o)
		return;
	trace("a user deletes service %" STR_FMT, STR_ARG(o->name));
	(void)kube_model_delete(world.kube, "user", o);
}

static void
release_by_force(struct later *later)
{
	const struct kube_model_object *o = kube_model_find(world.kube, KUBE_MODEL_SERVICE,
	                                                    STR("default"), str_c(later->name));

	if (!o || !str_contains(o->json, STR("\"deletionTimestamp\"")))
		return;
	trace("a person removes the finalizer of service %s", later->name);
	checks_note_forced(o->uid);
	(void)kube_model_remove_finalizer(world.kube, "person", o, FINALIZER);
}

/* A Service that does not disappear, because ccmd cannot delete its load balancer, is released by
 * force. */
static void
force_service(struct rng *r)
{
	const struct kube_model_object *o = any_service(r);
	struct later later = { .fn = release_by_force };

	if (!o)
		return;
	snprintf(later.name, sizeof(later.name), "%" STR_FMT, STR_ARG(o->name));
	trace("a user deletes service %s", later.name);
	(void)kube_model_delete(world.kube, "user", o);
	after(rng_between(r, 0, 20) * NS_PER_SEC, later);
}

static void
hold_service(struct rng *r)
{
	const struct kube_model_object *o = any_service(r);

	if (!o)
		return;
	trace("a foreign finalizer of service %" STR_FMT " comes or goes", STR_ARG(o->name));
	if (!kube_model_remove_finalizer(world.kube, "other", o, FOREIGN_FINALIZER))
		(void)kube_model_add_finalizer(world.kube, "other", o, FOREIGN_FINALIZER);
}

/* Another program writes the status of a Service that ccmd serves. */
static void
write_status(struct rng *r)
{
	const struct kube_model_object *o = any_service(r);
	char target[100];

	if (!o || !is_of_type(o, "LoadBalancer"))
		return;
	trace("a rival writes the status of service %" STR_FMT, STR_ARG(o->name));
	snprintf(target, sizeof(target), "/api/v1/namespaces/default/services/%" STR_FMT "/status",
	         STR_ARG(o->name));
	(void)kube_model_request(world.kube,
	                         &(struct kube_model_request){
					 .user_agent = "rival",
					 .method = "PATCH",
					 .target = target,
					 .body = STR("{\"status\":{\"loadBalancer\":{\"ingress\":"
	                                             "[{\"ip\":\"" RIVAL_ADDRESS "\"}]}}}") },
	                         NULL);
}

/* ---- the cloud ---- */

static void
ask_cloud(const char *method, const char *target, const char *body)
{
	trace("a person sends %s %s = %d", method, target,
	      hetzner_request(world.cloud, world.project, "person", method, target, str_c(body)));
}

/* One that no Service asks for, or one that has the name for which a Service may ask, and that may
 * be of another cluster, or may never get addresses. */
static void
person_creates_balancer(struct rng *r)
{
	bool is_named = rng_chance(r, 500), is_theirs = is_named && rng_chance(r, 400);
	int number = (int)rng_below(r, is_named ? MAX_SERVICES : 4);
	char body[200];

	if (is_named && rng_chance(r, 300))
		hetzner_doom_actions(world.cloud, world.project, "create_load_balancer",
		                     HETZNER_FAILS, 1);
	snprintf(body, sizeof(body),
	         "{\"name\":\"%s-%d\",\"load_balancer_type\":\"lb11\",\"location\":\"fsn1\","
	         "\"labels\":{%s}}",
	         is_named ? "named" : "foreign", number,
	         is_theirs ? "\"" CLUSTER_LABEL "\":\"" OTHER_CLUSTER "\"" : "");
	ask_cloud("POST", "/load_balancers", body);
}

static const struct hetzner_balancer *
balancer_of(struct str uid)
{
	for (size_t i = 0; i < world.project->n_of[HETZNER_BALANCER]; i++) {
		if (str_eq(hetzner_label(world.project->of[HETZNER_BALANCER][i], UID_LABEL), uid))
			return HETZNER_BALANCER_AT(world.project, i);
	}
	return NULL;
}

static void
rename_balancer(const struct hetzner_balancer *lb)
{
	char target[60], body[60];

	snprintf(body, sizeof(body), "{\"name\":\"renamed-%lld\"}", (long long)lb->base.id);
	snprintf(target, sizeof(target), "/load_balancers/%lld", (long long)lb->base.id);
	ask_cloud("PUT", target, body);
}

static void
person_changes_balancer(struct rng *r)
{
	const struct hetzner_balancer *lb = any_balancer(r);
	unsigned kind = (unsigned)rng_below(r, 4);
	char target[100], body[100] = "{\"listen_port\":80}";
	static const char *const verbs[] = { "delete_service", "change_algorithm",
		                             "detach_from_network" };

	if (!lb || (kind == 2 && lb->n_networks == 0))
		return;
	if (kind == 3) {
		rename_balancer(lb);
		return;
	}
	if (kind == 1)
		snprintf(body, sizeof(body), "{\"type\":\"least_connections\"}");
	else if (kind == 2)
		snprintf(body, sizeof(body), "{\"network\":%lld}",
		         (long long)lb->networks[0].network);
	snprintf(target, sizeof(target), "/load_balancers/%lld/actions/%s", (long long)lb->base.id,
	         verbs[kind]);
	ask_cloud("POST", target, body);
}

static void
person_deletes_balancer(struct rng *r)
{
	const struct hetzner_balancer *lb = any_balancer(r);
	char target[100];

	if (!lb)
		return;
	snprintf(target, sizeof(target), "/load_balancers/%lld", (long long)lb->base.id);
	ask_cloud("DELETE", target, "");
}

/* Routes of other programs, to nowhere inside of the pod network, or of a node. */
static void
person_changes_route(struct rng *r)
{
	static const char *const sizes[] = { "128/25", "0/24", "0/23" };
	char route[120];
	unsigned kind = (unsigned)rng_below(r, 4), number = (unsigned)rng_below(r, 4);
	bool is_added = rng_chance(r, 500);

	if (!world.network)
		return;
	if (kind == 2 && world.network->n_routes > 0) {
		const struct hetzner_route
			*one = &world.network->routes[rng_below(r, world.network->n_routes)];

		if (!str_starts(one->destination, STR(POD_NETWORK)))
			return;
		snprintf(route, sizeof(route),
		         "{\"destination\":\"%" STR_FMT "\",\"gateway\":\"%" STR_FMT "\"}",
		         STR_ARG(one->destination), STR_ARG(one->gateway));
		is_added = false;
	} else if (kind == 3) { /* it overlaps with the pod CIDR of a Node, or of a future one */
		is_added = true;
		number = 2 * (unsigned)rng_below(r, 6);
		snprintf(route, sizeof(route),
		         "{\"destination\":\"" POD_NETWORK "%u.%s\",\"gateway\":\"10.0.200.9\"}",
		         number, sizes[rng_below(r, ARRAY_LEN(sizes))]);
	} else {
		snprintf(route, sizeof(route),
		         "{\"destination\":\"%s%u.0/24\",\"gateway\":\"10.0.200.%u\"}",
		         kind == 0 ? "10.98." : POD_NETWORK "1", number, number + 2);
	}
	world_ask_cloud_about_route(is_added ? "add_route" : "delete_route", route);
}

static void
bring_network_back(struct later *later)
{
	(void)later;
	trace("a person creates the network again, and restarts ccmd");
	world_add_network();
	world_restart_replicas();
}

/* A network that was created again has another ID, and ccmd asks for the ID at its start. */
static void
person_deletes_network(struct rng *r)
{
	char target[100];

	if (!world.network || rng_chance(r, 500))
		return;
	snprintf(target, sizeof(target), "/networks/%lld", (long long)world.network->base.id);
	ask_cloud("DELETE", target, "");
	if (hetzner_find(world.project, HETZNER_NETWORK, world.network->base.id))
		return;
	world.network = NULL;
	after(rng_between(r, 1, 240) * NS_PER_SEC, (struct later){ .fn = bring_network_back });
}

static void
doom_actions(struct rng *r)
{
	static const char *const commands[] = { "create_load_balancer", "add_target",
		                                "add_service",          "remove_target",
		                                "delete_service",       "update_service",
		                                "change_algorithm",     "add_route",
		                                "delete_route" };
	const char *command = commands[rng_below(r, ARRAY_LEN(commands))];
	enum hetzner_fate fate = rng_chance(r, 700) ? HETZNER_FAILS : HETZNER_HANGS;

	trace("the next %s %s", command, fate == HETZNER_FAILS ? "fails" : "hangs");
	world.is_removal_late |= fate == HETZNER_HANGS && strcmp(command, "delete_route") == 0;
	hetzner_doom_actions(world.cloud, world.project, command, fate, 1);
}

static void
release_later(struct later *later)
{
	(void)later;
	hetzner_release(world.cloud, world.project);
}

static void
lock_balancer(struct rng *r)
{
	struct hetzner_balancer *lb = any_balancer(r);

	if (!lb)
		return;
	trace("balancer %lld is locked", (long long)lb->base.id);
	hetzner_lock(world.cloud, world.project, &lb->base,
	             rng_between(r, NS_PER_SEC, 60 * NS_PER_SEC));
	after(60 * NS_PER_SEC, (struct later){ .fn = release_later });
}

static void
drain_budget(struct rng *r)
{
	(void)r;
	trace("somebody uses up the budget of requests");
	hetzner_drain_budget(world.cloud, world.project, 0);
}

static void
keep_dead_targets(struct rng *r)
{
	bool outlive = rng_chance(r, 700);

	hetzner_settings(world.cloud)->targets_outlive_servers = outlive;
	if (!outlive)
		hetzner_drop_dead_targets(world.cloud, world.project);
}

/* An account that changes in the middle of a run: just after a request about load balancers, or of
 * a look: after one about servers. */
static struct {
	const char *about; /* NULL: nothing is to change */
	enum account account;
	bool is_deleted; /* only after a request about a server that was deleted */
} next_account;
static bool is_machine_deleted; /* while the account is not right */
static int64_t listed_ns;       /* the last request for the list of servers */

static void
change_account(enum account account)
{
	next_account.about = NULL;
	trace("the token is %s", account == ACCOUNT_OWN     ? "right"
	                         : account == ACCOUNT_OTHER ? "that of another project"
	                                                    : "refused");
	world.sim->set_account(account);
}

static void
change_account_soon(struct rng *r, enum account account)
{
	if (rng_chance(r, 500)) {
		change_account(account);
		return;
	}
	next_account.about = rng_chance(r, 400) ? "/servers" : "/load_balancers";
	next_account.account = account;
	next_account.is_deleted = rng_chance(r, 500);
	if (account != ACCOUNT_OWN || !is_machine_deleted)
		return;
	next_account.about = "/servers";
	next_account.is_deleted = true;
}

/* Is it time for the account to change? A check of several machines asks for those that the list
 * lacks one by one, and may be about two accounts if it changes after the first one. */
static bool
is_moment(const struct net_request *n)
{
	struct str number = STR_EMPTY;
	int64_t server;

	if (!next_account.about || n->host != HOST_CLOUD ||
	    !str_contains(n->request->target, str_c(next_account.about)))
		return false;
	if (!next_account.is_deleted || !world.cloud || strcmp(next_account.about, "/servers") != 0)
		return true;
	if (str_starts(n->request->target, STR("/v1/servers/")) &&
	    schedule_now_ns() - listed_ns < NS_PER_SEC)
		number = str_skip(n->request->target, strlen("/v1/servers/"));
	return str_to_i64(number, 1, INT64_MAX, &server) &&
	       !hetzner_find(world.project, HETZNER_SERVER, server);
}

static void
restore_account(struct later *later)
{
	change_account_soon(&later->random, ACCOUNT_OWN);
}

/* A person renames the balancers of some Services, and changes the Services. ccmd searches for them
 * with the token of another project, and looks for evidence with the right one. */
static void
search_elsewhere(struct rng *r)
{
	size_t n_left = 3;

	change_account(ACCOUNT_OTHER);
	next_account.about = "/load_balancers";
	next_account.account = ACCOUNT_OWN;
	after(MINUTE_NS, (struct later){ .fn = restore_account, .random = *r });
	for (size_t i = kube_model_count(world.kube, KUBE_MODEL_SERVICE); i-- > 0 && n_left > 0;) {
		const struct kube_model_object *o = kube_model_at(world.kube, KUBE_MODEL_SERVICE,
		                                                  i);
		const struct hetzner_balancer *lb = balancer_of(o->uid);

		if (!lb)
			continue;
		rename_balancer(lb);
		patch_service(o, "{\"metadata\":{\"annotations\":{\"a\":\"renamed\"}}}");
		n_left--;
	}
}

static void
lose_service(struct later *later)
{
	const struct kube_model_object *o = kube_model_find(world.kube, KUBE_MODEL_SERVICE,
	                                                    STR("default"), str_c(later->name));
	struct later force = *later;

	if (!o)
		return;
	change_account(ACCOUNT_OTHER);
	trace("a user deletes service %s", later->name);
	(void)kube_model_delete(world.kube, "user", o);
	force.fn = release_by_force;
	after(rng_between(&later->random, 5, 20) * NS_PER_SEC, force);
	after(rng_between(&later->random, 30, 90) * NS_PER_SEC,
	      (struct later){ .fn = restore_account, .random = later->random });
}

/* A Service that has just got its load balancer is released by force, while the token is that of
 * another project. */
static void
add_and_lose_service(struct rng *r)
{
	struct later later = { .fn = lose_service, .random = *r };
	unsigned number = free_number();

	if (number == MAX_SERVICES)
		return;
	create_service(r, number);
	snprintf(later.name, sizeof(later.name), "s%u", number);
	after(rng_between(r, 10, 25) * NS_PER_SEC, later);
}

static void
spoil_account(struct rng *r)
{
	int64_t until_ns = rng_between(r, 5 * NS_PER_SEC, 5 * MINUTE_NS);

	change_account_soon(r, rng_chance(r, 700) ? ACCOUNT_OTHER : ACCOUNT_REFUSED);
	if (world.cloud && rng_chance(r, 300))
		force_service(r);
	else if (rng_chance(r, 300))
		delete_service(r);
	is_machine_deleted = rng_chance(r, 400);
	if (is_machine_deleted)
		delete_machine(r);
	after(until_ns, (struct later){ .fn = restore_account, .random = *r });
}

/* ---- the replicas and the network ---- */

static void
resume_later(struct later *later)
{
	world_resume(later->replica);
}

static void
crash(struct replica *one, struct rng *r)
{
	(void)r;
	if (one->is_running)
		replica_crash(one);
}

static void
terminate(struct replica *one, struct rng *r)
{
	(void)r;
	if (one->is_running && !one->is_paused)
		replica_signal(one, SIGTERM);
}

static void
pause_replica(struct replica *one, struct rng *r)
{
	if (!one->is_running || one->is_paused)
		return;
	if (rng_chance(r, 400))
		replica_suspend(one);
	else
		replica_pause(one, true);
	after(rng_between(r, NS_PER_SEC, 60 * NS_PER_SEC),
	      (struct later){ .fn = resume_later, .replica = one });
}

/* What happens to the replica that sends the next write, just when a server has carried it out:
 * controllers fail between two writes. Some wait for the first write of the Lease, whose answer
 * then comes too late. */
static struct {
	void (*fn)(struct replica *, struct rng *); /* NULL: nothing */
	bool is_of_claim;
	struct replica *replica;
	struct rng random;
} trap;

static void
heal_later(struct later *later)
{
	net_partition(later->replica, later->host, false);
}

static void
restore(const struct kube_model_backup *backup)
{
	int64_t version = world_lease() ? world_lease()->version : 0;

	trace("etcd is restored from a backup");
	world.was_restored = true;
	checks_restore_begins();
	kube_model_restore(world.kube, backup, 0);
	checks_restore_ends();
	election_restored((world_lease() ? world_lease()->version : 0) == version);
}

/* The API server that the leader uses may come back later than the others. */
static void
restore_backup(struct later *later)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct str holder = world_holder(&arena);
	struct replica *leader = replica_at(str_starts(holder, STR("a_")) ? 0 : 1);

	restore(later->backup);
	for (unsigned i = 0; i < MAX_SERVICES && rng_chance(&later->random, 700); i++) {
		char name[16];

		snprintf(name, sizeof(name), "s%u", i);
		if (!kube_model_find(world.kube, KUBE_MODEL_SERVICE, STR("default"), str_c(name)))
			create_service(&later->random, i);
	}
	if (!rng_chance(&later->random, 700))
		return;
	net_partition(leader, HOST_KUBE, true);
	after(rng_between(&later->random, 5, 30) * NS_PER_SEC,
	      (struct later){ .fn = heal_later, .replica = leader, .host = HOST_KUBE });
}

/* Some backups are made when nobody holds the Lease: after a restore, each replica may take it. */
static struct {
	bool is_wanted;
	struct rng random;
} next_backup;

/* The backup does not have it. */
static void
add_lost_service(struct later *later)
{
	for (int n = 0; n < 2 && free_number() < MAX_SERVICES; n++)
		create_service(&later->random, free_number());
}

static void
back_up_now(struct rng *r)
{
	next_backup.is_wanted = false;
	trace("a backup of etcd is made");
	after(2 * NS_PER_SEC, (struct later){ .fn = add_lost_service, .random = *r });
	after(rng_between(r, 10 * NS_PER_SEC, 300 * NS_PER_SEC),
	      (struct later){ .fn = restore_backup,
	                      .backup = kube_model_backup(world.kube),
	                      .random = *r });
}

static bool
is_lease_free(const struct net_request *n)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;

	return election_is_lease(n) && world_holder(&arena).len == 0;
}

static void
spring_trap(void *arg)
{
	void (*fn)(struct replica *, struct rng *) = trap.fn;

	(void)arg;
	trap.fn = NULL;
	if (!world.is_settling)
		fn(trap.replica, &trap.random);
}

void
history_acted(const struct net_request *n)
{
	if (!world.is_settling && is_moment(n))
		change_account(next_account.account);
	if (n->host == HOST_CLOUD && str_starts(n->request->target, STR("/v1/servers?")))
		listed_ns = schedule_now_ns();
	if (next_backup.is_wanted && !world.is_settling && is_lease_free(n))
		back_up_now(&next_backup.random);
	if (!trap.fn || trap.replica ||
	    !(trap.is_of_claim ? election_is_first_claim(n) : checks_is_write(n)))
		return;
	trap.replica = replica_at(n->replica->index);
	schedule_at(schedule_now_ns() +
	                    (trap.is_of_claim ? 0 : rng_between(&trap.random, 0, 200)) * NS_PER_MS,
	            spring_trap, NULL);
}

static void
strike(void (*fn)(struct replica *, struct rng *), struct rng *r)
{
	if (trap.fn || rng_chance(r, 300)) {
		fn(any_replica(r), r);
		return;
	}
	trap.fn = fn;
	trap.is_of_claim = fn == pause_replica && rng_chance(r, 400);
	trap.replica = NULL;
	trap.random = *r;
}

static void
crash_one(struct rng *r)
{
	strike(crash, r);
}

static void
terminate_one(struct rng *r)
{
	strike(terminate, r);
}

static void
pause_one(struct rng *r)
{
	strike(pause_replica, r);
}

/* The threads that notice the loss of the lease get no time: then the fence alone keeps this
 * replica from acting beside the next leader. */
static void
hold_election(struct rng *r)
{
	struct replica *one = any_replica(r);
	int64_t until_ns = schedule_now_ns() + rng_between(r, 5 * NS_PER_SEC, 40 * NS_PER_SEC);

	trace("%s: the election's threads get no time for %d s", one->name,
	      (int)((until_ns - schedule_now_ns()) / NS_PER_SEC));
	fiber_hold(one, "elector", until_ns);
	fiber_hold(one, "main", until_ns);
}

static void
partition(struct rng *r)
{
	struct replica *one = any_replica(r);
	enum host host = rng_chance(r, 500) ? HOST_KUBE : HOST_CLOUD;

	net_partition(one, host, true);
	after(rng_between(r, NS_PER_SEC, 120 * NS_PER_SEC),
	      (struct later){ .fn = heal_later, .replica = one, .host = host });
}

static void
end_outage(struct later *later)
{
	(void)later;
	for (unsigned i = 0; i < N_REPLICAS; i++)
		net_partition(replica_at(i), HOST_CLOUD, false);
}

/* Longer than it takes until ccmd only probes. */
static void
outage(struct rng *r)
{
	if (!rng_chance(r, 100))
		return;
	trace("the cloud does not answer");
	for (unsigned i = 0; i < N_REPLICAS; i++)
		net_partition(replica_at(i), HOST_CLOUD, true);
	after(rng_between(r, 3, 9) * MINUTE_NS, (struct later){ .fn = end_outage });
}

static void
jump_clock(struct rng *r)
{
	struct replica *one = any_replica(r);

	one->wall_shift_ns = rng_chance(r, 300) ? 0 : rng_between(r, -3600, 3600) * NS_PER_SEC;
	trace("%s: the wall clock is wrong by %d s", one->name,
	      (int)(one->wall_shift_ns / NS_PER_SEC));
}

static void
calm_later(struct later *later)
{
	trace("%s works again", later->host == HOST_KUBE ? "the API server" : "the cloud");
	*net_faults(later->host) = (struct net_faults){ .broken = net_faults(later->host)->broken };
}

static void
disturb(struct rng *r)
{
	enum host host = rng_chance(r, 500) ? HOST_KUBE : HOST_CLOUD;
	unsigned rate = (unsigned[]){ 20, 100, 300 }[rng_below(r, world.is_wild ? 3 : 2)];
	unsigned *faults[] = { &net_faults(host)->refused, &net_faults(host)->closed,
		               &net_faults(host)->silent,  &net_faults(host)->refusing,
		               &net_faults(host)->failing, &net_faults(host)->cut,
		               &net_faults(host)->slow,    &net_faults(host)->emptied };

	for (size_t i = 0; i < ARRAY_LEN(faults); i++)
		*faults[i] = rng_chance(r, 400) ? rate / 2 : 0;
	net_faults(host)->stream_cut = rate;
	trace("requests to %s fail", host == HOST_KUBE ? "the API server" : "the cloud");
	after(rng_between(r, 5 * NS_PER_SEC, 90 * NS_PER_SEC),
	      (struct later){ .fn = calm_later, .host = host });
	if (world.has_extras && host == HOST_CLOUD)
		net_faults(host)->page = rng_chance(r, 500) ? rate : 0;
}

/* ---- the API server ---- */

static void
restart_server(struct rng *r)
{
	(void)r;
	trace("the API server restarts");
	kube_model_restart(world.kube);
}

static void
restart_later(struct later *later)
{
	terminate(later->replica, &later->random);
}

/* So that another replica leads, people delete the Lease, or empty it, and often restart the
 * leader.
 */
static void
person_frees_lease(struct rng *r)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	const struct kube_model_object *lease = world_lease();
	struct str holder = world_holder(&arena);

	if (!lease)
		return;
	if (holder.len > 0 && rng_chance(r, 500))
		after(rng_between(r, 0, 5000) * NS_PER_MS,
		      (struct later){
			      .fn = restart_later,
			      .replica = replica_at(str_starts(holder, STR("a_")) ? 0 : 1) });
	if (rng_chance(r, 500)) {
		trace("a person deletes the Lease");
		(void)kube_model_delete(world.kube, "person", lease);
	} else {
		trace("a person empties the Lease");
		(void)kube_model_change(world.kube, "person", lease,
		                        "{\"spec\":{\"holderIdentity\":\"\"}}");
	}
}

static void
compact(struct rng *r)
{
	(void)r;
	if (world.is_cache_held)
		return; /* the model forgets what the cache has not shown */
	trace("etcd is compacted");
	kube_model_compact(world.kube, kube_model_version(world.kube));
}

static void
release_cache(struct later *later)
{
	(void)later;
	trace("the watch cache goes on");
	world.is_cache_held = false;
	kube_model_release_cache(world.kube);
}

static void
hold_cache(struct rng *r)
{
	trace("the watch cache stands still");
	world.is_cache_held = true;
	kube_model_hold_cache(world.kube);
	after(rng_between(r, NS_PER_SEC, 60 * NS_PER_SEC), (struct later){ .fn = release_cache });
}

static void
back_up(struct rng *r)
{
	if (!world.is_wild || world.has_lease_etcd || !rng_chance(r, 300))
		return;
	if (rng_chance(r, 300)) {
		back_up_now(r);
		return;
	}
	next_backup.is_wanted = true;
	next_backup.random = *r;
}

/* The backup from which etcd is restored when faults end: what a replica has missed then, no later
 * event brings. If Leases are in an etcd of their own, the leader does not notice the restore by
 * its Lease, but when a watch has been silent for two minutes; until then, less must be written
 * than was lost. */
static struct {
	struct kube_model_backup *backup; /* NULL: none */
	int64_t version;
} last_backup;

static void
make_last_backup(void *arg)
{
	(void)arg;
	trace("a backup of etcd is made");
	last_backup.backup = kube_model_backup(world.kube);
	last_backup.version = kube_model_version(world.kube);
}

static void
plan_last_backup(uint64_t seed, int64_t last_ns)
{
	struct rng r = rng_of(seed, "last backup", 0);
	int64_t before_ns = rng_between(&r, 60, 400) * NS_PER_SEC;

	if (rng_chance(&r, world.has_lease_etcd ? 700 : 50) && before_ns < last_ns)
		schedule_at(last_ns - before_ns, make_last_backup, NULL);
}

void
history_end(void)
{
	int64_t n_lost = kube_model_version(world.kube) - last_backup.version;

	if (last_backup.backup && (!world.has_lease_etcd || n_lost >= LEAST_LOST))
		restore(last_backup.backup);
}

/* ---- the table ---- */

static const struct {
	void (*fn)(struct rng *);
	unsigned calm, wild; /* weights */
	unsigned clouds;     /* where it happens: sim_cloud.h */
} events[] = {
	{ add_machine, 6, 4, ALL },
	{ delete_machine, 5, 4, ALL },
	{ unlist_machine, 2, 2, HCLOUD },
	{ moments_hide_machine, 1, 1, HCLOUD },
	{ rename_machine, 2, 2, ALL },
	{ switch_machine, 6, 5, ALL },
	{ rebuild_machine, 3, 5, ALL },
	{ switch_kubelet, 8, 6, ALL },
	{ silence_kubelets, 1, 1, ALL },
	{ flap_kubelet, 1, 1, ALL },
	{ add_misnamed_machines, 1, 1, ALL },
	{ moments_kubelet_reports, 2, 2, ALL },
	{ moments_scale_down, 2, 2, ALL },
	{ moments_replace_node, 3, 3, ALL },
	{ delete_node, 3, 3, ALL },
	{ stop_pool, 1, 1, HCLOUD },
	{ label_node, 8, 5, ALL },
	{ taint_node, 4, 3, ALL },
	{ hold_node, 2, 2, ALL },
	{ detach_machine, 2, 2, HCLOUD },
	{ add_service, 14, 12, ALL },
	{ change_ports, 8, 6, ALL },
	{ annotate_service, 8, 6, ALL },
	{ choose_type, 3, 3, HCLOUD },
	{ retype_service, 5, 5, ALL },
	{ reclass_service, 2, 3, ALL },
	{ delete_service, 6, 6, ALL },
	{ hold_service, 3, 3, ALL },
	{ write_status, 1, 2, ALL },
	{ person_creates_balancer, 2, 2, HCLOUD },
	{ person_changes_balancer, 2, 3, HCLOUD },
	{ person_deletes_balancer, 1, 2, HCLOUD },
	{ person_changes_route, 3, 3, HCLOUD },
	{ person_deletes_network, 1, 1, HCLOUD },
	{ doom_actions, 2, 4, HCLOUD },
	{ lock_balancer, 2, 3, HCLOUD },
	{ drain_budget, 0, 1, HCLOUD },
	{ keep_dead_targets, 2, 2, HCLOUD },
	{ spoil_account, 1, 3, ALL },
	{ add_and_lose_service, 1, 1, HCLOUD },
	{ search_elsewhere, 1, 1, HCLOUD },
	{ crash_one, 1, 8, ALL },
	{ terminate_one, 1, 4, ALL },
	{ pause_one, 1, 6, ALL },
	{ hold_election, 1, 4, ALL },
	{ partition, 1, 5, ALL },
	{ outage, 1, 1, HCLOUD },
	{ jump_clock, 1, 2, ALL },
	{ disturb, 2, 10, ALL },
	{ restart_server, 1, 3, ALL },
	{ person_frees_lease, 1, 2, ALL },
	{ compact, 1, 2, ALL },
	{ hold_cache, 1, 5, ALL },
	{ back_up, 0, 1, ALL },
	{ sim_brightbox_makes_objects, 1, 1, BRIGHTBOX },
	{ sim_brightbox_changes_balancer, 2, 3, BRIGHTBOX },
	{ sim_brightbox_deletes_something, 2, 3, BRIGHTBOX },
	{ sim_brightbox_breaks_balancer, 1, 2, BRIGHTBOX },
	{ sim_brightbox_moves_cloud_ip, 1, 2, BRIGHTBOX },
	{ sim_brightbox_forgets_server, 2, 2, BRIGHTBOX },
	{ sim_brightbox_sets_limit, 1, 2, BRIGHTBOX },
	{ sim_brightbox_never_maps, 1, 2, BRIGHTBOX },
	{ sim_cloudlycke_breaks_inventory, 2, 3, CLOUDLYCKE },
	{ sim_cloudlycke_fails_program, 2, 4, CLOUDLYCKE },
	{ ask_for_extra, 40, 30, EXTRAS },
	{ sim_example_makes_balancer, 2, 2, EXAMPLE },
	{ sim_example_changes_balancer, 2, 3, EXAMPLE },
	{ sim_example_installs_machine, 2, 3, EXAMPLE },
	{ sim_example_sets_limit, 1, 2, EXAMPLE },
};

void
history_churn(struct rng *r)
{
	static void (*const all[])(struct rng *) = { add_machine,   delete_machine,
		                                     label_node,    add_service,
		                                     change_ports,  annotate_service,
		                                     delete_service };

	world.n_events++;
	all[rng_below(r, ARRAY_LEN(all))](r);
}

/* 0: it does not happen in this cloud. */
static unsigned
weight_of(size_t i)
{
	unsigned here = world.sim->bit | (world.has_extras ? EXTRAS : 0);

	if (events[i].clouds != ALL && !(events[i].clouds & here))
		return 0;
	return world.is_wild ? events[i].wild : events[i].calm;
}

struct planned {
	uint64_t number;
};

static void
run_event(void *arg)
{
	uint64_t number = ((struct planned *)arg)->number;
	struct rng r = rng_of(world.seed, "event", number);
	unsigned total = 0, chosen;

	for (size_t i = 0; i < ARRAY_LEN(events); i++)
		total += weight_of(i);
	chosen = (unsigned)rng_below(&r, total);
	net_advance(HOST_KUBE);
	net_advance(HOST_CLOUD);
	trace_detail("event %d", (int)number);
	world.n_events++;
	for (size_t i = 0; i < ARRAY_LEN(events); i++) {
		unsigned weight = weight_of(i);

		if (chosen < weight) {
			events[i].fn(&r);
			break;
		}
		chosen -= weight;
	}
	net_arm(HOST_KUBE);
	net_arm(HOST_CLOUD);
}

int64_t
history_plan(uint64_t seed, const bool is_dropped[MAX_DROPPED])
{
	static struct planned planned[N_EVENTS];
	struct rng r = rng_of(seed, "history", 0);
	int64_t length_ns = rng_between(&r, 8, 25) * MINUTE_NS, last_ns = 0;

	for (size_t i = 0; i < N_EVENTS; i++) {
		int64_t at_ns = rng_between(&r, 10 * NS_PER_SEC, length_ns);

		planned[i].number = i;
		if (is_dropped[i])
			continue;
		schedule_at(at_ns, run_event, &planned[i]);
		if (at_ns > last_ns)
			last_ns = at_ns;
	}
	plan_last_backup(seed, last_ns);
	return last_ns;
}

size_t
history_length(void)
{
	return N_EVENTS;
}
