/* balancers.c: load balancers of Services (docs/spec/brightbox.md, "Load balancers").
 *
 * A Service has a balancer, a cloud IP, a server group and a firewall policy with one rule. They
 * are found by their name, which consists of the names of the Service, its namespace and the
 * cluster; nothing about them is stored in Kubernetes.
 *
 * A run compares a view of the account with what the Service needs, creates what is missing,
 * changes what differs, and repeats this until nothing is left to do. A Service that needs no
 * change costs no request of its own. bb_pass() and bb_pass_remove() list the steps of a pass
 * (run.h). A crash between two steps is harmless: the next run finds the objects that exist already
 * by their names.
 *
 * Two processes at once (a rolling update without election) may both create a balancer, since names
 * are not unique. So after it has created one a run lists again: if there is another alive balancer
 * of the name it deletes its own, waits a random time and begins again. A cloud IP is mapped, and a
 * status reported, only after a list that shows exactly one.
 */
#include "base/limits.h"
#include "base/log.h"
#include "base/rand.h"
#include "providers/brightbox/domains.h"
#include "providers/brightbox/run.h"
#include "providers/brightbox/servers.h"

#define DEFAULT_CLUSTER "kubernetes" /* the default of --cluster-name */

enum {
	DUPLICATE_MIN_MS = 1000, /* two processes wait for times in this range, at random */
	DUPLICATE_MAX_MS = 6000,
};

/* A balancer is deleted when it has been failed for this long; until then the cloud may repair it.
 */
static const int64_t failed_ns = 60 * NS_PER_SEC;

EVENT_KIND(
	duplicate_event, "cloud-controller-manager", "LoadBalancerDuplicate", true, "Service",
	"brightbox: there are several load balancers of the Service's name; the message says which "
	"one is used.");

EVENT_KIND(
	foreign_event, "cloud-controller-manager", "LoadBalancerMayBeForeign", true, "Service",
	"brightbox: a load balancer was found by a name that contains the default cluster name, "
	"and no Service of this cluster has its addresses. If the Service has no status yet, the "
	"load balancer is left alone.");

/* ---- the balancer ---- */

static bool
bb_step_domains(struct bb_run *run, struct error *err)
{
	bb_desired_domains(&run->desired, run->ip, run->call->arena, &run->domains,
	                   &run->n_domains);
	if (str_eq(run->checked, run->ip->id))
		return true;
	/* no domain of the user's can lead to a new one yet */
	if (run->has_new_ip && run->desired.n_domains > 0)
		return err_set(err, ERR_INVALID,
		               "Failed to resolve %s to load balancer address, which is not "
		               "assigned yet",
		               quote_z(run->call->arena, run->desired.domains[0]));
	if (run->has_new_ip)
		return true;
	run->checked = arena_str(run->call->arena, run->ip->id);
	return bb_domains_check(run->call, run->bb->config.hosts_file, run->ip, run->domains,
	                        run->n_domains, err);
}

static bool
bb_lb_destroy(struct bb_run *run, const struct bb_lb *lb, struct error *err)
{
	return bb_run_destroy(run, "load balancer", "DELETE /load_balancers/{id}", lb->id,
	                      "destroy load balancer",
	                      arena_printf(run->call->arena, "Load balancer %" STR_FMT,
	                                   STR_ARG(lb->id)),
	                      err);
}

/* The balancer has failed at the cloud. If it stays so for a minute, it is deleted: only then can
 * its cloud IPs be mapped to another balancer, which the next run creates. */
static bool
bb_lb_replace(struct bb_run *run, const struct bb_lb *lb, struct error *err)
{
	const struct bb_unsettled *u = run->unsettled;
	struct bb_state state = {
		.code = ERR_UNAVAILABLE,
		.text = arena_printf(run->call->arena,
		                     "Load balancer %" STR_FMT
		                     " has failed at Brightbox. If it stays so for a minute, it is "
		                     "deleted and created again, %d times in an hour at most",
		                     STR_ARG(lb->id), BB_CREATIONS_MAX),
		.first_ms = BB_LATER_MS,
	};

	if (!u || u->state != str_hash(state.text) ||
	    clock_boot(run->call->clock) - u->since_boot_ns < failed_ns)
		return bb_run_stop(run, &state, err);
	bb_run_await(run, &state);
	return bb_lb_destroy(run, lb, err);
}

