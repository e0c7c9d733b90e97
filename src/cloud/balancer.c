/* cloud/balancer.c: see balancer.h.
 *
 * The functions that the controllers call. Each reduces the desired state to what the provider's
 * balancers can do according to its table, and then calls the provider's own function, or its
 * replacement here, which uses find(), create(), change() and destroy().
 */
#include "cloud/balancer.h"

#include <stdatomic.h>

#include "base/buf.h"
#include "base/event_kind.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/words.h"
#include "cloud/host.h"
#include "cloud/rest.h"

enum {
	/* machines that are asked for as evidence: one or two may have been deleted, rarely all */
	MACHINES_ASKED = 3,
	OTHERS_PAUSE_MS = 1000, /* until another Service has looked for evidence */
	NO_STATUS_MS = 2000,    /* until a balancer without addresses is looked at again */
	/* until a balancer that may not be visible yet is looked for again */
	HIDDEN_MIN_MS = 1000,
	HIDDEN_MAX_MS = 30000,
};

/* how long a search for evidence that found none is valid */
static const int64_t unproven_ns = 60 * NS_PER_SEC;
/* A Service that waits for longer than this is reported. The event rate limit of one object permits
 * one event in this time. */
static const int64_t wait_report_ns = 300 * NS_PER_SEC;

EVENT_KIND(
	held_event, "cloud-controller-manager", "LoadBalancerHeld", true, "Service",
	"The Service's load balancer is not found, and nothing shows that the credentials are those of "
	"the cluster's project: no load balancer is created, and the Service is not released.");
EVENT_KIND(
	left_out_event, "cloud-controller-manager", "LoadBalancerFeatureLeftOut", true, "Service",
	"The cloud's load balancers cannot do all that the Service asks for; what the message names has no effect.");

EVENT_KIND(
	pending_event, "cloud-controller-manager", "LoadBalancerPending", false, "Service",
	"The load balancer may have been requested, but has not been visible in the cloud for a minute or longer. It is not created again, and the Service is not released, until the time has passed for which a new load balancer may be invisible.");

/* ---- annotations and evidence ---- */

const struct str *
lb_annotation(const struct lb_spec *spec, const char *key)
{
	for (size_t i = spec->n_annotations; i-- > 0;) {
		if (str_eq_c(spec->annotations[i].key, key))
			return &spec->annotations[i].value;
	}
	return NULL;
}

bool
lb_needs_evidence(const struct lb_spec *spec)
{
	const struct str *is_gone = lb_annotation(spec, LB_ANNOTATION_GONE);

	return (spec->status.n_ingress > 0 || spec->is_leaving) &&
	       !(is_gone && str_eq_c(*is_gone, "true"));
}

/* Adds nodes to the n that will be asked for. Only machines of the realm that the balancers are in
 * prove something. */
static size_t
add_asked(struct cloud *cloud, const struct node_ref nodes[], size_t n_nodes, bool are_ready,
          struct node_ref asked[], size_t n)
{
	unsigned realm;

	for (size_t i = 0; i < n_nodes && n < MACHINES_ASKED; i++) {
		if (nodes[i].is_ready == are_ready && nodes[i].provider_id.len > 0 &&
		    cloud_can_find(cloud, nodes[i].provider_id, &realm) && realm == 0)
			asked[n++] = nodes[i];
	}
	return n;
}

static bool
shows_machine(const struct look *look)
{
	for (size_t i = 0; i < look->n; i++) {
		if (look->instances[i].presence == PRESENCE_PRESENT)
			return true;
	}
	return false;
}

