/* operator/leader.c: see leader.h. */
#include "operator/leader.h"

#include "base/limits.h"
#include "http/url.h"
#include "operator/local.h"

#define POD_NS (5 * NS_PER_SEC) /* for the answer of one pod */

enum {
	MAX_PODS = 10,       /* that are asked */
	MAX_OBJECTS = 20000, /* whose newest warning is remembered, or who has sent events */
	MAX_SKEW_S = 10,     /* between the clocks of two processes */
	DEFAULT_PORT = 10258,
};

const char *const leader_kinds[] = {
	[DESCRIBED_NODE] = "node", [DESCRIBED_SERVICE] = "service", [DESCRIBED_ROUTE] = "route"
};

/* ---- asking ---- */

static bool
parse_answer(struct view *v, struct str text, struct error *err)
{
	bool is_leading;

	yyjson_doc_free(TAKE(v->leader));
	if (!json_parse(text, &v->leader, err))
		return false;
	if (json_bool(yyjson_doc_get_root(v->leader), "isLeading", &is_leading) != JSON_FOUND)
		return err_set(err, ERR_INVALID, "the server that responded is not ccmd");
	if (!is_leading)
		return err_set(
			err, ERR_UNAVAILABLE,
			"the process that was asked is a standby replica; ccmd status names the leader");
	return true;
}

/* Asks the process on this machine. If no ccmd answers there at all, that is the error, whatever
 * the error of this request was. */
static bool
ask_here(struct view *v, const char *target, struct error *err)
{
	struct error silence;
	struct str text;
	int status;

	if (v->options->serving.secure.port == 0)
		return err_set(
			err, ERR_UNSUPPORTED,
			"--secure-port=0 switches the server off; to ask another process, use --url=https://HOST:PORT");
	if (local_get(v, target, &text, err))
		return parse_answer(v, text, err);
	if (!local_get_open(v, "/livez", &status, &text, &silence) &&
	    silence.code == ERR_UNAVAILABLE)
		return err_set(
			err, ERR_UNAVAILABLE,
			"no ccmd responds on this machine: %s; to ask another process, use --url=https://HOST:PORT",
			silence.msg);
	return false;
}

/* Asks the replicas one after the other until the leader answers. The API server does not verify
 * their server, and sends no credential of the caller, so they permit this only if the path needs
 * no right (operatorRole.podProxy of the chart). */
static bool
ask_pods(struct view *v, const char *target, struct error *err)
{
	int port = v->options->serving.secure.port;
	struct call call = v->call;
	struct str namespace, text;
	yyjson_val *pods, *pod;
	size_t i, n;

	if (!view_list_pods(v, &namespace, &pods, err))
		return false;
	err_set(err, ERR_NOT_FOUND, "the namespace %" STR_FMT " has no pod of ccmd",
	        STR_ARG(namespace));
	yyjson_arr_foreach(pods, i, n, pod)
	{
		struct str name = json_view(pod, "metadata.name");
		struct str path = arena_printf(&v->arena,
		                               "/api/v1/namespaces/%" STR_FMT
		                               "/pods/https:%" STR_FMT ":%d/proxy%s",
		                               STR_ARG(namespace), STR_ARG(name),
		                               port > 0 ? port : DEFAULT_PORT, target);

		call.deadline_mono_ns = clock_deadline(clock_mono(&clock_real), POD_NS);
		if (i < MAX_PODS && kube_get(v->kube, &call, path, &text, err) &&
		    parse_answer(v, text, err))
			return true;
	}
	return false;
}

bool
leader_read(struct view *v, struct error *err)
{
	CLEANUP(buf_fini) struct buf target = BUF_INIT(LIMIT_HTTP_URL);
	const struct described *what = v->ask.what;
	struct error pods;
	struct str text;

	buf_addf(&target, "/debug/objects/%s%s",
	         what ? leader_kinds[what->kind] : DESCRIBED_TROUBLE, what ? "s" : "");
	for (struct str part, rest = what ? what->key : STR_EMPTY;
	     what && str_split(&rest, '/', &part);) {
		buf_add_char(&target, '/');
		url_add_escaped(&target, part);
	}
	if (v->ask.url)
		return local_get_at(v, v->ask.url, v->ask.ca_file, target.ptr, &text, err) &&
		       parse_answer(v, text, err);
	if (ask_here(v, target.ptr, err) || ask_pods(v, target.ptr, &pods))
		return true;
	return err_set(err, err->code, "%s; and through the API server: %s",
	               arena_strz(&v->arena, str_c(err->msg)), pods.msg);
}

