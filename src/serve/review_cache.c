/* serve/review_cache.c: see review_cache.h. A table, and a list through its entries in order of use. */
#include "serve/review_cache.h"

#include "base/alloc.h"
#include "base/limits.h"

struct review_entry {
	struct digest key;
	struct review_answer *answer;
	int64_t until_ns;  /* boot: stale from then on */
	int64_t forget_ns; /* boot: not used from then on */
	size_t bytes;
	struct review_entry *newer, *older;
};

static void
link_first(struct review_cache *c, struct review_entry *e)
{
	e->newer = NULL;
	e->older = c->first;
	*(c->first ? &c->first->newer : &c->last) = e;
	c->first = e;
}

static void
unlink_entry(struct review_cache *c, struct review_entry *e)
{
	*(e->newer ? &e->newer->older : &c->first) = e->older;
	*(e->older ? &e->older->newer : &c->last) = e->newer;
}

static void
drop(struct review_cache *c, struct review_entry *e)
{
	(void)map_remove(&c->entries, digest_str(&e->key));
	unlink_entry(c, e);
	c->bytes -= e->bytes;
	review_answer_unref(e->answer);
	free(e);
}

void
review_cache_fini(struct review_cache *c)
{
	while (c->last)
		drop(c, c->last);
	map_fini(&c->entries);
}

struct review_answer *
review_cache_get(struct review_cache *c, const struct digest *key, int64_t now_ns,
                 bool *ret_is_stale)
{
	struct review_entry *e = map_get(&c->entries, digest_str(key));

	if (!e)
		return NULL;
	if (now_ns >= e->forget_ns) {
		drop(c, e);
		return NULL;
	}
	unlink_entry(c, e);
	link_first(c, e);
	*ret_is_stale = now_ns >= e->until_ns;
	return review_answer_ref(e->answer);
}

static size_t
size_of(const struct review_answer *answer)
{
	return sizeof(struct review_entry) + sizeof(*answer) +
	       (answer->user ? answer->user->size : 0);
}

/* What is out of date at the far end goes too, so that a burst is forgotten. */
static void
make_room(struct review_cache *c, int64_t now_ns)
{
	while (c->last && (c->entries.count > LIMIT_ACCESS_CACHE ||
	                   c->bytes > LIMIT_ACCESS_CACHE_BYTES || c->last->forget_ns <= now_ns))
		drop(c, c->last);
}

void
review_cache_put(struct review_cache *c, const struct digest *key, struct review_answer *answer,
                 int64_t now_ns, int64_t until_ns)
{
	struct review_entry *e = map_get(&c->entries, digest_str(key));

	if (e)
		drop(c, e);
	if (until_ns <= now_ns)
		return;
	e = xcalloc(1, sizeof(*e));
	e->key = *key;
	e->answer = review_answer_ref(answer);
	e->until_ns = until_ns;
	e->forget_ns = answer->verdict == REVIEW_YES ? clock_deadline(until_ns, until_ns - now_ns)
	                                             : until_ns;
	e->bytes = size_of(answer);
	c->bytes += e->bytes;
	(void)map_put(&c->entries, digest_str(&e->key), e);
	link_first(c, e);
	make_room(c, now_ns);
}
