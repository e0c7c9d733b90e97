/* tests/simulation/sim_example.c: a cluster at the example cloud, and what may happen there; see
 * sim_cloud.h.
 *
 * This is the provider that authors of clouds copy, so its histories test what src/cloud does for
 * their providers. A balancer has the Service's UID as its label. */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "example.h"
#include "world.h"

#define PREFIX "example://"
#define BASE "/v1"

static const char *const own_tokens[N_REPLICAS] = { "example-a", "example-b" };
static const char *const other_tokens[N_REPLICAS] = { "example-other-a", "example-other-b" };

static struct example *cloud;
static struct example_account *own, *other;

/* ---- the account and its tokens ---- */

static void
set_account(enum account account)
{
	for (unsigned i = 0; i < N_REPLICAS; i++) {
		example_set_token(cloud, str_c(own_tokens[i]),
		                  account == ACCOUNT_REFUSED ? NULL : own);
		replica_write_token(replica_at(i),
		                    account == ACCOUNT_OTHER ? other_tokens[i] : own_tokens[i]);
	}
}

static bool
is_own_token(struct str token)
{
	return str_eq_c(token, own_tokens[0]) || str_eq_c(token, own_tokens[1]);
}

/* ---- what ccmd may change ---- */

static size_t
count_labelled(struct str uid)
{
	size_t n = 0;

	for (size_t i = 0; i < example_count(own, EXAMPLE_BALANCERS); i++)
		n += str_eq(example_text(example_at(own, EXAMPLE_BALANCERS, i), "label"), uid);
	return n;
}

static size_t
count_balancers(const struct kube_model_object *service)
{
	return count_labelled(service->uid);
}

static void
on_change(void *arg, const struct example_change *c)
{
	struct str id = example_text(c->item, "id"), label = example_text(c->item, "label");

	(void)arg;
	trace("%s %" STR_FMT " of %" STR_FMT ": %s by %" STR_FMT,
	      c->kind == EXAMPLE_BALANCERS ? "balancer" : "machine", STR_ARG(id), STR_ARG(label),
	      c->method, STR_ARG(c->token.len > 0 ? c->token : STR("a person")));
	if (c->token.len == 0)
		return;
	if (c->account != own)
		fail("ccmd changes another account by %s", c->method);
	if (c->kind != EXAMPLE_BALANCERS)
		fail("ccmd changes machine %" STR_FMT " by %s", STR_ARG(id), c->method);
	if (label.len == 0)
		fail("ccmd changes the balancer %" STR_FMT " of somebody else by %s", STR_ARG(id),
		     c->method);
	if (strcmp(c->method, "POST") == 0)
		checks_note_balancer(label);
	if (count_labelled(label) > 1)
		fail("service %" STR_FMT " has two balancers", STR_ARG(label));
}

/* ---- the beginning ---- */

static struct server *
begin(uint64_t seed, struct rng *r)
{
	struct example_settings *settings;

	(void)seed;
	cloud = example_new(WALL_START_NS);
	own = example_add_account(cloud);
	other = example_add_account(cloud);
	example_set_limit(other, 0);
	for (unsigned i = 0; i < N_REPLICAS; i++)
		example_set_token(cloud, str_c(other_tokens[i]), other);
	set_account(ACCOUNT_OWN);
	settings = example_settings(cloud);
	if (rng_chance(r, 500))
		settings->page_max = 50;
	if (rng_chance(r, 300))
		settings->address_ns = rng_between(r, 1, 20) * NS_PER_SEC;
	(void)example_request(cloud, own, "POST", "/balancers", "{\"name\":\"foreign\"}");
	example_set_observer(cloud, on_change, NULL);
	return example_server(cloud);
}

static void
configure(const struct replica *r, struct sim_start *start)
{
	sim_variable(start, "EXAMPLE_URL", "http://192.0.2.2" BASE);
	sim_variable(start, "EXAMPLE_TOKEN_FILE", replica_token_file(r));
}

/* ---- machines ---- */

static yyjson_mut_val *
machine_of(int64_t number)
{
	char id[24];

	snprintf(id, sizeof(id), "%lld", (long long)number);
	return example_find(own, EXAMPLE_MACHINES, str_c(id));
}

static bool
add_machine(struct machine *m)
{
	struct str id = example_text(example_add_machine(cloud, own, m->name, m->ip), "id");

	snprintf(m->provider_id, sizeof(m->provider_id), PREFIX "%" STR_FMT, STR_ARG(id));
	return str_to_i64(id, 1, INT64_MAX, &m->server);
}

static void
delete_machine(struct machine *m)
{
	char target[40];

	snprintf(target, sizeof(target), "/machines/%lld", (long long)m->server);
	evidence_gone(m->server, example_text(machine_of(m->server), "name"));
	(void)example_request(cloud, own, "DELETE", target, "");
}

