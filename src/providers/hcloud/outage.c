/* outage.c: see outage.h. */
#include "providers/hcloud/outage.h"

#include "base/clock.h"

#define PATIENCE_NS (60 * NS_PER_SEC)
#define REPEAT_NS (1800 * NS_PER_SEC)

static bool
is_due(const struct hz_outage *o, int64_t now_ns)
{
	if (o->last == HZ_ANSWERED)
		return false;
	if (o->is_told)
		return now_ns - o->told_ns >= REPEAT_NS;
	return o->last == HZ_REFUSED || now_ns - o->since_ns >= PATIENCE_NS;
}

bool
hz_outage_note(struct hz_outage *o, enum hz_reception reception, int64_t now_ns)
{
	bool was_told = o->is_told;

	if (reception != o->last)
		*o = (struct hz_outage){ .last = reception, .since_ns = now_ns };
	if (reception == HZ_ANSWERED)
		return was_told;
	if (!is_due(o, now_ns))
		return false;
	o->is_told = true;
	o->told_ns = now_ns;
	return true;
}
