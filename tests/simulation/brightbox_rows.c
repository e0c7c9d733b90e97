/* brightbox_rows.c: the requests that the model answers, their bodies, and what they do.
 *
 * What Brightbox does not document is as tests/sim/brightbox has it: docs/brightbox.md. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "brightbox_internal.h"

#define NO_TEXT ((struct str){ NULL, 0 })

enum { ID_LETTERS = 5 };

/* ---- texts with a form ---- */

static void
note_format(struct kind_problems *problems, struct str where, bool is_valid)
{
	if (!is_valid)
		kind_note(problems, where, STR("has an invalid format"));
}

/* "srv-abcde", with one of these codes. */
static bool
is_id(struct str text, const char *codes)
{
	struct str code, rest, list = str_c(codes), one;
	bool is_known = false;

	if (!str_cut(text, '-', &code, &rest) || rest.len < ID_LETTERS)
		return false;
	while (str_split(&list, ' ', &one))
		is_known = is_known || str_eq(one, code);
	for (size_t i = 0; i < rest.len; i++)
		is_known = is_known && ((rest.ptr[i] >= '0' && rest.ptr[i] <= '9') ||
		                        (rest.ptr[i] >= 'a' && rest.ptr[i] <= 'z'));
	return is_known;
}

#define ID_CHECK(name, codes)                                                              \
	static void check_##name(struct arena *arena, yyjson_val *value, struct str where, \
	                         struct kind_problems *problems)                           \
	{                                                                                  \
		(void)arena;                                                               \
		note_format(problems, where, is_id(json_text(value), codes));              \
	}

ID_CHECK(server, "srv")
ID_CHECK(group, "grp")
ID_CHECK(policy, "fwp")
ID_CHECK(destination, "lba int grp dbs")

/* Up to 15 ports or ranges: "80,443,8000-8010". */
static bool
are_ports(struct str text)
{
	struct str range, low, high, rest = text;
	int n = 0;

	while (str_split(&rest, ',', &range)) {
		bool is_range = str_cut(range, '-', &low, &high);

		if (!is_range)
			low = range;
		if (++n > 15 || !str_is_digits(low) || low.len > 5 || low.len == 0 ||
		    (is_range && (!str_is_digits(high) || high.len > 5 || high.len == 0)))
			return false;
	}
	return n > 0;
}

static void
check_ports(struct arena *arena, yyjson_val *value, struct str where,
            struct kind_problems *problems)
{
	(void)arena;
	note_format(problems, where, are_ports(json_text(value)));
}

/* ---- bodies ---- */

static const struct kind flag = { .form = KIND_FLAG };
static const struct kind name = { .form = KIND_TEXT, .high = 255, .is_nullable = true };
static const struct kind text = { .form = KIND_TEXT, .is_nullable = true };
static const struct kind some_text = { .form = KIND_TEXT, .low = 1 };
static const struct kind domain = { .form = KIND_TEXT, .low = 1, .high = 253 };
static const struct kind port = { .form = KIND_NUMBER, .low = 1, .high = 65535 };
static const struct kind positive = { .form = KIND_NUMBER, .low = 1 };
static const struct kind timeout = { .form = KIND_NUMBER, .low = 5000, .high = 86400000 };
static const struct kind buffer = { .form = KIND_NUMBER, .low = 1024, .high = 16384 };
static const struct kind server_id = { .form = KIND_TEXT, .check = check_server };
static const struct kind group_id = { .form = KIND_TEXT, .check = check_group };
static const struct kind policy_id = { .form = KIND_TEXT, .check = check_policy };
static const struct kind destination = { .form = KIND_TEXT, .check = check_destination };
static const struct kind ports = { .form = KIND_TEXT, .is_nullable = true, .check = check_ports };
static const struct kind proxy_protocol = {
	.form = KIND_ONE_OF,
	.is_nullable = true,
	.values = (const char *const[]){ "v1", "v2", "v2-ssl", "v2-ssl-cn", NULL },
};
static const struct kind nodes = { .form = KIND_LIST,
	                           .is_nullable = true,
	                           .item = OBJECT({ "node", &server_id, true }) };
static const struct kind domains = { .form = KIND_LIST, .is_nullable = true, .item = &domain };

