/* kube/intern.c: a map from text to itself, and one from label to itself.
 *
 * Equal texts have equal pointers here, so the bytes of a struct label whose parts are shared tell it from all others: they
 * are its key in the second map.
 */
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
static struct map labels; /* mu; from struct label, as bytes, to itself */
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

static bool
intern_locked(struct str *s)
{
	char *shared;

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
		shared = copy(*s);
		(void)map_put(&texts, str_n(shared, s->len), shared);
	}
	s->ptr = shared;
	return true;
}

bool
intern(struct str *s)
{
	WITH_LOCK(&mu);
	return intern_locked(s);
}

static struct str
bytes_of(const struct label *label)
{
	return str_n((const char *)label, sizeof(*label));
}

const struct label *
intern_label(struct label label)
{
	struct label *shared;

	WITH_LOCK(&mu);
	if (!intern_locked(&label.key) || !intern_locked(&label.value))
		return NULL;
	shared = map_get(&labels, bytes_of(&label));
	if (!shared && labels.count < LIMIT_INTERN) {
		shared = xmalloc(sizeof(*shared));
		*shared = label;
		(void)map_put(&labels, bytes_of(shared), shared);
	}
	return shared;
}

size_t
intern_count(void)
{
	WITH_LOCK(&mu);
	return texts.count;
}
