/* tests/simulation/sim_hcloud.c: a cluster at Hetzner; see sim_cloud.h. What its load balancers
 * must be is in checks.c, its network in foreign.c, its events are in history.c. */
#include "sim_cloud.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "world.h"

static const char *const own_tokens[N_REPLICAS] = { "hcloud-a", "hcloud-b" };
static const char *const other_tokens[N_REPLICAS] = { "hcloud-other-a", "hcloud-other-b" };

/* ---- the project and its token ---- */

static void
set_account(enum account account)
{
	for (unsigned i = 0; i < N_REPLICAS; i++) {
		hetzner_revoke_token(world.cloud, str_c(own_tokens[i]));
		if (account != ACCOUNT_REFUSED)
			hetzner_add_token(world.cloud, world.project, str_c(own_tokens[i]), true);
		replica_write_token(replica_at(i),
		                    account == ACCOUNT_OTHER ? other_tokens[i] : own_tokens[i]);
	}
}

static bool
is_own_token(struct str token)
{
	return str_eq_c(token, own_tokens[0]) || str_eq_c(token, own_tokens[1]);
}

static struct server *
begin(uint64_t seed, struct rng *r)
{
	struct hetzner_settings *settings;

	world.cloud = hetzner_new(WALL_START_NS, seed);
	world.project = hetzner_add_project(world.cloud, STR("person"));
	world.other = hetzner_add_project(world.cloud, STR("stranger"));
	world.other->max_balancers = 0;
	for (unsigned i = 0; i < N_REPLICAS; i++)
		hetzner_add_token(world.cloud, world.other, str_c(other_tokens[i]), true);
	set_account(ACCOUNT_OWN);
	settings = hetzner_settings(world.cloud);
	settings->action_min_ns = 100 * NS_PER_MS;
	settings->action_max_ns = 2 * NS_PER_SEC;
	if (!r)
		return hetzner_server(world.cloud);
	if (!rng_chance(r, 700))
		settings->action_max_ns = 20 * NS_PER_SEC;
	settings->deletes_without_action = rng_chance(r, 300);
	if (rng_chance(r, 250))
		settings->per_page_max = 4;
	world.has_network = rng_chance(r, 400);
	if (world.has_network)
		world_add_network();
	(void)hetzner_add_primary_ip(world.cloud, world.project, STR("foreign"), false, NULL);
	hetzner_set_observer(world.cloud, checks_hcloud_change, NULL);
	return hetzner_server(world.cloud);
}

static void
configure(const struct replica *r, struct sim_start *start)
{
	sim_variable(start, "HCLOUD_TOKEN_FILE", replica_token_file(r));
	sim_variable(start, "HCLOUD_ENDPOINT", "http://192.0.2.2/v1");
	sim_variable(start, "HCLOUD_METRICS_ENABLED", "false");
	sim_variable(start, "HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1");
	sim_variable(start, "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK", "true");
	if (!world.has_network)
		return;
	sim_variable(start, "HCLOUD_NETWORK", "net");
	sim_argument(start, "--allocate-node-cidrs=true");
	sim_argument(start, "--cluster-cidr=" POD_NETWORK "0.0/16");
}

/* ---- the network ---- */

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

/* ---- machines ---- */

static void
set_server(struct machine *m, const struct hetzner_server *server)
{
	m->server = server ? server->base.id : 0;
	snprintf(m->provider_id, sizeof(m->provider_id), "hcloud://%lld", (long long)m->server);
}

static bool
add_machine(struct machine *m)
{
	struct hetzner_new_server wanted = { .network = world.network };

	wanted.name = str_c(m->name);
	if (world.network)
		wanted.private_ip = str_c(m->ip);
	set_server(m, hetzner_add_server(world.cloud, world.project, &wanted));
	return m->server != 0;
}

static void
delete_machine(struct machine *m)
{
	hetzner_delete_server(world.cloud, world.project, machine_server(m));
}

static bool
rebuild_machine(struct machine *m)
{
	if (!str_eq_c(machine_server(m)->base.name, m->name))
		return false;
	set_server(m, hetzner_replace_server(world.cloud, world.project, machine_server(m)));
	return true;
}

static void
rename_machine(struct machine *m)
{
	char name[48];

	snprintf(name, sizeof(name), "%s-renamed", m->name);
	hetzner_rename_server(world.cloud, world.project, machine_server(m), str_c(name));
}

static bool
is_running(const struct machine *m)
{
	const struct hetzner_server *server = machine_server(m);

	return server && str_eq_c(server->status, "running");
}