/* No balancer of the name is in the list. None is created while the list lacks one that this
 * process created before, nor if this process has created BB_CREATIONS_MAX within the last hour. */
static bool
bb_lb_create(struct bb_run *run, struct error *err)
{
	struct bb_unsettled *u = run->unsettled;
	size_t n_lbs = 0; /* when it changes, the account's limit may permit another one */
	struct bb_change change = {
		.sends = { .what = "load balancer",
		           .request = "POST /load_balancers",
		           .name = run->desired.name,
		           .body = bb_desired_body(&run->desired, run->domains, run->n_domains,
		                                   /*is_update=*/false, run->call->arena),
		           .new_id = "lba-new" },
		.kind = "create load balancer",
		.n_of_kind = &n_lbs,
		.names_servers = true,
		.may_repeat = true,
	};
	struct bb_state state = { .code = ERR_PENDING,
		                  .text = STR("the list lacks the load balancer that was created"),
		                  .first_ms = BB_SOON_MS };
	struct bb_lb old;
	struct str id;

	for (size_t i = 0; i < run->view->n_lbs; i++)
		n_lbs += !str_eq_c(run->view->lbs[i].status, "deleted");
	if (u && u->created) {
		if (bb_get_lb(run->bb->client, run->call, str_c(u->created), &old, err)) {
			if (bb_lb_has_failed(&old))
				return bb_lb_replace(run, &old, err);
			if (bb_lb_is_alive(&old))
				return bb_run_stop(run, &state, err);
		} else if (err->code != ERR_NOT_FOUND) {
			return false;
		}
	}
	if (u && bb_unsettled_has_created_enough(u, clock_boot(run->call->clock))) {
		state = (struct bb_state){
			.code = ERR_UNAVAILABLE,
			.text = arena_printf(
				run->call->arena,
				"%d load balancers were created for this Service "
				"within an hour, and none of them works. Check the "
				"Service, or ask Brightbox; the next one is created an "
				"hour after the first",
				BB_CREATIONS_MAX),
			.first_ms = BB_LATER_MS,
		};
		return bb_run_stop(run, &state, err);
	}
	if (!bb_run_change(run, &change, &id, err))
		return false;
	if (id.len == 0)
		return true;
	if (run->call->dry) {
		run->new_lb = (struct bb_lb){ .id = id,
			                      .name = run->desired.name,
			                      .status = STR("active") };
		run->lb = &run->new_lb;
		return true;
	}
	log_info("load balancer created", LOG_STR("name", run->desired.name), LOG_STR("id", id));
	bb_unsettled_note_created(u, id, clock_boot(run->call->clock));
	return true;
}

/* Another process created a balancer at the same time. Both processes delete their own balancer and
 * wait for a random time. The first one that continues keeps the balancer that it creates then. */
static bool
bb_lb_delete_own_duplicate(struct bb_run *run, struct error *err)
{
	struct change deletion = {
		.what = "load balancer",
		.request = "DELETE /load_balancers/{id}",
		.id = arena_str(run->call->arena, str_c(run->unsettled->created)),
	};

	run->has_difference = true;
	if (run->only_compares)
		return true;
	run->has_acted = true;
	bb_views_outdate(run->bb->views);
	if (!bb_send(run->bb->client, run->call, &deletion, NULL, err) &&
	    err->code != ERR_NOT_FOUND)
		return err_wrap(err, "delete load balancer %" STR_FMT " beside another one",
		                STR_ARG(deletion.id));
	log_info("load balancer deleted, because another process created one as well",
	         LOG_STR("id", deletion.id));
	bb_unsettled_note_withdrawn(run->unsettled);
	err_set(err, ERR_PENDING,
	        "another process created a load balancer for this Service as well");
	err->retry_after_ms = rand_between(DUPLICATE_MIN_MS, DUPLICATE_MAX_MS);
	return false;
}

/* Of several that this process did not create, the one that has a cloud IP serves. */
static const struct bb_lb *
bb_lb_choose(struct bb_run *run, size_t *ret_n)
{
	const struct bb_lb *chosen = NULL, *lb = NULL;

	*ret_n = 0;
	while ((lb = bb_view_next(run->view, run->desired.name, bb_lb_is_alive, lb))) {
		(*ret_n)++;
		if (!chosen || (chosen->n_cloud_ips == 0 && lb->n_cloud_ips > 0))
			chosen = lb;
	}
	return chosen;
}

