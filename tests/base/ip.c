#include "base/ip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static struct ip
parse(const char *text)
{
	struct ip ip;

	if (!ip_parse(str_c(text), &ip))
		fail_msg("%s was refused", text);
	return ip;
}

static struct ip_net
parse_net(const char *text)
{
	struct ip_net net;

	if (!ip_net_parse(str_c(text), &net))
		fail_msg("%s was refused", text);
	return net;
}

static void
check(const char *text, const char *canonical)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(100);
	struct ip ip = parse(text);

	ip_format(&b, &ip);
	assert_string_equal(b.ptr, canonical);
}

static void
check_refused(struct str text)
{
	struct ip ip = { { 77 } };

	if (ip_parse(text, &ip))
		fail_msg("%" STR_FMT " was taken", STR_ARG(text));
	assert_int_equal(ip.bytes[0], 77);
}

static void
reads_ipv4(void **state)
{
	(void)state;
	check("192.168.20.11", "192.168.20.11");
	check("0.0.0.0", "0.0.0.0");
	check("255.255.255.255", "255.255.255.255");
	check("010.001.000.09", "10.1.0.9");
	check_refused(STR(""));
	check_refused(STR("1.2.3"));
	check_refused(STR("1.2.3.4.5"));
	check_refused(STR("1.2.3."));
	check_refused(STR("1..2.3"));
	check_refused(STR("256.1.1.1"));
	check_refused(STR("99999999999999999999.1.1.1"));
	check_refused(STR("-1.2.3.4"));
	check_refused(STR("-0.2.3.4"));
	check_refused(STR("1.2.3.4 "));
	check_refused(STR("0x1.2.3.4"));
	check_refused(STR("1.2.3.4\0"));
}

static void
reads_ipv6(void **state)
{
	(void)state;
	check("fd00:0020::F0", "fd00:20::f0");
	check("::", "::");
	check("::1", "::1");
	check("1::", "1::");
	check("::ffff:10.0.0.1", "10.0.0.1");
	check("::ffff:010.0.0.01", "10.0.0.1");
	check("::FFFF:a00:1", "10.0.0.1");
	check("64:ff9b::1.2.3.4", "64:ff9b::102:304");
	check("::1.2.3.4", "::102:304");
	check("1111:2222:3333:4444:5555:6666:123.123.123.123",
	      "1111:2222:3333:4444:5555:6666:7b7b:7b7b");
	check_refused(STR(":"));
	check_refused(STR("::%eth0"));
	check_refused(STR("fe80::1%eth0"));
	check_refused(STR(":::"));
	check_refused(STR("1::2::3"));
	check_refused(STR("12345::"));
	check_refused(STR("1:2:3:4:5:6:7"));
	check_refused(STR("1:2:3:4:5:6:7:8:9"));
	check_refused(STR("1:2:3:4:5:6:7:1.2.3.4"));
	check_refused(STR("::1.2.3"));
	check_refused(STR("::1.2.3.256"));
	check_refused(STR("1.2.3.4::"));
	check_refused(STR("[::1]"));
	check_refused(STR("::1\0"));
	check_refused(STR(
		"0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:1.2.3.4"));
}

static void
writes_rfc5952(void **state)
{
	(void)state;
	check("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"); /* 4.2.2: one group alone stays */
	check("2001:0:0:1:0:0:0:1", "2001:0:0:1::1");          /* 4.2.3: the longest */
	check("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1");    /* 4.2.3: else the first */
	check("0:0:1:0:0:0:0:0", "0:0:1::");
	check("0:1:2:3:4:5:6:7", "0:1:2:3:4:5:6:7");
	check("1:2:3:4:5:6:0:0", "1:2:3:4:5:6::");
	check("0:0:2:3:4:5:6:7", "::2:3:4:5:6:7");
}

