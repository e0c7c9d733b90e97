/* balancers.c: see balancers.h.
 *
 * A run is a sequence of passes. A pass goes through the same steps every time, and each step
 * compares one thing with the view and acts where it differs. The first pass is a trial: it changes
 * nothing, and its view may be some seconds old. If no step would act, nothing needs to be done for
 * the Service. Otherwise more passes follow, until one has nothing left to do. Their views were
 * read after the run began and after its last change. A step whose object is still missing ends its
 * pass, because the next view shows it.
 *
 * In a dry run the first pass that would act notes its changes, and is the last one. No view will
 * ever show what it notes, so it goes on with objects that are made up. They end with the run:
 * neither a view nor the memory of created balancers gets them.
 *
 * A crash between two steps is harmless: the next run finds by their names what is there already.
 */
#include "providers/brightbox/balancers.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/event_kind.h"
#include "base/ip.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/map.h"
#include "base/quote.h"
#include "base/rand.h"
#include "base/thread.h"
#include "providers/brightbox/brightbox.h"
#include "providers/brightbox/desired.h"
#include "providers/brightbox/domains.h"

#define FIREWALL_SOURCE "10.0.0.0/8" /* from where balancers reach servers */
#define DEFAULT_CLUSTER "kubernetes" /* the default of --cluster-name */

enum {
	PASSES_MAX = 6,
	/* how long a worker waits for its changes to take effect before the Service is requeued */
	IN_PLACE_MS = 3000,
	POLL_MS = 500,
	AGAIN_MS = 2000,
	LATER_MS = 5000,         /* … and when the run changed nothing: the cloud may need hours */
	DUPLICATE_MIN_MS = 1000, /* two processes wait for times in this range, at random */
	DUPLICATE_MAX_MS = 6000,
};

EVENT_KIND(elsewhere_event, "cloud-controller-manager", "CloudIPMappedElsewhere", true, "Service",
           "brightbox: the Service's cloud IP is mapped to something else and is left there.");
EVENT_KIND(
	duplicate_event, "cloud-controller-manager", "LoadBalancerDuplicate", true, "Service",
	"brightbox: there are several load balancers of the Service's name; the message says which "
	"one is used.");

EVENT_KIND(foreign_event, "cloud-controller-manager", "LoadBalancerMayBeForeign", true, "Service",
           "brightbox: a load balancer was found by a name that contains the default cluster name, "
           "and no Service of this cluster has its addresses.");

/* A balancer that this process created, until a status shows it. */
struct bb_created {
	struct str name, id;
};

struct bb_balancers {
	struct bb_balancers_config config;
	pthread_mutex_t mu;
	struct map created; /* mu; of struct bb_created */
};

/* One call of ensure or remove. */
struct bb_run {
	struct bb_balancers *b;
	struct bb_client *client;
	struct call *call;
	const struct lb_spec *spec;
	struct bb_desired desired;
	struct bb_view *view;
	bool is_trial;      /* steps only set is_due if they would act */
	bool is_due;        /* a step acted, or would */
	bool has_acted;     /* in any pass */
	struct str created; /* id of the balancer that this process created; empty: none */
	bool is_ours;       /* the account is that of the cluster */
	struct str checked; /* id of the cloud IP whose domains were resolved */
	bool is_mapping;    /* the cloud IP was asked to be mapped */
	bool is_unmapping;  /* old cloud IPs were asked to be unmapped */
	bool is_reported;   /* events about the balancer were sent */
	bool is_waiting;    /* the pass ended because a change of this run is not finished */
	/* of the current pass */
	const struct bb_cloud_ip *ip; /* NULL: it is still to be made */
	struct bb_cloud_ip named_ip;  /* where the list does not have it */
	bool has_new_ip;              /* in a dry run: named_ip is made up */
	struct str *domains;
	size_t n_domains;
	const struct bb_lb *lb; /* NULL: it is still to be made */
	struct bb_lb new_lb;    /* in a dry run: made up */
};

/* ---- balancers that this process created ---- */

/* A run that fails after it created a balancer forgets that. The next one must still know which of
 * two balancers is its own. */
static void
bb_created_store(struct bb_run *run, struct str id)
{
	struct bb_balancers *b = run->b;
	struct bb_created *one;
	WITH_LOCK(&b->mu);

	free(map_remove(&b->created, run->desired.name));
	run->created = id;
	if (id.len == 0)
		return;
	one = xcalloc(1, sizeof(*one) + run->desired.name.len + id.len);
	one->name = str_n(memcpy(one + 1, run->desired.name.ptr, run->desired.name.len),
	                  run->desired.name.len);
	one->id = str_n(memcpy((char *)(one + 1) + one->name.len, id.ptr, id.len), id.len);
	map_put(&b->created, one->name, one);
}

