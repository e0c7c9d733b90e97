/* cloud/host.h: what a provider is given at start().
 *
 * Plain functions behind a table, so that a provider can be written and tested without a cluster.
 * Threads: any.
 */
#ifndef CCMD_CLOUD_HOST_H
#define CCMD_CLOUD_HOST_H

#include "base/clock.h"
#include "base/fence.h"
#include "cloud/cloud.h"

enum host_event {
	HOST_EVENT_NORMAL,
	HOST_EVENT_WARNING,
};

/** What is to be reconciled again. */
enum host_requeue {
	HOST_REQUEUE_NODES,    /* all nodes */
	HOST_REQUEUE_SERVICES, /* all Services */
	HOST_REQUEUE_SERVICE,  /* the one with the key "namespace/name" */
	HOST_REQUEUE_ROUTES,   /* all routes */
	/* all objects that wait for an API, which is available again (cloud/endpoint.h) */
	HOST_REQUEUE_RECOVERED,
};

struct event_kind;
struct http_client;
struct lb_spec;

/** A command about one object sends at most so many requests, however large the project is. */
struct host_requests {
	unsigned max;
	_Atomic unsigned n;
};

struct cloud_host {
	struct host_requests *requests; /* NULL: any number of requests */
	struct clock *clock;
	struct fence *fence; /* ask fence_check() before a hook or a file write */
	/* A unit test's scripted client, which rest_new() takes instead of making one, so that a
	 * test can load() and start() a provider without knowing its struct. NULL otherwise. */
	struct http_client *http;

	/** An Event on a node, by name and UID, or, with ref NULL, about the controller itself. */
	void (*event)(const struct cloud_host *, const struct node_ref *ref, enum host_event type,
	              const char *reason, struct str message);
	/** An Event on a Service (its namespace, name and UID are used). */
	void (*service_event)(const struct cloud_host *, const struct lb_spec *spec,
	                      enum host_event type, const char *reason, struct str message);
	/** Something changed in the cloud: the objects that `what` names are reconciled now,
	 * although they are not due yet. key: for HOST_REQUEUE_SERVICE; empty for the others. */
	void (*requeue)(const struct cloud_host *, enum host_requeue what, struct str key);
	/** All nodes known now, in the arena. */
	void (*nodes)(const struct cloud_host *, struct arena *arena, struct node_ref **ret,
	              size_t *ret_n);
	/** Is that IP address, or host name, in status.loadBalancer of a live Service of ours: of
	 * type LoadBalancer, without a class, not being deleted? Addresses are compared by value,
	 * not by text. False while Services are not known: they have not been listed yet, or no
	 * controller of this process needs them. */
	bool (*is_service_address)(const struct cloud_host *, struct str address);
};

/** To be called before each request to the cloud. False: it must not be sent. */
NODISCARD bool host_count_request(const struct cloud_host *, struct error *err);

/** Sends an Event of that kind, as event(): about a node, or about the controller itself. */
void host_report(const struct cloud_host *, const struct node_ref *ref,
                 const struct event_kind *kind, const char *fmt, ...) PRINTF_LIKE(4, 5);
/** The same about a Service, as service_event(). */
void host_report_service(const struct cloud_host *, const struct lb_spec *spec,
                         const struct event_kind *kind, const char *fmt, ...) PRINTF_LIKE(4, 5);

#endif
