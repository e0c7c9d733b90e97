/* http/loop.c: the I/O thread of a client.
 *
 * A job is in exactly one list at a time:
 *
 * 	inbox                submitted by its caller, not yet seen by the I/O thread
 * 	work or background   waiting for its turn (streams skip this)
 * 	running              it has a transfer, and libcurl works on it
 *
 * and leaves the last one when it is handed back to its caller, after which it must not be touched:
 * it may have lived on the caller's stack.
 *
 * The queue, the order and the deadlines are ours; libcurl is given only transfers that may run
 * now. If libcurl 8.14.1 is asked to queue and to time out by itself
 * (CURLMOPT_MAX_HOST_CONNECTIONS, CURLOPT_TIMEOUT_MS) while there are more callers than
 * connections, it spins at 100 % CPU. All lists are walked from end to end, because they hold at
 * most one job for each waiting thread.
 *
 * Waking the thread: is_poked means that a flag was set or a job was queued, is_polling that the
 * thread sleeps or is about to. Both change under mu. A caller sets is_poked and wakes the thread
 * only if is_polling was set, so no wake-up is lost, and a thread that is busy costs no system
 * call.
 *
 * Times in this file are those of clock_real, because libcurl uses no other clock. http/job.c
 * converts the callers' deadlines to this clock.
 */
#include "base/alloc.h"
#include "base/watchdog.h"
#include "http/internal.h"

enum {
	MAX_SPARE = LIMIT_GATE_MAX,
	MAX_KEPT = LIMIT_GATE_MAX + 8, /* connections, streams included */
};

/* libcurl checks its idle connections at most once a second and counts in whole seconds. After 3.3
 * s every connection made before the certificates were replaced has counted as idle for more than
 * one second at the last check. */
#define RETIRE_NS (3300 * NS_PER_MS)
#define OPENING_NS NS_PER_SEC      /* after this time the first bytes of most lists have arrived */
#define SWEEP_NS (30 * NS_PER_SEC) /* without requests, until idle connections are closed */
#define SWEEP_SOON_NS (2100 * NS_PER_MS) /* after http_client_close_idle(), see RETIRE_NS */
#define TRIM_NS (3 * NS_PER_SEC)         /* longer than the pause between two renewals of a lease */

METRIC_FAMILY(limits, METRIC_GAUGE, "ccmd_client_request_limit",
              "[ALPHA] Maximum number of concurrent requests of a client. It grows while requests "
              "succeed and is halved at a sign of overload.",
              .labels = { "client" });
METRIC_FAMILY(running, METRIC_GAUGE, "ccmd_client_requests_running",
              "[ALPHA] Running requests of a client, without lists and watches.",
              .labels = { "client" });
METRIC_FAMILY(waiting, METRIC_GAUGE, "ccmd_client_requests_waiting",
              "[ALPHA] Requests that wait for their turn, by class: work, or background (events).",
              .labels = { "client", "class" });

/* ---- lists ---- */

static void
list_init(struct job_list *list)
{
	TAILQ_INIT(&list->jobs);
	list->n = 0;
}

static void
list_add(struct job_list *list, struct job *job)
{
	TAILQ_INSERT_TAIL(&list->jobs, job, link);
	list->n++;
}

static struct job *
list_remove(struct job_list *list, struct job *job)
{
	TAILQ_REMOVE(&list->jobs, job, link);
	list->n--;
	return job;
}

/* ---- handles ---- */

/* Handles of requests are kept for later requests. A stream always has one of its own, since it may
 * keep it for hours. */
static struct transfer *
take_transfer(struct curl_client *c, const struct job *job)
{
	struct transfer *transfer = c->spare;

	if (job->stream || !transfer)
		return transfer_new(c);
	c->spare = transfer->next;
	return transfer;
}

