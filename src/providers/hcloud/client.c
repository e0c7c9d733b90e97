/* client.c: see client.h.
 *
 * A server that occurs on two pages of the list counts once, and the list is complete only if the
 * total that each page names stayed the same and equals the number of servers read.
 */
#include "providers/hcloud/client.h"

#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "cloud/rest.h"
#include "http/url.h"

/* ---- provider IDs ---- */

#define ROBOT_PREFIX "hrobot://"
#define ROBOT_OLD_PREFIX "hcloud://bm-" /* written by Syself's fork only */

/* Removes the prefix as often as the text starts with it, as the official controller does
 * (docs/spec/hcloud.md, "Provider IDs"): "hcloud://hcloud://1" is server 1. */
static bool
hz_id_skip_prefix(struct str *text, const char *prefix)
{
	struct str before = *text;

	while (str_starts(*text, str_c(prefix)))
		*text = str_skip(*text, strlen(prefix));
	return text->len < before.len;
}

/* ROBOT_OLD_PREFIX is tested before the prefix of the cloud, because it starts with it. */
static bool
hz_id_skip_any_prefix(const struct hz_dialect *dialect, struct str *text, enum hz_kind *ret)
{
	*ret = HZ_ROBOT;
	if (!dialect->is_tutorial &&
	    (hz_id_skip_prefix(text, ROBOT_PREFIX) || hz_id_skip_prefix(text, ROBOT_OLD_PREFIX)))
		return true;
	*ret = HZ_CLOUD;
	if (hz_id_skip_prefix(text, dialect->id_prefix))
		return true;
	for (const char *const *alias = dialect->id_aliases; *alias; alias++) {
		if (hz_id_skip_prefix(text, *alias))
			return true;
	}
	return false;
}

bool
hz_id_parse(const struct hz_dialect *dialect, struct str text, struct hz_id *ret, struct error *err)
{
	struct str rest = text;
	struct hz_id id;

	if (!hz_id_skip_any_prefix(dialect, &rest, &id.kind)) {
		if (dialect->is_tutorial)
			return err_set(
				err, ERR_UNSUPPORTED,
				"Provider ID does not have the expected prefix %s: %" STR_FMT,
				dialect->id_prefix, STR_ARG(text));
		/* This is the text of the official controller, including its mistake "the the",
		 * because users search for it. */
		return err_set(err, ERR_UNSUPPORTED,
		               "Provider ID does not have one of the the expected prefixes "
		               "(hcloud://, hrobot://, hcloud://bm-): %" STR_FMT,
		               STR_ARG(text));
	}
	if (rest.len == 0)
		return err_set(err, ERR_INVALID, "providerID is missing a serverID: %" STR_FMT,
		               STR_ARG(text));
	if (rest.len > 1 && rest.ptr[0] == '+' && rest.ptr[1] != '-')
		rest = str_skip(rest, 1); /* Go's strconv.ParseInt accepts a sign */
	if (!str_to_i64(rest, 1, INT64_MAX, &id.number))
		return err_set(err, ERR_INVALID, "unable to parse server id: %" STR_FMT,
		               STR_ARG(text));
	*ret = id;
	return true;
}

struct str
hz_id_text(struct arena *arena, const struct hz_dialect *dialect, struct hz_id id)
{
	return arena_printf(arena, "%s%" PRId64,
	                    id.kind == HZ_ROBOT ? ROBOT_PREFIX : dialect->id_prefix, id.number);
}

void
hz_nodes_read(const struct cloud_host *host, const struct hz_dialect *dialect, struct arena *arena,
              struct hz_nodes *ret)
{
	struct node_ref *nodes;
	size_t n;

	host->nodes(host, arena, &nodes, &n);
	for (size_t i = 0; i < n; i++) {
		struct hz_id *id = ARENA_NEW(arena, struct hz_id);
		struct error ignored;

		if (nodes[i].provider_id.len == 0)
			map_put(&ret->by_name, nodes[i].name, &nodes[i]);
		else if (hz_id_parse(dialect, nodes[i].provider_id, id, &ignored) &&
		         id->kind == HZ_CLOUD)
			map_put(&ret->by_id, map_key_i64(&id->number), &nodes[i]);
	}
}

void
hz_nodes_fini(struct hz_nodes *nodes)
{
	map_fini(&nodes->by_id);
	map_fini(&nodes->by_name);
}

/* ---- private networks ---- */

