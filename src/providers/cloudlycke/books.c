/* books.c: see books.h. */
#include "providers/cloudlycke/books.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/event_kind.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "providers/cloudlycke/ledger.h"
#include "providers/cloudlycke/quote.h"

EVENT_KIND(
	conflict_event, "cloud-controller-manager", "AddressConflict", true, "Service",
	"cloudlycke: another Service has the address in its status as well, and keeps it; this one is given another.");

struct cl_books {
	const struct cloud_host *host;
	struct cl_ledger ledger; /* with the lock of all that follows */
	bool has_waiting;        /* a Service got no address because others have them */
	uint64_t n_freed_seen;   /* of the ledger's, when those who wait were woken last */
};

/* ---- life cycle -------------------------------------------------------------------------------------- */

struct cl_books *
cl_books_new(struct cl_state *state, const struct cloud_host *host)
{
	struct cl_books *books = xcalloc(1, sizeof(*books));

	books->host = host;
	cl_ledger_init(&books->ledger, state, host->clock);
	return books;
}

void
cl_books_free(struct cl_books *books)
{
	if (!books)
		return;
	cl_ledger_fini(&books->ledger);
	free(books);
}

/* ---- with the lock held: changes --------------------------------------------------------------------- */

/* Services that were refused an address may have it now. */
static void
wake_waiting(struct cl_books *books)
{
	bool is_freed = books->ledger.n_freed != books->n_freed_seen;

	books->n_freed_seen = books->ledger.n_freed;
	if (!books->has_waiting || !is_freed)
		return;
	books->has_waiting = false;
	books->host->wake(books->host, HOST_WAKE_SERVICE, STR_EMPTY);
}

static bool
change(struct cl_books *books, struct str uid, struct cl_record *record, bool is_visible,
       struct error *err)
{
	bool is_done = cl_ledger_change(&books->ledger, uid, record, is_visible, err);

	wake_waiting(books);
	return is_done;
}

