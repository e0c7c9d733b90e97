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
#include "base/event_kind.h"
#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/thread.h"

EVENT_KIND(
	newer_event, "cloud-controller-manager", "StateFileIsNewer", true,
	"Pod or Namespace kube-system",
	"cloudlycke: the state file was written by a newer version; it is left unchanged and not read, so all hooks are run again.");

enum {
	VERSION = 1,
};

/* One Service. */
struct entry {
	char *uid;
	struct cl_record *written; /* NULL: not in the file */
	struct cl_record *next;    /* while is_changing: its replacement; NULL: removed */
	bool is_changing;
};

/* A change, whose caller waits until it is over. By then it is in no list. */
struct cl_change {
	SLIST_ENTRY(cl_change) link;
	struct entry *entry; /* NULL: no balancer's */
	bool has_routes;     /* next_routes, too */
	bool is_over, is_done;
	struct error err; /* when is_over and not is_done */
};

/* ---- records ---- */

struct cl_record *
cl_state_get(const struct cl_state *s, struct str uid)
{
	const struct entry *e = map_get(&s->entries, uid);

	return e ? e->written : NULL;
}

const struct cl_record **
cl_state_all(const struct cl_state *s, size_t *ret_n)
{
	const struct cl_record **all = xcalloc(2 * s->entries.count + 1, sizeof(*all));
	struct str key;
	void *value;
	size_t n = 0;

	for (size_t pos = 0; map_next(&s->entries, &pos, &key, &value);) {
		const struct entry *e = value;

		if (e->written)
			all[n++] = e->written;
		if (e->is_changing && e->next)
			all[n++] = e->next;
	}
	*ret_n = n;
	return all;
}

/* is_next: the records as they are after the changes that are in progress. */
static struct cl_record **
list_records(const struct cl_state *s, bool is_next, size_t *ret_n)
{
	struct cl_record **all = xcalloc(s->entries.count + 1, sizeof(*all));
	struct str key;
	void *value;
	size_t n = 0;

	for (size_t pos = 0; map_next(&s->entries, &pos, &key, &value);) {
		const struct entry *e = value;
		struct cl_record *record = is_next && e->is_changing ? e->next : e->written;

		if (record)
			all[n++] = cl_record_ref(record);
	}
	cl_records_sort(all, n);
	*ret_n = n;
	return all;
}

struct cl_record **
cl_state_list(const struct cl_state *s, size_t *ret_n)
{
	return list_records(s, /*is_next=*/false, ret_n);
}

bool
cl_state_is_busy(const struct cl_state *s)
{
	return s->is_writing || !SLIST_EMPTY(&s->waiting);
}

static struct entry *
make_entry(struct cl_state *s, struct str uid)
{
	struct entry *e = map_get(&s->entries, uid);

	if (!e) {
		e = xcalloc(1, sizeof(*e));
		e->uid = xstrndup(uid.ptr, uid.len);
		map_put(&s->entries, str_c(e->uid), e);
	}
	return e;
}

static void
free_entry(struct entry *e)
{
	cl_record_unref(e->written);
	free(e->uid);
	free(e);
}

void
cl_state_set(struct cl_state *s, struct cl_record *record)
{
	struct entry *e = make_entry(s, record->holding.uid);

	cl_record_unref(e->written);
	e->written = record;
	s->version++;
}

void
cl_state_clear(struct cl_state *s)
{
	struct str key;
	void *entry;

	for (size_t pos = 0; map_next(&s->entries, &pos, &key, &entry);)
		free_entry(entry);
	map_fini(&s->entries);
	s->entries = MAP_INIT;
	s->version++;
}

/* ---- reading the file ---- */

static bool
read_text(yyjson_val *obj, const char *field, struct str *ret, const char **ret_damaged)
{
	*ret = STR_EMPTY;
	if (json_str(obj, field, ret) != JSON_MISTYPED)
		return true;
	*ret_damaged = field;
	return false;
}

static bool
read_number(yyjson_val *obj, const char *field, int64_t *ret, const char **ret_damaged)
{
	*ret = 0;
	if (json_i64(obj, field, ret) != JSON_MISTYPED && *ret >= 0)
		return true;
	*ret_damaged = field;
	return false;
}

