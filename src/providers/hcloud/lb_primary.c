/* lb_primary.c: see lb_primary.h.
 *
 * The annotations and the Primary IPs are checked before the request that creates the balancer, so
 * that an Event can name the mistake, and no request is sent that the API would refuse. The API
 * itself refuses the creation if another client takes the address after the check.
 *
 * Other clients may assign and release a Primary IP at any time, so nothing that was read is kept:
 * each attempt reads it again. The pauses between failed attempts grow.
 */
#include "providers/hcloud/lb_primary.h"

#include <inttypes.h>

#include "base/event_kind.h"
#include "base/limits.h"
#include "providers/hcloud/client.h"

EVENT_KIND(
	kept_event, HZ_COMPONENT, "LoadBalancerAddressKept", true, "Service",
	"hcloud: the Service asks for a Primary IP that its load balancer does not have. The addresses of an existing load balancer cannot be changed; the message says what to do.");
EVENT_KIND(
	blocked_event, HZ_COMPONENT, "LoadBalancerAddressBlocked", true, "Service",
	"hcloud: Hetzner has blocked a public address of the load balancer, so clients cannot reach the load balancer at this address.");

/* By enum hz_family. */
static const struct {
	const char *key, *type, *name;
	const char *kept, *blocked; /* the kinds of reports (hz_lb_report_once()) */
} families[HZ_N_FAMILIES] = {
	[HZ_FAMILY_V4] = { HZ_LB_PREFIX "public-net-ipv4", "ipv4", "IPv4", "address kept IPv4",
	                   "address blocked IPv4" },
	[HZ_FAMILY_V6] = { HZ_LB_PREFIX "public-net-ipv6", "ipv6", "IPv6", "address kept IPv6",
	                   "address blocked IPv6" },
};

/* ---- reading ---- */

bool
hz_primary_ip_read(yyjson_val *val, struct arena *arena, void *ret, struct error *err)
{
	struct hz_primary_ip ip = {
		.name = json_text_at(arena, val, "name"),
		.ip = json_text_at(arena, val, "ip"),
		.type = json_text_at(arena, val, "type"),
		.location = json_text_at(arena, val, "location.name"),
		.network_zone = json_text_at(arena, val, "location.network_zone"),
		.assignee_type = json_text_at(arena, val, "assignee_type"),
	};

	if (json_i64(val, "id", &ip.id) != JSON_FOUND || ip.id <= 0)
		return err_set(err, ERR_UNAVAILABLE,
		               "the Hetzner Cloud API returned a Primary IP without id");
	json_i64(val, "assignee_id", &ip.assignee);
	*(struct hz_primary_ip *)ret = ip;
	return true;
}

/* ---- decisions ---- */

bool
hz_primary_check_annotations(const struct hz_lb_desired *desired, struct error *err)
{
	for (size_t i = 0; i < HZ_N_FAMILIES; i++) {
		const struct hz_primary_ref *ref = &desired->primary_ips[i];

		if (!ref->is_set)
			continue;
		if (ref->id == 0)
			return err_set(
				err, ERR_INVALID,
				"%s: \"%" STR_FMT
				"\" is not the ID of a Primary IP, which is a positive number",
				families[i].key, STR_ARG(str_head(ref->text, 100)));
		if (desired->is_public == HZ_NO)
			return err_set(
				err, ERR_INVALID,
				"%s: a load balancer whose public interface is disabled cannot have a "
				"Primary IP: remove this annotation, or disable-public-network",
				families[i].key);
	}
	return true;
}

bool
hz_primary_check_ip(const struct hz_primary_ip *ip, enum hz_family family,
                    const struct hz_lb_desired *desired, struct str owner, struct error *err)
{
	bool has_location = desired->location.len > 0;
	struct str wanted = has_location ? desired->location : desired->network_zone;
	bool is_lb = str_eq_c(ip->assignee_type, "load_balancer");
	const char *key = families[family].key;

	if (!str_eq_c(ip->type, families[family].type))
		return err_set(err, ERR_INVALID,
		               "%s: Primary IP %" PRId64 " (%" STR_FMT ") is of type %" STR_FMT,
		               key, ip->id, STR_ARG(ip->ip), STR_ARG(ip->type));
	if (!str_eq(has_location ? ip->location : ip->network_zone, wanted))
		return err_set(err, ERR_INVALID,
		               "%s: Primary IP %" PRId64 " (%" STR_FMT ") is in %" STR_FMT
		               ", but the load balancer is to be created in %" STR_FMT,
		               key, ip->id, STR_ARG(ip->ip), STR_ARG(ip->location),
		               STR_ARG(wanted));
	if (ip->assignee == 0)
		return true;
	if (owner.len > 0)
		return err_set(err, ERR_INVALID,
		               "%s: Primary IP %" PRId64 " (%" STR_FMT
		               ") is in use by the load balancer of the Service %" STR_FMT,
		               key, ip->id, STR_ARG(ip->ip), STR_ARG(owner));
	return err_set(err, is_lb ? ERR_EXISTS : ERR_INVALID,
	               "%s: Primary IP %" PRId64 " (%" STR_FMT ") is in use by %" STR_FMT
	               " %" PRId64,
	               key, ip->id, STR_ARG(ip->ip),
	               STR_ARG(is_lb ? STR("load balancer") : ip->assignee_type), ip->assignee);
}

