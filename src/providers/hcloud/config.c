/* config.c: see config.h.
 *
 * A table lists the variables with their types. Most are read into struct hz_config; a few, whose
 * text has to be translated, into struct raw. All values are read first, then checked against each
 * other, so that one start reports all mistakes of a kind.
 */
#include "providers/hcloud/config.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ip.h"
#include "base/log.h"
#include "base/quote.h"

/* ---- dialects ---- */

static const char *const no_aliases[] = { NULL };
static const char *const tutorial_aliases[] = { "hcloud-from-scratch://", "ccm-from-scratch://",
	                                        NULL };

const struct hz_dialect hz_official = {
	.name = "hcloud",
	.id_prefix = "hcloud://",
	.id_aliases = no_aliases,
	.user_agent = "hcloud-cloud-controller",
};

const struct hz_dialect hz_tutorial = {
	.name = "hcloud-from-scratch",
	.id_prefix = "hcloud-from-scratch://",
	.id_aliases = tutorial_aliases,
	.user_agent = "ccm-from-scratch",
	.is_tutorial = true,
	.is_off_unless_running = true,
	.has_wide_regions = true,
	.has_all_families = true,
};

const struct hz_dialect hz_tutorial_text = {
	.name = "ccm-from-scratch",
	.id_prefix = "ccm-from-scratch://",
	.id_aliases = tutorial_aliases,
	.user_agent = "ccm-from-scratch",
	.is_tutorial = true,
	.has_wide_regions = true,
	.has_all_families = true,
};

/* ---- values as Go's strconv and time packages read them ---- */

enum {
	HTTP_PORT = 80, /* what Go listens on for an empty text */
};

static bool
hz_config_is_one_of(struct str text, const char *const words[], size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq_c(text, words[i]))
			return true;
	}
	return false;
}

bool
hz_parse_bool(struct str text, bool *ret, struct buf *why)
{
	if (str_to_bool(text, ret))
		return true;
	buf_add_c(why, "strconv.ParseBool: parsing ");
	quote_add(why, text);
	buf_add_c(why, ": invalid syntax");
	return false;
}

/* ---- values: durations ---- */

static bool
hz_config_is_digit(struct str s)
{
	return s.len > 0 && s.ptr[0] >= '0' && s.ptr[0] <= '9';
}

static bool
hz_config_skip_digits(struct str *s)
{
	bool has_any = hz_config_is_digit(*s);

	while (hz_config_is_digit(*s))
		*s = str_skip(*s, 1);
	return has_any;
}

/* "1", "1.5", ".5", "1."; not "." */
static bool
hz_config_skip_number(struct str *s)
{
	bool has_digits = hz_config_skip_digits(s);

	if (s->len > 0 && s->ptr[0] == '.') {
		*s = str_skip(*s, 1);
		has_digits |= hz_config_skip_digits(s);
	}
	return has_digits;
}

static struct str
hz_config_take_unit(struct str *s)
{
	struct str unit = *s;

	unit.len = 0;
	while (s->len > 0 && s->ptr[0] != '.' && !hz_config_is_digit(*s)) {
		unit.len++;
		*s = str_skip(*s, 1);
	}
	return unit;
}

static bool
hz_config_is_unit(struct str unit)
{
	static const char *const units[] = { "ns", "us", "µs", "μs", "ms", "s", "m", "h" };

	return hz_config_is_one_of(unit, units, ARRAY_LEN(units));
}

/* Appends the first mistake of a text that is not a duration, in Go's words up to its quotation of
 * the text. */
static void
hz_config_explain_duration(struct str text, struct buf *why)
{
	struct str rest = text, unit;

	if (rest.len > 0 && (rest.ptr[0] == '-' || rest.ptr[0] == '+'))
		rest = str_skip(rest, 1);
	while (rest.len > 0 && hz_config_skip_number(&rest)) {
		unit = hz_config_take_unit(&rest);
		if (unit.len == 0) {
			buf_add_c(why, "time: missing unit in duration ");
			return;
		}
		if (!hz_config_is_unit(unit)) {
			buf_add_c(why, "time: unknown unit ");
			quote_add(why, unit);
			buf_add_c(why, " in duration ");
			return;
		}
	}
	buf_add_c(why, "time: invalid duration ");
}

bool
hz_parse_duration(struct str text, int64_t *ret_ns, struct buf *why)
{
	if (str_to_duration_ns(text, ret_ns))
		return true;
	hz_config_explain_duration(text, why);
	quote_add(why, text);
	return false;
}

