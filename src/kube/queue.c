/* kube/queue.c: one record per key, in up to three structures.
 *
 * client-go keeps a list and three sets; here a record has flags, and one map finds it. A record
 * exists while its key waits, is being worked on, is due later, or has failures that count for its
 * next delay.
 *
 * 	dirty && !processing   in the line, to be handed out
 * 	dirty && processing    added while being worked on: back to the line at queue_done()
 * 	heap_place > 0         due later; queue_add() does not change that
 * 	is_parked              due later, or at the next queue_release()
 *
 * Keys that are due later are in a binary heap. No thread waits for them as such: one of the
 * workers that sleep in queue_get(), the timer, sleeps until the heap's first key is due, and moves
 * the keys that are due to the line. The others sleep until they are woken. When the timer leaves
 * with a key, it wakes another sleeping worker, which becomes the timer; if none sleeps, the next
 * worker that comes back does. One mutex protects everything, because each operation is short.
 */
#include "kube/queue.h"

#include <assert.h>
#include <sys/queue.h>

#include "base/array.h"
#include "base/backoff.h"
#include "base/map.h"
#include "base/pool.h"
#include "base/watchdog.h"
#include "base/rand.h"
#include "base/thread.h"

struct item {
	STAILQ_ENTRY(item) link; /* in the line, or among those being worked on */
	int64_t due_ns;          /* mono; while in the heap */
	int64_t added_ns;        /* mono; while dirty */
	int64_t started_ns;      /* mono; while processing */
	size_t heap_place;       /* 0: not in the heap */
	unsigned n_failures;
	unsigned n_releases; /* of the queue, when this key was handed out */
	bool is_dirty;
	bool is_processing;
	bool is_parked; /* in the heap */
	size_t len;
	char key[];
};

/* The first list of a kind adds thousands of keys while long-lived objects are allocated. Keys with
 * a pool of their own leave no holes between these objects when they are freed. */
static struct pool items = POOL_INIT;

enum {
	BURST = 100, /* keys, after which a thread that becomes idle frees memory */
};

#define REST_NS (2 * NS_PER_SEC) /* without a key: the thread is idle */
/* Released keys are spread over this time, because all of them call the same API. */
#define RELEASE_SPREAD_NS (2 * NS_PER_SEC)

struct queue_metrics {
	struct metric *depth, *adds, *retries, *waited, *worked, *unfinished, *longest, *oldest;
};

struct queue {
	int64_t base_delay_ns, max_delay_ns;
	struct clock *clock;
	struct queue_metrics metrics;

	pthread_mutex_t mu;
	/* a key is in the line, the next due time is sooner, a timer is needed, or shut down */
	pthread_cond_t work;
	pthread_cond_t idle;            /* nothing is being worked on */
	struct map items;               /* mu */
	STAILQ_HEAD(, item) line;       /* mu */
	size_t n_line;                  /* mu */
	struct item **heap;             /* mu; from 1, soonest first */
	size_t n_heap, cap_heap;        /* mu; n_heap counts the unused place 0 */
	STAILQ_HEAD(, item) processing; /* mu; the one begun last first */
	size_t n_processing;            /* mu */
	unsigned n_releases;            /* mu */
	bool has_timer;                 /* mu; a worker sleeps until the heap's first key is due */
	bool is_shut_down;              /* mu */
};

/* ---- metrics ---- */

/* As in the Go framework, where they are products of floating-point numbers. */
static const double seconds[] = {
	1e-8, 1e-7, 1e-6, 9.999999999999999e-6, 9.999999999999999e-5, 1e-3, 1e-2, 1e-1, 1, 10
};

METRIC_FAMILY(depth, METRIC_GAUGE, "workqueue_depth", "[BETA] Keys that wait for a worker.",
              .labels = { "name" });
METRIC_FAMILY(adds, METRIC_COUNTER, "workqueue_adds_total",
              "[BETA] Keys that were added and were not in the queue already.",
              .labels = { "name" });
