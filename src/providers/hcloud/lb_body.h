/* lb_body.h: the bodies of requests about load balancers, members in the order of the API's documents (hcloud.md 3.6 to 3.9).
 *
 * What nobody asks for is left out. Each appends one JSON value.
 *
 * Threads: pure.
 */
#ifndef CCMD_HCLOUD_LB_BODY_H
#define CCMD_HCLOUD_LB_BODY_H

#include "providers/hcloud/lb_wish.h"

/** POST /load_balancers, with all that it takes: label, services, the network (where neither address nor subnet is asked for)
 * and the first of the targets, as many as the type has room for. Targets wait where they need a network that is not in the
 * body, or a public interface that is not wanted. buf_ok() of *b is false when it is too long: then without_parts.
 *
 * @param without_parts  no services, targets and network: where the API does not like one of them */
void hz_body_create(struct buf *b, const struct hz_lb_wish *, const struct hz_lb_type *type,
                    const struct hz_lb_target targets[], size_t n_targets, bool without_parts);
/** POST add_service and update_service, which mean the same members. */
void hz_body_service(struct buf *b, const struct hz_lb_service *);
/** POST add_target. */
void hz_body_target(struct buf *b, const struct hz_lb_target *);
/** POST remove_target, which names it and nothing else. */
void hz_body_target_name(struct buf *b, const struct hz_lb_target *);
/** PUT /load_balancers/{id}: the labels the balancer has, and ours. name empty, is_relabelled false: not named. */
void hz_body_put(struct buf *b, const struct hz_lb *, struct str name, bool is_relabelled,
                 const struct hz_lb_wish *);
/** Of requests that name one thing: {"listen_port":443}, {"type":"round_robin"}. */
void hz_body_number(struct buf *b, const char *key, int64_t number);
void hz_body_text(struct buf *b, const char *key, struct str text);
/** POST change_dns_ptr. */
void hz_body_rdns(struct buf *b, struct str ip, struct str dns_ptr);
/** POST attach_to_network. */
void hz_body_attach(struct buf *b, const struct hz_lb_wish *);
/** POST /certificates of a managed one. */
void hz_body_certificate(struct buf *b, const struct hz_lb_wish *);

#endif
