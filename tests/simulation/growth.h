/* tests/simulation/growth.h: how requests, allocations, steps and memory of ccmd grow with the
 * cluster and the cloud, in a world without faults: ./dev simulate --growth, and
 * docs/performance.md.
 *
 * Threads: none.
 */
#ifndef CCMD_TESTS_SIMULATION_GROWTH_H
#define CCMD_TESTS_SIMULATION_GROWTH_H

/** Runs a world for each size, each in a process of its own, and prints a table.
 *
 * @param what   "nodes", "services", "servers" or "week"
 * @param sizes  numbers separated by commas; NULL: those of docs/performance.md
 * @return  the exit status: 1 if a world failed, or if the figures for one object differ between
 *          two sizes by more than 10 %
 */
int growth_run(const char *what, const char *sizes);

#endif
