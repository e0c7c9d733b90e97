/* hetzner_lists.c: lists as the API gives them: filtered, sorted, in pages. */
#include <stdlib.h>
#include <string.h>

#include "hetzner_internal.h"

enum { DEFAULT_PER_PAGE = 25, MAX_PER_PAGE = 50, SORTS_MAX = 16 };

struct order {
	struct str field;
	bool is_number, is_down;
};

struct orders {
	const struct hm_list *list;
	struct order items[SORTS_MAX];
	size_t n;
};

/* ---- filters ---- */

/* Is the value of the field one of those asked for? Nothing asked for: yes. */
static bool
hm_is_asked(const struct hm_call *call, const struct hm_list *list, const void *thing,
            const char *field)
{
	bool is_asked = false;

	for (size_t i = 0; i < call->n_query; i++) {
		const struct target_pair *pair = &call->query[i];

		if (!str_eq_c(pair->name, field) || pair->value.len == 0)
			continue;
		if (str_eq(pair->value, list->text(thing, pair->name)))
			return true;
		is_asked = true;
	}
	return !is_asked;
}

static size_t
hm_filter(const struct hm_call *call, const struct hm_list *list,
          const struct hm_selector *selector, const void *const things[], size_t n,
          const void *ret[])
{
	static const char *const fields[] = { "name", "status", "type" };
	size_t n_wanted = 0;
	const struct hetzner_settings *settings = &call->h->settings;
	bool is_servers = strcmp(list->name, "servers") == 0;
	bool is_asked = selector != NULL || (is_servers && (settings->unlisted_server > 0 ||
	                                                    settings->hidden_server > 0));

	for (size_t k = 0; k < sizeof(fields) / sizeof(fields[0]); k++)
		is_asked = is_asked || hm_parameter(call, fields[k]).len > 0;
	if (!is_asked) {
		if (n > 0)
			memcpy(ret, things, n * sizeof(ret[0]));
		return n;
	}
	for (size_t i = 0; i < n; i++) {
		bool is_wanted = !selector || hm_selector_matches(selector, things[i]);
		int64_t number = is_servers ? list->number(things[i], STR("id")) : 0;

		if (is_servers &&
		    (number == settings->unlisted_server || number == settings->hidden_server))
			continue;
		for (size_t k = 0; k < sizeof(fields) / sizeof(fields[0]); k++)
			is_wanted = is_wanted && hm_is_asked(call, list, things[i], fields[k]);
		if (is_wanted)
			ret[n_wanted++] = things[i];
	}
	return n_wanted;
}

/* ---- order ---- */

static struct orders
hm_read_orders(const struct hm_call *call, const struct hm_list *list)
{
	struct orders orders = { .list = list };

	for (size_t i = 0; i < call->n_query && orders.n < SORTS_MAX; i++) {
		struct str field = call->query[i].value, direction = STR_EMPTY;

		if (!str_eq_c(call->query[i].name, "sort") || field.len == 0)
			continue;
		str_cut(field, ':', &field, &direction);
		orders.items[orders.n++] = (struct order){
			.field = field,
			.is_number = str_eq_c(field, "id") || str_eq_c(field, "created") ||
			             str_eq_c(field, "started") || str_eq_c(field, "finished"),
			.is_down = str_eq_c(direction, "desc"),
		};
	}
	return orders;
}

static int
hm_compare_by(const struct hm_list *list, const struct order *order, const void *a, const void *b)
{
	int64_t x, y;

	if (!order->is_number)
		return str_cmp(list->text(a, order->field), list->text(b, order->field));
	x = list->number(a, order->field);
	y = list->number(b, order->field);
	return (x > y) - (x < y);
}

/* IDs decide at last, so that the order of equal things is defined. */
static int
hm_compare(const void *left, const void *right, void *arg)
{
	const struct orders *orders = arg;
	const struct order by_id = { .field = STR("id"), .is_number = true };
	const void *a = *(const void *const *)left, *b = *(const void *const *)right;

	for (size_t i = 0; i < orders->n; i++) {
		int result = hm_compare_by(orders->list, &orders->items[i], a, b);

		if (result != 0)
			return orders->items[i].is_down ? -result : result;
	}
	return hm_compare_by(orders->list, &by_id, a, b);
}

/* Things come in the order of their IDs, which most requests ask for. */
static bool
hm_is_by_id(const struct orders *orders)
{
	return orders->n == 0 ||
	       (str_eq_c(orders->items[0].field, "id") && !orders->items[0].is_down);
}

