/* Every message of docs/cloudlycke.md, with its line and path. */
#include "providers/cloudlycke/reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "providers/cloudlycke/inventory.h"

#define HEAD "apiVersion: cloudlycke.io/v1alpha1\nkind: Inventory\n"

/* A file with HEAD, whose rest starts on line 3, has exactly this problem; NULL: none. */
static void
check_text(const char *text, const char *expected)
{
	CLEANUP(cl_problems_fini) struct cl_problems problems = CL_PROBLEMS_INIT("inventory.yaml");
	CLEANUP(cl_inventory_unrefp)
	struct cl_inventory *inventory = cl_inventory_parse(str_c(text), &problems);
	CLEANUP(buf_fini) struct buf all = BUF_INIT(100000);

	cl_problems_text(&problems, LIMIT_PROBLEMS, &all);
	assert_string_equal(all.ptr, expected ? expected : "");
	assert_int_equal(inventory != NULL, expected == NULL);
}

static void
check(const char *rest, const char *expected)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(100000);

	buf_addf(&text, HEAD "%s", rest);
	check_text(text.ptr, expected);
}

/* One machine from line 3, with `rest` as further fields from line 6. */
static void
check_machine(const char *rest, const char *expected)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(100000);

	buf_addf(&text, HEAD "machines:\n- name: n1\n  id: m-1\n%s", rest);
	check_text(text.ptr, expected);
}

/* A machine with an address, and pools from line 5. */
static void
check_pools(const char *pools, const char *expected)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(100000);

	buf_addf(
		&text,
		HEAD
		"machines: [{name: n1, id: m-1, addresses: [{type: InternalIP, address: 10.0.0.9}]}]\n"
		"addressPools:\n%s",
		pools);
	check_text(text.ptr, expected);
}

#define AT(line, rest) "inventory.yaml:" #line ": " rest

static void
the_file_as_a_whole(void **state)
{
	(void)state;
	check("machines: []", NULL);
	check_text("a: [", AT(2, "invalid YAML: did not find expected node content"));
	check_text("a: 1\nb: \"\n", AT(3, "invalid YAML: found unexpected end of stream"));
	check_text("", AT(1, "is empty; an inventory has apiVersion: cloudlycke.io/v1alpha1, kind: "
	                     "Inventory and a list of machines"));
	check_text("- a", AT(1, "expected map, got list"));
	check_text("a: &x 1\n", AT(1, "invalid YAML: anchors and aliases are not supported"));
	check_text(
		"apiVersion: cloudlycke.io/v2\nkind: Inventory\nmachines: []",
		AT(1,
	           "apiVersion: unsupported apiVersion \"cloudlycke.io/v2\" (want \"cloudlycke.io/v1alpha1\")"));
	check_text("apiVersion: cloudlycke.io/v1alpha1\nkind: Recipe\nmachines: []",
	           AT(2, "kind: unsupported kind \"Recipe\" (want \"Inventory\")"));
	check_text("\n\nmachines: []", AT(3, "apiVersion: required; ") AT(3, "kind: required"));
}

static void
fields(void **state)
{
	(void)state;
	check("machnies: []\nmachines: []",
	      AT(3, "unknown field \"machnies\"; did you mean \"machines\"?"));
	check("machines: []\nkind: Inventory", AT(4, "duplicate field \"kind\""));
	check("machines: []\nkind: x", AT(4, "duplicate field \"kind\""));
	check("cloud: {}", AT(1, "machines: required"));
	check("machines:\n", AT(3, "machines: required"));
	check("machines: [{name: n1}]", AT(3, "machines[0].id: required"));
	check("machines: [{id: m}]", AT(3, "machines[0].name: required"));
	check("machines: [{name: ~, id: m}]", AT(3, "machines[0].name: required"));
	check("machines:\n- 1", AT(4, "machines[0]: expected map, got number"));
	check_machine("  nam: x",
	              AT(6, "machines[0]: unknown field \"nam\"; did you mean \"name\"?"));
	check_machine("  \"a\\nb\": x", AT(6, "machines[0]: unknown field \"a\\nb\""));
	check_machine("  fault:\n  zone: ~\n", NULL);
}

