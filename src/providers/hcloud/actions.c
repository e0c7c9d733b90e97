/* actions.c: see actions.h. */
#include "providers/hcloud/actions.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/watchdog.h"
#include "base/thread.h"

enum {
	ASKED_MAX = 25, /* ids in one request: a page of the API's usual size */
	PENDING_MS = 1000,
};

/* An action is asked for when it is so old, and again when it is twice as old. */
static const int64_t first_pause_ns = 100 * NS_PER_MS;
static const int64_t last_pause_ns = 5 * NS_PER_SEC;
static const int64_t longest_wait_ns = 300 * NS_PER_SEC;

/* Somebody who waits; on their stack, and in the list as long as they do. */
struct waiter {
	struct waiter *next;
	int64_t id;
	int64_t begun_ns, due_ns, end_ns; /* monotonic: due to be asked for; no longer waited for */
	bool is_over;
	bool is_good;     /* when it is over; else err says why not */
	struct error err; /* before: why there was no answer; ERR_NONE: there was */
};

struct hz_actions {
	struct hz_api *api;
	struct clock *clock;
	pthread_mutex_t mu;
	pthread_cond_t changed;
	struct waiter *waiters; /* mu */
	bool is_asking;         /* mu; one of them, without the lock */
};

/* ---- reading ---- */

/* docs/spec/hcloud.md, "Error texts" */
static bool
fail(yyjson_val *action, int64_t id, struct error *err)
{
	struct str code = STR("<unknown>"), message = STR("Unknown error");

	json_str(action, "error.code", &code);
	json_str(action, "error.message", &message);
	return err_set(err, hz_code_of(code, 0), "%" STR_FMT " (%" STR_FMT ", %" PRId64 ")",
	               STR_ARG(str_utf8_head(message, 300)),
	               STR_ARG(str_utf8_head(code, HZ_CODE_MAX)), id);
}

static bool
read_action(yyjson_val *action, struct hz_action *ret, struct error *err)
{
	struct hz_action read = { 0 };
	struct str status = STR_EMPTY;

	if (json_i64(action, "id", &read.id) != JSON_FOUND || read.id <= 0)
		return err_set(err, ERR_UNAVAILABLE,
		               "the Hetzner Cloud API gave an action without id");
	json_str(action, "status", &status);
	if (str_eq_c(status, "error"))
		return fail(action, read.id, err);
	read.is_over = str_eq_c(status, "success");
	*ret = read;
	return true;
}

bool
hz_action_read(yyjson_val *answer, struct hz_action *ret, struct error *err)
{
	yyjson_val *action = json_at(answer, "action");

	if (action)
		return read_action(action, ret, err);
	*ret = (struct hz_action){ .is_over = true };
	return true;
}

/* ---- starting ---- */

static void
set_code(struct hz_done *done, struct str code)
{
	snprintf(done->code, sizeof(done->code), "%" STR_FMT, STR_ARG(code));
}

bool
hz_change(struct hz_api *api, struct call *call, const struct hz_request *request,
          struct hz_answer *ret_answer, struct hz_done *ret_done, struct error *err)
{
	struct str code = STR_EMPTY;

	*ret_done = (struct hz_done){ .action = { .is_over = true } };
	if (!hz_api_do(api, call, request, ret_answer, err)) {
		set_code(ret_done, str_c(ret_answer->code));
		return false;
	}
	if (hz_action_read(hz_answer_root(ret_answer), &ret_done->action, err))
		return true;
	json_str(hz_answer_root(ret_answer), "action.error.code", &code);
	set_code(ret_done, code);
	return false;
}

/* ---- asking ---- */

struct asked {
	int64_t ids[ASKED_MAX]; /* ascending, each once */
	size_t n;
};

static bool
is_asked(const struct asked *asked, int64_t id)
{
	for (size_t i = 0; i < asked->n; i++) {
		if (asked->ids[i] == id)
			return true;
	}
	return false;
}

static void
add_id(struct asked *asked, int64_t id)
{
	size_t i = asked->n;

	if (asked->n == ASKED_MAX || is_asked(asked, id))
		return;
	for (; i > 0 && asked->ids[i - 1] > id; i--)
		asked->ids[i] = asked->ids[i - 1];
	asked->ids[i] = id;
	asked->n++;
}