static bool
bb_has_ip(const struct bb_lb *lb, struct str id)
{
	for (size_t i = 0; i < lb->n_cloud_ips; i++) {
		if (str_eq(lb->cloud_ips[i].id, id))
			return true;
	}
	return false;
}

/* Does a live Service of ours have an address of its cloud IPs? Their reverse names do not count:
 * the owner of an account chooses them, so another account may have the same. */
static bool
bb_lb_is_in_status(const struct cloud_host *host, const struct bb_lb *lb)
{
	for (size_t i = 0; i < lb->n_cloud_ips; i++) {
		const struct bb_cloud_ip *ip = &lb->cloud_ips[i];

		if (host->is_service_address(host, ip->fqdn) ||
		    host->is_service_address(host, ip->public_ipv4) ||
		    host->is_service_address(host, ip->public_ipv6))
			return true;
	}
	return false;
}

/* What a person should know about the balancer that was found by its name, once in a run. */
static void
bb_lb_report(struct bb_run *run, const struct bb_lb *lb, size_t n)
{
	const char *name = quote_z(run->call->arena, run->desired.name);
	struct arena *arena = run->call->arena;

	if (run->is_reported || (run->unsettled && run->unsettled->created))
		return;
	run->is_reported = true;
	if (n > 1)
		bb_run_warn(run, &duplicate_event,
		            arena_printf(arena,
		                         "There are %zu load balancers named %s; %" STR_FMT
		                         " is used. Delete the others.",
		                         n, name, STR_ARG(lb->id)));
	if (str_eq_c(run->spec->cluster, DEFAULT_CLUSTER) && lb->n_cloud_ips > 0 &&
	    !bb_lb_is_in_status(run->bb->host, lb))
		bb_run_warn(run, &foreign_event,
		            arena_printf(arena,
		                         "Load balancer %" STR_FMT
		                         " was found by its name %s, which contains the default "
		                         "cluster name, and no Service of this cluster has its "
		                         "addresses. If it belongs to another cluster of this "
		                         "account, give each cluster its own --cluster-name",
		                         STR_ARG(lb->id), name));
}

/* With the default name of the cluster, the balancer may be that of the Service of the same name in
 * another cluster. It is ours if we created it, if the Service has a status or names its cloud IP,
 * if a Service of ours has its address, or if one of its servers is a node of ours: no two clusters
 * share servers. Without a cloud IP nobody uses it yet. */
static bool
bb_lb_is_foreign(const struct bb_run *run, const struct bb_lb *lb)
{
	struct node_ref *nodes;
	size_t n_nodes;

	if (!str_eq_c(run->spec->cluster, DEFAULT_CLUSTER) || run->spec->status.n_ingress > 0 ||
	    lb->n_cloud_ips == 0 || bb_lb_is_in_status(run->bb->host, lb) ||
	    bb_has_ip(lb, run->desired.cloud_ip))
		return false;
	if (run->unsettled && run->unsettled->created && str_eq_c(lb->id, run->unsettled->created))
		return false;
	run->bb->host->nodes(run->bb->host, run->call->arena, &nodes, &n_nodes);
	for (size_t i = 0; i < n_nodes; i++) {
		struct str id = nodes[i].provider_id;

		if (!str_starts(id, STR(BB_PROVIDER_ID_PREFIX)))
			continue;
		id = str_skip(id, sizeof(BB_PROVIDER_ID_PREFIX) - 1);
		for (size_t j = 0; j < lb->n_nodes; j++) {
			if (str_eq(lb->nodes[j], id))
				return false;
		}
	}
	return true;
}

/* The balancer of the Service's name that belongs to another cluster, or NULL. */
static const struct bb_lb *
bb_find_foreign(struct bb_run *run)
{
	size_t n;
	const struct bb_lb *lb = bb_lb_choose(run, &n);

	if (!lb)
		lb = bb_view_next(run->view, run->desired.name, bb_lb_has_failed, NULL);
	return lb && bb_lb_is_foreign(run, lb) ? lb : NULL;
}

