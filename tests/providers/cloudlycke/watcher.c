/* Reloading, by really changing the file. */
#include "providers/cloudlycke/watcher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "providers/cloudlycke/lab.h"
#include "providers/cloudlycke/loader.h"

#define RELOADS "cloudlycke_inventory_reloads_total"
#define GENERATION "cloudlycke_inventory_generation"

static void
close_cloud(struct cloud *cloud)
{
	cloudlycke_cloud.close(cloud);
}

DEFINE_CLEANUP(struct cloud, close_cloud)

static void
check_presence(struct cloud *cloud, const char *id, enum presence presence)
{
	assert_int_equal(lab_look(cloud, "", id).presence, presence);
}

/* ---- the first load ---- */

/* A clock for a start: every wait ends immediately, and the file is written during it, as another
 * process would do. The wall clock is long before the file's time, so the file always counts as
 * just written. */
struct start {
	struct clock clock;
	struct lab *lab;
	int64_t now_ns;
	const char *const
		*texts; /* one for each wait; the last one stays. NULL: there must be no wait */
	unsigned n_waits;
};

static int64_t
start_now(struct clock *clock)
{
	return CONTAINER_OF(clock, struct start, clock)->now_ns;
}

static int64_t
start_wall(struct clock *clock)
{
	(void)clock;
	return 0;
}

static bool
start_wait(struct clock *clock, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns)
{
	struct start *s = CONTAINER_OF(clock, struct start, clock);

	(void)cond;
	(void)mutex;
	assert_non_null(s->texts);
	if (s->texts[s->n_waits])
		lab_overwrite(s->lab, "inventory.yaml", s->texts[s->n_waits++]);
	s->now_ns = deadline_ns;
	return false;
}

static struct start
start_with(struct lab *lab, const char *const *texts)
{
	return (struct start){ { start_now, start_now, start_wall, start_wait }, lab, 0, texts, 0 };
}

#define HALF LAB_HEAD "machines:\n- {name: a, id: m0}\n"
#define WHOLE HALF "- {name: b, id: m1}\n"

static void
a_file_that_is_being_written_is_not_the_first_inventory(void **state)
{
	static const char *const texts[] = { "", HALF, WHOLE, NULL };
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;
	CLEANUP(cl_loader_freep) struct cl_loader *loader = NULL;
	struct lab *lab = *state;
	struct start s = start_with(lab, texts);
	struct error err;
	bool is_current;

	lab_overwrite(lab, "inventory.yaml", HALF); /* valid so far */
	loader = cl_loader_new(lab->path);
	assert_true(cl_loader_open(loader, &s.clock, &err));
	inventory = cl_loader_inventory(loader, &is_current);
	assert_int_equal(inventory->schema.n_machines, 2);
	assert_in_range(s.now_ns, 1, NS_PER_SEC);
}

static void
a_file_that_never_stops_changing_ends_the_start(void **state)
{
	static const char *texts[1000];
	CLEANUP(cl_loader_freep) struct cl_loader *loader = NULL;
	struct lab *lab = *state;
	struct start s = start_with(lab, texts);
	struct error err;

	for (unsigned i = 0; i + 1 < ARRAY_LEN(texts); i++)
		texts[i] = i % 2 ? HALF : WHOLE;
	lab_overwrite(lab, "inventory.yaml", HALF);
	loader = cl_loader_new(lab->path);
	assert_false(cl_loader_open(loader, &s.clock, &err));
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "inventory.yaml\" is still being written after 5 s"));
	assert_in_range(s.now_ns, 5 * NS_PER_SEC, 6 * NS_PER_SEC);
}

static void
a_file_that_was_written_long_ago_is_read_immediately(void **state)
{
	CLEANUP(cl_loader_freep) struct cl_loader *loader = NULL;
	struct lab *lab = *state;
	struct start s = start_with(lab, NULL);
	struct error err;

	s.clock.wall_ns = clock_real.wall_ns;
	lab_write(lab, "machines: []\n");
	loader = cl_loader_new(lab->path);
	assert_true(cl_loader_open(loader, &s.clock, &err));
}

/* ---- ways in which files change ---- */

static void
sees_another_file_renamed_over_it(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;

	lab_machines(lab, 2, "");
	cloud = lab_open(lab);
	for (unsigned i = 1; i <= 5; i++) {
		lab_machines(lab, 2 + i, "");
		lab_wait_wakes(lab, i);
		lab_wait_log(lab, "added=1 removed=0 changed=0");
	}
	check_presence(cloud, "m6", PRESENCE_PRESENT);
}

