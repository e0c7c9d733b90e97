/* stall.c: holds the thread whose name STALL_THREAD gives for as long as the file STALL_FILE is
 * there, when it next asks for the time, by LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int
is_held(void)
{
	const char *path = getenv("STALL_FILE"), *thread = getenv("STALL_THREAD");
	char name[16] = "";

	if (!path || !thread || access(path, F_OK) != 0)
		return 0;
	return pthread_getname_np(pthread_self(), name, sizeof(name)) == 0 &&
	       strcmp(name, thread) == 0;
}

int
clock_gettime(clockid_t clock, struct timespec *ts)
{
	static int (*real)(clockid_t, struct timespec *);

	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	while (is_held())
		usleep(10000);
	return real(clock, ts);
}
