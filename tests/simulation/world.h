/* tests/simulation/world.h: a cluster with two replicas of ccmd, a cloud, machines with their
 * kubelets, and users.
 *
 * All of these except the replicas act in functions on the agenda (schedule.h), while no fiber of a
 * replica runs.
 *
 * - sim_cloud.h: what differs between clouds; sim_NAME.c
 * - world.c: the initial cluster, machines, kubelets, restarts of replicas, the end of faults
 * - history.c: the events that the seed chooses
 * - moments.c: events that wait for a request
 * - extras.c: what Services ask for beside ports
 * - last_changes.c: changes without other faults, which must show an effect soon
 * - checks.c: what must be true at every step, and at the end
 * - election.c: what a replica may do with the Lease, and when it has to end
 * - evidence.c: what a replica must have seen before it deletes a Node
 * - foreign.c: what does not belong to ccmd, and routes
 * - bounds.c: how many requests and how much memory a replica may need
 * - outage.c: work that waits for the cloud, at the end of some histories
 * - growth.c: a world without faults, in which cluster and cloud are large
 *
 * Threads: none.
 */
#ifndef CCMD_TESTS_SIMULATION_WORLD_H
#define CCMD_TESTS_SIMULATION_WORLD_H

#include <yyjson.h>

#include "base/arena.h"
#include "hetzner.h"
#include "kube.h"
#include "net.h"
#include "replica.h"
#include "sim_cloud.h"

enum {
	MAX_MACHINES = 10,
	MAX_SERVICES = 6,
	MAX_DROPPED = 1000,
	QUIET_MINUTES = 6, /* at the end of a history: bounds_quiet_begins() */
};

#define POD_NETWORK "10.244." /* the beginning of all pod CIDRs */
#define MINUTE_NS (60 * NS_PER_SEC)
#define EXCLUDED "node.kubernetes.io/exclude-from-external-load-balancers"
#define NODE_FINALIZER "example.com/foreign" /* of another program, on a Node */
#define UID_LABEL "hcloud-ccm/service-uid"
#define CLUSTER "ours" /* its name */
#define CLUSTER_LABEL "ccmd.io/cluster"
#define OTHER_CLUSTER "theirs" /* its balancers are not ours */
#define HOSTNAME_ANNOTATION "load-balancer.hetzner.cloud/hostname"
/* A patch that makes a Service one without a load balancer. */
#define TO_CLUSTER_IP "{\"spec\":{\"type\":\"ClusterIP\",\"loadBalancerClass\":null}}"
#define NAME_ANNOTATION "load-balancer.hetzner.cloud/name"
#define TYPE_ANNOTATION "load-balancer.hetzner.cloud/type"
#define FOREIGN_FINALIZER "example.com/foreign" /* of another program, on a Service */
#define RIVAL_ADDRESS "192.0.2.250" /* that another program writes into the status of a Service */
#define FINALIZER "service.kubernetes.io/load-balancer-cleanup"

/** A server of the cloud, and the kubelet on it. */
struct machine {
	char name[24];  /* of the Node */
	char ip[20];    /* in the network */
	int64_t server; /* its number (sim_cloud.number_of); 0: it was deleted */
	char provider_id[40];
	bool is_silent;   /* the kubelet does not run */
	bool is_joining;  /* the kubelet registers a Node if there is none */
	int64_t heard_ns; /* the last heartbeat */
	/* The server was deleted, and the kubelet runs until then: the cloud shuts machines down
	 * late. */
	int64_t ghost_until_ns;
	/* In this time the kubelet only renews its Lease: it has reported that it shuts down. */
	bool is_leaving;
	/* until then the kubelet is ready and not ready by turns; 0: it never was */
	int64_t flaps_until_ns;
	int64_t first_read_ns; /* when a replica has read its Lease first after the last heartbeat
	                        */
	int64_t lease_read_ns; /* when one has read it the last time */
	/* the Node gets no pod CIDR before: kube-controller-manager does not run */
	int64_t cidr_from_ns;
	bool has_chosen_cidr; /* the kubelet has chosen the Node's pod CIDR */
	/* The kubelet has registered with the provider ID of another one, and a person corrects
	 * that then. */
	int64_t copied_until_ns;
	int64_t switched_ns; /* when the server was switched on or off the last time */
};