void
hz_private_nets_read(struct arena *arena, yyjson_val *of, struct hz_private_nets *ret)
{
	yyjson_val *list = json_at(of, "private_net"), *one;
	struct hz_private_nets nets = { 0 };
	size_t i, n;

	nets.items = arena_calloc(arena, yyjson_arr_size(list), sizeof(*nets.items));
	yyjson_arr_foreach(list, i, n, one)
	{
		struct hz_private_net net = { .ip = json_text_at(arena, one, "ip") };

		if (json_i64(one, "network", &net.network) == JSON_FOUND && net.network > 0)
			nets.items[nets.n++] = net;
	}
	*ret = nets;
}

struct str
hz_address_in(const struct hz_private_nets *nets, int64_t network)
{
	for (size_t i = 0; i < nets->n; i++) {
		if (nets->items[i].network == network)
			return nets->items[i].ip;
	}
	return STR_EMPTY;
}

enum {
	NAME_SHOWN = 200,
};

/* ---- reading ---- */

static bool
hz_client_read_server(yyjson_val *val, struct arena *arena, void *ret, struct error *err)
{
	struct hz_server s = {
		.name = json_text_at(arena, val, "name"),
		.status = json_text_at(arena, val, "status"),
		.type = json_text_at(arena, val, "server_type.name"),
		.location = json_text_at(arena, val, "location.name"),
		.network_zone = json_text_at(arena, val, "location.network_zone"),
		.ipv4 = json_text_at(arena, val, "public_net.ipv4.ip"),
		.ipv6 = json_text_at(arena, val, "public_net.ipv6.ip"),
	};

	if (json_i64(val, "id", &s.id) != JSON_FOUND || s.id <= 0 || s.name.len == 0)
		return err_set(err, ERR_UNAVAILABLE,
		               "the Hetzner Cloud API returned a server without id or name");
	hz_private_nets_read(arena, val, &s.private_nets);
	*(struct hz_server *)ret = s;
	return true;
}

bool
hz_find_object(struct hz_api *api, struct call *call, struct arena *arena, const char *kind,
               struct hz_which which, struct hz_request how, hz_read_fn *read, void *ret,
               struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	const char *kinds = arena_printf(call->arena, "%ss", kind).ptr;
	yyjson_val *list, *one;
	int64_t its_id;
	size_t i, n;

	how.target = which.id > 0
	                     ? arena_printf(call->arena, "/%s/%" PRId64, kinds, which.id)
	                     : rest_target(call, arena_printf(call->arena, "/%s?name=", kinds).ptr,
	                                   which.name, "");
	if (!hz_api_do(api, call, &how, &answer, err))
		return false;
	if (which.id > 0) {
		if (!hz_answer_object(&answer, kind, &one, err))
			return false;
		if (json_i64(one, "id", &its_id) == JSON_FOUND && its_id != which.id)
			return err_set(err, ERR_UNAVAILABLE,
			               "requested %s %" PRId64 ", got %" PRId64, kind, which.id,
			               its_id);
		return read(one, arena, ret, err);
	}
	if (!hz_answer_list(&answer, kinds, &list, err))
		return false;
	yyjson_arr_foreach(list, i, n, one)
	{
		if (str_eq(json_view(one, "name"), which.name))
			return read(one, arena, ret, err);
	}
	return err_set(err, ERR_NOT_FOUND, "none of the %s has the name \"%" STR_FMT "\"", kinds,
	               STR_ARG(str_utf8_head(which.name, NAME_SHOWN)));
}

bool
hz_read_page(struct hz_api *api, struct call *call, struct hz_pages *p, struct hz_request how,
             struct hz_answer *answer, yyjson_val **ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf target = BUF_INIT(LIMIT_HTTP_URL);
	const char *name = p->path + 1;
	int64_t number = p->next;

	buf_add_c(&target, p->path);
	if (p->selector.len > 0)
		url_add_query(&target, "label_selector", p->selector);
	buf_addf(&target, "%cpage=%" PRId64 "&per_page=%d%s", p->selector.len > 0 ? '&' : '?',
	         number, HZ_PAGE, p->is_unsorted ? "" : "&sort=id%3Aasc");
	how.target = buf_ok(&target) ? buf_str(&target) : STR("too long for a URL");
	if (!hz_api_do(api, call, &how, answer, err) || !hz_answer_list(answer, name, ret, err))
		return false;
	p->total = -1;
	p->next = 0;
	json_i64(hz_answer_root(answer), "meta.pagination.total_entries", &p->total);
	json_i64(hz_answer_root(answer), "meta.pagination.next_page", &p->next);
	/* A cloud that names an earlier page, or always one more, would make the caller read
	 * forever. */
	if (p->next != 0 && (p->next != number + 1 || p->next > p->max))
		return err_set(err, ERR_UNAVAILABLE,
		               "the Hetzner Cloud API's list of %s has no end", name);
	return true;
}

