/* tests/simulation/growth.c: see growth.h.
 *
 * Two replicas run in the world of the histories, without faults. A world has phases: for example,
 * all nodes are initialised, then an hour passes, then the other replica takes over. For each phase
 * the requests, the allocations and the steps of both replicas are counted. A step is a turn of a
 * thread, from one wait to the next, so no figure depends on the machine.
 *
 * What a phase costs for one further object is the difference to the same phase of the next smaller
 * world, divided by the difference of their sizes. So what every world costs once does not count.
 * The smallest world has BASE objects. From the second size to the third, and so on, the cost may
 * be at most MAX_CHANGE per cent higher or lower than from the first to the second; what may be
 * lower, and why, is in the table `falling`. It may be at most MAX_CHANGE per cent higher than from
 * BASE to the first size.
 *
 * The world "week" is small, and things come and go in it. Each night nothing happens for two
 * hours, and the cluster is as in the night before. Then the leader must have as much memory, as
 * many blocks of it, and as many descriptors as before. */
#include "growth.h"

#include <dirent.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "heap.h"
#include "system.h"
#include "world.h"

enum {
	MAX_SIZES = 8,
	MAX_PHASES = 8,
	KEPT_CHANGES = 20000, /* of the API server's history */
	MAX_MINUTES = 24 * 60,
	SETTLE_S = 60,
	RATE_LIMIT = 720000, /* requests an hour: the cloud is not what limits */
	PAGE = 50,           /* of the cloud's lists */
	BASE = 50,
	MAX_CHANGE = 10,   /* per cent */
	NODE_BYTES = 2580, /* at most, of each node: 160 MiB for 65,000 */
	DAYS = 7,
	CHURN_NODES = 20, /* in the nights of the week */
	MAX_MACHINES_OF_WEEK = 30,
	/* bytes: objects are in chunks of 64 KiB (src/base/pool.c), one more or less each night */
	MAX_NIGHTLY_GROWTH = 80 << 10,
};

#define UNINITIALISED STR("node.cloudprovider.kubernetes.io/uninitialized")
#define HOUR_NS (60 * MINUTE_NS)
#define AN_HOUR "an hour"
#define WITH_HEARTBEATS AN_HOUR ", with a heartbeat each"

/* What both replicas have done. */
struct counts {
	double kube, events,
		cloud; /* requests; without those for the leader's Lease, and watches */
	double allocations, steps;
};

struct phase {
	const char *name;
	struct counts counts;
	double most_bytes, bytes; /* of the leader, at most and at the end */
	double blocks, descriptors;
};

struct result {
	struct phase phases[MAX_PHASES];
	size_t n_phases;
	double cpu_s;
	char failure[500]; /* empty: none */
};

static struct counts requests; /* the first three */

/* ---- counting ---- */

static void
on_arrived(const struct net_request *n)
{
	struct str target = n->request->target;

	if (n->host == HOST_CLOUD)
		requests.cloud++;
	else if (str_contains(target, STR("/events")))
		requests.events++;
	else if (!str_contains(target, STR("/namespaces/kube-system/leases")) &&
	         !str_contains(target, STR("watch=")))
		requests.kube++;
}

/* 404: the Lease does not exist yet. */
static void
on_acted(const struct net_request *n, const struct server_response *r)
{
	if (r->status >= 400 && r->status != 404)
		fail("%s %" STR_FMT " = %d", n->request->method, STR_ARG(n->request->target),
		     r->status);
}

static struct counts
count_all(void)
{
	struct counts c = requests;

	for (unsigned i = 0; i < N_REPLICAS; i++) {
		c.allocations += (double)system_n_allocations(i);
		c.steps += (double)replica_at(i)->n_steps;
	}
	return c;
}

static struct counts
subtract(struct counts a, struct counts b)
{
	return (struct counts){ a.kube - b.kube, a.events - b.events, a.cloud - b.cloud,
		                a.allocations - b.allocations, a.steps - b.steps };
}

/* The standby has fewer bytes. */
static unsigned
leader(void)
{
	return system_n_bytes(0) > system_n_bytes(1) ? 0 : 1;
}

static double
count_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	double n = 0;

	while (folder && readdir(folder))
		n++;
	if (folder)
		closedir(folder);
	return n;
}

