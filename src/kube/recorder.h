/* kube/recorder.h: writes the Events that `kubectl describe` shows.
 *
 * recorder_event() never blocks and never fails: it puts the event on a queue of LIMIT_EVENT_QUEUE.
 * One thread writes the queued events in the background, only while no other request waits. Events
 * that do not fit are dropped and counted. A repeated event raises the count of the first, similar
 * events are combined, and 25 events per object and one more per 5 min are written
 * (docs/spec/kube-client.md, "Event limits").
 *
 * Threads: any.
 */
#ifndef CCMD_KUBE_RECORDER_H
#define CCMD_KUBE_RECORDER_H

#include "kube/client.h"

enum event_type {
	EVENT_NORMAL,
	EVENT_WARNING,
};

struct event_object {
	const char *api_version; /* "v1" */
	const char *kind;        /* "Node" */
	struct str namespace;    /* empty: cluster-scoped; its events are stored in "default" */
	struct str name;
	struct str uid;
};

struct recorder;

/** client NULL: events are dropped, without being counted. instance: the identity of this process
 * in the election, by which the events of two processes can be told apart; copied. */
struct recorder *recorder_new(struct kube_client *client, const char *instance,
                              struct clock *clock);
/** Writes queued events for up to flush_ms, then ends the thread. NULL is allowed. */
void recorder_free(struct recorder *, int64_t flush_ms);

/** Queues an event. component ("cloud-node-controller") and reason (UpperCamelCase) must be
 * literals. message is shortened to LIMIT_EVENT_MESSAGE. All other arguments are copied. */
void recorder_event(struct recorder *, const char *component, const struct event_object *object,
                    enum event_type type, const char *reason, struct str message);
/** Like recorder_event(), but the event goes to the front of the queue and is accepted even when
 * the queue is full. It is for the few events about the process itself (leader election): at
 * shutdown there may be no time for the others. */
void recorder_event_first(struct recorder *, const char *component,
                          const struct event_object *object, enum event_type type,
                          const char *reason, struct str message);

#endif
