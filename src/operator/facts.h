/* operator/facts.h: what doctor and explain find out about single objects, for both by the same
 * functions: those that the controllers decide by.
 *
 * Threads: one.
 */
#ifndef CCMD_OPERATOR_FACTS_H
#define CCMD_OPERATOR_FACTS_H

#include "controllers/node/addresses.h"
#include "operator/view.h"

/** A label that ccmd sets when it initialises a node. */
struct label_facts {
	const char *name; /* "zone" */
	const char *key, *beta;
	struct str has, wanted; /* of the node, of its machine; empty: none */
	bool differs;           /* the machine has a value, and the node another one or none */
};

enum {
	FACTS_LABELS = 3,
};

/** A node, compared with its machine. */
struct node_facts {
	const struct node *node;
	const struct instance *machine; /* NULL: nothing is known of it */
	/* If the machine is present: the addresses that ccmd would write, or an error, if it cannot
	 * find out which. No addresses: it would write none. */
	struct address_list wanted;
	struct error addresses_err;
	bool has_other_addresses; /* than those that ccmd would write */
	struct label_facts labels[FACTS_LABELS];
};

struct node_facts facts_of_node(const struct node *, const struct instance *machine,
                                struct arena *);

/** The machine that a node probably means, although its name or its provider ID says otherwise: of
 * the machines that are not another node's, one with an address of the node, with its name, or with
 * a similar name. */
struct near_machine {
	const struct machine *machine;
	struct str why; /* "has its address 10.0.0.3" */
};
/** Needs VIEW_NODES and VIEW_MACHINES. False: there is none. */
bool facts_find_near_machine(struct view *, const struct node *, struct near_machine *ret);
/** The machine that has this address; NULL: none has it. Needs VIEW_MACHINES. */
const struct machine *facts_machine_at(const struct view *, struct str address);

/** "InternalIP 10.0.0.1, Hostname a"; empty if there are none. */
struct str facts_addresses(struct arena *, const struct address *addresses, size_t n);

/** What the service controller would do for a Service: a dry run of its own function
 * (base/dry_run.h). So a command finds exactly what the controller would find. */
struct service_trial {
	const struct service *service;
	bool is_new;        /* a balancer would be created */
	bool has_values;    /* a value differs, which an annotation may keep as it is */
	struct str changes; /* empty: none */
	enum err_code code; /* ERR_NONE: the trial succeeded */
	struct str error;
	struct str kept; /* what can never be changed; empty: nothing */
};

/** For the view, VIEW_TRIALS. */
NODISCARD bool facts_try_services(struct view *, struct error *err);

/** The number of initialised nodes that the controller gives to the provider as targets for this
 * Service; the machines of others are not known yet. Needs VIEW_NODES and VIEW_CLOUD, and
 * cloud->balancers.
 *
 * @param endpoints  of the Service (VIEW_ENDPOINTS): only nodes that run a ready one count; NULL:
 *                   all nodes do
 */
size_t facts_count_targets(struct view *, const struct service *,
                           const struct view_endpoints *endpoints);

/** Does ccmd remove the finalizer of this Service, which is being deleted? Of a Service with a
 * class only if the cloud has something for it. Needs VIEW_SERVICES and VIEW_CLOUD. */
bool facts_releases_service(struct view *, const struct service *);

/** The node that a pod CIDR is routed to: the one whose claim is granted, or else the oldest that
 * has it; NULL: no node has it. Needs VIEW_NODES; without VIEW_ROUTES it is the oldest. */
const struct node *facts_owner_of_cidr(const struct view *, struct str cidr);

/** The cloud's route to that pod CIDR; NULL: there is none. Needs VIEW_ROUTES. */
const struct route *facts_route_to(const struct view *, struct str cidr);

/** Does the cloud have it for this Service? */
bool facts_is_of_service(const struct lb_listed *, const struct service *);

#endif
