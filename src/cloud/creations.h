/* cloud/creations.h: balancers that were requested and that a search may not find yet.
 *
 * In some clouds a balancer is listed only when the job that creates it has ended. Until then a
 * search that does not find it proves nothing: neither that it has to be created, nor that its
 * Service may be released. The same holds for the time after this process has begun to lead, since
 * the former leader may have asked for balancers a moment before.
 *
 * Threads: any.
 */
#ifndef CCMD_CLOUD_CREATIONS_H
#define CCMD_CLOUD_CREATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/macros.h"
#include "base/str.h"

struct creation {
	uint64_t uid_hash;
	int64_t begun_boot_ns; /* 0: this place is free */
	bool is_reported;      /* an event has reported that it takes long */
};

/** Part of struct cloud; all zero at first. */
struct creations {
	struct creation all[LIMIT_CREATIONS];
	int64_t leads_since_boot_ns; /* 0: not known yet */
};

/** This process begins to lead: only the first call counts. */
void creations_begin(struct creations *, int64_t now_boot_ns);
/** A balancer is requested now. False: there is no place left, so it must not be requested yet.
 * @param hidden_ns  how long it may be invisible; entries that are older are dropped */
NODISCARD bool creations_note(struct creations *, struct str uid, int64_t hidden_ns,
                              int64_t now_boot_ns);
/** It was found, or was refused. */
void creations_forget(struct creations *, struct str uid);

/** May a balancer of the Service exist that a search does not find? True: *ret_since_boot_ns is the
 * latest time at which it was requested. *ret_reports is true, once, if that was CREATION_LONG_S
 * ago or longer: the caller then sends an event. */
bool creations_may_hide(struct creations *, struct str uid, int64_t hidden_ns, int64_t now_boot_ns,
                        int64_t *ret_since_boot_ns, bool *ret_reports);

enum {
	CREATION_LONG_S = 60,
};

#endif
