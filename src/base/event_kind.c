/* base/event_kind.c: see event_kind.h. */
#include "base/event_kind.h"

#include <stdlib.h>
#include <string.h>

/* The linker defines these symbols at both ends of the section; both are NULL in a program without
 * any EVENT_KIND(). */
extern const struct event_kind *__start_event_kinds[] __attribute__((weak));
extern const struct event_kind *__stop_event_kinds[] __attribute__((weak));

static int
compare(const void *a, const void *b)
{
	const struct event_kind *one = *(const struct event_kind *const *)a;
	const struct event_kind *other = *(const struct event_kind *const *)b;
	int order = strcmp(one->component, other->component);

	return order ? order : strcmp(one->reason, other->reason);
}

const struct event_kind *const *
event_kinds(size_t *ret_n)
{
	/* The subtraction uses integers, because in C these are two unrelated objects, not two ends
	 * of one array. */
	*ret_n = ((uintptr_t)__stop_event_kinds - (uintptr_t)__start_event_kinds) /
	         sizeof(__start_event_kinds[0]);
	if (*ret_n > 0)
		qsort(__start_event_kinds, *ret_n, sizeof(__start_event_kinds[0]), compare);
	return __start_event_kinds;
}
