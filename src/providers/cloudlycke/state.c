/* state.c: see state.h.
 *
 * When the file is written, and why a crash in between does no harm:
 *
 *   1. before a hook or HAProxy gets an address, the address is in the file: it is never given to
 *      another Service, even when the process ends before the Service's status is patched;
 *   2. before a hook is run, "generation" is increased, and only when the hook has ended,
 *      "hook.generation" follows: where they differ, the hook is run again;
 *   3. after the hook's `delete`, the entry is removed: until then its addresses are taken.
 *
 * With 200 Services and a hook, a node that comes or goes changes 200 entries twice. With a write
 * and an fsync for each of them that took up to three seconds; shared, there are two dozen writes.
 */
#include "providers/cloudlycke/state.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/event_kind.h"
#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/buf.h"
#include "base/thread.h"

/* A fork and an exec take less; after that, it is another ccmd that has the lock. */
#define LOCK_WAIT_NS (2 * NS_PER_SEC)
#define LOCK_POLL_NS (20 * NS_PER_MS)

EVENT_KIND(
	newer_event, "cloud-controller-manager", "StateFileIsNewer", true,
	"Pod or Namespace kube-system",
	"cloudlycke: the state file was written by a newer version; it is left unchanged and not read, so all hooks are run again.");

enum {
	VERSION = 1,
};

/* ---- records ---- */

static const struct cl_change *
find_change(const struct cl_state *s, struct str uid)
{
	const struct cl_change *change = s->changes;

	while (change && !str_eq(change->uid, uid))
		change = change->older;
	return change;
}

static int
by_name(const void *a, const void *b)
{
	const struct cl_record *const *x = a, *const *y = b;

	return str_cmp((*x)->values.name, (*y)->values.name);
}

struct cl_record **
cl_state_sorted(const struct cl_state *s, bool is_next, size_t *ret_n)
{
	struct cl_record **all = xcalloc(s->records.count + s->n_changing + 1, sizeof(*all));
	struct str uid;
	void *record;
	size_t n = 0;

	for (size_t pos = 0; map_next(&s->records, &pos, &uid, &record);) {
		if (!is_next || !find_change(s, uid))
			all[n++] = cl_record_ref(record);
	}
	for (const struct cl_change *c = is_next ? s->changes : NULL; c; c = c->older) {
		if (c->next)
			all[n++] = cl_record_ref(c->next);
	}
	qsort(all, n, sizeof(struct cl_record *), by_name);
	*ret_n = n;
	return all;
}

/* Takes the reference, and returns that of the former record. NULL: there is none. */
static struct cl_record *
replace_record(struct cl_state *s, struct str uid, struct cl_record *record)
{
	struct cl_record *former = map_remove(&s->records, uid); /* it has the key */

	if (former)
		s->file_size -= former->values.file_size;
	if (record) {
		map_put(&s->records, record->values.allocation.uid, record);
		s->file_size += record->values.file_size;
	}
	return former;
}

void
cl_state_set(struct cl_state *s, struct cl_record *record)
{
	cl_record_unref(replace_record(s, record->values.allocation.uid, record));
	s->version++;
}

void
cl_state_clear(struct cl_state *s)
{
	struct str uid;
	void *record;

	for (size_t pos = 0; map_next(&s->records, &pos, &uid, &record);)
		cl_record_unref(record);
	map_fini(&s->records);
	s->file_size = 0;
	s->version++;
}

/* ---- reading the file ---- */

/* Returns the name of a field that is damaged, or NULL. Files of older versions of ccmd have more
 * fields, which are ignored, and no "hook.input": the hook is run once more, because no input has
 * the hash 0. */
static const char *
read_entry(struct cl_state *s, struct str name, yyjson_val *obj)
{
	struct cl_record_values values = { .name = name, .targets = s->no_targets };
	struct cl_addresses *addresses = &values.allocation.addresses;
	const struct {
		const char *name;
		struct str *text; /* NULL: a number */
		int64_t *number;
	} fields[] = {
		{ "uid", &values.allocation.uid, NULL },
		{ "namespace", &values.allocation.namespace, NULL },
		{ "name", &values.allocation.service, NULL },
		{ "generation", NULL, &values.hook.generation },
		{ "hook.generation", NULL, &values.hook.done },
		{ "hook.input", NULL, &values.hook.input },
		{ "hook.error", &values.hook.error, NULL },
	};
	yyjson_val *list = NULL, *item;
	yyjson_arr_iter iter;

	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		enum json_found found;

		if (fields[i].text)
			found = json_str(obj, fields[i].name, fields[i].text);
		else
			found = json_i64(obj, fields[i].name, fields[i].number);
		if (found == JSON_MISTYPED || (fields[i].number && *fields[i].number < 0))
			return fields[i].name;
	}
	if (values.allocation.uid.len == 0)
		return "uid";
	if (json_array(obj, "addresses", &list) == JSON_MISTYPED)
		return "addresses";
	iter = yyjson_arr_iter_with(list);
	while ((item = yyjson_arr_iter_next(&iter))) {
		if (addresses->n == CL_FAMILIES || !yyjson_is_str(item) ||
		    !ip_parse(json_text(item), &addresses->items[addresses->n++]))
			return "addresses";
	}
	cl_state_set(s, cl_record_new(&values));
	return NULL;
}

