/* tests/simulation/schedule.c: fibers, the agenda and the trace; see schedule.h.
 *
 * A fiber is entered by setcontext() the first time, and later by longjmp(), which makes no system
 * call. _FORTIFY_SOURCE must be off for this file, because it takes a jump to another stack for an
 * error. */
#undef _FORTIFY_SOURCE
#include "schedule.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "replica.h"

#define STACK_SIZE ((size_t)256 << 10)
#define GUARD_SIZE ((size_t)4096)
#define STEP_NS INT64_C(2000) /* what a turn of a fiber takes */

enum {
	N_KEYS = 8,
	TLS_MAX = 64,
	MAX_TURNS = 1000000, /* without a moment at which all wait */
};

enum state {
	RUNNABLE,
	WAITING,
	ENDED,
};

struct fiber {
	struct replica *replica;
	enum state state;
	const void *channel; /* WAITING: on what */
	int64_t until_ns;    /* WAITING */
	int64_t held_ns;     /* it does not run before */
	bool is_woken;       /* false: the time was reached */
	bool is_due;         /* woken by the world while its replica was paused */
	int n_locks;
	char *stack;
	bool has_begun;
	ucontext_t context; /* until it has begun */
	jmp_buf jump;
	void *(*run)(void *);
	void *arg;
	int saved_errno;
	char tls[TLS_MAX];
	void *specific[N_KEYS];
	char name[16];
};

struct entry {
	int64_t at_ns;
	uint64_t number;
	void (*fn)(void *);
	void *arg;
};

static struct {
	int64_t now_ns;
	struct rng order;
	unsigned yields;
	struct fiber **fibers; /* that have not ended */
	size_t n_fibers, cap_fibers;
	size_t n_runnable; /* also those that are held */
	int64_t next_ns;   /* next_deadline() is not before it */
	struct fiber *self;
	jmp_buf jump;
	struct entry *agenda; /* a heap */
	size_t n_agenda, cap_agenda;
	uint64_t n_entries;
	char **stacks; /* unused */
	size_t n_stacks, cap_stacks;
	uint64_t hash;
	enum trace_level level;
	char failure[2000];
} sim;

/* ---- random numbers ---- */

