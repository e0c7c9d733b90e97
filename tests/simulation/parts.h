/* tests/simulation/parts.h: what the object of a replica and the simulation have to do with each
 * other, apart from the C library and libcurl.
 *
 * parts.c takes the place of files of src/ in the object of a replica. Its functions that begin
 * with replica_ are called by the simulation; those that begin with world_ are the simulation's.
 */
#ifndef CCMD_TESTS_SIMULATION_PARTS_H
#define CCMD_TESTS_SIMULATION_PARTS_H

#include <stdbool.h>
#include <stdint.h>

/** The program: src/main.c. */
int replica_main(int argc, char *argv[]);
/** Makes the C library allocate the thread-local variables of the object. */
void replica_touch_tls(void);

/** Waits until the channel is woken or CLOCK_MONOTONIC reaches that time. */
void world_wait(const void *channel, int64_t until_mono_ns);
void world_wake(const void *channel);
/** Returns a signal that the process has received and takes it, or 0. Signals wake the channel. */
int world_take_signal(const void *channel);
/** When does CLOCK_MONOTONIC show the time that is now in CLOCK_BOOTTIME's future? */
int64_t world_mono_of_boot(int64_t boot_ns);

/** Waits until a transfer of the multi handle has progress, or for world_curl_wake(), which also
 * ends the next wait. */
void world_curl_wait(void *multi, int timeout_ms);
void world_curl_wake(void *multi);
/** Runs the callbacks of all transfers that have progress. */
void world_curl_perform(void *multi);

#endif
