/* lb_primary.h: Primary IPs of load balancers: public addresses that exist on their own, so that a
 * Service that is deleted and made again keeps its address.
 *
 * A Service names them by their IDs in the annotations public-net-ipv4 and public-net-ipv6. The API
 * accepts them only in the request that creates a balancer, and never changes them. So they are
 * read and checked before a balancer is created, one request for each, and the Service waits if one
 * of them cannot be used. On a balancer that exists they change nothing: an Event says that it has
 * other addresses. ccmd never deletes, assigns or releases a Primary IP.
 *
 * Threads: a run belongs to one thread.
 */
#ifndef CCMD_HCLOUD_LB_PRIMARY_H
#define CCMD_HCLOUD_LB_PRIMARY_H

#include "providers/hcloud/lb_converge.h"

/** A Primary IP as the cloud has it. */
struct hz_primary_ip {
	int64_t id;
	struct str name, ip; /* ip of IPv6: a network, "2001:db8:1::/64" */
	struct str type;     /* "ipv4" or "ipv6" */
	struct str location, network_zone;
	int64_t assignee; /* 0: it is free */
	struct str assignee_type;
};

/** ERR_UNAVAILABLE without an id. */
NODISCARD bool hz_primary_ip_read(yyjson_val *, struct arena *, struct hz_primary_ip *ret,
                                  struct error *err);

/** May the balancer be created with these annotations, as far as they say by themselves? Pure.
 * ERR_INVALID: one of them is not a positive number, or the balancer has no public interface. */
NODISCARD bool hz_primary_check_annotations(const struct hz_lb_desired *, struct error *err);

/** May a balancer that is created at that place have that address? Pure.
 *
 * @param owner  the Service whose balancer has it, "namespace/name"; empty: not known
 * @return  On false, err->code is ERR_EXISTS if a balancer of an unknown owner has it, which may be
 * the Service's own one without its label, and ERR_INVALID otherwise */
NODISCARD bool hz_primary_check_ip(const struct hz_primary_ip *, enum hz_family family,
                                   const struct hz_lb_desired *, struct str owner,
                                   struct error *err);

/** Reads and checks the Primary IPs before the balancer is created. If the place is a network zone,
 * it becomes the location of the addresses, because the API would choose any. Errors are those of
 * the functions above, and ERR_INVALID if no Primary IP has the ID. */
NODISCARD bool hz_lb_resolve_primary_ips(struct hz_lb_run *run, struct error *err);

/** Is the code of a refused creation about a Primary IP? Such a refusal is not remembered, because
 * hz_lb_resolve_primary_ips() finds its reason with the next attempt. */
bool hz_primary_is_refusal(const char *code);

/** Sends an Event if the balancer has another address than an annotation asks for, or an address
 * that Hetzner has blocked; the same one once an hour at most. A dry run notes the former as
 * something that stays as it is. */
void hz_lb_report_addresses(const struct hz_lb_run *run);

#endif
