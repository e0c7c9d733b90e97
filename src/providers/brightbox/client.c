/* client.c: see client.h. */
#include "providers/brightbox/client.h"

#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "cloud/balancer.h"
#include "http/url.h"
#include "providers/brightbox/dry.h"

#define WHAT_LB "load balancer"
#define WHAT_IP "cloud IP"
#define WHAT_GROUP "server group"
#define WHAT_POLICY "firewall policy"
#define WHAT_RULE "firewall rule"

struct bb_client {
	struct rest *rest;
	char *account; /* NULL: no account is named */
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

/* "/servers/srv-aaaaa", with the account where it is named. */
static struct str
bb_target(const struct bb_client *c, struct call *call, const char *collection, struct str id,
          const char *verb)
{
	CLEANUP(buf_fini) struct buf target = BUF_INIT(LIMIT_HTTP_URL);

	buf_addf(&target, "/%s", collection);
	if (id.len > 0) {
		buf_add_c(&target, "/");
		url_add_escaped(&target, id);
	}
	if (verb)
		buf_addf(&target, "/%s", verb);
	if (c->account)
		url_add_query(&target, "account_id", str_c(c->account));
	/* this text is not a path, so the HTTP client refuses the request */
	return buf_ok(&target) ? arena_str(call->arena, buf_str(&target)) : STR("too long");
}

/* ret NULL: the answer is not wanted. */
static bool
bb_request(struct bb_client *c, struct call *call, const struct http_request *request,
           const struct bb_object *object, void *ret, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;

	if (!rest_do(c->rest, call, request, ret ? &doc : NULL, err))
		return false;
	if (!ret)
		return true;
	return bb_object_read(doc ? yyjson_doc_get_root(doc) : NULL, object, call->arena, ret,
	                      err) ||
	       err_wrap(err, "%s %" STR_FMT, http_method_name(request->method),
	                STR_ARG(request->target));
}

static bool
bb_get(struct bb_client *c, struct call *call, const char *collection, struct str id,
       const struct bb_object *object, void *ret, struct error *err)
{
	struct http_request request = {
		.method = HTTP_GET,
		.target = bb_target(c, call, collection, id, NULL),
	};

	return bb_request(c, call, &request, object, ret, err);
}

static bool
bb_list(struct bb_client *c, struct call *call, const char *collection,
        const struct bb_object *object, void **ret, size_t *ret_n, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct http_request request = {
		.method = HTTP_GET,
		.target = bb_target(c, call, collection, STR_EMPTY, NULL),
	};
	yyjson_val *list;

	if (!rest_do(c->rest, call, &request, &doc, err))
		return false;
	list = doc ? yyjson_doc_get_root(doc) : NULL;
	if (!yyjson_is_arr(list))
		return err_set(err, ERR_UNAVAILABLE, "GET %s: the answer is not a list",
		               collection);
	return bb_list_read(list, object, call->arena, ret, ret_n, err) ||
	       err_wrap(err, "GET %s", collection);
}

/* In a dry run the request is only noted, and *ret is left alone. */
static bool
bb_change(struct bb_client *c, struct call *call, const struct bb_write *write,
          const struct bb_object *object, void *ret, struct error *err)
{
	struct http_request request = { .method = write->method,
		                        .target = write->target,
		                        .body = write->body };

	if (!call->dry)
		return bb_request(c, call, &request, object, ret, err);
	bb_note(call, write);
	return true;
}

/* made_up: the answer in a dry run. ret NULL: the answer is not wanted. */
static bool
bb_create(struct bb_client *c, struct call *call, const char *what, struct str name,
          const char *collection, struct str body, struct str made_up,
          const struct bb_object *object, void *ret, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct bb_write write = {
		.verb = DRY_CREATE,
		.what = what,
		.name = name,
		.method = HTTP_POST,
		.target = bb_target(c, call, collection, STR_EMPTY, NULL),
		.body = body,
		.present = STR_EMPTY,
	};

	if (!bb_change(c, call, &write, object, ret, err))
		return false;
	return !call->dry || !ret ||
	       (json_parse(made_up, &doc, err) &&
	        bb_object_read(yyjson_doc_get_root(doc), object, call->arena, ret, err));
}

/* present: as in struct bb_write. */
static bool
bb_update(struct bb_client *c, struct call *call, const char *what, const char *collection,
          struct str id, struct str body, struct str present, struct error *err)
{
	struct bb_write write = {
		.verb = DRY_CHANGE,
		.what = what,
		.name = id,
		.method = HTTP_PUT,
		.target = bb_target(c, call, collection, id, NULL),
		.body = body,
		.present = present,
	};