static bool
rebuild_machine(struct machine *m)
{
	delete_machine(m);
	return add_machine(m);
}

static void
rename_machine(struct machine *m)
{
	char name[40];

	evidence_gone(0, example_text(machine_of(m->server), "name"));
	snprintf(name, sizeof(name), "%s-renamed", m->name);
	example_set_text(cloud, machine_of(m->server), "name", name);
}

static bool
is_running(const struct machine *m)
{
	return str_eq_c(example_text(machine_of(m->server), "state"), "running");
}

static const char *
switch_machine(struct machine *m)
{
	bool is_on = is_running(m);

	example_set_text(cloud, machine_of(m->server), "state", is_on ? "stopped" : "running");
	return is_on ? "off" : "running";
}

static void
settle_machine(struct machine *m)
{
	example_set_text(cloud, machine_of(m->server), "state", "running");
	example_set_text(cloud, machine_of(m->server), "name", m->name);
	example_set_text(cloud, machine_of(m->server), "ip", m->ip);
}

static int64_t
number_of(struct str id)
{
	int64_t number;

	if (!str_starts(id, STR(PREFIX)) ||
	    !str_to_i64(str_skip(id, strlen(PREFIX)), 1, INT64_MAX, &number))
		return 0;
	return number;
}

static bool
has_server(int64_t number, struct str name)
{
	if (number > 0)
		return machine_of(number) != NULL;
	for (size_t i = 0; i < example_count(own, EXAMPLE_MACHINES); i++) {
		if (str_eq(example_text(example_at(own, EXAMPLE_MACHINES, i), "name"), name))
			return true;
	}
	return false;
}

/* ---- requests for machines ---- */

static bool
is_look(struct str target)
{
	return str_starts(target, STR(BASE "/machines"));
}

/* Only a request for the machine itself shows that it does not exist. */
static bool
is_about(const char *target, int64_t number, struct str name)
{
	char by_id[60];

	(void)name;
	snprintf(by_id, sizeof(by_id), BASE "/machines/%lld", (long long)number);
	return number > 0 ? strcmp(target, by_id) == 0
	                  : str_starts(str_c(target), STR(BASE "/machines?"));
}

static struct str
empty_list(struct str target)
{
	return str_starts(target, STR(BASE "/machines?")) ? STR("{\"machines\":[],\"total\":0}")
	                                                  : STR_EMPTY;
}

/* ---- the end ---- */

static void
release(void)
{
	/* nothing hangs */
}

static void
settle(void)
{
	example_set_limit(own, SIZE_MAX);
}

static bool
has_text(yyjson_mut_val *list, const char *text)
{
	yyjson_mut_arr_iter iter = yyjson_mut_arr_iter_with(list);
	yyjson_mut_val *one;

	while ((one = yyjson_mut_arr_iter_next(&iter))) {
		if (yyjson_mut_equals_str(one, text))
			return true;
	}
	return false;
}

static void
check_ports(const struct kube_model_object *o, yyjson_val *service, yyjson_mut_val *lb,
            struct buf *why)
{
	yyjson_val *ports = json_at(service, "spec.ports"), *one;
	yyjson_mut_val *served = yyjson_mut_obj_get(lb, "ports");
	size_t i, n;

	yyjson_arr_foreach(ports, i, n, one)
	{
		char text[40];

		snprintf(text, sizeof(text), "%d:%d", (int)json_i64_or(one, "port", 0),
		         (int)json_i64_or(one, "nodePort", 0));
		if (!has_text(served, text))
			buf_addf(why, "service %" STR_FMT ": %s is not served. ", STR_ARG(o->name),
			         text);
	}
	if (yyjson_mut_arr_size(served) != yyjson_arr_size(ports))
		buf_addf(why, "service %" STR_FMT ": the balancer has %zu ports. ",
		         STR_ARG(o->name), yyjson_mut_arr_size(served));
}

static void
check_targets(const struct kube_model_object *o, yyjson_mut_val *lb, struct buf *why)
{
	yyjson_mut_val *targets = yyjson_mut_obj_get(lb, "targets");
	size_t n_wanted = 0;

	for (size_t i = 0; i < world.n_machines; i++) {
		const struct machine *m = &world.machines[i];

		if (!world_is_target(m))
			continue;
		n_wanted++;
		if (!has_text(targets, m->provider_id + strlen(PREFIX)))
			buf_addf(why, "service %" STR_FMT ": %s is no target. ", STR_ARG(o->name),
			         m->name);
	}
	if (yyjson_mut_arr_size(targets) != n_wanted)
		buf_addf(why, "service %" STR_FMT " has %zu targets, %zu are wanted. ",
		         STR_ARG(o->name), yyjson_mut_arr_size(targets), n_wanted);
}

