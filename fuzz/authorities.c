/* For any ConfigMap, the authorities are complete and bounded, or there are none. */
#include "serve/authorities.h"

#include <assert.h>

#include "base/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct str client_ca_pem;
	struct error err;

	if (authorities_read_map(str_n((const char *)data, size), &arena, &client_ca_pem, &err))
		assert(client_ca_pem.len <= LIMIT_CREDENTIAL);
	else
		assert(err.code == ERR_INVALID);
	return 0;
}
