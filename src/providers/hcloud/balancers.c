/* balancers.c: see balancers.h.
 *
 * A run of ensure() looks for the balancer by its label; then, if the Service names one, by name;
 * then it creates one; at the end it makes the balancer what the Service asks for (lb_converge.h).
 *
 * A crash, or an answer that is lost, leaves no second balancer behind, because of two rules. The
 * label is part of the request that creates the balancer, so each balancer of ours has it from the
 * beginning. And the API refuses a second balancer of the same name: if a request was executed
 * although its answer was lost, or if another process was faster, the repeated request is refused,
 * and the balancer is then found by its label.
 *
 * No run waits for the cloud longer than a few seconds. It ends with ERR_PENDING and is started
 * again by the controller; the cache keeps the action that it waited for.
 */
#include "providers/hcloud/balancers.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/event_kind.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/thread.h"
#include "providers/hcloud/api.h"
#include "providers/hcloud/hcloud.h"
#include "providers/hcloud/lb_converge.h"
#include "providers/hcloud/lb_desired.h"
#include "providers/hcloud/lb_primary.h"
#include "providers/hcloud/lb_wire.h"

EVENT_KIND(
	protected_event, HZ_COMPONENT, "LoadBalancerProtected", true, "Service",
	"hcloud: the load balancer is protected against deletion, so it is kept although its Service was deleted.");
EVENT_KIND(
	unconfigured_event, HZ_COMPONENT, "LoadBalancerTypeUnconfigured", true, "Service",
	"hcloud: neither the annotation nor HCLOUD_LOAD_BALANCERS_TYPE sets the type of the load balancer.");
/* The object and the kind of a creation that was refused because of the project's limit. The
 * refusal therefore holds for all Services (cloud/refusals.h). */
#define PROJECT STR("project")
#define CREATE "create"

struct hz_balancers {
	struct hz_lb_tools tools;
	struct hz_dry_servers dry_servers;
};

static bool
hz_balancers_is_tutorial(const struct hz_lb_run *run)
{
	return run->tools->config->dialect->is_tutorial;
}

/* ---- what the Service asks for ---- */

static struct str
hz_balancers_tutorial_name(const struct hz_lb_run *run)
{
	return arena_printf(run->call->arena, "%" STR_FMT "-%" STR_FMT "-%" STR_FMT,
	                    STR_ARG(run->spec->cluster), STR_ARG(run->spec->namespace),
	                    STR_ARG(run->spec->service));
}

/* Reads what the Service asks for, and waits for the action at which the last run stopped. A
 * Service without a status probably has no balancer, and cannot get one with wrong annotations for
 * Primary IPs, so it costs no request. Otherwise these annotations must not keep nodes from
 * becoming targets. */
static bool
hz_balancers_begin(struct hz_lb_run *run, struct error *err)
{
	const struct hz_lb_tools *t = run->tools;
	bool is_tutorial = hz_balancers_is_tutorial(run);
	struct lb_spec spec = *run->spec;

	hz_lb_cache_track(t->cache, run->spec);
	if (is_tutorial)
		spec.n_annotations = 0; /* docs/spec/hcloud.md, "Tutorial" */
	if (!hz_lb_desired_read(t->config, t->network, &spec, run->call->arena, &run->desired, err))
		return false;
	if (is_tutorial) {
		run->desired.name = hz_balancers_tutorial_name(run);
		run->desired.is_named = true;
		run->desired.location = STR("fsn1");
		run->desired.uses_private_ip = true;
	}
	if (spec.status.n_ingress == 0 && !hz_primary_check_annotations(&run->desired, err))
		return false;
	return hz_lb_wait(run, hz_lb_cache_state(t->cache, spec.uid).action, err);
}

/* If a certificate is missing, only the services wait for it. */
static bool
hz_balancers_resolve_certificates(struct hz_lb_run *run, struct error *err)
{
	run->has_services = hz_certificates_resolve(run->tools->catalog, run->call, &run->desired,
	                                            &run->issuing, err);
	if (run->has_services)
		return true;
	return hz_lb_tolerate_refusal(run, err);
}

/* ---- creating ---- */

/* The token may have been replaced since the search, so the balancer would be created in another
 * project than the one that was searched. It is read again, because a replacement is noticed only
 * when a request needs the token. */
static bool
hz_balancers_check_token(struct hz_lb_run *run, struct error *err)
{
	struct login *login = hcloud_of(run->cloud)->login;

	if (login)
		(void)login_generation(login);
	return login_check_same(run->searched, err);
}

