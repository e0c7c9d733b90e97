/* tests/simulation/cover.h: notes which parts of the replicas run; see tools/coverage. */
#ifndef CCMD_TESTS_SIMULATION_COVER_H
#define CCMD_TESTS_SIMULATION_COVER_H

/** To be called when the replicas are loaded. Without COVERAGE_FILE in the environment it does
 * nothing. */
void cover_begin(void);

#endif
