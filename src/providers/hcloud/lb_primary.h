/* lb_primary.h: Primary IPs of load balancers: public addresses that exist independently of a
 * balancer, so a Service that is deleted and created again can have the same address.
 *
 * A Service names them by their IDs in the annotations public-net-ipv4 and public-net-ipv6. The API
 * accepts them only in the request that creates a balancer, and never changes them. So they are
 * read, with one request for each, and checked before a balancer is created. If one of them cannot
 * be used, the Service waits. An existing balancer keeps its addresses: if they differ from the
 * annotations, an Event reports it. ccmd never deletes, assigns or releases a Primary IP.
 *
 * Threads: a run belongs to one thread.
 */
#ifndef CCMD_HCLOUD_LB_PRIMARY_H
#define CCMD_HCLOUD_LB_PRIMARY_H

#include "providers/hcloud/lb_converge.h"

/** A Primary IP as the API shows it. */
struct hz_primary_ip {
	int64_t id;
	struct str name, ip; /* ip of IPv6: a network, "2001:db8:1::/64" */
	struct str type;     /* "ipv4" or "ipv6" */
	struct str location, network_zone;
	int64_t assignee; /* 0: it is free */
	struct str assignee_type;
};

/** Of a struct hz_primary_ip, as hz_read_fn. */
NODISCARD bool hz_primary_ip_read(yyjson_val *, struct arena *, void *ret, struct error *err);

/** Are the annotations valid, as far as this can be checked without the API? Sends no request.
 * ERR_INVALID: one of them is not a positive number, or the balancer has no public interface. */
NODISCARD bool hz_primary_check_annotations(const struct hz_lb_desired *, struct error *err);

/** May a balancer that is created at the place of `desired` have this Primary IP? Sends no request.
 *
 * @param owner  the Service whose balancer has it, "namespace/name"; empty: not known
 * @return  On false, err->code is ERR_EXISTS if it is in use by a balancer whose owner is not
 * known: that may be the Service's own balancer, without its label. Otherwise ERR_INVALID */
NODISCARD bool hz_primary_check_ip(const struct hz_primary_ip *, enum hz_family family,
                                   const struct hz_lb_desired *, struct str owner,
                                   struct error *err);

/** Reads and checks the Primary IPs before the balancer is created. If the place is a network zone,
 * it is replaced by the location of the Primary IPs, because the API would choose any location of
 * the zone. Errors: those of the functions above, and ERR_INVALID if no Primary IP has the ID. */
NODISCARD bool hz_lb_resolve_primary_ips(struct hz_lb_run *run, struct error *err);

/** Does this error code of a refused creation concern a Primary IP? Such a refusal is not
 * remembered, because hz_lb_resolve_primary_ips() finds its reason at the next attempt. */
bool hz_primary_is_refusal(const char *code);

/** Sends an Event if the balancer has another address than an annotation asks for, or an address
 * that Hetzner has blocked; the same Event at most once an hour. A dry run sends none; it notes
 * only an address that differs, as something that cannot be changed. */
void hz_lb_report_addresses(const struct hz_lb_run *run);

#endif
