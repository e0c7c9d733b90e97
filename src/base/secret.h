/* base/secret.h: bytes that are never printed.
 *
 * There is no function that formats a secret, no log field takes one, and the type is not a struct
 * str, so that passing it to one that does is a compile error. Whoever must send it asks for the
 * bytes by the one function whose name says what happens. The memory is overwritten when it is
 * freed.
 */
#ifndef CCMD_BASE_SECRET_H
#define CCMD_BASE_SECRET_H

#include "base/str.h"

struct secret {
	char *hidden; /* terminated; NULL: none */
	size_t hidden_len;
};

#define SECRET_NONE ((struct secret){ 0 })

/** Copies. Replaces, and wipes, what was there. */
void secret_set(struct secret *s, struct str bytes);
/** Wipes and frees; leaves SECRET_NONE. */
void secret_fini(struct secret *s);
bool secret_is_set(const struct secret *s);
/** Compares in a time that depends on the lengths only. */
bool secret_eq(const struct secret *a, const struct secret *b);
/** The bytes, to be sent to whom they are meant for and nowhere else; owned by s. */
struct str secret_expose(const struct secret *s);

#endif
