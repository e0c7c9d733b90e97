/* serve/access.c: see access.h.
 *
 * Every request becomes a pending check, which goes through the steps
 *
 * 	access_check() -> [reviewer_token() -> check_on_token()] -> check_authorize()
 * 	               -> [reviewer_rights() -> check_on_rights()] -> check_finish()
 *
 * The steps in brackets are reviews. Their answers come from the cache, on the calling thread, or
 * later on the review thread; the same functions handle both. The check has copies of what the
 * later steps need of the request, because only the server's thread may look at a request's
 * connection.
 *
 * A wrong credential does not end the search, because another one may be valid (a token beside a
 * certificate of an unknown authority). But it is not forgotten: if no credential is valid, the
 * caller is refused, and does not become anonymous.
 */
#include "serve/access.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "serve/authorities.h"
#include "serve/reviewer.h"

#define START_NS (30 * NS_PER_SEC) /* for reading the ConfigMap at the start, with retries */

enum {
	MAX_MESSAGE = 4096,
};

/* ---- drafts ---- */

/* Counts an item of that many bytes; false if the draft would get too large. */
static bool
draft_has_room(struct access_draft *d, size_t bytes)
{
	bytes += sizeof(struct label);
	if (d->is_over || bytes > LIMIT_USER_BYTES - d->bytes)
		d->is_over = true;
	else
		d->bytes += bytes;
	return !d->is_over;
}

void
access_draft_name(struct access_draft *d, struct str name)
{
	if (draft_has_room(d, name.len))
		d->name = name;
}

void
access_draft_uid(struct access_draft *d, struct str uid)
{
	if (draft_has_room(d, uid.len))
		d->uid = uid;
}

/* Doubles the room for items of that size. The old memory is freed with the arena. */
static void *
draft_grow(struct arena *arena, const void *items, size_t n, size_t *cap, size_t item_size)
{
	void *larger;

	*cap = *cap ? *cap * 2 : 8;
	larger = arena_calloc(arena, *cap, item_size);
	if (n)
		memcpy(larger, items, n * item_size);
	return larger;
}

void
access_draft_group(struct access_draft *d, struct str group)
{
	if (!draft_has_room(d, group.len))
		return;
	if (d->n_groups == d->cap_groups)
		d->groups = draft_grow(d->arena, d->groups, d->n_groups, &d->cap_groups,
		                       sizeof(d->groups[0]));
	d->groups[d->n_groups++] = group;
}

void
access_draft_extra(struct access_draft *d, struct str key, struct str value)
{
	size_t at = d->n_extras;

	/* A value goes after the last one of its key, so that review_add_rights() can write the
	 * values of a key as one list. */
	while (at > 0 && !str_eq(d->extras[at - 1].key, key))
		at--;
	if (at == 0)
		at = d->n_extras;
	d->is_over = d->is_over || d->n_extras == LIMIT_USER_EXTRAS;
	if (!draft_has_room(d, key.len + value.len))
		return;
	if (d->n_extras == d->cap_extras)
		d->extras = draft_grow(d->arena, d->extras, d->n_extras, &d->cap_extras,
		                       sizeof(d->extras[0]));
	memmove(d->extras + at + 1, d->extras + at, (d->n_extras - at) * sizeof(d->extras[0]));
	d->extras[at] = (struct label){ key, value };
	d->n_extras++;
}

/* ---- users ---- */

/* One block: the user, its arrays, their texts. */
static struct access_user *
copy_draft(const struct access_draft *d)
{
	size_t groups_size = d->n_groups * sizeof(struct str);
	size_t extras_size = d->n_extras * sizeof(struct label);
	size_t size = sizeof(struct access_user) + groups_size + extras_size + d->bytes;
	struct access_user *u = xcalloc(1, size);
	char *at = (char *)(u + 1) + groups_size + extras_size;

	ref_init(&u->refs);
	u->size = size;
	u->groups = (struct str *)(u + 1);
	u->extras = (struct label *)(u->groups + d->n_groups);
	u->name = str_pack(&at, d->name);
	u->uid = str_pack(&at, d->uid);
	for (; u->n_groups < d->n_groups; u->n_groups++)
		u->groups[u->n_groups] = str_pack(&at, d->groups[u->n_groups]);
	for (; u->n_extras < d->n_extras; u->n_extras++) {
		struct label *extra = &u->extras[u->n_extras];

		extra->key = str_pack(&at, d->extras[u->n_extras].key);
		extra->value = str_pack(&at, d->extras[u->n_extras].value);
	}
	return u;
}

