/* kube/tls_files.h: certificates and keys, as files give them.
 *
 * Files are compared by content, since the kubelet swaps symbolic links. What cannot be read or
 * used changes nothing. Not for several threads at once: the connection has the lock.
 */
#ifndef CCMD_KUBE_TLS_FILES_H
#define CCMD_KUBE_TLS_FILES_H

#include "kube/config.h"
#include "http/http.h"

struct tls_files {
	char *ca_file, *cert_file, *key_file; /* "": inline, or none */
	struct secret ca_pem;                 /* none: see trusts_nothing */
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

/** Reads the files again. The sum of enum tls_files_change; *err has the last problem, with a code
 * that is not ERR_NONE, when there was one, and counts are in
 * rest_client_transport_ca_reload_total. */
unsigned tls_files_follow(struct tls_files *m, struct error *err);

/** As another configuration has it; false, with ERR_INVALID, when that cannot work. */
NODISCARD bool tls_files_update(struct tls_files *m, const struct kube_config *config,
                                unsigned *ret_changes, struct error *err);

/** Another client certificate, from elsewhere. ERR_INVALID when it and the key cannot work; both
 * empty: none any more. */
NODISCARD bool tls_files_set_cert(struct tls_files *m, const struct secret *cert_pem,
                                  const struct secret *key_pem, struct error *err);

/** Views of it; with_cert false: without the client certificate. */
struct tls_config tls_files_config(const struct tls_files *m, bool with_cert);

#endif