/* The same nodes are kept in memory once. */
static struct cl_targets *
intern(struct cl_books *books, struct cl_targets *targets)
{
	const struct cl_record **all;
	size_t n;

	all = cl_ledger_all(&books->ledger, &n);
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

/* Keeps generation and hook of what was before, if that is all there is to keep. */
static bool
commit(struct cl_books *books, struct cl_record *draft, struct cl_record *before,
       struct cl_record **ret, struct error *err)
{
	CLEANUP(cl_record_unrefp) struct cl_record *record = NULL;

	draft->generation = before ? before->generation : 0;
	draft->hook_generation = before ? before->hook_generation : 0;
	draft->hook_error = before ? before->hook_error : STR_EMPTY;
	if (before && cl_record_eq(draft, before)) {
		*ret = cl_record_ref(before);
		return true;
	}
	draft->generation++;
	record = cl_record_new(draft);
	if (!change(books, record->holding.uid, cl_record_ref(record), /*is_visible=*/true, err))
		return false;
	*ret = TAKE(record);
	return true;
}

/* ---- ensuring ---------------------------------------------------------------------------------------- */

static const struct cl_holding **
holdings(struct cl_books *books, struct arena *arena, size_t *ret_n)
{
	const struct cl_record **all = cl_ledger_all(&books->ledger, ret_n);
	const struct cl_holding **held = arena_calloc(arena, *ret_n + 1, sizeof(*held));

	for (size_t i = 0; i < *ret_n; i++)
		held[i] = &all[i]->holding;
	free(all);
	return held;
}

static void
log_left(const struct cl_record *before, const struct ip *ip, struct str pool, bool is_listed,
         struct arena *arena)
{
	char memory[64] = "";
	struct buf text = BUF_FIXED(memory), line = BUF_INIT(KIB(2));

	ip_format(&text, ip);
	buf_add_c(&line, "load balancer ");
	cl_quote(&line, before->name);
	buf_addf(&line, ": address %s %s pool %s; reallocating", text.ptr,
	         is_listed ? "is reserved in" : "left", cl_q(arena, pool));
	log_info(line.ptr, LOG_STR("service", before->holding.service),
	         LOG_STR("namespace", before->holding.namespace));
	buf_fini(&line);
}

static void
log_moves(const struct cl_record *before, const struct cl_record *draft, const struct cl_pool *pool,
          struct arena *arena)
{
	for (size_t i = 0; i < before->holding.n_addresses; i++) {
		const struct ip *ip = &before->holding.addresses[i];
		bool is_avoided;

		if (!cl_holding_has(&draft->holding, ip) && !cl_pool_has(pool, ip, &is_avoided))
			log_left(before, ip, before->pool.len > 0 ? before->pool : pool->name,
			         is_avoided, arena);
	}
}

static bool
allocate(struct cl_books *books, const struct cl_request *request, const struct cl_record *before,
         struct arena *arena, struct cl_record *draft, struct error *err)
{
	struct cl_wish wish = request->wish;
	const struct cl_holding **others;
	struct cl_grant grant;
	bool is_full;
	size_t n;

	wish.self = request->draft.holding;
	if (before) {
		memcpy(wish.self.addresses, before->holding.addresses, sizeof(wish.self.addresses));
		wish.self.n_addresses = before->holding.n_addresses;
	}
	others = holdings(books, arena, &n);
	if (!cl_allocate(&wish, others, n, arena, &grant, &is_full, err)) {
		books->has_waiting = books->has_waiting || is_full;
		return false;
	}
	memcpy(draft->holding.addresses, grant.addresses, sizeof(grant.addresses));
	draft->holding.n_addresses = grant.n_addresses;
	return true;
}

bool
cl_books_ensure(struct cl_books *books, const struct cl_request *request,
                const struct node_ref nodes[], size_t n_nodes, struct arena *arena,
                struct cl_record **ret, struct error *err)
{
	CLEANUP(cl_targets_unrefp) struct cl_targets *targets = cl_targets_new(nodes, n_nodes);
	struct cl_record draft = request->draft, *before;
	WITH_LOCK(&books->ledger.mu);

	before = cl_ledger_get(&books->ledger, draft.holding.uid);
	if (!allocate(books, request, before, arena, &draft, err))
		return false;
	targets = intern(books, targets);
	draft.targets = targets;
	if (before)
		log_moves(before, &draft, request->wish.pool, arena);
	return commit(books, &draft, before, ret, err);
}

bool
cl_books_retarget(struct cl_books *books, struct str uid, const struct node_ref nodes[],
                  size_t n_nodes, struct cl_record **ret, struct error *err)
{
	CLEANUP(cl_targets_unrefp) struct cl_targets *targets = cl_targets_new(nodes, n_nodes);
	struct cl_record draft, *before;
	WITH_LOCK(&books->ledger.mu);

	before = cl_ledger_get(&books->ledger, uid);
	if (!before || before->is_deleting)
		return err_set(err, ERR_NOT_FOUND, "there is no load balancer yet");
	targets = intern(books, targets);
	draft = cl_record_draft(before);
	draft.targets = targets;
	return commit(books, &draft, before, ret, err);
}

/* ---- its end ----------------------------------------------------------------------------------------- */

bool
cl_books_condemn(struct cl_books *books, struct str uid, struct cl_record **ret, struct error *err)
{
	struct cl_record draft, *before;
	WITH_LOCK(&books->ledger.mu);

	before = cl_ledger_get(&books->ledger, uid);
	if (!before) {
		*ret = NULL;
		return true;
	}
	draft = cl_record_draft(before);
	draft.is_deleting = true;
	return commit(books, &draft, before, ret, err);
}

bool
cl_books_drop(struct cl_books *books, struct str uid, struct error *err)
{
	WITH_LOCK(&books->ledger.mu);

	if (!cl_ledger_get(&books->ledger, uid))
		return true;
	return change(books, uid, NULL, /*is_visible=*/true, err);
}

/* Only a later run could have changed the record meanwhile, and there is none while this one goes on. */
bool
cl_books_note_hook(struct cl_books *books, const struct cl_record *record, struct str error,
                   struct error *err)
{
	struct cl_record draft = cl_record_draft(record);
	WITH_LOCK(&books->ledger.mu);

	draft.hook_generation = record->generation;
	draft.hook_error = error;
	return change(books, record->holding.uid, cl_record_new(&draft), /*is_visible=*/false, err);
}

/* ---- after a start ----------------------------------------------------------------------------------- */

static int
by_uid(const void *a, const void *b)
{
	const struct lb_spec *const *x = a, *const *y = b;

	return str_cmp((*x)->uid, (*y)->uid);
}

static const struct lb_spec **
sorted(const struct lb_spec *const specs[], size_t n, struct arena *arena)
{
	const struct lb_spec **all = arena_calloc(arena, n + 1, sizeof(*all));

	for (size_t i = 0; i < n; i++)
		all[i] = specs[i];
	qsort(all, n, sizeof(all[0]), by_uid);
	return all;
}

static void
tell_conflict(struct cl_books *books, const struct lb_spec *spec, const struct ip *ip,
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
	books->host->service_event(books->host, spec, HOST_EVENT_WARNING, conflict_event.reason,
	                           buf_str(&text));
}

static bool
claims(const struct cl_holding *other, const struct cl_holding *self, const struct ip *ip)
{
	return !str_eq(other->uid, self->uid) && cl_holding_has(other, ip) &&
	       !cl_may_share(self, other, NULL);
}

static const struct cl_holding *
holder_of(const struct cl_books *books, const struct cl_holding *self, const struct ip *ip)
{
	const struct cl_holding *found = NULL;
	const struct cl_record **all;
	size_t n;

	all = cl_ledger_all(&books->ledger, &n);
	for (size_t i = 0; i < n && !found; i++)
		found = claims(&all[i]->holding, self, ip) ? &all[i]->holding : NULL;
	free(all);
	return found;
}

/* Leaves what nobody else has. spec NULL: nobody is to be told. */
static void
keep_unclaimed(struct cl_books *books, const struct lb_spec *spec, struct cl_holding *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_addresses; i++) {
		const struct ip ip = h->addresses[i];
		const struct cl_holding *holder = holder_of(books, h, &ip);

		if (!holder)
			h->addresses[n++] = ip;
		else if (spec)
			tell_conflict(books, spec, &ip, holder);
	}
	h->n_addresses = n;
}

