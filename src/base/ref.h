/* base/ref.h: counts of references to objects that threads share.
 *
 * The order of memory accesses is explained here once, because a wrong one shows only as rare
 * damage on machines that reorder more than x86 does:
 *
 * - Taking a reference orders nothing (relaxed). The caller holds another reference already, or a
 *   lock under which the object is known to have one. That reference or lock makes the object's
 *   content visible to the caller.
 * - Dropping a reference releases: everything that this thread did with the object happens before
 *   the count goes down. The thread that drops the last reference acquires: it sees everything that
 *   the other threads did before it frees the object. Both are the same instruction, hence
 *   acquire-release.
 *
 * The count never grows from 0: an object whose last reference is gone is being freed. Code that
 * finds objects in a container must therefore take the reference under the lock under which objects
 * are removed.
 *
 * Threads: every function may be called from any thread, except ref_init().
 */
#ifndef CCMD_BASE_REF_H
#define CCMD_BASE_REF_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/macros.h"

struct ref {
	atomic_uint n;
};

/** One reference, which belongs to the creator of the object. */
#define REF_INIT { 1 }

static inline void
ref_init(struct ref *r)
{
	atomic_init(&r->n, 1);
}

static inline void
ref_take(struct ref *r)
{
	unsigned before = atomic_fetch_add_explicit(&r->n, 1, memory_order_relaxed);

	assert(before > 0);
	(void)before;
}

/** Drops one reference. True when it was the last: the caller then frees the object. */
NODISCARD static inline bool
ref_drop(struct ref *r)
{
	unsigned before = atomic_fetch_sub_explicit(&r->n, 1, memory_order_acq_rel);

	assert(before > 0);
	return before == 1;
}

#endif
