/* The path of an object that is described names one object of a bounded length, or none. */
#include "controllers/describe.h"

#include <assert.h>

#include "base/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str path = str_n((const char *)data, size);
	CLEANUP(buf_fini) struct buf json = BUF_INIT(KIB(1));
	struct described what;
	struct ip_net net;

	if (!described_parse(path, &what))
		return 0;
	assert(what.key.len > 0 && what.key.len <= 2 * LIMIT_NAME + 1);
	assert(what.key.ptr > path.ptr && what.key.ptr + what.key.len == path.ptr + path.len);
	if (what.kind == DESCRIBED_NODE)
		assert(str_index(what.key, '/') < 0);
	if (what.kind == DESCRIBED_ROUTE)
		assert(ip_net_parse(what.key, &net));
	describe(NULL, &what, &json);
	assert(buf_ok(&json));
	return 0;
}
