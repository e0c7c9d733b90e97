/* base/ip.h: IP addresses and networks by value, whatever their spelling.
 *
 * IPv4 and IPv4-mapped IPv6 compare equal. "Sloppy" IPv4 with leading zeros in its octets is read
 * as decimal, as Kubernetes does. */
#ifndef CCMD_BASE_IP_H
#define CCMD_BASE_IP_H

#include "base/buf.h"

enum ip_family {
	IP_V4 = 4,
	IP_V6 = 6,
};

struct ip {
	uint8_t bytes[16]; /* IPv4 as ::ffff:a.b.c.d */
};

struct ip_net {
	struct ip ip;  /* host bits as written: see ip_net_has_host_bits() */
	unsigned bits; /* 0 to 128; IPv4 prefixes are 96 more than written */
};

/** False when it is not an address. Zones (%eth0) are refused. */
NODISCARD bool ip_parse(struct str text, struct ip *ret);
/** "10.0.0.0/8", "fd00::/64". */
NODISCARD bool ip_net_parse(struct str text, struct ip_net *ret);

enum ip_family ip_family(const struct ip *ip);
/** The address under which the requests of a client are counted: an IPv4 address itself, of an IPv6
 * address its /64 network, because one machine can use all addresses of it. */
struct ip ip_source(const struct ip *ip);
bool ip_eq(const struct ip *a, const struct ip *b);
int ip_cmp(const struct ip *a, const struct ip *b);
bool ip_is_unspecified(const struct ip *ip);
/** Only addresses of the network's own family: ::/0 does not contain 10.0.0.1. */
bool ip_net_contains(const struct ip_net *net, const struct ip *ip);
/** Is inner a subnet of outer, or the same network? */
bool ip_net_is_within(const struct ip_net *inner, const struct ip_net *outer);
bool ip_net_is_within_any(const struct ip_net *inner, const struct ip_net outer[], size_t n);
bool ip_net_has_host_bits(const struct ip_net *net);
/** Its first and its last address: host bits 0, and 1. */
void ip_net_span(const struct ip_net *net, struct ip *ret_first, struct ip *ret_last);

/** Appends the canonical spelling (RFC 5952; IPv4 for mapped). */
void ip_format(struct buf *b, const struct ip *ip);
/** Appends the network in CIDR notation: "10.0.0.0/8", "fd00::/64". */
void ip_net_format(struct buf *b, const struct ip_net *net);

#endif
