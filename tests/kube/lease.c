/* Reading a Lease, and writing it back with nothing lost. */
#include "kube/lease.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define WALL_NS                                                                          \
	(INT64_C(1767322800) * NS_PER_SEC + 123456789) /* 2026-01-02T03:00:00.123456789Z \
	                                                */
#define NOW "2026-01-02T03:00:00.123456Z"
#define META "\"metadata\":{\"name\":\"l\",\"uid\":\"u-1\",\"resourceVersion\":\"7\"}"
#define LEASE(spec) "{\"kind\":\"Lease\"," META ",\"spec\":" spec "}"

static const struct lease_claim claim = { STR("me"), 15, WALL_NS };

static struct lease
parse(const char *json)
{
	struct lease l = LEASE_INIT;
	struct error err;

	if (!lease_parse(str_c(json), &l, &err))
		fail_msg("%s", err.msg);
	return l;
}

static void
assert_str(struct str s, const char *expected)
{
	assert_int_equal(s.len, strlen(expected));
	assert_memory_equal(s.ptr, expected, s.len);
}

static void
all_fields_are_read(void **state)
{
	CLEANUP(lease_fini)
	struct lease l = parse(
		LEASE("{\"holderIdentity\":\"a\",\"leaseDurationSeconds\":15,\"acquireTime\":\"A\","
	              "\"renewTime\":\"R\",\"leaseTransitions\":3}"));

	(void)state;
	assert_str(l.holder, "a");
	assert_str(l.acquired, "A");
	assert_str(l.uid, "u-1");
	assert_str(l.version, "7");
	assert_int_equal(l.duration_s, 15);
	assert_int_equal(l.transitions, 3);
}

static void
absent_fields_are_empty(void **state)
{
	static const char *const texts[] = {
		"{\"kind\":\"Lease\"," META "}",
		LEASE("null"),
		LEASE("{}"),
		LEASE("{\"holderIdentity\":null,\"leaseDurationSeconds\":null,\"leaseTransitions\":null}"),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		CLEANUP(lease_fini) struct lease l = parse(texts[i]);

		assert_str(l.holder, "");
		assert_int_equal(l.duration_s, 0);
		assert_int_equal(l.transitions, 0);
	}
}

static void
what_is_no_lease_is_refused(void **state)
{
	static const char *const texts[] = {
		"",
		"null",
		"[]",
		"{\"kind\":\"Status\"}",
		"{\"kind\":7," META "}",
		"{" META "}",
		"{\"kind\":\"Lease\"}",
		"{\"kind\":\"Lease\",\"metadata\":{\"name\":\"l\",\"uid\":\"u\"}}",
		"{\"kind\":\"Lease\",\"metadata\":{\"name\":\"l\",\"resourceVersion\":\"7\"}}",
		LEASE("[]"),
		LEASE("{\"holderIdentity\":7}"),
		LEASE("{\"acquireTime\":7}"),
		LEASE("{\"leaseDurationSeconds\":\"15\"}"),
		LEASE("{\"leaseDurationSeconds\":-1}"),
		LEASE("{\"leaseDurationSeconds\":2147483648}"),
		LEASE("{\"leaseTransitions\":1.5}"),
		LEASE("{\"leaseTransitions\":-1}"),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct lease l = LEASE_INIT;
		struct error err = { .code = ERR_NONE };

		assert_false(lease_parse(str_c(texts[i]), &l, &err));
		assert_int_equal(err.code, ERR_INVALID);
		assert_null(l.doc);
	}
}

static void
a_renewal_is_seen_and_a_label_is_not(void **state)
{
	CLEANUP(lease_fini) struct lease none = LEASE_INIT;
	CLEANUP(lease_fini) struct lease a = parse(LEASE("{\"renewTime\":\"1\"}"));
	CLEANUP(lease_fini) struct lease same = parse(LEASE("{ \"renewTime\" : \"1\" }"));
	CLEANUP(lease_fini) struct lease renewed = parse(LEASE("{\"renewTime\":\"1.0\"}"));
	CLEANUP(lease_fini)
	struct lease labelled = parse(
		"{\"kind\":\"Lease\",\"metadata\":{\"name\":\"l\",\"uid\":\"u-1\",\"resourceVersion\":\"8\","
		"\"labels\":{\"a\":\"b\"}},\"spec\":{\"renewTime\":\"1\"}}");

	(void)state;
	assert_true(lease_spec_differs(&none, &a));
	assert_true(lease_spec_differs(&a, &renewed));
	assert_false(lease_spec_differs(&a, &same));
	assert_false(lease_spec_differs(&a, &labelled));
}

/* ---- writing ---- */