static bool
read_addresses(yyjson_val *obj, struct cl_holding *h, const char **ret_damaged)
{
	yyjson_val *list = NULL, *item;
	yyjson_arr_iter iter;
	bool is_good = json_array(obj, "addresses", &list) != JSON_MISTYPED;

	iter = yyjson_arr_iter_with(list);
	while (is_good && (item = yyjson_arr_iter_next(&iter)))
		is_good = h->n_addresses < CL_FAMILIES && yyjson_is_str(item) &&
		          ip_parse(json_text(item), &h->addresses[h->n_addresses++]);
	if (!is_good)
		*ret_damaged = "addresses";
	return is_good;
}

/* Files of older versions of ccmd have more fields, which are ignored, and no "hook.input": the
 * hook is run once more, because no input has the hash 0. */
static bool
read_entry(struct cl_state *s, struct str name, yyjson_val *obj, const char **ret_damaged)
{
	struct cl_record draft = { .name = name, .targets = s->no_targets };
	struct cl_holding *h = &draft.holding;
	struct cl_progress *hook = &draft.hook;

	if (!read_text(obj, "uid", &h->uid, ret_damaged) ||
	    !read_text(obj, "namespace", &h->namespace, ret_damaged) ||
	    !read_text(obj, "name", &h->service, ret_damaged) ||
	    !read_addresses(obj, h, ret_damaged) ||
	    !read_number(obj, "generation", &hook->generation, ret_damaged) ||
	    !read_number(obj, "hook.generation", &hook->done, ret_damaged) ||
	    !read_number(obj, "hook.input", &hook->input, ret_damaged) ||
	    !read_text(obj, "hook.error", &hook->error, ret_damaged))
		return false;
	if (h->uid.len == 0) {
		*ret_damaged = "uid";
		return false;
	}
	cl_state_set(s, cl_record_new(&draft));
	return true;
}

static bool
read_entries(struct cl_state *s, yyjson_val *root, const char **ret_damaged)
{
	yyjson_val *all = NULL, *key;
	yyjson_obj_iter iter;

	*ret_damaged = "loadBalancers";
	if (json_object(root, "loadBalancers", &all) == JSON_MISTYPED)
		return false;
	iter = yyjson_obj_iter_with(all);
	while ((key = yyjson_obj_iter_next(&iter))) {
		if (!read_entry(s, json_text(key), yyjson_obj_iter_get_val(key), ret_damaged))
			return false;
	}
	return true;
}

static bool
fail_damaged(const struct cl_state *s, const char *why, struct error *err)
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

static bool
read_document(struct cl_state *s, yyjson_val *root, struct error *err)
{
	yyjson_val *routes = NULL;
	const char *damaged;
	int64_t version = 0;

	if (!yyjson_is_obj(root) || json_i64(root, "version", &version) != JSON_FOUND ||
	    version < VERSION)
		return fail_damaged(s, "unknown version", err);
	if (version > VERSION) {
		report_newer(s, version);
		return true;
	}
	if (!read_entries(s, root, &damaged))
		return fail_damaged(s, damaged, err);
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
	if (!file_read(s->path, &text, &problem))
		return problem.code == ERR_NOT_FOUND || fail_damaged(s, problem.msg, err);
	if (!json_parse(buf_str(&text), &doc, &problem))
		return fail_damaged(s, problem.msg, err);
	s->has_file = true;
	return read_document(s, yyjson_doc_get_root(doc), err);
}

/* ---- life cycle ---- */

/* The lock is on a file of its own, because the state file is replaced: a lock on it would be on
 * the former content. The kernel releases it when the process ends, however that happens. Called
 * with `mu` held. */
static bool
lock_file(struct cl_state *s, struct error *err)
{
	CLEANUP(arena_fini) struct arena scratch = ARENA_INIT;
	int fd, problem;

	if (!s->path || s->is_read_only || s->lock_fd >= 0)
		return true;
	fd = open(s->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
		s->lock_fd = fd;
		return true;
	}
	problem = errno;
	if (fd >= 0)
		close(fd);
	if (fd >= 0 && problem == EWOULDBLOCK)
		return err_set(err, ERR_CONFLICT, "state file %s is locked by another process",
		               quote_z(&scratch, str_c(s->path)));
	return err_errno(err, problem, "cannot lock state file %s",
	                 quote_z(&scratch, str_c(s->path)));
}

