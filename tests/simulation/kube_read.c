/* kube_read.c: get, list and watch.
 *
 * A list without a version is one of etcd: the newest state. A list with a version, and each watch,
 * is one of the watch cache, which may be behind. A watch gets the changes of its kind after its
 * version in order; if that version is in the future, as after a restore, it is silent until the
 * counter has passed it. */
#include "kube_internal.h"

#include <string.h>

#define BOOKMARK_EVERY_NS (60 * KM_NS_PER_SECOND)
#define BOOKMARK_BEFORE_END_NS (2 * KM_NS_PER_SECOND)
#define WATCH_DEFAULT_S 1800
#define MAX_LINE (1 << 26)

/* ---- get ---- */

bool
km_get_object(struct km_call *call)
{
	const struct km_object *object;
	int64_t version;
	size_t place;

	if (!km_read_version(km_parameter(call, "resourceVersion"), &version))
		return km_refuse(call, 400, "BadRequest", "invalid resource version");
	if (version > km_cache_version(call->m))
		return km_refuse_version_too_large(call, version);
	object = km_find(&call->m->of[call->which], call->namespace, call->name, &place);
	if (!object)
		return km_refuse_not_found(call);
	km_answer_object(call, 200, object->base.json);
	return true;
}

/* ---- list ---- */

struct km_list_wanted {
	int64_t version; /* of the state; the answer shows it, too */
	int64_t limit;   /* 0: none */
	struct str start_namespace,
		start_name; /* the first object; name empty: from the beginning */
};

/* A token is "VERSION NAMESPACE/NAME", in Base64. */
static bool
km_read_continue(struct km_call *call, struct str token, struct km_list_wanted *wanted)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(4096);
	struct str version, key;

	if (!base64_decode(token, &text) || !str_cut(buf_str(&text), ' ', &version, &key) ||
	    !km_read_version(version, &wanted->version) ||
	    !str_cut(arena_str(&call->arena, key), '/', &wanted->start_namespace,
	             &wanted->start_name))
		return km_refuse(call, 400, "BadRequest", "continue key is not valid");
	if (wanted->version < call->m->compacted)
		return km_refuse_expired(
			call, STR("The provided continue parameter is too old to display a "
		                  "consistent list result."));
	return true;
}

static bool
km_read_exact(struct km_call *call, int64_t version, struct km_list_wanted *wanted)
{
	if (version > call->m->version)
		return km_refuse_version_too_large(call, version);
	if (version < call->m->compacted)
		return km_refuse_expired(call,
		                         KM_FIELD(call, "The resourceVersion for the provided "
		                                        "list is too old."));
	wanted->version = version;
	return true;
}

/* The version of the watch cache of one kind: that of its last change. Every kind has a watch of
 * etcd of its own, and does not notice changes of others. */
static int64_t
km_kind_version(const struct km_call *call)
{
	const struct kube_model *m = call->m;
	size_t i = m->n_log;

	while (i > 0) {
		const struct km_change *change = &m->log[--i];
		const struct km_object *one = change->before ? change->before : change->after;

		if (change->version <= km_cache_version(m) && one->base.kind == call->which)
			return change->version > m->oldest ? change->version : m->oldest;
	}
	return m->oldest;
}

static bool
km_read_wanted(struct km_call *call, struct km_list_wanted *wanted)
{
	struct str token = km_parameter(call, "continue"), limit = km_parameter(call, "limit");
	struct str text = km_parameter(call, "resourceVersion");
	struct str match = km_parameter(call, "resourceVersionMatch");
	int64_t version;

	*wanted = (struct km_list_wanted){ .version = call->m->version,
		                           .start_namespace = STR_EMPTY,
		                           .start_name = STR_EMPTY };
	if (limit.len > 0 && !str_to_i64(limit, 0, INT64_MAX, &wanted->limit))
		return km_refuse(call, 400, "BadRequest", "the limit is no number");
	if (token.len > 0)
		return km_read_continue(call, token, wanted);
	if (!km_read_version(text, &version))
		return km_refuse(call, 400, "BadRequest", "invalid resource version");
	if (text.len == 0)
		return true;
	if (str_eq_c(match, "Exact") || (match.len == 0 && version > 0 && wanted->limit > 0))
		return km_read_exact(call, version, wanted);
	if (version > km_cache_version(call->m))
		return km_refuse_version_too_large(call, version);
	wanted->version = km_kind_version(call);
	if (version > wanted->version)
		wanted->version = version;
	if (version == 0)
		wanted->limit = 0;
	return true;
}

