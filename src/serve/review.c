/* serve/review.c: see review.h.
 *
 * Answers are read strictly: a field of another type than Kubernetes documents is an error, and an
 * error refuses the caller. A field that is absent is false or empty, since Kubernetes leaves such
 * fields out.
 */
#include "serve/review.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/rand.h"

enum {
	MAX_BODY = 2 * 1024 * 1024, /* JSON may need six bytes for one byte of a user: \u0001 */
};

/* ---- answers ---- */

struct review_answer *
review_answer_new(enum review_verdict verdict, struct access_user *user, struct str reason)
{
	struct review_answer *a = xcalloc(1, sizeof(*a));
	struct str head = str_utf8_head(reason, sizeof(a->reason) - 1);

	ref_init(&a->refs);
	a->verdict = verdict;
	a->user = user;
	memcpy(a->reason, head.ptr, head.len);
	return a;
}

void
review_answer_unref(struct review_answer *a)
{
	if (!a || !ref_drop(&a->refs))
		return;
	access_user_unref(a->user);
	free(a);
}

/* ---- requests ---- */

void
review_add_token(struct buf *b, struct str token)
{
	buf_add_c(b, "{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"TokenReview\","
	             "\"spec\":{");
	json_add_text(b, "token", token);
	buf_add_c(b, "}}");
}

/* {"key":["value","value"],…}: the values of a key are adjacent (access_draft_extra()). */
static void
add_extras(struct buf *b, const struct access_user *user)
{
	json_begin_object(b, "extra");
	for (size_t i = 0; i < user->n_extras; i++) {
		if (i == 0 || !str_eq(user->extras[i - 1].key, user->extras[i].key)) {
			if (i > 0)
				json_end_array(b);
			json_add_name(b, user->extras[i].key);
			json_begin_array(b, NULL);
		}
		json_add_text(b, NULL, user->extras[i].value);
	}
	buf_add_c(b, user->n_extras ? "]}" : "}");
}

void
review_add_rights(struct buf *b, const struct access_user *user, struct str verb, struct str path)
{
	buf_add_c(b, "{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SubjectAccessReview\","
	             "\"spec\":{");
	json_add_members(b, JSON_TEXT("user", user->name),
	                 JSON_IF(user->uid.len > 0, JSON_TEXT("uid", user->uid)));
	json_add_texts(b, "groups", user->groups, user->n_groups);
	if (user->n_extras)
		add_extras(b, user);
	json_add_object(b, "nonResourceAttributes", JSON_TEXT("path", path),
	                JSON_TEXT("verb", verb));
	buf_add_c(b, "}}");
}

/* ---- reading answers ---- */

/* Finds the status of an answer of the expected kind. */
static bool
find_status(yyjson_val *root, const char *kind, yyjson_val **ret, struct error *err)
{
	struct str found = STR_EMPTY;

	if (json_str(root, "kind", &found) != JSON_FOUND || !str_eq_c(found, kind))
		return err_set(err, ERR_INVALID, "the response is not a %s", kind);
	if (json_object(root, "status", ret) != JSON_FOUND)
		return err_set(err, ERR_INVALID, "%s without a status", kind);
	return true;
}

static bool
mistyped(const char *field, struct error *err)
{
	return err_set(err, ERR_INVALID, "status.%s has the wrong type", field);
}

/* *ret stays as it is where the field is absent. */
static bool
read_bool(yyjson_val *status, const char *field, bool *ret, struct error *err)
{
	if (json_bool(status, field, ret) == JSON_MISTYPED)
		return mistyped(field, err);
	return true;
}

static bool
read_text(yyjson_val *status, const char *field, struct str *ret, struct error *err)
{
	if (json_str(status, field, ret) == JSON_MISTYPED)
		return mistyped(field, err);
	return true;
}

