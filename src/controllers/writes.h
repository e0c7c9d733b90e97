/* controllers/writes.h: writes to a node that survive other clients writing to it at the same time.
 *
 * A write names the resource version that it was computed from. If another client was faster, the
 * API server answers 409. The node is then read from the server, past the cache, and the write is
 * computed again from that state (docs/spec/framework.md, "Conflicts").
 *
 * After a PATCH the store still shows the old node for a moment (docs/spec/kube-client.md, "Own
 * writes"). Acting on that state would write again what is written already, and cause a conflict.
 * So the resource version in the answer to each write is noted. A controller that finds a node
 * older than our last write to it leaves it alone: the watch event of that write brings the node
 * back.
 *
 * Threads: any.
 */
#ifndef CCMD_CONTROLLERS_WRITES_H
#define CCMD_CONTROLLERS_WRITES_H

#include "base/map.h"
#include "controllers/env.h"
#include "kube/node.h"

struct node_write;

/** Computes what w->node lacks and sends it by node_write_send(). Returns true when the node is as
 * it should be. ERR_CONFLICT leads to another attempt. */
typedef bool node_write_fn(const struct node_write *w, struct error *err);

struct node_write {
	struct controller_env *env;
	struct call *call;
	const struct node *node; /* the store's state; after a conflict, the server's */
	node_write_fn *write;
	void *arg;         /* of write() */
	unsigned attempts; /* how often write() is called at most */
	int64_t pause_ms;  /* between two attempts; up to twice as long, by chance */
};

/** Calls w->write() until it succeeds. A node that is gone, or was replaced by another one of the
 * same name, is success: there is nothing left to write. Errors other than ERR_CONFLICT are passed
 * up. */
NODISCARD bool node_write(const struct node_write *w, struct error *err);

/** Sends a patch to w->node or to its status, and notes the answer as our own write.
 * Needs only env, call and node of w. In a dry run it is only noted what the patch changes, and the
 * version stays.
 *
 * @param subresource  "status", or NULL: the node itself
 * @param ret_version  the new resource version, in the call's arena; may be NULL */
NODISCARD bool node_write_send(const struct node_write *w, const char *subresource,
                               enum kube_patch_type type, struct str body, struct str *ret_version,
                               struct error *err);

/** Adds or removes the shutdown taint (docs/spec/framework.md, "Shutdown taint"). Sends nothing if
 * the node is as wanted. */
NODISCARD bool write_shutdown_taint(struct controller_env *, struct call *, const struct node *node,
                                    bool wanted, struct error *err);

/** Is it the shutdown taint? Key and effect decide; value and time do not matter. */
bool taint_is_shutdown(const struct node_taint *taint);

/* ---- own writes that the watch has not delivered yet ---- */

/** Made by controller_memory_new(). */
struct own_writes {
	struct clock *clock;
	pthread_mutex_t mu;
	struct map entries; /* mu; name -> struct own_write */
};

/** We have written to this node, which has that version now. */
void own_writes_note(struct own_writes *, const struct node *node, struct str version);
/** Is this state of the node older than our own last write? If not, the write is forgotten. It is
 * also forgotten after a minute: the data of the API server may have been restored from a backup
 * without that write, and then no newer state will come. Acting on an old state costs a conflict,
 * but does no harm. */
bool own_writes_are_ahead(struct own_writes *, const struct node *node);
/** Forgets the writes to a node that is gone. */
void own_writes_forget(struct own_writes *, struct str name);

#endif
