/* Dry runs of load balancers, in a process beside the one of the controller: what is noted is what
 * the controller then does, and no file of the folder changes. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/limits.h"
#include "cloud/balancer.h"
#include "providers/cloudlycke/lab.h"

struct world {
	struct lab *lab;
	struct arena arena;
	struct cloud *controller, *observer; /* the latter changes nothing */
	struct fence closed;
	struct cloud_host host; /* the observer's */
	struct lb_port port;
	struct node_ref nodes[2];
	struct address addresses[2];
	struct lb_spec spec;
	struct lb_ingress ingress;
	struct lb_status status;
	struct error err;
	struct dry_run run;
	struct dry_item item;
	struct buf noted;
};

static const enum ip_family families[] = { IP_V4 };

static void
note(struct dry_run *run, const struct dry_item *item, const struct dry_change *change)
{
	static const char *const verbs[] = { "create", "change", "delete" };
	struct world *w = CONTAINER_OF(run, struct world, run);
	const char *sep = ": ";

	(void)item;
	buf_addf(&w->noted, "%s %s %" STR_FMT, verbs[change->verb], change->what,
	         STR_ARG(change->name));
	for (size_t i = 0; i < change->n_fields; i++, sep = "; ")
		buf_addf(&w->noted, "%s%" STR_FMT " %" STR_FMT " > %" STR_FMT, sep,
		         STR_ARG(change->fields[i].name), STR_ARG(change->fields[i].old),
		         STR_ARG(change->fields[i].new));
	buf_add_c(&w->noted, "\n");
}

/* A dry run sends no event of its own; those of the provider end here. */
static void
drop_event(const struct cloud_host *host, const struct lb_spec *spec, enum host_event type,
           const char *reason, struct str message)
{
	(void)host;
	(void)spec;
	(void)type;
	(void)reason;
	(void)message;
}

static void
drop_requeue(const struct cloud_host *host, enum host_requeue what, struct str key)
{
	(void)host;
	(void)what;
	(void)key;
}

static struct call
call_of(struct world *w)
{
	return (struct call){ .clock = &clock_real,
		              .deadline_mono_ns = clock_mono(&clock_real) + 60 * NS_PER_SEC,
		              .arena = &w->arena };
}

static void
adopt(struct world *w, struct cloud *cloud)
{
	const struct lb_spec *const specs[] = { &w->spec };
	struct call call = call_of(w);

	call.dry = cloud == w->observer ? &w->item : NULL;
	if (!cloud->balancers->adopt(cloud, &call, specs, 1, &w->err))
		fail_msg("%s", w->err.msg);
}

/* As after a start, with what the state file and the Service's status have now. */
static void
open_observer(struct world *w)
{
	struct cloud_config config = { .clock = &clock_real,
		                       .path = w->lab->path,
		                       .cluster_name = "kubernetes",
		                       .is_read_only = true };

	cloudlycke_cloud.close(w->observer);
	if (!cloudlycke_cloud.load(&config, &w->observer, &w->err) ||
	    !cloudlycke_cloud.start(w->observer, &w->host, &w->err))
		fail_msg("%s", w->err.msg);
	adopt(w, w->observer);
}

/* balancers: "{hook: …}"; FOLDER stands for the folder. */
static void
world_init(struct world *w, void **state, const char *balancers)
{
	*w = (struct world){ .lab = *state };
	w->host = (struct cloud_host){ .clock = &clock_real,
		                       .fence = &w->closed,
		                       .service_event = drop_event,
		                       .requeue = drop_requeue,
		                       .nodes = w->lab->host.nodes };
	w->run.note = note;
	w->item = (struct dry_item){ &w->run, "service", STR("default/web"), STR("1") };
	w->noted = BUF_INIT(MIB(1));
	w->port = (struct lb_port){ STR("http"), STR_EMPTY, STR("TCP"), LB_TCP, 80, 31000 };
	w->addresses[0] = (struct address){ STR("InternalIP"), STR("10.9.0.1") };
	w->addresses[1] = (struct address){ STR("InternalIP"), STR("10.9.0.2") };
	for (size_t i = 0; i < ARRAY_LEN(w->nodes); i++)
		w->nodes[i] = (struct node_ref){ .name = i ? STR("n2") : STR("n1"),
			                         .provider_id = i ? STR("cloudlycke://m2")
			                                          : STR("cloudlycke://m1"),
			                         .addresses = &w->addresses[i],
			                         .n_addresses = 1 };
	w->spec = (struct lb_spec){ .cluster = STR("kubernetes"),
		                    .namespace = STR("default"),
		                    .service = STR("web"),
		                    .uid = STR("u"),
		                    .name = STR("au"),
		                    .ports = &w->port,
		                    .n_ports = 1,
		                    .families = families,
		                    .n_families = 1,
		                    .wanted_ip = STR_EMPTY,
		                    .nodes = w->nodes,
		                    .n_nodes = 1 };
	lab_write(w->lab, arena_printf(&w->arena,
	                               "machines: []\n"
	                               "addressPools: [{name: p, addresses: [10.0.0.1-10.0.0.3]}]\n"
	                               "state: {file: %s/state.json}\nloadBalancers: %s\n",
	                               w->lab->folder, balancers)
	                          .ptr);
	w->controller = lab_open(w->lab);
	adopt(w, w->controller);
}

