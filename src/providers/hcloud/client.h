/* client.h: calls of the Hetzner Cloud API about servers and networks, with typed arguments and
 * results, and the provider IDs of nodes.
 *
 * Results are in the arena given. Of an answer only the types are relied on: a server has an id and
 * a name; any other member may be missing, and is empty then.
 *
 * Threads: any; a struct hz_servers is read once, by one thread.
 */
#ifndef CCMD_HCLOUD_CLIENT_H
#define CCMD_HCLOUD_CLIENT_H

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/map.h"
#include "http/http.h"
#include "providers/hcloud/actions.h"
#include "providers/hcloud/config.h"

/* ---- provider IDs ---- */

enum hz_kind {
	HZ_CLOUD, /* a server of the Cloud API */
	HZ_ROBOT, /* a dedicated server */
};

struct hz_id {
	enum hz_kind kind;
	int64_t number; /* positive */
};

/** ERR_UNSUPPORTED: the provider ID belongs to another cloud; ERR_INVALID: it has one of our
 * prefixes, but no valid number. */
NODISCARD bool hz_id_parse(const struct hz_dialect *, struct str text, struct hz_id *ret,
                           struct error *err);
/** The provider ID as it is written to nodes. */
struct str hz_id_text(struct arena *, const struct hz_dialect *, struct hz_id id);

/** The cluster's nodes, by what identifies their servers. */
struct hz_nodes {
	struct map by_id;   /* a key has the bytes of the server's ID */
	struct map by_name; /* has only nodes without a provider ID */
};

#define HZ_NODES_INIT ((struct hz_nodes){ MAP_INIT, MAP_INIT })
/** Reads them into the arena. *ret is HZ_NODES_INIT before. */
void hz_nodes_read(const struct cloud_host *, const struct hz_dialect *, struct arena *,
                   struct hz_nodes *ret);
/** For CLEANUP(hz_nodes_fini). */
void hz_nodes_fini(struct hz_nodes *);

/* ---- private networks ---- */

struct hz_private_net {
	int64_t network;
	struct str ip; /* empty: none is assigned yet */
};

struct hz_private_nets {
	struct hz_private_net *items;
	size_t n;
};

/** Reads "private_net" of a server or balancer. Elements without a network are left out. */
void hz_private_nets_read(struct arena *, yyjson_val *of, struct hz_private_nets *ret);
/** The address in that network; empty: none. */
struct str hz_address_in(const struct hz_private_nets *, int64_t network);

/* ---- calls ---- */

#define HZ_PAGE 50 /* the API's largest page */

struct hz_server {
	int64_t id;
	struct str name, status, type;
	struct str location, network_zone;
	struct str ipv4; /* empty: none */
	struct str ipv6; /* its network, "2001:db8:1234::/64"; empty: none */
	struct hz_private_nets private_nets;
};

struct hz_route {
	struct str destination, gateway;
};

struct hz_network {
	int64_t id;
	struct str name;
	struct hz_route *routes;
	size_t n_routes;
	int64_t *servers; /* ids of the attached servers */
	size_t n_servers;
	struct str range; /* "10.0.0.0/8" */
	struct str *subnets;
	size_t n_subnets;
};

/** Which object: the one with that id, or, if the id is 0, with exactly that name. */
struct hz_which {
	int64_t id;
	struct str name;
};

#define HZ_BY_ID(number) ((struct hz_which){ .id = (number) })
#define HZ_BY_NAME(text) ((struct hz_which){ .name = (text) })

/** Reads an object of an answer, with texts in the arena. ERR_UNAVAILABLE: it has no id.
 * @param ret  the struct of its kind */
typedef bool hz_read_fn(yyjson_val *, struct arena *, void *ret, struct error *err);

/** Finds one object: by its id with GET /{kind}s/{id}, or by its name in the list GET
 * /{kind}s?name=…. The API's own comparison of names is not relied on, because it matters that
 * exactly this object is found.
 *
 * @param kind  "server", as the API names it
 * @param how   of the request, except for its target
 * @param read  reads it into *ret
 * @return  On false, err->code may be ERR_NOT_FOUND: the API says that it does not exist. */
NODISCARD bool hz_find_object(struct hz_api *, struct call *, struct arena *, const char *kind,
                              struct hz_which which, struct hz_request how, hz_read_fn *read,
                              void *ret, struct error *err);
