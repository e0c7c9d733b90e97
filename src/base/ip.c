/* base/ip.c: see ip.h.
 *
 * All addresses are stored in one form (IPv6, with IPv4 mapped into it), so that comparing is
 * memcmp(). The canonical spelling is written here and not by inet_ntop(), because the output of
 * inet_ntop() for "::1.2.3.4" differs between C libraries and from Go, whose spelling must be
 * matched.
 */
#include "base/ip.h"

#include <arpa/inet.h>

#include "base/arena.h"

static const uint8_t mapped_prefix[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

static bool
parse_octets(struct str text, uint8_t ret[4])
{
	int64_t octet;
	size_t n = 0;

	for (struct str part, rest = text; str_split(&rest, '.', &part); n++) {
		if (n == 4 || !str_is_digits(part) || !str_to_i64(part, 0, 255, &octet))
			return false;
		ret[n] = (uint8_t)octet;
	}
	return n == 4;
}

/* inet_pton() requires a terminated text. An embedded IPv4 tail is rewritten as two groups first,
 * because leading zeros are allowed in it. */
static bool
parse_groups(struct str text, uint8_t ret[16])
{
	char groups[64];
	uint8_t v4[4];
	size_t head;

	if (text.len >= sizeof(groups))
		return false;
	snprintf(groups, sizeof(groups), "%" STR_FMT, STR_ARG(text));
	if (strchr(groups, '.')) {
		head = (size_t)(strrchr(groups, ':') + 1 - groups);
		if (!parse_octets(str_skip(text, head), v4))
			return false;
		snprintf(groups + head, sizeof(groups) - head, "%x:%x",
		         (unsigned)v4[0] << 8 | v4[1], (unsigned)v4[2] << 8 | v4[3]);
	}
	return inet_pton(AF_INET6, groups, ret) == 1;
}

bool
ip_parse(struct str text, struct ip *ret)
{
	struct ip ip;

	/* A NUL would end the text for inet_pton() and hide the bytes after it. */
	if (text.len == 0 || memchr(text.ptr, '\0', text.len))
		return false;
	memcpy(ip.bytes, mapped_prefix, sizeof(mapped_prefix));
	if (str_index(text, ':') >= 0 ? !parse_groups(text, ip.bytes)
	                              : !parse_octets(text, ip.bytes + 12))
		return false;
	*ret = ip;
	return true;
}

bool
ip_net_parse(struct str text, struct ip_net *ret)
{
	struct str addr, digits;
	struct ip_net net;
	bool is_v4;
	int64_t bits;

	if (!str_cut(text, '/', &addr, &digits) || !ip_parse(addr, &net.ip) ||
	    !str_is_digits(digits))
		return false;
	is_v4 = str_index(addr, ':') < 0;
	if (!str_to_i64(digits, 0, is_v4 ? 32 : 128, &bits))
		return false;
	net.bits = (unsigned)bits + (is_v4 ? 96 : 0);
	*ret = net;
	return true;
}

enum ip_family
ip_family(const struct ip *ip)
{
	return memcmp(ip->bytes, mapped_prefix, sizeof(mapped_prefix)) == 0 ? IP_V4 : IP_V6;
}

struct ip
ip_source(const struct ip *ip)
{
	struct ip source = *ip;

	if (ip_family(ip) == IP_V6)
		memset(source.bytes + sizeof(source.bytes) / 2, 0, sizeof(source.bytes) / 2);
	return source;
}

bool
ip_eq(const struct ip *a, const struct ip *b)
{
	return ip_cmp(a, b) == 0;
}

int
ip_cmp(const struct ip *a, const struct ip *b)
{
	return memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

bool
ip_is_unspecified(const struct ip *ip)
{
	static const uint8_t zeros[16];
	size_t from = ip_family(ip) == IP_V4 ? 12 : 0;

	return memcmp(ip->bytes + from, zeros, 16 - from) == 0;
}

/* Returns a mask of the bits of byte i that belong to the network prefix. */
static uint8_t
prefix_mask(unsigned bits, unsigned i)
{
	if (bits >= 8 * (i + 1))
		return 0xff;
	if (bits <= 8 * i)
		return 0;
	return (uint8_t)(0xff00U >> (bits - 8 * i));
}

bool
ip_net_contains(const struct ip_net *net, const struct ip *ip)
{
	if (ip_family(&net->ip) != ip_family(ip)) /* ::/0 matches IPv6 addresses only */
		return false;
	for (unsigned i = 0; i < 16; i++) {
		if ((net->ip.bytes[i] ^ ip->bytes[i]) & prefix_mask(net->bits, i))
			return false;
	}
	return true;
}

bool
ip_net_is_within(const struct ip_net *inner, const struct ip_net *outer)
{
	return ip_net_contains(outer, &inner->ip) && inner->bits >= outer->bits;
}

bool
ip_net_is_within_any(const struct ip_net *inner, const struct ip_net outer[], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (ip_net_is_within(inner, &outer[i]))
			return true;
	}
	return false;
}

bool
ip_net_has_host_bits(const struct ip_net *net)
{
	for (unsigned i = 0; i < 16; i++) {
		if (net->ip.bytes[i] & ~prefix_mask(net->bits, i))
			return true;
	}
	return false;
}

void
ip_net_span(const struct ip_net *net, struct ip *ret_first, struct ip *ret_last)
{
	for (unsigned i = 0; i < 16; i++) {
		uint8_t mask = prefix_mask(net->bits, i);

		ret_first->bytes[i] = net->ip.bytes[i] & mask;
		ret_last->bytes[i] = (uint8_t)(net->ip.bytes[i] | ~mask);
	}
}

static unsigned
group(const struct ip *ip, unsigned i)
{
	return (unsigned)ip->bytes[2 * i] << 8 | ip->bytes[2 * i + 1];
}

void
ip_format(struct buf *b, const struct ip *ip)
{
	const uint8_t *v4 = ip->bytes + 12;
	unsigned start = 0, longest = 1, len = 0;

	if (ip_family(ip) == IP_V4) {
		buf_addf(b, "%u.%u.%u.%u", v4[0], v4[1], v4[2], v4[3]);
		return;
	}
	/* "::" stands for the first of the longest runs of zero groups, of at least two */
	for (unsigned i = 0; i < 8; i++) {
		len = group(ip, i) ? 0 : len + 1;
		if (len > longest) {
			longest = len;
			start = i + 1 - len;
		}
	}
	for (unsigned i = 0; i < 8; i++) {
		if (longest > 1 && i == start) {
			buf_add_c(b, "::");
			i += longest - 1;
			continue;
		}
		if (i && !(longest > 1 && i == start + longest))
			buf_add_char(b, ':');
		buf_addf(b, "%x", group(ip, i));
	}
}

void
ip_net_format(struct buf *b, const struct ip_net *net)
{
	ip_format(b, &net->ip);
	buf_addf(b, "/%u", ip_family(&net->ip) == IP_V4 ? net->bits - 96 : net->bits);
}

struct str
ip_text(struct arena *arena, const struct ip *ip)
{
	char memory[64] = "";
	struct buf b = BUF_FIXED(memory);

	ip_format(&b, ip);
	return arena_str(arena, buf_str(&b));
}

struct str
ip_net_text(struct arena *arena, const struct ip_net *net)
{
	char memory[64] = "";
	struct buf b = BUF_FIXED(memory);

	ip_net_format(&b, net);
	return arena_str(arena, buf_str(&b));
}