static void
bb_created_load(struct bb_run *run)
{
	struct bb_balancers *b = run->b;
	const struct bb_created *one;
	WITH_LOCK(&b->mu);

	one = map_get(&b->created, run->desired.name);
	run->created = one ? arena_str(run->call->arena, one->id) : STR_EMPTY;
}

/* ---- a run ---- */

/* Every step asks this before it acts. */
static bool
bb_run_act(struct bb_run *run)
{
	run->is_due = true;
	run->has_acted |= !run->is_trial;
	return !run->is_trial;
}

static bool
bb_run_pend(struct error *err, int64_t retry_after_ms, const char *text)
{
	err_set(err, ERR_PENDING, "%s", text);
	err->retry_after_ms = retry_after_ms;
	return false;
}

/* Ends a pass because the cloud has not finished a change. After a change of this run,
 * bb_run_converge() waits and repeats the pass; else the Service is reconciled again later. */
static bool
bb_run_wait(struct bb_run *run, struct error *err, const char *text)
{
	run->is_waiting = run->has_acted;
	bb_views_outdate(run->b->config.views);
	return bb_run_pend(err, run->has_acted ? AGAIN_MS : LATER_MS, text);
}

static void
bb_run_warn(const struct bb_run *run, const struct event_kind *kind, struct str text)
{
	const struct cloud_host *host = run->b->config.host;

	host->service_event(host, run->spec, HOST_EVENT_WARNING, kind->reason, text);
}

static const char *
bb_run_quote(const struct bb_run *run, struct str text)
{
	return quote_z(run->call->arena, text);
}

/* ---- the cloud IP ---- */

static bool
bb_ip_by_id(struct bb_run *run, struct error *err)
{
	for (size_t i = 0; i < run->view->n_cloud_ips; i++) {
		if (str_eq(run->view->cloud_ips[i].id, run->desired.cloud_ip)) {
			run->ip = &run->view->cloud_ips[i];
			return true;
		}
	}
	run->ip = &run->named_ip;
	return bb_get_cloud_ip(run->client, run->call, run->desired.cloud_ip, &run->named_ip, err);
}

static bool
bb_ip_by_address(struct bb_run *run, struct error *err)
{
	struct str wanted = run->desired.wanted_ip;
	struct ip ip, v4, v6;

	if (!ip_parse(wanted, &ip))
		return err_set(err, ERR_INVALID, "Invalid LoadBalancerIP: %s",
		               bb_run_quote(run, wanted));
	for (size_t i = 0; i < run->view->n_cloud_ips; i++) {
		const struct bb_cloud_ip *one = &run->view->cloud_ips[i];

		if ((ip_parse(one->public_ipv4, &v4) && ip_eq(&ip, &v4)) ||
		    (ip_parse(one->public_ipv6, &v6) && ip_eq(&ip, &v6))) {
			run->ip = one;
			if (run->is_trial)
				log_warn("spec.loadBalancerIP is deprecated. Remove the entry and "
				         "add the annotation",
				         LOG_STR("service", run->desired.name),
				         LOG_CSTR("key", BB_CLOUD_IP_KEY),
				         LOG_STR("value", one->id));
			return true;
		}
	}
	return err_set(err, ERR_INVALID, "Could not find allocated Cloud IP with address %s",
	               bb_run_quote(run, wanted));
}

/* The first one that has the name, or that is mapped to a balancer that has it. */
static bool
bb_ip_by_name(struct bb_run *run, struct error *err)
{
	for (size_t i = 0; i < run->view->n_cloud_ips; i++) {
		const struct bb_cloud_ip *one = &run->view->cloud_ips[i];

		if (str_eq(one->name, run->desired.name) ||
		    (one->lb_id.len > 0 && str_eq(one->lb_name, run->desired.name))) {
			run->ip = one;
			return true;
		}
	}
	if (!bb_run_act(run))
		return true;
	if (!bb_create_cloud_ip(run->client, run->call, run->desired.name, &run->named_ip, err))
		return false;
	run->has_new_ip = run->call->dry != NULL;
	run->ip = run->has_new_ip ? &run->named_ip : NULL;
	return true;
}

static bool
bb_step_ip(struct bb_run *run, struct error *err)
{
	run->ip = NULL;
	if (run->desired.cloud_ip.len > 0)
		return bb_ip_by_id(run, err);
	if (run->desired.wanted_ip.len > 0)
		return bb_ip_by_address(run, err);
	return bb_ip_by_name(run, err);
}

