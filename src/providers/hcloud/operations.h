/* operations.h: the official controller's count of what it was asked to do (hcloud.md 6). Threads: any. */
#ifndef CCMD_HCLOUD_OPERATIONS_H
#define CCMD_HCLOUD_OPERATIONS_H

#include "providers/hcloud/config.h"

/** n times the operation with that name, one of a fixed set: "hcloud/newCloud". */
void hz_count_operations(const char *op, double n);

/** A server was looked for, by one of a few who ask; result: "hit" or "miss". */
void hz_count_lookup(const char *subsystem, enum hz_cache_mode mode, const char *result);

#endif