yyjson_val *
leader_about(struct view *v, enum described_kind kind, struct str key)
{
	yyjson_val *root, *objects, *one;
	struct error ignored;
	size_t i, n;

	if (!view_need(v, VIEW_LEADER, &ignored))
		return NULL;
	root = yyjson_doc_get_root(v->leader);
	if (v->ask.what)
		return v->ask.what->kind == kind && str_eq(v->ask.what->key, key) ? root : NULL;
	if (kind == DESCRIBED_ROUTE)
		return root;
	objects = json_at(root, kind == DESCRIBED_NODE ? "nodes" : "services");
	yyjson_arr_foreach(objects, i, n, one)
	{
		if (str_eq(json_view(one, "name"), key))
			return one;
	}
	return NULL;
}

/* ---- events ---- */

static int64_t
event_time_s(yyjson_val *event)
{
	static const char *const members[] = { "series.lastObservedTime", "lastTimestamp",
		                               "eventTime", "firstTimestamp" };
	int64_t time_s = 0;

	for (size_t i = 0; i < ARRAY_LEN(members) && time_s == 0; i++)
		time_s = view_time_s(event, members[i]);
	return time_s;
}

struct leader_event
leader_event_of(yyjson_val *event, struct arena *arena)
{
	struct leader_event ret = {
		.time_s = event_time_s(event),
		.type = json_text_at(arena, event, "type"),
		.reason = json_text_at(arena, event, "reason"),
		.source = json_text_at(arena, event, "source.component"),
		.message = json_text_at(arena, event, "message"),
		.count = json_i64_or(event, "series.count", json_i64_or(event, "count", 1)),
	};

	if (ret.source.len == 0)
		ret.source = json_text_at(arena, event, "reportingComponent");
	return ret;
}

/* Keeps the newest warning about each object. */
static void
note_warning(struct view *v, yyjson_val *event, struct str uid)
{
	const struct leader_event *known = map_get(&v->warnings, uid);
	struct leader_event *new;

	if (!str_eq_c(json_view(event, "type"), "Warning") ||
	    (!known && v->warnings.count >= MAX_OBJECTS) ||
	    (known && known->time_s > event_time_s(event)))
		return;
	new = ARENA_NEW(&v->arena, struct leader_event);
	*new = leader_event_of(event, &v->arena);
	map_put(&v->warnings, arena_str(&v->arena, uid), new);
}

/* "worker-1", "default/web" */
static struct str
object_name(struct view *v, yyjson_val *event)
{
	struct str namespace = json_view(event, "involvedObject.namespace");

	return arena_printf(&v->arena, "%" STR_FMT "%s%" STR_FMT, STR_ARG(namespace),
	                    namespace.len > 0 ? "/" : "",
	                    STR_ARG(json_view(event, "involvedObject.name")));
}

/* A process of ccmd that has sent events about one object. */
struct leader_sender {
	struct str identity;
	int64_t first_s, last_s;
	struct leader_sender *next; /* about the same object */
};

/* Keeps the newest proof that two processes act at the same time. all: who has sent events about
 * the object. */
static void
note_conflict(struct view *v, yyjson_val *event, const struct leader_sender *one,
              const struct leader_sender *all)
{
	const char *kind = str_eq_c(json_view(event, "involvedObject.kind"), "Node") ? "node"
	                                                                             : "service";

	for (const struct leader_sender *other = all; other; other = other->next) {
		int64_t last_s = clock_earlier(one->last_s, other->last_s);

		if (one->first_s + MAX_SKEW_S < other->last_s &&
		    other->first_s + MAX_SKEW_S < one->last_s && other != one &&
		    last_s > v->conflict.last_s)
			v->conflict = (struct view_conflict){ kind, object_name(v, event),
				                              one->identity, other->identity,
				                              last_s };
	}
}