METRIC_FAMILY(retries, METRIC_COUNTER, "workqueue_retries_total",
              "[BETA] Keys that were added with a delay, after failures or for other reasons.",
              .labels = { "name" });
METRIC_FAMILY(waited, METRIC_HISTOGRAM, "workqueue_queue_duration_seconds",
              "[BETA] How long a key waited for a worker.", .labels = { "name" },
              METRIC_BUCKETS(seconds));
METRIC_FAMILY(worked, METRIC_HISTOGRAM, "workqueue_work_duration_seconds",
              "[BETA] How long a worker had a key.", .labels = { "name" }, METRIC_BUCKETS(seconds));
METRIC_FAMILY(unfinished, METRIC_GAUGE, "workqueue_unfinished_work_seconds",
              "[BETA] Sum of the times that workers have had their present keys.",
              .labels = { "name" });
METRIC_FAMILY(longest, METRIC_GAUGE, "workqueue_longest_running_processor_seconds",
              "[BETA] The longest time that a worker has had its present key.",
              .labels = { "name" });
METRIC_FAMILY(oldest, METRIC_GAUGE, "ccmd_workqueue_oldest_due_seconds",
              "[ALPHA] How long the key that is next in the queue has waited.",
              .labels = { "name" });

/* ---- records; all under mu ---- */

static struct item *
item_of(struct queue *q, struct str key)
{
	struct item *item = map_get(&q->items, key);

	if (item)
		return item;
	item = pool_alloc(&items, sizeof(*item) + key.len);
	*item = (struct item){ .len = key.len };
	if (key.len > 0)
		memcpy(item->key, key.ptr, key.len);
	(void)map_put(&q->items, str_n(item->key, item->len), item);
	return item;
}

/* Frees the record if it has no state any more. */
static void
item_drop_idle(struct queue *q, struct item *item)
{
	if (item->is_dirty || item->is_processing || item->heap_place > 0 || item->n_failures > 0)
		return;
	(void)map_remove(&q->items, str_n(item->key, item->len));
	pool_free(&items, item);
}

/* ---- the line ---- */

/* Adds the key for now. While it is being worked on, the mark is enough: queue_done() sees it.
 * Wakes no worker. */
static void
mark_dirty(struct queue *q, struct item *item)
{
	if (item->is_dirty)
		return;
	item->is_dirty = true;
	item->added_ns = clock_mono(q->clock);
	metric_inc(q->metrics.adds);
	if (!item->is_processing) {
		STAILQ_INSERT_TAIL(&q->line, item, link);
		q->n_line++;
	}
}

/* ---- the heap ---- */

static void
heap_set(struct queue *q, size_t place, struct item *item)
{
	q->heap[place] = item;
	item->heap_place = place;
}

static void
heap_pop(struct queue *q)
{
	struct item *top = q->heap[1], *last = q->heap[--q->n_heap];
	size_t place = 1;

	top->heap_place = 0;
	top->is_parked = false;
	if (last == top)
		return;
	/* The last one takes the place of the first, and moves down. */
	for (size_t child; (child = place * 2) < q->n_heap; place = child) {
		if (child + 1 < q->n_heap && q->heap[child + 1]->due_ns < q->heap[child]->due_ns)
			child++;
		if (q->heap[child]->due_ns >= last->due_ns)
			break;
		heap_set(q, place, q->heap[child]);
	}
	heap_set(q, place, last);
}

/* Puts the item into the heap, or moves it up; it is never moved to a later time. */
static void
heap_put(struct queue *q, struct item *item, int64_t due_ns)
{
	size_t place = item->heap_place;

	if (place > 0 && item->due_ns <= due_ns)
		return;
	item->due_ns = due_ns;
	if (place == 0) {
		place = q->n_heap;
		ARRAY_PUSH(q->heap, q->n_heap, q->cap_heap, item);
	}
	for (; place > 1 && q->heap[place / 2]->due_ns > due_ns; place /= 2)
		heap_set(q, place, q->heap[place / 2]);
	heap_set(q, place, item);
	if (place > 1)
		return;
	/* The timer sleeps too long, and only a broadcast is sure to reach it. */
	if (q->has_timer)
		cond_broadcast(&q->work);
	else
		cond_signal(&q->work);
}

