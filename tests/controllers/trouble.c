/* An hour of trouble: the cloud refuses, fails, knows of no machine or of some only, now and then
 * or for a long while, and nodes come and go between Ready and not. Whatever happens, no node whose
 * machine exists is deleted. */
#include "controllers/rig.h"

#include <fcntl.h>

#include "base/log.h"

enum {
	N_NODES = 20,
	N_SEEDS = 100,
	HOUR_S = 3600,
};

enum trouble {
	ALL_WELL,
	REFUSED,   /* 401 */
	FAILED,    /* 500 */
	EMPTY,     /* another project, or a list that came back empty */
	TRUNCATED, /* machines that were not seen are unknown */
	BLIND,     /* no machine was */
	N_TROUBLES,
};

struct weather {
	uint64_t seed;
	enum trouble trouble;
	unsigned n_left; /* looks until it changes */
};

static struct rig *rig;
static struct weather weather;

/* xorshift64 */
static unsigned
roll(unsigned n)
{
	weather.seed ^= weather.seed << 13;
	weather.seed ^= weather.seed >> 7;
	weather.seed ^= weather.seed << 17;
	return (unsigned)(weather.seed >> 33) % n;
}

static void
change_weather(void)
{
	if (weather.n_left-- > 0)
		return;
	weather.trouble = roll(N_TROUBLES);
	weather.n_left = roll(2) ? roll(3) : roll(30);
}

static bool
spoil(void *arg, struct look *look, struct error *err)
{
	(void)arg;
	change_weather();
	if (weather.trouble == REFUSED)
		return err_set(err, ERR_UNAUTHORIZED, "401 unauthorized");
	if (weather.trouble == FAILED)
		return err_set(err, ERR_UNAVAILABLE, "500 internal error");
	for (size_t i = 0; i < look->n; i++) {
		if (weather.trouble == EMPTY)
			look->instances[i] = (struct instance){ .presence = PRESENCE_ABSENT,
				                                .error = STR_EMPTY };
		else if (weather.trouble == BLIND || (weather.trouble == TRUNCATED && roll(2)))
			look_set_error(look, i, PRESENCE_UNKNOWN, ERR_UNAVAILABLE,
			               STR("the list is not complete"));
	}
	return true;
}

static const char *
numbered(unsigned i)
{
	return arena_printf(&rig->arena, "n%u", i).ptr;
}

static void
put(unsigned i, const char *ready)
{
	const char *name = numbered(i);

	rig_put(rig, &(struct rig_node){
			     .name = name,
			     .ready = ready,
			     .provider_id = arena_printf(&rig->arena, "fake://%s", name).ptr,
		     });
}

static void
begin(uint64_t seed, const struct guard_config *guard)
{
	rig = rig_new();
	weather = (struct weather){ .seed = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) };
	rig_start_lifecycle(rig, guard);
	fake_cloud_mood(rig->cloud, spoil, NULL);
	for (unsigned i = 0; i < N_NODES; i++) {
		fake_cloud_set(rig->cloud, numbered(i), MACHINE_ON);
		put(i, i % 2 ? "True" : "Unknown");
	}
	rig_sync(rig);
}

static int
tear_down(void **state)
{
	(void)state;
	rig_free(rig);
	rig = NULL;
	return 0;
}

/* Settled after each step: who rolls when depends on the seed alone. */
static void
live_through_an_hour(void)
{
	for (int64_t passed_s = 0; passed_s < HOUR_S;) {
		int64_t step_s = 10 + roll(30);
		const char *ready = roll(2) ? "True" : "Unknown";

		if (roll(20) == 0) {
			put(roll(N_NODES), ready);
			rig_settle(rig);
		}
		rig_advance_ms(rig, step_s * MS_PER_SEC);
		passed_s += step_s;
	}
}

static size_t
deletions(void)
{
	return fake_api_count(rig->api, HTTP_DELETE, NULL);
}

static void
no_node_is_ever_deleted(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
		begin(seed, &guard_defaults);
		live_through_an_hour();
		if (deletions() > 0)
			fail_msg("seed %d: DELETE %s", (int)seed,
			         fake_api_nth(rig->api, HTTP_DELETE, NULL, 0)->target);
		assert_in_range(fake_cloud_looks(rig->cloud), 10, HOUR_S);
		tear_down(NULL);
	}
}

/* One machine is really gone. Its node goes when the weather allows, and no other. */
static void
only_the_one_that_is_gone_goes(void **state)
{
	unsigned n_gone = 0, n_seeds = 20;

	(void)state;
	for (uint64_t seed = 0; seed < n_seeds; seed++) {
		begin(seed, &guard_defaults);
		fake_cloud_set(rig->cloud, "n0", MACHINE_GONE);
		live_through_an_hour();
		assert_int_equal(deletions(), fake_api_count(rig->api, HTTP_DELETE, "/nodes/n0"));
		n_gone += deletions() > 0;
		tear_down(NULL);
	}
	assert_in_range(n_gone, n_seeds / 2, n_seeds);
}

/* Else the above would prove nothing. */
static void
without_the_guard_nodes_are_lost(void **state)
{
	struct guard_config off = guard_defaults;
	size_t n = 0;

	(void)state;
	off.is_enabled = false;
	for (uint64_t seed = 0; seed < 10; seed++) {
		begin(seed, &off);
		live_through_an_hour();
		n += deletions();
		tear_down(NULL);
	}
	assert_in_range(n, 10, 1000000);
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(no_node_is_ever_deleted),
		TEST(only_the_one_that_is_gone_goes),
		TEST(without_the_guard_nodes_are_lost),
	};

	log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC)); /* some 100,000 lines */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
