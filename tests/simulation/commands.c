/* tests/simulation/commands.c: at the end of a history, `ccmd doctor` finds no problem, and
 * `ccmd plan` has nothing to do.
 *
 * The commands are the real ones: the replica that does not lead stops, and its object runs
 * `ccmd doctor` and `ccmd plan` beside the leader. What only the commands ask of the API server is
 * answered here, because the model does not have it: reviews of rights (everything is allowed),
 * workloads (there are none), EndpointSlices (each Service has a ready endpoint on each node), and
 * lists of Events about a kind of objects.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "system.h"
#include "world.h"

#define LONGEST_NS (5 * MINUTE_NS)

/* ---- what the model of the API server does not have ---- */

static void
add_slice(struct buf *b, const struct kube_model_object *service)
{
	json_begin_object(b, NULL);
	buf_addf(b,
	         "\"metadata\":{\"name\":\"%" STR_FMT "-1\",\"namespace\":\"default\",\"labels\":"
	         "{\"kubernetes.io/service-name\":\"%" STR_FMT "\"}},\"addressType\":\"IPv4\"",
	         STR_ARG(service->name), STR_ARG(service->name));
	json_begin_array(b, "endpoints");
	for (size_t i = 0; i < kube_model_count(world.kube, KUBE_MODEL_NODE); i++) {
		json_begin_object(b, NULL);
		json_add_text(b, "nodeName", kube_model_at(world.kube, KUBE_MODEL_NODE, i)->name);
		buf_addf(b, ",\"addresses\":[\"192.0.2.9\"],\"conditions\":{\"ready\":true}");
		json_end_object(b);
	}
	json_end_array(b);
	json_end_object(b);
}

/* Events about a kind of objects: the model knows no field selectors. */
static void
add_events(struct buf *b, const char *kind)
{
	char about[60];

	snprintf(about, sizeof(about), "\"kind\":\"%s\"", kind);
	for (size_t i = 0; i < kube_model_count(world.kube, KUBE_MODEL_EVENT); i++) {
		struct str json = kube_model_at(world.kube, KUBE_MODEL_EVENT, i)->json;

		if (str_contains(json, str_c(about)))
			json_add_raw(b, NULL, json);
	}
}

static void
answer_list(struct server_response *r, struct str target)
{
	bool has_slices = str_contains(target, STR("/endpointslices"));

	r->status = 200;
	buf_add_c(&r->body,
	          "{\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[");
	for (size_t i = 0; has_slices && i < kube_model_count(world.kube, KUBE_MODEL_SERVICE); i++)
		add_slice(&r->body, kube_model_at(world.kube, KUBE_MODEL_SERVICE, i));
	if (str_starts(target, STR("/api/v1/events?")))
		add_events(&r->body, str_ends(target, STR("Node")) ? "Node" : "Service");
	buf_add_c(&r->body, "]}");
}

bool
commands_answer(const struct net_request *n, struct server_response *r)
{
	struct str target = n->request->target;

	if (!world.is_inspected || n->host != HOST_KUBE)
		return false;
	if (str_starts(target, STR("/apis/authorization.k8s.io/"))) {
		r->status = 201;
		buf_add_c(&r->body, "{\"status\":{\"allowed\":true}}");
	} else if (str_starts(target, STR("/apis/apps/")) ||
	           str_starts(target, STR("/apis/discovery.k8s.io/")) ||
	           str_starts(target, STR("/api/v1/events?"))) {
		answer_list(r, target);
	} else if (str_contains(target, STR("/pods")) ||
	           str_contains(target, STR("/serviceaccounts/"))) {
		r->status = 404;
		buf_add_c(&r->body, "{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":"
		                    "\"NotFound\",\"message\":\"not found\",\"code\":404}");
	} else {
		return false;
	}
	buf_add_c(&r->headers, "Content-Type: application/json\r\n");
	return true;
}

/* ---- running them ---- */

/* Waits until the replica has ended. */
static bool
wait_for_end(const struct replica *r)
{
	int64_t last_ns = schedule_now_ns() + LONGEST_NS;

	while (r->is_running && schedule_now_ns() < last_ns && !failure())
		schedule_run_until(schedule_now_ns() + NS_PER_SEC);
	return !r->is_running;
}

static void
run_command(struct replica *r, const char *command)
{
	struct str text;

	world_start(r, command);
	if (!wait_for_end(r)) {
		fail("ccmd %s has not ended after %d minutes", command,
		     (int)(LONGEST_NS / MINUTE_NS));
		return;
	}
	text = system_output(r->index);
	if (r->exit_status != 0)
		fail("ccmd %s exits with %d: %.*s", command, r->exit_status,
		     text.len > 2000 ? 2000 : (int)text.len, text.ptr);
}

/* Else the load balancers lead nowhere, because users have excluded all nodes, and doctor is right
 * to say so. */
static bool
has_target(void)
{
	for (size_t i = 0; i < world.n_machines; i++) {
		if (world_is_target(&world.machines[i]))
			return true;
	}
	return false;
}

void
commands_check(void)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct replica *r;

	if (!has_target())
		return;
	r = replica_at(str_starts(world_holder(&arena), STR("a_")) ? 1 : 0);
	trace("a person runs commands in place of %s", r->name);
	world.is_inspected = true;
	if (r->is_running)
		replica_signal(r, SIGTERM);
	if (!wait_for_end(r)) {
		fail("replica %s does not stop", r->name);
		return;
	}
	run_command(r, "doctor");
	if (!failure())
		run_command(r, "plan");
}