/* Those that are due, and then as many others as there is room for: they cost nothing. */
static struct asked
pick(const struct hz_actions *a)
{
	int64_t now_ns = clock_mono(a->clock);
	struct asked asked = { .n = 0 };

	for (const struct waiter *w = a->waiters; w; w = w->next) {
		if (!w->is_over && w->due_ns <= now_ns)
			add_id(&asked, w->id);
	}
	for (const struct waiter *w = a->waiters; w; w = w->next) {
		if (!w->is_over)
			add_id(&asked, w->id);
	}
	return asked;
}

static bool
fetch(struct hz_actions *a, struct call *call, const struct asked *asked, struct hz_answer *ret,
      yyjson_val **ret_list, struct error *err)
{
	CLEANUP(buf_fini) struct buf target = BUF_INIT(LIMIT_HTTP_URL);
	struct hz_request how = { .endpoint = "/actions", .is_urgent = true };

	buf_add_c(&target, "/actions?");
	for (size_t i = 0; i < asked->n; i++)
		buf_addf(&target, "id=%" PRId64 "&", asked->ids[i]);
	buf_add_c(&target, "page=1&sort=status&sort=id");
	return hz_api_get(a->api, call, &target, how, ret, err) &&
	       hz_answer_list(ret, "actions", ret_list, err);
}

/* ---- what came of it: with mu held ---- */

static yyjson_val *
find_action(yyjson_val *list, int64_t wanted)
{
	yyjson_val *one;
	size_t i, n;

	yyjson_arr_foreach(list, i, n, one)
	{
		int64_t id;

		if (json_i64(one, "id", &id) == JSON_FOUND && id == wanted)
			return one;
	}
	return NULL;
}

static void
take_answer(struct waiter *w, yyjson_val *list)
{
	yyjson_val *found = find_action(list, w->id);
	struct hz_action action;

	w->err = (struct error){ .code = ERR_NONE };
	if (!found)
		err_set(&w->err, ERR_UNAVAILABLE, "actions not found: [%" PRId64 "]", w->id);
	else if (read_action(found, &action, &w->err))
		w->is_good = action.is_over;
	w->is_over = w->is_good || w->err.code != ERR_NONE;
}

/* Clouds have bad moments, and actions run on meanwhile. */
static bool
is_passing(enum err_code code)
{
	return code == ERR_UNAVAILABLE || code == ERR_TIMEOUT || code == ERR_CONFLICT;
}

static void
take_failure(struct waiter *w, const struct error *err)
{
	w->err = *err;
	w->is_over = !err->is_outage && !is_passing(err->code);
}

static void
plan_next(struct waiter *w, int64_t now_ns)
{
	int64_t pause_ns = now_ns - w->begun_ns;

	if (pause_ns < first_pause_ns)
		pause_ns = first_pause_ns;
	w->due_ns = now_ns + (pause_ns < last_pause_ns ? pause_ns : last_pause_ns);
	if (w->err.is_outage)
		w->due_ns = now_ns + w->err.retry_after_ms * NS_PER_MS;
}

/* list NULL: there was no answer, because of err. */
static void
notify_waiters(struct hz_actions *a, const struct asked *asked, yyjson_val *list,
               const struct error *err)
{
	for (struct waiter *w = a->waiters; w; w = w->next) {
		if (w->is_over || !is_asked(asked, w->id))
			continue;
		if (list)
			take_answer(w, list);
		else
			take_failure(w, err);
		plan_next(w, clock_mono(a->clock));
	}
}

/* Gives up the lock while it asks. */
static void
ask(struct hz_actions *a, struct call *call, struct waiter *own)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	struct asked asked = pick(a);
	yyjson_val *list = NULL;
	struct error err;

	a->is_asking = true;
	mutex_unlock(&a->mu);
	if (!fetch(a, call, &asked, &answer, &list, &err))
		list = NULL;
	mutex_lock(&a->mu);
	a->is_asking = false;
	/* nobody else is to stop because of that, and whoever is still there asks at once */
	if (!list && err.code == ERR_CANCELLED)
		take_failure(own, &err);
	else
		notify_waiters(a, &asked, list, &err);
	cond_broadcast(&a->changed);
}

