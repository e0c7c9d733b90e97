/* operator/status.c: see status.h. */
#include "operator/status.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/limits.h"
#include "operator/local.h"
#include "operator/progress.h"

#define WHOLE_MAX 1e15 /* less than 2^53, so it is exact as a double */

enum {
	MAX_NAMES = 10, /* of nodes in one line */
	LABEL_WIDTH = 12,
};

#define API_REQUESTS "rest_client_requests_total"
#define BUDGET "hcloud_api_rate_limit_remaining"
#define DELETIONS "ccmd_node_deletion_decisions_total"
#define HELD "ccmd_nodes_held"
#define LAST_DELETION "ccmd_node_last_deletion_timestamp_seconds"
#define MEMORY "process_resident_memory_bytes"
#define OBJECTS "ccmd_reflector_objects"
#define OLDEST "ccmd_workqueue_oldest_due_seconds"
#define RECENT "ccmd_recent_requests"
#define START "process_start_time_seconds"
#define SYNCED "ccmd_reflector_synced"
#define SYNCED_SINCE "ccmd_reflector_synced_since_timestamp_seconds"

/* ---- samples ---- */

static double
sum(const struct status *s, const char *name)
{
	return samples_sum(s->metrics, name, NULL, NULL);
}

static bool
find(const struct status *s, const char *name, double *ret)
{
	return samples_find(s->metrics, name, NULL, STR_EMPTY, ret);
}

/* Requests that failed: without an answer, or with a status of 400 and more. */
static double
sum_failed(const struct status *s, const char *name)
{
	static const char *const codes[] = { "4", "5", "<", "0" };
	double total = 0;

	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		total += samples_sum(s->metrics, name, "code", codes[i]);
	return total;
}

/* Over the families that count requests to a cloud, for the clouds that have one. */
static double
sum_cloud(const struct status *s, double (*count)(const struct status *, const char *))
{
	return count(s, "hcloud_api_requests_total") + count(s, "hrobot_api_requests_total");
}

/* The requests to one server in the last five minutes; false if the process does not count them. */
static bool
find_recent(const struct status *s, const char *server, double *ret_all, double *ret_failed)
{
	struct str rest = s->metrics;
	struct sample sample;
	bool is_found = false;

	*ret_all = *ret_failed = 0;
	while (samples_next(&rest, RECENT, &sample)) {
		if (!str_eq_c(sample_label(&sample, "server"), server))
			continue;
		is_found = true;
		*ret_all += sample.value;
		if (str_eq_c(sample_label(&sample, "result"), "failed"))
			*ret_failed += sample.value;
	}
	return is_found;
}

/* ---- reading ---- */

static void
read_replicas(struct view *v, struct status *s)
{
	const char *name = getenv("POD_NAME");
	yyjson_val *items, *pod, *conditions, *condition;
	size_t i, j, n, n_conditions;
	struct error ignored;

	s->is_in_pod = name != NULL;
	s->pod_name = str_c(name ? name : "");
	s->has_pods = view_list_pods(v, &s->pod_namespace, &items, &ignored);
	if (!s->has_pods)
		return;
	yyjson_arr_foreach(items, i, n, pod)
	{
		s->n_pods++;
		conditions = json_at(pod, "status.conditions"); /* one of each type */
		yyjson_arr_foreach(conditions, j, n_conditions, condition)
			s->n_ready_pods += str_eq_c(json_view(condition, "type"), "Ready") &&
		                           str_eq_c(json_view(condition, "status"), "True");
	}
}

static void
read_health(struct view *v, struct status *s)
{
	struct str ignored;
	int status;

	s->has_server = v->options->serving.secure.port != 0;
	if (s->has_server)
		s->is_reached = local_get_open(v, "/healthz?verbose", &status, &s->checks,
		                               &s->server_err);
	if (s->is_reached) {
		s->is_healthy = status == 200;
		s->is_ready = local_get_open(v, "/readyz", &status, &ignored, &s->server_err) &&
		              status == 200;
	}
}

/* If the process has not answered, a second attempt on the same port is not made. */
static void
read_metrics(struct view *v, struct status *s)
{
	struct str ignored;

	if (s->has_server && !s->is_reached && !local_find_plain_listener(v, &ignored))
		s->metrics_err = s->server_err;
	else
		s->has_metrics = local_get_metrics(v, &s->metrics, &s->metrics_err);
}