static void
compares_whatever_the_spelling(void **state)
{
	struct ip a = parse("10.0.0.1"), mapped = parse("::ffff:a00:1"), b = parse("10.0.0.2");

	(void)state;
	assert_true(ip_eq(&a, &mapped));
	assert_false(ip_eq(&a, &b));
	assert_true(ip_cmp(&a, &b) < 0);
	assert_true(ip_cmp(&b, &a) > 0);
	assert_int_equal(ip_cmp(&a, &mapped), 0);
}

static void
a_machine_has_a_network_of_64_bits(void **state)
{
	struct ip a = parse("2001:db8::1"), b = parse("2001:db8::ffff:0:2"), v4 = parse("10.0.0.1");
	struct ip network = parse("2001:db8::"), source = ip_source(&a), source4 = ip_source(&v4);

	(void)state;
	assert_true(ip_eq(&source, &network));
	source = ip_source(&b);
	assert_true(ip_eq(&source, &network));
	assert_true(ip_eq(&source4, &v4));
}

static void
knows_families(void **state)
{
	struct ip v4 = parse("10.0.0.1"), mapped = parse("::ffff:1.2.3.4"), v6 = parse("fd00::1");
	struct ip any4 = parse("0.0.0.0"), any6 = parse("::");

	(void)state;
	assert_int_equal(ip_family(&v4), IP_V4);
	assert_int_equal(ip_family(&mapped), IP_V4);
	assert_int_equal(ip_family(&v6), IP_V6);
	assert_int_equal(ip_family(&any6), IP_V6);
	assert_true(ip_is_unspecified(&any4));
	assert_true(ip_is_unspecified(&any6));
	assert_false(ip_is_unspecified(&v4));
	assert_false(ip_is_unspecified(&v6));
}

static void
check_net_refused(struct str text)
{
	struct ip_net net;

	if (ip_net_parse(text, &net))
		fail_msg("%" STR_FMT " was taken", STR_ARG(text));
}

static void
reads_networks(void **state)
{
	(void)state;
	assert_int_equal(parse_net("10.0.0.0/8").bits, 104);
	assert_int_equal(parse_net("0.0.0.0/0").bits, 96);
	assert_int_equal(parse_net("::/0").bits, 0);
	assert_int_equal(parse_net("fd00::/64").bits, 64);
	assert_int_equal(parse_net("fd00::/128").bits, 128);
	check_net_refused(STR("10.0.0.0"));
	check_net_refused(STR("10.0.0.0/"));
	check_net_refused(STR("/8"));
	check_net_refused(STR("10.0.0.0/33"));
	check_net_refused(STR("fd00::/129"));
	check_net_refused(STR("10.0.0.0/-1"));
	check_net_refused(STR("10.0.0.0/+8"));
	check_net_refused(STR("10.0.0.0/8/8"));
	check_net_refused(STR("10.0.0.0/8 "));
}

static bool
contains(const char *net_text, const char *ip_text)
{
	struct ip_net net = parse_net(net_text);
	struct ip ip = parse(ip_text);

	return ip_net_contains(&net, &ip);
}

static void
networks_contain(void **state)
{
	(void)state;
	assert_true(contains("10.0.0.0/8", "10.255.0.1"));
	assert_false(contains("10.0.0.0/8", "11.0.0.0"));
	assert_true(contains("192.0.2.8/29", "192.0.2.15"));
	assert_false(contains("192.0.2.8/29", "192.0.2.16"));
	assert_false(contains("192.0.2.8/29", "192.0.2.7"));
	assert_true(contains("192.0.2.9/29", "192.0.2.8"));
	assert_true(contains("192.0.2.1/32", "192.0.2.1"));
	assert_false(contains("192.0.2.1/32", "192.0.2.0"));
	assert_true(contains("0.0.0.0/0", "1.2.3.4"));
	assert_true(contains("::ffff:10.0.0.0/104", "10.1.2.3"));
	assert_true(contains("fd00:0:0:8000::/49", "fd00:0:0:ffff::"));
	assert_false(contains("fd00:0:0:8000::/49", "fd00:0:0:7fff::"));
	assert_true(contains("::/0", "fd00::1"));
	assert_false(contains("::/0", "1.2.3.4"));
	assert_false(contains("0.0.0.0/0", "fd00::1"));
}

