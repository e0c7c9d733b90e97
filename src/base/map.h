/* base/map.h: a hash table from text to pointer.
 *
 * Keys are views: they are NOT copied and must live as long as their entry; usually they point into
 * the value. Iteration has no defined order, and the order differs between processes. The table
 * shrinks when it is nearly empty.
 *
 * Where all values have one type with the key as a member, MAP_OF() creates a table that reads the
 * key from the value: an entry takes 8 bytes instead of 24, which matters for tables with thousands
 * of entries.
 *
 * Threads: a map has no lock; the owner's lock protects it.
 */
#ifndef CCMD_BASE_MAP_H
#define CCMD_BASE_MAP_H

#include <stddef.h>

#include "base/str.h"

struct map_entry {
	struct str key;
	void *value; /* NULL: the slot is free */
};

struct map {
	union {
		struct map_entry *entries; /* when key_at is 0 */
		void **values;
	};
	size_t cap; /* a power of two, or 0 */
	size_t count;
	size_t key_at; /* 1 + the offset of the key in a value */
};

#define MAP_INIT ((struct map){ .cap = 0 })
/** A map whose values are of this type; member is the struct str with the key. */
#define MAP_OF(type, member) ((struct map){ .key_at = 1 + offsetof(type, member) })

/** Returns a number as a key: a view of its bytes in place. */
static inline struct str
map_key_i64(const int64_t *number)
{
	return str_n((const char *)number, sizeof(*number));
}

/** Frees the table, but not the values. The map is empty afterwards and may be used again. */
void map_fini(struct map *m);

/** The same, and frees each value by that function: free(), for example. */
void map_free_all(struct map *m, void (*free_value)(void *value));
/** Removes the entries that are obsolete, and frees their values by that function. */
void map_free_obsolete(struct map *m, bool (*is_obsolete)(const void *value, const void *arg),
                       const void *arg, void (*free_value)(void *value));

/** Returns the value, or NULL when the key is absent. */
void *map_get(const struct map *m, struct str key);
/** Inserts or replaces key and value; returns the previous value, or NULL. value is not NULL. */
void *map_put(struct map *m, struct str key, void *value);
/** Returns the value with that key. If there is none, adds one of that size, zeroed, which has a
 * copy of the key behind it. For a MAP_OF(); free() frees the value. */
void *map_add(struct map *m, struct str key, size_t size);
/** Removes the entry; returns its value, or NULL. */
void *map_remove(struct map *m, struct str key);

/** Iterates over all entries in no defined order; *pos starts at 0. The caller must not add entries
 * meanwhile. Removing the entry that was just returned may skip or repeat others: collect the
 * entries first. */
bool map_next(const struct map *m, size_t *pos, struct str *ret_key, void **ret_value);

#endif