/* splitmix64 */
uint64_t
rng_next(struct rng *r)
{
	uint64_t z = (r->state += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

uint64_t
rng_below(struct rng *r, uint64_t n)
{
	return n > 1 ? rng_next(r) % n : 0;
}

int64_t
rng_between(struct rng *r, int64_t lo, int64_t hi)
{
	return lo + (int64_t)rng_below(r, (uint64_t)(hi - lo) + 1);
}

bool
rng_chance(struct rng *r, unsigned per_mille)
{
	return rng_below(r, 1000) < per_mille;
}

uint64_t
hash_bytes(uint64_t hash, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3; /* FNV-1a */
	return hash;
}

struct rng
rng_of(uint64_t seed, const char *purpose, uint64_t number)
{
	struct rng r = { hash_bytes(seed ^ 0xcbf29ce484222325, purpose, strlen(purpose)) };

	r.state ^= rng_next(&(struct rng){ number });
	return r;
}

/* ---- the trace ---- */

static int __attribute__((format(printf, 3, 0)))
print_line(char *text, size_t size, const char *format, va_list args)
{
	int64_t ms = sim.now_ns / NS_PER_MS;
	int n = snprintf(text, size, "%3d:%02d:%02d.%03d ", (int)(ms / 3600000),
	                 (int)(ms / 60000 % 60), (int)(ms / 1000 % 60), (int)(ms % 1000));

	return vsnprintf(text + n, size - (size_t)n, format, args);
}

void
trace(const char *format, ...)
{
	char text[1000];
	va_list args;

	va_start(args, format);
	(void)print_line(text, sizeof(text), format, args);
	va_end(args);
	sim.hash = hash_bytes(sim.hash, text, strlen(text));
	if (sim.level >= TRACE_HISTORY)
		puts(text);
}

void
trace_detail(const char *format, ...)
{
	char text[1000];
	va_list args;

	sim.hash = hash_bytes(sim.hash, (const char *)&sim.now_ns, sizeof(sim.now_ns));
	if (sim.level < TRACE_ALL)
		return;
	va_start(args, format);
	(void)print_line(text, sizeof(text), format, args);
	va_end(args);
	puts(text);
}

uint64_t
trace_hash(void)
{
	return sim.hash;
}

void
trace_print(enum trace_level level)
{
	sim.level = level;
}

void
fail(const char *format, ...)
{
	char text[sizeof(sim.failure)];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	trace("FAILED  %s", text);
	if (!sim.failure[0])
		memcpy(sim.failure, text, sizeof(text));
}

const char *
failure(void)
{
	return sim.failure[0] ? sim.failure : NULL;
}

/* ---- the agenda ---- */

void
schedule_start(uint64_t seed)
{
	sim.order = rng_of(seed, "order", 0);
	sim.hash = 0xcbf29ce484222325;
}

void
schedule_set_yields(unsigned per_mille)
{
	sim.yields = per_mille;
}

int64_t
schedule_now_ns(void)
{
	return sim.now_ns;
}

static bool
is_earlier(const struct entry *a, const struct entry *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

void
schedule_at(int64_t at_ns, void (*fn)(void *), void *arg)
{
	struct entry entry = { at_ns > sim.now_ns ? at_ns : sim.now_ns, sim.n_entries++, fn, arg };
	size_t i;

	ARRAY_PUSH(sim.agenda, sim.n_agenda, sim.cap_agenda, entry);
	for (i = sim.n_agenda - 1; i > 0 && is_earlier(&entry, &sim.agenda[(i - 1) / 2]);
	     i = (i - 1) / 2)
		sim.agenda[i] = sim.agenda[(i - 1) / 2];
	sim.agenda[i] = entry;
}

static struct entry
take_entry(void)
{
	struct entry first = sim.agenda[0], last = sim.agenda[--sim.n_agenda];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < sim.n_agenda) {
		if (child + 1 < sim.n_agenda &&
		    is_earlier(&sim.agenda[child + 1], &sim.agenda[child]))
			child++;
		if (!is_earlier(&sim.agenda[child], &last))
			break;
		sim.agenda[i] = sim.agenda[child];
		i = child;
	}
	sim.agenda[i] = last;
	return first;
}

/* ---- fibers ---- */

static char *
take_stack(void)
{
	char *stack;

	if (sim.n_stacks > 0)
		return sim.stacks[--sim.n_stacks];
	stack = mmap(NULL, GUARD_SIZE + STACK_SIZE, PROT_READ | PROT_WRITE,
	             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (stack == MAP_FAILED || mprotect(stack, GUARD_SIZE, PROT_NONE) != 0)
		alloc_fail(1, STACK_SIZE);
	return stack;
}

/* Leaves the fiber. It goes on from here when it is chosen again. */
static void
leave(struct fiber *f)
{
	f->saved_errno = errno;
	if (!_setjmp(f->jump))
		_longjmp(sim.jump, 1);
	errno = f->saved_errno;
}

static void
set_state(struct fiber *f, enum state state)
{
	sim.n_runnable -= f->state == RUNNABLE;
	sim.n_runnable += state == RUNNABLE;
	f->state = state;
}

static void
begin(void)
{
	struct fiber *f = sim.self;

	f->run(f->arg);
	for (unsigned i = 0; i < N_KEYS; i++)
		replica_destroy_specific(i, f->specific[i]);
	set_state(f, ENDED);
	fiber_wake(f, true);
	_longjmp(sim.jump, 1);
}

struct fiber *
fiber_new(struct replica *r, void *(*run)(void *), void *arg)
{
	struct fiber *f = xcalloc(1, sizeof(*f));

	f->replica = r;
	f->run = run;
	f->arg = arg;
	f->stack = take_stack();
	(void)getcontext(&f->context);
	f->context.uc_stack.ss_sp = f->stack + GUARD_SIZE;
	f->context.uc_stack.ss_size = STACK_SIZE;
	makecontext(&f->context, begin, 0);
	ARRAY_PUSH(sim.fibers, sim.n_fibers, sim.cap_fibers, f);
	sim.n_runnable++;
	return f;
}

struct fiber *
fiber_self(void)
{
	return sim.self;
}

struct replica *
fiber_replica(const struct fiber *f)
{
	return f->replica;
}

const char *
fiber_name(const struct fiber *f)
{
	return f->name;
}

void
fiber_set_name(struct fiber *f, const char *name)
{
	memcpy(f->name, name, strnlen(name, sizeof(f->name) - 1));
}

bool
fiber_has_ended(const struct fiber *f)
{
	return f->state == ENDED;
}

void **
fiber_specific(struct fiber *f, unsigned key)
{
	return &f->specific[key % N_KEYS];
}

void
fiber_count_lock(struct fiber *f, int change)
{
	f->n_locks += change;
}

bool
fiber_holds_lock(const struct replica *r)
{
	for (size_t i = 0; i < sim.n_fibers; i++) {
		if (sim.fibers[i]->replica == r && sim.fibers[i]->n_locks > 0)
			return true;
	}
	return false;
}

void
fiber_yield(void)
{
	if (sim.self)
		leave(sim.self);
}

void
fiber_may_yield(void)
{
	if (sim.self && sim.yields > 0 && rng_chance(&sim.order, sim.yields))
		leave(sim.self);
}

bool
fiber_wait(const void *channel, int64_t until_ns)
{
	struct fiber *f = sim.self;

	set_state(f, WAITING);
	f->channel = channel;
	f->until_ns = until_ns;
	if (until_ns < sim.next_ns)
		sim.next_ns = until_ns;
	leave(f);
	return f->is_woken;
}

static void
wake(struct fiber *f, bool is_woken)
{
	if (!sim.self && replica_is_paused(f->replica)) {
		f->is_due |= is_woken;
		return;
	}
	set_state(f, RUNNABLE);
	f->is_woken = is_woken;
	f->is_due = false;
}

void
fiber_wake(const void *channel, bool all)
{
	size_t n = 0, chosen = 0;

	for (size_t i = 0; i < sim.n_fibers; i++) {
		if (sim.fibers[i]->state == WAITING && sim.fibers[i]->channel == channel)
			n++;
	}
	if (n > 1 && !all)
		chosen = rng_below(&sim.order, n);
	for (size_t i = 0; i < sim.n_fibers && n > 0; i++) {
		struct fiber *f = sim.fibers[i];

		if (f->state != WAITING || f->channel != channel)
			continue;
		if (all || chosen-- == 0)
			wake(f, true);
		n--;
	}
}

void
fiber_resume(struct replica *r)
{
	sim.next_ns = 0;
	for (size_t i = 0; i < sim.n_fibers; i++) {
		struct fiber *f = sim.fibers[i];

		if (f->replica == r && f->state == WAITING && f->is_due)
			wake(f, true);
	}
}

void
fiber_postpone(const struct replica *r, int64_t by_ns)
{
	for (size_t i = 0; i < sim.n_fibers; i++) {
		struct fiber *f = sim.fibers[i];

		if (f->replica == r && f->state == WAITING && f->until_ns != CLOCK_FOREVER &&
		    strcmp(f->name, "main") != 0)
			f->until_ns += by_ns;
	}
}

void
fiber_hold(struct replica *r, const char *name, int64_t until_ns)
{
	sim.next_ns = 0;
	r->held_until_ns = until_ns;
	for (size_t i = 0; i < sim.n_fibers; i++) {
		if (sim.fibers[i]->replica == r && strcmp(sim.fibers[i]->name, name) == 0)
			sim.fibers[i]->held_ns = until_ns;
	}
}

static void
forget_fiber(size_t i)
{
	struct fiber *f = sim.fibers[i];

	ARRAY_PUSH(sim.stacks, sim.n_stacks, sim.cap_stacks, f->stack);
	sim.fibers[i] = sim.fibers[--sim.n_fibers];
	f->stack = NULL; /* the struct stays: pthread_join() may ask for it */
}

void
fiber_drop(struct replica *r)
{
	struct fiber *self = sim.self;

	for (size_t i = sim.n_fibers; i-- > 0;) {
		if (sim.fibers[i]->replica != r || sim.fibers[i] == self)
			continue;
		set_state(sim.fibers[i], ENDED);
		forget_fiber(i);
	}
	if (!self || self->replica != r)
		return;
	set_state(self, ENDED);
	_longjmp(sim.jump, 1);
}

/* ---- running ---- */

static void
enter(struct fiber *f)
{
	size_t tls_size;
	char *tls = replica_tls(f->replica, &tls_size);
	struct fiber *left;

	sim.self = f;
	memcpy(tls, f->tls, tls_size);
	if (!_setjmp(sim.jump)) {
		if (f->has_begun)
			_longjmp(f->jump, 1);
		f->has_begun = true;
		setcontext(&f->context);
	}
	left = sim.self;
	sim.self = NULL;
	memcpy(left->tls, tls, tls_size);
	sim.now_ns += STEP_NS;
	left->replica->n_steps++;
	for (size_t i = 0; left->state == ENDED && i < sim.n_fibers; i++) {
		if (sim.fibers[i] == left)
			forget_fiber(i);
	}
}

/* A runnable fiber, chosen by the seed; NULL: all wait. */
static struct fiber *
choose(void)
{
	struct fiber *chosen = NULL;
	size_t n_left = sim.n_runnable;
	uint64_t n = 0;

	for (size_t i = 0; n_left > 0; i++) {
		if (sim.fibers[i]->state != RUNNABLE)
			continue;
		n_left--;
		if (sim.fibers[i]->held_ns > sim.now_ns)
			continue;
		if (++n == 1 || rng_below(&sim.order, n) == 0)
			chosen = sim.fibers[i];
	}
	return chosen;
}

/* The earliest time at which a fiber is woken by time, or is no longer held. */
static int64_t
next_deadline(void)
{
	int64_t next_ns = CLOCK_FOREVER;

	for (size_t i = 0; i < sim.n_fibers; i++) {
		const struct fiber *f = sim.fibers[i];
		int64_t at_ns = f->state == WAITING ? f->until_ns : f->held_ns;

		if (f->state == WAITING && replica_is_paused(f->replica))
			continue;
		if (at_ns < f->held_ns)
			at_ns = f->held_ns;
		if (at_ns > sim.now_ns || f->state == WAITING)
			next_ns = at_ns < next_ns ? at_ns : next_ns;
	}
	return next_ns;
}

static void
wake_late(void)
{
	for (size_t i = 0; i < sim.n_fibers; i++) {
		struct fiber *f = sim.fibers[i];

		if (f->state == WAITING && f->until_ns <= sim.now_ns)
			wake(f, false);
	}
}

void
schedule_run_until(int64_t until_ns)
{
	unsigned n_turns = 0;

	while (!failure() && sim.now_ns <= until_ns) {
		int64_t agenda_ns = sim.n_agenda > 0 ? sim.agenda[0].at_ns : CLOCK_FOREVER;
		struct fiber *f;

		if (agenda_ns <= sim.now_ns) {
			struct entry entry = take_entry();

			entry.fn(entry.arg);
			continue;
		}
		if (sim.next_ns <= sim.now_ns) {
			wake_late();
			sim.next_ns = next_deadline();
		}
		f = choose();
		if (f) {
			enter(f);
			if (++n_turns > MAX_TURNS)
				fail("a thread does not wait: %s", f->name);
			continue;
		}
		n_turns = 0;
		if (agenda_ns > sim.next_ns)
			agenda_ns = sim.next_ns;
		sim.now_ns = agenda_ns < until_ns ? agenda_ns : until_ns + 1;
	}
}