	return bb_change(c, call, &write, NULL, NULL, err);
}

/* "POST /cloud_ips/cip-aaaaa/map" */
static bool
bb_act_on(struct bb_client *c, struct call *call, const char *what, const char *collection,
          struct str id, const char *verb, struct str body, bool is_removal, struct error *err)
{
	struct bb_write write = {
		.verb = DRY_CHANGE,
		.what = what,
		.name = id,
		.method = HTTP_POST,
		.target = bb_target(c, call, collection, id, verb),
		.body = body,
		.present = STR_EMPTY,
		.is_removal = is_removal,
	};

	return bb_change(c, call, &write, NULL, NULL, err);
}

static bool
bb_destroy(struct bb_client *c, struct call *call, const char *what, const char *collection,
           struct str id, struct error *err)
{
	struct bb_write write = {
		.verb = DRY_DELETE,
		.what = what,
		.name = id,
		.method = HTTP_DELETE,
		.target = bb_target(c, call, collection, id, NULL),
		.body = STR_EMPTY,
		.present = STR_EMPTY,
	};

	return bb_change(c, call, &write, NULL, NULL, err);
}

/* {"name":"value", …} of pairs whose value is not empty. */
struct bb_pair {
	const char *name;
	struct str value;
};

static struct str
bb_body(struct call *call, const struct bb_pair pairs[], size_t n)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);

	json_begin_object(&body, NULL);
	for (size_t i = 0; i < n; i++) {
		if (pairs[i].value.len > 0)
			json_add_text(&body, pairs[i].name, pairs[i].value);
	}
	json_end_object(&body);
	return arena_str(call->arena, buf_str(&body));
}

#define BODY(call, ...)                                        \
	bb_body(call, (const struct bb_pair[]){ __VA_ARGS__ }, \
	        ARRAY_LEN(((const struct bb_pair[]){ __VA_ARGS__ })))

/* ---- accounts and servers ---- */

bool
bb_first_account(struct bb_client *c, struct call *call, struct str *ret, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct http_request request = {
		.method = HTTP_GET,
		.target = bb_target(c, call, "accounts", STR_EMPTY, NULL),
	};
	yyjson_val *first;

	if (!rest_do(c->rest, call, &request, &doc, err))
		return false;
	first = doc ? yyjson_arr_get_first(yyjson_doc_get_root(doc)) : NULL;
	*ret = json_text_at(call->arena, first, "id");
	return ret->len > 0 ||
	       err_set(err, ERR_INVALID, "no accounts visible to these credentials");
}

bool
bb_get_server(struct bb_client *c, struct call *call, struct str id, struct bb_server *ret,
              struct error *err)
{
	return bb_get(c, call, "servers", id, &bb_server_object, ret, err);
}

bool
bb_list_servers(struct bb_client *c, struct call *call, struct bb_server **ret, size_t *ret_n,
                struct error *err)
{
	return bb_list(c, call, "servers", &bb_server_object, (void **)ret, ret_n, err);
}

/* ---- load balancers ---- */

bool
bb_get_lb(struct bb_client *c, struct call *call, struct str id, struct bb_lb *ret,
          struct error *err)
{
	return bb_get(c, call, "load_balancers", id, &bb_lb_object, ret, err);
}

bool
bb_list_lbs(struct bb_client *c, struct call *call, struct bb_lb **ret, size_t *ret_n,
            struct error *err)
{
	return bb_list(c, call, "load_balancers", &bb_lb_object, (void **)ret, ret_n, err);
}

bool
bb_create_lb(struct bb_client *c, struct call *call, struct str name, struct str body,
             struct bb_lb *ret, struct error *err)
{
	struct str made_up = BODY(call, { "id", STR(BB_NEW_LB) }, { "name", name },
	                          { "status", STR("active") });

