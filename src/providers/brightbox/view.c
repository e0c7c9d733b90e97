/* view.c: see view.h.
 *
 * Readings are the runs of a single flight, and a view has the number of its reading. A call gets
 * the result of the first reading that is new enough for it: the last one, the running one or the
 * next one. If the caller of that reading gave it up, or a change outdated it, a later one follows.
 */
#include "providers/brightbox/view.h"

#include "base/alloc.h"
#include "base/single_flight.h"
#include "base/thread.h"
#include "cloud/login.h"

struct bb_views {
	struct bb_client *client;
	struct clock *clock;
	struct single_flight flight; /* one reading at a time; mu below is its lock */
	struct bb_view *view;        /* mu; the last one; NULL: none */
	uint64_t n_outdated;         /* mu; views with this number, or a lower one, are not used */
	uint64_t failed_run;         /* mu; the last reading that failed; 0: none */
	struct error failure;        /* mu; of that reading */
};

/* ---- a view ---- */

void
bb_view_unref(struct bb_view *view)
{
	if (!view || !ref_drop(&view->refs))
		return;
	arena_fini(&view->arena);
	free(view);
}

static bool
bb_view_read(struct bb_client *client, const struct call *outer, struct bb_view **ret,
             struct error *err)
{
	CLEANUP(bb_view_unrefp) struct bb_view *view = xcalloc(1, sizeof(*view));
	struct call call = { .clock = outer->clock,
		             .cancel = outer->cancel,
		             .deadline_mono_ns = outer->deadline_mono_ns,
		             .arena = &view->arena };

	uint64_t since = login_count_replaced();

	ref_init(&view->refs);
	view->started_boot_ns = clock_boot(outer->clock);
	if (!bb_list_lbs(client, &call, &view->lbs, &view->n_lbs, err) ||
	    !bb_list_cloud_ips(client, &call, &view->cloud_ips, &view->n_cloud_ips, err) ||
	    !bb_list_groups(client, &call, &view->groups, &view->n_groups, err) ||
	    !bb_list_policies(client, &call, &view->policies, &view->n_policies, err) ||
	    !login_check_same(since, err)) /* lists of two accounts contradict each other */
		return false;
	*ret = TAKE(view);
	return true;
}

/* ---- finding ---- */

struct str
bb_trim_name(struct str name)
{
	const struct str mark = STR("#type:container");

	name = str_trim(name);
	if (str_ends(name, mark))
		name = str_head(name, name.len - mark.len);
	return str_trim(name);
}

bool
bb_is_same_name(struct str a, struct str b)
{
	return str_eq(bb_trim_name(a), bb_trim_name(b));
}

const struct bb_lb *
bb_view_next(const struct bb_view *view, struct str name, bool (*is_wanted)(const struct bb_lb *),
             const struct bb_lb *lb)
{
	for (size_t i = lb ? (size_t)(lb - view->lbs) + 1 : 0; i < view->n_lbs; i++) {
		if (is_wanted(&view->lbs[i]) && bb_is_same_name(view->lbs[i].name, name))
			return &view->lbs[i];
	}
	return NULL;
}

const struct bb_group *
bb_view_group(const struct bb_view *view, struct str name)
{
	for (size_t i = 0; i < view->n_groups; i++) {
		if (str_eq(view->groups[i].name, name))
			return &view->groups[i];
	}
	return NULL;
}

const struct bb_policy *
bb_view_policy(const struct bb_view *view, struct str name)
{
	for (size_t i = 0; i < view->n_policies; i++) {
		if (str_eq(view->policies[i].name, name))
			return &view->policies[i];
	}
	return NULL;
}

/* ---- sharing ---- */

/* Called with mu held, which is released meanwhile. A reading that was cancelled or timed out has
 * no result for other callers. */
static bool
bb_views_read(struct bb_views *v, const struct call *call, struct error *err)
{
	struct bb_view *view = NULL;
	uint64_t number = single_flight_next(&v->flight);
	bool is_good;

	single_flight_begin(&v->flight);
	mutex_unlock(&v->flight.mu);
	is_good = bb_view_read(v->client, call, &view, err);
	mutex_lock(&v->flight.mu);
	if (is_good) {
		view->number = number;
		bb_view_unref(v->view);
		v->view = view;
	} else if (err->code != ERR_CANCELLED && clock_mono(call->clock) < call->deadline_mono_ns) {
		v->failed_run = number;
		v->failure = *err;
	}
	single_flight_end(&v->flight);
	return is_good;
}

/* Called with mu held. Waits for a view with the number `first`, or a higher one, that shows all
 * changes. A view that the caller has waited for is used whatever its age is: if the API is slow,
 * the next one would be as old. */
static bool
bb_views_await(struct bb_views *v, const struct call *call, uint64_t first, struct error *err)
{
	bool is_turn;

	for (;;) {
		uint64_t needed = first > v->n_outdated ? first : v->n_outdated + 1;
		uint64_t run = single_flight_running(&v->flight);

		if (v->view && v->view->number >= needed)
			return true;
		if (v->failed_run >= needed) {
			*err = v->failure;
			return false;
		}
		if (run < needed)
			run = single_flight_next(&v->flight);
		if (!single_flight_wait(&v->flight, call, run, "the lists of the account", &is_turn,
		                        err) ||
		    (is_turn && !bb_views_read(v, call, err)))
			return false;
	}
}

bool
bb_views_get(struct bb_views *v, struct call *call, uint64_t first, struct bb_view **ret,
             struct error *err)
{
	WITH_HOOK(call->cancel, single_flight_wake, &v->flight);
	WITH_LOCK(&v->flight.mu);

	if (!bb_views_await(v, call, first, err))
		return false;
	ref_take(&v->view->refs);
	*ret = v->view;
	return true;
}

bool
bb_views_get_recent(struct bb_views *v, struct call *call, uint64_t seen, int64_t max_age_ns,
                    struct bb_view **ret, struct error *err)
{
	uint64_t first;
	bool is_recent;
	WITH_HOOK(call->cancel, single_flight_wake, &v->flight);
	WITH_LOCK(&v->flight.mu);

	is_recent = v->view && v->view->number > v->n_outdated && v->view->number > seen &&
	            clock_boot(v->clock) - v->view->started_boot_ns <= max_age_ns;
	first = single_flight_running(&v->flight);
	if (first == 0)
		first = single_flight_next(&v->flight);
	if (!is_recent && !bb_views_await(v, call, first, err))
		return false;
	ref_take(&v->view->refs);
	*ret = v->view;
	return true;
}

uint64_t
bb_views_next(struct bb_views *v)
{
	WITH_LOCK(&v->flight.mu);

	return single_flight_next(&v->flight);
}

void
bb_views_outdate(struct bb_views *v)
{
	WITH_LOCK(&v->flight.mu);

	v->n_outdated = single_flight_next(&v->flight) - 1;
}

/* ---- life cycle ---- */

struct bb_views *
bb_views_new(struct bb_client *client, struct clock *clock)
{
	struct bb_views *v = xcalloc(1, sizeof(*v));

	v->client = client;
	v->clock = clock;
	single_flight_init(&v->flight);
	return v;
}

void
bb_views_free(struct bb_views *v)
{
	if (!v)
		return;
	bb_view_unref(v->view);
	single_flight_fini(&v->flight);
	free(v);
}
