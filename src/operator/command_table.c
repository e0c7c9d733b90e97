/* operator/command_table.c: the table of the commands, and what each of them runs. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/names.h"
#include "base/sandbox.h"
#include "base/version.h"
#include "flags/controllers.h"
#include "flags/flags.h"
#include "operator/bundle.h"
#include "operator/command.h"
#include "operator/doctor.h"
#include "operator/plan.h"
#include "operator/status.h"

#define NO_FLAGS                                                                                            \
	"No controller runs here, neither as process 1 nor as the unit ccmd.service, so the flags of the\n" \
	"controller have to be given to this command.\n"
#define WATCH_PAUSE_NS (2 * NS_PER_SEC)
#define CLEAR_SCREEN "\033[H\033[2J" /* ECMA-48: to the top, then erase */

/* ---- running: what they share ---- */

/* The options of the controller, and what flags_parse() reports about them. */
struct parsed {
	struct options options;
	struct buf out, problems, notes, warnings;
	struct status_totals totals; /* of the turn before; zeros: this is the first one */
};

static void
parsed_fini(struct parsed *p)
{
	options_fini(&p->options);
	buf_fini(&p->out);
	buf_fini(&p->problems);
	buf_fini(&p->notes);
	buf_fini(&p->warnings);
}

#define PARSED_INIT                                      \
	((struct parsed){ .out = BUF_INIT(KIB(64)),      \
	                  .problems = BUF_INIT(KIB(64)), \
	                  .notes = BUF_INIT(KIB(64)),    \
	                  .warnings = BUF_INIT(KIB(64)) })

/* Beside other problems, such as a misspelt flag, the explanation of this one would distract. */
static bool
is_only_cloud_missing(const struct command_line *line, const struct buf *problems)
{
	return !line->has_cloud && str_starts(buf_str(problems), STR("--cloud-provider ")) &&
	       strchr(problems->ptr, '\n') == problems->ptr + problems->len - 1;
}

/* Parses the flags of the controller, and prepares the process for them. */
static bool
parse_options(const struct command_line *line, struct parsed *ret)
{
	struct options *o = &ret->options;

	if (flags_parse(line->argc, line->argv, o, &ret->out, &ret->problems, &ret->notes,
	                &ret->warnings) != FLAGS_RUN) {
		(void)!fd_write_all(STDERR_FILENO, buf_str(&ret->problems));
		(void)!fd_print(buf_str(&ret->out));
		if (is_only_cloud_missing(line, &ret->problems))
			(void)!fd_write_all(STDERR_FILENO, STR(NO_FLAGS));
		return false;
	}
	o->kubeconfig_is_list = line->kubeconfig_is_list;
	version_set(o->version);

	/* The code that commands share with the controller logs its progress, which would disturb
	 * the output: -v shows the log. */
	log_setup(o->log_format, (int)o->verbosity);
	if (o->verbosity == 0)
		log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));

	view_restrict(cloud_find(str_c(o->cloud_provider)));
	return true;
}

/* https://no-color.org: any value but the empty one switches colours off. */
static bool
has_colours(void)
{
	const char *off = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(off && off[0]) && !(term && strcmp(term, "dumb") == 0);
}

static bool
wants_json(const struct command_line *line)
{
	return line->output && strcmp(line->output, "json") == 0;
}

/* One turn of a command: reads, prints into out, and returns the exit code. */
static bool
run_turn(const struct command_line *line, struct parsed *parsed, int *ret_code)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT(LIMIT_REPORT);
	CLEANUP(view_freep) struct view *view = view_new(&parsed->options);

	view->ask = line->leader;
	*ret_code = line->command->run(line, parsed, view, &out);
	return fd_print(buf_str(&out));
}

/* --watch goes on until a signal ends the process, or nobody reads its output any more. */
int
command_run(const struct command_line *line)
{
	CLEANUP(parsed_fini) struct parsed parsed = PARSED_INIT;
	struct error ignored;
	int code;

	if (!parse_options(line, &parsed))
		return EXIT_NOT_KNOWN;
	while (run_turn(line, &parsed, &code)) {
		if (!line->is_watch)
			return code;
		(void)!cancel_sleep(NULL, &clock_real, WATCH_PAUSE_NS, &ignored);
	}
	return line->is_watch ? code : EXIT_NOT_KNOWN;
}

