#include "cloud/balancer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "cloud/dry_notes.h"
#include "cloud/fake_host.h"
#include "cloud/login.h"

static const struct lb_ingress ingress = { .ip = { "203.0.113.1", 11 } };

/* ---- the world ---- */

struct world {
	struct cloud cloud;
	struct fake_host fake;
	struct arena arena;
	struct call call;
	struct error err;
	unsigned n_calls;    /* of ensure() or update_nodes() */
	struct lb_spec seen; /* by the last of them */

	/* a driver with one balancer */
	struct balancer balancer;
	bool exists, is_gone_meanwhile, is_our_project, has_token_replaced;
	unsigned n_asked_machines, n_anchors, n_asked_anchors;
	struct error machine_failure; /* of get_machine(); code ERR_NONE: it answers */
	struct error pending;         /* of the function whose name is pending_in; others work */
	const char *pending_in;
	struct error refusal; /* of create(), after a 422 */
	int status;           /* what find() gets of its API */
	bool job_is_missing;  /* destroy() and change() fail with ERR_NOT_FOUND, and do nothing */
	unsigned n_hidden;    /* searches that miss it */
	struct error failure; /* of find(); code ERR_NONE: it answers */
	struct buf calls;     /* names, each followed by a space */
};

static int
setup(void **state)
{
	static const struct cloud_ops ops = { .name = "toy", .provider_id_prefix = "toy://" };
	struct world *w = xcalloc(1, sizeof(*w));

	fake_host_init(&w->fake);
	w->cloud = (struct cloud){ .ops = &ops, .host = &w->fake.host };
	w->call = fake_host_call(&w->fake, &w->arena);
	w->calls = BUF_INIT(1000);
	*state = w;
	return 0;
}

static int
teardown(void **state)
{
	struct world *w = *state;

	fake_host_fini(&w->fake);
	arena_fini(&w->arena);
	buf_fini(&w->calls);
	free(w);
	return 0;
}

/* ---- evidence ---- */

static void
check_needs(size_t n_ingress, bool is_leaving, const char *annotation, bool wanted)
{
	struct label gone = { STR(LB_ANNOTATION_GONE), str_c(annotation) };
	struct lb_spec spec = {
		.annotations = &gone,
		.n_annotations = annotation ? 1 : 0,
		.is_leaving = is_leaving,
		.status = { (struct lb_ingress *)(uintptr_t)&ingress, n_ingress },
	};

	assert_int_equal(lb_needs_evidence(&spec), wanted);
}

static void
a_service_that_had_a_balancer_or_leaves_needs_evidence(void **state)
{
	(void)state;
	check_needs(0, false, NULL, false);
	check_needs(1, false, NULL, true);
	check_needs(0, true, NULL, true);
	check_needs(1, true, NULL, true);
}

static void
an_annotation_stands_in_for_evidence(void **state)
{
	(void)state;
	check_needs(1, false, "true", false);
	check_needs(0, true, "true", false);
	check_needs(1, false, "True", true);
	check_needs(1, false, "false", true);
	check_needs(1, false, "", true);
}

/* ---- what a cloud's balancers cannot do ---- */

static bool
record_ensure(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
              enum lb_outcome *ret, struct lb_status *ret_status, struct error *err)
{
	struct world *w = CONTAINER_OF(cloud, struct world, cloud);

	(void)call;
	(void)err;
	w->n_calls++;
	w->seen = *spec;
	*ret = LB_DONE;
	*ret_status = (struct lb_status){ 0 };
	return true;
}

/* A Service that asks for one feature and nothing else that is unusual. */
static struct lb_spec
spec_with(enum lb_feature feature)
{
	static const struct lb_port tcp[] = {
		{ .protocol = LB_TCP, .port = 80, .node_port = 30080 },
		{ .protocol = LB_TCP, .port = 81, .node_port = 30081 }
	};
	static const struct lb_port udp[] = {
		{ .protocol = LB_UDP, .port = 53, .node_port = 30053 },
		{ .protocol = LB_TCP, .port = 80, .node_port = 30080 }
	};
	static const struct lb_port sctp[] = {
		{ .protocol = LB_SCTP, .port = 9, .node_port = 30009 },
		{ .protocol = LB_TCP, .port = 80, .node_port = 30080 }
	};
	static const struct lb_port bare[] = {
		{ .protocol = LB_TCP, .port = 9 },
		{ .protocol = LB_TCP, .port = 80, .node_port = 30080 }
	};
	static const struct lb_port *const ports[LB_N_FEATURES] = {
		[LB_UDP_PORTS] = udp,
		[LB_SCTP_PORTS] = sctp,
		[LB_PORTS_WITHOUT_NODE_PORT] = bare,
		[LB_SEVERAL_PORTS] = tcp,
	};
	static const struct str ranges[] = { STR("192.0.2.0/24") };
	static const enum ip_family families[] = { IP_V4, IP_V6 };
	bool has_dual = feature == LB_DUAL_STACK || feature == LB_IPV6;

	return (struct lb_spec){
		.namespace = STR("default"),
		.service = STR("web"),
		.uid = STR("u"),
		.name = STR("au"),
		.ports = ports[feature] ? ports[feature] : tcp,
		.n_ports = ports[feature] ? 2 : 1,
		.source_ranges = ranges,
		.n_source_ranges = feature == LB_SOURCE_RANGES,
		.families = families,
		.n_families = has_dual ? 2 : 1,
		.family_policy = has_dual ? LB_REQUIRE_DUAL_STACK : LB_SINGLE_STACK,
		.wanted_ip = feature == LB_CHOSEN_IP ? STR("192.0.2.1") : STR_EMPTY,
		.traffic = feature == LB_LOCAL_TRAFFIC ? LB_TRAFFIC_LOCAL : LB_TRAFFIC_CLUSTER,
		.health_check_node_port = feature == LB_LOCAL_TRAFFIC ? 31000 : 0,
		.has_client_ip_affinity = feature == LB_CLIENT_AFFINITY,
		.affinity_timeout_s = feature == LB_CLIENT_AFFINITY ? 60 : 0,
	};
}

/* What the provider gets is the same Service without that feature. */
static void
check_left_out(const struct lb_spec *seen)
{
	assert_int_equal(seen->n_ports, 1);
	assert_int_equal(seen->ports[0].port, 80);
	assert_int_equal(seen->n_source_ranges, 0);
	assert_int_equal(seen->n_families, 1);
	assert_int_equal(seen->families[0], IP_V4);
	assert_int_equal(seen->wanted_ip.len, 0);
	assert_int_equal(seen->traffic, LB_TRAFFIC_CLUSTER);
	assert_int_equal(seen->health_check_node_port, 0);
	assert_false(seen->has_client_ip_affinity);
	assert_int_equal(seen->affinity_timeout_s, 0);
}

