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
#define TRIM_NS (3 * NS_PER_SEC)   /* longer than the pause between two renewals of a lease */

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

static void
free_spare(struct curl_client *c)
{
	while (c->spare) {
		struct transfer *next = c->spare->next;

		transfer_free(c->spare);
		c->spare = next;
	}
}

static void
free_sweeper(struct curl_client *c)
{
	if (!c->sweeper)
		return;
	curl_multi_remove_handle(c->multi, c->sweeper);
	curl_easy_cleanup(TAKE(c->sweeper));
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
	WITH_LOCK(&job->mu);

	job->is_ok = is_ok;
	job->is_done = true;
	cond_signal(&job->cond);
}

static void
leave_gate(struct curl_client *c, const struct job *job, bool is_ok, int64_t now_ns)
{
	int status = job->response->status;
	enum gate_outcome outcome = GATE_SUCCESS;
	int64_t closed_ns = 0;

	if (job->class == HTTP_BACKGROUND) {
		c->is_background_running = false;
		return;
	}
	if (!is_ok)
		outcome = job->err->code == ERR_TIMEOUT ? GATE_THROTTLED : GATE_FAILURE;
	else if (status == 429 || status == 503)
		outcome = GATE_THROTTLED;
	else if (status >= 500)
		outcome = GATE_FAILURE;
	/* A Retry-After closes the gate for all requests, but only if it came with 429 or 5xx:
	 * elsewhere it does not mean that the server is overloaded. */
	if (is_ok && (status == 429 || status >= 500))
		closed_ns = job->response->retry_after_ms * NS_PER_MS;
	gate_leave(&c->gate, outcome, closed_ns, now_ns);
}

/* Ends a job that has a transfer. What it leaves behind, a handle and perhaps an idle connection,
 * is freed later if no other request needs it. At most as many handles are kept as requests ever
 * ran together, which the gate bounds. */
static void
end_running(struct curl_client *c, struct job *job, bool is_ok)
{
	struct transfer *transfer = TAKE(job->transfer);
	int64_t now_ns = clock_mono(&clock_real);

	curl_multi_remove_handle(c->multi, transfer->easy);
	list_remove(&c->running, job);
	if (!job->is_endless) {
		c->trim_ns = now_ns + TRIM_NS;
		c->sweep_ns = now_ns + SWEEP_NS;
	}
	if (job->stream) {
		transfer_free(transfer);
	} else {
		leave_gate(c, job, is_ok, now_ns);
		transfer->job = NULL;
		transfer->next = c->spare;
		c->spare = transfer;
	}
	hand_back(job, is_ok);
}

/* ---- the start of a job ---- */

/* Handles of requests are kept for later requests. A stream always has one of its own, since it may
 * keep it for hours. */
static void
start_job(struct curl_client *c, struct job *job)
{
	job->transfer = job->stream ? NULL : c->spare;
	if (job->transfer)
		c->spare = c->spare->next;
	else
		job->transfer = transfer_new(c);
	list_add(&c->running, job);
	job->response->waited_ns = clock_mono(&clock_real) - job->submitted_ns;
	transfer_prepare(job->transfer, job, /*wants_fresh=*/c->is_retiring);
	if (curl_multi_add_handle(c->multi, job->transfer->easy) != CURLM_OK)
		alloc_fail(1, sizeof(*job->transfer)); /* other failures are bugs in this program */
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
		if (job->stream && job->deadline_ns != CLOCK_FOREVER)
			until_ns = clock_later(until_ns, job->submitted_ns + OPENING_NS);
	}
	return until_ns;
}

/* Starts the jobs whose turn it is. c->gate_ns becomes the time to try again. */
static void
start_waiting(struct curl_client *c)
{
	int64_t now_ns = clock_mono(&clock_real), at_ns;

	c->gate_ns = CLOCK_FOREVER;
	while (!TAILQ_EMPTY(&c->work.jobs)) {
		if (!gate_enter(&c->gate, now_ns, &c->gate_ns))
			return;
		start_job(c, list_remove(&c->work, TAILQ_FIRST(&c->work.jobs)));
	}

	/* A background request may start only while no HTTP_WORK job waits or runs, and one runs at
	 * a time. They bypass the gate's limit and do not count as outcomes: a server that is slow
	 * with events, or rejects them, does not slow down other requests. */
	if (TAILQ_EMPTY(&c->background.jobs) || c->gate.n_running > 0 || c->is_background_running)
		return;
	/* they do respect a Retry-After */
	at_ns = clock_later(opening_until_ns(c), c->gate.closed_until_ns);
	if (at_ns > now_ns) {
		c->gate_ns = at_ns;
		return;
	}
	c->is_background_running = true;
	start_job(c, list_remove(&c->background, TAILQ_FIRST(&c->background.jobs)));
}

