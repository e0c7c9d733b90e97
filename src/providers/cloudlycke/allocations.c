/* allocations.c: the balancers of state.h.
 *
 * An allocation holds the state's lock while it looks at all records (also those that are being
 * written), chooses addresses, and begins its change. The lock is released only while the file is
 * written. So two Services never choose the same free address, and after a failed write the address
 * is free again.
 */
#include "providers/cloudlycke/state.h"

#include <stdlib.h>

#include "base/event_kind.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/buf.h"
#include "base/thread.h"
#include "providers/cloudlycke/haproxy.h"
#include "providers/cloudlycke/pools.h"

EVENT_KIND(
	conflict_event, "cloud-controller-manager", "AddressConflict", true, "Service",
	"cloudlycke: another Service has the same address in its status and keeps it; this Service gets another address.");

EVENT_KIND(
	no_pool_event, "cloud-controller-manager", "AddressNotInPool", true, "Service",
	"cloudlycke: an address of the Service is in no pool that it may use. An address that ccmd allocated is replaced; any other is not served, and stays in the status until another one is allocated.");

enum {
	FILE_HEAD = 16384, /* for what HAProxy's file has besides the Services */
};

/* ---- with the lock held ---- */

/* Balancers with the same nodes share one list of them in memory. Takes the reference. */
static struct cl_targets *
share_targets(const struct cl_state *s, struct cl_targets *targets)
{
	struct str key;
	void *value;

	for (size_t pos = 0; map_next(&s->records, &pos, &key, &value);) {
		const struct cl_record *record = value;

		if (cl_targets_eq(record->values.targets, targets)) {
			cl_targets_unref(targets);
			return cl_targets_ref(record->values.targets);
		}
	}
	return targets;
}

/* A Service that has its place in HAProxy's file keeps it: what does not fit is refused, be it a
 * new Service or a change. */
static bool
fit_file(struct cl_state *s, struct cl_record_values *values, struct error *err)
{
	const struct cl_record *before = map_get(&s->records, values->allocation.uid);
	size_t others = s->file_size - (before ? before->values.file_size : 0);

	/* While there are two records, the larger one counts: either may be in the file in the end.
	 */
	for (const struct cl_change *c = s->changes; c; c = c->older) {
		const struct cl_record *written = map_get(&s->records, c->uid);
		size_t size = written ? written->values.file_size : 0;

		if (c->next && c->next->values.file_size > size)
			others += c->next->values.file_size - size;
	}
	values->is_left_out = false;
	values->file_size = s->has_haproxy ? cl_haproxy_size(values) : 0;
	if (values->file_size == 0 || others + values->file_size + FILE_HEAD <= LIMIT_HAPROXY_FILE)
		return true;
	s->has_waiting = true;
	return err_set(err, ERR_INVALID,
	               "HAProxy's configuration has no room for this Service: it would take up to "
	               "%zu bytes, other Services take %zu, and all together may take %zu; use "
	               "fewer ports, source ranges or nodes, the load balancer stays as it is "
	               "until then",
	               values->file_size, others, LIMIT_HAPROXY_FILE - FILE_HEAD);
}

/* Sets the hash of the values and the progress of their hook. Where there is a hook, and its input
 * is another than the last, a new generation begins, and the result is true. before NULL: there was
 * no record. */
static bool
set_input(const struct cl_state *s, struct cl_record_values *values, const struct cl_record *before)
{
	values->input = cl_record_hash(values);
	values->hook = before ? before->values.hook : (struct cl_progress){ .error = STR_EMPTY };
	if (!s->has_hook || values->hook.input == values->input)
		return false;
	values->hook.input = values->input;
	values->hook.generation++;
	return true;
}

/* Makes these the values of the Service's record, unless they equal those before. A new generation
 * is written before its hook is run, so that a hook which a crash interrupts is run again. */
static bool
commit_values(struct cl_state *s, struct cl_record_values *values, struct cl_record *before,
              struct cl_record **ret, struct error *err)
{
	CLEANUP(cl_record_unrefp) struct cl_record *record = NULL;

	if (!set_input(s, values, before) && before && before->values.input == values->input) {
		*ret = cl_record_ref(before);
		return true;
	}
	record = cl_record_new(values);
	if (!cl_state_change(s, values->allocation.uid, cl_record_ref(record), err))
		return false;
	*ret = TAKE(record);
	return true;
}

