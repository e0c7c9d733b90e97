/* confine.h: gives up what the program will not need, as --sandbox says (base/sandbox.h).
 *
 * Rules name the folders of what the flags and the kubeconfigs name, so both have to be known; and
 * threads are only bound by what was given up before them.
 */
#ifndef CCMD_CONFINE_H
#define CCMD_CONFINE_H

#include "cloud/cloud.h"
#include "flags/options.h"
#include "kube/connection.h"
#include "serving.h"

/** First of all, before anything secret is read: no core files; and unless the sandbox is off, no
 * debugger. */
void confine_secrets(const struct options *);

/** Once the configuration is known, before the first thread. Not where an exec plugin or a hook of
 * the cloud is configured: programs that we start would be bound by the same rules. What is in
 * force is logged. */
void confine(const struct options *, const struct kube_connection *,
             const struct review_connections *, const struct cloud_needs *);

#endif
