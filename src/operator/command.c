/* operator/command.c: see command.h. */
#include "operator/command.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/sandbox.h"
#include "base/words.h"
#include "flags/flags.h"
#include "operator/plan.h"
#include "operator/progress.h"
#include "operator/running.h"
#include "operator/workload.h"

#define PLUGIN "kubectl-ccmd"
#define HELP_COLUMN 24 /* where the texts of flags begin */

static const struct command *
find_command(struct str name)
{
	for (size_t i = 0; i < n_commands; i++) {
		if (str_eq_c(name, commands[i].name))
			return &commands[i];
	}
	return NULL;
}

static void
refuse_command(const char *name, struct buf *problems)
{
	struct nearest nearest = nearest_to(str_c(name));

	for (size_t i = 0; i < n_commands; i++)
		nearest_compare(&nearest, commands[i].name);
	buf_addf(problems, "ccmd has no command \"%s\"; ", name);
	if (nearest.found)
		buf_addf(problems, "did you mean %s? ", nearest.found);
	buf_add_c(problems, "ccmd help lists them\n");
}

/* ---- help ---- */

/* "  -o, --output json     print JSON": the text begins in a column of its own, on the next line if
 * the flag is too long. */
static void
add_flag(const struct command_flag *flag, struct buf *out)
{
	size_t begin = out->len;
	struct str rest = str_c(flag->help);

	buf_addf(out, "  %s%s %s%s%s", flag->letter ? flag->letter : "  ", flag->letter ? "," : " ",
	         flag->name, flag->value ? " " : "", flag->value ? flag->value : "");
	for (struct str line; str_split(&rest, '\n', &line);) {
		int width = HELP_COLUMN - (int)(out->len - begin);

		if (width <= 0) {
			buf_add_char(out, '\n');
			width = HELP_COLUMN;
		}
		buf_addf(out, "%*s%" STR_FMT "\n", width, "", STR_ARG(line));
		begin = out->len;
	}
}

/* "ccmd explain (node NAME|route CIDR) [FLAG...]"; the operands have brackets if the command can do
 * without. */
static void
add_usage(const struct command *command, struct buf *out)
{
	buf_addf(out, "ccmd %s ", command->name);
	for (const struct command_operand *o = command->operands; o && o->word; o++)
		buf_addf(out, "%c%s%s%s",
		         o != command->operands   ? '|'
		         : command->needs_operand ? '('
		                                  : '[',
		         o->word, o->value ? " " : "", o->value ? o->value : "");
	if (command->operands)
		buf_add_c(out, command->needs_operand ? ") " : "] ");
	buf_add_c(out, "[FLAG...]");
}

bool
command_help(struct str topic, struct buf *out)
{
	static const struct command_flag help = { .name = "--help",
		                                  .letter = "-h",
		                                  .help = "Show this text." };
	const struct command *command = find_command(topic);

	if (!command && topic.len > 0)
		return false;

	/* the list of all */
	if (!command || !command->run) {
		buf_add_c(out, "ccmd --cloud-provider=NAME [FLAG...]   runs the controller\n");
		for (size_t i = 0; i < n_commands; i++)
			buf_addf(out, "ccmd %-34s%s\n", commands[i].name, commands[i].summary);
		buf_add_c(
			out,
			"\n"
			"Commands take the flags, the environment and the configuration of the controller, and change\n"
			"nothing. Exit codes: 0 nothing to do, 1 something to do, 2 it could not find out, or the command\n"
			"line is wrong.\n"
			"\n"
			"ccmd COMMAND --help   shows the flags of a command\n"
			"ccmd --help           shows the flags of the controller\n");
		return true;
	}

	/* one command */
	buf_addf(out, "ccmd %s: %s\n\nUsage: ", command->name, command->summary);
	add_usage(command, out);
	buf_addf(out, "\n\n%s\n\n", command->details);
	for (const struct command_flag *flag = command->flags; flag->name; flag++)
		add_flag(flag, out);
	add_flag(&help, out);
	buf_add_c(
		out,
		"\nThe command also accepts all flags of the controller; ccmd --help shows them. Without\n"
		"--cloud-provider, it takes them from the controller that runs as process 1 (in its container) or as\n"
		"the unit ccmd.service; flags on the command line replace those.\n");
	return true;
}

/* ---- flags ---- */

/* A flag of a command, as it is typed: "--output=json", "-o=json", "-ojson". */
struct typed_flag {
	struct str name;   /* "--output", "-o" */
	const char *value; /* NULL: none is attached */
};

static struct typed_flag
cut_flag(const char *arg)
{
	struct str text = str_c(arg), name, value;

	if (!str_starts(text, STR("--")) && text.len > 2)
		return (struct typed_flag){ str_head(text, 2), arg + (arg[2] == '=' ? 3 : 2) };
	if (str_cut(text, '=', &name, &value))
		return (struct typed_flag){ name, value.ptr };
	return (struct typed_flag){ text, NULL };
}

