/* base/secret.c: see secret.h. */
#include "base/secret.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void
secret_set(struct secret *s, struct str bytes)
{
	char *copy = xstrndup(bytes.ptr,
	                      bytes.len); /* copied first, because bytes may point into s */

	secret_fini(s);
	s->hidden = copy;
	s->hidden_len = bytes.len;
}

void
secret_assign(struct secret *s, struct str bytes)
{
	if (bytes.len > 0)
		secret_set(s, bytes);
	else
		secret_fini(s);
}

void
secret_fini(struct secret *s)
{
	if (s->hidden)
		explicit_bzero(s->hidden, s->hidden_len);
	free(s->hidden);
	*s = SECRET_NONE;
}

bool
secret_is_set(const struct secret *s)
{
	return s->hidden;
}

bool
secret_eq(const struct secret *a, const struct secret *b)
{
	/* volatile prevents the compiler from leaving the loop early */
	volatile unsigned char difference = 0;

	if (secret_is_set(a) != secret_is_set(b) || a->hidden_len != b->hidden_len)
		return false;
	for (size_t i = 0; i < a->hidden_len; i++)
		difference = (unsigned char)(difference | (a->hidden[i] ^ b->hidden[i]));
	return difference == 0;
}

struct str
secret_expose(const struct secret *s)
{
	return str_n(s->hidden, s->hidden_len);
}
