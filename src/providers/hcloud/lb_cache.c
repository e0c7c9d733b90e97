/* lb_cache.c: see lb_cache.h.
 *
 * A reading is a list of balancers with the moment at which its request began. It is
 *
 * 	pending   no request was sent yet; callers may join, and widen its scope
 * 	running   one thread sends its request; the reading does not change for others
 * 	filed     it was successful, and answers later calls: one for all balancers (`all`), and one
 * 	          for each Service that a reading of some Services was for
 *
 * At most one reading is running. Callers that come meanwhile join the pending one, because the
 * running one may have begun before the change that they want to see. When the running one is done,
 * one of the threads that joined the pending one sends its request, for all of them.
 *
 * A list of all balancers takes a request for each page of them, and answers for ten seconds; a
 * reading of some Services takes one request. So a list of all is read where later calls will
 * probably use it: callers only want to see again what they have seen, as they do when the nodes
 * change, and all balancers are on a few pages. Callers that look for a balancer that may not
 * exist, or for their own change, need a reading of their own time. With a list of all, the
 * requests for many new Services would grow with the square of their number.
 *
 * Calls, readings and our own changes are ordered by one counter (`now`), because two of them may
 * have the same time on a clock. A reading may answer a call only if it began after our last change
 * of the balancer.
 */
#include "providers/hcloud/lb_cache.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/single_flight.h"
#include "base/watchdog.h"
#include "base/thread.h"
#include "cloud/host.h"
#include "providers/hcloud/api.h"

/* how long a reading is used: other clients rarely change balancers */
#define RECENT_NS (10 * NS_PER_SEC)
/* At start one list serves all Services; this is how long their first runs may take. */
#define ADOPTED_NS (60 * NS_PER_SEC)
/* The event rate limit of one object permits one event in this time. */
#define REPORT_NS (300 * NS_PER_SEC)
/* An action that is kept for longer is stuck. */
#define ACTION_MAX_NS (300 * NS_PER_SEC)

enum {
	UIDS_MAX = 25,         /* in one request; more callers read all balancers */
	ALL_MAX = 5 * HZ_PAGE, /* Services: with more, their balancers are too many pages */
};

enum reading_scope {
	SCOPE_ONE,  /* the balancer with one id */
	SCOPE_UIDS, /* the balancers with the UIDs of one or several Services */
	SCOPE_ALL,
};

struct hz_reading {
	unsigned n_refs;          /* mu of the cache's flight */
	uint64_t run;             /* its number among the flight's runs */
	enum reading_scope scope; /* mu while pending; then fixed, as is all that follows */
	bool is_adoption;
	struct arena arena;
	struct str uids; /* mu while pending; separated by commas; not of SCOPE_ALL */
	size_t n_uids;
	bool is_repeated; /* mu while pending; a caller wants to see again what was read before */
	int64_t id;       /* of SCOPE_ONE: the balancer that the Service is known to have */
	uint64_t began;   /* cache.now when its request began */
	int64_t began_ns; /* mono; for its age */
	bool is_good;
	struct hz_lb_list list; /* if is_good */
	struct error error;     /* if not */
};

/* What is known of a Service. */
struct entry {
	struct str uid;
	char *key; /* "namespace/name"; NULL: not known, because it was never tracked */
	struct hz_service_state state;
	int64_t id;              /* of its balancer; 0: not known */
	uint64_t changed;        /* cache.now when we changed its balancer last */
	int64_t action_began_ns; /* of state.action, on the clock of hz_api_uptime_ns() */
	struct {
		uint64_t what;
		int64_t again_ns; /* mono; 0: immediately */
	} notices[HZ_NOTICES];
	struct hz_reading *reading; /* the last one of its own, not `all`; NULL: none */
};

struct hz_lb_cache {
	struct hz_api *api;
	struct clock *clock;
	struct single_flight flight; /* one reading at a time; its mu protects all that follows */
	uint64_t now;                /* mu; counts calls, readings and changes */
	struct map entries;          /* mu; by UID */
	/* mu; by namespace and name: the entry of the Service that has them now */
	struct map by_key;
	struct hz_reading *pending; /* mu; a reference */
	struct hz_reading *all;     /* mu; the last list of all; NULL: none */
};

