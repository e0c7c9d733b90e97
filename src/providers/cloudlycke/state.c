/* state.c: see state.h.
 *
 * A list of nodes that is long is written once, under "nodeSets", and named by "nodeSet" in the
 * balancers that have it: 200 balancers of 5,000 nodes would make a file of 80 MB, to be written at
 * every change.
 */
#include "providers/cloudlycke/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/array.h"
#include "base/event_kind.h"
#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/map.h"
#include "base/quote.h"
#include "base/thread.h"

EVENT_KIND(
	newer_event, "cloud-controller-manager", "StateFileIsNewer", true,
	"Pod or Namespace kube-system",
	"cloudlycke: the state file was written by a newer version; it is left as it is, and hooks are run for everything anew.");

enum {
	VERSION = 1,
	LONG_LIST = 64, /* nodes */
};

struct cl_state {
	char *path, *backup, *lock_path; /* NULL: in memory only */
	const struct cloud_host *host;
	pthread_mutex_t mu;
	int lock_fd;                /* mu */
	int64_t generation;         /* mu */
	_Atomic bool is_newer;      /* of a version that we do not know */
	bool has_file;              /* mu; there is a good one, to be kept as FILE.bak */
	struct cl_record **records; /* mu; references: as read or written last, sorted then */
	size_t n_records;           /* mu */
	struct buf routes;          /* mu; likewise: JSON, or empty */
};

/* ---- life cycle ---- */

static char *
with_suffix(struct str path, const char *suffix)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(8));

	buf_add_str(&b, path);
	buf_add_c(&b, suffix);
	return buf_take(&b);
}

struct cl_state *
cl_state_new(struct str path, const struct cloud_host *host)
{
	struct cl_state *s = xcalloc(1, sizeof(*s));

	s->host = host;
	s->lock_fd = -1;
	s->routes = BUF_INIT(LIMIT_STATE_FILE);
	mutex_init(&s->mu);
	if (path.len == 0)
		return s;
	s->path = with_suffix(path, "");
	s->backup = with_suffix(path, ".bak");
	s->lock_path = with_suffix(path, ".lock");
	return s;
}

static void
forget_records(struct cl_state *s)
{
	while (s->n_records > 0)
		cl_record_unref(s->records[--s->n_records]);
	free(TAKE(s->records));
}

static void
keep_records(struct cl_state *s, struct cl_record *const records[], size_t n)
{
	forget_records(s);
	s->records = xcalloc(n + 1, sizeof(struct cl_record *));
	while (s->n_records < n) {
		s->records[s->n_records] = cl_record_ref(records[s->n_records]);
		s->n_records++;
	}
}

void
cl_state_free(struct cl_state *s)
{
	if (!s)
		return;
	forget_records(s);
	mutex_destroy(&s->mu);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	buf_fini(&s->routes);
	free(s->path);
	free(s->backup);
	free(s->lock_path);
	free(s);
}

bool
cl_state_is_kept(const struct cl_state *s)
{
	return s->path && !s->is_newer;
}

bool
cl_state_lock(struct cl_state *s, struct error *err)
{
	CLEANUP(arena_fini) struct arena scratch = ARENA_INIT;
	int fd, problem;
	WITH_LOCK(&s->mu);

	if (!s->path || s->lock_fd >= 0)
		return true;
	fd = open(s->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_errno(err, errno, "cannot lock state file %s",
		                 quote_z(&scratch, str_c(s->path)));
	if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
		s->lock_fd = fd;
		return true;
	}
	problem = errno;
	close(fd);
	if (problem != EWOULDBLOCK)
		return err_errno(err, problem, "cannot lock state file %s",
		                 quote_z(&scratch, str_c(s->path)));
	return err_set(err, ERR_CONFLICT, "state file %s is locked by another process",
	               quote_z(&scratch, str_c(s->path)));
}

/* ---- reading ---- */

