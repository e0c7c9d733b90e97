/* serve/access_decide.h: the rules behind access.h, as pure functions of plain values.
 *
 * Who somebody is, by the first that knows them (docs/spec/kube-client.md, "Authentication"), and
 * what can be said about their rights without asking the API server. What a certificate
 * proves is given as a verdict, so that every combination can be tried.
 */
#ifndef CCMD_SERVE_ACCESS_DECIDE_H
#define CCMD_SERVE_ACCESS_DECIDE_H

#include "serve/access_user.h"
#include "serve/server.h"

enum access_outcome {
	ACCESS_ALLOWED,
	ACCESS_UNAUTHORIZED, /* 401 */
	ACCESS_FORBIDDEN,    /* 403 */
	ACCESS_BUSY,         /* 503: too many requests wait for an answer of the API server */
	ACCESS_TOO_MANY,     /* 429: too many requests of this caller wait for one */
};

/** Texts that end with a NUL. */
struct access_list {
	const struct str *items;
	size_t n;
};

/** What the client's certificate is worth under the clients' authorities. */
struct access_proof {
	enum {
		ACCESS_PROOF_NONE, /* no certificate, or no authorities to check it against */
		ACCESS_PROOF_BAD,
		ACCESS_PROOF_GOOD,
	} verdict;
	struct peer_name peer; /* if good */
};

enum access_identity {
	ACCESS_KNOWN,     /* a user */
	ACCESS_HAS_TOKEN, /* who it is, a review of the token tells; if it says nobody: 401 */
	ACCESS_REFUSED,   /* a credential is wrong, and no other one is right */
};

/** Who is it?
 *
 * @param authorization  the header Authorization; empty: none
 * @param can_review  there is somebody to ask about tokens; else they are ignored
 * @param ret_user    set when known; a reference of yours
 * @param ret_token   set when there is one; lives as long as the header
 */
enum access_identity access_identify(const struct access_proof *client, struct str authorization,
                                     bool can_review, struct access_user **ret_user,
                                     struct str *ret_token);

/** ERR_INVALID: a star that is not at the end. */
NODISCARD bool access_paths_check(struct access_list paths, struct error *err);
/** May they, without asking? Members of system:masters everything, everybody the paths that are always allowed: "/a"
 * exactly, "/a*" as a prefix; the first slash may be missing. */
bool access_is_free(const struct access_user *, struct str path, struct access_list paths);

/** Appends why not: the message of the Status object. reason: what the API server said, or empty. */
void access_add_refusal(struct buf *, const struct access_user *, struct str verb, struct str path,
                        struct str reason);

#endif
