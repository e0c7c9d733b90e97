/* operator/view.c: see view.h. */
#include "operator/view.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/sandbox.h"
#include "base/split.h"
#include "cloud/host.h"
#include "controllers/node_ref.h"
#include "flags/flags.h"
#include "operator/progress.h"

#define LIST_IDLE_NS (30 * NS_PER_SEC) /* a list is given up after this time without a byte */

enum {
	MAX_WRITERS = 16, /* different controllers; more than anybody runs */
};

enum part {
	PART_CONNECTION,
	PART_SERVER,
	PART_NODES,
	PART_SERVICES,
	PART_LEASE,
	PART_LOADED,
	PART_CLOUD,
	PART_SETTINGS,
	PART_LOOK,
	PART_BALANCERS,
	PART_ROUTES,
	N_PARTS,
};

enum {
	MAX_LOOKS = 20, /* of one view */
};

struct view {
	const struct options *options;
	struct arena arena;
	struct call call;
	struct {
		bool is_read, has_failed;
		struct error err;
	} parts[N_PARTS];

	struct kube_connection *connection;
	struct kube_client *kube;
	struct view_server server;
	struct node_kind node_kind;
	struct store_list node_list, service_list;
	struct view_nodes nodes;
	struct view_services services;
	struct view_writer writers[MAX_WRITERS];
	size_t n_writers;
	struct view_lease lease;
	struct fence fence; /* closed */
	struct cloud_host host;
	struct cloud *cloud;
	struct cloud_setting *settings;
	size_t n_settings;
	struct look *look;
	struct look *looks[MAX_LOOKS]; /* those that it was merged from */
	size_t n_looks;
	struct lb_listed *balancers;
	size_t n_balancers;
	struct route_list routes;
};

/* ---- the restriction ---- */

void
view_restrict(const struct cloud_ops *ops)
{
	static const char *posts[] = { VIEW_OWN_REVIEWS, VIEW_ACCESS_REVIEWS, NULL, NULL };

	posts[2] = ops->login_target;
	http_set_read_only(posts);
}

/* ---- life cycle ---- */

struct view *
view_new(const struct options *options)
{
	struct view *v = xcalloc(1, sizeof(*v));

	v->options = options;
	v->call = (struct call){ .clock = &clock_real,
		                 .deadline_mono_ns = CLOCK_FOREVER,
		                 .arena = &v->arena };
	v->fence = FENCE_READ_ONLY;
	v->lease.lease = LEASE_INIT;
	v->node_kind = node_kind;
	v->node_kind.keeps_routes = true;
	return v;
}

void
view_free(struct view *v)
{
	if (!v)
		return;
	look_unref(v->look);
	for (size_t i = 0; i < v->n_looks; i++)
		look_unref(v->looks[i]);
	if (v->cloud)
		v->cloud->ops->close(v->cloud);
	store_list_free(&v->node_list);
	store_list_free(&v->service_list);
	store_free(v->nodes.store);
	store_free(v->services.store);
	lease_fini(&v->lease.lease);
	kube_connection_close(v->connection);
	arena_fini(&v->arena);
	free(v);
}

const struct options *
view_options(const struct view *v)
{
	return v->options;
}

struct call *
view_call(struct view *v)
{
	return &v->call;
}

/* Reads a part unless that was done before. */
static bool
view_read(struct view *v, enum part part, bool (*read)(struct view *, struct error *),
          struct error *err)
{
	static const char *const steps[N_PARTS] = {
		[PART_CONNECTION] = "reading the kubeconfig",
		[PART_SERVER] = "connecting to the API server",
		[PART_NODES] = "reading the nodes",
		[PART_SERVICES] = "reading the Services",
		[PART_LEASE] = "reading the Lease",
		[PART_LOADED] = "reading the configuration of the cloud",
		[PART_CLOUD] = "connecting to the cloud",
		[PART_SETTINGS] = "reading what the settings of the cloud name",
		[PART_LOOK] = "reading the machines of the cloud",
		[PART_BALANCERS] = "reading the load balancers of the cloud",
		[PART_ROUTES] = "reading the routes of the cloud",
	};

	if (!v->parts[part].is_read) {
		const char *before = progress_set(steps[part]);

		v->parts[part].is_read = true;
		v->parts[part].has_failed = !read(v, &v->parts[part].err);
		(void)progress_set(before);
	}
	if (v->parts[part].has_failed)
		*err = v->parts[part].err;
	return !v->parts[part].has_failed;
}