/* At most as many handles are kept as requests ever ran together, which the gate bounds. */
static void
give_back_transfer(struct curl_client *c, struct job *job)
{
	struct transfer *transfer = TAKE(job->transfer);

	transfer->job = NULL;
	if (job->stream) {
		transfer_free(transfer);
		return;
	}
	transfer->next = c->spare;
	c->spare = transfer;
}

static void
free_spare(struct curl_client *c)
{
	while (c->spare) {
		struct transfer *next = c->spare->next;

		transfer_free(c->spare);
		c->spare = next;
	}
}

/* ---- the fence ---- */

/* How long the fence lets the job run. This is computed again in each turn, because a renewed lease
 * prolongs running requests, and because only the fence's own clock (CLOCK_BOOTTIME) notices that
 * the machine was suspended. */
static int64_t
fence_left_ns(const struct job *job)
{
	if (job->method == HTTP_GET || job->class == HTTP_BACKGROUND)
		return CLOCK_FOREVER;
	return fence_remaining_ns(job->client->fence, job->client->clock);
}

/* ---- the end of a job ---- */

/* The job may have been freed when this returns. The signal is sent under the lock for the same
 * reason: once the lock is released, the caller may destroy the condition variable. */
static void
hand_back(struct job *job, bool is_ok)
{
	mutex_lock(&job->mu);
	job->is_ok = is_ok;
	job->is_done = true;
	cond_signal(&job->cond);
	mutex_unlock(&job->mu);
}

static enum gate_outcome
outcome_of(const struct job *job, bool is_ok)
{
	if (!is_ok)
		return job->err->code == ERR_TIMEOUT ? GATE_THROTTLED : GATE_FAILURE;
	if (job->response->status == 429 || job->response->status == 503)
		return GATE_THROTTLED;
	return job->response->status < 500 ? GATE_SUCCESS : GATE_FAILURE;
}

/* A Retry-After closes the gate for all requests, but only if it came with 429 or 5xx: elsewhere it
 * does not mean that the server is overloaded. */
static void
leave_gate(struct curl_client *c, struct job *job, bool is_ok, int64_t now_ns)
{
	int64_t closed_ns = 0;

	if (job->class == HTTP_BACKGROUND) {
		c->is_background_running = false;
		return;
	}
	if (is_ok && (job->response->status == 429 || job->response->status >= 500))
		closed_ns = job->response->retry_after_ms * NS_PER_MS;
	gate_leave(&c->gate, outcome_of(job, is_ok), closed_ns, now_ns);
	c->n_running_work--;
}

/* Ends a job that has a transfer. What it leaves behind, a handle and perhaps an idle connection,
 * is freed later if no other request needs it. */
static void
end_running(struct curl_client *c, struct job *job, bool is_ok)
{
	int64_t now_ns = clock_mono(&clock_real);

	curl_multi_remove_handle(c->multi, job->transfer->easy);
	list_remove(&c->running, job);
	if (!job->stream)
		leave_gate(c, job, is_ok, now_ns);
	if (!job->is_endless) {
		c->trim_ns = now_ns + TRIM_NS;
		c->sweep_ns = now_ns + SWEEP_NS;
	}
	give_back_transfer(c, job);
	hand_back(job, is_ok);
}

/* ---- the start of a job ---- */

static void
run_transfer(struct curl_client *c, struct job *job, bool wants_fresh)
{
	transfer_prepare(job->transfer, job, wants_fresh || c->is_retiring);
	if (curl_multi_add_handle(c->multi, job->transfer->easy) != CURLM_OK)
		alloc_fail(1, sizeof(*job->transfer)); /* other failures are bugs in this program */
}

static void
start_job(struct curl_client *c, struct job *job)
{
	job->transfer = take_transfer(c, job);
	list_add(&c->running, job);
	run_transfer(c, job, /*wants_fresh=*/false);
}

/* Lets the job start if the gate permits it. If not, *ret_again_ns is when to try again.
 *
 * Background requests (events) bypass the gate's limit and do not count as outcomes: a server that
 * is slow with events, or rejects them, does not slow down other requests. They do respect a
 * Retry-After. */
