/* dry.c: see dry.h. */
#include "providers/brightbox/dry.h"

#include "base/array.h"
#include "base/json.h"
#include "base/limits.h"

#define API_PATH "/1.0" /* as in bb_client_new() */

struct bb_fields {
	struct arena *arena;
	struct dry_field *items;
	size_t n, cap;
};

/* "srv-aaaaa, srv-bbbbb", or "protocol http in 80 out 30080, protocol https in 443 out 30443". A
 * member's name says nothing where it is the only one. */
static void
bb_add_value(struct buf *b, yyjson_val *val)
{
	bool has_names = yyjson_obj_size(val) > 1;
	yyjson_val *key, *one;
	size_t i, n;

	if (yyjson_is_str(val))
		buf_add_str(b, json_text(val));
	else if (yyjson_is_num(val) || yyjson_is_bool(val))
		json_add_value(b, val);
	yyjson_arr_foreach(val, i, n, one)
	{
		buf_add_c(b, i > 0 ? ", " : "");
		bb_add_value(b, one);
	}
	yyjson_obj_foreach(val, i, n, key, one)
	{
		buf_add_c(b, i > 0 ? " " : "");
		if (has_names)
			buf_addf(b, "%" STR_FMT " ", STR_ARG(json_text(key)));
		bb_add_value(b, one);
	}
}

static struct str
bb_value(struct arena *arena, yyjson_val *val)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_REQUEST);

	bb_add_value(&b, val);
	return arena_str(arena, buf_str(&b));
}

/* Adds the members that differ. Those of an object within are named "healthcheck.port". */
static void
bb_compare(struct bb_fields *fields, struct str prefix, yyjson_val *old, yyjson_val *new)
{
	yyjson_val *key, *val;
	size_t i, n;

	yyjson_obj_foreach(new, i, n, key, val)
	{
		yyjson_val *before = json_key(old, json_text(key));
		struct dry_field field = {
			.name = arena_printf(fields->arena, "%" STR_FMT "%" STR_FMT,
			                     STR_ARG(prefix), STR_ARG(json_text(key))),
			.old = bb_value(fields->arena, before),
			.new = bb_value(fields->arena, val),
		};

		if (yyjson_is_obj(val))
			bb_compare(fields,
			           arena_printf(fields->arena, "%" STR_FMT ".",
			                        STR_ARG(field.name)),
			           before, val);
		else if (!str_eq(field.old, field.new))
			ARRAY_PUSH(fields->items, fields->n, fields->cap, field);
	}
}

/* Bodies of our own are always valid. NULL: there is none. */
static yyjson_doc *
bb_parse_body(struct str body)
{
	yyjson_doc *doc = NULL;
	struct error ignored;

	return body.len > 0 && json_parse(body, &doc, &ignored) ? doc : NULL;
}

void
bb_note(struct call *call, const struct bb_write *write)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *old = bb_parse_body(write->present);
	CLEANUP(yyjson_doc_freep) yyjson_doc *new = bb_parse_body(write->body);
	struct bb_fields fields = { .arena = call->arena };
	struct str path = write->target;

	bb_compare(&fields, STR_EMPTY, yyjson_doc_get_root(old), yyjson_doc_get_root(new));
	for (size_t i = 0; write->is_removal && i < fields.n; i++) {
		fields.items[i].old = fields.items[i].new;
		fields.items[i].new = STR_EMPTY;
	}
	if (str_index(path, '?') >= 0) /* only the account follows */
		path = str_head(path, (size_t)str_index(path, '?'));
	dry_note(call->dry,
	         &(struct dry_change){
			 .verb = write->verb,
			 .what = write->what,
			 .name = write->name,
			 .request = arena_printf(call->arena, "%s " API_PATH "%" STR_FMT,
	                                         http_method_name(write->method), STR_ARG(path)),
			 .is_cloud = true,
			 .fields = fields.items,
			 .n_fields = fields.n,
		 });
	free(fields.items);
}
