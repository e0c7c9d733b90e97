#include "providers/cloudlycke/lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/thread.h"

#define ops cloudlycke_cloud

static void
close_cloud(struct cloud *cloud)
{
	ops.close(cloud);
}

DEFINE_CLEANUP(struct cloud, close_cloud)

/* ---- open ---- */

static void
check_not_opened(struct lab *lab, const char *path, enum err_code code, const char *msg)
{
	struct cloud_config config = { .clock = &clock_real, .path = path };
	struct cloud *cloud = NULL;
	struct error err = { 0 };

	assert_false(lab_try_open(lab, &config, &cloud, &err));
	assert_null(cloud);
	assert_int_equal(err.code, code);
	assert_string_equal(err.msg, msg);
}

static void
needs_a_file(void **state)
{
	static const char msg[] =
		"cloudlycke: --cloud-config is required: an inventory file with apiVersion: cloudlycke.io/v1alpha1, kind: Inventory and a list of machines";

	check_not_opened(*state, NULL, ERR_INVALID, msg);
	check_not_opened(*state, "", ERR_INVALID, msg);
}

static void
reports_why_it_cannot_read_the_file(void **state)
{
	struct lab *lab = *state;
	char msg[400];

	snprintf(msg, sizeof(msg),
	         "cloudlycke: cannot read inventory \"%s\": No such file or directory", lab->path);
	check_not_opened(lab, lab->path, ERR_NOT_FOUND, msg);
	snprintf(msg, sizeof(msg), "cloudlycke: cannot read inventory \"%s\": Is a directory",
	         lab->folder);
	check_not_opened(lab, lab->folder, ERR_INTERNAL, msg);
	check_not_opened(lab, "/dev/null", ERR_INTERNAL,
	                 "cloudlycke: cannot read inventory \"/dev/null\": Invalid argument");
}

static void
does_not_wait_for_a_fifo(void **state)
{
	struct lab *lab = *state;
	char msg[400];

	assert_int_equal(mkfifo(lab->path, 0600), 0);
	snprintf(msg, sizeof(msg), "cloudlycke: cannot read inventory \"%s\": Invalid argument",
	         lab->path);
	check_not_opened(lab, lab->path, ERR_INTERNAL, msg);
}

static void
does_not_read_a_huge_file(void **state)
{
	struct lab *lab = *state;
	char msg[400];

	lab_write(lab, "");
	assert_int_equal(truncate(lab->path, (off_t)1 << 40), 0);
	snprintf(msg, sizeof(msg), "cloudlycke: cannot read inventory \"%s\": File too large",
	         lab->path);
	check_not_opened(lab, lab->path, ERR_INTERNAL, msg);
}

static void
reports_the_problems_of_the_file(void **state)
{
	struct lab *lab = *state;
	char msg[400];

	lab_write(lab, "machines: [{name: n1}]\n");
	snprintf(msg, sizeof(msg), "cloudlycke: %s:4: machines[0].id: required", lab->path);
	check_not_opened(lab, lab->path, ERR_INVALID, msg);
	lab_write(lab, "machines: [{}, {name: n2}]\n");
	snprintf(msg, sizeof(msg), "cloudlycke: %s:4: machines[0].name: required (and 2 more)",
	         lab->path);
	check_not_opened(lab, lab->path, ERR_INVALID, msg);
	lab_wait_log(lab, "machines[0].name: required");
	lab_wait_log(lab, "machines[0].id: required");
	lab_wait_log(lab, "machines[1].id: required");
}

static void
offers_balancers_where_the_inventory_has_them(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;

	lab_write(lab, "machines: []\nloadBalancers: {}\n");
	cloud = lab_open(lab);
	assert_non_null(cloud->balancers);
}

static void
close_takes_null(void **state)
{
	(void)state;
	ops.close(NULL);
}

/* ---- look ---- */

#define FINDING                                                                                \
	"cloud: {region: r, zone: z}\n"                                                        \
	"machines:\n"                                                                          \
	"- name: n1\n"                                                                         \
	"  id: m-1\n"                                                                          \
	"  aliases: [other]\n"                                                                 \
	"  type: small\n"                                                                      \
	"  addresses: [{type: ExternalIP, address: 1.2.3.4}, {type: Hostname, address: h1}]\n" \
	"  labels: {rack: r1}\n"                                                               \
	"- {name: n2, id: m-2, addresses: [{type: Hostname, address: both}]}\n"                \
	"- {name: n3, id: m-3, addresses: [{type: Hostname, address: both}]}\n"                \
	"- {name: off, id: off, power: off}\n"                                                 \
	"- {name: suspended, id: suspended, power: suspended}\n"                               \
	"- {name: terminated, id: terminated, power: terminated}\n"                            \
	"- {name: unknown, id: unknown, power: unknown}\n"                                     \
	"- {name: broken, id: broken, power: terminated, fault: 'disk \"a\" on fire'}\n"