static bool
enter_gate(struct curl_client *c, const struct job *job, int64_t *ret_again_ns)
{
	int64_t now_ns = clock_mono(&clock_real);

	if (job->class == HTTP_WORK) {
		if (!gate_enter(&c->gate, now_ns, ret_again_ns))
			return false;
		c->n_running_work++;
		return true;
	}
	if (c->gate.closed_until_ns > now_ns) {
		*ret_again_ns = c->gate.closed_until_ns;
		return false;
	}
	c->is_background_running = true;
	return true;
}

/* Returns the time until which background requests wait for streams that are being opened; 0: no
 * such stream. A stream has a deadline until its headers arrive. Only the first OPENING_NS count:
 * some proxies hold back the headers of a watch until its first event. */
static int64_t
opening_until_ns(const struct curl_client *c)
{
	int64_t until_ns = 0;
	const struct job *job;

	TAILQ_FOREACH(job, &c->running.jobs, link) {
		int64_t end_ns = job->submitted_ns + OPENING_NS;

		if (job->stream && job->deadline_ns != CLOCK_FOREVER && end_ns > until_ns)
			until_ns = end_ns;
	}
	return until_ns;
}

/* The list whose first job is next, or NULL. A background job may start only while no HTTP_WORK job
 * waits or runs; one runs at a time. If it has to wait for streams that are being opened,
 * *ret_again_ns is when to look again. */
static struct job_list *
next_in_turn(struct curl_client *c, int64_t *ret_again_ns)
{
	int64_t opening_ns;

	if (!TAILQ_EMPTY(&c->work.jobs))
		return &c->work;
	if (TAILQ_EMPTY(&c->background.jobs) || c->n_running_work > 0 || c->is_background_running)
		return NULL;
	opening_ns = opening_until_ns(c);
	if (opening_ns > clock_mono(&clock_real)) {
		*ret_again_ns = opening_ns;
		return NULL;
	}
	return &c->background;
}

static void
start_waiting(struct curl_client *c)
{
	struct job_list *list;

	c->gate_ns = CLOCK_FOREVER;
	while ((list = next_in_turn(c, &c->gate_ns))) {
		struct job *job = TAILQ_FIRST(&list->jobs);

		if (!enter_gate(c, job, &c->gate_ns))
			return;
		job->response->waited_ns = clock_mono(&clock_real) - job->submitted_ns;
		start_job(c, list_remove(list, job));
	}
}

/* ---- the end of a transfer ---- */

/* A server may close a kept connection just when a request is sent on it. Such a request is sent
 * once more, on a fresh connection, if doing it twice is harmless. */
static void
end_transfer(struct curl_client *c, struct transfer *transfer, CURLcode code)
{
	struct job *job = transfer->job;
	bool may_replay = !job->is_replayed && (job->method == HTTP_GET || job->can_replay);

	transfer_done(transfer);
	if (code == CURLE_OK) {
		end_running(c, job, true);
	} else if (may_replay && transfer_broke_on_reuse(transfer, code)) {
		curl_multi_remove_handle(c->multi, transfer->easy);
		job->is_replayed = true;
		run_transfer(c, job, /*wants_fresh=*/true);
	} else {
		transfer_error(transfer, code);
		end_running(c, job, false);
	}
}

/* ---- requests from other threads ---- */

/* Our certificates were replaced: no connection made with the old ones is used for a new request.
 */
static void
retire_connections(struct curl_client *c, bool ends_streams)
{
	struct job *job;

	TAILQ_FOREACH(job, &c->running.jobs, link) {
		job->is_retired = job->stream && ends_streams;
		transfer_forbid_reuse(job->transfer);
	}
	c->is_retiring = true;
	c->retire_ns = clock_mono(&clock_real) + RETIRE_NS;
}