/* ---- running: each of them ---- */

static int
run_doctor(const struct command_line *line, struct parsed *parsed, struct view *view,
           struct buf *out)
{
	CLEANUP(report_fini) struct report report = REPORT_INIT;
	struct error err;
	struct doctor doctor = { .view = view,
		                 .flag_notes = buf_str(&parsed->notes),
		                 .flag_warnings = buf_str(&parsed->warnings),
		                 .service_account = line->service_account,
		                 .argv = line->argv,
		                 .argc = line->argc };

	view_confine(view, /*cloud=*/NULL);
	doctor_run(&doctor, &report);
	if (wants_json(line))
		report_print_json(&report, view, out);
	else
		report_print(&report, has_colours(), line->is_all, help_width(STDOUT_FILENO), out);
	if (!line->bundle)
		return report_exit_code(&report);
	controllers_choose_numbers(&parsed->options);
	if (!bundle_write(line->bundle, &doctor, &report, &line->journal, &err)) {
		(void)dprintf(STDERR_FILENO, "ccmd doctor: --bundle: %s\n", err.msg);
		return EXIT_NOT_KNOWN;
	}
	(void)dprintf(
		STDERR_FILENO,
		"ccmd doctor: wrote %s; read it before you send it: it names your nodes, Services and addresses\n",
		line->bundle);
	return report_exit_code(&report);
}

static int
run_status(const struct command_line *line, struct parsed *parsed, struct view *view,
           struct buf *out)
{
	const struct status_totals before = parsed->totals;
	struct status status;

	/* with --watch, the filter has been there since the first reading */
	view_confine(view, /*cloud=*/NULL);
	status_read(view, &status);
	if (before.start > 0)
		status.totals_before = &before;
	parsed->totals = status.totals;
	if (line->is_watch && !wants_json(line) && isatty(STDOUT_FILENO))
		buf_add_c(out, CLEAR_SCREEN);
	if (wants_json(line))
		status_print_json(&status, out);
	else
		status_print(&status, out);
	return status_exit_code(&status);
}

static int
run_explain(const struct command_line *line, struct parsed *parsed, struct view *view,
            struct buf *out)
{
	CLEANUP(explanation_fini) struct explanation explanation = { 0 };

	(void)parsed;
	view->ask.what = &line->object;
	view_confine(view, /*cloud=*/NULL);
	explain_read(view, &line->object, &explanation);
	if (wants_json(line))
		explain_print_json(&explanation, out);
	else
		explain_print(&explanation, has_colours(), help_width(STDOUT_FILENO), out);
	return explain_exit_code(&explanation);
}

static int
run_plan(const struct command_line *line, struct parsed *parsed, struct view *view, struct buf *out)
{
	CLEANUP(plan_freep) struct plan *plan = plan_new();

	controllers_choose_numbers(&parsed->options);
	plan_run(plan, view, line->scope);
	if (wants_json(line))
		plan_print_json(plan, out);
	else
		plan_print(plan, has_colours(), clock_wall(&clock_real), out);
	return plan_exit_code(plan);
}

/* ---- the table ---- */

#define AT(field) offsetof(struct command_line, field)
#define OUTPUT                   \
	{ .name = "--output",    \
	  .letter = "-o",        \
	  .value = "json",       \
	  .choices = outputs,    \
	  .help = "Print JSON.", \
	  .offset = AT(output) }

static const char *const outputs[] = { "text", "json", NULL };

static bool
is_account(const char *value)
{
	struct str namespace, name;

	return str_cut(str_c(value), '/', &namespace, &name) && name_is_dns_label(namespace) &&
	       name_is_dns_subdomain(name);
}

static bool
is_label(const char *value)
{
	return name_is_dns_label(str_c(value));
}

/* Where the leader is asked. */
#define LEADER_FLAGS                                                                              \
	{ .name = "--url",                                                                        \
	  .value = "URL",                                                                         \
	  .help = "Ask the leader at this address (https://HOST:PORT of its --secure-port)\n"     \
		  "instead of the process on this machine.",                                      \
	  .offset = AT(leader.url) },                                                             \
	{                                                                                         \
		.name = "--ca", .value = "FILE",                                                  \
		.help = "PEM file of the authorities that have signed the leader's certificate.", \
		.offset = AT(leader.ca_file)                                                      \
	}

