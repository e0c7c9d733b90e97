/* kube/correlate.c: see correlate.h.
 *
 * An event passes three steps, each with a cache of its own: aggregate() may combine it with
 * similar ones (struct group), correlator_take() counts repeats (struct series), and may_pass()
 * limits the rate of each object (struct bucket). Records are found by a 128-bit hash instead of
 * the text, so an event's text is in memory only while the event waits.
 */
#include "kube/correlate.h"

#include "base/limits.h"
#include "base/pool.h"

#define WINDOW_NS (600 * NS_PER_SEC)
#define REFILL_NS (300 * NS_PER_SEC) /* until an object may have one more event */
#define TTL_NS (3600 * NS_PER_SEC)   /* kube-apiserver's --event-ttl */

#define COMBINED "(combined from similar events): "

enum {
	COMBINE_AT = 10, /* distinct messages within the window */
	BURST = 25,
	MAX_KEY = 4 * 1024,
};

/* The common first part of the records below. */
struct record {
	TAILQ_ENTRY(record) link;
	uint64_t id[2];
	int64_t used_ns; /* boot */
};

struct group {
	struct record record;
	uint32_t messages[COMBINE_AT]; /* hashes, the oldest first */
	uint32_t n_messages;
};

struct series {
	struct record record;
	int64_t first_ns; /* wall_ns of the first event, a part of the event's name */
	int64_t count;
};

struct bucket {
	struct record record;
	double spent; /* tokens taken out of BURST */
};

_Static_assert(sizeof(struct group) + sizeof(struct series) + sizeof(struct bucket) <= 192,
               "there may be thousands");

/* Records are allocated between many objects with a shorter life. A pool of their own keeps them
 * from holding on to those objects' pages. */
static struct pool records = POOL_INIT;

/* ---- caches ---- */

static void
cache_drop_oldest(struct cache *c)
{
	struct record *record = TAILQ_LAST(&c->line, record_line);

	TAILQ_REMOVE(&c->line, record, link);
	(void)map_remove(&c->map, str_n((const char *)record->id, sizeof(record->id)));
	pool_free(&records, record);
	if (c->map.count == 0)
		map_fini(&c->map);
}

/* Frees the records that are too old. Returns when the next one is; CLOCK_FOREVER: none is left. */
static int64_t
cache_expire(struct cache *c, int64_t now_ns)
{
	const struct record *oldest;

	while ((oldest = TAILQ_LAST(&c->line, record_line)) &&
	       now_ns - oldest->used_ns > c->keep_ns)
		cache_drop_oldest(c);
	return oldest ? oldest->used_ns + c->keep_ns + 1 : CLOCK_FOREVER;
}

/* Returns the record with that key and makes it the newest. A new one is created with used_ns now;
 * of an old one used_ns is still the last use. The two halves of a record's id are hashes of the
 * key with and without its first byte. FNV is in a different state after that byte, so two keys
 * collide only if both halves do. */
static struct record *
cache_use(struct cache *c, const struct buf *key, int64_t now_ns)
{
	const uint64_t id[2] = { str_hash(buf_str(key)), str_hash(str_skip(buf_str(key), 1)) };
	struct record *record = map_get(&c->map, str_n((const char *)id, sizeof(id)));

	if (record) {
		TAILQ_REMOVE(&c->line, record, link);
		TAILQ_INSERT_HEAD(&c->line, record, link);
		return record;
	}
	if (c->map.count >= LIMIT_EVENT_CACHE)
		cache_drop_oldest(c);
	record = pool_alloc(&records, c->record_size);
	memset(record, 0, c->record_size);
	record->used_ns = now_ns;
	memcpy(record->id, id, sizeof(record->id));
	(void)map_put(&c->map, str_n((const char *)record->id, sizeof(record->id)), record);
	TAILQ_INSERT_HEAD(&c->line, record, link);
	return record;
}

/* ---- keys ---- */

static void
add_part(struct buf *key, struct str part)
{
	buf_add_str(key, part);
	buf_add_char(key, '\0');
}

