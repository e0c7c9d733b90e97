/* operator/command.c: see command.h. */
#include "operator/command.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/names.h"
#include "base/sandbox.h"
#include "base/version.h"
#include "flags/controllers.h"
#include "flags/flags.h"
#include "operator/doctor.h"
#include "operator/plan.h"
#include "operator/progress.h"
#include "operator/running.h"
#include "operator/status.h"

#define PLUGIN "kubectl-ccmd"
#define NO_FLAGS                                                                                            \
	"No controller runs here, neither as process 1 nor as the unit ccmd.service, so the flags of the\n" \
	"controller have to be given to this command.\n"
#define WATCH_PAUSE_NS (2 * NS_PER_SEC)
#define CLEAR_SCREEN "\033[H\033[2J" /* ECMA-48: to the top, then erase */

struct command {
	const char *name, *summary;
	const char *own_flags; /* for its help: lines of text */
	const char *details;   /* for its help */
	bool has_json, has_all, has_watch, has_account;
	bool has_object;                             /* "node NAME" and so on; --url, --ca */
	bool has_scope;                              /* "nodes" and so on */
	int (*run)(const struct command_line *line); /* NULL: help */
};

/* ---- running: what all commands share ---- */

/* The options of the controller, and what flags_parse() reports about them. */
struct parsed {
	struct options options;
	struct buf out, problems, notes, warnings;
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

/* The code that commands share with the controller logs its progress, which would disturb the
 * output: -v shows the log. */
static void
set_up_log(const struct options *o)
{
	log_setup(o->log_format, (int)o->verbosity);
	if (o->verbosity == 0)
		log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
}

static bool
parse_options(const struct command_line *line, struct parsed *ret)
{
	if (flags_parse(line->argc, line->argv, &ret->options, &ret->out, &ret->problems,
	                &ret->notes, &ret->warnings) != FLAGS_RUN) {
		(void)!fd_write_all(STDERR_FILENO, buf_str(&ret->problems));
		(void)!fd_write_all(STDOUT_FILENO, buf_str(&ret->out));
		if (ret->problems.len > 0 && !line->has_cloud)
			(void)!fd_write_all(STDERR_FILENO, STR(NO_FLAGS));
		return false;
	}
	version_set(ret->options.version);
	sandbox_no_cores();
	set_up_log(&ret->options);
	view_restrict(cloud_find(str_c(ret->options.cloud_provider)));
	return true;
}

/* https://no-color.org: any value but the empty one switches colours off. */
static bool
has_colours(void)
{
	const char *off = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(off && off[0]) && !(term && strcmp(term, "dumb") == 0);
}

static int
run_doctor(const struct command_line *line)
{
	CLEANUP(parsed_fini) struct parsed parsed = PARSED_INIT;
	CLEANUP(report_fini) struct report report = REPORT_INIT;
	CLEANUP(buf_fini) struct buf out = BUF_INIT(LIMIT_REPORT);
	CLEANUP(view_freep) struct view *view = NULL;
	struct doctor doctor;

	if (!parse_options(line, &parsed))
		return EXIT_NOT_KNOWN;
	view = view_new(&parsed.options);
	doctor = (struct doctor){ .view = view,
		                  .flag_notes = buf_str(&parsed.notes),
		                  .flag_warnings = buf_str(&parsed.warnings),
		                  .service_account = line->service_account };
	doctor_run(&doctor, &report);
	if (line->is_json)
		report_print_json(&report, &out);
	else
		report_print(&report, has_colours(), line->is_all, &out);
	if (!fd_write_all(STDOUT_FILENO, buf_str(&out)))
		return EXIT_NOT_KNOWN;
	return report_exit_code(&report);
}

/* *totals: of the reading before; zeros: this is the first one. False: the output cannot be
 * written.
 */
static bool
print_status(const struct command_line *line, const struct options *options,
             struct status_totals *totals, int *ret_code)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT(LIMIT_REPORT);
	CLEANUP(view_freep) struct view *view = view_new(options);
	const struct status_totals before = *totals;
	struct status status;

	status_read(view, &status);
	if (totals->start > 0)
		status.totals_before = &before;
	*totals = status.totals;
	if (line->is_watch && !line->is_json && isatty(STDOUT_FILENO))
		buf_add_c(&out, CLEAR_SCREEN);
	if (line->is_json)
		status_print_json(&status, &out);
	else
		status_print(&status, &out);
	*ret_code = status_exit_code(&status);
	return fd_write_all(STDOUT_FILENO, buf_str(&out));
}

