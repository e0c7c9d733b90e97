/* tests/simulation/simulate.c: runs histories, each in a process of its own: ./dev simulate, and
 * docs/testing.md. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cover.h"
#include "growth.h"
#include "world.h"

enum {
	MAX_JOBS = 64,
	MAX_SEEDS = 10000,   /* in a file */
	SETTLE_MINUTES = 90, /* a refusal by the cloud is remembered for an hour */
	CALM_MINUTES = 16,   /* three periods of the addresses: the rate limit may put two off */
	INSPECTED = 4,       /* commands run at the end of one history of so many */
	CHANGED = 2,         /* one history of so many has last changes */
	SOON_MINUTES = 10,   /* until they show an effect */
	PATIENT = 4,         /* one history of so many waits for all of CALM_MINUTES */
	OUTAGES = 20,        /* an outage follows at the end of one history of so many */
	PROGRESS = 1000,     /* histories between two lines about the progress */
};

static const char help[] =
	"./dev simulate COUNT [--from N]      simulates COUNT histories, and prints the seeds that fail\n"
	"./dev simulate --seed N [--until S]  prints one history, up to second S; --all: with Leases\n"
	"./dev simulate --shrink N            leaves out events of a history as long as it fails\n"
	"./dev simulate --file NAME           simulates the seeds in a file\n"
	"./dev simulate --growth WHAT [--sizes N,N]  large worlds: nodes, services, servers, or a week\n"
	"--cloud NAME: hcloud, brightbox, cloudlycke or example; without it the seed chooses the cloud\n"
	"--jobs N: so many at a time; --drop LIST: without these events\n";

static bool is_dropped[MAX_DROPPED];
static int64_t until_ns = CLOCK_FOREVER;
static const struct sim_cloud *chosen; /* NULL: the seed chooses */

/* ---- one history ---- */

/* Returns false if cluster and cloud do not agree in time. */
static bool
settle(int minutes)
{
	CLEANUP(buf_fini) struct buf why = BUF_INIT(100000);

	for (int i = 0; i < minutes && !failure(); i++) {
		schedule_run_until(schedule_now_ns() + MINUTE_NS);
		world.sim->release();
		buf_reset(&why);
		if (checks_is_settled(&why)) {
			trace("all is settled");
			return true;
		}
	}
	fail("not settled after %d minutes: %s", minutes, why.ptr);
	return false;
}

/* Some work is not visible to checks_is_settled(), e.g. the addresses of Nodes, so requests may go
 * on for CALM_MINUTES. Most histories end as soon as the replicas have been quiet for
 * QUIET_MINUTES. The patient ones wait, and so also notice what begins again after a long pause. */
static void
check_quiet(bool is_patient)
{
	CLEANUP(buf_fini) struct buf why = BUF_INIT(100000);
	int64_t last_ns = schedule_now_ns() + CALM_MINUTES * MINUTE_NS;
	bool is_last;

	if (is_patient)
		schedule_run_until(last_ns);
	do {
		is_last = schedule_now_ns() >= last_ns;
		buf_reset(&why);
		bounds_quiet_begins();
		schedule_run_until(schedule_now_ns() + QUIET_MINUTES * MINUTE_NS);
		bounds_quiet_ends(&why);
	} while (why.len > 0 && !is_last && !failure());
	if (why.len > 0)
		fail("in %d minutes after all was settled: %s", QUIET_MINUTES, why.ptr);
	else if (!checks_is_settled(&why))
		fail("no longer settled: %s", why.ptr);
}

static void
run_history(uint64_t seed)
{
	int64_t last_ns;

	world_begin(chosen ? chosen : sim_of_seed(seed), seed);
	last_ns = history_plan(seed, is_dropped);
	schedule_run_until(until_ns < last_ns ? until_ns : last_ns + NS_PER_SEC);
	if (until_ns < last_ns || failure())
		return;
	world_settle();
	if (!settle(SETTLE_MINUTES))
		return;
	check_quiet(seed % PATIENT == 0);
	if (seed % CHANGED == 1 && !failure()) {
		last_changes_make(seed);
		settle(world.was_limited ? SETTLE_MINUTES : SOON_MINUTES);
	}
	if (seed % INSPECTED == 1 && !world.was_restored && !world.was_forced &&
	    !world.vanished_uid[0] && !failure())
		commands_check();
	if (seed % OUTAGES == 2 && outage_is_possible() && !failure())
		outage_check();
}

static int
show_history(uint64_t seed, enum trace_level level)
{
	trace_print(level);
	run_history(seed);
	if (world.sim->end)
		world.sim->end();
	printf("seed %llu: %s; hash %016llx\n", (unsigned long long)seed,
	       failure() ? failure() : "no failure", (unsigned long long)trace_hash());
	return failure() != NULL;
}

/* ---- many histories ---- */

struct result {
	uint64_t seed, hash;
	int64_t simulated_ns;
	char failure[500]; /* empty: none */
};

struct job {
	uint64_t seed;
	size_t place; /* of the seed */
	pid_t pid;
	int from;
};

