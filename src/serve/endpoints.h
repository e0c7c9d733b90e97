/* serve/endpoints.h: the paths of the server (docs/spec/framework.md, "Endpoints").
 *
 * One table has path, methods and meaning; the reference page is generated from it. serve/access.h
 * checks the caller of every request first, also for paths that do not exist, so that a 404 reveals
 * nothing. Unlike the Go program, which has no /livez, /readyz and /version and answers 404 to
 * /healthz/NAME, this server has them as the API server does.
 *
 * Threads: the handler on the server's loop; an answer is given there or on the thread of a review.
 */
#ifndef CCMD_SERVE_ENDPOINTS_H
#define CCMD_SERVE_ENDPOINTS_H

#include "base/health.h"
#include "serve/access.h"

struct endpoints_config {
	struct access *access; /* NULL: a plain listener, which has only /metrics, for everyone */
	struct health *health;
	/** Appends the object under "cloudcontrollermanager.config.k8s.io", without secrets. From
	 * any thread. */
	void (*configz)(void *arg, struct buf *json);
	void *arg;
	/** Appends what this process knows about an object, as JSON. path follows /debug/objects/.
	 * False: it names no object. From any thread. */
	bool (*describe)(void *describe_arg, struct str path, struct buf *json);
	void *describe_arg;
	bool is_profiling; /* --profiling: there is /debug/flags/v */
};

/** A server's handle(); arg is the config, which must outlive the server. */
void endpoints_handle(void *config, struct server_request *);

/* ---- for the reference page ---- */

struct endpoint {
	const char *path; /* ending with '/': all paths below it */
	unsigned methods; /* bits of enum server_method; HEAD goes with GET */
	bool needs_profiling;
	const char *about;
	void (*answer)(const struct endpoints_config *, struct server_request *);
};

extern const struct endpoint endpoints[];
extern const size_t n_endpoints;

#endif
