#include "providers/hcloud/ratelimit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

#define HOUR_NS (3600 * NS_PER_SEC)
#define WALL_S 1800000000

/* A bucket of 3,600 with so many left, refilling with one a second, seen at HOUR_NS. */
static struct hz_budget
budget(int64_t left)
{
	struct hz_budget b = { .reserve_percent = 5 };

	hz_budget_note(&b, 3600, left, WALL_S + 3600 - left, WALL_S, HOUR_NS);
	return b;
}

static double
wait_s(const struct hz_budget *b, enum hz_urgency urgency, double n, int64_t now_ns)
{
	return (double)hz_budget_wait_ns(b, urgency, n, now_ns) / (double)NS_PER_SEC;
}

static void
an_unknown_budget_blocks_no_request(void **state)
{
	struct hz_budget b = { .reserve_percent = 5 };

	(void)state;
	assert_int_equal(hz_budget_wait_ns(&b, HZ_BACKGROUND, 1000, 0), 0);
	hz_budget_note(&b, -1, -1, -1, WALL_S, 0);
	assert_int_equal(hz_budget_wait_ns(&b, HZ_BACKGROUND, 1000, 0), 0);
}

static void
a_full_budget_blocks_no_request(void **state)
{
	struct hz_budget b = budget(3600);

	(void)state;
	assert_int_equal(hz_budget_wait_ns(&b, HZ_BACKGROUND, 200, HOUR_NS), 0);
	assert_int_equal(hz_budget_wait_ns(&b, HZ_URGENT, 200, HOUR_NS), 0);
}

/* 180 are the reserve, 360 for periodic requests. */
static void
keeps_a_reserve(void **state)
{
	struct hz_budget b = budget(200);

	(void)state;
	assert_int_equal(hz_budget_wait_ns(&b, HZ_URGENT, 10, HOUR_NS), 0);
	assert_float_equal(wait_s(&b, HZ_URGENT, 30, HOUR_NS), 10, 0.01);
	assert_float_equal(wait_s(&b, HZ_BACKGROUND, 10, HOUR_NS), 170, 0.01);
	/* it flows in meanwhile */
	assert_int_equal(hz_budget_wait_ns(&b, HZ_URGENT, 30, HOUR_NS + 10 * NS_PER_SEC), 0);
}

#define RUN_NS (5 * NS_PER_SEC)

static void
slows_the_background_down(void **state)
{
	struct hz_budget b = budget(1080); /* in the middle between 360 and 1,800 */

	(void)state;
	hz_budget_take(&b, HZ_BACKGROUND, 0, HOUR_NS);
	assert_float_equal(wait_s(&b, HZ_BACKGROUND, 20, HOUR_NS + RUN_NS), 15, 0.5);
	assert_int_equal(hz_budget_wait_ns(&b, HZ_URGENT, 20, HOUR_NS), 0);
	b = budget(720); /* a quarter */
	hz_budget_take(&b, HZ_BACKGROUND, 0, HOUR_NS);
	assert_float_equal(wait_s(&b, HZ_BACKGROUND, 20, HOUR_NS + RUN_NS), 55, 2);
}

/* A run sends several requests, and begins again if one of them has to wait. */
static void
a_run_in_the_background_ends(void **state)
{
	struct hz_budget b = budget(400);

	(void)state;
	hz_budget_take(&b, HZ_BACKGROUND, 1, HOUR_NS);
	assert_int_equal(wait_s(&b, HZ_BACKGROUND, 2, HOUR_NS + NS_PER_SEC), 0);
	hz_budget_take(&b, HZ_BACKGROUND, 2, HOUR_NS + NS_PER_SEC);
	assert_true(wait_s(&b, HZ_BACKGROUND, 2, HOUR_NS + RUN_NS) > 20);
	/* twice the reserve is left to others in any case */
	assert_true(wait_s(&b, HZ_BACKGROUND, 50, HOUR_NS + 2 * NS_PER_SEC) > 0);
}

static void
counts_what_it_gave(void **state)
{
	struct hz_budget b = budget(200);

	(void)state;
	hz_budget_take(&b, HZ_URGENT, 20, HOUR_NS);
	assert_float_equal(hz_budget_left(&b, HOUR_NS), 180, 0.01);
	assert_float_equal(hz_budget_left(&b, HOUR_NS + 5 * NS_PER_SEC), 185, 0.01);
	assert_float_equal(hz_budget_left(&b, 3 * HOUR_NS), 3600, 0.01);
}

