#include "providers/cloudlycke/lab.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"

#define PATIENCE_NS (60 * NS_PER_SEC) /* far more than a busy machine takes */

/* ---- the host ---- */

static struct lab *
lab_of(const struct cloud_host *host)
{
	return CONTAINER_OF((struct cloud_host *)(uintptr_t)host, struct lab, host);
}

static void
remember_event(const struct cloud_host *host, const struct node_ref *ref, enum host_event type,
               const char *reason, struct str message)
{
	struct lab *lab = lab_of(host);

	(void)ref;
	(void)type;
	WITH_LOCK(&lab->mu);
	lab->n_events++;
	snprintf(lab->reason, sizeof(lab->reason), "%s", reason);
	snprintf(lab->message, sizeof(lab->message), "%" STR_FMT, STR_ARG(message));
	cond_broadcast(&lab->changed);
}

static void
remember_service_event(const struct cloud_host *host, const struct lb_spec *spec,
                       enum host_event type, const char *reason, struct str message)
{
	(void)spec;
	remember_event(host, NULL, type, reason, message);
}

static void
remember_requeue(const struct cloud_host *host, enum host_requeue what, struct str key)
{
	struct lab *lab = lab_of(host);

	(void)what;
	WITH_LOCK(&lab->mu);
	lab->n_wakes += key.len == 0;
	cond_broadcast(&lab->changed);
}

static void
no_nodes(const struct cloud_host *host, struct arena *arena, struct node_ref **ret, size_t *ret_n)
{
	(void)host;
	(void)arena;
	*ret = NULL;
	*ret_n = 0;
}

/* ---- life cycle ---- */

int
lab_setup(void **state)
{
	struct lab *lab = xcalloc(1, sizeof(*lab));
	const char *tmp = getenv("TMPDIR");

	snprintf(lab->folder, sizeof(lab->folder), "%s/ccmd-lab-XXXXXX",
	         tmp && strlen(tmp) < 40 ? tmp : "/tmp");
	if (!mkdtemp(lab->folder) || pipe2(lab->log_fds, O_CLOEXEC | O_NONBLOCK) != 0)
		return -1;
	snprintf(lab->path, sizeof(lab->path), "%s/inventory.yaml", lab->folder);
	lab->host = (struct cloud_host){
		.clock = &clock_real,
		.event = remember_event,
		.service_event = remember_service_event,
		.requeue = remember_requeue,
		.nodes = no_nodes,
	};
	mutex_init(&lab->mu);
	cond_init(&lab->changed);
	lab->log = BUF_INIT(1000000);
	log_set_fd(lab->log_fds[1]);
	*state = lab;
	return 0;
}

static int
remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