static void
check_answer(struct cloud *cloud, const char *name, const char *provider_id, enum presence presence,
             enum power power)
{
	struct lab_answer answer = lab_look(cloud, name, provider_id);

	assert_string_equal(answer.error, "");
	assert_int_equal(answer.presence, presence);
	if (presence == PRESENCE_PRESENT)
		assert_int_equal(answer.power, power);
}

static void
check_error(struct cloud *cloud, const char *name, const char *provider_id, enum presence presence,
            enum err_code code, const char *error)
{
	struct lab_answer answer = lab_look(cloud, name, provider_id);

	assert_string_equal(answer.error, error);
	assert_int_equal(answer.presence, presence);
	assert_int_equal(answer.code, code);
}

static void
returns_all_fields_of_a_machine(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;
	CLEANUP(look_unrefp) struct look *look = NULL;
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = { .clock = &clock_real,
		             .deadline_mono_ns = CLOCK_FOREVER,
		             .arena = &arena };
	struct node_ref refs[] = { { .name = STR("n2") }, { .name = STR("n1") } };
	int64_t before_ns = clock_boot(&clock_real);
	const struct instance *one;
	struct error err;

	lab_write(lab, FINDING);
	cloud = lab_open(lab);
	assert_true(ops.look(cloud, &call, refs, 2, before_ns, &look, &err));
	ops.close(TAKE(cloud)); /* what a look found outlives the provider */
	assert_int_equal(look->n, 2);
	assert_int_equal(look->n_anchors, 0);
	assert_true(look->started_boot_ns >= before_ns);
	one = &look->instances[1];
	assert_int_equal(one->presence, PRESENCE_PRESENT);
	assert_int_equal(one->power, POWER_ON);
	assert_true(str_eq_c(one->provider_id, "cloudlycke://m-1"));
	assert_true(str_eq_c(one->type, "small"));
	assert_true(str_eq_c(one->zone, "z"));
	assert_true(str_eq_c(one->region, "r"));
	assert_int_equal(one->n_addresses, 2);
	assert_true(str_eq_c(one->addresses[0].type, "ExternalIP"));
	assert_true(str_eq_c(one->addresses[0].address, "1.2.3.4"));
	assert_int_equal(one->n_labels, 1);
	assert_true(str_eq_c(one->labels[0].key, "rack"));
	assert_true(str_eq_c(look->instances[0].provider_id, "cloudlycke://m-2"));
	assert_int_equal(look->instances[0].n_labels, 0);
}

static void
only_its_own_provider_ids_can_be_found(void **state)
{
	static const struct {
		struct str provider_id;
		bool is_ours;
	} cases[] = {
		{ STR("cloudlycke://m-1"), true },
		{ STR("cloudlycke://m-9"), true },
		{ STR("m-1"), true },
		{ STR("hcloud://1"), false },
		{ STR("cloudlycke://"), false },
		{ STR(""), false },
	};
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;

	lab_write(lab, FINDING);
	cloud = lab_open(lab);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		unsigned realm = 7;

		assert_int_equal(ops.can_find(cloud, cases[i].provider_id, &realm),
		                 cases[i].is_ours);
		if (cases[i].is_ours)
			assert_int_equal(realm, 0);
	}
}

static void
finds_by_provider_id(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;

	lab_write(lab, FINDING);
	cloud = lab_open(lab);
	check_answer(cloud, "x", "cloudlycke://m-1", PRESENCE_PRESENT, POWER_ON);
	check_answer(cloud, "x", "m-1", PRESENCE_PRESENT, POWER_ON);
	check_answer(cloud, "n1", "cloudlycke://m-9", PRESENCE_ABSENT, POWER_UNKNOWN);
	check_answer(cloud, "n1", "cloudlycke://M-1", PRESENCE_ABSENT, POWER_UNKNOWN);
	check_answer(cloud, "n1", "cloudlycke://cloudlycke://m-1", PRESENCE_ABSENT, POWER_UNKNOWN);
	check_answer(cloud, "n1", "n1", PRESENCE_ABSENT, POWER_UNKNOWN);
	check_error(cloud, "n1", "hcloud://1", PRESENCE_FOREIGN, ERR_INVALID,
	            "providerID \"hcloud://1\" is not a cloudlycke:// id");
	check_error(cloud, "n1", "Cloudlycke://m-1", PRESENCE_FOREIGN, ERR_INVALID,
	            "providerID \"Cloudlycke://m-1\" is not a cloudlycke:// id");
	check_error(cloud, "n1", "cloudlycke://", PRESENCE_UNKNOWN, ERR_INVALID,
	            "providerID \"cloudlycke://\" has no machine id");
}

