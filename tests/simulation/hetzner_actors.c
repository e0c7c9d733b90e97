/* hetzner_actors.c: what actors change without a request: machines, networks, health. */
#include "base/array.h"
#include "hetzner_internal.h"

static struct hm_who
hm_actor(const char *command)
{
	return (struct hm_who){ STR_EMPTY, STR_EMPTY, str_c(command) };
}

/* ---- servers ---- */

static const struct hetzner_location *
hm_location_named(const char *name)
{
	for (size_t i = 0; i < HM_N_LOCATIONS; i++) {
		if (str_eq_c(str_c(name), hm_locations[i].name))
			return &hm_locations[i];
	}
	return NULL;
}

/* The first private address of a server, chosen or given. */
static bool
hm_join(struct hetzner *h, struct hm_project *p, struct hetzner_server *server,
        const struct hetzner_network *network, struct str ip)
{
	struct hm_wish wish = { .ip = ip.len > 0 ? ip : (struct str){ 0 } };
	struct hetzner_member member;
	struct hm_refusal why;

	if (!hm_choose_ip(h, p, network, &wish, &member, &why))
		return false;
	server->networks = model_with(&h->arena, server->networks, server->n_networks,
	                              sizeof(member), &member);
	server->n_networks++;
	return true;
}

struct hetzner_server *
hetzner_add_server(struct hetzner *h, struct hetzner_project *project,
                   const struct hetzner_new_server *wanted)
{
	struct hetzner_server *server = ARENA_NEW(&h->arena, struct hetzner_server);
	struct hm_project *p = hm_project(project);
	struct hm_who who = hm_actor("create_server");

	server->type = hm_server_type(wanted->type ? wanted->type : "cx22");
	server->location = hm_location_named(wanted->location ? wanted->location : "fsn1");
	if (!server->type || !server->location ||
	    hetzner_find_named(project, HETZNER_SERVER, wanted->name) ||
	    (wanted->network && !hm_join(h, p, server, wanted->network, wanted->private_ip)))
		return NULL;
	hm_public_pair(h, p, "/64", &server->ipv4, &server->ipv6);
	if (wanted->has_no_ipv4)
		server->ipv4 = (struct str){ 0 };
	hm_init_resource(h, &server->base, HETZNER_SERVER, wanted->name, wanted->labels,
	                 wanted->n_labels);
	server->status = wanted->is_off ? STR("off") : STR("running");
	hm_add_resource(p, &server->base);
	hm_report(h, p, &who, NULL, &server->base);
	return server;
}

void
hetzner_rename_server(struct hetzner *h, struct hetzner_project *p, struct hetzner_server *server,
                      struct str name)
{
	struct hm_who who = hm_actor("rename");
	struct hetzner_server before = *server;

	server->base.name = arena_str(&h->arena, name);
	hm_report(h, hm_project(p), &who, &before.base, &server->base);
}

void
hetzner_relabel_server(struct hetzner *h, struct hetzner_project *p, struct hetzner_server *server,
                       const struct label *labels, size_t n_labels)
{
	struct hm_who who = hm_actor("relabel");
	struct hetzner_server before = *server;

	hm_set_labels(h, &server->base, labels, n_labels);
	hm_report(h, hm_project(p), &who, &before.base, &server->base);
}

void
hetzner_set_status(struct hetzner *h, struct hetzner_project *p, struct hetzner_server *server,
                   const char *status)
{
	struct hm_who who = hm_actor("power");
	struct hetzner_server before = *server;

	server->status = arena_str(&h->arena, str_c(status));
	hm_report(h, hm_project(p), &who, &before.base, &server->base);
}

struct hetzner_server *
hetzner_replace_server(struct hetzner *h, struct hetzner_project *p, struct hetzner_server *server)
{
	struct hetzner_server old = *server;
	struct hetzner_new_server wanted = {
		.name = old.base.name,
		.type = old.type->name,
		.location = old.location->name,
		.labels = old.base.labels,
		.n_labels = old.base.n_labels,
		.has_no_ipv4 = !old.ipv4.ptr,
	};

	if (old.n_networks > 0) {
		wanted.network = hm_find_network(hm_project(p), old.networks[0].network);
		wanted.private_ip = old.networks[0].ip;
	}
	hetzner_delete_server(h, p, server);
	return hetzner_add_server(h, p, &wanted);
}

static bool
hm_is_dead(const struct hetzner_target *target, const void *arg)
{
	return target->type == HETZNER_TARGET_SERVER && !hm_find_server(arg, target->server);
}

