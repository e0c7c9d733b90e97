/* kube/correlate.h: which events are written, and how: client-go's rules, in its order. Only for
 * kube/recorder.c.
 *
 * Ten different messages for one reason within 600 s become one event; a repeat raises the count of
 * the first; of each object 25 events and one more per 5 min are let through. What is remembered of
 * the past are three caches of small records, each bounded by LIMIT_EVENT_CACHE. A record goes when
 * it no longer says anything (a group after its window, a filter when it is full again, a count
 * when the server has forgotten the event too), so that a quiet program holds none.
 *
 * Time is given, not read. Threads: one at a time.
 */
#ifndef CCMD_KUBE_CORRELATE_H
#define CCMD_KUBE_CORRELATE_H

#include "base/map.h"
#include "kube/recorder.h"

/** An event that waits; one allocation. */
struct event {
	struct event *next;
	const char *component, *reason; /* literals */
	enum event_type type;
	int64_t wall_ns; /* no other has the same: it becomes part of the name */
	struct str api_version, kind, namespace, name, uid, message;
	char bytes[]; /* of the above */
};

/** What to write for an event after correlation. */
struct sighting {
	const struct event *event;
	struct str message;
	int64_t first_ns;
	int64_t count;
	bool is_combined;
};

struct record;

struct cache {
	struct map map; /* id -> record */
	struct record *newest, *oldest;
	size_t record_size;
	int64_t keep_ns;
};

struct correlator {
	struct cache groups, series, buckets;
};

void correlator_init(struct correlator *c);
void correlator_fini(struct correlator *c);

/** Notes the event and tells what to write. False when it is to be dropped; it still counts then.
 * *ret borrows from e and arena. */
NODISCARD bool correlator_take(struct correlator *c, const struct event *e, int64_t now_boot_ns,
                               struct arena *arena, struct sighting *ret);

/** Forgets what is too old. Returns when (boot) there will be something to forget again, or
 * CLOCK_FOREVER. */
int64_t correlator_forget(struct correlator *c, int64_t now_boot_ns);

#endif
