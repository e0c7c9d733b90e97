/* kube/service_account.c: tokens of a service account; see credentials.h.
 * A token's life is the one we asked for or the one the server granted, whichever is shorter. It is
 * counted from before the request, on the boot clock, so neither the server's clock nor a
 * suspension of the machine matters.
 *
 * All requests that need a token go through ensure_token() under one lock: the first that finds the
 * token missing or due for renewal requests a new one, without the lock. The others use the old
 * token while it is valid, and otherwise wait for that request and share its result.
 */
#include "kube/credentials.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/single_flight.h"
#include "base/thread.h"

#define NAMESPACE "kube-system"
#define LIFE_S 3600
#define SHORTEST_NS (600 * NS_PER_SEC) /* the API's minimum; a shorter life is treated as this */
#define AGAIN_NS (10 * NS_PER_SEC)     /* until the next attempt after a failed renewal */
#define REFUSED_NS NS_PER_SEC          /* between two 401 that lead to a new token */

enum {
	TRIES = 4,
	FIRST_WAIT_MS = 500,
};

struct service_account {
	const char *name;
	struct kube_client *client;
	struct clock *clock;
	struct single_flight flight;  /* one request at a time; mu below is its lock */
	struct error failure;         /* mu: of the last request, if it failed */
	struct secret token;          /* mu */
	uint64_t generation;          /* mu */
	int64_t renew_boot_ns;        /* mu: when to request another token */
	int64_t ends_boot_ns;         /* mu: when the token expires */
	int64_t next_refusal_boot_ns; /* mu: a 401 before that does not lead to a new token */
};

/* ---- requests ---- */

/* Creates an object, unless it exists already. */
static bool
create(struct service_account *a, struct call *call, struct str path, struct str body,
       struct error *err)
{
	if (kube_post(a->client, call, path, HTTP_WORK, body, /*ret_body=*/NULL, err))
		return true;
	return err->code == ERR_EXISTS;
}

/* Creates the account, and its namespace first if that is missing. */
static bool
create_account(struct service_account *a, struct call *call, struct error *err)
{
	struct str path = STR("/api/v1/namespaces/" NAMESPACE "/serviceaccounts");
	struct str namespace = STR("{\"apiVersion\":\"v1\",\"kind\":\"Namespace\","
	                           "\"metadata\":{\"name\":\"" NAMESPACE "\"}}");
	struct str account = arena_printf(
		call->arena,
		"{\"apiVersion\":\"v1\",\"kind\":\"ServiceAccount\",\"metadata\":{\"name\":\"%s\","
		"\"namespace\":\"" NAMESPACE "\"}}",
		a->name);

	if (create(a, call, path, account, err))
		return true;
	if (err->code != ERR_NOT_FOUND)
		return err_wrap(err, "create the account");
	if (!create(a, call, STR("/api/v1/namespaces"), namespace, err))
		return err_wrap(err, "create namespace " NAMESPACE);
	if (!create(a, call, path, account, err))
		return err_wrap(err, "create the account");
	return true;
}

/* The spec of the answer holds the life that the server granted. The token is overwritten in the
 * document after it was copied. */
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
		return err_set(err, ERR_INTERNAL, "the response has no token");
	if (!str_is_visible(token))
		return err_set(
			err, ERR_INVALID,
			"the token in the response contains characters that are not allowed");
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
	struct str path = arena_printf(call->arena,
	                               "/api/v1/namespaces/" NAMESPACE "/serviceaccounts/%s/token",
	                               a->name);
	struct str body = arena_printf(
		call->arena,
		"{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"TokenRequest\","
		"\"spec\":{\"expirationSeconds\":%d}}",
		LIFE_S);

	if (!kube_post_secret(a->client, call, path, body, &answer, err)) {
		if (err->code != ERR_NOT_FOUND || !create_account(a, call, err))
			return false;
		if (!kube_post_secret(a->client, call, path, body, &answer, err))
			return false;
		log_info("service account created", LOG_CSTR("namespace", NAMESPACE),
		         LOG_CSTR("name", a->name));
	}
	return read_answer(buf_str(&answer), ret, ret_life_ns, err);
}

/* Requests a token, up to TRIES times. For the request that needed the token, a failure means that
 * it has no credential: ERR_UNAUTHORIZED. */
