/* haproxy.h: all load balancers as one HAProxy configuration on this host.
 *
 * The file belongs to ccmd alone and is always complete. A new one is written beside it, checked by
 * HAProxy itself, renamed over it, and loaded by a command; so HAProxy never reads a broken file.
 * One caller at a time does this, at most once a second, for all changes made until then; other
 * callers get ERR_PENDING. A file with unchanged content is not loaded again.
 *
 * Threads: any.
 */
#ifndef CCMD_CLOUDLYCKE_HAPROXY_H
#define CCMD_CLOUDLYCKE_HAPROXY_H

#include "providers/cloudlycke/state.h"

struct cl_haproxy;

/** The configuration is copied; the state and host outlive it. */
struct cl_haproxy *cl_haproxy_new(const struct cl_balancers *config, struct cl_state *state,
                                  const struct cloud_host *host);
void cl_haproxy_free(struct cl_haproxy *); /* NULL is fine */
DEFINE_CLEANUP(struct cl_haproxy, cl_haproxy_free)

/** ERR_INVALID: the Service asks for something that HAProxy cannot do. */
NODISCARD bool cl_haproxy_accepts(const struct cl_allocation *, struct error *err);

/** Returns true when HAProxy has loaded all allocations made before the call; if nothing
 * responds at its socket, when the reload's command has succeeded. ERR_PENDING with retry_after_ms:
 * another caller is updating it, or the last reload is too recent. After any other error the former
 * file is in use, or the new one may not be loaded yet. Checks the fence. */
NODISCARD bool cl_haproxy_apply(struct cl_haproxy *, struct call *call, struct error *err);

/** Appends the whole configuration file. Pure: equal records give the same text. Names in it come
 * from Kubernetes objects, so only letters, digits, "-", "_" and "." get there; addresses and
 * numbers are written from their values.
 *
 * Records with is_deleting or is_left_out are not in it. stats_socket empty: no socket, and a
 * reload loses the servers' state and the table of client affinity. Other sockets are named after
 * it: SOCKET.peers, SOCKET.idle. */
void cl_haproxy_file(struct buf *b, struct cl_record *const records[], size_t n,
                     struct str stats_socket);

/** The bytes that the record can take in the file, at most. Cost: as many steps as it has nodes. */
size_t cl_haproxy_size(const struct cl_record_values *);

/** The balancers in the text of such a file, by namespace and name of their Services. */
void cl_haproxy_list(struct str text, struct arena *arena, struct lb_listed **ret, size_t *ret_n);

/** Appends the name as it is in the file, or a hash of it if HAProxy could read it as something
 * else. A balancer's frontends and backends are called NAME-PORT-v4 and NAME-PORT-v6. */
void cl_haproxy_add_name(struct buf *b, struct str name);

#endif
