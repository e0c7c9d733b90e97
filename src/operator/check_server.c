/* operator/check_server.c: the API server, and the rights of ccmd there. */
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "operator/doctor.h"

#define SLOW_NS NS_PER_SEC /* a response within the cluster takes milliseconds */

enum {
	MORE_TRIES = 2,
	DAY_S = 86400,
	SOON_S = 14 * DAY_S,
	LONG_LIVED_S = 30 * DAY_S,
	OLDEST_MINOR = 28,
	MAX_SKEW_S = 10, /* a slow answer takes less; a token is valid for much longer */
};

/* ---- the credentials ---- */

struct validity {
	const char *what; /* NULL: nothing is known */
	int64_t begin_wall_ns, end_wall_ns;
};

/* The times of a token that is a JSON Web Token (RFC 7519): its second part, in the alphabet of
 * URLs and without padding. */
static bool
read_token_times(struct str token, struct validity *ret)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_CREDENTIAL);
	CLEANUP(buf_fini) struct buf json = BUF_INIT(LIMIT_CREDENTIAL);
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct str head, payload, rest;
	struct error ignored;
	int64_t begin_s, end_s;

	if (!str_cut(token, '.', &head, &rest) || !str_cut(rest, '.', &payload, &rest))
		return false;
	for (size_t i = 0; i < payload.len; i++)
		buf_add_char(&text, payload.ptr[i] == '-'   ? '+'
		                    : payload.ptr[i] == '_' ? '/'
		                                            : payload.ptr[i]);
	while (text.len % 4 != 0)
		buf_add_char(&text, '=');
	if (!base64_decode(buf_str(&text), &json) || !json_parse(buf_str(&json), &doc, &ignored) ||
	    json_i64(yyjson_doc_get_root(doc), "exp", &end_s) != JSON_FOUND ||
	    json_i64(yyjson_doc_get_root(doc), "iat", &begin_s) != JSON_FOUND)
		return false;
	*ret = (struct validity){ "the token", begin_s * NS_PER_SEC, end_s * NS_PER_SEC };
	return true;
}

/* Of the client certificate, or of the token. A plugin renews what it returns, and the kubelet
 * renews the file of a pod's token. */
static struct validity
read_validity(const struct options *o)
{
	CLEANUP(kube_config_freep) struct kube_config *kube = NULL;
	struct kube_config_source source = { .kubeconfig = o->kubeconfig,
		                             .is_list = o->kubeconfig_is_list,
		                             .master = o->master };
	struct validity v = { .what = NULL };
	struct error ignored;

	if (!kube_config_load(&source, &kube, /*problems=*/NULL, &ignored))
		return v;
	if (kube->cert_pem.len > 0 &&
	    http_certificate_validity(kube->cert_pem, &v.begin_wall_ns, &v.end_wall_ns))
		v.what = "the client certificate";
	else if (secret_is_set(&kube->token))
		(void)read_token_times(secret_expose(&kube->token), &v);
	return v;
}

/* Says so if the server refuses credentials that have expired. */
static void
add_expiry(struct view *v, struct error *err)
{
	CLEANUP(buf_fini) struct buf time = BUF_INIT(LIMIT_NAME);
	struct validity validity = read_validity(v->options);

	if (!validity.what || validity.end_wall_ns > clock_wall(&clock_real))
		return;
	clock_format_rfc3339(&time, validity.end_wall_ns, /*micros=*/false);
	(void)!err_wrap(err, "%s expired at %s", validity.what, time.ptr);
}

/* Short-lived credentials are renewed by whatever issues them. */
void
check_expiry(struct doctor *d, struct report *r)
{
	CLEANUP(buf_fini) struct buf time = BUF_INIT(LIMIT_NAME);
	struct validity v = read_validity(d->view->options);
	int64_t left_s = v.end_wall_ns / NS_PER_SEC - view_now_s(d->view);

	if (!v.what) {
		report_skip(r, "the credentials do not say when they expire");
		return;
	}
	if ((v.end_wall_ns - v.begin_wall_ns) / NS_PER_SEC < LONG_LIVED_S || left_s > SOON_S)
		return;
	clock_format_rfc3339(&time, v.end_wall_ns, /*micros=*/false);
	report_find(r, "", STR_EMPTY, "%s expires at %s, in %lld days", v.what, time.ptr,
	            (long long)(left_s / DAY_S));
	report_fix(r,
	           "renew it: kubeadm certs renew all, or as the cluster's distribution does it");
}

/* ---- the server ---- */