static bool
request_with_retries(struct service_account *a, struct call *call, struct secret *ret,
                     int64_t *ret_life_ns, struct error *err)
{
	struct attempts attempts = { .begun_ns = clock_mono(call->clock) };
	int64_t wait_ns = FIRST_WAIT_MS * NS_PER_MS;

	while (!request_token(a, call, ret, ret_life_ns, err)) {
		/* a missing permission or an invalid request is refused half a second later too */
		bool is_final = err->code == ERR_CANCELLED || err->code == ERR_FORBIDDEN ||
		                err->code == ERR_INVALID;

		attempts_note(&attempts, err);
		if (attempts.n == TRIES || is_final ||
		    clock_deadline(clock_mono(call->clock), wait_ns) >= call->deadline_mono_ns) {
			(void)attempts_end(&attempts, clock_mono(call->clock), err);
			if (err->code != ERR_CANCELLED && err->code != ERR_TIMEOUT)
				err->code = ERR_UNAUTHORIZED;
			return err_wrap(err, "token of service account " NAMESPACE "/%s", a->name);
		}
		if (!cancel_sleep(call->cancel, call->clock, wait_ns, err))
			return false;
		wait_ns *= 2;
	}
	return true;
}

/* ---- the present token ---- */

/* Called with mu held. */
static bool
is_usable(const struct service_account *a)
{
	return secret_is_set(&a->token) && clock_boot(a->clock) < a->ends_boot_ns;
}

/* Called with mu held, which is released during the request. A failure counts only if the old token
 * is not valid any more. */
static bool
renew_token(struct service_account *a, const struct call *outer, struct error *err)
{
	CLEANUP(secret_fini) struct secret token = SECRET_NONE;
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = { .clock = outer->clock,
		             .cancel = outer->cancel,
		             .deadline_mono_ns = outer->deadline_mono_ns,
		             .arena = &arena };
	int64_t asked_boot_ns = clock_boot(a->clock), life_ns = 0;
	bool is_ok;

	single_flight_begin(&a->flight);
	mutex_unlock(&a->flight.mu);
	is_ok = request_with_retries(a, &call, &token, &life_ns, err);
	mutex_lock(&a->flight.mu);
	if (is_ok) {
		life_ns = clock_later(life_ns, SHORTEST_NS);
		secret_set(&a->token, secret_expose(&token));
		a->generation++;
		a->renew_boot_ns = asked_boot_ns + life_ns / 5 * 4;
		a->ends_boot_ns = asked_boot_ns + life_ns;
	} else {
		a->renew_boot_ns = clock_boot(a->clock) + AGAIN_NS;
		a->failure = *err;
	}
	single_flight_end(&a->flight);
	if (is_ok || !is_usable(a))
		return is_ok;
	log_warn("token cannot be renewed, keeping the last one", LOG_ERR(err));
	return true;
}

/* Called with mu held. The answer of a running request counts for all that wait for it. */
static bool
ensure_token(struct service_account *a, const struct call *call, struct error *err)
{
	uint64_t run = single_flight_running(&a->flight); /* 0: none */
	bool is_due = clock_boot(a->clock) >= a->renew_boot_ns;

	if (is_usable(a) && (!is_due || run > 0))
		return true;
	if (run == 0)
		return renew_token(a, call, err);
	if (!single_flight_wait(&a->flight, call, run, "a token", NULL, err))
		return err_wrap(err, "service account " NAMESPACE "/%s", a->name);
	if (is_usable(a))
		return true;
	*err = a->failure;
	return false;
}

bool
service_account_token(struct service_account *a, const struct call *call, struct buf *ret,
                      uint64_t *ret_generation, struct error *err)
{
	WITH_HOOK(call->cancel, single_flight_wake, &a->flight);
	WITH_LOCK(&a->flight.mu);

	if (!ensure_token(a, call, err))
		return false;
	buf_add_str(ret, secret_expose(&a->token));
	*ret_generation = a->generation;
	return true;
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
	a->ends_boot_ns = now_ns; /* for example, the account was deleted and created again */
	return true;
}

/* ---- life cycle ---- */

struct service_account *
service_account_new(const char *name, struct kube_client *client, struct clock *clock)
{
	struct service_account *a = xcalloc(1, sizeof(*a));

	*a = (struct service_account){ .name = name, .client = client, .clock = clock };
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
