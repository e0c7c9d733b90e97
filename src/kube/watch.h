/* kube/watch.h: parses one line of a watch (docs/spec/kube-client.md, "Watch events").
 *
 * It only parses; kube/reflector.c acts on the event. Threads: any.
 */
#ifndef CCMD_KUBE_WATCH_H
#define CCMD_KUBE_WATCH_H

#include "kube/object.h"

enum watch_type {
	WATCH_ADDED,
	WATCH_MODIFIED,
	WATCH_DELETED,
	WATCH_BOOKMARK,
	WATCH_ERROR,   /* the watch is over; the object is a Status */
	WATCH_SKIPPED, /* an object of another kind, or without a version: to be ignored */
};

struct watch_event {
	enum watch_type type;
	yyjson_val *object;          /* NULL when it is missing */
	struct str resource_version; /* not set for ERROR and SKIPPED */
};

/** Reads the JSON of a line; views live as long as the document. ERR_INVALID when it is not an
 * event, or has an unknown type. */
NODISCARD bool watch_read(const struct kind *kind, yyjson_val *line, struct watch_event *ret,
                          struct error *err);

/** Turns the Status of an ERROR event into an error; ERR_GONE when the version is too old. Returns
 * false. */
bool watch_status_error(yyjson_val *status, struct error *err);

/** "added", "modified" and so on, for a metric's label. */
const char *watch_type_name(enum watch_type type);

#endif
