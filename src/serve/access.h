/* serve/access.h: who asks our server, and may they? Delegated to the API server
 * (docs/spec/kube-client.md, "Authentication" and "Authorization").
 *
 * Authentication, the first that knows the caller: a client certificate, a bearer token by TokenReview, else anonymous;
 * a credential that is wrong is refused, not anonymous. Headers of front proxies are not looked at.
 * Authorization, the first that has an opinion: system:masters, the paths that are always allowed, SubjectAccessReview,
 * else no. Answers are kept for a while (flags), in caches of bounded size, tokens only as keyed hashes. When the API
 * server cannot be asked, the answer is no: closed is the safe side.
 *
 * What an answer needs at once is given on the calling thread; reviews run on a thread of this module with a client of
 * its own, that carries no fence: a standby answers too. The rules are in access_decide.h, what is trusted in
 * auth_config.h, the thread and its caches in reviewer.h.
 *
 * Threads: access_check() on the server's loop; everything else on main.
 */
#ifndef CCMD_SERVE_ACCESS_H
#define CCMD_SERVE_ACCESS_H

#include "serve/access_decide.h"
#include "kube/client.h"

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

/** Reads the ConfigMap kube-system/extension-apiserver-authentication, and from then on follows it. Copies what it needs
 * of config. On false the server must not be opened: ERR_FORBIDDEN (the message says which role is missing),
 * ERR_UNAVAILABLE…, or ERR_INVALID, ERR_NOT_FOUND for the files, ERR_INVALID for a path with a star inside. Warns if the
 * ConfigMap is not there, and if there is nobody to ask. */
NODISCARD bool access_new(const struct access_config *config, struct access **ret,
                          struct error *err);
/** Ends the thread; what is not decided yet is refused first. NULL is fine. */
void access_free(struct access *);
DEFINE_CLEANUP(struct access, access_free)

/** Decides, and calls done exactly once: at once, or later on the review thread. message is the Status object's text for
 * what is not allowed, valid during the call. */
void access_check(struct access *, struct server_request *,
                  void (*done)(void *arg, struct server_request *, enum access_outcome,
                               struct str message),
                  void *arg);

#endif
