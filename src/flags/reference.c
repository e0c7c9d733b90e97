/* flags/reference.c: see reference.h. */
#include "flags/reference.h"

#include "flags/table.h"

static void
add_type(const struct flag *flag, struct buf *out)
{
	const char *type = flag_type(flag);

	if (flag->kind == FLAG_VERSION)
		type = "version";
	buf_add_c(out, type[0] ? type : "bool");
}

static void
add_shown_default(const struct flag *flag, struct buf *out)
{
	if (flag->fallback && flag->fallback[0])
		buf_addf(out, "`%s`", flag->fallback);
}

static void
add_effect(const struct flag *flag, struct buf *out)
{
	switch (flag->effect) {
	case FLAG_HONOURED:
		buf_addf(out, "%s", flag->help);
		break;
	case FLAG_NO_EFFECT:
		buf_addf(out, "*Accepted without effect*: %s.", flag->why);
		break;
	case FLAG_DEPRECATED:
		buf_addf(out, "*Deprecated, without effect*: %s.", flag->why);
		break;
	}
}

static void
add_row(const struct flag *flag, struct buf *out)
{
	buf_addf(out, "| `%s%s` | ", flag_dashes(flag), flag->name);
	add_type(flag, out);
	buf_add_c(out, " | ");
	add_shown_default(flag, out);
	buf_add_c(out, " | ");
	add_effect(flag, out);
	buf_add_c(out, " |\n");
}

static void
add_group(const struct flag_group *group, struct buf *out)
{
	buf_addf(out, "\n## %s\n\n| flag | type | default | effect |\n|---|---|---|---|\n",
	         group->name);
	for (size_t i = 0; i < group->n; i++)
		add_row(&group->flags[i], out);
}

void
flags_reference(struct buf *out)
{
	buf_add_c(
		out,
		"# Flags\n\n"
		"All flags of ccmd, and all of the Go framework that it stands in for (Kubernetes 1.36). Spellings: "
		"`--flag=value`, `--flag value`, a bare `--flag` for true, `_` for `-`, `-v=4`; strings may be given "
		"with commas or by repeating the flag. Where the default is `auto`, the program chooses, and a value "
		"is a limit. All problems of a command line are reported together, and then nothing is started.\n\n"
		"*Accepted without effect*: the flag is checked like the others, and one line of the log says that it "
		"means nothing here. *Deprecated*: a warning says so.\n\n"
		"Made by `tools/reference` from the table that also parses.\n");
	for (const struct flag_group *const *group = flag_groups; *group; group++)
		add_group(*group, out);
	buf_add_c(
		out,
		"\n## Refused\n\nUnknown here, as in the Go programs of today; the message gives the "
		"reason.\n\n| flag | reason |\n|---|---|\n");
	for (const struct refused_flag *flag = refused_flags; flag->name; flag++)
		buf_addf(out, "| `--%s` | %s |\n", flag->name, flag->why);
}
