/* kube/client.h: requests to the API server, one function for each purpose.
 *
 * A request is a path and a body of JSON text. An answer that means failure becomes a struct error,
 * by the Status object in it (docs/spec/kube-client.md, "Errors of the API"). Within a request, 429
 * and 5xx with Retry-After are retried, at most 10 times with jitter, and a GET whose reused
 * connection broke is sent once more. The caller handles everything else: reconcile loops have
 * their own back-off.
 *
 * Threads: any.
 */
#ifndef CCMD_KUBE_CLIENT_H
#define CCMD_KUBE_CLIENT_H

#include "base/json.h"
#include "http/http.h"

struct kube_client {
	struct http_client *http; /* borrowed */
	struct clock *clock;
	const char *host;       /* "host:port", a label of the metrics; borrowed; NULL: "" */
	const char *user_agent; /* borrowed; NULL: that of http */
	bool is_plain;          /* over plain http: no secret may be sent */
};

/** How a PATCH body is read by the server. */
enum kube_patch_type {
	KUBE_PATCH_MERGE,     /* application/merge-patch+json: lists are replaced whole */
	KUBE_PATCH_STRATEGIC, /* application/strategic-merge-patch+json: a rule for each list */
};

/** What the answer to a write should hold. */
enum kube_answer {
	/* only the metadata (PartialObjectMetadata): of a node 1 kB instead of 12 */
	KUBE_ANSWER_META,
	KUBE_ANSWER_FULL,
};

/** GET path. *ret_body is the object's JSON, in call->arena. ERR_NOT_FOUND, ERR_FORBIDDEN and
 * others as in http_status_error(). */
NODISCARD bool kube_get(struct kube_client *, struct call *, struct str path, struct str *ret_body,
                        struct error *err);

/** A change of an object or of its sub-resource. */
struct kube_patch {
	struct str path;
	enum kube_patch_type type;
	struct str body;
	enum kube_answer answer;
	/* class HTTP_BACKGROUND, for events. The patch may be replayed, so applying it twice must
	 * have the same result as once */
	bool is_background;
};

/** PATCH. ret_body may be NULL. ERR_NOT_FOUND: the object is gone; ERR_CONFLICT: it has another
 * resourceVersion or UID; ERR_INVALID: the server refuses the content. */
NODISCARD bool kube_patch(struct kube_client *, struct call *, const struct kube_patch *patch,
                          struct str *ret_body, struct error *err);

/** POST; class as in http.h. ret_body may be NULL. ERR_EXISTS; ERR_NOT_FOUND: no such namespace. */
NODISCARD bool kube_post(struct kube_client *, struct call *, struct str path,
                         enum http_class class, struct str body, struct str *ret_body,
                         struct error *err);

/** PUT of a whole object, never sent twice. ERR_CONFLICT: it has another resourceVersion or UID. */
NODISCARD bool kube_put(struct kube_client *, struct call *, struct str path, struct str body,
                        struct str *ret_body, struct error *err);

/** POST whose answer holds a secret, e.g. a TokenRequest. *ret is replaced by a buffer that is
 * wiped when freed, and no other copy is made. */
NODISCARD bool kube_post_secret(struct kube_client *, struct call *, struct str path,
                                struct str body, struct buf *ret, struct error *err);

/** DELETE, only if the object still has that UID and that resource version. ERR_NOT_FOUND: already
 * deleted; ERR_CONFLICT: it has changed, or another object has the name now. */
NODISCARD bool kube_delete(struct kube_client *, struct call *, struct str path, struct str uid,
                           struct str version, struct error *err);

/** How the answer to a GET of a list is read. */
struct kube_list {
	const char *kind; /* of the items; NULL: any */
	/* is called for each item, which is valid during the call only; false ends the reading */
	bool (*each)(void *arg, yyjson_val *item, struct error *err);
	void *arg;
};

/** Reads a list as it arrives, with one item in memory at a time. Callers may treat objects that
 * are not in the list as deleted. A response that is not a whole list of this kind therefore fails
 * with ERR_INVALID, although each() may already have been called. *ret_version gets the
 * resourceVersion.
 */
NODISCARD bool kube_read_list(const struct kube_list *, struct http_stream *, struct clock *,
                              struct buf *ret_version, struct error *err);

/** Waits until GET /healthz answers 200: asks every second for up to timeout_ms. Fails immediately
 * if the server's certificate cannot be verified, because at start that means a wrong
 * configuration. */
NODISCARD bool kube_wait_healthy(struct kube_client *, struct call *, int64_t timeout_ms,
                                 struct error *err);

/** Turns an answer that means failure into an error: the code is that of the Status object's
 * reason, else that of the HTTP status; the message contains the server's text. Returns false. */
bool kube_status_error(struct error *err, const struct http_request *request, int status,
                       int64_t retry_after_ms, struct str body);

/** The error code for the reason, or else the code, of a Status object: Expired is GONE,
 * AlreadyExists is EXISTS, and Invalid is CONFLICT where a patch names another object's UID. */
enum err_code kube_status_code(yyjson_val *status);
/** The retryAfterSeconds of a Status object, at most LIMIT_RETRY_AFTER_S, as milliseconds; 0: none.
 */
int64_t kube_status_retry_ms(yyjson_val *status);

/** Creates the counters of refused requests (403), for all methods. Prometheus does not see the
 * increase of a counter that appears with 1. */
void kube_start_counters(const char *host);
/** Counts an attempt of a list or a watch, which are sent without a kube_client. host as in
 * kube_client; status 0: no answer. */
void kube_count_request(const char *host, enum http_method, int status);

#endif
