/* lb_status.c: see lb_status.h. */
#include "providers/hcloud/lb_status.h"

#include "base/macros.h"
#include "providers/hcloud/api.h"
#include "providers/hcloud/lb_desired.h"

#define OPERATION "hcloud/loadBalancers.getLoadBalancerStatusIngress"

enum {
	PUBLIC_ENTRIES = 2,
};

struct entries {
	struct arena *arena;
	struct lb_status *status;
	enum lb_ip_mode mode;
};

static void
add(const struct entries *e, struct str ip)
{
	if (ip.len > 0)
		e->status->ingress[e->status->n_ingress++] = (struct lb_ingress){
			.ip = arena_str(e->arena, ip),
			.hostname = STR_EMPTY,
			.ip_mode = e->mode,
		};
}

/* The annotation where it can be read. */
static bool
truth(const struct lb_spec *spec, const char *key, bool otherwise)
{
	struct error ignored;
	bool is_so = otherwise;

	return hz_annotation_bool(spec, key, &is_so, &ignored) ? is_so : otherwise;
}

static void
set_hostname(struct str hostname, struct arena *arena, struct lb_status *ret)
{
	*ret = (struct lb_status){ ARENA_NEW(arena, struct lb_ingress), 1 };
	*ret->ingress = (struct lb_ingress){
		.ip = STR_EMPTY,
		.hostname = arena_str(arena, hostname),
		.ip_mode = LB_IP_MODE_NONE,
	};
}

static void
set_addresses(const struct hz_lb_config *config, const struct lb_spec *spec, const struct hz_lb *lb,
              const struct entries *e)
{
	if (lb->is_public)
		add(e, lb->ipv4.ip);
	if (lb->is_public && !truth(spec, HZ_LB_PREFIX "ipv6-disabled", config->hides_ipv6))
		add(e, lb->ipv6.ip);
	if (truth(spec, HZ_LB_PREFIX "disable-private-ingress", config->hides_private))
		return;
	for (size_t i = 0; i < lb->nets.n; i++)
		add(e, lb->nets.items[i].ip);
}

void
hz_lb_status(const struct hz_config *config, const struct lb_spec *spec, const struct hz_lb *lb,
             struct arena *arena, struct lb_status *ret)
{
	const struct str *hostname = lb_annotation(spec, HZ_LB_PREFIX "hostname");
	bool is_proxied = truth(spec, HZ_LB_PREFIX "uses-proxyprotocol",
	                        config->lb.uses_proxy_protocol == HZ_YES);
	struct entries e = { arena, ret, is_proxied ? LB_IP_MODE_PROXY : LB_IP_MODE_VIP };

	hz_count_operations(OPERATION, 1);
	if (hostname) {
		set_hostname(*hostname, arena, ret);
		return;
	}
	*ret = (struct lb_status){
		.ingress = arena_calloc(arena, PUBLIC_ENTRIES + lb->nets.n, sizeof(*ret->ingress)),
	};
	set_addresses(&config->lb, spec, lb, &e);
}

/* With a hostname nobody looks at them. */
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