static struct str
bb_lb_foreign_text(const struct bb_run *run, const struct bb_lb *lb)
{
	return arena_printf(
		run->call->arena,
		"Load balancer %" STR_FMT " has the name of this Service, %s, which "
		"contains the default cluster name, and its cloud IP and its servers are "
		"not those of this cluster. It is left alone. If it belongs to another "
		"cluster of this account, give each cluster its own --cluster-name. If "
		"it belongs to this Service, set the annotation " BB_CLOUD_IP_KEY
		" to the id of its cloud IP, %" STR_FMT,
		STR_ARG(lb->id), quote_z(run->call->arena, run->desired.name),
		STR_ARG(lb->cloud_ips[0].id));
}

static bool
bb_lb_update(struct bb_run *run, struct error *err)
{
	struct arena *arena = run->call->arena;
	struct bb_change change = {
		.sends = { .what = "load balancer",
		           .request = "PUT /load_balancers/{id}",
		           .id = run->lb->id,
		           .body = bb_desired_body(&run->desired, run->domains, run->n_domains,
		                                   /*is_update=*/true, arena),
		           .present = bb_desired_present(&run->desired, run->lb, arena) },
		.kind = "update load balancer",
		.names_servers = true,
	};
	const struct dry_field *fields;
	struct str member, rest;

	if (change_fields(&change.sends, arena, &fields) == 0)
		return true;
	if (!str_cut(fields[0].name, '.', &member, &rest))
		member = fields[0].name;
	change.missing = arena_printf(arena,
	                              "Load balancer %" STR_FMT " still shows other %" STR_FMT
	                              " than those that were set",
	                              STR_ARG(run->lb->id), STR_ARG(member));
	return bb_run_change(run, &change, NULL, err);
}

static bool
bb_step_lb(struct bb_run *run, struct error *err)
{
	const char *created = run->unsettled ? run->unsettled->created : NULL;
	struct str name = run->desired.name;
	const struct bb_lb *lb = NULL;
	size_t n;

	while (created && (lb = bb_view_next(run->view, name, bb_lb_is_alive, lb))) {
		if (!str_eq_c(lb->id, created))
			return bb_lb_delete_own_duplicate(run, err);
	}
	run->lb = bb_lb_choose(run, &n);
	if (!run->lb) {
		lb = bb_view_next(run->view, name, bb_lb_has_failed, NULL);
		return lb ? bb_lb_replace(run, lb, err) : bb_lb_create(run, err);
	}
	bb_lb_report(run, run->lb, n);
	return bb_lb_update(run, err);
}

/* ---- the result ---- */

/* Awaits what the balancer still lacks. What a person has to correct is reported before what only
 * needs time. */
static void
bb_check_complete(struct bb_run *run, const struct bb_lb *lb)
{
	struct arena *arena = run->call->arena;
	const struct bb_domain *bad = NULL;
	struct bb_state state;

	if (!bb_has_ip(lb, run->ip->id)) {
		state = (struct bb_state){ .code = ERR_PENDING,
			                   .text = bb_mapping_text(run),
			                   .advice = "Check both at Brightbox",
			                   .first_ms = BB_SOON_MS };
		bb_run_await(run, &state);
		return;
	}
	for (size_t i = 0; i < lb->n_domains; i++) {
		bool is_pending = str_eq_c(lb->domains[i].status, "pending");

		if (str_eq_c(lb->domains[i].status, "valid") || (bad && is_pending))
			continue;
		bad = &lb->domains[i];
		if (!is_pending)
			break;
	}
	if (!bad)
		return;
	state = (struct bb_state){
		.code = str_eq_c(bad->status, "pending") ? ERR_PENDING : ERR_UNAVAILABLE,
		.text = arena_printf(arena,
		                     "Domain %s has not yet been validated for SSL use (%s:%s)",
		                     quote_z(arena, bad->identifier), quote_z(arena, bad->status),
		                     quote_z(arena, bad->last_message)),
		/* the last message is not part of the state, because it may contain the time */
		.hash = str_hash(arena_printf(arena, "%" STR_FMT " %" STR_FMT,
		                              STR_ARG(bad->identifier), STR_ARG(bad->status))),
		.advice = "Check that the name leads to the load balancer from the Internet, and "
			  "ask Brightbox why it does not validate it",
		.first_ms = BB_LATER_MS,
	};
	bb_run_await(run, &state);
}

/* Lists the names of the cloud IPs instead of addresses, because each name has addresses of both
 * families. */
