/* config.h: the environment variables of the Hetzner Cloud provider (docs/spec/hcloud.md,
 * "Values").
 *
 * Names, parsing and messages are those of the official controller, so that its users only need to
 * change the image. ROBOT_ENDPOINT, HCLOUD_METADATA_ENDPOINT, HCLOUD_RATE_LIMIT_RESERVE and
 * HCLOUD_LOAD_BALANCERS_ADOPTION are additions of ccmd. Files that X_FILE names for secrets are
 * read again when they change.
 *
 * struct hz_dialect lists what the official controller and that of the tutorial do differently.
 *
 * Threads: read once at start, constant afterwards.
 */
#ifndef CCMD_HCLOUD_CONFIG_H
#define CCMD_HCLOUD_CONFIG_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "cloud/login.h"

/* ---- dialects ---- */

#define HZ_COMPONENT "hcloud-cloud-controller-manager" /* the source of our Events */

struct hz_dialect {
	const char *name;              /* of the provider */
	const char *id_prefix;         /* of the provider IDs that are written */
	const char *const *id_aliases; /* further prefixes that are read; NULL at the end */
	const char *user_agent;        /* before "/VERSION" */
	/* few variables, no labels, no Robot, no annotations, no metrics listener */
	bool is_tutorial;
	/* a machine is shut down with any status but "running"; else with "off" */
	bool is_off_unless_running;
	/* region is the network zone, zone the location; else location and data centre */
	bool has_wide_regions;
	bool has_all_families; /* ExternalIP of both families, IPv6 as the base of its network */
};

extern const struct hz_dialect hz_official;
/** The tutorial's repository. */
extern const struct hz_dialect hz_tutorial;
/** The tutorial's text, which has another name and another idea of "shut down". */
extern const struct hz_dialect hz_tutorial_text;

/* ---- the configuration ---- */

enum hz_families {
	HZ_IPV4 = 1,
	HZ_IPV6 = 2,
	HZ_DUALSTACK = HZ_IPV4 | HZ_IPV6,
};

enum hz_cache_mode {
	HZ_CACHE_ALL, /* one list answers for many */
	HZ_CACHE_ONE, /* one request for each machine */
	HZ_CACHE_OFF, /* the same; the official controller keeps nothing then */
};

/** HZ_UNSET: the setting is left as it is. */
enum hz_opt_bool {
	HZ_UNSET,
	HZ_NO,
	HZ_YES,
};

/** Which balancers a Service may adopt by the name in its annotation. */
enum hz_adoption {
	/* all, unless they belong to another live Service or to another cluster */
	HZ_ADOPT_BY_NAME,
	/* those with the label HZ_LABEL_ADOPT and the name of this cluster as its value */
	HZ_ADOPT_LABELLED,
	HZ_ADOPT_NEVER,
};

struct hz_lb_config {
	enum hz_adoption adoption;
	struct str location, network_zone, type;
	struct str algorithm; /* as written; valid when lower-cased */
	bool is_disabled, hides_ipv6, hides_private, uses_private_ip;
	enum hz_opt_bool hides_public, uses_proxy_protocol;
	struct str private_subnet;
	int64_t health_interval_ns, health_timeout_ns, health_retries; /* 0: the cloud's default */
};

struct hz_config {
	struct arena arena;
	const struct hz_dialect *dialect;
	struct login_secret token, robot_user, robot_password;
	struct str endpoint, robot_endpoint, metadata_endpoint; /* without '/' at the end */
	bool is_debug;
	struct str network; /* name or ID; empty: none */
	bool skips_attached_check, has_routes, has_zone_label;
	enum hz_families families;
	enum hz_cache_mode cache_mode;
	int64_t cache_max_age_ns; /* without effect: no answer is older than its look-up */
	bool has_metrics;
	struct str metrics_host; /* empty: all addresses */
	int metrics_port;
	unsigned reserve_percent; /* of the rate limit, left to other tools */
	struct hz_lb_config lb;
	bool has_robot, forwards_internal_ips;
	int64_t robot_cache_ns, robot_pause_ns;
};

/** Reads the environment. reserve_percent: of --cloud-rate-limit-reserve, used if
 * HCLOUD_RATE_LIMIT_RESERVE is not set.
 *
 * @return  On false ERR_INVALID with all problems, one in a line: those of values that cannot be
 * read, or, if all can be read, those of values that are not permitted. */
NODISCARD bool hz_config_load(const struct hz_dialect *, unsigned reserve_percent,
                              struct hz_config **ret, struct error *err);
void hz_config_free(struct hz_config *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_config, hz_config_free)

/** cloud_ops.reads_variable. */
bool hz_config_reads_variable(struct str name, const char **ret_nearest);

/** Are both user and password of Robot configured? */
bool hz_config_has_robot_login(const struct hz_config *);

/* ---- values as Go's strconv and time packages read them ---- */

/* With their error texts. Each returns false and appends the reason to `why` when the text is not
 * valid; *ret keeps its value. */

/** Exactly 1 t T TRUE true True 0 f F FALSE false False. The empty text is not valid. */
NODISCARD bool hz_parse_bool(struct str text, bool *ret, struct buf *why);
/** "1h30m", "250ms", "0". The empty text is not valid. */
NODISCARD bool hz_parse_duration(struct str text, int64_t *ret_ns, struct buf *why);
NODISCARD bool hz_parse_int(struct str text, int64_t *ret, struct buf *why);

#endif
