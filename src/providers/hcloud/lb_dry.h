/* lb_dry.h: notes the changes of a dry run (base/dry_run.h): each request that would be sent, and
 * the values that it would change.
 *
 * What does not exist yet has the id HZ_DRY_ID, and the path of a request about it has "{id}". Such
 * things are never put into a cache, so the next run starts from what the cloud really has.
 *
 * Threads: a run belongs to one thread.
 */
#ifndef CCMD_HCLOUD_LB_DRY_H
#define CCMD_HCLOUD_LB_DRY_H

#include "providers/hcloud/lb_client.h"

struct hz_lb_desired;
struct hz_lb_run;
struct hz_step;

/** The servers of the project, of which only some can be targets. Threads: any. */
struct hz_dry_servers;
struct hz_dry_servers *hz_dry_servers_new(void);
void hz_dry_servers_free(struct hz_dry_servers *); /* NULL is fine */

/** Notes that the target is not added if the API would refuse it: its server does not exist, or is
 * not attached to the network, or has only a public address for the balancer lb, whose public
 * interface is or will be disabled. lb may be a balancer that does not exist yet. Returns true
 * then. If the servers cannot be listed, notes that this is not known, and returns false.
 *
 * Cost: one request for each 50 servers of the project, at most once a minute. */
bool hz_dry_refuses_target(const struct hz_lb_run *run, const struct hz_lb *lb,
                           const struct hz_lb_target *target);

/** In place of hz_create_lb(): notes the request, and sets run->lb to the balancer that it would
 * make. */
void hz_dry_create(struct hz_lb_run *run, struct str body, const struct hz_lb_type *type);
/** Notes a step for run->lb. */
void hz_dry_note_step(const struct hz_lb_run *run, const struct hz_step *step);
void hz_dry_note_deletion(const struct hz_lb_run *run, const struct hz_lb *lb);
/** In place of hz_order_certificate(): notes the request. *ret_action is not over, because a
 * certificate takes minutes: services cannot use it yet, so a new balancer is created without them,
 * and they are added later. */
void hz_dry_order_certificate(struct call *call, const struct hz_lb_desired *desired,
                              struct hz_certificate *ret, struct hz_action *ret_action);

#endif