static void
types(void **state)
{
	(void)state;
	check("machines: {}", AT(3, "machines: expected list, got map"));
	check("machines: no", AT(3, "machines: expected list, got string"));
	check("machines: []\ncloud: true", AT(4, "cloud: expected map, got boolean"));
	check("machines: []\ncloud: {zone: 3}", AT(4, "cloud.zone: expected string, got number"));
	check("machines: []\ncloud: {zone: [a]}", AT(4, "cloud.zone: expected string, got list"));
	check("machines: []\ncloud:\n  requireClusterID: on",
	      AT(5, "cloud.requireClusterID: expected boolean, got string"));
	check("machines: []\ncloud:\n  requireClusterID: 'true'",
	      AT(5, "cloud.requireClusterID: expected boolean, got string"));
	check("machines: []\nreload: {debounce: {}}",
	      AT(4, "reload.debounce: expected string, got map"));
	check("machines: []\nreload: {maxRemoval: 50}",
	      AT(4, "reload.maxRemoval: expected string, got number"));
	check("machines: []\ninstanceTypes: [{name: a, cpus: two}]",
	      AT(4, "instanceTypes[0].cpus: expected number, got string"));
	check_machine("  aliases: [a, ~]",
	              AT(6, "machines[0].aliases[1]: expected string, got null"));
	check_machine("  addresses: [x]",
	              AT(6, "machines[0].addresses[0]: expected map, got string"));
	check_machine("  labels: []", AT(6, "machines[0].labels: expected map, got list"));
	check_machine("  power: 1", AT(6, "machines[0].power: expected string, got number"));
}

static void
cloud(void **state)
{
	(void)state;
	check("machines: []\ncloud: {zone: a b}",
	      AT(4, "cloud.zone: \"a b\" is not a valid label value"));
	check("machines: []\ncloud: {region: -a}",
	      AT(4, "cloud.region: \"-a\" is not a valid label value"));
	check("machines: []\ncloud: {self: n1}", AT(4, "cloud.self: self \"n1\" is not a machine"));
	check("cloud: {self: n1, unknownMachines: error}\nmachines: [{name: n1, id: m}]", NULL);
	check("machines: []\ncloud: {unknownMachines: ignore}",
	      AT(4, "cloud.unknownMachines: \"ignore\" is not one of absent, error"));
}

static void
reload(void **state)
{
	(void)state;
	check("machines: []\nreload: {enabled: false, debounce: 0, poll: 0, maxRemoval: 100%}",
	      NULL);
	check("machines: []\nreload: {debounce: 5}",
	      AT(4, "reload.debounce: \"5\" is not a duration"));
	check("machines: []\nreload: {debounce: soon}",
	      AT(4, "reload.debounce: \"soon\" is not a duration"));
	check("machines: []\nreload: {debounce: 61s}",
	      AT(4, "reload.debounce: \"61s\" is not within 0s and 1m"));
	check("machines: []\nreload: {debounce: -1s}",
	      AT(4, "reload.debounce: \"-1s\" is not within 0s and 1m"));
	check("machines: []\nreload: {poll: 25h}",
	      AT(4, "reload.poll: \"25h\" is not within 0s and 24h"));
	check("machines: []\nreload: {maxRemoval: 101%}",
	      AT(4, "reload.maxRemoval: \"101%\" is not a percentage from 0% to 100%"));
	check("machines: []\nreload: {maxRemoval: half}",
	      AT(4, "reload.maxRemoval: \"half\" is not a percentage from 0% to 100%"));
}

