/* lb_client.c: see lb_client.h.
 *
 * One reader of lists (struct listing) serves balancers, types and certificates. It reads page
 * after page, and hands each object to a function of the kind. Objects may be created or deleted
 * between the requests of two pages, which moves others to a neighbouring page. So an object is
 * added once by its ID, and a list of balancers is read up to three times until the number of IDs
 * equals the total that the last page names: the caller would create a second balancer for a
 * Service whose balancer is missing from the list.
 */
#include "providers/hcloud/lb_client.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/limits.h"
#include "base/map.h"
#include "http/url.h"
#include "providers/hcloud/client.h"

enum {
	PAGES_MAX = LIMIT_CLOUD_BALANCERS / HZ_PAGE,
	LIST_ATTEMPTS = 3,
};

static const struct hz_request urgent = { .is_urgent = true };

/* ---- lists: all pages ---- */

/* The state of reading one list. */
struct listing {
	const char *path, *name; /* "/load_balancers", "load_balancers" */
	struct str selector;     /* of labels; empty: the list has all objects */
	bool is_unsorted;        /* the API has no sort parameter for this list */
	bool (*add)(struct listing *, yyjson_val *, struct error *);
	struct arena *arena;
	struct map seen; /* the IDs that were added; a key has the bytes of an ID */
	int64_t total;   /* as the last page names it; -1: the page does not name a total */
	int64_t next;    /* the page to read next; 0: all pages were read */
	void *items;     /* on the heap while they grow; at the end they are copied to the arena */
	size_t n, cap;
};

static void
listing_fini(struct listing *list)
{
	map_fini(&list->seen);
	free(list->items);
}

/* Reads the page list->next, and hands over each object that no page had before. */
static bool
listing_read_page(struct listing *list, struct hz_api *api, struct call *call, struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	CLEANUP(buf_fini) struct buf target = BUF_INIT(LIMIT_HTTP_URL);
	struct hz_request how = urgent;
	int64_t number = list->next;
	yyjson_val *page, *one;
	size_t i, n;

	buf_add_c(&target, list->path);
	if (list->selector.len > 0)
		url_add_query(&target, "label_selector", list->selector);
	buf_addf(&target, "%cpage=%" PRId64 "&per_page=%d%s", list->selector.len > 0 ? '&' : '?',
	         number, HZ_PAGE, list->is_unsorted ? "" : "&sort=id%3Aasc");
	how.target = buf_ok(&target) ? buf_str(&target) : STR("too long");
	if (!hz_api_do(api, call, &how, &answer, err) ||
	    !hz_answer_list(&answer, list->name, &page, err))
		return false;
	yyjson_arr_foreach(page, i, n, one)
	{
		int64_t *id = ARENA_NEW(list->arena, int64_t);

		if (json_i64(one, "id", id) == JSON_FOUND &&
		    map_put(&list->seen, map_key_i64(id), list))
			continue;
		if (!list->add(list, one, err))
			return false;
	}
	if (list->seen.count > LIMIT_CLOUD_BALANCERS)
		return err_set(err, ERR_UNAVAILABLE,
		               "the Hetzner Cloud API's list of %s has more than %d elements",
		               list->name, LIMIT_CLOUD_BALANCERS);
	list->total = -1;
	list->next = 0;
	json_i64(hz_answer_root(&answer), "meta.pagination.total_entries", &list->total);
	json_i64(hz_answer_root(&answer), "meta.pagination.next_page", &list->next);
	if (list->next != 0 && (list->next != number + 1 || list->next > PAGES_MAX))
		return err_set(err, ERR_UNAVAILABLE,
		               "the Hetzner Cloud API's list of %s has no end", list->name);
	return true;
}

static bool
listing_read(struct listing *list, struct hz_api *api, struct call *call, struct error *err)
{
	for (list->next = 1; list->next > 0;) {
		int64_t number = list->next;

		if (!listing_read_page(list, api, call, err))
			return err_wrap(err, "page %" PRId64 " of %s", number, list->name);
	}
	return true;
}

static void *
listing_copy_items(const struct listing *list, size_t size)
{
	void *items = arena_calloc(list->arena, list->n, size);

	if (list->n > 0)
		memcpy(items, list->items, list->n * size);
	return items;
}

/* ---- balancers ---- */

static bool
listing_add_lb(struct listing *list, yyjson_val *one, struct error *err)
{
	struct hz_lb lb, *lbs = list->items;

	if (!hz_lb_read(one, list->arena, &lb, err))
		return false;
	ARRAY_PUSH(lbs, list->n, list->cap, lb);
	list->items = lbs;
	return true;
}

/* An incomplete list is an error, because the caller creates another balancer for a Service whose
 * balancer is not in the list. */
bool
hz_list_lbs(struct hz_api *api, struct call *call, struct arena *arena, struct str uid,
            struct hz_lb_list *ret, struct error *err)
{
	struct str selector = uid.len > 0
	                              ? arena_printf(arena, HZ_LABEL_UID "=%" STR_FMT, STR_ARG(uid))
	                              : STR(HZ_LABEL_UID);

	for (int n = 0; n < LIST_ATTEMPTS; n++) {
		CLEANUP(listing_fini)
		struct listing list = { .path = "/load_balancers",
			                .name = "load_balancers",
			                .selector = selector,
			                .add = listing_add_lb,
			                .arena = arena };

		if (!listing_read(&list, api, call, err)) {
			if (err->code == ERR_CONFLICT)
				continue;
			return false;
		}
		if (list.total < 0)
			return err_set(err, ERR_UNAVAILABLE,
			               "the Hetzner Cloud API's list of %s has no "
			               "meta.pagination.total_entries",
			               list.name);
		if (list.total == (int64_t)list.seen.count) {
			*ret = (struct hz_lb_list){
				.lbs = listing_copy_items(&list, sizeof(*ret->lbs)),
				.n = list.n,
			};
			return true;
		}
		err_set(err, ERR_CONFLICT, "the list of load balancers changed while it was read");
	}
	return false;
}

