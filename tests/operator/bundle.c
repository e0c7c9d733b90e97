/* What is replaced in a bundle, and what stays. */
#include "operator/bundle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define OWN "s3cr3t/of+this=process"
#define HCLOUD_LIKE "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hI7kL9mN1oP3qR5sT7uV9wX1yZ3aB"
#define JWT "eyJhbGciOiJSUzI1NiJ9.eyJleHAiOjE3MDB9.c2lnbmF0dXJl_x-y"

static const char *
redacted(const char *text)
{
	static char memory[4096];
	struct buf out = BUF_FIXED(memory);
	const struct str secrets[] = { STR(OWN) };

	memory[0] = '\0';
	bundle_redact(str_c(text), secrets, ARRAY_LEN(secrets), &out);
	return out.ptr;
}

static void
secrets_are_replaced(void **state)
{
	static const struct {
		const char *text, *secret;
	} cases[] = {
		{ "{\"a\":\"" OWN "\"}", OWN },
		{ "header Authorization: Bearer abcdefgh, sent", "abcdefgh" },
		{ "Basic dXNlcjpwdw==", "dXNlcjpwdw" },
		{ "a token " HCLOUD_LIKE " in a text", HCLOUD_LIKE },
		{ "\"" JWT "\"", JWT },
		{ "x " JWT, "c2lnbmF0dXJl" },
		{ "-----BEGIN EC PRIVATE KEY-----\\nMHcCAQEE\\n-----END EC PRIVATE KEY-----\\n",
		  "MHcCAQEE" },
		{ "-----BEGIN PRIVATE KEY-----\\nMHcCAQEE", "MHcCAQEE" },
		{ "https://user:passw@proxy:3128/x", "passw" },
		{ "?token=abcdef123&x=1", "abcdef123" },
		{ "{\"password\":\"hunter22\"}", "hunter22" },
		{ "{\\\"Secret\\\":\\\"hunter22\\\"}", "hunter22" },
		{ "ROBOT_PASSWORD=hunter22 ", "hunter22" },
		{ "msg=\\\"a\\\" token=\\\"hunter22\\\"", "hunter22" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *text = redacted(cases[i].text);

		if (strstr(text, cases[i].secret) || !strstr(text, "[redacted]"))
			fail_msg("%s -> %s", cases[i].text, text);
	}
}

static void
what_surrounds_them_stays(void **state)
{
	static const char *const texts[] = {
		"",
		"node worker-1 (10.0.0.1) has provider ID hcloud://4711",
		"uid 6f1f4c9e-7f51-4a9c-9a57-1b0b1f0b7c11",
		"image sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"set HCLOUD_TOKEN_FILE to a file; the token is missing",
		"https://[fd00::1]:6443/api/v1/nodes?limit=1",
		"kubectl -n default annotate service web ccmd.io/repair=1",
		"-----BEGIN CERTIFICATE-----\\nMIIB\\n-----END CERTIFICATE-----",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		assert_string_equal(redacted(texts[i]), texts[i]);
	assert_string_equal(redacted("{\"a\":\"Bearer abcdefgh\",\"b\":1}"),
	                    "{\"a\":\"Bearer [redacted]\",\"b\":1}");
	assert_string_equal(redacted("http://u:p@h/x"), "http://[redacted]@h/x");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(secrets_are_replaced),
		cmocka_unit_test(what_surrounds_them_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
