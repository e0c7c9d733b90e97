/* instances.c: see hcloud.h.
 *
 * A look has one question for each node, which is open until the node has an answer, and these
 * steps:
 *
 * 	1. Provider IDs are parsed. A node whose ID belongs to another cloud, or is invalid, is
 * 	   answered immediately.
 * 	2. The Cloud API is asked for servers with its IDs, and by name for nodes without an ID.
 * 	3. Robot is asked for servers with its IDs, and by name for nodes without an ID: if both
 * 	   services have a server of that name, it is unknown which machine the node runs on.
 * 	4. If machines are absent and none was found by its ID, the look searches for an anchor:
 * 	   an object that only our project has. Without an anchor the token may belong to another
 * 	   project, and no node may be deleted.
 *
 * A question that a failed request leaves open gets PRESENCE_UNKNOWN, so the node stays as it is.
 *
 * This provider does not use the look that cloud/look.c makes from list_machines() and
 * get_machine(), for these reasons: a list ends with the page that answers the last question,
 * requests are paid from a budget, names are searched at Robot as well, and there are two realms
 * and anchors.
 */
#include "providers/hcloud/hcloud.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "base/event_kind.h"
#include "base/map.h"
#include "providers/hcloud/api.h"
#include "providers/hcloud/client.h"
#include "providers/hcloud/describe.h"
#include "providers/hcloud/lb_cache.h"
#include "providers/hcloud/lb_targets.h"

enum {
	CONFIRMATIONS_MAX = 100, /* requests by ID in one look, for machines that the list lacks */
};

EVENT_KIND(
	lookup_event, HZ_COMPONENT, "InstanceLookupFailed", true, "Node",
	"hcloud: a Cloud server and a Robot server both have the node's name; the node is not initialised until one of them is renamed.");
EVENT_KIND(
	mismatch_event, HZ_COMPONENT, "PossibleNodeDeletion", true, "Node",
	"hcloud: the Robot server with the node's provider ID has another name; the node is neither changed nor deleted until one of them is renamed or the node is deleted by hand.");

/* One node_ref in a look. */
struct question {
	bool is_answered;
	bool has_id;
	struct hz_id id;
	struct question *next; /* another open one that the same server answers */
};

struct hz_look_run {
	struct hcloud *hz;
	struct call *call;
	const struct node_ref *refs;
	size_t n;
	struct question *questions;
	struct look *look;
	struct arena arena; /* freed at the end of the look */
};

/* ---- answers ---- */

static void
hz_look_answer_error(struct hz_look_run *run, size_t i, enum presence presence,
                     const struct error *err)
{
	look_set_error(run->look, i, presence, err->code, str_c(err->msg));
	run->look->instances[i].is_outage = err->is_outage;
	run->questions[i].is_answered = true;
}

static void
hz_look_answer_absent(struct hz_look_run *run, size_t i, enum hz_realm realm)
{
	look_set_error(run->look, i, PRESENCE_ABSENT, ERR_NONE, STR_EMPTY);
	run->look->instances[i].realm = realm;
	run->questions[i].is_answered = true;
}

static void
hz_look_answer_server(struct hz_look_run *run, size_t i, const struct hz_server *server)
{
	if (run->hz->servers_known)
		hz_servers_known_note(run->hz->servers_known, server, run->hz->network,
		                      clock_mono(run->call->clock));
	hz_describe_cloud(run->hz, &run->look->arena, &run->refs[i], server,
	                  &run->look->instances[i]);
	run->questions[i].is_answered = true;
}

static bool
hz_look_is_open_in_cloud(const struct hz_look_run *run, size_t i)
{
	const struct question *q = &run->questions[i];

	return !q->is_answered && (!q->has_id || q->id.kind == HZ_CLOUD);
}

/* Answers all open questions for the Cloud API with the error. No further request is sent, because
 * what made one request fail is likely to make all of them fail. */