static bool
addresses_eq(const struct cl_holding *a, const struct cl_holding *b)
{
	bool is_eq = a->n_addresses == b->n_addresses;

	for (size_t i = 0; is_eq && i < a->n_addresses; i++)
		is_eq = ip_eq(&a->addresses[i], &b->addresses[i]);
	return is_eq;
}

/* What hooks were told of it last, with the addresses that the Service has now. */
static void
recall_memory(const struct cl_record *memory, struct cl_record *draft)
{
	struct cl_holding now = draft->holding;

	*draft = cl_record_draft(memory);
	if (addresses_eq(&memory->holding, &now))
		return;
	memcpy(draft->holding.addresses, now.addresses, sizeof(now.addresses));
	draft->holding.n_addresses = now.n_addresses;
	draft->generation++;
}

static void
adopt_one(struct cl_books *books, const struct lb_spec *spec, const struct cl_record *memory,
          struct cl_targets *targets, struct arena *arena)
{
	struct cl_record draft;

	cl_request_recall(spec, arena, &draft);
	keep_unclaimed(books, spec, &draft.holding);
	draft.targets = targets;
	draft.generation = 1;
	if (memory)
		recall_memory(memory, &draft);
	if (draft.holding.n_addresses > 0)
		cl_ledger_set(&books->ledger, cl_record_new(&draft));
}

