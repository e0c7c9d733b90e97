/* actions.c: see actions.h.
 *
 * A waiter is a record on the stack of a thread that waits, and in the list while it does:
 *
 * 	!is_over              due_ns says when the state of its action is read next: first after
 * 	                      100 ms, then after as long as it has waited already, 5 s at most
 * 	is_over && is_good    the action was carried out
 * 	is_over && !is_good   it failed, or its state cannot be read; err says why
 *
 * is_asking is set while one of the threads sends the request, without the lock. All others wait on
 * the condition variable until the request is done, the next waiter is due, or their wait ends. A
 * thread that leaves wakes the others, because it may be the one that would have sent the next
 * request.
 */
#include "providers/hcloud/actions.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/watchdog.h"
#include "base/thread.h"

enum {
	QUERY_MAX = 25, /* ids in one request: the API's default page size */
	PENDING_MS = 1000,
};

#define FIRST_PAUSE_NS (100 * NS_PER_MS)
#define LAST_PAUSE_NS (5 * NS_PER_SEC)
#define LONGEST_WAIT_NS (300 * NS_PER_SEC)

struct waiter {
	LIST_ENTRY(waiter) entry;
	int64_t id;       /* of the action */
	int64_t begun_ns; /* mono */
	int64_t due_ns;   /* mono; when the state is to be read */
	int64_t end_ns;   /* mono; when the wait ends */
	bool is_over;
	bool is_good;
	struct error err; /* of the last request, if it failed; else ERR_NONE */
};

struct hz_actions {
	struct hz_api *api;
	struct clock *clock;
	pthread_mutex_t mu;
	pthread_cond_t changed;
	LIST_HEAD(, waiter) waiters; /* mu */
	bool is_asking;              /* mu; a waiting thread is sending a request */
};

/* ---- reading ---- */

/* The text of a failed action is that of docs/spec/hcloud.md, "Error texts". */
static bool
hz_action_read_state(yyjson_val *action, struct hz_action *ret, struct error *err)
{
	struct str status = json_view(action, "status");
	struct str code = STR("<unknown>"), message = STR("Unknown error");
	struct hz_action read = { 0 };

	if (json_i64(action, "id", &read.id) != JSON_FOUND || read.id <= 0)
		return err_set(err, ERR_UNAVAILABLE,
		               "the Hetzner Cloud API returned an action without id");
	if (str_eq_c(status, "error")) {
		json_str(action, "error.code", &code);
		json_str(action, "error.message", &message);
		return err_set(err, hz_code_of(code, 0), "%" STR_FMT " (%" STR_FMT ", %" PRId64 ")",
		               STR_ARG(str_utf8_head(message, 300)),
		               STR_ARG(str_utf8_head(code, HZ_CODE_MAX)), read.id);
	}
	read.is_over = str_eq_c(status, "success");
	*ret = read;
	return true;
}

bool
hz_action_read(yyjson_val *answer, struct hz_action *ret, struct error *err)
{
	yyjson_val *action = json_at(answer, "action");

	if (action)
		return hz_action_read_state(action, ret, err);
	*ret = (struct hz_action){ .is_over = true };
	return true;
}

/* ---- starting ---- */

bool
hz_change(struct hz_api *api, struct call *call, const struct hz_request *request,
          struct hz_answer *ret_answer, struct hz_done *ret_done, struct error *err)
{
	struct str code = STR_EMPTY;

	*ret_done = (struct hz_done){ .action = { .is_over = true } };
	if (!hz_api_do(api, call, request, ret_answer, err))
		code = str_c(ret_answer->code);
	else if (hz_action_read(hz_answer_root(ret_answer), &ret_done->action, err))
		return true;
	else
		json_str(hz_answer_root(ret_answer), "action.error.code", &code);
	snprintf(ret_done->code, sizeof(ret_done->code), "%" STR_FMT, STR_ARG(code));
	return false;
}

/* ---- the request ---- */

/* The actions whose state one request reads. */
struct action_query {
	int64_t ids[QUERY_MAX]; /* ascending, each once */
	size_t n;
};

