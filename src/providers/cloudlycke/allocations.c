/* allocations.c: see allocations.h.
 *
 * An allocation holds one lock, that of the state, while it looks at all records (also those that
 * are being written), chooses addresses, and begins its change. The lock is released only while the
 * file is written. So two Services never choose the same free address, and after a failed write the
 * address is free again.
 */
#include "providers/cloudlycke/allocations.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/event_kind.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/thread.h"
#include "providers/cloudlycke/haproxy.h"

EVENT_KIND(
	conflict_event, "cloud-controller-manager", "AddressConflict", true, "Service",
	"cloudlycke: another Service has the same address in its status and keeps it; this Service gets another address.");

EVENT_KIND(
	no_pool_event, "cloud-controller-manager", "AddressNotInPool", true, "Service",
	"cloudlycke: an address of the Service is in no pool that it may use. An address that ccmd allocated is replaced; any other is not served, and stays in the status until another one is allocated.");

enum {
	FILE_HEAD = 16384, /* for what HAProxy's file has besides the Services */
};

struct cl_allocations {
	const struct cloud_host *host;
	struct cl_state *state; /* its lock is the lock of all that follows */
	bool has_hook, has_haproxy;
	bool has_waiting;      /* a Service was refused because of what others have */
	uint64_t n_freed_seen; /* the state's n_freed when waiting Services were last requeued */
};

/* ---- life cycle ---- */

struct cl_allocations *
cl_allocations_new(struct cl_state *state, bool has_hook, bool has_haproxy,
                   const struct cloud_host *host)
{
	struct cl_allocations *allocations = xcalloc(1, sizeof(*allocations));

	allocations->host = host;
	allocations->state = state;
	allocations->has_hook = has_hook;
	allocations->has_haproxy = has_haproxy;
	return allocations;
}

void
cl_allocations_free(struct cl_allocations *allocations)
{
	free(allocations);
}

/* ---- with the lock held: changes ---- */

/* Services that were refused an address may have it now. */
static void
requeue_waiting(struct cl_allocations *allocations)
{
	bool is_freed = allocations->state->n_freed != allocations->n_freed_seen;

	allocations->n_freed_seen = allocations->state->n_freed;
	if (!allocations->has_waiting || !is_freed)
		return;
	allocations->has_waiting = false;
	allocations->host->requeue(allocations->host, HOST_REQUEUE_SERVICES, STR_EMPTY);
}

static bool
change_record(struct cl_allocations *allocations, struct str uid, struct cl_record *record,
              struct error *err)
{
	bool is_done = cl_state_change(allocations->state, uid, record, err);

	requeue_waiting(allocations);
	return is_done;
}

/* Balancers with the same nodes share one list of them in memory. */
static struct cl_targets *
share_targets(struct cl_allocations *allocations, struct cl_targets *targets)
{
	const struct cl_record **all;
	size_t n;

	all = cl_state_all(allocations->state, &n);
	for (size_t i = 0; i < n; i++) {
		if (cl_targets_eq(all[i]->targets, targets)) {
			cl_targets_unref(targets);
			targets = cl_targets_ref(all[i]->targets);
			break;
		}
	}
	free(all);
	return targets;
}

/* The bytes of HAProxy's file that other Services may take. One whose change is being written has
 * two records, which follow each other: the larger one counts. */
static size_t
size_of_others(const struct cl_allocations *allocations, struct str uid)
{
	const struct cl_record **all, *last = NULL;
	size_t n, size = 0;

	all = cl_state_all(allocations->state, &n);
	for (size_t i = 0; i < n; last = all[i++]) {
		bool is_next = last && str_eq(last->holding.uid, all[i]->holding.uid);
		size_t counted = is_next ? last->file_size : 0;

		if (!str_eq(all[i]->holding.uid, uid) && all[i]->file_size > counted)
			size += all[i]->file_size - counted;
	}
	free(all);
	return size;
}

/* A Service that has its place in HAProxy's file keeps it: what does not fit is refused, be it a
 * new Service or a change. */