/* system:unauthenticated is kept: the API server may report that a token belongs to an anonymous
 * user. */
bool
access_user_new(struct access_draft *d, struct access_user **ret, struct error *err)
{
	if (!str_is_among(STR(ACCESS_AUTHENTICATED), d->groups, d->n_groups) &&
	    !str_is_among(STR(ACCESS_UNAUTHENTICATED), d->groups, d->n_groups))
		access_draft_group(d, STR(ACCESS_AUTHENTICATED));
	if (d->is_over)
		return err_set(err, ERR_INVALID, "the user has too many groups or extras");
	if (d->name.len == 0)
		return err_set(err, ERR_INVALID, "the user has no name");
	*ret = copy_draft(d);
	return true;
}

struct access_user *
access_user_anonymous(void)
{
	struct str group = STR(ACCESS_UNAUTHENTICATED);
	struct access_draft d = ACCESS_DRAFT_INIT(NULL);

	access_draft_name(&d, STR(ACCESS_ANONYMOUS));
	d.groups = &group;
	d.n_groups = draft_has_room(&d, group.len) ? 1 : 0;
	return copy_draft(&d);
}

void
access_user_unref(struct access_user *u)
{
	if (u && ref_drop(&u->refs))
		free(u);
}

bool
access_user_is_in(const struct access_user *u, const char *group)
{
	return str_is_among(str_c(group), u->groups, u->n_groups);
}

/* ---- certificates and tokens ---- */

/* Fails if it has more organizations than a user may have groups. */
static bool
user_of_certificate(const struct peer_name *peer, struct access_user **ret)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct access_draft d = ACCESS_DRAFT_INIT(&arena);
	struct error err;

	access_draft_name(&d, peer->common_name);
	for (size_t i = 0; i < peer->n_organizations; i++)
		access_draft_group(&d, peer->organizations[i]);
	return access_user_new(&d, ret, &err);
}

/* "Bearer TOKEN"; other schemes count as none. */
static bool
bearer_token(struct str authorization, struct str *ret)
{
	struct str scheme, token, rest = str_trim(authorization);

	if (!str_split(&rest, ' ', &scheme) || !str_eq_nocase(scheme, STR("Bearer")) ||
	    !str_split(&rest, ' ', &token) || token.len == 0)
		return false;
	*ret = token;
	return true;
}

enum access_identity
access_identify(const struct access_proof *client, struct str authorization, bool can_review,
                struct access_user **ret_user, struct str *ret_token)
{
	if (client->verdict == ACCESS_PROOF_GOOD && client->peer.common_name.len)
		return user_of_certificate(&client->peer, ret_user) ? ACCESS_KNOWN : ACCESS_REFUSED;
	if (can_review && bearer_token(authorization, ret_token))
		return ACCESS_HAS_TOKEN;
	if (client->verdict == ACCESS_PROOF_BAD)
		return ACCESS_REFUSED;
	*ret_user = access_user_anonymous();
	return ACCESS_KNOWN;
}

/* ---- rights ---- */

static struct str
without_slash(struct str path)
{
	return str_starts(path, STR("/")) ? str_skip(path, 1) : path;
}

bool
access_is_free(const struct access_user *user, struct str path, struct str_list paths)
{
	if (access_user_is_in(user, ACCESS_MASTERS))
		return true;
	path = without_slash(path);
	for (size_t i = 0; i < paths.n; i++) {
		struct str pattern = without_slash(paths.items[i]);

		if (str_ends(pattern, STR("*"))
		            ? str_starts(path, str_head(pattern, pattern.len - 1))
		            : str_eq(pattern, path))
			return true;
	}
	return false;
}

/* In the words of Kubernetes (docs/spec/kube-client.md, "Authorization"). */
void
access_add_refusal(struct buf *b, const struct access_user *user, struct str verb, struct str path,
                   struct str reason)
{
	buf_add_c(b, "forbidden: User ");
	json_add_str(b, user->name);
	buf_addf(b, " cannot %" STR_FMT " path ", STR_ARG(verb));
	json_add_str(b, path);
	if (reason.len) {
		buf_add_c(b, ": ");
		buf_add_str(b, reason);
	}
}

