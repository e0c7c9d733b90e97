/* The first eight bytes are the sizes of the chunks, in turn; the rest is the list. If it is JSON,
 * its elements are those that a parse of the whole text finds. */
#include "base/split.h"

#include <assert.h>

#include "base/json.h"
#include "base/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct expected {
	bool is_list;
	yyjson_arr_iter items;
};

/* Duplicate keys are refused by the splitter, and allowed by the parser. */
static bool
is_list(yyjson_val *root, yyjson_val **ret_items)
{
	yyjson_obj_iter iter = yyjson_obj_iter_with(root);
	yyjson_val *key, *items = NULL;
	unsigned n = 0;

	while ((key = yyjson_obj_iter_next(&iter))) {
		if (!yyjson_equals_str(key, "items"))
			continue;
		items = yyjson_obj_iter_get_val(key);
		n++;
	}
	*ret_items = items;
	return yyjson_is_obj(root) &&
	       (n == 0 || (n == 1 && (yyjson_is_arr(items) || yyjson_is_null(items))));
}

static bool
check_item(void *arg, struct str item, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	CLEANUP(buf_fini) struct buf found = BUF_INIT(MIB(1)), wanted = BUF_INIT(MIB(1));
	struct expected *expected = arg;

	if (!expected->is_list)
		return true;
	assert(json_parse(item, &doc, err));
	json_add_value(&found, yyjson_doc_get_root(doc));
	json_add_value(&wanted, yyjson_arr_iter_next(&expected->items));
	assert(str_eq(buf_str(&found), buf_str(&wanted)));
	return true;
}

static bool
split(struct json_split *s, const uint8_t sizes[8], struct str text, struct expected *expected,
      struct error *err)
{
	for (unsigned i = 0; text.len; i++) {
		struct str chunk = str_head(text, sizes[i % 8] + 1U);

		if (!json_split_feed(s, chunk, check_item, expected, err))
			return false;
		text = str_skip(text, chunk.len);
	}
	return true;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(json_split_freep) struct json_split *s = json_split_new(STR("items"), MIB(1));
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL, *head_doc = NULL;
	struct expected expected = { 0 };
	struct str text = str_skip(str_n((const char *)data, size), 8), head;
	yyjson_val *items = NULL;
	struct error err;
	bool ok;

	if (size < 8)
		return 0;
	if (json_parse(text, &doc, &err))
		expected.is_list = is_list(yyjson_doc_get_root(doc), &items);
	yyjson_arr_iter_init(items, &expected.items);
	ok = split(s, data, text, &expected, &err) && json_split_end(s, &head, &err);
	if (expected.is_list)
		assert(ok && !yyjson_arr_iter_has_next(&expected.items) &&
		       json_parse(head, &head_doc, &err));
	else if (doc)
		assert(!ok);
	return 0;
}