/* ---- waiting: with mu held ---- */

static void
join(struct hz_actions *a, struct waiter *w)
{
	w->next = a->waiters;
	a->waiters = w;
	/* it may be due before those who wait already */
	cond_broadcast(&a->changed);
}

/* One of the others may have to ask now. */
static void
leave(struct hz_actions *a, const struct waiter *w)
{
	struct waiter **at = &a->waiters;

	while (*at != w) {
		assert(*at);
		at = &(*at)->next;
	}
	*at = w->next;
	cond_broadcast(&a->changed);
}

static int64_t
next_due(const struct hz_actions *a)
{
	int64_t due_ns = CLOCK_FOREVER;

	for (const struct waiter *w = a->waiters; w; w = w->next) {
		if (!w->is_over && w->due_ns < due_ns)
			due_ns = w->due_ns;
	}
	return due_ns;
}

static bool
set_pending(const struct waiter *w, int64_t now_ns, struct error *err)
{
	bool has_error = w->err.code != ERR_NONE;

	if (has_error && w->err.is_outage) {
		*err = w->err;
		return err_wrap(err, "action %" PRId64 " is still under way", w->id);
	}
	err_set(err, ERR_PENDING, "action %" PRId64 " is still under way%s%s", w->id,
	        has_error ? ": " : "", has_error ? w->err.msg : "");
	err->retry_after_ms = w->due_ns > now_ns ? (w->due_ns - now_ns) / NS_PER_MS + 1
	                                         : PENDING_MS;
	return false;
}

/* Will it not be heard of again in time? */
static bool
is_late(const struct hz_actions *a, const struct waiter *w, int64_t now_ns)
{
	return now_ns >= w->end_ns || (!a->is_asking && w->due_ns >= w->end_ns);
}

static bool
wait_over(struct hz_actions *a, struct call *call, struct waiter *w, struct error *err)
{
	while (!w->is_over) {
		int64_t now_ns = clock_mono(a->clock), due_ns = next_due(a);

		if (cancel_is_fired(call->cancel))
			return err_set(err, ERR_CANCELLED,
			               "cancelled while waiting for action %" PRId64, w->id);
		if (is_late(a, w, now_ns))
			return set_pending(w, now_ns, err);
		if (!a->is_asking && due_ns <= now_ns)
			ask(a, call, w);
		else
			clock_wait(a->clock, &a->changed, &a->mu,
			           a->is_asking ? w->end_ns : due_ns);
	}
	if (!w->is_good)
		*err = w->err;
	return w->is_good;
}

static void
wake_all(void *actions)
{
	struct hz_actions *a = actions;
	WITH_LOCK(&a->mu);

	cond_broadcast(&a->changed);
}

static bool
wait_locked(struct hz_actions *a, struct call *call, struct waiter *w, struct error *err)
{
	bool ok;
	WITH_LOCK(&a->mu);

	join(a, w);
	ok = wait_over(a, call, w, err);
	leave(a, w);
	return ok;
}

bool
hz_actions_wait(struct hz_actions *a, struct call *call, struct hz_action action, struct error *err)
{
	int64_t now_ns = clock_mono(a->clock), end_ns = now_ns + longest_wait_ns;
	struct waiter w = { .id = action.id,
		            .begun_ns = now_ns,
		            .due_ns = now_ns + first_pause_ns,
		            .end_ns = end_ns < call->deadline_mono_ns ? end_ns
		                                                      : call->deadline_mono_ns };
	WITH_HOOK(call->cancel, wake_all, a);

	if (action.is_over || action.id == 0)
		return true;
	watchdog_extend(w.end_ns);
	return wait_locked(a, call, &w, err);
}

/* ---- life cycle ---- */

struct hz_actions *
hz_actions_new(struct hz_api *api, struct clock *clock)
{
	struct hz_actions *a = xcalloc(1, sizeof(*a));

	a->api = api;
	a->clock = clock;
	mutex_init(&a->mu);
	cond_init(&a->changed);
	return a;
}

void
hz_actions_free(struct hz_actions *a)
{
	if (!a)
		return;
	cond_destroy(&a->changed);
	mutex_destroy(&a->mu);
	free(a);
}
