/* lb_plan.c: see lb_plan.h. */
#include "providers/hcloud/lb_plan.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/ip.h"
#include "base/limits.h"
#include "base/map.h"
#include "cloud/change.h"
#include "providers/hcloud/lb_wire.h"

#define OPS "hcops/LoadBalancerOps."
#define BUILDER "hcops/hclbServiceOptsBuilder."

enum {
	SHAPE_STEPS = 7, /* and one for each network that is left */
	STEP_FIELDS = 3, /* name and two labels */
};

/* ---- comparing: services ---- */

static bool
hz_plan_has_certificate(const struct hz_lb_http *http, int64_t id)
{
	for (size_t i = 0; i < http->n_certificates; i++) {
		if (http->certificates[i] == id)
			return true;
	}
	return false;
}

static bool
hz_plan_has_certificates(const struct hz_lb_http *http, const struct hz_lb_http *other)
{
	for (size_t i = 0; i < other->n_certificates; i++) {
		if (!hz_plan_has_certificate(http, other->certificates[i]))
			return false;
	}
	return true;
}

static bool
hz_plan_has_status_codes(const struct hz_lb_check *check, const struct hz_lb_check *other)
{
	for (size_t i = 0; i < other->n_status_codes; i++) {
		if (!str_is_among(other->status_codes[i], check->status_codes,
		                  check->n_status_codes))
			return false;
	}
	return true;
}

/* The body of a service that is as the actual one, to be compared with that of the wanted one: what
 * the cloud may order differently, or never tells, is as wanted. */
static struct str
hz_plan_present(const struct hz_lb_service *wanted, const struct hz_lb_service *actual,
                struct arena *arena)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_REQUEST);
	struct hz_lb_service is = *actual;
	struct hz_lb_http *http = &is.http;
	struct hz_lb_check *check = &is.check;

	/* A service over tcp has no http settings, even if annotations ask for some. */
	if (str_eq_c(wanted->protocol, "tcp"))
		is.http = wanted->http;
	is.has_http = true;
	/* An API without this member would never have the desired value, and the service would be
	 * updated in each run. */
	if (!http->timeout_idle_s.is_set)
		http->timeout_idle_s = wanted->http.timeout_idle_s;
	/* These lists are sets. */
	if (hz_plan_has_certificates(http, &wanted->http) &&
	    hz_plan_has_certificates(&wanted->http, http)) {
		http->certificates = wanted->http.certificates;
		http->n_certificates = wanted->http.n_certificates;
	}
	if (hz_plan_has_status_codes(check, &wanted->check) &&
	    hz_plan_has_status_codes(&wanted->check, check)) {
		check->status_codes = wanted->check.status_codes;
		check->n_status_codes = wanted->check.n_status_codes;
	}
	hz_body_service(&b, &is);
	return arena_str(arena, buf_str(&b));
}

/* "protocol tcp, listen_port 80, ..." */
struct str
hz_plan_service_text(const struct hz_lb_service *service, struct arena *arena)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);
	CLEANUP(buf_fini) struct buf b = BUF_INIT(LIMIT_HTTP_REQUEST);
	const struct dry_field *fields;
	size_t n;

	hz_body_service(&body, service);
	n = change_fields(&(struct change){ .body = buf_str(&body) }, arena, &fields);
	for (size_t i = 0; i < n; i++)
		buf_addf(&b, "%s%" STR_FMT " %" STR_FMT, i > 0 ? ", " : "", STR_ARG(fields[i].name),
		         STR_ARG(fields[i].new));
	return arena_str(arena, buf_str(&b));
}

/* ---- steps ---- */

/* A step's body is written first, then the step is added. */
struct planner {
	struct arena *arena;
	struct buf body;
	struct hz_steps *steps;
};

static struct planner
planner_of(struct arena *arena, size_t max_steps, struct hz_steps *steps)
{
	*steps = (struct hz_steps){ .steps = arena_calloc(arena, max_steps,
		                                          sizeof(struct hz_step)) };
	return (struct planner){ arena, BUF_INIT(LIMIT_HTTP_REQUEST), steps };
}

