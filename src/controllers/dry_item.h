/* controllers/dry_item.h: makes the value of call->dry for a work item (base/dry_run.h).
 *
 * Threads: any.
 */
#ifndef CCMD_CONTROLLERS_DRY_ITEM_H
#define CCMD_CONTROLLERS_DRY_ITEM_H

#include "controllers/env.h"

/** Returns the value of call->dry for work on this object, in the arena. NULL: this is not a dry
 * run. The arguments are as in struct dry_item, and are copied. */
const struct dry_item *dry_item_new(const struct controller_env *, const char *kind,
                                    struct str name, struct str version, struct arena *arena);
/** The same for the object with this key in a store. If the store does not have it, the version is
 * empty. */
const struct dry_item *dry_item_find(const struct controller_env *, struct store *store,
                                     const char *kind, struct str key, struct arena *arena);

#endif
