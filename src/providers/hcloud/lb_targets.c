/* lb_targets.c: see lb_targets.h. */
#include "providers/hcloud/lb_targets.h"

#include <inttypes.h>

#include "base/event_kind.h"
#include "providers/hcloud/client.h"

EVENT_KIND(
	prefix_event, HZ_COMPONENT, "UnknownProviderIDPrefix", true, "Node",
	"hcloud: the node has a provider ID that is none of ours, and so is no target of a load balancer.");
EVENT_KIND(
	id_event, HZ_COMPONENT, "InvalidProviderID", true, "Node",
	"hcloud: the number in the node's provider ID cannot be read, so the node is not a target of a load balancer.");
EVENT_KIND(
	robot_event, HZ_COMPONENT, "ServerNotFound", true, "Node",
	"hcloud: Robot has no address for the node's provider ID, and so it is no target of a load balancer.");
EVENT_KIND(internal_event, HZ_COMPONENT, "InternalIPNotConfigured", true, "Service",
           "hcloud: a dedicated server is to be a target by its private address and has none.");
EVENT_KIND(limit_event, HZ_COMPONENT, "MaxTargetsReached", true, "Node",
           "hcloud: the load balancer's type allows no further target; a larger type helps.");
EVENT_KIND(
	refused_event, HZ_COMPONENT, "LoadBalancerTargetRefused", true, "Node",
	"hcloud: the API does not take the node as a target; the message says why. Other nodes are not concerned.");

/* One run over the nodes. */
struct aiming {
	const struct hz_aim *aim;
	struct call *call;
	const struct lb_spec *spec;
	const struct hz_lb_desired *desired;
	const struct hz_lb *lb;
	struct hz_targets *ret;
	bool keeps_addresses; /* Robot does not answer: targets by address stay as they are */
};

/* ---- events ---- */

static void
warn_node(const struct hz_aim *aim, const struct node_ref *node, const struct event_kind *kind,
          const struct buf *text)
{
	aim->host->event(aim->host, node, HOST_EVENT_WARNING, kind->reason, buf_str(text));
}

static void
warn_prefix(const struct aiming *a, const struct node_ref *node)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(ERR_MSG_SIZE);

	buf_addf(&b,
	         "Node could not be added to Load Balancer for service %" STR_FMT
	         " because the provider ID does not match any known format",
	         STR_ARG(a->spec->service));
	warn_node(a->aim, node, &prefix_event, &b);
}

static void
warn_id(const struct aiming *a, const struct node_ref *node, const struct error *why)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(ERR_MSG_SIZE);

	buf_addf(&b, "Node could not be added to Load Balancer for service %" STR_FMT ": %s",
	         STR_ARG(a->spec->service), why->msg);
	warn_node(a->aim, node, &id_event, &b);
}

static void
warn_no_server(const struct aiming *a, const struct node_ref *node, int64_t number)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(ERR_MSG_SIZE);

	buf_addf(&b, "No server with id %" PRId64 " was found in Robot", number);
	warn_node(a->aim, node, &robot_event, &b);
}

static void
warn_internal(const struct aiming *a, const struct buf *text)
{
	const struct cloud_host *host = a->aim->host;

	host->service_event(host, a->spec, HOST_EVENT_WARNING, internal_event.reason,
	                    buf_str(text));
}

static void
warn_stays_public(const struct aiming *a, const struct node_ref *node)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(ERR_MSG_SIZE);

	buf_addf(&b,
	         "hcops/LoadBalancerOps.ReconcileHCLBTargets: load balancer %" STR_FMT
	         " has set `use-private-ip: true`, but no InternalIP found for node %" STR_FMT
	         ". Continuing with ExternalIP.",
	         STR_ARG(a->spec->service), STR_ARG(node->name));
	warn_internal(a, &b);
}

static void
warn_skipped(const struct aiming *a, const struct node_ref *node, int64_t number)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(ERR_MSG_SIZE);

	buf_addf(&b,
	         "no InternalIP found for Robot node %" STR_FMT " (id=%" PRId64
	         "), cannot add as LB target without Robot credentials; skipping",
	         STR_ARG(node->name), number);
	warn_internal(a, &b);
}

void
hz_targets_exceeded(const struct hz_aim *aim, const struct lb_spec *spec,
                    const struct node_ref *node)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(ERR_MSG_SIZE);

	buf_addf(&b,
	         "Node could not be added to Load Balancer for service %" STR_FMT
	         " because the max number of targets has been reached",
	         STR_ARG(spec->service));
	warn_node(aim, node, &limit_event, &b);
}

/* ---- what is missing ---- */

static void
note_missing(struct hz_targets *t, const struct node_ref *node, const struct error *why)
{
	if (t->is_partial)
		return;
	t->is_partial = true;
	t->reason = *why;
	err_wrap(&t->reason, "hcops/LoadBalancerOps.ReconcileHCLBTargets: target %" STR_FMT,
	         STR_ARG(node->name));
}

void
hz_targets_refused(struct hz_targets *t, const struct hz_aim *aim, const struct lb_spec *spec,
                   const struct node_ref *node, bool is_retryable, const struct error *why)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(ERR_MSG_SIZE);

	buf_addf(&b, "Node could not be added to Load Balancer for service %" STR_FMT ": %s",
	         STR_ARG(spec->service), why->msg);
	warn_node(aim, node, &refused_event, &b);
	if (is_retryable)
		note_missing(t, node, why);
}

/* ---- targets ---- */

static bool
is_same(const struct hz_lb_target *a, const struct hz_lb_target *b)
{
	if (a->type != b->type)
		return false;
	return a->type == HZ_TARGET_SERVER ? a->server == b->server : str_eq(a->ip, b->ip);
}

