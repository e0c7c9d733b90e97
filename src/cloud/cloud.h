/* cloud/cloud.h: what a cloud provider is.
 *
 * A provider is a folder in providers/ and one table, struct cloud_ops, listed in cloud/registry.c.
 * It gets small plain structs (a node's name, provider ID, labels, addresses) and never sees
 * Kubernetes; events and requeues go through cloud/host.h. Its functions run once, may fail, and
 * are run again: they keep no state that would make a second run fail or act differently.
 *
 * Life cycle: load() reads the configuration, before the sandbox is entered and before any other
 * thread runs; start() begins to use the cloud, inside the sandbox; close() ends its threads and
 * frees it, started or not. start() uses what load() has read and does not read the configuration
 * again.
 *
 * Threads: look() may be called from several threads at the same time; load(), start() and close()
 * from one.
 */
#ifndef CCMD_CLOUD_CLOUD_H
#define CCMD_CLOUD_CLOUD_H

#include "base/call.h"
#include "base/error.h"
#include "base/ip.h"
#include "base/label.h"
#include "base/ref.h"
#include "base/limits.h"

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
	bool is_ready; /* the node's Ready condition is True */
	bool is_new;   /* not initialised yet: no pod can run on it before its machine is found */
};

/** Does the machine of a node exist? Only ABSENT can lead to a deletion. */
enum presence {
	PRESENCE_UNKNOWN, /* the provider could not find out; the error says why */
	PRESENCE_PRESENT,
	/* the cloud says so, in answer to a request that was sent after the look was asked for */
	PRESENCE_ABSENT,
	/* the provider ID belongs to another provider, or to a realm without credentials */
	PRESENCE_FOREIGN,
};

enum power {
	POWER_UNKNOWN,
	POWER_ON,
	POWER_OFF, /* the machine exists, and stays off until a person or program starts it */
};

/** What a look found of one node_ref; all views live as long as the look. */
struct instance {
	enum presence presence;
	enum power power : 8;     /* PRESENT only */
	bool is_outage;           /* UNKNOWN: as in struct error */
	enum err_code error_code; /* UNKNOWN and FOREIGN: why, for people */
	/* Which API answered, if a provider asks several APIs, each with its own credentials. A
	 * machine found in one realm proves nothing about machines of another; anchors belong to
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
	/* called when the last reference is dropped; NULL: there is nothing to free */
	void (*release)(void *owner);
	/* the argument of release(): what the views point into, if that is not the arena */
	void *owner;
	struct instance *instances;
	size_t n;
	/* The number of things found that exist only in the cluster's project (Hetzner: its network
	 * by the id, a balancer that serves one of the cluster's Services). A node is deleted only
	 * if the same look found the machine of another node, which shows that the credentials are
	 * those of the cluster's project. If no other node has a provider ID, one anchor is enough
	 * instead. If a provider leaves it 0, the only effect is that a person has to delete a
	 * cluster's last node. */
	unsigned n_anchors;
	/* Anchors were needed, and could not be counted: why. Empty: that did not happen. */
	struct str anchors_error;
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

/* ---- machines of a provider that lists them ----
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
	/* --cloud-rate-limit-reserve: the share of the rate limit that is left to other tools */
	unsigned reserve_percent;
	const struct ip_net *cluster_cidrs; /* --cluster-cidr */
	size_t n_cluster_cidrs;
	/* Why --cluster-cidr cannot be used: start() fails with this text if it would offer routes.
	 * NULL: it can be used, or the route controller is disabled. */
	const char *cluster_cidr_problem;
	bool has_election; /* --leader-elect: other replicas may run, and only one of them leads */
	/* This process changes nothing, and another one may be doing the work: the provider locks
	 * and writes no file, and runs no program. The fence stays closed. */
	bool is_read_only;
};

enum {
	CLOUD_PATHS_MAX = 5,
	CLOUD_VARIABLES_MAX = 2,
};

/** The files and programs of this machine that a provider will use after load(): the sandbox allows
 * no others. Texts live as long as the cloud. */
struct cloud_needs {
	/* files or folders that are read after load(), in addition to --cloud-config */
	struct str reads[CLOUD_PATHS_MAX];
	bool reads_are_public[CLOUD_PATHS_MAX]; /* of each: it has no secret, anybody may read it */
	size_t n_reads;
	/* files that it creates and replaces */
	struct str writes[CLOUD_PATHS_MAX];
	size_t n_writes;
	/* such as hooks. There is no sandbox then, because its rules would apply to them, too. */
	bool runs_programs;
};

/** The rate limit of a cloud's API. All programs with credentials of the project share it. */
struct cloud_budget {
	double limit;      /* requests */
	double left;       /* requests */
	int64_t full_in_s; /* if nobody sends any */
	/* While fewer requests are left, this process postpones those that can wait. */
	double postpones_below;
};

