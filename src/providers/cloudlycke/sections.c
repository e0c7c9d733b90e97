/* sections.c: see sections.h.
 *
 * To add a field: a member in schema.h, a line in a table here, a line in docs/cloudlycke.md, a test.
 */
#include "providers/cloudlycke/sections.h"

#include "providers/cloudlycke/check.h"
#include "providers/cloudlycke/file.h"
#include "providers/cloudlycke/quote.h"

struct cl_machine *
cl_names_find(const struct cl_names *names, struct str name_or_alias)
{
	struct cl_machine *machine = map_get(&names->by_name, name_or_alias);

	return machine ? machine : map_get(&names->by_alias, name_or_alias);
}

bool
cl_is_taken(struct cl_reader *r, const struct yaml_node *node, struct str name, const void *before,
            const char *list, const void *first, size_t size)
{
	if (before)
		cl_complain(r, node, "%s already used by %s[%zu]", cl_q(&r->scratch, name), list,
		            (size_t)((const char *)before - (const char *)first) / size);
	return before != NULL;
}

void
cl_claim(struct cl_reader *r, const struct yaml_node *node, struct map *names, struct str name,
         void *item, const char *list, const void *first, size_t size)
{
	if (!cl_is_taken(r, node, name, map_get(names, name), list, first, size))
		map_put(names, name, item);
}

/* ---- apiVersion, kind -------------------------------------------------------------------------------- */

static void
read_exactly(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
             UNUSED void *into)
{
	struct str text;

	if (!cl_expect_string(r, node, &text))
		return;
	if (!str_eq_c(text, field->rule->complaint))
		cl_complain(r, node, "unsupported %s %s (want \"%s\")", field->name,
		            cl_q(&r->scratch, text), field->rule->complaint);
}

/* ---- cloud, reload, state ---------------------------------------------------------------------------- */

static const struct cl_field cloud_fields[] = {
	{ "region", cl_read_string, IN(cl_cloud, region), .rule = &cl_rule_label_value },
	{ "zone", cl_read_string, IN(cl_cloud, zone), .rule = &cl_rule_label_value },
	{ "self", cl_read_string, IN(cl_cloud, self) },
	{ "clusterID", cl_read_string, IN(cl_cloud, cluster_id) },
	{ "requireClusterID", cl_read_bool, IN(cl_cloud, requires_cluster_id) },
	{ "unknownMachines", cl_read_choice, IN(cl_cloud, unknown_machines),
	  .rule = &cl_rule_unknown_machines },
};

static const struct cl_field reload_fields[] = {
	{ "enabled", cl_read_bool, IN(cl_reload, is_enabled) },
	{ "debounce", cl_read_duration, IN(cl_reload, debounce_ns), .rule = &cl_rule_debounce },
	{ "poll", cl_read_duration, IN(cl_reload, poll_ns), .rule = &cl_rule_poll },
	{ "maxRemoval", cl_read_percent, IN(cl_reload, max_removal_percent) },
};

static const struct cl_field state_fields[] = {
	{ "file", cl_read_string, IN(cl_state_config, file) },
};

static void
read_cloud(struct cl_reader *r, UNUSED const struct cl_field *field, const struct yaml_node *node,
           void *into)
{
	cl_read_map(r, node, cloud_fields, ARRAY_LEN(cloud_fields), into);
}

static void
read_reload(struct cl_reader *r, UNUSED const struct cl_field *field, const struct yaml_node *node,
            void *into)
{
	cl_read_map(r, node, reload_fields, ARRAY_LEN(reload_fields), into);
}

static void
read_state(struct cl_reader *r, UNUSED const struct cl_field *field, const struct yaml_node *node,
           void *into)
{
	cl_read_map(r, node, state_fields, ARRAY_LEN(state_fields), into);
}

/* ---- the whole --------------------------------------------------------------------------------------- */

static const struct cl_rule api_version = { .complaint = "cloudlycke.io/v1alpha1" };
static const struct cl_rule kind = { .complaint = "Inventory" };

/* Machines before what refers to them. */
static const struct cl_field file_fields[] = {
	{ "apiVersion", read_exactly, .rule = &api_version, .is_required = true },
	{ "kind", read_exactly, .rule = &kind, .is_required = true },
	{ "cloud", read_cloud, IN(cl_schema, cloud) },
	{ "reload", read_reload, IN(cl_schema, reload) },
	{ "state", read_state, IN(cl_schema, state) },
	{ "instanceTypes", cl_read_types, IN(cl_schema, types) },
	{ "machines", cl_read_machines, IN(cl_schema, machines), .is_required = true },
	{ "addressPools", cl_read_pools, IN(cl_schema, pools) },
	{ "loadBalancers", cl_read_balancers, IN(cl_schema, balancers) },
	{ "routes", cl_read_routes, IN(cl_schema, routes) },
};

static const struct cl_schema defaults = {
	.cloud = {
		.region = { "", 0 },
		.zone = { "", 0 },
	},
	.reload = {
		.is_enabled = true,
		.debounce_ns = 250 * NS_PER_MS,
		.poll_ns = 5 * NS_PER_SEC,
		.max_removal_percent = 50,
	},
	.balancers = { .hook_timeout_ns = 30 * NS_PER_SEC },
	.routes = { .hook_timeout_ns = 30 * NS_PER_SEC },
};

static void
apply_zone(struct cl_schema *schema)
{
	for (size_t i = 0; i < schema->n_machines; i++) {
		struct cl_machine *machine = &schema->machines[i];

		if (machine->zone.len == 0)
			machine->zone = schema->cloud.zone;
		if (machine->region.len == 0)
			machine->region = schema->cloud.region;
	}
}

static void
check_self(struct cl_file *f, const struct yaml_node *root)
{
	struct str self = f->schema->cloud.self;
	size_t len;

	if (self.len == 0 || cl_names_find(f->names, self))
		return;
	len = cl_enter(&f->r, "cloud.self");
	cl_complain(&f->r, yaml_get(yaml_get(root, STR("cloud")), STR("self")),
	            "self %s is not a machine", cl_q(&f->r.scratch, self));
	cl_leave(&f->r, len);
}

static void
read_root(struct cl_file *f, const struct yaml_node *root)
{
	cl_read_map(&f->r, root, file_fields, ARRAY_LEN(file_fields), f->schema);
	apply_zone(f->schema);
	check_self(f, root);
}

static void
file_fini(struct cl_file *f)
{
	map_fini(&f->types);
	map_fini(&f->pools);
	map_fini(&f->routes);
	map_fini(&f->networks);
	map_fini(&f->r.interned);
	buf_fini(&f->r.path);
	arena_fini(&f->r.scratch);
}

void
cl_read_schema(struct str text, struct arena *keep, struct cl_problems *problems,
               struct cl_names *names, struct cl_schema *ret)
{
	CLEANUP(file_fini)
	struct cl_file f = {
		.r = { .problems = problems, .keep = keep, .path = BUF_INIT(KIB(4)) },
		.schema = ret,
		.names = names,
	};
	struct yaml_node root;
	struct error err;
	int line = 0;

	*ret = defaults;
	*names = (struct cl_names){ .by_name = MAP_OF(struct cl_machine, name),
		                    .by_id = MAP_OF(struct cl_machine, id) };
	if (yaml_parse(text, &f.r.scratch, &root, &line, &err))
		read_root(&f, &root);
	else
		cl_problems_add(problems, line, STR_EMPTY, "invalid YAML: %s", err.msg);
}