static bool
ensure_with(struct world *w, const struct lb_spec *spec)
{
	struct lb_status status;
	enum lb_outcome outcome;

	w->n_calls = 0;
	w->seen = (struct lb_spec){ 0 };
	buf_reset(&w->fake.events);
	return balancer_ensure(&w->cloud, &w->call, spec, &outcome, &status, &w->err);
}

/* All features but this one are passed. Dual stack needs IPv6. */
static struct balancer_ops
ops_with(enum lb_feature feature, enum lb_support support)
{
	struct balancer_ops ops = { .features = { LB_PASSES_ALL }, .ensure = record_ensure };

	ops.features[feature] = support;
	return ops;
}

/* A Service that asks for the feature, and a cloud with this support of it. */
static bool
ensure_feature(struct world *w, enum lb_feature feature, enum lb_support support)
{
	struct balancer_ops ops = ops_with(feature, support);
	struct lb_spec spec = spec_with(feature);

	w->cloud.balancers = &ops;
	return ensure_with(w, &spec);
}

static const char *const feature_texts[LB_N_FEATURES] = {
	[LB_UDP_PORTS] = "UDP",
	[LB_SCTP_PORTS] = "SCTP",
	[LB_SEVERAL_PORTS] = "more than one port",
	[LB_PORTS_WITHOUT_NODE_PORT] = "spec.allocateLoadBalancerNodePorts",
	[LB_SOURCE_RANGES] = "spec.loadBalancerSourceRanges",
	[LB_LOCAL_TRAFFIC] = "spec.externalTrafficPolicy: Local",
	[LB_CLIENT_AFFINITY] = "spec.sessionAffinity: ClientIP",
	[LB_IPV6] = "IPv6",
	[LB_DUAL_STACK] = "both families",
	[LB_CHOSEN_IP] = "spec.loadBalancerIP",
};

static void
what_a_table_does_not_mention_is_refused(void **state)
{
	struct world *w = *state;

	for (enum lb_feature feature = 0; feature < LB_N_FEATURES; feature++) {
		assert_false(ensure_feature(w, feature, 0));
		assert_int_equal(w->err.code, ERR_UNSUPPORTED);
		assert_non_null(strstr(w->err.msg, feature_texts[feature]));
		assert_int_equal(w->n_calls, 0);
	}
}

static void
what_is_left_out_is_reported(void **state)
{
	struct world *w = *state;

	for (enum lb_feature feature = 0; feature < LB_N_FEATURES; feature++) {
		struct balancer_ops ops = ops_with(feature, LB_LEAVE_OUT);
		struct lb_spec spec = spec_with(feature);
		uint64_t reported = 0;

		assert_true(ensure_feature(w, feature, LB_LEAVE_OUT));
		check_left_out(&w->seen);
		assert_string_equal(w->fake.events.ptr, "");
		w->cloud.balancers = &ops;
		balancer_report_left_out(&w->cloud, &w->call, &spec, &reported);
		assert_true(str_starts(buf_str(&w->fake.events),
		                       STR("default/web LoadBalancerFeatureLeftOut: ")));
		assert_non_null(strstr(w->fake.events.ptr, feature_texts[feature]));
		assert_int_equal(strstr(w->fake.events.ptr, "open to all addresses") != NULL,
		                 feature == LB_SOURCE_RANGES);
	}
}

static void
what_is_left_out_is_reported_once(void **state)
{
	struct balancer_ops ops = ops_with(LB_SOURCE_RANGES, LB_LEAVE_OUT);
	struct lb_spec spec = spec_with(LB_SOURCE_RANGES);
	struct world *w = *state;
	uint64_t reported = 0;

	w->cloud.balancers = &ops;
	balancer_report_left_out(&w->cloud, &w->call, &spec, &reported);
	buf_reset(&w->fake.events);
	balancer_report_left_out(&w->cloud, &w->call, &spec, &reported);
	assert_string_equal(w->fake.events.ptr, "");
	spec.n_source_ranges = 0;
	balancer_report_left_out(&w->cloud, &w->call, &spec, &reported);
	assert_string_equal(w->fake.events.ptr, "");
	spec.n_source_ranges = 1;
	balancer_report_left_out(&w->cloud, &w->call, &spec, &reported);
	assert_non_null(strstr(w->fake.events.ptr, "LoadBalancerFeatureLeftOut"));
}

static void
what_is_ignored_is_left_out_in_silence(void **state)
{
	struct world *w = *state;

	for (enum lb_feature feature = 0; feature < LB_N_FEATURES; feature++) {
		assert_true(ensure_feature(w, feature, LB_IGNORE));
		check_left_out(&w->seen);
		assert_string_equal(w->fake.events.ptr, "");
	}
}

static void
what_is_passed_arrives(void **state)
{
	struct balancer_ops ops = ops_with(0, LB_PASS);
	struct lb_spec spec = spec_with(LB_DUAL_STACK);
	struct world *w = *state;

	spec.n_ports = 2;
	spec.n_source_ranges = 1;
	spec.wanted_ip = STR("192.0.2.1");
	spec.traffic = LB_TRAFFIC_LOCAL;
	spec.health_check_node_port = 31000;
	spec.has_client_ip_affinity = true;
	spec.affinity_timeout_s = 60;
	w->cloud.balancers = &ops;
	assert_true(ensure_with(w, &spec));
	assert_int_equal(w->seen.n_ports, 2);
	assert_int_equal(w->seen.ports[1].port, spec.ports[1].port);
	assert_int_equal(w->seen.n_source_ranges, 1);
	assert_int_equal(w->seen.n_families, 2);
	assert_true(str_eq_c(w->seen.wanted_ip, "192.0.2.1"));
	assert_int_equal(w->seen.traffic, LB_TRAFFIC_LOCAL);
	assert_int_equal(w->seen.health_check_node_port, 31000);
	assert_true(w->seen.has_client_ip_affinity);
	assert_int_equal(w->seen.affinity_timeout_s, 60);
	assert_string_equal(w->fake.events.ptr, "");
}

/* ---- limits ---- */

static struct balancer_ops
limited_ops(void)
{
	static const char *const lists[] = { "domains", NULL };

	return (struct balancer_ops){ .features = { LB_PASSES_ALL },
		                      .ensure = record_ensure,
		                      .annotation_prefix = "toy.example/",
		                      .annotation_lists = lists };
}

/* The Service is refused with that message before the provider is called, in all ways. */
static void
check_beyond(struct world *w, const struct lb_spec *spec, const char *message)
{
	struct balancer_ops ops = limited_ops();

	w->cloud.balancers = &ops;
	assert_false(ensure_with(w, spec));
	assert_int_equal(w->err.code, ERR_INVALID);
	assert_true(str_starts(str_c(w->err.msg), str_c(message)));
	assert_non_null(strstr(w->err.msg, "; change the Service, "));
	assert_false(balancer_check(&w->cloud, &w->call, spec, &w->err));
	assert_true(str_starts(str_c(w->err.msg), str_c(message)));
	assert_false(balancer_update_nodes(&w->cloud, &w->call, spec, &w->err));
	assert_true(str_starts(str_c(w->err.msg), str_c(message)));
	assert_int_equal(w->n_calls, 0);
}