static void
hz_look_answer_rest_unknown(struct hz_look_run *run, const struct error *err)
{
	for (size_t i = 0; i < run->n; i++) {
		if (hz_look_is_open_in_cloud(run, i))
			hz_look_answer_error(run, i, PRESENCE_UNKNOWN, err);
	}
}

/* ---- reading the provider IDs ---- */

/* ERR_UNSUPPORTED means that the ID belongs to another cloud, or to Robot while Robot is not
 * configured. */
static bool
hz_look_parse_id(const struct hcloud *hz, struct str provider_id, struct hz_id *ret,
                 struct error *err)
{
	if (!hz_id_parse(hz->config->dialect, provider_id, ret, err))
		return err_wrap(err, "failed to convert provider id to server id");
	if (ret->kind == HZ_ROBOT && !hz->robot)
		return err_set(
			err, ERR_UNSUPPORTED,
			"no robot client configured, make sure to enable Robot support in the configuration");
	return true;
}

static void
hz_look_read_ids(struct hz_look_run *run)
{
	struct error err;

	run->questions = arena_calloc(&run->arena, run->n, sizeof(*run->questions));
	hz_count_operations("hcloud/instancesv2.InstanceMetadata", (double)run->n);
	for (size_t i = 0; i < run->n; i++) {
		struct question *q = &run->questions[i];

		q->has_id = run->refs[i].provider_id.len > 0;
		if (q->has_id && !hz_look_parse_id(run->hz, run->refs[i].provider_id, &q->id, &err))
			hz_look_answer_error(run, i,
			                     err.code == ERR_UNSUPPORTED ? PRESENCE_FOREIGN
			                                                 : PRESENCE_UNKNOWN,
			                     &err);
	}
}

bool
hz_instances_can_find(struct cloud *cloud, struct str provider_id, unsigned *ret_realm)
{
	struct error ignored;
	struct hz_id id;

	if (!hz_look_parse_id(hcloud_of(cloud), provider_id, &id, &ignored))
		return false;
	*ret_realm = id.kind == HZ_ROBOT ? HZ_REALM_ROBOT : HZ_REALM_CLOUD;
	return true;
}

/* ---- the cloud ---- */

static size_t
hz_look_count_open_in_cloud(const struct hz_look_run *run)
{
	size_t n = 0;

	for (size_t i = 0; i < run->n; i++)
		n += hz_look_is_open_in_cloud(run, i);
	return n;
}

/* A look with a new node is urgent, because the node cannot be used before it has an answer, and so
 * is evidence for a Service. Other nodes are looked up periodically, and can wait. */
static enum hz_urgency
hz_look_urgency_of(const struct hz_look_run *run)
{
	if (run->call->is_urgent)
		return HZ_URGENT;
	for (size_t i = 0; i < run->n; i++) {
		if (hz_look_is_open_in_cloud(run, i) && run->refs[i].is_new)
			return HZ_URGENT;
	}
	return HZ_BACKGROUND;
}

/* Asks for one server, by its ID or name. Returns false if the request failed, in which case the
 * next one is likely to fail, too. An absent server is an answer. */
static bool
hz_look_ask_one(struct hz_look_run *run, size_t i, struct error *err)
{
	const struct question *q = &run->questions[i];
	struct str name = run->refs[i].name;
	struct hz_which which = { q->id.number, name };
	struct hz_server server;

	hz_count_lookup("instances_v2", run->hz->config->cache_mode, "miss");
	if (!q->has_id && name.len == 0)
		hz_look_answer_absent(run, i, HZ_REALM_CLOUD);
	else if (hz_find_server(run->hz->api, run->call, &run->arena, which, &server, err))
		hz_look_answer_server(run, i, &server);
	else if (err->code == ERR_NOT_FOUND)
		hz_look_answer_absent(run, i, HZ_REALM_CLOUD);
	else if (q->has_id)
		return err_wrap(err, "failed to get hcloud server \"%" PRId64 "\"", q->id.number);
	else
		return err_wrap(err, "failed to get hcloud server \"%" STR_FMT "\"", STR_ARG(name));
	return true;
}

