/* tests/simulation/example.h: a model of the example cloud's API (src/providers/example), with the
 * answers of tests/sim/example.py.
 *
 * Machines and balancers are JSON objects, as the API shows them. An account has its own; their IDs
 * are different in all accounts.
 *
 * Threads: none.
 */
#ifndef CCMD_TESTS_SIMULATION_EXAMPLE_H
#define CCMD_TESTS_SIMULATION_EXAMPLE_H

#include <yyjson.h>

#include "server.h"

struct example;
struct example_account;

enum example_kind {
	EXAMPLE_MACHINES,
	EXAMPLE_BALANCERS,
	EXAMPLE_N_KINDS,
};

/** How the API behaves. May be changed at any time. */
struct example_settings {
	size_t page_max;    /* items; 2, as that of tests/sim */
	int64_t address_ns; /* until a new balancer has its address; 0 */
};

/** A request that has changed something. */
struct example_change {
	const struct example_account *account;
	struct str token; /* empty: of a person */
	const char *method;
	enum example_kind kind;
	yyjson_mut_val *item; /* afterwards; of a DELETE before it */
};

typedef void example_observe(void *arg, const struct example_change *change);

struct example *example_new(int64_t wall_ns);
struct server *example_server(struct example *);
struct example_settings *example_settings(struct example *);
void example_set_observer(struct example *, example_observe *observe, void *arg);

struct example_account *example_add_account(struct example *);
/** account NULL: the token is refused. */
void example_set_token(struct example *, struct str token, struct example_account *account);
const struct example_account *example_account_of(const struct example *, struct str token);
/** At most so many balancers; the initial value is SIZE_MAX. */
void example_set_limit(struct example_account *, size_t limit);

/** The machines or balancers of an account. */
size_t example_count(const struct example_account *, enum example_kind);
yyjson_mut_val *example_at(const struct example_account *, enum example_kind, size_t i);
/** NULL: there is none. */
yyjson_mut_val *example_find(const struct example_account *, enum example_kind, struct str id);
/** The text of a member; empty: it has none. Valid as long as the model. */
struct str example_text(yyjson_mut_val *item, const char *name);
void example_set_text(struct example *, yyjson_mut_val *item, const char *name, const char *text);

/** A running machine. */
yyjson_mut_val *example_add_machine(struct example *, struct example_account *, const char *name,
                                    const char *ip);
/** A request by a person. target: "/balancers/7". Returns the status of the answer. */
int example_request(struct example *, struct example_account *, const char *method,
                    const char *target, const char *body);

#endif
