/* kube/correlate.h: decides which events are written, and how, by the rules of client-go
 * (tools/record/events_cache.go) in the same order. Only for kube/recorder.c.
 *
 * Ten different messages for one reason within 600 s become one event; a repeated event raises the
 * count of the first; 25 events per object and one more per 5 min are written. Past events are kept
 * as small records in three caches, each bounded by LIMIT_EVENT_CACHE. A record is freed when it
 * has no effect any more: a group after its window, a bucket when it is full again, a count when
 * the API server has dropped the event as well. So a program without events holds none.
 *
 * The time is an argument, so this file needs no clock. Threads: one at a time.
 */
#ifndef CCMD_KUBE_CORRELATE_H
#define CCMD_KUBE_CORRELATE_H

#include <sys/queue.h>

#include "base/map.h"
#include "kube/recorder.h"

/** A queued event, in one allocation. */
struct event {
	STAILQ_ENTRY(event) next;
	const char *component, *reason; /* literals */
	enum event_type type;
	int64_t wall_ns; /* unique in this process, because it becomes part of the name */
	struct str api_version, kind, namespace, name, uid, message;
	char bytes[]; /* what the views above point to */
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
	struct map map;                       /* id -> record */
	TAILQ_HEAD(record_line, record) line; /* by use, the latest first */
	size_t record_size;
	int64_t keep_ns;
};

enum {
	CACHE_GROUPS,
	CACHE_SERIES,
	CACHE_BUCKETS,
	CACHES,
};

struct correlator {
	struct cache caches[CACHES];
};

void correlator_init(struct correlator *c);

/** Records the event and decides what to write. False if it must be dropped, although it counts.
 * *ret borrows from e and arena. */
NODISCARD bool correlator_take(struct correlator *c, const struct event *e, int64_t now_boot_ns,
                               struct arena *arena, struct sighting *ret);

/** Frees records that are too old; all of them at CLOCK_FOREVER. Returns when (boot) the next one
 * will be too old, or CLOCK_FOREVER. */
int64_t correlator_forget(struct correlator *c, int64_t now_boot_ns);

#endif
