/* base/sandbox.c: see sandbox.h. */
#include "base/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"

/* ---- Landlock: which files the process may open ----
 *
 * The code uses raw system calls: the C library has no wrappers, and the headers of Debian 12 lack
 * the constants of newer kernels. Each version of the interface (ABI) adds rights. A request with
 * unknown rights fails, so the mask is reduced to the rights of the running kernel. A handled right
 * is denied everywhere except below the folders of the rules.
 *
 * /proc is allowed as a whole, although the process reads only its own part: a rule is attached to
 * an inode, and the kernel creates a new inode for /proc/PID after it has evicted the old one. The
 * kernel itself prevents a process in such a domain from inspecting others (ptrace_may_access).
 */

/* These numbers are the same on every architecture, because they are newer than the unified system
 * call table. */
#define SYS_CREATE_RULESET 444
#define SYS_ADD_RULE 445
#define SYS_RESTRICT_SELF 446
#define CREATE_RULESET_VERSION 1U
#define RULE_PATH_BENEATH 1

enum landlock_fs {
	FS_EXECUTE = 1 << 0,
	FS_WRITE_FILE = 1 << 1,
	FS_READ_FILE = 1 << 2,
	FS_READ_DIR = 1 << 3,
	FS_REMOVE_DIR = 1 << 4,
	FS_REMOVE_FILE = 1 << 5,
	FS_MAKE_CHAR = 1 << 6,
	FS_MAKE_DIR = 1 << 7,
	FS_MAKE_REG = 1 << 8,
	FS_MAKE_SOCK = 1 << 9,
	FS_MAKE_FIFO = 1 << 10,
	FS_MAKE_BLOCK = 1 << 11,
	FS_MAKE_SYM = 1 << 12,
	FS_REFER = 1 << 13,     /* ABI 2 */
	FS_TRUNCATE = 1 << 14,  /* ABI 3 */
	FS_IOCTL_DEV = 1 << 15, /* ABI 5 */

	FS_ALL = (1 << 16) - 1,
	FS_OF_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV,
	FS_TO_READ = FS_READ_FILE | FS_READ_DIR,
	FS_TO_REPLACE = FS_TO_READ | FS_WRITE_FILE | FS_TRUNCATE | FS_MAKE_REG | FS_REMOVE_FILE,
};

enum landlock_scope {
	SCOPE_ABSTRACT_UNIX_SOCKET = 1 << 0, /* ABI 6 */
	SCOPE_SIGNAL = 1 << 1,
};

struct ruleset_attr {
	uint64_t fs;
	uint64_t net; /* ABI 4; not used */
	uint64_t scoped;
};

struct path_beneath_attr {
	uint64_t allowed;
	int32_t parent_fd;
} __attribute__((packed));

struct ruleset {
	int fd;
	uint64_t fs; /* the rights that this kernel supports */
	struct buf *notes;
};

/* The trust store, the libraries that getaddrinfo loads, the time zones, and the files with which
 * the kernel describes this process. */
static const char *const system_folders[] = {
	"/etc",
	"/lib",
	"/lib32",
	"/lib64",
	"/usr/lib",
	"/usr/lib32",
	"/usr/lib64",
	"/usr/local/lib",
	"/usr/share/ca-certificates",
	"/usr/local/share/ca-certificates",
	"/usr/share/pki",
	"/usr/share/ssl",
	"/usr/share/zoneinfo",
	"/usr/share/locale",
	"/run/systemd/resolve",
	"/run/resolvconf",
	"/run/secrets",
	"/var/run/secrets",
	"/var/lib/ca-certificates",
	"/proc",
	"/sys/devices/system/cpu",
};

static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/random", "/dev/urandom" };

/* ---- rules ---- */

static void
add_rule(const struct ruleset *r, const char *path, uint64_t rights)
{
	struct path_beneath_attr rule = { .allowed = rights & r->fs };
	struct stat st;

	rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
	if (rule.parent_fd < 0)
		return; /* the path does not exist, so no rule is needed */
	if (fstat(rule.parent_fd, &st) == 0 && !S_ISDIR(st.st_mode))
		rule.allowed &= FS_OF_FILES;
	if (syscall(SYS_ADD_RULE, r->fd, RULE_PATH_BENEATH, &rule, 0) < 0)
		buf_addf(r->notes, "Landlock: no rule for %s: %s\n", path, err_errno_text(errno));
	close(rule.parent_fd);
}

/* Returns the path itself when it is a folder, otherwise the folder that contains it. */
static void
add_folder_of(const struct ruleset *r, const char *path, uint64_t rights)
{
	CLEANUP(buf_fini) struct buf folder = BUF_INIT(PATH_MAX);
	struct stat st;
	bool is_folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);

	buf_add_str(&folder, is_folder ? str_c(path) : file_folder(str_c(path)));
	if (str_eq_c(buf_str(&folder), "/"))
		buf_addf(r->notes,
		         "Landlock: %s is in /, so every file can be %s: give it a folder\n", path,
		         rights & FS_WRITE_FILE ? "written" : "read");
	add_rule(r, folder.ptr, rights);
}

static void
add_path(const struct ruleset *r, struct str path, uint64_t rights)
{
	CLEANUP(buf_fini) struct buf given = BUF_INIT(PATH_MAX);
	char *target;

	if (path.len == 0)
		return;
	buf_add_str(&given, path);
	add_folder_of(r, given.ptr, rights);
	target = realpath(given.ptr, NULL);
	if (target)
		add_folder_of(r, target, rights);
	free(target);
}

