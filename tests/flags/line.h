/* tests/flags/line.h: a command line to parse, and what came of it. */
#ifndef CCMD_TESTS_FLAGS_LINE_H
#define CCMD_TESTS_FLAGS_LINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "flags/flags.h"

/* Of the last parse(). */
#define KNOWN_CONTROLLERS                                           \
	"(cloud-node-controller, cloud-node-lifecycle-controller, " \
	"service-lb-controller, node-route-controller)"

extern struct buf line_out, line_problems, line_notes, line_warnings;
extern struct options line_options;

/** Parses "ccmd --cloud-provider=cloudlycke" and these arguments, NULL at the end. */
enum flags_outcome parse_list(const char *const *arguments);
#define PARSE(...) parse_list((const char *const[]){ __VA_ARGS__ __VA_OPT__(, ) NULL })

/** It is refused, and for exactly these reasons. */
#define EXPECT_PROBLEMS(wanted, ...)                                 \
	do {                                                         \
		assert_int_equal(PARSE(__VA_ARGS__), FLAGS_BAD);     \
		assert_string_equal(line_problems.ptr, wanted "\n"); \
	} while (0)

/** It is accepted, with exactly these warnings. */
#define EXPECT_WARNINGS(wanted, ...)                             \
	do {                                                     \
		assert_int_equal(PARSE(__VA_ARGS__), FLAGS_RUN); \
		assert_string_equal(line_warnings.ptr, wanted);  \
	} while (0)

/** For a group's tear-down. */
int line_fini(void **state);

#endif