static bool
bb_step_domains(struct bb_run *run, struct error *err)
{
	bb_desired_domains(&run->desired, run->ip, run->call->arena, &run->domains,
	                   &run->n_domains);
	if (str_eq(run->checked, run->ip->id))
		return true;
	if (run->has_new_ip) /* no domain of the user's can lead to it yet */
		return run->desired.n_domains == 0 ||
		       err_set(err, ERR_INVALID,
		               "Failed to resolve %s to load balancer address, which is not "
		               "assigned yet",
		               bb_run_quote(run, run->desired.domains[0]));
	run->checked = arena_str(run->call->arena, run->ip->id);
	return bb_domains_check(run->call, run->b->config.hosts_file, run->ip, run->domains,
	                        run->n_domains, err);
}

/* ---- the firewall ---- */

/* New servers are added before old ones are removed, so that traffic never finds none. */
static bool
bb_step_members(struct bb_run *run, const struct bb_group *group, struct error *err)
{
	struct str *added, *removed;
	size_t n_added = bb_missing(run->desired.servers, run->desired.n_servers, group->servers,
	                            group->n_servers, run->call->arena, &added);
	size_t n_removed = bb_missing(group->servers, group->n_servers, run->desired.servers,
	                              run->desired.n_servers, run->call->arena, &removed);

	if (n_added > 0 && bb_run_act(run) &&
	    !bb_add_servers(run->client, run->call, group->id, added, n_added, err))
		return false;
	return n_removed == 0 || !bb_run_act(run) ||
	       bb_remove_servers(run->client, run->call, group->id, removed, n_removed, err);
}

/* Only the first rule is ours; users may have added others. */
static bool
bb_step_rule(struct bb_run *run, const struct bb_policy *policy, struct error *err)
{
	const struct bb_rule *is = policy->rules;
	struct bb_rule wanted = {
		.id = policy->n_rules > 0 ? policy->rules[0].id : STR_EMPTY,
		.protocol = STR("tcp"),
		.source = STR(FIREWALL_SOURCE),
		.destination_port = run->desired.firewall_ports,
		.description = run->desired.name,
	};

	if (policy->n_rules == 0)
		return !bb_run_act(run) ||
		       bb_create_rule(run->client, run->call, policy->id, &wanted, err);
	if (str_eq(is->protocol, wanted.protocol) && str_eq(is->source, wanted.source) &&
	    str_eq(is->destination_port, wanted.destination_port) &&
	    str_eq(is->description, wanted.description))
		return true;
	return !bb_run_act(run) ||
	       bb_update_rule(run->client, run->call, policy->id, &wanted, is, err);
}

static bool
bb_step_firewall(struct bb_run *run, struct error *err)
{
	const struct bb_group *group = bb_view_group(run->view, run->desired.name);
	const struct bb_policy *policy = bb_view_policy(run->view, run->desired.name);
	struct bb_group new_group;
	struct bb_policy new_policy;

	if (!group && bb_run_act(run)) {
		if (!bb_create_group(run->client, run->call, run->desired.name, &new_group, err))
			return false;
		group = &new_group;
	}
	if (!group)
		return true;
	if (!bb_step_members(run, group, err))
		return false;
	if (!policy && bb_run_act(run)) {
		if (!bb_create_policy(run->client, run->call, run->desired.name, group->id,
		                      &new_policy, err))
			return false;
		policy = &new_policy;
	}
	if (!policy)
		return true;
	if (!str_eq(policy->group, group->id) && bb_run_act(run) &&
	    !bb_apply_policy(run->client, run->call, policy->id, group->id, err))
		return false;
	return bb_step_rule(run, policy, err);
}

/* ---- the balancer ---- */

static struct str
bb_lb_body(struct bb_run *run, bool is_update)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);

	bb_desired_body(&body, &run->desired, run->domains, run->n_domains, is_update);
	return arena_str(run->call->arena, buf_str(&body));
}

/* The balancer as it is, in the form of the body of an update. */
static struct str
bb_lb_present(const struct bb_run *run)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);

	bb_desired_present(&body, &run->desired, run->lb, run->call->arena);
	return arena_str(run->call->arena, buf_str(&body));
}

static bool
bb_lb_create(struct bb_run *run, struct error *err)
{
	struct bb_lb made;

	if (!bb_create_lb(run->client, run->call, run->desired.name,
	                  bb_lb_body(run, /*is_update=*/false), &made, err))
		return false;
	if (run->call->dry) {
		run->new_lb = made;
		run->lb = &run->new_lb;
		return true;
	}
	log_info("load balancer created", LOG_STR("name", made.name), LOG_STR("id", made.id));
	bb_created_store(run, made.id);
	return true;
}

/* Another process created one at the same time. Both delete their own, and the first one that wakes
 * again keeps what it creates then. */