/* --watch goes on until a signal ends the process, or nobody reads its output any more. */
static int
run_status(const struct command_line *line)
{
	CLEANUP(parsed_fini) struct parsed parsed = PARSED_INIT;
	struct status_totals totals = { 0 };
	struct error ignored;
	int code = EXIT_NOT_KNOWN;

	if (!parse_options(line, &parsed))
		return EXIT_NOT_KNOWN;
	while (print_status(line, &parsed.options, &totals, &code) && line->is_watch)
		(void)!cancel_sleep(NULL, &clock_real, WATCH_PAUSE_NS, &ignored);
	return code;
}

static int
run_explain(const struct command_line *line)
{
	CLEANUP(parsed_fini) struct parsed parsed = PARSED_INIT;
	CLEANUP(buf_fini) struct buf out = BUF_INIT(LIMIT_REPORT);
	CLEANUP(view_freep) struct view *view = NULL;
	CLEANUP(explanation_fini) struct explanation explanation = { 0 };

	if (!parse_options(line, &parsed))
		return EXIT_NOT_KNOWN;
	view = view_new(&parsed.options);
	explain_read(view, &line->object, &line->leader, &explanation);
	if (line->is_json)
		explain_print_json(&explanation, &out);
	else
		explain_print(&explanation, has_colours(), &out);
	if (!fd_write_all(STDOUT_FILENO, buf_str(&out)))
		return EXIT_NOT_KNOWN;
	return explain_exit_code(&explanation);
}

static int
run_plan(const struct command_line *line)
{
	CLEANUP(parsed_fini) struct parsed parsed = PARSED_INIT;
	CLEANUP(plan_freep) struct plan *plan = plan_new();
	CLEANUP(buf_fini) struct buf out = BUF_INIT(LIMIT_REPORT);
	CLEANUP(view_freep) struct view *view = NULL;

	if (!parse_options(line, &parsed))
		return EXIT_NOT_KNOWN;
	controllers_choose_numbers(&parsed.options);
	view = view_new(&parsed.options);
	plan_run(plan, view, line->scope);
	if (line->is_json)
		plan_print_json(plan, &out);
	else
		plan_print(plan, has_colours(), clock_wall(&clock_real), &out);
	if (!fd_write_all(STDOUT_FILENO, buf_str(&out)))
		return EXIT_NOT_KNOWN;
	return plan_exit_code(plan);
}

/* ---- the table ---- */

static const struct command commands[] = {
	{ "doctor", "says what is wrong, why it matters, and how to fix it",
	  "      --all             also show checks that do not apply, and all findings of each check\n"
	  "      --as-service-account NAMESPACE/NAME\n"
	  "                        check the rights of this account instead of those of the credentials\n"
	  "  -o, --output json     print JSON (docs/doctor.md)\n",
	  "Checks the API server, the rights, the leader election, the cloud, the nodes, the Services and the\n"
	  "configuration, and changes nothing.",
	  .has_json = true, .has_all = true, .has_account = true, .run = run_doctor },
	{ "explain", "explains one node, Service or route",
	  "ccmd explain node NAME\n"
	  "ccmd explain service NAMESPACE/NAME\n"
	  "ccmd explain route CIDR\n"
	  "\n"
	  "      --url URL         ask the leader at this address (https://HOST:PORT of its --secure-port)\n"
	  "                        instead of the process on this machine\n"
	  "      --ca FILE         the authorities that have signed the certificate of that server\n"
	  "  -o, --output json     print JSON (docs/explain.md)\n",
	  "Says what the object is to ccmd, in which state it is and since when, what ccmd waits for, and what\n"
	  "happens next. Compares the cluster with the cloud, lists the events, and changes nothing.",
	  .has_json = true, .has_object = true, .run = run_explain },
	{ "plan", "shows what the controllers would change now",
	  "ccmd plan [nodes|services|routes|all]\n"
	  "\n"
	  "  -o, --output json     print JSON (docs/plan.md)\n",
	  "Runs the controllers of these objects, of all if none are named, without making any change, and\n"
	  "prints what they would have changed.",
	  .has_json = true, .has_scope = true, .run = run_plan },
	{ "status", "shows who leads and how this machine's process is doing",
	  "      --watch           print it every two seconds, until Ctrl-C\n"
	  "  -o, --output json     print JSON (docs/operating.md)\n",
	  "Reads the Lease, and the health and the metrics of the process on this machine, and changes nothing.",
	  .has_json = true, .has_watch = true, .run = run_status },
	{ "help", "shows this list, or the help of a command", "", "", .run = NULL },
};

