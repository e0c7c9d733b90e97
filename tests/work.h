/* tests/work.h: counts how much code runs, for tests that bound the work for one object.
 *
 * For these tests, the sources under test are compiled once more, with a call at each branch
 * (-fsanitize-coverage=trace-pc in tests/meson.build). The number of these calls depends on nothing
 * but the input, unlike time. Code of libraries is not counted, so parsing JSON is counted only as
 * far as our own code walks through the tree.
 */
#ifndef CCMD_TESTS_WORK_H
#define CCMD_TESTS_WORK_H

#include <stddef.h>
#include <stdint.h>

/** Branches that this thread has passed in counted sources so far. */
uint64_t work_done(void);

/** The branches that a statement passes. */
#define WORK(statement)                         \
	({                                      \
		uint64_t before_ = work_done(); \
		statement;                      \
		work_done() - before_;          \
	})

struct work {
	size_t n_bytes; /* of the objects, as a reader gets them */
	uint64_t n_branches;
};

/** Handles one object (or, where the name says so, several) with n parts, and returns what that
 * took. */
typedef struct work work_fn(size_t n);

/** Fails the test if twice the parts take more than 2.3 times the work, or if n parts take more
 * than per_byte branches for each byte. */
void work_check(const char *what, work_fn *fn, size_t n, unsigned per_byte);

#endif
