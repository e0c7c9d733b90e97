/* kube/intern.c: one map from text to itself. */
#include "kube/intern.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/thread.h"

enum {
	CHUNK_SIZE =
		4096, /* texts are packed into these; allocating each would double what they take */
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct map texts;  /* mu; from text to its first byte */
static char *chunk;       /* mu; what is left of the newest */
static size_t chunk_left; /* mu */

static char *
copy(struct str s)
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

	if (s->len == 0) {
		*s = STR_EMPTY;
		return true;
	}
	if (s->len > LIMIT_INTERN_BYTES)
		return false;
	WITH_LOCK(&mu);
	shared = map_get(&texts, *s);
	if (!shared) {
		if (texts.count == LIMIT_INTERN)
			return false;
		shared = copy(*s);
		(void)map_put(&texts, str_n(shared, s->len), shared);
	}
	s->ptr = shared;
	return true;
}

size_t
intern_count(void)
{
	WITH_LOCK(&mu);
	return texts.count;
}
