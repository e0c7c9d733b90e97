/* tests/simulation/moments.c: events that wait for a request, because they matter just then.
 *
 * The answer to a request is outdated when something changes a moment later. By chance that happens
 * in few histories, so these events wait until a replica asks for what they change. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "world.h"

#define NODE_LEASES "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"

/* Any machine that has a Node; NULL: the chosen one has none. */
static struct machine *
any_node(struct rng *r)
{
	struct machine *m = world.n_machines > 0 ? &world.machines[rng_below(r, world.n_machines)]
	                                         : NULL;

	/* the first machine stays: history.c */
	return m && m != &world.machines[0] && machine_node(m) ? m : NULL;
}

/* The machine for whose Lease this request asks; NULL: it is another request. */
static struct machine *
asked_lease(const struct net_request *n)
{
	struct str target = n->request->target;

	if (n->host != HOST_KUBE || strcmp(n->request->method, "GET") != 0 ||
	    !str_starts(target, STR(NODE_LEASES)))
		return NULL;
	target = str_skip(target, strlen(NODE_LEASES));
	for (size_t i = 0; i < world.n_machines; i++) {
		if (str_eq_c(target, world.machines[i].name))
			return &world.machines[i];
	}
	return NULL;
}

/* Does this request ask for the server of the machine's Node? */
static bool
is_look_for(const struct net_request *n, const struct machine *m)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	const struct kube_model_object *o = machine_node(m);
	int64_t number;

	if (!o || n->host != HOST_CLOUD || !world.sim->is_look ||
	    !world.sim->is_look(n->request->target))
		return false;
	number = world.sim->number_of(json_text_at(&arena, object_json(&arena, o),
	                                           "spec.providerID"));
	return world.sim->is_about(n->request->target.ptr, number, o->name);
}

/* ---- a Node that is created again ---- */

static struct machine *replaced; /* NULL: none */

/* The machine is gone, and a person creates the Node again from its own text, as with "kubectl
 * replace --force", while ccmd asks for the machine. */
void
moments_replace_node(struct rng *r)
{
	struct machine *m = any_node(r);

	if (m && !m->server && !replaced)
		replaced = m;
}

/* Appends the object without its version. */
static void
add_without_version(struct buf *body, struct str json)
{
	static const char name[] = "\"resourceVersion\":\"";
	const char *begin = strstr(json.ptr, name);
	const char *end = begin ? strstr(begin + strlen(name), "\",") : NULL;

	if (!end)
		return;
	buf_add_str(body, str_n(json.ptr, (size_t)(begin - json.ptr)));
	buf_add_c(body, end + strlen("\","));
}

static void
replace(void *arg)
{
	CLEANUP(buf_fini) struct buf copy = BUF_INIT(1 << 20), body = BUF_INIT(1 << 20);
	const struct kube_model_object *o = replaced ? machine_node(replaced) : NULL;

	(void)arg;
	if (!o || world.is_settling) {
		replaced = NULL;
		return;
	}
	buf_add_str(&copy, o->json);
	buf_add_char(&copy, '\0');
	add_without_version(&body, str_c(copy.ptr));
	net_advance(HOST_KUBE);
	(void)kube_model_delete(world.kube, "user", o);
	trace("a user creates node %s again = %d", replaced->name,
	      kube_model_request(world.kube,
	                         &(struct kube_model_request){ .user_agent = "user",
	                                                       .method = "POST",
	                                                       .target = "/api/v1/nodes",
	                                                       .body = buf_str(&body) },
	                         NULL));
	replaced = NULL;
	net_arm(HOST_KUBE);
}

/* ---- a kubelet that reports once more ---- */

/* The machine of a Node seems to be gone, and ccmd has read the kubelet's Lease for the second
 * time: the decision follows immediately, and the report comes at the same time. */
static struct {
	bool is_wanted;
	struct machine *machine; /* NULL: the request has not been sent */
	struct rng random;
} report;

void
moments_kubelet_reports(struct rng *r)
{
	if (report.machine)
		return;
	report.is_wanted = true;
	report.random = *r;
}

static void
report_now(void *arg)
{
	struct machine *m = report.machine;
	bool is_ready = rng_chance(&report.random, 500);

	(void)arg;
	report.machine = NULL;
	if (!machine_node(m) || world.is_settling)
		return;
	trace("kubelet %s reports once more, Ready: %s", m->name, is_ready ? "True" : "False");
	net_advance(HOST_KUBE);
	kube_model_renew_node(world.kube, str_c(m->name));
	(void)kube_model_set_ready(world.kube, str_c(m->name), is_ready ? "True" : "False");
	m->heard_ns = schedule_now_ns();
	net_arm(HOST_KUBE);
}

static void
note_lease_read(struct machine *m)
{
	int64_t since_ns = schedule_now_ns() - m->lease_read_ns;
	bool is_second = m->lease_read_ns > 0 && since_ns > 5 * NS_PER_SEC && since_ns < MINUTE_NS;

	if (m->lease_read_ns < m->heard_ns)
		m->first_read_ns = schedule_now_ns();
	m->lease_read_ns = schedule_now_ns();
	if (replaced == m && is_second)
		schedule_at(schedule_now_ns(), replace, NULL);
	if (!report.is_wanted || report.machine || !is_second)
		return;
	report.is_wanted = false;
	report.machine = m;
	schedule_at(schedule_now_ns() + rng_between(&report.random, 0, 12) * NS_PER_MS, report_now,
	            NULL);
}

