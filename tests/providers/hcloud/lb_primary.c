#include "providers/hcloud/lb_primary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "lb_case.h"

#define V4 "load-balancer.hetzner.cloud/public-net-ipv4: "
#define V6 "load-balancer.hetzner.cloud/public-net-ipv6: "

static void
check_error(const struct error *err, enum err_code code, const char *msg)
{
	if (err->code != code || strcmp(err->msg, msg) != 0)
		fail_msg("%d \"%s\" and not %d \"%s\"", (int)err->code, err->msg, (int)code, msg);
}

/* ---- annotations ---- */

/* msg NULL: they are accepted, and ask for that ID. */
static void
check_annotation(const char *key, const char *value, int64_t id, const char *msg)
{
	CLEANUP(lb_case_fini) struct lb_case c;
	struct hz_lb_desired desired;
	struct error err;
	bool is_v4 = strcmp(key, "public-net-ipv4") == 0;
	bool ok;

	lb_case_init(&c);
	lb_case_note(&c, key, value);
	desired = lb_case_desired(&c, 0);
	ok = hz_primary_check_annotations(&desired, &err);
	assert_int_equal(ok, !msg);
	assert_true(desired.primary_ips[is_v4 ? HZ_FAMILY_V4 : HZ_FAMILY_V6].is_set);
	assert_false(desired.primary_ips[is_v4 ? HZ_FAMILY_V6 : HZ_FAMILY_V4].is_set);
	assert_int_equal(desired.primary_ips[is_v4 ? HZ_FAMILY_V4 : HZ_FAMILY_V6].id, id);
	if (msg)
		check_error(&err, ERR_INVALID, msg);
}

static void
annotations_are_positive_numbers(void **state)
{
	(void)state;
	check_annotation("public-net-ipv4", "4711", 4711, NULL);
	check_annotation("public-net-ipv6", " 9223372036854775807 ", INT64_MAX, NULL);
	check_annotation("public-net-ipv4", "0", 0,
	                 V4 "\"0\" is not the ID of a Primary IP, which is a positive number");
	check_annotation("public-net-ipv6", "-1", 0,
	                 V6 "\"-1\" is not the ID of a Primary IP, which is a positive number");
	check_annotation("public-net-ipv6", "", 0,
	                 V6 "\"\" is not the ID of a Primary IP, which is a positive number");
	check_annotation("public-net-ipv4", "9223372036854775808", 0,
	                 V4 "\"9223372036854775808\" is not the ID of a Primary IP, which is a "
	                    "positive number");
}

static void
no_address_without_the_public_interface(void **state)
{
	CLEANUP(lb_case_fini) struct lb_case c;
	struct hz_lb_desired desired;
	struct error err;

	(void)state;
	lb_case_init(&c);
	lb_case_note(&c, "public-net-ipv4", "4711");
	c.config.lb.hides_public = HZ_YES;
	desired = lb_case_desired(&c, 0);
	assert_false(hz_primary_check_annotations(&desired, &err));
	check_error(&err, ERR_INVALID,
	            V4 "a load balancer whose public interface is disabled cannot have a Primary "
	               "IP: remove this annotation, or disable-public-network");
	lb_case_note(&c, "disable-public-network", "false");
	desired = lb_case_desired(&c, 0);
	assert_true(hz_primary_check_annotations(&desired, &err));
}

/* ---- Primary IPs ---- */

static const struct hz_primary_ip usable = {
	.id = 4711,
	.ip = STR("203.0.113.7"),
	.type = STR("ipv4"),
	.location = STR("fsn1"),
	.network_zone = STR("eu-central"),
	.assignee_type = STR("load_balancer"),
};

static const struct hz_lb_desired in_fsn1 = { .location = STR("fsn1") };

static void
check_ip(const struct hz_primary_ip *ip, enum hz_family family, const struct hz_lb_desired *desired,
         const char *owner, enum err_code code, const char *msg)
{
	struct error err;

	assert_false(hz_primary_check_ip(ip, family, desired, str_c(owner), &err));
	check_error(&err, code, msg);
}

static void
an_address_has_its_family_and_place(void **state)
{
	static const struct hz_lb_desired in_zone = { .network_zone = STR("eu-central") };
	static const struct hz_lb_desired elsewhere = { .location = STR("ash") };
	static const struct hz_lb_desired other_zone = { .network_zone = STR("us-east") };
	struct error err;

	(void)state;
	assert_true(hz_primary_check_ip(&usable, HZ_FAMILY_V4, &in_fsn1, STR_EMPTY, &err));
	assert_true(hz_primary_check_ip(&usable, HZ_FAMILY_V4, &in_zone, STR_EMPTY, &err));
	check_ip(&usable, HZ_FAMILY_V6, &in_fsn1, "", ERR_INVALID,
	         V6 "Primary IP 4711 (203.0.113.7) is of type ipv4");
	check_ip(&usable, HZ_FAMILY_V4, &elsewhere, "", ERR_INVALID,
	         V4 "Primary IP 4711 (203.0.113.7) is in fsn1, but the load balancer is to be "
	            "created in ash");
	check_ip(&usable, HZ_FAMILY_V4, &other_zone, "", ERR_INVALID,
	         V4 "Primary IP 4711 (203.0.113.7) is in fsn1, but the load balancer is to be "
	            "created in us-east");
}

static void
an_address_has_one_owner(void **state)
{
	struct hz_primary_ip taken = usable;

	(void)state;
	taken.assignee = 7;
	check_ip(&taken, HZ_FAMILY_V4, &in_fsn1, "default/web", ERR_INVALID,
	         V4 "Primary IP 4711 (203.0.113.7) is in use by the load balancer of the Service "
	            "default/web");
	check_ip(&taken, HZ_FAMILY_V4, &in_fsn1, "", ERR_EXISTS,
	         V4 "Primary IP 4711 (203.0.113.7) is in use by load balancer 7");
	taken.assignee_type = STR("server");
	check_ip(&taken, HZ_FAMILY_V4, &in_fsn1, "", ERR_INVALID,
	         V4 "Primary IP 4711 (203.0.113.7) is in use by server 7");
}

static void
check_read(const char *text, bool is_read, int64_t assignee)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct hz_primary_ip ip = { 0 };
	struct error err;

	assert_true(json_parse(str_c(text), &doc, &err));
	assert_int_equal(hz_primary_ip_read(yyjson_doc_get_root(doc), &arena, &ip, &err), is_read);
	assert_int_equal(ip.assignee, assignee);
}

static void
members_may_be_missing_but_not_the_id(void **state)
{
	(void)state;
	check_read("{\"id\":1,\"assignee_id\":null}", true, 0);
	check_read("{\"id\":1,\"assignee_id\":7,\"location\":null,\"type\":3}", true, 7);
	check_read("{\"ip\":\"203.0.113.7\"}", false, 0);
	check_read("{\"id\":0}", false, 0);
}

static void
refusals_about_addresses_are_known_by_their_code(void **state)
{
	(void)state;
	assert_true(hz_primary_is_refusal("primary_ip_assigned"));
	assert_true(hz_primary_is_refusal("primary_ip_version_mismatch"));
	assert_false(hz_primary_is_refusal("invalid_input"));
	assert_false(hz_primary_is_refusal(""));
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(annotations_are_positive_numbers),
		cmocka_unit_test(no_address_without_the_public_interface),
		cmocka_unit_test(an_address_has_its_family_and_place),
		cmocka_unit_test(an_address_has_one_owner),
		cmocka_unit_test(members_may_be_missing_but_not_the_id),
		cmocka_unit_test(refusals_about_addresses_are_known_by_their_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
