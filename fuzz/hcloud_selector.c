/* A selector that is accepted is accepted with blanks around it too, and means the same. Matching
 * ends for any selector. */
#include "providers/hcloud/selector.h"

#include <assert.h>

#include "base/buf.h"
#include "base/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool
matches(struct str text, struct arena *arena, bool *ret)
{
	static const struct label pool = { STR("pool"), STR("web") },
				  slots = { STR("slots"), STR("12") };
	static const struct label *const labels[] = { &pool, &slots };
	const struct hz_selector *selector;
	struct error err;

	if (!hz_selector_parse(text, arena, &selector, &err)) {
		assert(err.code == ERR_INVALID && err.msg[0] != '\0');
		return false;
	}
	*ret = hz_selector_matches(selector, labels, ARRAY_LEN(labels));
	return true;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(buf_fini) struct buf wide = BUF_INIT(LIMIT_SELECTOR);
	struct str text = str_n((const char *)data, size);
	bool is_match = false, is_same = false;

	if (!matches(text, &arena, &is_match))
		return 0;
	buf_add_c(&wide, " \t");
	buf_add_str(&wide, text);
	buf_add_c(&wide, "\n");
	assert(!buf_ok(&wide) ||
	       (matches(buf_str(&wide), &arena, &is_same) && is_match == is_same));
	return 0;
}