#define LISTENER                                                     \
	OBJECT({ "in", &port, true }, { "out", &port, true },        \
	       { "protocol", ONE_OF("tcp", "http", "https"), true }, \
	       { "timeout", &timeout, false }, { "proxy_protocol", &proxy_protocol, false })
#define CHECK                                                                         \
	OBJECT({ "port", &port, true }, { "type", ONE_OF("tcp", "http"), true },      \
	       { "request", &some_text, false }, { "interval", &positive, false },    \
	       { "timeout", &positive, false }, { "threshold_up", &positive, false }, \
	       { "threshold_down", &positive, false })
#define BALANCER(is_new)                                                                          \
	OBJECT({ "healthcheck", CHECK, is_new }, { "listeners", LIST(LISTENER), is_new },         \
	       { "name", &name, false }, { "nodes", &nodes, false },                              \
	       { "policy", ONE_OF("least-connections", "round-robin", "source-address"), false }, \
	       { "domains", &domains, false }, { "https_redirect", &flag, false },                \
	       { "buffer_size", &buffer, false }, { "ssl_minimum_version", &text, false },        \
	       { "certificate_pem", &text, false }, { "certificate_private_key", &text, false })
#define MEMBERS OBJECT({ "servers", LIST(OBJECT({ "server", &server_id, true })), true })
#define NAMED                               \
	{ "name", &name, false },           \
	{                                   \
		"description", &text, false \
	}
#define RULE(is_new)                                                                    \
	OBJECT({ "firewall_policy", &policy_id, is_new }, { "protocol", &text, false }, \
	       { "source", &text, false }, { "source_port", &ports, false },            \
	       { "destination", &text, false }, { "destination_port", &ports, false },  \
	       { "icmp_type_name", &text, false }, { "description", &text, false })

/* ---- helpers ---- */

#define AS(kind, object) ((struct brightbox_##kind *)(object))

static bool
find(struct bm_call *call, enum brightbox_kind kind, struct str id, struct brightbox_object **ret)
{
	*ret = brightbox_find(&call->account->base, kind, id);
	return *ret || bm_refuse_missing(call);
}

static struct str
keep(struct bm_call *call, struct str value)
{
	return arena_str(&call->b->arena, value);
}

/* The effect follows the answer, after that time. */
static bool
then(struct bm_call *call, int64_t delay_ns, bm_apply *apply, struct str detail)
{
	call->after = (struct bm_effect){ .apply = apply, .text = detail };
	call->after_ns = delay_ns;
	return true;
}

static bool
add(struct bm_call *call)
{
	const struct brightbox_account *a = &call->account->base;

	if (a->n_of[call->row->kind] >= a->limits[call->row->kind])
		return bm_refuse(
			call, 403, "Forbidden",
			"Account limit reached, please contact support for more information");
	call->object = bm_add(call->b, call->account, call->row->kind);
	bm_read_object(call->b, call->body, call->object);
	return true;
}

static bool
change(struct bm_call *call)
{
	bm_read_object(call->b, call->body, call->object);
	return true;
}

static bool
is_leaving(struct str status)
{
	return str_eq_c(status, "deleting") || str_eq_c(status, "deleted");
}

static bool
list_accounts(struct bm_call *call)
{
	json_begin_array(&call->answer->body, NULL);
	bm_write_account(call->account, &call->answer->body, NULL);
	json_end_array(&call->answer->body);
	return true;
}

static bool
show_account(struct bm_call *call)
{
	bm_write_account(call->account, &call->answer->body, NULL);
	return true;
}

/* ---- servers ---- */

static const struct brightbox_server *
live_server(const struct bm_account *a, struct str id)
{
	const struct brightbox_server *server = AS(server,
	                                           brightbox_find(&a->base, BRIGHTBOX_SERVER, id));

	return server && !str_eq_c(server->status, "deleted") ? server : NULL;
}

static struct str *
without_id(struct brightbox *b, const struct str ids[], size_t *n, struct str id)
{
	struct str *kept = arena_calloc(&b->arena, *n, sizeof(*kept));
	size_t n_kept = 0;

	for (size_t i = 0; i < *n; i++) {
		if (!str_eq(ids[i], id))
			kept[n_kept++] = ids[i];
	}
	*n = n_kept;
	return kept;
}

