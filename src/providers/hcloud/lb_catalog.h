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

/* ---- types ---- */

struct hz_types;

struct hz_types *hz_types_new(struct hz_api *api, struct clock *clock);
void hz_types_free(struct hz_types *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_types, hz_types_free)

/** ERR_INVALID: a list that is at most a minute old lacks the name. Texts are copied to the arena.
 */
NODISCARD bool hz_types_find(struct hz_types *, struct call *, struct arena *, struct str name,
                             struct hz_lb_type *ret, struct error *err);

/* ---- certificates ---- */

struct hz_certificates;

struct hz_certificates *hz_certificates_new(struct hz_api *api, struct clock *clock);
void hz_certificates_free(struct hz_certificates *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_certificates, hz_certificates_free)

/** Sets the ids in the services of the desired balancer. *ret_action: issues the certificate, which
 * services may not use before it is over; id 0: there is nothing to wait for. */
NODISCARD bool hz_certificates_resolve(struct hz_certificates *, struct call *,
                                       struct hz_lb_desired *, struct hz_action *ret_action,
                                       struct error *err);
/** Forgets the Service's managed certificate, which was issued or refused, so that it is looked up
 * again. */
void hz_certificates_forget(struct hz_certificates *, struct str uid);

#endif
