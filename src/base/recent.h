/* base/recent.h: how many requests ended in the last five minutes.
 *
 * The counters of base/metrics.h count from the start of the process, so a single reading says
 * nothing about the present. Here, requests are counted in slots of ten seconds, which are shown as
 * one gauge: ccmd_recent_requests.
 *
 * Threads: recent_add() and recent_sum() are not locked; the other functions may be called from any
 * thread.
 */
#ifndef CCMD_BASE_RECENT_H
#define CCMD_BASE_RECENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RECENT_SLOTS = 30,
	RECENT_SLOT_S = 10,
};

struct recent {
	int64_t last; /* the number of the newest slot, counted from the boot of the machine */
	size_t slots[RECENT_SLOTS];
};

void recent_add(struct recent *, int64_t now_ns);
/** The number of requests in the last 290 to 300 s. */
size_t recent_sum(struct recent *, int64_t now_ns);

enum recent_server {
	RECENT_API_SERVER,
	RECENT_CLOUD,
	RECENT_SERVERS, /* their number */
};

/** Counts one attempt of a request. status 0: there was no answer. */
void recent_count(enum recent_server server, int status);

/** Remembers that the cloud's main API has just accepted a request. Its other APIs, such as Robot,
 * have credentials of their own, and do not count. */
void recent_note_cloud(void);
/** How long ago that was. False: it never was. */
bool recent_cloud_ago(int64_t *ret_ns);

#endif