static bool
fit_file(struct cl_allocations *allocations, struct cl_record *draft, struct error *err)
{
	size_t others;

	draft->is_left_out = false;
	draft->file_size = allocations->has_haproxy ? cl_haproxy_size(draft) : 0;
	if (draft->file_size == 0)
		return true;
	others = size_of_others(allocations, draft->holding.uid);
	if (others + draft->file_size + FILE_HEAD <= LIMIT_HAPROXY_FILE)
		return true;
	allocations->has_waiting = true;
	return err_set(err, ERR_INVALID,
	               "HAProxy's configuration has no room for this Service: it would take up to "
	               "%zu bytes, other Services take %zu, and all together may take %zu; use "
	               "fewer ports, source ranges or nodes, the load balancer stays as it is "
	               "until then",
	               draft->file_size, others, LIMIT_HAPROXY_FILE - FILE_HEAD);
}

/* Makes the draft the record of its Service, unless it equals the record before. Where there is a
 * hook, and its input is another than the last, a new generation begins: it is written before the
 * hook is run, so that a hook which a crash interrupts is run again. */
static bool
commit_draft(struct cl_allocations *allocations, struct cl_record *draft, struct cl_record *before,
             struct cl_record **ret, struct error *err)
{
	CLEANUP(cl_record_unrefp) struct cl_record *record = NULL;

	draft->input = cl_record_hash(draft);
	draft->hook = before ? before->hook : (struct cl_progress){ .error = STR_EMPTY };
	if (allocations->has_hook && draft->hook.input != draft->input) {
		draft->hook.input = draft->input;
		draft->hook.generation++;
	} else if (before && before->input == draft->input) {
		*ret = cl_record_ref(before);
		return true;
	}
	record = cl_record_new(draft);
	if (!change_record(allocations, record->holding.uid, cl_record_ref(record), err))
		return false;
	*ret = TAKE(record);
	return true;
}

/* ---- ensuring ---- */

static const struct cl_holding **
all_holdings(struct cl_allocations *allocations, struct arena *arena, size_t *ret_n)
{
	const struct cl_record **all = cl_state_all(allocations->state, ret_n);
	const struct cl_holding **held = arena_calloc(arena, *ret_n + 1, sizeof(*held));

	for (size_t i = 0; i < *ret_n; i++)
		held[i] = &all[i]->holding;
	free(all);
	return held;
}

static void
report_left(struct cl_allocations *allocations, const struct cl_record *before, const struct ip *ip,
            struct str pool, bool is_listed, struct arena *arena)
{
	char memory[64] = "";
	struct buf text = BUF_FIXED(memory);
	CLEANUP(buf_fini) struct buf line = BUF_INIT(LIMIT_EVENT_MESSAGE);
	const struct lb_spec about = { .namespace = before->holding.namespace,
		                       .service = before->holding.service,
		                       .uid = before->holding.uid };

	ip_format(&text, ip);
	buf_add_c(&line, "load balancer ");
	quote_add(&line, before->name);
	buf_addf(&line, ": address %s %s pool %s; reallocating", text.ptr,
	         is_listed ? "is reserved in" : "left", quote_z(arena, pool));
	log_info(line.ptr, LOG_STR("service", before->holding.service),
	         LOG_STR("namespace", before->holding.namespace));
	allocations->host->service_event(allocations->host, &about, HOST_EVENT_WARNING,
	                                 no_pool_event.reason, buf_str(&line));
}

static void
report_moves(struct cl_allocations *allocations, const struct cl_record *before,
             const struct cl_record *after, const struct cl_pool *pool, struct arena *arena)
{
	for (size_t i = 0; i < before->holding.n_addresses; i++) {
		const struct ip *ip = &before->holding.addresses[i];
		bool is_avoided;

		if (!cl_holding_has(&after->holding, ip) && !cl_pool_has(pool, ip, &is_avoided))
			report_left(allocations, before, ip,
			            before->pool.len > 0 ? before->pool : pool->name, is_avoided,
			            arena);
	}
}

static bool
allocate_addresses(struct cl_allocations *allocations, const struct cl_request *request,
                   const struct cl_record *before, struct arena *arena, struct cl_record *draft,
                   struct error *err)
{
	struct cl_desired desired = request->desired;
	const struct cl_holding **others;
	struct cl_grant grant;
	bool is_full;
	size_t n;

