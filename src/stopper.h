/* stopper.h: SIGTERM and SIGINT while the program starts.
 *
 * The start is linear and may block, for seconds when the API server is away; the loop, which waits
 * for signals later, does not run yet. Till then a thread waits for them: it says so in the log and
 * fires the token that the start heeds. Should the start not end within 2 s, the process does, with
 * 0: nothing was changed yet, but for the lease perhaps.
 */
#ifndef CCMD_STOPPER_H
#define CCMD_STOPPER_H

#include <stdbool.h>

struct cancel;
struct stopper;

/** Takes those, too, that came since signals_block(). */
struct stopper *stopper_new(struct cancel *cancel);
/** Signals that come from now on wait, for the loop. Returns whether one came before. NULL is
 * fine. */
bool stopper_free(struct stopper *);

#endif