/* The values of a record with addresses, for which HAProxy's file has room. present: the addresses
 * that the Service has now. */
static bool
allocate_values(struct cl_state *s, const struct cl_request *request,
                const struct cl_addresses *present, struct cl_targets *targets, struct arena *arena,
                struct cl_record_values *ret, struct error *err)
{
	const struct cl_allocation **all = arena_calloc(arena, s->records.count + s->n_changing + 1,
	                                                sizeof(struct cl_allocation *));
	bool is_full;
	struct str key;
	void *value;
	size_t n = 0;

	for (size_t pos = 0; map_next(&s->records, &pos, &key, &value);)
		all[n++] = &((const struct cl_record *)value)->values.allocation;
	for (const struct cl_change *c = s->changes; c; c = c->older) {
		if (c->next)
			all[n++] = &c->next->values.allocation;
	}
	*ret = request->values;
	ret->targets = targets;
	if (cl_allocate(request, present, all, n, arena, &ret->allocation.addresses, &is_full, err))
		return fit_file(s, ret, err);
	s->has_waiting |= is_full;
	return false;
}

/* ---- allocating ---- */

bool
cl_state_allocate(struct cl_state *s, const struct cl_request *request,
                  const struct node_ref nodes[], size_t n_nodes, struct arena *arena,
                  struct cl_record **ret, struct error *err)
{
	CLEANUP(cl_targets_unrefp) struct cl_targets *targets = cl_targets_new(nodes, n_nodes);
	CLEANUP(cl_record_unrefp) struct cl_record *before = NULL;
	struct cl_record_values values;
	struct cl_addresses present = { .n = 0 };
	WITH_LOCK(&s->mu);

	before = map_get(&s->records, request->values.allocation.uid);
	if (before) {
		cl_record_ref(before); /* it is compared with its replacement */
		present = before->values.allocation.addresses;
	}
	targets = share_targets(s, targets);
	if (!allocate_values(s, request, &present, targets, arena, &values, err) ||
	    !commit_values(s, &values, before, ret, err))
		return false;
	/* What the Service has lost because of its pool. */
	for (size_t i = 0; i < present.n; i++) {
		const struct ip *ip = &present.items[i];
		const struct cl_pool *pool = request->pool;
		struct str former = before->values.pool.len > 0 ? before->values.pool : pool->name;
		CLEANUP(buf_fini) struct buf line = BUF_INIT(LIMIT_EVENT_MESSAGE);
		const struct cl_allocation *a = &before->values.allocation;
		const struct lb_spec about = { .namespace = a->namespace,
			                       .service = a->service,
			                       .uid = a->uid };
		bool is_avoided;

		if (cl_addresses_have(&(*ret)->values.allocation.addresses, ip) ||
		    cl_pool_has(pool, ip, &is_avoided))
			continue;
		buf_addf(&line, "load balancer %s: address %s %s pool %s; reallocating",
		         quote_z(arena, before->values.name), cl_ip_text(ip, arena),
		         is_avoided ? "is reserved in" : "left", quote_z(arena, former));
		log_info(line.ptr, LOG_STR("service", about.service),
		         LOG_STR("namespace", about.namespace));
		s->host->service_event(s->host, &about, HOST_EVENT_WARNING, no_pool_event.reason,
		                       buf_str(&line));
	}
	return true;
}

bool
cl_state_foresee(struct cl_state *s, const struct cl_request *request, const struct lb_spec *spec,
                 struct arena *arena, struct cl_addresses *ret_before, struct cl_record **ret,
                 struct error *err)
{
	CLEANUP(cl_targets_unrefp)
	struct cl_targets *targets = cl_targets_new(spec->nodes, spec->n_nodes);
	struct cl_record_values values, before;
	struct cl_addresses present;
	const struct cl_record *written;
	WITH_LOCK(&s->mu);

	written = map_get(&s->records, spec->uid);
	cl_values_from_status(spec, arena, &before);
	present = before.allocation.addresses;
	if (present.n == 0 && written)
		present = written->values.allocation.addresses;
	if (!allocate_values(s, request, &present, targets, arena, &values, err))
		return false;
	(void)set_input(s, &values, written);
	*ret_before = present;
	*ret = cl_record_new(&values);
	return true;
}

