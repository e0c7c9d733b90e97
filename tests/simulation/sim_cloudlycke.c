/* tests/simulation/sim_cloudlycke.c: machines in an inventory file, and load balancers by HAProxy;
 * see sim_cloud.h.
 *
 * There is no cloud to ask. The world writes the inventory, and each replica, which is on a host of
 * its own, writes the configuration of the HAProxy there: only that of the leader counts
 * (loadBalancers.localOnly). HAProxy itself is not run. What it would load is kept here, when ccmd
 * runs the command that reloads it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <fcntl.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "system.h"
#include "world.h"

#define PREFIX "cloudlycke://"
#define FOLDER "/proc/self/cwd" /* of this process alone, and the same text in each */
#define POOL "192.0.2."

enum {
	CONFIG_MAX = 1 << 20,
};

/* A machine in the inventory. */
static struct listed {
	int64_t number; /* of its ID; 0: it is not listed */
	char name[40], ip[20];
	bool is_off;
} listed[MAX_MACHINES];
static int64_t last_number;
static bool is_broken; /* the inventory is */
static bool check_fails, reload_fails;
static char folder[64];
/* What the HAProxy of each replica's host has loaded. */
static struct buf loaded[N_REPLICAS] = { BUF_INIT(CONFIG_MAX), BUF_INIT(CONFIG_MAX) };
/* The UIDs of the Services that it was loaded for: a restored Service may have the name of one. */
static struct buf loaded_for[N_REPLICAS] = { BUF_INIT(CONFIG_MAX), BUF_INIT(CONFIG_MAX) };

/* ---- files ---- */

/* Replaces the file. Its time is that of the world, and never that of a former content. */
static void
write_file(const char *name, struct str text)
{
	static int64_t last_ns;
	int64_t now_ns = WALL_START_NS + schedule_now_ns();
	struct timespec times[2];
	FILE *file = fopen("new", "w");

	last_ns = now_ns > last_ns ? now_ns : last_ns + 1;
	times[0] = times[1] = (struct timespec){ last_ns / NS_PER_SEC, last_ns % NS_PER_SEC };
	if (!file || fwrite(text.ptr, 1, text.len, file) != text.len || fclose(file) != 0 ||
	    utimensat(AT_FDCWD, "new", times, 0) != 0 || rename("new", name) != 0)
		fail("%s cannot be written", name);
}

static void
add_machines(struct buf *b)
{
	for (size_t i = 0; i < ARRAY_LEN(listed); i++) {
		const struct listed *m = &listed[i];

		if (m->number > 0)
			buf_addf(b,
			         "- {name: %s, id: id-%lld, type: small, power: %s, addresses: "
			         "[{type: InternalIP, address: %s}]}\n",
			         m->name, (long long)m->number, m->is_off ? "off" : "on", m->ip);
	}
}

static void
write_inventory(void)
{
	for (unsigned i = 0; i < N_REPLICAS; i++) {
		CLEANUP(buf_fini) struct buf b = BUF_INIT(CONFIG_MAX);
		char name[40];

		buf_add_c(&b, "apiVersion: cloudlycke.io/v1alpha1\nkind: Inventory\n"
		              "cloud: {region: lab, zone: lab-1}\n"
		              "reload: {enabled: true, maxRemoval: 100%}\n"
		              "addressPools:\n- {name: lab, addresses: [" POOL "16/28]}\n");
		buf_addf(&b,
		         "loadBalancers:\n  localOnly: true\n  haproxy: {file: " FOLDER
		         "/%s.cfg, reload: [reload]}\n",
		         replica_at(i)->name);
		buf_add_c(&b, "machines:\n");
		add_machines(&b);
		if (is_broken)
			buf_add_c(&b, "- {name: \n");
		snprintf(name, sizeof(name), "%s.yaml", replica_at(i)->name);
		write_file(name, buf_str(&b));
	}
}

/* ---- HAProxy ---- */

/* Does the configuration have a frontend for a Service? */
static bool
has_service(const struct buf *config, struct str service)
{
	char line[60], more[60];

	snprintf(line, sizeof(line), "\n# default/%" STR_FMT "\n", STR_ARG(service));
	snprintf(more, sizeof(more), "\n# default/%" STR_FMT ",", STR_ARG(service));
	return str_contains(buf_str(config), str_c(line)) ||
	       str_contains(buf_str(config), str_c(more));
}

static void
load(const struct replica *r)
{
	CLEANUP(buf_fini) struct buf before = BUF_INIT(CONFIG_MAX);
	char path[40];
	struct error err;

	buf_add_str(&before, buf_str(&loaded[r->index]));
	buf_reset(&loaded[r->index]);
	buf_reset(&loaded_for[r->index]);
	snprintf(path, sizeof(path), "%s.cfg", r->name);
	if (!file_read(path, &loaded[r->index], &err))
		fail("%s: HAProxy is reloaded without a configuration", r->name);
	for (size_t i = 0; i < kube_model_count(world.kube, KUBE_MODEL_SERVICE); i++) {
		const struct kube_model_object *o = kube_model_at(world.kube, KUBE_MODEL_SERVICE,
		                                                  i);

		if (!has_service(&loaded[r->index], o->name))
			continue;
		buf_add_str(&loaded_for[r->index], o->uid);
		if (!has_service(&before, o->name))
			checks_note_balancer(o->uid);
	}
}

