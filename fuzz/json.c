/* JSON stays the same when it is written and read again. Any bytes can be written as a string. */
#include "base/json.h"

#include <assert.h>

#include "base/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(struct str text, bool must_parse)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL, *again = NULL;
	CLEANUP(buf_fini) struct buf one = BUF_INIT(MIB(1)), two = BUF_INIT(MIB(1));
	struct error err;

	if (!json_parse(text, &doc, &err)) {
		assert(!must_parse && err.code == ERR_INVALID);
		return;
	}
	json_add_value(&one, yyjson_doc_get_root(doc));
	assert(buf_ok(&one) && json_parse(buf_str(&one), &again, &err));
	json_add_value(&two, yyjson_doc_get_root(again));
	assert(str_eq(buf_str(&one), buf_str(&two)));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf_fini) struct buf quoted = BUF_INIT(MIB(1));
	struct str text = str_n((const char *)data, size);

	check(text, /*must_parse=*/false);
	json_add_str(&quoted, text);
	check(buf_str(&quoted), /*must_parse=*/true);
	return 0;
}
