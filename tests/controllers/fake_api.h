/* tests/controllers/fake_api.h: an API server that answers by rules and keeps what it was asked.
 *
 * Rules are tried in the order they were added; one with `times` is used up. Where none applies: a
 * PATCH gives the object's new resource version, from 1001 upwards; a GET finds nothing; everything
 * else succeeds. Nothing changes by a write: a test that wants the store to hear of one says so.
 *
 * Threads: any.
 */
#ifndef CCMD_TESTS_CONTROLLERS_FAKE_API_H
#define CCMD_TESTS_CONTROLLERS_FAKE_API_H

#include "http/http.h"

struct api_rule {
	enum http_method method;
	const char *part; /* of the target; NULL: any */
	unsigned times;   /* 0: for ever */
	int status;       /* 0: no answer comes, for the reason `code` */
	const char *body; /* borrowed; NULL: "{}" */
	enum err_code code;
	bool hangs; /* until the call is cancelled */
};

struct api_request {
	enum http_method method;
	char *target, *body;
};

struct fake_api;

struct fake_api *fake_api_new(void);
void fake_api_free(struct fake_api *);
struct http_client *fake_api_client(struct fake_api *);

void fake_api_rule(struct fake_api *, struct api_rule rule);
/** Asked where no rule applies: returns a status and appends the answer's body; 0: it is not for
 * it. */
typedef int fake_api_answer_fn(void *arg, const struct api_request *request, struct buf *body);
void fake_api_answer_with(struct fake_api *, fake_api_answer_fn *answer, void *arg);
/** Forgets what it was asked. */
void fake_api_forget_requests(struct fake_api *);
/** Back to how it began; what it was asked stays. */
void fake_api_forget_rules(struct fake_api *);

/** How many requests had that method and part in their target. */
size_t fake_api_count(struct fake_api *, enum http_method method, const char *part);
/** The i-th of them; valid until fake_api_free(). Ends the program when there were fewer. */
const struct api_request *fake_api_nth(struct fake_api *, enum http_method method, const char *part,
                                       size_t i);

/** How many Events with that reason were created on that object (NULL: on any). */
size_t fake_api_events(struct fake_api *, const char *reason, const char *name);
/** The message of the last of them; ends the program when there was none. */
const char *fake_api_last_event(struct fake_api *, const char *reason);

#endif