/* Everything from now on belongs to the next phase. */
static struct counts before_phase;

static void
begin_phase(void)
{
	before_phase = count_all();
	for (unsigned i = 0; i < N_REPLICAS; i++)
		system_forget_max(i);
}

static void
end_phase(struct result *ret, const char *name)
{
	size_t a = system_max_bytes(0), b = system_max_bytes(1);

	ret->phases[ret->n_phases++] = (struct phase){
		.name = name,
		.counts = subtract(count_all(), before_phase),
		.most_bytes = (double)(a > b ? a : b),
		.bytes = (double)system_n_bytes(leader()),
		.blocks = (double)system_n_blocks(leader()),
		.descriptors = count_descriptors(),
	};
	begin_phase();
}

/* ---- phases ---- */

static void
tick_compaction(void *arg)
{
	(void)arg;
	kube_model_compact(world.kube, kube_model_version(world.kube) - KEPT_CHANGES);
	schedule_at(schedule_now_ns() + 10 * NS_PER_SEC, tick_compaction, NULL);
}

static void
run_for(int64_t ns)
{
	schedule_run_until(schedule_now_ns() + ns);
}

static void
run_until(bool (*is_done)(void), const char *what)
{
	int64_t end_ns = schedule_now_ns() + MAX_MINUTES * MINUTE_NS;

	while (!is_done() && !failure() && schedule_now_ns() < end_ns)
		run_for(NS_PER_SEC);
	if (!is_done())
		fail("%s: not in %d minutes", what, MAX_MINUTES);
	run_for(SETTLE_S * NS_PER_SEC);
}

/* Is each object as wanted? Those that were are not looked at again. */
static bool
are_all(enum kube_model_kind kind, bool (*is_wanted)(const struct kube_model_object *))
{
	static size_t n_seen[KUBE_MODEL_N_KINDS];

	while (n_seen[kind] < kube_model_count(world.kube, kind) &&
	       is_wanted(kube_model_at(world.kube, kind, n_seen[kind])))
		n_seen[kind]++;
	return n_seen[kind] == kube_model_count(world.kube, kind);
}

static bool
is_initialised(const struct kube_model_object *node)
{
	return !str_contains(node->json, UNINITIALISED);
}

static bool
are_initialised(void)
{
	return are_all(KUBE_MODEL_NODE, is_initialised);
}

static bool
has_address(const struct kube_model_object *service)
{
	return str_contains(service->json, STR("\"ingress\":[{\"ip\""));
}

static bool
have_addresses(void)
{
	return are_all(KUBE_MODEL_SERVICE, has_address);
}

static bool
has_leader(void)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;

	return world_holder(&arena).len > 0;
}

static void
add_nodes(size_t n)
{
	for (size_t i = 0; i < n; i++) {
		world_add_machine();
		machine_join(&world.machines[world.n_machines - 1]);
		if (i % KEPT_CHANGES == 0)
			kube_model_compact(world.kube, kube_model_version(world.kube));
	}
	kube_model_compact(world.kube, kube_model_version(world.kube));
}

/* The kubelets write the status of their Nodes, evenly within five minutes. */
static void
heartbeat_all(void)
{
	size_t done = 0;

	for (size_t second = 1; second <= 300; second++) {
		size_t end = world.n_machines * second / 300;

		for (; done < end; done++)
			(void)kube_model_set_ready(world.kube, str_c(world.machines[done].name),
			                           "True");
		net_arm(HOST_KUBE);
		run_for(NS_PER_SEC);
		net_advance(HOST_KUBE);
	}
}

static void
take_over(void)
{
	replica_signal(replica_at(leader()), SIGTERM);
	run_for(10 * NS_PER_SEC);
	run_until(has_leader, "another leader");
	run_for(150 * NS_PER_SEC); /* one list of the cloud may take so long, the next one follows
	                              later */
}

/* ---- worlds ---- */

static void
begin_cluster(size_t n_strangers, size_t n_nodes)
{
	world_begin_calm(n_strangers + n_nodes,
	                 &(struct net_hooks){ .arrived = on_arrived, .acted = on_acted });
	hetzner_set_rate_limit(world.cloud, world.project, RATE_LIMIT);
	for (size_t i = 0; i < n_strangers; i++)
		world_add_machine();
	add_nodes(n_nodes);
	tick_compaction(NULL);
	begin_phase();
}

