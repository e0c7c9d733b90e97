/* balancers.h: load balancers of Services (docs/spec/brightbox.md, "Load balancers").
 *
 * A Service has a balancer, a cloud IP, a server group and a firewall policy with one rule. They
 * are found by their name, which consists of the names of the Service, its namespace and the
 * cluster; nothing about them is stored in Kubernetes.
 *
 * A run compares a view of the account with what the Service needs, creates what is missing,
 * changes what differs, and repeats this until nothing is left to do. A Service that needs no
 * change costs no request of its own.
 *
 * Two processes at once (a rolling update without election) may both create a balancer, since names
 * are not unique. So after it has created one a run lists again: if there is another alive balancer
 * of the name it deletes its own, waits a random time and begins again. A cloud IP is mapped, and a
 * status reported, only after a list that shows exactly one.
 *
 * Threads: any; at most one run at a time for each Service.
 */
#ifndef CCMD_BRIGHTBOX_BALANCERS_H
#define CCMD_BRIGHTBOX_BALANCERS_H

#include "cloud/balancer.h"
#include "cloud/host.h"
#include "providers/brightbox/view.h"

struct bb_balancers; /* opaque */

struct bb_balancers_config {
	struct cloud *cloud;
	const struct cloud_host *host;
	struct bb_client *client;
	struct bb_views *views;
	struct str hosts_file; /* as in bb_domains_check() */
};

struct bb_balancers *bb_balancers_new(const struct bb_balancers_config *config);
void bb_balancers_free(struct bb_balancers *); /* NULL is fine */
DEFINE_CLEANUP(struct bb_balancers, bb_balancers_free)

/** For a cloud that is the first member of a struct brightbox (brightbox.h). */
extern const struct balancer_ops bb_balancer_ops;

/** cloud_ops.count_anchors. Counts, by one request, the balancers that have a cloud IP in the
 * status of a live Service of this cluster: evidence that the credentials are those of the
 * cluster's account. */
NODISCARD bool bb_balancers_count_serving(struct cloud *, struct call *, unsigned *ret,
                                          struct error *err);

#endif