static void
bb_fill_status(const struct bb_run *run, const struct bb_lb *lb, struct lb_status *ret)
{
	struct arena *arena = run->call->arena;

	*ret = (struct lb_status){
		.ingress = arena_calloc(arena, 2 * lb->n_cloud_ips, sizeof(*ret->ingress)),
	};
	for (size_t i = 0; i < lb->n_cloud_ips; i++) {
		const struct str names[] = { lb->cloud_ips[i].reverse_dns, lb->cloud_ips[i].fqdn };

		for (size_t j = 0; j < ARRAY_LEN(names); j++) {
			if (names[j].len > 0)
				ret->ingress[ret->n_ingress++] = (struct lb_ingress){
					.ip = STR_EMPTY,
					.hostname = arena_str(arena, names[j]),
					.ip_mode = LB_IP_MODE_NONE,
				};
		}
	}
}

/* ---- a pass ---- */

/* Do the lists show a balancer or a cloud IP of the Service's name? */
static bool
bb_shows_service(const struct bb_run *run)
{
	const struct bb_view *view = run->view;

	if (bb_view_next(view, run->desired.name, bb_lb_is_alive, NULL))
		return true;
	for (size_t i = 0; i < view->n_cloud_ips; i++) {
		if (str_eq(view->cloud_ips[i].name, run->desired.name))
			return true;
	}
	return false;
}

/* If the lists show nothing of the Service, they may be those of another account, because the
 * credentials are wrong or were wrong when the lists were read. So the pass only looks for evidence
 * of the right account, and the next pass has lists that were read after it was found. */
static bool
bb_needs_evidence(const struct bb_run *run)
{
	return !run->is_ours && lb_needs_evidence(run->spec) && !bb_shows_service(run);
}

static bool
bb_step_check_account(struct bb_run *run, struct error *err)
{
	run->has_difference = true;
	if (run->only_compares)
		return true;
	run->is_ours = balancer_check_project(&run->bb->cloud, run->call, run->spec, err);
	return run->is_ours;
}

/* Adds the name of the step to the error, unless the error is a state, whose text names the
 * objects.
 */
static bool
bb_pass_fail(const struct bb_run *run, const char *step, struct error *err)
{
	return run->ends_in_state || err->code == ERR_PENDING ? false : err_wrap(err, "%s", step);
}

/* Holds the Service if the balancer of its name belongs to another cluster: the cloud IP, the
 * server group and the firewall policy of that name do so as well. */
static bool
bb_step_own(struct bb_run *run, struct error *err)
{
	const struct bb_lb *foreign = bb_find_foreign(run);
	struct bb_state state = { .code = ERR_PENDING,
		                  .first_ms = BB_LATER_MS,
		                  .event = &foreign_event };

	if (!foreign)
		return true;
	state.text = state.event_text = bb_lb_foreign_text(run, foreign);
	return bb_run_stop(run, &state, err);
}

static bool
bb_pass(struct bb_run *run, struct error *err)
{
	run->lb = NULL;
	if (bb_needs_evidence(run))
		return bb_step_check_account(run, err);
	if (!bb_step_own(run, err))
		return false;
	if (!bb_step_ip(run, err))
		return bb_pass_fail(run, "cloud IP", err);
	if (!run->ip)
		return true;
	if (!bb_step_domains(run, err))
		return false;
	if (!bb_step_firewall(run, err))
		return bb_pass_fail(run, "firewall", err);
	if (!bb_step_lb(run, err))
		return bb_pass_fail(run, "load balancer", err);
	if (!run->lb)
		return true;
	if (!bb_step_map(run, err) || !bb_step_stale_ips(run, err))
		return bb_pass_fail(run, "cloud IP", err);
	if (!run->has_difference)
		bb_check_complete(run, run->lb);
	return true;
}

static bool
bb_balancers_ensure(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                    enum lb_outcome *ret, struct lb_status *ret_status, struct error *err)
{
	CLEANUP(bb_run_fini)
	struct bb_run run = { .bb = brightbox_of(cloud), .call = call, .spec = spec };
	struct bb_cloud_ip ip;
	struct bb_lb lb;

	if (!bb_desired_read(spec, call->arena, &run.desired, err) || !bb_run_begin(&run, err))
		return false;
	if (!bb_run_end(&run, bb_run_converge(&run, bb_pass, err), err))
		return false;
	*ret = LB_DONE;
	lb = *run.lb;
	/* a dry run noted changes: the result is that of their effect */
	if (call->dry && run.has_acted) {
		ip = *run.ip;
		lb.cloud_ips = &ip;
		lb.n_cloud_ips = 1;
	}
	bb_fill_status(&run, &lb, ret_status);
	return true;
}

