/* lb_catalog.h: types and certificates, to which load balancers refer.
 *
 * Types: one list is used for an hour. A name that it lacks is looked up in a new list, at most
 * once a minute. One request runs at a time, during which types of the present list are still
 * found.
 *
 * Certificates: uploaded ones are given by id, which is not checked, or by name. A managed one
 * belongs to one Service, is found by its label, and is ordered if it does not exist; that takes
 * minutes, during which other Services are served. A certificate that was found is kept for a
 * while, so that Services without changes cost no request: a certificate in use cannot be deleted.
 *
 * Threads: any.
 */
#ifndef CCMD_HCLOUD_LB_CATALOG_H
#define CCMD_HCLOUD_LB_CATALOG_H

#include "providers/hcloud/lb_client.h"
#include "providers/hcloud/lb_desired.h"

struct hz_catalog;

struct hz_catalog *hz_catalog_new(struct hz_api *api, struct clock *clock);
void hz_catalog_free(struct hz_catalog *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_catalog, hz_catalog_free)

/* ---- types ---- */

/** ERR_INVALID: a list that is at most a minute old lacks it. Texts are copied to the arena. */
NODISCARD bool hz_types_find(struct hz_catalog *, struct call *, struct arena *, struct str name,
                             struct hz_lb_type *ret, struct error *err);

/* ---- certificates ---- */

/** Sets the ids in the services of the desired balancer. *ret_action: issues the certificate, which
 * services may not use before it is over; id 0: there is nothing to wait for. */
NODISCARD bool hz_certificates_resolve(struct hz_catalog *, struct call *, struct hz_lb_desired *,
                                       struct hz_action *ret_action, struct error *err);
/** Forgets the Service's managed certificate, issued or refused: it is looked up again. */
void hz_certificates_forget(struct hz_catalog *, struct str uid);

#endif