bool
cl_state_take(struct cl_state *s, struct error *err)
{
	WITH_LOCK(&s->mu);

	s->is_taken = s->is_taken || (lock_file(s, err) && read_file(s, err));
	return s->is_taken;
}

/* A standby only checks whether the file is valid, because only the leader may use it. */
static bool
check_file(struct cl_state *s, struct error *err)
{
	WITH_LOCK(&s->mu);

	return read_file(s, err);
}

static char *
with_suffix(struct str path, const char *suffix)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(8));

	buf_add_str(&b, path);
	buf_add_c(&b, suffix);
	return buf_take(&b);
}

bool
cl_state_open(struct str path, enum cl_state_use use, const struct cloud_host *host,
              struct cl_state **ret, struct error *err)
{
	CLEANUP(cl_state_freep) struct cl_state *s = xcalloc(1, sizeof(*s));

	s->host = host;
	s->is_read_only = use == CL_STATE_READ_ONLY;
	s->no_targets = cl_targets_new(NULL, 0);
	s->lock_fd = -1;
	s->routes = BUF_INIT(LIMIT_STATE_FILE);
	mutex_init(&s->mu);
	cond_init(&s->written);
	if (path.len > 0) {
		s->path = xstrndup(path.ptr, path.len);
		s->backup = with_suffix(path, ".bak");
		s->lock_path = with_suffix(path, ".lock");
	} else {
		log_warn(
			"cloudlycke: no state.file is configured: routes, and what hooks were run for, "
			"are forgotten at a restart");
	}
	if (use == CL_STATE_NOW ? !cl_state_take(s, err) : !check_file(s, err))
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
	free(s->path);
	free(s->backup);
	free(s->lock_path);
	free(s);
}

/* ---- writing the file ---- */

static void
add_entry(struct buf *b, const struct cl_record *r)
{
	json_add_str(b, r->name);
	buf_add_c(b, ":{");
	json_add_text(b, "namespace", r->holding.namespace);
	json_add_text(b, "name", r->holding.service);
	json_add_text(b, "uid", r->holding.uid);
	cl_addresses_json(b, r->holding.addresses, r->holding.n_addresses);
	if (r->hook.generation > 0) {
		json_add_number(b, "generation", r->hook.generation);
		json_begin_object(b, "hook");
		json_add_number(b, "generation", r->hook.done);
		json_add_number(b, "input", r->hook.input);
		json_add_text(b, "error", r->hook.error);
		json_end_object(b);
	}
	json_end_object(b);
}

/* All records and routes as they are after the changes that are in progress. */
static void
add_document(struct buf *b, const struct cl_state *s)
{
	struct str routes = s->next_routes.ptr ? s->next_routes : buf_str(&s->routes);
	struct cl_record **all;
	size_t n;

	all = list_records(s, /*is_next=*/true, &n);
	buf_addf(b, "{\"version\":%d,\"loadBalancers\":{", VERSION);
	for (size_t i = 0; i < n; i++) {
		buf_add_c(b, i > 0 ? ",\n" : "\n");
		add_entry(b, all[i]);
	}
	buf_add_c(b, "},\n\"routes\":");
	buf_add_str(b, routes.len > 0 ? routes : STR("{}"));
	buf_add_c(b, "}\n");
	cl_records_free(all, n);
}

/* Makes a second link to the present file and renames it over the former backup. On file systems
 * without hard links no backup is made. */
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
replace_file(struct cl_state *s, const struct buf *text, struct error *err)
{
	CLEANUP(arena_fini) struct arena scratch = ARENA_INIT;
	bool is_done;

	/* Another leader may have the file already; its lock ends with the process, not with the
	 * lease. */
	if (!fence_check(s->host->fence, s->host->clock, err))
		return false;
	keep_backup(s);
	is_done = buf_ok(text)
	                  ? file_replace(s->path, buf_str(text), 0600, err)
	                  : err_set(err, ERR_INTERNAL, "more than %zu bytes", LIMIT_STATE_FILE);
	if (!is_done)
		return err_wrap(err, "cannot write state file %s",
		                quote_z(&scratch, str_c(s->path)));
	s->has_file = true;
	return true;
}

/* Writes what memory will have after the changes that are in progress. Called with the lock held.
 * The document is made under the lock, and the lock is released while it is written: an fsync may
 * take long, and readers need not wait for it. */
