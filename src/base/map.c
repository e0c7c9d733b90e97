/* base/map.c: see map.h.
 *
 * Open addressing with linear probing, at most three quarters full. A removal moves the entries
 * after the gap back instead of leaving a tombstone, so that a table with many insertions and
 * removals stays as fast as a new one. The table shrinks when it is nearly empty: otherwise the
 * queue that held 5,000 joining nodes would keep 200 kB as long as the process runs.
 */
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rand.h"
#include "base/thread.h"

enum {
	MAP_FIRST = 8,
	MAP_KEPT = 64, /* tables of this capacity or less do not shrink */
};

/* ---- one entry ---- */

static void *
value_at(const struct map *m, size_t i)
{
	return m->key_at > 0 ? m->values[i] : m->entries[i].value;
}

static struct str
key_in(const struct map *m, const void *value)
{
	return *(const struct str *)((const char *)value + m->key_at - 1);
}

static struct str
key_at(const struct map *m, size_t i)
{
	return m->key_at > 0 ? key_in(m, m->values[i]) : m->entries[i].key;
}

static void
set(struct map *m, size_t i, struct str key, void *value)
{
	if (m->key_at > 0)
		m->values[i] = value;
	else
		m->entries[i] = (struct map_entry){ key, value };
}

/* ---- finding an entry ---- */

/* Users choose many of the keys (names of objects, annotations). With a fixed hash function an
 * attacker can prepare names that all collide, so that each look-up walks through all of them.
 * SipHash-1-3 (Aumasson and Bernstein) with a random key per process prevents that. These hashes
 * differ in each process; str_hash() gives one that may be stored or compared. */
static uint64_t seed[2];

static void
make_seed(void)
{
	seed[0] = rand_u64();
	seed[1] = rand_u64();
}

static uint64_t
rotate(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static void
mix(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32) + v[3];
	v[2] += v[1];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] = rotate(v[2], 32);
}

static void
absorb(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	mix(v);
	v[0] ^= word;
}

static uint64_t
hash_of(struct str key)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint64_t v[4], word, last = (uint64_t)key.len << 56;

	MUST(pthread_once(&once, make_seed));
	v[0] = seed[0] ^ UINT64_C(0x736f6d6570736575);
	v[1] = seed[1] ^ UINT64_C(0x646f72616e646f6d);
	v[2] = seed[0] ^ UINT64_C(0x6c7967656e657261);
	v[3] = seed[1] ^ UINT64_C(0x7465646279746573);
	for (; key.len >= sizeof(word); key = str_skip(key, sizeof(word))) {
		memcpy(&word, key.ptr, sizeof(word));
		absorb(v, word);
	}
	for (size_t i = 0; i < key.len; i++)
		last |= (uint64_t)(unsigned char)key.ptr[i] << (8 * i);
	absorb(v, last);
	v[2] ^= 0xff;
	for (int i = 0; i < 3; i++)
		mix(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static size_t
home(const struct map *m, struct str key)
{
	return (size_t)hash_of(key) & (m->cap - 1);
}

static size_t
after(const struct map *m, size_t i)
{
	return (i + 1) & (m->cap - 1);
}

/* Returns the position of the entry with this key, or of the free slot for it. A free slot always
 * exists, because the table is never full. */
static size_t
find(const struct map *m, struct str key)
{
	size_t i = home(m, key);

	while (value_at(m, i) && !str_eq(key_at(m, i), key))
		i = after(m, i);
	return i;
}

void *
map_get(const struct map *m, struct str key)
{
	return m->cap > 0 ? value_at(m, find(m, key)) : NULL;
}

bool
map_next(const struct map *m, size_t *pos, struct str *ret_key, void **ret_value)
{
	while (*pos < m->cap) {
		size_t i = (*pos)++;

		*ret_value = value_at(m, i);
		if (*ret_value) {
			*ret_key = key_at(m, i);
			return true;
		}
	}
	return false;
}

/* ---- adding and removing ---- */

void
map_fini(struct map *m)
{
	free(m->entries);
	*m = (struct map){ .key_at = m->key_at };
}

void
map_free_all(struct map *m, void (*free_value)(void *value))
{
	for (size_t i = 0; i < m->cap; i++) {
		if (value_at(m, i))
			free_value(value_at(m, i));
	}
	map_fini(m);
}

static void
resize(struct map *m, size_t cap)
{
	struct map old = *m;

	m->entries = xcalloc(cap, m->key_at > 0 ? sizeof(m->values[0]) : sizeof(m->entries[0]));
	m->cap = cap;
	for (size_t i = 0; i < old.cap; i++) {
		if (value_at(&old, i)) {
			struct str key = key_at(&old, i);

			set(m, find(m, key), key, value_at(&old, i));
		}
	}
	free(old.entries);
}

void *
map_put(struct map *m, struct str key, void *value)
{
	void *before;
	size_t i;

	assert(value);
	assert(m->key_at == 0 || str_eq(key, key_in(m, value)));
	if (m->count >= m->cap / 4 * 3)
		resize(m, m->cap ? m->cap * 2 : MAP_FIRST);
	i = find(m, key);
	before = value_at(m, i);
	if (!before)
		m->count++;
	set(m, i, key, value);
	return before;
}

void *
map_add(struct map *m, struct str key, size_t size)
{
	char *value = map_get(m, key);

	assert(m->key_at > 0);
	if (value)
		return value;
	value = xcalloc(1, size + key.len);
	key = str_n(memcpy(value + size, key.ptr, key.len), key.len);
	memcpy(value + m->key_at - 1, &key, sizeof(key));
	map_put(m, key, value);
	return value;
}

/* Moves entries back to where look-ups find them. An entry may fill the gap if its home position
 * does not lie between the two. */
static void
close_gap(struct map *m, size_t gap)
{
	size_t mask = m->cap - 1;

	for (size_t i = after(m, gap); value_at(m, i); i = after(m, i)) {
		if (((i - home(m, key_at(m, i))) & mask) >= ((i - gap) & mask)) {
			set(m, gap, key_at(m, i), value_at(m, i));
			gap = i;
		}
	}
	set(m, gap, STR_EMPTY, NULL);
	m->count--;
}

void *
map_remove(struct map *m, struct str key)
{
	void *value;
	size_t i;

	if (m->cap == 0)
		return NULL;
	i = find(m, key);
	value = value_at(m, i);
	if (!value)
		return NULL;
	close_gap(m, i);
	if (m->cap > MAP_KEPT && m->count < m->cap / 16)
		resize(m, m->cap / 4);
	return value;
}

/* An entry that fills the gap comes from a later slot, or from one at the begin of the table that
 * was visited already, so none is skipped. */
void
map_free_obsolete(struct map *m, bool (*is_obsolete)(const void *value, const void *arg),
                  const void *arg, void (*free_value)(void *value))
{
	for (size_t i = 0; i < m->cap; i++) {
		void *value;

		while ((value = value_at(m, i)) && is_obsolete(value, arg)) {
			close_gap(m, i);
			free_value(value);
		}
	}
	while (m->cap > MAP_KEPT && m->count < m->cap / 16)
		resize(m, m->cap / 4);
}
