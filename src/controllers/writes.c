/* controllers/writes.c: writes to nodes; see writes.h.
 *
 * Taints are a list that a patch replaces as a whole. A patch that was computed from an old list
 * would undo what others changed meanwhile, so patches of taints always name the resource version.
 * The raw JSON of each taint that stays is sent back unchanged, with fields that we do not know.
 */
#include "controllers/writes.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/thread.h"
#include "controllers/dry_write.h"
#include "kube/patch.h"

/* ---- own writes that the watch has not delivered yet ----
 *
 * A node has an entry from our write until the watch event that shows it.
 */

/* An event that has not arrived by then will not arrive: watches lag for seconds, not for a
 * minute. */
#define ECHO_MAX_NS (60 * NS_PER_SEC)

struct own_write {
	int64_t noted_ns;              /* mono */
	struct str name, uid, version; /* in text */
	char text[];
};

void
own_writes_note(struct own_writes *w, const struct node *node, struct str version)
{
	struct own_write *e = xmalloc(sizeof(*e) + node_name(node).len + node->object.uid.len +
	                              version.len);
	char *at = e->text;
	WITH_LOCK(&w->mu);

	e->name = str_pack(&at, node_name(node));
	e->uid = str_pack(&at, node->object.uid);
	e->version = str_pack(&at, version);
	e->noted_ns = clock_mono(w->clock);
	free(map_put(&w->entries, e->name, e));
}

bool
own_writes_are_ahead(struct own_writes *w, const struct node *node)
{
	WITH_LOCK(&w->mu);
	struct own_write *e = map_get(&w->entries, node_name(node));

	if (!e)
		return false;
	if (str_eq(e->uid, node->object.uid) && clock_mono(w->clock) - e->noted_ns < ECHO_MAX_NS &&
	    object_version_is_older(node->object.resource_version, e->version))
		return true;
	free(map_remove(&w->entries, e->name));
	return false;
}

void
own_writes_forget(struct own_writes *w, struct str name)
{
	WITH_LOCK(&w->mu);

	free(map_remove(&w->entries, name));
}

/* ---- writing ---- */

bool
node_write_send(const struct node_write *w, const char *subresource, enum kube_patch_type type,
                struct str body, struct str *ret_version, struct error *err)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(LIMIT_HTTP_URL);
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct kube_patch patch = { .type = type, .body = body, .answer = KUBE_ANSWER_META };
	struct str answer, version;

	patch_node_path(&path, node_name(w->node), subresource);
	patch.path = buf_str(&path);
	if (w->call->dry) {
		dry_write_node(w->call, w->node, patch.path, body);
		if (ret_version)
			*ret_version = w->node->object.resource_version;
		return true;
	}
	if (!kube_patch(w->env->kube, w->call, &patch, &answer, err))
		return false;
	if (!json_parse(answer, &doc, err))
		return err_wrap(err, "response to PATCH %" STR_FMT, STR_ARG(buf_str(&path)));
	if (json_str(yyjson_doc_get_root(doc), "metadata.resourceVersion", &version) !=
	            JSON_FOUND ||
	    version.len == 0)
		return err_set(err, ERR_INTERNAL,
		               "response to PATCH %" STR_FMT " has no resourceVersion",
		               STR_ARG(buf_str(&path)));
	own_writes_note(w->env->own_writes, w->node, version);
	if (ret_version)
		*ret_version = arena_str(w->call->arena, version);
	return true;
}

/* Reads the node from the server, past the cache. *ret is NULL if the node is gone or another one
 * has its name now. */
static bool
read_live(const struct node_write *w, struct object **ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(LIMIT_HTTP_URL);
	struct object *live;
	struct str body;

	patch_node_path(&path, node_name(w->node), NULL);
	if (!kube_get(w->env->kube, w->call, buf_str(&path), &body, err)) {
		*ret = NULL;
		return err->code == ERR_NOT_FOUND;
	}
	if (!object_parse(store_kind(w->env->nodes), body, &live, err))
		return err_wrap(err, "GET %" STR_FMT, STR_ARG(buf_str(&path)));
	if (!str_eq(live->uid, w->node->object.uid)) {
		object_unref(live);
		live = NULL;
	}
	*ret = live;
	return true;
}