/* Whether the request was executed is unknown if it fails, so the cache is notified before it, and
 * again with the id when there is one. */
static bool
hz_balancers_post(struct hz_lb_run *run, const struct hz_lb_desired *desired,
                  const struct hz_lb_type *type, bool is_bare, struct hz_done *done,
                  struct error *err)
{
	const struct hz_lb_tools *t = run->tools;
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);
	struct hz_lb lb = { 0 };
	bool ok;

	const char *kind = is_bare ? "create bare" : CREATE;

	*done = (struct hz_done){ 0 };
	hz_body_create(&body, desired, type, run->targets.targets, run->targets.n, is_bare);
	if (!buf_ok(&body))
		return err_set(err, ERR_INVALID,
		               "the load balancer has more services and targets than one request "
		               "can hold");
	if (run->call->dry) {
		hz_dry_create(run, buf_str(&body), type);
		return true;
	}
	if (refusals_find(t->refusals, run->spec->uid, kind, str_hash(buf_str(&body)), err))
		return false;
	if (!hz_balancers_check_token(run, err))
		return false;
	hz_lb_cache_note_change(t->cache, run->spec->uid, 0);
	ok = hz_create_lb(t->api, run->call, run->call->arena, buf_str(&body), &lb, done, err);
	hz_lb_cache_note_change(t->cache, run->spec->uid, lb.id);
	if (!ok && hz_lb_is_refusal(err) && err->code != ERR_EXISTS &&
	    !hz_is_code(done->code, "resource_limit_exceeded") &&
	    !hz_primary_is_refusal(done->code))
		refusals_note(t->refusals, run->spec->uid, kind, str_hash(buf_str(&body)), err);
	if (!ok)
		return hz_lb_set_pending_if_busy(done->code, err);
	log_info("load balancer created", LOG_STR("name", desired->name), LOG_I64("id", lb.id));
	call_note_change(run->call, "create");
	return true;
}

/* If the API refuses the request because of a service, a target or the network, a second request
 * creates the balancer without them. If it refuses that because the project may have no further
 * balancers, no other Service tries to create one. */
static bool
hz_balancers_post_whole_or_bare(struct hz_lb_run *run, const struct hz_lb_desired *desired,
                                const struct hz_lb_type *type, struct hz_done *done,
                                struct error *err)
{
	if (hz_balancers_post(run, desired, type, /*is_bare=*/false, done, err))
		return true;
	if (!hz_lb_is_refusal(err) || err->code == ERR_EXISTS || hz_primary_is_refusal(done->code))
		return false;
	if (desired->n_services > 0 || run->targets.n > 0 || desired->network != 0) {
		log_debug("a load balancer is created without its parts", LOG_ERR(err));
		if (hz_balancers_post(run, desired, type, /*is_bare=*/true, done, err))
			return true;
	}
	if (hz_is_code(done->code, "resource_limit_exceeded"))
		refusals_note(run->tools->refusals, PROJECT, CREATE, 0, err);
	return false;
}

/* One request creates the balancer with all its parts, as far as the API accepts them. Others are
 * added one by one afterwards, so that only the one that is wrong is missing. */
static bool
hz_balancers_create(struct hz_lb_run *run, struct error *err)
{
	CLEANUP(buf_fini) struct buf ignored = BUF_INIT(LIMIT_EVENT_MESSAGE);
	struct hz_lb_cache *cache = run->tools->cache;
	struct hz_creation creation = {
		.n_created = hz_lb_cache_state(cache, run->spec->uid).creation.n_created + 1,
	};
	struct hz_lb_desired first;
	struct hz_lb_type type;
	struct hz_done done;

	hz_count_operations("hcops/LoadBalancerOps.Create", 1);
	if (refusals_find(run->tools->refusals, PROJECT, CREATE, 0, err))
		return false;
	if (!hz_lb_find_type(run, &type, err) || !hz_lb_desired_has_place(&run->desired, err) ||
	    !hz_lb_resolve_primary_ips(run, err))
		return false;
	first = run->desired;
	hz_targets_read(&run->tools->targets, run->call, run->spec, &run->desired, NULL,
	                &run->targets);
	if (!run->has_services || (run->issuing.id > 0 && !run->issuing.is_over))
		first.n_services = 0;
	hz_plan_fit_services(&first, type.max_services, NULL, run->call->arena, &ignored);
	if (!hz_balancers_post_whole_or_bare(run, &first, &type, &done, err))
		return false;
	if (run->call->dry)
		return true;
	creation.created_ns = clock_mono(run->call->clock);
	hz_lb_cache_set_creation(cache, run->spec->uid, &creation);
	return hz_lb_wait(run, done.action, err) && hz_lb_refresh(run, HZ_RECENT, err);
}

