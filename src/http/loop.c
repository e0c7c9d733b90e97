/* http/loop.c: the I/O thread of a client.
 *
 * libcurl is given only transfers that may run now: the queue, the deadlines and the order are
 * ours. Asked to do this itself (CURLMOPT_MAX_HOST_CONNECTIONS, TIMEOUT_MS), with more callers than
 * connections, it spins at 100 % CPU (8.14.1). Lists are walked as a whole: they are as long as
 * there are threads that wait.
 *
 * Waking up: is_poked says that there is something to look at, is_polling that somebody must be
 * woken for it. Both change under mu, so nothing is missed and a busy loop is never woken.
 *
 * Time is clock_real here, since libcurl knows no other; the callers' deadlines are turned into
 * durations before.
 */
#include "base/alloc.h"
#include "base/watchdog.h"
#include "http/internal.h"

enum {
	MAX_SPARE = LIMIT_GATE_MAX,
	MAX_KEPT = LIMIT_GATE_MAX + 8, /* connections, streams included */
};

/* libcurl looks at its idle connections at most once a second, and sees whole seconds. By then
 * whoever looked last did so when all old ones had been idle for more than one. */
#define RETIRE_NS (3300 * NS_PER_MS)
METRIC_FAMILY(
	limits, METRIC_GAUGE, "ccmd_client_request_limit",
	"[ALPHA] Requests that a client has under way at most: it grows while all goes well and is "
	"halved at a sign of overload.",
	.labels = { "client" });
METRIC_FAMILY(running, METRIC_GAUGE, "ccmd_client_requests_running",
              "[ALPHA] Requests that a client has under way, without lists and watches.",
              .labels = { "client" });
METRIC_FAMILY(waiting, METRIC_GAUGE, "ccmd_client_requests_waiting",
              "[ALPHA] Requests that wait for their turn, by class: work, or background (events).",
              .labels = { "client", "class" });

#define OPENING_NS NS_PER_SEC /* most lists have begun to arrive by then */
#define SWEEP_NS (30 * NS_PER_SEC)
#define REST_NS (3 * NS_PER_SEC)         /* more than the pause between two renewals of a lease */
#define SWEEP_SOON_NS (2100 * NS_PER_MS) /* the sweeper sees whole seconds */

/* ---- lists ---- */

static void
list_init(struct job_list *list)
{
	list->head = NULL;
	list->tail = &list->head;
	list->n = 0;
}

static void
list_add(struct job_list *list, struct job *job)
{
	job->next = NULL;
	*list->tail = job;
	list->tail = &job->next;
	list->n++;
}

/* link: where the job's predecessor points to it. */
static struct job *
list_remove(struct job_list *list, struct job **link)
{
	struct job *job = *link;

	*link = job->next;
	list->n--;
	if (!*link)
		list->tail = link;
	return job;
}

static void
list_remove_job(struct job_list *list, struct job *job)
{
	struct job **link = &list->head;

	while (*link != job)
		link = &(*link)->next;
	list_remove(list, link);
}

/* ---- handles ---- */

static struct transfer *
take_transfer(struct curl_client *c, const struct job *job)
{
	struct transfer *transfer = c->spare;

	if (job->stream || !transfer)
		return transfer_new(c);
	c->spare = transfer->next;
	return transfer;
}

/* There are never more than the gate lets in. */
static void
give_transfer(struct curl_client *c, struct job *job)
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

/* How long the job may go on for the fence's sake. Asked again on each turn: a renewal prolongs
 * what is under way, and a machine that was suspended is seen on the boot clock only. */
static int64_t
fence_left_ns(const struct job *job)
{
	if (job->method == HTTP_GET || job->class == HTTP_BACKGROUND)
		return CLOCK_FOREVER;
	return fence_remaining_ns(job->client->fence, job->client->clock);
}

/* ---- the end of a job ---- */

