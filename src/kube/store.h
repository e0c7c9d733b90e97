/* kube/store.h: all objects of one kind, as last received from the API server.
 *
 * A reflector fills the store; any thread may read it. Readers get a reference to an immutable
 * object; a short lock covers the look-up. Objects are indexed by key and by object->index_key
 * (nodes: the provider ID), which several objects may have in common.
 *
 * The handler is called on the reflector's thread after each change, without the store's lock, and
 * must not block: it pushes keys on queues. If only the resource version has changed, the object is
 * replaced without a call.
 *
 * Threads: any, apart from the functions for the reflector, which one thread calls. A store that
 * has not synced must not be used to decide on deletions, because it lacks objects that exist.
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
void store_free(struct store *); /* NULL is allowed */
DEFINE_CLEANUP(struct store, store_free)

const struct kind *store_kind(const struct store *);
/** Must be called before the reflector starts. There may be several handlers. */
void store_add_handler(struct store *, struct store_handler handler);

/** A reference to the object, or NULL. */
struct object *store_get(struct store *, struct str key);
/** Returns how many objects have that index key, and references to up to max of them in ret. */
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

/** Stores the object and takes over the reference. A state older than the stored one (same UID,
 * lower resource version) is dropped, because an API server may answer from a cache that lags
 * behind. ERR_INVALID, and the object is dropped, when there are LIMIT_OBJECTS already. */
NODISCARD bool store_put(struct store *, struct object *object, struct error *err);
/** The list or watch has that object, but it cannot be parsed: its stored state stays. */
void store_keep(struct store *, struct str key);
/** Removes the object of a DELETED event, whose last state is given, but only if the stored object
 * has the same UID. */
void store_remove(struct store *, const struct object *last);
/** A list begins: store_end_list() will remove every object that was neither put nor kept until
 * then, with handler calls. is_newest: the list comes from etcd and not from a cache, so lower
 * resource versions do not mean that it is old; they mean that etcd was restored from a backup. */
void store_begin_list(struct store *, bool is_newest);
void store_end_list(struct store *);
/** The list was interrupted: objects that were put stay, and none is removed. is_unusable: the
 * answer was not a usable list, e.g. one without end. Objects that it added are then removed, with
 * handler calls, so that they do not fill the store before the next list. */
void store_abort_list(struct store *, bool is_unusable);

#endif