static bool
km_is_of(const struct km_call *call, const struct km_object *object)
{
	return call->namespace.len == 0 || str_eq(object->base.namespace, call->namespace);
}

/* An item has no kind and no apiVersion. */
static void
km_add_item(struct km_call *call, const struct km_object *object)
{
	struct buf *b = &call->answer->body;
	struct str json = object->base.json, head;

	head = KM_FIELD(call, "{\"kind\":\"%s\",\"apiVersion\":\"%s\",", call->kind->name,
	                call->kind->version);
	json_add_raw(b, NULL, STR("{"));
	buf_add_str(b, str_skip(json, head.len));
}

static void
km_add_continue(struct km_call *call, const struct km_list_wanted *wanted,
                const struct km_object *next, size_t n_left)
{
	CLEANUP(buf_fini) struct buf token = BUF_INIT(4096);

	base64_add(&token, KM_FIELD(call, "%lld %" STR_FMT "/%" STR_FMT, (long long)wanted->version,
	                            STR_ARG(next->base.namespace), STR_ARG(next->base.name)));
	json_add_text(&call->answer->body, "continue", buf_str(&token));
	json_add_number(&call->answer->body, "remainingItemCount", (int64_t)n_left);
}

bool
km_list(struct km_call *call)
{
	struct buf *b = &call->answer->body;
	struct km_list_wanted wanted;
	struct km_objects all;
	size_t first = 0, n = 0;

	if (km_is_partial(call))
		return km_refuse(call, 406, "NotAcceptable",
		                 "you requested PartialObjectMetadata, but the requested object is "
		                 "a list (*%s.%sList)",
		                 call->kind->group[0] ? "coordination" : "core", call->kind->name);
	if (!km_read_wanted(call, &wanted))
		return false;
	all = km_objects_at(call->m, &call->arena, call->which, wanted.version);
	if (wanted.start_name.len > 0)
		(void)km_find(&all, wanted.start_namespace, wanted.start_name, &first);
	for (size_t i = first; i < all.n; i++) {
		if (km_is_of(call, all.items[i]))
			all.items[n++] = all.items[i];
	}
	if (wanted.limit == 0 || (size_t)wanted.limit > n)
		wanted.limit = (int64_t)n;
	call->answer->status = 200;
	json_begin_object(b, NULL);
	json_add_text(b, "kind",
	              km_is_partial(call) ? STR("PartialObjectMetadataList")
	                                  : KM_FIELD(call, "%sList", call->kind->name));
	json_add_text(b, "apiVersion",
	              km_is_partial(call) ? STR("meta.k8s.io/v1") : str_c(call->kind->version));
	json_begin_object(b, "metadata");
	json_add_text(b, "resourceVersion", KM_FIELD(call, "%lld", (long long)wanted.version));
	if ((size_t)wanted.limit < n)
		km_add_continue(call, &wanted, all.items[wanted.limit], n - (size_t)wanted.limit);
	json_end_object(b);
	json_begin_array(b, "items");
	for (size_t i = 0; i < (size_t)wanted.limit; i++)
		km_add_item(call, all.items[i]);
	json_end_array(b);
	json_end_object(b);
	return true;
}

/* ---- watch ---- */

static void
km_add_line(struct buf *b, const char *type, struct str json, bool is_partial)
{
	buf_addf(b, "{\"type\":\"%s\",\"object\":", type);
	km_add_object(b, json, is_partial);
	buf_add_c(b, "}\n");
}

/* The stream of a watch that is too old has only this event. */
static bool
km_answer_too_old(struct km_call *call, int64_t version)
{
	struct kube_model *m = call->m;
	struct buf *b = &call->answer->body;

	call->answer->status = 200;
	buf_addf(b,
	         "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\","
	         "\"metadata\":{},\"status\":\"Failure\",\"message\":\"too old resource version: "
	         "%lld (%lld)\",\"reason\":\"Expired\",\"code\":410}}\n",
	         (long long)version, (long long)m->oldest);
	return true;
}

static void
km_add_initial(struct km_call *call)
{
	struct km_objects all = km_objects_at(call->m, &call->arena, call->which,
	                                      km_cache_version(call->m));

	for (size_t i = 0; i < all.n; i++) {
		if (km_is_of(call, all.items[i]))
			km_add_line(&call->answer->body, "ADDED", all.items[i]->base.json,
			            km_is_partial(call));
	}
}

