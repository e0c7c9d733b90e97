/* operator/command.h: the commands for operators: ccmd doctor, ccmd plan, ccmd help …
 *
 * A command takes the flags of the controller besides its own, reads the same environment and
 * configuration, prints its result, and changes nothing anywhere (operator/view.h). Without
 * --cloud-provider it takes those of the running controller (operator/running.h). Exit codes: 0
 * nothing to do, 1 something to do, 2 it could not find out, which includes a wrong command line.
 *
 * As kubectl-ccmd (a link to the program) it is a plugin of kubectl: `kubectl ccmd doctor` is
 * `ccmd doctor` with kubectl's kubeconfig, unless --kubeconfig or --master names another server.
 *
 * Threads: main's.
 */
#ifndef CCMD_OPERATOR_COMMAND_H
#define CCMD_OPERATOR_COMMAND_H

#include "base/buf.h"
#include "operator/explain.h"

enum {
	EXIT_NOTHING_TO_DO = 0,
	EXIT_SOMETHING_TO_DO = 1,
	EXIT_NOT_KNOWN = 2,
};

/** A command line, cut into the command's own flags and those of the controller. */
struct command_line {
	const struct command *command; /* NULL: none was named */
	struct str topic;              /* of help: the command that it is about; empty: all */
	bool wants_help;               /* --help */
	bool is_json;                  /* -o json */
	bool is_all;                   /* --all */
	bool is_watch;                 /* --watch */
	const char *service_account;   /* --as-service-account; NULL: not given */
	bool is_plugin;                /* started as kubectl-ccmd */
	bool has_cloud;                /* the flags of the controller name a cloud */
	struct described object;       /* of explain */
	struct explain_source leader;  /* --url, --ca */
	unsigned scope;                /* of plan: a union of enum plan_scope */
	const char *words[2];          /* arguments right after the command that are no flags */
	int n_words;
	char **argv; /* argv[0] and the flags of the controller; NULL at the end */
	int argc;
	struct arena *arena; /* of argv */
};

struct running;

/** Does this command line name a command, or is the program a plugin of kubectl? If not, the
 * controller runs. */
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

/** Appends the names of all commands, with a space between them. */
void command_list(struct buf *out);

/** What may follow a command, for the completion of shells: words with a space between them. */
struct command_words {
	const char *name;
	struct buf flags; /* its own: "--all --output="; a flag that takes a value ends with '=' */
	struct buf operands; /* "node service route" */
};
/** For the i-th command; false if there are fewer. The words are taken from its help. */
NODISCARD bool command_words(size_t i, struct command_words *ret);
void command_words_fini(struct command_words *); /* for CLEANUP */

/** Runs the command. Returns the exit code of the process. */
int command_main(int argc, char *const argv[]);

#endif