static void
check_within(struct world *w, const struct lb_spec *spec)
{
	struct balancer_ops ops = limited_ops();

	w->cloud.balancers = &ops;
	assert_true(ensure_with(w, spec));
	assert_true(balancer_check(&w->cloud, &w->call, spec, &w->err));
	assert_true(balancer_update_nodes(&w->cloud, &w->call, spec, &w->err));
}

static void
numbers_have_limits(void **state)
{
	static const struct lb_port ports[LIMIT_BALANCER_PORTS + 1];
	static const struct str ranges[LIMIT_BALANCER_RANGES + 1];
	static const struct node_ref nodes[LIMIT_BALANCER_PARTS / LIMIT_BALANCER_PORTS + 1];
	struct world *w = *state;
	struct lb_spec spec = spec_with(LB_N_FEATURES - 1);

	spec.ports = ports;
	spec.source_ranges = ranges;
	spec.nodes = nodes;
	spec.n_ports = LIMIT_BALANCER_PORTS;
	spec.n_source_ranges = LIMIT_BALANCER_RANGES;
	spec.n_nodes = LIMIT_BALANCER_PARTS / LIMIT_BALANCER_PORTS - LIMIT_BALANCER_RANGES;
	check_within(w, &spec);
	spec.n_nodes++;
	check_beyond(w, &spec,
	             "the Service has 250200 source ranges and nodes, counted once for each port, "
	             "and at most 250000 are possible");
	spec.n_nodes = 0;
	spec.n_source_ranges++;
	check_beyond(w, &spec, "the Service has 1001 source ranges, and at most 1000 are possible");
	spec.n_source_ranges = 0;
	spec.n_ports++;
	check_beyond(w, &spec, "the Service has 201 ports, and at most 200 are possible");
}

static void
annotations_have_limits(void **state)
{
	struct label annotations[LIMIT_BALANCER_ANNOTATIONS + 2];
	char *text = xcalloc(1, LIMIT_BALANCER_TEXT + 1);
	struct world *w = *state;
	struct lb_spec spec = spec_with(LB_N_FEATURES - 1);

	memset(text, 'x', LIMIT_BALANCER_TEXT + 1);
	for (size_t i = 0; i < ARRAY_LEN(annotations); i++)
		annotations[i] = (struct label){ STR("toy.example/type"), STR_EMPTY };
	annotations[0].key = STR("example.com/of-no-concern-to-the-provider");
	annotations[0].value = str_n(text, LIMIT_BALANCER_TEXT + 1);
	spec.annotations = annotations;
	spec.n_annotations = LIMIT_BALANCER_ANNOTATIONS + 1;
	annotations[1].value = str_n(text, LIMIT_BALANCER_TEXT);
	check_within(w, &spec);
	annotations[1].value.len++;
	check_beyond(w, &spec,
	             "the Service has 16385 bytes in annotation toy.example/type, and at most "
	             "16384 are possible");
	annotations[1].value = STR_EMPTY;
	spec.n_annotations++;
	check_beyond(
		w, &spec,
		"the Service has 201 annotations that begin with toy.example/, and at most 200 "
		"are possible");
	free(text);
}

/* Each domain may cost a look-up of 10 s. */
static void
lists_of_names_have_limits(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(1));
	struct label domains = { STR("toy.example/domains"), STR_EMPTY };
	struct world *w = *state;
	struct lb_spec spec = spec_with(LB_N_FEATURES - 1);

	spec.annotations = &domains;
	spec.n_annotations = 1;
	for (size_t i = 0; i < LIMIT_BALANCER_NAMES; i++)
		buf_add_c(&text, "a.example,, ");
	domains.value = buf_str(&text);
	check_within(w, &spec);
	buf_add_c(&text, "b.example");
	domains.value = buf_str(&text);
	check_beyond(
		w, &spec,
		"the Service has 51 elements in annotation toy.example/domains, and at most 50 "
		"are possible");
	domains.key = STR("toy.example/others");
	check_within(w, &spec);
}

/* A balancer without ports, or of no family, would serve no client, and be paid for. */
static void
nothing_is_made_if_nothing_is_left(void **state)
{
	struct balancer_ops udp = ops_with(LB_UDP_PORTS, LB_LEAVE_OUT);
	struct balancer_ops v6 = ops_with(LB_IPV6, LB_IGNORE);
	struct lb_spec spec = spec_with(LB_UDP_PORTS);
	static const enum ip_family only[] = { IP_V6 };
	struct world *w = *state;

	spec.n_ports = 1;
	w->cloud.balancers = &udp;
	assert_false(ensure_with(w, &spec));
	assert_int_equal(w->err.code, ERR_UNSUPPORTED);
	spec = spec_with(LB_N_FEATURES - 1);
	spec.families = only;
	w->cloud.balancers = &v6;
	assert_false(ensure_with(w, &spec));
	assert_int_equal(w->err.code, ERR_UNSUPPORTED);
	assert_int_equal(w->n_calls, 0);
}

static void
a_service_that_prefers_two_families_may_get_one(void **state)
{
	static const enum lb_feature features[] = { LB_IPV6, LB_DUAL_STACK };
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(features); i++) {
		struct balancer_ops ops = ops_with(features[i], LB_REFUSE);
		struct lb_spec spec = spec_with(features[i]);

		spec.family_policy = LB_PREFER_DUAL_STACK;
		w->cloud.balancers = &ops;
		assert_true(ensure_with(w, &spec));
		check_left_out(&w->seen);
		assert_string_equal(w->fake.events.ptr, "");
	}
}

static bool
record_update(struct cloud *cloud, struct call *call, const struct lb_spec *spec, struct error *err)
{
	struct world *w = CONTAINER_OF(cloud, struct world, cloud);

	(void)call;
	(void)err;
	w->n_calls++;
	w->seen = *spec;
	return true;
}

/* Its nodes follow, although its Service now asks for what would be refused. */
static void
a_refusal_does_not_stop_an_update_of_nodes(void **state)
{
	struct balancer_ops ops = ops_with(LB_SOURCE_RANGES, LB_REFUSE);
	struct lb_spec spec = spec_with(LB_SOURCE_RANGES);
	struct world *w = *state;

	ops.update_nodes = record_update;
	w->cloud.balancers = &ops;
	assert_true(balancer_update_nodes(&w->cloud, &w->call, &spec, &w->err));
	assert_int_equal(w->n_calls, 1);
	ops.features[LB_SOURCE_RANGES] = LB_LEAVE_OUT;
	assert_true(balancer_update_nodes(&w->cloud, &w->call, &spec, &w->err));
	assert_int_equal(w->seen.n_source_ranges, 0);
	assert_string_equal(w->fake.events.ptr, "");
}