/* Looks for a machine of a node, Ready ones first, or an anchor. */
static bool
find_evidence(struct cloud *cloud, struct call *call, bool *ret_is_found, struct error *err)
{
	CLEANUP(look_unrefp) struct look *look = NULL;
	struct call urgent = *call;
	struct node_ref asked[MACHINES_ASKED], *nodes = NULL;
	size_t n_nodes = 0, n;
	unsigned n_anchors = 0;

	if (cloud->host)
		cloud->host->nodes(cloud->host, call->arena, &nodes, &n_nodes);
	n = add_asked(cloud, nodes, n_nodes, /*are_ready=*/true, asked, 0);
	n = add_asked(cloud, nodes, n_nodes, /*are_ready=*/false, asked, n);
	if (n == 0) {
		if (cloud->ops->count_anchors &&
		    !cloud->ops->count_anchors(cloud, call, &n_anchors, err))
			return false;
		*ret_is_found = n_anchors > 0;
		return true;
	}
	/* or the searches of waiting Services use up the rate limit, and it is never made */
	urgent.is_urgent = true;
	if (!cloud_look(cloud, &urgent, asked, n, clock_boot(call->clock), &look, err))
		return err_wrap(err, "look for machines of nodes");
	*ret_is_found = look->n_anchors > 0 || shows_machine(look);
	if (*ret_is_found)
		return true;
	/* nothing was found: is that the answer for each of them? */
	for (size_t i = 0; i < n; i++) {
		const struct instance *one = &look->instances[i];

		if (one->presence != PRESENCE_UNKNOWN)
			continue;
		err_set(err, one->error_code,
		        "look for the machine of node %" STR_FMT ": %" STR_FMT,
		        STR_ARG(asked[i].name), STR_ARG(one->error));
		err->is_outage = one->is_outage;
		return false;
	}
	if (look->anchors_error.len > 0)
		return err_set(err, ERR_UNAVAILABLE, "%" STR_FMT, STR_ARG(look->anchors_error));
	return true;
}

/* One Service at a time searches. If it finds nothing, nobody searches again for a while. */
static bool
seek_evidence(struct cloud *cloud, struct call *call, bool *ret_is_found, struct error *err)
{
	bool is_known;

	*ret_is_found = false;
	if (clock_boot(call->clock) < atomic_load(&cloud->unproven_until_boot_ns))
		return true;
	if (atomic_exchange(&cloud->seeks_evidence, true))
		return err_later(err, ERR_PENDING, OTHERS_PAUSE_MS,
		                 "the check whether the credentials are those of the cluster's "
		                 "project is running for another Service");
	is_known = find_evidence(cloud, call, ret_is_found, err);
	if (is_known && !*ret_is_found)
		atomic_store(&cloud->unproven_until_boot_ns, clock_boot(call->clock) + unproven_ns);
	atomic_store(&cloud->seeks_evidence, false);
	if (!is_known)
		return err_wrap(err,
		                "check that the credentials are those of the cluster's project");
	return true;
}

bool
balancer_check_project(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                       struct error *err)
{
	bool is_found;

	if (!lb_needs_evidence(spec))
		return true;
	if (!seek_evidence(cloud, call, &is_found, err))
		return false;
	if (is_found)
		return true;
	atomic_store(&cloud->holds_services, true);
	err_set(err, ERR_PENDING,
	        "The load balancer of this Service was not found, and neither was any machine of a "
	        "node, any other load balancer of this cluster, or its network by id: the "
	        "credentials may be those of another project. No load balancer is created, and the "
	        "Service is not released. Check the credentials. If the load balancer really no "
	        "longer exists, annotate the Service with " LB_ANNOTATION_GONE "=true");
	err->is_held = true;
	return false;
}

/* ---- limits ---- */

static bool
check_number(size_t n, size_t limit, const char *what, struct str of, struct error *err)
{
	if (n <= limit)
		return true;
	return err_set(err, ERR_INVALID,
	               "the Service has %zu %s%" STR_FMT
	               ", and at most %zu are possible; change the Service, no load "
	               "balancer is made or changed for it until then",
	               n, what, STR_ARG(of), limit);
}

static size_t
count_elements(struct str list)
{
	size_t n = 0;

	for (struct str element; str_split(&list, ',', &element);)
		n += str_trim(element).len > 0;
	return n;
}

static bool
check_annotations(const struct balancer_ops *ops, const struct lb_spec *spec, struct error *err)
{
	struct str prefix = str_c(ops->annotation_prefix);
	size_t n = 0;

	for (size_t i = 0; i < spec->n_annotations; i++) {
		struct str key = spec->annotations[i].key, value = spec->annotations[i].value;

		if (!str_starts(key, prefix))
			continue;
		n++;
		if (!check_number(value.len, LIMIT_BALANCER_TEXT, "bytes in annotation ", key, err))
			return false;
		if (words_have(ops->annotation_lists, str_skip(key, prefix.len)) &&
		    !check_number(count_elements(value), LIMIT_BALANCER_NAMES,
		                  "elements in annotation ", key, err))
			return false;
	}
	return check_number(n, LIMIT_BALANCER_ANNOTATIONS, "annotations that begin with ", prefix,
	                    err);
}

