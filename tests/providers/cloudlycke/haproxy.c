#include "providers/cloudlycke/haproxy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/child.h"
#include "base/file.h"
#include "base/limits.h"
#include "providers/cloudlycke/lab.h"

struct world {
	struct cl_record_values values;
	struct lb_port ports[2];
	struct str ranges[4];
	struct buf text;
	struct str socket;
};

static void
world_fini(struct world *w)
{
	cl_targets_unref(w->values.targets);
	buf_fini(&w->text);
}

static struct ip
ip(const char *text)
{
	struct ip ip;

	assert_true(ip_parse(str_c(text), &ip));
	return ip;
}

/* One Service with one port, an address and two nodes. */
static void
world_init(struct world *w)
{
	const struct address addresses[] = { { STR("InternalIP"), STR("10.0.0.1") },
		                             { STR("InternalIP"), STR("fd00::1") },
		                             { STR("InternalIP"), STR("10.0.0.2") } };
	const struct node_ref nodes[] = { { .name = STR("n1"),
		                            .provider_id = STR("cloudlycke://m1"),
		                            .addresses = &addresses[0],
		                            .n_addresses = 2 },
		                          { .name = STR("n2"),
		                            .provider_id = STR("cloudlycke://m2"),
		                            .addresses = &addresses[2],
		                            .n_addresses = 1 } };

	*w = (struct world){ .text = BUF_INIT(LIMIT_HAPROXY_FILE), .socket = STR_EMPTY };
	w->ports[0] = (struct lb_port){
		.name = STR("http"), .protocol_text = STR("TCP"), .port = 80, .node_port = 31000
	};
	w->ports[1] = (struct lb_port){
		.name = STR_EMPTY, .protocol_text = STR("TCP"), .port = 443, .node_port = 31001
	};
	w->values = (struct cl_record_values){
		.allocation = { .namespace = STR("default"),
		                .service = STR("web"),
		                .uid = STR("u"),
		                .n_ports = 1,
		                .addresses.n = 1 },
		.name = STR("a1"),
		.targets = cl_targets_new(nodes, ARRAY_LEN(nodes)),
	};
	w->values.allocation.ports = w->ports;
	w->values.allocation.addresses.items[0] = ip("192.0.2.1");
	w->values.source_ranges = w->ranges;
}

static const char *
render(struct world *w)
{
	struct cl_record *records[] = { cl_record_new(&w->values) };

	buf_reset(&w->text);
	cl_haproxy_file(&w->text, records, 1, w->socket);
	cl_record_unref(records[0]);
	return w->text.ptr;
}

/* HAProxy itself finds nothing wrong with it, where there is one. */
static void
assert_valid(struct world *w)
{
	char path[] = "/tmp/ccmd-haproxy-XXXXXX";
	const char *argv[] = { "haproxy", "-c", "-f", path, NULL };
	const char *env[] = { "PATH=/usr/sbin:/sbin:/usr/bin:/bin", NULL };
	struct child_spec spec = { .argv = argv, .env = env, .take_stderr = true };
	CLEANUP(child_result_fini) struct child_result result = CHILD_RESULT_INIT;
	struct call call = { .clock = &clock_real, .deadline_mono_ns = CLOCK_FOREVER };
	struct error err;

	render(w);
	if (access("/usr/sbin/haproxy", X_OK) != 0)
		return;
	close(mkstemp(path));
	assert_true(file_replace(path, buf_str(&w->text), 0600, &err));
	assert_true(child_run(&call, &spec, &result, &err));
	unlink(path);
	if (result.exit_code != 0)
		fail_msg("%s\n%s", result.err.ptr, w->text.ptr);
}

static void
assert_has(struct world *w, const char *text)
{
	if (!strstr(render(w), text))
		fail_msg("no \"%s\" in:\n%s", text, w->text.ptr);
}

static void
assert_has_not(struct world *w, const char *text)
{
	if (strstr(render(w), text))
		fail_msg("\"%s\" in:\n%s", text, w->text.ptr);
}

/* ---- reading the file ---- */

