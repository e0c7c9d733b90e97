/* tests/simulation/evidence.c: what a replica must have seen before it deletes a Node.
 *
 * The process that deletes a Node must have asked the cloud about its machine at least twice, with
 * the right token, when the machine did not exist any more. Between the first and the last of these
 * requests lie at least 12 seconds, in which the kubelet sent no heartbeat. This is less than what
 * ccmd demands (src/controllers/lifecycle/guard.h), because the simulation does not know which
 * answers arrived. Without a provider ID the machine is only known by its name, so these requests
 * lie a quarter of an hour apart.
 *
 * Of the Nodes that are not announced to leave, a process deletes three within ten minutes so soon.
 * For another one these requests must be five minutes apart, and so they must for each Node in the
 * ten minutes after a process has taken the Lease of another that has not released it, because
 * nobody knows how many Nodes that one has deleted. */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "world.h"

#define LEAST_DISTANCE_NS (12 * NS_PER_SEC)
#define CHECK_NS (8 * NS_PER_SEC)      /* a check takes no longer, as a rule */
#define LEAST_AGE_NS (59 * NS_PER_SEC) /* times of creation have no fractions */
/* The requests of a look begin a few seconds after the look, and the replica's time is the look's.
 */
#define LATE_NS (20 * NS_PER_SEC)
#define NAMELESS_DISTANCE_NS (15 * MINUTE_NS - LATE_NS)
#define BREAKER_WINDOW_NS (10 * MINUTE_NS - LATE_NS)
#define BREAKER_DISTANCE_NS (5 * MINUTE_NS - LATE_NS)

enum {
	BREAKER_MIN = 3,
};

/* A request for a machine, or for all. */
struct look {
	unsigned replica, incarnation;
	int64_t sent_ns;
	int64_t hidden; /* the server that the API did not know at that time; 0: none */
	char target[100];
};

/* When a server was deleted, or lost its name. */
struct gone {
	int64_t id, at_ns;
	char name[24];
};

/* A Node that a replica has deleted, and that was not announced to leave. */
struct deletion {
	unsigned replica, incarnation;
	int64_t at_ns;
};

static struct deletion deletions[64]; /* a ring */
static size_t n_deletions;
/* When the Lease was taken from another replica; 0: it was free. */
static int64_t taken_ns[N_REPLICAS];

static struct look looks[4096]; /* a ring */
static size_t n_looks;
static struct gone gone[1024];
static size_t n_gone;

void
evidence_acted(const struct net_request *n, const struct server_response *r)
{
	struct look *look = &looks[n_looks % ARRAY_LEN(looks)];

	if (n->host != HOST_CLOUD || !world.sim->is_look ||
	    !world.sim->is_look(n->request->target) || (r->status != 200 && r->status != 404) ||
	    !world.sim->is_own_token(n->request->token))
		return;
	*look = (struct look){ n->replica->index, n->incarnation, n->sent_ns, 0, "" };
	if (world.cloud)
		look->hidden = hetzner_settings(world.cloud)->hidden_server;
	snprintf(look->target, sizeof(look->target), "%" STR_FMT, STR_ARG(n->request->target));
	n_looks++;
}

void
evidence_gone(int64_t server, struct str name)
{
	struct gone *one = &gone[n_gone % ARRAY_LEN(gone)];

	*one = (struct gone){ server, schedule_now_ns(), "" };
	snprintf(one->name, sizeof(one->name), "%" STR_FMT, STR_ARG(name));
	n_gone++;
}

/* Since when the machine has not existed: that with the ID, or without an ID that with the name. */
static int64_t
gone_since_ns(int64_t id, struct str name)
{
	int64_t since_ns = 0;

	for (size_t i = 0; i < n_gone && i < ARRAY_LEN(gone); i++) {
		bool is_this = id > 0 ? gone[i].id == id : str_eq_c(name, gone[i].name);

		if (is_this && gone[i].at_ns > since_ns)
			since_ns = gone[i].at_ns;
	}
	return since_ns;
}

/* Requests that were sent before this time do not count, because the kubelet has reported since.
 * The Lease is read at the end of a check: if it was renewed shortly before that, it is not renewed
 * between this check and the next one. */
static int64_t
last_heartbeat_ns(struct str name)
{
	int64_t last_ns = 0;

	for (size_t i = 0; i < world.n_machines; i++) {
		const struct machine *m = &world.machines[i];
		int64_t heard_ns = m->heard_ns;

		if (!str_eq_c(name, m->name))
			continue;
		if (m->is_leaving && m->first_read_ns > heard_ns &&
		    m->first_read_ns - CHECK_NS < heard_ns)
			heard_ns = m->first_read_ns - CHECK_NS;
		last_ns = heard_ns > last_ns ? heard_ns : last_ns;
	}
	return last_ns;
}

