/* base/alloc.c: see alloc.h. */
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

void
alloc_fail(size_t n, size_t size)
{
	/* log_write() works without heap memory: it builds the line on the stack. */
	log_error("out of memory", LOG_I64("count", (int64_t)n),
	          LOG_I64("size_bytes", (int64_t)size));
	abort();
}

void *
xcalloc(size_t n, size_t size)
{
	void *memory = calloc(n ? n : 1, size ? size : 1);

	if (!memory)
		alloc_fail(n, size);
	return memory;
}

void *
xmalloc(size_t size)
{
	void *memory = malloc(size ? size : 1);

	if (!memory)
		alloc_fail(1, size);
	return memory;
}

void *
xreallocarray(void *ptr, size_t n, size_t size)
{
	/* The size is never zero: realloc() may free the memory then, and its NULL would look like
	 * a failure. */
	void *memory = reallocarray(ptr, n ? n : 1, size ? size : 1);

	if (!memory)
		alloc_fail(n, size);
	return memory;
}

char *
xstrndup(const char *text, size_t len)
{
	char *copy = xmalloc(len + 1);

	if (len > 0)
		memcpy(copy, text, len);
	copy[len] = '\0';
	return copy;
}

char *
xstrdup(const char *text)
{
	return xstrndup(text, strlen(text));
}
