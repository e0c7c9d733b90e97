/* serve/auth_data.c: the content of the ConfigMap extension-apiserver-authentication. */
#include "base/limits.h"
#include "serve/auth_config.h"

static bool
read_pem(yyjson_val *data, const char *key, struct arena *arena, struct str *ret, struct error *err)
{
	yyjson_val *val = json_key(data, str_c(key));
	struct str text;

	if (val && !yyjson_is_str(val))
		return err_set(err, ERR_INVALID, "%s is no text", key);
	text = val ? json_text(val) : STR_EMPTY;
	if (text.len > LIMIT_CREDENTIAL)
		return err_set(err, ERR_INVALID, "%s is longer than %zu bytes", key,
		               LIMIT_CREDENTIAL);
	*ret = arena_str(arena, str_trim(text));
	return true;
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
auth_data_read(struct str body, struct arena *arena, struct str *ret_client_ca_pem,
               struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	yyjson_val *data = NULL;

	return json_parse(body, &doc, err) && find_data(yyjson_doc_get_root(doc), &data, err) &&
	       read_pem(data, "client-ca-file", arena, ret_client_ca_pem, err);
}
