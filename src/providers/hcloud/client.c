/* client.c: see client.h. */
#include "providers/hcloud/client.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/limits.h"
#include "http/url.h"

enum {
	ENDPOINT_MAX = 100,
	NAME_SHOWN = 200,
};

/* ---- reading ----------------------------------------------------------------------------------------- */

static bool
read_server(struct arena *arena, yyjson_val *val, struct hz_server *ret, struct error *err)
{
	struct hz_server s = { 0 };

	s.name = json_text_at(arena, val, "name");
	if (json_i64(val, "id", &s.id) != JSON_FOUND || s.id <= 0 || s.name.len == 0)
		return err_set(err, ERR_UNAVAILABLE,
		               "the Hetzner Cloud API gave a server without id or name");
	s.status = json_text_at(arena, val, "status");
	s.type = json_text_at(arena, val, "server_type.name");
	s.location = json_text_at(arena, val, "location.name");
	s.network_zone = json_text_at(arena, val, "location.network_zone");
	s.ipv4 = json_text_at(arena, val, "public_net.ipv4.ip");
	s.ipv6 = json_text_at(arena, val, "public_net.ipv6.ip");
	hz_private_nets_read(arena, val, &s.private_nets);
	*ret = s;
	return true;
}

/* ---- asking ------------------------------------------------------------------------------------------ */

static bool
get(struct hz_api *api, struct call *call, const struct buf *target, const char *endpoint,
    bool is_patient, struct hz_answer *ret, struct error *err)
{
	struct hz_request how = { .endpoint = endpoint, .is_patient = is_patient };

	return hz_api_get(api, call, target, how, ret, err);
}

/* NULL: none has that name. */
static yyjson_val *
with_name(yyjson_val *list, struct str name)
{
	yyjson_val *one;
	size_t i, n;

	yyjson_arr_foreach(list, i, n, one)
	{
		struct str its_name = STR_EMPTY;

		if (json_str(one, "name", &its_name) == JSON_FOUND && str_eq(its_name, name))
			return one;
	}
	return NULL;
}

bool
hz_find_named(struct hz_api *api, struct call *call, const char *path, struct str name,
              struct hz_request how, struct hz_answer *answer, yyjson_val **ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf target = BUF_INIT(LIMIT_HTTP_URL);
	yyjson_val *list;

	how.endpoint = path;
	buf_add_c(&target, path);
	url_add_query(&target, "name", name);
	if (!hz_api_get(api, call, &target, how, answer, err) ||
	    !hz_answer_list(answer, path + 1, &list, err))
		return false;
	*ret = with_name(list, name);
	return *ret || err_set(err, ERR_NOT_FOUND, "none of the %s has the name \"%" STR_FMT "\"",
	                       path + 1, STR_ARG(str_utf8_head(name, NAME_SHOWN)));
}

/* ---- servers ----------------------------------------------------------------------------------------- */

bool
hz_get_server(struct hz_api *api, struct call *call, struct arena *arena, int64_t id,
              struct hz_server *ret, struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	CLEANUP(buf_fini) struct buf target = BUF_INIT(LIMIT_HTTP_URL);
	struct hz_server server;
	yyjson_val *val;

	buf_addf(&target, "/servers/%" PRId64, id);
	if (!get(api, call, &target, "/servers/-", false, &answer, err) ||
	    !hz_answer_object(&answer, "server", &val, err) ||
	    !read_server(arena, val, &server, err))
		return false;
	if (server.id != id)
		return err_set(err, ERR_UNAVAILABLE, "asked for server %" PRId64 ", got %" PRId64,
		               id, server.id);
	*ret = server;
	return true;
}

bool
hz_find_server(struct hz_api *api, struct call *call, struct arena *arena, struct str name,
               struct hz_server *ret, struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	struct hz_request how = { 0 };
	yyjson_val *val;

	return hz_find_named(api, call, "/servers", name, how, &answer, &val, err) &&
	       read_server(arena, val, ret, err);
}

static bool
read_servers(struct arena *arena, yyjson_val *list, struct hz_page *ret, struct error *err)
{
	yyjson_val *one;
	size_t i, n;

	ret->servers = arena_calloc(arena, yyjson_arr_size(list), sizeof(*ret->servers));
	yyjson_arr_foreach(list, i, n, one)
	{
		if (!read_server(arena, one, &ret->servers[ret->n++], err))
			return false;
	}
	return true;
}

