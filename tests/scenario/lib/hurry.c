/* hurry.c: lets time pass HURRY times as fast for one process, by LD_PRELOAD: an hour becomes a
 * minute. The wall clock is left alone, and so is what other processes count. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

#define SECOND INT64_C(1000000000)

static int64_t rate = 1, start_mono, start_boot;

static int
real_gettime(clockid_t clock, struct timespec *ts)
{
	static int (*real)(clockid_t, struct timespec *);

	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	return real(clock, ts);
}

static int64_t
nanoseconds(const struct timespec *ts)
{
	return ts->tv_sec * SECOND + ts->tv_nsec;
}

static struct timespec
timespec_of(int64_t ns)
{
	return (struct timespec){ .tv_sec = ns / SECOND, .tv_nsec = ns % SECOND };
}

__attribute__((constructor)) static void
begin(void)
{
	struct timespec mono, boot;

	real_gettime(CLOCK_MONOTONIC, &mono);
	real_gettime(CLOCK_BOOTTIME, &boot);
	start_mono = nanoseconds(&mono);
	start_boot = nanoseconds(&boot);
	rate = atoi(getenv("HURRY"));
}

int
clock_gettime(clockid_t clock, struct timespec *ts)
{
	int64_t start = clock == CLOCK_BOOTTIME ? start_boot : start_mono;
	int rc = real_gettime(clock, ts);

	if (rc == 0 && (clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME))
		*ts = timespec_of(start + (nanoseconds(ts) - start) * rate);
	return rc;
}

/* All condition variables of ccmd are on the monotonic clock (src/base/thread.c). */
int
pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                       const struct timespec *restrict until)
{
	static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	struct timespec real_until = timespec_of(start_mono +
	                                         (nanoseconds(until) - start_mono) / rate);

	if (!real)
		real = (int (*)(pthread_cond_t *, pthread_mutex_t *,
		                const struct timespec *))dlsym(RTLD_NEXT, "pthread_cond_timedwait");
	return real(cond, mutex, &real_until);
}

/* The HTTP client waits here, for its timers too (src/http/events.c). */
int
epoll_wait(int fd, struct epoll_event *events, int n, int timeout_ms)
{
	static int (*real)(int, struct epoll_event *, int, int);

	if (!real)
		real = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
	return real(fd, events, n, timeout_ms > 0 ? 1 + timeout_ms / (int)rate : timeout_ms);
}