static void
without_update_nodes_the_balancer_is_ensured(void **state)
{
	struct balancer_ops ops = ops_with(0, LB_PASS);
	struct lb_spec spec = spec_with(LB_N_FEATURES - 1);
	struct world *w = *state;

	w->cloud.balancers = &ops;
	assert_true(balancer_update_nodes(&w->cloud, &w->call, &spec, &w->err));
	assert_int_equal(w->n_calls, 1);
}

/* ---- drivers ---- */

static bool
is_pending(const struct world *w, const char *function, struct error *err)
{
	if (!w->pending_in || strcmp(w->pending_in, function) != 0)
		return false;
	*err = w->pending;
	return true;
}

static bool
toy_find(struct cloud *cloud, struct call *call, const struct lb_spec *spec, struct balancer **ret,
         struct error *err)
{
	struct world *w = CONTAINER_OF(cloud, struct world, cloud);

	call->answers = (struct call_answers){ w->status, w->status == 200, false };
	buf_add_c(&w->calls, "find ");
	if (w->has_token_replaced)
		login_note_replaced();
	if (w->failure.code != ERR_NONE) {
		*err = w->failure;
		return false;
	}
	if (is_pending(w, "find", err))
		return false;
	if (w->n_hidden > 0 || !w->exists) {
		w->n_hidden -= w->n_hidden > 0;
		return err_set(err, ERR_NOT_FOUND, "no balancer %" STR_FMT, STR_ARG(spec->name));
	}
	*ret = &w->balancer;
	return true;
}

static bool
toy_create(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
           struct balancer **ret, struct error *err)
{
	struct world *w = CONTAINER_OF(cloud, struct world, cloud);

	(void)spec;
	buf_add_c(&w->calls, "create ");
	if (w->refusal.code != ERR_NONE) {
		call->answers.last_status = 422;
		*err = w->refusal;
		return false;
	}
	call->answers = (struct call_answers){ 201, true, false };
	if (w->exists)
		return err_set(err, ERR_EXISTS, "the name is taken");
	w->exists = true;
	if (is_pending(w, "create", err))
		return false;
	*ret = &w->balancer;
	return true;
}

static bool
toy_change(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
           struct balancer *balancer, struct error *err)
{
	struct world *w = CONTAINER_OF(cloud, struct world, cloud);

	call->answers = (struct call_answers){ w->job_is_missing ? 503 : 200, false, false };
	(void)spec;
	assert_ptr_equal(balancer, &w->balancer);
	buf_add_c(&w->calls, "change ");
	if (is_pending(w, "change", err))
		return false;
	return !w->job_is_missing || err_set(err, ERR_NOT_FOUND, "no such job");
}

static bool
toy_destroy(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
            const struct balancer *balancer, struct error *err)
{
	struct world *w = CONTAINER_OF(cloud, struct world, cloud);

	(void)call;
	(void)spec;
	(void)balancer;
	buf_add_c(&w->calls, "destroy ");
	if (is_pending(w, "destroy", err))
		return false;
	if (w->job_is_missing)
		return err_set(err, ERR_NOT_FOUND, "no such job");
	w->exists = false;
	return !w->is_gone_meanwhile || err_set(err, ERR_NOT_FOUND, "it is gone");
}

static const struct balancer_ops plain = {
	.features = { LB_PASSES_ALL },
	.find = toy_find,
	.create = toy_create,
	.change = toy_change,
	.destroy = toy_destroy,
};

static void
check_calls(struct world *w, const char *calls)
{
	assert_string_equal(w->calls.ptr, calls);
	buf_reset(&w->calls);
}

static struct lb_spec
plain_spec(struct world *w)
{
	static struct lb_ingress address = { STR("192.0.2.9"), STR(""), LB_IP_MODE_VIP };

	w->cloud.balancers = &plain;
	w->status = 200;
	w->balancer.id = STR("7");
	w->balancer.status = (struct lb_status){ &address, 1 };
	return spec_with(LB_N_FEATURES - 1);
}

static bool
get_machine(struct cloud *cloud, struct call *call, struct str id, struct machine *ret,
            struct error *err)
{
	struct world *w = CONTAINER_OF(cloud, struct world, cloud);

	call->answers.last_status = 404;
	w->n_asked_machines++;
	(void)id;
	(void)ret;
	if (w->machine_failure.code != ERR_NONE) {
		*err = w->machine_failure;
		return false;
	}
	return w->is_our_project || err_set(err, ERR_NOT_FOUND, "no such machine");
}

/* The nodes that the host knows: one with a machine of this cloud beside one of another. */
static void
add_nodes(struct world *w)
{
	static const struct cloud_ops ops = { .name = "toy",
		                              .provider_id_prefix = "toy://",
		                              .get_machine = get_machine };
	static struct node_ref nodes[] = {
		{ .name = STR("other"), .provider_id = STR("other://1") },
		{ .name = STR("n1"), .provider_id = STR("toy://1") },
	};

	w->cloud.ops = &ops;
	w->fake.nodes = nodes;
	w->fake.n_nodes = ARRAY_LEN(nodes);
}

static void
a_balancer_is_made_once(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = plain_spec(w);
	enum lb_outcome outcome = LB_PARTIAL;
	struct lb_status status = { 0 };

	assert_true(balancer_ensure(&w->cloud, &w->call, &spec, &outcome, &status, &w->err));
	check_calls(w, "find create ");
	assert_int_equal(outcome, LB_DONE);
	assert_int_equal(status.n_ingress, 1);
	assert_true(str_eq_c(status.ingress[0].ip, "192.0.2.9"));
	assert_true(balancer_ensure(&w->cloud, &w->call, &spec, &outcome, &status, &w->err));
	check_calls(w, "find change ");
	assert_true(balancer_update_nodes(&w->cloud, &w->call, &spec, &w->err));
	check_calls(w, "find change ");
}

static void
another_process_may_be_faster(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = plain_spec(w);

	w->exists = true;
	w->n_hidden = 1;
	assert_true(ensure_with(w, &spec));
	check_calls(w, "find create find change ");
}

static void
a_balancer_without_addresses_is_asked_for_again(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = plain_spec(w);

	w->balancer.status.n_ingress = 0;
	assert_false(ensure_with(w, &spec));
	assert_int_equal(w->err.code, ERR_PENDING);
	assert_true(w->err.retry_after_ms > 0);
}

static void
a_failed_search_makes_nothing(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = plain_spec(w);
	bool found = true;

	err_set(&w->failure, ERR_UNAVAILABLE, "it is away");
	assert_false(ensure_with(w, &spec));
	check_calls(w, "find ");
	assert_string_equal(w->err.msg, "find load balancer au: it is away");
	assert_false(balancer_remove(&w->cloud, &w->call, &spec, &found, &w->err));
	check_calls(w, "find ");
}

static void
an_update_of_what_is_not_there_says_so(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = plain_spec(w);

	assert_false(balancer_update_nodes(&w->cloud, &w->call, &spec, &w->err));
	assert_int_equal(w->err.code, ERR_NOT_FOUND);
}

