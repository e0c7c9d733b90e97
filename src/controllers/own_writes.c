/* controllers/own_writes.c: see own_writes.h. A node has an entry from our write until the watch
 * event that shows it. */
#include "controllers/own_writes.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/thread.h"

/* An event that has not arrived by then will not arrive: watches lag for seconds, not for a
 * minute. */
#define ECHO_MAX_NS (60 * NS_PER_SEC)

struct own_writes {
	struct clock *clock;
	pthread_mutex_t mu;
	struct map entries; /* mu; name -> struct entry */
};

struct entry {
	int64_t noted_ns;              /* mono */
	struct str name, uid, version; /* in text */
	char text[];
};

struct own_writes *
own_writes_new(struct clock *clock)
{
	struct own_writes *w = xcalloc(1, sizeof(*w));

	w->clock = clock;
	mutex_init(&w->mu);
	return w;
}

void
own_writes_free(struct own_writes *w)
{
	struct str name;
	void *entry;

	if (!w)
		return;
	for (size_t pos = 0; map_next(&w->entries, &pos, &name, &entry);)
		free(entry);
	map_fini(&w->entries);
	mutex_destroy(&w->mu);
	free(w);
}

static struct entry *
entry_new(const struct node *node, struct str version)
{
	struct entry *e = xmalloc(sizeof(*e) + node_name(node).len + node->object.uid.len +
	                          version.len);
	char *at = e->text;

	e->name = str_pack(&at, node_name(node));
	e->uid = str_pack(&at, node->object.uid);
	e->version = str_pack(&at, version);
	return e;
}

void
own_writes_note(struct own_writes *w, const struct node *node, struct str version)
{
	struct entry *e = entry_new(node, version);
	WITH_LOCK(&w->mu);

	e->noted_ns = clock_mono(w->clock);
	free(map_put(&w->entries, e->name, e));
}

bool
own_writes_are_ahead(struct own_writes *w, const struct node *node)
{
	WITH_LOCK(&w->mu);
	struct entry *e = map_get(&w->entries, node_name(node));

	if (!e)
		return false;
	if (str_eq(e->uid, node->object.uid) && clock_mono(w->clock) - e->noted_ns < ECHO_MAX_NS &&
	    object_version_is_older(node->object.resource_version, e->version))
		return true;
	map_remove(&w->entries, e->name);
	free(e);
	return false;
}

void
own_writes_forget(struct own_writes *w, struct str name)
{
	WITH_LOCK(&w->mu);

	free(map_remove(&w->entries, name));
}
