/* tests/simulation/election.c: what a replica may do with the Lease, and when it has to end.
 *
 * - Only the replica that holds the Lease makes changes.
 * - The Lease of another is written only when it has not changed for LEASE_NS. If it was deleted,
 * or its data was restored, a replica that knew it waits as long, because the holder may not have
 *   noticed, and may act until its fence closes.
 * - A leader that has read that it does not hold the Lease any more ends.
 * - A replica that has never led does not end by itself.
 * - The first lists of a leader are no older than its Lease, so they contain the last writes of the
 *   former leader.
 *
 * A person may empty the holder, and then the next replica does not wait. A process that has just
 * started has not seen the Lease, so it does not wait if a person has deleted it. In both cases the
 * former leader goes on until its next renewal. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "world.h"

#define LEASE_NS (15 * NS_PER_SEC)
#define FENCE_NS (LEASE_NS - NS_PER_SEC) /* from the start of a renewal */
#define YOUNG_NS MINUTE_NS
#define UNAWARE_NS LEASE_NS
#define OLD_NS (5 * MINUTE_NS)
#define END_NS (3 * NS_PER_SEC) /* half a second, and what a stop that has begun takes */

/* What the process of a replica knows. */
static struct term {
	unsigned incarnation;
	int64_t begun_ns;             /* its first request */
	char identity[200];           /* as its Lease says; empty: it has not written one */
	bool has_asked;               /* about the Lease */
	int64_t knows_ns;             /* when it got the first answer with a Lease; 0: it has not */
	bool has_led;                 /* it has got the answer to a claim in time */
	bool may_have_led;            /* or it was stopped then, and continued in time */
	unsigned n_claims;            /* that the server has accepted */
	int64_t first_ns;             /* when the first of them */
	int64_t version;              /* of the Lease then */
	bool has_nodes, has_services; /* it has got their lists */
	int64_t claimed_ns; /* when the last of them; 0: none, or the Lease was released */
	int64_t late_ns; /* when the claim was sent whose answer came while it was stopped; or 0 */
	unsigned n_told; /* answers that it does not hold the Lease any more */
	int64_t told_ns; /* when it got enough of them; or 0 */
} terms[N_REPLICAS];
static int64_t written_ns; /* when the Lease was written last, or restored */
static bool is_restored;   /* the latter */
static int64_t lost_ns;    /* when it was deleted, or etcd restored; 0: never */
static int64_t unaware_until_ns;

/* NULL: the request is one of a former process. */
static struct term *
term_of(const struct net_request *n)
{
	struct term *term = &terms[n->replica->index];

	if (n->incarnation != n->replica->incarnation)
		return NULL;
	if (term->incarnation != n->incarnation)
		*term = (struct term){ .incarnation = n->incarnation,
			               .begun_ns = schedule_now_ns() };
	return term;
}

bool
election_is_lease(const struct net_request *n)
{
	return n->host == HOST_KUBE &&
	       str_contains(n->request->target, STR("/namespaces/" LEASE_NAMESPACE "/leases"));
}

static struct str
holder_in(struct arena *arena, struct str json)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct error err;

	if (!json_parse(json, &doc, &err))
		return STR_EMPTY;
	return arena_str(arena,
	                 json_text_at(arena, yyjson_doc_get_root(doc), "spec.holderIdentity"));
}

static struct str
holder_of(struct arena *arena, const struct kube_model_object *lease)
{
	return lease ? json_text_at(arena, object_json(arena, lease), "spec.holderIdentity")
	             : STR_EMPTY;
}

/* ---- requests ---- */

void
election_arrived(const struct net_request *n)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct term *term = term_of(n);
	struct str holder;

	if (!term || !election_is_lease(n))
		return;
	term->has_asked = true;
	if (term->identity[0] || n->request->body.len == 0)
		return;
	holder = holder_in(&arena, n->request->body);
	snprintf(term->identity, sizeof(term->identity), "%" STR_FMT, STR_ARG(holder));
}

bool
election_is_unclear(void)
{
	return schedule_now_ns() < unaware_until_ns;
}

