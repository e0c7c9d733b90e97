/* tests/controllers/fake_services.c: see fake_services.h. */
#include "controllers/fake_services.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/thread.h"
#include "kube/service.h"

enum {
	MAX_FINALIZERS = 4,
};

#define PATH "/api/v1/namespaces/default/services/"
#define SUBRESOURCE "/status"

struct entry {
	char *name, *uid, *type, *class, *annotations, *spec, *ingress;
	char *finalizers[MAX_FINALIZERS];
	unsigned n_finalizers, version;
	bool is_deleting;
};

struct change {
	char *json;
	bool is_removal;
};

struct fake_services {
	pthread_mutex_t mu;
	struct map entries;            /* mu; name -> struct entry */
	struct change *changes;        /* mu; that no store has heard of */
	size_t n_changes, cap_changes; /* mu */
	unsigned version, n_made;      /* mu */
	bool drops_modes;              /* mu */
	void (*on_release)(void *, const char *);
	void *on_release_arg;
};

/* ---- one of them; all under mu ---- */

static void
set_text(char **at, const char *text)
{
	free(*at);
	*at = text ? xstrdup(text) : NULL;
}

static void
entry_free(struct entry *e)
{
	for (unsigned i = 0; i < e->n_finalizers; i++)
		free(e->finalizers[i]);
	free(e->name);
	free(e->uid);
	free(e->type);
	free(e->class);
	free(e->annotations);
	free(e->spec);
	free(e->ingress);
	free(e);
}

static bool
has_finalizer(const struct entry *e, const char *finalizer)
{
	for (unsigned i = 0; i < e->n_finalizers; i++) {
		if (strcmp(e->finalizers[i], finalizer) == 0)
			return true;
	}
	return false;
}

static void
add_finalizer(struct entry *e, const char *finalizer)
{
	if (!has_finalizer(e, finalizer))
		e->finalizers[e->n_finalizers++] = xstrdup(finalizer);
}

static void
remove_finalizer(struct entry *e, const char *finalizer)
{
	for (unsigned i = 0; i < e->n_finalizers; i++) {
		if (strcmp(e->finalizers[i], finalizer) != 0)
			continue;
		free(e->finalizers[i]);
		e->finalizers[i] = e->finalizers[--e->n_finalizers];
		return;
	}
}

static void
add_metadata(struct buf *b, const struct entry *e, unsigned version)
{
	buf_addf(b,
	         "{\"metadata\":{\"namespace\":\"default\",\"name\":\"%s\",\"uid\":\"%s\","
	         "\"resourceVersion\":\"%u\",\"annotations\":{%s},\"finalizers\":[",
	         e->name, e->uid, version, e->annotations);
	for (unsigned i = 0; i < e->n_finalizers; i++)
		buf_addf(b, "%s\"%s\"", i > 0 ? "," : "", e->finalizers[i]);
	buf_addf(b, "]%s}",
	         e->is_deleting ? ",\"deletionTimestamp\":\"2026-01-02T03:00:00Z\"" : "");
}

static char *
json_of(const struct entry *e, unsigned version)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIB(1));

	add_metadata(&b, e, version);
	buf_addf(&b, ",\"spec\":{\"type\":\"%s\",", e->type);
	if (e->class)
		buf_addf(&b, "\"loadBalancerClass\":\"%s\",", e->class);
	buf_addf(&b, "%s},\"status\":{\"loadBalancer\":{\"ingress\":%s}}}", e->spec,
	         e->ingress ? e->ingress : "null");
	return xstrndup(b.ptr, b.len);
}

static void
publish(struct fake_services *fs, struct entry *e, bool is_removal)
{
	struct change change = { json_of(e, e->version = ++fs->version), is_removal };

	ARRAY_PUSH(fs->changes, fs->n_changes, fs->cap_changes, change);
}

