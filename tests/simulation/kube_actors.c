/* kube_actors.c: what kubelets, users and other controllers do. */
#include "kube_internal.h"

#include <string.h>

#define MAX_BODY (1 << 20)
#define MAX_ANSWER (1 << 26)
#define CLOUD_TAINT                                                                       \
	"{\"key\":\"node.cloudprovider.kubernetes.io/uninitialized\",\"value\":\"true\"," \
	"\"effect\":\"NoSchedule\"}"

/* ---- requests ---- */

int
kube_model_request(struct kube_model *m, const struct kube_model_request *request,
                   struct buf *ret_body)
{
	struct server_response answer = { .headers = BUF_INIT(MAX_ANSWER),
		                          .body = BUF_INIT(MAX_ANSWER) };
	struct str type = STR("application/json");
	int status;

	if (strcmp(request->method, "PATCH") == 0)
		type = request->is_strategic ? STR("application/strategic-merge-patch+json")
		                             : STR("application/merge-patch+json");
	km_serve(m,
	         &(struct server_request){ .method = request->method,
	                                   .target = str_c(request->target),
	                                   .accept = STR_EMPTY,
	                                   .content_type = type,
	                                   .token = STR_EMPTY,
	                                   .user_agent = str_c(request->user_agent),
	                                   .body = request->body },
	         &answer, /*is_actor=*/true);
	km_send_changes(m);
	status = answer.status;
	if (ret_body)
		buf_add_str(ret_body, buf_str(&answer.body));
	buf_fini(&answer.headers);
	buf_fini(&answer.body);
	return status;
}

static void
km_add_target(struct buf *b, enum kube_model_kind kind, struct str namespace, struct str name)
{
	buf_add_c(b, km_kinds[kind].prefix);
	if (km_kinds[kind].is_namespaced)
		buf_addf(b, "namespaces/%" STR_FMT "/", STR_ARG(namespace));
	buf_add_c(b, km_kinds[kind].resource);
	if (name.len > 0)
		buf_addf(b, "/%" STR_FMT, STR_ARG(name));
}

int
kube_model_change(struct kube_model *m, const char *user_agent,
                  const struct kube_model_object *object, const char *merge_patch)
{
	CLEANUP(buf_fini) struct buf target = BUF_INIT(MAX_BODY);
	struct kube_model_request request = { .user_agent = user_agent,
		                              .method = "PATCH",
		                              .body = str_c(merge_patch) };

	km_add_target(&target, object->kind, object->namespace, object->name);
	request.target = target.ptr;
	return kube_model_request(m, &request, NULL);
}

int
kube_model_delete(struct kube_model *m, const char *user_agent,
                  const struct kube_model_object *object)
{
	CLEANUP(buf_fini) struct buf target = BUF_INIT(MAX_BODY);
	struct kube_model_request request = { .user_agent = user_agent,
		                              .method = "DELETE",
		                              .body = STR_EMPTY };

	km_add_target(&target, object->kind, object->namespace, object->name);
	request.target = target.ptr;
	return kube_model_request(m, &request, NULL);
}

/* ---- finalizers ---- */

/* Writes the finalizers of the object with or without one of them. False: it would not change. */
static bool
km_put_finalizer(struct kube_model *m, const char *user_agent,
                 const struct kube_model_object *object, const char *finalizer, bool wanted)
{
	CLEANUP(buf_fini) struct buf patch = BUF_INIT(MAX_BODY);
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	yyjson_val *finalizers, *item;
	struct error err;
	size_t i, n;
	bool has = false;

	if (!json_parse(object->json, &doc, &err))
		return false;
	finalizers = json_at(yyjson_doc_get_root(doc), "metadata.finalizers");
	json_begin_object(&patch, NULL);
	json_begin_object(&patch, "metadata");
	json_begin_array(&patch, "finalizers");
	yyjson_arr_foreach(finalizers, i, n, item)
	{
		bool is_it = str_eq_c(json_text(item), finalizer);

		has = has || is_it;
		if (!is_it)
			json_add_text(&patch, NULL, json_text(item));
	}
	if (wanted)
		json_add_text(&patch, NULL, str_c(finalizer));
	json_end_array(&patch);
	json_end_object(&patch);
	json_end_object(&patch);
	return has != wanted && kube_model_change(m, user_agent, object, patch.ptr) == 200;
}

bool
kube_model_add_finalizer(struct kube_model *m, const char *user_agent,
                         const struct kube_model_object *object, const char *finalizer)
{
	return km_put_finalizer(m, user_agent, object, finalizer, true);
}

bool
kube_model_remove_finalizer(struct kube_model *m, const char *user_agent,
                            const struct kube_model_object *object, const char *finalizer)
{
	return km_put_finalizer(m, user_agent, object, finalizer, false);
}

/* ---- kubelets ---- */

static void
km_add_now(struct buf *b, const char *name, const struct kube_model *m, bool micros)
{
	json_add_raw(b, name, STR("\""));
	clock_format_rfc3339(b, m->now_ns, micros);
	buf_add_char(b, '"');
}