/* ---- readings: with the lock held ---- */

static struct hz_reading *
reading_ref(struct hz_reading *r)
{
	r->n_refs++;
	return r;
}

static void
reading_unref(struct hz_reading *r)
{
	if (!r || --r->n_refs > 0)
		return;
	arena_fini(&r->arena);
	free(r);
}

/* ---- entries: with the lock held ---- */

static struct entry *
entry_make(struct hz_lb_cache *c, struct str uid)
{
	return map_add(&c->entries, uid, sizeof(struct entry));
}

static void
entry_free(void *entry)
{
	struct entry *e = entry;

	reading_unref(e->reading);
	free(e->key);
	free(e);
}

/* ---- which reading answers a call; with the lock held ---- */

static bool
reading_has_uid(const struct hz_reading *r, struct str uid)
{
	struct str rest = r->uids, one;

	while (str_split(&rest, ',', &one)) {
		if (str_eq(one, uid))
			return true;
	}
	return false;
}

static size_t
reading_count(const struct hz_reading *r, struct str uid)
{
	size_t n = 0;

	for (size_t i = 0; i < r->list.n; i++)
		n += str_eq(r->list.lbs[i].uid, uid);
	return n;
}

/* NULL: the reading shows no balancer of that Service. */
static const struct hz_lb *
reading_find(const struct hz_reading *r, struct str uid)
{
	for (size_t i = 0; i < r->list.n; i++) {
		if (str_eq(r->list.lbs[i].uid, uid))
			return &r->list.lbs[i];
	}
	return NULL;
}

/* Returns true if the reading may answer the call. The absence of a balancer must have been read
 * after the call began, because the caller then creates one. */
static bool
reading_answers(const struct hz_lb_cache *c, const struct hz_reading *r, const struct entry *e,
                struct str uid, enum hz_age age, uint64_t asked)
{
	uint64_t changed = e ? e->changed : 0;

	if (!r || r->began < changed || (r->scope != SCOPE_ALL && !reading_has_uid(r, uid)))
		return false;
	/* A reading by id shows all balancers of that Service only if this one still has the label:
	 * otherwise the label may be on another balancer by now. */
	if (r->scope == SCOPE_ONE && reading_count(r, uid) == 0)
		return false;
	if (r->began > asked)
		return true;
	return age == HZ_RECENT && reading_count(r, uid) > 0 &&
	       clock_mono(c->clock) - r->began_ns <= (r->is_adoption ? ADOPTED_NS : RECENT_NS);
}

/* Both may be NULL. */
static bool
reading_is_younger(const struct hz_reading *r, const struct hz_reading *other)
{
	return r && (!other || r->began > other->began);
}

/* Of two readings that may answer, the later one is used. */
static struct hz_reading *
hz_lb_cache_find_answer(const struct hz_lb_cache *c, struct str uid, enum hz_age age,
                        uint64_t asked)
{
	const struct entry *e = map_get(&c->entries, uid);
	struct hz_reading *own = e ? e->reading : NULL;
	bool all_answers = reading_answers(c, c->all, e, uid, age, asked);

	if (reading_answers(c, own, e, uid, age, asked) &&
	    (!all_answers || reading_is_younger(own, c->all)))
		return own;
	return all_answers ? c->all : NULL;
}

/* ---- requests ---- */

/* Puts a reading in the place of an earlier one. */
static void
reading_file(struct hz_reading **place, struct hz_reading *r)
{
	reading_unref(*place);
	*place = reading_ref(r);
}

/* A list of all is as good as the readings of single Services before it, which are dropped. */
static void
hz_lb_cache_file(struct hz_lb_cache *c, struct hz_reading *r)
{
	struct str rest = r->uids, uid;
	void *value;

	if (r->scope != SCOPE_ALL) {
		while (str_split(&rest, ',', &uid))
			reading_file(&entry_make(c, uid)->reading, r);
		return;
	}
	reading_file(&c->all, r);
	for (size_t pos = 0; map_next(&c->entries, &pos, &uid, &value);)
		reading_unref(TAKE(((struct entry *)value)->reading));
}

