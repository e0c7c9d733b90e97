/* tests/kube/samples.h: Node objects as an API server sends them. */
#ifndef CCMD_TESTS_KUBE_SAMPLES_H
#define CCMD_TESTS_KUBE_SAMPLES_H

#include "base/buf.h"

struct sample_node {
	const char *name;
	const char *uid;         /* NULL: made of the name */
	const char *version;     /* NULL: "1" */
	const char *provider_id; /* NULL: none */
	const char *ready;       /* status of the condition; NULL: "True" */
	const char *heartbeat;   /* NULL: a fixed time */
	unsigned n_images;       /* 50 make a node of 12 kB */
	bool is_uninitialized;   /* bears the cloud's taint */
};

/** Appends the object: 12 labels, 4 conditions, 3 addresses. */
void sample_node(struct buf *b, const struct sample_node *node);

/** Appends {"type":TYPE,"object":…} and a line's end. */
void sample_event(struct buf *b, const char *type, const struct sample_node *node);

/** Appends a NodeList of that version. */
void sample_list(struct buf *b, const char *version, const struct sample_node *nodes, size_t n);

#endif