/* ---- finding ---- */

/* Finds the balancer by its label; else adopts the one with the name that the Service asks for;
 * else creates one. Before all of these but the first comes the evidence that the project is the
 * right one: another project may have a balancer of that name, and certificates are ordered in it.
 */
static bool
hz_balancers_find_or_create(struct hz_lb_run *run, struct error *err)
{
	uint64_t since = login_count_replaced();
	bool is_found = hz_lb_refresh(run, run->spec->is_changed ? HZ_FRESH : HZ_RECENT, err);
	struct error why;

	run->searched = since;
	if (!is_found && err->code != ERR_NOT_FOUND)
		return false;
	if (!is_found && (!balancer_check_project(run->cloud, run->call, run->spec, err) ||
	                  !login_check_same(since, err) || !hz_lb_check_name(run, err)))
		return false;
	if (!hz_balancers_resolve_certificates(run, err))
		return false;
	if (is_found)
		return true;
	if (run->desired.is_named) {
		if (hz_lb_adopt(run, err))
			return true;
		if (err->code != ERR_NOT_FOUND)
			return false;
	}
	if (hz_balancers_create(run, err))
		return true;
	err_wrap(err, "hcops/LoadBalancerOps.Create");
	if (err->code != ERR_EXISTS)
		return false;
	/* Another process was faster, or our own request, whose answer was lost; or the balancer
	 * that has the Primary IP is this Service's own, and has lost its label. */
	why = *err;
	if (hz_lb_refresh(run, HZ_RECENT, err) ||
	    (err->code == ERR_NOT_FOUND && hz_lb_adopt(run, err)))
		return true;
	if (err->code == ERR_NOT_FOUND)
		*err = why;
	return false;
}

/* ---- the end of a run ---- */

/* On success *err still says what is missing of a partial result. */
static bool
hz_balancers_end(struct hz_lb_run *run, bool ok, const char *operation, struct error *err)
{
	hz_found_fini(&run->found);
	if (ok && run->missing.code == ERR_NONE) {
		hz_lb_cache_end_refusal(run->tools->cache, run->spec->uid);
		return true;
	}
	if (ok)
		*err = run->missing;
	err_wrap(err, "%s", operation);
	if (err->code == ERR_PENDING)
		err->retry_after_ms = 0; /* it depends on how long the Service has waited */
	return ok;
}

/* ---- the status ---- */

#define OPERATION "hcloud/loadBalancers.getLoadBalancerStatusIngress"

enum {
	PUBLIC_ENTRIES = 2,
};

/* The addresses for a status; ret has room for all. Returns their number. */
static size_t
hz_lb_list_addresses(const struct hz_lb *lb, bool hides_ipv6, bool hides_private, struct str ret[])
{
	size_t n = 0;

	if (lb->is_public && lb->ipv4.ip.len > 0)
		ret[n++] = lb->ipv4.ip;
	if (lb->is_public && !hides_ipv6 && lb->ipv6.ip.len > 0)
		ret[n++] = lb->ipv6.ip;
	if (hides_private)
		return n;
	for (size_t i = 0; i < lb->nets.n; i++) {
		if (lb->nets.items[i].ip.len > 0)
			ret[n++] = lb->nets.items[i].ip;
	}
	return n;
}

/* The value of the annotation; otherwise the given one, also if the annotation cannot be read. */
static bool
hz_lb_status_option(const struct lb_spec *spec, const char *key, bool otherwise)
{
	struct error ignored;
	bool is_so = otherwise;

	return hz_annotation_bool(spec, key, &is_so, &ignored) ? is_so : otherwise;
}

static void
hz_lb_status_set_hostname(struct str hostname, struct arena *arena, struct lb_status *ret)
{
	ret->n_ingress = 1;
	ret->ingress = ARENA_NEW(arena, struct lb_ingress);
	*ret->ingress = (struct lb_ingress){ .ip = STR_EMPTY,
		                             .hostname = arena_str(arena, hostname),
		                             .ip_mode = LB_IP_MODE_NONE };
}

