/* servers.c: see servers.h. */
#include "providers/hcloud/servers.h"

#include "base/limits.h"

enum {
	PAGES_MAX = LIMIT_MACHINES / HZ_PAGE,
};

static struct str
key_of(const int64_t *id)
{
	return str_n((const char *)id, sizeof(*id));
}

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
	return map_get(&s->by_id, key_of(&id));
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
		map_put(&s->by_id, key_of(&server->id), server);
		map_put(&s->by_name, server->name, server);
	}
}

/* The first page has been read. */
static bool
is_too_long(const struct hz_servers *s, size_t most_pages)
{
	int64_t n_following = s->total > 0 ? (s->total - 1) / HZ_PAGE : 0;

	return (uint64_t)n_following > most_pages;
}

bool
hz_servers_read(struct hz_api *api, struct call *call, size_t most_pages, struct hz_servers *ret,
                struct error *err)
{
	bool is_steady = true;
	int64_t number = 1;
	struct hz_page page;

	for (;;) {
		if (!hz_list_servers(api, call, &ret->arena, number, &page, err))
			return false;
		is_steady &= page.total >= 0 && (number == 1 || page.total == ret->total);
		ret->total = page.total;
		add_page(ret, &page);
		if (page.next == 0)
			break;
		if (number == 1 && is_too_long(ret, most_pages))
			return true;
		if (page.next != number + 1 || page.next > PAGES_MAX)
			return err_set(err, ERR_UNAVAILABLE,
			               "the Hetzner Cloud API's list of servers has no end");
		number = page.next;
	}
	ret->is_complete = is_steady && (int64_t)ret->by_id.count == ret->total;
	return true;
}
