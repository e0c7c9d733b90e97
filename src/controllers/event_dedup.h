/* controllers/event_dedup.h: one Event for a state that lasts, where each look finds it again.
 *
 * An event is known by the object's UID and a reason; with the same text again it is not sent.
 * Bounded: when LIMIT_EVENT_DEDUP are remembered, all are forgotten, at the cost of a few repeated
 * events. Threads: any.
 */
#ifndef CCMD_CONTROLLERS_EVENT_DEDUP_H
#define CCMD_CONTROLLERS_EVENT_DEDUP_H

#include "kube/node.h"
#include "kube/recorder.h"

struct event_dedup;

struct event_dedup *event_dedup_new(struct recorder *recorder);
void event_dedup_free(struct event_dedup *); /* NULL is fine */

/** A Warning event on a node, unless the last one for (uid, reason) had the same text. component
 * and reason are literals. */
void event_dedup_warn(struct event_dedup *, const char *component, const struct node *node,
                      const char *reason, struct str message);
/** The same, where the message has details that change while the state stays: state is compared
 * instead. */
void event_dedup_warn_as(struct event_dedup *, const char *component, const struct node *node,
                         const char *reason, struct str state, struct str message);
/** The state has passed: the next event_dedup_warn() for (node, reason) is sent. */
void event_dedup_clear(struct event_dedup *, const struct node *node, const char *reason);

/** An event on a node, without memory. */
void node_event(struct recorder *, const char *component, const struct node *node,
                enum event_type type, const char *reason, struct str message);

#endif
