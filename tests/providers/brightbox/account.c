#include "providers/brightbox/account.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"

extern const struct cloud_ops brightbox_cloud;

/* ---- objects in JSON ---- */

static void
write_ip(const struct account *a, const struct account_ip *ip, struct buf *ret)
{
	struct str lb_name = STR_EMPTY;

	for (size_t i = 0; i < a->n_lbs; i++)
		lb_name = strcmp(a->lbs[i].id, ip->lb) == 0 ? a->lbs[i].name : lb_name;
	buf_addf(ret, "{\"id\":\"%s\"", ip->id);
	json_add_text(ret, "name", ip->name);
	buf_addf(
		ret,
		",\"status\":\"%s\",\"public_ip\":\"203.0.113.%u\",\"public_ipv4\":\"203.0.113.%u\","
		"\"public_ipv6\":\"2001:db8::%u\",\"fqdn\":\"%s.gb1.example\","
		"\"reverse_dns\":\"%s%s\",\"load_balancer\":",
		ip->lb[0] ? "mapped" : "unmapped", ip->number, ip->number, ip->number, ip->id,
		a->has_no_reverse_names ? "" : ip->id,
		a->has_no_reverse_names ? "" : ".reverse.example");
	if (ip->lb[0])
		buf_addf(ret, "{\"id\":\"%s\",\"name\":\"%" STR_FMT "\"}}", ip->lb,
		         STR_ARG(lb_name));
	else
		buf_add_c(ret, "null}");
}

static void
write_domains(const struct account *a, yyjson_val *domains, struct buf *ret)
{
	yyjson_val *one;
	size_t i, n;

	buf_add_c(ret, "{\"domains\":[");
	yyjson_arr_foreach(domains, i, n, one)
	{
		buf_add_c(ret, i > 0 ? ",{" : "{");
		json_add_text(ret, "identifier", json_text(one));
		buf_addf(ret, ",\"status\":\"%s\"}",
		         i + 1 == n && a->last_acme_status ? a->last_acme_status
		         : a->acme_status                  ? a->acme_status
		                                           : "valid");
	}
	buf_add_c(ret, "]}");
}

static void
write_nodes(const struct account *a, yyjson_val *nodes, struct buf *ret)
{
	size_t n = yyjson_arr_size(nodes);

	buf_add_c(ret, "[");
	for (size_t i = 0; i < n; i++) {
		yyjson_val *one = yyjson_arr_get(nodes, a->reverses_nodes ? n - 1 - i : i);

		buf_add_c(ret, i > 0 ? ",{\"id\":" : "{\"id\":");
		json_add_value(ret, json_at(one, "node"));
		buf_add_c(ret, "}");
	}
	buf_add_c(ret, "]");
}

static void
write_lb(const struct account *a, const struct account_lb *lb, struct buf *ret)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct error err;
	yyjson_val *body;
	bool is_first = true;

	assert_true(json_parse(lb->body, &doc, &err));
	body = yyjson_doc_get_root(doc);
	buf_addf(ret, "{\"id\":\"%s\",\"status\":\"%s\",\"name\":", lb->id, lb->status);
	json_add_value(ret, json_at(body, "name"));
	if (json_at(body, "policy")) {
		buf_add_c(ret, ",\"policy\":");
		json_add_value(ret, json_at(body, "policy"));
	}
	buf_add_c(ret, ",\"https_redirect\":");
	json_add_value(ret, json_at(body, "https_redirect"));
	buf_add_c(ret, ",\"listeners\":");
	json_add_value(ret, json_at(body, "listeners"));
	buf_add_c(ret, ",\"healthcheck\":");
	json_add_value(ret, json_at(body, "healthcheck"));
	buf_add_c(ret, ",\"nodes\":");
	write_nodes(a, json_at(body, "nodes"), ret);
	buf_add_c(ret, ",\"acme\":");
	write_domains(a, json_at(body, "domains"), ret);
	buf_add_c(ret, ",\"cloud_ips\":[");
	for (size_t i = 0; i < a->n_ips; i++) {
		if (strcmp(a->ips[i].lb, lb->id) != 0)
			continue;
		buf_add_c(ret, is_first ? "" : ",");
		write_ip(a, &a->ips[i], ret);
		is_first = false;
	}
	buf_add_c(ret, "]}");
}

