/* Load balancers through the provider's table: addresses, the state file, hooks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/limits.h"
#include "cloud/balancer.h"
#include "providers/cloudlycke/lab.h"

#define POOL "addressPools: [{name: p, addresses: [10.0.0.1-10.0.0.3]}]\n"

/* A Service, and one provider process after the other. */
struct world {
	struct lab *lab;
	struct arena arena;
	struct cloud *cloud;
	struct lb_port port;
	struct node_ref nodes[2];
	struct address address;
	char state[128], hook[128];
	char answer[1200]; /* "10.0.0.1 10.0.0.2", or "error: …" */
	enum err_code code;
};

static const enum ip_family families[] = { IP_V4 };

static void
world_fini(struct world *w)
{
	cloudlycke_cloud.close(w->cloud);
	arena_fini(&w->arena);
}

/* The inventory has the pool, a state file, and what else `balancers` says: "{hook: …}". */
static void
write_inventory(struct world *w, const char *pool, const char *balancers)
{
	lab_write(w->lab,
	          arena_printf(&w->arena, "machines: []\n%sstate: {file: %s}\nloadBalancers: %s\n",
	                       pool, w->state, balancers)
	                  .ptr);
}

static void
world_init(struct world *w, void **state, const char *balancers)
{
	*w = (struct world){ .lab = *state };
	w->port = (struct lb_port){ .name = STR("http"),
		                    .protocol_text = STR("TCP"),
		                    .app_protocol = STR_EMPTY,
		                    .port = 80,
		                    .node_port = 31000 };
	w->address = (struct address){ STR("InternalIP"), STR("10.9.0.1") };
	w->nodes[0] = (struct node_ref){ .name = STR("n1"),
		                         .provider_id = STR("cloudlycke://m1"),
		                         .addresses = &w->address,
		                         .n_addresses = 1 };
	w->nodes[1] = (struct node_ref){ .name = STR("n2"), .provider_id = STR_EMPTY };
	(void)snprintf(w->state, sizeof(w->state), "%s/state.json", w->lab->folder);
	(void)snprintf(w->hook, sizeof(w->hook), "%s/hook", w->lab->folder);
	write_inventory(w, POOL, balancers);
}

static void
open_again(struct world *w)
{
	cloudlycke_cloud.close(w->cloud);
	w->cloud = NULL;
	w->cloud = lab_open(w->lab);
}

static struct lb_spec
spec_of(struct world *w, const char *name, const char *status)
{
	struct lb_ingress *ingress = arena_calloc(&w->arena, 1, sizeof(*ingress));
	struct lb_spec spec = {
		.cluster = STR("kubernetes"),
		.namespace = STR("default"),
		.service = str_c(name),
		.uid = str_c(name),
		.name = arena_printf(&w->arena, "a%s", name),
		.ports = &w->port,
		.n_ports = 1,
		.families = families,
		.n_families = 1,
		.wanted_ip = STR_EMPTY,
		.nodes = w->nodes,
		.n_nodes = 2,
	};

	*ingress = (struct lb_ingress){ str_c(status), STR_EMPTY, LB_IP_MODE_VIP };
	spec.status = (struct lb_status){ ingress, status ? 1 : 0 };
	return spec;
}

static struct call
call_of(struct world *w)
{
	return (struct call){ .clock = &clock_real,
		              .deadline_mono_ns = clock_mono(&clock_real) + 60 * NS_PER_SEC,
		              .arena = &w->arena };
}

static const char *
note(struct world *w, bool is_done, const struct error *err)
{
	w->code = is_done ? ERR_NONE : err->code;
	if (!is_done)
		(void)snprintf(w->answer, sizeof(w->answer), "error: %s", err->msg);
	return w->answer;
}

static const char *
ensure_spec(struct world *w, const struct lb_spec *spec)
{
	struct buf text = BUF_FIXED(w->answer);
	struct call call = call_of(w);
	struct lb_status status = { 0 };
	enum lb_outcome outcome;
	struct error err;
	bool is_done;

	w->answer[0] = '\0';
	is_done = w->cloud->balancers->ensure(w->cloud, &call, spec, &outcome, &status, &err);
	for (size_t i = 0; is_done && i < status.n_ingress; i++)
		buf_addf(&text, "%s%" STR_FMT, i > 0 ? " " : "", STR_ARG(status.ingress[i].ip));
	return note(w, is_done, &err);
}

static const char *
ensure(struct world *w, const char *name)
{
	struct lb_spec spec = spec_of(w, name, NULL);

	return ensure_spec(w, &spec);
}

static const char *
remove_one(struct world *w, const char *name)
{
	struct lb_spec spec = spec_of(w, name, NULL);
	struct call call = call_of(w);
	struct error err;
	bool was_there = false, is_done;

	is_done = w->cloud->balancers->remove(w->cloud, &call, &spec, &was_there, &err);
	(void)snprintf(w->answer, sizeof(w->answer), was_there ? "removed" : "nothing");
	return note(w, is_done, &err);
}

static bool
adopt_specs(struct world *w, const struct lb_spec *const specs[], size_t n)
{
	struct call call = call_of(w);
	struct error err;
	bool is_done;

	is_done = w->cloud->balancers->adopt(w->cloud, &call, specs, n, &err);
	note(w, is_done, &err);
	return is_done;
}

/* Services as they are after a restart, "name address name address", in that order. */
static bool
adopt(struct world *w, const char *const pairs[], size_t n)
{
	const struct lb_spec **specs = arena_calloc(&w->arena, n + 1, sizeof(*specs));

	for (size_t i = 0; i < n; i++) {
		struct lb_spec *spec = ARENA_NEW(&w->arena, struct lb_spec);

		*spec = spec_of(w, pairs[2 * i], pairs[2 * i + 1]);
		specs[i] = spec;
	}
	return adopt_specs(w, specs, n);
}