void
hz_lb_status(const struct hz_config *config, const struct lb_spec *spec, const struct hz_lb *lb,
             struct arena *arena, struct lb_status *ret)
{
	const struct str *hostname = lb_annotation(spec, HZ_LB_PREFIX "hostname");
	struct str *ips = arena_calloc(arena, PUBLIC_ENTRIES + lb->nets.n, sizeof(*ips));
	bool hides_ipv6 = hz_lb_status_option(spec, HZ_LB_PREFIX "ipv6-disabled",
	                                      config->lb.hides_ipv6);
	bool hides_private = hz_lb_status_option(spec, HZ_LB_PREFIX "disable-private-ingress",
	                                         config->lb.hides_private);
	bool is_proxied = hz_lb_status_option(spec, HZ_LB_PREFIX "uses-proxyprotocol",
	                                      config->lb.uses_proxy_protocol == HZ_YES);

	hz_count_operations(OPERATION, 1);
	if (hostname) {
		hz_lb_status_set_hostname(*hostname, arena, ret);
		return;
	}
	ret->n_ingress = hz_lb_list_addresses(lb, hides_ipv6, hides_private, ips);
	ret->ingress = arena_calloc(arena, ret->n_ingress, sizeof(*ret->ingress));
	for (size_t i = 0; i < ret->n_ingress; i++)
		ret->ingress[i] = (struct lb_ingress){
			.ip = arena_str(arena, ips[i]),
			.hostname = STR_EMPTY,
			.ip_mode = is_proxied ? LB_IP_MODE_PROXY : LB_IP_MODE_VIP,
		};
}

/* A hostname in the annotation is the whole status, so the other annotations do not matter then. */
bool
hz_lb_status_check(const struct lb_spec *spec, struct error *err)
{
	static const char *const keys[] = {
		HZ_LB_PREFIX "uses-proxyprotocol",
		HZ_LB_PREFIX "ipv6-disabled",
		HZ_LB_PREFIX "disable-private-ingress",
	};
	bool ignored;

	if (lb_annotation(spec, HZ_LB_PREFIX "hostname"))
		return true;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		if (!hz_annotation_bool(spec, keys[i], &ignored, err))
			return err_wrap(err, OPERATION);
	}
	return true;
}

/* ---- deleting one ---- */

static void
hz_balancers_notify_protected(const struct hz_lb_run *run, const struct hz_lb *lb)
{
	host_report_service(
		run->tools->host, run->spec, &protected_event,
		"The load balancer named \"%" STR_FMT "\" (%" PRId64
		") is protected against deletion: it is kept, and has to be paid for, until it is deleted by hand",
		STR_ARG(str_head(lb->name, 200)), lb->id);
	log_warn("load balancer kept, because it is protected against deletion",
	         LOG_STR("name", lb->name), LOG_I64("id", lb->id));
}

static bool
hz_balancers_delete_one(struct hz_lb_run *run, const struct hz_lb *lb, struct error *err)
{
	const struct hz_lb_tools *t = run->tools;
	struct hz_done done = { 0 };

	hz_count_operations("hcops/LoadBalancerOps.Delete", 1);
	if (lb->is_protected) {
		hz_balancers_notify_protected(run, lb);
		return true;
	}
	if (run->call->dry) {
		balancer_note(run->call, DRY_DELETE, lb->name,
		              arena_printf(run->call->arena, "DELETE /load_balancers/%" PRId64,
		                           lb->id),
		              NULL, 0);
		return true;
	}
	hz_lb_cache_note_change(t->cache, run->spec->uid, lb->id);
	if (hz_delete_lb(t->api, run->call, lb->id, &done, err)) {
		refusals_forget(t->refusals, PROJECT, CREATE);
		return hz_lb_wait(run, done.action, err);
	}
	if (err->code == ERR_NOT_FOUND) {
		/* It was listed a moment ago. Either somebody else has deleted it, or the token was
		 * replaced by one of another project, and it still exists. The next run searches
		 * again, and asks for evidence if it finds nothing. */
		err->code = ERR_PENDING;
		return !lb_needs_evidence(run->spec);
	}
	if (!str_eq_c(str_c(done.code), "protected"))
		return hz_lb_set_pending_if_busy(done.code, err);
	hz_balancers_notify_protected(run, lb);
	return true;
}

