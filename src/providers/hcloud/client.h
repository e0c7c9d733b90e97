/* client.h: the calls of the Hetzner Cloud API that we make, typed in and out (hcloud.md 5.2).
 *
 * Everything returned is in the arena given, and nothing of it is trusted further than its type: a server has an id and a
 * name, all else may be missing and is then empty.
 *
 * Threads: any.
 */
#ifndef CCMD_HCLOUD_CLIENT_H
#define CCMD_HCLOUD_CLIENT_H

#include "providers/hcloud/actions.h"
#include "providers/hcloud/private_nets.h"

#define HZ_PAGE 50 /* the most the API gives at once */

struct hz_server {
	int64_t id;
	struct str name, status, type;
	struct str location, network_zone;
	struct str ipv4; /* empty: none */
	struct str ipv6; /* its network, "2001:db8:1234::/64"; empty: none */
	struct hz_private_nets private_nets;
};

/** One page of a list. */
struct hz_page {
	struct hz_server *servers;
	size_t n;
	int64_t total; /* of all pages; -1: not said */
	int64_t next;  /* 0: this is the last */
};

struct hz_route {
	struct str destination, gateway;
};

struct hz_network {
	int64_t id;
	struct str name;
	struct hz_route *routes;
	size_t n_routes;
	int64_t *servers; /* ids of those that are attached */
	size_t n_servers;
};

/** GET path?name=…, and of that list the one with exactly this name: the filter is theirs, the comparison ours.
 *
 * @param path  "/servers"; the list is under the same name
 * @param how   for hz_api_get(); the endpoint is the path
 * @param ret   belongs to the answer
 * @return  On false, err->code may be ERR_NOT_FOUND. */
NODISCARD bool hz_find_named(struct hz_api *, struct call *, const char *path, struct str name,
                             struct hz_request how, struct hz_answer *answer, yyjson_val **ret,
                             struct error *err);

/** ERR_NOT_FOUND: the API says that there is no such server. */
NODISCARD bool hz_get_server(struct hz_api *, struct call *, struct arena *, int64_t id,
                             struct hz_server *ret, struct error *err);
/** By its exact name. ERR_NOT_FOUND. */
NODISCARD bool hz_find_server(struct hz_api *, struct call *, struct arena *, struct str name,
                              struct hz_server *ret, struct error *err);
/** Pages count from 1; sorted by id, so that what is created meanwhile moves nothing. */
NODISCARD bool hz_list_servers(struct hz_api *, struct call *, struct arena *, int64_t page,
                               struct hz_page *ret, struct error *err);

/** ERR_NOT_FOUND; hz_find_network() by its exact name. is_patient: at start, see api.h. */
NODISCARD bool hz_get_network(struct hz_api *, struct call *, struct arena *, int64_t id,
                              bool is_patient, struct hz_network *ret, struct error *err);
NODISCARD bool hz_find_network(struct hz_api *, struct call *, struct arena *, struct str name,
                               bool is_patient, struct hz_network *ret, struct error *err);

/** POST /networks/{id}/actions/{verb}, with a route for a body. A network takes one change at a time (`conflict`).
 * @param verb  "add_route" or "delete_route" */
NODISCARD bool hz_change_route(struct hz_api *, struct call *, int64_t network, const char *verb,
                               const struct hz_route *route, struct hz_done *ret_done,
                               struct error *err);

/** Does the API answer, and take the token? */
NODISCARD bool hz_probe(struct hz_api *, struct call *, struct error *err);

#endif
