/* tests/simulation/system.c: threads, clocks, random numbers, the log and the end of a process, as
 * the seed decides; see system.h.
 *
 * A mutex that is all zero bytes is free, as PTHREAD_MUTEX_INITIALIZER is. Misuse that the C
 * library would not notice (a lock that another thread holds, or that is held when its thread ends)
 * fails the history. */
#include "system.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/child.h"
#include "base/clock.h"
#include "heap.h"
#include "parts.h"

/* CLOCK_MONOTONIC and CLOCK_BOOTTIME at the start */
#define MONO_START_NS (1000 * NS_PER_SEC)

enum {
	MAX_KEYS = 8,
	OUTPUT_MAX = 1 << 20,
};

static uint64_t system_seed_value;
static struct rng random_of[N_REPLICAS];
static int pending_signal[N_REPLICAS];
static const void *signal_channel[N_REPLICAS];

/* A destructor is code of a replica's object; both objects use the same few keys. */
static void (*destructors[N_REPLICAS][MAX_KEYS])(void *);
static unsigned n_keys[N_REPLICAS];
static int64_t n_bytes[N_REPLICAS], max_bytes[N_REPLICAS];
static uint64_t n_allocations[N_REPLICAS], n_frees[N_REPLICAS], n_forgotten[N_REPLICAS];

static struct buf outputs[N_REPLICAS] = { BUF_INIT(OUTPUT_MAX), BUF_INIT(OUTPUT_MAX) };

struct str
system_output(unsigned replica)
{
	return buf_str(&outputs[replica]);
}

void
system_seed(uint64_t seed)
{
	system_seed_value = seed;
}

void
system_start(const struct replica *r)
{
	random_of[r->index] = rng_of(system_seed_value, "replica",
	                             r->index * 1000000 + r->incarnation);
	pending_signal[r->index] = 0;
	signal_channel[r->index] = NULL;
	n_keys[r->index] = 1;
	n_bytes[r->index] = 0;
	n_forgotten[r->index] = n_allocations[r->index] - n_frees[r->index];
	buf_reset(&outputs[r->index]);
	heap_start(r->index);
}

static struct replica *
self(void)
{
	return fiber_replica(fiber_self());
}

/* ---- time ---- */

static int64_t
mono_of_now(const struct replica *r)
{
	return MONO_START_NS + schedule_now_ns() - r->asleep_ns;
}

static int64_t
now_of_mono(const struct replica *r, int64_t mono_ns)
{
	return mono_ns == CLOCK_FOREVER ? CLOCK_FOREVER : mono_ns - MONO_START_NS + r->asleep_ns;
}

int64_t
world_mono_of_boot(int64_t boot_ns)
{
	return boot_ns == CLOCK_FOREVER ? CLOCK_FOREVER : boot_ns - self()->asleep_ns;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *ret);

int
__wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
	const struct replica *r = self();
	int64_t ns = mono_of_now(r);

	if (id == CLOCK_BOOTTIME)
		ns += r->asleep_ns;
	else if (id == CLOCK_REALTIME)
		ns = WALL_START_NS + schedule_now_ns() + r->wall_shift_ns;
	ret->tv_sec = ns / NS_PER_SEC;
	ret->tv_nsec = ns % NS_PER_SEC;
	return 0;
}

/* ---- memory ---- */

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_reallocarray(void *block, size_t n, size_t size);
void __wrap_free(void *block);

static void
count_bytes(int64_t change)
{
	unsigned i = self()->index;

	n_bytes[i] += change;
	if (n_bytes[i] > max_bytes[i])
		max_bytes[i] = n_bytes[i];
}

/* Code of a replica that no fiber runs initialises its object. */
void *
__wrap_malloc(size_t size)
{
	void *block;

	if (!fiber_self())
		return malloc(size);
	block = heap_alloc(self()->index, size);
	if (block) {
		count_bytes((int64_t)size);
		n_allocations[self()->index]++;
	}
	return block;
}