static bool
bb_lb_withdraw(struct bb_run *run, struct error *err)
{
	struct error why;

	bb_views_outdate(run->b->config.views);
	if (!bb_destroy_lb(run->client, run->call, run->created, &why) &&
	    why.code != ERR_NOT_FOUND) {
		*err = why;
		return err_wrap(err, "delete load balancer %" STR_FMT " beside another one",
		                STR_ARG(run->created));
	}
	log_info("load balancer withdrawn, another process created one as well",
	         LOG_STR("id", run->created));
	bb_created_store(run, STR_EMPTY);
	return bb_run_pend(err, rand_between(DUPLICATE_MIN_MS, DUPLICATE_MAX_MS),
	                   "another process created a load balancer for this Service as well");
}

/* Of several that this process did not create, the one that has a cloud IP serves. */
static const struct bb_lb *
bb_lb_choose(struct bb_run *run, size_t *ret_n)
{
	const struct bb_lb *first = bb_view_next_lb(run->view, run->desired.name, NULL);
	const struct bb_lb *chosen = first;

	*ret_n = 0;
	for (const struct bb_lb *lb = first; lb;
	     lb = bb_view_next_lb(run->view, run->desired.name, lb)) {
		(*ret_n)++;
		if (chosen->n_cloud_ips == 0 && lb->n_cloud_ips > 0)
			chosen = lb;
	}
	return chosen;
}

/* Does a live Service of ours have an address of that cloud IP? Its reverse name does not count:
 * the owner of an account chooses it, so another account may have the same. */
static bool
bb_is_in_status(const struct cloud_host *host, const struct bb_cloud_ip *ip)
{
	return host->is_service_address(host, ip->fqdn) ||
	       host->is_service_address(host, ip->public_ipv4) ||
	       host->is_service_address(host, ip->public_ipv6);
}

static bool
bb_lb_is_in_status(const struct cloud_host *host, const struct bb_lb *lb)
{
	for (size_t i = 0; i < lb->n_cloud_ips; i++) {
		if (bb_is_in_status(host, &lb->cloud_ips[i]))
			return true;
	}
	return false;
}

/* What a person should know about the balancer that was found by its name, once in a run. */
static void
bb_lb_report(struct bb_run *run, const struct bb_lb *lb, size_t n)
{
	const char *name = bb_run_quote(run, run->desired.name);
	struct arena *arena = run->call->arena;

	if (run->is_reported || run->created.len > 0)
		return;
	run->is_reported = true;
	if (n > 1)
		bb_run_warn(run, &duplicate_event,
		            arena_printf(arena,
		                         "There are %zu load balancers named %s; %" STR_FMT
		                         " is used. Delete the others.",
		                         n, name, STR_ARG(lb->id)));
	if (str_eq_c(run->spec->cluster, DEFAULT_CLUSTER) && lb->n_cloud_ips > 0 &&
	    !bb_lb_is_in_status(run->b->config.host, lb))
		bb_run_warn(run, &foreign_event,
		            arena_printf(arena,
		                         "Load balancer %" STR_FMT
		                         " was found by its name %s, which contains the default "
		                         "cluster name, and no Service of this cluster has its "
		                         "addresses. If it belongs to another cluster of this "
		                         "account, give each cluster its own --cluster-name",
		                         STR_ARG(lb->id), name));
}

/* No balancer of the name is in the list. May one be created? Not while the list lacks one that
 * this process created before. */
static bool
bb_lb_may_create(struct bb_run *run, struct error *err)
{
	struct bb_lb lb;

	if (run->created.len == 0)
		return true;
	if (!bb_get_lb(run->client, run->call, run->created, &lb, err))
		return err->code == ERR_NOT_FOUND;
	return !bb_lb_is_alive(&lb) ||
	       bb_run_pend(err, AGAIN_MS, "the list lacks the load balancer that was created");
}

static bool
bb_step_lb(struct bb_run *run, struct error *err)
{
	size_t n;

	for (const struct bb_lb *lb = NULL;
	     run->created.len > 0 && (lb = bb_view_next_lb(run->view, run->desired.name, lb));) {
		if (!str_eq(lb->id, run->created))
			return !bb_run_act(run) || bb_lb_withdraw(run, err);
	}
	run->lb = bb_lb_choose(run, &n);
	if (!run->lb)
		return !bb_run_act(run) || (bb_lb_may_create(run, err) && bb_lb_create(run, err));
	bb_lb_report(run, run->lb, n);
	if (!bb_desired_difference(&run->desired, run->domains, run->n_domains, run->lb,
	                           run->call->arena))
		return true;
	return !bb_run_act(run) ||
	       bb_update_lb(run->client, run->call, run->lb->id,
	                    bb_lb_body(run, /*is_update=*/true), bb_lb_present(run), err);
}

