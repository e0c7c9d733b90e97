/* cloud/cloud.h: what a cloud provider is.
 *
 * A provider is a folder in providers/ and one table, struct cloud_ops, listed in cloud/registry.c.
 * It gets small plain structs (a node's name, provider ID, labels, addresses) and never sees
 * Kubernetes; events and requeues go through cloud/host.h. Its functions run once, may fail, and
 * are run again: they keep no state that a second run would trip over.
 *
 * Life: load() reads the configuration, before the sandbox and before there is any other thread;
 * start() reaches for the cloud, inside the sandbox; close() ends it, started or not. Nothing of
 * the configuration is read twice.
 *
 * Threads: look() may be called from several threads at once; load(), start() and close() from one.
 */
#ifndef CCMD_CLOUD_CLOUD_H
#define CCMD_CLOUD_CLOUD_H

#include "base/call.h"
#include "base/error.h"
#include "base/ip.h"
#include "base/label.h"
#include "base/ref.h"

struct cloud_host;

/** A node, as a provider sees it. All views are borrowed for the length of the call. */
struct node_ref {
	struct str name;
	struct str uid;
	struct str provider_id;            /* empty: not initialised, find it by name */
	const struct label *const *labels; /* most are shared with other nodes */
	size_t n_labels;
	const struct label *annotations; /* those named in cloud_ops.node_annotations */
	size_t n_annotations;
	const struct address *addresses;
	size_t n_addresses;
	/* As in the Node's spec and not checked; only if the route controller runs. */
	const struct str *pod_cidrs;
	size_t n_pod_cidrs;
	bool is_ready; /* the kubelet says so */
	bool is_new;   /* not initialised: pods, and people, wait for it */
};

/** Does the machine of a node exist? Only ABSENT can lead to a deletion. */
enum presence {
	PRESENCE_UNKNOWN, /* could not be found out; carries an error */
	PRESENCE_PRESENT,
	PRESENCE_ABSENT,  /* the cloud says so, in a look that began after it was asked for */
	PRESENCE_FOREIGN, /* a provider ID that is not this provider's, or that it has no
	                     credentials for */
};

enum power {
	POWER_UNKNOWN,
	POWER_ON,
	POWER_OFF, /* exists, and will not run until somebody starts it: off, suspended */
};

/** What a look found of one node_ref; all views live as long as the look. */
struct instance {
	enum presence presence;
	enum power power : 8;     /* PRESENT only */
	bool is_outage;           /* UNKNOWN: as in struct error */
	enum err_code error_code; /* UNKNOWN and FOREIGN: why, for people */
	/* Who answered, where a provider asks several clouds with credentials of their own:
	 * machines of different realms are no witnesses for each other, and anchors are those of
	 * realm 0. Less than CLOUD_REALMS_MAX. */
	unsigned realm;
	struct str error;
	struct str provider_id; /* PRESENT: complete, "cloudlycke://m-1" */
	struct str type;        /* empty: the cloud does not say */
	struct str zone, region;
	const struct address *addresses; /* in the cloud's order */
	size_t n_addresses;
	const struct label *labels; /* additional labels, for initialisation */
	size_t n_labels;
};

enum {
	CLOUD_REALMS_MAX = 2,
};

/** An immutable, counted answer: one instance per ref, in the order asked. */
struct look {
	struct ref refs;
	struct arena arena;
	void (*release)(
		void *owner); /* called with the last reference gone; NULL: nothing to let go */
	void *owner;          /* what the views point into, where that is not the arena */
	struct instance *instances;
	size_t n;
	/* Things found that only the cluster's project has (Hetzner: its network by the id, a
	 * balancer that serves one of the cluster's Services). A node is deleted only if the same
	 * look found the machine of another node, which shows that the credentials are those of the
	 * cluster's project. If no other node has a provider ID, one anchor is enough instead. A
	 * provider that leaves it 0 only makes the deletion of a cluster's last node wait for a
	 * person. */
	unsigned n_anchors;
	int64_t started_boot_ns; /* before the first request was sent */
};