/** A listener without TLS for /metrics, where the cloud's official controller has one. If it cannot
 * be opened, a warning is logged, and the program goes on. */
struct cloud_listener {
	bool is_wanted;
	struct str host; /* empty: all addresses */
	int port;
};

/** A setting whose value names something of the cloud: a region, a network. */
struct cloud_setting {
	const char *variable; /* of the environment: "HCLOUD_NETWORK"; NULL: only the annotation */
	struct str value;     /* empty: it is not set */
	const char *what;     /* what it names: "network" */
	/* the annotation that means the same for one Service; NULL: there is none */
	const char *annotation;
	/* Services for which this annotation is "true" need what is named; NULL: none does */
	const char *needed_by;
	bool is_list;  /* the annotation has several of them, with commas between */
	bool is_range; /* the value is an address or a network within one of the names */
	/* what exists in the cloud; NULL at the end */
	const char *const *names;
	const char *const *ids; /* of the same, if the value may be an id as well; else NULL */
};

struct balancer_ops; /* cloud/balancer.h */
struct route_ops;    /* cloud/route.h */

/** Balancers that were requested and that a search may not find yet. In some clouds a balancer is
 * listed only when the job that creates it has ended. Until then a search that does not find it
 * proves nothing: neither that it has to be created, nor that its Service may be released. The same
 * holds for the time after this process has begun to lead, since the former leader may have asked
 * for balancers a moment before. */
struct creations {
	struct creation {
		uint64_t uid_hash;
		int64_t begun_boot_ns; /* 0: this place is free */
		bool is_reported;      /* an event has reported that it takes long */
	} all[LIMIT_CREATIONS];
	int64_t leads_since_boot_ns; /* 0: not known yet */
};

/** A cloud as it is configured. A provider embeds it, and fills it in. */
struct cloud {
	const struct cloud_ops *ops;

	/* set by the framework, before start(); NULL in tests that need no host */
	const struct cloud_host *host;

	/* set by load() */
	struct cloud_needs needs;
	struct cloud_listener metrics;

	/* set by start() of a process that is_read_only: why a check of this machine failed, which
	 * matters only where ccmd runs; ERR_NONE: none did */
	struct error machine_err;

	/* set by load() or start(), constant afterwards; NULL: not offered */
	const struct balancer_ops *balancers;
	const struct route_ops *routes;

	/* of the framework; the first three: balancer_check_project() (balancer.h) */
	_Atomic bool seeks_evidence;            /* a thread does so */
	_Atomic bool holds_services;            /* since no evidence was found */
	_Atomic int64_t unproven_until_boot_ns; /* that result is valid until then; 0: no result */
	struct creations creations;             /* balancer.c */
};

/** A provider: its names and functions, which do not depend on the configuration. */
struct cloud_ops {
	/* ---- description ---- */

	const char *name; /* "hcloud", as in --cloud-provider */
	/** What all provider IDs of this cloud begin with: "mycloud://". Nodes with another prefix
	 * belong to another cloud: a look answers FOREIGN for them without asking the provider, the
	 * lifecycle controller reports them (event ForeignProviderID), and they are never targets
	 * of load balancers; neither are nodes without a provider ID. NULL: the provider gets all
	 * nodes and recognises those of other clouds itself, e.g. because it has several prefixes
	 * or sends its own events about such nodes; it then needs look() and can_find(). */
	const char *provider_id_prefix;
	/** The source of its Events; NULL: "cloud-controller-manager". */
	const char *event_component;
	/** The keys of the node annotations that the provider needs; node_ref has only these.
	 * Terminated by NULL; NULL: none. */
	const char *const *node_annotations;
	/** The prefixes of the environment variables that it reads: "MYCLOUD_". The commands for
	 * operators take these variables from the running controller. */
	const char *variables[CLOUD_VARIABLES_MAX];
	/** Does the provider read the environment variable with that name? If not, *ret_nearest is
	 * the one that is probably meant, or NULL. NULL: misspelt names are not reported. */
	bool (*reads_variable)(struct str name, const char **ret_nearest);
	/** The target of the POST by which the provider gets a token: "/token/". The commands for
	 * operators, which change nothing, send no other POST to the cloud. NULL: it sends none. */
	const char *login_target;

	/* ---- life cycle ---- */