/* ---- failed creations ----
 *
 * If the action that creates a balancer fails, the balancer is in the project without addresses,
 * and never gets any. It is deleted, and a later run creates another one, so there are never two.
 * One that is still being created is safe: the API refuses to delete it ("locked"). Pauses between
 * attempts grow as after every failure, and after CREATIONS_MAX of them to an hour, because each
 * balancer is paid for at least an hour. */

enum {
	CREATIONS_MAX = 5,
};

/* Without addresses for so long, a balancer whose action is not known, because a former leader
 * created it, has failed. */
static const int64_t bare_max_ns = 300 * NS_PER_SEC;
static const int64_t creation_pause_ns = 3600 * NS_PER_SEC;

static bool
hz_lb_has_addresses(const struct hz_lb *lb)
{
	return !lb->is_public || lb->ipv4.ip.len > 0 || lb->ipv6.ip.len > 0;
}

/* Deletes the balancer, unless it has addresses by now. */
static bool
hz_balancers_discard(struct hz_lb_run *run, struct error *err)
{
	int64_t id;

	if (!hz_lb_refresh(run, HZ_FRESH, err))
		return false;
	if (hz_lb_has_addresses(run->lb))
		return true;
	id = run->lb->id;
	if (!hz_balancers_delete_one(run, run->lb, err))
		return err_wrap(err, "delete load balancer %" PRId64 ", whose creation has failed",
		                id);
	log_warn("a load balancer without addresses was deleted, because its creation has failed",
	         LOG_STR("service", run->spec->service), LOG_I64("id", id));
	return err_set(err, ERR_UNAVAILABLE,
	               "the cloud has failed to create load balancer %" PRId64
	               ": it had no addresses, and was deleted; another one will be created",
	               id);
}

/* A new balancer gets its addresses a moment after it was created. One that is being adopted gets
 * the Service's label first, because only a balancer with that label is deleted. */
static bool
hz_balancers_check_addresses(struct hz_lb_run *run, struct error *err)
{
	struct hz_lb_cache *cache = run->tools->cache;
	struct hz_creation creation = hz_lb_cache_state(cache, run->spec->uid).creation;
	int64_t now_ns = clock_mono(run->call->clock);
	bool has_failed;

	if (!str_eq(run->lb->uid, run->spec->uid))
		return true;
	if (hz_lb_has_addresses(run->lb)) {
		if (creation.n_created > 0 || creation.has_failed || creation.bare_since_ns > 0)
			hz_lb_cache_set_creation(cache, run->spec->uid, &(struct hz_creation){ 0 });
		return true;
	}
	if (creation.bare_since_ns == 0)
		creation.bare_since_ns = now_ns;
	if (run->spec->is_changed)
		creation.n_created = 0;
	hz_lb_cache_set_creation(cache, run->spec->uid, &creation);
	has_failed = creation.has_failed || now_ns - creation.bare_since_ns >= bare_max_ns;
	if (!has_failed || run->lb->is_protected || run->call->dry)
		return err_set(err, ERR_PENDING, "load balancer %" PRId64 " has no addresses yet",
		               run->lb->id);
	if (creation.n_created >= CREATIONS_MAX && now_ns - creation.created_ns < creation_pause_ns)
		return err_set(
			err, ERR_INVALID,
			"the cloud has failed to create a load balancer %u times, and load "
			"balancer %" PRId64
			" has no addresses: it is replaced an hour after its creation, or "
			"when the Service is changed; if this goes on, ask Hetzner's support",
			creation.n_created, run->lb->id);
	return hz_balancers_discard(run, err);
}

/* ---- ensure and update ---- */

/* The tutorial's status: each address with its name. Texts are copied, because the reading of the
 * balancer is released before the controller writes the status. */
static void
hz_balancers_tutorial_status(const struct hz_lb_run *run, struct lb_status *ret)
{
	const struct hz_public_address *ends[] = { &run->lb->ipv4, &run->lb->ipv6 };
	struct arena *arena = run->call->arena;

	ret->ingress = arena_calloc(arena, ARRAY_LEN(ends), sizeof(ret->ingress[0]));
	ret->n_ingress = 0;
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		if (ends[i]->ip.len > 0)
			ret->ingress[ret->n_ingress++] = (struct lb_ingress){
				.ip = arena_str(arena, ends[i]->ip),
				.hostname = arena_str(arena, ends[i]->dns_ptr),
				.ip_mode = LB_IP_MODE_VIP,
			};
	}
}

