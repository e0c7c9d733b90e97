/* cloud_ips.c: the cloud IPs of a Service; see run.h. */
#include "base/ip.h"
#include "base/log.h"
#include "providers/brightbox/run.h"

EVENT_KIND(elsewhere_event, "cloud-controller-manager", "CloudIPMappedElsewhere", true, "Service",
           "brightbox: a cloud IP of the Service is mapped to something else and is left there.");

/* ---- the cloud IP of the Service ---- */

static bool
bb_ip_by_address(struct bb_run *run, struct error *err)
{
	struct str wanted = run->desired.wanted_ip;
	struct ip ip, v4, v6;

	if (!ip_parse(wanted, &ip))
		return err_set(err, ERR_INVALID, "Invalid LoadBalancerIP: %s",
		               quote_z(run->call->arena, wanted));
	for (size_t i = 0; i < run->view->n_cloud_ips; i++) {
		const struct bb_cloud_ip *one = &run->view->cloud_ips[i];

		if ((ip_parse(one->public_ipv4, &v4) && ip_eq(&ip, &v4)) ||
		    (ip_parse(one->public_ipv6, &v6) && ip_eq(&ip, &v6))) {
			run->ip = one;
			if (run->only_compares)
				log_warn("spec.loadBalancerIP is deprecated. Remove the entry and "
				         "add the annotation",
				         LOG_STR("service", run->desired.name),
				         LOG_CSTR("key", BB_CLOUD_IP_KEY),
				         LOG_STR("value", one->id));
			return true;
		}
	}
	return err_set(err, ERR_INVALID, "Could not find allocated Cloud IP with address %s",
	               quote_z(run->call->arena, wanted));
}

/* The first one that has the name; else the first one that is mapped to a balancer that has it. */
static const struct bb_cloud_ip *
bb_ip_named(const struct bb_view *view, struct str name)
{
	const struct bb_cloud_ip *mapped = NULL;

	for (size_t i = 0; i < view->n_cloud_ips; i++) {
		const struct bb_cloud_ip *one = &view->cloud_ips[i];

		if (str_eq(one->name, name))
			return one;
		if (!mapped && one->lb_id.len > 0 && str_eq(one->lb_name, name))
			mapped = one;
	}
	return mapped;
}

static bool
bb_ip_by_name(struct bb_run *run, struct error *err)
{
	struct str name = run->desired.name, id;
	struct bb_change change = {
		.sends = { .what = "cloud IP",
		           .request = "POST /cloud_ips",
		           .name = name,
		           .body = BB_BODY(run, { "name", name }),
		           .new_id = "cip-new" },
		.kind = "create cloud IP",
		.missing = STR("The list lacks the cloud IP that was created"),
		.n_of_kind = &run->view->n_cloud_ips,
	};

	run->ip = bb_ip_named(run->view, name);
	if (run->ip)
		return true;
	if (!bb_run_change(run, &change, &id, err))
		return false;
	if (id.len == 0 || !run->call->dry)
		return true;
	run->named_ip = (struct bb_cloud_ip){
		.id = id, .name = name, .status = STR("unmapped"), .fqdn = LB_NEW_ADDRESS
	};
	run->has_new_ip = true;
	run->ip = &run->named_ip;
	return true;
}

bool
bb_step_ip(struct bb_run *run, struct error *err)
{
	struct str id = run->desired.cloud_ip;

	run->ip = NULL;
	if (id.len == 0 && run->desired.wanted_ip.len > 0)
		return bb_ip_by_address(run, err);
	if (id.len == 0)
		return bb_ip_by_name(run, err);
	for (size_t i = 0; i < run->view->n_cloud_ips; i++) {
		if (str_eq(run->view->cloud_ips[i].id, id))
			run->ip = &run->view->cloud_ips[i];
	}
	if (run->ip)
		return true;
	run->ip = &run->named_ip;
	return bb_get_cloud_ip(run->bb->client, run->call, id, &run->named_ip, err);
}

