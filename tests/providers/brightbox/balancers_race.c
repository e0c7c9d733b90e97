/* Two processes make a balancer for the same Service at the same time, in every order of their
 * requests.
 *
 * Each process runs on a thread and stops before each request that concerns balancers or cloud IPs,
 * until it is given its turn, so one of them runs at a time. What follows depends only on the
 * account and on the answers that both have had so far. An order that leads to a state which was
 * seen before is therefore given up: everything that can follow was explored from there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/limits.h"
#include "base/thread.h"
#include "providers/brightbox/account.h"

enum {
	PROCESSES = 2,
	RUNS_MAX = 12, /* after it, until all is settled */
	CHOICES_MAX = 250,
	STATES_MAX = 1 << 18,
	NOBODY = -1,
};

struct racer {
	struct process process;
	pthread_t thread;
	int number;
	bool is_waiting, is_done;   /* mu */
	uint64_t history;           /* of the answers so far; mu */
	char problem[ERR_MSG_SIZE]; /* of the last run that failed */
};

/* The choices that lead to a state, where both could go on. */
struct order {
	uint8_t choices[CHOICES_MAX];
	size_t n;
};

static struct {
	pthread_mutex_t mu;
	pthread_cond_t changed;
	int turn;             /* mu; NOBODY: the scheduler's */
	bool is_given_up;     /* mu */
	struct account start; /* with the firewall of the Service */
	struct account account;
	struct racer racers[PROCESSES];
	struct order *open; /* not explored yet */
	size_t n_open, cap_open;
	uint64_t *seen; /* a hash table of states; 0: free */
	size_t n_seen;
	unsigned n_orders;    /* explored to their end */
	unsigned n_withdrawn; /* in which two balancers existed for a while */
	bool had_two;
} race;

/* ---- states ---- */

static uint64_t
hash(uint64_t from, const void *data, size_t len)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < len; i++)
		from = (from ^ bytes[i]) * 0x100000001b3;
	return from;
}

/* With mu held. */
static uint64_t
state_hash(void)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(MIB(1));
	uint64_t h = 0xcbf29ce484222325;

	account_write(&race.account, &text);
	h = hash(h, text.ptr, text.len);
	for (int i = 0; i < PROCESSES; i++)
		h = hash(h, &race.racers[i].history, sizeof(race.racers[i].history));
	return h ? h : 1;
}

/* True the first time. */
static bool
see_state(uint64_t state)
{
	size_t at = state % STATES_MAX;

	while (race.seen[at] != 0 && race.seen[at] != state)
		at = (at + 1) % STATES_MAX;
	if (race.seen[at] == state)
		return false;
	race.seen[at] = state;
	assert_true(++race.n_seen < STATES_MAX / 2);
	return true;
}

/* ---- the processes ---- */

static bool
wait_for_turn(struct process *process, const struct http_request *request, struct error *err)
{
	struct racer *racer = CONTAINER_OF(process, struct racer, process);
	WITH_LOCK(&race.mu);

	racer->history = hash(racer->history, request->target.ptr, request->target.len);
	if (!str_starts(request->target, STR("/load_balancers")) &&
	    !str_starts(request->target, STR("/cloud_ips")))
		return true;
	racer->is_waiting = true;
	race.turn = NOBODY;
	cond_broadcast(&race.changed);
	while (race.turn != racer->number && !race.is_given_up)
		clock_wait(&clock_real, &race.changed, &race.mu, CLOCK_FOREVER);
	racer->is_waiting = false;
	return !race.is_given_up || err_set(err, ERR_CANCELLED, "given up");
}

static void
remember_answer(struct process *process, const struct http_request *request,
                const struct buf *answer)
{
	struct racer *racer = CONTAINER_OF(process, struct racer, process);
	WITH_LOCK(&race.mu);

	(void)request;
	racer->history = hash(racer->history, answer->ptr, answer->len);
	race.had_two |= race.account.n_lbs > 1;
}

static bool
run_once(struct racer *racer)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct lb_spec spec = account_service();
	struct lb_status status;
	struct error err;

	return process_ensure(&racer->process, &spec, &status, &arena, &err) ||
	       (snprintf(racer->problem, sizeof(racer->problem), "%s", err.msg), false);
}

static void *
race_thread(void *arg)
{
	struct racer *racer = arg;

	(void)run_once(racer);
	mutex_lock(&race.mu);
	racer->is_done = true;
	race.turn = NOBODY;
	cond_broadcast(&race.changed);
	mutex_unlock(&race.mu);
	return NULL;
}

/* ---- the scheduler ---- */

