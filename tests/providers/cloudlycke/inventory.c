#include "providers/cloudlycke/inventory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"

#define HEAD "apiVersion: cloudlycke.io/v1alpha1\nkind: Inventory\n"

static struct cl_inventory *
parse(struct str text)
{
	CLEANUP(cl_problems_fini) struct cl_problems problems = CL_PROBLEMS_INIT("f");
	struct cl_inventory *inventory = cl_inventory_parse(text, &problems);

	if (!inventory)
		fail_msg("%s", problems.kept[0].text);
	return inventory;
}

#define STR_INIT(literal) { "" literal, sizeof(literal) - 1 }
#define CHECK_STR(s, expected) assert_true(str_eq_c((s), (expected)))

static void
reads_every_field(void **state)
{
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *inventory = parse(STR(
		HEAD
		"cloud: {region: r, zone: z, self: n2, clusterID: c, requireClusterID: true, unknownMachines: error}\n"
		"reload: {enabled: false, debounce: 1s, poll: 2s, maxRemoval: 7%}\n"
		"state: {file: /var/lib/x.json}\n"
		"instanceTypes: [{name: big, cpus: 4, memory: 8Gi}]\n"
		"machines:\n"
		"- name: n1\n"
		"  id: rack/1\n"
		"  aliases: [n1.lab, n1.example]\n"
		"  type: big\n"
		"  zone: z1\n"
		"  region: r1\n"
		"  power: suspended\n"
		"  addresses:\n"
		"  - {type: ExternalIP, address: 010.0.0.1}\n"
		"  - {type: InternalIP, address: 'FD00::0:1'}\n"
		"  - {type: Hostname, address: N1}\n"
		"  labels: {example.com/rack: r1, a: ''}\n"
		"  fault: on fire\n"
		"- {name: n2, id: m2}\n"
		"addressPools: [{name: p, addresses: [10.1.0.0/30], avoid: [10.1.0.2], namespaces: [a, b], ipMode: Proxy,"
		" hostnameTemplate: '{name}.lab', avoidEdges: false}]\n"
		"loadBalancers: {hook: /h, hookTimeout: 1m, class: c}\n"
		"routes: {static: [{name: r, targetNode: n2, destinationCIDR: 10.244.0.0/24}], hook: /g}\n"));
	const struct cl_schema *s = &inventory->schema;
	const struct cl_machine *m = &s->machines[0];

	(void)state;
	CHECK_STR(s->cloud.self, "n2");
	CHECK_STR(s->cloud.cluster_id, "c");
	assert_true(s->cloud.requires_cluster_id);
	assert_int_equal(s->cloud.unknown_machines, CL_UNKNOWN_ERROR);
	assert_false(s->reload.is_enabled);
	assert_int_equal(s->reload.debounce_ns, NS_PER_SEC);
	assert_int_equal(s->reload.poll_ns, 2 * NS_PER_SEC);
	assert_int_equal(s->reload.max_removal_percent, 7);
	CHECK_STR(s->state.file, "/var/lib/x.json");
	assert_int_equal(s->n_machines, 2);
	CHECK_STR(m->name, "n1");
	CHECK_STR(m->id, "rack/1");
	CHECK_STR(cl_machine_provider_id(m), "cloudlycke://rack/1");
	CHECK_STR(m->type, "big");
	CHECK_STR(m->zone, "z1");
	CHECK_STR(m->region, "r1");
	CHECK_STR(m->fault, "on fire");
	assert_int_equal(m->power, CL_POWER_SUSPENDED);
	assert_int_equal(m->aliases.n, 2);
	CHECK_STR(m->aliases.items[1], "n1.example");
	assert_int_equal(m->n_addresses, 3);
	CHECK_STR(m->addresses[0].type, "ExternalIP");
	CHECK_STR(m->addresses[0].address, "10.0.0.1");
	CHECK_STR(m->addresses[1].address, "fd00::1");
	CHECK_STR(m->addresses[2].address, "N1");
	assert_int_equal(m->n_labels, 2);
	CHECK_STR(m->labels[0].key, "example.com/rack");
	CHECK_STR(m->labels[0].value, "r1");
	CHECK_STR(m->labels[1].value, "");
	CHECK_STR(m[1].zone, "z");
	CHECK_STR(m[1].region, "r");
	CHECK_STR(m[1].type, "");
	assert_int_equal(s->n_pools, 1);
	assert_int_equal(s->pools[0].addresses.n, 1);
	assert_int_equal(s->pools[0].addresses.items[0].last.bytes[15], 3);
	assert_true(s->pools[0].addresses.items[0].has_edges);
	assert_false(s->pools[0].avoids_edges);
	assert_int_equal(s->pools[0].namespaces.n, 2);
	assert_int_equal(s->pools[0].ip_mode, CL_IP_MODE_PROXY);
	CHECK_STR(s->pools[0].hostname_template, "{name}.lab");
	assert_true(s->balancers.is_present);
	CHECK_STR(s->balancers.hook, "/h");
	assert_int_equal(s->balancers.hook_timeout_ns, 60 * NS_PER_SEC);
	assert_true(s->routes.is_present);
	assert_int_equal(s->routes.n_fixed, 1);
	CHECK_STR(s->routes.fixed[0].target_node, "n2");
}

