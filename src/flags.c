/* flags.c: see flags.h. */
#include "flags.h"

#include <stddef.h>

#include "base/limits.h"

enum flag_kind {
	FLAG_TEXT,           /* const char * */
	FLAG_BOOL,           /* bool */
	FLAG_COUNT,          /* int64_t, 1 and more; "auto" or 0 where the default is auto */
	FLAG_PERCENT,        /* unsigned */
	FLAG_NUMBER,         /* unsigned */
	FLAG_LEVEL,          /* int64_t, 0 and more */
	FLAG_RATE,           /* double, above 0; "auto" */
	FLAG_DURATION,       /* int64_t nanoseconds */
	FLAG_FORMAT,         /* enum log_format */
	FLAG_NO_EFFECT_TEXT, /* accepted: upstream has it, it means nothing here (yet) */
	FLAG_NO_EFFECT_BOOL,
	FLAG_HELP,
	FLAG_VERSION,
};

struct flag {
	const char *name;
	enum flag_kind kind;
	size_t offset;        /* in struct options */
	const char *fallback; /* the default, as one would type it; NULL: none */
	const char *help;
	int64_t min;
};

struct flag_group {
	const char *name;
	const struct flag *flags;
	size_t n;
};

#define AT(field) offsetof(struct options, field)

static const struct flag cloud_flags[] = {
	{ "cloud-provider", FLAG_TEXT, AT(cloud_provider), "",
	  "The cloud: see the list at the end.", 0 },
	{ "cloud-config", FLAG_TEXT, AT(cloud_config), "", "The provider's configuration file.",
	  0 },
	{ "cluster-name", FLAG_TEXT, AT(cluster_name), "kubernetes",
	  "Name of the cluster, for what is made in the cloud.", 0 },
	{ "allow-untagged-cloud", FLAG_NO_EFFECT_BOOL, 0, "false",
	  "Deprecated; no cloud here needs it.", 0 },
};

static const struct flag client_flags[] = {
	{ "kubeconfig", FLAG_TEXT, AT(kubeconfig), "",
	  "How to reach the API server. Without it and --master: as a pod of the cluster.", 0 },
	{ "master", FLAG_TEXT, AT(master), "", "The API server's URL; overrides the kubeconfig's.",
	  0 },
	{ "kube-api-qps", FLAG_RATE, AT(kube_api_qps), "auto",
	  "Most requests a second. auto: as many as the API server takes.", 0 },
	{ "kube-api-burst", FLAG_RATE, AT(kube_api_burst), "auto",
	  "Requests that may exceed --kube-api-qps for a moment.", 0 },
	{ "kube-api-content-type", FLAG_NO_EFFECT_TEXT, 0, "application/json",
	  "Accepted; requests are JSON.", 0 },
};

static const struct flag node_flags[] = {
	{ "concurrent-node-syncs", FLAG_COUNT, AT(n_node_workers), "auto",
	  "Nodes worked on at the same time.", 1 },
	{ "concurrent-node-status-updates", FLAG_NO_EFFECT_TEXT, 0, "auto",
	  "Accepted; addresses are written by the workers of --concurrent-node-syncs.", 0 },
	{ "node-status-update-frequency", FLAG_DURATION, AT(node_refresh_period_ns), "5m0s",
	  "How often node addresses are compared with the cloud's.", 1 },
	{ "node-monitor-period", FLAG_DURATION, AT(node_monitor_period_ns), "auto",
	  "How often the cloud is asked about a node that is not ready. auto: at 0, 12, 30 and 60 s, then every 65 s.",
	  0 },
};

static const struct flag guard_flags[] = {
	{ "node-delete-guard", FLAG_BOOL, AT(guard.is_enabled), "true",
	  "Delete nodes only on proof. false: at the first \"not found\", as the Go controllers do.",
	  0 },
	{ "node-delete-require-witness", FLAG_BOOL, AT(guard.require_witness), "true",
	  "A look counts only if it also found the machine of another node. false: for clusters that scale to zero and "
	  "whose control plane is elsewhere.",
	  0 },
	{ "node-delete-confirm-interval", FLAG_DURATION, AT(guard.confirm_ns), "12s",
	  "Between two looks that must agree that a machine is gone.", 0 },
	{ "node-delete-min-age", FLAG_DURATION, AT(guard.min_age_ns), "1m0s",
	  "Younger nodes are not deleted.", 0 },
	{ "node-delete-nameless-age", FLAG_DURATION, AT(guard.nameless_ns), "15m0s",
	  "How long the machine of a node without a provider ID must be absent.", 0 },
	{ "node-delete-breaker-min", FLAG_NUMBER, AT(guard.breaker_min), "3",
	  "So many deletions within the window are never too many.", 0 },
	{ "node-delete-breaker-percent", FLAG_PERCENT, AT(guard.breaker_percent), "20",
	  "More than this share of all nodes within the window is too many: looks must agree for longer.",
	  0 },
	{ "node-delete-breaker-window", FLAG_DURATION, AT(guard.breaker_window_ns), "10m0s",
	  "The breaker's window.", 0 },
	{ "node-delete-breaker-agree", FLAG_DURATION, AT(guard.breaker_agree_ns), "5m0s",
	  "How long looks must agree when too many nodes would go.", 0 },
};