/* After this the job may not be there any more. */
static void
hand_back(struct job *job, bool is_ok)
{
	mutex_lock(&job->mu);
	job->is_ok = is_ok;
	job->is_done = true;
	cond_signal(&job->cond); /* under the lock: the caller may free it right after */
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

static int64_t
retry_after_ns(const struct job *job, bool is_ok)
{
	if (!is_ok || (job->response->status != 429 && job->response->status < 500))
		return 0;
	return job->response->retry_after_ms * NS_PER_MS;
}

static void
leave_gate(struct curl_client *c, struct job *job, bool is_ok)
{
	if (job->class == HTTP_WORK) {
		gate_leave(&c->gate, outcome_of(job, is_ok), retry_after_ns(job, is_ok),
		           clock_mono(&clock_real));
		c->n_running_work--;
	} else {
		c->is_telling = false;
	}
}

/* A handle and a connection may be left behind. */
static void
plan_rest(struct curl_client *c)
{
	int64_t now_ns = clock_mono(&clock_real);

	c->rest_ns = now_ns + REST_NS;
	c->sweep_ns = now_ns + SWEEP_NS;
}

/* Ends a job that has a transfer. */
static void
end_running(struct curl_client *c, struct job *job, bool is_ok)
{
	curl_multi_remove_handle(c->multi, job->transfer->easy);
	list_remove_job(&c->running, job);
	if (!job->stream)
		leave_gate(c, job, is_ok);
	if (!job->is_endless)
		plan_rest(c);
	give_transfer(c, job);
	hand_back(job, is_ok);
}

/* ---- the start of a job ---- */

static void
run_transfer(struct curl_client *c, struct job *job, bool wants_fresh)
{
	transfer_prepare(job->transfer, job, wants_fresh || c->is_retiring);
	if (curl_multi_add_handle(c->multi, job->transfer->easy) != CURLM_OK)
		alloc_fail(1, sizeof(*job->transfer)); /* all other reasons are our own mistakes */
}

static void
start_job(struct curl_client *c, struct job *job)
{
	job->transfer = take_transfer(c, job);
	list_add(&c->running, job);
	run_transfer(c, job, /*wants_fresh=*/false);
}

/* May the job start now? Those who tell do so one at a time, while nobody else does anything, and
 * beside the gate: a server that is slow with them, or sends them away, takes no turn from those
 * who work. */
static bool
enter(struct curl_client *c, const struct job *job)
{
	int64_t now_ns = clock_mono(&clock_real);

	if (job->class == HTTP_WORK)
		return gate_enter(&c->gate, now_ns, &c->gate_ns);
	if (c->gate.closed_until_ns <= now_ns)
		return true;
	c->gate_ns = c->gate.closed_until_ns;
	return false;
}

/* Returns until when background requests wait for streams that are being opened; 0: there are none.
 * A stream has a deadline until its headers arrive. Only the first OPENING_NS count: some proxies
 * hold back the headers of a watch until its first event. */
static int64_t
opening_until_ns(const struct curl_client *c)
{
	int64_t until_ns = 0;

	for (const struct job *job = c->running.head; job; job = job->next) {
		int64_t end_ns = job->submitted_ns + OPENING_NS;

		if (job->stream && job->deadline_ns != CLOCK_FOREVER && end_ns > until_ns)
			until_ns = end_ns;
	}
	return until_ns;
}

/* Must background requests wait for a stream that is being opened? If so, this is checked again
 * when the wait is over. */
static bool
is_opening(struct curl_client *c)
{
	int64_t until_ns = opening_until_ns(c);

	if (until_ns <= clock_mono(&clock_real))
		return false;
	c->gate_ns = until_ns;
	return true;
}

/* NULL: nobody waits, or only those who tell while others do. */
static struct job_list *
next_in_turn(struct curl_client *c)
{
	if (c->work.head)
		return &c->work;
	if (!c->background.head || c->n_running_work > 0 || c->is_telling || is_opening(c))
		return NULL;
	return &c->background;
}

static void
start_waiting(struct curl_client *c)
{
	struct job_list *list;

	c->gate_ns = CLOCK_FOREVER;
	while ((list = next_in_turn(c))) {
		if (!enter(c, list->head))
			return;
		if (list == &c->work)
			c->n_running_work++;
		else
			c->is_telling = true;
		list->head->response->waited_ns = clock_mono(&clock_real) -
		                                  list->head->submitted_ns;
		start_job(c, list_remove(list, &list->head));
	}
}

/* ---- the end of a transfer ---- */

static bool
may_replay(const struct job *job)
{
	return !job->is_replayed && (job->method == HTTP_GET || job->can_replay);
}

static void
transfer_ended(struct curl_client *c, struct transfer *transfer, CURLcode code)
{
	struct job *job = transfer->job;

	transfer_done(transfer);
	if (code == CURLE_OK) {
		end_running(c, job, true);
	} else if (may_replay(job) && transfer_broke_on_reuse(transfer, code)) {
		curl_multi_remove_handle(c->multi, transfer->easy);
		job->is_replayed = true;
		run_transfer(c, job, /*wants_fresh=*/true);
	} else {
		transfer_error(transfer, code);
		end_running(c, job, false);
	}
}

/* ---- other certificates ---- */

static void
retire(struct curl_client *c, bool ends_streams)
{
	for (struct job *job = c->running.head; job; job = job->next) {
		job->is_retired = job->stream && ends_streams;
		transfer_forbid_reuse(job->transfer);
	}
	c->is_retiring = true;
	c->retire_ns = clock_mono(&clock_real) + RETIRE_NS;
}

/* ---- what others ask for ---- */

static void
take_job(struct curl_client *c, struct job *job)
{
	if (job->stream)
		start_job(c, job);
	else
		list_add(job->class == HTTP_WORK ? &c->work : &c->background, job);
}

/* False when the thread is to end. */
static bool
take_inbox(struct curl_client *c)
{
	struct job_list inbox;
	bool is_stopping, wants_retire, ends_streams;

	mutex_lock(&c->mu);
	inbox = c->inbox;
	list_init(&c->inbox);
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
		retire(c, ends_streams);
	while (inbox.head)
		take_job(c, list_remove(&inbox, &inbox.head));
	return !is_stopping;
}

static bool
stopped(const struct job *job, const char *why, enum err_code code)
{
	return err_set(job->err, code, "%s %s%" STR_FMT ": %s", http_method_name(job->method),
	               job->client->shown_url, STR_ARG(job->target), why);
}

/* True with *job->err filled when the job is not to go on. */
static bool
must_end(const struct job *job, int64_t now_ns)
{
	if (job->wants_close || job->is_cancelled)
		return !stopped(job, "cancelled", ERR_CANCELLED);
	if (job->is_retired)
		return !stopped(job, "ended, since our certificates were replaced",
		                ERR_UNAVAILABLE);
	if (fence_left_ns(job) == 0)
		return !stopped(job, "not the leader any more", ERR_CANCELLED);
	if (now_ns < job->deadline_ns)
		return false;
	if (!job->transfer)
		return !stopped(job, "timed out while waiting for its turn", ERR_TIMEOUT);
	return !stopped(job, "no answer in time", ERR_TIMEOUT);
}

static void
end_late_waiting(struct job_list *list, int64_t now_ns)
{
	for (struct job **link = &list->head; *link;) {
		if (must_end(*link, now_ns))
			hand_back(list_remove(list, link), false);
		else
			link = &(*link)->next;
	}
}

/* What waits to be delivered is delivered in here. */
static void
resume(struct curl_client *c, struct job *job)
{
	CURLcode code = curl_easy_pause(job->transfer->easy, CURLPAUSE_CONT);

	if (code != CURLE_OK)
		transfer_ended(c, job->transfer, code);
}

static void
look_at_running(struct curl_client *c, int64_t now_ns)
{
	for (struct job *job = c->running.head, *next; job; job = next) {
		next = job->next;
		if (must_end(job, now_ns))
			end_running(c, job, false);
		else if (job->wants_resume && atomic_exchange(&job->wants_resume, false))
			resume(c, job);
	}
}

static void
look_at_jobs(struct curl_client *c)
{
	int64_t now_ns = clock_mono(&clock_real);

	end_late_waiting(&c->work, now_ns);
	end_late_waiting(&c->background, now_ns);
	look_at_running(c, now_ns);
}

/* ---- what libcurl has done ---- */

static void
free_sweeper(struct curl_client *c)
{
	if (!c->sweeper)
		return;
	curl_multi_remove_handle(c->multi, c->sweeper);
	curl_easy_cleanup(TAKE(c->sweeper));
}

static void
message(struct curl_client *c, CURL *easy, CURLcode code)
{
	struct transfer *transfer = NULL;

	if (easy == c->sweeper) {
		free_sweeper(c);
		c->is_retiring = c->retire_ns != CLOCK_FOREVER;
		return;
	}
	curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
	transfer_ended(c, transfer, code);
}

/* Runs until nothing more is to be done at once: what ends makes room at the gate. */
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
			message(c, msg->easy_handle, msg->data.result);
			has_ended = true;
		}
	} while (has_ended && (c->work.head || c->background.head));
}

