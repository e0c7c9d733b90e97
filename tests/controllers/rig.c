/* tests/controllers/rig.c: see rig.h. */
#include "controllers/rig.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "controllers/node_errors.h"
#include "controllers/writes.h"
#include "controllers/pace.h"
#include "kube/service.h"
#include "fake_clock.h"

enum {
	DEFAULT_AGE_S = 3600,
	MAX_WAITERS = 100,
};

/* ---- the clock ---- */

struct rig_clock {
	struct clock clock;
	struct clock *fake;
	pthread_mutex_t mu;
	int64_t deadlines_ns[MAX_WAITERS]; /* mu */
	size_t n;                          /* mu */
};

static struct rig_clock *
rig_clock_of(struct clock *c)
{
	return CONTAINER_OF(c, struct rig_clock, clock);
}

static int64_t
mono_ns(struct clock *c)
{
	return clock_mono(rig_clock_of(c)->fake);
}

static int64_t
boot_ns(struct clock *c)
{
	return clock_boot(rig_clock_of(c)->fake);
}

static int64_t
wall_ns(struct clock *c)
{
	return clock_wall(rig_clock_of(c)->fake);
}

static void
note_deadline(struct rig_clock *c, int64_t deadline_ns)
{
	WITH_LOCK(&c->mu);

	if (c->n == MAX_WAITERS)
		abort();
	c->deadlines_ns[c->n++] = deadline_ns;
}

static void
drop_deadline(struct rig_clock *c, int64_t deadline_ns)
{
	size_t i = 0;
	WITH_LOCK(&c->mu);

	while (c->deadlines_ns[i] != deadline_ns)
		i++;
	c->deadlines_ns[i] = c->deadlines_ns[--c->n];
}

static bool
wait(struct clock *c, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns)
{
	bool is_early;

	note_deadline(rig_clock_of(c), deadline_ns);
	is_early = clock_wait(rig_clock_of(c)->fake, cond, mutex, deadline_ns);
	drop_deadline(rig_clock_of(c), deadline_ns);
	return is_early;
}

static struct rig_clock *
rig_clock_new(struct clock *fake)
{
	struct rig_clock *c = xcalloc(1, sizeof(*c));

	c->clock = (struct clock){ mono_ns, boot_ns, wall_ns, wait };
	c->fake = fake;
	mutex_init(&c->mu);
	return c;
}

static void
rig_clock_free(struct rig_clock *c)
{
	mutex_destroy(&c->mu);
	free(c);
}

/* The soonest that anybody waits for, or end_ns. */
static int64_t
next_deadline(struct rig_clock *c, int64_t end_ns)
{
	int64_t next_ns = end_ns;
	WITH_LOCK(&c->mu);

	for (size_t i = 0; i < c->n; i++) {
		if (c->deadlines_ns[i] < next_ns)
			next_ns = c->deadlines_ns[i];
	}
	return next_ns;
}

/* ---- the rig ---- */

struct rig *
rig_new(void)
{
	struct rig *r = xcalloc(1, sizeof(*r));
	struct clock *clock;

	r->node_kind = node_kind;
	r->fake = fake_clock_new(RIG_WALL_NS);
	r->watch = rig_clock_new(fake_clock_clock(r->fake));
	clock = r->clock = &r->watch->clock;
	r->api = fake_api_new();
	r->cloud = fake_cloud_new(clock);
	r->kube = (struct kube_client){ .http = fake_api_client(r->api),
		                        .clock = clock,
		                        .host = "api:6443" };
	r->cancel = cancel_new();
	r->call = (struct call){ .clock = clock,
		                 .cancel = r->cancel,
		                 .deadline_mono_ns = CLOCK_FOREVER,
		                 .arena = &r->arena };
	r->env = (struct controller_env){
		.clock = clock,
		.cancel = r->cancel,
		.kube = &r->kube,
		.nodes = store_new(&r->node_kind.kind, clock),
		.recorder = recorder_new(&r->kube, "", clock),
		.cloud = fake_cloud_cloud(r->cloud),
	};
	r->memory = controller_memory_new(&r->env);
	r->env.lookup = lookup_new(&(struct lookup_config){ r->env.cloud, r->env.nodes,
	                                                    r->env.event_dedup, clock, true });
	r->n_threads = 1; /* the recorder's */
	store_begin_list(r->env.nodes, /*is_newest=*/false);
	return r;
}

