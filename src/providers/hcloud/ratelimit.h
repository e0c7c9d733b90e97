/* ratelimit.h: how many requests the cloud still grants us, when the next ones may go, and when an
 * outage is reported.
 *
 * A project has a bucket of requests (3,600) that refills steadily (one a second); each answer says
 * how full it is. It is shared with all tools of the project, so a reserve is left to them. Urgent
 * work may take all but the reserve. Background work keeps off twice that, and slows down below
 * half: at three quarters of the way down it runs at a third of the refill, and so on, smoothly.
 * The refill is what the cloud reports, less what other tools were seen to take: where they take it
 * all, the background asks for next to nothing.
 *
 * A refused token is reported immediately; that no answer comes, after a minute of nothing else,
 * since clouds hiccup. Both are reported again every half hour, as the API server forgets Events
 * after one. Whatever the API says in its own words is an answer: that a thing does not exist, that
 * it is locked, that the rate limit is spent.
 *
 * Pure: plain values, no clock. Times are CLOCK_BOOTTIME nanoseconds unless they are named
 * otherwise.
 */
#ifndef CCMD_HCLOUD_RATELIMIT_H
#define CCMD_HCLOUD_RATELIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* ---- the budget of requests ---- */

enum hz_urgency {
	HZ_BACKGROUND, /* nobody waits: periodic looks */
	HZ_URGENT,
};

struct hz_budget {
	unsigned reserve_percent;
	bool is_known; /* the cloud has said something */
	double limit;  /* requests */
	double rate;   /* requests that flow in a second */
	double left;   /* at seen_ns */
	int64_t seen_ns;
	double flow;         /* what of `rate` is left to us, others taking the rest; a second */
	double noted, taken; /* `left` when the cloud said it last, and what we took since */
	int64_t noted_ns;
	int64_t background_ns; /* when background work last went */
};

/** Takes in the RateLimit headers of an answer: limit, remaining, and the Unix time at which the
 * bucket is full; -1 where one is missing, and then what is known stays. Nonsense is made
 * harmless. */
void hz_budget_note(struct hz_budget *, int64_t limit, int64_t remaining, int64_t reset_s,
                    int64_t wall_s, int64_t now_ns);
/** The cloud refused: nothing is left. */
void hz_budget_empty(struct hz_budget *, int64_t now_ns);

/** How long until n requests may go; 0: now. At most an hour. */
int64_t hz_budget_wait_ns(const struct hz_budget *, enum hz_urgency, double n, int64_t now_ns);
/** They go now. */
void hz_budget_take(struct hz_budget *, enum hz_urgency, double n, int64_t now_ns);

/** What is there now, between 0 and the limit. */
double hz_budget_left(const struct hz_budget *, int64_t now_ns);
/** Nothing is slowed down for want of requests. */
bool hz_budget_is_eased(const struct hz_budget *, int64_t now_ns);

/* ---- reports of an outage ---- */

enum hz_reception {
	HZ_ANSWERED,
	HZ_REFUSED,    /* 401, 403: the token */
	HZ_UNANSWERED, /* nothing, 5xx, or what no API says */
};

/** All zero: it was never asked. */
struct hz_outage {
	enum hz_reception last;
	int64_t since_ns; /* of `last` */
	bool is_reported;
	int64_t reported_ns;
};

/** Takes in how one request went. True when the failure, or with HZ_ANSWERED its end, is to be
 * reported now. */
bool hz_outage_note(struct hz_outage *, enum hz_reception, int64_t now_ns);

#endif
