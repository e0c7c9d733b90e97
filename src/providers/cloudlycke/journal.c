/* journal.c: see journal.h.
 *
 * With 200 Services a node that comes or goes changes 200 records. Each with a write and an fsync
 * of its own took up to three seconds; shared they are two dozen.
 */
#include "providers/cloudlycke/journal.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/thread.h"

/* One Service. */
struct entry {
	char *uid;
	struct cl_record *written; /* NULL: not in the file */
	struct cl_record *next;    /* while is_changing: its replacement; NULL: removed */
	bool is_changing;
};

/* A change whose caller waits for it, and frees it. */
struct cl_change {
	struct cl_change *next;
	struct entry *entry;
	bool is_visible;
	bool is_over, is_done;
	struct error err; /* when is_over and not is_done */
};

/* ---- life cycle ---- */

void
cl_journal_init(struct cl_journal *j, struct cl_state *state, struct clock *clock)
{
	*j = (struct cl_journal){ .state = state, .clock = clock };
	mutex_init(&j->mu);
	cond_init(&j->written);
}

static void
entry_free(struct entry *e)
{
	cl_record_unref(e->written);
	free(e->uid);
	free(e);
}

void
cl_journal_clear(struct cl_journal *j)
{
	struct str key;
	void *entry;

	for (size_t pos = 0; map_next(&j->entries, &pos, &key, &entry);)
		entry_free(entry);
	map_fini(&j->entries);
	j->entries = MAP_INIT;
}

void
cl_journal_fini(struct cl_journal *j)
{
	cl_journal_clear(j);
	cond_destroy(&j->written);
	mutex_destroy(&j->mu);
}

/* ---- looking ---- */

struct cl_record *
cl_journal_get(const struct cl_journal *j, struct str uid)
{
	const struct entry *e = map_get(&j->entries, uid);

	return e ? e->written : NULL;
}

const struct cl_record **
cl_journal_all(const struct cl_journal *j, size_t *ret_n)
{
	const struct cl_record **all = xcalloc(2 * j->entries.count + 1, sizeof(*all));
	struct str key;
	void *value;
	size_t n = 0;

	for (size_t pos = 0; map_next(&j->entries, &pos, &key, &value);) {
		const struct entry *e = value;

		if (e->written)
			all[n++] = e->written;
		if (e->is_changing && e->next)
			all[n++] = e->next;
	}
	*ret_n = n;
	return all;
}

static struct cl_record *
written_of(const struct entry *e)
{
	return e->written;
}

/* The record as it is after the present change. */
static struct cl_record *
next_of(const struct entry *e)
{
	return e->is_changing ? e->next : e->written;
}

static struct cl_record **
collect_records(const struct cl_journal *j, struct cl_record *(*which)(const struct entry *),
                size_t *ret_n)
{
	struct cl_record **all = xcalloc(j->entries.count + 1, sizeof(*all));
	struct str key;
	void *value;
	size_t n = 0;

	for (size_t pos = 0; map_next(&j->entries, &pos, &key, &value);) {
		struct cl_record *record = which(value);

		if (record)
			all[n++] = cl_record_ref(record);
	}
	*ret_n = n;
	return all;
}

struct cl_record **
cl_journal_list(const struct cl_journal *j, size_t *ret_n)
{
	return collect_records(j, written_of, ret_n);
}

bool
cl_journal_is_busy(const struct cl_journal *j)
{
	return j->is_writing || j->waiting;
}

/* ---- writing ---- */

/* Called with the lock held; releases it while it writes. */
static bool
write_file(struct cl_journal *j, struct error *err)
{
	struct cl_record **all;
	bool is_done;
	size_t n;

	if (!cl_state_is_kept(j->state))
		return true;
	all = collect_records(j, next_of, &n);
	j->is_writing = true;
	mutex_unlock(&j->mu);
	is_done = cl_state_write(j->state, all, n, err);
	cl_records_free(all, n);
	mutex_lock(&j->mu);
	j->is_writing = false;
	return is_done;
}

static bool
frees_address(const struct cl_record *before, const struct cl_record *after)
{
	for (size_t i = 0; before && i < before->holding.n_addresses; i++) {
		if (!after || !cl_holding_has(&after->holding, &before->holding.addresses[i]))
			return true;
	}
	return false;
}

static struct entry *
entry_make(struct cl_journal *j, struct str uid)
{
	struct entry *e = map_get(&j->entries, uid);

	if (!e) {
		e = xcalloc(1, sizeof(*e));
		e->uid = xstrndup(uid.ptr, uid.len);
		map_put(&j->entries, str_c(e->uid), e);
	}
	return e;
}

static void
drop_if_empty(struct cl_journal *j, struct entry *e)
{
	if (e->written)
		return;
	map_remove(&j->entries, str_c(e->uid));
	entry_free(e);
}

static void
end_change(struct cl_journal *j, const struct cl_change *c, bool is_done)
{
	struct entry *e = c->entry;
	struct cl_record *stays = is_done ? e->next : e->written,
			 *goes = is_done ? e->written : e->next;

	j->n_freed += frees_address(goes, stays);
	j->version += is_done && c->is_visible;
	e->written = stays;
	e->next = NULL;
	e->is_changing = false;
	cl_record_unref(goes);
	drop_if_empty(j, e);
}

/* Writes all changes that wait now, and wakes their callers. */
static void
write_all(struct cl_journal *j)
{
	struct cl_change *batch = TAKE(j->waiting), *next;
	struct error err;
	bool is_done = write_file(j, &err);

	for (struct cl_change *c = batch; c; c = next) {
		next = c->next;
		end_change(j, c, is_done);
		if (!is_done)
			c->err = err;
		c->is_done = is_done;
		c->is_over = true;
	}
	cond_broadcast(&j->written);
}

static struct cl_change *
begin_change(struct cl_journal *j, struct str uid, struct cl_record *record, bool is_visible)
{
	struct cl_change *c = xcalloc(1, sizeof(*c));
	struct entry *e = entry_make(j, uid);

	assert(!e->is_changing);
	e->next = record;
	e->is_changing = true;
	c->entry = e;
	c->is_visible = is_visible;
	c->next = j->waiting;
	j->waiting = c;
	return c;
}

bool
cl_journal_change(struct cl_journal *j, struct str uid, struct cl_record *record, bool is_visible,
                  struct error *err)
{
	struct cl_change *c = begin_change(j, uid, record, is_visible);
	bool is_done;

	while (!c->is_over) {
		if (j->is_writing)
			clock_wait(j->clock, &j->written, &j->mu, CLOCK_FOREVER);
		else
			write_all(j);
	}
	is_done = c->is_done;
	if (!is_done)
		*err = c->err;
	free(c);
	return is_done;
}

void
cl_journal_set(struct cl_journal *j, struct cl_record *record)
{
	struct entry *e = entry_make(j, record->holding.uid);

	cl_record_unref(e->written);
	e->written = record;
}

bool
cl_journal_save(struct cl_journal *j, struct error *err)
{
	return write_file(j, err);
}
