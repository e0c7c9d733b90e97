/* serve/digest.h: keyed hashes, which recognise a secret without keeping it.
 *
 * HMAC-SHA256 with a key of this process: a hash from a core file cannot be compared with anything
 * elsewhere, and without the key it is not possible to construct two texts that collide. Threads:
 * any.
 */
#ifndef CCMD_SERVE_DIGEST_H
#define CCMD_SERVE_DIGEST_H

#include "base/str.h"

enum {
	DIGEST_SIZE = 32,
};

struct digest_key {
	unsigned char bytes[DIGEST_SIZE];
};

struct digest {
	unsigned char bytes[DIGEST_SIZE];
};

/** A random key. */
void digest_key_init(struct digest_key *);
/** Wipes it. */
void digest_key_fini(struct digest_key *);

struct digest digest_of(const struct digest_key *, struct str text);
/** Its bytes, as the key of a struct map; lives as long as *d. */
struct str digest_str(const struct digest *d);

#endif
