/* kube/node.c: from a Node's JSON to one small block.
 *
 * A node is parsed in two steps. The first makes a draft: its arrays are in an arena, and its texts
 * are views of the document. Each text is either shared by all nodes (intern()) or noted as
 * one that the node must own. The second step adds up the sizes, allocates the node once, and
 * copies the arrays and the owned texts into it. So a stored node has no slack, and nothing of the
 * document, which is some twenty times as large, is kept.
 *
 * The node's name is stored once, although the label and the address with the host name repeat it.
 *
 * A label or a taint is shared as a whole row of texts if many nodes have it. node.labels and
 * node.taints are arrays of pointers, which lead either to a shared row or into the node's own
 * block. While the draft is made, NULL stands for the latter, because the block does not exist yet.
 */
#include "kube/node.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/pool.h"
#include "base/words.h"

static struct pool blocks = POOL_INIT; /* a pool, because nodes grow while they are initialised */

/* The keys of labels whose values many nodes share. */
static const struct str shared_labels[] = {
	STR("beta.kubernetes.io/arch"),
	STR("beta.kubernetes.io/instance-type"),
	STR("beta.kubernetes.io/os"),
	STR("failure-domain.beta.kubernetes.io/region"),
	STR("failure-domain.beta.kubernetes.io/zone"),
	STR("kubernetes.io/arch"),
	STR("kubernetes.io/os"),
	STR("node.kubernetes.io/instance-type"),
	STR("topology.kubernetes.io/region"),
	STR("topology.kubernetes.io/zone"),
};

/* intern_row() and object_texts_equal() need structs of texts and nothing else. */
static_assert(sizeof(struct label) == 2 * sizeof(struct str), "a label is two texts");
static_assert(sizeof(struct address) == 2 * sizeof(struct str), "an address is two texts");
static_assert(sizeof(struct node_taint) == 4 * sizeof(struct str), "a taint is four texts");

struct draft {
	const struct node_kind *kind;
	struct arena *arena;
	struct node node;
	struct label *own_labels; /* the labels for which node.labels has NULL, in the same order */
	size_t n_own_labels;
	struct node_taint *own_taints; /* the taints for which node.taints has NULL, likewise */
	size_t n_own_taints;
	/* all texts, in any part of the draft, that the node owns; the name is the first */
	struct str **own;
	size_t n_own;
	size_t own_bytes; /* the size of these texts, with the name counted once */
};

/* Views of the parts of a node's JSON. */
struct source {
	struct object_meta meta;
	yyjson_val *spec, *status;
	yyjson_val *taints, *pod_cidrs, *addresses, *conditions;
	struct str provider_id;
};

static const struct object_field root_fields[] = {
	OBJECT_FIELD(WANT_OBJECT, struct source, spec, "spec"),
	OBJECT_FIELD(WANT_OBJECT, struct source, status, "status"),
};

static const struct object_field spec_fields[] = {
	OBJECT_FIELD(WANT_STR, struct source, provider_id, "providerID"),
	OBJECT_FIELD(WANT_ARRAY, struct source, taints, "taints"),
	OBJECT_FIELD(WANT_ARRAY, struct source, pod_cidrs, "podCIDRs"),
};

static const struct object_field status_fields[] = {
	OBJECT_FIELD(WANT_ARRAY, struct source, addresses, "addresses"),
	OBJECT_FIELD(WANT_ARRAY, struct source, conditions, "conditions"),
};

static const struct object_field address_fields[] = {
	OBJECT_FIELD(WANT_STR, struct address, type, "type"),
	OBJECT_FIELD(WANT_STR, struct address, address, "address"),
};

static const struct object_field taint_fields[] = {
	OBJECT_FIELD(WANT_STR, struct node_taint, key, "key"),
	OBJECT_FIELD(WANT_STR, struct node_taint, value, "value"),
	OBJECT_FIELD(WANT_STR, struct node_taint, effect, "effect"),
};

struct condition {
	struct str type, status, reason, heartbeat;
};

static const struct object_field condition_fields[] = {
	OBJECT_FIELD(WANT_STR, struct condition, type, "type"),
	OBJECT_FIELD(WANT_STR, struct condition, status, "status"),
	OBJECT_FIELD(WANT_STR, struct condition, reason, "reason"),
	OBJECT_FIELD(WANT_STR, struct condition, heartbeat, "lastHeartbeatTime"),
};

