/* base/rand.c: see rand.h.
 *
 * Every number is read from the kernel: the program needs a few per second, and a buffer in memory
 * would be copied by fork() and appear in core files.
 */
#include "base/rand.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/log.h"

static void
fill(void *bytes, size_t len)
{
	ssize_t n;

	/* Up to 256 bytes are returned whole; a signal can only interrupt the wait for the first
	 * entropy after boot. */
	do {
		n = getrandom(bytes, len, 0);
	} while (n < 0 && errno == EINTR);
	if (n != (ssize_t)len) {
		log_error("the kernel gives no random bytes");
		abort();
	}
}

uint64_t
rand_u64(void)
{
	uint64_t value;

	fill(&value, sizeof(value));
	return value;
}

int64_t
rand_between(int64_t lo, int64_t hi)
{
	uint64_t range = (uint64_t)hi - (uint64_t)lo;
	uint64_t bias, value;

	if (hi <= lo)
		return lo;
	/* 2^64 modulo range. The lowest `bias` values are rejected: with them, some results would
	 * be more frequent than others. */
	bias = (0 - range) % range;
	do {
		value = rand_u64();
	} while (value < bias);
	return (int64_t)((uint64_t)lo + value % range);
}

int64_t
rand_jitter(int64_t d)
{
	int64_t twice;

	if (d <= 0 || __builtin_mul_overflow(d, 2, &twice))
		return d;
	return rand_between(d, twice);
}

void
rand_uuid(struct buf *b)
{
	unsigned char u[16];

	fill(u, sizeof(u));
	u[6] = (unsigned char)((u[6] & 0x0f) | 0x40); /* version 4 */
	u[8] = (unsigned char)((u[8] & 0x3f) | 0x80); /* variant of RFC 9562 */
	for (size_t i = 0; i < sizeof(u); i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			buf_add_char(b, '-');
		buf_addf(b, "%02x", u[i]);
	}
}
