/* tests/simulation/net.h: the simulated network between the replicas and the servers.
 *
 * A request needs some time to the server, the model answers it, and the answer needs some time to
 * the replica. The seed decides both times and the faults: a connection is refused; it is closed,
 * or no answer arrives, before or after the server has acted; the server is overloaded; the answer
 * is incomplete. A partition stops all messages between one replica and one server.
 *
 * Threads: none.
 */
#ifndef CCMD_TESTS_SIMULATION_NET_H
#define CCMD_TESTS_SIMULATION_NET_H

#include "replica.h"
#include "server.h"

enum host {
	HOST_KUBE,
	HOST_CLOUD,
	N_HOSTS,
};

/** The kinds of faults, in thousandths of all requests. */
struct net_faults {
	unsigned refused;    /* no connection */
	unsigned closed;     /* before or after the server has acted */
	unsigned silent;     /* likewise; no answer ever comes */
	unsigned refusing;   /* 429, 5xx and other statuses, before the server acts */
	unsigned failing;    /* 502 or 504 by something before the server, which has acted */
	unsigned cut;        /* the body ends early */
	unsigned slow;       /* the answer takes seconds */
	unsigned emptied;    /* the cloud's list of servers is empty */
	unsigned page;       /* a page of a proxy, which is not JSON, before the server acts */
	unsigned stream_cut; /* a watch breaks within minutes */
	/* Requests whose target contains this are answered with an error; NULL: none. */
	const char *broken;
	/* Of the patches of Services only: a connection that is closed after the server has acted,
	 * and 409 in place of acting, because others write to the same object. */
	unsigned lost_patches, conflicts;
};

/** A request as a check gets it, when it has arrived at the server. */
struct net_request {
	const struct replica *replica;
	unsigned incarnation; /* of the replica that sent it */
	enum host host;
	int64_t sent_ns;
	const struct server_request *request;
};

struct net_hooks {
	void (*arrived)(const struct net_request *);
	/* The server has acted. The answer may yet be lost. */
	void (*acted)(const struct net_request *, const struct server_response *);
	/* The cloud's answer to this request if its list of servers is empty; empty: it is another
	 * request. NULL: no list is emptied. */
	struct str (*empty_list)(struct str target);
	/* Answers in place of the server; false: it does not. NULL: it never does. */
	bool (*answer)(const struct net_request *, struct server_response *);
	/* The answer has reached the replica. NULL: nobody wants to know. */
	void (*delivered)(const struct net_request *, const struct server_response *);
	/* A replica sends a request, and it has ended there. status 0: without a complete answer
	 * of the server. NULL: nobody wants to know. */
	void (*sent)(const struct net_request *);
	void (*ended)(const struct net_request *, int status);
};

void net_start(uint64_t seed, const struct net_hooks *hooks);
/** Also sets the sink of its streams. */
void net_set_server(enum host, struct server *);
struct net_faults *net_faults(enum host);
void net_set_latency(enum host, int64_t min_ns, int64_t max_ns);
void net_partition(const struct replica *, enum host, bool is_cut);
/** Brings the models to the present: must be called before an actor uses one directly. */
void net_advance(enum host);
/** Must be called after an actor has used a model: more may have become due. */
void net_arm(enum host);
/** All requests that were sent to a server since the start. */
uint64_t net_count(enum host);

/* ---- for curl_model.c ---- */

struct easy;
struct exchange;

struct net_message {
	const char *method;
	struct str target, accept, content_type, token, basic, user_agent, body;
	bool is_reused; /* on a connection that was used before */
};

/** Sends a copy of the request. */
struct exchange *net_send(const struct replica *, enum host, const struct net_message *,
                          struct easy *);
/** The client is no longer interested: closes the connection. */
void net_close(struct exchange *);

#endif
