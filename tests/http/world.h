/* tests/http/world.h: a server, a client and all that a request needs, for tests of http/http.h.
 */
#ifndef CCMD_TESTS_NET_WORLD_H
#define CCMD_TESTS_NET_WORLD_H

#include "http/http.h"
#include "http/loopback.h"

#define MS NS_PER_MS
#define PATIENCE_MS 20000 /* far more than a busy machine takes */

struct world {
	struct loopback *server;
	struct http_config config;
	struct http_client *client;
	struct cancel *cancel;
	struct call call;
	struct error err;
	struct http_response response; /* of the last request */
	char url[64];
};

extern struct identity identity; /* of TLS servers, trusted by default, and for clients */

/** For cmocka: makes the identity, and forgets the proxies of the environment. */
int world_setup(void **state);
int world_teardown(void **state);

void world_init(struct world *w);
void world_fini(struct world *w);

#define WORLD(w)                            \
	CLEANUP(world_fini) struct world w; \
	world_init(&w)

/** Starts a server, of TLS with an identity, and points the configuration to it. */
void start_server(struct world *w, loopback_fn handle, void *arg, const struct identity *id);
void start_client(struct world *w);
/** A plain server and a client for it. */
void start(struct world *w, loopback_fn handle, void *arg);

/** Requests /path?q=1, with JSON when body is not NULL. */
NODISCARD bool send_request(struct world *w, enum http_method method, const char *body,
                            bool can_replay);
void must_get(struct world *w);
/** The message must contain text. */
void must_fail(struct world *w, enum http_method method, enum err_code code, const char *text);

int64_t now_ns(void);
/** Waits until count(server) is n, which another thread brings about. */
void wait_for(struct loopback *server, int (*count)(struct loopback *), int n);

/** Fires the token when the server has so many requests, and a moment later; on a thread of its
 * own: thread_start(…, fire_later, &later). */
struct later {
	struct world *w;
	int n_requests;
	int64_t fired_ns; /* to be read after thread_join() */
};
void *fire_later(void *arg);

/** A source of credentials: TEXT and the generation's number. */
struct badge {
	struct http_auth auth;
	uint64_t generation;
	uint64_t newest; /* so many can be had */
	int n_rejected;
	const char *text; /* "": no header; NULL: an error */
};
struct badge badge_new(const char *text, uint64_t newest);

/** Handlers. */
bool echo(struct visit *v);          /* answers with what came in */
bool silent(struct visit *v);        /* never answers */
bool endless_body(struct visit *v);  /* sends lines without end */
bool wants_token_2(struct visit *v); /* welcomes the bearer of token-2 only */

#endif
