/* serve/reviewer.c: see reviewer.h.
 *
 * A list of questions, each with the requests that wait for its answer; none wait when a stale
 * answer is renewed. The thread takes a question that is due. The question stays in the list while
 * it is asked, so that other requests can join, and while it waits to be asked again.
 *
 * Each question gets a number, its turn, so that sources are treated fairly. The turn is the
 * highest turn of the questions taken so far, or one more than the turn of the last question of the
 * same source if that is higher. The question with the lowest turn is asked first. So the only
 * question of a source waits for at most one question of each other source, however many questions
 * these have.
 *
 * The lifetime of answers includes the time while the machine is suspended, because a token may be
 * revoked meanwhile.
 */
#include "serve/reviewer.h"

#include <sys/queue.h>

#include "base/alloc.h"
#include "base/ip.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/watchdog.h"
#include "base/rand.h"
#include "base/thread.h"

#define REVIEW_NS (10 * NS_PER_SEC) /* in all */
#define RETRY_NS (500 * NS_PER_MS)
#define WARN_EVERY_NS (60 * NS_PER_SEC)
#define KNOWN_NS (600 * NS_PER_SEC) /* longer than the interval of scrapes */

/* A request that waits for a review keeps its connection. Some connections must be left for
 * requests that need none. */
_Static_assert(LIMIT_SERVER_PENDING < LIMIT_SERVER_CONNECTIONS, "no connection left for probes");

enum {
	MAX_TRIES = 5,
	MAX_BODY = 2 * 1024 * 1024,
};

enum subject {
	OF_TOKEN,
	OF_RIGHTS,
	N_SUBJECTS,
};

struct waiter {
	SLIST_ENTRY(waiter) next;
	struct digest source;
	reviewer_done *done;
	void *arg;
};

SLIST_HEAD(waiter_list, waiter);

struct question {
	TAILQ_ENTRY(question) next;
	enum subject subject;
	struct digest key;
	struct digest source; /* of the first request that asks it */
	/* the source is a client address: its caller is not authenticated (yet) */
	bool is_unauthenticated;
	uint64_t turn;       /* mu */
	struct secret token; /* of a token */
	struct buf body;     /* of rights */
	bool is_kept;        /* its answer may go to the cache */
	int n_tries;
	int64_t due_ns, deadline_ns; /* mono */
	struct waiter_list waiters;
};

/* A token that was valid recently, by its hash. */
struct known_token {
	struct digest key;
	int64_t until_ns; /* boot; 0: none */
};

struct reviewer {
	struct reviewer_config config;
	struct digest_key key;
	struct cancel *cancel;
	struct watchdog *watchdog;
	pthread_t thread;

	pthread_mutex_t mu;
	pthread_cond_t changed;           /* mu */
	TAILQ_HEAD(, question) questions; /* mu; the oldest first */
	size_t n_questions, n_waiters;    /* mu */
	uint64_t turn;                    /* mu; the highest of the questions taken so far */
	struct known_token known[LIMIT_SERVER_KNOWN_TOKENS]; /* mu */
	struct review_cache caches[N_SUBJECTS];              /* mu */
	int64_t upkeep_ns;                                   /* mu; mono */
	bool is_closing;                                     /* mu */

	/* the thread's own */
	struct arena arena;
	int64_t next_warn_ns[N_SUBJECTS]; /* boot */
};

/* ---- questions ---- */

static void
question_free(struct question *q)
{
	secret_fini(&q->token);
	buf_fini(&q->body);
	free(q);
}
DEFINE_CLEANUP(struct question, question_free)

/* The source of requests from an address. */
static struct digest
source_of_peer(struct reviewer *r, struct str peer)
{
	struct ip ip = { 0 };

	if (ip_parse(peer, &ip))
		ip = ip_source(&ip);
	return digest_of(&r->key, str_n((const char *)ip.bytes, sizeof(ip.bytes)));
}

static struct question *
question_new(struct reviewer *r, enum subject subject, struct str text)
{
	int64_t now_ns = clock_mono(r->config.clock);
	struct question *q = xcalloc(1, sizeof(*q));

	*q = (struct question){
		.subject = subject,
		.key = digest_of(&r->key, text),
		.body = BUF_INIT(MAX_BODY),
		.is_kept = true,
		.due_ns = now_ns,
		.deadline_ns = clock_deadline(now_ns, REVIEW_NS),
	};
	return q;
}

static bool
is_same_digest(const struct digest *a, const struct digest *b)
{
	return str_eq(digest_str(a), digest_str(b));
}

static struct review_answer *
failed_answer(void)
{
	return review_answer_new(REVIEW_FAILED, NULL, STR_EMPTY);
}