/* ---- values: numbers and listeners ---- */

bool
hz_parse_int(struct str text, int64_t *ret, struct buf *why)
{
	struct str digits = text;

	if (digits.len > 1 && digits.ptr[0] == '+' && digits.ptr[1] != '-')
		digits = str_skip(digits, 1);
	if (str_to_i64(digits, INT64_MIN, INT64_MAX, ret))
		return true;
	if (digits.len > 0 && digits.ptr[0] == '-')
		digits = str_skip(digits, 1);
	buf_add_c(why, "strconv.Atoi: parsing ");
	quote_add(why, text);
	buf_add_c(why, hz_config_skip_digits(&digits) && digits.len == 0 ? ": value out of range"
	                                                                 : ": invalid syntax");
	return false;
}

static ptrdiff_t
hz_config_last_colon(struct str text)
{
	ptrdiff_t at = -1;

	for (size_t i = 0; i < text.len; i++) {
		if (text.ptr[i] == ':')
			at = (ptrdiff_t)i;
	}
	return at;
}

static bool
hz_config_parse_host(struct str host, struct str *ret)
{
	struct ip ip;

	if (str_starts(host, STR("[")) && str_ends(host, STR("]")))
		host = str_n(host.ptr + 1, host.len - 2);
	/* A text with a colon can only be an address. Names are resolved by the listener. */
	if (str_index(host, ':') >= 0 && !ip_parse(host, &ip))
		return false;
	*ret = host;
	return true;
}

bool
hz_parse_listener(struct str text, struct str *ret_host, int *ret_port)
{
	ptrdiff_t colon = hz_config_last_colon(text);
	int64_t port = HTTP_PORT;

	if (text.len > 0 &&
	    (colon < 0 || !str_to_i64(str_skip(text, (size_t)colon + 1), 1, 65535, &port)))
		return false;
	if (!hz_config_parse_host(str_head(text, colon < 0 ? 0 : (size_t)colon), ret_host))
		return false;
	*ret_port = (int)port;
	return true;
}

/* ---- variables ---- */

enum {
	TOKEN_LEN = 64,
	RESERVE_MAX = 50,
	ALGORITHM_MAX = 32,
};

#define DEFAULT_ENDPOINT "https://api.hetzner.cloud/v1"
#define DEFAULT_ROBOT_ENDPOINT "https://robot-ws.your-server.de"
#define DEFAULT_METADATA_ENDPOINT "http://169.254.169.254/hetzner/v1/metadata"
#define DEFAULT_METRICS_ADDRESS ":8233"

enum variable_type {
	TEXT,                /* as it is */
	BOOL,                /* the empty text is an error */
	TRI,                 /* the same, and unset is a third value */
	DURATION,            /* the empty text is an error */
	DURATION_OR_DEFAULT, /* the empty text and 0 mean the default */
	COUNT,
	COUNT_OR_DEFAULT,
};

/* Values that hz_config_check_all() translates. */
struct raw {
	bool has_lbs, are_routes_wanted;
	struct str families, cache_mode, metrics_address, adoption;
	int64_t reserve;
};

struct reader {
	struct hz_config *config;
	struct raw raw;
	struct buf *problems;
};

#define CONFIG(field) false, offsetof(struct hz_config, field)
#define RAW(field) true, offsetof(struct raw, field)

