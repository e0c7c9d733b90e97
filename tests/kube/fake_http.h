/* tests/kube/fake_http.h: a transport that answers from a script and keeps what it was asked.
 *
 * Answers are taken in the order they were added; when none is left, the last one is given again.
 * Everything may be looked at from the test's thread while others send. Streams are not scripted.
 */
#ifndef CCMD_TESTS_FAKE_HTTP_H
#define CCMD_TESTS_FAKE_HTTP_H

#include "http/http.h"

struct fake_answer {
	int status;       /* 0: none comes, for the reason `code` */
	const char *body; /* a literal; NULL: empty */
	int64_t retry_after_ms;
	enum err_code code;
	bool hangs; /* until the call is cancelled */
};

/** What was asked, as C strings; absent ones are "". */
struct fake_request {
	enum http_method method;
	enum http_class class;
	bool can_replay;
	char *target, *accept, *content_type, *body;
};

struct fake_http;

struct fake_http *fake_http_new(void);
void fake_http_free(struct fake_http *);
struct http_client *fake_http_client(struct fake_http *);

void fake_http_add(struct fake_http *, struct fake_answer answer);
/** The common case: a status with a body. */
void fake_http_answer(struct fake_http *, int status, const char *body);

size_t fake_http_count(struct fake_http *);
/** The i-th request; valid until fake_http_free(). Ends the program when there were fewer. */
const struct fake_request *fake_http_request(struct fake_http *, size_t i);
/** Returns when n requests have come; ends the program after ten real seconds. */
void fake_http_wait(struct fake_http *, size_t n);

#endif
