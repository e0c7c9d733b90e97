/* kube/store.h: the objects of one kind, as far as we have heard.
 *
 * Filled by a reflector, read by everyone. Readers get a reference to an immutable snapshot of an
 * object; a short lock covers the look-up. Indexed by key and by object->index_key (nodes: provider
 * ID), where several objects may share one.
 *
 * The handler is called on the reflector's thread after each change, without the store's lock, and
 * must not block: it pushes keys on queues. A change in nothing but the resource version updates
 * the object without a call.
 *
 * Threads: any; what is for the reflector is called by one thread. A store that has not synced must
 * not be used to decide on deletions.
 */
#ifndef CCMD_KUBE_STORE_H
#define CCMD_KUBE_STORE_H

#include "base/call.h"
#include "kube/object.h"

struct store;

struct store_handler {
	/* old NULL: added; new NULL: deleted. Both borrowed. */
	void (*changed)(void *arg, const struct object *old, const struct object *new);
	void *arg;
};

struct store *store_new(const struct kind *kind, struct clock *clock);
void store_free(struct store *); /* NULL is fine */
DEFINE_CLEANUP(struct store, store_free)

const struct kind *store_kind(const struct store *);
/** Before the reflector starts; any number of them. */
void store_add_handler(struct store *, struct store_handler handler);

/** A reference to the object, or NULL. */
struct object *store_get(struct store *, struct str key);
/** How many objects have that index key; up to max of them as references in ret. */
size_t store_find(struct store *, struct str index_key, struct object **ret, size_t max);
size_t store_count(struct store *);

/** References to all objects, in no order; release with store_list_free(). */
struct store_list {
	size_t n;
	struct object **objects;
};
struct store_list store_list(struct store *);
void store_list_free(struct store_list *); /* for CLEANUP */

bool store_has_synced(struct store *);
/** Waits for the first complete list. False with ERR_CANCELLED or ERR_TIMEOUT. */
NODISCARD bool store_wait_synced(struct store *, struct call *, struct error *err);

/* ---- for the reflector ---- */

/** Takes over the reference. A state older than the stored one (same UID, lower resource version)
 * is dropped: an API server may answer from a cache that lags. LIMIT_OBJECTS: ERR_INVALID, and the
 * object is dropped. */
NODISCARD bool store_put(struct store *, struct object *object, struct error *err);
/** The list or watch has that object, but it cannot be read: what is known of it stays. */
void store_keep(struct store *, struct str key);
/** The object is the last state from a DELETED event; removed only when the stored one has the same
 * UID. */
void store_remove(struct store *, const struct object *last);
/** A list begins: every object neither put nor kept until store_end_list() is then removed, with
 * handler calls. is_newest: it shows the newest state there is, not a cache's, so that lower
 * resource versions are no sign of age: etcd was restored from a backup. */
void store_begin_list(struct store *, bool is_newest);
void store_end_list(struct store *);
/** A list broke off: objects that were put stay, none is removed. */
void store_abort_list(struct store *);
/** What came was no list of ours, such as one that never ends: abort it, and take out what it
 * added, with handler calls, so that it does not stand in the way of the next. */
void store_reject_list(struct store *);

#endif
