/* client.h: requests to the Brightbox API (docs/spec/brightbox.md, "Requests").
 *
 * The API has no pages: a list is complete, or it is an error. Only the status 404 means that
 * something is not there. The API answers a change before it has taken effect: a balancer is built,
 * and a cloud IP is mapped, some seconds later.
 *
 * Threads: any. Answers are in the arena of the call.
 */
#ifndef CCMD_BRIGHTBOX_CLIENT_H
#define CCMD_BRIGHTBOX_CLIENT_H

#include "cloud/change.h"
#include "providers/brightbox/config.h"
#include "providers/brightbox/wire.h"

struct bb_client; /* opaque */

/** The account of the configuration is named in each request, if a user's credentials require it.
 * ERR_INVALID: the URL cannot be used. */
NODISCARD bool bb_client_new(const struct cloud_host *, const struct bb_config *,
                             struct http_auth *, struct bb_client **ret, struct error *err);
void bb_client_free(struct bb_client *); /* NULL is fine */
DEFINE_CLEANUP(struct bb_client, bb_client_free)

/** Appends the URL of a relative reference, which replaces everything behind the last '/' of the
 * base (RFC 3986, section 5.2.3). */
void bb_url_resolve(struct buf *ret, struct str base, const char *relative);

/** The id of the first account that the credentials can use. ERR_INVALID: there is none. */
NODISCARD bool bb_first_account(struct bb_client *, struct call *, struct str *ret,
                                struct error *err);

/** One object, by its id; or all of a collection. With the types below. */
NODISCARD bool bb_get(struct bb_client *, struct call *, const char *collection, struct str id,
                      const struct bb_object *, void *ret, struct error *err);
NODISCARD bool bb_list(struct bb_client *, struct call *, const char *collection,
                       const struct bb_object *, void **ret, size_t *ret_n, struct error *err);

#define BB_GET(name, object, collection)                                                    \
	NODISCARD static inline bool bb_get_##name(struct bb_client *c, struct call *call,  \
	                                           struct str id, struct object *ret,       \
	                                           struct error *err)                       \
	{                                                                                   \
		return bb_get(c, call, "/" collection "/", id, &object##_object, ret, err); \
	}
#define BB_LIST(names, object, collection)                                                       \
	NODISCARD static inline bool bb_list_##names(struct bb_client *c, struct call *call,     \
	                                             struct object **ret, size_t *ret_n,         \
	                                             struct error *err)                          \
	{                                                                                        \
		return bb_list(c, call, collection, &object##_object, (void **)ret, ret_n, err); \
	}

BB_GET(server, bb_server, "servers")
BB_GET(lb, bb_lb, "load_balancers")
BB_GET(cloud_ip, bb_cloud_ip, "cloud_ips")
BB_LIST(servers, bb_server, "servers")
BB_LIST(lbs, bb_lb, "load_balancers")
BB_LIST(cloud_ips, bb_cloud_ip, "cloud_ips")
BB_LIST(groups, bb_group, "server_groups")
BB_LIST(policies, bb_policy, "firewall_policies")

/** Sends a change, as change_send(). */
NODISCARD bool bb_send(struct bb_client *, struct call *, const struct change *, struct str *ret_id,
                       struct error *err);

#endif
