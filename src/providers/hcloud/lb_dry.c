/* lb_dry.c: notes the changes of a dry run. See lb_converge.h. */
#include "providers/hcloud/lb_converge.h"

#include <inttypes.h>

#include "base/array.h"
#include "base/limits.h"
#include "base/thread.h"
#include "cloud/balancer.h"
#include "cloud/change.h"

/* ---- targets ---- */

static struct dry_field
hz_dry_target_field(const struct hz_lb_run *run, const struct hz_lb_target *target, bool is_removed)
{
	struct arena *arena = run->call->arena;
	const struct node_ref *node = hz_targets_node(&run->targets, target);
	CLEANUP(hz_nodes_fini) struct hz_nodes all = HZ_NODES_INIT;
	struct str machine = target->ip;

	if (target->type == HZ_TARGET_SERVER)
		machine = arena_printf(arena, "server %" PRId64 "%s", target->server,
		                       target->uses_private_ip ? ", private address" : "");
	/* a target that is removed may be a node that the Service does not select any more */
	if (!node && target->type == HZ_TARGET_SERVER) {
		hz_nodes_read(run->tools->host, run->tools->config->dialect, arena, &all);
		node = map_get(&all.by_id, map_key_i64(&target->server));
	}
	return (struct dry_field){
		arena_printf(arena, "target %s%" STR_FMT, node ? "node " : "",
		             STR_ARG(node ? node->name : machine)),
		is_removed ? machine : STR_EMPTY,
		is_removed ? STR_EMPTY : machine,
	};
}

/* ---- targets that the API would refuse ---- */

enum {
	SERVERS_MAX_AGE_S = 60, /* of the list; --dry-run goes on for long */
};

/* With mu held. */
static void
hz_dry_read_servers(struct hz_dry_servers *s, struct hz_api *api, struct call *call)
{
	int64_t now_ns = clock_boot(call->clock);

	if (s->read_boot_ns > 0 && now_ns - s->read_boot_ns < SERVERS_MAX_AGE_S * NS_PER_SEC)
		return;
	hz_servers_fini(&s->list);
	s->list = HZ_SERVERS_INIT;
	s->read_boot_ns = now_ns;
	err_set(&s->err, ERR_UNAVAILABLE, "the list of servers is not complete");
	while (s->list.pages.next > 0) {
		if (!hz_api_admit(api, HZ_URGENT, 1, &s->err) ||
		    !hz_servers_read_page(api, call, &s->list, &s->err))
			return;
	}
}

bool
hz_dry_refuses_target(const struct hz_lb_run *run, const struct hz_lb *lb,
                      const struct hz_lb_target *target)
{
	const struct hz_lb_tools *t = run->tools;
	enum hz_opt_bool is_public = run->desired.is_public;
	const struct hz_server *server;
	struct error why;
	WITH_LOCK(&t->dry_servers->mu);

	if (target->type != HZ_TARGET_SERVER)
		return false;
	if (!target->uses_private_ip &&
	    (is_public == HZ_UNSET ? !lb->is_public : is_public == HZ_NO)) {
		err_set(&why, ERR_INVALID,
		        "the public interface of the load balancer is disabled, so servers can only be "
		        "targets by their private addresses: set the annotation "
		        "load-balancer.hetzner.cloud/use-private-ip to \"true\"");
		dry_failed(run->call->dry, &why);
		return true;
	}
	hz_dry_read_servers(t->dry_servers, t->api, run->call);
	if (!t->dry_servers->list.is_complete) {
		dry_failed(run->call->dry, &t->dry_servers->err);
		return false;
	}
	server = hz_servers_find(&t->dry_servers->list, HZ_BY_ID(target->server));
	if (server &&
	    (!target->uses_private_ip || hz_address_in(&server->private_nets, t->network).len > 0))
		return false;
	err_set(&why, ERR_NOT_FOUND, "target server %" PRId64 " %s", target->server,
	        server ? "is not attached to the network" : "does not exist");
	dry_failed(run->call->dry, &why);
	return true;
}

/* ---- changes ---- */

