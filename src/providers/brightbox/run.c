/* run.c: see run.h. */
#include "providers/brightbox/run.h"

#include "base/limits.h"
#include "base/log.h"
#include "base/buf.h"
#include "cloud/login.h"
#include "providers/brightbox/servers.h"

enum {
	PASSES_MAX = 6,
};

/* The lists may show a change some seconds late. A change that they do not show after this time is
 * a failure. */
static const int64_t lag_ns = 10 * NS_PER_SEC;
/* When a Service has waited for this long, an event says for what. */
static const int64_t report_ns = 60 * NS_PER_SEC;

EVENT_KIND(
	unfinished_event, "cloud-controller-manager", "LoadBalancerUnfinished", true, "Service",
	"brightbox: the Service has waited for the cloud for a minute or longer; the message says for "
	"what, and what to do.");

/* ---- for steps ---- */

void
bb_run_warn(const struct bb_run *run, const struct event_kind *kind, struct str text)
{
	run->bb->host->service_event(run->bb->host, run->spec, HOST_EVENT_WARNING, kind->reason,
	                             text);
}

void
bb_run_await(struct bb_run *run, const struct bb_state *state)
{
	if (run->state.code != ERR_NONE)
		return;
	run->state = *state;
	if (run->state.hash == 0)
		run->state.hash = str_hash(state->text);
}

bool
bb_run_stop(struct bb_run *run, const struct bb_state *state, struct error *err)
{
	struct bb_state last = *state; /* may be run->state */

	run->state.code = ERR_NONE;
	bb_run_await(run, &last);
	run->ends_in_state = true;
	return err_set(err, last.code, "%" STR_FMT, STR_ARG(last.text));
}

/* ---- changes ---- */

#define ACCOUNT STR("account")  /* the object of refusals that concern all Services */
#define USE_SERVER "use server" /* the kind of refusals of servers that do not exist */

static struct bb_state
bb_refusal_state(const struct bb_run *run, const struct error *refusal)
{
	return (struct bb_state){ .code = refusal->code,
		                  .text = arena_str(run->call->arena, str_c(refusal->msg)),
		                  .first_ms = BB_LATER_MS };
}

/* The API refuses the whole change if one of its servers does not exist. If some of the desired
 * servers exist, which shows that the account is the right one, all Services leave out the others
 * for an hour. */
static bool
bb_run_leave_out_missing(struct bb_run *run)
{
	struct bb_desired *desired = &run->desired;
	struct bb_server *servers;
	struct str *ids, *missing;
	size_t n, n_ids = 0, n_missing;
	struct error why;

	if (!bb_list_servers(run->bb->client, run->call, &servers, &n, &why))
		return false;
	ids = arena_calloc(run->call->arena, n, sizeof(*ids));
	for (size_t i = 0; i < n; i++) {
		if (bb_server_exists(&servers[i]))
			ids[n_ids++] = servers[i].id;
	}
	n_missing = bb_missing(desired->servers, desired->n_servers, ids, n_ids, run->call->arena,
	                       &missing);
	if (n_missing == 0 || n_missing == desired->n_servers)
		return false;
	err_set(&why, ERR_NOT_FOUND, "the server does not exist");
	for (size_t i = 0; i < n_missing; i++) {
		log_warn("the server of a node does not exist, leaving it out of load balancers",
		         LOG_STR("server", missing[i]));
		refusals_note(run->bb->refusals, missing[i], USE_SERVER, 0, &why);
	}
	desired->n_servers = bb_missing(desired->servers, desired->n_servers, missing, n_missing,
	                                run->call->arena, &desired->servers);
	return true;
}

/* A request was refused. What is busy is tried again soon; other refusals hold for an hour, or
 * until the Service, or the number of such objects in the account, is another one. */
static bool
bb_run_refused(struct bb_run *run, const struct bb_change *change, uint64_t hash, struct error *err)
{
	struct bb_unsettled *u = run->unsettled;
	struct bb_state state;

	switch (err->code) {
	case ERR_CONFLICT:
		if (bb_unsettled_has_room(u, hash))
			bb_unsettled_note_sent(u, hash, clock_boot(run->call->clock), err->msg);
		break;
	case ERR_INVALID:
	case ERR_FORBIDDEN:
	case ERR_EXISTS:
	case ERR_UNSUPPORTED:
		if (err->code == ERR_INVALID && change->names_servers &&
		    bb_run_leave_out_missing(run))
			return true;
		if (err->code == ERR_FORBIDDEN && change->n_of_kind)
			refusals_note(run->bb->refusals, ACCOUNT, change->kind, *change->n_of_kind,
			              err);
		else
			refusals_note(run->bb->refusals, run->desired.name, change->kind,
			              hash ^ run->service_hash, err);
		break;
	default:
		return false;
	}
	state = bb_refusal_state(run, err);
	return bb_run_stop(run, &state, err);
}

