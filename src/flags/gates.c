/* flags/gates.c: --feature-gates (docs/spec/framework.md, "Feature gates").
 *
 * The gates of the Go programs change with every release, and nearly all of them are about what is
 * not in this program: whatever is no gate of ours is ignored with a warning, so that a drop-in
 * command line goes on to work.
 */
#include "flags/table.h"

static const struct gate {
	const char *name;
	const char *group; /* turned on by it, unless named */
	size_t offset;
} gates[] = {
	{ "CloudControllerManagerWatchBasedRoutesReconciliation", "AllAlpha",
	  AT(gates.watch_routes) },
};

static const char *const groups[] = { "AllAlpha", "AllBeta" };

static bool
parse_gate(struct str text, struct str *ret_name, bool *ret_is_on, struct buf *problems)
{
	struct str value;

	if (!str_cut(text, '=', ret_name, &value)) {
		buf_addf(problems, "--feature-gates: missing bool value for %" STR_FMT "\n",
		         STR_ARG(text));
		return false;
	}
	*ret_name = str_trim(*ret_name);
	value = str_trim(value);
	*ret_is_on = str_eq_nocase(value, STR("true")) || str_eq_c(value, "1");
	if (*ret_is_on || str_eq_nocase(value, STR("false")) || str_eq_c(value, "0"))
		return true;
	buf_addf(problems,
	         "--feature-gates: invalid value of %" STR_FMT "=%" STR_FMT
	         ": want true or false\n",
	         STR_ARG(*ret_name), STR_ARG(value));
	return false;
}

static bool
is_group(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
		if (str_eq_c(name, groups[i]))
			return true;
	}
	return false;
}

static void
set_group(struct options *o, struct str name, bool is_on)
{
	for (size_t i = 0; i < ARRAY_LEN(gates); i++) {
		if (str_eq_c(name, gates[i].group))
			*(bool *)((char *)o + gates[i].offset) = is_on;
	}
}

static bool
set_gate(struct options *o, struct str name, bool is_on)
{
	for (size_t i = 0; i < ARRAY_LEN(gates); i++) {
		if (str_eq_c(name, gates[i].name)) {
			*(bool *)((char *)o + gates[i].offset) = is_on;
			return true;
		}
	}
	return false;
}

/* A gate by its own name wins over its group, wherever it stands: groups first, then the others. */
static void
resolve(struct options *o, struct str text, bool wants_groups, struct buf *problems,
        struct buf *warnings)
{
	char no_text[1] = "";
	struct buf nowhere = BUF_FIXED(no_text);
	struct str name;
	bool is_on;

	if (!parse_gate(text, &name, &is_on, wants_groups ? &nowhere : problems))
		return;
	if (wants_groups)
		set_group(o, name, is_on);
	else if (!is_group(name) && !set_gate(o, name, is_on))
		buf_addf(warnings, "feature gate %" STR_FMT " has no meaning here, ignoring it\n",
		         STR_ARG(name));
}

void
gates_resolve(struct options *o, struct buf *problems, struct buf *warnings)
{
	for (size_t i = 0; i < o->gate_texts.n; i++)
		resolve(o, o->gate_texts.items[i], /*wants_groups=*/true, problems, warnings);
	for (size_t i = 0; i < o->gate_texts.n; i++)
		resolve(o, o->gate_texts.items[i], /*wants_groups=*/false, problems, warnings);
}
