/* tests/simulation/hetzner.h: a model of the Hetzner Cloud API.
 *
 * It answers the requests that ccmd sends to /v1: servers, networks and their routes, load
 * balancers, Primary IPs, certificates, load balancer types, locations, and actions. It refuses
 * what the API refuses, with the API's codes. Any other request is answered with 501 and a text
 * that names it.
 *
 * A change is an action, which takes time. Its effect is visible when the action ends. Until then
 * the resources of the action are busy, and further changes of them are refused.
 *
 * Whatever changes a project apart from ccmd is an actor: a machine that is switched off, a person
 * in the console, another controller with its own token. The simulation calls the functions below
 * on behalf of an actor. hetzner_request() sends a request to the API, under the same rules as for
 * ccmd's requests. The functions for servers and networks take effect immediately.
 *
 * Checks can read all state: the structs are public, and only the functions below change them.
 * Arrays and texts are replaced and never changed in place, so a copy of a struct stays valid. All
 * memory belongs to the model and is released with it; it grows with the number of changes, by at
 * most some kilobytes for each.
 *
 * Threads: none. All functions are called from one thread.
 */
#ifndef CCMD_TESTS_SIMULATION_HETZNER_H
#define CCMD_TESTS_SIMULATION_HETZNER_H

#include "base/label.h"
#include "server.h"

struct hetzner;

/* ---- resources ---- */

enum hetzner_kind {
	HETZNER_SERVER,
	HETZNER_NETWORK,
	HETZNER_BALANCER,
	HETZNER_CERTIFICATE,
	HETZNER_PRIMARY_IP,
	HETZNER_N_KINDS,
};

/** The members that every resource has. The struct of each resource begins with it. */
struct hetzner_resource {
	enum hetzner_kind kind;
	int64_t id;
	struct str name;
	struct label *labels; /* in the order in which they were given */
	size_t n_labels;
	int64_t created_ns; /* wall */
	bool is_protected;  /* against deletion */
};

struct hetzner_location {
	int64_t id;
	const char *name, *zone; /* "fsn1", "eu-central" */
	const char *description, *country, *city;
	const char *latitude, *longitude; /* numbers of JSON */
};

/** A member of a network: a server or a balancer. */
struct hetzner_member {
	int64_t network;
	struct str ip;
	uint32_t address; /* the same as a number */
};

struct hetzner_server_type {
	int64_t id;
	const char *name, *architecture;
	int cores, memory_gb, disk_gb;
	double price; /* each month */
};

struct hetzner_server {
	struct hetzner_resource base;
	struct str status; /* "running", "off", … */
	const struct hetzner_server_type *type;
	const struct hetzner_location *location;
	struct str ipv4, ipv6; /* "198.18.0.1", "2001:db8:0:1::/64"; ptr NULL: none */
	struct hetzner_member *networks;
	size_t n_networks;
};

struct hetzner_route {
	struct str destination, gateway;
};

struct hetzner_subnet {
	struct str ip_range, type, zone;
};

struct hetzner_network {
	struct hetzner_resource base;
	struct str ip_range;
	struct hetzner_subnet *subnets;
	size_t n_subnets;
	struct hetzner_route *routes;
	size_t n_routes;
};

struct hetzner_balancer_type {
	int64_t id;
	const char *name;
	int64_t max_connections, max_services, max_targets, max_certificates;
	double price;                         /* each month */
	int64_t announced_ns, unavailable_ns; /* wall; 0: the type is not deprecated */
};

/** The members http are those of a service whose protocol is not tcp, and of a check with http. */
struct hetzner_check {
	struct str protocol;
	int64_t port, interval_s, timeout_s, retries;
	bool has_domain; /* false: null */
	struct str domain, path, response;
	struct str *status_codes;
	size_t n_status_codes;
	bool is_tls;
};

struct hetzner_service {
	struct str protocol;
	int64_t listen_port, destination_port;
	bool has_proxy_protocol;
	struct str cookie_name;
	int64_t cookie_lifetime_s, timeout_idle_s;
	int64_t *certificates;
	size_t n_certificates;
	bool redirects_http, is_sticky;
	struct hetzner_check check;
};

enum hetzner_target_type {
	HETZNER_TARGET_SERVER,
	HETZNER_TARGET_SELECTOR,
	HETZNER_TARGET_IP,
};

struct hetzner_target {
	enum hetzner_target_type type;
	int64_t server;
	struct str text; /* the selector, or the IP */
	bool uses_private_ip;
};

/** A balancer has its addresses when the action that creates it has ended. */
struct hetzner_balancer {
	struct hetzner_resource base;
	const struct hetzner_balancer_type *type;
	const struct hetzner_location *location;
	struct str algorithm;
	bool is_public;
	struct str ipv4, ipv6;         /* ptr NULL: none yet */
	int64_t ipv4_id, ipv6_id;      /* of the addresses, which may be Primary IPs; 0: none yet */
	struct str ipv4_ptr, ipv6_ptr; /* reverse DNS; ptr NULL: none */
	struct hetzner_member *networks;
	size_t n_networks; /* 0 or 1 */
	struct hetzner_service *services;
	size_t n_services;
	struct hetzner_target *targets;
	size_t n_targets;
	struct str health; /* of all targets: "healthy", "unhealthy" or "unknown" */
};

