/* kube_patch.c: merge patches (RFC 7386) and strategic merge patches, as k8s.io/apimachinery,
 * pkg/util/strategicpatch, applies them.
 *
 * A strategic merge patch goes by the schema: a list with a merge key is merged element by element,
 * any other list is replaced. The result has an order that a client can see: elements of the patch
 * come in the patch's order, or in that of "$setElementOrder/LIST", and elements that only the
 * server has keep their place as far as that is possible.
 */
#include "kube_internal.h"

#include <string.h>

#define ORDER "$setElementOrder/"
#define REMOVE "$deleteFromPrimitiveList/"

static yyjson_mut_val *km_merge_object(struct km_call *call, yyjson_mut_val *original,
                                       yyjson_mut_val *patch, const struct km_field *fields);

/* ---- lists as arrays ---- */

struct km_items {
	yyjson_mut_val **items;
	size_t n;
};

/* With room for n_more. */
static struct km_items
km_items(struct km_call *call, yyjson_mut_val *list, size_t n_more)
{
	struct km_items all = { .items = arena_calloc(&call->arena, km_length(list) + n_more + 1,
		                                      sizeof(yyjson_mut_val *)) };
	yyjson_mut_arr_iter it;
	yyjson_mut_val *item;

	if (!list || !yyjson_mut_arr_iter_init(list, &it))
		return all;
	while ((item = yyjson_mut_arr_iter_next(&it)))
		all.items[all.n++] = item;
	return all;
}

static yyjson_mut_val *
km_list_of(struct km_call *call, const struct km_items *all)
{
	yyjson_mut_val *list = yyjson_mut_arr(call->doc);

	for (size_t i = 0; i < all->n; i++)
		yyjson_mut_arr_append(list, km_copy(call, all->items[i]));
	return list;
}

/* What identifies an element: itself, or its merge key. */
static yyjson_mut_val *
km_identity(yyjson_mut_val *item, const char *merge_key)
{
	return merge_key[0] ? km_at(item, merge_key) : item;
}

/* The place of an element with the same identity; all->n: there is none. */
static size_t
km_index(const struct km_items *all, yyjson_mut_val *item, const char *merge_key)
{
	yyjson_mut_val *identity = km_identity(item, merge_key);
	size_t i = 0;

	while (i < all->n &&
	       (!identity || !km_equals(km_identity(all->items[i], merge_key), identity)))
		i++;
	return i;
}

/* ---- the order of a merged list ---- */

/* Sorts by the place in `order`; elements that are not in it stay behind, in their order. */
static void
km_sort(struct km_items *all, const struct km_items *order, const char *merge_key)
{
	for (size_t i = 1; i < all->n; i++) {
		for (size_t k = i; k > 0; k--) {
			yyjson_mut_val *left = all->items[k - 1], *right = all->items[k];

			if (km_index(order, left, merge_key) <= km_index(order, right, merge_key))
				break;
			all->items[k - 1] = right;
			all->items[k] = left;
		}
	}
}

/* Orders the elements of `merged`: those in `order` among themselves as there, the others as in
 * `server`; and of two from different sides the server's comes first only if it was first there. */
static yyjson_mut_val *
km_ordered(struct km_call *call, const struct km_items *merged, const struct km_items *order,
           const struct km_items *server, const char *merge_key)
{
	struct km_items named = km_items(call, NULL, merged->n), others = named, all = named;
	size_t i = 0, k = 0;

	others.items = arena_calloc(&call->arena, merged->n + 1, sizeof(*others.items));
	all.items = arena_calloc(&call->arena, merged->n + 1, sizeof(*all.items));
	for (size_t j = 0; j < merged->n; j++) {
		bool is_named = km_index(order, merged->items[j], merge_key) < order->n;
		struct km_items *side = is_named ? &named : &others;

		side->items[side->n++] = merged->items[j];
	}
	km_sort(&named, order, merge_key);
	km_sort(&others, server, merge_key);
	while (i < others.n || k < named.n) {
		bool takes_other = k == named.n;

		if (i < others.n && k < named.n) {
			size_t left = km_index(server, others.items[i], merge_key);
			size_t right = km_index(server, named.items[k], merge_key);

			takes_other = left < server->n && right < server->n && left < right;
		}
		all.items[all.n++] = takes_other ? others.items[i++] : named.items[k++];
	}
	return km_list_of(call, &all);
}

/* ---- directives ---- */

