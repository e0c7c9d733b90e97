/* controllers/settling.c: see settling.h. */
#include "controllers/settling.h"

#include "base/alloc.h"
#include "base/thread.h"

static const struct {
	enum settling_part part;
	const char *what;
} names[] = {
	{ SETTLING_ADDRESSES, "compare the addresses of all nodes" },
	{ SETTLING_LIFECYCLE, "check the nodes that are not Ready" },
	{ SETTLING_ADOPTION, "adopt existing load balancers" },
	{ SETTLING_ROUTES, "compare the routes" },
};

struct settling {
	struct clock *clock;
	pthread_mutex_t mu;
	pthread_cond_t changed;
	unsigned parts; /* mu; whose first run has ended */
};

struct settling *
settling_new(struct clock *clock)
{
	struct settling *s = xcalloc(1, sizeof(*s));

	s->clock = clock;
	mutex_init(&s->mu);
	cond_init(&s->changed);
	return s;
}

void
settling_free(struct settling *s)
{
	if (!s)
		return;
	cond_destroy(&s->changed);
	mutex_destroy(&s->mu);
	free(s);
}

void
settling_note(struct settling *s, enum settling_part part)
{
	if (!s)
		return;
	mutex_lock(&s->mu);
	s->parts |= part;
	cond_broadcast(&s->changed);
	mutex_unlock(&s->mu);
}

/* Returns the first of the parts that is not in done. */
static const char *
first_missing(unsigned parts, unsigned done)
{
	size_t i = 0;

	while (!(names[i].part & parts & ~done))
		i++;
	return names[i].what;
}

bool
settling_wait(struct settling *s, unsigned parts, int64_t deadline_ns, struct error *err)
{
	WITH_LOCK(&s->mu);

	while ((s->parts & parts) != parts) {
		if (!clock_wait(s->clock, &s->changed, &s->mu, deadline_ns) &&
		    (s->parts & parts) != parts)
			return err_set(err, ERR_TIMEOUT, "%s: not done in time",
			               first_missing(parts, s->parts));
	}
	return true;
}
