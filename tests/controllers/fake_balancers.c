/* tests/controllers/fake_balancers.c: see fake_balancers.h. */
#include "controllers/fake_balancers.h"

#include <stdio.h>

#include "base/array.h"
#include "base/limits.h"
#include "base/thread.h"
#include "controllers/fake_cloud.h"

struct fake_balancers {
	struct clock *clock;
	pthread_mutex_t mu;
	pthread_cond_t changed;
	struct fake_balancer_state *all;     /* mu */
	size_t n_all, cap_all;               /* mu */
	struct fake_fault *faults;           /* mu */
	size_t n_faults, cap_faults;         /* mu */
	char **calls;                        /* mu */
	size_t n_calls, cap_calls;           /* mu */
	uint64_t *running;                   /* mu; hashes of UIDs */
	size_t n_running, cap_running;       /* mu */
	unsigned most_at_once, next_address; /* mu */
	fake_balancers_mood_fn *mood;        /* mu */
	void *mood_arg;                      /* mu */
	fake_reach_fn *reach;                /* mu */
	void *reach_arg;                     /* mu */
	char made[64];                       /* mu; whose creation was not reported */
	void (*on_make)(void *, const char *);
	void *on_make_arg;
};

static void
copy(char *to, size_t size, struct str from)
{
	(void)snprintf(to, size, "%.*s", (int)from.len, from.ptr);
}

#define COPY(array, from) copy(array, sizeof(array), from)

/* ---- what there is; all under mu ---- */

static struct fake_balancer_state *
find(struct fake_balancers *fb, struct str uid)
{
	for (size_t i = 0; i < fb->n_all; i++) {
		if (str_eq_c(uid, fb->all[i].uid))
			return &fb->all[i];
	}
	return NULL;
}

static struct fake_balancer_state *
make(struct fake_balancers *fb, const struct lb_spec *spec)
{
	struct fake_balancer_state b = { .exists = true };

	COPY(b.name, spec->service);
	COPY(b.uid, spec->uid);
	(void)snprintf(b.address, sizeof(b.address), "192.0.2.%u", ++fb->next_address % 250);
	COPY(fb->made, spec->uid);
	ARRAY_PUSH(fb->all, fb->n_all, fb->cap_all, b);
	return &fb->all[fb->n_all - 1];
}

static void
set_text(struct fake_balancer_state *b, char *text, size_t size, struct str wanted)
{
	if (str_eq_c(wanted, text))
		return;
	copy(text, size, wanted);
	b->n_changes++;
}

static void
set_nodes(struct fake_balancer_state *b, const struct lb_spec *spec)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(MIB(1));

	for (size_t i = 0; i < spec->n_nodes; i++)
		buf_addf(&text, "%" STR_FMT "=%" STR_FMT ",", STR_ARG(spec->nodes[i].name),
		         STR_ARG(spec->nodes[i].provider_id));
	set_text(b, b->nodes, sizeof(b->nodes), buf_str(&text));
}

static void
set_annotations(struct fake_balancer_state *b, const struct lb_spec *spec)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(MIB(1));

	for (size_t i = 0; i < spec->n_annotations; i++)
		buf_addf(&text, "%" STR_FMT "=%" STR_FMT ",", STR_ARG(spec->annotations[i].key),
		         STR_ARG(spec->annotations[i].value));
	set_text(b, b->annotations, sizeof(b->annotations), buf_str(&text));
}

static void
drop(struct fake_balancers *fb, struct fake_balancer_state *b)
{
	*b = fb->all[--fb->n_all];
}

/* ---- calls ---- */

static void
note(struct fake_balancers *fb, const char *op, const struct lb_spec *spec)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(MIB(1));
	char *copied;

	buf_addf(&text, "%s %" STR_FMT " %" STR_FMT " ", op, STR_ARG(spec->service),
	         STR_ARG(spec->uid));
	for (size_t i = 0; i < spec->n_nodes; i++)
		buf_addf(&text, "%" STR_FMT ",", STR_ARG(spec->nodes[i].name));
	copied = xstrdup(text.ptr);
	ARRAY_PUSH(fb->calls, fb->n_calls, fb->cap_calls, copied);
}