static void
add_rules(const struct ruleset *r, const struct sandbox_config *config)
{
	const char *file = getenv("SSL_CERT_FILE"), *folders = getenv("SSL_CERT_DIR");

	for (size_t i = 0; i < ARRAY_LEN(system_folders); i++)
		add_rule(r, system_folders[i], FS_TO_READ);
	for (size_t i = 0; i < ARRAY_LEN(devices); i++)
		add_rule(r, devices[i], FS_READ_FILE | FS_WRITE_FILE);
	/* systemd, NetworkManager and others replace this file by a link into their own folders */
	add_path(r, STR("/etc/resolv.conf"), FS_TO_READ);

	/* OpenSSL reads these instead of the system's trust store: a file, and folders separated by
	 * colons */
	add_path(r, str_c(file), FS_TO_READ);
	for (struct str folder, rest = str_c(folders); str_split(&rest, ':', &folder);)
		add_path(r, folder, FS_TO_READ);

	for (size_t i = 0; i < config->n_read_paths; i++)
		add_path(r, config->read_paths[i], FS_TO_READ);
	for (size_t i = 0; i < config->n_write_paths; i++)
		add_path(r, config->write_paths[i], FS_TO_REPLACE);
}

static bool
landlock_enter(const struct sandbox_config *config, struct buf *notes)
{
	long abi = syscall(SYS_CREATE_RULESET, NULL, 0, CREATE_RULESET_VERSION);
	struct ruleset_attr attr = { .fs = FS_ALL };
	struct ruleset r = { .fd = -1, .notes = notes };
	bool is_ok = false;

	if (abi < 5)
		attr.fs &= ~(uint64_t)FS_IOCTL_DEV;
	if (abi < 3)
		attr.fs &= ~(uint64_t)FS_TRUNCATE;
	if (abi < 2)
		attr.fs &= ~(uint64_t)FS_REFER;
	if (abi >= 6)
		attr.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
	r.fs = attr.fs;
	/* An older kernel refuses a longer structure only if the fields that it does not know are
	 * set. */
	if (abi > 0)
		r.fd = (int)syscall(SYS_CREATE_RULESET, &attr, sizeof(attr), 0);
	if (r.fd >= 0) {
		add_rules(&r, config);
		is_ok = syscall(SYS_RESTRICT_SELF, r.fd, 0) == 0;
		close(r.fd);
	}
	if (!is_ok)
		buf_addf(notes, "Landlock is not in force, any file can be opened: %s\n",
		         err_errno_text(errno));
	return is_ok;
}

/* ---- seccomp: which system calls the process may make ----
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

#if HAS_SANITIZER

static bool
seccomp_enter(struct buf *notes)
{
	buf_add_c(notes, "seccomp is not in force: this is a build with a sanitizer\n");
	return false;
}

#else

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

static const unsigned long families[] = { AF_INET, AF_INET6, AF_UNIX, AF_NETLINK };

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
allow_all(struct filter *f)
{
	const struct scmp_arg_cmp data = SCMP_CMP(2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0);
	const struct scmp_arg_cmp code[] = {
		SCMP_CMP(2, SCMP_CMP_MASKED_EQ, PROT_EXEC | PROT_WRITE, PROT_EXEC),
		SCMP_CMP(3, SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, 0),
	};
	const scmp_datum_t thread = CLONE_THREAD | CLONE_VM;

	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		allow(f, calls[i], 0, NULL);

	/* any mapping of data, and executable mappings only of files and without write access */
	allow(f, "mmap", 1, &data);
	allow(f, "mmap", ARRAY_LEN(code), code);
	allow(f, "mmap2", 1, &data);
	allow(f, "mmap2", ARRAY_LEN(code), code);
	allow(f, "mprotect", 1, &data);

	/* new threads, but no processes; so the process id of the signals, which abort() and
	 * pthread_kill() send, can be fixed in the filter */
	allow(f, "clone", 1, &SCMP_CMP(0, SCMP_CMP_MASKED_EQ, thread, thread));
	allow_values(f, "tgkill", 0, &(unsigned long){ (unsigned long)getpid() }, 1);

	/* reading limits, not setting them */
	allow(f, "prlimit64", 1, &SCMP_CMP(2, SCMP_CMP_EQ, 0, 0));

	allow_values(f, "socket", 0, families, ARRAY_LEN(families));
	allow_values(f, "socketpair", 0, &(unsigned long){ AF_UNIX }, 1);
	allow_values(f, "ioctl", 1, ioctls, ARRAY_LEN(ioctls));
	allow_values(f, "prctl", 0, prctls, ARRAY_LEN(prctls));
}

static bool
seccomp_enter(struct buf *notes)
{
	struct filter f = { .ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS)), .notes = notes };
	int result = -ENOMEM;

	if (f.ctx) {
		/* The filter is a binary tree, because it has over a hundred calls. The mitigation
		 * against speculative execution between threads is off: on older kernels it slows
		 * every thread down, and only trusted code runs in this process. */
		(void)seccomp_attr_set(f.ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
		(void)seccomp_attr_set(f.ctx, SCMP_FLTATR_CTL_SSB, 1);
		(void)seccomp_attr_set(f.ctx, SCMP_FLTATR_CTL_TSYNC, 1);
		allow_all(&f);
		result = f.is_broken ? -EINVAL : seccomp_load(f.ctx);
		seccomp_release(f.ctx);
	}
	if (result == 0)
		return true;
	buf_addf(notes, "seccomp is not in force, any system call can be made: %s\n",
	         err_errno_text(-result));
	return false;
}

#endif

/* ---- both ---- */

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