/* A Service without an address in its status may have been given one that was not told any more. */
static void
adopt_untold(struct cl_books *books, const struct cl_record *memory)
{
	struct cl_record draft = cl_record_draft(memory);

	if (cl_ledger_get(&books->ledger, memory->holding.uid))
		return;
	keep_unclaimed(books, /*spec=*/NULL, &draft.holding);
	if (!addresses_eq(&draft.holding, &memory->holding))
		draft.generation++;
	cl_ledger_set(&books->ledger, cl_record_new(&draft));
}

static struct cl_targets *
all_nodes(struct cl_books *books, struct arena *arena)
{
	struct node_ref *nodes = NULL;
	size_t n = 0;

	books->host->nodes(books->host, arena, &nodes, &n);
	return cl_targets_new(nodes, n);
}

static const struct cl_record *
memory_of(struct cl_record *const records[], size_t n, struct str uid)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq(records[i]->holding.uid, uid))
			return records[i];
	}
	return NULL;
}

/* Whose Service is gone though its finalizer should have kept it: the API server's data may have been lost, so what is there
 * goes on, and its address is given to nobody. */
static void
log_orphans(struct cl_record *const records[], size_t n, const struct lb_spec *const specs[],
            size_t n_specs)
{
	for (size_t i = 0; i < n; i++) {
		bool is_known = false;

		for (size_t k = 0; k < n_specs && !is_known; k++)
			is_known = str_eq(specs[k]->uid, records[i]->holding.uid);
		if (!is_known)
			log_warn(
				"a load balancer in the state file belongs to no service: leaving it "
				"alone; to free its addresses, remove it from the file while ccmd is stopped",
				LOG_STR("load_balancer", records[i]->name),
				LOG_STR("namespace", records[i]->holding.namespace),
				LOG_STR("service", records[i]->holding.service));
	}
}

static void
free_records(struct cl_record **records, size_t n)
{
	for (size_t i = 0; i < n; i++)
		cl_record_unref(records[i]);
	free(records);
}

bool
cl_books_adopt(struct cl_books *books, const struct lb_spec *const specs[], size_t n,
               struct arena *arena, struct error *err)
{
	CLEANUP(cl_targets_unrefp) struct cl_targets *targets = NULL;
	const struct lb_spec **all = sorted(specs, n, arena);
	struct cl_record **memories;
	size_t n_memories;
	WITH_LOCK(&books->ledger.mu);

	if (!cl_state_lock(books->ledger.state, err) ||
	    !cl_state_read(books->ledger.state, &memories, &n_memories, err))
		return false;
	cl_ledger_clear(&books->ledger);
	targets = all_nodes(books, arena);
	for (size_t i = 0; i < n; i++)
		if (all[i]->status.n_ingress > 0)
			adopt_one(books, all[i], memory_of(memories, n_memories, all[i]->uid),
			          targets, arena);
	for (size_t i = 0; i < n_memories; i++)
		adopt_untold(books, memories[i]);
	log_orphans(memories, n_memories, specs, n);
	free_records(memories, n_memories);
	books->ledger.version++;
	return cl_ledger_save(&books->ledger, err);
}

/* ---- for those who look at all ----------------------------------------------------------------------- */

static int
by_name(const void *a, const void *b)
{
	const struct cl_record *const *x = a, *const *y = b;

	return str_cmp((*x)->name, (*y)->name);
}

struct cl_record **
cl_books_list(struct cl_books *books, size_t *ret_n, uint64_t *ret_version)
{
	struct cl_record **all;
	WITH_LOCK(&books->ledger.mu);

	all = cl_ledger_list(&books->ledger, ret_n);
	qsort(all, *ret_n, sizeof(struct cl_record *), by_name);
	*ret_version = books->ledger.version;
	return all;
}

uint64_t
cl_books_version(struct cl_books *books, bool *ret_is_busy)
{
	WITH_LOCK(&books->ledger.mu);

	*ret_is_busy = cl_ledger_is_busy(&books->ledger);
	return books->ledger.version;
}