/* ---- texts: owned or shared ---- */

/* Notes a text that the node owns. A text that repeats the node's name takes no further bytes. */
static void
draft_own(struct draft *d, struct str *s)
{
	if (s->len == 0) {
		*s = STR_EMPTY;
		return;
	}
	d->own[d->n_own++] = s;
	if (!str_eq(*s, d->node.object.key))
		d->own_bytes += s->len;
}

static void
draft_share(struct draft *d, struct str *s)
{
	if (!intern(s))
		draft_own(d, s);
}

/* ---- the parts ---- */

static bool
read_meta(struct draft *d, const struct source *s, struct error *err)
{
	struct object *o = &d->node.object;
	int64_t deleted;

	o->key = s->meta.name;
	o->uid = s->meta.uid;
	o->resource_version = s->meta.resource_version;
	o->index_key = s->provider_id;
	d->node.is_deleting = s->meta.deleted.len > 0;
	d->own_bytes = o->key.len; /* draft_own() adds nothing for it, it equals the name */
	draft_own(d, &o->key);
	draft_own(d, &o->uid);
	draft_own(d, &o->resource_version);
	draft_own(d, &o->index_key);
	if (s->meta.created.len > 0 &&
	    !clock_parse_rfc3339(s->meta.created, &d->node.created_wall_ns))
		return err_set(err, ERR_INVALID, "metadata.creationTimestamp: not a time");
	if (d->node.is_deleting && !clock_parse_rfc3339(s->meta.deleted, &deleted))
		return err_set(err, ERR_INVALID, "metadata.deletionTimestamp: not a time");
	return true;
}

static bool
read_labels(struct draft *d, yyjson_val *labels, struct error *err)
{
	yyjson_obj_iter iter = yyjson_obj_iter_with(labels);
	struct node *node = &d->node;
	size_t n = yyjson_obj_size(labels);
	yyjson_val *key;

	node->labels = arena_calloc(d->arena, n, sizeof(node->labels[0]));
	d->own_labels = arena_calloc(d->arena, n, sizeof(d->own_labels[0]));
	while ((key = yyjson_obj_iter_next(&iter))) {
		const struct label **shared = &node->labels[node->n_labels++];
		struct label label;

		if (!object_read_pair(key, "metadata.labels", &label, err))
			return false;
		/* A label without a value is shared as a whole, too, because it marks a role or a
		 * feature that many nodes have. */
		if ((label.value.len == 0 ||
		     str_is_among(label.key, shared_labels, ARRAY_LEN(shared_labels))) &&
		    intern(&label.key) && intern(&label.value))
			*shared = intern_row(&label, 2);
		if (!*shared) {
			struct label *own = &d->own_labels[d->n_own_labels++];

			*own = label;
			draft_share(d, &own->key);
			draft_own(d, &own->value);
		}
	}
	return true;
}

static bool
read_annotations(struct draft *d, yyjson_val *annotations, struct error *err)
{
	yyjson_obj_iter iter = yyjson_obj_iter_with(annotations);
	struct node *node = &d->node;
	yyjson_val *key;

	node->annotations = arena_calloc(d->arena, yyjson_obj_size(annotations),
	                                 sizeof(node->annotations[0]));
	while ((key = yyjson_obj_iter_next(&iter))) {
		struct label *annotation = &node->annotations[node->n_annotations];

		if (!str_eq_c(json_text(key), NODE_ANNOTATION_PROVIDED_IP) &&
		    !words_have(d->kind->annotations, json_text(key)))
			continue;
		if (!object_read_pair(key, "metadata.annotations", annotation, err))
			return false;
		draft_share(d, &annotation->key);
		draft_own(d, &annotation->value);
		node->n_annotations++;
	}
	return true;
}

