/* loader.c: see loader.h.
 *
 * Another program may write the file while it is read. A read counts only when the file had the
 * same stamp (inode, size, time of change) before and after it. At the start the file must also
 * have been quiet for 50 ms; later, the watcher waits for that.
 *
 * A reload reads, parses, compares with the inventory in effect, and publishes; only then does it
 * log and requeue, so that the requeued work finds the new inventory. A text that is not admitted
 * changes only `outcome`: lookups then know that the inventory in effect is not what the file has.
 */
#include "providers/cloudlycke/loader.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/event_kind.h"
#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/buf.h"
#include "base/thread.h"

EVENT_KIND(
	rejected_event, "cloud-controller-manager", "InventoryReloadRejected", true,
	"Pod or Namespace kube-system",
	"cloudlycke: the changed inventory file has errors; the inventory loaded before stays in effect.");
EVENT_KIND(
	refused_event, "cloud-controller-manager", "InventoryReloadRefused", true,
	"Pod or Namespace kube-system",
	"cloudlycke: the changed inventory file would remove too many machines together; the inventory loaded before stays in effect.");

enum {
	MESSAGE_MAX = 32768, /* LIMIT_PROBLEMS problems */
	READ_STEP = 65536,
	TEXT_MAX = LIMIT_INVENTORY_FILE + READ_STEP,
};

/* At the first load only the file's own time shows when it was changed last. A file that is younger
 * than first_quiet_ns may still be written: its first part is often valid YAML, with fewer
 * machines. */
static const int64_t first_quiet_ns = 50 * NS_PER_MS;
static const int64_t first_patience_ns = 5 * NS_PER_SEC;

struct cl_loader {
	struct arena arena; /* of the following two */
	const char *path, *quoted;
	const struct cloud_host *host; /* from the second load on */

	pthread_mutex_t mu;
	pthread_cond_t was_read;
	struct cl_inventory *inventory; /* mu; the one in effect */
	struct cl_stamp stamp;          /* mu; of the file when it was read last */
	enum cl_outcome outcome;        /* mu; of that read */

	/* used by the loading thread only */
	uint64_t digest;              /* of the text read last */
	enum cl_outcome text_outcome; /* of that text */
	bool was_unreadable;
};

/* ---- metrics ---- */

METRIC_FAMILY(reloads, METRIC_COUNTER, "cloudlycke_inventory_reloads_total",
              "[ALPHA] Changes of the inventory file, by result.", .labels = { "result" });
METRIC_FAMILY(generation, METRIC_GAUGE, "cloudlycke_inventory_generation",
              "[ALPHA] Inventories loaded since the start.");

/* ---- the file ---- */

static struct cl_stamp
stamp_from(const struct stat *st)
{
	return (struct cl_stamp){
		.exists = true,
		.device = st->st_dev,
		.inode = st->st_ino,
		.size = st->st_size,
		.mtime_ns = st->st_mtim.tv_sec * NS_PER_SEC + st->st_mtim.tv_nsec,
	};
}

struct cl_stamp
cl_stamp_of(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return (struct cl_stamp){ 0 };
	return stamp_from(&st);
}

bool
cl_stamp_eq(const struct cl_stamp *a, const struct cl_stamp *b)
{
	return a->exists == b->exists && a->device == b->device && a->inode == b->inode &&
	       a->size == b->size && a->mtime_ns == b->mtime_ns;
}

/* Only regular files: a FIFO would block, a device might never end. O_NONBLOCK keeps open() itself
 * from waiting for a FIFO's writer. False with errno. *ret_is_busy: the file was written or
 * replaced while it was read. */
