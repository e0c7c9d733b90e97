/* tests/simulation/system.h: replaces functions of the C library in the replicas.
 *
 * The shared objects of the replicas are linked with --wrap for each function of system.c. So their
 * calls reach system.c, and the calls of the simulation itself reach the C library.
 *
 * Threads: none.
 */
#ifndef CCMD_TESTS_SIMULATION_SYSTEM_H
#define CCMD_TESTS_SIMULATION_SYSTEM_H

#include <stddef.h>

#include "base/str.h"
#include "replica.h"

void system_seed(uint64_t seed);
/** The answer of the name servers: an address as a text; NULL: the name does not exist.
 *
 * @param resolve  NULL: no name exists */
void system_set_resolver(const char *(*resolve)(const char *name));
/** Called before a replica starts: each incarnation gets other random numbers. */
void system_start(const struct replica *);
/** Programs that a replica runs, instead of running them. Returns the exit code. */
void system_set_programs(int (*run)(const struct replica *, const char *const argv[]));
/** Who gets each line that a replica writes into its log; NULL: nobody. */
void system_set_log_observer(void (*observe)(const struct replica *, struct str line));
/** What the replica has written to its standard output since its start. */
struct str system_output(unsigned replica);
/** What the replica has allocated and not freed since its start, and the most that this has been
 * since the replica's first start, or since system_forget_max(). */
size_t system_n_bytes(unsigned replica);
size_t system_max_bytes(unsigned replica);

/** How many blocks that is. */
size_t system_n_blocks(unsigned replica);
/** system_max_bytes() begins again. */
void system_forget_max(unsigned replica);
/** How often the replica has allocated memory, in all its lives. */
uint64_t system_n_allocations(unsigned replica);

#endif
