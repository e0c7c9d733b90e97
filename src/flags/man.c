/* flags/man.c: the options of docs/ccmd.8, in mdoc(7). See reference.h. */
#include "flags/reference.h"

#include "base/limits.h"
#include "flags/table.h"

/* At its end a sentence is followed by a line break, from which the formatter makes its own
 * space. */
static bool
ends_sentence(const char *text, const char *at)
{
	return at > text && at[0] == ' ' && at[-1] == '.';
}

/* A plain '-' would become a hyphen, and a line may not begin with what begins a request. */
static void
add_text(struct buf *out, const char *text)
{
	for (const char *at = text; *at; at++) {
		bool is_first = at == text || ends_sentence(text, at - 1);

		if (ends_sentence(text, at))
			buf_add_char(out, '\n');
		else if (*at == '-' || *at == '\\')
			buf_add_c(out, *at == '-' ? "\\-" : "\\e");
		else if (is_first && (*at == '.' || *at == '\''))
			buf_addf(out, "\\&%c", *at);
		else
			buf_add_char(out, *at);
	}
	buf_add_char(out, '\n');
}

static void
add_why(struct buf *out, const struct flag *flag)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));

	if (flag->effect == FLAG_HONOURED)
		return;
	buf_addf(&text, "%s: %s.",
	         flag->effect == FLAG_DEPRECATED ? "Deprecated, without effect"
	                                         : "Accepted without effect",
	         flag->why);
	add_text(out, text.ptr);
}

static void
add_default(struct buf *out, const struct flag *flag)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(4));

	flag_add_default(flag, &text);
	if (text.len == 0)
		return;
	buf_add_c(out, "The default is ");
	buf_add_char(&text, '.');
	add_text(out, text.ptr);
}

static void
add_flag(struct buf *out, const struct flag *flag)
{
	const char *type = flag_type(flag);
	bool is_long = flag_dashes(flag)[1] == '-';

	buf_addf(out, ".It Fl %s%s", is_long ? "-" : "", flag->name);
	if (type[0])
		buf_addf(out, " Ns = Ns Ar %s", type);
	buf_add_char(out, '\n');
	add_text(out, flag->help);
	add_why(out, flag);
	add_default(out, flag);
}

static void
add_group(struct buf *out, const struct flag_group *group)
{
	buf_addf(out, ".Ss %s\n.Bl -tag -width Ds\n", group->name);
	for (size_t i = 0; i < group->n; i++)
		add_flag(out, &group->flags[i]);
	buf_add_c(out, ".El\n");
}

void
flags_man(struct buf *out)
{
	for (const struct flag_group *const *group = flag_groups; *group; group++)
		add_group(out, *group);
}