static bool
read_addresses(struct draft *d, yyjson_val *addresses, struct error *err)
{
	yyjson_arr_iter iter = yyjson_arr_iter_with(addresses);
	struct node *node = &d->node;
	yyjson_val *val;

	node->addresses = arena_calloc(d->arena, yyjson_arr_size(addresses),
	                               sizeof(node->addresses[0]));
	while ((val = yyjson_arr_iter_next(&iter))) {
		struct address *address = &node->addresses[node->n_addresses++];

		if (!OBJECT_READ(val, "status.addresses[]", address_fields, address, err))
			return false;
		draft_share(d, &address->type);
		draft_own(d, &address->address);
	}
	return true;
}

static bool
read_taints(struct draft *d, yyjson_val *taints, struct error *err)
{
	yyjson_arr_iter iter = yyjson_arr_iter_with(taints);
	struct node *node = &d->node;
	size_t n = yyjson_arr_size(taints), raw_bytes = 0;
	yyjson_val *val;

	node->taints = arena_calloc(d->arena, n, sizeof(node->taints[0]));
	d->own_taints = arena_calloc(d->arena, n, sizeof(d->own_taints[0]));
	while ((val = yyjson_arr_iter_next(&iter))) {
		const struct node_taint **shared = &node->taints[node->n_taints++];
		CLEANUP(buf_fini) struct buf raw = BUF_INIT(LIMIT_TAINTS_JSON);
		struct node_taint taint = { STR_EMPTY, STR_EMPTY, STR_EMPTY, STR_EMPTY };

		if (!OBJECT_READ(val, "spec.taints[]", taint_fields, &taint, err))
			return false;
		json_add_value(&raw, val);
		taint.raw = arena_str(d->arena, buf_str(&raw));
		raw_bytes += taint.raw.len;
		/* A size that equals the limit is refused, too, because the buffer cuts a longer
		 * taint to this length. */
		if (raw_bytes >= LIMIT_TAINTS_JSON)
			return err_set(err, ERR_INVALID, "spec.taints: more than %zu bytes",
			               LIMIT_TAINTS_JSON);
		/* A taint with timeAdded belongs to one node. A taint without it is the same on all
		 * nodes that have it. */
		if (!json_at(val, "timeAdded") && intern(&taint.key) && intern(&taint.value) &&
		    intern(&taint.effect) && intern(&taint.raw))
			*shared = intern_row(&taint, 4);
		if (!*shared) {
			struct node_taint *own = &d->own_taints[d->n_own_taints++];

			*own = taint;
			draft_share(d, &own->key);
			draft_share(d, &own->effect);
			draft_own(d, &own->value);
			draft_own(d, &own->raw);
		}
	}
	return true;
}

static bool
read_pod_cidrs(struct draft *d, yyjson_val *pod_cidrs, struct error *err)
{
	yyjson_arr_iter iter = yyjson_arr_iter_with(pod_cidrs);
	struct node *node = &d->node;
	yyjson_val *val;

	if (!d->kind->keeps_routes)
		return true;
	if (yyjson_arr_size(pod_cidrs) > LIMIT_POD_CIDRS)
		return err_set(err, ERR_INVALID, "spec.podCIDRs: more than %d", LIMIT_POD_CIDRS);
	node->pod_cidrs = arena_calloc(d->arena, yyjson_arr_size(pod_cidrs), sizeof(struct str));
	while ((val = yyjson_arr_iter_next(&iter))) {
		struct str *cidr = &node->pod_cidrs[node->n_pod_cidrs++];

		if (!yyjson_is_str(val))
			return err_set(err, ERR_INVALID, "spec.podCIDRs[]: not a string");
		*cidr = json_text(val);
		draft_own(d, cidr);
	}
	return true;
}

static enum node_ready
ready_of(struct str status)
{
	if (str_eq_c(status, "True"))
		return NODE_READY_TRUE;
	return str_eq_c(status, "False") ? NODE_READY_FALSE : NODE_READY_UNKNOWN;
}

static enum node_network
network_of(const struct condition *condition)
{
	if (str_eq_c(condition->status, "False"))
		return NODE_NETWORK_ROUTED;
	if (str_eq_c(condition->status, "True") && str_eq_c(condition->reason, "NoRouteCreated"))
		return NODE_NETWORK_MISSING;
	return NODE_NETWORK_OTHER;
}

