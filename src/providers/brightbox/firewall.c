/* firewall.c: the server group of a Service and its firewall policy; see steps.h. */
#include "base/limits.h"
#include "providers/brightbox/steps.h"

#define FIREWALL_SOURCE "10.0.0.0/8" /* from where balancers reach servers */

/* ---- ensuring ---- */

static bool
bb_group_remove(struct bb_run *run, const struct bb_group *group, const struct str servers[],
                size_t n, struct error *err)
{
	struct bb_change change = {
		.kind = "remove servers",
		.details = bb_run_join(run, group->id, servers, n),
		.missing = arena_printf(run->call->arena,
		                        "Server group %" STR_FMT
		                        " still has servers that were removed",
		                        STR_ARG(group->id)),
	};

	if (n == 0)
		return true;
	if (!bb_change_begin(run, &change, err))
		return false;
	return !change.is_due ||
	       bb_change_end(run, &change,
	                     bb_remove_servers(run->client, run->call, group->id, servers, n, err),
	                     err);
}

/* New servers are added before old ones are removed, so that traffic never finds none. */
static bool
bb_step_members(struct bb_run *run, const struct bb_group *group, struct error *err)
{
	struct str *added, *removed;
	size_t n_added = bb_missing(run->desired.servers, run->desired.n_servers, group->servers,
	                            group->n_servers, run->call->arena, &added);
	size_t n_removed = bb_missing(group->servers, group->n_servers, run->desired.servers,
	                              run->desired.n_servers, run->call->arena, &removed);
	struct bb_change change = {
		.kind = "add servers",
		.details = bb_run_join(run, group->id, added, n_added),
		.missing = arena_printf(run->call->arena,
		                        "Server group %" STR_FMT " lacks servers that were added",
		                        STR_ARG(group->id)),
		.names_servers = true,
	};

	if (n_added > 0 && !bb_change_begin(run, &change, err))
		return false;
	if (change.is_due &&
	    !bb_change_end(run, &change,
	                   bb_add_servers(run->client, run->call, group->id, added, n_added, err),
	                   err))
		return false;
	return bb_group_remove(run, group, removed, n_removed, err);
}

/* Only the first rule is ours; users may have added others. */
static bool
bb_step_rule(struct bb_run *run, const struct bb_policy *policy, struct error *err)
{
	const struct bb_rule *is = policy->n_rules > 0 ? policy->rules : NULL;
	struct bb_rule wanted = {
		.id = is ? is->id : STR_EMPTY,
		.protocol = STR("tcp"),
		.source = STR(FIREWALL_SOURCE),
		.destination_port = run->desired.firewall_ports,
		.description = run->desired.name,
	};
	struct bb_change change = {
		.kind = is ? "update firewall rule" : "create firewall rule",
		.details = arena_printf(run->call->arena, "%" STR_FMT " %" STR_FMT " %" STR_FMT,
		                        STR_ARG(policy->id), STR_ARG(wanted.id),
		                        STR_ARG(wanted.destination_port)),
		.missing = arena_printf(run->call->arena,
		                        "The first rule of firewall policy %" STR_FMT
		                        " is not the one that was set",
		                        STR_ARG(policy->id)),
	};
	bool is_accepted;

	if (is && str_eq(is->protocol, wanted.protocol) && str_eq(is->source, wanted.source) &&
	    str_eq(is->destination_port, wanted.destination_port) &&
	    str_eq(is->description, wanted.description))
		return true;
	if (!bb_change_begin(run, &change, err))
		return false;
	if (!change.is_due)
		return true;
	is_accepted = is ? bb_update_rule(run->client, run->call, policy->id, &wanted, is, err)
	                 : bb_create_rule(run->client, run->call, policy->id, &wanted, err);
	return bb_change_end(run, &change, is_accepted, err);
}

/* The server group, with its members. *ret is NULL if it is still to be made. */
static bool
bb_step_group(struct bb_run *run, struct bb_group *new_group, const struct bb_group **ret,
              struct error *err)
{
	struct bb_change change = {
		.kind = "create server group",
		.missing = STR("The list lacks the server group that was created"),
		.n_of_kind = &run->view->n_groups,
	};

