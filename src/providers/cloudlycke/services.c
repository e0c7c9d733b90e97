/* services.c: the sections `addressPools`, `loadBalancers` and `routes` of an inventory.
 *
 * They are read and checked so that a file is either right or wrong as a whole. The changes of hooks, of HAProxy's part and
 * of the presence of a section take effect at the next start (guard.c); pools are followed.
 */
#include "providers/cloudlycke/check.h"
#include "providers/cloudlycke/file.h"
#include "providers/cloudlycke/quote.h"

enum {
	POOLS_MAX = 1000,
	ROUTES_MAX = 10000,
};

/* ---- addressPools ------------------------------------------------------------------------------------ */

static void
read_pool_name(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
               void *into)
{
	struct cl_schema *schema = cl_file_of(r)->schema;
	struct cl_pool *pool = CONTAINER_OF((struct str *)into, struct cl_pool, name);

	cl_read_string(r, field, node, into);
	if (pool->name.len > 0)
		cl_claim(r, node, &cl_file_of(r)->pools, pool->name, pool, "addressPools",
		         schema->pools, sizeof(*pool));
}

static void
read_pool_default(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                  void *into)
{
	const struct cl_pool *pool = CONTAINER_OF((bool *)into, struct cl_pool, is_default);
	struct cl_file *f = cl_file_of(r);

	cl_read_bool(r, field, node, into);
	if (pool->is_default && f->has_default_pool)
		cl_complain(r, node, "pool %s: another pool is already the default",
		            cl_q(&r->scratch, pool->name));
	f->has_default_pool = f->has_default_pool || pool->is_default;
}

static const struct cl_field pool_fields[] = {
	{ "name", read_pool_name, IN(cl_pool, name), .rule = &cl_rule_pool_name,
	  .is_required = true },
	{ "addresses", cl_read_blocks, IN(cl_pool, addresses), .is_required = true },
	{ "avoid", cl_read_blocks, IN(cl_pool, avoid) },
	{ "avoidEdges", cl_read_bool, IN(cl_pool, avoids_edges) },
	{ "default", read_pool_default, IN(cl_pool, is_default) },
	{ "namespaces", cl_read_strings, IN(cl_pool, namespaces), .rule = &cl_rule_namespace },
	{ "hostnameTemplate", cl_read_string, IN(cl_pool, hostname_template),
	  .rule = &cl_rule_hostname_template },
	{ "ipMode", cl_read_choice, IN(cl_pool, ip_mode), .rule = &cl_rule_ip_mode },
};

static void
read_pool(struct cl_reader *r, UNUSED const struct cl_field *field, const struct yaml_node *node,
          void *item)
{
	struct cl_pool *pool = item;

	pool->avoids_edges = true;
	cl_read_map(r, node, pool_fields, ARRAY_LEN(pool_fields), pool);
}

void
cl_read_pools(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
              UNUSED void *into)
{
	struct cl_schema *schema = cl_file_of(r)->schema;

	schema->pools = cl_new_list(r, node, POOLS_MAX, sizeof(schema->pools[0]), &schema->n_pools);
	cl_read_items(r, field, node, schema->n_pools, schema->pools, sizeof(schema->pools[0]),
	              read_pool);
	cl_check_pools(r, node, schema);
}

/* ---- loadBalancers, routes --------------------------------------------------------------------------- */

static const struct cl_field haproxy_fields[] = {
	{ "file", cl_read_plain_path, IN(cl_haproxy_config, file), .is_required = true },
	{ "statsSocket", cl_read_plain_path, IN(cl_haproxy_config, stats_socket) },
	{ "check", cl_read_command, IN(cl_haproxy_config, check) },
	{ "reload", cl_read_command, IN(cl_haproxy_config, reload), .is_required = true },
};

static void
read_haproxy(struct cl_reader *r, UNUSED const struct cl_field *field, const struct yaml_node *node,
             void *into)
{
	static struct str check[] = { { "haproxy", 7 }, { "-c", 2 }, { "-f", 2 } };
	struct cl_haproxy_config *haproxy = into;

	haproxy->is_present = true;
	haproxy->check = (struct cl_strings){ check, ARRAY_LEN(check) };
	cl_read_map(r, node, haproxy_fields, ARRAY_LEN(haproxy_fields), haproxy);
}

static const struct cl_field balancer_fields[] = {
	{ "hook", cl_read_hook, IN(cl_balancers, hook) },
	{ "hookTimeout", cl_read_duration, IN(cl_balancers, hook_timeout_ns),
	  .rule = &cl_rule_hook_timeout },
	{ "class", cl_read_string, IN(cl_balancers, class_name) },
	{ "localOnly", cl_read_bool, IN(cl_balancers, is_local_only) },
	{ "haproxy", read_haproxy, IN(cl_balancers, haproxy) },
};