static const struct variable {
	const char *name;
	enum variable_type type;
	bool is_raw;
	size_t offset;
} variables[] = {
	{ "HCLOUD_ENDPOINT", TEXT, CONFIG(endpoint) },
	{ "HCLOUD_DEBUG", BOOL, CONFIG(is_debug) },
	{ "HCLOUD_RATE_LIMIT_RESERVE", COUNT, RAW(reserve) },
	{ "HCLOUD_METADATA_ENDPOINT", TEXT, CONFIG(metadata_endpoint) },
	{ "HCLOUD_NETWORK", TEXT, CONFIG(network) },
	{ "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK", BOOL, CONFIG(skips_attached_check) },
	{ "HCLOUD_NETWORK_ROUTES_ENABLED", BOOL, RAW(are_routes_wanted) },
	{ "HCLOUD_INSTANCES_ADDRESS_FAMILY", TEXT, RAW(families) },
	{ "HCLOUD_INSTANCES_ZONE_LABEL_ENABLED", BOOL, CONFIG(has_zone_label) },
	{ "HCLOUD_SERVER_CACHE_MODE", TEXT, RAW(cache_mode) },
	{ "HCLOUD_SERVER_CACHE_MAX_AGE", DURATION, CONFIG(cache_max_age_ns) },
	{ "HCLOUD_METRICS_ENABLED", BOOL, CONFIG(has_metrics) },
	{ "HCLOUD_METRICS_ADDRESS", TEXT, RAW(metrics_address) },
	{ "HCLOUD_LOAD_BALANCERS_ENABLED", BOOL, RAW(has_lbs) },
	{ "HCLOUD_LOAD_BALANCERS_ADOPTION", TEXT, RAW(adoption) },
	{ "HCLOUD_LOAD_BALANCERS_LOCATION", TEXT, CONFIG(lb.location) },
	{ "HCLOUD_LOAD_BALANCERS_NETWORK_ZONE", TEXT, CONFIG(lb.network_zone) },
	{ "HCLOUD_LOAD_BALANCERS_TYPE", TEXT, CONFIG(lb.type) },
	{ "HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE", TEXT, CONFIG(lb.algorithm) },
	{ "HCLOUD_LOAD_BALANCERS_DISABLE_IPV6", BOOL, CONFIG(lb.hides_ipv6) },
	{ "HCLOUD_LOAD_BALANCERS_DISABLE_PRIVATE_INGRESS", BOOL, CONFIG(lb.hides_private) },
	{ "HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK", TRI, CONFIG(lb.hides_public) },
	{ "HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP", BOOL, CONFIG(lb.uses_private_ip) },
	{ "HCLOUD_LOAD_BALANCERS_USES_PROXYPROTOCOL", TRI, CONFIG(lb.uses_proxy_protocol) },
	{ "HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE", TEXT, CONFIG(lb.private_subnet) },
	{ "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_INTERVAL", DURATION_OR_DEFAULT,
	  CONFIG(lb.health_interval_ns) },
	{ "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_TIMEOUT", DURATION_OR_DEFAULT,
	  CONFIG(lb.health_timeout_ns) },
	{ "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES", COUNT_OR_DEFAULT,
	  CONFIG(lb.health_retries) },
	{ "ROBOT_ENABLED", BOOL, CONFIG(has_robot) },
	{ "ROBOT_CACHE_TIMEOUT", DURATION_OR_DEFAULT, CONFIG(robot_cache_ns) },
	{ "ROBOT_RATE_LIMIT_WAIT_TIME", DURATION_OR_DEFAULT, CONFIG(robot_pause_ns) },
	{ "ROBOT_FORWARD_INTERNAL_IPS", BOOL, CONFIG(forwards_internal_ips) },
	{ "ROBOT_ENDPOINT", TEXT, CONFIG(robot_endpoint) },
};

/* All variables of the tutorial (docs/spec/hcloud.md, "Tutorial"), and two of ccmd: the endpoint,
 * for tests, and the reserve. */
static const char *const tutorial_variables[] = {
	"HCLOUD_ENDPOINT",
	"HCLOUD_NETWORK",
	"HCLOUD_RATE_LIMIT_RESERVE",
};

/* ---- reading ---- */

static bool
hz_config_read_tri(struct str text, enum hz_tri *ret, struct buf *why)
{
	bool is_yes;

	if (!hz_parse_bool(text, &is_yes, why))
		return false;
	*ret = is_yes ? HZ_YES : HZ_NO;
	return true;
}

static bool
hz_config_read_duration_or_default(struct str text, int64_t *ret, struct buf *why)
{
	int64_t value = 0;

	if (text.len > 0 && !hz_parse_duration(text, &value, why))
		return false;
	if (value != 0)
		*ret = value;
	return true;
}

static bool
hz_config_read_count_or_default(struct str text, int64_t *ret, struct buf *why)
{
	int64_t value = 0;

	if (text.len > 0 && !hz_parse_int(text, &value, why))
		return false;
	if (value != 0)
		*ret = value;
	return true;
}

static bool
hz_config_read_value(struct reader *r, const struct variable *v, struct str text, struct buf *why)
{
	void *to = (v->is_raw ? (char *)&r->raw : (char *)r->config) + v->offset;

	switch (v->type) {
	case TEXT:
		*(struct str *)to = arena_str(&r->config->arena, text);
		return true;
	case BOOL:
		return hz_parse_bool(text, to, why);
	case TRI:
		return hz_config_read_tri(text, to, why);
	case DURATION:
		return hz_parse_duration(text, to, why);
	case DURATION_OR_DEFAULT:
		return hz_config_read_duration_or_default(text, to, why);
	case COUNT:
		return hz_parse_int(text, to, why);
	case COUNT_OR_DEFAULT:
		return hz_config_read_count_or_default(text, to, why);
	}
	return false;
}

