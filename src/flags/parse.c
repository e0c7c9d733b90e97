/* flags/parse.c: from the command line to options; see flags.h.
 *
 * Defaults are parsed like typed values, before the command line is. A problem never ends the
 * parsing, so that all of them are reported together; only --help does.
 */
#include "flags/flags.h"

#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/names.h"
#include "base/version.h"
#include "base/words.h"
#include "flags/table.h"

enum version_output {
	VERSION_NONE,
	VERSION_SHORT,
	VERSION_RAW,
};

struct reader {
	int argc;
	char *const *argv;
	int next;
	struct options *options;
	struct buf *out, *problems, *notes, *warnings;
	enum version_output version;
	bool wants_help;
};

/* ---- version ---- */

/* vX.Y.Z and a suffix, in characters that are harmless in a User-Agent header. */
static bool
is_version(struct str text)
{
	static const char *const others = "+-.";
	size_t n_dots = 0;

	if (text.len < 6 || text.len > VERSION_MAX || text.ptr[0] != 'v')
		return false;
	for (size_t i = 1; i < text.len; i++) {
		char c = text.ptr[i];
		bool is_digit = c >= '0' && c <= '9';

		n_dots += c == '.';
		if (!is_digit &&
		    (n_dots < 2 ? c != '.' : !char_is_alnum(c) && !char_is_in(c, others)))
			return false;
	}
	return n_dots >= 2;
}

/* true, false and raw say whether the version is printed; v1.2.3 replaces the version that is
 * reported. */
static bool
set_version(struct reader *r, struct str value)
{
	if (str_eq_c(value, "raw"))
		r->version = VERSION_RAW;
	else if (str_eq_c(value, "true"))
		r->version = VERSION_SHORT;
	else if (str_eq_c(value, "false"))
		r->version = VERSION_NONE;
	else if (is_version(value))
		r->options->version = value;
	else
		return false;
	return true;
}

static void
print_version(const struct reader *r)
{
	struct str version = r->options->version, major, minor;

	if (r->version == VERSION_SHORT) {
		buf_addf(r->out, "ccmd %" STR_FMT "\n", STR_ARG(version));
		return;
	}
	/* in the form that Go's %#v gives it, because scripts parse that */
	version_split(version, &major, &minor);
	buf_addf(r->out, "version.Info{Major:\"%" STR_FMT "\", Minor:\"%" STR_FMT "\", ",
	         STR_ARG(major), STR_ARG(minor));
	buf_addf(r->out, "GitVersion:\"%" STR_FMT "\", Compiler:\"%s\", Platform:\"%s\"}\n",
	         STR_ARG(version), __VERSION__, version_platform().ptr);
}

/* ---- the command line ---- */

static void
set_flag(struct reader *r, size_t index, const char *value)
{
	const struct flag *flag = flag_at(index);
	bool was_given = r->options->states[index].is_given;

	if ((flag->kind == FLAG_VERSION && !set_version(r, str_c(value))) ||
	    !flag_set(r->options, index, value, /*is_default=*/false)) {
		buf_addf(r->problems, "invalid argument \"%s\" for \"%s%s\": want ", value,
		         flag_dashes(flag), flag->name);
		flag_add_expected(flag, r->problems);
		buf_add_char(r->problems, '\n');
		return;
	}
	if (flag->kind == FLAG_HELP)
		r->wants_help = true;
	if (was_given)
		return; /* flags without effect are reported once, however often they are given */
	if (flag->effect == FLAG_NO_EFFECT)
		buf_addf(r->notes, "%s%s\n", flag_dashes(flag), flag->name);
	else if (flag->effect == FLAG_DEPRECATED)
		buf_addf(r->warnings, "%s%s is deprecated and has no effect: %s\n",
		         flag_dashes(flag), flag->name, flag->why);
}

static const char *
why_refused(struct str name)
{
	for (const struct refused_flag *flag = refused_flags; flag->name; flag++) {
		if (str_eq_c(name, flag->name))
			return flag->why;
	}
	return NULL;
}

/* The flag that was probably meant. False: there is none. */
static bool
find_nearest(struct str name, size_t *ret_index)
{
	struct nearest nearest = nearest_to(name);

	flags_compare(&nearest);
	return !why_refused(name) && nearest.found && flag_find(str_c(nearest.found), ret_index);
}

static void
add_unknown(struct reader *r, const char *dashes, struct str name, const struct flag *nearest)
{
	const char *why = why_refused(name);

	buf_addf(r->problems, "unknown flag: %s%" STR_FMT, dashes, STR_ARG(name));
	if (why)
		buf_addf(r->problems, " (%s)", why);
	if (nearest)
		buf_addf(r->problems, "; did you mean %s%s?", flag_dashes(nearest), nearest->name);
	buf_add_char(r->problems, '\n');
}

/* Reads a flag without its dashes: "name" or "name=value". The value may be the next argument,
 * except that a boolean without a value is true. An unknown flag is reported, and the flag that was
 * probably meant is read in its place, so that one mistake leads to one problem. */