	desired.self = request->draft.holding;
	if (before) {
		memcpy(desired.self.addresses, before->holding.addresses,
		       sizeof(desired.self.addresses));
		desired.self.n_addresses = before->holding.n_addresses;
	}
	others = all_holdings(allocations, arena, &n);
	if (!cl_allocate(&desired, others, n, arena, &grant, &is_full, err)) {
		allocations->has_waiting = allocations->has_waiting || is_full;
		return false;
	}
	memcpy(draft->holding.addresses, grant.addresses, sizeof(grant.addresses));
	draft->holding.n_addresses = grant.n_addresses;
	return true;
}

bool
cl_allocations_ensure(struct cl_allocations *allocations, const struct cl_request *request,
                      const struct node_ref nodes[], size_t n_nodes, struct arena *arena,
                      struct cl_record **ret, struct error *err)
{
	CLEANUP(cl_targets_unrefp) struct cl_targets *targets = cl_targets_new(nodes, n_nodes);
	CLEANUP(cl_record_unrefp) struct cl_record *before = NULL;
	struct cl_record draft = request->draft;
	WITH_LOCK(&allocations->state->mu);

	before = cl_state_get(allocations->state, draft.holding.uid);
	before = before ? cl_record_ref(before)
	                : NULL; /* kept: it is compared with its replacement */
	if (!allocate_addresses(allocations, request, before, arena, &draft, err))
		return false;
	targets = share_targets(allocations, targets);
	draft.targets = targets;
	if (!fit_file(allocations, &draft, err) ||
	    !commit_draft(allocations, &draft, before, ret, err))
		return false;
	if (before)
		report_moves(allocations, before, *ret, request->desired.pool, arena);
	return true;
}

bool
cl_allocations_foresee(struct cl_allocations *allocations, const struct cl_request *request,
                       const struct lb_spec *spec, struct arena *arena, struct cl_grant *ret_before,
                       struct cl_record **ret, struct error *err)
{
	CLEANUP(cl_targets_unrefp)
	struct cl_targets *targets = cl_targets_new(spec->nodes, spec->n_nodes);
	struct cl_record draft = request->draft, before, known;
	const struct cl_record *written;
	WITH_LOCK(&allocations->state->mu);

	written = cl_state_get(allocations->state, spec->uid);
	known = written ? cl_record_draft(written) : request->draft;
	cl_request_recall(spec, arena, &before);
	if (before.holding.n_addresses == 0)
		before.holding = known.holding;
	if (!allocate_addresses(allocations, request, &before, arena, &draft, err))
		return false;
	draft.targets = targets;
	if (!fit_file(allocations, &draft, err))
		return false;
	draft.input = cl_record_hash(&draft);
	draft.hook = known.hook;
	if (draft.hook.input != draft.input) {
		draft.hook.input = draft.input;
		draft.hook.generation++;
	}
	ret_before->n_addresses = before.holding.n_addresses;
	memcpy(ret_before->addresses, before.holding.addresses, sizeof(ret_before->addresses));
	*ret = cl_record_new(&draft);
	return true;
}

struct cl_record *
cl_allocations_get(struct cl_allocations *allocations, struct str uid)
{
	struct cl_record *record;
	WITH_LOCK(&allocations->state->mu);

	record = cl_state_get(allocations->state, uid);
	return record ? cl_record_ref(record) : NULL;
}

bool
cl_allocations_retarget(struct cl_allocations *allocations, struct str uid,
                        const struct node_ref nodes[], size_t n_nodes, struct cl_record **ret,
                        struct error *err)
{
	CLEANUP(cl_targets_unrefp) struct cl_targets *targets = cl_targets_new(nodes, n_nodes);
	struct cl_record draft, *before;
	WITH_LOCK(&allocations->state->mu);

	before = cl_state_get(allocations->state, uid);
	if (!before || before->is_deleting || before->holding.is_orphan)
		return err_set(err, ERR_NOT_FOUND, "there is no load balancer yet");
	targets = share_targets(allocations, targets);
	draft = cl_record_draft(before);
	draft.targets = targets;
	return fit_file(allocations, &draft, err) &&
	       commit_draft(allocations, &draft, before, ret, err);
}