bool
hz_get_lb(struct hz_api *api, struct call *call, struct arena *arena, int64_t id, struct hz_lb *ret,
          struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	yyjson_val *val;

	return hz_get_object(api, call, "load_balancer", id, urgent, &answer, &val, err) &&
	       hz_lb_read(val, arena, ret, err);
}

bool
hz_find_lb(struct hz_api *api, struct call *call, struct arena *arena, struct str name,
           struct hz_lb *ret, struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	yyjson_val *val;

	return hz_find_object(api, call, "load_balancer", name, urgent, &answer, &val, err) &&
	       hz_lb_read(val, arena, ret, err);
}

/* ---- changes ---- */

bool
hz_create_lb(struct hz_api *api, struct call *call, struct arena *arena, struct str body,
             struct hz_lb *ret, struct hz_done *ret_done, struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	struct hz_request request = { .method = HTTP_POST,
		                      .target = STR("/load_balancers"),
		                      .body = body };
	yyjson_val *val;

	return hz_change(api, call, &request, &answer, ret_done, err) &&
	       hz_answer_object(&answer, "load_balancer", &val, err) &&
	       hz_lb_read(val, arena, ret, err);
}

static bool
hz_lb_client_change_lb(struct hz_api *api, struct call *call, enum http_method method, int64_t id,
                       struct str body, struct hz_answer *answer, struct hz_done *ret,
                       struct error *err)
{
	struct hz_request request = {
		.method = method,
		.target = arena_printf(call->arena, "/load_balancers/%" PRId64, id),
		.body = body,
	};

	return hz_change(api, call, &request, answer, ret, err);
}

bool
hz_put_lb(struct hz_api *api, struct call *call, int64_t id, struct str body,
          struct hz_done *ret_done, struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;

	return hz_lb_client_change_lb(api, call, HTTP_PUT, id, body, &answer, ret_done, err);
}

bool
hz_delete_lb(struct hz_api *api, struct call *call, int64_t id, struct hz_done *ret_done,
             struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;

	if (!hz_lb_client_change_lb(api, call, HTTP_DELETE, id, STR_EMPTY, &answer, ret_done, err))
		return false;
	/* Until October 2026 the API deleted immediately and answered without a body. */
	if (hz_answer_root(&answer) && ret_done->action.id == 0)
		return err_set(err, ERR_UNAVAILABLE,
		               "DELETE /load_balancers/%" PRId64
		               ": the answer has no action, so it is not known whether the "
		               "load balancer is deleted",
		               id);
	return true;
}

bool
hz_act_on_lb(struct hz_api *api, struct call *call, int64_t id, const char *verb, struct str body,
             struct hz_done *ret_done, struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	struct hz_request request = {
		.method = HTTP_POST,
		.target = arena_printf(call->arena, "/load_balancers/%" PRId64 "/actions/%s", id,
		                       verb),
		.body = body,
	};

	return hz_change(api, call, &request, &answer, ret_done, err);
}

/* ---- types ---- */

static bool
listing_add_type(struct listing *list, yyjson_val *one, struct error *err)
{
	struct hz_lb_type type, *types = list->items;

	if (!hz_lb_type_read(one, list->arena, &type, err))
		return false;
	ARRAY_PUSH(types, list->n, list->cap, type);
	list->items = types;
	return true;
}

bool
hz_list_lb_types(struct hz_api *api, struct call *call, struct arena *arena,
                 struct hz_lb_type **ret, size_t *ret_n, struct error *err)
{
	CLEANUP(listing_fini)
	struct listing list = { .path = "/load_balancer_types",
		                .name = "load_balancer_types",
		                .selector = STR_EMPTY,
		                .is_unsorted = true,
		                .add = listing_add_type,
		                .arena = arena };

	if (!listing_read(&list, api, call, err))
		return false;
	*ret = listing_copy_items(&list, sizeof(**ret));
	*ret_n = list.n;
	return true;
}

/* ---- certificates ---- */

bool
hz_find_certificate(struct hz_api *api, struct call *call, struct arena *arena, struct str name,
                    struct hz_certificate *ret, struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	yyjson_val *val;

	return hz_find_object(api, call, "certificate", name, urgent, &answer, &val, err) &&
	       hz_certificate_read(val, arena, ret, err);
}

static bool
listing_add_certificate(struct listing *list, yyjson_val *one, struct error *err)
{
	struct hz_certificate certificate, *certificates = list->items;

	if (!hz_certificate_read(one, list->arena, &certificate, err))
		return false;
	ARRAY_PUSH(certificates, list->n, list->cap, certificate);
	list->items = certificates;
	return true;
}

bool
hz_find_certificate_of(struct hz_api *api, struct call *call, struct arena *arena, struct str uid,
                       struct hz_certificate *ret, struct error *err)
{
	CLEANUP(listing_fini)
	struct listing list = { .path = "/certificates",
		                .name = "certificates",
		                .add = listing_add_certificate,
		                .arena = arena };

	list.selector = arena_printf(arena, HZ_LABEL_UID "=%" STR_FMT, STR_ARG(uid));
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
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	struct hz_request request = { .method = HTTP_POST,
		                      .target = STR("/certificates"),
		                      .body = body };
	yyjson_val *val;

	return hz_change(api, call, &request, &answer, ret_done, err) &&
	       hz_answer_object(&answer, "certificate", &val, err) &&
	       hz_certificate_read(val, arena, ret, err);
}
