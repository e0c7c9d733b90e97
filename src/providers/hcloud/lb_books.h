/* lb_books.h: which load balancers there are, as they were read last, and which Services live.
 *
 * Nothing here is kept over a restart: the cloud's labels are the record. Whoever needs to know a balancer gets a reading that
 * began after our own last change of it and is a few seconds old at most; else it is read anew, and all who ask meanwhile share
 * the next reading: one is in the air at a time. A single asker's is one balancer, several's the list of all that are labelled.
 *
 * Threads: any. No request is made under the lock.
 */
#ifndef CCMD_HCLOUD_LB_BOOKS_H
#define CCMD_HCLOUD_LB_BOOKS_H

#include "cloud/balancer.h"
#include "providers/hcloud/lb_client.h"

struct hz_books;
struct hz_reading;

struct hz_books *hz_books_new(struct hz_api *api, struct clock *clock);
void hz_books_free(struct hz_books *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_books, hz_books_free)

/** The balancers that carry one Service's label, as they were read. Views live until hz_found_fini(). */
struct hz_found {
	struct hz_books *books;
	struct hz_reading *reading;
	const struct hz_lb **lbs; /* in the call's arena */
	size_t n;
};

#define HZ_FOUND_INIT ((struct hz_found){ 0 })
/** For CLEANUP(hz_found_fini). */
void hz_found_fini(struct hz_found *);

/* ---- Services ------------------------------------------------------------------------------------------- */

/** All Services that live, at start; reads the list of all balancers that are labelled, if there are any. */
NODISCARD bool hz_books_adopt(struct hz_books *, struct call *, const struct lb_spec *const specs[],
                              size_t n, struct error *err);
/** That Service lives: a balancer with its label is nobody else's. A former one of the same namespace and name does not. */
void hz_books_enlist(struct hz_books *, const struct lb_spec *);
/** Its balancer is gone, and so is all that was known of it. */
void hz_books_strike(struct hz_books *, struct str uid);
bool hz_books_lives(struct hz_books *, struct str uid);
/** Another live Service for which "NAMESPACE-SERVICE" is the same text: "a-b/c" and "a/b-c".
 *
 * @param ret  its namespace, name and UID and nothing else, in the arena */
bool hz_books_find_namesake(struct hz_books *, const struct lb_spec *, struct arena *,
                            struct lb_spec *ret);

/* ---- readings ------------------------------------------------------------------------------------------- */

enum hz_age {
	HZ_RECENT, /* a few seconds old will do, where it shows a balancer; that there is none is always news */
	HZ_FRESH, /* begun after the question */
};

/** Those labelled with that UID: none, one, or by somebody's mistake several.
 *
 * @param ret  HZ_FOUND_INIT */
NODISCARD bool hz_books_find(struct hz_books *, struct call *, struct str uid, enum hz_age age,
                             struct hz_found *ret, struct error *err);
/** Reads the list of all, and counts those that carry the UID of a live Service. */
NODISCARD bool hz_books_count_ours(struct hz_books *, struct call *, unsigned *ret,
                                   struct error *err);
/** Reads the list of all, and counts those with a public address that a live Service has in its status: no other project has
 * one. Names, labels and private addresses prove nothing: another project may have the same. */
NODISCARD bool hz_books_count_serving(struct hz_books *, struct call *, const struct cloud_host *,
                                      unsigned *ret, struct error *err);

/* ---- what we do to them --------------------------------------------------------------------------------- */

/** That Service's balancer is being changed, or was: what was read before tells nothing. id 0: as before. */
void hz_books_note_change(struct hz_books *, struct str uid, int64_t id);
/** An action that is not over: whoever comes next waits for it first. id 0: none. */
void hz_books_set_action(struct hz_books *, struct str uid, struct hz_action action);
struct hz_action hz_books_action(struct hz_books *, struct str uid);
/** How long that Service has been waiting for the cloud, from the first such call on. Outages of the API do not count. */
int64_t hz_books_wait_ns(struct hz_books *, struct str uid);
void hz_books_end_wait(struct hz_books *, struct str uid);
/** Is it time to report that the Service is held? At the first call since its last wait ended, then every 5 minutes. */
bool hz_books_should_report_hold(struct hz_books *, struct str uid);
/** True at the first call for that Service: for what is told once. */
bool hz_books_is_news(struct hz_books *, struct str uid);

#endif
