/* kube/service_account.c: see service_account.h.
 *
 * How long a token lives is what we asked for, or what the server says it made of that, whichever
 * is less; counted from before the request on the clock that goes on during a suspension, so that
 * the server's clock does not matter.
 */
#include "kube/service_account.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/single_flight.h"
#include "base/thread.h"

#define NAMESPACE "kube-system"
#define LIFE_S 3600
#define SHORTEST_NS (600 * NS_PER_SEC) /* a life is taken as no shorter */
#define AGAIN_NS (10 * NS_PER_SEC)     /* after a renewal that failed */
#define REFUSED_NS NS_PER_SEC

enum {
	TRIES = 4,
	FIRST_WAIT_MS = 500,
};

struct service_account {
	const char *name;
	struct kube_client *client;
	struct clock *clock;
	struct single_flight flight;  /* one request at a time; mu below is its lock */
	struct error failure;         /* mu: of the last time, if it failed */
	struct secret token;          /* mu */
	uint64_t generation;          /* mu */
	int64_t renew_boot_ns;        /* mu: when to ask for another */
	int64_t ends_boot_ns;         /* mu: when token is worth nothing any more */
	int64_t next_refusal_boot_ns; /* mu: a 401 is believed from then on */
};

/* ---- asking the API server ---- */

static bool
make_namespace(struct service_account *a, struct call *call, struct error *err)
{
	struct str body =
		STR("{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":"
	            "\"" NAMESPACE "\"}}");

	return kube_post(a->client, call, STR("/api/v1/namespaces"), HTTP_WORK, body,
	                 /*ret_body=*/NULL, err) ||
	       err->code == ERR_EXISTS;
}

static bool
post_account(struct service_account *a, struct call *call, struct error *err)
{
	struct str body = arena_printf(
		call->arena,
		"{\"apiVersion\":\"v1\",\"kind\":\"ServiceAccount\",\"metadata\":{\"name\":\"%s\","
		"\"namespace\":\"" NAMESPACE "\"}}",
		a->name);

	return kube_post(a->client, call, STR("/api/v1/namespaces/" NAMESPACE "/serviceaccounts"),
	                 HTTP_WORK, body, /*ret_body=*/NULL, err) ||
	       err->code == ERR_EXISTS;
}

static bool
make_account(struct service_account *a, struct call *call, struct error *err)
{
	if (post_account(a, call, err))
		return true;
	if (err->code != ERR_NOT_FOUND)
		return err_wrap(err, "create it");
	if (!make_namespace(a, call, err))
		return err_wrap(err, "create namespace " NAMESPACE);
	return post_account(a, call, err) || err_wrap(err, "create it");
}

static bool
post_request(struct service_account *a, struct call *call, struct buf *ret, struct error *err)
{
	struct str path = arena_printf(call->arena,
	                               "/api/v1/namespaces/" NAMESPACE "/serviceaccounts/%s/token",
	                               a->name);
	struct str body = arena_printf(
		call->arena,
		"{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"TokenRequest\","
		"\"spec\":{\"expirationSeconds\":%d}}",
		LIFE_S);

	return kube_post_secret(a->client, call, path, body, ret, err);
}

/* The answer's spec has the life that was granted. */
static bool
read_answer(struct str json, struct secret *ret, int64_t *ret_life_ns, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	int64_t life_s = LIFE_S;
	struct str token;
	yyjson_val *root;

	if (!json_parse(json, &doc, err))
		return err_wrap(err, "token");
	root = yyjson_doc_get_root(doc);
	if (json_str(root, "status.token", &token) != JSON_FOUND || token.len == 0 ||
	    token.len > LIMIT_CREDENTIAL)
		return err_set(err, ERR_INTERNAL, "the answer has no token");
	if (!str_is_visible(token))
		return err_set(err, ERR_INVALID,
		               "the answer's token holds characters that no token has");
	secret_set(ret, token);
	explicit_bzero((char *)(uintptr_t)token.ptr, token.len);
	(void)json_i64(root, "spec.expirationSeconds", &life_s);
	*ret_life_ns = (life_s < 0 ? 0 : life_s < LIFE_S ? life_s : LIFE_S) * NS_PER_SEC;
	return true;
}

static bool
request_token(struct service_account *a, struct call *call, struct secret *ret,
              int64_t *ret_life_ns, struct error *err)
{
	CLEANUP(buf_fini) struct buf answer = BUF_SECRET(LIMIT_CREDENTIAL);

	if (!post_request(a, call, &answer, err)) {
		if (err->code != ERR_NOT_FOUND)
			return false;
		if (!make_account(a, call, err) || !post_request(a, call, &answer, err))
			return false;
		log_info("service account created", LOG_CSTR("namespace", NAMESPACE),
		         LOG_CSTR("name", a->name));
	}
	return read_answer(buf_str(&answer), ret, ret_life_ns, err);
}

/* Those who may not ask will not be allowed to half a second later. */
static bool
is_final(const struct error *err)
{
	return err->code == ERR_CANCELLED || err->code == ERR_FORBIDDEN || err->code == ERR_INVALID;
}

/* To whoever wanted to send something, it is a credential that is missing. */
static bool
refused(const struct service_account *a, struct error *err)
{
	if (err->code != ERR_CANCELLED && err->code != ERR_TIMEOUT)
		err->code = ERR_UNAUTHORIZED;
	return err_wrap(err, "token of service account " NAMESPACE "/%s", a->name);
}

