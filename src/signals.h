/* signals.h: the signals that users and systemd send. They are read from a descriptor, so no
 * handler interrupts anything. */
#ifndef CCMD_SIGNALS_H
#define CCMD_SIGNALS_H

#include <stdbool.h>

/** Blocks SIGTERM, SIGINT and SIGHUP for the calling thread and those it starts later: the signals
 * stay pending until they are read from a descriptor. */
void signals_block(void);
/** The same, and returns a signalfd for SIGTERM and SIGINT, and with_reload also for SIGHUP. The
 * caller closes it. */
int signals_open(bool with_reload);
/** Returns the name of one of these signals for the log, e.g. "TERM". */
const char *signals_name(int signal);

#endif