static void
sees_the_file_written_in_place(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;

	lab_write(lab, "machines: [{name: a, id: m0}]\n");
	cloud = lab_open(lab);
	lab_overwrite(lab, "inventory.yaml",
	              LAB_HEAD LAB_QUICK "machines: [{name: a, id: m0, power: off}]\n");
	lab_wait_log(lab, "added=0 removed=0 changed=1");
	assert_int_equal(lab_look(cloud, "a", "").power, POWER_OFF);
}

#define POLLED LAB_HEAD "reload: {debounce: 10ms, poll: 20ms}\n"

static void
make_folder(struct lab *lab, const char *name)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", lab->folder, name);
	assert_int_equal(mkdir(path, 0700), 0);
}

/* The file is a link, and what it leads to changes in another folder than the one that is
 * watched. */
static void
sees_changes_without_notification(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;

	make_folder(lab, "elsewhere");
	assert_int_equal(symlink("elsewhere/real.yaml", lab->path), 0);
	lab_put(lab, "elsewhere/real.yaml", POLLED "machines: []\n");
	cloud = lab_open(lab);
	lab_overwrite(lab, "elsewhere/real.yaml", POLLED "machines: [{name: a, id: m0}]\n");
	lab_wait_wakes(lab, 1);
	check_presence(cloud, "m0", PRESENCE_PRESENT);
}

static void
link_to(struct lab *lab, const char *target, const char *name)
{
	char path[160], other[160];

	snprintf(path, sizeof(path), "%s/%s", lab->folder, name);
	snprintf(other, sizeof(other), "%s/..tmp", lab->folder);
	assert_int_equal(symlink(target, other), 0);
	assert_int_equal(rename(other, path), 0);
}

static void
make_version(struct lab *lab, const char *version, const char *text)
{
	char path[160];

	make_folder(lab, version);
	snprintf(path, sizeof(path), "%s/inventory.yaml", version);
	lab_put(lab, path, text);
}

/* As a kubelet does it: inventory.yaml -> ..data/inventory.yaml, ..data -> ..1, and ..data is
 * turned. */
static void
sees_a_config_map_updated(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;

	make_version(lab, "..1", LAB_HEAD LAB_QUICK "machines: []\n");
	link_to(lab, "..1", "..data");
	assert_int_equal(symlink("..data/inventory.yaml", lab->path), 0);
	cloud = lab_open(lab);
	make_version(lab, "..2", LAB_HEAD LAB_QUICK "machines: [{name: a, id: m0}]\n");
	link_to(lab, "..2", "..data");
	lab_wait_wakes(lab, 1);
	check_presence(cloud, "m0", PRESENCE_PRESENT);
	make_version(lab, "..3", LAB_HEAD LAB_QUICK "machines: [{name: a, id: m1}]\n");
	link_to(lab, "..3", "..data");
	lab_wait_wakes(lab, 2);
	check_presence(cloud, "m1", PRESENCE_PRESENT);
}

/* A change that leaves size, time and inode as they are is reported by inotify only. */
static void
sees_a_change_that_leaves_the_stamp(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;
	struct timespec times[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };

	lab_write(lab, "machines: [{name: a, id: m0}]\n");
	assert_int_equal(utimensat(AT_FDCWD, lab->path, times, 0), 0);
	cloud = lab_open(lab);
	lab_overwrite(lab, "inventory.yaml", LAB_HEAD LAB_QUICK "machines: [{name: a, id: m1}]\n");
	assert_int_equal(utimensat(AT_FDCWD, lab->path, times, 0), 0);
	lab_wait_wakes(lab, 1);
	check_presence(cloud, "m1", PRESENCE_PRESENT);
}

static void
other_files_of_the_folder_do_not_matter(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;
	double ok = lab_metric(RELOADS "{result=\"ok\"} ");

	lab_machines(lab, 1, "");
	cloud = lab_open(lab);
	lab_put(lab, "other.yaml", "x");
	lab_put(lab, "inventory.yaml.bak", "x");
	lab_machines(lab, 2, "");
	lab_wait_wakes(lab, 1);
	assert_true(lab_metric(RELOADS "{result=\"ok\"} ") == ok + 1);
}

static void
move(struct lab *lab, const char *from, const char *to)
{
	char from_path[160], to_path[160];

	snprintf(from_path, sizeof(from_path), "%s/%s", lab->folder, from);
	snprintf(to_path, sizeof(to_path), "%s/%s", lab->folder, to);
	assert_int_equal(rename(from_path, to_path), 0);
}

