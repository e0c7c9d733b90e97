/* account.h: a small Brightbox account in memory, and processes of ccmd that use it, for tests of
 * the provider as a whole.
 *
 * Every change takes effect immediately. Names are not unique, as at Brightbox. A process is the
 * provider with a host and an HTTP client of its own.
 *
 * Threads: the account has no lock: one process at a time uses it.
 */
#ifndef CCMD_TESTS_BRIGHTBOX_ACCOUNT_H
#define CCMD_TESTS_BRIGHTBOX_ACCOUNT_H

#include "base/arena.h"
#include "cloud/balancer.h"
#include "cloud/fake_host.h"
#include "http/http.h"

enum {
	ACCOUNT_ITEMS = 40, /* of each kind */
	ACCOUNT_SERVERS = 3,
};

struct account_lb {
	char id[16];
	const char *status;
	struct str name;
	struct str body; /* of the last POST or PUT */
};

struct account_ip {
	char id[16];
	unsigned number; /* 203.0.113.number */
	struct str name;
	char lb[16]; /* id of the balancer that it is mapped to; "": none */
};

struct account_group {
	char id[16];
	struct str name;
	struct str servers[ACCOUNT_ITEMS];
	size_t n_servers;
};

struct account_policy {
	char id[16];
	struct str name;
	char group[16];
	struct str rule; /* body of the last POST or PUT; empty: it has none */
};

struct account {
	struct arena arena;
	unsigned n_ids;
	struct account_lb lbs[ACCOUNT_ITEMS];
	size_t n_lbs;
	struct account_ip ips[ACCOUNT_ITEMS];
	size_t n_ips;
	struct account_group groups[ACCOUNT_ITEMS];
	size_t n_groups;
	struct account_policy policies[ACCOUNT_ITEMS];
	size_t n_policies;
	bool lists_no_lbs;   /* although there are some: the list is late */
	bool has_no_servers; /* as the credentials of another account see it */
	bool has_no_reverse_names;
	bool reverses_nodes; /* answers have the nodes of a balancer or group in reverse order */
	const char *acme_status;      /* of all domains; NULL: "valid" */
	const char *last_acme_status; /* of the last one of each balancer; NULL: as the others */
	/* faults of the cloud, each until it is reset */
	const char *new_lb_status; /* of balancers that are created; NULL: "active" */
	bool ignores_updates;      /* a PUT of a balancer is accepted and changes nothing */
	bool never_maps;           /* a map is accepted and changes nothing */
	bool never_deletes;        /* a balancer that is deleted stays "deleting" */
	bool keeps_ips;            /* a DELETE of a cloud IP is refused with 409 */
	bool has_no_room;          /* a POST of a balancer is refused with 403 */
	bool knows_servers; /* requests with servers that do not exist are refused with 422 */
};

void account_fini(struct account *);
/** Appends all objects: equal texts are equal accounts. */
void account_write(const struct account *, struct buf *ret);

enum failure {
	FAILURE_REFUSED, /* 500; nothing was done */
	FAILURE_LOST,    /* done, but the answer did not arrive */
};

struct process {
	struct http_client http;
	struct account *account;
	struct fake_host fake;
	struct cloud *cloud;
	/* Before a request; false: it fails. NULL: nothing. */
	bool (*before)(struct process *, const struct http_request *, struct error *err);
	/* After it. NULL: nothing. */
	void (*after)(struct process *, const struct http_request *, const struct buf *answer);
	unsigned n_asked;           /* requests */
	unsigned n_writes;          /* those that are no GET */
	unsigned fail_at;           /* the request with this number fails; 0: none */
	enum failure failure;       /* in this way */
	struct buf asked;           /* "GET /servers", each with a new line */
	const struct dry_item *dry; /* NULL: changes are made */
	struct buf *changes;        /* what ensure() notes; NULL: nothing */
};

/** Starts the provider. The environment is set here. */
void process_start(struct process *, struct account *);
void process_end(struct process *);
/** Forgets what was asked. */
void process_forget(struct process *);

/** Runs ensure() of a Service; false as it does. */
bool process_ensure(struct process *, const struct lb_spec *, struct lb_status *ret,
                    struct arena *arena, struct error *err);
/** Runs adopt() of these Services; false as it does. */
bool process_adopt(struct process *, const struct lb_spec *const specs[], size_t n,
                   struct error *err);
bool process_remove(struct process *, const struct lb_spec *, bool *ret_found, struct error *err);

/** "web" in "default" of the cluster "k", port 80 at node port 30080, with two nodes. The arrays
 * that it points to are shared by all callers. */
struct lb_spec account_service(void);

/* ---- one Service ---- */

/** An account, a process and a Service, for setup and teardown. */
struct account_rig {
	struct account account;
	struct process process;
	struct arena arena;
	struct lb_spec spec;
	struct label annotations[4];
	struct lb_status status;
	struct error err;
	struct buf noted, requests; /* what the test notes */
	struct dry_run run;         /* for dry runs; the test sets run.note */
	struct dry_item item;
	unsigned n_ids; /* when the dry run began */
};

int rig_setup(void **state);
int rig_teardown(void **state);
bool rig_ensure(struct account_rig *);
/** A failure fails the test. */
void rig_settle(struct account_rig *);
/** key and value live on. */
void rig_annotate(struct account_rig *, struct str key, const char *value);

#endif
