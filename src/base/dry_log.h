/* base/dry_log.h: the receiver of changes for --dry-run, which logs them.
 *
 * A dry run does not carry out decisions, so a controller makes the same ones again and again.
 * Therefore a change is logged once for each version of the object that it is noted for, and again
 * if its fields differ. Up to LIMIT_DRY_OBJECTS objects are remembered; then the one that was seen
 * first is forgotten, and its changes may be logged a second time.
 *
 * Threads: any.
 */
#ifndef CCMD_BASE_DRY_LOG_H
#define CCMD_BASE_DRY_LOG_H

#include "base/dry_run.h"

struct dry_run *dry_log_new(void);
void dry_log_free(struct dry_run *); /* NULL is fine */

#endif
