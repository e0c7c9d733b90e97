/* operations.h: the official controller's count of what it was asked to do (hcloud.md 6). Threads: any. */
#ifndef CCMD_HCLOUD_OPERATIONS_H
#define CCMD_HCLOUD_OPERATIONS_H

/** n times the operation with that name, one of a fixed set: "hcloud/newCloud". */
void hz_count_operations(const char *op, double n);

#endif