static void
run_nodes(size_t n, struct result *ret)
{
	begin_cluster(0, n);
	run_until(has_leader, "a leader");
	run_until(are_initialised, "all nodes are initialised");
	end_phase(ret, "all are initialised");
	heartbeat_all();
	run_for(55 * MINUTE_NS);
	end_phase(ret, WITH_HEARTBEATS);
	take_over();
	end_phase(ret, "the other replica takes over");
}

static void
add_service(size_t number)
{
	char body[600];

	snprintf(body, sizeof(body),
	         "{\"kind\":\"Service\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"s%06zu\","
	         "\"annotations\":{\"load-balancer.hetzner.cloud/type\":\"lb31\"}},\"spec\":{"
	         "\"type\":\"LoadBalancer\",\"ports\":[{\"name\":\"http\",\"protocol\":\"TCP\","
	         "\"port\":80,\"targetPort\":80}]}}",
	         number);
	if (kube_model_request(world.kube,
	                       &(struct kube_model_request){
				       .user_agent = "user",
				       .method = "POST",
				       .target = "/api/v1/namespaces/default/services",
				       .body = str_c(body) },
	                       NULL) != 201)
		fail("service %zu cannot be created", number);
}

static void
run_services(size_t n, struct result *ret)
{
	begin_cluster(0, 100);
	run_until(has_leader, "a leader");
	run_until(are_initialised, "all nodes are initialised");
	begin_phase();
	net_advance(HOST_KUBE);
	for (size_t i = 0; i < n; i++)
		add_service(i);
	net_arm(HOST_KUBE);
	run_until(have_addresses, "all Services have an address");
	end_phase(ret, "all have an address");
	run_for(HOUR_NS);
	end_phase(ret, AN_HOUR);
	take_over();
	end_phase(ret, "the other replica takes over");
}

/* Most servers of the project are not in the cluster. */
static void
run_servers(size_t n, struct result *ret)
{
	begin_cluster(n, 100);
	run_until(has_leader, "a leader");
	run_until(are_initialised, "all nodes are initialised");
	end_phase(ret, "all nodes are initialised");
	run_for(HOUR_NS);
	end_phase(ret, AN_HOUR);
	take_over();
	end_phase(ret, "the other replica takes over");
}

/* ---- the week ---- */

static bool is_churning;

static void
on_arrived_in_week(const struct net_request *n)
{
	checks_arrived(n);
	on_arrived(n);
}

static void
on_acted_in_week(const struct net_request *n, const struct server_response *r)
{
	checks_acted(n, r);
	evidence_acted(n, r);
	bounds_acted(n, r);
}

/* The places of machines whose Nodes are gone are used again. */
static void
forget_machines(void)
{
	for (size_t i = world.n_machines; i-- > 1;) {
		if (world.machines[i].server == 0 && !machine_node(&world.machines[i]))
			world.machines[i] = world.machines[--world.n_machines];
	}
}

static void
tick_churn(void *arg)
{
	struct rng *r = arg;

	if (is_churning) {
		net_advance(HOST_KUBE);
		net_advance(HOST_CLOUD);
		forget_machines();
		history_churn(r);
		net_arm(HOST_KUBE);
		net_arm(HOST_CLOUD);
	}
	schedule_at(schedule_now_ns() + 5 * MINUTE_NS, tick_churn, r);
}

/* The cluster becomes as it is every night: no Service, and CHURN_NODES machines. */
static void
go_to_bed(void)
{
	net_advance(HOST_KUBE);
	net_advance(HOST_CLOUD);
	for (size_t i = kube_model_count(world.kube, KUBE_MODEL_SERVICE); i-- > 0;)
		(void)kube_model_delete(world.kube, "user",
		                        kube_model_at(world.kube, KUBE_MODEL_SERVICE, i));
	for (size_t i = world.n_machines; i-- > CHURN_NODES;) {
		if (machine_server(&world.machines[i]))
			hetzner_delete_server(world.cloud, world.project,
			                      machine_server(&world.machines[i]));
		world.machines[i].server = 0;
	}
	net_arm(HOST_KUBE);
	net_arm(HOST_CLOUD);
	run_for(HOUR_NS);
	forget_machines();
	while (world.n_machines < CHURN_NODES)
		world_add_machine();
	run_for(3 * HOUR_NS);
}