/* NULL: the command has no such flag. */
static const struct command_flag *
find_flag(const struct command *command, struct str name)
{
	for (const struct command_flag *flag = command->flags; flag->name; flag++) {
		if (str_eq_c(name, flag->name) || (flag->letter && str_eq_c(name, flag->letter)))
			return flag;
	}
	return NULL;
}

/* value: NULL: none was given. */
static void
set_bool(struct command_line *line, const struct command_flag *flag, const char *value,
         struct buf *problems)
{
	bool is_true = !value || strcmp(value, "true") == 0;

	*(bool *)((char *)line + flag->offset) = is_true;
	if (!is_true && strcmp(value, "false") != 0)
		buf_addf(problems, "ccmd %s: %s is \"%s\" instead of true or false\n",
		         line->command->name, flag->name, value);
}

static void
set_value(struct command_line *line, const struct command_flag *flag, const char *value,
          struct buf *problems)
{
	bool is_valid = true;

	*(const char **)((char *)line + flag->offset) = value;
	if (flag->choices)
		is_valid = words_have(flag->choices, str_c(value));
	else if (flag->is_valid)
		is_valid = flag->is_valid(value);
	if (is_valid)
		return;
	buf_addf(problems, "ccmd %s: %s is \"%s\" instead of ", line->command->name, flag->name,
	         value);
	if (!flag->choices)
		buf_add_c(problems, flag->value);
	for (size_t i = 0; flag->choices && flag->choices[i]; i++)
		buf_addf(problems, "%s%s", i > 0 ? " or " : "", flag->choices[i]);
	buf_add_char(problems, '\n');
}

/* The command's own flag that was probably meant by one that neither the command nor the controller
 * has; flags_parse() suggests those of the controller. NULL: there is none. */
static const struct command_flag *
find_meant(const struct command *command, struct str name)
{
	struct nearest nearest = nearest_to(str_skip(name, 2));
	const struct command_flag *meant = NULL;

	flags_compare(&nearest);
	for (const struct command_flag *flag = command->flags; flag->name; flag++) {
		nearest_compare(&nearest, flag->name + 2);
		if (nearest.found == flag->name + 2)
			meant = flag;
	}
	return meant;
}

/* Takes the argument at *at, and its value, if it is one of the command's own flags, or is meant to
 * be one. */
static bool
take_own(struct command_line *line, int argc, char *const argv[], int *at, struct buf *problems)
{
	struct typed_flag typed = cut_flag(argv[*at]);
	const struct command_flag *flag = find_flag(line->command, typed.name);

	if (!flag && !flags_know(argv[*at])) {
		flag = find_meant(line->command, typed.name);
		if (flag)
			buf_addf(problems,
			         "ccmd %s: unknown flag: %" STR_FMT "; did you mean %s?\n",
			         line->command->name, STR_ARG(typed.name), flag->name);
	}
	if (!flag)
		return false;
	if (!flag->value) {
		set_bool(line, flag, typed.value, problems);
		return true;
	}
	if (!typed.value)
		typed.value = *at + 1 < argc ? argv[++*at] : "";
	set_value(line, flag, typed.value, problems);
	return true;
}

/* ---- words ---- */

static bool
is_plugin(const char *program)
{
	const char *slash = strrchr(program, '/');

	return strcmp(slash ? slash + 1 : program, PLUGIN) == 0;
}

/* The index of the first word, which is neither a flag nor its value. argc: there is none. The
 * command is not known yet; flags that several commands have under one name are alike. */
static int
find_word(int argc, char *const argv[])
{
	int at = 1;

	while (at < argc && argv[at][0] == '-') {
		struct typed_flag typed = cut_flag(argv[at]);
		const struct command_flag *flag = NULL;
		bool takes_next;

		for (size_t i = 0; !flag && i < n_commands; i++)
			flag = find_flag(&commands[i], typed.name);
		takes_next = flag ? flag->value && !typed.value : flags_take_next(argv[at]);
		at += takes_next ? 2 : 1;
	}
	return at < argc ? at : argc;
}

/* Does an argument begin so? */
static bool
has_flag(int argc, char *const argv[], const char *begin)
{
	for (int i = 1; i < argc; i++) {
		if (str_starts(str_c(argv[i]), str_c(begin)))
			return true;
	}
	return false;
}

bool
command_is_given(int argc, char *const argv[])
{
	int at = find_word(argc, argv);

	/* kubectl ccmd --version has no word: the flag is the controller's. */
	if (argc > 0 && is_plugin(argv[0]))
		return at < argc || !has_flag(argc, argv, "--version");
	return at < argc && (at == 1 || find_command(str_c(argv[at])));
}