/* Asks for each server that the list lacks by its ID or name, because a list does not prove that a
 * server is absent. If more than CONFIRMATIONS_MAX are missing, the others are unknown in this
 * look, and the next look begins with them. */
static bool
hz_look_confirm_missing(struct hz_look_run *run, struct error *err)
{
	size_t first = run->n > 0 ? atomic_load(&run->hz->next_confirm) % run->n : 0;
	size_t n_asked = 0;

	for (size_t k = 0; k < run->n && n_asked < CONFIRMATIONS_MAX; k++) {
		size_t i = (first + k) % run->n;

		if (!hz_look_is_open_in_cloud(run, i))
			continue;
		n_asked++;
		atomic_store(&run->hz->next_confirm, i + 1);
		if (!hz_look_ask_one(run, i, err))
			return false;
	}
	err_set(err, ERR_UNAVAILABLE,
	        "not in the list of servers, and not looked up yet: %d others come first",
	        CONFIRMATIONS_MAX);
	hz_look_answer_rest_unknown(run, err);
	return true;
}

/* Is it cheaper to read the next page than to send a request for each open question? The first page
 * is always read. Another one is cheaper if more questions are open than one look may ask singly,
 * if at most as many pages as questions are left, or if the last page answered several questions,
 * because the next one probably does so as well. */
static bool
hz_look_wants_page(const struct hz_servers *servers, size_t n_open, size_t n_answered_last)
{
	if (servers->pages.next == 0 || n_open == 0)
		return false;
	return servers->pages.next == 1 || n_open > CONFIRMATIONS_MAX || n_answered_last > 1 ||
	       hz_servers_pages_left(servers) <= n_open;
}

/* Answers all open questions from the first one on. Returns their number. */
static size_t
hz_look_answer_all(struct hz_look_run *run, const struct question *first,
                   const struct hz_server *server)
{
	size_t n = 0;

	for (const struct question *q = first; q; q = q->next) {
		size_t i = (size_t)(q - run->questions);

		if (!hz_look_is_open_in_cloud(run, i))
			continue;
		hz_count_lookup("instances_v2", run->hz->config->cache_mode, "hit");
		hz_look_answer_server(run, i, server);
		n++;
	}
	return n;
}

/* The questions of each server of a page are found in tables: to look for the server of each
 * question in each page would take pages x nodes steps. */
static bool
hz_look_ask_list(struct hz_look_run *run, size_t n_pages, struct error *err)
{
	CLEANUP(hz_servers_fini) struct hz_servers servers = HZ_SERVERS_INIT;
	CLEANUP(map_fini) struct map by_id = MAP_INIT, by_name = MAP_INIT;
	size_t n_open = hz_look_count_open_in_cloud(run), n_answered = 0;
	int64_t n_listed;

	if (!hz_api_admit(run->hz->api, hz_look_urgency_of(run), n_pages, err))
		return false;
	for (size_t i = 0; i < run->n; i++) {
		struct question *q = &run->questions[i];

		if (!hz_look_is_open_in_cloud(run, i))
			continue;
		if (q->has_id)
			q->next = map_put(&by_id, map_key_i64(&q->id.number), q);
		else
			q->next = map_put(&by_name, run->refs[i].name, q);
	}
	hz_count_lookup("instances_v2", run->hz->config->cache_mode, "miss");
	while (hz_look_wants_page(&servers, n_open, n_answered)) {
		if (!hz_servers_read_page(run->hz->api, run->call, &servers, err))
			return err_wrap(err, "failed to list hcloud servers");
		n_answered = 0;
		for (size_t k = 0; k < servers.n_page; k++) {
			const struct hz_server *server = &servers.page[k];

			n_answered += hz_look_answer_all(run,
			                                 map_get(&by_id, map_key_i64(&server->id)),
			                                 server);
			n_answered += hz_look_answer_all(run, map_get(&by_name, server->name),
			                                 server);
		}
		n_open -= n_answered;
	}
	n_listed = (int64_t)servers.by_id.count;
	atomic_store(&run->hz->n_listed,
	             servers.pages.total > n_listed ? servers.pages.total : n_listed);
	return hz_look_confirm_missing(run, err);
}