void *
__wrap_calloc(size_t n, size_t size)
{
	size_t bytes;
	void *block;

	if (__builtin_mul_overflow(n, size, &bytes))
		return NULL;
	block = __wrap_malloc(bytes);
	return block ? memset(block, 0, bytes) : NULL;
}

void *
__wrap_realloc(void *block, size_t size)
{
	return __wrap_reallocarray(block, 1, size);
}

void *
__wrap_reallocarray(void *block, size_t n, size_t size)
{
	size_t bytes, before;
	void *copy;

	if (__builtin_mul_overflow(n, size, &bytes))
		return NULL;
	if (!block)
		return __wrap_malloc(bytes);
	if (!heap_has(block))
		return realloc(block, bytes);
	before = heap_size(block);
	if (heap_resize(block, bytes)) {
		count_bytes((int64_t)bytes - (int64_t)before);
		return block;
	}
	copy = __wrap_malloc(bytes);
	if (!copy)
		return NULL;
	memcpy(copy, block, before < bytes ? before : bytes);
	__wrap_free(block);
	return copy;
}

/* What the C library or OpenSSL has allocated is freed there. */
void
__wrap_free(void *block)
{
	if (!heap_has(block)) {
		free(block);
		return;
	}
	count_bytes(-(int64_t)heap_size(block));
	n_frees[self()->index]++;
	heap_free(block);
}

size_t
system_n_bytes(unsigned replica)
{
	return n_bytes[replica] > 0 ? (size_t)n_bytes[replica] : 0;
}

size_t
system_max_bytes(unsigned replica)
{
	return (size_t)max_bytes[replica];
}

void
system_forget_max(unsigned replica)
{
	max_bytes[replica] = n_bytes[replica];
}

/* Without what former incarnations have left. */
size_t
system_n_blocks(unsigned replica)
{
	return n_allocations[replica] - n_frees[replica] - n_forgotten[replica];
}

uint64_t
system_n_allocations(unsigned replica)
{
	return n_allocations[replica];
}

/* ---- locks ---- */

struct mutex {
	struct fiber *holder;
	unsigned n_waiting;
};

_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t), "a mutex has no room");

int __wrap_pthread_mutex_init(struct mutex *m, const void *attributes);
int __wrap_pthread_mutex_destroy(struct mutex *m);
int __wrap_pthread_mutex_lock(struct mutex *m);
int __wrap_pthread_mutex_unlock(struct mutex *m);

int
__wrap_pthread_mutex_init(struct mutex *m, const void *attributes)
{
	(void)attributes;
	*m = (struct mutex){ 0 };
	return 0;
}

int
__wrap_pthread_mutex_destroy(struct mutex *m)
{
	return m->holder ? EBUSY : 0;
}

static void
lock(struct mutex *m)
{
	if (m->holder == fiber_self())
		fail("%s: thread %s locks a mutex twice", self()->name, fiber_name(fiber_self()));
	m->n_waiting++;
	while (m->holder)
		(void)fiber_wait(m, CLOCK_FOREVER);
	m->n_waiting--;
	m->holder = fiber_self();
	fiber_count_lock(fiber_self(), 1);
}

static void
unlock(struct mutex *m)
{
	m->holder = NULL;
	fiber_count_lock(fiber_self(), -1);
	if (m->n_waiting > 0)
		fiber_wake(m, false);
}

int
__wrap_pthread_mutex_lock(struct mutex *m)
{
	fiber_may_yield();
	lock(m);
	fiber_may_yield();
	return 0;
}

int
__wrap_pthread_mutex_unlock(struct mutex *m)
{
	if (m->holder != fiber_self())
		return EPERM;
	unlock(m);
	fiber_may_yield();
	return 0;
}

/* ---- condition variables: their address is the channel ---- */