static void
read_flag(struct reader *r, const char *dashes, struct str text)
{
	struct str name = text, value;
	bool has_value = str_cut(text, '=', &name, &value);
	const struct flag *flag;
	size_t index;

	if (!flag_find(name, &index)) {
		bool has_nearest = find_nearest(name, &index);

		add_unknown(r, dashes, name, has_nearest ? flag_at(index) : NULL);
		if (!has_nearest || flag_at(index)->kind == FLAG_HELP)
			return;
	}
	flag = flag_at(index);
	if (has_value)
		set_flag(r, index, value.ptr); /* to the end of the argument */
	else if (flag_type(flag)[0] == '\0')
		set_flag(r, index, "true");
	else if (r->next < r->argc)
		set_flag(r, index, r->argv[r->next++]);
	else
		buf_addf(r->problems, "flag needs an argument: %s%s\n", flag_dashes(flag),
		         flag->name);
}

static void
add_positional(struct reader *r, const char *arg)
{
	buf_addf(
		r->problems,
		"unexpected argument \"%s\"; ccmd takes flags, or a command (ccmd help lists them)\n",
		arg);
}

static void
read_argument(struct reader *r, const char *arg)
{
	struct str text = str_c(arg);
	size_t index;

	if (str_eq_c(text, "--")) {
		while (r->next < r->argc)
			add_positional(r, r->argv[r->next++]);
	} else if (str_starts(text, STR("--"))) {
		read_flag(r, "--", str_skip(text, 2));
	} else if (str_eq_c(text, "-h")) {
		read_flag(r, "-", STR("help"));
	} else if (str_starts(text, STR("-v")) && str_is_digits(str_head(str_skip(text, 2), 1)) &&
	           flag_find(STR("v"), &index)) {
		set_flag(r, index, arg + 2); /* -v4 */
	} else if (str_starts(text, STR("-v"))) {
		read_flag(r, "-", str_skip(text, 1)); /* -v=4, -v 4 */
	} else if (str_starts(text, STR("-")) && text.len > 1) {
		add_unknown(r, "-", str_skip(text, 1), /*nearest=*/NULL);
	} else {
		add_positional(r, arg);
	}
}

/* ---- options ---- */

void
options_fini(struct options *o)
{
	arena_fini(&o->arena);
	*o = (struct options){ 0 };
}

enum flags_outcome
flags_parse(int argc, char *const argv[], struct options *ret, struct buf *out,
            struct buf *problems, struct buf *notes, struct buf *warnings)
{
	struct reader r = { .argc = argc,
		            .argv = argv,
		            .next = 1,
		            .options = ret,
		            .out = out,
		            .problems = problems,
		            .notes = notes,
		            .warnings = warnings };
	enum flags_outcome outcome;
	const struct flag *flag;

	*ret = (struct options){ .arena = ARENA_INIT, .version = version_get() };
	ret->states = arena_calloc(&ret->arena, flag_count(), sizeof(*ret->states));
	for (size_t i = 0; (flag = flag_at(i)); i++) {
		ret->states[i].text = "";
		if (flag->fallback)
			(void)flag_set(ret, i, flag->fallback, /*is_default=*/true);
	}
	while (r.next < argc && !r.wants_help)
		read_argument(&r, argv[r.next++]);

	/* --help is answered whatever else was given, --version unless a value is invalid */
	if (r.wants_help) {
		help_print(out, help_width(STDOUT_FILENO));
		outcome = FLAGS_HELP;
	} else if (r.version != VERSION_NONE && problems->len == 0) {
		print_version(&r);
		outcome = FLAGS_VERSION;
	} else {
		options_validate(ret, problems, warnings);
		outcome = problems->len > 0 ? FLAGS_BAD : FLAGS_RUN;
	}
	if (outcome != FLAGS_RUN)
		options_fini(ret);
	return outcome;
}

/* ---- for the commands ---- */

static struct str
name_of(const char *arg)
{
	struct str text = str_skip(str_c(arg), str_starts(str_c(arg), STR("--")) ? 2 : 1), name,
		   value;

	return str_cut(text, '=', &name, &value) ? name : text;
}

bool
flags_know(const char *arg)
{
	struct str text = str_c(arg);
	size_t index;

	return str_starts(text, STR("-v")) || flag_find(name_of(arg), &index) ||
	       why_refused(name_of(arg));
}

bool
flags_take_next(const char *arg)
{
	struct str name = name_of(arg);
	size_t index;

	if (strchr(arg, '=') || (!flag_find(name, &index) && !find_nearest(name, &index)))
		return false;
	return flag_type(flag_at(index))[0] != '\0';
}

void
flags_compare(struct nearest *nearest)
{
	const struct flag *flag;

	for (size_t i = 0; (flag = flag_at(i)); i++)
		nearest_compare(nearest, flag->name);
}

/* ---- the log ---- */

void
flags_log(const struct options *o)
{
	CLEANUP(buf_fini) struct buf line = BUF_INIT(KIB(4));
	const struct flag *flag;

	if (!log_is_debug())
		return;
	for (size_t i = 0; (flag = flag_at(i)); i++) {
		if (!flag->fallback)
			continue;
		buf_reset(&line);
		buf_addf(&line, "FLAG: --%s=\"%s\"", flag->name, o->states[i].text);
		log_debug(line.ptr);
	}
}