/* ---- the API server ---- */

static bool
read_connection(struct view *v, struct error *err)
{
	struct kube_config_source source = { .kubeconfig = v->options->kubeconfig,
		                             .is_list = v->options->kubeconfig_is_list,
		                             .master = v->options->master };
	struct kube_client_options options = { .name = "http", .agent = "operator" };

	return kube_connection_open(&source, &clock_real, &v->connection, err) &&
	       kube_connection_client(v->connection, &options, &v->kube, err);
}

bool
view_connection(struct view *v, struct kube_connection **ret, struct error *err)
{
	if (!view_read(v, PART_CONNECTION, read_connection, err))
		return false;
	*ret = v->connection;
	return true;
}

static void
read_version(struct view *v, struct str body)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct str minor;
	struct error ignored;

	if (!json_parse(body, &doc, &ignored))
		return;
	v->server.version = json_text_at(&v->arena, yyjson_doc_get_root(doc), "gitVersion");
	minor = json_text_at(&v->arena, yyjson_doc_get_root(doc), "minor");
	while (minor.len > 0 && !str_is_digits(minor)) /* "36+" of some distributions */
		minor = str_head(minor, minor.len - 1);
	if (!str_to_i64(minor, 0, INT32_MAX, &v->server.minor))
		v->server.minor = 0;
}

/* Not kube_get(), because the date of the answer is needed. */
static bool
read_server(struct view *v, struct error *err)
{
	CLEANUP(http_response_fini) struct http_response response = HTTP_RESPONSE_INIT;
	struct http_request request = { .method = HTTP_GET, .target = STR("/version") };
	struct kube_connection *connection;

	if (!view_connection(v, &connection, err))
		return false;
	v->server.url = kube_connection_server(connection);
	if (!http_do(v->kube->http, &v->call, &request, &response, err))
		return false;
	if (response.status != 200)
		return kube_status_error(err, &request, response.status, response.retry_after_ms,
		                         buf_str(&response.body));
	if (response.date_s > 0)
		v->server.skew_s = response.date_s - clock_wall(&clock_real) / NS_PER_SEC;
	read_version(v, buf_str(&response.body));
	return true;
}

bool
view_server(struct view *v, const struct view_server **ret, struct error *err)
{
	if (!view_read(v, PART_SERVER, read_server, err))
		return false;
	*ret = &v->server;
	return true;
}

int64_t
view_now_s(struct view *v)
{
	return clock_wall(&clock_real) / NS_PER_SEC + v->server.skew_s;
}

bool
view_client(struct view *v, struct kube_client **ret, struct error *err)
{
	if (!view_read(v, PART_SERVER, read_server, err))
		return false;
	*ret = v->kube;
	return true;
}

/* ---- lists ---- */

struct list {
	struct view *view;
	struct store *store;
	const char *kind; /* "node", for struct view_writer */
};

bool
view_is_controller(struct str manager)
{
	return str_eq_c(manager, "ccmd") ||
	       str_contains(manager, STR("cloud-controller-manager")) ||
	       str_contains(manager, STR("cloud-provider")) || str_ends(manager, STR("-ccm"));
}

/* Keeps the last write of each controller. */
static void
note_writer(struct list *list, struct str manager, struct str name, int64_t time_s)
{
	struct view *v = list->view;
	size_t i = 0;

	while (i < v->n_writers && !str_eq(v->writers[i].manager, manager))
		i++;
	if (i == MAX_WRITERS || (i < v->n_writers && v->writers[i].time_s >= time_s))
		return;
	if (i == v->n_writers)
		v->n_writers++;
	v->writers[i] = (struct view_writer){ arena_str(&v->arena, manager), list->kind,
		                              arena_str(&v->arena, name), time_s };
}

static void
read_writers(struct list *list, yyjson_val *item, struct str name)
{
	yyjson_val *fields = NULL, *entry;
	size_t i, n;

	(void)json_array(item, "metadata.managedFields", &fields);
	yyjson_arr_foreach(fields, i, n, entry)
	{
		struct str manager = STR_EMPTY, time = STR_EMPTY;
		int64_t time_ns;

		(void)json_str(entry, "manager", &manager);
		(void)json_str(entry, "time", &time);
		if (view_is_controller(manager) && clock_parse_rfc3339(time, &time_ns))
			note_writer(list, manager, name, time_ns / NS_PER_SEC);
	}
}