static bool
read_extras(yyjson_val *status, struct access_draft *d, struct error *err)
{
	yyjson_val *extras = NULL, *key, *values, *value;
	yyjson_obj_iter iter;
	yyjson_arr_iter each;

	if (json_object(status, "user.extra", &extras) == JSON_MISTYPED)
		return mistyped("user.extra", err);
	for (iter = yyjson_obj_iter_with(extras);
	     !d->is_over && (key = yyjson_obj_iter_next(&iter));) {
		values = yyjson_obj_iter_get_val(key);
		if (!yyjson_is_null(values) && !yyjson_is_arr(values))
			return mistyped("user.extra", err);
		for (each = yyjson_arr_iter_with(values); (value = yyjson_arr_iter_next(&each));) {
			if (!yyjson_is_str(value))
				return mistyped("user.extra", err);
			access_draft_extra(d, json_text(key), json_text(value));
		}
	}
	return true;
}

static bool
read_user(yyjson_val *status, struct access_user **ret, struct error *err)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct access_draft d = ACCESS_DRAFT_INIT(&arena);
	struct str name = STR_EMPTY, uid = STR_EMPTY;
	yyjson_val *groups = NULL, *group;
	yyjson_arr_iter iter;

	if (!read_text(status, "user.username", &name, err) ||
	    !read_text(status, "user.uid", &uid, err))
		return false;
	access_draft_name(&d, name);
	access_draft_uid(&d, uid);

	if (json_array(status, "user.groups", &groups) == JSON_MISTYPED)
		return mistyped("user.groups", err);
	for (iter = yyjson_arr_iter_with(groups); (group = yyjson_arr_iter_next(&iter));) {
		if (!yyjson_is_str(group))
			return mistyped("user.groups", err);
		access_draft_group(&d, json_text(group));
	}
	if (!read_extras(status, &d, err))
		return false;
	return access_user_new(&d, ret, err);
}

/* yyjson keeps a copy of the whole text, which for a TokenReview contains the token. */
static void
wipe_document(yyjson_doc **doc)
{
	if (*doc && (*doc)->str_pool)
		explicit_bzero((*doc)->str_pool, (*doc)->dat_read);
	yyjson_doc_free(*doc);
}

bool
review_read_token(struct str body, struct review_answer **ret, struct error *err)
{
	CLEANUP(wipe_document) yyjson_doc *doc = NULL;
	struct access_user *user = NULL;
	bool is_authenticated = false;
	struct str reason = STR_EMPTY;
	yyjson_val *status;

	if (!json_parse(body, &doc, err) ||
	    !find_status(yyjson_doc_get_root(doc), "TokenReview", &status, err))
		return false;
	if (!read_bool(status, "authenticated", &is_authenticated, err) ||
	    !read_text(status, "error", &reason, err))
		return false;
	if (is_authenticated && !read_user(status, &user, err))
		return false;
	*ret = review_answer_new(is_authenticated ? REVIEW_YES : REVIEW_NO, user, reason);
	return true;
}

bool
review_read_rights(struct str body, struct review_answer **ret, struct error *err)
{
	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
	bool is_allowed = false, is_denied = false;
	struct str reason = STR_EMPTY;
	yyjson_val *status;

	if (!json_parse(body, &doc, err) ||
	    !find_status(yyjson_doc_get_root(doc), "SubjectAccessReview", &status, err))
		return false;
	if (!read_bool(status, "allowed", &is_allowed, err) ||
	    !read_bool(status, "denied", &is_denied, err) ||
	    !read_text(status, "reason", &reason, err))
		return false;
	*ret = review_answer_new(is_allowed && !is_denied ? REVIEW_YES : REVIEW_NO, NULL, reason);
	return true;
}

/* ---- sending ---- */

bool
review_token(struct kube_client *client, struct call *call, const struct secret *token,
             struct review_answer **ret, struct error *err)
{
	CLEANUP(buf_fini) struct buf body = BUF_SECRET(MAX_BODY), answer = BUF_SECRET(0);

	review_add_token(&body, secret_expose(token));
	if (!buf_ok(&body))
		return err_set(err, ERR_INVALID, "the token is too long");
	return kube_post_secret(client, call, STR(REVIEW_TOKEN_TARGET), buf_str(&body), &answer,
	                        err) &&
	       review_read_token(buf_str(&answer), ret, err);
}

