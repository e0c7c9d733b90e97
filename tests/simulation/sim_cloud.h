/* tests/simulation/sim_cloud.h: what differs between the clouds of the simulated world.
 *
 * Machines, Services, replicas and faults are the same for all clouds. A cloud has its model, its
 * settings of ccmd, its own kinds of events (history.c), and its own meaning of a load balancer.
 *
 * Threads: none.
 */
#ifndef CCMD_TESTS_SIMULATION_SIM_CLOUD_H
#define CCMD_TESTS_SIMULATION_SIM_CLOUD_H

#include <yyjson.h>

#include "base/buf.h"
#include "kube.h"
#include "replica.h"
#include "server.h"

struct machine;

/** Where an event happens: sim_cloud.bit, or EXTRAS. */
enum {
	ALL = 0,
	HCLOUD = 1,
	BRIGHTBOX = 2,
	CLOUDLYCKE = 4,
	EXAMPLE = 8,
	EXTRAS = 16, /* in histories in which Services ask for more than ports */
};

/** The command line and the environment of a replica, for one start. */
struct sim_start {
	char cloud[40], retry[60];
	const char *arguments[16], *environment[16]; /* NULL at the end */
	size_t n_arguments, n_variables;
	char memory[2000]; /* of the variables */
	size_t n_memory;
};

/** Keeps the pointer. */
void sim_argument(struct sim_start *, const char *argument);
void sim_variable(struct sim_start *, const char *name, const char *value);

/** Whose credentials both replicas read. */
enum account {
	ACCOUNT_OWN,
	ACCOUNT_OTHER,
	ACCOUNT_REFUSED, /* the API refuses them */
};

/** What may be sent in ten minutes: `base`, and so many more for each event of the history, start
 * of a replica, change that was made (the end of its action is asked for), and request that failed.
 */
struct costs {
	unsigned base, event, start, change, failure;
};

struct sim_cloud {
	const char *name;   /* of --cloud-provider */
	const char *prefix; /* of provider IDs */
	const char *login;  /* the target of requests for tokens; NULL: there are none */
	unsigned bit;       /* in the table of events */

	/** Creates the model, and what is in it beside machines. r NULL (sim_hcloud): a project
	 * without anything, which no check observes. Returns NULL if there is no API. */
	struct server *(*begin)(uint64_t seed, struct rng *);
	/** Removes what the history has left in the file system. NULL: nothing. */
	void (*end)(void);
	void (*configure)(const struct replica *, struct sim_start *);
	void (*set_account)(enum account);
	/** For each minute until everything has settled: what hangs ends. */
	void (*release)(void);
	/** Ends the faults of the cloud. */
	void (*settle)(void);

	/** Machines. Those that change one are called only if it exists. */
	bool (*add_machine)(struct machine *); /* sets server, provider_id, and the name */
	void (*delete_machine)(struct machine *);
	/** A new server takes its place; false: it does not apply. */
	bool (*rebuild_machine)(struct machine *);
	void (*rename_machine)(struct machine *);
	/** Returns what it is now: "running" or "off". */
	const char *(*switch_machine)(struct machine *);
	void (*settle_machine)(struct machine *);
	bool (*is_running)(const struct machine *);
	/** The number of a provider ID; 0: it is the ID of no server. */
	int64_t (*number_of)(struct str provider_id);
	/** Does the server with that number exist, or (0) one with that name? */
	bool (*has_server)(int64_t number, struct str name);

	/** Is that the token with which a replica uses the cluster's account? */
	bool (*is_own_token)(struct str token);
	/** Is it a request for one or all servers? NULL, as all others about requests: there is no
	 * API. */
	bool (*is_look)(struct str target);
	/** Is that request (is_look) about the server with that number, or (0) with that name? */
	bool (*is_about)(const char *target, int64_t number, struct str name);
	/** The answer to this request if the list of servers is empty; empty: it is another one. */
	struct str (*empty_list)(struct str target);

	/** The address of a name; NULL: it does not exist. */
	const char *(*resolve)(const char *name);

	/** How many balancers of a Service exist, and other things that ccmd has made for it. */
	size_t (*count_balancers)(const struct kube_model_object *service);
	/** At the end: is the load balancer what the Service asks for? */
	void (*check_service)(const struct kube_model_object *, yyjson_val *service,
	                      struct buf *why);
	/** At the end: what no Service needs. */
	void (*check_rest)(struct buf *why);
	/** An annotation, and two values. */
	const char *algorithm_key, *algorithms[2];
	struct costs of_all, of_one; /* of_one: about one object */
	unsigned max_idle;           /* requests in QUIET_MINUTES */
	/* what the cloud has refused is only limited by the pauses of the controller */
	bool repeats_refused;
};

extern const struct sim_cloud sim_hcloud, sim_brightbox, sim_cloudlycke, sim_example;
/** NULL: there is no such cloud. */
const struct sim_cloud *sim_find(const char *name);
/** The cloud that the seed chooses. */
const struct sim_cloud *sim_of_seed(uint64_t seed);

#endif
