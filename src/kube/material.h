/* kube/material.h: certificates and keys, as files give them.
 *
 * Files are compared by content, since the kubelet swaps symbolic links. What cannot be read or
 * used changes nothing. Not for several threads at once: the connection has the lock.
 */
#ifndef CCMD_KUBE_MATERIAL_H
#define CCMD_KUBE_MATERIAL_H

#include "kube/config.h"
#include "http/http.h"

struct material {
	char *ca_file, *cert_file, *key_file; /* "": inline, or none */
	struct secret ca_pem;                 /* none: see trusts_nothing */
	bool trusts_nothing;
	bool is_insecure;
	struct secret cert_pem, key_pem; /* none, or both */
};

/** What differs. */
enum material_change {
	MATERIAL_SAME = 0,
	MATERIAL_CA = 1,
	MATERIAL_CERT = 2,
};

void material_init(struct material *m, const struct kube_config *config);
void material_fini(struct material *m);

/** Reads the files again. The sum of enum material_change; *err has the last problem, with a code
 * that is not ERR_NONE, when there was one, and counts are in
 * rest_client_transport_ca_reload_total. */
unsigned material_follow(struct material *m, struct error *err);

/** As another configuration has it; false, with ERR_INVALID, when that cannot work. */
NODISCARD bool material_update(struct material *m, const struct kube_config *config,
                               unsigned *ret_changes, struct error *err);

/** Another client certificate, from elsewhere. ERR_INVALID when it and the key cannot work; both
 * empty: none any more. */
NODISCARD bool material_set_cert(struct material *m, const struct secret *cert_pem,
                                 const struct secret *key_pem, struct error *err);

/** Views of it; with_cert false: without the client certificate. */
struct tls_config material_tls(const struct material *m, bool with_cert);

#endif