static void
write_group(const struct account *a, const struct account_group *group, struct buf *ret)
{
	size_t n = group->n_servers;

	buf_addf(ret, "{\"id\":\"%s\"", group->id);
	json_add_text(ret, "name", group->name);
	buf_add_c(ret, ",\"servers\":[");
	for (size_t i = 0; i < n; i++) {
		buf_add_c(ret, i > 0 ? ",{" : "{");
		json_add_text(ret, "id", group->servers[a->reverses_nodes ? n - 1 - i : i]);
		buf_add_c(ret, "}");
	}
	buf_add_c(ret, "]}");
}

static void
write_policy(const struct account_policy *policy, struct buf *ret)
{
	buf_addf(ret, "{\"id\":\"%s\"", policy->id);
	json_add_text(ret, "name", policy->name);
	buf_addf(ret, ",\"server_group\":{\"id\":\"%s\"},\"rules\":[", policy->group);
	if (policy->rule.len > 0) /* the body, with an id */
		buf_addf(ret, "{\"id\":\"fwr-%s\",%" STR_FMT, policy->id,
		         STR_ARG(str_skip(policy->rule, 1)));
	buf_add_c(ret, "]}");
}

#define WRITE_LIST(ret, n, write_one)                     \
	do {                                              \
		buf_add_c(ret, "[");                      \
		for (size_t i = 0; i < (n); i++) {        \
			buf_add_c(ret, i > 0 ? "," : ""); \
			write_one;                        \
		}                                         \
		buf_add_c(ret, "]");                      \
	} while (0)

static void
write_server(struct str id, struct buf *ret)
{
	buf_add_c(ret, "{");
	json_add_text(ret, "id", id);
	json_add_text(ret, "hostname", id);
	buf_add_c(ret, ",\"status\":\"active\",\"zone\":{\"handle\":\"gb1-a\"},"
	               "\"server_type\":{\"handle\":\"1gb.ssd\"}}");
}

void
account_write(const struct account *a, struct buf *ret)
{
	WRITE_LIST(ret, a->n_lbs, write_lb(a, &a->lbs[i], ret));
	WRITE_LIST(ret, a->n_ips, write_ip(a, &a->ips[i], ret));
	WRITE_LIST(ret, a->n_groups, write_group(a, &a->groups[i], ret));
	WRITE_LIST(ret, a->n_policies, write_policy(&a->policies[i], ret));
}

/* ---- requests ---- */

struct exchange {
	struct account *account;
	enum http_method method;
	struct str id, verb; /* empty: the whole collection, the object itself */
	yyjson_val *body;
	struct str text; /* of the body */
	struct buf *ret;
};

static int
refuse(struct exchange *x, int status)
{
	buf_add_c(x->ret, status == 404
	                          ? "{\"error_name\":\"missing_resource\","
	                            "\"errors\":[\"Resource not found\"]}"
	                          : "{\"error_name\":\"resource_conflict\",\"errors\":[\"no\"]}");
	return status;
}

static struct str
body_text(struct exchange *x, const char *path)
{
	return json_text_at(&x->account->arena, x->body, path);
}

/* Five digits, in the order of creation. */
static void
number_id(struct account *a, const char *kind, char ret[16])
{
	snprintf(ret, 16, "%s-%05u", kind, ++a->n_ids);
}

/* The item with that id of an array; its index, or n. */
#define FIND(items, n_items, wanted)                                                  \
	({                                                                            \
		size_t found_ = 0;                                                    \
		while (found_ < (n_items) && !str_eq_c((wanted), (items)[found_].id)) \
			found_++;                                                     \
		found_;                                                               \
	})