static void
what_is_gone_is_removed(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = plain_spec(w);
	bool found = false;

	add_nodes(w);
	w->is_our_project = true;
	w->exists = true;
	assert_true(balancer_remove(&w->cloud, &w->call, &spec, &found, &w->err));
	assert_true(found);
	check_calls(w, "find destroy ");
	assert_true(balancer_remove(&w->cloud, &w->call, &spec, &found, &w->err));
	assert_false(found);
	check_calls(w, "find ");
	w->exists = w->is_gone_meanwhile = true;
	assert_true(balancer_remove(&w->cloud, &w->call, &spec, &found, &w->err));
}

/* The balancer of a Service that is deleted before its status was written may exist all the same:
 * with credentials of another project it is not found. */
static void
a_service_without_a_status_is_released_only_with_evidence(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = plain_spec(w);
	bool found = true;

	add_nodes(w);
	assert_false(balancer_remove(&w->cloud, &w->call, &spec, &found, &w->err));
	assert_int_equal(w->err.code, ERR_PENDING);
	assert_true(w->err.is_held);
	assert_int_equal(w->n_asked_machines, 1);
	w->is_our_project = true;
	w->fake.now_ns += 60 * NS_PER_SEC;
	assert_true(balancer_remove(&w->cloud, &w->call, &spec, &found, &w->err));
	assert_false(found);
	check_calls(w, "find find ");
	assert_int_equal(w->n_asked_machines, 2);
}

/* The search may have been in another project than the one that the evidence is of. */
static void
a_service_is_not_released_if_the_token_is_replaced_meanwhile(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = plain_spec(w);
	bool found = true;

	add_nodes(w);
	w->is_our_project = w->has_token_replaced = true;
	assert_false(balancer_remove(&w->cloud, &w->call, &spec, &found, &w->err));
	assert_int_equal(w->err.code, ERR_UNAVAILABLE);
	w->has_token_replaced = false;
	assert_true(balancer_remove(&w->cloud, &w->call, &spec, &found, &w->err));
	assert_false(found);
}

/* The 404 of the DELETE, and the search after it, may be about another project than the one in
 * which the balancer was found. */
static void
a_service_is_not_released_if_the_token_is_replaced_before_the_delete(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = plain_spec(w);
	bool found = false;

	add_nodes(w);
	w->exists = w->is_gone_meanwhile = w->is_our_project = w->has_token_replaced = true;
	assert_false(balancer_remove(&w->cloud, &w->call, &spec, &found, &w->err));
	assert_int_equal(w->err.code, ERR_UNAVAILABLE);
	check_calls(w, "find destroy find ");
	w->has_token_replaced = false;
	assert_true(balancer_remove(&w->cloud, &w->call, &spec, &found, &w->err));
	check_calls(w, "find ");
}

/* The evidence costs a new Service nothing. */
static void
a_new_service_needs_no_evidence(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = plain_spec(w);

	add_nodes(w);
	assert_true(ensure_with(w, &spec));
	check_calls(w, "find create ");
	assert_int_equal(w->n_asked_machines, 0);
}

/* ---- mistakes of a provider ---- */

/* find() gives every failure the code ERR_NOT_FOUND. */
static void
a_failed_search_is_no_proof_that_there_is_no_balancer(void **state)
{
	static const int statuses[] = { 503, 401, 429, -1, 0 };
	struct world *w = *state;
	struct lb_spec spec = plain_spec(w);
	bool found = true;

	for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
		w->status = statuses[i];
		assert_false(ensure_with(w, &spec));
		assert_int_equal(w->err.code, ERR_UNAVAILABLE);
		assert_non_null(strstr(w->err.msg, "\"not found\" is not believed"));
		assert_false(balancer_remove(&w->cloud, &w->call, &spec, &found, &w->err));
		assert_int_equal(w->err.code, ERR_UNAVAILABLE);
		assert_false(balancer_update_nodes(&w->cloud, &w->call, &spec, &w->err));
		assert_int_equal(w->err.code, ERR_UNAVAILABLE);
		check_calls(w, "find find find ");
	}
	w->status = 404;
	assert_true(ensure_with(w, &spec));
	check_calls(w, "find create ");
}

/* The 404 is that of the job that would have deleted it. */
static void
a_balancer_that_is_still_found_was_not_removed(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = plain_spec(w);
	bool found = false;

	w->exists = w->job_is_missing = true;
	assert_false(balancer_remove(&w->cloud, &w->call, &spec, &found, &w->err));
	assert_int_equal(w->err.code, ERR_UNAVAILABLE);
	assert_string_equal(w->err.msg, "delete load balancer 7: no such job");
	check_calls(w, "find destroy find ");
}

static void
a_failed_change_is_no_proof_that_the_balancer_is_gone(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = plain_spec(w);

	w->exists = w->job_is_missing = true;
	assert_false(balancer_update_nodes(&w->cloud, &w->call, &spec, &w->err));
	assert_int_equal(w->err.code, ERR_UNAVAILABLE);
	assert_false(ensure_with(w, &spec));
	assert_int_equal(w->err.code, ERR_UNAVAILABLE);
	check_calls(w, "find change find change ");
}

/* ---- evidence for drivers ---- */

static struct lb_spec
served_spec(struct world *w)
{
	struct lb_spec spec = plain_spec(w);

	add_nodes(w);
	spec.status = w->balancer.status;
	return spec;
}

/* With credentials of another project no balancer is found, and none may be made there. */
static void
a_service_whose_balancer_is_missing_is_held_without_evidence(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = served_spec(w);
	bool found = true;

	assert_false(ensure_with(w, &spec));
	assert_int_equal(w->err.code, ERR_PENDING);
	assert_true(w->err.is_held);
	assert_non_null(strstr(w->err.msg, "Check the credentials"));
	assert_non_null(strstr(w->err.msg, "ccmd.io/load-balancer-is-gone=true"));
	assert_false(balancer_remove(&w->cloud, &w->call, &spec, &found, &w->err));
	assert_int_equal(w->err.code, ERR_PENDING);
	check_calls(w, "find find ");
	w->is_our_project = true;
	w->fake.now_ns += 60 * NS_PER_SEC;
	assert_true(ensure_with(w, &spec));
	check_calls(w, "find create ");
}

static bool
has_evidence(struct world *w)
{
	struct lb_spec spec = served_spec(w);

	return balancer_check_project(&w->cloud, &w->call, &spec, &w->err);
}

/* Of many Services that are held, one looks for evidence, once a minute. */
static void
missing_evidence_is_not_looked_for_again_and_again(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < 60; i++, w->fake.now_ns += NS_PER_SEC)
		assert_false(has_evidence(w));
	assert_int_equal(w->n_asked_machines, 1);
	assert_false(has_evidence(w));
	assert_int_equal(w->n_asked_machines, 2);
}