/* Moves the keys whose time has come from the heap to the line. The caller takes the first key of
 * the line. If no other worker was woken for it before, one worker less is needed. */
static void
move_due(struct queue *q, int64_t now_ns)
{
	size_t n_woken_for = q->n_line > 0 ? q->n_line : 1;

	while (q->n_heap > 1 && q->heap[1]->due_ns <= now_ns) {
		struct item *top = q->heap[1];

		heap_pop(q);
		mark_dirty(q, top);
	}
	for (; n_woken_for < q->n_line; n_woken_for++)
		cond_signal(&q->work);
}

/* ---- metrics that are computed at a scrape ---- */

/* The list of keys being worked on begins with the latest, so the last one is the oldest. */
static void
update_metrics(void *queue)
{
	struct queue *q = queue;
	const struct item *item;
	double sum = 0, first = 0;
	WITH_LOCK(&q->mu);

	STAILQ_FOREACH(item, &q->processing, link) {
		first = clock_seconds(clock_mono(q->clock) - item->started_ns);
		sum += first;
	}
	metric_set(q->metrics.depth, (double)q->n_line);
	metric_set(q->metrics.unfinished, sum);
	metric_set(q->metrics.longest, first);
	item = STAILQ_FIRST(&q->line);
	metric_set(q->metrics.oldest,
	           item ? clock_seconds(clock_mono(q->clock) - item->added_ns) : 0);
}

/* ---- life cycle ---- */

struct queue *
queue_new(const struct queue_config *config)
{
	struct queue *q = xcalloc(1, sizeof(*q));

	*q = (struct queue){
		.base_delay_ns = config->base_delay_ns,
		.max_delay_ns = config->max_delay_ns,
		.clock = config->clock,
		.metrics = {
			.depth = metric_of(&depth, config->name),
			.adds = metric_of(&adds, config->name),
			.retries = metric_of(&retries, config->name),
			.waited = metric_of(&waited, config->name),
			.worked = metric_of(&worked, config->name),
			.unfinished = metric_of(&unfinished, config->name),
			.longest = metric_of(&longest, config->name),
			.oldest = metric_of(&oldest, config->name),
		},
	};
	STAILQ_INIT(&q->line);
	STAILQ_INIT(&q->processing);
	ARRAY_PUSH(q->heap, q->n_heap, q->cap_heap, NULL); /* parents of place n are at n / 2 */
	mutex_init(&q->mu);
	cond_init(&q->work);
	cond_init(&q->idle);
	metrics_on_scrape(update_metrics, q);
	return q;
}

void
queue_free(struct queue *q)
{
	struct str key;
	void *item;

	if (!q)
		return;
	assert(q->n_processing == 0);
	metrics_off_scrape(update_metrics, q);
	for (size_t pos = 0; map_next(&q->items, &pos, &key, &item);)
		pool_free(&items, item);
	map_fini(&q->items);
	free(q->heap);
	cond_destroy(&q->work);
	cond_destroy(&q->idle);
	mutex_destroy(&q->mu);
	free(q);
}

/* ---- adding ---- */

static void
add_item(struct queue *q, struct item *item, int64_t delay_ns)
{
	size_t n_before = q->n_line;

	if (delay_ns > 0) {
		heap_put(q, item, clock_deadline(clock_mono(q->clock), delay_ns));
		return;
	}
	mark_dirty(q, item);
	if (q->n_line > n_before)
		cond_signal(&q->work);
}

void
queue_add(struct queue *q, struct str key)
{
	WITH_LOCK(&q->mu);
	if (!q->is_shut_down)
		add_item(q, item_of(q, key), /*delay_ns=*/0);
}

