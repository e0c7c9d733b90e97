/* flags/flags.h: the command line, as people type it for the Go programs (docs/spec/framework.md,
 * "Flags").
 *
 * --flag=x, --flag x, -v=4, -v 4, bare booleans, 1h2m3s, lists with commas or repeated flags, '_'
 * for '-'. One table defines name, default, meaning and group of every flag: it parses, it prints
 * --help, and docs/reference/flags.md is made from it. All problems are collected, a line each.
 *
 * Every flag of the Go framework is accepted. One that means nothing here is checked like the
 * others and noted; a deprecated one, or a value that is taken for something weaker than it says,
 * is a warning.
 */
#ifndef CCMD_FLAGS_FLAGS_H
#define CCMD_FLAGS_FLAGS_H

#include "base/buf.h"
#include "flags/options.h"

enum flags_outcome {
	FLAGS_RUN,
	FLAGS_DONE, /* --help or --version was printed to out */
	FLAGS_BAD,  /* problems has a line each */
};

/** Reads the command line. notes gets the name of each flag that is accepted without effect,
 * warnings a sentence for each thing somebody should know, a line each, for the log. With
 * FLAGS_RUN the options are yours: options_fini(). Text in them may point into argv. */
enum flags_outcome flags_parse(int argc, char *const argv[], struct options *ret, struct buf *out,
                               struct buf *problems, struct buf *notes, struct buf *warnings);
void options_fini(struct options *o);

/** Is the controller with this canonical name ("service-lb-controller") wanted? The first entry of
 * --controllers that names it decides, else "*" does. */
bool controllers_enabled(const struct options *o, const char *canonical);

/** A debug line for each flag: FLAG: --name="value". */
void flags_log(const struct options *o);

#endif