static const char *
switch_machine(struct machine *m)
{
	const char *status = is_running(m) ? "off" : "running";

	hetzner_set_status(world.cloud, world.project, machine_server(m), status);
	return status;
}

static void
settle_machine(struct machine *m)
{
	struct hetzner_server *server = machine_server(m);

	if (!is_running(m))
		hetzner_set_status(world.cloud, world.project, server, "running");
	if (!str_eq_c(server->base.name, m->name))
		hetzner_rename_server(world.cloud, world.project, server, str_c(m->name));
	machine_attach(m);
}

static int64_t
number_of(struct str id)
{
	int64_t number;

	if (!str_starts(id, STR("hcloud://")) ||
	    !str_to_i64(str_skip(id, strlen("hcloud://")), 1, INT64_MAX, &number))
		return 0;
	return number;
}

static bool
has_server(int64_t number, struct str name)
{
	return number > 0 ? hetzner_find(world.project, HETZNER_SERVER, number) != NULL
	                  : hetzner_find_named(world.project, HETZNER_SERVER, name) != NULL;
}

/* ---- requests for servers ---- */

static bool
is_look(struct str target)
{
	return str_starts(target, STR("/v1/servers"));
}

/* Lists show every machine. */
static bool
is_about(const char *target, int64_t number, struct str name)
{
	char by_id[64], by_name[100];

	snprintf(by_id, sizeof(by_id), "/v1/servers/%lld", (long long)number);
	snprintf(by_name, sizeof(by_name), "name=%" STR_FMT "&", STR_ARG(name));
	if (str_starts(str_c(target), STR("/v1/servers/")))
		return number > 0 && strcmp(target, by_id) == 0;
	return !strstr(target, "name=") || (number == 0 && strstr(target, by_name));
}

static struct str
empty_list(struct str target)
{
	if (!str_starts(target, STR("/v1/servers?")))
		return STR_EMPTY;
	foreign_note_incomplete();
	return STR("{\"servers\":[],\"meta\":{\"pagination\":{\"page\":1,\"per_page\":50,"
	           "\"previous_page\":null,\"next_page\":null,\"last_page\":1,"
	           "\"total_entries\":0}}}");
}

/* ---- the end of faults ---- */

static void
release(void)
{
	hetzner_release(world.cloud, world.project);
}

/* Those that stand in the way of a Service. */
static void
delete_balancers_of_others(void *arg)
{
	bool is_any = false;

	(void)arg;
	net_advance(HOST_CLOUD);
	for (size_t i = world.project->n_of[HETZNER_BALANCER]; i-- > 0;) {
		const struct hetzner_resource *lb = world.project->of[HETZNER_BALANCER][i];
		char target[100];

		if (!str_eq_c(hetzner_label(lb, CLUSTER_LABEL), OTHER_CLUSTER))
			continue;
		snprintf(target, sizeof(target), "/load_balancers/%lld", (long long)lb->id);
		(void)hetzner_request(world.cloud, world.project, "person", "DELETE", target,
		                      STR_EMPTY);
		is_any = true;
	}
	net_arm(HOST_CLOUD);
	if (is_any) /* a DELETE is refused while an action runs */
		schedule_at(schedule_now_ns() + MINUTE_NS, delete_balancers_of_others, NULL);
}

static void
settle(void)
{
	hetzner_forget_dooms(world.project);
	hetzner_release(world.cloud, world.project);
	delete_balancers_of_others(NULL);
	hetzner_settings(world.cloud)->unlisted_server = 0;
	moments_end();
	foreign_note_incomplete();
	hetzner_settings(world.cloud)->targets_outlive_servers = false;
	hetzner_drop_dead_targets(world.cloud, world.project);
	if (world.has_network && !world.network) {
		world_add_network();
		world_restart_replicas();
	}
}

const struct sim_cloud sim_hcloud = {
	.name = "hcloud",
	.prefix = "hcloud://",
	.bit = HCLOUD,
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
	.count_balancers = checks_hcloud_count,
	.check_service = checks_hcloud_service,
	.check_rest = checks_hcloud_rest,
	.algorithm_key = "load-balancer.hetzner.cloud/algorithm-type",
	.algorithms = { "least_connections", "round_robin" },
	/* Most of the base is for Nodes without a provider ID whose server is not found: each
	 * attempt for one of them asks for all of them by name. */
	.of_all = { 800, 3, 10, 6, 2 },
	.of_one = { 140, 1, 1, 0, 0 },
	.max_idle = 3,
};