static bool
read_file(const char *path, struct buf *text, struct cl_stamp *ret_stamp, bool *ret_is_busy)
{
	CLEANUP(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct cl_stamp after;
	struct stat st;
	ssize_t n = 1;

	if (fd < 0 || fstat(fd, &st) != 0)
		return false;
	if (!S_ISREG(st.st_mode)) {
		errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
		return false;
	}
	while (n != 0) {
		/* at most TEXT_MAX bytes, the bound of the buffer */
		if (!buf_reserve(text, READ_STEP)) {
			errno = EFBIG;
			return false;
		}
		n = read(fd, text->ptr + text->len, READ_STEP);
		if (n > 0)
			buf_grown(text, (size_t)n);
		else if (n < 0 && errno != EINTR)
			return false;
	}
	*ret_stamp = stamp_from(&st);
	after = cl_stamp_of(path);
	*ret_is_busy = !cl_stamp_eq(ret_stamp, &after);
	return true;
}

/* Has the file been unchanged for first_quiet_ns? A younger one is watched until it is that old; if
 * its time of change is in the future, which proves nothing, for that long. */
static bool
is_quiet(const struct cl_loader *l, struct clock *clock, const struct cl_stamp *stamp)
{
	int64_t age_ns = clock_wall(clock) - stamp->mtime_ns;
	struct error ignored;
	struct cl_stamp now;

	if (age_ns >= first_quiet_ns)
		return true;
	(void)!cancel_sleep(/*cancel=*/NULL, clock, first_quiet_ns - clock_later(age_ns, 0),
	                    &ignored);
	now = cl_stamp_of(l->path);
	return cl_stamp_eq(stamp, &now);
}

static bool
read_quiet_file(const struct cl_loader *l, struct clock *clock, struct buf *text,
                struct cl_stamp *ret_stamp, struct error *err)
{
	int64_t deadline_ns = clock_deadline(clock_mono(clock), first_patience_ns);
	struct error ignored;
	bool is_busy;

	for (;;) {
		buf_reset(text);
		if (!read_file(l->path, text, ret_stamp, &is_busy))
			return err_errno(err, errno, "cloudlycke: cannot read inventory %s",
			                 l->quoted);
		if (!is_busy && is_quiet(l, clock, ret_stamp))
			return true;
		if (clock_mono(clock) >= deadline_ns)
			return err_set(err, ERR_UNAVAILABLE,
			               "cloudlycke: inventory %s is still being written after %d s",
			               l->quoted, (int)(first_patience_ns / NS_PER_SEC));
		if (is_busy)
			(void)!cancel_sleep(/*cancel=*/NULL, clock, first_quiet_ns, &ignored);
	}
}

/* ---- life cycle ---- */

struct cl_loader *
cl_loader_new(const char *path)
{
	struct cl_loader *l = xcalloc(1, sizeof(*l));

	/* all series exist from the start, with 0 */
	(void)metric_of(&reloads, "ok");
	(void)metric_of(&reloads, "rejected");
	(void)metric_of(&reloads, "refused");
	l->path = arena_strz(&l->arena, str_c(path));
	l->quoted = quote_z(&l->arena, str_c(path));
	mutex_init(&l->mu);
	cond_init(&l->was_read);
	return l;
}

void
cl_loader_free(struct cl_loader *l)
{
	if (!l)
		return;
	cl_inventory_unref(l->inventory);
	cond_destroy(&l->was_read);
	mutex_destroy(&l->mu);
	arena_fini(&l->arena);
	free(l);
}

const char *
cl_loader_path(const struct cl_loader *l)
{
	return l->path;
}

/* Sets the outcome and wakes waiting callers. inventory NULL: the present one stays. */
static void
publish_load(struct cl_loader *l, struct cl_inventory *inventory, const struct cl_stamp *stamp,
             enum cl_outcome outcome)
{
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *before = NULL;

	WITH_LOCK(&l->mu);
	if (inventory) {
		before = l->inventory;
		l->inventory = inventory;
		metric_add(metric_of(&generation), 1);
	}
	l->stamp = *stamp;
	l->outcome = outcome;
	cond_broadcast(&l->was_read);
}

/* ---- the first load ---- */

bool
cl_loader_open(struct cl_loader *l, struct clock *clock, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(TEXT_MAX);
	CLEANUP(cl_problems_fini) struct cl_problems problems = CL_PROBLEMS_INIT(l->path);
	CLEANUP(buf_fini) struct buf first = BUF_INIT(ERR_MSG_SIZE);
	struct cl_inventory *inventory;
	struct cl_stamp stamp;

	if (!read_quiet_file(l, clock, &text, &stamp, err))
		return false;
	inventory = cl_inventory_parse(buf_str(&text), &problems);
	if (!inventory) {
		/* The log gets all problems: the error has room for one. */
		for (size_t i = 0; problems.n > 1 && i < problems.n_kept; i++)
			log_error("problem in the inventory",
			          LOG_CSTR("problem", problems.kept[i].text));
		cl_problems_text(&problems, 1, &first);
		return err_set(err, ERR_INVALID, "cloudlycke: %s", first.ptr);
	}
	l->digest = str_hash(buf_str(&text));
	l->text_outcome = CL_ACCEPTED;
	publish_load(l, inventory, &stamp, CL_ACCEPTED);
	return true;
}

void
cl_loader_set_host(struct cl_loader *l, const struct cloud_host *host)
{
	l->host = host;
}

/* ---- what a changed file changes ----
 *
 * Machines are compared by id: one that is renamed has changed, one with another id is another
 * machine. A terminated machine counts as one that is not listed. */

static bool
strings_eq(const struct str_list *a, const struct str_list *b)
{
	bool is_eq = a->n == b->n;

	for (size_t i = 0; is_eq && i < a->n; i++)
		is_eq = str_eq(a->items[i], b->items[i]);
	return is_eq;
}

static bool
addresses_eq(const struct cl_machine *a, const struct cl_machine *b)
{
	bool is_eq = a->n_addresses == b->n_addresses;

	for (size_t i = 0; is_eq && i < a->n_addresses; i++)
		is_eq = address_eq(&a->addresses[i], &b->addresses[i]);
	return is_eq;
}

static bool
labels_eq(const struct cl_machine *a, const struct cl_machine *b)
{
	bool is_eq = a->n_labels == b->n_labels;

	for (size_t i = 0; is_eq && i < a->n_labels; i++)
		is_eq = str_eq(a->labels[i].key, b->labels[i].key) &&
		        str_eq(a->labels[i].value, b->labels[i].value);
	return is_eq;
}

static bool
machine_eq(const struct cl_machine *a, const struct cl_machine *b)
{
	return str_eq(a->name, b->name) && str_eq(a->type, b->type) && str_eq(a->zone, b->zone) &&
	       str_eq(a->region, b->region) && str_eq(a->fault, b->fault) && a->power == b->power &&
	       strings_eq(&a->aliases, &b->aliases) && addresses_eq(a, b) && labels_eq(a, b);
}

void
cl_compare(const struct cl_inventory *before, const struct cl_inventory *after,
           struct cl_changes *ret)
{
	*ret = (struct cl_changes){ 0 };
	for (size_t i = 0; i < before->schema.n_machines; i++) {
		const struct cl_machine *old = &before->schema.machines[i];
		const struct cl_machine *new = map_get(&after->names.by_id, old->id);

		ret->n_before += cl_machine_is_there(old);
		if (cl_machine_is_there(old) && !cl_machine_is_there(new))
			ret->n_removed++;
		else if (cl_machine_is_there(old) && !machine_eq(old, new))
			ret->n_changed++;
	}
	for (size_t i = 0; i < after->schema.n_machines; i++) {
		const struct cl_machine *new = &after->schema.machines[i];

		ret->n_added += cl_machine_is_there(new) &&
		                !cl_machine_is_there(map_get(&before->names.by_id, new->id));
	}
}

bool
cl_guard(const struct cl_inventory *before, const struct cl_inventory *after,
         const struct cl_changes *changes, struct buf *why)
{
	int64_t limit = after->schema.reload.max_removal_percent;
	bool has_lost_end = (before->ends_with_line && !after->ends_with_line) ||
	                    (before->ends_with_mark && !after->ends_with_mark);

	if (changes->n_removed >= 2 && changes->n_removed * 100 > (size_t)limit * changes->n_before)
		buf_addf(
			why,
			"would remove %zu of %zu machines (limit %d%%); set reload.maxRemoval to allow",
			changes->n_removed, changes->n_before, (int)limit);
	else if (changes->n_removed > 0 && has_lost_end)
		buf_addf(
			why,
			"would remove %zu of %zu machines, and the file seems cut short: it does not end with %s any more",
			changes->n_removed, changes->n_before,
			after->ends_with_line || !before->ends_with_line ? "\"...\""
									 : "a line break");
	else
		return true;
	return false;
}

static bool
blocks_eq(const struct cl_blocks *a, const struct cl_blocks *b)
{
	bool is_eq = a->n == b->n;

	for (size_t i = 0; is_eq && i < a->n; i++)
		is_eq = ip_eq(&a->items[i].first, &b->items[i].first) &&
		        ip_eq(&a->items[i].last, &b->items[i].last) &&
		        a->items[i].has_edges == b->items[i].has_edges;
	return is_eq;
}

static bool
pools_eq(const struct cl_schema *a, const struct cl_schema *b)
{
	if (a->n_pools != b->n_pools)
		return false;
	for (size_t i = 0; i < a->n_pools; i++) {
		const struct cl_pool *x = &a->pools[i], *y = &b->pools[i];

		if (!str_eq(x->name, y->name) || !blocks_eq(&x->addresses, &y->addresses) ||
		    !blocks_eq(&x->avoid, &y->avoid) || x->avoids_edges != y->avoids_edges ||
		    x->is_default != y->is_default || !strings_eq(&x->namespaces, &y->namespaces) ||
		    !str_eq(x->hostname_template, y->hostname_template) || x->ip_mode != y->ip_mode)
			return false;
	}
	return true;
}

static bool
haproxy_eq(const struct cl_haproxy_config *a, const struct cl_haproxy_config *b)
{
	return a->is_present == b->is_present && str_eq(a->file, b->file) &&
	       str_eq(a->stats_socket, b->stats_socket) && strings_eq(&a->check, &b->check) &&
	       strings_eq(&a->reload, &b->reload);
}

void
cl_changes_at_restart(const struct cl_schema *before, const struct cl_schema *after, struct buf *b)
{
	const struct cl_reload *reload = &before->reload, *new_reload = &after->reload;
	const struct cl_balancers *lbs = &before->balancers, *new_lbs = &after->balancers;
	const struct cl_routes *routes = &before->routes, *new_routes = &after->routes;
	const struct {
		const char *name;
		bool differs;
	} fields[] = {
		{ "state.file", !str_eq(before->state.file, after->state.file) },
		{ "reload.enabled", reload->is_enabled != new_reload->is_enabled },
		{ "reload.debounce", reload->debounce_ns != new_reload->debounce_ns },
		{ "reload.poll", reload->poll_ns != new_reload->poll_ns },
		{ "loadBalancers", lbs->is_present != new_lbs->is_present },
		{ "loadBalancers.hook", !str_eq(lbs->hook, new_lbs->hook) },
		{ "loadBalancers.hookTimeout", lbs->hook_timeout_ns != new_lbs->hook_timeout_ns },
		{ "loadBalancers.localOnly", lbs->is_local_only != new_lbs->is_local_only },
		{ "loadBalancers.haproxy", !haproxy_eq(&lbs->haproxy, &new_lbs->haproxy) },
		{ "routes", routes->is_present != new_routes->is_present },
		{ "routes.hook", !str_eq(routes->hook, new_routes->hook) },
		{ "routes.hookTimeout", routes->hook_timeout_ns != new_routes->hook_timeout_ns },
	};

	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		if (fields[i].differs)
			buf_addf(b, "%s%s", b->len > 0 ? "," : "", fields[i].name);
	}
}

