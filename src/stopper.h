/* stopper.h: SIGTERM and SIGINT while the program starts.
 *
 * The start is linear code that may block, for seconds if the API server does not answer, and the
 * loop, which reads signals later, does not run yet. Until then a thread waits for signals: it logs
 * the signal and fires the cancel token that every wait during the start obeys. If the start has
 * still not ended after 2 s, the process exits with code 0: nothing has been changed yet, except
 * perhaps the lease.
 */
#ifndef CCMD_STOPPER_H
#define CCMD_STOPPER_H

#include <stdbool.h>

struct cancel;
struct stopper;

/** Also handles signals that have been pending since signals_block(). */
struct stopper *stopper_new(struct cancel *cancel);
/** Signals that arrive from now on stay pending for the loop. Returns whether one arrived before.
 * NULL is fine. */
bool stopper_free(struct stopper *);

#endif
