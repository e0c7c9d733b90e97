/* lb_catalog.h: what a load balancer refers to by name: types and certificates.
 *
 * Types: one list serves for an hour. A name that it lacks is looked up in a new list, at most once
 * a minute. A type that is known is found while a request is under way; there is one request at a
 * time.
 *
 * Certificates: uploaded ones are named by id, which is not checked, or by name. A managed one is
 * the Service's own, known by its label, and ordered where there is none; that takes minutes, and
 * other Services go on meanwhile. What was found serves for a while, so that settled Services cost
 * no call: a certificate in use cannot be deleted.
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

/** ERR_INVALID: a list of the last minute has none of that name. Texts are copied to the arena. */
NODISCARD bool hz_types_find(struct hz_types *, struct call *, struct arena *, struct str name,
                             struct hz_lb_type *ret, struct error *err);

/* ---- certificates ---- */

struct hz_certificates;

struct hz_certificates *hz_certificates_new(struct hz_api *api, struct clock *clock);
void hz_certificates_free(struct hz_certificates *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_certificates, hz_certificates_free)

/** Puts the ids into the services of the desired balancer. *ret_action: the certificate is being
 * issued, and no service may name it before. */
NODISCARD bool hz_certificates_resolve(struct hz_certificates *, struct call *,
                                       struct hz_lb_desired *, struct hz_action *ret_action,
                                       struct error *err);
/** The Service's own certificate was issued, or could not be: it is looked up again. */
void hz_certificates_forget(struct hz_certificates *, struct str uid);

#endif