/* The state of reading a file, and its result. */
struct reading {
	struct arena arena; /* of one record */
	yyjson_val *root;
	struct map sets; /* node sets by name */
	struct cl_record **records;
	size_t n, cap;
	const char *why; /* the field that is damaged */
};

static void
reading_fini(struct reading *r)
{
	struct str key;
	void *targets;

	for (size_t pos = 0; map_next(&r->sets, &pos, &key, &targets);)
		cl_targets_unref(targets);
	map_fini(&r->sets);
	cl_records_free(r->records, r->n);
	arena_fini(&r->arena);
}

static bool
fail_field(struct reading *r, const char *field)
{
	r->why = field;
	return false;
}

static bool
read_text(struct reading *r, yyjson_val *obj, const char *field, struct str *ret)
{
	*ret = STR_EMPTY;
	return json_str(obj, field, ret) != JSON_MISTYPED || fail_field(r, field);
}

static bool
read_number(struct reading *r, yyjson_val *obj, const char *field, int64_t max, int64_t *ret)
{
	*ret = 0;
	if (json_i64(obj, field, ret) == JSON_MISTYPED || *ret < 0 || *ret > max)
		return fail_field(r, field);
	return true;
}

static bool
read_int(struct reading *r, yyjson_val *obj, const char *field, int32_t max, int32_t *ret)
{
	int64_t value;

	if (!read_number(r, obj, field, max, &value))
		return false;
	*ret = (int32_t)value;
	return true;
}

/* Which of the words it is; the first one when it is not there. */
static bool
read_word(struct reading *r, yyjson_val *obj, const char *field, const char *const words[],
          int *ret)
{
	struct str text = str_c(words[0]);

	if (json_str(obj, field, &text) == JSON_MISTYPED)
		return fail_field(r, field);
	for (int i = 0; words[i]; i++) {
		if (str_eq_c(text, words[i])) {
			*ret = i;
			return true;
		}
	}
	return fail_field(r, field);
}

static bool
read_ips(struct reading *r, yyjson_val *obj, struct ip ret[CL_FAMILIES], size_t *ret_n)
{
	yyjson_val *list = NULL, *item;
	yyjson_arr_iter iter;
	size_t n = 0;

	if (json_array(obj, "addresses", &list) == JSON_MISTYPED)
		return fail_field(r, "addresses");
	iter = yyjson_arr_iter_with(list);
	while ((item = yyjson_arr_iter_next(&iter))) {
		if (n == CL_FAMILIES || !yyjson_is_str(item) || !ip_parse(json_text(item), &ret[n]))
			return fail_field(r, "addresses");
		n++;
	}
	*ret_n = n;
	return true;
}

static bool
read_port(struct reading *r, yyjson_val *obj, struct lb_port *port)
{
	static const char *const protocols[] = { "TCP", "UDP", "SCTP", NULL };
	int protocol = 0;

	if (!read_text(r, obj, "name", &port->name) ||
	    !read_word(r, obj, "protocol", protocols, &protocol) ||
	    !read_int(r, obj, "port", 65535, &port->port) ||
	    !read_int(r, obj, "nodePort", 65535, &port->node_port))
		return false;
	port->protocol = (enum lb_protocol)protocol;
	port->protocol_text = str_c(protocols[protocol]);
	port->app_protocol = STR_EMPTY;
	return true;
}

static bool
read_ports(struct reading *r, yyjson_val *obj, struct cl_holding *h)
{
	yyjson_val *list = NULL, *item;
	struct lb_port *ports;
	yyjson_arr_iter iter;

	if (json_array(obj, "ports", &list) == JSON_MISTYPED)
		return fail_field(r, "ports");
	ports = arena_calloc(&r->arena, yyjson_arr_size(list) + 1, sizeof(*ports));
	iter = yyjson_arr_iter_with(list);
	while ((item = yyjson_arr_iter_next(&iter))) {
		if (!read_port(r, item, &ports[h->n_ports++]))
			return false;
	}
	h->ports = ports;
	return true;
}

