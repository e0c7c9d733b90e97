/* controllers/own_writes.h: what we wrote to nodes and have not heard back yet.
 *
 * After a PATCH the store shows the old node for a moment (docs/spec/kube-client.md, "Own writes").
 * Acting on that would write again what is written, and earn a conflict. So every write's answer
 * leaves its resource version here, and whoever comes upon a node that is older than our own last
 * write to it lets go: the event that is on its way brings the node back.
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

/** We have written to this node, and it has that version now. */
void own_writes_note(struct own_writes *, const struct node *node, struct str version);
/** Is this state of the node older than our own last write? Forgets the write when it is not, and
 * after a minute: the API server's data may have been restored from a backup without that write,
 * so that no newer state will come. Acting on an old state is harmless: it costs a conflict. */
bool own_writes_are_ahead(struct own_writes *, const struct node *node);
/** The node is gone. */
void own_writes_forget(struct own_writes *, struct str name);

#endif