static const struct flag program_flags[] = {
	{ "leader-elect", FLAG_BOOL, AT(leader_elect), "true",
	  "Leader election; not in this version: run one replica.", 0 },
	{ "shutdown-grace-period", FLAG_DURATION, AT(grace_period_ns), "1s",
	  "How long running work may go on after SIGTERM.", 0 },
	{ "v", FLAG_LEVEL, AT(verbosity), "0", "Verbosity of the log; 1 and more show debug lines.",
	  0 },
	{ "logging-format", FLAG_FORMAT, AT(log_format), "text", "text (logfmt) or json.", 0 },
	{ "version", FLAG_VERSION, 0, NULL, "Print the version.", 0 },
	{ "help", FLAG_HELP, 0, NULL, "Print this.", 0 },
};

/* Upstream's, without a counterpart here: drop-in command lines go on to work. */
static const struct flag silent_flags[] = {
	{ "allocate-node-cidrs", FLAG_NO_EFFECT_BOOL, 0, "false", "", 0 },
	{ "bind-address", FLAG_NO_EFFECT_TEXT, 0, "", "", 0 },
	{ "cidr-allocator-type", FLAG_NO_EFFECT_TEXT, 0, "", "", 0 },
	{ "cluster-cidr", FLAG_NO_EFFECT_TEXT, 0, "", "", 0 },
	{ "concurrent-service-syncs", FLAG_NO_EFFECT_TEXT, 0, "", "", 0 },
	{ "configure-cloud-routes", FLAG_NO_EFFECT_BOOL, 0, "", "", 0 },
	{ "controller-start-interval", FLAG_NO_EFFECT_TEXT, 0, "", "", 0 },
	{ "leader-elect-lease-duration", FLAG_NO_EFFECT_TEXT, 0, "", "", 0 },
	{ "leader-elect-renew-deadline", FLAG_NO_EFFECT_TEXT, 0, "", "", 0 },
	{ "leader-elect-resource-lock", FLAG_NO_EFFECT_TEXT, 0, "", "", 0 },
	{ "leader-elect-resource-name", FLAG_NO_EFFECT_TEXT, 0, "", "", 0 },
	{ "leader-elect-resource-namespace", FLAG_NO_EFFECT_TEXT, 0, "", "", 0 },
	{ "leader-elect-retry-period", FLAG_NO_EFFECT_TEXT, 0, "", "", 0 },
	{ "min-resync-period", FLAG_NO_EFFECT_TEXT, 0, "", "", 0 },
	{ "node-sync-period", FLAG_NO_EFFECT_TEXT, 0, "", "", 0 },
	{ "profiling", FLAG_NO_EFFECT_BOOL, 0, "", "", 0 },
	{ "route-reconciliation-period", FLAG_NO_EFFECT_TEXT, 0, "", "", 0 },
	{ "secure-port", FLAG_NO_EFFECT_TEXT, 0, "", "", 0 },
	{ "use-service-account-credentials", FLAG_NO_EFFECT_BOOL, 0, "", "", 0 },
};

static const struct flag_group groups[] = {
	{ "Cloud", cloud_flags, ARRAY_LEN(cloud_flags) },
	{ "API server", client_flags, ARRAY_LEN(client_flags) },
	{ "Nodes", node_flags, ARRAY_LEN(node_flags) },
	{ "Deletion of nodes", guard_flags, ARRAY_LEN(guard_flags) },
	{ "Program", program_flags, ARRAY_LEN(program_flags) },
	{ NULL, silent_flags, ARRAY_LEN(silent_flags) },
};

/* ---- values ---- */

static bool
parse_bool(struct str text, bool *ret)
{
	static const char *const yes[] = { "1", "t", "T", "true", "TRUE", "True" };
	static const char *const no[] = { "0", "f", "F", "false", "FALSE", "False" };

	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		if (str_eq_c(text, yes[i]) || str_eq_c(text, no[i])) {
			*ret = str_eq_c(text, yes[i]);
			return true;
		}
	}
	return false;
}