static void
enter(struct fake_balancers *fb, const struct lb_spec *spec)
{
	uint64_t hash = str_hash(spec->uid);

	for (size_t i = 0; i < fb->n_running; i++) {
		if (hash != fb->running[i])
			continue;
		(void)fprintf(stderr, "two calls for one Service at once\n");
		abort();
	}
	ARRAY_PUSH(fb->running, fb->n_running, fb->cap_running, hash);
	if (fb->n_running > fb->most_at_once)
		fb->most_at_once = (unsigned)fb->n_running;
}

static void
leave(struct fake_balancers *fb, const struct lb_spec *spec)
{
	size_t i = 0;

	while (str_hash(spec->uid) != fb->running[i])
		i++;
	fb->running[i] = fb->running[--fb->n_running];
}

static bool
begins_like(const char *call, const char *begin)
{
	return !begin || str_starts(str_c(call), str_c(begin));
}

/* The next fault for that call; without effect on what hangs, which stays. */
static bool
take_fault(struct fake_balancers *fb, const char *call, struct fake_fault *ret)
{
	for (size_t i = 0; i < fb->n_faults; i++) {
		struct fake_fault *fault = &fb->faults[i];

		if (!begins_like(call, fault->call))
			continue;
		*ret = *fault;
		if (fault->times > 0 && --fault->times == 0)
			memmove(fault, fault + 1, (--fb->n_faults - i) * sizeof(*fault));
		return true;
	}
	return false;
}

static struct fake_fault
choose(struct fake_balancers *fb, const char *call)
{
	struct fake_fault fault = { .code = ERR_NONE };

	if (!take_fault(fb, call, &fault) && fb->mood)
		fault.code = fb->mood(fb->mood_arg, call, &fault.is_late, &fault.retry_after_ms);
	return fault;
}

static bool
hang(struct fake_balancers *fb, struct call *call, struct error *err)
{
	while (fb->n_faults > 0) {
		if (cancel_is_fired(call->cancel))
			return err_set(err, ERR_CANCELLED, "cancelled");
		if (!clock_wait(fb->clock, &fb->changed, &fb->mu, call->deadline_mono_ns))
			return err_set(err, ERR_TIMEOUT, "the cloud does not answer");
	}
	return true;
}

static bool
fail(const struct fake_fault *fault, struct error *err)
{
	err_set(err, fault->code, "the fake cloud fails");
	err->retry_after_ms = fault->retry_after_ms;
	return false;
}

typedef bool operation(struct fake_balancers *fb, const struct lb_spec *spec, struct error *err);

static bool
run_locked(struct fake_balancers *fb, struct call *call, const char *op, const struct lb_spec *spec,
           operation *operate, struct error *err)
{
	struct fake_fault fault;
	bool ok = true;
	WITH_LOCK(&fb->mu);

	enter(fb, spec);
	note(fb, op, spec);
	fault = choose(fb, fb->calls[fb->n_calls - 1]);
	if (fb->reach)
		ok = fb->reach(fb->reach_arg, err);
	if (ok && fault.hangs)
		ok = hang(fb, call, err);
	if (ok && (fault.code == ERR_NONE || fault.is_late))
		ok = operate(fb, spec, err);
	if (ok && fault.code != ERR_NONE)
		ok = fail(&fault, err);
	leave(fb, spec);
	return ok;
}

static void
wake(void *arg)
{
	struct fake_balancers *fb = arg;
	WITH_LOCK(&fb->mu);

	cond_broadcast(&fb->changed);
}

static bool
run(struct cloud *cloud, struct call *call, const char *op, const struct lb_spec *spec,
    operation *operate, struct error *err)
{
	struct fake_balancers *fb = fake_cloud_balancers(cloud);
	WITH_HOOK(call->cancel, wake, fb);

	return run_locked(fb, call, op, spec, operate, err);
}

static bool
operate_ensure(struct fake_balancers *fb, const struct lb_spec *spec, struct error *err)
{
	struct fake_balancer_state *b = find(fb, spec->uid);

	(void)err;
	if (!b)
		b = make(fb, spec);
	set_annotations(b, spec);
	set_nodes(b, spec);
	return true;
}

/* Without the lock, because the function that is called may look at the balancers. */
static void
tell_made(struct fake_balancers *fb)
{
	char made[sizeof(fb->made)];

	mutex_lock(&fb->mu);
	memcpy(made, fb->made, sizeof(made));
	fb->made[0] = '\0';
	mutex_unlock(&fb->mu);
	if (fb->on_make && made[0] != '\0')
		fb->on_make(fb->on_make_arg, made);
}