bool
review_rights(struct kube_client *client, struct call *call, struct str body,
              struct review_answer **ret, struct error *err)
{
	struct str answer;

	return kube_post(client, call, STR(REVIEW_ACCESS_TARGET), HTTP_WORK, body, &answer, err) &&
	       review_read_rights(answer, ret, err);
}

/* ---- keyed hashes ---- */

void
digest_key_init(struct digest_key *key)
{
	for (size_t at = 0; at < sizeof(key->bytes); at += sizeof(uint64_t)) {
		uint64_t word = rand_u64();

		memcpy(key->bytes + at, &word, sizeof(word));
	}
}

void
digest_key_fini(struct digest_key *key)
{
	explicit_bzero(key->bytes, sizeof(key->bytes));
}

/* HMAC() fails only when memory runs out. */
struct digest
digest_of(const struct digest_key *key, struct str text)
{
	struct digest d;
	unsigned len = 0;

	if (!HMAC(EVP_sha256(), key->bytes, sizeof(key->bytes), (const unsigned char *)text.ptr,
	          text.len, d.bytes, &len))
		alloc_fail(1, text.len);
	assert(len == sizeof(d.bytes));
	return d;
}

struct str
digest_str(const struct digest *d)
{
	return str_n((const char *)d->bytes, sizeof(d->bytes));
}

/* ---- the cache: a table, and a list through its entries in order of use ---- */

struct review_entry {
	struct digest key;
	struct review_answer *answer;
	int64_t until_ns;  /* boot: stale from then on */
	int64_t forget_ns; /* boot: not used from then on */
	size_t bytes;
	TAILQ_ENTRY(review_entry) link;
};

static void
review_cache_drop(struct review_cache *c, struct review_entry *e)
{
	(void)map_remove(&c->entries, digest_str(&e->key));
	TAILQ_REMOVE(&c->line, e, link);
	c->bytes -= e->bytes;
	review_answer_unref(e->answer);
	free(e);
}

void
review_cache_fini(struct review_cache *c)
{
	while (!TAILQ_EMPTY(&c->line))
		review_cache_drop(c, TAILQ_FIRST(&c->line));
	map_fini(&c->entries);
}

struct review_answer *
review_cache_get(struct review_cache *c, const struct digest *key, int64_t now_ns,
                 bool *ret_is_stale)
{
	struct review_entry *e = map_get(&c->entries, digest_str(key));

	if (!e)
		return NULL;
	if (now_ns >= e->forget_ns) {
		review_cache_drop(c, e);
		return NULL;
	}
	TAILQ_REMOVE(&c->line, e, link);
	TAILQ_INSERT_HEAD(&c->line, e, link);
	*ret_is_stale = now_ns >= e->until_ns;
	ref_take(&e->answer->refs);
	return e->answer;
}

void
review_cache_put(struct review_cache *c, const struct digest *key, struct review_answer *answer,
                 int64_t now_ns, int64_t until_ns)
{
	struct review_entry *e = map_get(&c->entries, digest_str(key)), *last;

	if (e)
		review_cache_drop(c, e);
	if (until_ns <= now_ns)
		return;
	e = xcalloc(1, sizeof(*e));
	*e = (struct review_entry){
		.key = *key,
		.answer = answer,
		.until_ns = until_ns,
		.forget_ns = answer->verdict == REVIEW_YES
		                     ? clock_deadline(until_ns, until_ns - now_ns)
		                     : until_ns,
		.bytes = sizeof(*e) + sizeof(*answer) + (answer->user ? answer->user->size : 0),
	};
	ref_take(&answer->refs);
	c->bytes += e->bytes;
	(void)map_put(&c->entries, digest_str(&e->key), e);
	TAILQ_INSERT_HEAD(&c->line, e, link);
	/* Entries that have expired at the end of the list are removed as well, so that the memory
	 * of a burst is freed. */
	while ((last = TAILQ_LAST(&c->line, review_line)) &&
	       (c->entries.count > LIMIT_ACCESS_CACHE || c->bytes > LIMIT_ACCESS_CACHE_BYTES ||
	        last->forget_ns <= now_ns))
		review_cache_drop(c, last);
}
