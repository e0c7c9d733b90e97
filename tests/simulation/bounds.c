/* tests/simulation/bounds.c: how many requests and how much memory a replica may need.
 *
 * - A server that refuses a write gets the same write again at most MAX_REFUSED times in an hour,
 *   and once more for each event of the history, because what has changed may be tried again.
 *   Where the rate limit, a lock, a conflict or the token is the reason, others limit the retries.
 * - When everything has settled, the replicas send what the design allows to an idle program, and
 *   their memory does not grow. */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "system.h"
#include "world.h"

enum {
	MAX_REFUSED = 5,
	MAX_IDLE_CLOUD = 3,    /* in QUIET_MINUTES of simulate.c */
	MAX_IDLE_KUBE = 400,   /* the Leases of two replicas every two seconds, and watches */
	MAX_GROWTH = 16 << 10, /* bytes: the buffers of a request that is under way at the end */
	MAX_MEMORY = 4 << 20,  /* of a replica, at any time */
};

struct refused {
	uint64_t key;
	int64_t first_ns;
	unsigned n;
	unsigned n_events; /* at first_ns */
};

static struct refused refused[512];
static uint64_t n_idle[N_HOSTS];
static size_t n_bytes[N_REPLICAS];

static bool
is_final(int status)
{
	return status >= 400 && status < 500 && status != 401 && status != 404 && status != 409 &&
	       status != 423 && status != 429;
}

static uint64_t
key_of(const struct net_request *n)
{
	uint64_t key = hash_bytes(n->incarnation * N_REPLICAS + n->replica->index + 1,
	                          n->request->method, strlen(n->request->method));

	key = hash_bytes(key, n->request->target.ptr, n->request->target.len);
	return hash_bytes(key, n->request->body.ptr, n->request->body.len);
}

void
bounds_acted(const struct net_request *n, const struct server_response *r)
{
	struct refused *one;
	uint64_t key;

	if (!checks_is_write(n) || !is_final(r->status))
		return;
	key = key_of(n);
	one = &refused[key % ARRAY_LEN(refused)];
	if (one->key != key || schedule_now_ns() - one->first_ns > 60 * MINUTE_NS)
		*one = (struct refused){ .key = key,
			                 .first_ns = schedule_now_ns(),
			                 .n_events = world.n_events };
	if (++one->n > MAX_REFUSED + world.n_events - one->n_events)
		fail("replica %s has sent %u times within an hour what is refused with %d: %s "
		     "%" STR_FMT,
		     n->replica->name, one->n, r->status, n->request->method,
		     STR_ARG(n->request->target));
}

void
bounds_quiet_begins(void)
{
	for (unsigned host = 0; host < N_HOSTS; host++)
		n_idle[host] = net_count(host);
	for (unsigned i = 0; i < N_REPLICAS; i++)
		n_bytes[i] = system_n_bytes(i);
}

void
bounds_quiet_ends(void)
{
	uint64_t n_kube = net_count(HOST_KUBE) - n_idle[HOST_KUBE];
	uint64_t n_cloud = net_count(HOST_CLOUD) - n_idle[HOST_CLOUD];

	if (n_kube > MAX_IDLE_KUBE || n_cloud > MAX_IDLE_CLOUD)
		fail("%d requests to the API server and %d to the cloud after all was settled",
		     (int)n_kube, (int)n_cloud);
	for (unsigned i = 0; i < N_REPLICAS; i++) {
		if (system_n_bytes(i) > n_bytes[i] + MAX_GROWTH)
			fail("the memory of replica %s has grown from %zu to %zu bytes after all "
			     "was settled",
			     replica_at(i)->name, n_bytes[i], system_n_bytes(i));
		if (system_max_bytes(i) > MAX_MEMORY)
			fail("replica %s had %zu bytes of memory", replica_at(i)->name,
			     system_max_bytes(i));
	}
}