static bool
read_item(void *arg, struct str text, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct list *list = arg;
	const struct kind *kind = store_kind(list->store);
	struct object *object;
	struct str key;

	if (!json_parse(text, &doc, err) ||
	    !kind->parse(kind, yyjson_doc_get_root(doc), &object, err))
		return false;
	key = arena_str(&list->view->arena, object->key);
	read_writers(list, yyjson_doc_get_root(doc), key);
	return store_put(list->store, object, err);
}

static bool
read_stream(struct http_stream *stream, const char *path,
            bool (*each)(void *arg, struct str item, struct error *err), void *arg,
            struct error *err)
{
	CLEANUP(json_split_freep)
	struct json_split *split = json_split_new(STR("items"), LIMIT_JSON_ITEM);
	struct str bytes, head;
	size_t total = 0;

	do {
		int64_t deadline_ns = clock_deadline(clock_mono(&clock_real), LIST_IDLE_NS);

		if (!http_stream_read(stream, deadline_ns, &bytes, err))
			return false;
		if (!json_split_feed(split, bytes, each, arg, err))
			return err_wrap(err, "GET %s", path);
		total += bytes.len;
		if (total > LIMIT_LIST_BODY)
			return err_set(err, ERR_INVALID, "the list is larger than %zu bytes",
			               LIMIT_LIST_BODY);
	} while (bytes.len > 0);
	return json_split_end(split, &head, err) || err_wrap(err, "GET %s", path);
}

/* Without a version, the API server answers with the newest state. The state in its cache may be
 * some time old on a busy server, and a command that reads once would show, for example, a deleted
 * node in place of the one that was registered under its name since. */
bool
view_list(struct view *v, const char *path,
          bool (*each)(void *arg, struct str item, struct error *err), void *arg, struct error *err)
{
	CLEANUP(http_stream_closep) struct http_stream *stream = NULL;
	struct http_request request = {
		.method = HTTP_GET,
		.target = str_c(path),
	};
	struct kube_client *kube;

	return view_client(v, &kube, err) &&
	       http_stream_open(kube->http, &v->call, &request, &stream, err) &&
	       read_stream(stream, path, each, arg, err);
}

static int
compare_objects(const void *a, const void *b)
{
	const struct object *const *x = a, *const *y = b;

	return str_cmp((*x)->key, (*y)->key);
}

static bool
fill_store(struct list *list, struct error *err)
{
	store_begin_list(list->store, /*is_newest=*/false);
	if (!view_list(list->view, store_kind(list->store)->path, read_item, list, err))
		return err_wrap(err, "list %ss", list->kind);
	store_end_list(list->store);
	return true;
}

bool
view_fill(struct view *v, const char *kind, struct store *store, struct error *err)
{
	struct list list = { v, store, kind };

	return fill_store(&list, err);
}

/* Reads all objects of a kind into a store, and returns them sorted by their keys. */
static bool
read_list(struct list *list, struct store_list *ret, struct error *err)
{
	if (!fill_store(list, err))
		return false;
	*ret = store_list(list->store);
	qsort(ret->objects, ret->n, sizeof(ret->objects[0]), compare_objects);
	return true;
}

static bool
read_nodes(struct view *v, struct error *err)
{
	struct view_nodes *nodes = &v->nodes;
	struct list list = { v, NULL, "node" };

	v->node_kind.annotations = cloud_find(str_c(v->options->cloud_provider))->node_annotations;
	list.store = nodes->store = store_new(&v->node_kind.kind, &clock_real);
	if (!read_list(&list, &v->node_list, err))
		return false;
	nodes->list = &v->node_list;
	nodes->n = v->node_list.n;
	nodes->items = arena_calloc(&v->arena, nodes->n + 1, sizeof(nodes->items[0]));
	nodes->refs = arena_calloc(&v->arena, nodes->n + 1, sizeof(nodes->refs[0]));
	for (size_t i = 0; i < nodes->n; i++) {
		nodes->items[i] = node_of(v->node_list.objects[i]);
		nodes->refs[i] = node_ref_of(nodes->items[i]);
	}
	return true;
}

bool
view_nodes(struct view *v, const struct view_nodes **ret, struct error *err)
{
	if (!view_read(v, PART_NODES, read_nodes, err))
		return false;
	*ret = &v->nodes;
	return true;
}