static void refuse(const struct command *, struct buf *problems, const char *fmt, ...)
	PRINTF_LIKE(3, 4);

/* A line with the problem and the usage. */
static void
refuse(const struct command *command, struct buf *problems, const char *fmt, ...)
{
	buf_addf(problems, "ccmd %s: ", command->name);
	BUF_ADD_ARGS(problems, fmt);
	buf_add_c(problems, "usage: ");
	add_usage(command, problems);
	buf_add_char(problems, '\n');
}

static void
refuse_word(const struct command *command, struct str word, struct buf *problems)
{
	struct nearest nearest = nearest_to(word);

	for (const struct command_operand *o = command->operands; o && o->word; o++)
		nearest_compare(&nearest, o->word);
	refuse(command, problems, "unexpected argument \"%" STR_FMT "\"; %s%s%s", STR_ARG(word),
	       nearest.found ? "did you mean " : "", nearest.found ? nearest.found : "",
	       nearest.found ? "? " : "");
}

/* The words after the command: "node x", "node/x", or "nodes". */
static void
take_operand(struct command_line *line, const char *const words[], size_t n, struct buf *problems)
{
	const struct command *command = line->command;
	const struct command_operand *operand = command->operands;
	struct str word, value = STR_EMPTY;
	size_t n_used = 1;

	if (n == 0) {
		if (command->needs_operand)
			refuse(command, problems, "an argument is missing; ");
		return;
	}
	word = str_c(words[0]);
	if (!str_cut(str_c(words[0]), '/', &word, &value) && n > 1)
		value = str_c(words[n_used++]);
	while (operand->word && !str_eq_c(word, operand->word) &&
	       !words_have(operand->others, word))
		operand++;
	if (!operand->word || (!operand->value && value.len > 0))
		refuse_word(command, operand->word ? value : word, problems);
	else if (n > n_used)
		refuse_word(command, str_c(words[n_used]), problems);
	else if (operand->value && value.len == 0)
		refuse(command, problems, "%s: %s is missing; ", operand->word, operand->value);
	else if (!command->set_operand(line, operand->word, value))
		refuse(command, problems, "%s is \"%" STR_FMT "\" instead of %s; ", operand->word,
		       STR_ARG(value), operand->value);
}

/* ---- the whole of it ---- */

/* kubectl does not pass its kubeconfig to plugins, so it is searched for in the same places:
 * $KUBECONFIG, which may name several files, else the home folder. */
static void
add_kubeconfig(struct command_line *line)
{
	const char *path = getenv("KUBECONFIG"), *home = getenv("HOME");
	struct str text;

	if (has_flag(line->argc, line->argv, "--kubeconfig") ||
	    has_flag(line->argc, line->argv, "--master"))
		return;
	line->kubeconfig_is_list = path && path[0];
	if (line->kubeconfig_is_list)
		text = arena_printf(line->arena, "--kubeconfig=%s", path);
	else if (home && home[0])
		text = arena_printf(line->arena, "--kubeconfig=%s/.kube/config", home);
	else
		return;
	line->argv[line->argc++] = arena_strz(line->arena, text);
}

static bool
names_cloud(const struct command_line *line)
{
	return has_flag(line->argc, line->argv, "--cloud-provider") ||
	       has_flag(line->argc, line->argv, "--cloud_provider");
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
	line->has_cloud = names_cloud(line);
	running_import(running, line->arena);
}

/* Takes the arguments except for the command, which is at that index: its own flags, those of the
 * controller, and words. Returns the number of words. */
static size_t
take_arguments(struct command_line *line, int argc, char *const argv[], int at,
               const char *ret_words[], struct buf *problems)
{
	size_t n = 0;

	for (int i = 1; i < argc; i++) {
		if (i == at)
			continue;
		if (argv[i][0] != '-') {
			ret_words[n++] = argv[i];
		} else if (!take_own(line, argc, argv, &i, problems)) {
			line->argv[line->argc++] = argv[i];
			if (flags_take_next(argv[i]) && i + 1 < argc)
				line->argv[line->argc++] = argv[++i];
		}
	}
	return n;
}

/* Parses what is beside the command. */
static void
parse_rest(struct command_line *line, int argc, char *const argv[], int at, struct buf *problems)
{
	const char **words = arena_calloc(line->arena, (size_t)argc + 1, sizeof(words[0]));
	size_t n;

	for (int i = 1; i < argc; i++)
		line->wants_help |= i != at &&
		                    (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0);
	if (line->wants_help)
		return;
	n = take_arguments(line, argc, argv, at, words, problems);
	if (line->command->operands)
		take_operand(line, words, n, problems);
	else if (!line->command->run && n > 0)
		line->topic = str_c(words[0]);
	else if (n > 0)
		refuse_word(line->command, str_c(words[0]), problems);
	if (line->is_plugin)
		add_kubeconfig(line);
	line->has_cloud = names_cloud(line);
}