static void
forget(struct fake_services *fs, struct entry *e)
{
	map_remove(&fs->entries, str_c(e->name));
	publish(fs, e, /*is_removal=*/true);
	entry_free(e);
}

/* It goes when nothing holds it any more. */
static void
settle(struct fake_services *fs, struct entry *e)
{
	if (e->is_deleting && e->n_finalizers == 0)
		forget(fs, e);
	else
		publish(fs, e, /*is_removal=*/false);
}

/* ---- patches ---- */

static bool
names_ours(yyjson_val *metadata, const char *key)
{
	yyjson_val *first = yyjson_arr_get_first(yyjson_obj_get(metadata, key));

	return first && str_eq_c(json_text(first), SERVICE_FINALIZER);
}

/* Returns a status. */
static int
patch_finalizers(struct fake_services *fs, struct entry *e, yyjson_val *metadata)
{
	if (names_ours(metadata, "finalizers")) {
		if (e->is_deleting && !has_finalizer(e, SERVICE_FINALIZER))
			return 422; /* docs/spec/framework.md, "Service sync" */
		add_finalizer(e, SERVICE_FINALIZER);
	}
	if (names_ours(metadata, "$deleteFromPrimitiveList/finalizers") &&
	    has_finalizer(e, SERVICE_FINALIZER)) {
		if (fs->on_release)
			fs->on_release(fs->on_release_arg, e->uid);
		remove_finalizer(e, SERVICE_FINALIZER);
	}
	return 200;
}

/* As an old server writes an ingress: without what it does not know. */
static void
drop_mode(struct buf *b)
{
	for (char *at; (at = strstr(b->ptr, ",\"ipMode\":\"VIP\""));) {
		size_t len = strlen(",\"ipMode\":\"VIP\"");

		memmove(at, at + len, strlen(at + len) + 1);
		b->len -= len;
	}
}

static void
patch_status(struct fake_services *fs, struct entry *e, yyjson_val *root)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(KIB(64));
	yyjson_val *balancer = json_at(root, "status.loadBalancer");
	yyjson_val *ingress = yyjson_obj_get(balancer, "ingress");

	if (!ingress)
		return;
	if (yyjson_is_arr(ingress)) {
		json_add_value(&b, ingress);
		if (fs->drops_modes)
			drop_mode(&b);
	}
	set_text(&e->ingress, yyjson_is_arr(ingress) ? b.ptr : NULL);
}

/* What changes nothing makes no new version. */
static void
settle_unless_same(struct fake_services *fs, struct entry *e, const char *before,
                   struct buf *answer)
{
	char *after = json_of(e, e->version);
	bool is_same = strcmp(before, after) == 0;

	buf_addf(answer, "{\"metadata\":{\"resourceVersion\":\"%u\"}}",
	         is_same ? e->version : fs->version + 1);
	free(after);
	if (!is_same)
		settle(fs, e);
}

static int
apply(struct fake_services *fs, struct entry *e, yyjson_val *root, struct buf *answer)
{
	struct str uid = STR_EMPTY, version = STR_EMPTY;
	char *before, current[16];
	int status;

	if (json_str(root, "metadata.uid", &uid) == JSON_FOUND && !str_eq_c(uid, e->uid))
		return 409;
	snprintf(current, sizeof(current), "%u", e->version);
	if (json_str(root, "metadata.resourceVersion", &version) == JSON_FOUND &&
	    !str_eq_c(version, current))
		return 409;
	before = json_of(e, e->version);
	status = patch_finalizers(fs, e, json_at(root, "metadata"));
	if (status == 200) {
		patch_status(fs, e, root);
		settle_unless_same(fs, e, before, answer);
	}
	free(before);
	return status;
}

static bool
is_ours(const struct api_request *request, struct str *ret_name)
{
	struct str target = str_c(request->target);

	if (request->method != HTTP_PATCH || !str_starts(target, STR(PATH)) ||
	    !str_ends(target, STR(SUBRESOURCE)))
		return false;
	*ret_name = str_n(target.ptr + strlen(PATH),
	                  target.len - strlen(PATH) - strlen(SUBRESOURCE));
	return true;
}

