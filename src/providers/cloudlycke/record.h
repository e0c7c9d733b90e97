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
	CL_FAMILIES = 2, /* at most one address of each */
};

/** What one Service holds. All views are borrowed. */
struct cl_holding {
	struct str namespace, service, uid;
	struct str share_key; /* empty: the addresses are not shared */
	const struct lb_port *ports;
	size_t n_ports;
	struct ip addresses[CL_FAMILIES];
	size_t n_addresses;
	/* Its Service is gone, and only its name and addresses are known: those of the state
	 * file. */
	bool is_orphan;
};

bool cl_holding_has(const struct cl_holding *h, const struct ip *ip);
/** The same addresses in the same order? */
bool cl_holding_addresses_eq(const struct cl_holding *a, const struct cl_holding *b);

struct cl_target {
	struct str name, id; /* id: the machine's */
	const struct ip *addresses;
	size_t n_addresses;
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

struct cl_record {
	struct ref refs;
	void *memory; /* of all texts and lists */

	struct cl_holding holding; /* a draft's fields begin here: see cl_record_draft() */
	struct str cluster;
	struct str name; /* made from the UID; the key in the state file */
	struct str pool, hostname;
	struct cl_targets *targets; /* never NULL */
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

/** Copies a draft, which is a record on the stack with borrowed views; takes a reference of its
 * targets. One reference. */
struct cl_record *cl_record_new(const struct cl_record *draft);
struct cl_record *cl_record_ref(struct cl_record *);
void cl_record_unref(struct cl_record *); /* NULL is fine */
DEFINE_CLEANUP(struct cl_record, cl_record_unref)

/** Unrefs each record and frees the array. */
void cl_records_free(struct cl_record **records, size_t n);
/** By name. */
void cl_records_sort(struct cl_record **records, size_t n);

/** A draft with the record's fields; its views are borrowed. */
struct cl_record cl_record_draft(const struct cl_record *);

/** The value for `input`. */
int64_t cl_record_hash(const struct cl_record *);

/** Does the hook have to run for it? */
bool cl_record_needs_hook(const struct cl_record *);

/** Appends the members of its JSON object, without braces. */
void cl_record_json(struct buf *b, const struct cl_record *);
/** Appends ,"addresses":["10.0.0.1", …]. */
void cl_addresses_json(struct buf *b, const struct ip *ips, size_t n);
/** Appends a list of nodes: [{"name":…}, …]. */
void cl_targets_json(struct buf *b, const struct cl_targets *);

#endif
