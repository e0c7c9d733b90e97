/* operator/status.h: `ccmd status`: which replica leads, and the state of the running controller.
 *
 * It reads the Lease from the API server, and from the running process on this machine its health
 * and its metrics (operator/local.h).
 *
 * status_read() reads; the others are pure.
 *
 * Threads: one.
 */
#ifndef CCMD_OPERATOR_STATUS_H
#define CCMD_OPERATOR_STATUS_H

#include "operator/view.h"

/** Requests since the start of the process. */
struct status_totals {
	double start; /* of the process, Unix time; differs if another process answered */
	double api_server, cloud;
};

struct status {
	/* the Lease */
	bool has_election;
	struct str lease_name;
	const struct view_lease *lease; /* NULL: it could not be read, or there is no election */
	struct error lease_err;
	int64_t now_s; /* Unix time by the API server's clock */

	/* the pods of ccmd */
	bool has_pods; /* false: they could not be listed */
	bool is_in_pod;
	struct str pod_name;
	struct str pod_namespace;
	size_t n_pods, n_ready_pods;

	/* the process */
	bool has_server; /* --secure-port is not 0 */
	bool is_reached; /* it has answered; else server_err */
	struct error server_err;
	bool is_healthy, is_ready;
	struct str checks; /* the text of /healthz?verbose */

	/* its metrics */
	bool has_metrics; /* else metrics_err says why not */
	struct error metrics_err;
	struct str metrics;
	/* if nodes are held: the names of nodes that are not Ready, the held ones among them; empty
	 * if they could not be listed */
	struct str not_ready;
	struct status_totals totals;
	/* of the previous reading, or NULL; the text shows the difference */
	const struct status_totals *totals_before;
};

/** Reads everything. Texts live as long as the view. */
void status_read(struct view *, struct status *ret);

/** 0: a replica leads, and the process is healthy; 1: no replica leads, or the process is not
 * healthy; 2: the Lease or the process could not be read. */
int status_exit_code(const struct status *);

/** Appends lines of text. */
void status_print(const struct status *, struct buf *out);
/** Appends one JSON object and a line feed. */
void status_print_json(const struct status *, struct buf *out);

#endif