void
hetzner_drop_dead_targets(struct hetzner *h, struct hetzner_project *p)
{
	struct hm_who who = hm_actor("drop_dead_targets");

	for (size_t i = 0; i < p->n_of[HETZNER_BALANCER]; i++)
		hm_drop_targets(h, hm_project(p), &who, HETZNER_BALANCER_AT(p, i), hm_is_dead, p);
}

void
hetzner_delete_server(struct hetzner *h, struct hetzner_project *p, struct hetzner_server *server)
{
	struct hm_who who = hm_actor("delete_server");

	hm_remove_resource(hm_project(p), &server->base);
	hm_report(h, hm_project(p), &who, &server->base, NULL);
	if (!h->settings.targets_outlive_servers)
		hetzner_drop_dead_targets(h, p);
}

/* ---- servers in networks ---- */

bool
hetzner_attach(struct hetzner *h, struct hetzner_project *p, struct hetzner_server *server,
               struct hetzner_network *network, struct str ip)
{
	struct hm_who who = hm_actor("attach_to_network");
	struct hetzner_server before = *server;

	if (hm_member_of(server->networks, server->n_networks, network->base.id) ||
	    !hm_join(h, hm_project(p), server, network, ip))
		return false;
	hm_report(h, hm_project(p), &who, &before.base, &server->base);
	return true;
}

static bool
hm_is_privately(const struct hetzner_target *target, const void *arg)
{
	const struct hetzner_server *server = arg;

	return target->type == HETZNER_TARGET_SERVER && target->uses_private_ip &&
	       target->server == server->base.id;
}

void
hetzner_detach(struct hetzner *h, struct hetzner_project *p, struct hetzner_server *server,
               struct hetzner_network *network)
{
	struct hm_who who = hm_actor("detach_from_network");
	struct hetzner_server before = *server;
	const struct hetzner_member *member = hm_member_of(server->networks, server->n_networks,
	                                                   network->base.id);

	if (!member)
		return;
	server->networks = model_without(&h->arena, server->networks, server->n_networks,
	                                 sizeof(*member), (size_t)(member - server->networks));
	server->n_networks--;
	hm_report(h, hm_project(p), &who, &before.base, &server->base);
	for (size_t i = 0; i < p->n_of[HETZNER_BALANCER]; i++) {
		struct hetzner_balancer *lb = HETZNER_BALANCER_AT(p, i);

		if (hm_member_of(lb->networks, lb->n_networks, network->base.id))
			hm_drop_targets(h, hm_project(p), &who, lb, hm_is_privately, server);
	}
}

/* ---- networks ---- */

struct hetzner_network *
hetzner_add_network(struct hetzner *h, struct hetzner_project *p, struct str name,
                    struct str ip_range, struct str subnet)
{
	struct hetzner_network *network = ARENA_NEW(&h->arena, struct hetzner_network);
	struct hm_who who = hm_actor("create_network");
	struct ip_net range, inner;

	if (!hm_parse_net(ip_range, &range) || !hm_parse_net(subnet, &inner) ||
	    !ip_net_is_within(&inner, &range))
		return NULL;
	hm_init_resource(h, &network->base, HETZNER_NETWORK, name, NULL, 0);
	network->ip_range = hm_net_text(&h->arena, &range);
	network->subnets = ARENA_NEW(&h->arena, struct hetzner_subnet);
	network->subnets[0] = (struct hetzner_subnet){ hm_net_text(&h->arena, &inner), STR("cloud"),
		                                       STR("eu-central") };
	network->n_subnets = 1;
	hm_add_resource(hm_project(p), &network->base);
	hm_report(h, hm_project(p), &who, NULL, &network->base);
	return network;
}

/* ---- the rest ---- */

void
hetzner_add_robot_ip(struct hetzner *h, struct hetzner_project *project, struct str ip)
{
	struct hm_project *p = hm_project(project);

	ARRAY_PUSH(p->robot_ips, p->n_robot_ips, p->cap_robot_ips, arena_str(&h->arena, ip));
}

void
hetzner_set_health(struct hetzner *h, struct hetzner_project *p, struct hetzner_balancer *lb,
                   const char *health)
{
	struct hm_who who = hm_actor("health");
	struct hetzner_balancer before = *lb;

	lb->health = arena_str(&h->arena, str_c(health));
	hm_report(h, hm_project(p), &who, &before.base, &lb->base);
}