static bool
read_ranges(struct reading *r, yyjson_val *obj, struct cl_record *draft)
{
	yyjson_val *list = NULL, *item;
	struct str *ranges;
	struct ip_net net;
	yyjson_arr_iter iter;

	if (json_array(obj, "sourceRanges", &list) == JSON_MISTYPED)
		return fail_field(r, "sourceRanges");
	ranges = arena_calloc(&r->arena, yyjson_arr_size(list) + 1, sizeof(*ranges));
	iter = yyjson_arr_iter_with(list);
	while ((item = yyjson_arr_iter_next(&iter))) {
		if (!yyjson_is_str(item) || !ip_net_parse(json_text(item), &net))
			return fail_field(r, "sourceRanges");
		ranges[draft->n_source_ranges++] = json_text(item);
	}
	draft->source_ranges = ranges;
	return true;
}

static bool
read_target(struct reading *r, yyjson_val *obj, struct cl_target *target)
{
	struct ip *ips = arena_calloc(&r->arena, CL_FAMILIES, sizeof(*ips));

	target->addresses = ips;
	return read_text(r, obj, "name", &target->name) && read_text(r, obj, "id", &target->id) &&
	       read_ips(r, obj, ips, &target->n_addresses);
}

static bool
read_list(struct reading *r, yyjson_val *list, struct cl_targets **ret)
{
	struct cl_target *items = arena_calloc(&r->arena, yyjson_arr_size(list) + 1,
	                                       sizeof(*items));
	yyjson_arr_iter iter = yyjson_arr_iter_with(list);
	yyjson_val *item;
	size_t n = 0;

	while ((item = yyjson_arr_iter_next(&iter))) {
		if (!read_target(r, item, &items[n++]))
			return false;
	}
	*ret = cl_targets_copy(items, n);
	return true;
}

static bool
read_sets(struct reading *r)
{
	yyjson_val *sets = NULL, *key;
	yyjson_obj_iter iter;

	if (json_object(r->root, "nodeSets", &sets) == JSON_MISTYPED)
		return fail_field(r, "nodeSets");
	iter = yyjson_obj_iter_with(sets);
	while ((key = yyjson_obj_iter_next(&iter))) {
		yyjson_val *list = yyjson_obj_iter_get_val(key);
		struct cl_targets *set;

		if (!yyjson_is_arr(list) || !read_list(r, list, &set))
			return fail_field(r, "nodeSets");
		cl_targets_unref(map_put(&r->sets, json_text(key), set));
		arena_reset(&r->arena);
	}
	return true;
}

static bool
read_targets(struct reading *r, yyjson_val *obj, struct cl_targets **ret)
{
	yyjson_val *list = NULL;
	struct cl_targets *set;
	struct str name = STR_EMPTY;

	if (!read_text(r, obj, "nodeSet", &name))
		return false;
	if (name.len > 0) {
		set = map_get(&r->sets, name);
		*ret = set ? cl_targets_ref(set) : NULL;
		return set || fail_field(r, "nodeSet");
	}
	if (json_array(obj, "nodes", &list) == JSON_MISTYPED)
		return fail_field(r, "nodes");
	return read_list(r, list, ret);
}