static void
names_and_ids(void **state)
{
	(void)state;
	check("machines: [{name: N1, id: m}]",
	      AT(3, "machines[0].name: \"N1\" is not a valid node name"));
	check("machines: [{name: '', id: m}]",
	      AT(3, "machines[0].name: \"\" is not a valid node name"));
	check("machines: [{name: a..b, id: m}]",
	      AT(3, "machines[0].name: \"a..b\" is not a valid node name"));
	check("machines: [{name: n1, id: /m}]",
	      AT(3, "machines[0].id: \"/m\" is not a valid machine id"));
	check("machines: [{name: n1, id: 'm:1'}]",
	      AT(3, "machines[0].id: \"m:1\" is not a valid machine id"));
	check("machines: [{name: n1, id: rack-1/Slot_2.x}]", NULL);
	check_machine("  aliases: [a_b]",
	              AT(6, "machines[0].aliases[0]: \"a_b\" is not a valid node name"));
	check_machine("- name: n1\n  id: m-2",
	              AT(6, "machines[1].name: \"n1\" already used by machines[0]"));
	check_machine("- name: n2\n  id: m-2\n  aliases:\n  - n3\n  - n1",
	              AT(10, "machines[1].aliases[1]: \"n1\" already used by machines[0]"));
	check_machine("  aliases: [n1]",
	              AT(6, "machines[0].aliases[0]: \"n1\" already used by machines[0]"));
	check_machine("- name: n2\n  id: m-1",
	              AT(7, "machines[1].id: id \"m-1\" already used by machines[0]"));
}

static void
machine_values(void **state)
{
	(void)state;
	check_machine(
		"  power: running",
		AT(6,
	           "machines[0].power: \"running\" is not one of on, off, suspended, terminated, unknown"));
	check_machine(
		"  power: 'ON'",
		AT(6,
	           "machines[0].power: \"ON\" is not one of on, off, suspended, terminated, unknown"));
	check_machine("  type: a/b", AT(6, "machines[0].type: \"a/b\" is not a valid label value"));
	check_machine("  zone: a/b", AT(6, "machines[0].zone: \"a/b\" is not a valid label value"));
	check_machine("  type: small\ninstanceTypes: [{name: large}]",
	              AT(6, "machines[0].type: instance type \"small\" is not declared"));
	check_machine("  type: small\ninstanceTypes: []",
	              AT(6, "machines[0].type: instance type \"small\" is not declared"));
	check_machine("instanceTypes: [{name: large}]", NULL);
}

static void
instance_types(void **state)
{
	(void)state;
	check("machines: []\ninstanceTypes: [{name: a, cpus: 2, memory: 1Gi}, {name: b, memory: 1024}]",
	      NULL);
	check("machines: []\ninstanceTypes: [{cpus: 2}]", AT(4, "instanceTypes[0].name: required"));
	check("machines: []\ninstanceTypes:\n- name: a\n- name: a",
	      AT(6, "instanceTypes[1].name: \"a\" already used by instanceTypes[0]"));
	check("machines: []\ninstanceTypes: [{name: a, cpus: 0}]",
	      AT(4, "instanceTypes[0].cpus: \"0\" is not a whole number of at least 1"));
	check("machines: []\ninstanceTypes: [{name: a, cpus: 1.5}]",
	      AT(4, "instanceTypes[0].cpus: \"1.5\" is not a whole number of at least 1"));
	check("machines: []\ninstanceTypes: [{name: a, memory: 1Gib}]",
	      AT(4, "instanceTypes[0].memory: \"1Gib\" is not a quantity"));
	check("machines: []\ninstanceTypes: [{name: a, memory: 1.5Gi}]", NULL);
	check("machines: []\ninstanceTypes: [{name: a, memory: Gi}]",
	      AT(4, "instanceTypes[0].memory: \"Gi\" is not a quantity"));
}