/* Sends the requests, without the lock: no other thread touches a running reading. */
static bool
reading_run(struct hz_reading *r, struct hz_api *api, struct call *call)
{
	if (r->scope == SCOPE_ALL)
		return hz_list_lbs(api, call, &r->arena, STR_EMPTY, &r->list, &r->error);
	if (r->scope == SCOPE_UIDS)
		return hz_list_lbs(api, call, &r->arena, r->uids, &r->list, &r->error);
	r->list.lbs = arena_calloc(&r->arena, 1, sizeof(r->list.lbs[0]));
	if (!hz_find_lb(api, call, &r->arena, HZ_BY_ID(r->id), &r->list.lbs[0], &r->error))
		return r->error.code == ERR_NOT_FOUND;
	r->list.n = 1;
	return true;
}

/* Runs the pending reading. Called with the lock held, while no reading is running. */
static void
hz_lb_cache_run_pending(struct hz_lb_cache *c, struct call *call)
{
	struct hz_reading *r = TAKE(c->pending);

	single_flight_begin(&c->flight);
	r->began = ++c->now;
	r->began_ns = clock_mono(c->clock);
	mutex_unlock(&c->flight.mu);
	r->is_good = reading_run(r, c->api, call);
	mutex_lock(&c->flight.mu);
	if (r->is_good)
		hz_lb_cache_file(c, r);
	single_flight_end(&c->flight);
	assert(r->n_refs > 1); /* the caller on whose thread this runs has one */
	reading_unref(r);
}

/* Does a call for this Service only repeat a reading, which is no longer recent? */
static bool
hz_lb_cache_is_repeated(const struct hz_lb_cache *c, const struct entry *e, enum hz_age age)
{
	const struct hz_reading *last;

	if (!e || e->id == 0 || age == HZ_FRESH)
		return false;
	last = reading_is_younger(e->reading, c->all) ? e->reading : c->all;
	return last && last->began > e->changed;
}

/* Joins the pending reading, or makes one; returns a reference.
 *
 * @param uid  empty: all balancers
 * @param id   of the Service's balancer; 0: it is not known
 */
static struct hz_reading *
hz_lb_cache_join(struct hz_lb_cache *c, struct str uid, int64_t id, bool is_repeated)
{
	struct hz_reading *r = c->pending;

	if (!r) {
		r = c->pending = xcalloc(1, sizeof(*r));
		*r = (struct hz_reading){
			.n_refs = 1,
			.run = single_flight_next(&c->flight),
			.n_uids = 1,
			.is_repeated = is_repeated,
			.id = id,
			.scope = uid.len == 0 ? SCOPE_ALL
			         : id > 0     ? SCOPE_ONE
			                      : SCOPE_UIDS,
		};
		r->uids = arena_str(&r->arena, uid);
		return reading_ref(r);
	}
	r->is_repeated |= is_repeated;
	if (r->scope == SCOPE_ALL)
		return reading_ref(r);
	if (uid.len == 0) {
		r->scope = SCOPE_ALL;
	} else if (reading_has_uid(r, uid)) {
		if (id == 0)
			r->scope = SCOPE_UIDS;
	} else if (r->n_uids == UIDS_MAX || (r->is_repeated && c->entries.count <= ALL_MAX)) {
		r->scope = SCOPE_ALL;
	} else {
		r->scope = SCOPE_UIDS;
		r->n_uids++;
		r->uids = arena_printf(&r->arena, "%" STR_FMT ",%" STR_FMT, STR_ARG(r->uids),
		                       STR_ARG(uid));
	}
	return reading_ref(r);
}

static bool
reading_wait(struct hz_lb_cache *c, struct call *call, struct hz_reading *r, struct error *err)
{
	bool is_turn;

	watchdog_extend(call->deadline_mono_ns);
	if (!single_flight_wait(&c->flight, call, r->run, "the load balancers", &is_turn, err))
		return false;
	if (is_turn)
		hz_lb_cache_run_pending(c, call);
	if (!r->is_good)
		*err = r->error;
	return r->is_good;
}

