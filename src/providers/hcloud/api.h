/* api.h: requests to the Hetzner Cloud API: errors, retries, the request budget, metrics, the debug
 * dump (docs/spec/hcloud.md, "Requests" and "Retries").
 *
 * One request at a time per caller; typed calls are in client.h and lb_client.h. What is retried in
 * place is what cannot have been done, and GETs: `conflict`, `bad_gateway`, `timeout`, 502, 504 and
 * time-outs of the network. Over a limit it does not wait, unlike the official controller:
 * ERR_THROTTLED says when to come back, so that no worker is held.
 *
 * This is not built on cloud/rest.h: the official controller repeats requests by the API's own
 * error codes, an error's code and not its status says what it means, requests are paid from a
 * budget, and metrics and the debug dump show each attempt. The endpoint and the login are those of
 * cloud/.
 *
 * Threads: any.
 */
#ifndef CCMD_HCLOUD_API_H
#define CCMD_HCLOUD_API_H

#include "base/json.h"
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
	struct str target;    /* "/servers?page=1" */
	const char *endpoint; /* for metrics: the path with ids as '-', "/servers/-" */
	struct str body;      /* JSON; empty: none */
	bool is_patient;      /* at start: five more attempts, over a limit too; else two */
	bool is_urgent; /* asks the budget, as all do that change something; else the caller has,
	                   for all its requests */
};

#define HZ_CODE_MAX 64

struct hz_answer {
	yyjson_doc *doc;        /* NULL: no body, or no JSON */
	char code[HZ_CODE_MAX]; /* of an error the API described: "not_found"; else "" */
};

#define HZ_ANSWER_INIT ((struct hz_answer){ 0 })
/** For CLEANUP(hz_answer_fini). */
void hz_answer_fini(struct hz_answer *);
/** NULL where there is none, which json_at() and the like take. */
yyjson_val *hz_answer_root(const struct hz_answer *);
/** The list, or the object, under that name; ERR_UNAVAILABLE: a 2xx without it is no answer. */
NODISCARD bool hz_answer_list(const struct hz_answer *, const char *name, yyjson_val **ret,
                              struct error *err);
NODISCARD bool hz_answer_object(const struct hz_answer *, const char *name, yyjson_val **ret,
                                struct error *err);

/** Sends, and sends again where that helps. ret, HZ_ANSWER_INIT before, is filled on failure as
 * well.
 *
 * @return  On false, err->code follows the API's own code and not the status, so that a page of a
 * proxy or of a wrong address is never mistaken for an answer about a resource: ERR_NOT_FOUND is
 * the API's `not_found` alone. ERR_THROTTLED with retry_after_ms. While the API is unavailable only
 * probes are sent, and the error is that of the outage (cloud/endpoint.h); requests with is_patient
 * are always sent. */
NODISCARD bool hz_api_do(struct hz_api *, struct call *, const struct hz_request *request,
                         struct hz_answer *ret, struct error *err);

/** A GET of what was written to target, otherwise as `how` says. ERR_INVALID: it was too long. */
NODISCARD bool hz_api_get(struct hz_api *, struct call *, const struct buf *target,
                          struct hz_request how, struct hz_answer *ret, struct error *err);

/** May n requests be sent? ERR_THROTTLED with retry_after_ms when not; an Event and a metric report
 * it, once until there is budget again. While the API is unavailable the error is that of the
 * outage; if a probe is due the result is true, and the budget is not checked. */
NODISCARD bool hz_api_admit(struct hz_api *, enum hz_urgency, size_t n, struct error *err);

/** CLOCK_BOOTTIME without the time that the API was unavailable. */
int64_t hz_api_uptime_ns(struct hz_api *);

/** The err_code of an error that the API described. */
enum err_code hz_code_of(struct str code, int status);

/** Is the code of an answer (hz_answer, hz_done) the wanted one? */
static inline bool
hz_is_code(const char *code, const char *wanted)
{
	return str_eq_c(str_c(code), wanted);
}

/* ---- the official controller's count of operations ---- */

/** n times the operation with that name, one of a fixed set: "hcloud/newCloud". */
void hz_count_operations(const char *op, double n);

/** A server was looked for, by one of a few callers; result: "hit" or "miss". */
void hz_count_lookup(const char *subsystem, enum hz_cache_mode mode, const char *result);

/* ---- HCLOUD_DEBUG: every request and answer on standard error, without secrets ---- */

/* Authorization is shown as REDACTED, and so are the values of JSON members that hold keys and
 * passwords. A block is written with one write(). */

/** Appends "--- Request:" and what was asked. base_url: in front of the target. */
void hz_dump_request(struct buf *b, struct str base_url, const struct http_request *request);
/** Appends "--- Response:" and what came. */
void hz_dump_response(struct buf *b, const struct http_response *response);
/** Appends a JSON text with its secrets blackened; other texts as they are. */
void hz_dump_body(struct buf *b, struct str body);
/** To standard error. */
void hz_dump_write(const struct buf *b);

#endif