static void
evidence_is_not_stored(void **state)
{
	struct world *w = *state;

	w->is_our_project = true;
	assert_true(has_evidence(w));
	w->is_our_project = false;
	assert_false(has_evidence(w));
	assert_int_equal(w->n_asked_machines, 2);
}

static void
a_failed_look_is_neither_evidence_nor_its_absence(void **state)
{
	struct world *w = *state;

	err_set(&w->machine_failure, ERR_UNAVAILABLE, "no answer");
	assert_false(has_evidence(w));
	assert_int_equal(w->err.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(w->err.msg, "no answer"));
	w->machine_failure.code = ERR_NONE;
	w->is_our_project = true;
	assert_true(has_evidence(w));
}

static bool
count_anchors(struct cloud *cloud, struct call *call, unsigned *ret, struct error *err)
{
	struct world *w = CONTAINER_OF(cloud, struct world, cloud);

	(void)call;
	w->n_asked_anchors++;
	*ret = w->n_anchors;
	return w->n_anchors < 9 || err_set(err, ERR_UNAVAILABLE, "no anchors today");
}

/* With the machine of a node and without any node that has a provider ID. */
static void
an_anchor_is_evidence(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = served_spec(w);
	struct cloud_ops ops = *w->cloud.ops;

	ops.count_anchors = count_anchors;
	w->cloud.ops = &ops;
	for (int i = 0; i < 2; i++) {
		w->n_anchors = 1;
		assert_true(balancer_check_project(&w->cloud, &w->call, &spec, &w->err));
		w->n_anchors = 9;
		assert_false(balancer_check_project(&w->cloud, &w->call, &spec, &w->err));
		assert_int_equal(w->err.code, ERR_UNAVAILABLE);
		assert_non_null(strstr(w->err.msg, "no anchors today"));
		w->n_anchors = 0;
		assert_false(balancer_check_project(&w->cloud, &w->call, &spec, &w->err));
		assert_true(w->err.is_held);
		w->fake.now_ns += 60 * NS_PER_SEC;
		w->fake.n_nodes = 0;
	}
	assert_int_equal(w->n_asked_anchors, 6);
	assert_int_equal(w->n_asked_machines, 3);
}

/* The credentials are replaced between the search and that for evidence: the balancer exists in the
 * project whose machines are found. */
static void
evidence_counts_only_for_a_search_with_the_same_credentials(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = served_spec(w);

	w->exists = w->is_our_project = w->has_token_replaced = true;
	w->n_hidden = 1;
	assert_false(ensure_with(w, &spec));
	assert_int_equal(w->err.code, ERR_UNAVAILABLE);
	check_calls(w, "find ");
	assert_true(ensure_with(w, &spec));
	check_calls(w, "find change ");
}

/* ---- the API answers later ---- */

static bool
remove_with(struct world *w, const struct lb_spec *spec)
{
	bool found;

	return balancer_remove(&w->cloud, &w->call, spec, &found, &w->err);
}

/* Each function may say that the cloud has not finished: nothing follows, and nothing is released.
 */
static void
each_function_may_be_pending(void **state)
{
	static const struct {
		const char *function;
		bool exists, removes;
		const char *calls;
	} rows[] = {
		{ "find", false, false, "find " },
		{ "find", false, true, "find " },
		{ "create", false, false, "find create " },
		{ "change", true, false, "find change " },
		{ "destroy", true, true, "find destroy " },
	};
	struct world *w = *state;
	struct lb_spec spec = plain_spec(w);

	err_set(&w->pending, ERR_PENDING, "job 7 runs");
	w->pending.retry_after_ms = 7000;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		w->pending_in = rows[i].function;
		w->exists = rows[i].exists;
		assert_false(rows[i].removes ? remove_with(w, &spec) : ensure_with(w, &spec));
		assert_int_equal(w->err.code, ERR_PENDING);
		assert_int_equal(w->err.retry_after_ms, 7000);
		check_calls(w, rows[i].calls);
		assert_string_equal(w->fake.events.ptr, "");
	}
}

/* A cloud that lists a balancer only when its job has ended, after up to two minutes, and a leader
 * that has been leading for longer. */
static struct lb_spec
slow_spec(struct world *w)
{
	static struct balancer_ops slow;
	struct lb_spec spec = plain_spec(w);

	slow = plain;
	slow.creation_hidden_ms = 120000;
	w->cloud.balancers = &slow;
	add_nodes(w);
	w->is_our_project = true;
	err_set(&w->pending, ERR_PENDING, "job 7 runs");
	w->pending.retry_after_ms = 7000;
	balancer_begin(&w->cloud, &w->call);
	w->fake.now_ns += 120 * NS_PER_SEC;
	return spec;
}

static void
a_balancer_that_is_not_listed_yet_is_not_asked_for_twice(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = slow_spec(w);

	w->pending_in = "create";
	assert_false(ensure_with(w, &spec));
	check_calls(w, "find create ");
	w->n_hidden = 1000;
	for (int64_t age_s = 10; age_s < 120; age_s += 10) {
		w->fake.now_ns += 10 * NS_PER_SEC;
		assert_false(ensure_with(w, &spec));
		assert_int_equal(w->err.code, ERR_PENDING);
		assert_int_equal(w->err.retry_after_ms, (age_s < 60   ? age_s / 2
		                                         : age_s < 90 ? 30
		                                                      : 120 - age_s) *
		                                                1000);
		check_calls(w, "find ");
	}
	w->n_hidden = 0;
	assert_true(ensure_with(w, &spec));
	check_calls(w, "find change ");
}

static void
a_balancer_that_is_not_listed_yet_keeps_its_service(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = slow_spec(w);

	w->pending_in = "create";
	assert_false(ensure_with(w, &spec));
	w->n_hidden = 1;
	buf_reset(&w->calls);
	assert_false(remove_with(w, &spec));
	assert_int_equal(w->err.code, ERR_PENDING);
	check_calls(w, "find ");
	assert_true(remove_with(w, &spec));
	check_calls(w, "find destroy ");
	assert_false(w->exists);
}

/* The job may have failed. */
static void
a_balancer_that_never_appears_is_asked_for_again(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = slow_spec(w);

	w->pending_in = "create";
	assert_false(ensure_with(w, &spec));
	w->exists = false;
	w->pending_in = NULL;
	w->fake.now_ns += 119 * NS_PER_SEC;
	assert_false(ensure_with(w, &spec));
	w->fake.now_ns += NS_PER_SEC;
	assert_true(ensure_with(w, &spec));
	check_calls(w, "find create find find create ");
}

/* The former leader may have asked for a balancer, and crashed. */
static void
a_new_leader_does_not_conclude_anything_at_first(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = slow_spec(w);

	w->cloud.creations = (struct creations){ 0 };
	balancer_begin(&w->cloud, &w->call);
	w->fake.now_ns += 100 * NS_PER_SEC;
	assert_false(ensure_with(w, &spec));
	assert_int_equal(w->err.code, ERR_PENDING);
	assert_int_equal(w->err.retry_after_ms, 20000);
	assert_false(remove_with(w, &spec));
	assert_int_equal(w->err.code, ERR_PENDING);
	check_calls(w, "find find ");
	w->fake.now_ns += 20 * NS_PER_SEC;
	assert_true(remove_with(w, &spec));
	check_calls(w, "find ");
}