	return bb_create(c, call, WHAT_LB, name, "load_balancers", body, made_up, &bb_lb_object,
	                 ret, err);
}

bool
bb_update_lb(struct bb_client *c, struct call *call, struct str id, struct str body,
             struct str present, struct error *err)
{
	return bb_update(c, call, WHAT_LB, "load_balancers", id, body, present, err);
}

bool
bb_destroy_lb(struct bb_client *c, struct call *call, struct str id, struct error *err)
{
	return bb_destroy(c, call, WHAT_LB, "load_balancers", id, err);
}

/* ---- cloud IPs ---- */

bool
bb_get_cloud_ip(struct bb_client *c, struct call *call, struct str id, struct bb_cloud_ip *ret,
                struct error *err)
{
	return bb_get(c, call, "cloud_ips", id, &bb_cloud_ip_object, ret, err);
}

bool
bb_list_cloud_ips(struct bb_client *c, struct call *call, struct bb_cloud_ip **ret, size_t *ret_n,
                  struct error *err)
{
	return bb_list(c, call, "cloud_ips", &bb_cloud_ip_object, (void **)ret, ret_n, err);
}

bool
bb_create_cloud_ip(struct bb_client *c, struct call *call, struct str name, struct bb_cloud_ip *ret,
                   struct error *err)
{
	struct str made_up = BODY(call, { "id", STR(BB_NEW_CLOUD_IP) }, { "name", name },
	                          { "status", STR("unmapped") }, { "fqdn", LB_NEW_ADDRESS });

	return bb_create(c, call, WHAT_IP, name, "cloud_ips", BODY(call, { "name", name }), made_up,
	                 &bb_cloud_ip_object, ret, err);
}

bool
bb_map_cloud_ip(struct bb_client *c, struct call *call, struct str id, struct str destination,
                struct error *err)
{
	return bb_act_on(c, call, WHAT_IP, "cloud_ips", id, "map",
	                 BODY(call, { "destination", destination }), /*is_removal=*/false, err);
}

bool
bb_unmap_cloud_ip(struct bb_client *c, struct call *call, struct str id, struct error *err)
{
	return bb_act_on(c, call, WHAT_IP, "cloud_ips", id, "unmap", STR_EMPTY, /*is_removal=*/true,
	                 err);
}

bool
bb_destroy_cloud_ip(struct bb_client *c, struct call *call, struct str id, struct error *err)
{
	return bb_destroy(c, call, WHAT_IP, "cloud_ips", id, err);
}

/* ---- server groups ---- */

bool
bb_list_groups(struct bb_client *c, struct call *call, struct bb_group **ret, size_t *ret_n,
               struct error *err)
{
	return bb_list(c, call, "server_groups", &bb_group_object, (void **)ret, ret_n, err);
}

bool
bb_create_group(struct bb_client *c, struct call *call, struct str name, struct bb_group *ret,
                struct error *err)
{
	struct str made_up = BODY(call, { "id", STR(BB_NEW_GROUP) }, { "name", name });

	return bb_create(c, call, WHAT_GROUP, name, "server_groups", BODY(call, { "name", name }),
	                 made_up, &bb_group_object, ret, err);
}

static bool
bb_change_members(struct bb_client *c, struct call *call, struct str group, const char *verb,
                  bool is_removal, const struct str servers[], size_t n, struct error *err)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);

	json_begin_object(&body, NULL);
	json_begin_array(&body, "servers");
	for (size_t i = 0; i < n; i++) {
		json_begin_object(&body, NULL);
		json_add_text(&body, "server", servers[i]);
		json_end_object(&body);
	}
	json_end_array(&body);
	json_end_object(&body);
	return bb_act_on(c, call, WHAT_GROUP, "server_groups", group, verb, buf_str(&body),
	                 is_removal, err);
}

bool
bb_add_servers(struct bb_client *c, struct call *call, struct str group, const struct str servers[],
               size_t n, struct error *err)
{
	return bb_change_members(c, call, group, "add_servers", /*is_removal=*/false, servers, n,
	                         err);
}

bool
bb_remove_servers(struct bb_client *c, struct call *call, struct str group,
                  const struct str servers[], size_t n, struct error *err)
{
	return bb_change_members(c, call, group, "remove_servers", /*is_removal=*/true, servers, n,
	                         err);
}

