/* cloud/rest.h: what clouds with an HTTP API share: requests that are answered in JSON, and lists
 * in pages.
 *
 * 	CLEANUP(yyjson_doc_freep) yyjson_doc *doc = NULL;
 * 	struct http_request request = {
 * 		.method = HTTP_PUT,
 * 		.target = rest_target(call, "/machines/", id, "/power"),
 * 		.body = STR("{\"on\":true}"),
 * 	};
 *
 * 	if (!rest_do(mc->rest, call, &request, &doc, err))
 * 		return err_wrap(err, "start machine %" STR_FMT, STR_ARG(id));
 *
 * Every request passes an endpoint (cloud/endpoint.h): while the API is unavailable, requests fail
 * immediately, one probe at a time is sent, and all objects continue together when it is back. A
 * GET whose connection broke before an answer came is sent again by the HTTP client; nothing else
 * is repeated here: a failed operation is run again by its controller, with back-off. The HTTP
 * client enforces the fence, the number of simultaneous requests and the largest size of answers.
 *
 * Threads: any.
 */
#ifndef CCMD_CLOUD_REST_H
#define CCMD_CLOUD_REST_H

#include "base/json.h"
#include "cloud/host.h"
#include "cloud/login.h"
#include "http/http.h"

struct rest; /* opaque */

struct rest_config {
	const struct cloud_host *host;
	/* The cloud's name: "mycloud", at most 15 bytes. It is the name of the client's thread, and
	 * of the client in logs and metrics; texts call the API "the mycloud API". It lives as long
	 * as the process. */
	const char *name;
	struct str base_url;              /* "https://api.example.com/v1" */
	const struct login_secret *token; /* copied; NULL: the API wants none */
	const char *token_header; /* "X-Key"; NULL: the token is sent as "Authorization: Bearer" */
	/* Instead of token, if the token cannot simply be read: an OAuth token, for example. It
	 * must outlive the client. */
	struct http_auth *auth;
	/* Appends the API's message of an error to ret, nothing if the answer has none. root is
	 * NULL if the answer is not JSON. NULL: the members that rest_do() names are looked for. */
	void (*add_message)(struct buf *ret, yyjson_val *root);
	struct tls_config tls; /* all zero: the system's certificate authorities */
	/* A 404 counts as ERR_NOT_FOUND, for which nodes may be deleted, only if its body is JSON:
	 * other 404s may be pages of a proxy or of a wrong address. Set this for an API whose 404s
	 * have no JSON. */
	bool has_plain_404;
};

/** Starts a client; no request is made yet. ERR_INVALID: the URL cannot be used. */
NODISCARD bool rest_new(const struct rest_config *config, struct rest **ret, struct error *err);
void rest_free(struct rest *); /* NULL is fine */
DEFINE_CLEANUP(struct rest, rest_free)

/** The target of a request: before, then id percent-encoded, then after; in the call's arena. */
struct str rest_target(struct call *, const char *before, struct str id, const char *after);

/** Sends a request and reads the answer.
 *
 * @param request  content_type may be left out where there is a body: it is application/json
 * @param ret      the answer's JSON, yours to free; *ret is NULL if the answer has no body.
 *                 ret NULL: the body is not wanted, so it need not be JSON.
 * @return  true after a 2xx. On false, err->code follows the status as http_status_error() says,
 *          e.g. ERR_NOT_FOUND, ERR_CONFLICT, ERR_THROTTLED; the message ends with the API's own,
 *          which is looked for in "error.message", "message", "error" and "detail" of the answer.
 *          ERR_UNAVAILABLE also for a 2xx that is not JSON.
 *          If there was no answer, the codes are those of http_do().
 */
NODISCARD bool rest_do(struct rest *, struct call *, const struct http_request *request,
                       yyjson_doc **ret, struct error *err);

/* ---- absence ----
 *
 * A node is deleted, or a Service released, because a function of a provider fails with
 * ERR_NOT_FOUND. A provider may give another failure that code by mistake, so rest_do() notes in
 * the call what the API answered, and the framework believes ERR_NOT_FOUND only
 *
 * 	- if the last answer is a 404, and no request was answered with a success before: that 404
 * 	  might be about another object, such as a part of the machine;
 * 	- or, of a search, if the last answer is a success: the list lacks what was looked for;
 * 	- or if the provider has set call->answers.is_absent, and its last request did not fail. */

/** Forgets the answers of the call so far, before a function of a provider is called. */
void rest_forget_answers(struct call *);
/** After such a function failed: if err is an ERR_NOT_FOUND that is not to be believed, its code
 * becomes ERR_UNAVAILABLE, and the text says why. */
void rest_check_absence(const struct call *, bool is_search, struct error *err);

/* ---- lists ---- */

enum rest_paging {
	REST_ONE_PAGE,    /* one answer is the whole list */
	REST_PAGE_NUMBER, /* page=1, page=2 … */
	REST_OFFSET,      /* offset=0, offset=50 … */
	REST_NEXT_TOKEN,  /* each answer names the next page; null, "" or 0 at the end */
};

/** How an API returns a list. If the API can sort it, ask for an order that does not change, such
 * as by id: then fewer items move from page to page while the list is read. */
struct rest_list {
	const char *target; /* "/machines", or with a query: "/machines?sort=id" */
	const char *items;  /* where an answer has the array: "data.list"; "": it is the answer */
	enum rest_paging paging;
	const char *page_key; /* of the query, for number, offset or token: "page" */
	const char *size_key; /* of the query, for page_size: "limit"; NULL: it is not sent */
	/* At most the API's own maximum. With page numbers or offsets and without a total, a page
	 * with fewer items is the last. */
	size_t page_size;
	/* Where an answer has the next token (text or number): "meta.next". An answer without this
	 * member is an error: if its name were wrong, every list would end with its first page, and
	 * seem to be complete. */
	const char *next;
	bool next_may_be_absent; /* this API leaves it out on the last page */
	const char *total;       /* where an answer has the number of all items; NULL: nowhere */
};

/** Receives one item of a list. The item is valid only during this call, so its texts have to be
 * copied: json_text_at(call->arena, item, "name"). False ends the list with its error. */
typedef bool rest_item_fn(void *arg, struct call *call, yyjson_val *item, struct error *err);

/** Reads a list to its end and hands over its items, one by one, in order.
 *
 * A list is complete if every item was seen, as far as the answers show: each page gave the same
 * total, and as many items came. Without a total it has to be one page, or pages by token: by
 * offset or number, an item is missed if another one is deleted meanwhile.
 *
 * @param ret_is_complete  may be NULL
 * @return  as rest_do(), but never ERR_NOT_FOUND: if the list itself does not exist, that says
 *          nothing about its items. ERR_UNAVAILABLE also: an answer has no such array or no token,
 *          or the list does not end before LIMIT_MACHINES items
 */
NODISCARD bool rest_list(struct rest *, struct call *, const struct rest_list *list,
                         rest_item_fn *item, void *arg, bool *ret_is_complete, struct error *err);

#endif
