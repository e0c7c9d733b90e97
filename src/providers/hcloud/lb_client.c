/* lb_client.c: see lb_client.h.
 *
 * One reader of lists (struct listing) serves balancers, types and certificates. It reads page
 * after page, and reads each object with a function of its kind. Objects may be created or deleted
 * between the requests of two pages, which moves others to a neighbouring page. So an object is
 * added once by its ID, and a list of balancers is read up to three times until the number of IDs
 * equals the total that the last page names: the caller would create a second balancer for a
 * Service whose balancer is missing from the list.
 */
#include "providers/hcloud/lb_client.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "providers/hcloud/client.h"

enum {
	LIST_ATTEMPTS = 3,
};

static const struct hz_request urgent = { .is_urgent = true };

/* ---- lists: all pages ---- */

/* The state of reading one list. */
struct listing {
	struct hz_pages pages;
	hz_read_fn *read; /* one item */
	size_t size;      /* of an item */
	struct arena *arena;
	struct map seen; /* the IDs that were read; a key has the bytes of an ID */
	void *items;     /* on the heap while they grow; at the end they are copied to the arena */
	size_t n, cap;
};

static void
listing_fini(struct listing *list)
{
	map_fini(&list->seen);
	free(list->items);
}

/* Reads the next page, and adds each object that no page had before. */
static bool
listing_read_page(struct listing *list, struct hz_api *api, struct call *call, struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	yyjson_val *page, *one;
	size_t i, n;

	if (!hz_read_page(api, call, &list->pages, urgent, &answer, &page, err))
		return false;
	yyjson_arr_foreach(page, i, n, one)
	{
		int64_t *id = ARENA_NEW(list->arena, int64_t);

		if (json_i64(one, "id", id) == JSON_FOUND &&
		    map_put(&list->seen, map_key_i64(id), list))
			continue;
		if (list->n == list->cap) {
			list->cap += HZ_PAGE;
			list->items = xreallocarray(list->items, list->cap, list->size);
		}
		if (!list->read(one, list->arena, (char *)list->items + list->n * list->size, err))
			return false;
		list->n++;
	}
	if (list->seen.count > LIMIT_CLOUD_BALANCERS)
		return err_set(err, ERR_UNAVAILABLE,
		               "the Hetzner Cloud API's list of %s has more than %d elements",
		               list->pages.path + 1, LIMIT_CLOUD_BALANCERS);
	return true;
}

static bool
listing_read(struct listing *list, struct hz_api *api, struct call *call, struct error *err)
{
	list->pages.max = LIMIT_CLOUD_BALANCERS / HZ_PAGE;
	for (list->pages.next = 1; list->pages.next > 0;) {
		int64_t number = list->pages.next;

		if (!listing_read_page(list, api, call, err))
			return err_wrap(err, "page %" PRId64 " of %s", number,
			                list->pages.path + 1);
	}
	return true;
}

static void *
listing_copy_items(const struct listing *list)
{
	void *items = arena_calloc(list->arena, list->n, list->size);

	if (list->n > 0)
		memcpy(items, list->items, list->n * list->size);
	return items;
}

/* ---- balancers ---- */

static struct str
hz_selector_of_uids(struct str uids, struct arena *arena)
{
	if (uids.len == 0)
		return STR(HZ_LABEL_UID);
	if (memchr(uids.ptr, ',', uids.len))
		return arena_printf(arena, HZ_LABEL_UID " in (%" STR_FMT ")", STR_ARG(uids));
	return arena_printf(arena, HZ_LABEL_UID "=%" STR_FMT, STR_ARG(uids));
}

static bool
hz_list_lbs_once(struct hz_api *api, struct call *call, struct arena *arena, struct str selector,
                 struct hz_lb_list *ret, struct error *err)
{
	CLEANUP(listing_fini)
	struct listing list = { .pages = { .path = "/load_balancers", .selector = selector },
		                .read = hz_lb_read,
		                .size = sizeof(struct hz_lb),
		                .arena = arena };

	if (!listing_read(&list, api, call, err))
		return false;
	if (list.pages.total < 0)
		return err_set(err, ERR_UNAVAILABLE,
		               "the Hetzner Cloud API's list of load_balancers has no "
		               "meta.pagination.total_entries");
	if (list.pages.total != (int64_t)list.seen.count)
		return err_set(err, ERR_CONFLICT,
		               "the list of load balancers changed while it was read");
	*ret = (struct hz_lb_list){ .lbs = listing_copy_items(&list), .n = list.n };
	return true;
}

/* An incomplete list is an error, because the caller creates another balancer for a Service whose
 * balancer is not in the list. */
bool
hz_list_lbs(struct hz_api *api, struct call *call, struct arena *arena, struct str uids,
            struct hz_lb_list *ret, struct error *err)
{
	struct str selector = hz_selector_of_uids(uids, arena);

