/* api.h: requests to the Hetzner Cloud API: errors, retries, the request budget, metrics, the debug
 * dump (docs/spec/hcloud.md, "Requests" and "Retries").
 *
 * Typed calls are in client.h and lb_client.h. A request is repeated here if it cannot have been
 * executed, or if it is a GET: after `conflict`, `bad_gateway`, `timeout`, 502, 504 and time-outs
 * of the network. Unlike the official controller this does not wait when a limit is reached:
 * ERR_THROTTLED has the time of the next attempt, so that no worker is blocked.
 *
 * This is not built on cloud/rest.h, for four reasons: the official controller repeats requests
 * depending on the API's own error codes; the code of an error defines its meaning, the HTTP status
 * does not; requests are paid from a budget; metrics and the debug dump show each attempt. The
 * endpoint and the login are those of cloud/.
 *
 * Threads: any.
 */
#ifndef CCMD_HCLOUD_API_H
#define CCMD_HCLOUD_API_H

#include "base/json.h"
#include "cloud/cloud.h"
#include "cloud/host.h"
#include "http/http.h"
#include "providers/hcloud/config.h"
#include "providers/hcloud/ratelimit.h"

struct hz_api;

struct hz_api_config {
	struct http_client *http; /* borrowed */
	struct str base_url;      /* for the dump; copied */
	const struct cloud_host *host;
	unsigned reserve_percent;
	bool is_dumping;
};

struct hz_api *hz_api_new(const struct hz_api_config *config);
void hz_api_free(struct hz_api *); /* NULL is fine */
DEFINE_CLEANUP(struct hz_api, hz_api_free)

struct hz_request {
	enum http_method method;
	/* "/servers/7"; with a query it is a list: "/servers?page=1". Names are put into it by
	 * rest_target(). */
	struct str target;
	struct str body;       /* JSON; empty: none */
	bool retries_at_start; /* at start: up to five retries, also at the rate limit; else two */
	/* of a GET: it is paid from the budget, as every change is; else the caller has paid with
	 * hz_api_admit() */
	bool is_urgent;
};

#define HZ_CODE_MAX 64

struct hz_answer {
	yyjson_doc *doc;        /* NULL: the answer has no body, or one that is not JSON */
	char code[HZ_CODE_MAX]; /* the API's own code of an error, as "not_found"; else "" */
};

#define HZ_ANSWER_INIT ((struct hz_answer){ 0 })
/** For CLEANUP(hz_answer_fini). */
void hz_answer_fini(struct hz_answer *);
/** NULL if the answer has no document; json_at() and similar functions accept that. */
yyjson_val *hz_answer_root(const struct hz_answer *);
/** The list, or the object, with that name. ERR_UNAVAILABLE: the answer does not have it. */
NODISCARD bool hz_answer_list(const struct hz_answer *, const char *name, yyjson_val **ret,
                              struct error *err);
NODISCARD bool hz_answer_object(const struct hz_answer *, const char *name, yyjson_val **ret,
                                struct error *err);

/** Sends the request, and repeats it if that may help.
 *
 * @param ret  HZ_ANSWER_INIT before; filled on failure as well
 * @return  On false, err->code follows the API's own code and not the status, so that a page of a
 * proxy or of a wrong address is never mistaken for an answer about a resource: ERR_NOT_FOUND is
 * the API's `not_found` alone, and of a list it is ERR_UNAVAILABLE: a list always exists, so it
 * says nothing about the objects in it. ERR_THROTTLED with retry_after_ms. While the API is
 * unavailable only probes are sent, and the error is that of the outage (cloud/endpoint.h);
 * requests with retries_at_start are always sent. ERR_INVALID: the target is too long. */
NODISCARD bool hz_api_do(struct hz_api *, struct call *, const struct hz_request *request,
                         struct hz_answer *ret, struct error *err);

/** May n requests be sent? If not: ERR_THROTTLED with retry_after_ms; an Event reports it once,
 * until there is budget again, and a metric counts it. While the API is unavailable the error is
 * that of the outage; if a probe is due the result is true, and the budget is not checked. */
NODISCARD bool hz_api_admit(struct hz_api *, enum hz_urgency, size_t n, struct error *err);

/** cloud_ops.get_budget. */
bool hz_api_get_budget(struct hz_api *, struct cloud_budget *ret);

/** CLOCK_BOOTTIME without the time that the API was unavailable. */
int64_t hz_api_uptime_ns(struct hz_api *);

/** What the errors of an API mean. Of the entries that fit an answer, the first counts. If none
 * does, a status from 500 on is ERR_UNAVAILABLE, and any other is ERR_INVALID. */
struct hz_error_code {
	const char *code; /* "": the answer has none; NULL: any */
	int status;       /* 0: any */
	enum err_code meaning;
};

enum err_code hz_error_meaning(const struct hz_error_code codes[], size_t n, struct str code,
                               int status);

/** The err_code of an error of the Cloud API. code empty: the API did not describe the error. */
enum err_code hz_code_of(struct str code, int status);

/** Is the code of an answer (hz_answer, hz_done) the wanted one? */
static inline bool
hz_is_code(const char *code, const char *wanted)
{
	return str_eq_c(str_c(code), wanted);
}

/** The label of a target in metrics, in the call's arena: its path, with "-" for each id, so that
 * there are few labels. */
const char *hz_endpoint_label(struct call *, struct str target);

/* ---- the official controller's count of operations ---- */

/** Adds n to the count of an operation. Its name is one of a fixed set, as "hcloud/newCloud". */
void hz_count_operations(const char *op, double n);

/** Counts a look-up of a server. subsystem names the caller; result is "hit" or "miss". */
void hz_count_lookup(const char *subsystem, enum hz_cache_mode mode, const char *result);

/* ---- HCLOUD_DEBUG: every request and answer on standard error, without secrets ---- */

/* Authorization is shown as REDACTED, and so are the values of JSON members that hold keys and
 * passwords. */

/** Appends "--- Request:" and the request; base_url precedes its target. */
void hz_dump_request(struct buf *b, struct str base_url, const struct http_request *request);
/** Appends a JSON text with its secrets replaced; other texts as they are. */
void hz_dump_body(struct buf *b, struct str body);

#endif