/* ---- servers ---- */

bool
hz_find_server(struct hz_api *api, struct call *call, struct arena *arena, struct hz_which which,
               struct hz_server *ret, struct error *err)
{
	return hz_find_object(api, call, arena, "server", which, (struct hz_request){ 0 },
	                      hz_client_read_server, ret, err);
}

/* ---- networks ---- */

static bool
hz_client_read_network(yyjson_val *val, struct arena *arena, void *ret, struct error *err)
{
	yyjson_val *routes = json_at(val, "routes"), *servers = json_at(val, "servers");
	yyjson_val *subnets = json_at(val, "subnets"), *one;
	struct hz_network network = {
		.name = json_text_at(arena, val, "name"),
		.range = json_text_at(arena, val, "ip_range"),
	};
	size_t i, n;

	if (json_i64(val, "id", &network.id) != JSON_FOUND || network.id <= 0)
		return err_set(err, ERR_UNAVAILABLE,
		               "the Hetzner Cloud API returned a network without id");
	network.routes = arena_calloc(arena, yyjson_arr_size(routes), sizeof(*network.routes));
	yyjson_arr_foreach(routes, i, n, one)
		network.routes[network.n_routes++] = (struct hz_route){
		.destination = json_text_at(arena, one, "destination"),
		.gateway = json_text_at(arena, one, "gateway"),
	};
	network.servers = arena_calloc(arena, yyjson_arr_size(servers), sizeof(*network.servers));
	yyjson_arr_foreach(servers, i, n, one)
	{
		if (json_i64(one, "", &network.servers[network.n_servers]) == JSON_FOUND)
			network.n_servers++;
	}
	network.subnets = arena_calloc(arena, yyjson_arr_size(subnets), sizeof(*network.subnets));
	yyjson_arr_foreach(subnets, i, n, one)
		network.subnets[network.n_subnets++] = json_text_at(arena, one, "ip_range");
	*(struct hz_network *)ret = network;
	return true;
}

bool
hz_find_network(struct hz_api *api, struct call *call, struct arena *arena, struct hz_which which,
                bool retries_at_start, struct hz_network *ret, struct error *err)
{
	return hz_find_object(api, call, arena, "network", which,
	                      (struct hz_request){ .retries_at_start = retries_at_start },
	                      hz_client_read_network, ret, err);
}

bool
hz_change_route(struct hz_api *api, struct call *call, int64_t network, const char *verb,
                const struct hz_route *route, struct hz_done *ret_done, struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);
	struct hz_request request = { .method = HTTP_POST };

	json_add_object(&body, NULL, JSON_TEXT("destination", route->destination),
	                JSON_TEXT("gateway", route->gateway));
	request.target = arena_printf(call->arena, "/networks/%" PRId64 "/actions/%s", network,
	                              verb);
	request.body = buf_str(&body);
	return hz_change(api, call, &request, &answer, ret_done, err);
}

/* ---- names ---- */

static void
hz_client_add_name(struct arena *arena, yyjson_val *val, const char *path, const char **list)
{
	struct str text = json_text_at(arena, val, path);

	while (*list && !str_eq_c(text, *list))
		list++;
	if (text.len > 0)
		*list = arena_strz(arena, text);
}

bool
hz_list_names(struct hz_api *api, struct call *call, struct arena *arena, const char *path,
              struct hz_names *ret, struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	struct hz_request how = {
		.target = arena_printf(call->arena, "%s?per_page=%d", path, HZ_PAGE),
		.is_urgent = true,
	};
	yyjson_val *list, *one;
	size_t i, n;

	if (!hz_api_do(api, call, &how, &answer, err) ||
	    !hz_answer_list(&answer, path + 1, &list, err))
		return false;
	ret->names = arena_calloc(arena, HZ_PAGE + 1, sizeof(ret->names[0]));
	ret->ids = arena_calloc(arena, HZ_PAGE + 1, sizeof(ret->ids[0]));
	ret->zones = arena_calloc(arena, HZ_PAGE + 1, sizeof(ret->zones[0]));
	yyjson_arr_foreach(list, i, n, one)
	{
		int64_t id = 0;

		if (i == HZ_PAGE)
			break;
		(void)json_i64(one, "id", &id);
		ret->ids[i] = arena_printf(arena, "%" PRId64, id).ptr;
		hz_client_add_name(arena, one, "name", ret->names);
		hz_client_add_name(arena, one, "network_zone", ret->zones);
	}
	return true;
}