/* Appends the question to the list and gives it its turn. Called with mu held. */
static void
link_question(struct reviewer *r, struct question *q)
{
	const struct question *other;

	q->turn = r->turn;
	TAILQ_FOREACH(other, &r->questions, next) {
		if (is_same_digest(&other->source, &q->source) && other->turn >= q->turn)
			q->turn = other->turn + 1;
	}
	TAILQ_INSERT_TAIL(&r->questions, q, next);
	r->n_questions++;
	cond_signal(&r->changed);
}

/* The entry of the token, or else the one that expires first, which a new token may have. Called
 * with mu held. */
static struct known_token *
known_slot(struct reviewer *r, const struct digest *token)
{
	struct known_token *oldest = &r->known[0];

	for (size_t i = 0; i < ARRAY_LEN(r->known); i++) {
		if (is_same_digest(&r->known[i].key, token))
			return &r->known[i];
		if (r->known[i].until_ns < oldest->until_ns)
			oldest = &r->known[i];
	}
	return oldest;
}

/* Was the token valid recently? Called with mu held. */
static bool
is_known(struct reviewer *r, const struct digest *token, int64_t now_ns)
{
	const struct known_token *known = known_slot(r, token);

	return is_same_digest(&known->key, token) && now_ns < known->until_ns;
}

/* The question in the list that asks the same, or NULL. Called with mu held. */
static struct question *
find_question(struct reviewer *r, const struct question *like)
{
	struct question *q;

	TAILQ_FOREACH(q, &r->questions, next) {
		if (q->subject == like->subject && is_same_digest(&q->key, &like->key))
			return q;
	}
	return NULL;
}

/* Called with mu held. */
static size_t
count_waiters(const struct reviewer *r, const struct digest *source)
{
	const struct question *q;
	const struct waiter *w;
	size_t n = 0;

	TAILQ_FOREACH(q, &r->questions, next) {
		SLIST_FOREACH(w, &q->waiters, next)
		n += is_same_digest(&w->source, source);
	}
	return n;
}

/* Takes the question over. */
static enum reviewer_start
ask_question(struct reviewer *r, struct question *question, struct review_answer **ret,
             reviewer_done *done, void *arg)
{
	CLEANUP(question_freep) struct question *q = question;
	int64_t now_ns = clock_boot(r->config.clock);
	struct question *asked;
	struct waiter *w;
	bool is_stale;
	WITH_LOCK(&r->mu);

	if (r->is_closing) {
		*ret = failed_answer();
		return REVIEWER_KNOWS;
	}
	asked = find_question(r, q);

	/* A stale answer is renewed, so that the next request finds a fresh one. */
	*ret = review_cache_get(&r->caches[q->subject], &q->key, now_ns, &is_stale);
	if (*ret && is_stale && !asked && r->n_questions < 2 * LIMIT_SERVER_PENDING) {
		q->source = q->key;
		link_question(r, TAKE(q));
	}
	if (*ret)
		return REVIEWER_KNOWS;

	/* A token that was valid recently is a source of its own. */
	if (q->subject == OF_TOKEN && is_known(r, &q->key, now_ns)) {
		q->source = q->key;
		q->is_unauthenticated = false;
	}
	if (count_waiters(r, &q->source) >= LIMIT_SERVER_PER_SOURCE)
		return REVIEWER_SOURCE_BUSY;
	if (r->n_waiters >=
	    (q->is_unauthenticated ? LIMIT_SERVER_UNAUTHENTICATED : LIMIT_SERVER_PENDING))
		return REVIEWER_BUSY;

	w = xcalloc(1, sizeof(*w));
	*w = (struct waiter){ .source = q->source, .done = done, .arg = arg };
	if (!asked) {
		asked = q;
		link_question(r, TAKE(q));
	}
	SLIST_INSERT_HEAD(&asked->waiters, w, next);
	r->n_waiters++;
	return REVIEWER_ASKS;
}

enum reviewer_start
reviewer_token(struct reviewer *r, struct str peer, struct str token, struct review_answer **ret,
               reviewer_done *done, void *arg)
{
	struct question *q = question_new(r, OF_TOKEN, token);

	q->source = source_of_peer(r, peer);
	q->is_unauthenticated = true;
	secret_set(&q->token, token);
	return ask_question(r, q, ret, done, arg);
}

enum reviewer_start
reviewer_rights(struct reviewer *r, struct str peer, const struct access_user *user,
                struct str verb, struct str path, struct review_answer **ret, reviewer_done *done,
                void *arg)
{
	CLEANUP(buf_fini) struct buf body = BUF_INIT(MAX_BODY);
	struct question *q;

	review_add_rights(&body, user, verb, path);
	if (!buf_ok(&body)) {
		*ret = failed_answer();
		return REVIEWER_KNOWS;
	}
	q = question_new(r, OF_RIGHTS, buf_str(&body));
	q->is_kept = body.len <= LIMIT_REVIEW_BYTES;
	q->is_unauthenticated = access_user_is_in(user, ACCESS_UNAUTHENTICATED);
	q->source = q->is_unauthenticated ? source_of_peer(r, peer)
	                                  : digest_of(&r->key, user->name);
	q->body = body;
	body = BUF_INIT(0);
	return ask_question(r, q, ret, done, arg);
}