void
queue_add_after(struct queue *q, struct str key, int64_t delay_ns)
{
	WITH_LOCK(&q->mu);
	if (q->is_shut_down)
		return;
	metric_inc(q->metrics.retries);
	add_item(q, item_of(q, key), delay_ns);
}

int64_t
queue_add_failed(struct queue *q, struct str key, int64_t max_delay_ns)
{
	int64_t max_ns = max_delay_ns > 0 && max_delay_ns < q->max_delay_ns ? max_delay_ns
	                                                                    : q->max_delay_ns;
	struct item *item;
	int64_t delay_ns;

	WITH_LOCK(&q->mu);
	if (q->is_shut_down)
		return 0;
	item = item_of(q, key);
	delay_ns = backoff_spread_ns(q->base_delay_ns, item->n_failures, max_ns);
	item->n_failures++;
	metric_inc(q->metrics.retries);
	add_item(q, item, delay_ns);
	return delay_ns;
}

/* If the queue was released while the key was worked on, the key is due soon: the request that
 * failed may have been sent before the release. */
void
queue_park(struct queue *q, struct str key, int64_t delay_ns)
{
	struct item *item;

	WITH_LOCK(&q->mu);
	if (q->is_shut_down)
		return;
	item = item_of(q, key);
	if (item->is_processing && item->n_releases != q->n_releases)
		delay_ns = rand_between(1, RELEASE_SPREAD_NS);
	metric_inc(q->metrics.retries);
	add_item(q, item, delay_ns);
	if (item->heap_place > 0)
		item->is_parked = true;
}

/* Walks the heap from the top: an item that becomes due sooner moves up, and only items that this
 * loop has handled already move down. */
void
queue_release(struct queue *q)
{
	int64_t now_ns = clock_mono(q->clock);

	WITH_LOCK(&q->mu);
	q->n_releases++;
	for (size_t place = 1; place < q->n_heap; place++) {
		struct item *item = q->heap[place];

		if (!item->is_parked)
			continue;
		item->is_parked = false;
		heap_put(q, item, now_ns + rand_between(0, RELEASE_SPREAD_NS));
	}
}

void
queue_forget(struct queue *q, struct str key)
{
	struct item *item;

	WITH_LOCK(&q->mu);
	item = map_get(&q->items, key);
	if (!item)
		return;
	item->n_failures = 0;
	item_drop_idle(q, item);
}

struct queue_peek
queue_peek(struct queue *q, struct str key)
{
	int64_t now_ns = clock_mono(q->clock);
	struct queue_peek peek = { .state = QUEUE_IDLE };
	const struct item *item, *other;

	WITH_LOCK(&q->mu);
	item = map_get(&q->items, key);
	if (!item)
		return peek;
	peek.n_failures = item->n_failures;
	if (item->is_processing) {
		peek.state = QUEUE_WORKING;
		peek.for_ns = now_ns - item->started_ns;
	} else if (item->is_dirty) {
		peek.state = QUEUE_WAITING;
		peek.for_ns = now_ns - item->added_ns;
		STAILQ_FOREACH(other, &q->line, link) {
			if (other == item)
				break;
			peek.n_before++;
		}
	} else if (item->heap_place > 0) {
		peek.state = QUEUE_DELAYED;
		peek.is_parked = item->is_parked;
		peek.due_in_ns = item->due_ns > now_ns ? item->due_ns - now_ns : 0;
	}
	return peek;
}

/* ---- handing out ---- */

/* Gives the first key of the line to the calling worker, which has to return it before the watchdog
 * considers its thread stuck. */