static void
run_child(uint64_t seed, int to)
{
	struct result result = { .seed = seed };

	run_history(seed);
	if (world.sim->end)
		world.sim->end();
	result.hash = trace_hash();
	result.simulated_ns = schedule_now_ns();
	if (failure())
		snprintf(result.failure, sizeof(result.failure), "%s", failure());
	_exit(write(to, &result, sizeof(result)) == sizeof(result) ? 0 : 2);
}

static struct job
start_job(uint64_t seed, size_t place)
{
	struct job job = { .seed = seed, .place = place };
	int ends[2];

	(void)fflush(stdout);
	if (pipe(ends) != 0 || (job.pid = fork()) < 0) {
		perror("simulate");
		exit(2);
	}
	if (job.pid == 0) {
		close(ends[0]);
		run_child(seed, ends[1]);
	}
	close(ends[1]);
	job.from = ends[0];
	return job;
}

/* A process that ended without a result has crashed. */
static struct result
end_job(const struct job *job)
{
	struct result result = { .seed = job->seed };

	if (read(job->from, &result, sizeof(result)) != sizeof(result)) {
		result.seed = job->seed;
		snprintf(result.failure, sizeof(result.failure), "the process has crashed");
	}
	close(job->from);
	(void)waitpid(job->pid, NULL, 0);
	return result;
}

static struct result
run_alone(uint64_t seed)
{
	struct job job = start_job(seed, 0);

	return end_job(&job);
}