static void
check_service(const struct kube_model_object *o, yyjson_val *service, struct buf *why)
{
	yyjson_mut_val *lb = NULL;

	for (size_t i = 0; i < example_count(own, EXAMPLE_BALANCERS); i++) {
		yyjson_mut_val *one = example_at(own, EXAMPLE_BALANCERS, i);

		if (str_eq(example_text(one, "label"), o->uid))
			lb = one;
	}
	if (!service_is_ours(service)) {
		/* after a restore the finalizer may be missing, and with it the reason to search */
		if (lb && !world.was_restored)
			buf_addf(why, "service %" STR_FMT " has a balancer and wants none. ",
			         STR_ARG(o->name));
		return;
	}
	if (!lb) {
		buf_addf(why, "service %" STR_FMT " has no balancer. ", STR_ARG(o->name));
		return;
	}
	if (!str_contains(o->json, example_text(lb, "ip")))
		buf_addf(why, "service %" STR_FMT " does not show %" STR_FMT ". ", STR_ARG(o->name),
		         STR_ARG(example_text(lb, "ip")));
	check_ports(o, service, lb, why);
	check_targets(o, lb, why);
}

/* After a restore ccmd keeps balancers of Services that do not exist. */
static void
check_rest(struct buf *why)
{
	for (size_t i = 0; i < example_count(own, EXAMPLE_BALANCERS) && !world.was_restored; i++) {
		struct str uid = example_text(example_at(own, EXAMPLE_BALANCERS, i), "label");
		bool is_needed = uid.len == 0;

		for (size_t k = 0; k < kube_model_count(world.kube, KUBE_MODEL_SERVICE); k++)
			is_needed |= str_eq(kube_model_at(world.kube, KUBE_MODEL_SERVICE, k)->uid,
			                    uid);
		if (!is_needed)
			buf_addf(why, "the balancer of %" STR_FMT " belongs to no service. ",
			         STR_ARG(uid));
	}
}

/* ---- events ---- */

static void
ask(const char *method, const char *target, const char *body)
{
	trace("a person sends %s %s %s = %d", method, target, body,
	      example_request(cloud, own, method, target, body));
}

/* One that no Service asks for comes or goes, so that other ones move to other pages. */
void
sim_example_makes_balancer(struct rng *r)
{
	char body[100];

	snprintf(body, sizeof(body), "{\"name\":\"foreign-%d\"}", (int)rng_below(r, 4));
	ask("POST", "/balancers", body);
}

void
sim_example_changes_balancer(struct rng *r)
{
	static const char *const bodies[] = { "{\"ports\":[]}", "{\"targets\":[]}",
		                              "{\"name\":\"changed\"}" };
	size_t n = example_count(own, EXAMPLE_BALANCERS), kind = rng_below(r, 4);
	char target[40];
	struct str id;

	if (n == 0)
		return;
	id = example_text(example_at(own, EXAMPLE_BALANCERS, rng_below(r, n)), "id");
	snprintf(target, sizeof(target), "/balancers/%" STR_FMT, STR_ARG(id));
	if (kind < ARRAY_LEN(bodies))
		ask("PUT", target, bodies[kind]);
	else
		ask("DELETE", target, "");
}

/* A machine has no address while it is being installed. */
void
sim_example_installs_machine(struct rng *r)
{
	const struct machine *m = &world.machines[rng_below(r, world.n_machines)];
	bool has_address;

	if (m->server == 0)
		return;
	has_address = example_text(machine_of(m->server), "ip").len > 0;
	trace("machine %s %s its address", m->name, has_address ? "loses" : "has");
	example_set_text(cloud, machine_of(m->server), "ip", has_address ? "" : m->ip);
}

/* The account's limit is reached, or raised again. */
void
sim_example_sets_limit(struct rng *r)
{
	bool is_reached = rng_chance(r, 500);

	trace("the account's limit of balancers is %s", is_reached ? "reached" : "raised");
	example_set_limit(own, is_reached ? 0 : SIZE_MAX);
}

const struct sim_cloud sim_example = {
	.name = "example",
	.prefix = PREFIX,
	.bit = EXAMPLE,
	.begin = begin,
	.configure = configure,
	.set_account = set_account,
	.is_own_token = is_own_token,
	.release = release,
	.settle = settle,
	.add_machine = add_machine,
	.delete_machine = delete_machine,
	.rebuild_machine = rebuild_machine,
	.rename_machine = rename_machine,
	.switch_machine = switch_machine,
	.settle_machine = settle_machine,
	.is_running = is_running,
	.number_of = number_of,
	.has_server = has_server,
	.is_look = is_look,
	.is_about = is_about,
	.empty_list = empty_list,
	.count_balancers = count_balancers,
	.check_service = check_service,
	.check_rest = check_rest,
	.algorithm_key = "example.com/algorithm",
	.algorithms = { "a", "b" },
	.of_all = { 1500, 10, 20, 10, 3 },
	.of_one = { 300, 3, 3, 0, 0 },
	.max_idle = 20,
	.repeats_refused = true,
};