static void
addresses(void **state)
{
	(void)state;
	check_machine(
		"  addresses:\n  - {type: InternalIP, address: 192.168.20.1}\n"
		"  - {type: InternalIP, address: 192.168.20.300}",
		AT(8, "machines[0].addresses[1].address: \"192.168.20.300\" is not an IP address"));
	check_machine("  addresses: [{type: ExternalIP, address: host}]",
	              AT(6, "machines[0].addresses[0].address: \"host\" is not an IP address"));
	check_machine(
		"  addresses: [{type: Public, address: 10.0.0.1}]",
		AT(6,
	           "machines[0].addresses[0].type: \"Public\" is not one of Hostname, InternalIP, "
	           "ExternalIP, InternalDNS, ExternalDNS"));
	check_machine("  addresses: [{type: Hostname, address: a b}]",
	              AT(6, "machines[0].addresses[0].address: \"a b\" is not a DNS name"));
	check_machine("  addresses: [{type: InternalDNS, address: ''}]",
	              AT(6, "machines[0].addresses[0].address: \"\" is not a DNS name"));
	check_machine("  addresses: [{type: ExternalDNS, address: a..b}]",
	              AT(6, "machines[0].addresses[0].address: \"a..b\" is not a DNS name"));
	check_machine("  addresses: [{type: Hostname}]",
	              AT(6, "machines[0].addresses[0].address: required"));
	check_machine("  addresses:\n  - {type: InternalIP, address: 'fd00::1'}\n"
	              "  - {type: InternalIP, address: 'FD00:0::1'}",
	              AT(8, "machines[0].addresses[1]: duplicate InternalIP \"fd00::1\""));
	check_machine(
		"  addresses: [{type: InternalIP, address: 10.0.0.1}, {type: ExternalIP, address: 10.0.0.1}]",
		NULL);
	check_machine("  addresses: [{type: Hostname, address: Node_1.lab}]", NULL);
}

static void
labels(void **state)
{
	(void)state;
	check_machine("  labels: {example.com/rack: r1, rack: '', node.kubernetes.io/lab: x}",
	              NULL);
	check_machine("  labels:\n    a/b/c: x",
	              AT(7, "machines[0].labels: \"a/b/c\" is not a valid label key"));
	check_machine("  labels: {'': x}",
	              AT(6, "machines[0].labels: \"\" is not a valid label key"));
	check_machine(
		"  labels: {example.com/rack: a b}",
		AT(6, "machines[0].labels.example.com/rack: \"a b\" is not a valid label value"));
	check_machine("  labels: {rack: 7}",
	              AT(6, "machines[0].labels.rack: expected string, got number"));
	check_machine("  labels:\n    rack: a\n    rack: b",
	              AT(8, "machines[0].labels: duplicate field \"rack\""));
	check_machine("  labels: {kubernetes.io/os: x}",
	              AT(6, "machines[0].labels: label \"kubernetes.io/os\" is reserved"));
	check_machine("  labels: {topology.kubernetes.io/zone: x}",
	              AT(6,
	                 "machines[0].labels: label \"topology.kubernetes.io/zone\" is reserved"));
	check_machine("  labels: {k8s.io/x: x}",
	              AT(6, "machines[0].labels: label \"k8s.io/x\" is reserved"));
	check_machine(
		"  labels: {node.kubernetes.io/instance-type: x}",
		AT(6,
	           "machines[0].labels: label \"node.kubernetes.io/instance-type\" is reserved"));
	check_machine("  labels: {notkubernetes.io/x: x}", NULL);
}