bool
balancer_check_limits(const struct cloud *cloud, const struct lb_spec *spec, struct error *err)
{
	if (!check_number(spec->n_ports, LIMIT_BALANCER_PORTS, "ports", STR_EMPTY, err) ||
	    !check_number(spec->n_source_ranges, LIMIT_BALANCER_RANGES, "source ranges", STR_EMPTY,
	                  err) ||
	    !check_number(spec->n_ports * (spec->n_source_ranges + spec->n_nodes),
	                  LIMIT_BALANCER_PARTS,
	                  "source ranges and nodes, counted once for each port", STR_EMPTY, err))
		return false;
	if (!cloud->balancers->annotation_prefix)
		return true;
	return check_annotations(cloud->balancers, spec, err);
}

/* ---- what a cloud's balancers cannot do ---- */

static const char *const feature_names[LB_N_FEATURES] = {
	[LB_UDP_PORTS] = "ports of protocol UDP",
	[LB_SCTP_PORTS] = "ports of protocol SCTP",
	[LB_SEVERAL_PORTS] = "more than one port",
	[LB_PORTS_WITHOUT_NODE_PORT] =
		"ports without a node port (spec.allocateLoadBalancerNodePorts: false)",
	[LB_SOURCE_RANGES] = "spec.loadBalancerSourceRanges",
	[LB_LOCAL_TRAFFIC] = "spec.externalTrafficPolicy: Local",
	[LB_CLIENT_AFFINITY] = "spec.sessionAffinity: ClientIP",
	[LB_IPV6] = "addresses of family IPv6",
	[LB_DUAL_STACK] = "addresses of both families",
	[LB_CHOSEN_IP] = "spec.loadBalancerIP",
};

/* The desired state of one call, while it is reduced to what the balancers can do. */
struct restriction {
	const struct cloud *cloud;
	struct arena *arena;
	struct lb_spec *spec;
	struct buf *left_out; /* names of what was left out with an event */
	bool refuses; /* LB_REFUSE is an error; otherwise refused features stay in the spec */
	struct error refusal; /* the first one; code ERR_NONE: none */
};

static void
refuse(struct restriction *r, const char *why, const char *feature, const char *then)
{
	if (r->refuses && r->refusal.code == ERR_NONE)
		err_set(&r->refusal, ERR_UNSUPPORTED, "load balancers of %s %s%s%s",
		        r->cloud->ops->name, why, feature, then);
}

/* Applies the provider's table to a feature, if the Service asks for it. Returns true if it has to
 * be left out. */
static bool
restrict_feature(struct restriction *r, enum lb_feature feature, bool is_asked_for)
{
	const char *name = feature_names[feature];

	if (!is_asked_for)
		return false;
	switch (r->cloud->balancers->features[feature]) {
	case LB_PASS:
		return false;
	case LB_LEAVE_OUT:
		if (!str_contains(buf_str(r->left_out), str_c(name)))
			buf_addf(r->left_out, "%s%s", r->left_out->len > 0 ? ", " : "", name);
		return true;
	case LB_IGNORE:
		return true;
	case LB_REFUSE:
		refuse(r, "do not support ", name,
		       "; change the Service, no load balancer is made or changed for it until then");
		break;
	}
	return false;
}

static void
restrict_ports(struct restriction *r)
{
	struct lb_spec *spec = r->spec;
	struct lb_port *kept = arena_calloc(r->arena, spec->n_ports, sizeof(*kept));
	size_t n = 0;

	for (size_t i = 0; i < spec->n_ports; i++) {
		const struct lb_port *port = &spec->ports[i];
		bool by_protocol = restrict_feature(r,
		                                    port->protocol == LB_UDP ? LB_UDP_PORTS
		                                                             : LB_SCTP_PORTS,
		                                    port->protocol != LB_TCP);
		bool by_node_port = restrict_feature(r, LB_PORTS_WITHOUT_NODE_PORT,
		                                     !by_protocol && port->node_port == 0);
		bool by_number = restrict_feature(r, LB_SEVERAL_PORTS,
		                                  !by_protocol && !by_node_port && n > 0);

		if (!by_protocol && !by_node_port && !by_number)
			kept[n++] = *port;
	}
	if (n == 0 && spec->n_ports > 0)
		refuse(r, "support none of the Service's ports", "", "");
	spec->ports = kept;
	spec->n_ports = n;
}

