/* controllers/event_dedup.c: stores a hash of the last text for each object and reason; see
 * event_dedup.h. */
#include "controllers/event_dedup.h"

#include "base/limits.h"
#include "base/thread.h"

/* Stores the text. Returns false if it is the last one of this node and reason. */
static bool
dedup_remember(struct event_dedup *d, const struct node *node, const char *reason, struct str text)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(KIB(1));
	uint64_t hash = str_hash(text);
	struct sent_event *sent;
	bool is_new;
	WITH_LOCK(&d->mu);

	buf_addf(&key, "%" STR_FMT "/%s", STR_ARG(node->object.uid), reason);
	is_new = !map_get(&d->last, buf_str(&key));
	if (is_new && d->last.count >= LIMIT_EVENT_DEDUP)
		map_free_all(&d->last, free);
	sent = map_add(&d->last, buf_str(&key), sizeof(*sent));
	is_new |= sent->text_hash != hash;
	sent->text_hash = hash;
	return is_new;
}

void
event_dedup_warn_as(struct event_dedup *d, const char *component, const struct node *node,
                    const char *reason, struct str state, struct str message)
{
	if (dedup_remember(d, node, reason, state))
		node_event(d->recorder, component, node, EVENT_WARNING, reason, message);
}

void
event_dedup_warn(struct event_dedup *d, const char *component, const struct node *node,
                 const char *reason, struct str message)
{
	event_dedup_warn_as(d, component, node, reason, message, message);
}

bool
event_dedup_is_new(struct event_dedup *d, const struct node *node, const char *reason)
{
	return dedup_remember(d, node, reason, STR_EMPTY);
}

void
event_dedup_clear(struct event_dedup *d, const struct node *node, const char *reason)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(KIB(1));
	WITH_LOCK(&d->mu);

	if (d->last.count == 0)
		return;
	buf_addf(&key, "%" STR_FMT "/%s", STR_ARG(node->object.uid), reason);
	free(map_remove(&d->last, buf_str(&key)));
}

void
event_dedup_set(struct event_dedup *d, const char *component, const struct node *node,
                const char *reason, struct str message)
{
	if (message.len > 0)
		event_dedup_warn(d, component, node, reason, message);
	else
		event_dedup_clear(d, node, reason);
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