static bool
read_conditions(struct draft *d, yyjson_val *conditions, struct error *err)
{
	yyjson_arr_iter iter = yyjson_arr_iter_with(conditions);
	yyjson_val *val;

	while ((val = yyjson_arr_iter_next(&iter))) {
		struct condition condition = { STR_EMPTY, STR_EMPTY, STR_EMPTY, STR_EMPTY };

		if (!OBJECT_READ(val, "status.conditions[]", condition_fields, &condition, err))
			return false;
		if (str_eq_c(condition.type, "Ready")) {
			d->node.ready = ready_of(condition.status);
			d->node.heartbeat = str_hash(condition.heartbeat);
		} else if (d->kind->keeps_routes &&
		           str_eq_c(condition.type, "NetworkUnavailable")) {
			d->node.network = network_of(&condition);
		}
	}
	return true;
}

/* ---- one block ---- */

static void *
pack_array(char **at, const void *from, size_t n, size_t size)
{
	char *to = *at;

	if (n > 0)
		memcpy(to, from, n * size);
	*at += n * size;
	return to;
}

static void
pack_texts(struct draft *d, char *at)
{
	struct str name = d->node.object.key; /* the first of the owned texts, see read_meta() */

	for (size_t i = 0; i < d->n_own; i++) {
		struct str *s = d->own[i];

		if (i > 0 && str_eq(*s, name)) {
			*s = d->node.object.key;
			continue;
		}
		memcpy(at, s->ptr, s->len);
		s->ptr = at;
		at += s->len;
	}
}

/* The texts are packed before the structs are copied, because pack_texts() changes the pointers in
 * the draft. Arrays come before texts, because texts have no alignment. */
static struct node *
pack(struct draft *d)
{
	struct node *n = &d->node, *block;
	size_t arrays = n->n_labels * sizeof(n->labels[0]) +
	                (d->n_own_labels + n->n_annotations) * sizeof(struct label) +
	                n->n_addresses * sizeof(struct address) +
	                n->n_taints * sizeof(n->taints[0]) +
	                d->n_own_taints * sizeof(struct node_taint) +
	                n->n_pod_cidrs * sizeof(struct str);
	const struct node_taint *own_taint;
	const struct label *own_label;
	char *at;

	block = pool_alloc(&blocks, sizeof(*block) + arrays + d->own_bytes);
	at = (char *)(block + 1);
	pack_texts(d, at + arrays);
	*block = *n;
	block->labels = pack_array(&at, n->labels, n->n_labels, sizeof(n->labels[0]));
	own_label = pack_array(&at, d->own_labels, d->n_own_labels, sizeof(d->own_labels[0]));
	for (size_t i = 0; i < block->n_labels; i++) {
		if (!block->labels[i])
			block->labels[i] = own_label++;
	}
	block->annotations = pack_array(&at, n->annotations, n->n_annotations,
	                                sizeof(n->annotations[0]));
	block->addresses = pack_array(&at, n->addresses, n->n_addresses, sizeof(n->addresses[0]));
	block->taints = pack_array(&at, n->taints, n->n_taints, sizeof(n->taints[0]));
	own_taint = pack_array(&at, d->own_taints, d->n_own_taints, sizeof(d->own_taints[0]));
	for (size_t i = 0; i < block->n_taints; i++) {
		if (!block->taints[i])
			block->taints[i] = own_taint++;
	}
	block->pod_cidrs = pack_array(&at, n->pod_cidrs, n->n_pod_cidrs, sizeof(n->pod_cidrs[0]));
	return block;
}