/* Reads the flags and the jobs that other threads have set since the last turn. False when the
 * thread is to end. */
static bool
take_inbox(struct curl_client *c)
{
	TAILQ_HEAD(, job) inbox = TAILQ_HEAD_INITIALIZER(inbox);
	bool is_stopping, wants_retire, ends_streams;

	mutex_lock(&c->mu);
	TAILQ_CONCAT(&inbox, &c->inbox.jobs, link);
	c->inbox.n = 0;
	c->is_poked = false;
	c->is_polling = false;
	is_stopping = c->is_stopping;
	if (c->wants_sweep && c->sweep_ns != CLOCK_FOREVER)
		c->sweep_ns = clock_mono(&clock_real) + SWEEP_SOON_NS;
	c->wants_sweep = false;
	wants_retire = c->wants_retire;
	ends_streams = c->ends_streams;
	c->wants_retire = c->ends_streams = false;
	mutex_unlock(&c->mu);
	if (wants_retire)
		retire_connections(c, ends_streams);
	for (struct job *job; (job = TAILQ_FIRST(&inbox));) {
		TAILQ_REMOVE(&inbox, job, link);
		if (job->stream)
			start_job(c, job);
		else
			list_add(job->class == HTTP_WORK ? &c->work : &c->background, job);
	}
	return !is_stopping;
}

/* ---- cancellation, deadlines, paused streams ---- */

static bool
job_failed(const struct job *job, const char *why, enum err_code code)
{
	return err_set(job->err, code, "%s %s%" STR_FMT ": %s", http_method_name(job->method),
	               job->client->shown_url, STR_ARG(job->target), why);
}

/* Returns false, with the reason in *job->err, if the job must end. */
static bool
may_continue(const struct job *job, int64_t now_ns)
{
	if (job->wants_close || job->is_cancelled)
		return job_failed(job, "cancelled", ERR_CANCELLED);
	if (job->is_retired)
		return job_failed(job, "ended because our certificates were replaced",
		                  ERR_UNAVAILABLE);
	if (fence_left_ns(job) == 0)
		return job_failed(job, "this process is no longer the leader", ERR_CANCELLED);
	if (now_ns < job->deadline_ns)
		return true;
	return job_failed(job,
	                  job->transfer ? "no answer in time"
	                                : "timed out while waiting for its turn",
	                  ERR_TIMEOUT);
}

static void
end_late_waiting(struct job_list *list, int64_t now_ns)
{
	for (struct job *job = TAILQ_FIRST(&list->jobs), *next; job; job = next) {
		next = TAILQ_NEXT(job, link); /* a job that was handed back may have been freed */
		if (!may_continue(job, now_ns))
			hand_back(list_remove(list, job), false);
	}
}

/* Ends jobs that are late or cancelled, and resumes streams whose reader has made room. */
static void
check_jobs(struct curl_client *c)
{
	int64_t now_ns = clock_mono(&clock_real);

	end_late_waiting(&c->work, now_ns);
	end_late_waiting(&c->background, now_ns);
	for (struct job *job = TAILQ_FIRST(&c->running.jobs), *next; job; job = next) {
		CURLcode code = CURLE_OK;

		next = TAILQ_NEXT(job, link);
		if (!may_continue(job, now_ns)) {
			end_running(c, job, false);
			continue;
		}
		/* libcurl calls on_body() from in here with the bytes it held back */
		if (job->wants_resume && atomic_exchange(&job->wants_resume, false))
			code = curl_easy_pause(job->transfer->easy, CURLPAUSE_CONT);
		if (code != CURLE_OK)
			end_transfer(c, job->transfer, code);
	}
}

/* ---- progress of the transfers ---- */

static void
free_sweeper(struct curl_client *c)
{
	if (!c->sweeper)
		return;
	curl_multi_remove_handle(c->multi, c->sweeper);
	curl_easy_cleanup(TAKE(c->sweeper));
}