/* A process leads at most once, so each replica begins after the one before it has ended. If both
 * of two have acted after the other one had begun, they act at the same time. A replica for another
 * cloud also looks at each node, and sends the event ForeignProviderID. */
static void
note_sender(struct view *v, yyjson_val *event, struct str uid)
{
	struct str identity = json_view(event, "reportingInstance");
	int64_t last_s = event_time_s(event), first_s = view_time_s(event, "firstTimestamp");
	struct leader_sender *all = map_get(&v->senders, uid), *own = all;

	if (identity.len == 0 || str_eq_c(json_view(event, "reason"), "ForeignProviderID") ||
	    (!all && v->senders.count >= MAX_OBJECTS))
		return;
	if (first_s == 0)
		first_s = last_s;
	while (own && !str_eq(own->identity, identity))
		own = own->next;
	if (!own) {
		own = ARENA_NEW(&v->arena, struct leader_sender);
		*own = (struct leader_sender){ arena_str(&v->arena, identity), first_s, last_s,
			                       all };
		map_put(&v->senders, arena_str(&v->arena, uid), own);
		all = own;
	}
	own->first_s = clock_earlier(own->first_s, first_s);
	own->last_s = clock_later(own->last_s, last_s);
	note_conflict(v, event, own, all);
}

/* managedFields name the writer of an event. Warnings count only from ccmd and other cloud
 * controller managers: those of the API server or the kubelet do not say why the leader failed.
 * Senders count only if they are ccmd. */
static bool
note_event(void *view, yyjson_val *event, struct error *err)
{
	struct str uid = json_view(event, "involvedObject.uid"), manager;
	struct view *v = view;
	int64_t ignored;

	(void)err;
	if (uid.len == 0)
		return true;
	manager = view_last_manager(event, "", &v->arena, &ignored);
	if (!view_is_controller(manager))
		return true;
	note_warning(v, event, uid);
	if (str_eq_c(manager, "ccmd"))
		note_sender(v, event, uid);
	return true;
}

bool
leader_read_events(struct view *v, struct error *err)
{
#define EVENTS "/api/v1/events?fieldSelector=involvedObject.kind%3D"
	return view_list(v, EVENTS "Service", note_event, v, err) &&
	       view_list(v, EVENTS "Node", note_event, v, err);
}

/* ---- failures ---- */

struct str
leader_guard(struct view *v, struct str node)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));
	yyjson_val *guard = json_at(leader_about(v, DESCRIBED_NODE, node), "guard");
	struct str held = json_view(guard, "heldBecause");
	int64_t seconds;

	if (!guard)
		return STR("; ccmd deletes the node after further checks");
	if (held.len > 0)
		buf_addf(&text, "; the leader does not delete it yet, because %" STR_FMT,
		         STR_ARG(held));
	if (json_i64(guard, "deletableInSeconds", &seconds) == JSON_FOUND)
		buf_addf(&text, "; the leader deletes it in %lld s at the earliest",
		         (long long)seconds);
	return arena_str(&v->arena, buf_str(&text));
}

struct str
leader_cloud(struct view *v)
{
	CLEANUP(buf_fini) struct buf ago = BUF_INIT(LIMIT_NAME);
	struct error ignored;
	int64_t ago_s;

	if (!view_need(v, VIEW_LEADER, &ignored) ||
	    json_i64(yyjson_doc_get_root(v->leader), "cloudAnsweredSecondsAgo", &ago_s) !=
	            JSON_FOUND)
		return STR_EMPTY;
	clock_format_duration(&ago, ago_s * NS_PER_SEC);
	return arena_printf(&v->arena, "; the cloud last accepted a request of the leader %s ago",
	                    ago.ptr);
}

