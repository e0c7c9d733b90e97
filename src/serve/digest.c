/* serve/digest.c: see digest.h. */
#include "serve/digest.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rand.h"

void
digest_key_init(struct digest_key *key)
{
	for (size_t at = 0; at < sizeof(key->bytes); at += sizeof(uint64_t)) {
		uint64_t word = rand_u64();

		memcpy(key->bytes + at, &word, sizeof(word));
	}
}

void
digest_key_fini(struct digest_key *key)
{
	explicit_bzero(key->bytes, sizeof(key->bytes));
}

/* HMAC() fails only when memory runs out. */
struct digest
digest_of(const struct digest_key *key, struct str text)
{
	struct digest d;
	unsigned len = 0;

	if (!HMAC(EVP_sha256(), key->bytes, sizeof(key->bytes), (const unsigned char *)text.ptr,
	          text.len, d.bytes, &len))
		alloc_fail(1, text.len);
	assert(len == sizeof(d.bytes));
	return d;
}

struct str
digest_str(const struct digest *d)
{
	return str_n((const char *)d->bytes, sizeof(d->bytes));
}
