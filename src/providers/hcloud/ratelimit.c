/* ratelimit.c: see ratelimit.h.
 *
 * The budget has three figures, which follow the answers of the API:
 *
 * 	left      requests in the bucket at seen_ns; the refill after that is extrapolated
 * 	rate      what flows into the bucket, in requests a second, computed from RateLimit-Reset
 * 	own_rate  the part of the rate that is left to us: the rate less what other tools took
 *
 * Urgent work is planned with the rate, background work with the own rate. That is measured over a
 * sample of at least MIN_SAMPLE_S, by comparing the bucket with what it would hold if only this
 * process had taken requests.
 */
#include "providers/hcloud/ratelimit.h"

#include "base/clock.h"

/* ---- the budget of requests ---- */

#define LIMIT_MAX 1e9
#define DEFAULT_LIMIT 3600.0
/* an empty bucket is full after this time, unless an answer says otherwise */
#define WINDOW_S 3600.0
#define WAIT_MAX_S 3600.0
/* the longest pause between two pieces of background work while more than the floor is left */
#define PACE_MAX_S 600.0
/* How many requests the bucket has to hold before urgent work continues after a refusal, and how
 * many one run of it takes. For a bucket with a small limit, a hundredth of the limit is enough. */
#define REST_MAX 20.0
#define RUN 4.0
#define SLOW_BELOW 0.5 /* background work slows down below this part of the limit */
/* A run of background work pays for its requests one after the other. If the second had to wait
 * for the pace, the run would begin again later, and would never end. */
#define BACKGROUND_RUN_NS (5 * NS_PER_SEC)
#define MIN_SAMPLE_S 10.0
/* Background work plans with at least a fifth of the refill, even if other tools use all of it:
 * only answers show how full the bucket is, so without requests it would never be noticed that the
 * other tools have stopped. */
#define MIN_SHARE_DIVISOR 5