void
rig_free(struct rig *r)
{
	if (!r)
		return;
	if (r->nodes)
		queue_shut_down(node_controller_queue(r->nodes));
	if (r->balancing)
		queue_shut_down(service_controller_queue(r->balancing));
	cancel_fire(r->cancel);
	node_controller_free(r->nodes);
	lifecycle_controller_free(r->lifecycle);
	service_controller_free(r->balancing);
	route_controller_free(r->routing);
	lookup_free(r->env.lookup);
	controller_memory_free(r->memory);
	recorder_free(r->env.recorder, /*flush_ms=*/0);
	store_free(r->env.nodes);
	store_free(r->env.services);
	fake_services_free(r->services);
	fake_balancers_free(r->balancers);
	fake_routes_free(r->routes);
	cancel_free(r->cancel);
	fake_cloud_free(r->cloud);
	fake_api_free(r->api);
	rig_clock_free(r->watch);
	fake_clock_free(r->fake);
	arena_fini(&r->arena);
	free(r);
}

void
rig_start_nodes(struct rig *r, unsigned n_workers)
{
	r->nodes = node_controller_new(&r->env,
	                               &(struct node_controller_config){
					       .n_workers = n_workers,
					       .refresh_period_ns = RIG_REFRESH_S * NS_PER_SEC,
				       });
	r->n_threads += n_workers + 1; /* and the refresher */
}

static void
start_lifecycle(struct rig *r, const struct guard_config *guard, bool may_follow_crash)
{
	struct lifecycle_config config = { .guard = *guard, .may_follow_crash = may_follow_crash };

	r->lifecycle = lifecycle_controller_new(&r->env, &config);
	r->n_threads++;
}

void
rig_start_lifecycle(struct rig *r, const struct guard_config *guard)
{
	start_lifecycle(r, guard, /*may_follow_crash=*/false);
}

void
rig_start_lifecycle_after_crash(struct rig *r, const struct guard_config *guard)
{
	start_lifecycle(r, guard, /*may_follow_crash=*/true);
}

static void
on_service(void *arg, const struct object *old, const struct object *new)
{
	const struct rig *r = arg;
	bool is_gone = old && (!new || !str_eq(old->uid, new->uid));

	if (is_gone && r->on_removal)
		r->on_removal();
}

static void
start_services(struct rig *r, unsigned n_workers)
{
	r->env.services = store_new(&service_kind.kind, r->clock);
	store_add_handler(r->env.services, (struct store_handler){ on_service, r });
	store_begin_list(r->env.services, /*is_newest=*/false);
	r->balancing = service_controller_new(&r->env,
	                                      &(struct service_controller_config){
						      .n_workers = n_workers,
						      .cluster_name = "kubernetes",
						      .drift_period_ns = r->drift_period_ns,
					      });
	r->n_threads += n_workers;
	r->n_workers = n_workers;
}

void
rig_start_services(struct rig *r, unsigned n_workers, bool selects)
{
	r->services = fake_services_new(r->api);
	r->balancers = fake_balancers_new(r->clock);
	fake_cloud_offer_balancers(r->cloud, fake_balancers_ops(selects), r->balancers);
	start_services(r, n_workers);
}

static void
copy_nodes(struct rig *r, struct store *from)
{
	CLEANUP(store_list_free) struct store_list all = store_list(from);
	struct error err;

	for (size_t i = 0; i < all.n; i++) {
		if (!store_put(r->env.nodes, object_ref(all.objects[i]), &err))
			fail_msg("%s", err.msg);
	}
}

void
rig_restart_services(struct rig *r, unsigned n_workers)
{
	CLEANUP(store_freep) struct store *nodes = r->env.nodes;

	queue_shut_down(service_controller_queue(r->balancing));
	cancel_fire(r->cancel);
	service_controller_free(r->balancing);
	store_free(r->env.services);
	cancel_free(r->cancel);
	r->n_threads -= r->n_workers;
	r->env.cancel = r->call.cancel = r->cancel = cancel_new();
	r->env.nodes = store_new(&r->node_kind.kind, r->clock);
	store_begin_list(r->env.nodes, /*is_newest=*/false);
	start_services(r, n_workers);
	copy_nodes(r, nodes);
}

void
rig_sync_services(struct rig *r)
{
	fake_services_list(r->services, r->env.services);
	store_end_list(r->env.services);
	rig_sync(r);
}

void
rig_deliver(struct rig *r)
{
	do {
		rig_settle(r);
	} while (fake_services_deliver(r->services, r->env.services, SIZE_MAX) > 0);
}

void
rig_start_routes(struct rig *r, int64_t period_s, struct fake_routes_config config)
{
	config.clock = r->clock;
	r->routes = fake_routes_new(r->cloud, &config);
	assert_true(ip_net_parse(STR("10.244.0.0/16"), &r->cluster[0]));
	assert_true(ip_net_parse(STR("fd00:10::/32"), &r->cluster[1]));
	r->node_kind.keeps_routes = true;
	r->routing = route_controller_new(&r->env, &(struct route_controller_config){
							   .period_ns = period_s * NS_PER_SEC,
							   .cluster_cidrs = r->cluster,
							   .n_cluster_cidrs = 2,
						   });
	r->n_threads++;
}

