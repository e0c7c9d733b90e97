/* tests/simulation/parts.h: the interface between the shared object of a replica and the
 * simulation, apart from the C library and libcurl.
 *
 * In the object of a replica, parts.c replaces some files of src/. It defines the functions that
 * begin with replica_, which the simulation calls. The simulation defines those that begin with
 * world_, which parts.c calls.
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
/** Returns the time on CLOCK_MONOTONIC at which CLOCK_BOOTTIME will be boot_ns. */
int64_t world_mono_of_boot(int64_t boot_ns);

/** Waits until a transfer of the multi handle has progress, or until world_curl_wake(). If no wait
 * runs when world_curl_wake() is called, the next wait returns immediately. */
void world_curl_wait(void *multi, int timeout_ms);
void world_curl_wake(void *multi);
/** Runs the callbacks of all transfers that have progress. */
void world_curl_perform(void *multi);

#endif