/* libcurl reports that a handle is done: a transfer, or the sweeper. */
static void
take_result(struct curl_client *c, CURL *easy, CURLcode code)
{
	struct transfer *transfer = NULL;

	if (easy == c->sweeper) {
		free_sweeper(c);
		c->is_retiring = c->retire_ns != CLOCK_FOREVER;
		return;
	}
	curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
	end_transfer(c, transfer, code);
}

/* Repeats while transfers end, because each end may allow a waiting job to start. */
static void
perform(struct curl_client *c)
{
	CURLMsg *msg;
	int n_left;
	bool has_ended;

	do {
		has_ended = false;
		start_waiting(c);
		events_run_timer(c);
		while ((msg = curl_multi_info_read(c->multi, &n_left))) {
			take_result(c, msg->easy_handle, msg->data.result);
			has_ended = true;
		}
	} while (has_ended && (!TAILQ_EMPTY(&c->work.jobs) || !TAILQ_EMPTY(&c->background.jobs)));
}

/* Frees memory after a burst of requests. The first of two steps frees spare handles, which are
 * cheap to allocate again and have buffers of 32 kB each. */
static void
trim_handles(struct curl_client *c)
{
	if (clock_mono(&clock_real) < c->trim_ns)
		return;
	c->trim_ns = CLOCK_FOREVER;
	free_spare(c);
	alloc_trim();
}

/* The second step closes idle connections and frees their TLS state. */
static void
sweep_connections(struct curl_client *c)
{
	int64_t now_ns = clock_mono(&clock_real);

	if (now_ns < c->sweep_ns && now_ns < c->retire_ns)
		return;
	if (now_ns >= c->retire_ns)
		c->retire_ns = CLOCK_FOREVER;
	c->sweep_ns = CLOCK_FOREVER;
	free_spare(c);
	free_sweeper(c);
	c->sweeper = sweeper_new();
	curl_multi_add_handle(c->multi, c->sweeper);
	alloc_trim();
}

/* ---- waiting ---- */

/* The earliest of at_ns, the jobs' deadlines and the moments when the fence stops them. */
static int64_t
earliest_deadline(const struct job_list *list, int64_t now_ns, int64_t at_ns)
{
	const struct job *job;

	TAILQ_FOREACH(job, &list->jobs, link) {
		int64_t fence_ns = clock_deadline(now_ns, fence_left_ns(job));

		if (job->deadline_ns < at_ns)
			at_ns = job->deadline_ns;
		if (fence_ns < at_ns)
			at_ns = fence_ns;
	}
	return at_ns;
}