/* ---- the end of a transfer ---- */

/* A server may close a kept connection just when a request is sent on it. Such a request is sent
 * once more, on a fresh connection, if doing it twice is harmless. */
static void
end_transfer(struct curl_client *c, struct transfer *transfer, CURLcode code)
{
	struct job *job = transfer->job;
	bool may_replay = !job->is_replayed && (job->method == HTTP_GET || job->can_replay);
	bool has_broken = code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR ||
	                  code == CURLE_GOT_NOTHING;
	long n_connects = 0;

	(void)curl_easy_getinfo(transfer->easy, CURLINFO_NUM_CONNECTS, &n_connects);
	job->response->is_reused = n_connects == 0;
	/* on_send() in http/curl.c notices that the connection broke, or libcurl reports it before
	 * any byte of the answer has arrived. */
	if (may_replay && code != CURLE_OK &&
	    (transfer->n_sends > 1 ||
	     (has_broken && job->response->is_reused && job->n_header_bytes == 0))) {
		curl_multi_remove_handle(c->multi, transfer->easy);
		job->is_replayed = true;
		transfer_prepare(transfer, job, /*wants_fresh=*/true);
		if (curl_multi_add_handle(c->multi, transfer->easy) != CURLM_OK)
			alloc_fail(1, sizeof(*transfer));
		return;
	}
	if (code != CURLE_OK)
		transfer_error(transfer, code);
	end_running(c, job, code == CURLE_OK);
}

/* ---- requests from other threads ---- */

/* Reads the flags and the jobs that other threads have set since the last turn. False when the
 * thread is to end. */
static bool
take_inbox(struct curl_client *c)
{
	TAILQ_HEAD(, job) inbox = TAILQ_HEAD_INITIALIZER(inbox);
	bool is_stopping, wants_retire, ends_streams;
	struct job *job;

	mutex_lock(&c->mu);
	TAILQ_CONCAT(&inbox, &c->inbox.jobs, link);
	c->inbox.n = 0;
	c->is_poked = false;
	c->is_polling = false;
	is_stopping = c->is_stopping;
	wants_retire = c->wants_retire;
	ends_streams = c->ends_streams;
	c->wants_retire = c->ends_streams = false;
	mutex_unlock(&c->mu);

	/* our certificates were replaced: no new request uses a connection of the old ones */
	if (wants_retire) {
		TAILQ_FOREACH(job, &c->running.jobs, link) {
			job->is_retired = job->stream && ends_streams;
			(void)curl_easy_setopt(job->transfer->easy, CURLOPT_FORBID_REUSE, 1L);
		}
		c->is_retiring = true;
		c->retire_ns = clock_mono(&clock_real) + RETIRE_NS;
	}

	while (!TAILQ_EMPTY(&inbox)) {
		job = TAILQ_FIRST(&inbox);
		TAILQ_REMOVE(&inbox, job, link);
		if (job->stream)
			start_job(c, job);
		else
			list_add(job->class == HTTP_WORK ? &c->work : &c->background, job);
	}
	return !is_stopping;
}

/* ---- cancellation, deadlines, paused streams ---- */

/* Returns false, with the reason in *job->err, if the job must end. */
static bool
may_continue(const struct job *job, int64_t now_ns)
{
	if (job->wants_close || job->is_cancelled)
		return job_error(job, job->err, ERR_CANCELLED, "cancelled");
	if (job->is_retired)
		return job_error(job, job->err, ERR_UNAVAILABLE,
		                 "ended because our certificates were replaced");
	if (fence_left_ns(job) == 0)
		return job_error(job, job->err, ERR_CANCELLED,
		                 "this process is no longer the leader");
	if (now_ns < job->deadline_ns)
		return true;
	return job_error(job, job->err, ERR_TIMEOUT,
	                 job->transfer ? "no response in time"
	                               : "timed out while waiting for its turn");
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

/* Repeats while transfers end, because each end may allow a waiting job to start. */
static void
perform(struct curl_client *c)
{
	struct transfer *transfer = NULL;
	CURLMsg *msg;
	int n_left;
	bool has_ended;

	do {
		has_ended = false;
		start_waiting(c);
		events_run_timer(c);
		while ((msg = curl_multi_info_read(c->multi, &n_left))) {
			has_ended = true;
			if (msg->easy_handle == c->sweeper) {
				free_sweeper(c);
				c->is_retiring = c->retire_ns != CLOCK_FOREVER;
				continue;
			}
			curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &transfer);
			end_transfer(c, transfer, msg->data.result);
		}
	} while (has_ended && (!TAILQ_EMPTY(&c->work.jobs) || !TAILQ_EMPTY(&c->background.jobs)));
}