bool
bb_run_change(struct bb_run *run, const struct bb_change *change, struct str *ret_id,
              struct error *err)
{
	const struct change *sends = &change->sends;
	struct bb_unsettled *u = run->unsettled; /* NULL in a dry run */
	uint64_t hash = str_hash(arena_printf(run->call->arena,
	                                      "%s/%" STR_FMT "/%" STR_FMT "/%" STR_FMT,
	                                      change->kind, STR_ARG(sends->id), STR_ARG(change->of),
	                                      STR_ARG(sends->body)));
	int64_t now_ns = clock_boot(run->call->clock);
	struct bb_state state;
	bool is_accepted;

	if (ret_id)
		*ret_id = STR_EMPTY;

	/* what was refused stays refused for a while; a removal removes the other objects */
	if (u && (refusals_find(run->bb->refusals, run->desired.name, change->kind,
	                        hash ^ run->service_hash, err) ||
	          (change->n_of_kind && refusals_find(run->bb->refusals, ACCOUNT, change->kind,
	                                              *change->n_of_kind, err)))) {
		state = bb_refusal_state(run, err);
		if (!run->is_removal)
			return bb_run_stop(run, &state, err);
		bb_run_await(run, &state);
		return true;
	}

	/* what was sent may still take effect, and only so much is sent without having one */
	if (u && !change->may_repeat) {
		const struct bb_sent *sent = bb_unsettled_need(u, hash, now_ns);

		state = (struct bb_state){ .code = ERR_PENDING,
			                   .text = change->missing,
			                   .advice = "Check it at Brightbox",
			                   .first_ms = BB_SOON_MS };
		if (sent && sent->refusal) {
			state.code = ERR_CONFLICT;
			state.text = arena_str(run->call->arena, str_c(sent->refusal));
		} else if (sent && !change->is_slow &&
		           (sent->is_repeated || now_ns - sent->boot_ns >= lag_ns)) {
			state.code = ERR_UNAVAILABLE;
		}
		if (sent || !bb_unsettled_has_room(u, hash)) {
			bb_run_await(run, &state);
			return true;
		}
	}

	run->has_difference = true;
	if (run->only_compares)
		return true;
	run->has_acted = true;
	is_accepted = bb_send(run->bb->client, run->call, sends, ret_id, err);
	if (!u)
		return is_accepted;
	if (is_accepted)
		call_note_change(run->call, change->kind);
	else if (err->code != change->done)
		return bb_run_refused(run, change, hash, err);
	run->has_missed |= !is_accepted && err->code == ERR_NOT_FOUND;
	if (!change->may_repeat)
		bb_unsettled_note_sent(u, hash, clock_boot(run->call->clock), NULL);
	return true;
}

bool
bb_run_destroy(struct bb_run *run, const char *what, const char *request, struct str id,
               const char *kind, struct str subject, struct error *err)
{
	struct bb_change change = {
		.sends = { .what = what, .request = request, .id = id },
		.kind = kind,
		.missing = arena_printf(run->call->arena,
		                        "%" STR_FMT
		                        " is still there although its deletion was accepted",
		                        STR_ARG(subject)),
		.done = ERR_NOT_FOUND,
	};

	return bb_run_change(run, &change, NULL, err);
}

struct str
bb_run_body(const struct bb_run *run, const struct bb_pair pairs[], size_t n)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);

	json_begin_object(&body, NULL);
	for (size_t i = 0; i < n; i++) {
		if (pairs[i].value.len > 0)
			json_add_text(&body, pairs[i].name, pairs[i].value);
	}
	json_end_object(&body);
	return arena_str(run->call->arena, buf_str(&body));
}

/* ---- a run ---- */

static void
bb_run_leave_out_refused(struct bb_run *run)
{
	struct bb_desired *desired = &run->desired;
	size_t n_kept = 0;
	struct error ignored;

	if (refusals_count(run->bb->refusals) == 0)
		return;
	for (size_t i = 0; i < desired->n_servers; i++) {
		if (!refusals_find(run->bb->refusals, desired->servers[i], USE_SERVER, 0, &ignored))
			desired->servers[n_kept++] = desired->servers[i];
	}
	desired->n_servers = n_kept;
}

static void
bb_run_hash_inputs(struct bb_run *run)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(SIZE_MAX / 2);
	const struct lb_spec *spec = run->spec;

	buf_addf(&text, "%d %d %d %d %d %" STR_FMT "\n", run->is_removal, spec->traffic,
	         spec->health_check_node_port, spec->has_client_ip_affinity,
	         spec->status.n_ingress > 0, STR_ARG(spec->wanted_ip));
	for (size_t i = 0; i < spec->n_annotations; i++)
		buf_addf(&text, "%" STR_FMT "=%" STR_FMT "\n", STR_ARG(spec->annotations[i].key),
		         STR_ARG(spec->annotations[i].value));
	for (size_t i = 0; i < spec->n_ports; i++)
		buf_addf(&text, "%" STR_FMT " %d %d %d\n", STR_ARG(spec->ports[i].name),
		         spec->ports[i].protocol, spec->ports[i].port, spec->ports[i].node_port);
	run->service_hash = str_hash(buf_str(&text));
	for (size_t i = 0; i < spec->n_nodes; i++)
		buf_addf(&text, "%" STR_FMT "\n", STR_ARG(spec->nodes[i].provider_id));
	run->inputs_hash = str_hash(buf_str(&text));
}