/* A decimal number above 0, with a fraction; what Go prints for a rate. */
static bool
parse_rate(struct str text, double *ret)
{
	struct str whole = text, fraction = STR_EMPTY;
	int64_t units = 0, parts = 0;
	double scale = 1;

	str_cut(text, '.', &whole, &fraction);
	if (fraction.len > 9 || !str_to_i64(whole, 0, 1000000, &units) ||
	    (fraction.len > 0 && !str_to_i64(fraction, 0, 999999999, &parts)))
		return false;
	for (size_t i = 0; i < fraction.len; i++)
		scale *= 10;
	*ret = (double)units + (double)parts / scale;
	return *ret > 0;
}

static bool
parse_unsigned(struct str text, int64_t max, void *field)
{
	int64_t n;

	if (!str_to_i64(text, 0, max, &n))
		return false;
	*(unsigned *)field = (unsigned)n;
	return true;
}

static bool
parse_format(struct str text, enum log_format *ret)
{
	if (!str_eq_c(text, "text") && !str_eq_c(text, "json"))
		return false;
	*ret = str_eq_c(text, "json") ? LOG_JSON : LOG_LOGFMT;
	return true;
}

static bool
parse_duration(const struct flag *flag, struct str text, int64_t *ret)
{
	int64_t ns;

	if (!str_to_duration_ns(text, &ns) || ns < flag->min)
		return false;
	*ret = ns;
	return true;
}

static bool
is_auto(const struct flag *flag, struct str text)
{
	return flag->fallback && strcmp(flag->fallback, "auto") == 0 && str_eq_c(text, "auto");
}

/* Sets the field; text is terminated. What the value should have been is in expected() when this returns false. */
static bool
set_value(const struct flag *flag, const char *value, struct options *o)
{
	void *field = (char *)o + flag->offset;
	struct str text = str_c(value);
	bool ignored;

	if (is_auto(flag, text))
		return true; /* fields start as 0, which is auto */
	switch (flag->kind) {
	case FLAG_TEXT:
		*(const char **)field = value;
		return true;
	case FLAG_BOOL:
		return parse_bool(text, field);
	case FLAG_COUNT:
		return str_to_i64(text, flag->min, 1000, field);
	case FLAG_PERCENT:
		return parse_unsigned(text, 100, field);
	case FLAG_NUMBER:
		return parse_unsigned(text, 1000000, field);
	case FLAG_LEVEL:
		return str_to_i64(text, 0, 100, field);
	case FLAG_RATE:
		return parse_rate(text, field);
	case FLAG_DURATION:
		return parse_duration(flag, text, field);
	case FLAG_FORMAT:
		return parse_format(text, field);
	case FLAG_NO_EFFECT_BOOL:
		return parse_bool(text, &ignored);
	case FLAG_NO_EFFECT_TEXT:
	case FLAG_HELP:
	case FLAG_VERSION:
		return true;
	}
	return false;
}

static const char *
expected(enum flag_kind kind)
{
	switch (kind) {
	case FLAG_BOOL:
	case FLAG_NO_EFFECT_BOOL:
		return "true or false";
	case FLAG_COUNT:
		return "a number from 1 to 1000";
	case FLAG_PERCENT:
		return "a number from 0 to 100";
	case FLAG_NUMBER:
	case FLAG_LEVEL:
		return "a number, 0 or more";
	case FLAG_RATE:
		return "a number above 0";
	case FLAG_DURATION:
		return "a duration such as 300ms, 12s or 1h30m";
	case FLAG_FORMAT:
		return "text or json";
	default:
		return "a value";
	}
}

/* ---- the table ---- */

static bool
name_matches(const char *name, struct str typed)
{
	if (strlen(name) != typed.len)
		return false;
	for (size_t i = 0; i < typed.len; i++) {
		if (name[i] != (typed.ptr[i] == '_' ? '-' : typed.ptr[i]))
			return false;
	}
	return true;
}

static const struct flag *
find_flag(struct str name)
{
	for (size_t g = 0; g < ARRAY_LEN(groups); g++) {
		for (size_t i = 0; i < groups[g].n; i++) {
			if (name_matches(groups[g].flags[i].name, name))
				return &groups[g].flags[i];
		}
	}
	return NULL;
}

static void
set_defaults(struct options *o)
{
	*o = (struct options){ 0 };
	for (size_t g = 0; g < ARRAY_LEN(groups); g++) {
		for (size_t i = 0; i < groups[g].n; i++) {
			const struct flag *flag = &groups[g].flags[i];

			if (flag->fallback && flag->kind < FLAG_NO_EFFECT_TEXT)
				set_value(flag, flag->fallback, o);
		}
	}
}

