/* confine.h: gives up the rights that the program will not need, as --sandbox says
 * (base/sandbox.h).
 *
 * The sandbox's rules list the folders of all files that the flags and the kubeconfigs name, so
 * both must have been read before. The rules apply only to threads that are started afterwards.
 */
#ifndef CCMD_CONFINE_H
#define CCMD_CONFINE_H

#include "cloud/cloud.h"
#include "flags/options.h"
#include "kube/connection.h"
#include "serving.h"

/** Must be called before any secret is read. Disables core files and, unless the sandbox is off,
 * prevents debuggers from attaching. */
void confine_secrets(const struct options *);

/** Enters the sandbox; must be called when the configuration is known, before the first thread is
 * started. Does nothing where a credential plugin or programs of the cloud are configured, because
 * the same rules would apply to programs that we start. Logs which parts of the sandbox are active.
 */
void confine(const struct options *, const struct kube_connection *,
             const struct review_connections *, const struct cloud_needs *);

#endif
