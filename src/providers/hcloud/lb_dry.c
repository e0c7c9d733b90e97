/* lb_dry.c: see lb_dry.h.
 *
 * A change is noted with the values that its request would change: the body of the request is
 * compared with the balancer as it is. The API leaves a member of a service unchanged that the body
 * does not have, so such a member is not a field of the change.
 */
#include "providers/hcloud/lb_dry.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/limits.h"
#include "base/thread.h"
#include "cloud/balancer.h"
#include "providers/hcloud/lb_adopt.h"
#include "providers/hcloud/lb_converge.h"

/* The fields of one change. All texts are in the arena, or live as long as the run. */
struct hz_dry {
	const struct hz_lb_run *run;
	struct arena *arena;
	struct dry_field *fields;
	size_t n, cap;
};

static struct hz_dry
hz_dry_of(const struct hz_lb_run *run)
{
	return (struct hz_dry){ .run = run, .arena = run->call->arena };
}

static void
hz_dry_fini(struct hz_dry *d)
{
	free(d->fields);
}

static void
hz_dry_add(struct hz_dry *d, struct str name, struct str old, struct str new)
{
	if (!str_eq(old, new))
		ARRAY_PUSH(d->fields, d->n, d->cap, (struct dry_field){ name, old, new });
}

/* action: "/actions/add_service", or empty. */
static void
hz_dry_note(const struct hz_dry *d, enum dry_verb verb, const struct hz_lb *lb, const char *method,
            struct str action)
{
	struct str id = STR("{id}"), request;

	if (lb->id != HZ_DRY_ID)
		id = arena_printf(d->arena, "%" PRId64, lb->id);
	request = arena_printf(d->arena, "%s /load_balancers/%" STR_FMT "%" STR_FMT, method,
	                       STR_ARG(id), STR_ARG(action));
	balancer_note(d->run->call, verb, lb->name, request, d->fields, d->n);
}

/* NULL: there is no body. Bodies of our own are always valid. */
static yyjson_doc *
hz_dry_parse(struct str body)
{
	yyjson_doc *doc = NULL;
	struct error ignored;

	return body.len > 0 && json_parse(body, &doc, &ignored) ? doc : NULL;
}

/* ---- values ---- */

static void
hz_dry_add_value(struct buf *b, yyjson_val *val)
{
	if (yyjson_is_str(val))
		buf_add_str(b, json_text(val));
	else
		json_add_value(b, val);
}

/* Texts without quotation marks, the elements of a list with commas; val NULL: empty. The numbers
 * in lists are ids of certificates, one of which may not exist yet. */
static struct str
hz_dry_value(struct arena *arena, yyjson_val *val)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_REQUEST);
	yyjson_val *one;
	size_t i, n;

	if (!val)
		return STR_EMPTY;
	if (!yyjson_is_arr(val))
		hz_dry_add_value(&b, val);
	yyjson_arr_foreach(val, i, n, one)
	{
		buf_add_c(&b, i > 0 ? ", " : "");
		if (yyjson_is_int(one) && yyjson_get_sint(one) == HZ_DRY_ID)
			buf_add_c(&b, "(to be issued)");
		else
			hz_dry_add_value(&b, one);
	}
	return arena_str(arena, buf_str(&b));
}

/* Adds a field for each value in `new` that differs from the one in `old`, named by its path:
 * "health_check.interval". old NULL: there is none. */
static void
hz_dry_compare(struct hz_dry *d, struct str prefix, yyjson_val *old, yyjson_val *new)
{
	yyjson_val *key, *val;
	size_t i, n;

	yyjson_obj_foreach(new, i, n, key, val)
	{
		struct str name = arena_printf(d->arena, "%" STR_FMT "%" STR_FMT, STR_ARG(prefix),
		                               STR_ARG(json_text(key)));
		yyjson_val *before = json_key(old, json_text(key));

		if (yyjson_is_obj(val))
			hz_dry_compare(d, arena_printf(d->arena, "%" STR_FMT ".", STR_ARG(name)),
			               before, val);
		else
			hz_dry_add(d, name, hz_dry_value(d->arena, before),
			           hz_dry_value(d->arena, val));
	}
}