static int
wait_ms(const struct curl_client *c)
{
	int64_t now_ns = clock_mono(&clock_real), at_ns = now_ns + HTTP_LONGEST_WAIT_NS;

	if (c->trim_ns < at_ns)
		at_ns = c->trim_ns;
	if (c->sweep_ns < at_ns)
		at_ns = c->sweep_ns;
	if (c->retire_ns < at_ns)
		at_ns = c->retire_ns;
	if (c->timer_ns < at_ns)
		at_ns = c->timer_ns;
	if (c->gate_ns < at_ns)
		at_ns = c->gate_ns;
	at_ns = earliest_deadline(&c->work, now_ns, at_ns);
	at_ns = earliest_deadline(&c->background, now_ns, at_ns);
	at_ns = earliest_deadline(&c->running, now_ns, at_ns);
	return at_ns <= now_ns ? 0 : (int)((at_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS);
}

/* Sleeps until a socket, a timer or another thread needs the loop. If something was submitted since
 * take_inbox(), it only polls. */
static void
wait_for_work(struct curl_client *c)
{
	bool may_sleep;

	mutex_lock(&c->mu);
	may_sleep = c->is_polling = !c->is_poked;
	mutex_unlock(&c->mu);
	events_wait(c, may_sleep ? wait_ms(c) : 0);
}

/* ---- metrics and the watchdog ---- */

static void
publish(unsigned _Atomic *at, unsigned n)
{
	atomic_store_explicit(at, n, memory_order_relaxed);
}

static void
publish_state(struct curl_client *c)
{
	int64_t now_ns = clock_mono(c->clock);

	atomic_store(&c->last_turn_ns, now_ns);
	watchdog_promise(clock_deadline(now_ns, HTTP_LONGEST_WAIT_NS));
	publish(&c->shown.limit, c->gate.limit);
	publish(&c->shown.n_running, c->gate.n_running);
	publish(&c->shown.n_work, c->work.n);
	publish(&c->shown.n_background, c->background.n);
}

static void
set_metrics(void *client)
{
	struct curl_client *c = client;

	metric_set(c->limit, c->shown.limit);
	metric_set(c->n_requests, c->shown.n_running);
	metric_set(c->n_work, c->shown.n_work);
	metric_set(c->n_background, c->shown.n_background);
}

/* ---- the loop ---- */

static void
init_metrics(struct curl_client *c, const char *name)
{
	c->limit = metric_of(&limits, name);
	c->n_requests = metric_of(&running, name);
	c->n_work = metric_of(&waiting, name, "work");
	c->n_background = metric_of(&waiting, name, "background");
	metrics_on_scrape(set_metrics, c);
}

static void *
loop_run(void *arg)
{
	struct curl_client *c = arg;
	struct job *job;

	while (take_inbox(c)) {
		publish_state(c);
		check_jobs(c);
		trim_handles(c);
		sweep_connections(c);
		perform(c);
		TAILQ_FOREACH(job, &c->running.jobs, link) {
			if (job->stream)
				stream_wake_reader(job->stream);
		}
		wait_for_work(c);
	}
	return NULL;
}

void
loop_start(struct curl_client *c, const char *name, double qps, double burst)
{
	c->multi = curl_multi_init();
	if (!c->multi)
		alloc_fail(1, sizeof(c->multi));
	curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)MAX_KEPT);
	mutex_init(&c->mu);
	list_init(&c->inbox);
	list_init(&c->work);
	list_init(&c->background);
	list_init(&c->running);
	gate_init(&c->gate, qps, burst, clock_mono(&clock_real));
	c->trim_ns = CLOCK_FOREVER;
	c->sweep_ns = CLOCK_FOREVER;
	c->retire_ns = CLOCK_FOREVER;
	c->last_turn_ns = clock_mono(c->clock);
	init_metrics(c, name);
	events_start(c);
	thread_start(&c->thread, name, loop_run, c);
}

/* Called with mu held. Returns true when the thread must be woken. */
static bool
set_poked(struct curl_client *c)
{
	bool must_wake = c->is_polling;

	c->is_poked = true;
	c->is_polling = false;
	return must_wake;
}

void
loop_stop(struct curl_client *c)
{
	mutex_lock(&c->mu);
	c->is_stopping = true;
	mutex_unlock(&c->mu);
	loop_poke(c);
	thread_join(c->thread);
	metrics_off_scrape(set_metrics, c);
	free_spare(c);
	free_sweeper(c);
	curl_multi_cleanup(c->multi);
	events_stop(c);
	mutex_destroy(&c->mu);
}

void
loop_poke(struct curl_client *c)
{
	bool must_wake;

	mutex_lock(&c->mu);
	must_wake = set_poked(c);
	mutex_unlock(&c->mu);
	if (must_wake)
		events_wake(c);
}

void
loop_submit(struct job *job)
{
	struct curl_client *c = job->client;
	bool must_wake;

	job->submitted_ns = clock_mono(&clock_real);
	mutex_lock(&c->mu);
	list_add(&c->inbox, job);
	must_wake = set_poked(c);
	mutex_unlock(&c->mu);
	if (must_wake)
		events_wake(c);
}