void
hz_dry_note_step(const struct hz_lb_run *run, const struct hz_step *step)
{
	struct arena *arena = run->call->arena;
	struct change change = {
		.what = "load balancer",
		.request = "PUT /load_balancers/{id}",
		.id = run->lb->id == HZ_DRY_ID ? STR("{id}")
		                               : arena_printf(arena, "%" PRId64, run->lb->id),
		.name = run->lb->name,
		.body = step->body,
		.present = step->present,
		.fields = step->fields,
		.n_fields = step->n_fields,
	};
	struct dry_field field;

	if (step->verb)
		change.request =
			arena_printf(arena, "POST /load_balancers/{id}/actions/%s", step->verb).ptr;
	if (step->listen_port > 0)
		change.prefix = arena_printf(arena, "service %" PRId64 " ", step->listen_port).ptr;
	if (step->target) {
		field = hz_dry_target_field(run, step->target,
		                            str_eq_c(str_c(step->verb), "remove_target"));
		change.fields = &field;
		change.n_fields = 1;
	}
	change_note("", run->call, &change);
}

/* ---- a new balancer ---- */

struct hz_dry_fields {
	struct dry_field *items;
	size_t n, cap;
};

static void
hz_dry_add(struct hz_dry_fields *f, struct str name, struct str value)
{
	if (value.len > 0)
		ARRAY_PUSH(f->items, f->n, f->cap, (struct dry_field){ name, STR_EMPTY, value });
}

/* A part that is left to the cloud's default has no field. */
void
hz_dry_create(struct hz_lb_run *run, struct str body, const struct hz_lb_type *type)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	const struct hz_lb_desired *desired = &run->desired;
	struct arena *arena = run->call->arena;
	struct hz_lb *lb = ARENA_NEW(arena, struct hz_lb);
	struct hz_dry_fields f = { 0 };
	struct error ignored;

	if (!json_parse(body, &doc, &ignored))
		doc = NULL; /* bodies of our own are always valid */
	hz_lb_read_request(yyjson_doc_get_root(doc), type, arena, lb);
	hz_dry_add(&f, STR("type"), lb->type.name);
	hz_dry_add(&f, STR("location"), desired->location);
	hz_dry_add(&f, STR("network zone"), desired->network_zone);
	hz_dry_add(&f, STR("algorithm"), lb->algorithm);
	hz_dry_add(&f, STR("label " HZ_LABEL_UID), desired->uid);
	hz_dry_add(&f, STR("label " HZ_LABEL_CLUSTER), desired->cluster);
	if (!lb->is_public)
		hz_dry_add(&f, STR("public interface"), STR("disabled"));
	for (size_t i = 0; i < HZ_N_FAMILIES; i++) {
		const struct hz_primary_ref *ref = &desired->primary_ips[i];

		if (ref->is_set)
			hz_dry_add(&f, arena_printf(arena, "Primary IP %" PRId64, ref->id),
			           ref->ip);
	}
	for (size_t i = 0; i < lb->nets.n; i++)
		hz_dry_add(&f, arena_printf(arena, "network %" PRId64, lb->nets.items[i].network),
		           lb->nets.items[i].ip);
	for (size_t i = 0; i < lb->n_services; i++)
		hz_dry_add(&f, arena_printf(arena, "service %" PRId64, lb->services[i].listen_port),
		           hz_plan_service_text(&lb->services[i], arena));
	for (size_t i = 0; i < lb->n_targets; i++) {
		if (!hz_dry_refuses_target(run, lb, &lb->targets[i]))
			ARRAY_PUSH(f.items, f.n, f.cap,
			           hz_dry_target_field(run, &lb->targets[i],
			                               /*is_removed=*/false));
	}
	balancer_note(run->call, DRY_CREATE, lb->name, STR("POST /load_balancers"), f.items, f.n);
	free(f.items);
	run->lb = lb;
}

/* ---- certificates ---- */

void
hz_dry_order_certificate(struct call *call, const struct hz_lb_desired *desired,
                         struct hz_certificate *ret, struct hz_action *ret_action)
{
	CLEANUP(buf_fini) struct buf domains = BUF_INIT(LIMIT_HTTP_REQUEST);
	struct dry_field field = { .name = STR("domain names"), .old = STR_EMPTY };

	for (size_t i = 0; i < desired->n_domains; i++)
		buf_addf(&domains, "%s%" STR_FMT, i > 0 ? ", " : "", STR_ARG(desired->domains[i]));
	field.new = buf_str(&domains);
	change_note("", call,
	            &(struct change){
			    .what = "certificate",
			    .request = "POST /certificates",
			    .name = desired->certificate_name,
			    .fields = &field,
			    .n_fields = 1,
		    });
	*ret = (struct hz_certificate){ .id = HZ_DRY_ID,
		                        .name = desired->certificate_name,
		                        .uid = desired->uid,
		                        .is_managed = true };
	*ret_action = (struct hz_action){ .id = 1 };
}