static bool
fail_damaged(const struct cl_state *s, const char *why, struct error *err)
{
	return err_set(err, ERR_INVALID, "state file %s is damaged: %s", s->quoted, why);
}

static bool
read_document(struct cl_state *s, yyjson_val *root, struct error *err)
{
	yyjson_val *all = NULL, *routes = NULL, *key;
	yyjson_obj_iter iter;
	int64_t version = 0;

	if (!yyjson_is_obj(root) || json_i64(root, "version", &version) != JSON_FOUND ||
	    version < VERSION)
		return fail_damaged(s, "unknown version", err);
	if (version > VERSION) {
		CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_EVENT_MESSAGE);

		s->is_newer = true;
		buf_addf(
			&text,
			"state file %s is of version %lld, newer than this program: it is left as it is, and addresses are "
			"taken from the Services",
			s->quoted, (long long)version);
		log_warn(text.ptr);
		host_report(s->host, /*ref=*/NULL, &newer_event, "%s", text.ptr);
		return true;
	}
	if (json_object(root, "loadBalancers", &all) == JSON_MISTYPED)
		return fail_damaged(s, "loadBalancers", err);
	iter = yyjson_obj_iter_with(all);
	while ((key = yyjson_obj_iter_next(&iter))) {
		const char *damaged = read_entry(s, json_text(key), yyjson_obj_iter_get_val(key));

		if (damaged)
			return fail_damaged(s, damaged, err);
	}
	if (json_object(root, "routes", &routes) == JSON_FOUND)
		json_add_value(&s->routes, routes);
	return true;
}

/* Called with the lock held. */
static bool
read_file(struct cl_state *s, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_STATE_FILE);
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct error problem;

	s->is_newer = false;
	s->has_file = false;
	cl_state_clear(s);
	buf_reset(&s->routes);
	if (!s->path)
		return true;
	if (!file_read(s->path, &text, &problem)) {
		if (problem.code == ERR_NOT_FOUND)
			return true;
		return fail_damaged(s, problem.msg, err);
	}
	if (!json_parse(buf_str(&text), &doc, &problem))
		return fail_damaged(s, problem.msg, err);
	s->has_file = true;
	return read_document(s, yyjson_doc_get_root(doc), err);
}

/* ---- life cycle ---- */

/* The lock is on a file of its own, because the state file is replaced: a lock on it would be on
 * the former content. A forked child shares the lock until its exec. The kernel releases it when
 * the process has ended, even by SIGKILL, and no such child is left. */
bool
cl_state_take(struct cl_state *s, struct error *err)
{
	int problem;
	WITH_LOCK(&s->mu);

	if (s->is_taken)
		return true;
	if (s->path && !s->is_read_only && s->lock_fd < 0) {
		CLEANUP(fd_close)
		int fd = open(s->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0) {
			problem = errno;
			if (fd >= 0 && problem == EWOULDBLOCK)
				return err_set(err, ERR_CONFLICT,
				               "state file %s is locked by another process",
				               s->quoted);
			return err_errno(err, problem, "cannot lock state file %s", s->quoted);
		}
		s->lock_fd = fd;
		fd = -1;
	}
	if (!read_file(s, err))
		return false;
	s->is_taken = true;
	return true;
}

/* If ccmd is killed while it starts a program, and is restarted immediately, the child may still
 * hold the lock. */
static bool
take_at_start(struct cl_state *s, struct error *err)
{
	struct clock *clock = s->host->clock;
	int64_t end_ns = clock_deadline(clock_mono(clock), LOCK_WAIT_NS);

	while (!cl_state_take(s, err)) {
		if (err->code != ERR_CONFLICT || clock_mono(clock) >= end_ns ||
		    !cancel_sleep(/*cancel=*/NULL, clock, LOCK_POLL_NS, err))
			return false;
	}
	return true;
}

