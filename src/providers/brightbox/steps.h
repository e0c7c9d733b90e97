/* steps.h: the steps of a pass that are not about the balancer itself (docs/spec/brightbox.md,
 * "Cloud IPs", "The firewall" and "Deletion").
 *
 * Threads: each belongs to the thread of its run.
 */
#ifndef CCMD_BRIGHTBOX_STEPS_H
#define CCMD_BRIGHTBOX_STEPS_H

#include "providers/brightbox/run.h"

/* ---- cloud IPs ---- */

/** Sets run->ip to the cloud IP that the Service chooses, or to its own; NULL: it is still to be
 * made.
 */
NODISCARD bool bb_step_ip(struct bb_run *, struct error *err);
/** Maps run->ip to run->lb, unless it is mapped to something else. */
NODISCARD bool bb_step_map(struct bb_run *, struct error *err);
/** Other cloud IPs leave the balancer, and those that bear the Service's name are destroyed when
 * nothing uses them. */
NODISCARD bool bb_step_stale_ips(struct bb_run *, struct error *err);
/** While a balancer of the Service's name is being deleted, the cloud IPs that it holds are
 * awaited. */
void bb_step_await_ips(struct bb_run *);
/** "Mapping of CloudIP "cip-aaaaa" to "lba-aaaaa" not complete", as in the official controller. */
struct str bb_mapping_text(const struct bb_run *);

/* ---- the firewall ---- */

/** The server group with the nodes' servers, and the policy that is applied to it, with its rule.
 */
NODISCARD bool bb_step_firewall(struct bb_run *, struct error *err);
NODISCARD bool bb_step_remove_firewall(struct bb_run *, struct error *err);

#endif
