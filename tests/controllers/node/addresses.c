/* tests/controllers/node/addresses.c: which addresses a node gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controllers/node/addresses.h"

#define INTERNAL(a) { STR("InternalIP"), STR(a) }
#define EXTERNAL(a) { STR("ExternalIP"), STR(a) }
#define HOSTNAME(a) { STR("Hostname"), STR(a) }

static struct arena arena;

/* node_annotation() is a look-up over the node's list: the real one, linked in. */
static struct node
node_with(struct address *addresses, size_t n, struct label *annotation)
{
	return (struct node){
		.object.key = STR("n1"),
		.addresses = addresses,
		.n_addresses = (uint32_t)n,
		.annotations = annotation,
		.n_annotations = annotation ? 1 : 0,
	};
}

/* "InternalIP=10.0.0.1 Hostname=n1" */
static const char *
plan_text(const struct node *node, const struct instance *instance)
{
	struct address_list list;
	struct buf b = BUF_INIT(4096);
	struct error err;
	struct str text;

	if (!addresses_plan(node, instance, &arena, &list, &err)) {
		text = arena_printf(&arena, "error: %s", err.msg);
		return text.ptr;
	}
	for (size_t i = 0; i < list.n; i++)
		buf_addf(&b, "%s%" STR_FMT "=%" STR_FMT, i ? " " : "", STR_ARG(list.items[i].type),
		         STR_ARG(list.items[i].address));
	text = arena_str(&arena, buf_str(&b));
	buf_fini(&b);
	return text.ptr;
}

static void
expect(const char *annotation, struct address *old, size_t n_old, const struct address *cloud,
       size_t n_cloud, const char *wanted)
{
	struct label label = { STR(NODE_ANNOTATION_PROVIDED_IP), str_c(annotation) };
	struct node node = node_with(old, n_old, annotation ? &label : NULL);
	struct instance instance = { .presence = PRESENCE_PRESENT,
		                     .addresses = cloud,
		                     .n_addresses = n_cloud };

	assert_string_equal(plan_text(&node, &instance), wanted);
	arena_reset(&arena);
}

static void
the_clouds_list_is_taken_in_its_order(void **state)
{
	const struct address cloud[] = { EXTERNAL("1.2.3.4"), INTERNAL("10.0.0.1"),
		                         HOSTNAME("m1") };
	struct address old[] = { INTERNAL("10.0.0.9"), HOSTNAME("n1") };

	(void)state;
	expect(NULL, old, 2, cloud, 3, "ExternalIP=1.2.3.4 InternalIP=10.0.0.1 Hostname=m1");
	expect(NULL, old, 2, NULL, 0, "");
}

static void
hostnames_of_the_kubelet_survive_at_the_end(void **state)
{
	const struct address cloud[] = { INTERNAL("10.0.0.1") };
	struct address old[] = { HOSTNAME("n1"),
		                 INTERNAL("10.0.0.9"),
		                 HOSTNAME("n1.lan"),
		                 { STR("ExternalDNS"), STR("stale.example") } };

	(void)state;
	expect(NULL, old, 4, cloud, 1, "InternalIP=10.0.0.1 Hostname=n1 Hostname=n1.lan");
}

