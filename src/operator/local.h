/* operator/local.h: requests to the ccmd process that runs on this machine, and the metrics that it
 * answers with.
 *
 * Paths that are open to everyone are requested without credentials, so the server's certificate,
 * which is often self-signed, need not be verified. Other paths are requested at --secure-port with
 * the credentials of the kubeconfig. That is possible only if the certificate that the server must
 * present is in a file: --tls-cert-file or --cert-dir. No token is sent to a server that does not
 * present it.
 *
 * Each request has a connection of its own. Texts are copied into the arena of the view.
 *
 * Of the text format of Prometheus it reads what /metrics of ccmd uses: a line is
 * NAME{LABEL="VALUE",…} NUMBER. Comments, infinite numbers and lines that are something else are
 * skipped, so an answer of another server gives no samples rather than wrong ones. Labels of ccmd
 * have no escapes, and none are decoded.
 *
 * Threads: one.
 */
#ifndef CCMD_OPERATOR_LOCAL_H
#define CCMD_OPERATOR_LOCAL_H

#include "operator/view.h"

/** A path of --secure-port that is open to everyone. Any status is an answer. */
NODISCARD bool local_get_open(struct view *, const char *target, int *ret_status, struct str *ret,
                              struct error *err);
/** A path of --secure-port that needs a right. Fails with the error of the status unless that is
 * 200. */
NODISCARD bool local_get(struct view *, const char *target, struct str *ret, struct error *err);

/** The same from another process: from an https URL, with the authorities in that file, or those of
 * this machine if it is NULL. The credentials are those of the kubeconfig as well. */
NODISCARD bool local_get_at(struct view *, const char *url, const char *ca_file, const char *target,
                            struct str *ret, struct error *err);

/** The URL of the listener without TLS, which has only /metrics: --metrics-bind-address, or that of
 * the cloud. False: there is none. */
NODISCARD bool local_find_plain_listener(struct view *, struct str *ret_url);

/** /metrics, from the first of these listeners that is configured: the one without TLS, then
 * --secure-port, with the credentials of the kubeconfig. */
NODISCARD bool local_get_metrics(struct view *, struct str *ret, struct error *err);

/* ---- samples; pure functions ---- */

/** Views of the text. */
struct sample {
	struct str name;
	struct str labels; /* between the braces; empty: none */
	double value;
};

/** Cuts the front of *rest off, with the next sample of that name (NULL: of any). At first,
 * rest->ptr must not be NULL. False: no such sample is left. */
bool samples_next(struct str *rest, const char *name, struct sample *ret);

/** The value of a label; empty if the sample does not have it. */
struct str sample_label(const struct sample *, const char *label);

/** The first sample of that name whose label has that value; label NULL: the first one. False:
 * there is none, which is not the same as 0: the process may be of an older version, or another
 * program.
 */
bool samples_find(struct str text, const char *name, const char *label, struct str value,
                  double *ret);

/** The sum of all samples of that name. If label is not NULL, only samples count whose label has a
 * value that starts with `begin`. */
double samples_sum(struct str text, const char *name, const char *label, const char *begin);

#endif