/* ---- later loads ---- */

static void
report_accepted(const struct cl_inventory *before, const struct cl_inventory *after,
                const struct cl_changes *changes)
{
	CLEANUP(buf_fini) struct buf fields = BUF_INIT(KIB(1)), message = BUF_INIT(KIB(1));

	metric_inc(metric_of(&reloads, "ok"));
	log_info("inventory reloaded", LOG_I64("machines", (int64_t)after->schema.n_machines),
	         LOG_I64("added", (int64_t)changes->n_added),
	         LOG_I64("removed", (int64_t)changes->n_removed),
	         LOG_I64("changed", (int64_t)changes->n_changed));
	cl_changes_at_restart(&before->schema, &after->schema, &fields);
	for (struct str field, rest = buf_str(&fields);
	     rest.len > 0 && str_split(&rest, ',', &field);) {
		buf_reset(&message);
		buf_addf(&message, "change of %" STR_FMT " takes effect after a restart",
		         STR_ARG(field));
		log_warn(message.ptr);
	}
}

static void
send_warning(struct cl_loader *l, const struct event_kind *event, const struct buf *message)
{
	l->host->event(l->host, /*ref=*/NULL, HOST_EVENT_WARNING, event->reason, buf_str(message));
}

/* Only the loading thread replaces the inventory, so the present one needs no lock here. */
static enum cl_outcome
check_text(struct cl_loader *l, struct str text, struct cl_inventory **ret,
           struct cl_changes *ret_changes)
{
	CLEANUP(cl_problems_fini) struct cl_problems problems = CL_PROBLEMS_INIT(l->path);
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;
	CLEANUP(buf_fini) struct buf why = BUF_INIT(MESSAGE_MAX);

