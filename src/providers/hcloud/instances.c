/* instances.c: see instances.h.
 *
 * A look has one question for each node. A question is OPEN until the node has an answer, and a
 * look has these steps:
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
#include "providers/hcloud/instances.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/event_kind.h"
#include "providers/hcloud/api.h"
#include "providers/hcloud/client.h"
#include "providers/hcloud/hcloud.h"

enum {
	CONFIRMATIONS_MAX = 100, /* requests by ID in one look, for machines that the list lacks */
};

EVENT_KIND(
	lookup_event, HZ_COMPONENT, "InstanceLookupFailed", true, "Node",
	"hcloud: a Cloud server and a Robot server both have the node's name; the node is not initialised until one of them is renamed.");
EVENT_KIND(
	mismatch_event, HZ_COMPONENT, "PossibleNodeDeletion", true, "Node",
	"hcloud: the Robot server with the node's provider ID has another name; the node is neither changed nor deleted until one of them is renamed or the node is deleted by hand.");

struct hz_instances {
	struct hz_instances_config config;
	struct hz_describer describer;
	_Atomic int64_t
		n_listed; /* servers of the project at the last list; -1: no list was read yet */
	_Atomic size_t next_confirm; /* index of the node that is confirmed first next time */
};

/* The state of one node_ref in a look. */
enum question_state {
	OPEN,
	ANSWERED,
};

struct question {
	enum question_state state;
	bool has_id;
	struct hz_id id;
};

struct asking {
	struct hz_instances *in;
	struct call *call;
	const struct node_ref *refs;
	size_t n;
	struct question *questions;
	struct look *look;
	struct arena arena; /* freed at the end of the look */
};

/* ---- answers ---- */

static void
hz_look_answer_error(struct asking *ask, size_t i, enum presence presence, const struct error *err)
{
	look_set_error(ask->look, i, presence, err->code, str_c(err->msg));
	ask->look->instances[i].is_outage = err->is_outage;
	ask->questions[i].state = ANSWERED;
}

static void
hz_look_answer_absent(struct asking *ask, size_t i, enum hz_realm realm)
{
	ask->look->instances[i] = (struct instance){
		.presence = PRESENCE_ABSENT,
		.realm = realm,
		.error = STR_EMPTY,
		.provider_id = STR_EMPTY,
		.type = STR_EMPTY,
		.zone = STR_EMPTY,
		.region = STR_EMPTY,
	};
	ask->questions[i].state = ANSWERED;
}

static void
hz_look_answer_server(struct asking *ask, size_t i, const struct hz_server *server)
{
	const struct hz_instances_config *config = &ask->in->config;

	if (config->servers_known)
		hz_servers_known_note(config->servers_known, server, config->network);
	hz_describe_cloud(&ask->in->describer, &ask->look->arena, &ask->refs[i], server,
	                  &ask->look->instances[i]);
	ask->questions[i].state = ANSWERED;
}

static bool
hz_look_is_cloud_question(const struct question *q)
{
	return q->state == OPEN && (!q->has_id || q->id.kind == HZ_CLOUD);
}

static size_t
hz_look_count_cloud_questions(const struct asking *ask)
{
	size_t n = 0;

	for (size_t i = 0; i < ask->n; i++)
		n += hz_look_is_cloud_question(&ask->questions[i]);
	return n;
}

/* Answers all open questions for the Cloud API with the error. No further request is sent, because
 * what made one request fail is likely to make all of them fail. */
static void
hz_look_give_up_cloud(struct asking *ask, const struct error *err)
{
	for (size_t i = 0; i < ask->n; i++) {
		if (hz_look_is_cloud_question(&ask->questions[i]))
			hz_look_answer_error(ask, i, PRESENCE_UNKNOWN, err);
	}
}

/* ---- reading the provider IDs ---- */

/* ERR_UNSUPPORTED means that the ID belongs to another cloud, or to Robot while Robot is not
 * configured. */
static bool
hz_look_parse_id(const struct hz_instances *in, struct str provider_id, struct hz_id *ret,
                 struct error *err)
{
	if (!hz_id_parse(in->config.config->dialect, provider_id, ret, err))
		return err_wrap(err, "failed to convert provider id to server id");
	if (ret->kind == HZ_ROBOT && !in->config.robot)
		return err_set(
			err, ERR_UNSUPPORTED,
			"no robot client configured, make sure to enable Robot support in the configuration");
	return true;
}

