/* provider.c: machines and load balancers of the example cloud, by its HTTP API, which
 * tests/sim/example.py simulates:
 *
 * 	GET    /machines?page=1&size=50     {"machines": [MACHINE, ...], "total": 2}
 * 	GET    /machines/7                  MACHINE
 * 	GET    /balancers?page=1&size=50    {"balancers": [BALANCER, ...], "total": 1}
 * 	POST   /balancers                   BALANCER; 409 if the name is in use
 * 	PUT    /balancers/9                 BALANCER
 * 	DELETE /balancers/9
 *
 * 	MACHINE   {"id": "7", "name": "worker-7", "ip": "10.0.0.7", "state": "running",
 * 	           "type": "small", "zone": "a"}
 * 	BALANCER  {"id": "9", "name": "a1b2", "label": "UID of the Service",
 * 	           "ip": "198.51.100.9", "ports": ["80:30080"], "targets": ["7"]}
 *
 * The framework finds the machines of nodes in the lists, decides when a balancer is created,
 * changed or deleted, and waits while the API is unavailable. Each function here may fail and is
 * then called again, so it must be safe to repeat.
 */
#include "base/alloc.h"
#include "base/array.h"
#include "base/limits.h"
#include "cloud/balancer.h"
#include "cloud/rest.h"

struct example {
	struct cloud cloud;
	struct login_secret token;
	struct str url; /* from the environment */
	struct rest *rest;
};

extern const struct cloud_ops example_cloud;

/* How this API returns its lists, for struct rest_list. */
#define PAGES                                                                                \
	.paging = REST_PAGE_NUMBER, .page_key = "page", .size_key = "size", .page_size = 50, \
	.total = "total"

static struct example *
example_of(struct cloud *cloud)
{
	return CONTAINER_OF(cloud, struct example, cloud);
}

/* ---- machines ---- */

/* A machine without id, name or address is an error: the framework must conclude nothing from it.
 */
static bool
read_machine(struct call *call, yyjson_val *val, struct machine *ret, struct error *err)
{
	struct address *address = ARENA_NEW(call->arena, struct address);
	struct str state = json_text_at(call->arena, val, "state");

	*address = (struct address){ STR("InternalIP"), json_text_at(call->arena, val, "ip") };
	*ret = (struct machine){
		.id = json_text_at(call->arena, val, "id"),
		.name = json_text_at(call->arena, val, "name"),
		.instance = {
			.power = str_eq_c(state, "running") ? POWER_ON :
			         str_eq_c(state, "stopped") ? POWER_OFF : POWER_UNKNOWN,
			.type = json_text_at(call->arena, val, "type"),
			.zone = json_text_at(call->arena, val, "zone"),
			.addresses = address,
			.n_addresses = 1,
		},
	};
	if (ret->id.len == 0 || ret->name.len == 0 || address->address.len == 0)
		return err_set(err, ERR_UNAVAILABLE, "a machine lacks its id, name or ip");
	return true;
}

static bool
add_machine(void *arg, struct call *call, yyjson_val *item, struct error *err)
{
	struct machine_list *list = arg;

	return read_machine(call, item, machine_list_add(list), err);
}

static bool
list_machines(struct cloud *cloud, struct call *call, struct machine_list *ret, struct error *err)
{
	const struct rest_list list = { PAGES, .target = "/machines", .items = "machines" };

	return rest_list(example_of(cloud)->rest, call, &list, add_machine, ret, &ret->is_complete,
	                 err);
}

/* A 404 gives ERR_NOT_FOUND, for which the framework may delete the node. */
static bool
get_machine(struct cloud *cloud, struct call *call, struct str id, struct machine *ret,
            struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct http_request request = { .method = HTTP_GET,
		                        .target = rest_target(call, "/machines/", id, "") };

	return rest_do(example_of(cloud)->rest, call, &request, &doc, err) &&
	       read_machine(call, yyjson_doc_get_root(doc), ret, err);
}

/* ---- load balancers ---- */

struct example_balancer {
	struct balancer balancer;
	struct str body; /* as body_of() writes it */
};

/* A balancer as JSON, for requests and for comparison with answers. The texts can be compared
 * because this API returns lists as they were sent. If yours sorts them, sort them here as well. */