static bool
read_services(struct view *v, struct error *err)
{
	struct view_services *services = &v->services;
	struct list list = { v, NULL, "service" };

	list.store = services->store = store_new(&service_kind.kind, &clock_real);
	if (!read_list(&list, &v->service_list, err))
		return false;
	services->n = v->service_list.n;
	services->items = arena_calloc(&v->arena, services->n + 1, sizeof(services->items[0]));
	for (size_t i = 0; i < services->n; i++)
		services->items[i] = service_of(v->service_list.objects[i]);
	return true;
}

bool
view_services(struct view *v, const struct view_services **ret, struct error *err)
{
	if (!view_read(v, PART_SERVICES, read_services, err))
		return false;
	*ret = &v->services;
	return true;
}

bool
view_writers(struct view *v, const struct view_writer **ret, size_t *ret_n, struct error *err)
{
	if (!view_read(v, PART_NODES, read_nodes, err) ||
	    !view_read(v, PART_SERVICES, read_services, err))
		return false;
	*ret = v->writers;
	*ret_n = v->n_writers;
	return true;
}

/* ---- the Lease ---- */

/* The manager of the newest entry in managedFields. */
static struct str
last_manager(yyjson_val *object, struct arena *arena)
{
	yyjson_val *fields = NULL, *entry;
	struct str manager = STR_EMPTY, newest = STR_EMPTY;
	size_t i, n;

	(void)json_array(object, "metadata.managedFields", &fields);
	yyjson_arr_foreach(fields, i, n, entry)
	{
		struct str time = STR_EMPTY;

		(void)json_str(entry, "time", &time); /* all in UTC and of the same length */
		if (str_cmp(time, newest) >= 0) {
			newest = time;
			manager = json_text_at(arena, entry, "manager");
		}
	}
	return manager;
}

static bool
read_lease(struct view *v, struct error *err)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(KIB(2));
	struct view_lease *l = &v->lease;
	struct str body, renewed = STR_EMPTY;
	struct kube_client *kube;
	int64_t renewed_ns;
	yyjson_val *root;

	if (!view_client(v, &kube, err))
		return false;
	lease_add_path(&path, str_c(v->options->election.resource_namespace),
	               str_c(v->options->election.resource_name));
	if (!kube_get(kube, &v->call, buf_str(&path), &body, err))
		return err->code == ERR_NOT_FOUND; /* it does not exist, which is an answer */
	if (!lease_parse(body, &l->lease, err))
		return false;
	l->exists = true;
	root = yyjson_doc_get_root(l->lease.doc);
	l->manager = last_manager(root, &v->arena);
	(void)json_str(root, "spec.renewTime", &renewed);
	if (clock_parse_rfc3339(renewed, &renewed_ns))
		l->renewed_s = renewed_ns / NS_PER_SEC;
	return true;
}

bool
view_lease(struct view *v, const struct view_lease **ret, struct error *err)
{
	if (!view_read(v, PART_LEASE, read_lease, err))
		return false;
	*ret = &v->lease;
	return true;
}

/* ---- the cloud, and what it is given ---- */

static struct view *
view_of(const struct cloud_host *host)
{
	return CONTAINER_OF((struct cloud_host *)(uintptr_t)host, struct view, host);
}

static void
drop_event(const struct cloud_host *host, const struct node_ref *ref, enum host_event type,
           const char *reason, struct str message)
{
	(void)host;
	(void)ref;
	(void)type;
	(void)reason;
	(void)message;
}

static void
drop_service_event(const struct cloud_host *host, const struct lb_spec *spec, enum host_event type,
                   const char *reason, struct str message)
{
	(void)host;
	(void)spec;
	(void)type;
	(void)reason;
	(void)message;
}

static void
drop_requeue(const struct cloud_host *host, enum host_requeue what, struct str key)
{
	(void)host;
	(void)what;
	(void)key;
}

/* Called on threads of the cloud as well, so it must not read anything: the nodes were read before
 * the cloud was started. */
static void
list_nodes(const struct cloud_host *host, struct arena *arena, struct node_ref **ret, size_t *ret_n)
{
	const struct view_nodes *nodes = &view_of(host)->nodes;

	*ret = arena_calloc(arena, nodes->n + 1, sizeof((*ret)[0]));
	for (size_t i = 0; i < nodes->n; i++)
		(*ret)[i] = node_ref_copy(arena, nodes->items[i]);
	*ret_n = nodes->n;
}