static void
a_creation_that_was_refused_is_not_waited_for(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = slow_spec(w);

	err_set(&w->refusal, ERR_INVALID, "no such size");
	for (int i = 0; i < 2; i++) {
		assert_false(ensure_with(w, &spec));
		assert_int_equal(w->err.code, ERR_INVALID);
		check_calls(w, "find create ");
	}
}

/* The name is in use, by a balancer that is not listed yet. */
static void
a_creation_by_another_process_is_waited_for(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = slow_spec(w);

	w->exists = true;
	w->n_hidden = 3;
	assert_false(ensure_with(w, &spec));
	assert_int_equal(w->err.code, ERR_PENDING);
	check_calls(w, "find create find ");
	assert_false(ensure_with(w, &spec));
	check_calls(w, "find ");
	assert_true(ensure_with(w, &spec));
	check_calls(w, "find change ");
}

static void
a_creation_that_takes_long_is_reported_once(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = slow_spec(w);

	w->pending_in = "create";
	assert_false(ensure_with(w, &spec));
	w->n_hidden = 1000;
	w->fake.now_ns += 59 * NS_PER_SEC;
	assert_false(ensure_with(w, &spec));
	assert_string_equal(w->fake.events.ptr, "");
	w->fake.now_ns += NS_PER_SEC;
	assert_false(ensure_with(w, &spec));
	assert_string_equal(
		w->fake.events.ptr,
		"default/web Normal LoadBalancerPending: load balancer au may have been "
		"requested, and is not visible yet\n");
	w->fake.now_ns += NS_PER_SEC;
	assert_false(ensure_with(w, &spec));
	assert_string_equal(w->fake.events.ptr, "");
}

static void
so_many_may_be_created_at_the_same_time(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = slow_spec(w);
	char uid[20];

	for (unsigned i = 0; i <= LIMIT_CREATIONS; i++) {
		snprintf(uid, sizeof(uid), "u%u", i);
		spec.uid = str_c(uid);
		w->exists = false;
		buf_reset(&w->calls);
		assert_int_equal(ensure_with(w, &spec), i < LIMIT_CREATIONS);
	}
	assert_int_equal(w->err.code, ERR_PENDING);
	check_calls(w, "find ");
	w->fake.now_ns += 120 * NS_PER_SEC;
	assert_true(ensure_with(w, &spec));
}

/* ---- held Services ---- */

/* Runs until the first failure or for an hour; returns the number of runs. *pause_s: the last one.
 */
static unsigned
wait_for(struct world *w, const struct error *err, struct lb_wait *wait, int64_t *pause_s)
{
	int64_t end_ns = w->fake.now_ns + 3600 * NS_PER_SEC;
	struct lb_spec spec = served_spec(w);
	unsigned n = 0;

	while (w->fake.now_ns < end_ns) {
		w->err = *err;
		balancer_note_wait(&w->cloud, &spec, wait, w->fake.now_ns, &w->err);
		if (w->err.code != ERR_PENDING)
			break;
		n++;
		assert_true(w->err.retry_after_ms > 0);
		*pause_s = w->err.retry_after_ms / 1000;
		w->fake.now_ns += w->err.retry_after_ms * NS_PER_MS;
	}
	return n;
}

static unsigned
count_events(const struct world *w)
{
	unsigned n = 0;

	for (const char *at = w->fake.events.ptr; (at = strchr(at, '\n')); at++)
		n++;
	return n;
}

static void
a_held_service_is_looked_at_and_reported_less_and_less_often(void **state)
{
	struct world *w = *state;
	struct lb_wait wait = { 0 };
	struct error held;
	int64_t pause_s;

	err_set(&held, ERR_PENDING, "another project");
	held.is_held = true;
	assert_in_range(wait_for(w, &held, &wait, &pause_s), 15, 30);
	assert_int_equal(pause_s, 300);
	assert_in_range(count_events(w), 6, 13);
	assert_true(str_starts(buf_str(&w->fake.events),
	                       STR("default/web LoadBalancerHeld: another project\n")));
}

static void
a_service_that_waits_for_five_minutes_has_failed(void **state)
{
	struct world *w = *state;
	int64_t begun_ns = w->fake.now_ns, pause_s;
	struct lb_wait wait = { 0 };
	struct error pending;

	err_set(&pending, ERR_PENDING, "job 7 runs");
	assert_in_range(wait_for(w, &pending, &wait, &pause_s), 20, 40);
	assert_int_equal(pause_s, 15);
	assert_in_range((w->fake.now_ns - begun_ns) / NS_PER_SEC, 300, 315);
	assert_int_equal(w->err.code, ERR_TIMEOUT);
	assert_int_equal(w->err.retry_after_ms, 0);
	assert_string_equal(w->err.msg, "for more than 5 minutes: job 7 runs");
	w->fake.now_ns += 5 * NS_PER_SEC;
	assert_in_range(wait_for(w, &pending, &wait, &pause_s), 2, 5); /* every five minutes */
	assert_int_equal(w->err.code, ERR_TIMEOUT);
	assert_int_equal(count_events(w), 0);
}

/* The time of an outage, and the pauses that a cloud names, are not ours. */
static void
an_outage_does_not_count_as_waiting(void **state)
{
	struct world *w = *state;
	struct lb_spec spec = served_spec(w);
	struct lb_wait wait = { 0 };
	struct error pending, outage, named;

	err_set(&pending, ERR_PENDING, "job 7 runs");
	err_set(&outage, ERR_UNAVAILABLE, "no answer");
	outage.is_outage = true;
	named = pending;
	named.retry_after_ms = 7000;
	for (int i = 0; i < 100; i++, w->fake.now_ns += 60 * NS_PER_SEC) {
		struct error err = i % 2 == 0 ? pending : outage;

		balancer_note_wait(&w->cloud, &spec, &wait, w->fake.now_ns, &err);
		assert_int_equal(err.code, i % 2 == 0 ? ERR_PENDING : ERR_UNAVAILABLE);
		assert_int_equal(err.retry_after_ms, i % 2 == 0 ? 1000 : 0);
	}
	balancer_note_wait(&w->cloud, &spec, &wait, w->fake.now_ns, &named);
	assert_int_equal(named.retry_after_ms, 7000);
}

