/* operator/view.c: see view.h. */
#include "operator/view.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/limits.h"
#include "base/sandbox.h"
#include "base/version.h"
#include "controllers/node_ref.h"
#include "controllers/service/targets.h"
#include "flags/controllers.h"
#include "kube/elector.h"
#include "operator/facts.h"
#include "operator/leader.h"
#include "operator/progress.h"

/* ---- life cycle ---- */

void
view_restrict(const struct cloud_ops *ops)
{
	static const char *posts[] = { VIEW_OWN_REVIEWS, VIEW_ACCESS_REVIEWS, NULL, NULL };

	posts[2] = ops->login_target;
	http_set_read_only(posts);
}

struct view *
view_new(const struct options *options)
{
	struct view *v = xcalloc(1, sizeof(*v));

	*v = (struct view){
		.options = options,
		.call = { .clock = &clock_real,
		          .deadline_mono_ns = CLOCK_FOREVER,
		          .arena = &v->arena },
		.fence = FENCE_READ_ONLY,
		.lease = { .lease = LEASE_INIT },
		.node_kind = node_kind,
	};
	v->node_kind.keeps_routes = true;
	v->lease.name = arena_printf(&v->arena, "%s/%s", options->election.resource_namespace,
	                             options->election.resource_name);
	return v;
}

void
view_free(struct view *v)
{
	if (!v)
		return;
	yyjson_doc_free(v->leader);
	for (size_t i = 0; i < v->n_docs; i++)
		yyjson_doc_free(v->docs[i]);
	free(v->docs);
	map_fini(&v->warnings);
	map_fini(&v->senders);
	look_unref(v->look);
	free(v->machines.machines);
	map_fini(&v->services.by_key);
	for (size_t i = 0; i < v->n_looks; i++)
		look_unref(v->looks[i]);
	if (v->cloud)
		v->cloud->ops->close(v->cloud);
	recorder_free(v->recorder, /*flush_ms=*/0);
	host_free(v->host);
	targets_free(v->targets);
	store_list_free(&v->nodes.list);
	store_list_free(&v->services.list);
	store_free(v->nodes.store);
	store_free(v->services.store);
	lease_fini(&v->lease.lease);
	kube_connection_close(v->connection);
	arena_fini(&v->arena);
	free(v);
}

/* Files stay unrestricted, because a command may read any file that a flag names. A filter that the
 * kernel does not support is not a reason to fail; the controller logs it. */
