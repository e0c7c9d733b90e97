/* base/ip.h: IP addresses and networks by value, independent of their spelling.
 *
 * IPv4 addresses are stored as IPv4-mapped IPv6 addresses, so the two forms compare equal. IPv4
 * octets with leading zeros are read as decimal numbers, as Kubernetes reads them.
 *
 * Threads: every function may be called from any thread.
 */
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
	struct ip ip;  /* includes the host bits as written: see ip_net_has_host_bits() */
	unsigned bits; /* 0 to 128; for IPv4, the written prefix length + 96 */
};

/** Returns false when the text is not an address. Zones (%eth0) are refused. */
NODISCARD bool ip_parse(struct str text, struct ip *ret);
/** "10.0.0.0/8", "fd00::/64". */
NODISCARD bool ip_net_parse(struct str text, struct ip_net *ret);

enum ip_family ip_family(const struct ip *ip);
/** Returns the address under which the requests of a client are counted: an IPv4 address itself;
 * for an IPv6 address its /64 network, because one machine can use all addresses of that network.
 */
struct ip ip_source(const struct ip *ip);
bool ip_eq(const struct ip *a, const struct ip *b);
int ip_cmp(const struct ip *a, const struct ip *b);
bool ip_is_unspecified(const struct ip *ip);
/** Matches only addresses of the network's own family: ::/0 does not contain 10.0.0.1. */
bool ip_net_contains(const struct ip_net *net, const struct ip *ip);
/** Returns true when inner is a subnet of outer or the same network. */
bool ip_net_is_within(const struct ip_net *inner, const struct ip_net *outer);
bool ip_net_is_within_any(const struct ip_net *inner, const struct ip_net outer[], size_t n);
bool ip_net_has_host_bits(const struct ip_net *net);
/** Returns the first and the last address: all host bits 0, and all host bits 1. */
void ip_net_span(const struct ip_net *net, struct ip *ret_first, struct ip *ret_last);

/** Appends the canonical spelling (RFC 5952); IPv4-mapped addresses are written as IPv4. */
void ip_format(struct buf *b, const struct ip *ip);
/** Appends the network in CIDR notation: "10.0.0.0/8", "fd00::/64". */
void ip_net_format(struct buf *b, const struct ip_net *net);
/** The same in the arena. */
struct str ip_text(struct arena *arena, const struct ip *ip);
struct str ip_net_text(struct arena *arena, const struct ip_net *net);

#endif