/* ---- nodes ---- */

static const char *
or_else(const char *text, const char *otherwise)
{
	return text ? text : otherwise;
}

static void
add_metadata(struct buf *b, const struct rig_node *n)
{
	int64_t age_s = n->age_s ? n->age_s : DEFAULT_AGE_S;

	buf_addf(b, "{\"metadata\":{\"name\":\"%s\",\"uid\":\"", n->name);
	if (n->uid)
		buf_add_c(b, n->uid);
	else
		buf_addf(b, "u-%s", n->name);
	buf_addf(b, "\",\"resourceVersion\":\"%s\",\"creationTimestamp\":\"",
	         or_else(n->version, "7"));
	clock_format_rfc3339(b, RIG_WALL_NS - age_s * NS_PER_SEC, /*micros=*/false);
	buf_addf(b, "\",\"labels\":{%s},\"annotations\":{%s}", or_else(n->labels, ""),
	         or_else(n->annotations, ""));
	buf_addf(b, "%s}", n->is_deleting ? ",\"deletionTimestamp\":\"2026-01-02T03:00:00Z\"" : "");
}

static void
add_spec_and_status(struct buf *b, const struct rig_node *n)
{
	buf_add_c(b, ",\"spec\":{");
	if (n->provider_id)
		buf_addf(b, "\"providerID\":\"%s\",", n->provider_id);
	buf_addf(b, "\"taints\":[%s],\"podCIDRs\":[%s]},\"status\":{\"addresses\":[%s]",
	         or_else(n->taints, ""), or_else(n->pod_cidrs, ""), or_else(n->addresses, ""));
	buf_addf(
		b,
		",\"conditions\":[{\"type\":\"Ready\",\"status\":\"%s\",\"lastHeartbeatTime\":\"%s\"}",
		or_else(n->ready, "True"), or_else(n->heartbeat, "2026-01-02T02:59:00Z"));
	if (n->network)
		buf_addf(b, ",{\"type\":\"NetworkUnavailable\",%s}", n->network);
	buf_add_c(b, "]}}");
}

const char *
rig_json(struct rig *r, const struct rig_node *node)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIB(1));

	add_metadata(&b, node);
	add_spec_and_status(&b, node);
	return arena_strz(&r->arena, buf_str(&b));
}

struct node *
rig_parse(struct rig *r, const struct rig_node *node)
{
	struct object *object = NULL;
	struct error err;

	if (!object_parse(&r->node_kind.kind, str_c(rig_json(r, node)), &object, &err))
		fail_msg("%s", err.msg);
	return node_of(object);
}

void
rig_put(struct rig *r, const struct rig_node *node)
{
	struct error err;

	if (!store_put(r->env.nodes, &rig_parse(r, node)->object, &err))
		fail_msg("%s", err.msg);
}

void
rig_remove(struct rig *r, const char *name)
{
	CLEANUP(object_unrefp) struct object *last = store_get(r->env.nodes, str_c(name));

	assert_non_null(last);
	store_remove(r->env.nodes, last);
}

void
rig_sync(struct rig *r)
{
	store_end_list(r->env.nodes);
	rig_settle(r);
}

/* ---- time ---- */

void
rig_settle_with(struct rig *r, unsigned extra)
{
	fake_clock_settle(r->fake, r->n_threads + extra);
}

void
rig_settle(struct rig *r)
{
	rig_settle_with(r, 0);
}

void
rig_advance_ms(struct rig *r, int64_t ms)
{
	fake_clock_advance(r->fake, ms * NS_PER_MS);
	rig_settle(r);
}

void
rig_run(struct rig *r, int64_t seconds)
{
	int64_t end_ns = clock_mono(r->clock) + seconds * NS_PER_SEC;

	rig_settle(r);
	for (int64_t now_ns = clock_mono(r->clock); now_ns < end_ns;
	     now_ns = clock_mono(r->clock)) {
		fake_clock_advance(r->fake, next_deadline(r->watch, end_ns) - now_ns);
		rig_settle(r);
	}
}

/* ---- metrics ---- */

void
rig_assert_metric(struct rig *r, const char *series, int value)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_METRICS_TEXT);
	const char *line = arena_printf(&r->arena, "\n%s %d\n", series, value).ptr;

	metrics_write_page(&text, METRICS_MAIN, METRICS_TEXT);
	if (!strstr(text.ptr, line))
		fail_msg("no line%s", line);
}
