/* kube/tls_files.h: the certificates and keys of a connection, and the files that they come from.
 *
 * Files are compared by content and not by time, because the kubelet replaces them by switching a
 * symbolic link. A file that cannot be read or used changes nothing: the last content stays in use.
 *
 * Threads: one at a time; kube/connection.c holds its lock.
 */
#ifndef CCMD_KUBE_TLS_FILES_H
#define CCMD_KUBE_TLS_FILES_H

#include "kube/config.h"
#include "http/http.h"

struct tls_files {
	char *ca_file, *cert_file, *key_file; /* "": inline, or none */
	struct secret ca_pem;                 /* none: the system's, unless trusts_nothing */
	bool trusts_nothing;
	bool is_insecure;
	struct secret cert_pem, key_pem; /* none, or both */
};

/** What differs. */
enum tls_files_change {
	TLS_FILES_SAME = 0,
	TLS_FILES_CA = 1,
	TLS_FILES_CERT = 2,
};

void tls_files_init(struct tls_files *m, const struct kube_config *config);
void tls_files_fini(struct tls_files *m);

/** Reads the files again. Returns the sum of enum tls_files_change. *err has the last problem if
 * there was one, and the code ERR_NONE if not. Each reading of the authorities is counted in
 * rest_client_transport_ca_reload_total. */
unsigned tls_files_follow(struct tls_files *m, struct error *err);

/** Takes over the files and texts of another configuration. False with ERR_INVALID, and nothing
 * changed, if they cannot be used. */
NODISCARD bool tls_files_update(struct tls_files *m, const struct kube_config *config,
                                unsigned *ret_changes, struct error *err);

/** Sets a client certificate that does not come from the files, or none if both are empty.
 * ERR_INVALID, and nothing changed, if certificate and key do not work together. */
NODISCARD bool tls_files_set_cert(struct tls_files *m, const struct secret *cert_pem,
                                  const struct secret *key_pem, struct error *err);

/** Returns views of the texts; with_cert false: without the client certificate. */
struct tls_config tls_files_config(const struct tls_files *m, bool with_cert);

#endif
