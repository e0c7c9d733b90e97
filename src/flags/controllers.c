/* flags/controllers.c: --controllers (docs/spec/framework.md, "Enabling controllers"). */
#include "flags/flags.h"
#include "flags/table.h"

/* docs/spec/framework.md, "Controllers" */
static const struct {
	const char *canonical, *alias;
} known[] = {
	{ "cloud-node-controller", "cloud-node" },
	{ "cloud-node-lifecycle-controller", "cloud-node-lifecycle" },
	{ "service-lb-controller", "service" },
	{ "node-route-controller", "route" },
};

static bool
find_canonical(struct str name, struct str *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (str_eq_c(name, known[i].canonical) || str_eq_c(name, known[i].alias)) {
			*ret = str_c(known[i].canonical);
			return true;
		}
	}
	return false;
}

static void
resolve(struct options *o, struct str *item, struct buf *problems)
{
	bool is_off = str_starts(*item, STR("-"));
	struct str name = str_skip(*item, is_off ? 1 : 0);
	struct str canonical;

	if (str_eq_c(*item, "*"))
		return;
	if (!find_canonical(name, &canonical))
		buf_addf(problems,
		         "--controllers: \"%" STR_FMT
		         "\" is not in the list of known controllers\n",
		         STR_ARG(name));
	else if (is_off)
		*item = arena_printf(&o->arena, "-%" STR_FMT, STR_ARG(canonical));
	else
		*item = canonical;
}

void
controllers_resolve(struct options *o, struct buf *problems)
{
	for (size_t i = 0; i < o->controllers.n; i++)
		resolve(o, &o->controllers.items[i], problems);
}

bool
controllers_enabled(const struct options *o, const char *canonical)
{
	bool has_star = false;

	for (size_t i = 0; i < o->controllers.n; i++) {
		struct str item = o->controllers.items[i];

		if (str_eq_c(item, canonical))
			return true;
		if (str_starts(item, STR("-")) && str_eq_c(str_skip(item, 1), canonical))
			return false;
		has_star |= str_eq_c(item, "*");
	}
	return has_star;
}
