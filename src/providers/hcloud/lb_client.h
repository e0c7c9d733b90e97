/* lb_client.h: calls of the API about load balancers, their types and certificates
 * (docs/spec/hcloud.md, "Requests").
 *
 * Results are the structs of lb_wire.h, with texts in the arena given. A list has all pages, or the
 * call fails. Calls that change something return the action that does it, for which the caller
 * waits (actions.h); id 0: it is done already. All are paid from the budget as urgent work.
 *
 * Threads: any.
 */
#ifndef CCMD_HCLOUD_LB_CLIENT_H
#define CCMD_HCLOUD_LB_CLIENT_H

#include "providers/hcloud/actions.h"
#include "providers/hcloud/lb_wire.h"

struct hz_lb_list {
	struct hz_lb *lbs; /* each once */
	size_t n;
};

/** All balancers whose label HZ_LABEL_UID has one of these values, which are separated by commas;
 * uids empty: any value. ERR_CONFLICT: the list changed during each of several readings. */
NODISCARD bool hz_list_lbs(struct hz_api *, struct call *, struct arena *, struct str uids,
                           struct hz_lb_list *ret, struct error *err);
/** ERR_NOT_FOUND: the API says that it does not exist. */
NODISCARD bool hz_find_lb(struct hz_api *, struct call *, struct arena *, struct hz_which which,
                          struct hz_lb *ret, struct error *err);

/** POST /load_balancers. ERR_EXISTS: the name is taken. *ret may lack addresses at first. */
NODISCARD bool hz_create_lb(struct hz_api *, struct call *, struct arena *, struct str body,
                            struct hz_lb *ret, struct hz_done *ret_done, struct error *err);
/** POST /load_balancers/{id}/actions/{verb}; without a verb PUT /load_balancers/{id}, for name and
 * labels. body may be empty.
 * @param verb  one of a fixed set, because metrics have it as a label; NULL: none */
NODISCARD bool hz_change_lb(struct hz_api *, struct call *, int64_t id, const char *verb,
                            struct str body, struct hz_done *ret_done, struct error *err);
/** DELETE; success is 204, or 201 with an action. ERR_NOT_FOUND: it was deleted already. */
NODISCARD bool hz_delete_lb(struct hz_api *, struct call *, int64_t id, struct hz_done *ret_done,
                            struct error *err);
/** All types. */
NODISCARD bool hz_list_lb_types(struct hz_api *, struct call *, struct arena *,
                                struct hz_lb_type **ret, size_t *ret_n, struct error *err);

/** By exact name, or by the Service's UID (ERR_CONFLICT: several have it). ERR_NOT_FOUND. */
NODISCARD bool hz_find_certificate(struct hz_api *, struct call *, struct arena *, struct str name,
                                   struct hz_certificate *ret, struct error *err);
NODISCARD bool hz_find_certificate_of(struct hz_api *, struct call *, struct arena *,
                                      struct str uid, struct hz_certificate *ret,
                                      struct error *err);
/** POST /certificates, for a managed one. ERR_EXISTS: the name is taken. */
NODISCARD bool hz_order_certificate(struct hz_api *, struct call *, struct arena *, struct str body,
                                    struct hz_certificate *ret, struct hz_done *ret_done,
                                    struct error *err);

#endif