/* ---- an announcement that is withdrawn ---- */

static struct machine *announced; /* NULL: none */

static bool
is_not_ready(const struct machine *m)
{
	const struct kube_model_object *o = machine_node(m);

	return o && !str_contains(o->json, STR("{\"type\":\"Ready\",\"status\":\"True\""));
}

/* The autoscaler taints a Node, deletes its machine, and removes the taint while ccmd asks for the
 * machine. */
void
moments_scale_down(struct rng *r)
{
	struct machine *m = any_node(r);

	if (!m || announced)
		return;
	trace("the autoscaler deletes machine %s", m->name);
	node_set_taint(machine_node(m), AUTOSCALER_TAINT, true);
	if (m->server)
		world.sim->delete_machine(m);
	m->server = 0;
	if (rng_chance(r, 700))
		announced = m;
}

static void
withdraw(void *arg)
{
	struct machine *m = announced;

	(void)arg;
	announced = NULL;
	if (!m || !machine_node(m) || world.is_settling)
		return;
	trace("the autoscaler removes the taint of node %s", m->name);
	net_advance(HOST_KUBE);
	node_set_taint(machine_node(m), AUTOSCALER_TAINT, false);
	net_arm(HOST_KUBE);
}

/* ---- a machine that the cloud does not know for some seconds ---- */

/* Hetzner's API answers for less than the twelve seconds between two checks that the server does
 * not exist. When a check has found it again, it disappears a second time. If no check finds it in
 * between, it must not disappear again, because two checks would agree then. */
#define HIDDEN_NS (8 * NS_PER_SEC)
#define AFTER_CHECK_NS (12 * NS_PER_SEC) /* from one check to the next, after an absence */

static struct {
	struct machine *machine; /* NULL: none */
	enum {
		VISIBLE,
		HIDDEN,
		NOTICED, /* a replica has read the Lease, so it has noticed the absence */
	} state;
	int64_t since_ns, until_ns;
	unsigned replica, incarnation; /* the one that has noticed it */
} hidden;

static void
show(void)
{
	struct hetzner_settings *settings = hetzner_settings(world.cloud);

	if (settings->hidden_server == 0)
		return;
	settings->hidden_server = 0;
	foreign_note_incomplete();
	trace("the cloud knows machine %s again", hidden.machine->name);
}

void
moments_end(void)
{
	if (!hidden.machine)
		return;
	show();
	hidden.machine = NULL;
}

/* Its kubelet stops, so that ccmd asks for the machine. */
void
moments_hide_machine(struct rng *r)
{
	struct machine *m = any_node(r);

	if (!m || !m->server || hidden.machine)
		return;
	trace("kubelet %s stops, and the cloud forgets the machine now and then", m->name);
	m->is_silent = true;
	hidden.machine = m;
	hidden.state = VISIBLE;
	hidden.since_ns = 0;
	hidden.until_ns = schedule_now_ns() + rng_between(r, 2, 5) * MINUTE_NS;
}

static bool
has_faults(enum host host)
{
	static const struct net_faults none;

	return memcmp(net_faults(host), &none, sizeof(none)) != 0;
}

static void
hide_or_show(const struct net_request *n)
{
	int64_t now_ns = schedule_now_ns(), since_ns = now_ns - hidden.since_ns;

	if (now_ns > hidden.until_ns || hidden.machine->server == 0 || has_faults(HOST_CLOUD) ||
	    !world.sim->is_own_token(n->request->token)) {
		moments_end();
		return;
	}
	switch (hidden.state) {
	case VISIBLE:
		if (hidden.since_ns > 0 && since_ns < HIDDEN_NS)
			return;
		trace("the cloud does not know machine %s", hidden.machine->name);
		hetzner_settings(world.cloud)->hidden_server = hidden.machine->server;
		hidden.state = HIDDEN;
		hidden.since_ns = now_ns;
		return;
	case HIDDEN:
		if (since_ns < HIDDEN_NS)
			return;
		show();
		hidden.state = VISIBLE;
		hidden.since_ns = now_ns;
		return;
	case NOTICED:
		if (since_ns < HIDDEN_NS)
			return;
		show();
		if (since_ns < AFTER_CHECK_NS - NS_PER_SEC)
			return;
		if (since_ns > AFTER_CHECK_NS + 2 * NS_PER_SEC ||
		    n->replica->index != hidden.replica || n->incarnation != hidden.incarnation) {
			moments_end();
			return;
		}
		hidden.state = VISIBLE;
		hidden.since_ns = now_ns;
		return;
	}
}

/* ---- requests ---- */

void
moments_arrived(const struct net_request *n)
{
	if (world.is_settling)
		return;
	if (announced && is_not_ready(announced) && is_look_for(n, announced))
		schedule_at(schedule_now_ns(), withdraw, NULL);
	if (hidden.machine && is_look_for(n, hidden.machine))
		hide_or_show(n);
}

void
moments_acted(const struct net_request *n)
{
	struct machine *m = world.is_settling ? NULL : asked_lease(n);

	if (!m)
		return;
	note_lease_read(m);
	if (hidden.machine != m || hidden.state == VISIBLE)
		return;
	hidden.state = NOTICED;
	hidden.since_ns = schedule_now_ns();
	hidden.replica = n->replica->index;
	hidden.incarnation = n->incarnation;
}
