/* Any output of a plugin gives a credential that can be sent, or an error that says what is wrong.
 */
#include "kube/credentials.h"

#include <assert.h>

#define VERSION "client.authentication.k8s.io/v1"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_token(struct str token)
{
	for (size_t i = 0; i < token.len; i++)
		assert(token.ptr[i] > ' ' && token.ptr[i] <= '~');
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct exec_credential credential = { 0 };
	struct error err;

	if (!exec_credential_parse(str_n((const char *)data, size), STR(VERSION), &credential,
	                           &err)) {
		assert(err.code == ERR_INVALID && err.msg[0] != '\0');
		assert(!secret_is_set(&credential.token) && !secret_is_set(&credential.key_pem));
		return 0;
	}
	assert(secret_is_set(&credential.token) || secret_is_set(&credential.cert_pem));
	assert(secret_is_set(&credential.cert_pem) == secret_is_set(&credential.key_pem));
	check_token(secret_expose(&credential.token));
	exec_credential_fini(&credential);
	return 0;
}