static bool
is_service_address(const struct cloud_host *host, struct str address)
{
	const struct view_services *services = &view_of(host)->services;

	for (size_t i = 0; i < services->n; i++) {
		if (service_is_served_at(services->items[i], address))
			return true;
	}
	return false;
}

bool
view_load_cloud(const struct options *options, struct cloud **ret, struct error *err)
{
	struct cloud_config config = options_cloud_config(options, &clock_real);

	config.is_read_only = true;
	return cloud_find(str_c(options->cloud_provider))->load(&config, ret, err);
}

static bool
read_loaded(struct view *v, struct error *err)
{
	return view_load_cloud(v->options, &v->cloud, err);
}

/* Files stay unrestricted, because a command may read any file that a flag names. A filter that the
 * kernel does not support is not a reason to fail; the controller logs it. */
void
view_confine(struct view *v, const struct cloud *cloud)
{
	CLEANUP(buf_fini) struct buf notes = BUF_INIT(KIB(16));
	struct kube_connection *connection;
	struct error ignored;

	if (v->options->sandbox == SANDBOX_OFF)
		return;
	if (view_connection(v, &connection, &ignored) && kube_connection_uses_plugin(connection))
		return;
	if (!cloud && view_read(v, PART_LOADED, read_loaded, &ignored))
		cloud = v->cloud;
	if (!cloud || !cloud->needs.runs_programs)
		(void)sandbox_enter(/*config=*/NULL, &notes);
}

bool
view_cloud_listener(struct view *v, const struct cloud_listener **ret, struct error *err)
{
	if (!view_read(v, PART_LOADED, read_loaded, err))
		return false;
	*ret = &v->cloud->metrics;
	return true;
}

static bool
read_cloud(struct view *v, struct error *err)
{
	struct error ignored;

	if (!view_read(v, PART_LOADED, read_loaded, err))
		return false;
	(void)!view_read(v, PART_NODES, read_nodes, &ignored);
	(void)!view_read(v, PART_SERVICES, read_services, &ignored);
	v->host = (struct cloud_host){
		.clock = &clock_real,
		.fence = &v->fence,
		.event = drop_event,
		.service_event = drop_service_event,
		.requeue = drop_requeue,
		.nodes = list_nodes,
		.is_service_address = is_service_address,
	};
	v->cloud->host = &v->host;
	return v->cloud->ops->start(v->cloud, &v->host, err);
}

bool
view_cloud(struct view *v, struct cloud **ret, struct error *err)
{
	if (!view_read(v, PART_CLOUD, read_cloud, err))
		return false;
	*ret = v->cloud;
	return true;
}

/* The look of a plain cloud (cloud/look.c) asks for a few machines one by one, and does not fail if
 * all of these requests fail. ERR_INVALID is about the node itself: its provider ID or name. */
static bool
has_answers(const struct look *look, struct error *err)
{
	const struct instance *failed = NULL;

	for (size_t i = 0; i < look->n; i++) {
		const struct instance *one = &look->instances[i];

		if (one->presence == PRESENCE_PRESENT || one->presence == PRESENCE_ABSENT)
			return true;
		if (!failed && one->presence == PRESENCE_UNKNOWN && one->error_code != ERR_INVALID)
			failed = one;
	}
	return !failed || err_set(err, failed->error_code, "%" STR_FMT, STR_ARG(failed->error));
}

static bool
read_settings(struct view *v, struct error *err)
{
	const struct cloud_ops *ops;
	struct cloud *cloud;

	if (!view_cloud(v, &cloud, err) && (!v->cloud || err->code != ERR_NOT_FOUND))
		return false;
	ops = v->cloud->ops;
	return !ops->list_settings ||
	       ops->list_settings(v->cloud, &v->call, &v->settings, &v->n_settings, err);
}

bool
view_settings(struct view *v, const struct cloud_setting **ret, size_t *ret_n, struct error *err)
{
	if (!view_read(v, PART_SETTINGS, read_settings, err))
		return false;
	*ret = v->settings;
	*ret_n = v->n_settings;
	return true;
}

/* As in the controllers, nothing is known about the machine of a node if another node has its
 * provider ID (controllers/provider_ids.h). */
