/* Text that is cleaned, quoted or logged has no control characters, and is valid UTF-8. */
#include "base/str.h"

#include <assert.h>

#include "base/buf.h"
#include "base/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(struct str text)
{
	for (struct str_char c; str_next_char(&text, &c);)
		assert(c.is_valid && !c.is_control);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIB(1));
	struct str text = str_n((const char *)data, size);

	buf_add_clean(&b, text);
	check(buf_str(&b));
	assert(b.len <= size);
	buf_reset(&b);
	quote_add(&b, text);
	check(buf_str(&b));
	return 0;
}
