/* ratelimit.h: how many requests the cloud still permits, when the next ones may be sent, and when
 * an outage is reported.
 *
 * A project has a bucket of requests (3,600) that refills steadily (one a second); each answer says
 * how full it is. All tools of the project share it, so a reserve is left to them. Urgent work may
 * use all but the reserve. Background work stops at twice the reserve, and slows down below half of
 * the bucket: the less is left, the longer the pauses between two runs. The refill is what the
 * cloud reports, less what other tools were seen to use: if they use all of it, background work
 * sends hardly any requests.
 *
 * A refused token is reported immediately. That the API does not answer is reported after a minute,
 * because short outages are frequent. Both are reported again every half hour, because the API
 * server keeps Events for an hour only. An error that the API describes is an answer: that
 * something does not exist, that it is locked, that the rate limit is reached.
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
	HZ_BACKGROUND, /* periodic requests, whose result can wait */
	HZ_URGENT,
};

struct hz_budget {
	unsigned reserve_percent;
	bool is_known; /* an answer had the headers, or was a refusal */
	double limit;  /* requests */
	double rate;   /* of the refill, in requests a second */
	double left;   /* requests, at seen_ns */
	int64_t seen_ns;
	double own_rate; /* the part of `rate` that other tools leave to us */
	/* `left` when own_rate was measured last, and what we took since */
	double left_at_sample, spent_since_sample;
	int64_t sampled_ns;
	int64_t background_ns; /* when the last run of background requests began */
	bool is_resting;       /* urgent work was refused, and waits for some refill */
	unsigned n_refused;    /* pieces of urgent work, since it rests */
};

/** Takes in the RateLimit headers of an answer: limit, remaining, and the Unix time at which the
 * bucket is full; -1 if one is missing, and then nothing changes. Values out of range are
 * clamped. */
void hz_budget_note(struct hz_budget *, int64_t limit, int64_t remaining, int64_t reset_s,
                    int64_t wall_s, int64_t now_ns);
/** The cloud refused a request because of the rate limit: nothing is left. */
void hz_budget_empty(struct hz_budget *, int64_t now_ns);

/** How long until n requests may be sent; 0: now. At most an hour. */
int64_t hz_budget_wait_ns(const struct hz_budget *, enum hz_urgency, double n, int64_t now_ns);
/** Called when urgent work of n requests is refused. Returns how long that work has to wait, at
 * most an hour. All urgent work then waits until the bucket holds enough requests for several runs,
 * and each refused piece of work gets a later time than the one before. Reason: a run sends several
 * requests, one after the other. If each run began as soon as one request is permitted, the first
 * requests of all runs would use up the refill, and no run would ever end. */
int64_t hz_budget_rest(struct hz_budget *, double n, int64_t now_ns);
/** Takes n requests, which are sent now, from the budget. */
void hz_budget_take(struct hz_budget *, enum hz_urgency, double n, int64_t now_ns);

/** The requests that are left now, between 0 and the limit. */
double hz_budget_left(const struct hz_budget *, int64_t now_ns);
/** Background work stops while fewer requests than this are left. */
double hz_budget_background_floor(const struct hz_budget *);
/** Returns true if so many requests are left that no work is slowed down. */
bool hz_budget_is_eased(const struct hz_budget *, int64_t now_ns);

/* ---- reports of an outage ---- */

enum hz_reception {
	HZ_ANSWERED,
	HZ_REFUSED,    /* 401, 403: the token */
	HZ_UNANSWERED, /* no answer, 5xx, or an answer that is not the API's */
};

/** All zero: no request was sent yet. */
struct hz_outage {
	enum hz_reception last;
	int64_t since_ns; /* of `last` */
	bool is_reported;
	int64_t reported_ns;
};

/** Takes in the result of one request. True if the failure, or with HZ_ANSWERED its end, is to be
 * reported now. */
bool hz_outage_note(struct hz_outage *, enum hz_reception, int64_t now_ns);

#endif
