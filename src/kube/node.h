/* kube/node.h: the fields of a Node that we act on.
 * A Node is 10 to 30 kB of JSON; this keeps a few hundred bytes in one allocation. Label keys, and
 * labels whose values repeat (zones, types), are interned, and so are taints without timeAdded.
 * Taints keep their raw JSON, because they are sent back whole. Only the annotations that
 * struct node_kind names are kept. A test pins the size.
 */
#ifndef CCMD_KUBE_NODE_H
#define CCMD_KUBE_NODE_H

#include "base/label.h"
#include "kube/object.h"

/* Four texts and nothing else: see intern_row(). */
struct node_taint {
	struct str key, value, effect;
	struct str raw; /* the element as JSON, with all its fields */
};

enum node_ready {
	NODE_READY_UNKNOWN, /* also if the condition is absent or has another status */
	NODE_READY_FALSE,
	NODE_READY_TRUE,
};

/* The NetworkUnavailable condition. We write False with RouteCreated, but a CNI may write its own
 * reason: only the status matters. */
enum node_network {
	NODE_NETWORK_OTHER,   /* none, or True with another reason */
	NODE_NETWORK_ROUTED,  /* False, with any reason */
	NODE_NETWORK_MISSING, /* True, NoRouteCreated */
};

struct node {
	struct object object;    /* key: the name; index_key: the provider ID */
	int64_t created_wall_ns; /* metadata.creationTimestamp; 0 when absent */
	bool is_deleting;        /* deletionTimestamp is set */
	enum node_ready ready : 8;
	enum node_network network : 8; /* if the kind keeps_routes */
	uint16_t n_pod_cidrs;
	/* A hash of the Ready condition's lastHeartbeatTime: only whether it changes matters. While
	 * the node is Ready, another heartbeat does not count as a difference. */
	uint64_t heartbeat;
	uint32_t n_labels, n_annotations, n_addresses, n_taints;
	const struct label **labels; /* shared, or in this block */
	struct label *annotations;
	struct address *addresses;
	const struct node_taint **taints; /* shared, or in this block */
	struct str *pod_cidrs;            /* if the kind keeps_routes */
};

/** The kind of nodes, with the optional fields that its objects have. */
struct node_kind {
	struct kind kind;
	/* Annotation keys to keep besides alpha.kubernetes.io/provided-node-ip; NULL at the end,
	 * or NULL: none. */
	const char *const *annotations;
	bool keeps_routes; /* keep spec.podCIDRs and the NetworkUnavailable condition */
};

/** Keeps no optional fields. To keep some, copy it and set them before the first node is parsed. */
extern const struct node_kind node_kind;

static inline struct node *
node_of(struct object *o)
{
	return (struct node *)o;
}

static inline struct str
node_name(const struct node *n)
{
	return n->object.key;
}

static inline struct str
node_provider_id(const struct node *n)
{
	return n->object.index_key;
}

/** The value, or NULL when the node does not have that key. */
const struct str *node_label(const struct node *, struct str key);
const struct str *node_annotation(const struct node *, struct str key);
/** The first taint with that key, whatever its effect, or NULL. */
const struct node_taint *node_taint(const struct node *, struct str key);
/** Does the node still have the taint that no cloud controller manager has initialised it? */
bool node_is_new(const struct node *);
/** Was the removal announced, by a deletion that finalizers delay, or an autoscaler's taint? */
bool node_is_leaving(const struct node *);
/** Do both have the same labels? They are compared in order: the API server sorts them by key. */
bool node_labels_equal(const struct node *a, const struct node *b);
/** Do both have the same addresses, by type and text, in the same order? */
bool node_addresses_equal(const struct node *a, const struct node *b);

#define NODE_TAINT_UNINITIALIZED "node.cloudprovider.kubernetes.io/uninitialized"
#define NODE_TAINT_SHUTDOWN "node.cloudprovider.kubernetes.io/shutdown"
#define NODE_ANNOTATION_PROVIDED_IP "alpha.kubernetes.io/provided-node-ip"

#endif
