/* operator/check_server.c: the API server, and the rights there. */
#include "base/json.h"
#include "base/limits.h"
#include "operator/doctor.h"

enum {
	OLDEST_MINOR = 28,
	MAX_SKEW_S = 10, /* far less than the life of a token; more than a slow answer takes */
};

/* ---- the server ---- */

void
check_server(struct doctor *d, struct report *r)
{
	const struct view_server *server;
	struct error err;

	if (view_server(d->view, &server, &err))
		return;
	report_fix(
		r, report_find(r, "", STR_EMPTY, "%s", err.msg),
		err.code == ERR_UNAUTHORIZED
			? "replace the credentials in the kubeconfig or the pod's ServiceAccount"
			: "check --kubeconfig and --master, and that this machine reaches the API server");
}

void
check_version(struct doctor *d, struct report *r)
{
	const struct view_server *server;
	struct error err;

	if (!view_server(d->view, &server, &err))
		report_unknown(r, &err);
	else if (server->minor > 0 && server->minor < OLDEST_MINOR)
		report_fix(r,
		           report_find(r, "", STR_EMPTY, "the API server is Kubernetes %" STR_FMT,
		                       STR_ARG(server->version)),
		           "upgrade the cluster to Kubernetes 1.%d or newer", OLDEST_MINOR);
}

void
check_clock(struct doctor *d, struct report *r)
{
	const struct view_server *server;
	struct error err;

	if (!view_server(d->view, &server, &err))
		report_unknown(r, &err);
	else if (server->skew_s > MAX_SKEW_S || server->skew_s < -MAX_SKEW_S)
		report_fix(
			r,
			report_find(r, "", STR_EMPTY,
		                    "the API server's clock is %lld s %s this machine's",
		                    llabs(server->skew_s),
		                    server->skew_s > 0 ? "ahead of" : "behind"),
			"on both machines: timedatectl; then start a time service such as chrony");
}

/* ---- rights ---- */

/* When a right is needed. */
enum need {
	NEED_ALWAYS,
	NEED_CONTROLLERS, /* unless each controller has its own account */
	NEED_ELECTION,
	NEED_ACCOUNTS, /* if each controller has its own account */
	NEED_SERVER,   /* the HTTPS server asks about its callers with the same credentials */
};

struct right {
	enum need need;
	const char *verb, *group, *resource, *subresource, *namespace, *name;
};

#define SYSTEM "kube-system"
#define COORDINATION "coordination.k8s.io"

/* The rules of deploy/rbac.yaml. right_of() fills in the namespace of the rights with
 * NEED_ELECTION, and replaces the name "lease". */
static const struct right rights[] = {
	{ NEED_ALWAYS, "list", "", "nodes", "", "", "" },
	{ NEED_ALWAYS, "watch", "", "nodes", "", "", "" },
	{ NEED_ALWAYS, "list", "", "services", "", "", "" },
	{ NEED_ALWAYS, "watch", "", "services", "", "", "" },
	{ NEED_CONTROLLERS, "get", "", "nodes", "", "", "" },
	{ NEED_CONTROLLERS, "patch", "", "nodes", "", "", "" },
	{ NEED_CONTROLLERS, "delete", "", "nodes", "", "", "" },
	{ NEED_CONTROLLERS, "patch", "", "nodes", "status", "", "" },
	{ NEED_CONTROLLERS, "patch", "", "services", "status", "", "" },
	{ NEED_ALWAYS, "create", "", "events", "", "", "" },
	{ NEED_ALWAYS, "patch", "", "events", "", "", "" },
	{ NEED_ACCOUNTS, "get", "", "serviceaccounts", "", SYSTEM, "" },
	{ NEED_ACCOUNTS, "create", "", "serviceaccounts", "", SYSTEM, "" },
	{ NEED_ACCOUNTS, "create", "", "serviceaccounts", "token", SYSTEM, "" },
	{ NEED_ELECTION, "create", COORDINATION, "leases", "", "", "" },
	{ NEED_ELECTION, "get", COORDINATION, "leases", "", "", "lease" },
	{ NEED_ELECTION, "update", COORDINATION, "leases", "", "", "lease" },
	{ NEED_CONTROLLERS, "get", COORDINATION, "leases", "", "kube-node-lease", "" },
	{ NEED_SERVER, "create", "authentication.k8s.io", "tokenreviews", "", "", "" },
	{ NEED_SERVER, "create", "authorization.k8s.io", "subjectaccessreviews", "", "", "" },
	{ NEED_SERVER, "get", "", "configmaps", "", SYSTEM, "extension-apiserver-authentication" },
};