void
bm_leave_holders(struct brightbox *b, struct bm_account *a, struct str server)
{
	for (size_t i = 0; i < a->base.n_of[BRIGHTBOX_GROUP]; i++) {
		struct brightbox_group *group = BRIGHTBOX_GROUP_AT(&a->base, i);

		group->servers = without_id(b, group->servers, &group->n_servers, server);
	}
	for (size_t i = 0; i < a->base.n_of[BRIGHTBOX_BALANCER]; i++) {
		struct brightbox_balancer *lb = BRIGHTBOX_BALANCER_AT(&a->base, i);

		lb->nodes = without_id(b, lb->nodes, &lb->n_nodes, server);
	}
}

static void
end_server(struct brightbox *b, struct brightbox_object *o, const struct bm_effect *e)
{
	AS(server, o)->status = STR("deleted");
	AS(server, o)->deleted_ns = b->now_ns;
	bm_leave_holders(b, e->account, o->id);
}

static bool
delete_server(struct bm_call *call)
{
	struct brightbox_server *server = AS(server, call->object);

	if (server->is_locked || is_leaving(server->status))
		return bm_refuse_conflict(call);
	server->status = STR("deleting");
	return then(call, bm_delay(call->b), end_server, STR_EMPTY);
}

static void
set_power(struct brightbox *b, struct brightbox_object *o, const struct bm_effect *e)
{
	(void)b;
	AS(server, o)->status = e->text;
}

static bool
power(struct bm_call *call)
{
	bool starts = str_ends(call->path, STR("/start"));
	bool stops = str_ends(call->path, STR("/stop")) || str_ends(call->path, STR("/shutdown"));

	if (!str_eq_c(AS(server, call->object)->status, starts ? "inactive" : "active"))
		return bm_refuse_conflict(call);
	return then(call, bm_delay(call->b), set_power, stops ? STR("inactive") : STR("active"));
}

/* ---- load balancers ---- */

static bool
has_duplicate_ports(yyjson_val *listeners)
{
	size_t n = yyjson_arr_size(listeners);

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < i; k++) {
			if (yyjson_equals(yyjson_obj_get(yyjson_arr_get(listeners, i), "in"),
			                  yyjson_obj_get(yyjson_arr_get(listeners, k), "in")))
				return true;
		}
	}
	return false;
}

/* lb NULL: a new one */
static bool
uses_https(const struct bm_call *call, const struct brightbox_balancer *lb)
{
	yyjson_val *listeners = yyjson_obj_get(call->body, "listeners"), *one;
	size_t i, n;

	yyjson_arr_foreach(listeners, i, n, one)
	{
		if (str_eq_c(json_view(one, "protocol"), "https"))
			return true;
	}
	for (i = 0; !listeners && lb && i < lb->n_listeners; i++) {
		if (str_eq_c(lb->listeners[i].protocol, "https"))
			return true;
	}
	return false;
}

static bool
check_balancer(struct bm_call *call, const struct brightbox_balancer *lb)
{
	yyjson_val *wanted = yyjson_obj_get(call->body, "domains"), *one;
	size_t i, n, n_domains = lb ? lb->n_domains : 0;
	struct kind_problems problems = { 0 };

	yyjson_arr_foreach(yyjson_obj_get(call->body, "nodes"), i, n, one)
	{
		struct str id = json_view(one, "node");

		if (!live_server(call->account, id))
			kind_note(&problems, STR("Node"),
			          arena_printf(&call->arena,
			                       "%" STR_FMT " is not a server of this account",
			                       STR_ARG(id)));
	}
	if (has_duplicate_ports(yyjson_obj_get(call->body, "listeners")))
		kind_note(&problems, STR("Listeners"), STR("have duplicate in ports"));
	if (yyjson_is_arr(wanted))
		n_domains = yyjson_arr_size(wanted);
	if (uses_https(call, lb) && n_domains == 0 &&
	    !yyjson_obj_get(call->body, "certificate_pem"))
		kind_note(&problems, STR("Listeners"),
		          STR("with https need domains or a certificate"));
	return bm_refuse_problems(call, &problems);
}

