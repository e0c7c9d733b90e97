/* operator/progress.c: see progress.h. */
#include "operator/progress.h"

#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"

#define DELAY_NS NS_PER_SEC
#define ERASE "\r\033[K" /* ECMA-48: to the first column, then erase the line */

enum {
	LINE_MAX_BYTES = 200,
};

static struct {
	pthread_t thread;
	bool is_started;
	pthread_mutex_t mu;
	pthread_cond_t changed;
	const char *step; /* mu */
	int64_t start_ns; /* mu; of the step */
	bool is_shown;    /* mu */
	bool is_stopping; /* mu */
	int64_t begin_ns; /* before this time nothing is shown */
} progress;

/* With mu held. */
static void
erase(void)
{
	if (progress.is_shown)
		(void)!fd_write_all(STDERR_FILENO, STR(ERASE));
	progress.is_shown = false;
}

/* Writes the line once a second. */
static void *
progress_run(void *arg)
{
	WITH_LOCK(&progress.mu);

	(void)arg;
	while (!progress.is_stopping) {
		CLEANUP(buf_fini) struct buf line = BUF_INIT(LINE_MAX_BYTES);
		int64_t now_ns = clock_mono(&clock_real), next_ns = CLOCK_FOREVER;

		if (progress.step && now_ns < progress.begin_ns) {
			next_ns = progress.begin_ns;
		} else if (progress.step) {
			buf_addf(&line, ERASE "%s … %lld s", progress.step,
			         (long long)((now_ns - progress.start_ns) / NS_PER_SEC));
			(void)!fd_write_all(STDERR_FILENO, buf_str(&line));
			progress.is_shown = true;
			next_ns = now_ns + NS_PER_SEC;
		}
		(void)clock_wait(&clock_real, &progress.changed, &progress.mu, next_ns);
	}
	erase();
	return NULL;
}

void
progress_start(void)
{
	if (!isatty(STDERR_FILENO))
		return;
	mutex_init(&progress.mu);
	cond_init(&progress.changed);
	progress.begin_ns = clock_mono(&clock_real) + DELAY_NS;
	progress.is_started = true;
	thread_start(&progress.thread, "progress", progress_run, NULL);
}

void
progress_stop(void)
{
	if (!progress.is_started)
		return;
	mutex_lock(&progress.mu);
	progress.is_stopping = true;
	cond_signal(&progress.changed);
	mutex_unlock(&progress.mu);
	thread_join(progress.thread);
	cond_destroy(&progress.changed);
	mutex_destroy(&progress.mu);
	progress.is_started = false;
}

const char *
progress_set(const char *step)
{
	const char *before;

	if (!progress.is_started)
		return NULL;
	WITH_LOCK(&progress.mu);

	before = progress.step;
	erase();
	progress.step = step;
	progress.start_ns = clock_mono(&clock_real);
	cond_signal(&progress.changed);
	return before;
}
