/* From any JSON a node is parsed completely or not at all. The same text gives the same node. Each
 * of its texts is its own or shared; none points into the document. */
#include "kube/node.h"

#include <assert.h>

#include "base/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned
touch(struct str s)
{
	unsigned sum = 0;

	assert(s.ptr);
	for (size_t i = 0; i < s.len; i++)
		sum += (unsigned char)s.ptr[i];
	return sum;
}

static unsigned
touch_label(const struct label *label)
{
	return touch(label->key) + touch(label->value);
}

static unsigned
touch_node(const struct node *n)
{
	unsigned sum = touch(n->object.key) + touch(n->object.uid) +
	               touch(n->object.resource_version) + touch(node_provider_id(n));
	size_t raw_bytes = 0;

	for (size_t i = 0; i < n->n_labels; i++)
		sum += touch_label(n->labels[i]);
	for (size_t i = 0; i < n->n_annotations; i++)
		sum += touch_label(&n->annotations[i]);
	for (size_t i = 0; i < n->n_addresses; i++)
		sum += touch(n->addresses[i].type) + touch(n->addresses[i].address);
	for (size_t i = 0; i < n->n_taints; i++) {
		const struct node_taint *t = n->taints[i];

		sum += touch(t->key) + touch(t->value) + touch(t->effect) + touch(t->raw);
		raw_bytes += t->raw.len;
	}
	assert(raw_bytes <= LIMIT_TAINTS_JSON);
	return sum;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(object_unrefp) struct object *one = NULL, *two = NULL;
	struct str text = str_n((const char *)data, size);
	struct error err;

	if (!object_parse(&node_kind.kind, text, &one, &err)) {
		assert(!one && err.code == ERR_INVALID);
		return 0;
	}
	assert(one->key.len > 0 && one->uid.len > 0 && one->resource_version.len > 0);
	assert(object_parse(&node_kind.kind, text, &two, &err));
	assert(touch_node(node_of(one)) == touch_node(node_of(two)));
	assert(!node_kind.kind.differs(one, two));
	return 0;
}