static bool
action_query_has(const struct action_query *query, int64_t id)
{
	for (size_t i = 0; i < query->n; i++) {
		if (query->ids[i] == id)
			return true;
	}
	return false;
}

static void
action_query_add(struct action_query *query, int64_t id)
{
	size_t i = query->n;

	if (query->n == QUERY_MAX || action_query_has(query, id))
		return;
	for (; i > 0 && query->ids[i - 1] > id; i--)
		query->ids[i] = query->ids[i - 1];
	query->ids[i] = id;
	query->n++;
}

/* The actions that are due come first. The rest of the request is filled with others, because the
 * number of ids does not change what a request costs. */
static struct action_query
hz_actions_make_query(const struct hz_actions *a)
{
	int64_t now_ns = clock_mono(a->clock);
	struct action_query query = { .n = 0 };
	const struct waiter *w;

	LIST_FOREACH(w, &a->waiters, entry)
	{
		if (!w->is_over && w->due_ns <= now_ns)
			action_query_add(&query, w->id);
	}
	LIST_FOREACH(w, &a->waiters, entry)
	{
		if (!w->is_over)
			action_query_add(&query, w->id);
	}
	return query;
}

static void
waiter_take_answer(struct waiter *w, yyjson_val *list)
{
	yyjson_val *one, *found = NULL;
	struct hz_action action;
	size_t i, n;

	yyjson_arr_foreach(list, i, n, one)
	{
		int64_t id;

		if (!found && json_i64(one, "id", &id) == JSON_FOUND && id == w->id)
			found = one;
	}
	w->err = (struct error){ .code = ERR_NONE };
	if (!found)
		err_set(&w->err, ERR_UNAVAILABLE, "actions not found: [%" PRId64 "]", w->id);
	else if (hz_action_read_state(found, &action, &w->err))
		w->is_good = action.is_over;
	w->is_over = w->is_good || w->err.code != ERR_NONE;
}

/* The wait continues if the failure is temporary: the action is carried out whether or not its
 * state can be read. */
static void
waiter_take_failure(struct waiter *w, const struct error *err)
{
	w->err = *err;
	w->is_over = !err->is_outage && err->code != ERR_UNAVAILABLE && err->code != ERR_TIMEOUT &&
	             err->code != ERR_CONFLICT;
}

static void
waiter_set_due(struct waiter *w, int64_t now_ns)
{
	int64_t pause_ns = clock_later(now_ns - w->begun_ns, FIRST_PAUSE_NS);

	w->due_ns = now_ns + clock_earlier(pause_ns, LAST_PAUSE_NS);
	if (w->err.is_outage)
		w->due_ns = now_ns + w->err.retry_after_ms * NS_PER_MS;
}

static bool
hz_actions_ask(struct hz_actions *a, struct call *call, const struct action_query *query,
               struct hz_answer *ret_answer, yyjson_val **ret_list, struct error *err)
{
	CLEANUP(buf_fini) struct buf target = BUF_INIT(LIMIT_HTTP_URL);
	struct hz_request how = { .is_urgent = true };

	buf_add_c(&target, "/actions?");
	for (size_t i = 0; i < query->n; i++)
		buf_addf(&target, "id=%" PRId64 "&", query->ids[i]);
	buf_add_c(&target, "page=1&sort=status&sort=id");
	how.target = buf_str(&target);
	return hz_api_do(a->api, call, &how, ret_answer, err) &&
	       hz_answer_list(ret_answer, "actions", ret_list, err);
}

/* Gives all waiters that the request was for the answer, or its failure if list is NULL. */
static void
hz_actions_notify_waiters(struct hz_actions *a, const struct action_query *query, yyjson_val *list,
                          const struct error *err)
{
	struct waiter *w;

	LIST_FOREACH(w, &a->waiters, entry)
	{
		if (w->is_over || !action_query_has(query, w->id))
			continue;
		if (list)
			waiter_take_answer(w, list);
		else
			waiter_take_failure(w, err);
		waiter_set_due(w, clock_mono(a->clock));
	}
}