static void
pool_fields(void **state)
{
	(void)state;
	check_pools(
		"- {name: a, addresses: [10.1.0.1, 10.1.1.0/24, 'fd00::1-fd00::ff', 10.1.2.1 - 10.1.2.9], avoid: "
		"[10.1.1.7], avoidEdges: false, default: true, namespaces: [x], hostnameTemplate: "
		"'{name}.{namespace}.lab', ipMode: Proxy}",
		NULL);
	check_pools("- {addresses: [10.1.0.1]}", AT(5, "addressPools[0].name: required"));
	check_pools("- {name: a}", AT(5, "addressPools[0].addresses: required"));
	check_pools("- {name: a, addresses: []}", AT(5, "addressPools[0].addresses: required"));
	check_pools("- {name: a.b, addresses: [10.1.0.1]}",
	            AT(5, "addressPools[0].name: \"a.b\" is not a valid pool name"));
	check_pools("- {name: a, addresses: [10.1.0.1]}\n- {name: a, addresses: [10.1.0.2]}",
	            AT(6, "addressPools[1].name: \"a\" already used by addressPools[0]"));
	check_pools("- {name: a, addresses: [10.1.0.1], default: true}\n"
	            "- {name: b, addresses: [10.1.0.2], default: true}",
	            AT(6,
	               "addressPools[1].default: pool \"b\": another pool is already the default"));
	check_pools("- {name: a, addresses: [10.1.0.1], namespaces: [B]}",
	            AT(5, "addressPools[0].namespaces[0]: \"B\" is not a valid namespace"));
	check_pools(
		"- {name: a, addresses: [10.1.0.1], hostnameTemplate: '{uid}.lab'}",
		AT(5,
	           "addressPools[0].hostnameTemplate: \"{uid}.lab\" is not a valid hostname template"));
	check_pools("- {name: a, addresses: [10.1.0.1], ipMode: vip}",
	            AT(5, "addressPools[0].ipMode: \"vip\" is not one of VIP, Proxy"));
}

static void
pool_addresses(void **state)
{
	(void)state;
	check_pools(
		"- name: a\n  addresses:\n  - 10.1.0.1\n  - 10.1.0\n",
		AT(8, "addressPools[0].addresses[1]: \"10.1.0\" is not an address, range or CIDR"));
	check_pools("- {name: a, addresses: [10.1.0.1], avoid: [x]}",
	            AT(5, "addressPools[0].avoid[0]: \"x\" is not an address, range or CIDR"));
	check_pools("- {name: a, addresses: [10.1.0.9-10.1.0.1]}",
	            AT(5,
	               "addressPools[0].addresses[0]: range \"10.1.0.9-10.1.0.1\" is descending"));
	check_pools(
		"- {name: a, addresses: ['10.1.0.9-fd00::1']}",
		AT(5,
	           "addressPools[0].addresses[0]: range \"10.1.0.9-fd00::1\" mixes address families"));
	check_pools("- {name: a, addresses: [11.0.0.0/12]}", NULL);
	check_pools("- {name: a, addresses: [11.0.0.0/12, 12.0.0.0]}",
	            AT(5, "addressPools[0]: pool \"a\" holds more than 1048576 IPv4 addresses"));
	check_pools("- {name: a, addresses: ['fd00::/8']}", NULL);
}

static void
pools_that_overlap(void **state)
{
	(void)state;
	check_pools(
		"- {name: a, addresses: [10.1.0.0/24]}\n- name: b\n  addresses:\n  - 10.1.1.1\n  - 10.1.0.200-10.1.1.0",
		AT(9,
	           "addressPools[1].addresses[1]: pool \"b\" overlaps pool \"a\" at 10.1.0.200"));
	check_pools(
		"- {name: a, addresses: ['fd00::-fd00::5']}\n- {name: b, addresses: ['fd00::5/128']}",
		AT(6, "addressPools[1].addresses[0]: pool \"b\" overlaps pool \"a\" at fd00::5"));
	check_pools(
		"- {name: a, addresses: [10.1.0.0-10.1.0.5]}\n- {name: b, addresses: [10.1.0.6]}",
		NULL);
	/* within one pool it does no harm */
	check_pools("- {name: a, addresses: [10.1.0.0/24, 10.1.0.7]}", NULL);
	/* the block that ends last is not the one that overlaps */
	check_pools(
		"- {name: a, addresses: [10.1.0.0/24]}\n"
		"- {name: b, addresses: [10.2.0.0/24]}\n"
		"- {name: c, addresses: [10.1.0.128-10.2.0.0]}",
		AT(6, "addressPools[1].addresses[0]: pool \"b\" overlaps pool \"c\" at 10.2.0.0; ") AT(
			7,
			"addressPools[2].addresses[0]: pool \"c\" overlaps pool \"a\" at 10.1.0.128"));
	check_pools(
		"- {name: a, addresses: [10.1.0.0-10.1.0.50, 10.1.0.20-10.1.0.90]}\n"
		"- {name: b, addresses: [10.1.0.40]}",
		AT(6, "addressPools[1].addresses[0]: pool \"b\" overlaps pool \"a\" at 10.1.0.40"));
	/* so does a block behind one of its own pool that reaches further */
	check_pools(
		"- {name: a, addresses: [10.1.0.0-10.1.0.100]}\n"
		"- {name: b, addresses: [10.1.0.50-10.1.0.200, 10.1.0.60-10.1.0.70]}",
		AT(6, "addressPools[1].addresses[0]: pool \"b\" overlaps pool \"a\" at 10.1.0.50; ") AT(
			6,
			"addressPools[1].addresses[1]: pool \"b\" overlaps pool \"a\" at 10.1.0.60"));
}

