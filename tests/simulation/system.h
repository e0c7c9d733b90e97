/* tests/simulation/system.h: what stands for the C library in the replicas.
 *
 * The objects of the replicas are linked with --wrap for each function of system.c, so their calls
 * come here, and nobody else's do.
 *
 * Threads: none.
 */
#ifndef CCMD_TESTS_SIMULATION_SYSTEM_H
#define CCMD_TESTS_SIMULATION_SYSTEM_H

#include "replica.h"

void system_seed(uint64_t seed);
/** A new incarnation draws other random numbers. */
void system_start(const struct replica *);

#endif
