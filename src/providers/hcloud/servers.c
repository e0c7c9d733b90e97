/* servers.c: see servers.h. */
#include "providers/hcloud/servers.h"

#include "base/limits.h"

enum {
	PAGES_MAX = LIMIT_MACHINES / HZ_PAGE,
};

void
hz_servers_fini(struct hz_servers *s)
{
	map_fini(&s->by_id);
	map_fini(&s->by_name);
	arena_fini(&s->arena);
}

const struct hz_server *
hz_servers_by_id(const struct hz_servers *s, int64_t id)
{
	return map_get(&s->by_id, map_key_i64(&id));
}

const struct hz_server *
hz_servers_by_name(const struct hz_servers *s, struct str name)
{
	return map_get(&s->by_name, name);
}

/* One that moved from page to page while we read is counted once. */
static void
add_page(struct hz_servers *s, const struct hz_page *page)
{
	for (size_t i = 0; i < page->n; i++) {
		struct hz_server *server = &page->servers[i];

		if (hz_servers_by_id(s, server->id))
			continue;
		map_put(&s->by_id, map_key_i64(&server->id), server);
		map_put(&s->by_name, server->name, server);
	}
}

static bool
check_next(int64_t number, int64_t next, struct error *err)
{
	if (next == 0 || (next == number + 1 && next <= PAGES_MAX))
		return true;
	return err_set(err, ERR_UNAVAILABLE, "the Hetzner Cloud API's list of servers has no end");
}

bool
hz_servers_read_page(struct hz_api *api, struct call *call, struct hz_servers *s, struct error *err)
{
	int64_t number = s->next;
	struct hz_page page;

	if (!hz_list_servers(api, call, &s->arena, number, &page, err) ||
	    !check_next(number, page.next, err))
		return false;
	s->is_shaky |= page.total < 0 || (number > 1 && page.total != s->total);
	s->total = page.total;
	s->next = page.next;
	add_page(s, &page);
	s->is_complete = s->next == 0 && !s->is_shaky && (int64_t)s->by_id.count == s->total;
	return true;
}

uint64_t
hz_servers_pages_left(const struct hz_servers *s)
{
	int64_t n_pages = s->total > 0 ? (s->total - 1) / HZ_PAGE + 1 : 0;

	return s->next > 0 && n_pages >= s->next ? (uint64_t)(n_pages - s->next + 1) : 0;
}