enum {
	N_RUNS = 30,
	RUN_REQUESTS = 3, /* of a run, one after the other; a refused run begins again */
};

/* Takes one request in the name of a run. Returns when the run goes on. */
static int64_t
take_for_run(struct hz_budget *b, unsigned *n_sent, int64_t now_ns)
{
	if (hz_budget_wait_ns(b, HZ_URGENT, 1, now_ns) > 0) {
		*n_sent = 0;
		return now_ns + hz_budget_rest(b, 1, now_ns);
	}
	hz_budget_take(b, HZ_URGENT, 1, now_ns);
	++*n_sent;
	return now_ns + NS_PER_SEC / 10;
}

/* Many runs wait for an empty bucket. Together they need 90 requests, and one a second flows in. */
static void
runs_of_several_requests_end(void **state)
{
	struct hz_budget b = budget(180);
	unsigned n_sent[N_RUNS] = { 0 }, n_done = 0;
	int64_t at_ns[N_RUNS] = { 0 };

	(void)state;
	for (int64_t now_ns = HOUR_NS; now_ns < HOUR_NS + 300 * NS_PER_SEC;
	     now_ns += NS_PER_SEC / 10) {
		for (int i = 0; i < N_RUNS; i++) {
			if (at_ns[i] > now_ns || n_sent[i] == RUN_REQUESTS)
				continue;
			at_ns[i] = take_for_run(&b, &n_sent[i], now_ns);
			n_done += n_sent[i] == RUN_REQUESTS;
		}
	}
	assert_int_equal(n_done, N_RUNS);
}

static void
a_refusal_empties_it(void **state)
{
	struct hz_budget b = { .reserve_percent = 5 };

	(void)state;
	hz_budget_empty(&b, HOUR_NS);
	assert_float_equal(wait_s(&b, HZ_URGENT, 1, HOUR_NS), 181, 0.01);
}

/* At 300 of 3,600 for a quarter of an hour, though one a second flows in: others take it. */
static void
learns_what_others_take(void **state)
{
	struct hz_budget b = budget(300);
	int64_t now_ns = HOUR_NS;

	(void)state;
	assert_float_equal(wait_s(&b, HZ_BACKGROUND, 1, now_ns), 61, 0.1);
	for (int i = 0; i < 15; i++) {
		now_ns += 60 * NS_PER_SEC;
		hz_budget_take(&b, HZ_URGENT, 1, now_ns);
		hz_budget_note(&b, 3600, 300, WALL_S + 3300, WALL_S, now_ns);
	}
	assert_float_equal(wait_s(&b, HZ_BACKGROUND, 1, now_ns), 61 * 5, 1);
	/* who is waited for counts on the best */
	assert_float_equal(wait_s(&b, HZ_URGENT, 130, now_ns), 10, 0.1);
	/* and when they stop, all is as before */
	now_ns += 60 * NS_PER_SEC;
	hz_budget_note(&b, 3600, 360, WALL_S + 3240, WALL_S, now_ns);
	assert_float_equal(wait_s(&b, HZ_BACKGROUND, 11, now_ns), 11, 0.1);
}

/* What we take ourselves is not held against others, nor a bucket that is full. */
static void
our_own_requests_are_not_others(void **state)
{
	struct hz_budget b = budget(2000);
	int64_t now_ns = HOUR_NS;

	(void)state;
	for (int64_t left = 2000; left > 1000; left -= 40) {
		hz_budget_take(&b, HZ_URGENT, 100, now_ns);
		now_ns += 60 * NS_PER_SEC;
		hz_budget_note(&b, 3600, left - 40, WALL_S + 3600 - left + 40, WALL_S, now_ns);
	}
	assert_float_equal(b.own_rate, b.rate, 0.01);
	hz_budget_note(&b, 3600, 3600, WALL_S, WALL_S, now_ns + HOUR_NS);
	hz_budget_note(&b, 3600, 3600, WALL_S, WALL_S, now_ns + 2 * HOUR_NS);
	assert_float_equal(b.own_rate, b.rate, 0.01);
}

/* More than there will ever be: goes when the bucket is full. */
static void
never_waits_for_ever(void **state)
{
	struct hz_budget b = budget(3599);

	(void)state;
	assert_float_equal(wait_s(&b, HZ_BACKGROUND, 1e6, HOUR_NS), 1, 0.01);
	b = budget(3600);
	assert_int_equal(hz_budget_wait_ns(&b, HZ_BACKGROUND, 1e6, HOUR_NS), 0);
}