static void
finds_by_name(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;

	lab_write(lab, FINDING);
	cloud = lab_open(lab);
	check_answer(cloud, "n1", "", PRESENCE_PRESENT, POWER_ON);
	check_answer(cloud, "other", "", PRESENCE_PRESENT, POWER_ON);
	check_answer(cloud, "h1", "", PRESENCE_PRESENT, POWER_ON);
	check_answer(cloud, "N1", "", PRESENCE_ABSENT, POWER_UNKNOWN);
	check_answer(cloud, "m-1", "", PRESENCE_ABSENT, POWER_UNKNOWN);
	check_error(cloud, "both", "", PRESENCE_UNKNOWN, ERR_INVALID,
	            "node \"both\" matches several machines: m-2, m-3");
}

static void
knows_power_and_faults(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;

	lab_write(lab, FINDING);
	cloud = lab_open(lab);
	check_answer(cloud, "off", "", PRESENCE_PRESENT, POWER_OFF);
	check_answer(cloud, "suspended", "", PRESENCE_PRESENT, POWER_OFF);
	check_answer(cloud, "terminated", "", PRESENCE_ABSENT, POWER_UNKNOWN);
	check_answer(cloud, "", "cloudlycke://terminated", PRESENCE_ABSENT, POWER_UNKNOWN);
	check_error(cloud, "unknown", "", PRESENCE_UNKNOWN, ERR_UNAVAILABLE,
	            "machine \"unknown\": power state unknown");
	check_error(cloud, "broken", "", PRESENCE_UNKNOWN, ERR_UNAVAILABLE, "disk \"a\" on fire");
	check_error(cloud, "", "cloudlycke://broken", PRESENCE_UNKNOWN, ERR_UNAVAILABLE,
	            "disk \"a\" on fire");
}

static void
unlisted_machines_are_errors_if_configured_so(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;

	lab_write(
		lab,
		"cloud: {unknownMachines: error}\nmachines: [{name: t, id: t, power: terminated}]\n");
	cloud = lab_open(lab);
	check_error(cloud, "n1", "", PRESENCE_UNKNOWN, ERR_INVALID,
	            "machine \"n1\" is not in the inventory");
	check_error(cloud, "", "cloudlycke://m-1", PRESENCE_UNKNOWN, ERR_INVALID,
	            "machine \"m-1\" is not in the inventory");
	check_answer(cloud, "t", "", PRESENCE_ABSENT, POWER_UNKNOWN);
}

/* ---- looks while the file changes ---- */

/* No answer is older than the question, even before the provider was notified. */
static void
sees_what_the_file_has_now(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;

	lab_machines(lab, 3, "");
	cloud = lab_open(lab);
	for (unsigned n = 4; n < 14; n++) {
		char id[32];

		snprintf(id, sizeof(id), "m%u", n - 1);
		check_answer(cloud, "", id, PRESENCE_ABSENT, POWER_UNKNOWN);
		lab_machines(lab, n, "");
		check_answer(cloud, "", id, PRESENCE_PRESENT, POWER_ON);
	}
	lab_machines(lab, 12, "");
	check_answer(cloud, "", "m12", PRESENCE_ABSENT, POWER_UNKNOWN);
}

static void
proves_no_absence_while_the_file_is_not_accepted(void **state)
{
	static const char error[] =
		"machine \"m9\" is not in the inventory as loaded, but the file has changed since "
		"and is not accepted yet";
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;

	lab_machines(lab, 3, "");
	cloud = lab_open(lab);
	check_answer(cloud, "", "m9", PRESENCE_ABSENT, POWER_UNKNOWN);
	lab_write(lab, "machines: [");
	check_error(cloud, "", "m9", PRESENCE_UNKNOWN, ERR_UNAVAILABLE, error);
	check_answer(cloud, "", "m1", PRESENCE_PRESENT, POWER_ON);
	lab_machines(lab, 0, "");
	check_answer(cloud, "", "m1", PRESENCE_PRESENT, POWER_ON);
	check_error(cloud, "", "m9", PRESENCE_UNKNOWN, ERR_UNAVAILABLE, error);
	assert_int_equal(unlink(lab->path), 0);
	check_answer(cloud, "", "m1", PRESENCE_PRESENT, POWER_ON);
	check_error(cloud, "", "m9", PRESENCE_UNKNOWN, ERR_UNAVAILABLE, error);
	lab_machines(lab, 2, "");
	check_answer(cloud, "", "m9", PRESENCE_ABSENT, POWER_UNKNOWN);
	check_answer(cloud, "", "m2", PRESENCE_ABSENT, POWER_UNKNOWN);
}