/* ---- asking ---- */

/* Plans another try. False if it is pointless: the answer is final, or the time is over. The pauses
 * are 500 ms, 750 ms, 1.1 s, 1.7 s, each up to a fifth longer. */
static bool
schedule_retry(struct reviewer *r, struct question *q, const struct error *err)
{
	bool may_pass = err->code == ERR_UNAVAILABLE || err->code == ERR_TIMEOUT ||
	                err->code == ERR_THROTTLED;
	int64_t pause_ns = RETRY_NS, due_ns;

	for (int i = 1; i < q->n_tries; i++)
		pause_ns += pause_ns / 2;
	pause_ns += rand_between(0, pause_ns / 5);
	due_ns = clock_deadline(clock_mono(r->config.clock), pause_ns);

	WITH_LOCK(&r->mu);
	if (r->is_closing || !may_pass || q->n_tries == MAX_TRIES || due_ns >= q->deadline_ns)
		return false;
	q->due_ns = due_ns;
	return true;
}

/* Without the right to send reviews, every caller is refused until an operator grants it: that is
 * an error, with a hint. */
static void
warn_not_reviewed(struct reviewer *r, enum subject subject, const struct error *err)
{
	int64_t now_ns = clock_boot(r->config.clock);
	const char *what = subject == OF_TOKEN
	                           ? "a caller's token cannot be reviewed, refusing it"
	                           : "a caller's rights cannot be reviewed, refusing them";

	if (err->code == ERR_CANCELLED || now_ns < r->next_warn_ns[subject])
		return;
	r->next_warn_ns[subject] = now_ns + WARN_EVERY_NS;
	if (err->code == ERR_FORBIDDEN)
		log_error(what, LOG_ERR(err),
		          LOG_CSTR("hint", "bind ClusterRole system:auth-delegator to this user"));
	else
		log_warn(what, LOG_ERR(err));
}

/* Stores the digest of a valid token, and removes that of one that is no longer valid. Called with
 * mu held. */
static void
note_token(struct reviewer *r, const struct digest *token, enum review_verdict verdict)
{
	int64_t now_ns = clock_boot(r->config.clock);
	struct known_token *known = known_slot(r, token);

	if (verdict == REVIEW_YES)
		*known = (struct known_token){ *token, clock_deadline(now_ns, KNOWN_NS) };
	else if (verdict == REVIEW_NO && is_same_digest(&known->key, token))
		*known = (struct known_token){ .until_ns = 0 };
}

/* How long an answer is kept. */
static int64_t
ttl_ns(const struct reviewer *r, enum subject subject, const struct review_answer *answer)
{
	if (subject == OF_TOKEN)
		return r->config.token_ttl_ns;
	return answer->verdict == REVIEW_YES ? r->config.authorized_ttl_ns
	                                     : r->config.unauthorized_ttl_ns;
}

/* Stores the answer and removes the question from the list: no further request can join it. */
static void
close_question(struct reviewer *r, struct question *q, struct review_answer *answer)
{
	int64_t now_ns = clock_boot(r->config.clock);
	const struct waiter *w;
	WITH_LOCK(&r->mu);

	if (q->subject == OF_TOKEN)
		note_token(r, &q->key, answer->verdict);
	if (q->is_kept && answer->verdict != REVIEW_FAILED)
		review_cache_put(&r->caches[q->subject], &q->key, answer, now_ns,
		                 clock_deadline(now_ns, ttl_ns(r, q->subject, answer)));
	TAILQ_REMOVE(&r->questions, q, next);
	r->n_questions--;
	SLIST_FOREACH(w, &q->waiters, next)
	{
		r->n_waiters--;
	}
}

/* Stores the answer and passes it to the requests that wait for it. */
static void
answer_question(struct reviewer *r, struct question *q, struct review_answer *answer)
{
	struct waiter *w;

	close_question(r, q, answer);
	while ((w = SLIST_FIRST(&q->waiters))) {
		SLIST_REMOVE_HEAD(&q->waiters, next);
		w->done(w->arg, answer);
		free(w);
	}
	question_free(q);
}