#define FOREIGN_HEAD                                                                                  \
	"{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/v1\",\"metadata\":{\"name\":\"l\"," \
	"\"uid\":\"u-1\",\"resourceVersion\":\"7\",\"labels\":{\"x\":\"\\\"y\\\"\"},"                 \
	"\"managedFields\":[{\"a\":18446744073709551616}]},\"future\":[1,null,{}],\"spec\":{"
#define FOREIGN_SPEC \
	"\"strategy\":\"OldestEmulationVersion\",\"preferredHolder\":null,\"more\":{\"a\":1}"
#define FOREIGN                                                                                    \
	FOREIGN_HEAD "\"holderIdentity\":\"you\",\"strategy\":\"OldestEmulationVersion\","         \
		     "\"leaseDurationSeconds\":30,\"preferredHolder\":null,\"acquireTime\":\"A\"," \
		     "\"renewTime\":\"R\",\"more\":{\"a\":1},\"leaseTransitions\":3}}"

static void
check_update(const char *old, enum lease_change change, const struct lease_claim *c,
             const char *expected)
{
	CLEANUP(lease_fini) struct lease l = parse(old);
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIB(1));

	lease_add_update(&b, &l, change, c);
	assert_string_equal(b.ptr, expected);
}

static void
everything_else_survives(void **state)
{
	(void)state;
	check_update(FOREIGN, LEASE_TAKE, &claim,
	             FOREIGN_HEAD FOREIGN_SPEC
	             ",\"holderIdentity\":\"me\",\"leaseDurationSeconds\":15,\"acquireTime\":\"" NOW
	             "\",\"renewTime\":\"" NOW "\",\"leaseTransitions\":4}}");
	check_update(FOREIGN, LEASE_RENEW, &claim,
	             FOREIGN_HEAD FOREIGN_SPEC
	             ",\"holderIdentity\":\"me\",\"leaseDurationSeconds\":15,\"acquireTime\":\"A\","
	             "\"renewTime\":\"" NOW "\",\"leaseTransitions\":3}}");
	check_update(FOREIGN, LEASE_RELEASE, &(struct lease_claim){ STR_EMPTY, 1, WALL_NS },
	             FOREIGN_HEAD FOREIGN_SPEC
	             ",\"holderIdentity\":\"\",\"leaseDurationSeconds\":1,\"acquireTime\":\"" NOW
	             "\",\"renewTime\":\"" NOW "\",\"leaseTransitions\":3}}");
}

static void
what_is_missing_is_added(void **state)
{
	static const char expected[] = "{\"kind\":\"Lease\"," META
				       ",\"spec\":{\"holderIdentity\":\"me\","
				       "\"leaseDurationSeconds\":15,\"acquireTime\":\"" NOW
				       "\",\"renewTime\":\"" NOW "\",\"leaseTransitions\":0}}";

	(void)state;
	check_update("{\"kind\":\"Lease\"," META "}", LEASE_RENEW, &claim, expected);
	check_update(LEASE("null"), LEASE_RENEW, &claim, expected);
}

static void
transitions_stop_at_the_largest_number(void **state)
{
	CLEANUP(lease_fini) struct lease l = parse(LEASE("{\"leaseTransitions\":2147483647}"));
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIB(1));

	(void)state;
	lease_add_update(&b, &l, LEASE_TAKE, &claim);
	assert_non_null(strstr(b.ptr, "\"leaseTransitions\":2147483647}"));
}

static void
a_new_one_is_complete(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIB(1));

	(void)state;
	lease_add_new(&b, STR("kube-system"), STR("ccm"),
	              &(struct lease_claim){ STR("a\"b"), 15, WALL_NS });
	assert_string_equal(
		b.ptr,
		"{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\","
		"\"metadata\":{\"name\":\"ccm\",\"namespace\":\"kube-system\"},"
		"\"spec\":{\"holderIdentity\":\"a\\\"b\",\"leaseDurationSeconds\":15,\"acquireTime\":\"" NOW
		"\",\"renewTime\":\"" NOW "\",\"leaseTransitions\":0}}");
}

static void
paths_are_escaped(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(1));

	(void)state;
	lease_add_path(&b, STR("kube-system"), STR("a/b"));
	assert_string_equal(b.ptr,
	                    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/a%2Fb");
	buf_reset(&b);
	lease_add_path(&b, STR("kube-system"), STR_EMPTY);
	assert_string_equal(b.ptr, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_fields_are_read),
		cmocka_unit_test(absent_fields_are_empty),
		cmocka_unit_test(what_is_no_lease_is_refused),
		cmocka_unit_test(a_renewal_is_seen_and_a_label_is_not),
		cmocka_unit_test(everything_else_survives),
		cmocka_unit_test(what_is_missing_is_added),
		cmocka_unit_test(transitions_stop_at_the_largest_number),
		cmocka_unit_test(a_new_one_is_complete),
		cmocka_unit_test(paths_are_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