static void
a_provided_ip_comes_first_and_alone_of_its_type(void **state)
{
	const struct address cloud[] = {
		INTERNAL("10.0.0.1"),    INTERNAL("10.0.0.2"),
		INTERNAL("fd00::2"),     EXTERNAL("198.51.100.1"),
		EXTERNAL("2001:db8::1"), { STR("InternalDNS"), STR("n1.lab") }
	};
	struct address old[] = { HOSTNAME("n1") };
	static const char *const cases[][2] = {
#define REST " ExternalIP=198.51.100.1 ExternalIP=2001:db8::1 InternalDNS=n1.lab Hostname=n1"
		{ "10.0.0.2", "InternalIP=10.0.0.2" REST },
		{ "fd00::2", "InternalIP=fd00::2" REST },
		{ "fd00:0:0::0002", "InternalIP=fd00::2" REST },
		{ "::ffff:10.0.0.2", "InternalIP=10.0.0.2" REST },
		{ "010.000.000.002", "InternalIP=10.0.0.2" REST },
		{ "fd00::2,10.0.0.1", "InternalIP=fd00::2 InternalIP=10.0.0.1" REST },
		{ "10.0.0.1,fd00::2", "InternalIP=10.0.0.1 InternalIP=fd00::2" REST },
		{ "198.51.100.1", "ExternalIP=198.51.100.1 InternalIP=10.0.0.1 InternalIP=10.0.0.2 "
		                  "InternalIP=fd00::2 InternalDNS=n1.lab Hostname=n1" },
		{ "10.0.0.2,2001:db8::1", "InternalIP=10.0.0.2 ExternalIP=2001:db8::1 "
		                          "InternalDNS=n1.lab Hostname=n1" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		expect(cases[i][0], old, 1, cloud, ARRAY_LEN(cloud), cases[i][1]);
}

#define BAD(annotation, why)                                                                          \
	"error: provided node ip for node \"n1\" is not valid: failed to parse node IP \"" annotation \
	"\": " why

static void
a_malformed_annotation_is_an_error(void **state)
{
	const struct address cloud[] = { INTERNAL("10.0.0.1"), INTERNAL("fd00::1") };

	(void)state;
	expect("", NULL, 0, cloud, 2, BAD("", "could not parse \"\""));
	expect("nonsense", NULL, 0, cloud, 2, BAD("nonsense", "could not parse \"nonsense\""));
	expect("10.0.0.1,::ffff:10.0.0.2", NULL, 0, cloud, 2,
	       BAD("10.0.0.1,::ffff:10.0.0.2",
	           "must contain either a single IP or a dual-stack pair of IPs"));
	expect("10.0.0.1, fd00::1", NULL, 0, cloud, 2,
	       BAD("10.0.0.1, fd00::1", "could not parse \" fd00::1\""));
	expect("10.0.0.1,10.0.0.2", NULL, 0, cloud, 2,
	       BAD("10.0.0.1,10.0.0.2",
	           "must contain either a single IP or a dual-stack pair of IPs"));
	expect("10.0.0.1,fd00::1,fd00::2", NULL, 0, cloud, 2,
	       BAD("10.0.0.1,fd00::1,fd00::2",
	           "must contain either a single IP or a dual-stack pair of IPs"));
	expect("0.0.0.0,fd00::1", NULL, 0, cloud, 2,
	       BAD("0.0.0.0,fd00::1", "dual-stack node IP cannot include '0.0.0.0' or '::'"));
}

#define NO_MATCH(ip)                                                                                                 \
	"error: provided node ip for node \"n1\" is not valid: failed to get node address from cloud provider that " \
	"matches ip: " ip

static void
an_ip_that_the_cloud_does_not_know_is_an_error(void **state)
{
	const struct address cloud[] = { INTERNAL("10.0.0.1") };
	struct address old[] = { HOSTNAME("10.0.0.7") };

	(void)state;
	expect("10.0.0.7", old, 1, cloud, 1, NO_MATCH("10.0.0.7"));
	expect("0.0.0.0", old, 1, cloud, 1, NO_MATCH("0.0.0.0"));
	expect("::", old, 1, cloud, 1, NO_MATCH("::"));
	expect("10.0.0.1", old, 1, NULL, 0, NO_MATCH("10.0.0.1"));
}

static void
lists_are_compared_type_by_type(void **state)
{
	const struct address a[] = { INTERNAL("10.0.0.1"), INTERNAL("fd00::1"), HOSTNAME("n1") };
	const struct address moved[] = { HOSTNAME("n1"), INTERNAL("10.0.0.1"),
		                         INTERNAL("fd00::1") };
	const struct address swapped[] = { INTERNAL("fd00::1"), INTERNAL("10.0.0.1"),
		                           HOSTNAME("n1") };
	const struct address retyped[] = { INTERNAL("10.0.0.1"), EXTERNAL("fd00::1"),
		                           HOSTNAME("n1") };

	(void)state;
	assert_true(addresses_equal(a, 3, a, 3));
	assert_true(addresses_equal(a, 3, moved, 3));
	assert_false(addresses_equal(a, 3, swapped, 3));
	assert_false(addresses_equal(a, 3, retyped, 3));
	assert_false(addresses_equal(a, 3, a, 2));
	assert_true(addresses_equal(NULL, 0, NULL, 0));
}

static int
fini(void **state)
{
	(void)state;
	arena_fini(&arena);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_clouds_list_is_taken_in_its_order),
		cmocka_unit_test(hostnames_of_the_kubelet_survive_at_the_end),
		cmocka_unit_test(a_provided_ip_comes_first_and_alone_of_its_type),
		cmocka_unit_test(a_malformed_annotation_is_an_error),
		cmocka_unit_test(an_ip_that_the_cloud_does_not_know_is_an_error),
		cmocka_unit_test(lists_are_compared_type_by_type),
	};

	return cmocka_run_group_tests(tests, NULL, fini);
}
