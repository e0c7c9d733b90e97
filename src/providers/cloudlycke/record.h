/* record.h: one load balancer, for allocations, HAProxy's file and hooks: its Service, addresses,
 * ports and nodes, and the progress of its hook.
 *
 * Changes are found by `input`, a hash of all that HAProxy and the hook are given: the state file
 * has it in place of the whole input. A record is immutable. A change replaces it by a new one, so
 * that a failed write is undone by restoring the old record, and a running hook or HAProxy's file
 * has a record that does not change meanwhile. Records with the same nodes share one list of them:
 * there may be thousands of nodes behind hundreds of balancers.
 */
#ifndef CCMD_CLOUDLYCKE_RECORD_H
#define CCMD_CLOUDLYCKE_RECORD_H

#include "base/arena.h"
#include "base/ref.h"
#include "cloud/balancer.h"
#include "providers/cloudlycke/inventory.h"

enum {
	CL_FAMILIES = 2,
};

/** At most one of each family. */
struct cl_addresses {
	struct ip items[CL_FAMILIES];
	size_t n;
};

bool cl_addresses_have(const struct cl_addresses *, const struct ip *ip);
/** The address of that family, or NULL. */
const struct ip *cl_addresses_of(const struct cl_addresses *, enum ip_family family);
/** The same ones in the same order? */
bool cl_addresses_eq(const struct cl_addresses *a, const struct cl_addresses *b);

/** What one Service has. All views are borrowed. */
struct cl_allocation {
	struct str namespace, service, uid;
	struct str share_key; /* empty: the addresses are not shared */
	const struct lb_port *ports;
	size_t n_ports;
	struct cl_addresses addresses;
	/* Its Service is gone, and only its name and addresses are known: those of the state
	 * file. */
	bool is_orphan;
};

struct cl_target {
	struct str name, id; /* id: the machine's */
	/* the first InternalIP of each family: node ports are reached there */
	struct cl_addresses addresses;
};

/** Sorted by name. */
struct cl_targets {
	struct ref refs;
	struct arena arena;
	uint64_t hash;
	struct cl_target *items;
	size_t n;
};

/** Nodes without a provider ID are left out. One reference. */
struct cl_targets *cl_targets_new(const struct node_ref nodes[], size_t n);
struct cl_targets *cl_targets_ref(struct cl_targets *);
void cl_targets_unref(struct cl_targets *); /* NULL is fine */
DEFINE_CLEANUP(struct cl_targets, cl_targets_unref)
bool cl_targets_eq(const struct cl_targets *a, const struct cl_targets *b);

enum cl_proxy {
	CL_PROXY_NONE,
	CL_PROXY_V1,
	CL_PROXY_V2,
};

/** What the hook was run for. Each change of its input begins a new generation, which is done when
 * the hook that was run for it has ended. Until then it is not known what the hook has set up. */
struct cl_progress {
	int64_t generation; /* of the last input; 0: there was none */
	int64_t input;      /* cl_record.input of that generation; 0: not known */
	int64_t done;       /* the last generation that the hook ended for; 0: none */
	struct str error;   /* of that run; empty: it succeeded */
};

/** The views are borrowed, except in a record. */
struct cl_record_values {
	struct cl_allocation allocation;
	struct str cluster;
	struct str name; /* made from the UID; the key in the state file */
	struct str pool, hostname;
	struct cl_targets *targets; /* never NULL in a record */
	enum lb_traffic traffic;
	int32_t health_check_node_port;
	bool has_client_ip_affinity;
	int32_t affinity_timeout_s;
	const struct str *source_ranges; /* canonical networks */
	size_t n_source_ranges;
	int ip_mode; /* enum cl_ip_mode */
	enum cl_proxy proxy;

	int64_t input; /* hash of the above, is_deleting and is_left_out; positive */
	struct cl_progress hook;
	bool is_deleting;
	bool is_left_out; /* of HAProxy's file, which has no room for it */
	size_t file_size; /* cl_haproxy_size(); 0 if it is not in the file */
};

struct cl_record {
	struct ref refs;
	struct cl_record_values values;
	_Alignas(max_align_t) char memory[]; /* of the texts and lists in `values` */
};

/** Copies the values; takes a reference of their targets. One reference. */
struct cl_record *cl_record_new(const struct cl_record_values *values);
struct cl_record *cl_record_ref(struct cl_record *);
void cl_record_unref(struct cl_record *); /* NULL is fine */
DEFINE_CLEANUP(struct cl_record, cl_record_unref)

/** Unrefs each record and frees the array. */
void cl_records_free(struct cl_record **records, size_t n);

/** The value for `input`. */
int64_t cl_record_hash(const struct cl_record_values *);

/** Does the hook have to run for it? */
bool cl_record_needs_hook(const struct cl_record *);
/** Appends what the hook is given: a JSON object in a line. action: "ensure" or "delete". */
void cl_record_hook_input(struct buf *b, const struct cl_record *, const char *action);

/** Appends ,"addresses":["10.0.0.1", …]. */
void cl_addresses_json(struct buf *b, const struct cl_addresses *);

#endif