/* ---- mapping ---- */

static bool
bb_ip_unmap(struct bb_run *run, const struct bb_cloud_ip *ip, struct error *err)
{
	struct bb_change change = {
		.sends = { .what = "cloud IP",
		           .request = "POST /cloud_ips/{id}/unmap",
		           .id = ip->id },
		.kind = "unmap cloud IP",
		.of = ip->lb_id,
		.missing = arena_printf(run->call->arena,
		                        "Cloud IP %" STR_FMT
		                        " is still mapped to load balancer %" STR_FMT,
		                        STR_ARG(ip->id), STR_ARG(ip->lb_id)),
		.is_slow = true,
		.done = ERR_CONFLICT, /* it is being unmapped */
	};

	return bb_run_change(run, &change, NULL, err);
}

static void
bb_await_unmapped(struct bb_run *run, const struct bb_cloud_ip *ip)
{
	bb_run_await(run, &(struct bb_state){
				  .code = ERR_PENDING,
				  .text = arena_printf(run->call->arena,
	                                               "CloudIPs still mapped to load balancer: "
	                                               "%" STR_FMT " to %" STR_FMT
	                                               ", which is being deleted",
	                                               STR_ARG(ip->id), STR_ARG(ip->lb_id)),
				  .advice = "Check at Brightbox why the load balancer is not gone",
				  .first_ms = BB_SOON_MS,
			  });
}

/* What a cloud IP is mapped to, where that is not the balancer of the run. */
enum bb_holder {
	HOLDER_GONE,    /* a balancer of the Service that this pass has deleted */
	HOLDER_LEAVING, /* a balancer that is being deleted: it keeps its cloud IPs until it is gone
	                 */
	HOLDER_DEAD,    /* one of the Service's name that has failed, or does not exist any more */
	HOLDER_OTHER,   /* anything else: the address may be in use there */
};

static enum bb_holder
bb_ip_holder(const struct bb_run *run, const struct bb_cloud_ip *ip)
{
	const struct bb_lb *lb = NULL;

	for (size_t i = 0; i < run->view->n_lbs; i++) {
		if (str_eq(run->view->lbs[i].id, ip->lb_id))
			lb = &run->view->lbs[i];
	}
	if (lb && str_eq_c(lb->status, "deleting"))
		return HOLDER_LEAVING;
	if (lb && bb_lb_is_alive(lb)) /* in a dry run a removal has noted its deletion */
		return run->is_removal && bb_is_same_name(lb->name, run->desired.name)
		               ? HOLDER_GONE
		               : HOLDER_OTHER;
	return ip->lb_id.len > 0 && bb_is_same_name(ip->lb_name, run->desired.name) ? HOLDER_DEAD
	                                                                            : HOLDER_OTHER;
}

struct str
bb_mapping_text(const struct bb_run *run)
{
	return arena_printf(run->call->arena, "Mapping of CloudIP %s to %s not complete",
	                    quote_z(run->call->arena, run->ip->id),
	                    quote_z(run->call->arena, run->lb->id));
}

/* A cloud IP that is mapped elsewhere stays there, because it may be in use there. */
bool
bb_step_map(struct bb_run *run, struct error *err)
{
	struct bb_change change = {
		.sends = { .what = "cloud IP",
		           .request = "POST /cloud_ips/{id}/map",
		           .id = run->ip->id,
		           .body = BB_BODY(run, { "destination", run->lb->id }) },
		.kind = "map cloud IP",
		.missing = bb_mapping_text(run),
		.is_slow = true,
		.done = ERR_CONFLICT, /* it is being mapped */
	};
	struct bb_state elsewhere = { .code = ERR_UNAVAILABLE,
		                      .text = change.missing,
		                      .hash = str_hash(STR("elsewhere")),
		                      .first_ms = BB_LATER_MS,
		                      .event = &elsewhere_event };

	if (str_eq(run->ip->lb_id, run->lb->id))
		return true;
	if (!str_eq_c(run->ip->status, "mapped"))
		return bb_run_change(run, &change, NULL, err);
	switch (bb_ip_holder(run, run->ip)) {
	case HOLDER_LEAVING:
		bb_await_unmapped(run, run->ip);
		return true;
	case HOLDER_DEAD:
		return bb_ip_unmap(run, run->ip, err);
	case HOLDER_GONE:
	case HOLDER_OTHER:
		break;
	}
	elsewhere.event_text = arena_printf(
		run->call->arena,
		"CloudIP %s (%" STR_FMT
		") is mapped elsewhere. Unmap the Cloud IP and reapply this manifest, or map "
		"manually to %s",
		quote_z(run->call->arena, run->ip->id), STR_ARG(run->ip->public_ipv4),
		quote_z(run->call->arena, run->lb->id));
	bb_run_await(run, &elsewhere);
	return true;
}

