/* operator/status.c: see status.h. */
#include "operator/status.h"

#include "base/json.h"
#include "base/limits.h"
#include "operator/local.h"
#include "operator/samples.h"

#define WHOLE_MAX 1e15 /* less than 2^53, so it is exact as a double */

enum {
	LABEL_WIDTH = 12,
};

/* ---- reading: the Lease ---- */

static void
read_leader(struct view *v, struct status *s)
{
	const struct election_options *o = &view_options(v)->election;

	s->has_election = o->is_enabled;
	s->lease_name = arena_printf(view_call(v)->arena, "%s/%s", o->resource_namespace,
	                             o->resource_name);
	if (s->has_election && !view_lease(v, &s->lease, &s->lease_err))
		s->lease = NULL;
	s->now_s = view_now_s(v);
}

/* ---- reading: the process ---- */

static void
read_health(struct view *v, struct status *s)
{
	struct str ignored;
	int status;

	s->has_server = view_options(v)->serving.secure.port != 0;
	if (!s->has_server)
		return;
	s->is_reached = local_get_open(v, "/healthz?verbose", &status, &s->checks, &s->server_err);
	if (!s->is_reached)
		return;
	s->is_healthy = status == 200;
	s->is_ready = local_get_open(v, "/readyz", &status, &ignored, &s->server_err) &&
	              status == 200;
}

static void
read_metrics(struct view *v, struct status *s)
{
	struct str url;

	if (local_find_plain_listener(v, &url))
		s->has_metrics = local_get_plain(v, url, "/metrics", &s->metrics, &s->metrics_err);
	else if (!s->has_server)
		err_set(&s->metrics_err, ERR_UNSUPPORTED,
		        "--secure-port=0, and there is no --metrics-bind-address");
	else if (s->is_reached)
		s->has_metrics = local_get(v, "/metrics", &s->metrics, &s->metrics_err);
	else
		s->metrics_err = s->server_err;
}

void
status_read(struct view *v, struct status *ret)
{
	*ret = (struct status){ .metrics = STR_EMPTY };
	read_leader(v, ret);
	read_health(v, ret);
	read_metrics(v, ret);
}

/* ---- the outcome ---- */

