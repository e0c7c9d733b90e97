/* controllers/host.c: implements struct cloud_host; see host.h. */
#include "controllers/host.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "cloud/balancer.h"
#include "controllers/node_ref.h"
#include "kube/service.h"

#define DEFAULT_COMPONENT "cloud-controller-manager"

struct host {
	struct cloud_host cloud_host;
	struct host_config config;
	pthread_mutex_t mu;
	void (*requeue)(void *arg, enum host_requeue what, struct str key); /* mu */
	void *requeue_arg;                                                  /* mu */
	struct store *services; /* mu; NULL: no controller needs them */
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
host_send_event(const struct cloud_host *h, const struct event_object *object, enum host_event type,
                const char *reason, struct str message)
{
	recorder_event(host_of(h)->config.recorder, host_of(h)->config.component, object,
	               type == HOST_EVENT_WARNING ? EVENT_WARNING : EVENT_NORMAL, reason, message);
}

static void
host_event(const struct cloud_host *h, const struct node_ref *ref, enum host_event type,
           const char *reason, struct str message)
{
	struct event_object object = host_ourselves();

	if (ref)
		object = (struct event_object){ "v1", "Node", STR_EMPTY, ref->name, ref->uid };
	host_send_event(h, &object, type, reason, message);
}

static void
host_service_event(const struct cloud_host *h, const struct lb_spec *spec, enum host_event type,
                   const char *reason, struct str message)
{
	struct event_object object = { "v1", "Service", spec->namespace, spec->service, spec->uid };

	host_send_event(h, &object, type, reason, message);
}

static void
host_requeue(const struct cloud_host *h, enum host_requeue what, struct str key)
{
	struct host *host = host_of(h);
	WITH_LOCK(&host->mu);

	if (host->requeue)
		host->requeue(host->requeue_arg, what, key);
}

static void
host_nodes(const struct cloud_host *h, struct arena *arena, struct node_ref **ret, size_t *ret_n)
{
	CLEANUP(store_list_free) struct store_list all = store_list(host_of(h)->config.nodes);
	struct node_ref *refs = arena_calloc(arena, all.n + 1, sizeof(*refs));

	for (size_t i = 0; i < all.n; i++)
		refs[i] = node_ref_copy(arena, node_of(all.objects[i]));
	*ret = refs;
	*ret_n = all.n;
}

/* Holds the lock while it searches, so that after host_set_services() no thread uses the previous
 * store. */
static bool
host_is_service_address(const struct cloud_host *h, struct str text)
{
	CLEANUP(store_list_free) struct store_list all = { 0 };
	struct host *host = host_of(h);
	WITH_LOCK(&host->mu);

	if (!host->services)
		return false;
	all = store_list(host->services);
	for (size_t i = 0; i < all.n; i++) {
		if (service_is_served_at(service_of(all.objects[i]), text))
			return true;
	}
	return false;
}

struct host *
host_new(const struct host_config *config)
{
	struct host *h = xcalloc(1, sizeof(*h));

	h->config = *config;
	h->config.component = config->component ? config->component : DEFAULT_COMPONENT;
	h->cloud_host = (struct cloud_host){
		.requests = config->requests,
		.clock = config->clock,
		.fence = config->fence,
		.event = host_event,
		.service_event = host_service_event,
		.requeue = host_requeue,
		.nodes = host_nodes,
		.is_service_address = host_is_service_address,
	};
	mutex_init(&h->mu);
	return h;
}

void
host_free(struct host *h)
{
	if (!h)
		return;
	mutex_destroy(&h->mu);
	free(h);
}

const struct cloud_host *
host_cloud_host(struct host *h)
{
	return &h->cloud_host;
}

void
host_set_requeue(struct host *h, void (*requeue)(void *arg, enum host_requeue what, struct str key),
                 void *arg)
{
	WITH_LOCK(&h->mu);

	h->requeue = requeue;
	h->requeue_arg = arg;
}

void
host_set_services(struct host *h, struct store *services)
{
	WITH_LOCK(&h->mu);

	h->services = services;
}