static void
km_add_ready(struct buf *b, const struct kube_model *m, const char *ready)
{
	bool is_ready = strcmp(ready, "True") == 0;

	json_begin_object(b, NULL);
	json_add_text(b, "type", STR("Ready"));
	json_add_text(b, "status", str_c(ready));
	json_add_text(b, "reason", is_ready ? STR("KubeletReady") : STR("NodeStatusUnknown"));
	km_add_now(b, "lastHeartbeatTime", m, false);
	km_add_now(b, "lastTransitionTime", m, false);
	json_end_object(b);
}

static void
km_add_node_meta(struct buf *b, const struct kube_model_new_node *wanted)
{
	json_begin_object(b, "metadata");
	json_add_text(b, "name", wanted->name);
	json_begin_object(b, "labels");
	json_add_text(b, "kubernetes.io/hostname", wanted->name);
	for (size_t i = 0; i < wanted->n_labels; i++) {
		json_add_name(b, wanted->labels[i].key);
		json_add_text(b, NULL, wanted->labels[i].value);
	}
	json_end_object(b);
	if (wanted->ip.len > 0) {
		json_begin_object(b, "annotations");
		json_add_text(b, "alpha.kubernetes.io/provided-node-ip", wanted->ip);
		json_end_object(b);
	}
	json_end_object(b);
}

static void
km_add_node_status(struct buf *b, const struct kube_model *m,
                   const struct kube_model_new_node *wanted)
{
	json_begin_object(b, "status");
	json_begin_array(b, "addresses");
	if (wanted->ip.len > 0) {
		json_begin_object(b, NULL);
		json_add_text(b, "type", STR("InternalIP"));
		json_add_text(b, "address", wanted->ip);
		json_end_object(b);
	}
	json_begin_object(b, NULL);
	json_add_text(b, "type", STR("Hostname"));
	json_add_text(b, "address", wanted->name);
	json_end_object(b);
	json_end_array(b);
	json_begin_array(b, "conditions");
	km_add_ready(b, m, "True");
	json_end_array(b);
	json_end_object(b);
}

int
kube_model_add_node(struct kube_model *m, const struct kube_model_new_node *wanted)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(MAX_BODY);
	struct kube_model_request request = { .user_agent = "kubelet",
		                              .method = "POST",
		                              .target = "/api/v1/nodes" };
	int status;

	json_begin_object(&body, NULL);
	km_add_node_meta(&body, wanted);
	json_begin_object(&body, "spec");
	if (wanted->provider_id.len > 0)
		json_add_text(&body, "providerID", wanted->provider_id);
	if (!wanted->is_initialised)
		json_add_raw(&body, "taints", STR("[" CLOUD_TAINT "]"));
	json_end_object(&body);
	km_add_node_status(&body, m, wanted);
	json_end_object(&body);
	request.body = buf_str(&body);
	status = kube_model_request(m, &request, NULL);
	if (status == 201)
		kube_model_renew_node(m, wanted->name);
	return status;
}

static void
km_create_node_lease(struct kube_model *m, struct str name)
{
	CLEANUP(buf_fini) struct buf target = BUF_INIT(MAX_BODY), body = BUF_INIT(MAX_BODY);

	km_add_target(&target, KUBE_MODEL_LEASE, STR("kube-node-lease"), STR_EMPTY);
	json_begin_object(&body, NULL);
	json_begin_object(&body, "metadata");
	json_add_text(&body, "name", name);
	json_end_object(&body);
	json_begin_object(&body, "spec");
	json_add_text(&body, "holderIdentity", name);
	json_add_number(&body, "leaseDurationSeconds", 40);
	km_add_now(&body, "renewTime", m, true);
	json_end_object(&body);
	json_end_object(&body);
	kube_model_request(m,
	                   &(struct kube_model_request){ .user_agent = "kubelet",
	                                                 .method = "POST",
	                                                 .target = target.ptr,
	                                                 .body = buf_str(&body) },
	                   NULL);
}

void
kube_model_renew_node(struct kube_model *m, struct str name)
{
	char array[64] = "";
	struct buf now = BUF_FIXED(array);
	struct km_object *lease;
	size_t place;

	lease = km_find(&m->of[KUBE_MODEL_LEASE], STR("kube-node-lease"), name, &place);
	if (!lease) {
		km_create_node_lease(m, name);
		return;
	}
	clock_format_rfc3339(&now, m->now_ns, /*micros=*/true);
	km_renew_lease(m, "kubelet", lease, buf_str(&now));
}

int
kube_model_set_ready(struct kube_model *m, struct str name, const char *ready)
{
	CLEANUP(buf_fini) struct buf target = BUF_INIT(MAX_BODY), body = BUF_INIT(MAX_BODY);
	struct kube_model_request request = { .user_agent = "kubelet",
		                              .method = "PATCH",
		                              .is_strategic = true };

	km_add_target(&target, KUBE_MODEL_NODE, STR_EMPTY, name);
	buf_add_c(&target, "/status");
	json_begin_object(&body, NULL);
	json_begin_object(&body, "status");
	json_begin_array(&body, "conditions");
	km_add_ready(&body, m, ready);
	json_end_array(&body);
	json_end_object(&body);
	json_end_object(&body);
	request.target = target.ptr;
	request.body = buf_str(&body);
	return kube_model_request(m, &request, NULL);
}
