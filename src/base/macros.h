/* base/macros.h: the few compiler helpers that every file may use. */
#ifndef CCMD_BASE_MACROS_H
#define CCMD_BASE_MACROS_H

#include <stddef.h>
#include <stdint.h>

#include "base/banned.h"

#define NODISCARD __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a), nonnull(f)))
#define UNUSED __attribute__((unused))
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* How it was built: gcc defines macros, clang has features. HAS_SANITIZER: ASan or TSan. */
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

/** Makes fnp() for CLEANUP from a destructor of a pointer. */
#define DEFINE_CLEANUP(type, fn)           \
	static inline void fn##p(type **p) \
	{                                  \
		if (*p)                    \
			fn(*p);            \
	}

/** Hands an owned pointer over and leaves NULL behind: *ret = TAKE(lb); */
#define TAKE(p)                          \
	({                               \
		__auto_type take_ = (p); \
		(p) = NULL;              \
		take_;                   \
	})

/** The struct that embeds `member`; checked by type. */
#define CONTAINER_OF(ptr, type, member)                                              \
	({                                                                           \
		__typeof__(&((type *)0)->member) container_of_ = (ptr);              \
		(type *)((char *)(uintptr_t)container_of_ - offsetof(type, member)); \
	})

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_SEC INT64_C(1000000000)
#define MS_PER_SEC INT64_C(1000)

#endif