/* Removes null members and directives from a value that has no counterpart. */
static yyjson_mut_val *
km_without_directives(struct km_call *call, yyjson_mut_val *value)
{
	if (yyjson_mut_is_arr(value)) {
		struct km_items all = km_items(call, value, 0), kept = { all.items, 0 };

		for (size_t i = 0; i < all.n; i++) {
			if (!km_at(all.items[i], "$patch"))
				kept.items[kept.n++] = km_without_directives(call, all.items[i]);
		}
		return km_list_of(call, &kept);
	}
	if (yyjson_mut_is_obj(value)) {
		yyjson_mut_obj_iter it = yyjson_mut_obj_iter_with(value);
		yyjson_mut_val *key, *kept = yyjson_mut_obj(call->doc);

		while ((key = yyjson_mut_obj_iter_next(&it))) {
			yyjson_mut_val *member = yyjson_mut_obj_iter_get_val(key);

			if (!yyjson_mut_is_null(member) && !str_starts(km_text(key), STR("$")))
				yyjson_mut_obj_add(kept, km_copy(call, key),
				                   km_without_directives(call, member));
		}
		return kept;
	}
	return km_copy(call, value);
}

/* ---- lists ---- */

static bool
km_is_set(const struct km_field *field)
{
	return field->merge_key && !field->merge_key[0];
}

/* Elements of the patch without a directive. */
static struct km_items
km_plain_items(struct km_call *call, const struct km_items *patch)
{
	struct km_items plain = { arena_calloc(&call->arena, patch->n + 1, sizeof(*plain.items)),
		                  0 };

	for (size_t i = 0; i < patch->n; i++) {
		if (!km_at(patch->items[i], "$patch"))
			plain.items[plain.n++] = patch->items[i];
	}
	return plain;
}

/* Removes what the patch deletes from *merged. Returns true if the patch replaces the list. */
static bool
km_obey_directives(struct km_items *merged, const struct km_items *patch, const char *merge_key)
{
	bool replaces = false;

	for (size_t i = 0; i < patch->n; i++) {
		struct str directive = km_text_at(patch->items[i], "$patch");
		size_t place = km_index(merged, patch->items[i], merge_key);

		replaces = replaces || str_eq_c(directive, "replace");
		if (!str_eq_c(directive, "delete") || place == merged->n)
			continue;
		memmove(&merged->items[place], &merged->items[place + 1],
		        (merged->n - place - 1) * sizeof(*merged->items));
		merged->n--;
	}
	return replaces;
}

/* NULL: refused. */
static yyjson_mut_val *
km_merge_list(struct km_call *call, yyjson_mut_val *original, yyjson_mut_val *patch,
              const struct km_field *field)
{
	struct km_items wanted = km_items(call, patch, 0);
	struct km_items plain = km_plain_items(call, &wanted), server;
	struct km_items merged = km_items(call, original, wanted.n);

	if (km_obey_directives(&merged, &wanted, field->merge_key)) {
		/* sorted by itself, which brings elements with the same merge key together */
		merged = km_plain_items(call, &wanted);
		km_sort(&merged, &plain, field->merge_key);
		return km_list_of(call, &merged);
	}
	server.n = merged.n;
	server.items = arena_calloc(&call->arena, merged.n + 1, sizeof(*server.items));
	memcpy(server.items, merged.items, merged.n * sizeof(*server.items));
	for (size_t i = 0; i < plain.n; i++) {
		size_t place = km_index(&merged, plain.items[i], field->merge_key);

		if (!km_identity(plain.items[i], field->merge_key)) {
			km_refuse(call, 500, NULL, "map: does not contain declared merge key: %s",
			          field->merge_key);
			return NULL;
		}
		if (place == merged.n)
			merged.items[merged.n++] = plain.items[i];
		else if (!km_is_set(field))
			merged.items[place] = km_merge_object(call, merged.items[place],
			                                      plain.items[i], field->of);
	}
	return km_ordered(call, &merged, &plain, &server, field->merge_key);
}

/* Is each element of the patch in the order, and in that order? */
static bool
km_is_in_order(const struct km_items *patch, const struct km_items *order, const char *merge_key)
{
	size_t k = 0;

	if (order->n == 0)
		return true;
	for (size_t i = 0; i < patch->n; i++) {
		while (k < order->n && !km_equals(km_identity(patch->items[i], merge_key),
		                                  km_identity(order->items[k], merge_key)))
			k++;
		if (k++ == order->n)
			return false;
	}
	return true;
}

/* Merges a list whose order the patch gives. The list need not be in the patch. */
static bool
km_merge_ordered(struct km_call *call, yyjson_mut_val *original, yyjson_mut_val *patch,
                 const struct km_field *field, yyjson_mut_val *order_list)
{
	yyjson_mut_val *old = km_at(original, field->name), *wanted = km_at(patch, field->name);
	yyjson_mut_val *list = old ? old : wanted;
	struct km_items order = km_items(call, order_list, 0), server = km_items(call, old, 0);
	struct km_items all = km_items(call, wanted, 0), plain = km_plain_items(call, &all), merged;

	if (!km_is_in_order(&plain, &order, field->merge_key))
		return km_refuse(call, 500, NULL,
		                 "The order in patch list doesn't match $setElementOrder list");
	if (old && wanted)
		list = km_merge_list(call, old, wanted, field);
	else if (wanted)
		list = km_without_directives(call, wanted);
	if (!list)
		return call->answer->status == 0;
	merged = km_items(call, list, 0);
	km_put(call, original, field->name,
	       km_ordered(call, &merged, &order, &server, field->merge_key));
	return true;
}

