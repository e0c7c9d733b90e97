/* A line of a watch, parsed as an event and as an object of a list. An event that can be applied
 * has a version. An object that cannot be parsed has a key or is refused. */
#include "kube/object.h"

#include <assert.h>

#include "base/limits.h"
#include "kube/node.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_object(yyjson_val *val)
{
	CLEANUP(object_unrefp) struct object *object = NULL;
	CLEANUP(buf_fini) struct buf key = BUF_INIT(2 * LIMIT_NAME + 1);
	struct error err;
	bool has_key = object_read_key(val, &key);

	if (!node_kind.kind.parse(&node_kind.kind, val, &object, &err)) {
		assert(err.code == ERR_INVALID);
		return;
	}
	assert(has_key || object->key.len > LIMIT_NAME);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct watch_event event;
	struct error err;

	if (!json_parse(str_n((const char *)data, size), &doc, &err) ||
	    !watch_read(&node_kind.kind, yyjson_doc_get_root(doc), &event, &err)) {
		assert(err.code == ERR_INVALID);
		return 0;
	}
	if (event.type == WATCH_ERROR)
		assert(!watch_status_error(event.object, &err) && err.code != ERR_NONE);
	else if (event.type != WATCH_SKIPPED)
		assert(event.resource_version.len > 0);
	check_object(event.object);
	return 0;
}