	inventory = cl_inventory_parse(text, &problems);
	if (!inventory) {
		metric_inc(metric_of(&reloads, "rejected"));
		buf_add_c(&why, "inventory reload rejected: ");
		cl_problems_text(&problems, LIMIT_PROBLEMS, &why);
		log_error(why.ptr);
		send_warning(l, &rejected_event, &why);
		return CL_REJECTED;
	}
	cl_compare(l->inventory, inventory, ret_changes);
	buf_add_c(&why, "inventory reload refused: ");
	if (!cl_guard(l->inventory, inventory, ret_changes, &why)) {
		metric_inc(metric_of(&reloads, "refused"));
		log_warn(why.ptr);
		send_warning(l, &refused_event, &why);
		return CL_REFUSED;
	}
	*ret = TAKE(inventory);
	return CL_ACCEPTED;
}

/* Takes the inventory, and replaces the present one before changes are logged or requeued, so that
 * the work that follows finds the new one. */
static void
accept_inventory(struct cl_loader *l, struct cl_inventory *after, const struct cl_stamp *stamp,
                 const struct cl_changes *changes)
{
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *before = cl_inventory_ref(l->inventory);

	publish_load(l, after, stamp, CL_ACCEPTED);
	report_accepted(before, after, changes);
	l->host->requeue(l->host, HOST_REQUEUE_NODES, STR_EMPTY);
	if (after->schema.routes.is_present)
		l->host->requeue(l->host, HOST_REQUEUE_ROUTES, STR_EMPTY);
	if (!pools_eq(&before->schema, &after->schema))
		l->host->requeue(l->host, HOST_REQUEUE_SERVICES, STR_EMPTY);
}

