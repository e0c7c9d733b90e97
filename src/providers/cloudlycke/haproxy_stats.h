/* haproxy_stats.h: what a running HAProxy knows of its servers, kept for the one that takes its place. */
#ifndef CCMD_CLOUDLYCKE_HAPROXY_STATS_H
#define CCMD_CLOUDLYCKE_HAPROXY_STATS_H

#include "base/clock.h"

/** Asks at the socket for the state of all servers and writes it to SOCKET.state, so that a server that is down is not
 * taken for one that is up after a reload. No HAProxy, no answer within 2 s: nothing is kept, and health checks find out
 * anew. socket empty: nothing to do. */
void cl_haproxy_keep_server_state(struct str socket, struct clock *clock);

#endif
