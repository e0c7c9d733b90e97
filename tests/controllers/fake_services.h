/* tests/controllers/fake_services.h: the Services of the fake API server.
 *
 * It applies the patches that the controller sends, as the real one does: the UID is a
 * precondition, finalizers are added and removed by name, an object being deleted goes with its
 * last finalizer, and what changes nothing makes no new version. What a watch would say is kept
 * until it is delivered, so that a test decides how far the store lags.
 *
 * All Services are in the namespace "default". Threads: any.
 */
#ifndef CCMD_TESTS_CONTROLLERS_FAKE_SERVICES_H
#define CCMD_TESTS_CONTROLLERS_FAKE_SERVICES_H

#include "controllers/fake_api.h"
#include "kube/store.h"

/** JSON texts are without their brackets; all is copied. */
struct fake_service {
	const char *name;
	const char *type;        /* NULL: "LoadBalancer" */
	const char *class;       /* NULL: none */
	const char *annotations; /* NULL: none */
	const char *spec;        /* more of it; NULL: one port, 80 */
	const char *finalizers;  /* of others, at creation: one name; NULL: none */
};

struct fake_services;

struct fake_services *fake_services_new(struct fake_api *api);
void fake_services_free(struct fake_services *); /* NULL is fine */

/** What it has the API answer with, for a test that wants to come between. arg: the fake. */
fake_api_answer_fn fake_services_answer;

/** Creates it, or changes all but what others own: UID, finalizers, status. */
void fake_services_put(struct fake_services *, const struct fake_service *service);
/** The API server's data is replaced: a Service of that name has another UID, and no deletion of
 * the former is reported. */
void fake_services_replace(struct fake_services *, const struct fake_service *service);
/** As `kubectl delete`: marks it when it has finalizers. No effect if there is no such Service. */
void fake_services_delete(struct fake_services *, const char *name);
/** As `kubectl patch` that takes a finalizer off by hand. */
void fake_services_strip(struct fake_services *, const char *name, const char *finalizer);
/** As others write it; NULL: none. JSON, with brackets. */
void fake_services_set_status(struct fake_services *, const char *name, const char *ingress);
/** An API server of 1.28, which knows no ipMode. */
void fake_services_drop_modes(struct fake_services *);

/** Gives the store what it has not heard of, up to n changes; returns how many there were. */
size_t fake_services_deliver(struct fake_services *, struct store *store, size_t n);
/** What a list gives that a new store begins with. */
void fake_services_list(struct fake_services *, struct store *store);

/** Copies, as they are in the API; name NULL or unknown: empty. */
struct fake_service_state {
	bool exists, is_deleting, is_claimed; /* claimed: has our finalizer */
	char uid[64], type[32], class[32];
	char annotations[256];
	char ingress[256]; /* JSON; empty: none */
	unsigned n_finalizers;
};
struct fake_service_state fake_services_get(struct fake_services *, const char *name);
/** Calls fn for each. */
void fake_services_each(struct fake_services *,
                        void (*fn)(void *arg, const struct fake_service_state *), void *arg);

/** Called before a Service loses our finalizer, with its UID. */
void fake_services_on_release(struct fake_services *, void (*fn)(void *arg, const char *uid),
                              void *arg);

#endif
