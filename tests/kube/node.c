#include "kube/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "base/limits.h"
#include "kube/object.h"
#include "kube/samples.h"

static struct node *
parse(struct str json)
{
	struct object *object = NULL;
	struct error err = { 0 };

	if (!object_parse(&node_kind.kind, json, &object, &err))
		fail_msg("%s", err.msg);
	return node_of(object);
}

static struct node *
parse_sample(const struct sample_node *sample)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(MIB(1));

	sample_node(&text, sample);
	return parse(buf_str(&text));
}

static void
node_unrefp(struct node **n)
{
	object_unref(&(*n)->object);
}

#define WITH_NODE(name, ...) \
	CLEANUP(node_unrefp) struct node *name = parse_sample(&(struct sample_node){ __VA_ARGS__ })

static void
check_str(struct str s, const char *expected)
{
	if (!str_eq_c(s, expected))
		fail_msg("\"%" STR_FMT "\" is not \"%s\"", STR_ARG(s), expected);
}

static void
check_label(const struct node *n, const char *key, const char *expected)
{
	const struct str *value = node_label(n, str_c(key));

	if (!value) {
		fail_msg("no label %s", key);
		return;
	}
	check_str(*value, expected);
}

static void
keeps_what_we_act_on(void **state)
{
	(void)state;
	WITH_NODE(n, .name = "worker-1", .uid = "u-1", .version = "42", .provider_id = "hcloud://7",
	          .n_images = 50, .is_uninitialized = true);
	const struct node_taint *taint = node_taint(n, STR(NODE_TAINT_UNINITIALIZED));

	check_str(node_name(n), "worker-1");
	check_str(n->object.uid, "u-1");
	check_str(n->object.resource_version, "42");
	check_str(n->object.index_key, "hcloud://7");
	check_str(node_provider_id(n), "hcloud://7");
	assert_true(n->created_wall_ns == INT64_C(1767323045) * NS_PER_SEC);
	assert_false(n->is_deleting);
	assert_int_equal(n->ready, NODE_READY_TRUE);
	assert_true(n->heartbeat == str_hash(STR("2026-01-02T03:09:05Z")));
	assert_int_equal(n->n_labels, 12);
	check_label(n, "kubernetes.io/hostname", "worker-1");
	check_label(n, "topology.kubernetes.io/zone", "fsn1-dc14");
	check_label(n, "node-role.kubernetes.io/worker", "");
	assert_null(node_label(n, STR("zone")));
	assert_int_equal(n->n_addresses, 3);
	check_str(n->addresses[0].type, "Hostname");
	check_str(n->addresses[0].address, "worker-1");
	check_str(n->addresses[2].address, "203.0.113.101");
	assert_int_equal(n->n_taints, 1);
	assert_non_null(taint);
	check_str(taint->effect, "NoSchedule");
	check_str(taint->value, "true");
	check_str(taint->raw, "{\"key\":\"node.cloudprovider.kubernetes.io/uninitialized\","
	                      "\"value\":\"true\",\"effect\":\"NoSchedule\"}");
}

static void
keeps_named_annotations_only(void **state)
{
	static const char *const keys[] = { "node.alpha.kubernetes.io/ttl", NULL };
	CLEANUP(buf_fini) struct buf text = BUF_INIT(MIB(1));
	CLEANUP(object_unrefp) struct object *object = NULL;
	struct node_kind kind = node_kind;
	const struct node *after;
	struct error err;
	WITH_NODE(before, .name = "a");

	(void)state;
	assert_int_equal(before->n_annotations, 1);
	check_str(*node_annotation(before, STR(NODE_ANNOTATION_PROVIDED_IP)), "10.0.0.1");
	kind.annotations = keys;
	sample_node(&text, &(struct sample_node){ .name = "a" });
	assert_true(object_parse(&kind.kind, buf_str(&text), &object, &err));
	after = node_of(object);
	assert_int_equal(after->n_annotations, 2);
	check_str(*node_annotation(after, STR("node.alpha.kubernetes.io/ttl")), "0");
	assert_null(node_annotation(after,
	                            STR("volumes.kubernetes.io/controller-managed-attach-detach")));
}

#define BARE "\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"1\"}"

static void
reads_a_bare_node(void **state)
{
	CLEANUP(node_unrefp) struct node *n = parse(STR("{" BARE "}"));

	(void)state;
	assert_true(n->n_labels == 0 && n->n_annotations == 0 && n->n_addresses == 0 &&
	            n->n_taints == 0);
	assert_non_null(node_provider_id(n).ptr);
	assert_true(n->heartbeat == 0);
	assert_int_equal(n->object.index_key.len, 0);
	assert_int_equal(n->created_wall_ns, 0);
	assert_int_equal(n->ready, NODE_READY_UNKNOWN);
}