static bool
node_parse(const struct kind *kind, yyjson_val *val, struct object **ret, struct error *err)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct draft d = {
		.kind = (const struct node_kind *)kind,
		.arena = &arena,
		.node.object = { .kind = kind, .refs = REF_INIT },
	};
	struct source s = { .provider_id = STR_EMPTY };
	size_t n_texts;

	if (!OBJECT_READ(val, "node", root_fields, &s, err) ||
	    !object_read_meta(val, &s.meta, err) ||
	    !OBJECT_READ(s.spec, "spec", spec_fields, &s, err) ||
	    !OBJECT_READ(s.status, "status", status_fields, &s, err))
		return false;
	/* Room for the texts of everything that the document has, although only a part of them will
	 * be kept. So the array never has to grow. */
	n_texts = 8 + 2 * yyjson_obj_size(s.meta.labels) + 2 * yyjson_obj_size(s.meta.annotations) +
	          2 * yyjson_arr_size(s.addresses) + 4 * yyjson_arr_size(s.taints) +
	          yyjson_arr_size(s.pod_cidrs);
	d.own = arena_calloc(&arena, n_texts, sizeof(d.own[0]));
	if (!read_meta(&d, &s, err) || !read_labels(&d, s.meta.labels, err) ||
	    !read_annotations(&d, s.meta.annotations, err) ||
	    !read_addresses(&d, s.addresses, err) || !read_taints(&d, s.taints, err) ||
	    !read_pod_cidrs(&d, s.pod_cidrs, err) || !read_conditions(&d, s.conditions, err))
		return err_wrap(err, "node %" STR_FMT, STR_ARG(s.meta.name));
	*ret = &pack(&d)->object;
	return true;
}

/* ---- comparing ---- */

bool
node_labels_equal(const struct node *a, const struct node *b)
{
	if (a->n_labels != b->n_labels)
		return false;
	for (size_t i = 0; i < a->n_labels; i++) {
		if (a->labels[i] != b->labels[i] &&
		    !object_texts_equal(a->labels[i], 2, b->labels[i], 2))
			return false;
	}
	return true;
}

bool
node_addresses_equal(const struct node *a, const struct node *b)
{
	return object_texts_equal(a->addresses, 2 * a->n_addresses, b->addresses,
	                          2 * b->n_addresses);
}

static bool
are_taints_equal(const struct node *a, const struct node *b)
{
	if (a->n_taints != b->n_taints)
		return false;
	for (size_t i = 0; i < a->n_taints; i++) {
		if (a->taints[i] != b->taints[i] && !str_eq(a->taints[i]->raw, b->taints[i]->raw))
			return false;
	}
	return true;
}

static bool
node_differs(const struct object *object_a, const struct object *object_b)
{
	const struct node *a = (const struct node *)object_a, *b = (const struct node *)object_b;
	/* the heartbeat of a node that is Ready changes every few minutes and says nothing */
	bool are_conditions_equal = a->ready == b->ready && a->network == b->network &&
	                            (a->ready == NODE_READY_TRUE || a->heartbeat == b->heartbeat);

	return !(str_eq(a->object.uid, b->object.uid) &&
	         str_eq(node_provider_id(a), node_provider_id(b)) &&
	         a->created_wall_ns == b->created_wall_ns && a->is_deleting == b->is_deleting &&
	         are_conditions_equal && node_labels_equal(a, b) &&
	         object_texts_equal(a->annotations, 2 * a->n_annotations, b->annotations,
	                            2 * b->n_annotations) &&
	         node_addresses_equal(a, b) &&
	         object_texts_equal(a->pod_cidrs, a->n_pod_cidrs, b->pod_cidrs, b->n_pod_cidrs) &&
	         are_taints_equal(a, b));
}

/* ---- looking up ---- */

/* From the end, as object_annotation(). */
const struct str *
node_label(const struct node *node, struct str key)
{
	for (size_t i = node->n_labels; i-- > 0;) {
		if (str_eq(node->labels[i]->key, key))
			return &node->labels[i]->value;
	}
	return NULL;
}

const struct str *
node_annotation(const struct node *node, struct str key)
{
	return object_annotation(node->annotations, node->n_annotations, key);
}

const struct node_taint *
node_taint(const struct node *node, struct str key)
{
	for (size_t i = 0; i < node->n_taints; i++) {
		if (str_eq(node->taints[i]->key, key))
			return node->taints[i];
	}
	return NULL;
}

bool
node_is_new(const struct node *node)
{
	return node_taint(node, STR(NODE_TAINT_UNINITIALIZED)) != NULL;
}

bool
node_is_leaving(const struct node *n)
{
	return n->is_deleting || node_taint(n, STR("ToBeDeletedByClusterAutoscaler")) ||
	       node_taint(n, STR("karpenter.sh/disrupted"));
}

const struct node_kind node_kind = {
	.kind = {
		.name = "Node",
		.path = "/api/v1/nodes",
		.parse = node_parse,
		.pool = &blocks,
		.differs = node_differs,
	},
};
