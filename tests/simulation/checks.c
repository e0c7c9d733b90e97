/* tests/simulation/checks.c: what must hold at every step, and at the end.
 *
 * At every step means: when a request arrives at a server, and when a server changes something. A
 * change belongs to the replica whose token it was asked for with. */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "system.h"
#include "world.h"

enum {
	MAX_ASKED = 4,
};

static uint64_t n_writes;

uint64_t
checks_n_writes(void)
{
	return n_writes;
}

/* ---- requests ---- */

static bool
is_event(const struct server_request *r)
{
	return str_contains(r->target, STR("/events"));
}

/* Since when a Service has had addresses in its status; 0: it has none. */
static struct {
	char uid[40];
	int64_t since_ns;
} shown[256]; /* a ring */
static size_t n_shown;

static bool
has_addresses(const struct kube_model_object *o)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;

	return o && json_at(object_json(&arena, o), "status.loadBalancer.ingress") != NULL;
}

static void
note_status(const struct kube_model_change *c)
{
	size_t i = n_shown % ARRAY_LEN(shown);

	if (has_addresses(c->before) == has_addresses(c->after))
		return;
	snprintf(shown[i].uid, sizeof(shown[i].uid), "%" STR_FMT, STR_ARG(c->after->uid));
	shown[i].since_ns = has_addresses(c->after) ? schedule_now_ns() : 0;
	n_shown++;
}

/* 0: the Service has no addresses in its status. */
static int64_t
shown_since_ns(struct str uid)
{
	int64_t since_ns = 0;

	for (size_t i = n_shown > ARRAY_LEN(shown) ? n_shown - ARRAY_LEN(shown) : 0; i < n_shown;
	     i++) {
		if (str_eq_c(uid, shown[i % ARRAY_LEN(shown)].uid))
			since_ns = shown[i % ARRAY_LEN(shown)].since_ns;
	}
	return since_ns;
}

/* With the token of another project, no balancer is found. None is created there for a Service that
 * shows that it has one. */
static void
check_creation(const struct net_request *n)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	int64_t since_ns;
	struct error err;
	struct str uid;

	if (world.was_restored || n->host != HOST_CLOUD ||
	    world.sim->is_own_token(n->request->token) || strcmp(n->request->method, "POST") != 0 ||
	    !str_ends(n->request->target, STR("/load_balancers")) ||
	    !json_parse(n->request->body, &doc, &err))
		return;
	uid = json_text(json_key(json_at(yyjson_doc_get_root(doc), "labels"), STR(UID_LABEL)));
	since_ns = shown_since_ns(uid);
	if (since_ns > 0 && schedule_now_ns() - since_ns > 2 * MINUTE_NS)
		fail("a balancer of service %" STR_FMT " is requested in another project",
		     STR_ARG(uid));
}

/* ---- Services that vanish without their controller ---- */

static const struct kube_model_object *
service_of_uid(struct str uid)
{
	for (size_t i = 0; i < kube_model_count(world.kube, KUBE_MODEL_SERVICE); i++) {
		const struct kube_model_object *o = kube_model_at(world.kube, KUBE_MODEL_SERVICE,
		                                                  i);

		if (str_eq(o->uid, uid))
			return o;
	}
	return NULL;
}

/* A Service that has had a balancer. A process is numbered by its replica and incarnation. */
static struct served {
	char uid[40];
	unsigned creator; /* the process that has created the balancer */
	unsigned deleter; /* that which has reported that it deletes the balancer; 0: none */
	bool is_forced;   /* a person has removed the finalizer */
	bool was_there;   /* before a restore of etcd */
	bool is_lost;     /* by a restore of etcd */
} served[256];            /* a ring */
static size_t n_served;

static unsigned
process_of(const struct replica *r)
{
	return r->incarnation * N_REPLICAS + r->index + 1;
}

static struct served *
find_served(struct str uid)
{
	for (size_t i = n_served; i > 0 && i + ARRAY_LEN(served) > n_served; i--) {
		if (str_eq_c(uid, served[(i - 1) % ARRAY_LEN(served)].uid))
			return &served[(i - 1) % ARRAY_LEN(served)];
	}
	return NULL;
}

