/* An address stays the same when it is written and read again. A network has a valid prefix length.
 */
#include "base/ip.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(const struct ip *ip)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(39);
	struct ip again;

	ip_format(&b, ip);
	assert(buf_ok(&b) && ip_parse(buf_str(&b), &again) && ip_eq(ip, &again));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = str_n((const char *)data, size);
	struct ip_net net;
	struct ip ip;

	if (size == sizeof(ip.bytes)) {
		memcpy(ip.bytes, data, size);
		check(&ip);
	}
	if (ip_parse(text, &ip))
		check(&ip);
	if (ip_net_parse(text, &net)) {
		assert(net.bits <= 128);
		assert(ip_net_has_host_bits(&net) || ip_net_contains(&net, &net.ip));
	}
	return 0;
}