static void
km_remove_from_set(struct km_call *call, yyjson_mut_val *original, const struct km_field *field,
                   yyjson_mut_val *removed)
{
	struct km_items all = km_items(call, km_at(original, field->name), 0),
			kept = { all.items, 0 };
	struct km_items gone = km_items(call, removed, 0);

	if (!km_at(original, field->name))
		return;
	for (size_t i = 0; i < all.n; i++) {
		if (km_index(&gone, all.items[i], "") == gone.n)
			kept.items[kept.n++] = all.items[i];
	}
	km_put(call, original, field->name, km_list_of(call, &kept));
}

/* ---- objects ---- */

static const struct km_field *
km_field_of(const struct km_field *fields, struct str name)
{
	for (; fields && fields->name; fields++) {
		if (str_eq_c(name, fields->name))
			return fields;
	}
	return NULL;
}

/* Lists whose order the patch gives come first: they are merged together with their order. */
static void
km_merge_orders(struct km_call *call, yyjson_mut_val *original, yyjson_mut_val *patch,
                const struct km_field *fields)
{
	for (const struct km_field *field = fields; field && field->name; field++) {
		char name[64];
		yyjson_mut_val *order;

		snprintf(name, sizeof(name), ORDER "%s", field->name);
		order = yyjson_mut_obj_get(patch, name);
		if (order && field->merge_key &&
		    km_merge_ordered(call, original, patch, field, order))
			yyjson_mut_obj_remove_key(patch, field->name);
	}
}

static void
km_merge_member(struct km_call *call, yyjson_mut_val *original, struct str name,
                yyjson_mut_val *value, const struct km_field *field)
{
	yyjson_mut_val *old = km_get(original, name), *merged;
	const char *key = arena_strz(&call->arena, name);

	if (yyjson_mut_is_null(value))
		merged = NULL;
	else if (yyjson_mut_is_obj(old) && yyjson_mut_is_obj(value))
		merged = km_merge_object(call, old, value, field ? field->of : NULL);
	else if (yyjson_mut_is_arr(old) && yyjson_mut_is_arr(value) && field && field->merge_key)
		merged = km_merge_list(call, old, value, field);
	else if (yyjson_mut_is_arr(old) && yyjson_mut_is_arr(value))
		merged = km_copy(call, value);
	else
		merged = km_without_directives(call, value);
	if (call->answer->status == 0)
		km_put(call, original, key, merged);
}

/* Returns the changed copy of the original. A refusal is in the answer. */
static yyjson_mut_val *
km_merge_object(struct km_call *call, yyjson_mut_val *original, yyjson_mut_val *patch,
                const struct km_field *fields)
{
	yyjson_mut_val *merged = km_copy(call, original), *rest = km_copy(call, patch), *key;
	yyjson_mut_obj_iter it;

	if (km_at(patch, "$patch")) {
		bool replaces = str_eq_c(km_text_at(patch, "$patch"), "replace");

		return replaces ? km_without_directives(call, patch) : yyjson_mut_obj(call->doc);
	}
	km_merge_orders(call, merged, rest, fields);
	it = yyjson_mut_obj_iter_with(rest);
	while ((key = yyjson_mut_obj_iter_next(&it)) && call->answer->status == 0) {
		yyjson_mut_val *value = yyjson_mut_obj_iter_get_val(key);
		struct str name = km_text(key);

		if (str_starts(name, STR(ORDER)))
			continue;
		if (str_starts(name, STR(REMOVE))) {
			const struct km_field *field = km_field_of(fields,
			                                           str_skip(name,
			                                                    sizeof(REMOVE) - 1));

			if (field)
				km_remove_from_set(call, merged, field, value);
			continue;
		}
		km_merge_member(call, merged, name, value, km_field_of(fields, name));
	}
	return merged;
}

/* ---- the whole ---- */

bool
km_patch(struct km_call *call, yyjson_mut_val *original, yyjson_mut_val **ret)
{
	struct str type = call->request->content_type, body = call->request->body, rest;
	yyjson_doc *doc = yyjson_read(body.ptr, body.len, 0);
	yyjson_mut_val *patch;

	str_cut(type, ';', &type, &rest);
	patch = doc ? yyjson_val_mut_copy(call->doc, yyjson_doc_get_root(doc)) : NULL;
	yyjson_doc_free(doc);
	if (!str_eq_c(type, "application/merge-patch+json") &&
	    !str_eq_c(type, "application/strategic-merge-patch+json"))
		return km_refuse_unsupported(call, "patches of this type");
	if (!yyjson_mut_is_obj(patch))
		return km_refuse(call, 400, "BadRequest", "the patch is no object");
	if (str_eq_c(type, "application/merge-patch+json"))
		*ret = yyjson_mut_merge_patch(call->doc, original, patch);
	else
		*ret = km_merge_object(call, original, patch, call->kind->fields);
	return call->answer->status == 0;
}
