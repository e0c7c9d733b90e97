/* serve/access.h: who asks our server, and may they? Delegated to the API server
 * (docs/spec/kube-client.md, "Authentication" and "Authorization").
 *
 * Authentication, the first that knows the caller: a client certificate, a bearer token by
 * TokenReview, else anonymous; a credential that is wrong is refused, not anonymous. Headers of
 * front proxies are not looked at. Authorization, the first that has an opinion: system:masters,
 * the paths that are always allowed, SubjectAccessReview, else no. Answers are kept for a while
 * (flags), in caches of bounded size, tokens only as keyed hashes. When the API server cannot be
 * asked, the answer is no: closed is the safe side.
 *
 * What an answer needs at once is given on the calling thread; reviews run on a thread of this
 * module with a client of its own, that carries no fence: a standby answers too. What is trusted is
 * in authorities.h, the thread and its caches are in reviewer.h.
 *
 * Threads: access_check() on the server's loop; a user may be read and counted from any thread, a
 * draft belongs to one; everything else on main.
 */
#ifndef CCMD_SERVE_ACCESS_H
#define CCMD_SERVE_ACCESS_H

#include "base/arena.h"
#include "base/error.h"
#include "base/label.h"
#include "base/ref.h"
#include "kube/client.h"
#include "serve/server.h"

/* ---- users ---- */

/* A name, groups, extras: immutable, counted, in one piece of memory. Collected in a draft, whose
 * size is watched while it grows: what a certificate or the API server says about a caller is
 * foreign text. */

#define ACCESS_ANONYMOUS "system:anonymous"
#define ACCESS_AUTHENTICATED "system:authenticated"
#define ACCESS_UNAUTHENTICATED "system:unauthenticated"
#define ACCESS_MASTERS "system:masters"

struct access_user {
	struct ref refs;
	size_t size; /* bytes of memory in all */
	struct str name, uid;
	struct str *groups;
	size_t n_groups;
	struct label *extras; /* one for each value; those of a key follow each other */
	size_t n_extras;
};

struct access_draft {
	struct arena *arena; /* texts are not copied: they live as long as it does, or longer */
	struct str name, uid;
	struct str *groups;
	size_t n_groups, cap_groups;
	struct label *extras;
	size_t n_extras, cap_extras;
	size_t bytes;
	bool is_over; /* larger than any user may be */
};

#define ACCESS_DRAFT_INIT(in) \
	((struct access_draft){ .arena = (in), .name = STR_EMPTY, .uid = STR_EMPTY })

void access_draft_name(struct access_draft *, struct str name);
void access_draft_uid(struct access_draft *, struct str uid);
void access_draft_group(struct access_draft *, struct str group);
void access_draft_extra(struct access_draft *, struct str key, struct str value);

/** A user as drafted, with system:authenticated among its groups. ERR_INVALID: it is too large, or
 * has no name. */
NODISCARD bool access_user_new(struct access_draft *, struct access_user **ret, struct error *err);
/** system:anonymous. */
struct access_user *access_user_anonymous(void);

struct access_user *access_user_ref(struct access_user *);
/** NULL is fine. */
void access_user_unref(struct access_user *);
DEFINE_CLEANUP(struct access_user, access_user_unref)

bool access_user_is_in(const struct access_user *, const char *group);

/* ---- rules: pure functions of plain values, so that every combination can be tried ---- */

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
	ACCESS_HAS_TOKEN, /* a TokenReview says who it is; 401 if it says nobody */
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
/** May they, without asking? Members of system:masters everything, everybody the paths that are
 * always allowed: "/a" exactly, "/a*" as a prefix; the first slash may be missing. */
bool access_is_free(const struct access_user *, struct str path, struct access_list paths);

/** Appends why not: the message of the Status object. reason: what the API server said, or
 * empty. */
void access_add_refusal(struct buf *, const struct access_user *, struct str verb, struct str path,
                        struct str reason);

/* ---- requests ---- */

struct access;

struct access_config {
	struct kube_client *authentication; /* for TokenReview and the ConfigMap; NULL: neither */
	struct kube_client *authorization;  /* for SubjectAccessReview; NULL: none */
	struct clock *clock;
	struct cancel *cancel; /* ends access_new() */
	bool skip_lookup;      /* --authentication-skip-lookup: the ConfigMap is not read */
	bool tolerate_lookup_failure;
	int64_t token_ttl_ns, authorized_ttl_ns, unauthorized_ttl_ns;
	struct str client_ca_file;     /* wins over the ConfigMap's authorities; empty: not given */
	const struct str *allow_paths; /* "/healthz"; with a star at the end, all that begin so */
	size_t n_allow_paths;
};

/** Reads the ConfigMap kube-system/extension-apiserver-authentication, and from then on follows it.
 * Copies what it needs of config. On false the server must not be opened: ERR_FORBIDDEN (the
 * message says which role is missing), ERR_UNAVAILABLE…, or ERR_INVALID, ERR_NOT_FOUND for the
 * files, ERR_INVALID for a path with a star inside. Warns if the ConfigMap is not there, and if
 * there is nobody to ask. */
NODISCARD bool access_new(const struct access_config *config, struct access **ret,
                          struct error *err);
/** Ends the thread; what is not decided yet is refused first. NULL is fine. */
void access_free(struct access *);
DEFINE_CLEANUP(struct access, access_free)

/** Decides, and calls done exactly once: at once, or later on the review thread. message is the
 * Status object's text for what is not allowed, valid during the call. */
void access_check(struct access *, struct server_request *,
                  void (*done)(void *arg, struct server_request *, enum access_outcome,
                               struct str message),
                  void *arg);

#endif