/* ---- pending checks ---- */

struct access {
	struct str_list allow_paths;
	bool can_review_tokens, can_review_rights;
	struct authorities *authorities;
	struct reviewer *reviewer;
};

typedef void access_done(void *arg, struct server_request *, enum access_outcome,
                         struct str message);

struct pending_check {
	struct access *access;
	struct server_request *request;
	access_done *done;
	void *arg;
	struct access_user *user; /* NULL until it is known */
	char peer[INET6_ADDRSTRLEN];
	struct str verb, path;
	char path_bytes[];
};

/* Other methods have no endpoint; only a rule for all verbs allows them. */
static const char *const verbs[] = {
	[SERVER_GET] = "get", [SERVER_HEAD] = "head",     [SERVER_POST] = "post",
	[SERVER_PUT] = "put", [SERVER_DELETE] = "delete", [SERVER_OTHER] = "other",
};

/* ---- the steps ---- */

static void
check_finish(struct pending_check *k, enum access_outcome outcome, struct str message)
{
	k->done(k->arg, k->request, outcome, message);
	access_user_unref(k->user);
	free(k);
}

static void
check_forbid(struct pending_check *k, struct str reason)
{
	CLEANUP(buf_fini) struct buf message = BUF_INIT(MAX_MESSAGE);

	access_add_refusal(&message, k->user, k->verb, k->path, reason);
	check_finish(k, ACCESS_FORBIDDEN, str_utf8_head(buf_str(&message), MAX_MESSAGE));
}

static void
check_on_rights(void *arg, const struct review_answer *answer)
{
	struct pending_check *k = arg;

	if (answer->verdict == REVIEW_YES)
		check_finish(k, ACCESS_ALLOWED, STR_EMPTY);
	else
		check_forbid(k, str_c(answer->reason));
}

/* Handles the result of asking the reviewer. With REVIEWER_ASKS, k may be freed already, because
 * the review thread may have finished it. */
static void
check_continue(enum reviewer_start start, struct review_answer *answer, reviewer_done *next,
               struct pending_check *k)
{
	switch (start) {
	case REVIEWER_KNOWS:
		next(k, answer);
		review_answer_unref(answer);
		return;
	case REVIEWER_BUSY:
		check_finish(k, ACCESS_BUSY, STR("too many requests wait for the API server"));
		return;
	case REVIEWER_SOURCE_BUSY:
		check_finish(k, ACCESS_TOO_MANY,
		             STR("too many requests of this caller wait for the API server"));
		return;
	case REVIEWER_ASKS:
		return;
	}
}

/* Takes over the reference to user. */
static void
check_authorize(struct pending_check *k, struct access_user *user)
{
	struct review_answer *answer = NULL;
	enum reviewer_start start;

	k->user = user;
	if (access_is_free(user, k->path, k->access->allow_paths)) {
		check_finish(k, ACCESS_ALLOWED, STR_EMPTY);
	} else if (k->access->can_review_rights) {
		start = reviewer_rights(k->access->reviewer, str_c(k->peer), user, k->verb, k->path,
		                        &answer, check_on_rights, k);
		check_continue(start, answer, check_on_rights, k);
	} else {
		check_forbid(k, STR_EMPTY);
	}
}

static void
check_on_token(void *arg, const struct review_answer *answer)
{
	struct pending_check *k = arg;

	if (answer->verdict != REVIEW_YES) {
		check_finish(k, ACCESS_UNAUTHORIZED, STR("Unauthorized"));
		return;
	}
	ref_take(&answer->user->refs);
	check_authorize(k, answer->user);
}

static struct access_proof
check_certificate(const struct server_request *request, const struct trust *trust,
                  struct arena *arena)
{
	struct access_proof proof = { .verdict = ACCESS_PROOF_NONE };
	struct error err;

	if (!trust || !server_request_has_certificate(request))
		return proof;
	proof.verdict = ACCESS_PROOF_GOOD;
	if (!server_request_verify(request, trust, arena, &proof.peer, &err)) {
		log_debug("client certificate is not trusted", LOG_ERR(&err));
		proof.verdict = ACCESS_PROOF_BAD;
	}
	return proof;
}