static bool
hz_look_ask_each(struct hz_look_run *run, size_t n_open, struct error *err)
{
	if (!hz_api_admit(run->hz->api, hz_look_urgency_of(run), n_open, err))
		return false;
	for (size_t i = 0; i < run->n; i++) {
		if (hz_look_is_open_in_cloud(run, i) && !hz_look_ask_one(run, i, err))
			return false;
	}
	return true;
}

/* On false, all open questions are answered with *err. */
static bool
hz_look_ask_cloud(struct hz_look_run *run, struct error *err)
{
	int64_t n_listed = atomic_load(&run->hz->n_listed);
	size_t n_pages = n_listed <= 0 ? 1 : ((size_t)n_listed + HZ_PAGE - 1) / HZ_PAGE;
	size_t n_open = hz_look_count_open_in_cloud(run);
	bool ok;

	if (n_open == 0)
		return true;
	if (run->hz->config->cache_mode == HZ_CACHE_ALL && n_open > n_pages)
		ok = hz_look_ask_list(run, n_pages, err);
	else
		ok = hz_look_ask_each(run, n_open, err);
	if (!ok)
		hz_look_answer_rest_unknown(run, err);
	return ok;
}

/* ---- Robot ---- */

/* Robot's reset service is asked only for nodes that are not Ready, because Robot permits few
 * requests. If the service does not answer, or does not support the server, the power is unknown.
 */
static void
hz_look_answer_robot(struct hz_look_run *run, size_t i, const struct hz_robot_server *server)
{
	struct instance *ret = &run->look->instances[i];
	struct error ignored;
	bool is_off;

	hz_describe_robot(run->hz, &run->look->arena, &run->refs[i], server, ret);
	if (!run->refs[i].is_ready && run->questions[i].has_id &&
	    hz_robot_is_off(run->hz->robot, run->call, server->number, &is_off, &ignored))
		ret->power = is_off ? POWER_OFF : POWER_ON;
	run->questions[i].is_answered = true;
}

/* Robot's list may be minutes old. It proves that a machine exists under its name. If the list
 * lacks the machine, or has it under another name, the server is read by its number. */
static bool
hz_look_find_robot(struct hz_look_run *run, size_t i, struct hz_robot_server *ret,
                   struct error *err)
{
	struct hz_robot *robot = run->hz->robot;
	int64_t number = run->questions[i].id.number;
	bool is_listed = hz_robot_find(robot, run->call, &run->arena, number, ret, err);

	if (is_listed && str_eq(run->refs[i].name, ret->name))
		return true;
	if (!is_listed && err->code != ERR_NOT_FOUND)
		return false;
	return hz_robot_get(robot, run->call, &run->arena, number, ret, err);
}

/* Either the server was renamed, or it is now used for something else: Robot's answers do not show
 * which of the two. The node is therefore kept; the official controller treats the machine as
 * deleted. */
static void
hz_look_answer_renamed(struct hz_look_run *run, size_t i, const struct hz_robot_server *server)
{
	struct str name = run->refs[i].name;
	struct error err;

	err_set(&err, ERR_INVALID,
	        "Node name \"%" STR_FMT "\" differs from Robot name \"%" STR_FMT
	        "\" of server %" PRId64,
	        STR_ARG(name), STR_ARG(server->name), server->number);
	host_report(
		run->hz->host, &run->refs[i], &mismatch_event,
		"%s, so it is unknown whether the machine of the node still exists, and the node is neither changed nor "
		"deleted. Rename the server to \"%" STR_FMT
		"\" in Robot; if it has another use now: kubectl delete node %" STR_FMT,
		err.msg, STR_ARG(name), STR_ARG(name));
	hz_look_answer_error(run, i, PRESENCE_UNKNOWN, &err);
}

