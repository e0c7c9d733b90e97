/* base/version.h: the version that this program reports, the commit and the platform.
 *
 * The version is the program's own, unless --version=vX.Y.Z sets another one.
 *
 * Threads: the setters are called before the first thread starts; the getters may be called from
 * any thread.
 */
#ifndef CCMD_BASE_VERSION_H
#define CCMD_BASE_VERSION_H

#include "base/str.h"

enum {
	VERSION_MAX = 128, /* bytes */
	VERSION_COMMIT_MAX = 7,
};

/** Sets the version, e.g. "v0.1.0": 'v', digits, a dot, digits, a dot, and further characters that
 * are allowed in a header. Copies at most VERSION_MAX bytes. */
void version_set(struct str text);
/** Returns the version, which begins with 'v' and is terminated. */
struct str version_get(void);
/** Returns the version without the 'v' and without a suffix such as -rc.1. */
struct str version_numbers(void);
/** The first two numbers of a version that version_set() accepts: "1" and "36" of v1.36.3. */
void version_split(struct str text, struct str *ret_major, struct str *ret_minor);

/** Sets the commit of the build; its first VERSION_COMMIT_MAX characters are copied. An empty text
 * means that the commit is unknown. */
void version_set_commit(struct str commit);
/** Returns the commit as it appears in User-Agent headers (docs/spec/framework.md, "User agents"):
 * "0123abc", or "unknown". */
struct str version_commit(void);

/** Returns the platform as Go names it: "linux/amd64". */
struct str version_platform(void);

#endif