void
cl_read_balancers(struct cl_reader *r, UNUSED const struct cl_field *field,
                  const struct yaml_node *node, void *into)
{
	struct cl_balancers *balancers = into;

	balancers->is_present = true;
	cl_read_map(r, node, balancer_fields, ARRAY_LEN(balancer_fields), balancers);
}

static void
read_route_name(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                void *into)
{
	struct cl_routes *routes = &cl_file_of(r)->schema->routes;
	struct cl_route *route = CONTAINER_OF((struct str *)into, struct cl_route, name);

	cl_read_string(r, field, node, into);
	if (route->name.len > 0)
		cl_claim(r, node, &cl_file_of(r)->routes, route->name, route, "routes.static",
		         routes->fixed, sizeof(*route));
}

static void
read_target(struct cl_reader *r, UNUSED const struct cl_field *field, const struct yaml_node *node,
            void *into)
{
	struct str text;

	if (!cl_expect_string(r, node, &text))
		return;
	if (!cl_names_find(cl_file_of(r)->names, text))
		cl_complain(r, node, "target node %s is not a machine", cl_q(&r->scratch, text));
	else
		*(struct str *)into = cl_keep(r, text);
}

/* Two routes to one network would contradict each other, whatever the spelling. */
static void
claim_network(struct cl_reader *r, const struct yaml_node *node, struct str text,
              struct cl_route *route)
{
	char spelling[80] = "";
	struct buf b = BUF_FIXED(spelling);
	struct cl_route *before;

	ip_format(&b, &route->destination.ip);
	buf_addf(&b, "/%u", route->destination.bits);
	before = map_get(&cl_file_of(r)->networks, buf_str(&b));
	if (before)
		cl_complain(r, node, "destination %s is already routed to %s",
		            cl_q(&r->scratch, text), cl_q(&r->scratch, before->target_node));
	else
		map_put(&cl_file_of(r)->networks, arena_str(&r->scratch, buf_str(&b)), route);
}

static void
read_destination(struct cl_reader *r, UNUSED const struct cl_field *field,
                 const struct yaml_node *node, void *into)
{
	struct cl_route *route = CONTAINER_OF((struct ip_net *)into, struct cl_route, destination);
	struct ip_net net;
	struct str text;

	if (!cl_expect_string(r, node, &text))
		return;
	if (!ip_net_parse(text, &net)) {
		cl_complain_of(r, node, text, "is not a CIDR");
	} else if (ip_net_has_host_bits(&net)) {
		cl_complain(r, node, "destination %s has host bits set", cl_q(&r->scratch, text));
	} else {
		route->destination = net;
		claim_network(r, node, text, route);
	}
}

static const struct cl_field route_fields[] = {
	{ "name", read_route_name, IN(cl_route, name), .is_required = true },
	{ "targetNode", read_target, IN(cl_route, target_node), .is_required = true },
	{ "destinationCIDR", read_destination, IN(cl_route, destination), .is_required = true },
};

static void
read_route(struct cl_reader *r, UNUSED const struct cl_field *field, const struct yaml_node *node,
           void *item)
{
	cl_read_map(r, node, route_fields, ARRAY_LEN(route_fields), item);
}

static void
read_static_routes(struct cl_reader *r, const struct cl_field *field, const struct yaml_node *node,
                   void *into)
{
	struct cl_routes *routes = CONTAINER_OF((struct cl_route **)into, struct cl_routes, fixed);

	routes->fixed = cl_new_list(r, node, ROUTES_MAX, sizeof(routes->fixed[0]),
	                            &routes->n_fixed);
	cl_read_items(r, field, node, routes->n_fixed, routes->fixed, sizeof(routes->fixed[0]),
	              read_route);
}

static const struct cl_field routes_fields[] = {
	{ "static", read_static_routes, IN(cl_routes, fixed) },
	{ "hook", cl_read_hook, IN(cl_routes, hook) },
	{ "hookTimeout", cl_read_duration, IN(cl_routes, hook_timeout_ns),
	  .rule = &cl_rule_hook_timeout },
};

void
cl_read_routes(struct cl_reader *r, UNUSED const struct cl_field *field,
               const struct yaml_node *node, void *into)
{
	struct cl_routes *routes = into;

	routes->is_present = true;
	cl_read_map(r, node, routes_fields, ARRAY_LEN(routes_fields), routes);
}
