/* base/single_flight.c: see single_flight.h. */
#include "base/single_flight.h"

#include <assert.h>

#include "base/thread.h"

void
single_flight_init(struct single_flight *f)
{
	mutex_init(&f->mu);
	cond_init(&f->changed);
	f->n_begun = f->n_ended = 0;
}

void
single_flight_fini(struct single_flight *f)
{
	cond_destroy(&f->changed);
	mutex_destroy(&f->mu);
}

uint64_t
single_flight_running(const struct single_flight *f)
{
	return f->n_begun > f->n_ended ? f->n_begun : 0;
}

uint64_t
single_flight_next(const struct single_flight *f)
{
	return f->n_begun + 1;
}

bool
single_flight_wait(struct single_flight *f, const struct call *call, uint64_t run, const char *what,
                   bool *ret_is_turn, struct error *err)
{
	bool has_time = true;

	assert(run <= single_flight_next(f) && (ret_is_turn || run <= f->n_begun));
	while (f->n_ended < run) {
		if (cancel_is_fired(call->cancel))
			return err_set(err, ERR_CANCELLED, "cancelled while waiting for %s", what);
		if (!has_time)
			return err_set(err, ERR_TIMEOUT, "timed out waiting for %s", what);
		if (run > f->n_begun && !single_flight_running(f)) {
			*ret_is_turn = true;
			return true;
		}
		has_time = clock_wait(call->clock, &f->changed, &f->mu, call->deadline_mono_ns);
	}
	if (ret_is_turn)
		*ret_is_turn = false;
	return true;
}

void
single_flight_begin(struct single_flight *f)
{
	assert(!single_flight_running(f));
	f->n_begun++;
}

void
single_flight_end(struct single_flight *f)
{
	assert(single_flight_running(f));
	f->n_ended = f->n_begun;
	cond_broadcast(&f->changed);
}

void
single_flight_wake(void *flight)
{
	struct single_flight *f = flight;
	WITH_LOCK(&f->mu);

	cond_broadcast(&f->changed);
}