#define REMOVE(items, n_items, at)                                    \
	do {                                                          \
		memmove(&(items)[at], &(items)[(at) + 1],             \
		        ((n_items) - (at) - 1) * sizeof((items)[0])); \
		(n_items)--;                                          \
	} while (0)

static const char *const server_ids[ACCOUNT_SERVERS] = { "srv-aaaaa", "srv-bbbbb", "srv-ccccc" };

/* key: of the id in an element. */
static bool
has_unknown_server(const struct exchange *x, const char *list, const char *key)
{
	yyjson_val *one;
	size_t i, n;

	yyjson_arr_foreach(json_at(x->body, list), i, n, one)
	{
		struct str id = json_text(json_at(one, key));
		bool is_known = false;

		for (size_t k = 0; k < ACCOUNT_SERVERS; k++)
			is_known |= str_eq_c(id, server_ids[k]);
		if (!is_known)
			return x->account->knows_servers;
	}
	return false;
}

static int
answer_lbs(struct exchange *x)
{
	struct account *a = x->account;
	size_t at = FIND(a->lbs, a->n_lbs, x->id);

	if (x->id.len == 0 && x->method == HTTP_GET) {
		WRITE_LIST(x->ret, a->lists_no_lbs ? 0 : a->n_lbs, write_lb(a, &a->lbs[i], x->ret));
		return 200;
	}
	if (has_unknown_server(x, "nodes", "node"))
		return refuse(x, 422);
	if (x->method == HTTP_POST && a->has_no_room)
		return refuse(x, 403);
	if (x->method == HTTP_POST) {
		assert_true(a->n_lbs < ACCOUNT_ITEMS);
		at = a->n_lbs++;
		number_id(a, "lba", a->lbs[at].id);
		a->lbs[at].status = a->new_lb_status ? a->new_lb_status : "active";
	}
	if (at == a->n_lbs)
		return refuse(x, 404);
	if (x->method == HTTP_POST || (x->method == HTTP_PUT && !a->ignores_updates)) {
		a->lbs[at].body = arena_str(&a->arena, x->text);
		a->lbs[at].name = body_text(x, "name");
	}
	write_lb(a, &a->lbs[at], x->ret);
	if (x->method != HTTP_DELETE)
		return x->method == HTTP_GET ? 200 : 202;
	if (a->never_deletes) {
		a->lbs[at].status = "deleting";
		return 202;
	}
	for (size_t i = 0; i < a->n_ips; i++) {
		if (str_eq_c(x->id, a->ips[i].lb))
			a->ips[i].lb[0] = '\0';
	}
	REMOVE(a->lbs, a->n_lbs, at);
	return 202;
}

static int
answer_ips(struct exchange *x)
{
	struct account *a = x->account;
	size_t at = FIND(a->ips, a->n_ips, x->id);
	bool is_map = str_eq_c(x->verb, "map");

	if (x->id.len == 0 && x->method == HTTP_GET) {
		WRITE_LIST(x->ret, a->n_ips, write_ip(a, &a->ips[i], x->ret));
		return 200;
	}
	if (x->id.len == 0) {
		assert_true(a->n_ips < ACCOUNT_ITEMS);
		at = a->n_ips++;
		a->ips[at] = (struct account_ip){ .name = body_text(x, "name") };
		number_id(a, "cip", a->ips[at].id);
		a->ips[at].number = a->n_ids;
	}
	if (at == a->n_ips)
		return refuse(x, 404);
	if (is_map && FIND(a->lbs, a->n_lbs, body_text(x, "destination")) == a->n_lbs)
		return refuse(x, 404);
	if (is_map || str_eq_c(x->verb, "unmap")) {
		if ((a->ips[at].lb[0] != '\0') == is_map)
			return refuse(x, 409);
		if (!is_map || !a->never_maps)
			snprintf(a->ips[at].lb, sizeof(a->ips[at].lb), "%" STR_FMT,
			         STR_ARG(is_map ? body_text(x, "destination") : STR_EMPTY));
	}
	if (x->method == HTTP_DELETE && (a->ips[at].lb[0] || a->keeps_ips))
		return refuse(x, 409);
	write_ip(a, &a->ips[at], x->ret);
	if (x->method == HTTP_DELETE)
		REMOVE(a->ips, a->n_ips, at);
	return 200;
}

