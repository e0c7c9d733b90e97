/* lb_types.h: the types of load balancers, by name; one list serves for an hour (hcloud.md 3.3).
 *
 * Threads: any; one request at a time.
 */
#ifndef CCMD_HCLOUD_LB_TYPES_H
#define CCMD_HCLOUD_LB_TYPES_H

#include "providers/hcloud/lb_client.h"

struct hz_types;

struct hz_types *hz_types_new(struct hz_api *api, struct clock *clock);
void hz_types_free(struct hz_types *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_types, hz_types_free)

/** ERR_INVALID: there is none of that name, which was asked for just now. Texts are copied to the arena. */
NODISCARD bool hz_types_find(struct hz_types *, struct call *, struct arena *, struct str name,
                             struct hz_lb_type *ret, struct error *err);

#endif