/* ---- removing ---- */

/* Deletes all balancers that have the name, those that have failed last. */
static bool
bb_step_remove_lbs(struct bb_run *run, bool *ret_found, struct error *err)
{
	static bool (*const kinds[])(const struct bb_lb *) = { bb_lb_is_alive, bb_lb_has_failed };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		const struct bb_lb *lb = NULL;

		while ((lb = bb_view_next(run->view, run->desired.name, kinds[i], lb))) {
			*ret_found = true;
			if (!bb_lb_destroy(run, lb, err))
				return false;
		}
	}
	return true;
}

/* The firewall first, as the official controller does: what no longer leads anywhere goes last. The
 * balancer holds its cloud IPs, so they are left to the next pass. What this run has deleted needs
 * no evidence that it was there, unless something that was listed did not exist a moment later:
 * either somebody else has deleted it, or the credentials are now those of another account. */
static bool
bb_pass_remove(struct bb_run *run, struct error *err)
{
	const struct bb_lb *foreign = bb_find_foreign(run);
	bool has_lb = false;

	if ((!run->has_acted || run->has_missed) && bb_needs_evidence(run))
		return bb_step_check_account(run, err);
	if (foreign) {
		if (!run->call->dry)
			bb_run_warn(run, &foreign_event, bb_lb_foreign_text(run, foreign));
		return true;
	}
	if (!bb_step_remove_firewall(run, err))
		return bb_pass_fail(run, "firewall", err);
	if (!bb_step_remove_lbs(run, &has_lb, err))
		return bb_pass_fail(run, "load balancer", err);
	if (has_lb && !run->call->dry)
		return true;
	run->ip = NULL;
	run->lb = NULL;
	if (!bb_step_stale_ips(run, err))
		return bb_pass_fail(run, "cloud IP", err);
	bb_step_await_ips(run);
	return true;
}

static bool
bb_balancers_remove(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                    bool *ret_found, struct error *err)
{
	CLEANUP(bb_run_fini)
	struct bb_run run = { .bb = brightbox_of(cloud), .call = call, .spec = spec };

	run.desired.name = bb_name(spec, call->arena);
	run.is_removal = true;
	if (!bb_run_begin(&run, err) ||
	    !bb_run_end(&run, bb_run_converge(&run, bb_pass_remove, err), err))
		return false;
	*ret_found = run.has_acted;
	return true;
}

/* The runs of all Services that follow share this view while it is recent. */
static bool
bb_balancers_adopt(struct cloud *cloud, struct call *call, const struct lb_spec *const specs[],
                   size_t n, struct error *err)
{
	struct bb_views *views = brightbox_of(cloud)->views;
	CLEANUP(bb_view_unrefp) struct bb_view *view = NULL;

	(void)specs;
	if (n == 0)
		return true;
	return bb_views_get(views, call, bb_views_next(views), &view, err);
}

static void
bb_balancers_forget(struct cloud *cloud, struct str uid)
{
	bb_unsettled_forget(brightbox_of(cloud)->unsettled, uid);
}

/* ---- for commands that change nothing ---- */

static bool
bb_balancers_check(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                   struct error *err)
{
	struct bb_desired ignored;

	(void)cloud;
	return bb_desired_read(spec, call->arena, &ignored, err);
}

/* Adds an object that was made for a Service, which its name shows, and returns its entry; NULL for
 * other objects. */
static struct lb_listed *
bb_list_add(struct lb_listed list[], size_t *n, struct arena *arena, const char *what,
            struct str id, struct str name)
{
	struct lb_listed one = {
		.what = what, .id = arena_str(arena, id), .uid = STR_EMPTY, .cost = STR_EMPTY
	};

	if (!bb_name_parse(arena_str(arena, name), arena, &one.service, &one.cluster))
		return NULL;
	list[*n] = one;
	return &list[(*n)++];
}

