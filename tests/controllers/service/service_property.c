/* Whatever happens, in whatever order, with whatever failing: once it is quiet, cloud and cluster
 * are in the one state that docs/spec/framework.md, "Service sync", allows, and on the way nothing
 * was done that a crash could not have been survived.
 *
 * No threads but the recorder's: this one does what a worker does, one key at a time, so that a
 * sequence is the same each time. CCMD_SEED=N runs that sequence alone and says what it does;
 * CCMD_SEQUENCES=N is how many there are.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/rand.h"
#include "controllers/rig.h"
#include "controllers/service/service_internal.h"
#include "fake_clock.h"

enum {
	N_SEQUENCES = 3000,
	N_NAMES = 3,
	N_NODES = 4,
	N_STEPS = 40,
};

/* ---- chance, in place of base/rand.c: the same for the same seed ---- */

/* Other threads have one of their own. */
static _Thread_local uint64_t chance = 1;

uint64_t
rand_u64(void)
{
	uint64_t z = chance += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

int64_t
rand_between(int64_t lo, int64_t hi)
{
	return hi <= lo ? lo : lo + (int64_t)(rand_u64() % (uint64_t)(hi - lo));
}

int64_t
rand_jitter(int64_t d)
{
	return rand_between(d, 2 * d);
}

void
rand_uuid(struct buf *b)
{
	buf_addf(b, "%016" PRIx64, rand_u64());
}

static bool
one_in(unsigned n)
{
	return rand_u64() % n == 0;
}

/* ---- the world ---- */

enum effect {
	EFFECT_NONE,
	EFFECT_FAILS,        /* nothing is done */
	EFFECT_FAILS_LATE,   /* it is done, and the answer is lost */
	EFFECT_CRASHES,      /* the process ends before it … */
	EFFECT_CRASHES_LATE, /* … or after it */
};

struct world {
	struct rig *rig;
	struct service_controller *c;
	struct arena arena;
	bool has_node[N_NODES], is_excluded[N_NODES];
	unsigned machine[N_NODES];
	unsigned version;
	unsigned percent_failing;
	bool is_crashing; /* nothing has an effect any more */
	fake_api_answer_fn *answer;

	/* scripted: that provider call, that write (from 1) fares so; 0: none */
	unsigned doomed_call, doomed_write, n_calls, n_writes;
	enum effect doom;
};

static bool is_told;

#define TELL(...)                                           \
	do {                                                \
		if (is_told)                                \
			(void)fprintf(stderr, __VA_ARGS__); \
	} while (0)

static enum effect
any_effect(struct world *w)
{
	if (w->is_crashing)
		return EFFECT_CRASHES;
	if (rand_u64() % 100 >= w->percent_failing)
		return EFFECT_NONE;
	if (one_in(8))
		return one_in(2) ? EFFECT_CRASHES : EFFECT_CRASHES_LATE;
	return one_in(2) ? EFFECT_FAILS : EFFECT_FAILS_LATE;
}

static enum effect
note_crash(struct world *w, const char *what, enum effect effect)
{
	static const char *const names[] = { "", ": fails", ": fails late", ": crash",
		                             ": crash late" };

	TELL("    %s%s\n", what, names[effect]);
	w->is_crashing = w->is_crashing || effect >= EFFECT_CRASHES;
	return effect;
}

static enum err_code
call_mood(void *arg, const char *call, bool *ret_is_late, int64_t *ret_retry_after_ms)
{
	static const enum err_code codes[] = { ERR_UNAVAILABLE, ERR_TIMEOUT,   ERR_INVALID,
		                               ERR_PENDING,     ERR_THROTTLED, ERR_INTERNAL };
	struct world *w = arg;
	enum effect effect = ++w->n_calls == w->doomed_call ? w->doom : any_effect(w);
	enum err_code code = codes[rand_u64() % ARRAY_LEN(codes)];

	effect = note_crash(w, call, effect);
	*ret_is_late = effect == EFFECT_FAILS_LATE || effect == EFFECT_CRASHES_LATE;
	if (code == ERR_PENDING || code == ERR_THROTTLED)
		*ret_retry_after_ms = rand_between(0, 20000);
	return effect == EFFECT_NONE ? ERR_NONE : code;
}

/* Events, which another thread writes, always succeed. */
static int
answer_write(void *arg, const struct api_request *request, struct buf *body)
{
	struct world *w = arg;
	enum effect effect;
	int status;

	if (!strstr(request->target, "/services/"))
		return 0;
	effect = ++w->n_writes == w->doomed_write ? w->doom : any_effect(w);
	effect = note_crash(w, request->body, effect);
	if (effect == EFFECT_FAILS || effect == EFFECT_CRASHES)
		return 500;
	status = w->answer(w->rig->services, request, body);
	return effect == EFFECT_NONE ? status : 500;
}

/* ---- what must hold at any time ---- */

struct search {
	const char *uid;
	bool is_claimed;
};

static void
look_for(void *arg, const struct fake_service_state *s)
{
	struct search *search = arg;

	if (strcmp(s->uid, search->uid) == 0)
		search->is_claimed = s->is_claimed;
}

static void
check_make(void *arg, const char *uid)
{
	struct world *w = arg;
	struct search search = { uid, false };

	fake_services_each(w->rig->services, look_for, &search);
	if (!search.is_claimed)
		fail_msg("a balancer for %s, which does not have our finalizer", uid);
}

static void
check_release(void *arg, const char *uid)
{
	struct world *w = arg;

	if (fake_balancers_get(w->rig->balancers, uid).exists)
		fail_msg("%s is released while it has a balancer", uid);
}

/* ---- what must hold in the end ---- */

/* Of nodes that were created in the same second the one with the lowest UID counts as the oldest.
 */
static bool
shares_with_older(const struct world *w, unsigned i)
{
	for (unsigned k = 0; k < i; k++) {
		if (w->has_node[k] && w->machine[k] == w->machine[i])
			return true;
	}
	return false;
}

static void
expect_nodes(struct world *w, struct buf *b)
{
	for (unsigned i = 0; i < N_NODES; i++) {
		if (w->has_node[i] && !w->is_excluded[i] && !shares_with_older(w, i))
			buf_addf(b, "n%u=fake://%u,", i, w->machine[i]);
	}
}

static void
check_balanced(struct world *w, const struct fake_service_state *s)
{
	struct fake_balancer_state b = fake_balancers_get(w->rig->balancers, s->uid);
	CLEANUP(buf_fini) struct buf nodes = BUF_INIT(KIB(4)), annotations = BUF_INIT(KIB(4));

	expect_nodes(w, &nodes);
	for (const char *at = s->annotations; *at; at++) { /* "k":"v" as k=v, */
		if (*at != '"')
			buf_add_char(&annotations, *at == ':' ? '=' : *at);
	}
	buf_add_c(&annotations, annotations.len > 0 ? "," : "");
	assert_true(s->is_claimed);
	assert_true(b.exists);
	assert_string_equal(b.nodes, nodes.ptr);
	assert_string_equal(b.annotations, annotations.ptr);
	assert_non_null(strstr(s->ingress, b.address));
}

static void
check_service(void *arg, const struct fake_service_state *s)
{
	struct world *w = arg;
	bool has_balancer = fake_balancers_get(w->rig->balancers, s->uid).exists;
	bool is_wanted = strcmp(s->type, "LoadBalancer") == 0;

	if (s->is_deleting || !is_wanted) {
		assert_false(has_balancer);
		assert_false(s->is_claimed &&
		             s->class[0] == '\0'); /* may be another controller's */
		assert_true(s->ingress[0] == '\0' || s->class[0] != '\0');
	} else if (s->class[0] != '\0') {
		assert_true(s->is_claimed || !has_balancer); /* left alone */
	} else if (strstr(s->annotations, "elsewhere")) {
		assert_true(s->is_claimed);
	} else {
		check_balanced(w, s);
	}
}

static void
count_balancer(void *arg, const struct fake_service_state *s)
{
	struct {
		struct world *w;
		size_t n;
	} *sum = arg;

	sum->n += fake_balancers_get(sum->w->rig->balancers, s->uid).exists;
}

static void
check_end(struct world *w)
{
	struct {
		struct world *w;
		size_t n;
	} sum = { w, 0 };

	fake_services_each(w->rig->services, check_service, w);
	fake_services_each(w->rig->services, count_balancer, &sum);
	assert_int_equal(sum.n,
	                 fake_balancers_count(w->rig->balancers)); /* no other Service has one */
}

/* ---- steps ---- */

static void
put_node(struct world *w, unsigned i)
{
	char name[8], version[16], provider_id[32];

	(void)snprintf(name, sizeof(name), "n%u", i);
	(void)snprintf(version, sizeof(version), "%u", ++w->version);
	(void)snprintf(provider_id, sizeof(provider_id), "fake://%u", w->machine[i]);
	rig_put(w->rig,
	        &(struct rig_node){
			.name = name,
			.version = version,
			.provider_id = provider_id,
			.labels =
				w->is_excluded[i]
					? "\"node.kubernetes.io/exclude-from-external-load-balancers\":\"\""
					: NULL });
}

static void
build(struct world *w)
{
	struct rig *r = w->rig;
	struct call call = { .clock = r->clock,
		             .cancel = r->cancel,
		             .deadline_mono_ns = CLOCK_FOREVER,
		             .arena = &w->arena };

	w->is_crashing = false;
	r->env.nodes = store_new(&r->node_kind.kind, r->clock);
	r->env.services = store_new(&service_kind.kind, r->clock);
	store_begin_list(r->env.nodes, /*is_newest=*/false);
	store_begin_list(r->env.services, /*is_newest=*/false);
	w->c = service_controller_new(&r->env, &(struct service_controller_config){
						       .n_workers = 0, .cluster_name = "k" });
	for (unsigned i = 0; i < N_NODES; i++) {
		if (w->has_node[i])
			put_node(w, i);
	}
	fake_services_list(r->services, r->env.services);
	store_end_list(r->env.nodes);
	store_end_list(r->env.services);
	fake_balancers_mood(r->balancers, NULL, NULL); /* adopt() is tried until it works */
	(void)service_begin(w->c, &call);
	fake_balancers_mood(r->balancers, call_mood, w);
}

static void
tear_down_controller(struct world *w)
{
	queue_shut_down(service_controller_queue(w->c));
	service_controller_free(w->c);
	store_free(w->rig->env.nodes);
	store_free(w->rig->env.services);
}

static void
restart(struct world *w)
{
	TELL("  crash\n");
	tear_down_controller(w);
	build(w);
}

static size_t
work(struct world *w, size_t max)
{
	struct error err;
	struct str key;
	size_t n = 0;

	while (n < max && queue_get(w->c->queue, clock_mono(w->rig->clock), &key, &err)) {
		service_work_on(w->c, &w->arena, key);
		n++;
		if (w->is_crashing)
			restart(w);
	}
	return n;
}

static size_t
deliver(struct world *w, size_t max)
{
	return fake_services_deliver(w->rig->services, w->rig->env.services, max);
}

static const char *const service_names[N_NAMES] = { "s0", "s1", "s2" };

/* A class is given when the type becomes LoadBalancer, and stays as long as it is. */
static const char *
class_for(struct world *w, const char *name, const char *type)
{
	static char kept[32];
	struct fake_service_state s = fake_services_get(w->rig->services, name);

	if (strcmp(type, "LoadBalancer") != 0)
		return NULL;
	if (strcmp(s.type, type) != 0)
		return one_in(6) ? "x" : NULL;
	(void)snprintf(kept, sizeof(kept), "%s", s.class);
	return kept[0] ? kept : NULL;
}

static void
put_service(struct world *w)
{
	static const char *const annotations[] = { "", "\"k\":\"1\"", "\"k\":\"2\"", "\"k\":\"3\"",
		                                   "\"elsewhere\":\"\"" };
	struct fake_service s = { .name = service_names[rand_u64() % N_NAMES],
		                  .type = one_in(4) ? "ClusterIP" : "LoadBalancer",
		                  .finalizers = one_in(6) ? "example.com/other" : NULL,
		                  .annotations = annotations[rand_u64() % (one_in(4) ? 5 : 4)] };

	s.class = class_for(w, s.name, s.type);
	TELL("  put %s %s %s %s\n", s.name, s.type, s.class ? s.class : "-", s.annotations);
	fake_services_put(w->rig->services, &s);
}

static void
delete_service(struct world *w)
{
	const char *name = service_names[rand_u64() % N_NAMES];

	TELL("  delete %s\n", name);
	if (one_in(3))
		fake_services_strip(w->rig->services, name, "example.com/other");
	fake_services_delete(w->rig->services, name);
}

static void
change_node(struct world *w)
{
	unsigned i = (unsigned)(rand_u64() % N_NODES);
	char name[8];

	(void)snprintf(name, sizeof(name), "n%u", i);
	TELL("  node %s\n", name);
	if (w->has_node[i] && one_in(2)) {
		rig_remove(w->rig, name);
		w->has_node[i] = false;
		return;
	}
	w->is_excluded[i] = one_in(4);
	w->machine[i] += one_in(3);
	w->has_node[i] = true;
	put_node(w, i);
}

static void
pass_time(struct world *w)
{
	int64_t ns = one_in(4) ? rand_between(0, 60 * NS_PER_SEC) : rand_between(0, 2 * NS_PER_SEC);

	TELL("  %.3f s pass\n", (double)ns / (double)NS_PER_SEC);
	fake_clock_advance(w->rig->fake, ns);
}

static void
change_weather(struct world *w)
{
	static const unsigned percents[] = { 0, 20, 70 };

	w->percent_failing = percents[rand_u64() % ARRAY_LEN(percents)];
	TELL("  %u %% fail\n", w->percent_failing);
}

static void
step(struct world *w)
{
	switch (rand_u64() % 16) {
	case 0 ... 2:
		put_service(w);
		break;
	case 3:
		delete_service(w);
		break;
	case 4 ... 5:
		change_node(w);
		break;
	case 6 ... 8:
		(void)deliver(w, rand_u64() % 3 + 1);
		break;
	case 9 ... 12:
		(void)work(w, rand_u64() % 4 + 1);
		break;
	case 13:
		pass_time(w);
		break;
	case 14:
		change_weather(w);
		break;
	default:
		if (one_in(3))
			restart(w);
		else
			service_controller_wake(w->c, STR_EMPTY);
		break;
	}
}

/* Everything is heard of and worked off, and what failed comes back: 5 minutes are its longest
 * wait. */
static void
calm(struct world *w)
{
	TELL("  calm\n");
	w->percent_failing = 0;
	for (int i = 0; i < 14; i++) {
		while (deliver(w, SIZE_MAX) + work(w, SIZE_MAX) > 0)
			;
		fake_clock_advance(w->rig->fake, 25 * NS_PER_SEC);
	}
}

/* ---- life ---- */

static void
world_init(struct world *w, uint64_t seed)
{
	struct rig *r;

	*w = (struct world){ .version = 10 };
	chance = seed;
	w->rig = r = rig_new();
	store_free(r->env.nodes);
	r->services = fake_services_new(r->api);
	r->balancers = fake_balancers_new(r->clock);
	fake_cloud_offer_balancers(r->cloud, fake_balancers_ops(false), r->balancers);
	w->answer = fake_services_answer;
	fake_api_answer_with(r->api, answer_write, w);
	fake_services_on_release(r->services, check_release, w);
	fake_balancers_on_make(r->balancers, check_make, w);
	for (unsigned i = 0; i < N_NODES / 2; i++)
		w->has_node[i] = true;
	build(w);
}

static void
world_fini(struct world *w)
{
	tear_down_controller(w);
	w->rig->env.nodes = w->rig->env.services = NULL;
	arena_fini(&w->arena);
	rig_free(w->rig);
}

static unsigned
changes(struct world *w)
{
	unsigned n = (unsigned)fake_api_count(w->rig->api, HTTP_PATCH, "/services/");

	for (unsigned i = 0; i < N_NAMES; i++)
		n += fake_balancers_get(w->rig->balancers,
		                        fake_services_get(w->rig->services, service_names[i]).uid)
		             .n_changes;
	return n;
}

/* It is quiet, and a new process finds nothing to be done. */
static void
check_quiet(struct world *w)
{
	unsigned before;

	fake_balancers_forget_calls(w->rig->balancers);
	before = changes(w);
	fake_clock_advance(w->rig->fake, 3600 * NS_PER_SEC);
	assert_int_equal(work(w, SIZE_MAX), 0);
	restart(w);
	calm(w);
	assert_int_equal(changes(w), before);
	check_end(w);
}

static void
run_sequence(uint64_t seed)
{
	struct world w;

	world_init(&w, seed);
	for (int i = 0; i < N_STEPS; i++)
		step(&w);
	calm(&w);
	check_end(&w);
	check_quiet(&w);
	world_fini(&w);
}

/* ---- tests ---- */

static uint64_t
number_from_env(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static uint64_t seed_now;

static int
say_seed(void **state)
{
	(void)state;
	if (seed_now > 0)
		(void)fprintf(stderr, "the last sequence was CCMD_SEED=%" PRIu64 "\n", seed_now);
	return 0;
}

static void
random_sequences_end_in_the_state_that_is_allowed(void **state)
{
	uint64_t seed = number_from_env("CCMD_SEED", 0);
	uint64_t n = number_from_env("CCMD_SEQUENCES", N_SEQUENCES);

	(void)state;
	is_told = seed > 0;
	for (seed_now = is_told ? seed : 1; seed_now <= (is_told ? seed : n); seed_now++)
		run_sequence(seed_now);
	seed_now = 0;
	is_told = false;
}

/* A life with everything in it, the store always up to date. */
static void
tell_story(struct world *w)
{
	static const struct fake_service chapters[] = {
		{ .name = "s0" },
		{ .name = "s0", .annotations = "\"k\":\"1\"" },
		{ .name = "s0", .type = "ClusterIP" },
		{ .name = "s0", .annotations = "\"k\":\"2\"" },
	};

	for (size_t i = 0; i < ARRAY_LEN(chapters); i++) {
		fake_services_put(w->rig->services, &chapters[i]);
		calm(w);
		w->machine[0]++;
		put_node(w, 0);
		calm(w);
		check_end(w);
	}
	fake_services_delete(w->rig->services, "s0");
	calm(w);
	check_end(w);
	assert_int_equal(fake_balancers_count(w->rig->balancers), 0);
}

/* True when the story was long enough for that. */
static bool
tell_story_with(unsigned doomed_call, unsigned doomed_write, enum effect doom)
{
	struct world w;
	bool was_doomed;

	world_init(&w, 1);
	w.doomed_call = doomed_call;
	w.doomed_write = doomed_write;
	w.doom = doom;
	tell_story(&w);
	was_doomed = w.n_calls >= doomed_call && w.n_writes >= doomed_write;
	world_fini(&w);
	return was_doomed;
}

static void
any_provider_call_and_any_write_may_fail(void **state)
{
	(void)state;
	for (enum effect doom = EFFECT_FAILS; doom <= EFFECT_CRASHES_LATE; doom++) {
		unsigned n_calls = 1, n_writes = 1;

		while (tell_story_with(n_calls, 0, doom))
			n_calls++;
		while (tell_story_with(0, n_writes, doom))
			n_writes++;
		assert_in_range(n_calls, 9, 100);
		assert_in_range(n_writes, 6, 100);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(random_sequences_end_in_the_state_that_is_allowed,
		                          say_seed),
		cmocka_unit_test(any_provider_call_and_any_write_may_fail),
	};

	log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
	return cmocka_run_group_tests_name("service_property", tests, NULL, NULL);
}
