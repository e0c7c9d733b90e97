/* flags/validate.c: checks beyond one value: names that must exist, and options that need or
 * exclude each other. Those of the server are in serving.c.
 *
 * All problems are collected, a line each, so that one start of the program shows all of them.
 */
#include "cloud/cloud.h"
#include "flags/controllers.h"
#include "flags/flags.h"
#include "flags/table.h"
#include "kube/elector.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"

enum {
	RESERVE_MAX = 50, /* background work leaves twice as much, so more would leave it nothing */
};

/* ---- --controllers: docs/spec/framework.md, "Enabling controllers" ---- */

/* NULL for an unknown name. */
static const char *
canonical_name(struct str name)
{
	for (size_t i = 0; i < N_CONTROLLERS; i++) {
		if (str_eq_c(name, controllers_names[i].name) ||
		    str_eq_c(name, controllers_names[i].alias))
			return controllers_names[i].name;
	}
	return NULL;
}

static void
resolve_controllers(struct options *o, struct buf *problems)
{
	for (size_t i = 0; i < o->controllers.n; i++) {
		struct str *item = &o->controllers.items[i];
		bool is_off = str_starts(*item, STR("-"));
		struct str name = str_skip(*item, is_off ? 1 : 0);
		const char *canonical = canonical_name(name);

		if (str_eq_c(*item, "*"))
			continue;
		if (canonical) {
			*item = is_off ? arena_printf(&o->arena, "-%s", canonical)
			               : str_c(canonical);
			continue;
		}
		buf_addf(problems,
		         "--controllers: \"%" STR_FMT
		         "\" is not in the list of known controllers (",
		         STR_ARG(name));
		for (size_t k = 0; k < N_CONTROLLERS; k++)
			buf_addf(problems, "%s%s", k > 0 ? ", " : "", controllers_names[k].name);
		buf_add_c(problems, ")\n");
	}
}

bool
controllers_enabled(const struct options *o, const char *canonical)
{
	bool has_star = false;

	for (size_t i = 0; i < o->controllers.n; i++) {
		struct str item = o->controllers.items[i];

		if (str_eq_c(item, canonical))
			return true;
		if (str_starts(item, STR("-")) && str_eq_c(str_skip(item, 1), canonical))
			return false;
		has_star |= str_eq_c(item, "*");
	}
	return has_star;
}

bool
options_want_routes(const struct options *o)
{
	return o->routes.are_configured &&
	       controllers_enabled(o, controllers_names[CONTROLLER_ROUTE].name);
}

/* ---- --feature-gates: docs/spec/framework.md, "Feature gates" ---- */

/* The gates of the Go programs change with every release, and nearly all of them are about features
 * that this program does not have. These gates would fit and change nothing, because routes always
 * follow the nodes. All others are ignored with a warning, so that a command line of the Go
 * programs goes on working. */
static const char *const known_gates[] = {
	"CloudControllerManagerWatchBasedRoutesReconciliation",
	"AllAlpha",
	"AllBeta",
	NULL,
};

static bool
is_go_bool(struct str text)
{
	return str_eq_nocase(text, STR("true")) || str_eq_nocase(text, STR("false")) ||
	       str_eq_c(text, "1") || str_eq_c(text, "0");
}

static void
check_gate(struct str text, struct buf *problems, struct buf *warnings)
{
	struct str name = text, value = STR_EMPTY;
	bool has_value = str_cut(text, '=', &name, &value);

	name = str_trim(name);
	value = str_trim(value);
	if (!has_value)
		buf_addf(problems, "--feature-gates: missing bool value for %" STR_FMT "\n",
		         STR_ARG(text));
	else if (!is_go_bool(value))
		buf_addf(problems,
		         "--feature-gates: invalid value of %" STR_FMT "=%" STR_FMT
		         ": want true or false\n",
		         STR_ARG(name), STR_ARG(value));
	else if (!words_have(known_gates, name))
		buf_addf(warnings, "feature gate %" STR_FMT " has no meaning here, ignoring it\n",
		         STR_ARG(name));
}

/* ---- routes: docs/spec/framework.md, "Cluster CIDRs" ---- */

/* Elements are not trimmed: a blank after a comma is an error, as in upstream (cloud-provider,
 * app/core.go, processCIDRs()). */
