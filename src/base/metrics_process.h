/* base/metrics_process.h: the process_* metrics: what the kernel counts of us. */
#ifndef CCMD_BASE_METRICS_PROCESS_H
#define CCMD_BASE_METRICS_PROCESS_H

/** From here on they are shown. Once, and before the sandbox: the files of /proc that are read at
 * each scrape are opened now. What cannot be opened is shown as 0. */
void metrics_process_setup(void);

#endif
