/* serve/server.h: the HTTPS server behind --secure-port, and a plain one for metrics.
 *
 * HTTP/1.1 with keep-alive on OpenSSL (TLS 1.2 and newer), on the event base of the caller: one
 * thread, main's. Handlers run there. They answer before they return, or keep the request and
 * answer later from any thread. SIGPIPE must be ignored.
 *
 * Clients cannot affect the rest of the program. There are at most LIMIT_SERVER_CONNECTIONS
 * connections. Handshake and headers must arrive within LIMIT_SERVER_HEADERS_MS, an answer must be
 * read within LIMIT_SERVER_WRITE_MS, and headers and bodies have bounded sizes, which are checked
 * before anything is stored. If there are too many connections, a new one closes one of the client
 * address that has the most: the one that has been idle for longest, else the one whose client has
 * kept us waiting for longest. Connections whose request waits for a handler are not closed; if all
 * connections have one, the new connection is refused. So handlers should keep fewer requests
 * waiting (LIMIT_SERVER_PENDING): then a client that opens many connections cannot keep a probe
 * out. A client's certificate is requested, not required, and the handshake does not check it;
 * serve/access.h does that.
 *
 * Bodies need a Content-Length: chunks are refused with 411, as RFC 9112 6.3 allows. There is no
 * HTTP/2 and no compression.
 *
 * Threads: everything on the loop's thread, except server_reply() and reading a request that was
 * not answered yet.
 */
#ifndef CCMD_SERVE_SERVER_H
#define CCMD_SERVE_SERVER_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"

struct event_base;
struct server;
struct server_request;

/** One certificate for the names in it, or for those given ("*.example.com,example.com"):
 * --tls-sni-cert-key. */
struct server_certificate {
	struct str cert_file, key_file;
	struct str names; /* empty: the certificate's own */
};

struct server_tls {
	bool is_plain; /* no TLS at all: the metrics listener */
	struct server_certificate
		main; /* no cert_file: self-signed, P-256, renewed at 80 % of its life */
	const struct server_certificate *sni; /* in the order given */
	size_t n_sni;
	const char *const *self_signed_names; /* host names and addresses; NULL at the end */
	/* --cert-dir, terminated: the self-signed pair is kept there, named after pair_name */
	struct str cert_folder;
	const char *pair_name;   /* "cloud-controller-manager" */
	struct str ciphers;      /* of TLS 1.2, OpenSSL's names; empty: our list */
	struct str ciphersuites; /* of TLS 1.3; empty: all */
	struct str groups;       /* --tls-curve-preferences, OpenSSL's names; empty: OpenSSL's */
	int min_version;         /* TLS1_2_VERSION or TLS1_3_VERSION; 0: 1.2 */
};

struct server_config {
	/* "0.0.0.0", "127.0.0.1", "::1", "::" (which includes IPv4), or a name; of its addresses
	 * the first IPv4 one, if any. */
	struct str address;
	int port;        /* 0: the kernel picks one, see server_port() */
	bool share_port; /* SO_REUSEPORT; SO_REUSEADDR is always set, as Go does */
	struct server_tls tls;
	struct event_base *loop;
	struct clock *clock;
	/** Called for each request; must lead to exactly one server_reply(). */
	void (*handle)(void *arg, struct server_request *);
	void *arg;
	/* serve/internal.h; NULL: those of base/limits.h. Tests have shorter ones */
	const struct server_limits *limits;
};

/** Binds and listens. Copies what it needs. ERR_EXISTS the address is taken; ERR_INVALID
 * certificates, ciphers or the address cannot be used; ERR_TIMEOUT a name was not resolved within
 * LIMIT_SERVER_LOOKUP_MS; ERR_FORBIDDEN. */
NODISCARD bool server_new(const struct server_config *config, struct server **ret,
                          struct error *err);
/** Closes all connections. A request that is not answered yet lives until server_reply(), which
 * then drops the answer. NULL is fine. */
void server_free(struct server *);
int server_port(const struct server *);
/** Reads certificate files again if they changed; called every minute, and on SIGHUP. A pair that
 * cannot be used is logged, and the last good one stays. */
void server_reload(struct server *);

/* ---- a request: valid until server_reply() ---- */

enum server_method {
	SERVER_GET,
	SERVER_HEAD,
	SERVER_POST,
	SERVER_PUT,
	SERVER_DELETE,
	SERVER_OTHER
};

enum server_method server_request_method(const struct server_request *);
struct str
server_request_path(const struct server_request *); /* decoded once, "/healthz"; no NUL in it */
/** The n-th value of a query parameter, decoded into the arena; false when the query has fewer.
 * Parameters with a broken escape or %00 do not count. */
bool server_request_parameter(const struct server_request *, const char *name, size_t n,
                              struct arena *, struct str *ret);
/** The n-th header of that name, in any case; false when the request has fewer. */
bool server_request_header(const struct server_request *, const char *name, size_t n,
                           struct str *ret);
struct str server_request_body(const struct server_request *);
struct str server_request_peer(const struct server_request *); /* the client's address, for logs */

struct server_response {
	int status;
	const char *content_type; /* NULL: text/plain; charset=utf-8 */
	/* name, value, …, NULL; beside Cache-Control and nosniff, which every answer has */
	const char *const *headers;
	struct str body; /* copied */
};

/** Answers and releases the request. From any thread, exactly once; also if the client or the
 * server is gone. The answer to HEAD has no body. */
void server_reply(struct server_request *, const struct server_response *);

/* ---- client certificates ---- */

/** Certificate authorities that client certificates are checked against: immutable,
 * reference-counted. */
struct trust;
/** One reference. ERR_INVALID: ca_pem has no certificate. */
NODISCARD bool trust_new(struct str ca_pem, struct trust **ret, struct error *err);
struct trust *trust_ref(struct trust *);
void trust_unref(struct trust *); /* NULL is fine */
DEFINE_CLEANUP(struct trust, trust_unref)

struct peer_name {
	struct str common_name;
	struct str *organizations;
	size_t n_organizations;
};

/** Did the client send a certificate? */
bool server_request_has_certificate(const struct server_request *);
/** Is the certificate valid now, for client authentication, under these authorities? The names in
 * *ret are in the arena. ERR_UNAUTHORIZED with the reason, for the log. */
NODISCARD bool server_request_verify(const struct server_request *, const struct trust *,
                                     struct arena *, struct peer_name *ret, struct error *err);

#endif
