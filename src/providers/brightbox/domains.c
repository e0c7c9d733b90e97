/* domains.c: see domains.h. */
#include "providers/brightbox/domains.h"

#include "base/file.h"
#include "base/ip.h"
#include "base/limits.h"
#include "base/buf.h"
#include "base/resolve.h"

enum {
	LOOKUP_MS = 10000,  /* Go's resolver, too, gives up after two attempts of 5 s */
	LOOKUPS_MS = 20000, /* of all domains of one Service together */
};

/* ---- the file of host names ---- */

static bool
bb_next_word(struct str *line, struct str *ret)
{
	*line = str_trim(*line);
	ret->ptr = line->ptr;
	ret->len = 0;
	while (ret->len < line->len && !char_is_in(ret->ptr[ret->len], " \t"))
		ret->len++;
	*line = str_skip(*line, ret->len);
	return ret->len > 0;
}

static size_t
bb_hosts_resolve(struct str path, struct str name, struct ip ret[RESOLVE_MAX])
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_KUBECONFIG);
	struct error ignored;
	struct str rest, word;
	size_t n = 0;

	if (path.len == 0 || !file_read(path.ptr, &text, &ignored))
		return 0;
	rest = buf_str(&text);
	for (struct str line; n < RESOLVE_MAX && str_split(&rest, '\n', &line);) {
		bool is_found = false;

		if (!bb_next_word(&line, &word) || !ip_parse(word, &ret[n]))
			continue;
		while (!is_found && bb_next_word(&line, &word))
			is_found = str_eq_nocase(word, name);
		n += is_found;
	}
	return n;
}

/* ---- the check ---- */

/* deadline_ns: on the real monotonic clock; for the lookups of all domains together */
static bool
bb_domain_check(struct call *call, int64_t deadline_ns, struct str hosts_file,
                const struct bb_cloud_ip *cloud_ip, const struct ip own[2], struct str domain,
                struct error *err)
{
	CLEANUP(buf_fini) struct buf what = BUF_INIT(ERR_MSG_SIZE);
	struct ip ips[RESOLVE_MAX];
	size_t n = bb_hosts_resolve(hosts_file, domain, ips);
	int64_t left_ms = (deadline_ns - clock_mono(&clock_real)) / NS_PER_MS;

	buf_add_c(&what, "Failed to resolve ");
	quote_add(&what, domain);
	buf_addf(&what, " to load balancer address (%" STR_FMT ",%" STR_FMT ")",
	         STR_ARG(cloud_ip->public_ipv4), STR_ARG(cloud_ip->public_ipv6));
	left_ms = left_ms < 0 ? 0 : left_ms > LOOKUP_MS ? LOOKUP_MS : left_ms;
	if (n == 0 && !resolve_host(domain, left_ms, call->cancel, ips, &n, err))
		return err->code == ERR_CANCELLED ? false : err_wrap(err, "%s", what.ptr);
	for (size_t i = 0; i < n; i++) {
		if (ip_eq(&ips[i], &own[0]) || ip_eq(&ips[i], &own[1]))
			return true;
	}
	return err_set(err, ERR_INVALID, "%s", what.ptr);
}

bool
bb_domains_check(struct call *call, struct str hosts_file, const struct bb_cloud_ip *cloud_ip,
                 const struct str domains[], size_t n, struct error *err)
{
	int64_t deadline_ns = call_deadline_real(call, LOOKUPS_MS * NS_PER_MS);
	struct ip own[2];

	if (!ip_parse(cloud_ip->public_ipv4, &own[0]) || !ip_parse(cloud_ip->public_ipv6, &own[1]))
		return err_set(err, ERR_INVALID, "Cloud IP %s failed to parse IP addresses",
		               quote_z(call->arena, cloud_ip->id));
	for (size_t i = 0; i < n; i++) {
		if (!bb_domain_check(call, deadline_ns, hosts_file, cloud_ip, own, domains[i], err))
			return false;
	}
	return true;
}
