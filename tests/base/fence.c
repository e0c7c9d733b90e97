#include "base/fence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "fake_clock.h"

static void
an_open_one_never_expires(void **state)
{
	struct fence f = FENCE_OPEN;
	struct error err;

	(void)state;
	assert_true(fence_check(&f, &clock_real, &err));
	assert_true(fence_check(NULL, &clock_real, &err));
	assert_true(fence_remaining_ns(&f, &clock_real) == CLOCK_FOREVER);
	assert_true(fence_remaining_ns(NULL, &clock_real) == CLOCK_FOREVER);
}

static void
a_closed_one_lets_nothing_pass(void **state)
{
	struct fence f = FENCE_CLOSED;
	struct error err;

	(void)state;
	assert_false(fence_check(&f, &clock_real, &err));
	assert_int_equal(err.code, ERR_CANCELLED);
	assert_true(fence_remaining_ns(&f, &clock_real) == 0);
}

static void
one_that_never_opens_fails_differently(void **state)
{
	struct fence f = FENCE_READ_ONLY;
	struct error err;

	(void)state;
	assert_false(fence_find_refused(&err));
	assert_false(fence_check(&f, &clock_real, &err));
	assert_int_equal(err.code, ERR_FORBIDDEN);
	assert_true(fence_remaining_ns(&f, &clock_real) == 0);
	assert_true(fence_find_refused(&err));
	assert_int_equal(err.code, ERR_INTERNAL);
	assert_non_null(strstr(err.msg, "a hook or a write of a file"));
}

static void
a_renewed_one_holds_to_its_deadline(void **state)
{
	struct fake_clock *fake = fake_clock_new(0);
	struct clock *clock = fake_clock_clock(fake);
	struct fence f = FENCE_CLOSED;
	struct error err;

	(void)state;
	fence_renew(&f, clock_boot(clock) + 14 * NS_PER_SEC);
	assert_true(fence_remaining_ns(&f, clock) == 14 * NS_PER_SEC);
	fake_clock_advance(fake, 14 * NS_PER_SEC - 1);
	assert_true(fence_remaining_ns(&f, clock) == 1);
	assert_true(fence_check(&f, clock, &err));
	fake_clock_jump_wall(fake, -3600 * NS_PER_SEC); /* no matter */
	fake_clock_advance(fake, 1);
	assert_true(fence_remaining_ns(&f, clock) == 0);
	assert_false(fence_check(&f, clock, &err));
	fake_clock_advance(fake, NS_PER_SEC);
	assert_true(fence_remaining_ns(&f, clock) == 0);
	fence_renew(&f, clock_boot(clock) + 1);
	assert_true(fence_check(&f, clock, &err));
	fake_clock_free(fake);
}

struct shared {
	struct fence fence;
	struct clock *clock;
};

/* True when the deadline was never seen to go back. */
static void *
watch(void *arg)
{
	struct shared *shared = arg;
	int64_t last = 0;

	while (last < 1000) {
		int64_t left = fence_remaining_ns(&shared->fence, shared->clock);

		if (left < last)
			return NULL;
		last = left;
	}
	return shared;
}

static void
is_read_while_renewed(void **state)
{
	struct fake_clock *fake = fake_clock_new(0);
	struct shared shared = { FENCE_CLOSED, fake_clock_clock(fake) };
	pthread_t threads[3];
	void *is_good;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		thread_start(&threads[i], "watcher", watch, &shared);
	for (int64_t left = 1; left <= 1000; left++)
		fence_renew(&shared.fence, clock_boot(shared.clock) + left);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		MUST(pthread_join(threads[i], &is_good));
		assert_non_null(is_good);
	}
	fake_clock_free(fake);
}

static void
check_shown(const char *line)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(64));

	metrics_write_page(&text, METRICS_MAIN, METRICS_TEXT);
	if (!strstr(text.ptr, line))
		fail_msg("no %s in %s", line, text.ptr);
}

static void
is_shown_in_the_metrics(void **state)
{
	static struct fence fence = FENCE_CLOSED;
	struct fake_clock *fake = fake_clock_new(0);
	struct clock *clock = fake_clock_clock(fake);

	(void)state;
	fence_show(&fence, clock, "kube-system/ccmd");
	check_shown("\nccmd_fence_remaining_seconds{lease=\"kube-system/ccmd\"} 0\n");
	fence_renew(&fence, clock_boot(clock) + 14 * NS_PER_SEC);
	fake_clock_advance(fake, 4500 * NS_PER_MS);
	check_shown("\nccmd_fence_remaining_seconds{lease=\"kube-system/ccmd\"} 9.5\n");
	fence_renew(&fence, CLOCK_FOREVER);
	check_shown("\nccmd_fence_remaining_seconds{lease=\"kube-system/ccmd\"} +Inf\n");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_open_one_never_expires),
		cmocka_unit_test(a_closed_one_lets_nothing_pass),
		cmocka_unit_test(one_that_never_opens_fails_differently),
		cmocka_unit_test(a_renewed_one_holds_to_its_deadline),
		cmocka_unit_test(is_read_while_renewed),
		cmocka_unit_test(is_shown_in_the_metrics),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