/* ---- services ---- */

static yyjson_doc *
hz_dry_service_doc(const struct hz_lb_service *service)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_REQUEST);

	hz_body_service(&b, service);
	return hz_dry_parse(buf_str(&b));
}

/* All members in one text: "protocol tcp, listen_port 80, ..." */
static struct str
hz_dry_service_text(const struct hz_dry *d, const struct hz_lb_service *service)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = hz_dry_service_doc(service);
	CLEANUP(hz_dry_fini) struct hz_dry members = hz_dry_of(d->run);
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_REQUEST);

	hz_dry_compare(&members, STR_EMPTY, NULL, yyjson_doc_get_root(doc));
	for (size_t i = 0; i < members.n; i++)
		buf_addf(&b, "%s%" STR_FMT " %" STR_FMT, i > 0 ? ", " : "",
		         STR_ARG(members.fields[i].name), STR_ARG(members.fields[i].new));
	return arena_str(d->arena, buf_str(&b));
}

/* One of both may be NULL. */
static void
hz_dry_add_service(struct hz_dry *d, int64_t port, const struct hz_lb_service *old,
                   const struct hz_lb_service *new)
{
	struct str name = arena_printf(d->arena, "service %" PRId64, port);

	if (old && new) {
		CLEANUP(yyjson_doc_freep) yyjson_doc *before = hz_dry_service_doc(old);
		CLEANUP(yyjson_doc_freep) yyjson_doc *after = hz_dry_service_doc(new);

		hz_dry_compare(d, arena_printf(d->arena, "%" STR_FMT " ", STR_ARG(name)),
		               yyjson_doc_get_root(before), yyjson_doc_get_root(after));
		return;
	}
	hz_dry_add(d, name, old ? hz_dry_service_text(d, old) : STR_EMPTY,
	           new ? hz_dry_service_text(d, new) : STR_EMPTY);
}

static const struct hz_lb_service *
hz_dry_find_service(const struct hz_lb_service services[], size_t n, int64_t port)
{
	for (size_t i = 0; i < n; i++) {
		if (services[i].listen_port == port)
			return &services[i];
	}
	return NULL;
}

/* ---- targets ---- */

/* The name of the node whose machine is that server. A target that is removed may be a node that
 * the Service does not select any more, so all nodes are searched. */
static struct str
hz_dry_node_name(const struct hz_dry *d, const struct hz_lb_target *target)
{
	const struct hz_lb_tools *t = d->run->tools;
	const struct node_ref *node = hz_targets_node(&d->run->targets, target);
	struct node_ref *nodes = NULL;
	struct error ignored;
	size_t n = 0;

	if (node || target->type != HZ_TARGET_SERVER)
		return node ? node->name : STR_EMPTY;
	t->host->nodes(t->host, d->arena, &nodes, &n);
	for (size_t i = 0; i < n; i++) {
		struct hz_id id;

		if (hz_id_parse(t->config->dialect, nodes[i].provider_id, &id, &ignored) &&
		    id.kind == HZ_CLOUD && id.number == target->server)
			return nodes[i].name;
	}
	return STR_EMPTY;
}

static void
hz_dry_add_target(struct hz_dry *d, const struct hz_lb_target *target, bool is_removed)
{
	struct str node = hz_dry_node_name(d, target), machine = target->ip;

	if (target->type == HZ_TARGET_SERVER)
		machine = arena_printf(d->arena, "server %" PRId64 "%s", target->server,
		                       target->uses_private_ip ? ", private address" : "");
	hz_dry_add(d,
	           arena_printf(d->arena, "target %s%" STR_FMT, node.len > 0 ? "node " : "",
	                        STR_ARG(node.len > 0 ? node : machine)),
	           is_removed ? machine : STR_EMPTY, is_removed ? STR_EMPTY : machine);
}

