/* Whatever an answer of the Brightbox API is: each kind of object is read whole, or refused with a
 * message; what was read has an id, and a server that exists is described or refused. */
#include <assert.h>

#include "providers/brightbox/servers.h"
#include "providers/brightbox/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_read(yyjson_val *root, const struct bb_object *object, struct arena *arena, struct str *ret)
{
	struct error err = { 0 };

	if (bb_object_read(root, object, arena, ret, &err))
		assert(ret->len > 0); /* the id is the first member */
	else
		assert(err.code == ERR_UNAVAILABLE && err.msg[0] != '\0');
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct bb_server server = { .id = STR_EMPTY };
	struct bb_lb lb = { .id = STR_EMPTY };
	struct bb_cloud_ip ip = { .id = STR_EMPTY };
	struct bb_group group = { .id = STR_EMPTY };
	struct bb_policy policy = { .id = STR_EMPTY };
	struct machine machine;
	struct error err = { 0 };
	yyjson_val *root;

	if (!json_parse(str_n((const char *)data, size), &doc, &err))
		return 0;
	root = yyjson_doc_get_root(doc);
	check_read(root, &bb_lb_object, &arena, &lb.id);
	check_read(root, &bb_cloud_ip_object, &arena, &ip.id);
	check_read(root, &bb_group_object, &arena, &group.id);
	check_read(root, &bb_policy_object, &arena, &policy.id);
	if (bb_object_read(root, &bb_server_object, &arena, &server, &err) &&
	    !bb_server_describe(&server, &arena, &machine, &err))
		assert(err.code == ERR_UNAVAILABLE);
	return 0;
}