void
election_check_write(const struct net_request *n)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct str holder = world_holder(&arena);
	const struct term *term = term_of(n);

	if (holder.len == 0 || election_is_unclear() || (term && str_eq_c(holder, term->identity)))
		return;
	fail("replica %s writes and does not lead (the Lease has %" STR_FMT "): %s %" STR_FMT,
	     n->replica->name, STR_ARG(holder), n->request->method, STR_ARG(n->request->target));
}

/* ---- writes of the Lease ---- */

/* May the process of the other replica still act, as far as this one knows? */
static bool
is_other_active(unsigned replica)
{
	const struct term *term = &terms[1 - replica];
	const struct replica *other = replica_at(1 - replica);

	return other->is_running && other->incarnation == term->incarnation &&
	       term->claimed_ns > 0 && term->told_ns == 0 &&
	       schedule_now_ns() < term->claimed_ns + FENCE_NS && terms[replica].knows_ns > 0 &&
	       terms[replica].knows_ns < lost_ns;
}

static void
check_claim(unsigned i, struct str before, struct str after)
{
	const struct term *term = &terms[i];
	int64_t age_ns = schedule_now_ns() - written_ns;
	/* a replica that saw the restored Lease before, and nothing since, cannot tell */
	bool is_known = !is_restored || is_other_active(i);

	if (term->incarnation != replica_at(i)->incarnation || !term->identity[0] ||
	    (after.len > 0 && !str_eq_c(after, term->identity)))
		return; /* of a former process */
	if (before.len > 0 && !str_eq_c(before, term->identity) && age_ns < LEASE_NS && is_known)
		fail("replica %s writes the Lease of %" STR_FMT ", which was written %d ms before",
		     replica_at(i)->name, STR_ARG(before), (int)(age_ns / NS_PER_MS));
	else if (before.len == 0 && after.len > 0 && is_other_active(i))
		fail("replica %s takes the Lease while %s may act", replica_at(i)->name,
		     replica_at(1 - i)->name);
}

static void
note_claim(unsigned i, const struct kube_model_change *c, struct str before, struct str after)
{
	check_claim(i, before, after);
	evidence_lease_changed(i, before, after);
	if (!c->before && schedule_now_ns() - terms[i].begun_ns < YOUNG_NS)
		unaware_until_ns = schedule_now_ns() + UNAWARE_NS;
	if (after.len > 0 && !str_eq_c(after, terms[i].identity))
		return;
	if (after.len > 0 && terms[i].n_claims++ == 0) {
		terms[i].first_ns = schedule_now_ns();
		terms[i].version = c->after->version;
	}
	terms[i].claimed_ns = after.len > 0 ? schedule_now_ns() : 0;
}

const char *
election_old_leader(void)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct str holder = world_holder(&arena);

	for (unsigned i = 0; i < N_REPLICAS; i++) {
		if (replica_at(i)->is_running && holder.len > 0 &&
		    str_eq_c(holder, terms[i].identity) &&
		    schedule_now_ns() - terms[i].first_ns >= OLD_NS)
			return terms[i].identity;
	}
	return "";
}

bool
election_is_first_claim(const struct net_request *n)
{
	const struct term *term = term_of(n);

	return term && term->n_claims == 1 && term->claimed_ns == schedule_now_ns();
}

/* Nobody can know who may act. */
static void
excuse_all(void)
{
	unaware_until_ns = schedule_now_ns() + UNAWARE_NS;
	for (unsigned i = 0; i < N_REPLICAS; i++)
		terms[i].claimed_ns = 0;
}

/* A replica that has noticed the first of two losses does not notice who led between them. */
static void
note_loss(void)
{
	if (lost_ns > 0 && schedule_now_ns() - lost_ns < MINUTE_NS)
		excuse_all();
	lost_ns = schedule_now_ns();
}

void
election_note_lease(const struct kube_model_change *c)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct str before = holder_of(&arena, c->before), after = holder_of(&arena, c->after);

	if (str_starts(c->token, STR("kube-")))
		note_claim(str_eq_c(c->token, "kube-b") ? 1 : 0, c, before, after);
	else if (!c->after)
		note_loss();
	else
		excuse_all();
	written_ns = schedule_now_ns();
	is_restored = false;
}

