/* kube/watch.h: what one line of a watch says (docs/spec/kube-client.md, "Watch events").
 *
 * Only reads: what follows from it is the reflector's business. Threads: any.
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
	WATCH_SKIPPED, /* of another kind, or without a version: no news */
};

struct watch_event {
	enum watch_type type;
	yyjson_val *object;          /* NULL when it is missing */
	struct str resource_version; /* not of ERROR and SKIPPED */
};

/** Reads a line's JSON; views live as long as the document. ERR_INVALID when it is no event, or of
 * a type that does not exist. */
NODISCARD bool watch_read(const struct kind *kind, yyjson_val *line, struct watch_event *ret,
                          struct error *err);

/** Fills *err with what the Status of an ERROR event says; ERR_GONE when the version is too old.
 * Returns false. */
bool watch_status_error(yyjson_val *status, struct error *err);

/** "added", …: a metric's label. */
const char *watch_type_name(enum watch_type type);

#endif