static struct served *
note_served(struct str uid, unsigned creator)
{
	struct served *one = &served[n_served++ % ARRAY_LEN(served)];

	*one = (struct served){ .creator = creator };
	snprintf(one->uid, sizeof(one->uid), "%" STR_FMT, STR_ARG(uid));
	return one;
}

/* An Event shows that this process knows that the Service is being deleted. */
static void
note_deleter(const struct net_request *n)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct served *one;
	struct error err;

	if (!str_contains(n->request->body, STR("\"DeletingLoadBalancer\"")) ||
	    !json_parse(n->request->body, &doc, &err))
		return;
	one = find_served(json_text_at(&arena, yyjson_doc_get_root(doc), "involvedObject.uid"));
	if (one && n->incarnation == n->replica->incarnation)
		one->deleter = process_of(n->replica);
}

void
checks_note_forced(struct str uid)
{
	struct served *one = find_served(uid);

	if (!one)
		one = note_served(uid, 0);
	one->is_forced = true;
	world.was_forced = true;
}

/* The finalizer was removed by a person. Only a process that has created the balancer, and that
 * knows that the Service was being deleted, still deletes the balancer. */
static bool
may_be_orphan(struct str uid)
{
	const struct served *one = find_served(uid);
	bool is_known = false;

	for (unsigned i = 0; one && i < N_REPLICAS; i++)
		is_known |= replica_at(i)->is_running &&
		            one->creator == process_of(replica_at(i)) &&
		            one->deleter == one->creator;
	return one && one->is_forced && !is_known;
}

static bool
is_in_use(const struct kube_model_object *o)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	yyjson_val *service = o ? object_json(&arena, o) : NULL;

	return service && service_is_ours(service) &&
	       !json_at(service, "metadata.deletionTimestamp");
}

/* Has it shown addresses for some time, so that users have them? */
static bool
is_settled_service(struct str uid, int64_t for_ns)
{
	int64_t since_ns = shown_since_ns(uid);

	return since_ns > 0 && schedule_now_ns() - since_ns > for_ns;
}

void
checks_restore_begins(void)
{
	for (size_t i = 0; i < ARRAY_LEN(served); i++)
		served[i].was_there = served[i].uid[0] &&
		                      is_settled_service(str_c(served[i].uid), 10 * NS_PER_SEC) &&
		                      is_in_use(service_of_uid(str_c(served[i].uid)));
}

/* The person who has restored etcd may still need the balancers of these Services. */
void
checks_restore_ends(void)
{
	for (size_t i = 0; i < ARRAY_LEN(served); i++) {
		bool is_there = served[i].uid[0] && service_of_uid(str_c(served[i].uid));

		served[i].is_lost = !is_there && (served[i].was_there || served[i].is_lost);
	}
}

/* ccmd changes a balancer that has belonged to this Service. */
static void
check_owner(const struct hetzner_change *c)
{
	struct str uid = hetzner_label(c->before, UID_LABEL);
	const struct served *one = find_served(uid);
	bool is_taken = c->after && !str_eq(hetzner_label(c->after, UID_LABEL), uid);

	if (!c->after && one && one->is_lost)
		fail("the balancer of service %" STR_FMT ", which a restore has lost, is deleted",
		     STR_ARG(uid));
	if (world.was_restored || !is_settled_service(uid, 2 * MINUTE_NS) ||
	    !is_in_use(service_of_uid(uid)))
		return;
	if (is_taken)
		fail("the balancer of service %" STR_FMT " is given to another one", STR_ARG(uid));
	if (!c->after && ((const struct hetzner_balancer *)c->before)->ipv4.len > 0)
		fail("the balancer of service %" STR_FMT ", which uses it, is deleted",
		     STR_ARG(uid));
}