int
lab_teardown(void **state)
{
	struct lab *lab = *state;

	log_set_fd(2);
	close(lab->log_fds[0]);
	close(lab->log_fds[1]);
	buf_fini(&lab->log);
	nftw(lab->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	cond_destroy(&lab->changed);
	mutex_destroy(&lab->mu);
	free(lab);
	return 0;
}

/* ---- the file ---- */

static void
path_of(struct lab *lab, const char *name, char ret[128])
{
	snprintf(ret, 128, "%s/%s", lab->folder, name);
}

static void
write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	if (text)
		assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

void
lab_put(struct lab *lab, const char *name, const char *text)
{
	char path[128], other[128];

	const int64_t old_ns = clock_wall(&clock_real) - NS_PER_SEC;
	const struct timespec old = { old_ns / NS_PER_SEC, old_ns % NS_PER_SEC };

	path_of(lab, name, path);
	path_of(lab, ".new", other);
	write_file(other, text);
	assert_int_equal(utimensat(AT_FDCWD, other, (struct timespec[]){ old, old }, 0), 0);
	assert_int_equal(rename(other, path), 0);
}

void
lab_overwrite(struct lab *lab, const char *name, const char *text)
{
	char path[128];

	path_of(lab, name, path);
	write_file(path, text);
}

void
lab_write(struct lab *lab, const char *text)
{
	CLEANUP(buf_fini) struct buf all = BUF_INIT(1000000);

	buf_addf(&all, LAB_HEAD LAB_QUICK "%s", text);
	lab_put(lab, "inventory.yaml", all.ptr);
}

void
lab_machines(struct lab *lab, unsigned n, const char *text)
{
	CLEANUP(buf_fini) struct buf all = BUF_INIT(1000000);

	buf_add_c(&all, "machines:\n");
	for (unsigned i = 0; i < n; i++)
		buf_addf(&all, "- {name: n%u, id: m%u}\n", i, i);
	buf_add_c(&all, text);
	lab_write(lab, all.ptr);
}

/* ---- waiting ---- */

/* Takes what has been logged; waits for more until the deadline. False if there is no line. */
static bool
read_log(struct lab *lab, int64_t deadline_ns)
{
	struct pollfd fd = { .fd = lab->log_fds[0], .events = POLLIN };
	int64_t left_ns = deadline_ns - clock_mono(&clock_real);
	char bytes[4096];
	ssize_t n;

	if (poll(&fd, 1, left_ns > 0 ? (int)(left_ns / NS_PER_MS) + 1 : 0) <= 0)
		return false;
	n = read(lab->log_fds[0], bytes, sizeof(bytes));
	if (n > 0)
		buf_add(&lab->log, bytes, (size_t)n);
	return n > 0;
}

void
lab_wait_log(struct lab *lab, const char *text)
{
	int64_t deadline_ns = clock_mono(&clock_real) + PATIENCE_NS;
	const char *found, *end;

	while (!(found = strstr(lab->log.ptr, text)) || !(end = strchr(found, '\n'))) {
		if (!read_log(lab, deadline_ns))
			fail_msg("no \"%s\" in the log:\n%s", text, lab->log.ptr);
	}
	buf_consume(&lab->log, (size_t)(end + 1 - lab->log.ptr));
}

bool
lab_has_logged(struct lab *lab, const char *text)
{
	while (read_log(lab, /*deadline_ns=*/0)) {
	}
	return strstr(lab->log.ptr, text) != NULL;
}

void
lab_wait_event(struct lab *lab, unsigned n, const char *reason, const char *message)
{
	int64_t deadline_ns = clock_mono(&clock_real) + PATIENCE_NS;
	char got_reason[sizeof(lab->reason)], got_message[sizeof(lab->message)];

	mutex_lock(&lab->mu);
	while (lab->n_events < n && clock_wait(&clock_real, &lab->changed, &lab->mu, deadline_ns)) {
	}
	memcpy(got_reason, lab->reason, sizeof(got_reason));
	memcpy(got_message, lab->message, sizeof(got_message));
	mutex_unlock(&lab->mu);
	assert_string_equal(got_reason, reason);
	assert_string_equal(got_message, message);
}

void
lab_wait_wakes(struct lab *lab, unsigned n)
{
	int64_t deadline_ns = clock_mono(&clock_real) + PATIENCE_NS;
	unsigned n_wakes;

	mutex_lock(&lab->mu);
	while (lab->n_wakes < n && clock_wait(&clock_real, &lab->changed, &lab->mu, deadline_ns)) {
	}
	n_wakes = lab->n_wakes;
	mutex_unlock(&lab->mu);
	assert_int_equal(n_wakes, n);
}

unsigned
lab_count_wakes(struct lab *lab)
{
	WITH_LOCK(&lab->mu);
	return lab->n_wakes;
}

double
lab_metric(const char *series)
{
	CLEANUP(buf_fini) struct buf all = BUF_INIT(1000000);
	int64_t value = -1;

	metrics_write_page(&all, METRICS_MAIN, METRICS_TEXT);
	for (struct str line, rest = buf_str(&all); str_split(&rest, '\n', &line);) {
		if (str_starts(line, str_c(series)))
			(void)!str_to_i64(str_trim(str_skip(line, strlen(series))), 0, INT64_MAX,
			                  &value);
	}
	return (double)value;
}

/* ---- the provider ---- */

bool
lab_try_open(struct lab *lab, const struct cloud_config *config, struct cloud **ret,
             struct error *err)
{
	struct cloud *cloud;

	if (!cloudlycke_cloud.load(config, &cloud, err))
		return false;
	if (!cloudlycke_cloud.start(cloud, &lab->host, err)) {
		cloudlycke_cloud.close(cloud);
		return false;
	}
	*ret = cloud;
	return true;
}

struct cloud *
lab_open(struct lab *lab)
{
	static struct ip_net cidrs[2];
	struct cloud_config config = { .clock = &clock_real,
		                       .path = lab->path,
		                       .cluster_name = "kubernetes",
		                       .cluster_cidrs = cidrs,
		                       .n_cluster_cidrs = 2 };
	struct cloud *cloud = NULL;
	struct error err;

	assert_true(ip_net_parse(STR("10.244.0.0/16"), &cidrs[0]));
	assert_true(ip_net_parse(STR("fd00::/16"), &cidrs[1]));

	if (!lab_try_open(lab, &config, &cloud, &err))
		fail_msg("%s", err.msg);
	return cloud;
}

struct lab_answer
lab_look(struct cloud *cloud, const char *name, const char *provider_id)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(look_unrefp) struct look *look = NULL;
	struct call call = { .clock = &clock_real,
		             .deadline_mono_ns = CLOCK_FOREVER,
		             .arena = &arena };
	struct node_ref ref = { .name = str_c(name), .provider_id = str_c(provider_id) };
	struct lab_answer answer = { 0 };
	struct error err;

	if (!cloudlycke_cloud.look(cloud, &call, &ref, 1, clock_boot(&clock_real), &look, &err))
		fail_msg("%s", err.msg);
	answer.presence = look->instances[0].presence;
	answer.power = look->instances[0].power;
	answer.code = look->instances[0].error_code;
	snprintf(answer.error, sizeof(answer.error), "%" STR_FMT,
	         STR_ARG(look->instances[0].error));
	return answer;
}