struct world {
	uint64_t seed;
	const struct sim_cloud *sim;
	struct kube_model *kube;
	/* of sim_hcloud; else NULL */
	struct hetzner *cloud;
	struct hetzner_project *project, *other; /* the other one is not the cluster's */
	bool has_network;
	struct hetzner_network *network; /* NULL: the cluster has none, or it was deleted */
	struct machine *machines;        /* has room for max_machines */
	size_t n_machines, max_machines;
	unsigned n_names; /* machines and Services are numbered */
	struct {
		int64_t restart_ns; /* when it is started again; 0: it runs */
	} lives[N_REPLICAS];
	bool is_settling;  /* faults are over */
	bool is_shrinking; /* a person is about to remove machines */
	bool is_inspected; /* commands run in place of a replica: commands.c */
	bool was_restored; /* from a backup of etcd */
	/* A removal of a route hangs, and is carried out when a Node may need the route again. */
	bool is_removal_late;
	bool is_changing;    /* again, by last_changes_make() */
	bool was_limited;    /* sim_brightbox_sets_limit() */
	bool has_lease_etcd; /* Leases are kept in an etcd of their own */
	bool was_forced;     /* a person has removed the finalizer of a Service */
	bool is_wild;
	bool has_extras;  /* Services ask for more than ports */
	unsigned retry_s; /* --leader-elect-retry-period */
	/* The UID of a Service that was removed with its finalizers; empty: none */
	char vanished_uid[40];
	unsigned n_events;  /* that have happened */
	bool is_cache_held; /* the API server's watch cache */
};

extern struct world world;

/** The cluster of the seed: machines that have just joined, no Service. The replicas start. */
void world_begin(const struct sim_cloud *, uint64_t seed);
/** The same without faults, with no machine: for growth.c. No kubelet runs. */
void world_begin_calm(size_t max_machines, const struct net_hooks *hooks);
/** Kubelets send heartbeats, and register the Nodes of new machines; the controller of the other
 * class works. */
void world_run_actors(void);
/** The controller of the other class looks at all Services. */
void world_run_other(void);
/** Ends all faults and repairs what only people can repair. */
void world_settle(void);

#define LEASE_NAMESPACE "kube-system"
#define LEASE_NAME "cloud-controller-manager"
/** The Lease of the replicas; NULL: it does not exist. */
const struct kube_model_object *world_lease(void);
/** Who holds it; empty: nobody, or it does not exist. */
struct str world_holder(struct arena *);

struct hetzner_server *machine_server(const struct machine *);
bool machine_is_alive(const struct machine *);
const struct kube_model_object *machine_node(const struct machine *);
/** Its kubelet registers the Node. */
void machine_join(struct machine *);
/** The kubelet has its present address in the network as --node-ip. */
void machine_announce_ip(const struct machine *);
/** Must load balancers lead to it? */
bool world_is_target(const struct machine *);
/** Attaches its server to the network again, if it is not. */
void machine_attach(struct machine *);
#define AUTOSCALER_TAINT "ToBeDeletedByClusterAutoscaler"
void node_set_taint(const struct kube_model_object *node, const char *key, bool is_wanted);
void world_add_machine(void);
/** Of a cluster that has one: with a new ID, and with the machines in it. */
void world_add_network(void);
/** Starts a replica, or, with a command, that in its place, on the host of the other one. */
void world_start(struct replica *, const char *command);
/** A replica that was stopped or, with its machine, suspended continues. */
void world_resume(struct replica *);
/** A person restarts both replicas. */
void world_restart_replicas(void);
#define FOREIGN_ROUTE "{\"destination\":\"10.99.0.0/24\",\"gateway\":\"10.0.200.1\"}"
/** A request of a person about a route of the network. */
void world_ask_cloud_about_route(const char *verb, const char *route);

