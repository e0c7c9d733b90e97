/* servers.h: all servers of the project at one moment, from the pages of the list.
 *
 * A list is complete when every page told the same total and the distinct ids are as many: servers that came or went while
 * the pages were read would make it miss some. Only what a complete list lacks can be said not to be there.
 *
 * Threads: read once, by one thread.
 */
#ifndef CCMD_HCLOUD_SERVERS_H
#define CCMD_HCLOUD_SERVERS_H

#include "base/map.h"
#include "providers/hcloud/client.h"

struct hz_servers {
	struct arena arena;
	struct map by_id;   /* the bytes of the id -> struct hz_server */
	struct map by_name; /* names are unique in a project */
	bool is_complete;
	int64_t total; /* as the last page told it; -1: not said */
	int64_t next;  /* the page to read; 0: all have been */
	bool is_shaky; /* totals differed, or were not said */
};

#define HZ_SERVERS_INIT ((struct hz_servers){ .total = -1, .next = 1 })
/** For CLEANUP(hz_servers_fini). */
void hz_servers_fini(struct hz_servers *);

/** Reads the next page; s->next is 0 when it was the last, and only then is_complete tells anything.
 *
 * @param s  HZ_SERVERS_INIT before the first; to be freed on failure as well */
NODISCARD bool hz_servers_read_page(struct hz_api *, struct call *, struct hz_servers *s,
                                    struct error *err);
/** How many pages follow, by the total of the last one. */
uint64_t hz_servers_pages_left(const struct hz_servers *);

/** NULL: not listed. */
const struct hz_server *hz_servers_by_id(const struct hz_servers *, int64_t id);
const struct hz_server *hz_servers_by_name(const struct hz_servers *, struct str name);

#endif