/* ---- the probe ---- */

bool
hz_probe(struct hz_api *api, struct call *call, struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	struct hz_request how = { .target = STR("/locations"), .retries_at_start = true };
	yyjson_val *list;

	return hz_api_do(api, call, &how, &answer, err) &&
	       hz_answer_list(&answer, "locations", &list, err);
}

/* ---- all servers ---- */

void
hz_servers_fini(struct hz_servers *s)
{
	map_fini(&s->by_id);
	map_fini(&s->by_name);
	arena_fini(&s->arena);
}

const struct hz_server *
hz_servers_find(const struct hz_servers *s, struct hz_which which)
{
	return which.id > 0 ? map_get(&s->by_id, map_key_i64(&which.id))
	                    : map_get(&s->by_name, which.name);
}

bool
hz_servers_read_page(struct hz_api *api, struct call *call, struct hz_servers *s, struct error *err)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	struct hz_request how = { 0 };
	int64_t number = s->pages.next, total = s->pages.total;
	yyjson_val *list, *one;
	struct hz_server *servers;
	size_t i, n;

	if (!hz_read_page(api, call, &s->pages, how, &answer, &list, err))
		return err_wrap(err, "page %" PRId64 " of the servers", number);
	servers = arena_calloc(&s->arena, yyjson_arr_size(list), sizeof(*servers));
	yyjson_arr_foreach(list, i, n, one)
	{
		if (!hz_client_read_server(one, &s->arena, &servers[i], err))
			return err_wrap(err, "page %" PRId64 " of the servers", number);
		/* A server that moved to another page between two requests may be in both, and
		 * counts once. */
		if (hz_servers_find(s, HZ_BY_ID(servers[i].id)))
			continue;
		map_put(&s->by_id, map_key_i64(&servers[i].id), &servers[i]);
		map_put(&s->by_name, servers[i].name, &servers[i]);
	}
	s->totals_differ |= s->pages.total < 0 || (number > 1 && s->pages.total != total);
	s->page = servers;
	s->n_page = n;
	s->is_complete = s->pages.next == 0 && !s->totals_differ &&
	                 (int64_t)s->by_id.count == s->pages.total;
	return true;
}

uint64_t
hz_servers_pages_left(const struct hz_servers *s)
{
	int64_t n_pages = s->pages.total > 0 ? (s->pages.total - 1) / HZ_PAGE + 1 : 0;
	int64_t next = s->pages.next;

	return next > 0 && n_pages >= next ? (uint64_t)(n_pages - next + 1) : 0;
}

/* ---- the metadata service ---- */

enum {
	METADATA_TIMEOUT_MS = 5000,
};

bool
hz_metadata_names_network(struct str text, int64_t network)
{
	for (struct str line, key, value; str_split(&text, '\n', &line);) {
		int64_t id;

		/* "  network_id: 1234", with or without the "- " that starts an item of a list */
		line = str_trim(line);
		if (str_starts(line, STR("- ")))
			line = str_trim(str_skip(line, 2));
		if (str_cut(line, ':', &key, &value) && str_eq_c(key, "network_id") &&
		    str_to_i64(str_trim(value), 0, INT64_MAX, &id) && id == network)
			return true;
	}
	return false;
}

bool
hz_metadata_is_attached(struct http_client *http, struct call *call, int64_t network, bool *ret,
                        struct error *err)
{
	CLEANUP(http_response_fini) struct http_response response = HTTP_RESPONSE_INIT;
	struct http_request request = {
		.method = HTTP_GET,
		.target = STR("/private-networks"),
		.accept = "*/*",
		.timeout_ms = METADATA_TIMEOUT_MS,
		.max_body = MIB(1),
	};

	if (!http_do(http, call, &request, &response, err))
		return false;
	if (response.status < 200 || response.status >= 300)
		return err_set(err, ERR_UNAVAILABLE, "response status was %d", response.status);
	*ret = hz_metadata_names_network(buf_str(&response.body), network);
	return true;
}