void
election_restored(bool is_same)
{
	note_loss();
	if (!is_same) {
		written_ns = schedule_now_ns();
		is_restored = true;
	}
	unaware_until_ns = schedule_now_ns() + UNAWARE_NS;
}

/* ---- answers ---- */

static void
check_end(void *arg)
{
	const struct term *term = arg;
	const struct replica *r = replica_at((unsigned)(term - terms));

	if (r->is_running && r->incarnation == term->incarnation && !r->is_paused &&
	    term->told_ns > 0 && schedule_now_ns() >= term->told_ns + END_NS &&
	    r->resumed_ns < term->told_ns && r->held_until_ns < term->told_ns)
		fail("replica %s has read that it does not hold the Lease any more, and does not end",
		     r->name);
}

/* The version of a list; 0: it is none. */
static int64_t
version_of_list(struct str body)
{
	static const char before[] = "\"metadata\":{\"resourceVersion\":\"";
	const char *at = memmem(body.ptr, body.len, before, strlen(before));
	int64_t version = 0;
	struct str text, rest;

	if (!at)
		return 0;
	at += strlen(before);
	if (!str_cut(str_n(at, (size_t)(body.ptr + body.len - at)), '"', &text, &rest) ||
	    !str_to_i64(text, 1, INT64_MAX, &version))
		return 0;
	return version;
}

static void
check_first_list(const struct net_request *n, const struct server_response *r)
{
	struct str target = n->request->target;
	bool is_of_nodes = str_starts(target, STR("/api/v1/nodes?"));
	struct term *term = term_of(n);
	int64_t version;
	bool *has_list;

	if (!term || n->host != HOST_KUBE || term->n_claims == 0 || r->status != 200 ||
	    str_contains(target, STR("watch=")) || world.has_lease_etcd || world.was_restored ||
	    (!is_of_nodes && !str_starts(target, STR("/api/v1/services?"))))
		return;
	has_list = is_of_nodes ? &term->has_nodes : &term->has_services;
	version = version_of_list(buf_str(&r->body));
	if (!*has_list && version > 0 && version < term->version)
		fail("replica %s gets a list that is older than its Lease: %" STR_FMT,
		     n->replica->name, STR_ARG(target));
	*has_list = true;
}

void
election_delivered(const struct net_request *n, const struct server_response *r)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct term *term = term_of(n);
	bool is_read = strcmp(n->request->method, "GET") == 0, is_own;

	check_first_list(n, r);
	if (!term || !election_is_lease(n) || r->status == 409 ||
	    (r->status >= 300 && r->status != 404))
		return;
	is_own = r->status != 404 && term->identity[0] &&
	         str_eq_c(holder_in(&arena, buf_str(&r->body)), term->identity);
	if (n->replica->held_until_ns > schedule_now_ns()) {
		term->may_have_led |= !is_read && is_own;
		return;
	}
	if (n->replica->is_paused) {
		if (!is_read && is_own && term->late_ns == 0)
			term->late_ns = n->sent_ns;
		return;
	}
	if (r->status != 404 && term->knows_ns == 0)
		term->knows_ns = schedule_now_ns();
	if (!is_read && is_own)
		term->has_led = true;
	if (!is_read || is_own || !term->has_led || term->told_ns > 0)
		return;
	/* after a restore, a leader reads the Lease once more */
	if (++term->n_told < (world.was_restored ? 2 : 1))
		return;
	term->told_ns = schedule_now_ns();
	schedule_at(term->told_ns + END_NS, check_end, term);
}

/* ---- lives ---- */

void
election_resumed(const struct replica *r)
{
	struct term *term = &terms[r->index];

	if (term->incarnation != r->incarnation || term->late_ns == 0)
		return;
	if (schedule_now_ns() - term->late_ns < FENCE_NS)
		term->may_have_led = true;
	term->late_ns = 0;
}

void
election_ended(const struct replica *r)
{
	const struct term *term = &terms[r->index];

	if (term->incarnation == r->incarnation && r->exit_status > 0 && term->has_asked &&
	    !term->has_led && !term->may_have_led)
		fail("replica %s ends with %d, and has not led", r->name, r->exit_status);
}