/* ---- lookups ---- */

static void
hz_found_fill(struct hz_reading *r, struct str uid, struct arena *arena, struct hz_found *ret)
{
	ret->reading = reading_ref(r);
	ret->lbs = arena_calloc(arena, reading_count(r, uid), sizeof(const struct hz_lb *));
	ret->n = 0;
	for (size_t i = 0; i < r->list.n; i++) {
		if (str_eq(r->list.lbs[i].uid, uid))
			ret->lbs[ret->n++] = &r->list.lbs[i];
	}
}

bool
hz_lb_cache_find(struct hz_lb_cache *c, struct call *call, struct str uid, enum hz_age age,
                 struct hz_found *ret, struct error *err)
{
	struct hz_reading *r;
	struct entry *e;
	uint64_t asked;
	bool is_repeated;
	int64_t id;
	WITH_HOOK(call->cancel, single_flight_wake, &c->flight);
	WITH_LOCK(&c->flight.mu);

	hz_count_operations("hcops/LoadBalancerOps.GetByK8SServiceUID", 1);
	asked = ++c->now;
	e = map_get(&c->entries, uid);
	/* A balancer whose id is known is first read by its id. If that does not show a balancer
	 * with the label, the balancers are then read by the label. */
	id = e && age == HZ_RECENT ? e->id : 0;
	is_repeated = hz_lb_cache_is_repeated(c, e, age);
	for (;;) {
		bool is_read;

		r = hz_lb_cache_find_answer(c, uid, age, asked);
		if (r)
			break;
		r = hz_lb_cache_join(c, uid, id, is_repeated);
		id = 0;
		is_read = reading_wait(c, call, r, err);
		reading_unref(r);
		if (!is_read)
			return false;
	}

	hz_found_fill(r, uid, call->arena, ret);
	ret->cache = c;
	e = map_get(&c->entries, uid);
	if (e)
		e->id = ret->n > 0 ? ret->lbs[0]->id : 0;
	return true;
}

/* Without the lock. */
static void
reading_release(struct hz_lb_cache *c, struct hz_reading *r)
{
	WITH_LOCK(&c->flight.mu);

	reading_unref(r);
}

void
hz_found_fini(struct hz_found *found)
{
	if (found->reading)
		reading_release(found->cache, TAKE(found->reading));
}

/* Reads all balancers, in a request that begins now. *ret is a reference. */
static bool
hz_lb_cache_read_all(struct hz_lb_cache *c, struct call *call, bool is_adoption,
                     struct hz_reading **ret, struct error *err)
{
	struct hz_reading *r;
	WITH_HOOK(call->cancel, single_flight_wake, &c->flight);
	WITH_LOCK(&c->flight.mu);

	r = hz_lb_cache_join(c, STR_EMPTY, 0, true);
	r->is_adoption |= is_adoption;
	if (!reading_wait(c, call, r, err)) {
		reading_unref(r);
		return false;
	}
	*ret = r;
	return true;
}

bool
hz_lb_cache_count_serving(struct hz_lb_cache *c, struct call *call, const struct cloud_host *host,
                          unsigned *ret, struct error *err)
{
	struct hz_reading *r;
	unsigned n = 0;

	if (!hz_lb_cache_read_all(c, call, false, &r, err))
		return false;
	for (size_t i = 0; i < r->list.n; i++) {
		const struct hz_lb *lb = &r->list.lbs[i];

		n += lb->is_public && (host->is_service_address(host, lb->ipv4.ip) ||
		                       host->is_service_address(host, lb->ipv6.ip));
	}
	*ret = n;
	reading_release(c, r);
	return true;
}

static void
entry_add_health(const struct entry *e, const struct hz_lb *lb, struct arena *arena,
                 struct hz_service_health *ret, size_t *n)
{
	struct str namespace, service;