/* A Service with PreferDualStack accepts one family. */
static void
restrict_families(struct restriction *r)
{
	struct lb_spec *spec = r->spec;
	bool accepts_one = spec->family_policy == LB_PREFER_DUAL_STACK;
	bool has_dual = r->cloud->balancers->features[LB_DUAL_STACK] == LB_PASS;
	bool has_v6 = r->cloud->balancers->features[LB_IPV6] == LB_PASS;
	enum ip_family *kept = arena_calloc(r->arena, spec->n_families, sizeof(*kept));
	size_t n = 0;

	for (size_t i = 0; i < spec->n_families; i++) {
		bool lacks_v6 = spec->families[i] == IP_V6 && !has_v6;
		bool lacks_dual = !lacks_v6 && n > 0 && !has_dual;

		if (accepts_one && (lacks_dual || (lacks_v6 && spec->n_families > 1)))
			continue;
		if (restrict_feature(r, lacks_v6 ? LB_IPV6 : LB_DUAL_STACK, lacks_v6 || lacks_dual))
			continue;
		kept[n++] = spec->families[i];
	}
	if (n == 0)
		refuse(r, "do not support ", feature_names[LB_IPV6],
		       ", and the Service has no other family");
	spec->families = kept;
	spec->n_families = n;
}

/* Reduces *spec to what the balancers can do. refuses: as in struct restriction. */
static bool
restrict_spec(struct cloud *cloud, struct call *call, struct lb_spec *spec, bool refuses,
              struct buf *left_out, struct error *err)
{
	struct restriction r = {
		.cloud = cloud,
		.arena = call->arena,
		.spec = spec,
		.left_out = left_out,
		.refuses = refuses,
		.refusal = { .code = ERR_NONE },
	};

	restrict_ports(&r);
	restrict_families(&r);
	if (restrict_feature(&r, LB_SOURCE_RANGES, spec->n_source_ranges > 0))
		spec->n_source_ranges = 0;
	if (restrict_feature(&r, LB_LOCAL_TRAFFIC, spec->traffic == LB_TRAFFIC_LOCAL)) {
		spec->traffic = LB_TRAFFIC_CLUSTER;
		spec->health_check_node_port = 0;
	}
	if (restrict_feature(&r, LB_CLIENT_AFFINITY, spec->has_client_ip_affinity)) {
		spec->has_client_ip_affinity = false;
		spec->affinity_timeout_s = 0;
	}
	if (restrict_feature(&r, LB_CHOSEN_IP, spec->wanted_ip.len > 0))
		spec->wanted_ip = STR_EMPTY;
	if (r.refusal.code == ERR_NONE)
		return true;
	*err = r.refusal;
	return false;
}

static void
report_service(struct cloud *cloud, const struct lb_spec *spec, const struct event_kind *kind,
               const char *text)
{
	if (cloud->host)
		host_report_service(cloud->host, spec, kind, "%s", text);
}

void
balancer_leave_out(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                   struct lb_spec *ret, struct buf *names)
{
	struct error ignored;

	*ret = *spec;
	(void)!restrict_spec(cloud, call, ret, /*refuses=*/false, names, &ignored);
}

void
balancer_report_left_out(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                         uint64_t *reported)
{
	CLEANUP(buf_fini) struct buf left_out = BUF_INIT(KIB(1));
	CLEANUP(buf_fini) struct buf text = BUF_INIT(KIB(2));
	struct lb_spec fitted;
	uint64_t last = *reported;

	*reported = 0;
	balancer_leave_out(cloud, call, spec, &fitted, &left_out);
	if (left_out.len == 0)
		return;
	buf_addf(&text, "Load balancers of %s do not support %s: left out%s", cloud->ops->name,
	         left_out.ptr,
	         spec->n_source_ranges > fitted.n_source_ranges
	                 ? ". The load balancer is open to all addresses"
	                 : "");
	*reported = str_hash(buf_str(&text));
	if (*reported != last)
		report_service(cloud, spec, &left_out_event, text.ptr);
}