/* A single slow response may be due to this machine, so a slow server is asked again. */
void
check_latency(struct doctor *d, struct report *r)
{
	struct view *v = d->view;
	int64_t best_ns = v->server.took_ns;

	for (int i = 0; i < MORE_TRIES && best_ns >= SLOW_NS; i++) {
		int64_t begun_ns = clock_mono(&clock_real), took_ns;
		struct error err;
		struct str ignored;

		if (!kube_get(v->kube, &v->call, STR("/version"), &ignored, &err)) {
			report_unknown(r, &err);
			return;
		}
		took_ns = clock_mono(&clock_real) - begun_ns;
		best_ns = took_ns < best_ns ? took_ns : best_ns;
	}
	if (best_ns < SLOW_NS)
		return;
	report_find(r, "", STR_EMPTY, "the fastest of three responses took %.1f s",
	            clock_seconds(best_ns));
	report_fix(
		r,
		"look at the load of the API server and of etcd, and at the network between ccmd and them; a leader that cannot renew its Lease within --leader-elect-renew-deadline exits");
}

void
check_server(struct doctor *d, struct report *r)
{
	struct error err;

	if (view_need(d->view, VIEW_SERVER, &err))
		return;
	if (err.code == ERR_UNAUTHORIZED)
		add_expiry(d->view, &err);
	report_find(r, "", STR_EMPTY, "%s", err.msg);
	if (err.code == ERR_UNAUTHORIZED)
		report_fix(r,
		           "replace the credentials in the kubeconfig or the pod's ServiceAccount");
	else if (err.code == ERR_FORBIDDEN && err.http_status == 0)
		report_fix(r, "let the user of the controller read the file");
	else
		report_fix(
			r,
			"check --kubeconfig and --master, and that this machine reaches the API server");
}

void
check_version(struct doctor *d, struct report *r)
{
	static const struct error unnamed = {
		.code = ERR_INVALID, .msg = "GET /version: the response names no version"
	};
	const struct view_server *server = &d->view->server;

	if (server->version.len == 0) {
		report_unknown(r, &unnamed);
	} else if (server->minor > 0 && server->minor < OLDEST_MINOR) {
		report_find(r, "", STR_EMPTY, "the API server is Kubernetes %" STR_FMT,
		            STR_ARG(server->version));
		report_fix(r, "upgrade the cluster to Kubernetes 1.%d or newer", OLDEST_MINOR);
	}
}

void
check_clock(struct doctor *d, struct report *r)
{
	int64_t skew_s = d->view->server.skew_s;

	if (skew_s >= -MAX_SKEW_S && skew_s <= MAX_SKEW_S)
		return;
	report_find(r, "", STR_EMPTY, "the API server's clock is %lld s %s this machine's",
	            llabs(skew_s), skew_s > 0 ? "ahead of" : "behind");
	report_fix(r, "on both machines: timedatectl; then start a time service such as chrony");
}

/* ---- rights ---- */

/* When a right is needed. */
enum need {
	NEED_ALWAYS,
	NEED_CONTROLLERS, /* unless each controller has its own account */
	NEED_ELECTION,
	NEED_ACCOUNTS, /* if each controller has its own account */
	NEED_SERVER,   /* if the HTTPS server has its callers reviewed with the same credentials */
};

struct right {
	enum need need;
	const char *verb, *group, *resource, *subresource, *namespace, *name;
	const char *without; /* ccmd can do without it: what is missing then; NULL: it cannot */
};

#define SYSTEM "kube-system"
#define COORDINATION "coordination.k8s.io"
#define NO_CALLERS "the HTTPS server refuses callers of /metrics and /debug/, but not of /healthz"
#define DEFAULT_ACCOUNT "ccmd" /* of deploy/rbac.yaml, in kube-system */
#define DEFAULT_LEASE "cloud-controller-manager"

