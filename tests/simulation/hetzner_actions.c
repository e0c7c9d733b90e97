/* hetzner_actions.c: actions: they take time, keep their resources busy, and may fail. */
#include <string.h>

#include "base/array.h"
#include "hetzner_internal.h"

/* ---- what they keep busy ---- */

bool
hm_is_busy(const struct hm_project *p, const struct hetzner_resource *resource)
{
	for (size_t i = 0; i < p->n_running; i++) {
		const struct hetzner_action *action = p->running[i].action;

		for (size_t k = 0; k < action->n_resources; k++) {
			if (action->resources[k].id == resource->id)
				return true;
		}
	}
	return false;
}

bool
hm_check_free(struct hm_call *call, const struct hetzner_resource *resource)
{
	static const char *const words[HETZNER_N_KINDS] = { "server", "network", "load balancer",
		                                            "certificate", "primary ip" };

	if (!hm_is_busy(call->p, resource))
		return true;
	return hm_refuse(call, resource->kind == HETZNER_NETWORK ? "conflict" : "locked",
	                 "%s with ID '%lld' is busy with another action", words[resource->kind],
	                 (long long)resource->id);
}

/* ---- end ---- */

static void
hm_end(struct hetzner *h, struct hm_project *p, struct hm_running *running)
{
	struct hetzner_action *action = running->action;
	struct hm_who who = { action->token, action->user_agent, action->command };

	action->finished_ns = action->due_ns;
	if (running->effect.apply)
		running->effect.apply(h, p, &running->effect, &who);
}

/* The next one that is due: by time, then by ID. */
static size_t
hm_find_due(const struct hm_project *p, int64_t now_ns)
{
	size_t found = p->n_running;

	for (size_t i = 0; i < p->n_running; i++) {
		int64_t due_ns = p->running[i].action->due_ns;

		if (due_ns <= now_ns &&
		    (found == p->n_running || due_ns < p->running[found].action->due_ns))
			found = i;
	}
	return found;
}

void
hm_settle(struct hetzner *h, struct hm_project *p)
{
	for (;;) {
		size_t i = hm_find_due(p, h->now_ns);
		struct hm_running one;

		if (i == p->n_running)
			return;
		one = p->running[i];
		memmove(&p->running[i], &p->running[i + 1],
		        (p->n_running - i - 1) * sizeof(*p->running));
		p->n_running--;
		hm_end(h, p, &one);
	}
}

int64_t
hm_next_end(const struct hm_project *p)
{
	int64_t next_ns = CLOCK_FOREVER;

	for (size_t i = 0; i < p->n_running; i++) {
		if (p->running[i].action->due_ns < next_ns)
			next_ns = p->running[i].action->due_ns;
	}
	return next_ns;
}

void
hetzner_release(struct hetzner *h, struct hetzner_project *project)
{
	struct hm_project *p = hm_project(project);

	for (size_t i = 0; i < p->n_running; i++) {
		if (p->running[i].action->due_ns == CLOCK_FOREVER)
			p->running[i].action->due_ns = h->now_ns;
	}
	hm_settle(h, p);
}

/* ---- fates ---- */

static struct hm_doom *
hm_find_doom(const struct hm_project *p, const char *command)
{
	for (size_t i = 0; i < p->n_dooms; i++) {
		struct hm_doom *doom = &p->dooms[i];

		if (doom->times > 0 && (!doom->command || strcmp(doom->command, command) == 0))
			return doom;
	}
	return NULL;
}

bool
hm_is_doomed_to_fail(const struct hm_project *p, const char *command)
{
	const struct hm_doom *doom = hm_find_doom(p, command);

	return doom && doom->fate == HETZNER_FAILS;
}

void
hetzner_doom_actions(struct hetzner *h, struct hetzner_project *project, const char *command,
                     enum hetzner_fate fate, unsigned times)
{
	struct hm_project *p = hm_project(project);
	struct hm_doom doom = {
		.command = command ? arena_strz(&h->arena, str_c(command)) : NULL,
		.fate = fate,
		.times = times,
	};