/* ---- targets that the API would refuse ---- */

enum {
	SERVERS_MAX_AGE_S = 60, /* of the list; --dry-run goes on for long */
};

struct hz_dry_servers {
	pthread_mutex_t mu;
	/* everything below: mu */
	struct hz_servers list;
	int64_t read_boot_ns; /* 0: never */
	struct error err;     /* if the list is not complete: why */
};

struct hz_dry_servers *
hz_dry_servers_new(void)
{
	struct hz_dry_servers *s = xcalloc(1, sizeof(*s));

	s->list = HZ_SERVERS_INIT;
	mutex_init(&s->mu);
	return s;
}

void
hz_dry_servers_free(struct hz_dry_servers *s)
{
	if (!s)
		return;
	hz_servers_fini(&s->list);
	mutex_destroy(&s->mu);
	free(s);
}

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

static bool
hz_dry_is_public(const struct hz_lb_run *run, const struct hz_lb *lb)
{
	return run->desired.is_public == HZ_UNSET ? lb->is_public
	                                          : run->desired.is_public == HZ_YES;
}

bool
hz_dry_refuses_target(const struct hz_lb_run *run, const struct hz_lb *lb,
                      const struct hz_lb_target *target)
{
	const struct hz_lb_tools *t = run->tools;
	const struct hz_server *server;
	struct error why;
	WITH_LOCK(&t->dry_servers->mu);

	if (target->type != HZ_TARGET_SERVER)
		return false;
	if (!target->uses_private_ip && !hz_dry_is_public(run, lb)) {
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
	server = hz_servers_by_id(&t->dry_servers->list, target->server);
	if (server &&
	    (!target->uses_private_ip || hz_address_in(&server->private_nets, t->network).len > 0))
		return false;
	err_set(&why, ERR_NOT_FOUND, "target server %" PRId64 " %s", target->server,
	        server ? "is not attached to the network" : "does not exist");
	dry_failed(run->call->dry, &why);
	return true;
}

/* ---- shape ---- */

static struct str
hz_dry_enabled(bool is_enabled)
{
	return is_enabled ? STR("enabled") : STR("disabled");
}

/* Of the labels only these two are ever changed. lb NULL: it does not exist yet. */
static void
hz_dry_add_labels(struct hz_dry *d, const struct hz_lb *lb)
{
	const struct hz_lb_desired *desired = &d->run->desired;

	hz_dry_add(d, STR("label " HZ_LABEL_UID), lb ? lb->uid : STR_EMPTY, desired->uid);
	hz_dry_add(d, STR("label " HZ_LABEL_CLUSTER),
	           lb ? hz_lb_label_of(lb, HZ_LABEL_CLUSTER) : STR_EMPTY, desired->cluster);
}

static void
hz_dry_describe_put(struct hz_dry *d, const struct hz_step *step, yyjson_val *body)
{
	struct str name = json_text_at(d->arena, body, "name");

	(void)step;
	if (name.len > 0)
		hz_dry_add(d, STR("name"), d->run->lb->name, name);
	if (json_at(body, "labels"))
		hz_dry_add_labels(d, d->run->lb);
}

static void
hz_dry_describe_rdns(struct hz_dry *d, const struct hz_step *step, yyjson_val *body)
{
	const struct hz_lb *lb = d->run->lb;
	struct str ip = json_text_at(d->arena, body, "ip");
	const struct hz_lb_end *end = str_eq(ip, lb->ipv4.ip) ? &lb->ipv4 : &lb->ipv6;

	(void)step;
	hz_dry_add(d, arena_printf(d->arena, "dns_ptr of %" STR_FMT, STR_ARG(ip)), end->dns_ptr,
	           json_text_at(d->arena, body, "dns_ptr"));
}

static void
hz_dry_describe_algorithm(struct hz_dry *d, const struct hz_step *step, yyjson_val *body)
{
	(void)step;
	hz_dry_add(d, STR("algorithm"), d->run->lb->algorithm,
	           json_text_at(d->arena, body, "type"));
}

/* The body has the id of the type. */
static void
hz_dry_describe_type(struct hz_dry *d, const struct hz_step *step, yyjson_val *body)
{
	(void)step;
	(void)body;
	hz_dry_add(d, STR("type"), d->run->lb->type.name, d->run->desired.type);
}

static void
hz_dry_describe_network(struct hz_dry *d, const struct hz_step *step, yyjson_val *body)
{
	const struct hz_private_nets *nets = &d->run->lb->nets;
	const struct hz_opt_str *ip = &d->run->desired.private_ip;
	bool is_attached = str_eq_c(str_c(step->verb), "attach_to_network");
	int64_t network = 0;
	struct str name;

	json_i64(body, "network", &network);
	name = arena_printf(d->arena, "network %" PRId64, network);
	if (is_attached)
		hz_dry_add(d, name, STR_EMPTY, ip->is_set ? ip->value : HZ_NEW_PRIVATE_IP);
	else
		hz_dry_add(d, name, hz_address_in(nets, network), STR_EMPTY);
}

static void
hz_dry_describe_public(struct hz_dry *d, const struct hz_step *step, yyjson_val *body)
{
	bool enables = str_eq_c(str_c(step->verb), "enable_public_interface");

	(void)body;
	hz_dry_add(d, STR("public interface"), hz_dry_enabled(!enables), hz_dry_enabled(enables));
}

/* ---- steps ---- */

static void
hz_dry_describe_service(struct hz_dry *d, const struct hz_step *step, yyjson_val *body)
{
	const struct hz_lb *lb = d->run->lb;
	const struct hz_lb_desired *desired = &d->run->desired;
	int64_t port = step->listen_port;

	(void)body;
	hz_dry_add_service(d, port, hz_dry_find_service(lb->services, lb->n_services, port),
	                   hz_dry_find_service(desired->services, desired->n_services, port));
}

static void
hz_dry_describe_target(struct hz_dry *d, const struct hz_step *step, yyjson_val *body)
{
	(void)body;
	hz_dry_add_target(d, step->target, str_eq_c(str_c(step->verb), "remove_target"));
}

static const struct {
	const char *verb;
	void (*describe)(struct hz_dry *, const struct hz_step *, yyjson_val *body);
} described[] = {
	{ "change_dns_ptr", hz_dry_describe_rdns },
	{ "change_algorithm", hz_dry_describe_algorithm },
	{ "change_type", hz_dry_describe_type },
	{ "attach_to_network", hz_dry_describe_network },
	{ "detach_from_network", hz_dry_describe_network },
	{ "enable_public_interface", hz_dry_describe_public },
	{ "disable_public_interface", hz_dry_describe_public },
	{ "add_service", hz_dry_describe_service },
	{ "update_service", hz_dry_describe_service },
	{ "delete_service", hz_dry_describe_service },
	{ "add_target", hz_dry_describe_target },
	{ "remove_target", hz_dry_describe_target },
};

void
hz_dry_note_step(const struct hz_lb_run *run, const struct hz_step *step)
{
	CLEANUP(hz_dry_fini) struct hz_dry d = hz_dry_of(run);
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = hz_dry_parse(step->body);
	yyjson_val *body = yyjson_doc_get_root(doc);

	if (!step->verb) {
		hz_dry_describe_put(&d, step, body);
		hz_dry_note(&d, DRY_CHANGE, run->lb, "PUT", STR_EMPTY);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(described); i++) {
		if (str_eq_c(str_c(step->verb), described[i].verb))
			described[i].describe(&d, step, body);
	}
	hz_dry_note(&d, DRY_CHANGE, run->lb, "POST",
	            arena_printf(d.arena, "/actions/%s", step->verb));
}

/* ---- balancers and certificates as a whole ---- */

/* A part that is left to the cloud's default has no field. */
static void
hz_dry_describe_new(struct hz_dry *d, const struct hz_lb *lb)
{
	const struct hz_lb_desired *desired = &d->run->desired;

	hz_dry_add(d, STR("type"), STR_EMPTY, lb->type.name);
	hz_dry_add(d, STR("location"), STR_EMPTY, desired->location);
	hz_dry_add(d, STR("network zone"), STR_EMPTY, desired->network_zone);
	hz_dry_add(d, STR("algorithm"), STR_EMPTY, lb->algorithm);
	hz_dry_add_labels(d, NULL);
	if (!lb->is_public)
		hz_dry_add(d, STR("public interface"), STR_EMPTY, hz_dry_enabled(false));
	for (size_t i = 0; i < HZ_N_FAMILIES; i++) {
		const struct hz_primary_ref *ref = &desired->primary_ips[i];

		if (ref->is_set)
			hz_dry_add(d, arena_printf(d->arena, "Primary IP %" PRId64, ref->id),
			           STR_EMPTY, ref->ip);
	}
	for (size_t i = 0; i < lb->nets.n; i++)
		hz_dry_add(d, arena_printf(d->arena, "network %" PRId64, lb->nets.items[i].network),
		           STR_EMPTY, lb->nets.items[i].ip);
	for (size_t i = 0; i < lb->n_services; i++)
		hz_dry_add_service(d, lb->services[i].listen_port, NULL, &lb->services[i]);
	for (size_t i = 0; i < lb->n_targets; i++) {
		if (!hz_dry_refuses_target(d->run, lb, &lb->targets[i]))
			hz_dry_add_target(d, &lb->targets[i], /*is_removed=*/false);
	}
}

void
hz_dry_create(struct hz_lb_run *run, struct str body, const struct hz_lb_type *type)
{
	CLEANUP(hz_dry_fini) struct hz_dry d = hz_dry_of(run);
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = hz_dry_parse(body);
	struct hz_lb *lb = ARENA_NEW(run->call->arena, struct hz_lb);

	hz_lb_read_request(yyjson_doc_get_root(doc), type, run->call->arena, lb);
	hz_dry_describe_new(&d, lb);
	balancer_note(run->call, DRY_CREATE, lb->name, STR("POST /load_balancers"), d.fields, d.n);
	run->lb = lb;
}

void
hz_dry_note_deletion(const struct hz_lb_run *run, const struct hz_lb *lb)
{
	struct hz_dry d = hz_dry_of(run);

	hz_dry_note(&d, DRY_DELETE, lb, "DELETE", STR_EMPTY);
}

void
hz_dry_order_certificate(struct call *call, const struct hz_lb_desired *desired,
                         struct hz_certificate *ret, struct hz_action *ret_action)
{
	CLEANUP(buf_fini) struct buf domains = BUF_INIT(LIMIT_HTTP_REQUEST);
	struct dry_field field = { .name = STR("domain names"), .old = STR_EMPTY };

	for (size_t i = 0; i < desired->n_domains; i++)
		buf_addf(&domains, "%s%" STR_FMT, i > 0 ? ", " : "", STR_ARG(desired->domains[i]));
	field.new = buf_str(&domains);
	dry_note(call->dry, &(struct dry_change){
				    .verb = DRY_CREATE,
				    .what = "certificate",
				    .name = desired->certificate_name,
				    .request = STR("POST /certificates"),
				    .is_cloud = true,
				    .fields = &field,
				    .n_fields = 1,
			    });
	*ret = (struct hz_certificate){ .id = HZ_DRY_ID,
		                        .name = desired->certificate_name,
		                        .uid = desired->uid,
		                        .is_managed = true };
	*ret_action = (struct hz_action){ .id = 1 };
}