static void
refuse_shared_ids(struct view *v, const struct view_nodes *nodes)
{
	CLEANUP(map_fini) struct map first = MAP_INIT;

	for (size_t i = 0; i < nodes->n; i++) {
		struct str id = node_provider_id(nodes->items[i]);
		uintptr_t other = id.len > 0 ? (uintptr_t)map_get(&first, id) : 0;

		if (other > 0) {
			look_set_error(v->look, other - 1, PRESENCE_UNKNOWN, ERR_EXISTS,
			               STR("another node has its provider ID"));
			look_set_error(v->look, i, PRESENCE_UNKNOWN, ERR_EXISTS,
			               STR("another node has its provider ID"));
		} else if (id.len > 0) {
			map_put(&first, id, (void *)(i + 1));
		}
	}
}

static size_t
count_presence(const struct look *look, enum presence presence)
{
	size_t n = 0;

	for (size_t i = 0; i < look->n; i++)
		n += look->instances[i].presence == presence;
	return n;
}

/* A copy of the look with the other one's answers about the machines that are unknown in it. The
 * texts stay in both looks. */
static struct look *
merge_looks(const struct look *look, const struct look *other)
{
	struct look *merged = look_new(look->n, look->started_boot_ns);

	merged->n_anchors = look->n_anchors;
	merged->anchors_error = look->anchors_error;
	for (size_t i = 0; i < look->n; i++)
		merged->instances[i] = look->instances[i].presence == PRESENCE_UNKNOWN
		                               ? other->instances[i]
		                               : look->instances[i];
	return merged;
}

/* A look asks only for so many of the machines that are missing in a list; the next one begins with
 * the others. Somebody waits for this answer, so they are asked for, too. */
static void
look_for_others(struct view *v, struct cloud *cloud, const struct view_nodes *nodes)
{
	size_t n_unknown = count_presence(v->look, PRESENCE_UNKNOWN), n_before = n_unknown + 1;
	struct look *next;
	struct error ignored;

	while (n_unknown > 0 && n_unknown < n_before &&
	       count_presence(v->look, PRESENCE_ABSENT) > 0 && v->n_looks + 2 <= MAX_LOOKS) {
		if (!cloud_look(cloud, &v->call, nodes->refs, nodes->n, clock_boot(&clock_real),
		                &next, &ignored))
			return;
		v->looks[v->n_looks++] = v->look;
		v->looks[v->n_looks++] = next;
		v->look = merge_looks(v->look, next);
		n_before = n_unknown;
		n_unknown = count_presence(v->look, PRESENCE_UNKNOWN);
	}
}

static bool
read_look(struct view *v, struct error *err)
{
	const struct view_nodes *nodes;
	struct cloud *cloud;

	if (!view_nodes(v, &nodes, err) || !view_cloud(v, &cloud, err) ||
	    !cloud_look(cloud, &v->call, nodes->refs, nodes->n, clock_boot(&clock_real), &v->look,
	                err))
		return false;
	look_for_others(v, cloud, nodes);
	if (!cloud->ops->look && !has_answers(v->look, err))
		return false;
	refuse_shared_ids(v, nodes);
	return true;
}

bool
view_look(struct view *v, const struct look **ret, struct error *err)
{
	if (!view_read(v, PART_LOOK, read_look, err))
		return false;
	*ret = v->look;
	return true;
}

static bool
read_routes(struct view *v, struct error *err)
{
	struct cloud *cloud;

	return view_cloud(v, &cloud, err) && cloud->routes->list(cloud, &v->call, &v->routes, err);
}

bool
view_routes(struct view *v, struct route_list *ret, struct error *err)
{
	if (!view_read(v, PART_ROUTES, read_routes, err))
		return false;
	*ret = v->routes;
	return true;
}

static bool
read_balancers(struct view *v, struct error *err)
{
	const struct balancer_ops *ops;
	struct cloud *cloud;

	if (!view_cloud(v, &cloud, err))
		return false;
	ops = cloud->balancers;
	return (ops->list ? ops->list : ops->list_local)(cloud, &v->call, &v->balancers,
	                                                 &v->n_balancers, err);
}

bool
view_balancers(struct view *v, const struct lb_listed **ret, size_t *ret_n, struct error *err)
{
	if (!view_read(v, PART_BALANCERS, read_balancers, err))
		return false;
	*ret = v->balancers;
	*ret_n = v->n_balancers;
	return true;
}