/* A request that is under way takes memory, so the lowest of several values counts. */
static void
end_night(struct result *ret, const char *name)
{
	struct phase *p = &ret->phases[ret->n_phases];

	end_phase(ret, name);
	for (int i = 0; i < 10; i++) {
		run_for(30 * NS_PER_SEC);
		if ((double)system_n_bytes(leader()) < p->bytes)
			p->bytes = (double)system_n_bytes(leader());
		if ((double)system_n_blocks(leader()) < p->blocks)
			p->blocks = (double)system_n_blocks(leader());
	}
}

static void
run_day(int day)
{
	is_churning = true;
	run_for(8 * HOUR_NS);
	/* the cloud does not know the token for two minutes, and then both know another one */
	world.n_events++;
	world.sim->set_account(ACCOUNT_REFUSED);
	run_for(2 * MINUTE_NS);
	world.sim->set_account(ACCOUNT_OWN);
	run_for(6 * HOUR_NS);
	if (day < DAYS / 2) {
		world.n_events++;
		take_over();
	}
	run_for(6 * HOUR_NS);
	is_churning = false;
	go_to_bed();
}

static void
run_week(size_t n, struct result *ret)
{
	static const char *const names[DAYS] = { "Monday", "Tuesday",  "Wednesday", "Thursday",
		                                 "Friday", "Saturday", "Sunday" };
	struct rng r = rng_of(1, "churn", 0);

	world_begin_calm(MAX_MACHINES_OF_WEEK,
	                 &(struct net_hooks){ .arrived = on_arrived_in_week,
	                                      .acted = on_acted_in_week,
	                                      .delivered = election_delivered });
	checks_begin();
	for (size_t i = 0; i < CHURN_NODES; i++)
		world_add_machine();
	world_run_actors();
	tick_compaction(NULL);
	tick_churn(&r);
	run_until(has_leader, "a leader");
	run_until(are_initialised, "all nodes are initialised");
	begin_phase();
	for (int day = 0; day < (int)n && day < DAYS && !failure(); day++) {
		run_day(day);
		end_night(ret, names[day]);
	}
}

static const struct kind {
	const char *name, *object; /* object NULL: the figures are not those of one */
	void (*run)(size_t n, struct result *ret);
	const char *sizes;
} kinds[] = {
	{ "nodes", "node", run_nodes, "1000,5000,20000,65000" },
	{ "services", "Service", run_services, "1000,4000,10000" },
	{ "servers", "server", run_servers, "1000,2500,4500,10000" },
	{ "week", NULL, run_week, "7" },
};

/* ---- each in a process ---- */

static void
run_child(const struct kind *kind, size_t n, int to)
{
	struct result result = { 0 };

	kind->run(n, &result);
	result.cpu_s = (double)clock() / CLOCKS_PER_SEC;
	if (failure())
		snprintf(result.failure, sizeof(result.failure), "%s", failure());
	_exit(write(to, &result, sizeof(result)) == sizeof(result) ? 0 : 2);
}

static struct result
run_apart(const struct kind *kind, size_t n)
{
	struct result result = { 0 };
	int ends[2];
	pid_t pid;

	(void)fflush(stdout);
	if (pipe(ends) != 0 || (pid = fork()) < 0) {
		perror("simulate");
		exit(2);
	}
	if (pid == 0)
		run_child(kind, n, ends[1]);
	close(ends[1]);
	if (read(ends[0], &result, sizeof(result)) != sizeof(result))
		snprintf(result.failure, sizeof(result.failure), "the process has crashed");
	close(ends[0]);
	(void)waitpid(pid, NULL, 0);
	return result;
}

/* ---- the tables ---- */

static size_t
read_sizes(const char *text, size_t *ret)
{
	size_t n = 0;
	char *end;

	for (; *text && n < MAX_SIZES; text = *end ? end + 1 : end) {
		ret[n] = strtoul(text, &end, 10);
		if (end == text || ret[n] == 0)
			break;
		n++;
	}
	return n;
}

static double
mib(double bytes)
{
	return bytes / (1 << 20);
}

