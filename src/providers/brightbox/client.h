/* client.h: one function for each call of the Brightbox API (docs/spec/brightbox.md, "Requests").
 *
 * The API has no pages: a list is complete, or it is an error. Only the status 404 means that
 * something is not there. The API answers a change before it has taken effect: a balancer is built,
 * and a cloud IP is mapped, some seconds later.
 *
 * Threads: any. Answers are in the arena of the call.
 */
#ifndef CCMD_BRIGHTBOX_CLIENT_H
#define CCMD_BRIGHTBOX_CLIENT_H

#include "cloud/rest.h"
#include "providers/brightbox/wire.h"

struct bb_client; /* opaque */

struct bb_client_config {
	const struct cloud_host *host;
	struct http_auth *auth;
	struct str api_url; /* as configured: "https://api.gb1.brightbox.com/" */
	struct str account; /* named in each request, as a user's credentials require; empty: not
	                       named */
};

NODISCARD bool bb_client_new(const struct bb_client_config *, struct bb_client **ret,
                             struct error *err);
void bb_client_free(struct bb_client *); /* NULL is fine */
DEFINE_CLEANUP(struct bb_client, bb_client_free)

/** Appends the URL of a relative reference, which replaces everything behind the last '/' of the
 * base (RFC 3986, section 5.2.3). */
void bb_url_resolve(struct buf *ret, struct str base, const char *relative);

/* ---- reading ---- */

/** The id of the first account that the credentials can use. ERR_INVALID: there is none. */
NODISCARD bool bb_first_account(struct bb_client *, struct call *, struct str *ret,
                                struct error *err);

NODISCARD bool bb_get_server(struct bb_client *, struct call *, struct str id,
                             struct bb_server *ret, struct error *err);
NODISCARD bool bb_list_servers(struct bb_client *, struct call *, struct bb_server **ret,
                               size_t *ret_n, struct error *err);
NODISCARD bool bb_get_lb(struct bb_client *, struct call *, struct str id, struct bb_lb *ret,
                         struct error *err);
NODISCARD bool bb_list_lbs(struct bb_client *, struct call *, struct bb_lb **ret, size_t *ret_n,
                           struct error *err);
NODISCARD bool bb_get_cloud_ip(struct bb_client *, struct call *, struct str id,
                               struct bb_cloud_ip *ret, struct error *err);
NODISCARD bool bb_list_cloud_ips(struct bb_client *, struct call *, struct bb_cloud_ip **ret,
                                 size_t *ret_n, struct error *err);
NODISCARD bool bb_list_groups(struct bb_client *, struct call *, struct bb_group **ret,
                              size_t *ret_n, struct error *err);
NODISCARD bool bb_list_policies(struct bb_client *, struct call *, struct bb_policy **ret,
                                size_t *ret_n, struct error *err);

/* ---- changing ----
 *
 * In a dry run (call->dry) the request is noted instead of sent, and the answer about something new
 * is made up: it has the name, one of the ids of dry.h, and a status as if all waiting were over.
 */

/** body: as bb_desired_body() writes it, with that name. */
NODISCARD bool bb_create_lb(struct bb_client *, struct call *, struct str name, struct str body,
                            struct bb_lb *ret, struct error *err);
/** present: the balancer as it is, in the form of the body. */
NODISCARD bool bb_update_lb(struct bb_client *, struct call *, struct str id, struct str body,
                            struct str present, struct error *err);
NODISCARD bool bb_destroy_lb(struct bb_client *, struct call *, struct str id, struct error *err);

NODISCARD bool bb_create_cloud_ip(struct bb_client *, struct call *, struct str name,
                                  struct bb_cloud_ip *ret, struct error *err);
NODISCARD bool bb_map_cloud_ip(struct bb_client *, struct call *, struct str id,
                               struct str destination, struct error *err);
NODISCARD bool bb_unmap_cloud_ip(struct bb_client *, struct call *, struct str id,
                                 struct error *err);
NODISCARD bool bb_destroy_cloud_ip(struct bb_client *, struct call *, struct str id,
                                   struct error *err);

NODISCARD bool bb_create_group(struct bb_client *, struct call *, struct str name,
                               struct bb_group *ret, struct error *err);
NODISCARD bool bb_add_servers(struct bb_client *, struct call *, struct str group,
                              const struct str servers[], size_t n, struct error *err);
NODISCARD bool bb_remove_servers(struct bb_client *, struct call *, struct str group,
                                 const struct str servers[], size_t n, struct error *err);
NODISCARD bool bb_destroy_group(struct bb_client *, struct call *, struct str id,
                                struct error *err);

NODISCARD bool bb_create_policy(struct bb_client *, struct call *, struct str name,
                                struct str group, struct bb_policy *ret, struct error *err);
NODISCARD bool bb_apply_policy(struct bb_client *, struct call *, struct str id, struct str group,
                               struct error *err);
NODISCARD bool bb_destroy_policy(struct bb_client *, struct call *, struct str id,
                                 struct error *err);

/** rule->id is not used here. */
NODISCARD bool bb_create_rule(struct bb_client *, struct call *, struct str policy,
                              const struct bb_rule *rule, struct error *err);
NODISCARD bool bb_update_rule(struct bb_client *, struct call *, struct str policy,
                              const struct bb_rule *rule, const struct bb_rule *present,
                              struct error *err);

#endif
