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
#include "base/buf.h"
#include "base/words.h"

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

static size_t
hz_config_skip_digits(struct str *s)
{
	size_t n = 0;

	while (n < s->len && s->ptr[n] >= '0' && s->ptr[n] <= '9')
		n++;
	*s = str_skip(*s, n);
	return n;
}

/* "1", "1.5", ".5" or "1.", but not ".". Returns the number of digits. */
static size_t
hz_config_skip_number(struct str *s)
{
	size_t n_digits = hz_config_skip_digits(s);

	if (s->len > 0 && s->ptr[0] == '.') {
		*s = str_skip(*s, 1);
		n_digits += hz_config_skip_digits(s);
	}
	return n_digits;
}

/* The unit ends where the next number begins. */
static struct str
hz_config_take_unit(struct str *s)
{
	struct str unit = str_head(*s, 0);

	while (unit.len < s->len && !char_is_in(s->ptr[unit.len], ".0123456789"))
		unit.len++;
	*s = str_skip(*s, unit.len);
	return unit;
}

/* Appends the first mistake of a text that is not a duration, in Go's words up to its quotation of
 * the text. */
static void
hz_config_explain_duration(struct str text, struct buf *why)
{
	static const char *const units[] = { "ns", "us", "µs", "μs", "ms", "s", "m", "h", NULL };
	struct str rest = text, unit;

	if (rest.len > 0 && char_is_in(rest.ptr[0], "-+"))
		rest = str_skip(rest, 1);
	while (hz_config_skip_number(&rest) > 0) {
		unit = hz_config_take_unit(&rest);
		if (unit.len == 0) {
			buf_add_c(why, "time: missing unit in duration ");
			return;
		}
		if (!words_have(units, unit)) {
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
	buf_add_c(why, str_is_digits(digits) ? ": value out of range" : ": invalid syntax");
	return false;
}

/* A listener as Go names it: ":8233", "127.0.0.1:8233", "[::1]:8233", "localhost:8233". *ret_host
 * empty: all addresses. */
static bool
hz_config_parse_listener(struct str text, struct str *ret_host, int *ret_port)
{
	struct str host = text, digits;
	int64_t port = HTTP_PORT;
	struct ip ip;

	if (text.len > 0 &&
	    (!str_cut_last(text, ':', &host, &digits) || !str_to_i64(digits, 1, 65535, &port)))
		return false;
	if (str_starts(host, STR("[")) && str_ends(host, STR("]")))
		host = str_n(host.ptr + 1, host.len - 2);
	/* A text with a colon can only be an address. Names are resolved by the listener. */
	if (str_index(host, ':') >= 0 && !ip_parse(host, &ip))
		return false;
	*ret_host = host;
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
	OPT_BOOL,            /* the same, and unset is a third value */
	DURATION,            /* the empty text is an error */
	DURATION_OR_DEFAULT, /* the empty text and 0 mean the default */
	COUNT,
	COUNT_OR_DEFAULT,
};

/* Values that hz_config_check() translates. */
struct raw {
	bool has_lbs, are_routes_wanted;
	struct str families, cache_mode, metrics_address, adoption;
	int64_t reserve;
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
	{ "HCLOUD_LOAD_BALANCERS_DISABLE_PUBLIC_NETWORK", OPT_BOOL, CONFIG(lb.hides_public) },
	{ "HCLOUD_LOAD_BALANCERS_USE_PRIVATE_IP", BOOL, CONFIG(lb.uses_private_ip) },
	{ "HCLOUD_LOAD_BALANCERS_USES_PROXYPROTOCOL", OPT_BOOL, CONFIG(lb.uses_proxy_protocol) },
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
	NULL,
};

static const char *const secret_variables[] = { "HCLOUD_TOKEN",   "HCLOUD_TOKEN_FILE",
	                                        "ROBOT_USER",     "ROBOT_USER_FILE",
	                                        "ROBOT_PASSWORD", "ROBOT_PASSWORD_FILE" };

bool
hz_config_reads_variable(struct str name, const char **ret_nearest)
{
	struct nearest nearest = nearest_to(name);

	for (size_t i = 0; i < ARRAY_LEN(variables); i++)
		nearest_compare(&nearest, variables[i].name);
	for (size_t i = 0; i < ARRAY_LEN(secret_variables); i++)
		nearest_compare(&nearest, secret_variables[i]);
	*ret_nearest = nearest.found;
	return nearest.found && str_eq_c(name, nearest.found);
}

/* ---- reading ---- */

static bool
hz_config_read_value(struct hz_config *config, const struct variable *v, struct str text, void *to,
                     struct buf *why)
{
	bool is_yes;
	int64_t value = 0;

	switch (v->type) {
	case TEXT:
		*(struct str *)to = arena_str(&config->arena, text);
		return true;
	case BOOL:
		return hz_parse_bool(text, to, why);
	case OPT_BOOL:
		if (!hz_parse_bool(text, &is_yes, why))
			return false;
		*(enum hz_opt_bool *)to = is_yes ? HZ_YES : HZ_NO;
		return true;
	case DURATION:
		return hz_parse_duration(text, to, why);
	case COUNT:
		return hz_parse_int(text, to, why);
	case DURATION_OR_DEFAULT:
		if (text.len > 0 && !hz_parse_duration(text, &value, why))
			return false;
		break;
	case COUNT_OR_DEFAULT:
		if (text.len > 0 && !hz_parse_int(text, &value, why))
			return false;
		break;
	}
	if (value != 0)
		*(int64_t *)to = value; /* otherwise the default stays */
	return true;
}

static void
hz_config_read_variable(struct hz_config *config, struct raw *raw, const struct variable *v,
                        struct buf *problems)
{
	void *to = (v->is_raw ? (char *)raw : (char *)config) + v->offset;
	CLEANUP(buf_fini) struct buf why = BUF_INIT(ERR_MSG_SIZE);
	const char *text = getenv(v->name);

	if (!text || hz_config_read_value(config, v, str_c(text), to, &why))
		return;
	if (v->type == DURATION)
		buf_addf(problems, "invalid value for \"%s\": %s\n", v->name, why.ptr);
	else
		buf_addf(problems, "failed to parse %s: %s\n", v->name, why.ptr);
}

/* A secret is the variable itself, or the content of the file that the other one names. A file that
 * cannot be read is reported in Go's words, because users search for that text. The official
 * controller reads such a file at its start only (cloud/login.h). */
static void
hz_config_load_secret(struct login_secret *s, const char *variable, const char *of_file,
                      struct buf *problems)
{
	const char *path = getenv(variable) ? NULL : getenv(of_file);
	struct error err;

	if (!path) {
		login_secret_set(s, str_c(getenv(variable)));
		return;
	}
	if (login_secret_read(s, path, &err))
		return;
	buf_addf(problems, "failed to read %s: ", of_file);
	if (err.code == ERR_NOT_FOUND)
		buf_addf(problems, "open %s: no such file or directory\n", path);
	else if (err.code == ERR_FORBIDDEN)
		buf_addf(problems, "open %s: permission denied\n", path);
	else
		buf_addf(problems, "%s\n", err.msg);
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

/* Returns the index of the text in the list of words: "all,one,off". */
static unsigned
hz_config_choose(const char *variable, struct str text, const char *words, struct buf *problems)
{
	unsigned i = 0;

	for (struct str word, rest = str_c(words); str_split(&rest, ',', &word); i++) {
		if (str_eq(text, word))
			return i;
	}
	buf_addf(problems, "invalid value for \"%s\", expect one of: %s\n", variable, words);
	return 0;
}

static void
hz_config_check(struct hz_config *c, const struct raw *raw, struct buf *problems)
{
	struct str algorithm = str_trim(c->lb.algorithm);
	bool has_user = secret_expose(&c->robot_user.value).len > 0;
	bool has_password = secret_expose(&c->robot_password.value).len > 0;
	struct ip_net net;
	int64_t id;

	hz_config_trim_endpoint(&c->endpoint, DEFAULT_ENDPOINT);
	hz_config_trim_endpoint(&c->robot_endpoint, DEFAULT_ROBOT_ENDPOINT);
	hz_config_trim_endpoint(&c->metadata_endpoint, DEFAULT_METADATA_ENDPOINT);
	c->network = str_trim(c->network); /* secrets often end with a new line */
	c->has_routes = c->network.len > 0 && raw->are_routes_wanted;
	if (!secret_is_set(&c->token.value) || secret_expose(&c->token.value).len == 0)
		buf_add_c(problems, "environment variable \"HCLOUD_TOKEN\" is required\n");
	if (raw->reserve < 0 || raw->reserve > RESERVE_MAX)
		buf_add_c(problems, "invalid value for \"HCLOUD_RATE_LIMIT_RESERVE\", "
		                    "expect a percentage from 0 to 50\n");
	c->reserve_percent = (unsigned)raw->reserve;

	/* the words in the order of the enums */
	c->families = HZ_IPV4 +
	              hz_config_choose("HCLOUD_INSTANCES_ADDRESS_FAMILY",
	                               raw->families.len > 0 ? raw->families : STR("ipv4"),
	                               "ipv4,ipv6,dualstack", problems);
	c->cache_mode = hz_config_choose("HCLOUD_SERVER_CACHE_MODE", raw->cache_mode, "all,one,off",
	                                 problems);

	/* load balancers */
	c->lb.is_disabled = !raw->has_lbs;
	c->lb.adoption = hz_config_choose("HCLOUD_LOAD_BALANCERS_ADOPTION", raw->adoption,
	                                  "by-name,labelled,never", problems);
	if (c->lb.location.len > 0 && c->lb.network_zone.len > 0)
		buf_add_c(problems,
		          "invalid value for \"HCLOUD_LOAD_BALANCERS_LOCATION\"/"
		          "\"HCLOUD_LOAD_BALANCERS_NETWORK_ZONE\", only one of them can be set\n");
	if (c->lb.private_subnet.len > 0 && !ip_net_parse(c->lb.private_subnet, &net))
		buf_addf(problems,
		         "invalid value for \"HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE\": "
		         "must be a valid CIDR: invalid CIDR address: %" STR_FMT "\n",
		         STR_ARG(c->lb.private_subnet));
	if (algorithm.len > 0 && !str_eq_nocase(algorithm, STR("round_robin")) &&
	    !str_eq_nocase(algorithm, STR("least_connections")))
		buf_addf(problems,
		         "invalid value for \"HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE\": "
		         "unsupported value \"%" STR_FMT "\"\n",
		         STR_ARG(arena_lower(&c->arena, algorithm)));

	/* Robot */
	if (c->has_robot && has_user != has_password)
		buf_add_c(problems, "both \"ROBOT_USER\" and \"ROBOT_PASSWORD\" must be "
		                    "provided, or neither\n");
	if (c->has_robot && c->has_routes)
		buf_add_c(
			problems,
			"using Routes with Robot is not supported: set HCLOUD_NETWORK_ROUTES_ENABLED=false or ROBOT_ENABLED=false\n");

	if (c->has_metrics &&
	    !hz_config_parse_listener(raw->metrics_address, &c->metrics_host, &c->metrics_port)) {
		log_warn(
			"HCLOUD_METRICS_ADDRESS is not an address and a port, so no metrics listener is started",
			LOG_STR("address", raw->metrics_address));
		c->has_metrics = false;
	}
	if (c->dialect->is_tutorial && !str_to_i64(c->network, 1, INT64_MAX, &id))
		buf_add_c(problems,
		          "environment variable \"HCLOUD_NETWORK\" must be the ID of a network\n");
}

bool
hz_config_has_robot_login(const struct hz_config *c)
{
	return secret_expose(&c->robot_user.value).len > 0 &&
	       secret_expose(&c->robot_password.value).len > 0;
}

static void
hz_config_log_oddities(const struct hz_config *c)
{
	size_t len = secret_expose(&c->token.value).len;
	char text[100] = "";
	struct buf b = BUF_FIXED(text);

	if (len != TOKEN_LEN) {
		buf_addf(
			&b,
			"unrecognized token format, expected 64 characters, got %zu, proceeding anyway",
			len);
		log_warn(text);
	}
	if (getenv("HCLOUD_SERVER_CACHE_MODE"))
		log_warn("HCLOUD_SERVER_CACHE_MODE is experimental");
	if (getenv("HCLOUD_SERVER_CACHE_MAX_AGE"))
		log_info(
			"HCLOUD_SERVER_CACHE_MAX_AGE has no effect: servers are read again for each lookup");
	if (c->has_robot && !hz_config_has_robot_login(c))
		log_info(
			"Robot support enabled without credentials. Some features might not work as expected.");
}

/* ---- loading ---- */

static void
hz_config_set_defaults(struct hz_config *c, struct raw *raw, unsigned reserve_percent)
{
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
	*raw = (struct raw){
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
	struct raw raw;

	config->dialect = dialect;
	hz_config_set_defaults(config, &raw, reserve_percent);
	hz_config_load_secret(&config->token, "HCLOUD_TOKEN", "HCLOUD_TOKEN_FILE", &problems);
	if (!dialect->is_tutorial) {
		hz_config_load_secret(&config->robot_user, "ROBOT_USER", "ROBOT_USER_FILE",
		                      &problems);
		hz_config_load_secret(&config->robot_password, "ROBOT_PASSWORD",
		                      "ROBOT_PASSWORD_FILE", &problems);
	}
	for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
		if (!dialect->is_tutorial ||
		    words_have(tutorial_variables, str_c(variables[i].name)))
			hz_config_read_variable(config, &raw, &variables[i], &problems);
	}
	if (problems.len > 0)
		return hz_config_fail(&problems, err);
	hz_config_check(config, &raw, &problems);
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
