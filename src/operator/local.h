/* operator/local.h: requests to the ccmd process that runs on this machine.
 *
 * Paths that are open to everyone are requested without credentials, so the server's certificate,
 * which is often self-signed, need not be verified. Other paths are requested at --secure-port with
 * the credentials of the kubeconfig. That is possible only if the certificate that the server must
 * present is in a file: --tls-cert-file or --cert-dir. No token is sent to a server that does not
 * present it.
 *
 * Each request has a connection of its own. Texts are copied into the arena of the view.
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
/** Fails as local_get() does. */
NODISCARD bool local_get_plain(struct view *, struct str url, const char *target, struct str *ret,
                               struct error *err);

/** /metrics, from the first of these listeners that is configured: the one without TLS, then
 * --secure-port, with the credentials of the kubeconfig. */
NODISCARD bool local_get_metrics(struct view *, struct str *ret, struct error *err);

#endif