bool
hz_list_servers(struct hz_api *api, struct call *call, struct arena *arena, int64_t page,
                struct hz_page *ret, struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	CLEANUP(buf_fini) struct buf target = BUF_INIT(LIMIT_HTTP_URL);
	struct hz_page read = { .total = -1 };
	yyjson_val *list, *root;

	buf_addf(&target, "/servers?page=%" PRId64 "&per_page=%d&sort=id%%3Aasc", page, HZ_PAGE);
	if (!get(api, call, &target, "/servers", false, &answer, err) ||
	    !hz_answer_list(&answer, "servers", &list, err) ||
	    !read_servers(arena, list, &read, err))
		return err_wrap(err, "page %" PRId64 " of the servers", page);
	root = hz_answer_root(&answer);
	json_i64(root, "meta.pagination.total_entries", &read.total);
	json_i64(root, "meta.pagination.next_page", &read.next);
	*ret = read;
	return true;
}

/* ---- networks ---------------------------------------------------------------------------------------- */

static void
read_routes(struct arena *arena, yyjson_val *val, struct hz_network *ret)
{
	yyjson_val *list, *one;
	size_t i, n;

	if (json_array(val, "routes", &list) != JSON_FOUND)
		return;
	ret->routes = arena_calloc(arena, yyjson_arr_size(list), sizeof(*ret->routes));
	yyjson_arr_foreach(list, i, n, one)
	{
		ret->routes[ret->n_routes++] = (struct hz_route){
			.destination = json_text_at(arena, one, "destination"),
			.gateway = json_text_at(arena, one, "gateway"),
		};
	}
}

static void
read_members(struct arena *arena, yyjson_val *val, struct hz_network *ret)
{
	yyjson_val *list, *one;
	size_t i, n;

	if (json_array(val, "servers", &list) != JSON_FOUND)
		return;
	ret->servers = arena_calloc(arena, yyjson_arr_size(list), sizeof(*ret->servers));
	yyjson_arr_foreach(list, i, n, one)
	{
		if (json_i64(one, "", &ret->servers[ret->n_servers]) == JSON_FOUND)
			ret->n_servers++;
	}
}

static bool
read_network(struct arena *arena, yyjson_val *val, struct hz_network *ret, struct error *err)
{
	struct hz_network network = { .name = json_text_at(arena, val, "name") };

	if (json_i64(val, "id", &network.id) != JSON_FOUND || network.id <= 0)
		return err_set(err, ERR_UNAVAILABLE,
		               "the Hetzner Cloud API gave a network without id");
	read_routes(arena, val, &network);
	read_members(arena, val, &network);
	*ret = network;
	return true;
}

bool
hz_get_network(struct hz_api *api, struct call *call, struct arena *arena, int64_t id,
               bool is_patient, struct hz_network *ret, struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	CLEANUP(buf_fini) struct buf target = BUF_INIT(LIMIT_HTTP_URL);
	yyjson_val *val;

	buf_addf(&target, "/networks/%" PRId64, id);
	return get(api, call, &target, "/networks/-", is_patient, &answer, err) &&
	       hz_answer_object(&answer, "network", &val, err) &&
	       read_network(arena, val, ret, err);
}

bool
hz_find_network(struct hz_api *api, struct call *call, struct arena *arena, struct str name,
                bool is_patient, struct hz_network *ret, struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	struct hz_request how = { .is_patient = is_patient };
	yyjson_val *val;

	return hz_find_named(api, call, "/networks", name, how, &answer, &val, err) &&
	       read_network(arena, val, ret, err);
}

bool
hz_change_route(struct hz_api *api, struct call *call, int64_t network, const char *verb,
                const struct hz_route *route, struct hz_done *ret_done, struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);
	char target[ENDPOINT_MAX], endpoint[ENDPOINT_MAX];
	struct hz_request request = { .method = HTTP_POST, .endpoint = endpoint };

	snprintf(target, sizeof(target), "/networks/%" PRId64 "/actions/%s", network, verb);
	snprintf(endpoint, sizeof(endpoint), "/networks/-/actions/%s", verb);
	buf_add_char(&body, '{');
	json_add_member(&body, "destination", route->destination);
	json_add_member(&body, "gateway", route->gateway);
	buf_add_char(&body, '}');
	request.target = str_c(target);
	request.body = buf_str(&body);
	return hz_change(api, call, &request, &answer, ret_done, err);
}

/* ---- the probe --------------------------------------------------------------------------------------- */

bool
hz_probe(struct hz_api *api, struct call *call, struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	CLEANUP(buf_fini) struct buf target = BUF_INIT(LIMIT_HTTP_URL);
	yyjson_val *list;

	buf_add_c(&target, "/locations");
	return get(api, call, &target, "/locations", true, &answer, err) &&
	       hz_answer_list(&answer, "locations", &list, err);
}