/* The rules of deploy/rbac.yaml; see right_of(). */
static const struct right rights[] = {
	{ NEED_ALWAYS, "list", "", "nodes", "", "", "", NULL },
	{ NEED_ALWAYS, "watch", "", "nodes", "", "", "", NULL },
	{ NEED_ALWAYS, "list", "", "services", "", "", "", NULL },
	{ NEED_ALWAYS, "watch", "", "services", "", "", "", NULL },
	{ NEED_CONTROLLERS, "get", "", "nodes", "", "", "", NULL },
	{ NEED_CONTROLLERS, "patch", "", "nodes", "", "", "", NULL },
	{ NEED_CONTROLLERS, "delete", "", "nodes", "", "", "", NULL },
	{ NEED_CONTROLLERS, "patch", "", "nodes", "status", "", "", NULL },
	{ NEED_CONTROLLERS, "patch", "", "services", "status", "", "", NULL },
	{ NEED_ALWAYS, "create", "", "events", "", "", "", NULL },
	{ NEED_ALWAYS, "patch", "", "events", "", "", "", NULL },
	{ NEED_ACCOUNTS, "create", "", "serviceaccounts", "", SYSTEM, "", NULL },
	{ NEED_ACCOUNTS, "get", "", "serviceaccounts", "", SYSTEM, "node-controller", NULL },
	{ NEED_ACCOUNTS, "get", "", "serviceaccounts", "", SYSTEM, "service-controller", NULL },
	{ NEED_ACCOUNTS, "get", "", "serviceaccounts", "", SYSTEM, "route-controller", NULL },
	{ NEED_ACCOUNTS, "create", "", "serviceaccounts", "token", SYSTEM, "node-controller",
	  NULL },
	{ NEED_ACCOUNTS, "create", "", "serviceaccounts", "token", SYSTEM, "service-controller",
	  NULL },
	{ NEED_ACCOUNTS, "create", "", "serviceaccounts", "token", SYSTEM, "route-controller",
	  NULL },
	{ NEED_ELECTION, "create", COORDINATION, "leases", "", "", "", NULL },
	{ NEED_ELECTION, "get", COORDINATION, "leases", "", "", "lease", NULL },
	{ NEED_ELECTION, "update", COORDINATION, "leases", "", "", "lease", NULL },
	{ NEED_CONTROLLERS, "get", COORDINATION, "leases", "", "kube-node-lease", "",
	  "only the status of a node shows whether its kubelet is silent" },
	{ NEED_SERVER, "create", "authentication.k8s.io", "tokenreviews", "", "", "", NO_CALLERS },
	{ NEED_SERVER, "create", "authorization.k8s.io", "subjectaccessreviews", "", "", "",
	  NO_CALLERS },
	{ NEED_SERVER, "get", "", "configmaps", "", SYSTEM, "extension-apiserver-authentication",
	  "the HTTPS server refuses client certificates and front proxies" },
};

/* All rights together: only an administrator has them. */
static const struct right everything = { NEED_ALWAYS, "*", "*", "*", "", "", "", NULL };

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

/* The right of a row of the table, with the namespace and the name of the Lease filled in. */
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

/* The ServiceAccount that an access review is about. */
struct subject {
	struct str namespace, name;
};

/* The user and the groups are those of a ServiceAccount (k8s.io/apiserver,
 * pkg/authentication/serviceaccount, MakeUsername and MakeGroupNames). */
static void
add_review(struct buf *b, const struct right *right, const struct subject *subject,
           struct arena *arena)
{
	json_begin_object(b, NULL);
	json_add_members(b, JSON_TEXT("apiVersion", STR("authorization.k8s.io/v1")),
	                 JSON_TEXT("kind", subject ? STR("SubjectAccessReview")
	                                           : STR("SelfSubjectAccessReview")));
	json_begin_object(b, "spec");
	if (subject) {
		struct str groups[] = {
			STR("system:serviceaccounts"),
			arena_printf(arena, "system:serviceaccounts:%" STR_FMT,
			             STR_ARG(subject->namespace)),
			STR("system:authenticated"),
		};

		json_add_text(b, "user",
		              arena_printf(arena, "system:serviceaccount:%" STR_FMT ":%" STR_FMT,
		                           STR_ARG(subject->namespace), STR_ARG(subject->name)));
		json_add_texts(b, "groups", groups, ARRAY_LEN(groups));
	}
	json_add_object(b, "resourceAttributes", JSON_TEXT("verb", str_c(right->verb)),
	                JSON_TEXT("group", str_c(right->group)),
	                JSON_TEXT("resource", str_c(right->resource)),
	                JSON_TEXT("subresource", str_c(right->subresource)),
	                JSON_TEXT("namespace", str_c(right->namespace)),
	                JSON_TEXT("name", str_c(right->name)));
	json_end_object(b);
	json_end_object(b);
}

/* Asks the API server whether the subject, or these credentials (NULL), have a right. */
static bool
ask(struct kube_client *kube, struct call *call, const struct right *right,
    const struct subject *subject, bool *ret_is_allowed, struct error *err)
{
	CLEANUP(buf_fini) struct buf review = BUF_INIT(KIB(4));
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct str answer;

	add_review(&review, right, subject, call->arena);
	if (!kube_post(kube, call, subject ? STR(VIEW_ACCESS_REVIEWS) : STR(VIEW_OWN_REVIEWS),
	               HTTP_WORK, buf_str(&review), &answer, err))
		return false;
	if (!json_parse(answer, &doc, err))
		return err_wrap(err, "the response to an access review");
	if (json_bool(yyjson_doc_get_root(doc), "status.allowed", ret_is_allowed) != JSON_FOUND)
		return err_set(err, ERR_INVALID,
		               "the response to an access review has no status.allowed");
	return true;
}

/* ---- whose rights ---- */

/* Finds the account to ask about: that of --as-service-account, or else these credentials, or, if
 * they are an administrator's, the ServiceAccount of deploy/rbac.yaml. An administrator has every
 * right, so a review of these credentials would show nothing about the controller. If the
 * ServiceAccount exists, another controller may have created it under the same name, with similar
 * rights.
 *
 * False: the check is skipped or could not run. True with *ret, whose name is empty for these
 * credentials. */
