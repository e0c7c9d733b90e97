#include "providers/hcloud/balancers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "lb_case.h"

/* A balancer with all there is. */
static struct hz_private_net nets[] = { { 4711, STR("10.0.0.5") }, { 4712, STR("10.1.0.5") } };
static const struct hz_lb whole = {
	.is_public = true,
	.ipv4 = { .ip = STR("203.0.113.7") },
	.ipv6 = { .ip = STR("2001:db8::1") },
	.nets = { nets, ARRAY_LEN(nets) },
};

static const char *
mode_text(enum lb_ip_mode mode)
{
	static const char *const texts[] = {
		[LB_IP_MODE_NONE] = "",
		[LB_IP_MODE_VIP] = "VIP",
		[LB_IP_MODE_PROXY] = "Proxy",
	};

	return texts[mode];
}

/* All entries as "ip hostname mode;". */
static void
check(struct lb_case *c, const struct hz_lb *lb, const char *wanted)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(4));
	struct lb_status status;

	hz_lb_status(&c->config, &c->spec, lb, &c->arena, &status);
	for (size_t i = 0; i < status.n_ingress; i++)
		buf_addf(&b, "%" STR_FMT " %" STR_FMT " %s;", STR_ARG(status.ingress[i].ip),
		         STR_ARG(status.ingress[i].hostname), mode_text(status.ingress[i].ip_mode));
	assert_string_equal(b.ptr, wanted);
}

static void
check_with(const char *key, const char *value, const char *wanted)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	lb_case_init(&c);
	lb_case_note(&c, key, value);
	check(&c, &whole, wanted);
}

#define V4 "203.0.113.7  VIP;"
#define V6 "2001:db8::1  VIP;"
#define PRIVATE "10.0.0.5  VIP;10.1.0.5  VIP;"

static void
names_all_addresses_in_order(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	(void)state;
	lb_case_init(&c);
	check(&c, &whole, V4 V6 PRIVATE);
}

static void
names_what_there_is(void **state)
{
	struct hz_lb lb = whole;
	CLEANUP(lb_case_fini) struct lb_case c;

	(void)state;
	lb_case_init(&c);
	lb.nets.n = 0;
	check(&c, &lb, V4 V6);
	lb.ipv4.ip = STR_EMPTY;
	check(&c, &lb, V6);
	lb.ipv6.ip = STR_EMPTY;
	check(&c, &lb, "");
}

static void
a_hidden_interface_has_no_addresses(void **state)
{
	struct hz_lb lb = whole;
	CLEANUP(lb_case_fini) struct lb_case c;

	(void)state;
	lb_case_init(&c);
	lb.is_public = false;
	check(&c, &lb, PRIVATE);
}

static void
ipv6_may_be_left_out(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	(void)state;
	check_with("ipv6-disabled", "true", V4 PRIVATE);
	lb_case_init(&c);
	c.config.lb.hides_ipv6 = true;
	check(&c, &whole, V4 PRIVATE);
	lb_case_note(&c, "ipv6-disabled", "false");
	check(&c, &whole, V4 V6 PRIVATE);
}

static void
so_may_private_addresses(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	(void)state;
	check_with("disable-private-ingress", "true", V4 V6);
	lb_case_init(&c);
	c.config.lb.hides_private = true;
	check(&c, &whole, V4 V6);
	lb_case_note(&c, "disable-private-ingress", "0");
	check(&c, &whole, V4 V6 PRIVATE);
}

static void
the_proxy_protocol_makes_the_mode(void **state)
{
	(void)state;
#define PROXIED "203.0.113.7  Proxy;2001:db8::1  Proxy;10.0.0.5  Proxy;10.1.0.5  Proxy;"
	CLEANUP(lb_case_fini) struct lb_case c;

	check_with("uses-proxyprotocol", "true", PROXIED);
	lb_case_init(&c);
	c.config.lb.uses_proxy_protocol = HZ_YES;
	check(&c, &whole, PROXIED);
	lb_case_note(&c, "uses-proxyprotocol", "false");
	check(&c, &whole, V4 V6 PRIVATE);
}

static void
a_hostname_stands_alone(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	(void)state;
	check_with("hostname", "web.example.com", " web.example.com ;");
	check_with("hostname", "", "  ;");
	lb_case_init(&c);
	lb_case_note(&c, "uses-proxyprotocol", "true");
	lb_case_note(&c, "hostname", "web.example.com");
	check(&c, &whole, " web.example.com ;");
}

static void
unreadable_annotations_do_not_count(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c;

	(void)state;
	check_with("ipv6-disabled", "yes", V4 V6 PRIVATE);
	check_with("disable-private-ingress", "", V4 V6 PRIVATE);
	lb_case_init(&c);
	c.config.lb.uses_proxy_protocol = HZ_YES;
	lb_case_note(&c, "uses-proxyprotocol", "no");
	check(&c, &whole, PROXIED);
}

static void
check_told(const char *key, const char *msg)
{
	CLEANUP(lb_case_fini) struct lb_case c;
	struct error err;

	lb_case_init(&c);
	assert_true(hz_lb_status_check(&c.spec, &err));
	lb_case_note(&c, key, "true");
	assert_true(hz_lb_status_check(&c.spec, &err));
	c.annotations[0].value = STR("yes");
	assert_false(hz_lb_status_check(&c.spec, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_string_equal(err.msg, msg);
	lb_case_note(&c, "hostname", ""); /* then they are of no use */
	assert_true(hz_lb_status_check(&c.spec, &err));
}

static void
unreadable_annotations_are_reported(void **state)
{
	(void)state;
#define UNREADABLE(key)                                                                       \
	"hcloud/loadBalancers.getLoadBalancerStatusIngress: annotation/Name.BoolFromService:" \
	" load-balancer.hetzner.cloud/" key ": strconv.ParseBool: parsing \"yes\": invalid syntax"
	check_told("uses-proxyprotocol", UNREADABLE("uses-proxyprotocol"));
	check_told("ipv6-disabled", UNREADABLE("ipv6-disabled"));
	check_told("disable-private-ingress", UNREADABLE("disable-private-ingress"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_all_addresses_in_order),
		cmocka_unit_test(names_what_there_is),
		cmocka_unit_test(a_hidden_interface_has_no_addresses),
		cmocka_unit_test(ipv6_may_be_left_out),
		cmocka_unit_test(so_may_private_addresses),
		cmocka_unit_test(the_proxy_protocol_makes_the_mode),
		cmocka_unit_test(a_hostname_stands_alone),
		cmocka_unit_test(unreadable_annotations_do_not_count),
		cmocka_unit_test(unreadable_annotations_are_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