static bool
operate_update(struct fake_balancers *fb, const struct lb_spec *spec, struct error *err)
{
	struct fake_balancer_state *b = find(fb, spec->uid);

	if (!b)
		return err_set(err, ERR_NOT_FOUND, "no such balancer");
	set_nodes(b, spec);
	return true;
}

static bool
operate_remove(struct fake_balancers *fb, const struct lb_spec *spec, struct error *err)
{
	struct fake_balancer_state *b = find(fb, spec->uid);

	(void)err;
	if (b)
		drop(fb, b);
	return true;
}

static bool
operate_nothing(struct fake_balancers *fb, const struct lb_spec *spec, struct error *err)
{
	(void)fb;
	(void)spec;
	(void)err;
	return true;
}

static bool
ensure(struct cloud *cloud, struct call *call, const struct lb_spec *spec, enum lb_outcome *ret,
       struct lb_status *ret_status, struct error *err)
{
	bool is_handled_by_other = lb_annotation(spec, "elsewhere") != NULL;
	struct fake_balancer_state b;
	struct lb_ingress *ingress;
	bool ok = run(cloud, call, "ensure", spec,
	              is_handled_by_other ? operate_nothing : operate_ensure, err);

	tell_made(fake_cloud_balancers(cloud));
	if (!ok)
		return false;
	*ret = is_handled_by_other ? LB_NOT_OURS : LB_DONE;
	if (is_handled_by_other)
		return true;
	if (lb_annotation(spec, "partial")) {
		*ret = LB_PARTIAL;
		err_set(err, ERR_INVALID, "a node is missing");
	}
	b = fake_balancers_get(fake_cloud_balancers(cloud), arena_strz(call->arena, spec->uid));
	ingress = ARENA_NEW(call->arena, struct lb_ingress);
	ingress->ip = arena_str(call->arena, str_c(b.address));
	ingress->ip_mode = LB_IP_MODE_VIP;
	*ret_status = (struct lb_status){ ingress, 1 };
	return true;
}

static bool
update_nodes(struct cloud *cloud, struct call *call, const struct lb_spec *spec, struct error *err)
{
	return run(cloud, call, "update", spec, operate_update, err);
}

static bool
remove_it(struct cloud *cloud, struct call *call, const struct lb_spec *spec, bool *ret_found,
          struct error *err)
{
	struct fake_balancers *fb = fake_cloud_balancers(cloud);

	*ret_found = fake_balancers_get(fb, arena_strz(call->arena, spec->uid)).exists;
	return run(cloud, call, "remove", spec, operate_remove, err);
}

static bool
adopt(struct cloud *cloud, struct call *call, const struct lb_spec *const specs[], size_t n,
      struct error *err)
{
	CLEANUP(buf_fini) struct buf uids = BUF_INIT(MIB(1));
	struct lb_spec all = { .service = STR("-") };

	for (size_t i = 0; i < n; i++)
		buf_addf(&uids, "%s%s%" STR_FMT ",", specs[i]->is_leaving ? "leaving:" : "",
		         specs[i]->n_ports + specs[i]->n_source_ranges == 0 ? "bare:" : "",
		         STR_ARG(specs[i]->uid));
	all.uid = buf_str(&uids);
	return run(cloud, call, "adopt", &all, operate_nothing, err);
}

static void
forget(struct cloud *cloud, struct str uid)
{
	struct fake_balancers *fb = fake_cloud_balancers(cloud);
	struct lb_spec spec = { .service = STR("-"), .uid = uid };
	WITH_LOCK(&fb->mu);

	note(fb, "forget", &spec);
}

static const void *
prepare_selection(struct cloud *cloud, const struct lb_spec *spec, struct arena *arena)
{
	(void)cloud;
	(void)arena;
	return lb_annotation(spec, "pool");
}

static bool
selects(struct cloud *cloud, const void *selection, const struct node_ref *node)
{
	const struct str *pool = selection;

	(void)cloud;
	for (size_t i = 0; pool && i < node->n_labels; i++) {
		if (str_eq_c(node->labels[i]->key, "pool"))
			return str_eq(node->labels[i]->value, *pool);
	}
	return !pool;
}

