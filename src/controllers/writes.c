/* controllers/writes.c: see writes.h. */
#include "controllers/writes.h"

#include "base/limits.h"
#include "base/log.h"
#include "base/rand.h"
#include "controllers/own_writes.h"
#include "kube/patch.h"

bool
send_node_patch(struct controller_env *env, struct call *call, const struct node *node,
                const char *subresource, enum kube_patch kind, struct str body,
                struct str *ret_version, struct error *err)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(LIMIT_HTTP_URL);
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct str answer, version;

	patch_node_path(&path, node_name(node), subresource);
	if (!kube_patch(env->kube, call, buf_str(&path), kind, body, KUBE_ANSWER_META, &answer,
	                err))
		return false;
	if (!json_parse(answer, &doc, err))
		return err_wrap(err, "answer to PATCH %" STR_FMT, STR_ARG(buf_str(&path)));
	if (json_str(yyjson_doc_get_root(doc), "metadata.resourceVersion", &version) !=
	            JSON_FOUND ||
	    version.len == 0)
		return err_set(err, ERR_INTERNAL,
		               "answer to PATCH %" STR_FMT " has no resourceVersion",
		               STR_ARG(buf_str(&path)));
	own_writes_note(env->own_writes, node, version);
	if (ret_version)
		*ret_version = arena_str(call->arena, version);
	return true;
}

/* The node as the server has it, past the cache. NULL with true: it is gone, or another has its
 * name. */
static bool
read_live(struct controller_env *env, struct call *call, const struct node *node,
          struct object **ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(LIMIT_HTTP_URL);
	struct object *live;
	struct str body;

	patch_node_path(&path, node_name(node), NULL);
	if (!kube_get(env->kube, call, buf_str(&path), &body, err)) {
		*ret = NULL;
		return err->code == ERR_NOT_FOUND;
	}
	if (!object_parse(&node_kind, body, &live, err))
		return err_wrap(err, "GET %" STR_FMT, STR_ARG(buf_str(&path)));
	if (!str_eq(live->uid, node->object.uid)) {
		object_unref(live);
		live = NULL;
	}
	*ret = live;
	return true;
}

bool
write_node(struct controller_env *env, struct call *call, const struct node *node,
           unsigned attempts, int64_t pause_ms, write_fn *write, void *arg, struct error *err)
{
	CLEANUP(object_unrefp) struct object *live = NULL;

	for (unsigned i = 0;; i++) {
		if (write(env, call, live ? node_of(live) : node, arg, err))
			return true;
		if (err->code == ERR_NOT_FOUND)
			return true;
		if (err->code != ERR_CONFLICT || i + 1 >= attempts)
			return false;
		if (!cancel_sleep(call->cancel, call->clock, rand_jitter(pause_ms * NS_PER_MS),
		                  err))
			return false;
		object_unref(TAKE(live));
		if (!read_live(env, call, node, &live, err))
			return err_wrap(err, "read after a conflict");
		if (!live)
			return true;
	}
}

size_t
taints_without(const struct node *node, struct str key, struct str effect, struct str *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < node->n_taints; i++) {
		const struct node_taint *t = node->taints[i];

		if (!str_eq(t->key, key) || (effect.len > 0 && !str_eq(t->effect, effect)))
			ret[n++] = t->raw;
	}
	return n;
}

#define SHUTDOWN_TAINT "{\"key\":\"" NODE_TAINT_SHUTDOWN "\",\"effect\":\"NoSchedule\"}"

bool
taint_is_shutdown(const struct node_taint *t)
{
	return str_eq_c(t->key, NODE_TAINT_SHUTDOWN) && str_eq_c(t->effect, "NoSchedule");
}

/* Same key and effect are the same taint; a value or a timeAdded make it differ from ours. */
static bool
is_plain(const struct node_taint *t)
{
	return t->value.len == 0 && !str_contains(t->raw, STR("\"timeAdded\":\""));
}

/* The list with the shutdown taint, replaced in place or appended; false when it is there
 * already. */
static bool
add_shutdown(const struct node *node, struct str *taints, size_t *ret_n)
{
	bool is_there = false;

	for (size_t i = 0; i < node->n_taints; i++) {
		const struct node_taint *t = node->taints[i];
		bool is_same = taint_is_shutdown(t);

		if (is_same && is_plain(t))
			return false;
		taints[i] = is_same ? STR(SHUTDOWN_TAINT) : t->raw;
		is_there = is_there || is_same;
	}
	*ret_n = node->n_taints;
	if (!is_there)
		taints[(*ret_n)++] = STR(SHUTDOWN_TAINT);
	return true;
}

static bool
write_taint(struct controller_env *env, struct call *call, const struct node *node, void *arg,
            struct error *err)
{
	bool wanted = *(bool *)arg;
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);
	struct str *taints = arena_calloc(call->arena, node->n_taints + 1, sizeof(*taints));
	struct node_patch patch = {
		.uid = node->object.uid,
		.resource_version = node->object.resource_version,
		.has_taints = true,
		.taints = taints,
	};

	if (wanted) {
		if (!add_shutdown(node, taints, &patch.n_taints))
			return true;
	} else {
		patch.n_taints = taints_without(node, STR(NODE_TAINT_SHUTDOWN), STR("NoSchedule"),
		                                taints);
		if (patch.n_taints == node->n_taints)
			return true;
	}
	patch_node(&body, &patch);
	if (!send_node_patch(env, call, node, NULL, KUBE_PATCH_MERGE, buf_str(&body), NULL, err))
		return false;
	log_info(wanted ? "shutdown taint added" : "shutdown taint removed",
	         LOG_STR("node", node_name(node)));
	return true;
}

bool
write_shutdown_taint(struct controller_env *env, struct call *call, const struct node *node,
                     bool wanted, struct error *err)
{
	return write_node(env, call, node, 5, 100, write_taint, &wanted, err);
}
