/* tests/simulation/replica.h: ccmd as a process of the simulated world.
 *
 * The whole program, main() included, is a shared object. There is one object for each replica, so
 * each has its own copy of every static variable. Their initial values are saved when the object
 * has been loaded, and restored before each start. A crash discards the fibers (schedule.h)
 * wherever they are. The next start finds no state of them, not even a lock that one of them held.
 *
 * system.c replaces what the program gets from the C library and the simulation has to decide:
 * threads, locks, clocks, random numbers, the end of the process, and its log.
 *
 * Threads: none.
 */
#ifndef CCMD_TESTS_SIMULATION_REPLICA_H
#define CCMD_TESTS_SIMULATION_REPLICA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schedule.h"

enum {
	N_REPLICAS = 2,
};

/* 2026-09-21: when the simulated time starts */
#define WALL_START_NS (INT64_C(1790000000) * 1000000000)

struct replica {
	const char *name;
	unsigned index, incarnation; /* the first incarnation is 1 */
	bool is_running;
	bool is_paused;
	int exit_status;       /* of the last incarnation; -1: it crashed */
	int64_t wall_shift_ns; /* how much its wall clock is wrong */
	int64_t asleep_ns;     /* how long its machine was suspended */
	int64_t suspended_ns;  /* since when its machine is suspended; 0: it is not */
	int64_t resumed_ns;    /* when it continued last after a pause */
	int64_t held_until_ns; /* threads of it do not run before: fiber_hold() */
	uint64_t n_steps;      /* turns of its threads (schedule.h), in all its lives */
};

/** Loads both objects, which are in `folder`. Must be called once. The replicas read a kubeconfig
 * in a new folder below $TMPDIR. */
void replicas_load(const char *folder);
/** Removes the folder. */
void replicas_unload(void);
struct replica *replica_at(unsigned index);

/** Starts the program with these arguments, without argv[0]; NULL at the end. */
void replica_start(struct replica *, const char *const *arguments);
/** As by SIGKILL. */
void replica_crash(struct replica *);
void replica_signal(struct replica *, int signal);
/** SIGSTOP and SIGCONT. Each fiber stops when it waits next: a process that is stopped between a
 * decision and the system call that follows it is not simulated. */
void replica_pause(struct replica *, bool is_paused);
/** Its machine is suspended, until replica_pause() ends that: CLOCK_MONOTONIC does not advance
 * meanwhile, CLOCK_BOOTTIME does. */
void replica_suspend(struct replica *);
const char *replica_kubeconfig(const struct replica *);
/** The file of the cloud's token, and what is in it. */
const char *replica_token_file(const struct replica *);
void replica_write_token(const struct replica *, const char *text);
/** A second file, for credentials that consist of two parts. */
const char *replica_secret_file(const struct replica *);
void replica_write_secret(const struct replica *, const char *text);
/** Environment of the next start: HCLOUD_TOKEN_FILE and others. The array must stay valid; NULL at
 * the end. */
void replica_set_environment(struct replica *, const char *const *variables);

/* ---- for schedule.c and system.c ---- */

bool replica_is_paused(const struct replica *);
const char *replica_getenv(const struct replica *, const char *name);
char *replica_tls(const struct replica *, size_t *ret_size);
void replica_destroy_specific(unsigned key, void *value);
/** Ends the incarnation of the running fiber. */
void replica_exit(int status) __attribute__((noreturn));

#endif
