/* base/array.h: growing arrays, kept in three plain variables: pointer, count and capacity.
 *
 * Invariant: count <= capacity; an empty array is { NULL, 0, 0 }.
 * Threads: the array has no lock of its own; the caller protects it.
 */
#ifndef CCMD_BASE_ARRAY_H
#define CCMD_BASE_ARRAY_H

#include "base/alloc.h"

/** Appends an element and doubles the capacity when the array is full. The caller releases the
 * array with free(). */
#define ARRAY_PUSH(array, count, cap, ...)                                           \
	do {                                                                         \
		if ((count) == (cap)) {                                              \
			(cap) = (cap) ? (cap) * 2 : 8;                               \
			(array) = xreallocarray((array), (cap), sizeof((array)[0])); \
		}                                                                    \
		(array)[(count)++] = (__VA_ARGS__);                                  \
	} while (0)

#endif
