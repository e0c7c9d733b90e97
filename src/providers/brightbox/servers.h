/* servers.h: servers as machines of nodes (docs/spec/brightbox.md, "Instances").
 *
 * The name of a node is the id of its server. A server that is deleted or has failed counts as
 * absent, like one that the API does not know, because it cannot run again.
 *
 * Threads: any.
 */
#ifndef CCMD_BRIGHTBOX_SERVERS_H
#define CCMD_BRIGHTBOX_SERVERS_H

#include "cloud/cloud.h"
#include "providers/brightbox/client.h"

#define BB_PROVIDER_ID_PREFIX "brightbox://"

/** As in struct cloud_ops. A server that cannot be described is left out of the list, so that it is
 * asked for by its id, and only its own node is affected. */
NODISCARD bool bb_servers_list(struct cloud *, struct call *, struct machine_list *ret,
                               struct error *err);
NODISCARD bool bb_servers_get(struct cloud *, struct call *, struct str id, struct machine *ret,
                              struct error *err);

/** Does a server in that state exist? One that is being deleted still does. */
bool bb_server_exists(const struct bb_server *);
/** Describes a server that exists. ERR_UNAVAILABLE, with the official controller's words: it cannot
 * be described. */
NODISCARD bool bb_server_describe(const struct bb_server *, struct arena *, struct machine *ret,
                                  struct error *err);

#endif