static const struct command_flag doctor_flags[] = {
	{ .name = "--all",
	  .help = "Show all checks, also those that are ok or do not apply, and all findings of each.",
	  .offset = AT(is_all) },
	{ .name = "--as-service-account",
	  .value = "NAMESPACE/NAME",
	  .is_valid = is_account,
	  .help = "Check the rights of this account instead of those of the credentials.",
	  .offset = AT(service_account) },
	{ .name = "--bundle",
	  .value = "FILE",
	  .help = "Also write the reports of all commands, without secrets, into this file, for a bug\n"
	          "report.",
	  .offset = AT(bundle) },
	LEADER_FLAGS,
	OUTPUT,
	{ 0 },
};

static const struct command_flag explain_flags[] = {
	{ .name = "--namespace",
	  .letter = "-n",
	  .value = "NAMESPACE",
	  .is_valid = is_label,
	  .help = "The namespace of the Service, if its name has none (default: default).",
	  .offset = AT(namespace) },
	LEADER_FLAGS,
	OUTPUT,
	{ 0 },
};

static const struct command_operand explain_operands[] = {
	{ "node", "NAME", { "nodes", "no" } },
	{ "service", "[NAMESPACE/]NAME", { "services", "svc" } },
	{ "route", "CIDR", { "routes" } },
	{ 0 },
};

static bool
set_object(struct command_line *line, const char *word, struct str value)
{
	bool is_service = strcmp(word, "service") == 0;
	struct str path = arena_printf(line->arena, "%ss/%" STR_FMT, word, STR_ARG(value));

	if (is_service && !memchr(value.ptr, '/', value.len))
		path = arena_printf(line->arena, "services/%s/%" STR_FMT,
		                    line->namespace ? line->namespace : "default", STR_ARG(value));
	return described_parse(path, &line->object);
}

static const struct command_flag plan_flags[] = { LEADER_FLAGS, OUTPUT, { 0 } };

static const struct command_operand plan_operands[] = {
	{ "nodes", NULL, { "node", "no" } },
	{ "services", NULL, { "service", "svc" } },
	{ "routes", NULL, { "route" } },
	{ "all", NULL, { NULL } },
	{ 0 },
};

static bool
set_scope(struct command_line *line, const char *word, struct str value)
{
	(void)value;
	return plan_parse_scope(str_c(word), &line->scope);
}

static const struct command_flag status_flags[] = {
	{ .name = "--watch",
	  .help = "Print it every two seconds, until Ctrl-C.",
	  .offset = AT(is_watch) },
	OUTPUT,
	{ 0 },
};

static const struct command_flag no_flags[] = { { 0 } };

const struct command commands[] = {
	{ "doctor", "says what is wrong, why it matters, and how to fix it",
	  "Checks the API server, the rights, the leader election, the cloud, the nodes, the Services and the\n"
	  "configuration, and changes nothing. The documentation has a section for each code, such as CCMD041.",
	  .flags = doctor_flags, .run = run_doctor },
	{ "explain", "explains one node, Service or route",
	  "Says whether ccmd handles the object, its state and since when, what ccmd waits for, and what happens\n"
	  "next. Compares the cluster with the cloud, lists the events, and changes nothing.",
	  .flags = explain_flags, .operands = explain_operands, .needs_operand = true,
	  .set_operand = set_object, .run = run_explain },
	{ "plan", "shows what the controllers would change now",
	  "Runs the controllers of the named objects (default: all) without making any change, and prints what\n"
	  "they would have changed.",
	  .flags = plan_flags, .operands = plan_operands, .set_operand = set_scope,
	  .run = run_plan },
	{ "status", "shows the leader and the state of this machine's process",
	  "Reads the Lease, and the health and the metrics of the process on this machine, and changes nothing.",
	  .flags = status_flags, .run = run_status },
	{ "help", "shows this list, or the help of a command",
	  "Shows the list of commands, or the help of the command that is named.",
	  .flags = no_flags },
};
const size_t n_commands = ARRAY_LEN(commands);
