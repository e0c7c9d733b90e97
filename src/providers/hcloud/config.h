/* config.h: the environment variables of the Hetzner Cloud provider (hcloud.md 1.2 to 1.4).
 *
 * Names, parsing and messages are those of the official controller, so that its users only need to change the image.
 * ROBOT_ENDPOINT, HCLOUD_METADATA_ENDPOINT, HCLOUD_RATE_LIMIT_RESERVE and HCLOUD_LOAD_BALANCERS_ADOPTION are additions of
 * ccmd. Files that X_FILE names for secrets are read again when they change.
 *
 * Threads: read once at start, constant afterwards.
 */
#ifndef CCMD_HCLOUD_CONFIG_H
#define CCMD_HCLOUD_CONFIG_H

#include "base/arena.h"
#include "providers/hcloud/dialect.h"
#include "providers/hcloud/token.h"

enum hz_families {
	HZ_IPV4 = 1,
	HZ_IPV6 = 2,
	HZ_DUALSTACK = HZ_IPV4 | HZ_IPV6,
};

enum hz_cache_mode {
	HZ_CACHE_ALL, /* one list answers for many */
	HZ_CACHE_ONE, /* each machine by itself */
	HZ_CACHE_OFF, /* the same, and nothing kept */
};

/** Unset means: leave it as it is. */
enum hz_tri {
	HZ_UNSET,
	HZ_NO,
	HZ_YES,
};

/** Which balancers a Service may adopt by the name in its annotation. */
enum hz_adoption {
	HZ_ADOPT_BY_NAME, /* all, unless they belong to another live Service or to another cluster */
	HZ_ADOPT_LABELLED, /* those with the label HZ_LABEL_ADOPT and the name of this cluster as its value */
	HZ_ADOPT_NEVER,
};

struct hz_lb_config {
	enum hz_adoption adoption;
	struct str location, network_zone, type;
	struct str algorithm; /* as written; valid when lower-cased */
	bool is_disabled, hides_ipv6, hides_private, uses_private_ip;
	enum hz_tri hides_public, uses_proxy_protocol;
	struct str private_subnet;
	int64_t health_interval_ns, health_timeout_ns, health_retries; /* 0: the cloud's own */
};

struct hz_config {
	struct arena arena;
	const struct hz_dialect *dialect;
	struct hz_source token, robot_user, robot_password;
	struct str endpoint, robot_endpoint, metadata_endpoint; /* without '/' at the end */
	bool is_debug;
	struct str network; /* name or ID; empty: none */
	bool skips_attached_check, has_routes, has_zone_label;
	enum hz_families families;
	enum hz_cache_mode cache_mode;
	int64_t cache_max_age_ns; /* checked, and held by all answers, which are never older than their question */
	bool has_metrics;
	struct str metrics_host; /* empty: all addresses */
	int metrics_port;
	unsigned reserve_percent; /* of the rate limit, left to other tools */
	struct hz_lb_config lb;
	bool has_robot, forwards_internal_ips;
	int64_t robot_cache_ns, robot_pause_ns;
};

/** Reads the environment. reserve_percent: of --cloud-rate-limit-reserve, for where HCLOUD_RATE_LIMIT_RESERVE is not set.
 *
 * @return  On false ERR_INVALID with all problems, a line each; first of those values that cannot be read, and when
 * there are none, of those that make no sense. */
NODISCARD bool hz_config_load(const struct hz_dialect *, unsigned reserve_percent,
                              struct hz_config **ret, struct error *err);
void hz_config_free(struct hz_config *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_config, hz_config_free)

/** Both user and password are there, and so there is a Robot to ask. */
bool hz_config_has_robot_login(const struct hz_config *);

#endif
