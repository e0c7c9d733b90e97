/* serve/authorities.h: the authorities of client certificates that the server trusts, kept up to
 * date.
 *
 * They come from the file of --client-ca-file, or without that flag from the ConfigMap
 * kube-system/extension-apiserver-authentication (docs/spec/kube-client.md, "Authentication"). The
 * ConfigMap's keys about front proxies are not read, because headers of front proxies are ignored.
 *
 * The file is read again every minute, the ConfigMap every 5 min, and both immediately when a
 * certificate was not trusted (at most every 10 s). There is no watch: it would cost a connection
 * of 140 kB for an object that changes once a year, and a change matters only when a certificate is
 * not trusted. If a text cannot be read or used, that is logged once in 10 min, and the last good
 * one stays in use.
 *
 * Threads: authorities_get() and authorities_recheck() from any, authorities_refresh() from one.
 */
#ifndef CCMD_SERVE_AUTHORITIES_H
#define CCMD_SERVE_AUTHORITIES_H

#include "kube/client.h"
#include "serve/server.h"

/** Reads the authorities of clients from the ConfigMap's JSON, into the arena; empty: none.
 * ERR_INVALID: it is not a ConfigMap, or the value is not a string. */
NODISCARD bool authorities_read_map(struct str body, struct arena *arena,
                                    struct str *ret_client_ca_pem, struct error *err);

struct authorities_config {
	struct kube_client *client; /* NULL: the ConfigMap is not read */
	struct clock *clock;
	bool skip_lookup, tolerate_lookup_failure;
	struct str client_ca_file; /* terminated; empty: not given */
};

struct authorities;

/** Reads everything. ERR_INVALID, ERR_NOT_FOUND, ERR_FORBIDDEN: the file cannot be used; and unless
 * that is tolerated, the ConfigMap cannot be read: ERR_FORBIDDEN (the message names the role to
 * bind), ERR_UNAVAILABLE… A ConfigMap that does not exist is a warning. The texts of config must
 * outlive it. */
NODISCARD bool authorities_new(const struct authorities_config *config, struct call *call,
                               struct authorities **ret, struct error *err);
/** NULL is fine. */
void authorities_free(struct authorities *);
DEFINE_CLEANUP(struct authorities, authorities_free)

/** A reference, for the caller, to the current ones; NULL: no client certificate is trusted. */
struct trust *authorities_get(struct authorities *);
/** A certificate was not trusted: returns when (mono) authorities_refresh() should be called. */
int64_t authorities_recheck(struct authorities *);
/** Reads what is due; returns when (mono) to call it again. An upkeep of serve/reviewer.h. */
int64_t authorities_refresh(void *authorities, struct call *call);

#endif