/* Metrics have no names of objects. Held nodes are not Ready, and the controller's account may list
 * nodes. */
static void
read_not_ready(struct view *v, struct status *s)
{
	CLEANUP(buf_fini) struct buf names = BUF_INIT(KIB(4));
	struct error ignored;
	size_t n = 0;

	if (!view_need(v, VIEW_NODES, &ignored))
		return;
	for (size_t i = 0; i < v->nodes.n; i++) {
		if (v->nodes.items[i]->ready != NODE_READY_TRUE && n++ < MAX_NAMES)
			buf_addf(&names, "%s%" STR_FMT, n > 1 ? ", " : "",
			         STR_ARG(node_name(v->nodes.items[i])));
	}
	if (n > MAX_NAMES)
		buf_addf(&names, " and %zu more", n - MAX_NAMES);
	s->not_ready = arena_str(&v->arena, buf_str(&names));
}

void
status_read(struct view *v, struct status *ret)
{
	*ret = (struct status){ .has_election = v->options->election.is_enabled,
		                .lease_name = v->lease.name,
		                .metrics = STR_EMPTY,
		                .not_ready = STR_EMPTY };
	if (ret->has_election && view_need(v, VIEW_LEASE, &ret->lease_err))
		ret->lease = &v->lease;
	ret->now_s = view_now_s(v);
	read_replicas(v, ret);
	(void)progress_set("reading the health and the metrics of the process");
	read_health(v, ret);
	read_metrics(v, ret);
	if (sum(ret, HELD) > 0)
		read_not_ready(v, ret);
	(void)progress_set(NULL);
	ret->totals = (struct status_totals){ .start = sum(ret, START),
		                              .api_server = sum(ret, API_REQUESTS),
		                              .cloud = sum_cloud(ret, sum) };
}

/* ---- the outcome ---- */

static bool
has_leader(const struct status *s)
{
	return s->lease && s->lease->has_holder && s->lease->late_s <= 0;
}

int
status_exit_code(const struct status *s)
{
	if ((s->has_election && !s->lease) || (s->has_server && !s->is_reached))
		return 2;
	if ((s->has_election && !has_leader(s)) || (s->has_server && !s->is_healthy))
		return 1;
	return 0;
}

/* ---- text ----
 *
 * Each of the functions appends the lines of one part, without the label of the first one and
 * without the last line feed; nothing if the part is left out. */

/* Another server may answer on the port, so a sample may have any value. */
static int64_t
whole(double value)
{
	if (!(value > -WHOLE_MAX))
		return -(int64_t)WHOLE_MAX;
	return value < WHOLE_MAX ? (int64_t)value : (int64_t)WHOLE_MAX;
}

static void
add_duration(struct buf *out, int64_t seconds)
{
	seconds = clock_later(0, clock_earlier(seconds, CLOCK_FOREVER / NS_PER_SEC));
	clock_format_duration(out, seconds * NS_PER_SEC);
}

/* Part of the text may come from another server. */
static void
add_error(struct buf *out, const char *what, const struct error *err)
{
	buf_add_c(out, what);
	buf_add_clean(out, str_c(err->msg));
}

static void
print_leader(const struct status *s, struct buf *out)
{
	const struct view_lease *l = s->lease;

	if (!s->has_election) {
		buf_add_c(out, "no election (--leader-elect=false)");
	} else if (!l) {
		add_error(out, "unknown: ", &s->lease_err);
	} else if (!l->has_holder) {
		buf_addf(out, "none: the Lease %" STR_FMT " %s", STR_ARG(s->lease_name),
		         l->exists ? "has no holder" : "does not exist");
	} else {
		buf_add_clean(out, l->lease.holder);
		buf_add_c(out, " since ");
		buf_add_clean(out, l->lease.acquired);
		buf_add_c(out, has_leader(s) ? ", renewed " : ", EXPIRED, renewed ");
		add_duration(out, s->now_s - l->renewed_s);
		buf_add_c(out, " ago");
	}
}

