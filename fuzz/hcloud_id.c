/* A provider ID that can be read is written in a form that reads the same. Any metadata text is
 * read without harm. */
#include <assert.h>

#include "providers/hcloud/client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(const struct hz_dialect *dialect, struct str text)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct hz_id id, again;
	struct error err;

	if (!hz_id_parse(dialect, text, &id, &err)) {
		assert(err.code == ERR_UNSUPPORTED || err.code == ERR_INVALID);
		return;
	}
	assert(id.number > 0);
	assert(hz_id_parse(dialect, hz_id_text(&arena, dialect, id), &again, &err));
	assert(again.kind == id.kind && again.number == id.number);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = str_n((const char *)data, size);

	check(&hz_official, text);
	check(&hz_tutorial, text);
	check(&hz_tutorial_text, text);
	(void)hz_metadata_names_network(text, 4711);
	return 0;
}
