/* ledger.c: see ledger.h.
 *
 * With 200 Services a node that comes or goes changes 200 records. Each with a write and an fsync of its own took up to
 * three seconds; shared they are two dozen.
 */
#include "providers/cloudlycke/ledger.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/thread.h"

/* One Service. */
struct entry {
	char *uid;
	struct cl_record *written; /* NULL: not in the file */
	struct cl_record *next;    /* while is_changing: what is to be; NULL: nothing */
	bool is_changing;
};

/* One that somebody waits for, and frees then. */
struct cl_change {
	struct cl_change *next;
	struct entry *entry;
	bool is_visible;
	bool is_over, is_done;
	struct error err; /* when it is over and not done */
};

/* ---- life cycle -------------------------------------------------------------------------------------- */

void
cl_ledger_init(struct cl_ledger *l, struct cl_state *state, struct clock *clock)
{
	*l = (struct cl_ledger){ .state = state, .clock = clock };
	PTHREAD_OK(pthread_mutex_init(&l->mu, NULL));
	cond_init(&l->written);
}

static void
entry_free(struct entry *e)
{
	cl_record_unref(e->written);
	free(e->uid);
	free(e);
}

void
cl_ledger_clear(struct cl_ledger *l)
{
	struct str key;
	void *entry;

	for (size_t pos = 0; map_next(&l->entries, &pos, &key, &entry);)
		entry_free(entry);
	map_fini(&l->entries);
	l->entries = MAP_INIT;
}

void
cl_ledger_fini(struct cl_ledger *l)
{
	cl_ledger_clear(l);
	PTHREAD_OK(pthread_cond_destroy(&l->written));
	PTHREAD_OK(pthread_mutex_destroy(&l->mu));
}

/* ---- looking ----------------------------------------------------------------------------------------- */

struct cl_record *
cl_ledger_get(const struct cl_ledger *l, struct str uid)
{
	const struct entry *e = map_get(&l->entries, uid);

	return e ? e->written : NULL;
}

const struct cl_record **
cl_ledger_all(const struct cl_ledger *l, size_t *ret_n)
{
	const struct cl_record **all = xcalloc(2 * l->entries.count + 1, sizeof(*all));
	struct str key;
	void *value;
	size_t n = 0;

	for (size_t pos = 0; map_next(&l->entries, &pos, &key, &value);) {
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

/* What it will be, once what is being changed is written. */
static struct cl_record *
next_of(const struct entry *e)
{
	return e->is_changing ? e->next : e->written;
}

static struct cl_record **
collect(const struct cl_ledger *l, struct cl_record *(*which)(const struct entry *), size_t *ret_n)
{
	struct cl_record **all = xcalloc(l->entries.count + 1, sizeof(*all));
	struct str key;
	void *value;
	size_t n = 0;

	for (size_t pos = 0; map_next(&l->entries, &pos, &key, &value);) {
		struct cl_record *record = which(value);

		if (record)
			all[n++] = cl_record_ref(record);
	}
	*ret_n = n;
	return all;
}

struct cl_record **
cl_ledger_list(const struct cl_ledger *l, size_t *ret_n)
{
	return collect(l, written_of, ret_n);
}

bool
cl_ledger_is_busy(const struct cl_ledger *l)
{
	return l->is_writing || l->waiting;
}

/* ---- writing ----------------------------------------------------------------------------------------- */

static void
free_list(struct cl_record **records, size_t n)
{
	for (size_t i = 0; i < n; i++)
		cl_record_unref(records[i]);
	free(records);
}

/* With the lock held, and let go meanwhile. */
static bool
write_file(struct cl_ledger *l, struct error *err)
{
	struct cl_record **all;
	bool is_done;
	size_t n;

	if (!cl_state_is_kept(l->state))
		return true;
	all = collect(l, next_of, &n);
	l->is_writing = true;
	mutex_unlock(&l->mu);
	is_done = cl_state_write(l->state, all, n, err);
	free_list(all, n);
	mutex_lock(&l->mu);
	l->is_writing = false;
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
entry_make(struct cl_ledger *l, struct str uid)
{
	struct entry *e = map_get(&l->entries, uid);

	if (!e) {
		e = xcalloc(1, sizeof(*e));
		e->uid = xstrndup(uid.ptr, uid.len);
		map_put(&l->entries, str_c(e->uid), e);
	}
	return e;
}

static void
drop_if_empty(struct cl_ledger *l, struct entry *e)
{
	if (e->written)
		return;
	map_remove(&l->entries, str_c(e->uid));
	entry_free(e);
}

static void
settle(struct cl_ledger *l, const struct cl_change *c, bool is_done)
{
	struct entry *e = c->entry;
	struct cl_record *stays = is_done ? e->next : e->written,
			 *goes = is_done ? e->written : e->next;

	l->n_freed += frees_address(goes, stays);
	l->version += is_done && c->is_visible;
	e->written = stays;
	e->next = NULL;
	e->is_changing = false;
	cl_record_unref(goes);
	drop_if_empty(l, e);
}

/* For all who wait now. */
static void
write_all(struct cl_ledger *l)
{
	struct cl_change *batch = TAKE(l->waiting), *next;
	struct error err;
	bool is_done = write_file(l, &err);

	for (struct cl_change *c = batch; c; c = next) {
		next = c->next;
		settle(l, c, is_done);
		if (!is_done)
			c->err = err;
		c->is_done = is_done;
		c->is_over = true;
	}
	PTHREAD_OK(pthread_cond_broadcast(&l->written));
}

static struct cl_change *
begin_change(struct cl_ledger *l, struct str uid, struct cl_record *record, bool is_visible)
{
	struct cl_change *c = xcalloc(1, sizeof(*c));
	struct entry *e = entry_make(l, uid);

	assert(!e->is_changing);
	e->next = record;
	e->is_changing = true;
	c->entry = e;
	c->is_visible = is_visible;
	c->next = l->waiting;
	l->waiting = c;
	return c;
}

bool
cl_ledger_change(struct cl_ledger *l, struct str uid, struct cl_record *record, bool is_visible,
                 struct error *err)
{
	struct cl_change *c = begin_change(l, uid, record, is_visible);
	bool is_done;

	while (!c->is_over) {
		if (l->is_writing)
			clock_wait(l->clock, &l->written, &l->mu, CLOCK_FOREVER);
		else
			write_all(l);
	}
	is_done = c->is_done;
	if (!is_done)
		*err = c->err;
	free(c);
	return is_done;
}

void
cl_ledger_set(struct cl_ledger *l, struct cl_record *record)
{
	struct entry *e = entry_make(l, record->holding.uid);

	cl_record_unref(e->written);
	e->written = record;
}

bool
cl_ledger_save(struct cl_ledger *l, struct error *err)
{
	return write_file(l, err);
}
