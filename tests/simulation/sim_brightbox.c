/* tests/simulation/sim_brightbox.c: a cluster at Brightbox, and what may happen there; see
 * sim_cloud.h.
 *
 * A Service has a load balancer, a cloud IP, a server group and a firewall policy, which have its
 * name: "s1.default.ours". The name of a Node is the id of its server. */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "brightbox.h"
#include "world.h"

#define PREFIX "brightbox://"
#define SUFFIX ".default." CLUSTER
#define POLICY_KEY "service.beta.kubernetes.io/brightbox-load-balancer-policy"

enum {
	ID_LETTERS = 5,
	ID_BASE = 36,
};

static struct brightbox *cloud;
static struct brightbox_account *own, *other;

static const struct {
	const char *id, *secret;
} own_clients[N_REPLICAS] = { { "cli-owna", "secret-a" }, { "cli-ownb", "secret-b" } },
  other_clients[N_REPLICAS] = { { "cli-othera", "other-a" }, { "cli-otherb", "other-b" } };

/* ---- names ---- */

/* 0: it is no id of a server. */
static int64_t
number_of_server(struct str id)
{
	int64_t number = 0;

	if (!str_starts(id, STR("srv-")) || id.len != strlen("srv-") + ID_LETTERS)
		return 0;
	for (size_t i = strlen("srv-"); i < id.len; i++) {
		char c = id.ptr[i];

		number = number * ID_BASE + (c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return number + 1;
}

static int64_t
number_of(struct str provider_id)
{
	return str_starts(provider_id, STR(PREFIX))
	               ? number_of_server(str_skip(provider_id, strlen(PREFIX)))
	               : 0;
}

/* The Service that the object was made for, by its name; empty: it was not made for a Service. */
static struct str
service_of(struct str name)
{
	return str_ends(name, STR(SUFFIX)) ? str_head(name, name.len - strlen(SUFFIX)) : STR_EMPTY;
}

static bool
is_named(const struct brightbox_object *o, struct str service)
{
	return service.len > 0 && str_eq(service_of(o->name), service);
}

static bool
is_leaving(const struct brightbox_balancer *lb)
{
	return str_eq_c(lb->status, "deleting") || str_eq_c(lb->status, "deleted");
}

/* Is it a load balancer that was made for a Service? */
static bool
is_our_balancer(struct str id)
{
	const struct brightbox_object *lb = id.len > 0 ? brightbox_find(own, BRIGHTBOX_BALANCER, id)
	                                               : NULL;

	return lb && service_of(lb->name).len > 0;
}

/* ---- the account and its clients ---- */

static void
set_account(enum account account)
{
	for (unsigned i = 0; i < N_REPLICAS; i++) {
		bool is_other = account == ACCOUNT_OTHER, is_refused = account == ACCOUNT_REFUSED;

		brightbox_set_client(cloud, own_clients[i].id,
		                     is_refused ? "changed" : own_clients[i].secret, own);
		if (is_refused)
			brightbox_revoke_tokens(cloud, own_clients[i].id);
		replica_write_token(replica_at(i),
		                    is_other ? other_clients[i].id : own_clients[i].id);
		replica_write_secret(replica_at(i),
		                     is_other ? other_clients[i].secret : own_clients[i].secret);
	}
}

static bool
is_own_token(struct str token)
{
	return brightbox_account_of(cloud, token) == own;
}

/* ---- what ccmd may change ---- */

static size_t
count_named(struct str service)
{
	size_t n = 0;

	for (size_t i = 0; i < own->n_of[BRIGHTBOX_BALANCER]; i++) {
		const struct brightbox_balancer *lb = BRIGHTBOX_BALANCER_AT(own, i);

		n += is_named(&lb->base, service) && !is_leaving(lb);
	}
	return n;
}

/* Also what belongs to the balancer: while anything is left, the finalizer has to stay. */
static size_t
count_balancers(const struct kube_model_object *service)
{
	size_t n = count_named(service->name);

	for (enum brightbox_kind kind = BRIGHTBOX_CLOUD_IP; kind < BRIGHTBOX_RULE; kind++) {
		for (size_t i = 0; i < own->n_of[kind]; i++)
			n += is_named(own->of[kind][i], service->name);
	}
	return n;
}

/* A rule has the name of its policy; a cloud IP is ours while it is mapped to our balancer. */
static bool
is_ours(const struct brightbox_object *o)
{
	const struct brightbox_object *policy;

	if (o->kind == BRIGHTBOX_RULE) {
		policy = brightbox_find(own, BRIGHTBOX_POLICY,
		                        ((const struct brightbox_rule *)o)->policy);
		return !policy || service_of(policy->name).len > 0;
	}
	if (o->kind == BRIGHTBOX_CLOUD_IP &&
	    is_our_balancer(((const struct brightbox_cloud_ip *)o)->balancer))
		return true;
	return service_of(o->name).len > 0;
}

static void
note_creation(const struct brightbox_object *o)
{
	const struct kube_model_object *service = kube_model_find(world.kube, KUBE_MODEL_SERVICE,
	                                                          STR("default"),
	                                                          service_of(o->name));

	if (service) /* also without a balancer, if that is refused */
		checks_note_balancer(service->uid);
}

static bool
exists(const struct brightbox_object *server)
{
	struct str status = server ? ((const struct brightbox_server *)server)->status : STR_EMPTY;

	return server && !str_eq_c(status, "deleted") && !str_eq_c(status, "failed");
}

static void
on_change(void *arg, const struct brightbox_change *c)
{
	const struct brightbox_object *one = c->after ? c->after : c->before;

	(void)arg;
	if (c->account == own && one->kind == BRIGHTBOX_SERVER && exists(c->before) &&
	    !exists(c->after))
		evidence_gone(number_of_server(one->id), one->id);
	if (one->kind == BRIGHTBOX_BALANCER && c->account == own)
		trace("balancer %" STR_FMT " (%" STR_FMT "): %" STR_FMT " by %" STR_FMT
		      ", now %" STR_FMT,
		      STR_ARG(one->id), STR_ARG(one->name), STR_ARG(c->command),
		      STR_ARG(c->client.len > 0 ? c->client : STR("others")),
		      STR_ARG(((const struct brightbox_balancer *)one)->status));
	if (c->client.len == 0)
		return;
	if (c->account != own)
		fail("ccmd changes another account by %" STR_FMT, STR_ARG(c->command));
	if (one->kind < BRIGHTBOX_BALANCER)
		fail("ccmd changes %" STR_FMT " by %" STR_FMT, STR_ARG(one->id),
		     STR_ARG(c->command));
	if (!is_ours(c->before ? c->before : one))
		fail("ccmd changes what is not its own: %" STR_FMT " by %" STR_FMT,
		     STR_ARG(one->id), STR_ARG(c->command));
	if (!c->before)
		note_creation(one);
	/* names are not unique, so two replicas that act may both create one, and delete one again
	 */
	if (one->kind == BRIGHTBOX_BALANCER && !election_is_unclear() &&
	    count_named(service_of(one->name)) > 1)
		fail("service %" STR_FMT " has two balancers", STR_ARG(service_of(one->name)));
}

/* ---- the beginning ---- */

static void
limit_all(struct brightbox_account *a, size_t limit)
{
	for (size_t kind = BRIGHTBOX_BALANCER; kind < BRIGHTBOX_N_KINDS; kind++)
		a->limits[kind] = limit;
}

static struct server *
begin(uint64_t seed, struct rng *r)
{
	struct brightbox_settings *settings;

	cloud = brightbox_new(WALL_START_NS, seed);
	own = brightbox_add_account(cloud, "Own");
	other = brightbox_add_account(cloud, "Other");
	limit_all(other, 0);
	for (unsigned i = 0; i < N_REPLICAS; i++)
		brightbox_set_client(cloud, other_clients[i].id, other_clients[i].secret, other);
	set_account(ACCOUNT_OWN);
	settings = brightbox_settings(cloud);
	settings->change_min_ns = 100 * NS_PER_MS;
	settings->change_max_ns = rng_chance(r, 700) ? 2 * NS_PER_SEC : 20 * NS_PER_SEC;
	settings->linger_ns = rng_chance(r, 500) ? 3600 * NS_PER_SEC : 10 * NS_PER_SEC;
	if (rng_chance(r, 300))
		settings->token_ns = rng_between(r, 5, 15) * MINUTE_NS;
	(void)brightbox_request(cloud, own, "POST", "/cloud_ips", STR("{\"name\":\"foreign\"}"));
	brightbox_set_observer(cloud, on_change, NULL);
	return brightbox_server(cloud);
}

static void
configure(const struct replica *r, struct sim_start *start)
{
	sim_variable(start, "BRIGHTBOX_API_URL", "http://192.0.2.2/");
	sim_variable(start, "BRIGHTBOX_CLIENT_FILE", replica_token_file(r));
	sim_variable(start, "BRIGHTBOX_CLIENT_SECRET_FILE", replica_secret_file(r));
}

/* ---- machines ---- */

static struct brightbox_server *
server_of(const struct machine *m)
{
	return (struct brightbox_server *)brightbox_find(own, BRIGHTBOX_SERVER, str_c(m->name));
}

static bool
add_machine(struct machine *m)
{
	struct str id = brightbox_add_server(cloud, own)->base.id;

	snprintf(m->name, sizeof(m->name), "%" STR_FMT, STR_ARG(id));
	snprintf(m->provider_id, sizeof(m->provider_id), PREFIX "%" STR_FMT, STR_ARG(id));
	m->server = number_of_server(id);
	return true;
}

static void
delete_machine(struct machine *m)
{
	char target[100];

	snprintf(target, sizeof(target), "/servers/%s", m->name);
	trace("a person sends DELETE %s = %d", target,
	      brightbox_request(cloud, own, "DELETE", target, STR_EMPTY));
}

/* The new server has another id, and so the Node another name: it is another machine. */
static bool
rebuild_machine(struct machine *m)
{
	delete_machine(m);
	m->server = 0;
	world_add_machine();
	return false;
}

/* The name of a server is nowhere used. */
static void
rename_machine(struct machine *m)
{
	(void)m;
}

static bool
is_running(const struct machine *m)
{
	const struct brightbox_server *server = server_of(m);

	return server && str_eq_c(server->status, "active");
}

static const char *
switch_machine(struct machine *m)
{
	bool is_on = is_running(m);

	brightbox_set_server_status(cloud, own, server_of(m), is_on ? "inactive" : "active");
	return is_on ? "off" : "running";
}

static void
settle_machine(struct machine *m)
{
	if (!is_running(m))
		brightbox_set_server_status(cloud, own, server_of(m), "active");
}

static bool
has_server(int64_t number, struct str name)
{
	(void)number; /* it is that of the name */
	return exists(brightbox_find(own, BRIGHTBOX_SERVER, name));
}

static bool
is_look(struct str target)
{
	return str_starts(target, STR("/1.0/servers"));
}

static bool
is_about(const char *target, int64_t number, struct str name)
{
	(void)number;
	return strcmp(target, "/1.0/servers") == 0 ||
	       str_eq_c(name, target + strlen("/1.0/servers/"));
}

static struct str
empty_list(struct str target)
{
	return str_eq_c(target, "/1.0/servers") ? STR("[]") : STR_EMPTY;
}

/* ---- names of cloud IPs ---- */

static const char *
resolve(const char *name)
{
	static char address[40];

	for (size_t i = 0; i < own->n_of[BRIGHTBOX_CLOUD_IP]; i++) {
		const struct brightbox_cloud_ip *ip = BRIGHTBOX_CLOUD_IP_AT(own, i);

		if (!str_eq_c(ip->fqdn, name) && !str_eq_c(ip->reverse_dns, name))
			continue;
		snprintf(address, sizeof(address), "%" STR_FMT, STR_ARG(ip->ipv4));
		return address;
	}
	return NULL;
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
	limit_all(own, SIZE_MAX);
	brightbox_settings(cloud)->never_maps = false;
}

/* ids: what has the servers, a load balancer or a server group */
static void
check_servers(struct str service, const char *what, const struct str ids[], size_t n,
              struct buf *why)
{
	size_t n_wanted = 0;

	for (size_t i = 0; i < world.n_machines; i++) {
		const struct machine *m = &world.machines[i];

		if (!world_is_target(m))
			continue;
		n_wanted++;
		if (!str_is_among(str_c(m->name), ids, n))
			buf_addf(why, "service %" STR_FMT ": %s is not in its %s. ",
			         STR_ARG(service), m->name, what);
	}
	if (n > n_wanted)
		buf_addf(why, "service %" STR_FMT ": its %s has %zu servers, %zu are wanted. ",
		         STR_ARG(service), what, n, n_wanted);
}

static void
check_listeners(struct str service, yyjson_val *ports, const struct brightbox_balancer *lb,
                struct buf *why)
{
	yyjson_val *one;
	size_t i, n;

	yyjson_arr_foreach(ports, i, n, one)
	{
		int64_t port = 0, node_port = 0;
		bool is_found = false;

		(void)json_i64(one, "port", &port);
		(void)json_i64(one, "nodePort", &node_port);
		for (size_t k = 0; k < lb->n_listeners; k++)
			is_found |= lb->listeners[k].in == port &&
			            lb->listeners[k].out == node_port;
		if (!is_found)
			buf_addf(why, "service %" STR_FMT ": port %d is not served. ",
			         STR_ARG(service), (int)port);
	}
	if (lb->n_listeners != yyjson_arr_size(ports))
		buf_addf(why, "service %" STR_FMT ": the balancer has %zu listeners. ",
		         STR_ARG(service), lb->n_listeners);
}

/* The object of that kind that has the Service's name, which there must be one of. */
static const struct brightbox_object *
the_one(enum brightbox_kind kind, struct str service, const char *what, struct buf *why)
{
	const struct brightbox_object *found = NULL;

	for (size_t i = 0; i < own->n_of[kind]; i++) {
		const struct brightbox_object *o = own->of[kind][i];

		if (!is_named(o, service) || (kind == BRIGHTBOX_BALANCER &&
		                              is_leaving((const struct brightbox_balancer *)o)))
			continue;
		if (found)
			buf_addf(why, "service %" STR_FMT " has two %ss. ", STR_ARG(service), what);
		found = o;
	}
	if (!found)
		buf_addf(why, "service %" STR_FMT " has no %s. ", STR_ARG(service), what);
	return found;
}

/* A Service that has none of its own, because the account's limit is reached, uses the one that a
 * person has mapped to its balancer. */
static const struct brightbox_cloud_ip *
cloud_ip_of(struct str service, struct str balancer, struct buf *why)
{
	const struct brightbox_object *mapped = NULL;
	bool has_own = false;

	for (size_t i = 0; i < own->n_of[BRIGHTBOX_CLOUD_IP]; i++) {
		const struct brightbox_object *o = own->of[BRIGHTBOX_CLOUD_IP][i];

		if (is_named(o, service))
			has_own = true;
		else if (str_eq(((const struct brightbox_cloud_ip *)o)->balancer, balancer))
			mapped = o;
	}
	if (has_own || !mapped)
		mapped = the_one(BRIGHTBOX_CLOUD_IP, service, "cloud IP", why);
	return (const struct brightbox_cloud_ip *)mapped;
}

static void
check_cloud_ip(const struct kube_model_object *o, struct str balancer, struct buf *why)
{
	const struct brightbox_cloud_ip *ip = cloud_ip_of(o->name, balancer, why);

	if (!ip)
		return;
	if (!str_eq(ip->balancer, balancer))
		buf_addf(why, "service %" STR_FMT ": its cloud IP is not mapped. ",
		         STR_ARG(o->name));
	if (!str_contains(o->json, ip->fqdn) || !str_contains(o->json, ip->reverse_dns))
		buf_addf(why, "service %" STR_FMT " does not show %" STR_FMT ". ", STR_ARG(o->name),
		         STR_ARG(ip->fqdn));
}

static void
check_firewall(struct str service, struct buf *why)
{
	const struct brightbox_group *group = (const struct brightbox_group *)
		the_one(BRIGHTBOX_GROUP, service, "server group", why);
	const struct brightbox_policy *policy = (const struct brightbox_policy *)
		the_one(BRIGHTBOX_POLICY, service, "firewall policy", why);
	size_t n = 0;

	if (!group || !policy)
		return;
	check_servers(service, "server group", group->servers, group->n_servers, why);
	for (size_t i = 0; i < own->n_of[BRIGHTBOX_RULE]; i++)
		n += str_eq(((const struct brightbox_rule *)own->of[BRIGHTBOX_RULE][i])->policy,
		            policy->base.id);
	if (!str_eq(policy->group, group->base.id) || n != 1)
		buf_addf(why, "service %" STR_FMT ": its policy has %zu rules%s. ",
		         STR_ARG(service), n,
		         str_eq(policy->group, group->base.id) ? "" : ", and is not applied");
}

static void
check_service(const struct kube_model_object *o, yyjson_val *service, struct buf *why)
{
	const struct brightbox_balancer *lb;

	if (!service_is_ours(service)) {
		/* after a restore the finalizer may be missing, and with it the reason to search */
		if (count_named(o->name) > 0 && !world.was_restored)
			buf_addf(why, "service %" STR_FMT " has a balancer and wants none. ",
			         STR_ARG(o->name));
		return;
	}
	lb = (const struct brightbox_balancer *)the_one(BRIGHTBOX_BALANCER, o->name, "balancer",
	                                                why);
	if (!lb)
		return;
	if (!str_eq_c(lb->status, "active"))
		buf_addf(why, "service %" STR_FMT ": its balancer is %" STR_FMT ". ",
		         STR_ARG(o->name), STR_ARG(lb->status));
	check_listeners(o->name, json_at(service, "spec.ports"), lb, why);
	check_servers(o->name, "balancer", lb->nodes, lb->n_nodes, why);
	check_cloud_ip(o, lb->base.id, why);
	check_firewall(o->name, why);
}

/* Is there a Service that this name belongs to? After a restore ccmd keeps such objects. */
static bool
is_needed(struct str name)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct str service = service_of(name);
	const struct kube_model_object *o;

	if (service.len == 0 || world.was_restored)
		return true;
	o = kube_model_find(world.kube, KUBE_MODEL_SERVICE, STR("default"), service);
	return o && service_is_ours(object_json(&arena, o));
}

static void
check_rest(struct buf *why)
{
	for (enum brightbox_kind kind = BRIGHTBOX_BALANCER; kind < BRIGHTBOX_RULE; kind++) {
		for (size_t i = 0; i < own->n_of[kind]; i++) {
			const struct brightbox_object *o = own->of[kind][i];

			if (kind == BRIGHTBOX_BALANCER &&
			    is_leaving((const struct brightbox_balancer *)o))
				continue;
			if (!is_needed(o->name))
				buf_addf(why, "%" STR_FMT " (%" STR_FMT ") belongs to no service. ",
				         STR_ARG(o->id), STR_ARG(o->name));
		}
	}
}

/* ---- events ---- */

static void
ask(const char *method, const char *target, const char *body)
{
	trace("a person sends %s %s %s = %d", method, target, body,
	      brightbox_request(cloud, own, method, target, str_c(body)));
}

/* One that was made for a Service; NULL: the one chosen was not. */
static struct brightbox_object *
any_ours(enum brightbox_kind kind, struct rng *r)
{
	size_t n = own->n_of[kind];
	struct brightbox_object *o = n > 0 ? own->of[kind][rng_below(r, n)] : NULL;

	return o && service_of(o->name).len > 0 ? o : NULL;
}

void
sim_brightbox_makes_objects(struct rng *r)
{
	static const char *const targets[] = { "/load_balancers", "/cloud_ips", "/server_groups",
		                               "/firewall_policies" };
	size_t i = rng_below(r, ARRAY_LEN(targets));
	char body[200];

	snprintf(body, sizeof(body), "{\"name\":\"foreign-%d\"%s}", (int)rng_below(r, 4),
	         i == 0 ? ",\"listeners\":[],\"healthcheck\":{\"type\":\"tcp\",\"port\":80}" : "");
	ask("POST", targets[i], body);
}

void
sim_brightbox_changes_balancer(struct rng *r)
{
	static const char *const bodies[] = { "{\"policy\":\"source-address\"}",
		                              "{\"listeners\":[]}", "{\"nodes\":[]}",
		                              "{\"https_redirect\":true}" };
	const struct brightbox_object *o = any_ours(BRIGHTBOX_BALANCER, r);
	char target[100];

	if (!o)
		return;
	snprintf(target, sizeof(target), "/load_balancers/%" STR_FMT, STR_ARG(o->id));
	ask("PUT", target, bodies[rng_below(r, ARRAY_LEN(bodies))]);
}

/* A cloud IP that is mapped, and a server group that has servers, cannot be deleted. */
void
sim_brightbox_deletes_something(struct rng *r)
{
	static const struct {
		enum brightbox_kind kind;
		const char *collection;
	} kinds[] = { { BRIGHTBOX_BALANCER, "load_balancers" },
		      { BRIGHTBOX_CLOUD_IP, "cloud_ips" },
		      { BRIGHTBOX_GROUP, "server_groups" },
		      { BRIGHTBOX_POLICY, "firewall_policies" },
		      { BRIGHTBOX_RULE, "firewall_rules" } };
	size_t i = rng_below(r, ARRAY_LEN(kinds));
	const struct brightbox_object *o;
	char target[100];

	if (kinds[i].kind == BRIGHTBOX_RULE)
		o = own->n_of[BRIGHTBOX_RULE] > 0 ? own->of[BRIGHTBOX_RULE][0] : NULL;
	else
		o = any_ours(kinds[i].kind, r);
	if (!o)
		return;
	snprintf(target, sizeof(target), "/%s/%" STR_FMT, kinds[i].collection, STR_ARG(o->id));
	ask("DELETE", target, "");
}

void
sim_brightbox_breaks_balancer(struct rng *r)
{
	struct brightbox_balancer *lb = (struct brightbox_balancer *)any_ours(BRIGHTBOX_BALANCER,
	                                                                      r);
	const char *status = rng_chance(r, 500) ? "failing" : "failed";

	if (!lb || is_leaving(lb))
		return;
	brightbox_set_balancer_status(cloud, own, lb, status);
}

/* A cloud IP of ours is unmapped, or one of somebody else is mapped to our balancer. */
void
sim_brightbox_moves_cloud_ip(struct rng *r)
{
	bool is_unmapped = rng_chance(r, 500);
	const struct brightbox_object *lb = any_ours(BRIGHTBOX_BALANCER, r);
	const struct brightbox_object *ip = is_unmapped ? any_ours(BRIGHTBOX_CLOUD_IP, r)
	                                                : own->of[BRIGHTBOX_CLOUD_IP][0];
	char target[100], body[100] = "";

	if (!ip || (!is_unmapped && !lb))
		return;
	snprintf(target, sizeof(target), "/cloud_ips/%" STR_FMT "/%s", STR_ARG(ip->id),
	         is_unmapped ? "unmap" : "map");
	if (!is_unmapped)
		snprintf(body, sizeof(body), "{\"destination\":\"%" STR_FMT "\"}", STR_ARG(lb->id));
	ask("POST", target, body);
}

/* A server that was deleted is shown for some time. */
void
sim_brightbox_forgets_server(struct rng *r)
{
	struct brightbox_server
		*server = BRIGHTBOX_SERVER_AT(own, rng_below(r, own->n_of[BRIGHTBOX_SERVER]));

	if (!str_eq_c(server->status, "deleted"))
		return;
	trace("server %" STR_FMT " is no longer shown", STR_ARG(server->base.id));
	brightbox_forget_server(cloud, own, server);
}

/* The account's limit is reached, or raised again. */
void
sim_brightbox_sets_limit(struct rng *r)
{
	enum brightbox_kind kind = rng_chance(r, 500) ? BRIGHTBOX_BALANCER : BRIGHTBOX_CLOUD_IP;
	bool is_reached = own->limits[kind] == SIZE_MAX;

	trace("the account's limit of %s is %s",
	      kind == BRIGHTBOX_BALANCER ? "load balancers" : "cloud IPs",
	      is_reached ? "reached" : "raised");
	own->limits[kind] = is_reached ? own->n_of[kind] : SIZE_MAX;
	world.was_limited = true; /* ccmd remembers it for an hour */
}

void
sim_brightbox_never_maps(struct rng *r)
{
	bool *never = &brightbox_settings(cloud)->never_maps;

	(void)r;
	*never = !*never;
	trace("the mapping of cloud IPs %s", *never ? "has no effect" : "works");
}

const struct sim_cloud sim_brightbox = {
	.name = "brightbox",
	.prefix = PREFIX,
	.login = "/token/",
	.bit = BRIGHTBOX,
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
	.resolve = resolve,
	.count_balancers = count_balancers,
	.check_service = check_service,
	.check_rest = check_rest,
	.algorithm_key = POLICY_KEY,
	.algorithms = { "least-connections", "round-robin" },
	.of_all = { 1500, 10, 20, 10, 3 },
	.of_one = { 300, 3, 3, 0, 0 },
	.max_idle = 8,
};