static void
planner_fini(struct planner *p)
{
	buf_fini(&p->body);
}

static struct hz_step *
hz_plan_add_step(struct planner *p, const char *verb, const char *operation)
{
	struct hz_step *step = &p->steps->steps[p->steps->n++];

	*step = (struct hz_step){
		.verb = verb,
		.operation = operation,
		.body = arena_str(p->arena, buf_str(&p->body)),
	};
	buf_reset(&p->body);
	return step;
}

/* Adds a field for notes, unless both are equal. */
static void
hz_plan_add_field(struct planner *p, struct hz_step *step, struct str name, struct str old,
                  struct str new)
{
	if (!step->fields)
		step->fields = arena_calloc(p->arena, STEP_FIELDS, sizeof(*step->fields));
	if (!str_eq(old, new))
		step->fields[step->n_fields++] = (struct dry_field){ name, old, new };
}

/* ---- shape ---- */

/* Each of the functions below adds steps, and sets what they change in the resulting balancer. */

static void
hz_plan_put(struct planner *p, const struct hz_lb_desired *desired, struct hz_lb *lb)
{
	bool is_renamed = desired->is_named && !str_eq(desired->name, lb->name);
	bool is_relabelled = !str_eq(desired->uid, lb->uid);
	struct hz_step *step;

	if (!is_renamed && !is_relabelled)
		return;
	hz_body_put(&p->body, lb, is_renamed ? desired->name : STR_EMPTY, is_relabelled, desired);
	step = hz_plan_add_step(p, NULL, OPS "changeHCLBInfo");
	if (is_renamed) {
		hz_plan_add_field(p, step, STR("name"), lb->name, desired->name);
		lb->name = desired->name;
	}
	if (!is_relabelled)
		return;
	/* of the labels only these two are ever changed */
	hz_plan_add_field(p, step, STR("label " HZ_LABEL_UID), lb->uid, desired->uid);
	hz_plan_add_field(p, step, STR("label " HZ_LABEL_CLUSTER),
	                  hz_lb_label_of(lb, HZ_LABEL_CLUSTER), desired->cluster);
	lb->uid = desired->uid;
}

/* Names in the DNS have no case. */
static void
hz_plan_rdns(struct planner *p, const struct hz_opt_str *wanted, struct hz_public_address *end,
             const char *operation)
{
	if (!wanted->is_set || end->ip.len == 0 || str_eq_nocase(wanted->value, end->dns_ptr))
		return;
	json_add_object(&p->body, NULL, JSON_TEXT("ip", end->ip),
	                JSON_TEXT("dns_ptr", wanted->value));
	hz_plan_add_field(p, hz_plan_add_step(p, "change_dns_ptr", operation),
	                  arena_printf(p->arena, "dns_ptr of %" STR_FMT, STR_ARG(end->ip)),
	                  end->dns_ptr, wanted->value);
	end->dns_ptr = wanted->value;
}

static bool
hz_plan_is_wanted_net(const struct hz_lb_desired *desired, const struct hz_private_net *net)
{
	struct ip wanted, ip;

	if (net->network != desired->network)
		return false;
	return !desired->private_ip.is_set || (ip_parse(desired->private_ip.value, &wanted) &&
	                                       ip_parse(net->ip, &ip) && ip_eq(&wanted, &ip));
}

/* The balancer is detached from all networks but the desired one, also if none is configured. It
 * loses the targets that it reached through them. */