/* With mu held: all wait, or are done. */
static bool
is_quiet(void)
{
	for (int i = 0; i < PROCESSES; i++) {
		if (!race.racers[i].is_waiting && !race.racers[i].is_done)
			return false;
	}
	return race.turn == NOBODY;
}

/* With mu held. Whose turn is next? NOBODY: the order is at its end, or was given up. */
static int
choose(struct order *order, size_t n_given)
{
	const struct racer *racers = race.racers;

	if (racers[0].is_done || racers[1].is_done)
		return racers[0].is_done && racers[1].is_done ? NOBODY : racers[0].is_done;
	if (order->n < n_given)
		return order->choices[order->n++];
	race.is_given_up = !see_state(state_hash());
	if (race.is_given_up)
		return NOBODY;
	assert_true(order->n < CHOICES_MAX);
	order->choices[order->n] = 1;
	ARRAY_PUSH(race.open, race.n_open, race.cap_open, *order);
	race.open[race.n_open - 1].n++;
	order->choices[order->n++] = 0;
	return 0;
}

static void
schedule(struct order *order)
{
	size_t n_given = order->n;
	WITH_LOCK(&race.mu);

	order->n = 0;
	for (;;) {
		while (!is_quiet())
			clock_wait(&clock_real, &race.changed, &race.mu, CLOCK_FOREVER);
		race.turn = choose(order, n_given);
		if (race.turn == NOBODY)
			break;
		race.racers[race.turn].is_waiting = false;
		cond_broadcast(&race.changed);
	}
	cond_broadcast(&race.changed);
}

/* ---- what has to be true in the end ---- */

static void
check_end(void)
{
	const struct account *a = &race.account;
	bool is_settled = false;

	for (int i = 0; i < RUNS_MAX && !is_settled; i++) {
		is_settled = true;
		for (int k = 0; k < PROCESSES; k++) {
			is_settled &= run_once(&race.racers[k]);
			race.racers[k].process.fake.now_ns += 40 * NS_PER_SEC;
		}
	}
	if (!is_settled)
		fail_msg("%s, %s", race.racers[0].problem, race.racers[1].problem);
	assert_int_equal(a->n_lbs, 1);
	assert_int_equal(a->n_ips, 1);
	assert_string_equal(a->ips[0].lb, a->lbs[0].id);
}

static void
explore(struct order order)
{
	race.account = race.start; /* whose arena only it owns */
	race.account.arena = ARENA_INIT;
	race.turn = NOBODY;
	race.is_given_up = race.had_two = false;
	for (int i = 0; i < PROCESSES; i++) {
		struct racer *racer = &race.racers[i];

		*racer = (struct racer){ .number = i };
		process_start(&racer->process, &race.account);
		racer->process.before = wait_for_turn;
		racer->process.after = remember_answer;
	}
	for (int i = 0; i < PROCESSES; i++)
		assert_int_equal(pthread_create(&race.racers[i].thread, NULL, race_thread,
		                                &race.racers[i]),
		                 0);
	schedule(&order);
	for (int i = 0; i < PROCESSES; i++) {
		pthread_join(race.racers[i].thread, NULL);
		race.racers[i].process.before = NULL;
		race.racers[i].process.after = NULL;
	}
	if (!race.is_given_up) {
		race.n_orders++;
		race.n_withdrawn += race.had_two;
		check_end();
	}
	for (int i = 0; i < PROCESSES; i++)
		process_end(&race.racers[i].process);
	account_fini(&race.account);
}

/* Group and policy exist already: the order of requests about them does not matter here, and would
 * multiply the states. */
static void
prepare(void)
{
	struct racer *racer = &race.racers[0];

	process_start(&racer->process, &race.start);
	assert_true(run_once(racer));
	process_end(&racer->process);
	race.start.n_lbs = race.start.n_ips = 0;
}

static void
two_processes_never_leave_two_balancers(void **state)
{
	(void)state;
	mutex_init(&race.mu);
	cond_init(&race.changed);
	race.seen = xcalloc(STATES_MAX, sizeof(*race.seen));
	prepare();
	ARRAY_PUSH(race.open, race.n_open, race.cap_open, (struct order){ .n = 0 });
	while (race.n_open > 0) {
		struct order next = race.open[--race.n_open];

		explore(next);
	}
	print_message("%zu states, %u orders to their end, two balancers for a while in %u\n",
	              race.n_seen, race.n_orders, race.n_withdrawn);
	assert_true(race.n_withdrawn > 0);
	account_fini(&race.start);
	free(race.open);
	free(race.seen);
	cond_destroy(&race.changed);
	mutex_destroy(&race.mu);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_processes_never_leave_two_balancers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
