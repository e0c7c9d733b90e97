/* pools.h: the blocks of an address pool, and what must not be in two places at once.
 *
 * Pools can be written by the thousand and hold a million addresses: everything here is sorting and sweeping, nothing
 * counts addresses one by one.
 */
#ifndef CCMD_CLOUDLYCKE_POOLS_H
#define CCMD_CLOUDLYCKE_POOLS_H

#include "providers/cloudlycke/reader.h"
#include "providers/cloudlycke/schema.h"

/* For cl_field.read: "192.168.20.240-192.168.20.250", "198.51.100.0/29", "fd00::1"; into struct cl_blocks. */
void cl_read_blocks(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                    void *into);

/** No pool too large, none overlapping another, none with the address of a machine: node is the list of pools. */
void cl_check_pools(struct cl_reader *r, const struct yaml_node *node,
                    const struct cl_schema *schema);

#endif