static void
hz_plan_networks(struct planner *p, const struct hz_lb_desired *desired, struct hz_lb *lb)
{
	struct hz_private_net added = {
		.network = desired->network,
		.ip = desired->private_ip.is_set ? desired->private_ip.value : HZ_NEW_PRIVATE_IP,
	};
	struct hz_private_nets old = lb->nets;
	const struct hz_lb_target *targets = lb->targets;
	size_t n_targets = lb->n_targets;

	lb->nets.items = arena_calloc(p->arena, old.n + 1, sizeof(lb->nets.items[0]));
	lb->nets.n = 0;
	for (size_t i = 0; i < old.n; i++) {
		const struct hz_private_net *net = &old.items[i];

		if (hz_plan_is_wanted_net(desired, net)) {
			lb->nets.items[lb->nets.n++] = *net;
			continue;
		}
		json_add_object(&p->body, NULL, JSON_NUMBER("network", net->network));
		hz_plan_add_field(p,
		                  hz_plan_add_step(p, "detach_from_network",
		                                   OPS "detachFromNetwork"),
		                  arena_printf(p->arena, "network %" PRId64, net->network), net->ip,
		                  STR_EMPTY);
	}
	if (lb->nets.n < old.n) {
		lb->targets = arena_calloc(p->arena, n_targets, sizeof(lb->targets[0]));
		lb->n_targets = 0;
		for (size_t i = 0; i < n_targets; i++) {
			if (!targets[i].uses_private_ip)
				lb->targets[lb->n_targets++] = targets[i];
		}
	}
	if (desired->network == 0 || lb->nets.n > 0)
		return;
	hz_body_attach(&p->body, desired);
	hz_plan_add_field(p, hz_plan_add_step(p, "attach_to_network", OPS "attachToNetwork"),
	                  arena_printf(p->arena, "network %" PRId64, added.network), STR_EMPTY,
	                  added.ip);
	lb->nets.items[lb->nets.n++] = added;
}

static void
hz_plan_algorithm(struct planner *p, struct str wanted, struct hz_lb *lb)
{
	if (wanted.len == 0 || str_eq(wanted, lb->algorithm))
		return;
	json_add_object(&p->body, NULL, JSON_TEXT("type", wanted));
	hz_plan_add_field(p, hz_plan_add_step(p, "change_algorithm", OPS "changeAlgorithm"),
	                  STR("algorithm"), lb->algorithm, wanted);
	lb->algorithm = wanted;
}

/* A balancer is never changed to the default type: that could be smaller than a type that was
 * chosen by hand. */
static void
hz_plan_type(struct planner *p, const struct hz_lb_desired *desired, const struct hz_lb_type *type,
             struct hz_lb *lb)
{
	if (!desired->is_type_chosen || str_eq(type->name, lb->type.name))
		return;
	json_add_object(&p->body, NULL, JSON_NUMBER("load_balancer_type", type->id));
	hz_plan_add_field(p, hz_plan_add_step(p, "change_type", OPS "changeType"), STR("type"),
	                  lb->type.name, type->name);
	lb->type = *type;
}

static void
hz_plan_public(struct planner *p, enum hz_opt_bool wanted, struct hz_lb *lb)
{
	const struct str texts[] = { STR("disabled"), STR("enabled") };
	const char *verb = lb->is_public ? "disable_public_interface" : "enable_public_interface";

	if (wanted == HZ_UNSET || (wanted == HZ_YES) == lb->is_public)
		return;
	hz_plan_add_field(p, hz_plan_add_step(p, verb, OPS "togglePublicInterface"),
	                  STR("public interface"), texts[lb->is_public], texts[!lb->is_public]);
	lb->is_public = !lb->is_public;
}

void
hz_plan_shape(const struct hz_lb_desired *desired, const struct hz_lb_type *type,
              const struct hz_lb *present, struct arena *arena, struct hz_steps *ret,
              struct hz_lb *ret_result)
{
	CLEANUP(planner_fini)
	struct planner p = planner_of(arena, SHAPE_STEPS + present->nets.n, ret);
	struct hz_lb *lb = ret_result;

	*lb = *present;
	hz_plan_put(&p, desired, lb);
	hz_plan_rdns(&p, &desired->ipv4_rdns, &lb->ipv4, OPS "changeIPv4RDNS");
	hz_plan_rdns(&p, &desired->ipv6_rdns, &lb->ipv6, OPS "changeIPv6RDNS");
	hz_plan_algorithm(&p, desired->algorithm, lb);
	hz_plan_type(&p, desired, type, lb);
	hz_plan_networks(&p, desired, lb);
	hz_plan_public(&p, desired->is_public, lb);
}

/* ---- services ---- */

static const struct hz_lb_service *
hz_plan_find_service(const struct hz_lb_service services[], size_t n, int64_t listen_port)
{
	for (size_t i = 0; i < n; i++) {
		if (services[i].listen_port == listen_port)
			return &services[i];
	}
	return NULL;
}

