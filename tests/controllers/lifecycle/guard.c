/* tests/controllers/lifecycle/guard.c: the decision to delete a node, over every combination of its
 * inputs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controllers/lifecycle/guard.h"

#define S NS_PER_SEC

static const struct guard_config *const defaults = &guard_defaults;

static void
see(struct guard_track *t, enum presence presence, int64_t at_s, uint64_t heartbeat)
{
	guard_observe(t, defaults,
	              &(struct guard_observation){ .presence = presence,
	                                           .has_witness = true,
	                                           .heartbeat = heartbeat,
	                                           .started_boot_ns = at_s * S });
}

static struct guard_facts
old_node(const struct guard_track *t)
{
	return (struct guard_facts){
		.has_provider_id = true,
		.age_ns = 3600 * S,
		.track = *t,
		.n_nodes = 10,
		.n_going = 1,
		.group_first_boot_ns = t->first_boot_ns,
	};
}

static enum guard_outcome
decide(const struct guard_track *t)
{
	struct guard_facts f = old_node(t);

	return guard_decide(defaults, &f);
}

static void
unknown_neither_counts_nor_resets(void **state)
{
	struct guard_track t = { 0 };

	(void)state;
	see(&t, PRESENCE_ABSENT, 100, 7);
	see(&t, PRESENCE_UNKNOWN, 106, 7);
	see(&t, PRESENCE_UNKNOWN, 130, 7);
	assert_int_equal(decide(&t), GUARD_UNCONFIRMED);
	see(&t, PRESENCE_ABSENT, 131, 7);
	assert_int_equal(decide(&t), GUARD_DELETE);
}

/* Seconds; -1: never. */
static int64_t
not_before(const struct guard_facts *f, int64_t now_s)
{
	int64_t at_ns = guard_not_before_ns(defaults, f, now_s * S);

	return at_ns == CLOCK_FOREVER ? -1 : at_ns / S;
}

static void
the_time_of_a_deletion_is_known_in_advance(void **state)
{
	struct guard_track t = { 0 };
	struct guard_facts f = old_node(&t);

	(void)state;
	assert_int_equal(not_before(&f, 100), -1); /* not absent */
	see(&t, PRESENCE_ABSENT, 100, 7);
	f = old_node(&t);
	assert_int_equal(not_before(&f, 101), 112);
	assert_int_equal(not_before(&f, 130), 130); /* the second look is late */
	f.age_ns = 20 * S;
	assert_int_equal(not_before(&f, 101), 141);
	f = old_node(&t);
	f.has_provider_id = false;
	assert_int_equal(not_before(&f, 101), 1000);
	f = old_node(&t);
	f.has_new_heartbeat = true;
	assert_int_equal(not_before(&f, 105), 117);
	see(&t, PRESENCE_ABSENT, 112, 7);
	f = old_node(&t);
	assert_int_equal(not_before(&f, 113), 113); /* now */
	f.n_going = 4;
	f.group_first_boot_ns = 110 * S;
	assert_int_equal(not_before(&f, 113), 410);
	f.is_foreign = true;
	assert_int_equal(not_before(&f, 113), -1);
	f.is_foreign = false;
	f.track.lacks_witness = true;
	assert_int_equal(not_before(&f, 113), -1);
}

/* What the design demands, written down a second time, without looking at the code. */
static bool
may_delete(const struct guard_config *c, const struct guard_facts *f)
{
	const struct guard_track *t = &f->track;
	int64_t agreed = t->last_boot_ns - t->first_boot_ns;
	bool is_over = f->n_going > c->breaker_min &&
	               f->n_going * 100 > f->n_nodes * c->breaker_percent;

	return !f->is_ready && !f->has_new_heartbeat && !f->is_foreign && t->n_absent >= 2 &&
	       agreed >= c->confirm_ns && !t->lacks_witness && !t->has_heartbeat &&
	       f->age_ns >= c->min_age_ns && (f->has_provider_id || agreed >= c->nameless_ns) &&
	       (f->is_announced || !is_over ||
	        t->last_boot_ns - f->group_first_boot_ns >= c->breaker_agree_ns);
}

/* Every combination of flags with every interesting value of the numbers: about 800,000. */
static void
every_combination_is_as_designed(void **state)
{
	static const int64_t ages_s[] = { -3600, 0, 59, 60, 61, 100000 };
	static const int64_t agreed_s[] = { 0, 11, 12, 299, 300, 899, 900 };
	static const unsigned goings[] = { 1, 3, 4, 50 }, nodes[] = { 1, 10, 19, 20, 250 };
	size_t n = 0, n_deleted = 0;

	(void)state;
	for (unsigned bits = 0; bits < 128; bits++)
		for (unsigned n_absent = 0; n_absent <= 3; n_absent++)
			for (size_t a = 0; a < ARRAY_LEN(ages_s); a++)
				for (size_t g = 0; g < ARRAY_LEN(agreed_s); g++)
					for (size_t k = 0; k < ARRAY_LEN(goings) * ARRAY_LEN(nodes);
					     k++) {
						struct guard_facts f = {
							.is_ready = bits & 1,
							.is_foreign = bits & 2,
							.has_provider_id = bits & 4,
							.is_announced = bits & 8,
							.has_new_heartbeat = bits & 64,
							.age_ns = ages_s[a] * S,
							.track = { .n_absent = n_absent,
							           .first_boot_ns =
							                   n_absent ? 1000 * S : 0,
							           .last_boot_ns =
							                   n_absent
							                           ? (1000 +
							                              agreed_s[g]) *
							                                     S
							                           : 0,
							           .lacks_witness = bits & 16,
							           .has_heartbeat = bits & 32 },
							.n_nodes = nodes[k % ARRAY_LEN(nodes)],
							.n_going = goings[k / ARRAY_LEN(nodes)],
							.group_first_boot_ns = 1000 * S,
						};
						bool is_deleted = guard_decide(defaults, &f) ==
						                  GUARD_DELETE;

						if (is_deleted != may_delete(defaults, &f))
							fail_msg(
								"bits %u absent %u age %d agreed %d going %u of %u",
								bits, n_absent, (int)ages_s[a],
								(int)agreed_s[g], f.n_going,
								f.n_nodes);
						n++;
						n_deleted += is_deleted;
					}
	assert_true(n > 200000);
	assert_true(n_deleted > 100);
}

static void
looks_come_at_0_12_30_60_and_every_65_s(void **state)
{
	static const int64_t after_s[] = { 12, 18, 30, 65, 65 };
	struct guard_track t = { 0 };
	struct guard_facts f = old_node(&t);

	(void)state;
	for (unsigned i = 0; i < ARRAY_LEN(after_s); i++)
		assert_int_equal(guard_next_look_ns(defaults, &f, i + 1, 0) / S, after_s[i]);
	assert_int_equal(guard_next_look_ns(defaults, &f, 9, 5 * S) / S, 5);
	see(&f.track, PRESENCE_ABSENT, 100, 7);
	assert_int_equal(guard_next_look_ns(defaults, &f, 9, 0) / S, 12);
	see(&f.track, PRESENCE_ABSENT, 112, 7);
	f.age_ns = 20 * S;
	assert_int_equal(guard_next_look_ns(defaults, &f, 9, 0) / S, 40);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unknown_neither_counts_nor_resets),
		cmocka_unit_test(the_time_of_a_deletion_is_known_in_advance),
		cmocka_unit_test(every_combination_is_as_designed),
		cmocka_unit_test(looks_come_at_0_12_30_60_and_every_65_s),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