static struct pending_check *
pending_check_new(struct access *a, struct server_request *request, access_done *done, void *arg)
{
	struct str path = server_request_path(request);
	struct pending_check *k = xcalloc(1, sizeof(*k) + path.len);

	*k = (struct pending_check){
		.access = a,
		.request = request,
		.done = done,
		.arg = arg,
		.verb = str_c(verbs[server_request_method(request)]),
	};
	snprintf(k->peer, sizeof(k->peer), "%" STR_FMT, STR_ARG(server_request_peer(request)));
	memcpy(k->path_bytes, path.ptr, path.len);
	k->path = str_n(k->path_bytes, path.len);
	return k;
}

void
access_check(struct access *a, struct server_request *request, access_done *done, void *arg)
{
	CLEANUP(trust_unrefp) struct trust *trust = authorities_get(a->authorities);
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct access_proof client = check_certificate(request, trust, &arena);
	struct pending_check *k = pending_check_new(a, request, done, arg);
	struct str token, authorization = STR_EMPTY;
	struct review_answer *answer = NULL;
	enum reviewer_start start;
	struct access_user *user;

	(void)server_request_header(request, "Authorization", 0, &authorization);
	switch (access_identify(&client, authorization, a->can_review_tokens, &user, &token)) {
	case ACCESS_KNOWN:
		check_authorize(k, user);
		return;
	case ACCESS_HAS_TOKEN:
		start = reviewer_token(a->reviewer, str_c(k->peer), token, &answer, check_on_token,
		                       k);
		check_continue(start, answer, check_on_token, k);
		return;
	case ACCESS_REFUSED:
		/* the authorities may have changed since they were read; the next request is
		 * checked against the new ones */
		reviewer_upkeep_by(a->reviewer, authorities_recheck(a->authorities));
		check_finish(k, ACCESS_UNAUTHORIZED, STR("Unauthorized"));
		return;
	}
}

/* ---- life cycle ---- */

bool
access_new(const struct access_config *config, struct access **ret, struct error *err)
{
	CLEANUP(access_freep) struct access *a = xcalloc(1, sizeof(*a));
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct call call = { .clock = config->clock, .cancel = config->cancel, .arena = &arena };
	struct authorities_config authorities = {
		.client = config->authentication,
		.clock = config->clock,
		.skip_lookup = config->skip_lookup,
		.tolerate_lookup_failure = config->tolerate_lookup_failure,
		.client_ca_file = config->client_ca_file,
	};
	struct reviewer_config reviewer = {
		.tokens = config->authentication,
		.rights = config->authorization,
		.clock = config->clock,
		.token_ttl_ns = config->token_ttl_ns,
		.authorized_ttl_ns = config->authorized_ttl_ns,
		.unauthorized_ttl_ns = config->unauthorized_ttl_ns,
		.upkeep = authorities_refresh,
	};

	a->allow_paths = config->allow_paths;
	a->can_review_tokens = config->authentication && !config->authentication->is_plain;
	a->can_review_rights = config->authorization;

	call.deadline_mono_ns = clock_deadline(clock_mono(config->clock), START_NS);
	if (!authorities_new(&authorities, &call, &a->authorities, err))
		return false;

	if (config->authentication && config->authentication->is_plain)
		log_warn("the API server that authenticates callers is reached over plain http: "
		         "tokens of callers are ignored, and not sent to it");
	if (!config->authentication)
		log_warn(
			"no API server is configured to authenticate callers: tokens are ignored, and "
			"client certificates count only with --client-ca-file");
	if (!config->authorization)
		log_warn("no API server is configured to authorize callers: only members of "
		         "system:masters have access, except to paths that are always allowed");
	reviewer.arg = a->authorities;
	a->reviewer = reviewer_new(&reviewer);
	*ret = TAKE(a);
	return true;
}

void
access_free(struct access *a)
{
	if (!a)
		return;
	if (a->reviewer) {
		reviewer_stop(a->reviewer);
		reviewer_free(a->reviewer);
	}
	authorities_free(a->authorities);
	free(a);
}
