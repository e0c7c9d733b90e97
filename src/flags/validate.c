/* flags/validate.c: what no single value can say: options that need, or rule out, each other. */
#include "cloud/cloud.h"
#include "flags/table.h"
#include "kube/elector.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"

enum {
	RESERVE_MAX = 50, /* background work keeps off twice that */
};

static void
check_cloud(const struct options *o, struct buf *problems)
{
	CLEANUP(buf_fini) struct buf names = BUF_INIT(KIB(1));

	cloud_list(&names);
	if (o->cloud_provider[0] == '\0')
		buf_addf(problems, "--cloud-provider cannot be empty (one of: %s)\n", names.ptr);
	else if (!cloud_find(str_c(o->cloud_provider)))
		buf_addf(problems, "unknown cloud provider \"%s\" (one of: %s)\n",
		         o->cloud_provider, names.ptr);
	if (o->cloud_reserve_percent > RESERVE_MAX)
		buf_addf(problems, "--cloud-rate-limit-reserve: %u is more than %d percent\n",
		         o->cloud_reserve_percent, RESERVE_MAX);
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

/* A problem is stored, not reported: whether the route controller runs also depends on the cloud,
 * and without it nothing reads the value. The code that starts the route controller decides whether
 * the problem is an error. */
static void
check_cidrs(struct route_options *routes)
{
	struct str text = str_trim(str_c(routes->cluster_cidr));
	struct error err;

	if (text.len == 0 || parse_cidrs(routes, text, &err))
		return;
	routes->n_cidrs = 0;
	(void)snprintf(routes->cidr_problem, sizeof(routes->cidr_problem), "%s", err.msg);
}

/* ---- leader election ---- */

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

/* ---- authorization ---- */

static void
check_paths(const struct text_list *paths, struct buf *problems)
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
	controllers_resolve(o, problems);
	gates_resolve(o, problems, warnings);
	check_cidrs(&o->routes);
	check_election(&o->election, problems);
	serving_resolve(o, problems, warnings);
	check_paths(&o->authorization.allow_paths, problems);
}