static void
hz_look_read_id(struct asking *ask, size_t i)
{
	struct question *q = &ask->questions[i];
	struct error err;

	q->has_id = ask->refs[i].provider_id.len > 0;
	if (q->has_id && !hz_look_parse_id(ask->in, ask->refs[i].provider_id, &q->id, &err))
		hz_look_answer_error(ask, i,
		                     err.code == ERR_UNSUPPORTED ? PRESENCE_FOREIGN
		                                                 : PRESENCE_UNKNOWN,
		                     &err);
}

bool
hz_instances_can_find(struct cloud *cloud, struct str provider_id, unsigned *ret_realm)
{
	const struct hz_instances *in = hcloud_of(cloud)->instances;
	struct error ignored;
	struct hz_id id;

	if (!hz_look_parse_id(in, provider_id, &id, &ignored))
		return false;
	*ret_realm = id.kind == HZ_ROBOT ? HZ_REALM_ROBOT : HZ_REALM_CLOUD;
	return true;
}

/* ---- the cloud: a request for each server ---- */

static void
hz_look_count_lookup(const struct asking *ask, const char *result)
{
	hz_count_lookup("instances_v2", ask->in->config.config->cache_mode, result);
}

static bool
hz_look_fetch_server(struct asking *ask, size_t i, struct hz_server *ret, struct error *err)
{
	const struct question *q = &ask->questions[i];
	struct hz_api *api = ask->in->config.api;
	struct str name = ask->refs[i].name;

	hz_look_count_lookup(ask, "miss");
	if (q->has_id)
		return hz_get_server(api, ask->call, &ask->arena, q->id.number, ret, err) ||
		       err_wrap(err, "failed to get hcloud server \"%" PRId64 "\"", q->id.number);
	if (name.len == 0)
		return err_set(err, ERR_NOT_FOUND, "a node without a name");
	return hz_find_server(api, ask->call, &ask->arena, name, ret, err) ||
	       err_wrap(err, "failed to get hcloud server \"%" STR_FMT "\"", STR_ARG(name));
}

/* Returns false if the request failed, in which case the next one is likely to fail, too. An absent
 * server is an answer. */
static bool
hz_look_ask_one(struct asking *ask, size_t i, struct error *err)
{
	struct hz_server server;

	if (hz_look_fetch_server(ask, i, &server, err)) {
		hz_look_answer_server(ask, i, &server);
		return true;
	}
	if (err->code != ERR_NOT_FOUND)
		return false;
	hz_look_answer_absent(ask, i, HZ_REALM_CLOUD);
	return true;
}

static bool
hz_look_ask_each(struct asking *ask, struct error *err)
{
	for (size_t i = 0; i < ask->n; i++) {
		if (hz_look_is_cloud_question(&ask->questions[i]) && !hz_look_ask_one(ask, i, err))
			return false;
	}
	return true;
}

/* ---- the cloud: its list of servers ---- */

static const struct hz_server *
hz_look_find_in(const struct asking *ask, const struct hz_servers *servers, size_t i)
{
	const struct question *q = &ask->questions[i];

	return q->has_id ? hz_servers_by_id(servers, q->id.number)
	                 : hz_servers_by_name(servers, ask->refs[i].name);
}

static void
hz_look_answer_from(struct asking *ask, const struct hz_servers *servers)
{
	for (size_t i = 0; i < ask->n; i++) {
		const struct hz_server *server;

		if (!hz_look_is_cloud_question(&ask->questions[i]))
			continue;
		server = hz_look_find_in(ask, servers, i);
		if (!server)
			continue;
		hz_look_count_lookup(ask, "hit");
		hz_look_answer_server(ask, i, server);
	}
}

/* Asks for each server that the list lacks by its ID or name, because a list does not prove that a
 * server is absent. If more than CONFIRMATIONS_MAX are missing, the others are unknown in this
 * look, and the next look begins with them. */
static bool
hz_look_confirm_missing(struct asking *ask, struct error *err)
{
	size_t first = ask->n > 0 ? atomic_load(&ask->in->next_confirm) % ask->n : 0;
	size_t n_asked = 0;

	for (size_t k = 0; k < ask->n && n_asked < CONFIRMATIONS_MAX; k++) {
		size_t i = (first + k) % ask->n;

		if (!hz_look_is_cloud_question(&ask->questions[i]))
			continue;
		n_asked++;
		atomic_store(&ask->in->next_confirm, i + 1);
		if (!hz_look_ask_one(ask, i, err))
			return false;
	}
	err_set(err, ERR_UNAVAILABLE,
	        "not in the list of servers, and not looked up yet: %d others come first",
	        CONFIRMATIONS_MAX);
	hz_look_give_up_cloud(ask, err);
	return true;
}

