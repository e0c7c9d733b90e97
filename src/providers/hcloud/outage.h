/* outage.h: does the API answer, and take our token? Told when that changes, and now and then while it lasts.
 *
 * A refused token is told at once; that no answer comes, after a minute of nothing else, since clouds hiccup. What was told is
 * told again every half hour, as the API server forgets Events after one. Whatever the API says in its own words is an
 * answer: that a thing is not there, that it is locked, that the rate limit is spent.
 *
 * Pure: plain values, no clock. Times are CLOCK_BOOTTIME nanoseconds.
 */
#ifndef CCMD_HCLOUD_OUTAGE_H
#define CCMD_HCLOUD_OUTAGE_H

#include <stdbool.h>
#include <stdint.h>

enum hz_reception {
	HZ_ANSWERED,
	HZ_REFUSED,    /* 401, 403: the token */
	HZ_UNANSWERED, /* nothing, 5xx, or what no API says */
};

/** All zero: it was never asked. */
struct hz_outage {
	enum hz_reception last;
	int64_t since_ns; /* of `last` */
	bool is_told;
	int64_t told_ns;
};

/** Takes in how one request went. True when its trouble, or with HZ_ANSWERED that it is over, is to be told now. */
bool hz_outage_note(struct hz_outage *, enum hz_reception, int64_t now_ns);

#endif
