/* tests/simulation/extras.c: what Services ask for beside ports; see world.h. */
#include <stdio.h>

#include "base/array.h"
#include "world.h"

#define HETZNER_ "load-balancer.hetzner.cloud/"
#define BRIGHTBOX_ "service.beta.kubernetes.io/brightbox-load-balancer-"
#define CLOUDLYCKE_ "service.beta.kubernetes.io/cloudlycke-load-balancer-"

#define NOTE(cloud, key, ...)               \
	{                                   \
		cloud, false, key,          \
		{                           \
			"null", __VA_ARGS__ \
		}                           \
	}

/* The first value is the default. Others may be wrong, or not be possible. */
static const struct extra {
	unsigned clouds;
	bool is_spec; /* else it is an annotation */
	const char *key, *values[5];
} extras[] = {
	{ ALL, true, "sessionAffinity", { "\"None\"", "\"ClientIP\"" } },
	{ ALL, true, "externalTrafficPolicy", { "\"Cluster\"", "\"Local\"" } },
	{ ALL, true, "loadBalancerSourceRanges", { "null", "[\"192.0.2.0/24\"]" } },
	NOTE(HCLOUD, HETZNER_ "protocol", "\"http\"", "\"https\"", "\"HTTP\"", "\"x\""),
	NOTE(HCLOUD, HETZNER_ "http-certificates", "\"missing\"", "\"1,2\""),
	NOTE(HCLOUD, HETZNER_ "certificate-type", "\"managed\"", "\"uploaded\""),
	NOTE(HCLOUD, HETZNER_ "http-managed-certificate-domains", "\"a.example.com\""),
	NOTE(HCLOUD, HETZNER_ "http-redirect-http", "\"true\""),
	NOTE(HCLOUD, HETZNER_ "http-sticky-sessions", "\"true\"", "\"x\""),
	NOTE(HCLOUD, HETZNER_ "http-cookie-name", "\"c\""),
	NOTE(HCLOUD, HETZNER_ "http-cookie-lifetime", "\"60s\"", "\"60\"", "\"x\""),
	NOTE(HCLOUD, HETZNER_ "http-timeout-idle", "\"90s\""),
	NOTE(HCLOUD, HETZNER_ "health-check-protocol", "\"http\"", "\"https\"", "\"tcp\""),
	NOTE(HCLOUD, HETZNER_ "health-check-http-path", "\"/healthz\""),
	NOTE(HCLOUD, HETZNER_ "health-check-http-domain", "\"a.example.com\""),
	NOTE(HCLOUD, HETZNER_ "health-check-http-validate-certificate", "\"true\""),
	NOTE(HCLOUD, HETZNER_ "http-status-codes", "\"200,3??\""),
	NOTE(HCLOUD, HETZNER_ "health-check-interval", "\"20s\"", "\"20\""),
	NOTE(HCLOUD, HETZNER_ "health-check-timeout", "\"5s\""),
	NOTE(HCLOUD, HETZNER_ "health-check-retries", "\"5\"", "\"x\""),
	NOTE(HCLOUD, HETZNER_ "health-check-port", "\"10256\""),
	NOTE(HCLOUD, HETZNER_ "type", "\"lb21\"", "\"x\""),
	NOTE(HCLOUD, HETZNER_ "uses-proxyprotocol", "\"true\""),
	NOTE(HCLOUD, HETZNER_ "use-private-ip", "\"true\"", "\"false\""),
	NOTE(HCLOUD, HETZNER_ "disable-private-ingress", "\"true\""),
	/* without the annotation, the public interface is left as it is */
	{ HCLOUD, false, HETZNER_ "disable-public-network", { "\"false\"", "\"true\"" } },
	NOTE(HCLOUD, HETZNER_ "ipv6-disabled", "\"true\""),
	NOTE(HCLOUD, HETZNER_ "ipv4-rdns", "\"a.example.com\""),
	NOTE(HCLOUD, HETZNER_ "ipv6-rdns", "\"a.example.com\""),
	NOTE(HCLOUD, HETZNER_ "hostname", "\"a.example.com\""),
	NOTE(HCLOUD, HETZNER_ "private-ipv4", "\"10.0.0.77\"", "\"x\""),
	NOTE(HCLOUD, HETZNER_ "node-selector", "\"x=1\"", "\"x in (0,1),!y\"", "\"x=\""),
	NOTE(HCLOUD, HETZNER_ "location", "\"nbg1\""),
	NOTE(HCLOUD, HETZNER_ "network-zone", "\"eu-central\""),
	NOTE(BRIGHTBOX, BRIGHTBOX_ "healthcheck-protocol", "\"http\"", "\"tcp\"", "\"x\""),
	NOTE(BRIGHTBOX, BRIGHTBOX_ "healthcheck-request", "\"/healthz\"", "\"x\""),
	NOTE(BRIGHTBOX, BRIGHTBOX_ "healthcheck-interval", "\"4000\"", "\"x\""),
	NOTE(BRIGHTBOX, BRIGHTBOX_ "healthcheck-timeout", "\"4000\""),
	NOTE(BRIGHTBOX, BRIGHTBOX_ "healthcheck-healthy-threshold", "\"4\""),
	NOTE(BRIGHTBOX, BRIGHTBOX_ "listener-idle-timeout", "\"6000\"", "\"5\""),
	NOTE(BRIGHTBOX, BRIGHTBOX_ "listener-protocol", "\"http\"", "\"tcp\""),
	NOTE(BRIGHTBOX, BRIGHTBOX_ "listener-proxy-protocol", "\"v1\"", "\"x\""),
	NOTE(BRIGHTBOX, BRIGHTBOX_ "ssl-domains", "\"a.example.com\""),
	NOTE(BRIGHTBOX, BRIGHTBOX_ "ssl-ports", "\"80\""),
	NOTE(BRIGHTBOX, BRIGHTBOX_ "cloudip-allocations", "\"cip-zzzzz\"", "\"x\""),
	NOTE(CLOUDLYCKE, CLOUDLYCKE_ "pool", "\"lab\"", "\"x\""),
	NOTE(CLOUDLYCKE, CLOUDLYCKE_ "addresses", "\"192.0.2.20\"", "\"x\""),
	NOTE(CLOUDLYCKE, CLOUDLYCKE_ "proxy-protocol", "\"v1\"", "\"v2\"", "\"x\""),
	NOTE(CLOUDLYCKE, CLOUDLYCKE_ "share", "\"a\""),
};

