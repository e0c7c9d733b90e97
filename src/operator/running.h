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
 * their --kubeconfig could make the command run a program of that user.
 *
 * Threads: any.
 */
#ifndef CCMD_OPERATOR_RUNNING_H
#define CCMD_OPERATOR_RUNNING_H

#include "base/arena.h"

#define RUNNING_PROC "/proc"
#define RUNNING_GROUP "/sys/fs/cgroup/system.slice/ccmd.service/cgroup.procs"

struct running {
	char **argv; /* argv[0] is the program; NULL at the end */
	int argc;
	struct str
		environment; /* NAME=VALUE, each with a NUL after it; empty if it is not readable */
};

/** Finds the controller. All texts are in the arena.
 *
 * @param proc   RUNNING_PROC
 * @param group  RUNNING_GROUP: a file with the number of a process in each line
 * @return  false: none runs, or its command line is not readable
 */
NODISCARD bool running_find(const char *proc, const char *group, struct arena *arena,
                            struct running *ret);

/** Sets the variables that this process does not have. */
void running_import(const struct running *, struct arena *arena);

#endif
