/* inventory.h: the content of an inventory file as plain structs, checked, indexed and immutable.
 *
 * docs/cloudlycke.md describes every field. The views live in the arena of struct cl_inventory; a
 * field that the file leaves out has its default here.
 *
 * An inventory is reference-counted, so that a lookup can go on using the one it began with while a
 * newer one takes its place.
 */
#ifndef CCMD_CLOUDLYCKE_INVENTORY_H
#define CCMD_CLOUDLYCKE_INVENTORY_H

#include "base/ip.h"
#include "base/label.h"
#include "base/ref.h"
#include "providers/cloudlycke/reader.h"

/* ---- the file ---- */

/* In the order of powers[] in inventory.c. */
enum cl_power {
	CL_POWER_ON,
	CL_POWER_OFF,
	CL_POWER_SUSPENDED,
	CL_POWER_TERMINATED,
	CL_POWER_UNKNOWN,
};

struct cl_machine {
	struct str name;
	struct str id; /* in memory right behind "cloudlycke://": see cl_machine_provider_id() */
	struct str type;
	struct str zone, region; /* with the file's defaults applied */
	struct str fault;        /* not empty: every look-up fails with this text */
	struct str_list aliases;
	struct address *addresses; /* IP addresses in their canonical spelling */
	struct label *labels;
	size_t n_addresses, n_labels;
	int power; /* enum cl_power */
};

#define CL_PROVIDER_ID_PREFIX "cloudlycke://"

static inline struct str
cl_machine_provider_id(const struct cl_machine *machine)
{
	size_t before = sizeof(CL_PROVIDER_ID_PREFIX) - 1;

	return str_n(machine->id.ptr - before, before + machine->id.len);
}

/** False for NULL and for a terminated machine. */
static inline bool
cl_machine_is_there(const struct cl_machine *machine)
{
	return machine && machine->power != CL_POWER_TERMINATED;
}

/** The machine's id in a node's provider ID; a provider ID of another form is returned as it is. */
static inline struct str
cl_machine_id(struct str provider_id)
{
	struct str prefix = STR(CL_PROVIDER_ID_PREFIX);

	return str_starts(provider_id, prefix) ? str_skip(provider_id, prefix.len) : provider_id;
}

enum cl_unknown_machines {
	CL_UNKNOWN_ABSENT,
	CL_UNKNOWN_ERROR,
};

/** The address, or the network, as text in the arena. */
const char *cl_ip_text(const struct ip *ip, struct arena *arena);
struct str cl_net_text(const struct ip_net *net, struct arena *arena);

struct cl_cloud {
	struct str region, zone;
	struct str self;
	struct str cluster_id;
	bool requires_cluster_id;
	int unknown_machines; /* enum cl_unknown_machines */
};

struct cl_reload {
	bool is_enabled;
	int64_t debounce_ns;
	int64_t poll_ns; /* 0: never */
	int64_t max_removal_percent;
};

struct cl_state_config {
	struct str file;
};

struct cl_instance_type {
	struct str name;
};

/** An address, a range or a network: the addresses from first to last. */
struct cl_block {
	struct ip first, last;
	bool has_edges; /* an IPv4 network with a network and a broadcast address */
};

struct cl_blocks {
	struct cl_block *items;
	size_t n;
};

struct cl_pool {
	struct str name;
	struct cl_blocks addresses;
	struct cl_blocks avoid;
	bool avoids_edges;
	bool is_default;
	struct str_list namespaces; /* none: all */
	struct str hostname_template;
	int ip_mode; /* enum cl_ip_mode */
};

enum cl_ip_mode {
	CL_IP_MODE_VIP,
	CL_IP_MODE_PROXY,
};

struct cl_haproxy_config {
	bool is_present;
	struct str file;
	struct str stats_socket; /* empty: none */
	struct str_list check;   /* the file to be checked is added */
	struct str_list reload;
};

struct cl_balancers {
	bool is_present;
	struct str hook;
	int64_t hook_timeout_ns;
	struct str class_name;
	/* HAProxy is permitted with an election, although only the leader's host is up to date */
	bool is_local_only;
	struct cl_haproxy_config haproxy;
};

struct cl_route {
	struct str name;
	struct str target_node;
	struct ip_net destination;
};

struct cl_routes {
	bool is_present;
	struct cl_route *fixed;
	size_t n_fixed;
	struct str hook;
	int64_t hook_timeout_ns;
};

/** The whole file. */
struct cl_schema {
	struct cl_cloud cloud;
	struct cl_reload reload;
	struct cl_state_config state;
	struct cl_instance_type *types;
	size_t n_types;
	bool has_types;
	struct cl_machine *machines;
	size_t n_machines;
	struct cl_pool *pools;
	size_t n_pools;
	struct cl_balancers balancers;
	struct cl_routes routes;
};

/* ---- an indexed inventory ---- */

/** Names of machines, to the struct cl_machine of the schema, which also holds the keys. */
struct cl_names {
	struct map by_name, by_alias, by_id;
};

struct cl_inventory {
	struct ref refs;
	struct arena arena;
	struct cl_schema schema;
	struct cl_names names;
	struct map by_host;  /* Hostname addresses that are neither name nor alias */
	bool ends_with_line; /* the text ends with a line break */
	bool ends_with_mark; /* its last line is "...", the end of a YAML document */
};

/** Reads a file's text. NULL when there are problems. One reference. */
struct cl_inventory *cl_inventory_parse(struct str text, struct cl_problems *problems);
struct cl_inventory *cl_inventory_ref(struct cl_inventory *);
void cl_inventory_unref(struct cl_inventory *); /* NULL is fine */
DEFINE_CLEANUP(struct cl_inventory, cl_inventory_unref)

/** By name or alias, else by Hostname address. False when several machines have that Hostname:
 * then *ids gets their ids, "a, b". *ret is NULL when no machine has the name. */
NODISCARD bool cl_inventory_by_name(const struct cl_inventory *, struct str name,
                                    const struct cl_machine **ret, struct buf *ids);

#endif
