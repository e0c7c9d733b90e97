/* base/fence.c: see fence.h. */
#include "base/fence.h"

void
fence_renew(struct fence *f, int64_t deadline_boot_ns)
{
	atomic_store(&f->deadline_boot_ns, deadline_boot_ns);
}

int64_t
fence_remaining_ns(struct fence *f, struct clock *clock)
{
	int64_t deadline = f ? atomic_load(&f->deadline_boot_ns) : CLOCK_FOREVER;
	int64_t now;

	if (deadline == CLOCK_FOREVER)
		return CLOCK_FOREVER;
	now = clock_boot(clock);
	return deadline > now ? deadline - now : 0;
}

bool
fence_check(struct fence *f, struct clock *clock, struct error *err)
{
	if (fence_remaining_ns(f, clock) == 0)
		return err_set(err, ERR_CANCELLED, "not the leader any more");
	return true;
}