static void
hz_look_ask_robot_by_id(struct hz_look_run *run, size_t i)
{
	struct hz_robot_server server;
	struct error err;

	if (hz_look_find_robot(run, i, &server, &err)) {
		if (str_eq(run->refs[i].name, server.name))
			hz_look_answer_robot(run, i, &server);
		else
			hz_look_answer_renamed(run, i, &server);
	} else if (err.code == ERR_NOT_FOUND) {
		hz_look_answer_absent(run, i, HZ_REALM_ROBOT);
	} else {
		err_wrap(&err, "failed to get robot server \"%" PRId64 "\"",
		         run->questions[i].id.number);
		hz_look_answer_error(run, i, PRESENCE_UNKNOWN, &err);
	}
}

/* The node has no provider ID, and the Cloud API was asked for its name. Robot may have a server of
 * that name, too. If the cloud has the server and Robot does not answer, an old list of Robot is
 * good enough, so that an outage of Robot does not delay servers of the cloud. */
static void
hz_look_ask_robot_by_name(struct hz_look_run *run, size_t i)
{
	enum presence in_cloud = run->look->instances[i].presence;
	struct str name = run->refs[i].name;
	struct hz_robot_server server;
	struct error err;
	bool is_found;

	if (in_cloud == PRESENCE_UNKNOWN)
		return;
	is_found = hz_robot_find_name(run->hz->robot, run->call, &run->arena, name,
	                              in_cloud == PRESENCE_PRESENT, &server, &err);
	if (is_found && in_cloud == PRESENCE_PRESENT) {
		host_report(run->hz->host, &run->refs[i], &lookup_event,
		            "Node %" STR_FMT
		            " could not be uniquely associated with a Cloud or Robot server, "
		            "as a server with this name exists in both APIs",
		            STR_ARG(name));
		err_set(&err, ERR_INVALID,
		        "found both a cloud & robot server for name \"%" STR_FMT "\"",
		        STR_ARG(name));
		hz_look_answer_error(run, i, PRESENCE_UNKNOWN, &err);
	} else if (is_found) {
		hz_look_answer_robot(run, i, &server);
	} else if (err.code != ERR_NOT_FOUND) {
		err_wrap(&err, "failed to get robot server \"%" STR_FMT "\"", STR_ARG(name));
		hz_look_answer_error(run, i, PRESENCE_UNKNOWN, &err);
	}
}

static void
hz_look_ask_robot(struct hz_look_run *run)
{
	if (!run->hz->robot)
		return;
	for (size_t i = 0; i < run->n; i++) {
		if (!run->questions[i].has_id)
			hz_look_ask_robot_by_name(run, i);
		else if (!run->questions[i].is_answered)
			hz_look_ask_robot_by_id(run, i);
	}
}

/* ---- anchors ---- */

/* Our network, or else the balancers of our Services. A token of another project finds neither of
 * them. A network of that name may be another project's, so only its ID proves something. */
bool
hz_instances_count_anchors(struct cloud *cloud, struct call *call, unsigned *ret, struct error *err)
{
	const struct hcloud *hz = hcloud_of(cloud);
	struct hz_network network;
	bool is_known = true;

	*ret = 0;
	if (hz->is_network_ours) {
		if (hz_find_network(hz->api, call, call->arena, HZ_BY_ID(hz->network), false,
		                    &network, err))
			*ret = network.id == hz->network;
		else
			is_known = err->code == ERR_NOT_FOUND;
	}
	if (*ret == 0 && hz->cache &&
	    !hz_lb_cache_count_serving(hz->cache, call, hz->host, ret, err))
		is_known = false;
	return is_known || *ret > 0;
}

