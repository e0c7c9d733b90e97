/* controllers/notices.h: who has been told what, so that a lasting state makes one Event and not one per look.
 *
 * A notice is known by the object's UID and a reason; saying it again with the same text stays silent. Bounded: when
 * LIMIT_NOTICES are remembered, all are forgotten, at the cost of a few repeated events. Threads: any.
 */
#ifndef CCMD_CONTROLLERS_NOTICES_H
#define CCMD_CONTROLLERS_NOTICES_H

#include "kube/node.h"
#include "kube/recorder.h"

struct notices;

struct notices *notices_new(struct recorder *recorder);
void notices_free(struct notices *); /* NULL is fine */

/** A Warning event on a node, unless it was the last thing said about (uid, reason). component and reason are
 * literals. */
void notices_warn(struct notices *, const char *component, const struct node *node,
                  const char *reason, struct str message);
/** The same, where the message has details that change while the state stays: state is compared instead. */
void notices_warn_as(struct notices *, const char *component, const struct node *node,
                     const char *reason, struct str state, struct str message);
/** The state has passed: the next notices_warn() for (node, reason) is heard again. */
void notices_clear(struct notices *, const struct node *node, const char *reason);

/** An event on a node, without memory. */
void node_event(struct recorder *, const char *component, const struct node *node,
                enum event_type type, const char *reason, struct str message);

#endif