/* ---- balancers that were requested and that a search may not find yet ---- */

enum {
	CREATION_LONG_S = 60,
};

/* For all clouds of the process, of which there is one outside of tests. */
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

static struct creation *
find_creation(struct creations *c, struct str uid)
{
	uint64_t hash = str_hash(uid);

	for (size_t i = 0; i < LIMIT_CREATIONS; i++) {
		if (c->all[i].begun_boot_ns != 0 && c->all[i].uid_hash == hash)
			return &c->all[i];
	}
	return NULL;
}

/* The entry of that UID, or a free one, which it then gets; NULL: all are in use. */
static struct creation *
make_creation(struct creations *c, struct str uid, int64_t hidden_ns, int64_t now_ns)
{
	struct creation *found = find_creation(c, uid);

	for (size_t i = 0; i < LIMIT_CREATIONS && !found; i++) {
		if (c->all[i].begun_boot_ns == 0 || c->all[i].begun_boot_ns + hidden_ns <= now_ns)
			found = &c->all[i];
	}
	if (found && (found->begun_boot_ns == 0 || found->uid_hash != str_hash(uid)))
		*found = (struct creation){ .uid_hash = str_hash(uid) };
	return found;
}

/* This process begins to lead: only the first call counts. */
void
balancer_begin(struct cloud *cloud, const struct call *call)
{
	WITH_LOCK(&mu);

	if (cloud->creations.leads_since_boot_ns == 0)
		cloud->creations.leads_since_boot_ns = clock_boot(call->clock);
}

/* A balancer is requested now. False: there is no place left, so it must not be requested yet.
 * Entries that are older than hidden_ns are dropped. */
static bool
creations_note(struct creations *c, struct str uid, int64_t hidden_ns, int64_t now_boot_ns)
{
	struct creation *one;
	WITH_LOCK(&mu);

	one = make_creation(c, uid, hidden_ns, now_boot_ns);
	if (one)
		one->begun_boot_ns = now_boot_ns;
	return one != NULL;
}

/* It was found, or was refused. */
static void
creations_forget(struct creations *c, struct str uid)
{
	struct creation *one;
	WITH_LOCK(&mu);

	one = find_creation(c, uid);
	if (one)
		*one = (struct creation){ 0 };
}

/* ---- drivers: providers with find(), create(), change() and destroy() ---- */

void
balancer_note(const struct call *call, enum dry_verb verb, struct str name, struct str request,
              const struct dry_field fields[], size_t n)
{
	dry_note(call->dry, &(struct dry_change){
				    .verb = verb,
				    .what = "load balancer",
				    .name = name,
				    .request = request,
				    .is_cloud = true,
				    .fields = fields,
				    .n_fields = n,
			    });
}

/* In a dry run: notes the creation, and makes up the balancer. */
static struct balancer *
note_creation(struct call *call, const struct lb_spec *spec)
{
	struct balancer *balancer = ARENA_NEW(call->arena, struct balancer);
	CLEANUP(buf_fini) struct buf ports = BUF_INIT(LIMIT_HTTP_REQUEST);
	CLEANUP(buf_fini) struct buf nodes = BUF_INIT(LIMIT_HTTP_REQUEST);
	struct dry_field fields[] = { { STR("ports"), STR_EMPTY, STR_EMPTY },
		                      { STR("nodes"), STR_EMPTY, STR_EMPTY } };

	for (size_t i = 0; i < spec->n_ports; i++)
		buf_addf(&ports, "%s%d to %d", i > 0 ? ", " : "", spec->ports[i].port,
		         spec->ports[i].node_port);
	for (size_t i = 0; i < spec->n_nodes; i++)
		buf_addf(&nodes, "%s%" STR_FMT, i > 0 ? ", " : "", STR_ARG(spec->nodes[i].name));
	fields[0].new = buf_str(&ports);
	fields[1].new = buf_str(&nodes);
	balancer_note(call, DRY_CREATE, spec->name, STR_EMPTY, fields, ARRAY_LEN(fields));
	balancer->id = spec->name;
	balancer->status = (struct lb_status){ ARENA_NEW(call->arena, struct lb_ingress), 1 };
	balancer->status.ingress[0] = (struct lb_ingress){ .ip = LB_NEW_ADDRESS,
		                                           .hostname = STR_EMPTY,
		                                           .ip_mode = LB_IP_MODE_VIP };
	return balancer;
}