static double
hz_budget_clamp(double v, double lo, double hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

static double
hz_budget_seconds(int64_t ns)
{
	return (double)ns / (double)NS_PER_SEC;
}

static int64_t
hz_budget_wait_of(double s)
{
	return (int64_t)(hz_budget_clamp(s, 0, WAIT_MAX_S) * (double)NS_PER_SEC);
}

static void
hz_budget_begin_sample(struct hz_budget *b, int64_t now_ns)
{
	b->left_at_sample = b->left;
	b->sampled_ns = now_ns;
	b->spent_since_sample = 0;
}

void
hz_budget_note(struct hz_budget *b, int64_t limit, int64_t remaining, int64_t reset_s,
               int64_t wall_s, int64_t now_ns)
{
	double sampled_s = hz_budget_seconds(now_ns - b->sampled_ns), usual, expected;

	if (limit <= 0 || remaining < 0)
		return;
	b->limit = hz_budget_clamp((double)limit, 1, LIMIT_MAX);
	b->left = hz_budget_clamp((double)remaining, 0, b->limit);
	b->seen_ns = now_ns;

	/* The refill is what the bucket lacks, divided by the time until it is full. A full bucket
	 * does not show the refill, so the usual one is assumed. It is bounded to a tenth and ten
	 * times the usual one, because both figures come from the cloud, and the clocks may differ.
	 */
	usual = b->limit / WINDOW_S;
	b->rate = usual;
	if (reset_s > wall_s && b->left < b->limit)
		b->rate = hz_budget_clamp((b->limit - b->left) / (double)(reset_s - wall_s),
		                          usual / 10, usual * 10);

	/* If the bucket holds less than expected, other tools have taken the difference. The API
	 * counts in whole requests and seconds, so a shorter sample is too inexact. */
	if (!b->is_known) {
		b->own_rate = b->rate;
	} else if (sampled_s >= MIN_SAMPLE_S) {
		expected = hz_budget_clamp(b->left_at_sample - b->spent_since_sample +
		                                   b->rate * sampled_s,
		                           0, b->limit);
		b->own_rate = b->rate - (expected - b->left) / sampled_s;
	}
	b->own_rate = hz_budget_clamp(b->own_rate, b->rate / MIN_SHARE_DIVISOR, b->rate);
	if (!b->is_known || sampled_s >= MIN_SAMPLE_S)
		hz_budget_begin_sample(b, now_ns);
	b->is_known = true;
}

void
hz_budget_empty(struct hz_budget *b, int64_t now_ns)
{
	if (!b->is_known) {
		b->limit = DEFAULT_LIMIT;
		b->rate = b->own_rate = b->limit / WINDOW_S;
		hz_budget_begin_sample(b, now_ns);
	}
	b->is_known = true;
	b->left = 0;
	b->seen_ns = now_ns;
}

static double
hz_budget_left_at(const struct hz_budget *b, double rate, int64_t now_ns)
{
	return hz_budget_clamp(b->left + rate * hz_budget_seconds(now_ns - b->seen_ns), 0,
	                       b->limit);
}

double
hz_budget_left(const struct hz_budget *b, int64_t now_ns)
{
	return hz_budget_left_at(b, b->rate, now_ns);
}

bool
hz_budget_is_eased(const struct hz_budget *b, int64_t now_ns)
{
	return hz_budget_left_at(b, b->own_rate, now_ns) > SLOW_BELOW * b->limit;
}

/* Returns the seconds between two pieces of background work of n requests: 0 while the bucket is at
 * least half full, and the more the closer it is to the floor. At half of the way the pause is as
 * long as the refill of n requests takes. */
static double
hz_budget_pace_s(const struct hz_budget *b, double left, double floor, double n)
{
	double span = SLOW_BELOW * b->limit - floor,
	       room = (left - floor) / hz_budget_clamp(span, 1, span);

	if (span <= 0 || room >= 1)
		return 0;
	return hz_budget_clamp(n / b->own_rate * (1 / hz_budget_clamp(room, 0.01, 1) - 1), 0,
	                       PACE_MAX_S);
}

double
hz_budget_background_floor(const struct hz_budget *b)
{
	return 2 * b->limit * b->reserve_percent / 100;
}

/* Urgent work may use all but the reserve, background work stops at twice the reserve. */
int64_t
hz_budget_wait_ns(const struct hz_budget *b, enum hz_urgency urgency, double n, int64_t now_ns)
{
	double rate = urgency == HZ_URGENT ? b->rate : b->own_rate;
	double left = hz_budget_left_at(b, rate, now_ns), wanted;
	double rest = hz_budget_clamp(b->limit / 100, 1, REST_MAX);
	double floor = urgency == HZ_URGENT ? b->limit * b->reserve_percent / 100
	                                    : hz_budget_background_floor(b);

	if (!b->is_known)
		return 0;
	if (urgency == HZ_URGENT && b->is_resting && n < rest)
		n = rest;
	/* Work that needs more requests than the bucket can hold starts when the bucket is full;
	 * the cloud then refuses the requests that exceed it. */
	wanted = hz_budget_clamp(floor + n, 0, b->limit);
	if (left < wanted)
		return hz_budget_wait_of((wanted - left) / rate);
	if (urgency == HZ_URGENT || now_ns - b->background_ns < BACKGROUND_RUN_NS)
		return 0;
	return hz_budget_wait_of(hz_budget_pace_s(b, left, floor, n) -
	                         hz_budget_seconds(now_ns - b->background_ns));
}

int64_t
hz_budget_rest(struct hz_budget *b, double n, int64_t now_ns)
{
	int64_t turn_ns = hz_budget_wait_of(RUN * b->n_refused / b->rate), wait_ns;

	b->is_resting = true;
	b->n_refused++;
	wait_ns = hz_budget_wait_ns(b, HZ_URGENT, n, now_ns) + turn_ns;
	return hz_budget_wait_of(hz_budget_seconds(wait_ns));
}

void
hz_budget_take(struct hz_budget *b, enum hz_urgency urgency, double n, int64_t now_ns)
{
	b->left = hz_budget_clamp(hz_budget_left(b, now_ns) - n, 0, b->limit);
	b->seen_ns = now_ns;
	b->spent_since_sample += n;
	if (urgency == HZ_BACKGROUND) {
		if (now_ns - b->background_ns >= BACKGROUND_RUN_NS)
			b->background_ns = now_ns;
	} else {
		b->is_resting = false;
		b->n_refused = 0;
	}
}

/* ---- reports of an outage ---- */

#define REPORT_AFTER_NS (60 * NS_PER_SEC)
#define REPORT_AGAIN_NS (1800 * NS_PER_SEC)

bool
hz_outage_note(struct hz_outage *o, enum hz_reception reception, int64_t now_ns)
{
	bool was_reported = o->is_reported, is_due;

	if (reception != o->last)
		*o = (struct hz_outage){ .last = reception, .since_ns = now_ns };
	if (reception == HZ_ANSWERED)
		return was_reported;
	/* A refused token is reported immediately, because it does not recover by itself. Missing
	 * answers are reported after REPORT_AFTER_NS, because short outages are frequent. */
	is_due = o->is_reported
	                 ? now_ns - o->reported_ns >= REPORT_AGAIN_NS
	                 : reception == HZ_REFUSED || now_ns - o->since_ns >= REPORT_AFTER_NS;
	if (!is_due)
		return false;
	o->is_reported = true;
	o->reported_ns = now_ns;
	return true;
}
