/* controllers/dry_write.h: notes the controllers' writes to Nodes and Services in a dry run
 * (base/dry_run.h).
 *
 * What a patch changes is found by comparing its body with the object: only members that differ are
 * noted, as texts for people.
 *
 * Threads: any.
 */
#ifndef CCMD_CONTROLLERS_DRY_WRITE_H
#define CCMD_CONTROLLERS_DRY_WRITE_H

#include "base/call.h"
#include "kube/node.h"
#include "kube/service.h"

/** Notes a patch for this node, even if the call is about another object. path: of the request. */
void dry_write_node(const struct call *, const struct node *, struct str path, struct str body);
/** Notes that this node would be deleted. */
void dry_write_node_delete(const struct call *, const struct node *, struct str path);
/** Notes a patch for this Service. */
void dry_write_service(const struct call *, const struct service *, struct str path,
                       struct str body);

#endif
