/* token.c: see token.h.
 *
 * A renewal is a run of a single flight. It uses the credentials without the lock, so they are read
 * from their files only while no renewal runs. Its result is stored under the lock when it ends, so
 * that a token, its end and the refresh token always belong together.
 */
#include "providers/brightbox/token.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/single_flight.h"
#include "base/thread.h"
#include "base/version.h"
#include "http/url.h"
#include "providers/brightbox/client.h"

#define SCOPE "infrastructure orbit"

enum {
	EXPIRY_MARGIN_S = 10, /* a token counts as expired that long before its end */
	/* between two renewals because of refusals: if the API refuses a new token as well, another
	 * one does not help */
	REFUSED_PAUSE_S = 30,
	AGAIN_S = 10, /* until the next attempt after a failure with new credentials */
	LIFE_MAX_S = INT32_MAX,
	FORM_MAX_BYTES = 4 << 10,
	TOKEN_MAX_BYTES = 4 << 10,
};

struct bb_token {
	struct http_auth auth;        /* of requests to the API: the token */
	struct http_auth client_auth; /* of token requests: the client's id and secret */
	const struct cloud_host *host;
	struct http_client *http;     /* for token requests; in tests the host's client */
	struct single_flight flight;  /* one renewal at a time; mu below is its lock */
	struct bb_config *config;     /* used by the renewal that runs; else mu */
	struct secret access;         /* mu */
	struct secret refresh;        /* mu; not set: the API gave none */
	int64_t ends_boot_ns;         /* mu */
	int64_t due_boot_ns;          /* mu; when to renew it although it is valid */
	int64_t next_refusal_boot_ns; /* mu */
	uint64_t generation;          /* mu */
	bool has_new_credentials;     /* mu; the token is still that of the former ones */
	/* mu; the last renewal whose result other callers use, and its failure; ERR_NONE: it got a
	 * token */
	uint64_t answered_run;
	struct error failure;
};

/* ---- the token request ---- */

/* As url.QueryEscape() of Go writes it: with '+' for a blank. */
static void
bb_form_escape(struct buf *form, struct str value)
{
	for (struct str word, rest = value; str_split(&rest, ' ', &word);) {
		url_add_escaped(form, word);
		if (rest.ptr)
			buf_add_c(form, "+");
	}
}

static void
bb_form_add(struct buf *form, const char *name, struct str value)
{
	buf_addf(form, "%s%s=", form->len > 0 ? "&" : "", name);
	bb_form_escape(form, value);
}

/* The id and the secret are escaped as in a form before they are joined (RFC 6749, section 2.3.1).
 */
static bool
bb_client_authorize(struct http_auth *auth, const struct call *call, struct buf *ret,
                    uint64_t *ret_generation, struct error *err)
{
	struct bb_token *t = CONTAINER_OF(auth, struct bb_token, client_auth);
	CLEANUP(buf_fini) struct buf plain = BUF_SECRET(LIMIT_CREDENTIAL);

	(void)call;
	bb_form_escape(&plain, secret_expose(&t->config->client.value));
	buf_add_c(&plain, ":");
	bb_form_escape(&plain, secret_expose(&t->config->client_secret.value));
	buf_add_c(ret, "Basic ");
	base64_add(ret, buf_str(&plain));
	*ret_generation = 0;
	if (!buf_ok(&plain) || !buf_ok(ret))
		return err_set(err, ERR_UNAUTHORIZED, "BRIGHTBOX_CLIENT_SECRET is too long");
	return true;
}

/* ---- the answer ---- */

/* Does an answer repeat the secret, as it is or as it was in the form? */
static bool
bb_repeats(struct str body, const struct secret *secret)
{
	CLEANUP(buf_fini) struct buf escaped = BUF_SECRET(LIMIT_CREDENTIAL);

	if (!secret_is_set(secret) || secret_expose(secret).len == 0)
		return false;
	bb_form_escape(&escaped, secret_expose(secret));
	return str_contains(body, secret_expose(secret)) || str_contains(body, buf_str(&escaped));
}

/* The texts are those of Go's oauth2, because people search for them. Refused credentials must be
 * replaced by a person; all other failures are temporary. */
