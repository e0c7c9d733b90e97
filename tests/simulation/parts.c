/* tests/simulation/parts.c: what takes the place of files of src/ in the object of a replica.
 *
 * http/events.c, loop.c and stopper.c wait for descriptors; here they wait for the simulation.
 * serving.c and confine.c are left out: nobody calls the replica's server, and the sandbox would
 * confine the simulation. */
#include "parts.h"

#include <assert.h>
#include <signal.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/health.h"
#include "base/log.h"
#include "confine.h"
#include "http/internal.h"
#include "loop.h"
#include "serving.h"
#include "signals.h"
#include "stopper.h"

enum {
	MAX_TIMERS = 4,
	LONGEST_STOP_MS = 2000,
};

static _Thread_local volatile int touched;

void
replica_touch_tls(void)
{
	touched = 0;
}

/* ---- http/events.c ---- */

void
events_start(struct curl_client *c)
{
	c->timer_ns = CLOCK_FOREVER;
}

void
events_stop(struct curl_client *c)
{
	(void)c;
}

void
events_wake(struct curl_client *c)
{
	world_curl_wake(c->multi);
}

/* Called by the loop after requests were added. */
void
events_run_timer(struct curl_client *c)
{
	world_curl_perform(c->multi);
}

void
events_wait(struct curl_client *c, int timeout_ms)
{
	world_curl_wait(c->multi, timeout_ms);
	world_curl_perform(c->multi);
}

/* ---- loop.c ---- */

struct timer {
	void (*fn)(void *arg);
	void *arg;
	int64_t period_ns, next_ns;
};

struct loop {
	struct loop_handlers handlers;
	bool is_woken, has_ended;
	int64_t expiry_boot_ns;
	struct timer timers[MAX_TIMERS];
	unsigned n_timers;
};

struct loop *
loop_new(const struct loop_handlers *handlers)
{
	struct loop *loop = xcalloc(1, sizeof(*loop));

	loop->handlers = *handlers;
	loop->expiry_boot_ns = CLOCK_FOREVER;
	return loop;
}

void
loop_free(struct loop *loop)
{
	free(loop);
}

struct event_base *
loop_base(struct loop *loop)
{
	(void)loop;
	return NULL;
}

void
loop_every(struct loop *loop, int64_t period_ns, void (*fn)(void *arg), void *arg)
{
	assert(loop->n_timers < MAX_TIMERS);
	loop->timers[loop->n_timers++] = (struct timer){ fn, arg, period_ns,
		                                         clock_mono(&clock_real) + period_ns };
}

void
loop_wake(struct loop *loop)
{
	loop->is_woken = true;
	world_wake(loop);
}

void
loop_set_expiry(struct loop *loop, int64_t deadline_boot_ns)
{
	loop->expiry_boot_ns = deadline_boot_ns;
	world_wake(loop);
}

static void
loop_run_timers(struct loop *loop)
{
	for (unsigned i = 0; i < loop->n_timers; i++) {
		struct timer *timer = &loop->timers[i];

		if (timer->next_ns > clock_mono(&clock_real))
			continue;
		timer->next_ns += timer->period_ns;
		timer->fn(timer->arg);
	}
}

static int64_t
loop_next_ns(const struct loop *loop)
{
	int64_t next_ns = world_mono_of_boot(loop->expiry_boot_ns);

	for (unsigned i = 0; i < loop->n_timers; i++) {
		if (loop->timers[i].next_ns < next_ns)
			next_ns = loop->timers[i].next_ns;
	}
	return next_ns;
}

void
loop_run(struct loop *loop)
{
	while (!loop->has_ended) {
		int signal = world_take_signal(loop);

		if (signal) {
			loop->handlers.signalled(loop->handlers.arg, signal);
		} else if (loop->is_woken) {
			loop->is_woken = false;
			loop->handlers.woken(loop->handlers.arg);
		} else if (loop->expiry_boot_ns <= clock_boot(&clock_real)) {
			loop->expiry_boot_ns = CLOCK_FOREVER;
			loop->handlers.expired(loop->handlers.arg);
		} else {
			world_wait(loop, loop_next_ns(loop));
			loop_run_timers(loop);
		}
	}
}

void
loop_end(struct loop *loop)
{
	loop->has_ended = true;
	world_wake(loop);
}

/* ---- stopper.c ---- */

struct stopper {
	struct cancel *cancel;
	bool is_stopped, has_ended;
	pthread_t thread;
};

static void *
stopper_thread(void *arg)
{
	struct stopper *s = arg;
	int64_t until_ns;
	int signal = 0;

	while (!s->has_ended && !(signal = world_take_signal(s)))
		world_wait(s, CLOCK_FOREVER);
	if (s->has_ended)
		return NULL;
	log_info("stopping", LOG_CSTR("signal", signals_name(signal)));
	s->is_stopped = true;
	cancel_fire(s->cancel);
	until_ns = clock_mono(&clock_real) + LONGEST_STOP_MS * NS_PER_MS;
	while (!s->has_ended && clock_mono(&clock_real) < until_ns)
		world_wait(s, until_ns);
	if (!s->has_ended)
		_exit(0);
	return NULL;
}

struct stopper *
stopper_new(struct cancel *cancel)
{
	struct stopper *s = xcalloc(1, sizeof(*s));

	s->cancel = cancel;
	thread_start(&s->thread, "stopper", stopper_thread, s);
	return s;
}

bool
stopper_free(struct stopper *s)
{
	bool is_stopped;

	if (!s)
		return false;
	s->has_ended = true;
	world_wake(s);
	thread_join(s->thread);
	is_stopped = s->is_stopped;
	free(s);
	return is_stopped;
}

/* ---- serving.c ---- */

void
review_connections_load(struct review_connections *ret, const struct options *o,
                        struct kube_connection *main_connection)
{
	(void)o;
	(void)main_connection;
	*ret = (struct review_connections){ 0 };
}

void
review_connections_fini(struct review_connections *reviews)
{
	(void)reviews;
}

bool
serving_start(const struct serving_config *config, struct serving **ret, struct error *err)
{
	(void)config;
	(void)err;
	*ret = NULL;
	return true;
}

void
serving_reload(void *serving)
{
	(void)serving;
}

void
serving_stop(struct serving *s)
{
	(void)s;
}

/* ---- confine.c ---- */

void
confine_secrets(const struct options *o)
{
	(void)o;
}

void
confine(const struct options *o, const struct kube_connection *connection,
        const struct review_connections *reviews, const struct cloud_needs *cloud)
{
	(void)o;
	(void)connection;
	(void)reviews;
	(void)cloud;
}
