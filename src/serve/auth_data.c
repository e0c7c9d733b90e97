/* serve/auth_data.c: the content of the ConfigMap extension-apiserver-authentication.
 *
 * Its lists are JSON in text form. Read strictly, and as a whole: half of a front proxy's configuration (its authorities
 * without the names it may have, say) would trust more than was meant.
 */
#include "base/limits.h"
#include "serve/auth_config.h"

/* The characters of RFC 9110's tokens: anything else ends a header's name. */
static bool
is_token_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       char_is_in(c, "!#$%&'*+-.^_`|~");
}

static bool
is_header_name(struct str name)
{
	for (size_t i = 0; i < name.len; i++) {
		if (!is_token_char(name.ptr[i]))
			return false;
	}
	return name.len > 0 && name.len <= LIMIT_NAME;
}

static bool
is_common_name(struct str name)
{
	return name.len > 0 && name.len <= LIMIT_NAME && str_index(name, '\0') < 0;
}

typedef bool is_item(struct str);

static bool
read_item(yyjson_val *val, const char *key, is_item *is_good, struct arena *arena, struct str *ret,
          struct error *err)
{
	if (!yyjson_is_str(val) || !is_good(json_text(val)))
		return err_set(err, ERR_INVALID, "%s: an item cannot be what it should", key);
	*ret = arena_str(arena, json_text(val));
	return true;
}

static bool
read_items(yyjson_val *array, const char *key, is_item *is_good, struct arena *arena,
           struct access_list *ret, struct error *err)
{
	size_t n = yyjson_arr_size(array);
	yyjson_arr_iter iter = yyjson_arr_iter_with(array);
	struct str *items;

	if (n > LIMIT_HEADER_NAMES)
		return err_set(err, ERR_INVALID, "%s: more than %d items", key, LIMIT_HEADER_NAMES);
	items = arena_calloc(arena, n + 1, sizeof(items[0]));
	for (size_t i = 0; i < n; i++) {
		if (!read_item(yyjson_arr_iter_next(&iter), key, is_good, arena, &items[i], err))
			return false;
	}
	*ret = (struct access_list){ items, n };
	return true;
}

/* The text under a key; empty when absent. */
static bool
read_text(yyjson_val *data, const char *key, struct str *ret, struct error *err)
{
	yyjson_val *val = json_key(data, str_c(key));

	if (val && !yyjson_is_str(val))
		return err_set(err, ERR_INVALID, "%s is no text", key);
	*ret = val ? json_text(val) : STR_EMPTY;
	return true;
}

/* Absent, empty and null are the empty list, as upstream. */
static bool
read_list(yyjson_val *data, const char *key, is_item *is_good, struct arena *arena,
          struct access_list *ret, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct str text;

	*ret = (struct access_list){ 0 };
	if (!read_text(data, key, &text, err))
		return false;
	if (text.len == 0)
		return true;
	if (!json_parse(text, &doc, err))
		return err_wrap(err, "%s", key);
	if (yyjson_is_null(yyjson_doc_get_root(doc)))
		return true;
	if (!yyjson_is_arr(yyjson_doc_get_root(doc)))
		return err_set(err, ERR_INVALID, "%s is no list", key);
	return read_items(yyjson_doc_get_root(doc), key, is_good, arena, ret, err);
}

static bool
read_pem(yyjson_val *data, const char *key, struct arena *arena, struct str *ret, struct error *err)
{
	struct str text;

	if (!read_text(data, key, &text, err))
		return false;
	if (text.len > LIMIT_CREDENTIAL)
		return err_set(err, ERR_INVALID, "%s is longer than %zu bytes", key,
		               LIMIT_CREDENTIAL);
	*ret = arena_str(arena, str_trim(text));
	return true;
}

static bool
read_names(yyjson_val *data, struct arena *arena, struct access_names *ret, struct error *err)
{
	return read_list(data, "requestheader-allowed-names", is_common_name, arena, &ret->proxies,
	                 err) &&
	       read_list(data, "requestheader-username-headers", is_header_name, arena,
	                 &ret->username_headers, err) &&
	       read_list(data, "requestheader-uid-headers", is_header_name, arena,
	                 &ret->uid_headers, err) &&
	       read_list(data, "requestheader-group-headers", is_header_name, arena,
	                 &ret->group_headers, err) &&
	       read_list(data, "requestheader-extra-headers-prefix", is_header_name, arena,
	                 &ret->extra_prefixes, err);
}

static bool
find_data(yyjson_val *root, yyjson_val **ret, struct error *err)
{
	struct str kind = STR_EMPTY;

	if (json_str(root, "kind", &kind) != JSON_FOUND || !str_eq_c(kind, "ConfigMap"))
		return err_set(err, ERR_INVALID, "it is no ConfigMap");
	if (json_object(root, "data", ret) == JSON_MISTYPED)
		return err_set(err, ERR_INVALID, "data is no object");
	return true;
}

bool
auth_data_read(struct str body, struct arena *arena, struct auth_data *ret, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	yyjson_val *data = NULL;
	struct auth_data d = { .client_ca_pem = STR_EMPTY };

	if (!json_parse(body, &doc, err) || !find_data(yyjson_doc_get_root(doc), &data, err) ||
	    !read_pem(data, "client-ca-file", arena, &d.client_ca_pem, err) ||
	    !read_pem(data, "requestheader-client-ca-file", arena, &d.front_ca_pem, err) ||
	    !read_names(data, arena, &d.names, err))
		return false;
	*ret = d;
	return true;
}