static void
the_balancers_of_a_file_are_listed(void **state)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(world_fini) struct world w;
	struct cl_record *records[2];
	struct lb_listed *list;
	size_t n;

	(void)state;
	world_init(&w);
	w.socket = STR("/run/ccmd.sock");
	w.values.allocation.n_ports = 2;
	w.values.allocation.addresses.n = 2;
	w.values.allocation.addresses.items[1] = ip("2001:db8::1");
	records[0] = cl_record_new(&w.values);
	w.values.name = STR("a-2-v4");
	w.values.allocation.service = STR("other");
	w.values.allocation.addresses.n = 1;
	cl_targets_unref(w.values.targets);
	w.values.targets = cl_targets_new(NULL, 0);
	records[1] = cl_record_new(&w.values);
	cl_haproxy_file(&w.text, records, ARRAY_LEN(records), w.socket);
	cl_haproxy_list(buf_str(&w.text), &arena, &list, &n);
	assert_int_equal(n, 2);
	assert_true(list[0].is_balancer && str_eq_c(list[0].id, "a1"));
	assert_true(str_eq_c(list[0].service, "default/web") && list[0].uid.len == 0);
	assert_int_equal(list[0].n_addresses, 2);
	assert_true(str_eq_c(list[0].addresses[0], "192.0.2.1"));
	assert_true(str_eq_c(list[0].addresses[1], "2001:db8::1"));
	assert_true(list[0].has_targets);
	assert_int_equal(list[0].n_targets, 2);
	assert_true(str_eq_c(list[1].id, "a-2-v4") && str_eq_c(list[1].service, "default/other"));
	assert_int_equal(list[1].n_addresses, 1);
	assert_int_equal(list[1].n_targets, 0);
	for (size_t i = 0; i < ARRAY_LEN(records); i++)
		cl_record_unref(records[i]);
}

/* Somebody may have put any file in its place. */
static void
other_files_have_no_balancers(void **state)
{
	static const char *const texts[] = {
		"",
		"frontend a1-80-v4\n\tbind ipv4@192.0.2.1:80\n",
		"# \nfrontend x\n\tbind y\n\tserver z\n",
		"\tbind ipv4@192.0.2.1:80\n\tserver n1\n",
		"# a/b\n\nfrontend x\n",
	};
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct lb_listed *list;
	size_t n;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		cl_haproxy_list(str_c(texts[i]), &arena, &list, &n);
		if (n != 0)
			fail_msg("%zu in: %s", n, texts[i]);
	}
	cl_haproxy_list(STR("# a/b\nfrontend x\n\tbind \n\tbind @\n\tbind a@[:\n\tbind b"), &arena,
	                &list, &n);
	assert_int_equal(n, 1);
}

/* ---- writing it ---- */

static void
a_port_has_a_frontend_and_its_nodes(void **state)
{
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w);
	assert_has(&w, "# default/web, port http\n"
	               "frontend a1-80-v4\n"
	               "\tbind ipv4@192.0.2.1:80 transparent\n"
	               "\tdefault_backend a1-80-v4\n"
	               "\n"
	               "backend a1-80-v4\n"
	               "\tbalance roundrobin\n"
	               "\tserver n1 ipv4@10.0.0.1:31000\n"
	               "\tserver n2 ipv4@10.0.0.2:31000\n");
	assert_has_not(&w, "ccmd-idle");
	assert_valid(&w);
	w.values.allocation.n_ports = 2;
	assert_has(&w, "frontend a1-443-v4\n");
	assert_valid(&w);
}

static void
ipv6_is_kept_apart(void **state)
{
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w);
	w.values.allocation.addresses.items[1] = ip("2001:db8::1");
	w.values.allocation.addresses.n = 2;
	assert_has(&w, "\tbind ipv6@[2001:db8::1]:80 v6only transparent\n");
	assert_has(&w, "backend a1-80-v6\n\tbalance roundrobin\n"
	               "\tserver n1 ipv6@[fd00::1]:31000\n");
	assert_has_not(&w, "ipv6@[fd00::2]");
	assert_valid(&w);
}

static void
ranges_are_of_the_frontends_family(void **state)
{
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w);
	w.values.allocation.addresses.items[1] = ip("2001:db8::1");
	w.values.allocation.addresses.n = 2;
	w.ranges[0] = STR("10.0.0.0/8");
	w.ranges[1] = STR("::/0");
	w.values.n_source_ranges = 2;
	assert_has(&w, "192.0.2.1:80 transparent\n\tacl is_allowed src 10.0.0.0/8\n"
	               "\ttcp-request connection reject unless is_allowed\n");
	assert_has(&w, "v6only transparent\n\tacl is_allowed src ::/0\n"
	               "\ttcp-request connection reject unless is_allowed\n");
	assert_valid(&w);
	w.values.n_source_ranges = 1;
	assert_has(&w, "v6only transparent\n\ttcp-request connection reject\n");
	assert_valid(&w);
	w.values.n_source_ranges = 0;
	assert_has_not(&w, "reject");
}

