/* fake_host.h: a host for tests of providers, which records events and requeues, and a clock on
 * which every wait ends immediately, at its deadline.
 */
#ifndef CCMD_TESTS_CLOUD_FAKE_HOST_H
#define CCMD_TESTS_CLOUD_FAKE_HOST_H

#include "cloud/balancer.h"
#include "cloud/host.h"

struct fake_host {
	struct cloud_host host; /* without an http client: set host.http to a http_script's */
	struct clock clock;
	int64_t now_ns;    /* of all three clocks */
	struct buf events; /* "object reason: message", each with a new line; with "Normal " before
	                      the reason of one that is no Warning; the object is the name of a
	                      node, "namespace/name" of a Service, or "-" */
	unsigned n_recovered;         /* how often controllers were woken after an outage */
	unsigned n_services_requeued; /* how often all Services were */
	struct node_ref *nodes;       /* what the host knows; borrowed */
	size_t n_nodes;
	const char *service_address; /* that a live Service has in its status; NULL: none */
};

/** Fails the test with the error's text if the call fails. */
#define assert_ok(call, err)                                   \
	do {                                                   \
		if (!(call))                                   \
			fail_msg("%s: %s", #call, (err)->msg); \
	} while (0)

void fake_host_init(struct fake_host *);
void fake_host_fini(struct fake_host *);
/** A call that is never cancelled, without a deadline. */
struct call fake_host_call(struct fake_host *, struct arena *);

#endif
