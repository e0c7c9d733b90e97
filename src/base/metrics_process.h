/* base/metrics_process.h: the process_* metrics, which the kernel counts for this process.
 *
 * Threads: metrics_process_setup() is called once, by the main thread; scrapes may run on any
 * thread.
 */
#ifndef CCMD_BASE_METRICS_PROCESS_H
#define CCMD_BASE_METRICS_PROCESS_H

/** Adds the metrics to every scrape. Call it once, before the sandbox is entered: it opens the
 * files of /proc that each scrape reads. A metric whose file cannot be opened is shown as 0. */
void metrics_process_setup(void);

#endif
