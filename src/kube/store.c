/* kube/store.c: two maps under one lock.
 *
 * The second map leads from an index key to the first of the objects that have it; they are chained
 * through object->index_next. Its keys are views into that first object, so they change with it.
 * Each list has a number, its epoch, and marks every object that it contains with it. At the end of
 * the list, objects with another epoch do not exist any more and are removed.
 *
 * Only the reflector's thread changes the maps. So it may look at an object after it has released
 * the lock, for as long as it does not change the store itself. Handlers are called without the
 * lock, because they take locks of their own (queues) and may read the store.
 */
#include "kube/store.h"

#include "base/array.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/map.h"
#include "base/thread.h"

struct store {
	const struct kind *kind;
	struct clock *clock;
	struct store_handler *handlers; /* before the reflector starts, then constant */
	size_t n_handlers, cap_handlers;
	uint32_t epoch;       /* the reflector's */
	bool is_newest_list;  /* the reflector's: see store_begin_list() */
	int64_t list_boot_ns; /* the reflector's: when the present list began */

	pthread_mutex_t mu;
	pthread_cond_t synced;
	struct map objects; /* mu; owns a reference to each */
	struct map index;   /* mu */
	bool has_synced;    /* mu */
};

struct store *
store_new(const struct kind *kind, struct clock *clock)
{
	struct store *s = xcalloc(1, sizeof(*s));

	*s = (struct store){ .kind = kind,
		             .clock = clock,
		             .objects = MAP_OF(struct object, key),
		             .index = MAP_OF(struct object, index_key) };
	mutex_init(&s->mu);
	cond_init(&s->synced);
	return s;
}

void
store_free(struct store *s)
{
	struct str key;
	void *object;

	if (!s)
		return;
	for (size_t pos = 0; map_next(&s->objects, &pos, &key, &object);)
		object_unref(object);
	map_fini(&s->objects);
	map_fini(&s->index);
	free(s->handlers);
	cond_destroy(&s->synced);
	mutex_destroy(&s->mu);
	free(s);
}

const struct kind *
store_kind(const struct store *s)
{
	return s->kind;
}

void
store_add_handler(struct store *s, struct store_handler handler)
{
	ARRAY_PUSH(s->handlers, s->n_handlers, s->cap_handlers, handler);
}

/* ---- reading ---- */

struct object *
store_get(struct store *s, struct str key)
{
	struct object *o;

	WITH_LOCK(&s->mu);
	o = map_get(&s->objects, key);
	return o ? object_ref(o) : NULL;
}

size_t
store_find(struct store *s, struct str index_key, struct object **ret, size_t max)
{
	size_t n = 0;

	WITH_LOCK(&s->mu);
	for (struct object *o = map_get(&s->index, index_key); o; o = o->index_next) {
		if (n < max)
			ret[n] = object_ref(o);
		n++;
	}
	return n;
}

size_t
store_count(struct store *s)
{
	WITH_LOCK(&s->mu);
	return s->objects.count;
}

struct store_list
store_list(struct store *s)
{
	struct store_list list = { 0 };
	struct str key;
	void *object;

	WITH_LOCK(&s->mu);
	list.objects = xcalloc(s->objects.count, sizeof(list.objects[0]));
	for (size_t pos = 0; map_next(&s->objects, &pos, &key, &object);)
		list.objects[list.n++] = object_ref(object);
	return list;
}

void
store_list_free(struct store_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		object_unref(list->objects[i]);
	free(list->objects);
	*list = (struct store_list){ 0 };
}

/* ---- waiting for the first list ---- */

bool
store_has_synced(struct store *s)
{
	WITH_LOCK(&s->mu);
	return s->has_synced;
}

static void
wake_waiters(void *arg)
{
	struct store *s = arg;

	WITH_LOCK(&s->mu);
	cond_broadcast(&s->synced);
}

bool
store_wait_synced(struct store *s, struct call *call, struct error *err)
{
	/* before the lock: the hook takes it, and may be called immediately */
	WITH_HOOK(call->cancel, wake_waiters, s);
	WITH_LOCK(&s->mu);

	while (!s->has_synced) {
		if (cancel_is_fired(call->cancel))
			return err_set(err, ERR_CANCELLED,
			               "list %s: cancelled while waiting for the first list",
			               s->kind->path);
		if (!clock_wait(s->clock, &s->synced, &s->mu, call->deadline_mono_ns) &&
		    !s->has_synced)
			return err_set(err, ERR_TIMEOUT, "list %s: no complete list in time",
			               s->kind->path);
	}
	return true;
}

/* ---- changing; all under mu ---- */

/* The map's key is a view into the first object of the chain: a new first one has its own key. */
static void
index_unlink(struct store *s, struct object *o)
{
	struct object *at;

	if (o->index_key.len == 0)
		return;
	at = map_get(&s->index, o->index_key);
	if (at != o) {
		while (at->index_next != o)
			at = at->index_next;
		at->index_next = o->index_next;
	} else if (o->index_next) {
		(void)map_put(&s->index, o->index_next->index_key, o->index_next);
	} else {
		(void)map_remove(&s->index, o->index_key);
	}
}