/* ---- deleting ---- */

bool
cl_allocations_mark_deleting(struct cl_allocations *allocations, struct str uid,
                             struct cl_record **ret, struct error *err)
{
	struct cl_record draft, *before;
	WITH_LOCK(&allocations->state->mu);

	before = cl_state_get(allocations->state, uid);
	if (!before) {
		*ret = NULL;
		return true;
	}
	draft = cl_record_draft(before);
	draft.is_deleting = true;
	draft.file_size = 0;
	return commit_draft(allocations, &draft, before, ret, err);
}

bool
cl_allocations_remove(struct cl_allocations *allocations, struct str uid, struct error *err)
{
	WITH_LOCK(&allocations->state->mu);

	if (!cl_state_get(allocations->state, uid))
		return true;
	return change_record(allocations, uid, NULL, err);
}

/* The record cannot have changed meanwhile: for one Service, calls are made one after the other. */
bool
cl_allocations_set_hook_result(struct cl_allocations *allocations, const struct cl_record *record,
                               struct str error, struct error *err)
{
	struct cl_record draft = cl_record_draft(record);
	WITH_LOCK(&allocations->state->mu);

	draft.hook.done = record->hook.generation;
	draft.hook.error = error;
	return change_record(allocations, record->holding.uid, cl_record_new(&draft), err);
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
	return c->saved && cl_holding_has(&c->saved->holding, ip);
}

static enum claim_rank
rank_of(const struct claim *c)
{
	struct ip ip;

	if (c->spec->is_leaving)
		return CLAIM_LEAVING;
	for (size_t i = 0; i < c->spec->status.n_ingress; i++) {
		if (ip_parse(c->spec->status.ingress[i].ip, &ip) && is_saved(c, &ip))
			return CLAIM_SAVED;
	}
	return CLAIM_STATUS;
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
		all[i].spec = specs[i];
		all[i].saved = cl_state_get(state, specs[i]->uid);
		all[i].rank = rank_of(&all[i]);
	}
	qsort(all, n, sizeof(all[0]), by_rank);
	return all;
}

/* The Services that have an address already, while all are adopted one after the other. */
struct holder {
	const struct cl_holding *holding;
	const struct holder *next; /* shares the address with it */
};

struct adoption {
	struct cl_targets *targets; /* of all balancers */
	struct map holders;         /* by address; the keys are in the holdings */
	struct arena *arena;
};

/* Called once for a Service, however many addresses its status has: a user who may write one may
 * write thousands. */
static void
report_no_pool(struct cl_allocations *allocations, const struct cl_schema *schema,
               const struct lb_spec *spec, const struct ip *ip, struct arena *arena)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_EVENT_MESSAGE);
	const struct cl_pool *pool;
	struct error err;

	buf_add_c(&text, "address ");
	ip_format(&text, ip);
	buf_add_c(&text, " in the status is in no pool that this Service may use: it is not "
	                 "served, and stays there until an address ");
	if (cl_request_pool(schema, spec, arena, &pool, &err))
		buf_addf(&text, "of pool %s is allocated", quote_z(arena, pool->name));
	else
		buf_addf(&text, "is allocated: %s", err.msg);
	log_warn("an address in the status of a service is in no pool",
	         LOG_STR("service", spec->service), LOG_STR("namespace", spec->namespace),
	         LOG_STR("why", buf_str(&text)));
	allocations->host->service_event(allocations->host, spec, HOST_EVENT_WARNING,
	                                 no_pool_event.reason, buf_str(&text));
}

/* A user who may patch a status could otherwise have any address served, even the host's own one.
 * So only addresses are taken over that a pool could have given to the Service, or that the state
 * file has for it, because these may have left their pool while ccmd was stopped. */
