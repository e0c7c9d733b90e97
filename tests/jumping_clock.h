/* jumping_clock.h: a clock on which every wait ends immediately, at its deadline, so that code that
 * pauses between attempts runs on the test's own thread. Code that waits for other threads needs
 * fake_clock.h.
 */
#ifndef CCMD_JUMPING_CLOCK_H
#define CCMD_JUMPING_CLOCK_H

#include "base/clock.h"

struct jumping_clock {
	struct clock clock;
	int64_t now_ns; /* of all three clocks */
};

static inline int64_t
jumping_now(struct clock *c)
{
	return CONTAINER_OF(c, struct jumping_clock, clock)->now_ns;
}

static inline bool
jumping_wait(struct clock *c, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns)
{
	(void)cond;
	(void)mutex;
	CONTAINER_OF(c, struct jumping_clock, clock)->now_ns = deadline_ns;
	return false;
}

#define JUMPING_CLOCK_INIT { { jumping_now, jumping_now, jumping_now, jumping_wait }, 0 }

#endif