bool
checks_is_write(const struct net_request *n)
{
	if (strcmp(n->request->method, "GET") == 0)
		return false;
	if (n->host == HOST_CLOUD && world.sim->login &&
	    str_eq_c(n->request->target, world.sim->login))
		return false;
	if (str_starts(n->request->target, STR("/apis/authorization.k8s.io/")))
		return false; /* of commands */
	return n->host != HOST_KUBE || (!is_event(n->request) && !election_is_lease(n));
}

void
checks_arrived(const struct net_request *n)
{
	election_arrived(n);
	if (n->host == HOST_KUBE && is_event(n->request))
		note_deleter(n);
	foreign_check_request(n);
	if (!checks_is_write(n))
		return;
	n_writes++;
	election_check_write(n);
	check_creation(n);
}

/* ---- the cluster ---- */

/* A Node is deleted only if its machine does not exist. A Node without a provider ID is found by
 * its name. */
static void
check_node_deletion(const struct kube_model_object *node)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct str id = json_text_at(&arena, object_json(&arena, node), "spec.providerID");
	int64_t number = world.sim->number_of(id);

	if ((id.len == 0 || number > 0) && world.sim->has_server(number, node->name))
		fail("node %" STR_FMT " is deleted, and its server exists: %" STR_FMT,
		     STR_ARG(node->name), STR_ARG(id));
}

static size_t
count_bearing(struct str uid)
{
	size_t n = 0;

	for (size_t i = 0; i < world.project->n_of[HETZNER_BALANCER]; i++) {
		const struct hetzner_resource *lb = world.project->of[HETZNER_BALANCER][i];

		if (str_eq(hetzner_label(lb, UID_LABEL), uid))
			n++;
	}
	return n;
}

size_t
checks_hcloud_count(const struct kube_model_object *service)
{
	return count_bearing(service->uid);
}

static bool
has_finalizer(const struct kube_model_object *o)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;

	return o && list_has_text(json_at(object_json(&arena, o), "metadata.finalizers"),
	                          STR(FINALIZER));
}

/* Whose the finalizer of a Service is, of ccmd and the other controllers that use it: who has added
 * it, or ccmd if it had a balancer then, or has made one since. */
static struct {
	char uid[40];
	bool is_theirs;
} claims[256]; /* a ring */
static size_t n_claims;

bool
checks_is_finalizer_theirs(struct str uid)
{
	bool is_theirs = false;

	for (size_t i = n_claims > ARRAY_LEN(claims) ? n_claims - ARRAY_LEN(claims) : 0;
	     i < n_claims; i++) {
		if (str_eq_c(uid, claims[i % ARRAY_LEN(claims)].uid))
			is_theirs = claims[i % ARRAY_LEN(claims)].is_theirs;
	}
	return is_theirs;
}

static void
note_claim(struct str uid, bool is_theirs)
{
	size_t i = n_claims++ % ARRAY_LEN(claims);

	snprintf(claims[i].uid, sizeof(claims[i].uid), "%" STR_FMT, STR_ARG(uid));
	claims[i].is_theirs = is_theirs;
}

static bool
has_class(const struct kube_model_object *o)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;

	return json_at(object_json(&arena, o), "spec.loadBalancerClass") != NULL;
}

/* How often a process has asked the cloud about a Service of another class. */
static struct {
	char uid[40];
	unsigned replica, incarnation, n;
} asked[64]; /* a ring */
static size_t n_asked;

static void
count_question(const struct net_request *n, const struct kube_model_object *o)
{
	size_t i = n_asked > ARRAY_LEN(asked) ? n_asked - ARRAY_LEN(asked) : 0;

	while (i < n_asked && (!str_eq_c(o->uid, asked[i % ARRAY_LEN(asked)].uid) ||
	                       asked[i % ARRAY_LEN(asked)].replica != n->replica->index ||
	                       asked[i % ARRAY_LEN(asked)].incarnation != n->incarnation))
		i++;
	if (i == n_asked) {
		n_asked++;
		asked[i % ARRAY_LEN(asked)].replica = n->replica->index;
		asked[i % ARRAY_LEN(asked)].incarnation = n->incarnation;
		asked[i % ARRAY_LEN(asked)].n = 0;
		snprintf(asked[i % ARRAY_LEN(asked)].uid, sizeof(asked[0].uid), "%" STR_FMT,
		         STR_ARG(o->uid));
	}
	if (++asked[i % ARRAY_LEN(asked)].n > MAX_ASKED)
		fail("replica %s has asked the cloud %u times about service %" STR_FMT
		     ", which is another controller's",
		     n->replica->name, asked[i % ARRAY_LEN(asked)].n, STR_ARG(o->name));
}