static void
change_members(struct exchange *x, struct account_group *group)
{
	yyjson_val *servers = json_at(x->body, "servers"), *one;
	size_t i, n;

	yyjson_arr_foreach(servers, i, n, one)
	{
		struct str id = json_text_at(&x->account->arena, one, "server");
		size_t at = 0;

		while (at < group->n_servers && !str_eq(group->servers[at], id))
			at++;
		if (str_eq_c(x->verb, "add_servers") && at == group->n_servers)
			group->servers[group->n_servers++] = id;
		else if (str_eq_c(x->verb, "remove_servers") && at < group->n_servers)
			REMOVE(group->servers, group->n_servers, at);
	}
}

static int
answer_groups(struct exchange *x)
{
	struct account *a = x->account;
	size_t at = FIND(a->groups, a->n_groups, x->id);

	if (x->id.len == 0 && x->method == HTTP_GET) {
		WRITE_LIST(x->ret, a->n_groups, write_group(a, &a->groups[i], x->ret));
		return 200;
	}
	if (x->id.len == 0) {
		assert_true(a->n_groups < ACCOUNT_ITEMS);
		at = a->n_groups++;
		a->groups[at] = (struct account_group){ .name = body_text(x, "name") };
		number_id(a, "grp", a->groups[at].id);
	}
	if (at == a->n_groups)
		return refuse(x, 404);
	if (str_eq_c(x->verb, "add_servers") && has_unknown_server(x, "servers", "server"))
		return refuse(x, 422);
	change_members(x, &a->groups[at]);
	if (x->method == HTTP_DELETE && a->groups[at].n_servers > 0)
		return refuse(x, 409);
	write_group(a, &a->groups[at], x->ret);
	if (x->method == HTTP_DELETE)
		REMOVE(a->groups, a->n_groups, at);
	return 202;
}

static void
set_group(struct exchange *x, struct account_policy *policy)
{
	snprintf(policy->group, sizeof(policy->group), "%" STR_FMT,
	         STR_ARG(body_text(x, "server_group")));
}

static int
answer_policies(struct exchange *x)
{
	struct account *a = x->account;
	size_t at = FIND(a->policies, a->n_policies, x->id);

	if (x->id.len == 0 && x->method == HTTP_GET) {
		WRITE_LIST(x->ret, a->n_policies, write_policy(&a->policies[i], x->ret));
		return 200;
	}
	if (x->id.len == 0) {
		assert_true(a->n_policies < ACCOUNT_ITEMS);
		at = a->n_policies++;
		a->policies[at] = (struct account_policy){ .name = body_text(x, "name"),
			                                   .rule = STR_EMPTY };
		number_id(a, "fwp", a->policies[at].id);
	}
	if (at == a->n_policies)
		return refuse(x, 404);
	if (x->method == HTTP_POST)
		set_group(x, &a->policies[at]);
	write_policy(&a->policies[at], x->ret);
	if (x->method == HTTP_DELETE)
		REMOVE(a->policies, a->n_policies, at);
	return 202;
}

static int
answer_rules(struct exchange *x)
{
	struct account *a = x->account;
	size_t at = FIND(a->policies, a->n_policies, body_text(x, "firewall_policy"));

	if (at == a->n_policies)
		return refuse(x, 404);
	a->policies[at].rule = arena_str(&a->arena, x->text);
	buf_add_c(x->ret, "{}");
	return 202;
}

