/* base/sandbox_seccomp.c: restricts which system calls the process may make.
 *
 * The list contains the calls that strace shows in real runs on glibc 2.36, and those that other
 * versions of glibc (2.31 to 2.41), musl, libcurl, OpenSSL and libevent make in the same places, on
 * x86-64 and arm64. Names that libseccomp or the architecture does not know are skipped, which has
 * the same effect as refusing them. A new entry needs a comment that names its purpose.
 *
 * Refused calls fail with ENOSYS. clone3 is refused because its flags are in memory, which a filter
 * cannot read: the C library falls back to clone, whose flags show whether it creates a thread.
 *
 * musl signals threads with tkill, which a filter cannot limit to this process. It is refused, so
 * abort() ends a program with musl by its last resort, SIGSEGV.
 *
 * Executable memory must come from a file and must not be writable at the same time, which is
 * sufficient for dlopen. This is only a hurdle for an attacker who can write a file and map it,
 * which Landlock limits to the paths that flags name.
 */
#include "base/sandbox_internal.h"

#if HAS_SANITIZER

bool
seccomp_enter(struct buf *notes)
{
	buf_add_c(notes, "seccomp is not in force: this is a build with a sanitizer\n");
	return false;
}

#else

#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

/* clang-format off */

static const char *const calls[] = {
	/* memory */
	"brk", "madvise", "mremap", "munmap",

	/* threads and their ends; tgkill has its own rule below */
	"exit", "exit_group", "futex", "futex_waitv", "get_robust_list", "getpid", "getppid", "gettid", "membarrier",
	"restart_syscall", "rseq", "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity",
	"sched_getparam", "sched_getscheduler", "sched_yield", "set_robust_list", "set_tid_address",

	/* signals */
	"rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait",
	"sigaltstack", "signalfd", "signalfd4",

	/* time */
	"clock_getres", "clock_gettime", "clock_nanosleep", "gettimeofday", "nanosleep", "time", "timerfd_create",
	"timerfd_gettime", "timerfd_settime",

	/* descriptors */
	"close", "close_range", "dup", "dup2", "dup3", "fcntl", "lseek", "pread64", "preadv", "preadv2", "pwrite64",
	"pwritev", "pwritev2", "read", "readv", "write", "writev",

	/* waiting; pipes and event descriptors, which wake other threads */
	"epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd",
	"eventfd2", "pipe", "pipe2", "poll", "ppoll", "pselect6", "select",

	/* files that are read, or replaced by rename; Landlock restricts the paths */
	"access", "faccessat", "faccessat2", "fchmod", "fdatasync", "flock", "fstat", "fsync", "getcwd", "getdents",
	"getdents64", "inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch", "link", "linkat", "lstat", "mkdir",
	"mkdirat", "newfstatat", "open", "openat", "openat2", "readlink", "readlinkat", "rename", "renameat",
	"renameat2", "stat", "statx", "unlink", "unlinkat",

	/* the network; socket and socketpair have their own rules below */
	"accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "recvfrom",
	"recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown",

	/* identity, host and resource usage of this process */
	"getegid", "geteuid", "getgid", "getrandom", "getresgid", "getresuid", "getrlimit", "getrusage", "getuid",
	"sysinfo", "uname",
};

/* clang-format on */

static const int families[] = { AF_INET, AF_INET6, AF_UNIX, AF_NETLINK };

/* isatty(), non-blocking reads of the C library and libevent, and names of network interfaces in
 * addresses (fe80::1%eth0) */
static const unsigned long ioctls[] = { TCGETS, FIONREAD, FIONBIO, SIOCGIFINDEX, SIOCGIFNAME };

/* The names of threads, and the names of memory areas, which newer C libraries set. */
static const unsigned long prctls[] = { PR_SET_NAME, PR_GET_NAME, PR_SET_VMA };

struct filter {
	scmp_filter_ctx ctx;
	struct buf *notes;
	bool is_broken;
};

