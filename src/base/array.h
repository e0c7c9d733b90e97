/* base/array.h: growing arrays as three plain variables: pointer, count, capacity. */
#ifndef CCMD_BASE_ARRAY_H
#define CCMD_BASE_ARRAY_H

#include "base/alloc.h"

/** Appends, doubling the memory as needed. The caller free()s the array. */
#define ARRAY_PUSH(array, count, cap, ...)                                           \
	do {                                                                         \
		if ((count) == (cap)) {                                              \
			(cap) = (cap) ? (cap) * 2 : 8;                               \
			(array) = xreallocarray((array), (cap), sizeof((array)[0])); \
		}                                                                    \
		(array)[(count)++] = (__VA_ARGS__);                                  \
	} while (0)

#endif