static void
pools_with_the_address_of_a_machine(void **state)
{
	(void)state;
	check_pools("- {name: a, addresses: [10.1.0.1, 10.0.0.0/24]}",
	            AT(5,
	               "addressPools[0].addresses[1]: address 10.0.0.9 belongs to machine \"n1\""));
	check_pools("- {name: a, addresses: [10.0.0.0/24], avoid: [10.0.0.5-10.0.0.10]}", NULL);
	check_pools("- {name: a, addresses: [10.0.0.10]}", NULL);
	check_pools("- {name: a, addresses: [10.0.0.9]}",
	            AT(5,
	               "addressPools[0].addresses[0]: address 10.0.0.9 belongs to machine \"n1\""));
	/* the edge of a network */
	check("machines: [{name: n1, id: m-1, addresses: [{type: InternalIP, address: 10.0.0.0}]}]\n"
	      "addressPools: [{name: a, addresses: [10.0.0.0/30]}]",
	      NULL);
	check("machines: [{name: n1, id: m-1, addresses: [{type: InternalIP, address: 10.0.0.0}]}]\n"
	      "addressPools: [{name: a, addresses: [10.0.0.0/31]}]",
	      AT(4, "addressPools[0].addresses[0]: address 10.0.0.0 belongs to machine \"n1\""));
}

static void
balancers_and_routes(void **state)
{
	(void)state;
	check("machines: []\nloadBalancers: {}\nroutes: {}", NULL);
	check("machines: []\nloadBalancers: {hook: /bin/true, hookTimeout: 5s, class: x}", NULL);
	check("machines: []\nloadBalancers: {hook: bin/true}",
	      AT(4, "loadBalancers.hook: hook \"bin/true\" is not an absolute path"));
	check("machines: []\nloadBalancers: {hookTimeout: 0}",
	      AT(4, "loadBalancers.hookTimeout: \"0\" is not within 1ms and 1h"));
	check("machines: []\nroutes: {hook: ''}",
	      AT(4, "routes.hook: hook \"\" is not an absolute path"));
	check_machine(
		"routes: {static: [{name: r, targetNode: n1, destinationCIDR: 10.244.1.0/24}]}",
		NULL);
	check_machine(
		"routes: {static: [{name: r, targetNode: n2, destinationCIDR: 10.244.1.0/24}]}",
		AT(6, "routes.static[0].targetNode: target node \"n2\" is not a machine"));
	check_machine("routes: {static: [{name: r, targetNode: n1, destinationCIDR: 10.244.1.0}]}",
	              AT(6, "routes.static[0].destinationCIDR: \"10.244.1.0\" is not a CIDR"));
	check_machine(
		"routes: {static: [{name: r, targetNode: n1, destinationCIDR: 10.244.1.1/24}]}",
		AT(6,
	           "routes.static[0].destinationCIDR: destination \"10.244.1.1/24\" has host bits set"));
	check_machine("routes: {static: [{targetNode: n1, destinationCIDR: 10.244.1.0/24}]}",
	              AT(6, "routes.static[0].name: required"));
	check_machine(
		"routes:\n  static:\n  - {name: r, targetNode: n1, destinationCIDR: 10.244.1.0/24}\n"
		"  - {name: r, targetNode: n1, destinationCIDR: 10.244.2.0/24}",
		AT(9, "routes.static[1].name: \"r\" already used by routes.static[0]"));
	check_machine(
		"routes:\n  static:\n  - {name: r, targetNode: n1, destinationCIDR: 10.244.1.0/24}\n"
		"  - {name: s, targetNode: n1, destinationCIDR: 010.244.1.0/24}",
		AT(9,
	           "routes.static[1].destinationCIDR: destination \"010.244.1.0/24\" is already routed to \"n1\""));
}

