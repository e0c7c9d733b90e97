/* kube/reflector.h: keeps a store like the API server's collection, by list and watch.
 *
 * One thread. Lists from the API server's cache, unpaged, cut into objects as they arrive; then
 * watches with bookmarks from the list's version. A watch that ends regularly is resumed where it
 * was; 410 Gone leads to a new list; anything else backs off 0.8 s doubling to 30 s with jitter and
 * resumes or lists again (docs/spec/kube-client.md, "Reflector"). A connection that falls silent is
 * given up at the watch's own time-out + 30 s; dead peers sooner, by TCP (http/http.c). Where
 * neither event nor bookmark came for 120 s, the API server is asked whether it knows the last
 * version at all; if not, everything is listed.
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
	struct str
		min_version; /* the first list is not older than this; empty: any will do; copied */
	int64_t watch_min_s; /* 0: 300; the time-out of a watch is uniform in [min, 2 min] */
};

/** Starts the thread. config is copied. */
struct reflector *reflector_new(const struct reflector_config *config);
/** Waits for the thread, which ends when the token is fired. NULL is fine. */
void reflector_free(struct reflector *);

#endif
