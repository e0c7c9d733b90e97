/* base/map.h: a table from text to pointer.
 *
 * Keys are views: they are NOT copied and must live as long as their entry; usually they point into the
 * value. Open addressing; no order; shrinks when nearly empty. Threads: the owner's lock.
 */
#ifndef CCMD_BASE_MAP_H
#define CCMD_BASE_MAP_H

#include "base/str.h"

struct map_entry {
	struct str key; /* key.ptr NULL: free */
	void *value;
};

struct map {
	struct map_entry *entries;
	size_t cap; /* a power of two, or 0 */
	size_t count;
};

#define MAP_INIT ((struct map){ 0 })

/** A number as a key: its bytes, where they are. */
static inline struct str
map_key_i64(const int64_t *number)
{
	return str_n((const char *)number, sizeof(*number));
}

/** Frees the table, not the values. */
void map_fini(struct map *m);

/** The value, or NULL. */
void *map_get(const struct map *m, struct str key);
/** Inserts or replaces, key and value; returns the value that was there, or NULL. value is not NULL. */
void *map_put(struct map *m, struct str key, void *value);
/** Returns the value that was there, or NULL. */
void *map_remove(struct map *m, struct str key);

/** Walks all entries in no order; *pos starts at 0. Nothing may be added meanwhile; removing the entry
 * just returned may make others be skipped or repeated: collect first. */
bool map_next(const struct map *m, size_t *pos, struct str *ret_key, void **ret_value);

#endif