/* What a Service of another controller costs: ccmd looks once whether it has left a balancer, and
 * again when the Service is deleted, however often other programs write to it. While the cloud
 * fails, it looks more often. */
static void
check_question(const struct net_request *n, const struct server_response *r)
{
	static const char search[] =
		"/v1/load_balancers?label_selector=hcloud-ccm%2Fservice-uid%3D";
	struct str target = n->request->target, uid;

	if (n->host != HOST_CLOUD || !world.is_changing || r->status != 200 ||
	    !str_starts(target, str_c(search)))
		return;
	uid = str_head(str_skip(target, strlen(search)), 36);
	for (size_t i = 0; i < kube_model_count(world.kube, KUBE_MODEL_SERVICE); i++) {
		const struct kube_model_object *o = kube_model_at(world.kube, KUBE_MODEL_SERVICE,
		                                                  i);

		if (str_eq(o->uid, uid) && has_class(o) && world.sim->count_balancers(o) == 0)
			count_question(n, o);
	}
}

void
checks_acted(const struct net_request *n, const struct server_response *r)
{
	check_question(n, r);
	if (r->status == 501)
		fail("the model does not know %s %" STR_FMT ": %" STR_FMT, n->request->method,
		     STR_ARG(n->request->target), STR_ARG(str_head(buf_str(&r->body), 300)));
}

static void
note_finalizer(const struct kube_model_change *c)
{
	if (!has_finalizer(c->before) && has_finalizer(c->after))
		note_claim(c->after->uid, !str_starts(c->token, STR("kube-")) &&
		                                  world.sim->count_balancers(c->after) == 0);
}

void
checks_note_balancer(struct str uid)
{
	note_claim(uid, /*is_theirs=*/false);
}

/* On a Service of another class, the finalizer is ccmd's only if ccmd has added it, and if the
 * other controller has not written a status: both use the same finalizer. */
static void
check_release(const struct kube_model_object *o)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	yyjson_val *service = object_json(&arena, o);
	bool is_local = !world.sim->is_look; /* each leader has load balancers of its own */

	/* what a restore has left of a former Service is counted by its name there */
	if (world.sim->count_balancers(o) > 0 &&
	    !(is_local && (election_is_unclear() || world.was_restored)))
		fail("the finalizer of service %" STR_FMT " is removed, and its balancer exists",
		     STR_ARG(o->name));
	/* a restore of etcd uses versions again, so a patch may change what its sender has not seen
	 */
	if (service_is_ours(service) && !json_at(service, "metadata.deletionTimestamp") &&
	    !world.was_restored)
		fail("the finalizer of service %" STR_FMT
		     " is removed, which wants a load balancer",
		     STR_ARG(o->name));
	if (has_class(o) && has_addresses(o) && !world.was_restored)
		fail("the finalizer of service %" STR_FMT
		     " is removed, which another controller serves",
		     STR_ARG(o->name));
	if (has_class(o) && checks_is_finalizer_theirs(o->uid))
		fail("another controller's finalizer of service %" STR_FMT " is removed",
		     STR_ARG(o->name));
}

/* A Service that a user has deleted meanwhile is no failure. */
static void
check_event(const struct kube_model_object *event)
{
	if (str_contains(event->json, STR("\"type\":\"Warning\"")) &&
	    str_contains(event->json, STR("services \\\"")) &&
	    str_contains(event->json, STR("\\\" not found")))
		fail("a Warning says that a Service does not exist: %" STR_FMT,
		     STR_ARG(str_head(event->json, 800)));
}