/* Is it cheaper to read the next page than to send a request for each open question? The first page
 * is always read. Another one is cheaper if more questions are open than one look may ask singly,
 * if at most as many pages as questions are left, or if the last page answered several questions,
 * because the next one probably does so as well. */
static bool
hz_look_wants_page(const struct asking *ask, const struct hz_servers *servers,
                   size_t n_answered_last)
{
	size_t n = hz_look_count_cloud_questions(ask);

	if (servers->next == 0 || n == 0)
		return false;
	return servers->next == 1 || n > CONFIRMATIONS_MAX || n_answered_last > 1 ||
	       hz_servers_pages_left(servers) <= n;
}

static void
hz_look_note_size(struct hz_instances *in, const struct hz_servers *servers)
{
	int64_t n = (int64_t)servers->by_id.count;

	atomic_store(&in->n_listed, servers->total > n ? servers->total : n);
}

static bool
hz_look_ask_list(struct asking *ask, struct error *err)
{
	CLEANUP(hz_servers_fini) struct hz_servers servers = HZ_SERVERS_INIT;
	size_t n_answered = 0;

	hz_look_count_lookup(ask, "miss");
	while (hz_look_wants_page(ask, &servers, n_answered)) {
		size_t n_open = hz_look_count_cloud_questions(ask);

		if (!hz_servers_read_page(ask->in->config.api, ask->call, &servers, err))
			return err_wrap(err, "failed to list hcloud servers");
		hz_look_answer_from(ask, &servers);
		n_answered = n_open - hz_look_count_cloud_questions(ask);
	}
	hz_look_note_size(ask->in, &servers);
	return hz_look_confirm_missing(ask, err);
}

/* ---- list or single requests ---- */

static size_t
hz_look_count_pages(const struct hz_instances *in)
{
	int64_t n_listed = atomic_load(&in->n_listed);

	return n_listed <= 0 ? 1 : ((size_t)n_listed + HZ_PAGE - 1) / HZ_PAGE;
}

/* A look with a new node is urgent, because the node cannot be used before it has an answer. Other
 * nodes are looked up periodically, and can wait. */
static enum hz_urgency
hz_look_urgency_of(const struct asking *ask)
{
	for (size_t i = 0; i < ask->n; i++) {
		if (hz_look_is_cloud_question(&ask->questions[i]) && ask->refs[i].is_new)
			return HZ_URGENT;
	}
	return HZ_BACKGROUND;
}

static bool
hz_look_ask_cloud(struct asking *ask, struct error *err)
{
	size_t n = hz_look_count_cloud_questions(ask), n_pages = hz_look_count_pages(ask->in);
	bool is_listed = ask->in->config.config->cache_mode == HZ_CACHE_ALL && n > n_pages;

	if (n == 0)
		return true;
	if (hz_api_admit(ask->in->config.api, hz_look_urgency_of(ask), is_listed ? n_pages : n,
	                 err) &&
	    (is_listed ? hz_look_ask_list(ask, err) : hz_look_ask_each(ask, err)))
		return true;
	hz_look_give_up_cloud(ask, err);
	return false;
}

/* ---- Robot ---- */

static bool
hz_look_has_its_name(const struct node_ref *ref, const struct hz_robot_server *server)
{
	return str_eq(ref->name, server->name);
}

/* Either the server was renamed, or it is now used for something else: Robot's answers do not show
 * which of the two. The node is therefore kept; the official controller treats the machine as
 * deleted. */
static void
hz_look_answer_renamed(struct asking *ask, size_t i, const struct hz_robot_server *server)
{
	const struct cloud_host *host = ask->in->config.host;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(ERR_MSG_SIZE);
	struct str name = ask->refs[i].name;
	struct error err;

	err_set(&err, ERR_INVALID,
	        "Node name \"%" STR_FMT "\" differs from Robot name \"%" STR_FMT
	        "\" of server %" PRId64,
	        STR_ARG(name), STR_ARG(server->name), server->number);
	buf_addf(
		&b,
		"%s, so it is unknown whether the machine of the node still exists, and the node is neither changed nor "
		"deleted. Rename the server to \"%" STR_FMT
		"\" in Robot; if it has another use now: kubectl delete node %" STR_FMT,
		err.msg, STR_ARG(name), STR_ARG(name));
	host->event(host, &ask->refs[i], HOST_EVENT_WARNING, mismatch_event.reason, buf_str(&b));
	hz_look_answer_error(ask, i, PRESENCE_UNKNOWN, &err);
}

