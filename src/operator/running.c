/* operator/running.c: see running.h.
 *
 * A process can write to its own command line and environment. A controller that an attacker has
 * taken over could show a --kubeconfig whose credential plugin is a program of the attacker, or
 * LD_PRELOAD. So all bytes are read first, which may need root; then the command takes over the
 * user and the groups of the process, which the kernel reports; and only then it parses the bytes.
 * Whatever they make the command do, the process could have done itself.
 */
#include "operator/running.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/words.h"
#include "cloud/cloud.h"
#include "operator/command.h"

#define SELF "/proc/self/exe"

enum {
	N_KINDS = 4, /* of user and group numbers of a process */
};

/* One process, read before its rights are taken over. */
struct process {
	struct identity {
		uid_t uid;
		gid_t gid, groups[LIMIT_PROCESS_GROUPS];
		size_t n_groups;
	} identity;
	struct str cmdline, environment; /* as the process shows them: it can write both */
};

/* ---- reading ---- */

/* Begins at an open folder, so that all files are of one process even if another one gets its
 * number. Empty if the file cannot be read. */
static struct str
read_text(int folder, const char *name, struct arena *arena)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_PROCESS_TEXT);
	struct str path = arena_printf(arena, "/proc/self/fd/%d/%s", folder, name);
	struct error ignored;

	if (!file_read(path.ptr, &text, &ignored))
		return STR_EMPTY;
	return arena_str(arena, buf_str(&text));
}

/* The numbers after "Uid:", "Gid:" or "Groups:". The first line of the file has the name of the
 * process, in which the kernel escapes line feeds. */
static size_t
read_numbers(struct str status, struct str key, gid_t ret[], size_t max)
{
	size_t n = 0;

	for (struct str line, name, rest; str_split(&status, '\n', &line);) {
		if (!str_cut(line, ':', &name, &rest) || !str_eq(name, key))
			continue;
		for (size_t i = 0; i < rest.len && n < max;) {
			size_t len = strcspn(rest.ptr + i, " \t\n");
			int64_t number;

			if (str_to_i64(str_n(rest.ptr + i, len), 0, UINT32_MAX - 1, &number))
				ret[n++] = (gid_t)number;
			i += len + 1;
		}
		return n;
	}
	return 0;
}

/* The kernel lists the real, the effective, the saved and the file system's number. A process in
 * which they differ is changing its rights, and is not the controller. */
static bool
are_equal(const gid_t numbers[], size_t n)
{
	return n == N_KINDS && numbers[0] == numbers[1] && numbers[0] == numbers[2] &&
	       numbers[0] == numbers[3];
}

static bool
read_identity(struct str status, struct identity *ret)
{
	gid_t users[N_KINDS], groups[N_KINDS];

	if (!are_equal(users, read_numbers(status, STR("Uid"), users, N_KINDS)) ||
	    !are_equal(groups, read_numbers(status, STR("Gid"), groups, N_KINDS)))
		return false;
	ret->uid = users[0];
	ret->gid = groups[0];
	ret->n_groups = read_numbers(status, STR("Groups"), ret->groups, LIMIT_PROCESS_GROUPS);
	return true;
}

static bool
read_process(const char *proc, struct str number, struct arena *arena, struct process *ret)
{
	struct str path = arena_printf(arena, "%s/%" STR_FMT, proc, STR_ARG(number));
	CLEANUP(fd_close) int folder = open(path.ptr, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (folder < 0)
		return false;
	ret->cmdline = read_text(folder, "cmdline", arena);
	ret->environment = read_text(folder, "environ", arena);
	return read_identity(read_text(folder, "status", arena), &ret->identity);
}

/* Process 1, then those of the unit: hooks and credential plugins are among them. */
static size_t
read_processes(const char *proc, const char *group, struct arena *arena, struct process ret[],
               size_t max)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_PROCESS_TEXT);
	struct str numbers = STR_EMPTY, number;
	struct error ignored;
	size_t n = 0;

	n += read_process(proc, STR("1"), arena, &ret[n]);
	if (file_read(group, &text, &ignored))
		numbers = buf_str(&text);
	while (n < max && str_split(&numbers, '\n', &number)) {
		if (str_is_digits(number))
			n += read_process(proc, number, arena, &ret[n]);
	}
	return n;
}

