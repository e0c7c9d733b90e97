/* version.c: see version.h. */
#include "base/version.h"

#include <string.h>

static char version[VERSION_MAX + 1] = "v" CCMD_VERSION;

void
version_set(struct str text)
{
	size_t len = str_head(text, VERSION_MAX).len;

	memmove(version, text.ptr, len); /* it may be version_get() */
	version[len] = '\0';
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