bool
bb_destroy_group(struct bb_client *c, struct call *call, struct str id, struct error *err)
{
	return bb_destroy(c, call, WHAT_GROUP, "server_groups", id, err);
}

/* ---- the firewall ---- */

bool
bb_list_policies(struct bb_client *c, struct call *call, struct bb_policy **ret, size_t *ret_n,
                 struct error *err)
{
	return bb_list(c, call, "firewall_policies", &bb_policy_object, (void **)ret, ret_n, err);
}

bool
bb_create_policy(struct bb_client *c, struct call *call, struct str name, struct str group,
                 struct bb_policy *ret, struct error *err)
{
	struct str body = BODY(call, { "name", name }, { "server_group", group });
	struct str made_up = BODY(call, { "id", STR(BB_NEW_POLICY) }, { "name", name });

	if (!bb_create(c, call, WHAT_POLICY, name, "firewall_policies", body, made_up,
	               &bb_policy_object, ret, err))
		return false;
	if (call->dry)
		ret->group = group;
	return true;
}

bool
bb_apply_policy(struct bb_client *c, struct call *call, struct str id, struct str group,
                struct error *err)
{
	return bb_act_on(c, call, WHAT_POLICY, "firewall_policies", id, "apply_to",
	                 BODY(call, { "server_group", group }), /*is_removal=*/false, err);
}

bool
bb_destroy_policy(struct bb_client *c, struct call *call, struct str id, struct error *err)
{
	return bb_destroy(c, call, WHAT_POLICY, "firewall_policies", id, err);
}

static struct str
bb_rule_body(struct call *call, struct str policy, const struct bb_rule *rule)
{
	return BODY(call, { "firewall_policy", policy }, { "protocol", rule->protocol },
	            { "source", rule->source }, { "destination_port", rule->destination_port },
	            { "description", rule->description });
}

bool
bb_create_rule(struct bb_client *c, struct call *call, struct str policy,
               const struct bb_rule *rule, struct error *err)
{
	return bb_create(c, call, WHAT_RULE, rule->description, "firewall_rules",
	                 bb_rule_body(call, policy, rule), STR_EMPTY, NULL, NULL, err);
}

bool
bb_update_rule(struct bb_client *c, struct call *call, struct str policy,
               const struct bb_rule *rule, const struct bb_rule *present, struct error *err)
{
	return bb_update(c, call, WHAT_RULE, "firewall_rules", rule->id,
	                 bb_rule_body(call, policy, rule), bb_rule_body(call, policy, present),
	                 err);
}

/* ---- life cycle ---- */

void
bb_url_resolve(struct buf *ret, struct str base, const char *relative)
{
	ptrdiff_t scheme = 0;
	size_t end = base.len;

	while (scheme + 3 <= (ptrdiff_t)base.len &&
	       !str_starts(str_skip(base, (size_t)scheme), STR("://")))
		scheme++;
	while (end > (size_t)scheme + 3 && base.ptr[end - 1] != '/')
		end--;
	if (end <= (size_t)scheme + 3) {
		buf_add_str(ret, base);
		buf_add_c(ret, "/");
	} else {
		buf_add_str(ret, str_head(base, end));
	}
	buf_add_c(ret, relative);
}

bool
bb_client_new(const struct bb_client_config *config, struct bb_client **ret, struct error *err)
{
	CLEANUP(bb_client_freep) struct bb_client *c = xcalloc(1, sizeof(*c));
	CLEANUP(buf_fini) struct buf root = BUF_INIT(LIMIT_HTTP_URL);

	bb_url_resolve(&root, config->api_url, "1.0");
	if (config->account.len > 0)
		c->account = xstrndup(config->account.ptr, config->account.len);
	if (!rest_new(
		    &(struct rest_config){
			    .host = config->host,
			    .name = "brightbox",
			    .base_url = buf_str(&root),
			    .auth = config->auth,
			    .add_message = bb_add_message,
		    },
		    &c->rest, err))
		return err_wrap(err, "BRIGHTBOX_API_URL");
	*ret = TAKE(c);
	return true;
}

void
bb_client_free(struct bb_client *c)
{
	if (!c)
		return;
	rest_free(c->rest);
	free(c->account);
	free(c);
}