/* Two nodes with one provider ID are one machine. */
static void
add(struct aiming *a, const struct node_ref *node, struct hz_lb_target target)
{
	struct hz_targets *t = a->ret;

	for (size_t i = 0; i < t->n; i++) {
		if (is_same(&t->targets[i], &target))
			return;
	}
	t->nodes[t->n] = node;
	t->targets[t->n++] = target;
}

static void
add_server(struct aiming *a, const struct node_ref *node, int64_t id)
{
	add(a, node,
	    (struct hz_lb_target){ .type = HZ_TARGET_SERVER,
	                           .server = id,
	                           .ip = STR_EMPTY,
	                           .uses_private_ip = a->desired->uses_private_ip });
}

static void
add_address(struct aiming *a, const struct node_ref *node, struct str ip)
{
	add(a, node, (struct hz_lb_target){ .type = HZ_TARGET_IP, .ip = ip });
}

static bool
has_target(const struct hz_lb *lb, struct str ip)
{
	for (size_t i = 0; lb && i < lb->n_targets; i++) {
		if (lb->targets[i].type == HZ_TARGET_IP && str_eq(lb->targets[i].ip, ip))
			return true;
	}
	return false;
}

static struct str
internal_ip(const struct node_ref *node)
{
	for (size_t i = 0; i < node->n_addresses; i++) {
		if (str_eq_c(node->addresses[i].type, "InternalIP"))
			return node->addresses[i].address;
	}
	return STR_EMPTY;
}

/* ---- dedicated servers ---- */

/* A public address of before stays a target beside the private one, as with the official controller
 * (docs/spec/hcloud.md, "Targets"). */
static void
add_known(struct aiming *a, const struct node_ref *node, struct str public_ip)
{
	struct str private_ip = a->desired->uses_private_ip ? internal_ip(node) : STR_EMPTY;

	if (a->desired->uses_private_ip && private_ip.len == 0)
		warn_stays_public(a, node);
	add_address(a, node, private_ip.len > 0 ? private_ip : public_ip);
	if (private_ip.len > 0 && has_target(a->lb, public_ip))
		add_address(a, NULL, public_ip);
}

static void
miss(struct aiming *a, const struct node_ref *node, int64_t number, struct error *err)
{
	if (err->code == ERR_NOT_FOUND)
		warn_no_server(a, node, number);
	else
		a->keeps_addresses = true;
	err_wrap(err, "failed to get list of dedicated servers");
	note_missing(a->ret, node, err);
}

static void
add_from_robot(struct aiming *a, const struct node_ref *node, int64_t number)
{
	struct hz_robot_server server;
	struct error err;

	if (!hz_robot_find(a->aim->robot, a->call, a->call->arena, number, &server, &err)) {
		miss(a, node, number, &err);
	} else if (server.ipv4.len > 0) {
		add_known(a, node, server.ipv4);
	} else {
		err_set(&err, ERR_INVALID, "the dedicated server has no IPv4 address");
		hz_targets_refused(a->ret, a->aim, a->spec, node, false, &err);
	}
}

static void
add_without_robot(struct aiming *a, const struct node_ref *node, int64_t number)
{
	struct str ip = internal_ip(node);

	if (!a->desired->uses_private_ip)
		warn_no_server(a, node, number);
	else if (ip.len > 0)
		add_address(a, node, ip);
	else
		warn_skipped(a, node, number);
}

static void
add_dedicated(struct aiming *a, const struct node_ref *node, int64_t number)
{
	if (!a->aim->config->has_robot)
		warn_no_server(a, node, number);
	else if (a->aim->robot)
		add_from_robot(a, node, number);
	else
		add_without_robot(a, node, number);
}

static void
keep_addresses(struct aiming *a)
{
	for (size_t i = 0; a->keeps_addresses && a->lb && i < a->lb->n_targets; i++) {
		if (a->lb->targets[i].type == HZ_TARGET_IP)
			add_address(a, NULL, a->lb->targets[i].ip);
	}
}

/* ---- all of them ---- */

static void
add_node(struct aiming *a, const struct node_ref *node)
{
	struct hz_id id;
	struct error err;

	if (!hz_id_parse(a->aim->config->dialect, node->provider_id, &id, &err)) {
		if (err.code == ERR_UNSUPPORTED)
			warn_prefix(a, node);
		else
			warn_id(a, node, &err);
	} else if (id.kind == HZ_CLOUD) {
		add_server(a, node, id.number);
	} else {
		add_dedicated(a, node, id.number);
	}
}

void
hz_targets_read(const struct hz_aim *aim, struct call *call, const struct lb_spec *spec,
                const struct hz_lb_desired *desired, const struct hz_lb *lb, struct hz_targets *ret)
{
	struct aiming a = {
		.aim = aim, .call = call, .spec = spec, .desired = desired, .lb = lb, .ret = ret
	};
	size_t most = 2 * spec->n_nodes + (lb ? lb->n_targets : 0);

	*ret = (struct hz_targets){ 0 };
	ret->targets = arena_calloc(call->arena, most, sizeof(ret->targets[0]));
	ret->nodes = arena_calloc(call->arena, most, sizeof(ret->nodes[0]));
	for (size_t i = 0; i < spec->n_nodes; i++)
		add_node(&a, &spec->nodes[i]);
	keep_addresses(&a);
}

const struct node_ref *
hz_targets_node(const struct hz_targets *t, const struct hz_lb_target *target)
{
	for (size_t i = 0; i < t->n; i++) {
		if (is_same(&t->targets[i], target))
			return t->nodes[i];
	}
	return NULL;
}