static void
knows_host_bits(void **state)
{
	struct ip_net clean = parse_net("10.1.0.0/16"), host = parse_net("10.1.0.1/16");
	struct ip_net odd = parse_net("10.1.128.0/17"), odd_host = parse_net("10.1.192.0/17");
	struct ip_net whole = parse_net("fd00::1/128"), all = parse_net("::/0");

	(void)state;
	assert_false(ip_net_has_host_bits(&clean));
	assert_true(ip_net_has_host_bits(&host));
	assert_false(ip_net_has_host_bits(&odd));
	assert_true(ip_net_has_host_bits(&odd_host));
	assert_false(ip_net_has_host_bits(&whole));
	assert_false(ip_net_has_host_bits(&all));
}

static void
a_network_is_within_a_wider_one_of_its_family(void **state)
{
	struct ip_net wide = parse_net("10.244.0.0/16"), part = parse_net("10.244.1.7/24");
	struct ip_net wider = parse_net("10.244.0.0/15"), all6 = parse_net("::/0");
	const struct ip_net both[] = { all6, wide };

	(void)state;
	assert_true(ip_net_is_within(&part, &wide));
	assert_true(ip_net_is_within(&wide, &wide));
	assert_false(ip_net_is_within(&wide, &part));
	assert_false(ip_net_is_within(&wider, &wide)); /* though it begins there */
	assert_false(ip_net_is_within(&part, &all6));
	assert_true(ip_net_is_within_any(&part, both, 2));
	assert_false(ip_net_is_within_any(&wider, both, 2));
	assert_false(ip_net_is_within_any(&part, both, 0));
}

static void
a_network_is_written_with_its_own_prefix(void **state)
{
	static const char *const nets[] = { "10.244.0.0/16", "0.0.0.0/0", "fd00::/64", "::/0" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(nets); i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(100);
		struct ip_net net = parse_net(nets[i]);

		ip_net_format(&b, &net);
		assert_string_equal(b.ptr, nets[i]);
	}
}

static void
check_span(const char *net, const char *first, const char *last)
{
	char text[128] = "";
	struct buf b = BUF_FIXED(text);
	struct ip_net parsed = parse_net(net);
	struct ip ends[2];

	ip_net_span(&parsed, &ends[0], &ends[1]);
	ip_format(&b, &ends[0]);
	assert_string_equal(text, first);
	buf_reset(&b);
	ip_format(&b, &ends[1]);
	assert_string_equal(text, last);
}

static void
networks_have_ends(void **state)
{
	(void)state;
	check_span("10.1.2.3/16", "10.1.0.0", "10.1.255.255");
	check_span("10.1.192.0/17", "10.1.128.0", "10.1.255.255");
	check_span("10.0.0.7/32", "10.0.0.7", "10.0.0.7");
	check_span("0.0.0.0/0", "0.0.0.0", "255.255.255.255");
	check_span("fd00::1/64", "fd00::", "fd00::ffff:ffff:ffff:ffff");
	check_span("::/0", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_ipv4),
		cmocka_unit_test(reads_ipv6),
		cmocka_unit_test(writes_rfc5952),
		cmocka_unit_test(compares_whatever_the_spelling),
		cmocka_unit_test(a_machine_has_a_network_of_64_bits),
		cmocka_unit_test(knows_families),
		cmocka_unit_test(reads_networks),
		cmocka_unit_test(networks_contain),
		cmocka_unit_test(knows_host_bits),
		cmocka_unit_test(networks_have_ends),
		cmocka_unit_test(a_network_is_within_a_wider_one_of_its_family),
		cmocka_unit_test(a_network_is_written_with_its_own_prefix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
