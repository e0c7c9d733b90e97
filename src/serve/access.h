/* serve/access.h: authentication and authorization of the server's callers, delegated to the API
 * server (docs/spec/kube-client.md, "Authentication" and "Authorization").
 *
 * Authentication takes the first of these that identifies the caller: a client certificate; a
 * bearer token, by TokenReview; else anonymous. A wrong credential is refused, and does not make
 * the caller anonymous. Headers of front proxies are not read. Authorization takes the first of
 * these that decides: membership in system:masters, the paths that are always allowed,
 * SubjectAccessReview; else the answer is no. Answers are cached for the time that flags name, in
 * caches of bounded size, and tokens only as keyed hashes. If the API server cannot be asked, the
 * answer is no.
 *
 * What is known without a review is answered on the calling thread. Reviews run on a thread of this
 * module (reviewer.h). Its HTTP client has no fence, because a standby has to answer, too. The
 * trusted authorities are in authorities.h.
 *
 * Threads: access_check() on the server's loop; a user may be read and referenced from any thread,
 * a draft belongs to one; everything else on main.
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

/* A user has a name, groups and extras. It is immutable, reference-counted, and one block of
 * memory. Its parts are collected in a draft, which checks its size while it grows, because
 * certificates and the API server's answers are foreign text. */

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
	struct label *extras; /* one for each value; values of the same key are adjacent */
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

/** NULL is fine. */
void access_user_unref(struct access_user *);
DEFINE_CLEANUP(struct access_user, access_user_unref)

bool access_user_is_in(const struct access_user *, const char *group);

/* ---- rules: pure functions of plain values, so that every combination can be tried ---- */

enum access_outcome {
	ACCESS_ALLOWED,
	ACCESS_UNAUTHORIZED, /* 401 */
	ACCESS_FORBIDDEN,    /* 403 */
	ACCESS_BUSY,         /* 503: too many requests wait for the API server */
	ACCESS_TOO_MANY,     /* 429: too many requests of this caller wait for the API server */
};

/** The result of checking the client's certificate against the trusted authorities. */
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
	ACCESS_HAS_TOKEN, /* a TokenReview has to identify the user; else 401 */
	ACCESS_REFUSED,   /* a credential is wrong, and no other one is valid */
};

/** Identifies the caller.
 *
 * @param authorization  the header Authorization; empty: none
 * @param can_review  tokens can be reviewed; else they are ignored
 * @param ret_user    set with ACCESS_KNOWN; the caller's reference
 * @param ret_token   set with ACCESS_HAS_TOKEN; lives as long as the header
 */
enum access_identity access_identify(const struct access_proof *client, struct str authorization,
                                     bool can_review, struct access_user **ret_user,
                                     struct str *ret_token);

/** Is the request allowed without a review? Members of system:masters may do everything, everyone
 * may use the paths that are always allowed: "/a" exactly, "/a*" as a prefix; the first slash may
 * be missing. flags/validate.c has checked that a star is only at the end. */
bool access_is_free(const struct access_user *, struct str path, struct str_list paths);

/** Appends the message of the Status object for a request that is not allowed. reason: the API
 * server's, may be empty. */
void access_add_refusal(struct buf *, const struct access_user *, struct str verb, struct str path,
                        struct str reason);

/* ---- requests ---- */

struct access;

struct access_config {
	struct kube_client *authentication; /* for TokenReview and the ConfigMap; NULL: neither */
	struct kube_client *authorization;  /* for SubjectAccessReview; NULL: no reviews */
	struct clock *clock;
	struct cancel *cancel; /* ends access_new() */
	bool skip_lookup;      /* --authentication-skip-lookup: the ConfigMap is not read */
	bool tolerate_lookup_failure;
	int64_t token_ttl_ns, authorized_ttl_ns, unauthorized_ttl_ns;
	/* these texts must outlive the struct access */
	struct str
		client_ca_file; /* terminated; replaces the ConfigMap's authorities; empty: none */
	struct str_list allow_paths; /* "/healthz"; with a star at the end, a prefix */
};

/** Reads the ConfigMap kube-system/extension-apiserver-authentication, and reads it again from time
 * to time. On false the server must not be opened: ERR_FORBIDDEN
 * (the message names the missing role), ERR_UNAVAILABLE…, or ERR_INVALID, ERR_NOT_FOUND for the
 * files. Warns if the ConfigMap does not exist, and if no API server is configured for reviews. */
NODISCARD bool access_new(const struct access_config *config, struct access **ret,
                          struct error *err);
/** Ends the thread; pending requests are refused first. NULL is fine. */
void access_free(struct access *);
DEFINE_CLEANUP(struct access, access_free)

/** Decides, and calls done exactly once: before it returns, or later on the review thread. message
 * is the text of the Status object if the request is not allowed, valid during the call. */
void access_check(struct access *, struct server_request *,
                  void (*done)(void *arg, struct server_request *, enum access_outcome,
                               struct str message),
                  void *arg);

#endif