/* Calls find(). Only an ERR_NOT_FOUND that agrees with the API's answers counts (cloud/rest.h). */
static bool
call_find(struct cloud *cloud, struct call *call, const struct lb_spec *spec, struct balancer **ret,
          struct error *err)
{
	rest_forget_answers(call);
	if (cloud->balancers->find(cloud, call, spec, ret, err))
		return true;
	rest_check_absence(call, /*is_search=*/true, err);
	return false;
}

/* The balancer was not found. ERR_PENDING: it may exist without being visible yet
 * (creation_hidden_ms). Each pause is half of the time since it was requested. An event reports
 * once that it takes long. In a dry run it counts as missing. */
static bool
check_not_hidden(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                 struct error *err)
{
	int64_t hidden_ms = cloud->balancers->creation_hidden_ms, now_ns = clock_boot(call->clock);
	struct creations *creations = &cloud->creations;
	int64_t since_ns, age_ms, pause_ms;
	bool is_hidden, reports = false;
	struct creation *one;

	balancer_begin(cloud, call);
	mutex_lock(&mu);
	one = find_creation(creations, spec->uid);
	since_ns = one ? one->begun_boot_ns : creations->leads_since_boot_ns;
	age_ms = (now_ns - since_ns) / NS_PER_MS;
	is_hidden = !call->dry && age_ms < hidden_ms;
	if (is_hidden && age_ms >= CREATION_LONG_S * 1000)
		one = make_creation(creations, spec->uid, hidden_ms * NS_PER_MS, now_ns);
	if (is_hidden && age_ms >= CREATION_LONG_S * 1000 && one) {
		one->begun_boot_ns = since_ns;
		reports = !one->is_reported;
		one->is_reported = true;
	}
	mutex_unlock(&mu);
	if (!is_hidden)
		return true;
	pause_ms = clock_earlier(clock_later(age_ms / 2, HIDDEN_MIN_MS), HIDDEN_MAX_MS);
	pause_ms = clock_earlier(pause_ms, hidden_ms - age_ms);
	err_later(err, ERR_PENDING, pause_ms,
	          "load balancer %" STR_FMT " may have been requested, and is not visible yet",
	          STR_ARG(spec->name));
	if (reports)
		report_service(cloud, spec, &pending_event, err->msg);
	return false;
}

/* With credentials of another project find() finds nothing. If they were replaced since, the
 * evidence is of another project than the search, so there is no balancer only if they are the
 * same. *ret is NULL then. */
static bool
find_balancer(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
              struct balancer **ret, struct error *err)
{
	uint64_t since = login_count_replaced();

	if (call_find(cloud, call, spec, ret, err)) {
		creations_forget(&cloud->creations, spec->uid);
		return true;
	}
	if (err->code != ERR_NOT_FOUND)
		return err_wrap(err, "find load balancer %" STR_FMT, STR_ARG(spec->name));
	if (!balancer_check_project(cloud, call, spec, err) || !login_check_same(since, err) ||
	    !check_not_hidden(cloud, call, spec, err))
		return false;
	*ret = NULL;
	return true;
}

/* Calls create(). If it fails, the balancer may exist nevertheless, unless the API has refused the
 * request. */
static bool
call_create(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
            struct balancer **ret, struct error *err)
{
	int64_t hidden_ns = cloud->balancers->creation_hidden_ms * NS_PER_MS;
	struct call_answers *seen = &call->answers;
	bool is_created;