static void
hz_config_read_variable(struct reader *r, const struct variable *v)
{
	CLEANUP(buf_fini) struct buf why = BUF_INIT(ERR_MSG_SIZE);
	const char *text = getenv(v->name);

	if (!text || hz_config_read_value(r, v, str_c(text), &why))
		return;
	if (v->type == DURATION)
		buf_addf(r->problems, "invalid value for \"%s\": %s\n", v->name, why.ptr);
	else
		buf_addf(r->problems, "failed to parse %s: %s\n", v->name, why.ptr);
}

static bool
hz_config_is_read(const struct hz_dialect *dialect, const char *name)
{
	for (size_t i = 0; dialect->is_tutorial && i < ARRAY_LEN(tutorial_variables); i++) {
		if (strcmp(name, tutorial_variables[i]) == 0)
			return true;
	}
	return !dialect->is_tutorial;
}

enum {
	NAME_MAX_LEN = 64, /* of a variable, with "_FILE" */
};

/* A secret is the variable X itself, or the content of the file that X_FILE names. A file that
 * cannot be read is reported in Go's words, because users search for that text. The official
 * controller reads such a file at its start only (cloud/login.h). */
static void
hz_config_load_secret(struct login_secret *s, const char *variable, struct buf *problems)
{
	char memory[NAME_MAX_LEN] = "";
	struct buf name = BUF_FIXED(memory);
	const char *path;
	struct error err;

	buf_addf(&name, "%s_FILE", variable);
	path = getenv(variable) ? NULL : getenv(memory);
	if (!path) {
		login_secret_set(s, str_c(getenv(variable)));
		return;
	}
	if (login_secret_read(s, path, &err))
		return;
	buf_addf(problems, "failed to read %s_FILE: ", variable);
	if (err.code == ERR_NOT_FOUND)
		buf_addf(problems, "open %s: no such file or directory\n", path);
	else if (err.code == ERR_FORBIDDEN)
		buf_addf(problems, "open %s: permission denied\n", path);
	else
		buf_addf(problems, "%s\n", err.msg);
}

static void
hz_config_read_all(struct reader *r)
{
	const struct hz_dialect *dialect = r->config->dialect;

	hz_config_load_secret(&r->config->token, "HCLOUD_TOKEN", r->problems);
	if (!dialect->is_tutorial) {
		hz_config_load_secret(&r->config->robot_user, "ROBOT_USER", r->problems);
		hz_config_load_secret(&r->config->robot_password, "ROBOT_PASSWORD", r->problems);
	}
	for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
		if (hz_config_is_read(dialect, variables[i].name))
			hz_config_read_variable(r, &variables[i]);
	}
}

/* ---- checking ---- */

static void
hz_config_trim_endpoint(struct str *endpoint, const char *otherwise)
{
	if (endpoint->len == 0)
		*endpoint = str_c(otherwise);
	while (endpoint->len > 0 && endpoint->ptr[endpoint->len - 1] == '/')
		endpoint->len--;
}

static bool
hz_config_resolve_families(struct str text, enum hz_families *ret)
{
	if (text.len == 0 || str_eq_c(text, "ipv4"))
		*ret = HZ_IPV4;
	else if (str_eq_c(text, "ipv6"))
		*ret = HZ_IPV6;
	else if (str_eq_c(text, "dualstack"))
		*ret = HZ_DUALSTACK;
	else
		return false;
	return true;
}

static bool
hz_config_resolve_cache_mode(struct str text, enum hz_cache_mode *ret)
{
	if (str_eq_c(text, "all"))
		*ret = HZ_CACHE_ALL;
	else if (str_eq_c(text, "one"))
		*ret = HZ_CACHE_ONE;
	else if (str_eq_c(text, "off"))
		*ret = HZ_CACHE_OFF;
	else
		return false;
	return true;
}

static void
hz_config_resolve_instances(struct reader *r)
{
	if (!hz_config_resolve_families(r->raw.families, &r->config->families))
		buf_add_c(r->problems, "invalid value for \"HCLOUD_INSTANCES_ADDRESS_FAMILY\", "
		                       "expect one of: ipv4,ipv6,dualstack\n");
	if (!hz_config_resolve_cache_mode(r->raw.cache_mode, &r->config->cache_mode))
		buf_add_c(r->problems, "invalid value for \"HCLOUD_SERVER_CACHE_MODE\", "
		                       "expect one of: all,one,off\n");
}

