/* kube/recorder.h: Events that `kubectl describe` shows.
 *
 * recorder_event() never blocks and never fails: it puts the event on a queue of LIMIT_EVENT_QUEUE;
 * one thread writes them in the background, only while no other request waits. What does not fit is
 * dropped and counted. Repeats raise the count of the first, floods are combined, and per object 25
 * events and one more per 5 min are let through (docs/spec/kube-client.md, "Event limits").
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

struct recorder *recorder_new(struct kube_client *client, struct clock *clock);
/** Writes what is queued for up to flush_ms, then ends the thread. NULL is fine. */
void recorder_free(struct recorder *, int64_t flush_ms);

/** component: "cloud-node-controller", …, a literal. reason: UpperCamelCase, a literal. message is
 * cut to LIMIT_EVENT_MESSAGE. Everything else is copied. */
void recorder_event(struct recorder *, const char *component, const struct event_object *object,
                    enum event_type type, const char *reason, struct str message);
/** The same, ahead of all that came by recorder_event(), and also where these are as many as may:
 * for the few of a process that tell what it is now. At the end there may be no time for the
 * others. */
void recorder_event_first(struct recorder *, const char *component,
                          const struct event_object *object, enum event_type type,
                          const char *reason, struct str message);

#endif