#define ADOPT_SPEC(w, ...)                                                         \
	assert_true(adopt_specs(w, (const struct lb_spec *const[]){ __VA_ARGS__ }, \
	                        ARRAY_LEN(((const struct lb_spec *const[]){ __VA_ARGS__ }))))

#define ADOPT(w, ...)                                              \
	assert_true(adopt(w, (const char *const[]){ __VA_ARGS__ }, \
	                  ARRAY_LEN(((const char *const[]){ __VA_ARGS__ })) / 2))

static const char *
text_of(struct world *w, const char *path)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(MIB(1));
	struct error err;

	if (!file_read(path, &text, &err))
		return "";
	return arena_strz(&w->arena, buf_str(&text));
}

static void
assert_state_has(struct world *w, const char *text)
{
	if (!strstr(text_of(w, w->state), text))
		fail_msg("no \"%s\" in %s", text, text_of(w, w->state));
}

static void
put_state(struct world *w, const char *text)
{
	lab_put(w->lab, "state.json", text);
}

/* A script that writes down what it is run for, and ends as the file "fate" says. */
static void
write_hook(struct world *w)
{
	lab_put(w->lab, "hook",
	        arena_printf(&w->arena,
	                     "#!/bin/sh\ncd %s\necho $CLOUDLYCKE_ACTION >>runs\ncat >>input\n"
	                     "test ! -e fate || . ./fate\n",
	                     w->lab->folder)
	                .ptr);
	assert_int_equal(chmod(w->hook, 0755), 0);
}

static void
open_with_hook(struct world *w)
{
	write_hook(w);
	write_inventory(w, POOL, arena_printf(&w->arena, "{hook: %s}", w->hook).ptr);
	open_again(w);
}

static const char *
in_folder(struct world *w, const char *name)
{
	return text_of(w, arena_printf(&w->arena, "%s/%s", w->lab->folder, name).ptr);
}

/* ---- addresses ---- */

static void
a_second_run_changes_nothing(void **state)
{
	CLEANUP(world_fini) struct world w;
	const char *before;

	world_init(&w, state, "{}");
	open_again(&w);
	ADOPT(&w, "none", NULL);
	assert_string_equal(ensure(&w, "web"), "10.0.0.1");
	before = text_of(&w, w.state);
	assert_string_equal(ensure(&w, "web"), "10.0.0.1");
	assert_string_equal(text_of(&w, w.state), before);
	assert_string_equal(before,
	                    "{\"version\":1,\"loadBalancers\":{\n"
	                    "\"aweb\":{\"namespace\":\"default\",\"name\":\"web\",\"uid\":\"web\","
	                    "\"addresses\":[\"10.0.0.1\"]}},\n\"routes\":{}}\n");
	w.port.port = 81;
	assert_string_equal(ensure(&w, "web"), "10.0.0.1");
	assert_string_equal(text_of(&w, w.state), before);
}

#define WANTED "service.beta.kubernetes.io/cloudlycke-load-balancer-addresses"

static const char *
ensure_wanting(struct world *w, const char *addresses, const char *load_balancer_ip)
{
	const struct label annotation = { STR(WANTED), str_c(addresses) };
	struct lb_spec spec = spec_of(w, "web", NULL);

	spec.annotations = &annotation;
	spec.n_annotations = addresses ? 1 : 0;
	spec.wanted_ip = str_c(load_balancer_ip);
	return ensure_spec(w, &spec);
}

static void
addresses_are_wanted_by_annotation_or_by_the_spec(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{}");
	open_again(&w);
	assert_string_equal(ensure_wanting(&w, NULL, "10.0.0.3"), "10.0.0.3");
	assert_string_equal(ensure_wanting(&w, " 10.0.0.2 ", ""), "10.0.0.2");
	assert_string_equal(ensure_wanting(&w, "10.0.0.300", ""),
	                    "error: \"10.0.0.300\" is not an IP address");
	assert_string_equal(
		ensure_wanting(&w, "10.0.0.1,10.0.0.2", ""),
		"error: more than one IPv4 address is wanted; one of each family can be");
	assert_string_equal(ensure_wanting(&w, "10.0.0.1", "10.0.0.1"),
	                    "error: annotation \"" WANTED
	                    "\" and spec.loadBalancerIP are both set: keep one");
}

static void
a_removed_balancer_frees_its_address(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{}");
	open_again(&w);
	ensure(&w, "a");
	ensure(&w, "b");
	ensure(&w, "c");
	assert_string_equal(ensure(&w, "d"),
	                    "error: address pool \"p\" has no free IPv4 address (3 of 3 in use)");
	assert_int_equal(w.code, ERR_INVALID);
	assert_int_equal(lab_count_wakes(w.lab), 0);
	assert_string_equal(remove_one(&w, "b"), "removed");
	assert_int_equal(lab_count_wakes(w.lab), 1); /* d is requeued */
	assert_string_equal(remove_one(&w, "b"), "nothing");
	assert_string_equal(ensure(&w, "d"), "10.0.0.2");
}

