#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "providers/hcloud/lab.h"

extern const struct cloud_ops hcloud_cloud;

#define LOCATIONS                                                                                  \
	"{\"locations\":[{\"id\":1,\"name\":\"fsn1\",\"network_zone\":\"eu-central\"},"            \
	"{\"id\":2,\"name\":\"nbg1\",\"network_zone\":\"eu-central\"},{\"id\":4,\"name\":\"ash\"," \
	"\"network_zone\":\"us-east\"}]}"

#define TYPES "{\"load_balancer_types\":[{\"id\":1,\"name\":\"lb11\"}]}"
#define CERTIFICATES "{\"certificates\":[{\"id\":9,\"name\":\"web\"}]}"

/* Lists them as text: "VARIABLE=value what [names] [ids] annotation", one a line. */
static void
check(struct lab *lab, const char *text)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(10000);
	struct call call = lab_call(lab, &arena);
	struct cloud_setting *settings;
	struct error err;
	size_t n;

	lab->hcloud.config = lab->config;
	lab->hcloud.api = lab->api;
	if (!hcloud_cloud.list_settings(&lab->hcloud.cloud, &call, &settings, &n, &err))
		fail_msg("%s", err.msg);
	for (size_t i = 0; i < n; i++) {
		const struct cloud_setting *s = &settings[i];

		buf_addf(&b, "%s=%" STR_FMT " %s [", s->variable ? s->variable : "",
		         STR_ARG(s->value), s->what);
		for (size_t j = 0; s->names[j]; j++)
			buf_addf(&b, "%s ", s->names[j]);
		buf_add_c(&b, "] [");
		for (size_t j = 0; s->ids && s->ids[j]; j++)
			buf_addf(&b, "%s ", s->ids[j]);
		buf_addf(&b, "] %s\n", s->annotation ? s->annotation : "-");
	}
	assert_string_equal(b.ptr, text);
}

static void
places_of_new_balancers(void **state)
{
	struct lab *lab = *state;

	setenv("HCLOUD_LOAD_BALANCERS_LOCATION", "fns1", 1);
	lab_open(lab, &hz_official, 0);
	lab_answer(lab, "/locations?per_page=50", 200, LOCATIONS);
	lab_answer(lab, "/load_balancer_types?per_page=50", 200, TYPES);
	lab_answer(lab, "/certificates?per_page=50", 200, CERTIFICATES);
	check(lab, "HCLOUD_LOAD_BALANCERS_LOCATION=fns1 location [fsn1 nbg1 ash ] [1 2 4 ] "
	           "load-balancer.hetzner.cloud/location\n"
	           "HCLOUD_LOAD_BALANCERS_NETWORK_ZONE= network zone [eu-central us-east ] [] "
	           "load-balancer.hetzner.cloud/network-zone\n"
	           "HCLOUD_LOAD_BALANCERS_TYPE= load balancer type [lb11 ] [] "
	           "load-balancer.hetzner.cloud/type\n"
	           "= certificate [web ] [9 ] load-balancer.hetzner.cloud/http-certificates\n");
}

/* Without balancers nothing is asked for, and a network that start() found exists. */
static void
only_what_is_used(void **state)
{
	struct lab *lab = *state;

	setenv("HCLOUD_NETWORK", "net", 1);
	setenv("HCLOUD_LOAD_BALANCERS_ENABLED", "false", 1);
	setenv("HCLOUD_LOAD_BALANCERS_LOCATION", "fns1", 1);
	lab_open(lab, &hz_official, 0);
	lab->hcloud.network = 7;
	check(lab, "");
	lab_check_asked(lab, "");
	lab->hcloud.network = 0;
	lab_answer(lab, "/networks?per_page=50", 200,
	           "{\"networks\":[{\"id\":7,\"name\":\"other\"}]}");
	check(lab, "HCLOUD_NETWORK=net network [other ] [7 ] -\n");
}

static void
the_tutorial_has_ids_of_networks_only(void **state)
{
	struct lab *lab = *state;

	setenv("HCLOUD_NETWORK", "8", 1);
	lab_open(lab, &hz_tutorial, 0);
	lab_answer(lab, "/networks?per_page=50", 200,
	           "{\"networks\":[{\"id\":7,\"name\":\"other\"}]}");
	check(lab, "HCLOUD_NETWORK=8 network [7 ] [7 ] -\n");
}

/* A list that is longer than a page, with elements of wrong types. */
static void
odd_answers(void **state)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(buf_fini) struct buf body = BUF_INIT(10000);
	struct lab *lab = *state;
	struct call call = lab_call(lab, &arena);
	struct cloud_setting *settings;
	struct error err;
	size_t n;

	buf_add_c(&body, "{\"locations\":[7,{},{\"name\":7,\"network_zone\":[]},{\"name\":\"\"}");
	for (int i = 0; i < 100; i++)
		buf_addf(&body, ",{\"id\":%d,\"name\":\"x%d\",\"network_zone\":\"z%d\"}", i, i, i);
	buf_add_c(&body, "]}");
	lab_answer(lab, "/locations?per_page=50", 200, body.ptr);
	lab_answer(lab, "/load_balancer_types?per_page=50", 200, TYPES);
	lab_answer(lab, "/certificates?per_page=50", 200, CERTIFICATES);
	lab->hcloud.config = lab->config;
	lab->hcloud.api = lab->api;
	assert_true(hcloud_cloud.list_settings(&lab->hcloud.cloud, &call, &settings, &n, &err));
	assert_string_equal(settings[0].names[0], "x0");
	assert_string_equal(settings[0].names[45], "x45");
	assert_null(settings[0].names[46]);
	assert_string_equal(settings[1].names[45], "z45");
	assert_null(settings[1].names[46]);
	lab->script.n_answers = 0;
	lab_answer(lab, "/locations?per_page=50", 200, "{}");
	assert_false(hcloud_cloud.list_settings(&lab->hcloud.cloud, &call, &settings, &n, &err));
	assert_int_equal(err.code, ERR_UNAVAILABLE);
}

#define IN_LAB(test) cmocka_unit_test_setup_teardown(test, lab_setup_open, lab_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		IN_LAB(places_of_new_balancers),
		IN_LAB(only_what_is_used),
		IN_LAB(the_tutorial_has_ids_of_networks_only),
		IN_LAB(odd_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
