/* Whatever the ConfigMap says, it comes out whole or not at all, and what comes out are header names. */
#include "serve/auth_config.h"

#include <assert.h>
#include <string.h>

#include "base/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_list(struct access_list list)
{
	assert(list.n <= LIMIT_HEADER_NAMES);
	for (size_t i = 0; i < list.n; i++) {
		assert(list.items[i].len > 0 && list.items[i].len <= LIMIT_NAME);
		assert(strlen(list.items[i].ptr) == list.items[i].len);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct auth_data d;
	struct error err;

	if (!auth_data_read(str_n((const char *)data, size), &arena, &d, &err)) {
		assert(err.code == ERR_INVALID);
		return 0;
	}
	assert(d.client_ca_pem.len <= LIMIT_CREDENTIAL && d.front_ca_pem.len <= LIMIT_CREDENTIAL);
	check_list(d.names.proxies);
	check_list(d.names.username_headers);
	check_list(d.names.uid_headers);
	check_list(d.names.group_headers);
	check_list(d.names.extra_prefixes);
	return 0;
}