	ARRAY_PUSH(p->dooms, p->n_dooms, p->cap_dooms, doom);
}

void
hetzner_forget_dooms(struct hetzner_project *project)
{
	hm_project(project)->n_dooms = 0;
}

/* ---- start ---- */

static int64_t
hm_duration(struct hetzner *h)
{
	int64_t min = h->settings.action_min_ns, max = h->settings.action_max_ns;

	return max <= min ? min : min + (int64_t)(hm_random(h) % (uint64_t)(max - min + 1));
}

static void
hm_add_busy(struct hetzner_action *action, const struct hetzner_resource *resource)
{
	if (!resource)
		return;
	action->resources[action->n_resources].kind = resource->kind;
	action->resources[action->n_resources++].id = resource->id;
}

static struct hetzner_action *
hm_start(struct hetzner *h, struct hm_project *p, const char *command,
         const struct hetzner_resource *one, const struct hetzner_resource *two,
         const struct hm_effect *effect)
{
	struct hetzner_action *action = ARENA_NEW(&h->arena, struct hetzner_action);
	struct hm_running running = { action, *effect };

	action->id = h->next_id++;
	action->command = arena_str(&h->arena, str_c(command));
	hm_add_busy(action, one);
	hm_add_busy(action, two);
	action->started_ns = h->now_ns;
	ARRAY_PUSH(p->base.actions, p->base.n_actions, p->cap_actions, action);
	ARRAY_PUSH(p->running, p->n_running, p->cap_running, running);
	return action;
}

const struct hetzner_action *
hm_act(struct hm_call *call, const char *command, const struct hetzner_resource *one,
       const struct hetzner_resource *two, const struct hm_effect *effect)
{
	struct hm_doom *doom = hm_find_doom(call->p, command);
	struct hetzner_action *action = hm_start(call->h, call->p, command, one, two, effect);
	struct hm_running *running = &call->p->running[call->p->n_running - 1];

	action->token = arena_str(&call->h->arena, call->who.token);
	action->user_agent = arena_str(&call->h->arena, call->who.user_agent);
	action->due_ns = call->h->now_ns + hm_duration(call->h);
	if (doom) {
		doom->times--;
		if (doom->fate == HETZNER_HANGS) {
			action->due_ns = CLOCK_FOREVER;
		} else {
			action->error_code = STR("action_failed");
			action->error_message = STR("Action failed");
			running->effect.apply = NULL;
		}
	}
	hm_settle(call->h, call->p);
	return action;
}

void
hetzner_lock(struct hetzner *h, struct hetzner_project *project, struct hetzner_resource *resource,
             int64_t for_ns)
{
	struct hm_effect nothing = { .apply = NULL };
	struct hetzner_action *action = hm_start(h, hm_project(project), "change_protection",
	                                         resource, NULL, &nothing);

	action->due_ns = clock_deadline(h->now_ns, for_ns);
}

/* ---- shown ---- */

static const char *
hm_state(const struct hetzner_action *action)
{
	if (action->finished_ns == 0)
		return "running";
	return action->error_code.len > 0 ? "error" : "success";
}

static int64_t
hm_progress(const struct hetzner_action *action, int64_t now_ns)
{
	int64_t span_ns = action->due_ns - action->started_ns, percent;

	if (action->finished_ns != 0)
		return 100;
	if (action->due_ns == CLOCK_FOREVER)
		return 0;
	percent = 100 * (now_ns - action->started_ns) / span_ns;
	return percent < 99 ? percent : 99;
}