int __wrap_pthread_cond_init(void *c, const void *attributes);
int __wrap_pthread_cond_destroy(void *c);
int __wrap_pthread_cond_wait(void *c, struct mutex *m);
int __wrap_pthread_cond_timedwait(void *c, struct mutex *m, const struct timespec *until);
int __wrap_pthread_cond_signal(void *c);
int __wrap_pthread_cond_broadcast(void *c);

int
__wrap_pthread_cond_init(void *c, const void *attributes)
{
	(void)c;
	(void)attributes;
	return 0;
}

int
__wrap_pthread_cond_destroy(void *c)
{
	(void)c;
	return 0;
}

static bool
wait_until(void *c, struct mutex *m, int64_t until_ns)
{
	bool is_woken;

	if (m->holder != fiber_self())
		fail("%s: a thread waits without the mutex", self()->name);
	unlock(m);
	is_woken = fiber_wait(c, until_ns);
	lock(m);
	return is_woken;
}

int
__wrap_pthread_cond_wait(void *c, struct mutex *m)
{
	(void)wait_until(c, m, CLOCK_FOREVER);
	return 0;
}

int
__wrap_pthread_cond_timedwait(void *c, struct mutex *m, const struct timespec *until)
{
	int64_t mono_ns = until->tv_sec * NS_PER_SEC + until->tv_nsec;

	return wait_until(c, m, now_of_mono(self(), mono_ns)) ? 0 : ETIMEDOUT;
}

int
__wrap_pthread_cond_signal(void *c)
{
	fiber_wake(c, false);
	fiber_may_yield();
	return 0;
}

int
__wrap_pthread_cond_broadcast(void *c)
{
	fiber_wake(c, true);
	fiber_may_yield();
	return 0;
}

/* ---- threads ---- */

int __wrap_pthread_join(pthread_t thread, void **ret);
int __wrap_pthread_detach(pthread_t thread);
pthread_t __wrap_pthread_self(void);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);
int __wrap_pthread_getname_np(pthread_t thread, char *ret, size_t size);
int __wrap_pthread_sigmask(int how, const void *set, void *ret);
int __wrap_pthread_once(pthread_once_t *once, void (*run)(void));
int __wrap_pthread_key_create(pthread_key_t *ret, void (*destroy)(void *));
int __wrap_pthread_setspecific(pthread_key_t key, const void *value);

static struct fiber *
fiber_of(pthread_t thread)
{
	return (struct fiber *)(uintptr_t)thread;
}

/* Not wrapped: libgcc has a __wrap_pthread_create() of its own. The dynamic linker finds this one
 * before the C library's. */
int
pthread_create(pthread_t *ret, const pthread_attr_t *attributes, void *(*run)(void *), void *arg)
{
	(void)attributes;
	*ret = (pthread_t)(uintptr_t)fiber_new(self(), run, arg);
	return 0;
}

int
__wrap_pthread_join(pthread_t thread, void **ret)
{
	(void)ret;
	while (!fiber_has_ended(fiber_of(thread)))
		(void)fiber_wait(fiber_of(thread), CLOCK_FOREVER);
	return 0;
}

int
__wrap_pthread_detach(pthread_t thread)
{
	(void)thread;
	return 0;
}

pthread_t
__wrap_pthread_self(void)
{
	return (pthread_t)(uintptr_t)fiber_self();
}

int
__wrap_pthread_setname_np(pthread_t thread, const char *name)
{
	fiber_set_name(fiber_of(thread), name);
	return 0;
}

int
__wrap_pthread_getname_np(pthread_t thread, char *ret, size_t size)
{
	const char *name = fiber_name(fiber_of(thread));

	memcpy(ret, name, strnlen(name, size - 1) + 1);
	return 0;
}

int
__wrap_pthread_sigmask(int how, const void *set, void *ret)
{
	(void)how;
	(void)set;
	(void)ret;
	return 0;
}

