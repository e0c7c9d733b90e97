/* provider_id.h: the texts in spec.providerID that name a machine (hcloud.md 2.1).
 *
 * Threads: pure.
 */
#ifndef CCMD_HCLOUD_PROVIDER_ID_H
#define CCMD_HCLOUD_PROVIDER_ID_H

#include "base/buf.h"
#include "base/error.h"
#include "providers/hcloud/dialect.h"

enum hz_kind {
	HZ_CLOUD, /* a server of the Cloud API */
	HZ_ROBOT, /* a dedicated server */
};

struct hz_id {
	enum hz_kind kind;
	int64_t number; /* positive */
};

/** ERR_UNSUPPORTED: not one of this provider's; ERR_INVALID: one of them, but without a number that can be. */
NODISCARD bool hz_id_parse(const struct hz_dialect *, struct str text, struct hz_id *ret,
                           struct error *err);
/** Appends what is written to nodes. */
void hz_id_format(struct buf *b, const struct hz_dialect *, struct hz_id id);

#endif