static size_t
count_in_file(struct world *w, const char *text)
{
	size_t n = 0;

	for (const char *at = render(w); (at = strstr(at, text)); at++)
		n++;
	return n;
}

/* Thousands of ranges for each of hundreds of ports would be a file of gigabytes. */
static void
several_ports_share_their_ranges(void **state)
{
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w);
	w.values.allocation.n_ports = 2;
	w.values.allocation.addresses.items[1] = ip("2001:db8::1");
	w.values.allocation.addresses.n = 2;
	assert_int_equal(count_in_file(&w, "\nfrontend "), 4);
	w.ranges[0] = STR("10.0.0.0/8");
	w.ranges[1] = STR("::/0");
	w.values.n_source_ranges = 2;
	assert_int_equal(count_in_file(&w, "src 10.0.0.0/8"), 1);
	assert_int_equal(count_in_file(&w, "src ::/0"), 1);
	assert_int_equal(count_in_file(&w, "\nfrontend "), 2);
	assert_int_equal(count_in_file(&w, "\nbackend "), 4);
	assert_has(&w, "\n# default/web\n"
	               "frontend a1-all-v4\n"
	               "\tbind ipv4@192.0.2.1:80 transparent id 80\n"
	               "\tbind ipv4@192.0.2.1:443 transparent id 443\n"
	               "\tacl is_allowed src 10.0.0.0/8\n"
	               "\ttcp-request connection reject unless is_allowed\n"
	               "\tuse_backend a1-%[so_id]-v4\n");
	assert_has(&w, "\nbackend a1-443-v6\n");
	assert_valid(&w);
	w.ports[1].protocol = LB_UDP; /* only one is left */
	assert_has(&w, "\nfrontend a1-80-v4\n");
	assert_has_not(&w, "so_id");
	assert_valid(&w);
}

static void
the_file_has_all_that_a_service_asks_for(void **state)
{
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w);
	w.values.has_client_ip_affinity = true;
	w.values.affinity_timeout_s = 60;
	assert_has(&w, "\tbalance source\n\thash-type consistent\n"
	               "\tstick-table type ipv6 size 100k expire 60s\n\tstick on src\n");
	w.values.proxy = CL_PROXY_V1;
	assert_has(&w, ":31000 send-proxy\n");
	w.values.proxy = CL_PROXY_V2;
	assert_has(&w, ":31000 send-proxy-v2\n");
	w.values.health_check_node_port = 32000;
	assert_has_not(&w, "healthz");
	w.values.traffic = LB_TRAFFIC_LOCAL;
	assert_has(&w, "\toption httpchk GET /healthz\n\thttp-check expect status 200\n");
	assert_has(&w, "server n1 ipv4@10.0.0.1:31000 port 32000 send-proxy-v2\n");
	w.socket = STR("/tmp/ccmd-test.sock");
	assert_has(&w, "\tserver-state-file /tmp/ccmd-test.sock.state\n");
	assert_has(&w, "\npeers ccmd\n\tbind unix@/tmp/ccmd-test.sock.peers mode 600\n");
	assert_has(&w, " expire 60s peers ccmd\n\tstick on src\n");
	assert_valid(&w);
}

static void
no_services_make_a_valid_file(void **state)
{
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w);
	w.values.is_deleting = true;
	assert_has_not(&w, "a1-80");
	assert_has(&w, "frontend ccmd-idle\n\tbind abns@ccmd-idle\n");
	assert_valid(&w);
	w.socket = STR("/tmp/ccmd-test.sock");
	assert_has(&w, "frontend ccmd-idle\n\tbind unix@/tmp/ccmd-test.sock.idle mode 600\n");
	assert_valid(&w);
}

/* ---- room in the file ---- */

/* The size counts before the file is written, so it may not be too small. */
static void
the_size_of_a_part_is_known_before(void **state)
{
	CLEANUP(world_fini) struct world w;
	size_t n_head;

	(void)state;
	world_init(&w);
	w.values.is_deleting = true;
	n_head = strlen(render(&w));
	w.values.is_deleting = false;
	w.values.allocation.n_ports = 2;
	w.values.allocation.addresses.n = 2;
	w.values.allocation.addresses.items[1] = ip("2001:db8::1");
	w.ranges[0] = STR("198.51.100.0/24");
	w.values.n_source_ranges = 1;
	w.values.has_client_ip_affinity = true;
	w.values.affinity_timeout_s = 86400;
	w.values.proxy = CL_PROXY_V2;
	w.values.traffic = LB_TRAFFIC_LOCAL;
	w.values.health_check_node_port = 32000;
	assert_in_range(cl_haproxy_size(&w.values), strlen(render(&w)) - n_head, 6000);
	w.values.n_source_ranges = 0;
	assert_in_range(cl_haproxy_size(&w.values), strlen(render(&w)) - n_head, 6000);
	w.values.name = STR("no plain name");
	assert_in_range(cl_haproxy_size(&w.values), strlen(render(&w)) - n_head, 6000);
}