static struct lb_status
trusted_status(struct cl_allocations *allocations, const struct cl_schema *schema,
               const struct claim *c, struct arena *arena)
{
	const struct lb_status *status = &c->spec->status;
	struct lb_status trusted = { .n_ingress = 0 };
	bool is_reported = c->spec->is_leaving; /* no event, because it gets no other address */
	struct ip ip;

	trusted.ingress = arena_calloc(arena, status->n_ingress, sizeof(trusted.ingress[0]));
	for (size_t i = 0; i < status->n_ingress; i++) {
		if (!ip_parse(status->ingress[i].ip, &ip))
			continue;
		if (cl_request_could_have(schema, c->spec->namespace, &ip) || is_saved(c, &ip)) {
			trusted.ingress[trusted.n_ingress++] = status->ingress[i];
		} else if (!is_reported) {
			report_no_pool(allocations, schema, c->spec, &ip, arena);
			is_reported = true;
		}
	}
	return trusted;
}

static void
report_conflict(struct cl_allocations *allocations, const struct lb_spec *spec, const struct ip *ip,
                const struct cl_holding *holder)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(LIMIT_EVENT_MESSAGE);

	buf_add_c(&text, "address ");
	ip_format(&text, ip);
	buf_addf(&text,
	         " is in the status of %" STR_FMT "/%" STR_FMT
	         " as well, which keeps it: another one is given here",
	         STR_ARG(holder->namespace), STR_ARG(holder->service));
	log_warn("two services have one address", LOG_STR("service", spec->service),
	         LOG_STR("namespace", spec->namespace), LOG_STR("why", buf_str(&text)));
	allocations->host->service_event(allocations->host, spec, HOST_EVENT_WARNING,
	                                 conflict_event.reason, buf_str(&text));
}

static struct str
address_key(const struct ip *ip)
{
	return str_n((const char *)ip->bytes, sizeof(ip->bytes));
}

/* The Service that has the address and does not share it with `self`; NULL: none. */
static const struct cl_holding *
holder_of(const struct adoption *adoption, const struct cl_holding *self, const struct ip *ip)
{
	const struct holder *holder = map_get(&adoption->holders, address_key(ip));

	for (; holder; holder = holder->next) {
		if (!str_eq(holder->holding->uid, self->uid) &&
		    !cl_may_share(self, holder->holding, NULL))
			return holder->holding;
	}
	return NULL;
}

/* The holding is that of a record of the state. */
static void
note_holder(struct adoption *adoption, const struct cl_holding *holding)
{
	for (size_t i = 0; i < holding->n_addresses; i++) {
		struct str key = address_key(&holding->addresses[i]);
		struct holder *holder = ARENA_NEW(adoption->arena, struct holder);

		holder->holding = holding;
		holder->next = map_get(&adoption->holders, key);
		map_put(&adoption->holders, key, holder);
	}
}

/* Removes the addresses that another Service holds. spec NULL: without an event. */
static void
keep_unclaimed(struct cl_allocations *allocations, const struct adoption *adoption,
               const struct lb_spec *spec, struct cl_holding *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_addresses; i++) {
		const struct ip ip = h->addresses[i];
		const struct cl_holding *holder = holder_of(adoption, h, &ip);

		if (!holder)
			h->addresses[n++] = ip;
		else if (spec)
			report_conflict(allocations, spec, &ip, holder);
	}
	h->n_addresses = n;
}

/* Without room in HAProxy's file the Service keeps its addresses, and is refused when it is worked
 * on. */
static void
adopt_draft(struct cl_allocations *allocations, struct adoption *adoption, const struct claim *c,
            struct cl_record *draft)
{
	struct cl_record *record;
	struct error ignored;

	draft->targets = adoption->targets;
	draft->is_left_out = !fit_file(allocations, draft, &ignored);
	if (draft->is_left_out)
		draft->file_size = 0;
	draft->input = cl_record_hash(draft);
	if (c->saved)
		draft->hook = c->saved->hook;
	record = cl_record_new(draft);
	cl_state_set(allocations->state, record);
	note_holder(adoption, &record->holding);
}

/* The Service has the addresses of its status, as far as they are trusted and no other Service has
 * them already. */
static void
adopt_status(struct cl_allocations *allocations, const struct cl_schema *schema,
             struct adoption *adoption, const struct claim *c, struct arena *arena)
{
	struct lb_spec spec = *c->spec;
	struct cl_record draft;