void
view_confine(struct view *v, const struct cloud *cloud)
{
	CLEANUP(buf_fini) struct buf notes = BUF_INIT(KIB(16));
	struct error ignored;

	if (v->options->sandbox == SANDBOX_OFF)
		return;
	if (view_need(v, VIEW_CONNECTION, &ignored) && kube_connection_uses_plugin(v->connection))
		return;
	if (!cloud && view_need(v, VIEW_LOADED, &ignored))
		cloud = v->cloud;
	if (!cloud || !cloud->needs.runs_programs)
		(void)sandbox_enter(/*config=*/NULL, &notes);
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

/* Not kube_get(), because the date of the answer is needed. */
static bool
read_server(struct view *v, struct error *err)
{
	CLEANUP(http_response_fini) struct http_response response = HTTP_RESPONSE_INIT;
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct http_request request = { .method = HTTP_GET, .target = STR("/version") };
	struct error ignored;
	int64_t begun_ns;
	struct str minor;

	if (!view_need(v, VIEW_CONNECTION, err))
		return false;
	v->server.url = kube_connection_config(v->connection)->server;
	begun_ns = clock_mono(&clock_real);
	if (!http_do(v->kube->http, &v->call, &request, &response, err))
		return false;
	v->server.took_ns = clock_mono(&clock_real) - begun_ns;
	if (response.status != 200)
		return kube_status_error(err, &request, response.status, response.retry_after_ms,
		                         buf_str(&response.body));
	if (response.date_s > 0)
		v->server.skew_s = response.date_s - clock_wall(&clock_real) / NS_PER_SEC;
	if (!json_parse(buf_str(&response.body), &doc, &ignored))
		return true;
	v->server.version = json_text_at(&v->arena, yyjson_doc_get_root(doc), "gitVersion");
	minor = json_text_at(&v->arena, yyjson_doc_get_root(doc), "minor");
	while (minor.len > 0 && !str_is_digits(minor)) /* "36+" of some distributions */
		minor = str_head(minor, minor.len - 1);
	if (!str_to_i64(minor, 0, INT32_MAX, &v->server.minor))
		v->server.minor = 0;
	return true;
}

int64_t
view_now_s(const struct view *v)
{
	return clock_wall(&clock_real) / NS_PER_SEC + v->server.skew_s;
}

/* Without a version, the API server answers with the newest state. The state in its cache may be
 * some time old on a busy server, and a command that reads once would show, for example, a deleted
 * node in place of the one that was registered under its name since. */
bool
view_list(struct view *v, const char *path,
          bool (*each)(void *arg, yyjson_val *item, struct error *err), void *arg,
          struct error *err)
{
	const struct kube_list list = { .each = each, .arg = arg };
	CLEANUP(http_stream_closep) struct http_stream *stream = NULL;
	CLEANUP(buf_fini) struct buf version = BUF_INIT(LIMIT_NAME);
	struct http_request request = { .method = HTTP_GET, .target = str_c(path) };

	if (!view_need(v, VIEW_SERVER, err) ||
	    !http_stream_open(v->kube->http, &v->call, &request, &stream, err))
		return false;
	if (!kube_read_list(&list, stream, &clock_real, &version, err))
		return err_wrap(err, "GET %s", path);
	return true;
}

void
view_add_json(struct view *v, struct buf *out)
{
	struct error ignored;
	bool has_connection = view_need(v, VIEW_CONNECTION, &ignored);

	json_add_members(out, JSON_TIME("time", clock_wall(&clock_real)),
	                 JSON_TEXT("version", version_get()),
	                 JSON_TEXT("cluster",
	                           has_connection ? kube_connection_config(v->connection)->server
	                                          : STR_EMPTY),
	                 JSON_TEXT("context",
	                           has_connection ? kube_connection_config(v->connection)->context
	                                          : STR_EMPTY));
}

/* ---- nodes and Services ---- */

bool
view_is_controller(struct str manager)
{
	return str_eq_c(manager, "ccmd") ||
	       str_contains(manager, STR("cloud-controller-manager")) ||
	       str_contains(manager, STR("cloud-provider")) || str_ends(manager, STR("-ccm"));
}

struct filling {
	struct view *view;
	struct store *store;
	const char *kind; /* "node", for struct view_writer */
};

/* Keeps the last write of each controller to any object. */
static void
note_writers(const struct filling *f, yyjson_val *item, struct str name)
{
	struct view *v = f->view;
	yyjson_val *fields = json_at(item, "metadata.managedFields"), *entry;
	size_t i, n;

	yyjson_arr_foreach(fields, i, n, entry)
	{
		struct str manager = json_view(entry, "manager");
		int64_t time_s = view_time_s(entry, "time");
		size_t w = 0;

		if (!view_is_controller(manager))
			continue;
		while (w < v->n_writers && !str_eq(v->writers[w].manager, manager))
			w++;
		/* an unused one has the time 0 */
		if (w == VIEW_MAX_WRITERS || v->writers[w].time_s >= time_s)
			continue;
		if (w == v->n_writers)
			v->n_writers++;
		v->writers[w] = (struct view_writer){ arena_str(&v->arena, manager), f->kind, name,
			                              time_s };
	}
}

int64_t
view_time_s(yyjson_val *object, const char *path)
{
	int64_t wall_ns;

	return clock_parse_rfc3339(json_view(object, path), &wall_ns) ? wall_ns / NS_PER_SEC : 0;
}

struct str
view_last_manager(yyjson_val *object, const char *field, struct arena *arena, int64_t *ret_time_s)
{
	yyjson_val *fields = json_at(object, "metadata.managedFields"), *entry, *last = NULL;
	size_t i, n;

	/* all times are in UTC and of one length */
	yyjson_arr_foreach(fields, i, n, entry)
	{
		if (json_at(entry, field) &&
		    str_cmp(json_view(entry, "time"), json_view(last, "time")) >= 0)
			last = entry;
	}
	*ret_time_s = view_time_s(last, "time");
	return json_text_at(arena, last, "manager");
}

static void
note_service(struct view *v, yyjson_val *item, struct str key)
{
	struct view_service *more = ARENA_NEW(&v->arena, struct view_service);
	int64_t ignored;

	*more = (struct view_service){
		.class = json_text_at(&v->arena, item, "spec.loadBalancerClass"),
		.writer = view_last_manager(item, "fieldsV1.f:status.f:loadBalancer", &v->arena,
		                            &ignored),
		.created_s = view_time_s(item, "metadata.creationTimestamp"),
		.deleted_s = view_time_s(item, "metadata.deletionTimestamp"),
	};
	map_put(&v->services.by_key, key, more);
}

static bool
fill_item(void *arg, yyjson_val *item, struct error *err)
{
	const struct filling *f = arg;
	const struct kind *kind = store_kind(f->store);
	struct object *object;
	struct str key;

	if (!kind->parse(kind, item, &object, err))
		return false;
	key = arena_str(&f->view->arena, object->key);
	note_writers(f, item, key);
	if (str_eq_c(json_view(item, "spec.type"), "LoadBalancer") ||
	    json_at(item, "metadata.deletionTimestamp"))
		note_service(f->view, item, key);
	return store_put(f->store, object, err);
}

bool
view_fill(struct view *v, const char *kind, struct store *store, struct error *err)
{
	struct filling filling = { v, store, kind };

	store_begin_list(store, /*is_newest=*/false);
	if (!view_list(v, store_kind(store)->path, fill_item, &filling, err))
		return err_wrap(err, "list %ss", kind);
	store_end_list(store);
	return true;
}

static int
compare_objects(const void *a, const void *b)
{
	const struct object *const *x = a, *const *y = b;

	return str_cmp((*x)->key, (*y)->key);
}

size_t
view_find(const struct store_list *sorted, struct str key)
{
	struct object wanted = { .key = key }, *p = &wanted, **found = NULL;

	if (sorted->n > 0)
		found = bsearch(&p, sorted->objects, sorted->n, sizeof(p), compare_objects);
	return found ? (size_t)(found - sorted->objects) : sorted->n;
}

/* Fills a new store, and lists its objects, sorted by key. */
static bool
read_objects(struct view *v, const char *name, const struct kind *kind, struct store **ret,
             struct store_list *ret_list, struct error *err)
{
	*ret = store_new(kind, &clock_real);
	if (!view_fill(v, name, *ret, err))
		return false;
	*ret_list = store_list(*ret);
	qsort(ret_list->objects, ret_list->n, sizeof(ret_list->objects[0]), compare_objects);
	return true;
}

static bool
read_nodes(struct view *v, struct error *err)
{
	struct view_nodes *nodes = &v->nodes;

	v->node_kind.annotations = cloud_find(str_c(v->options->cloud_provider))->node_annotations;
	if (!read_objects(v, "node", &v->node_kind.kind, &nodes->store, &nodes->list, err))
		return false;
	nodes->n = nodes->list.n;
	nodes->items = arena_calloc(&v->arena, nodes->n + 1, sizeof(nodes->items[0]));
	nodes->refs = arena_calloc(&v->arena, nodes->n + 1, sizeof(nodes->refs[0]));
	for (size_t i = 0; i < nodes->n; i++) {
		nodes->items[i] = node_of(nodes->list.objects[i]);
		nodes->refs[i] = node_ref_of(nodes->items[i]);
	}
	return true;
}

static bool
read_services(struct view *v, struct error *err)
{
	struct view_services *services = &v->services;

	if (!read_objects(v, "service", &service_kind.kind, &services->store, &services->list, err))
		return false;
	services->n = services->list.n;
	services->items = arena_calloc(&v->arena, services->n + 1, sizeof(services->items[0]));
	services->more = arena_calloc(&v->arena, services->n + 1, sizeof(services->more[0]));
	for (size_t i = 0; i < services->n; i++) {
		const struct view_service *more = map_get(&services->by_key,
		                                          services->list.objects[i]->key);

		services->items[i] = service_of(services->list.objects[i]);
		if (more)
			services->more[i] = *more;
	}
	return true;
}

static bool
read_slice(void *view, yyjson_val *slice, struct error *err)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(KIB(1));
	struct view *v = view;
	struct view_endpoints *endpoints;
	yyjson_val *one;
	size_t i, n, which;

	(void)err;
	buf_addf(&key, "%" STR_FMT "/%" STR_FMT, STR_ARG(json_view(slice, "metadata.namespace")),
	         STR_ARG(json_text(json_key(json_at(slice, "metadata.labels"),
	                                    STR("kubernetes.io/service-name")))));
	which = view_find(&v->services.list, buf_str(&key));
	endpoints = &v->services.endpoints[which];
	if (!endpoints->is_on_node)
		return true;
	yyjson_arr_foreach(json_at(slice, "endpoints"), i, n, one)
	{
		bool is_ready = !yyjson_is_false(json_at(one, "conditions.ready"));

		endpoints->n++;
		endpoints->n_ready += is_ready;
		if (is_ready)
			endpoints->is_on_node[view_find(&v->nodes.list,
			                                json_view(one, "nodeName"))] = true;
	}
	return true;
}