/* Folder and all, as programs do that replace whole trees; then the new folder is watched. */
static void
sees_its_folder_replaced(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;

	make_version(lab, "d", LAB_HEAD LAB_QUICK "machines: [{name: a, id: m0}]\n");
	make_version(lab, "e", LAB_HEAD LAB_QUICK "machines: [{name: a, id: m1}]\n");
	snprintf(lab->path, sizeof(lab->path), "%s/d/inventory.yaml", lab->folder);
	cloud = lab_open(lab);
	move(lab, "d", "old");
	move(lab, "e", "d");
	lab_wait_wakes(lab, 1);
	check_presence(cloud, "m1", PRESENCE_PRESENT);
	lab_put(lab, "d/inventory.yaml", LAB_HEAD LAB_QUICK "machines: [{name: a, id: m2}]\n");
	lab_wait_wakes(lab, 2);
	check_presence(cloud, "m2", PRESENCE_PRESENT);
}

/* ---- files that are not whole ---- */

/* Each piece is a valid file; they come faster than the wait for quiet. */
static void
waits_until_the_file_is_quiet(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(10000);
	double ok = lab_metric(RELOADS "{result=\"ok\"} ");

	buf_add_c(&text, LAB_HEAD
	          "reload: {debounce: 500ms, poll: 1ms}\nmachines:\n- {name: n0, id: m0}\n");
	lab_put(lab, "inventory.yaml", text.ptr);
	cloud = lab_open(lab);
	lab_overwrite(lab, "inventory.yaml", NULL);
	for (int i = 1; i < 50; i++) {
		buf_addf(&text, "- {name: n%d, id: m%d}\n", i, i);
		lab_overwrite(lab, "inventory.yaml", text.ptr);
	}
	lab_wait_log(lab, "machines=50 added=49");
	assert_true(lab_metric(RELOADS "{result=\"ok\"} ") == ok + 1);
	assert_false(lab_has_logged(lab, "reload"));
	check_presence(cloud, "m49", PRESENCE_PRESENT);
}

static void
refuses_a_file_that_was_cut(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;

	lab_machines(lab, 5, "# end\n");
	cloud = lab_open(lab);
	/* valid as it is, and it would remove one machine only */
	lab_overwrite(lab, "inventory.yaml",
	              LAB_HEAD LAB_QUICK "machines:\n- {name: n0, id: m0}\n- {name: n1, id: m1}\n"
	                                 "- {name: n2, id: m2}\n- {name: n3, id: m3}");
	lab_wait_event(
		lab, 1, "InventoryReloadRefused",
		"inventory reload refused: would remove 1 of 5 machines, and the file seems cut short: it does "
		"not end with a line break any more");
	check_presence(cloud, "m4", PRESENCE_PRESENT);
	/* cut behind the key */
	lab_overwrite(lab, "inventory.yaml", LAB_HEAD LAB_QUICK "machines:\n");
	lab_wait_log(lab, "inventory.yaml:4: machines: required");
	check_presence(cloud, "m4", PRESENCE_PRESENT);
	lab_overwrite(lab, "inventory.yaml", NULL);
	lab_wait_log(lab, "inventory.yaml:1: is empty; an inventory has");
	check_presence(cloud, "m4", PRESENCE_PRESENT);
	assert_int_equal(lab_count_wakes(lab), 0);
}

/* ---- what is kept out ---- */

static void
rejects_a_file_with_problems(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;
	double rejected = lab_metric(RELOADS "{result=\"rejected\"} "), generation;
	char message[600];

	lab_machines(lab, 2, "");
	cloud = lab_open(lab);
	generation = lab_metric(GENERATION " ");
	lab_write(lab, "machines: [{name: n1}, {id: m2}]\n");
	snprintf(
		message, sizeof(message),
		"inventory reload rejected: %s:4: machines[0].id: required; %s:4: machines[1].name: required",
		lab->path, lab->path);
	lab_wait_event(lab, 1, "InventoryReloadRejected", message);
	lab_wait_log(lab, message);
	check_presence(cloud, "m1", PRESENCE_PRESENT);
	lab_machines(lab, 3, "");
	lab_wait_wakes(lab, 1);
	check_presence(cloud, "m2", PRESENCE_PRESENT);
	assert_true(lab_metric(RELOADS "{result=\"rejected\"} ") == rejected + 1);
	assert_true(lab_metric(GENERATION " ") == generation + 1);
}

static void
a_missing_file_is_logged_once(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;
	double rejected = lab_metric(RELOADS "{result=\"rejected\"} ");

	lab_machines(lab, 2, "");
	cloud = lab_open(lab);
	lab_write(lab, "machines: 1\n");
	lab_wait_log(lab, "inventory reload rejected: ");
	lab_write(lab, "machines: 1\n");
	/* a look waits until the file has been read */
	check_presence(cloud, "m9", PRESENCE_UNKNOWN);
	assert_true(lab_metric(RELOADS "{result=\"rejected\"} ") == rejected + 1);
	cloudlycke_cloud.reload(cloud); /* asked for, so answered */
	lab_wait_log(lab, "inventory reload rejected: ");
	assert_true(lab_metric(RELOADS "{result=\"rejected\"} ") == rejected + 2);
}

