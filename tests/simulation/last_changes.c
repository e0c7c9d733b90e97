/* tests/simulation/last_changes.c: what users change when all is settled.
 *
 * Faults, restarts and comparisons repair what ccmd has missed, so they hide it. Therefore nothing
 * fails here, except that responses to patches of Services are lost or are conflicts, and ccmd has
 * to follow within minutes. Some of these changes are made twice within the time of one attempt,
 * because then the second attempt begins before the watch has delivered the first one's writes.
 */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "world.h"

enum {
	N_CHANGES = 8,
	MAX_LATER = 30 * N_CHANGES,
	LOST = 200, /* of thousand patches */
	CONFLICTS = 100,
};

/* What follows a change. */
struct later {
	void (*fn)(struct later *);
	struct rng random;
	char name[24]; /* of a Service */
	int n_more;    /* how often it is repeated */
};

static struct later laters[MAX_LATER];
static size_t n_laters;

/* ---- requests of users ---- */

static const struct kube_model_object *
service_named(const char *name)
{
	return kube_model_find(world.kube, KUBE_MODEL_SERVICE, STR("default"), str_c(name));
}

static void
patch_service(const char *name, const char *patch)
{
	const struct kube_model_object *o = service_named(name);

	if (!o)
		return;
	trace("a user patches service %s: %s", name, patch);
	(void)kube_model_change(world.kube, "user", o, patch);
}

/* False: there are enough Services. */
static bool
find_free_name(char ret[24])
{
	for (int i = 0; i < MAX_SERVICES; i++) {
		snprintf(ret, 24, "s%d", i);
		if (!service_named(ret))
			return true;
	}
	return false;
}

#define OTHER_CLASS "\"loadBalancerClass\":\"example.com/other\","

/* more, spec: further members of the metadata, behind a comma, and of the spec, before one */
static void
create_service(const char *name, const char *more, const char *spec)
{
	char body[400];

	snprintf(
		body, sizeof(body),
		"{\"kind\":\"Service\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"%s\"%s},\"spec\":{"
		"%s\"type\":\"LoadBalancer\",\"ports\":[{\"port\":80,\"targetPort\":80}]}}",
		name, more, spec);
	trace("a user creates service %s = %d", name,
	      kube_model_request(world.kube,
	                         &(struct kube_model_request){
					 .user_agent = "user",
					 .method = "POST",
					 .target = "/api/v1/namespaces/default/services",
					 .body = str_c(body) },
	                         NULL));
}

static void
delete_service(const char *name)
{
	const struct kube_model_object *o = service_named(name);

	if (!o)
		return;
	trace("a user deletes service %s", name);
	(void)kube_model_delete(world.kube, "user", o);
}

#define NO_FINALIZERS "{\"metadata\":{\"finalizers\":null}}"

/* What people do when a Service does not go away. */
static void
delete_by_force(struct rng *r, const char *name)
{
	bool is_first = rng_chance(r, 500);

	if (is_first)
		delete_service(name);
	patch_service(name, NO_FINALIZERS);
	if (!is_first)
		delete_service(name);
}

/* ---- changes ---- */

static void
run_later(void *arg)
{
	struct later *later = arg;

	net_advance(HOST_KUBE);
	later->fn(later);
	net_arm(HOST_KUBE);
}

static void
after(int64_t ns, void (*fn)(struct later *), const char *name, int n_more, const struct rng *r)
{
	struct later *later = &laters[n_laters % ARRAY_LEN(laters)];

	n_laters++;
	*later = (struct later){ .fn = fn, .random = *r, .n_more = n_more };
	snprintf(later->name, sizeof(later->name), "%s", name);
	schedule_at(schedule_now_ns() + ns, run_later, later);
}

static void
remove_hostname(struct later *later)
{
	patch_service(later->name,
	              "{\"metadata\":{\"annotations\":{\"" HOSTNAME_ANNOTATION "\":null}}}");
}

static void
toggle_hostname(struct rng *r, const char *name)
{
	patch_service(name, "{\"metadata\":{\"annotations\":{\"" HOSTNAME_ANNOTATION
	                    "\":\"www.example.com\"}}}");
	after(rng_between(r, 0, 400) * NS_PER_MS, remove_hostname, name, 0, r);
}

static void
change_back(struct later *later)
{
	patch_service(later->name,
	              rng_chance(&later->random, 500)
	                      ? "{\"spec\":{\"type\":\"LoadBalancer\"}}"
	                      : "{\"spec\":{\"type\":\"LoadBalancer\",\"loadBalancerClass\":"
	                        "\"example.com/other\"}}");
	if (rng_chance(&later->random, 700))
		world_run_other();
}

static void
change_type(struct rng *r, const char *name)
{
	patch_service(name, TO_CLUSTER_IP);
	after(rng_between(r, 0, 2000) * NS_PER_MS, change_back, name, 0, r);
}

static void
lose_finalizer(struct rng *r, const char *name)
{
	patch_service(name, rng_chance(r, 500) ? NO_FINALIZERS
	                                       : "{\"metadata\":{\"finalizers\":null},\"spec\":{"
	                                         "\"type\":\"ClusterIP\"}}");
}

static void
replace_service(struct rng *r, const char *name)
{
	delete_by_force(r, name);
	if (rng_chance(r, 700))
		create_service(name, "", "");
}