/* The steps of ensure(). */
static bool
hz_balancers_make(struct hz_lb_run *run, struct lb_status *ret, struct error *err)
{
	if (!hz_balancers_begin(run, err) || !hz_balancers_find_or_create(run, err))
		return false;
	/* One that was adopted by its name has the label only after hz_lb_converge(). Without
	 * addresses the Service would count as done, and nobody would replace the balancer. */
	if (!hz_balancers_check_addresses(run, err) || !hz_lb_converge(run, err) ||
	    !hz_balancers_check_addresses(run, err))
		return false;
	if (hz_balancers_is_tutorial(run)) {
		hz_balancers_tutorial_status(run, ret);
		return true;
	}
	if (!hz_lb_status_check(run->spec, err))
		return false;
	hz_lb_status(run->tools->config, run->spec, run->lb, run->call->arena, ret);
	hz_lb_report_addresses(run);
	return true;
}

/* A missing type is reported before the annotations are read, and so also if one of them is
 * invalid. */
static bool
hz_balancers_ensure(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                    enum lb_outcome *ret_outcome, struct lb_status *ret, struct error *err)
{
	struct hz_balancers *b = hcloud_of(cloud)->balancers;
	struct hz_lb_run run = { .cloud = cloud, .tools = &b->tools, .call = call, .spec = spec };
	bool ok;

	hz_count_operations("hcloud/loadBalancers.EnsureLoadBalancer", 1);
	if (!hz_balancers_is_tutorial(&run) && !hz_lb_has_type(b->tools.config, spec) &&
	    hz_lb_cache_should_report(b->tools.cache, spec->uid, HZ_NOTICE_TYPE, 0))
		host_report_service(
			b->tools.host, spec, &unconfigured_event,
			"Load Balancer Type unconfigured: this will be required in the future, set it with the "
			"annotation \"load-balancer.hetzner.cloud/type\" or cluster-wide with the environment "
			"variable \"HCLOUD_LOAD_BALANCERS_TYPE\"");
	ok = hz_balancers_make(&run, ret, err);
	if (ok)
		*ret_outcome = run.missing.code == ERR_NONE ? LB_DONE : LB_PARTIAL;
	return hz_balancers_end(&run, ok, "hcloud/loadBalancers.EnsureLoadBalancer", err);
}

static bool
hz_balancers_update(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                    struct error *err)
{
	struct hz_lb_run run = { .cloud = cloud,
		                 .tools = &hcloud_of(cloud)->balancers->tools,
		                 .call = call,
		                 .spec = spec };
	bool ok;

	hz_count_operations("hcloud/loadBalancers.UpdateLoadBalancer", 1);
	ok = hz_balancers_begin(&run, err) && hz_lb_refresh(&run, HZ_RECENT, err) &&
	     hz_balancers_resolve_certificates(&run, err) && hz_lb_converge(&run, err);
	ok = hz_balancers_end(&run, ok, "hcloud/loadBalancers.UpdateLoadBalancer", err);
	return ok && run.missing.code == ERR_NONE;
}

/* ---- remove ---- */

/* The controller of the tutorial gives its balancers a name and no label. A balancer with another
 * Service's label is left alone. If two live Services share the name, the balancer is left to the
 * Service that remains. */
static bool
hz_balancers_delete_unlabelled(struct hz_lb_run *run, bool *ret_found, struct error *err)
{
	struct arena *arena = run->call->arena;
	struct lb_spec other;
	struct hz_lb lb;

	if (hz_lb_cache_find_namesake(run->tools->cache, run->spec, arena, &other))
		return true;
	hz_count_operations("hcops/LoadBalancerOps.GetByName", 1);
	if (!hz_find_lb(run->tools->api, run->call, arena,
	                HZ_BY_NAME(hz_balancers_tutorial_name(run)), &lb, err))
		return err->code == ERR_NOT_FOUND;
	if (lb.uid.len > 0 && !str_eq(lb.uid, run->spec->uid))
		return true;
	*ret_found = true;
	return hz_balancers_delete_one(run, &lb, err);
}

/* All balancers with the Service's label are deleted: there are several if the label was copied by
 * hand. */