static void
has_defaults(void **state)
{
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *inventory = parse(STR(HEAD "machines: [{name: a, id: b}]"));
	const struct cl_schema *s = &inventory->schema;

	(void)state;
	assert_true(s->reload.is_enabled);
	assert_int_equal(s->reload.debounce_ns, 250 * NS_PER_MS);
	assert_int_equal(s->reload.poll_ns, 5 * NS_PER_SEC);
	assert_int_equal(s->reload.max_removal_percent, 50);
	assert_int_equal(s->cloud.unknown_machines, CL_UNKNOWN_ABSENT);
	assert_false(s->balancers.is_present);
	assert_false(s->routes.is_present);
	assert_int_equal(s->machines[0].power, CL_POWER_ON);
	assert_int_equal(s->machines[0].n_addresses, 0);
	CHECK_STR(s->machines[0].zone, "");
}

static int
power_of(const char *word)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1000);
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;

	buf_addf(&text, HEAD "machines: [{name: a, id: b, power: %s}]", word);
	inventory = parse(buf_str(&text));
	return inventory->schema.machines[0].power;
}

static void
reads_power_bare_and_quoted(void **state)
{
	(void)state;
	assert_int_equal(power_of("on"), CL_POWER_ON);
	assert_int_equal(power_of("'on'"), CL_POWER_ON);
	assert_int_equal(power_of("true"), CL_POWER_ON);
	assert_int_equal(power_of("On"), CL_POWER_ON);
	assert_int_equal(power_of("off"), CL_POWER_OFF);
	assert_int_equal(power_of("\"off\""), CL_POWER_OFF);
	assert_int_equal(power_of("false"), CL_POWER_OFF);
	assert_int_equal(power_of("suspended"), CL_POWER_SUSPENDED);
	assert_int_equal(power_of("'terminated'"), CL_POWER_TERMINATED);
	assert_int_equal(power_of("unknown"), CL_POWER_UNKNOWN);
}

static void
reads_json(void **state)
{
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *inventory = parse(
		STR("{\"apiVersion\": \"cloudlycke.io/v1alpha1\", \"kind\": \"Inventory\",\n"
	            "\t\"machines\": [{\"name\": \"a\", \"id\": \"b\", \"power\": \"off\"}]}"));

	(void)state;
	assert_int_equal(inventory->schema.machines[0].power, CL_POWER_OFF);
}

static const struct cl_machine *
find(struct cl_inventory *inventory, const char *name)
{
	CLEANUP(buf_fini) struct buf ids = BUF_INIT(1000);
	const struct cl_machine *machine = NULL;

	if (!cl_inventory_by_name(inventory, str_c(name), &machine, &ids))
		fail_msg("%s: %s", name, ids.ptr);
	return machine;
}

#define FINDING                                                                                                        \
	HEAD "machines:\n"                                                                                             \
	     "- {name: a, id: m-a, aliases: [alias-a], addresses: [{type: Hostname, address: host-a}]}\n"              \
	     "- {name: b, id: m-b, addresses: [{type: Hostname, address: a}, {type: Hostname, address: both}]}\n"      \
	     "- {name: c, id: m-c, addresses: [{type: Hostname, address: both}, {type: InternalDNS, address: dns}]}\n" \
	     "- {name: d, id: m-d, addresses: [{type: Hostname, address: both}, {type: Hostname, address: D}]}\n"

