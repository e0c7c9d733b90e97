/* base/alloc.h: memory allocation that never returns NULL.
 *
 * When memory runs out, the functions log a line and abort the process: the kubelet or systemd
 * restarts it, and no caller needs an error path that no test reaches. Callers check sizes that
 * come from outside against base/limits.h before they allocate.
 *
 * Threads: every function may be called from any thread.
 */
#ifndef CCMD_BASE_ALLOC_H
#define CCMD_BASE_ALLOC_H

#include <stddef.h>

#include "base/macros.h"

/** Returns n * size bytes of zeroed memory; release it with free(). Aborts when the memory is not
 * available or when n * size overflows. */
NODISCARD void *xcalloc(size_t n, size_t size);

/** Returns uninitialised memory; release it with free(). */
NODISCARD void *xmalloc(size_t size);

/** Resizes ptr to n * size bytes as realloc() does, and aborts like xcalloc(). */
NODISCARD void *xreallocarray(void *ptr, size_t n, size_t size);

/** Returns a terminated copy of len bytes; release it with free(). */
NODISCARD char *xstrndup(const char *text, size_t len);
NODISCARD char *xstrdup(const char *text);

/** Logs and aborts: for callers that compute a size themselves and detect an overflow. */
__attribute__((noreturn)) void alloc_fail(size_t n, size_t size);

#endif