static bool
write_file(struct cl_state *s, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_STATE_FILE);
	bool is_done;

	if (!s->path || s->is_newer)
		return true;
	add_document(&text, s);
	s->is_writing = true;
	mutex_unlock(&s->mu);
	is_done = replace_file(s, &text, err);
	mutex_lock(&s->mu);
	s->is_writing = false;
	return is_done;
}

/* ---- changes ---- */

static bool
frees_address(const struct cl_record *goes, const struct cl_record *stays)
{
	for (size_t i = 0; goes && i < goes->holding.n_addresses; i++) {
		if (!stays || !cl_holding_has(&stays->holding, &goes->holding.addresses[i]))
			return true;
	}
	return false;
}

/* The new record stays if it was written, else the old one. */
static void
end_change(struct cl_state *s, struct entry *e, bool is_done)
{
	struct cl_record *stays = is_done ? e->next : e->written,
			 *goes = is_done ? e->written : e->next;

	s->n_freed += frees_address(goes, stays);
	s->version += is_done && (!stays || !goes || stays->input != goes->input);
	e->written = stays;
	e->next = NULL;
	e->is_changing = false;
	cl_record_unref(goes);
	if (!stays) {
		map_remove(&s->entries, str_c(e->uid));
		free_entry(e);
	}
}

static void
end_routes(struct cl_state *s, bool is_done)
{
	if (is_done) {
		buf_reset(&s->routes);
		buf_add_str(&s->routes, s->next_routes);
	}
	s->next_routes.ptr = NULL;
}

/* Writes all changes that wait now, and wakes their callers. The changes are valid until the lock
 * is released: their callers need it to return. */
static void
write_waiting(struct cl_state *s)
{
	struct cl_change *c = SLIST_FIRST(&s->waiting);
	struct error err;
	bool is_done;

	SLIST_INIT(&s->waiting);
	is_done = write_file(s, &err);
	for (; c; c = SLIST_NEXT(c, link)) {
		if (c->entry)
			end_change(s, c->entry, is_done);
		if (c->has_routes)
			end_routes(s, is_done);
		if (!is_done)
			c->err = err;
		c->is_done = is_done;
		c->is_over = true;
	}
	cond_broadcast(&s->written);
}

/* The first caller writes. Callers that arrive meanwhile wait, and then one of them writes the
 * changes of all. entry may be NULL. */
static bool
commit_change(struct cl_state *s, struct entry *entry, bool has_routes, struct error *err)
{
	/* On the heap, because gcc 14 takes the list's pointer to a local variable for a dangling
	 * one: it does not see that write_waiting() empties the list. */
	struct cl_change *c = xcalloc(1, sizeof(*c));
	bool is_done;

	c->entry = entry;
	c->has_routes = has_routes;
	SLIST_INSERT_HEAD(&s->waiting, c, link);
	while (!c->is_over) {
		if (s->is_writing)
			clock_wait(s->host->clock, &s->written, &s->mu, CLOCK_FOREVER);
		else
			write_waiting(s);
	}
	is_done = c->is_done;
	if (!is_done)
		*err = c->err;
	free(c);
	return is_done;
}

/* Does the file say the same of both? */
static bool
is_written_alike(const struct cl_record *a, const struct cl_record *b)
{
	return a && b && cl_holding_addresses_eq(&a->holding, &b->holding) &&
	       a->hook.generation == b->hook.generation && a->hook.done == b->hook.done &&
	       a->hook.input == b->hook.input && str_eq(a->hook.error, b->hook.error);
}

bool
cl_state_change(struct cl_state *s, struct str uid, struct cl_record *record, struct error *err)
{
	struct entry *e = make_entry(s, uid);

	assert(!e->is_changing);
	e->next = record;
	e->is_changing = true;
	if (!is_written_alike(e->written, record))
		return commit_change(s, e, /*has_routes=*/false, err);
	end_change(s, e, /*is_done=*/true);
	return true;
}

bool
cl_state_save(struct cl_state *s, struct error *err)
{
	return s->is_read_only || commit_change(s, /*entry=*/NULL, /*has_routes=*/false, err);
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
	WITH_LOCK(&s->mu);

	assert(!s->next_routes.ptr);
	s->next_routes = routes;
	return commit_change(s, /*entry=*/NULL, /*has_routes=*/true, err);
}