	str_cut(str_c(e->key), '/', &namespace, &service);
	ret[(*n)++] = (struct hz_service_health){
		.namespace = arena_str(arena, namespace),
		.service = arena_str(arena, service),
		.n_healthy = lb->n_of_health[HZ_HEALTHY],
		.n_targets = lb->n_of_health[HZ_HEALTHY] + lb->n_of_health[HZ_UNHEALTHY] +
		             lb->n_of_health[HZ_HEALTH_UNKNOWN],
	};
}

/* A reading for some Services has few balancers, so only the reading of all is read as a whole. */
void
hz_lb_cache_health(struct hz_lb_cache *c, struct arena *arena, struct hz_service_health **ret,
                   size_t *ret_n)
{
	struct str uid;
	void *value;
	WITH_LOCK(&c->flight.mu);

	*ret = arena_calloc(arena, c->entries.count + (c->all ? c->all->list.n : 0) + 1,
	                    sizeof(**ret));
	*ret_n = 0;
	for (size_t pos = 0; map_next(&c->entries, &pos, &uid, &value);) {
		const struct entry *e = value;

		const struct hz_lb *lb;

		if (!e->state.is_live || !e->key || !reading_is_younger(e->reading, c->all))
			continue;
		lb = reading_find(e->reading, uid);
		if (lb)
			entry_add_health(e, lb, arena, *ret, ret_n);
	}
	for (size_t i = 0; c->all && i < c->all->list.n; i++) {
		const struct hz_lb *lb = &c->all->list.lbs[i];
		const struct entry *e = map_get(&c->entries, lb->uid);

		if (e && e->state.is_live && e->key && !reading_is_younger(e->reading, c->all))
			entry_add_health(e, lb, arena, *ret, ret_n);
	}
}

/* ---- Services ---- */

bool
hz_lb_cache_adopt(struct hz_lb_cache *c, struct call *call, const struct lb_spec *const specs[],
                  size_t n, struct error *err)
{
	struct hz_reading *r;

	for (size_t i = 0; i < n; i++)
		hz_lb_cache_track(c, specs[i]);
	if (n == 0)
		return true;
	if (!hz_lb_cache_read_all(c, call, true, &r, err))
		return false;
	reading_release(c, r);
	return true;
}

void
hz_lb_cache_track(struct hz_lb_cache *c, const struct lb_spec *spec)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(LIMIT_NAME * 2 + 2);
	struct entry *e, *former;
	WITH_LOCK(&c->flight.mu);

	e = entry_make(c, spec->uid);
	e->state.is_live = true;
	buf_addf(&key, "%" STR_FMT "/%" STR_FMT, STR_ARG(spec->namespace), STR_ARG(spec->service));
	if (!e->key)
		e->key = buf_take(&key);
	/* Names of Services are unique, so another Service that had this key no longer exists. */
	former = map_put(&c->by_key, str_c(e->key), e);
	if (former && former != e)
		former->state.is_live = false;
}

void
hz_lb_cache_untrack(struct hz_lb_cache *c, struct str uid)
{
	struct entry *e;
	WITH_LOCK(&c->flight.mu);

	e = map_remove(&c->entries, uid);
	if (!e)
		return;
	if (e->key && map_get(&c->by_key, str_c(e->key)) == e)
		map_remove(&c->by_key, str_c(e->key));
	entry_free(e);
}

struct hz_service_state
hz_lb_cache_state(struct hz_lb_cache *c, struct str uid)
{
	const struct entry *e;
	WITH_LOCK(&c->flight.mu);

	e = map_get(&c->entries, uid);
	return e ? e->state : (struct hz_service_state){ 0 };
}

struct str
hz_lb_cache_service_of(struct hz_lb_cache *c, int64_t id, struct arena *arena)
{
	struct str uid;
	void *value;
	WITH_LOCK(&c->flight.mu);

	for (size_t pos = 0; id > 0 && map_next(&c->entries, &pos, &uid, &value);) {
		const struct entry *e = value;

		if (e->id == id && e->state.is_live && e->key)
			return arena_str(arena, str_c(e->key));
	}
	return STR_EMPTY;
}