static double
seconds_of(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* Of the histories, and before the first one that of the build: ./dev simulate executes this
 * program. */
static double
cpu_of_children_s(void)
{
	struct rusage usage;

	getrusage(RUSAGE_CHILDREN, &usage);
	return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

static void
print_figures(size_t n, size_t n_failed, double simulated_hours, double cpu_s, uint64_t hash)
{
	printf("%zu histories, %zu failed; each second of CPU time: %.1f histories, %.1f simulated "
	       "hours; hash of all %016llx\n",
	       n, n_failed, (double)n / cpu_s, simulated_hours / cpu_s, (unsigned long long)hash);
}

/* Waits until one of the jobs has ended, and returns its index. */
static size_t
wait_for_any(const struct job *jobs, size_t n)
{
	struct pollfd ends[MAX_JOBS];
	size_t i = 0;

	for (size_t k = 0; k < n; k++)
		ends[k] = (struct pollfd){ .fd = jobs[k].from, .events = POLLIN };
	if (poll(ends, n, -1) < 0) {
		perror("simulate");
		exit(2);
	}
	while (i + 1 < n && ends[i].revents == 0)
		i++;
	return i;
}

/* Runs the histories of these seeds, n_jobs at a time. The first one is run twice, and has to be
 * the same both times. Returns how many failed. */
static size_t
run_many(const uint64_t *seeds, size_t n, unsigned n_jobs)
{
	struct job jobs[MAX_JOBS];
	size_t n_started = 0, n_running = 0, n_failed = 0;
	uint64_t *hashes = xcalloc(n, sizeof(*hashes));
	double simulated_hours = 0, before_s = cpu_of_children_s();

	for (size_t n_ended = 1; n_ended <= n; n_ended++) {
		struct result result;
		struct job job;
		size_t i;

		for (; n_running < n_jobs && n_started < n; n_started++)
			jobs[n_running++] = start_job(seeds[n_started], n_started);
		i = wait_for_any(jobs, n_running);
		job = jobs[i];
		jobs[i] = jobs[--n_running];
		result = end_job(&job);
		simulated_hours += (double)result.simulated_ns / 3600e9;
		hashes[job.place] = result.hash;
		if (job.place == 0 && !result.failure[0] && run_alone(seeds[0]).hash != result.hash)
			snprintf(result.failure, sizeof(result.failure),
			         "the second run differs from the first");
		n_failed += result.failure[0] != '\0';
		if (result.failure[0])
			printf("seed %llu: %s\n", (unsigned long long)result.seed, result.failure);
		if (n_ended % PROGRESS == 0 && n_ended < n)
			printf("%zu of %zu histories, %zu failed\n", n_ended, n, n_failed);
	}
	print_figures(n, n_failed, simulated_hours, cpu_of_children_s() - before_s,
	              hash_bytes(0, (const char *)hashes, n * sizeof(*hashes)));
	free(hashes);
	return n_failed;
}

/* ---- shrinking ---- */

/* The beginning of the message shows which check it was. */
static bool
is_same_failure(const struct result *a, const struct result *b)
{
	return b->failure[0] && strncmp(a->failure, b->failure, 8) == 0;
}

/* Leaves out ever smaller groups of events, as long as the history fails in the same way. */
static int
shrink(uint64_t seed)
{
	struct result first = run_alone(seed), last = first;
	size_t length = history_length();

	if (!first.failure[0]) {
		printf("seed %llu does not fail\n", (unsigned long long)seed);
		return 0;
	}
	for (size_t size = length / 2; size >= 1; size /= 2) {
		for (size_t from = 0; from < length; from += size) {
			bool before[MAX_DROPPED];
			struct result result;

			memcpy(before, is_dropped, sizeof(before));
			for (size_t i = from; i < from + size && i < length; i++)
				is_dropped[i] = true;
			if (memcmp(before, is_dropped, sizeof(before)) == 0)
				continue;
			result = run_alone(seed);
			if (is_same_failure(&first, &result))
				last = result;
			else
				memcpy(is_dropped, before, sizeof(before));
		}
	}
	printf("seed %llu: %s\n./dev simulate --seed %llu --drop ", (unsigned long long)seed,
	       last.failure, (unsigned long long)seed);
	for (size_t i = 0; i < length; i++) {
		if (is_dropped[i])
			printf("%zu,", i);
	}
	printf("\n");
	return 1;
}

/* ---- arguments ---- */

struct arguments {
	uint64_t count, from;
	const char *seed, *shrink, *file, *growth, *sizes; /* NULL: not given */
	enum trace_level level;
	unsigned n_jobs;
};

static void
read_dropped(const char *text)
{
	char *end;

	for (; *text; text = *end ? end + 1 : end) {
		unsigned long i = strtoul(text, &end, 10);

		if (end == text)
			return;
		if (i < MAX_DROPPED)
			is_dropped[i] = true;
	}
}

static bool
read_option(struct arguments *a, const char *name, const char *value)
{
	if (strcmp(name, "--from") == 0)
		a->from = strtoull(value, NULL, 10);
	else if (strcmp(name, "--jobs") == 0)
		a->n_jobs = (unsigned)strtoul(value, NULL, 10) % MAX_JOBS;
	else if (strcmp(name, "--seed") == 0)
		a->seed = value;
	else if (strcmp(name, "--shrink") == 0)
		a->shrink = value;
	else if (strcmp(name, "--file") == 0)
		a->file = value;
	else if (strcmp(name, "--growth") == 0)
		a->growth = value;
	else if (strcmp(name, "--sizes") == 0)
		a->sizes = value;
	else if (strcmp(name, "--until") == 0)
		until_ns = (int64_t)strtoull(value, NULL, 10) * NS_PER_SEC;
	else if (strcmp(name, "--drop") == 0)
		read_dropped(value);
	else if (strcmp(name, "--cloud") == 0)
		return (chosen = sim_find(value)) != NULL;
	else
		return false;
	return true;
}

static bool
read_arguments(struct arguments *a, int argc, char *argv[])
{
	long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);

	*a = (struct arguments){ .from = 1, .level = TRACE_HISTORY };
	a->n_jobs = n_cpus > 0 && n_cpus < MAX_JOBS ? (unsigned)n_cpus : 1;
	for (int i = 2; i < argc; i++) {
		if (argv[i][0] != '-')
			a->count = strtoull(argv[i], NULL, 10);
		else if (strcmp(argv[i], "--all") == 0)
			a->level = TRACE_ALL;
		else if (i + 1 < argc && read_option(a, argv[i], argv[i + 1]))
			i++;
		else
			return false;
	}
	return a->n_jobs > 0 && (a->count > 0 || a->seed || a->shrink || a->file || a->growth);
}

/* A line of the file begins with a seed, or it is a comment. */
static size_t
read_seeds(const char *name, uint64_t *seeds)
{
	FILE *file = fopen(name, "r");
	char line[400];
	size_t n = 0;

	if (!file) {
		perror(name);
		exit(2);
	}
	while (fgets(line, sizeof(line), file) && n < MAX_SEEDS) {
		if (line[0] >= '0' && line[0] <= '9')
			seeds[n++] = strtoull(line, NULL, 10);
	}
	(void)fclose(file);
	return n;
}

static int
run_seeds(const struct arguments *a)
{
	size_t n = a->file ? MAX_SEEDS : a->count;
	uint64_t *seeds = xcalloc(n, sizeof(*seeds));
	size_t n_failed;

	if (a->file)
		n = read_seeds(a->file, seeds);
	for (uint64_t i = 0; !a->file && i < n; i++)
		seeds[i] = a->from + i;
	n_failed = run_many(seeds, n, a->n_jobs);
	free(seeds);
	return n_failed > 0;
}

int
main(int argc, char *argv[])
{
	struct arguments a;
	int status;

	if (argc == 3 && strcmp(argv[2], "--help") == 0) {
		(void)fputs(help, stdout);
		return 0;
	}
	if (argc < 3 || !read_arguments(&a, argc, argv)) {
		(void)fputs(help, stderr);
		return 2;
	}
	replicas_load(argv[1]);
	cover_begin();
	if (a.seed)
		status = show_history(strtoull(a.seed, NULL, 10), a.level);
	else if (a.growth)
		status = growth_run(a.growth, a.sizes);
	else if (a.shrink)
		status = shrink(strtoull(a.shrink, NULL, 10));
	else
		status = run_seeds(&a);
	replicas_unload();
	(void)fflush(stdout);
	_exit(status); /* the replicas' libraries are in no state to be unloaded */
}
