/* base/macros.h: the compiler helpers that every file may use.
 *
 * Threads: not relevant; these are macros only.
 */
#ifndef CCMD_BASE_MACROS_H
#define CCMD_BASE_MACROS_H

#include <stddef.h>
#include <stdint.h>

#include "base/banned.h"

#define NODISCARD __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a), nonnull(f)))
#define UNUSED __attribute__((unused))
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Sanitizers of this build: gcc has macros, clang features. HAS_SANITIZER: ASan or TSan. */
#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#elif __has_feature(thread_sanitizer)
#define HAS_SANITIZER 1
#endif
#endif
#ifndef HAS_ASAN
#define HAS_ASAN 0
#endif
#ifndef HAS_SANITIZER
#define HAS_SANITIZER HAS_ASAN
#endif

/** Runs fn(&variable) when the variable goes out of scope. Give the variable its initial value on
 * the same line: CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT); */
#define CLEANUP(fn) __attribute__((cleanup(fn)))

/** Defines fnp(), for CLEANUP, from a destructor fn() of a pointer. */
#define DEFINE_CLEANUP(type, fn)           \
	static inline void fn##p(type **p) \
	{                                  \
		if (*p)                    \
			fn(*p);            \
	}

/** Transfers an owned pointer and leaves NULL in its place: *ret = TAKE(lb); */
#define TAKE(p)                          \
	({                               \
		__auto_type take_ = (p); \
		(p) = NULL;              \
		take_;                   \
	})

/** Returns the struct that embeds `member`; the compiler checks the type of ptr. */
#define CONTAINER_OF(ptr, type, member)                                              \
	({                                                                           \
		__typeof__(&((type *)0)->member) container_of_ = (ptr);              \
		(type *)((char *)(uintptr_t)container_of_ - offsetof(type, member)); \
	})

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_SEC INT64_C(1000000000)
#define MS_PER_SEC INT64_C(1000)

#endif