static void
try_question(struct reviewer *r, struct question *q)
{
	CLEANUP(review_answer_unrefp) struct review_answer *answer = NULL;
	struct call call = { .clock = r->config.clock,
		             .cancel = r->cancel,
		             .deadline_mono_ns = q->deadline_ns,
		             .arena = &r->arena };
	struct error err;
	bool is_ok;

	q->n_tries++;
	is_ok = q->subject == OF_TOKEN
	                ? review_token(r->config.tokens, &call, &q->token, &answer, &err)
	                : review_rights(r->config.rights, &call, buf_str(&q->body), &answer, &err);
	arena_reset(&r->arena);
	if (!is_ok) {
		if (schedule_retry(r, q, &err))
			return;
		warn_not_reviewed(r, q->subject, &err);
		answer = failed_answer();
	}
	answer_question(r, q, answer);
}

/* ---- the thread ---- */

/* The due question with the lowest turn, or NULL; *ret_next_ns is when the next one is due. Called
 * with mu held. */
static struct question *
due_question(struct reviewer *r, int64_t now_ns, int64_t *ret_next_ns)
{
	struct question *first = NULL, *q;

	*ret_next_ns = CLOCK_FOREVER;
	TAILQ_FOREACH(q, &r->questions, next) {
		if (q->due_ns <= now_ns && (!first || q->turn < first->turn))
			first = q;
		if (q->due_ns < *ret_next_ns)
			*ret_next_ns = q->due_ns;
	}
	return first;
}

/* Waits for work: a question, or upkeep if *ret is NULL. False when the reviewer is closing. */
static bool
take_work(struct reviewer *r, struct question **ret)
{
	WITH_LOCK(&r->mu);

	while (!r->is_closing) {
		int64_t now_ns = clock_mono(r->config.clock), next_ns;

		*ret = due_question(r, now_ns, &next_ns);
		if (*ret && (*ret)->turn > r->turn)
			r->turn = (*ret)->turn;
		if (*ret || (r->config.upkeep && now_ns >= r->upkeep_ns))
			return true;
		if (r->config.upkeep && r->upkeep_ns < next_ns)
			next_ns = r->upkeep_ns;
		(void)clock_wait(r->config.clock, &r->changed, &r->mu, next_ns);
	}
	return false;
}

static void *
reviewer_run(void *arg)
{
	struct reviewer *r = arg;
	struct call call = { .clock = r->config.clock, .cancel = r->cancel, .arena = &r->arena };
	struct question *q;

	while (take_work(r, &q)) {
		call.deadline_mono_ns = clock_deadline(clock_mono(r->config.clock), REVIEW_NS);
		watchdog_until(r->watchdog, call.deadline_mono_ns);
		if (q) {
			try_question(r, q);
		} else {
			/* reset before the call, so that reviewer_upkeep_by() during the call is
			 * not lost */
			mutex_lock(&r->mu);
			r->upkeep_ns = CLOCK_FOREVER;
			mutex_unlock(&r->mu);
			reviewer_upkeep_by(r, r->config.upkeep(r->config.arg, &call));
			arena_reset(&r->arena);
		}
		watchdog_until(r->watchdog, CLOCK_FOREVER);
	}
	return NULL;
}

void
reviewer_upkeep_by(struct reviewer *r, int64_t mono_ns)
{
	WITH_LOCK(&r->mu);

	if (mono_ns >= r->upkeep_ns)
		return;
	r->upkeep_ns = mono_ns;
	cond_signal(&r->changed);
}

/* ---- life cycle ---- */

struct reviewer *
reviewer_new(const struct reviewer_config *config)
{
	struct reviewer *r = xcalloc(1, sizeof(*r));

	r->config = *config;
	digest_key_init(&r->key);
	r->cancel = cancel_new();
	mutex_init(&r->mu);
	cond_init(&r->changed);
	for (size_t i = 0; i < N_SUBJECTS; i++)
		r->caches[i] = REVIEW_CACHE_INIT(r->caches[i]);
	r->arena = ARENA_INIT;
	TAILQ_INIT(&r->questions);
	r->watchdog = watchdog_new("review");
	thread_start(&r->thread, "review", reviewer_run, r);
	return r;
}

void
reviewer_stop(struct reviewer *r)
{
	CLEANUP(review_answer_unrefp) struct review_answer *answer = failed_answer();

	mutex_lock(&r->mu);
	r->is_closing = true;
	cond_signal(&r->changed);
	mutex_unlock(&r->mu);
	cancel_fire(r->cancel);
	thread_join(r->thread);
	while (!TAILQ_EMPTY(&r->questions))
		answer_question(r, TAILQ_FIRST(&r->questions), answer);
}

void
reviewer_free(struct reviewer *r)
{
	for (size_t i = 0; i < N_SUBJECTS; i++)
		review_cache_fini(&r->caches[i]);
	arena_fini(&r->arena);
	watchdog_free(r->watchdog);
	cond_destroy(&r->changed);
	mutex_destroy(&r->mu);
	cancel_free(r->cancel);
	digest_key_fini(&r->key);
	free(r);
}
