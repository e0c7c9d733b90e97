/* serve/access_decide.c: see access_decide.h.
 *
 * A front proxy speaks for others by headers that anybody can send: they count only behind its certificate, and nothing
 * here looks at them before that. A credential that is wrong does not end the search, since another one may be right (a
 * proxy's certificate beside a token); but it is never forgotten: in the end it is refused, not anonymous.
 */
#include "serve/access_decide.h"

#include <string.h>

#include "base/json.h"
#include "base/limits.h"

/* --- the front proxy ------------------------------------------------------------------------------- */

static bool
is_listed(struct access_list list, struct str text)
{
	for (size_t i = 0; i < list.n; i++) {
		if (str_eq(list.items[i], text))
			return true;
	}
	return false;
}

static bool
is_front_proxy(const struct access_proof *front, const struct access_names *names)
{
	return front->verdict == ACCESS_PROOF_GOOD &&
	       (names->proxies.n == 0 || is_listed(names->proxies, front->peer.common_name));
}

/* The first header of these names that says anything. */
static struct str
first_header(const struct access_headers *h, struct access_list names)
{
	struct str value;

	for (size_t i = 0; i < names.n; i++) {
		if (h->get(h->arg, names.items[i].ptr, 0, &value) && value.len)
			return value;
	}
	return STR_EMPTY;
}

static void
add_groups(struct access_draft *d, const struct access_headers *h, struct access_list names)
{
	struct str value;

	for (size_t i = 0; i < names.n; i++) {
		for (size_t n = 0; h->get(h->arg, names.items[i].ptr, n, &value); n++) {
			if (value.len)
				access_draft_group(d, value);
		}
	}
}

/* Undoes percent-encoding; false when it is malformed. */
static bool
unescape(struct str s, struct buf *ret)
{
	for (size_t i = 0; i < s.len; i++) {
		int high, low;

		if (s.ptr[i] != '%') {
			buf_add_char(ret, s.ptr[i]);
			continue;
		}
		if (s.len - i < 3)
			return false;
		high = str_hex_digit(s.ptr[i + 1]);
		low = str_hex_digit(s.ptr[i + 2]);
		if (high < 0 || low < 0)
			return false;
		buf_add_char(ret, (char)(high << 4 | low));
		i += 2;
	}
	return true;
}

/* In lower case and decoded; what cannot be decoded stays as it is. */
static struct str
extra_key(struct arena *arena, struct str name)
{
	CLEANUP(buf_fini) struct buf key = BUF_INIT(LIMIT_SERVER_HEADERS);
	char *lower = arena_strz(arena, name);

	for (size_t i = 0; i < name.len; i++) {
		if (lower[i] >= 'A' && lower[i] <= 'Z')
			lower[i] = (char)(lower[i] | 0x20);
	}
	if (!unescape(str_n(lower, name.len), &key) || !buf_ok(&key))
		return str_n(lower, name.len);
	return arena_str(arena, buf_str(&key));
}

static void
add_extras(struct access_draft *d, const struct access_headers *h, struct access_list prefixes)
{
	struct str name, value;

	for (size_t i = 0; i < prefixes.n; i++) {
		size_t at = 0;

		while (!d->is_over && h->next(h->arg, prefixes.items[i].ptr, &at, &name, &value))
			access_draft_extra(d,
			                   extra_key(d->arena,
			                             str_skip(name, prefixes.items[i].len)),
			                   value);
	}
}

/* Whom the proxy speaks for: that name, and what else it says of them. NULL when that is more than a user can be. */
static struct access_user *
user_of_headers(struct str name, const struct access_headers *h, const struct access_names *names)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct access_draft d = ACCESS_DRAFT_INIT(&arena);
	struct access_user *user;
	struct error err;

	access_draft_name(&d, name);
	access_draft_uid(&d, first_header(h, names->uid_headers));
	add_groups(&d, h, names->group_headers);
	add_extras(&d, h, names->extra_prefixes);
	return access_user_new(&d, &user, &err) ? user : NULL;
}

