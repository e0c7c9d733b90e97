/* tests/simulation/server.h: a model of an HTTP server, as the simulated world sees it.
 *
 * A model is a pure state machine. It gets whole requests and returns whole answers; it has no
 * thread, no socket and no clock, and its only random numbers are from the seed that it was created
 * with, so the same calls always give the same answers. The simulation, not the model, decides what
 * happens between a request and its answer: delays, lost answers, incomplete bodies, closed
 * connections.
 *
 * A watch is a request whose answer is a stream: the model sets is_stream, keeps the id of the
 * request, and pushes lines through the sink until one side ends the stream.
 *
 * Two programs use a model: the simulation (tests/simulation/), and a small HTTP server on loopback
 * that is used to compare the model's answers with those of the real server.
 *
 * Threads: none. All functions of a model are called from one thread.
 */
#ifndef CCMD_TESTS_SIMULATION_SERVER_H
#define CCMD_TESTS_SIMULATION_SERVER_H

#include "base/buf.h"

struct server;

/** A request; its memory is the caller's, and valid during handle(). */
struct server_request {
	uint64_t id; /* unique in the life of the model; names the stream, if it becomes one */
	const char *method;              /* "GET" */
	struct str target;               /* path and query, as on the request line */
	struct str accept, content_type; /* empty: absent */
	struct str token;                /* of "Authorization: Bearer …"; empty: absent */
	struct str basic;                /* of "Authorization: Basic …"; empty: absent */
	struct str user_agent;
	struct str body;
};

/** An answer. handle() gets it empty, with status 0, and fills it. */
struct server_response {
	int status;
	struct buf headers; /* "Name: value\r\n" for each, without Content-Length and Date */
	struct buf body;    /* of a stream: its beginning */
	bool is_stream;     /* the answer stays open; the model pushes the rest */
};

/** Where a model pushes the bytes of its streams. */
struct server_sink {
	void (*push)(void *arg, uint64_t stream, struct str bytes);
	void (*end)(void *arg,
	            uint64_t stream); /* a regular end; the model has forgotten the stream */
	void *arg;
};

struct server_ops {
	void (*handle)(struct server *, const struct server_request *, struct server_response *);
	/* The client has closed a stream, or the connection broke. */
	void (*closed)(struct server *, uint64_t stream);
	/* Sets the time. The model does what has become due: actions end, bookmarks are sent. The
	 * time never decreases. */
	void (*advance)(struct server *, int64_t wall_ns);
	/* The next time at which advance() would do something; CLOCK_FOREVER: nothing is due. */
	int64_t (*next_ns)(const struct server *);
	void (*free)(struct server *);
};

/** A model embeds this as its first member. */
struct server {
	const struct server_ops *ops;
	struct server_sink sink; /* set by the owner before the first request */
};

#endif
