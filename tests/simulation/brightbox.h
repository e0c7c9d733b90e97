/* tests/simulation/brightbox.h: a model of the Brightbox API of one region.
 *
 * It answers the requests that tests/sim/brightbox answers, in the same way: servers, load
 * balancers, cloud IPs, server groups, firewall policies and rules, zones, server types, accounts,
 * and tokens. Any other request is answered with 501 and a text that names it.
 *
 * The API answers a change before it has taken effect: a balancer is built, and a cloud IP is
 * mapped, after a delay. A deleted balancer stays in lists for some time.
 *
 * Whatever changes an account apart from ccmd is an actor. brightbox_request() sends a request on
 * behalf of an actor, under the same rules as for ccmd's requests. The other functions take effect
 * immediately.
 *
 * Checks can read all state: the structs are public, and only the functions below change them.
 * Arrays and texts are replaced and never changed in place, so a copy of a struct stays valid. All
 * memory belongs to the model and is released with it.
 *
 * Threads: none. All functions are called from one thread.
 */
#ifndef CCMD_TESTS_SIMULATION_BRIGHTBOX_H
#define CCMD_TESTS_SIMULATION_BRIGHTBOX_H

#include "server.h"

struct brightbox;

/* ---- objects ---- */

enum brightbox_kind {
	BRIGHTBOX_ZONE,
	BRIGHTBOX_TYPE,
	BRIGHTBOX_SERVER,
	BRIGHTBOX_BALANCER,
	BRIGHTBOX_CLOUD_IP,
	BRIGHTBOX_GROUP,
	BRIGHTBOX_POLICY,
	BRIGHTBOX_RULE,
	BRIGHTBOX_N_KINDS,
};

/** The struct of each kind of object begins with it. */
struct brightbox_object {
	enum brightbox_kind kind;
	struct str id;      /* "srv-abcde" */
	struct str name;    /* ptr NULL: null, as all texts below */
	int64_t created_ns; /* wall */
	bool is_stuck;      /* DELETE is answered with 409 */
};

struct brightbox_zone {
	struct brightbox_object base;
	struct str handle; /* "gb1-a" */
};

struct brightbox_type {
	struct brightbox_object base;
	struct str handle, status, storage;
	int64_t cores, ram, disk_size;
};

struct brightbox_server {
	struct brightbox_object base;
	struct str status; /* "active", "inactive", "deleted", … */
	bool is_locked;
	int64_t deleted_ns; /* 0: it was not deleted */
	struct str hostname, fqdn;
	const struct brightbox_zone *zone;
	const struct brightbox_type *type;
	struct str interface, mac, ipv4, ipv6; /* of its one interface, which is an id */
};

struct brightbox_listener {
	struct str protocol, proxy_protocol;
	int64_t in, out, timeout;
};

struct brightbox_check {
	struct str type, request;
	int64_t port, interval, timeout, up, down;
};

struct brightbox_domain {
	struct str identifier, status, message;
};

struct brightbox_balancer {
	struct brightbox_object base;
	struct str status; /* "creating", "active", "deleting", "deleted", "failed" */
	bool is_locked, https_redirect;
	int64_t deleted_ns, buffer_size;
	struct str policy, ssl_minimum_version;
	struct brightbox_listener *listeners;
	size_t n_listeners;
	struct brightbox_check check;
	struct brightbox_domain *domains;
	size_t n_domains;
	struct str *nodes; /* ids of servers */
	size_t n_nodes;
};

struct brightbox_cloud_ip {
	struct brightbox_object base;
	struct str status; /* "mapped" or "unmapped" */
	struct str ipv4, ipv6, fqdn, reverse_dns, mode;
	struct str balancer, interface, group; /* the id of what it is mapped to */
};

struct brightbox_group {
	struct brightbox_object base;
	struct str description, fqdn;
	bool is_default;
	struct str *servers; /* ids */
	size_t n_servers;
};

struct brightbox_policy {
	struct brightbox_object base;
	struct str description;
	bool is_default;
	struct str group; /* id; empty: it is applied to none */
};

struct brightbox_rule {
	struct brightbox_object base;
	struct str policy; /* id */
	struct str source, source_port, destination, destination_port, protocol, icmp_type,
		description;
};

