/* controllers/parallel.c: threads that take the next piece of work until none is left; see
 * parallel.h. */
#include "controllers/parallel.h"

#include "base/arena.h"
#include "base/cancel.h"
#include "base/thread.h"

struct batch {
	const struct call *call;
	parallel_work_fn *work;
	void *arg;
	size_t n;
	_Atomic size_t next;
};

static void *
parallel_thread(void *arg)
{
	struct batch *batch = arg;
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = *batch->call;

	call.arena = &arena;
	for (size_t i; !cancel_is_fired(call.cancel) && (i = batch->next++) < batch->n;) {
		batch->work(batch->arg, &call, i);
		arena_reset(&arena);
	}
	return NULL;
}

void
parallel_do(const struct call *call, const char *name, size_t n, parallel_work_fn *work, void *arg)
{
	struct batch batch = { .call = call, .work = work, .arg = arg, .n = n };
	size_t n_threads = n < PARALLEL_THREADS ? n : PARALLEL_THREADS;
	pthread_t threads[PARALLEL_THREADS];

	for (size_t i = 0; i < n_threads; i++)
		thread_start(&threads[i], name, parallel_thread, &batch);
	for (size_t i = 0; i < n_threads; i++)
		thread_join(threads[i]);
}
