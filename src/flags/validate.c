/* flags/validate.c: what no single value can say: options that need, or rule out, each other. */
#include "cloud/cloud.h"
#include "flags/table.h"
#include "kube/elector.h"

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

/* ---- routes: framework.md 6.1 ---- */

static void
add_cidr(struct route_options *routes, struct str text, struct buf *problems)
{
	struct ip_net net;

	if (!ip_net_parse(text, &net))
		buf_addf(problems,
		         "--cluster-cidr: \"%" STR_FMT "\" is no network such as 10.244.0.0/16\n",
		         STR_ARG(text));
	else if (routes->n_cidrs == ARRAY_LEN(routes->cidrs))
		buf_addf(problems, "--cluster-cidr: want at most one network of each IP family\n");
	else
		routes->cidrs[routes->n_cidrs++] = net;
}

static void
check_cidrs(struct route_options *routes, struct buf *problems)
{
	struct str part, rest = str_trim(str_c(routes->cluster_cidr));

	if (rest.len == 0)
		return;
	while (str_split(&rest, ',', &part))
		add_cidr(routes, part, problems);
	if (routes->n_cidrs == 2 &&
	    ip_family(&routes->cidrs[0].ip) == ip_family(&routes->cidrs[1].ip))
		buf_add_c(problems,
		          "--cluster-cidr: two networks must be of different IP families\n");
}

/* ---- leader election: framework.md 7.5, 7.1.11 ---- */

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

/* ---- authentication and authorization ---- */

static void
check_words(const char *flag, const struct text_list *list, struct buf *problems)
{
	for (size_t i = 0; i < list->n; i++) {
		if (str_trim(list->items[i]).len == 0)
			buf_addf(problems, "%s: an entry is empty\n", flag);
	}
}

static void
check_authentication(const struct options *o, struct buf *problems)
{
	const struct authentication_options *a = &o->authentication;

	check_words("--requestheader-allowed-names", &a->requestheader_names, problems);
	check_words("--requestheader-username-headers", &a->username_headers, problems);
	check_words("--requestheader-group-headers", &a->group_headers, problems);
	check_words("--requestheader-extra-headers-prefix", &a->extra_prefixes, problems);
	check_words("--requestheader-uid-headers", &a->uid_headers, problems);
	if (a->uid_headers.n > 0 && !o->gates.requestheader_uid)
		buf_add_c(
			problems,
			"--requestheader-uid-headers requires the \"RemoteRequestHeaderUID\" feature to be enabled\n");
}

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
	check_cidrs(&o->routes, problems);
	check_election(&o->election, problems);
	serving_resolve(o, problems, warnings);
	check_authentication(o, problems);
	check_paths(&o->authorization.allow_paths, problems);
}