static bool
bb_token_refused(const struct http_response *response, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	CLEANUP(buf_fini) struct buf body = BUF_INIT(ERR_MSG_SIZE / 2);
	struct str error = STR_EMPTY, description = STR_EMPTY;
	const char *reason = http_status(response->status).text;
	enum err_code code = ERR_UNAVAILABLE;
	struct error ignored;

	if (response->status == 429)
		code = ERR_THROTTLED;
	else if (response->status >= 400 && response->status < 500)
		code = ERR_UNAUTHORIZED;
	if (json_parse(buf_str(&response->body), &doc, &ignored)) {
		(void)json_str(yyjson_doc_get_root(doc), "error", &error);
		(void)json_str(yyjson_doc_get_root(doc), "error_description", &description);
	}
	err->retry_after_ms = response->retry_after_ms;
	if (error.len > 0) {
		quote_add(&body, error);
		if (description.len > 0) {
			buf_add_c(&body, " ");
			quote_add(&body, description);
		}
		err_set(err, code, "oauth2: %s", body.ptr);
	} else {
		/* a page that is not JSON may repeat the request */
		if (doc)
			buf_add_clean(&body, buf_str(&response->body));
		else if (response->body.len > 0)
			buf_addf(&body, "(%zu bytes that are not JSON)", response->body.len);
		err_set(err, code, "oauth2: cannot fetch token: %d%s%s Response: %s",
		        response->status, reason[0] ? " " : "", reason, body.ptr);
	}
	err->http_status = response->status;
	return false;
}

/* A member of an answer that is a form rather than JSON, decoded in the arena; empty if it is
 * absent. */
static struct str
bb_form_value(struct arena *arena, struct str form, const char *name)
{
	CLEANUP(buf_fini) struct buf plain = BUF_SECRET(FORM_MAX_BYTES);
	struct str key, value = STR_EMPTY;
	bool is_found = false;

	for (struct str pair, rest = form; !is_found && str_split(&rest, '&', &pair);)
		is_found = str_cut(pair, '=', &key, &value) && str_eq_c(key, name);
	for (size_t i = 0; is_found && i < value.len; i++) {
		int high = i + 2 < value.len ? str_hex_digit(value.ptr[i + 1]) : -1;
		int low = i + 2 < value.len ? str_hex_digit(value.ptr[i + 2]) : -1;

		if (value.ptr[i] == '%' && high >= 0 && low >= 0) {
			buf_add_char(&plain, (char)(high * 16 + low));
			i += 2;
		} else {
			buf_add_char(&plain, value.ptr[i] == '+' ? ' ' : value.ptr[i]);
		}
	}
	return arena_str(arena, buf_str(&plain));
}

/* What a token answer says, in either of its two forms. */
struct bb_grant {
	struct secret access, refresh;
	int64_t life_s; /* 0: it never ends */
};

static void
bb_grant_fini(struct bb_grant *grant)
{
	secret_fini(&grant->access);
	secret_fini(&grant->refresh);
}

static bool
bb_grant_read(struct arena *arena, struct str body, struct bb_grant *ret, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	struct str access = STR_EMPTY, refresh = STR_EMPTY, life = STR_EMPTY;
	struct error ignored;

	if (json_parse(body, &doc, &ignored)) {
		yyjson_val *root = yyjson_doc_get_root(doc);

		(void)json_str(root, "access_token", &access);
		(void)json_str(root, "refresh_token", &refresh);
		(void)json_i64(root, "expires_in", &ret->life_s);
		(void)json_str(root, "expires_in", &life);
	} else {
		access = bb_form_value(arena, body, "access_token");
		refresh = bb_form_value(arena, body, "refresh_token");
		life = bb_form_value(arena, body, "expires_in");
	}
	if (access.len == 0)
		return err_set(err, ERR_UNAVAILABLE,
		               "oauth2: server response missing access_token");
	if (access.len > TOKEN_MAX_BYTES || !str_is_visible(access))
		return err_set(err, ERR_UNAVAILABLE,
		               "oauth2: the access_token in the server response has blanks or "
		               "other characters that a header cannot have, or more than %d bytes",
		               TOKEN_MAX_BYTES);
	/* both are overwritten where they were found, in the document or in the arena */
	secret_assign(&ret->access, access);
	secret_assign(&ret->refresh, refresh);
	explicit_bzero((char *)(uintptr_t)access.ptr, access.len);
	explicit_bzero((char *)(uintptr_t)refresh.ptr, refresh.len);
	(void)!str_to_i64(life, 0, LIFE_MAX_S, &ret->life_s);
	if (ret->life_s > LIFE_MAX_S)
		ret->life_s = LIFE_MAX_S;
	return true;
}

/* ---- renewing ---- */

static bool
bb_token_request(struct bb_token *t, struct call *call, const struct secret *refresh,
                 struct bb_grant *ret, struct error *err)
{
	CLEANUP(http_response_fini)
	struct http_response response = { .body = BUF_SECRET(FORM_MAX_BYTES) };
	CLEANUP(buf_fini) struct buf form = BUF_SECRET(LIMIT_CREDENTIAL);
	const struct bb_config *config = t->config;
	struct http_request request = {
		.method = HTTP_POST,
		.target = STR(BB_TOKEN_TARGET),
		.content_type = "application/x-www-form-urlencoded",
		.max_body = FORM_MAX_BYTES,
	};