enum {
	BIG_PORTS = LIMIT_BALANCER_PORTS,
	BIG_NODES = LIMIT_BALANCER_PARTS / BIG_PORTS,
};

/* Services of which two large ones do not fit into the file. */
struct room {
	struct cloud_host host;
	struct arena arena;
	struct cl_state *state;
	struct cl_block block;
	struct cl_pool pool;
	struct cl_schema schema;
	struct lb_port ports[BIG_PORTS];
	struct node_ref nodes[BIG_NODES];
	struct address address;
	char error[1000];
};

static void
room_fini(struct room *r)
{
	cl_state_free(r->state);
	arena_fini(&r->arena);
}

static void
give_nodes(const struct cloud_host *host, struct arena *arena, struct node_ref **ret, size_t *ret_n)
{
	struct room *r = CONTAINER_OF((struct cloud_host *)(uintptr_t)host, struct room, host);

	(void)arena;
	*ret = r->nodes;
	*ret_n = BIG_NODES;
}

static void
room_init(struct room *r)
{
	struct error err;

	*r = (struct room){ .address = { STR("InternalIP"), STR("10.9.0.1") } };
	r->host = (struct cloud_host){ .clock = &clock_real, .nodes = give_nodes };
	r->block = (struct cl_block){ .first = ip("192.0.2.1"), .last = ip("192.0.2.9") };
	r->pool = (struct cl_pool){ .name = STR("p"), .addresses = { &r->block, 1 } };
	r->schema = (struct cl_schema){ .pools = &r->pool, .n_pools = 1 };
	for (size_t i = 0; i < BIG_PORTS; i++)
		r->ports[i] = (struct lb_port){ .port = (int32_t)i + 1,
			                        .node_port = 30000 + (int32_t)i,
			                        .name = STR_EMPTY,
			                        .protocol_text = STR("TCP") };
	for (size_t i = 0; i < BIG_NODES; i++)
		r->nodes[i] = (struct node_ref){ .name = arena_printf(&r->arena, "n%040zu", i),
			                         .provider_id = STR("cloudlycke://m"),
			                         .addresses = &r->address,
			                         .n_addresses = 1 };
	r->schema.balancers.haproxy.is_present = true;
	assert_true(cl_state_open(&r->schema, CL_STATE_NOW, &r->host, &r->state, &err));
}

static struct lb_spec
service(const struct room *r, const char *uid, size_t n_ports)
{
	static const enum ip_family families[] = { IP_V4 };

	return (struct lb_spec){ .cluster = STR("kubernetes"),
		                 .namespace = STR("default"),
		                 .service = str_c(uid),
		                 .uid = str_c(uid),
		                 .name = str_c(uid),
		                 .wanted_ip = STR_EMPTY,
		                 .ports = r->ports,
		                 .n_ports = n_ports,
		                 .families = families,
		                 .n_families = 1 };
}

static enum err_code
ensure(struct room *r, const char *uid, size_t n_ports, size_t n_nodes)
{
	CLEANUP(cl_record_unrefp) struct cl_record *record = NULL;
	struct lb_spec spec = service(r, uid, n_ports);
	struct cl_request request;
	struct error err;

	assert_true(cl_request_read(&r->schema, &spec, &r->arena, &request, &err));
	if (cl_state_allocate(r->state, &request, r->nodes, n_nodes, &r->arena, &record, &err))
		return ERR_NONE;
	(void)snprintf(r->error, sizeof(r->error), "%s", err.msg);
	return err.code;
}

/* The balancers in the file, "a b", and how many nodes the last one has. */
static const char *
served(struct room *r, size_t *ret_n_nodes)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_HAPROXY_FILE);
	CLEANUP(buf_fini) struct buf names = BUF_INIT(KIB(1));
	struct cl_record **records;
	struct lb_listed *list;
	uint64_t version;
	size_t n;

	records = cl_state_list(r->state, &n, &version);
	cl_haproxy_file(&text, records, n, STR_EMPTY);
	cl_records_free(records, n);
	assert_true(buf_ok(&text));
	cl_haproxy_list(buf_str(&text), &r->arena, &list, &n);
	for (size_t i = 0; i < n; i++)
		buf_addf(&names, "%s%" STR_FMT, i > 0 ? " " : "", STR_ARG(list[i].id));
	*ret_n_nodes = n > 0 ? list[n - 1].n_targets : 0;
	return arena_strz(&r->arena, buf_str(&names));
}

