/* haproxy.h: all load balancers as one HAProxy configuration on this host.
 *
 * The file is ours alone and always complete. A new one is written beside it, checked by HAProxy itself, put in its place
 * at once, and loaded by a command; so HAProxy never meets a broken file. One at a time, all that came up meanwhile
 * together, at most once a second: whoever comes in between gets ERR_PENDING. What reads the same is not loaded again.
 *
 * Threads: any.
 */
#ifndef CCMD_CLOUDLYCKE_HAPROXY_H
#define CCMD_CLOUDLYCKE_HAPROXY_H

#include "providers/cloudlycke/allocations.h"

struct cl_haproxy;

/** What it is told is copied; allocations and host outlive it. */
struct cl_haproxy *cl_haproxy_new(const struct cl_balancers *config,
                                  struct cl_allocations *allocations,
                                  const struct cloud_host *host);
void cl_haproxy_free(struct cl_haproxy *); /* NULL is fine */
DEFINE_CLEANUP(struct cl_haproxy, cl_haproxy_free)

/** Can HAProxy do what the Service asks for? ERR_INVALID. */
NODISCARD bool cl_haproxy_accepts(const struct cl_record *draft, struct error *err);

/** Returns true when HAProxy has been told of everything that is in the allocations now. ERR_PENDING with retry_after_ms; else what
 * went wrong, and the file in use is as it was. Asks the fence. */
NODISCARD bool cl_haproxy_apply(struct cl_haproxy *, struct call *call, struct error *err);

/** Appends the whole configuration file. Pure: equal records give the same text. Names in it come from Kubernetes objects, so
 * only letters, digits, "-", "_" and "." get there; addresses and numbers are written from their values.
 *
 * Records that are going are left out. stats_socket empty: none, and neither HAProxy's view of its
 * servers nor whose client is whose is carried over a reload. Other sockets are named after it: SOCKET.peers, SOCKET.idle. */
void cl_haproxy_file(struct buf *b, struct cl_record *const records[], size_t n,
                     struct str stats_socket);

#endif
