/* hook.h: the program that an inventory names, run for one balancer or one route.
 *
 * It is run without a shell and reads a record as JSON from its standard input; exit code 0 is
 * success. At its time-out it gets SIGTERM, and SIGKILL 2 s later. At most 4 run at a time. The
 * caller makes sure that hooks of one balancer run one after the other.
 *
 * Threads: any; the caller waits.
 */
#ifndef CCMD_CLOUDLYCKE_HOOK_H
#define CCMD_CLOUDLYCKE_HOOK_H

#include "base/call.h"
#include "cloud/host.h"

struct cl_hook;

/** path is copied; host outlives the hook. what: "load balancer" or "route", for messages. */
struct cl_hook *cl_hook_new(struct str path, int64_t timeout_ns, const char *what,
                            const struct cloud_host *host);
void cl_hook_free(struct cl_hook *); /* NULL is fine */
DEFINE_CLEANUP(struct cl_hook, cl_hook_free)

/** input: JSON that has the action, too. Checks the fence. ERR_UNAVAILABLE: `WHAT hook failed: …`,
 * with its last line on standard error, `exit N` or `timed out`; ERR_CANCELLED. */
NODISCARD bool cl_hook_run(struct cl_hook *, struct call *call, const char *action,
                           struct str input, struct error *err);

#endif