/* The programs that ccmd runs. Returns the exit code. */
static int
run_program(const struct replica *r, const char *const argv[])
{
	bool is_check = strcmp(argv[0], "haproxy") == 0;
	bool has_failed = is_check ? check_fails : reload_fails;

	trace("%s runs %s%s", r->name, argv[0], has_failed ? ", which fails" : "");
	if (!is_check && !has_failed)
		load(r);
	return has_failed;
}

/* What the leader's HAProxy has of one of the two. NULL: nobody leads. */
static const struct buf *
of_leader(const struct buf of_replicas[N_REPLICAS])
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct str holder = world_holder(&arena);

	return holder.len == 0 ? NULL : &of_replicas[str_starts(holder, STR("b_")) ? 1 : 0];
}

/* ---- the beginning and the end ---- */

static struct server *
begin(uint64_t seed, struct rng *r)
{
	const char *below = getenv("TMPDIR");

	(void)seed;
	(void)r;
	(void)umask(S_IRWXG | S_IRWXO); /* as src/base/sandbox.c does */
	snprintf(folder, sizeof(folder), "%s/ccmd-inventory-XXXXXX",
	         below && strlen(below) < 30 ? below : "/tmp");
	if (!mkdtemp(folder) || chdir(folder) != 0)
		fail("%s cannot be made", folder);
	system_set_programs(run_program);
	write_inventory();
	return NULL;
}

static void
end(void)
{
	static const char *const names[] = { "a.yaml", "b.yaml",          "a.cfg",
		                             "b.cfg",  "a.cfg.unchecked", "b.cfg.unchecked" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		(void)unlink(names[i]);
	(void)rmdir(folder);
}

static void
configure(const struct replica *r, struct sim_start *start)
{
	static char arguments[N_REPLICAS][80];

	snprintf(arguments[r->index], sizeof(arguments[0]), "--cloud-config=" FOLDER "/%s.yaml",
	         r->name);
	sim_argument(start, arguments[r->index]);
}

static void
set_account(enum account account)
{
	(void)account; /* there are no credentials */
}

static void
release(void)
{
	/* nothing hangs */
}

static void
settle(void)
{
	is_broken = check_fails = reload_fails = false;
	write_inventory();
}

/* ---- machines ---- */

static struct listed *
listed_of(const struct machine *m)
{
	return &listed[m - world.machines];
}

static void
list_machine(struct machine *m, bool is_off)
{
	struct listed *l = listed_of(m);

	*l = (struct listed){ .number = ++last_number, .is_off = is_off };
	snprintf(l->name, sizeof(l->name), "%s", m->name);
	snprintf(l->ip, sizeof(l->ip), "%s", m->ip);
	m->server = l->number;
	snprintf(m->provider_id, sizeof(m->provider_id), PREFIX "id-%lld", (long long)l->number);
	write_inventory();
}

static bool
add_machine(struct machine *m)
{
	list_machine(m, false);
	return true;
}

static void
delete_machine(struct machine *m)
{
	struct listed *l = listed_of(m);

	evidence_gone(l->number, str_c(l->name));
	l->number = 0;
	write_inventory();
}

static bool
rebuild_machine(struct machine *m)
{
	list_machine(m, listed_of(m)->is_off);
	return true;
}

static void
rename_machine(struct machine *m)
{
	snprintf(listed_of(m)->name, sizeof(listed_of(m)->name), "%s-renamed", m->name);
	write_inventory();
}

static bool
is_running(const struct machine *m)
{
	return !listed_of(m)->is_off;
}

static const char *
switch_machine(struct machine *m)
{
	listed_of(m)->is_off = !listed_of(m)->is_off;
	write_inventory();
	return listed_of(m)->is_off ? "off" : "running";
}

static void
settle_machine(struct machine *m)
{
	listed_of(m)->is_off = false;
	snprintf(listed_of(m)->name, sizeof(listed_of(m)->name), "%s", m->name);
	write_inventory();
}

static int64_t
number_of(struct str id)
{
	int64_t number;

	if (!str_starts(id, STR(PREFIX "id-")) ||
	    !str_to_i64(str_skip(id, strlen(PREFIX "id-")), 1, INT64_MAX, &number))
		return 0;
	return number;
}

static bool
has_server(int64_t number, struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(listed); i++) {
		const struct listed *l = &listed[i];

		if (l->number > 0 && (number > 0 ? l->number == number : str_eq_c(name, l->name)))
			return true;
	}
	return false;
}

/* ---- load balancers ---- */

static size_t
count_balancers(const struct kube_model_object *service)
{
	const struct buf *services = of_leader(loaded_for);

	return services && str_contains(buf_str(services), service->uid);
}