/* ---- mapping ---- */

static bool
bb_is_mapped_here(const struct bb_run *run)
{
	return str_eq(run->ip->lb_id, run->lb->id);
}

/* A cloud IP that is mapped elsewhere stays there, because it may be in use there. */
static bool
bb_step_map(struct bb_run *run, struct error *err)
{
	if (bb_is_mapped_here(run) || run->is_mapping)
		return true;
	if (bb_cloud_ip_is_mapped(run->ip)) {
		if (run->is_trial)
			return true;
		bb_run_warn(run, &elsewhere_event,
		            arena_printf(run->call->arena,
		                         "CloudIP %s (%" STR_FMT
		                         ") is mapped elsewhere. Unmap the Cloud IP and reapply "
		                         "this manifest, or map manually to %s",
		                         bb_run_quote(run, run->ip->id),
		                         STR_ARG(run->ip->public_ipv4),
		                         bb_run_quote(run, run->lb->id)));
		return true;
	}
	if (!bb_run_act(run))
		return true;
	run->is_mapping = true;
	return bb_map_cloud_ip(run->client, run->call, run->ip->id, run->lb->id, err) ||
	       err->code == ERR_CONFLICT; /* it is being mapped */
}

/* A balancer that is being deleted keeps its cloud IPs until that has ended. */
static bool
bb_ip_is_leaving(const struct bb_run *run, const struct bb_cloud_ip *ip)
{
	for (size_t i = 0; i < run->view->n_lbs; i++) {
		if (str_eq(run->view->lbs[i].id, ip->lb_id))
			return str_eq_c(run->view->lbs[i].status, "deleting");
	}
	return false;
}

/* Unmapping takes some seconds, like mapping, so it is asked for in one pass of a run. */
static bool
bb_ip_unmap(struct bb_run *run, const struct bb_cloud_ip *ip, struct error *err)
{
	if (run->is_unmapping)
		return bb_run_wait(run, err, "an old cloud IP is still mapped");
	return !bb_run_act(run) || bb_unmap_cloud_ip(run->client, run->call, ip->id, err) ||
	       err->code == ERR_CONFLICT; /* it is being unmapped */
}

static bool
bb_ip_destroy(struct bb_run *run, const struct bb_cloud_ip *ip, struct error *err)
{
	if (bb_ip_is_leaving(run, ip))
		return bb_run_wait(run, err, "CloudIPs still mapped to load balancer");
	return !bb_run_act(run) || bb_destroy_cloud_ip(run->client, run->call, ip->id, err) ||
	       err->code == ERR_NOT_FOUND;
}

/* The balancer's other cloud IPs leave it, and those that bear the Service's name are destroyed:
 * by the next pass, or in a dry run, which has no other one, by the same. */
static bool
bb_step_stale_ips(struct bb_run *run, struct error *err)
{
	bool unmaps = false;

	for (size_t i = 0; i < run->view->n_cloud_ips; i++) {
		const struct bb_cloud_ip *one = &run->view->cloud_ips[i];
		bool is_here = run->lb && str_eq(one->lb_id, run->lb->id);

		if (run->ip && str_eq(one->id, run->ip->id))
			continue;
		if (is_here && !bb_ip_unmap(run, one, err))
			return false;
		if ((!is_here || run->call->dry) && str_eq(one->name, run->desired.name) &&
		    !bb_ip_destroy(run, one, err))
			return false;
		unmaps |= is_here;
	}
	run->is_unmapping |= unmaps && !run->is_trial;
	return true;
}

/* ---- a pass ---- */

/* If the lists show nothing of the Service, they may be those of another account, because the
 * credentials are wrong or were wrong when the lists were read. So the pass only looks for evidence
 * of the right account, and the next pass has lists that were read after it was found. */
static bool
bb_needs_proof(const struct bb_run *run)
{
	if (run->is_ours || !lb_needs_evidence(run->spec) ||
	    bb_view_next_lb(run->view, run->desired.name, NULL))
		return false;
	for (size_t i = 0; i < run->view->n_cloud_ips; i++) {
		if (str_eq(run->view->cloud_ips[i].name, run->desired.name))
			return false;
	}
	return true;
}

static bool
bb_step_prove(struct bb_run *run, struct error *err)
{
	run->is_due = true;
	if (run->is_trial)
		return true;
	run->is_ours = balancer_check_project(run->b->config.cloud, run->call, run->spec, err);
	return run->is_ours;
}