/* A desired service, with what decides whether the type's limit leaves room for it. */
struct ranked {
	size_t index;
	bool is_kept;
	int64_t listen_port;
};

static int
hz_plan_rank(const void *left, const void *right)
{
	const struct ranked *a = left, *b = right;

	if (a->is_kept != b->is_kept)
		return b->is_kept - a->is_kept;
	return (a->listen_port > b->listen_port) - (a->listen_port < b->listen_port);
}

void
hz_plan_fit_services(struct hz_lb_desired *desired, int64_t max, const struct hz_lb *lb,
                     struct arena *arena, struct buf *ret_left_out)
{
	size_t n = desired->n_services, n_fit = 0;
	const struct hz_lb_service *all = desired->services;
	struct ranked *ranks = arena_calloc(arena, n, sizeof(*ranks));
	bool *fits = arena_calloc(arena, n, sizeof(*fits));

	if (max <= 0 || n <= (size_t)max)
		return;
	for (size_t i = 0; i < n; i++) {
		ranks[i].index = i;
		ranks[i].listen_port = all[i].listen_port;
		ranks[i].is_kept = lb && hz_plan_find_service(lb->services, lb->n_services,
		                                              all[i].listen_port);
	}
	qsort(ranks, n, sizeof(*ranks), hz_plan_rank);
	for (size_t i = 0; i < n; i++) {
		fits[ranks[i].index] = i < (size_t)max;
		if (i >= (size_t)max)
			buf_addf(ret_left_out, "%s%" PRId64, i > (size_t)max ? ", " : "",
			         ranks[i].listen_port);
	}
	desired->services = arena_calloc(arena, (size_t)max, sizeof(*desired->services));
	for (size_t i = 0; i < n; i++) {
		if (fits[i])
			desired->services[n_fit++] = all[i];
	}
	desired->n_services = n_fit;
}

static void
hz_plan_service_addition(struct planner *p, const struct hz_lb_service *wanted)
{
	struct hz_step *step;

	hz_body_service(&p->body, wanted);
	step = hz_plan_add_step(p, "add_service", BUILDER "buildAddServiceOpts");
	step->listen_port = wanted->listen_port;
	hz_plan_add_field(p, step, arena_printf(p->arena, "service %" PRId64, wanted->listen_port),
	                  STR_EMPTY, hz_plan_service_text(wanted, p->arena));
}

static void
hz_plan_service_update(struct planner *p, const struct hz_lb_service *wanted,
                       const struct hz_lb_service *actual)
{
	struct change change = { .present = hz_plan_present(wanted, actual, p->arena) };
	struct hz_step *step;

	hz_body_service(&p->body, wanted);
	change.body = buf_str(&p->body);
	if (!change_is_needed(&change, p->arena)) {
		buf_reset(&p->body);
		return;
	}
	step = hz_plan_add_step(p, "update_service", BUILDER "buildUpdateServiceOpts");
	step->listen_port = wanted->listen_port;
	step->present = change.present;
}

static void
hz_plan_service_removals(struct planner *p, const struct hz_lb_desired *desired,
                         const struct hz_lb *lb)
{
	for (size_t i = 0; i < lb->n_services; i++) {
		const struct hz_lb_service *actual = &lb->services[i];
		struct hz_step *step;

		if (hz_plan_find_service(desired->services, desired->n_services,
		                         actual->listen_port))
			continue;
		json_add_object(&p->body, NULL, JSON_NUMBER("listen_port", actual->listen_port));
		step = hz_plan_add_step(p, "delete_service", /*operation=*/NULL);
		step->listen_port = actual->listen_port;
		hz_plan_add_field(p, step,
		                  arena_printf(p->arena, "service %" PRId64, actual->listen_port),
		                  hz_plan_service_text(actual, p->arena), STR_EMPTY);
	}
}

void
hz_plan_services(const struct hz_lb_desired *desired, const struct hz_lb *lb, struct arena *arena,
                 struct hz_steps *ret)
{
	CLEANUP(planner_fini)
	struct planner p = planner_of(arena, desired->n_services + lb->n_services, ret);
	size_t n_at_once = lb->n_services, max = (size_t)lb->type.max_services;
	bool removes_first;

