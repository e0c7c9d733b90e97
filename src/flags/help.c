/* flags/help.c: --help, in the form that the Go programs give it: flags in groups, with a column
 * for the descriptions.
 *
 * Flags without effect come last, because whoever reads the text looks for flags that do something.
 *
 * The text is wrapped at the width of the terminal. Where output goes to a file or a pipe it is not
 * wrapped, so that each flag is one line for grep.
 */
#include "cloud/cloud.h"
#include "flags/flags.h"
#include "flags/table.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/limits.h"

enum {
	MIN_WIDTH = 80,
	MIN_COLUMN = 24, /* if less is left for the descriptions, they get lines of their own, */
	OWN_INDENT = 16, /* which begin at this column */
	GAP = 3,         /* between the flag and its description */
};

unsigned
help_width(int fd)
{
	struct winsize size;

	if (!isatty(fd) || ioctl(fd, TIOCGWINSZ, &size) != 0)
		return 0;
	return size.ws_col < MIN_WIDTH ? MIN_WIDTH : size.ws_col;
}

/* Deprecated flags are not shown at all. */
static bool
is_shown(const struct flag *flag, bool has_effect)
{
	return flag->effect != FLAG_DEPRECATED && (flag->effect != FLAG_NO_EFFECT) == has_effect;
}

/* "      --name type", "  -v, --v int" */
static void
add_left(const struct flag *flag, struct buf *b)
{
	const char *type = flag_type(flag);

	if (flag->kind == FLAG_HELP)
		buf_add_c(b, "  -h, ");
	else if (strlen(flag->name) == 1)
		buf_addf(b, "  -%s, ", flag->name);
	else
		buf_add_c(b, "      ");
	buf_addf(b, "--%s%s%s", flag->name, type[0] ? " " : "", type);
	if (flag->kind == FLAG_VERSION)
		buf_add_c(b, " version[=true]");
}

static size_t
left_width(const struct flag *flag)
{
	CLEANUP(buf_fini) struct buf left = BUF_INIT(KIB(1));

	add_left(flag, &left);
	return left.len;
}

static void
print_flag(const struct flag *flag, size_t column, unsigned width, struct buf *out)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4)), fallback = BUF_INIT(KIB(1));

	add_left(flag, out);
	if (width > 0 && width < column + MIN_COLUMN) {
		column = OWN_INDENT;
		buf_add_char(out, '\n');
		buf_addf(out, "%*s", (int)column, "");
	} else {
		buf_addf(out, "%*s", (int)(column - left_width(flag)), "");
	}
	buf_add_c(&text, flag->help);
	if (flag->effect == FLAG_NO_EFFECT)
		buf_addf(&text, " No effect: %s.", flag->why);
	flag_add_default(flag, &fallback);
	if (fallback.len > 0)
		buf_addf(&text, " (default %s)", fallback.ptr);
	buf_add_wrapped(out, buf_str(&text), column, width);
}

/* Where the descriptions of a group begin, at column or behind it. */
static size_t
column_of(const struct flag_group *group, bool has_effect, size_t column)
{
	for (size_t i = 0; i < group->n; i++) {
		const struct flag *flag = &group->flags[i];

		if (is_shown(flag, has_effect) && left_width(flag) + GAP > column)
			column = left_width(flag) + GAP;
	}
	return column;
}

static void
print_flags(const struct flag_group *group, bool has_effect, size_t column, unsigned width,
            struct buf *out)
{
	for (size_t i = 0; i < group->n; i++) {
		if (is_shown(&group->flags[i], has_effect))
			print_flag(&group->flags[i], column, width, out);
	}
}

static void
print_group(const struct flag_group *group, unsigned width, struct buf *out)
{
	size_t column = column_of(group, /*has_effect=*/true, 0);

	if (column == 0)
		return;
	buf_addf(out, "\n%s flags:\n\n", group->name);
	print_flags(group, /*has_effect=*/true, column, width, out);
}

static void
print_without_effect(unsigned width, struct buf *out)
{
	size_t column = 0; /* the same for all groups */

	for (const struct flag_group *const *group = flag_groups; *group; group++)
		column = column_of(*group, /*has_effect=*/false, column);
	buf_add_c(out,
	          "\nFlags without effect, accepted because other cloud-controller-managers have "
	          "them:\n\n");
	for (const struct flag_group *const *group = flag_groups; *group; group++)
		print_flags(*group, /*has_effect=*/false, column, width, out);
}

void
help_print(struct buf *out, unsigned width)
{
	for (const struct flag_group *const *group = flag_groups; *group; group++)
		print_group(*group, width, out);
	print_without_effect(width, out);
	buf_add_c(out, "\nClouds:\n\n  ");
	cloud_list(out);
	buf_add_char(out, '\n');
}