void
evidence_lease_changed(unsigned replica, struct str before, struct str after)
{
	if (after.len > 0 && !str_eq(before, after))
		taken_ns[replica] = before.len > 0 ? schedule_now_ns() : 0;
}

bool
node_is_announced(yyjson_val *node)
{
	yyjson_arr_iter iter = yyjson_arr_iter_with(json_at(node, "spec.taints"));
	struct str key = STR_EMPTY;
	yyjson_val *taint;

	while ((taint = yyjson_arr_iter_next(&iter))) {
		if (json_str(taint, "key", &key) == JSON_FOUND && str_eq_c(key, AUTOSCALER_TAINT))
			return true;
	}
	return json_at(node, "metadata.deletionTimestamp") != NULL;
}

/* Notes a deletion, and returns whether it needs more evidence than others. */
static bool
count_deletion(const struct replica *r)
{
	int64_t now_ns = schedule_now_ns();
	bool is_unknown = taken_ns[r->index] > 0 && now_ns - taken_ns[r->index] < BREAKER_WINDOW_NS;
	unsigned n = 0;

	for (size_t i = 0; i < n_deletions && i < ARRAY_LEN(deletions); i++)
		n += deletions[i].replica == r->index &&
		     deletions[i].incarnation == r->incarnation &&
		     now_ns - deletions[i].at_ns < BREAKER_WINDOW_NS;
	deletions[n_deletions++ % ARRAY_LEN(deletions)] = (struct deletion){ r->index,
		                                                             r->incarnation,
		                                                             now_ns };
	return n >= BREAKER_MIN || is_unknown;
}

static int64_t
age_of(yyjson_val *node)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	int64_t created_ns;

	if (!clock_parse_rfc3339(json_text_at(&arena, node, "metadata.creationTimestamp"),
	                         &created_ns))
		return 0;
	return WALL_START_NS + schedule_now_ns() - created_ns;
}

void
evidence_check(struct str token, const struct kube_model_object *node)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	const struct replica *r = replica_at(str_eq(token, STR("kube-b")) ? 1 : 0);
	yyjson_val *object = object_json(&arena, node);
	int64_t id = world.sim->number_of(json_text_at(&arena, object, "spec.providerID"));
	int64_t first_ns = CLOCK_FOREVER, last_ns = 0, since_ns, heard_ns;

	/* Somebody else has deleted it already, and it waits for a finalizer; or there is no API,
	 * and nobody sees what a replica has read. */
	if (!world.sim->is_look || json_at(object, "metadata.deletionTimestamp"))
		return;
	since_ns = gone_since_ns(id, node->name);
	heard_ns = last_heartbeat_ns(node->name);
	for (size_t i = 0; i < n_looks && i < ARRAY_LEN(looks); i++) {
		const struct look *look = &looks[i];

		if (look->replica != r->index || look->incarnation != r->incarnation ||
		    (look->sent_ns < since_ns && (id == 0 || look->hidden != id)) ||
		    look->sent_ns < heard_ns || !world.sim->is_about(look->target, id, node->name))
			continue;
		first_ns = look->sent_ns < first_ns ? look->sent_ns : first_ns;
		last_ns = look->sent_ns > last_ns ? look->sent_ns : last_ns;
	}
	/* a replica knows the age by its own clock */
	if (age_of(object) < LEAST_AGE_NS && r->wall_shift_ns <= 0)
		fail("node %" STR_FMT " is deleted, and is only %d s old", STR_ARG(node->name),
		     (int)(age_of(object) / NS_PER_SEC));
	if (first_ns == CLOCK_FOREVER || last_ns - first_ns < LEAST_DISTANCE_NS)
		fail("node %" STR_FMT " is deleted without two answers that its server is absent",
		     STR_ARG(node->name));
	else if (json_text_at(&arena, object, "spec.providerID").len == 0 &&
	         last_ns - first_ns < NAMELESS_DISTANCE_NS)
		fail("node %" STR_FMT ", which has no provider ID, is deleted too early",
		     STR_ARG(node->name));
	else if (!world.was_restored && /* else a Node may be deleted twice, and counts once */
	         !node_is_announced(object) && count_deletion(r) &&
	         last_ns - first_ns < BREAKER_DISTANCE_NS)
		fail("node %" STR_FMT " is deleted, although too many have been",
		     STR_ARG(node->name));
}