/* All rights at once: only an administrator has them. */
static const struct right everything = { NEED_ALWAYS, "*", "*", "*", "", "", "" };

static bool
is_needed(const struct options *o, enum need need)
{
	switch (need) {
	case NEED_CONTROLLERS:
		return !o->use_service_account_credentials;
	case NEED_ELECTION:
		return o->election.is_enabled;
	case NEED_ACCOUNTS:
		return o->use_service_account_credentials;
	case NEED_SERVER:
		return o->serving.secure.port != 0 && !o->access.authentication_kubeconfig[0] &&
		       !o->access.authorization_kubeconfig[0];
	case NEED_ALWAYS:
		break;
	}
	return true;
}

/* The right with the namespace and the name of the Lease filled in. */
static struct right
right_of(const struct options *o, const struct right *row)
{
	struct right right = *row;

	if (row->need == NEED_ELECTION)
		right.namespace = o->election.resource_namespace;
	if (str_eq_c(str_c(row->name), "lease"))
		right.name = o->election.resource_name;
	return right;
}

static void
add_review(struct buf *b, const struct right *right)
{
	json_begin_object(b, NULL);
	json_add_text(b, "apiVersion", STR("authorization.k8s.io/v1"));
	json_add_text(b, "kind", STR("SelfSubjectAccessReview"));
	json_begin_object(b, "spec");
	json_begin_object(b, "resourceAttributes");
	json_add_text(b, "verb", str_c(right->verb));
	json_add_text(b, "group", str_c(right->group));
	json_add_text(b, "resource", str_c(right->resource));
	json_add_text(b, "subresource", str_c(right->subresource));
	json_add_text(b, "namespace", str_c(right->namespace));
	json_add_text(b, "name", str_c(right->name));
	json_end_object(b);
	json_end_object(b);
	json_end_object(b);
}

/* Asks the API server whether these credentials have a right. */
static bool
ask(struct doctor *d, const struct right *right, bool *ret_is_allowed, struct error *err)
{
	CLEANUP(buf_fini) struct buf review = BUF_INIT(KIB(4));
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct kube_client *kube;
	struct str answer;

	add_review(&review, right);
	if (!view_client(d->view, &kube, err) ||
	    !kube_post(kube, view_call(d->view), STR(VIEW_ACCESS_REVIEWS), HTTP_WORK,
	               buf_str(&review), &answer, err) ||
	    !json_parse(answer, &doc, err))
		return false;
	if (json_bool(yyjson_doc_get_root(doc), "status.allowed", ret_is_allowed) != JSON_FOUND)
		return err_set(err, ERR_INVALID, "the answer to an access review says nothing");
	return true;
}

static void
find_missing(struct report *r, const struct right *right)
{
	struct finding *finding = report_find(r, "right", str_c(right->resource),
	                                      "may not %s %s%s%s%s%s%s%s", right->verb,
	                                      right->resource, right->subresource[0] ? "/" : "",
	                                      right->subresource, right->name[0] ? " " : "",
	                                      right->name,
	                                      right->namespace[0] ? " in the namespace " : "",
	                                      right->namespace);

	report_fix(r, finding, "kubectl apply -f deploy/rbac.yaml");
}

/* An administrator has every right, which says nothing about the controller's account. */
void
check_rights(struct doctor *d, struct report *r)
{
	const struct options *o = view_options(d->view);
	bool is_allowed;
	struct error err;

	if (!ask(d, &everything, &is_allowed, &err)) {
		report_unknown(r, &err);
		return;
	}
	if (is_allowed) {
		report_skip(r,
		            "these credentials have every right, so they are not the controller's");
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(rights); i++) {
		struct right right = right_of(o, &rights[i]);

		if (!is_needed(o, right.need))
			continue;
		if (!ask(d, &right, &is_allowed, &err)) {
			report_unknown(r, &err);
			return;
		}
		if (!is_allowed)
			find_missing(r, &right);
	}
}
