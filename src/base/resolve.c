/* base/resolve.c: see resolve.h. */
#include "base/resolve.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/ref.h"
#include "base/thread.h"

struct lookup {
	struct ref refs; /* of the caller and of the thread */
	pthread_mutex_t mu;
	pthread_cond_t changed; /* mu */
	bool is_done;           /* mu */
	int result;             /* mu; of getaddrinfo() */
	struct ip ips[RESOLVE_MAX];
	size_t n_ips; /* mu */
	char name[];
};

static _Atomic unsigned n_threads;

static void
lookup_unref(struct lookup *l)
{
	if (!ref_drop(&l->refs))
		return;
	cond_destroy(&l->changed);
	mutex_destroy(&l->mu);
	free(l);
}
DEFINE_CLEANUP(struct lookup, lookup_unref)

static bool
lookup_read_address(const struct sockaddr *address, struct ip *ret)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (address->sa_family == AF_INET6) {
		memcpy(ret->bytes, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr,
		       sizeof(ret->bytes));
		return true;
	}
	if (address->sa_family != AF_INET)
		return false;
	memcpy(ret->bytes, mapped, sizeof(mapped));
	memcpy(ret->bytes + sizeof(mapped),
	       &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
	return true;
}

static void *
lookup_run(void *arg)
{
	CLEANUP(lookup_unrefp) struct lookup *l = arg;
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *all = NULL;
	int result = getaddrinfo(l->name, NULL, &hints, &all);

	mutex_lock(&l->mu);
	for (struct addrinfo *one = all; one && l->n_ips < RESOLVE_MAX; one = one->ai_next)
		l->n_ips += lookup_read_address(one->ai_addr, &l->ips[l->n_ips]);
	l->result = result == 0 && l->n_ips == 0 ? EAI_NONAME : result;
	l->is_done = true;
	cond_broadcast(&l->changed);
	mutex_unlock(&l->mu);
	if (all)
		freeaddrinfo(all);
	atomic_fetch_sub(&n_threads, 1);
	return NULL;
}

static void
lookup_cancel(void *arg)
{
	struct lookup *l = arg;
	WITH_LOCK(&l->mu);

	cond_broadcast(&l->changed);
}

static bool
lookup_wait(struct lookup *l, int64_t timeout_ms, struct cancel *cancel, struct error *err)
{
	int64_t deadline_ns = clock_mono(&clock_real) + timeout_ms * NS_PER_MS;
	WITH_HOOK(cancel, lookup_cancel, l);
	WITH_LOCK(&l->mu);

	while (!l->is_done && !cancel_is_fired(cancel) &&
	       clock_wait(&clock_real, &l->changed, &l->mu, deadline_ns))
		;
	if (!l->is_done && cancel_is_fired(cancel))
		return err_set(err, ERR_CANCELLED, "cancelled while resolving %s", l->name);
	if (!l->is_done)
		return err_set(err, ERR_TIMEOUT, "%s: the name was not resolved within %lld ms",
		               l->name, (long long)timeout_ms);
	if (l->result != 0)
		return err_set(err, ERR_INVALID, "%s: %s", l->name, gai_strerror(l->result));
	return true;
}

bool
resolve_host(struct str name, int64_t timeout_ms, struct cancel *cancel, struct ip ret[RESOLVE_MAX],
             size_t *ret_n, struct error *err)
{
	CLEANUP(lookup_unrefp) struct lookup *l = NULL;
	pthread_t thread;

	if (ip_parse(name, ret)) {
		*ret_n = 1;
		return true;
	}
	if (atomic_fetch_add(&n_threads, 1) >= LIMIT_LOOKUPS) {
		atomic_fetch_sub(&n_threads, 1);
		return err_set(
			err, ERR_UNAVAILABLE,
			"%" STR_FMT
			": %d names are being resolved already; the name servers do not respond",
			STR_ARG(name), LIMIT_LOOKUPS);
	}
	l = xcalloc(1, sizeof(*l) + name.len + 1);
	mutex_init(&l->mu);
	cond_init(&l->changed);
	memcpy(l->name, name.ptr, name.len);
	ref_init(&l->refs);
	ref_take(&l->refs);
	if (thread_try_start(&thread, "resolver", lookup_run, l) != 0) {
		lookup_unref(l); /* the thread's reference */
		atomic_fetch_sub(&n_threads, 1);
		return err_set(err, ERR_UNAVAILABLE, "%s: cannot start a thread to resolve it",
		               l->name);
	}
	MUST(pthread_detach(thread));
	if (!lookup_wait(l, timeout_ms, cancel, err))
		return false;
	memcpy(ret, l->ips, sizeof(l->ips));
	*ret_n = l->n_ips;
	return true;
}