/** A look with n instances, all UNKNOWN with ERR_INTERNAL, one reference. */
struct look *look_new(size_t n, int64_t started_boot_ns);
struct look *look_ref(struct look *);
void look_unref(struct look *); /* NULL is fine */
DEFINE_CLEANUP(struct look, look_unref)
/** Says why instance i is unknown or foreign; the text is copied. */
void look_set_error(struct look *, size_t i, enum presence presence, enum err_code code,
                    struct str text);

/* ---- machines of a plain cloud ----
 *
 * A cloud that can list its machines and return one of them by its id leaves look() out and
 * provides list_machines() and get_machine(). cloud/look.c makes looks of them: it finds nodes by
 * their provider IDs, else by their names, asks for a few machines one by one and for many by the
 * list, and calls get_machine() for a machine that the list lacks before it says that the machine
 * does not exist. */

/** A machine as the cloud describes it. Texts and lists need to live as long as the call (take
 * them from call->arena): what a look keeps is copied. */
struct machine {
	struct str id;   /* unique and not empty; "7" if the provider ID is "mycloud://7" */
	struct str name; /* the name of its node */
	/* power, type, zone, region, addresses, labels; presence and provider_id are set by the
	 * framework, as are empty texts */
	struct instance instance;
};

struct machine_list {
	struct machine *machines; /* free()d by the framework */
	size_t n, cap;
	/* All machines of the project were listed. Otherwise a node without a provider ID whose
	 * name is not in the list is UNKNOWN. */
	bool is_complete;
};

/** Adds an empty machine, to be filled in; valid until the next one is added. */
struct machine *machine_list_add(struct machine_list *);

/** What load() is given. What it points to lives as long as the cloud, so a copy of the struct may
 * be kept for start(). */
struct cloud_config {
	struct clock *clock;
	const char *path;         /* --cloud-config; NULL: none */
	const char *cluster_name; /* --cluster-name */
	unsigned reserve_percent; /* --cloud-rate-limit-reserve: of its requests, left to other
	                             tools */
	const struct ip_net *cluster_cidrs; /* --cluster-cidr */
	size_t n_cluster_cidrs;
	/* Why --cluster-cidr cannot be used: start() fails with it where routes would be offered.
	 * NULL: it can be used, or the route controller is switched off. */
	const char *cluster_cidr_problem;
	bool has_election; /* --leader-elect: there may be others, of which one leads */
};

enum {
	CLOUD_PATHS_MAX = 5,
};

/** What a provider will do to the system it runs on: the sandbox allows that, and no more. Texts
 * live as long as the cloud. */
struct cloud_needs {
	/* files, or folders, that are read again after load(), beside --cloud-config */
	struct str reads[CLOUD_PATHS_MAX];
	size_t n_reads;
	/* files that it makes and replaces */
	struct str writes[CLOUD_PATHS_MAX];
	size_t n_writes;
	bool runs_programs; /* hooks: no sandbox then, since it would bind them as well */
};

/** A plain listener for /metrics that the users of the cloud's own controller are used to. That it
 * cannot listen is logged and no failure. */
struct cloud_listener {
	bool is_wanted;
	struct str host; /* empty: all addresses */
	int port;
};

struct balancer_ops; /* cloud/balancer.h */
struct route_ops;    /* cloud/route.h */

/** A cloud as it is configured. A provider embeds it, and fills it in. */
struct cloud {
	const struct cloud_ops *ops;

	/* by the framework, before start(); NULL in tests that do without */
	const struct cloud_host *host;

	/* by load() */
	struct cloud_needs needs;
	struct cloud_listener metrics;

	/* by load() or start(), constant afterwards; NULL: not offered */
	const struct balancer_ops *balancers;
	const struct route_ops *routes;
};

/** What is the same however the cloud is configured. */
struct cloud_ops {
	/* ---- about it ---- */