/* All slices are listed: a list for each Service would be a request for each. */
static bool
read_endpoints(struct view *v, struct error *err)
{
	struct view_services *services = &v->services;
	bool is_wanted = false;

	if (!view_need(v, VIEW_NODES | VIEW_SERVICES, err))
		return false;
	services->endpoints = arena_calloc(&v->arena, services->n + 1,
	                                   sizeof(services->endpoints[0]));
	for (size_t i = 0; i < services->n; i++) {
		if (!service_wants_balancer(services->items[i]))
			continue;
		is_wanted = true;
		services->endpoints[i].is_on_node = arena_calloc(&v->arena, v->nodes.n + 1,
		                                                 sizeof(bool));
	}
	return !is_wanted ||
	       view_list(v, "/apis/discovery.k8s.io/v1/endpointslices", read_slice, v, err);
}

bool
view_get_items(struct view *v, struct str path, yyjson_val **ret, struct error *err)
{
	yyjson_doc *doc;
	struct str body;

	if (!view_need(v, VIEW_SERVER, err) || !kube_get(v->kube, &v->call, path, &body, err) ||
	    !json_parse(body, &doc, err))
		return false;
	ARRAY_PUSH(v->docs, v->n_docs, v->docs_cap, doc);
	*ret = json_at(yyjson_doc_get_root(doc), "items");
	return true;
}