static const struct command *
find_command(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (str_eq_c(name, commands[i].name))
			return &commands[i];
	}
	return NULL;
}

/* ---- help ---- */

static void
add_list(struct buf *out)
{
	buf_add_c(out, "ccmd --cloud-provider=NAME [FLAG...]   runs the controller\n");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		buf_addf(out, "ccmd %-34s%s\n", commands[i].name, commands[i].summary);
	buf_add_c(
		out,
		"\n"
		"Commands take the flags, the environment and the configuration of the controller, and change\n"
		"nothing. Exit codes: 0 nothing to do, 1 something to do, 2 it could not find out.\n"
		"\n"
		"ccmd COMMAND --help   shows the flags of a command\n"
		"ccmd --help           shows the flags of the controller\n");
}

bool
command_help(struct str topic, struct buf *out)
{
	const struct command *command = find_command(topic);

	if (topic.len == 0 || (command && !command->run)) {
		add_list(out);
		return true;
	}
	if (!command)
		return false;
	buf_addf(out, "ccmd %s [FLAG...]   %s\n\n%s\n\n", command->name, command->summary,
	         command->details);
	buf_addf(out, "%s  -h, --help            show this text\n\n", command->own_flags);
	buf_add_c(
		out,
		"All flags of the controller may be given as well; ccmd --help shows them. Without --cloud-provider,\n"
		"the command takes the flags of the controller that runs as process 1 (in its container) or as the\n"
		"unit ccmd.service; flags that are given as well replace those.\n");
	return true;
}

void
command_list(struct buf *out)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		buf_addf(out, "%s%s", i > 0 ? " " : "", commands[i].name);
}

static void
add_word(struct buf *out, struct str word)
{
	if (out->len > 0)
		buf_add_char(out, ' ');
	buf_addf(out, "%" STR_FMT, STR_ARG(word));
}

/* "[nodes|services]" -> "nodes services" */
static void
add_operands(struct str word, struct buf *out)
{
	struct str one;

	if (str_starts(word, STR("[")))
		word = str_n(word.ptr + 1, word.len - 2);
	while (str_split(&word, '|', &one))
		add_word(out, one);
}

/* "-o, --output json     print JSON": a value follows its flag after one blank. */
static void
add_flag(struct str line, struct buf *out)
{
	struct str flag, rest;

	if (!str_starts(line, STR("--")))
		line = str_skip(line, strlen("-o, "));
	if (!str_cut(line, ' ', &flag, &rest)) /* the text is on the next line */
		flag = line;
	add_word(out, flag);
	if (flag.len < line.len && !str_starts(rest, STR(" ")))
		buf_add_char(out, '=');
}

bool
command_words(size_t i, struct command_words *ret)
{
	CLEANUP(buf_fini) struct buf usage = BUF_INIT(KIB(1));
	struct str rest, word;

	if (i >= ARRAY_LEN(commands))
		return false;
	*ret = (struct command_words){ commands[i].name, BUF_INIT(KIB(4)), BUF_INIT(KIB(4)) };
	buf_addf(&usage, "ccmd %s ", commands[i].name);
	rest = str_c(commands[i].own_flags);
	for (struct str line; str_split(&rest, '\n', &line);) {
		if (str_starts(line, buf_str(&usage))) {
			line = str_skip(line, usage.len);
			if (str_split(&line, ' ', &word))
				add_operands(word, &ret->operands);
		} else if (str_starts(str_trim(line), STR("-"))) {
			add_flag(str_trim(line), &ret->flags);
		}
	}
	return true;
}

void
command_words_fini(struct command_words *words)
{
	buf_fini(&words->flags);
	buf_fini(&words->operands);
}

static int
run_help(const struct command_line *line)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT(KIB(64));

	if (command_help(line->topic, &out)) {
		(void)!fd_write_all(STDOUT_FILENO, buf_str(&out));
		return EXIT_NOTHING_TO_DO;
	}
	buf_addf(&out, "ccmd has no command \"%" STR_FMT "\"; ccmd help lists them\n",
	         STR_ARG(line->topic));
	(void)!fd_write_all(STDERR_FILENO, buf_str(&out));
	return EXIT_NOT_KNOWN;
}

