/* source.h: a secret that is given as a variable X, or as a file named by X_FILE (hcloud.md 1.3).
 *
 * Of files the official controller knows what was in them at its start. We read them again, so that a token can be replaced
 * without a restart.
 *
 * Threads: the owner's lock.
 */
#ifndef CCMD_HCLOUD_SOURCE_H
#define CCMD_HCLOUD_SOURCE_H

#include "base/buf.h"
#include "base/secret.h"

struct hz_source {
	char *path; /* NULL: the variable itself, which never changes */
	struct secret value;
};

/** Reads it for the first time. Where the file cannot be read, a line is appended to `problems`. */
void hz_source_load(struct hz_source *, const char *variable, struct buf *problems);
void hz_source_fini(struct hz_source *);
/** Makes *to read what *from does. */
void hz_source_copy(struct hz_source *to, const struct hz_source *from);

/** Reads the file again; true when it holds another value. What cannot be read, or is empty, leaves the last value: it is
 * being replaced. */
bool hz_source_refresh(struct hz_source *);

#endif