/* If there are no pods of ccmd, the controller runs outside of the cluster. */
static void
print_replicas(const struct status *s, struct buf *out)
{
	if (s->n_pods == 0 && !s->is_in_pod)
		return;
	if (s->has_pods)
		buf_addf(out, "%zu of %zu ready", s->n_ready_pods, s->n_pods);
	else
		buf_addf(out,
		         "this one is %" STR_FMT
		         ", others are unknown to this account; kubectl -n %" STR_FMT
		         " get pods -l app.kubernetes.io/name=ccmd",
		         STR_ARG(s->pod_name), STR_ARG(s->pod_namespace));
}

/* The health, with the failed checks: lines of /healthz?verbose are "[+]name ok" and
 * "[-]name failed: reason withheld". */
static void
print_process(const struct status *s, struct buf *out)
{
	if (!s->has_server) {
		buf_add_c(out, "unknown: --secure-port=0");
	} else if (!s->is_reached) {
		add_error(out, "unknown: ", &s->server_err);
	} else {
		buf_add_c(out, s->is_healthy ? "healthy" : "NOT healthy");
		for (struct str line, rest = s->checks; str_split(&rest, '\n', &line);) {
			if (!str_starts(line, STR("[-]")))
				continue;
			buf_add_c(out, ", ");
			buf_add_clean(out, str_skip(line, 3));
		}
		buf_add_c(out, s->is_ready ? ", ready" : ", not ready");
	}
}

static void
print_metrics_error(const struct status *s, struct buf *out)
{
	add_error(out, "not read: ", &s->metrics_err);
}

/* "3m4s ago" of a sample that is a Unix time. label: NULL: the family has one sample. */
static void
add_time(const struct status *s, const char *name, const char *label, struct str value,
         struct buf *out)
{
	double time;

	if (!samples_find(s->metrics, name, label, value, &time)) {
		buf_add_c(out, "unknown");
		return;
	}
	add_duration(out, s->now_s - whole(time));
	buf_add_c(out, " ago");
}

static void
print_start(const struct status *s, struct buf *out)
{
	double leads, memory, ignored;

	if (find(s, "leader_election_master_status", &leads))
		buf_add_c(out, leads > 0 ? "it leads, " : "it stands by, ");
	buf_add_c(out, find(s, START, &ignored) ? "started " : "start ");
	add_time(s, START, NULL, STR_EMPTY, out);
	if (find(s, MEMORY, &memory))
		buf_addf(out, ", %.1f MB of memory", memory / 1e6);
}

/* "in sync for 4h", as long as neither a list nor a watch has failed. */
static void
print_sync(const struct status *s, struct str kind, struct buf *out)
{
	double synced, since;

	if (!samples_find(s->metrics, SYNCED, "kind", kind, &synced)) {
		buf_add_c(out, "unknown whether in sync");
	} else if (synced <= 0) {
		buf_add_c(out, "not in sync");
	} else if (!samples_find(s->metrics, SYNCED_SINCE, "kind", kind, &since)) {
		buf_add_c(out, "in sync");
	} else if (since <= 0) {
		buf_add_c(out, "NOT in sync any more");
	} else {
		buf_add_c(out, "in sync for ");
		add_duration(out, s->now_s - whole(since));
	}
}

static void
print_objects(const struct status *s, struct buf *out)
{
	struct str rest = s->metrics;
	struct sample sample;

	while (samples_next(&rest, OBJECTS, &sample)) {
		struct str kind = sample_label(&sample, "kind");

		buf_add_c(out, out->len > 0 ? "\n" : "");
		buf_add_clean(out, kind);
		buf_addf(out, ": %.0f, ", sample.value);
		print_sync(s, kind, out);
		buf_add_c(out, ", last event ");
		add_time(s, "ccmd_reflector_last_event_timestamp_seconds", "kind", kind, out);
	}
	if (out->len == 0)
		buf_add_c(out, "none: a replica that stands by reads no objects");
}

static void
print_queues(const struct status *s, struct buf *out)
{
	struct str rest = s->metrics;
	struct sample sample;

	while (samples_next(&rest, "workqueue_depth", &sample)) {
		struct str name = sample_label(&sample, "name");
		double oldest;

		buf_add_c(out, out->len > 0 ? "\n" : "");
		buf_add_clean(out, name);
		buf_addf(out, ": %.0f waiting", sample.value);
		if (sample.value > 0 && samples_find(s->metrics, OLDEST, "name", name, &oldest))
			buf_addf(out, ", the oldest for %.0f s", oldest);
	}
}