static void
print_help(struct buf *out)
{
	buf_add_c(out,
	          "ccmd is a cloud-controller-manager for Kubernetes.\n\nUsage:\n  ccmd [flags]\n");
	for (size_t g = 0; g < ARRAY_LEN(groups); g++) {
		if (!groups[g].name)
			continue;
		buf_addf(out, "\n%s flags:\n\n", groups[g].name);
		for (size_t i = 0; i < groups[g].n; i++) {
			const struct flag *flag = &groups[g].flags[i];

			buf_addf(out, "  %s%s\n        %s", strlen(flag->name) == 1 ? "-" : "--",
			         flag->name, flag->help);
			if (flag->fallback && flag->fallback[0])
				buf_addf(out, " (default %s)", flag->fallback);
			buf_add_char(out, '\n');
		}
	}
	buf_add_c(out, "\nClouds:\n\n  ");
	cloud_list(out);
	buf_add_char(out, '\n');
}

/* ---- the command line ---- */

struct reader {
	int argc;
	char *const *argv;
	int next;
	struct options *options;
	struct buf *out, *problems, *notes;
	bool is_done;
};

static bool
is_boolean(const struct flag *flag)
{
	return flag->kind == FLAG_BOOL || flag->kind == FLAG_NO_EFFECT_BOOL ||
	       flag->kind == FLAG_HELP || flag->kind == FLAG_VERSION;
}

static void
apply(struct reader *r, const struct flag *flag, const char *value)
{
	const char *dashes = strlen(flag->name) == 1 ? "-" : "--";

	if (flag->kind == FLAG_HELP) {
		print_help(r->out);
		r->is_done = true;
	} else if (flag->kind == FLAG_VERSION) {
		buf_add_c(r->out, strcmp(value, "raw") == 0
		                          ? "ccmd version.Info{GitVersion:\"v" CCMD_VERSION "\"}\n"
		                          : "ccmd v" CCMD_VERSION "\n");
		r->is_done = true;
	} else if (!set_value(flag, value, r->options)) {
		buf_addf(r->problems, "invalid argument \"%s\" for \"%s%s\": want %s\n", value,
		         dashes, flag->name, expected(flag->kind));
	} else if (flag->kind == FLAG_NO_EFFECT_BOOL || flag->kind == FLAG_NO_EFFECT_TEXT) {
		buf_addf(r->notes, "%s%s\n", dashes, flag->name);
	}
}

/* One flag without its dashes: "name", "name=value"; the value may be the next argument. */
static void
read_flag(struct reader *r, const char *dashes, struct str text)
{
	struct str name = text, value;
	bool has_value = str_cut(text, '=', &name, &value);
	const struct flag *flag = find_flag(name);

	if (!flag)
		buf_addf(r->problems, "unknown flag: %s%" STR_FMT "\n", dashes, STR_ARG(name));
	else if (has_value)
		apply(r, flag, value.ptr); /* to the end of the argument */
	else if (is_boolean(flag))
		apply(r, flag, "true");
	else if (r->next < r->argc)
		apply(r, flag, r->argv[r->next++]);
	else
		buf_addf(r->problems, "flag needs an argument: %s%s\n", dashes, flag->name);
}

static void
read_argument(struct reader *r, const char *arg)
{
	struct str text = str_c(arg);

	if (str_starts(text, STR("--")) && text.len > 2)
		read_flag(r, "--", str_skip(text, 2));
	else if (str_eq_c(text, "-h"))
		read_flag(r, "-", STR("help"));
	else if (str_starts(text, STR("-v")) && text.len > 2 && text.ptr[2] >= '0' &&
	         text.ptr[2] <= '9')
		apply(r, find_flag(STR("v")), arg + 2); /* -v4 */
	else if (str_starts(text, STR("-v")))
		read_flag(r, "-", str_skip(text, 1));
	else if (str_starts(text, STR("-")) && text.len > 1)
		buf_addf(r->problems, "unknown flag: %s\n", arg);
	else
		buf_addf(r->problems, "ccmd takes no arguments, got \"%s\"\n", arg);
}

static void
validate(const struct options *o, struct buf *problems)
{
	CLEANUP(buf_fini) struct buf names = BUF_INIT(KIB(1));

	cloud_list(&names);
	if (o->cloud_provider[0] == '\0')
		buf_addf(problems, "--cloud-provider cannot be empty (one of: %s)\n", names.ptr);
	else if (!cloud_find(str_c(o->cloud_provider)))
		buf_addf(problems, "unknown cloud provider \"%s\" (one of: %s)\n",
		         o->cloud_provider, names.ptr);
}

enum flags_outcome
flags_parse(int argc, char *const argv[], struct options *ret, struct buf *out,
            struct buf *problems, struct buf *notes)
{
	struct reader r = { .argc = argc, .argv = argv, .next = 1, .options = ret };

	r.out = out;
	r.problems = problems;
	r.notes = notes;
	set_defaults(ret);
	while (r.next < argc && !r.is_done)
		read_argument(&r, argv[r.next++]);
	if (r.is_done)
		return FLAGS_DONE;
	validate(ret, problems);
	return problems->len > 0 ? FLAGS_BAD : FLAGS_RUN;
}