int
fake_services_answer(void *arg, const struct api_request *request, struct buf *body)
{
	struct fake_services *fs = arg;
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct str name;
	struct entry *e;
	struct error err;
	WITH_LOCK(&fs->mu);

	if (!is_ours(request, &name))
		return 0;
	if (!json_parse(str_c(request->body), &doc, &err))
		return 400;
	e = map_get(&fs->entries, name);
	if (!e)
		return 404;
	return apply(fs, e, yyjson_doc_get_root(doc), body);
}

/* ---- life ---- */

struct fake_services *
fake_services_new(struct fake_api *api)
{
	struct fake_services *fs = xcalloc(1, sizeof(*fs));

	fs->version = 100;
	mutex_init(&fs->mu);
	fake_api_answer_with(api, fake_services_answer, fs);
	return fs;
}

static void
drop_changes(struct fake_services *fs)
{
	for (size_t i = 0; i < fs->n_changes; i++)
		free(fs->changes[i].json);
	fs->n_changes = 0;
}

void
fake_services_free(struct fake_services *fs)
{
	struct str name;
	void *entry;

	if (!fs)
		return;
	for (size_t pos = 0; map_next(&fs->entries, &pos, &name, &entry);)
		entry_free(entry);
	map_fini(&fs->entries);
	drop_changes(fs);
	free(fs->changes);
	mutex_destroy(&fs->mu);
	free(fs);
}

/* ---- what users do ---- */

static struct entry *
entry_new(struct fake_services *fs, const struct fake_service *s)
{
	CLEANUP(buf_fini) struct buf uid = BUF_INIT(KIB(1));
	struct entry *e = xcalloc(1, sizeof(*e));

	buf_addf(&uid, "%s-%u", s->name, ++fs->n_made);
	e->name = xstrdup(s->name);
	e->uid = xstrdup(uid.ptr);
	if (s->finalizers)
		add_finalizer(e, s->finalizers);
	map_put(&fs->entries, str_c(e->name), e);
	return e;
}

static void
put_entry(struct fake_services *fs, const struct fake_service *s)
{
	struct entry *e = map_get(&fs->entries, str_c(s->name));

	if (!e)
		e = entry_new(fs, s);
	set_text(&e->type, s->type ? s->type : "LoadBalancer");
	if (strcmp(e->type, "LoadBalancer") != 0)
		set_text(&e->ingress, NULL); /* as the API server does */
	set_text(&e->class, s->class);
	set_text(&e->annotations, s->annotations ? s->annotations : "");
	set_text(&e->spec, s->spec ? s->spec
	                           : "\"ports\":[{\"port\":80,\"nodePort\":30080,"
	                             "\"protocol\":\"TCP\",\"targetPort\":80}]");
	publish(fs, e, /*is_removal=*/false);
}

void
fake_services_put(struct fake_services *fs, const struct fake_service *s)
{
	WITH_LOCK(&fs->mu);

	put_entry(fs, s);
}

void
fake_services_replace(struct fake_services *fs, const struct fake_service *s)
{
	struct entry *former;
	WITH_LOCK(&fs->mu);

	former = map_remove(&fs->entries, str_c(s->name));
	put_entry(fs, s);
	if (former)
		entry_free(former);
}

void
fake_services_delete(struct fake_services *fs, const char *name)
{
	struct entry *e;
	WITH_LOCK(&fs->mu);

	e = map_get(&fs->entries, str_c(name));
	if (!e || e->is_deleting)
		return;
	e->is_deleting = true;
	settle(fs, e);
}

void
fake_services_strip(struct fake_services *fs, const char *name, const char *finalizer)
{
	struct entry *e;
	WITH_LOCK(&fs->mu);

	e = map_get(&fs->entries, str_c(name));
	if (!e || !has_finalizer(e, finalizer))
		return;
	remove_finalizer(e, finalizer);
	settle(fs, e);
}

