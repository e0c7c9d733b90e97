/* leap.c: moves the monotonic clock of one process forward, by LD_PRELOAD. The file CLOCK_LEAP_FILE
 * contains the number of seconds in 8 bytes. A wait that began before a leap takes as long as
 * without it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static const volatile int64_t *file;

__attribute__((constructor)) static void
map_file(void)
{
	int fd = open(getenv("CLOCK_LEAP_FILE"), O_RDONLY | O_CLOEXEC);

	file = mmap(NULL, sizeof(*file), PROT_READ, MAP_SHARED, fd, 0);
	if (fd < 0 || file == MAP_FAILED)
		abort();
}

static int64_t
leap_s(void)
{
	return file ? *file : 0;
}

int
clock_gettime(clockid_t clock, struct timespec *ts)
{
	static int (*real)(clockid_t, struct timespec *);
	int rc;

	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	rc = real(clock, ts);
	if (rc == 0 && clock == CLOCK_MONOTONIC)
		ts->tv_sec += leap_s();
	return rc;
}

/* All condition variables of ccmd are on the monotonic clock (src/base/thread.c). */
int
pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                       const struct timespec *restrict until)
{
	static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	struct timespec shifted = *until;

	if (!real)
		real = (int (*)(pthread_cond_t *, pthread_mutex_t *,
		                const struct timespec *))dlsym(RTLD_NEXT, "pthread_cond_timedwait");
	shifted.tv_sec -= leap_s();
	return real(cond, mutex, &shifted);
}
