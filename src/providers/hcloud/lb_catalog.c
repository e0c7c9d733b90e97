/* lb_catalog.c: see lb_catalog.h.
 *
 * A look-up of a type first searches the last list, under mu. If that list is too old to show that
 * a type does not exist, the thread takes `listing`, searches again, because another thread may
 * have replaced the list meanwhile, and only then sends the request. mu is taken inside `listing`
 * and is not held during the request.
 *
 * Certificates are cached by name if the annotation names them, and by the UID of the Service if
 * they are managed. mu is not held during requests, so that other Services are served meanwhile.
 * Two threads may therefore ask for one certificate, and the later answer replaces the earlier one.
 * A managed certificate is searched by its label before it is ordered, so an order whose answer was
 * lost is found at the next attempt.
 */
#include "providers/hcloud/lb_catalog.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "cloud/refusals.h"
#include "providers/hcloud/api.h"
#include "providers/hcloud/lb_converge.h"
#include "providers/hcloud/lb_wire.h"

/* ---- types ---- */

#define TYPES_AGE_NS (3600 * NS_PER_SEC)
/* A type that the last list lacks may have been added to the cloud since. The list is read again
 * for it at most once a minute, so that a Service with a misspelt type does not cause a request at
 * each of its attempts. */
#define TYPES_MISS_AGE_NS (60 * NS_PER_SEC)

METRIC_FAMILY(type_lookups, METRIC_COUNTER,
              "cloud_controller_manager_load_balancer_type_cache_requests_total",
              "[ALPHA] Lookups of load balancer types, by whether the result was cached.",
              .labels = { "subsystem", "mode", "result" });

struct hz_catalog {
	struct hz_api *api;
	struct clock *clock;
	struct refusals *refusals;
	/* held during a request for the types, so that one runs at a time; taken before mu */
	pthread_mutex_t listing;
	pthread_mutex_t
		mu; /* not held during a request, so that other threads find what is known */
	struct arena arena;       /* mu; owns the texts and types of the list */
	struct hz_lb_type *types; /* mu; NULL: no list was read yet */
	size_t n;                 /* mu */
	int64_t listed_ns;        /* mu; when the request of the list began */
	struct map known;         /* mu; certificates, by key */
};

static const struct hz_lb_type *
hz_types_get(const struct hz_catalog *c, struct str name)
{
	for (size_t i = 0; i < c->n; i++) {
		if (str_eq(c->types[i].name, name))
			return &c->types[i];
	}
	return NULL;
}

/* Looks the name up in the last list. *ret_is_known is false if the list is too old for the answer,
 * and has to be read again. */
static bool
hz_types_recall(struct hz_catalog *c, struct arena *arena, struct str name, bool *ret_is_known,
                struct hz_lb_type *ret, struct error *err)
{
	const struct hz_lb_type *type;
	int64_t age_ns;
	WITH_LOCK(&c->mu);

	type = hz_types_get(c, name);
	age_ns = clock_mono(c->clock) - c->listed_ns;
	*ret_is_known = c->types && age_ns < (type ? TYPES_AGE_NS : TYPES_MISS_AGE_NS);
	if (!*ret_is_known || !type)
		return err_set(
			err, ERR_INVALID,
			"error getting load balancer type: load balancer type not found: %" STR_FMT,
			STR_ARG(name));
	*ret = *type;
	ret->name = arena_str(arena, type->name);
	return true;
}

static bool
hz_types_list(struct hz_catalog *c, struct call *call, struct error *err)
{
	int64_t begun_ns = clock_mono(c->clock);
	struct arena arena = ARENA_INIT;
	struct hz_lb_type *types;
	size_t n;

	if (!hz_list_lb_types(c->api, call, &arena, &types, &n, err)) {
		arena_fini(&arena);
		return err_wrap(err, "error getting load balancer type");
	}
	mutex_lock(&c->mu);
	arena_fini(&c->arena);
	c->arena = arena;
	c->types = types;
	c->n = n;
	c->listed_ns = begun_ns;
	mutex_unlock(&c->mu);
	return true;
}