static struct str
take_first(struct queue *q, int64_t now_ns)
{
	struct item *item = STAILQ_FIRST(&q->line);

	STAILQ_REMOVE_HEAD(&q->line, link);
	q->n_line--;
	item->is_dirty = false;
	item->is_processing = true;
	item->n_releases = q->n_releases;
	item->started_ns = now_ns;
	STAILQ_INSERT_HEAD(&q->processing, item, link);
	q->n_processing++;
	watchdog_promise(clock_deadline(now_ns, WATCHDOG_WORK_NS));
	metric_observe(q->metrics.waited, clock_seconds(now_ns - item->added_ns));
	return str_n(item->key, item->len);
}

static bool
needs_timer(const struct queue *q)
{
	return q->n_heap > 1 && !q->has_timer;
}

/* Called by a worker that does not sleep again, so that another one becomes the timer. */
static void
wake_timer(struct queue *q)
{
	if (needs_timer(q))
		cond_signal(&q->work);
}

/* The timer sleeps until the heap's first key is due, the others until woken. */
static void
sleep_until(struct queue *q, int64_t deadline_ns)
{
	bool is_timer = needs_timer(q);

	if (is_timer) {
		q->has_timer = true;
		deadline_ns = clock_earlier(deadline_ns, q->heap[1]->due_ns);
	}
	watchdog_promise(CLOCK_FOREVER); /* a sleeping worker is not stuck */
	(void)clock_wait(q->clock, &q->work, &q->mu, deadline_ns);
	if (is_timer)
		q->has_timer = false;
}

bool
queue_get(struct queue *q, int64_t deadline_ns, struct str *ret, struct error *err)
{
	WITH_LOCK(&q->mu);
	for (;;) {
		int64_t now_ns = clock_mono(q->clock);

		if (q->is_shut_down)
			return err_set(err, ERR_CANCELLED, "the queue was shut down");
		move_due(q, now_ns);
		if (!STAILQ_EMPTY(&q->line)) {
			wake_timer(q);
			*ret = take_first(q, now_ns);
			return true;
		}
		if (now_ns >= deadline_ns) {
			wake_timer(q);
			return err_set(err, ERR_TIMEOUT, "no key in time");
		}
		sleep_until(q, deadline_ns);
	}
}

bool
queue_get_trimming(struct queue *q, unsigned *n_busy, struct str *ret)
{
	struct error err;
	int64_t deadline_ns = *n_busy < BURST ? QUEUE_FOREVER
	                                      : clock_deadline(clock_mono(q->clock), REST_NS);

	(*n_busy)++;
	if (queue_get(q, deadline_ns, ret, &err))
		return true;
	if (err.code != ERR_TIMEOUT)
		return false;
	thread_trim(); /* not after each key: this takes longer than the work on a key */
	*n_busy = 1;
	return queue_get(q, QUEUE_FOREVER, ret, &err);
}

void
queue_done(struct queue *q, struct str key)
{
	struct item *item;

	WITH_LOCK(&q->mu);
	item = map_get(&q->items, key);
	assert(item && item->is_processing);
	metric_observe(q->metrics.worked, clock_seconds(clock_mono(q->clock) - item->started_ns));
	/* the list has one element for each busy worker */
	STAILQ_REMOVE(&q->processing, item, item, link);
	item->is_processing = false;
	if (--q->n_processing == 0)
		cond_broadcast(&q->idle);
	if (item->is_dirty) {
		STAILQ_INSERT_TAIL(&q->line, item, link);
		q->n_line++;
		cond_signal(&q->work);
	} else {
		item_drop_idle(q, item);
	}
}

/* ---- the end ---- */

void
queue_shut_down(struct queue *q)
{
	WITH_LOCK(&q->mu);
	q->is_shut_down = true;
	cond_broadcast(&q->work);
}

static bool
is_idle(const struct queue *q)
{
	return q->n_processing == 0 && (q->n_line == 0 || q->is_shut_down);
}

bool
queue_wait_idle(struct queue *q, int64_t deadline_ns)
{
	WITH_LOCK(&q->mu);
	while (!is_idle(q)) {
		if (!clock_wait(q->clock, &q->idle, &q->mu, deadline_ns))
			return is_idle(q);
	}
	return true;
}
