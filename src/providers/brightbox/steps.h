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
/** Unmaps the balancer's other cloud IPs, and destroys those that have the Service's name and are
 * not mapped. */
NODISCARD bool bb_step_stale_ips(struct bb_run *, struct error *err);
/** Waits for the cloud IPs that are mapped to a balancer of the Service's name, while that balancer
 * is being deleted. */
void bb_step_await_ips(struct bb_run *);
/** "Mapping of CloudIP "cip-aaaaa" to "lba-aaaaa" not complete", as in the official controller. */
struct str bb_mapping_text(const struct bb_run *);

/* ---- the firewall ---- */

/** The server group with the nodes' servers, and the policy that is applied to it, with its rule.
 */
NODISCARD bool bb_step_firewall(struct bb_run *, struct error *err);
NODISCARD bool bb_step_remove_firewall(struct bb_run *, struct error *err);

#endif
