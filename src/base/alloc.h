/* base/alloc.h: memory that never comes back NULL.
 *
 * Out of memory is logged and ends the process: the kubelet or systemd restarts us, and no caller
 * has an untested path. Sizes that come from outside are checked against base/limits.h before they
 * get here.
 */
#ifndef CCMD_BASE_ALLOC_H
#define CCMD_BASE_ALLOC_H

#include <stddef.h>

#include "base/macros.h"

/** Zeroed memory of n * size bytes; free() it. Aborts when it cannot be had or n * size
 * overflows. */
NODISCARD void *xcalloc(size_t n, size_t size);

/** Uninitialised memory; free() it. */
NODISCARD void *xmalloc(size_t size);

/** realloc() to n * size bytes, aborting like xcalloc(). */
NODISCARD void *xreallocarray(void *ptr, size_t n, size_t size);

/** A terminated copy of len bytes; free() it. */
NODISCARD char *xstrndup(const char *text, size_t len);
NODISCARD char *xstrdup(const char *text);

/** Logs and aborts: for those who compute a size themselves and see it overflow. */
__attribute__((noreturn)) void alloc_fail(size_t n, size_t size);

/** Gives free memory back to the system, also what is kept for the calling thread alone. For a
 * thread that has done much and now has nothing to do: it takes about a millisecond. */
void alloc_trim(void);

#endif