/* docs/spec/kube-client.md, "JSON values": null is absent, the last of several keys counts, NUL is
 * a byte like others */
static void
reads_odd_json_as_go_does(void **state)
{
	CLEANUP(node_unrefp)
	struct node *n = parse(STR(
		"{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"1\",\"creationTimestamp\":null,"
		"\"deletionTimestamp\":\"2026-01-02T03:04:05.5+01:00\",\"labels\":{\"k\":\"one\",\"k\":\"two\","
		"\"n\":null,\"z\":\"a\\u0000b\"},\"annotations\":null},\"spec\":{\"providerID\":\"x\"},"
		"\"spec\":{\"providerID\":\"y\",\"taints\":null},\"status\":{\"conditions\":[{\"type\":\"Ready\","
		"\"status\":\"Perhaps\"}]}}"));

	(void)state;
	check_label(n, "k", "two");
	check_label(n, "n", "");
	assert_int_equal(node_label(n, STR("z"))->len, 3);
	check_str(node_provider_id(n), "y");
	assert_true(n->is_deleting);
	assert_int_equal(n->ready, NODE_READY_UNKNOWN);
}

static void
keeps_all_fields_of_taints(void **state)
{
	static const char raw[] =
		"{\"effect\":\"NoExecute\",\"future\":{\"n\":18446744073709551616},\"key\":\"k\","
		"\"timeAdded\":\"2026-01-02T03:04:05Z\"}";
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));

	(void)state;
	buf_addf(&text,
	         "{" BARE
	         ",\"spec\":{\"taints\":[ %s ,{\"key\":\"k\",\"effect\":\"NoSchedule\"}]}}",
	         raw);
	CLEANUP(node_unrefp) struct node *n = parse(buf_str(&text));
	assert_int_equal(n->n_taints, 2);
	check_str(n->taints[0]->raw, raw);
	check_str(n->taints[0]->value, "");
	assert_ptr_equal(node_taint(n, STR("k")), n->taints[0]);
}

static void
check_refused(const char *json, const char *msg)
{
	struct object *object = NULL;
	struct error err = { 0 };

	if (object_parse(&node_kind.kind, str_c(json), &object, &err))
		fail_msg("%s was taken", json);
	assert_null(object);
	assert_int_equal(err.code, ERR_INVALID);
	if (!strstr(err.msg, msg))
		fail_msg("%s: %s", json, err.msg);
}

static void
refuses_what_is_no_node(void **state)
{
	(void)state;
	check_refused("[]", "not an object");
	check_refused("{}", "metadata.name is missing");
	check_refused("{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"}}",
	              "metadata.uid is missing");
	check_refused("{\"metadata\":{\"name\":\"a\",\"uid\":\"u\"}}",
	              "metadata.resourceVersion is missing");
	check_refused("{\"metadata\":{\"name\":7}}", "metadata.name: not a string");
	check_refused("{\"metadata\":[]}", "metadata: not an object");
	check_refused("{" BARE ",\"spec\":\"\"}", "node.spec: not an object");
	check_refused("{" BARE ",\"spec\":{\"providerID\":1}}", "spec.providerID: not a string");
	check_refused("{" BARE ",\"spec\":{\"taints\":{}}}", "spec.taints: not an array");
	check_refused("{" BARE ",\"spec\":{\"taints\":[1]}}", "spec.taints[]: not an object");
	check_refused("{" BARE ",\"spec\":{\"taints\":[{\"key\":[]}]}}",
	              "spec.taints[].key: not a string");
	check_refused("{" BARE ",\"status\":{\"addresses\":[{\"address\":false}]}}",
	              "status.addresses[].address: not a string");
	check_refused("{" BARE ",\"status\":{\"conditions\":[\"Ready\"]}}",
	              "status.conditions[]: not an object");
	check_refused(
		"{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"1\",\"labels\":{\"k\":1}}}",
		"node a: metadata.labels.k: not a string");
	check_refused("{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"1\","
	              "\"creationTimestamp\":\"yesterday\"}}",
	              "metadata.creationTimestamp: not a time");
}