	for (int n = 1;; n++) {
		if (hz_list_lbs_once(api, call, arena, selector, ret, err))
			return true;
		if (err->code != ERR_CONFLICT || n == LIST_ATTEMPTS)
			return false;
	}
}

bool
hz_find_lb(struct hz_api *api, struct call *call, struct arena *arena, struct hz_which which,
           struct hz_lb *ret, struct error *err)
{
	return hz_find_object(api, call, arena, "load_balancer", which, urgent, hz_lb_read, ret,
	                      err);
}

/* ---- changes ---- */

/* Creates an object, and reads it from the answer into *ret. */
static bool
hz_create_object(struct hz_api *api, struct call *call, struct arena *arena, const char *kind,
                 struct str body, hz_read_fn *read, void *ret, struct hz_done *ret_done,
                 struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	yyjson_val *val;
	struct hz_request request = { .method = HTTP_POST,
		                      .target = arena_printf(call->arena, "/%ss", kind),
		                      .body = body };

	return hz_change(api, call, &request, &answer, ret_done, err) &&
	       hz_answer_object(&answer, kind, &val, err) && read(val, arena, ret, err);
}

bool
hz_create_lb(struct hz_api *api, struct call *call, struct arena *arena, struct str body,
             struct hz_lb *ret, struct hz_done *ret_done, struct error *err)
{
	return hz_create_object(api, call, arena, "load_balancer", body, hz_lb_read, ret, ret_done,
	                        err);
}

bool
hz_change_lb(struct hz_api *api, struct call *call, int64_t id, const char *verb, struct str body,
             struct hz_done *ret_done, struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	struct hz_request request = {
		.method = verb ? HTTP_POST : HTTP_PUT,
		.target = arena_printf(call->arena, "/load_balancers/%" PRId64 "%s%s", id,
		                       verb ? "/actions/" : "", verb ? verb : ""),
		.body = body,
	};

	return hz_change(api, call, &request, &answer, ret_done, err);
}

bool
hz_delete_lb(struct hz_api *api, struct call *call, int64_t id, struct hz_done *ret_done,
             struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	struct hz_request request = {
		.method = HTTP_DELETE,
		.target = arena_printf(call->arena, "/load_balancers/%" PRId64, id),
	};

	if (!hz_change(api, call, &request, &answer, ret_done, err))
		return false;
	/* Until October 2026 the API deleted immediately and answered without a body. */
	if (hz_answer_root(&answer) && ret_done->action.id == 0)
		return err_set(err, ERR_UNAVAILABLE,
		               "DELETE %" STR_FMT
		               ": the response has no action, so it is not known whether the "
		               "load balancer is deleted",
		               STR_ARG(request.target));
	return true;
}

/* ---- types ---- */

bool
hz_list_lb_types(struct hz_api *api, struct call *call, struct arena *arena,
                 struct hz_lb_type **ret, size_t *ret_n, struct error *err)
{
	CLEANUP(listing_fini)
	struct listing list = { .pages = { .path = "/load_balancer_types", .is_unsorted = true },
		                .read = hz_lb_type_read,
		                .size = sizeof(struct hz_lb_type),
		                .arena = arena };

	if (!listing_read(&list, api, call, err))
		return false;
	*ret = listing_copy_items(&list);
	*ret_n = list.n;
	return true;
}

/* ---- certificates ---- */

bool
hz_find_certificate(struct hz_api *api, struct call *call, struct arena *arena, struct str name,
                    struct hz_certificate *ret, struct error *err)
{
	return hz_find_object(api, call, arena, "certificate", HZ_BY_NAME(name), urgent,
	                      hz_certificate_read, ret, err);
}

bool
hz_find_certificate_of(struct hz_api *api, struct call *call, struct arena *arena, struct str uid,
                       struct hz_certificate *ret, struct error *err)
{
	CLEANUP(listing_fini)
	struct listing list = { .pages = { .path = "/certificates" },
		                .read = hz_certificate_read,
		                .size = sizeof(struct hz_certificate),
		                .arena = arena };

	list.pages.selector = arena_printf(arena, HZ_LABEL_UID "=%" STR_FMT, STR_ARG(uid));
	if (!listing_read(&list, api, call, err))
		return false;
	if (list.n == 0)
		return err_set(err, ERR_NOT_FOUND, "not found");
	if (list.n > 1)
		return err_set(err, ERR_CONFLICT, "non-unique result");
	*ret = *(struct hz_certificate *)list.items;
	return true;
}

bool
hz_order_certificate(struct hz_api *api, struct call *call, struct arena *arena, struct str body,
                     struct hz_certificate *ret, struct hz_done *ret_done, struct error *err)
{
	return hz_create_object(api, call, arena, "certificate", body, hz_certificate_read, ret,
	                        ret_done, err);
}
