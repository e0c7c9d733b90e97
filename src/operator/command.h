/* operator/command.h: the commands for operators: ccmd doctor, ccmd plan, ccmd help …
 *
 * A command takes the flags of the controller besides its own, reads the same environment and
 * configuration, prints its result, and changes nothing anywhere (operator/view.h). Without
 * --cloud-provider it takes those of the running controller (operator/running.h). Exit codes: 0
 * nothing to do, 1 something to do, 2 it could not find out, which includes a wrong command line.
 * Flags and words may be in any order, and words are those of kubectl: node/x, nodes x, svc x.
 *
 * As kubectl-ccmd (a link to the program) it is a plugin of kubectl: `kubectl ccmd doctor` is
 * `ccmd doctor` with kubectl's kubeconfig, unless --kubeconfig or --master names another server.
 *
 * Threads: main's.
 */
#ifndef CCMD_OPERATOR_COMMAND_H
#define CCMD_OPERATOR_COMMAND_H

#include "base/buf.h"
#include "operator/bundle.h"
#include "operator/explain.h"

enum {
	EXIT_NOTHING_TO_DO = 0,
	EXIT_SOMETHING_TO_DO = 1,
	EXIT_NOT_KNOWN = 2,
};

struct command_line;
struct parsed;

/** A flag that commands have besides those of the controller. */
struct command_flag {
	const char *name;           /* "--output" */
	const char *letter;         /* "-o"; NULL: none */
	const char *value;          /* how the help names it: "FILE"; NULL: it takes none */
	const char *const *choices; /* all values that are possible; NULL: is_valid() decides */
	bool (*is_valid)(const char *value); /* NULL: any value is */
	const char *help;
	size_t offset; /* of its const char * in struct command_line; without a value, of its bool
	                */
};

/** A word after the command that says what it is about, and what follows the word. */
struct command_operand {
	const char *word, *value; /* "node", "NAME"; NULL: nothing follows */
	const char *others[3];    /* what kubectl has for the word, too; ends with NULL */
};

/** A command. The command line, the help, the man page and the completion of shells all read the
 * same rows. */
struct command {
	const char *name, *summary, *details;
	const struct command_flag *flags;       /* the last one has no name */
	const struct command_operand *operands; /* the last one has no word; NULL: it takes none */
	bool needs_operand;
	/** Takes an operand; false: the value cannot be right. It is empty if the operand has none.
	 */
	bool (*set_operand)(struct command_line *, const char *word, struct str value);
	/** Reads, prints into out, and returns the exit code. NULL: help. */
	int (*run)(const struct command_line *, struct parsed *, struct view *, struct buf *out);
};

extern const struct command commands[]; /* command_table.c */
extern const size_t n_commands;

/** Runs the command, again and again with --watch. Returns the exit code of the process. */
int command_run(const struct command_line *);

/** A command line, cut into the command's own flags and those of the controller. */
struct command_line {
	const struct command *command; /* NULL: none was named */
	struct str topic;              /* of help: the command that it is about; empty: all */
	bool wants_help;               /* --help */
	const char *output;            /* --output; NULL: not given */
	bool is_all;                   /* --all */
	bool is_watch;                 /* --watch */
	const char *service_account;   /* --as-service-account; NULL: not given */
	const char *bundle;            /* --bundle; NULL: not given */
	struct journal journal;        /* for --bundle */
	const char *namespace;         /* --namespace; NULL: not given */
	bool is_plugin;                /* started as kubectl-ccmd */
	bool kubeconfig_is_list;       /* --kubeconfig in argv is the value of $KUBECONFIG */
	bool has_cloud;                /* the flags of the controller name a cloud */
	struct described object;       /* of explain */
	struct view_question leader;   /* --url, --ca */
	unsigned scope;                /* of plan: a union of enum plan_scope */
	char **argv; /* argv[0] and the flags of the controller; NULL at the end */
	int argc;
	struct arena *arena; /* of argv */
};

struct running;

/** Does this command line name a command, or a word in the place of one, or is the program a plugin
 * of kubectl? If not, the controller runs. */
bool command_is_given(int argc, char *const argv[]);

/** Cuts a command line for which command_is_given() is true. False with a line in problems for
 * each thing that is wrong. */
NODISCARD bool command_parse(int argc, char *const argv[], struct arena *arena,
                             struct command_line *ret, struct buf *problems);

/** Puts the flags of the running controller before those of the command line, and imports its
 * environment. */
void command_use_running(struct command_line *, const struct running *);

/** Appends the help of one command, or the list of all if topic is empty. False: there is no such
 * command. */
NODISCARD bool command_help(struct str topic, struct buf *out);

/** Runs the command. Returns the exit code of the process. */
int command_main(int argc, char *const argv[]);

#endif