bool
command_parse(int argc, char *const argv[], struct arena *arena, struct command_line *ret,
              struct buf *problems)
{
	int at = find_word(argc, argv);
	const char *name = at < argc ? argv[at] : "help";

	*ret = (struct command_line){
		.arena = arena, .is_plugin = is_plugin(argv[0]), .scope = PLAN_ALL, .argc = 1
	};
	ret->argv = arena_calloc(arena, (size_t)argc + 2, sizeof(ret->argv[0]));
	ret->argv[0] = argv[0];
	ret->command = find_command(str_c(name));
	if (ret->command)
		parse_rest(ret, argc, argv, at, problems);
	else
		refuse_command(name, problems);
	return problems->len == 0;
}

/* The value of a flag of the controller; NULL: it is not given. The last one counts. */
static const char *
flag_value(const struct command_line *line, const char *name)
{
	const char *found = NULL;

	for (int i = 1; i < line->argc; i++) {
		struct typed_flag typed = cut_flag(line->argv[i]);

		if (str_eq_c(typed.name, name))
			found = typed.value ? typed.value : line->argv[i + 1];
	}
	return found;
}

/* The flags of the controller in the cluster. Without them, flags_parse() says which are missing.
 */
static void
use_workload(struct command_line *line)
{
	CLEANUP(buf_fini) struct buf notes = BUF_INIT(KIB(64));
	CLEANUP(buf_fini) struct buf clean = BUF_INIT(KIB(64));
	struct kube_config_source source = { .kubeconfig = flag_value(line, "--kubeconfig"),
		                             .is_list = line->kubeconfig_is_list,
		                             .master = flag_value(line, "--master") };
	struct running running;
	struct error err;
	struct str rest;

	if (workload_find(&source, line->arena, &running, &notes, &err))
		command_use_running(line, &running);
	else
		buf_addf(&notes, "the flags of the controller could not be read: %s\n", err.msg);
	rest = buf_str(&notes);
	for (struct str text; str_split(&rest, '\n', &text) && text.len > 0;) {
		buf_addf(&clean, "ccmd %s: ", line->command->name);
		buf_add_clean(&clean, text);
		buf_add_char(&clean, '\n');
	}
	(void)!fd_write_all(STDERR_FILENO, buf_str(&clean));
}

/* Files that only root can read are a frequent reason why the controller does not work, and an
 * administrator who uses sudo does not expect that the command cannot read them either. */
static bool
use_controller(struct command_line *line)
{
	bool was_root = geteuid() == 0;
	struct running running;
	struct error err;

	if (line->has_cloud)
		return true;
	if (line->is_plugin) {
		use_workload(line);
		return true;
	}
	if (running_find(RUNNING_PROC, RUNNING_GROUP, line->arena, &running, &err)) {
		if (was_root && running.uid != 0)
			(void)dprintf(
				STDERR_FILENO,
				"ccmd %s: continues as user %u, as the controller does; it cannot read what only root can read\n",
				line->command->name, (unsigned)running.uid);
		command_use_running(line, &running);
		return true;
	}
	if (err.code == ERR_NOT_FOUND)
		return true;
	(void)dprintf(STDERR_FILENO, "ccmd %s: %s\n", line->command->name, err.msg);
	return false;
}

int
command_main(int argc, char *const argv[])
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	CLEANUP(buf_fini) struct buf problems = BUF_INIT(KIB(64));
	CLEANUP(buf_fini) struct buf help = BUF_INIT(KIB(64));
	struct command_line line;
	int code;

	sandbox_no_cores();
	sandbox_harden();
	if (!command_parse(argc, argv, &arena, &line, &problems)) {
		(void)!fd_write_all(STDERR_FILENO, buf_str(&problems));
		return EXIT_NOT_KNOWN;
	}
	if (line.command->run && !line.wants_help) {
		if (line.bundle && !line.is_plugin)
			bundle_read_journal(&arena, &line.journal);
		if (!use_controller(&line))
			return EXIT_NOT_KNOWN;
		if (!line.is_watch)
			progress_start();
		code = command_run(&line);
		progress_stop();
		return code;
	}
	if (line.command->run)
		line.topic = str_c(line.command->name);
	if (command_help(line.topic, &help))
		return fd_print(buf_str(&help)) ? EXIT_NOTHING_TO_DO : EXIT_NOT_KNOWN;
	refuse_command(line.topic.ptr, &problems);
	(void)!fd_write_all(STDERR_FILENO, buf_str(&problems));
	return EXIT_NOT_KNOWN;
}
