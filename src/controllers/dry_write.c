/* controllers/dry_write.c: see dry_write.h.
 *
 * Lists (taints, addresses, the ingress of a Service) are replaced as a whole by a patch. They are
 * compared as sets of named values: a value that is on both sides has not changed. Of the others,
 * an old and a new value of the same name are a change; the rest was removed or added.
 */
#include "controllers/dry_write.h"

#include "base/array.h"
#include "base/json.h"
#include "base/limits.h"

/* What a write changes; the texts are in the arena. */
struct fields {
	struct arena *arena;
	struct dry_field *items; /* owned */
	size_t n, cap;
};

/* A member of a list. The values of one name are compared with each other. */
struct value {
	struct str name, text;
};

struct values {
	struct value *items; /* in the arena */
	size_t n;
};

static void
fields_add(struct fields *f, struct str name, struct str old, struct str new)
{
	if (!str_eq(old, new))
		ARRAY_PUSH(f->items, f->n, f->cap, (struct dry_field){ name, old, new });
}

/* ---- lists ---- */

static bool
is_same_value(const struct value *a, const struct value *b)
{
	return str_eq(a->name, b->name) && str_eq(a->text, b->text);
}

/* Finds the first value that has no partner yet and equals `wanted`, or has its name. */
static bool
find_free(const struct values *list, const bool *has_partner, const struct value *wanted,
          bool by_name, size_t *ret)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct value *v = &list->items[i];

		if (!has_partner[i] &&
		    (by_name ? str_eq(v->name, wanted->name) : is_same_value(v, wanted))) {
			*ret = i;
			return true;
		}
	}
	return false;
}

static struct str
join_texts(struct fields *f, const struct values *list)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_REQUEST);

	for (size_t i = 0; i < list->n; i++)
		buf_addf(&b, "%s%" STR_FMT, i > 0 ? ", " : "", STR_ARG(list->items[i].text));
	return arena_str(f->arena, buf_str(&b));
}

/* order_name: the name of the field that is added if only the order differs. */
static void
fields_add_list(struct fields *f, struct str order_name, const struct values *old,
                const struct values *new)
{
	bool *is_kept = arena_calloc(f->arena, old->n + 1, sizeof(bool));
	bool *is_old = arena_calloc(f->arena, new->n + 1, sizeof(bool));
	size_t n_before = f->n, partner;
	bool has_moved = false;

	for (size_t i = 0; i < new->n; i++) {
		is_old[i] = find_free(old, is_kept, &new->items[i], /*by_name=*/false, &partner);
		if (is_old[i])
			is_kept[partner] = true;
	}
	for (size_t i = 0; i < old->n; i++) {
		struct str text = STR_EMPTY;

		if (is_kept[i])
			continue;
		if (find_free(new, is_old, &old->items[i], /*by_name=*/true, &partner)) {
			is_old[partner] = true;
			text = new->items[partner].text;
		}
		fields_add(f, old->items[i].name, old->items[i].text, text);
	}
	for (size_t i = 0; i < new->n; i++) {
		if (!is_old[i])
			fields_add(f, new->items[i].name, STR_EMPTY, new->items[i].text);
	}
	for (size_t i = 0; i < old->n && i < new->n; i++)
		has_moved |= !is_same_value(&old->items[i], &new->items[i]);
	if (f->n == n_before && has_moved)
		fields_add(f, order_name, join_texts(f, old), join_texts(f, new));
}

/* ---- nodes ---- */

static void
add_labels(struct fields *f, const struct node *node, yyjson_val *patch)
{
	yyjson_val *labels = json_at(patch, "metadata.labels"), *key, *val;
	size_t i, n;

	yyjson_obj_foreach(labels, i, n, key, val)
	{
		const struct str *old = node_label(node, json_text(key));

		fields_add(f, arena_printf(f->arena, "label %" STR_FMT, STR_ARG(json_text(key))),
		           old ? *old : STR_EMPTY,
		           yyjson_is_str(val) ? arena_str(f->arena, json_text(val)) : STR_EMPTY);
	}
}

