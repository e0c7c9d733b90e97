/* kube.c: see kube.h. Objects, their history, backups, tokens, and the life of the model. */
#include "kube_internal.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_VERSION 100

/* ---- numbers ---- */

/* splitmix64 */
uint64_t
km_random(struct kube_model *m)
{
	uint64_t z = m->random += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

int64_t
kube_model_version(const struct kube_model *m)
{
	return m->version;
}

int64_t
km_cache_version(const struct kube_model *m)
{
	return m->held_version ? m->held_version : m->version;
}

/* ---- objects ---- */

void
kube_model_hold(const struct kube_model_object *object)
{
	((struct km_object *)object)->n_refs++;
}

void
kube_model_release(const struct kube_model_object *object)
{
	struct km_object *o = (struct km_object *)object;

	if (--o->n_refs == 0)
		free(o);
}

static struct km_object *
km_ref(struct km_object *o)
{
	o->n_refs++;
	return o;
}

static void
km_unref(struct km_object *o)
{
	if (o)
		kube_model_release(&o->base);
}

/* The object's texts are packed behind it. */
static struct km_object *
km_object_new(const struct kube_model_object *texts)
{
	struct km_object *o = xmalloc(sizeof(*o) + texts->json.len + texts->namespace.len +
	                              texts->name.len + texts->uid.len);
	char *at = o->bytes;

	*o = (struct km_object){ .n_refs = 1, .base = *texts };
	o->base.json = str_pack(&at, texts->json);
	o->base.namespace = str_pack(&at, texts->namespace);
	o->base.name = str_pack(&at, texts->name);
	o->base.uid = str_pack(&at, texts->uid);
	return o;
}

static int
km_compare(const struct km_object *o, struct str namespace, struct str name)
{
	int order = str_cmp(o->base.namespace, namespace);

	return order != 0 ? order : str_cmp(o->base.name, name);
}

struct km_object *
km_find(const struct km_objects *all, struct str namespace, struct str name, size_t *ret_place)
{
	size_t low = 0, high = all->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (km_compare(all->items[middle], namespace, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_place = low;
	if (low == all->n || km_compare(all->items[low], namespace, name) != 0)
		return NULL;
	return all->items[low];
}

/* Puts an object in the place of the one with its name. object NULL: removes that one. The array
 * has room; references are the caller's. */
static void
km_replace(struct km_objects *all, const struct km_object *named, struct km_object *object)
{
	size_t place;
	bool is_there = km_find(all, named->base.namespace, named->base.name, &place) != NULL;

	if (is_there && object) {
		all->items[place] = object;
	} else if (is_there) {
		memmove(&all->items[place], &all->items[place + 1],
		        (all->n - place - 1) * sizeof(*all->items));
		all->n--;
	} else if (object) {
		memmove(&all->items[place + 1], &all->items[place],
		        (all->n - place) * sizeof(*all->items));
		all->items[place] = object;
		all->n++;
	}
}

static void
km_objects_clear(struct km_objects *all)
{
	for (size_t i = 0; i < all->n; i++)
		km_unref(all->items[i]);
	free(all->items);
	*all = (struct km_objects){ 0 };
}

static struct km_objects
km_objects_copy(const struct km_objects *all)
{
	struct km_objects copy = { .n = all->n, .cap = all->n };

	copy.items = xcalloc(all->n + 1, sizeof(*copy.items));
	for (size_t i = 0; i < all->n; i++)
		copy.items[i] = km_ref(all->items[i]);
	return copy;
}

/* Undoes the history in a copy of the present state. */
struct km_objects
km_objects_at(struct kube_model *m, struct arena *arena, enum kube_model_kind kind, int64_t version)
{
	const struct km_objects *now = &m->of[kind];
	struct km_objects then = { .n = now->n };

	then.items = arena_calloc(arena, now->n + m->n_log + 1, sizeof(*then.items));
	if (now->n > 0)
		memcpy(then.items, now->items, now->n * sizeof(*then.items));
	for (size_t i = m->n_log; i > 0 && m->log[i - 1].version > version; i--) {
		const struct km_change *change = &m->log[i - 1];
		const struct km_object *named = change->before ? change->before : change->after;

		if (named->base.kind == kind)
			km_replace(&then, named, change->before);
	}
	return then;
}

const struct kube_model_object *
kube_model_find(const struct kube_model *m, enum kube_model_kind kind, struct str namespace,
                struct str name)
{
	size_t place;
	struct km_object *found = km_find(&m->of[kind], namespace, name, &place);

	return found ? &found->base : NULL;
}

size_t
kube_model_count(const struct kube_model *m, enum kube_model_kind kind)
{
	return m->of[kind].n;
}

const struct kube_model_object *
kube_model_at(const struct kube_model *m, enum kube_model_kind kind, size_t i)
{
	return &m->of[kind].items[i]->base;
}

/* ---- writes ---- */

static void
km_report(struct km_call *call, const struct km_change *change)
{
	struct kube_model *m = call->m;
	struct kube_model_change report = {
		.version = change->version,
		.wall_ns = m->now_ns,
		.token = call->request->token,
		.user_agent = call->request->user_agent,
		.method = call->request->method,
		.is_status = call->is_status,
		.before = change->before ? &change->before->base : NULL,
		.after = change->after ? &change->after->base : NULL,
	};

	call->has_changed = true;
	if (m->observe)
		m->observe(m->observe_arg, &report);
}

/* Stores the state that was made, in place of the one before. */
static const struct km_object *
km_store(struct km_call *call, struct km_object *before, struct km_object *made, bool is_deleted)
{
	struct kube_model *m = call->m;
	struct km_objects *all = &m->of[call->which];
	struct km_change change = { .version = m->version, .before = before };

	if (is_deleted)
		change.last = made;
	else
		change.after = made;
	if (all->n == all->cap) {
		all->cap = all->cap ? all->cap * 2 : 8;
		all->items = xreallocarray(all->items, all->cap, sizeof(*all->items));
	}
	km_replace(all, made, is_deleted ? NULL : km_ref(made));
	/* the reference of the state passes to the history */
	ARRAY_PUSH(m->log, m->n_log, m->cap_log, change);
	km_report(call, &change);
	return made;
}

/* The next version of the etcd that has this kind. */
static int64_t
km_next_version(struct kube_model *m, enum kube_model_kind kind)
{
	return kind == KUBE_MODEL_LEASE && m->lease_version > 0 ? ++m->lease_version : ++m->version;
}

const struct km_object *
km_commit(struct km_call *call, struct km_object *before, yyjson_mut_val *tree)
{
	yyjson_mut_val *shown = tree ? tree : km_tree(call, before);
	struct kube_model_object texts = { .kind = call->which,
		                           .version = km_next_version(call->m, call->which) };
	struct km_object *made;
	char *json;

	km_put_text(call, km_at(shown, "metadata"), "resourceVersion",
	            KM_FIELD(call, "%lld", (long long)texts.version));
	json = yyjson_mut_val_write(shown, YYJSON_WRITE_NOFLAG, &texts.json.len);
	if (!json)
		abort();
	texts.json.ptr = json;
	texts.namespace = km_text_at(shown, "metadata.namespace");
	texts.name = km_text_at(shown, "metadata.name");
	texts.uid = km_text_at(shown, "metadata.uid");
	made = km_object_new(&texts);
	free(json);
	return km_store(call, before, made, /*is_deleted=*/!tree);
}

/* Copies *rest up to the value of a member, and writes another value. */
static void
km_add_replaced(struct buf *b, struct str *rest, struct str member, struct str value)
{
	const char *at = memmem(rest->ptr, rest->len, member.ptr, member.len);
	struct str old;

	if (!at)
		abort();
	buf_add(b, rest->ptr, (size_t)(at - rest->ptr) + member.len);
	buf_add_str(b, value);
	*rest = str_skip(*rest, (size_t)(at - rest->ptr) + member.len);
	(void)str_split(rest, '"', &old);
	buf_add_char(b, '"');
}

void
km_commit_renewal(struct km_call *call, struct km_object *lease, struct str time)
{
	CLEANUP(buf_fini) struct buf json = BUF_INIT(1 << 16);
	struct kube_model_object texts = lease->base;
	struct str rest = lease->base.json;

	texts.version = km_next_version(call->m, KUBE_MODEL_LEASE);
	km_add_replaced(&json, &rest, STR("\"resourceVersion\":\""),
	                KM_FIELD(call, "%lld", (long long)texts.version));
	km_add_replaced(&json, &rest, STR("\"renewTime\":\""), time);
	buf_add_str(&json, rest);
	texts.json = buf_str(&json);
	(void)km_store(call, lease, km_object_new(&texts), /*is_deleted=*/false);
}

void
kube_model_set_observer(struct kube_model *m, kube_model_observe *observe, void *arg)
{
	m->observe = observe;
	m->observe_arg = arg;
}

size_t
kube_model_n_clients(const struct kube_model *m)
{
	return m->n_clients;
}

const struct kube_model_client *
kube_model_client(const struct kube_model *m, size_t i)
{
	return &m->clients[i];
}

/* ---- the history ---- */

static void
km_forget(struct km_change *change)
{
	km_unref(change->before);
	km_unref(change->after);
	km_unref(change->last);
}

void
kube_model_compact(struct kube_model *m, int64_t version)
{
	size_t n = 0;

	while (n < m->n_log && m->log[n].version <= version)
		km_forget(&m->log[n++]);
	memmove(m->log, &m->log[n], (m->n_log - n) * sizeof(*m->log));
	m->n_log -= n;
	if (version > m->compacted)
		m->compacted = version;
	if (version > m->oldest)
		m->oldest = version;
}

void
kube_model_restart(struct kube_model *m)
{
	km_end_watches(m);
	m->held_version = 0;
	m->oldest = m->version;
}

void
kube_model_hold_cache(struct kube_model *m)
{
	if (!m->held_version)
		m->held_version = m->version;
}

void
kube_model_release_cache(struct kube_model *m)
{
	m->held_version = 0;
	km_send_changes(m);
}

/* ---- backups ---- */

struct kube_model_backup *
kube_model_backup(const struct kube_model *m)
{
	struct kube_model_backup *backup = xcalloc(1, sizeof(*backup));

	backup->version = m->version;
	for (size_t i = 0; i < KUBE_MODEL_N_KINDS; i++)
		backup->of[i] = km_objects_copy(&m->of[i]);
	return backup;
}

void
kube_model_restore(struct kube_model *m, const struct kube_model_backup *backup, int64_t bump)
{
	for (size_t i = 0; i < m->n_log; i++)
		km_forget(&m->log[i]);
	m->n_log = 0;
	for (size_t i = 0; i < KUBE_MODEL_N_KINDS; i++) {
		if (i == KUBE_MODEL_LEASE && m->lease_version > 0)
			continue;
		km_objects_clear(&m->of[i]);
		m->of[i] = km_objects_copy(&backup->of[i]);
	}
	m->version = backup->version + bump;
	m->compacted = m->version;
	kube_model_restart(m);
}

void
kube_model_backup_free(struct kube_model_backup *backup)
{
	if (!backup)
		return;
	for (size_t i = 0; i < KUBE_MODEL_N_KINDS; i++)
		km_objects_clear(&backup->of[i]);
	free(backup);
}

void
kube_model_separate_leases(struct kube_model *m, int64_t version)
{
	m->lease_version = version;
}

/* ---- tokens ---- */

void
kube_model_add_token(struct kube_model *m, struct str token)
{
	ARRAY_PUSH(m->tokens, m->n_tokens, m->cap_tokens, arena_str(&m->arena, token));
}

void
kube_model_revoke_token(struct kube_model *m, struct str token)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_tokens; i++) {
		if (!str_eq(m->tokens[i], token))
			m->tokens[n++] = m->tokens[i];
	}
	m->n_tokens = n;
}

/* ---- life cycle ---- */

static void
km_handle(struct server *server, const struct server_request *request, struct server_response *ret)
{
	struct kube_model *m = (struct kube_model *)server;

	km_serve(m, request, ret, /*is_actor=*/false);
	km_send_changes(m);
}

static void
km_closed(struct server *server, uint64_t stream)
{
	struct kube_model *m = (struct kube_model *)server;

	for (size_t i = 0; i < m->n_watches; i++) {
		if (m->watches[i].stream != stream)
			continue;
		memmove(&m->watches[i], &m->watches[i + 1],
		        (m->n_watches - i - 1) * sizeof(*m->watches));
		m->n_watches--;
		return;
	}
}

static void
km_advance(struct server *server, int64_t wall_ns)
{
	struct kube_model *m = (struct kube_model *)server;

	if (wall_ns > m->now_ns)
		m->now_ns = wall_ns;
	km_send_bookmarks(m);
}

static int64_t
km_next_ns(const struct server *server)
{
	const struct kube_model *m = (const struct kube_model *)server;
	int64_t next_ns = CLOCK_FOREVER;

	for (size_t i = 0; i < m->n_watches; i++) {
		const struct km_watch *w = &m->watches[i];

		if (w->end_ns < next_ns)
			next_ns = w->end_ns;
		if (w->wants_bookmarks && w->bookmark_ns < next_ns)
			next_ns = w->bookmark_ns;
	}
	return next_ns;
}

static void
km_free(struct server *server)
{
	struct kube_model *m = (struct kube_model *)server;

	for (size_t i = 0; i < m->n_log; i++)
		km_forget(&m->log[i]);
	for (size_t i = 0; i < KUBE_MODEL_N_KINDS; i++)
		km_objects_clear(&m->of[i]);
	free(m->log);
	free(m->watches);
	free(m->tokens);
	free(m->clients);
	arena_fini(&m->arena);
	free(m);
}

static const struct server_ops ops = {
	.handle = km_handle,
	.closed = km_closed,
	.advance = km_advance,
	.next_ns = km_next_ns,
	.free = km_free,
};

struct kube_model *
kube_model_new(int64_t wall_ns, uint64_t seed)
{
	static const char *const namespaces[] = { "default", "kube-node-lease", "kube-public",
		                                  "kube-system" };
	struct kube_model *m = xcalloc(1, sizeof(*m));

	m->base.ops = &ops;
	m->now_ns = wall_ns;
	m->random = seed;
	m->version = FIRST_VERSION;
	for (size_t i = 0; i < ARRAY_LEN(namespaces); i++) {
		CLEANUP(buf_fini) struct buf body = BUF_INIT(1024);

		buf_addf(&body, "{\"metadata\":{\"name\":\"%s\"}}", namespaces[i]);
		kube_model_request(m,
		                   &(struct kube_model_request){ .user_agent = "kube-apiserver",
		                                                 .method = "POST",
		                                                 .target = "/api/v1/namespaces",
		                                                 .body = buf_str(&body) },
		                   NULL);
	}
	kube_model_compact(m, m->version);
	m->n_clients = 0;
	return m;
}

struct server *
kube_model_server(struct kube_model *m)
{
	return &m->base;
}

size_t
kube_model_n_watches(const struct kube_model *m)
{
	return m->n_watches;
}
