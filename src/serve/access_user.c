/* serve/access_user.c: see access_user.h. */
#include "serve/access_user.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"

/* --- drafts ---------------------------------------------------------------------------------------- */

/* Counts an item of that many bytes; false when it is one too many. */
static bool
has_room(struct access_draft *d, size_t bytes)
{
	bytes += sizeof(struct label);
	if (d->is_over || bytes > LIMIT_USER_BYTES - d->bytes)
		d->is_over = true;
	else
		d->bytes += bytes;
	return !d->is_over;
}

void
access_draft_name(struct access_draft *d, struct str name)
{
	if (has_room(d, name.len))
		d->name = name;
}

void
access_draft_uid(struct access_draft *d, struct str uid)
{
	if (has_room(d, uid.len))
		d->uid = uid;
}

/* Twice the room for items of that size; the old memory goes with the arena. */
static void *
grow(struct arena *arena, const void *items, size_t n, size_t *cap, size_t item_size)
{
	void *larger;

	*cap = *cap ? *cap * 2 : 8;
	larger = arena_calloc(arena, *cap, item_size);
	if (n)
		memcpy(larger, items, n * item_size);
	return larger;
}

void
access_draft_group(struct access_draft *d, struct str group)
{
	if (!has_room(d, group.len))
		return;
	if (d->n_groups == d->cap_groups)
		d->groups = grow(d->arena, d->groups, d->n_groups, &d->cap_groups,
		                 sizeof(d->groups[0]));
	d->groups[d->n_groups++] = group;
}

/* Where the next value of this key belongs: behind the last one. */
static size_t
place_of(const struct access_draft *d, struct str key)
{
	size_t i = d->n_extras;

	while (i > 0 && !str_eq(d->extras[i - 1].key, key))
		i--;
	return i ? i : d->n_extras;
}

void
access_draft_extra(struct access_draft *d, struct str key, struct str value)
{
	size_t at = place_of(d, key);

	d->is_over = d->is_over || d->n_extras == LIMIT_USER_EXTRAS;
	if (!has_room(d, key.len + value.len))
		return;
	if (d->n_extras == d->cap_extras)
		d->extras = grow(d->arena, d->extras, d->n_extras, &d->cap_extras,
		                 sizeof(d->extras[0]));
	memmove(d->extras + at + 1, d->extras + at, (d->n_extras - at) * sizeof(d->extras[0]));
	d->extras[at] = (struct label){ key, value };
	d->n_extras++;
}

/* --- users ----------------------------------------------------------------------------------------- */

static bool
is_among(const struct str groups[], size_t n, const char *group)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq_c(groups[i], group))
			return true;
	}
	return false;
}

static struct str
keep(char **at, struct str s)
{
	struct str copy = { *at, s.len };

	memcpy(*at, s.ptr, s.len);
	*at += s.len;
	return copy;
}

/* All of it in one block: the user, its arrays, their texts. */
static struct access_user *
copy_draft(const struct access_draft *d)
{
	size_t groups_size = d->n_groups * sizeof(struct str);
	size_t extras_size = d->n_extras * sizeof(struct label);
	size_t size = sizeof(struct access_user) + groups_size + extras_size + d->bytes;
	struct access_user *u = xcalloc(1, size);
	char *at = (char *)(u + 1) + groups_size + extras_size;

	atomic_init(&u->refs, 1);
	u->size = size;
	u->groups = (struct str *)(u + 1);
	u->extras = (struct label *)(u->groups + d->n_groups);
	u->name = keep(&at, d->name);
	u->uid = keep(&at, d->uid);
	for (; u->n_groups < d->n_groups; u->n_groups++)
		u->groups[u->n_groups] = keep(&at, d->groups[u->n_groups]);
	for (; u->n_extras < d->n_extras; u->n_extras++) {
		struct label *extra = &u->extras[u->n_extras];

		extra->key = keep(&at, d->extras[u->n_extras].key);
		extra->value = keep(&at, d->extras[u->n_extras].value);
	}
	return u;
}

/* The API server may report that a token belongs to somebody who is anonymous. */
bool
access_user_new(struct access_draft *d, struct access_user **ret, struct error *err)
{
	if (!is_among(d->groups, d->n_groups, ACCESS_AUTHENTICATED) &&
	    !is_among(d->groups, d->n_groups, ACCESS_UNAUTHENTICATED))
		access_draft_group(d, STR(ACCESS_AUTHENTICATED));
	if (d->is_over)
		return err_set(err, ERR_INVALID, "the user has too many groups or extras");
	if (d->name.len == 0)
		return err_set(err, ERR_INVALID, "the user has no name");
	*ret = copy_draft(d);
	return true;
}

struct access_user *
access_user_anonymous(void)
{
	struct str group = STR(ACCESS_UNAUTHENTICATED);
	struct access_draft d = ACCESS_DRAFT_INIT(NULL);

	access_draft_name(&d, STR(ACCESS_ANONYMOUS));
	d.groups = &group;
	d.n_groups = has_room(&d, group.len) ? 1 : 0;
	return copy_draft(&d);
}

struct access_user *
access_user_ref(struct access_user *u)
{
	atomic_fetch_add_explicit(&u->refs, 1, memory_order_relaxed);
	return u;
}

void
access_user_unref(struct access_user *u)
{
	if (u && atomic_fetch_sub_explicit(&u->refs, 1, memory_order_acq_rel) == 1)
		free(u);
}

bool
access_user_is_in(const struct access_user *u, const char *group)
{
	return is_among(u->groups, u->n_groups, group);
}