int
__wrap_pthread_once(pthread_once_t *once, void (*run)(void))
{
	enum { NOT_RUN, RUNS, HAS_RUN };

	while (*once == RUNS)
		fiber_yield();
	if (*once == HAS_RUN)
		return 0;
	*once = RUNS;
	run();
	*once = HAS_RUN;
	return 0;
}

int
__wrap_pthread_key_create(pthread_key_t *ret, void (*destroy)(void *))
{
	unsigned r = self()->index;

	if (n_keys[r] == MAX_KEYS)
		return EAGAIN;
	*ret = n_keys[r]++;
	destructors[r][*ret] = destroy;
	return 0;
}

int
__wrap_pthread_setspecific(pthread_key_t key, const void *value)
{
	*fiber_specific(fiber_self(), key) = (void *)(uintptr_t)value;
	return 0;
}

void
replica_destroy_specific(unsigned key, void *value)
{
	if (value)
		destructors[self()->index][key](value);
}

/* ---- waiting without a lock: parts.c, curl_model.c ---- */

void
world_wait(const void *channel, int64_t until_mono_ns)
{
	(void)fiber_wait(channel, now_of_mono(self(), until_mono_ns));
}

void
world_wake(const void *channel)
{
	fiber_wake(channel, true);
}

int
world_take_signal(const void *channel)
{
	unsigned i = self()->index;
	int signal = pending_signal[i];

	signal_channel[i] = channel;
	pending_signal[i] = 0;
	return signal;
}

void
replica_signal(struct replica *r, int signal)
{
	trace("%s gets signal %d", r->name, signal);
	pending_signal[r->index] = signal;
	if (signal_channel[r->index])
		fiber_wake(signal_channel[r->index], true);
}

/* ---- random numbers, names, the log, the end ---- */

ssize_t __wrap_getrandom(void *bytes, size_t n, unsigned flags);
int __wrap_gethostname(char *name, size_t size);
char *__wrap_getenv(const char *name);
int __wrap_getaddrinfo(const char *name, const char *service, const void *hints, void *ret);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
void __wrap__exit(int status);
int __wrap_isatty(int fd);
void __wrap_sandbox_harden(void);
unsigned __wrap_sandbox_enter(const void *config, void *notes);
void __wrap_abort(void);
void __wrap___assert_fail(const char *text, const char *file, unsigned line, const char *function);
int __wrap_mallopt(int name, int value);
void __wrap_thread_trim(void);
void __wrap_metrics_process_setup(void);
void *__wrap_signal(int number, void *handler);
void __wrap_explicit_bzero(void *bytes, size_t n);
void __wrap___explicit_bzero_chk(void *bytes, size_t n, size_t size);

/* Also called by code of the models: base/map.c seeds its hashes. */
ssize_t
__wrap_getrandom(void *bytes, size_t n, unsigned flags)
{
	static struct rng of_models = { 1 };
	struct rng *r = fiber_self() ? &random_of[self()->index] : &of_models;
	unsigned char *to = bytes;

	(void)flags;
	for (size_t i = 0; i < n; i++)
		to[i] = (unsigned char)rng_next(r);
	return (ssize_t)n;
}

int
__wrap_gethostname(char *name, size_t size)
{
	(void)size;
	name[0] = self()->name[0];
	name[1] = '\0';
	return 0;
}

char *
__wrap_getenv(const char *name)
{
	return (char *)(uintptr_t)replica_getenv(self(), name);
}

static const char *(*resolver)(const char *name);

void
system_set_resolver(const char *(*resolve)(const char *name))
{
	resolver = resolve;
}

/* ---- descriptors and programs ---- */

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_eventfd_write(int fd, eventfd_t value);
int __wrap_inotify_init1(int flags);
bool __wrap_child_run(struct call *call, const struct child_spec *spec, struct child_result *ret,
                      struct error *err);

static const char poll_channel;
static int (*programs)(const struct replica *, const char *const argv[]);

