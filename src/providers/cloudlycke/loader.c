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
#include "base/quote.h"
#include "base/thread.h"
#include "providers/cloudlycke/guard.h"

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
	char *path;
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
 * from waiting for a FIFO's writer. */
static bool
open_regular(const char *path, int *ret, struct stat *ret_st)
{
	CLEANUP(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || fstat(fd, ret_st) != 0)
		return false;
	if (!S_ISREG(ret_st->st_mode)) {
		errno = S_ISDIR(ret_st->st_mode) ? EISDIR : EINVAL;
		return false;
	}
	*ret = fd;
	fd = -1;
	return true;
}

/* At most TEXT_MAX bytes, the bound of the buffer. */
static bool
read_all(int fd, struct buf *text)
{
	ssize_t n = 1;

	while (n != 0) {
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
	return true;
}

/* *ret_is_busy: the file was written or replaced while it was read. */
static bool
read_file(const char *path, struct buf *text, struct cl_stamp *ret_stamp, bool *ret_is_busy)
{
	CLEANUP(fd_close) int fd = -1;
	struct cl_stamp after;
	struct stat st;

	if (!open_regular(path, &fd, &st) || !read_all(fd, text))
		return false;
	*ret_stamp = stamp_from(&st);
	after = cl_stamp_of(path);
	*ret_is_busy = !cl_stamp_eq(ret_stamp, &after);
	return true;
}

static void
sleep_for(struct clock *clock, int64_t duration_ns)
{
	struct error ignored;

	(void)!cancel_sleep(/*cancel=*/NULL, clock, duration_ns, &ignored);
}

/* Has the file been unchanged for first_quiet_ns? A time of change in the future proves nothing:
 * then the file is watched for that long. */
static bool
is_quiet(const char *path, const struct cl_stamp *stamp, struct clock *clock)
{
	int64_t age_ns = clock_wall(clock) - stamp->mtime_ns;
	struct cl_stamp now;

	if (age_ns >= first_quiet_ns)
		return true;
	sleep_for(clock, age_ns > 0 ? first_quiet_ns - age_ns : first_quiet_ns);
	now = cl_stamp_of(path);
	return cl_stamp_eq(stamp, &now);
}

static bool
read_quiet_file(const char *path, struct clock *clock, struct buf *text, struct cl_stamp *ret_stamp,
                struct error *err)
{
	CLEANUP(arena_fini) struct arena scratch = ARENA_INIT;
	int64_t deadline_ns = clock_deadline(clock_mono(clock), first_patience_ns);
	bool is_busy;

	for (;;) {
		buf_reset(text);
		if (!read_file(path, text, ret_stamp, &is_busy))
			return err_errno(err, errno, "cloudlycke: cannot read inventory %s",
			                 quote_z(&scratch, str_c(path)));
		if (!is_busy && is_quiet(path, ret_stamp, clock))
			return true;
		if (clock_mono(clock) >= deadline_ns)
			return err_set(err, ERR_UNAVAILABLE,
			               "cloudlycke: inventory %s is still being written after %d s",
			               quote_z(&scratch, str_c(path)),
			               (int)(first_patience_ns / NS_PER_SEC));
		if (is_busy)
			sleep_for(clock, first_quiet_ns);
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
	l->path = xstrdup(path);
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
	free(l->path);
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

/* The log gets all problems: the error has room for one. */
static bool
fail_with_problems(const struct cl_problems *problems, struct error *err)
{
	char memory[ERR_MSG_SIZE] = "";
	struct buf text = BUF_FIXED(memory);

	for (size_t i = 0; problems->n > 1 && i < problems->n_kept; i++)
		log_error("problem in the inventory", LOG_CSTR("problem", problems->kept[i].text));
	cl_problems_text(problems, 1, &text);
	return err_set(err, ERR_INVALID, "cloudlycke: %s", text.ptr);
}

bool
cl_loader_open(struct cl_loader *l, struct clock *clock, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(TEXT_MAX);
	CLEANUP(cl_problems_fini) struct cl_problems problems = CL_PROBLEMS_INIT(l->path);
	struct cl_inventory *inventory;
	struct cl_stamp stamp;

	if (!read_quiet_file(l->path, clock, &text, &stamp, err))
		return false;
	inventory = cl_inventory_parse(buf_str(&text), &problems);
	if (!inventory)
		return fail_with_problems(&problems, err);
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

/* ---- later loads ---- */

static void
send_warning(struct cl_loader *l, const char *reason, const struct buf *message)
{
	l->host->event(l->host, /*ref=*/NULL, HOST_EVENT_WARNING, reason, buf_str(message));
}

static void
log_rejected(struct cl_loader *l, const struct cl_problems *problems)
{
	CLEANUP(buf_fini) struct buf message = BUF_INIT(MESSAGE_MAX);

	metric_inc(metric_of(&reloads, "rejected"));
	buf_add_c(&message, "inventory reload rejected: ");
	cl_problems_text(problems, LIMIT_PROBLEMS, &message);
	log_error(message.ptr);
	send_warning(l, rejected_event.reason, &message);
}

static void
log_refused(struct cl_loader *l, const struct buf *why)
{
	CLEANUP(buf_fini) struct buf message = BUF_INIT(MESSAGE_MAX);

	metric_inc(metric_of(&reloads, "refused"));
	buf_addf(&message, "inventory reload refused: %s", why->ptr);
	log_warn(message.ptr);
	send_warning(l, refused_event.reason, &message);
}

static void
log_restart_needed(const struct cl_inventory *before, const struct cl_inventory *after)
{
	CLEANUP(buf_fini) struct buf fields = BUF_INIT(KIB(1)), message = BUF_INIT(KIB(1));

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
log_accepted(const struct cl_inventory *before, const struct cl_inventory *after,
             const struct cl_changes *changes)
{
	metric_inc(metric_of(&reloads, "ok"));
	log_info("inventory reloaded", LOG_I64("machines", (int64_t)after->schema.n_machines),
	         LOG_I64("added", (int64_t)changes->n_added),
	         LOG_I64("removed", (int64_t)changes->n_removed),
	         LOG_I64("changed", (int64_t)changes->n_changed));
	log_restart_needed(before, after);
}

/* Only the loading thread replaces the inventory, so the present one needs no lock here. */
static enum cl_outcome
check_text(struct cl_loader *l, struct str text, struct cl_inventory **ret,
           struct cl_changes *ret_changes)
{
	CLEANUP(cl_problems_fini) struct cl_problems problems = CL_PROBLEMS_INIT(l->path);
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *inventory = NULL;
	CLEANUP(buf_fini) struct buf why = BUF_INIT(KIB(1));

	inventory = cl_inventory_parse(text, &problems);
	if (!inventory) {
		log_rejected(l, &problems);
		return CL_REJECTED;
	}
	cl_compare(l->inventory, inventory, ret_changes);
	if (!cl_guard(l->inventory, inventory, ret_changes, &why)) {
		log_refused(l, &why);
		return CL_REFUSED;
	}
	*ret = TAKE(inventory);
	return CL_ACCEPTED;
}

/* The inventory is replaced before anything is logged or requeued, so that the work that follows
 * finds the new one. */
static void
accept_inventory(struct cl_loader *l, struct cl_inventory *inventory, const struct cl_stamp *stamp,
                 const struct cl_changes *changes)
{
	CLEANUP(cl_inventory_unrefp) struct cl_inventory *before = cl_inventory_ref(l->inventory);

	publish_load(l, inventory, stamp, CL_ACCEPTED);
	log_accepted(before, inventory, changes);
	l->host->requeue(l->host, HOST_REQUEUE_NODES, STR_EMPTY);
	if (inventory->schema.routes.is_present)
		l->host->requeue(l->host, HOST_REQUEUE_ROUTES, STR_EMPTY);
	if (!cl_pools_eq(&before->schema, &inventory->schema))
		l->host->requeue(l->host, HOST_REQUEUE_SERVICES, STR_EMPTY);
}

static enum cl_outcome
load_text(struct cl_loader *l, struct str text, const struct cl_stamp *stamp)
{
	struct cl_inventory *inventory = NULL;
	struct cl_changes changes;

	l->digest = str_hash(text);
	l->text_outcome = check_text(l, text, &inventory, &changes);
	if (l->text_outcome == CL_ACCEPTED)
		accept_inventory(l, inventory, stamp, &changes);
	else
		publish_load(l, NULL, stamp, l->text_outcome);
	return l->text_outcome;
}

/* Logged once, and at every forced reload. */
static enum cl_outcome
keep_unreadable(struct cl_loader *l, bool is_forced, int errnum)
{
	CLEANUP(arena_fini) struct arena scratch = ARENA_INIT;
	struct cl_stamp stamp = cl_stamp_of(l->path);
	struct error err;

	err_errno(&err, errnum, "cannot read inventory %s", quote_z(&scratch, str_c(l->path)));
	if (is_forced || !l->was_unreadable)
		log_error("the inventory cannot be read, keeping the one loaded before",
		          LOG_ERR(&err));
	l->was_unreadable = true;
	publish_load(l, NULL, &stamp, CL_UNREADABLE);
	return CL_UNREADABLE;
}

static enum cl_outcome
reload_file(struct cl_loader *l, bool is_forced)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(TEXT_MAX);
	struct cl_stamp stamp;
	bool is_busy;

	if (!read_file(l->path, &text, &stamp, &is_busy))
		return keep_unreadable(l, is_forced, errno);
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

enum cl_outcome
cl_loader_reload(struct cl_loader *l, bool is_forced)
{
	enum cl_outcome outcome = reload_file(l, is_forced);

	if (outcome != CL_UNCHANGED)
		alloc_trim();
	return outcome;
}

/* ---- lookups ---- */

struct cl_inventory *
cl_loader_inventory(struct cl_loader *l, bool *ret_is_current)
{
	WITH_LOCK(&l->mu);
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

static void
wake_loader_waiters(void *arg)
{
	struct cl_loader *l = arg;

	WITH_LOCK(&l->mu);
	cond_broadcast(&l->was_read);
}

bool
cl_loader_wait(struct cl_loader *l, struct call *call, int64_t deadline_mono_ns)
{
	WITH_HOOK(call->cancel, wake_loader_waiters, l);
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
