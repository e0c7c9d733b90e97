/* lb_read.h: load balancers, their types and certificates out of the API's JSON (hcloud.md 5.2, 11.6).
 *
 * Nothing is trusted further than its type: what has no id fails, all else may be missing and is then empty or unset. A target
 * of a kind we do not know is somebody else's, as a label selector is; a service without a port is left out.
 *
 * Threads: pure. All texts are copied into the arena.
 */
#ifndef CCMD_HCLOUD_LB_READ_H
#define CCMD_HCLOUD_LB_READ_H

#include "base/json.h"
#include "providers/hcloud/lb_model.h"

struct hz_certificate {
	int64_t id;
	struct str name, uid;       /* uid: of HZ_LABEL_UID; empty: none */
	bool is_managed, is_failed; /* failed: it was ordered, and will not come */
};

/** ERR_UNAVAILABLE without an id, here and below. */
NODISCARD bool hz_lb_read(yyjson_val *, struct arena *, struct hz_lb *ret, struct error *err);
NODISCARD bool hz_lb_type_read(yyjson_val *, struct arena *, struct hz_lb_type *ret,
                               struct error *err);
NODISCARD bool hz_certificate_read(yyjson_val *, struct arena *, struct hz_certificate *ret,
                                   struct error *err);

#endif
