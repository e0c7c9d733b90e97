/* lb_evidence.c: see lb_evidence.h. */
#include "providers/hcloud/lb_evidence.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "providers/hcloud/client.h"

/* How long a search without result is valid. A Service whose own balancer is found again does not wait for its end. */
#define MISSING_NS (60 * NS_PER_SEC)

enum {
	MACHINES_ASKED = 3, /* one or two machines may be gone, all three seldom are */
	OTHERS_PAUSE_MS = 1000,
};

struct hz_evidence {
	struct hz_evidence_config config;
	pthread_mutex_t mu;
	bool is_asking;           /* mu; a thread is searching */
	bool is_missing;          /* mu; the last search found nothing */
	int64_t missing_until_ns; /* mu; mono: until when is_missing is valid */
};

/* ---- one look ---------------------------------------------------------------------------------------- */

/* An answer that the resource does not exist is no failure: *ret_is_found is false then. */
static bool
note_answer(bool is_found, bool *ret_is_found, struct error *err)
{
	*ret_is_found = is_found;
	return is_found || err->code == ERR_NOT_FOUND;
}

static bool
look_for_network(struct hz_evidence *ev, struct call *call, struct lb_evidence *found,
                 struct error *err)
{
	const struct hz_evidence_config *c = &ev->config;
	struct hz_network network;
	bool is_found;

	if (c->network == 0)
		return true;
	if (!hz_api_admit(c->api, HZ_URGENT, 1, err) ||
	    !note_answer(hz_get_network(c->api, call, call->arena, c->network, false, &network,
	                                err),
	                 &is_found, err))
		return err_wrap(err, "look for the network");
	found->n_networks += is_found && network.id == c->network;
	return true;
}

/* Chooses the ids of up to MACHINES_ASKED cloud servers that are nodes, Ready nodes first. */
static size_t
choose_machines(const struct hz_evidence *ev, struct arena *arena, int64_t ret[MACHINES_ASKED])
{
	const struct cloud_host *host = ev->config.host;
	struct node_ref *nodes;
	struct error ignored;
	size_t n_nodes, n = 0;

	host->nodes(host, arena, &nodes, &n_nodes);
	for (int is_ready = 1; is_ready >= 0; is_ready--) {
		for (size_t i = 0; i < n_nodes && n < MACHINES_ASKED; i++) {
			struct hz_id id;

			if (nodes[i].is_ready == (is_ready != 0) && nodes[i].provider_id.len > 0 &&
			    hz_id_parse(ev->config.config->dialect, nodes[i].provider_id, &id,
			                &ignored) &&
			    id.kind == HZ_CLOUD)
				ret[n++] = id.number;
		}
	}
	return n;
}

static bool
look_for_machines(struct hz_evidence *ev, struct call *call, struct lb_evidence *found,
                  struct error *err)
{
	struct hz_api *api = ev->config.api;
	int64_t ids[MACHINES_ASKED];
	size_t n = choose_machines(ev, call->arena, ids);

	for (size_t i = 0; i < n && found->n_machines == 0; i++) {
		struct hz_server server;
		bool is_found;

		if (!hz_api_admit(api, HZ_URGENT, 1, err) ||
		    !note_answer(hz_get_server(api, call, call->arena, ids[i], &server, err),
		                 &is_found, err))
			return err_wrap(err, "look for the machine of a node");
		found->n_machines += is_found;
	}
	return true;
}

static bool
has_any(const struct lb_evidence *found)
{
	return found->n_networks + found->n_machines + found->n_balancers > 0;
}

/* The cheapest request comes first; the first result ends the search. */
static bool
look_for_all(struct hz_evidence *ev, struct call *call, struct lb_evidence *found,
             struct error *err)
{
	if (!look_for_network(ev, call, found, err))
		return false;
	if (!has_any(found) && !look_for_machines(ev, call, found, err))
		return false;
	return has_any(found) ||
	       hz_lb_cache_count_ours(ev->config.cache, call, &found->n_balancers, err) ||
	       err_wrap(err, "look for load balancers of this cluster");
}

/* ---- one at a time ----------------------------------------------------------------------------------- */

enum turn {
	TURN_OURS,
	TURN_OTHERS,
	TURN_NEEDLESS, /* the last search found nothing, and is still valid */
};

static enum turn
take_turn(struct hz_evidence *ev)
{
	WITH_LOCK(&ev->mu);

	if (ev->is_missing && clock_mono(ev->config.host->clock) < ev->missing_until_ns)
		return TURN_NEEDLESS;
	if (ev->is_asking)
		return TURN_OTHERS;
	ev->is_asking = true;
	return TURN_OURS;
}

static void
end_turn(struct hz_evidence *ev, bool is_missing)
{
	WITH_LOCK(&ev->mu);

	ev->is_asking = false;
	ev->is_missing = is_missing;
	ev->missing_until_ns = clock_deadline(clock_mono(ev->config.host->clock), MISSING_NS);
}

bool
hz_evidence_look(struct hz_evidence *ev, struct call *call, struct lb_evidence *ret,
                 struct error *err)
{
	struct lb_evidence found = { 0 };
	enum turn turn = take_turn(ev);
	bool is_known;

	if (turn == TURN_OTHERS) {
		err_set(err, ERR_PENDING,
		        "the check whether this is the project of the cluster is running for another Service");
		err->retry_after_ms = OTHERS_PAUSE_MS;
		return false;
	}
	if (turn == TURN_OURS) {
		is_known = look_for_all(ev, call, &found, err);
		end_turn(ev, is_known && !has_any(&found));
		if (!is_known)
			return false;
	}
	*ret = found;
	return true;
}

/* ---- life cycle -------------------------------------------------------------------------------------- */

struct hz_evidence *
hz_evidence_new(const struct hz_evidence_config *config)
{
	struct hz_evidence *ev = xcalloc(1, sizeof(*ev));

	ev->config = *config;
	PTHREAD_OK(pthread_mutex_init(&ev->mu, NULL));
	return ev;
}

void
hz_evidence_free(struct hz_evidence *ev)
{
	if (!ev)
		return;
	PTHREAD_OK(pthread_mutex_destroy(&ev->mu));
	free(ev);
}