/* What others write is not a request that net.c has traced. */
static void
trace_service(const struct kube_model_change *c)
{
	trace("service %" STR_FMT " is written by %" STR_FMT ", finalizer: %s",
	      STR_ARG(c->before->name), STR_ARG(c->token.len > 0 ? c->token : c->user_agent),
	      has_finalizer(c->after) ? "yes" : "no");
}

#define SHUTDOWN_TAINT "node.cloudprovider.kubernetes.io/shutdown"

/* A machine that has run for a while is not off. */
static void
check_shutdown_taint(const struct kube_model_change *c)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	int64_t number;

	if (!world.project || !c->after || str_contains(c->before->json, STR(SHUTDOWN_TAINT)) ||
	    !str_contains(c->after->json, STR(SHUTDOWN_TAINT)))
		return;
	number = world.sim->number_of(json_text_at(&arena, object_json(&arena, c->after),
	                                           "spec.providerID"));
	for (size_t i = 0; i < world.n_machines; i++) {
		const struct machine *m = &world.machines[i];
		const struct hetzner_server *server = machine_server(m);

		if (str_eq_c(c->after->name, m->name) && server && m->server == number &&
		    str_eq_c(server->status, "running") &&
		    schedule_now_ns() - m->switched_ns > 5 * MINUTE_NS)
			fail("node %s gets the taint of a machine that is off, and it runs",
			     m->name);
	}
}

static void
on_kube_change(void *arg, const struct kube_model_change *c)
{
	const struct kube_model_object *one = c->after ? c->after : c->before;

	(void)arg;
	if (one->kind == KUBE_MODEL_LEASE && str_eq_c(one->name, LEASE_NAME))
		election_note_lease(c);
	if (one->kind == KUBE_MODEL_NODE)
		foreign_note_node(c);
	if (c->before && c->before->kind == KUBE_MODEL_SERVICE)
		trace_service(c);
	if (c->after && c->after->kind == KUBE_MODEL_SERVICE) {
		note_finalizer(c);
		note_status(c);
	}
	if (!c->before && one->kind == KUBE_MODEL_EVENT)
		check_event(one);
	if (!str_starts(c->token, STR("kube-")) || !c->before)
		return;
	foreign_check_write(c);
	if (c->before->kind == KUBE_MODEL_NODE) {
		check_shutdown_taint(c);
		foreign_check_condition(c);
	}
	if (c->before->kind == KUBE_MODEL_NODE && strcmp(c->method, "DELETE") == 0) {
		check_node_deletion(c->before);
		evidence_check(c->token, c->before);
	}
	if (c->before->kind == KUBE_MODEL_SERVICE && has_finalizer(c->before) &&
	    !has_finalizer(c->after))
		check_release(c->before);
}

/* ---- the cloud ---- */

static void
note_server(const struct hetzner_change *c)
{
	if (c->before && (!c->after || !str_eq(c->before->name, c->after->name)))
		evidence_gone(c->after ? 0 : c->before->id, c->before->name);
}

/* A balancer that is not labelled is ours only by the name that a Service asks for. */
static bool
is_foreign(const struct hetzner_resource *lb)
{
	return (hetzner_label(lb, UID_LABEL).len == 0 && str_starts(lb->name, STR("foreign-"))) ||
	       str_eq_c(hetzner_label(lb, CLUSTER_LABEL), OTHER_CLUSTER);
}

