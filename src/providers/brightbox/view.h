/* view.h: the balancers, cloud IPs, server groups and firewall policies of the account, read
 * together and shared by all Services.
 *
 * The API can only list such objects as a whole, and names are the only link to a Service. So one
 * reading of four lists answers for every Service that asks while it is under way, or soon after
 * it. A caller that has changed something in the cloud calls bb_views_outdate(): views that may not
 * show the change are not used after that.
 *
 * Threads: any. A view never changes.
 */
#ifndef CCMD_BRIGHTBOX_VIEW_H
#define CCMD_BRIGHTBOX_VIEW_H

#include "base/ref.h"
#include "providers/brightbox/client.h"

struct bb_view {
	struct ref refs;
	struct arena arena;
	uint64_t number;         /* of the reading, from 1 */
	int64_t started_boot_ns; /* before the first request */
	struct bb_lb *lbs;
	size_t n_lbs;
	struct bb_cloud_ip *cloud_ips;
	size_t n_cloud_ips;
	struct bb_group *groups;
	size_t n_groups;
	struct bb_policy *policies;
	size_t n_policies;
};

void bb_view_unref(struct bb_view *); /* NULL is fine */
DEFINE_CLEANUP(struct bb_view, bb_view_unref)

/** The name of a balancer as it was given: without blanks around it, and without the mark
 * "#type:container" of older versions. A view of the name. */
struct str bb_trim_name(struct str name);
/** Equal, as they were given? */
bool bb_is_same_name(struct str a, struct str b);
/** The first balancer of that name that is_wanted (bb_lb_is_alive, bb_lb_has_failed) and comes
 * after *lb (NULL: the first of all), or NULL. */
const struct bb_lb *bb_view_next(const struct bb_view *, struct str name,
                                 bool (*is_wanted)(const struct bb_lb *), const struct bb_lb *lb);
/** The first one of exactly that name, or NULL. */
const struct bb_group *bb_view_group(const struct bb_view *, struct str name);
const struct bb_policy *bb_view_policy(const struct bb_view *, struct str name);

struct bb_views;

struct bb_views *bb_views_new(struct bb_client *, struct clock *);
void bb_views_free(struct bb_views *); /* NULL is fine */
DEFINE_CLEANUP(struct bb_views, bb_views_free)

/** A view that shows all changes so far, and has at least the number `first`, which is at most
 * bb_views_next(). */
NODISCARD bool bb_views_get(struct bb_views *, struct call *, uint64_t first, struct bb_view **ret,
                            struct error *err);
/** A view that shows all changes so far: the last one if it is not older than max_age_ns and its
 * number is higher than `seen`, else that of the running or the next reading. */
NODISCARD bool bb_views_get_recent(struct bb_views *, struct call *, uint64_t seen,
                                   int64_t max_age_ns, struct bb_view **ret, struct error *err);
/** The number of the first reading that begins after this call. */
uint64_t bb_views_next(struct bb_views *);
void bb_views_outdate(struct bb_views *);

#endif
