/* signals.h: the signals that people send, read from a descriptor, so that no handler interrupts
 * anything. */
#ifndef CCMD_SIGNALS_H
#define CCMD_SIGNALS_H

#include <stdbool.h>

/** Blocks SIGTERM, SIGINT and SIGHUP for the calling thread: they wait for whoever reads them. */
void signals_block(void);
/** The same, and returns a signalfd for SIGTERM and SIGINT, with_reload for SIGHUP as well; to be
 * closed. */
int signals_open(bool with_reload);

#endif
