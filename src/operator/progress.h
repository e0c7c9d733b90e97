/* operator/progress.h: what a command is doing, on the last line of the terminal.
 *
 * 	reading the nodes … 3 s
 *
 * The line is on standard error, appears when the command has been running for a second, and is
 * erased when its step ends, so the result that follows is undisturbed. Nothing is written if
 * standard error is not a terminal.
 *
 * A thread of its own writes the line, because the command's thread waits in its requests.
 *
 * Threads: one, apart from that thread.
 */
#ifndef CCMD_OPERATOR_PROGRESS_H
#define CCMD_OPERATOR_PROGRESS_H

/** Starts the thread, if standard error is a terminal. */
void progress_start(void);
/** Erases the line and ends the thread; without progress_start() it does nothing. */
void progress_stop(void);

/** Names the step that begins now; a constant, such as "reading the nodes". NULL: no step.
 *
 * @return the step before, which is set again at the end of this one
 */
const char *progress_set(const char *step);

#endif
