/* metadata.c: see metadata.h. */
#include "providers/hcloud/metadata.h"

#include "base/limits.h"

enum {
	TIMEOUT_MS = 5000,
};

/* "  network_id: 1234", or with the "- " of a list's item. */
static bool
is_id_line(struct str line, int64_t network)
{
	struct str key, value;
	int64_t id;

	line = str_trim(line);
	if (str_starts(line, STR("- ")))
		line = str_trim(str_skip(line, 2));
	return str_cut(line, ':', &key, &value) && str_eq_c(key, "network_id") &&
	       str_to_i64(str_trim(value), 0, INT64_MAX, &id) && id == network;
}

bool
hz_metadata_names_network(struct str text, int64_t network)
{
	for (struct str line; str_split(&text, '\n', &line);) {
		if (is_id_line(line, network))
			return true;
	}
	return false;
}

bool
hz_metadata_is_attached(struct http_client *http, struct call *call, int64_t network, bool *ret,
                        struct error *err)
{
	CLEANUP(http_response_fini) struct http_response response = HTTP_RESPONSE_INIT;
	struct http_request request = {
		.method = HTTP_GET,
		.target = STR("/private-networks"),
		.accept = "*/*",
		.timeout_ms = TIMEOUT_MS,
		.max_body = MIB(1),
	};

	if (!http_do(http, call, &request, &response, err))
		return false;
	if (response.status < 200 || response.status >= 300)
		return err_set(err, ERR_UNAVAILABLE, "response status was %d", response.status);
	*ret = hz_metadata_names_network(buf_str(&response.body), network);
	return true;
}