static void
add_provider_id(struct fields *f, const struct node *node, yyjson_val *patch)
{
	struct str id = json_text_at(f->arena, patch, "spec.providerID");

	if (id.len > 0)
		fields_add(f, STR("provider ID"), node_provider_id(node), id);
}

/* "true:NoSchedule", as kubectl prints it after the key and a '='. */
static struct value
taint_value(struct arena *arena, yyjson_val *taint)
{
	struct str value = json_view(taint, "value"), since = json_view(taint, "timeAdded");

	return (struct value){
		arena_printf(arena, "taint %" STR_FMT, STR_ARG(json_view(taint, "key"))),
		arena_printf(arena, "%" STR_FMT "%s%" STR_FMT "%s%" STR_FMT, STR_ARG(value),
		             value.len > 0 ? ":" : "", STR_ARG(json_view(taint, "effect")),
		             since.len > 0 ? " since " : "", STR_ARG(since)),
	};
}

/* Returns the values of a JSON array; null, and an absent one, have none. */
static struct values
values_of(struct arena *arena, yyjson_val *array,
          struct value (*read)(struct arena *, yyjson_val *))
{
	struct values list = {
		.items = arena_calloc(arena, yyjson_arr_size(array) + 1, sizeof(struct value)),
	};
	yyjson_arr_iter iter = yyjson_arr_iter_with(array);
	yyjson_val *val;

	while ((val = yyjson_arr_iter_next(&iter)))
		list.items[list.n++] = read(arena, val);
	return list;
}

static void
add_taints(struct fields *f, const struct node *node, yyjson_val *patch)
{
	yyjson_val *taints = yyjson_obj_get(json_at(patch, "spec"), "taints");
	struct values old = { 0 }, new;

	if (!taints)
		return;
	old.items = arena_calloc(f->arena, node->n_taints + 1, sizeof(old.items[0]));
	for (uint32_t i = 0; i < node->n_taints; i++) {
		CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
		struct error ignored;

		if (json_parse(node->taints[i]->raw, &doc, &ignored))
			old.items[old.n++] = taint_value(f->arena, yyjson_doc_get_root(doc));
	}
	new = values_of(f->arena, taints, taint_value);
	fields_add_list(f, STR("taints"), &old, &new);
}

static struct value
address_value(struct arena *arena, yyjson_val *address)
{
	return (struct value){ arena_printf(arena, "address %" STR_FMT,
		                            STR_ARG(json_view(address, "type"))),
		               json_text_at(arena, address, "address") };
}

static void
add_addresses(struct fields *f, const struct node *node, yyjson_val *patch)
{
	yyjson_val *addresses = json_at(patch, "status.addresses");
	struct values old = { .n = node->n_addresses }, new;

	if (!addresses)
		return;
	old.items = arena_calloc(f->arena, old.n + 1, sizeof(old.items[0]));
	for (size_t i = 0; i < old.n; i++)
		old.items[i] = (struct value){
			arena_printf(f->arena, "address %" STR_FMT,
			             STR_ARG(node->addresses[i].type)),
			node->addresses[i].address,
		};
	new = values_of(f->arena, addresses, address_value);
	fields_add_list(f, STR("addresses"), &old, &new);
}

/* The controllers write only the condition NetworkUnavailable. struct node has only what the route
 * controller distinguishes of its present state. */
static void
add_condition(struct fields *f, const struct node *node, yyjson_val *patch)
{
	static const char *const networks[] = { [NODE_NETWORK_OTHER] = "",
		                                [NODE_NETWORK_ROUTED] = "False",
		                                [NODE_NETWORK_MISSING] = "True (NoRouteCreated)" };
	yyjson_val *condition = yyjson_arr_get_first(json_at(patch, "status.conditions"));

	if (condition)
		fields_add(f,
		           arena_printf(f->arena, "condition %" STR_FMT,
		                        STR_ARG(json_view(condition, "type"))),
		           str_c(networks[node->network]),
		           arena_printf(f->arena, "%" STR_FMT " (%" STR_FMT ")",
		                        STR_ARG(json_view(condition, "status")),
		                        STR_ARG(json_view(condition, "reason"))));
}

/* ---- Services ---- */