static int
answer_servers(struct exchange *x)
{
	size_t n = x->account->has_no_servers ? 0 : ACCOUNT_SERVERS;

	if (x->id.len == 0) {
		WRITE_LIST(x->ret, n, write_server(str_c(server_ids[i]), x->ret));
		return 200;
	}
	for (size_t i = 0; i < n; i++) {
		if (str_eq_c(x->id, server_ids[i])) {
			write_server(x->id, x->ret);
			return 200;
		}
	}
	return refuse(x, 404);
}

static int
account_answer(struct account *a, const struct http_request *request, struct buf *ret)
{
	static const struct {
		const char *collection;
		int (*answer)(struct exchange *);
	} rows[] = {
		{ "load_balancers", answer_lbs },   { "cloud_ips", answer_ips },
		{ "server_groups", answer_groups }, { "firewall_policies", answer_policies },
		{ "firewall_rules", answer_rules }, { "servers", answer_servers },
	};
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct str rest = str_skip(request->target, 1), collection = STR_EMPTY;
	struct exchange x = { .account = a,
		              .method = request->method,
		              .id = STR_EMPTY,
		              .verb = STR_EMPTY,
		              .text = request->body,
		              .ret = ret };
	struct error err;

	(void)(str_split(&rest, '/', &collection) && str_split(&rest, '/', &x.id) &&
	       str_split(&rest, '/', &x.verb));
	if (request->body.len > 0) {
		assert_true(json_parse(request->body, &doc, &err));
		x.body = yyjson_doc_get_root(doc);
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (str_eq_c(collection, rows[i].collection))
			return rows[i].answer(&x);
	}
	fail_msg("unexpected request: %" STR_FMT, STR_ARG(request->target));
	return 0;
}

void
account_fini(struct account *a)
{
	arena_fini(&a->arena);
}

/* ---- processes ---- */

static bool
process_request(struct http_client *http, struct call *call, const struct http_request *request,
                struct http_response *response, struct error *err)
{
	struct process *p = CONTAINER_OF(http, struct process, http);
	bool is_failing = ++p->n_asked == p->fail_at;

	(void)call;
	if (p->before && !p->before(p, request, err))
		return false;
	p->n_writes += request->method != HTTP_GET;
	buf_addf(&p->asked, "%s %" STR_FMT "\n", http_method_name(request->method),
	         STR_ARG(request->target));
	response->ratelimit_limit = response->ratelimit_remaining = response->ratelimit_reset = -1;
	response->status = 500;
	if (!is_failing || p->failure == FAILURE_LOST)
		response->status = account_answer(p->account, request, &response->body);
	if (is_failing && p->failure == FAILURE_LOST)
		return err_set(err, ERR_UNAVAILABLE, "the connection broke");
	if (p->after)
		p->after(p, request, &response->body);
	return true;
}

/* The names of all cloud IPs that a test can make lead to their addresses. */
static void
write_hosts(void)
{
	char path[] = "/tmp/ccmd-hosts-XXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");

	assert_non_null(file);
	for (unsigned i = 1; i < 200; i++)
		fprintf(file, "203.0.113.%u cip-%05u.gb1.example cip-%05u.reverse.example\n", i, i,
		        i);
	fclose(file);
	setenv("BRIGHTBOX_HOSTS_FILE", path, 1);
}

static void
remove_hosts(void)
{
	if (getenv("BRIGHTBOX_HOSTS_FILE"))
		unlink(getenv("BRIGHTBOX_HOSTS_FILE"));
	unsetenv("BRIGHTBOX_HOSTS_FILE");
}

