/* A document that is accepted stays within its bounds and can be walked. A refused one has a line
 * number within the text. */
#include "base/yaml.h"

#include <assert.h>

#include "base/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
walk(const struct yaml_node *node, unsigned depth)
{
	bool value;

	assert(depth <= LIMIT_YAML_DEPTH && node->line > 0 && yaml_kind_name(node));
	if (yaml_to_bool(node, /*allow_yaml11=*/true, &value))
		assert(node->kind == YAML_SCALAR && node->text.ptr[node->text.len] == '\0');
	for (size_t i = 0; i < node->n; i++) {
		if (node->kind == YAML_MAP)
			assert(yaml_get(node, node->keys[i].text) &&
			       node->keys[i].line <= node->items[i].line);
		walk(&node->items[i], depth + 1);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct yaml_node root;
	struct error err;
	int line = -1;

	if (yaml_parse(str_n((const char *)data, size), &arena, &root, &line, &err))
		walk(&root, 0);
	else
		assert(err.code == ERR_INVALID && line > 0 && (size_t)line <= size + 1);
	return 0;
}