/** The JSON of an object; valid until the arena is released. */
yyjson_val *object_json(struct arena *, const struct kube_model_object *);
bool service_is_ours(yyjson_val *service);
bool list_has_text(yyjson_val *list, struct str text);

/* ---- history.c ---- */

/** Puts the events of the seed on the agenda, except those that `is_dropped` marks. Returns the
 * time of the last one. */
int64_t history_plan(uint64_t seed, const bool is_dropped[MAX_DROPPED]);
size_t history_length(void);
/** Faults end: in some histories, etcd is restored from a backup now. */
void history_end(void);
/** What a person does when faults have ended. */
void history_settle(void);
/** The machine's server is missing from lists for some time. */
void history_unlist(const struct machine *, struct rng *);
/** A server has acted: some events wait for that. */
void history_acted(const struct net_request *);

/** A machine or a Service comes, changes or goes. */
void history_churn(struct rng *);

/* ---- moments.c ---- */

/** Events, see history.c. */
void moments_kubelet_reports(struct rng *);
void moments_scale_down(struct rng *);
void moments_replace_node(struct rng *);
void moments_hide_machine(struct rng *);
/** A request has arrived at a server, or a server has acted: some events wait for that. */
void moments_arrived(const struct net_request *);
void moments_acted(const struct net_request *);
/** Ends what hides machines. */
void moments_end(void);

/* ---- extras.c ---- */

/** Chooses something that a Service may ask for beside ports. *ret: the patch. False: it is for
 * another cloud. */
bool extras_choose(struct rng *, char *ret, size_t size);
/** The Service asks for ports only, from now on. */
void extras_remove(const struct kube_model_object *service);

/* ---- last_changes.c ---- */

/** Users change Services and nodes within a minute, while responses of the API server are lost. */
void last_changes_make(uint64_t seed);

/* ---- checks.c ---- */

void checks_begin(void);
void checks_arrived(const struct net_request *);
void checks_acted(const struct net_request *, const struct server_response *);
/** Whether cluster and cloud agree with what the objects ask for; if not, *why says what does not.
 */
bool checks_is_settled(struct buf *why);
/** A request that changes something, apart from Leases and Events. */
bool checks_is_write(const struct net_request *);
/** How many of these the replicas have sent. */
uint64_t checks_n_writes(void);
/** ccmd has created a balancer for the Service with this UID. */
void checks_note_balancer(struct str uid);
/** etcd is restored in between: the Services that vanish are lost. */
void checks_restore_begins(void);
void checks_restore_ends(void);
/** A person removes the finalizer of the Service with this UID. */
void checks_note_forced(struct str uid);
/** Is the finalizer of the Service with this UID another controller's? */
bool checks_is_finalizer_theirs(struct str uid);
/** For sim_cloud.check_service: whether its load balancer is what the Service asks for. */
void checks_hcloud_service(const struct kube_model_object *, yyjson_val *service, struct buf *why);
/** For sim_cloud.check_rest: load balancers without a Service, and routes. */
void checks_hcloud_rest(struct buf *why);
void checks_hcloud_change(void *arg, const struct hetzner_change *);
size_t checks_hcloud_count(const struct kube_model_object *service);

/* ---- election.c ---- */

bool election_is_lease(const struct net_request *);
void election_arrived(const struct net_request *);
/** A request that changes something: only the leader may send it. */
void election_check_write(const struct net_request *);
/** The answer has reached the replica. */
void election_delivered(const struct net_request *, const struct server_response *);
/** The Lease of the replicas was written or deleted, by whomever. */
void election_note_lease(const struct kube_model_change *);
/** The server has just accepted the first claim of this process. */
bool election_is_first_claim(const struct net_request *);
/** etcd was restored from a backup.
 *
 * @param is_same  the Lease has not changed since the backup
 */