/* ---- taking over its rights ---- */

static bool
identity_assume(const struct identity *identity, struct error *err)
{
	uid_t uid = identity->uid;

	if (geteuid() != uid && (setgroups(identity->n_groups, identity->groups) != 0 ||
	                         setresgid(identity->gid, identity->gid, identity->gid) != 0 ||
	                         setresuid(uid, uid, uid) != 0))
		return err_set(
			err, ERR_FORBIDDEN,
			"take over the rights of user %u, the user of the controller: %s; run the command as that user, or with the flags of the controller",
			(unsigned)uid, err_errno_text(errno));
	/* no program that is started later gets other rights by its set-uid bit */
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return true;
}

/* ---- recognising it ---- */

/* /proc/PID/exe of a process that is not dumpable can be read by root only, so the name that the
 * process was started with is compared instead. A name without a folder was found in $PATH, and is
 * expected in the folder of this program, where links to it are. */
static bool
is_this_program(struct arena *arena, const char *name)
{
	char self[PATH_MAX];
	struct stat its, own;

	if (!realpath(SELF, self))
		return false;
	if (!strchr(name, '/'))
		name = arena_printf(arena, "%" STR_FMT "/%s", STR_ARG(file_folder(str_c(self))),
		                    name)
		               .ptr;
	return stat(name, &its) == 0 && stat(SELF, &own) == 0 && its.st_dev == own.st_dev &&
	       its.st_ino == own.st_ino;
}

/* A process that runs a command is not the controller. */
static bool
parse_process(const struct process *process, struct arena *arena, struct running *ret)
{
	struct str text = process->cmdline;
	size_t n = 0;

	for (size_t i = 0; i < text.len; i++)
		n += text.ptr[i] == '\0';
	*ret = (struct running){ .argv = arena_calloc(arena, n + 1, sizeof(ret->argv[0])),
		                 .environment = process->environment,
		                 .uid = process->identity.uid };
	for (struct str arg; (size_t)ret->argc < n && str_split(&text, '\0', &arg);)
		ret->argv[ret->argc++] = arena_strz(arena, arg);
	return n > 0 && is_this_program(arena, ret->argv[0]) &&
	       !command_is_given(ret->argc, ret->argv);
}

bool
running_find(const char *proc, const char *group, struct arena *arena, struct running *ret,
             struct error *err)
{
	struct process *processes = arena_calloc(arena, LIMIT_PROCESSES, sizeof(processes[0]));
	size_t n = read_processes(proc, group, arena, processes, LIMIT_PROCESSES);

	for (size_t i = 0; i < n; i++) {
		/* Before its bytes are parsed: an attacker who has taken it over chooses them. */
		if (geteuid() == 0 && !identity_assume(&processes[i].identity, err))
			return false;
		if (!parse_process(&processes[i], arena, ret))
			continue;
		if (geteuid() != ret->uid)
			return err_set(
				err, ERR_FORBIDDEN,
				"the controller runs as user %u: run the command with sudo, as that user, or with the flags of the controller",
				(unsigned)ret->uid);
		return true;
	}
	return err_set(err, ERR_NOT_FOUND, "no controller runs here");
}

/* ---- its environment ---- */

/* Other variables that this program reads are about the terminal ($HOME, $KUBECONFIG) or the
 * process ($NOTIFY_SOCKET), so they are not taken. */
static bool
is_imported(struct str name)
{
	static const char *const names[] = {
		"http_proxy",
		"HTTP_PROXY",
		"https_proxy",
		"HTTPS_PROXY",
		"no_proxy",
		"NO_PROXY",
		"SSL_CERT_FILE",
		"SSL_CERT_DIR",
		"KUBERNETES_SERVICE_HOST",
		"KUBERNETES_SERVICE_PORT",
		"POD_NAME",
		"POD_NAMESPACE",
		"POD_UID",
		NULL,
	};

	return words_have(names, name) || cloud_reads_variable(name);
}

void
running_import(const struct running *running, struct arena *arena)
{
	struct str rest = running->environment;

	for (struct str entry, name, value; str_split(&rest, '\0', &entry);) {
		if (str_cut(entry, '=', &name, &value) && is_imported(name))
			(void)setenv(arena_strz(arena, name), value.ptr, /*overwrite=*/0);
	}
}