/* ---- the command line ---- */

static bool
is_plugin(const char *program)
{
	const char *slash = strrchr(program, '/');

	return strcmp(slash ? slash + 1 : program, PLUGIN) == 0;
}

bool
command_is_given(int argc, char *const argv[])
{
	return argc > 0 && (is_plugin(argv[0]) || (argc > 1 && find_command(str_c(argv[1]))));
}

/* The value of a flag, from the argument at *at or from the next one; NULL: that argument is
 * another flag. */
static const char *
flag_value(int argc, char *const argv[], int *at, const char *name)
{
	struct str arg = str_c(argv[*at]), flag, value;

	if (str_eq_c(arg, name))
		return *at + 1 < argc ? argv[++*at] : "";
	if (str_cut(arg, '=', &flag, &value) && str_eq_c(flag, name))
		return value.ptr;
	return NULL;
}

static void
set_output(struct command_line *line, const char *value, struct buf *problems)
{
	if (strcmp(value, "json") == 0 && line->command->has_json)
		line->is_json = true;
	else if (strcmp(value, "text") != 0)
		buf_addf(problems, "ccmd %s: --output is \"%s\" instead of text%s\n",
		         line->command->name, value, line->command->has_json ? " or json" : "");
}

static void
set_account(struct command_line *line, const char *value, struct buf *problems)
{
	struct str namespace, name;

	if (str_cut(str_c(value), '/', &namespace, &name) && name_is_dns_label(namespace) &&
	    name_is_dns_subdomain(name))
		line->service_account = value;
	else
		buf_addf(problems,
		         "ccmd %s: --as-service-account is \"%s\" instead of NAMESPACE/NAME\n",
		         line->command->name, value);
}

/* "node NAME", "service NAMESPACE/NAME" or "route CIDR" */
static void
set_object(struct command_line *line, struct buf *problems)
{
	static const char *const kinds[][2] = { { "node", "nodes" },
		                                { "service", "services" },
		                                { "route", "routes" } };

	for (size_t i = 0; i < ARRAY_LEN(kinds) && line->n_words == 2; i++) {
		struct str path = arena_printf(line->arena, "%s/%s", kinds[i][1], line->words[1]);

		if (strcmp(line->words[0], kinds[i][0]) == 0 &&
		    described_parse(path, &line->object))
			return;
	}
	buf_addf(problems,
	         "ccmd %s: expected one of: node NAME, service NAMESPACE/NAME, route CIDR\n",
	         line->command->name);
}