	/* the parameters are in the order of their names */
	if (!config->has_user) {
		bb_form_add(&form, "grant_type", STR("client_credentials"));
		bb_form_add(&form, "scope", STR(SCOPE));
	} else if (secret_is_set(refresh)) {
		bb_form_add(&form, "grant_type", STR("refresh_token"));
		bb_form_add(&form, "refresh_token", secret_expose(refresh));
	} else {
		bb_form_add(&form, "grant_type", STR("password"));
		bb_form_add(&form, "password", secret_expose(&config->password.value));
		bb_form_add(&form, "scope", STR(SCOPE));
		bb_form_add(&form, "username", secret_expose(&config->user.value));
	}
	if (!buf_ok(&form))
		return err_set(err, ERR_UNAUTHORIZED, "BRIGHTBOX_PASSWORD is too long");
	request.body = buf_str(&form);
	if (!host_count_request(t->host, err) || !http_do(t->http, call, &request, &response, err))
		return false;
	if (response.status < 200 || response.status >= 300) {
		/* a proxy's error page may show the whole request */
		if (bb_repeats(buf_str(&response.body), &config->client_secret.value) ||
		    bb_repeats(buf_str(&response.body), &config->password.value) ||
		    bb_repeats(buf_str(&response.body), refresh)) {
			buf_reset(&response.body);
			buf_add_c(&response.body, "not shown, because it repeats the credentials");
		}
		return bb_token_refused(&response, err);
	}
	return bb_grant_read(call->arena, buf_str(&response.body), ret, err);
}

/* If the API refuses the refresh token, a token is requested with the user's password. */
static bool
bb_token_renew(struct bb_token *t, const struct call *outer, struct secret *refresh,
               struct bb_grant *ret, struct error *err)
{
	CLEANUP(arena_wipe) struct arena arena = ARENA_INIT;
	struct call call = { .clock = outer->clock,
		             .cancel = outer->cancel,
		             .deadline_mono_ns = outer->deadline_mono_ns,
		             .arena = &arena };

	if (bb_token_request(t, &call, refresh, ret, err))
		return true;
	if (!secret_is_set(refresh) || err->code != ERR_UNAUTHORIZED)
		return false;
	secret_fini(refresh);
	return bb_token_request(t, &call, refresh, ret, err);
}

/* Called with mu held, while no renewal runs. True if a file has other credentials; the next
 * caller requests a token with them. */
static bool
bb_token_refresh_credentials(struct bb_token *t)
{
	struct bb_config *config = t->config;
	bool has_changed = login_secret_refresh(&config->client);

	has_changed |= login_secret_refresh(&config->client_secret);
	has_changed |= login_secret_refresh(&config->user);
	has_changed |= login_secret_refresh(&config->password);
	if (has_changed) {
		log_info("credentials were replaced", LOG_CSTR("cloud", "brightbox"));
		secret_fini(&t->refresh);
		t->due_boot_ns = 0;
		t->has_new_credentials = true;
	}
	return has_changed;
}

/* Called with mu held. */
static bool
bb_token_is_usable(const struct bb_token *t)
{
	return secret_is_set(&t->access) && clock_boot(t->host->clock) < t->ends_boot_ns;
}

/* Called with mu held, which is released meanwhile. A renewal that ended only because this caller
 * was cancelled, or ran out of time, has no result for other callers: the next one renews. A token
 * that is still valid stays in use if the API refuses new credentials: one of two files may have
 * been replaced before the other. */
static bool
bb_token_lead(struct bb_token *t, const struct call *call, struct error *err)
{
	CLEANUP(secret_fini) struct secret refresh = SECRET_NONE;
	CLEANUP(bb_grant_fini) struct bb_grant grant = { 0 };
	int64_t asked_boot_ns = clock_boot(t->host->clock);
	bool is_good, has_result;

	secret_assign(&refresh, secret_expose(&t->refresh));
	single_flight_begin(&t->flight);
	mutex_unlock(&t->flight.mu);
	is_good = bb_token_renew(t, call, &refresh, &grant, err);
	mutex_lock(&t->flight.mu);
	if (is_good) {
		secret_set(&t->access, secret_expose(&grant.access));
		secret_assign(&t->refresh, secret_expose(&grant.refresh)); /* or none */
		t->generation++;
		if (t->has_new_credentials)
			login_note_replaced();
		t->has_new_credentials = false;
		t->due_boot_ns = t->ends_boot_ns = CLOCK_FOREVER;
		if (grant.life_s > 0)
			t->ends_boot_ns = clock_deadline(asked_boot_ns,
			                                 (grant.life_s - EXPIRY_MARGIN_S) *
			                                         NS_PER_SEC);
	}
	has_result = is_good || (err->code != ERR_CANCELLED &&
	                         clock_mono(call->clock) < call->deadline_mono_ns);
	if (has_result) {
		t->answered_run = single_flight_running(&t->flight);
		t->failure = is_good ? (struct error){ 0 } : *err;
	}
	single_flight_end(&t->flight);
	if (is_good || !bb_token_is_usable(t))
		return is_good;
	if (has_result) {
		t->due_boot_ns = clock_deadline(clock_boot(t->host->clock), AGAIN_S * NS_PER_SEC);
		log_warn("no access token for the new credentials, keeping the last one",
		         LOG_ERR(err));
	}
	return true;
}