bool
node_write(const struct node_write *w, struct error *err)
{
	CLEANUP(object_unrefp) struct object *live = NULL;
	struct node_write now = *w;

	for (unsigned i = 0;; i++) {
		if (now.write(&now, err) || err->code == ERR_NOT_FOUND)
			return true;
		if (err->code != ERR_CONFLICT || i + 1 >= w->attempts)
			return false;
		if (!cancel_sleep(w->call->cancel, w->call->clock,
		                  rand_jitter(w->pause_ms * NS_PER_MS), err))
			return false;
		object_unref(TAKE(live));
		if (!read_live(w, &live, err))
			return err_wrap(err, "read after a conflict");
		if (!live)
			return true;
		now.node = node_of(live);
	}
}

#define SHUTDOWN_TAINT "{\"key\":\"" NODE_TAINT_SHUTDOWN "\",\"effect\":\"NoSchedule\"}"

bool
taint_is_shutdown(const struct node_taint *t)
{
	return str_eq_c(t->key, NODE_TAINT_SHUTDOWN) && str_eq_c(t->effect, "NoSchedule");
}

/* Is the taint as we write it, without a value or a timeAdded? */
static bool
is_plain(const struct node_taint *t)
{
	return t->value.len == 0 && !str_contains(t->raw, STR("\"timeAdded\":\""));
}

/* The list with the shutdown taint, in its place or at the end. False: the node has it already. */
static bool
add_shutdown(const struct node *node, struct str *taints, size_t *ret_n)
{
	bool is_there = false;

	for (size_t i = 0; i < node->n_taints; i++) {
		const struct node_taint *t = node->taints[i];
		bool is_shutdown = taint_is_shutdown(t);

		if (is_shutdown && is_plain(t))
			return false;
		taints[i] = is_shutdown ? STR(SHUTDOWN_TAINT) : t->raw;
		is_there |= is_shutdown;
	}
	*ret_n = node->n_taints;
	if (!is_there)
		taints[(*ret_n)++] = STR(SHUTDOWN_TAINT);
	return true;
}

/* The list without the shutdown taint. False: the node does not have it. */
static bool
remove_shutdown(const struct node *node, struct str *taints, size_t *ret_n)
{
	*ret_n = 0;
	for (size_t i = 0; i < node->n_taints; i++) {
		if (!taint_is_shutdown(node->taints[i]))
			taints[(*ret_n)++] = node->taints[i]->raw;
	}
	return *ret_n < node->n_taints;
}

static bool
write_taint(const struct node_write *w, struct error *err)
{
	bool wanted = *(bool *)w->arg;
	const struct node *node = w->node;
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);
	struct str *taints = arena_calloc(w->call->arena, node->n_taints + 1, sizeof(*taints));
	bool is_other;
	size_t n;

	is_other = wanted ? add_shutdown(node, taints, &n) : remove_shutdown(node, taints, &n);
	if (!is_other)
		return true;
	patch_node(&body, &(struct node_patch){ .uid = node->object.uid,
	                                        .resource_version = node->object.resource_version,
	                                        .has_taints = true,
	                                        .taints = taints,
	                                        .n_taints = n });
	if (!node_write_send(w, NULL, KUBE_PATCH_MERGE, buf_str(&body), NULL, err))
		return false;
	if (!w->call->dry)
		log_info(wanted ? "shutdown taint added" : "shutdown taint removed",
		         LOG_STR("node", node_name(node)));
	return true;
}

bool
write_shutdown_taint(struct controller_env *env, struct call *call, const struct node *node,
                     bool wanted, struct error *err)
{
	return node_write(&(struct node_write){ .env = env,
	                                        .call = call,
	                                        .node = node,
	                                        .write = write_taint,
	                                        .arg = &wanted,
	                                        .attempts = 5,
	                                        .pause_ms = 100 },
	                  err);
}
