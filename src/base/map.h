/* base/map.h: a table from text to pointer.
 *
 * Keys are views: they are NOT copied and must live as long as their entry; usually they point into
 * the value. Open addressing; iteration has no order and differs from process to process; shrinks
 * when nearly empty.
 * Threads: the owner's lock.
 *
 * Where all values are of one type and have their key as a member, MAP_OF() makes a table that
 * reads it there: 8 bytes an entry in place of 24, which counts where there are thousands.
 */
#ifndef CCMD_BASE_MAP_H
#define CCMD_BASE_MAP_H

#include <stddef.h>

#include "base/str.h"

struct map_entry {
	struct str key;
	void *value; /* NULL: free */
};

struct map {
	union {
		struct map_entry *entries; /* key_at 0 */
		void **values;
	};
	size_t cap; /* a power of two, or 0 */
	size_t count;
	size_t key_at; /* 1 + where a value has its key */
};

#define MAP_INIT ((struct map){ .cap = 0 })
/** member is a struct str of type; what is put has that as its key. */
#define MAP_OF(type, member) ((struct map){ .key_at = 1 + offsetof(type, member) })

/** A number as a key: its bytes, where they are. */
static inline struct str
map_key_i64(const int64_t *number)
{
	return str_n((const char *)number, sizeof(*number));
}

/** Frees the table, not the values: it is empty then, and may be used again. */
void map_fini(struct map *m);

/** The value, or NULL. */
void *map_get(const struct map *m, struct str key);
/** Inserts or replaces, key and value; returns the value that was there, or NULL. value is not
 * NULL. */
void *map_put(struct map *m, struct str key, void *value);
/** Returns the value that was there, or NULL. */
void *map_remove(struct map *m, struct str key);

/** Walks all entries in no order; *pos starts at 0. Nothing may be added meanwhile; removing the
 * entry just returned may make others be skipped or repeated: collect first. */
bool map_next(const struct map *m, size_t *pos, struct str *ret_key, void **ret_value);

#endif
