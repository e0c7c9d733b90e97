/* tests/controllers/fake_routes.c: see fake_routes.h. */
#include "controllers/fake_routes.h"

#include <stdio.h>

#include "base/array.h"
#include "base/limits.h"
#include "base/thread.h"
#include "controllers/fake_cloud.h"

struct kept {
	char node[64], cidr[64];
	struct route route;
};

struct fake_routes {
	struct route_ops ops;
	struct fake_routes_config config;
	pthread_mutex_t mu;
	pthread_cond_t changed;
	struct kept **all;                /* mu */
	size_t n_all, cap_all;            /* mu */
	struct fake_fault *faults;        /* mu */
	size_t n_faults, cap_faults;      /* mu */
	char **calls;                     /* mu */
	size_t n_calls, cap_calls;        /* mu */
	unsigned n_running, most_at_once; /* mu */
	fake_reach_fn *reach;             /* mu */
	void *reach_arg;                  /* mu */
};

/* ---- what there is; all under mu ---- */

static void
copy(char *to, size_t size, struct str from)
{
	(void)snprintf(to, size, "%.*s", (int)from.len, from.ptr);
}

static struct kept *
find(struct fake_routes *fr, struct str node, struct str cidr)
{
	for (size_t i = 0; i < fr->n_all; i++) {
		if (str_eq_c(node, fr->all[i]->node) && str_eq_c(cidr, fr->all[i]->cidr))
			return fr->all[i];
	}
	return NULL;
}

static void
keep(struct fake_routes *fr, struct route route)
{
	struct kept *kept = xcalloc(1, sizeof(*kept));

	copy(kept->node, sizeof(kept->node), route.target_node);
	copy(kept->cidr, sizeof(kept->cidr), route.destination_cidr);
	route.target_node = str_c(kept->node);
	route.destination_cidr = str_c(kept->cidr);
	kept->route = route;
	ARRAY_PUSH(fr->all, fr->n_all, fr->cap_all, kept);
}

static void
drop(struct fake_routes *fr, const struct kept *kept)
{
	size_t i = 0;

	while (fr->all[i] != kept)
		i++;
	free(fr->all[i]);
	fr->all[i] = fr->all[--fr->n_all];
}

/* ---- calls ---- */

static bool
begins_like(const char *call, const char *begin)
{
	return !begin || str_starts(str_c(call), str_c(begin));
}

static const char *
note(struct fake_routes *fr, const char *op, struct str node, struct str cidr)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(1));
	char *copied;

	buf_addf(&text, "%s %" STR_FMT " %" STR_FMT, op, STR_ARG(node), STR_ARG(cidr));
	copied = xstrdup(text.ptr);
	ARRAY_PUSH(fr->calls, fr->n_calls, fr->cap_calls, copied);
	return copied;
}

static struct fake_fault
choose(struct fake_routes *fr, const char *call)
{
	for (size_t i = 0; i < fr->n_faults; i++) {
		struct fake_fault *fault = &fr->faults[i], chosen = *fault;

		if (!begins_like(call, fault->call))
			continue;
		if (fault->times > 0 && --fault->times == 0)
			memmove(fault, fault + 1, (--fr->n_faults - i) * sizeof(*fault));
		return chosen;
	}
	return (struct fake_fault){ .code = ERR_NONE };
}

static bool
hang(struct fake_routes *fr, struct call *call, struct error *err)
{
	while (fr->n_faults > 0) {
		if (cancel_is_fired(call->cancel))
			return err_set(err, ERR_CANCELLED, "cancelled");
		if (!clock_wait(fr->config.clock, &fr->changed, &fr->mu, call->deadline_mono_ns))
			return err_set(err, ERR_TIMEOUT, "the cloud does not answer");
	}
	return true;
}

/* Notes the call, and whether it fails. */
static bool
begin_locked(struct fake_routes *fr, struct call *call, const char *op, struct str node,
             struct str cidr, struct error *err)
{
	struct fake_fault fault;
	struct kept *kept;
	bool ok = true;
	WITH_LOCK(&fr->mu);

	if (++fr->n_running > fr->most_at_once)
		fr->most_at_once = fr->n_running;
	fault = choose(fr, note(fr, op, node, cidr));
	if (fr->reach && !fr->reach(fr->reach_arg, err))
		ok = false;
	else if (fault.hangs)
		ok = hang(fr, call, err);
	fr->n_running--;
	if (!ok || fault.code == ERR_NONE)
		return ok;
	kept = fault.is_late ? find(fr, node, cidr) : NULL; /* only removals can be late */
	if (kept)
		drop(fr, kept);
	err_set(err, fault.code, "the fake cloud fails");
	err->retry_after_ms = fault.retry_after_ms;
	return false;
}

static void
wake(void *arg)
{
	struct fake_routes *fr = arg;
	WITH_LOCK(&fr->mu);

	cond_broadcast(&fr->changed);
}

static bool
begin(struct fake_routes *fr, struct call *call, const char *op, struct str node, struct str cidr,
      struct error *err)
{
	WITH_HOOK(call->cancel, wake, fr);