static bool
bb_pass(struct bb_run *run, struct error *err)
{
	run->lb = NULL;
	if (bb_needs_proof(run))
		return bb_step_prove(run, err);
	if (!bb_step_ip(run, err))
		return err_wrap(err, "cloud IP");
	if (!run->ip)
		return true;
	if (!bb_step_domains(run, err))
		return false;
	if (!bb_step_firewall(run, err))
		return err_wrap(err, "firewall");
	if (!bb_step_lb(run, err))
		return err->code == ERR_PENDING ? false : err_wrap(err, "load balancer");
	if (!run->lb)
		return true;
	return (bb_step_map(run, err) && bb_step_stale_ips(run, err)) ||
	       (err->code == ERR_PENDING ? false : err_wrap(err, "cloud IP"));
}

/* Makes passes until one has nothing left to do. While the cloud has not finished a change of
 * this run, the same pass is repeated every POLL_MS, for at most IN_PLACE_MS. */
static bool
bb_run_converge(struct bb_run *run, bool (*pass)(struct bb_run *, struct error *),
                struct error *err)
{
	struct bb_views *views = run->b->config.views;
	uint64_t first = bb_views_next(views);
	int64_t deadline_ns = clock_mono(run->call->clock) + IN_PLACE_MS * NS_PER_MS;
	bool is_good;

	for (int i = 0; i < PASSES_MAX; i += !run->is_waiting) {
		if (run->is_waiting &&
		    !cancel_sleep(run->call->cancel, run->call->clock, POLL_MS * NS_PER_MS, err))
			return false;
		bb_view_unref(TAKE(run->view));
		run->is_trial = i == 0;
		run->is_due = false;
		run->is_waiting = false;
		if (!bb_views_get(views, run->call, run->is_trial || run->call->dry ? 0 : first,
		                  &run->view, err))
			return false;
		is_good = pass(run, err);
		if (run->call->dry && run->has_acted)
			return is_good;
		if (run->is_due && !run->is_trial)
			bb_views_outdate(views);
		if (!is_good && !(run->is_waiting && clock_mono(run->call->clock) < deadline_ns))
			return false;
		if (is_good && !run->is_due)
			return true;
	}
	return bb_run_pend(err, AGAIN_MS, "the cloud does not show all changes yet");
}

/* ---- the result ---- */

static bool
bb_has_ip(const struct bb_lb *lb, struct str id)
{
	for (size_t i = 0; i < lb->n_cloud_ips; i++) {
		if (str_eq(lb->cloud_ips[i].id, id))
			return true;
	}
	return false;
}

/* ERR_PENDING: the cloud is still working, which does not count as a failure. Other codes: a person
 * has to fix something. */
