#include "providers/hcloud/metadata.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

/* hcloud.md 11.9 */
static const char text[] = "- ip: 10.0.0.2\n"
			   "  alias_ips: []\n"
			   "  interface_num: 1\n"
			   "  mac_address: 86:00:00:98:40:6e\n"
			   "  network_id: 1234\n"
			   "  network_name: nw\n"
			   "  network: 10.0.0.0/8\n"
			   "  subnet: 10.0.0.0/24\n"
			   "  gateway: 10.0.0.1\n"
			   "- network_id: 99\n"
			   "  ip: 10.9.0.2\r\n"
			   "  network_id: 4711";

static void
finds_the_networks(void **state)
{
	(void)state;
	assert_true(hz_metadata_names_network(str_c(text), 1234));
	assert_true(hz_metadata_names_network(str_c(text), 99));
	/* the last line, which the official controller does not see */
	assert_true(hz_metadata_names_network(str_c(text), 4711));
}

static void
finds_no_others(void **state)
{
	(void)state;
	assert_false(hz_metadata_names_network(str_c(text), 123));
	assert_false(hz_metadata_names_network(str_c(text), 12345));
	assert_false(hz_metadata_names_network(str_c(text), 1));
	assert_false(hz_metadata_names_network(STR_EMPTY, 1));
	assert_false(hz_metadata_names_network(STR("x_network_id: 5\nnetwork_id: 6 7\n"), 5));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_the_networks),
		cmocka_unit_test(finds_no_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