/* Frees memory after a burst of requests, in two steps. */
static void
free_unused(struct curl_client *c)
{
	int64_t now_ns = clock_mono(&clock_real);
	bool must_sweep = now_ns >= c->sweep_ns || now_ns >= c->retire_ns;

	/* First the spare handles: each has a buffer of 32 kB and is cheap to allocate again. */
	if (now_ns < c->trim_ns && !must_sweep)
		return;
	c->trim_ns = CLOCK_FOREVER;
	free_spare(c);

	/* Later the idle connections with their TLS state. */
	if (must_sweep) {
		if (now_ns >= c->retire_ns)
			c->retire_ns = CLOCK_FOREVER;
		c->sweep_ns = CLOCK_FOREVER;
		free_sweeper(c);
		c->sweeper = sweeper_new();
		curl_multi_add_handle(c->multi, c->sweeper);
	}
	thread_trim();
}

/* ---- waiting ---- */

/* Until a timer, the deadline of a job, or the moment when the fence stops one. */
static int
wait_ms(const struct curl_client *c)
{
	const int64_t timers[] = { c->trim_ns, c->sweep_ns, c->retire_ns, c->timer_ns, c->gate_ns };
	const struct job_list *lists[] = { &c->work, &c->background, &c->running };
	int64_t now_ns = clock_mono(&clock_real), at_ns = now_ns + HTTP_LONGEST_WAIT_NS;
	const struct job *job;

	for (size_t i = 0; i < ARRAY_LEN(timers); i++)
		at_ns = clock_earlier(at_ns, timers[i]);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		TAILQ_FOREACH(job, &lists[i]->jobs, link) {
			at_ns = clock_earlier(at_ns, job->deadline_ns);
			at_ns = clock_earlier(at_ns, clock_deadline(now_ns, fence_left_ns(job)));
		}
	}
	return at_ns <= now_ns ? 0 : (int)((at_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS);
}

/* ---- the loop ---- */

static void *
loop_run(void *arg)
{
	struct curl_client *c = arg;
	struct job *job;
	bool may_sleep;

	while (take_inbox(c)) {
		watchdog_promise(clock_deadline(clock_mono(c->clock), HTTP_LONGEST_WAIT_NS));
		metric_set(c->limit, c->gate.limit);
		metric_set(c->n_requests, c->gate.n_running);
		metric_set(c->n_work, c->work.n);
		metric_set(c->n_background, c->background.n);

		check_jobs(c);
		free_unused(c);
		perform(c);
		/* Not for every piece, because an event often arrives in several. The signal is
		 * sent without the job's mu, because a woken reader would only wait for it. */
		TAILQ_FOREACH(job, &c->running.jobs, link) {
			if (job->must_wake_reader)
				cond_signal(&job->cond);
			job->must_wake_reader = false;
		}

		/* Sleep until a socket, a timer or another thread needs the loop. If something was
		 * submitted since take_inbox(), it only polls. */
		mutex_lock(&c->mu);
		may_sleep = !c->is_poked;
		c->is_polling = may_sleep;
		mutex_unlock(&c->mu);
		events_wait(c, may_sleep ? wait_ms(c) : 0);
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
	TAILQ_INIT(&c->inbox.jobs);
	TAILQ_INIT(&c->work.jobs);
	TAILQ_INIT(&c->background.jobs);
	TAILQ_INIT(&c->running.jobs);
	gate_init(&c->gate, qps, burst, clock_mono(&clock_real));
	c->trim_ns = c->sweep_ns = c->retire_ns = CLOCK_FOREVER;
	c->limit = metric_of(&limits, name);
	c->n_requests = metric_of(&running, name);
	c->n_work = metric_of(&waiting, name, "work");
	c->n_background = metric_of(&waiting, name, "background");
	events_start(c);
	thread_start(&c->thread, name, loop_run, c);
}

void
loop_stop(struct curl_client *c)
{
	mutex_lock(&c->mu);
	c->is_stopping = true;
	mutex_unlock(&c->mu);
	loop_poke(c);
	thread_join(c->thread);
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
	must_wake = c->is_polling;
	c->is_poked = true;
	c->is_polling = false;
	mutex_unlock(&c->mu);
	if (must_wake)
		events_wake(c);
}

void
loop_submit(struct job *job)
{
	struct curl_client *c = job->client;

	job->submitted_ns = clock_mono(&clock_real);
	mutex_lock(&c->mu);
	list_add(&c->inbox, job);
	mutex_unlock(&c->mu);
	loop_poke(c); /* the client only: the job may be done already */
}
