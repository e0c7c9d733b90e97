/* flags/flags.h: the command line, as users type it for the Go programs (docs/spec/framework.md,
 * "Flags").
 *
 * Spellings: --flag=x, --flag x, -v=4, -v 4, bare booleans, 1h2m3s, lists with commas or repeated
 * flags, '_' for '-'. One table defines the name, default, meaning and group of every flag
 * (table.h). All problems are collected, a line each.
 *
 * Every flag of the Go framework is accepted. A flag that has no effect here is checked like the
 * others, and its name is added to the notes. Deprecated flags lead to a warning, and so do values
 * for which another one is used (TLS 1.2 instead of 1.0).
 */
#ifndef CCMD_FLAGS_FLAGS_H
#define CCMD_FLAGS_FLAGS_H

#include "base/buf.h"
#include "base/words.h"
#include "cloud/cloud.h"
#include "flags/options.h"

enum flags_outcome {
	FLAGS_RUN,
	FLAGS_HELP,    /* the list of the flags was printed to out, for --help */
	FLAGS_VERSION, /* --version was printed to out */
	FLAGS_BAD,     /* problems has one line for each problem */
};

/** Reads the command line.
 *
 * @param out       gets the text of --help or --version
 * @param problems  gets a line for each problem
 * @param notes     gets the name of each flag that is accepted without effect, a line each
 * @param warnings  gets a sentence for each thing that the log should say, a line each
 * @return  With FLAGS_RUN the caller owns the options: options_fini(). Texts in them may point into
 * argv. */
enum flags_outcome flags_parse(int argc, char *const argv[], struct options *ret, struct buf *out,
                               struct buf *problems, struct buf *notes, struct buf *warnings);
void options_fini(struct options *o);

/** Is the controller with this canonical name ("service-lb-controller") wanted? The first entry of
 * --controllers that names it decides; without one, "*" does. */
bool controllers_enabled(const struct options *o, const char *canonical);

/** Is the route controller wanted? --configure-cloud-routes=false is another way to say
 * --controllers=-node-route-controller. */
bool options_want_routes(const struct options *o);

/** For an argument that begins with '-': is it the name of a flag, or of one that is refused with a
 * reason? */
bool flags_know(const char *arg);
/** Is the argument after this one its value? A misspelt name is read as the flag that was probably
 * meant. */
bool flags_take_next(const char *arg);
/** Compares the word with the names of all flags, without their dashes. */
void flags_compare(struct nearest *);

/** Logs a debug line for each flag, as the Go programs do: FLAG: --name="value". */
void flags_log(const struct options *o);

/** Appends the configuration in effect, as /configz shows it: an object
 * CloudControllerManagerConfiguration with the Go framework's keys in its order
 * (docs/spec/framework.md, "Configuration endpoint"). It has no secrets, because the command line
 * has none. options is a const struct options *. Any thread; nothing may change the options
 * meanwhile. */
void configz_add(void *options, struct buf *json);
/** The number of columns of the terminal behind fd, at least 80; 0: fd is not a terminal. */
unsigned help_width(int fd);

#endif
