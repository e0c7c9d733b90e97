#include "providers/hcloud/lb_targets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/metrics.h"
#include "cloud/balancer.h"
#include "lab.h"

#define ALL \
	"/load_balancers?label_selector=hcloud-ccm%2Fservice-uid&page=1&per_page=50&sort=id%3Aasc"

/* ---- for people ---- */

static void
check_described(const struct hz_lb *lb, const char *unhealthy, const char *blocked)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(hz_nodes_fini) struct hz_nodes nodes = HZ_NODES_INIT;
	struct node_ref n2 = { .name = STR("n2") };
	int64_t server = 2;
	struct lb_listed listed = { 0 };

	map_put(&nodes.by_id, map_key_i64(&server), &n2);
	hz_health_describe(lb, &nodes, &arena, &listed);
	assert_true(listed.has_health);
	assert_string_equal(listed.unhealthy.ptr, unhealthy);
	assert_string_equal(listed.blocked.ptr, blocked);
	assert_int_equal(listed.n_unhealthy, lb->n_of_health[HZ_UNHEALTHY]);
}

static void
unhealthy_targets_are_named_with_the_reason(void **state)
{
	struct hz_lb_target targets[] = {
		{ .server = 1, .health = HZ_HEALTHY },
		{ .server = 2,
		  .health = HZ_UNHEALTHY,
		  .failing_port = 443,
		  .detail = STR("unexpected_http_status"),
		  .http_status = 503 },
		{ .server = 3, .health = HZ_UNHEALTHY, .failing_port = 80 },
		{ .type = HZ_TARGET_IP,
		  .ip = STR("203.0.113.9"),
		  .health = HZ_UNHEALTHY,
		  .failing_port = 80,
		  .detail = STR("layer4_timeout") },
	};
	struct hz_lb lb = { .targets = targets,
		            .n_targets = ARRAY_LEN(targets),
		            .n_of_health = { [HZ_UNHEALTHY] = 5 } };

	(void)state;
	check_described(&lb,
	                "node n2 at port 443: unexpected_http_status (HTTP 503); server 3 at port "
	                "80; 203.0.113.9 at port 80: layer4_timeout; and 2 more",
	                "");
}

static void
blocked_addresses_are_named(void **state)
{
	struct hz_lb lb = { .ipv4 = { .ip = STR("203.0.113.7"), .is_blocked = true },
		            .ipv6 = { .ip = STR("2001:db8::1"), .is_blocked = true } };

	(void)state;
	check_described(&lb, "", "203.0.113.7, 2001:db8::1");
	lb.ipv4.is_blocked = false;
	check_described(&lb, "", "2001:db8::1");
}

/* ---- the metric ---- */

/* A list of n balancers with one healthy and one unhealthy target each; their UIDs are u1, u2, … */
static struct str
list_of(struct arena *arena, size_t n)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(256));

	buf_add_c(&b, "{\"load_balancers\":[");
	for (size_t i = 1; i <= n; i++)
		buf_addf(&b,
		         "%s{\"id\":%zu,\"labels\":{\"hcloud-ccm/service-uid\":\"u%zu\"},"
		         "\"targets\":[{\"type\":\"ip\",\"ip\":{\"ip\":\"203.0.113.1\"},"
		         "\"health_status\":[{\"status\":\"healthy\"}]},{\"type\":\"ip\"}]}",
		         i > 1 ? "," : "", i, i);
	buf_addf(&b, "],\"meta\":{\"pagination\":{\"next_page\":null,\"total_entries\":%zu}}}", n);
	return arena_str(arena, buf_str(&b));
}

static size_t
count_lines(struct str text, const char *start)
{
	size_t n = 0;

	for (struct str line; str_split(&text, '\n', &line);)
		n += str_starts(line, str_c(start));
	return n;
}

static void
check_has(struct str text, const char *line)
{
	if (!strstr(text.ptr, line))
		fail_msg("no \"%s\" in\n%s", line, text.ptr);
}

static void
the_metric_has_a_series_for_each_of_some_services(void **state)
{
	struct lab *lab = *state;
	CLEANUP(buf_fini) struct buf page = BUF_INIT(KIB(256));
	CLEANUP(hz_lb_cache_freep) struct hz_lb_cache *cache = NULL;
	struct lb_spec specs[LIMIT_METRIC_SERIES + 10] = { 0 };
	const struct lb_spec *pointers[ARRAY_LEN(specs)];
	struct call call = lab_call(lab, &lab->arena);
	struct error err;

	lab_open(lab, &hz_official, 0);
	cache = hz_lb_cache_new(lab->api, &lab->fake.clock);
	for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
		specs[i].namespace = STR("default");
		specs[i].service = arena_printf(&lab->arena, "s%04zu", i + 1);
		specs[i].uid = arena_printf(&lab->arena, "u%zu", i + 1);
		pointers[i] = &specs[i];
	}
	lab_answer(lab, ALL, 200, list_of(&lab->arena, ARRAY_LEN(specs)).ptr);
	if (!hz_lb_cache_adopt(cache, &call, pointers, ARRAY_LEN(specs), &err))
		fail_msg("%s", err.msg);
	hz_health_open(cache);
	metrics_write_page(&page, METRICS_MAIN, METRICS_TEXT);
	check_has(
		buf_str(&page),
		"hcloud_load_balancer_healthy_targets{namespace=\"default\",service=\"s0001\"} 1\n");
	check_has(buf_str(&page),
	          "hcloud_load_balancer_targets{namespace=\"default\",service=\"s0199\"} 2\n");
	check_has(
		buf_str(&page),
		"hcloud_load_balancer_healthy_targets{namespace=\"other\",service=\"other\"} 11\n");
	assert_int_equal(count_lines(buf_str(&page), "hcloud_load_balancer_targets{"),
	                 LIMIT_METRIC_SERIES);

	for (size_t i = 1; i < ARRAY_LEN(specs); i++)
		hz_lb_cache_untrack(cache, specs[i].uid);
	buf_reset(&page);
	metrics_write_page(&page, METRICS_MAIN, METRICS_TEXT);
	assert_int_equal(count_lines(buf_str(&page), "hcloud_load_balancer_targets{"), 1);
	hz_health_close(cache);
	buf_reset(&page);
	metrics_write_page(&page, METRICS_MAIN, METRICS_TEXT);
	assert_int_equal(count_lines(buf_str(&page), "hcloud_load_balancer_targets{"), 0);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(unhealthy_targets_are_named_with_the_reason),
		cmocka_unit_test(blocked_addresses_are_named),
		cmocka_unit_test_setup_teardown(the_metric_has_a_series_for_each_of_some_services,
		                                lab_setup, lab_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