/* Do two keys give the same text if '/' is written as '-'? */
static bool
entry_has_same_text(const struct entry *e, struct str key)
{
	bool is_same = strlen(e->key) == key.len;

	for (size_t i = 0; is_same && i < key.len; i++)
		is_same = e->key[i] == key.ptr[i] ||
		          (char_is_in(e->key[i], "/-") && char_is_in(key.ptr[i], "/-"));
	return is_same;
}

bool
hz_lb_cache_find_namesake(struct hz_lb_cache *c, const struct lb_spec *spec, struct arena *arena,
                          struct lb_spec *ret)
{
	struct str key = arena_printf(arena, "%" STR_FMT "/%" STR_FMT, STR_ARG(spec->namespace),
	                              STR_ARG(spec->service));
	struct str other;
	void *value;
	WITH_LOCK(&c->flight.mu);

	for (size_t pos = 0; map_next(&c->by_key, &pos, &other, &value);) {
		const struct entry *e = value;

		if (!e->state.is_live || str_eq(other, key) || !entry_has_same_text(e, key))
			continue;
		*ret = (struct lb_spec){ .uid = arena_str(arena, e->uid) };
		str_cut(arena_str(arena, other), '/', &ret->namespace, &ret->service);
		return true;
	}
	return false;
}

void
hz_lb_cache_note_change(struct hz_lb_cache *c, struct str uid, int64_t id)
{
	struct entry *e;
	WITH_LOCK(&c->flight.mu);

	e = entry_make(c, uid);
	e->changed = ++c->now;
	if (id > 0)
		e->id = id;
}

void
hz_lb_cache_set_action(struct hz_lb_cache *c, struct str uid, struct hz_action action,
                       bool has_failed)
{
	int64_t now_ns = hz_api_uptime_ns(c->api);
	struct entry *e;
	WITH_LOCK(&c->flight.mu);

	e = entry_make(c, uid);
	if (e->state.action.id != action.id)
		e->action_began_ns = now_ns;
	else if (now_ns - e->action_began_ns >= ACTION_MAX_NS)
		action = (struct hz_action){ 0 };
	e->state.action = action;
	e->state.creation.has_failed |= has_failed;
}

void
hz_lb_cache_set_creation(struct hz_lb_cache *c, struct str uid, const struct hz_creation *creation)
{
	WITH_LOCK(&c->flight.mu);

	entry_make(c, uid)->state.creation = *creation;
}

bool
hz_lb_cache_should_report(struct hz_lb_cache *c, struct str uid, enum hz_notice notice,
                          uint64_t what)
{
	int64_t now_ns = clock_mono(c->clock);
	struct entry *e;
	WITH_LOCK(&c->flight.mu);

	e = entry_make(c, uid);
	if (now_ns < e->notices[notice].again_ns && e->notices[notice].what == what)
		return false;
	e->notices[notice].what = what;
	e->notices[notice].again_ns = notice == HZ_NOTICE_TYPE ? CLOCK_FOREVER : now_ns + REPORT_NS;
	return true;
}

void
hz_lb_cache_end_refusal(struct hz_lb_cache *c, struct str uid)
{
	struct entry *e;
	WITH_LOCK(&c->flight.mu);

	e = map_get(&c->entries, uid);
	if (e)
		e->notices[HZ_NOTICE_REFUSAL].again_ns = 0;
}

/* ---- life cycle ---- */

struct hz_lb_cache *
hz_lb_cache_new(struct hz_api *api, struct clock *clock)
{
	struct hz_lb_cache *c = xcalloc(1, sizeof(*c));

	c->api = api;
	c->clock = clock;
	c->entries = MAP_OF(struct entry, uid);
	single_flight_init(&c->flight);
	return c;
}

void
hz_lb_cache_free(struct hz_lb_cache *c)
{
	if (!c)
		return;
	map_free_all(&c->entries, entry_free);
	map_fini(&c->by_key);
	reading_unref(c->pending);
	reading_unref(c->all);
	single_flight_fini(&c->flight);
	free(c);
}