/* Whoever finds a machine of a node: another Service, or the check of a node. */
static void
held_services_come_back_with_the_first_machine_that_is_found(void **state)
{
	CLEANUP(look_unrefp) struct look *before = NULL;
	CLEANUP(look_unrefp) struct look *after = NULL;
	CLEANUP(look_unrefp) struct look *later = NULL;
	struct node_ref node = { .name = STR("n1"), .provider_id = STR("toy://1") };
	struct world *w = *state;

	assert_false(has_evidence(w));
	assert_true(cloud_look(&w->cloud, &w->call, &node, 1, 0, &before, &w->err));
	assert_int_equal(w->fake.n_services_requeued, 0);
	w->is_our_project = true;
	assert_true(cloud_look(&w->cloud, &w->call, &node, 1, 0, &after, &w->err));
	assert_int_equal(w->fake.n_services_requeued, 1);
	assert_true(has_evidence(w)); /* within a minute */
	assert_true(cloud_look(&w->cloud, &w->call, &node, 1, 0, &later, &w->err));
	assert_int_equal(w->fake.n_services_requeued, 1);
	w->is_our_project = false;
	assert_false(has_evidence(w));
}

/* ---- dry runs ---- */

/* Of the balancer nothing but its address is made up, and a second run notes the same again. */
static void
a_dry_run_notes_what_would_be_made(void **state)
{
	static const struct node_ref nodes[] = { { .name = STR("n1") }, { .name = STR("n2") } };
	CLEANUP(dry_notes_fini) struct dry_notes notes;
	struct world *w = *state;
	struct lb_spec spec = plain_spec(w);
	enum lb_outcome outcome = LB_PARTIAL;
	struct lb_status status = { 0 };

	dry_notes_init(&notes);
	w->call.dry = &notes.item;
	spec.nodes = nodes;
	spec.n_nodes = ARRAY_LEN(nodes);
	for (int i = 0; i < 2; i++) {
		assert_true(balancer_ensure(&w->cloud, &w->call, &spec, &outcome, &status,
		                            &w->err));
		check_calls(w, "find ");
		dry_notes_check(&notes, "create load balancer au: \n"
		                        "  ports:  -> 80 to 30080\n"
		                        "  nodes:  -> n1, n2\n");
	}
	assert_int_equal(outcome, LB_DONE);
	assert_int_equal(status.n_ingress, 1);
	assert_true(str_eq(status.ingress[0].ip, LB_NEW_ADDRESS));
}

/* Whether something is to be changed only the provider knows. */
static void
a_dry_run_leaves_changes_to_the_provider(void **state)
{
	CLEANUP(dry_notes_fini) struct dry_notes notes;
	struct world *w = *state;
	struct lb_spec spec = plain_spec(w);

	dry_notes_init(&notes);
	w->call.dry = &notes.item;
	w->exists = true;
	assert_true(ensure_with(w, &spec));
	check_calls(w, "find change ");
	dry_notes_check(&notes, "");
}

static void
a_dry_run_notes_what_would_be_removed(void **state)
{
	CLEANUP(dry_notes_fini) struct dry_notes notes;
	struct world *w = *state;
	struct lb_spec spec = plain_spec(w);
	bool found = false;

	add_nodes(w);
	w->is_our_project = true;
	dry_notes_init(&notes);
	w->call.dry = &notes.item;
	w->exists = true;
	assert_true(balancer_remove(&w->cloud, &w->call, &spec, &found, &w->err));
	assert_true(found);
	check_calls(w, "find ");
	dry_notes_check(&notes, "delete load balancer 7: \n");
	w->exists = false;
	assert_true(balancer_remove(&w->cloud, &w->call, &spec, &found, &w->err));
	assert_false(found);
	dry_notes_check(&notes, "");
}

/* In another project it would make nothing either. */
static void
a_dry_run_holds_a_service_as_a_real_one(void **state)
{
	CLEANUP(dry_notes_fini) struct dry_notes notes;
	struct world *w = *state;
	struct lb_spec spec = plain_spec(w);

	dry_notes_init(&notes);
	w->call.dry = &notes.item;
	spec.status = w->balancer.status;
	assert_false(ensure_with(w, &spec));
	assert_int_equal(w->err.code, ERR_PENDING);
	dry_notes_check(&notes, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_service_that_had_a_balancer_or_leaves_needs_evidence),
		cmocka_unit_test(an_annotation_stands_in_for_evidence),
		TEST(what_a_table_does_not_mention_is_refused),
		TEST(what_is_left_out_is_reported),
		TEST(what_is_left_out_is_reported_once),
		TEST(what_is_ignored_is_left_out_in_silence),
		TEST(what_is_passed_arrives),
		TEST(nothing_is_made_if_nothing_is_left),
		TEST(numbers_have_limits),
		TEST(annotations_have_limits),
		TEST(lists_of_names_have_limits),
		TEST(a_service_that_prefers_two_families_may_get_one),
		TEST(a_refusal_does_not_stop_an_update_of_nodes),
		TEST(without_update_nodes_the_balancer_is_ensured),
		TEST(a_balancer_is_made_once),
		TEST(another_process_may_be_faster),
		TEST(a_balancer_without_addresses_is_asked_for_again),
		TEST(a_failed_search_makes_nothing),
		TEST(an_update_of_what_is_not_there_says_so),
		TEST(what_is_gone_is_removed),
		TEST(a_service_without_a_status_is_released_only_with_evidence),
		TEST(a_service_is_not_released_if_the_token_is_replaced_meanwhile),
		TEST(a_service_is_not_released_if_the_token_is_replaced_before_the_delete),
		TEST(a_new_service_needs_no_evidence),
		TEST(a_failed_search_is_no_proof_that_there_is_no_balancer),
		TEST(a_balancer_that_is_still_found_was_not_removed),
		TEST(a_failed_change_is_no_proof_that_the_balancer_is_gone),
		TEST(a_service_whose_balancer_is_missing_is_held_without_evidence),
		TEST(evidence_counts_only_for_a_search_with_the_same_credentials),
		TEST(each_function_may_be_pending),
		TEST(a_balancer_that_is_not_listed_yet_is_not_asked_for_twice),
		TEST(a_balancer_that_is_not_listed_yet_keeps_its_service),
		TEST(a_balancer_that_never_appears_is_asked_for_again),
		TEST(a_new_leader_does_not_conclude_anything_at_first),
		TEST(a_creation_that_was_refused_is_not_waited_for),
		TEST(a_creation_by_another_process_is_waited_for),
		TEST(a_creation_that_takes_long_is_reported_once),
		TEST(so_many_may_be_created_at_the_same_time),
		TEST(missing_evidence_is_not_looked_for_again_and_again),
		TEST(evidence_is_not_stored),
		TEST(a_failed_look_is_neither_evidence_nor_its_absence),
		TEST(an_anchor_is_evidence),
		TEST(a_held_service_is_looked_at_and_reported_less_and_less_often),
		TEST(a_service_that_waits_for_five_minutes_has_failed),
		TEST(an_outage_does_not_count_as_waiting),
		TEST(held_services_come_back_with_the_first_machine_that_is_found),
		TEST(a_dry_run_notes_what_would_be_made),
		TEST(a_dry_run_leaves_changes_to_the_provider),
		TEST(a_dry_run_notes_what_would_be_removed),
		TEST(a_dry_run_holds_a_service_as_a_real_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
