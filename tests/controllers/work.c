/* tests/controllers/work.c: the work that one Service or one Node can cause, with the largest
 * objects that the API server accepts (1.5 MiB in etcd, 256 KiB of annotations), and larger ones.
 */
#include "work.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/limits.h"
#include "cloud/balancer.h"
#include "controllers/node/addresses.h"
#include "controllers/node/labels.h"
#include "controllers/node_ref.h"
#include "controllers/service/service.h"
#include "controllers/service/targets.h"
#include "kube/patch.h"

enum {
	ANNOTATIONS = 20000, /* 256 KiB hold about 40,000 */
	LABELS = 20000,
	TAINTS = 10000,
	ADDRESSES = 10000,
	RANGES = 20000,
	PORTS = 5000,
	INGRESS = 10000,
};

static struct arena arena = ARENA_INIT;

static int
tear_down(void **state)
{
	(void)state;
	arena_reset(&arena);
	return 0;
}

static int
tear_down_all(void **state)
{
	(void)state;
	arena_fini(&arena);
	return 0;
}

/* ---- objects ---- */

enum order {
	FORWARDS,
	BACKWARDS,
};

/* "PREFIX000000": all of one length, so that no comparison ends with the lengths. */
static struct str
text(const char *prefix, size_t i)
{
	return arena_printf(&arena, "%s%06zu", prefix, i);
}

/* Appends n members: "PREFIX000000":"v". */
static void
add_pairs(struct buf *b, const char *prefix, size_t n, enum order order)
{
	for (size_t i = 0; i < n; i++)
		json_add_text(b, text(prefix, order == FORWARDS ? i : n - 1 - i).ptr, STR("v"));
}

/* The JSON of an object is made by a function with this type. */
typedef void add_fn(struct buf *b, size_t n, enum order order);

static struct str
json_of(add_fn *add, size_t n, enum order order)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIB(64));

	add(&b, n, order);
	assert_true(buf_ok(&b));
	return arena_str(&arena, buf_str(&b));
}

static struct object *
parse(const struct kind *kind, struct str json, uint64_t *n_branches)
{
	struct object *object = NULL;
	struct error err;

	*n_branches += WORK(if (!object_parse(kind, json, &object, &err)) fail_msg("%s", err.msg););
	return object;
}

/* ---- Services ---- */

static void
begin_service(struct buf *b)
{
	buf_add_c(
		b,
		"{\"metadata\":{\"namespace\":\"default\",\"name\":\"web\",\"uid\":\"u\",\"resourceVersion\":\"7\"");
}

static void
add_annotated(struct buf *b, size_t n, enum order order)
{
	begin_service(b);
	json_begin_object(b, "annotations");
	add_pairs(b, "k", n, order);
	buf_add_c(b, "}},\"spec\":{\"type\":\"LoadBalancer\",\"ports\":[{\"port\":80}]}}");
}

/* With the prefix of the cloud's annotations, and finalizers of others. */
static void
add_known(struct buf *b, size_t n, enum order order)
{
	begin_service(b);
	json_begin_object(b, "annotations");
	add_pairs(b, "toy.example/", n, order);
	buf_add_c(b, "},\"finalizers\":[");
	for (size_t i = 0; i < n / 10; i++)
		json_add_text(b, NULL, text("example.com/", i));
	buf_add_c(b, "]},\"spec\":{\"type\":\"LoadBalancer\",\"ports\":[{\"port\":80}]}}");
}

static void
add_ranged(struct buf *b, size_t n, enum order order)
{
	begin_service(b);
	buf_add_c(b, "},\"spec\":{\"type\":\"LoadBalancer\",\"loadBalancerSourceRanges\":[");
	for (size_t i = 0; i < n; i++)
		json_add_text(b, NULL, arena_printf(&arena, "10.%zu.%zu.0/24", i >> 8, i & 255));
	buf_add_c(b, "],\"ports\":[");
	for (size_t i = 0; i < n / (RANGES / PORTS); i++)
		buf_addf(b, "%s{\"port\":%zu,\"name\":\"p\"}", i > 0 ? "," : "",
		         order == FORWARDS ? i + 1 : n - i);
	buf_add_c(b, "]},\"status\":{\"loadBalancer\":{\"ingress\":[");
	for (size_t i = 0; i < n / (RANGES / INGRESS); i++)
		buf_addf(b, "%s{\"ip\":\"10.%zu.%zu.1\"}", i > 0 ? "," : "", i >> 8, i & 255);
	buf_add_c(b, "]}}}");
}

