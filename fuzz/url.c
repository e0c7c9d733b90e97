/* The parts of a URL lie within its text, and its host has no character that must be escaped. Any
 * list of NO_PROXY can be read. */
#include "http/url.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = str_n((const char *)data, size);
	CLEANUP(buf_fini) struct buf escaped = BUF_INIT(3 * size);
	struct error err;
	struct url url;

	url_add_escaped(&escaped, text);
	assert(buf_ok(&escaped));
	(void)proxy_is_excluded(text, STR("api.example.com"), 443);
	(void)proxy_is_excluded(text, STR("fd00::1"), 443);
	if (!url_parse(text, &url, &err))
		return 0;
	assert(url.port >= 1 && url.port <= 65535 && url.host.len > 0);
	assert(url.host.ptr > text.ptr && url.host.ptr + url.host.len <= text.ptr + text.len);
	assert(url.path.len == 0 || url.path.ptr[0] == '/');
	assert(!str_contains(url.host, STR("/")) && !str_contains(url.host, STR("@")));
	return 0;
}