static void
allow(struct filter *f, const char *name, unsigned n, const struct scmp_arg_cmp args[])
{
	int call = seccomp_syscall_resolve_name(name), result;

	if (call == __NR_SCMP_ERROR)
		return;
	result = seccomp_rule_add_array(f->ctx, SCMP_ACT_ALLOW, call, n, args);
	if (result == 0)
		return;
	buf_addf(f->notes, "seccomp: %s: %s\n", name, err_errno_text(-result));
	f->is_broken = true;
}

/* The kernel uses only the lower 32 bits of these arguments, whatever the upper bits contain. */
static void
allow_values(struct filter *f, const char *name, unsigned arg, const unsigned long values[],
             size_t n)
{
	for (size_t i = 0; i < n; i++)
		allow(f, name, 1,
		      &SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, UINT32_MAX, (uint32_t)values[i]));
}

static void
allow_sockets(struct filter *f)
{
	for (size_t i = 0; i < ARRAY_LEN(families); i++)
		allow_values(f, "socket", 0, &(unsigned long){ (unsigned long)families[i] }, 1);
	allow_values(f, "socketpair", 0, &(unsigned long){ AF_UNIX }, 1);
}

/* Allows any mapping of data, and executable mappings only of files and without write access. */
static void
allow_mappings(struct filter *f)
{
	const struct scmp_arg_cmp data = SCMP_CMP(2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0);
	const struct scmp_arg_cmp code[] = {
		SCMP_CMP(2, SCMP_CMP_MASKED_EQ, PROT_EXEC | PROT_WRITE, PROT_EXEC),
		SCMP_CMP(3, SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, 0),
	};

	for (const char *const *name = (const char *const[]){ "mmap", "mmap2", NULL }; *name;
	     name++) {
		allow(f, *name, 1, &data);
		allow(f, *name, ARRAY_LEN(code), code);
	}
	allow(f, "mprotect", 1, &data);
}

/* Allows signals to this process only, for abort() and pthread_kill(). The process id is fixed in
 * the filter, because the process cannot create another one. */
static void
allow_own(struct filter *f)
{
	const scmp_datum_t thread = CLONE_THREAD | CLONE_VM;

	allow(f, "clone", 1, &SCMP_CMP(0, SCMP_CMP_MASKED_EQ, thread, thread));
	allow_values(f, "tgkill", 0, &(unsigned long){ (unsigned long)getpid() }, 1);
	/* Allows reading limits, not setting them. */
	allow(f, "prlimit64", 1, &SCMP_CMP(2, SCMP_CMP_EQ, 0, 0));
}

static void
add_rules(struct filter *f)
{
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		allow(f, calls[i], 0, NULL);
	allow_mappings(f);
	allow_own(f);
	allow_sockets(f);
	allow_values(f, "ioctl", 1, ioctls, ARRAY_LEN(ioctls));
	allow_values(f, "prctl", 0, prctls, ARRAY_LEN(prctls));
}

/* The filter is a binary tree, because it has over a hundred calls. The mitigation against
 * speculative execution between threads is off: on older kernels it slows every thread down, and
 * only trusted code runs in this process. */
static int
load(struct filter *f)
{
	(void)seccomp_attr_set(f->ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	(void)seccomp_attr_set(f->ctx, SCMP_FLTATR_CTL_SSB, 1);
	(void)seccomp_attr_set(f->ctx, SCMP_FLTATR_CTL_TSYNC, 1);
	add_rules(f);
	if (f->is_broken)
		return -EINVAL;
	return seccomp_load(f->ctx);
}

bool
seccomp_enter(struct buf *notes)
{
	struct filter f = { .ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS)), .notes = notes };
	int result = f.ctx ? load(&f) : -ENOMEM;

	if (f.ctx)
		seccomp_release(f.ctx);
	if (result == 0)
		return true;
	buf_addf(notes, "seccomp is not in force, any system call can be made: %s\n",
	         err_errno_text(-result));
	return false;
}

#endif