	for (size_t i = 0; i < desired->n_services; i++)
		n_at_once += !hz_plan_find_service(lb->services, lb->n_services,
		                                   desired->services[i].listen_port);
	removes_first = lb->type.max_services > 0 && n_at_once > max;
	if (removes_first)
		hz_plan_service_removals(&p, desired, lb);
	for (size_t i = 0; i < desired->n_services; i++) {
		const struct hz_lb_service *wanted = &desired->services[i];
		const struct hz_lb_service *actual = hz_plan_find_service(lb->services,
		                                                          lb->n_services,
		                                                          wanted->listen_port);

		if (actual)
			hz_plan_service_update(&p, wanted, actual);
		else
			hz_plan_service_addition(&p, wanted);
	}
	if (!removes_first)
		hz_plan_service_removals(&p, desired, lb);
}

/* ---- targets ---- */

/* The targets by their keys, each once: of equal ones the first that was given. */
static struct map
hz_plan_target_map(const struct hz_lb_target targets[], size_t n, struct arena *arena)
{
	struct map map = MAP_INIT;

	for (size_t i = 0; i < n; i++) {
		struct str key = hz_target_key(&targets[i], targets[i].uses_private_ip, arena);

		if (!map_get(&map, key))
			map_put(&map, key, (void *)(uintptr_t)&targets[i]);
	}
	return map;
}

static void
hz_plan_add_target(struct planner *p, const struct hz_lb_target *target)
{
	hz_body_target(&p->body, target, /*is_removed=*/false);
	hz_plan_add_step(p, "add_target", /*operation=*/NULL)->target = target;
}

/* Selectors are never ours, and a target that the list repeats is removed once. */
static bool
hz_plan_must_remove(const struct hz_lb_target *target, const struct map *wanted,
                    const struct map *actual, struct arena *arena)
{
	struct str key = hz_target_key(target, target->uses_private_ip, arena);

	return target->type != HZ_TARGET_SELECTOR && !map_get(wanted, key) &&
	       map_get(actual, key) == target;
}

/* The same server by its other address, public or private, if it is to be added; or NULL. */
static const struct hz_lb_target *
hz_plan_find_other_address(const struct hz_lb_target *target, const struct map *wanted,
                           const struct map *actual, struct arena *arena)
{
	struct str key;

	if (target->type != HZ_TARGET_SERVER)
		return NULL;
	key = hz_target_key(target, !target->uses_private_ip, arena);
	return map_get(actual, key) ? NULL : map_get(wanted, key);
}

void
hz_plan_targets(const struct hz_lb_target targets[], size_t n, const struct hz_lb *lb,
                struct arena *arena, struct hz_steps *ret)
{
	CLEANUP(planner_fini)
	struct planner p = planner_of(arena, n + lb->n_targets, ret);
	CLEANUP(map_fini) struct map wanted = hz_plan_target_map(targets, n, arena);
	CLEANUP(map_fini)
	struct map actual = hz_plan_target_map(lb->targets, lb->n_targets, arena);
	bool *is_added = arena_calloc(arena, n, sizeof(*is_added));

	for (size_t i = 0; i < lb->n_targets; i++) {
		const struct hz_lb_target *target = &lb->targets[i], *other;

		if (!hz_plan_must_remove(target, &wanted, &actual, arena))
			continue;
		hz_body_target(&p.body, target, /*is_removed=*/true);
		hz_plan_add_step(&p, "remove_target", /*operation=*/NULL)->target = target;
		other = hz_plan_find_other_address(target, &wanted, &actual, arena);
		if (!other)
			continue;
		hz_plan_add_target(&p, other);
		is_added[other - targets] = true;
	}
	for (size_t i = 0; i < n; i++) {
		const struct hz_lb_target *target = &targets[i];
		struct str key = hz_target_key(target, target->uses_private_ip, arena);

		if (!is_added[i] && map_get(&wanted, key) == target && !map_get(&actual, key))
			hz_plan_add_target(&p, target);
	}
}
