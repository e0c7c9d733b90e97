#include "base/thread.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/log.h"

struct facts {
	char name[16];
	size_t stack_bytes;
	bool is_blocked; /* SIGTERM */
};

static void *
look_around(void *arg)
{
	struct facts *facts = arg;
	pthread_attr_t attr;
	sigset_t mask;

	MUST(pthread_getname_np(pthread_self(), facts->name, sizeof(facts->name)));
	MUST(pthread_getattr_np(pthread_self(), &attr));
	MUST(pthread_attr_getstacksize(&attr, &facts->stack_bytes));
	MUST(pthread_attr_destroy(&attr));
	MUST(pthread_sigmask(SIG_SETMASK, NULL, &mask));
	facts->is_blocked = sigismember(&mask, SIGTERM) == 1;
	return NULL;
}

static struct facts
facts_of(const char *name)
{
	struct facts facts = { 0 };
	pthread_t thread;

	thread_start(&thread, name, look_around, &facts);
	thread_join(thread);
	return facts;
}

static void
threads_are_small_and_named(void **state)
{
	struct facts facts = facts_of("reflector");
	sigset_t mask;

	(void)state;
	assert_string_equal(facts.name, "reflector");
	if (!HAS_SANITIZER)
		assert_true(facts.stack_bytes <= 264 * 1024);
	assert_true(facts.is_blocked);
	MUST(pthread_sigmask(SIG_SETMASK, NULL, &mask));
	assert_int_equal(sigismember(&mask, SIGTERM), 0);
	assert_string_equal(facts_of("a-name-that-is-too-long").name, "a-name-that-is-");
}

struct counter {
	pthread_mutex_t mu;
	int value; /* mu */
};

static void *
count(void *arg)
{
	struct counter *counter = arg;

	for (int i = 0; i < 1000; i++) {
		WITH_LOCK(&counter->mu);
		counter->value++;
	}
	return NULL;
}

static void
a_scope_holds_the_lock(void **state)
{
	struct counter counter = { .mu = PTHREAD_MUTEX_INITIALIZER };
	pthread_t threads[4];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		thread_start(&threads[i], "counter", count, &counter);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		thread_join(threads[i]);
	assert_int_equal(counter.value, 4000);
}

static void
conditions_use_the_monotonic_clock(void **state)
{
	struct timespec past = { .tv_sec = 1 }; /* on any clock */
	struct timespec now;
	pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond;
	int result;

	(void)state;
	cond_init(&cond);
	mutex_lock(&mu);
	assert_int_equal(pthread_cond_timedwait(&cond, &mu, &past), ETIMEDOUT);
	/* on the wall clock this would be decades ago, and the wait would end immediately */
	clock_gettime(CLOCK_MONOTONIC, &now);
	past = now;
	past.tv_nsec += NS_PER_MS;
	past.tv_sec += past.tv_nsec / NS_PER_SEC;
	past.tv_nsec %= NS_PER_SEC;
	do {
		result = pthread_cond_timedwait(&cond, &mu, &past);
	} while (result == 0);
	mutex_unlock(&mu);
	clock_gettime(CLOCK_MONOTONIC, &now);
	assert_true(now.tv_sec > past.tv_sec ||
	            (now.tv_sec == past.tv_sec && now.tv_nsec >= past.tv_nsec));
	cond_destroy(&cond);
}

#if !HAS_SANITIZER
static void *
stay(void *arg)
{
	(void)arg;
	pause();
	return NULL;
}

/* In a child: those that did start stay. */
static void
a_thread_that_cannot_be_started_is_reported(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	if (child == 0) {
		pthread_t thread;
		int n = 0;

		setrlimit(RLIMIT_AS, &(struct rlimit){ 0, 0 });
		while (n < 1000 && thread_try_start(&thread, "stays", stay, NULL) == 0)
			n++;
		thread_trim(); /* does without */
		_exit(n == 1000);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}
#endif

#if defined(__GLIBC__) && !HAS_SANITIZER
static size_t
bytes_in_use(void)
{
	return mallinfo2().uordblks;
}

/* What a thread has freed is kept for it, and counts as in use, until it trims. */
static void
trimming_gives_back_what_the_thread_has_kept(void **state)
{
	(void)state;
	void *kept[7 * 10], *last;
	size_t before, n = 0;

	thread_trim();
	before = bytes_in_use();
	for (size_t size = 100; size <= 1000; size += 100) {
		for (int i = 0; i < 7; i++)
			kept[n++] = xmalloc(size);
	}
	last = xmalloc(1); /* so that they are not next to what was never used */
	while (n > 0)
		free(kept[--n]);
	assert_true(bytes_in_use() > before + 30000);
	thread_trim();
	assert_true(bytes_in_use() < before + 1000);
	free(last);
}
#endif

static void
misuse_aborts(void **state)
{
	char text[300] = "";
	int ends[2];
	pid_t child;
	int status;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		signal(SIGABRT, SIG_DFL);
		log_set_fd(ends[1]);
		MUST(0);
		MUST(EDEADLK);
		_exit(0);
	}
	close(ends[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
	close(ends[0]);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_non_null(strstr(text, "call=EDEADLK reason=\"Resource deadlock avoided\" file="));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_are_small_and_named),
		cmocka_unit_test(a_scope_holds_the_lock),
		cmocka_unit_test(conditions_use_the_monotonic_clock),
#if !HAS_SANITIZER
		cmocka_unit_test(a_thread_that_cannot_be_started_is_reported),
#endif
#if defined(__GLIBC__) && !HAS_SANITIZER
		cmocka_unit_test(trimming_gives_back_what_the_thread_has_kept),
#endif
		cmocka_unit_test(misuse_aborts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
