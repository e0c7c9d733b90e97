/* base/sandbox_landlock.c: restricts which files the process may open.
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
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sandbox_internal.h"

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

/* OpenSSL reads these instead of the system's trust store: a file, and folders separated by colons.
 */
static void
add_trust_of_environment(const struct ruleset *r)
{
	const char *file = getenv("SSL_CERT_FILE"), *folders = getenv("SSL_CERT_DIR");

	if (file)
		add_path(r, str_c(file), FS_TO_READ);
	for (struct str folder, rest = str_c(folders ? folders : "");
	     str_split(&rest, ':', &folder);)
		add_path(r, folder, FS_TO_READ);
}

static void
add_system(const struct ruleset *r)
{
	for (size_t i = 0; i < ARRAY_LEN(system_folders); i++)
		add_rule(r, system_folders[i], FS_TO_READ);
	for (size_t i = 0; i < ARRAY_LEN(devices); i++)
		add_rule(r, devices[i], FS_READ_FILE | FS_WRITE_FILE);
	/* systemd, NetworkManager and others replace this file by a link into their own folders. */
	add_path(r, STR("/etc/resolv.conf"), FS_TO_READ);
	add_trust_of_environment(r);
}

static void
add_configured(const struct ruleset *r, const struct sandbox_config *config)
{
	for (size_t i = 0; i < config->n_read_paths; i++)
		add_path(r, config->read_paths[i], FS_TO_READ);
	for (size_t i = 0; i < config->n_write_paths; i++)
		add_path(r, config->write_paths[i], FS_TO_REPLACE);
}

/* ---- the ruleset ---- */

static uint64_t
rights_of(long abi)
{
	uint64_t rights = FS_ALL;

	if (abi < 5)
		rights &= ~(uint64_t)FS_IOCTL_DEV;
	if (abi < 3)
		rights &= ~(uint64_t)FS_TRUNCATE;
	if (abi < 2)
		rights &= ~(uint64_t)FS_REFER;
	return rights;
}

/* An older kernel refuses a longer structure only if the fields that it does not know are set. */
static bool
open_ruleset(struct ruleset *r, long abi)
{
	struct ruleset_attr attr = { .fs = rights_of(abi) };

	if (abi >= 6)
		attr.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
	r->fs = attr.fs;
	r->fd = (int)syscall(SYS_CREATE_RULESET, &attr, sizeof(attr), 0);
	return r->fd >= 0;
}

static bool
apply(struct ruleset *r, const struct sandbox_config *config)
{
	bool is_ok;

	add_system(r);
	add_configured(r, config);
	is_ok = syscall(SYS_RESTRICT_SELF, r->fd, 0) == 0;
	close(r->fd);
	return is_ok;
}

bool
landlock_enter(const struct sandbox_config *config, struct buf *notes)
{
	long abi = syscall(SYS_CREATE_RULESET, NULL, 0, CREATE_RULESET_VERSION);
	struct ruleset r = { .fd = -1, .notes = notes };

	if (abi > 0 && open_ruleset(&r, abi) && apply(&r, config))
		return true;
	buf_addf(notes, "Landlock is not in force, any file can be opened: %s\n",
	         err_errno_text(errno));
	return false;
}
