/* tests/work.c: see work.h. Not counted itself. */
#include "work.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static _Thread_local uint64_t n_done;

void __sanitizer_cov_trace_pc(void);

void
__sanitizer_cov_trace_pc(void)
{
	n_done++;
}

uint64_t
work_done(void)
{
	return n_done;
}

void
work_check(const char *what, work_fn *fn, size_t n, unsigned per_byte)
{
	struct work once = fn(n), twice = fn(2 * n);

	print_message("%s: %zu parts, %zu bytes: %llu branches, %.2f for each byte; twice the "
	              "parts: %.2f times the work\n",
	              what, n, once.n_bytes, (unsigned long long)once.n_branches,
	              (double)once.n_branches / (double)once.n_bytes,
	              (double)twice.n_branches / (double)once.n_branches);
	if (once.n_branches == 0)
		fail_msg("%s: nothing was counted", what);
	if (once.n_branches > per_byte * once.n_bytes)
		fail_msg("%s: more than %u branches for each byte", what, per_byte);
	if ((double)twice.n_branches > 2.3 * (double)once.n_branches)
		fail_msg("%s: the work grows faster than the object", what);
}