static bool
read_policies(struct reading *r, yyjson_val *obj, struct cl_record *draft)
{
	static const char *const traffics[] = { "Cluster", "Local", NULL };
	static const char *const affinities[] = { "None", "ClientIP", NULL };
	static const char *const modes[] = { "VIP", "Proxy", NULL };
	static const char *const proxies[] = { "", "v1", "v2", NULL };
	int traffic = 0, affinity = 0, proxy = 0;

	if (!read_word(r, obj, "externalTrafficPolicy", traffics, &traffic) ||
	    !read_word(r, obj, "sessionAffinity", affinities, &affinity) ||
	    !read_word(r, obj, "ipMode", modes, &draft->ip_mode) ||
	    !read_word(r, obj, "proxyProtocol", proxies, &proxy))
		return false;
	draft->traffic = (enum lb_traffic)traffic;
	draft->has_client_ip_affinity = affinity == 1;
	draft->proxy = (enum cl_proxy)proxy;
	return read_int(r, obj, "healthCheckNodePort", 65535, &draft->health_check_node_port) &&
	       read_int(r, obj, "sessionAffinityTimeoutSeconds", INT32_MAX,
	                &draft->affinity_timeout_s);
}

static bool
read_progress(struct reading *r, yyjson_val *obj, struct cl_record *draft)
{
	return read_number(r, obj, "generation", INT64_MAX, &draft->generation) &&
	       read_number(r, obj, "hook.generation", INT64_MAX, &draft->hook_generation) &&
	       read_text(r, obj, "hook.error", &draft->hook_error) &&
	       (json_bool(obj, "deleting", &draft->is_deleting) != JSON_MISTYPED ||
	        fail_field(r, "deleting"));
}

static bool
read_names(struct reading *r, yyjson_val *obj, struct cl_record *draft)
{
	struct cl_holding *h = &draft->holding;

	return read_text(r, obj, "cluster", &draft->cluster) &&
	       read_text(r, obj, "namespace", &h->namespace) &&
	       read_text(r, obj, "name", &h->service) && read_text(r, obj, "uid", &h->uid) &&
	       (h->uid.len > 0 || fail_field(r, "uid")) &&
	       read_text(r, obj, "pool", &draft->pool) &&
	       read_text(r, obj, "hostname", &draft->hostname) &&
	       read_text(r, obj, "shareKey", &h->share_key);
}

static bool
read_record(struct reading *r, struct str name, yyjson_val *obj)
{
	CLEANUP(cl_targets_unrefp) struct cl_targets *targets = NULL;
	struct cl_record draft = { .name = name };

	if (!yyjson_is_obj(obj))
		return fail_field(r, "loadBalancers");
	if (!read_names(r, obj, &draft) ||
	    !read_ips(r, obj, draft.holding.addresses, &draft.holding.n_addresses) ||
	    !read_ports(r, obj, &draft.holding) || !read_ranges(r, obj, &draft) ||
	    !read_policies(r, obj, &draft) || !read_progress(r, obj, &draft) ||
	    !read_targets(r, obj, &targets))
		return false;
	draft.targets = targets;
	ARRAY_PUSH(r->records, r->n, r->cap, cl_record_new(&draft));
	arena_reset(&r->arena);
	return true;
}

static bool
read_records(struct reading *r)
{
	yyjson_val *all = NULL, *key;
	yyjson_obj_iter iter;

	if (json_object(r->root, "loadBalancers", &all) == JSON_MISTYPED)
		return fail_field(r, "loadBalancers");
	iter = yyjson_obj_iter_with(all);
	while ((key = yyjson_obj_iter_next(&iter))) {
		if (!read_record(r, json_text(key), yyjson_obj_iter_get_val(key)))
			return false;
	}
	return true;
}

static bool
err_damaged(const struct cl_state *s, const char *why, struct error *err)
{
	CLEANUP(arena_fini) struct arena scratch = ARENA_INIT;

	return err_set(err, ERR_INVALID, "state file %s is damaged: %s",
	               quote_z(&scratch, str_c(s->path)), why);
}

static void
report_newer(struct cl_state *s, int64_t version)
{
	char memory[600] = "";
	struct buf text = BUF_FIXED(memory);

	s->is_newer = true;
	buf_add_c(&text, "state file ");
	quote_add(&text, str_c(s->path));
	buf_addf(
		&text,
		" is of version %lld, newer than this program: it is left as it is, and addresses are "
		"taken from the Services",
		(long long)version);
	log_warn(text.ptr);
	s->host->event(s->host, /*ref=*/NULL, HOST_EVENT_WARNING, newer_event.reason,
	               buf_str(&text));
}