bool
km_watch(struct km_call *call)
{
	struct kube_model *m = call->m;
	int64_t version, timeout_s = WATCH_DEFAULT_S;
	struct str timeout = km_parameter(call, "timeoutSeconds");
	struct km_watch watch = {
		.stream = call->request->id,
		.kind = call->which,
		.namespace = arena_str(&m->arena, call->namespace),
		.is_partial = km_is_partial(call),
		.wants_bookmarks = str_eq_c(km_parameter(call, "allowWatchBookmarks"), "true"),
		.bookmark_ns = m->now_ns + BOOKMARK_EVERY_NS,
	};

	if (!km_read_version(km_parameter(call, "resourceVersion"), &version))
		return km_refuse(call, 500, NULL, "resourceVersion: Invalid value");
	if (timeout.len > 0 && !str_to_i64(timeout, 1, INT32_MAX, &timeout_s))
		return km_refuse(call, 400, "BadRequest", "timeoutSeconds is no number");
	if (version > 0 && version < m->oldest)
		return km_answer_too_old(call, version);
	call->answer->status = 200;
	call->answer->is_stream = true;
	watch.version = version;
	watch.end_ns = m->now_ns + timeout_s * KM_NS_PER_SECOND;
	if (version == 0) {
		watch.version = km_cache_version(m);
		km_add_initial(call);
	}
	watch.first_version = watch.version;
	if (watch.bookmark_ns > watch.end_ns - BOOKMARK_BEFORE_END_NS)
		watch.bookmark_ns = watch.end_ns - BOOKMARK_BEFORE_END_NS;
	ARRAY_PUSH(m->watches, m->n_watches, m->cap_watches, watch);
	return true;
}

/* Sends one change, if it is of the watch's kind and namespace. */
static void
km_send_change(struct kube_model *m, const struct km_watch *w, const struct km_change *change)
{
	CLEANUP(buf_fini) struct buf line = BUF_INIT(MAX_LINE);
	const struct km_object *shown = change->after ? change->after : change->last;
	const char *type = !change->after ? "DELETED" : change->before ? "MODIFIED" : "ADDED";

	if (shown->base.kind != w->kind)
		return;
	if (w->namespace.len > 0 && !str_eq(shown->base.namespace, w->namespace))
		return;
	km_add_line(&line, type, shown->base.json, w->is_partial);
	m->base.sink.push(m->base.sink.arg, w->stream, buf_str(&line));
}

void
km_send_changes(struct kube_model *m)
{
	int64_t newest = km_cache_version(m);

	for (size_t i = 0; i < m->n_watches; i++) {
		struct km_watch *w = &m->watches[i];
		size_t first = m->n_log;

		while (first > 0 && m->log[first - 1].version > w->version)
			first--;
		for (size_t k = first; k < m->n_log && m->log[k].version <= newest; k++) {
			km_send_change(m, w, &m->log[k]);
			w->version = m->log[k].version;
		}
	}
}

/* As long as nothing has changed since the watch began, it gets no bookmark. */
static void
km_send_bookmark(struct kube_model *m, struct km_watch *w)
{
	CLEANUP(buf_fini) struct buf line = BUF_INIT(1024);
	int64_t version = km_cache_version(m);

	w->bookmark_ns = m->now_ns + BOOKMARK_EVERY_NS;
	if (w->version > version || version == w->first_version)
		return;
	buf_addf(&line,
	         "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"%s\",\"apiVersion\":\"%s\","
	         "\"metadata\":{\"resourceVersion\":\"%lld\"}}}\n",
	         km_kinds[w->kind].name, km_kinds[w->kind].version, (long long)version);
	m->base.sink.push(m->base.sink.arg, w->stream, buf_str(&line));
}

/* Ends a watch regularly. */
static void
km_end_watch(struct kube_model *m, size_t i)
{
	uint64_t stream = m->watches[i].stream;

	memmove(&m->watches[i], &m->watches[i + 1], (m->n_watches - i - 1) * sizeof(*m->watches));
	m->n_watches--;
	m->base.sink.end(m->base.sink.arg, stream);
}

void
km_send_bookmarks(struct kube_model *m)
{
	for (size_t i = 0; i < m->n_watches; i++) {
		if (m->watches[i].wants_bookmarks && m->watches[i].bookmark_ns <= m->now_ns)
			km_send_bookmark(m, &m->watches[i]);
	}
	for (size_t i = m->n_watches; i > 0; i--) {
		if (m->watches[i - 1].end_ns <= m->now_ns)
			km_end_watch(m, i - 1);
	}
}

void
km_end_watches(struct kube_model *m)
{
	while (m->n_watches > 0)
		km_end_watch(m, m->n_watches - 1);
}