bool
cl_state_set_nodes(struct cl_state *s, struct str uid, const struct node_ref nodes[],
                   size_t n_nodes, struct cl_record **ret, struct error *err)
{
	CLEANUP(cl_targets_unrefp) struct cl_targets *targets = cl_targets_new(nodes, n_nodes);
	struct cl_record_values values;
	struct cl_record *before;
	WITH_LOCK(&s->mu);

	before = map_get(&s->records, uid);
	if (!before || before->values.is_deleting || before->values.allocation.is_orphan)
		return err_set(err, ERR_NOT_FOUND, "there is no load balancer yet");
	targets = share_targets(s, targets);
	values = before->values;
	values.targets = targets;
	if (!fit_file(s, &values, err))
		return false;
	return commit_values(s, &values, before, ret, err);
}

/* ---- deleting ---- */

bool
cl_state_mark_deleting(struct cl_state *s, struct str uid, struct cl_record **ret,
                       struct error *err)
{
	struct cl_record_values values;
	struct cl_record *before;
	WITH_LOCK(&s->mu);

	before = map_get(&s->records, uid);
	if (!before) {
		*ret = NULL;
		return true;
	}
	values = before->values;
	values.is_deleting = true;
	values.file_size = 0;
	return commit_values(s, &values, before, ret, err);
}

bool
cl_state_remove(struct cl_state *s, struct str uid, struct error *err)
{
	WITH_LOCK(&s->mu);

	if (!map_get(&s->records, uid))
		return true;
	return cl_state_change(s, uid, NULL, err);
}

/* The record cannot have changed meanwhile: for one Service, calls are made one after the other. */
bool
cl_state_set_hook_result(struct cl_state *s, const struct cl_record *record, struct str error,
                         struct error *err)
{
	struct cl_record_values values = record->values;
	WITH_LOCK(&s->mu);

	values.hook.done = record->values.hook.generation;
	values.hook.error = error;
	return cl_state_change(s, values.allocation.uid, cl_record_new(&values), err);
}

/* ---- after a start ---- */

/* If several Services claim an address, the one with the lowest rank keeps it. */
enum claim_rank {
	CLAIM_SAVED,  /* the state file has an address of the status for this Service */
	CLAIM_STATUS, /* the status says so */
	/* the balancer is being deleted: another Service may have the address already */
	CLAIM_LEAVING,
};

/* The addresses in the status of one Service. */
struct claim {
	const struct lb_spec *spec;
	const struct cl_record *saved; /* the state file's; NULL: none */
	enum claim_rank rank;
};

static bool
is_saved(const struct claim *c, const struct ip *ip)
{
	return c->saved && cl_addresses_have(&c->saved->values.allocation.addresses, ip);
}

static int
by_rank(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return str_cmp(x->spec->uid, y->spec->uid);
}

static struct claim *
collect_claims(const struct cl_state *state, const struct lb_spec *const specs[], size_t n,
               struct arena *arena)
{
	struct claim *all = arena_calloc(arena, n + 1, sizeof(*all));

	for (size_t i = 0; i < n; i++) {
		struct claim *c = &all[i];
		const struct lb_status *status = &specs[i]->status;
		struct ip ip;

		c->spec = specs[i];
		c->saved = map_get(&state->records, specs[i]->uid);
		c->rank = specs[i]->is_leaving ? CLAIM_LEAVING : CLAIM_STATUS;
		for (size_t k = 0; c->rank == CLAIM_STATUS && k < status->n_ingress; k++) {
			if (ip_parse(status->ingress[k].ip, &ip) && is_saved(c, &ip))
				c->rank = CLAIM_SAVED;
		}
	}
	qsort(all, n, sizeof(all[0]), by_rank);
	return all;
}

/* All Services are adopted, one after the other. */
struct adoption {
	struct cl_state *state;
	const struct cl_schema *schema;
	struct cl_targets *targets; /* of all balancers */
	struct map holders; /* by address: the Services that have it already, as struct holder; the
	                       keys are in the allocations */
	struct arena *arena;
};

struct holder {
	const struct cl_allocation *allocation;
	const struct holder *next; /* shares the address with it */
};

/* why: with the address, as an event names it. */
static void
report_address(const struct adoption *adoption, const struct lb_spec *spec, const char *message,
               const struct event_kind *event, struct str why)
{
	const struct cloud_host *host = adoption->state->host;

	log_warn(message, LOG_STR("service", spec->service), LOG_STR("namespace", spec->namespace),
	         LOG_STR("why", why));
	host->service_event(host, spec, HOST_EVENT_WARNING, event->reason, why);
}

