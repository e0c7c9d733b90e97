/* The first byte selects the HTTP status; the rest is the body of the answer. The result is always
 * an error with a printable text. */
#include "kube/client.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_text(const char *text)
{
	for (size_t i = 0; text[i]; i++)
		assert((unsigned char)text[i] >= ' ' && text[i] != 0x7f);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int statuses[] = {
		200, 302, 401, 403, 404, 409, 410, 422, 429, 500, 503, 504
	};
	struct http_request request = { .method = HTTP_GET, .target = STR("/api/v1/nodes") };
	struct str body = str_skip(str_n((const char *)data, size), 1);
	struct error err = { .code = ERR_NONE };
	int status;

	if (size == 0)
		return 0;
	status = statuses[data[0] % ARRAY_LEN(statuses)];
	assert(!kube_status_error(&err, &request, status, 0, body));
	assert(err.code != ERR_NONE && err.http_status == status && err.retry_after_ms >= 0);
	check_text(err.msg);
	return 0;
}
