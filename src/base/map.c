/* base/map.c: see map.h.
 *
 * Linear probing, at most three quarters full. Removing moves the entries behind the gap back instead of
 * leaving a tombstone, so that a table with much coming and going stays as fast as a new one. It shrinks when it is nearly
 * empty: what waits in a queue while 5,000 nodes join would else cost 200 kB for ever.
 */
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"

enum {
	MAP_FIRST = 8,
	MAP_KEPT = 64, /* not worth shrinking */
};

void
map_fini(struct map *m)
{
	free(m->entries);
	*m = MAP_INIT;
}

static size_t
home(const struct map *m, struct str key)
{
	uint64_t hash = str_hash(key);

	return (size_t)(hash ^ (hash >> 32)) & (m->cap - 1);
}

static size_t
after(const struct map *m, size_t i)
{
	return (i + 1) & (m->cap - 1);
}

/* The entry with this key, or the free one where it belongs. There is always a free one. */
static size_t
find(const struct map *m, struct str key)
{
	size_t i = home(m, key);

	while (m->entries[i].key.ptr && !str_eq(m->entries[i].key, key))
		i = after(m, i);
	return i;
}

void *
map_get(const struct map *m, struct str key)
{
	return m->cap > 0 ? m->entries[find(m, key)].value : NULL;
}

static void
resize(struct map *m, size_t cap)
{
	struct map old = *m;

	m->cap = cap;
	m->entries = xcalloc(m->cap, sizeof(m->entries[0]));
	for (size_t i = 0; i < old.cap; i++) {
		if (old.entries[i].key.ptr)
			m->entries[find(m, old.entries[i].key)] = old.entries[i];
	}
	free(old.entries);
}

void *
map_put(struct map *m, struct str key, void *value)
{
	struct map_entry *entry;
	void *before;

	assert(value);
	if (!key.ptr)
		key = STR_EMPTY;
	if (m->count >= m->cap / 4 * 3)
		resize(m, m->cap ? m->cap * 2 : MAP_FIRST);
	entry = &m->entries[find(m, key)];
	before = entry->value;
	if (!before)
		m->count++;
	*entry = (struct map_entry){ key, value };
	return before;
}

/* May the entry at i fill the gap? Only if its home is not between the two, else it would not be found. */
static bool
fits_gap(const struct map *m, size_t gap, size_t i)
{
	size_t mask = m->cap - 1;

	return ((i - home(m, m->entries[i].key)) & mask) >= ((i - gap) & mask);
}

static void
close_gap(struct map *m, size_t gap)
{
	for (size_t i = after(m, gap); m->entries[i].key.ptr; i = after(m, i)) {
		if (fits_gap(m, gap, i)) {
			m->entries[gap] = m->entries[i];
			gap = i;
		}
	}
	m->entries[gap] = (struct map_entry){ 0 };
}

void *
map_remove(struct map *m, struct str key)
{
	void *value;
	size_t i;

	if (m->cap == 0)
		return NULL;
	i = find(m, key);
	value = m->entries[i].value;
	if (!value)
		return NULL;
	close_gap(m, i);
	m->count--;
	if (m->cap > MAP_KEPT && m->count < m->cap / 16)
		resize(m, m->cap / 4);
	return value;
}

bool
map_next(const struct map *m, size_t *pos, struct str *ret_key, void **ret_value)
{
	for (; *pos < m->cap; (*pos)++) {
		const struct map_entry *entry = &m->entries[*pos];

		if (entry->key.ptr) {
			*ret_key = entry->key;
			*ret_value = entry->value;
			(*pos)++;
			return true;
		}
	}
	return false;
}