/* Sorted by line, whatever the order in which the parts are read. */
static void
the_first_twenty_problems_are_shown(void **state)
{
	CLEANUP(cl_problems_fini) struct cl_problems problems = CL_PROBLEMS_INIT("f");
	CLEANUP(buf_fini) struct buf text = BUF_INIT(100000), shown = BUF_INIT(100000);

	(void)state;
	buf_add_c(&text, "routes: 1\nreload: 1\n" HEAD "machines:\n");
	for (int i = 0; i < 30; i++)
		buf_add_c(&text, "- 1\n");
	assert_null(cl_inventory_parse(buf_str(&text), &problems));
	assert_int_equal(problems.n, 32);
	assert_int_equal(problems.n_kept, LIMIT_PROBLEMS);
	for (int i = 0; i < LIMIT_PROBLEMS; i++)
		assert_int_equal(problems.kept[i].line, i < 2 ? i + 1 : i + 4);
	cl_problems_text(&problems, LIMIT_PROBLEMS, &shown);
	assert_true(str_starts(buf_str(&shown),
	                       STR("f:1: routes: expected map, got number; f:2: reload: ")));
	assert_true(str_ends(buf_str(&shown),
	                     STR("; f:23: machines[17]: expected map, got number (and 12 more)")));
	buf_reset(&shown);
	cl_problems_text(&problems, 1, &shown);
	assert_string_equal(shown.ptr, "f:1: routes: expected map, got number (and 31 more)");
}

static void
foreign_text_is_quoted_and_cut(void **state)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(100000), expected = BUF_INIT(100000);

	(void)state;
	check("machines: [{name: \"a\\n\\\"\\\\\\x01\\x7f\\u0085\\u00e5\", id: m}]",
	      AT(3,
	         "machines[0].name: \"a\\n\\\"\\\\\\x01\\x7f\\u0085å\" is not a valid node name"));
	buf_add_c(&text, "machines: [{id: m, name: ");
	buf_add_c(&expected, AT(3, "machines[0].name: \""));
	for (int i = 0; i < 1000; i++) {
		buf_add_char(&text, 'a');
		if (i < 300)
			buf_add_char(&expected, 'a');
	}
	buf_add_c(&text, "}]");
	buf_add_c(&expected, "…\" is not a valid node name");
	check(text.ptr, expected.ptr);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_file_as_a_whole),
		cmocka_unit_test(fields),
		cmocka_unit_test(types),
		cmocka_unit_test(cloud),
		cmocka_unit_test(reload),
		cmocka_unit_test(names_and_ids),
		cmocka_unit_test(machine_values),
		cmocka_unit_test(instance_types),
		cmocka_unit_test(addresses),
		cmocka_unit_test(labels),
		cmocka_unit_test(pool_fields),
		cmocka_unit_test(pool_addresses),
		cmocka_unit_test(pools_that_overlap),
		cmocka_unit_test(pools_with_the_address_of_a_machine),
		cmocka_unit_test(balancers_and_routes),
		cmocka_unit_test(the_first_twenty_problems_are_shown),
		cmocka_unit_test(foreign_text_is_quoted_and_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