	const char *name; /* "hcloud", as in --cloud-provider */
	/** What all provider IDs of this cloud begin with: "mycloud://". Nodes with another prefix
	 * belong to another cloud: a look answers FOREIGN for them without asking the provider, the
	 * lifecycle controller reports them (event ForeignProviderID), and they are no targets of
	 * load balancers, as are nodes without a provider ID. NULL: the provider gets all nodes and
	 * sorts them out by itself, e.g. since it has several prefixes or events of its own about
	 * them; it then needs look() and can_find(). */
	const char *provider_id_prefix;
	/** The source of its Events; NULL: "cloud-controller-manager". */
	const char *event_component;
	/** The keys of annotations that it needs of nodes, and finds in node_ref; NULL-terminated;
	 * NULL: none. */
	const char *const *node_annotations;

	/* ---- its life ---- */

	/** Reads and checks the configuration, and says in struct cloud what follows from it. It
	 * may wait for a file that is being written, but starts no thread, changes nothing outside
	 * of the process and makes no request. Any error ends the program; its message goes to a
	 * person. */
	bool (*load)(const struct cloud_config *config, struct cloud **ret, struct error *err);
	/** Begins work: clients, threads, first requests. host lives as long as the cloud. An error
	 * ends the program, as one of load() does; the caller closes the cloud then. */
	bool (*start)(struct cloud *, const struct cloud_host *host, struct error *err);
	/** Reads its configuration again, on SIGHUP, and logs the result. NULL: nothing to read. */
	void (*reload)(struct cloud *);
	/** Ends its threads and frees it, started or not. NULL is fine. */
	void (*close)(struct cloud *);

	/* ---- machines: look(), or list_machines() and get_machine() ---- */

	/** Looks for n machines. No answer may come from before not_before_boot_ns. The provider
	 * picks the cheapest way to ask. False means that everything is unknown. An ABSENT must be
	 * the cloud's own word for that machine. */
	bool (*look)(struct cloud *, struct call *call, const struct node_ref refs[], size_t n,
	             int64_t not_before_boot_ns, struct look **ret, struct error *err);
	/** Can look() find a machine by that provider ID, and in which realm? False: the ID belongs
	 * to another cloud or to a realm without credentials, or is malformed, so look() answers
	 * FOREIGN or UNKNOWN. Makes no request, because it chooses the nodes that can be witnesses
	 * before the cloud is asked. NULL: those with provider_id_prefix, in realm 0. */
	bool (*can_find)(struct cloud *, struct str provider_id, unsigned *ret_realm);

	/** Lists all machines of the project (rest_list() in cloud/rest.h does the paging). ret is
	 * empty before. */
	bool (*list_machines)(struct cloud *, struct call *, struct machine_list *ret,
	                      struct error *);
	/** Asks the cloud for one machine. ERR_NOT_FOUND: the cloud says that no machine has this
	 * id; such a node may be deleted, so nothing else may have that code. NULL: no machine is
	 * ever reported as absent. */
	bool (*get_machine)(struct cloud *, struct call *, struct str id, struct machine *ret,
	                    struct error *);
};

/* ---- for the controllers ---- */

/** look(), or what list_machines() and get_machine() make of it; nodes with the provider ID of
 * another cloud are answered here. */
NODISCARD bool cloud_look(struct cloud *, struct call *call, const struct node_ref refs[], size_t n,
                          int64_t not_before_boot_ns, struct look **ret, struct error *err);
/** can_find(), or what provider_id_prefix makes of it. */
bool cloud_can_find(struct cloud *, struct str provider_id, unsigned *ret_realm);
/** Does the node belong to another cloud, or is it not initialised yet? Always false without
 * provider_id_prefix. */
bool cloud_is_foreign(const struct cloud *, struct str provider_id);

/* ---- for providers ---- */

/** What follows provider_id_prefix in the provider ID of a node; empty if it has another one. */
struct str cloud_machine_id(const struct cloud *, struct str provider_id);

/** The provider with that name, or NULL. */
const struct cloud_ops *cloud_find(struct str name);
/** Appends all names, "a, b, c". */
void cloud_list(struct buf *b);

#endif