	*ret = bb_view_group(run->view, run->desired.name);
	if (!*ret) {
		if (!bb_change_begin(run, &change, err))
			return false;
		if (!change.is_due)
			return true;
		if (!bb_change_end(run, &change,
		                   bb_create_group(run->client, run->call, run->desired.name,
		                                   new_group, err),
		                   err))
			return false;
		*ret = new_group;
	}
	return bb_step_members(run, *ret, err);
}

/* The firewall policy, without its rule. */
static bool
bb_step_policy(struct bb_run *run, const struct bb_group *group, struct bb_policy *new_policy,
               const struct bb_policy **ret, struct error *err)
{
	struct bb_change creation = {
		.kind = "create firewall policy",
		.missing = STR("The list lacks the firewall policy that was created"),
		.n_of_kind = &run->view->n_policies,
	};
	struct bb_change application = { .kind = "apply firewall policy" };

	*ret = bb_view_policy(run->view, run->desired.name);
	if (!*ret) {
		if (!bb_change_begin(run, &creation, err))
			return false;
		if (!creation.is_due)
			return true;
		if (!bb_change_end(run, &creation,
		                   bb_create_policy(run->client, run->call, run->desired.name,
		                                    group->id, new_policy, err),
		                   err))
			return false;
		*ret = new_policy;
	}
	if (str_eq((*ret)->group, group->id))
		return true;
	application.details = bb_run_join(run, (*ret)->id, &group->id, 1);
	application.missing = arena_printf(run->call->arena,
	                                   "Firewall policy %" STR_FMT
	                                   " is not applied to server group %" STR_FMT,
	                                   STR_ARG((*ret)->id), STR_ARG(group->id));
	if (!bb_change_begin(run, &application, err))
		return false;
	return !application.is_due ||
	       bb_change_end(run, &application,
	                     bb_apply_policy(run->client, run->call, (*ret)->id, group->id, err),
	                     err);
}

bool
bb_step_firewall(struct bb_run *run, struct error *err)
{
	const struct bb_group *group;
	const struct bb_policy *policy;
	struct bb_group new_group;
	struct bb_policy new_policy;

	if (!bb_step_group(run, &new_group, &group, err))
		return false;
	if (!group)
		return true;
	if (!bb_step_policy(run, group, &new_policy, &policy, err))
		return false;
	return !policy || bb_step_rule(run, policy, err);
}

/* ---- removing ---- */

static bool
bb_group_destroy(struct bb_run *run, struct error *err)
{
	const struct bb_group *group = bb_view_group(run->view, run->desired.name);
	struct bb_change change = {
		.kind = "destroy server group",
		.missing =
			STR("The server group is still there although its deletion was accepted"),
		.done = ERR_NOT_FOUND,
	};

	if (!group)
		return true;
	if (!bb_group_remove(run, group, group->servers, group->n_servers, err))
		return false;
	change.details = group->id;
	if (!bb_change_begin(run, &change, err))
		return false;
	return !change.is_due ||
	       bb_change_end(run, &change, bb_destroy_group(run->client, run->call, group->id, err),
	                     err);
}

static bool
bb_policy_destroy(struct bb_run *run, struct error *err)
{
	const struct bb_policy *policy = bb_view_policy(run->view, run->desired.name);
	struct bb_change change = {
		.kind = "destroy firewall policy",
		.missing = STR(
			"The firewall policy is still there although its deletion was accepted"),
		.done = ERR_NOT_FOUND,
	};

	if (!policy)
		return true;
	change.details = policy->id;
	if (!bb_change_begin(run, &change, err))
		return false;
	return !change.is_due ||
	       bb_change_end(run, &change,
	                     bb_destroy_policy(run->client, run->call, policy->id, err), err);
}

bool
bb_step_remove_firewall(struct bb_run *run, struct error *err)
{
	return bb_group_destroy(run, err) && bb_policy_destroy(run, err);
}