bool
view_list_pods(struct view *v, struct str *ret_namespace, yyjson_val **ret, struct error *err)
{
	const char *namespace = getenv("POD_NAMESPACE");
	struct str path;

	*ret_namespace = str_c(getenv("POD_NAME") && namespace
	                               ? namespace
	                               : v->options->election.resource_namespace);
	path = arena_printf(&v->arena,
	                    "/api/v1/namespaces/%" STR_FMT
	                    "/pods?labelSelector=app.kubernetes.io/name%%3Dccmd",
	                    STR_ARG(*ret_namespace));
	return view_get_items(v, path, ret, err);
}

/* ---- the Lease ---- */

static bool
read_lease_once(struct view *v, struct view_lease *l, struct error *err)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(KIB(2));
	const struct election_options *o = &v->options->election;
	struct str body;
	yyjson_val *root;

	*l = (struct view_lease){ .name = l->name, .lease = LEASE_INIT };
	lease_add_path(&path, str_c(o->resource_namespace), str_c(o->resource_name));
	if (!kube_get(v->kube, &v->call, buf_str(&path), &body, err))
		return err->code == ERR_NOT_FOUND; /* it does not exist, which is an answer */
	if (!lease_parse(body, &l->lease, err))
		return false;
	l->exists = true;
	l->has_holder = l->lease.holder.len > 0;
	root = yyjson_doc_get_root(l->lease.doc);
	l->manager = view_last_manager(root, "", &v->arena, &l->written_s);
	l->renewed_s = view_time_s(root, "spec.renewTime");
	if (l->written_s > 0 && l->renewed_s > l->written_s) {
		l->ahead_s = l->renewed_s - l->written_s;
		l->renewed_s = l->written_s;
	}
	l->wait_s = elector_wait_ns(o->lease_duration_ns, l->lease.duration_s) / NS_PER_SEC;
	l->late_s = view_now_s(v) - l->renewed_s - l->wait_s;
	return true;
}

