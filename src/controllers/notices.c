/* controllers/notices.c: see notices.h. */
#include "controllers/notices.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/thread.h"

struct notices {
	struct recorder *recorder;
	pthread_mutex_t mu;
	struct map said; /* mu; "uid/reason" -> struct notice */
};

struct notice {
	uint64_t text_hash;
	size_t key_len;
	char key[];
};

struct notices *
notices_new(struct recorder *recorder)
{
	struct notices *ns = xcalloc(1, sizeof(*ns));

	ns->recorder = recorder;
	PTHREAD_OK(pthread_mutex_init(&ns->mu, NULL));
	return ns;
}

static void
forget_all(struct notices *ns)
{
	struct str key;
	void *notice;

	for (size_t pos = 0; map_next(&ns->said, &pos, &key, &notice);)
		free(notice);
	map_fini(&ns->said);
	ns->said = MAP_INIT;
}

void
notices_free(struct notices *ns)
{
	if (!ns)
		return;
	forget_all(ns);
	PTHREAD_OK(pthread_mutex_destroy(&ns->mu));
	free(ns);
}

static void
make_key(struct buf *b, const struct node *node, const char *reason)
{
	buf_add_str(b, node->object.uid);
	buf_add_char(b, '/');
	buf_add_c(b, reason);
}

/* With the lock held: was this said last? Remembers it. */
static bool
is_news(struct notices *ns, struct str key, struct str message)
{
	uint64_t hash = str_hash(message);
	struct notice *notice = map_get(&ns->said, key);

	if (notice) {
		bool is_new = notice->text_hash != hash;

		notice->text_hash = hash;
		return is_new;
	}
	if (ns->said.count >= LIMIT_NOTICES)
		forget_all(ns);
	notice = xmalloc(sizeof(*notice) + key.len);
	notice->text_hash = hash;
	notice->key_len = key.len;
	memcpy(notice->key, key.ptr, key.len);
	map_put(&ns->said, str_n(notice->key, key.len), notice);
	return true;
}

void
notices_warn_as(struct notices *ns, const char *component, const struct node *node,
                const char *reason, struct str state, struct str message)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(KIB(1));
	bool is_new;

	make_key(&key, node, reason);
	mutex_lock(&ns->mu);
	is_new = is_news(ns, buf_str(&key), state);
	mutex_unlock(&ns->mu);
	if (is_new)
		node_event(ns->recorder, component, node, EVENT_WARNING, reason, message);
}

void
notices_warn(struct notices *ns, const char *component, const struct node *node, const char *reason,
             struct str message)
{
	notices_warn_as(ns, component, node, reason, message, message);
}

void
notices_clear(struct notices *ns, const struct node *node, const char *reason)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(KIB(1));
	WITH_LOCK(&ns->mu);

	if (ns->said.count == 0)
		return;
	make_key(&key, node, reason);
	free(map_remove(&ns->said, buf_str(&key)));
}

void
node_event(struct recorder *recorder, const char *component, const struct node *node,
           enum event_type type, const char *reason, struct str message)
{
	struct event_object object = {
		.api_version = "v1",
		.kind = "Node",
		.namespace = STR_EMPTY,
		.name = node_name(node),
		.uid = node->object.uid,
	};

	recorder_event(recorder, component, &object, type, reason, message);
}
