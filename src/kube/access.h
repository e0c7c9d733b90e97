/* kube/access.h: who asks our server, and may they? Delegated to the API server (kube-client.md 10.2, 10.3).
 *
 * Authentication, the first that knows the caller: a front proxy's headers (only with its certificate), a client
 * certificate, a bearer token by TokenReview, else anonymous; a credential that is wrong is refused, not anonymous.
 * Authorization, the first that has an opinion: system:masters, the paths that are always allowed, SubjectAccessReview,
 * else no. Answers are kept for a while (flags), in caches of bounded size, tokens only as keyed hashes. When the API
 * server cannot be asked, the answer is no: closed is the safe side.
 *
 * What an answer needs at once is given on the calling thread; reviews run on a thread of this module with a client of
 * its own, that carries no fence: a standby answers too.
 *
 * Threads: access_check() on the server's loop; everything else on main.
 */
#ifndef CCMD_KUBE_ACCESS_H
#define CCMD_KUBE_ACCESS_H

#include "kube/client.h"
#include "net/server.h"

struct access;

struct access_config {
	struct kube_client *authentication; /* for TokenReview and the ConfigMap; NULL: neither */
	struct kube_client *authorization;  /* for SubjectAccessReview; NULL: none */
	struct clock *clock;
	struct cancel *cancel;
	bool skip_lookup; /* --authentication-skip-lookup: the ConfigMap is not read */
	bool tolerate_lookup_failure;
	int64_t token_ttl_ns, authorized_ttl_ns, unauthorized_ttl_ns;
	/* files and names from flags win over the ConfigMap's; empty: not given */
	struct str client_ca_file, requestheader_ca_file;
	const struct str *requestheader_names, *username_headers, *group_headers, *extra_prefixes,
		*uid_headers;
	size_t n_requestheader_names, n_username_headers, n_group_headers, n_extra_prefixes,
		n_uid_headers;
	const struct str *allow_paths; /* "/healthz", "/public/*" */
	size_t n_allow_paths;
};

enum access_outcome {
	ACCESS_ALLOWED,
	ACCESS_UNAUTHORIZED, /* 401 */
	ACCESS_FORBIDDEN,    /* 403 */
};

/** Reads the ConfigMap kube-system/extension-apiserver-authentication, and from then on follows it. On false the server
 * must not be opened: ERR_FORBIDDEN (say which role is missing), ERR_NOT_FOUND, ERR_UNAVAILABLE…, or ERR_INVALID for
 * the files. */
NODISCARD bool access_new(const struct access_config *config, struct access **ret,
                          struct error *err);
/** Ends the thread; what is not decided yet is answered with ACCESS_FORBIDDEN first. */
void access_free(struct access *);

/** Decides, and calls done exactly once: at once, or later on the review thread. message is the Status object's text for
 * 401 and 403, valid during the call. */
void access_check(struct access *, struct server_request *,
                  void (*done)(void *arg, struct server_request *, enum access_outcome,
                               struct str message),
                  void *arg);

#endif