	return begin_locked(fr, call, op, node, cidr, err);
}

static bool
list(struct cloud *cloud, struct call *call, struct route_list *ret, struct error *err)
{
	struct fake_routes *fr = fake_cloud_routes(cloud);

	if (!begin(fr, call, "list", STR_EMPTY, STR_EMPTY, err))
		return false;
	WITH_LOCK(&fr->mu);
	ret->routes = arena_calloc(call->arena, fr->n_all, sizeof(ret->routes[0]));
	ret->n = fr->n_all;
	for (size_t i = 0; i < fr->n_all; i++) {
		struct route *route = &ret->routes[i];

		*route = fr->all[i]->route;
		route->target_node = arena_str(call->arena, route->target_node);
		route->destination_cidr = arena_str(call->arena, route->destination_cidr);
	}
	return true;
}

static bool
create(struct cloud *cloud, struct call *call, const struct node_ref *node, struct str hint,
       struct str cidr, struct error *err)
{
	struct fake_routes *fr = fake_cloud_routes(cloud);

	if (!begin(fr, call, "create", node->name, cidr, err))
		return false;
	if (!str_eq(hint, node->uid))
		return err_set(err, ERR_INTERNAL, "the hint is not the node's UID");
	WITH_LOCK(&fr->mu);
	keep(fr, (struct route){ .target_node = node->name, .destination_cidr = cidr });
	return true;
}

static bool
remove_it(struct cloud *cloud, struct call *call, const struct route *route, struct error *err)
{
	struct fake_routes *fr = fake_cloud_routes(cloud);
	struct kept *kept;

	if (!begin(fr, call, "remove", route->target_node, route->destination_cidr, err))
		return false;
	WITH_LOCK(&fr->mu);
	kept = find(fr, route->target_node, route->destination_cidr);
	if (kept)
		drop(fr, kept);
	return true;
}

static unsigned
families(struct cloud *cloud)
{
	struct fake_routes *fr = fake_cloud_routes(cloud);

	return fr->config.families;
}

/* ---- life ---- */

struct fake_routes *
fake_routes_new(struct fake_cloud *cloud, const struct fake_routes_config *config)
{
	struct fake_routes *fr = xcalloc(1, sizeof(*fr));

	fr->config = *config;
	fr->ops = (struct route_ops){
		families,  config->compares_addresses, config->idle_period_ns, list, create,
		remove_it, /*check_create=*/NULL
	};
	mutex_init(&fr->mu);
	cond_init(&fr->changed);
	fake_cloud_offer_routes(cloud, &fr->ops, fr);
	return fr;
}

void
fake_routes_free(struct fake_routes *fr)
{
	if (!fr)
		return;
	fake_routes_forget_calls(fr);
	while (fr->n_all > 0)
		free(fr->all[--fr->n_all]);
	free(fr->all);
	free(fr->calls);
	free(fr->faults);
	cond_destroy(&fr->changed);
	mutex_destroy(&fr->mu);
	free(fr);
}

/* ---- what it is like, and was asked ---- */

void
fake_routes_add(struct fake_routes *fr, struct route route)
{
	WITH_LOCK(&fr->mu);

	keep(fr, route);
}

bool
fake_routes_has(struct fake_routes *fr, const char *node, const char *cidr)
{
	WITH_LOCK(&fr->mu);

	return find(fr, str_c(node), str_c(cidr)) != NULL;
}

size_t
fake_routes_count(struct fake_routes *fr)
{
	WITH_LOCK(&fr->mu);

	return fr->n_all;
}

void
fake_routes_fault(struct fake_routes *fr, struct fake_fault fault)
{
	WITH_LOCK(&fr->mu);

	ARRAY_PUSH(fr->faults, fr->n_faults, fr->cap_faults, fault);
}

void
fake_routes_reach(struct fake_routes *fr, fake_reach_fn *reach, void *arg)
{
	WITH_LOCK(&fr->mu);

	fr->reach = reach;
	fr->reach_arg = arg;
}

void
fake_routes_forget_faults(struct fake_routes *fr)
{
	WITH_LOCK(&fr->mu);

	fr->n_faults = 0;
	cond_broadcast(&fr->changed);
}

size_t
fake_routes_calls(struct fake_routes *fr, const char *begin)
{
	size_t n = 0;
	WITH_LOCK(&fr->mu);

	for (size_t i = 0; i < fr->n_calls; i++)
		n += begins_like(fr->calls[i], begin);
	return n;
}

const char *
fake_routes_nth(struct fake_routes *fr, size_t i)
{
	WITH_LOCK(&fr->mu);

	if (i < fr->n_calls)
		return fr->calls[i];
	(void)fprintf(stderr, "call %zu never happened\n", i);
	abort();
}

void
fake_routes_forget_calls(struct fake_routes *fr)
{
	WITH_LOCK(&fr->mu);

	while (fr->n_calls > 0)
		free(fr->calls[--fr->n_calls]);
}

unsigned
fake_routes_most_at_once(struct fake_routes *fr)
{
	WITH_LOCK(&fr->mu);

	return fr->most_at_once;
}