bool
hz_types_find(struct hz_catalog *c, struct call *call, struct arena *arena, struct str name,
              struct hz_lb_type *ret, struct error *err)
{
	bool is_known, is_found = hz_types_recall(c, arena, name, &is_known, ret, err);

	metric_inc(metric_of(&type_lookups, "load_balancer", "all", is_known ? "hit" : "miss"));
	if (is_known)
		return is_found;
	WITH_LOCK(&c->listing);
	/* Another thread may have read the list while this one waited for the lock. */
	is_found = hz_types_recall(c, arena, name, &is_known, ret, err);
	if (is_known)
		return is_found;
	if (!hz_types_list(c, call, err))
		return false;
	return hz_types_recall(c, arena, name, &is_known, ret, err);
}

/* ---- certificates: what is known ---- */

#define CERTIFICATE_AGE_NS (600 * NS_PER_SEC)
#define CREATE "hcops/CertificateOps.CreateManagedCertificate"

/* A certificate that was found. Its key is its name, or, if it is managed, the UID of the Service
 * for which it was ordered. */
struct known {
	struct str key;
	int64_t id, found_ns;
	struct hz_action action; /* the action that issues the certificate; id 0: none */
};

static bool
hz_certificates_recall(struct hz_catalog *c, struct str key, int64_t *ret,
                       struct hz_action *ret_action)
{
	const struct known *one;
	WITH_LOCK(&c->mu);

	one = map_get(&c->known, key);
	if (!one || clock_mono(c->clock) - one->found_ns >= CERTIFICATE_AGE_NS)
		return false;
	*ret = one->id;
	*ret_action = one->action;
	return true;
}

static void
hz_certificates_store(struct hz_catalog *c, struct str key, int64_t id, struct hz_action action)
{
	struct known *one;
	WITH_LOCK(&c->mu);

	if (c->known.count >= LIMIT_CERTIFICATES)
		map_free_all(&c->known, free);
	one = map_add(&c->known, key, sizeof(*one));
	one->id = id;
	one->found_ns = clock_mono(c->clock);
	one->action = action;
}

void
hz_certificates_forget(struct hz_catalog *c, struct str uid)
{
	WITH_LOCK(&c->mu);

	free(map_remove(&c->known, uid));
}

/* ---- certificates: ids ---- */

static bool
hz_certificates_find_uploaded(struct hz_catalog *c, struct call *call,
                              const struct hz_lb_desired *desired, int64_t ids[], struct error *err)
{
	hz_count_operations("hcops/hclbServiceOptsBuilder.resolveCertsByNameOrID", 1);
	for (size_t i = 0; i < desired->n_certificates; i++) {
		const struct hz_certificate_ref *one = &desired->certificates[i];
		struct hz_action none = { 0 };
		struct hz_certificate found;

		ids[i] = one->id;
		if (one->id != 0 || hz_certificates_recall(c, one->name, &ids[i], &none))
			continue;
		hz_count_operations("hcops/CertificateOps.GetCertificateByNameOrID", 1);
		if (!hz_find_certificate(c->api, call, call->arena, one->name, &found, err)) {
			/* The annotation has a wrong name. ERR_INVALID says that it has to be
			 * changed. */
			if (err->code == ERR_NOT_FOUND)
				err_set(err, ERR_INVALID, "certificate \"%" STR_FMT "\": not found",
				        STR_ARG(one->name));
			return false;
		}
		hz_certificates_store(c, one->name, found.id, none);
		ids[i] = found.id;
	}
	return true;
}

/* The API refuses an order whose name another certificate has. A retry does not help then: the
 * annotation has to be changed, so the error becomes ERR_INVALID. */