static bool
hz_balancers_delete_all(struct hz_lb_run *run, bool *ret_found, struct error *err)
{
	if (!hz_lb_cache_find(run->tools->cache, run->call, run->spec->uid, HZ_FRESH, &run->found,
	                      err))
		return false;
	if (run->found.n == 0 && !balancer_check_project(run->cloud, run->call, run->spec, err))
		return false;
	*ret_found = run->found.n > 0;
	for (size_t i = 0; i < run->found.n; i++) {
		if (!hz_balancers_delete_one(run, run->found.lbs[i], err))
			return false;
	}
	return *ret_found || !hz_balancers_is_tutorial(run) ||
	       hz_balancers_delete_unlabelled(run, ret_found, err);
}

static bool
hz_balancers_remove(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                    bool *ret_found, struct error *err)
{
	struct hz_balancers *b = hcloud_of(cloud)->balancers;
	struct hz_lb_run run = { .cloud = cloud, .tools = &b->tools, .call = call, .spec = spec };
	bool found = false, ok;

	hz_count_operations("hcloud/loadBalancers.EnsureLoadBalancerDeleted", 1);
	/* While an action of the last run still works, the API refuses every DELETE. */
	ok = hz_lb_wait(&run, hz_lb_cache_state(b->tools.cache, spec->uid).action, err) &&
	     hz_balancers_delete_all(&run, &found, err);
	if (!hz_balancers_end(&run, ok, "hcloud/loadBalancers.EnsureLoadBalancerDeleted", err))
		return false;
	if (!call->dry)
		hz_lb_cache_untrack(b->tools.cache, spec->uid);
	*ret_found = found;
	return true;
}

/* ---- the rest ---- */

/* The tutorial's controller has no selector. */
static const void *
hz_balancers_prepare_selection(struct cloud *cloud, const struct lb_spec *spec, struct arena *arena)
{
	const struct hz_lb_tools *t = &hcloud_of(cloud)->balancers->tools;

	return t->config->dialect->is_tutorial ? NULL : hz_lb_selection(spec, arena);
}

/* A node without a provider ID is not initialised yet. It becomes a target when it has one. */
static bool
hz_balancers_select(struct cloud *cloud, const void *selection, const struct node_ref *node)
{
	(void)cloud;
	return node->provider_id.len > 0 && hz_lb_selects(selection, node);
}

static bool
hz_balancers_adopt(struct cloud *cloud, struct call *call, const struct lb_spec *const specs[],
                   size_t n, struct error *err)
{
	return hz_lb_cache_adopt(hcloud_of(cloud)->cache, call, specs, n, err);
}

static void
hz_balancers_forget(struct cloud *cloud, struct str uid)
{
	hz_lb_cache_untrack(hcloud_of(cloud)->cache, uid);
}

/* ---- life cycle ---- */

struct hz_balancers *
hz_balancers_new(const struct hz_balancers_config *config)
{
	struct hz_balancers *b = xcalloc(1, sizeof(*b));
	struct clock *clock = config->host->clock;
	struct refusals *refusals = refusals_new(clock);

	b->tools = (struct hz_lb_tools){
		.config = config->config,
		.host = config->host,
		.api = config->api,
		.network = config->network,
		.targets = { .config = config->config,
		             .host = config->host,
		             .robot = config->robot,
		             .refusals = refusals,
		             .servers_known = config->servers_known },
		.actions = config->actions,
		.cache = config->cache,
		.refusals = refusals,
		.catalog = hz_catalog_new(config->api, clock),
		.dry_servers = &b->dry_servers,
	};
	b->dry_servers.list = HZ_SERVERS_INIT;
	mutex_init(&b->dry_servers.mu);
	hz_health_open(config->cache);
	return b;
}

void
hz_balancers_free(struct hz_balancers *b)
{
	if (!b)
		return;
	hz_health_close(b->tools.cache);
	hz_catalog_free(b->tools.catalog);
	hz_servers_fini(&b->dry_servers.list);
	mutex_destroy(&b->dry_servers.mu);
	refusals_free(b->tools.refusals);
	free(b);
}

/* ---- for commands that change nothing ---- */

/* The tutorial's controller reads no annotations. */
static bool
hz_balancers_check(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                   struct error *err)
{
	const struct hz_lb_tools *t = &hcloud_of(cloud)->balancers->tools;
	struct hz_lb_desired desired;

	if (t->config->dialect->is_tutorial)
		return true;
	return hz_lb_desired_read(t->config, t->network, spec, call->arena, &desired, err) &&
	       hz_primary_check_annotations(&desired, err) && hz_lb_status_check(spec, err);
}