static void
an_update_needs_a_balancer(void **state)
{
	CLEANUP(world_fini) struct world w;
	struct lb_spec spec;
	struct call call;
	struct error err;

	world_init(&w, state, "{}");
	open_with_hook(&w);
	spec = spec_of(&w, "web", NULL);
	call = call_of(&w);
	assert_false(w.cloud->balancers->update_nodes(w.cloud, &call, &spec, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_string_equal(err.msg,
	                    "load balancer \"aweb\" not found: there is no load balancer yet");
	ensure(&w, "web");
	w.nodes[1].provider_id = STR("cloudlycke://m2");
	assert_true(w.cloud->balancers->update_nodes(w.cloud, &call, &spec, &err));
	assert_non_null(strstr(in_folder(&w, "input"),
	                       "{\"name\":\"n2\",\"id\":\"m2\",\"addresses\":[]}"));
}

static void
a_pool_that_moves_moves_its_services(void **state)
{
	CLEANUP(world_fini) struct world w;
	unsigned n_wakes;

	world_init(&w, state, "{}");
	open_again(&w);
	ensure(&w, "web");
	n_wakes = lab_count_wakes(w.lab);
	write_inventory(&w, "addressPools: [{name: p, addresses: [10.1.0.1]}]\n", "{}");
	lab_wait_wakes(w.lab, n_wakes + 2); /* nodes, and Services */
	assert_string_equal(ensure(&w, "web"), "10.1.0.1");
	lab_wait_log(w.lab,
	             "load balancer \"aweb\": address 10.0.0.1 left pool \"p\"; reallocating");
	write_inventory(&w, "", "{}");
	lab_wait_wakes(w.lab, n_wakes + 4);
	assert_string_equal(ensure(&w, "web"),
	                    "error: no address pool: set one as default or use annotation "
	                    "\"service.beta.kubernetes.io/cloudlycke-load-balancer-pool\"");
	assert_string_equal(remove_one(&w, "web"), "removed");
}

/* ---- after a restart ---- */

static void
services_keep_what_their_status_says(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{}");
	open_again(&w);
	ADOPT(&w, "a", "10.0.0.3", "b", NULL, "c", "10.0.0.1");
	assert_string_equal(ensure(&w, "b"), "10.0.0.2");
	assert_string_equal(ensure(&w, "a"), "10.0.0.3");
	assert_string_equal(ensure(&w, "c"), "10.0.0.1");
}

static void
the_service_with_the_lower_uid_keeps_a_common_address(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{}");
	open_again(&w);
	ADOPT(&w, "b", "10.0.0.2", "a", "10.0.0.2");
	lab_wait_event(
		w.lab, 1, "AddressConflict",
		"address 10.0.0.2 is in the status of default/a as well, which keeps it: another "
		"one is given here");
	assert_string_equal(ensure(&w, "b"), "10.0.0.1");
	assert_string_equal(ensure(&w, "a"), "10.0.0.2");
}

/* Otherwise any user with the right to patch a status could make HAProxy serve this host's own
 * address, with everything that listens there. */
static void
an_address_of_no_pool_is_not_taken_from_a_status(void **state)
{
	CLEANUP(world_fini) struct world w;
	struct lb_spec spec;

	world_init(&w, state, "{}");
	write_inventory(&w,
	                "addressPools:\n"
	                "- {name: p, default: true, addresses: [10.0.0.0/29], avoid: [10.0.0.4]}\n"
	                "- {name: closed, addresses: [10.1.0.1], namespaces: [kube-system]}\n",
	                "{}");
	open_again(&w);
	ADOPT(&w, "a", "192.0.2.77");
	lab_wait_event(w.lab, 1, "AddressNotInPool",
	               "address 192.0.2.77 in the status is in no pool that this Service may use: "
	               "it is not served, and stays there until an address of pool \"p\" is "
	               "allocated");
	assert_null(strstr(text_of(&w, w.state), "192.0.2.77"));
	ADOPT(&w, "a", "10.0.0.4"); /* never given */
	ADOPT(&w, "a", "10.1.0.1"); /* not to this namespace */
	assert_null(strstr(text_of(&w, w.state), "\"10."));
	assert_string_equal(ensure(&w, "a"), "10.0.0.1");

	open_again(&w);
	spec = spec_of(&w, "b", "192.0.2.77");
	spec.annotations = &(struct label){
		STR("service.beta.kubernetes.io/cloudlycke-load-balancer-pool"), STR("none")
	};
	spec.n_annotations = 1;
	ADOPT_SPEC(&w, &spec);
	lab_wait_event(w.lab, 4, "AddressNotInPool",
	               "address 192.0.2.77 in the status is in no pool that this Service may use: "
	               "it is not served, and stays there until an address is allocated: address "
	               "pool \"none\" does not exist");
}

/* Addresses that another client wrote before it into the status do not take its place. */
static void
an_address_of_a_pool_is_found_behind_others(void **state)
{
	CLEANUP(world_fini) struct world w;
	struct lb_ingress ingress[] = { { STR("192.0.2.77"), STR_EMPTY, LB_IP_MODE_VIP },
		                        { STR("192.0.2.78"), STR_EMPTY, LB_IP_MODE_VIP },
		                        { STR("10.0.0.3"), STR_EMPTY, LB_IP_MODE_VIP } };
	struct lb_spec spec;

	world_init(&w, state, "{}");
	open_again(&w);
	spec = spec_of(&w, "a", NULL);
	spec.status = (struct lb_status){ ingress, ARRAY_LEN(ingress) };
	ADOPT_SPEC(&w, &spec);
	lab_wait_event(w.lab, 1, "AddressNotInPool",
	               "address 192.0.2.77 in the status is in no pool that this Service may use: "
	               "it is not served, and stays there until an address of pool \"p\" is "
	               "allocated"); /* and not a second event for the second address */
	assert_int_equal(w.lab->n_events, 1);
	assert_string_equal(ensure(&w, "a"), "10.0.0.3");
}

/* Pools were edited while ccmd was stopped: the address that it gave is served until there is
 * another one. */
static void
an_address_that_left_its_pool_is_kept_until_there_is_another(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{}");
	open_again(&w);
	assert_string_equal(ensure(&w, "a"), "10.0.0.1");
	write_inventory(&w, "addressPools: [{name: p, addresses: [10.1.0.1]}]\n", "{}");
	open_again(&w);
	ADOPT(&w, "a", "10.0.0.1", "b", "10.1.0.1");
	assert_int_equal(w.lab->n_events, 0);
	assert_string_equal(ensure(&w, "a"),
	                    "error: address pool \"p\" has no free IPv4 address (1 of 1 in use)");
	assert_state_has(&w, "\"addresses\":[\"10.0.0.1\"]");
	assert_string_equal(remove_one(&w, "b"), "removed");
	assert_string_equal(ensure(&w, "a"), "10.1.0.1");
	lab_wait_event(w.lab, 1, "AddressNotInPool",
	               "load balancer \"aa\": address 10.0.0.1 left pool \"p\"; reallocating");
	assert_null(strstr(text_of(&w, w.state), "10.0.0.1"));
}

/* A user with the right to patch a status cannot take an address from another Service. */
static void
the_service_with_the_address_in_the_state_file_keeps_it(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{}");
	open_again(&w);
	assert_string_equal(ensure(&w, "b"), "10.0.0.1");
	open_again(&w);
	ADOPT(&w, "a", "10.0.0.1", "b", "10.0.0.1");
	lab_wait_event(
		w.lab, 1, "AddressConflict",
		"address 10.0.0.1 is in the status of default/b as well, which keeps it: another "
		"one is given here");
	assert_string_equal(ensure(&w, "b"), "10.0.0.1");
	assert_string_equal(ensure(&w, "a"), "10.0.0.2");
}

/* ccmd was killed when the balancer was gone and the status was not cleared yet; meanwhile another
 * Service had been given the address. */
static void
a_leaving_service_takes_no_address_back(void **state)
{
	CLEANUP(world_fini) struct world w;
	struct lb_spec leaving, staying;

	world_init(&w, state, "{}");
	open_again(&w);
	leaving = spec_of(&w, "a", "10.0.0.1");
	leaving.is_leaving = true;
	staying = spec_of(&w, "b", "10.0.0.1");
	ADOPT_SPEC(&w, &leaving, &staying);
	assert_int_equal(w.lab->n_events, 0);
	assert_string_equal(remove_one(&w, "a"), "nothing");
	assert_string_equal(ensure(&w, "b"), "10.0.0.1");
	open_again(&w);
	leaving.status.ingress[0].ip = STR("192.0.2.77");
	ADOPT_SPEC(&w, &leaving, &staying);
	assert_int_equal(w.lab->n_events, 0); /* no event says that it will be given another */
}

/* Its address is not free while its balancer may still be there. */
static void
a_leaving_service_has_its_address_until_its_balancer_is_removed(void **state)
{
	CLEANUP(world_fini) struct world w;
	struct lb_spec leaving;

	world_init(&w, state, "{}");
	open_again(&w);
	leaving = spec_of(&w, "a", "10.0.0.1");
	leaving.is_leaving = true;
	ADOPT_SPEC(&w, &leaving);
	assert_string_equal(ensure(&w, "b"), "10.0.0.2");
	assert_string_equal(remove_one(&w, "a"), "removed");
	assert_string_equal(ensure(&w, "c"), "10.0.0.1");
}

/* The record was written, and then the program ended before the status of the Service was
 * patched. */
static void
an_unpublished_address_is_not_given_to_another(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{}");
	open_again(&w);
	assert_string_equal(ensure(&w, "a"), "10.0.0.1");
	open_again(&w);
	ADOPT(&w, "a", NULL, "b", NULL);
	assert_string_equal(ensure(&w, "b"), "10.0.0.2");
	assert_string_equal(ensure(&w, "a"), "10.0.0.1");
	open_again(&w);
	ADOPT(&w, "b", "10.0.0.2");
	lab_wait_log(w.lab, "belongs to no service: leaving it alone");
	assert_string_equal(ensure(&w, "c"), "10.0.0.3");
}

/* The Service returned under another UID: the address that is kept is no other Service's until an
 * operator releases it. */
static void
a_kept_address_stays_reserved_until_it_is_released(void **state)
{
	CLEANUP(world_fini) struct world w;
	struct lb_spec former, present;

	world_init(&w, state, "{}");
	open_again(&w);
	former = spec_of(&w, "web", NULL);
	former.uid = STR("former");
	former.name = STR("aformer");
	assert_string_equal(ensure_spec(&w, &former), "10.0.0.1");
	for (unsigned i = 0; i < 2; i++) { /* each start reads what the one before has written */
		open_again(&w);
		present = spec_of(&w, "web", i > 0 ? "10.0.0.2" : NULL);
		ADOPT_SPEC(&w, &present);
		lab_wait_log(w.lab,
		             "belongs to no service: leaving it alone; to free its addresses, "
		             "remove it from the file while ccmd is stopped load_balancer=aformer");
		assert_string_equal(ensure_spec(&w, &present), "10.0.0.2");
	}
	assert_string_equal(ensure(&w, "c"), "10.0.0.3");
	assert_string_equal(ensure(&w, "d"),
	                    "error: address pool \"p\" has no free IPv4 address (3 of 3 in use)");

	open_again(&w); /* it was lost for a while only */
	former.status = (struct lb_status){
		&(struct lb_ingress){ STR("10.0.0.1"), STR_EMPTY, LB_IP_MODE_VIP }, 1
	};
	ADOPT_SPEC(&w, &former);
	assert_string_equal(ensure_spec(&w, &former), "10.0.0.1");

	put_state(&w, "{\"version\":1,\"loadBalancers\":{}}");
	open_again(&w);
	ADOPT(&w, "web", "10.0.0.2", "c", "10.0.0.3", "d", NULL);
	assert_string_equal(ensure(&w, "d"), "10.0.0.1");
}

/* The file does not say with which key and for which ports: the Service that had the address as
 * well keeps it, and no other Service gets it. */
static void
a_kept_address_that_was_shared_is_not_shared_again(void **state)
{
	CLEANUP(world_fini) struct world w;
	const struct label share = {
		STR("service.beta.kubernetes.io/cloudlycke-load-balancer-share"), STR("k")
	};
	const char *const names[] = { "gone", "stays", "late" };
	struct lb_spec specs[3];

	world_init(&w, state, "{}");
	open_again(&w);
	for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
		struct lb_port *port = ARENA_NEW(&w.arena, struct lb_port);

		*port = w.port;
		port->port += (int32_t)i;
		specs[i] = spec_of(&w, names[i], i < 2 ? "10.0.0.1" : NULL);
		specs[i].ports = port;
		specs[i].annotations = &share;
		specs[i].n_annotations = 1;
	}
	assert_string_equal(ensure_spec(&w, &specs[0]), "10.0.0.1");
	assert_string_equal(ensure_spec(&w, &specs[1]), "10.0.0.1");
	open_again(&w);
	ADOPT_SPEC(&w, &specs[1], &specs[2]);
	assert_int_equal(w.lab->n_events, 0);
	assert_string_equal(ensure_spec(&w, &specs[1]), "10.0.0.1");
	assert_string_equal(ensure_spec(&w, &specs[2]), "10.0.0.2");
	specs[2].wanted_ip = STR("10.0.0.1");
	assert_string_equal(ensure_spec(&w, &specs[2]),
	                    "error: address \"10.0.0.1\" is already used by default/gone");
	assert_string_equal(remove_one(&w, "stays"), "removed");
	assert_string_equal(ensure(&w, "other"), "10.0.0.3");
}

/* ---- the state file ---- */

static void
check_not_opened(struct world *w, const char *text, const char *why)
{
	struct cloud_config config = { .clock = &clock_real, .path = w->lab->path };
	struct cloud *cloud;
	struct error err;

	put_state(w, text);
	assert_false(lab_try_open(w->lab, &config, &cloud, &err));
	assert_int_equal(err.code, ERR_INVALID);
	assert_string_equal(err.msg,
	                    arena_printf(&w->arena, "cloudlycke: state file \"%s\" is damaged: %s",
	                                 w->state, why)
	                            .ptr);
	assert_string_equal(text_of(w, w->state), text);
}

#define RECORD(fields) "{\"version\":1,\"loadBalancers\":{\"a\":{\"uid\":\"u\"," fields "}}}"

static void
damage_is_reported_and_the_file_left_alone(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{}");
	check_not_opened(&w, "", "invalid JSON: empty");
	check_not_opened(&w, "[]", "unknown version");
	check_not_opened(&w, "{}", "unknown version");
	check_not_opened(&w, "{\"version\":0}", "unknown version");
	check_not_opened(&w, "{\"version\":\"1\"}", "unknown version");
	check_not_opened(&w, "{\"version\":1,\"loadBalancers\":[]}", "loadBalancers");
	check_not_opened(&w, "{\"version\":1,\"loadBalancers\":{\"a\":{}}}", "uid");
	check_not_opened(&w, RECORD("\"addresses\":[\"x\"]"), "addresses");
	check_not_opened(&w, RECORD("\"addresses\":[\"::1\",\"::2\",\"::3\"]"), "addresses");
	check_not_opened(&w, RECORD("\"generation\":-1"), "generation");
	check_not_opened(&w, RECORD("\"hook\":{\"error\":1}"), "hook.error");
	check_not_opened(&w, RECORD("\"hook\":{\"input\":-1}"), "hook.input");
	check_not_opened(&w, RECORD("\"hook\":{\"generation\":\"1\"}"), "hook.generation");
	check_not_opened(&w, RECORD("\"namespace\":1"), "namespace");
	check_not_opened(&w, RECORD("\"name\":{}"), "name");
}

/* They had all that a hook was given. What it had been given last is not compared: it is run once
 * more. */
static void
a_file_of_an_older_version_is_read(void **state)
{
	static const char older[] =
		"{\"version\":1,\"generation\":12,\"loadBalancers\":{\n"
		"\"agone\":{\"cluster\":\"kubernetes\",\"namespace\":\"default\",\"name\":\"gone\","
		"\"uid\":\"gone\",\"pool\":\"p\",\"addresses\":[\"10.0.0.2\"],\"hostname\":\"\","
		"\"shareKey\":\"k\",\"ports\":[{\"name\":\"\",\"protocol\":\"TCP\",\"port\":80,"
		"\"nodePort\":31000}],\"externalTrafficPolicy\":\"Cluster\","
		"\"healthCheckNodePort\":0,\"sessionAffinity\":\"None\","
		"\"sessionAffinityTimeoutSeconds\":0,\"ipMode\":\"VIP\",\"proxyProtocol\":\"\","
		"\"sourceRanges\":[\"10.0.0.0/8\"],\"generation\":3,"
		"\"hook\":{\"generation\":3,\"error\":\"\"},\"deleting\":false,\"nodeSet\":\"5f\"},\n"
		"\"aweb\":{\"cluster\":\"kubernetes\",\"namespace\":\"default\",\"name\":\"web\","
		"\"uid\":\"web\",\"pool\":\"p\",\"addresses\":[\"10.0.0.1\"],\"generation\":7,"
		"\"hook\":{\"generation\":7,\"error\":\"\"},\"deleting\":true,\"nodes\":[]}},"
		"\"nodeSets\":{\"5f\":[{\"name\":\"n1\",\"id\":\"m1\",\"addresses\":[]}]},\n"
		"\"routes\":{}}\n";
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{}");
	put_state(&w, older);
	open_with_hook(&w);
	ADOPT(&w, "web", NULL, "other", NULL);
	lab_wait_log(w.lab, "belongs to no service: leaving it alone");
	assert_string_equal(in_folder(&w, "state.json.bak"), older);
	assert_string_equal(ensure(&w, "other"), "10.0.0.3"); /* the others are taken */
	assert_string_equal(ensure(&w, "web"), "10.0.0.1");
	ensure(&w, "web");
	assert_string_equal(in_folder(&w, "runs"), "ensure\nensure\n"); /* one each */
	assert_state_has(&w,
	                 "\"agone\":{\"namespace\":\"default\",\"name\":\"gone\",\"uid\":\"gone\","
	                 "\"addresses\":[\"10.0.0.2\"],\"generation\":3,"
	                 "\"hook\":{\"generation\":3,\"input\":0,\"error\":\"\"}}");
	assert_state_has(&w, "\"generation\":8,\"hook\":{\"generation\":8,");
	assert_null(strstr(text_of(&w, w.state), "nodeSet"));
	open_again(&w);
	ADOPT(&w, "web", "10.0.0.1", "other", "10.0.0.3");
	ensure(&w, "web");
	assert_string_equal(in_folder(&w, "runs"), "ensure\nensure\n");
}

static void
a_newer_file_is_left_alone(void **state)
{
	static const char newer[] = "{\"version\":2,\"loadBalancers\":\"another form\"}";
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{}");
	put_state(&w, newer);
	open_again(&w);
	lab_wait_log(w.lab, "is of version 2, newer than this program");
	ADOPT(&w, "a", "10.0.0.2");
	assert_string_equal(ensure(&w, "a"), "10.0.0.2");
	assert_string_equal(ensure(&w, "b"), "10.0.0.1");
	assert_string_equal(text_of(&w, w.state), newer);
}

static void
routes_in_the_file_are_kept(void **state)
{
	CLEANUP(world_fini) struct world w;
	struct stat st;

	world_init(&w, state, "{}");
	put_state(&w, "{\"version\":1,\"routes\":{\"kubernetes\":[{\"name\":\"x\"}]}}");
	open_again(&w);
	ensure(&w, "a");
	assert_state_has(&w, "\"routes\":{\"kubernetes\":[{\"name\":\"x\"}]}}");
	assert_string_equal(in_folder(&w, "state.json.bak"),
	                    "{\"version\":1,\"routes\":{\"kubernetes\":[{\"name\":\"x\"}]}}");
	assert_int_equal(stat(w.state, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void
one_process_has_the_file(void **state)
{
	CLEANUP(world_fini) struct world w;
	struct cloud_config config = { .clock = &clock_real };
	struct cloud *cloud;
	struct error err;

	world_init(&w, state, "{}");
	open_again(&w);
	config.path = w.lab->path;
	assert_false(lab_try_open(w.lab, &config, &cloud, &err));
	assert_non_null(strstr(err.msg, "is locked by another process"));
	config.has_election = true; /* a standby waits for its turn instead */
	assert_true(lab_try_open(w.lab, &config, &cloud, &err));
	cloudlycke_cloud.close(w.cloud);
	w.cloud = cloud;
	ADOPT(&w, "a", NULL);
}

/* A child that a killed process had just forked holds its lock until the exec. Here a fork of this
 * test holds it for 200 ms. */
static void
a_lock_that_the_child_of_a_killed_process_holds_is_awaited(void **state)
{
	CLEANUP(world_fini) struct world w;
	const struct timespec moment = { .tv_nsec = 200 * NS_PER_MS };
	pid_t child;

	world_init(&w, state, "{}");
	open_again(&w);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		(void)nanosleep(&moment, NULL);
		_exit(0);
	}
	open_again(&w);
	ADOPT(&w, "a", NULL);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

/* An operator's command runs beside the controller. */
static void
a_process_that_changes_nothing_only_reads_the_file(void **state)
{
	CLEANUP(world_fini) struct world w;
	struct cloud_config config = { .clock = &clock_real, .is_read_only = true };
	struct cloud *controller;
	struct stat before, after;
	struct error err;

	world_init(&w, state, "{}");
	open_again(&w);
	assert_string_equal(ensure(&w, "a"), "10.0.0.1");
	assert_int_equal(stat(w.state, &before), 0);
	controller = w.cloud;
	config.path = w.lab->path;
	if (!lab_try_open(w.lab, &config, &w.cloud, &err))
		fail_msg("%s", err.msg);
	ADOPT(&w, "a", "10.0.0.1");
	assert_int_equal(stat(w.state, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino); /* each write makes a new file */
	cloudlycke_cloud.close(controller);
	assert_int_equal(unlink(arena_printf(&w.arena, "%s.lock", w.state).ptr), 0);
	cloudlycke_cloud.close(w.cloud);
	assert_true(lab_try_open(w.lab, &config, &w.cloud, &err));
	ADOPT(&w, "a", "10.0.0.1");
	assert_int_equal(access(arena_printf(&w.arena, "%s.lock", w.state).ptr, F_OK), -1);
}

/* Memory and file say the same, also when the file cannot be written. */
static void
a_change_that_cannot_be_written_is_undone(void **state)
{
	CLEANUP(world_fini) struct world w;
	char folder[128], moved[128];

	world_init(&w, state, "{}");
	(void)snprintf(folder, sizeof(folder), "%s/sub", w.lab->folder);
	(void)snprintf(moved, sizeof(moved), "%s/moved", w.lab->folder);
	(void)snprintf(w.state, sizeof(w.state), "%s/sub/state.json", w.lab->folder);
	assert_int_equal(mkdir(folder, 0755), 0);
	write_inventory(&w, POOL, "{}");
	open_again(&w);
	assert_string_equal(ensure(&w, "a"), "10.0.0.1");
	assert_int_equal(rename(folder, moved), 0);
	ensure(&w, "b");
	assert_non_null(strstr(w.answer, "error: cannot write state file "));
	assert_non_null(strstr(w.answer, "No such file or directory"));
	remove_one(&w, "a");
	assert_non_null(strstr(w.answer, "error: cannot write state file "));
	assert_int_equal(rename(moved, folder), 0);
	assert_string_equal(ensure(&w, "c"), "10.0.0.2");
	assert_string_equal(ensure(&w, "a"), "10.0.0.1");
	assert_string_equal(ensure(&w, "b"), "10.0.0.3");
}

/* ---- hooks ---- */

/* Without a state file, a process does not know what a former one has made. */
static void
a_service_of_a_former_process_leaves_haproxy(void **state)
{
	CLEANUP(world_fini) struct world w;
	const char *file, *text;

	world_init(&w, state, "{}");
	file = arena_printf(&w.arena, "%s/haproxy.cfg", w.lab->folder).ptr;
	lab_write(w.lab, arena_printf(&w.arena,
	                              "machines: []\n" POOL
	                              "loadBalancers: {haproxy: {file: %s, check: [/bin/true], "
	                              "reload: [/bin/true]}}\n",
	                              file)
	                         .ptr);
	open_again(&w);
	assert_string_equal(ensure(&w, "web"), "10.0.0.1");
	text = text_of(&w, file);
	assert_true(str_contains(str_c(text), STR("# default/web")));
	open_again(&w);
	assert_string_equal(remove_one(&w, "web"), "nothing");
	assert_int_equal(w.code, ERR_NONE);
	assert_false(str_contains(str_c(text_of(&w, file)), STR("# default/web")));

	/* the same if its Service has vanished */
	lab_put(w.lab, "haproxy.cfg", text);
	open_again(&w);
	assert_true(adopt(&w, NULL, 0));
	assert_false(str_contains(str_c(text_of(&w, file)), STR("# default/web")));
}

static void
a_hook_runs_once_a_change(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{}");
	open_with_hook(&w);
	assert_string_equal(ensure(&w, "web"), "10.0.0.1");
	ensure(&w, "web");
	assert_string_equal(in_folder(&w, "runs"), "ensure\n");
	assert_non_null(strstr(
		in_folder(&w, "input"),
		"{\"action\":\"ensure\",\"loadBalancer\":\"aweb\",\"cluster\":\"kubernetes\","
		"\"namespace\":\"default\",\"name\":\"web\",\"uid\":\"web\",\"pool\":\"p\","
		"\"addresses\":[\"10.0.0.1\"]"));
	assert_non_null(
		strstr(in_folder(&w, "input"),
	               "\"nodes\":[{\"name\":\"n1\",\"id\":\"m1\",\"addresses\":[\"10.9.0.1\"]}]"));
	open_again(&w);
	ADOPT(&w, "web", "10.0.0.1");
	ensure(&w, "web");
	assert_string_equal(in_folder(&w, "runs"), "ensure\n");
	w.port.port = 81;
	ensure(&w, "web");
	assert_string_equal(in_folder(&w, "runs"), "ensure\nensure\n");
	assert_non_null(strstr(in_folder(&w, "input"),
	                       "\"generation\":2,\"hook\":{\"generation\":1,\"error\":\"\"}"));
	assert_state_has(&w, "\"generation\":2,\"hook\":{\"generation\":2,");
	assert_string_equal(remove_one(&w, "web"), "removed");
	assert_string_equal(in_folder(&w, "runs"), "ensure\nensure\ndelete\n");
}

/* What the state file had while the hook ran is what the next start finds. */
static void
kill_in_hook(struct world *w)
{
	put_state(w, in_folder(w, "during"));
	lab_put(w->lab, "fate", "");
	lab_put(w->lab, "runs", "");
	open_again(w);
	ADOPT(w, "web", "10.0.0.1");
}

/* The Service is changed back before the next start: it looks as when the hook last succeeded. */
static void
a_hook_that_a_crash_interrupts_is_run_again(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{}");
	open_with_hook(&w);
	ensure(&w, "web");
	lab_put(w.lab, "fate", "cp state.json during\n");
	w.port.port = 81;
	ensure(&w, "web");
	kill_in_hook(&w);
	w.port.port = 80;
	assert_string_equal(ensure(&w, "web"), "10.0.0.1");
	assert_string_equal(in_folder(&w, "runs"), "ensure\n");

	lab_put(w.lab, "fate", "cp state.json during\n");
	assert_string_equal(remove_one(&w, "web"), "removed");
	kill_in_hook(&w);
	assert_string_equal(ensure(&w, "web"), "10.0.0.1"); /* it wants a balancer again */
	assert_string_equal(in_folder(&w, "runs"), "ensure\n");
}

static void
a_hook_that_fails_is_run_again(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{}");
	open_with_hook(&w);
	lab_put(w.lab, "fate", "echo first >&2; echo 'the last word' >&2; echo >&2; exit 3\n");
	assert_string_equal(ensure(&w, "web"), "error: load balancer hook failed: the last word");
	assert_int_equal(w.code, ERR_UNAVAILABLE);
	assert_state_has(&w, "\"error\":\"load balancer hook failed: the last word\"");
	assert_state_has(&w, "\"addresses\":[\"10.0.0.1\"]"); /* the address is kept */
	lab_put(w.lab, "fate", "exit 4\n");
	assert_string_equal(ensure(&w, "web"), "error: load balancer hook failed: exit 4");
	lab_put(w.lab, "fate", "kill -9 $$\n");
	assert_string_equal(ensure(&w, "web"), "error: load balancer hook failed: signal 9");
	lab_put(w.lab, "fate", "exit 0\n");
	assert_string_equal(ensure(&w, "web"), "10.0.0.1");
	assert_state_has(&w, "\"generation\":1,\"hook\":{\"generation\":1,");
	assert_state_has(&w, "\"error\":\"\"}");
	lab_put(w.lab, "fate", "exit 5\n");
	assert_string_equal(remove_one(&w, "web"), "error: load balancer hook failed: exit 5");
	assert_state_has(&w, "\"generation\":2,\"hook\":{\"generation\":1,");
	assert_state_has(&w, "\"addresses\":[\"10.0.0.1\"]");
	lab_put(w.lab, "fate", "exit 0\n");
	assert_string_equal(remove_one(&w, "web"), "removed");
}

static void
a_hook_that_does_not_end_is_reported(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{}");
	write_hook(&w);
	write_inventory(&w, POOL,
	                arena_printf(&w.arena, "{hook: %s, hookTimeout: 200ms}", w.hook).ptr);
	open_again(&w);
	lab_put(w.lab, "fate", "exec sleep 100\n");
	assert_string_equal(ensure(&w, "web"), "error: load balancer hook failed: timed out");
}

static void
a_missing_hook_is_reported(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{hook: /nonexistent/hook}");
	open_again(&w);
	assert_string_equal(
		ensure(&w, "web"),
		"error: load balancer hook failed: /nonexistent/hook: cannot be started: No "
		"such file or directory");
}

/* A fence that is down: neither files nor hooks. */
static void
a_process_without_the_lease_writes_nothing(void **state)
{
	static struct fence fence = { 0 };
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{}");
	w.lab->host.fence = &fence;
	open_again(&w);
	ensure(&w, "web");
	assert_int_equal(w.code, ERR_CANCELLED);
	assert_string_equal(text_of(&w, w.state), "");
	w.lab->host.fence = NULL;
}

/* ---- what it needs ---- */

static void
programs_and_files_are_announced(void **state)
{
	CLEANUP(world_fini) struct world w;
	struct cloud_config config;
	struct cloud *cloud;
	struct error err;

	world_init(&w, state, "{}");
	config = (struct cloud_config){ .clock = &clock_real, .path = w.lab->path };
	assert_true(cloudlycke_cloud.load(&config, &cloud, &err));
	assert_false(cloud->needs.runs_programs);
	assert_int_equal(cloud->needs.n_writes, 1);
	assert_true(str_eq_c(cloud->needs.writes[0], w.state));
	cloudlycke_cloud.close(cloud);
	write_inventory(&w, "", "{hook: /h}");
	assert_true(cloudlycke_cloud.load(&config, &cloud, &err));
	assert_true(cloud->needs.runs_programs);
	cloudlycke_cloud.close(cloud);

	/* what a command reads; HAProxy's file has no secrets */
	config.is_read_only = true;
	write_inventory(&w, "", "{haproxy: {file: /f, reload: [/r]}}");
	assert_true(cloudlycke_cloud.load(&config, &cloud, &err));
	assert_int_equal(cloud->needs.n_reads, 2);
	assert_true(str_eq_c(cloud->needs.reads[0], w.state));
	assert_false(cloud->needs.reads_are_public[0]);
	assert_true(str_eq_c(cloud->needs.reads[1], "/f"));
	assert_true(cloud->needs.reads_are_public[1]);
	cloudlycke_cloud.close(cloud);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, lab_setup, lab_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_second_run_changes_nothing),
		TEST(addresses_are_wanted_by_annotation_or_by_the_spec),
		TEST(a_removed_balancer_frees_its_address),
		TEST(an_update_needs_a_balancer),
		TEST(a_pool_that_moves_moves_its_services),
		TEST(services_keep_what_their_status_says),
		TEST(the_service_with_the_lower_uid_keeps_a_common_address),
		TEST(an_address_of_no_pool_is_not_taken_from_a_status),
		TEST(an_address_of_a_pool_is_found_behind_others),
		TEST(an_address_that_left_its_pool_is_kept_until_there_is_another),
		TEST(the_service_with_the_address_in_the_state_file_keeps_it),
		TEST(a_leaving_service_takes_no_address_back),
		TEST(a_leaving_service_has_its_address_until_its_balancer_is_removed),
		TEST(an_unpublished_address_is_not_given_to_another),
		TEST(a_kept_address_stays_reserved_until_it_is_released),
		TEST(a_kept_address_that_was_shared_is_not_shared_again),
		TEST(damage_is_reported_and_the_file_left_alone),
		TEST(a_file_of_an_older_version_is_read),
		TEST(a_newer_file_is_left_alone),
		TEST(routes_in_the_file_are_kept),
		TEST(one_process_has_the_file),
		TEST(a_lock_that_the_child_of_a_killed_process_holds_is_awaited),
		TEST(a_process_that_changes_nothing_only_reads_the_file),
		TEST(a_change_that_cannot_be_written_is_undone),
		TEST(a_service_of_a_former_process_leaves_haproxy),
		TEST(a_hook_runs_once_a_change),
		TEST(a_hook_that_a_crash_interrupts_is_run_again),
		TEST(a_hook_that_fails_is_run_again),
		TEST(a_hook_that_does_not_end_is_reported),
		TEST(a_missing_hook_is_reported),
		TEST(a_process_without_the_lease_writes_nothing),
		TEST(programs_and_files_are_announced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