static bool
is_help(const char *arg)
{
	return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

static bool
take_value(const char **ret, int argc, char *const argv[], int *at, const char *name)
{
	const char *value = flag_value(argc, argv, at, name);

	if (value)
		*ret = value;
	return value != NULL;
}

/* Takes the argument at *at if it is one of the command's own. */
static bool
take_own(struct command_line *line, int argc, char *const argv[], int *at, struct buf *problems)
{
	struct str arg = str_c(argv[*at]);
	const char *output = flag_value(argc, argv, at, "-o"), *account = NULL;
	bool has_object = line->command->has_object;

	if (!output)
		output = flag_value(argc, argv, at, "--output");
	if (line->command->has_account)
		account = flag_value(argc, argv, at, "--as-service-account");
	if (output)
		set_output(line, output, problems);
	else if (has_object && take_value(&line->leader.url, argc, argv, at, "--url"))
		return true;
	else if (has_object && take_value(&line->leader.ca_file, argc, argv, at, "--ca"))
		return true;
	else if (account)
		set_account(line, account, problems);
	else if (is_help(argv[*at]))
		line->wants_help = true;
	else if (str_eq_c(arg, "--all") && line->command->has_all)
		line->is_all = true;
	else if (str_eq_c(arg, "--watch") && line->command->has_watch)
		line->is_watch = true;
	else
		return false;
	return true;
}

/* kubectl does not pass its kubeconfig to plugins, so it is searched for in the same places:
 * $KUBECONFIG, which must name one file here, else the home folder. */
static void
add_kubeconfig(struct command_line *line)
{
	const char *path = getenv("KUBECONFIG"), *home = getenv("HOME");
	struct str text;

	for (int i = 1; i < line->argc; i++) {
		if (str_starts(str_c(line->argv[i]), STR("--kubeconfig")) ||
		    str_starts(str_c(line->argv[i]), STR("--master")))
			return;
	}
	if (path && path[0])
		text = arena_printf(line->arena, "--kubeconfig=%s", path);
	else if (home && home[0])
		text = arena_printf(line->arena, "--kubeconfig=%s/.kube/config", home);
	else
		return;
	line->argv[line->argc++] = arena_strz(line->arena, text);
}

static bool
names_cloud(int argc, char *const argv[])
{
	for (int i = 1; i < argc; i++) {
		if (str_starts(str_c(argv[i]), STR("--cloud-provider")) ||
		    str_starts(str_c(argv[i]), STR("--cloud_provider")))
			return true;
	}
	return false;
}

void
command_use_running(struct command_line *line, const struct running *running)
{
	int n_own = line->argc - 1;
	char **argv = arena_calloc(line->arena, (size_t)(running->argc + n_own) + 1,
	                           sizeof(argv[0]));

	/* the last one of two equal flags counts */
	argv[0] = line->argv[0];
	for (int i = 1; i < running->argc; i++)
		argv[i] = running->argv[i];
	for (int i = 0; i < n_own; i++)
		argv[running->argc + i] = line->argv[1 + i];
	line->argv = argv;
	line->argc = running->argc + n_own;
	line->has_cloud = names_cloud(line->argc, line->argv);
	running_import(running, line->arena);
}

static void
set_scope(struct command_line *line, const char *word, struct buf *problems)
{
	if (!plan_parse_scope(str_c(word), &line->scope))
		buf_addf(problems,
		         "ccmd plan: \"%s\" is neither nodes nor services nor routes nor all\n",
		         word);
}

static void
parse_rest(struct command_line *line, int argc, char *const argv[], struct buf *problems)
{
	for (int i = 2; i < argc; i++) {
		if (!line->command->run && line->topic.len == 0 && argv[i][0] != '-')
			line->topic = str_c(argv[i]);
		else if (line->command->has_object && i == 2 + line->n_words && line->n_words < 2 &&
		         argv[i][0] != '-')
			line->words[line->n_words++] = argv[i];
		else if (line->command->has_scope && i == 2 && argv[i][0] != '-')
			set_scope(line, argv[i], problems);
		else if (!take_own(line, argc, argv, &i, problems))
			line->argv[line->argc++] = argv[i];
	}
	if (line->command->has_object && !line->wants_help)
		set_object(line, problems);
	if (line->is_plugin)
		add_kubeconfig(line);
	line->has_cloud = names_cloud(line->argc, line->argv);
}

bool
command_parse(int argc, char *const argv[], struct arena *arena, struct command_line *ret,
              struct buf *problems)
{
	const char *name = argc > 1 && !is_help(argv[1]) ? argv[1] : "help";

	*ret = (struct command_line){
		.arena = arena, .is_plugin = is_plugin(argv[0]), .scope = PLAN_ALL, .argc = 1
	};
	ret->argv = arena_calloc(arena, (size_t)argc + 2, sizeof(ret->argv[0]));
	ret->argv[0] = argv[0];
	ret->command = find_command(str_c(name));
	if (ret->command)
		parse_rest(ret, argc, argv, problems);
	else
		buf_addf(problems, "ccmd has no command \"%s\"; ccmd help lists them\n", name);
	return problems->len == 0;
}

int
command_main(int argc, char *const argv[])
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(buf_fini) struct buf problems = BUF_INIT(KIB(64));
	struct command_line line;
	struct running running;
	int code;

	if (!command_parse(argc, argv, &arena, &line, &problems)) {
		(void)!fd_write_all(STDERR_FILENO, buf_str(&problems));
		return EXIT_NOT_KNOWN;
	}
	if (line.command->run && !line.wants_help) {
		if (!line.has_cloud && !line.is_plugin &&
		    running_find(RUNNING_PROC, RUNNING_GROUP, &arena, &running))
			command_use_running(&line, &running);
		if (!line.is_watch)
			progress_start();
		code = line.command->run(&line);
		progress_stop();
		return code;
	}
	if (line.command->run)
		line.topic = str_c(line.command->name);
	return run_help(&line);
}