/* Robot's reset service is asked only for nodes that are not Ready, because Robot permits few
 * requests. If the service does not answer, or does not support the server, the power is unknown.
 */
static enum power
hz_look_robot_power(struct asking *ask, size_t i, int64_t number)
{
	struct error err;
	bool is_off;

	if (ask->refs[i].is_ready || !ask->questions[i].has_id ||
	    !hz_robot_is_off(ask->in->config.robot, ask->call, number, &is_off, &err))
		return POWER_UNKNOWN;
	return is_off ? POWER_OFF : POWER_ON;
}

static void
hz_look_answer_robot(struct asking *ask, size_t i, const struct hz_robot_server *server)
{
	hz_describe_robot(&ask->in->describer, &ask->look->arena, &ask->refs[i], server,
	                  &ask->look->instances[i]);
	ask->look->instances[i].power = hz_look_robot_power(ask, i, server->number);
	ask->questions[i].state = ANSWERED;
}

/* Robot's list may be minutes old. It proves that a machine exists under its name. If the list
 * lacks the machine, or has it under another name, the server is read by its number. */
static bool
hz_look_fetch_robot(struct asking *ask, size_t i, struct hz_robot_server *ret, struct error *err)
{
	struct hz_robot *robot = ask->in->config.robot;
	int64_t number = ask->questions[i].id.number;

	if (hz_robot_find(robot, ask->call, &ask->arena, number, ret, err)) {
		if (hz_look_has_its_name(&ask->refs[i], ret))
			return true;
	} else if (err->code != ERR_NOT_FOUND) {
		return false;
	}
	return hz_robot_get(robot, ask->call, &ask->arena, number, ret, err);
}

static void
hz_look_ask_robot_by_id(struct asking *ask, size_t i)
{
	struct hz_robot_server server;
	struct error err;

	if (hz_look_fetch_robot(ask, i, &server, &err)) {
		if (hz_look_has_its_name(&ask->refs[i], &server))
			hz_look_answer_robot(ask, i, &server);
		else
			hz_look_answer_renamed(ask, i, &server);
	} else if (err.code == ERR_NOT_FOUND) {
		hz_look_answer_absent(ask, i, HZ_REALM_ROBOT);
	} else {
		err_wrap(&err, "failed to get robot server \"%" PRId64 "\"",
		         ask->questions[i].id.number);
		hz_look_answer_error(ask, i, PRESENCE_UNKNOWN, &err);
	}
}

static void
hz_look_refuse_both(struct asking *ask, size_t i)
{
	const struct cloud_host *host = ask->in->config.host;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(ERR_MSG_SIZE);
	struct str name = ask->refs[i].name;
	struct error err;

	buf_addf(&b,
	         "Node %" STR_FMT " could not be uniquely associated with a Cloud or Robot server, "
	         "as a server with this name exists in both APIs",
	         STR_ARG(name));
	host->event(host, &ask->refs[i], HOST_EVENT_WARNING, lookup_event.reason, buf_str(&b));
	err_set(&err, ERR_INVALID, "found both a cloud & robot server for name \"%" STR_FMT "\"",
	        STR_ARG(name));
	hz_look_answer_error(ask, i, PRESENCE_UNKNOWN, &err);
}

/* The node has no provider ID, and the Cloud API was asked for its name. Robot may have a server of
 * that name, too. If the cloud has the server and Robot does not answer, an old list of Robot is
 * good enough, so that an outage of Robot does not delay servers of the cloud. */
static void
hz_look_ask_robot_by_name(struct asking *ask, size_t i)
{
	enum presence in_cloud = ask->look->instances[i].presence;
	struct hz_robot_server server;
	struct error err;

	if (in_cloud == PRESENCE_UNKNOWN)
		return;
	if (hz_robot_find_name(ask->in->config.robot, ask->call, &ask->arena, ask->refs[i].name,
	                       in_cloud == PRESENCE_PRESENT, &server, &err)) {
		if (in_cloud == PRESENCE_PRESENT)
			hz_look_refuse_both(ask, i);
		else
			hz_look_answer_robot(ask, i, &server);
	} else if (err.code != ERR_NOT_FOUND) {
		err_wrap(&err, "failed to get robot server \"%" STR_FMT "\"",
		         STR_ARG(ask->refs[i].name));
		hz_look_answer_error(ask, i, PRESENCE_UNKNOWN, &err);
	}
}

