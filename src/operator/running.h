/* operator/running.h: the command line and the environment of the controller that runs here.
 *
 * A command should read the same configuration as the running controller, without the operator
 * typing the flags again. It looks for the controller in two places where only an administrator of
 * the controller can start a process:
 *
 * 	- process 1, which is the controller in a container (`kubectl exec`);
 * 	- the control group of the systemd unit ccmd.service.
 *
 * Other processes do not count, even if they run this program: any user may have started them, and
 * their --kubeconfig could make the command run a program of that user. For the same reason the
 * command switches from root to the user of the controller before it parses the controller's
 * command line and environment (running.c).
 *
 * Threads: main's, before another one starts.
 */
#ifndef CCMD_OPERATOR_RUNNING_H
#define CCMD_OPERATOR_RUNNING_H

#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"

#define RUNNING_PROC "/proc"
#define RUNNING_GROUP "/sys/fs/cgroup/system.slice/ccmd.service/cgroup.procs"

struct running {
	char **argv; /* argv[0] is the program; NULL at the end */
	int argc;
	uid_t uid; /* its user, whose rights this process has now */
	struct str
		environment; /* NAME=VALUE, each with a NUL after it; empty if it is not readable */
};

/** Finds the controller. All texts are in the arena. If this process is root, it afterwards has the
 * rights of the last process that was examined, so this must be called before the first thread
 * starts.
 *
 * @param proc   RUNNING_PROC
 * @param group  RUNNING_GROUP: a file with the number of a process in each line
 * @return  true: this process has the rights of the controller. On false, err->code is
 *          ERR_NOT_FOUND  none runs, or its command line is not readable
 *          ERR_FORBIDDEN  its rights cannot be taken over: its flags must not be used
 */
NODISCARD bool running_find(const char *proc, const char *group, struct arena *arena,
                            struct running *ret, struct error *err);

/** Sets the variables that this program reads and this process does not have. */
void running_import(const struct running *, struct arena *arena);

#endif