bool
cl_state_open(const struct cl_schema *schema, enum cl_state_use use, const struct cloud_host *host,
              struct cl_state **ret, struct error *err)
{
	CLEANUP(cl_state_freep) struct cl_state *s = xcalloc(1, sizeof(*s));
	struct str path = schema->state.file;
	bool is_good;

	*s = (struct cl_state){
		.host = host,
		.is_read_only = use == CL_STATE_READ_ONLY,
		.has_hook = schema->balancers.hook.len > 0,
		.has_haproxy = schema->balancers.haproxy.is_present,
		.no_targets = cl_targets_new(NULL, 0),
		.records = MAP_OF(struct cl_record, values.allocation.uid),
		.lock_fd = -1,
		.routes = BUF_INIT(LIMIT_STATE_FILE),
	};
	mutex_init(&s->mu);
	cond_init(&s->written);
	if (path.len > 0) {
		s->path = arena_strz(&s->arena, path);
		s->backup = arena_printf(&s->arena, "%s.bak", s->path).ptr;
		s->lock_path = arena_printf(&s->arena, "%s.lock", s->path).ptr;
		s->quoted = quote_z(&s->arena, path);
	} else {
		log_warn(
			"cloudlycke: no state.file is configured: routes, and what hooks were run for, "
			"are forgotten at a restart");
	}
	if (use == CL_STATE_NOW) {
		is_good = take_at_start(s, err);
	} else {
		/* only the leader may use it: a standby checks whether it is valid */
		WITH_LOCK(&s->mu);
		is_good = read_file(s, err);
	}
	if (!is_good)
		return err_wrap(err, "cloudlycke");
	*ret = TAKE(s);
	return true;
}

void
cl_state_free(struct cl_state *s)
{
	if (!s)
		return;
	cl_state_clear(s);
	cl_targets_unref(s->no_targets);
	buf_fini(&s->routes);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	cond_destroy(&s->written);
	mutex_destroy(&s->mu);
	arena_fini(&s->arena);
	free(s);
}

/* ---- writing the file ---- */

/* All records and routes as they are after the changes that are in progress. */
static void
add_document(struct buf *b, const struct cl_state *s)
{
	struct str routes = s->next_routes.ptr ? s->next_routes : buf_str(&s->routes);
	struct cl_record **all;
	size_t n;

	all = cl_state_sorted(s, /*is_next=*/true, &n);
	buf_addf(b, "{\"version\":%d,\"loadBalancers\":{", VERSION);
	for (size_t i = 0; i < n; i++) {
		const struct cl_record_values *r = &all[i]->values;

		buf_add_c(b, i > 0 ? ",\n" : "\n");
		json_add_str(b, r->name);
		buf_add_c(b, ":{");
		json_add_members(b, JSON_TEXT("namespace", r->allocation.namespace),
		                 JSON_TEXT("name", r->allocation.service),
		                 JSON_TEXT("uid", r->allocation.uid));
		cl_addresses_json(b, &r->allocation.addresses);
		if (r->hook.generation > 0) {
			json_add_number(b, "generation", r->hook.generation);
			json_add_object(b, "hook", JSON_NUMBER("generation", r->hook.done),
			                JSON_NUMBER("input", r->hook.input),
			                JSON_TEXT("error", r->hook.error));
		}
		json_end_object(b);
	}
	buf_add_c(b, "},\n\"routes\":");
	buf_add_str(b, routes.len > 0 ? routes : STR("{}"));
	buf_add_c(b, "}\n");
	cl_records_free(all, n);
}

/* The present file is kept as a backup: a second link to it is renamed over the former backup. On
 * file systems without hard links no backup is made. */
static bool
replace_file(struct cl_state *s, const struct buf *text, struct error *err)
{
	CLEANUP(buf_fini) struct buf link_path = BUF_INIT(KIB(8));
	bool is_done = false;

	/* Another leader may have the file already; its lock ends with the process, not with the
	 * lease. */
	if (!fence_check(s->host->fence, s->host->clock, err))
		return false;
	buf_addf(&link_path, "%s.new", s->backup);
	if (s->has_file)
		(void)unlink(link_path.ptr);
	if (s->has_file &&
	    (link(s->path, link_path.ptr) != 0 || rename(link_path.ptr, s->backup) != 0)) {
		log_debug("no backup of the state file, ignoring", LOG_CSTR("file", s->backup));
		(void)unlink(link_path.ptr);
	}
	if (buf_ok(text))
		is_done = file_replace(s->path, buf_str(text), 0600, err);
	else
		err_set(err, ERR_INTERNAL, "more than %zu bytes", LIMIT_STATE_FILE);
	if (!is_done)
		return err_wrap(err, "cannot write state file %s", s->quoted);
	s->has_file = true;
	return true;
}

