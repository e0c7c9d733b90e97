/* firewall.c: the server group of a Service and its firewall policy; see run.h. */
#include "base/limits.h"
#include "providers/brightbox/run.h"

#define FIREWALL_SOURCE "10.0.0.0/8" /* from where balancers reach servers */

/* ---- ensuring ---- */

static struct str
bb_servers_body(const struct bb_run *run, const struct str servers[], size_t n)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);

	json_begin_object(&body, NULL);
	json_begin_array(&body, "servers");
	for (size_t i = 0; i < n; i++)
		json_add_object(&body, NULL, JSON_TEXT("server", servers[i]));
	json_end_array(&body);
	json_end_object(&body);
	return arena_str(run->call->arena, buf_str(&body));
}

/* Removes all servers but those that are desired. */
static bool
bb_group_remove(struct bb_run *run, const struct bb_group *group, const struct str desired[],
                size_t n_desired, struct error *err)
{
	struct str *removed;
	size_t n = bb_missing(group->servers, group->n_servers, desired, n_desired,
	                      run->call->arena, &removed);
	struct bb_change change = {
		.sends = { .what = "server group",
		           .request = "POST /server_groups/{id}/remove_servers",
		           .id = group->id,
		           .body = bb_servers_body(run, removed, n),
		           .is_removal = true },
		.kind = "remove servers",
		.missing = arena_printf(run->call->arena,
		                        "Server group %" STR_FMT
		                        " still has servers that were removed",
		                        STR_ARG(group->id)),
	};

	if (n == 0)
		return true;
	return bb_run_change(run, &change, NULL, err);
}

/* The server group, with its members. *ret_id is empty if it is still to be made. New servers are
 * added before old ones are removed, so that traffic never finds none. */
static bool
bb_step_group(struct bb_run *run, struct str *ret_id, struct error *err)
{
	struct str name = run->desired.name, *added;
	struct bb_change creation = {
		.sends = { .what = "server group",
		           .request = "POST /server_groups",
		           .name = name,
		           .body = BB_BODY(run, { "name", name }),
		           .new_id = "grp-new" },
		.kind = "create server group",
		.missing = STR("The list lacks the server group that was created"),
		.n_of_kind = &run->view->n_groups,
	};
	struct bb_change addition = {
		.sends = { .what = "server group",
		           .request = "POST /server_groups/{id}/add_servers" },
		.kind = "add servers",
		.names_servers = true,
	};
	const struct bb_group *found = bb_view_group(run->view, name);
	struct bb_group group = { .n_servers = 0 };
	size_t n_added;

	if (found)
		group = *found;
	else if (!bb_run_change(run, &creation, &group.id, err))
		return false;
	*ret_id = group.id;
	if (group.id.len == 0)
		return true;
	n_added = bb_missing(run->desired.servers, run->desired.n_servers, group.servers,
	                     group.n_servers, run->call->arena, &added);
	if (n_added > 0) {
		addition.sends.id = group.id;
		addition.sends.body = bb_servers_body(run, added, n_added);
		addition.missing = arena_printf(run->call->arena,
		                                "Server group %" STR_FMT
		                                " lacks servers that were added",
		                                STR_ARG(group.id));
		if (!bb_run_change(run, &addition, NULL, err))
			return false;
	}
	return bb_group_remove(run, &group, run->desired.servers, run->desired.n_servers, err);
}

/* The firewall policy, without its rule. ret->id is empty if it is still to be made. */
static bool
bb_step_policy(struct bb_run *run, struct str group, struct bb_policy *ret, struct error *err)
{
	struct str name = run->desired.name;
	struct bb_change creation = {
		.sends = { .what = "firewall policy",
		           .request = "POST /firewall_policies",
		           .name = name,
		           .body = BB_BODY(run, { "name", name }, { "server_group", group }),
		           .new_id = "fwp-new" },
		.kind = "create firewall policy",
		.missing = STR("The list lacks the firewall policy that was created"),
		.n_of_kind = &run->view->n_policies,
	};
	struct bb_change application = {
		.sends = { .what = "firewall policy",
		           .request = "POST /firewall_policies/{id}/apply_to",
		           .body = BB_BODY(run, { "server_group", group }) },
		.kind = "apply firewall policy",
	};
	const struct bb_policy *found = bb_view_policy(run->view, name);

	*ret = found ? *found : (struct bb_policy){ .group = group };
	if (!found)
		return bb_run_change(run, &creation, &ret->id, err);
	if (str_eq(ret->group, group))
		return true;
	application.sends.id = ret->id;
	application.missing = arena_printf(run->call->arena,
	                                   "Firewall policy %" STR_FMT
	                                   " is not applied to server group %" STR_FMT,
	                                   STR_ARG(ret->id), STR_ARG(group));
	return bb_run_change(run, &application, NULL, err);
}

static struct str
bb_rule_body(const struct bb_run *run, struct str policy, const struct bb_rule *rule)
{
	return BB_BODY(run, { "firewall_policy", policy }, { "protocol", rule->protocol },
	               { "source", rule->source }, { "destination_port", rule->destination_port },
	               { "description", rule->description });
}

/* Only the first rule is ours; users may have added others. */
static bool
bb_step_rule(struct bb_run *run, const struct bb_policy *policy, struct error *err)
{
	const struct bb_rule wanted = {
		.protocol = STR("tcp"),
		.source = STR(FIREWALL_SOURCE),
		.destination_port = run->desired.firewall_ports,
		.description = run->desired.name,
	};
	struct bb_change change = {
		.sends = { .what = "firewall rule",
		           .request = "POST /firewall_rules",
		           .name = wanted.description,
		           .body = bb_rule_body(run, policy->id, &wanted) },
		.kind = "create firewall rule",
		.missing = arena_printf(run->call->arena,
		                        "The first rule of firewall policy %" STR_FMT
		                        " is not the one that was set",
		                        STR_ARG(policy->id)),
	};

	if (policy->n_rules > 0) {
		change.kind = "update firewall rule";
		change.sends.request = "PUT /firewall_rules/{id}";
		change.sends.id = change.sends.name = policy->rules[0].id;
		change.sends.present = bb_rule_body(run, policy->id, &policy->rules[0]);
	}
	if (!change_is_needed(&change.sends, run->call->arena))
		return true;
	return bb_run_change(run, &change, NULL, err);
}

bool
bb_step_firewall(struct bb_run *run, struct error *err)
{
	struct bb_policy policy;
	struct str group;

	if (!bb_step_group(run, &group, err))
		return false;
	if (group.len == 0)
		return true;
	if (!bb_step_policy(run, group, &policy, err))
		return false;
	if (policy.id.len == 0)
		return true;
	return bb_step_rule(run, &policy, err);
}

/* ---- removing ---- */

bool
bb_step_remove_firewall(struct bb_run *run, struct error *err)
{
	const struct bb_group *group = bb_view_group(run->view, run->desired.name);
	const struct bb_policy *policy = bb_view_policy(run->view, run->desired.name);

	if (group) {
		if (!bb_group_remove(run, group, /*desired=*/NULL, 0, err))
			return false;
		if (!bb_run_destroy(run, "server group", "DELETE /server_groups/{id}", group->id,
		                    "destroy server group", STR("The server group"), err))
			return false;
	}
	if (!policy)
		return true;
	return bb_run_destroy(run, "firewall policy", "DELETE /firewall_policies/{id}", policy->id,
	                      "destroy firewall policy", STR("The firewall policy"), err);
}
