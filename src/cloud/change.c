/* cloud/change.c: see change.h. */
#include "cloud/change.h"

#include <assert.h>

#include "base/limits.h"

enum {
	FIELDS_MAX =
		64, /* of one change; the providers' bodies have at most half as many members */
};

struct comparison {
	struct arena *arena;
	struct dry_field *fields; /* FIELDS_MAX, when there is a first one */
	size_t n;
	bool is_creation; /* there is no present object, so false is a value like any other */
};

/* Bodies of our own are always valid. NULL: there is none. */
static yyjson_doc *
parse_body(struct str body)
{
	yyjson_doc *doc = NULL;
	struct error ignored;

	return body.len > 0 && json_parse(body, &doc, &ignored) ? doc : NULL;
}

/* "srv-aaaaa, srv-bbbbb", or "protocol http in 80 out 30080, protocol https in 443 out 30443". A
 * member's name says nothing where it is the only one. */
static void
add_value(struct buf *b, yyjson_val *val)
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
		add_value(b, one);
	}
	yyjson_obj_foreach(val, i, n, key, one)
	{
		buf_add_c(b, i > 0 ? " " : "");
		if (has_names)
			buf_addf(b, "%" STR_FMT " ", STR_ARG(json_text(key)));
		add_value(b, one);
	}
}

static struct str
value_text(struct arena *arena, yyjson_val *val)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_REQUEST);

	add_value(&b, val);
	return arena_str(arena, buf_str(&b));
}

/* val NULL: absent. */
static bool
is_like_absent(const struct comparison *c, yyjson_val *val)
{
	return !val || yyjson_is_null(val) || (yyjson_is_false(val) && !c->is_creation) ||
	       yyjson_equals_strn(val, "", 0) || (yyjson_is_arr(val) && yyjson_arr_size(val) == 0);
}

/* Adds the members that differ. Those of an object within are named "healthcheck.port". old NULL:
 * there is none. */
static void
compare(struct comparison *c, struct str prefix, yyjson_val *old, yyjson_val *new)
{
	yyjson_val *key, *val;
	size_t i, n;

	yyjson_obj_foreach(new, i, n, key, val)
	{
		yyjson_val *before = json_key(old, json_text(key));
		struct str name;

		if (!yyjson_is_obj(val) && ((is_like_absent(c, before) && is_like_absent(c, val)) ||
		                            yyjson_equals(before, val)))
			continue;
		name = arena_printf(c->arena, "%" STR_FMT "%" STR_FMT, STR_ARG(prefix),
		                    STR_ARG(json_text(key)));
		if (yyjson_is_obj(val)) {
			compare(c, arena_printf(c->arena, "%" STR_FMT ".", STR_ARG(name)), before,
			        val);
			continue;
		}
		if (!c->fields)
			c->fields = arena_calloc(c->arena, FIELDS_MAX, sizeof(*c->fields));
		assert(c->n < FIELDS_MAX);
		c->fields[c->n++] = (struct dry_field){
			.name = name,
			.old = value_text(c->arena, before),
			.new = value_text(c->arena, val),
		};
	}
}

size_t
change_fields(const struct change *change, struct arena *arena, const struct dry_field **ret)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *old = parse_body(change->present);
	CLEANUP(yyjson_doc_freep) yyjson_doc *new = parse_body(change->body);
	struct comparison c = { .arena = arena, .is_creation = !old };

	if (change->fields) {
		*ret = change->fields;
		return change->n_fields;
	}
	compare(&c, str_c(change->prefix), yyjson_doc_get_root(old), yyjson_doc_get_root(new));
	for (size_t i = 0; change->is_removal && i < c.n; i++) {
		c.fields[i].old = c.fields[i].new;
		c.fields[i].new = STR_EMPTY;
	}
	*ret = c.fields;
	return c.n;
}

bool
change_is_needed(const struct change *change, struct arena *arena)
{
	const struct dry_field *fields;

	return change->present.len == 0 || change_fields(change, arena, &fields) > 0;
}

/* The parts of "POST /server_groups/{id}/add_servers": "POST", "/server_groups/", "/add_servers".
 */
struct parts {
	struct str method, before, after; /* without "{id}" `before` is the whole path */
	bool has_id;
};

static struct parts
parts_of(const struct change *change)
{
	const struct str mark = STR("{id}");
	struct parts parts = { .after = STR_EMPTY };
	bool has_path = str_cut(str_c(change->request), ' ', &parts.method, &parts.before);
	ptrdiff_t at = has_path ? str_index(parts.before, mark.ptr[0]) : -1;

	assert(has_path);
	parts.has_id = at >= 0;
	if (parts.has_id) {
		parts.after = str_skip(parts.before, (size_t)at + mark.len);
		parts.before = str_head(parts.before, (size_t)at);
	}
	return parts;
}

void
change_note(const char *root, struct call *call, const struct change *change)
{
	struct parts parts = parts_of(change);
	struct str id = parts.has_id ? change->id : STR_EMPTY;
	const struct dry_field *fields;
	size_t n = change_fields(change, call->arena, &fields);

	dry_note(call->dry,
	         &(struct dry_change){
			 .verb = str_eq_c(parts.method, "DELETE") ? DRY_DELETE
	                         : parts.has_id                   ? DRY_CHANGE
	                                                          : DRY_CREATE,
			 .what = change->what,
			 .name = change->name.len > 0 ? change->name : change->id,
			 .request = arena_printf(call->arena,
	                                         "%" STR_FMT " %s%" STR_FMT "%" STR_FMT "%" STR_FMT,
	                                         STR_ARG(parts.method), root, STR_ARG(parts.before),
	                                         STR_ARG(id), STR_ARG(parts.after)),
			 .is_cloud = true,
			 .fields = fields,
			 .n_fields = n,
		 });
}

bool
change_send(const struct change_sender *sender, struct call *call, const struct change *change,
            struct str *ret_id, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct http_request request = { .method = HTTP_POST, .body = change->body };
	struct parts parts = parts_of(change);
	struct str before = parts.before, after = parts.after, id;

	if (call->dry) {
		change_note(sender->root, call, change);
		if (ret_id)
			*ret_id = str_c(change->new_id);
		return true;
	}
	if (str_eq_c(parts.method, "PUT"))
		request.method = HTTP_PUT;
	else if (str_eq_c(parts.method, "DELETE"))
		request.method = HTTP_DELETE;
	else
		assert(str_eq_c(parts.method, "POST"));
	after = arena_printf(call->arena, "%" STR_FMT "%s", STR_ARG(after), sender->query);
	request.target = rest_target(call, arena_strz(call->arena, before),
	                             parts.has_id ? change->id : STR_EMPTY, after.ptr);
	if (!rest_do(sender->rest, call, &request, ret_id ? &doc : NULL, err))
		return false;
	if (!ret_id)
		return true;
	id = json_text_at(call->arena, doc ? yyjson_doc_get_root(doc) : NULL, "id");
	if (id.len == 0)
		return err_set(err, ERR_UNAVAILABLE, "%s: the response has no id", change->request);
	*ret_id = id;
	return true;
}