	if (hidden_ns > 0 &&
	    !creations_note(&cloud->creations, spec->uid, hidden_ns, clock_boot(call->clock)))
		return err_later(err, ERR_PENDING, HIDDEN_MAX_MS,
		                 "load balancer %" STR_FMT
		                 " has to wait, because many others are being created",
		                 STR_ARG(spec->name));
	rest_forget_answers(call);
	is_created = cloud->balancers->create(cloud, call, spec, ret, err);
	if (!is_created && err->code != ERR_EXISTS && !seen->has_success &&
	    seen->last_status >= 400 && seen->last_status < 500)
		creations_forget(&cloud->creations, spec->uid);
	else if (hidden_ns > 0)
		(void)!creations_note(&cloud->creations, spec->uid, hidden_ns,
		                      clock_boot(call->clock));
	return is_created;
}

static bool
find_or_create(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
               struct balancer **ret, bool *ret_is_new, struct error *err)
{
	*ret_is_new = false;
	if (!find_balancer(cloud, call, spec, ret, err))
		return false;
	if (*ret)
		return true;
	if (call->dry) {
		*ret = note_creation(call, spec);
		*ret_is_new = true;
		return true;
	}
	*ret_is_new = call_create(cloud, call, spec, ret, err);
	if (*ret_is_new || (err->code == ERR_EXISTS && call_find(cloud, call, spec, ret, err)))
		return true;
	if (err->code == ERR_NOT_FOUND && !check_not_hidden(cloud, call, spec, err))
		return false;
	return err_wrap(err, "create load balancer %" STR_FMT, STR_ARG(spec->name));
}

static bool
change_balancer(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                struct balancer *balancer, struct error *err)
{
	rest_forget_answers(call);
	if (cloud->balancers->change(cloud, call, spec, balancer, err))
		return true;
	rest_check_absence(call, /*is_search=*/false, err);
	return err_wrap(err, "change load balancer %" STR_FMT, STR_ARG(balancer->id));
}

/* ERR_NOT_FOUND of destroy() may be about another object, such as the job that deletes the
 * balancer, so a search shows whether the balancer is gone. Both may be about another project than
 * the first search if credentials were replaced meanwhile. */
static bool
remove_by_driver(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                 bool *ret_found, struct error *err)
{
	struct balancer *balancer = NULL, *still = NULL;
	uint64_t since = login_count_replaced();
	struct error why;

	if (!find_balancer(cloud, call, spec, &balancer, err))
		return false;
	*ret_found = balancer != NULL;
	if (!balancer)
		return true;
	if (call->dry) {
		balancer_note(call, DRY_DELETE, balancer->id, STR_EMPTY, NULL, 0);
		return true;
	}
	if (cloud->balancers->destroy(cloud, call, spec, balancer, err))
		return true;
	if (err->code == ERR_NOT_FOUND) {
		if (call_find(cloud, call, spec, &still, &why))
			err->code = ERR_UNAVAILABLE;
		else if (why.code == ERR_NOT_FOUND)
			return login_check_same(since, err);
		else
			*err = why;
	}
	return err_wrap(err, "delete load balancer %" STR_FMT, STR_ARG(balancer->id));
}

/* ---- what the controllers call ---- */

bool
balancer_check(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
               struct error *err)
{
	CLEANUP(buf_fini) struct buf left_out = BUF_INIT(KIB(1));
	struct lb_spec fitted = *spec;

	if (!balancer_check_limits(cloud, spec, err) ||
	    !restrict_spec(cloud, call, &fitted, /*refuses=*/true, &left_out, err))
		return false;
	if (!cloud->balancers->check)
		return true;
	return cloud->balancers->check(cloud, call, &fitted, err);
}

bool
balancer_ensure(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                enum lb_outcome *ret, struct lb_status *ret_status, struct error *err)
{
	CLEANUP(buf_fini) struct buf left_out = BUF_INIT(KIB(1));
	struct lb_spec fitted = *spec;
	struct balancer *balancer = NULL;
	bool is_new;

	if (!balancer_check_limits(cloud, spec, err) ||
	    !restrict_spec(cloud, call, &fitted, /*refuses=*/true, &left_out, err))
		return false;
	if (cloud->balancers->ensure)
		return cloud->balancers->ensure(cloud, call, &fitted, ret, ret_status, err);
	if (!find_or_create(cloud, call, &fitted, &balancer, &is_new, err) ||
	    (!is_new && !change_balancer(cloud, call, &fitted, balancer, err)))
		return false;
	if (balancer->status.n_ingress == 0)
		return err_later(err, ERR_PENDING, NO_STATUS_MS,
		                 "load balancer %" STR_FMT " has no addresses yet",
		                 STR_ARG(balancer->id));
	*ret = LB_DONE;
	*ret_status = balancer->status;
	return true;
}