static void
world_fini(struct world *w)
{
	cloudlycke_cloud.close(w->observer);
	cloudlycke_cloud.close(w->controller);
	buf_fini(&w->noted);
	arena_fini(&w->arena);
}

static const char *
in_folder(struct world *w, const char *name)
{
	return arena_printf(&w->arena, "%s/%s", w->lab->folder, name).ptr;
}

static const char *
with_haproxy(void **state)
{
	static char text[400];
	const struct lab *lab = *state;

	snprintf(text, sizeof(text),
	         "{haproxy: {file: %s/haproxy.cfg, check: [/bin/true], reload: [/bin/true]}}",
	         lab->folder);
	return text;
}

static const char *
with_hook(void **state)
{
	static char text[200];
	struct lab *lab = *state;

	snprintf(text, sizeof(text), "%s/hook", lab->folder);
	lab_put(lab, "hook", "#!/bin/sh\necho $CLOUDLYCKE_ACTION >>${0%hook}runs\n");
	assert_int_equal(chmod(text, 0755), 0);
	snprintf(text, sizeof(text), "{hook: %s/hook}", lab->folder);
	return text;
}

/* ---- runs ---- */

/* Names, sizes, times and inodes of all files in the folder, and the state file's text. */
static struct str
folder_text(struct world *w)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(MIB(1));
	DIR *dir = opendir(w->lab->folder);
	struct error ignored;
	struct stat st;

	assert_non_null(dir);
	for (struct dirent *one; (one = readdir(dir));) {
		assert_int_equal(stat(in_folder(w, one->d_name), &st), 0);
		if (one->d_name[0] != '.')
			buf_addf(&text, "%s %lld %lld.%09ld %llu\n", one->d_name,
			         (long long)st.st_size, (long long)st.st_mtim.tv_sec,
			         st.st_mtim.tv_nsec, (unsigned long long)st.st_ino);
	}
	closedir(dir);
	(void)!file_read(in_folder(w, "state.json"), &text, &ignored);
	return arena_str(&w->arena, buf_str(&text));
}

static bool
ensure_at(struct world *w, struct cloud *cloud, const struct dry_item *dry)
{
	struct call call = call_of(w);
	enum lb_outcome outcome;

	call.dry = dry;
	for (;;) {
		if (cloud->balancers->ensure(cloud, &call, &w->spec, &outcome, &w->status, &w->err))
			return true;
		if (w->err.code != ERR_PENDING) /* until HAProxy's next reload */
			return false;
		usleep((useconds_t)w->err.retry_after_ms * 1000);
	}
}

/* What the observer notes; nothing of the folder may change meanwhile. */
static const char *
noted_by(struct world *w, bool (*run)(struct world *w))
{
	struct str before;

	open_observer(w);
	before = folder_text(w);
	buf_reset(&w->noted);
	if (!run(w))
		fail_msg("%s", w->err.msg);
	assert_string_equal(arena_strz(&w->arena, folder_text(w)), arena_strz(&w->arena, before));
	return w->noted.ptr;
}

static bool
ensure_dry(struct world *w)
{
	return ensure_at(w, w->observer, &w->item);
}

static bool
update_dry(struct world *w)
{
	struct call call = call_of(w);

	call.dry = &w->item;
	return w->observer->balancers->update_nodes(w->observer, &call, &w->spec, &w->err);
}

static bool
remove_dry(struct world *w)
{
	struct call call = call_of(w);
	bool was_found;

	call.dry = &w->item;
	return w->observer->balancers->remove(w->observer, &call, &w->spec, &was_found, &w->err);
}

/* The controller does it, and the Service's status shows it. */
static void
ensure(struct world *w)
{
	if (!ensure_at(w, w->controller, NULL))
		fail_msg("%s", w->err.msg);
	w->ingress = w->status.ingress[0];
	w->spec.status = (struct lb_status){ &w->ingress, 1 };
}

/* ---- addresses ---- */

static void
a_new_service_would_get_the_address_that_it_then_gets(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{}");
	assert_string_equal(noted_by(&w, ensure_dry), "create address 10.0.0.1: pool  > p\n");
	assert_true(str_eq_c(w.status.ingress[0].ip, "10.0.0.1"));
	ensure(&w);
	assert_true(str_eq_c(w.ingress.ip, "10.0.0.1"));
	assert_string_equal(noted_by(&w, ensure_dry), "");
	assert_string_equal(noted_by(&w, remove_dry), "delete address 10.0.0.1\n");
}

static void
a_dry_run_reserves_nothing(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{}");
	noted_by(&w, ensure_dry);
	w.spec.uid = STR("v");
	w.spec.name = STR("av");
	buf_reset(&w.noted);
	assert_true(ensure_dry(&w));
	assert_string_equal(w.noted.ptr, "create address 10.0.0.1: pool  > p\n");
}