static void
validate_domain(struct brightbox *b, struct brightbox_object *o, const struct bm_effect *e)
{
	struct brightbox_balancer *lb = AS(balancer, o);
	struct brightbox_domain *copies = arena_calloc(&b->arena, lb->n_domains, sizeof(*copies));

	for (size_t i = 0; i < lb->n_domains; i++) {
		copies[i] = lb->domains[i];
		if (str_eq(copies[i].identifier, e->text))
			copies[i].status = STR("valid");
	}
	lb->domains = copies;
}

static struct brightbox_domain
new_domain(struct bm_call *call, struct str identifier)
{
	struct brightbox_domain made = { keep(call, identifier), STR("valid"), NO_TEXT };
	int64_t delay_ns = bm_delay(call->b);

	if (delay_ns == 0)
		return made;
	made.status = STR("pending");
	bm_later(call->b,
	         (struct bm_effect){ validate_domain, call->account, BRIGHTBOX_BALANCER,
	                             call->object->id, made.identifier, call->who, 0 },
	         delay_ns);
	return made;
}

static void
set_domains(struct bm_call *call, struct brightbox_balancer *lb, yyjson_val *wanted)
{
	size_t n_known = lb->n_domains, i, n;
	const struct brightbox_domain *known = lb->domains;
	yyjson_val *one;

	lb->n_domains = yyjson_arr_size(wanted);
	lb->domains = arena_calloc(&call->b->arena, lb->n_domains, sizeof(*lb->domains));
	yyjson_arr_foreach(wanted, i, n, one)
	{
		size_t k = 0;

		while (k < n_known && !str_eq(known[k].identifier, json_text(one)))
			k++;
		lb->domains[i] = k < n_known ? known[k] : new_domain(call, json_text(one));
	}
}

static bool
set_balancer(struct bm_call *call, struct brightbox_balancer *lb)
{
	yyjson_val *nodes_wanted = yyjson_obj_get(call->body, "nodes"), *one;
	yyjson_val *listeners = yyjson_obj_get(call->body, "listeners");
	yyjson_val *check = yyjson_obj_get(call->body, "healthcheck");
	struct arena *arena = &call->b->arena;
	size_t i, n;

	bm_read_object(call->b, call->body, &lb->base);
	if (nodes_wanted) {
		lb->n_nodes = yyjson_arr_size(nodes_wanted);
		lb->nodes = arena_calloc(arena, lb->n_nodes, sizeof(*lb->nodes));
	}
	yyjson_arr_foreach(nodes_wanted, i, n, one)
	{
		lb->nodes[i] = keep(call, json_view(one, "node"));
	}
	if (listeners) {
		lb->n_listeners = yyjson_arr_size(listeners);
		lb->listeners = arena_calloc(arena, lb->n_listeners, sizeof(*lb->listeners));
	}
	yyjson_arr_foreach(listeners, i, n, one)
	{
		lb->listeners[i].timeout = 50000;
		bm_read(call->b, bm_listener_members, one, &lb->listeners[i]);
	}
	if (check) {
		lb->check = bm_usual_check;
		bm_read(call->b, bm_check_members, check, &lb->check);
	}
	if (yyjson_is_arr(yyjson_obj_get(call->body, "domains")))
		set_domains(call, lb, yyjson_obj_get(call->body, "domains"));
	return true;
}

static void
build_balancer(struct brightbox *b, struct brightbox_object *o, const struct bm_effect *e)
{
	(void)b;
	(void)e;
	if (str_eq_c(AS(balancer, o)->status, "creating"))
		AS(balancer, o)->status = STR("active");
}

static bool
create_balancer(struct bm_call *call)
{
	if (!add(call))
		return false;
	if (!check_balancer(call, NULL)) {
		call->account->base.n_of[BRIGHTBOX_BALANCER]--;
		return false;
	}
	return set_balancer(call, AS(balancer, call->object)) &&
	       then(call, bm_delay(call->b), build_balancer, STR_EMPTY);
}

static bool
update_balancer(struct bm_call *call)
{
	struct brightbox_balancer *lb = AS(balancer, call->object);

	if (!str_eq_c(lb->status, "active") && !str_eq_c(lb->status, "creating"))
		return bm_refuse_conflict(call);
	return check_balancer(call, lb) && set_balancer(call, lb);
}