/* "65,000" */
static const char *
number_text(size_t n)
{
	static char text[40];

	if (n < 1000)
		snprintf(text, sizeof(text), "%zu", n);
	else
		snprintf(text, sizeof(text), "%zu,%03zu", n / 1000, n % 1000);
	return text;
}

/* What each of the n further objects costs. */
static struct counts
cost_of_one(const struct phase *p, const struct phase *smaller, size_t n)
{
	struct counts c = subtract(p->counts, smaller->counts);
	double objects = (double)n;

	return (struct counts){ c.kube / objects, c.events / objects, c.cloud / objects,
		                c.allocations / objects, c.steps / objects };
}

static void
print_head(const struct kind *kind)
{
	if (kind->object)
		printf("| %ss, and what happens | requests to the API server | Events | requests to "
		       "the cloud | allocations | steps | memory, at most | memory, at the end |\n"
		       "| -- | -- | -- | -- | -- | -- | -- | -- |\n",
		       kind->object);
	else
		printf("| the night after | memory | blocks | descriptors | requests to the API "
		       "server | requests to the cloud |\n| -- | -- | -- | -- | -- | -- |\n");
}

static void
print_sizes_row(const struct phase *p, const struct counts *one, size_t n)
{
	printf("| %s: %s | %.2f | %.2f | %.3f | %.1f | %.2f | %.1f MiB | %.1f MiB |\n",
	       number_text(n), p->name, one->kube, one->events, one->cloud, one->allocations,
	       one->steps, mib(p->most_bytes), mib(p->bytes));
}

static void
print_nights(const struct result *r)
{
	for (size_t i = 0; i < r->n_phases; i++) {
		const struct phase *p = &r->phases[i];

		printf("| %s | %.0f KiB | %.0f | %.0f | %.0f | %.0f |\n", p->name, p->bytes / 1024,
		       p->blocks, p->descriptors, p->counts.kube, p->counts.cloud);
	}
}

/* The figures of one further object. */
static const struct figure {
	const char *name;
	size_t offset; /* in struct counts */
	double slack;  /* what is not worth a comparison */
} figures[] = {
	{ "requests", offsetof(struct counts, kube), 0.001 },
	/* beyond the first 1,000 they are dropped, unless there is time to write them */
	{ "Events", offsetof(struct counts, events), 0.03 },
	{ "requests to the cloud", offsetof(struct counts, cloud), 0.001 },
	{ "allocations", offsetof(struct counts, allocations), 0.1 },
	{ "steps", offsetof(struct counts, steps), 0.2 },
};

/* In a long phase, one more of the periodic lists of servers may begin. */
static double
slack_of(const struct figure *f, size_t n, size_t n_further)
{
	bool is_cloud = f->offset == offsetof(struct counts, cloud);

	return f->slack + (is_cloud ? (double)n / PAGE / (double)n_further : 0);
}

/* Figures that fall, and from which size on. */
static const struct {
	const char *kind, *phase, *figure; /* NULL: each */
	size_t from;
} falling[] = {
	/* a list is read five minutes after the end of the last one, and a longer one takes longer
	 */
	{ "nodes", WITH_HEARTBEATS, "requests to the cloud", 65000 },
	/* one turn handles all changes that have arrived, or all Services that are due */
	{ "nodes", WITH_HEARTBEATS, "steps", 0 },
	{ "services", AN_HOUR, "steps", 0 },
	/* the list has more than 100 pages, so 100 nodes are looked up one by one */
	{ "servers", NULL, NULL, 5000 },
};

static bool
may_fall(const struct kind *kind, const struct phase *p, const struct figure *f, size_t n)
{
	for (size_t i = 0; i < ARRAY_LEN(falling); i++) {
		if (strcmp(falling[i].kind, kind->name) == 0 && n >= falling[i].from &&
		    (!falling[i].phase || strcmp(falling[i].phase, p->name) == 0) &&
		    (!falling[i].figure || strcmp(falling[i].figure, f->name) == 0))
			return true;
	}
	return false;
}

static double
figure_of(const struct counts *c, const struct figure *f)
{
	return *(const double *)((const char *)c + f->offset);
}

