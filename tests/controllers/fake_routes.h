/* tests/controllers/fake_routes.h: the routes of the fake cloud: what exists, what was asked, what
 * goes wrong.
 *
 * Threads: any.
 */
#ifndef CCMD_TESTS_CONTROLLERS_FAKE_ROUTES_H
#define CCMD_TESTS_CONTROLLERS_FAKE_ROUTES_H

#include "cloud/route.h"
#include "controllers/fake_balancers.h"

struct fake_cloud;
struct fake_routes;

struct fake_routes_config {
	struct clock *clock;
	unsigned families; /* as route_ops.families gives them */
	bool compares_addresses;
	int64_t idle_period_ns;
};

/** Offers them in that cloud. */
struct fake_routes *fake_routes_new(struct fake_cloud *, const struct fake_routes_config *config);
void fake_routes_free(struct fake_routes *); /* NULL is fine */

/** As somebody at the cloud's console; all is borrowed. */
void fake_routes_add(struct fake_routes *, struct route route);
bool fake_routes_has(struct fake_routes *, const char *node, const char *cidr);
size_t fake_routes_count(struct fake_routes *);

/** Calls are "list", "create NODE CIDR", "remove NODE CIDR". Faults as of balancers. */
void fake_routes_fault(struct fake_routes *, struct fake_fault fault);
void fake_routes_reach(struct fake_routes *, fake_reach_fn *reach, void *arg);
void fake_routes_forget_faults(struct fake_routes *);
size_t fake_routes_calls(struct fake_routes *, const char *begin);
/** The i-th call; ends the program when there were fewer. */
const char *fake_routes_nth(struct fake_routes *, size_t i);
void fake_routes_forget_calls(struct fake_routes *);
unsigned fake_routes_most_at_once(struct fake_routes *);

#endif
