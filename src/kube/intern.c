/* kube/intern.c: a map from each text to its copy, and one from each row of texts to its copy.
 *
 * Equal texts have equal pointers after intern(). So two rows of such texts are equal exactly if
 * the bytes of their structs, pointers and lengths, are equal, and these bytes are the key of the
 * second map.
 *
 * Nothing is ever freed, so a pointer that was handed out stays valid without a count of
 * references. LIMIT_INTERN and LIMIT_INTERN_BYTES bound the memory, whatever the objects contain.
 */
#include "kube/intern.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/thread.h"

enum {
	/* texts are packed into chunks, because an allocation for each text would take twice the
	 * memory */
	CHUNK_SIZE = 4096,
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct map texts;  /* mu; from a text to the first byte of its copy */
static struct map rows;   /* mu; from the bytes of a struct str[] to its copy */
static char *chunk;       /* mu; the free part of the newest chunk */
static size_t chunk_left; /* mu */

static char *
copy_to_chunk(struct str s)
{
	char *place;

	if (s.len > chunk_left) {
		chunk = xmalloc(CHUNK_SIZE);
		chunk_left = CHUNK_SIZE;
	}
	place = chunk;
	memcpy(place, s.ptr, s.len);
	chunk += s.len;
	chunk_left -= s.len;
	return place;
}

bool
intern(struct str *s)
{
	char *shared;

	WITH_LOCK(&mu);
	if (s->len == 0) {
		*s = STR_EMPTY;
		return true;
	}
	if (s->len > LIMIT_INTERN_BYTES)
		return false;
	shared = map_get(&texts, *s);
	if (!shared) {
		if (texts.count == LIMIT_INTERN)
			return false;
		shared = copy_to_chunk(*s);
		(void)map_put(&texts, str_n(shared, s->len), shared);
	}
	s->ptr = shared;
	return true;
}

const void *
intern_row(const struct str *row, size_t n)
{
	struct str key = str_n((const char *)row, n * sizeof(*row));
	struct str *shared;

	WITH_LOCK(&mu);
	shared = map_get(&rows, key);
	if (!shared && rows.count < LIMIT_INTERN) {
		shared = xcalloc(n, sizeof(*shared));
		memcpy(shared, row, key.len);
		(void)map_put(&rows, str_n((const char *)shared, key.len), shared);
	}
	return shared;
}

size_t
intern_count(void)
{
	WITH_LOCK(&mu);
	return texts.count;
}