/* While ccmd works on the Service, it is replaced, and replaced again. */
static void
replace_twice(struct later *later)
{
	delete_by_force(&later->random, later->name);
	create_service(later->name, "", "");
	delete_by_force(&later->random, later->name);
	if (rng_chance(&later->random, 700))
		create_service(later->name, "", "");
}

static void
replace_busy_service(struct rng *r, const char *name)
{
	patch_service(name, "{\"spec\":{\"ports\":[{\"port\":90,\"targetPort\":90}]}}");
	after(rng_between(r, 0, 400) * NS_PER_MS, replace_twice, name, 0, r);
}

static void
give_up_service(struct rng *r, const char *name)
{
	if (rng_chance(r, 600))
		delete_service(name);
	else
		patch_service(name, TO_CLUSTER_IP);
}

/* Another program writes to a Service of another class that is being deleted, again and again. */
static void
annotate(struct later *later)
{
	char patch[100];

	snprintf(patch, sizeof(patch), "{\"metadata\":{\"annotations\":{\"a\":\"%d\"}}}",
	         later->n_more);
	patch_service(later->name, patch);
	if (later->n_more > 0)
		after(NS_PER_SEC / 2, annotate, later->name, later->n_more - 1, &later->random);
}

static void
end_service_of_other(struct rng *r, const char *name)
{
	char one[24];

	(void)name;
	if (!find_free_name(one))
		return;
	create_service(one, ",\"finalizers\":[\"" FINALIZER "\"]", OTHER_CLASS);
	delete_service(one);
	after(NS_PER_SEC, annotate, one, 20, r);
}

static void
add_service(struct rng *r, const char *name)
{
	char one[24];

	(void)name;
	if (!find_free_name(one))
		return;
	create_service(one, "", "");
	if (rng_chance(r, 300))
		change_type(r, one);
}

static void
change_targets(struct rng *r, const char *name)
{
	const struct machine *m = &world.machines[rng_below(r, world.n_machines)];

	(void)name;
	if (rng_chance(r, 500) || !machine_node(m)) {
		world_add_machine();
		return;
	}
	trace("a user excludes node %s, or no longer", m->name);
	(void)kube_model_change(world.kube, "user", machine_node(m),
	                        world_is_target(m)
	                                ? "{\"metadata\":{\"labels\":{\"" EXCLUDED "\":\"true\"}}}"
	                                : "{\"metadata\":{\"labels\":{\"" EXCLUDED "\":null}}}");
}

/* ---- all of them ---- */

static const struct {
	void (*fn)(struct rng *, const char *name);
	unsigned weight, clouds; /* sim_cloud.bit; 0: all */
	bool needs_service;
} changes[] = {
	{ toggle_hostname, 4, 1, true },       { change_type, 3, 0, true },
	{ lose_finalizer, 2, 0, true },        { replace_service, 2, 0, true },
	{ replace_busy_service, 2, 0, true },  { give_up_service, 3, 0, true },
	{ end_service_of_other, 1, 0, false }, { add_service, 2, 0, false },
	{ change_targets, 2, 0, false },
};

/* A Service that wants a balancer; false: the one chosen does not. */
static bool
choose_service(struct rng *r, char name[24])
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	size_t n = kube_model_count(world.kube, KUBE_MODEL_SERVICE);
	const struct kube_model_object *o;
	yyjson_val *service;

	name[0] = '\0';
	if (n == 0)
		return false;
	o = kube_model_at(world.kube, KUBE_MODEL_SERVICE, rng_below(r, n));
	service = object_json(&arena, o);
	snprintf(name, 24, "%" STR_FMT, STR_ARG(o->name));
	return service_is_ours(service) && !json_at(service, "metadata.deletionTimestamp");
}

static unsigned
weight_of(size_t i)
{
	return changes[i].clouds == 0 || (changes[i].clouds & world.sim->bit) ? changes[i].weight
	                                                                      : 0;
}

static void
make_change(struct rng *r)
{
	unsigned total = 0, chosen;
	size_t i = 0;
	char name[24];
	bool has_service = choose_service(r, name);

	for (size_t k = 0; k < ARRAY_LEN(changes); k++)
		total += weight_of(k);
	chosen = (unsigned)rng_below(r, total);
	while (chosen >= weight_of(i))
		chosen -= weight_of(i++);
	if (has_service || !changes[i].needs_service)
		changes[i].fn(r, name);
}

void
last_changes_make(uint64_t seed)
{
	struct rng r = rng_of(seed, "last changes", 0);

	trace("the last changes begin");
	world.is_changing = true;
	net_faults(HOST_KUBE)->lost_patches = LOST;
	net_faults(HOST_KUBE)->conflicts = CONFLICTS;
	for (int i = 0; i < N_CHANGES && !failure(); i++) {
		schedule_run_until(schedule_now_ns() +
		                   rng_between(&r, NS_PER_SEC, 15 * NS_PER_SEC));
		net_advance(HOST_KUBE);
		net_advance(HOST_CLOUD);
		world.n_events++;
		make_change(&r);
		net_arm(HOST_KUBE);
		net_arm(HOST_CLOUD);
	}
	net_faults(HOST_KUBE)->lost_patches = net_faults(HOST_KUBE)->conflicts = 0;
}