static void
a_cancelled_lookup_does_not_wait(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;
	CLEANUP(cancel_freep) struct cancel *cancel = cancel_new();
	CLEANUP(look_unrefp) struct look *look = NULL;
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = { .clock = &clock_real,
		             .cancel = cancel,
		             .deadline_mono_ns = CLOCK_FOREVER,
		             .arena = &arena };
	struct node_ref ref = { .name = STR("n9") };
	struct error err;

	lab_put(lab, "inventory.yaml", LAB_HEAD "reload: {debounce: 1m, poll: 0}\nmachines: []\n");
	cloud = lab_open(lab);
	cancel_fire(cancel);
	lab_put(lab, "inventory.yaml",
	        LAB_HEAD "reload: {debounce: 1m, poll: 0}\nmachines: []\n\n");
	assert_true(ops.look(cloud, &call, &ref, 1, 0, &look, &err));
	assert_int_equal(look->instances[0].presence, PRESENCE_UNKNOWN);
}

#define FROZEN LAB_HEAD "reload: {enabled: false, debounce: 0}\n"

static void
without_reload_the_first_inventory_stays_in_effect(void **state)
{
	struct lab *lab = *state;
	CLEANUP(close_cloudp) struct cloud *cloud = NULL;

	lab_put(lab, "inventory.yaml", FROZEN "machines: [{name: a, id: a}]\n");
	cloud = lab_open(lab);
	lab_put(lab, "inventory.yaml", FROZEN "machines: [{name: b, id: b}]\n");
	check_answer(cloud, "a", "", PRESENCE_PRESENT, POWER_ON);
	check_answer(cloud, "b", "", PRESENCE_ABSENT, POWER_UNKNOWN);
	ops.reload(cloud);
	lab_wait_log(lab, "inventory reloaded machines=1 added=1 removed=1");
	check_answer(cloud, "b", "", PRESENCE_PRESENT, POWER_ON);
	ops.close(TAKE(cloud));
	assert_int_equal(lab_count_wakes(lab), 1);
}

/* Every look sees one state of the file: here both machines have the same power. */
struct looker {
	struct cloud *cloud;
	_Atomic bool is_done;
	_Atomic unsigned n_looks;
	unsigned n_torn;
};

static void *
keep_looking(void *arg)
{
	struct looker *looker = arg;
	struct node_ref refs[] = { { .name = STR("a") }, { .provider_id = STR("b") } };
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = { .clock = &clock_real,
		             .deadline_mono_ns = CLOCK_FOREVER,
		             .arena = &arena };
	struct error err;

	while (!looker->is_done) {
		CLEANUP(look_unrefp) struct look *look = NULL;

		if (!ops.look(looker->cloud, &call, refs, 2, 0, &look, &err) ||
		    look->instances[0].presence != PRESENCE_PRESENT ||
		    look->instances[0].power != look->instances[1].power)
			looker->n_torn++;
		looker->n_looks++;
	}
	return NULL;
}

static void
lookups_see_one_version_of_the_file(void **state)
{
	struct lab *lab = *state;
	struct looker lookers[3] = { 0 };
	pthread_t threads[3];
	struct cloud *cloud;

	lab_write(lab, "machines: [{name: a, id: a}, {name: b, id: b}]\n");
	cloud = lab_open(lab);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		lookers[i].cloud = cloud;
		thread_start(&threads[i], "looker", keep_looking, &lookers[i]);
	}
	for (unsigned i = 1; i <= 20; i++) {
		lab_write(
			lab,
			i % 2 ? "machines: [{name: a, id: a, power: off}, {name: b, id: b, power: off}]\n"
			      : "machines: [{name: a, id: a, power: on}, {name: b, id: b, power: on}]\n");
		lab_wait_wakes(lab, i);
	}
	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		lookers[i].is_done = true;
		thread_join(threads[i]);
		assert_int_equal(lookers[i].n_torn, 0);
		assert_true(lookers[i].n_looks > 0);
	}
	ops.close(cloud);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, lab_setup, lab_teardown)
	const struct CMUnitTest tests[] = {
		TEST(needs_a_file),
		TEST(reports_why_it_cannot_read_the_file),
		TEST(does_not_wait_for_a_fifo),
		TEST(does_not_read_a_huge_file),
		TEST(reports_the_problems_of_the_file),
		TEST(offers_balancers_where_the_inventory_has_them),
		TEST(close_takes_null),
		TEST(returns_all_fields_of_a_machine),
		TEST(finds_by_provider_id),
		TEST(only_its_own_provider_ids_can_be_found),
		TEST(finds_by_name),
		TEST(knows_power_and_faults),
		TEST(unlisted_machines_are_errors_if_configured_so),
		TEST(sees_what_the_file_has_now),
		TEST(proves_no_absence_while_the_file_is_not_accepted),
		TEST(a_cancelled_lookup_does_not_wait),
		TEST(without_reload_the_first_inventory_stays_in_effect),
		TEST(lookups_see_one_version_of_the_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