void
process_start(struct process *p, struct account *account)
{
	static const struct http_ops ops = { .do_request = process_request };
	struct cloud_config config = { .cluster_name = "k" };
	struct error err;

	if (!getenv("BRIGHTBOX_HOSTS_FILE")) {
		write_hosts();
		atexit(remove_hosts);
	}
	setenv("BRIGHTBOX_CLIENT", "cli-aaaaa", 1);
	setenv("BRIGHTBOX_CLIENT_SECRET", "secret", 1);
	setenv("BRIGHTBOX_ACCOUNT", "acc-aaaaa", 1);
	log_set_fd(-1);
	*p = (struct process){ .http = { &ops }, .account = account, .asked = BUF_INIT(MIB(1)) };
	fake_host_init(&p->fake);
	p->fake.host.http = &p->http;
	if (!brightbox_cloud.load(&config, &p->cloud, &err))
		fail_msg("%s", err.msg);
	p->cloud->host = &p->fake.host;
	if (!brightbox_cloud.start(p->cloud, &p->fake.host, &err))
		fail_msg("%s", err.msg);
}

void
process_end(struct process *p)
{
	brightbox_cloud.close(p->cloud);
	fake_host_fini(&p->fake);
	buf_fini(&p->asked);
}

void
process_forget(struct process *p)
{
	p->n_asked = p->n_writes = 0;
	buf_reset(&p->asked);
}

bool
process_ensure(struct process *p, const struct lb_spec *spec, struct lb_status *ret,
               struct arena *arena, struct error *err)
{
	struct call call = fake_host_call(&p->fake, arena);
	enum lb_outcome outcome;

	call.dry = p->dry;
	call.changes = p->changes;
	return balancer_ensure(p->cloud, &call, spec, &outcome, ret, err);
}

bool
process_adopt(struct process *p, const struct lb_spec *const specs[], size_t n, struct error *err)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = fake_host_call(&p->fake, &arena);

	return p->cloud->balancers->adopt(p->cloud, &call, specs, n, err);
}

bool
process_remove(struct process *p, const struct lb_spec *spec, bool *ret_found, struct error *err)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = fake_host_call(&p->fake, &arena);

	call.dry = p->dry;
	return balancer_remove(p->cloud, &call, spec, ret_found, err);
}

struct lb_spec
account_service(void)
{
	static struct lb_port port = { STR("http"), STR_EMPTY, STR("TCP"), LB_TCP, 80, 30080 };
	static struct node_ref nodes[] = {
		{ .name = STR("srv-aaaaa"), .provider_id = STR("brightbox://srv-aaaaa") },
		{ .name = STR("srv-bbbbb"), .provider_id = STR("brightbox://srv-bbbbb") },
	};
	static const enum ip_family families[] = { IP_V4 };

	return (struct lb_spec){
		.cluster = STR("k"),
		.namespace = STR("default"),
		.service = STR("web"),
		.uid = STR("u"),
		.name = STR("au"),
		.ports = &port,
		.n_ports = 1,
		.wanted_ip = STR_EMPTY,
		.families = families,
		.n_families = 1,
		.nodes = nodes,
		.n_nodes = 2,
	};
}

/* ---- one Service ---- */

int
rig_setup(void **state)
{
	struct account_rig *rig = xcalloc(1, sizeof(*rig));

	process_start(&rig->process, &rig->account);
	rig->spec = account_service();
	rig->spec.annotations = rig->annotations;
	rig->item = (struct dry_item){ &rig->run, "service", STR("default/web"), STR("1") };
	rig->noted = BUF_INIT(MIB(1));
	rig->requests = BUF_INIT(MIB(1));
	*state = rig;
	return 0;
}

int
rig_teardown(void **state)
{
	struct account_rig *rig = *state;

	process_end(&rig->process);
	account_fini(&rig->account);
	arena_fini(&rig->arena);
	buf_fini(&rig->noted);
	buf_fini(&rig->requests);
	free(rig);
	return 0;
}

bool
rig_ensure(struct account_rig *rig)
{
	return process_ensure(&rig->process, &rig->spec, &rig->status, &rig->arena, &rig->err);
}

void
rig_settle(struct account_rig *rig)
{
	if (!rig_ensure(rig))
		fail_msg("%s", rig->err.msg);
}

void
rig_annotate(struct account_rig *rig, struct str key, const char *value)
{
	rig->annotations[rig->spec.n_annotations++] = (struct label){ key, str_c(value) };
}
