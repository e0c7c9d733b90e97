/* base/metrics_process.c: the process_* metrics, which the kernel counts for this process. Names
 * and meanings are the common ones of all Prometheus clients.
 */
#include "base/metrics.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

METRIC_FAMILY(cpu_seconds, METRIC_COUNTER, "process_cpu_seconds_total",
              "CPU time used, user and system.");
METRIC_FAMILY(open_fds, METRIC_GAUGE, "process_open_fds", "Open file descriptors.");
METRIC_FAMILY(max_fds, METRIC_GAUGE, "process_max_fds", "Maximum number of open file descriptors.");
METRIC_FAMILY(virtual_bytes, METRIC_GAUGE, "process_virtual_memory_bytes",
              "Size of the address space.");
METRIC_FAMILY(
	resident_bytes, METRIC_GAUGE, "process_resident_memory_bytes",
	"Resident memory, including pages of libraries that are shared with other processes.");
METRIC_FAMILY(start_seconds, METRIC_GAUGE, "process_start_time_seconds",
              "When the process was started; Unix time.");

enum {
	/* the index of starttime, counted from the field after the name (proc(5), /proc/PID/stat):
	 * 22 - 3 */
	STAT_AFTER_NAME = 19,
};

static int statm_fd = -1;
static DIR *fd_folder;

static struct str
read_text(int fd, char *memory, size_t size)
{
	ssize_t n = fd >= 0 ? pread(fd, memory, size, 0) : -1;

	return str_trim(str_n(memory, n > 0 ? (size_t)n : 0));
}

/* Returns the n-th word of a line, counted from 0, as a number; 0 when the word is not a number. */
static int64_t
word_number(struct str line, size_t n)
{
	struct str word = STR_EMPTY;
	int64_t number = 0;

	for (size_t i = 0; i <= n; i++) {
		if (!str_split(&line, ' ', &word))
			return 0;
	}
	return str_to_i64(word, 0, INT64_MAX, &number) ? number : 0;
}

static void
set_cpu(void)
{
	struct timespec used;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0)
		metric_set(metric_of(&cpu_seconds),
		           (double)used.tv_sec + (double)used.tv_nsec / 1e9);
}

static void
set_fds(void)
{
	struct rlimit limit;
	int n = -2; /* the entries "." and ".." are not descriptors */

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		metric_set(metric_of(&max_fds), (double)limit.rlim_cur);
	if (!fd_folder)
		return;
	rewinddir(fd_folder);
	while (readdir(fd_folder))
		n++;
	metric_set(metric_of(&open_fds), n);
}

static void
set_memory(void)
{
	double page = (double)sysconf(_SC_PAGESIZE);
	char memory[256];
	struct str line = read_text(statm_fd, memory, sizeof(memory));

	metric_set(metric_of(&virtual_bytes), (double)word_number(line, 0) * page);
	metric_set(metric_of(&resident_bytes), (double)word_number(line, 1) * page);
}

static void
set_all(void *arg)
{
	(void)arg;
	set_cpu();
	set_fds();
	set_memory();
}

void
metrics_process_setup(void)
{
	CLEANUP(fd_close) int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	char memory[1024];
	struct str rest = read_text(fd, memory, sizeof(memory));
	int64_t ticks, start_ns = clock_wall(&clock_real);

	statm_fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	fd_folder = opendir("/proc/self/fd");
	/* The kernel counts the start time from the boot of the machine. The name of the process,
	 * in parentheses, may contain any character. */
	for (ptrdiff_t at; (at = str_index(rest, ')')) >= 0;)
		rest = str_skip(rest, (size_t)at + 1);
	ticks = word_number(str_trim(rest), STAT_AFTER_NAME);
	if (ticks > 0)
		start_ns -= clock_boot(&clock_real) - ticks * (NS_PER_SEC / sysconf(_SC_CLK_TCK));
	metric_set(metric_of(&start_seconds), clock_seconds(start_ns));
	metrics_on_scrape(set_all, NULL);
}
