/* operator/running.c: see running.h. */
#include "operator/running.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/limits.h"
#include "operator/command.h"

#define SELF "/proc/self/exe"

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

/* A file of a process: texts with a NUL after each. Empty if it cannot be read. */
static struct str
read_texts(const char *proc, struct str process, const char *name, struct arena *arena)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_PROCESS_TEXT);
	struct str path = arena_printf(arena, "%s/%" STR_FMT "/%s", proc, STR_ARG(process), name);
	struct error ignored;

	if (!file_read(path.ptr, &text, &ignored))
		return STR_EMPTY;
	return arena_str(arena, buf_str(&text));
}

/* A process that runs a command is not the controller. */
static bool
read_process(const char *proc, struct str process, struct arena *arena, struct running *ret)
{
	struct str text = read_texts(proc, process, "cmdline", arena);
	size_t n = 0;

	for (size_t i = 0; i < text.len; i++)
		n += text.ptr[i] == '\0';
	*ret = (struct running){ .argv = arena_calloc(arena, n + 1, sizeof(ret->argv[0])),
		                 .environment = STR_EMPTY };
	for (struct str arg; (size_t)ret->argc < n && str_split(&text, '\0', &arg);)
		ret->argv[ret->argc++] = arena_strz(arena, arg);
	if (n == 0 || !is_this_program(arena, ret->argv[0]) ||
	    command_is_given(ret->argc, ret->argv))
		return false;
	ret->environment = read_texts(proc, process, "environ", arena);
	return true;
}

bool
running_find(const char *proc, const char *group, struct arena *arena, struct running *ret)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_PROCESS_TEXT);
	struct str processes, process;
	struct error ignored;

	if (read_process(proc, STR("1"), arena, ret))
		return true;
	if (!file_read(group, &text, &ignored))
		return false;
	processes = buf_str(&text);
	while (str_split(&processes, '\n', &process)) {
		if (str_is_digits(process) && read_process(proc, process, arena, ret))
			return true;
	}
	return false;
}

void
running_import(const struct running *running, struct arena *arena)
{
	struct str rest = running->environment;

	for (struct str entry, name, value; str_split(&rest, '\0', &entry);) {
		if (str_cut(entry, '=', &name, &value) && name.len > 0)
			(void)setenv(arena_strz(arena, name), value.ptr, /*overwrite=*/0);
	}
}
