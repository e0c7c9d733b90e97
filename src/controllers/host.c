/* controllers/host.c: see host.h. */
#include "controllers/host.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "cloud/balancer.h"
#include "kube/node.h"

#define DEFAULT_COMPONENT "cloud-controller-manager"

struct host {
	struct cloud_host cloud_host;
	struct host_config config;
	pthread_mutex_t mu;
	void (*wake)(void *arg, enum host_wake what, struct str key); /* mu */
	void *wake_arg;                                               /* mu */
};

static struct host *
host_of(const struct cloud_host *h)
{
	return CONTAINER_OF((struct cloud_host *)(uintptr_t)h, struct host, cloud_host);
}

struct event_object
host_ourselves(void)
{
	const char *pod = getenv("POD_NAME"), *namespace = getenv("POD_NAMESPACE"),
		   *uid = getenv("POD_UID");

	if (pod && namespace && pod[0] && namespace[0])
		return (struct event_object){ "v1", "Pod", str_c(namespace), str_c(pod),
			                      str_c(uid) };
	return (struct event_object){ "v1", "Namespace", STR_EMPTY, STR("kube-system"), STR_EMPTY };
}

static void
host_event(const struct cloud_host *h, const struct node_ref *ref, enum host_event type,
           const char *reason, struct str message)
{
	struct event_object object = host_ourselves();

	if (ref)
		object = (struct event_object){ "v1", "Node", STR_EMPTY, ref->name, ref->uid };
	recorder_event(host_of(h)->config.recorder, host_of(h)->config.component, &object,
	               type == HOST_EVENT_WARNING ? EVENT_WARNING : EVENT_NORMAL, reason, message);
}

static void
host_service_event(const struct cloud_host *h, const struct lb_spec *spec, enum host_event type,
                   const char *reason, struct str message)
{
	struct event_object object = { "v1", "Service", spec->namespace, spec->service, spec->uid };

	recorder_event(host_of(h)->config.recorder, host_of(h)->config.component, &object,
	               type == HOST_EVENT_WARNING ? EVENT_WARNING : EVENT_NORMAL, reason, message);
}

static void
host_wake(const struct cloud_host *h, enum host_wake what, struct str key)
{
	struct host *host = host_of(h);
	WITH_LOCK(&host->mu);

	if (host->wake)
		host->wake(host->wake_arg, what, key);
}

static struct label
copy_label(struct arena *arena, const struct label *label)
{
	return (struct label){ arena_str(arena, label->key), arena_str(arena, label->value) };
}

static const struct label *const *
copy_labels(struct arena *arena, const struct node *node)
{
	const struct label **copy = arena_calloc(arena, node->n_labels + 1, sizeof(copy[0]));

	for (size_t i = 0; i < node->n_labels; i++) {
		struct label *label = ARENA_NEW(arena, struct label);

		*label = copy_label(arena, node->labels[i]);
		copy[i] = label;
	}
	return copy;
}

static struct label *
copy_annotations(struct arena *arena, const struct node *node)
{
	struct label *copy = arena_calloc(arena, node->n_annotations + 1, sizeof(*copy));

	for (size_t i = 0; i < node->n_annotations; i++)
		copy[i] = copy_label(arena, &node->annotations[i]);
	return copy;
}

static struct address *
copy_addresses(struct arena *arena, const struct address *addresses, size_t n)
{
	struct address *copy = arena_calloc(arena, n + 1, sizeof(*copy));

	for (size_t i = 0; i < n; i++)
		copy[i] = (struct address){ arena_str(arena, addresses[i].type),
			                    arena_str(arena, addresses[i].address) };
	return copy;
}

static void
copy_ref(struct arena *arena, struct node_ref *ref, const struct node *node)
{
	*ref = (struct node_ref){
		.name = arena_str(arena, node_name(node)),
		.uid = arena_str(arena, node->object.uid),
		.provider_id = arena_str(arena, node->provider_id),
		.labels = copy_labels(arena, node),
		.n_labels = node->n_labels,
		.annotations = copy_annotations(arena, node),
		.n_annotations = node->n_annotations,
		.addresses = copy_addresses(arena, node->addresses, node->n_addresses),
		.n_addresses = node->n_addresses,
		.is_ready = node->ready == NODE_READY_TRUE,
		.is_new = node_taint(node, STR(NODE_TAINT_UNINITIALIZED)) != NULL,
	};
}

static void
host_nodes(const struct cloud_host *h, struct arena *arena, struct node_ref **ret, size_t *ret_n)
{
	CLEANUP(store_list_free) struct store_list all = store_list(host_of(h)->config.nodes);
	struct node_ref *refs = arena_calloc(arena, all.n + 1, sizeof(*refs));

	for (size_t i = 0; i < all.n; i++)
		copy_ref(arena, &refs[i], node_of(all.objects[i]));
	*ret = refs;
	*ret_n = all.n;
}

struct host *
host_new(const struct host_config *config)
{
	struct host *h = xcalloc(1, sizeof(*h));

	h->config = *config;
	if (!h->config.component)
		h->config.component = DEFAULT_COMPONENT;
	h->cloud_host = (struct cloud_host){
		.clock = config->clock,
		.fence = config->fence,
		.event = host_event,
		.service_event = host_service_event,
		.wake = host_wake,
		.nodes = host_nodes,
	};
	PTHREAD_OK(pthread_mutex_init(&h->mu, NULL));
	return h;
}

void
host_free(struct host *h)
{
	if (!h)
		return;
	PTHREAD_OK(pthread_mutex_destroy(&h->mu));
	free(h);
}

const struct cloud_host *
host_cloud_host(struct host *h)
{
	return &h->cloud_host;
}

void
host_set_waker(struct host *h, void (*wake)(void *arg, enum host_wake what, struct str key),
               void *arg)
{
	WITH_LOCK(&h->mu);

	h->wake = wake;
	h->wake_arg = arg;
}