static void
hz_look_ask_robot(struct asking *ask)
{
	for (size_t i = 0; ask->in->config.robot && i < ask->n; i++) {
		const struct question *q = &ask->questions[i];

		if (!q->has_id)
			hz_look_ask_robot_by_name(ask, i);
		else if (q->state == OPEN)
			hz_look_ask_robot_by_id(ask, i);
	}
}

/* ---- anchors ---- */

/* An anchor is needed only if a machine of the cloud is absent and no other one was found by its
 * ID, which would prove as well that the token is that of our project. */
static bool
hz_look_wants_anchor(const struct asking *ask)
{
	bool has_absent = false;

	for (size_t i = 0; i < ask->n; i++) {
		const struct instance *one = &ask->look->instances[i];

		if (one->realm != HZ_REALM_CLOUD)
			continue;
		if (one->presence == PRESENCE_PRESENT && ask->questions[i].has_id)
			return false;
		has_absent |= one->presence == PRESENCE_ABSENT;
	}
	return has_absent;
}

/* A network of that name may be another project's, so only its ID proves something. */
static bool
hz_look_count_networks(struct asking *ask, unsigned *ret, struct error *err)
{
	const struct hz_instances_config *config = &ask->in->config;
	struct hz_network network;

	*ret = 0;
	if (!config->is_network_ours)
		return true;
	if (!hz_get_network(config->api, ask->call, &ask->arena, config->network, false, &network,
	                    err))
		return err->code == ERR_NOT_FOUND;
	*ret = network.id == config->network;
	return true;
}

/* Counts the anchors: our network, or else the balancers of our Services. A token of another
 * project finds neither of them. */
static void
hz_look_find_anchors(struct asking *ask)
{
	const struct hz_instances_config *config = &ask->in->config;
	struct look *look = ask->look;
	struct error err;
	bool is_good;

	if (!hz_look_wants_anchor(ask))
		return;
	is_good = hz_look_count_networks(ask, &look->n_anchors, &err);
	if (look->n_anchors == 0 && config->cache)
		is_good = hz_lb_cache_count_serving(config->cache, ask->call, config->host,
		                                    &look->n_anchors, &err) &&
		          is_good;
	if (!is_good && look->n_anchors == 0)
		look->anchors_error = arena_str(&look->arena, str_c(err.msg));
}

/* ---- a look ---- */

static void
hz_look_read_ids(struct asking *ask)
{
	ask->questions = arena_calloc(&ask->arena, ask->n, sizeof(*ask->questions));
	hz_count_operations("hcloud/instancesv2.InstanceMetadata", (double)ask->n);
	for (size_t i = 0; i < ask->n; i++)
		hz_look_read_id(ask, i);
}

/* FOREIGN follows from a provider ID alone, so it is no answer. */
static bool
hz_look_has_any_answer(const struct look *look)
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
	struct asking ask = {
		.in = hcloud_of(cloud)->instances, .call = call, .refs = refs, .n = n
	};
	bool is_asked;

	(void)not_before_boot_ns; /* no answer of the Cloud API is cached */
	ask.look = look_new(n, clock_boot(call->clock));
	hz_look_read_ids(&ask);
	is_asked = hz_look_ask_cloud(&ask, err);
	hz_look_ask_robot(&ask);
	hz_look_find_anchors(&ask);
	arena_fini(&ask.arena);
	if (!is_asked && !hz_look_has_any_answer(ask.look)) {
		look_unref(ask.look);
		return false;
	}
	*ret = ask.look;
	return true;
}

/* ---- life cycle ---- */

struct hz_instances *
hz_instances_new(const struct hz_instances_config *config)
{
	struct hz_instances *in = xcalloc(1, sizeof(*in));

	in->config = *config;
	in->describer = (struct hz_describer){ config->config, config->host, config->network };
	atomic_init(&in->n_listed, -1);
	return in;
}

void
hz_instances_free(struct hz_instances *in)
{
	free(in);
}