/* A user who may patch a status could otherwise have any address served, even the host's own one.
 * So only addresses are taken over that a pool could have given to the Service, or that the state
 * file has for it, because these may have left their pool while ccmd was stopped. */
static struct lb_status
trusted_status(const struct adoption *adoption, const struct claim *c)
{
	const struct lb_status *status = &c->spec->status;
	struct arena *arena = adoption->arena;
	struct lb_status trusted = { .n_ingress = 0 };
	bool is_reported = c->spec->is_leaving; /* no event, because it gets no other address */
	const struct cl_pool *pool;
	struct error err;
	struct ip ip;

	trusted.ingress = arena_calloc(arena, status->n_ingress, sizeof(trusted.ingress[0]));
	for (size_t i = 0; i < status->n_ingress; i++) {
		CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_EVENT_MESSAGE);

		if (!ip_parse(status->ingress[i].ip, &ip))
			continue;
		if (cl_request_could_have(adoption->schema, c->spec->namespace, &ip) ||
		    is_saved(c, &ip)) {
			trusted.ingress[trusted.n_ingress++] = status->ingress[i];
			continue;
		}
		/* Once for a Service, however many addresses its status has: a user who may write
		 * one may write thousands. */
		if (is_reported)
			continue;
		is_reported = true;
		buf_addf(&text,
		         "address %s in the status is in no pool that this Service may use: it is "
		         "not served, and stays there until an address ",
		         cl_ip_text(&ip, arena));
		if (cl_request_pool(adoption->schema, c->spec, arena, &pool, &err))
			buf_addf(&text, "of pool %s is allocated", quote_z(arena, pool->name));
		else
			buf_addf(&text, "is allocated: %s", err.msg);
		report_address(adoption, c->spec,
		               "an address in the status of a service is in no pool",
		               &no_pool_event, buf_str(&text));
	}
	return trusted;
}

static struct str
address_key(const struct ip *ip)
{
	return str_n((const char *)ip->bytes, sizeof(ip->bytes));
}

/* The Service that has the address and does not share it with `self`; NULL: none. */
static const struct cl_allocation *
find_holder(const struct adoption *adoption, const struct cl_allocation *self, const struct ip *ip)
{
	const struct holder *holder = map_get(&adoption->holders, address_key(ip));

	for (; holder; holder = holder->next) {
		if (!str_eq(holder->allocation->uid, self->uid) &&
		    !cl_may_share(self, holder->allocation, NULL))
			return holder->allocation;
	}
	return NULL;
}

static void
report_conflict(const struct adoption *adoption, const struct lb_spec *spec, const struct ip *ip,
                const struct cl_allocation *holder)
{
	struct arena *arena = adoption->arena;

	report_address(adoption, spec, "two services have one address", &conflict_event,
	               arena_printf(arena,
	                            "address %s is in the status of %" STR_FMT "/%" STR_FMT
	                            " as well, which keeps it: another one is given here",
	                            cl_ip_text(ip, arena), STR_ARG(holder->namespace),
	                            STR_ARG(holder->service)));
}

/* Removes the addresses that another Service holds. spec NULL: without an event. */
static void
keep_unclaimed(const struct adoption *adoption, const struct lb_spec *spec,
               struct cl_allocation *self)
{
	struct cl_addresses *addresses = &self->addresses;
	size_t n = 0;

	for (size_t i = 0; i < addresses->n; i++) {
		const struct ip ip = addresses->items[i];
		const struct cl_allocation *holder = find_holder(adoption, self, &ip);

		if (!holder)
			addresses->items[n++] = ip;
		else if (spec)
			report_conflict(adoption, spec, &ip, holder);
	}
	addresses->n = n;
}

/* Without room in HAProxy's file the Service keeps its addresses, and is refused when it is worked
 * on. */
static void
adopt_values(struct adoption *adoption, const struct claim *c, struct cl_record_values *values)
{
	const struct cl_allocation *allocation;
	struct cl_record *record;
	struct error ignored;

	values->targets = adoption->targets;
	values->is_left_out = !fit_file(adoption->state, values, &ignored);
	if (values->is_left_out)
		values->file_size = 0;
	values->input = cl_record_hash(values);
	if (c->saved)
		values->hook = c->saved->values.hook;
	record = cl_record_new(values);
	allocation = &record->values.allocation;
	cl_state_set(adoption->state, record);
	for (size_t i = 0; i < allocation->addresses.n; i++) {
		struct str key = address_key(&allocation->addresses.items[i]);
		struct holder *holder = ARENA_NEW(adoption->arena, struct holder);

		holder->allocation = allocation;
		holder->next = map_get(&adoption->holders, key);
		map_put(&adoption->holders, key, holder);
	}
}