static void
takes_no_nonsense(void **state)
{
	struct hz_budget b = { .reserve_percent = 50 };
	static const int64_t odd[] = { -1, 0, 1, 3600, INT64_MAX, INT64_MIN };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		for (size_t k = 0; k < ARRAY_LEN(odd); k++) {
			int64_t wait;

			hz_budget_note(&b, odd[i], odd[k], odd[(i + k) % ARRAY_LEN(odd)], WALL_S,
			               HOUR_NS);
			wait = hz_budget_wait_ns(&b, HZ_BACKGROUND, 3, HOUR_NS);
			assert_true(wait >= 0 && wait <= HOUR_NS);
		}
	}
}

/* ---- reports of an outage ---- */

static bool
note_at(struct hz_outage *o, enum hz_reception reception, int64_t s)
{
	return hz_outage_note(o, reception, s * NS_PER_SEC);
}

static void
a_cloud_that_answers_is_not_reported(void **state)
{
	struct hz_outage o = { 0 };

	(void)state;
	assert_false(note_at(&o, HZ_ANSWERED, 0));
	assert_false(note_at(&o, HZ_ANSWERED, 10000));
}

static void
a_refused_token_is_reported_immediately_and_once(void **state)
{
	struct hz_outage o = { 0 };

	(void)state;
	assert_true(note_at(&o, HZ_REFUSED, 0));
	for (int64_t s = 1; s < 1800; s++)
		assert_false(note_at(&o, HZ_REFUSED, s));
	assert_true(note_at(&o, HZ_ANSWERED, 1800));
	assert_false(note_at(&o, HZ_ANSWERED, 1801));
	assert_true(note_at(&o, HZ_REFUSED, 1802));
}

static void
silence_is_reported_after_a_minute(void **state)
{
	struct hz_outage o = { 0 };

	(void)state;
	assert_false(note_at(&o, HZ_UNANSWERED, 0));
	assert_false(note_at(&o, HZ_UNANSWERED, 59));
	assert_false(note_at(&o, HZ_ANSWERED, 59));
	assert_false(note_at(&o, HZ_UNANSWERED, 61));
	assert_false(note_at(&o, HZ_UNANSWERED, 120));
	assert_true(note_at(&o, HZ_UNANSWERED, 121));
	assert_false(note_at(&o, HZ_UNANSWERED, 122));
	assert_true(note_at(&o, HZ_ANSWERED, 123));
}

/* Events are kept for an hour. */
static void
a_lasting_failure_is_reported_again(void **state)
{
	struct hz_outage o = { 0 };
	unsigned n_told = 0;

	(void)state;
	for (int64_t s = 0; s <= 6 * 3600; s += 65)
		n_told += note_at(&o, HZ_REFUSED, s);
	assert_in_range(n_told, 11, 13);
}

static void
another_failure_is_reported(void **state)
{
	struct hz_outage o = { 0 };

	(void)state;
	assert_false(note_at(&o, HZ_UNANSWERED, 0));
	assert_true(note_at(&o, HZ_UNANSWERED, 70));
	assert_true(note_at(&o, HZ_REFUSED, 71));
	assert_false(note_at(&o, HZ_UNANSWERED, 72));
	assert_true(note_at(&o, HZ_UNANSWERED, 132));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_unknown_budget_blocks_no_request),
		cmocka_unit_test(a_full_budget_blocks_no_request),
		cmocka_unit_test(keeps_a_reserve),
		cmocka_unit_test(slows_the_background_down),
		cmocka_unit_test(a_run_in_the_background_ends),
		cmocka_unit_test(counts_what_it_gave),
		cmocka_unit_test(runs_of_several_requests_end),
		cmocka_unit_test(a_refusal_empties_it),
		cmocka_unit_test(learns_what_others_take),
		cmocka_unit_test(our_own_requests_are_not_others),
		cmocka_unit_test(never_waits_for_ever),
		cmocka_unit_test(takes_no_nonsense),
		cmocka_unit_test(a_cloud_that_answers_is_not_reported),
		cmocka_unit_test(a_refused_token_is_reported_immediately_and_once),
		cmocka_unit_test(silence_is_reported_after_a_minute),
		cmocka_unit_test(a_lasting_failure_is_reported_again),
		cmocka_unit_test(another_failure_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