static struct str
body_of(struct cloud *cloud, struct call *call, const struct lb_spec *spec)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_BODY);

	json_begin_object(&b, NULL);
	json_add_members(&b, JSON_TEXT("name", spec->name), JSON_TEXT("label", spec->uid));
	json_begin_array(&b, "ports");
	for (size_t i = 0; i < spec->n_ports; i++)
		json_add_text(&b, NULL,
		              arena_printf(call->arena, "%d:%d", spec->ports[i].port,
		                           spec->ports[i].node_port));
	json_end_array(&b);
	json_begin_array(&b, "targets");
	for (size_t i = 0; i < spec->n_nodes; i++)
		json_add_text(&b, NULL, cloud_machine_id(cloud, spec->nodes[i].provider_id));
	json_end_array(&b);
	json_end_object(&b);
	return arena_str(call->arena, buf_str(&b));
}

static bool
read_balancer(struct call *call, yyjson_val *val, struct balancer **ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_BODY);
	struct example_balancer *found = ARENA_NEW(call->arena, struct example_balancer);
	struct lb_ingress *ingress = ARENA_NEW(call->arena, struct lb_ingress);
	yyjson_val *ports, *targets;

	*ingress = (struct lb_ingress){ .ip = json_text_at(call->arena, val, "ip"),
		                        .hostname = STR_EMPTY,
		                        .ip_mode = LB_IP_MODE_VIP };
	found->balancer.id = json_text_at(call->arena, val, "id");
	found->balancer.status = (struct lb_status){ ingress, ingress->ip.len > 0 };
	if (found->balancer.id.len == 0 || json_array(val, "ports", &ports) != JSON_FOUND ||
	    json_array(val, "targets", &targets) != JSON_FOUND)
		return err_set(err, ERR_UNAVAILABLE, "a balancer lacks its id, ports or targets");
	json_begin_object(&body, NULL);
	json_add_members(&body, JSON_TEXT("name", json_text_at(call->arena, val, "name")),
	                 JSON_TEXT("label", json_text_at(call->arena, val, "label")));
	json_add_name(&body, STR("ports"));
	json_add_value(&body, ports);
	json_add_name(&body, STR("targets"));
	json_add_value(&body, targets);
	json_end_object(&body);
	found->body = arena_str(call->arena, buf_str(&body));
	*ret = &found->balancer;
	return true;
}

struct balancer_search {
	struct str uid;
	struct balancer *found;
};

static bool
check_balancer(void *arg, struct call *call, yyjson_val *item, struct error *err)
{
	struct balancer_search *search = arg;
	struct str label;

	if (json_str(item, "label", &label) != JSON_FOUND || !str_eq(label, search->uid))
		return true;
	return read_balancer(call, item, &search->found, err);
}

static bool
find_balancer(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
              struct balancer **ret, struct error *err)
{
	const struct rest_list list = { PAGES, .target = "/balancers", .items = "balancers" };
	struct balancer_search search = { .uid = spec->uid };
	bool is_complete;

	if (!rest_list(example_of(cloud)->rest, call, &list, check_balancer, &search, &is_complete,
	               err))
		return false;
	if (!search.found && !is_complete)
		return err_set(err, ERR_UNAVAILABLE, "the list of balancers changed meanwhile");
	if (!search.found)
		return err_set(err, ERR_NOT_FOUND, "no balancer has this label");
	*ret = search.found;
	return true;
}

static bool
create_balancer(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                struct balancer **ret, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct http_request request = { .method = HTTP_POST,
		                        .target = STR("/balancers"),
		                        .body = body_of(cloud, call, spec) };

	if (rest_do(example_of(cloud)->rest, call, &request, &doc, err))
		return read_balancer(call, yyjson_doc_get_root(doc), ret, err);
	/* names are unique in this API: another process has created it */
	if (err->code == ERR_CONFLICT)
		err->code = ERR_EXISTS;
	return false;
}

static bool
change_balancer(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                struct balancer *balancer, struct error *err)
{
	struct example_balancer *found = CONTAINER_OF(balancer, struct example_balancer, balancer);
	struct http_request request = { .method = HTTP_PUT,
		                        .target = rest_target(call, "/balancers/", balancer->id,
		                                              ""),
		                        .body = body_of(cloud, call, spec) };

	if (str_eq(found->body, request.body))
		return true;
	if (call->dry) {
		const struct dry_field field = { STR("settings"), found->body, request.body };

		balancer_note(call, DRY_CHANGE, balancer->id,
		              arena_printf(call->arena, "PUT %" STR_FMT, STR_ARG(request.target)),
		              &field, 1);
		return true;
	}
	return rest_do(example_of(cloud)->rest, call, &request, NULL, err);
}

