/* base/call.c: see call.h. */
#include "base/call.h"

#include "base/thread.h"

int64_t
call_deadline_real(const struct call *call, int64_t timeout_ns)
{
	int64_t left_ns = timeout_ns;

	if (call->deadline_mono_ns != CLOCK_FOREVER) {
		int64_t call_ns = call->deadline_mono_ns - clock_mono(call->clock);

		left_ns = call_ns < left_ns ? call_ns : left_ns;
	}
	return clock_deadline(clock_mono(&clock_real), left_ns);
}

void
call_note_change(const struct call *call, const char *what)
{
	if (!call->changes || str_contains(buf_str(call->changes), str_c(what)))
		return;
	buf_addf(call->changes, "%s%s", call->changes->len > 0 ? ", " : "", what);
}

/* ---- pieces of work ---- */

enum {
	MAX_THREADS = 8,
};

/* Threads that take the next piece of work until none is left. */
struct parallel {
	const struct call *call;
	parallel_fn *work;
	void *arg;
	size_t end;
	_Atomic size_t next;
};

static void *
parallel_thread(void *arg)
{
	struct parallel *batch = arg;
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = *batch->call;

	call.arena = &arena;
	for (size_t i; !cancel_is_fired(call.cancel) && (i = batch->next++) < batch->end;) {
		batch->work(batch->arg, &call, i);
		arena_reset(&arena);
	}
	return NULL;
}

void
parallel_run(const char *name, const struct call *call, size_t first, size_t end, parallel_fn *work,
             void *arg)
{
	struct parallel batch = {
		.call = call, .work = work, .arg = arg, .end = end, .next = first
	};
	size_t n_threads = end - first < MAX_THREADS ? end - first : MAX_THREADS;
	pthread_t threads[MAX_THREADS];

	for (size_t i = 0; i < n_threads; i++)
		thread_start(&threads[i], name, parallel_thread, &batch);
	for (size_t i = 0; i < n_threads; i++)
		thread_join(threads[i]);
}