struct brightbox_account {
	struct str id, name;
	/* In the order in which they were made. */
	struct brightbox_object **of[BRIGHTBOX_N_KINDS];
	size_t n_of[BRIGHTBOX_N_KINDS];
	size_t limits[BRIGHTBOX_N_KINDS]; /* how many there may be; the initial value is SIZE_MAX */
};

#define BRIGHTBOX_SERVER_AT(a, i) ((struct brightbox_server *)(a)->of[BRIGHTBOX_SERVER][i])
#define BRIGHTBOX_BALANCER_AT(a, i) ((struct brightbox_balancer *)(a)->of[BRIGHTBOX_BALANCER][i])
#define BRIGHTBOX_CLOUD_IP_AT(a, i) ((struct brightbox_cloud_ip *)(a)->of[BRIGHTBOX_CLOUD_IP][i])
#define BRIGHTBOX_GROUP_AT(a, i) ((struct brightbox_group *)(a)->of[BRIGHTBOX_GROUP][i])

/** NULL: the account has no such object. */
struct brightbox_object *brightbox_find(const struct brightbox_account *, enum brightbox_kind,
                                        struct str id);

/* ---- changes, for checks ---- */

struct brightbox_change {
	const struct brightbox_account *account;
	int64_t wall_ns;
	struct str client;  /* whose token the request had; empty: an actor */
	struct str command; /* "PUT load_balancers/{id}", or a word for what an actor did */
	const struct brightbox_object *before; /* NULL: it was created */
	const struct brightbox_object *after;  /* NULL: it is gone */
};

typedef void brightbox_observe(void *arg, const struct brightbox_change *change);

/* ---- life cycle ---- */

/** The clock of the model starts at wall_ns. The same calls give the same answers.
 *
 * @param seed  of ids and durations
 */
struct brightbox *brightbox_new(int64_t wall_ns, uint64_t seed);
struct server *brightbox_server(struct brightbox *);
void brightbox_set_observer(struct brightbox *, brightbox_observe *observe, void *arg);

/** With two zones, three server types, and a default group with its policy. */
struct brightbox_account *brightbox_add_account(struct brightbox *, const char *name);
/** The API client has this secret from now on, and acts for that account. Its tokens stay. */
void brightbox_set_client(struct brightbox *, const char *id, const char *secret,
                          struct brightbox_account *);
/** A user who may use the public application. */
void brightbox_add_user(struct brightbox *, const char *name, const char *password,
                        struct brightbox_account *);
/** The tokens that a client or user has got are refused from now on. */
void brightbox_revoke_tokens(struct brightbox *, const char *client);
/** The account that a token is good for; NULL: it is refused. */
const struct brightbox_account *brightbox_account_of(const struct brightbox *, struct str token);

/* ---- how the API behaves ---- */

/** May be changed at any time. The initial values are 0, except linger_ns (an hour) and token_ns
 * (two hours). */
struct brightbox_settings {
	/* How long changes take: the seed chooses a time between the two. */
	int64_t change_min_ns, change_max_ns;
	int64_t linger_ns;            /* how long a deleted balancer stays in lists */
	int64_t token_ns;             /* how long a token lives */
	bool leaves_cloud_ips_mapped; /* when a balancer is deleted */
	bool never_maps;              /* what is to be mapped stays unmapped */
};

struct brightbox_settings *brightbox_settings(struct brightbox *);

/* ---- actors ---- */

/** A request by a person or another tool, with the rules for a token of the account.
 *
 * @param target  without /1.0: "/cloud_ips/cip-abcde/unmap"
 * @param body    JSON; empty: none
 * @return  the status of the answer
 */
int brightbox_request(struct brightbox *, struct brightbox_account *, const char *method,
                      const char *target, struct str body);
/** An active server. */
struct brightbox_server *brightbox_add_server(struct brightbox *, struct brightbox_account *);
/** Any status of the API. */
void brightbox_set_server_status(struct brightbox *, struct brightbox_account *,
                                 struct brightbox_server *, const char *status);
void brightbox_set_balancer_status(struct brightbox *, struct brightbox_account *,
                                   struct brightbox_balancer *, const char *status);
/** The server is no longer in any list, and a request for it is answered with 404. */
void brightbox_forget_server(struct brightbox *, struct brightbox_account *,
                             struct brightbox_server *);

#endif