static bool
parse_cidrs(struct route_options *routes, struct str text, struct error *err)
{
	struct str part, rest = text;

	while (str_split(&rest, ',', &part)) {
		if (routes->n_cidrs == ARRAY_LEN(routes->cidrs))
			return err_set(err, ERR_INVALID,
			               "cluster CIDR \"%" STR_FMT
			               "\" has more than one CIDR of each IP family",
			               STR_ARG(str_utf8_head(text, 100)));
		if (!ip_net_parse(part, &routes->cidrs[routes->n_cidrs++]))
			return err_set(err, ERR_INVALID,
			               "cluster CIDR \"%" STR_FMT
			               "\" is not a CIDR, e.g. 10.244.0.0/16",
			               STR_ARG(str_utf8_head(part, 100)));
	}
	if (routes->n_cidrs == 2 &&
	    ip_family(&routes->cidrs[0].ip) == ip_family(&routes->cidrs[1].ip))
		return err_set(
			err, ERR_INVALID,
			"cluster CIDR \"%" STR_FMT
			"\" has two CIDRs of one IP family, e.g. 10.244.0.0/16,fd00:10::/48 is "
			"right",
			STR_ARG(str_utf8_head(text, 100)));
	return true;
}

/* A problem is stored: whether the route controller runs also depends on the cloud, and without it
 * nothing reads the value. The code that starts the route controller decides whether the problem is
 * an error. It is reported here only beside other problems, which end the program anyway. */
static void
check_cidrs(struct options *o, struct buf *problems)
{
	struct route_options *routes = &o->routes;
	struct str text = str_trim(str_c(routes->cluster_cidr));
	struct error err;

	if (text.len == 0 || parse_cidrs(routes, text, &err))
		return;
	routes->n_cidrs = 0;
	(void)snprintf(routes->cidr_problem, sizeof(routes->cidr_problem), "%s", err.msg);
	if (problems->len > 0 && options_want_routes(o))
		buf_addf(problems, "--cluster-cidr: %s\n", err.msg);
}

/* ---- all of them ---- */

static void
check_cloud(const struct options *o, struct buf *problems)
{
	CLEANUP(buf_fini) struct buf clouds = BUF_INIT(KIB(1));

	cloud_list(&clouds);
	if (o->cloud_provider[0] == '\0')
		buf_addf(problems, "--cloud-provider cannot be empty (one of: %s)\n", clouds.ptr);
	else if (!cloud_find(str_c(o->cloud_provider)))
		buf_addf(problems, "unknown cloud provider \"%s\" (one of: %s)\n",
		         o->cloud_provider, clouds.ptr);
	if (o->cloud_reserve_percent > RESERVE_MAX)
		buf_addf(problems, "--cloud-rate-limit-reserve: %u is more than %d percent\n",
		         o->cloud_reserve_percent, RESERVE_MAX);
}

static void
check_election(const struct election_options *e, struct buf *problems)
{
	if (!e->is_enabled)
		return;
	if (strcmp(e->resource_lock, "leases") != 0)
		buf_add_c(problems, "resourceLock value must be \"leases\"\n");
	if (e->resource_name[0] == '\0')
		buf_add_c(problems, "--leader-elect-resource-name cannot be empty\n");
	if (e->resource_namespace[0] == '\0')
		buf_add_c(problems, "--leader-elect-resource-namespace cannot be empty\n");
	(void)elector_validate(e->lease_duration_ns, e->renew_deadline_ns, e->retry_period_ns,
	                       problems);
}

static void
check_allow_paths(const struct str_list *paths, struct buf *problems)
{
	for (size_t i = 0; i < paths->n; i++) {
		struct str path = paths->items[i];
		ptrdiff_t star = str_index(path, '*');

		if (star >= 0 && (size_t)star + 1 < path.len)
			buf_addf(
				problems,
				"--authorization-always-allow-paths: only a trailing * is allowed in \"%" STR_FMT
				"\"\n",
				STR_ARG(path));
	}
}

void
options_validate(struct options *o, struct buf *problems, struct buf *warnings)
{
	check_cloud(o, problems);
	resolve_controllers(o, problems);
	for (size_t i = 0; i < o->gate_texts.n; i++)
		check_gate(o->gate_texts.items[i], problems, warnings);
	check_election(&o->election, problems);
	serving_resolve(o, problems, warnings);
	check_allow_paths(&o->access.config.allow_paths, problems);
	check_cidrs(o, problems); /* last: its problem is reported only beside others */
}
