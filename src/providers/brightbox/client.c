/* client.c: see client.h. */
#include "providers/brightbox/client.h"

#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "http/url.h"

#define API_PATH "1.0"

struct bb_client {
	struct change_sender sender;
	char *query; /* that of the sender, which names the account */
};

/* ---- errors ---- */

/* Appends the official controller's text for the body of an error; nothing if the body names no
 * error. */
static void
bb_add_message(struct buf *ret, yyjson_val *root)
{
	struct str error = STR_EMPTY, description = STR_EMPTY, name = STR_EMPTY;
	yyjson_val *texts = NULL, *one;
	size_t i, n;

	(void)json_str(root, "error", &error);
	(void)json_str(root, "error_description", &description);
	(void)json_str(root, "error_name", &name);
	(void)json_array(root, "errors", &texts);
	if (error.len > 0) {
		buf_addf(ret, "%" STR_FMT ", %" STR_FMT, STR_ARG(error), STR_ARG(description));
		return;
	}
	if (name.len == 0)
		return;
	buf_add_str(ret, name);
	yyjson_arr_foreach(texts, i, n, one)
	{
		if (yyjson_is_str(one)) {
			buf_add_c(ret, ": ");
			buf_add_str(ret, json_text(one));
		}
	}
}

/* ---- requests ---- */

bool
bb_get(struct bb_client *c, struct call *call, const char *collection, struct str id,
       const struct bb_object *object, void *ret, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct http_request request = { .method = HTTP_GET,
		                        .target = rest_target(call, collection, id, c->query) };

	if (!rest_do(c->sender.rest, call, &request, &doc, err))
		return false;
	if (!bb_object_read(yyjson_doc_get_root(doc), object, call->arena, ret, err))
		return err_wrap(err, "GET %" STR_FMT, STR_ARG(request.target));
	return true;
}

bool
bb_list(struct bb_client *c, struct call *call, const char *collection,
        const struct bb_object *object, void **ret, size_t *ret_n, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct http_request request = {
		.method = HTTP_GET,
		.target = arena_printf(call->arena, "/%s%s", collection, c->query),
	};
	yyjson_val *list;

	if (!rest_do(c->sender.rest, call, &request, &doc, err))
		return false;
	list = yyjson_doc_get_root(doc);
	if (!yyjson_is_arr(list))
		return err_set(err, ERR_UNAVAILABLE, "GET %s: the response is not a list",
		               collection);
	if (!bb_list_read(list, object, call->arena, ret, ret_n, err))
		return err_wrap(err, "GET %s", collection);
	return true;
}

bool
bb_first_account(struct bb_client *c, struct call *call, struct str *ret, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct http_request request = {
		.method = HTTP_GET,
		.target = arena_printf(call->arena, "/accounts%s", c->query),
	};
	yyjson_val *first;

	if (!rest_do(c->sender.rest, call, &request, &doc, err))
		return false;
	first = doc ? yyjson_arr_get_first(yyjson_doc_get_root(doc)) : NULL;
	*ret = json_text_at(call->arena, first, "id");
	if (ret->len == 0)
		return err_set(err, ERR_INVALID, "no accounts visible to these credentials");
	return true;
}

bool
bb_send(struct bb_client *c, struct call *call, const struct change *change, struct str *ret_id,
        struct error *err)
{
	return change_send(&c->sender, call, change, ret_id, err);
}

/* ---- life cycle ---- */

void
bb_url_resolve(struct buf *ret, struct str base, const char *relative)
{
	const char *scheme = base.len > 0 ? memmem(base.ptr, base.len, "://", 3) : NULL;
	size_t host = scheme ? (size_t)(scheme + 3 - base.ptr) : base.len, end = base.len;

	while (end > host && base.ptr[end - 1] != '/')
		end--;
	buf_add_str(ret, end > host ? str_head(base, end) : base);
	buf_addf(ret, "%s%s", end > host ? "" : "/", relative);
}

bool
bb_client_new(const struct cloud_host *host, const struct bb_config *config, struct http_auth *auth,
              struct bb_client **ret, struct error *err)
{
	CLEANUP(bb_client_freep) struct bb_client *c = xcalloc(1, sizeof(*c));
	CLEANUP(buf_fini) struct buf root = BUF_INIT(LIMIT_HTTP_URL);
	CLEANUP(buf_fini) struct buf query = BUF_INIT(LIMIT_HTTP_URL);

	bb_url_resolve(&root, config->api_url, API_PATH);
	if (config->has_user && config->account.len > 0)
		url_add_query(&query, "account_id", config->account);
	c->query = xstrndup(query.ptr, query.len);
	c->sender.query = c->query;
	c->sender.root = "/" API_PATH;
	if (!rest_new(
		    &(struct rest_config){
			    .host = host,
			    .name = "brightbox",
			    .base_url = buf_str(&root),
			    .auth = auth,
			    .add_message = bb_add_message,
		    },
		    &c->sender.rest, err))
		return err_wrap(err, "BRIGHTBOX_API_URL");
	*ret = TAKE(c);
	return true;
}

void
bb_client_free(struct bb_client *c)
{
	if (!c)
		return;
	rest_free(c->sender.rest);
	free(c->query);
	free(c);
}
