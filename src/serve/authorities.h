/* serve/authorities.h: which authorities of client certificates our server trusts, kept up to date.
 *
 * From the file of --client-ca-file, or without that from the ConfigMap
 * kube-system/extension-apiserver-authentication (docs/spec/kube-client.md, "Authentication"). What
 * the ConfigMap says about front proxies is not read: their headers count for nothing.
 *
 * Followed by reading again: the file each minute, the ConfigMap every 5 min, and all at once when a certificate was not
 * trusted (at most every 10 s). Not by a watch: that is a connection of 140 kB for an object that changes once a year,
 * and the moment when a change matters is a certificate that fails. What cannot be read or used is logged once, and the
 * last good stays.
 *
 * Threads: auth_source_get() and auth_source_doubt() from any, auth_source_refresh() from one.
 */
#ifndef CCMD_SERVE_AUTHORITIES_H
#define CCMD_SERVE_AUTHORITIES_H

#include <stdatomic.h>

#include "kube/client.h"
#include "serve/server.h"

/** Reads the ConfigMap's JSON: the authorities of clients, in the arena; empty: none. ERR_INVALID: it is no ConfigMap, or
 * the key is mistyped. */
NODISCARD bool auth_data_read(struct str body, struct arena *arena, struct str *ret_client_ca_pem,
                              struct error *err);

/** Immutable, counted. */
struct auth_config {
	atomic_uint refs;
	struct trust *client; /* NULL: none */
};

void auth_config_unref(struct auth_config *);
DEFINE_CLEANUP(struct auth_config, auth_config_unref)

struct auth_source_config {
	struct kube_client *client; /* NULL: the ConfigMap is not read */
	struct clock *clock;
	bool skip_lookup, tolerate_lookup_failure;
	struct str client_ca_file; /* empty: not given */
};

struct auth_source;

/** Reads everything. ERR_INVALID, ERR_NOT_FOUND, ERR_FORBIDDEN: the file cannot be used; and unless that is tolerated,
 * the ConfigMap cannot be read: ERR_FORBIDDEN (the message names the role to bind), ERR_UNAVAILABLE… A ConfigMap that is
 * not there is a warning. The texts of config must outlive it. */
NODISCARD bool auth_source_new(const struct auth_source_config *config, struct call *call,
                               struct auth_source **ret, struct error *err);
/** NULL is fine. */
void auth_source_free(struct auth_source *);
DEFINE_CLEANUP(struct auth_source, auth_source_free)

/** A reference of yours to what holds now. */
struct auth_config *auth_source_get(struct auth_source *);
/** A certificate was not trusted: returns when (mono) it should be read again. */
int64_t auth_source_doubt(struct auth_source *);
/** Reads what is due; returns when (mono) something will be. */
int64_t auth_source_refresh(struct auth_source *, struct call *call);

#endif