static void
index_link(struct store *s, struct object *o)
{
	o->index_next = map_get(&s->index, o->index_key);
	if (o->index_key.len > 0)
		(void)map_put(&s->index, o->index_key, o);
}

static void
call_handlers(struct store *s, const struct object *old, const struct object *object)
{
	for (size_t i = 0; i < s->n_handlers; i++)
		s->handlers[i].changed(s->handlers[i].arg, old, object);
}

/* Is object an older state than old? Another object with the same name has another UID. Versions
 * are lower in a list of the newest state if etcd was restored from a backup. */
static bool
is_late(const struct store *s, const struct object *old, const struct object *object)
{
	return str_eq(old->uid, object->uid) && !s->is_newest_list &&
	       object_version_is_older(object->resource_version, old->resource_version);
}

/* Puts the object in the place of old, which may be NULL. An object with the UID of the old one is
 * the same API object, so it was seen when the old one was. */
static void
replace(struct store *s, struct object *old, struct object *object)
{
	bool is_same = old && str_eq(old->uid, object->uid);

	object->seen_boot_ns = is_same ? old->seen_boot_ns : clock_boot(s->clock);
	object->epoch = s->epoch;
	if (old)
		index_unlink(s, old);
	(void)map_put(&s->objects, object->key, object);
	index_link(s, object);
}

enum put { PUT_DONE, PUT_LATE, PUT_FULL };

/* On PUT_DONE the store owns the object, and *ret_old, which may be NULL, belongs to the caller. */
static enum put
try_put(struct store *s, struct object *object, struct object **ret_old)
{
	struct object *old;
	WITH_LOCK(&s->mu);

	old = map_get(&s->objects, object->key);
	if (!old && s->objects.count >= LIMIT_OBJECTS)
		return PUT_FULL;
	if (old && is_late(s, old, object)) {
		/* the list has this object, although not its newest state */
		old->epoch = s->epoch;
		return PUT_LATE;
	}
	replace(s, old, object);
	*ret_old = old;
	return PUT_DONE;
}

bool
store_put(struct store *s, struct object *object, struct error *err)
{
	CLEANUP(object_unrefp) struct object *old = NULL, *refused = object;

	switch (try_put(s, object, &old)) {
	case PUT_FULL:
		return err_set(err, ERR_INVALID, "more than %d objects of kind %s", LIMIT_OBJECTS,
		               s->kind->name);
	case PUT_LATE:
		log_debug("an older state came late, ignoring", LOG_CSTR("kind", s->kind->name),
		          LOG_STR("key", object->key));
		return true;
	case PUT_DONE:
		refused = NULL; /* the store owns it now */
		break;
	}
	/* object stays valid, because only this thread removes */
	if (!old || !str_eq(old->uid, object->uid) || s->kind->differs(old, object))
		call_handlers(s, old, object);
	return true;
}

void
store_keep(struct store *s, struct str key)
{
	struct object *o;

	WITH_LOCK(&s->mu);
	o = map_get(&s->objects, key);
	if (o)
		o->epoch = s->epoch;
}

void
store_remove(struct store *s, const struct object *last)
{
	CLEANUP(object_unrefp) struct object *old = NULL;

	mutex_lock(&s->mu);
	old = map_get(&s->objects, last->key);
	if (old && !str_eq(old->uid, last->uid))
		old = NULL; /* it was replaced by another one with the same name */
	if (old) {
		index_unlink(s, old);
		(void)map_remove(&s->objects, old->key);
	}
	mutex_unlock(&s->mu);
	if (old)
		call_handlers(s, old, /*object=*/NULL);
}

/* ---- lists ---- */

void
store_begin_list(struct store *s, bool is_newest)
{
	s->epoch++;
	s->is_newest_list = is_newest;
	s->list_boot_ns = clock_boot(s->clock);
}

/* Removes the objects that the list has added, or else those that it lacks, with handler calls. */
static void
remove_by_list(struct store *s, bool was_added)
{
	CLEANUP(store_list_free) struct store_list gone = { 0 };
	size_t cap = 0;
	struct str key;
	void *value;

	mutex_lock(&s->mu);
	for (size_t pos = 0; map_next(&s->objects, &pos, &key, &value);) {
		struct object *o = value;
		bool is_listed = o->epoch == s->epoch;

		if (was_added ? is_listed && o->seen_boot_ns >= s->list_boot_ns : !is_listed)
			ARRAY_PUSH(gone.objects, gone.n, cap, o);
	}
	for (size_t i = 0; i < gone.n; i++) {
		index_unlink(s, gone.objects[i]);
		(void)map_remove(&s->objects, gone.objects[i]->key);
	}
	mutex_unlock(&s->mu);
	for (size_t i = 0; i < gone.n; i++)
		call_handlers(s, gone.objects[i], /*object=*/NULL);
}

void
store_end_list(struct store *s)
{
	s->is_newest_list = false;
	remove_by_list(s, /*was_added=*/false);
	/* after the handlers, so that a thread that waited for the list finds their work done */
	WITH_LOCK(&s->mu);
	s->has_synced = true;
	cond_broadcast(&s->synced);
}

void
store_abort_list(struct store *s, bool is_unusable)
{
	s->is_newest_list = false;
	if (is_unusable)
		remove_by_list(s, /*was_added=*/true);
}
