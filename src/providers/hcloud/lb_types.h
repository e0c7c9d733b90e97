/* lb_types.h: the types of load balancers, by name.
 *
 * One list serves for an hour. A name that it lacks is looked for in a new list, at most once a minute.
 *
 * Threads: any; one request at a time. A type that is known is found while a request is under way.
 */
#ifndef CCMD_HCLOUD_LB_TYPES_H
#define CCMD_HCLOUD_LB_TYPES_H

#include "providers/hcloud/lb_client.h"

struct hz_types;

struct hz_types *hz_types_new(struct hz_api *api, struct clock *clock);
void hz_types_free(struct hz_types *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_types, hz_types_free)

/** ERR_INVALID: a list of the last minute has none of that name. Texts are copied to the arena. */
NODISCARD bool hz_types_find(struct hz_types *, struct call *, struct arena *, struct str name,
                             struct hz_lb_type *ret, struct error *err);

#endif
