/* unsettled.c: see unsettled.h. */
#include "providers/brightbox/unsettled.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/thread.h"

static const int64_t pause_max_ns = 300 * NS_PER_SEC;
/* A change that has no effect is sent for the second time after the first of these pauses, and from
 * then on after each of the other. */
static const int64_t first_repeat_ns = 60 * NS_PER_SEC, later_repeat_ns = 1200 * NS_PER_SEC;
static const int64_t hour_ns = 3600 * NS_PER_SEC;

struct bb_unsettled_table {
	pthread_mutex_t mu;
	struct map all; /* mu; struct bb_unsettled by its name */
};

/* ---- the table ---- */

static void
bb_unsettled_free(void *unsettled)
{
	struct bb_unsettled *u = unsettled;

	for (size_t i = 0; i < u->n_sent; i++)
		free(u->sent[i].refusal);
	free(u->created);
	free(u);
}

bool
bb_unsettled_borrow(struct bb_unsettled_table *t, struct str name, struct str uid,
                    struct bb_unsettled **ret, struct error *err)
{
	struct bb_unsettled *u;
	WITH_LOCK(&t->mu);

	u = map_get(&t->all, name);
	if (u && !str_eq(u->uid, uid)) /* of a former Service of that name */
		bb_unsettled_free(map_remove(&t->all, TAKE(u)->name));
	if (!u && t->all.count >= LIMIT_UNSETTLED)
		return err_set(err, ERR_UNAVAILABLE,
		               "%zu Services wait for the cloud, which is the limit", t->all.count);
	if (!u) {
		char *text;

		u = xcalloc(1, sizeof(*u) + name.len + uid.len);
		text = (char *)(u + 1);
		u->name = str_pack(&text, name);
		u->uid = str_pack(&text, uid);
		map_put(&t->all, u->name, u);
	}
	*ret = u;
	return true;
}

void
bb_unsettled_return(struct bb_unsettled_table *t, struct bb_unsettled *u, bool is_settled)
{
	bool is_empty = !u->created && u->n_sent == 0 && u->creations_boot_ns[0] == 0 &&
	                u->result.code == ERR_NONE;
	WITH_LOCK(&t->mu);

	if (is_settled || is_empty)
		bb_unsettled_free(map_remove(&t->all, u->name));
}

void
bb_unsettled_forget(struct bb_unsettled_table *t, struct str uid)
{
	struct str name;
	void *value;
	WITH_LOCK(&t->mu);

	for (size_t pos = 0; map_next(&t->all, &pos, &name, &value);) {
		if (str_eq(((struct bb_unsettled *)value)->uid, uid)) {
			bb_unsettled_free(map_remove(&t->all, name));
			return;
		}
	}
}

struct bb_unsettled_table *
bb_unsettled_table_new(void)
{
	struct bb_unsettled_table *t = xcalloc(1, sizeof(*t));

	t->all = MAP_OF(struct bb_unsettled, name);
	mutex_init(&t->mu);
	return t;
}

void
bb_unsettled_table_free(struct bb_unsettled_table *t)
{
	if (!t)
		return;
	map_free_all(&t->all, bb_unsettled_free);
	mutex_destroy(&t->mu);
	free(t);
}

/* ---- the state ---- */

void
bb_unsettled_note_state(struct bb_unsettled *u, uint64_t service, uint64_t inputs, uint64_t state,
                        int64_t first_ms, int64_t now_boot_ns, struct error *result)
{
	if (u->result.code == ERR_NONE || u->service != service || u->state != state) {
		u->since_boot_ns = now_boot_ns;
		u->is_reported = false;
	}
	u->service = service;
	u->inputs = inputs;
	u->state = state;
	u->pause_ns = now_boot_ns - u->since_boot_ns;
	if (u->pause_ns < first_ms * NS_PER_MS)
		u->pause_ns = first_ms * NS_PER_MS;
	if (u->pause_ns > pause_max_ns)
		u->pause_ns = pause_max_ns;
	u->next_boot_ns = now_boot_ns + u->pause_ns;
	result->retry_after_ms = result->code == ERR_PENDING ? u->pause_ns / NS_PER_MS : 0;
	u->result = *result;
}

/* ---- changes ---- */

static struct bb_sent *
bb_unsettled_find(struct bb_unsettled *u, uint64_t change)
{
	for (size_t i = 0; i < u->n_sent; i++) {
		if (u->sent[i].change == change)
			return &u->sent[i];
	}
	return NULL;
}

const struct bb_sent *
bb_unsettled_need(struct bb_unsettled *u, uint64_t change, int64_t now_boot_ns)
{
	struct bb_sent *sent = bb_unsettled_find(u, change);

	if (!sent)
		return NULL;
	sent->is_needed = true;
	return now_boot_ns - sent->boot_ns < (sent->is_repeated ? later_repeat_ns : first_repeat_ns)
	               ? sent
	               : NULL;
}

bool
bb_unsettled_has_room(const struct bb_unsettled *u, uint64_t change)
{
	return u->n_sent < BB_SENT_MAX ||
	       bb_unsettled_find((struct bb_unsettled *)(uintptr_t)u, change);
}

void
bb_unsettled_note_sent(struct bb_unsettled *u, uint64_t change, int64_t now_boot_ns,
                       const char *refusal)
{
	struct bb_sent *sent = bb_unsettled_find(u, change);
	bool is_repeated = sent != NULL;

	if (!sent) {
		assert(u->n_sent < BB_SENT_MAX);
		sent = &u->sent[u->n_sent++];
		*sent = (struct bb_sent){ .change = change };
	}
	free(sent->refusal);
	sent->refusal = refusal ? xstrndup(refusal, strlen(refusal)) : NULL;
	sent->boot_ns = now_boot_ns;
	sent->is_repeated = is_repeated;
	sent->is_needed = true;
}

void
bb_unsettled_end_pass(struct bb_unsettled *u, bool is_whole)
{
	size_t n_kept = 0;

	for (size_t i = 0; i < u->n_sent; i++) {
		if (is_whole && !u->sent[i].is_needed) {
			free(u->sent[i].refusal);
			continue;
		}
		u->sent[n_kept] = u->sent[i];
		u->sent[n_kept++].is_needed = false;
	}
	u->n_sent = n_kept;
}

/* ---- creations ---- */

void
bb_unsettled_note_created(struct bb_unsettled *u, struct str id, int64_t now_boot_ns)
{
	free(u->created);
	u->created = xstrndup(id.ptr, id.len);
	memmove(&u->creations_boot_ns[1], &u->creations_boot_ns[0],
	        (BB_CREATIONS_MAX - 1) * sizeof(u->creations_boot_ns[0]));
	u->creations_boot_ns[0] = now_boot_ns;
}

void
bb_unsettled_note_withdrawn(struct bb_unsettled *u)
{
	free(TAKE(u->created));
	memmove(&u->creations_boot_ns[0], &u->creations_boot_ns[1],
	        (BB_CREATIONS_MAX - 1) * sizeof(u->creations_boot_ns[0]));
	u->creations_boot_ns[BB_CREATIONS_MAX - 1] = 0;
}

bool
bb_unsettled_has_created_enough(const struct bb_unsettled *u, int64_t now_boot_ns)
{
	int64_t first_ns = u->creations_boot_ns[BB_CREATIONS_MAX - 1];

	return first_ns != 0 && now_boot_ns - first_ns < hour_ns;
}
