/* lb_certificates.c: see lb_certificates.h. */
#include "providers/hcloud/lb_certificates.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/thread.h"
#include "providers/hcloud/lb_wire.h"
#include "providers/hcloud/operations.h"

#define MAX_AGE_NS (600 * NS_PER_SEC)
#define CREATE "hcops/CertificateOps.CreateManagedCertificate"

/* A certificate that was found: by its name, or by the UID of the Service that it was ordered for. */
struct known {
	char *key;
	int64_t id, found_ns;
	struct hz_action action; /* that issues it; id 0: none */
};

struct hz_certificates {
	struct hz_api *api;
	struct clock *clock;
	pthread_mutex_t mu;
	struct map known; /* mu; by key */
};

/* ---- what is known ------------------------------------------------------------------------------------- */

static bool
recall(struct hz_certificates *c, struct str key, int64_t *ret, struct hz_action *ret_action)
{
	const struct known *one;
	WITH_LOCK(&c->mu);

	one = map_get(&c->known, key);
	if (!one || clock_mono(c->clock) - one->found_ns >= MAX_AGE_NS)
		return false;
	*ret = one->id;
	*ret_action = one->action;
	return true;
}

static void
drop(struct hz_certificates *c, struct str key)
{
	struct known *old = map_remove(&c->known, key);

	if (!old)
		return;
	free(old->key);
	free(old);
}

static void
drop_all(struct hz_certificates *c)
{
	struct str key;
	void *one;

	for (size_t pos = 0; map_next(&c->known, &pos, &key, &one); pos = 0)
		drop(c, key);
}

static void
remember(struct hz_certificates *c, struct str key, int64_t id, struct hz_action action)
{
	struct known *one = xcalloc(1, sizeof(*one));
	WITH_LOCK(&c->mu);

	if (c->known.count >= LIMIT_CERTIFICATES)
		drop_all(c);
	drop(c, key);
	*one = (struct known){ xstrndup(key.ptr, key.len), id, clock_mono(c->clock), action };
	map_put(&c->known, str_n(one->key, key.len), one);
}

void
hz_certificates_forget(struct hz_certificates *c, struct str uid)
{
	WITH_LOCK(&c->mu);

	drop(c, uid);
}

/* ---- uploaded ------------------------------------------------------------------------------------------ */

static bool
find_uploaded(struct hz_certificates *c, struct call *call, struct str name, int64_t *ret,
              struct error *err)
{
	struct hz_action none = { 0 };
	struct hz_certificate found;

	if (recall(c, name, ret, &none))
		return true;
	hz_count_operations("hcops/CertificateOps.GetCertificateByNameOrID", 1);
	if (!hz_find_certificate(c->api, call, call->arena, name, &found, err)) {
		/* a name that nobody has is the Service's mistake */
		if (err->code == ERR_NOT_FOUND)
			err_set(err, ERR_INVALID, "certificate \"%" STR_FMT "\": not found",
			        STR_ARG(name));
		return false;
	}
	remember(c, name, found.id, none);
	*ret = found.id;
	return true;
}

static bool
resolve_uploaded(struct hz_certificates *c, struct call *call, const struct hz_lb_desired *desired,
                 int64_t ids[], struct error *err)
{
	hz_count_operations("hcops/hclbServiceOptsBuilder.resolveCertsByNameOrID", 1);
	for (size_t i = 0; i < desired->n_certificates; i++) {
		const struct hz_certificate_ref *one = &desired->certificates[i];

		ids[i] = one->id;
		if (one->id == 0 && !find_uploaded(c, call, one->name, &ids[i], err))
			return false;
	}
	return true;
}

/* ---- managed ------------------------------------------------------------------------------------------- */

/* Its name may be another's: then nothing is ordered, and the Service's owner has to name another. */
static bool
order(struct hz_certificates *c, struct call *call, const struct hz_lb_desired *desired,
      struct hz_certificate *ret, struct hz_action *ret_action, struct error *err)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(LIMIT_HTTP_REQUEST);
	struct hz_done done = { 0 };

	hz_count_operations(CREATE, 1);
	hz_body_certificate(&body, desired);
	if (hz_order_certificate(c->api, call, call->arena, buf_str(&body), ret, &done, err)) {
		*ret_action = done.action;
		return true;
	}
	if (err->code == ERR_EXISTS)
		err->code = ERR_INVALID;
	return err_wrap(err, CREATE);
}

static bool
find_or_order(struct hz_certificates *c, struct call *call, const struct hz_lb_desired *desired,
              struct hz_certificate *ret, struct hz_action *ret_action, struct error *err)
{
	hz_count_operations("hcops/CertificateOps.GetCertificateByLabel", 1);
	if (hz_find_certificate_of(c->api, call, call->arena, desired->uid, ret, err))
		return true;
	return err->code == ERR_NOT_FOUND && order(c, call, desired, ret, ret_action, err);
}

static bool
resolve_managed(struct hz_certificates *c, struct call *call, const struct hz_lb_desired *desired,
                int64_t *ret, struct hz_action *ret_action, struct error *err)
{
	struct hz_certificate found;

	hz_count_operations("hcops/LoadBalancerOps.reconcileManagedCertificate", 1);
	if (recall(c, desired->uid, ret, ret_action))
		return true;
	if (!find_or_order(c, call, desired, &found, ret_action, err))
		return false;
	*ret = found.id;
	if (found.is_failed)
		return err_set(err, ERR_INVALID,
		               "managed certificate \"%" STR_FMT
		               "\" could not be issued: delete it, and it is ordered again",
		               STR_ARG(found.name));
	remember(c, desired->uid, found.id, *ret_action);
	return true;
}

/* ---- ids in the services ------------------------------------------------------------------------------ */

static void
put_in(struct hz_lb_desired *desired, int64_t ids[], size_t n)
{
	for (size_t i = 0; i < desired->n_services; i++) {
		desired->services[i].http.certificates = ids;
		desired->services[i].http.n_certificates = n;
	}
}

bool
hz_certificates_resolve(struct hz_certificates *c, struct call *call, struct hz_lb_desired *desired,
                        struct hz_action *ret_action, struct error *err)
{
	size_t n = desired->is_managed ? 1 : desired->n_certificates;
	int64_t *ids = arena_calloc(call->arena, n, sizeof(*ids));

	*ret_action = (struct hz_action){ 0 };
	if (n == 0)
		return true;
	if (desired->is_managed ? !resolve_managed(c, call, desired, ids, ret_action, err)
	                        : !resolve_uploaded(c, call, desired, ids, err))
		return err_wrap(err, "hcops/LoadBalancerOps.ReconcileHCLBServices");
	put_in(desired, ids, n);
	return true;
}

/* ---- life cycle ---------------------------------------------------------------------------------------- */

struct hz_certificates *
hz_certificates_new(struct hz_api *api, struct clock *clock)
{
	struct hz_certificates *c = xcalloc(1, sizeof(*c));

	c->api = api;
	c->clock = clock;
	PTHREAD_OK(pthread_mutex_init(&c->mu, NULL));
	return c;
}

void
hz_certificates_free(struct hz_certificates *c)
{
	if (!c)
		return;
	drop_all(c);
	map_fini(&c->known);
	PTHREAD_OK(pthread_mutex_destroy(&c->mu));
	free(c);
}