/* Its cloud IPs are free, and it vanishes from lists later. */
static void
end_balancer(struct brightbox *b, struct brightbox_object *o, const struct bm_effect *e)
{
	struct brightbox_account *a = &e->account->base;
	struct bm_effect last = *e;

	AS(balancer, o)->status = STR("deleted");
	AS(balancer, o)->deleted_ns = b->now_ns;
	for (size_t i = 0; i < a->n_of[BRIGHTBOX_CLOUD_IP]; i++) {
		struct brightbox_cloud_ip *ip = BRIGHTBOX_CLOUD_IP_AT(a, i);

		if (!str_eq(ip->balancer, o->id) || b->settings.leaves_cloud_ips_mapped)
			continue;
		ip->status = STR("unmapped");
		ip->balancer = NO_TEXT;
	}
	last.apply = bm_vanish;
	bm_later(b, last, b->settings.linger_ns);
}

static bool
delete_balancer(struct bm_call *call)
{
	struct brightbox_balancer *lb = AS(balancer, call->object);

	if (lb->is_locked || is_leaving(lb->status))
		return bm_refuse_conflict(call);
	lb->status = STR("deleting");
	return then(call, bm_delay(call->b), end_balancer, STR_EMPTY);
}

/* ---- cloud IPs ---- */

/* The mapping to a balancer that was deleted meanwhile has no effect. */
static void
set_mapping(struct brightbox *b, struct brightbox_object *o, const struct bm_effect *e)
{
	const struct brightbox_balancer *lb = AS(balancer,
	                                         brightbox_find(&e->account->base,
	                                                        BRIGHTBOX_BALANCER, e->text));
	struct brightbox_cloud_ip *ip = AS(cloud_ip, o);

	(void)b;
	if (str_starts(e->text, STR("lba-")) && (!lb || is_leaving(lb->status)))
		return;
	ip->status = e->text.len > 0 ? STR("mapped") : STR("unmapped");
	if (e->text.len == 0)
		ip->balancer = ip->interface = ip->group = NO_TEXT;
	else if (str_starts(e->text, STR("lba-")))
		ip->balancer = e->text;
	else if (str_starts(e->text, STR("int-")))
		ip->interface = e->text;
	else
		ip->group = e->text;
}

static bool
is_interface(const struct bm_account *a, struct str id)
{
	for (size_t i = 0; i < a->base.n_of[BRIGHTBOX_SERVER]; i++) {
		if (str_eq(BRIGHTBOX_SERVER_AT(&a->base, i)->interface, id))
			return true;
	}
	return false;
}

static bool
map_cloud_ip(struct bm_call *call)
{
	struct str to = keep(call, json_view(call->body, "destination"));
	bool to_balancer = str_starts(to, STR("lba-"));
	struct brightbox_object *target;

	if (to_balancer || str_starts(to, STR("grp-"))) {
		if (!find(call, to_balancer ? BRIGHTBOX_BALANCER : BRIGHTBOX_GROUP, to, &target))
			return false;
		if (to_balancer && is_leaving(AS(balancer, target)->status))
			return bm_refuse_conflict(call);
	} else if (!is_interface(call->account, to)) {
		return bm_refuse_missing(call);
	}
	if (str_eq_c(AS(cloud_ip, call->object)->status, "mapped"))
		return bm_refuse_conflict(call);
	return call->b->settings.never_maps || then(call, bm_delay(call->b), set_mapping, to);
}

static bool
unmap_cloud_ip(struct bm_call *call)
{
	if (!str_eq_c(AS(cloud_ip, call->object)->status, "mapped"))
		return bm_refuse_conflict(call);
	return then(call, bm_delay(call->b), set_mapping, STR_EMPTY);
}

static bool
delete_cloud_ip(struct bm_call *call)
{
	if (str_eq_c(AS(cloud_ip, call->object)->status, "mapped"))
		return bm_refuse_conflict(call);
	return then(call, 0, bm_vanish, STR_EMPTY);
}

/* ---- server groups ---- */