/* The routes' part is kept as it is. */
static void
keep_routes(struct cl_state *s, yyjson_val *root)
{
	yyjson_val *routes = NULL;

	buf_reset(&s->routes);
	if (json_object(root, "routes", &routes) == JSON_FOUND)
		json_add_value(&s->routes, routes);
}

static bool
read_document(struct cl_state *s, struct reading *r, struct error *err)
{
	int64_t version = 0;

	if (!yyjson_is_obj(r->root) || json_i64(r->root, "version", &version) != JSON_FOUND ||
	    version < VERSION)
		return err_damaged(s, "unknown version", err);
	if (version > VERSION) {
		report_newer(s, version);
		return true;
	}
	if (!read_number(r, r->root, "generation", INT64_MAX, &s->generation) || !read_sets(r) ||
	    !read_records(r))
		return err_damaged(s, r->why, err);
	keep_routes(s, r->root);
	return true;
}

static bool
read_file(struct cl_state *s, struct reading *r, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_STATE_FILE);
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct error problem;

	if (!file_read(s->path, &text, &problem))
		return problem.code == ERR_NOT_FOUND || err_damaged(s, problem.msg, err);
	if (!json_parse(buf_str(&text), &doc, &problem))
		return err_damaged(s, problem.msg, err);
	r->root = yyjson_doc_get_root(doc);
	s->has_file = true;
	return read_document(s, r, err);
}

bool
cl_state_read(struct cl_state *s, struct cl_record ***ret, size_t *ret_n, struct error *err)
{
	CLEANUP(reading_fini) struct reading r = { .n = 0 };
	WITH_LOCK(&s->mu);

	s->is_newer = false;
	s->has_file = false;
	if (s->path && !read_file(s, &r, err))
		return false;
	keep_records(s, r.records, r.n);
	*ret_n = r.n;
	r.n = 0;
	*ret = TAKE(r.records);
	return true;
}

static bool
read_and_drop(struct cl_state *s, struct error *err)
{
	struct cl_record **records;
	size_t n;

	if (!cl_state_read(s, &records, &n, err))
		return false;
	cl_records_free(records, n);
	return true;
}

bool
cl_state_take(struct cl_state *s, struct error *err)
{
	return cl_state_lock(s, err) && read_and_drop(s, err);
}

bool
cl_state_open(struct str path, bool is_alone, const struct cloud_host *host, struct cl_state **ret,
              struct error *err)
{
	CLEANUP(cl_state_freep) struct cl_state *s = cl_state_new(path, host);

	if (path.len == 0)
		log_warn(
			"cloudlycke: no state.file configured; routes, and what hooks were told, do not "
			"survive a restart");
	if (is_alone ? !cl_state_take(s, err) : !read_and_drop(s, err))
		return err_wrap(err, "cloudlycke");
	*ret = TAKE(s);
	return true;
}

/* ---- writing ---- */

static void
add_record(struct buf *b, const struct cl_record *r)
{
	json_add_str(b, r->name);
	buf_add_c(b, ":{");
	cl_record_json(b, r);
	if (r->targets->n > LONG_LIST) {
		buf_addf(b, ",\"nodeSet\":\"%016llx\"}", (unsigned long long)r->targets->hash);
		return;
	}
	buf_add_c(b, ",\"nodes\":");
	cl_targets_json(b, r->targets);
	buf_add_char(b, '}');
}

/* Is it the first record with these nodes? Searched backwards: most records have the nodes of the
 * one before. */
static bool
is_first_with(struct cl_record *const records[], size_t i)
{
	for (size_t k = i; k-- > 0;) {
		if (records[k]->targets == records[i]->targets ||
		    records[k]->targets->hash == records[i]->targets->hash)
			return false;
	}
	return true;
}