static void
a_service_without_room_is_refused_alone(void **state)
{
	CLEANUP(room_fini) struct room r;
	CLEANUP(cl_record_unrefp) struct cl_record *record = NULL;
	struct error err;
	size_t n;

	(void)state;
	room_init(&r);
	assert_int_equal(ensure(&r, "m", BIG_PORTS, BIG_NODES), ERR_NONE);
	assert_int_equal(ensure(&r, "a", BIG_PORTS, BIG_NODES), ERR_INVALID);
	assert_non_null(strstr(r.error, "has no room for this Service"));
	assert_int_equal(ensure(&r, "x", BIG_PORTS, 10), ERR_NONE);
	assert_string_equal(served(&r, &n), "m x");
	/* more nodes do not fit: those that it has stay */
	assert_false(cl_state_set_nodes(r.state, STR("x"), r.nodes, BIG_NODES, &record, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_string_equal(served(&r, &n), "m x");
	assert_int_equal(n, 10);
	/* the removal of another one makes room */
	assert_true(cl_state_mark_deleting(r.state, STR("m"), &record, &err));
	assert_int_equal(ensure(&r, "a", BIG_PORTS, BIG_NODES), ERR_NONE);
	assert_string_equal(served(&r, &n), "a x");
}

/* All nodes count after a start, which can be more than a Service had before. */
static void
a_service_without_room_keeps_its_address_after_a_start(void **state)
{
	CLEANUP(room_fini) struct room r;
	struct lb_ingress ingress[] = { { .ip = STR("192.0.2.1") }, { .ip = STR("192.0.2.2") } };
	struct lb_spec a, b;
	const struct lb_spec *specs[] = { &a, &b };
	struct error err;
	size_t n;

	(void)state;
	room_init(&r);
	a = service(&r, "a", BIG_PORTS);
	b = service(&r, "b", BIG_PORTS);
	a.status = (struct lb_status){ &ingress[0], 1 };
	b.status = (struct lb_status){ &ingress[1], 1 };
	assert_true(cl_state_adopt(r.state, &r.schema, specs, 2, &r.arena, &err));
	assert_string_equal(served(&r, &n), "a");
	assert_int_equal(ensure(&r, "b", BIG_PORTS, BIG_NODES), ERR_INVALID);
	assert_int_equal(ensure(&r, "b", BIG_PORTS, 10), ERR_NONE);
	assert_string_equal(served(&r, &n), "a b");
	assert_int_equal(n, 10);
}

/* What the API server would never let through must not hurt either. */
static void
foreign_text_stays_in_its_place(void **state)
{
	const struct address address = { STR("InternalIP"), STR("10.0.0.1") };
	const struct node_ref node = { .name = STR("n1\n\tbind :1"),
		                       .provider_id = STR("cloudlycke://m"),
		                       .addresses = &address,
		                       .n_addresses = 1 };
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w);
	cl_targets_unref(w.values.targets);
	w.values.targets = cl_targets_new(&node, 1);
	w.values.name = STR("a b\n");
	w.values.allocation.namespace = STR("x\nglobal");
	w.values.allocation.service = STR("\"${HOME}\"");
	w.ports[0].name = STR("\\\nlisten y");
	assert_has(&w, "# x?global/???HOME??, port ??listen?y\nfrontend x");
	assert_has_not(&w, "bind :1");
	assert_valid(&w);
	w.values.name = STR("");
	assert_valid(&w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_balancers_of_a_file_are_listed),
		cmocka_unit_test(other_files_have_no_balancers),
		cmocka_unit_test(a_port_has_a_frontend_and_its_nodes),
		cmocka_unit_test(ipv6_is_kept_apart),
		cmocka_unit_test(ranges_are_of_the_frontends_family),
		cmocka_unit_test(several_ports_share_their_ranges),
		cmocka_unit_test(the_file_has_all_that_a_service_asks_for),
		cmocka_unit_test(no_services_make_a_valid_file),
		cmocka_unit_test(the_size_of_a_part_is_known_before),
		cmocka_unit_test(a_service_without_room_is_refused_alone),
		cmocka_unit_test(a_service_without_room_keeps_its_address_after_a_start),
		cmocka_unit_test(foreign_text_stays_in_its_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