	spec.status = trusted_status(allocations, schema, c, arena);
	cl_request_recall(&spec, arena, &draft);
	keep_unclaimed(allocations, adoption, spec.is_leaving ? NULL : &spec, &draft.holding);
	if (draft.holding.n_addresses > 0)
		adopt_draft(allocations, adoption, c, &draft);
}

/* A Service without an address in its status may have one all the same: ccmd may have ended after
 * it had written the state file and before the status was patched. */
static void
adopt_unpublished(struct cl_allocations *allocations, struct adoption *adoption,
                  const struct claim *c, struct arena *arena)
{
	struct cl_record draft;

	if (!c->saved || cl_state_get(allocations->state, c->spec->uid))
		return;
	cl_request_recall(c->spec, arena, &draft);
	memcpy(draft.holding.addresses, c->saved->holding.addresses,
	       sizeof(draft.holding.addresses));
	draft.holding.n_addresses = c->saved->holding.n_addresses;
	keep_unclaimed(allocations, adoption, /*spec=*/NULL, &draft.holding);
	adopt_draft(allocations, adoption, c, &draft);
}

/* A record whose Service is gone although its finalizer should have kept it. The API server's data
 * may have been lost, so what the hook has set up is left alone, and the addresses stay reserved,
 * those that it shared with other Services, too. */
static void
keep_orphan(struct cl_allocations *allocations, const struct cl_record *saved)
{
	struct cl_record draft = cl_record_draft(saved);

	if (cl_state_get(allocations->state, saved->holding.uid))
		return;
	draft.holding.is_orphan = true;
	cl_state_set(allocations->state, cl_record_new(&draft));
	log_warn("a load balancer in the state file belongs to no service: leaving it alone; to "
	         "free its addresses, remove it from the file while ccmd is stopped",
	         LOG_STR("load_balancer", saved->name),
	         LOG_STR("namespace", saved->holding.namespace),
	         LOG_STR("service", saved->holding.service));
}

/* The nodes of all balancers until each Service is worked on: which of them a Service wants is not
 * known here, and HAProxy's health checks find those that do not answer. */
static struct cl_targets *
all_nodes(struct cl_allocations *allocations, struct arena *arena)
{
	struct node_ref *nodes = NULL;
	size_t n = 0;

	allocations->host->nodes(allocations->host, arena, &nodes, &n);
	return cl_targets_new(nodes, n);
}

bool
cl_allocations_adopt(struct cl_allocations *allocations, const struct cl_schema *schema,
                     const struct lb_spec *const specs[], size_t n, struct arena *arena,
                     struct error *err)
{
	CLEANUP(cl_targets_unrefp) struct cl_targets *targets = all_nodes(allocations, arena);
	struct adoption adoption = { .targets = targets, .arena = arena };
	struct cl_record **saved;
	const struct claim *all;
	size_t n_saved;

	if (!cl_state_take(allocations->state, err))
		return false;
	WITH_LOCK(&allocations->state->mu);
	saved = cl_state_list(allocations->state, &n_saved);
	all = collect_claims(allocations->state, specs, n, arena);
	cl_state_clear(allocations->state);
	for (size_t i = 0; i < n; i++)
		adopt_status(allocations, schema, &adoption, &all[i], arena);
	for (size_t i = 0; i < n; i++)
		adopt_unpublished(allocations, &adoption, &all[i], arena);
	map_fini(&adoption.holders);
	for (size_t i = 0; i < n_saved; i++)
		keep_orphan(allocations, saved[i]);
	cl_records_free(saved, n_saved);
	return cl_state_save(allocations->state, err);
}

/* ---- listing ---- */

struct cl_record **
cl_allocations_list(struct cl_allocations *allocations, size_t *ret_n, uint64_t *ret_version)
{
	WITH_LOCK(&allocations->state->mu);

	/* Read together: HAProxy's file is then known to have all changes up to the version. */
	*ret_version = allocations->state->version;
	return cl_state_list(allocations->state, ret_n);
}

uint64_t
cl_allocations_version(struct cl_allocations *allocations, bool *ret_is_busy)
{
	WITH_LOCK(&allocations->state->mu);

	*ret_is_busy = cl_state_is_busy(allocations->state);
	return allocations->state->version;
}