/* A holder whose clock is behind writes times that seem to be late. It has renewed the Lease if
 * that changes within the time between two renewals. */
static bool
read_lease(struct view *v, struct error *err)
{
	CLEANUP(lease_fini) struct lease before = LEASE_INIT;
	struct view_lease *l = &v->lease;

	if (!view_need(v, VIEW_SERVER, err) || !read_lease_once(v, l, err))
		return false;
	if (!l->has_holder || l->late_s <= 0)
		return true;
	before = l->lease;
	l->lease = LEASE_INIT;
	if (!cancel_sleep(/*cancel=*/NULL, &clock_real,
	                  v->options->election.retry_period_ns + NS_PER_SEC, err) ||
	    !read_lease_once(v, l, err))
		return false;
	if (l->late_s <= 0 || !str_eq(before.holder, l->lease.holder) ||
	    !lease_spec_differs(&before, &l->lease))
		return true;
	l->behind_s = view_now_s(v) - l->renewed_s;
	l->renewed_s = view_now_s(v);
	l->late_s = -l->wait_s;
	return true;
}

/* ---- the cloud ---- */

static bool
read_loaded(struct view *v, struct error *err)
{
	return controllers_load_cloud(v->options, /*is_read_only=*/true, &v->cloud, err);
}

/* The cloud is given what the controllers give it, but nothing is done about its events and
 * requeues. It can be used without the nodes or the Services, if they could not be read. */
static bool
read_cloud(struct view *v, struct error *err)
{
	struct error ignored;

	if (!view_need(v, VIEW_LOADED, err))
		return false;
	(void)!view_need(v, VIEW_NODES, &ignored);
	(void)!view_need(v, VIEW_SERVICES, &ignored);
	v->requests.max = VIEW_MAX_REQUESTS;
	v->recorder = recorder_new(/*client=*/NULL, "", &clock_real);
	v->host = host_new(&(struct host_config){ .clock = &clock_real,
	                                          .fence = &v->fence,
	                                          .nodes = v->nodes.store,
	                                          .recorder = v->recorder,
	                                          .requests = v->ask.what ? &v->requests : NULL });
	host_set_services(v->host, v->services.store);
	v->cloud->host = host_cloud_host(v->host);
	return v->cloud->ops->start(v->cloud, v->cloud->host, err);
}

static bool
read_settings(struct view *v, struct error *err)
{
	if (!view_need(v, VIEW_CLOUD, err) && (!v->cloud || err->code != ERR_NOT_FOUND))
		return false;
	return !v->cloud->ops->list_settings ||
	       v->cloud->ops->list_settings(v->cloud, &v->call, &v->settings, &v->n_settings, err);
}

/* ---- the look ---- */

static size_t
count_presence(const struct look *look, enum presence presence)
{
	size_t n = 0;

	for (size_t i = 0; i < look->n; i++)
		n += look->instances[i].presence == presence;
	return n;
}

