/* serve/access_decide.c: see access_decide.h.
 *
 * A credential that is wrong does not end the search, since another one may be right (a token beside a certificate of an
 * authority that is not ours); but it is never forgotten: without a right one the caller is refused, not anonymous.
 */
#include "serve/access_decide.h"

#include <string.h>

#include "base/json.h"
#include "base/limits.h"

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
bearer_token(struct str authorization)
{
	struct str scheme, token, rest = str_trim(authorization);

	if (!str_split(&rest, ' ', &scheme) || !str_eq_nocase(scheme, STR("Bearer")) ||
	    !str_split(&rest, ' ', &token))
		return STR_EMPTY;
	return token;
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
access_identify(const struct access_proof *client, struct str authorization, bool can_review,
                struct access_user **ret_user, struct str *ret_token)
{
	struct str token = can_review ? bearer_token(authorization) : STR_EMPTY;

	if (client->verdict == ACCESS_PROOF_GOOD && client->peer.common_name.len)
		return known(user_of_certificate(&client->peer), ret_user);
	if (token.len) {
		*ret_token = token;
		return ACCESS_HAS_TOKEN;
	}
	if (client->verdict == ACCESS_PROOF_BAD)
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

/* As Kubernetes words it (docs/spec/kube-client.md, "Authorization"). */
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