static enum cl_outcome
load_text(struct cl_loader *l, struct str text, const struct cl_stamp *stamp)
{
	struct cl_inventory *inventory;
	struct cl_changes changes;

	l->digest = str_hash(text);
	l->text_outcome = check_text(l, text, &inventory, &changes);
	if (l->text_outcome == CL_ACCEPTED)
		accept_inventory(l, inventory, stamp, &changes);
	else
		publish_load(l, NULL, stamp, l->text_outcome);
	return l->text_outcome;
}

enum cl_outcome
cl_loader_reload(struct cl_loader *l, bool is_forced)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(TEXT_MAX);
	struct cl_stamp stamp;
	struct error err;
	bool is_busy;

	if (!read_file(l->path, &text, &stamp, &is_busy)) {
		err_errno(&err, errno, "cannot read inventory %s", l->quoted);
		if (is_forced || !l->was_unreadable)
			log_error("the inventory cannot be read, keeping the one loaded before",
			          LOG_ERR(&err));
		l->was_unreadable = true;
		stamp = cl_stamp_of(l->path);
		publish_load(l, NULL, &stamp, CL_UNREADABLE);
		return CL_UNREADABLE;
	}
	if (is_busy)
		return CL_BUSY;
	if (l->was_unreadable)
		log_info("the inventory can be read again");
	l->was_unreadable = false;
	if (is_forced || str_hash(buf_str(&text)) != l->digest)
		return load_text(l, buf_str(&text), &stamp);
	publish_load(l, NULL, &stamp, l->text_outcome);
	return CL_UNCHANGED;
}

/* ---- lookups ---- */

struct cl_inventory *
cl_loader_inventory(struct cl_loader *l, bool *ret_is_current)
{
	WITH_LOCK(&l->mu);
	if (ret_is_current)
		*ret_is_current = l->outcome == CL_ACCEPTED;
	return cl_inventory_ref(l->inventory);
}

bool
cl_loader_has_changed(struct cl_loader *l)
{
	struct cl_stamp now = cl_stamp_of(l->path);

	WITH_LOCK(&l->mu);
	return !cl_stamp_eq(&now, &l->stamp);
}

bool
cl_loader_wait(struct cl_loader *l, struct call *call, int64_t deadline_mono_ns)
{
	WITH_WAKE(call->cancel, &l->mu, &l->was_read);
	WITH_LOCK(&l->mu);

	for (;;) {
		struct cl_stamp now = cl_stamp_of(l->path);

		if (cl_stamp_eq(&now, &l->stamp))
			return true;
		if (cancel_is_fired(call->cancel) ||
		    !clock_wait(call->clock, &l->was_read, &l->mu, deadline_mono_ns))
			return false;
	}
}