static bool
has_leader(const struct status *s)
{
	return s->lease && s->lease->exists && s->lease->lease.holder.len > 0 &&
	       s->now_s <= s->lease->renewed_s + s->lease->lease.duration_s;
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

/* ---- text ---- */

static void
begin_line(struct buf *out, const char *label)
{
	buf_addf(out, "%-*s", LABEL_WIDTH, label);
}

/* Another server may answer on the port, so a sample may have any value. */
static int64_t
whole(double value)
{
	if (!(value > -WHOLE_MAX))
		return -(int64_t)WHOLE_MAX;
	return value < WHOLE_MAX ? (int64_t)value : (int64_t)WHOLE_MAX;
}

static void
add_ago(struct buf *out, int64_t seconds)
{
	if (seconds > CLOCK_FOREVER / NS_PER_SEC)
		seconds = CLOCK_FOREVER / NS_PER_SEC;
	clock_format_duration(out, (seconds > 0 ? seconds : 0) * NS_PER_SEC);
	buf_add_c(out, " ago");
}

/* Part of the text may come from another server. */
static void
print_error(struct buf *out, const char *what, const struct error *err)
{
	buf_add_c(out, what);
	buf_add_clean(out, str_c(err->msg));
}

static void
print_leader(const struct status *s, struct buf *out)
{
	const struct view_lease *l = s->lease;

	begin_line(out, "Leader");
	if (!s->has_election)
		buf_add_c(out, "no election (--leader-elect=false)");
	else if (!l)
		print_error(out, "unknown: ", &s->lease_err);
	else if (!l->exists || l->lease.holder.len == 0)
		buf_addf(out, "none: the Lease %" STR_FMT " %s", STR_ARG(s->lease_name),
		         l->exists ? "has no holder" : "does not exist");
	else {
		buf_add_clean(out, l->lease.holder);
		buf_add_c(out, " since ");
		buf_add_clean(out, l->lease.acquired);
		buf_add_c(out, has_leader(s) ? ", renewed " : ", SILENT, renewed ");
		add_ago(out, s->now_s - l->renewed_s);
	}
	buf_add_char(out, '\n');
}

/* Lines of /healthz?verbose: "[+]name ok", "[-]name failed: reason withheld". */
static void
print_failed_checks(struct str checks, struct buf *out)
{
	for (struct str line; str_split(&checks, '\n', &line);) {
		if (str_starts(line, STR("[-]"))) {
			buf_add_c(out, ", ");
			buf_add_clean(out, str_skip(line, 3));
		}
	}
}

static void
print_process(const struct status *s, struct buf *out)
{
	begin_line(out, "Process");
	if (!s->has_server)
		buf_add_c(out, "unknown: --secure-port=0");
	else if (!s->is_reached)
		print_error(out, "unknown: ", &s->server_err);
	else {
		buf_add_c(out, s->is_healthy ? "healthy" : "NOT healthy");
		print_failed_checks(s->checks, out);
		buf_add_c(out, s->is_ready ? ", ready" : ", not ready");
	}
	buf_add_char(out, '\n');
}

static double
sum(const struct status *s, const char *name)
{
	return samples_sum(s->metrics, name, NULL, NULL, NULL);
}

static double
sum_of(const struct status *s, const char *name, const char *label, struct str value)
{
	struct str rest = s->metrics;
	struct sample sample;
	double total = 0;

	while (samples_next(&rest, &sample)) {
		if (str_eq_c(sample.name, name) && str_eq(sample_label(&sample, label), value))
			total += sample.value;
	}
	return total;
}

static bool
has(const struct status *s, const char *name)
{
	size_t n;

	(void)samples_sum(s->metrics, name, NULL, NULL, &n);
	return n > 0;
}

/* Requests that failed: without an answer, or with a status of 400 and more. */
static double
count_failed(const struct status *s, const char *name)
{
	return samples_sum(s->metrics, name, "code", "4", NULL) +
	       samples_sum(s->metrics, name, "code", "5", NULL) +
	       samples_sum(s->metrics, name, "code", "<", NULL);
}

/* The families that count requests to a cloud, for the clouds that have one. */
static const char *const cloud_requests[] = { "hcloud_api_requests_total",
	                                      "hrobot_api_requests_total" };
#define API_REQUESTS "rest_client_requests_total"
#define BUDGET "hcloud_api_rate_limit_remaining"
#define DELETIONS "ccmd_node_deletion_decisions_total"

static void
print_start(const struct status *s, struct buf *out)
{
	begin_line(out, "");
	if (has(s, "leader_election_master_status"))
		buf_add_c(out, sum(s, "leader_election_master_status") > 0 ? "it leads, "
		                                                           : "it stands by, ");
	buf_add_c(out, "started ");
	add_ago(out, s->now_s - whole(sum(s, "process_start_time_seconds")));
	buf_addf(out, ", %.1f MB of memory\n", sum(s, "process_resident_memory_bytes") / 1e6);
}

static void
print_objects(const struct status *s, struct buf *out)
{
	struct str rest = s->metrics;
	struct sample sample;
	const char *label = "Objects";

	while (samples_next(&rest, &sample)) {
		struct str kind;

		if (!str_eq_c(sample.name, "ccmd_reflector_objects"))
			continue;
		kind = sample_label(&sample, "kind");
		begin_line(out, label);
		label = "";
		buf_add_clean(out, kind);
		buf_addf(out, ": %.0f, %s, last event ", sample.value,
		         sum_of(s, "ccmd_reflector_synced", "kind", kind) > 0 ? "in sync"
		                                                              : "not in sync");
		add_ago(out,
		        s->now_s - whole(sum_of(s, "ccmd_reflector_last_event_timestamp_seconds",
		                                "kind", kind)));
		buf_add_char(out, '\n');
	}
}

static void
print_queues(const struct status *s, struct buf *out)
{
	struct str rest = s->metrics;
	struct sample sample;
	const char *label = "Queues";

	while (samples_next(&rest, &sample)) {
		struct str name;

		if (!str_eq_c(sample.name, "workqueue_depth"))
			continue;
		name = sample_label(&sample, "name");
		begin_line(out, label);
		label = "";
		buf_add_clean(out, name);
		buf_addf(out, ": %.0f waiting, the oldest for %.0f s\n", sample.value,
		         sum_of(s, "ccmd_workqueue_oldest_due_seconds", "name", name));
	}
}

static double
count_cloud(const struct status *s, double (*count)(const struct status *, const char *))
{
	double total = 0;

	for (size_t i = 0; i < ARRAY_LEN(cloud_requests); i++)
		total += count(s, cloud_requests[i]);
	return total;
}

static void
print_requests(const struct status *s, struct buf *out)
{
	begin_line(out, "Requests");
	buf_addf(out, "API server: %.0f, %.0f failed\n", sum(s, API_REQUESTS),
	         count_failed(s, API_REQUESTS));
	if (count_cloud(s, sum) > 0) {
		begin_line(out, "");
		buf_addf(out, "cloud: %.0f, %.0f failed", count_cloud(s, sum),
		         count_cloud(s, count_failed));
		if (has(s, BUDGET))
			buf_addf(out, ", %.0f left of the rate limit", sum(s, BUDGET));
		buf_add_char(out, '\n');
	}
}

static void
print_deletions(const struct status *s, struct buf *out)
{
	struct str rest = s->metrics;
	struct sample sample;
	const char *separator = "";

	if (sum(s, DELETIONS) == 0)
		return;
	begin_line(out, "Deletions");
	while (samples_next(&rest, &sample)) {
		if (!str_eq_c(sample.name, DELETIONS) || sample.value == 0)
			continue;
		buf_add_c(out, separator);
		separator = ", ";
		buf_add_clean(out, sample_label(&sample, "outcome"));
		buf_addf(out, " %.0f", sample.value);
	}
	buf_add_char(out, '\n');
}

void
status_print(const struct status *s, struct buf *out)
{
	print_leader(s, out);
	print_process(s, out);
	if (!s->has_metrics) {
		begin_line(out, "Metrics");
		print_error(out, "not read: ", &s->metrics_err);
		buf_add_char(out, '\n');
		return;
	}
	print_start(s, out);
	print_objects(s, out);
	print_queues(s, out);
	print_requests(s, out);
	print_deletions(s, out);
}

/* ---- JSON ---- */

static void
add_lease_json(const struct status *s, struct buf *out)
{
	const struct view_lease *l = s->lease;

	json_begin_object(out, "lease");
	json_add_text(out, "name", s->lease_name);
	json_add_flag(out, "isElected", s->has_election);
	json_add_text(out, "error", s->has_election && !l ? str_c(s->lease_err.msg) : STR_EMPTY);
	if (l && l->exists) {
		json_add_text(out, "holder", l->lease.holder);
		json_add_text(out, "acquireTime", l->lease.acquired);
		json_add_number(out, "renewedSecondsAgo", s->now_s - l->renewed_s);
		json_add_number(out, "transitions", l->lease.transitions);
	}
	json_add_flag(out, "isFresh", has_leader(s));
	json_end_object(out);
}

static void
add_process_json(const struct status *s, struct buf *out)
{
	json_begin_object(out, "process");
	json_add_flag(out, "isReached", s->is_reached);
	json_add_flag(out, "isHealthy", s->is_healthy);
	json_add_flag(out, "isReady", s->is_ready);
	json_add_text(out, "checks", s->is_reached ? s->checks : STR_EMPTY);
	json_add_text(out, "error",
	              s->has_server && !s->is_reached ? str_c(s->server_err.msg) : STR_EMPTY);
	json_end_object(out);
}

/* One object for each sample of a family: {"kind":"Node","value":3}. */
static void
add_family_json(const struct status *s, const char *member, const char *family, const char *label,
                struct buf *out)
{
	struct str rest = s->metrics;
	struct sample sample;

	json_begin_array(out, member);
	while (samples_next(&rest, &sample)) {
		if (!str_eq_c(sample.name, family))
			continue;
		json_begin_object(out, NULL);
		json_add_text(out, label, sample_label(&sample, label));
		json_add_number(out, "value", whole(sample.value));
		json_end_object(out);
	}
	json_end_array(out);
}

static void
add_metrics_json(const struct status *s, struct buf *out)
{
	json_begin_object(out, "metrics");
	json_add_text(out, "error", s->has_metrics ? STR_EMPTY : str_c(s->metrics_err.msg));
	if (s->has_metrics) {
		json_add_flag(out, "isLeader", sum(s, "leader_election_master_status") > 0);
		json_add_number(out, "startTime", whole(sum(s, "process_start_time_seconds")));
		json_add_number(out, "memoryBytes", whole(sum(s, "process_resident_memory_bytes")));
		json_add_number(out, "apiServerRequests", whole(sum(s, API_REQUESTS)));
		json_add_number(out, "apiServerFailures", whole(count_failed(s, API_REQUESTS)));
		json_add_number(out, "cloudRequests", whole(count_cloud(s, sum)));
		json_add_number(out, "cloudFailures", whole(count_cloud(s, count_failed)));
		if (has(s, BUDGET))
			json_add_number(out, "rateLimitRemaining", whole(sum(s, BUDGET)));
		add_family_json(s, "objects", "ccmd_reflector_objects", "kind", out);
		add_family_json(s, "synced", "ccmd_reflector_synced", "kind", out);
		add_family_json(s, "queues", "workqueue_depth", "name", out);
		add_family_json(s, "deletions", DELETIONS, "outcome", out);
	}
	json_end_object(out);
}

void
status_print_json(const struct status *s, struct buf *out)
{
	json_begin_object(out, NULL);
	json_add_number(out, "exitCode", status_exit_code(s));
	add_lease_json(s, out);
	add_process_json(s, out);
	add_metrics_json(s, out);
	json_end_object(out);
	buf_add_char(out, '\n');
}
