/* lb_cache.h: the load balancers as they were read last, and the Services that exist.
 *
 * Nothing here has to survive a restart, because the labels in the cloud say which balancer belongs
 * to which Service. A caller gets a reading that began after our own last change of the balancer
 * and is a few seconds old at most; without such a reading the balancer is read again. One reading
 * runs at a time, and all callers that come meanwhile share the next one. It reads the balancers of
 * the callers' Services in one request, or all that have the label, if later callers will use that.
 *
 * Threads: any. No request is made under the lock.
 */
#ifndef CCMD_HCLOUD_LB_CACHE_H
#define CCMD_HCLOUD_LB_CACHE_H

#include "cloud/balancer.h"
#include "providers/hcloud/lb_client.h"

struct hz_lb_cache;
struct hz_reading;

struct hz_lb_cache *hz_lb_cache_new(struct hz_api *api, struct clock *clock);
void hz_lb_cache_free(struct hz_lb_cache *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_lb_cache, hz_lb_cache_free)

/** The balancers that have one Service's label, as they were read. Views are valid until
 * hz_found_fini(). */
struct hz_found {
	struct hz_lb_cache *cache;
	struct hz_reading *reading;
	const struct hz_lb **lbs; /* in the call's arena */
	size_t n;
};

#define HZ_FOUND_INIT ((struct hz_found){ 0 })
/** For CLEANUP(hz_found_fini). */
void hz_found_fini(struct hz_found *);

/* ---- Services ---- */

/** What is known of a balancer that has no addresses, and how often the Service got a new one. */
struct hz_creation {
	int64_t bare_since_ns; /* mono; seen without addresses since then; 0: not */
	bool has_failed;       /* the last action did */
	unsigned n_created;    /* since the Service had a balancer with addresses */
	int64_t created_ns;    /* mono; the last time; 0: never */
};

struct hz_service_state {
	bool is_live;            /* it exists, so a balancer with its label belongs to it */
	struct hz_action action; /* that is not over; id 0: none */
	struct hz_creation creation;
};

/** Tracks all live Services, at start. If there are any, all labelled balancers are read. */
NODISCARD bool hz_lb_cache_adopt(struct hz_lb_cache *, struct call *,
                                 const struct lb_spec *const specs[], size_t n, struct error *err);
/** Notes that the Service exists; a former one with the same namespace and name does not. */
void hz_lb_cache_track(struct hz_lb_cache *, const struct lb_spec *);
/** Removes the Service, whose balancer was deleted. */
void hz_lb_cache_untrack(struct hz_lb_cache *, struct str uid);
/** What is kept of a Service between its runs; all zero: nothing. */
struct hz_service_state hz_lb_cache_state(struct hz_lb_cache *, struct str uid);
/** The live Service whose balancer has that id, as it was read last: "namespace/name", in the
 * arena; empty: none is known. */
struct str hz_lb_cache_service_of(struct hz_lb_cache *, int64_t id, struct arena *);
/** Another live Service for which "NAMESPACE-SERVICE" is the same text: "a-b/c" and "a/b-c".
 *
 * @param ret  its namespace, name and UID and nothing else, in the arena */
bool hz_lb_cache_find_namesake(struct hz_lb_cache *, const struct lb_spec *, struct arena *,
                               struct lb_spec *ret);

/* ---- readings ---- */

enum hz_age {
	/* a few seconds old, if it shows a balancer; that there is none is always read again */
	HZ_RECENT,
	HZ_FRESH, /* begun after the call */
};

/** The balancers with that UID in their label: none, one, or several, if the label was copied by
 * hand.
 *
 * @param ret  HZ_FOUND_INIT */
NODISCARD bool hz_lb_cache_find(struct hz_lb_cache *, struct call *, struct str uid,
                                enum hz_age age, struct hz_found *ret, struct error *err);
/** Reads the list of all balancers, and counts those with a public address that a live Service has
 * in its status: no other project has one. Names, labels and private addresses prove nothing:
 * another project may have the same. */
NODISCARD bool hz_lb_cache_count_serving(struct hz_lb_cache *, struct call *,
                                         const struct cloud_host *, unsigned *ret,
                                         struct error *err);

/** How many targets of a Service's balancer are healthy. */
struct hz_service_health {
	struct str namespace, service;
	size_t n_healthy, n_targets;
};

/** Of all live Services that have a balancer, as it was read last; no request is made. In the
 * arena, in no defined order; the texts are terminated. A Service is there for each balancer with
 * its label. Cost: linear in the number of Services and balancers. */
void hz_lb_cache_health(struct hz_lb_cache *, struct arena *, struct hz_service_health **ret,
                        size_t *ret_n);

/* ---- our own changes ---- */

/** Notes that the Service's balancer is being changed, or was: earlier readings are out of date.
 * id 0: its id stays as it was. */
void hz_lb_cache_note_change(struct hz_lb_cache *, struct str uid, int64_t id);
/** Keeps an action that is not over; the next run for that Service waits for it first. id 0: none.
 * An action that is kept for five minutes, outages of the API not counted, is dropped.
 * @param has_failed  the last action did */
void hz_lb_cache_set_action(struct hz_lb_cache *, struct str uid, struct hz_action action,
                            bool has_failed);
void hz_lb_cache_set_creation(struct hz_lb_cache *, struct str uid,
                              const struct hz_creation *creation);
/** What is reported about a Service while it lasts. */
enum hz_notice {
	HZ_NOTICE_REFUSAL, /* why it may not have the balancer of its name */
	HZ_NOTICE_TARGETS, /* which nodes the type leaves out */
	HZ_NOTICE_TYPE,    /* that nobody has chosen a type */
	HZ_NOTICES
};
/** Is it time to report? Yes if `what`, a hash or 0, differs from what was reported last, and every
 * 5 minutes; of HZ_NOTICE_TYPE only once. */
bool hz_lb_cache_should_report(struct hz_lb_cache *, struct str uid, enum hz_notice, uint64_t what);
/** The Service has its balancer: the next HZ_NOTICE_REFUSAL is a new one. */
void hz_lb_cache_end_refusal(struct hz_lb_cache *, struct str uid);

#endif