void
fake_services_set_status(struct fake_services *fs, const char *name, const char *ingress)
{
	struct entry *e;
	WITH_LOCK(&fs->mu);

	e = map_get(&fs->entries, str_c(name));
	set_text(&e->ingress, ingress);
	publish(fs, e, /*is_removal=*/false);
}

void
fake_services_drop_modes(struct fake_services *fs)
{
	WITH_LOCK(&fs->mu);

	fs->drops_modes = true;
}

/* ---- what a store hears ---- */

static bool
take_change(struct fake_services *fs, struct change *ret)
{
	WITH_LOCK(&fs->mu);

	if (fs->n_changes == 0)
		return false;
	*ret = fs->changes[0];
	memmove(fs->changes, fs->changes + 1, --fs->n_changes * sizeof(fs->changes[0]));
	return true;
}

static struct object *
parse(const char *json)
{
	struct object *object = NULL;
	struct error err;

	if (!object_parse(&service_kind.kind, str_c(json), &object, &err))
		fail_msg("%s: %s", err.msg, json);
	return object;
}

static void
put(struct store *store, struct object *object)
{
	struct error err;

	if (!store_put(store, object, &err))
		fail_msg("%s", err.msg);
}

size_t
fake_services_deliver(struct fake_services *fs, struct store *store, size_t max)
{
	struct change change;
	size_t n = 0;

	for (; n < max && take_change(fs, &change); n++) {
		struct object *object = parse(change.json);

		free(change.json);
		if (!change.is_removal) {
			put(store, object);
			continue;
		}
		store_remove(store, object);
		object_unref(object);
	}
	return n;
}

void
fake_services_list(struct fake_services *fs, struct store *store)
{
	struct str name;
	void *entry;
	WITH_LOCK(&fs->mu);

	drop_changes(fs);
	for (size_t pos = 0; map_next(&fs->entries, &pos, &name, &entry);) {
		struct entry *e = entry;
		char *json = json_of(e, e->version);

		put(store, parse(json));
		free(json);
	}
}

/* ---- what there is ---- */

static void
copy(char *to, size_t size, const char *from)
{
	(void)snprintf(to, size, "%s", from ? from : "");
}

static struct fake_service_state
state_of(const struct entry *e)
{
	struct fake_service_state s = { .exists = true,
		                        .is_deleting = e->is_deleting,
		                        .is_claimed = has_finalizer(e, SERVICE_FINALIZER),
		                        .n_finalizers = e->n_finalizers };

	copy(s.uid, sizeof(s.uid), e->uid);
	copy(s.type, sizeof(s.type), e->type);
	copy(s.class, sizeof(s.class), e->class);
	copy(s.annotations, sizeof(s.annotations), e->annotations);
	copy(s.ingress, sizeof(s.ingress), e->ingress);
	return s;
}

struct fake_service_state
fake_services_get(struct fake_services *fs, const char *name)
{
	const struct entry *e;
	WITH_LOCK(&fs->mu);

	e = map_get(&fs->entries, str_c(name));
	return e ? state_of(e) : (struct fake_service_state){ 0 };
}

void
fake_services_each(struct fake_services *fs,
                   void (*fn)(void *arg, const struct fake_service_state *), void *arg)
{
	struct str name;
	void *entry;
	WITH_LOCK(&fs->mu);

	for (size_t pos = 0; map_next(&fs->entries, &pos, &name, &entry);) {
		struct fake_service_state s = state_of(entry);

		fn(arg, &s);
	}
}

void
fake_services_on_release(struct fake_services *fs, void (*fn)(void *arg, const char *uid),
                         void *arg)
{
	WITH_LOCK(&fs->mu);

	fs->on_release = fn;
	fs->on_release_arg = arg;
}