static bool
is_in_this_cloud(unsigned clouds)
{
	return clouds == ALL || (clouds & world.sim->bit) != 0;
}

bool
extras_choose(struct rng *r, char *ret, size_t size)
{
	const struct extra *extra = &extras[rng_below(r, ARRAY_LEN(extras))];
	size_t n = 1;

	while (n < ARRAY_LEN(extra->values) && extra->values[n])
		n++;
	snprintf(ret, size,
	         extra->is_spec ? "{\"spec\":{\"%s\":%s}}"
	                        : "{\"metadata\":{\"annotations\":{\"%s\":%s}}}",
	         extra->key, extra->values[rng_below(r, n)]);
	return is_in_this_cloud(extra->clouds);
}

static void
add_defaults(struct buf *b, bool is_spec)
{
	const char *separator = "";

	for (size_t i = 0; i < ARRAY_LEN(extras); i++) {
		if (extras[i].is_spec != is_spec || !is_in_this_cloud(extras[i].clouds))
			continue;
		buf_addf(b, "%s\"%s\":%s", separator, extras[i].key, extras[i].values[0]);
		separator = ",";
	}
}

void
extras_remove(const struct kube_model_object *service)
{
	CLEANUP(buf_fini) struct buf patch = BUF_INIT(10000);

	buf_add_c(&patch, "{\"spec\":{");
	add_defaults(&patch, /*is_spec=*/true);
	buf_add_c(&patch, "},\"metadata\":{\"annotations\":{");
	add_defaults(&patch, /*is_spec=*/false);
	buf_add_c(&patch, "}}}");
	(void)kube_model_change(world.kube, "user", service, patch.ptr);
}
