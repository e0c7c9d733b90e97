/* kube/reflector.h: keeps a store equal to a collection of the API server, by list and watch.
 *
 * Each reflector has one thread. It lists from the API server's cache, unpaged, and cuts the answer
 * into objects as they arrive; then it watches with bookmarks from the list's version. A watch that
 * ends regularly is reopened from the last version seen. 410 Gone leads to a new list. After any
 * other failure it backs off, from 0.8 s doubling to 30 s with jitter, and watches or lists again
 * (docs/spec/kube-client.md, "Reflector").
 *
 * A silent connection is given up 30 s after the watch's own time-out; TCP notices a dead peer
 * sooner (http/curl.c). After 120 s without event and bookmark, the API server is asked whether it
 * knows the last version seen; if not, everything is listed.
 *
 * Memory: one object at a time, whatever the server sends (base/split.h, LIMIT_WATCH_LINE).
 */
#ifndef CCMD_KUBE_REFLECTOR_H
#define CCMD_KUBE_REFLECTOR_H

#include "kube/store.h"
#include "http/http.h"

struct reflector;

struct reflector_config {
	struct http_client *http;
	struct store *store;
	struct clock *clock;
	struct cancel *cancel;  /* ends the thread */
	const char *host;       /* label for metrics, as kube_client.host; borrowed */
	const char *user_agent; /* as kube_client.user_agent */
	struct str min_version; /* the first list must not be older; empty: any age; copied */
	int64_t watch_min_s;    /* a watch's time-out is random in [min, 2 min]; 0: 300 */
};

/** Starts the thread. config is copied. */
struct reflector *reflector_new(const struct reflector_config *config);
/** Waits for the thread, which ends when the token is fired, and frees it. NULL is allowed. */
void reflector_free(struct reflector *);

#endif
