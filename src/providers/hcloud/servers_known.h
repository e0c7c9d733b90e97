/* servers_known.h: how each server can be reached, as it was read last.
 *
 * The controllers of nodes read each server every few minutes. What they see is noted here, so that
 * a server without the needed address is not tried as a target of each load balancer: the API would
 * refuse it.
 *
 * When LIMIT_MACHINES servers are known, all of them are forgotten.
 *
 * Threads: any.
 */
#ifndef CCMD_HCLOUD_SERVERS_KNOWN_H
#define CCMD_HCLOUD_SERVERS_KNOWN_H

#include "providers/hcloud/client.h"

struct hz_servers_known;

struct hz_servers_known *hz_servers_known_new(void);
void hz_servers_known_free(struct hz_servers_known *); /* NULL is fine */

/** network: the one of the cluster; 0: none. */
void hz_servers_known_note(struct hz_servers_known *, const struct hz_server *, int64_t network);
/** The reason for which the server cannot be a target: "has no public IPv4 address"; private: "is
 * not attached to the network". NULL: no reason is known. */
const char *hz_servers_known_obstacle(struct hz_servers_known *, int64_t id, bool is_private);

#endif