/* Its frontends are those of its ports, and their servers are its nodes. */
static void
check_config(const struct kube_model_object *o, yyjson_val *service, struct str ip,
             const struct buf *config, struct buf *why)
{
	yyjson_val *one;
	size_t i, n;

	yyjson_arr_foreach(json_at(service, "spec.ports"), i, n, one)
	{
		int64_t port = 0, node_port = 0;
		char text[80];

		(void)json_i64(one, "port", &port);
		(void)json_i64(one, "nodePort", &node_port);
		snprintf(text, sizeof(text), "\tbind ipv4@%" STR_FMT ":%d transparent", STR_ARG(ip),
		         (int)port);
		if (!str_contains(buf_str(config), str_c(text)))
			buf_addf(why, "service %" STR_FMT ": port %d is not served. ",
			         STR_ARG(o->name), (int)port);
		for (size_t k = 0; k < world.n_machines; k++) {
			const struct machine *m = &world.machines[k];

			snprintf(text, sizeof(text), "\tserver %s ipv4@%s:%d\n", m->name, m->ip,
			         (int)node_port);
			if (str_contains(buf_str(config), str_c(text)) != world_is_target(m))
				buf_addf(why, "service %" STR_FMT ": %s is %s server. ",
				         STR_ARG(o->name), m->name,
				         world_is_target(m) ? "no" : "a");
		}
	}
}

static void
check_service(const struct kube_model_object *o, yyjson_val *service, struct buf *why)
{
	const struct buf *config = of_leader(loaded);
	yyjson_val *ingress = yyjson_arr_get_first(json_at(service, "status.loadBalancer.ingress"));
	struct str ip = json_view(ingress, "ip");

	if (!config) {
		buf_add_c(why, "nobody leads. ");
		return;
	}
	if (!service_is_ours(service)) {
		if (has_service(config, o->name) && !world.was_restored)
			buf_addf(why, "service %" STR_FMT " is served and wants nothing. ",
			         STR_ARG(o->name));
		return;
	}
	if (!str_starts(ip, STR(POOL)) || !has_service(config, o->name)) {
		buf_addf(why, "service %" STR_FMT " is not served: %" STR_FMT ". ",
		         STR_ARG(o->name), STR_ARG(ip));
		return;
	}
	for (size_t i = 0; i < kube_model_count(world.kube, KUBE_MODEL_SERVICE); i++) {
		const struct kube_model_object *other = kube_model_at(world.kube,
		                                                      KUBE_MODEL_SERVICE, i);
		char text[40];

		snprintf(text, sizeof(text), "\"%" STR_FMT "\"", STR_ARG(ip));
		if (other != o && str_contains(other->json, str_c(text)))
			buf_addf(why, "services %" STR_FMT " and %" STR_FMT " have one address. ",
			         STR_ARG(o->name), STR_ARG(other->name));
	}
	check_config(o, service, ip, config, why);
}

/* Each line "# default/NAME" is that of a Service. After a restore ccmd may not know of a Service.
 */
static void
check_rest(struct buf *why)
{
	const struct buf *config = of_leader(loaded);
	struct str rest = config ? buf_str(config) : STR("-"), line;

	while (!world.was_restored && str_split(&rest, '\n', &line)) {
		struct str name = line, port;

		if (!str_starts(line, STR("# default/")))
			continue;
		name = str_skip(line, strlen("# default/"));
		str_cut(name, ',', &name, &port);
		if (!kube_model_find(world.kube, KUBE_MODEL_SERVICE, STR("default"), name))
			buf_addf(why, "%" STR_FMT " is served and does not exist. ", STR_ARG(name));
	}
}

/* ---- events ---- */

void
sim_cloudlycke_breaks_inventory(struct rng *r)
{
	(void)r;
	is_broken = !is_broken;
	trace("the inventory is %s", is_broken ? "broken" : "right again");
	write_inventory();
}

void
sim_cloudlycke_fails_program(struct rng *r)
{
	bool *fails = rng_chance(r, 500) ? &check_fails : &reload_fails;

	*fails = !*fails;
	trace("HAProxy's %s %s", fails == &check_fails ? "check" : "reload",
	      *fails ? "fails" : "succeeds");
}

const struct sim_cloud sim_cloudlycke = {
	.name = "cloudlycke",
	.prefix = PREFIX,
	.bit = CLOUDLYCKE,
	.begin = begin,
	.end = end,
	.configure = configure,
	.set_account = set_account,
	.release = release,
	.settle = settle,
	.add_machine = add_machine,
	.delete_machine = delete_machine,
	.rebuild_machine = rebuild_machine,
	.rename_machine = rename_machine,
	.switch_machine = switch_machine,
	.settle_machine = settle_machine,
	.is_running = is_running,
	.number_of = number_of,
	.has_server = has_server,
	.count_balancers = count_balancers,
	.check_service = check_service,
	.check_rest = check_rest,
	.algorithm_key = "service.beta.kubernetes.io/cloudlycke-load-balancer-hostname",
	.algorithms = { "a.example.com", "b.example.com" },
};