NODISCARD bool hz_find_server(struct hz_api *, struct call *, struct arena *, struct hz_which which,
                              struct hz_server *ret, struct error *err);
/** retries_at_start: as in struct hz_request. */
NODISCARD bool hz_find_network(struct hz_api *, struct call *, struct arena *,
                               struct hz_which which, bool retries_at_start, struct hz_network *ret,
                               struct error *err);

/** What a list of the API names, in its order. All lists end with NULL. */
struct hz_names {
	const char **names, **ids;
	const char **zones; /* the network zones, each once; only of locations */
};

/** GET path: the first 50 objects, which are all locations and all types of load balancers.
 * @param path  "/locations"; the list is under the same name */
NODISCARD bool hz_list_names(struct hz_api *, struct call *, struct arena *, const char *path,
                             struct hz_names *ret, struct error *err);

/** POST /networks/{id}/actions/{verb}, with a route for a body. A network takes one change at a
 * time (`conflict`).
 * @param verb  "add_route" or "delete_route" */
NODISCARD bool hz_change_route(struct hz_api *, struct call *, int64_t network, const char *verb,
                               const struct hz_route *route, struct hz_done *ret_done,
                               struct error *err);

/** Does the API answer, and accept the token? */
NODISCARD bool hz_probe(struct hz_api *, struct call *, struct error *err);

/* ---- lists, page by page ---- */

/** A list that is read page by page, with one request for each. Objects may be created or deleted
 * between two of them, which moves others to a neighbouring page: an object may be on two pages, or
 * on none. Lists are sorted by id, so that an object that is created meanwhile comes last. */
struct hz_pages {
	const char *path;    /* "/servers"; the list is under the same name */
	struct str selector; /* of labels; empty: the list has all objects */
	bool is_unsorted;    /* the API cannot sort this list */
	int64_t max;         /* pages */
	int64_t next;        /* the page to read: 1 at first; 0: all were read */
	int64_t total;       /* of all objects, as the last page has it; -1: it does not say */
};

/** Reads the next page. ERR_UNAVAILABLE also: the list does not end with page `max`. */
NODISCARD bool hz_read_page(struct hz_api *, struct call *, struct hz_pages *,
                            struct hz_request how, struct hz_answer *answer, yyjson_val **ret,
                            struct error *err);

/* ---- all servers of the project at one moment ---- */

/* A list is complete if every page gave the same total, and there are as many distinct ids: if
 * servers are created or deleted while the pages are read, a page may miss others. Only a server
 * that a complete list lacks does not exist. */

struct hz_servers {
	struct arena arena;
	struct map by_id;             /* the bytes of the id -> struct hz_server */
	struct map by_name;           /* names are unique in a project */
	const struct hz_server *page; /* those of the page that was read last, also listed before */
	size_t n_page;
	bool is_complete;
	bool totals_differ; /* or one was missing */
	struct hz_pages pages;
};

#define HZ_SERVERS_INIT                                                   \
	((struct hz_servers){ .pages = { .path = "/servers",              \
	                                 .max = LIMIT_MACHINES / HZ_PAGE, \
	                                 .next = 1,                       \
	                                 .total = -1 } })
/** For CLEANUP(hz_servers_fini). */
void hz_servers_fini(struct hz_servers *);

/** Reads the next page; is_complete is set after the last one.
 *
 * @param s  HZ_SERVERS_INIT before the first; to be freed on failure as well */
NODISCARD bool hz_servers_read_page(struct hz_api *, struct call *, struct hz_servers *s,
                                    struct error *err);
/** How many pages follow, computed from the total of the last one. */
uint64_t hz_servers_pages_left(const struct hz_servers *);

/** NULL: not listed. */
const struct hz_server *hz_servers_find(const struct hz_servers *, struct hz_which which);

/* ---- the metadata service, which answers a server about itself ---- */

/** Does the text of private-networks contain this network? It is YAML; only its lines
 * `network_id: N` are read. */
bool hz_metadata_names_network(struct str text, int64_t network);

/** Asks the metadata service. Errors are those of the request; a status other than 2xx is
 * ERR_UNAVAILABLE. */
NODISCARD bool hz_metadata_is_attached(struct http_client *http, struct call *call, int64_t network,
                                       bool *ret, struct error *err);

#endif