/* Reads the states for all waiters; called with mu held, which is released during the request. */
static void
hz_actions_read_states(struct hz_actions *a, struct call *call, struct waiter *own)
{
	CLEANUP(hz_answer_fini) struct hz_answer answer = HZ_ANSWER_INIT;
	struct action_query query = hz_actions_make_query(a);
	yyjson_val *list = NULL;
	struct error err;
	bool ok;

	a->is_asking = true;
	mutex_unlock(&a->mu);
	ok = hz_actions_ask(a, call, &query, &answer, &list, &err);
	mutex_lock(&a->mu);
	a->is_asking = false;
	if (!ok && err.code == ERR_CANCELLED)
		waiter_take_failure(own, &err); /* another thread repeats the request */
	else
		hz_actions_notify_waiters(a, &query, ok ? list : NULL, &err);
	cond_broadcast(&a->changed);
}

/* ---- waiting ---- */

static bool
waiter_set_pending(const struct waiter *w, int64_t now_ns, struct error *err)
{
	bool has_error = w->err.code != ERR_NONE;

	if (has_error && w->err.is_outage) {
		*err = w->err;
		return err_wrap(err, "action %" PRId64 " is still under way", w->id);
	}
	return err_later(err, ERR_PENDING,
	                 w->due_ns > now_ns ? (w->due_ns - now_ns) / NS_PER_MS + 1 : PENDING_MS,
	                 "action %" PRId64 " is still under way%s%s", w->id, has_error ? ": " : "",
	                 has_error ? w->err.msg : "");
}

/* Called with mu held, which is released while it waits. */
static bool
hz_actions_wait_over(struct hz_actions *a, struct call *call, struct waiter *w, struct error *err)
{
	while (!w->is_over) {
		int64_t now_ns = clock_mono(a->clock), due_ns = CLOCK_FOREVER;
		const struct waiter *other;

		LIST_FOREACH(other, &a->waiters, entry)
		{
			if (!other->is_over && other->due_ns < due_ns)
				due_ns = other->due_ns;
		}
		if (cancel_is_fired(call->cancel))
			return err_set(err, ERR_CANCELLED,
			               "cancelled while waiting for action %" PRId64, w->id);
		/* it is over, or the next request for the state would be too late */
		if (now_ns >= w->end_ns || (!a->is_asking && w->due_ns >= w->end_ns))
			return waiter_set_pending(w, now_ns, err);
		if (!a->is_asking && due_ns <= now_ns)
			hz_actions_read_states(a, call, w);
		else
			clock_wait(a->clock, &a->changed, &a->mu,
			           a->is_asking ? w->end_ns : due_ns);
	}
	if (!w->is_good)
		*err = w->err;
	return w->is_good;
}

/* Called by the cancel token. */
static void
hz_actions_wake(void *actions)
{
	struct hz_actions *a = actions;
	WITH_LOCK(&a->mu);

	cond_broadcast(&a->changed);
}

bool
hz_actions_wait(struct hz_actions *a, struct call *call, struct hz_action action, int64_t max_ns,
                struct error *err)
{
	int64_t now_ns = clock_mono(a->clock), end_ns = clock_deadline(now_ns, max_ns);
	struct call brief = *call;
	struct waiter w = { .id = action.id,
		            .begun_ns = now_ns,
		            .due_ns = now_ns + FIRST_PAUSE_NS,
		            .end_ns = now_ns + LONGEST_WAIT_NS };
	bool ok;
	WITH_HOOK(call->cancel, hz_actions_wake, a);

	if (action.is_over || action.id == 0)
		return true;
	/* The requests for the state must not take longer, either. */
	brief.deadline_mono_ns = clock_earlier(brief.deadline_mono_ns, end_ns);
	w.end_ns = clock_earlier(w.end_ns, brief.deadline_mono_ns);
	watchdog_extend(w.end_ns);
	mutex_lock(&a->mu);
	LIST_INSERT_HEAD(&a->waiters, &w, entry);
	cond_broadcast(&a->changed); /* the new waiter may be due before all others */
	ok = hz_actions_wait_over(a, &brief, &w, err);
	LIST_REMOVE(&w, entry);
	cond_broadcast(&a->changed);
	mutex_unlock(&a->mu);
	return ok;
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