/* Lets go of what a burst left behind, first of what costs nothing to have again: each handle has
 * buffers of 32 kB. */
static void
rest(struct curl_client *c)
{
	if (clock_mono(&clock_real) < c->rest_ns)
		return;
	c->rest_ns = CLOCK_FOREVER;
	free_spare(c);
	alloc_trim();
}

/* Then of connections and their TLS state. */
static void
sweep(struct curl_client *c)
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

/* ---- the loop ---- */

static int64_t
earliest_deadline(const struct job_list *list, int64_t now_ns, int64_t at_ns)
{
	for (const struct job *job = list->head; job; job = job->next) {
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

	if (c->rest_ns < at_ns)
		at_ns = c->rest_ns;
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

/* True when the thread may sleep: from now on it must be woken. */
static bool
start_polling(struct curl_client *c)
{
	WITH_LOCK(&c->mu);

	c->is_polling = !c->is_poked;
	return c->is_polling;
}

static void
wait_for_work(struct curl_client *c)
{
	events_wait(c, start_polling(c) ? wait_ms(c) : 0);
}

static void
tell_readers(struct curl_client *c)
{
	for (struct job *job = c->running.head; job; job = job->next) {
		if (job->stream)
			stream_notify(job->stream);
	}
}

/* ---- what it is doing, for others ---- */

static void
show(unsigned _Atomic *at, unsigned n)
{
	atomic_store_explicit(at, n, memory_order_relaxed);
}

static void
show_state(struct curl_client *c)
{
	int64_t now_ns = clock_mono(c->clock);

	atomic_store(&c->last_turn_ns, now_ns);
	watchdog_promise(clock_deadline(now_ns, HTTP_LONGEST_WAIT_NS));
	show(&c->shown.limit, c->gate.limit);
	show(&c->shown.n_running, c->gate.n_running);
	show(&c->shown.n_work, c->work.n);
	show(&c->shown.n_background, c->background.n);
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
run(void *arg)
{
	struct curl_client *c = arg;

	while (take_inbox(c)) {
		show_state(c);
		look_at_jobs(c);
		rest(c);
		sweep(c);
		perform(c);
		tell_readers(c);
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
	c->rest_ns = CLOCK_FOREVER;
	c->sweep_ns = CLOCK_FOREVER;
	c->retire_ns = CLOCK_FOREVER;
	c->last_turn_ns = clock_mono(c->clock);
	init_metrics(c, name);
	events_start(c);
	thread_start(&c->thread, name, run, c);
}

/* Called under mu. True when the thread must be woken. */
static bool
poke(struct curl_client *c)
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
	must_wake = poke(c);
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
	must_wake = poke(c);
	mutex_unlock(&c->mu);
	if (must_wake)
		events_wake(c);
}