static void
refuses_to_remove_most_machines(void **state)
{
	static const char message[] =
		"inventory reload refused: would remove 6 of 10 machines (limit 50%); set "
		"reload.maxRemoval to allow";
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;
	double refused = lab_metric(RELOADS "{result=\"refused\"} ");

	lab_machines(lab, 10, "");
	cloud = lab_open(lab);
	lab_machines(lab, 4, "");
	lab_wait_event(lab, 1, "InventoryReloadRefused", message);
	lab_wait_log(lab, message);
	check_presence(cloud, "m9", PRESENCE_PRESENT);
	assert_true(lab_metric(RELOADS "{result=\"refused\"} ") == refused + 1);
	/* the new file may raise the limit */
	lab_put(lab, "inventory.yaml",
	        LAB_HEAD
	        "reload: {debounce: 10ms, poll: 0, maxRemoval: 90%}\nmachines: [{name: n0, id: m0}]\n");
	lab_wait_wakes(lab, 1);
	lab_wait_log(lab, "machines=1 added=0 removed=9 changed=0");
	check_presence(cloud, "m9", PRESENCE_ABSENT);
}

static void
keeps_what_it_has_while_the_file_is_gone(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;

	lab_machines(lab, 2, "");
	cloud = lab_open(lab);
	assert_int_equal(unlink(lab->path), 0);
	lab_wait_log(lab, "No such file or directory");
	check_presence(cloud, "m1", PRESENCE_PRESENT);
	cloudlycke_cloud.reload(cloud); /* asked for, so answered */
	lab_wait_log(lab, "No such file or directory");
	lab_machines(lab, 2, "");
	lab_wait_log(lab, "the inventory can be read again");
	lab_machines(lab, 3, "");
	lab_wait_wakes(lab, 1);
}

/* ---- the rest ---- */

static void
reloads_on_request(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;

	lab_machines(lab, 2, "");
	cloud = lab_open(lab);
	cloudlycke_cloud.reload(cloud);
	lab_wait_wakes(lab, 1);
	lab_wait_log(lab, "inventory reloaded machines=2 added=0 removed=0 changed=0");
}

static void
reports_what_takes_effect_after_a_restart(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;

	lab_machines(lab, 2, "");
	cloud = lab_open(lab);
	lab_put(lab, "inventory.yaml",
	        LAB_HEAD "reload: {debounce: 20ms, poll: 0}\nmachines: []\nloadBalancers: {}\n");
	lab_wait_log(lab, "inventory reload refused");
	lab_put(lab, "inventory.yaml",
	        LAB_HEAD
	        "reload: {debounce: 20ms, poll: 0, maxRemoval: 100%}\nmachines: []\nloadBalancers: {}\n");
	lab_wait_log(lab, "change of reload.debounce takes effect after a restart");
	lab_wait_log(lab, "change of loadBalancers takes effect after a restart");
}

static void
ends_immediately_while_it_waits(void **state)
{
	static const char text[] = LAB_HEAD "reload: {debounce: 1m, poll: 0}\nmachines: []\n";
	struct lab *lab = *state;
	int64_t before_ns = clock_mono(&clock_real);
	struct cloud *cloud;

	lab_put(lab, "inventory.yaml", text);
	cloud = lab_open(lab);
	lab_put(lab, "inventory.yaml", text);
	cloudlycke_cloud.close(cloud);
	assert_true(clock_mono(&clock_real) - before_ns < 10 * NS_PER_SEC);
	assert_int_equal(lab_count_wakes(lab), 0);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, lab_setup, lab_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_file_that_is_being_written_is_not_the_first_inventory),
		TEST(a_file_that_never_stops_changing_ends_the_start),
		TEST(a_file_that_was_written_long_ago_is_read_immediately),
		TEST(sees_another_file_renamed_over_it),
		TEST(sees_the_file_written_in_place),
		TEST(sees_changes_without_notification),
		TEST(sees_a_config_map_updated),
		TEST(sees_a_change_that_leaves_the_stamp),
		TEST(other_files_of_the_folder_do_not_matter),
		TEST(sees_its_folder_replaced),
		TEST(waits_until_the_file_is_quiet),
		TEST(refuses_a_file_that_was_cut),
		TEST(rejects_a_file_with_problems),
		TEST(a_missing_file_is_logged_once),
		TEST(refuses_to_remove_most_machines),
		TEST(keeps_what_it_has_while_the_file_is_gone),
		TEST(reloads_on_request),
		TEST(reports_what_takes_effect_after_a_restart),
		TEST(ends_immediately_while_it_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