	/** Reads and checks the configuration, and fills in those fields of struct cloud that
	 * follow from it. It may wait for a file that is being written, but starts no thread,
	 * changes nothing outside of the process and makes no request. Any error ends the program;
	 * its message is logged for the operator. */
	bool (*load)(const struct cloud_config *config, struct cloud **ret, struct error *err);
	/** Begins work: clients, threads, first requests. host lives as long as the cloud. An error
	 * ends the program, as in load(); the caller then closes the cloud. */
	bool (*start)(struct cloud *, const struct cloud_host *host, struct error *err);
	/** Reads its configuration again, on SIGHUP, and logs the result. NULL: nothing to read. */
	void (*reload)(struct cloud *);
	/** Ends its threads and frees it, started or not. NULL is fine. */
	void (*close)(struct cloud *);
	/** For messages about a node whose machine or address is not found: what else decides about
	 * that, such as a setting. NULL: nothing does. */
	const char *machine_hint, *address_hint;
	/** The rate limit as the answers of the API report it; makes no request. The cloud is
	 * started. False: no answer has reported it. NULL: the API reports no rate limit. */
	bool (*get_budget)(struct cloud *, struct cloud_budget *ret);
	/** Lists the settings that name something of the cloud, for `ccmd doctor`, which reports
	 * names that do not exist. It is also called after start() has failed with ERR_NOT_FOUND,
	 * which is the error for such a name. Everything is in the call's arena. NULL: there are no
	 * such settings. */
	bool (*list_settings)(struct cloud *, struct call *call, struct cloud_setting **ret,
	                      size_t *ret_n, struct error *);

	/* ---- machines: look(), or list_machines() and get_machine() ---- */

	/** Looks for the machines of n nodes. All answers must come from requests that began at
	 * not_before_boot_ns or later. The provider picks the cheapest way to ask. False means that
	 * all n machines are UNKNOWN. A machine is ABSENT only if the cloud itself says that this
	 * machine does not exist. */
	bool (*look)(struct cloud *, struct call *call, const struct node_ref refs[], size_t n,
	             int64_t not_before_boot_ns, struct look **ret, struct error *err);
	/** Can look() find a machine by that provider ID, and in which realm? False: the ID belongs
	 * to another cloud or to a realm without credentials, or is malformed, so look() answers
	 * FOREIGN or UNKNOWN. Makes no request, because the controllers use it to choose possible
	 * witnesses before they ask the cloud. NULL: the IDs with provider_id_prefix can be found,
	 * in realm 0. */
	bool (*can_find)(struct cloud *, struct str provider_id, unsigned *ret_realm);

	/** Lists all machines of the project (rest_list() in cloud/rest.h does the paging). ret is
	 * empty before. A provider with look() may have it as well: the commands for operators then
	 * name the machine that a node probably means. */
	bool (*list_machines)(struct cloud *, struct call *, struct machine_list *ret,
	                      struct error *);
	/** Asks the cloud for one machine. ERR_NOT_FOUND: the cloud says that no machine has this
	 * id; such a node may be deleted, so nothing else may have that code. It counts only if the
	 * last rest_do() got a 404 and no other one was successful. A provider whose API reports
	 * absence in another way, such as by a state "deleted", or that does not use rest_do(),
	 * also sets call->answers.is_absent. NULL: no machine is ever reported as absent. */
	bool (*get_machine)(struct cloud *, struct call *, struct str id, struct machine *ret,
	                    struct error *);
	/** The name of a node is the id of its machine: a node without a provider ID is looked for
	 * by that, and names in the list do not count. */
	bool names_are_ids;
	/** Counts anchors (struct look), by requests that begin now. It is called for a look by
	 * list_machines() and get_machine() in which a machine is absent and none is present, and
	 * for evidence (balancer.h) if no node has a provider ID. NULL: there are no anchors. */
	bool (*count_anchors)(struct cloud *, struct call *, unsigned *ret, struct error *);
};

/* ---- for the controllers ---- */

/** Calls look(), or makes a look by list_machines() and get_machine(). Answers FOREIGN for nodes
 * with the provider ID of another cloud, without asking the provider. If a machine is found by its
 * provider ID, held Services are requeued (balancer_check_project()). */
NODISCARD bool cloud_look(struct cloud *, struct call *call, const struct node_ref refs[], size_t n,
                          int64_t not_before_boot_ns, struct look **ret, struct error *err);
/** Calls can_find(), or compares with provider_id_prefix if the provider has no can_find(). */
bool cloud_can_find(struct cloud *, struct str provider_id, unsigned *ret_realm);
/** Does the node belong to another cloud, or is it not initialised yet? Always false without
 * provider_id_prefix. */
bool cloud_is_foreign(const struct cloud *, struct str provider_id);

/* ---- for providers ---- */

/** What follows provider_id_prefix in the provider ID of a node; empty if it has another one. */
struct str cloud_machine_id(const struct cloud *, struct str provider_id);

/** The provider with that name, or NULL. */
const struct cloud_ops *cloud_find(struct str name);
/** Does a cloud read the environment variable with that name? */
bool cloud_reads_variable(struct str name);
/** Appends all names, "a, b, c". */
void cloud_list(struct buf *b);

#endif