struct str
leader_held_routes(struct view *v)
{
	yyjson_val *run = json_at(leader_about(v, DESCRIBED_ROUTE, STR_EMPTY), "lastRun");
	int64_t n_held = json_i64_or(run, "heldRemovals", 0), seconds;

	if (n_held == 0)
		return STR_EMPTY;
	if (json_i64(run, "heldForSeconds", &seconds) == JSON_FOUND)
		return arena_printf(&v->arena, "; the leader postpones %lld removals for %lld s",
		                    (long long)n_held, (long long)seconds);
	return arena_printf(
		&v->arena,
		"; the leader postpones %lld removals, until it sees nodes in the cluster",
		(long long)n_held);
}

struct str
leader_last_failure(struct view *v, enum described_kind kind, struct str key)
{
	static const struct {
		const char *error, *ago, *n, *next;
	} members[] = {
		[DESCRIBED_NODE] = { "error", "failedSecondsAgo", "queue.failures",
		                     "nextInSeconds" },
		[DESCRIBED_SERVICE] = { "memory.error", "memory.failedSecondsAgo", "queue.failures",
		                        "queue.dueInSeconds" },
		[DESCRIBED_ROUTE] = { "lastRun.error", "lastRun.endedSecondsAgo",
		                      "lastRun.failures", "lastRun.nextInSeconds" },
	};
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));
	yyjson_val *about = leader_about(v, kind, key), *from = about;
	int64_t n_attempts = json_i64_or(about, members[kind].n, 0), next_s;
	struct str error;

	if (kind == DESCRIBED_NODE)
		from = yyjson_arr_get_first(json_at(about, "errors"));
	error = json_view(from, members[kind].error);
	if (error.len == 0)
		return STR_EMPTY;
	if (n_attempts > 1)
		buf_addf(&text, "%lld attempts failed, the last one", (long long)n_attempts);
	else
		buf_add_c(&text, "the last attempt failed");
	buf_addf(&text, " %lld s ago: %" STR_FMT,
	         (long long)json_i64_or(from, members[kind].ago, 0), STR_ARG(error));

	next_s = json_i64_or(from, members[kind].next, -1);
	if (next_s < 0 && kind == DESCRIBED_NODE)
		next_s = json_i64_or(about, "queue.dueInSeconds",
		                     json_i64_or(about, "guard.nextLookInSeconds", -1));
	if (next_s >= 0)
		buf_addf(&text, "; the next one is in %lld s", (long long)next_s);
	return arena_str(&v->arena, buf_str(&text));
}

struct str
leader_failure(struct view *v, struct report *r, enum described_kind kind, struct str key,
               struct str uid)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));
	const struct leader_event *event;
	int64_t now_s = view_now_s(v);
	struct str failure;
	struct error err;

	if (view_need(v, VIEW_LEADER, &err)) {
		failure = leader_last_failure(v, kind, key);
		return failure.len == 0 ? failure
		                        : arena_printf(&v->arena, "; %" STR_FMT, STR_ARG(failure));
	}

	/* the newest warning stands in for its answer */
	if (!view_need(v, VIEW_EVENTS, &err)) {
		if (err.code != ERR_FORBIDDEN)
			report_unknown_about(r, leader_kinds[kind], key, &err);
		return STR_EMPTY;
	}
	event = map_get(&v->warnings, uid);
	if (!event)
		return STR_EMPTY;
	buf_addf(&text, "; the event %" STR_FMT " says", STR_ARG(event->reason));
	if (event->time_s > 0 && event->time_s <= now_s) {
		buf_add_c(&text, ", ");
		clock_format_duration(&text, (now_s - event->time_s) * NS_PER_SEC);
		buf_add_c(&text, " ago");
	}
	buf_addf(&text, ": %" STR_FMT, STR_ARG(event->message));
	return arena_str(&v->arena, buf_str(&text));
}

void
leader_report_fix(struct view *v, struct report *r, bool is_failing, const char *otherwise)
{
	struct error err;

	if (is_failing)
		report_fix(r, "correct what the message names; ccmd tries again by itself");
	else if (otherwise)
		report_fix(r, "%s", otherwise);
	else if (view_need(v, VIEW_LEADER, &err))
		report_fix(r, "wait: no attempt of the leader has failed");
	else
		report_fix(
			r,
			"run the command in the pod of the leader, which ccmd status names, or read its log; from here it could not be asked: %s",
			err.msg);
}