static bool
hz_config_is_algorithm(struct str text)
{
	text = str_trim(text);
	return text.len == 0 || str_eq_nocase(text, STR("round_robin")) ||
	       str_eq_nocase(text, STR("least_connections"));
}

static bool
hz_config_resolve_adoption(struct str text, enum hz_adoption *ret)
{
	if (str_eq_c(text, "by-name"))
		*ret = HZ_ADOPT_BY_NAME;
	else if (str_eq_c(text, "labelled"))
		*ret = HZ_ADOPT_LABELLED;
	else if (str_eq_c(text, "never"))
		*ret = HZ_ADOPT_NEVER;
	else
		return false;
	return true;
}

static void
hz_config_check_balancers(struct reader *r)
{
	const struct hz_lb_config *lb = &r->config->lb;
	struct ip_net net;

	r->config->lb.is_disabled = !r->raw.has_lbs;
	if (!hz_config_resolve_adoption(r->raw.adoption, &r->config->lb.adoption))
		buf_add_c(r->problems, "invalid value for \"HCLOUD_LOAD_BALANCERS_ADOPTION\", "
		                       "expect one of: by-name,labelled,never\n");
	if (lb->location.len > 0 && lb->network_zone.len > 0)
		buf_add_c(r->problems,
		          "invalid value for \"HCLOUD_LOAD_BALANCERS_LOCATION\"/"
		          "\"HCLOUD_LOAD_BALANCERS_NETWORK_ZONE\", only one of them can be set\n");
	if (lb->private_subnet.len > 0 && !ip_net_parse(lb->private_subnet, &net))
		buf_addf(r->problems,
		         "invalid value for \"HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE\": "
		         "must be a valid CIDR: invalid CIDR address: %" STR_FMT "\n",
		         STR_ARG(lb->private_subnet));
	if (!hz_config_is_algorithm(lb->algorithm))
		buf_addf(r->problems,
		         "invalid value for \"HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE\": "
		         "unsupported value \"%" STR_FMT "\"\n",
		         STR_ARG(arena_lower(&r->config->arena, str_trim(lb->algorithm))));
}

bool
hz_config_has_robot_login(const struct hz_config *c)
{
	return secret_expose(&c->robot_user.value).len > 0 &&
	       secret_expose(&c->robot_password.value).len > 0;
}

static void
hz_config_check_robot(struct reader *r)
{
	const struct hz_config *c = r->config;
	bool has_user = secret_expose(&c->robot_user.value).len > 0;
	bool has_password = secret_expose(&c->robot_password.value).len > 0;

	if (!c->has_robot)
		return;
	if (has_user != has_password)
		buf_add_c(r->problems, "both \"ROBOT_USER\" and \"ROBOT_PASSWORD\" must be "
		                       "provided, or neither\n");
	if (c->has_routes)
		buf_add_c(r->problems, "using Routes with Robot is not supported\n");
}

static void
hz_config_check_metrics(struct reader *r)
{
	struct hz_config *c = r->config;

	if (c->has_metrics &&
	    !hz_parse_listener(r->raw.metrics_address, &c->metrics_host, &c->metrics_port)) {
		log_warn(
			"HCLOUD_METRICS_ADDRESS is not an address and a port, so no metrics listener is started",
			LOG_STR("address", r->raw.metrics_address));
		c->has_metrics = false;
	}
}

static void
hz_config_check_tutorial(struct reader *r)
{
	int64_t id;

	if (r->config->dialect->is_tutorial && !str_to_i64(r->config->network, 1, INT64_MAX, &id))
		buf_add_c(r->problems,
		          "environment variable \"HCLOUD_NETWORK\" must be the ID of a network\n");
}