/* A look asks only for so many of the machines that are missing in a list; the next one begins with
 * the others. Somebody waits for this answer, so they are asked for, too. The texts stay in the
 * looks from which the last one is merged. */
static void
look_for_others(struct view *v)
{
	size_t n_unknown = count_presence(v->look, PRESENCE_UNKNOWN), n_before = n_unknown + 1;

	while (n_unknown > 0 && n_unknown < n_before &&
	       count_presence(v->look, PRESENCE_ABSENT) > 0 && v->n_looks + 2 <= VIEW_MAX_LOOKS) {
		struct look *before = v->look, *next;
		struct error ignored;

		if (!cloud_look(v->cloud, &v->call, v->nodes.refs, v->nodes.n,
		                clock_boot(&clock_real), &next, &ignored))
			return;
		v->looks[v->n_looks++] = before;
		v->looks[v->n_looks++] = next;
		v->look = look_new(before->n, before->started_boot_ns);
		v->look->n_anchors = before->n_anchors;
		v->look->anchors_error = before->anchors_error;
		for (size_t i = 0; i < before->n; i++)
			v->look->instances[i] = before->instances[i].presence == PRESENCE_UNKNOWN
			                                ? next->instances[i]
			                                : before->instances[i];
		n_before = n_unknown;
		n_unknown = count_presence(v->look, PRESENCE_UNKNOWN);
	}
}

/* A look by the list of machines (cloud/look.c) asks for a few machines one by one, and does not
 * fail if all of these requests fail. ERR_INVALID is about the node itself: its provider ID or
 * name. */
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

/* A command about one node looks for its machine, and for those of a few Ready nodes, which show
 * that the cloud's project is the right one. */
static bool
look_for_few(struct view *v, struct error *err)
{
	struct node_ref refs[1 + VIEW_MAX_WITNESSES];
	size_t indices[ARRAY_LEN(refs)], subject, n = 0;
	struct str name = v->ask.what->key;
	const struct node *owner;
	struct look *few;

	if (v->ask.what->kind == DESCRIBED_ROUTE) {
		owner = facts_owner_of_cidr(v, name);
		name = owner ? node_name(owner) : STR_EMPTY;
	}
	subject = view_find(&v->nodes.list, name); /* the key of a Service is no node's name */
	if (subject < v->nodes.n)
		indices[n++] = subject;
	for (size_t i = 0; i < v->nodes.n && n < ARRAY_LEN(refs); i++) {
		if (i != subject && v->nodes.refs[i].is_ready && !v->nodes.refs[i].is_new &&
		    v->nodes.refs[i].provider_id.len > 0)
			indices[n++] = i;
	}
	for (size_t k = 0; k < n; k++)
		refs[k] = v->nodes.refs[indices[k]];
	if (!cloud_look(v->cloud, &v->call, refs, n, clock_boot(&clock_real), &few, err))
		return false;
	v->looks[v->n_looks++] = few;
	v->look = look_new(v->nodes.n, few->started_boot_ns);
	v->look->n_anchors = few->n_anchors;
	v->look->anchors_error = few->anchors_error;
	for (size_t i = 0; i < v->nodes.n; i++)
		look_set_error(v->look, i, PRESENCE_UNKNOWN, ERR_UNAVAILABLE,
		               STR("not looked for: the command is about another object"));
	for (size_t k = 0; k < n; k++)
		v->look->instances[indices[k]] = few->instances[k];
	return v->cloud->ops->look || has_answers(few, err);
}

static bool
look_for_all(struct view *v, struct error *err)
{
	if (!cloud_look(v->cloud, &v->call, v->nodes.refs, v->nodes.n, clock_boot(&clock_real),
	                &v->look, err))
		return false;
	look_for_others(v);
	return v->cloud->ops->look || has_answers(v->look, err);
}

/* As in the controllers, nothing is known about the machine of a node if another node has its
 * provider ID (controllers/node_ref.h). */