static void
bb_list_add_lb(struct lb_listed list[], size_t *n, struct arena *arena, const struct bb_lb *lb)
{
	struct lb_listed *one = bb_list_add(list, n, arena, "load balancer", lb->id,
	                                    bb_trim_name(lb->name));
	struct str *addresses;

	if (!one)
		return;
	addresses = arena_calloc(arena, 2 * lb->n_cloud_ips + 1, sizeof(*addresses));
	one->is_balancer = one->has_targets = true;
	one->n_targets = lb->n_nodes;
	one->addresses = addresses;
	for (size_t i = 0; i < lb->n_cloud_ips; i++) {
		const struct bb_cloud_ip *ip = &lb->cloud_ips[i];

		if (ip->public_ipv4.len > 0)
			addresses[one->n_addresses++] = arena_str(arena, ip->public_ipv4);
		if (ip->public_ipv6.len > 0)
			addresses[one->n_addresses++] = arena_str(arena, ip->public_ipv6);
	}
}

/* The API reports no prices. */
static bool
bb_balancers_list(struct cloud *cloud, struct call *call, struct lb_listed **ret, size_t *ret_n,
                  struct error *err)
{
	CLEANUP(bb_view_unrefp) struct bb_view *view = NULL;
	struct arena *arena = call->arena;
	struct lb_listed *list;
	size_t n = 0;

	if (!bb_views_get_recent(brightbox_of(cloud)->views, call, 0, BB_VIEW_MAX_AGE_NS, &view,
	                         err))
		return false;
	list = arena_calloc(arena,
	                    view->n_lbs + view->n_cloud_ips + view->n_groups + view->n_policies + 1,
	                    sizeof(*list));
	for (size_t i = 0; i < view->n_lbs; i++) {
		if (bb_lb_is_alive(&view->lbs[i]))
			bb_list_add_lb(list, &n, arena, &view->lbs[i]);
	}
	for (size_t i = 0; i < view->n_cloud_ips; i++)
		bb_list_add(list, &n, arena, "cloud IP", view->cloud_ips[i].id,
		            view->cloud_ips[i].name);
	for (size_t i = 0; i < view->n_groups; i++)
		bb_list_add(list, &n, arena, "server group", view->groups[i].id,
		            view->groups[i].name);
	for (size_t i = 0; i < view->n_policies; i++)
		bb_list_add(list, &n, arena, "firewall policy", view->policies[i].id,
		            view->policies[i].name);
	*ret = list;
	*ret_n = n;
	return true;
}

/* The official controller refuses UDP and affinity in its own words (desired.c), and passes over
 * source ranges in silence, which leaves a Service open that looks restricted. */
const struct balancer_ops bb_balancer_ops = {
	.features = {
		[LB_UDP_PORTS] = LB_PASS,
		[LB_SCTP_PORTS] = LB_PASS,
		[LB_SEVERAL_PORTS] = LB_PASS,
		[LB_PORTS_WITHOUT_NODE_PORT] = LB_PASS,
		[LB_SOURCE_RANGES] = LB_LEAVE_OUT,
		[LB_LOCAL_TRAFFIC] = LB_PASS,
		[LB_CLIENT_AFFINITY] = LB_PASS,
		[LB_IPV6] = LB_PASS,
		[LB_DUAL_STACK] = LB_PASS,
		[LB_CHOSEN_IP] = LB_PASS,
	},
	.ensure = bb_balancers_ensure,
	.remove = bb_balancers_remove,
	.adopt = bb_balancers_adopt,
	.finds_drift = true,
	.forget = bb_balancers_forget,
	.annotation_prefix = BB_PREFIX,
	.annotations = bb_annotation_names,
	.annotation_lists = bb_annotation_lists,
	.other_annotations = bb_other_annotations,
	.check = bb_balancers_check,
	.list = bb_balancers_list,
};

/* ---- anchors ---- */

bool
bb_balancers_count_serving(struct cloud *cloud, struct call *call, unsigned *ret, struct error *err)
{
	struct brightbox *bb = brightbox_of(cloud);
	struct bb_lb *lbs;
	size_t n;

	if (!bb_list_lbs(bb->client, call, &lbs, &n, err))
		return false;
	*ret = 0;
	for (size_t i = 0; i < n; i++)
		*ret += bb_lb_is_alive(&lbs[i]) && bb_lb_is_in_status(bb->host, &lbs[i]);
	return true;
}