/* Prices have up to ten digits behind the point, of which two are of interest. */
static struct str
hz_balancers_cost(const struct hz_lb *lb, struct arena *arena)
{
	struct str whole, digits;

	if (!str_cut(lb->monthly_price, '.', &whole, &digits))
		return STR_EMPTY;
	return arena_printf(arena, "%" STR_FMT ".%" STR_FMT " a month, without VAT", STR_ARG(whole),
	                    STR_ARG(str_head(digits, 2)));
}

static bool
hz_balancers_list(struct cloud *cloud, struct call *call, struct lb_listed **ret, size_t *ret_n,
                  struct error *err)
{
	const struct hz_lb_tools *t = &hcloud_of(cloud)->balancers->tools;
	CLEANUP(hz_nodes_fini) struct hz_nodes nodes = HZ_NODES_INIT;
	struct hz_lb_list list;

	if (!hz_list_lbs(hcloud_of(cloud)->api, call, call->arena, STR_EMPTY, &list, err))
		return false;
	hz_nodes_read(t->host, t->config->dialect, call->arena, &nodes);
	*ret = arena_calloc(call->arena, list.n + 1, sizeof((*ret)[0]));
	*ret_n = list.n;
	for (size_t i = 0; i < list.n; i++) {
		const struct hz_lb *lb = &list.lbs[i];
		struct str *addresses = arena_calloc(call->arena, PUBLIC_ENTRIES + lb->nets.n,
		                                     sizeof(*addresses));

		(*ret)[i] = (struct lb_listed){
			.what = "load balancer",
			.is_balancer = true,
			.id = lb->name,
			.uid = lb->uid,
			.service = STR_EMPTY,
			.cluster = hz_lb_label_of(lb, HZ_LABEL_CLUSTER),
			.cost = hz_balancers_cost(lb, call->arena),
			.n_targets = lb->n_targets,
			.has_targets = true,
			.is_protected = lb->is_protected,
		};
		/* as in the status of a Service without annotations */
		(*ret)[i].addresses = addresses;
		(*ret)[i].n_addresses = hz_lb_list_addresses(lb, t->config->lb.hides_ipv6,
		                                             t->config->lb.hides_private,
		                                             addresses);
		hz_health_describe(lb, &nodes, call->arena, &(*ret)[i]);
	}
	return true;
}

static const struct lb_useless useless_annotations[] = {
	{ "network-zone", "location", NULL, false },
	{ "http-certificates", "certificate-type", "managed", false },
	{ "http-managed-certificate-domains", "certificate-type", "uploaded", true },
	{ "http-managed-certificate-name", "certificate-type", "uploaded", true },
	{ "health-check-http-path", "health-check-protocol", "tcp", false },
	{ "health-check-http-domain", "health-check-protocol", "tcp", false },
	{ 0 },
};

/* The official controller silently ignores source ranges, session affinity and a chosen address.
 * Here an Event reports them, as it does ports that are not TCP. The traffic policy is ignored:
 * with Local the health checks find the nodes that have an endpoint. IP families are passed,
 * because every balancer has addresses of both; a Service that asks for IPv6 alone is served, too.
 */
const struct balancer_ops hz_balancer_ops = {
	.features = {
		[LB_UDP_PORTS] = LB_LEAVE_OUT,
		[LB_SCTP_PORTS] = LB_LEAVE_OUT,
		[LB_SEVERAL_PORTS] = LB_PASS,
		[LB_PORTS_WITHOUT_NODE_PORT] = LB_PASS,
		[LB_SOURCE_RANGES] = LB_LEAVE_OUT,
		[LB_LOCAL_TRAFFIC] = LB_IGNORE,
		[LB_CLIENT_AFFINITY] = LB_LEAVE_OUT,
		[LB_IPV6] = LB_PASS,
		[LB_DUAL_STACK] = LB_PASS,
		[LB_CHOSEN_IP] = LB_LEAVE_OUT,
	},
	.uses_addresses = true,
	.selects = hz_balancers_select,
	.prepare_selection = hz_balancers_prepare_selection,
	.ensure = hz_balancers_ensure,
	.update_nodes = hz_balancers_update,
	.remove = hz_balancers_remove,
	.adopt = hz_balancers_adopt,
	.finds_drift = true,
	.forget = hz_balancers_forget,
	.annotation_prefix = HZ_LB_PREFIX,
	.annotations = hz_lb_annotations,
	.annotation_lists = hz_lb_annotation_lists,
	.useless_annotations = useless_annotations,
	.check = hz_balancers_check,
	.list = hz_balancers_list,
};