static void
bounds_taints(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(2 * LIMIT_TAINTS_JSON);

	(void)state;
	buf_addf(&text,
	         "{" BARE ",\"spec\":{\"taints\":[{\"value\":\"%0*d\"},{\"value\":\"%0*d\"}]}}",
	         (int)LIMIT_TAINTS_JSON / 2, 0, (int)LIMIT_TAINTS_JSON / 2, 0);
	check_refused(text.ptr, "spec.taints: more than");
	buf_reset(&text);
	buf_addf(&text, "{" BARE ",\"spec\":{\"taints\":[{\"value\":\"%0*d\"}]}}",
	         (int)LIMIT_TAINTS_JSON, 0);
	check_refused(text.ptr, "spec.taints: more than");
}

static bool
differ(const struct sample_node *a, const struct sample_node *b)
{
	CLEANUP(node_unrefp) struct node *node_a = parse_sample(a);
	CLEANUP(node_unrefp) struct node *node_b = parse_sample(b);

	return node_kind.kind.differs(&node_a->object, &node_b->object);
}

#define SAMPLE(...) (&(struct sample_node){ .name = "a", __VA_ARGS__ })

static void
distinguishes_changes_that_matter(void **state)
{
	(void)state;
	assert_false(differ(SAMPLE(.version = "1"), SAMPLE(.version = "2")));
	assert_false(differ(SAMPLE(.n_images = 1), SAMPLE(.n_images = 2)));
	assert_false(differ(SAMPLE(.heartbeat = "1"), SAMPLE(.heartbeat = "2")));
	assert_true(differ(SAMPLE(.ready = "False", .heartbeat = "1"),
	                   SAMPLE(.ready = "False", .heartbeat = "2")));
	assert_false(differ(SAMPLE(.ready = "Unknown", .heartbeat = "1"),
	                    SAMPLE(.ready = "Unknown", .heartbeat = "1")));
	assert_true(differ(SAMPLE(.ready = "True"), SAMPLE(.ready = "False")));
	assert_true(differ(SAMPLE(.uid = "1"), SAMPLE(.uid = "2")));
	assert_true(differ(SAMPLE(.provider_id = "1"), SAMPLE(.provider_id = "2")));
	assert_true(differ(SAMPLE(.is_uninitialized = true), SAMPLE(.is_uninitialized = false)));
}

/* Two nodes that are the same but for one part of the JSON. */
static bool
differ_in(const char *one, const char *two)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));

	buf_addf(&text, "{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"1\"%s}",
	         one);
	CLEANUP(node_unrefp) struct node *a = parse(buf_str(&text));
	buf_reset(&text);
	buf_addf(&text, "{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"1\"%s}",
	         two);
	CLEANUP(node_unrefp) struct node *b = parse(buf_str(&text));
	return node_kind.kind.differs(&a->object, &b->object);
}

static void
distinguishes_every_part(void **state)
{
	(void)state;
	assert_true(differ_in(",\"labels\":{\"k\":\"1\"}}", ",\"labels\":{\"k\":\"2\"}}"));
	assert_true(differ_in(",\"labels\":{\"k\":\"1\"}}", ",\"labels\":{\"l\":\"1\"}}"));
	assert_true(differ_in(",\"labels\":{}}", ",\"labels\":{\"l\":\"1\"}}"));
	assert_true(differ_in(",\"annotations\":{\"" NODE_ANNOTATION_PROVIDED_IP "\":\"1\"}}",
	                      ",\"annotations\":{\"" NODE_ANNOTATION_PROVIDED_IP "\":\"2\"}}"));
	assert_false(differ_in(",\"annotations\":{\"k\":\"1\"}}",
	                       ",\"annotations\":{\"k\":\"2\"}}"));
	assert_true(differ_in(",\"deletionTimestamp\":\"2026-01-02T03:04:05Z\"}", "}"));
	assert_true(differ_in(",\"creationTimestamp\":\"2026-01-02T03:04:05Z\"}", "}"));
	assert_true(differ_in("},\"status\":{\"addresses\":[{\"type\":\"A\"},{\"type\":\"B\"}]}",
	                      "},\"status\":{\"addresses\":[{\"type\":\"B\"},{\"type\":\"A\"}]}"));
	assert_true(differ_in("},\"status\":{\"addresses\":[{\"type\":\"A\",\"address\":\"1\"}]}",
	                      "},\"status\":{\"addresses\":[{\"type\":\"A\",\"address\":\"2\"}]}"));
	assert_true(differ_in("},\"spec\":{\"taints\":[{\"key\":\"k\",\"timeAdded\":\"1\"}]}",
	                      "},\"spec\":{\"taints\":[{\"key\":\"k\",\"timeAdded\":\"2\"}]}"));
}