void
hm_add_action(struct hm_call *call, struct buf *b, const char *name,
              const struct hetzner_action *action)
{
	json_begin_object(b, name);
	json_add_number(b, "id", action->id);
	json_add_text(b, "command", action->command);
	json_add_text(b, "status", str_c(hm_state(action)));
	json_add_number(b, "progress", hm_progress(action, call->h->now_ns));
	hm_add_stamp(b, "started", action->started_ns);
	hm_add_stamp(b, "finished", action->finished_ns);
	json_begin_array(b, "resources");
	for (size_t i = 0; i < action->n_resources; i++) {
		json_begin_object(b, NULL);
		json_add_number(b, "id", action->resources[i].id);
		json_add_text(b, "type", str_c(hm_kind_names[action->resources[i].kind]));
		json_end_object(b);
	}
	json_end_array(b);
	if (action->finished_ns != 0 && action->error_code.len > 0) {
		json_begin_object(b, "error");
		json_add_text(b, "code", action->error_code);
		json_add_text(b, "message", action->error_message);
		json_end_object(b);
	} else {
		json_add_raw(b, "error", STR("null"));
	}
	json_end_object(b);
}

bool
hm_answer_act(struct hm_call *call, const char *command, const struct hetzner_resource *one,
              const struct hetzner_resource *two, const struct hm_effect *effect)
{
	const struct hetzner_action *action = hm_act(call, command, one, two, effect);
	struct buf *b = &call->answer->body;

	json_begin_object(b, NULL);
	hm_add_action(call, b, "action", action);
	json_end_object(b);
	return true;
}

/* ---- requests ---- */

static const struct hetzner_action *
hm_find_action(const struct hm_project *p, struct str id)
{
	int64_t wanted;
	size_t low = 0, high = p->base.n_actions;

	if (!str_is_digits(id) || !str_to_i64(id, 0, INT64_MAX, &wanted))
		return NULL;
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (p->base.actions[middle]->id < wanted)
			low = middle + 1;
		else
			high = middle;
	}
	return low < p->base.n_actions && p->base.actions[low]->id == wanted ? p->base.actions[low]
	                                                                     : NULL;
}

static int64_t
hm_action_number(const void *thing, struct str field)
{
	const struct hetzner_action *action = thing;

	if (str_eq_c(field, "started"))
		return action->started_ns;
	return str_eq_c(field, "finished") ? action->finished_ns : action->id;
}

static struct str
hm_action_text(const void *thing, struct str field)
{
	const struct hetzner_action *action = thing;

	return str_eq_c(field, "command") ? action->command : str_c(hm_state(action));
}

static void
hm_add_listed_action(struct hm_call *call, struct buf *b, const void *thing)
{
	hm_add_action(call, b, NULL, thing);
}

static int
hm_compare_actions(const void *left, const void *right)
{
	const struct hetzner_action *a = *(const struct hetzner_action *const *)left;
	const struct hetzner_action *b = *(const struct hetzner_action *const *)right;

	return (a->id > b->id) - (a->id < b->id);
}

/* Those asked for, each once; unknown ones are left out. */
bool
hm_list_actions(struct hm_call *call)
{
	static const struct hm_list list = { "actions", false, hm_action_number, hm_action_text,
		                             hm_add_listed_action };
	const void **found = arena_calloc(&call->arena, call->n_query, sizeof(*found));
	size_t n = 0, n_once = 0;
	bool is_asked = false;

	for (size_t i = 0; i < call->n_query; i++) {
		const struct target_pair *pair = &call->query[i];

		if (!str_eq_c(pair->name, "id") || pair->value.len == 0)
			continue;
		is_asked = true;
		found[n] = hm_find_action(call->p, pair->value);
		n += found[n] != NULL;
	}
	if (!is_asked)
		return hm_refuse(call, "deprecated_api_endpoint",
		                 "listing actions needs the parameter id");
	if (n > 0)
		qsort(found, n, sizeof(*found), hm_compare_actions);
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || found[i] != found[i - 1])
			found[n_once++] = found[i];
	}
	return hm_answer_list(call, &list, found, n_once);
}

bool
hm_show_action(struct hm_call *call)
{
	const struct hetzner_action *action = hm_find_action(call->p, call->id);
	struct buf *b = &call->answer->body;

	if (!action)
		return hm_refuse(call, "not_found", "action with ID '%" STR_FMT "' not found",
		                 STR_ARG(call->id));
	json_begin_object(b, NULL);
	hm_add_action(call, b, "action", action);
	json_end_object(b);
	return true;
}