static bool
read_look(struct view *v, struct error *err)
{
	if (!view_need(v, VIEW_NODES | VIEW_CLOUD, err))
		return false;
	if (!(v->ask.what ? look_for_few(v, err) : look_for_all(v, err)))
		return false;
	for (size_t i = 0; i < v->nodes.n; i++) {
		if (provider_ids_is_shared(v->nodes.store, v->nodes.items[i]))
			look_set_error(v->look, i, PRESENCE_UNKNOWN, ERR_EXISTS,
			               STR("another node has its provider ID"));
	}
	return true;
}

/* A look by the list of machines leaves the provider ID of each to the framework. */
static bool
read_machines(struct view *v, struct error *err)
{
	const struct cloud_ops *ops;

	if (!view_need(v, VIEW_CLOUD, err))
		return false;
	ops = v->cloud->ops;
	if (!ops->list_machines)
		return err_set(err, ERR_UNSUPPORTED, "%s does not list its machines", ops->name);
	if (!ops->list_machines(v->cloud, &v->call, &v->machines, err))
		return false;
	for (size_t i = 0; i < v->machines.n; i++) {
		struct machine *one = &v->machines.machines[i];

		if (one->instance.provider_id.len == 0)
			one->instance.provider_id = arena_printf(&v->arena, "%s%" STR_FMT,
			                                         ops->provider_id_prefix,
			                                         STR_ARG(one->id));
	}
	return true;
}

/* ---- balancers and routes ---- */

static bool
read_balancers(struct view *v, struct error *err)
{
	const struct balancer_ops *ops;

	if (!view_need(v, VIEW_CLOUD, err))
		return false;
	ops = v->cloud->balancers;
	return (ops->list ? ops->list : ops->list_local)(v->cloud, &v->call, &v->balancers,
	                                                 &v->n_balancers, err);
}

static bool
read_routes(struct view *v, struct error *err)
{
	const struct route_options *o = &v->options->routes;
	struct route_controller_config config = { .cluster_cidrs = o->cidrs,
		                                  .n_cluster_cidrs = o->n_cidrs };

	if (!view_need(v, VIEW_NODES | VIEW_CLOUD, err) ||
	    !v->cloud->routes->list(v->cloud, &v->call, &v->routes, err))
		return false;
	v->route_run = route_decide(&(struct controller_env){ .nodes = v->nodes.store,
	                                                      .cloud = v->cloud },
	                            &config, &v->arena, &v->nodes.list, &v->routes);
	return true;
}

/* ---- all of them ---- */

bool
view_need(struct view *v, unsigned parts, struct error *err)
{
	/* in the order of enum view_part; the step is shown while the part is read */
	static const struct {
		const char *step;
		bool (*read)(struct view *, struct error *);
	} readers[VIEW_N_PARTS] = {
		{ "reading the kubeconfig", read_connection },
		{ "connecting to the API server", read_server },
		{ "reading the nodes", read_nodes },
		{ "reading the Services", read_services },
		{ "reading the Lease", read_lease },
		{ "reading the configuration of the cloud", read_loaded },
		{ "connecting to the cloud", read_cloud },
		{ "reading what the settings of the cloud name", read_settings },
		{ "reading the machines of the cloud", read_look },
		{ "reading the load balancers of the cloud", read_balancers },
		{ "reading the routes of the cloud", read_routes },
		{ "comparing the Services with the cloud", facts_try_services },
		{ "listing the machines of the cloud", read_machines },
		{ "reading the endpoints of the Services", read_endpoints },
		{ "asking the leader", leader_read },
		{ "reading the events", leader_read_events },
	};

	for (size_t i = 0; i < VIEW_N_PARTS; i++) {
		if (!(parts & (1U << i)))
			continue;
		if (!v->parts[i].is_read) {
			const char *before = progress_set(readers[i].step);

			v->parts[i].is_read = true;
			v->parts[i].has_failed = !readers[i].read(v, &v->parts[i].err);
			(void)progress_set(before);
		}
		if (v->parts[i].has_failed) {
			*err = v->parts[i].err;
			return false;
		}
	}
	return true;
}