void
checks_hcloud_change(void *arg, const struct hetzner_change *c)
{
	const struct hetzner_resource *one = c->after ? c->after : c->before;

	(void)arg;
	if (one->kind == HETZNER_SERVER && c->project == world.project)
		note_server(c);
	if (one->kind == HETZNER_SERVER && c->project == world.project)
		foreign_note_server(c);
	if (one->kind == HETZNER_BALANCER && c->project == world.project)
		trace("balancer %lld: %" STR_FMT " by %" STR_FMT, (long long)one->id,
		      STR_ARG(c->command), STR_ARG(c->token.len > 0 ? c->token : c->user_agent));
	if (one->kind == HETZNER_NETWORK && str_starts(c->token, STR("hcloud-")))
		foreign_check_network(c);
	if (one->kind == HETZNER_NETWORK && c->project == world.project)
		foreign_note_network(c);
	if (!str_starts(c->token, STR("hcloud-")))
		return;
	if (one->kind != HETZNER_BALANCER && one->kind != HETZNER_NETWORK)
		fail("ccmd changes %" STR_FMT " by %" STR_FMT, STR_ARG(one->name),
		     STR_ARG(c->command));
	if (one->kind != HETZNER_BALANCER)
		return;
	if (!c->before)
		checks_note_balancer(hetzner_label(one, UID_LABEL));
	if (!c->before ||
	    !str_eq(hetzner_label(c->before, UID_LABEL), hetzner_label(one, UID_LABEL)))
		note_served(hetzner_label(one, UID_LABEL),
		            process_of(replica_at(str_ends(c->token, STR("-b")) ? 1 : 0)));
	if (c->before && c->project == world.project)
		check_owner(c);
	if (c->before && is_foreign(c->before))
		fail("ccmd changes the balancer %" STR_FMT " of somebody else", STR_ARG(one->name));
	if (c->project == world.project && c->after &&
	    count_bearing(hetzner_label(one, UID_LABEL)) > 1)
		fail("service %" STR_FMT " has two balancers",
		     STR_ARG(hetzner_label(one, UID_LABEL)));
}

void
checks_begin(void)
{
	kube_model_set_observer(world.kube, on_kube_change, NULL);
	system_set_log_observer(bounds_logged);
}

/* ---- the end ---- */

static bool
has_taint(struct arena *arena, yyjson_val *node, const char *key)
{
	yyjson_arr_iter iter = yyjson_arr_iter_with(json_at(node, "spec.taints"));
	yyjson_val *one;

	while ((one = yyjson_arr_iter_next(&iter))) {
		if (str_eq_c(json_text_at(arena, one, "key"), key))
			return true;
	}
	return false;
}

/* At the end, each machine has its first name again. */
static bool
has_hostname(struct arena *arena, yyjson_val *node, const char *name)
{
	yyjson_arr_iter iter = yyjson_arr_iter_with(json_at(node, "status.addresses"));
	yyjson_val *one;

	while ((one = yyjson_arr_iter_next(&iter))) {
		if (str_eq_c(json_text_at(arena, one, "type"), "Hostname"))
			return str_eq_c(json_text_at(arena, one, "address"), name);
	}
	return false;
}

static void
check_machine(const struct machine *m, struct buf *why)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	const struct kube_model_object *o = machine_node(m);
	yyjson_val *node;

	if (!m->server && o)
		buf_addf(why, "node %s exists without its server. ", m->name);
	if (!m->server)
		return;
	if (!o) {
		buf_addf(why, "node %s does not exist. ", m->name);
		return;
	}
	node = object_json(&arena, o);
	if (has_taint(&arena, node, "node.cloudprovider.kubernetes.io/uninitialized"))
		buf_addf(why, "node %s is not initialised. ", m->name);
	else if (!str_eq_c(json_text_at(&arena, node, "spec.providerID"), m->provider_id))
		buf_addf(why, "node %s has another provider ID than %s. ", m->name, m->provider_id);
	else if (!has_hostname(&arena, node, m->name))
		buf_addf(why, "node %s does not have the name of its machine as an address. ",
		         m->name);
	if (has_taint(&arena, node, "node.cloudprovider.kubernetes.io/shutdown"))
		buf_addf(why, "node %s has the taint of a machine that is off. ", m->name);
}

static bool
is_target(const struct hetzner_balancer *lb, int64_t server)
{
	for (size_t i = 0; i < lb->n_targets; i++) {
		if (lb->targets[i].server == server)
			return true;
	}
	return false;
}

