/* operator/workload.h: the command line and the plain variables of the controller's Deployment or
 * DaemonSet, so that `kubectl ccmd` reads the same configuration as the controller without the user
 * typing it again.
 *
 * Secrets are never read: a variable that comes from one is named, unless the caller has it. Flags
 * and variables that are about the pod (files, addresses of servers and proxies) are left out, so
 * whoever may change the Deployment can neither make the command run a program nor send a
 * credential elsewhere.
 *
 * Threads: one.
 */
#ifndef CCMD_OPERATOR_WORKLOAD_H
#define CCMD_OPERATOR_WORKLOAD_H

#include "base/json.h"
#include "kube/config.h"
#include "operator/running.h"

/** The query that selects the objects of the chart and of deploy/. */
#define WORKLOAD_SELECTOR "?labelSelector=app.kubernetes.io/name%3Dccmd"

/** Reads it from the API server.
 *
 * @param ret_notes  lines for the user: which object it is, its image, and what was left out
 * @return  On false, err->code is ERR_NOT_FOUND: the cluster has none, or several
 */
NODISCARD bool workload_find(const struct kube_config_source *, struct arena *, struct running *ret,
                             struct buf *ret_notes, struct error *err);

/** The container that runs ccmd; NULL: there is none. object: a Deployment or DaemonSet. */
yyjson_val *workload_container(yyjson_val *object);
/** "cloud-controller-manager" of "registry.k8s.io/x/cloud-controller-manager:v1.30@sha256:…". */
struct str workload_image_name(struct str image);
/** Takes flags and variables from the container. Pure. */
void workload_take(yyjson_val *container, struct arena *, struct running *ret,
                   struct buf *ret_notes);

#endif
