/* controllers/pace.c: see pace.h. */
#include "controllers/pace.h"

#include "base/backoff.h"
#include "base/limits.h"
#include "base/thread.h"

static const int64_t base_ns = 10 * NS_PER_SEC;
static const int64_t pause_max_ns = 300 * NS_PER_SEC;
static const int64_t quiet_ns = 600 * NS_PER_SEC;

int64_t
pace_take(struct pace *p, int64_t now_mono_ns)
{
	int64_t due_ns = now_mono_ns;

	if (p->n > 0 && now_mono_ns - p->last_mono_ns > quiet_ns)
		p->n = 0;
	if (p->n >= PACE_FREE)
		due_ns = p->last_mono_ns + backoff_ns(base_ns, p->n - PACE_FREE, pause_max_ns);
	if (due_ns > now_mono_ns)
		return due_ns - now_mono_ns;
	p->last_mono_ns = now_mono_ns;
	p->n++;
	return 0;
}

static bool
is_before(const void *entry, const void *mono_ns)
{
	return ((const struct paced *)entry)->pace.last_mono_ns < *(const int64_t *)mono_ns;
}

/* Finds the pace, or makes it. With the lock held. */
static struct pace *
pace_of(struct paces *ps, struct str uid, const char *reaction)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(KIB(1));
	int64_t now_ns = clock_mono(ps->clock), quiet_since_ns = now_ns - quiet_ns;
	struct paced *entry;
	bool is_new;

	buf_addf(&key, "%s/%" STR_FMT, reaction, STR_ARG(uid));
	is_new = !map_get(&ps->all, buf_str(&key));
	if (is_new && (ps->swept_mono_ns < quiet_since_ns || ps->all.count >= LIMIT_PACES)) {
		map_free_obsolete(&ps->all, is_before, &quiet_since_ns, free);
		ps->swept_mono_ns = now_ns;
	}
	if (is_new && ps->all.count >= LIMIT_PACES)
		map_free_all(&ps->all, free);
	entry = map_add(&ps->all, buf_str(&key), sizeof(*entry));
	return &entry->pace;
}

int64_t
paces_take(struct paces *ps, struct str uid, const char *reaction)
{
	WITH_LOCK(&ps->mu);

	return pace_take(pace_of(ps, uid, reaction), clock_mono(ps->clock));
}

int64_t
paces_reserve(struct paces *ps, struct str uid, const char *reaction)
{
	int64_t now_ns = clock_mono(ps->clock), wait_ns;
	struct pace *pace;
	WITH_LOCK(&ps->mu);

	pace = pace_of(ps, uid, reaction);
	if (pace->last_mono_ns > now_ns)
		return pace->last_mono_ns - now_ns;
	wait_ns = pace_take(pace, now_ns);
	if (wait_ns > 0)
		(void)pace_take(pace, now_ns + wait_ns);
	return wait_ns;
}

int64_t
paces_look(struct paces *ps, struct str uid, const char *reaction)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(KIB(1));
	const struct paced *entry;
	struct pace pace = { 0 };
	WITH_LOCK(&ps->mu);

	buf_addf(&key, "%s/%" STR_FMT, reaction, STR_ARG(uid));
	entry = map_get(&ps->all, buf_str(&key));
	if (entry)
		pace = entry->pace;
	return pace_take(&pace, clock_mono(ps->clock));
}

/* ---- failures ---- */

static const int64_t passing_max_ns = 60 * NS_PER_SEC;
static const int64_t outage_default_ns = 30 * NS_PER_SEC;

int64_t
failure_max_ns(enum err_code code)
{
	switch (code) {
	case ERR_INVALID:
	case ERR_UNSUPPORTED:
	case ERR_NOT_FOUND:
	case ERR_EXISTS:
	case ERR_CONFLICT:
	case ERR_FORBIDDEN:
		return FAILURE_MAX_NS;
	default:
		return passing_max_ns;
	}
}

int64_t
failure_outage_ns(const struct error *err)
{
	return err->retry_after_ms > 0 ? err->retry_after_ms * NS_PER_MS : outage_default_ns;
}

int64_t
failure_requeue(struct queue *queue, struct str key, const struct error *err, int64_t max_ns)
{
	int64_t delay_ns = err->retry_after_ms * NS_PER_MS;

	if (err->is_outage)
		queue_park(queue, key, failure_outage_ns(err));
	else if ((err->code == ERR_PENDING || err->code == ERR_THROTTLED) && delay_ns > 0)
		queue_add_after(queue, key, delay_ns);
	else
		delay_ns = queue_add_failed(queue, key, max_ns);
	return delay_ns;
}

/* ---- a loop's pause ---- */

void
failure_pause_init(struct failure_pause *p)
{
	mutex_init(&p->mu);
	cond_init(&p->changed);
}

void
failure_pause_fini(struct failure_pause *p)
{
	cond_destroy(&p->changed);
	mutex_destroy(&p->mu);
}

bool
failure_pause_sleep(struct failure_pause *p, struct call *call, unsigned n_seen,
                    int64_t duration_ns, struct error *err)
{
	int64_t deadline_ns = clock_deadline(clock_mono(call->clock), duration_ns);
	WITH_WAKE(call->cancel, &p->mu, &p->changed);
	WITH_LOCK(&p->mu);

	while (p->n_releases == n_seen && !cancel_is_fired(call->cancel) &&
	       clock_wait(call->clock, &p->changed, &p->mu, deadline_ns))
		continue;
	return !cancel_is_fired(call->cancel) || err_set(err, ERR_CANCELLED, "cancelled");
}

void
failure_pause_release(struct failure_pause *p)
{
	WITH_LOCK(&p->mu);

	p->n_releases++;
	cond_broadcast(&p->changed);
}