/* --- certificates and tokens ----------------------------------------------------------------------- */

/* NULL when it has more organizations than a user can have groups. */
static struct access_user *
user_of_certificate(const struct peer_name *peer)
{
	CLEANUP(arena_fini) struct arena arena = ARENA_INIT;
	struct access_draft d = ACCESS_DRAFT_INIT(&arena);
	struct access_user *user;
	struct error err;

	access_draft_name(&d, peer->common_name);
	for (size_t i = 0; i < peer->n_organizations; i++)
		access_draft_group(&d, peer->organizations[i]);
	return access_user_new(&d, &user, &err) ? user : NULL;
}

/* The token of "Bearer TOKEN"; empty when there is none, and for other schemes. */
static struct str
bearer_token(const struct access_headers *h)
{
	struct str value, scheme, token;

	if (!h->get(h->arg, "Authorization", 0, &value))
		return STR_EMPTY;
	value = str_trim(value);
	if (!str_split(&value, ' ', &scheme) || !str_eq_nocase(scheme, STR("Bearer")) ||
	    !str_split(&value, ' ', &token))
		return STR_EMPTY;
	return token;
}

/* A certificate that one of the bundles refuses; the other one may not be there. */
static bool
is_wrong(const struct access_view *v, const struct access_names *names)
{
	if (v->client.verdict == ACCESS_PROOF_BAD || v->front.verdict == ACCESS_PROOF_BAD)
		return true;
	return v->front.verdict == ACCESS_PROOF_GOOD && !is_front_proxy(&v->front, names);
}

/* The name that a front proxy gives; empty when it gives none, or is none. */
static struct str
forwarded_name(const struct access_view *v, const struct access_names *names)
{
	return is_front_proxy(&v->front, names) ? first_header(&v->headers, names->username_headers)
	                                        : STR_EMPTY;
}

static enum access_identity
known(struct access_user *user, struct access_user **ret)
{
	if (!user)
		return ACCESS_REFUSED;
	*ret = user;
	return ACCESS_KNOWN;
}

enum access_identity
access_identify(const struct access_view *v, const struct access_names *names, bool can_review,
                struct access_user **ret_user, struct str *ret_token)
{
	struct str name = forwarded_name(v, names);
	struct str token = can_review ? bearer_token(&v->headers) : STR_EMPTY;

	if (name.len)
		return known(user_of_headers(name, &v->headers, names), ret_user);
	if (v->client.verdict == ACCESS_PROOF_GOOD && v->client.peer.common_name.len)
		return known(user_of_certificate(&v->client.peer), ret_user);
	if (token.len) {
		*ret_token = token;
		return ACCESS_HAS_TOKEN;
	}
	if (is_wrong(v, names))
		return ACCESS_REFUSED;
	return known(access_user_anonymous(), ret_user);
}

/* --- rights ---------------------------------------------------------------------------------------- */

static struct str
without_slash(struct str path)
{
	return str_starts(path, STR("/")) ? str_skip(path, 1) : path;
}

static bool
matches(struct str pattern, struct str path)
{
	if (str_ends(pattern, STR("*")))
		return str_starts(path, str_head(pattern, pattern.len - 1));
	return str_eq(pattern, path);
}

bool
access_paths_check(struct access_list paths, struct error *err)
{
	for (size_t i = 0; i < paths.n; i++) {
		ptrdiff_t star = str_index(paths.items[i], '*');

		if (star >= 0 && (size_t)star + 1 != paths.items[i].len)
			return err_set(err, ERR_INVALID,
			               "path \"%" STR_FMT
			               "\" that is always allowed: a star may only be its end",
			               STR_ARG(paths.items[i]));
	}
	return true;
}

bool
access_is_free(const struct access_user *user, struct str path, struct access_list paths)
{
	if (access_user_is_in(user, ACCESS_MASTERS))
		return true;
	for (size_t i = 0; i < paths.n; i++) {
		if (matches(without_slash(paths.items[i]), without_slash(path)))
			return true;
	}
	return false;
}

/* As Kubernetes words it: kube-client.md 10.3. */
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