static bool
change_members(struct bm_call *call)
{
	struct brightbox_group *group = AS(group, call->object);
	bool adds = str_ends(call->path, STR("/add_servers"));
	yyjson_val *wanted = yyjson_obj_get(call->body, "servers"), *one;
	struct kind_problems problems = { 0 };
	size_t i, n;

	yyjson_arr_foreach(wanted, i, n, one)
	{
		if (!live_server(call->account, json_view(one, "server")))
			kind_note(&problems, json_view(one, "server"),
			          STR("is not a server of this account"));
	}
	if (!bm_refuse_problems(call, &problems))
		return false;
	yyjson_arr_foreach(wanted, i, n, one)
	{
		struct str id = keep(call, json_view(one, "server"));

		if (!adds)
			group->servers = without_id(call->b, group->servers, &group->n_servers, id);
		else if (!str_is_among(id, group->servers, group->n_servers))
			group->servers = model_with(&call->b->arena, group->servers,
			                            group->n_servers++, sizeof(id), &id);
	}
	return true;
}

/* The policy of the group, if there is one, is applied to none afterwards. */
static void
detach_policy(struct bm_account *a, struct str group)
{
	for (size_t i = 0; i < a->base.n_of[BRIGHTBOX_POLICY]; i++) {
		struct brightbox_policy *policy = AS(policy, a->base.of[BRIGHTBOX_POLICY][i]);

		if (str_eq(policy->group, group))
			policy->group = NO_TEXT;
	}
}

static void
end_group(struct brightbox *b, struct brightbox_object *o, const struct bm_effect *e)
{
	detach_policy(e->account, o->id);
	bm_vanish(b, o, e);
}

static bool
delete_group(struct bm_call *call)
{
	const struct brightbox_group *group = AS(group, call->object);

	if (group->is_default || group->n_servers > 0)
		return bm_refuse_conflict(call);
	return then(call, 0, end_group, STR_EMPTY);
}

/* ---- the firewall ---- */

/* A new policy, or one that exists. A group has at most one. */
static bool
apply_policy(struct bm_call *call)
{
	struct str group = json_view(call->body, "server_group");
	struct brightbox_object *found;

	if (group.len > 0 && !find(call, BRIGHTBOX_GROUP, group, &found))
		return false;
	if (!call->object && !add(call))
		return false;
	if (group.len > 0) {
		detach_policy(call->account, group);
		AS(policy, call->object)->group = keep(call, group);
	}
	return true;
}

static bool
change_policy(struct bm_call *call)
{
	if (AS(policy, call->object)->is_default && yyjson_obj_get(call->body, "name") &&
	    !str_eq(json_view(call->body, "name"), call->object->name))
		return bm_refuse(call, 422, "unprocessable_entity",
		                 "default firewall policy can not be renamed");
	return change(call);
}

static void
end_policy(struct brightbox *b, struct brightbox_object *o, const struct bm_effect *e)
{
	struct brightbox_account *a = &e->account->base;

	for (size_t i = a->n_of[BRIGHTBOX_RULE]; i-- > 0;) {
		if (str_eq(AS(rule, a->of[BRIGHTBOX_RULE][i])->policy, o->id))
			bm_vanish(b, a->of[BRIGHTBOX_RULE][i], e);
	}
	bm_vanish(b, o, e);
}

static bool
delete_policy(struct bm_call *call)
{
	if (AS(policy, call->object)->is_default)
		return bm_refuse_conflict(call);
	return then(call, 0, end_policy, STR_EMPTY);
}

/* A new rule, or one that exists, which may move to another policy. */
static bool
set_rule(struct bm_call *call)
{
	struct str policy = json_view(call->body, "firewall_policy");
	struct brightbox_object *found;

	if (policy.len > 0 && !find(call, BRIGHTBOX_POLICY, policy, &found))
		return false;
	if (!(call->object ? change(call) : add(call)))
		return false;
	if (policy.len > 0)
		AS(rule, call->object)->policy = keep(call, policy);
	return true;
}

static bool
delete_rule(struct bm_call *call)
{
	return then(call, 0, bm_vanish, STR_EMPTY);
}

/* ---- the table ---- */

#define READ(kind, collection)                                       \
	{ "GET", "/" collection, 200, NULL, kind, NULL },            \
	{                                                            \
		"GET", "/" collection "/{id}", 200, NULL, kind, NULL \
	}
