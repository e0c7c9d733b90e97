/* controllers/event_dedup.h: one Event for a state that lasts, although each look finds it again.
 *
 * A hash of the last text is stored for each pair of object (its UID) and reason. The same text is
 * not sent again. When LIMIT_EVENT_DEDUP pairs are stored, all of them are dropped, at the cost of
 * a few repeated events.
 *
 * Threads: any.
 */
#ifndef CCMD_CONTROLLERS_EVENT_DEDUP_H
#define CCMD_CONTROLLERS_EVENT_DEDUP_H

#include <pthread.h>

#include "base/map.h"
#include "kube/node.h"
#include "kube/recorder.h"

/** Made by controller_memory_new(). */
struct event_dedup {
	struct recorder *recorder;
	pthread_mutex_t mu;
	struct map last; /* mu; struct sent_event */
};

struct sent_event {
	struct str key; /* "uid/reason" */
	uint64_t text_hash;
};

/** Sends a Warning event about a node, unless the last one for (UID, reason) had the same text.
 * component and reason are literals. */
void event_dedup_warn(struct event_dedup *, const char *component, const struct node *node,
                      const char *reason, struct str message);
/** The same, for a message with details that change while the state lasts: state is compared
 * instead of it. */
void event_dedup_warn_as(struct event_dedup *, const char *component, const struct node *node,
                         const char *reason, struct str state, struct str message);
/** Remembers (node, reason); true if it is new. For an event that is sent once for each node. */
bool event_dedup_is_new(struct event_dedup *, const struct node *node, const char *reason);
/** The state has ended: the next event_dedup_warn() for (node, reason) is sent. */
void event_dedup_clear(struct event_dedup *, const struct node *node, const char *reason);
/** Warns, or clears if the message is empty. */
void event_dedup_set(struct event_dedup *, const char *component, const struct node *node,
                     const char *reason, struct str message);

/** Sends an event about a node, whether it was sent before or not. */
void node_event(struct recorder *, const char *component, const struct node *node,
                enum event_type type, const char *reason, struct str message);

#endif