/** A public address that exists independently of the balancer that uses it. */
struct hetzner_primary_ip {
	struct hetzner_resource base;
	bool is_ipv6;
	const struct hetzner_location *location;
	struct str ip;     /* "198.18.0.1", "2001:db8:0:1::/64" */
	int64_t balancer;  /* that has it; 0: it is free */
	bool goes_with_it; /* auto_delete */
	bool is_blocked;
};

struct hetzner_certificate {
	struct hetzner_resource base;
	bool is_managed;
	struct str *domains;
	size_t n_domains;
	struct str issuance;                /* "pending", "completed" or "failed" */
	int64_t valid_from_ns, valid_to_ns; /* wall; 0: not issued */
};

struct hetzner_action {
	int64_t id;
	struct str command; /* "add_service" */
	struct {
		enum hetzner_kind kind;
		int64_t id;
	} resources[2]; /* they are busy while it runs */
	size_t n_resources;
	int64_t started_ns, due_ns;           /* wall; due CLOCK_FOREVER: it hangs */
	int64_t finished_ns;                  /* wall; 0: it runs */
	struct str error_code, error_message; /* empty: it succeeds */
	struct str token, user_agent;         /* of the request; empty: an actor's function */
};

/** What a token sees. Resources are ordered by ID, actions too. The first members may be set at any
 * time. */
struct hetzner_project {
	int64_t rate_limit;    /* requests each hour; at first 3600 */
	int64_t max_balancers; /* the quota; at first INT64_MAX */

	unsigned number; /* in the order of creation, from 0 */
	struct hetzner_resource **of[HETZNER_N_KINDS];
	size_t n_of[HETZNER_N_KINDS];
	struct hetzner_action **actions;
	size_t n_actions;
};

/** The i-th of a project; i is less than n_of[]. */
#define HETZNER_SERVER_AT(p, i) ((struct hetzner_server *)(p)->of[HETZNER_SERVER][i])
#define HETZNER_NETWORK_AT(p, i) ((struct hetzner_network *)(p)->of[HETZNER_NETWORK][i])
#define HETZNER_BALANCER_AT(p, i) ((struct hetzner_balancer *)(p)->of[HETZNER_BALANCER][i])

/** By ID or by name; NULL: there is none. They never refer to a resource that was deleted. */
struct hetzner_resource *hetzner_find(const struct hetzner_project *, enum hetzner_kind,
                                      int64_t id);
struct hetzner_resource *hetzner_find_named(const struct hetzner_project *, enum hetzner_kind,
                                            struct str name);
/** The label's value; empty: the resource does not have it. */
struct str hetzner_label(const struct hetzner_resource *, const char *key);

/* ---- changes, for checks ---- */

/** One change of a resource. The pointers are valid during the call. */
struct hetzner_change {
	const struct hetzner_project *project;
	int64_t wall_ns;
	struct str token, user_agent; /* who caused it; both empty: a function for actors */
	struct str command;           /* "add_service", "PUT", "power", … */
	const struct hetzner_resource *before; /* NULL: it was created; the struct of its kind */
	const struct hetzner_resource *after;  /* NULL: it was deleted */
};

/** Called after each change. A change by an action is reported when the action ends. */
typedef void hetzner_observe(void *arg, const struct hetzner_change *change);

/* ---- life cycle ---- */

/** The clock of the model starts at wall_ns. The same calls give the same answers.
 *
 * @param seed  of the durations of actions
 */
struct hetzner *hetzner_new(int64_t wall_ns, uint64_t seed);
struct server *hetzner_server(struct hetzner *);
void hetzner_set_observer(struct hetzner *, hetzner_observe *observe, void *arg);
int64_t hetzner_now(const struct hetzner *);

/** A project that shares nothing with others, and its first token. */
struct hetzner_project *hetzner_add_project(struct hetzner *, struct str token);
/** One more token of a project. */
void hetzner_add_token(struct hetzner *, struct hetzner_project *, struct str token,
                       bool may_write);
/** The token is refused from now on. */
void hetzner_revoke_token(struct hetzner *, struct str token);

/* ---- how the API behaves ---- */

/** May be changed at any time. */
struct hetzner_settings {
	/* How long actions take: the seed chooses a time between the two. The initial value is 0:
	 * an action has ended when the request is answered. */
	int64_t action_min_ns, action_max_ns;
	/* DELETE of a balancer answers 204 and deletes immediately, as until October 2026; else it
	 * answers 201 and starts an action. */
	bool deletes_without_action;
	/* The API knows no Primary IPs of balancers, as until October 2026. */
	bool refuses_primary_ips;
	/* Unhealthy targets have no reason, as until October 2026. */
	bool hides_health_details;
	/* Pages of lists have at most so many entries; 0: 50, as in the API. */
	int64_t per_page_max;
	/* The list of servers lacks the one with this ID; 0: none. */
	int64_t unlisted_server;
	/* The API does not know the server with this ID; 0: none. */
	int64_t hidden_server;
	/* Balancers keep targets whose server was deleted, until hetzner_drop_dead_targets(). */
	bool targets_outlive_servers;
};

