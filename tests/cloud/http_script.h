/* http_script.h: an HTTP client that answers from a script, for tests of providers.
 *
 * Answers belong to a target ("/servers/1", or "/servers/" and a star for all that begin so), of
 * any method or of one ("DELETE /load_balancers/1"): each is given once, in the order they were
 * added, the last one again and again. A request without one fails the test.
 *
 * A provider gets the client as cloud_host.http (fake_host.h), or in place of one of its own.
 */
#ifndef CCMD_TESTS_CLOUD_HTTP_SCRIPT_H
#define CCMD_TESTS_CLOUD_HTTP_SCRIPT_H

#include "http/http.h"

enum {
	HTTP_SCRIPT_ANSWERS = 64,
};

struct http_script_answer {
	const char *target;
	int status;       /* 0: none comes, for the reason `code` */
	const char *body; /* NULL: empty; must live as long as the script */
	enum err_code code;
	int64_t retry_after_ms;
	int64_t limit, remaining, reset_s; /* RateLimit-*; limit 0: none */
	bool replaces_credentials;         /* after this answer, those of the client are others */
	bool is_used;
};

struct http_script {
	struct http_client client;
	struct http_script_answer answers[HTTP_SCRIPT_ANSWERS];
	size_t n_answers;
	struct buf
		asked; /* the targets, each with a new line; of what is no GET "POST target body" */
	unsigned n_asked;
	const char *correlation_id; /* of all answers; NULL: none */
};

void http_script_init(struct http_script *);
void http_script_fini(struct http_script *);

void http_script_add(struct http_script *, struct http_script_answer answer);
void http_script_answer(struct http_script *, const char *target, int status, const char *body);
/** What was asked so far, and forgets it. */
void http_script_check_asked(struct http_script *, const char *targets);

#endif