static void
hz_config_check_all(struct reader *r)
{
	struct hz_config *c = r->config;

	hz_config_trim_endpoint(&c->endpoint, DEFAULT_ENDPOINT);
	hz_config_trim_endpoint(&c->robot_endpoint, DEFAULT_ROBOT_ENDPOINT);
	hz_config_trim_endpoint(&c->metadata_endpoint, DEFAULT_METADATA_ENDPOINT);
	c->network = str_trim(c->network); /* secrets often end with a new line */
	c->has_routes = c->network.len > 0 && r->raw.are_routes_wanted;
	if (!secret_is_set(&c->token.value) || secret_expose(&c->token.value).len == 0)
		buf_add_c(r->problems, "environment variable \"HCLOUD_TOKEN\" is required\n");
	if (r->raw.reserve < 0 || r->raw.reserve > RESERVE_MAX)
		buf_add_c(r->problems, "invalid value for \"HCLOUD_RATE_LIMIT_RESERVE\", "
		                       "expect a percentage from 0 to 50\n");
	c->reserve_percent = (unsigned)r->raw.reserve;
	hz_config_resolve_instances(r);
	hz_config_check_balancers(r);
	hz_config_check_robot(r);
	hz_config_check_metrics(r);
	hz_config_check_tutorial(r);
}

static void
hz_config_warn_token(size_t len)
{
	char text[100] = "";
	struct buf b = BUF_FIXED(text);

	buf_addf(&b,
	         "unrecognized token format, expected 64 characters, got %zu, proceeding anyway",
	         len);
	log_warn(text);
}

static void
hz_config_log_oddities(const struct hz_config *c)
{
	size_t len = secret_expose(&c->token.value).len;

	if (len != TOKEN_LEN)
		hz_config_warn_token(len);
	if (getenv("HCLOUD_SERVER_CACHE_MODE"))
		log_warn("HCLOUD_SERVER_CACHE_MODE is experimental");
	if (getenv("HCLOUD_SERVER_CACHE_MAX_AGE"))
		log_info(
			"HCLOUD_SERVER_CACHE_MAX_AGE has no effect: servers are read again for each look-up");
	if (c->has_robot && !hz_config_has_robot_login(c))
		log_info(
			"Robot support enabled without credentials. Some features might not work as expected.");
}

/* ---- loading ---- */

static void
hz_config_set_defaults(struct reader *r, unsigned reserve_percent)
{
	struct hz_config *c = r->config;
	bool is_official = !c->dialect->is_tutorial;

	for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
		if (variables[i].type == TEXT && !variables[i].is_raw)
			*(struct str *)((char *)c + variables[i].offset) = STR_EMPTY;
	}
	c->has_zone_label = true;
	c->cache_max_age_ns = 10 * NS_PER_SEC;
	c->has_metrics = is_official;
	c->robot_cache_ns = 300 * NS_PER_SEC;
	c->forwards_internal_ips = true;
	c->skips_attached_check = !is_official;
	c->is_debug = !is_official && str_c(getenv("HCLOUD_DEBUG")).len > 0;
	r->raw = (struct raw){
		.has_lbs = true,
		.are_routes_wanted = true,
		.families = c->dialect->has_all_families ? STR("dualstack") : STR("ipv4"),
		.cache_mode = STR("all"),
		.metrics_address = STR(DEFAULT_METRICS_ADDRESS),
		.adoption = STR("by-name"),
		.reserve = reserve_percent,
	};
}

/* The problems joined as Go does it: a line each, without the last newline. If they do not fit into
 * an error, they are logged as well. */
static bool
hz_config_fail(struct buf *problems, struct error *err)
{
	struct str text = str_trim(buf_str(problems));

	for (struct str line, rest = text;
	     text.len >= ERR_MSG_SIZE && str_split(&rest, '\n', &line);)
		log_error("problem in the environment", LOG_STR("problem", line));
	return err_set(err, ERR_INVALID, "%" STR_FMT, STR_ARG(text));
}

bool
hz_config_load(const struct hz_dialect *dialect, unsigned reserve_percent, struct hz_config **ret,
               struct error *err)
{
	CLEANUP(hz_config_freep) struct hz_config *config = xcalloc(1, sizeof(*config));
	CLEANUP(buf_fini) struct buf problems = BUF_INIT(ERR_MSG_SIZE * ARRAY_LEN(variables));
	struct reader r = { .config = config, .problems = &problems };

	config->dialect = dialect;
	hz_config_set_defaults(&r, reserve_percent);
	hz_config_read_all(&r);
	if (problems.len > 0)
		return hz_config_fail(&problems, err);
	hz_config_check_all(&r);
	if (problems.len > 0)
		return hz_config_fail(&problems, err);
	hz_config_log_oddities(config);
	*ret = TAKE(config);
	return true;
}

void
hz_config_free(struct hz_config *c)
{
	if (!c)
		return;
	login_secret_fini(&c->token);
	login_secret_fini(&c->robot_user);
	login_secret_fini(&c->robot_password);
	arena_fini(&c->arena);
	free(c);
}