static void
check_targets(const struct kube_model_object *service, const struct hetzner_balancer *lb,
              struct buf *why)
{
	size_t n_wanted = 0;

	for (size_t i = 0; i < world.n_machines; i++) {
		CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
		const struct machine *m = &world.machines[i];
		const struct kube_model_object *o = machine_node(m);
		yyjson_val *node;

		if (!m->server || !o)
			continue;
		node = object_json(&arena, o);
		if (json_key(json_at(node, "metadata.labels"), STR(EXCLUDED)))
			continue;
		n_wanted++;
		if (!is_target(lb, m->server))
			buf_addf(why, "service %" STR_FMT ": %s is no target. ",
			         STR_ARG(service->name), m->name);
	}
	if (lb->n_targets > n_wanted)
		buf_addf(why, "service %" STR_FMT " has %zu targets, %zu are wanted. ",
		         STR_ARG(service->name), lb->n_targets, n_wanted);
}

static bool
listens(const struct hetzner_balancer *lb, int64_t port)
{
	for (size_t i = 0; i < lb->n_services; i++) {
		if (lb->services[i].listen_port == port)
			return true;
	}
	return false;
}

static void
check_ports(const struct kube_model_object *o, yyjson_val *service,
            const struct hetzner_balancer *lb, struct buf *why)
{
	yyjson_val *ports = json_at(service, "spec.ports"), *one;
	yyjson_arr_iter iter = yyjson_arr_iter_with(ports);
	int64_t port = 0;

	while ((one = yyjson_arr_iter_next(&iter))) {
		if (json_i64(one, "port", &port) == JSON_FOUND && !listens(lb, port))
			buf_addf(why, "service %" STR_FMT ": port %lld is not served. ",
			         STR_ARG(o->name), (long long)port);
	}
	if (lb->n_services != yyjson_arr_size(ports))
		buf_addf(why, "service %" STR_FMT ": the balancer has %zu services. ",
		         STR_ARG(o->name), lb->n_services);
}

/* A hostname in the annotation is shown in place of the addresses. */
static void
check_addresses(const struct kube_model_object *o, yyjson_val *service,
                const struct hetzner_balancer *lb, struct buf *why)
{
	yyjson_val *first = yyjson_arr_get_first(json_at(service, "status.loadBalancer.ingress"));
	struct str hostname = json_text(json_key(json_at(service, "metadata.annotations"),
	                                         STR(HOSTNAME_ANNOTATION)));
	struct str wanted = hostname.len > 0 ? hostname : lb->ipv4;

	if (wanted.len == 0)
		buf_addf(why, "service %" STR_FMT ": the balancer has no address. ",
		         STR_ARG(o->name));
	else if (!str_eq(json_text(json_key(first, hostname.len > 0 ? STR("hostname") : STR("ip"))),
	                 wanted))
		buf_addf(why, "service %" STR_FMT " does not show %" STR_FMT ". ", STR_ARG(o->name),
		         STR_ARG(wanted));
}

void
checks_hcloud_service(const struct kube_model_object *o, yyjson_val *service, struct buf *why)
{
	const struct hetzner_balancer *lb = NULL;

	for (size_t i = 0; i < world.project->n_of[HETZNER_BALANCER]; i++) {
		if (str_eq(hetzner_label(world.project->of[HETZNER_BALANCER][i], UID_LABEL),
		           o->uid))
			lb = HETZNER_BALANCER_AT(world.project, i);
	}
	if (!service_is_ours(service)) {
		/* after a restore the finalizer may be missing, and with it the reason to search */
		if (lb && !world.was_restored)
			buf_addf(why, "service %" STR_FMT " has balancer %lld and wants none. ",
			         STR_ARG(o->name), (long long)lb->base.id);
		return;
	}
	if (!lb) {
		buf_addf(why, "service %" STR_FMT " has no balancer. ", STR_ARG(o->name));
		return;
	}
	check_addresses(o, service, lb, why);
	if (world.network && lb->n_networks == 0)
		buf_addf(why, "service %" STR_FMT ": the balancer is not in the network. ",
		         STR_ARG(o->name));
	check_ports(o, service, lb, why);
	check_targets(o, lb, why);
}

