#include "providers/hcloud/provider_id.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void
check(const struct hz_dialect *dialect, const char *text, enum hz_kind kind, int64_t number)
{
	struct error err;
	struct hz_id id;

	if (!hz_id_parse(dialect, str_c(text), &id, &err))
		fail_msg("%s: %s", text, err.msg);
	assert_int_equal(id.kind, kind);
	assert_int_equal(id.number, number);
}

static void
check_bad(const struct hz_dialect *dialect, const char *text, enum err_code code, const char *msg)
{
	struct error err;
	struct hz_id id;

	assert_false(hz_id_parse(dialect, str_c(text), &id, &err));
	assert_int_equal(err.code, code);
	if (msg)
		assert_string_equal(err.msg, msg);
}

/* hcloud.md 2.1 */
static void
reads_all_forms(void **state)
{
	(void)state;
	check(&hz_official, "hcloud://1234", HZ_CLOUD, 1234);
	check(&hz_official, "hcloud://+5", HZ_CLOUD, 5);
	check(&hz_official, "hcloud://9007199254740991", HZ_CLOUD, 9007199254740991);
	check(&hz_official, "hcloud://hcloud://1", HZ_CLOUD, 1);
	check(&hz_official, "hrobot://321", HZ_ROBOT, 321);
	check(&hz_official, "hcloud://bm-321", HZ_ROBOT, 321);
}

static void
says_what_is_wrong(void **state)
{
#define EXPECTED                                                      \
	"Provider ID does not have one of the the expected prefixes " \
	"(hcloud://, hrobot://, hcloud://bm-): "
	(void)state;
	check_bad(&hz_official, "", ERR_UNSUPPORTED, EXPECTED);
	check_bad(&hz_official, "aws:///i-1", ERR_UNSUPPORTED, EXPECTED "aws:///i-1");
	check_bad(&hz_official, "hcloud-from-scratch://1", ERR_UNSUPPORTED, NULL);
	check_bad(&hz_official, "hcloud://", ERR_INVALID,
	          "providerID is missing a serverID: hcloud://");
	check_bad(&hz_official, "hcloud://bm-", ERR_INVALID,
	          "providerID is missing a serverID: hcloud://bm-");
	check_bad(&hz_official, "hcloud://x", ERR_INVALID, "unable to parse server id: hcloud://x");
	check_bad(&hz_official, "hcloud://1x", ERR_INVALID, NULL);
	check_bad(&hz_official, "hcloud://9223372036854775808", ERR_INVALID, NULL);
	check_bad(&hz_official, "hcloud://+-1", ERR_INVALID, NULL);
	/* no server has such a number, and that must not become "not found" */
	check_bad(&hz_official, "hcloud://-1", ERR_INVALID, NULL);
	check_bad(&hz_official, "hcloud://0", ERR_INVALID, NULL);
}

static void
the_tutorials_read_each_other(void **state)
{
	(void)state;
	check(&hz_tutorial, "hcloud-from-scratch://7", HZ_CLOUD, 7);
	check(&hz_tutorial, "ccm-from-scratch://7", HZ_CLOUD, 7);
	check(&hz_tutorial_text, "hcloud-from-scratch://7", HZ_CLOUD, 7);
	check_bad(&hz_tutorial, "hcloud://7", ERR_UNSUPPORTED, NULL);
	check_bad(&hz_tutorial, "hrobot://7", ERR_UNSUPPORTED, NULL);
}

static void
check_written(const struct hz_dialect *dialect, struct hz_id id, const char *text)
{
	char memory[64] = "";
	struct buf b = BUF_FIXED(memory);

	hz_id_format(&b, dialect, id);
	assert_string_equal(b.ptr, text);
}

static void
writes_each_its_own(void **state)
{
	(void)state;
	check_written(&hz_official, (struct hz_id){ HZ_CLOUD, 7 }, "hcloud://7");
	check_written(&hz_official, (struct hz_id){ HZ_ROBOT, 7 }, "hrobot://7");
	check_written(&hz_tutorial, (struct hz_id){ HZ_CLOUD, 7 }, "hcloud-from-scratch://7");
	check_written(&hz_tutorial_text, (struct hz_id){ HZ_CLOUD, 7 }, "ccm-from-scratch://7");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_all_forms),
		cmocka_unit_test(says_what_is_wrong),
		cmocka_unit_test(the_tutorials_read_each_other),
		cmocka_unit_test(writes_each_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