static bool
hz_certificates_order_managed(struct hz_catalog *c, struct call *call,
                              const struct hz_lb_desired *desired, struct hz_certificate *ret,
                              struct hz_action *ret_action, struct error *err)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);
	struct hz_done done = { 0 };

	if (call->dry) {
		hz_dry_order_certificate(call, desired, ret, ret_action);
		return true;
	}
	hz_count_operations(CREATE, 1);
	hz_body_certificate(&body, desired);
	if (refusals_find(c->refusals, desired->uid, "order", str_hash(buf_str(&body)), err))
		return err_wrap(err, CREATE);
	if (hz_order_certificate(c->api, call, call->arena, buf_str(&body), ret, &done, err)) {
		*ret_action = done.action;
		return true;
	}
	if (err->code == ERR_EXISTS)
		err->code = ERR_INVALID;
	if (err->code == ERR_INVALID || err->code == ERR_UNSUPPORTED)
		refusals_note(c->refusals, desired->uid, "order", str_hash(buf_str(&body)), err);
	return err_wrap(err, CREATE);
}

static bool
hz_certificates_find_managed(struct hz_catalog *c, struct call *call,
                             const struct hz_lb_desired *desired, int64_t *ret,
                             struct hz_action *ret_action, struct error *err)
{
	struct hz_certificate found;

	hz_count_operations("hcops/LoadBalancerOps.reconcileManagedCertificate", 1);
	if (hz_certificates_recall(c, desired->uid, ret, ret_action))
		return true;
	hz_count_operations("hcops/CertificateOps.GetCertificateByLabel", 1);
	if (!hz_find_certificate_of(c->api, call, call->arena, desired->uid, &found, err)) {
		if (err->code != ERR_NOT_FOUND)
			return false;
		if (!hz_certificates_order_managed(c, call, desired, &found, ret_action, err))
			return false;
	}
	*ret = found.id;
	if (found.is_failed)
		return err_set(err, ERR_INVALID,
		               "managed certificate \"%" STR_FMT
		               "\" could not be issued: delete it, and it is ordered again",
		               STR_ARG(found.name));
	if (found.id != HZ_DRY_ID)
		hz_certificates_store(c, desired->uid, found.id, *ret_action);
	return true;
}

bool
hz_certificates_resolve(struct hz_catalog *c, struct call *call, struct hz_lb_desired *desired,
                        struct hz_action *ret_action, struct error *err)
{
	size_t n = desired->is_managed ? 1 : desired->n_certificates;
	int64_t *ids = arena_calloc(call->arena, n, sizeof(*ids));
	bool ok;

	*ret_action = (struct hz_action){ 0 };
	if (n == 0)
		return true;
	ok = desired->is_managed
	             ? hz_certificates_find_managed(c, call, desired, ids, ret_action, err)
	             : hz_certificates_find_uploaded(c, call, desired, ids, err);
	if (!ok)
		return err_wrap(err, "hcops/LoadBalancerOps.ReconcileHCLBServices");
	for (size_t i = 0; i < desired->n_services; i++) {
		desired->services[i].http.certificates = ids;
		desired->services[i].http.n_certificates = n;
	}
	return true;
}

/* ---- life cycle ---- */

struct hz_catalog *
hz_catalog_new(struct hz_api *api, struct clock *clock)
{
	struct hz_catalog *c = xcalloc(1, sizeof(*c));

	*c = (struct hz_catalog){
		.api = api,
		.clock = clock,
		.refusals = refusals_new(clock),
		.known = MAP_OF(struct known, key),
	};
	mutex_init(&c->listing);
	mutex_init(&c->mu);
	return c;
}

void
hz_catalog_free(struct hz_catalog *c)
{
	if (!c)
		return;
	arena_fini(&c->arena);
	map_free_all(&c->known, free);
	refusals_free(c->refusals);
	mutex_destroy(&c->listing);
	mutex_destroy(&c->mu);
	free(c);
}