/* An anchor is needed only if a machine of the cloud is absent and no other one was found by its
 * ID, which would prove as well that the token is that of our project. A Node that is Ready and has
 * no ID is looked up in order to initialise it, which needs no proof; it may be looked up very
 * often. */
static bool
hz_look_needs_anchor(const struct hz_look_run *run)
{
	bool has_absent = false;

	for (size_t i = 0; i < run->n; i++) {
		const struct instance *one = &run->look->instances[i];

		if (one->realm != HZ_REALM_CLOUD)
			continue;
		if (one->presence == PRESENCE_PRESENT && run->questions[i].has_id)
			return false;
		has_absent |= one->presence == PRESENCE_ABSENT &&
		              (run->questions[i].has_id || !run->refs[i].is_ready);
	}
	return has_absent;
}

static void
hz_look_find_anchors(struct cloud *cloud, struct hz_look_run *run)
{
	struct look *look = run->look;
	struct error err;

	if (hz_look_needs_anchor(run) &&
	    !hz_instances_count_anchors(cloud, run->call, &look->n_anchors, &err))
		look->anchors_error = arena_str(&look->arena, str_c(err.msg));
}

/* ---- a look ---- */

/* FOREIGN follows from a provider ID alone, so it is no answer. */
static bool
hz_look_has_answer(const struct look *look)
{
	for (size_t i = 0; i < look->n; i++) {
		if (look->instances[i].presence == PRESENCE_PRESENT ||
		    look->instances[i].presence == PRESENCE_ABSENT)
			return true;
	}
	return false;
}

bool
hz_instances_look(struct cloud *cloud, struct call *call, const struct node_ref refs[], size_t n,
                  int64_t not_before_boot_ns, struct look **ret, struct error *err)
{
	struct hz_look_run run = { .hz = hcloud_of(cloud), .call = call, .refs = refs, .n = n };
	bool is_asked;

	(void)not_before_boot_ns; /* no answer of the Cloud API is cached */
	run.look = look_new(n, clock_boot(call->clock));
	hz_look_read_ids(&run);
	is_asked = hz_look_ask_cloud(&run, err);
	hz_look_ask_robot(&run);
	hz_look_find_anchors(cloud, &run);
	arena_fini(&run.arena);
	if (!is_asked && !hz_look_has_answer(run.look)) {
		look_unref(run.look);
		return false;
	}
	*ret = run.look;
	return true;
}

/* ---- for the commands for operators ---- */

bool
hz_instances_list(struct cloud *cloud, struct call *call, struct machine_list *ret,
                  struct error *err)
{
	static const struct node_ref nobody = { 0 };
	CLEANUP(hz_servers_fini) struct hz_servers servers = HZ_SERVERS_INIT;
	const struct hcloud *hz = hcloud_of(cloud);
	struct hz_robot_server *dedicated;
	struct machine *machine;
	size_t pos = 0, n = 0;
	struct str ignored;
	void *server;

	while (servers.pages.next > 0) {
		if (!hz_api_admit(hz->api, HZ_BACKGROUND, 1, err) ||
		    !hz_servers_read_page(hz->api, call, &servers, err))
			return err_wrap(err, "list servers");
	}
	while (map_next(&servers.by_id, &pos, &ignored, &server)) {
		machine = machine_list_add(ret);
		machine->name = arena_str(call->arena, ((struct hz_server *)server)->name);
		hz_describe_cloud(hz, call->arena, &nobody, server, &machine->instance);
	}
	if (hz->robot && !hz_robot_list(hz->robot, call, call->arena, &dedicated, &n, err))
		return false;
	for (size_t i = 0; i < n; i++) {
		machine = machine_list_add(ret);
		machine->name = dedicated[i].name;
		hz_describe_robot(hz, call->arena, &nobody, &dedicated[i], &machine->instance);
	}
	return true;
}