static void
add_sets(struct buf *b, struct cl_record *const records[], size_t n)
{
	bool is_first = true;

	for (size_t i = 0; i < n; i++) {
		const struct cl_targets *t = records[i]->targets;

		if (t->n <= LONG_LIST || !is_first_with(records, i))
			continue;
		buf_addf(b, "%s\"%016llx\":", is_first ? ",\"nodeSets\":{" : ",",
		         (unsigned long long)t->hash);
		cl_targets_json(b, t);
		is_first = false;
	}
	if (!is_first)
		buf_add_char(b, '}');
}

static void
add_file(const struct cl_state *s, struct buf *b, struct cl_record *const records[], size_t n)
{
	buf_addf(b, "{\"version\":%d,\"generation\":%lld,\"loadBalancers\":{", VERSION,
	         (long long)s->generation + 1);
	for (size_t i = 0; i < n; i++) {
		buf_add_c(b, i > 0 ? ",\n" : "\n");
		add_record(b, records[i]);
	}
	buf_add_char(b, '}');
	add_sets(b, records, n);
	buf_addf(b, ",\n\"routes\":%s}\n", s->routes.len > 0 ? s->routes.ptr : "{}");
}

/* Makes a second link to the present file and renames it over the former backup. On file systems
 * without hard links there is no backup. */
static void
keep_backup(const struct cl_state *s)
{
	CLEANUP(buf_fini) struct buf other = BUF_INIT(KIB(8));

	if (!s->has_file)
		return;
	buf_addf(&other, "%s.new", s->backup);
	(void)unlink(other.ptr);
	if (link(s->path, other.ptr) != 0 || rename(other.ptr, s->backup) != 0) {
		log_debug("no backup of the state file, ignoring", LOG_CSTR("file", s->backup));
		(void)unlink(other.ptr);
	}
}

static bool
write_file(struct cl_state *s, struct cl_record *const records[], size_t n, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_STATE_FILE);

	add_file(s, &text, records, n);
	if (!buf_ok(&text))
		return err_set(err, ERR_INTERNAL, "more than %zu bytes", LIMIT_STATE_FILE);
	keep_backup(s);
	if (!file_replace(s->path, buf_str(&text), 0600, err))
		return false;
	s->generation++;
	s->has_file = true;
	return true;
}

/* With the lock held. */
static bool
write_all(struct cl_state *s, struct cl_record *const records[], size_t n, struct error *err)
{
	CLEANUP(arena_fini) struct arena scratch = ARENA_INIT;

	if (!cl_state_is_kept(s))
		return true;
	if (!fence_check(s->host->fence, s->host->clock, err))
		return false;
	if (!write_file(s, records, n, err))
		return err_wrap(err, "cannot write state file %s",
		                quote_z(&scratch, str_c(s->path)));
	return true;
}

bool
cl_state_write(struct cl_state *s, struct cl_record *records[], size_t n, struct error *err)
{
	WITH_LOCK(&s->mu);

	cl_records_sort(records, n);
	if (!write_all(s, records, n, err))
		return false;
	keep_records(s, records, n);
	return true;
}

void
cl_state_routes(struct cl_state *s, struct buf *b)
{
	WITH_LOCK(&s->mu);

	buf_add_str(b, buf_str(&s->routes));
}

static void
swap_bufs(struct buf *a, struct buf *b)
{
	struct buf c = *a;

	*a = *b;
	*b = c;
}

bool
cl_state_write_routes(struct cl_state *s, struct str routes, struct error *err)
{
	CLEANUP(buf_fini) struct buf other = BUF_INIT(LIMIT_STATE_FILE);
	WITH_LOCK(&s->mu);

	buf_add_str(&other, routes);
	swap_bufs(&s->routes, &other);
	if (write_all(s, s->records, s->n_records, err))
		return true;
	swap_bufs(&s->routes, &other);
	return false;
}
