/* controllers/own_writes.h: our own writes to nodes that the watch has not delivered yet.
 *
 * After a PATCH the store still shows the old node for a moment (docs/spec/kube-client.md, "Own
 * writes"). Acting on that state would write again what is written already, and cause a conflict.
 * So the resource version in the answer to each write is noted here. A controller that finds a node
 * older than our last write to it leaves it alone: the watch event of that write brings the node
 * back.
 *
 * Threads: any.
 */
#ifndef CCMD_CONTROLLERS_OWN_WRITES_H
#define CCMD_CONTROLLERS_OWN_WRITES_H

#include "base/clock.h"
#include "kube/node.h"

struct own_writes;

struct own_writes *own_writes_new(struct clock *clock);
void own_writes_free(struct own_writes *); /* NULL is fine */

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