static void
add_range_annotation(struct buf *b, size_t n, enum order order)
{
	(void)order;
	begin_service(b);
	buf_add_c(b, ",\"annotations\":{\"service.beta.kubernetes.io/load-balancer-source-ranges\":"
	             "\"");
	for (size_t i = 0; i < n; i++)
		buf_addf(b, "10.%zu.%zu.0/24, ", i >> 8, i & 255);
	buf_add_c(b, "\"}},\"spec\":{\"type\":\"LoadBalancer\",\"ports\":[{\"port\":80}]}}");
}

/* What the reflector, the handlers of the store and a worker do with a Service and its change. */
static struct work
service_work(const struct kind *kind, const struct cloud *cloud, add_fn *add, size_t n)
{
	struct str json = json_of(add, n, FORWARDS), changed = json_of(add, n, BACKWARDS);
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIB(64));
	struct work work = { .n_bytes = json.len + changed.len };
	struct object *old = parse(kind, json, &work.n_branches);
	struct object *new = parse(kind, changed, &work.n_branches);
	const struct service *s = service_of(new);
	struct lb_spec spec;
	struct error err;

	work.n_branches += WORK((void)kind->differs(old, new));
	work.n_branches += WORK((void)service_needs_update(service_of(old), s));
	work.n_branches += WORK((void)service_is_served_at(s, STR("192.0.2.1")));
	work.n_branches += WORK(spec = service_spec(s, "kubernetes", &arena));
	work.n_branches += WORK((void)!balancer_check_limits(cloud, &spec, &err));
	work.n_branches += WORK(patch_service_claim(&b, s));
	work.n_branches += WORK((void)service_status_equals(s, s->ingress, s->n_ingress));
	object_unref(old);
	object_unref(new);
	return work;
}

static const char *const toy_lists[] = { "domains", NULL };
static const struct balancer_ops toy_balancers = { .features = { LB_PASSES_ALL },
	                                           .annotation_prefix = "toy.example/",
	                                           .annotation_lists = toy_lists };
static const struct cloud toy = { .balancers = &toy_balancers };

static struct work
a_service_with_annotations(size_t n)
{
	return service_work(&service_kind.kind, &toy, add_annotated, n);
}

static struct work
a_service_with_annotations_that_are_not_kept(size_t n)
{
	struct service_kind kind = service_kind_of(&toy);

	return service_work(&kind.kind, &toy, add_annotated, n);
}

static struct work
a_service_with_annotations_of_the_cloud(size_t n)
{
	struct service_kind kind = service_kind_of(&toy);

	return service_work(&kind.kind, &toy, add_known, n);
}

static struct work
a_service_with_ranges_ports_and_addresses(size_t n)
{
	return service_work(&service_kind.kind, &toy, add_ranged, n);
}

static struct work
a_service_with_ranges_in_an_annotation(size_t n)
{
	return service_work(&service_kind.kind, &toy, add_range_annotation, n);
}

static struct work
a_hundred_services(size_t n)
{
	struct work all = { 0 };

	for (int i = 0; i < 100; i++) {
		struct work one = a_service_with_annotations_of_the_cloud(n / 100);

		all.n_bytes += one.n_bytes;
		all.n_branches += one.n_branches;
		arena_reset(&arena);
	}
	return all;
}

static void
services(void **state)
{
	(void)state;
	work_check("a Service with annotations", a_service_with_annotations, ANNOTATIONS, 10);
	work_check("a Service with annotations that are not kept",
	           a_service_with_annotations_that_are_not_kept, ANNOTATIONS, 10);
	work_check("a Service with annotations of the cloud",
	           a_service_with_annotations_of_the_cloud, ANNOTATIONS, 10);
	work_check("a Service with ranges, ports and addresses",
	           a_service_with_ranges_ports_and_addresses, RANGES, 10);
	work_check("a Service with ranges in an annotation", a_service_with_ranges_in_an_annotation,
	           RANGES, 10);
	work_check("100 Services", a_hundred_services, ANNOTATIONS, 10);
}

/* ---- Nodes ---- */

static void
begin_node(struct buf *b)
{
	buf_add_c(b, "{\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"resourceVersion\":\"7\"");
}

static void
add_labelled(struct buf *b, size_t n, enum order order)
{
	begin_node(b);
	json_begin_object(b, "labels");
	add_pairs(b, "k", n, order);
	buf_add_c(b, "},\"annotations\":{");
	add_pairs(b, "k", n, order);
	buf_add_c(b, "}}}");
}