const struct balancer_ops *
fake_balancers_ops(bool with_selection)
{
	static const struct balancer_ops all = { .features = { LB_PASSES_ALL },
		                                 .ensure = ensure,
		                                 .update_nodes = update_nodes,
		                                 .remove = remove_it,
		                                 .adopt = adopt,
		                                 .finds_drift = true,
		                                 .forget = forget };
	static const struct balancer_ops some = { .features = { LB_PASSES_ALL },
		                                  .uses_addresses = true,
		                                  .selects = selects,
		                                  .prepare_selection = prepare_selection,
		                                  .ensure = ensure,
		                                  .update_nodes = update_nodes,
		                                  .remove = remove_it,
		                                  .adopt = adopt,
		                                  .forget = forget };

	return with_selection ? &some : &all;
}

/* ---- life ---- */

struct fake_balancers *
fake_balancers_new(struct clock *clock)
{
	struct fake_balancers *fb = xcalloc(1, sizeof(*fb));

	fb->clock = clock;
	mutex_init(&fb->mu);
	cond_init(&fb->changed);
	return fb;
}

static void
forget_calls(struct fake_balancers *fb)
{
	while (fb->n_calls > 0)
		free(fb->calls[--fb->n_calls]);
}

void
fake_balancers_free(struct fake_balancers *fb)
{
	if (!fb)
		return;
	forget_calls(fb);
	free(fb->calls);
	free(fb->all);
	free(fb->faults);
	free(fb->running);
	cond_destroy(&fb->changed);
	mutex_destroy(&fb->mu);
	free(fb);
}

/* ---- what goes wrong ---- */

void
fake_balancers_fault(struct fake_balancers *fb, struct fake_fault fault)
{
	WITH_LOCK(&fb->mu);

	ARRAY_PUSH(fb->faults, fb->n_faults, fb->cap_faults, fault);
}

void
fake_balancers_forget_faults(struct fake_balancers *fb)
{
	WITH_LOCK(&fb->mu);

	fb->n_faults = 0;
	cond_broadcast(&fb->changed);
}

void
fake_balancers_reach(struct fake_balancers *fb, fake_reach_fn *reach, void *arg)
{
	WITH_LOCK(&fb->mu);

	fb->reach = reach;
	fb->reach_arg = arg;
}

void
fake_balancers_mood(struct fake_balancers *fb, fake_balancers_mood_fn *mood, void *arg)
{
	WITH_LOCK(&fb->mu);

	fb->mood = mood;
	fb->mood_arg = arg;
}

void
fake_balancers_on_make(struct fake_balancers *fb, void (*fn)(void *arg, const char *uid), void *arg)
{
	WITH_LOCK(&fb->mu);

	fb->on_make = fn;
	fb->on_make_arg = arg;
}

/* ---- what it was asked, and has ---- */

size_t
fake_balancers_calls(struct fake_balancers *fb, const char *begin)
{
	size_t n = 0;
	WITH_LOCK(&fb->mu);

	for (size_t i = 0; i < fb->n_calls; i++)
		n += begins_like(fb->calls[i], begin);
	return n;
}

const char *
fake_balancers_last(struct fake_balancers *fb)
{
	WITH_LOCK(&fb->mu);

	if (fb->n_calls > 0)
		return fb->calls[fb->n_calls - 1];
	(void)fprintf(stderr, "no balancer was ever asked for\n");
	abort();
}

void
fake_balancers_forget_calls(struct fake_balancers *fb)
{
	WITH_LOCK(&fb->mu);

	forget_calls(fb);
}

unsigned
fake_balancers_most_at_once(struct fake_balancers *fb)
{
	WITH_LOCK(&fb->mu);

	return fb->most_at_once;
}

struct fake_balancer_state
fake_balancers_get(struct fake_balancers *fb, const char *uid)
{
	const struct fake_balancer_state *b;
	WITH_LOCK(&fb->mu);

	b = find(fb, str_c(uid));
	return b ? *b : (struct fake_balancer_state){ 0 };
}

size_t
fake_balancers_count(struct fake_balancers *fb)
{
	WITH_LOCK(&fb->mu);

	return fb->n_all;
}

size_t
fake_balancers_count_of(struct fake_balancers *fb, const char *name)
{
	size_t n = 0;
	WITH_LOCK(&fb->mu);

	for (size_t i = 0; i < fb->n_all; i++)
		n += str_eq_c(str_c(name), fb->all[i].name);
	return n;
}

void
fake_balancers_drop(struct fake_balancers *fb, const char *uid)
{
	struct fake_balancer_state *b;
	WITH_LOCK(&fb->mu);

	b = find(fb, str_c(uid));
	if (b)
		drop(fb, b);
}