bool
hz_primary_is_refusal(const char *code)
{
	return str_starts(str_c(code), STR("primary_ip_"));
}

/* ---- before a balancer is created ---- */

bool
hz_lb_resolve_primary_ips(struct hz_lb_run *run, struct error *err)
{
	struct hz_lb_desired *desired = &run->desired;

	if (!hz_primary_check_annotations(desired, err))
		return false;
	for (enum hz_family i = 0; i < HZ_N_FAMILIES; i++) {
		struct hz_primary_ref *ref = &desired->primary_ips[i];
		struct hz_request how = { .is_urgent = true };
		struct hz_primary_ip ip;

		if (!ref->is_set)
			continue;
		if (!hz_find_object(run->tools->api, run->call, run->call->arena, "primary_ip",
		                    HZ_BY_ID(ref->id), how, hz_primary_ip_read, &ip, err)) {
			if (err->code != ERR_NOT_FOUND)
				return err_wrap(err, "%s", families[i].key);
			return err_set(err, ERR_INVALID,
			               "%s: the project of the token has no Primary IP %" PRId64,
			               families[i].key, ref->id);
		}
		if (!hz_primary_check_ip(&ip, i, desired,
		                         hz_lb_cache_service_of(run->tools->cache, ip.assignee,
		                                                run->call->arena),
		                         err))
			return false;
		ref->ip = ip.ip;
		desired->location = ip.location;
		desired->network_zone = STR_EMPTY;
	}
	return true;
}

/* ---- a balancer that exists ---- */

/* If the answer has no ID of the address, nothing is reported: this API has no Primary IPs of
 * balancers yet. */
static void
hz_primary_report_kept(const struct hz_lb_run *run, enum hz_family family,
                       const struct hz_public_address *has)
{
	const struct hz_primary_ref *wanted = &run->desired.primary_ips[family];
	const struct lb_spec *spec = run->spec;
	struct error why;

	if (!wanted->is_set || has->id == 0 || wanted->id == has->id)
		return;
	err_set(&why, ERR_INVALID,
	        "%s asks for Primary IP %" STR_FMT ", but load balancer %" PRId64
	        " has the %s address %" STR_FMT " (%" PRId64
	        "), and the addresses of an existing load balancer cannot be changed. To use the Primary IP, delete the Service "
	        "%" STR_FMT "/%" STR_FMT " and create it again; otherwise remove the annotation",
	        families[family].key, STR_ARG(str_head(wanted->text, 30)), run->lb->id,
	        families[family].name, STR_ARG(has->ip), has->id, STR_ARG(spec->namespace),
	        STR_ARG(spec->service));
	hz_lb_report_once(run, &kept_event, families[family].kept, &why);
}

static void
hz_primary_report_blocked(const struct hz_lb_run *run, enum hz_family family,
                          const struct hz_public_address *has)
{
	struct error why;

	if (!has->is_blocked || run->call->dry)
		return;
	err_set(&why, ERR_INVALID,
	        "Hetzner has blocked the %s address %" STR_FMT " of load balancer %" PRId64
	        ": clients cannot reach the load balancer at this address until Hetzner's support unblocks it",
	        families[family].name, STR_ARG(has->ip), run->lb->id);
	hz_lb_report_once(run, &blocked_event, families[family].blocked, &why);
}

void
hz_lb_report_addresses(const struct hz_lb_run *run)
{
	const struct hz_public_address *addresses[] = { &run->lb->ipv4, &run->lb->ipv6 };

	for (enum hz_family i = 0; i < HZ_N_FAMILIES; i++) {
		hz_primary_report_kept(run, i, addresses[i]);
		hz_primary_report_blocked(run, i, addresses[i]);
	}
}