/* ---- changes ---- */

/* Returns when the file has the caller's change, which is in memory as one in progress. The first
 * caller writes the changes of all. Callers that arrive meanwhile wait, and then one of them
 * writes. If a write fails, that is the writer's failure: it undoes its change before it releases
 * the lock, and the others try again without it.
 *
 * The document is made under the lock, and the lock is released while it is written: an fsync may
 * take long, and readers need not wait for it. */
bool
cl_state_commit(struct cl_state *s, struct error *err)
{
	uint64_t number = ++s->n_begun;
	bool is_done = true;

	s->n_changing++;
	while (is_done && s->n_written < number) {
		CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_STATE_FILE);
		uint64_t n_begun = s->n_begun;

		if (s->is_writing) {
			clock_wait(s->host->clock, &s->written, &s->mu, CLOCK_FOREVER);
			continue;
		}
		if (s->path && !s->is_newer) {
			add_document(&text, s);
			s->is_writing = true;
			mutex_unlock(&s->mu);
			is_done = replace_file(s, &text, err);
			mutex_lock(&s->mu);
			s->is_writing = false;
			cond_broadcast(&s->written);
		}
		if (is_done)
			s->n_written = n_begun;
	}
	s->n_changing--;
	return is_done;
}

/* Does the file say the same of both? */
static bool
is_written_alike(const struct cl_record *a, const struct cl_record *b)
{
	return a && b &&
	       cl_addresses_eq(&a->values.allocation.addresses, &b->values.allocation.addresses) &&
	       a->values.hook.generation == b->values.hook.generation &&
	       a->values.hook.done == b->values.hook.done &&
	       a->values.hook.input == b->values.hook.input &&
	       str_eq(a->values.hook.error, b->values.hook.error);
}

static bool
commit_change(struct cl_state *s, struct str uid, struct cl_record *record, struct error *err)
{
	struct cl_change change = { .uid = uid, .next = record, .older = s->changes };
	struct cl_change **at = &s->changes;
	bool is_done;

	s->changes = &change;
	is_done = cl_state_commit(s, err);
	while (*at != &change)
		at = &(*at)->older;
	*at = change.older;
	return is_done;
}

static bool
frees_address(const struct cl_record *goes, const struct cl_record *stays)
{
	for (size_t i = 0; goes && i < goes->values.allocation.addresses.n; i++) {
		const struct ip *ip = &goes->values.allocation.addresses.items[i];

		if (!stays || !cl_addresses_have(&stays->values.allocation.addresses, ip))
			return true;
	}
	return false;
}

bool
cl_state_change(struct cl_state *s, struct str uid, struct cl_record *record, struct error *err)
{
	const struct cl_record *stays = map_get(&s->records, uid); /* until `record` is written */
	CLEANUP(cl_record_unrefp) struct cl_record *goes = record;
	bool is_done;

	assert(!find_change(s, uid));
	is_done = is_written_alike(stays, record) || commit_change(s, uid, record, err);
	if (is_done) {
		goes = replace_record(s, uid, record);
		stays = record;
		if (!record || !goes || record->values.input != goes->values.input)
			s->version++;
	}
	/* Services that were refused an address may have it now. */
	if (s->has_waiting && frees_address(goes, stays)) {
		s->has_waiting = false;
		s->host->requeue(s->host, HOST_REQUEUE_SERVICES, STR_EMPTY);
	}
	return is_done;
}

/* ---- routes ---- */

void
cl_state_routes(struct cl_state *s, struct buf *b)
{
	WITH_LOCK(&s->mu);

	buf_add_str(b, buf_str(&s->routes));
}

bool
cl_state_write_routes(struct cl_state *s, struct str routes, struct error *err)
{
	bool is_done;
	WITH_LOCK(&s->mu);

	assert(!s->next_routes.ptr);
	s->next_routes = routes;
	is_done = cl_state_commit(s, err);
	if (is_done) {
		buf_reset(&s->routes);
		buf_add_str(&s->routes, routes);
	}
	s->next_routes.ptr = NULL;
	return is_done;
}