struct hetzner_settings *hetzner_settings(struct hetzner *);
/** NULL: there is none. Its members may be changed, as to deprecate it. */
struct hetzner_balancer_type *hetzner_balancer_type(struct hetzner *, const char *name);

enum hetzner_fate {
	HETZNER_FAILS, /* the action ends with an error and changes nothing */
	HETZNER_HANGS, /* it runs until hetzner_release() */
};

/** The fate of the next actions that requests start in a project, `times` of them.
 *
 * @param command  only actions with this command; NULL: all
 */
void hetzner_doom_actions(struct hetzner *, struct hetzner_project *, const char *command,
                          enum hetzner_fate fate, unsigned times);
/** Further actions end as usual. */
void hetzner_forget_dooms(struct hetzner_project *);
/** Actions that hang end now, with success. */
void hetzner_release(struct hetzner *, struct hetzner_project *);
/** Keeps the resource busy, as a change by somebody else does: further changes of it are refused
 * (423 locked; of a network 409 conflict). CLOCK_FOREVER: until hetzner_release(). */
void hetzner_lock(struct hetzner *, struct hetzner_project *, struct hetzner_resource *,
                  int64_t for_ns);
/** Requests an hour, of which the bucket is full now. */
void hetzner_set_rate_limit(struct hetzner *, struct hetzner_project *, int64_t limit);
/** Takes requests from the project's budget until so many are left. */
void hetzner_drain_budget(struct hetzner *, struct hetzner_project *, int64_t n_left);

/* ---- actors ---- */

/** A request by a person or another tool: the same checks and actions as for a token of the
 * project, but it costs no budget.
 *
 * @param user_agent  who it is, as the observer sees it
 * @param target      without /v1: "/load_balancers/7/actions/add_service"
 * @param body        JSON; empty: none
 * @return  the status of the answer
 */
int hetzner_request(struct hetzner *, struct hetzner_project *, const char *user_agent,
                    const char *method, const char *target, struct str body);

struct hetzner_new_server {
	struct str name;
	const char *type, *location;     /* NULL: cx22, fsn1 */
	struct hetzner_network *network; /* NULL: none */
	struct str private_ip;           /* empty: the next free one */
	const struct label *labels;
	size_t n_labels;
	bool is_off, has_no_ipv4;
};

/** NULL: the network has no such address, or the name is taken. */
struct hetzner_server *hetzner_add_server(struct hetzner *, struct hetzner_project *,
                                          const struct hetzner_new_server *wanted);
void hetzner_rename_server(struct hetzner *, struct hetzner_project *, struct hetzner_server *,
                           struct str name);
void hetzner_relabel_server(struct hetzner *, struct hetzner_project *, struct hetzner_server *,
                            const struct label *labels, size_t n_labels);
/** "running", "off", or any other status of the API. */
void hetzner_set_status(struct hetzner *, struct hetzner_project *, struct hetzner_server *,
                        const char *status);
/** Deletes the server and creates one with the same name, labels and private address; its ID and
 * public addresses are new. */
struct hetzner_server *hetzner_replace_server(struct hetzner *, struct hetzner_project *,
                                              struct hetzner_server *);
/** Also from the targets of balancers, unless targets_outlive_servers is set. */
void hetzner_delete_server(struct hetzner *, struct hetzner_project *, struct hetzner_server *);
/** False: it is attached already, or there is no such address. ip empty: the next free one. */
bool hetzner_attach(struct hetzner *, struct hetzner_project *, struct hetzner_server *,
                    struct hetzner_network *, struct str ip);
/** Balancers lose the server as a target by its private address. */
void hetzner_detach(struct hetzner *, struct hetzner_project *, struct hetzner_server *,
                    struct hetzner_network *);
void hetzner_drop_dead_targets(struct hetzner *, struct hetzner_project *);

/** A network of one subnet in eu-central. NULL: one of the texts is no IPv4 network. */
struct hetzner_network *hetzner_add_network(struct hetzner *, struct hetzner_project *,
                                            struct str name, struct str ip_range,
                                            struct str subnet);
/** An address of a dedicated server, which a target of type ip may name. */
void hetzner_add_robot_ip(struct hetzner *, struct hetzner_project *, struct str ip);
/** A Primary IP that is free; its public members may be changed afterwards. location NULL: fsn1. */
struct hetzner_primary_ip *hetzner_add_primary_ip(struct hetzner *, struct hetzner_project *,
                                                  struct str name, bool is_ipv6,
                                                  const char *location);
/** What the health checks of a balancer say: "healthy", "unhealthy" or "unknown". */
void hetzner_set_health(struct hetzner *, struct hetzner_project *, struct hetzner_balancer *,
                        const char *health);

#endif
