/* controllers/host.h: what a cloud provider is given (struct cloud_host), implemented with parts of
 * this process: events go to the recorder, requeues to the controllers; nodes and Services come
 * from the stores.
 *
 * Threads: any.
 */
#ifndef CCMD_CONTROLLERS_HOST_H
#define CCMD_CONTROLLERS_HOST_H

#include "base/fence.h"
#include "cloud/host.h"
#include "kube/recorder.h"
#include "kube/store.h"

struct host;

struct host_config {
	struct clock *clock;
	struct fence *fence;
	struct store *nodes;
	struct recorder *recorder;
	/* the component of its events, for ever; NULL: "cloud-controller-manager" */
	const char *component;
	struct host_requests *requests; /* as in struct cloud_host; outlives the host */
};

struct host *host_new(const struct host_config *config);
void host_free(struct host *); /* NULL is fine; the cloud is closed by then */

const struct cloud_host *host_cloud_host(struct host *);

/** The object of events about ccmd itself: its Pod if the downward API names it, else the namespace
 * kube-system. */
struct event_object host_ourselves(void);

/** Sets the function that carries out cloud_host.requeue; NULL: none. Without one a request is
 * dropped, which does no harm, because controllers check everything when they start. */
void host_set_requeue(struct host *,
                      void (*requeue)(void *arg, enum host_requeue what, struct str key),
                      void *arg);

/** Sets the store for is_service_address(). Must be set to NULL before the store is freed. */
void host_set_services(struct host *, struct store *services);

#endif
