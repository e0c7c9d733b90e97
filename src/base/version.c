/* base/version.c: see version.h. */
#include "base/version.h"

#include <string.h>

#if defined(__x86_64__)
#define ARCHITECTURE "amd64"
#elif defined(__aarch64__)
#define ARCHITECTURE "arm64"
#elif defined(__arm__)
#define ARCHITECTURE "arm"
#elif defined(__i386__)
#define ARCHITECTURE "386"
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
#define ARCHITECTURE "ppc64le"
#elif defined(__s390x__)
#define ARCHITECTURE "s390x"
#elif defined(__loongarch64)
#define ARCHITECTURE "loong64"
#elif defined(__riscv) && __riscv_xlen == 64
#define ARCHITECTURE "riscv64"
#else
#define ARCHITECTURE "unknown"
#endif

static char version[VERSION_MAX + 1] = "v" CCMD_VERSION;
static char commit[VERSION_COMMIT_MAX + 1];

static void
set_text(char *to, struct str text, size_t max)
{
	size_t len = str_head(text, max).len;

	memmove(to, text.ptr, len); /* text may be the result of version_get() */
	to[len] = '\0';
}

void
version_set(struct str text)
{
	set_text(version, text, VERSION_MAX);
}

struct str
version_get(void)
{
	return str_c(version);
}

struct str
version_numbers(void)
{
	struct str numbers = str_skip(version_get(), 1), suffix;

	(void)str_cut(numbers, '-', &numbers, &suffix);
	return numbers;
}

void
version_split(struct str text, struct str *ret_major, struct str *ret_minor)
{
	struct str rest = str_skip(text, 1);

	*ret_minor = STR_EMPTY;
	(void)str_split(&rest, '.', ret_major);
	(void)str_split(&rest, '.', ret_minor);
}

void
version_set_commit(struct str text)
{
	set_text(commit, text, VERSION_COMMIT_MAX);
}

struct str
version_commit(void)
{
	return commit[0] ? str_c(commit) : STR("unknown");
}

struct str
version_platform(void)
{
	return STR("linux/" ARCHITECTURE);
}