/* Compares what one further object costs with what it costs in a smaller world. */
static bool
has_changed(const struct kind *kind, const struct phase *p, size_t n, size_t n_further,
            const struct counts *one, const struct counts *smaller, bool checks_fall)
{
	bool has_any = false;

	for (size_t i = 0; i < ARRAY_LEN(figures); i++) {
		const struct figure *f = &figures[i];
		double now = figure_of(one, f), then = figure_of(smaller, f);
		double slack = slack_of(f, n, n_further);

		if (now <= then * (100 + MAX_CHANGE) / 100 + slack &&
		    (!checks_fall || now >= then * (100 - MAX_CHANGE) / 100 - slack ||
		     may_fall(kind, p, f, n)))
			continue;
		printf("%zu, %s: %s of each further one are %.3f, and %.3f in a smaller world\n", n,
		       p->name, f->name, now, then);
		has_any = true;
	}
	return has_any;
}

/* Compares the nights after days on which one process led with the first of them. */
static bool
check_nights(const struct result *r)
{
	bool ok = true;

	for (size_t i = DAYS / 2 + 1; i < r->n_phases; i++) {
		const struct phase *p = &r->phases[i], *first = &r->phases[DAYS / 2];

		if (p->bytes <= first->bytes + MAX_NIGHTLY_GROWTH &&
		    p->descriptors <= first->descriptors && p->blocks <= first->blocks * 1.05)
			continue;
		printf("%s: more than after %s\n", p->name, first->name);
		ok = false;
	}
	return ok;
}

/* The costs of the first step include those of few objects, e.g. the Events of the first 1,000, so
 * what is more expensive there is no reason to fail. */
static int
run_sizes(const struct kind *kind, const size_t *sizes, size_t n)
{
	struct result base = run_apart(kind, BASE), last = base;
	struct counts first[MAX_PHASES] = { { 0 } }, second[MAX_PHASES] = { { 0 } };
	double cpu_s = base.cpu_s;
	int status = 0;

	if (base.failure[0])
		printf("%d %ss: %s\n", BASE, kind->object, base.failure);
	for (size_t i = 0; i < n && !base.failure[0]; i++) {
		size_t n_further = sizes[i] - (i == 0 ? BASE : sizes[i - 1]);
		struct result r = run_apart(kind, sizes[i]);

		cpu_s += r.cpu_s;
		for (size_t k = 0; k < r.n_phases; k++) {
			const struct phase *p = &r.phases[k];
			struct counts one = cost_of_one(p, &last.phases[k], n_further);

			print_sizes_row(p, &one, sizes[i]);
			if (i == 0)
				first[k] = one;
			else if (i == 1)
				second[k] = one;
			if (has_changed(kind, p, sizes[i], n_further, &one, &first[k],
			                /*checks_fall=*/false))
				status = 1;
			if (i > 1 && has_changed(kind, p, sizes[i], n_further, &one, &second[k],
			                         /*checks_fall=*/true))
				status = 1;
			if (kind->run == run_nodes &&
			    p->most_bytes >
			            base.phases[k].most_bytes + NODE_BYTES * (double)sizes[i]) {
				printf("%zu, %s: %.1f MiB of memory\n", sizes[i], p->name,
				       mib(p->most_bytes));
				status = 1;
			}
		}
		if (r.failure[0]) {
			printf("%zu %ss: %s\n", sizes[i], kind->object, r.failure);
			status = 1;
		}
		last = r;
	}
	printf("\n%.0f s of CPU time, of the simulated servers too\n", cpu_s);
	return base.failure[0] ? 1 : status;
}

int
growth_run(const char *what, const char *sizes)
{
	const struct kind *kind = NULL;
	size_t numbers[MAX_SIZES], n;
	struct result week;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (strcmp(kinds[i].name, what) == 0)
			kind = &kinds[i];
	}
	if (!kind) {
		(void)fprintf(stderr, "simulate: --growth nodes, services, servers or week\n");
		return 2;
	}
	n = read_sizes(sizes ? sizes : kind->sizes, numbers);
	print_head(kind);
	if (kind->object)
		return run_sizes(kind, numbers, n);
	week = run_apart(kind, numbers[0]);
	print_nights(&week);
	printf("\n%.0f s of CPU time, of the simulated servers too\n", week.cpu_s);
	if (week.failure[0])
		printf("the week: %s\n", week.failure);
	return week.failure[0] || !check_nights(&week);
}