/* A record whose Service is gone although its finalizer should have kept it. The API server's data
 * may have been lost, so what the hook has set up is left alone, and the addresses stay reserved,
 * those that it shared with other Services, too. */
static void
keep_orphan(struct cl_state *state, const struct cl_record *saved)
{
	struct cl_record_values values = saved->values;

	if (map_get(&state->records, values.allocation.uid))
		return;
	values.allocation.is_orphan = true;
	cl_state_set(state, cl_record_new(&values));
	log_warn("a load balancer in the state file belongs to no service: leaving it alone; to "
	         "free its addresses, remove it from the file while ccmd is stopped",
	         LOG_STR("load_balancer", values.name),
	         LOG_STR("namespace", values.allocation.namespace),
	         LOG_STR("service", values.allocation.service));
}

bool
cl_state_adopt(struct cl_state *state, const struct cl_schema *schema,
               const struct lb_spec *const specs[], size_t n, struct arena *arena,
               struct error *err)
{
	struct adoption adoption = { .state = state, .schema = schema, .arena = arena };
	CLEANUP(cl_targets_unrefp) struct cl_targets *targets = NULL;
	struct cl_record_values values;
	struct node_ref *nodes = NULL;
	struct cl_record **saved;
	const struct claim *all;
	size_t n_nodes = 0, n_saved;

	/* The nodes of all balancers until each Service is worked on: which of them a Service wants
	 * is not known here, and HAProxy's health checks find those that do not answer. */
	state->host->nodes(state->host, arena, &nodes, &n_nodes);
	adoption.targets = targets = cl_targets_new(nodes, n_nodes);
	if (!cl_state_take(state, err))
		return false;
	WITH_LOCK(&state->mu);
	saved = cl_state_sorted(state, /*is_next=*/false, &n_saved);
	all = collect_claims(state, specs, n, arena);
	cl_state_clear(state);

	/* A Service has the addresses of its status, as far as they are trusted and no other
	 * Service has them already. */
	for (size_t i = 0; i < n; i++) {
		struct lb_spec spec = *all[i].spec;

		spec.status = trusted_status(&adoption, &all[i]);
		cl_values_from_status(&spec, arena, &values);
		keep_unclaimed(&adoption, spec.is_leaving ? NULL : &spec, &values.allocation);
		if (values.allocation.addresses.n > 0)
			adopt_values(&adoption, &all[i], &values);
	}
	/* A Service without an address in its status may have one all the same: ccmd may have ended
	 * after it had written the state file and before the status was patched. */
	for (size_t i = 0; i < n; i++) {
		if (!all[i].saved || map_get(&state->records, all[i].spec->uid))
			continue;
		cl_values_from_status(all[i].spec, arena, &values);
		values.allocation.addresses = all[i].saved->values.allocation.addresses;
		keep_unclaimed(&adoption, /*spec=*/NULL, &values.allocation);
		adopt_values(&adoption, &all[i], &values);
	}
	map_fini(&adoption.holders);
	for (size_t i = 0; i < n_saved; i++)
		keep_orphan(state, saved[i]);
	cl_records_free(saved, n_saved);
	return state->is_read_only || cl_state_commit(state, err);
}

/* ---- for readers ---- */

struct cl_record *
cl_state_get(struct cl_state *s, struct str uid)
{
	struct cl_record *record;
	WITH_LOCK(&s->mu);

	record = map_get(&s->records, uid);
	return record ? cl_record_ref(record) : NULL;
}

/* Read together: HAProxy's file is then known to have all changes up to the version. */
struct cl_record **
cl_state_list(struct cl_state *s, size_t *ret_n, uint64_t *ret_version)
{
	WITH_LOCK(&s->mu);

	*ret_version = s->version;
	return cl_state_sorted(s, /*is_next=*/false, ret_n);
}

uint64_t
cl_state_version(struct cl_state *s, bool *ret_is_busy)
{
	WITH_LOCK(&s->mu);

	if (ret_is_busy)
		*ret_is_busy = s->n_changing > 0;
	return s->version;
}
