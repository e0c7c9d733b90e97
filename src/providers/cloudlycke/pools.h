/* pools.h: the addresses of pools: how they are read, checked and found.
 *
 * There may be thousands of pools with a million addresses, or with 2^64: blocks of addresses are
 * compared and skipped as a whole.
 */
#ifndef CCMD_CLOUDLYCKE_POOLS_H
#define CCMD_CLOUDLYCKE_POOLS_H

#include "providers/cloudlycke/inventory.h"

/** "192.168.20.240-192.168.20.250", "198.51.100.0/29", "fd00::1"; into a struct cl_block. */
cl_read_fn cl_read_block;

/** Adds a problem for each pool that is too large, overlaps with another one, or has the address of
 * a machine. node is the list of pools. */
void cl_check_pools(struct cl_reader *r, const struct yaml_node *node,
                    const struct cl_schema *schema);

/** Is the address in the pool and usable? *ret_is_avoided (may be NULL): it is in the pool, but
 * excluded (avoid, avoidEdges). */
bool cl_pool_has(const struct cl_pool *pool, const struct ip *ip, bool *ret_is_avoided);
/** The lowest usable address of the first listed block of that family that has one. taken: sorted;
 * these are left out. */
bool cl_pool_find(const struct cl_pool *pool, enum ip_family family, const struct ip taken[],
                  size_t n_taken, struct ip *ret);
/** For qsort() of struct ip. */
int cl_ip_order(const void *a, const void *b);

/** Appends the template with the values of {name} and {namespace}. */
void cl_fill_template(struct buf *b, struct str hostname_template, struct str name,
                      struct str namespace);

#endif
