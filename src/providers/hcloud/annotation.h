/* annotation.h: values of a Service's annotations, with the official controller's words for what is wrong (hcloud.md 3.1, 3.2).
 *
 * Each returns false with ERR_INVALID when the annotation is there and is none of its kind. Where it is not there, *ret stays as
 * it was: its default. Views of the spec remain.
 *
 * Threads: any. Nothing is changed but the count of operations (operations.h).
 */
#ifndef CCMD_HCLOUD_ANNOTATION_H
#define CCMD_HCLOUD_ANNOTATION_H

#include "cloud/balancer.h"
#include "providers/hcloud/lb_wire.h"

#define HZ_LB_PREFIX "load-balancer.hetzner.cloud/"

NODISCARD bool hz_annotation_bool(const struct lb_spec *, const char *key, bool *ret,
                                  struct error *err);
NODISCARD bool hz_annotation_tri(const struct lb_spec *, const char *key, enum hz_tri *ret,
                                 struct error *err);
NODISCARD bool hz_annotation_int(const struct lb_spec *, const char *key, struct hz_opt_i64 *ret,
                                 struct error *err);
/** A duration, cut to whole seconds. A number alone is seconds, as the official documents say and its program does not. */
NODISCARD bool hz_annotation_seconds(const struct lb_spec *, const char *key,
                                     struct hz_opt_i64 *ret, struct error *err);
/** "tcp", "http" or "https", whatever its case. */
NODISCARD bool hz_annotation_protocol(const struct lb_spec *, const char *key,
                                      struct hz_opt_str *ret, struct error *err);
/** "round_robin" or "least_connections", whatever its case. */
NODISCARD bool hz_annotation_algorithm(const struct lb_spec *, const char *key,
                                       struct hz_opt_str *ret, struct error *err);
/** Any text is one. */
void hz_annotation_text(const struct lb_spec *, const char *key, struct hz_opt_str *ret);

/** The elements, trimmed, without empty ones; in the arena. False: it is not there. */
bool hz_annotation_list(const struct lb_spec *, const char *key, struct arena *, struct str **ret,
                        size_t *ret_n);

#endif