static void
finds_by_name_alias_and_host(void **state)
{
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = parse(STR(FINDING));
	const struct cl_machine *machines = inventory->schema.machines;

	(void)state;
	assert_ptr_equal(find(inventory, "a"), &machines[0]); /* though it is a Hostname of b */
	assert_ptr_equal(find(inventory, "alias-a"), &machines[0]);
	assert_ptr_equal(find(inventory, "host-a"), &machines[0]);
	assert_ptr_equal(find(inventory, "D"), &machines[3]);
	assert_null(find(inventory, "A"));
	assert_null(find(inventory, "dns"));
	assert_null(find(inventory, ""));
	assert_null(find(inventory, "m-a"));
}

static void
does_not_choose_among_several(void **state)
{
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = parse(STR(FINDING));
	CLEANUP(buf_fini) struct buf ids = BUF_INIT(1000);
	const struct cl_machine *machine = NULL;

	(void)state;
	assert_false(cl_inventory_by_name(inventory, STR("both"), &machine, &ids));
	assert_string_equal(ids.ptr, "m-b, m-c, m-d");
	assert_null(machine);
}

static void
finds_by_id_exactly(void **state)
{
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = parse(STR(FINDING));

	(void)state;
	assert_ptr_equal(map_get(&inventory->names.by_id, STR("m-b")),
	                 &inventory->schema.machines[1]);
	assert_null(map_get(&inventory->names.by_id, STR("m-B")));
	assert_null(map_get(&inventory->names.by_id, STR("m-")));
	assert_null(map_get(&inventory->names.by_id, STR("cloudlycke://m-b")));
}

static void
notices_how_the_file_ends(void **state)
{
	static const struct {
		struct str text;
		bool ends_with_line, ends_with_mark;
	} cases[] = {
		{ STR_INIT(HEAD "machines: []"), false, false },
		{ STR_INIT(HEAD "machines: []\n"), true, false },
		{ STR_INIT(HEAD "machines: []\n..."), false, true },
		{ STR_INIT(HEAD "machines: []\n...\n"), true, true },
		{ STR_INIT(HEAD "machines: []\n# ...\n"), true, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = parse(cases[i].text);

		assert_int_equal(inventory->ends_with_line, cases[i].ends_with_line);
		assert_int_equal(inventory->ends_with_mark, cases[i].ends_with_mark);
	}
}

static void
takes_the_example(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_INVENTORY_FILE);
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;
	struct error err;

	(void)state;
	if (!file_read("examples/cloudlycke/vagrant.yaml", &text, &err))
		fail_msg("%s", err.msg);
	inventory = parse(buf_str(&text));
	assert_int_equal(inventory->schema.n_machines, 2);
	CHECK_STR(cl_machine_provider_id(find(inventory, "node-c2-1")), "cloudlycke://n-c2-1");
	CHECK_STR(find(inventory, "node-c2-1")->type, "vbox.vm.1g.2cpu");
	CHECK_STR(find(inventory, "node-c2-1")->zone, "virtualbox");
	assert_int_equal(find(inventory, "master-c2-1")->n_addresses, 3);
}

/* An inventory of a large cluster: 5,000 machines, each with three addresses. */
static void
is_small(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_INVENTORY_FILE);
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;

	(void)state;
	buf_add_c(&text, HEAD "cloud: {region: r, zone: z}\nmachines:\n");
	for (int i = 0; i < 5000; i++)
		buf_addf(&text,
		         "- name: worker-%d\n  id: m-%d\n  type: small\n  addresses:\n"
		         "  - {type: InternalIP, address: 10.0.%d.%d}\n"
		         "  - {type: ExternalIP, address: 10.0.%d.%d}\n"
		         "  - {type: Hostname, address: worker-%d}\n",
		         i, i, i / 250, i % 250, i / 250, i % 250, i);
	inventory = parse(buf_str(&text));
	assert_true(inventory->arena.total < 5000 * 330);
	assert_int_equal(inventory->by_host.count, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_every_field),
		cmocka_unit_test(has_defaults),
		cmocka_unit_test(reads_power_bare_and_quoted),
		cmocka_unit_test(reads_json),
		cmocka_unit_test(finds_by_name_alias_and_host),
		cmocka_unit_test(does_not_choose_among_several),
		cmocka_unit_test(finds_by_id_exactly),
		cmocka_unit_test(notices_how_the_file_ends),
		cmocka_unit_test(takes_the_example),
		cmocka_unit_test(is_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
