/* base/secret.h: bytes that are never printed.
 *
 * No function formats a secret, no log field accepts one, and the type is not a struct str, so that
 * passing it to a function that prints is a compile error. Code that sends the secret gets the
 * bytes from secret_expose(), whose name shows what happens. The memory is overwritten before it is
 * freed.
 *
 * Threads: a secret has no lock; the owner protects it.
 */
#ifndef CCMD_BASE_SECRET_H
#define CCMD_BASE_SECRET_H

#include "base/str.h"

struct secret {
	char *hidden; /* terminated; NULL: not set */
	size_t hidden_len;
};

#define SECRET_NONE ((struct secret){ 0 })

/** Copies the bytes, after overwriting and freeing the previous value. */
void secret_set(struct secret *s, struct str bytes);
/** secret_set(), or secret_fini() if there are no bytes. */
void secret_assign(struct secret *s, struct str bytes);
/** Overwrites and frees the memory; leaves SECRET_NONE. */
void secret_fini(struct secret *s);
bool secret_is_set(const struct secret *s);
/** Compares in a time that depends on the lengths only, so that timing reveals no content. */
bool secret_eq(const struct secret *a, const struct secret *b);
/** Returns the bytes, which s owns. Pass them only to their intended receiver. */
struct str secret_expose(const struct secret *s);

#endif