static bool
bb_check_complete(const struct bb_run *run, const struct bb_lb *lb, struct error *err)
{
	if (!bb_lb_is_alive(lb))
		err_set(err, ERR_PENDING, "Load Balancer %s still building",
		        bb_run_quote(run, lb->id));
	else if (!bb_has_ip(lb, run->ip->id))
		err_set(err,
		        bb_cloud_ip_is_mapped(run->ip) && !bb_is_mapped_here(run) ? ERR_UNAVAILABLE
		                                                                  : ERR_PENDING,
		        "Mapping of CloudIP %s to %s not complete", bb_run_quote(run, run->ip->id),
		        bb_run_quote(run, lb->id));
	else
		err->code = ERR_NONE;
	for (size_t i = 0; err->code == ERR_NONE && i < lb->n_domains; i++) {
		const struct bb_domain *domain = &lb->domains[i];

		if (!str_eq_c(domain->status, "valid"))
			err_set(err,
			        str_eq_c(domain->status, "pending") ? ERR_PENDING : ERR_UNAVAILABLE,
			        "Domain %s has not yet been validated for SSL use (%s:%s)",
			        bb_run_quote(run, domain->identifier),
			        bb_run_quote(run, domain->status),
			        bb_run_quote(run, domain->last_message));
	}
	return err->code == ERR_NONE;
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

/* The last view shows all changes of the run. If the balancer is not complete there, only the
 * balancer is read again: for IN_PLACE_MS, or once if the run changed nothing. */
static bool
bb_run_finish(struct bb_run *run, bool was_settled, struct lb_status *ret, struct error *err)
{
	int64_t deadline_ns = clock_mono(run->call->clock) +
	                      (was_settled ? 0 : IN_PLACE_MS * NS_PER_MS);
	bool is_complete = bb_check_complete(run, run->lb, err);
	struct bb_lb lb = *run->lb;

	while (!is_complete) {
		if (!bb_get_lb(run->client, run->call, run->lb->id, &lb, err))
			return false;
		is_complete = bb_check_complete(run, &lb, err);
		if (is_complete)
			break;
		if (err->code == ERR_PENDING)
			bb_views_outdate(run->b->config.views);
		if (err->code != ERR_PENDING || clock_mono(run->call->clock) >= deadline_ns) {
			err->retry_after_ms = err->code != ERR_PENDING ? 0
			                      : was_settled            ? LATER_MS
			                                               : AGAIN_MS;
			return false;
		}
		if (!cancel_sleep(run->call->cancel, run->call->clock, POLL_MS * NS_PER_MS, err))
			return false;
	}
	bb_fill_status(run, &lb, ret);
	bb_created_store(run, STR_EMPTY);
	return true;
}

/* After a dry run that noted changes: the result as it will be when they have taken effect. */
static bool
bb_run_foresee(struct bb_run *run, struct lb_status *ret, struct error *err)
{
	bool is_elsewhere = bb_cloud_ip_is_mapped(run->ip) && !bb_is_mapped_here(run);
	struct bb_cloud_ip ip = *run->ip;
	struct bb_lb lb = { .id = run->lb->id,
		            .status = STR("active"),
		            .cloud_ips = &ip,
		            .n_cloud_ips = is_elsewhere ? 0 : 1 };

	if (!bb_check_complete(run, &lb, err))
		return false;
	bb_fill_status(run, &lb, ret);
	return true;
}

static void
bb_run_fini(struct bb_run *run)
{
	bb_view_unref(run->view);
}

static struct bb_run
bb_run_init(struct bb_balancers *b, struct call *call, const struct lb_spec *spec)
{
	return (struct bb_run){
		.b = b,
		.client = b->config.client,
		.call = call,
		.spec = spec,
		.created = STR_EMPTY,
		.checked = STR_EMPTY,
	};
}

static bool
bb_balancers_ensure(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                    enum lb_outcome *ret, struct lb_status *ret_status, struct error *err)
{
	struct bb_balancers *b = brightbox_of(cloud)->balancers;
	CLEANUP(bb_run_fini) struct bb_run run = bb_run_init(b, call, spec);

	if (!bb_desired_read(spec, call->arena, &run.desired, err))
		return false;
	bb_created_load(&run);
	if (!bb_run_converge(&run, bb_pass, err) ||
	    !(call->dry && run.has_acted
	              ? bb_run_foresee(&run, ret_status, err)
	              : bb_run_finish(&run, /*was_settled=*/run.is_trial, ret_status, err)))
		return false;
	*ret = LB_DONE;
	return true;
}

/* ---- removing ---- */

static bool
bb_step_remove_group(struct bb_run *run, struct error *err)
{
	const struct bb_group *group = bb_view_group(run->view, run->desired.name);

	if (!group || !bb_run_act(run))
		return true;
	if (group->n_servers > 0 && !bb_remove_servers(run->client, run->call, group->id,
	                                               group->servers, group->n_servers, err))
		return false;
	return bb_destroy_group(run->client, run->call, group->id, err) ||
	       err->code == ERR_NOT_FOUND;
}

static bool
bb_step_remove_policy(struct bb_run *run, struct error *err)
{
	const struct bb_policy *policy = bb_view_policy(run->view, run->desired.name);

	return !policy || !bb_run_act(run) ||
	       bb_destroy_policy(run->client, run->call, policy->id, err) ||
	       err->code == ERR_NOT_FOUND;
}

/* A cloud IP that is not ours by its name, too, is free only when the balancer is gone. */
static bool
bb_step_await_ips(struct bb_run *run, struct error *err)
{
	for (size_t i = 0; i < run->view->n_cloud_ips; i++) {
		const struct bb_cloud_ip *one = &run->view->cloud_ips[i];

		if (str_eq(one->lb_name, run->desired.name) && bb_ip_is_leaving(run, one))
			return bb_run_wait(run, err, "CloudIPs still mapped to load balancer");
	}
	return true;
}

/* The firewall first, as the official controller does: what no longer leads anywhere goes last. The
 * balancer holds its cloud IPs, so they are left to the next pass. */
static bool
bb_pass_remove(struct bb_run *run, struct error *err)
{
	bool has_lb = false;

	if (!run->has_acted && bb_needs_proof(run))
		return bb_step_prove(run, err);
	if (!bb_step_remove_group(run, err))
		return err_wrap(err, "server group");
	if (!bb_step_remove_policy(run, err))
		return err_wrap(err, "firewall policy");
	for (const struct bb_lb *lb = NULL;
	     (lb = bb_view_next_lb(run->view, run->desired.name, lb)); has_lb = true) {
		if (bb_run_act(run) && !bb_destroy_lb(run->client, run->call, lb->id, err) &&
		    err->code != ERR_NOT_FOUND)
			return err_wrap(err, "load balancer");
	}
	if (has_lb && !run->call->dry)
		return true;
	run->ip = NULL;
	run->lb = NULL;
	return (bb_step_stale_ips(run, err) && bb_step_await_ips(run, err)) ||
	       (err->code == ERR_PENDING ? false : err_wrap(err, "cloud IP"));
}

static bool
bb_balancers_remove(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                    bool *ret_found, struct error *err)
{
	struct bb_balancers *b = brightbox_of(cloud)->balancers;
	CLEANUP(bb_run_fini) struct bb_run run = bb_run_init(b, call, spec);

	run.desired.name = bb_name(spec, call->arena);
	if (!bb_run_converge(&run, bb_pass_remove, err))
		return false;
	bb_created_store(&run, STR_EMPTY);
	*ret_found = run.has_acted;
	return true;
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

static void
bb_balancers_add(struct lb_listed *list, size_t *n, struct arena *arena, const char *what,
                 struct str id, struct str name)
{
	struct lb_listed one = { .what = what, .uid = STR_EMPTY, .cost = STR_EMPTY };

	one.id = arena_str(arena, id);
	if (bb_name_parse(arena_str(arena, name), arena, &one.service, &one.cluster))
		list[(*n)++] = one;
}

static void
bb_balancers_detail(struct lb_listed *one, const struct bb_lb *lb, struct arena *arena)
{
	struct str *addresses = arena_calloc(arena, 2 * lb->n_cloud_ips + 1, sizeof(*addresses));

	one->is_balancer = true;
	one->addresses = addresses;
	one->n_targets = lb->n_nodes;
	one->has_targets = true;
	for (size_t i = 0; i < lb->n_cloud_ips; i++) {
		const struct bb_cloud_ip *ip = &lb->cloud_ips[i];

		if (ip->public_ipv4.len > 0)
			addresses[one->n_addresses++] = arena_str(arena, ip->public_ipv4);
		if (ip->public_ipv6.len > 0)
			addresses[one->n_addresses++] = arena_str(arena, ip->public_ipv6);
	}
}

/* What was made for a Service has its name. The API tells no prices. */
static bool
bb_balancers_list(struct cloud *cloud, struct call *call, struct lb_listed **ret, size_t *ret_n,
                  struct error *err)
{
	struct bb_views *views = brightbox_of(cloud)->views;
	CLEANUP(bb_view_unrefp) struct bb_view *view = NULL;
	struct arena *arena = call->arena;
	size_t n = 0;

	if (!bb_views_get(views, call, 0, &view, err))
		return false;
	*ret = arena_calloc(arena,
	                    view->n_lbs + view->n_cloud_ips + view->n_groups + view->n_policies + 1,
	                    sizeof((*ret)[0]));
	for (size_t i = 0; i < view->n_lbs; i++) {
		const struct bb_lb *lb = &view->lbs[i];
		size_t n_before = n;

		if (bb_lb_is_alive(lb))
			bb_balancers_add(*ret, &n, arena, "load balancer", lb->id,
			                 bb_view_lb_name(lb));
		if (n > n_before)
			bb_balancers_detail(&(*ret)[n_before], lb, arena);
	}
	for (size_t i = 0; i < view->n_cloud_ips; i++)
		bb_balancers_add(*ret, &n, arena, "cloud IP", view->cloud_ips[i].id,
		                 view->cloud_ips[i].name);
	for (size_t i = 0; i < view->n_groups; i++)
		bb_balancers_add(*ret, &n, arena, "server group", view->groups[i].id,
		                 view->groups[i].name);
	for (size_t i = 0; i < view->n_policies; i++)
		bb_balancers_add(*ret, &n, arena, "firewall policy", view->policies[i].id,
		                 view->policies[i].name);
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
	struct bb_balancers *b = brightbox_of(cloud)->balancers;
	struct bb_lb *lbs;
	unsigned n_serving = 0;
	size_t n;

	if (!bb_list_lbs(b->config.client, call, &lbs, &n, err))
		return false;
	for (size_t i = 0; i < n; i++)
		n_serving += bb_lb_is_alive(&lbs[i]) && bb_lb_is_in_status(b->config.host, &lbs[i]);
	*ret = n_serving;
	return true;
}

/* ---- life cycle ---- */

struct bb_balancers *
bb_balancers_new(const struct bb_balancers_config *config)
{
	struct bb_balancers *b = xcalloc(1, sizeof(*b));

	b->config = *config;
	mutex_init(&b->mu);
	return b;
}

void
bb_balancers_free(struct bb_balancers *b)
{
	struct str name;
	void *one;

	if (!b)
		return;
	for (size_t pos = 0; map_next(&b->created, &pos, &name, &one);)
		free(one);
	map_fini(&b->created);
	mutex_destroy(&b->mu);
	free(b);
}