static bool
try_often(struct service_account *a, struct call *call, struct secret *ret, int64_t *ret_life_ns,
          struct error *err)
{
	struct attempts attempts = { .begun_ns = clock_mono(call->clock) };
	int64_t wait_ns = FIRST_WAIT_MS * NS_PER_MS;

	while (!request_token(a, call, ret, ret_life_ns, err)) {
		attempts_note(&attempts, err);
		if (attempts.n == TRIES || is_final(err) ||
		    clock_deadline(clock_mono(call->clock), wait_ns) >= call->deadline_mono_ns) {
			(void)attempts_end(&attempts, clock_mono(call->clock), err);
			return refused(a, err);
		}
		if (!cancel_sleep(call->cancel, call->clock, wait_ns, err))
			return false;
		wait_ns *= 2;
	}
	return true;
}
/* ---- the token we have ---- */

/* Called with mu held. */
static void
adopt(struct service_account *a, const struct secret *token, int64_t asked_boot_ns, int64_t life_ns)
{
	int64_t counted_ns = life_ns < SHORTEST_NS ? SHORTEST_NS : life_ns;

	secret_set(&a->token, secret_expose(token));
	a->generation++;
	a->renew_boot_ns = asked_boot_ns + counted_ns / 5 * 4;
	a->ends_boot_ns = asked_boot_ns + counted_ns;
}

/* Called with mu held, which is released meanwhile. */
static bool
ask(struct service_account *a, const struct call *outer, struct error *err)
{
	CLEANUP(secret_fini) struct secret token = SECRET_NONE;
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = { outer->clock, outer->cancel, outer->deadline_mono_ns, &arena };
	int64_t asked_boot_ns = clock_boot(a->clock), life_ns = 0;
	bool is_ok;

	single_flight_begin(&a->flight);
	mutex_unlock(&a->flight.mu);
	is_ok = try_often(a, &call, &token, &life_ns, err);
	mutex_lock(&a->flight.mu);
	if (is_ok)
		adopt(a, &token, asked_boot_ns, life_ns);
	else
		a->renew_boot_ns = clock_boot(a->clock) + AGAIN_NS;
	if (!is_ok)
		a->failure = *err;
	single_flight_end(&a->flight);
	return is_ok;
}

/* Called with mu held. */
static bool
is_usable(const struct service_account *a)
{
	return secret_is_set(&a->token) && clock_boot(a->clock) < a->ends_boot_ns;
}

/* Called with mu held. Waits until who asks has an answer, which is the answer for all. */
static bool
wait_for_other(struct service_account *a, const struct call *call, struct error *err)
{
	uint64_t run = single_flight_running(&a->flight);

	if (!single_flight_wait(&a->flight, call, run, "a token", NULL, err))
		return err_wrap(err, "service account " NAMESPACE "/%s", a->name);
	if (is_usable(a))
		return true;
	*err = a->failure;
	return false;
}

/* Called with mu held. A renewal that fails is no harm while the old token holds. */
static bool
renew(struct service_account *a, const struct call *call, struct error *err)
{
	if (ask(a, call, err))
		return true;
	if (!is_usable(a))
		return false;
	log_warn("token cannot be renewed, keeping the last one", LOG_ERR(err));
	return true;
}

static bool
ensure_token(struct service_account *a, const struct call *call, struct error *err)
{
	bool is_due = clock_boot(a->clock) >= a->renew_boot_ns;
	bool is_asking = single_flight_running(&a->flight) > 0;

	if (is_usable(a) && (!is_due || is_asking))
		return true;
	return is_asking ? wait_for_other(a, call, err) : renew(a, call, err);
}

static bool
get_token(struct service_account *a, const struct call *call, struct buf *ret,
          uint64_t *ret_generation, struct error *err)
{
	WITH_LOCK(&a->flight.mu);

	if (!ensure_token(a, call, err))
		return false;
	buf_add_str(ret, secret_expose(&a->token));
	*ret_generation = a->generation;
	return true;
}

bool
service_account_token(struct service_account *a, const struct call *call, struct buf *ret,
                      uint64_t *ret_generation, struct error *err)
{
	WITH_HOOK(call->cancel, single_flight_wake, &a->flight);

	return get_token(a, call, ret, ret_generation, err);
}

bool
service_account_rejected(struct service_account *a, uint64_t generation)
{
	int64_t now_ns = clock_boot(a->clock);
	WITH_LOCK(&a->flight.mu);

	if (a->generation > generation)
		return true;
	if (now_ns < a->next_refusal_boot_ns)
		return false;
	a->next_refusal_boot_ns = now_ns + REFUSED_NS;
	a->ends_boot_ns = now_ns; /* the account was made anew, say */
	return true;
}

/* ---- life cycle ---- */

struct service_account *
service_account_new(const char *name, struct kube_client *client, struct clock *clock)
{
	struct service_account *a = xcalloc(1, sizeof(*a));

	a->name = name;
	a->client = client;
	a->clock = clock;
	single_flight_init(&a->flight);
	return a;
}

void
service_account_free(struct service_account *a)
{
	if (!a)
		return;
	secret_fini(&a->token);
	single_flight_fini(&a->flight);
	free(a);
}