/* ---- pages ---- */

struct page {
	int64_t number, per_page, last, total;
};

static int64_t
hm_number_parameter(const struct hm_call *call, const char *name, int64_t absent)
{
	int64_t number;

	return str_to_i64(hm_parameter(call, name), 1, INT64_MAX, &number) ? number : absent;
}

static struct page
hm_page_of(const struct hm_call *call, size_t total)
{
	int64_t most = call->h->settings.per_page_max;
	struct page page = {
		.number = hm_number_parameter(call, "page", 1),
		.per_page = hm_number_parameter(call, "per_page", DEFAULT_PER_PAGE),
		.total = (int64_t)total,
	};

	if (page.per_page > MAX_PER_PAGE)
		page.per_page = MAX_PER_PAGE;
	if (most > 0 && page.per_page > most)
		page.per_page = most;
	page.last = (page.total + page.per_page - 1) / page.per_page;
	if (page.last == 0)
		page.last = 1;
	return page;
}

static void
hm_add_number_or_null(struct buf *b, const char *name, bool is_there, int64_t number)
{
	if (is_there)
		json_add_number(b, name, number);
	else
		json_add_raw(b, name, STR("null"));
}

static void
hm_add_meta(struct buf *b, const struct page *page)
{
	json_begin_object(b, "meta");
	json_begin_object(b, "pagination");
	json_add_number(b, "page", page->number);
	json_add_number(b, "per_page", page->per_page);
	hm_add_number_or_null(b, "previous_page", page->number > 1, page->number - 1);
	hm_add_number_or_null(b, "next_page", page->number < page->last, page->number + 1);
	json_add_number(b, "last_page", page->last);
	json_add_number(b, "total_entries", page->total);
	json_end_object(b);
	json_end_object(b);
}

bool
hm_answer_list(struct hm_call *call, const struct hm_list *list, const void *const things[],
               size_t n)
{
	struct str wanted = hm_parameter(call, "label_selector"), problem;
	const void **found = arena_calloc(&call->arena, n, sizeof(*found));
	struct orders orders = hm_read_orders(call, list);
	const struct hm_selector *selector = NULL;
	struct buf *b = &call->answer->body;
	struct page page;

	if (wanted.len > 0 && list->is_resource) {
		selector = hm_selector_parse(&call->arena, wanted, &problem);
		if (!selector)
			return hm_refuse_field(call, "label_selector", "%" STR_FMT,
			                       STR_ARG(problem));
	}
	n = hm_filter(call, list, selector, things, n, found);
	if (!hm_is_by_id(&orders))
		qsort_r(found, n, sizeof(*found), hm_compare, &orders);
	page = hm_page_of(call, n);
	json_begin_object(b, NULL);
	json_begin_array(b, list->name);
	for (int64_t i = 0; i < page.per_page && page.number <= page.last; i++) {
		int64_t k = (page.number - 1) * page.per_page + i;

		if (k < page.total)
			list->add(call, b, found[k]);
	}
	json_end_array(b);
	hm_add_meta(b, &page);
	json_end_object(b);
	return true;
}

/* ---- lists of resources ---- */

static int64_t
hm_resource_number(const void *thing, struct str field)
{
	const struct hetzner_resource *resource = thing;

	return str_eq_c(field, "created") ? resource->created_ns : resource->id;
}

static struct str
hm_resource_text(const void *thing, struct str field)
{
	const struct hetzner_resource *resource = thing;

	if (str_eq_c(field, "status"))
		return ((const struct hetzner_server *)thing)->status;
	if (str_eq_c(field, "type") && resource->kind == HETZNER_PRIMARY_IP)
		return ((const struct hetzner_primary_ip *)thing)->is_ipv6 ? STR("ipv6")
		                                                           : STR("ipv4");
	if (str_eq_c(field, "type"))
		return ((const struct hetzner_certificate *)thing)->is_managed ? STR("managed")
		                                                               : STR("uploaded");
	return resource->name;
}

static void
hm_add_listed(struct hm_call *call, struct buf *b, const void *thing)
{
	hm_add_resource_json(call->p, b, NULL, thing);
}

bool
hm_answer_resources(struct hm_call *call, enum hetzner_kind kind)
{
	struct hm_list list = { hm_kind_plurals[kind], true, hm_resource_number, hm_resource_text,
		                hm_add_listed };

	return hm_answer_list(call, &list, (const void *const *)call->p->base.of[kind],
	                      call->p->base.n_of[kind]);
}
