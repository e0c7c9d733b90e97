/* operator/command.c: see command.h. */
#include "operator/command.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/limits.h"
#include "operator/plan.h"
#include "operator/progress.h"
#include "operator/running.h"

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

/* ---- help ---- */

static void
add_list(struct buf *out)
{
	buf_add_c(out, "ccmd --cloud-provider=NAME [FLAG...]   runs the controller\n");
	for (size_t i = 0; i < n_commands; i++)
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

/* "(node NAME|route CIDR)", or with brackets if the command can do without. */
static void
add_operands(const struct command *command, struct buf *out)
{
	for (const struct command_operand *o = command->operands; o->word; o++)
		buf_addf(out, "%c%s%s%s",
		         o != command->operands   ? '|'
		         : command->needs_operand ? '('
		                                  : '[',
		         o->word, o->value ? " " : "", o->value ? o->value : "");
	buf_add_char(out, command->needs_operand ? ')' : ']');
}

static void
add_usage(const struct command *command, struct buf *out)
{
	buf_addf(out, "ccmd %s ", command->name);
	if (command->operands) {
		add_operands(command, out);
		buf_add_char(out, ' ');
	}
	buf_add_c(out, "[FLAG...]");
}

bool
command_help(struct str topic, struct buf *out)
{
	static const struct command_flag help = { .name = "--help",
		                                  .letter = "-h",
		                                  .help = "Show this text." };
	const struct command *command = find_command(topic);

	if (topic.len == 0 || (command && !command->run)) {
		add_list(out);
		return true;
	}
	if (!command)
		return false;
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

static bool
is_choice(const struct command_flag *flag, const char *value)
{
	size_t i = 0;

	while (flag->choices[i] && strcmp(flag->choices[i], value) != 0)
		i++;
	return flag->choices[i] != NULL;
}

static void
add_expected(const struct command_flag *flag, struct buf *out)
{
	if (!flag->choices)
		buf_add_c(out, flag->value);
	for (size_t i = 0; flag->choices && flag->choices[i]; i++)
		buf_addf(out, "%s%s", i > 0 ? " or " : "", flag->choices[i]);
}

static void
set_value(struct command_line *line, const struct command_flag *flag, const char *value,
          struct buf *problems)
{
	bool is_valid = flag->choices    ? is_choice(flag, value)
	                : flag->is_valid ? flag->is_valid(value)
	                                 : true;

	*(const char **)((char *)line + flag->offset) = value;
	if (is_valid)
		return;
	buf_addf(problems, "ccmd %s: %s is \"%s\" instead of ", line->command->name, flag->name,
	         value);
	add_expected(flag, problems);
	buf_add_char(problems, '\n');
}

static bool
is_help(const char *arg)
{
	return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

/* Takes the argument at *at if it is one of the command's own flags. */
static bool
take_own(struct command_line *line, int argc, char *const argv[], int *at, struct buf *problems)
{
	for (const struct command_flag *flag = line->command->flags; flag->name; flag++) {
		const char *value;

		if (!flag->value && strcmp(argv[*at], flag->name) == 0) {
			*(bool *)((char *)line + flag->offset) = true;
			return true;
		}
		if (!flag->value)
			continue;
		value = flag_value(argc, argv, at, flag->name);
		if (!value && flag->letter)
			value = flag_value(argc, argv, at, flag->letter);
		if (value) {
			set_value(line, flag, value, problems);
			return true;
		}
	}
	return false;
}

static const struct command_operand *
find_operand(const struct command *command, const char *word)
{
	for (const struct command_operand *o = command->operands; o->word; o++) {
		if (strcmp(o->word, word) == 0)
			return o;
	}
	return NULL;
}

static bool
is_word(int argc, char *const argv[], int at)
{
	return at < argc && argv[at][0] != '-';
}

/* Takes what the command is about. Returns the number of arguments that were taken. */
static int
take_operand(struct command_line *line, int argc, char *const argv[], struct buf *problems)
{
	const struct command *command = line->command;
	bool is_given = is_word(argc, argv, 2);
	const struct command_operand *operand = is_given ? find_operand(command, argv[2]) : NULL;
	const char *value = NULL;

	if (!is_given && !command->needs_operand)
		return 0;
	if (operand && operand->value && is_word(argc, argv, 3))
		value = argv[3];
	if (operand && (value || !operand->value) &&
	    command->set_operand(line, operand->word, value))
		return value ? 2 : 1;
	buf_addf(problems, "ccmd %s: wrong argument; usage: ", command->name);
	add_usage(command, problems);
	buf_add_char(problems, '\n');
	return argc - 2;
}

/* kubectl does not pass its kubeconfig to plugins, so it is searched for in the same places:
 * $KUBECONFIG, which may name several files, else the home folder. */
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
parse_rest(struct command_line *line, int argc, char *const argv[], struct buf *problems)
{
	int i = 2;

	for (int k = 2; k < argc; k++)
		line->wants_help |= is_help(argv[k]);
	if (line->wants_help)
		return;
	if (line->command->operands)
		i += take_operand(line, argc, argv, problems);
	else if (!line->command->run && argc > 2)
		line->topic = str_c(argv[i++]);
	for (; i < argc; i++) {
		if (!take_own(line, argc, argv, &i, problems))
			line->argv[line->argc++] = argv[i];
	}
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