static void
add_finalizers(struct fields *f, yyjson_val *patch)
{
	static const struct {
		const char *path;
		bool is_removal;
	} lists[] = {
		{ "metadata.finalizers", false },
		{ "metadata.$deleteFromPrimitiveList/finalizers", true },
	};

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		yyjson_val *names = json_at(patch, lists[i].path), *name;
		yyjson_arr_iter iter = yyjson_arr_iter_with(names);

		while ((name = yyjson_arr_iter_next(&iter))) {
			struct str text = arena_str(f->arena, json_text(name));

			fields_add(f, STR("finalizer"), lists[i].is_removal ? text : STR_EMPTY,
			           lists[i].is_removal ? STR_EMPTY : text);
		}
	}
}

/* VIP is the usual mode, so it is not part of the text. */
static struct value
ingress_of(struct arena *arena, struct str ip, struct str hostname, struct str mode)
{
	struct str text = ip.len > 0 ? ip : hostname;

	if (str_eq_c(mode, "Proxy"))
		text = arena_printf(arena, "%" STR_FMT " (Proxy)", STR_ARG(text));
	return (struct value){ STR("status ingress"), text };
}

static struct value
ingress_value(struct arena *arena, yyjson_val *ingress)
{
	return ingress_of(arena, json_text_at(arena, ingress, "ip"),
	                  json_text_at(arena, ingress, "hostname"),
	                  json_text_at(arena, ingress, "ipMode"));
}

static void
add_ingress(struct fields *f, const struct service *s, yyjson_val *patch)
{
	yyjson_val *ingress = yyjson_obj_get(json_at(patch, "status.loadBalancer"), "ingress");
	struct values old = { .n = s->n_ingress }, new;

	if (!ingress)
		return;
	old.items = arena_calloc(f->arena, old.n + 1, sizeof(old.items[0]));
	for (size_t i = 0; i < old.n; i++)
		old.items[i] = ingress_of(f->arena, s->ingress[i].ip, s->ingress[i].hostname,
		                          s->ingress[i].ip_mode);
	new = values_of(f->arena, ingress, ingress_value);
	fields_add_list(f, STR("status ingress"), &old, &new);
}

/* ---- notes ---- */

static void
note(const struct call *call, const char *kind, struct str name, const struct object *object,
     struct str path, struct str body, const struct fields *fields)
{
	bool is_deletion = !fields;
	struct dry_item item = { .run = call->dry->run,
		                 .kind = kind,
		                 .name = name,
		                 .version = object->resource_version };

	dry_note(&item,
	         &(struct dry_change){
			 .verb = is_deletion ? DRY_DELETE : DRY_CHANGE,
			 .what = kind,
			 .request = arena_printf(call->arena, "%s %" STR_FMT,
	                                         is_deletion ? "DELETE" : "PATCH", STR_ARG(path)),
			 .fields = is_deletion ? NULL : fields->items,
			 .n_fields = is_deletion ? 0 : fields->n,
			 .body = body,
		 });
}

void
dry_write_node(const struct call *call, const struct node *node, struct str path, struct str body)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct fields fields = { .arena = call->arena };
	struct error ignored;
	yyjson_val *patch;

	if (json_parse(body, &doc, &ignored)) {
		patch = yyjson_doc_get_root(doc);
		add_labels(&fields, node, patch);
		add_provider_id(&fields, node, patch);
		add_taints(&fields, node, patch);
		add_addresses(&fields, node, patch);
		add_condition(&fields, node, patch);
	}
	note(call, "node", node_name(node), &node->object, path, body, &fields);
	free(fields.items);
}

void
dry_write_node_delete(const struct call *call, const struct node *node, struct str path)
{
	note(call, "node", node_name(node), &node->object, path, STR_EMPTY, NULL);
}

void
dry_write_service(const struct call *call, const struct service *service, struct str path,
                  struct str body)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct fields fields = { .arena = call->arena };
	struct error ignored;

	if (json_parse(body, &doc, &ignored)) {
		add_finalizers(&fields, yyjson_doc_get_root(doc));
		add_ingress(&fields, service, yyjson_doc_get_root(doc));
	}
	note(call, "service", service->object.key, &service->object, path, STR_EMPTY, &fields);
	free(fields.items);
}