/* A balancer that bears the UID of no Service. After a restore ccmd keeps such a balancer and
 * reports it, because the Service may have vanished by mistake. The same is true if the Service has
 * vanished while no watch was open, and if the leader has not known it. */
static void
check_orphan(const struct hetzner_resource *lb, struct buf *why)
{
	struct str uid = hetzner_label(lb, UID_LABEL);

	if (uid.len == 0 || world.was_restored || service_of_uid(uid) || may_be_orphan(uid) ||
	    str_eq_c(uid, world.vanished_uid))
		return;
	buf_addf(why, "balancer %lld belongs to no service. ", (long long)lb->id);
}

void
checks_hcloud_rest(struct buf *why)
{
	for (size_t i = 0; i < world.project->n_of[HETZNER_BALANCER]; i++)
		check_orphan(world.project->of[HETZNER_BALANCER][i], why);
	foreign_check_routes(why);
}

/* ---- everything ---- */

/* Does only another program keep it from being deleted? */
static bool
is_held_by_other(yyjson_val *service)
{
	yyjson_val *finalizers = json_at(service, "metadata.finalizers");

	return yyjson_arr_size(finalizers) == 1 &&
	       list_has_text(finalizers, STR(FOREIGN_FINALIZER));
}

/* Its address may be another Service's by now. What another program has written after ccmd had done
 * its part stays. */
static void
check_held(const struct kube_model_object *o, struct buf *why)
{
	if (world.was_restored || may_be_orphan(o->uid))
		return;
	if (world.sim->count_balancers(o) > 0)
		buf_addf(why, "service %" STR_FMT " is deleted, and has a balancer. ",
		         STR_ARG(o->name));
	if (!has_class(o) && has_addresses(o) && !str_contains(o->json, STR(RIVAL_ADDRESS)))
		buf_addf(why, "service %" STR_FMT " is deleted, and shows addresses. ",
		         STR_ARG(o->name));
}

static void
check_service(const struct kube_model_object *o, struct buf *why)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	yyjson_val *service = object_json(&arena, o);

	if (!json_at(service, "metadata.deletionTimestamp")) {
		world.sim->check_service(o, service, why);
		if (service_is_ours(service) && !has_finalizer(o))
			buf_addf(why, "service %" STR_FMT " has no finalizer. ", STR_ARG(o->name));
		return;
	}
	if (is_held_by_other(service)) {
		check_held(o, why);
		return;
	}
	buf_addf(why, "service %" STR_FMT " is still there: ", STR_ARG(o->name));
	json_add_value(why, json_at(service, "metadata.finalizers"));
	buf_add_c(why, json_at(service, "spec.loadBalancerClass") ? " (other class). " : ". ");
}

/* Machines that are added again may have another name. */
static void
check_node(const struct kube_model_object *node, struct buf *why)
{
	for (size_t i = 0; i < world.n_machines; i++) {
		if (str_eq_c(node->name, world.machines[i].name))
			return;
	}
	buf_addf(why, "node %" STR_FMT " exists without its machine. ", STR_ARG(node->name));
}

bool
checks_is_settled(struct buf *why)
{
	if (world.is_shrinking)
		buf_add_c(why, "a person is about to remove machines. ");
	for (size_t i = 0; i < world.n_machines; i++)
		check_machine(&world.machines[i], why);
	for (size_t i = 0; i < kube_model_count(world.kube, KUBE_MODEL_SERVICE); i++)
		check_service(kube_model_at(world.kube, KUBE_MODEL_SERVICE, i), why);
	for (size_t i = 0; i < kube_model_count(world.kube, KUBE_MODEL_NODE); i++)
		check_node(kube_model_at(world.kube, KUBE_MODEL_NODE, i), why);
	world.sim->check_rest(why);
	return why->len == 0;
}