/* Adds the source and object of an event. All keys have the same first byte, for cache_use(). */
static void
add_source(struct buf *key, const struct event *e)
{
	buf_add_char(key, 'k');
	add_part(key, str_c(e->component));
	add_part(key, e->kind);
	add_part(key, e->namespace);
	add_part(key, e->name);
	add_part(key, e->uid);
	add_part(key, e->api_version);
	buf_add_char(key, e->type == EVENT_WARNING ? 'W' : 'N');
}

/* ---- correlation ---- */

static bool
group_has(const struct group *group, uint32_t message)
{
	for (size_t i = 0; i < group->n_messages; i++) {
		if (group->messages[i] == message)
			return true;
	}
	return false;
}

/* True if one reason has so many different messages that this one goes into their common event. */
static bool
aggregate(struct correlator *c, const struct buf *key, struct str message, int64_t now_ns)
{
	struct group *group = (struct group *)cache_use(&c->caches[CACHE_GROUPS], key, now_ns);
	uint32_t hash = (uint32_t)str_hash(message);

	group->record.used_ns = now_ns;
	if (!group_has(group, hash))
		group->messages[group->n_messages++] = hash;
	if (group->n_messages < COMBINE_AT)
		return false;
	group->n_messages--;
	memmove(group->messages, group->messages + 1,
	        group->n_messages * sizeof(group->messages[0]));
	return true;
}

/* A token bucket for each object keeps it from flooding the API server with events. */
static bool
may_pass(struct correlator *c, const struct event *e, int64_t now_ns)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(MAX_KEY);
	struct bucket *bucket;

	add_source(&key, e);
	bucket = (struct bucket *)cache_use(&c->caches[CACHE_BUCKETS], &key, now_ns);
	bucket->spent -= (double)(now_ns - bucket->record.used_ns) / (double)REFILL_NS;
	bucket->record.used_ns = now_ns;
	if (bucket->spent < 0)
		bucket->spent = 0;
	if (bucket->spent > BURST - 1)
		return false;
	bucket->spent += 1;
	return true;
}

int64_t
correlator_forget(struct correlator *c, int64_t now_ns)
{
	int64_t next_ns = CLOCK_FOREVER;

	for (size_t i = 0; i < CACHES; i++)
		next_ns = clock_earlier(next_ns, cache_expire(&c->caches[i], now_ns));
	return next_ns;
}

bool
correlator_take(struct correlator *c, const struct event *e, int64_t now_ns, struct arena *arena,
                struct sighting *ret)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(MAX_KEY);
	struct series *series;

	(void)correlator_forget(c, now_ns);
	*ret = (struct sighting){ .event = e, .message = e->message };
	add_source(&key, e);
	add_part(&key, str_c(e->reason));
	if (aggregate(c, &key, e->message, now_ns)) {
		ret->is_combined = true;
		ret->message = str_utf8_head(arena_printf(arena, COMBINED "%" STR_FMT,
		                                          STR_ARG(e->message)),
		                             LIMIT_EVENT_MESSAGE);
	} else {
		add_part(&key, e->message);
	}

	/* The event counts as one of a series, whether or not it will be written. */
	series = (struct series *)cache_use(&c->caches[CACHE_SERIES], &key, now_ns);
	series->record.used_ns = now_ns;
	if (series->count++ == 0)
		series->first_ns = e->wall_ns;
	ret->first_ns = series->first_ns;
	ret->count = series->count;
	return may_pass(c, e, now_ns);
}

void
correlator_init(struct correlator *c)
{
	*c = (struct correlator){ {
		[CACHE_GROUPS] = { .record_size = sizeof(struct group), .keep_ns = WINDOW_NS },
		[CACHE_SERIES] = { .record_size = sizeof(struct series), .keep_ns = TTL_NS },
		[CACHE_BUCKETS] = { .record_size = sizeof(struct bucket),
		                    .keep_ns = BURST * REFILL_NS },
	} };
	for (size_t i = 0; i < CACHES; i++)
		TAILQ_INIT(&c->caches[i].line);
}