/* If the provider has update_nodes(), refused features are no error here: balancer_ensure() reports
 * them, and the targets of a balancer that exists already must still follow the nodes. */
bool
balancer_update_nodes(struct cloud *cloud, struct call *call, const struct lb_spec *spec,
                      struct error *err)
{
	CLEANUP(buf_fini) struct buf left_out = BUF_INIT(KIB(1));
	const struct balancer_ops *ops = cloud->balancers;
	struct lb_spec fitted = *spec;
	struct lb_status ignored = { 0 };
	enum lb_outcome outcome = LB_DONE;
	struct balancer *balancer = NULL;

	/* without update_nodes() ports change as well, so a refusal counts */
	if (!balancer_check_limits(cloud, spec, err) ||
	    !restrict_spec(cloud, call, &fitted, !ops->update_nodes, &left_out, err))
		return false;
	if (ops->update_nodes)
		return ops->update_nodes(cloud, call, &fitted, err);
	if (!ops->ensure)
		return call_find(cloud, call, &fitted, &balancer, err) &&
		       change_balancer(cloud, call, &fitted, balancer, err);
	return ops->ensure(cloud, call, &fitted, &outcome, &ignored, err) && outcome != LB_PARTIAL;
}

bool
balancer_remove(struct cloud *cloud, struct call *call, const struct lb_spec *spec, bool *ret_found,
                struct error *err)
{
	uint64_t since = login_count_replaced();
	struct lb_spec leaving = *spec;

	leaving.is_leaving = true; /* *spec may be of a time before the Service vanished */
	if (!(cloud->balancers->remove ? cloud->balancers->remove
	                               : remove_by_driver)(cloud, call, &leaving, ret_found, err))
		return false;
	/* a balancer that was not found is absent only if the evidence is of the same project */
	return *ret_found || login_check_same(since, err);
}

/* ---- waiting ---- */

/* Pauses are short at first, because most changes end soon and most mistakes are corrected soon. A
 * Service that is held waits for a person, so it has longer pauses and no failures. */
void
balancer_note_wait(struct cloud *cloud, const struct lb_spec *spec, struct lb_wait *wait,
                   int64_t now_mono_ns, struct error *err)
{
	bool is_long, is_report_due = wait->reported_mono_ns == 0 ||
	                              now_mono_ns - wait->reported_mono_ns >= wait_report_ns;
	int64_t pause_ms, min_ms, max_ms;

	if (err->code == ERR_PENDING && wait->pending_mono_ns != 0)
		wait->waited_ns += now_mono_ns - wait->pending_mono_ns;
	wait->pending_mono_ns = err->code == ERR_PENDING ? now_mono_ns : 0;
	if (err->code != ERR_PENDING || err->retry_after_ms > 0)
		return;
	is_long = wait->waited_ns >= wait_report_ns;
	pause_ms = wait->waited_ns / NS_PER_MS / (err->is_held ? 2 : 4);
	min_ms = err->is_held ? 5000 : 1000;
	max_ms = err->is_held || is_long ? 300000 : 15000;
	err->retry_after_ms = pause_ms < min_ms ? min_ms : pause_ms > max_ms ? max_ms : pause_ms;
	if (!is_report_due || (!err->is_held && !is_long))
		return;
	wait->reported_mono_ns = now_mono_ns;
	if (err->is_held) {
		report_service(cloud, spec, &held_event, err->msg);
		log_warn(
			"a service is held: neither its load balancer nor anything else of this cluster is "
			"found in the project of the credentials",
			LOG_STR("namespace", spec->namespace), LOG_STR("service", spec->service));
		return;
	}
	err->code = ERR_TIMEOUT;
	err->retry_after_ms = 0;
	err_wrap(err, "for more than 5 minutes");
}
