/* controllers/writes.h: writes to a node that survive others writing to it at the same time.
 *
 * A write names the resource version it was computed from. When somebody was faster, the server
 * answers 409; the node is then read afresh, past the cache, and the write computed anew
 * (docs/spec/framework.md, "Conflicts").
 */
#ifndef CCMD_CONTROLLERS_WRITES_H
#define CCMD_CONTROLLERS_WRITES_H

#include "controllers/env.h"
#include "kube/node.h"

/** Computes and sends what `node` lacks: true when it is as it should be. ERR_CONFLICT leads to
 * another attempt. */
typedef bool write_fn(struct controller_env *, struct call *, const struct node *node, void *arg,
                      struct error *err);

/** Calls write() with node, and after each conflict with the node as the server has it, up to
 * `attempts` times with pauses of pause_ms to twice that. A node that is gone, or whose UID is
 * another, is success: there is nothing left to write. Other errors are passed up. */
NODISCARD bool write_node(struct controller_env *, struct call *, const struct node *node,
                          unsigned attempts, int64_t pause_ms, write_fn *write, void *arg,
                          struct error *err);

/** The shutdown taint (docs/spec/framework.md, "Shutdown taint"), on or off. No request when the
 * node is as it should be. */
NODISCARD bool write_shutdown_taint(struct controller_env *, struct call *, const struct node *node,
                                    bool wanted, struct error *err);

/** The shutdown taint, by key and effect: a value or a time do not make it another. */
bool taint_is_shutdown(const struct node_taint *taint);

/** Appends the raw taints to keep: all but those with that key (and effect, when not empty). */
size_t taints_without(const struct node *node, struct str key, struct str effect, struct str *ret);

/** Sends a patch to the node or its status; *ret_version (may be NULL) is its new resource version,
 * in the arena. */
NODISCARD bool send_node_patch(struct controller_env *, struct call *, const struct node *node,
                               const char *subresource, enum kube_patch kind, struct str body,
                               struct str *ret_version, struct error *err);

#endif