/* Called with mu held. A token that was requested for this caller is used however short its life
 * is: one that lives for less than the margin would otherwise be renewed again and again. */
static bool
bb_token_ensure(struct bb_token *t, const struct call *call, struct error *err)
{
	for (uint64_t run; (run = single_flight_running(&t->flight)) > 0;) {
		if (bb_token_is_usable(t))
			return true;
		if (!single_flight_wait(&t->flight, call, run, "an access token", NULL, err))
			return false;
		if (t->answered_run < run)
			continue;
		if (t->failure.code != ERR_NONE) {
			*err = t->failure;
			return false;
		}
		if (secret_is_set(&t->access)) /* and not refused by the API since */
			return true;
	}
	(void)bb_token_refresh_credentials(t);
	if (bb_token_is_usable(t) && clock_boot(t->host->clock) < t->due_boot_ns)
		return true;
	return bb_token_lead(t, call, err);
}

/* ---- the Authorization header ---- */

static bool
bb_token_authorize(struct http_auth *auth, const struct call *call, struct buf *ret,
                   uint64_t *ret_generation, struct error *err)
{
	struct bb_token *t = CONTAINER_OF(auth, struct bb_token, auth);
	WITH_HOOK(call->cancel, single_flight_wake, &t->flight);
	WITH_LOCK(&t->flight.mu);

	if (!bb_token_ensure(t, call, err))
		return false;
	buf_add_c(ret, "Bearer ");
	buf_add_str(ret, secret_expose(&t->access));
	*ret_generation = t->generation;
	return true;
}

static bool
bb_token_rejected(struct http_auth *auth, uint64_t generation)
{
	struct bb_token *t = CONTAINER_OF(auth, struct bb_token, auth);
	int64_t now_ns = clock_boot(t->host->clock);
	WITH_LOCK(&t->flight.mu);

	if (t->generation != generation)
		return true;
	if ((single_flight_running(&t->flight) > 0 || !bb_token_refresh_credentials(t)) &&
	    now_ns < t->next_refusal_boot_ns)
		return false;
	t->next_refusal_boot_ns = now_ns + REFUSED_PAUSE_S * NS_PER_SEC;
	secret_fini(&t->access);
	secret_fini(&t->refresh);
	return true;
}

struct http_auth *
bb_token_auth(struct bb_token *t)
{
	return &t->auth;
}

bool
bb_token_fetch(struct bb_token *t, struct call *call, struct error *err)
{
	CLEANUP(buf_fini) struct buf header = BUF_SECRET(LIMIT_CREDENTIAL);
	uint64_t generation;

	return bb_token_authorize(&t->auth, call, &header, &generation, err);
}

/* ---- life cycle ---- */

bool
bb_token_new(const struct cloud_host *host, struct bb_config *config, struct bb_token **ret,
             struct error *err)
{
	CLEANUP(bb_token_freep) struct bb_token *t = xcalloc(1, sizeof(*t));
	CLEANUP(buf_fini) struct buf root = BUF_INIT(LIMIT_HTTP_URL);
	CLEANUP(buf_fini) struct buf agent = BUF_INIT(KIB(1));
	struct http_config http = { .name = "brightbox-token",
		                    .auth = &t->client_auth,
		                    .clock = host->clock };

	t->host = host;
	t->config = config;
	t->auth = (struct http_auth){ .authorize = bb_token_authorize,
		                      .rejected = bb_token_rejected };
	t->client_auth = (struct http_auth){ .authorize = bb_client_authorize };
	t->http = host->http;
	single_flight_init(&t->flight);
	bb_url_resolve(&root, config->api_url, "");
	buf_addf(&agent, "ccmd/%" STR_FMT, STR_ARG(str_skip(version_get(), 1)));
	http.base_url = buf_str(&root);
	http.user_agent = buf_str(&agent);
	if (!t->http && !http_client_new(&http, &t->http, err))
		return err_wrap(err, "BRIGHTBOX_API_URL");
	*ret = TAKE(t);
	return true;
}

void
bb_token_free(struct bb_token *t)
{
	if (!t)
		return;
	if (t->http != t->host->http)
		http_client_free(t->http);
	secret_fini(&t->access);
	secret_fini(&t->refresh);
	single_flight_fini(&t->flight);
	free(t);
}
