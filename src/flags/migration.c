/* flags/migration.c: the file of --leader-migration-config (framework.md 7.6).
 *
 * Upstream moves controllers from kube-controller-manager to a cloud controller manager with a second lock. Here the
 * configuration is only checked, so that a mistake shows; the controllers all run under the one lock, which main tells
 * with a warning. Decoding is strict, as upstream's: a field that is not known, or twice there, is a problem.
 */
#include "flags/table.h"

#include "base/file.h"
#include "base/limits.h"
#include "base/yaml.h"

#define API_GROUP "controllermanager.config.k8s.io/"

static const struct migration_rule built_in[] = {
	{ STR("route-controller"), STR("*") },
	{ STR("service-controller"), STR("*") },
	{ STR("cloud-node-lifecycle-controller"), STR("*") },
};

struct migration_reader {
	struct options *options;
	const char *file;
	struct buf *problems;
};

static void PRINTF_LIKE(3, 4)
	add_problem(struct migration_reader *r, int line, const char *fmt, ...)
{
	va_list args;

	buf_addf(r->problems, "--leader-migration-config: %s:%d: ", r->file, line);
	va_start(args, fmt);
	buf_addv(r->problems, fmt, args);
	va_end(args);
	buf_add_char(r->problems, '\n');
}

/* Every key is one of known (NULL at the end), and once there. */
static bool
check_keys(struct migration_reader *r, const struct yaml_node *map, const char *const *known)
{
	size_t before = r->problems->len;

	for (size_t i = 0; i < map->n; i++) {
		struct str key = map->keys[i].text;
		const char *const *name = known;

		while (*name && !str_eq_c(key, *name))
			name++;
		if (!*name)
			add_problem(r, map->keys[i].line, "unknown field \"%" STR_FMT "\"",
			            STR_ARG(key));
		else if (yaml_get(map, key) != &map->items[i])
			add_problem(r, map->keys[i].line, "field \"%" STR_FMT "\" is there twice",
			            STR_ARG(key));
	}
	return r->problems->len == before;
}

/* The text of a field, empty when it is not there. */
static struct str
read_text(struct migration_reader *r, const struct yaml_node *map, const char *key)
{
	const struct yaml_node *node = yaml_get(map, str_c(key));

	if (!node || node->kind == YAML_NULL)
		return STR_EMPTY;
	if (node->kind != YAML_SCALAR) {
		add_problem(r, node->line, "%s must be a string, not a %s", key,
		            yaml_kind_name(node));
		return STR_EMPTY;
	}
	return arena_str(&r->options->arena, node->text);
}

static void
check_head(struct migration_reader *r, const struct yaml_node *doc)
{
	static const char *const versions[] = { "v1alpha1", "v1beta1", "v1" };
	struct str kind = read_text(r, doc, "kind"), api = read_text(r, doc, "apiVersion");

	if (!str_eq_c(kind, "LeaderMigrationConfiguration"))
		add_problem(r, doc->line, "kind must be LeaderMigrationConfiguration");
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		if (str_starts(api, STR(API_GROUP)) &&
		    str_eq_c(str_skip(api, sizeof(API_GROUP) - 1), versions[i]))
			return;
	}
	add_problem(r, doc->line, "apiVersion must be " API_GROUP "v1, v1beta1 or v1alpha1");
}

static void
read_rule(struct migration_reader *r, const struct yaml_node *node)
{
	static const char *const known[] = { "name", "component", NULL };
	struct migration_options *m = &r->options->migration;
	struct migration_rule *rule = &m->rules[m->n_rules];

	if (node->kind != YAML_MAP) {
		add_problem(r, node->line, "an entry of controllerLeaders must be a map, not a %s",
		            yaml_kind_name(node));
		return;
	}
	check_keys(r, node, known);
	rule->controller = read_text(r, node, "name");
	rule->component = read_text(r, node, "component");
	if (rule->controller.len == 0)
		add_problem(r, node->line, "controllerLeaders: name must be set");
	if (rule->component.len == 0)
		add_problem(r, node->line, "controllerLeaders: component must be set");
	m->n_rules++;
}

static void
read_rules(struct migration_reader *r, const struct yaml_node *doc)
{
	struct migration_options *m = &r->options->migration;
	const struct yaml_node *list = yaml_get(doc, STR("controllerLeaders"));

	if (!list || list->kind == YAML_NULL)
		return;
	if (list->kind != YAML_LIST) {
		add_problem(r, list->line, "controllerLeaders must be a list, not a %s",
		            yaml_kind_name(list));
		return;
	}
	m->rules = arena_calloc(&r->options->arena, list->n + 1, sizeof(*m->rules));
	for (size_t i = 0; i < list->n; i++)
		read_rule(r, &list->items[i]);
}

static void
read_document(struct migration_reader *r, const struct yaml_node *doc)
{
	static const char *const known[] = { "kind",         "apiVersion",        "leaderName",
		                             "resourceLock", "controllerLeaders", NULL };
	struct migration_options *m = &r->options->migration;

	check_keys(r, doc, known);
	check_head(r, doc);
	m->leader_name = read_text(r, doc, "leaderName");
	m->resource_lock = read_text(r, doc, "resourceLock");
	if (m->leader_name.len == 0)
		add_problem(r, doc->line, "leaderName must be set");
	if (m->resource_lock.len == 0)
		m->resource_lock = STR("leases");
	if (!str_eq_c(m->resource_lock, "leases") && !str_eq_c(m->resource_lock, "endpoints"))
		add_problem(r, doc->line, "resourceLock must be leases or endpoints");
	read_rules(r, doc);
}

void
migration_parse(struct options *o, struct str text, const char *file, struct buf *problems)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct migration_reader r = { o, file, problems };
	struct yaml_node doc;
	struct error err;
	int line = 0;

	if (!yaml_parse(text, &arena, &doc, &line, &err))
		add_problem(&r, line, "%s", err.msg);
	else if (doc.kind != YAML_MAP)
		add_problem(&r, doc.line, "must be a map, not a %s", yaml_kind_name(&doc));
	else
		read_document(&r, &doc);
}

static void
use_built_in(struct options *o)
{
	struct migration_options *m = &o->migration;

	m->leader_name = STR("cloud-provider-extraction-migration");
	m->resource_lock = STR("leases");
	m->rules = arena_calloc(&o->arena, ARRAY_LEN(built_in), sizeof(*m->rules));
	for (m->n_rules = 0; m->n_rules < ARRAY_LEN(built_in); m->n_rules++)
		m->rules[m->n_rules] = built_in[m->n_rules];
}

static void
read_file(struct options *o, struct buf *problems)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_MIGRATION_FILE);
	struct error err;

	if (file_read(o->migration.config, &text, &err))
		migration_parse(o, buf_str(&text), o->migration.config, problems);
	else
		buf_addf(problems, "--leader-migration-config: %s\n", err.msg);
}

void
migration_load(struct options *o, struct buf *problems, struct buf *warnings)
{
	if (!o->migration.is_enabled)
		return;
	if (o->migration.config[0])
		read_file(o, problems);
	else
		use_built_in(o);
	buf_add_c(
		warnings,
		"--enable-leader-migration: the configuration is checked, but no controller is migrated: all run "
		"under the one lock; turn those off in kube-controller-manager, or here with --controllers\n");
}