static bool
destroy_balancer(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                 const struct balancer *balancer, struct error *err)
{
	struct http_request request = {
		.method = HTTP_DELETE, .target = rest_target(call, "/balancers/", balancer->id, "")
	};

	(void)spec;
	return rest_do(example_of(cloud)->rest, call, &request, NULL, err);
}

/* For `ccmd doctor`, which reports balancers whose Service no longer exists. */
struct balancer_listing {
	struct lb_listed *all;
	size_t n, cap;
};

static bool
add_listed(void *arg, struct call *call, yyjson_val *item, struct error *err)
{
	struct balancer_listing *listing = arg;
	struct str *address = ARENA_NEW(call->arena, struct str);
	yyjson_val *targets = NULL;
	struct lb_listed one = {
		.what = "load balancer",
		.is_balancer = true,
		.id = json_text_at(call->arena, item, "id"),
		.uid = json_text_at(call->arena, item, "label"),
		.service = STR_EMPTY,
		.cluster = STR_EMPTY,
		.cost = STR_EMPTY,
		.addresses = address,
		.n_addresses = 1,
	};

	(void)err;
	*address = json_text_at(call->arena, item, "ip");
	one.has_targets = json_array(item, "targets", &targets) == JSON_FOUND;
	one.n_targets = yyjson_arr_size(targets);
	if (one.uid.len > 0)
		ARRAY_PUSH(listing->all, listing->n, listing->cap, one);
	return true;
}

static bool
list_balancers(struct cloud *cloud, struct call *call, struct lb_listed **ret, size_t *ret_n,
               struct error *err)
{
	const struct rest_list list = { PAGES, .target = "/balancers", .items = "balancers" };
	struct balancer_listing listing = { 0 };
	bool is_good = rest_list(example_of(cloud)->rest, call, &list, add_listed, &listing, NULL,
	                         err);

	if (is_good) {
		*ret = arena_calloc(call->arena, listing.n, sizeof(**ret));
		for (size_t i = 0; i < listing.n; i++)
			(*ret)[i] = listing.all[i];
		*ret_n = listing.n;
	}
	free(listing.all);
	return is_good;
}

static const struct balancer_ops balancers = {
	.features = { [LB_SEVERAL_PORTS] = LB_PASS }, /* everything else is refused */
	.find = find_balancer,
	.create = create_balancer,
	.change = change_balancer,
	.destroy = destroy_balancer,
	.list = list_balancers,
};

/* ---- life cycle ---- */

static void
close_cloud(struct cloud *cloud)
{
	if (!cloud)
		return;
	rest_free(example_of(cloud)->rest);
	login_secret_fini(&example_of(cloud)->token);
	free(example_of(cloud));
}

DEFINE_CLEANUP(struct cloud, close_cloud)

/* No thread runs yet, and no request may be made. */
static bool
load(const struct cloud_config *config, struct cloud **ret, struct error *err)
{
	struct example *ex = xcalloc(1, sizeof(*ex));
	CLEANUP(close_cloudp) struct cloud *cloud = &ex->cloud;
	const char *file = getenv("EXAMPLE_TOKEN_FILE");

	(void)config;
	cloud->ops = &example_cloud;
	cloud->balancers = &balancers;
	ex->url = str_c(getenv("EXAMPLE_URL"));
	if (!file)
		login_secret_set(&ex->token, str_c(getenv("EXAMPLE_TOKEN")));
	else if (!login_secret_read(&ex->token, file, err))
		return err_wrap(err, "EXAMPLE_TOKEN_FILE");
	if (ex->url.len == 0 || secret_expose(&ex->token.value).len == 0)
		return err_set(err, ERR_INVALID,
		               "the environment variables EXAMPLE_URL and EXAMPLE_TOKEN, or "
		               "EXAMPLE_TOKEN_FILE, are required");
	/* the file is read again when it has changed, so the sandbox must permit that */
	if (file)
		cloud->needs.reads[cloud->needs.n_reads++] = str_c(ex->token.path);
	*ret = TAKE(cloud);
	return true;
}

static bool
start(struct cloud *cloud, const struct cloud_host *host, struct error *err)
{
	const struct rest_config config = {
		.host = host,
		.name = "example",
		.base_url = example_of(cloud)->url,
		.token = &example_of(cloud)->token,
	};

	return rest_new(&config, &example_of(cloud)->rest, err);
}

const struct cloud_ops example_cloud = {
	.name = "example",
	.provider_id_prefix = "example://",
	.variables = { "EXAMPLE_" },
	.load = load,
	.start = start,
	.close = close_cloud,
	.list_machines = list_machines,
	.get_machine = get_machine,
};