#define POWER(verb) { "POST", "/servers/{id}/" verb, 202, NULL, BRIGHTBOX_SERVER, power }

const struct bm_row bm_rows[] = {
	{ "GET", "/accounts", 200, NULL, 0, list_accounts },
	{ "GET", "/account", 200, NULL, 0, show_account },
	READ(BRIGHTBOX_TYPE, "server_types"),
	READ(BRIGHTBOX_ZONE, "zones"),
	READ(BRIGHTBOX_SERVER, "servers"),
	{ "DELETE", "/servers/{id}", 202, NULL, BRIGHTBOX_SERVER, delete_server },
	POWER("start"),
	POWER("stop"),
	POWER("shutdown"),
	POWER("reboot"),
	POWER("reset"),
	READ(BRIGHTBOX_BALANCER, "load_balancers"),
	{ "POST", "/load_balancers", 202, BALANCER(true), BRIGHTBOX_BALANCER, create_balancer },
	{ "PUT", "/load_balancers/{id}", 202, BALANCER(false), BRIGHTBOX_BALANCER,
	  update_balancer },
	{ "DELETE", "/load_balancers/{id}", 202, NULL, BRIGHTBOX_BALANCER, delete_balancer },
	READ(BRIGHTBOX_CLOUD_IP, "cloud_ips"),
	{ "POST", "/cloud_ips", 201,
	  OBJECT({ "name", &name, false }, { "reverse_dns", &text, false },
	         { "mode", ONE_OF("nat", "route"), false }),
	  BRIGHTBOX_CLOUD_IP, add },
	{ "PUT", "/cloud_ips/{id}", 200,
	  OBJECT({ "name", &name, false }, { "reverse_dns", &text, false }), BRIGHTBOX_CLOUD_IP,
	  change },
	{ "POST", "/cloud_ips/{id}/map", 202, OBJECT({ "destination", &destination, true }),
	  BRIGHTBOX_CLOUD_IP, map_cloud_ip },
	{ "POST", "/cloud_ips/{id}/unmap", 202, NULL, BRIGHTBOX_CLOUD_IP, unmap_cloud_ip },
	{ "DELETE", "/cloud_ips/{id}", 200, NULL, BRIGHTBOX_CLOUD_IP, delete_cloud_ip },
	READ(BRIGHTBOX_GROUP, "server_groups"),
	{ "POST", "/server_groups", 202, OBJECT(NAMED), BRIGHTBOX_GROUP, add },
	{ "POST", "/server_groups/{id}/add_servers", 202, MEMBERS, BRIGHTBOX_GROUP,
	  change_members },
	{ "POST", "/server_groups/{id}/remove_servers", 202, MEMBERS, BRIGHTBOX_GROUP,
	  change_members },
	{ "DELETE", "/server_groups/{id}", 202, NULL, BRIGHTBOX_GROUP, delete_group },
	READ(BRIGHTBOX_POLICY, "firewall_policies"),
	{ "POST", "/firewall_policies", 201, OBJECT(NAMED, { "server_group", &group_id, false }),
	  BRIGHTBOX_POLICY, apply_policy },
	{ "PUT", "/firewall_policies/{id}", 202, OBJECT(NAMED), BRIGHTBOX_POLICY, change_policy },
	{ "POST", "/firewall_policies/{id}/apply_to", 202,
	  OBJECT({ "server_group", &group_id, true }), BRIGHTBOX_POLICY, apply_policy },
	{ "DELETE", "/firewall_policies/{id}", 202, NULL, BRIGHTBOX_POLICY, delete_policy },
	{ "GET", "/firewall_rules/{id}", 200, NULL, BRIGHTBOX_RULE, NULL },
	{ "POST", "/firewall_rules", 202, RULE(true), BRIGHTBOX_RULE, set_rule },
	{ "PUT", "/firewall_rules/{id}", 202, RULE(false), BRIGHTBOX_RULE, set_rule },
	{ "DELETE", "/firewall_rules/{id}", 202, NULL, BRIGHTBOX_RULE, delete_rule },
};
const size_t bm_n_rows = ARRAY_LEN(bm_rows);