static void
add_tainted(struct buf *b, size_t n, enum order order)
{
	begin_node(b);
	buf_add_c(b, "},\"spec\":{\"taints\":[");
	for (size_t i = 0; i < n; i++)
		buf_addf(b, "%s{\"key\":\"k%06zu\",\"value\":\"v\",\"effect\":\"NoSchedule\"}",
		         i > 0 ? "," : "", order == FORWARDS ? i : n - 1 - i);
	buf_add_c(b, "]}}");
}

/* Half of them host names, which the kubelet may choose; all of them the same one. */
static void
add_addressed(struct buf *b, size_t n, enum order order)
{
	begin_node(b);
	buf_add_c(b, ",\"annotations\":{\"" NODE_ANNOTATION_PROVIDED_IP "\":\"10.0.0.1\"}},"
	             "\"status\":{\"addresses\":[");
	for (size_t i = 0; i < n; i++) {
		bool is_name = i % 2 == 0;

		buf_addf(b, "%s{\"type\":\"%s\",\"address\":\"10.0.0.1\"}", i > 0 ? "," : "",
		         is_name == (order == FORWARDS) ? "Hostname" : "ExternalIP");
	}
	buf_add_c(b, "]}}");
}

static struct instance
instance_of(const struct node *node)
{
	static struct label labels[] = { { { "k000000", 7 }, { "w", 1 } },
		                         { { "kz", 2 }, { "w", 1 } } };
	struct address *addresses = arena_calloc(&arena, node->n_addresses + 1, sizeof(*addresses));

	addresses[0] = (struct address){ STR("InternalIP"), STR("10.0.0.1") };
	for (size_t i = 0; i < node->n_addresses; i++)
		addresses[i + 1] = node->addresses[i];
	return (struct instance){ .type = STR("t"),
		                  .zone = STR("z"),
		                  .region = STR("r"),
		                  .labels = labels,
		                  .n_labels = ARRAY_LEN(labels),
		                  .addresses = addresses,
		                  .n_addresses = node->n_addresses + 1 };
}

static bool
selects_all(struct cloud *cloud, const void *selection, const struct node_ref *node)
{
	(void)cloud;
	(void)selection;
	(void)node;
	return true;
}

/* What the reflector, the handlers of the store and the workers do with a Node and its change. */
static struct work
node_work(add_fn *add, size_t n)
{
	static const struct balancer_ops ops = { .selects = selects_all, .uses_addresses = true };
	struct str json = json_of(add, n, FORWARDS), changed = json_of(add, n, BACKWARDS);
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIB(64));
	struct work work = { .n_bytes = json.len + changed.len };
	struct object *old = parse(&node_kind.kind, json, &work.n_branches);
	struct object *new = parse(&node_kind.kind, changed, &work.n_branches);
	const struct node *node = node_of(new), *former = node_of(old);
	struct instance instance = instance_of(node);
	struct address_list planned = { 0 };
	struct error err;

	work.n_branches += WORK((void)node_kind.kind.differs(old, new));
	work.n_branches += WORK((void)node_kind.kind.differs(new, new));
	work.n_branches += WORK((void)target_change_matters(former, node, &ops));
	work.n_branches += WORK((void)target_change_matters(node, node, &ops));
	work.n_branches += WORK((void)target_is_eligible(node));
	work.n_branches += WORK((void)node_is_new(node));
	work.n_branches += WORK((void)node_is_leaving(node));
	work.n_branches += WORK((void)node_ref_copy(&arena, node));
	work.n_branches += WORK((void)labels_plan(node, &instance, &arena));
	work.n_branches += WORK((void)labels_reconcile(node, &arena));
	work.n_branches += WORK((void)!addresses_plan(node, &instance, &arena, &planned, &err));
	work.n_branches += WORK((void)addresses_equal(planned.items, planned.n, former->addresses,
	                                              former->n_addresses));
	work.n_branches += WORK((void)addresses_equal(node->addresses, node->n_addresses,
	                                              former->addresses, former->n_addresses));
	object_unref(old);
	object_unref(new);
	return work;
}

static struct work
a_node_with_labels(size_t n)
{
	return node_work(add_labelled, n);
}

static struct work
a_node_with_taints(size_t n)
{
	return node_work(add_tainted, n);
}

static struct work
a_node_with_addresses(size_t n)
{
	return node_work(add_addressed, n);
}

static void
nodes(void **state)
{
	(void)state;
	work_check("a Node with labels and annotations", a_node_with_labels, LABELS, 10);
	work_check("a Node with taints", a_node_with_taints, TAINTS, 10);
	work_check("a Node with addresses", a_node_with_addresses, ADDRESSES, 10);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(services, tear_down),
		cmocka_unit_test_teardown(nodes, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, tear_down_all);
}