static bool
bb_ip_destroy(struct bb_run *run, const struct bb_cloud_ip *ip, struct error *err)
{
	return bb_run_destroy(run, "cloud IP", "DELETE /cloud_ips/{id}", ip->id, "destroy cloud IP",
	                      arena_printf(run->call->arena, "Cloud IP %" STR_FMT, STR_ARG(ip->id)),
	                      err);
}

/* Destroys a cloud IP that has the Service's name and is not the one that the Service uses, as soon
 * as it is not mapped. If it is mapped to something else, it stays, and an event reports it. */
static bool
bb_ip_discard(struct bb_run *run, const struct bb_cloud_ip *ip, struct error *err)
{
	if (!str_eq_c(ip->status, "mapped"))
		return bb_ip_destroy(run, ip, err);
	switch (bb_ip_holder(run, ip)) {
	case HOLDER_GONE:
		return bb_ip_destroy(run, ip, err);
	case HOLDER_LEAVING:
		bb_await_unmapped(run, ip);
		break;
	case HOLDER_DEAD:
		return bb_ip_unmap(run, ip, err);
	case HOLDER_OTHER:
		if (!run->has_reported_ips && !run->call->dry)
			bb_run_warn(run, &elsewhere_event,
			            arena_printf(run->call->arena,
			                         "CloudIP %s (%" STR_FMT
			                         ") has the name of this Service and is mapped "
			                         "elsewhere. It is left there; unmap and destroy "
			                         "it if it is not needed",
			                         quote_z(run->call->arena, ip->id),
			                         STR_ARG(ip->public_ipv4)));
		break;
	}
	return true;
}

/* Unmaps the balancer's other cloud IPs. Those that have the Service's name are then destroyed, by
 * the next pass; in a dry run, which has no next pass, by this one. */
bool
bb_step_stale_ips(struct bb_run *run, struct error *err)
{
	for (size_t i = 0; i < run->view->n_cloud_ips; i++) {
		const struct bb_cloud_ip *one = &run->view->cloud_ips[i];
		bool is_here = run->lb && str_eq(one->lb_id, run->lb->id);
		bool is_named = str_eq(one->name, run->desired.name);

		if (run->ip && str_eq(one->id, run->ip->id))
			continue;
		if (is_here && !bb_ip_unmap(run, one, err))
			return false;
		if (is_here && is_named && run->call->dry && !bb_ip_destroy(run, one, err))
			return false;
		if (!is_here && is_named && !bb_ip_discard(run, one, err))
			return false;
	}
	run->has_reported_ips = true;
	return true;
}

/* Waits also for cloud IPs with other names, which are not destroyed: they are free only when the
 * balancer is gone. */
void
bb_step_await_ips(struct bb_run *run)
{
	for (size_t i = 0; i < run->view->n_cloud_ips; i++) {
		const struct bb_cloud_ip *one = &run->view->cloud_ips[i];

		if (str_eq(one->lb_name, run->desired.name) &&
		    bb_ip_holder(run, one) == HOLDER_LEAVING)
			bb_await_unmapped(run, one);
	}
}
