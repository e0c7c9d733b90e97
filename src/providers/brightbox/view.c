/* view.c: see view.h. */
#include "providers/brightbox/view.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/thread.h"

enum {
	VIEW_MAX_AGE_MS = 10000,
};

struct bb_views {
	struct bb_client *client;
	struct clock *clock;
	pthread_mutex_t mu;
	pthread_cond_t read;  /* mu; a reading ended */
	struct bb_view *view; /* mu; the last one; NULL: none */
	uint64_t n_readings;  /* mu; that began: the number of the last one */
	uint64_t n_outdated;  /* mu; views with this number, or a lower one, are not used */
	bool is_reading;      /* mu */
	uint64_t failed;      /* mu; the number of the last reading that failed; 0: none */
	struct error failure; /* mu; of that one */
};

/* ---- a view ---- */

void
bb_view_unref(struct bb_view *view)
{
	if (!view || atomic_fetch_sub_explicit(&view->n_refs, 1, memory_order_acq_rel) > 1)
		return;
	arena_fini(&view->arena);
	free(view);
}

static struct bb_view *
bb_view_ref(struct bb_view *view)
{
	atomic_fetch_add_explicit(&view->n_refs, 1, memory_order_relaxed);
	return view;
}

static bool
bb_view_read(struct bb_client *client, const struct call *outer, struct bb_view **ret,
             struct error *err)
{
	CLEANUP(bb_view_unrefp) struct bb_view *view = xcalloc(1, sizeof(*view));
	struct call call = { outer->clock, outer->cancel, outer->deadline_mono_ns, &view->arena };

	atomic_init(&view->n_refs, 1);
	view->started_boot_ns = clock_boot(outer->clock);
	if (!bb_list_lbs(client, &call, &view->lbs, &view->n_lbs, err) ||
	    !bb_list_cloud_ips(client, &call, &view->cloud_ips, &view->n_cloud_ips, err) ||
	    !bb_list_groups(client, &call, &view->groups, &view->n_groups, err) ||
	    !bb_list_policies(client, &call, &view->policies, &view->n_policies, err))
		return false;
	*ret = TAKE(view);
	return true;
}

/* ---- finding ---- */

static struct str
bb_trim_name(struct str name)
{
	const struct str mark = STR("#type:container");

	name = str_trim(name);
	if (str_ends(name, mark))
		name = str_head(name, name.len - mark.len);
	return str_trim(name);
}

bool
bb_view_is_named(const struct bb_lb *lb, struct str name)
{
	return bb_lb_is_alive(lb) && str_eq(bb_trim_name(lb->name), bb_trim_name(name));
}

const struct bb_lb *
bb_view_next_lb(const struct bb_view *view, struct str name, const struct bb_lb *lb)
{
	for (size_t i = lb ? (size_t)(lb - view->lbs) + 1 : 0; i < view->n_lbs; i++) {
		if (bb_view_is_named(&view->lbs[i], name))
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

/* With mu held, which is released meanwhile. A reading that was cancelled or timed out has no
 * result for other callers. */
static bool
bb_views_read(struct bb_views *v, const struct call *call, struct error *err)
{
	struct bb_view *view = NULL;
	uint64_t number = ++v->n_readings;
	bool is_good;

	v->is_reading = true;
	mutex_unlock(&v->mu);
	is_good = bb_view_read(v->client, call, &view, err);
	mutex_lock(&v->mu);
	if (is_good) {
		view->number = number;
		bb_view_unref(v->view);
		v->view = view;
	} else if (err->code != ERR_CANCELLED && clock_mono(call->clock) < call->deadline_mono_ns) {
		v->failed = number;
		v->failure = *err;
	}
	v->is_reading = false;
	cond_broadcast(&v->read);
	return is_good;
}

/* With mu held. */
static bool
bb_views_wait(struct bb_views *v, const struct call *call, struct error *err)
{
	if (cancel_is_fired(call->cancel))
		return err_set(err, ERR_CANCELLED, "cancelled");
	return clock_wait(call->clock, &v->read, &v->mu, call->deadline_mono_ns) ||
	       err_set(err, ERR_TIMEOUT, "the lists of the account were not read in time");
}

static void
bb_views_wake(void *views)
{
	struct bb_views *v = views;
	WITH_LOCK(&v->mu);

	cond_broadcast(&v->read);
}

/* With mu held. */
static bool
bb_views_is_current(const struct bb_views *v, uint64_t after)
{
	int64_t age_ns;

	if (!v->view || v->view->number <= after || v->view->number <= v->n_outdated)
		return false;
	age_ns = clock_boot(v->clock) - v->view->started_boot_ns;
	return after > 0 || age_ns <= VIEW_MAX_AGE_MS * NS_PER_MS;
}

/* A caller takes the result of the first reading that began late enough, even if it is a failure.
 * It begins a reading if none is running, and waits for the end of one that began too early. */
bool
bb_views_get(struct bb_views *v, struct call *call, bool is_fresh, struct bb_view **ret,
             struct error *err)
{
	uint64_t after, last_failure;
	WITH_HOOK(call->cancel, bb_views_wake, v);
	WITH_LOCK(&v->mu);

	after = is_fresh ? v->n_readings : 0;
	last_failure = v->n_readings;
	while (!bb_views_is_current(v, after)) {
		if (v->failed > last_failure && v->failed > v->n_outdated) {
			*err = v->failure;
			return false;
		}
		if (v->is_reading ? !bb_views_wait(v, call, err) : !bb_views_read(v, call, err))
			return false;
	}
	*ret = bb_view_ref(v->view);
	return true;
}

void
bb_views_outdate(struct bb_views *v)
{
	WITH_LOCK(&v->mu);

	v->n_outdated = v->n_readings;
}

/* ---- life cycle ---- */

struct bb_views *
bb_views_new(struct bb_client *client, struct clock *clock)
{
	struct bb_views *v = xcalloc(1, sizeof(*v));

	v->client = client;
	v->clock = clock;
	mutex_init(&v->mu);
	cond_init(&v->read);
	return v;
}

void
bb_views_free(struct bb_views *v)
{
	if (!v)
		return;
	bb_view_unref(v->view);
	cond_destroy(&v->read);
	mutex_destroy(&v->mu);
	free(v);
}