/* The observer lives on while the controller works. */
static void
an_address_that_the_status_shows_is_no_change(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{}");
	noted_by(&w, ensure_dry);
	w.ingress = (struct lb_ingress){ STR("10.0.0.2"), STR_EMPTY, LB_IP_MODE_VIP };
	w.spec.status = (struct lb_status){ &w.ingress, 1 };
	buf_reset(&w.noted);
	assert_true(ensure_dry(&w));
	assert_string_equal(w.noted.ptr, "");
	w.spec.wanted_ip = STR("10.0.0.3");
	assert_true(ensure_dry(&w));
	assert_string_equal(w.noted.ptr, "delete address 10.0.0.2\n"
	                                 "create address 10.0.0.3: pool  > p\n");
}

static void
a_service_that_is_refused_is_refused_in_a_dry_run(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, "{}");
	open_observer(&w);
	w.spec.wanted_ip = STR("10.1.0.1");
	assert_false(ensure_dry(&w));
	assert_int_equal(w.err.code, ERR_INVALID);
	assert_string_equal(w.noted.ptr, "");
}

/* ---- HAProxy ---- */

static void
frontends_are_compared_with_the_file(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, with_haproxy(state));
	assert_string_equal(noted_by(&w, ensure_dry),
	                    "create address 10.0.0.1: pool  > p\n"
	                    "create HAProxy frontend au-80-v4: address  > ipv4@10.0.0.1:80 "
	                    "transparent; default_backend  > au-80-v4; balance  > roundrobin; "
	                    "targets  > n1 ipv4@10.9.0.1:31000\n");
	ensure(&w);
	assert_string_equal(noted_by(&w, ensure_dry), "");
	w.spec.n_nodes = 2;
	assert_string_equal(noted_by(&w, update_dry),
	                    "change HAProxy frontend au-80-v4: targets n1 ipv4@10.9.0.1:31000 > "
	                    "n1 ipv4@10.9.0.1:31000, n2 ipv4@10.9.0.2:31000\n");
	ensure(&w);
	assert_string_equal(noted_by(&w, update_dry), "");
	w.spec.has_client_ip_affinity = true;
	assert_true(strstr(noted_by(&w, ensure_dry), "balance roundrobin > source"));
	w.spec.has_client_ip_affinity = false;
	w.port.port = 81;
	assert_string_equal(noted_by(&w, ensure_dry),
	                    "create HAProxy frontend au-81-v4: address  > ipv4@10.0.0.1:81 "
	                    "transparent; default_backend  > au-81-v4; balance  > roundrobin; "
	                    "targets  > n1 ipv4@10.9.0.1:31000, n2 ipv4@10.9.0.2:31000\n"
	                    "delete HAProxy frontend au-80-v4\n");
	assert_string_equal(noted_by(&w, remove_dry), "delete HAProxy frontend au-80-v4\n"
	                                              "delete address 10.0.0.1\n");
}

/* Another balancer's name may begin with ours. */
static void
frontends_of_other_balancers_are_left_out(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, with_haproxy(state));
	w.spec.uid = STR("uu");
	w.spec.name = STR("auu");
	ensure(&w);
	w.spec.uid = STR("u");
	w.spec.name = STR("au");
	w.spec.status.n_ingress = 0;
	assert_string_equal(noted_by(&w, remove_dry), "");
}

/* ---- hooks ---- */

static void
a_hook_is_noted_and_not_run(void **state)
{
	CLEANUP(world_fini) struct world w;

	world_init(&w, state, with_hook(state));
	assert_string_equal(noted_by(&w, ensure_dry),
	                    "create address 10.0.0.1: pool  > p\n"
	                    "create load balancer hook au: addresses  > 10.0.0.1; "
	                    "ports  > 80 to 31000; targets  > n1\n");
	assert_int_equal(access(in_folder(&w, "runs"), F_OK), -1);
	ensure(&w);
	assert_int_equal(access(in_folder(&w, "runs"), F_OK), 0);
	assert_string_equal(noted_by(&w, ensure_dry), "");
	w.spec.n_nodes = 2;
	assert_string_equal(noted_by(&w, update_dry),
	                    "change load balancer hook au: addresses  > 10.0.0.1; "
	                    "ports  > 80 to 31000; targets  > n1, n2\n");
	assert_string_equal(noted_by(&w, remove_dry), "delete load balancer hook au\n"
	                                              "delete address 10.0.0.1\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, lab_setup, lab_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_new_service_would_get_the_address_that_it_then_gets),
		TEST(a_dry_run_reserves_nothing),
		TEST(an_address_that_the_status_shows_is_no_change),
		TEST(a_service_that_is_refused_is_refused_in_a_dry_run),
		TEST(frontends_are_compared_with_the_file),
		TEST(frontends_of_other_balancers_are_left_out),
		TEST(a_hook_is_noted_and_not_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
