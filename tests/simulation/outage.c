/* tests/simulation/outage.c: at the end of some histories, work fails or has to wait, and must be
 * done soon after.
 *
 * A user changes a port several times, and each time, the first action fails. The pauses between
 * the attempts do not become longer from change to change, because each change succeeds.
 *
 * Then the cloud cannot be reached for some time, and users create many Services meanwhile. When
 * it answers again, the Services do not wait one after the other (docs/operating.md, "Outages"). */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "world.h"

#define CHANGE_NS (40 * NS_PER_SEC) /* what a change takes */
#define OUTAGE_NS (100 * NS_PER_SEC)
#define PROBE_NS (40 * NS_PER_SEC) /* within this time, the cloud is asked again */
#define WORK_NS (16 * NS_PER_SEC)  /* what the Services take: they wait for many actions */

enum {
	N_SERVICES = 40,
	N_CHANGES = 7,
	RATE_LIMIT = 3600,
	LONGEST_ACTION_S = 2,
};

/* ---- failures ---- */

/* NULL: there is no Service with a load balancer. */
static const struct kube_model_object *
find_service(void)
{
	for (size_t i = 0; i < kube_model_count(world.kube, KUBE_MODEL_SERVICE); i++) {
		const struct kube_model_object *o = kube_model_at(world.kube, KUBE_MODEL_SERVICE,
		                                                  i);

		if (world.sim->count_balancers(o) > 0)
			return o;
	}
	return NULL;
}

static void
change_port(const struct kube_model_object *service, int port)
{
	char patch[200];

	snprintf(patch, sizeof(patch),
	         "{\"spec\":{\"ports\":[{\"name\":\"p\",\"protocol\":\"TCP\",\"port\":%d,"
	         "\"targetPort\":%d}]}}",
	         port, port);
	trace("a user changes the port of service %" STR_FMT ", the next action fails",
	      STR_ARG(service->name));
	hetzner_doom_actions(world.cloud, world.project, "add_service", HETZNER_FAILS, 1);
	net_advance(HOST_KUBE);
	(void)kube_model_change(world.kube, "user", service, patch);
	net_arm(HOST_KUBE);
}

static bool
settles_within(int64_t ns)
{
	CLEANUP(buf_fini) struct buf why = BUF_INIT(100000);
	int64_t last_ns = schedule_now_ns() + ns;

	while (!checks_is_settled(&why)) {
		if (schedule_now_ns() >= last_ns || failure())
			return false;
		buf_reset(&why);
		schedule_run_until(schedule_now_ns() + NS_PER_SEC);
	}
	return true;
}

static void
check_failures(void)
{
	for (int i = 0; i < N_CHANGES && find_service() && !failure(); i++) {
		change_port(find_service(), 8000 + i);
		if (!settles_within(CHANGE_NS) && !failure())
			fail("a change whose first action fails is not done after %d s",
			     (int)(CHANGE_NS / NS_PER_SEC));
		hetzner_forget_dooms(world.project);
	}
}

/* ---- an outage ---- */

static void
create_services(void)
{
	trace("users create %d services", N_SERVICES);
	net_advance(HOST_KUBE);
	for (int i = 0; i < N_SERVICES; i++) {
		CLEANUP(buf_fini) struct buf body = BUF_INIT(4096);

		buf_addf(
			&body,
			"{\"kind\":\"Service\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":"
			"\"many-%d\"},\"spec\":{\"type\":\"LoadBalancer\",\"ports\":[{\"protocol\":"
			"\"TCP\",\"port\":80,\"targetPort\":80}]}}",
			i);
		(void)kube_model_request(world.kube,
		                         &(struct kube_model_request){
						 .user_agent = "user",
						 .method = "POST",
						 .target = "/api/v1/namespaces/default/services",
						 .body = buf_str(&body) },
		                         NULL);
		world.n_events++;
	}
	net_arm(HOST_KUBE);
}

static void
cut_off(bool is_cut)
{
	for (unsigned i = 0; i < N_REPLICAS; i++)
		net_partition(replica_at(i), HOST_CLOUD, is_cut);
}

static size_t
count_waiting(void)
{
	size_t n = 0;

	for (size_t i = 0; i < kube_model_count(world.kube, KUBE_MODEL_SERVICE); i++) {
		CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
		const struct kube_model_object *o = kube_model_at(world.kube, KUBE_MODEL_SERVICE,
		                                                  i);

		n += str_starts(o->name, STR("many-")) &&
		     !json_at(object_json(&arena, o), "status.loadBalancer.ingress");
	}
	return n;
}

/* Waits until the cloud has answered, or for PROBE_NS. */
static void
wait_for_answer(void)
{
	int64_t last_ns = schedule_now_ns() + PROBE_NS;
	uint64_t n = bounds_n_served();

	while (schedule_now_ns() < last_ns && bounds_n_served() == n && !failure())
		schedule_run_until(schedule_now_ns() + NS_PER_SEC);
}

/* Slow actions, and lists of many pages, take longer. */
bool
outage_is_possible(void)
{
	const struct hetzner_settings *settings = world.cloud ? hetzner_settings(world.cloud)
	                                                      : NULL;

	return settings && settings->per_page_max == 0 &&
	       settings->action_max_ns <= LONGEST_ACTION_S * NS_PER_SEC;
}

void
outage_check(void)
{
	hetzner_set_rate_limit(world.cloud, world.project, RATE_LIMIT);
	check_failures();
	cut_off(true);
	create_services();
	schedule_run_until(schedule_now_ns() + OUTAGE_NS);
	cut_off(false);
	wait_for_answer();
	schedule_run_until(schedule_now_ns() + WORK_NS);
	if (count_waiting() > 0 && !failure())
		fail("%zu services wait %d s after the cloud has answered again", count_waiting(),
		     (int)(WORK_NS / NS_PER_SEC));
}