void election_restored(bool is_same);
/** May two replicas lead, because a person has changed the Lease, or etcd was restored? */
bool election_is_unclear(void);
/** The identity of the process that has led for at least five minutes; empty: there is none. */
const char *election_old_leader(void);
/** A replica that was stopped continues. */
void election_resumed(const struct replica *);
/** Its process has ended. */
void election_ended(const struct replica *);

/* ---- foreign.c ---- */

/** For each write of ccmd: it may only change its own fields. */
void foreign_check_write(const struct kube_model_change *);
/** Each change of a Node, a server and a network, by whomever. */
void foreign_note_node(const struct kube_model_change *);
void foreign_note_server(const struct hetzner_change *);
void foreign_note_network(const struct hetzner_change *);
/** For each change of a network by ccmd: it may only change routes of the pod network. */
void foreign_check_network(const struct hetzner_change *);
/** For each request of ccmd, when it arrives: it must know which routes the API refuses. */
void foreign_check_request(const struct net_request *);
/** A replica has got the answer 200 of the cloud. */
void foreign_note_answer(const struct net_request *);
/** For each change of a Node by ccmd: its condition NetworkUnavailable. */
void foreign_check_condition(const struct kube_model_change *);
/** The list of servers may lack some of them now. */
void foreign_note_incomplete(void);
/** Whether each pod CIDR has its route, and each route of the pod network its node. */
void foreign_check_routes(struct buf *why);

/* ---- evidence.c ---- */

/** Is the Node announced as leaving: is it being deleted, or tainted by an autoscaler? */
bool node_is_announced(yyjson_val *node);
void evidence_acted(const struct net_request *, const struct server_response *);
/** The holder of the Lease, when this replica has written it. */
void evidence_lease_changed(unsigned replica, struct str before, struct str after);
/** The machine with this ID does not exist any more, or (0) no machine has this name any more. */
void evidence_gone(int64_t server, struct str name);
/** Fails the history if the replica with this token must not delete the Node yet. */
void evidence_check(struct str token, const struct kube_model_object *node);

/* ---- sim_brightbox.c: events ---- */

void sim_brightbox_makes_objects(struct rng *);
void sim_brightbox_changes_balancer(struct rng *);
void sim_brightbox_deletes_something(struct rng *);
void sim_brightbox_breaks_balancer(struct rng *);
void sim_brightbox_moves_cloud_ip(struct rng *);
void sim_brightbox_forgets_server(struct rng *);
void sim_brightbox_sets_limit(struct rng *);
void sim_brightbox_never_maps(struct rng *);

/* ---- outage.c ---- */

bool outage_is_possible(void);
/** When everything has settled: fails the history if work waits too long after an outage. */
void outage_check(void);

/* ---- commands.c ---- */

/** Runs `ccmd doctor` and `ccmd plan`, which must not find anything. */
void commands_check(void);
/** Answers requests that only the commands send; false: it is another one. */
bool commands_answer(const struct net_request *, struct server_response *);

/* ---- sim_cloudlycke.c: events ---- */

void sim_cloudlycke_breaks_inventory(struct rng *);
void sim_cloudlycke_fails_program(struct rng *);

/* ---- sim_example.c: events ---- */

void sim_example_makes_balancer(struct rng *);
void sim_example_changes_balancer(struct rng *);
void sim_example_installs_machine(struct rng *);
void sim_example_sets_limit(struct rng *);

/* ---- bounds.c ---- */

void bounds_acted(const struct net_request *, const struct server_response *);
/** How many requests the cloud has carried out. */
uint64_t bounds_n_served(void);
void bounds_sent(const struct net_request *);
void bounds_ended(const struct net_request *, int status);
/** A replica has written this into its log. */
void bounds_logged(const struct replica *, struct str line);
/** Everything has settled: the replicas must need little for QUIET_MINUTES. */
void bounds_quiet_begins(void);
/** *why says what they have done too much. */
void bounds_quiet_ends(struct buf *why);

#endif