/* The requests to one server. total and failed: since the start of the process, which not all
 * clouds count; before: total of the reading before this one. */
static void
print_server(const struct status *s, const char *server, double total, double failed, double before,
             struct buf *out)
{
	double recent, recent_failed;
	bool has_recent = find_recent(s, server, &recent, &recent_failed);

	if (has_recent)
		buf_addf(out, "%.0f in 5 min, %.0f failed", recent, recent_failed);
	if (total > 0)
		buf_addf(out, "%s%.0f since the start, %.0f failed", has_recent ? "; " : "", total,
		         failed);
	if (s->totals_before && s->totals_before->start == s->totals.start)
		buf_addf(out, "; +%.0f", total - before);
}

static void
print_requests(const struct status *s, struct buf *out)
{
	const struct status_totals *now = &s->totals;
	const struct status_totals *before = s->totals_before ? s->totals_before : now;
	double recent, ignored, left;

	if (find_recent(s, "api_server", &recent, &ignored) || find(s, API_REQUESTS, &ignored)) {
		buf_add_c(out, "API server: ");
		print_server(s, "api_server", now->api_server, sum_failed(s, API_REQUESTS),
		             before->api_server, out);
	} else {
		buf_add_c(out, "unknown");
	}
	(void)find_recent(s, "cloud", &recent, &ignored);
	if (now->cloud + recent <= 0)
		return;
	buf_add_c(out, "\ncloud: ");
	print_server(s, "cloud", now->cloud, sum_cloud(s, sum_failed), before->cloud, out);
	if (find(s, BUDGET, &left))
		buf_addf(out, "; %.0f left of the rate limit", left);
}

static void
print_deletions(const struct status *s, struct buf *out)
{
	double held, last;

	if (!find(s, HELD, &held))
		return;
	if (find(s, LAST_DELETION, &last) && last > 0) {
		buf_add_c(out, "the last node ");
		add_time(s, LAST_DELETION, NULL, STR_EMPTY, out);
	} else {
		buf_add_c(out, "no node since the start");
	}
	buf_addf(out, "; held now: %.0f", held);
	if (held > 0 && s->not_ready.len > 0) {
		buf_add_c(out, ", among the nodes that are not Ready: ");
		buf_add_clean(out, s->not_ready);
		buf_add_c(out, " (ccmd explain node NAME)");
	} else if (held > 0) {
		buf_add_c(out, " (kubectl get events -A --field-selector reason=NodeDeletionHeld)");
	}
}

/* The label precedes the first line of the part. */
static void
print_part(const struct status *s, const char *label,
           void (*print)(const struct status *, struct buf *), struct buf *out)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_REPORT);
	struct str rest;

	print(s, &text);
	rest = buf_str(&text);
	for (struct str line; text.len > 0 && str_split(&rest, '\n', &line); label = "")
		buf_addf(out, "%-*s%" STR_FMT "\n", LABEL_WIDTH, label, STR_ARG(line));
}

void
status_print(const struct status *s, struct buf *out)
{
	print_part(s, "Leader", print_leader, out);
	print_part(s, "Replicas", print_replicas, out);
	print_part(s, "Process", print_process, out);
	if (!s->has_metrics) {
		print_part(s, "Metrics", print_metrics_error, out);
		return;
	}
	print_part(s, "", print_start, out);
	print_part(s, "Objects", print_objects, out);
	print_part(s, "Queues", print_queues, out);
	print_part(s, "Requests", print_requests, out);
	print_part(s, "Deletions", print_deletions, out);
}

/* ---- JSON ---- */

/* One object for each sample of a family: {"kind":"Node","value":3}. */
static void
add_family_json(const struct status *s, const char *member, const char *family, const char *label,
                struct buf *out)
{
	struct str rest = s->metrics;
	struct sample sample;

	json_begin_array(out, member);
	while (samples_next(&rest, family, &sample)) {
		json_add_object(out, NULL, JSON_TEXT(label, sample_label(&sample, label)),
		                JSON_NUMBER("value", whole(sample.value)));
	}
	json_end_array(out);
}

