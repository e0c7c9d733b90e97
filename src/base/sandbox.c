/* base/sandbox.c: see sandbox.h. */
#include "base/sandbox.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/sandbox_internal.h"

/* Landlock comes first: the seccomp filter does not allow its system calls. Both require
 * no_new_privs. */
unsigned
sandbox_enter(const struct sandbox_config *config, struct buf *notes)
{
	unsigned result = SANDBOX_NONE;

	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (config && landlock_enter(config, notes))
		result |= SANDBOX_LANDLOCK;
	if (seccomp_enter(notes))
		result |= SANDBOX_SECCOMP;
	return result;
}

const char *
sandbox_result_name(unsigned result)
{
	static const char *const names[] = {
		[SANDBOX_NONE] = "none",
		[SANDBOX_SECCOMP] = "seccomp",
		[SANDBOX_LANDLOCK] = "landlock",
		[SANDBOX_SECCOMP | SANDBOX_LANDLOCK] = "seccomp+landlock",
	};

	return names[result];
}

void
sandbox_no_cores(void)
{
	(void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
}

void
sandbox_harden(void)
{
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)umask(077);
}