static bool
find_subject(struct doctor *d, struct report *r, struct subject *ret)
{
	struct view *v = d->view;
	bool is_allowed;
	struct error err;
	struct str body;

	*ret = (struct subject){ STR_EMPTY, STR_EMPTY };
	if (d->service_account)
		return str_cut(str_c(d->service_account), '/', &ret->namespace, &ret->name);
	if (!ask(v->kube, &v->call, &everything, NULL, &is_allowed, &err)) {
		report_unknown(r, &err);
		return false;
	}
	if (!is_allowed)
		return true;
	if (kube_get(v->kube, &v->call,
	             STR("/api/v1/namespaces/" SYSTEM "/serviceaccounts/" DEFAULT_ACCOUNT), &body,
	             &err)) {
		*ret = (struct subject){ STR(SYSTEM), STR(DEFAULT_ACCOUNT) };
		return true;
	}
	if (err.code == ERR_NOT_FOUND)
		report_skip(
			r,
			"these credentials have every right, so they are not the controller's; give its account by --as-service-account=NAMESPACE/NAME");
	else
		report_unknown(r, &err);
	return false;
}

/* Does deploy/rbac.yaml, as it is, grant the right to the subject? Its Role names the default
 * Lease, and the Role for accounts of the controllers is in comments. subject: NULL for these
 * credentials, whose account is not known. */
static bool
is_published(const struct right *right, const struct subject *subject)
{
	if (!subject || !str_eq_c(subject->namespace, SYSTEM) ||
	    !str_eq_c(subject->name, DEFAULT_ACCOUNT) || right->need == NEED_ACCOUNTS)
		return false;
	return right->need != NEED_ELECTION ||
	       (strcmp(right->namespace, SYSTEM) == 0 &&
	        (!right->name[0] || strcmp(right->name, DEFAULT_LEASE) == 0));
}

static void
report_missing_right(struct report *r, const struct right *right, const struct subject *subject)
{
	struct str kind = str_c(right->resource);
	CLEANUP(buf_fini) struct buf what = BUF_INIT(KIB(4));

	if (subject)
		buf_addf(&what, "the ServiceAccount %" STR_FMT "/%" STR_FMT " ",
		         STR_ARG(subject->namespace), STR_ARG(subject->name));
	buf_addf(&what, "may not %s %s%s%s%s%s%s%s", right->verb, right->resource,
	         right->subresource[0] ? "/" : "", right->subresource, right->name[0] ? " " : "",
	         right->name, right->namespace[0] ? " in the namespace " : "", right->namespace);
	if (right->without)
		report_note(r, "right", kind, "%s; without it, %s", what.ptr, right->without);
	else
		report_find(r, "right", kind, "%s", what.ptr);
	if (is_published(right, subject))
		report_command(r, "kubectl apply -f deploy/rbac.yaml");
	else
		report_fix(
			r,
			"give the controller's account this right; deploy/rbac.yaml has it for the "
			"ServiceAccount " SYSTEM "/" DEFAULT_ACCOUNT);
}

/* The rights that are needed, and the answers. */
struct reviews {
	struct kube_client *kube;
	const struct subject *subject;
	struct right rights[ARRAY_LEN(rights)];
	bool is_allowed[ARRAY_LEN(rights)];
	struct error errors[ARRAY_LEN(rights)]; /* ERR_NONE: it was answered */
	size_t n;
};

static void
review_one(void *arg, struct call *call, size_t i)
{
	struct reviews *all = arg;

	if (ask(all->kube, call, &all->rights[i], all->subject, &all->is_allowed[i],
	        &all->errors[i]))
		all->errors[i].code = ERR_NONE;
}

void
check_rights(struct doctor *d, struct report *r)
{
	struct reviews *all = ARENA_NEW(&d->view->arena, struct reviews);
	const struct options *o = d->view->options;
	struct subject account;

	if (!find_subject(d, r, &account))
		return;
	all->kube = d->view->kube;
	all->subject = account.name.len > 0 ? &account : NULL;
	for (size_t i = 0; i < ARRAY_LEN(rights); i++) {
		if (is_needed(o, rights[i].need))
			all->rights[all->n++] = right_of(o, &rights[i]);
	}
	parallel_run("reviews", &d->view->call, 0, all->n, review_one, all);
	for (size_t i = 0; i < all->n; i++) {
		if (all->errors[i].code != ERR_NONE) {
			if (all->subject && all->errors[i].code == ERR_FORBIDDEN)
				report_skip(
					r, "these credentials may not create subjectaccessreviews");
			else
				report_unknown(r, &all->errors[i]);
			return;
		}
		if (!all->is_allowed[i])
			report_missing_right(r, &all->rights[i], all->subject);
	}
}