/* A member for a sample that exists. */
static void
add_found_json(const struct status *s, const char *member, const char *name, struct buf *out)
{
	double value;

	if (find(s, name, &value))
		json_add_number(out, member, whole(value));
}

static void
add_recent_json(const struct status *s, const char *member, const char *server, struct buf *out)
{
	double all, failed;

	if (find_recent(s, server, &all, &failed))
		json_add_object(out, member, JSON_NUMBER("requests", whole(all)),
		                JSON_NUMBER("failures", whole(failed)));
}

static void
add_metrics_json(const struct status *s, struct buf *out)
{
	static const struct {
		const char *member, *name, *label;
	} families[] = {
		{ "objects", OBJECTS, "kind" },
		{ "synced", SYNCED, "kind" },
		{ "syncedSince", SYNCED_SINCE, "kind" },
		{ "queues", "workqueue_depth", "name" },
		{ "oldestWaitingSeconds", OLDEST, "name" },
		{ "deletions", DELETIONS, "outcome" },
	};

	json_add_flag(out, "isLeader", sum(s, "leader_election_master_status") > 0);
	add_found_json(s, "startTime", START, out);
	add_found_json(s, "memoryBytes", MEMORY, out);
	json_add_members(out, JSON_NUMBER("apiServerRequests", whole(sum(s, API_REQUESTS))),
	                 JSON_NUMBER("apiServerFailures", whole(sum_failed(s, API_REQUESTS))),
	                 JSON_NUMBER("cloudRequests", whole(sum_cloud(s, sum))),
	                 JSON_NUMBER("cloudFailures", whole(sum_cloud(s, sum_failed))));
	add_recent_json(s, "apiServerRecent", "api_server", out);
	add_recent_json(s, "cloudRecent", "cloud", out);
	add_found_json(s, "rateLimitRemaining", BUDGET, out);
	add_found_json(s, "heldNodes", HELD, out);
	add_found_json(s, "lastDeletionTime", LAST_DELETION, out);
	for (size_t i = 0; i < ARRAY_LEN(families); i++)
		add_family_json(s, families[i].member, families[i].name, families[i].label, out);
}

static void
add_lease_json(const struct status *s, struct buf *out)
{
	const struct view_lease *l = s->lease;

	json_begin_object(out, "lease");
	json_add_members(out, JSON_TEXT("name", s->lease_name),
	                 JSON_FLAG("isElected", s->has_election),
	                 JSON_TEXT("error",
	                           s->has_election && !l ? str_c(s->lease_err.msg) : STR_EMPTY));
	if (l && l->exists)
		json_add_members(out, JSON_TEXT("holder", l->lease.holder),
		                 JSON_TEXT("acquireTime", l->lease.acquired),
		                 JSON_NUMBER("renewedSecondsAgo", s->now_s - l->renewed_s),
		                 JSON_NUMBER("transitions", l->lease.transitions));
	json_add_flag(out, "isFresh", has_leader(s));
	json_end_object(out);
}

void
status_print_json(const struct status *s, struct buf *out)
{
	json_begin_object(out, NULL);
	json_add_number(out, "exitCode", status_exit_code(s));
	add_lease_json(s, out);
	if (s->has_pods)
		json_add_object(out, "replicas", JSON_NUMBER("pods", s->n_pods),
		                JSON_NUMBER("ready", s->n_ready_pods));
	json_add_object(out, "process", JSON_FLAG("isReached", s->is_reached),
	                JSON_FLAG("isHealthy", s->is_healthy), JSON_FLAG("isReady", s->is_ready),
	                JSON_TEXT("checks", s->is_reached ? s->checks : STR_EMPTY),
	                JSON_TEXT("error", s->has_server && !s->is_reached
	                                           ? str_c(s->server_err.msg)
	                                           : STR_EMPTY));
	json_begin_object(out, "metrics");
	json_add_text(out, "error", s->has_metrics ? STR_EMPTY : str_c(s->metrics_err.msg));
	if (s->has_metrics)
		add_metrics_json(s, out);
	json_end_object(out);
	if (s->not_ready.len > 0)
		json_add_text(out, "notReadyNodes", s->not_ready);
	json_end_object(out);
	buf_add_char(out, '\n');
}
