/* base/version.h: the version that this program says it is: its own, unless --version=vX.Y.Z asks
 * for another; and what it was built from and for.
 *
 * Threads: setting belongs before the first thread; reading from any.
 */
#ifndef CCMD_BASE_VERSION_H
#define CCMD_BASE_VERSION_H

#include "base/str.h"

enum {
	VERSION_MAX = 128, /* bytes */
	VERSION_COMMIT_MAX = 7,
};

/** "v0.1.0": 'v', digits, a dot, digits, a dot, and more; characters that fit into a header.
 * Copied, at most VERSION_MAX. */
void version_set(struct str text);
/** Begins with 'v'; terminated. */
struct str version_get(void);
/** As version_get(), without the 'v' and without a suffix such as -rc.1. */
struct str version_numbers(void);

/** The commit that was built: its first VERSION_COMMIT_MAX characters are copied. Empty: as if it
 * was never set. */
void version_set_commit(struct str commit);
/** As it stands in User-Agents (docs/spec/framework.md, "User agents"): "0123abc", or "unknown". */
struct str version_commit(void);

/** As Go names it: "linux/amd64". */
struct str version_platform(void);

#endif
