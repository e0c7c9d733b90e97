/* endpoints.h: which path of our server gives what (docs/spec/framework.md, "Endpoints").
 *
 * One table names path, methods and meaning; the reference page is made from it. Whoever asks is
 * first checked by serve/access.h, unknown paths included, so that nobody learns from a 404. Two
 * things are unlike the Go program, which has no /livez, /readyz or /version and whose
 * /healthz/NAME is 404: here they are as in the API server.
 *
 * Threads: the handler on the server's loop; an answer is given there or on the thread of a review.
 */
#ifndef CCMD_SERVE_ENDPOINTS_H
#define CCMD_SERVE_ENDPOINTS_H

#include "base/health.h"
#include "serve/access.h"

struct endpoints_config {
	struct access *access; /* NULL: a plain listener that has /metrics and nothing else, for
	                          everybody */
	struct health *health;
	/** Appends the object under "cloudcontrollermanager.config.k8s.io", without secrets. From
	 * any thread. */
	void (*configz)(void *arg, struct buf *json);
	void *arg;
	bool is_profiling; /* --profiling: /debug/flags/v is there */
};

/** A server's handle(); arg is the config, which must outlive the server. */
void endpoints_handle(void *config, struct server_request *);

/* ---- for the reference page ---- */

struct endpoint {
	const char *path; /* ends with '/': all below it */
	unsigned methods; /* bits of enum server_method; HEAD goes with GET */
	bool needs_profiling;
	const char *about;
	void (*answer)(const struct endpoints_config *, struct server_request *);
};

extern const struct endpoint endpoints[];
extern const size_t n_endpoints;

#endif