void
system_set_programs(int (*run)(const struct replica *, const char *const argv[]))
{
	programs = run;
}

/* Of all descriptors only those of base/wake.h become ready by themselves: eventfd_write(). */
int
__wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	int64_t until_ns = timeout_ms < 0 ? CLOCK_FOREVER
	                                  : schedule_now_ns() + timeout_ms * NS_PER_MS;
	int n_ready;

	while ((n_ready = poll(fds, n, 0)) == 0 && schedule_now_ns() < until_ns)
		(void)fiber_wait(&poll_channel, until_ns);
	return n_ready;
}

int
__wrap_eventfd_write(int fd, eventfd_t value)
{
	int result = eventfd_write(fd, value);

	fiber_wake(&poll_channel, true);
	return result;
}

/* Then programs compare the time of a file every few seconds. */
int
__wrap_inotify_init1(int flags)
{
	(void)flags;
	errno = EMFILE;
	return -1;
}

bool
__wrap_child_run(struct call *call, const struct child_spec *spec, struct child_result *ret,
                 struct error *err)
{
	const char nobody = 0;

	(void)call;
	(void)err;
	(void)fiber_wait(&nobody, schedule_now_ns() + 50 * NS_PER_MS);
	ret->exit_code = programs ? programs(self(), spec->argv) : 127;
	return true;
}

/* There is no terminal. */
int
__wrap_isatty(int fd)
{
	(void)fd;
	return 0;
}

/* It would restrict the process of the simulation. */
void
__wrap_sandbox_harden(void)
{
}

unsigned
__wrap_sandbox_enter(const void *config, void *notes)
{
	(void)config;
	(void)notes;
	return 0;
}

int
__wrap_getaddrinfo(const char *name, const char *service, const void *hints, void *ret)
{
	const char *address = resolver ? resolver(name) : NULL;

	return address ? getaddrinfo(address, service, hints, ret) : EAI_NONAME;
}

static void (*log_observer)(const struct replica *, struct str line);

void
system_set_log_observer(void (*observe)(const struct replica *, struct str line))
{
	log_observer = observe;
}

ssize_t
__wrap_write(int fd, const void *bytes, size_t n)
{
	if (fd == STDOUT_FILENO)
		buf_add_str(&outputs[self()->index], str_n(bytes, n));
	if (fd == STDOUT_FILENO)
		return (ssize_t)n;
	if (fd != STDERR_FILENO)
		return write(fd, bytes, n);
	/* without the time, which the trace has, and the line's end */
	trace("%s log: %.*s", self()->name, (int)n - 29, (const char *)bytes + 28);
	if (log_observer)
		log_observer(self(), str_n((const char *)bytes + 28, n - 29));
	return (ssize_t)n;
}

void
__wrap__exit(int status)
{
	replica_exit(status);
}

void
__wrap_abort(void)
{
	fail("%s aborts", self()->name);
	replica_exit(134);
}

void
__wrap___assert_fail(const char *text, const char *file, unsigned line, const char *function)
{
	fail("%s: assertion failed: %s at %s:%u, %s", self()->name, text, file, line, function);
	replica_exit(134);
}

/* These would only cost time. */
int
__wrap_mallopt(int name, int value)
{
	(void)name;
	(void)value;
	return 1;
}

void
__wrap_thread_trim(void)
{
}

/* It opens files of /proc, and the metrics that it sets are those of the real process. */
void
__wrap_metrics_process_setup(void)
{
}

void
__wrap_explicit_bzero(void *bytes, size_t n)
{
	(void)bytes;
	(void)n;
}

void
__wrap___explicit_bzero_chk(void *bytes, size_t n, size_t size)
{
	(void)bytes;
	(void)n;
	(void)size;
}

void *
__wrap_signal(int number, void *handler)
{
	(void)number;
	(void)handler;
	return NULL;
}