static void
shares_repeated_texts(void **state)
{
	(void)state;
	WITH_NODE(a, .name = "a", .is_uninitialized = true);
	WITH_NODE(b, .name = "b", .is_uninitialized = true);

	assert_ptr_equal(a->labels[3], b->labels[3]);
	assert_ptr_equal(node_label(a, STR("topology.kubernetes.io/zone")),
	                 node_label(b, STR("topology.kubernetes.io/zone")));
	assert_ptr_equal(a->addresses[1].type.ptr, b->addresses[1].type.ptr);
	assert_ptr_equal(a->taints[0], b->taints[0]);
	/* and the name is kept once */
	assert_ptr_equal(node_label(a, STR("kubernetes.io/hostname"))->ptr, node_name(a).ptr);
	assert_ptr_equal(a->addresses[0].address.ptr, node_name(a).ptr);
}

/* Thousands of nodes are stored, so a change that makes them larger must be deliberate. */
static void
is_small(void **state)
{
	(void)state;
	WITH_NODE(n, .name = "worker-00001", .uid = "3f4c9f4f-0f72-45a1-a1ac-0f24ed4a6d4d",
	          .version = "1234567", .provider_id = "hcloud://40000001", .n_images = 50);

	assert_true(sizeof(struct node) <= 176);
#ifndef __SANITIZE_ADDRESS__
	assert_true(pool_bytes(n) <= 560);
#endif
	assert_non_null(n);
}

static void
keeps_what_routes_need_when_asked(void **state)
{
	static const char text[] =
		"{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"1\"},"
		"\"spec\":{\"podCIDRs\":[\"10.244.1.0/24\",\"fd00::/64\"]},\"status\":{\"conditions\":["
		"{\"type\":\"NetworkUnavailable\",\"status\":\"False\",\"reason\":\"RouteCreated\"}]}}";
	struct node_kind kind = node_kind;
	struct object *without, *with;
	struct error err;

	(void)state;
	assert_true(object_parse(&node_kind.kind, str_c(text), &without, &err));
	kind.keeps_routes = true;
	assert_true(object_parse(&kind.kind, str_c(text), &with, &err));
	assert_int_equal(node_of(without)->n_pod_cidrs, 0);
	assert_int_equal(node_of(without)->network, NODE_NETWORK_OTHER);
	assert_int_equal(node_of(with)->n_pod_cidrs, 2);
	assert_true(str_eq_c(node_of(with)->pod_cidrs[1], "fd00::/64"));
	assert_int_equal(node_of(with)->network, NODE_NETWORK_ROUTED);
	assert_true(node_kind.kind.differs(without, with));
	object_unref(without);
	object_unref(with);
}

/* The last of the tests: the table stays full. */
static void
keeps_texts_itself_when_the_table_is_full(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));
	struct str s;
	unsigned i = 0;

	(void)state;
	do {
		buf_reset(&text);
		buf_addf(&text, "filler-%u", i);
		s = buf_str(&text);
	} while (intern(&s) && ++i <= LIMIT_INTERN);
	assert_in_range(i, 1, LIMIT_INTERN);
	buf_reset(&text);
	buf_addf(&text,
	         "{" BARE
	         ",\"spec\":{\"taints\":[{\"key\":\"new-key\",\"effect\":\"NoSchedule\"}]}}");
	CLEANUP(node_unrefp) struct node *n = parse(buf_str(&text));
	buf_reset(&text);
	check_str(n->taints[0]->key, "new-key");
	check_str(n->taints[0]->effect, "NoSchedule");
	s = n->taints[0]->key;
	assert_false(intern(&s));
}

static void
does_not_share_long_texts(void **state)
{
	static char text[LIMIT_INTERN_BYTES + 1] = { 'x' };
	struct str s = str_n(text, sizeof(text)), empty = str_n(text, 0);

	(void)state;
	assert_false(intern(&s));
	assert_ptr_equal(s.ptr, text);
	assert_true(intern(&empty));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keeps_what_we_act_on),
		cmocka_unit_test(keeps_named_annotations_only),
		cmocka_unit_test(reads_a_bare_node),
		cmocka_unit_test(reads_odd_json_as_go_does),
		cmocka_unit_test(keeps_all_fields_of_taints),
		cmocka_unit_test(refuses_what_is_no_node),
		cmocka_unit_test(bounds_taints),
		cmocka_unit_test(distinguishes_changes_that_matter),
		cmocka_unit_test(distinguishes_every_part),
		cmocka_unit_test(shares_repeated_texts),
		cmocka_unit_test(is_small),
		cmocka_unit_test(does_not_share_long_texts),
		cmocka_unit_test(keeps_what_routes_need_when_asked),
		cmocka_unit_test(keeps_texts_itself_when_the_table_is_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