/* Did the last run of the same inputs end in a state? */
static bool
bb_run_is_waiting(const struct bb_run *run)
{
	const struct bb_unsettled *u = run->unsettled;

	return u && u->result.code != ERR_NONE && u->inputs == run->inputs_hash;
}

/* During the pause after the last run, the result is that of the last run. */
bool
bb_run_begin(struct bb_run *run, struct error *err)
{
	int64_t now_ns = clock_boot(run->call->clock), rest_ns;

	bb_run_leave_out_refused(run);
	if (run->call->dry)
		return true;
	bb_run_hash_inputs(run);
	if (!bb_unsettled_borrow(run->bb->unsettled, run->desired.name, run->spec->uid,
	                         &run->unsettled, err))
		return false;
	rest_ns = run->unsettled->next_boot_ns - now_ns;
	if (!bb_run_is_waiting(run) || rest_ns <= 0)
		return true;
	*err = run->unsettled->result;
	if (err->code == ERR_PENDING)
		err->retry_after_ms = (rest_ns + NS_PER_MS - 1) / NS_PER_MS;
	return false;
}

/* The view of a pass: one with the number `first` or a higher one, unless the pass is a trial of a
 * Service that has not changed, or a dry run. If the last run of the same inputs ended in a state,
 * the view of a trial has to be newer than the last one of that run, and may be as old as half of
 * the pause, so that Services that wait share views. */
static bool
bb_run_look(struct bb_run *run, uint64_t first, struct error *err)
{
	const struct bb_unsettled *u = run->unsettled;
	struct bb_views *views = run->bb->views;

	if (run->spec->is_changed || (!run->only_compares && !run->call->dry))
		return bb_views_get(views, run->call, first, &run->view, err);
	if (bb_run_is_waiting(run))
		return bb_views_get_recent(views, run->call, u->view, u->pause_ns / 2, &run->view,
		                           err);
	return bb_views_get_recent(views, run->call, 0, BB_VIEW_MAX_AGE_NS, &run->view, err);
}

bool
bb_run_converge(struct bb_run *run, bool (*pass)(struct bb_run *, struct error *),
                struct error *err)
{
	uint64_t first = bb_views_next(run->bb->views), since = login_count_replaced();
	struct bb_state state = { .code = ERR_PENDING,
		                  .text = STR("the cloud does not show all changes yet"),
		                  .first_ms = BB_SOON_MS };
	bool is_good;

	for (int i = 0; i < PASSES_MAX; i++) {
		bb_view_unref(TAKE(run->view));
		run->only_compares = i == 0;
		run->has_difference = false;
		run->state.code = ERR_NONE;
		if (!bb_run_look(run, first, err))
			return false;
		is_good = pass(run, err);
		if (run->unsettled) {
			run->unsettled->view = run->view->number;
			bb_unsettled_end_pass(run->unsettled, is_good);
		}
		if (run->has_difference && !run->only_compares && !run->call->dry)
			bb_views_outdate(run->bb->views);
		if (!is_good)
			return false;
		if (run->has_difference && !(run->call->dry && run->has_acted))
			continue;
		if (run->state.code ==
		    ERR_NONE) /* what was changed in one account is in no other */
			return login_check_same(since, err);
		return bb_run_stop(run, &run->state, err);
	}
	return bb_run_stop(run, &state, err);
}

/* Sends the event of a new state, or LoadBalancerUnfinished for a state that lasts. */
static void
bb_run_report(struct bb_run *run, int64_t now_ns)
{
	struct bb_unsettled *u = run->unsettled;
	const struct bb_state *state = &run->state;
	int64_t waited_ns = now_ns - u->since_boot_ns;

	if (u->is_reported)
		return;
	if (state->event) {
		bb_run_warn(run, state->event, state->event_text);
	} else if (state->code == ERR_PENDING && waited_ns >= report_ns) {
		bb_run_warn(run, &unfinished_event,
		            arena_printf(run->call->arena,
		                         "Waiting for Brightbox for %d s: %" STR_FMT "%s%s",
		                         (int)(waited_ns / NS_PER_SEC), STR_ARG(state->text),
		                         state->advice ? ". " : "",
		                         state->advice ? state->advice : ""));
	} else {
		return;
	}
	u->is_reported = true;
}

bool
bb_run_end(struct bb_run *run, bool is_done, struct error *err)
{
	int64_t now_ns = clock_boot(run->call->clock);
	struct bb_unsettled *u = run->unsettled;

	if (!u)
		return is_done;
	u->next_boot_ns = 0;
	if (!is_done && run->ends_in_state) {
		bb_unsettled_note_state(u, run->service_hash, run->inputs_hash, run->state.hash,
		                        run->state.first_ms, now_ns, err);
		bb_run_report(run, now_ns);
	}
	bb_unsettled_return(run->bb->unsettled, u, is_done);
	return is_done;
}

void
bb_run_fini(struct bb_run *run)
{
	bb_view_unref(run->view);
}
