/* controllers/failure.c: pauses between attempts; see failure.h. */
#include "controllers/failure.h"

#include "base/thread.h"

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

/* ---- a loop's pause ---- */

void
failure_pause_init(struct failure_pause *p)
{
	p->n_releases = 0;
	mutex_init(&p->mu);
	cond_init(&p->changed);
}

void
failure_pause_fini(struct failure_pause *p)
{
	cond_destroy(&p->changed);
	mutex_destroy(&p->mu);
}

unsigned
failure_pause_count(struct failure_pause *p)
{
	WITH_LOCK(&p->mu);

	return p->n_releases;
}

static void
failure_pause_wake(void *pause)
{
	struct failure_pause *p = pause;
	WITH_LOCK(&p->mu);

	cond_broadcast(&p->changed);
}

bool
failure_pause_sleep(struct failure_pause *p, struct call *call, unsigned n_seen,
                    int64_t duration_ns, struct error *err)
{
	int64_t deadline_ns = clock_deadline(clock_mono(call->clock), duration_ns);
	WITH_HOOK(call->cancel, failure_pause_wake, p);
	WITH_LOCK(&p->mu);

	while (p->n_releases == n_seen && !cancel_is_fired(call->cancel)) {
		if (!clock_wait(call->clock, &p->changed, &p->mu, deadline_ns))
			break;
	}
	return !cancel_is_fired(call->cancel) || err_set(err, ERR_CANCELLED, "cancelled");
}

void
failure_pause_release(struct failure_pause *p)
{
	WITH_LOCK(&p->mu);

	p->n_releases++;
	cond_broadcast(&p->changed);
}
